#include "run/metrics.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/status.h"
#include "base/clock.h"
#include "base/file.h"
#include "kube/client.h"

#define PROC_MAX_BYTES ((size_t)1 << 20) /* /proc/stat has a number for each interrupt */

static const double bounds_s[METRICS_BOUNDS] = {0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1,
                                                0.25,  0.5,    1,     2.5,  5,    10};

void metrics_add_reconcile(struct metrics_reconciles *r, int64_t ns)
{
    size_t i = 0;

    while (i < METRICS_BOUNDS && (double)ns > bounds_s[i] * 1e9)
        i++;
    r->n[i]++;
    r->sum_ns += ns;
}

/* --- the format --- */

/* The first error stays, and ends the writing. */
struct writer {
    struct buf *out;
    struct err *err;
    enum err_code rc;
    const char *family;
};

static void begin(struct writer *w, const char *name, const char *type, const char *help)
{
    w->family = name;
    if (w->rc == ERR_OK)
        w->rc = buf_addf(w->out, w->err, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* A sample with a label, whose value needs no escapes. */
static void add_with(struct writer *w, const char *suffix, const char *label, const char *text,
                     double value)
{
    if (w->rc == ERR_OK)
        w->rc = buf_addf(w->out, w->err, "%s%s{%s=\"%s\"} %.15g\n", w->family, suffix, label, text,
                         value);
}

static void add_to(struct writer *w, const char *suffix, double value)
{
    if (w->rc == ERR_OK)
        w->rc = buf_addf(w->out, w->err, "%s%s %.15g\n", w->family, suffix, value);
}

static void write_one(struct writer *w, const char *name, const char *type, const char *help,
                      double value)
{
    begin(w, name, type, help);
    add_to(w, "", value);
}

/* --- the operator --- */

static void write_reconciles(struct writer *w, const struct metrics_reconciles *r)
{
    uint64_t n = 0;
    char bound[32];

    begin(w, "skyjob_reconcile_seconds", "histogram", "Time that a reconcile of a job took.");
    for (size_t i = 0; i < METRICS_BOUNDS; i++) {
        n += r->n[i];
        (void)snprintf(bound, sizeof bound, "%g", bounds_s[i]);
        add_with(w, "_bucket", "le", bound, (double)n);
    }
    n += r->n[METRICS_BOUNDS];
    add_with(w, "_bucket", "le", "+Inf", (double)n);
    add_to(w, "_sum", (double)r->sum_ns / 1e9);
    add_to(w, "_count", (double)n);
}

static void write_jobs(struct writer *w, const struct metrics *m)
{
    begin(w, "skyjob_jobs", "gauge", "SkyJobs by the state in their status.");
    for (int i = 0; i <= STATUS_STATES; i++)
        add_with(w, "", "state", i < STATUS_STATES ? status_states[i] : "Unknown",
                 (double)m->n_jobs_in[i]);
    write_one(w, "skyjob_jobs_stalled", "gauge", "SkyJobs whose condition Stalled is True.",
              (double)m->n_stalled);
}

/* Requests without a response, and with 200, are there from the start, so that rates of them are.
 */
static void write_requests(struct writer *w, const uint64_t *n)
{
    char code[16];

    begin(w, "skyjob_kube_requests_total", "counter",
          "Requests to the API server, but for those of the leader election, by status code; "
          "error: there was no response.");
    add_with(w, "", "code", "error", (double)n[0]);
    for (int status = 1; status < KUBE_STATUSES; status++) {
        (void)snprintf(code, sizeof code, "%d", status);
        if (n[status] > 0 || status == 200)
            add_with(w, "", "code", code, (double)n[status]);
    }
}

enum err_code metrics_write(const struct metrics *m, struct buf *out, struct err *err)
{
    struct writer w = {.out = out, .err = err};

    begin(&w, "skyjob_build_info", "gauge", "1, with the version of the operator.");
    add_with(&w, "", "version", SKYJOB_VERSION, 1);
    write_one(&w, "skyjob_leader", "gauge", "Whether this operator leads.", m->is_leader);
    write_reconciles(&w, m->reconciles);
    write_one(&w, "skyjob_reconcile_errors_total", "counter", "Reconciles that failed.",
              (double)m->n_errors);
    write_one(&w, "skyjob_queue_length", "gauge",
              "Jobs that wait for a reconcile, whether it is due or not.", (double)m->n_queued);
    write_one(&w, "skyjob_queue_delay_seconds", "gauge",
              "Time that the reconcile due longest has been due; 0 if this operator does not lead.",
              (double)m->late_ms / 1e3);
    if (m->n_jobs_in)
        write_jobs(&w, m);
    write_requests(&w, m->n_requests);
    begin(&w, "skyjob_watch_events_total", "counter", "Events that watches have received.");
    for (int i = 0; i < m->n_watches; i++)
        add_with(&w, "", "resource", m->watches[i].resource, (double)m->watches[i].n_events);
    begin(&w, "skyjob_watch_skipped_total", "counter",
          "Objects that were skipped, since they could not be read.");
    for (int i = 0; i < m->n_watches; i++)
        add_with(&w, "", "resource", m->watches[i].resource, (double)m->watches[i].n_skipped);
    return w.rc;
}

/* --- the process --- */

/* The number after `word`, and after as many more fields as `n_before`, in a file of /proc. */
static enum err_code read_number(const char *path, const char *word, int n_before, int64_t *out,
                                 struct err *err)
{
    struct buf text = {.max = PROC_MAX_BYTES};
    const char *at = NULL;
    char *end = NULL;
    enum err_code rc = file_read(path, &text, err);

    if (rc == ERR_OK)
        at = strstr(buf_text(&text), word);
    if (at)
        at += strlen(word);
    for (int i = 0; at && i < n_before; i++) {
        at = strchr(at, ' ');
        at = at ? at + 1 : NULL;
    }
    if (at)
        *out = strtoll(at, &end, 10);
    if (rc == ERR_OK && (!at || end == at))
        rc = err_set(err, ERR_PROTOCOL, "%s: no number %d after \"%s\"", path, n_before, word);
    buf_deinit(&text);
    return rc;
}

static enum err_code count_fds(int *out, struct err *err)
{
    DIR *folder = opendir("/proc/self/fd");
    int n = -3; /* ".", ".." and the folder's own */

    if (!folder)
        return err_set(err, ERR_IO, "cannot list /proc/self/fd");
    while (readdir(folder))
        n++;
    (void)closedir(folder);
    *out = n;
    return ERR_OK;
}

enum err_code metrics_read_process(struct metrics_process *out, struct err *err)
{
    struct metrics_process p = {.cpu_seconds = (double)clock_cpu_ns() / 1e9};
    int64_t boot_s = 0;
    int64_t start_ticks = 0; /* since the machine was started */
    int64_t pages = 0;
    enum err_code rc = read_number("/proc/stat", "btime ", 0, &boot_s, err);

    if (rc == ERR_OK) /* the 22nd field; the second is in parentheses and may contain blanks */
        rc = read_number("/proc/self/stat", ") ", 19, &start_ticks, err);
    if (rc == ERR_OK)
        rc = read_number("/proc/self/statm", "", 1, &pages, err);
    if (rc == ERR_OK)
        rc = count_fds(&p.n_fds, err);
    if (rc != ERR_OK)
        return err_wrap(err, rc, "process metrics");
    p.start_seconds = (double)boot_s + (double)start_ticks / (double)sysconf(_SC_CLK_TCK);
    p.resident_bytes = pages * sysconf(_SC_PAGESIZE);
    *out = p;
    return ERR_OK;
}

enum err_code metrics_write_process(const struct metrics_process *p, struct buf *out,
                                    struct err *err)
{
    struct writer w = {.out = out, .err = err};

    write_one(&w, "process_cpu_seconds_total", "counter", "CPU time, of user and system.",
              p->cpu_seconds);
    write_one(&w, "process_resident_memory_bytes", "gauge", "Resident memory.",
              (double)p->resident_bytes);
    write_one(&w, "process_open_fds", "gauge", "Open file descriptors.", p->n_fds);
    write_one(&w, "process_start_time_seconds", "gauge", "When the process began, since 1970.",
              p->start_seconds);
    return w.rc;
}
