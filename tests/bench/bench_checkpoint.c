/* A step of BERT-base during which a checkpoint is written, against one without, in turn: both as
 * the trainer sees them, with what it waits for before the update. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench.h"
#include "step.h"
#include "train/checkpoint.h"

#define N_ROUNDS 7
#define WAIT_MS  600000

static _Noreturn void fail(const struct err *err)
{
    (void)fprintf(stderr, "bench_checkpoint: %s\n", err->text);
    exit(1);
}

/* Seconds of a step; with `c` a checkpoint is begun before. */
static double time_step(struct step *s, struct checkpoint *c)
{
    static const struct progress progress;
    static const struct history history;
    double start = step_wall_seconds();

    if (c)
        checkpoint_begin(c, 0, &progress, &history, true);
    step_run(s);
    if (c)
        (void)checkpoint_before_update(c, WAIT_MS);
    return step_wall_seconds() - start;
}

/* One row. */
static void measure(struct step *step, const struct store *store, bool from_copy)
{
    static const struct loader loader;
    static struct checkpoint c;
    const struct checkpoint_params params = {
        .store = store, .plan = &step->plan, .state = &step->state, .loader = &loader};
    double ratios[N_ROUNDS], seconds[N_ROUNDS];
    char against[160];
    int n = bench_rounds(N_ROUNDS);
    struct err err;

    step->plan.saves_from_copy = from_copy;
    if (checkpoint_init(&c, &params, &err) != ERR_OK)
        fail(&err);
    (void)time_step(step, &c); /* touches all memory */
    (void)checkpoint_wait(&c, WAIT_MS);
    for (int i = 0; i < n; i++) {
        double without = time_step(step, NULL);
        double with;

        step->state.end.step = ++step->state.step;
        with = time_step(step, &c);
        (void)checkpoint_wait(&c, WAIT_MS);
        ratios[i] = with / without;
        seconds[i] = without;
    }
    checkpoint_deinit(&c);
    (void)snprintf(against, sizeof against,
                   "a step of %.2f s without, in turn; 4 layers of BertBase, 32 x 128 tokens%s",
                   bench_median(seconds, n), from_copy ? "" : "; no memory for a copy");
    bench_print(from_copy ? "checkpoint.step" : "checkpoint.step.blocking", bench_median(ratios, n),
                "x", against);
}

int main(int argc, char **argv)
{
    static struct step step;
    struct store store;
    char folder[] = "/tmp/skyjob-bench-XXXXXX";
    char command[64];
    struct err err;

    (void)argc;
    step_setup(argv, 1);
    step_init(&step, &(struct step_case){
                         .preset = "BertBase", .layers = 4, .n_seqs = 32, .micro_batches = 4});
    step.plan.spec.checkpoint.keep = 1;
    if (!mkdtemp(folder)) {
        perror("bench_checkpoint: make a folder");
        return 1;
    }
    if (store_open(&store, folder, &err) != ERR_OK)
        fail(&err);
    measure(&step, &store, true);
    measure(&step, &store, false);
    step_deinit(&step);
    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) == 0 ? 0 : 1;
}
