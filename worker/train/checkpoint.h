/* train/checkpoint.h - writes a worker's part of a checkpoint while it goes on training.
 *
 * Parameters and moments change only in an update. So a thread writes them from where they are, and
 * what it has not come to when the next update is due is copied aside first: a step is held up for
 * that copy at most, never for the disk. The memory for the copy is taken when a session begins.
 * Where the plan has none for it, the update waits for the thread.
 *
 * A checkpoint is written at the end of a step, by order of its STEP_END, so all stages write the
 * same ones. Where the store is the worker's own, the shard counts as written once it has been
 * copied to another node; where it is a bucket, once it has been uploaded. One that cannot be
 * written or copied is logged, and the training goes on. Layer: train (may use files api base).
 * Threads: one, beside its own.
 */
#ifndef TRAIN_CHECKPOINT_H
#define TRAIN_CHECKPOINT_H

#include <pthread.h>
#include <stdatomic.h>

#include "files/store.h"
#include "train/copies.h"
#include "train/history.h"
#include "train/loader.h"
#include "train/state.h"

#define CHECKPOINT_AREAS_MAX (3 * MODEL_UNITS_MAX) /* parameters, moment, variance of each unit */
#define CHECKPOINT_STILL_MS  30000 /* a disk that takes nothing for so long holds up no step */

/* All are borrowed. */
struct checkpoint_params {
    const struct store *store;
    const struct plan *plan;
    int worker; /* its place in the plan: at home with it are the units that are written */
    const struct state *state;
    const struct loader *loader; /* the leader's; NULL for other stages */
    struct copies *copies;       /* of a store that is this worker's own; else NULL */
};

/* Floats that are written in one go. */
struct checkpoint_area {
    const float *live;
    float *copy; /* of the same size; NULL: there is no memory for it */
    size_t count;
};

struct checkpoint { /* all fields private */
    struct checkpoint_params p;
    struct plan_home own;
    int shard, n_shards; /* the place of the worker's among all */
    int n_areas;
    struct checkpoint_area areas[CHECKPOINT_AREAS_MAX];
    struct arena memory; /* of the copies and the piece */
    float *piece;        /* that is being written */
    bool is_open;
    bool has_thread;
    pthread_t thread;
    atomic_bool stops;
    int64_t saved_step;       /* the newest that all stages have written in this session; 0: none */
    struct store_point point; /* that is being written ... */
    struct buf history;       /* ... with the leader's records */
    struct buf progress;
    struct weights_unit read[MODEL_UNITS_MAX]; /* of checkpoint_read() */
    /* Under the lock: */
    pthread_mutex_t lock;
    pthread_cond_t moved; /* the thread has gone on */
    bool is_writing;
    bool has_failed; /* the last one */
    int area;        /* the next floats to be written */
    size_t at;
    bool is_copied;   /* from there on the copies are written */
    bool is_given_up; /* they have changed */
    int64_t taken_ms; /* when the last of them were taken */
};

/* Take the memory for the units at home with the worker, one at least, which the state has.
 * ERR_NO_MEMORY. */
MUST_CHECK enum err_code checkpoint_init(struct checkpoint *c, const struct checkpoint_params *p,
                                         struct err *err);
/* What is being written gets some time to become complete, as the next revision may need it; then
 * it is abandoned. A zeroed one is fine. */
void checkpoint_deinit(struct checkpoint *c);

/* Does the store outlive the workers? Only then the last step is worth one. */
bool checkpoint_is_lasting(const struct checkpoint *c);

/* Training is over: its copies need not leave the link to tensors any more. */
void checkpoint_hurry(struct checkpoint *c);
/* Wait for up to `timeout_ms` (0 only looks); false while one is still being written. */
bool checkpoint_wait(struct checkpoint *c, int timeout_ms);
/* Could the last one not be written, or copied? */
bool checkpoint_has_failed(struct checkpoint *c);

/* Begin with the state as it is; one that is being written is waited for. The leader has its
 * progress and history written beside. Failures are logged. `is_saved`: all stages have written the
 * one before, so older ones may be removed from a store that is this worker's own. */
void checkpoint_begin(struct checkpoint *c, int64_t evaluated, const struct progress *progress,
                      const struct history *history, bool is_saved);

/* Read the parameters of the units at home as `from` has them, into the memory for the copies,
 * which every plan with training.keepBest has: the state stays as it is. What is being written is
 * waited for. On ERR_OK *out has the units in their order, without gradients, until the
 * next checkpoint is begun. Errors of store_read() and store_read_unit(): ERR_NOT_FOUND when
 * another stage is still writing it. */
MUST_CHECK enum err_code checkpoint_read(struct checkpoint *c, const struct resume_origin *from,
                                         struct weights_unit **out, struct err *err);

/* Before the state changes: copy what has not been written yet or, without the memory for that,
 * wait for up to `timeout_ms` until it is. Returns false while it is not; then the state must stay
 * as it is. A checkpoint that comes no further for CHECKPOINT_STILL_MS is given up. */
bool checkpoint_before_update(struct checkpoint *c, int timeout_ms);

#endif
