/* The layers that units are made of, one by one: forward against the same in double, backward
 * against central differences of that. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "nn/gemm.h"
#include "nn/layers.h"
#include "reference.h"

#define T       97 /* more than one chunk of rows */
#define B       3
#define C       72 /* leaves a tail behind blocks of 64 and strands of 16 */
#define H       3
#define O       40
#define V       11
#define P       60
#define EPS     1e-5f
#define CHECKED 100 /* elements of each input */

static const int32_t starts[B + 1] = {0, 40, 41, T};
static const uint32_t samples[B] = {7, 9, 4000000000u};
static const struct packed batch = {.n_seqs = B, .starts = starts, .samples = samples};
static const struct dropout drop = {.seed = 77, .step = 3, .unit = 4, .rate = 0.25f};

/* What a kernel is a function of: inputs and parameters, whatever its gradient is taken of. */
#define PARTS_MAX 5
struct kernel {
    const char *name;
    size_t parts[PARTS_MAX]; /* floats; 0 behind the last */
    size_t n_out;
    void (*reference)(double *const x[], double *out);
    void (*forward)(float *const x[], float *out);
    /* dx[] is zero: it may be added to. */
    void (*backward)(float *const x[], const float *dout, float *const dx[]);
};

/* --- linear: x, weight, bias --- */

static void linear_reference(double *const x[], double *out)
{
    ref_linear(out, x[0], x[1], x[2], T, C, O);
}

static void linear_run(float *const x[], float *out)
{
    struct linear l = {T, C, O, .w = x[1], .b = x[2]};

    linear_forward(out, x[0], &l);
}

static void linear_back(float *const x[], const float *dout, float *const dx[])
{
    struct linear l = {T, C, O, .w = x[1], .dw = dx[1], .db = dx[2]};

    linear_backward(dx[0], dout, x[0], &l);
}

/* Added to half of it, and halved: a gradient of two parts. */
static void linear_back_added(float *const x[], const float *dout, float *const dx[])
{
    struct linear l = {T, C, O, .w = x[1]};

    linear_back(x, dout, dx);
    linear_backward_input(dx[0], dout, &l, true);
    for (int i = 0; i < T * C; i++)
        dx[0][i] *= 0.5f;
}

/* --- GELU: h, and the bias that was added to it --- */

static void gelu_reference(double *const x[], double *out)
{
    for (int i = 0; i < T * C; i++)
        out[i] = ref_gelu(x[0][i] + x[1][i % C]);
}

static float *with_bias(float *const x[])
{
    float *h = floats(T * C);

    for (int i = 0; i < T * C; i++)
        h[i] = x[0][i] + x[1][i % C];
    return h;
}

static void gelu_run(float *const x[], float *out)
{
    float *h = with_bias(x);

    gelu_forward(out, h, T, C);
    free(h);
}

static void gelu_back(float *const x[], const float *dout, float *const dx[])
{
    float *h = with_bias(x), *partial = filled(gelu_partial_floats(T, C), 9);

    memcpy(dx[0], dout, T * C * sizeof *dout);
    gelu_backward(h, dx[0], dx[1], partial, T, C);
    free(h);
    free(partial);
}

/* --- LayerNorm: gain, bias, y; and with a residual: res, the bias that was added to y --- */

static void norm_reference(double *const x[], double *out)
{
    memcpy(out, x[2], T * C * sizeof *out);
    ref_layernorm(out, x[0], x[1], (double)EPS, T, C);
}

static void norm_residual_reference(double *const x[], double *out)
{
    for (int i = 0; i < T * C; i++)
        out[i] = x[2][i] + x[4][i % C];
    ref_dropout(out, &batch, C, &drop);
    for (int i = 0; i < T * C; i++)
        out[i] += x[3][i];
    ref_layernorm(out, x[0], x[1], (double)EPS, T, C);
}

/* Forward into `out`, and backward too where `dx` is wanted. */
static void norm_both(float *const x[], bool has_residual, float *out, const float *dout,
                      float *const dx[])
{
    float *y = has_residual ? with_bias((float *const[]){x[2], x[4]}) : NULL;
    float *areas = floats(T * C + T), *partial = filled(layernorm_partial_floats(T, C), 9);
    struct layernorm norm = {T,
                             C,
                             EPS,
                             .gain = x[0],
                             .bias = x[1],
                             .xhat = areas,
                             .rstd = areas + T * C,
                             .partial = partial};

    if (has_residual)
        layernorm_forward(out, x[3], y, &norm, &batch, &drop);
    else
        layernorm_forward(out, NULL, x[2], &norm, NULL, NULL);
    if (dx) {
        norm.dgain = dx[0];
        norm.dbias = dx[1];
        if (has_residual)
            layernorm_backward(dx[3], dx[2], dx[4], dout, &norm, &batch, &drop);
        else
            layernorm_backward(dx[2], NULL, NULL, dout, &norm, NULL, NULL);
    }
    free(y);
    free(areas);
    free(partial);
}

