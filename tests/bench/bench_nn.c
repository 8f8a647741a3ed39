/* Where the time of one layer's training goes: each kernel as a share of the layer, forward and
 * backward with dropout 0.1, fp32, one core. A share, not a time, since the machine is shared. */
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "nn/layers.h"
#include "nn/optimizers.h"
#include "nn/unit.h"
#include "step.h"

#define REPEATS 9
#define SEQS    8
#define LENGTH  128

/* Everything the timed functions read. */
struct bench {
    struct unit_shape shape;
    struct unit_limits limits;
    struct unit_call attention, ffn;
    struct packed batch;
    struct dropout drop;
    float *in, *out, *dout, *din, *m, *v;
    float *wide, *wide_too, *narrow, *partial;
    float *params; /* of the larger unit, for both: only speed counts */
    size_t n_params;
};

/* CPU time, the best of some: neighbours on a shared machine never make it less. */
static double seconds_of(void (*work)(struct bench *), struct bench *b)
{
    double best = 1e9;

    work(b);
    for (int i = 0; i < bench_rounds(REPEATS); i++) {
        double start = step_cpu_seconds(), seconds;

        work(b);
        seconds = step_cpu_seconds() - start;
        best = seconds < best ? seconds : best;
    }
    return best;
}

static float *area(size_t n, uint32_t tensor)
{
    float *x = aligned_alloc(64, (n + 15) / 16 * 64);

    if (!x)
        exit(1);
    init_normal(x, n, 0.5f, 1, tensor);
    return x;
}

static void attention_both(struct bench *b)
{
    unit_forward(&attention_unit, &b->attention, b->in, b->out);
    unit_backward(&attention_unit, &b->attention, b->in, b->dout, b->din);
}

static void ffn_both(struct bench *b)
{
    unit_forward(&ffn_unit, &b->ffn, b->in, b->out);
    unit_backward(&ffn_unit, &b->ffn, b->in, b->dout, b->din);
}

static void heads_forward(struct bench *b)
{
    attention_forward(b->narrow, b->wide, &b->batch, b->shape.hidden, b->shape.heads, &b->drop,
                      b->partial);
}

static void heads_backward(struct bench *b)
{
    attention_backward(b->wide_too, b->narrow, b->wide, &b->batch, b->shape.hidden, b->shape.heads,
                       &b->drop, b->partial);
}

static void gelu_forward_of(struct bench *b)
{
    gelu_forward(b->wide_too, b->wide, b->limits.tokens, b->shape.ffn);
}

static void gelu_backward_of(struct bench *b)
{
    gelu_backward(b->wide, b->wide_too, b->v, b->partial, b->limits.tokens, b->shape.ffn);
}

static struct layernorm norm_of(const struct bench *b)
{
    return (struct layernorm){.T = b->limits.tokens,
                              .C = b->shape.hidden,
                              .eps = 1e-5f,
                              .gain = b->m,
                              .bias = b->v,
                              .dgain = b->v,
                              .dbias = b->v,
                              .xhat = b->wide,
                              .rstd = b->wide_too,
                              .partial = b->partial};
}

static void norm_forward_of(struct bench *b)
{
    struct layernorm n = norm_of(b);

    layernorm_forward(b->out, b->in, b->dout, &n, &b->batch, &b->drop);
}

static void norm_backward_of(struct bench *b)
{
    struct layernorm n = norm_of(b);

    layernorm_backward(b->din, b->narrow, b->v, b->dout, &n, &b->batch, &b->drop);
}

static void optimize(struct bench *b)
{
    struct adamw a = {1e-5, 0.9, 0.999, 1e-8, 0.01, 1.0, 1};

    adamw_step(&a, b->wide, b->wide_too, b->m, b->v, b->n_params);
}

static void sum_squares(struct bench *b)
{
    if (squares_sum(b->wide, b->n_params) < 0.0)
        exit(1);
}

static void layer(struct bench *b)
{
    attention_both(b);
    ffn_both(b);
}

