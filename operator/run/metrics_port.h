/* run/metrics_port.h - the operator's metrics over HTTPS: GET /metrics, for those who may read
 * them.
 *
 * A caller shows a bearer token, and the API server says whose it is and whether this user may
 * `get` the non-resource URL /metrics (run/reviews.h). 401: no token, or one that is nobody's; 403:
 * the user may not; 503: the API server cannot be asked, or was asked too much.
 *
 * The certificate is for NAMES_OPERATOR_METRICS_DNS. It is issued by the CA of all jobs
 * (run/issuer.h), so that a scraper can verify it by the ca.crt of that Secret. Until that CA is
 * known, and without one, it is issued by a CA that is made for it alone and forgotten, which
 * nobody can verify.
 *
 * Served from a thread of its own, which also calls the API server, and meanwhile serves nobody: a
 * review takes at most two calls of METRICS_PORT_CALL_MS, or three when the operator's own token
 * has just expired. Nothing else waits for it.
 * Layer: run. Threads: one for the functions here; they share a lock with the server's own.
 */
#ifndef RUN_METRICS_PORT_H
#define RUN_METRICS_PORT_H

#include "kube/client.h"
#include "run/issuer.h"
#include "run/metrics.h"

#define METRICS_PORT_CALL_MS 2000 /* for `call_ms` of its client */
#define METRICS_PORT_RETRY_S 60   /* when a certificate could not be issued */

struct metrics_port;

/* Listen on "host:port". `client` is borrowed, and with its loop the port's own until it is closed.
 * ERR_INVALID for another address, ERR_IO when it is in use; else the codes of authority_make() and
 * server_open(). */
MUST_CHECK enum err_code metrics_port_open(const char *address, struct kube_client *client,
                                           int64_t now_s, struct metrics_port **out,
                                           struct err *err);
/* Stops the client's loop, since a call may be under way. NULL is allowed. */
void metrics_port_close(struct metrics_port *p);

/* Renew the certificate when it ends soon, or when the CA of `issuer` has become known or has
 * changed; NULL: there is none. On an error, as of issuer_issue() and server_renew(), the old one
 * is kept, and another is tried for after METRICS_PORT_RETRY_S. */
MUST_CHECK enum err_code metrics_port_tend(struct metrics_port *p, const struct issuer *issuer,
                                           int64_t now_s, struct err *err);

/* What to answer from now on, with what the process uses at the time of the request. */
void metrics_port_publish(struct metrics_port *p, const struct metrics *metrics);

#endif