static void norm_run(float *const x[], float *out)
{
    norm_both(x, false, out, NULL, NULL);
}

static void norm_back(float *const x[], const float *dout, float *const dx[])
{
    float *out = floats(T * C);

    norm_both(x, false, out, dout, dx);
    free(out);
}

static void norm_residual_run(float *const x[], float *out)
{
    norm_both(x, true, out, NULL, NULL);
}

static void norm_residual_back(float *const x[], const float *dout, float *const dx[])
{
    float *out = floats(T * C);

    norm_both(x, true, out, dout, dx);
    free(out);
}

/* --- attention: qkv --- */

static void attention_reference(double *const x[], double *out)
{
    ref_attention(out, x[0], &batch, C, H, &drop);
}

static float *attention_work(void)
{
    return filled(attention_work_floats(packed_longest(&batch)), 9);
}

static void attention_run(float *const x[], float *out)
{
    float *work = attention_work();

    attention_forward(out, x[0], &batch, C, H, &drop, work);
    free(work);
}

static void attention_back(float *const x[], const float *dout, float *const dx[])
{
    float *work = attention_work();

    attention_backward(dx[0], dout, x[0], &batch, C, H, &drop, work);
    free(work);
}

/* --- embedding: the three tables --- */

static int32_t ids[T], types[T];

static void embedding_reference(double *const x[], double *out)
{
    for (int s = 0; s < B; s++)
        for (int t = starts[s]; t < starts[s + 1]; t++)
            for (int c = 0; c < C; c++)
                out[t * C + c] =
                    x[0][ids[t] * C + c] + x[1][(t - starts[s]) * C + c] + x[2][types[t] * C + c];
}

static void embedding_run(float *const x[], float *out)
{
    struct embedding tables = {.word = x[0], .position = x[1], .type = x[2]};

    embedding_forward(out, &tables, ids, types, &batch, C);
}

static void embedding_back(float *const x[], const float *dout, float *const dx[])
{
    struct embedding tables = {.dword = dx[0], .dposition = dx[1], .dtype = dx[2]};

    (void)x;
    embedding_backward(dout, &tables, ids, types, &batch, C);
}

/* --- dropout: the rows of a batch --- */

static void dropout_reference(double *const x[], double *out)
{
    memcpy(out, x[0], T * C * sizeof *out);
    ref_dropout(out, &batch, C, &drop);
}

static void dropout_run(float *const x[], float *out)
{
    dropout_apply(out, x[0], &batch, C, &drop);
}

static void dropout_back(float *const x[], const float *dout, float *const dx[])
{
    (void)x;
    dropout_apply(dx[0], dout, &batch, C, &drop);
}

static struct kernel kernels[] = {
    {"linear", {T * C, O *C, O}, T *O, linear_reference, linear_run, linear_back},
    {"linear_added", {T * C, O *C, O}, T *O, linear_reference, linear_run, linear_back_added},
    {"gelu", {T * C, C}, T *C, gelu_reference, gelu_run, gelu_back},
    {"layernorm", {C, C, T *C}, T *C, norm_reference, norm_run, norm_back},
    {"layernorm_of_a_residual",
     {C, C, T *C, T *C, C},
     T *C,
     norm_residual_reference,
     norm_residual_run,
     norm_residual_back},
    {"attention", {T * 3 * C}, T *C, attention_reference, attention_run, attention_back},
    {"embedding",
     {V * C, P *C, UNIT_TYPES *C},
     T *C,
     embedding_reference,
     embedding_run,
     embedding_back},
    {"dropout", {T * C}, T *C, dropout_reference, dropout_run, dropout_back},
};

/* --- one kernel with its inputs --- */

struct run {
    const struct kernel *kernel;
    float *x[PARTS_MAX], *dx[PARTS_MAX];
    double *wide[PARTS_MAX];
    float *out, *dout;
    double *want;
};

