/* Replicas whose nodes are lost, while no other node has room: the job goes on with fewer, and has
 * all of them again once there is room. A worker that is lost and can be replaced is not a case for
 * this (recovery.c). */
#include <stdio.h>
#include <string.h>

#include "control/context.h"

#define RETURN_HOLD_MS 30000 /* between two looks, and after the revision that had fewer */

bool missing_replicas(const struct plan *plan)
{
    return plan_n_replicas(plan) < plan->spec.replicas;
}

enum err_code missing_choose(struct context *c, const struct partition_request *request,
                             struct replicas *out, struct err *err)
{
    int wanted = c->spec.replicas;
    enum err_code rc = replicas_choose(request, wanted, out, err);
    struct partition_request fewer = *request;
    char text[STATUS_MESSAGE_BYTES];
    struct err other;

    /* The pods that are left have room for micro-batches as they are. */
    if (missing_are_allowed(c))
        fewer.job.micro_batches = c->seen->revision.plan.micro_batches;
    for (int n = wanted - 1; rc == ERR_NOT_FOUND && n >= 1 && missing_are_allowed(c); n--) {
        rc = replicas_choose(&fewer, n, out, &other);
        if (rc != ERR_OK)
            continue;
        (void)snprintf(text, sizeof text,
                       "The job goes on with %d of %d replicas until nodes have room for all: "
                       "%.300s.",
                       n, wanted, err->text);
        context_add_event(c, true, "ReplicaLost", text);
    }
    return rc;
}

bool missing_are_allowed(const struct context *c)
{
    return c->is_recovering && c->seen->has_revision;
}

bool decide_is_replica_due(const struct observed *seen)
{
    const struct status *s = &seen->status;
    int64_t age_ms = seen->now_ms - s->revision_ms;
    int64_t left_ms = s->rebalance.hold_ms - seen->now_ms;

    return seen->has_revision && seen->has_leader && !seen->is_deleting && !status_is_final(s) &&
           missing_replicas(&seen->revision.plan) && seen->revision.plan.revision == s->revision &&
           status_is(s, CONDITION_RUNNING) && seen->leader.state == PROGRESS_TRAINING &&
           (age_ms < 0 || age_ms >= RETURN_HOLD_MS) && (left_ms <= 0 || left_ms > RETURN_HOLD_MS);
}

bool missing_return(struct context *c)
{
    const struct plan *plan = &c->seen->revision.plan;
    struct status_rebalance *r = &c->out->status.rebalance;
    struct partition_request request;
    struct replicas found;
    char text[STATUS_MESSAGE_BYTES];
    struct nodes nodes;
    enum err_code rc;

    if (c->drain != DRAIN_NONE || !c->seen->nodes || !decide_is_replica_due(c->seen) ||
        !context_may_halt(c) || nodes_survey(c, &nodes, NULL) != ERR_OK)
        return false;
    rc = nodes.n_measuring > 0 ? ERR_AGAIN
                               : place_request(c, &plan->spec, &nodes.survey, &request, NULL);
    if (rc == ERR_OK) {
        r->hold_ms = c->seen->now_ms + RETURN_HOLD_MS;
        rc = replicas_choose(&request, plan->spec.replicas, &found, NULL);
    }
    survey_deinit(&nodes.survey);
    if (rc != ERR_OK)
        return false;
    (void)snprintf(text, sizeof text, "Nodes have room for all %d replicas of the job again.",
                   plan->spec.replicas);
    context_add_event(c, false, "ReplicaReturns", text);
    restart_next(c, &(struct next){.reason = "ReplicaReturns",
                                   .text = text,
                                   .keeps_workers = true,
                                   .is_expected = true});
    return true;
}
