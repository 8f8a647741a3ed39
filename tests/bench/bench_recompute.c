/* A step of BERT-base with activations recomputed against the same without, in turn on one core:
 * time, memory of a stage with four micro-batches in flight, and what the cost model says of it. */
#include <stdio.h>
#include <stdlib.h>

#include "balance/cost.h"
#include "bench.h"
#include "step.h"

#define N_ROUNDS  5
#define IN_FLIGHT 4

/* The first of four stages, three layers of BERT-base each. */
static double first_stage_bytes(const struct plan *from, bool recompute)
{
    static struct plan plan;

    plan = *from;
    plan.spec.training.activations = recompute ? SPEC_ACTIVATIONS_RECOMPUTE : SPEC_ACTIVATIONS_KEEP;
    plan.spec.training.batch_size = IN_FLIGHT * 8;
    plan.micro_batches = IN_FLIGHT;
    plan.n_workers = IN_FLIGHT;
    plan.workers[0].n_units = 7;
    return (double)stage_bytes(&plan, 0);
}

static double predicted_bytes(const struct spec *from)
{
    struct spec spec = *from;
    struct cost_job job = {.spec = &spec, .micro_batches = IN_FLIGHT};
    double bytes = 0, scratch = 0;

    spec.training.activations = SPEC_ACTIVATIONS_RECOMPUTE;
    spec.training.batch_size = IN_FLIGHT * 8;
    for (int u = 0; u < 7; u++) {
        struct cost_unit c;

        cost_of_unit(&job, u, &c);
        bytes += (double)c.state_bytes + IN_FLIGHT * (double)c.activation_bytes;
        scratch = (double)c.scratch_bytes > scratch ? (double)c.scratch_bytes : scratch;
    }
    return bytes + scratch;
}

static void start_with_recompute(struct step *s)
{
    struct err err;

    stage_deinit(&s->stage);
    s->plan.spec.training.activations = SPEC_ACTIVATIONS_RECOMPUTE;
    if (stage_init(&s->stage, &s->state, &s->plan, 0, &err) != ERR_OK) {
        (void)fprintf(stderr, "bench_recompute: %s\n", err.text);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    static struct step steps[2];
    double best[2] = {1e9, 1e9}, keeps, again;

    (void)argc;
    step_setup(argv, 1);
    for (int i = 0; i < 2; i++)
        step_init(&steps[i],
                  &(struct step_case){
                      .preset = "BertBase", .layers = 4, .n_seqs = 8, .micro_batches = 1});
    start_with_recompute(&steps[1]);
    step_run(&steps[0]);
    step_run(&steps[1]);
    for (int round = 0; round < bench_rounds(N_ROUNDS); round++)
        for (int i = 0; i < 2; i++) {
            double start = step_cpu_seconds();

            step_run(&steps[i]);
            start = step_cpu_seconds() - start;
            best[i] = start < best[i] ? start : best[i];
        }
    keeps = first_stage_bytes(&steps[0].plan, false);
    again = first_stage_bytes(&steps[0].plan, true);
    bench_print("recompute.time", best[1] / best[0], "x",
                "the same steps without, in turn; 4 layers of BertBase, 8 x 128 tokens");
    bench_print("recompute.memory", again / keeps, "x",
                "a stage of 3 layers of BertBase, 4 micro-batches of 8 x 128 tokens in flight");
    bench_print("recompute.predicted", predicted_bytes(&steps[0].plan.spec) / again, "x",
                "the planner's figure by what the stage takes");
    step_deinit(&steps[0]);
    step_deinit(&steps[1]);
    return 0;
}
