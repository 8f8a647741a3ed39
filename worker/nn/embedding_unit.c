#include "nn/embedding.h"
#include "nn/layernorm.h"
#include "nn/room.h"
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

static struct saved saved_of(struct room *room, int T, int C)
{
    struct saved s = {0};

    s.xhat = room_take(room, T, C);
    s.rstd = room_take(room, T, 1);
    return s;
}

struct scratch {
    float *d; /* [T,C] gradient below the dropout, then below LayerNorm */
    float *partial;
};

static struct scratch scratch_of(struct room *room, int T, int C)
{
    struct scratch s = {0};

    s.d = room_take(room, T, C);
    s.partial = room_take_floats(room, layernorm_partial_floats(T, C));
    return s;
}

struct unit_sizes embedding_unit_sizes(const struct unit_shape *shape, const struct unit_room *room)
{
    struct room saved = {0}, scratch = {0};

    (void)saved_of(&saved, room->tokens, shape->hidden);
    (void)scratch_of(&scratch, room->tokens, shape->hidden);
    return (struct unit_sizes){tensors_of(shape).end, saved.used, scratch.used};
}

void embedding_unit_forward(const struct unit_call *call, const int32_t *ids, const int32_t *types,
                            float *out)
{
    int T = packed_tokens(&call->batch), C = call->shape.hidden;
    struct tensors at = tensors_of(&call->shape);
    const float *p = call->params;
    struct saved saved = saved_of(&(struct room){.start = call->saved}, T, C);
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

    embedding_forward(out, &tables, ids, types, &call->batch, C);
    layernorm_forward(&norm, &call->batch, C, &call->drop);
    dropout_apply(out, out, &call->batch, C, &call->drop);
}

void embedding_unit_backward(const struct unit_call *call, const int32_t *ids, const int32_t *types,
                             const float *dout)
{
    int T = packed_tokens(&call->batch), C = call->shape.hidden;
    struct tensors at = tensors_of(&call->shape);
    float *g = call->grads;
    struct saved saved = saved_of(&(struct room){.start = call->saved}, T, C);
    struct scratch tmp = scratch_of(&(struct room){.start = call->scratch}, T, C);
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

    dropout_apply(tmp.d, dout, &call->batch, C, &call->drop);
    layernorm_backward(&norm, &call->batch, C, &call->drop);
    embedding_backward(&grads, tmp.d, ids, types, &call->batch, C);
}
