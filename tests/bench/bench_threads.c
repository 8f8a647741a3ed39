/* Two threads against one: the same training steps in turn, best wall time of each. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench.h"
#include "nn/gemm.h"
#include "step.h"

static double wall_of_step(struct step *s, int threads)
{
    double start;

    if (gemm_setup(threads, NULL) != ERR_OK)
        exit(1);
    start = step_wall_seconds();
    step_run(s);
    return step_wall_seconds() - start;
}

static void bench_case(const char *name, const struct step_case *what, int n_rounds)
{
    static struct step s;
    double best[2] = {1e9, 1e9};

    step_init(&s, what);
    step_run(&s);
    for (int i = 0; i < bench_rounds(n_rounds); i++)
        for (int t = 0; t < 2; t++) {
            double seconds = wall_of_step(&s, t + 1);

            best[t] = seconds < best[t] ? seconds : best[t];
        }
    bench_print(name, best[0] / best[1], "x", "one thread, the same steps in turn, wall time");
    step_deinit(&s);
}

int main(int argc, char **argv)
{
    (void)argc;
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
        (void)fputs("bench_threads: one core, nothing to compare\n", stderr);
        return BENCH_SKIPPED;
    }
    step_setup(argv, 2);
    bench_case("threads.BertMini",
               &(struct step_case){.preset = "BertMini", .n_seqs = 32, .micro_batches = 1}, 12);
    bench_case("threads.BertBase",
               &(struct step_case){.preset = "BertBase", .n_seqs = 8, .micro_batches = 1}, 5);
    return 0;
}
