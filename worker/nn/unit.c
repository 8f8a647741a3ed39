#include "nn/unit.h"

#include <string.h>

#include "base/arena.h"
#include "nn/lanes.h"
#include "nn/layers.h"
#include "nn/loss.h"

#define LOGITS_ROWS  64 /* of the LM head at a time: 8 MB with BERT's vocabulary */
#define NEXT_CLASSES 2

/* --- the areas of a unit ---
 *
 * Each kind has a struct of its layers and areas, and a layout that fills it in: over the areas of
 * a call, or without them only to count. So sizes and places cannot drift apart. */

struct layout {
    const struct unit_shape *shape;
    struct unit_limits limits;
    const float *params; /* NULL: only count */
    float *grads;        /* may be NULL */
    size_t n_params;     /* taken so far */
    size_t n_out;
    struct arena saved, scratch;
};

struct unit {
    void (*layout)(struct layout *l, void *areas);
    void (*forward)(const struct unit_call *call, void *areas, const float *in, float *out);
    void (*backward)(const struct unit_call *call, void *areas, const float *in, const float *dout,
                     float *din);
};

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
    struct layernorm n = {.T = T, .C = C, .eps = l->shape->norm_eps};

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

static void embedding_layout(struct layout *l, void *areas)
{
    int T = l->limits.tokens, C = l->shape->hidden;
    struct embedding_areas *a = areas;

    a->tables.word = take_tensor(l, l->shape->vocab, C, &a->tables.dword);
    a->tables.position = take_tensor(l, l->shape->positions, C, &a->tables.dposition);
    a->tables.type = take_tensor(l, UNIT_TYPES, C, &a->tables.dtype);
    a->norm = take_norm(l, T);
    a->d = arena_rows(&l->scratch, T, C);
    l->n_out = (size_t)T * (size_t)C;
}

static void embedding_unit_forward(const struct unit_call *call, void *areas, const float *in,
                                   float *out)
{
    int C = call->shape.hidden;
    const struct embedding_areas *a = areas;

    (void)in;
    embedding_forward(out, &a->tables, call->ids, call->types, &call->batch, C);
    layernorm_forward(out, NULL, out, &a->norm, NULL, NULL);
    dropout_apply(out, out, &call->batch, C, &call->drop);
}

static void embedding_unit_backward(const struct unit_call *call, void *areas, const float *in,
                                    const float *dout, float *din)
{
    int C = call->shape.hidden;
    const struct embedding_areas *a = areas;

    (void)in;
    (void)din;
    dropout_apply(a->d, dout, &call->batch, C, &call->drop);
    layernorm_backward(a->d, NULL, NULL, a->d, &a->norm, NULL, NULL);
    embedding_backward(a->d, &a->tables, call->ids, call->types, &call->batch, C);
}

