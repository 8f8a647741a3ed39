#include <string.h>

#include "base/arena.h"
#include "nn/gelu.h"
#include "nn/lanes.h"
#include "nn/layernorm.h"
#include "nn/linear.h"
#include "nn/loss.h"
#include "nn/unit.h"

#define CHUNK_ROWS   64 /* of logits: 8 MB with BERT's vocabulary */
#define NEXT_CLASSES 2

/* The tensors of the unit, in parameters or in gradients. */
struct tensors {
    size_t weight, bias; /* transform.dense */
    size_t gain, norm_bias;
    size_t decoder_bias;
    size_t pooler, next; /* weight and bias of each: a pooler unit and a head unit */
    size_t end;
};

static struct tensors tensors_of(const struct unit_shape *shape)
{
    size_t C = (size_t)shape->hidden;
    struct tensors t = {.weight = 0};

    t.bias = t.weight + C * C;
    t.gain = t.bias + C;
    t.norm_bias = t.gain + C;
    t.decoder_bias = t.norm_bias + C;
    t.pooler = t.decoder_bias + (size_t)shape->vocab;
    t.next = t.pooler + (shape->next_sentence ? C * C + C : 0);
    t.end = t.next + (shape->next_sentence ? NEXT_CLASSES * (C + 1) : 0);
    return t;
}

struct saved {
    float *h;      /* [n,C] before GELU */
    float *xhat;   /* [n,C] */
    float *rstd;   /* [n] */
    float *d;      /* [n,C] gradient of the transform's output */
    float *pooler; /* what the pooler saves */
    float *pooled; /* [B,C] */
    float *dnext;  /* [B,2] gradient of the next-sentence logits */
};

static struct saved saved_of(struct arena *arena, const struct unit_shape *shape,
                             const struct unit_limits *limits)
{
    int n = limits->targets, C = shape->hidden;
    struct saved s = {0};

    s.h = arena_rows(arena, n, C);
    s.xhat = arena_rows(arena, n, C);
    s.rstd = arena_rows(arena, n, 1);
    s.d = arena_rows(arena, n, C);
    if (shape->next_sentence) {
        s.pooler = arena_floats(arena, pooler_unit.sizes(shape, limits).saved);
        s.pooled = arena_rows(arena, limits->seqs, C);
        s.dnext = arena_rows(arena, limits->seqs, NEXT_CLASSES);
    }
    return s;
}

struct scratch {
    float *x;      /* [n,C] the target rows of the input */
    float *t;      /* [n,C] forward: the transform's output; backward: the gradient of x */
    float *logits; /* [CHUNK_ROWS,V], then their gradient */
    float *norm_partial;
    float *gelu_partial;
    float *pooler;
    float *dpooled; /* [B,C] */
    float *next;    /* [B,2] logits */
};

static struct scratch scratch_of(struct arena *arena, const struct unit_shape *shape,
                                 const struct unit_limits *limits)
{
    int n = limits->targets, C = shape->hidden;
    struct scratch s = {0};

    s.x = arena_rows(arena, n, C);
    s.t = arena_rows(arena, n, C);
    s.logits = arena_rows(arena, n < CHUNK_ROWS ? n : CHUNK_ROWS, shape->vocab);
    s.norm_partial = arena_floats(arena, layernorm_partial_floats(n, C));
    s.gelu_partial = arena_floats(arena, gelu_partial_floats(n, C));
    if (shape->next_sentence) {
        s.pooler = arena_floats(arena, pooler_unit.sizes(shape, limits).scratch);
        s.dpooled = arena_rows(arena, limits->seqs, C);
        s.next = arena_rows(arena, limits->seqs, NEXT_CLASSES);
    }
    return s;
}

static struct unit_sizes sizes(const struct unit_shape *shape, const struct unit_limits *limits)
{
    struct arena saved = {0}, scratch = {0};

    (void)saved_of(&saved, shape, limits);
    (void)scratch_of(&scratch, shape, limits);
    return (struct unit_sizes){tensors_of(shape).end, arena_used_floats(&saved),
                               arena_used_floats(&scratch)};
}

/* One call's view of the unit. */
struct work {
    struct tensors at;
    struct saved saved;
    struct scratch tmp;
    struct packed rows; /* the targets as one sequence: nn/layernorm wants one */
    int32_t starts[2];
    uint32_t sample;
    struct dropout none;
};

static void work_init(struct work *w, const struct unit_call *call)
{
    const struct lm_targets *lm = &call->lm;
    const struct unit_limits limits = {
        .tokens = packed_tokens(&call->batch), .seqs = call->batch.n_seqs, .targets = lm->n};

    *w = (struct work){.at = tensors_of(&call->shape)};
    w->saved = saved_of(ARENA_AT(call->saved), &call->shape, &limits);
    w->tmp = scratch_of(ARENA_AT(call->scratch), &call->shape, &limits);
    w->starts[1] = lm->n;
    w->rows = (struct packed){.n_seqs = 1, .starts = w->starts, .samples = &w->sample};
}

static void gather(float *x, const float *in, const struct lm_targets *lm, size_t C)
{
    for (int i = 0; i < lm->n; i++)
        memcpy(x + (size_t)i * C, in + (size_t)lm->rows[i] * C, C * sizeof *x);
}

