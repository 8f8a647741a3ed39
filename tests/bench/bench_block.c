/* What a probe says that a block takes, against the same block in training: both in one process
 * that is held to 0.25 to 2 cores, and in turn, so that whatever else the machine does meets both.
 * A row is the middle one of some probes, each beside the training that took place during it.
 *
 * Training has its turn whenever the probe has computed for as long as the turn before took, and
 * the probe's clocks stand still meanwhile: the Makefile has the linker put our functions around
 * those that the probe calls. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "bench.h"
#include "cli/child.h"
#include "nn/threads.h"
#include "probe/microbenchmark.h"
#include "probe/probe.h"
#include "step.h"
#include "train/cpu.h"

#define PROBES    11
#define SMOKE_MS  400 /* of a probe, when that is all */
#define TURN_NS   200000000
#define TURNS_MAX 64   /* in a probe */
#define SHARE     0.05 /* that a probe may be wrong by */

static const struct step_case sample = {.preset = "BertTiny",
                                        .layers = 3,
                                        .n_seqs = 128,
                                        .micro_batches = 8,
                                        .lengths = STEP_MIX,
                                        .heads = 16,
                                        .ffn = 64};
/* With as many layers as make no turn long. */
static const struct step_case base = {
    .preset = "BertBase", .layers = 4, .n_seqs = 32, .micro_batches = 8, .lengths = STEP_MIX};

static const struct row {
    const char *name;
    int cpu_milli;
    const struct step_case *what;
} rows[] = {
    {"mnli.0.25", 250, &sample}, {"mnli.0.5", 500, &sample},  {"mnli.1", 1000, &sample},
    {"mnli.2", 2000, &sample},   {"BertBase.1", 1000, &base}, {"BertBase.2", 2000, &base},
};
#define N_ROWS ((int)(sizeof rows / sizeof rows[0]))

/* --- training, in the midst of a probe --- */

static struct {
    struct step step;
    int64_t turn_ns; /* that the turn before took */
    int64_t from_ns; /* on the probe's clock: when it ended */
    int64_t wall_ns; /* of all turns so far: the probe's clocks are behind by this */
    int64_t cpu_ns;
    int n;                      /* turns since the probe began */
    double block_ms[TURNS_MAX]; /* of each, on the clock that a probe looks at */
} training;

int64_t __real_clock_now_ms(void);
int64_t __real_clock_now_ns(void);
int64_t __real_clock_cpu_ns(void);
enum err_code __real_microbenchmark_round(struct microbenchmark *p, int n_seqs,
                                          struct microbenchmark_sum *sum, struct err *err);
int64_t __wrap_clock_now_ms(void);
int64_t __wrap_clock_now_ns(void);
int64_t __wrap_clock_cpu_ns(void);
enum err_code __wrap_microbenchmark_round(struct microbenchmark *p, int n_seqs,
                                          struct microbenchmark_sum *sum, struct err *err);

int64_t __wrap_clock_now_ms(void)
{
    return __real_clock_now_ms() - training.wall_ns / 1000000;
}

int64_t __wrap_clock_now_ns(void)
{
    return __real_clock_now_ns() - training.wall_ns;
}

int64_t __wrap_clock_cpu_ns(void)
{
    return __real_clock_cpu_ns() - training.cpu_ns;
}

static void train_a_turn(void)
{
    struct step *s = &training.step;
    struct stopwatch *kinds = s->stage.kinds;
    int64_t wall_ns = clock_now_ns();
    int64_t cpu_ns = clock_cpu_ns();
    int threads = threads_count();
    int n = 0;

    memset(kinds, 0, sizeof s->stage.kinds);
    do {
        step_advance(s);
        n++;
        training.turn_ns = clock_now_ns() - wall_ns;
    } while (training.turn_ns < TURN_NS);
    if (training.n < TURNS_MAX)
        training.block_ms[training.n++] = (stopwatch_busy_ms(&kinds[UNIT_ATTENTION], threads) +
                                           stopwatch_busy_ms(&kinds[UNIT_FFN], threads)) /
                                          n / s->plan.spec.model.layers;
    cpu_ns = clock_cpu_ns() - cpu_ns;
    training.wall_ns += training.turn_ns;
    training.cpu_ns += cpu_ns;
    training.from_ns = clock_now_ns();
}

