#include "train/stage.h"

#include <string.h>

#include "api/schedule.h"
#include "nn/gemm.h"
#include "nn/loss.h"
#include "train/outer.h"

static const struct unit *const kinds[UNIT_KINDS] = {
    [UNIT_EMBEDDINGS] = &embedding_unit,
    [UNIT_ATTENTION] = &attention_unit,
    [UNIT_FFN] = &ffn_unit,
    [UNIT_POOLER] = &pooler_unit,
    [UNIT_HEAD] = &head_unit,
    [UNIT_LM_HEAD] = &lm_head_unit,
};

/* Not kept: a trained model to start from may still change norm_eps. */
static struct unit_shape shape_of(const struct model *m)
{
    return (struct unit_shape){.hidden = m->hidden,
                               .heads = m->heads,
                               .ffn = m->ffn,
                               .vocab = m->vocab,
                               .positions = m->positions,
                               .labels = m->labels,
                               .norm_eps = (float)m->norm_eps,
                               .next_sentence = m->head == MODEL_HEAD_PRETRAINING};
}

/* Floats that `unit` passes on for `tokens` tokens in `seqs` sequences. */
static size_t out_floats(const struct stage *s, int unit, int tokens, int seqs)
{
    const struct model *m = &s->plan->spec.model;
    const struct unit_shape shape = shape_of(m);
    const struct unit_limits limits = {.tokens = tokens, .seqs = seqs};

    return unit_sizes(kinds[model_unit_kind(m, unit)], &shape, &limits).out;
}

size_t stage_edge_floats(const struct plan *plan)
{
    const struct message_limits limits = message_limits_of(&plan->spec, plan->micro_batches);

    return (size_t)limits.seqs * (size_t)limits.length * (size_t)plan->spec.model.hidden;
}

/* The LM head's forward has added to gradients already, so it can run only once. */
static bool is_run_again(const struct spec *spec, enum unit_kind kind)
{
    return spec->training.activations == SPEC_ACTIVATIONS_RECOMPUTE && kind != UNIT_LM_HEAD;
}

static void layout_slot(struct stage *s, struct stage_slot *slot, struct arena *arena)
{
    const struct model *m = &s->plan->spec.model;
    const struct unit_shape shape = shape_of(m);
    const struct unit_limits *limits = &s->unit_limits;
    size_t n_units = (size_t)s->weights.n_units;
    size_t T = (size_t)limits->tokens;
    size_t B = (size_t)limits->seqs;
    size_t numbers = 3 * B + 1 + 2 * (size_t)limits->targets + (s->is_first ? 2 * T : 0);
    struct stage_slot layout = {.outs = arena_take(arena, n_units * sizeof(float *)),
                                .saved = arena_take(arena, n_units * sizeof(float *)),
                                .numbers = arena_take(arena, numbers * sizeof(int32_t))};

    if (!s->is_first && s->plan->spec.wire == SPEC_WIRE_BF16)
        layout.unpacked = arena_floats(arena, T * (size_t)m->hidden);
    if (s->is_last && !model_is_tied(m))
        layout.dlogits = arena_floats(arena, B * (size_t)m->labels);
    for (size_t i = 0; i < n_units; i++) {
        int unit = s->weights.first_unit + (int)i;
        enum unit_kind kind = model_unit_kind(m, unit);
        float *saved = is_run_again(&s->plan->spec, kind)
                           ? s->saved
                           : arena_floats(arena, unit_sizes(kinds[kind], &shape, limits).saved);
        float *out = i + 1 < n_units
                         ? arena_floats(arena, out_floats(s, unit, limits->tokens, limits->seqs))
                         : s->out;

        if (arena->base) {
            layout.saved[i] = saved;
            layout.outs[i] = out;
        }
    }
    if (arena->base)
        *slot = layout;
}

bool stage_is_home(const struct stage *s, int i)
{
    return plan_home_has(&s->home, s->weights.first_unit + i);
}

/* May replicas be asynchronous? Then the entries of all units change (stage_take_snapshot()). */
static bool is_asynchronous(const struct stage *s)
{
    return spec_is_asynchronous(&s->plan->spec) && plan_n_replicas(s->plan) > 1;
}

/* May they train alone? Then guests have moments, and homes take outer steps. */
static bool is_local(const struct stage *s)
{
    return spec_later_protocol(&s->plan->spec) == SPEC_PROTOCOL_LOCAL && is_asynchronous(s);
}

