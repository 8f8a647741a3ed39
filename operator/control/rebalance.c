/* Units that move between the workers of a running job, or to new ones, as balance/rebalance.h
 * decides from what the leader measures. The cut is written to the status first, then the workers
 * are halted, and the next revision has it: an operator that starts in between goes on from there.
 * Where nodes join, their workers are started before any is halted. Where a worker needs more
 * memory than its pod has, a checkpoint is written before all are halted, and the worker then
 * counts as lost. If another one is lost meanwhile, the job recovers with the cut that it had. */
#include "balance/rebalance.h"

#include <stdio.h>
#include <string.h>

#include "control/context.h"

#define GROWING      "Growing"
#define GROW_SAVE_MS 600000 /* for the checkpoint */

static enum err_code survey(const struct context *c, struct survey *out, struct err *err)
{
    const struct survey_request request = context_survey(c, &c->seen->revision.plan.spec);

    return survey_make(&request, out, err);
}

static struct place place_of(const struct context *c, const struct survey *s, int stage)
{
    const struct plan_worker *w = &c->seen->revision.plan.workers[stage];
    struct place place = {
        .stage = stage, .n_units = w->n_units, .slot = w->slot, .pod = context_stage_pod(c, stage)};

    places_offer(c, s, stage, place.pod, &place.node);
    return place;
}

/* Is this worker started again with more memory, in the cut that was decided? */
static bool grows(const struct status_rebalance *r, int slot)
{
    for (int i = 0; i < r->n_next; i++)
        if (r->next[i].slot == slot)
            return r->next[i].grows;
    return false;
}

/* Is none of the workers lost, or to end, but for those that are started again with more memory? */
static bool is_whole(const struct context *c)
{
    const struct plan *plan = &c->seen->revision.plan;

    for (int i = 0; i < plan->n_workers; i++) {
        const struct plan_worker *w = &plan->workers[i];
        const struct seen_pod *pod = context_stage_pod(c, i);

        if (!pod && c->is_recovering && grows(&c->seen->status.rebalance, w->slot))
            continue;
        if (!pod || pod->phase != POD_RUNNING || pod->is_deleting || pod->is_disrupted ||
            pod->slot != w->slot || pod->incarnation != w->incarnation || pod->cpu_milli <= 0)
            return false;
    }
    return true;
}

/* --- nodes that could join --- */

/* While that is waited for, or once the next revision is to be made. */
static bool has_joining(const struct observed *seen)
{
    const struct status_rebalance *r = &seen->status.rebalance;

    return r->n_joining > 0 && seen->has_revision && r->revision == seen->status.revision &&
           plan_find(&seen->revision.plan, r->joining[0].slot) < 0;
}

static const struct status_joining *find_joining(const struct observed *seen, int slot)
{
    const struct status_rebalance *r = &seen->status.rebalance;

    for (int i = 0; i < r->n_joining; i++)
        if (r->joining[i].slot == slot)
            return &r->joining[i];
    return NULL;
}

bool rebalance_is_joining(const struct context *c, const struct seen_pod *pod)
{
    return has_joining(c->seen) && pod->role == POD_WORKER && !pod_is_over(pod) &&
           !pod->is_deleting && pod->incarnation == c->seen->revision.plan.revision &&
           revision_find(&c->seen->revision, pod->slot) < 0 && find_joining(c->seen, pod->slot);
}

bool rebalance_measures(const struct context *c)
{
    return context_has_started(c) && c->spec.placement.rebalance != SPEC_REBALANCE_OFF;
}

/* Add the node behind the workers, before slower ones; the slowest is dropped for it. */
static void insert_free(struct places *p, int n_workers, const struct node *node)
{
    int at = p->n;

    while (at > n_workers && p->list[at - 1].node.gflops < node->gflops)
        at--;
    if (at - n_workers >= REBALANCE_JOIN_MAX || at >= SPEC_STAGES_MAX)
        return;
    if (p->n - n_workers < REBALANCE_JOIN_MAX && p->n < SPEC_STAGES_MAX)
        p->n++;
    memmove(&p->list[at + 1], &p->list[at], (size_t)(p->n - 1 - at) * sizeof p->list[0]);
    p->list[at] = (struct place){.stage = -1, .node = *node};
}

