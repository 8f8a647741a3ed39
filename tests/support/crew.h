/* support/crew.h - the workers of one job as processes on this machine, driven by revisions.
 *
 * Over fleet/follow.h, as `kubectl skyjob run` does it: when a session has ended before the job,
 * all are halted, and the next revision is made of what they hold. Workers listen on ports of their
 * own; a fault proxy may lie before a tensor port. Failures of the harness itself end the test.
 * Threads: one.
 */
#ifndef SUPPORT_CREW_H
#define SUPPORT_CREW_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "fleet/follow.h"
#include "proxy.h"

#define CREW_SLOTS 4
#define CREW_CUTS  6

/* Which workers there are from a step on, and their units, in the order of the pipeline: behind the
 * last unit another replica begins. */
struct crew_cut {
    int64_t step; /* the first has 0 */
    int n_workers;
    struct {
        int slot, n_units;
    } workers[CREW_SLOTS];
};

struct crew_params {
    const char *program; /* skyjob-worker, or one with its arguments */
    const char *spec;    /* of the job, as JSON with the sizes of the model */
    const char *data_dir;
    const char *folder; /* for keys and logs; made, and must be new */
    const char *output_dir;
    bool has_checkpoints;     /* in `folder`; all share them ... */
    bool has_own_checkpoints; /* ... or each worker has its own, on a disk that is lost when the
                                 worker is killed */
    int micro_batches;
    int n_shares;            /* of the batch, in every cut; 0: it is one */
    const int *first_shares; /* [n_cuts] micro-batches of the first; NULL: all have as many */
    int n_cuts;
    const struct crew_cut *cuts;
    /* A fault at the messages to a worker, by slot; PROXY_NONE: no proxy lies there. */
    struct proxy_fault faults[CREW_SLOTS];
    bool has_proxies;
    struct recover_patience patience; /* 0: RECOVER_PATIENCE */
    int kill_slot; /* a worker that gets `kill_signal` once `kill_step` steps are done; -1: none */
    int kill_signal; /* 0: SIGKILL */
    int64_t kill_step;
    int64_t kill_again_step; /* likewise, again; 0: not */
    int kill_saves;          /* ... and it has begun this number of its own checkpoints */
    bool kills_next;         /* and the worker of the next slot with it */
    /* Called when a revision is about to be posted; `n` counts them from 1. NULL: not. */
    void (*on_post)(void *ctx, int n);
    /* Called while all sessions run. Once it returns true, another revision is posted at once, of
     * the reports that there are, without a halt before. NULL: not. */
    bool (*supersedes)(void *ctx);
    void *ctx;
};

struct crew_result {
    int n_revisions;
    int n_restores; /* of them, those with units from a checkpoint */
    int64_t lineage;
    int64_t last_step;                     /* that the last revision went on from */
    int64_t n_messages[CREW_SLOTS];        /* that have passed the proxies ... */
    int64_t n_messages_before[CREW_SLOTS]; /* ... when the second revision was posted */
    int n_faults;                          /* that have happened at proxies */
    int n_alone;                           /* workers that ended by themselves, without an error */
    int n_started;
    struct progress progress; /* the leader's last */
};

/* Run the job to its end. All processes are gone afterwards. */
void crew_run(const struct crew_params *params, struct crew_result *out);

#endif
