#include "run/metrics.h"

#include <stdio.h>

#include "base/families.h"

static const double bounds_s[METRICS_BOUNDS] = {0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1,
                                                0.25,  0.5,    1,     2.5,  5,    10};

void metrics_add_time(struct metrics_times *t, int64_t ns)
{
    size_t i = 0;

    while (i < METRICS_BOUNDS && (double)ns > bounds_s[i] * 1e9)
        i++;
    t->n[i]++;
    t->sum_ns += ns;
}

static void write_times(struct families *f, const char *name, const char *help,
                        const struct metrics_times *t)
{
    uint64_t n = 0;
    char bound[32];

    families_begin(f, name, "histogram", help);
    for (size_t i = 0; i < METRICS_BOUNDS; i++) {
        n += t->n[i];
        (void)snprintf(bound, sizeof bound, "%g", bounds_s[i]);
        families_add_with(f, "_bucket", "le", bound, (double)n);
    }
    n += t->n[METRICS_BOUNDS];
    families_add_with(f, "_bucket", "le", "+Inf", (double)n);
    families_add(f, "_sum", (double)t->sum_ns / 1e9);
    families_add(f, "_count", (double)n);
}

static void write_jobs(struct families *f, const struct metrics *m)
{
    families_begin(f, "skyjob_jobs", "gauge", "SkyJobs by the state in their status.");
    for (int i = 0; i <= STATUS_STATES; i++)
        families_add_with(f, "", "state", i < STATUS_STATES ? status_states[i] : "Unknown",
                          (double)m->n_jobs_in[i]);
    families_one(f, "skyjob_jobs_stalled", "gauge", "SkyJobs whose condition Stalled is True.",
                 (double)m->n_stalled);
}

/* Requests without a response, and with 200, are there from the start, so that rates of them are.
 */
static void write_requests(struct families *f, const uint64_t *n)
{
    char code[16];

    families_begin(
        f, "skyjob_kube_requests_total", "counter",
        "Requests to the API server, but for those of the leader election, by status code; "
        "error: there was no response.");
    families_add_with(f, "", "code", "error", (double)n[0]);
    for (int status = 1; status < KUBE_STATUSES; status++) {
        (void)snprintf(code, sizeof code, "%d", status);
        if (n[status] > 0 || status == 200)
            families_add_with(f, "", "code", code, (double)n[status]);
    }
}

enum err_code metrics_write(const struct metrics *m, struct buf *out, struct err *err)
{
    struct families f = {.out = out, .err = err};

    families_begin(&f, "skyjob_build_info", "gauge", "1, with the version of the operator.");
    families_add_with(&f, "", "version", SKYJOB_VERSION, 1);
    families_one(&f, "skyjob_leader", "gauge", "Whether this operator leads.", m->is_leader);
    write_times(&f, "skyjob_reconcile_seconds", "Time that a reconcile of a job took.",
                &m->reconciles);
    write_times(&f, "skyjob_reconcile_own_seconds",
                "The same without calls to the API server: what the operator itself needed.",
                &m->own);
    families_one(&f, "skyjob_reconcile_errors_total", "counter", "Reconciles that failed.",
                 (double)m->n_errors);
    families_one(&f, "skyjob_queue_length", "gauge",
                 "Jobs that wait for a reconcile, whether it is due or not.", (double)m->n_queued);
    families_one(
        &f, "skyjob_queue_delay_seconds", "gauge",
        "Time that the reconcile due longest has been due; 0 if this operator does not lead.",
        (double)m->late_ms / 1e3);
    if (m->has_jobs)
        write_jobs(&f, m);
    write_requests(&f, m->n_requests);
    families_begin(&f, "skyjob_watch_events_total", "counter",
                   "Events that watches have received.");
    for (int i = 0; i < m->n_watches; i++)
        families_add_with(&f, "", "resource", m->watches[i].resource,
                          (double)m->watches[i].n_events);
    families_begin(&f, "skyjob_watch_skipped_total", "counter",
                   "Objects that were skipped, since they could not be read.");
    for (int i = 0; i < m->n_watches; i++)
        families_add_with(&f, "", "resource", m->watches[i].resource,
                          (double)m->watches[i].n_skipped);
    return f.rc;
}
