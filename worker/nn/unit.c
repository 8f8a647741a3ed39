#include "nn/unit.h"

#include <string.h>

#include "base/arena.h"
#include "nn/lanes.h"
#include "nn/layers.h"
#include "nn/loss.h"
#include "nn/threads.h"

#define LOGITS_ROWS  64 /* of the LM head at a time: 8 MB with BERT's vocabulary */
#define NEXT_CLASSES 2

/* --- the areas of a unit ---
 *
 * Each kind has a struct of its layers and areas, and one function that lays it out: over the
 * areas of a call, or without them only to count. So sizes and places cannot drift apart. */

struct layout {
    const struct unit_shape *shape;
    struct unit_limits limits;
    const float *params; /* NULL: only count */
    float *grads;        /* may be NULL */
    size_t n_params;     /* taken so far */
    struct arena saved, scratch;
};

static struct unit_sizes counted(const struct layout *l)
{
    return (struct unit_sizes){l->n_params, arena_used_floats(&l->saved),
                               arena_used_floats(&l->scratch)};
}

static struct layout layout_of(const struct unit_call *call)
{
    return (struct layout){
        .shape = &call->shape,
        .limits = {.tokens = packed_tokens(&call->batch),
                   .seqs = call->batch.n_seqs,
                   .longest = packed_longest(&call->batch),
                   .threads = threads_count(),
                   .targets = call->lm.n},
        .params = call->params,
        .grads = call->grads,
        .saved = *ARENA_AT(call->saved),
        .scratch = *ARENA_AT(call->scratch),
    };
}

/* The next tensor of the parameters, and its gradient. */
static const float *take_tensor(struct layout *l, int rows, int columns, float **out_grad)
{
    size_t at = l->n_params;

    l->n_params += (size_t)rows * (size_t)columns;
    *out_grad = l->grads ? l->grads + at : NULL;
    return l->params ? l->params + at : NULL;
}

static struct linear take_linear(struct layout *l, int T, int I, int O)
{
    struct linear n = {.T = T, .I = I, .O = O};

    n.w = take_tensor(l, O, I, &n.dw);
    n.b = take_tensor(l, O, 1, &n.db);
    return n;
}

static struct layernorm take_norm(struct layout *l, int T)
{
    int C = l->shape->hidden;
    struct layernorm n = {.C = C, .eps = l->shape->norm_eps};

    n.gain = take_tensor(l, C, 1, &n.dgain);
    n.bias = take_tensor(l, C, 1, &n.dbias);
    n.xhat = arena_rows(&l->saved, T, C);
    n.rstd = arena_rows(&l->saved, T, 1);
    n.partial = arena_floats(&l->scratch, layernorm_partial_floats(T, C));
    return n;
}

/* --- embedding --- */

struct embedding_areas {
    struct embedding tables;
    struct layernorm norm;
    float *d; /* [T,C] scratch: gradient below the dropout, then below LayerNorm */
};

static struct embedding_areas embedding_layout(struct layout *l)
{
    int T = l->limits.tokens, C = l->shape->hidden;
    struct embedding_areas a;

    a.tables.word = take_tensor(l, l->shape->vocab, C, &a.tables.dword);
    a.tables.position = take_tensor(l, l->shape->positions, C, &a.tables.dposition);
    a.tables.type = take_tensor(l, UNIT_TYPES, C, &a.tables.dtype);
    a.norm = take_norm(l, T);
    a.d = arena_rows(&l->scratch, T, C);
    return a;
}

static struct unit_sizes embedding_sizes(const struct unit_shape *shape,
                                         const struct unit_limits *limits)
{
    struct layout l = {.shape = shape, .limits = *limits};

    (void)embedding_layout(&l);
    return counted(&l);
}

static void embedding_unit_forward(const struct unit_call *call, const float *in, float *out)
{
    int C = call->shape.hidden;
    struct layout l = layout_of(call);
    struct embedding_areas a = embedding_layout(&l);

    (void)in;
    embedding_forward(out, &a.tables, call->ids, call->types, &call->batch, C);
    layernorm_forward(out, NULL, out, &a.norm, &call->batch, &call->drop);
    dropout_apply(out, out, &call->batch, C, &call->drop);
}

