/* train/control.h - the worker's ports: control for the operator and the CLI, health for the
 * kubelet's probes, metrics for Prometheus.
 *
 *     GET  /v1/status    the progress document (api/progress.h)
 *     GET  /v1/report    what the worker holds (api/resume.h)
 *     POST /v1/revision  a revision with the workers' addresses (api/revision.h); 409 for one that
 *                        this worker cannot take: an older one, or another with the same number
 *     POST /v1/halt      end the session of a revision; release a worker that is done; 409 when the
 *                        worker has a newer one
 *     POST /v1/end       end the process, as its job is gone or being deleted; answered before
 *     POST /v1/checkpoint  of the leader: write one now (api/progress.h)
 *     POST /v1/peers     of a probe only: its peer table; 409 when it is a worker's, or differs
 *                        from the table that was accepted
 *
 * With credentials the control port speaks only TLS, and only with the job's operator. They are
 * read again every CONTROL_RENEW_MS, as they are renewed in time; open connections go on.
 *
 * Every request on the control port must be signed with the job's key (api/signature.h). Any other
 * gets the same 403, whatever it asks for: without the key nothing about the job can be learned or
 * changed.
 *
 * A worker that leaves trains on so that its operator can have others take its units. If no such
 * request comes for CONTROL_ABANDONED_MS meanwhile, it ends as if ordered: its job may have been
 * deleted while no operator ran.
 *
 *     GET  /healthz     200 while the process answers
 *     GET  /readyz      200 once the stage is connected to its neighbours, else 503
 *
 * The health port needs no key, since the kubelet has none, and serves nothing else. It has a
 * thread of its own, so load on the control port cannot make the kubelet restart the pod.
 *
 *     GET  /metrics     in Prometheus' text format (train/metrics.h)
 *
 * The metrics port has a thread of its own, too. With credentials, which are not those of the
 * control port, it speaks only TLS, and only with the one client named NAMES_READER_DNS.
 *
 * Requests only read and write the mailbox: they never wait for the trainer, nor the trainer for
 * them. Limits and deadlines are those of http/server.h.
 * Layer: train (may use http tls api base).
 */
#ifndef TRAIN_CONTROL_H
#define TRAIN_CONTROL_H

#include "base/hmac.h"
#include "http/server.h"
#include "train/credentials.h"
#include "train/mailbox.h"

#define CONTROL_ABANDONED_MS 30000
#define CONTROL_RENEW_MS     10000

struct control; /* private */

struct control_params {
    const char *host; /* a numeric address */
    int port;
    const char *health_host; /* NULL: no health port */
    int health_port;
    const char *metrics_host; /* NULL: no metrics port */
    int metrics_port;
    bool takes_revisions; /* a worker; else it is a probe, and takes a table */
    struct hmac_key key;
    struct credentials *credentials;         /* borrowed likewise; NULL: plain HTTP */
    struct credentials *metrics_credentials; /* likewise, of the metrics port */
    struct mailbox *mailbox;                 /* borrowed until control_close() */
    /* The process is to end, for this reason. Called once, by the control port's thread, and not
     * expected to return. Of a probe: NULL. */
    void (*on_end)(void *ctx, const char *reason);
    void *end_ctx;
    int64_t abandoned_ms; /* 0: CONTROL_ABANDONED_MS */
    int64_t renew_ms;     /* 0: CONTROL_RENEW_MS */
};

/* Listen and serve. ERR_IO when an address is in use. */
MUST_CHECK enum err_code control_open(const struct control_params *params, struct control **out,
                                      struct err *err);

/* Stop serving and free. NULL is allowed. */
void control_close(struct control *control);

#endif
