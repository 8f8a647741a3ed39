/* train/metrics.h - what a worker reports about itself, in Prometheus' text format.
 *
 * Every family has its HELP and TYPE and a base unit in its name, which ends in _total if it only
 * grows. Which job and which slot a worker has is not in them: Prometheus takes that from the pod's
 * labels. All families of its own are in metrics.c; those of the process are in base/process.c.
 * Layer: train (may use wire api base). Threads: any; pure but for metrics_read().
 */
#ifndef TRAIN_METRICS_H
#define TRAIN_METRICS_H

#include "train/mailbox.h"

#define METRICS_BYTES ((size_t)20 << 10) /* of metrics_write() */

struct metrics {
    enum progress_state state;
    int revision;
    bool has_staleness; /* a leader's, while replicas are asynchronous */
    double staleness;   /* mean, in tickets */
    int64_t n_steps, n_tokens;
    int64_t ns[TALLY_PARTS];
    int64_t saved_ms; /* as in struct tally */
    int64_t throttled_ns;
    int n_peers;
    struct metrics_peer {
        int slot;
        uint64_t sent_bytes, received_bytes, unacknowledged_bytes;
    } peers[SPEC_STAGES_MAX];
};

/* As it is now. */
void metrics_read(struct mailbox *b, struct metrics *out);
/* Append everything about the worker. ERR_LIMIT or ERR_NO_MEMORY. */
MUST_CHECK enum err_code metrics_write(const struct metrics *m, struct buf *out, struct err *err);

#endif
