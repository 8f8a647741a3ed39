/* Training steps with bfloat16 factors against the same steps in fp32, in turn on one core: the
 * best CPU time of each. And the kernel alone against SGEMM. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "nn/gemm.h"
#include "step.h"

#define PEAK_ROUNDS 16

static void use(enum gemm_precision precision)
{
    if (gemm_use(precision, NULL) != ERR_OK)
        exit(1);
}

static const struct {
    const char *name;
    struct step_case what;
    int n_rounds;
} cases[] = {
    {"BertMini.128", {.preset = "BertMini", .n_seqs = 32, .micro_batches = 1}, 9},
    {"BertMini.mix",
     {.preset = "BertMini", .n_seqs = 32, .micro_batches = 1, .lengths = STEP_MIX},
     9},
    {"BertBase.128", {.preset = "BertBase", .n_seqs = 8, .micro_batches = 1}, 5},
    {"BertBase.mix",
     {.preset = "BertBase", .n_seqs = 32, .micro_batches = 1, .lengths = STEP_MIX},
     5},
    {"BertBase.32x128", {.preset = "BertBase", .n_seqs = 32, .micro_batches = 1}, 3},
};

static void bench_case(const char *case_name, const struct step_case *what, int n_rounds)
{
    static struct step s;
    double best[] = {[GEMM_FP32] = 1e9, [GEMM_BF16] = 1e9};
    char name[64];

    step_init(&s, what);
    step_run(&s);
    for (int i = 0; i < bench_rounds(n_rounds); i++)
        for (enum gemm_precision p = GEMM_FP32; p <= GEMM_BF16; p++) {
            double start;

            use(p);
            start = step_cpu_seconds();
            step_run(&s);
            start = step_cpu_seconds() - start;
            best[p] = start < best[p] ? start : best[p];
        }
    (void)snprintf(name, sizeof name, "precision.bf16.%s", case_name);
    bench_print(name, best[GEMM_FP32] / best[GEMM_BF16], "x", "the same steps in fp32, in turn");
    (void)snprintf(name, sizeof name, "precision.bf16.%s.speed", case_name);
    bench_print(name, s.tokens / best[GEMM_BF16], "tokens/s", "one core");
    step_deinit(&s);
}

static void bench_kernel(void)
{
    double fp32 = 0, bf16 = 0;

    for (int i = 0; i < bench_rounds(3); i++) {
        double gflops;

        use(GEMM_FP32);
        gflops = step_peak_gflops(PEAK_ROUNDS);
        fp32 = gflops > fp32 ? gflops : fp32;
        use(GEMM_BF16);
        gflops = step_peak_gflops(PEAK_ROUNDS);
        bf16 = gflops > bf16 ? gflops : bf16;
    }
    bench_print("precision.bf16.product", bf16, "GFLOP/s", "M=N=K=1024, one core");
    bench_print("precision.bf16.product.ratio", bf16 / fp32, "x", "SGEMM of that size, in turn");
}

/* With a name as the argument: that case only. */
int main(int argc, char **argv)
{
    step_setup(argv, 1);
    if (!gemm_has_bf16()) {
        (void)fputs("bench_precision: this processor has no AVX512_BF16\n", stderr);
        return BENCH_SKIPPED;
    }
    if (argc == 1)
        bench_kernel();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (argc == 1 || strcmp(argv[1], cases[i].name) == 0)
            bench_case(cases[i].name, &cases[i].what, cases[i].n_rounds);
    return 0;
}
