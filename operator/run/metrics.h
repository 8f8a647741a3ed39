/* run/metrics.h - what the operator reports about itself, in Prometheus' text format.
 *
 * Every family has its HELP and TYPE and a base unit in its name, which ends in _total if it only
 * grows. All of its own are in metrics.c; the alerts and the dashboard in charts/skyjob/files name
 * no others. Layer: run (may use kube, api, base). Threads: any; pure but for memory.
 */
#ifndef RUN_METRICS_H
#define RUN_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "api/status.h"
#include "base/buf.h"
#include "kube/client.h"

#define METRICS_BYTES       ((size_t)14 << 10) /* of metrics_write() */
#define METRICS_BOUNDS      13
#define METRICS_WATCHES_MAX 8

/* Times: the last of `n` are those longer than all bounds. */
struct metrics_times {
    uint64_t n[METRICS_BOUNDS + 1];
    int64_t sum_ns;
};

void metrics_add_time(struct metrics_times *t, int64_t ns);

struct metrics_watch {
    const char *resource; /* its plural; never freed */
    uint64_t n_events;
    uint64_t n_skipped;
};

struct metrics {
    bool is_leader;
    struct metrics_times reconciles; /* how long they took ... */
    struct metrics_times own;        /* ... without calls to the API server */
    uint64_t n_errors;               /* reconciles that failed */
    size_t n_queued;
    int64_t late_ms;                     /* queue_late_ms() */
    bool has_jobs;                       /* they have all been listed */
    size_t n_jobs_in[STATUS_STATES + 1]; /* as in struct store, like the next */
    size_t n_stalled;
    uint64_t n_requests[KUBE_STATUSES]; /* kube_client_requests() */
    int n_watches;
    struct metrics_watch watches[METRICS_WATCHES_MAX];
};

/* Append everything about the operator. ERR_LIMIT or ERR_NO_MEMORY. */
MUST_CHECK enum err_code metrics_write(const struct metrics *m, struct buf *out, struct err *err);

#endif
