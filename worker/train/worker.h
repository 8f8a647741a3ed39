/* train/worker.h - the life of a worker's process, from its first revision to its exit code.
 *
 * Open the ports; then wait for revisions and run one after the other (train/session.h) until the
 * job is done. A session that breaks leaves the state as it is for the next revision; only a fault
 * of this worker's own ends the process. At the end the leader serves its final progress until it
 * is released (POST /v1/halt), the others end with the leader's RELEASE.
 *
 * The last progress document becomes the termination message; it has the cause of a failure, which
 * is also logged.
 * Layer: train. Threads: one caller.
 */
#ifndef TRAIN_WORKER_H
#define TRAIN_WORKER_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/err.h"

/* Between the threads of a worker and its process's handler of signals. */
struct worker_signals {
    atomic_bool has_state;  /* by the worker: it holds units that would be lost with it */
    atomic_bool is_done;    /* likewise: the job is done, the termination message written, and this
                               worker waits for its release */
    atomic_bool is_leaving; /* by the handler: the process is to end soon. The worker goes on, and
                               reports it, so that others can take its units. */
};
_Static_assert(ATOMIC_BOOL_LOCK_FREE == 2, "a handler may use them");

struct worker_params {
    int slot;
    int incarnation;
    const char *data_dir;        /* a leader's; NULL for others */
    const char *model_dir;       /* a trained model to start from; NULL: random weights */
    const char *output_dir;      /* NULL: weights are not kept */
    const char *checkpoints_dir; /* of the job, shared by its workers, or s3://...; NULL: none */
    const char *resume_from;     /* another job's checkpoints, likewise, from which this one goes
                                    on (files/adopt.h); NULL: none */
    const char *own_checkpoints_dir; /* of this worker: with copies of others', or of what is in a
                                        bucket, which needs it; NULL: none */
    int spare_disk_percent;          /* of the disk with the latter, which it leaves free */
    const char *certificates_dir;    /* train/credentials.h; NULL: all ports are plain */
    const char *key_path;            /* the key that the job's workers and its operator share */
    const char *health_host;         /* NULL: no health port */
    int health_port;
    const char *metrics_host; /* NULL: no metrics port */
    int metrics_port;
    const char *control_host;
    int control_port;
    const char *tensor_host;
    int tensor_port;
    const char *termination_path;   /* NULL: none */
    const char *history_path;       /* NULL: only beside the weights */
    struct worker_signals *signals; /* NULL: none are handled */
    void (*on_stall)(void); /* the trainer hangs: end the process with EXIT_STALLED. Called by
                               another thread, the termination message written; NULL: not wanted */
    void (*on_end)(void);   /* the worker is not needed any more (train/control.h): end the process
                               as a second SIGTERM does. Called by another thread; NULL: not wanted */
    int silence_s;          /* after which a neighbour counts as lost; 0: as wire/link.h has it */
    int64_t stall_ms; /* without progress, after which the trainer hangs; 0: by its plan's times */
};

/* Run to the end and return the exit code, see base/err.h. */
int worker_run(const struct worker_params *params);

#endif
