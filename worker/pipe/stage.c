#include "pipe/stage.h"

#include <string.h>

#include "nn/gemm.h"
#include "nn/loss.h"
#include "nn/threads.h"
#include "pipe/schedule.h"

/* Everything of one micro-batch that its backward pass needs. */
struct stage_slot {
    struct message_batch batch; /* points into the arrays below */
    int64_t step;
    float *input;  /* of the first unit, unless that is the embeddings */
    float **outs;  /* [n_units]: what each unit gave to the next */
    float **saved; /* [n_units] */
    float *dlogits;
    int32_t *starts, *labels, *ids, *types;
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
                               .norm_eps = (float)m->norm_eps};
}

static struct unit_room room_of(const struct spec *spec)
{
    int n_seqs = spec->training.batch_size / spec->training.micro_batches;

    return (struct unit_room){.tokens = n_seqs * spec->training.max_length,
                              .seqs = n_seqs,
                              .longest = spec->training.max_length,
                              .threads = threads_count()};
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
        break;
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
    default:
        return (size_t)tokens * (size_t)m->hidden;
    }
}

size_t stage_edge_floats(const struct plan *plan)
{
    return (size_t)room_of(&plan->spec).tokens * (size_t)plan->spec.model.hidden;
}

static void layout_slot(struct stage *s, struct stage_slot *slot, const struct unit_room *room,
                        struct slab *slab)
{
    const struct model *m = &s->plan->spec.model;
    const struct unit_shape shape = shape_of(m);
    size_t n_units = (size_t)s->weights.n_units;
    size_t T = (size_t)room->tokens;
    size_t B = (size_t)room->seqs;
    struct stage_slot layout = {.outs = slab_take(slab, n_units * sizeof(float *)),
                                .saved = slab_take(slab, n_units * sizeof(float *)),
                                .starts = slab_take(slab, (B + 1) * sizeof(int32_t)),
                                .labels = slab_take(slab, B * sizeof(int32_t)),
                                .samples = slab_take(slab, B * sizeof(uint32_t))};

    if (s->is_first) {
        layout.ids = slab_take(slab, T * sizeof(int32_t));
        layout.types = slab_take(slab, T * sizeof(int32_t));
    } else {
        layout.input = slab_floats(slab, T * (size_t)m->hidden);
    }
    if (s->is_last)
        layout.dlogits = slab_floats(slab, B * (size_t)m->labels);
    for (size_t i = 0; i < n_units; i++) {
        int unit = s->weights.first_unit + (int)i;
        float *saved = slab_floats(slab, sizes_of(model_unit_kind(m, unit), &shape, room).saved);
        float *out = i + 1 < n_units
                         ? slab_floats(slab, out_floats(m, unit, room->tokens, room->seqs))
                         : s->out;

        if (slab->base) {
            layout.saved[i] = saved;
            layout.outs[i] = out;
        }
    }
    if (slab->base)
        *slot = layout;
}

/* The whole memory of a stage, in the one place that knows it. */
static void layout(struct stage *s, struct slab *slab)
{
    const struct spec *spec = &s->plan->spec;
    const struct plan_stage *p = &s->plan->stages[s->index];
    const struct unit_shape shape = shape_of(&spec->model);
    const struct unit_room room = room_of(spec);
    size_t scratch = 0;

    weights_layout(&s->weights, &spec->model, p->first_unit, p->n_units, slab);
    for (int i = 0; i < p->n_units; i++) {
        enum unit_kind kind = model_unit_kind(&spec->model, p->first_unit + i);
        size_t n = sizes_of(kind, &shape, &room).scratch;

        scratch = n > scratch ? n : scratch;
    }
    s->scratch = slab_floats(slab, scratch);
    s->out = slab_floats(slab, stage_edge_floats(s->plan));
    s->grads[0] = slab_floats(slab, stage_edge_floats(s->plan));
    s->grads[1] = slab_floats(slab, stage_edge_floats(s->plan));
    s->losses = slab_floats(slab, (size_t)room.seqs);
    s->answers = slab_take(slab, (size_t)room.seqs * sizeof(int32_t));
    s->slots = slab_take(slab, (size_t)s->n_slots * sizeof *s->slots);
    for (int i = 0; i < s->n_slots; i++)
        layout_slot(s, s->slots ? &s->slots[i] : NULL, &room, slab);
}

