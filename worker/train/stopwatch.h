/* train/stopwatch.h - how long a stage computes, in wall time and in CPU time.
 *
 * Under a quota the two differ. A stage that waits half of the time runs its micro-batches at the
 * full speed of a core and is throttled rarely or not at all: wall time shows what the core can do,
 * not what the quota allows. CPU time divided by the allowed share is the time without waiting, on
 * which plans are based. Where other processes take the core away, only wall time shows it.
 * Layer: train (may use base). Threads: one; the CPU time is the whole process's.
 */
#ifndef TRAIN_STOPWATCH_H
#define TRAIN_STOPWATCH_H

#include <stdint.h>

struct stopwatch {
    int64_t wall_ns; /* between starts and stops; zeroed by the owner */
    int64_t cpu_ns;
    int64_t wall_from_ns; /* clock_now_ns() at the last start ... */
    int64_t wall_to_ns;   /* ... and at the last stop */
    int64_t cpu_from_ns;
};

/* The time of a step on an undisturbed machine: the smallest mean over stretches of many quota
 * periods, so that quota saved up in one period hardly counts. */
#define STRETCH_MS 1500
struct stretch {
    double best_ms; /* 0: no stretch was long enough yet */
    double sum_ms;  /* of the stretch at hand */
    int n;
};

void stretch_add(struct stretch *s, double step_ms);

void stopwatch_start(struct stopwatch *w);
void stopwatch_stop(struct stopwatch *w);

/* The time on an undisturbed machine: CPU time with one thread; wall time with more, as they wait
 * for each other. */
double stopwatch_busy_ms(const struct stopwatch *w, int threads);

/* The longer of wall time and CPU time, the latter under a limit in thousandths of a core. */
double stopwatch_ms(double wall_ms, double cpu_ms, int allowed_milli);

#endif
