/* run/health.h - the operator's own small HTTP server: GET /healthz, /readyz and /metrics.
 *
 * It lives in the loop's thread, so an answer from /healthz is the proof that the loop turns. A
 * request is read up to HEALTH_REQUEST_BYTES, answered, and the connection closed. Connections
 * beyond HEALTH_CONNECTIONS_MAX push out the oldest one.
 * Layer: run. Threads: one.
 */
#ifndef RUN_HEALTH_H
#define RUN_HEALTH_H

#include <poll.h>

#include "base/buf.h"

#define HEALTH_CONNECTIONS_MAX 8
#define HEALTH_FDS_MAX         (HEALTH_CONNECTIONS_MAX + 1)
#define HEALTH_REQUEST_BYTES   2048
#define HEALTH_METRICS_BYTES   ((size_t)16 << 10)

/* What is answered. */
struct health_source {
    void *ctx;
    bool (*is_ready)(void *ctx);
    /* Append metrics in Prometheus' text format. */
    enum err_code (*write_metrics)(void *ctx, struct buf *out, struct err *err);
};

struct health;

/* Listen on "host:port". ERR_INVALID for an address that is none, ERR_IO when it is taken. */
MUST_CHECK enum err_code health_open(const char *address, struct health_source source,
                                     struct health **out, struct err *err);
void health_close(struct health *h); /* NULL is allowed */

/* What to poll for; returns how many of `fds` are set. NULL has none. */
size_t health_fds(const struct health *h, struct pollfd fds[static HEALTH_FDS_MAX]);
/* Serve what poll() found. */
void health_serve(struct health *h, const struct pollfd *fds, size_t n_fds);

#endif