static void embedding_unit_backward(const struct unit_call *call, const float *in,
                                    const float *dout, float *din)
{
    int C = call->shape.hidden;
    struct layout l = layout_of(call);
    struct embedding_areas a = embedding_layout(&l);

    (void)in;
    (void)din;
    dropout_apply(a.d, dout, &call->batch, C, &call->drop);
    layernorm_backward(a.d, NULL, NULL, a.d, &a.norm, &call->batch, &call->drop);
    embedding_backward(a.d, &a.tables, call->ids, call->types, &call->batch, C);
}

const struct unit embedding_unit = {UNIT_OUT_TOKENS, embedding_sizes, embedding_unit_forward,
                                    embedding_unit_backward};

/* --- attention --- */

struct attention_areas {
    struct linear to_qkv; /* query, key and value are one matrix [3C,C], and one bias [3C] */
    struct linear project;
    struct layernorm norm;
    float *qkv;  /* [T,3C] saved */
    float *ctx;  /* [T,C] saved */
    float *work; /* scratch, like the rest: of attention_forward() and attention_backward() */
    float *dy;   /* [T,C] gradient of the projection */
    float *dctx; /* [T,C] */
    float *dqkv; /* [T,3C] */
};

static struct attention_areas attention_layout(struct layout *l)
{
    int T = l->limits.tokens, C = l->shape->hidden;
    struct attention_areas a;

    a.to_qkv = take_linear(l, T, C, 3 * C);
    a.project = take_linear(l, T, C, C);
    a.norm = take_norm(l, T);
    a.qkv = arena_rows(&l->saved, T, 3 * C);
    a.ctx = arena_rows(&l->saved, T, C);
    a.work = arena_floats(&l->scratch, attention_work_floats(l->limits.longest, l->limits.threads));
    a.dy = arena_rows(&l->scratch, T, C);
    a.dctx = arena_rows(&l->scratch, T, C);
    a.dqkv = arena_rows(&l->scratch, T, 3 * C);
    return a;
}

static struct unit_sizes attention_sizes(const struct unit_shape *shape,
                                         const struct unit_limits *limits)
{
    struct layout l = {.shape = shape, .limits = *limits};

    (void)attention_layout(&l);
    return counted(&l);
}

static void attention_unit_forward(const struct unit_call *call, const float *in, float *out)
{
    struct layout l = layout_of(call);
    struct attention_areas a = attention_layout(&l);

    linear_forward(a.qkv, in, &a.to_qkv);
    attention_forward(a.ctx, a.qkv, &call->batch, call->shape.hidden, call->shape.heads,
                      &call->drop, a.work);
    linear_forward(out, a.ctx, &a.project);
    layernorm_forward(out, in, out, &a.norm, &call->batch, &call->drop);
}

static void attention_unit_backward(const struct unit_call *call, const float *in,
                                    const float *dout, float *din)
{
    struct layout l = layout_of(call);
    struct attention_areas a = attention_layout(&l);

    layernorm_backward(din, a.dy, a.project.db, dout, &a.norm, &call->batch, &call->drop);
    linear_backward_weight(a.dy, a.ctx, &a.project);
    linear_backward_input(a.dctx, a.dy, &a.project, 0);
    attention_backward(a.dqkv, a.dctx, a.qkv, &call->batch, call->shape.hidden, call->shape.heads,
                       &call->drop, a.work);
    linear_backward_weight(a.dqkv, in, &a.to_qkv);
    linear_backward_bias(a.dqkv, &a.to_qkv);
    linear_backward_input(din, a.dqkv, &a.to_qkv, 1);
}

const struct unit attention_unit = {UNIT_OUT_TOKENS, attention_sizes, attention_unit_forward,
                                    attention_unit_backward};

/* --- feed-forward --- */

struct ffn_areas {
    struct linear up, down; /* intermediate.dense, output.dense */
    struct layernorm norm;
    float *h;  /* [T,F] saved: before GELU */
    float *g;  /* [T,F] scratch, like the rest: gelu(h); in backward its gradient, then that of h */
    float *dy; /* [T,C] gradient of the second linear layer */
    float *partial; /* of GELU */
};

static struct ffn_areas ffn_layout(struct layout *l)
{
    int T = l->limits.tokens, C = l->shape->hidden, F = l->shape->ffn;
    struct ffn_areas a;