static struct run run_done(const struct kernel *k)
{
    struct run r = {.kernel = k, .out = floats(k->n_out), .dout = filled(k->n_out, 20)};

    for (int i = 0; i < PARTS_MAX; i++) {
        r.x[i] = filled(k->parts[i], (uint64_t)i + 1);
        r.dx[i] = floats(k->parts[i]);
        r.wide[i] = widen(r.x[i], k->parts[i]);
    }
    r.want = doubles(k->n_out);
    k->forward(r.x, r.out);
    k->backward(r.x, r.dout, r.dx);
    return r;
}

static void run_free(struct run *r)
{
    for (int i = 0; i < PARTS_MAX; i++) {
        free(r->x[i]);
        free(r->dx[i]);
        free(r->wide[i]);
    }
    free(r->out);
    free(r->dout);
    free(r->want);
}

/* The double forward pass, projected on dout. */
static double project(struct run *r)
{
    double sum = 0.0;

    r->kernel->reference(r->wide, r->want);
    for (size_t i = 0; i < r->kernel->n_out; i++)
        sum += r->want[i] * (double)r->dout[i];
    return sum;
}

static void check_part(struct run *r, int part)
{
    const float *got = r->dx[part];
    double *x = r->wide[part], largest = 0.0;
    size_t n = r->kernel->parts[part], stride = n / CHECKED + 1;

    for (size_t i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)got[i]));
    assert_true(largest > 0.0);
    for (size_t i = 0; i < n; i += stride) {
        double at = x[i], step = 1e-5, high, low;

        x[i] = at + step;
        high = project(r);
        x[i] = at - step;
        low = project(r);
        x[i] = at;
        if (fabs((high - low) / (2 * step) - (double)got[i]) > 5e-6 * largest)
            fail_msg("%s: gradient %zu of input %d is %.9g, differences give %.9g (largest %g)",
                     r->kernel->name, i, part, (double)got[i], (high - low) / (2 * step), largest);
    }
}

static void kernel_forward_is_the_reference(void **state)
{
    struct run r = run_done(*state);

    r.kernel->reference(r.wide, r.want);
    assert_true(difference(r.out, r.want, r.kernel->n_out) < 2e-6);
    run_free(&r);
}

static void kernel_backward_is_the_slope_of_forward(void **state)
{
    struct run r = run_done(*state);

    for (int part = 0; part < PARTS_MAX && r.kernel->parts[part] > 0; part++)
        check_part(&r, part);
    run_free(&r);
}

static void kernel_gives_the_same_bits_on_more_threads(void **state)
{
    struct run alone = run_done(*state), threaded;

    assert_int_equal(gemm_setup(3, NULL), ERR_OK);
    threaded = run_done(*state);
    assert_int_equal(gemm_setup(1, NULL), ERR_OK);
    assert_memory_equal(alone.out, threaded.out, alone.kernel->n_out * sizeof(float));
    for (int i = 0; i < PARTS_MAX; i++)
        assert_memory_equal(alone.dx[i], threaded.dx[i], alone.kernel->parts[i] * sizeof(float));
    run_free(&alone);
    run_free(&threaded);
}

static const struct {
    const char *name;
    CMUnitTestFunction check;
} checks[] = {
    {"forward_is_the_reference", kernel_forward_is_the_reference},
    {"backward_is_the_slope_of_forward", kernel_backward_is_the_slope_of_forward},
    {"gives_the_same_bits_on_more_threads", kernel_gives_the_same_bits_on_more_threads},
};

#define N_KERNELS (sizeof kernels / sizeof kernels[0])
#define N_CHECKS  (sizeof checks / sizeof checks[0])

int main(void)
{
    struct CMUnitTest tests[N_KERNELS * N_CHECKS];
    static char names[N_KERNELS * N_CHECKS][100];

    if (gemm_setup(1, NULL) != ERR_OK)
        return 1;
    for (int t = 0; t < T; t++) {
        ids[t] = t * t % V;
        types[t] = t % 5 > 2;
    }
    for (size_t i = 0; i < N_KERNELS * N_CHECKS; i++) {
        struct kernel *k = &kernels[i / N_CHECKS];

        snprintf(names[i], sizeof names[i], "%s_%s", k->name, checks[i % N_CHECKS].name);
        tests[i] = (struct CMUnitTest){names[i], checks[i % N_CHECKS].check, NULL, NULL, k};
    }
    return _cmocka_run_group_tests("kernels", tests, N_KERNELS * N_CHECKS, NULL, NULL);
}
