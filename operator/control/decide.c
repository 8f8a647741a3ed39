#include "control/decide.h"

#include <stdio.h>
#include <string.h>

#include "control/parts.h"

/* --- what the policies share --- */

struct action *round_want(struct round *r, enum action_kind kind)
{
    static struct action dropped; /* written, never read */
    struct action *a = &dropped;

    if (r->out->n_actions < DECIDE_ACTIONS_MAX)
        a = &r->out->actions[r->out->n_actions++];
    else
        round_again(r, 0);
    *a = (struct action){.kind = kind};
    return a;
}

void round_event(struct round *r, bool is_warning, const char *reason, const char *text)
{
    struct action *a = round_want(r, ACTION_EVENT);

    a->is_warning = is_warning;
    (void)snprintf(a->reason, sizeof a->reason, "%s", reason);
    (void)snprintf(a->text, sizeof a->text, "%s", text);
}

void round_again(struct round *r, int64_t ms)
{
    if (ms < 0)
        ms = 0;
    if (r->out->requeue_ms < 0 || ms < r->out->requeue_ms)
        r->out->requeue_ms = ms;
}

void round_set(struct round *r, enum round_news news, const struct condition_set *set)
{
    bool changed = status_set(&r->out->status, set, r->seen->now_ms);

    if (changed && news != NEWS_QUIET)
        round_event(r, news == NEWS_WARNING, set->reason, set->message);
}

void round_stall(struct round *r, const char *reason, const char *message)
{
    r->is_stalled = true;
    round_set(r, NEWS_WARNING,
              &(struct condition_set){CONDITION_STALLED, CONDITION_TRUE, reason, message});
}

void round_say(struct round *r, const char *state, const char *message)
{
    struct status *s = &r->out->status;

    (void)snprintf(s->state, sizeof s->state, "%s", state);
    (void)snprintf(s->message, sizeof s->message, "%s", message);
}

void round_want_policy(struct round *r)
{
    for (int i = 0; i < r->out->n_actions; i++)
        if (r->out->actions[i].kind == ACTION_CREATE_POLICY)
            return;
    if (r->seen->settings.has_network_policies)
        (void)round_want(r, ACTION_CREATE_POLICY);
}

void round_delete_pod(struct round *r, const struct seen_pod *pod)
{
    struct action *a;

    if (pod->is_deleting)
        return;
    a = round_want(r, ACTION_DELETE_POD);
    memcpy(a->name, pod->name, sizeof a->name);
    memcpy(a->uid, pod->uid, sizeof a->uid);
}

const struct seen_pod *round_stage_pod(const struct round *r, int stage)
{
    for (int i = 0; i < r->seen->n_pods; i++) {
        const struct seen_pod *p = &r->seen->pods[i];

        if (p->role == POD_STAGE && p->attempt == r->attempt && p->stage == stage)
            return p;
    }
    return NULL;
}

bool round_has_started(const struct round *r)
{
    return status_is(&r->seen->status, CONDITION_RUNNING) && r->seen->status.attempt == r->attempt;
}

/* --- the round --- */

/* A job that is over keeps its ended pods, for their logs, and nothing else. */
static void tidy(struct round *r)
{
    for (int i = 0; i < r->seen->n_pods; i++) {
        const struct seen_pod *p = &r->seen->pods[i];

        if (p->role == POD_TAKEN)
            continue;
        if (p->role != POD_STAGE || p->phase == POD_PENDING || p->phase == POD_RUNNING)
            round_delete_pod(r, p);
    }
}

