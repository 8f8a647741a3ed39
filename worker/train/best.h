/* train/best.h - which evaluation of a run is the best, and when the run ends for want of a better.
 *
 * The last stage judges each evaluation once; what it finds travels in EVAL_END, so all stages
 * agree. It is a part of the leader's progress (api/progress.h), which moves with the first unit
 * and lies in checkpoints: a run that goes back to one compares as it did then.
 * Layer: train (may use api base). Threads: any; pure.
 */
#ifndef TRAIN_BEST_H
#define TRAIN_BEST_H

#include "api/progress.h"

/* Does the run compare its evaluations at all? */
bool best_is_wanted(const struct spec *spec);

/* Count an evaluation with this value of the metric, after `step` steps. Returns true when it is
 * the best so far: *b is then this one. Of two equal ones the earlier stays; what is not finite
 * is never better, not even than nothing. */
bool best_take(struct progress_best *b, const struct spec *spec, double value, int64_t lineage,
               int64_t step);

/* Have there been enough evaluations without a better one to end the run? */
bool best_ends(const struct progress_best *b, const struct spec *spec);

#endif
