#include "cli/machine.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/file.h"
#include "cli/child.h"
#include "cli/command.h"
#include "cluster/quantity.h"

#define CPU_MILLI_MIN   20 /* below, a process hardly gets to its main() */
#define CPU_MILLI_MAX   1024000
#define ITEM_BYTES      96
#define PROBE_MAX_MS    120000
#define PATH_BYTES      512
#define PROBE_MAX_BYTES 4096
#define PROBE_ARGUMENTS 8

static enum err_code read_item(char *item, struct node *n, struct err *err)
{
    char *rest = NULL;
    int64_t milli = 0;
    enum err_code rc;

    for (char *part = strtok_r(item, ":", &rest); part; part = strtok_r(NULL, ":", &rest)) {
        if (strncmp(part, "cpu=", 4) == 0)
            rc = quantity_milli(part + 4, &milli, err);
        else if (strncmp(part, "memory=", 7) == 0)
            rc = quantity_units(part + 7, &n->memory_bytes, err);
        else
            rc = err_set(err, ERR_INVALID, "\"%.40s\" is neither cpu= nor memory=", part);
        if (rc != ERR_OK)
            return err_wrap(err, ERR_INVALID, "--workers");
    }
    if (milli < CPU_MILLI_MIN || milli > CPU_MILLI_MAX)
        return err_set(err, ERR_INVALID, "--workers: every worker needs cpu= from %dm to %d",
                       CPU_MILLI_MIN, CPU_MILLI_MAX / 1000);
    n->cpu_milli = (int)milli;
    return ERR_OK;
}

static void share_memory(struct machine *m, int64_t free_bytes)
{
    int n_without = 0;

    for (int i = 0; i < m->n_workers; i++) {
        n_without += m->workers[i].memory_bytes == 0;
        free_bytes -= m->workers[i].memory_bytes;
    }
    for (int i = 0; i < m->n_workers; i++)
        if (m->workers[i].memory_bytes == 0)
            m->workers[i].memory_bytes = free_bytes > 0 ? free_bytes / n_without : 0;
}

enum err_code machine_parse(const char *text, int64_t free_bytes, struct machine *out,
                            struct err *err)
{
    struct machine m = {.n_workers = 0};

    for (const char *at = text; *at || at == text;) {
        size_t n = strcspn(at, ",");
        struct node *worker = &m.workers[m.n_workers];
        char item[ITEM_BYTES];
        enum err_code rc;

        if (m.n_workers == MACHINE_WORKERS_MAX)
            return err_set(err, ERR_INVALID, "--workers: more than %d", MACHINE_WORKERS_MAX);
        if (n >= sizeof item)
            return err_set(err, ERR_INVALID, "--workers: \"%.40s...\" is too long", at);
        memcpy(item, at, n);
        item[n] = '\0';
        (void)snprintf(worker->name, sizeof worker->name, "worker-%d", m.n_workers);
        rc = read_item(item, worker, err);
        if (rc != ERR_OK)
            return rc;
        m.n_workers++;
        at += n;
        if (*at == ',' && *++at == '\0')
            return err_set(err, ERR_INVALID, "--workers: nothing behind the last comma");
    }
    share_memory(&m, free_bytes);
    *out = m;
    return ERR_OK;
}

/* A number behind a word in a file of "Word: number" lines; -1 when it is not there. */
static int64_t number_in(const char *path, const char *word)
{
    FILE *f = fopen(path, "re");
    char line[256];
    int64_t value = -1;

    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, word, strlen(word)) == 0) {
            char *end;

            value = strtoll(line + strlen(word), &end, 10);
            if (end == line + strlen(word))
                value = -1;
            break;
        }
    if (f)
        (void)fclose(f);
    return value;
}

int64_t machine_free_bytes(void)
{
    int64_t kib = number_in("/proc/meminfo", "MemAvailable:");
    int64_t bytes = kib > 0 ? kib * 1024 : 4096 * MIB;
    int64_t limit = number_in("/sys/fs/cgroup/memory.max", "");
    int64_t used = number_in("/sys/fs/cgroup/memory.current", "");

    if (limit > 0 && used >= 0 && limit - used < bytes)
        bytes = limit - used;
    return bytes;
}

