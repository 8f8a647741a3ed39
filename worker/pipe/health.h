/* pipe/health.h - the worker's health port: HTTP for the kubelet's probes.
 *
 *     GET  /healthz     200 while the process answers
 *     GET  /readyz      200 once the stage is connected to its neighbours, else 503
 *
 * It needs no key, since the kubelet has none, and serves nothing else. A port and a thread of its
 * own, so that whatever happens on the control port cannot make the kubelet end the pod.
 * Layer: pipe (may use api base).
 */
#ifndef PIPE_HEALTH_H
#define PIPE_HEALTH_H

#include "pipe/board.h"
#include "pipe/server.h"

/* Listen on a numeric address and serve until server_close(). `board` is borrowed. ERR_IO when the
 * address is taken. */
MUST_CHECK enum err_code health_open(const char *host, int port, struct board *board,
                                     struct server **out, struct err *err);

#endif