/* The weights of units that have their home elsewhere, in copies of the state's entries. */
static void layout_guests(struct stage *s, struct arena *arena)
{
    struct weights *w = &s->weights;
    struct weights_unit *units;

    if (s->home.n_units == w->n_units && !is_asynchronous(s))
        return;
    units = arena_take(arena, (size_t)w->n_units * sizeof *units);
    for (int i = 0; i < w->n_units; i++) {
        struct weights_unit own = {.count = model_unit_params(w->model, w->first_unit + i)};

        if (stage_is_home(s, i)) {
            own = w->units[i];
        } else {
            own.params = arena_floats(arena, own.count);
            own.grads = arena_floats(arena, own.count);
            if (s->plan->spec.sync.gradient_percent > 0)
                own.unsent = arena_floats(arena, own.count);
            if (is_local(s))
                own.moment = arena_floats(arena, own.count);
            if (is_local(s) && s->plan->spec.training.optimizer == SPEC_OPTIMIZER_ADAMW)
                own.variance = arena_floats(arena, own.count);
        }
        if (arena->base)
            units[i] = own;
    }
    if (arena->base)
        w->units = units;
}

/* As many floats as the parameters have, of every unit at home; NULL for the others. */
static float **layout_at_home(struct stage *s, struct arena *arena)
{
    const struct weights *w = &s->weights;
    float **list = arena_take(arena, (size_t)w->n_units * sizeof *list);

    for (int i = 0; i < w->n_units; i++) {
        float *floats = stage_is_home(s, i)
                            ? arena_floats(arena, model_unit_params(w->model, w->first_unit + i))
                            : NULL;

        if (arena->base)
            list[i] = floats;
    }
    return list;
}

static size_t largest_unit(const struct weights *w)
{
    size_t largest = 0;

    for (int i = 0; i < w->n_units; i++) {
        size_t params = model_unit_params(w->model, w->first_unit + i);

        largest = params > largest ? params : largest;
    }
    return largest;
}

static void layout_sums(struct stage *s, struct arena *arena)
{
    const struct weights *w = &s->weights;

    if (s->replica.n_shares == 1)
        return;
    s->sums = arena_take(arena, (size_t)w->n_units * sizeof *s->sums);
    for (int i = 0; i < w->n_units; i++) {
        float *sums = arena_floats(arena, model_unit_params(w->model, w->first_unit + i));

        if (arena->base)
            s->sums[i] = sums;
    }
}

/* The whole memory of a stage, laid out in one place. */
static void layout(struct stage *s, struct arena *arena)
{
    const struct spec *spec = &s->plan->spec;
    const struct plan_worker *p = &s->plan->workers[s->worker];
    const struct unit_shape shape = shape_of(&spec->model);
    size_t seqs = (size_t)s->limits.seqs, targets = (size_t)s->limits.targets;
    size_t answers = targets > seqs ? targets : seqs;
    size_t edge = stage_edge_floats(s->plan);
    size_t scratch = 0, saved = 0;

    layout_guests(s, arena);
    if (is_asynchronous(s))
        s->snapshots = layout_at_home(s, arena);
    if (is_local(s) && s->plan->spec.sync.outer_momentum > 0)
        s->velocity = layout_at_home(s, arena);
    if (is_local(s))
        s->offered = arena_floats(arena, largest_unit(&s->weights));
    layout_sums(s, arena);
    tie_layout(&s->tie, &s->weights, s->is_last, edge, arena);
    for (int i = 0; i < p->n_units; i++) {
        enum unit_kind kind = model_unit_kind(&spec->model, p->first_unit + i);
        struct unit_sizes n = unit_sizes(kinds[kind], &shape, &s->unit_limits);

        scratch = n.scratch > scratch ? n.scratch : scratch;
        if (is_run_again(spec, kind))
            saved = n.saved > saved ? n.saved : saved;
    }
    s->scratch = arena_floats(arena, scratch);
    s->saved = arena_floats(arena, saved);
    s->out = arena_floats(arena, edge);
    s->grads[0] = arena_floats(arena, edge);
    s->grads[1] = arena_floats(arena, edge);
    s->scores = (struct lm_scores){
        .losses = arena_floats(arena, answers),
        .predictions = arena_take(arena, answers * sizeof(int32_t)),
        .next_losses = arena_floats(arena, seqs),
        .next_predictions = arena_take(arena, seqs * sizeof(int32_t)),
    };
    s->slots = arena_take(arena, (size_t)s->n_slots * sizeof *s->slots);
    for (int i = 0; i < s->n_slots; i++)
        layout_slot(s, s->slots ? &s->slots[i] : NULL, arena);
}

