#include "train/start.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "data/layout.h"

enum err_code start_open(const char *folder, struct plan *plan, struct pretrained **out,
                         struct err *err)
{
    struct pretrained *p = NULL;
    struct layout layout;
    enum err_code rc = pretrained_open(folder, &p, err);

    layout_init(&layout, &plan->spec);
    if (rc == ERR_OK)
        rc = pretrained_check(p, &plan->spec.model, err);
    if (rc == ERR_OK)
        rc = pretrained_match_labels(p, layout.task, layout.labels, layout.n_labels, err);
    if (rc != ERR_OK) {
        pretrained_close(p);
        return rc;
    }
    plan->spec.model.norm_eps = pretrained_config(p)->model.norm_eps;
    *out = p;
    return ERR_OK;
}

static bool is_owned(const struct stage *s, int unit)
{
    return unit >= s->weights.first_unit && unit < s->weights.first_unit + s->weights.n_units;
}

/* Only units behind the last layer may lack tensors; those of other stages are read to find out. */
static enum err_code load_unit(struct stage *s, const struct pretrained *p, int unit,
                               struct pretrained_missing *missing, struct err *err)
{
    const struct model *m = &s->plan->spec.model;
    float *scratch;
    enum err_code rc;

    *missing = (struct pretrained_missing){0};
    if (is_owned(s, unit))
        return pretrained_load_unit(
            p, m, unit, s->weights.units[unit - s->weights.first_unit].params, missing, err);
    if (model_unit_layer(m, unit) >= 0 || unit == 0)
        return ERR_OK;
    scratch = malloc(model_unit_params(m, unit) * sizeof *scratch);
    if (!scratch)
        return err_set(err, ERR_NO_MEMORY, "no memory to check unit %d of a model", unit);
    rc = pretrained_load_unit(p, m, unit, scratch, missing, err);
    free(scratch);
    return rc;
}

enum err_code start_load(struct stage *s, const struct pretrained *p,
                         char out_initialised[static PROGRESS_INITIALISED_BYTES], struct err *err)
{
    const struct model *m = &s->plan->spec.model;
    char list[PROGRESS_INITIALISED_BYTES] = "";
    enum err_code rc = ERR_OK;

    for (int u = 0; rc == ERR_OK && u < model_units(m); u++) {
        struct pretrained_missing missing;
        char name[MODEL_NAME_BYTES];

        rc = load_unit(s, p, u, &missing, err);
        if (rc != ERR_OK || missing.n_tensors == 0)
            continue;
        model_unit_name(m, u, name);
        text_add(list, sizeof list, "%s%s (%.60s)", *list ? ", " : "", name, missing.why);
    }
    if (rc == ERR_OK && s->tie.words && s->tie.words != s->tie.owned)
        rc = pretrained_load_words(p, m, s->tie.words, err);
    if (rc == ERR_OK)
        memcpy(out_initialised, list, sizeof list);
    return rc;
}