/* The fastest measured nodes that have no worker. */
static void add_free_of(const struct context *c, const struct survey *s, struct places *p)
{
    int n_workers = p->n;

    for (int i = 0; i < s->n_candidates; i++) {
        struct node offer;

        if (!context_has_worker(c, s->candidates[i].name) && !s->entries[i]->is_assumed &&
            places_offer_free(c, s, i, &offer))
            insert_free(p, n_workers, &offer);
    }
}

/* Likewise; asks for probes of the others, where units may move without a user's request. */
static void add_free(struct context *c, struct places *p)
{
    struct nodes nodes;

    if (!rebalance_measures(c)) {
        add_free_of(c, p->survey, p);
        return;
    }
    if (nodes_survey(c, &nodes, NULL) != ERR_OK)
        return;
    (void)oneshot_drop_failed(c, POD_PROBE);
    add_free_of(c, &nodes.survey, p);
    survey_deinit(&nodes.survey);
}

/* A slot that is not the one of the worker that takes the place of another (control/drain.c). -1:
 * there is none. */
static int free_slot(const struct context *c, int n_taken, const int *taken)
{
    const struct revision *r = &c->seen->revision;

    for (int slot = 0; slot < SPEC_STAGES_MAX; slot++) {
        bool is_taken =
            revision_find(r, slot) >= 0 || revision_find(r, slot + SPEC_STAGES_MAX) >= 0;

        for (int i = 0; i < n_taken; i++)
            is_taken = is_taken || taken[i] == slot;
        if (!is_taken)
            return slot;
    }
    return -1;
}

/* The cut that was decided, with a slot for each worker that joins. */
static bool name_joining(const struct context *c, const struct places *p,
                         struct status_rebalance *r)
{
    int slots[REBALANCE_JOIN_MAX];

    r->n_joining = 0;
    for (int i = 0; i < r->n_next; i++) {
        const struct place *place;
        struct status_joining *to;

        if (r->next[i].slot < REBALANCE_SLOT_JOINS)
            continue;
        place = &p->list[c->seen->revision.plan.n_workers + r->next[i].slot - REBALANCE_SLOT_JOINS];
        to = &r->joining[r->n_joining];
        r->next[i].slot = to->slot = slots[r->n_joining] = free_slot(c, r->n_joining, slots);
        memcpy(to->node, place->node.name, sizeof to->node);
        to->cpu_milli = place->node.cpu_milli;
        to->memory_bytes = place->node.memory_bytes;
        if (to->slot < 0)
            return false;
        r->n_joining++;
    }
    return true;
}

/* --- workers that need more memory --- */

/* Until the checkpoint is written from which they are started again. */
static bool has_growing(const struct observed *seen)
{
    const struct status_rebalance *r = &seen->status.rebalance;

    return strcmp(r->decision, GROWING) == 0 && r->n_next > 0 && seen->has_revision &&
           r->revision == seen->status.revision;
}

/* The place of such a worker, once its pod is gone. False when its node has no room any more. */
static bool place_again(const struct context *c, const struct survey *s, int stage,
                        struct place *out)
{
    const struct plan_worker *w = &c->seen->revision.plan.workers[stage];
    struct node free;
    int i = 0;

    while (i < s->n_candidates && strcmp(s->candidates[i].name, w->node) != 0)
        i++;
    if (i == s->n_candidates || !places_offer_free(c, s, i, &free) || free.cpu_milli < w->cpu_milli)
        return false;
    *out = (struct place){.stage = stage, .slot = w->slot};
    places_share(&free, w->cpu_milli, free.memory_bytes, &out->node);
    return true;
}

/* Of each worker's node, what a new pod could have in place of the worker's. */
static void find_room(const struct context *c, const struct survey *s, const struct places *p,
                      int64_t *out)
{
    for (int i = 0; i < c->seen->revision.plan.n_workers; i++) {
        const struct seen_pod *pod = p->list[i].pod;

        out[i] = pod->memory_bytes;
        for (int k = 0; k < s->n_candidates; k++)
            if (strcmp(s->candidates[k].name, pod->node) == 0)
                out[i] += places_memory_left(c, &s->candidates[k]);
    }
}

/* --- */

/* By a user, and there is no answer yet. */
static bool is_asked(const struct observed *seen)
{
    return seen->asked[0] && strcmp(seen->asked, seen->status.rebalance.asked) != 0;
}

/* A cut that only another plan can change. */
static bool is_fixed(const struct plan *plan)
{
    return plan->spec.placement.strategy != SPEC_STRATEGY_OPTIMAL ||
           (plan->n_workers == 1 && plan->spec.placement.max_stages == 1);
}

