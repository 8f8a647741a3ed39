#include "train/stage.h"

#include <string.h>

#include "nn/gemm.h"
#include "nn/loss.h"
#include "nn/threads.h"
#include "train/schedule.h"

/* Everything of one micro-batch that its backward pass needs. */
struct stage_slot {
    struct message_batch batch; /* points into the arrays below */
    int64_t step;
    float *input;  /* of the first unit, unless that is the embeddings */
    float **outs;  /* [n_units]: what each unit gave to the next */
    float **saved; /* [n_units]; with activations recomputed most are the stage's one */
    float *dlogits;
    int32_t *starts, *labels, *ids, *types, *rows, *target_ids;
    float *scores;
    uint32_t *samples;
};

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

static struct unit_room room_of(const struct spec *spec)
{
    const struct message_limits limits = message_limits_of(spec);

    return (struct unit_room){.tokens = limits.seqs * limits.length,
                              .seqs = limits.seqs,
                              .longest = limits.length,
                              .threads = threads_count(),
                              .targets = limits.targets};
}

static struct unit_sizes sizes_of(enum unit_kind kind, const struct unit_shape *s,
                                  const struct unit_room *r)
{
    switch (kind) {
    case UNIT_EMBEDDINGS:
        return embedding_unit_sizes(s, r);
    case UNIT_ATTENTION:
        return attention_unit_sizes(s, r);
    case UNIT_FFN:
        return ffn_unit_sizes(s, r);
    case UNIT_POOLER:
        return pooler_unit_sizes(s, r);
    case UNIT_HEAD:
        return head_unit_sizes(s, r);
    case UNIT_LM_HEAD:
        return lm_head_unit_sizes(s, r);
    }
    return (struct unit_sizes){0};
}

/* Floats that `unit` hands on for `tokens` tokens in `seqs` sequences. */
static size_t out_floats(const struct model *m, int unit, int tokens, int seqs)
{
    switch (model_unit_kind(m, unit)) {
    case UNIT_POOLER:
        return (size_t)seqs * (size_t)m->hidden;
    case UNIT_HEAD:
        return (size_t)seqs * (size_t)m->labels;
    case UNIT_LM_HEAD:
        return 0; /* its scores are all there is */
    default:
        return (size_t)tokens * (size_t)m->hidden;
    }
}

size_t stage_edge_floats(const struct plan *plan)
{
    return (size_t)room_of(&plan->spec).tokens * (size_t)plan->spec.model.hidden;
}

/* The LM head's forward has added to gradients already, so it can run only once. */
static bool is_run_again(const struct spec *spec, enum unit_kind kind)
{
    return spec->training.activations == SPEC_ACTIVATIONS_RECOMPUTE && kind != UNIT_LM_HEAD;
}

static void layout_slot(struct stage *s, struct stage_slot *slot, const struct unit_room *room,
                        struct arena *arena)
{
    const struct model *m = &s->plan->spec.model;
    const struct unit_shape shape = shape_of(m);
    size_t n_units = (size_t)s->weights.n_units;
    size_t T = (size_t)room->tokens;
    size_t B = (size_t)room->seqs;
    size_t targets = (size_t)room->targets;
    struct stage_slot layout = {.outs = arena_take(arena, n_units * sizeof(float *)),
                                .saved = arena_take(arena, n_units * sizeof(float *)),
                                .starts = arena_take(arena, (B + 1) * sizeof(int32_t)),
                                .labels = arena_take(arena, B * sizeof(int32_t)),
                                .scores = arena_floats(arena, B),
                                .rows = arena_take(arena, targets * sizeof(int32_t)),
                                .target_ids = arena_take(arena, targets * sizeof(int32_t)),
                                .samples = arena_take(arena, B * sizeof(uint32_t))};

    if (s->is_first) {
        layout.ids = arena_take(arena, T * sizeof(int32_t));
        layout.types = arena_take(arena, T * sizeof(int32_t));
    } else {
        layout.input = arena_floats(arena, T * (size_t)m->hidden);
    }
    if (s->is_last && !model_is_tied(m))
        layout.dlogits = arena_floats(arena, B * (size_t)m->labels);
    for (size_t i = 0; i < n_units; i++) {
        int unit = s->weights.first_unit + (int)i;
        enum unit_kind kind = model_unit_kind(m, unit);
        float *saved = is_run_again(&s->plan->spec, kind)
                           ? s->saved
                           : arena_floats(arena, sizes_of(kind, &shape, room).saved);
        float *out = i + 1 < n_units
                         ? arena_floats(arena, out_floats(m, unit, room->tokens, room->seqs))
                         : s->out;

        if (arena->base) {
            layout.saved[i] = saved;
            layout.outs[i] = out;
        }
    }
    if (arena->base)
        *slot = layout;
}

