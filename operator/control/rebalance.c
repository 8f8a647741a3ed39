/* Units that move between the workers of a running job, as balance/rebalance.h decides from what
 * the leader measures. The cut is written to the status first, then the workers are halted, and the
 * next revision has it: an operator that starts in between goes on from there. If a worker is lost
 * meanwhile, the job recovers with the cut that it had. */
#include "balance/rebalance.h"

#include <stdio.h>
#include <string.h>

#include "control/context.h"
#include "control/manifest.h"

static enum err_code survey(const struct context *c, struct survey *out, struct err *err)
{
    const struct survey_request request = {.spec = &c->seen->revision.plan.spec,
                                           .namespace = c->seen->namespace,
                                           .image = manifest_image(c->seen, &c->spec),
                                           .created_ms = c->seen->created_ms,
                                           .now_ms = c->seen->now_ms,
                                           .nodes = c->seen->nodes,
                                           .n_nodes = c->seen->n_nodes};

    return survey_make(&request, out, err);
}

/* The workers as they are. False when one of them is lost, or is to end. */
static bool list_places(const struct context *c, const struct survey *s, struct places *out)
{
    const struct plan *plan = &c->seen->revision.plan;

    *out = (struct places){.survey = s, .n = plan->n_workers};
    for (int i = 0; i < plan->n_workers; i++) {
        const struct plan_worker *w = &plan->workers[i];
        const struct seen_pod *pod = context_stage_pod(c, i);

        if (!pod || pod->phase != POD_RUNNING || pod->is_deleting || pod->is_disrupted ||
            pod->slot != w->slot || pod->incarnation != w->incarnation || pod->cpu_milli <= 0)
            return false;
        out->list[i] =
            (struct place){.stage = i, .n_units = w->n_units, .slot = w->slot, .pod = pod};
        places_offer(c, s, i, pod, &out->list[i].node);
    }
    return true;
}

/* By a user, and there is no answer yet. */
static bool is_asked(const struct observed *seen)
{
    return seen->asked[0] && strcmp(seen->asked, seen->status.rebalance.asked) != 0;
}

/* A cut that only another plan can change. */
static bool is_fixed(const struct plan *plan)
{
    return plan->spec.placement.strategy != SPEC_STRATEGY_OPTIMAL || plan->n_workers == 1;
}

bool decide_is_balance_due(const struct observed *seen)
{
    const struct status *s = &seen->status;
    const struct plan *plan = &seen->revision.plan;
    int64_t age_ms = seen->now_ms - s->progress.updated_ms;
    /* The status is written then anyway. */
    bool is_time = seen->spec && seen->spec->placement.rebalance != SPEC_REBALANCE_OFF &&
                   (age_ms < 0 || age_ms >= DECIDE_PROGRESS_MS);

    return (is_time || is_asked(seen)) && seen->has_revision && seen->has_leader &&
           !seen->is_deleting && !status_is_final(s) && !is_fixed(plan) &&
           plan->revision == s->revision && status_is(s, CONDITION_RUNNING) &&
           rebalance_is_due(plan, &seen->leader, is_asked(seen), &s->rebalance);
}

static void follow_decision(struct context *c, const struct rebalance_decision *d)
{
    struct status_rebalance *r = &c->out->status.rebalance;

    *r = d->next;
    if (is_asked(c->seen)) {
        memcpy(r->asked, c->seen->asked, sizeof r->asked);
        if (d->kind == REBALANCE_KEEP)
            context_add_event(c, false, "RebalanceKept", r->message);
    }
    if (d->kind == REBALANCE_SUGGEST && d->is_new)
        context_add_event(c, false, "RebalanceSuggested", r->message);
    if (d->kind != REBALANCE_MOVE && d->kind != REBALANCE_BACK)
        return;
    context_add_event(c, d->kind == REBALANCE_BACK,
                      d->kind == REBALANCE_BACK ? "RebalanceReverted" : REBALANCE_REASON,
                      r->message);
    restart_next(c, &(struct next){.reason = REBALANCE_REASON,
                                   .text = r->message,
                                   .keeps_workers = true,
                                   .is_expected = true});
    r->revision = c->out->status.revision;
}