bool decide_is_join_due(const struct observed *seen)
{
    return has_joining(seen) && !seen->is_deleting && !status_is_final(&seen->status);
}

bool decide_is_balance_due(const struct observed *seen)
{
    const struct status *s = &seen->status;
    const struct plan *plan = &seen->revision.plan;
    int64_t age_ms = seen->now_ms - s->progress.updated_ms;
    /* The status is written then anyway. */
    bool is_time = seen->spec && seen->spec->placement.rebalance != SPEC_REBALANCE_OFF &&
                   (age_ms < 0 || age_ms >= decide_progress_ms(seen));

    return (is_time || is_asked(seen)) && seen->has_revision && seen->has_leader &&
           !seen->is_deleting && !status_is_final(s) && !is_fixed(plan) &&
           plan->revision == s->revision && status_is(s, CONDITION_RUNNING) &&
           rebalance_is_due(plan, &seen->leader, is_asked(seen), &s->rebalance) &&
           !has_joining(seen) && !has_growing(seen);
}

/* The workers are halted for the cut in the status. */
static void go_on(struct context *c, bool is_back)
{
    struct status_rebalance *r = &c->out->status.rebalance;

    context_add_event(c, is_back, is_back ? "RebalanceReverted" : REBALANCE_REASON, r->message);
    restart_next(c, &(struct next){.reason = REBALANCE_REASON,
                                   .text = r->message,
                                   .keeps_workers = true,
                                   .is_expected = true});
    r->revision = c->out->status.revision;
}

/* The same for a cut whose workers or checkpoint had to be waited for: the hold begins now. */
static void move_prepared(struct context *c)
{
    struct status_rebalance *r = &c->out->status.rebalance;

    (void)snprintf(r->decision, sizeof r->decision, "Moved");
    r->hold_ms = c->seen->now_ms + REBALANCE_HOLD_MS;
    r->hold_step = c->seen->leader.step + REBALANCE_HOLD_STEPS;
    go_on(c, false);
}

