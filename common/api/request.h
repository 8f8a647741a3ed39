/* api/request.h - what a pod takes of its node, as the scheduler counts it.
 *
 * Layer: api (may use base). Threads: any.
 */
#ifndef API_REQUEST_H
#define API_REQUEST_H

#include <stdint.h>

#include "base/json.h"

/* The sum of all containers, or the largest init container if that is more, and the overhead. What
 * is missing or cannot be read counts as nothing. */
int64_t request_cpu_milli(const struct json *pod);
int64_t request_memory_bytes(const struct json *pod);

/* Succeeded or Failed: it takes nothing any more. */
bool request_is_over(const struct json *pod);

#endif
