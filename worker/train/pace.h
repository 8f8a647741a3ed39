/* train/pace.h - the times of the last steps: their median, and how far they spread.
 *
 * A sample is the mean over whole steps that took PACE_SAMPLE_MS together. Under a quota a short
 * step either is stopped for a while or is not, so the median of single steps would be the time of
 * either kind; a sample spans several periods of the quota. Of the last PACE_WINDOW samples there
 * are the median and the median absolute deviation (MAD), neither of which a few outliers can move.
 * The first PACE_WARM_STEPS steps of a session touch its memory for the first time. They count only
 * until there are others.
 * Layer: train (may use base). Threads: one; pure.
 */
#ifndef TRAIN_PACE_H
#define TRAIN_PACE_H

#include <stdint.h>

#define PACE_WINDOW     20
#define PACE_SAMPLE_MS  500
#define PACE_WARM_STEPS 2
#define PACE_TIMES      2 /* of a step, which are sampled together */

struct pace {          /* zeroed at first; all fields private but n_samples */
    int64_t n_samples; /* so far; more than the window holds */
    int64_t n_steps;
    double samples[PACE_TIMES][PACE_WINDOW];
    double sums[PACE_TIMES]; /* of the steps of the next sample, or of the first steps ... */
    double sum_ms;           /* ... which took this long */
    int n_summed;
};

/* A step that took `elapsed_ms`, with its times. */
void pace_add(struct pace *p, double elapsed_ms, const double times_ms[static PACE_TIMES]);

struct pace_figures {
    double median_ms; /* 0 before the first step; before the first sample the mean of all steps */
    double mad_ms;    /* 0 with fewer than two samples */
};
/* Of time `i`, which is below PACE_TIMES. */
struct pace_figures pace_of(const struct pace *p, int i);

#endif
