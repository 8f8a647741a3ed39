/* Workers that leave: their pods are to end, as when a node is drained, and they train on for their
 * grace period. Another worker is started meanwhile, or the neighbours take over; the next revision
 * moves the units. Nothing is lost then, and nothing counts as a failure.
 *
 * All of it follows from what is observed: the new worker of a place has a slot that follows from
 * the old one's, and the number of the revision in force as its incarnation. */
#include <stdio.h>
#include <string.h>

#include "balance/partition.h"
#include "base/buf.h"
#include "control/context.h"

#define TRIES_MAX 8 /* nodes that are tried for a worker, the fastest first */

bool decide_is_leaving(const struct seen_pod *p)
{
    bool is_announced = p->is_disrupted || (p->report && p->report->is_leaving);

    if (p->role != POD_WORKER || p->phase != POD_RUNNING ||
        p->silent_ms >= DECIDE_LEAVING_SILENT_MS)
        return false;
    return p->is_deleting ? p->grace_ms >= DECIDE_LEAVING_GRACE_MS : is_announced;
}

bool drain_is_joining(const struct context *c, const struct seen_pod *pod)
{
    const struct revision *r = &c->seen->revision;
    bool is_new = c->seen->has_revision && pod->role == POD_WORKER && !pod_is_over(pod) &&
                  !pod->is_deleting && pod->incarnation == r->plan.revision &&
                  revision_find(r, pod->slot) < 0;
    bool is_wanted = false;

    for (int i = 0; i < c->seen->n_pods && is_new; i++) {
        const struct seen_pod *p = &c->seen->pods[i];

        is_wanted = is_wanted || (plan_find(&r->plan, p->slot) >= 0 && decide_is_leaving(p));
    }
    return is_wanted;
}

/* --- where the units go --- */

static bool is_used(const struct places *p, const char *node)
{
    for (int i = 0; i < p->n; i++)
        if (!p->list[i].is_open && strcmp(p->list[i].node.name, node) == 0)
            return true;
    return false;
}

/* Put the units of an open place on the fastest node that has room for them. */
static bool find_substitute(const struct context *c, struct places *p, int at, struct plan *plan)
{
    const struct survey *s = p->survey;
    struct places with = *p;
    double least_gflops = -1; /* of those that were tried */

    with.list[at].is_open = false;
    for (int tries = 0; tries < TRIES_MAX; tries++) {
        struct place *place = &with.list[at];
        bool found = false;

        for (int i = 0; i < s->n_candidates; i++) {
            struct node offer;

            if (is_used(p, s->candidates[i].name) || !places_offer_free(c, s, i, &offer) ||
                (least_gflops >= 0 && offer.gflops >= least_gflops) ||
                (found && offer.gflops <= place->node.gflops))
                continue;
            place->node = offer;
            found = true;
        }
        if (!found)
            return false;
        least_gflops = place->node.gflops;
        if (places_plan(c, &with, plan, NULL) == ERR_OK) {
            *p = with;
            return true;
        }
    }
    return false;
}

/* Let the neighbours of an open place take its units, in the way that makes the shortest step. A
 * first stage cannot be left out: only its worker can read the data. */
static bool share_units(const struct context *c, struct places *p, int at, struct plan *plan)
{
    const struct spec *spec = &c->seen->revision.plan.spec;
    int n_units = p->list[at].n_units;
    struct places best = {.n = 0};
    double best_ms = 0;

    if (at == 0 || p->n <= spec->placement.min_stages ||
        spec->placement.strategy == SPEC_STRATEGY_MANUAL)
        return false;
    for (int n_before = at + 1 < p->n ? 0 : n_units; n_before <= n_units; n_before++) {
        struct places with = *p;

        with.list[at - 1].n_units += n_before;
        if (at + 1 < p->n)
            with.list[at + 1].n_units += n_units - n_before;
        memmove(&with.list[at], &with.list[at + 1],
                (size_t)(with.n - at - 1) * sizeof with.list[0]);
        with.n--;
        if (places_plan(c, &with, plan, NULL) != ERR_OK ||
            (best.n > 0 && plan->summary.predicted_step_ms >= best_ms))
            continue;
        best = with;
        best_ms = plan->summary.predicted_step_ms;
    }
    if (best.n == 0)
        return false;
    *p = best;
    return true;
}

