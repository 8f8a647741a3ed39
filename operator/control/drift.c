/* Measured times of the stages against those that the plan predicted. */
#include <math.h>
#include <stdio.h>

#include "base/buf.h"
#include "control/context.h"

static int busy_percent(double stage_ms, int n_microbatches, double step_ms)
{
    double percent = step_ms > 0 ? 100 * n_microbatches * stage_ms / step_ms : 0;

    return percent >= 100 ? 100 : (int)(percent + 0.5);
}

static bool is_far(double measured_ms, double predicted_ms)
{
    double ratio = measured_ms / predicted_ms;

    return ratio > 1 + DRIFT_SHARE || ratio < 1 - DRIFT_SHARE;
}

/* Far from the plan, and by enough of the step that a better plan would gain something. */
static bool is_off(const struct status *s, const struct status_stage *stage, int n_microbatches)
{
    double step_ms = fmax(s->progress.step_ms, s->placement.summary.predicted_step_ms);
    double off_ms = n_microbatches * fabs(stage->measured_ms - stage->predicted_ms);

    return stage->measured_ms > 0 && stage->predicted_ms > 0 &&
           is_far(stage->measured_ms, stage->predicted_ms) && off_ms >= DRIFT_STEP_SHARE * step_ms;
}

/* How long the stage has been off is counted in time spent on steps: neither an evaluation nor a
 * clock that is set makes it longer. */
static bool has_lasted(const struct status_stage *s, const struct progress *now)
{
    int64_t n_steps = now->step - s->drift.since_step;

    return s->drift.since_step > 0 && n_steps >= DRIFT_STEPS &&
           (double)n_steps * now->step_ms >= DRIFT_MS;
}

/* Nodes are shared: what a job's own image computes is no measure of them. */
static bool is_own_image(const struct context *c)
{
    return c->seen->plan.spec.worker.image[0] != '\0';
}

/* The next plan does not count on what was measured there. */
static void doubt(struct context *c, int stage)
{
    const struct status_stage *s = &c->out->status.stages[stage];
    struct action *a;

    if (is_own_image(c))
        return;
    a = context_add(c, ACTION_DOUBT_NODE);
    (void)snprintf(a->node, sizeof a->node, "%s", s->node);
}

static void report(struct context *c, int stage)
{
    const struct status_stage *s = &c->out->status.stages[stage];
    bool is_slower = s->measured_ms > s->predicted_ms;
    char text[STATUS_MESSAGE_BYTES];

    (void)snprintf(text, sizeof text,
                   "Stage %d (%s) on node %.100s has taken %.1f ms per micro-batch for the last "
                   "%lld steps; the plan predicted %.1f ms. %s%s",
                   stage, s->units, s->node, s->measured_ms,
                   (long long)(c->out->status.progress.step - s->drift.since_step), s->predicted_ms,
                   is_slower ? "Another program may be using the node: the other stages wait."
                             : "The node may have been busy when it was measured, and can do more "
                               "than the plan gives it.",
                   is_own_image(c) ? "" : " The next plan measures the node again.");
    context_add_event(c, true, is_slower ? "StageSlower" : "StageFaster", text);
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
    int n_microbatches = c->seen->plan.micro_batches;

    for (int i = 0; i < status->n_stages; i++) {
        struct status_stage *s = &status->stages[i];

        s->busy_percent = busy_percent(s->measured_ms, n_microbatches, from->step_ms);
        if (!is_off(status, s, n_microbatches))
            s->drift.since_step = 0;
        else if (s->drift.since_step == 0)
            s->drift.since_step = from->step;
        if (s->drift.is_reported || !has_lasted(s, from))
            continue;
        s->drift.is_reported = true;
        report(c, i);
        doubt(c, i);
    }
}
