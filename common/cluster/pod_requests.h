/* cluster/pod_requests.h - what a pod takes of its node, as the scheduler counts it.
 *
 * Layer: cluster (may use api, base). Threads: any; pure.
 */
#ifndef CLUSTER_POD_REQUESTS_H
#define CLUSTER_POD_REQUESTS_H

#include <stdint.h>

#include "base/json.h"

struct pod_requests {
    int64_t cpu_milli;
    int64_t memory_bytes;
};

/* The sum of all containers, or the largest init container if that is more, and the overhead. What
 * is missing or cannot be read counts as nothing. */
struct pod_requests pod_requests_read(const struct json *pod);

/* Succeeded or Failed: it holds nothing of its node any more. */
bool pod_has_ended(const struct json *pod);

#endif
