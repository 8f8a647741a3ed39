#include "control/decide.h"

#include <stdio.h>
#include <string.h>

#include "control/context.h"
#include "control/manifest.h"

#define MAY_LOSE_MS 15000 /* of training; progress is looked at every 10 s */

const char *const pod_phase_names[] = {"Pending", "Running", "Succeeded", "Failed"};

/* --- what the policies share --- */

struct action *context_add(struct context *c, enum action_kind kind)
{
    static _Thread_local struct action dropped; /* written, never read */
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

static void change(struct context *c, enum event_kind event, const struct condition_set *set)
{
    if (status_set(&c->out->status, set, c->seen->now_ms) && event != EVENT_NONE)
        context_add_event(c, event == EVENT_WARNING, set->reason, set->message);
}

void context_true(struct context *c, enum condition_type type, enum event_kind event,
                  const char *reason, const char *message)
{
    change(c, event, &(struct condition_set){type, CONDITION_TRUE, reason, message});
}

void context_false(struct context *c, enum condition_type type, enum event_kind event,
                   const char *reason, const char *message)
{
    change(c, event, &(struct condition_set){type, CONDITION_FALSE, reason, message});
}

void context_show(struct context *c, const char *state, const char *message)
{
    struct status *s = &c->out->status;

    (void)snprintf(s->state, sizeof s->state, "%s", state);
    (void)snprintf(s->message, sizeof s->message, "%s", message);
}

void context_wait(struct context *c, const char *state, enum event_kind event, const char *reason,
                  const char *message)
{
    context_false(c, CONDITION_PLACED, event, reason, message);
    context_show(c, state, message);
}

void context_stall(struct context *c, const char *state, const char *reason, const char *message)
{
    c->is_stalled = true;
    context_true(c, CONDITION_STALLED, EVENT_WARNING, reason, message);
    context_show(c, state, message);
}

void context_add_once(struct context *c, enum action_kind kind)
{
    for (int i = 0; i < c->out->n_actions; i++)
        if (c->out->actions[i].kind == kind)
            return;
    (void)context_add(c, kind);
}

int context_memory_percent(const struct context *c, const struct spec *spec)
{
    int percent = c->seen->status.memory_percent > 100 ? c->seen->status.memory_percent : 100;

    return spec ? percent * (100 + spec->placement.headroom_percent) / 100 : percent;
}

void context_add_policy(struct context *c)
{
    if (c->seen->settings.has_network_policies)
        context_add_once(c, ACTION_CREATE_POLICY);
}

void context_delete_pod(struct context *c, const struct seen_pod *pod)
{
    struct action *a;

    if (pod->is_deleting && pod->grace_ms <= DECIDE_DELETE_GRACE_S * 1000)
        return;
    a = context_add(c, ACTION_DELETE_POD);
    memcpy(a->name, pod->name, sizeof a->name);
    memcpy(a->uid, pod->uid, sizeof a->uid);
}

const struct seen_pod *decide_worker_pod(const struct observed *seen, struct revision_worker id)
{
    for (int i = 0; i < seen->n_pods; i++) {
        const struct seen_pod *p = &seen->pods[i];

        if (p->role == POD_WORKER && p->slot == id.slot && p->incarnation == id.incarnation)
            return p;
    }
    return NULL;
}

int context_n_stages(const struct context *c)
{
    return c->is_recovering ? c->seen->status.n_stages : c->seen->revision.plan.n_workers;
}

const struct seen_pod *context_stage_pod(const struct context *c, int stage)
{
    const struct status *s = &c->seen->status;

    if (!c->is_recovering)
        return decide_worker_pod(c->seen, revision_worker(&c->seen->revision, stage));
    for (int i = 0; i < c->seen->n_pods && s->stages[stage].pod_uid[0]; i++)
        if (c->seen->pods[i].role == POD_WORKER &&
            strcmp(c->seen->pods[i].uid, s->stages[stage].pod_uid) == 0)
            return &c->seen->pods[i];
    return NULL;
}

bool context_may_halt(const struct context *c)
{
    const struct progress *leader = &c->seen->leader;
    double since_ms = (double)(leader->step - leader->saved.step) * leader->step_ms;

    if (leader->sync.protocol[0] == '\0' ||
        strcmp(leader->sync.protocol, spec_protocol_names[SPEC_PROTOCOL_BSP]) == 0)
        return true;
    return leader->saved.step > 0 && since_ms <= MAY_LOSE_MS;
}

const struct json *context_worker(const struct context *c)
{
    return json_get(c->seen->spec_json, "worker");
}

struct survey_request context_survey(const struct context *c, const struct spec *spec)
{
    const struct observed *seen = c->seen;