/* The other replicas do without the one that an open place belongs to: they have its units. It
 * comes back when a node has room (control/missing.c). */
static bool leave_out(const struct context *c, struct places *p, int at, struct plan *plan)
{
    const struct plan *last = &c->seen->revision.plan;
    int replica = last->workers[p->list[at].stage].replica;
    struct places with = {.survey = p->survey};

    for (int i = 0; i < p->n; i++)
        if (last->workers[p->list[i].stage].replica != replica)
            with.list[with.n++] = p->list[i];
    if (with.n == 0 || places_plan(c, &with, plan, NULL) != ERR_OK)
        return false;
    *p = with;
    return true;
}

/* --- the new workers --- */

/* The slot of the one that takes the place of this worker: a revision names a slot once. */
static int next_slot(const struct context *c, const bool *is_taken, int slot)
{
    const struct revision *r = &c->seen->revision;
    int next = (slot + SPEC_STAGES_MAX) % PLACES_SLOTS;

    for (int i = 0; i < PLACES_SLOTS && (revision_find(r, next) >= 0 || is_taken[next]); i++)
        next = (next + 1) % PLACES_SLOTS;
    return next;
}

/* The workers as they are, without those that leave, and with those that have joined. */
static enum drain_state list_places(const struct context *c, const struct survey *s,
                                    struct places *out)
{
    const struct plan *last = &c->seen->revision.plan;
    bool is_taken[PLACES_SLOTS] = {false};
    enum drain_state state = DRAIN_READY;

    *out = (struct places){.survey = s, .n = last->n_workers};
    for (int i = 0; i < last->n_workers; i++) {
        const struct seen_pod *pod = context_stage_pod(c, i);
        struct place *place = &out->list[i];

        place->stage = i;
        place->n_units = last->workers[i].n_units;
        if (plan_n_replicas(last) > 1)
            place->micro_batches = last->shares[last->workers[i].replica];
        place->slot = last->workers[i].slot;
        place->pod = pod;
        places_offer(c, s, i, pod, &place->node);
        if (!decide_is_leaving(pod))
            continue;
        place->slot = next_slot(c, is_taken, place->slot);
        is_taken[place->slot] = true;
        place->pod =
            decide_worker_pod(c->seen, (struct revision_worker){place->slot, last->revision});
        place->is_open = !place->pod;
        if (place->is_open && places_is_name_taken(c, place->slot))
            return DRAIN_IMPOSSIBLE;
        if (!place->is_open && !places_has_joined(place->pod))
            state = DRAIN_JOINING; /* until then its node may not be known */
        else if (!place->is_open)
            places_offer(c, s, i, place->pod, &place->node);
    }
    return state;
}

/* In one sentence for each worker that leaves. */
static void describe(struct context *c, const struct places *p)
{
    const struct plan *last = &c->seen->revision.plan;

    c->drain_text[0] = '\0';
    for (int i = 0; i < last->n_workers; i++) {
        const char *node = NULL;

        if (!decide_is_leaving(context_stage_pod(c, i)))
            continue;
        for (int k = 0; k < p->n; k++)
            if (p->list[k].stage == i)
                node = p->list[k].node.name;
        text_add(c->drain_text, sizeof c->drain_text,
                 "%sStage %d on node %.100s is being drained: its units go to %s%.100s.",
                 c->drain_text[0] ? " " : "", i, last->workers[i].node, node ? "node " : "",
                 node                        ? node
                 : plan_n_replicas(last) > 1 ? "the other replicas, which do without this one"
                                             : "its neighbours");
    }
}

/* Find a place for the units of all that leave. The plan is in c->out->revision then; while a job
 * trains, missing workers are created first. */
static enum drain_state find_places(struct context *c, const struct survey *s)
{
    bool has_replicas = plan_n_replicas(&c->seen->revision.plan) > 1;
    struct plan *plan = &c->out->revision.plan;
    struct places p;
    enum drain_state state = list_places(c, s, &p);