static void describe(struct stage *s, struct state *state, const struct plan *plan, int worker)
{
    const struct plan_worker *p = &plan->workers[worker];

    memset(s, 0, sizeof *s);
    s->plan = plan;
    s->weights = state_weights(state, &plan->spec, p->first_unit, p->n_units);
    s->limits = message_limits_of(&plan->spec, plan->micro_batches);
    s->unit_limits = (struct unit_limits){.tokens = s->limits.seqs * s->limits.length,
                                          .seqs = s->limits.seqs,
                                          .longest = s->limits.length,
                                          .targets = s->limits.targets};
    s->worker = worker;
    s->replica = plan_replica(plan, p->replica);
    (void)plan_home(plan, worker, &s->home);
    s->index = worker - s->replica.first_worker;
    s->is_first = s->index == 0;
    s->is_last = s->index == s->replica.n_stages - 1;
    s->n_slots = schedule_slots(plan, worker);
}

size_t stage_bytes(const struct plan *plan, int worker)
{
    static _Thread_local struct state none; /* large: the unit table */
    struct arena count = {0};
    struct stage s;
    size_t units = 0;

    describe(&s, &none, plan, worker);
    layout(&s, &count);
    for (int u = s.home.first_unit; u < s.home.first_unit + s.home.n_units; u++)
        units += state_unit_bytes(&plan->spec, u);
    return units + count.used;
}

enum err_code stage_init(struct stage *s, struct state *state, const struct plan *plan, int worker,
                         struct err *err)
{
    struct arena count = {0}, arena = {0};
    enum err_code rc;

    describe(s, state, plan, worker);
    layout(s, &count);
    rc = arena_init(&arena, count.used, err);
    if (rc != ERR_OK)
        return err_wrap(err, rc, "tensors of stage %d", worker);
    layout(s, &arena);
    s->arena = arena;
    return ERR_OK;
}

void stage_deinit(struct stage *s)
{
    arena_deinit(&s->arena);
    memset(s, 0, sizeof *s);
}

void stage_use(struct stage *s, struct weights_unit *units)
{
    struct weights *w = &s->weights;

    if (s->home.n_units == w->n_units) /* they are the state's own, which stay as they are */
        w->units = units;
    else if (s->home.n_units > 0)
        memcpy(&w->units[s->home.first_unit - w->first_unit], units,
               (size_t)s->home.n_units * sizeof *units);
}

/* The first unit has the words of a language model. */
static void use_params(struct stage *s, int i, float *params)
{
    s->weights.units[i].params = params;
    if (i > 0 || !s->is_first || !s->tie.is_tied)
        return;
    s->tie.owned = params;
    if (s->is_last)
        s->tie.words = params;
}

void stage_take_snapshot(struct stage *s)
{
    for (int i = 0; i < s->weights.n_units; i++) {
        const struct weights_unit *u = &s->weights.units[i];

        if (!s->snapshots[i])
            continue;
        memcpy(s->snapshots[i], u->params, u->count * sizeof *u->params);
        use_params(s, i, s->snapshots[i]);
    }
}

void stage_drop_snapshot(struct stage *s, const struct state *state)
{
    for (int i = 0; i < s->weights.n_units; i++)
        if (s->snapshots[i])
            use_params(s, i, state->units[s->weights.first_unit + i].params);
}

void stage_offer_weights(struct stage *s)
{
    for (int i = 0; i < s->weights.n_units; i++) {
        const struct weights_unit *u = &s->weights.units[i];

        memcpy(u->grads, u->params, u->count * sizeof *u->grads);
    }
}

struct outer_step stage_outer_step(const struct stage *s)
{
    const struct spec *spec = &s->plan->spec;

    return (struct outer_step){.rate = spec->sync.outer_rate,
                               .momentum = spec->sync.outer_momentum,
                               .n_replicas = plan_n_replicas(s->plan)};
}

