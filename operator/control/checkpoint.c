/* Checkpoints on command: an annotation has the time at which one was asked for, as with
 * `kubectl rollout restart`, and the status has the last time that was dealt with. So each is
 * written once, whichever operator sees it; the leader may be ordered more often than that. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "control/context.h"

/* Write down what became of it, and tell in an Event, once. */
static void settle(struct context *c, const struct status_checkpoint *now, const char *reason)
{
    struct status_checkpoint *last = &c->out->status.checkpoint;

    if (now->request_ms == last->request_ms && strcmp(now->message, last->message) == 0)
        return;
    *last = *now;
    context_add_event(c, now->step == 0, reason, now->message);
}

void checkpoint_order(struct context *c, int64_t order)
{
    const struct seen_pod *leader = context_stage_pod(c, 0);
    struct action *a;

    if (!leader || leader->accepted != c->number)
        return;
    a = context_add(c, ACTION_ORDER_CHECKPOINT);
    a->order = order;
    memcpy(a->name, leader->name, sizeof a->name);
}

void checkpoint_follow(struct context *c)
{
    const struct observed *seen = c->seen;
    const struct progress_ordered *done = &seen->leader.ordered;
    struct status_checkpoint now = {.request_ms = 0};

    if (seen->checkpoint_time[0] == '\0')
        return;
    if (clock_parse(seen->checkpoint_time, &now.request_ms, NULL) != ERR_OK ||
        now.request_ms <= 0) {
        now.request_ms = 0;
        (void)snprintf(now.message, sizeof now.message,
                       "Annotation " ANNOTATION_CHECKPOINT ": must be the time at which a "
                       "checkpoint is asked for, such as 2026-11-21T08:00:00Z, found \"%.40s\".",
                       seen->checkpoint_time);
        settle(c, &now, "CheckpointImpossible");
        return;
    }
    now.request_ms -= now.request_ms % 1000; /* as the status has it */
    if (now.request_ms <= seen->status.checkpoint.request_ms)
        return;
    if (!(c->has_plan ? &seen->revision.plan.spec : &c->spec)->checkpoint.is_on) {
        (void)snprintf(now.message, sizeof now.message,
                       "No checkpoint was written: the job has no store for them. Set "
                       "spec.checkpoint.store.");
        settle(c, &now, "CheckpointImpossible");
    } else if (c->has_plan && !plan_saves(&seen->revision.plan)) {
        (void)snprintf(
            now.message, sizeof now.message,
            "No checkpoint was written: the job runs on one node, with which it would be "
            "lost. Set spec.checkpoint.store.persistentVolumeClaim or s3.");
        settle(c, &now, "CheckpointImpossible");
    } else if (seen->has_leader && done->order >= now.request_ms) { /* a later order serves too */
        now.step = done->step;
        if (now.step > 0)
            (void)snprintf(now.message, sizeof now.message,
                           "The checkpoint of step %lld is written.", (long long)now.step);
        else
            (void)snprintf(now.message, sizeof now.message,
                           "The checkpoint could not be written; the workers' logs tell why.");
        settle(c, &now, now.step > 0 ? "CheckpointWritten" : "CheckpointFailed");
    } else if (c->has_plan && context_has_started(c)) {
        checkpoint_order(c, now.request_ms);
    }
}
