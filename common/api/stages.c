#include "api/stages.h"

#include <string.h>

#define REPLICAS "spec.placement.manual.replicas"
#define PATH     REPLICAS "[0].stages"

/* An entry counts either layers or units, and all entries the same. */
static enum err_code check_entry(const struct spec_stages *list, int i, struct err *err)
{
    const struct spec_stage *stage = &list->list[i];

    if ((stage->layers > 0) == (stage->units > 0))
        return err_set(err, ERR_INVALID, PATH "[%d]: must have either layers or units", i);
    if ((stage->units > 0) != (list->list[0].units > 0))
        return err_set(err, ERR_INVALID, PATH "[%d]: counts %s, the entries before it %s", i,
                       stage->units > 0 ? "units" : "layers",
                       stage->units > 0 ? "layers" : "units");
    return ERR_OK;
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
    for (int s = 0; s < stages->n; s++) {
        enum err_code rc = check_entry(stages, s, err);

        if (rc != ERR_OK)
            return rc;
    }
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
