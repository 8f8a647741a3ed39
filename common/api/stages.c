#include "api/stages.h"

#include <stdio.h>
#include <string.h>

#define REPLICAS "spec.placement.manual.replicas"
#define PATH     REPLICAS "[0].stages"

static enum err_code read_count(const struct json *v, int entry, int max, int *out, struct err *err)
{
    int n = json_int(v, 0);

    if (n < 1 || n > max)
        return err_set(err, ERR_INVALID, PATH "[%d].%s: must be a whole number in 1..%d", entry,
                       json_key(v), max);
    *out = n;
    return ERR_OK;
}

static enum err_code read_node(const struct json *v, int entry, struct spec_stage *out,
                               struct err *err)
{
    const char *name = json_string(v, "");

    if (*name == '\0' || strlen(name) >= sizeof out->node)
        return err_set(err, ERR_INVALID, PATH "[%d].node: must be a string of 1..%zu bytes", entry,
                       sizeof out->node - 1);
    (void)snprintf(out->node, sizeof out->node, "%s", name);
    return ERR_OK;
}

static enum err_code read_entry(const struct json *entry, int i, struct spec_stage *out,
                                struct err *err)
{
    struct spec_stage stage = {.layers = 0};
    enum err_code rc = ERR_OK;

    if (json_kind_of(entry) != JSON_OBJECT)
        return err_set(err, ERR_INVALID, PATH "[%d]: must be an object, found %s", i,
                       json_kind_name(json_kind_of(entry)));
    for (const struct json *v = json_first(entry); v && rc == ERR_OK; v = json_next(v)) {
        const char *key = json_key(v);

        if (json_kind_of(v) == JSON_NULL)
            continue;
        if (strcmp(key, "node") == 0)
            rc = read_node(v, i, &stage, err);
        else if (strcmp(key, "layers") == 0)
            rc = read_count(v, i, MODEL_LAYERS_MAX, &stage.layers, err);
        else if (strcmp(key, "units") == 0)
            rc = read_count(v, i, MODEL_UNITS_MAX, &stage.units, err);
        else
            rc = err_set(err, ERR_INVALID, PATH "[%d].%.60s: there is no such field", i, key);
    }
    if (rc == ERR_OK && (stage.layers > 0) == (stage.units > 0))
        rc = err_set(err, ERR_INVALID, PATH "[%d]: must have either layers or units", i);
    if (rc == ERR_OK)
        *out = stage;
    return rc;
}

/* Against the entries before it. */
static enum err_code check_entry(const struct spec_stages *list, int i, struct err *err)
{
    const struct spec_stage *stage = &list->list[i];

    if ((stage->units > 0) != (list->list[0].units > 0))
        return err_set(err, ERR_INVALID, PATH "[%d]: counts %s, the entries before it %s", i,
                       stage->units > 0 ? "units" : "layers",
                       stage->units > 0 ? "layers" : "units");
    for (int before = 0; before < i && stage->node[0]; before++)
        if (strcmp(list->list[before].node, stage->node) == 0)
            return err_set(err, ERR_INVALID, PATH "[%d].node: \"%.60s\" is given twice", i,
                           stage->node);
    return ERR_OK;
}

static enum err_code read_list(const struct json *json, struct spec_stages *out, struct err *err)
{
    struct spec_stages list = {.n = 0};
    enum err_code rc = ERR_OK;

    if (json_kind_of(json) != JSON_ARRAY)
        return err_set(err, ERR_INVALID, PATH ": must be a list of objects, found %s",
                       json_kind_name(json_kind_of(json)));
    if (json_count(json) < 1 || json_count(json) > SPEC_STAGES_MAX)
        return err_set(err, ERR_INVALID, PATH ": must have 1..%d entries, found %zu",
                       SPEC_STAGES_MAX, json_count(json));
    for (const struct json *v = json_first(json); v && rc == ERR_OK; v = json_next(v)) {
        rc = read_entry(v, list.n, &list.list[list.n], err);
        if (rc == ERR_OK)
            rc = check_entry(&list, list.n++, err);
    }
    if (rc == ERR_OK)
        *out = list;
    return rc;
}

enum err_code stages_read(const struct json *json, struct spec_stages *out, struct err *err)
{
    const struct json *replica = json_first(json);

    if (json_kind_of(json) != JSON_ARRAY)
        return err_set(err, ERR_INVALID, REPLICAS ": must be a list of objects, found %s",
                       json_kind_name(json_kind_of(json)));
    if (json_count(json) != 1)
        return err_set(err, ERR_INVALID,
                       REPLICAS ": must have 1 entry, found %zu; more than one replica is not "
                                "supported yet",
                       json_count(json));
    if (json_kind_of(replica) != JSON_OBJECT)
        return err_set(err, ERR_INVALID, REPLICAS "[0]: must be an object, found %s",
                       json_kind_name(json_kind_of(replica)));
    for (const struct json *v = json_first(replica); v; v = json_next(v))
        if (strcmp(json_key(v), "stages") != 0)
            return err_set(err, ERR_INVALID, REPLICAS "[0].%.60s: there is no such field",
                           json_key(v));
    return read_list(json_get(replica, "stages"), out, err);
}

enum err_code stages_check(const struct spec *spec, struct err *err)
{
    const struct spec_stages *stages = &spec->placement.stages;
    bool is_manual = spec->placement.strategy == SPEC_STRATEGY_MANUAL;
    bool counts_units = stages->n > 0 && stages->list[0].units > 0;
    int want = counts_units ? model_units(&spec->model) : spec->model.layers;
    int sum = 0;

    if (is_manual && stages->n == 0)
        return err_set(err, ERR_INVALID,
                       "spec.placement.strategy: Manual needs spec.placement.manual, such as "
                       "{replicas: [{stages: [{layers: %d, node: NAME}]}]}",
                       spec->model.layers);
    if (!is_manual && stages->n > 0)
        return err_set(err, ERR_INVALID,
                       "spec.placement.manual: is read with strategy Manual only; leave it out or "
                       "set the strategy");
    for (int s = 0; s < stages->n; s++)
        sum += counts_units ? stages->list[s].units : stages->list[s].layers;
    if (is_manual && sum != want)
        return err_set(err, ERR_INVALID, PATH ": their %s add up to %d, the model has %d",
                       counts_units ? "units" : "layers", sum, want);
    return ERR_OK;
}

bool stages_equal(const struct spec_stages *a, const struct spec_stages *b)
{
    bool same = a->n == b->n;

    for (int s = 0; same && s < a->n; s++)
        same = a->list[s].layers == b->list[s].layers && a->list[s].units == b->list[s].units &&
               strcmp(a->list[s].node, b->list[s].node) == 0;
    return same;
}

int stages_units(const struct spec *spec, int s)
{
    const struct spec_stages *stages = &spec->placement.stages;
    int tail = model_units(&spec->model) - 2 * spec->model.layers - 1;

    if (stages->list[s].units > 0)
        return stages->list[s].units;
    return 2 * stages->list[s].layers + (s == 0) + (s == stages->n - 1 ? tail : 0);
}
