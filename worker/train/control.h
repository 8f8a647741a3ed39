/* train/control.h - the worker's control port: HTTP for the operator and the CLI.
 *
 *     GET  /v1/status   the progress document (api/progress.h)
 *     POST /v1/peers    the peer table; 409 when it is for another attempt, or another table than
 *                       the one that was taken
 *
 * Every request must be signed with the job's key (api/signature.h). One that is not gets the same
 * 403 whatever it asks for: nothing of the job can be learned or changed without the key.
 *
 * Requests only read and write the mailbox: they never wait for the trainer and the trainer never
 * waits for them. Limits and deadlines are those of train/server.h.
 * Layer: train (may use api base).
 */
#ifndef TRAIN_CONTROL_H
#define TRAIN_CONTROL_H

#include "base/hmac.h"
#include "train/mailbox.h"

struct control; /* private */

struct control_params {
    const char *host; /* a numeric address */
    int port;
    int n_stages; /* that a peer table must have; 0: any number */
    struct hmac_key key;
    struct mailbox *mailbox; /* borrowed until control_close() */
};

/* Listen and serve. ERR_IO when the address is taken. */
MUST_CHECK enum err_code control_open(const struct control_params *params, struct control **out,
                                      struct err *err);

/* Stop serving and free. NULL is allowed. */
void control_close(struct control *control);

#endif
