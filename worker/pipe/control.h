/* pipe/control.h - the worker's control port: HTTP for the operator, the CLI and the kubelet.
 *
 *     GET  /v1/status   the progress document (api/progress.h)
 *     POST /v1/peers    the peer table; 409 when it is for another attempt
 *     GET  /healthz     200 while this thread answers
 *     GET  /readyz      200 once the stage is connected to its neighbours, else 503
 *
 * One thread, one libwebsockets context, at most CONTROL_CONNECTIONS_MAX connections at a time,
 * requests and answers of bounded size. It only reads and writes the board: it never waits for the
 * trainer and the trainer never for it. Plain HTTP so far: address it on a trusted network.
 * Layer: pipe (may use api base).
 */
#ifndef PIPE_CONTROL_H
#define PIPE_CONTROL_H

#include "pipe/board.h"

#define CONTROL_CONNECTIONS_MAX 32

struct control; /* private */

/* Listen and serve. `board` is borrowed until control_close(). ERR_IO when the address is taken. */
MUST_CHECK enum err_code control_open(const char *address, int port, int n_stages,
                                      struct board *board, struct control **out, struct err *err);

/* Stop serving and free. NULL is allowed. */
void control_close(struct control *control);

#endif
