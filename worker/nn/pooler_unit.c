#include <string.h>

#include "base/arena.h"
#include "nn/lanes.h"
#include "nn/linear.h"
#include "nn/unit.h"

struct saved {
    float *y; /* [B,C] after tanh, before dropout */
};

static struct saved saved_of(struct arena *arena, int B, int C)
{
    struct saved s = {0};

    s.y = arena_rows(arena, B, C);
    return s;
}

struct scratch {
    float *first; /* [B,C] the first tokens */
    float *dy;    /* [B,C] */
    float *dx;    /* [B,C] */
};

static struct scratch scratch_of(struct arena *arena, int B, int C)
{
    struct scratch s = {0};

    s.first = arena_rows(arena, B, C);
    s.dy = arena_rows(arena, B, C);
    s.dx = arena_rows(arena, B, C);
    return s;
}

static struct unit_sizes sizes(const struct unit_shape *shape, const struct unit_limits *limits)
{
    size_t C = (size_t)shape->hidden;
    struct arena saved = {0}, scratch = {0};

    (void)saved_of(&saved, limits->seqs, shape->hidden);
    (void)scratch_of(&scratch, limits->seqs, shape->hidden);
    return (struct unit_sizes){C * C + C, arena_used_floats(&saved), arena_used_floats(&scratch)};
}

static void gather_first(float *first, const float *in, const struct packed *batch, size_t C)
{
    for (int b = 0; b < batch->n_seqs; b++)
        memcpy(first + (size_t)b * C, in + (size_t)batch->starts[b] * C, C * sizeof *first);
}

/* A sequence has one row here: its dropout is that of position 0. */
static void drop_rows(float *out, const float *in, const struct unit_call *call)
{
    int C = call->shape.hidden;

    for (int b = 0; b < call->batch.n_seqs; b++) {
        struct dropout_row row =
            dropout_row(&call->drop, DROPOUT_HIDDEN, call->batch.samples[b], 0);

        lanes()->dropout(out + (size_t)b * (size_t)C, in + (size_t)b * (size_t)C, C, &row);
    }
}

static void forward(const struct unit_call *call, const float *in, float *out)
{
    int B = call->batch.n_seqs, C = call->shape.hidden;
    size_t bias = (size_t)C * (size_t)C;
    struct saved saved = saved_of(ARENA_AT(call->saved), B, C);
    struct scratch tmp = scratch_of(ARENA_AT(call->scratch), B, C);

    gather_first(tmp.first, in, &call->batch, (size_t)C);
    linear_forward(out, tmp.first, call->params, call->params + bias, (struct linear){B, C, C});
    lanes()->tanh(saved.y, out, B * C);
    drop_rows(out, saved.y, call);
}

static void backward(const struct unit_call *call, const float *in, const float *dout, float *din)
{
    int B = call->batch.n_seqs, C = call->shape.hidden;
    size_t bias = (size_t)C * (size_t)C, row = (size_t)C * sizeof *din;
    struct saved saved = saved_of(ARENA_AT(call->saved), B, C);
    struct scratch tmp = scratch_of(ARENA_AT(call->scratch), B, C);
    struct linear n = {B, C, C};

    gather_first(tmp.first, in, &call->batch, (size_t)C);
    drop_rows(tmp.dx, dout, call);
    lanes()->tanh_back(tmp.dy, tmp.dx, saved.y, B * C);
    linear_backward_weight(call->grads, tmp.dy, tmp.first, n);
    linear_backward_bias(call->grads + bias, tmp.dy, n);
    linear_backward_input(tmp.dx, tmp.dy, call->params, n, 0);
    memset(din, 0, (size_t)packed_tokens(&call->batch) * row);
    for (int b = 0; b < B; b++)
        memcpy(din + (size_t)call->batch.starts[b] * (size_t)C, tmp.dx + (size_t)b * (size_t)C,
               row);
}

const struct unit pooler_unit = {
    .out = UNIT_OUT_SEQUENCES, .sizes = sizes, .forward = forward, .backward = backward};
