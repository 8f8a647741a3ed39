/* cli/cut.h - another cut of the model for a local run, from a step on: `--revise STEP=CUT`.
 *
 * Layer: cli. Threads: one.
 */
#ifndef CLI_CUT_H
#define CLI_CUT_H

#include "api/plan.h"

#define CUT_FORM "STEP=WORKER:UNITS,..."

struct cut {
    int64_t step;
    int n;
    struct {
        int slot;
        int n_units;
    } parts[SPEC_STAGES_MAX]; /* in the order of the pipeline */
};

/* Read "7=2:3,0:4": from step 7 on, worker 2 has the first 3 units and worker 0 the next 4, of
 * `n_workers` and `model`. ERR_INVALID. */
MUST_CHECK enum err_code cut_parse(const char *text, int n_workers, const struct model *model,
                                   struct cut *out, struct err *err);

/* Let the plan be this cut. The incarnations of `workers` are the caller's to fill in, and nothing
 * is predicted. */
void cut_apply(const struct cut *cut, const struct node *workers, struct plan *plan);

#endif