static const struct {
    const char *name;
    void (*work)(struct bench *);
    int times; /* in a layer */
} kernels[] = {
    {"heads.forward", heads_forward, 1},  {"heads.backward", heads_backward, 1},
    {"norm.forward", norm_forward_of, 2}, {"norm.backward", norm_backward_of, 2},
    {"gelu.forward", gelu_forward_of, 1}, {"gelu.backward", gelu_backward_of, 1},
    {"adamw.of.ffn", optimize, 1},        {"gradient.norm.of.ffn", sum_squares, 1},
};

static struct unit_call call_of(const struct bench *b, size_t saved)
{
    struct unit_call call = {.shape = b->shape, .batch = b->batch, .drop = b->drop};

    call.params = b->params;
    call.grads = area(b->n_params, 12);
    call.saved = area(saved, 13);
    call.scratch = b->partial;
    return call;
}

static struct bench bench_new(const struct unit_shape *shape)
{
    static int32_t starts[SEQS + 1];
    static uint32_t samples[SEQS];
    struct bench b = {.shape = *shape, .limits = {SEQS * LENGTH, SEQS, LENGTH, 0}};
    struct unit_sizes attention, ffn;
    size_t small = (size_t)(SEQS * LENGTH) * (size_t)shape->hidden, wide;

    for (int i = 0; i <= SEQS; i++)
        starts[i] = i * LENGTH;
    for (int i = 0; i < SEQS; i++)
        samples[i] = (uint32_t)i;
    b.batch = (struct packed){SEQS, starts, samples};
    b.drop = (struct dropout){.seed = 1, .step = 2, .unit = 3, .rate = 0.1f};
    attention = unit_sizes(&attention_unit, shape, &b.limits);
    ffn = unit_sizes(&ffn_unit, shape, &b.limits);
    b.n_params = ffn.params; /* more than attention has */
    wide = (size_t)(SEQS * LENGTH) * (size_t)shape->ffn;
    wide = wide > b.n_params ? wide : b.n_params;
    b.in = area(small, 1);
    b.out = area(small, 2);
    b.dout = area(small, 3);
    b.din = area(small, 4);
    b.m = area(wide, 5);
    b.v = area(wide, 6);
    b.wide = area(wide, 7);
    b.wide_too = area(wide, 8);
    b.narrow = area(wide, 9);
    b.partial = area(attention.scratch + ffn.scratch, 10);
    b.params = area(b.n_params, 11);
    b.attention = call_of(&b, attention.saved);
    b.ffn = call_of(&b, ffn.saved);
    return b;
}

static void bench_free(struct bench *b)
{
    float *areas[] = {b->in,
                      b->out,
                      b->dout,
                      b->din,
                      b->m,
                      b->v,
                      b->wide,
                      b->wide_too,
                      b->narrow,
                      b->partial,
                      b->params,
                      b->attention.grads,
                      b->attention.saved,
                      b->ffn.grads,
                      b->ffn.saved};

    for (size_t i = 0; i < sizeof areas / sizeof areas[0]; i++)
        free(areas[i]);
}

static void bench_shape(const char *preset, const struct unit_shape *shape)
{
    struct bench b = bench_new(shape);
    double whole = seconds_of(layer, &b);
    char name[64];

    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        double share = kernels[i].times * seconds_of(kernels[i].work, &b) / whole;

        (void)snprintf(name, sizeof name, "nn.%s.%s", preset, kernels[i].name);
        bench_print(name, 100 * share, "%", "one layer forward and backward, 8 x 128 tokens");
    }
    bench_free(&b);
}

int main(int argc, char **argv)
{
    (void)argc;
    step_setup(argv, 1);
    bench_shape("BertMini", &(struct unit_shape){256, 4, 1024, 30522, 512, 3, 1e-12f, false});
    bench_shape("BertBase", &(struct unit_shape){768, 12, 3072, 30522, 512, 3, 1e-12f, false});
    return 0;
}