/* The whole memory of a stage, in the one place that knows it. */
static void layout(struct stage *s, struct arena *arena)
{
    const struct spec *spec = &s->plan->spec;
    const struct plan_stage *p = &s->plan->stages[s->index];
    const struct unit_shape shape = shape_of(&spec->model);
    const struct unit_room room = room_of(spec);
    size_t answers = (size_t)(room.targets > room.seqs ? room.targets : room.seqs);
    size_t scratch = 0, saved = 0;

    weights_layout(&s->weights, spec, p->first_unit, p->n_units, arena);
    tie_layout(&s->tie, &s->weights, s->is_last, stage_edge_floats(s->plan), arena);
    for (int i = 0; i < p->n_units; i++) {
        enum unit_kind kind = model_unit_kind(&spec->model, p->first_unit + i);
        struct unit_sizes n = sizes_of(kind, &shape, &room);

        scratch = n.scratch > scratch ? n.scratch : scratch;
        if (is_run_again(spec, kind))
            saved = n.saved > saved ? n.saved : saved;
    }
    s->scratch = arena_floats(arena, scratch);
    s->saved = arena_floats(arena, saved);
    s->out = arena_floats(arena, stage_edge_floats(s->plan));
    s->grads[0] = arena_floats(arena, stage_edge_floats(s->plan));
    s->grads[1] = arena_floats(arena, stage_edge_floats(s->plan));
    s->scores = (struct lm_scores){
        .losses = arena_floats(arena, answers),
        .predictions = arena_take(arena, answers * sizeof(int32_t)),
        .next_losses = arena_floats(arena, (size_t)room.seqs),
        .next_predictions = arena_take(arena, (size_t)room.seqs * sizeof(int32_t)),
    };
    s->slots = arena_take(arena, (size_t)s->n_slots * sizeof *s->slots);
    for (int i = 0; i < s->n_slots; i++)
        layout_slot(s, s->slots ? &s->slots[i] : NULL, &room, arena);
}

static void describe(struct stage *s, const struct plan *plan, int index)
{
    const struct schedule schedule = schedule_of(plan, plan->spec.training.batch_size);

    memset(s, 0, sizeof *s);
    s->plan = plan;
    s->index = index;
    s->is_first = index == 0;
    s->is_last = index == plan->n_stages - 1;
    s->n_slots = schedule_in_flight(&schedule, index);
}

size_t stage_bytes(const struct plan *plan, int index)
{
    static _Thread_local struct stage s; /* large: the unit table */
    struct arena count = {0};

    describe(&s, plan, index);
    layout(&s, &count);
    return count.used;
}

enum err_code stage_init(struct stage *s, const struct plan *plan, int index, struct err *err)
{
    struct arena arena = {0};
    enum err_code rc = arena_init(&arena, stage_bytes(plan, index), err);

    if (rc != ERR_OK)
        return rc;
    describe(s, plan, index);
    layout(s, &arena);
    s->arena = arena;
    weights_init(&s->weights, (uint64_t)plan->spec.training.seed);
    if (s->tie.words && s->tie.words != s->tie.owned)
        weights_init_tensor(s->tie.words, &plan->spec.model, 0, 0,
                            (uint64_t)plan->spec.training.seed);
    return ERR_OK;
}

void stage_deinit(struct stage *s)
{
    arena_deinit(&s->arena);
    memset(s, 0, sizeof *s);
}

const struct message_batch *stage_batch(const struct stage *s, int slot)
{
    return &s->slots[slot].batch;
}

size_t stage_input_floats(const struct stage *s, const struct message_batch *batch)
{
    if (s->is_first)
        return 0;
    return out_floats(&s->plan->spec.model, s->weights.first_unit - 1, batch->n_tokens,
                      batch->n_seqs);
}

size_t stage_output_floats(const struct stage *s, const struct message_batch *batch)
{
    if (s->is_last)
        return 0;
    return out_floats(&s->plan->spec.model, s->weights.first_unit + s->weights.n_units - 1,
                      batch->n_tokens, batch->n_seqs);
}