/* Returns whether there is a spec to go on with. */
static bool accept_spec(struct round *r)
{
    struct err err = {0};

    if (spec_parse(r->seen->spec, &r->spec, &err) == ERR_OK) {
        round_set(r, NEWS_QUIET,
                  &(struct condition_set){CONDITION_ACCEPTED, CONDITION_TRUE, "SpecAccepted",
                                          "The spec is valid."});
        return true;
    }
    round_set(
        r, NEWS_WARNING,
        &(struct condition_set){CONDITION_ACCEPTED, CONDITION_FALSE, "InvalidSpec", err.text});
    if (r->seen->has_plan) {
        r->spec = r->seen->plan.spec; /* what runs already is not stopped by an edit */
        return true;
    }
    round_say(r, "Invalid", err.text);
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
static void begin_conditions(struct round *r)
{
    static const struct condition_set first[] = {
        {CONDITION_PLACED, CONDITION_FALSE, "NotPlaced", "No nodes have been chosen yet."},
        {CONDITION_RUNNING, CONDITION_FALSE, "NotPlaced", "No nodes have been chosen yet."},
        {CONDITION_COMPLETE, CONDITION_FALSE, "NotFinished", "Training is not finished."},
        {CONDITION_FAILED, CONDITION_FALSE, "NotFailed", "The job has not failed."},
    };

    for (size_t i = 0; i < sizeof first / sizeof first[0]; i++)
        if (r->out->status.conditions[first[i].type].value == CONDITION_UNSET)
            round_set(r, NEWS_QUIET, &first[i]);
    if (r->out->status.state[0] == '\0')
        round_say(r, "Pending", "Waiting to be planned.");
}

static void drop_older_pods(struct round *r)
{
    for (int i = 0; i < r->seen->n_pods; i++)
        if (r->seen->pods[i].role == POD_STAGE && r->seen->pods[i].attempt < r->attempt)
            round_delete_pod(r, &r->seen->pods[i]);
}

/* Pods without a plan: it was deleted or is invalid. */
static bool has_lost_its_plan(const struct round *r)
{
    if (r->seen->has_plan && r->seen->plan.attempt == r->attempt)
        return false;
    for (int i = 0; i < r->seen->n_plans; i++)
        if (r->seen->plan_attempts[i] == r->attempt)
            return true; /* there, and cannot be read */
    for (int i = 0; i < r->seen->n_pods; i++)
        if (r->seen->pods[i].role == POD_STAGE && r->seen->pods[i].attempt == r->attempt)
            return true;
    return round_has_started(r);
}

/* What the API server refuses, again and again, is what the user should look at first. Training is
 * not disturbed by it: what fails then is only tidying up. */
static void show_problem(struct round *r)
{
    const struct seen_problem *p = &r->seen->problem;
    bool is_placed = status_is(&r->out->status, CONDITION_PLACED);
    char text[STATUS_MESSAGE_BYTES];

    if (p->n_in_a_row < DECIDE_PROBLEM_MIN || status_is(&r->out->status, CONDITION_RUNNING) ||
        status_is_final(&r->out->status))
        return;
    (void)snprintf(text, sizeof text, "%s. Retrying with growing pauses.", p->text);
    round_stall(r, p->code == ERR_CONFLICT ? "NameTaken" : "CannotCreate", text);
    round_say(r, is_placed ? "Starting" : "Waiting", text);
}

static void end_stall(struct round *r)
{
    if (!r->is_stalled)
        round_set(r, NEWS_QUIET,
                  &(struct condition_set){CONDITION_STALLED, CONDITION_FALSE, "NotStalled",
                                          "Nothing blocks the job."});
}

/* Workers that run hold a copy of their plan, so that its loss is no reason to disturb them. */
static void drive(struct round *r)
{
    if (round_has_started(r) && attempt_is_outdated(r))
        round_set(r, NEWS_NORMAL,
                  &(struct condition_set){
                      CONDITION_UP_TO_DATE, CONDITION_FALSE, "NextAttempt",
                      "spec.placement, worker or output was changed after training began: the "
                      "change takes effect when the next attempt starts."});
    else
        round_set(r, NEWS_QUIET,
                  &(struct condition_set){CONDITION_UP_TO_DATE, CONDITION_TRUE, "Planned",
                                          "The attempt was planned with the current spec."});
    attempt_drive(r);
    if (!r->seen->is_plan_lost || r->out->status.attempt != r->attempt ||
        status_is_final(&r->out->status))
        return;
    r->out->plan = r->seen->plan;
    (void)round_want(r, ACTION_CREATE_PLAN);
    round_event(r, true, "PlanRestored",
                "The ConfigMap with the plan was deleted. It is created again.");
}

void decide(const struct observed *seen, struct decision *out)
{
    struct round r = {.seen = seen, .out = out};

    out->n_actions = 0;
    out->status = seen->status;
    out->ask_head_ms = -1;
    out->requeue_ms = -1;
    out->unplaced = seen->unplaced;
    if (seen->is_deleting)
        return; /* everything that was made is owned by the job and goes with it */
    if (status_is_final(&seen->status)) {
        tidy(&r);
        return;
    }
    out->status.generation = seen->generation;
    begin_conditions(&r);
    if (!accept_spec(&r))
        return;
    r.attempt = current_attempt(seen);
    out->status.attempt = r.attempt;
    drop_older_pods(&r);
    if (has_lost_its_plan(&r))
        restart_next(&r, "PlanLost", "The ConfigMap with the plan is gone or cannot be read.", 0);
    else if (seen->has_plan && seen->plan.attempt == r.attempt)
        drive(&r);
    else
        place(&r);
    show_problem(&r);
    end_stall(&r);
}