/* tmp.t[n,C] = LayerNorm(gelu(dense(rows of in))) */
static void transform(const struct work *w, const struct unit_call *call, const float *in)
{
    const struct lm_targets *lm = &call->lm;
    int C = call->shape.hidden;
    const float *p = call->params;
    struct layernorm_forward norm = {
        .y = w->tmp.t,
        .gain = p + w->at.gain,
        .bias = p + w->at.norm_bias,
        .eps = call->shape.norm_eps,
        .xhat = w->saved.xhat,
        .rstd = w->saved.rstd,
        .out = w->tmp.t,
    };

    gather(w->tmp.x, in, lm, (size_t)C);
    linear_forward(w->saved.h, w->tmp.x, p + w->at.weight, p + w->at.bias,
                   (struct linear){lm->n, C, C});
    gelu_forward(w->tmp.t, w->saved.h, lm->n, C);
    layernorm_forward(&norm, &w->rows, C, &w->none);
}

/* Logits, losses and gradients of the targets from..from+count-1, so that no more than a chunk of
 * logits is ever there. */
static void decode(const struct work *w, const struct unit_call *call, int from, int count)
{
    const struct lm_targets *lm = &call->lm;
    const struct lm_scores *out = &call->scores;
    int C = call->shape.hidden, V = call->shape.vocab;
    const float *t = w->tmp.t + (size_t)from * (size_t)C;
    float *logits = w->tmp.logits;
    struct linear n = {count, C, V};

    linear_forward(logits, t, lm->decoder, call->params + w->at.decoder_bias, n);
    loss_vocabulary(out->losses + from, out->predictions + from, logits, lm->ids + from, count, V,
                    lm->factor);
    if (!lm->decoder_grads)
        return;
    linear_backward_weight(lm->decoder_grads, logits, t, n);
    linear_backward_bias(call->grads + w->at.decoder_bias, logits, n);
    linear_backward_input(w->saved.d + (size_t)from * (size_t)C, logits, lm->decoder, n, 0);
}

/* The pooler within this unit: as the unit of a classifier, but nothing is dropped. */
static struct unit_call pooler_of(const struct work *w, const struct unit_call *call)
{
    struct unit_call pooler = *call;

    pooler.drop = w->none;
    pooler.params += w->at.pooler;
    pooler.grads = call->grads ? call->grads + w->at.pooler : NULL;
    pooler.saved = w->saved.pooler;
    pooler.scratch = w->tmp.pooler;
    return pooler;
}

static struct unit_call next_of(const struct work *w, const struct unit_call *call)
{
    struct unit_call next = *call;

    next.shape.labels = NEXT_CLASSES;
    next.params += w->at.next;
    next.grads = call->grads ? call->grads + w->at.next : NULL;
    return next;
}

static void forward(const struct unit_call *call, const float *in, float *unused)
{
    const struct lm_targets *lm = &call->lm;
    int B = call->batch.n_seqs;
    struct work w;

    (void)unused;
    work_init(&w, call);
    if (lm->n > 0)
        transform(&w, call, in);
    for (int from = 0; from < lm->n; from += CHUNK_ROWS)
        decode(&w, call, from, lm->n - from < CHUNK_ROWS ? lm->n - from : CHUNK_ROWS);
    if (call->shape.next_sentence) {
        struct unit_call pooler = pooler_of(&w, call), next = next_of(&w, call);

        pooler_unit.forward(&pooler, in, w.saved.pooled);
        head_unit.forward(&next, w.saved.pooled, w.tmp.next);
        loss_predict(call->scores.next_predictions, w.tmp.next, B, NEXT_CLASSES);
        loss_cross_entropy(call->scores.next_losses, w.saved.dnext, w.tmp.next, lm->next, B,
                           NEXT_CLASSES, lm->next_factor);
    }
}

/* From the gradient of the transform's output to that of its input, tmp.t[n,C]. */
static void transform_backward(const struct work *w, const struct unit_call *call, const float *in)
{
    const struct lm_targets *lm = &call->lm;
    int C = call->shape.hidden;
    const float *p = call->params;
    float *g = call->grads, *d = w->saved.d;
    struct linear n = {lm->n, C, C};
    struct layernorm_backward norm = {
        .dout = d,
        .xhat = w->saved.xhat,
        .rstd = w->saved.rstd,
        .gain = p + w->at.gain,
        .dgain = g + w->at.gain,
        .dbias = g + w->at.norm_bias,
        .dsum = d,
        .partial = w->tmp.norm_partial,
    };

    gather(w->tmp.x, in, lm, (size_t)C);
    layernorm_backward(&norm, &w->rows, C, &w->none);
    gelu_backward(w->saved.h, d, g + w->at.bias, w->tmp.gelu_partial, lm->n, C);
    linear_backward_weight(g + w->at.weight, d, w->tmp.x, n);
    linear_backward_input(w->tmp.t, d, p + w->at.weight, n, 0);
}

static void backward(const struct unit_call *call, const float *in, const float *unused, float *din)
{
    const struct lm_targets *lm = &call->lm;
    size_t C = (size_t)call->shape.hidden;
    struct work w;

    (void)unused;
    work_init(&w, call);
    if (call->shape.next_sentence) {
        struct unit_call pooler = pooler_of(&w, call), next = next_of(&w, call);

        head_unit.backward(&next, w.saved.pooled, w.saved.dnext, w.tmp.dpooled);
        pooler_unit.backward(&pooler, in, w.tmp.dpooled, din);
    } else {
        memset(din, 0, (size_t)packed_tokens(&call->batch) * C * sizeof *din);
    }
    if (lm->n > 0)
        transform_backward(&w, call, in);
    for (int i = 0; i < lm->n; i++)
        lanes()->add(din + (size_t)lm->rows[i] * C, w.tmp.t + (size_t)i * C, (int)C);
}

const struct unit lm_head_unit = {
    .out = UNIT_OUT_NONE, .sizes = sizes, .forward = forward, .backward = backward};
