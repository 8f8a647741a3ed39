/* Measured times of the stages against those that the plan predicted. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "control/context.h"

static bool is_far(double measured_ms, double predicted_ms)
{
    double ratio = measured_ms / predicted_ms;

    return ratio > 1 + DRIFT_SHARE || ratio < 1 - DRIFT_SHARE;
}

static void report(struct context *c, int stage)
{
    const struct status_stage *s = &c->out->status.stages[stage];
    bool is_slower = s->measured_ms > s->plan.predicted_ms;
    /* Nodes are shared: what a job's own image computes is no measure of them. */
    bool is_own_image = c->seen->revision.plan.spec.worker.image[0] != '\0';
    char text[STATUS_MESSAGE_BYTES];

    (void)snprintf(text, sizeof text,
                   "Stage %d (%s) on node %.100s has taken %.1f ms per micro-batch for the last "
                   "%lld steps; the plan predicted %.1f ms. %s%s",
                   stage, s->plan.units, s->plan.node, s->measured_ms,
                   (long long)(c->out->status.progress.step - s->drift.since_step),
                   s->plan.predicted_ms,
                   is_slower ? "Another program may be using the node: the other stages wait."
                             : "The node may have been busy when it was measured, and can do more "
                               "than the plan gives it.",
                   is_own_image ? "" : " The next plan measures the node again.");
    context_add_event(c, true, is_slower ? "StageSlower" : "StageFaster", text);
    if (!is_own_image)
        memcpy(context_add(c, ACTION_INVALIDATE_PROBE)->node, s->plan.node, sizeof s->plan.node);
}

/* The first steps are not typical, so they are not compared. */
void drift_describe(const struct status *s, char *text, size_t bytes)
{
    double planned_ms = s->placement.summary.predicted_step_ms;
    double step_ms = s->progress.step_ms;

    if (s->progress.step < DRIFT_STEPS || planned_ms <= 0 || step_ms <= 0 ||
        !is_far(step_ms, planned_ms))
        return;
    text_add(text, bytes, " A step takes %.1f ms; the plan predicted %.1f ms.", step_ms,
             planned_ms);
}

void drift_watch(struct context *c, const struct progress *from)
{
    struct status *status = &c->out->status;
    const struct plan *plan = &c->seen->revision.plan;
    double step_ms = fmax(status->progress.step_ms, status->placement.summary.predicted_step_ms);

    for (int i = 0; i < status->n_stages; i++) {
        struct status_stage *s = &status->stages[i];
        int n_microbatches = plan_microbatches(plan, s->plan.replica, plan->micro_batches);
        double percent =
            from->step_ms > 0 ? 100 * n_microbatches * s->measured_ms / from->step_ms : 0;
        double off_ms = n_microbatches * fabs(s->measured_ms - s->plan.predicted_ms);
        /* Far from the plan, and by enough of the step that a better plan would gain something. */
        bool is_off = s->measured_ms > 0 && s->plan.predicted_ms > 0 &&
                      is_far(s->measured_ms, s->plan.predicted_ms) &&
                      off_ms >= DRIFT_STEP_SHARE * step_ms;
        int64_t n_steps;

        s->busy_percent = percent >= 100 ? 100 : (int)(percent + 0.5);
        if (!is_off)
            s->drift.since_step = 0;
        else if (s->drift.since_step == 0)
            s->drift.since_step = from->step;
        /* How long the stage has been off is counted in time spent on steps: neither an evaluation
         * nor a clock that is set makes it longer. */
        n_steps = s->drift.since_step > 0 ? from->step - s->drift.since_step : 0;
        if (s->drift.is_reported || n_steps < DRIFT_STEPS ||
            (double)n_steps * from->step_ms < DRIFT_MS)
            continue;
        s->drift.is_reported = true;
        report(c, i);
    }
}