    for (int i = p.n - 1; i >= 0 && state == DRAIN_READY; i--) {
        if (i >= p.n || !p.list[i].is_open || find_substitute(c, &p, i, plan))
            continue;
        if (has_replicas ? !leave_out(c, &p, i, plan) : !share_units(c, &p, i, plan))
            state = DRAIN_IMPOSSIBLE;
    }
    if (state != DRAIN_READY)
        return state;
    if (places_plan(c, &p, plan, NULL) != ERR_OK)
        return DRAIN_IMPOSSIBLE;
    describe(c, &p);
    for (int i = 0; i < p.n && c->has_plan; i++) {
        if (p.list[i].pod)
            continue;
        places_create(c, &p.list[i], i);
        state = DRAIN_JOINING;
    }
    if (state == DRAIN_JOINING)
        context_add_event(c, false, DRAIN_REASON, c->drain_text);
    return state;
}

/* --- */

/* Are all workers of the last revision there, and those that stay not lost? */
static bool is_whole(const struct context *c)
{
    const struct plan *last = &c->seen->revision.plan;
    bool is_whole = c->seen->has_revision && context_n_stages(c) == last->n_workers;

    for (int i = 0; i < last->n_workers && is_whole; i++) {
        const struct seen_pod *p = context_stage_pod(c, i);

        is_whole = p && !pod_is_over(p) && p->slot == last->workers[i].slot &&
                   p->incarnation == last->workers[i].incarnation &&
                   (decide_is_leaving(p) || (!p->is_deleting && !p->is_disrupted));
    }
    return is_whole;
}

/* What others cannot take should be in a checkpoint before it is given up. */
static bool waits_for_checkpoint(struct context *c)
{
    bool waits = false;

    for (int i = 0; i < context_n_stages(c) && c->has_plan; i++) {
        const struct seen_pod *p = context_stage_pod(c, i);
        int64_t left_ms = p ? DECIDE_LEAVING_SAVE_MS - p->deleting_ms : 0;

        if (!p || !decide_is_leaving(p) || left_ms <= 0 || (p->report && p->report->has_saved))
            continue;
        context_requeue(c, left_ms);
        waits = plan_saves(&c->seen->revision.plan);
    }
    return waits;
}

void drain_look(struct context *c)
{
    const struct survey_request request = context_survey(c, &c->seen->revision.plan.spec);
    struct survey survey;
    bool has_any = false;

    for (int i = 0; i < context_n_stages(c); i++) {
        const struct seen_pod *p = context_stage_pod(c, i);

        has_any = has_any || (p && decide_is_leaving(p));
    }
    c->drain = has_any ? DRAIN_IMPOSSIBLE : DRAIN_NONE;
    if (!has_any || !is_whole(c) ||
        (c->seen->has_leader && c->seen->leader.state == PROGRESS_DONE)) /* the job is over */
        return;
    if (c->has_plan && !context_has_started(c)) {
        if (c->seen->revision.resume.step > 0) /* else there is nothing to lose */
            c->drain = DRAIN_WAITING;
        return;
    }
    if (survey_make(&request, &survey, NULL) != ERR_OK)
        return;
    c->drain = find_places(c, &survey);
    survey_deinit(&survey);
    if (c->drain == DRAIN_IMPOSSIBLE && waits_for_checkpoint(c))
        c->drain = DRAIN_WAITING;
}

bool drain_goes_on(const struct context *c, const struct seen_pod *pod)
{
    return c->drain != DRAIN_NONE && c->drain != DRAIN_IMPOSSIBLE && decide_is_leaving(pod);
}

bool drain_hands_over(struct context *c)
{
    bool is_told = false; /* when the new workers were created */

    if (c->drain != DRAIN_READY)
        return false;
    for (int i = 0; i < c->seen->n_pods; i++)
        is_told = is_told || drain_is_joining(c, &c->seen->pods[i]);
    if (!is_told)
        context_add_event(c, false, DRAIN_REASON, c->drain_text);
    restart_next(c, &(struct next){.reason = DRAIN_REASON,
                                   .text = c->drain_text,
                                   .keeps_workers = true,
                                   .is_expected = true});
    return true;
}