static struct unit_call call_of(struct stage *s, struct stage_slot *slot, int i, bool is_eval)
{
    const struct spec *spec = &s->plan->spec;

    return (struct unit_call){
        .shape = shape_of(&spec->model),
        .batch = {.n_seqs = slot->batch.n_seqs, .starts = slot->starts, .samples = slot->samples},
        .drop = {.seed = (uint64_t)spec->training.seed,
                 .step = (uint32_t)slot->step,
                 .unit = (uint32_t)(s->weights.first_unit + i),
                 .rate = is_eval ? 0.0f : (float)spec->training.dropout},
        .params = s->weights.units[i].params,
        .grads = s->weights.units[i].grads,
        .saved = slot->saved[i],
        .scratch = s->scratch,
    };
}

static enum err_code check_tokens(const struct stage *s, const struct stage_input *in,
                                  struct err *err)
{
    const struct model *m = &s->plan->spec.model;

    for (int t = 0; t < in->batch.n_tokens; t++) {
        if (in->ids[t] < 0 || in->ids[t] >= m->vocab || in->types[t] < 0 ||
            in->types[t] >= MODEL_TYPES || in->positions[t] >= m->positions)
            return err_set(err, ERR_INVALID,
                           "token %d: id %d, type %d or position %d is outside "
                           "the model",
                           t, in->ids[t], in->types[t], in->positions[t]);
    }
    return ERR_OK;
}

static void keep(void *to, const void *from, size_t n, size_t each)
{
    if (from)
        memcpy(to, from, n * each);
}

/* The input belongs to its sender; what backward needs of it is copied. */
static void keep_input(struct stage *s, struct stage_slot *slot, const struct stage_input *in)
{
    const struct message_batch *b = &in->batch;
    size_t n = (size_t)b->n_seqs;
    size_t T = (size_t)b->n_tokens;

    keep(slot->starts, b->starts, n + 1, sizeof *slot->starts);
    keep(slot->labels, b->labels, n, sizeof *slot->labels);
    keep(slot->scores, b->scores, n, sizeof *slot->scores);
    keep(slot->samples, b->samples, n, sizeof *slot->samples);
    keep(slot->rows, b->rows, (size_t)b->n_targets, sizeof *slot->rows);
    keep(slot->target_ids, b->target_ids, (size_t)b->n_targets, sizeof *slot->target_ids);
    slot->batch = *b;
    slot->batch.starts = slot->starts;
    slot->batch.labels = b->labels ? slot->labels : NULL;
    slot->batch.scores = b->scores ? slot->scores : NULL;
    slot->batch.samples = slot->samples;
    slot->batch.rows = slot->rows;
    slot->batch.target_ids = slot->target_ids;
    slot->step = in->step;
    if (s->is_first) {
        memcpy(slot->ids, in->ids, T * sizeof *slot->ids);
        memcpy(slot->types, in->types, T * sizeof *slot->types);
    } else {
        memcpy(slot->input, in->tensor, stage_input_floats(s, b) * sizeof(float));
    }
}

static const float *input_of(const struct stage_slot *slot, int i)
{
    return i > 0 ? slot->outs[i - 1] : slot->input;
}

/* Shares of one sequence and of one masked token in the step's mean loss. */
static float sequence_share(const struct stage_slot *slot)
{
    return 1.0f / (float)slot->batch.step_seqs;
}

static struct lm_targets targets_of(const struct stage *s, const struct stage_slot *slot,
                                    bool is_eval)
{
    const struct message_batch *b = &slot->batch;

    return (struct lm_targets){
        .decoder = s->tie.words,
        .decoder_grads = is_eval ? NULL : s->tie.grads,
        .n = b->n_targets,
        .rows = b->rows,
        .ids = b->target_ids,
        .next = b->labels,
        .factor = 1.0f / (float)(b->step_targets > 0 ? b->step_targets : 1),
        .next_factor = sequence_share(slot),
    };
}

static enum unit_kind kind_of(const struct stage *s, int i)
{
    return model_unit_kind(&s->plan->spec.model, s->weights.first_unit + i);
}