    a.up = take_linear(l, T, C, F);
    a.down = take_linear(l, T, F, C);
    a.norm = take_norm(l, T);
    a.h = arena_rows(&l->saved, T, F);
    a.g = arena_rows(&l->scratch, T, F);
    a.dy = arena_rows(&l->scratch, T, C);
    a.partial = arena_floats(&l->scratch, gelu_partial_floats(T, F));
    return a;
}

static struct unit_sizes ffn_sizes(const struct unit_shape *shape, const struct unit_limits *limits)
{
    struct layout l = {.shape = shape, .limits = *limits};

    (void)ffn_layout(&l);
    return counted(&l);
}

static void ffn_forward(const struct unit_call *call, const float *in, float *out)
{
    struct layout l = layout_of(call);
    struct ffn_areas a = ffn_layout(&l);

    linear_forward(a.h, in, &a.up);
    gelu_forward(a.g, a.h, a.up.T, a.up.O);
    linear_forward(out, a.g, &a.down);
    layernorm_forward(out, in, out, &a.norm, &call->batch, &call->drop);
}

static void ffn_backward(const struct unit_call *call, const float *in, const float *dout,
                         float *din)
{
    struct layout l = layout_of(call);
    struct ffn_areas a = ffn_layout(&l);

    layernorm_backward(din, a.dy, a.down.db, dout, &a.norm, &call->batch, &call->drop);
    linear_backward_input(a.g, a.dy, &a.down, 0);
    /* h becomes gelu(h): the weight's gradient waits for it, so that only h had to be saved. */
    gelu_backward(a.h, a.g, a.up.db, a.partial, a.up.T, a.up.O);
    linear_backward_weight(a.dy, a.h, &a.down);
    linear_backward_weight(a.g, in, &a.up);
    linear_backward_input(din, a.g, &a.up, 1);
}

const struct unit ffn_unit = {
    .out = UNIT_OUT_TOKENS, .sizes = ffn_sizes, .forward = ffn_forward, .backward = ffn_backward};

/* --- pooler --- */

struct pooler_areas {
    struct linear dense;
    float *y;     /* [B,C] saved: after tanh, before dropout */
    float *first; /* [B,C] scratch, like the rest: the first tokens */
    float *dy;    /* [B,C] */
    float *dx;    /* [B,C] */
};

static struct pooler_areas pooler_layout(struct layout *l)
{
    int B = l->limits.seqs, C = l->shape->hidden;
    struct pooler_areas a;

    a.dense = take_linear(l, B, C, C);
    a.y = arena_rows(&l->saved, B, C);
    a.first = arena_rows(&l->scratch, B, C);
    a.dy = arena_rows(&l->scratch, B, C);
    a.dx = arena_rows(&l->scratch, B, C);
    return a;
}

static struct unit_sizes pooler_sizes(const struct unit_shape *shape,
                                      const struct unit_limits *limits)
{
    struct layout l = {.shape = shape, .limits = *limits};

    (void)pooler_layout(&l);
    return counted(&l);
}

/* x[n,C] = rows of in[T,C] */
static void gather(float *x, const float *in, const int32_t *rows, int n, int C)
{
    size_t row = (size_t)C;

    for (int i = 0; i < n; i++)
        memcpy(x + (size_t)i * row, in + (size_t)rows[i] * row, row * sizeof *x);
}

/* A sequence has one row here: its dropout is that of position 0. */
static void drop_rows(float *out, const float *in, const struct packed *batch, int C,
                      const struct dropout *drop)
{
    for (int b = 0; b < batch->n_seqs; b++) {
        struct dropout_row row = dropout_row(drop, DROPOUT_HIDDEN, batch->samples[b], 0);

        lanes()->dropout(out + (size_t)b * (size_t)C, in + (size_t)b * (size_t)C, C, &row);
    }
}

static void pool(const struct pooler_areas *a, const struct packed *batch,
                 const struct dropout *drop, const float *in, float *out)
{
    int B = batch->n_seqs, C = a->dense.O;

    gather(a->first, in, batch->starts, B, C);
    linear_forward(out, a->first, &a->dense);
    lanes()->tanh(a->y, out, B * C);
    drop_rows(out, a->y, batch, C, drop);
}

