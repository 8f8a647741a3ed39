/* train/mailbox.h - what the trainer and the worker's ports share.
 *
 * The training thread posts progress and reports and waits for revisions; the port's thread serves
 * the former and accepts the latter. Copies in and out under one lock, nothing shared by pointer.
 * What is only counted needs no lock (train/tally.h).
 * Layer: train (may use wire api base). Threads: any.
 */
#ifndef TRAIN_MAILBOX_H
#define TRAIN_MAILBOX_H

#include <pthread.h>
#include <stdatomic.h>

#include "api/revision.h"
#include "train/tally.h"

struct mailbox {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct progress progress;
    struct peers peers; /* of mailbox_post_peers() */

    struct report report;      /* as the trainer left it */
    struct revision *revision; /* the newest that was accepted; NULL: none */
    struct peers addresses;    /* beside it */
    bool is_taken;             /* by the trainer */
    int halted;                /* the newest revision with an order to end; 0: none */
    int64_t ordered;           /* the newest order for a checkpoint (api/progress.h); 0: none */
    bool is_over;              /* see mailbox_end_job() */

    /* Without the lock: */
    atomic_bool stops;             /* the session has to end: it was halted or superseded */
    atomic_bool is_ready;          /* connected to the neighbours */
    const atomic_bool *is_leaving; /* the process is to end soon; NULL: it is not */
    atomic_bool has_saved;         /* a checkpoint that was begun since then is complete */
    struct tally tally;            /* see there who may touch what */
};

void mailbox_init(struct mailbox *b);
void mailbox_deinit(struct mailbox *b);

void mailbox_set_progress(struct mailbox *b, const struct progress *p);
void mailbox_get_progress(struct mailbox *b, struct progress *out);

/* --- revisions --- */

/* Set what the worker holds; before the first revision only slot and incarnation count. The
 * mailbox fills in the revision. A worker whose session is done may be released from then on. */
void mailbox_set_report(struct mailbox *b, const struct report *r);
void mailbox_get_report(struct mailbox *b, struct report *out);
/* Is the process to end soon, so that others should take what it holds? */
bool mailbox_is_leaving(const struct mailbox *b);

/* Accept a revision, keep a copy of it, and stop the session of the one before. ERR_CONFLICT as in
 * revision_compare(); the same one again changes nothing. ERR_NO_MEMORY. */
MUST_CHECK enum err_code mailbox_post_revision(struct mailbox *b, const struct revision *r,
                                               const struct peers *addresses, struct err *err);

/* End the session of revision `number` or an older one; release a worker whose session is done.
 * ERR_CONFLICT when the worker has a newer one. */
MUST_CHECK enum err_code mailbox_halt(struct mailbox *b, int number, struct err *err);

/* Order a checkpoint; an older order than the last one, or the same, changes nothing. */
void mailbox_order_checkpoint(struct mailbox *b, int64_t order);
/* The newest order; 0: none. */
int64_t mailbox_ordered(struct mailbox *b);

/* Wait for a revision that has not been taken yet; false: the worker was released. */
bool mailbox_wait_revision(struct mailbox *b, struct revision *out, struct peers *out_addresses);

/* The job is done: no revision is run any more. One that comes too late, without a halt before, is
 * accepted and changes nothing: the report still has REPORT_DONE. */
void mailbox_end_job(struct mailbox *b);

/* --- the peer table of a probe --- */

/* Accept a peer table. ERR_CONFLICT when it is for a revision, or differs from the accepted one;
 * the same one again changes nothing, so the sender may repeat it. */
MUST_CHECK enum err_code mailbox_post_peers(struct mailbox *b, const struct peers *peers,
                                            struct err *err);
/* ERR_TIMEOUT when none has come after `timeout_ms`. */
MUST_CHECK enum err_code mailbox_wait_peers(struct mailbox *b, int timeout_ms, struct peers *out,
                                            struct err *err);

#endif
