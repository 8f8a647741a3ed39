#include "base/arena.h"
#include "nn/attention.h"
#include "nn/layernorm.h"
#include "nn/linear.h"
#include "nn/threads.h"
#include "nn/unit.h"

/* The tensors of the unit, in parameters or in gradients. */
struct tensors {
    size_t qkv_weight; /* query, key and value are one matrix [3C,C], and one bias [3C] */
    size_t qkv_bias;
    size_t out_weight;
    size_t out_bias;
    size_t gain, bias;
    size_t end;
};

static struct tensors tensors_of(const struct unit_shape *shape)
{
    size_t C = (size_t)shape->hidden;
    struct tensors t = {.qkv_weight = 0};

    t.qkv_bias = t.qkv_weight + 3 * C * C;
    t.out_weight = t.qkv_bias + 3 * C;
    t.out_bias = t.out_weight + C * C;
    t.gain = t.out_bias + C;
    t.bias = t.gain + C;
    t.end = t.bias + C;
    return t;
}

struct saved {
    float *qkv;  /* [T,3C] */
    float *ctx;  /* [T,C] */
    float *xhat; /* [T,C] */
    float *rstd; /* [T] */
};

static struct saved saved_of(struct arena *arena, int T, int C)
{
    struct saved s = {0};

    s.qkv = arena_rows(arena, T, 3 * C);
    s.ctx = arena_rows(arena, T, C);
    s.xhat = arena_rows(arena, T, C);
    s.rstd = arena_rows(arena, T, 1);
    return s;
}

struct scratch {
    float *work; /* of nn/attention */
    float *dy;   /* [T,C] gradient of the output projection */
    float *dctx; /* [T,C] */
    float *dqkv; /* [T,3C] */
    float *partial;
};

static struct scratch scratch_of(struct arena *arena, int T, int C, size_t work_floats)
{
    struct scratch s = {0};

    s.work = arena_floats(arena, work_floats);
    s.dy = arena_rows(arena, T, C);
    s.dctx = arena_rows(arena, T, C);
    s.dqkv = arena_rows(arena, T, 3 * C);
    s.partial = arena_floats(arena, layernorm_partial_floats(T, C));
    return s;
}

static struct unit_sizes sizes(const struct unit_shape *shape, const struct unit_limits *limits)
{
    size_t work = attention_work_floats(limits->longest, limits->threads);
    struct arena saved = {0}, scratch = {0};

    (void)saved_of(&saved, limits->tokens, shape->hidden);
    (void)scratch_of(&scratch, limits->tokens, shape->hidden, work);
    return (struct unit_sizes){tensors_of(shape).end, arena_used_floats(&saved),
                               arena_used_floats(&scratch)};
}

static void forward(const struct unit_call *call, const float *in, float *out)
{
    int T = packed_tokens(&call->batch), C = call->shape.hidden;
    struct tensors at = tensors_of(&call->shape);
    const float *p = call->params;
    struct saved saved = saved_of(ARENA_AT(call->saved), T, C);
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

    linear_forward(saved.qkv, in, p + at.qkv_weight, p + at.qkv_bias, (struct linear){T, C, 3 * C});
    attention_forward(saved.ctx, saved.qkv, &call->batch, C, call->shape.heads, &call->drop,
                      call->scratch);
    linear_forward(out, saved.ctx, p + at.out_weight, p + at.out_bias, (struct linear){T, C, C});
    layernorm_forward(&norm, &call->batch, C, &call->drop);
}

static void backward(const struct unit_call *call, const float *in, const float *dout, float *din)
{
    int T = packed_tokens(&call->batch), C = call->shape.hidden;
    struct tensors at = tensors_of(&call->shape);
    const float *p = call->params;
    float *g = call->grads;
    struct saved saved = saved_of(ARENA_AT(call->saved), T, C);
    size_t work = attention_work_floats(packed_longest(&call->batch), threads_count());
    struct scratch tmp = scratch_of(ARENA_AT(call->scratch), T, C, work);
    struct linear project = {T, C, C}, qkv = {T, C, 3 * C};
    struct layernorm_backward norm = {
        .dout = dout,
        .xhat = saved.xhat,
        .rstd = saved.rstd,
        .gain = p + at.gain,
        .dgain = g + at.gain,
        .dbias = g + at.bias,
        .dsum = din,
        .dy = tmp.dy,
        .dy_bias = g + at.out_bias,
        .partial = tmp.partial,
    };

    layernorm_backward(&norm, &call->batch, C, &call->drop);
    linear_backward_weight(g + at.out_weight, tmp.dy, saved.ctx, project);
    linear_backward_input(tmp.dctx, tmp.dy, p + at.out_weight, project, 0);
    attention_backward(tmp.dqkv, tmp.dctx, saved.qkv, &call->batch, C, call->shape.heads,
                       &call->drop, tmp.work);
    linear_backward_weight(g + at.qkv_weight, tmp.dqkv, in, qkv);
    linear_backward_bias(g + at.qkv_bias, tmp.dqkv, qkv);
    linear_backward_input(din, tmp.dqkv, p + at.qkv_weight, qkv, 1);
}

const struct unit attention_unit = {
    .out = UNIT_OUT_TOKENS, .sizes = sizes, .forward = forward, .backward = backward};