static void pool_backward(const struct pooler_areas *a, const struct packed *batch,
                          const struct dropout *drop, const float *in, const float *dout,
                          float *din)
{
    int B = batch->n_seqs, C = a->dense.O;
    size_t row = (size_t)C;

    gather(a->first, in, batch->starts, B, C);
    drop_rows(a->dx, dout, batch, C, drop);
    lanes()->tanh_back(a->dy, a->dx, a->y, B * C);
    linear_backward_weight(a->dy, a->first, &a->dense);
    linear_backward_bias(a->dy, &a->dense);
    linear_backward_input(a->dx, a->dy, &a->dense, 0);
    memset(din, 0, (size_t)packed_tokens(batch) * row * sizeof *din);
    for (int b = 0; b < B; b++)
        memcpy(din + (size_t)batch->starts[b] * row, a->dx + (size_t)b * row, row * sizeof *din);
}

static void pooler_forward(const struct unit_call *call, const float *in, float *out)
{
    struct layout l = layout_of(call);
    struct pooler_areas a = pooler_layout(&l);

    pool(&a, &call->batch, &call->drop, in, out);
}

static void pooler_backward(const struct unit_call *call, const float *in, const float *dout,
                            float *din)
{
    struct layout l = layout_of(call);
    struct pooler_areas a = pooler_layout(&l);

    pool_backward(&a, &call->batch, &call->drop, in, dout, din);
}

const struct unit pooler_unit = {UNIT_OUT_SEQUENCES, pooler_sizes, pooler_forward, pooler_backward};

/* --- classifier --- */

static struct linear head_layout(struct layout *l)
{
    return take_linear(l, l->limits.seqs, l->shape->hidden, l->shape->labels);
}

static struct unit_sizes head_sizes(const struct unit_shape *shape,
                                    const struct unit_limits *limits)
{
    struct layout l = {.shape = shape, .limits = *limits};

    (void)head_layout(&l);
    return counted(&l);
}

static void head_forward(const struct unit_call *call, const float *in, float *logits)
{
    struct layout l = layout_of(call);
    struct linear classifier = head_layout(&l);

    linear_forward(logits, in, &classifier);
}

static void linear_backward(const struct linear *l, const float *x, const float *dy, float *dx)
{
    linear_backward_weight(dy, x, l);
    linear_backward_bias(dy, l);
    linear_backward_input(dx, dy, l, 0);
}

static void head_backward(const struct unit_call *call, const float *in, const float *dlogits,
                          float *din)
{
    struct layout l = layout_of(call);
    struct linear classifier = head_layout(&l);

    linear_backward(&classifier, in, dlogits, din);
}

const struct unit head_unit = {UNIT_OUT_LOGITS, head_sizes, head_forward, head_backward};

/* --- head of a language model --- */

struct lm_areas {
    struct linear transform;
    struct layernorm norm;
    struct linear decoder; /* of LOGITS_ROWS rows at most; its weight is lm.decoder */
    float *h;              /* [n,C] saved: before GELU */
    float *d;              /* [n,C] saved: gradient of the transform's output */
    float *x;              /* [n,C] scratch, like the next: the target rows of the input */
    float *t;              /* [n,C] the transform's output; in backward the gradient of x */
    float *logits;         /* [LOGITS_ROWS,V], then their gradient */
    float *partial;        /* of GELU */

    /* With next_sentence only: */
    struct pooler_areas pooler;
    struct linear next;
    float *pooled;      /* [B,C] saved */
    float *dnext;       /* [B,2] saved: gradient of the logits */
    float *dpooled;     /* [B,C] scratch */
    float *next_logits; /* [B,2] scratch */
};

static struct lm_areas lm_layout(struct layout *l)
{
    int n = l->limits.targets, B = l->limits.seqs, C = l->shape->hidden, V = l->shape->vocab;
    struct lm_areas a = {.decoder = {.I = C, .O = V}};

    a.transform = take_linear(l, n, C, C);
    a.norm = take_norm(l, n);
    a.decoder.b = take_tensor(l, V, 1, &a.decoder.db);
    a.h = arena_rows(&l->saved, n, C);
    a.d = arena_rows(&l->saved, n, C);
    a.x = arena_rows(&l->scratch, n, C);
    a.t = arena_rows(&l->scratch, n, C);
    a.logits = arena_rows(&l->scratch, n < LOGITS_ROWS ? n : LOGITS_ROWS, V);
    a.partial = arena_floats(&l->scratch, gelu_partial_floats(n, C));
    if (l->shape->next_sentence) {
        a.pooler = pooler_layout(l);
        a.next = take_linear(l, B, C, NEXT_CLASSES);
        a.pooled = arena_rows(&l->saved, B, C);
        a.dnext = arena_rows(&l->saved, B, NEXT_CLASSES);
        a.dpooled = arena_rows(&l->scratch, B, C);
        a.next_logits = arena_rows(&l->scratch, B, NEXT_CLASSES);
    }
    return a;
}

