#include "api/request.h"

#include <string.h>

#include "api/quantity.h"

static int64_t read_amount(const struct json *amounts, const char *resource)
{
    const char *text = json_string(json_get(amounts, resource), "0");
    int64_t n = 0;
    enum err_code rc = strcmp(resource, "cpu") == 0 ? quantity_milli(text, &n, NULL)
                                                    : quantity_units(text, &n, NULL);

    return rc == ERR_OK ? n : 0;
}

static int64_t request_of(const struct json *pod, const char *resource)
{
    const struct json *spec = json_get(pod, "spec");
    int64_t sum = 0;

    for (const struct json *c = json_first(json_get(spec, "containers")); c; c = json_next(c))
        sum += read_amount(json_path(c, "resources.requests"), resource);
    for (const struct json *c = json_first(json_get(spec, "initContainers")); c; c = json_next(c)) {
        int64_t n = read_amount(json_path(c, "resources.requests"), resource);

        sum = n > sum ? n : sum;
    }
    return sum + read_amount(json_get(spec, "overhead"), resource);
}

int64_t request_cpu_milli(const struct json *pod)
{
    return request_of(pod, "cpu");
}

int64_t request_memory_bytes(const struct json *pod)
{
    return request_of(pod, "memory");
}

bool request_is_over(const struct json *pod)
{
    const char *phase = json_string(json_path(pod, "status.phase"), "");

    return strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0;
}
