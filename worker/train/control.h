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

#include "base/hmac.h"
#include "http/server.h"
#include "train/mailbox.h"

struct control; /* private */

struct control_params {
    const char *host; /* a numeric address */
    int port;
    int n_stages; /* that a peer table must have; 0: any number */
    struct hmac_key key;
    struct mailbox *mailbox; /* borrowed until control_close() */
};

/* Listen and serve. ERR_IO when the address is in use. */
MUST_CHECK enum err_code control_open(const struct control_params *params, struct control **out,
                                      struct err *err);

/* Stop serving and free. NULL is allowed. */
void control_close(struct control *control);

/* The health port, until server_close(). `mailbox` is borrowed. ERR_IO when the address is in use.
 */
MUST_CHECK enum err_code control_open_health(const char *host, int port, struct mailbox *mailbox,
                                             struct server **out, struct err *err);

#endif