    return (struct survey_request){.spec = spec,
                                   .namespace = seen->namespace,
                                   .image = manifest_image(seen, &c->spec),
                                   .created_ms = seen->created_ms,
                                   .now_ms = seen->now_ms,
                                   .worker = context_worker(c),
                                   .nodes = seen->nodes,
                                   .n_nodes = seen->n_nodes};
}

bool context_has_worker(const struct context *c, const char *node)
{
    for (int i = 0; i < c->seen->n_pods; i++) {
        const struct seen_pod *p = &c->seen->pods[i];

        if (p->role == POD_WORKER && !pod_is_over(p) && strcmp(p->node, node) == 0)
            return true;
    }
    return false;
}

bool context_has_answering_node(const struct context *c, const struct seen_pod *p)
{
    for (int i = 0; i < c->seen->n_nodes; i++)
        if (strcmp(c->seen->nodes[i].name, p->node) == 0)
            return c->seen->nodes[i].excluded != EXCLUDED_NOT_READY;
    return false;
}

bool context_has_started(const struct context *c)
{
    return status_is(&c->seen->status, CONDITION_RUNNING) && c->seen->status.revision == c->number;
}

/* --- the decision --- */

/* A job that is over or suspended keeps its ended pods, for their logs, and nothing else; one that
 * is not keeps its workers and what is new. */
static void drop_pods(struct context *c, bool is_over)
{
    const struct observed *seen = c->seen;

    for (int i = 0; i < seen->n_pods; i++) {
        const struct seen_pod *p = &seen->pods[i];
        int at = c->has_plan ? revision_find(&seen->revision, p->slot) : -1;
        bool is_in_plan = p->role == POD_WORKER && at >= 0 &&
                          revision_worker(&seen->revision, at).incarnation == p->incarnation;
        bool is_older = p->role != POD_FOREIGN && p->incarnation > 0 &&
                        p->incarnation < c->number && !is_in_plan &&
                        (c->has_plan || !recovery_keeps(c, p));

        if (is_over ? p->role != POD_FOREIGN && !(p->role == POD_WORKER && pod_is_over(p))
                    : is_older)
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
        context_true(c, CONDITION_ACCEPTED, EVENT_NONE, "SpecAccepted", "The spec is valid.");
        return true;
    }
    context_false(c, CONDITION_ACCEPTED, EVENT_WARNING, "InvalidSpec", problem);
    if (c->has_plan || (c->is_recovering && c->seen->has_revision)) {
        c->spec = c->seen->revision.plan.spec; /* what runs already is not stopped by an edit */
        return true;
    }
    context_show(c, "Invalid", problem);
    return false;
}

/* The status has the current number, but may have been emptied. Is there anything of it? */
static bool find_number(struct context *c)
{
    const struct observed *seen = c->seen;
    bool has_any = false;

    c->number = seen->status.revision > 1 ? seen->status.revision : 1;
    for (int i = 0; i < seen->n_revisions + seen->n_pods; i++) {
        const struct seen_pod *p =
            i < seen->n_revisions ? NULL : &seen->pods[i - seen->n_revisions];
        int number = p ? p->incarnation : seen->revision_numbers[i];

        if (number < c->number || (p && p->role != POD_WORKER))
            continue;
        c->number = number;
        has_any = true;
    }
    return has_any;
}

/* Every condition is there from the first visit on, so that `kubectl wait` has something to see. */
static void begin_conditions(struct context *c)
{
    static const struct {
        enum condition_type type;
        const char *reason;
        const char *message;
    } first[] = {
        {CONDITION_PLACED, "NotPlaced", "No nodes have been chosen yet."},
        {CONDITION_RUNNING, "NotPlaced", "No nodes have been chosen yet."},
        {CONDITION_SUSPENDED, "NotSuspended", "The job is not suspended."},
        {CONDITION_COMPLETE, "NotFinished", "Training is not finished."},
        {CONDITION_FAILED, STATUS_NOT_FAILED, "The job has not failed."},
    };

    for (size_t i = 0; i < sizeof first / sizeof first[0]; i++)
        if (c->out->status.conditions[first[i].type].value == CONDITION_UNSET)
            context_false(c, first[i].type, EVENT_NONE, first[i].reason, first[i].message);
    if (c->out->status.state[0] == '\0')
        context_show(c, "Pending", "Waiting to be planned.");
}

/* What the API server refuses, again and again, is what the user should look at first. Training is
 * not disturbed by it: what fails then is only tidying up. */
static void show_problem(struct context *c)
{
    const struct seen_problem *p = &c->seen->problem;
    char text[STATUS_MESSAGE_BYTES];

    if (p->n_in_a_row < DECIDE_PROBLEM_MIN || status_is(&c->out->status, CONDITION_RUNNING) ||
        status_is_over(&c->out->status))
        return;
    (void)snprintf(text, sizeof text, "%s. Retrying with growing pauses.", p->text);
    context_stall(c, status_is(&c->out->status, CONDITION_PLACED) ? "Starting" : "Waiting",
                  p->code == ERR_CONFLICT ? "NameTaken" : "CannotCreate", text);
}

/* Workers that run hold a copy of their revision, so that its loss is no reason to disturb them. */
static void drive(struct context *c)
{
    if (context_has_started(c) && training_is_outdated(c) && !protocol_is_due(c))
        context_false(c, CONDITION_UP_TO_DATE, EVENT_NORMAL, "NextRevision",
                      "spec.replicas, sync, placement, worker, checkpoint or output was changed "
                      "after training began: the change takes effect with the next plan.");
    else
        context_true(c, CONDITION_UP_TO_DATE, EVENT_NONE, "Planned",
                     "The revision was planned with the current spec.");
    training_drive(c);
    if (!c->seen->is_revision_lost || c->out->status.revision != c->number ||
        status_is_over(&c->out->status))
        return;
    (void)context_add(c, ACTION_RESTORE_REVISION);
    context_add_event(c, true, "RevisionRestored",
                      "The ConfigMap with the revision was deleted. It is created again.");
}

/* The workers that are left wait for another one. */
static void begin_again(struct context *c)
{
    restart_next(
        c, &(struct next){.reason = "RevisionLost",
                          .text = "The ConfigMap with the revision is gone or cannot be read.",
                          .keeps_workers = recovery_is_due(c)});
}

/* In every state of the job: a worker that leaves and is not called takes its job for deleted
 * (worker/train/control.h). */
static void call_leaving(struct context *c)
{
    for (int i = 0; i < c->seen->n_pods; i++) {
        const struct seen_pod *p = &c->seen->pods[i];

        if (!decide_is_leaving(p))
            continue;
        if (c->out->ask_reports_ms < 0)
            c->out->ask_reports_ms = DECIDE_REPORTS_MS;
        context_requeue(c, DECIDE_REPORTS_MS);
    }
}

/* One step on from where the job is. `has_begun`: something of its number is there. */
static void advance(struct context *c, bool has_begun)
{
    if (c->has_plan)
        drive(c);
    else if (c->is_recovering)
        recovery_drive(c);
    else if (has_begun || context_has_started(c)) /* its revision was deleted or is invalid */
        begin_again(c);
    else
        place(c);
}

/* A job that has ended is deleted after a while (spec.ttlSecondsAfterFinished). */
static void expire(struct context *c)
{
    int64_t left_ms = c->seen->expires_ms - c->seen->now_ms;

    if (c->seen->expires_ms == 0)
        return;
    if (left_ms > 0)
        context_requeue(c, left_ms);
    else
        (void)context_add(c, ACTION_DELETE_JOB);
}

void decide(const struct observed *seen, struct decision *out)
{
    struct context c = {.seen = seen, .out = out};
    bool has_begun;

    out->n_actions = 0;
    out->status = seen->status;
    out->ask_leader_ms = -1;
    out->ask_reports_ms = -1;
    out->requeue_ms = -1;
    out->unplaced = seen->unplaced;
    if (seen->is_foreign)
        return;
    group_release(&c);
    if (seen->is_deleting) {
        drop_pods(&c, true); /* all else is owned by the job and goes with it */
        return;
    }
    if (status_is_final(&seen->status)) {
        drop_pods(&c, true);
        expire(&c);
        return;
    }
    if (status_is_failing(&seen->status)) {
        drop_pods(&c, true);
        restart_end(&c);
        return;
    }
    out->status.generation = seen->generation;
    begin_conditions(&c);
    has_begun = find_number(&c);
    c.has_plan = seen->has_revision && seen->revision.plan.revision == c.number;
    c.is_recovering = !c.has_plan && (training_is_finishing(&c) ||
                                      (!context_has_started(&c) && recovery_is_due(&c)));
    out->status.revision = c.number;
    drop_pods(&c, suspend_is_kept(seen));
    if (!accept_spec(&c))
        return;
    checkpoint_follow(&c);
    if (deadline_has_passed(&c))
        return;
    if (!suspend_follow(&c))
        advance(&c, has_begun);
    group_workers(&c);
    call_leaving(&c);
    show_problem(&c);
    if (!c.is_stalled)
        context_false(&c, CONDITION_STALLED, EVENT_NONE, "NotStalled", "Nothing blocks the job.");
}
