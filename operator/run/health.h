/* run/health.h - the operator's health port: GET /healthz and /readyz.
 *
 * Served from a thread of its own (http/server.h), so a long decision or an API server that hangs
 * does not get the operator killed. /healthz is 503 when the loop has not turned for
 * HEALTH_STALLED_MS; /readyz is that of the last health_publish().
 * Layer: run. Threads: any.
 */
#ifndef RUN_HEALTH_H
#define RUN_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define HEALTH_STALLED_MS 60000

struct health;

/* Listen on "host:port". `turned_ms` returns when the loop last turned, as clock_now_ms(); it is
 * called from the server's thread. ERR_INVALID for another address, ERR_IO when it is in use. */
MUST_CHECK enum err_code health_open(const char *address, int64_t (*turned_ms)(void *ctx),
                                     void *ctx, struct health **out, struct err *err);
void health_close(struct health *h); /* NULL is allowed */

/* What /readyz answers from now on. */
void health_publish(struct health *h, bool is_ready);

#endif