static void forward_unit(struct stage *s, struct stage_slot *slot, int i, bool is_eval, float *out)
{
    const struct unit_call call = call_of(s, slot, i, is_eval);
    const float *in = input_of(slot, i);
    struct lm_targets lm;

    switch (kind_of(s, i)) {
    case UNIT_EMBEDDINGS:
        embedding_unit_forward(&call, slot->ids, slot->types, out);
        break;
    case UNIT_ATTENTION:
        attention_unit_forward(&call, in, out);
        break;
    case UNIT_FFN:
        ffn_unit_forward(&call, in, out);
        break;
    case UNIT_POOLER:
        pooler_unit_forward(&call, in, out);
        break;
    case UNIT_HEAD:
        head_unit_forward(&call, in, out);
        break;
    case UNIT_LM_HEAD:
        lm = targets_of(s, slot, is_eval);
        lm_head_unit_forward(&call, &lm, in, &s->scores);
        break;
    }
}

static double sum_of(const float *x, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += (double)x[i];
    return sum;
}

/* The loss of what the last unit gave, and its gradient. The LM head has done both by itself. */
static void score(struct stage *s, struct stage_slot *slot, bool is_eval, struct stage_result *out)
{
    const struct model *m = &s->plan->spec.model;
    const struct message_batch *b = &slot->batch;
    float *gradient = is_eval ? NULL : slot->dlogits;

    out->loss = (struct message_loss){.n = b->n_seqs, .n_seqs = b->n_seqs};
    out->predictions = s->scores.predictions;
    switch (m->head) {
    case MODEL_HEAD_CLASSIFIER:
        loss_predict(s->scores.predictions, s->out, b->n_seqs, m->labels);
        loss_cross_entropy(s->scores.losses, gradient, s->out, b->labels, b->n_seqs, m->labels,
                           sequence_share(slot));
        break;
    case MODEL_HEAD_REGRESSION:
        loss_squared(s->scores.losses, gradient, s->out, b->scores, b->n_seqs,
                     sequence_share(slot));
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

enum err_code stage_forward(struct stage *s, int slot_index, const struct stage_input *in,
                            struct stage_result *out, struct err *err)
{
    struct stage_slot *slot = &s->slots[slot_index];
    struct stage_result result = {.tensor = s->out};
    enum err_code rc = s->is_first ? check_tokens(s, in, err) : ERR_OK;

    if (rc != ERR_OK)
        return rc;
    keep_input(s, slot, in);
    for (int i = 0; i < s->weights.n_units; i++) {
        struct stopwatch *watch = &s->kinds[kind_of(s, i)];

        stopwatch_start(watch);
        forward_unit(s, slot, i, in->is_eval, slot->outs[i]);
        stopwatch_stop(watch);
    }
    result.floats = stage_output_floats(s, &in->batch);
    if (s->is_last)
        score(s, slot, in->is_eval, &result);
    *out = result;
    return ERR_OK;
}

static void backward_unit(struct stage *s, struct stage_slot *slot, int i, const float *dout,
                          float *din)
{
    const struct unit_call call = call_of(s, slot, i, false);
    const float *in = input_of(slot, i);
    struct lm_targets lm;

    switch (kind_of(s, i)) {
    case UNIT_EMBEDDINGS:
        embedding_unit_backward(&call, slot->ids, slot->types, dout);
        break;
    case UNIT_ATTENTION:
        attention_unit_backward(&call, in, dout, din);
        break;
    case UNIT_FFN:
        ffn_unit_backward(&call, in, dout, din);
        break;
    case UNIT_POOLER:
        pooler_unit_backward(&call, in, dout, din);
        break;
    case UNIT_HEAD:
        head_unit_backward(&call, in, dout, din);
        break;
    case UNIT_LM_HEAD:
        lm = targets_of(s, slot, false);
        lm_head_unit_backward(&call, &lm, in, din);
        break;
    }
}

const float *stage_backward(struct stage *s, int slot_index, const float *dout)
{
    struct stage_slot *slot = &s->slots[slot_index];
    const float *gradient = s->is_last ? slot->dlogits : dout;

    for (int i = s->weights.n_units - 1; i >= 0; i--) {
        struct stopwatch *watch = &s->kinds[kind_of(s, i)];
        float *din = s->grads[i % 2];

        stopwatch_start(watch);
        if (is_run_again(&s->plan->spec, kind_of(s, i)))
            forward_unit(s, slot, i, false, din); /* what it gives is there: only `saved` is not */
        backward_unit(s, slot, i, gradient, din);
        stopwatch_stop(watch);
        gradient = din;
    }
    return s->is_first ? NULL : gradient;
}
