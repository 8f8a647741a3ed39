/* run/health.h - the operator's health port: GET /healthz, /readyz and /metrics.
 *
 * Served from a thread of its own (http/server.h), so a long decision or an API server that hangs
 * does not get the operator killed. /healthz is 503 when the loop has not turned for
 * HEALTH_STALLED_MS; /readyz and /metrics are those of the last health_publish(), with what the
 * process uses at the time of the request.
 * Layer: run. Threads: one for the functions here; they share a lock with the server's own.
 */
#ifndef RUN_HEALTH_H
#define RUN_HEALTH_H

#include <stdint.h>

#include "base/buf.h"

#define HEALTH_METRICS_BYTES ((size_t)14 << 10)
#define HEALTH_STALLED_MS    60000

struct health;

/* Listen on "host:port". `turned_ms` returns when the loop last turned, as clock_now_ms(); it is
 * called from the server's thread. ERR_INVALID for another address, ERR_IO when it is in use. */
MUST_CHECK enum err_code health_open(const char *address, int64_t (*turned_ms)(void *ctx),
                                     void *ctx, struct health **out, struct err *err);
void health_close(struct health *h); /* NULL is allowed */

/* What to answer from now on. `metrics`, in Prometheus' text format, is taken over. */
void health_publish(struct health *h, bool is_ready, struct buf *metrics);

#endif