/* An answer to a user for whose job there is nothing to decide. */
static void refuse(struct context *c)
{
    struct status_rebalance *r = &c->out->status.rebalance;
    const struct plan *plan = &c->seen->revision.plan;

    (void)snprintf(r->decision, sizeof r->decision, "Kept");
    if (plan->n_workers == 1)
        (void)snprintf(r->message, sizeof r->message,
                       "The cut is kept: the job has only one stage.");
    else
        (void)snprintf(r->message, sizeof r->message,
                       "The cut is kept: with spec.placement.strategy %s it does not depend on "
                       "what is measured.",
                       spec_strategy_names[plan->spec.placement.strategy]);
    memcpy(r->asked, c->seen->asked, sizeof r->asked);
    r->time_ms = c->seen->now_ms - c->seen->now_ms % 1000;
    context_add_event(c, false, "RebalanceKept", r->message);
}

void rebalance_look(struct context *c)
{
    struct rebalance_input in = {.plan = &c->seen->revision.plan,
                                 .measured = &c->seen->leader,
                                 .mode = c->spec.placement.rebalance,
                                 .is_asked = is_asked(c->seen),
                                 .now_ms = c->seen->now_ms,
                                 .last = &c->seen->status.rebalance};
    struct rebalance_decision decision;
    struct places_space space;
    struct survey s;
    struct places p;

    if (is_asked(c->seen) && is_fixed(in.plan))
        refuse(c);
    if (c->drain != DRAIN_NONE || c->out->status.revision != c->number || !c->seen->nodes ||
        !decide_is_balance_due(c->seen) || survey(c, &s, NULL) != ERR_OK)
        return;
    if (list_places(c, &s, &p)) {
        places_request(c, &p, &space, &in.request);
        if (rebalance_decide(&in, &decision, NULL) == ERR_OK)
            follow_decision(c, &decision);
    }
    survey_deinit(&s);
}

/* The plan with the cut in the status. False when its workers are not those that are there. */
static bool plan_next(const struct context *c, const struct survey *s, struct plan *out)
{
    const struct status_rebalance *r = &c->seen->status.rebalance;
    int n_units = model_units(&c->seen->revision.plan.spec.model);
    int first_unit = 0;
    struct places p;

    if (!list_places(c, s, &p))
        return false;
    for (int i = 0; i < p.n; i++) {
        const struct status_share *share = &r->next[i];

        if (share->slot != p.list[i].slot || share->n_units > n_units - first_unit)
            return false;
        p.list[i].n_units = share->n_units;
        if (share->predicted_ms > 0)
            places_pace(c, s, first_unit, share->n_units, share->predicted_ms, &p.list[i].node);
        first_unit += share->n_units;
    }
    return first_unit == n_units && places_plan(c, &p, out, NULL) == ERR_OK;
}

bool rebalance_plan(struct context *c)
{
    const struct status_rebalance *r = &c->seen->status.rebalance;
    const struct plan *last = &c->seen->revision.plan;
    bool is_possible = c->is_recovering && c->seen->has_revision && c->drain == DRAIN_NONE &&
                       r->revision == c->number && c->seen->status.revision == c->number &&
                       r->n_next == last->n_workers && c->seen->status.n_stages == last->n_workers;
    struct survey s;

    if (r->n_next == 0)
        return false;
    is_possible = is_possible && survey(c, &s, NULL) == ERR_OK;
    if (is_possible) {
        is_possible = plan_next(c, &s, &c->out->revision.plan);
        survey_deinit(&s);
    }
    if (!is_possible) /* the job goes on with the cut that it had, which needs no judgement */
        c->out->status.rebalance.n_next = c->out->status.rebalance.n_last = 0;
    return is_possible;
}
