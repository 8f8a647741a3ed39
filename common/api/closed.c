#include "api/closed.h"

#include <string.h>

#include "api/names.h"

const char *closed_word(enum closed why)
{
    static const char *const words[CLOSED_COUNT] = {
        "usable",
        "not ready",
        "being deleted",
        "cordoned",
        "short of memory, disk or processes",
        "kept from workers by a taint",
    };

    return words[why];
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

enum closed closed_read(const struct json *node, enum closed unseen)
{
    enum closed ready = unseen;
    bool has_pressure = false;

    for (const struct json *c = json_first(json_path(node, "status.conditions")); c;
         c = json_next(c)) {
        const char *type = json_string(json_get(c, "type"), "");
        bool is_true = strcmp(json_string(json_get(c, "status"), ""), "True") == 0;

        if (strcmp(type, "Ready") == 0)
            ready = is_true ? CLOSED_NOT : CLOSED_NOT_READY;
        has_pressure = has_pressure || (is_true && strstr(type, "Pressure"));
    }
    if (ready != CLOSED_NOT)
        return ready;
    if (json_path(node, "metadata.deletionTimestamp"))
        return CLOSED_DELETED;
    if (json_bool(json_path(node, "spec.unschedulable"), false))
        return CLOSED_CORDONED;
    if (has_pressure)
        return CLOSED_PRESSED;
    for (const struct json *t = json_first(json_path(node, "spec.taints")); t; t = json_next(t))
        if (keeps_workers_away(t))
            return CLOSED_TAINTED;
    return CLOSED_NOT;
}