int machine_cpu_milli(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof set, &set) == 0 ? 1000 * CPU_COUNT(&set) : 1000;
}

static enum err_code write_spec(const struct job *job, const char *path, struct err *err)
{
    char *text = json_print(job->spec_json);
    enum err_code rc;

    if (!text)
        return err_set(err, ERR_NO_MEMORY, "no memory for the spec");
    rc = file_write(path, text, strlen(text), err);
    free(text);
    return rc;
}

static void file_in(const char *folder, const char *what, int i, char out[static PATH_BYTES])
{
    (void)snprintf(out, PATH_BYTES, "%s/%s-%d", folder, what, i);
}

static enum err_code wait_all(struct child *children, int n, struct throttle *t, struct err *err)
{
    int64_t until = clock_now_ms() + PROBE_MAX_MS;
    struct timespec pause = {.tv_nsec = 10000000};
    int n_left = n;

    while (n_left > 0) {
        n_left = 0;
        for (int i = 0; i < n; i++)
            n_left += !children[i].has_ended && !child_poll(&children[i], t);
        if (interrupt_seen())
            return err_set(err, ERR_GONE, "interrupted");
        if (clock_now_ms() > until)
            return err_set(err, ERR_TIMEOUT, "measuring the workers takes more than %d s",
                           PROBE_MAX_MS / 1000);
        (void)nanosleep(&pause, NULL);
    }
    return ERR_OK;
}

static enum err_code read_result(struct machine *m, int i, const struct child *child,
                                 const char *folder, struct err *err)
{
    struct buf text = {.max = PROBE_MAX_BYTES};
    char path[PATH_BYTES];
    enum err_code rc;

    file_in(folder, child->exit_code == 0 ? "probe" : "probe-log", i, path);
    rc = file_read(path, &text, err);
    if (rc == ERR_OK && child->exit_code != 0)
        rc = err_set(err, child->exit_code == EXIT_CONFIG ? ERR_INVALID : ERR_IO,
                     "exit code %d: %.300s", child->exit_code, buf_text(&text));
    if (rc == ERR_OK)
        rc = node_probe_read(buf_text(&text), &m->probes[i], err);
    buf_deinit(&text);
    if (rc != ERR_OK)
        return err_wrap(err, rc, "measure %s", m->workers[i].name);
    m->workers[i].gflops = m->probes[i].gflops;
    m->workers[i].unit_ms = m->probes[i].unit_ms;
    m->workers[i].message = m->probes[i].message;
    return ERR_OK;
}

enum err_code machine_probe(struct machine *m, const struct machine_measure *how,
                            struct throttle *t, struct err *err)
{
    struct child children[MACHINE_WORKERS_MAX] = {{.pid = 0}};
    const char *folder = how->folder;
    char spec[PATH_BYTES];
    const char *argv[PROBE_ARGUMENTS + 1] = {how->worker, "probe", "--spec", spec};
    int n = 4;
    enum err_code rc;

    if (how->data) {
        argv[n++] = "--data";
        argv[n++] = how->data;
    }
    if (how->model) {
        argv[n++] = "--model";
        argv[n++] = how->model;
    }
    (void)snprintf(spec, sizeof spec, "%s/spec.json", folder);
    rc = write_spec(how->job, spec, err);
    for (int i = 0; i < m->n_workers && rc == ERR_OK; i++) {
        char out[PATH_BYTES];
        char log[PATH_BYTES];
        struct child_params params = {
            .argv = argv, .out_path = out, .log_path = log, .cpu_milli = m->workers[i].cpu_milli};

        file_in(folder, "probe", i, out);
        file_in(folder, "probe-log", i, log);
        rc = child_start(&children[i], &params, t, err);
    }
    if (rc == ERR_OK)
        rc = wait_all(children, m->n_workers, t, err);
    child_stop(children, m->n_workers, t);
    for (int i = 0; i < m->n_workers && rc == ERR_OK; i++)
        rc = read_result(m, i, &children[i], folder, err);
    return rc;
}