enum err_code __wrap_microbenchmark_round(struct microbenchmark *p, int n_seqs,
                                          struct microbenchmark_sum *sum, struct err *err)
{
    if (clock_now_ns() - training.from_ns >= training.turn_ns)
        train_a_turn();
    return __real_microbenchmark_round(p, n_seqs, sum, err);
}

/* Of wall time, in the middle one of the turns: one thread's CPU time by the share of a core that
 * all turns got, since under a quota a single turn gets more or less than its share. */
static double trained_block_ms(void)
{
    double share = (double)training.cpu_ns / (double)training.wall_ns;

    return bench_median(training.block_ms, training.n) / (threads_count() == 1 ? share : 1);
}

/* --- a row, in a process that is held to its share --- */

static void die(const char *what)
{
    (void)fprintf(stderr, "bench_block: %s\n", what);
    exit(1);
}

static void take_sequences(const struct step *s, struct sequences *out)
{
    for (int m = 0; m < s->plan.micro_batches; m++) {
        const struct message_batch *b = &s->inputs[m];

        for (int i = 0; i < b->n_seqs; i++)
            out->tokens[out->n++] = b->starts[i + 1] - b->starts[i];
    }
}

static double probe_over_training(const struct sequences *sequences)
{
    struct step *s = &training.step;
    int ms = bench_is_smoke() ? SMOKE_MS : PROBE_MS;
    struct node_probe probe;
    struct err err;

    training.n = 0;
    if (probe_run(&s->plan.spec, sequences, ms, &probe, &err) != ERR_OK)
        die(err.text);
    return probe.block_ms / trained_block_ms();
}

static void run_row(const struct row *row)
{
    static struct sequences sequences; /* big; a process has one row */
    double ratios[PROBES];
    char name[64], against[128];
    int n_within = 0;

    step_init(&training.step, row->what);
    step_run(&training.step);
    take_sequences(&training.step, &sequences);
    for (int i = 0; i < bench_rounds(PROBES); i++) {
        ratios[i] = probe_over_training(&sequences);
        n_within += ratios[i] >= 1 - SHARE && ratios[i] <= 1 + SHARE;
    }
    (void)snprintf(name, sizeof name, "block.%s", row->name);
    (void)snprintf(against, sizeof against,
                   "the block in training, in turn; %d of %d probes within %.0f%%", n_within,
                   bench_rounds(PROBES), SHARE * 100);
    bench_print(name, bench_median(ratios, bench_rounds(PROBES)), "x", against);
    step_deinit(&training.step);
}

static void start_row(const struct row *row, char *program)
{
    const char *argv[] = {program, row->name, NULL};
    struct child_params params = {.argv = argv,
                                  .out_path = "/dev/stdout",
                                  .log_path = "/dev/stderr",
                                  .cpu_milli = row->cpu_milli};
    struct timespec pause = {.tv_nsec = 20000000};
    struct throttle *throttle;
    struct child child;
    struct err err;

    if (throttle_new(&throttle, &err) != ERR_OK ||
        child_start(&child, &params, throttle, &err) != ERR_OK)
        die(err.text);
    while (child_poll(&child, 1, throttle) > 0)
        (void)nanosleep(&pause, NULL);
    throttle_free(throttle);
    if (child.exit_code != 0)
        die("a row failed");
}

/* With a row's name, that row under the limit it was started with; else all that fit. */
int main(int argc, char **argv)
{
    if (argc > 1)
        step_setup(argv, cpu_threads());
    for (int i = 0; i < N_ROWS; i++) {
        if (argc > 1 && strcmp(argv[1], rows[i].name) == 0)
            run_row(&rows[i]);
        if (argc == 1 && rows[i].cpu_milli <= cpu_allowed_milli())
            start_row(&rows[i], argv[0]);
    }
    return 0;
}
