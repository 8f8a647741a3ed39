#include "base/arena.h"
#include "nn/embedding.h"
#include "nn/layernorm.h"
#include "nn/unit.h"

/* The tensors of the unit, in parameters or in gradients. */
struct tensors {
    size_t word, position, type;
    size_t gain, bias;
    size_t end;
};

static struct tensors tensors_of(const struct unit_shape *shape)
{
    size_t C = (size_t)shape->hidden;
    struct tensors t = {.word = 0};

    t.position = t.word + (size_t)shape->vocab * C;
    t.type = t.position + (size_t)shape->positions * C;
    t.gain = t.type + UNIT_TYPES * C;
    t.bias = t.gain + C;
    t.end = t.bias + C;
    return t;
}

struct saved {
    float *xhat; /* [T,C] */
    float *rstd; /* [T] */
};

static struct saved saved_of(struct arena *arena, int T, int C)
{
    struct saved s = {0};

    s.xhat = arena_rows(arena, T, C);
    s.rstd = arena_rows(arena, T, 1);
    return s;
}

struct scratch {
    float *d; /* [T,C] gradient below the dropout, then below LayerNorm */
    float *partial;
};

static struct scratch scratch_of(struct arena *arena, int T, int C)
{
    struct scratch s = {0};

    s.d = arena_rows(arena, T, C);
    s.partial = arena_floats(arena, layernorm_partial_floats(T, C));
    return s;
}

static struct unit_sizes sizes(const struct unit_shape *shape, const struct unit_limits *limits)
{
    struct arena saved = {0}, scratch = {0};

    (void)saved_of(&saved, limits->tokens, shape->hidden);
    (void)scratch_of(&scratch, limits->tokens, shape->hidden);
    return (struct unit_sizes){tensors_of(shape).end, arena_used_floats(&saved),
                               arena_used_floats(&scratch)};
}

static void forward(const struct unit_call *call, const float *in, float *out)
{
    int T = packed_tokens(&call->batch), C = call->shape.hidden;
    struct tensors at = tensors_of(&call->shape);
    const float *p = call->params;
    struct saved saved = saved_of(ARENA_AT(call->saved), T, C);
    struct embedding_tables tables = {p + at.word, p + at.position, p + at.type};
    struct layernorm_forward norm = {
        .y = out,
        .gain = p + at.gain,
        .bias = p + at.bias,
        .eps = call->shape.norm_eps,
        .xhat = saved.xhat,
        .rstd = saved.rstd,
        .out = out,
    };

    (void)in;
    embedding_forward(out, &tables, call->ids, call->types, &call->batch, C);
    layernorm_forward(&norm, &call->batch, C, &call->drop);
    dropout_apply(out, out, &call->batch, C, &call->drop);
}

static void backward(const struct unit_call *call, const float *in, const float *dout, float *din)
{
    int T = packed_tokens(&call->batch), C = call->shape.hidden;
    struct tensors at = tensors_of(&call->shape);
    float *g = call->grads;
    struct saved saved = saved_of(ARENA_AT(call->saved), T, C);
    struct scratch tmp = scratch_of(ARENA_AT(call->scratch), T, C);
    struct embedding_grads grads = {g + at.word, g + at.position, g + at.type};
    struct layernorm_backward norm = {
        .dout = tmp.d,
        .xhat = saved.xhat,
        .rstd = saved.rstd,
        .gain = call->params + at.gain,
        .dgain = g + at.gain,
        .dbias = g + at.bias,
        .dsum = tmp.d,
        .partial = tmp.partial,
    };

    (void)in;
    (void)din;
    dropout_apply(tmp.d, dout, &call->batch, C, &call->drop);
    layernorm_backward(&norm, &call->batch, C, &call->drop);
    embedding_backward(&grads, tmp.d, call->ids, call->types, &call->batch, C);
}

const struct unit embedding_unit = {
    .out = UNIT_OUT_TOKENS, .sizes = sizes, .forward = forward, .backward = backward};