void stage_meet(struct stage *s, const struct state *state)
{
    const struct outer_step how = stage_outer_step(s);

    for (int i = 0; i < s->weights.n_units; i++) {
        const struct weights_unit *u = &state->units[s->weights.first_unit + i];

        if (stage_is_home(s, i))
            outer_apply(&how, u->params, u->grads, s->velocity ? s->velocity[i] : NULL, u->count);
    }
}

void stage_offer_unit(struct stage *s, int i)
{
    const struct weights_unit *u = &s->weights.units[i];

    memcpy(s->offered, u->params, u->count * sizeof *u->params);
}

void stage_take_unit(struct stage *s, int i)
{
    const struct weights_unit *u = &s->weights.units[i];

    for (size_t k = 0; k < u->count; k++)
        u->params[k] -= s->offered[k];
}

static enum unit_kind kind_of(const struct stage *s, int i)
{
    return model_unit_kind(&s->plan->spec.model, s->weights.first_unit + i);
}

static struct unit_call call_of(struct stage *s, const struct stage_slot *slot, int i)
{
    const struct spec *spec = &s->plan->spec;
    const struct message_batch *b = &slot->batch;

    return (struct unit_call){
        .shape = shape_of(&spec->model),
        .batch = {.n_seqs = b->n_seqs, .starts = b->starts, .samples = b->samples},
        .drop = {.seed = (uint64_t)spec->training.seed,
                 .step = (uint32_t)b->step,
                 .unit = (uint32_t)(s->weights.first_unit + i),
                 .rate = b->is_eval ? 0.0f : (float)spec->training.dropout},
        .params = s->weights.units[i].params,
        .grads = s->weights.units[i].grads,
        .saved = slot->saved[i],
        .scratch = s->scratch,
        .ids = b->ids,
        .types = b->types,
        .lm = {.decoder = s->tie.words,
               .decoder_grads = b->is_eval ? NULL : s->tie.grads,
               .n = b->n_targets,
               .rows = b->rows,
               .ids = b->target_ids,
               .next = b->labels,
               .factor = 1.0f / (float)(b->step_targets > 0 ? b->step_targets : 1),
               .next_factor = 1.0f / (float)b->step_seqs},
        .scores = s->scores,
    };
}

/* Tokens and their positions index the embeddings. */
static enum err_code check_tokens(const struct model *m, const struct message_batch *b,
                                  struct err *err)
{
    for (int i = 0; i < b->n_seqs; i++)
        if (b->starts[i + 1] - b->starts[i] > m->positions)
            return err_set(err, ERR_INVALID, "sequence %d has %d tokens, the model %d positions", i,
                           b->starts[i + 1] - b->starts[i], m->positions);
    for (int t = 0; t < b->n_tokens; t++)
        if (b->ids[t] < 0 || b->ids[t] >= m->vocab || b->types[t] < 0 || b->types[t] >= MODEL_TYPES)
            return err_set(err, ERR_INVALID, "token %d: id %d or type %d is outside the model", t,
                           b->ids[t], b->types[t]);
    return ERR_OK;
}

_Static_assert(sizeof(float) == sizeof(int32_t), "scores and labels take the same memory");

/* Copy `n` numbers to the front of *at and step over them. */
static const void *keep(int32_t **at, const void *from, int n)
{
    const int32_t *kept = *at;

    if (!from || n == 0)
        return NULL;
    memcpy(*at, from, (size_t)n * sizeof **at);
    *at += n;
    return kept;
}

enum err_code stage_load(struct stage *s, int slot_index, const struct message_batch *b,
                         struct err *err)
{
    struct stage_slot *slot = &s->slots[slot_index];
    enum err_code rc = s->is_first ? check_tokens(&s->plan->spec.model, b, err) : ERR_OK;
    int first = s->weights.first_unit, last = first + s->weights.n_units - 1;
    int32_t *at = slot->numbers;

    if (rc != ERR_OK)
        return rc;
    slot->batch = *b;
    slot->batch.starts = keep(&at, b->starts, b->n_seqs + 1);
    slot->batch.labels = keep(&at, b->labels, b->n_seqs);
    slot->batch.scores = keep(&at, b->scores, b->n_seqs);
    slot->batch.samples = keep(&at, b->samples, b->n_seqs);
    slot->batch.rows = keep(&at, b->rows, b->n_targets);
    slot->batch.target_ids = keep(&at, b->target_ids, b->n_targets);
    slot->batch.ids = s->is_first ? keep(&at, b->ids, b->n_tokens) : NULL;
    slot->batch.types = s->is_first ? keep(&at, b->types, b->n_tokens) : NULL;
    slot->in_floats = s->is_first ? 0 : out_floats(s, first - 1, b->n_tokens, b->n_seqs);
    slot->out_floats = s->is_last ? 0 : out_floats(s, last, b->n_tokens, b->n_seqs);
    return ERR_OK;
}