static void describe(struct stage *s, const struct plan *plan, int index)
{
    memset(s, 0, sizeof *s);
    s->plan = plan;
    s->index = index;
    s->is_first = index == 0;
    s->is_last = index == plan->n_stages - 1;
    s->n_slots = schedule_in_flight(index, plan->n_stages, plan->spec.training.micro_batches);
}

size_t stage_bytes(const struct plan *plan, int index)
{
    static _Thread_local struct stage s; /* large: the unit table */
    struct slab count = {0};

    describe(&s, plan, index);
    layout(&s, &count);
    return count.used;
}

enum err_code stage_init(struct stage *s, const struct plan *plan, int index, struct err *err)
{
    struct slab slab = {0};
    enum err_code rc = slab_init(&slab, stage_bytes(plan, index), err);

    if (rc != ERR_OK)
        return rc;
    describe(s, plan, index);
    layout(s, &slab);
    s->slab = slab;
    weights_init(&s->weights, (uint64_t)plan->spec.training.seed);
    return ERR_OK;
}

void stage_deinit(struct stage *s)
{
    slab_deinit(&s->slab);
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

/* The input belongs to its sender; what backward needs of it is copied. */
static void keep_input(struct stage *s, struct stage_slot *slot, const struct stage_input *in)
{
    size_t n = (size_t)in->batch.n_seqs;
    size_t T = (size_t)in->batch.n_tokens;

    memcpy(slot->starts, in->batch.starts, (n + 1) * sizeof *slot->starts);
    memcpy(slot->labels, in->batch.labels, n * sizeof *slot->labels);
    memcpy(slot->samples, in->batch.samples, n * sizeof *slot->samples);
    slot->batch = (struct message_batch){.n_seqs = in->batch.n_seqs,
                                         .n_tokens = in->batch.n_tokens,
                                         .starts = slot->starts,
                                         .labels = slot->labels,
                                         .samples = slot->samples};
    slot->step = in->step;
    if (s->is_first) {
        memcpy(slot->ids, in->ids, T * sizeof *slot->ids);
        memcpy(slot->types, in->types, T * sizeof *slot->types);
    } else {
        memcpy(slot->input, in->tensor, stage_input_floats(s, &in->batch) * sizeof(float));
    }
}

static const float *input_of(const struct stage_slot *slot, int i)
{
    return i > 0 ? slot->outs[i - 1] : slot->input;
}

static void forward_unit(struct stage *s, struct stage_slot *slot, int i, bool is_eval)
{
    const struct unit_call call = call_of(s, slot, i, is_eval);
    const float *in = input_of(slot, i);

    switch (model_unit_kind(&s->plan->spec.model, s->weights.first_unit + i)) {
    case UNIT_EMBEDDINGS:
        embedding_unit_forward(&call, slot->ids, slot->types, slot->outs[i]);
        break;
    case UNIT_ATTENTION:
        attention_unit_forward(&call, in, slot->outs[i]);
        break;
    case UNIT_FFN:
        ffn_unit_forward(&call, in, slot->outs[i]);
        break;
    case UNIT_POOLER:
        pooler_unit_forward(&call, in, slot->outs[i]);
        break;
    case UNIT_HEAD:
        head_unit_forward(&call, in, slot->outs[i]);
        break;
    case UNIT_LM_HEAD:
        break;
    }
}

static void score(struct stage *s, struct stage_slot *slot, bool is_eval, struct stage_result *out)
{
    const struct spec *spec = &s->plan->spec;
    int B = slot->batch.n_seqs;
    float factor = 1.0f / (float)spec->training.batch_size;

    loss_predict(s->answers, s->out, B, spec->model.labels);
    loss_cross_entropy(s->losses, is_eval ? NULL : slot->dlogits, s->out, slot->labels, B,
                       spec->model.labels, factor);
    for (int i = 0; i < B; i++) {
        out->loss_sum += (double)s->losses[i];
        out->n_correct += s->answers[i] == slot->labels[i];
    }
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
    for (int i = 0; i < s->weights.n_units; i++)
        forward_unit(s, slot, i, in->is_eval);
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

    switch (model_unit_kind(&s->plan->spec.model, s->weights.first_unit + i)) {
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
        break;
    }
}

const float *stage_backward(struct stage *s, int slot_index, const float *dout)
{
    struct stage_slot *slot = &s->slots[slot_index];
    const float *gradient = s->is_last ? slot->dlogits : dout;

    for (int i = s->weights.n_units - 1; i >= 0; i--) {
        float *din = s->grads[i % 2];

        backward_unit(s, slot, i, gradient, din);
        gradient = din;
    }
    return s->is_first ? NULL : gradient;
}
