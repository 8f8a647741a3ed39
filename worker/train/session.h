/* train/session.h - one revision in one worker: links, working memory, and the training itself.
 *
 * A session begins with the worker's state (train/state.h) and leaves it at a step's boundary,
 * whatever ends it: done, broken, halted, superseded. Come to the revision's step; take memory,
 * read files and checkpoints; fetch units; connect; train; save; release. A worker that leaves the
 * job only gives units. Layer: train. Threads: one.
 */
#ifndef TRAIN_SESSION_H
#define TRAIN_SESSION_H

#include "base/hmac.h"
#include "files/store.h"
#include "train/credentials.h"
#include "train/history.h"
#include "train/loader.h"
#include "train/mailbox.h"
#include "train/pulse.h"
#include "train/state.h"
#include "train/worker.h"

/* What outlives sessions. */
struct job {
    const struct worker_params *params;
    struct revision_worker self;
    struct hmac_key key;
    struct credentials *credentials; /* NULL: links are plain */
    struct mailbox *mailbox;
    struct state state;
    struct spec spec; /* of the first revision: the loader's */
    bool has_spec;
    struct loader loader; /* once this worker has been a first stage */
    bool has_loader;
    struct history history;
    struct store store; /* when has_store is set */
    bool has_store;
    int64_t saved_ms;          /* when the last checkpoint was begun; 0: not yet */
    int64_t evaluated;         /* as in a report */
    struct progress progress;  /* what was posted last */
    enum progress_cause cause; /* of a failure in the current phase */
    pulse_stalled *on_stall;   /* the trainer hangs */
    void *stall_ctx;
};

/* Run a revision to its end. `r` belongs to the session from now on: a trained model to start from
 * may change its norm_eps.
 *
 * Returns ERR_OK when it is done. Otherwise job->cause has the reason, and *out_is_broken is
 * true when this worker is not at fault and can take part in another revision: a link was lost, the
 * session was stopped, or the revision does not fit what this worker holds.
 */
MUST_CHECK enum err_code session_run(struct job *job, struct revision *r, const struct peers *peers,
                                     bool *out_is_broken, struct err *err);

#endif
