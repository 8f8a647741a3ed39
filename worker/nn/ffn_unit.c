#include "base/arena.h"
#include "nn/gelu.h"
#include "nn/layernorm.h"
#include "nn/linear.h"
#include "nn/unit.h"

/* The tensors of the unit, in parameters or in gradients. */
struct tensors {
    size_t up_weight, up_bias;     /* intermediate.dense */
    size_t down_weight, down_bias; /* output.dense */
    size_t gain, bias;
    size_t end;
};

static struct tensors tensors_of(const struct unit_shape *shape)
{
    size_t C = (size_t)shape->hidden, F = (size_t)shape->ffn;
    struct tensors t = {.up_weight = 0};

    t.up_bias = t.up_weight + F * C;
    t.down_weight = t.up_bias + F;
    t.down_bias = t.down_weight + C * F;
    t.gain = t.down_bias + C;
    t.bias = t.gain + C;
    t.end = t.bias + C;
    return t;
}

struct saved {
    float *h;    /* [T,F] before GELU */
    float *xhat; /* [T,C] */
    float *rstd; /* [T] */
};

static struct saved saved_of(struct arena *arena, const struct unit_shape *shape, int T)
{
    struct saved s = {0};

    s.h = arena_rows(arena, T, shape->ffn);
    s.xhat = arena_rows(arena, T, shape->hidden);
    s.rstd = arena_rows(arena, T, 1);
    return s;
}

/* Forward uses `g` only, as gelu(h). */
struct scratch {
    float *g;  /* [T,F] gradient of gelu(h), then of h */
    float *dy; /* [T,C] gradient of the second linear layer */
    float *norm_partial;
    float *gelu_partial;
};

static struct scratch scratch_of(struct arena *arena, const struct unit_shape *shape, int T)
{
    struct scratch s = {0};

    s.g = arena_rows(arena, T, shape->ffn);
    s.dy = arena_rows(arena, T, shape->hidden);
    s.norm_partial = arena_floats(arena, layernorm_partial_floats(T, shape->hidden));
    s.gelu_partial = arena_floats(arena, gelu_partial_floats(T, shape->ffn));
    return s;
}

static struct unit_sizes sizes(const struct unit_shape *shape, const struct unit_limits *limits)
{
    struct arena saved = {0}, scratch = {0};

    (void)saved_of(&saved, shape, limits->tokens);
    (void)scratch_of(&scratch, shape, limits->tokens);
    return (struct unit_sizes){tensors_of(shape).end, arena_used_floats(&saved),
                               arena_used_floats(&scratch)};
}

static void forward(const struct unit_call *call, const float *in, float *out)
{
    int T = packed_tokens(&call->batch), C = call->shape.hidden, F = call->shape.ffn;
    struct tensors at = tensors_of(&call->shape);
    const float *p = call->params;
    struct saved saved = saved_of(ARENA_AT(call->saved), &call->shape, T);
    struct scratch tmp = scratch_of(ARENA_AT(call->scratch), &call->shape, T);
    struct layernorm_forward norm = {
        .res = in,
        .y = out,
        .gain = p + at.gain,
        .bias = p + at.bias,
        .eps = call->shape.norm_eps,
        .xhat = saved.xhat,
        .rstd = saved.rstd,
        .out = out,
    };

    linear_forward(saved.h, in, p + at.up_weight, p + at.up_bias, (struct linear){T, C, F});
    gelu_forward(tmp.g, saved.h, T, F);
    linear_forward(out, tmp.g, p + at.down_weight, p + at.down_bias, (struct linear){T, F, C});
    layernorm_forward(&norm, &call->batch, C, &call->drop);
}

static void backward(const struct unit_call *call, const float *in, const float *dout, float *din)
{
    int T = packed_tokens(&call->batch), C = call->shape.hidden, F = call->shape.ffn;
    struct tensors at = tensors_of(&call->shape);
    const float *p = call->params;
    float *g = call->grads;
    struct saved saved = saved_of(ARENA_AT(call->saved), &call->shape, T);
    struct scratch tmp = scratch_of(ARENA_AT(call->scratch), &call->shape, T);
    struct linear up = {T, C, F}, down = {T, F, C};
    struct layernorm_backward norm = {
        .dout = dout,
        .xhat = saved.xhat,
        .rstd = saved.rstd,
        .gain = p + at.gain,
        .dgain = g + at.gain,
        .dbias = g + at.bias,
        .dsum = din,
        .dy = tmp.dy,
        .dy_bias = g + at.down_bias,
        .partial = tmp.norm_partial,
    };

    layernorm_backward(&norm, &call->batch, C, &call->drop);
    linear_backward_input(tmp.g, tmp.dy, p + at.down_weight, down, 0);
    /* h becomes gelu(h): the weight's gradient waits for it, so that h alone had to be saved. */
    gelu_backward(saved.h, tmp.g, g + at.up_bias, tmp.gelu_partial, T, F);
    linear_backward_weight(g + at.down_weight, tmp.dy, saved.h, down);
    linear_backward_weight(g + at.up_weight, tmp.g, in, up);
    linear_backward_input(din, tmp.g, p + at.up_weight, up, 1);
}

const struct unit ffn_unit = {
    .out = UNIT_OUT_TOKENS, .sizes = sizes, .forward = forward, .backward = backward};