static const float *input_of(const struct stage_slot *slot, int i)
{
    return i > 0 ? slot->outs[i - 1] : slot->input;
}

static double sum_of(const float *x, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += (double)x[i];
    return sum;
}

/* The loss of the last unit's output, and its gradient. The LM head has computed both itself. */
static void score(struct stage *s, struct stage_slot *slot, struct stage_result *out)
{
    const struct model *m = &s->plan->spec.model;
    const struct message_batch *b = &slot->batch;
    float *gradient = b->is_eval ? NULL : slot->dlogits;
    float share = 1.0f / (float)b->step_seqs; /* of a sequence in the step's mean loss */

    out->loss = (struct message_loss){.n = b->n_seqs, .n_seqs = b->n_seqs};
    out->predictions = s->scores.predictions;
    switch (m->head) {
    case MODEL_HEAD_CLASSIFIER:
        loss_predict(s->scores.predictions, s->out, b->n_seqs, m->labels);
        loss_cross_entropy(s->scores.losses, gradient, s->out, b->labels, b->n_seqs, m->labels,
                           share);
        break;
    case MODEL_HEAD_REGRESSION:
        loss_squared(s->scores.losses, gradient, s->out, b->scores, b->n_seqs, share);
        out->predictions = NULL;
        out->values = s->out;
        break;
    case MODEL_HEAD_PRETRAINING:
        out->loss.next_sum = sum_of(s->scores.next_losses, b->n_seqs);
        out->next_predictions = s->scores.next_predictions;
        out->loss.n = b->n_targets;
        break;
    case MODEL_HEAD_MASKED_LM:
        out->loss.n = b->n_targets;
        break;
    }
    out->loss.sum = sum_of(s->scores.losses, (int)out->loss.n);
}

bool stage_forward(struct stage *s, int slot_index, struct stage_result *out)
{
    struct stage_slot *slot = &s->slots[slot_index];

    for (int i = 0; i < s->weights.n_units; i++) {
        const struct unit_call call = call_of(s, slot, i);
        enum unit_kind kind = kind_of(s, i);

        if (s->hooks && !s->hooks->needs(s->hooks->ctx, i))
            return false;
        stopwatch_start(&s->kinds[kind]);
        unit_forward(kinds[kind], &call, input_of(slot, i), slot->outs[i]);
        stopwatch_stop(&s->kinds[kind]);
    }
    *out = (struct stage_result){.tensor = s->out, .floats = slot->out_floats};
    if (s->is_last)
        score(s, slot, out);
    return true;
}

const float *stage_backward(struct stage *s, int slot_index, const float *dout)
{
    struct stage_slot *slot = &s->slots[slot_index];
    const float *gradient = s->is_last ? slot->dlogits : dout;

    for (int i = s->weights.n_units - 1; i >= 0; i--) {
        const struct unit_call call = call_of(s, slot, i);
        enum unit_kind kind = kind_of(s, i);
        float *din = s->grads[i % 2];

        stopwatch_start(&s->kinds[kind]);
        if (is_run_again(&s->plan->spec, kind)) /* its output is there: only `saved` is not */
            unit_forward(kinds[kind], &call, input_of(slot, i), din);
        unit_backward(kinds[kind], &call, input_of(slot, i), gradient, din);
        stopwatch_stop(&s->kinds[kind]);
        gradient = din;
        if (s->hooks)
            s->hooks->has_added(s->hooks->ctx, i);
    }
    return s->is_first ? NULL : gradient;
}

void stage_end_share(struct stage *s, bool is_first, bool is_last)
{
    if (!s->sums || (is_first && is_last))
        return;
    for (int u = 0; u < s->weights.n_units; u++) {
        const struct weights_unit *unit = &s->weights.units[u];
        float *sums = s->sums[u];

        for (size_t i = 0; i < unit->count; i++) {
            float sum = is_first ? unit->grads[i] : sums[i] + unit->grads[i];

            sums[i] = is_last ? 0.0f : sum;
            unit->grads[i] = is_last ? sum : 0.0f;
        }
    }
}
