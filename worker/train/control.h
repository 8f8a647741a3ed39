/* train/control.h - the worker's two ports: control for the operator and the CLI, health for the
 * kubelet's probes.
 *
 *     GET  /v1/status   the progress document (api/progress.h)
 *     POST /v1/peers    the peer table; 409 for another attempt, or when it differs from the table
 *                       that was accepted
 *
 * Every request on the control port must be signed with the job's key (api/signature.h). One that
 * is not gets the same 403 whatever it asks for: nothing of the job can be learned or changed
 * without the key.
 *
 *     GET  /healthz     200 while the process answers
 *     GET  /readyz      200 once the stage is connected to its neighbours, else 503
 *
 * The health port needs no key, since the kubelet has none, and serves nothing else. It has a
 * thread of its own, so load on the control port cannot make the kubelet restart the pod.
 *
 * Requests only read and write the mailbox: they never wait for the trainer and the trainer never
 * waits for them. Limits and deadlines are those of http/server.h.
 * Layer: train (may use http api base).
 */
#ifndef TRAIN_CONTROL_H
#define TRAIN_CONTROL_H

#include <pthread.h>
#include <stdatomic.h>

#include "api/progress.h"
#include "base/hmac.h"
#include "http/server.h"

/* What the trainer and the ports share: the training thread posts its progress and waits for the
 * peer table, the port's thread serves the one and takes the other. Copies in and out under one
 * lock, nothing shared by pointer. Threads: any. */
struct mailbox {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct progress progress;
    struct peers peers;
    atomic_bool is_ready; /* connected to its neighbours; without the lock */
};

void mailbox_init(struct mailbox *b);
void mailbox_deinit(struct mailbox *b);

void mailbox_set_progress(struct mailbox *b, const struct progress *p);
void mailbox_get_progress(struct mailbox *b, struct progress *out);

/* Take a peer table, of any number of stages when `n_stages` is 0. ERR_CONFLICT when it is for
 * another attempt or number, or differs from the accepted one; the same one again changes nothing,
 * so the sender may repeat it. */
MUST_CHECK enum err_code mailbox_post_peers(struct mailbox *b, const struct peers *peers,
                                            int n_stages, struct err *err);
/* ERR_TIMEOUT when none has come after `timeout_ms`. */
MUST_CHECK enum err_code mailbox_wait_peers(struct mailbox *b, int timeout_ms, struct peers *out,
                                            struct err *err);

struct control; /* private */

struct control_params {
    const char *host; /* a numeric address */
    int port;
    const char *health_host; /* NULL: no health port */
    int health_port;
    int n_stages; /* that a peer table must have; 0: any number */
    struct hmac_key key;
    struct mailbox *mailbox; /* borrowed until control_close() */
};

/* Listen and serve. ERR_IO when an address is in use. */
MUST_CHECK enum err_code control_open(const struct control_params *params, struct control **out,
                                      struct err *err);

/* Stop serving and free. NULL is allowed. */
void control_close(struct control *control);

#endif
