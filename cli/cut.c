#include "cli/cut.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/resume.h"

/* Read a whole number of at least `min` and what follows it; false when there is none. */
static bool take_number(const char **at, char end, int64_t min, int64_t max, int64_t *out)
{
    char *after;

    *out = strtoll(*at, &after, 10);
    if (after == *at || **at < '0' || **at > '9' || *after != end || *out < min || *out > max)
        return false;
    *at = after + (end != '\0');
    return true;
}

static bool has_slot(const struct cut *c, int64_t slot)
{
    for (int i = 0; i < c->n; i++)
        if (c->parts[i].slot == slot)
            return true;
    return false;
}

enum err_code cut_parse(const char *text, int n_workers, const struct model *model, struct cut *out,
                        struct err *err)
{
    int n_units = model_units(model);
    struct cut c = {.n = 0};
    const char *at = text;
    int64_t total = 0;
    bool is_valid = take_number(&at, '=', 1, RESUME_STEP_MAX, &c.step);
    int64_t slot;
    int64_t units;

    for (bool is_last = false; is_valid && !is_last; c.n++) {
        is_last = !strchr(at, ',');
        is_valid = c.n < SPEC_STAGES_MAX && take_number(&at, ':', 0, INT32_MAX, &slot) &&
                   take_number(&at, is_last ? '\0' : ',', 1, n_units, &units);
        if (!is_valid)
            break;
        if (slot >= n_workers || has_slot(&c, slot))
            return err_set(err, ERR_INVALID, "--revise %.100s: worker %lld is %s", text,
                           (long long)slot, slot < n_workers ? "given twice" : "none of --workers");
        c.parts[c.n].slot = (int)slot;
        c.parts[c.n].n_units = (int)units;
        total += units;
    }
    if (!is_valid)
        return err_set(err, ERR_INVALID, "--revise %.100s: must be %s", text, CUT_FORM);
    if (total != n_units)
        return err_set(err, ERR_INVALID, "--revise %.100s: has %lld units, the model has %d", text,
                       (long long)total, n_units);
    *out = c;
    return ERR_OK;
}

void cut_apply(const struct cut *cut, const struct node *workers, struct plan *plan)
{
    int next = 0;

    plan->n_workers = cut->n;
    for (int i = 0; i < cut->n; i++) {
        struct plan_worker *w = &plan->workers[i];
        int slot = cut->parts[i].slot;

        *w = (struct plan_worker){
            .slot = slot,
            .first_unit = next,
            .n_units = cut->parts[i].n_units,
            .cpu_milli = workers[slot].cpu_milli,
            .memory_bytes = workers[slot].memory_bytes,
        };
        (void)snprintf(w->node, sizeof w->node, "%s", workers[slot].name);
        model_range_name(&plan->spec.model, w->first_unit, w->n_units, w->units);
        next += w->n_units;
    }
}
