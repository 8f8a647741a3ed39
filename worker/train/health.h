/* train/health.h - the worker's health port: HTTP for the kubelet's probes.
 *
 *     GET  /healthz     200 while the process answers
 *     GET  /readyz      200 once the stage is connected to its neighbours, else 503
 *
 * It needs no key, since the kubelet has none, and serves nothing else. A port and a thread of its
 * own, so that whatever happens on the control port cannot make the kubelet end the pod.
 * Layer: train (may use api base).
 */
#ifndef TRAIN_HEALTH_H
#define TRAIN_HEALTH_H

#include "train/mailbox.h"
#include "train/server.h"

/* Listen on a numeric address and serve until server_close(). `mailbox` is borrowed. ERR_IO when
 * the address is taken. */
MUST_CHECK enum err_code health_open(const char *host, int port, struct mailbox *mailbox,
                                     struct server **out, struct err *err);

#endif
