/* Jobs that take too long fail. Both deadlines run from the job's creation, or from its last
 * resumption: from when the condition Suspended last became False. */
#include <stdio.h>

#include "control/context.h"

/* Has the job not done by its deadline what it should? */
static bool is_late(struct context *c, int deadline_s)
{
    int64_t since_ms = c->out->status.conditions[CONDITION_SUSPENDED].changed_ms;
    int64_t left_ms = since_ms + (int64_t)deadline_s * 1000 - c->seen->now_ms;

    if (deadline_s > 0 && left_ms > 0)
        context_requeue(c, left_ms);
    return deadline_s > 0 && left_ms <= 0;
}

bool deadline_has_passed(struct context *c)
{
    const struct spec *spec = c->seen->spec ? c->seen->spec : &c->spec;
    char text[STATUS_MESSAGE_BYTES] = "";

    if (status_is(&c->out->status, CONDITION_SUSPENDED) || training_is_finishing(c))
        return false;
    if (is_late(c, spec->active_deadline_s)) {
        (void)snprintf(text, sizeof text,
                       "The job has not ended within %d seconds (spec.activeDeadlineSeconds).",
                       spec->active_deadline_s);
        restart_give_up(c, "DeadlineExceeded", text);
    } else if (c->out->status.start_ms == 0 && is_late(c, spec->start_deadline_s)) {
        (void)snprintf(text, sizeof text,
                       "Training has not begun within %d seconds "
                       "(spec.failurePolicy.startDeadlineSeconds). %.480s",
                       spec->start_deadline_s, c->seen->status.message);
        restart_give_up(c, "StartDeadlineExceeded", text);
    }
    return text[0] != '\0';
}
