/* A whole training step (forward, backward, AdamW, dropout 0.1, fp32) on one core, in model FLOPs,
 * as a share of what the same BLAS gives for a large matrix product in the same run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench.h"
#include "nn/gemm.h"
#include "pipe/optimizer.h"
#include "pipe/stage.h"

#define PEAK_SIZE   1024
#define PEAK_ROUNDS 24
#define N_ROUNDS    3
#define LENGTH      128

struct input {
    struct stage_input in;
    int32_t *ids, *types, *positions, *starts, *labels;
    uint32_t *samples;
};

static void *take(size_t count, size_t size)
{
    void *p = calloc(count, size);

    if (!p) {
        (void)fputs("bench_step: out of memory\n", stderr);
        exit(1);
    }
    return p;
}

static double peak_gflops(void)
{
    size_t n = (size_t)PEAK_SIZE * PEAK_SIZE;
    float *a = take(n, sizeof *a);
    float *b = take(n, sizeof *b);
    float *c = take(n, sizeof *c);
    double best = 0;

    for (size_t i = 0; i < n; i++)
        a[i] = b[i] = 1e-3f * (float)(i % 97);
    for (int i = 0; i < PEAK_ROUNDS; i++) {
        int64_t start_ns = clock_now_ns();
        double gflops;

        gemm(GEMM_NN, PEAK_SIZE, PEAK_SIZE, PEAK_SIZE, 1, (struct gemm_in){a, PEAK_SIZE},
             (struct gemm_in){b, PEAK_SIZE}, (struct gemm_out){c, PEAK_SIZE, 0});
        gflops = 2.0 * (double)n * PEAK_SIZE / (double)(clock_now_ns() - start_ns);
        best = gflops > best ? gflops : best;
    }
    free(a);
    free(b);
    free(c);
    return best;
}

static void make_input(struct input *x, const struct plan *plan)
{
    int n_seqs = plan->spec.training.batch_size;
    int T = n_seqs * LENGTH;

    *x = (struct input){.ids = take((size_t)T, 4),
                        .types = take((size_t)T, 4),
                        .positions = take((size_t)T, 4),
                        .starts = take((size_t)n_seqs + 1, 4),
                        .labels = take((size_t)n_seqs, 4),
                        .samples = take((size_t)n_seqs, 4)};
    for (int t = 0; t < T; t++) {
        x->ids[t] = (t * 7919) % plan->spec.model.vocab;
        x->positions[t] = t % LENGTH;
    }
    for (int i = 0; i <= n_seqs; i++)
        x->starts[i] = i * LENGTH;
    x->in = (struct stage_input){.batch = {.n_seqs = n_seqs,
                                           .n_tokens = T,
                                           .starts = x->starts,
                                           .labels = x->labels,
                                           .samples = x->samples},
                                 .ids = x->ids,
                                 .types = x->types,
                                 .positions = x->positions};
}

static void free_input(struct input *x)
{
    free(x->ids);
    free(x->types);
    free(x->positions);
    free(x->starts);
    free(x->labels);
    free(x->samples);
}

static double step_seconds(struct stage *s, struct stage_input *in, int64_t step)
{
    struct weights_step how = {.rate = 1e-5, .decay = 0.01, .updates = step};
    struct stage_result result;
    int64_t start_ns = clock_now_ns();

    in->step = step;
    if (stage_forward(s, 0, in, &result, NULL) != ERR_OK)
        exit(1);
    (void)stage_backward(s, 0, NULL);
    how.scale = optimizer_scale(weights_square_sum(&s->weights, 0), 1.0);
    weights_update(&s->weights, &how);
    return (double)(clock_now_ns() - start_ns) / 1e9;
}

static double step_flops(const struct model *m, int n_seqs)
{
    struct model_load load = {.n_seqs = n_seqs,
                              .tokens = (double)n_seqs * LENGTH,
                              .tokens_squared = (double)n_seqs * LENGTH * LENGTH};
    double flops = 0;

    for (int u = 0; u < model_units(m); u++)
        flops += model_unit_flops(m, u, &load);
    return flops;
}

static void bench_model(const char *preset, int n_seqs)
{
    struct plan *plan = take(1, sizeof *plan);
    struct stage *s = take(1, sizeof *s);
    double shares[N_ROUNDS];
    double speeds[N_ROUNDS];
    char name[64];
    struct input x;

    if (model_preset(preset, &plan->spec.model, NULL) != ERR_OK)
        exit(1);
    plan->spec.training.batch_size = n_seqs;
    plan->spec.training.micro_batches = 1;
    plan->spec.training.max_length = LENGTH;
    plan->spec.training.dropout = 0.1;
    plan->n_stages = 1;
    plan->stages[0].n_units = model_units(&plan->spec.model);
    make_input(&x, plan);
    if (stage_init(s, plan, 0, NULL) != ERR_OK)
        exit(1);
    (void)step_seconds(s, &x.in, 0);
    for (int i = 0; i < N_ROUNDS; i++) {
        double peak = peak_gflops();
        double seconds = step_seconds(s, &x.in, i + 1);

        shares[i] = 100 * step_flops(&plan->spec.model, n_seqs) / seconds / 1e9 / peak;
        speeds[i] = n_seqs * LENGTH / seconds;
    }
    (void)snprintf(name, sizeof name, "step.%s.share", preset);
    bench_print(name, bench_median(shares, N_ROUNDS), "%",
                "SGEMM M=N=K=1024 on the same core, best of 24");
    (void)snprintf(name, sizeof name, "step.%s.speed", preset);
    bench_print(name, bench_median(speeds, N_ROUNDS), "tokens/s", "one core, sequence 128");
    stage_deinit(s);
    free_input(&x);
    free(s);
    free(plan);
}

int main(int argc, char **argv)
{
    const char *core = gemm_core_wanted();

    (void)argc;
    if (core && !getenv("OPENBLAS_CORETYPE") && setenv("OPENBLAS_CORETYPE", core, 1) == 0)
        (void)execv("/proc/self/exe", argv);
    if (gemm_setup(1, NULL) != ERR_OK)
        return 1;
    (void)fprintf(stderr, "bench_step: OpenBLAS %s, one core\n", gemm_core_name());
    bench_model("BertMini", 32);
    bench_model("BertBase", 8);
    return 0;
}
