#include "cluster/pod_requests.h"

#include <string.h>

#include "cluster/quantity.h"

static int64_t sum_of(const struct json *pod, const char *resource)
{
    const struct json *spec = json_get(pod, "spec");
    bool is_milli = strcmp(resource, "cpu") == 0;
    int64_t sum = 0;

    for (const struct json *c = json_first(json_get(spec, "containers")); c; c = json_next(c))
        sum += quantity_read(json_get(json_path(c, "resources.requests"), resource), is_milli);
    for (const struct json *c = json_first(json_get(spec, "initContainers")); c; c = json_next(c)) {
        int64_t n = quantity_read(json_get(json_path(c, "resources.requests"), resource), is_milli);

        sum = n > sum ? n : sum;
    }
    return sum + quantity_read(json_get(json_get(spec, "overhead"), resource), is_milli);
}

struct pod_requests pod_requests_read(const struct json *pod)
{
    return (struct pod_requests){.cpu_milli = sum_of(pod, "cpu"),
                                 .memory_bytes = sum_of(pod, "memory")};
}

bool pod_has_ended(const struct json *pod)
{
    const char *phase = json_string(json_path(pod, "status.phase"), "");

    return strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0;
}
