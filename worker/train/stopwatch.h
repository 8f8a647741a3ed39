/* train/stopwatch.h - how long a stage computes, on the clock of the wall and on that of its CPU.
 *
 * Under a quota the two tell different things. A stage that waits for others half of the time runs
 * its micro-batches at the full speed of a core and is stopped for the rest of a period of 100 ms,
 * or not at all: its wall clock says what the core can do, not what the node gives. The CPU time
 * that it used, divided by what it may use, is what it would take if it never waited, which is what
 * a plan is made with. Where others take the core away, the wall's clock is the one that knows.
 * Layer: train (may use base). Threads: one; the CPU time is the whole process's.
 */
#ifndef TRAIN_STOPWATCH_H
#define TRAIN_STOPWATCH_H

#include <stdint.h>

struct stopwatch {
    int64_t wall_ns; /* between starts and stops; zeroed by the owner */
    int64_t cpu_ns;
    int64_t wall_from_ns;
    int64_t cpu_from_ns;
};

/* What a step takes while nobody disturbs the machine: the least mean of stretches that are so many
 * periods of a quota long that what was saved up in one more hardly counts. */
#define STRETCH_MS 1500
struct stretch {
    double best_ms; /* 0: no stretch was long enough yet */
    double sum_ms;  /* of the stretch at hand */
    int n;
};

void stretch_add(struct stretch *s, double step_ms);

void stopwatch_start(struct stopwatch *w);
void stopwatch_stop(struct stopwatch *w);

/* What it took where nobody else uses the machine: CPU time with one thread; with more of them,
 * which wait for each other, the wall's. */
double stopwatch_busy_ms(const struct stopwatch *w, int threads);

/* The longer of wall time and of CPU time under a limit of so many thousandths of a core. */
double stopwatch_ms(double wall_ms, double cpu_ms, int allowed_milli);

#endif
