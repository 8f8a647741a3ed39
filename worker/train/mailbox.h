/* train/mailbox.h - state that the trainer and the control port share.
 *
 * The training thread posts its progress and waits for the peer table; the control port's thread
 * serves the one and takes the other. Copies in and out under one lock, nothing shared by pointer.
 * Layer: train (may use api base). Threads: any.
 */
#ifndef TRAIN_MAILBOX_H
#define TRAIN_MAILBOX_H

#include <pthread.h>

#include "api/progress.h"

struct mailbox {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct progress progress;
    struct peers peers;
    bool is_ready; /* connected to its neighbours */
};

void mailbox_init(struct mailbox *b);
void mailbox_deinit(struct mailbox *b);

void mailbox_set_progress(struct mailbox *b, const struct progress *p);
void mailbox_get_progress(struct mailbox *b, struct progress *out);
void mailbox_set_ready(struct mailbox *b, bool is_ready);
bool mailbox_is_ready(struct mailbox *b);

/* Take a peer table, of any number of stages when `n_stages` is 0. ERR_CONFLICT when it is for
 * another attempt or number, or differs from the accepted one; the same one again changes nothing,
 * so the sender may repeat it. */
MUST_CHECK enum err_code mailbox_post_peers(struct mailbox *b, const struct peers *peers,
                                            int n_stages, struct err *err);
/* ERR_TIMEOUT when none has come after `timeout_ms`. */
MUST_CHECK enum err_code mailbox_wait_peers(struct mailbox *b, int timeout_ms, struct peers *out,
                                            struct err *err);

#endif
