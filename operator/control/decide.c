#include "control/decide.h"

#include <stdio.h>
#include <string.h>

#include "control/context.h"

/* --- what the policies share --- */

struct action *context_add(struct context *c, enum action_kind kind)
{
    static struct action dropped; /* written, never read */
    struct action *a = &dropped;

    if (c->out->n_actions < DECIDE_ACTIONS_MAX)
        a = &c->out->actions[c->out->n_actions++];
    else
        context_requeue(c, 0);
    *a = (struct action){.kind = kind};
    return a;
}

void context_add_event(struct context *c, bool is_warning, const char *reason, const char *text)
{
    struct action *a = context_add(c, ACTION_EVENT);

    a->is_warning = is_warning;
    (void)snprintf(a->reason, sizeof a->reason, "%s", reason);
    (void)snprintf(a->text, sizeof a->text, "%s", text);
}

void context_requeue(struct context *c, int64_t ms)
{
    if (ms < 0)
        ms = 0;
    if (c->out->requeue_ms < 0 || ms < c->out->requeue_ms)
        c->out->requeue_ms = ms;
}

void context_set(struct context *c, enum news news, const struct condition_set *set)
{
    bool changed = status_set(&c->out->status, set, c->seen->now_ms);

    if (changed && news != NEWS_QUIET)
        context_add_event(c, news == NEWS_WARNING, set->reason, set->message);
}

void context_stall(struct context *c, const char *reason, const char *message)
{
    c->is_stalled = true;
    context_set(c, NEWS_WARNING,
                &(struct condition_set){CONDITION_STALLED, CONDITION_TRUE, reason, message});
}

void context_show(struct context *c, const char *state, const char *message)
{
    struct status *s = &c->out->status;

    (void)snprintf(s->state, sizeof s->state, "%s", state);
    (void)snprintf(s->message, sizeof s->message, "%s", message);
}

void context_add_policy(struct context *c)
{
    for (int i = 0; i < c->out->n_actions; i++)
        if (c->out->actions[i].kind == ACTION_CREATE_POLICY)
            return;
    if (c->seen->settings.has_network_policies)
        (void)context_add(c, ACTION_CREATE_POLICY);
}

void context_delete_pod(struct context *c, const struct seen_pod *pod)
{
    struct action *a;

    if (pod->is_deleting)
        return;
    a = context_add(c, ACTION_DELETE_POD);
    memcpy(a->name, pod->name, sizeof a->name);
    memcpy(a->uid, pod->uid, sizeof a->uid);
}

const struct seen_pod *context_stage_pod(const struct context *c, int stage)
{
    for (int i = 0; i < c->seen->n_pods; i++) {
        const struct seen_pod *p = &c->seen->pods[i];

        if (p->role == POD_STAGE && p->attempt == c->attempt && p->stage == stage)
            return p;
    }
    return NULL;
}

bool context_has_started(const struct context *c)
{
    return status_is(&c->seen->status, CONDITION_RUNNING) && c->seen->status.attempt == c->attempt;
}

/* --- the decision --- */

/* A job that is over keeps its ended pods, for their logs, and nothing else. */
static void tidy(struct context *c)
{
    for (int i = 0; i < c->seen->n_pods; i++) {
        const struct seen_pod *p = &c->seen->pods[i];

        if (p->role == POD_TAKEN)
            continue;
        if (p->role != POD_STAGE || p->phase == POD_PENDING || p->phase == POD_RUNNING)
            context_delete_pod(c, p);
    }
}

/* Returns whether there is a spec to go on with. */
static bool accept_spec(struct context *c)
{
    const char *problem = c->seen->spec_problem;
    struct err err = {0};

    if (c->seen->spec) {
        c->spec = *c->seen->spec;
        problem = model_check_given(c, &err) == ERR_OK ? NULL : err.text;
    }
    if (!problem) {
        context_set(c, NEWS_QUIET,
                    &(struct condition_set){CONDITION_ACCEPTED, CONDITION_TRUE, "SpecAccepted",
                                            "The spec is valid."});
        return true;
    }
    context_set(
        c, NEWS_WARNING,
        &(struct condition_set){CONDITION_ACCEPTED, CONDITION_FALSE, "InvalidSpec", problem});
    if (c->seen->has_plan && c->seen->plan.attempt == c->attempt) {
        c->spec = c->seen->plan.spec; /* what runs already is not stopped by an edit */
        return true;
    }
    context_show(c, "Invalid", problem);
    return false;
}

/* The status has it, but may have been emptied. */
static int current_attempt(const struct observed *seen)
{
    int attempt = seen->status.attempt > 1 ? seen->status.attempt : 1;

    for (int i = 0; i < seen->n_plans; i++)
        if (seen->plan_attempts[i] > attempt)
            attempt = seen->plan_attempts[i];
    for (int i = 0; i < seen->n_pods; i++)
        if (seen->pods[i].role == POD_STAGE && seen->pods[i].attempt > attempt)
            attempt = seen->pods[i].attempt;
    return attempt;
}