static struct unit_sizes lm_head_sizes(const struct unit_shape *shape,
                                       const struct unit_limits *limits)
{
    struct layout l = {.shape = shape, .limits = *limits};

    (void)lm_layout(&l);
    return counted(&l);
}

static const struct dropout no_dropout;

/* Logits, losses and gradients of the targets, at most LOGITS_ROWS rows of logits at a time. */
static void decode(const struct lm_areas *a, const struct lm_targets *lm,
                   const struct lm_scores *out)
{
    struct linear decoder = a->decoder;

    decoder.w = lm->decoder;
    decoder.dw = lm->decoder_grads;
    for (int from = 0; from < lm->n; from += LOGITS_ROWS) {
        size_t at = (size_t)from * (size_t)decoder.I;

        decoder.T = lm->n - from < LOGITS_ROWS ? lm->n - from : LOGITS_ROWS;
        linear_forward(a->logits, a->t + at, &decoder);
        loss_vocabulary(out->losses + from, out->predictions + from, a->logits, lm->ids + from,
                        decoder.T, decoder.O, lm->factor);
        if (lm->decoder_grads)
            linear_backward(&decoder, a->t + at, a->logits, a->d + at);
    }
}

static void lm_head_forward(const struct unit_call *call, const float *in, float *unused)
{
    const struct lm_targets *lm = &call->lm;
    int B = call->batch.n_seqs, C = call->shape.hidden;
    struct layout l = layout_of(call);
    struct lm_areas a = lm_layout(&l);
    const int32_t starts[] = {0, lm->n};
    const uint32_t sample = 0;
    const struct packed targets = {.n_seqs = 1, .starts = starts, .samples = &sample};

    (void)unused;
    if (lm->n > 0) {
        gather(a.x, in, lm->rows, lm->n, C);
        linear_forward(a.h, a.x, &a.transform);
        gelu_forward(a.t, a.h, lm->n, C);
        layernorm_forward(a.t, NULL, a.t, &a.norm, &targets, &no_dropout);
        decode(&a, lm, &call->scores);
    }
    if (call->shape.next_sentence) {
        pool(&a.pooler, &call->batch, &no_dropout, in, a.pooled);
        linear_forward(a.next_logits, a.pooled, &a.next);
        loss_predict(call->scores.next_predictions, a.next_logits, B, NEXT_CLASSES);
        loss_cross_entropy(call->scores.next_losses, a.dnext, a.next_logits, lm->next, B,
                           NEXT_CLASSES, lm->next_factor);
    }
}

static void lm_head_backward(const struct unit_call *call, const float *in, const float *unused,
                             float *din)
{
    const struct lm_targets *lm = &call->lm;
    size_t C = (size_t)call->shape.hidden;
    struct layout l = layout_of(call);
    struct lm_areas a = lm_layout(&l);
    const int32_t starts[] = {0, lm->n};
    const uint32_t sample = 0;
    const struct packed targets = {.n_seqs = 1, .starts = starts, .samples = &sample};

    (void)unused;
    if (call->shape.next_sentence) {
        linear_backward(&a.next, a.pooled, a.dnext, a.dpooled);
        pool_backward(&a.pooler, &call->batch, &no_dropout, in, a.dpooled, din);
    } else {
        memset(din, 0, (size_t)packed_tokens(&call->batch) * C * sizeof *din);
    }
    if (lm->n == 0)
        return;
    gather(a.x, in, lm->rows, lm->n, (int)C);
    layernorm_backward(a.d, NULL, NULL, a.d, &a.norm, &targets, &no_dropout);
    gelu_backward(a.h, a.d, a.transform.db, a.partial, lm->n, (int)C);
    linear_backward_weight(a.d, a.x, &a.transform);
    linear_backward_input(a.t, a.d, &a.transform, 0);
    for (int i = 0; i < lm->n; i++)
        lanes()->add(din + (size_t)lm->rows[i] * C, a.t + (size_t)i * C, (int)C);
}

const struct unit lm_head_unit = {UNIT_OUT_NONE, lm_head_sizes, lm_head_forward, lm_head_backward};
