/* pipe/board.h - what the trainer writes up for the control port, and what it finds there.
 *
 * The training thread posts its progress and waits for the peer table; the control port's thread
 * answers requests from it. Copies in and out under one lock, nothing shared by pointer.
 * Layer: pipe (may use api base). Threads: any.
 */
#ifndef PIPE_BOARD_H
#define PIPE_BOARD_H

#include <pthread.h>

#include "api/progress.h"

struct board {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct progress progress;
    struct peers peers;
    bool is_ready; /* connected to its neighbours */
};

void board_init(struct board *b);
void board_deinit(struct board *b);

void board_set_progress(struct board *b, const struct progress *p);
void board_get_progress(struct board *b, struct progress *out);
void board_set_ready(struct board *b, bool is_ready);
bool board_is_ready(struct board *b);

/* Take a peer table, of any number of stages when `n_stages` is 0. ERR_CONFLICT when it is for
 * another attempt or number, or differs from the one that was taken; the same one again changes
 * nothing, so the sender may repeat it. */
MUST_CHECK enum err_code board_post_peers(struct board *b, const struct peers *peers, int n_stages,
                                          struct err *err);
/* ERR_TIMEOUT when none came within `timeout_ms`. */
MUST_CHECK enum err_code board_wait_peers(struct board *b, int timeout_ms, struct peers *out,
                                          struct err *err);

#endif