const struct unit embedding_unit = {embedding_layout, embedding_unit_forward,
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

static void attention_layout(struct layout *l, void *areas)
{
    int T = l->limits.tokens, C = l->shape->hidden;
    struct attention_areas *a = areas;

    a->to_qkv = take_linear(l, T, C, 3 * C);
    a->project = take_linear(l, T, C, C);
    a->norm = take_norm(l, T);
    a->qkv = arena_rows(&l->saved, T, 3 * C);
    a->ctx = arena_rows(&l->saved, T, C);
    a->work = arena_floats(&l->scratch, attention_work_floats(l->limits.longest));
    a->dy = arena_rows(&l->scratch, T, C);
    a->dctx = arena_rows(&l->scratch, T, C);
    a->dqkv = arena_rows(&l->scratch, T, 3 * C);
    l->n_out = (size_t)T * (size_t)C;
}

static void attention_unit_forward(const struct unit_call *call, void *areas, const float *in,
                                   float *out)
{
    const struct attention_areas *a = areas;

    linear_forward(a->qkv, in, &a->to_qkv);
    attention_forward(a->ctx, a->qkv, &call->batch, call->shape.hidden, call->shape.heads,
                      &call->drop, a->work);
    linear_forward(out, a->ctx, &a->project);
    layernorm_forward(out, in, out, &a->norm, &call->batch, &call->drop);
}

static void attention_unit_backward(const struct unit_call *call, void *areas, const float *in,
                                    const float *dout, float *din)
{
    const struct attention_areas *a = areas;

    layernorm_backward(din, a->dy, a->project.db, dout, &a->norm, &call->batch, &call->drop);
    linear_backward_weight(a->dy, a->ctx, &a->project);
    linear_backward_input(a->dctx, a->dy, &a->project, false);
    attention_backward(a->dqkv, a->dctx, a->qkv, &call->batch, call->shape.hidden,
                       call->shape.heads, &call->drop, a->work);
    linear_backward_weight(a->dqkv, in, &a->to_qkv);
    linear_backward_bias(a->dqkv, &a->to_qkv);
    linear_backward_input(din, a->dqkv, &a->to_qkv, true);
}

const struct unit attention_unit = {attention_layout, attention_unit_forward,
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

static void ffn_layout(struct layout *l, void *areas)
{
    int T = l->limits.tokens, C = l->shape->hidden, F = l->shape->ffn;
    struct ffn_areas *a = areas;

    a->up = take_linear(l, T, C, F);
    a->down = take_linear(l, T, F, C);
    a->norm = take_norm(l, T);
    a->h = arena_rows(&l->saved, T, F);
    a->g = arena_rows(&l->scratch, T, F);
    a->dy = arena_rows(&l->scratch, T, C);
    a->partial = arena_floats(&l->scratch, gelu_partial_floats(T, F));
    l->n_out = (size_t)T * (size_t)C;
}

static void ffn_forward(const struct unit_call *call, void *areas, const float *in, float *out)
{
    const struct ffn_areas *a = areas;

    linear_forward(a->h, in, &a->up);
    gelu_forward(a->g, a->h, a->up.T, a->up.O);
    linear_forward(out, a->g, &a->down);
    layernorm_forward(out, in, out, &a->norm, &call->batch, &call->drop);
}

static void ffn_backward(const struct unit_call *call, void *areas, const float *in,
                         const float *dout, float *din)
{
    const struct ffn_areas *a = areas;

    layernorm_backward(din, a->dy, a->down.db, dout, &a->norm, &call->batch, &call->drop);
    linear_backward_input(a->g, a->dy, &a->down, false);
    /* h becomes gelu(h): the weight's gradient waits for it, so that only h had to be saved. */
    gelu_backward(a->h, a->g, a->up.db, a->partial, a->up.T, a->up.O);
    linear_backward_weight(a->dy, a->h, &a->down);
    linear_backward_weight(a->g, in, &a->up);
    linear_backward_input(din, a->g, &a->up, true);
}

const struct unit ffn_unit = {ffn_layout, ffn_forward, ffn_backward};

/* --- pooler --- */

struct pooler_areas {
    struct linear dense;
    float *y;     /* [B,C] saved: after tanh, before dropout */
    float *first; /* [B,C] scratch, like the rest: the first tokens */
    float *dy;    /* [B,C] */
    float *dx;    /* [B,C] */
};

static void pooler_layout(struct layout *l, void *areas)
{
    int B = l->limits.seqs, C = l->shape->hidden;
    struct pooler_areas *a = areas;

    a->dense = take_linear(l, B, C, C);
    a->y = arena_rows(&l->saved, B, C);
    a->first = arena_rows(&l->scratch, B, C);
    a->dy = arena_rows(&l->scratch, B, C);
    a->dx = arena_rows(&l->scratch, B, C);
    l->n_out = (size_t)B * (size_t)C;
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

static void pooler_forward(const struct unit_call *call, void *areas, const float *in, float *out)
{
    const struct pooler_areas *a = areas;
    int B = call->batch.n_seqs, C = call->shape.hidden;

    gather(a->first, in, call->batch.starts, B, C);
    linear_forward(out, a->first, &a->dense);
    lanes()->tanh(a->y, out, B * C);
    drop_rows(out, a->y, &call->batch, C, &call->drop);
}

static void pooler_backward(const struct unit_call *call, void *areas, const float *in,
                            const float *dout, float *din)
{
    const struct pooler_areas *a = areas;
    const struct packed *batch = &call->batch;
    int B = batch->n_seqs, C = call->shape.hidden;
    size_t row = (size_t)C;

    gather(a->first, in, batch->starts, B, C);
    drop_rows(a->dx, dout, batch, C, &call->drop);
    lanes()->tanh_back(a->dy, a->dx, a->y, B * C);
    linear_backward(a->dx, a->dy, a->first, &a->dense);
    memset(din, 0, (size_t)packed_tokens(batch) * row * sizeof *din);
    for (int b = 0; b < B; b++)
        memcpy(din + (size_t)batch->starts[b] * row, a->dx + (size_t)b * row, row * sizeof *din);
}

const struct unit pooler_unit = {pooler_layout, pooler_forward, pooler_backward};

/* --- classifier --- */

static void head_layout(struct layout *l, void *areas)
{
    int B = l->limits.seqs, N = l->shape->labels;
    struct linear *classifier = areas;

    *classifier = take_linear(l, B, l->shape->hidden, N);
    l->n_out = (size_t)B * (size_t)N;
}

static void head_forward(const struct unit_call *call, void *areas, const float *in, float *logits)
{
    (void)call;
    linear_forward(logits, in, areas);
}

static void head_backward(const struct unit_call *call, void *areas, const float *in,
                          const float *dlogits, float *din)
{
    (void)call;
    linear_backward(din, dlogits, in, areas);
}

const struct unit head_unit = {head_layout, head_forward, head_backward};

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

static void lm_layout(struct layout *l, void *areas)
{
    int n = l->limits.targets, B = l->limits.seqs, C = l->shape->hidden, V = l->shape->vocab;
    struct lm_areas *a = areas;

    a->transform = take_linear(l, n, C, C);
    a->norm = take_norm(l, n);
    a->decoder = (struct linear){.I = C, .O = V};
    a->decoder.b = take_tensor(l, V, 1, &a->decoder.db);
    a->h = arena_rows(&l->saved, n, C);
    a->d = arena_rows(&l->saved, n, C);
    a->x = arena_rows(&l->scratch, n, C);
    a->t = arena_rows(&l->scratch, n, C);
    a->logits = arena_rows(&l->scratch, n < LOGITS_ROWS ? n : LOGITS_ROWS, V);
    a->partial = arena_floats(&l->scratch, gelu_partial_floats(n, C));
    if (l->shape->next_sentence) {
        pooler_layout(l, &a->pooler);
        a->next = take_linear(l, B, C, NEXT_CLASSES);
        a->pooled = arena_rows(&l->saved, B, C);
        a->dnext = arena_rows(&l->saved, B, NEXT_CLASSES);
        a->dpooled = arena_rows(&l->scratch, B, C);
        a->next_logits = arena_rows(&l->scratch, B, NEXT_CLASSES);
    }
    l->n_out = 0;
}

static void lm_head_forward(const struct unit_call *call, void *areas, const float *in,
                            float *unused)
{
    const struct lm_targets *lm = &call->lm;
    const struct lm_scores *scores = &call->scores;
    int B = call->batch.n_seqs, C = call->shape.hidden;
    struct lm_areas *a = areas;

    (void)unused;
    if (lm->n > 0) {
        gather(a->x, in, lm->rows, lm->n, C);
        linear_forward(a->h, a->x, &a->transform);
        gelu_forward(a->t, a->h, lm->n, C);
        layernorm_forward(a->t, NULL, a->t, &a->norm, NULL, NULL);
    }
    a->decoder.w = lm->decoder;
    a->decoder.dw = lm->decoder_grads;
    for (int from = 0; from < lm->n; from += LOGITS_ROWS) {
        size_t at = (size_t)from * (size_t)C;

        a->decoder.T = lm->n - from < LOGITS_ROWS ? lm->n - from : LOGITS_ROWS;
        linear_forward(a->logits, a->t + at, &a->decoder);
        loss_vocabulary(scores->losses + from, scores->predictions + from, a->logits,
                        lm->ids + from, a->decoder.T, a->decoder.O, lm->factor);
        if (lm->decoder_grads)
            linear_backward(a->d + at, a->logits, a->t + at, &a->decoder);
    }
    if (call->shape.next_sentence) {
        struct unit_call pool = *call;

        pool.drop.rate = 0.0f;
        pooler_forward(&pool, &a->pooler, in, a->pooled);
        linear_forward(a->next_logits, a->pooled, &a->next);
        loss_predict(scores->next_predictions, a->next_logits, B, NEXT_CLASSES);
        loss_cross_entropy(scores->next_losses, a->dnext, a->next_logits, lm->next, B, NEXT_CLASSES,
                           lm->next_factor);
    }
}

static void lm_head_backward(const struct unit_call *call, void *areas, const float *in,
                             const float *unused, float *din)
{
    const struct lm_targets *lm = &call->lm;
    size_t C = (size_t)call->shape.hidden;
    struct lm_areas *a = areas;

    (void)unused;
    if (call->shape.next_sentence) {
        struct unit_call pool = *call;

        pool.drop.rate = 0.0f;
        linear_backward(a->dpooled, a->dnext, a->pooled, &a->next);
        pooler_backward(&pool, &a->pooler, in, a->dpooled, din);
    } else {
        memset(din, 0, (size_t)packed_tokens(&call->batch) * C * sizeof *din);
    }
    if (lm->n == 0)
        return;
    gather(a->x, in, lm->rows, lm->n, (int)C);
    layernorm_backward(a->d, NULL, NULL, a->d, &a->norm, NULL, NULL);
    gelu_backward(a->h, a->d, a->transform.db, a->partial, lm->n, (int)C);
    linear_backward_weight(a->d, a->x, &a->transform);
    linear_backward_input(a->t, a->d, &a->transform, false);
    for (int i = 0; i < lm->n; i++)
        lanes()->add(din + (size_t)lm->rows[i] * C, a->t + (size_t)i * C, (int)C);
}

const struct unit lm_head_unit = {lm_layout, lm_head_forward, lm_head_backward};

/* --- any unit --- */

union areas {
    struct embedding_areas embedding;
    struct attention_areas attention;
    struct ffn_areas ffn;
    struct pooler_areas pooler;
    struct linear head;
    struct lm_areas lm;
};

struct unit_sizes unit_sizes(const struct unit *unit, const struct unit_shape *shape,
                             const struct unit_limits *limits)
{
    struct layout l = {.shape = shape, .limits = *limits};
    union areas unused;

    unit->layout(&l, &unused);
    return (struct unit_sizes){.params = l.n_params,
                               .saved = l.saved.used / sizeof(float),
                               .scratch = l.scratch.used / sizeof(float),
                               .out = l.n_out};
}

static void lay_out(const struct unit *unit, const struct unit_call *call, union areas *out)
{
    struct layout l = {
        .shape = &call->shape,
        .limits = {.tokens = packed_tokens(&call->batch),
                   .seqs = call->batch.n_seqs,
                   .longest = packed_longest(&call->batch),
                   .targets = call->lm.n},
        .params = call->params,
        .grads = call->grads,
        .saved = *ARENA_AT(call->saved),
        .scratch = *ARENA_AT(call->scratch),
    };

    unit->layout(&l, out);
}

void unit_forward(const struct unit *unit, const struct unit_call *call, const float *in,
                  float *out)
{
    union areas areas;

    lay_out(unit, call, &areas);
    unit->forward(call, &areas, in, out);
}

void unit_backward(const struct unit *unit, const struct unit_call *call, const float *in,
                   const float *dout, float *din)
{
    union areas areas;

    lay_out(unit, call, &areas);
    unit->backward(call, &areas, in, dout, din);
}
