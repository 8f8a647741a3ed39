/* What the workers measure against what the plan says. */
#include <stdio.h>

#include "control/parts.h"

static int busy_percent(double stage_ms, int n_microbatches, double step_ms)
{
    double percent = step_ms > 0 ? 100 * n_microbatches * stage_ms / step_ms : 0;

    return percent >= 100 ? 100 : (int)(percent + 0.5);
}

static bool is_off(const struct status_stage *s)
{
    double ratio = s->predicted_ms > 0 ? s->measured_ms / s->predicted_ms : 1;

    return s->measured_ms > 0 && (ratio > 1 + DRIFT_SHARE || ratio < 1 - DRIFT_SHARE);
}

static void tell(struct round *r, int stage)
{
    const struct status_stage *s = &r->out->status.stages[stage];
    bool is_slower = s->measured_ms > s->predicted_ms;
    char text[STATUS_MESSAGE_BYTES];

    (void)snprintf(text, sizeof text,
                   "Stage %d (%s) on node %.100s has taken %.1f ms a micro-batch for the last %d "
                   "steps or more; the plan says %.1f ms. %s",
                   stage, s->units, s->node, s->measured_ms, DRIFT_STEPS, s->predicted_ms,
                   is_slower ? "Something else may be using that node: the other stages wait."
                             : "The node may have been busy when it was measured: it could do more "
                               "than the plan gives it.");
    round_event(r, true, is_slower ? "StageSlower" : "StageFaster", text);
}

void drift_watch(struct round *r, const struct progress *from)
{
    struct status *status = &r->out->status;
    int n_microbatches = r->seen->plan.spec.training.micro_batches;

    for (int i = 0; i < status->n_stages; i++) {
        struct status_stage *s = &status->stages[i];

        s->busy_percent = busy_percent(s->measured_ms, n_microbatches, from->step_ms);
        if (!is_off(s))
            s->off_since_step = 0;
        else if (s->off_since_step == 0)
            s->off_since_step = from->step;
        if (s->off_since_step == 0 || from->step - s->off_since_step < DRIFT_STEPS ||
            s->is_off_told)
            continue;
        s->is_off_told = true;
        tell(r, i);
    }
}