static void follow_decision(struct context *c, const struct places *p,
                            const struct rebalance_decision *d)
{
    struct status_rebalance *r = &c->out->status.rebalance;

    if (d->kind == REBALANCE_JOIN) {
        struct status_rebalance joins = d->next;

        if (!name_joining(c, p, &joins))
            return;
        *r = joins;
        context_add_event(c, false, "NodesJoining", r->message);
        context_requeue(c, 0);
    } else {
        *r = d->next;
        if (d->kind == REBALANCE_GROW) {
            context_add_event(c, false, "WorkersGrowing", r->message);
            context_requeue(c, 0);
        }
    }
    if (is_asked(c->seen)) {
        memcpy(r->asked, c->seen->asked, sizeof r->asked);
        if (d->kind == REBALANCE_KEEP)
            context_add_event(c, false, "RebalanceKept", r->message);
    }
    if (d->kind == REBALANCE_SUGGEST && d->is_new)
        context_add_event(c, false, "RebalanceSuggested", r->message);
    if (d->kind == REBALANCE_MOVE || d->kind == REBALANCE_BACK)
        go_on(c, d->kind == REBALANCE_BACK);
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

static const struct seen_pod *joining_pod(const struct context *c, const struct status_joining *j)
{
    return decide_worker_pod(c->seen,
                             (struct revision_worker){j->slot, c->seen->revision.plan.revision});
}

static struct place place_of_joining(const struct context *c, const struct survey *s,
                                     const struct status_joining *j)
{
    struct place place = {.stage = -1, .slot = j->slot, .pod = joining_pod(c, j)};
    struct seen_pod planned = {.cpu_milli = j->cpu_milli, .memory_bytes = j->memory_bytes};

    memcpy(planned.node, j->node, sizeof planned.node);
    places_offer(c, s, 0, place.pod ? place.pod : &planned, &place.node);
    return place;
}

/* The cut in the status as places. False when its workers are not those that are there; one that
 * joins may have no pod yet. */
static bool list_next(const struct context *c, const struct survey *s, struct places *out)
{
    const struct status_rebalance *r = &c->seen->status.rebalance;
    const struct plan *last = &c->seen->revision.plan;
    int n_units = model_units(&last->spec.model);
    int first_unit = 0; /* of the stage; at the end of a replica the next one begins */

    *out = (struct places){.survey = s, .n = r->n_next};
    if (!is_whole(c))
        return false;
    for (int i = 0; i < r->n_next; i++) {
        const struct status_share *share = &r->next[i];
        const struct status_joining *joins = find_joining(c->seen, share->slot);
        int stage = plan_find(last, share->slot);
        struct place *place = &out->list[i];

        first_unit = first_unit == n_units ? 0 : first_unit;
        if ((stage < 0 && !joins) || share->n_units > n_units - first_unit ||
            (plan_n_replicas(last) > 1 && stage != i))
            return false;
        if (stage >= 0 && share->grows) {
            if (!place_again(c, s, stage, place))
                return false;
        } else {
            *place = stage >= 0 ? place_of(c, s, stage) : place_of_joining(c, s, joins);
        }
        place->n_units = share->n_units;
        place->micro_batches = share->micro_batches;
        if (share->predicted_ms > 0)
            places_pace(c, s, first_unit, share->n_units, share->predicted_ms, &place->node);
        first_unit += share->n_units;
    }
    return first_unit == n_units;
}

/* What keeps the workers that join from starting; NULL: nothing does. */
static const char *find_obstacle(const struct context *c)
{
    const struct status_rebalance *r = &c->seen->status.rebalance;

    for (int i = 0; i < r->n_joining; i++) {
        const struct seen_pod *pod = joining_pod(c, &r->joining[i]);

        if (places_is_name_taken(c, r->joining[i].slot))
            return "the name of its pod is taken";
        if (pod && (pod_is_over(pod) || pod->is_deleting || pod->is_disrupted))
            return "its pod has ended";
        if (pod && pod->is_unschedulable && c->seen->now_ms - pod->created_ms > DECIDE_PENDING_MS)
            return "its pod cannot be scheduled";
        if (pod && pod->phase == POD_PENDING && pod_start_left_ms(c, pod) < 0)
            return "its pod does not start";
    }
    if (c->seen->now_ms - r->time_ms > DECIDE_CREATING_MS + DECIDE_START_MS)
        return "it does not answer";
    return NULL;
}

/* The cut stays as it is, for a while. */
static void give_up(struct context *c, const char *what, const char *node, const char *why)
{
    struct status_rebalance *r = &c->out->status.rebalance;

    (void)snprintf(r->decision, sizeof r->decision, "Kept");
    (void)snprintf(r->message, sizeof r->message,
                   "The cut is kept: the worker on node %.100s cannot %s, since %s.", node, what,
                   why);
    context_add_event(c, true, "RebalanceKept", r->message);
    r->hold_ms = c->seen->now_ms + REBALANCE_BACK_HOLD * REBALANCE_HOLD_MS;
    r->hold_step = c->seen->leader.step;
    r->before_ms = 0;
    r->n_moves -= r->n_moves > 0;
    r->n_next = r->n_last = r->n_joining = 0;
}

static void give_up_joining(struct context *c, const char *why)
{
    give_up(c, "join", c->seen->status.rebalance.joining[0].node, why);
}

static void give_up_growing(struct context *c, const char *why)
{
    const struct plan *plan = &c->seen->revision.plan;
    int s = 0;

    while (s + 1 < plan->n_workers && !grows(&c->seen->status.rebalance, plan->workers[s].slot))
        s++;
    give_up(c, "get more memory", plan->workers[s].node, why);
}

/* Go on to the cut in the status; those that grow count as lost. */
static void start_again(struct context *c)
{
    struct status *s = &c->out->status;

    for (int i = 0; i < s->n_stages; i++) {
        if (!grows(&s->rebalance, c->seen->revision.plan.workers[i].slot))
            continue;
        s->stages[i].pod_uid[0] = '\0';
        s->stages[i].is_ready = false;
    }
    move_prepared(c);
}

/* Have a checkpoint written, by the time of the decision as its number. A job that saves its output
 * is left alone. */
static void grow(struct context *c)
{
    const struct status_rebalance *r = &c->seen->status.rebalance;
    const struct progress_ordered *done = &c->seen->leader.ordered;
    const struct seen_pod *leader = context_stage_pod(c, 0);
    struct action *a;

    if (c->drain != DRAIN_NONE) {
        give_up_growing(c, "another one leaves");
    } else if (done->order >= r->time_ms && done->step == 0) {
        give_up_growing(c, "no checkpoint could be written");
    } else if (c->seen->now_ms - r->time_ms > GROW_SAVE_MS) {
        give_up_growing(c, "the checkpoint takes too long");
    } else if (done->order < r->time_ms && leader && leader->accepted == c->number) {
        a = context_add(c, ACTION_ORDER_CHECKPOINT);
        a->order = r->time_ms;
        memcpy(a->name, leader->name, sizeof a->name);
    } else if (done->order >= r->time_ms && is_whole(c) &&
               c->seen->leader.state == PROGRESS_TRAINING) {
        start_again(c);
        return;
    }
    context_requeue(c, DECIDE_POLL_MS);
}

/* Start the workers that join; when all answer, go on to the cut in the status. A job that saves
 * its output is left alone. */
static void join(struct context *c)
{
    const char *obstacle = find_obstacle(c);
    bool have_joined = true;
    struct places p;
    struct survey s;

    if (obstacle || c->drain != DRAIN_NONE) {
        give_up_joining(c, obstacle ? obstacle : "another one leaves");
        return;
    }
    if (!c->seen->nodes || survey(c, &s, NULL) != ERR_OK)
        return;
    if (!list_next(c, &s, &p) || places_plan(c, &p, &c->out->revision.plan, NULL) != ERR_OK) {
        give_up_joining(c, "the others have changed");
        survey_deinit(&s);
        return;
    }
    for (int i = 0; i < p.n; i++) {
        bool is_new = p.list[i].stage < 0;

        if (is_new && !p.list[i].pod)
            places_create(c, &p.list[i], i);
        have_joined = have_joined && (!is_new || places_has_joined(p.list[i].pod));
    }
    survey_deinit(&s);
    if (have_joined && c->seen->leader.state == PROGRESS_TRAINING) {
        move_prepared(c);
        return;
    }
    c->out->ask_reports_ms = DECIDE_POLL_MS; /* until they answer */
    context_requeue(c, DECIDE_POLL_MS);
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
    int64_t room[SPEC_STAGES_MAX];
    struct survey s;
    struct places p;

    if (c->out->status.revision != c->number)
        return;
    if (has_joining(c->seen)) {
        join(c);
        return;
    }
    if (has_growing(c->seen)) {
        grow(c);
        return;
    }
    if (is_asked(c->seen) && is_fixed(in.plan))
        refuse(c);
    if (c->drain != DRAIN_NONE || !c->seen->nodes || !decide_is_balance_due(c->seen) ||
        !context_may_halt(c) || !is_whole(c) || survey(c, &s, NULL) != ERR_OK)
        return;
    p = (struct places){.survey = &s, .n = in.plan->n_workers};
    for (int i = 0; i < p.n; i++)
        p.list[i] = place_of(c, &s, i);
    if (plan_n_replicas(in.plan) == 1) { /* workers of replicas stay as they are */
        if (plan_saves(in.plan)) {
            find_room(c, &s, &p, room);
            in.room_bytes = room;
        }
        add_free(c, &p);
    }
    places_request(c, &p, &space, &in.request);
    if (rebalance_decide(&in, &decision, NULL) == ERR_OK)
        follow_decision(c, &p, &decision);
    survey_deinit(&s);
}

bool rebalance_plan(struct context *c)
{
    const struct status_rebalance *r = &c->seen->status.rebalance;
    const struct plan *last = &c->seen->revision.plan;
    bool is_possible = c->is_recovering && c->seen->has_revision && c->drain == DRAIN_NONE &&
                       r->revision == c->number && c->seen->status.revision == c->number &&
                       last->revision < c->number && c->seen->status.n_stages == last->n_workers;
    struct places p;
    struct survey s;

    if (r->n_next == 0)
        return false;
    is_possible = is_possible && survey(c, &s, NULL) == ERR_OK;
    if (is_possible) {
        is_possible = list_next(c, &s, &p);
        for (int i = 0; i < p.n && is_possible; i++)
            is_possible = p.list[i].pod || r->next[i].grows;
        is_possible = is_possible && places_plan(c, &p, &c->out->revision.plan, NULL) == ERR_OK;
        survey_deinit(&s);
    }
    if (!is_possible) { /* the job goes on with the cut that it had, which needs no judgement */
        struct status_rebalance *out = &c->out->status.rebalance;

        if (out->n_joining > 0 || strcmp(out->decision, GROWING) == 0)
            (void)snprintf(out->decision, sizeof out->decision, "Kept");
        out->n_next = out->n_last = out->n_joining = 0;
    }
    return is_possible;
}
