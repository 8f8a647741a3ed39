/* pipe/schedule.h - the order of work in a step: 1F1B.
 *
 * A stage first runs as many forwards as there are stages behind it, then alternates one forward
 * and one backward, then drains the backwards (Narayanan et al. 2019, PipeDream, section 3.2; with
 * the flush at the step's end of PipeDream-2BW, so gradients are those of the whole batch). Every
 * stage backs the micro-batches in the order 0..M-1, which is why sums over micro-batches have the
 * same bits however the model is cut.
 * Layer: pipe (uses nothing). Threads: any; pure.
 */
#ifndef PIPE_SCHEDULE_H
#define PIPE_SCHEDULE_H

#include <stdbool.h>

struct schedule_op {
    bool is_backward;
    int microbatch;
};

/* How many micro-batches have their activations in memory at most: min(M, S - stage). */
int schedule_in_flight(int stage, int n_stages, int n_microbatches);

/* Operations of a step: 2 M. */
int schedule_length(int n_microbatches);

/* Operation number `i`, 0 <= i < schedule_length(). */
struct schedule_op schedule_op(int stage, int n_stages, int n_microbatches, int i);

#endif
