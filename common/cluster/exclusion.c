#include "cluster/exclusion.h"

#include <string.h>

#include "api/names.h"

const char *exclusion_text(enum exclusion why)
{
    static const char *const texts[EXCLUSIONS] = {
        [EXCLUDED_NOT] = "usable",
        [EXCLUDED_NOT_READY] = "not ready",
        [EXCLUDED_DELETED] = "being deleted",
        [EXCLUDED_CORDONED] = "cordoned",
        [EXCLUDED_PRESSURE] = "short of memory, disk or processes",
        [EXCLUDED_TAINTED] = "tainted",
        [EXCLUDED_UNREADABLE] = "without readable allocatable CPU and memory",
        [EXCLUDED_CPU] = "with less than 100m of CPU free",
        [EXCLUDED_MEMORY] = "with less than 160Mi of memory free",
        [EXCLUDED_BF16] = "without BF16 support, which spec.training.precision asks for",
        [EXCLUDED_UNMEASURED] = "not measured yet",
        [EXCLUDED_PROBE_FAILED] = "whose probe failed",
    };

    return texts[why];
}

static bool keeps_workers_away(const struct json *taint)
{
    const char *key = json_string(json_get(taint, "key"), "");
    const char *effect = json_string(json_get(taint, "effect"), "");

    if (strcmp(effect, "NoSchedule") == 0)
        return true;
    return strcmp(effect, "NoExecute") == 0 && strcmp(key, TAINT_NOT_READY) != 0 &&
           strcmp(key, TAINT_UNREACHABLE) != 0;
}

enum exclusion exclusion_read(const struct json *node, enum exclusion unseen)
{
    enum exclusion ready = unseen;
    bool has_pressure = false;

    for (const struct json *c = json_first(json_path(node, "status.conditions")); c;
         c = json_next(c)) {
        const char *type = json_string(json_get(c, "type"), "");
        bool is_true = strcmp(json_string(json_get(c, "status"), ""), "True") == 0;

        if (strcmp(type, "Ready") == 0)
            ready = is_true ? EXCLUDED_NOT : EXCLUDED_NOT_READY;
        has_pressure = has_pressure || (is_true && strstr(type, "Pressure"));
    }
    if (ready != EXCLUDED_NOT)
        return ready;
    if (json_path(node, "metadata.deletionTimestamp"))
        return EXCLUDED_DELETED;
    if (json_bool(json_path(node, "spec.unschedulable"), false))
        return EXCLUDED_CORDONED;
    if (has_pressure)
        return EXCLUDED_PRESSURE;
    for (const struct json *t = json_first(json_path(node, "spec.taints")); t; t = json_next(t))
        if (keeps_workers_away(t))
            return EXCLUDED_TAINTED;
    return EXCLUDED_NOT;
}
