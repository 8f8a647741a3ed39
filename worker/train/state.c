#include "train/state.h"

#include <string.h>

bool state_has(const struct state *s, int unit)
{
    return s->hold[unit] >= STATE_KEPT;
}

bool state_is_past(const struct state *s, const struct resume *at)
{
    return s->lineage > at->lineage || (s->lineage == at->lineage && s->step > at->step);
}

/* Are the gradients of the step that leads to this point complete? */
static bool is_one_update_before(const struct state *s, const struct resume *at)
{
    return s->lineage == at->lineage && s->is_finished && s->step + 1 == at->step;
}

bool state_reaches(const struct state *s, int unit, const struct resume *at)
{
    if (s->hold[unit] == STATE_OWN && is_one_update_before(s, at))
        return true;
    return state_has(s, unit) && s->lineage == at->lineage && s->step == at->step;
}

/* Parameters, gradients and moments, on a counting arena first. */
static void lay_out(struct weights_unit *u, const struct spec *spec, int unit, struct arena *arena)
{
    u->count = model_unit_params(&spec->model, unit);
    u->params = arena_floats(arena, u->count);
    u->grads = arena_floats(arena, u->count);
    u->moment = arena_floats(arena, u->count);
    if (spec->training.optimizer == SPEC_OPTIMIZER_ADAMW)
        u->variance = arena_floats(arena, u->count);
}

size_t state_unit_bytes(const struct spec *spec, int unit)
{
    struct weights_unit u = {0};
    struct arena count = {0};

    lay_out(&u, spec, unit, &count);
    return count.used;
}

enum err_code state_take(struct state *s, const struct spec *spec, int unit, struct err *err)
{
    struct weights_unit u = {0};
    enum err_code rc = arena_init(&u.memory, state_unit_bytes(spec, unit), err);
    char name[MODEL_NAME_BYTES];

    model_unit_name(&spec->model, unit, name);
    if (rc != ERR_OK)
        return err_wrap(err, rc, "weights of %s", name);
    lay_out(&u, spec, unit, &u.memory);
    s->units[unit] = u;
    s->hold[unit] = STATE_PARTIAL;
    return ERR_OK;
}

void state_start(struct state *s, const struct spec *spec, int unit)
{
    struct weights_unit *u = &s->units[unit];

    memset(u->grads, 0, u->count * sizeof *u->grads);
    memset(u->moment, 0, u->count * sizeof *u->moment);
    if (u->variance)
        memset(u->variance, 0, u->count * sizeof *u->variance);
    weights_init(u->params, &spec->model, unit, (uint64_t)spec->training.seed);
    s->hold[unit] = STATE_KEPT;
}

void state_drop(struct state *s, int unit)
{
    arena_deinit(&s->units[unit].memory);
    s->units[unit] = (struct weights_unit){.count = 0};
    s->hold[unit] = STATE_NOTHING;
}

void state_deinit(struct state *s)
{
    for (int u = 0; u < MODEL_UNITS_MAX; u++)
        state_drop(s, u);
    memset(s, 0, sizeof *s);
}

enum err_code state_add(struct state *s, const struct spec *spec, int first, int n, struct err *err)
{
    enum err_code rc = ERR_OK;

    for (int u = first; rc == ERR_OK && u < first + n; u++) {
        if (!state_has(s, u)) {
            rc = state_take(s, spec, u, err);
            if (rc == ERR_OK)
                state_start(s, spec, u);
        }
        if (rc == ERR_OK)
            s->hold[u] = STATE_OWN;
    }
    return rc;
}

struct weights state_weights(struct state *s, const struct spec *spec, int first, int n)
{
    return (struct weights){
        .model = &spec->model, .first_unit = first, .n_units = n, .units = s->units + first};
}

/* Drop the units that are held as `most` or less. */
static void drop_up_to(struct state *s, enum state_hold most)
{
    for (int u = 0; u < MODEL_UNITS_MAX; u++)
        if (s->hold[u] != STATE_NOTHING && s->hold[u] <= most)
            state_drop(s, u);
}

static int64_t updates_after(const struct step_end *end)
{
    return end->updates + (end->step > 0 && end->outcome == STEP_APPLY);
}

enum err_code state_apply(struct state *s, const struct spec *spec, const struct step_end *end,
                          struct err *err)
{
    struct weights_step how = {
        .spec = spec, .rate = end->rate, .scale = end->scale, .share = 1, .updates = end->updates};

    s->end = *end;
    if (end->outcome == STEP_FAIL)
        return err_set(err, ERR_INVALID,
                       "step %lld: the loss or a gradient is not finite; lower "
                       "spec.training.optimizer.learningRate, or set "
                       "spec.training.nonFinitePolicy to Skip to leave such steps out",
                       (long long)end->step);
    for (int u = 0; u < MODEL_UNITS_MAX; u++) {
        struct weights w = state_weights(s, spec, u, 1);

        if (s->hold[u] != STATE_OWN)
            continue;
        if (end->outcome == STEP_APPLY)
            weights_update(&w, &how);
        else
            weights_skip(&w);
    }
    drop_up_to(s, STATE_KEPT);
    s->step = end->step;
    s->updates = updates_after(end);
    s->is_finished = false;
    return ERR_OK;
}

void state_reach(struct state *s, const struct step_end *end)
{
    drop_up_to(s, STATE_KEPT);
    s->end = *end;
    s->step = end->step;
    s->updates = updates_after(end);
    s->is_finished = false;
    s->is_between = false;
}

void state_settle(struct state *s)
{
    if (s->is_between)
        drop_up_to(s, STATE_OWN);
    s->is_between = false;
}

enum err_code state_resume(struct state *s, const struct spec *spec, const struct resume *at,
                           struct err *err)
{
    enum err_code rc = ERR_OK;

    drop_up_to(s, STATE_PARTIAL);
    if (is_one_update_before(s, at))
        rc = state_apply(s, spec, &at->end, err);
    if (rc != ERR_OK)
        return rc;
    if (s->lineage != at->lineage || s->step != at->step)
        drop_up_to(s, STATE_OWN);
    s->lineage = at->lineage;
    s->origins = at->origins;
    s->step = at->step;
    s->updates = updates_after(&at->end);
    s->end = at->end;
    s->is_finished = false;
    for (int u = 0; u < MODEL_UNITS_MAX; u++) {
        struct weights w = state_weights(s, spec, u, 1);

        if (s->hold[u] == STATE_NOTHING)
            continue;
        weights_skip(&w);
        s->hold[u] = STATE_KEPT;
    }
    return ERR_OK;
}

void state_report(const struct state *s, struct report *out)
{
    out->lineage = s->lineage;
    out->origins = s->origins;
    out->end = s->end;
    out->n_runs = 0;
    for (int u = 0; u < MODEL_UNITS_MAX; u++)
        if (state_has(s, u))
            report_add(out, &(struct report_run){.first_unit = u,
                                                 .n_units = 1,
                                                 .step = s->step,
                                                 .is_finished =
                                                     s->hold[u] == STATE_OWN && s->is_finished});
}
