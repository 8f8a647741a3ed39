/* spec.suspend: a job gives its nodes back, and goes on from where it was when it is resumed. One
 * that trains writes a checkpoint first: where all workers share a store for them, nothing is lost.
 *
 * A suspended job has a number for its next revision and no workers, as one whose workers were all
 * lost. Those that are made when it is resumed find its checkpoint. */
#include <stdio.h>
#include <string.h>

#include "control/context.h"

#define CHECKPOINT_RETRY_MS 30000 /* after one that could not be written */

/* Is there training that suspending would lose, but for a checkpoint? */
static bool has_begun(const struct context *c)
{
    const struct resume *from = &c->seen->revision.resume;
    bool is_held = context_has_started(c) || c->is_recovering;

    for (int i = 0; c->has_plan && i < from->n_sources; i++)
        is_held = is_held || resume_is_worker(&from->sources[i]);
    return is_held;
}

/* Has the plan in force, or the one before, a store that outlives the pods? */
static bool has_store(const struct context *c)
{
    const struct spec *spec = c->seen->has_revision ? &c->seen->revision.plan.spec : &c->spec;

    return spec->checkpoint.is_on && !spec->checkpoint.is_peers;
}

/* Write it down. The pods go once that is so. */
static void suspend(struct context *c, const char *text)
{
    struct status *s = &c->out->status;
    struct status_progress progress = s->progress;
    bool has_number = c->has_plan || c->is_recovering;

    if (has_number)
        restart_next(c, &(struct next){.reason = "Suspended", .text = text, .is_expected = true});
    if (status_is_over(s))
        return; /* there are no more numbers */
    s->progress = progress;
    s->start_ms = 0;
    context_false(c, CONDITION_RUNNING, EVENT_NONE, "Suspended", text);
    context_false(c, CONDITION_PLACED, EVENT_NONE, "Suspended", text);
    context_true(c, CONDITION_SUSPENDED, EVENT_NORMAL, "Suspended", text);
    context_show(c, "Suspended", text);
}

/* The leader writes a checkpoint; once it has, the job is suspended. */
static void save(struct context *c)
{
    const struct progress_ordered *done = &c->seen->leader.ordered;
    struct status *s = &c->out->status;
    const char *what = "A checkpoint is written before the job is suspended.";
    bool has_answer = c->seen->has_leader && c->seen->leader.revision == c->number &&
                      done->order >= s->suspend_ms;
    char text[STATUS_MESSAGE_BYTES];

    if (has_answer && done->step > 0) {
        (void)snprintf(text, sizeof text,
                       "Suspended with a checkpoint of step %lld of %lld. Set spec.suspend to "
                       "false to go on from there.",
                       (long long)done->step, (long long)c->seen->leader.total_steps);
        suspend(c, text);
        return;
    }
    if (has_answer) {
        what = "The checkpoint before the suspension could not be written; the workers' logs tell "
               "why. Training goes on, and another one is tried.";
        if (c->seen->now_ms - s->suspend_ms >= CHECKPOINT_RETRY_MS)
            s->suspend_ms = c->seen->now_ms - c->seen->now_ms % 1000;
        context_requeue(c, CHECKPOINT_RETRY_MS);
    }
    context_false(c, CONDITION_SUSPENDED, has_answer ? EVENT_WARNING : EVENT_NONE,
                  has_answer ? "CheckpointFailed" : "Suspending", what);
    if (context_has_started(c))
        checkpoint_order(c, s->suspend_ms);
}

static void resume(struct context *c)
{
    struct status *s = &c->out->status;

    if (status_is(s, CONDITION_SUSPENDED)) {
        context_false(c, CONDITION_SUSPENDED, EVENT_NORMAL, "Resumed",
                      "spec.suspend is false: the job is planned again.");
        s->placement = (struct status_placement){.strategy = ""}; /* of the preview */
    } else if (s->suspend_ms > 0) {
        context_false(c, CONDITION_SUSPENDED, EVENT_NONE, "NotSuspended",
                      "The job is not suspended.");
    }
    s->suspend_ms = 0;
}

bool suspend_is_kept(const struct observed *seen)
{
    return status_is(&seen->status, CONDITION_SUSPENDED) && (!seen->spec || seen->spec->suspends);
}

bool suspend_follow(struct context *c)
{
    const struct condition *placed = &c->seen->status.conditions[CONDITION_PLACED];
    bool waits_in_vain = c->is_recovering && strcmp(placed->reason, "InsufficientNodes") == 0;
    struct status *s = &c->out->status;

    if (!c->seen->spec || !c->seen->spec->suspends) {
        resume(c);
        return false;
    }
    if (s->suspend_ms == 0)
        s->suspend_ms = c->seen->now_ms - c->seen->now_ms % 1000;
    if (suspend_is_kept(c->seen)) {
        place_preview(c);
        return true;
    }
    if (training_is_finishing(c))
        return false;
    if (!has_begun(c))
        suspend(c, "Suspended before training has begun. Set spec.suspend to false to start it.");
    else if (!has_store(c))
        context_false(
            c, CONDITION_SUSPENDED, EVENT_WARNING, "CannotSuspend",
            "The job trains on: its checkpoints, if any, are on the disks of its pods and "
            "would be lost with them. Jobs that are to be suspended need "
            "spec.checkpoint.store.persistentVolumeClaim or s3.");
    else if (waits_in_vain)
        suspend(c, "Suspended while it waited for nodes. Set spec.suspend to false to go on from "
                   "its newest checkpoint.");
    else
        save(c);
    return status_is(s, CONDITION_SUSPENDED) || status_is_over(s);
}