/* Every condition is there from the first visit on, so that `kubectl wait` has something to see. */
static void begin_conditions(struct context *c)
{
    static const struct condition_set first[] = {
        {CONDITION_PLACED, CONDITION_FALSE, "NotPlaced", "No nodes have been chosen yet."},
        {CONDITION_RUNNING, CONDITION_FALSE, "NotPlaced", "No nodes have been chosen yet."},
        {CONDITION_COMPLETE, CONDITION_FALSE, "NotFinished", "Training is not finished."},
        {CONDITION_FAILED, CONDITION_FALSE, "NotFailed", "The job has not failed."},
    };

    for (size_t i = 0; i < sizeof first / sizeof first[0]; i++)
        if (c->out->status.conditions[first[i].type].value == CONDITION_UNSET)
            context_set(c, NEWS_QUIET, &first[i]);
    if (c->out->status.state[0] == '\0')
        context_show(c, "Pending", "Waiting to be planned.");
}

static void drop_older_pods(struct context *c)
{
    for (int i = 0; i < c->seen->n_pods; i++)
        if (c->seen->pods[i].role == POD_STAGE && c->seen->pods[i].attempt < c->attempt)
            context_delete_pod(c, &c->seen->pods[i]);
}

/* Pods without a plan: it was deleted or is invalid. */
static bool has_lost_its_plan(const struct context *c)
{
    if (c->seen->has_plan && c->seen->plan.attempt == c->attempt)
        return false;
    for (int i = 0; i < c->seen->n_plans; i++)
        if (c->seen->plan_attempts[i] == c->attempt)
            return true; /* there, and cannot be read */
    for (int i = 0; i < c->seen->n_pods; i++)
        if (c->seen->pods[i].role == POD_STAGE && c->seen->pods[i].attempt == c->attempt)
            return true;
    return context_has_started(c);
}

/* What the API server refuses, again and again, is what the user should look at first. Training is
 * not disturbed by it: what fails then is only tidying up. */
static void show_problem(struct context *c)
{
    const struct seen_problem *p = &c->seen->problem;
    bool is_placed = status_is(&c->out->status, CONDITION_PLACED);
    char text[STATUS_MESSAGE_BYTES];

    if (p->n_in_a_row < DECIDE_PROBLEM_MIN || status_is(&c->out->status, CONDITION_RUNNING) ||
        status_is_final(&c->out->status))
        return;
    (void)snprintf(text, sizeof text, "%s. Retrying with growing pauses.", p->text);
    context_stall(c, p->code == ERR_CONFLICT ? "NameTaken" : "CannotCreate", text);
    context_show(c, is_placed ? "Starting" : "Waiting", text);
}

static void end_stall(struct context *c)
{
    if (!c->is_stalled)
        context_set(c, NEWS_QUIET,
                    &(struct condition_set){CONDITION_STALLED, CONDITION_FALSE, "NotStalled",
                                            "Nothing blocks the job."});
}

/* Workers that run hold a copy of their plan, so that its loss is no reason to disturb them. */
static void drive(struct context *c)
{
    if (context_has_started(c) && attempt_is_outdated(c))
        context_set(c, NEWS_NORMAL,
                    &(struct condition_set){
                        CONDITION_UP_TO_DATE, CONDITION_FALSE, "NextAttempt",
                        "spec.placement, worker or output was changed after training began: the "
                        "change takes effect when the next attempt starts."});
    else
        context_set(c, NEWS_QUIET,
                    &(struct condition_set){CONDITION_UP_TO_DATE, CONDITION_TRUE, "Planned",
                                            "The attempt was planned with the current spec."});
    attempt_drive(c);
    if (!c->seen->is_plan_lost || c->out->status.attempt != c->attempt ||
        status_is_final(&c->out->status))
        return;
    c->out->plan = c->seen->plan;
    (void)context_add(c, ACTION_CREATE_PLAN);
    context_add_event(c, true, "PlanRestored",
                      "The ConfigMap with the plan was deleted. It is created again.");
}

void decide(const struct observed *seen, struct decision *out)
{
    struct context c = {.seen = seen, .out = out};

    out->n_actions = 0;
    out->status = seen->status;
    out->ask_leader_ms = -1;
    out->requeue_ms = -1;
    out->unplaced = seen->unplaced;
    if (seen->is_deleting)
        return; /* everything that was made is owned by the job and goes with it */
    if (status_is_final(&seen->status)) {
        tidy(&c);
        return;
    }
    out->status.generation = seen->generation;
    begin_conditions(&c);
    c.attempt = current_attempt(seen);
    out->status.attempt = c.attempt;
    drop_older_pods(&c);
    if (!accept_spec(&c))
        return;
    if (has_lost_its_plan(&c))
        restart_next(&c, "PlanLost", "The ConfigMap with the plan is gone or cannot be read.", 0);
    else if (seen->has_plan && seen->plan.attempt == c.attempt)
        drive(&c);
    else
        place(&c);
    show_problem(&c);
    end_stall(&c);
}
