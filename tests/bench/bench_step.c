/* Whole training steps (forward, backward, AdamW, dropout 0.1, fp32) on one core: useful tokens a
 * second, model FLOPs as a share of what the same BLAS gives for a large matrix product in the same
 * run, and the share of a step that is not a matrix product. Best of some rounds in turn, in CPU
 * time: neighbours on a shared machine make a round slower and never faster. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "nn/gemm.h"
#include "step.h"

#define N_ROUNDS      3
#define PEAK_ROUNDS   16
#define LARGE_BYTES   ((double)9e9) /* that all 24 layers of BERT-large need to be free */
#define PEAK_AGAINST  "SGEMM M=N=K=1024 on the same core in the same run"
#define SPEED_AGAINST "useful tokens; one core"

/* Every product of the kernels goes through these two (-Wl,--wrap): the time spent in them. */
static struct {
    bool is_on;
    double seconds;
} products;

void __real_gemm(enum gemm_kind kind, int m, int n, int k, struct gemm_in a, struct gemm_in b,
                 struct gemm_out c);
void __wrap_gemm(enum gemm_kind kind, int m, int n, int k, struct gemm_in a, struct gemm_in b,
                 struct gemm_out c);
void __real_gemm_alone(enum gemm_kind kind, int m, int n, int k, struct gemm_in a, struct gemm_in b,
                       struct gemm_out c);
void __wrap_gemm_alone(enum gemm_kind kind, int m, int n, int k, struct gemm_in a, struct gemm_in b,
                       struct gemm_out c);

void __wrap_gemm(enum gemm_kind kind, int m, int n, int k, struct gemm_in a, struct gemm_in b,
                 struct gemm_out c)
{
    double start = products.is_on ? step_cpu_seconds() : 0;

    __real_gemm(kind, m, n, k, a, b, c);
    if (products.is_on)
        products.seconds += step_cpu_seconds() - start;
}

void __wrap_gemm_alone(enum gemm_kind kind, int m, int n, int k, struct gemm_in a, struct gemm_in b,
                       struct gemm_out c)
{
    double start = products.is_on ? step_cpu_seconds() : 0;

    __real_gemm_alone(kind, m, n, k, a, b, c);
    if (products.is_on)
        products.seconds += step_cpu_seconds() - start;
}

static const struct {
    const char *name;
    struct step_case what;
} cases[] = {
    {"BertMini.128", {.preset = "BertMini", .n_seqs = 32, .micro_batches = 1}},
    {"BertMini.mix", {.preset = "BertMini", .n_seqs = 32, .micro_batches = 1, .lengths = STEP_MIX}},
    {"BertBase.128", {.preset = "BertBase", .n_seqs = 8, .micro_batches = 1}},
    {"BertBase.mix", {.preset = "BertBase", .n_seqs = 32, .micro_batches = 1, .lengths = STEP_MIX}},
    {"BertBase.MaskedLM",
     {.preset = "BertBase", .n_seqs = 8, .micro_batches = 1, .masked_lm = true}},
    {"BertLarge.128", {.preset = "BertLarge", .n_seqs = 8, .micro_batches = 1}},
};

static void row(const char *name, const char *what, double value, const char *unit,
                const char *against)
{
    char text[64];

    (void)snprintf(text, sizeof text, "step.%s.%s", name, what);
    bench_print(text, value, unit, against);
}

static double min(double a, double b)
{
    return a < b ? a : b;
}

static void bench_case(const char *name, const struct step_case *what)
{
    static struct step s;
    double peak = 0, seconds = 1e9, share = 1, start;

    step_init(&s, what);
    step_run(&s);
    for (int i = 0; i < bench_rounds(N_ROUNDS); i++) {
        peak = -min(-peak, -step_peak_gflops(PEAK_ROUNDS));
        start = step_cpu_seconds();
        step_run(&s);
        seconds = min(seconds, step_cpu_seconds() - start);
        products.is_on = true;
        products.seconds = 0;
        start = step_cpu_seconds();
        step_run(&s);
        share = min(share, 1 - products.seconds / (step_cpu_seconds() - start));
        products.is_on = false;
    }
    row(name, "share", 100 * s.flops / seconds / 1e9 / peak, "%", PEAK_AGAINST);
    row(name, "speed", s.tokens / seconds, "tokens/s", SPEED_AGAINST);
    row(name, "rest", 100 * share, "%", "the whole step; what is not a matrix product");
    step_deinit(&s);
}

static double free_bytes(void)
{
    return (double)sysconf(_SC_AVPHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
}

/* With a name as the argument: that case only. */
int main(int argc, char **argv)
{
    step_setup(argv, 1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct step_case what = cases[i].what;
        char name[64];

        (void)snprintf(name, sizeof name, "%s", cases[i].name);
        if (argc > 1 && strcmp(argv[1], name) != 0)
            continue;
        if (strcmp(what.preset, "BertLarge") == 0 && free_bytes() < LARGE_BYTES) {
            what.layers = 2;
            (void)snprintf(name, sizeof name, "%s.2layers", cases[i].name);
        }
        bench_case(name, &what);
    }
    return 0;
}
