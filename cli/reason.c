#include "cli/reason.h"

#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "cli/show.h"

void reason_read(struct reason *r, const struct json *skyjob)
{
    *r = (struct reason){.n_stuck = 0};
    JSON_COPY(r->name, json_path(skyjob, "metadata.name"));
    JSON_COPY(r->uid, json_path(skyjob, "metadata.uid"));
    (void)snprintf(r->manager, sizeof r->manager, "%s",
                   json_string(json_path(skyjob, "spec.managedBy"), SPEC_MANAGER));
    r->is_deleting = json_path(skyjob, "metadata.deletionTimestamp") != NULL;
    status_read(json_get(skyjob, "status"), &r->status);
}

/* --- pods --- */

static const struct json *condition_of(const struct json *pod, const char *type)
{
    const struct json *c = json_first(json_path(pod, "status.conditions"));

    while (c && strcmp(json_text(c, "type"), type) != 0)
        c = json_next(c);
    return c;
}

static bool is_false(const struct json *condition)
{
    return strcmp(json_text(condition, "status"), "False") == 0;
}

static void take(struct reason_pod *p, const struct json *from)
{
    JSON_COPY(p->reason, json_get(from, "reason"));
    JSON_COPY(p->message, json_get(from, "message"));
}

/* Of a worker that has ended: its last report has the error. Other texts are for people. */
static void take_end(struct reason_pod *p, const struct json *ended)
{
    const char *message = json_text(ended, "message");
    struct progress report;

    JSON_COPY(p->reason, json_get(ended, "reason"));
    if (progress_parse(message, strlen(message), &report, NULL) == ERR_OK)
        message = report.error;
    (void)snprintf(p->message, sizeof p->message, "ended with code %d%s%s",
                   json_int(json_get(ended, "exitCode"), 0), message[0] ? ": " : "", message);
}

/* The most exact of what there is. False: it runs, or has done its work. */
static bool find_obstacle(const struct json *pod, struct reason_pod *p)
{
    const struct json *state =
        json_get(json_first(json_path(pod, "status.containerStatuses")), "state");
    const struct json *gate = json_first(json_path(pod, "spec.schedulingGates"));
    const struct json *scheduled = condition_of(pod, "PodScheduled");
    const struct json *ready = condition_of(pod, "Ready");
    bool runs = strcmp(p->phase, "Running") == 0;

    if (strcmp(p->phase, "Succeeded") == 0)
        return false;
    if (json_path(pod, "metadata.deletionTimestamp")) {
        (void)snprintf(p->reason, sizeof p->reason, "BeingDeleted");
    } else if (gate) {
        (void)snprintf(p->reason, sizeof p->reason, "SchedulingGated");
        (void)snprintf(p->message, sizeof p->message, "waits until the gate %s is removed",
                       json_text(gate, "name"));
    } else if (json_get(state, "terminated")) {
        take_end(p, json_get(state, "terminated"));
    } else if (json_get(state, "waiting")) {
        take(p, json_get(state, "waiting"));
    } else if (is_false(scheduled)) {
        take(p, scheduled);
    } else if (runs && is_false(ready)) {
        (void)snprintf(p->reason, sizeof p->reason, "NotReady");
    } else if (runs) {
        return false;
    } else {
        take(p, json_get(pod, "status"));
    }
    return true;
}

enum err_code reason_add_pod(void *reason, const struct json *pod, struct err *err)
{
    struct reason *r = reason;
    struct reason_pod p = {.name = ""};

    (void)err;
    JSON_COPY(p.name, json_path(pod, "metadata.name"));
    JSON_COPY(p.node, json_path(pod, "spec.nodeName"));
    JSON_COPY(p.phase, json_path(pod, "status.phase"));
    if (!find_obstacle(pod, &p))
        return ERR_OK;
    if (r->n_stuck < REASON_PODS_MAX)
        r->pods[r->n_stuck] = p;
    r->n_stuck++;
    return ERR_OK;
}

/* --- Events --- */

/* When it was seen last; old and new clients write different fields. */
static int64_t time_of(const struct json *event)
{
    static const char *const paths[] = {"series.lastObservedTime", "lastTimestamp", "eventTime",
                                        "metadata.creationTimestamp"};
    int64_t ms;

    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        if (clock_parse(json_text(event, paths[i]), &ms, NULL) == ERR_OK)
            return ms;
    return 0;
}

void reason_read_event(const struct json *event, struct reason_event *out)
{
    *out = (struct reason_event){.time_ms = time_of(event)};
    out->is_warning = strcmp(json_text(event, "type"), "Warning") == 0;
    out->count = json_int(json_get(event, "count"), 1);
    JSON_COPY(out->reason, json_get(event, "reason"));
    JSON_COPY(out->message, json_get(event, "message"));
}

enum err_code reason_add_event(void *reason, const struct json *event, struct err *err)
{
    struct reason *r = reason;
    struct reason_event e;
    int at = r->n_events;

    (void)err;
    reason_read_event(event, &e);
    while (at > 0 && r->events[at - 1].time_ms > e.time_ms)
        at--;
    if (r->n_events == REASON_EVENTS_MAX) { /* the oldest makes room, which may be this one */
        if (at == 0)
            return ERR_OK;
        at--;
        memmove(&r->events[0], &r->events[1], (size_t)at * sizeof e);
    } else {
        memmove(&r->events[at + 1], &r->events[at], (size_t)(r->n_events - at) * sizeof e);
        r->n_events++;
    }
    r->events[at] = e;
    return ERR_OK;
}

/* --- what is unusual --- */

static bool has_reason(const struct condition *c, const char *reason)
{
    return strcmp(c->reason, reason) == 0;
}

bool reason_is_unusual(const struct status *s, enum condition_type type)
{
    const struct condition *c = &s->conditions[type];

    switch (type) {
    case CONDITION_ACCEPTED:
    case CONDITION_PLACED:
    case CONDITION_UP_TO_DATE:
        return c->value != CONDITION_UNSET && c->value != CONDITION_TRUE;
    case CONDITION_RUNNING:
        return c->value != CONDITION_UNSET && c->value != CONDITION_TRUE &&
               !status_is(s, CONDITION_COMPLETE);
    case CONDITION_SUSPENDED: /* or it is about to be, or cannot be */
        return c->value != CONDITION_UNSET && !has_reason(c, "NotSuspended") &&
               !has_reason(c, "Resumed");
    case CONDITION_STALLED:
        return c->value != CONDITION_UNSET && c->value != CONDITION_FALSE;
    case CONDITION_FAILED:
        return c->value == CONDITION_TRUE || status_is_failing(s);
    case CONDITION_COMPLETE:
    case CONDITION_COUNT:
        break;
    }
    return false;
}

/* --- what to do next --- */

#define WAIT_TO_START "Wait: the workers are being started."
#define WAIT_TO_GO_ON "Wait: the job goes on by itself."
#define MEND_IMAGE                                                                                 \
    "Correct spec.worker.image or spec.worker.imagePullSecrets, or make the registry reachable "   \
    "from the node."
#define READ_LOGS "See why in the workers' logs: kubectl skyjob logs"

/* By the reason of a condition or of a pod. */
static const struct advice {
    const char *reason;
    const char *text;
    bool has_name; /* the job's name ends it */
} advices[] = {
    {"InvalidSpec", "Correct the field that is named.", false},
    {"InvalidConfiguration", "Delete the job, correct what is named, and create it again.", false},
    {"RestartLimit", READ_LOGS, true},
    {"OutputFailed", "Mend the output volume. What was trained is in its files .skyjob-*.", false},
    {"DeadlineExceeded", "Create it again with more spec.activeDeadlineSeconds.", false},
    {"StartDeadlineExceeded",
     "Create it again once what it waited for is there, or with more "
     "spec.failurePolicy.startDeadlineSeconds.",
     false},
    {"NameTaken", "Delete the object that is named, or create the job under another name.", false},
    {"CannotCreate", "Have allowed what the API server refuses: often a quota or a policy.", false},
    {"WorkersUnreachable",
     "Let the operator reach port 7070 of the job's pods: a NetworkPolicy or a firewall may be in "
     "the way.",
     false},
    {"NoProgress", READ_LOGS, true},
    {"Suspended", "To have it go on: kubectl skyjob resume", true},
    {"Suspending", "Wait for the checkpoint.", false},
    {"CannotSuspend", "To let it train to its end: kubectl skyjob resume", true},
    {"CheckpointFailed", READ_LOGS, true},
    {"InsufficientNodes",
     "Free or add nodes, or ask for less in spec.placement and spec.worker; kubectl skyjob nodes "
     "lists the nodes.",
     false},
    {"MeasuringNodes", "Wait: the job is planned once its nodes are measured.", false},
    {"ReadingModel", "Wait: the job is planned once the sizes of its model are read.", false},
    {"ModelNotRead", "Correct spec.model.from, or what is in that volume.", false},
    {"DataNotFound", "Create what is missing; the job then goes on by itself.", false},
    {"ClaimNotFound", "Create what is missing; the job then goes on by itself.", false},
    {"DataMissing", "Add what is missing to the data; the job then goes on by itself.", false},
    {"WaitingForPods", WAIT_TO_GO_ON, false},
    {"ImagePullFailed", MEND_IMAGE, false},
    {"ErrImagePull", MEND_IMAGE, false},
    {"ImagePullBackOff", MEND_IMAGE, false},
    {"InvalidImageName", MEND_IMAGE, false},
    {"CreateContainerConfigError", "Create the object that is named.", false},
    {"Queued", "Its queue has to admit it; kubectl describe workloads has the reason.", false},
    {"SchedulingGated", "Its queue has to admit it; kubectl describe workloads has the reason.",
     false},
    {"Unschedulable", "Wait: the job is planned again if its pod finds no room.", false},
    {"ContainerCreating", WAIT_TO_START, false},
    {"PodInitializing", WAIT_TO_START, false},
    {"StartingWorkers", WAIT_TO_START, false},
    {"StartTimeout", WAIT_TO_GO_ON, false},
    {"WorkerFailed", READ_LOGS, true},
    {"RevisionRefused", READ_LOGS, true},
    {"WorkerLost", WAIT_TO_GO_ON, false},
    {"ConnectionLost", WAIT_TO_GO_ON, false},
    {"WorkerOutOfMemory", WAIT_TO_GO_ON, false},
};

static const struct advice *advice_for(const char *reason)
{
    for (size_t i = 0; i < sizeof advices / sizeof advices[0]; i++)
        if (strcmp(advices[i].reason, reason) == 0)
            return &advices[i];
    return NULL;
}

static const struct advice *advice_of(const struct status *s, enum condition_type type)
{
    return reason_is_unusual(s, type) ? advice_for(s->conditions[type].reason) : NULL;
}

/* What stands in the way of most comes first. A pod is more exact than what follows from it. */
static const struct advice *choose(const struct reason *r)
{
    static const enum condition_type first[] = {CONDITION_FAILED, CONDITION_ACCEPTED,
                                                CONDITION_STALLED, CONDITION_SUSPENDED,
                                                CONDITION_PLACED};
    const struct advice *found = NULL;

    for (size_t i = 0; i < sizeof first / sizeof first[0] && !found; i++)
        found = advice_of(&r->status, first[i]);
    for (int i = 0; i < r->n_stuck && i < REASON_PODS_MAX && !found; i++)
        found = status_is_over(&r->status) ? NULL : advice_for(r->pods[i].reason);
    return found ? found : advice_of(&r->status, CONDITION_RUNNING);
}

const char *reason_next(const struct reason *r, char out[static REASON_TEXT_BYTES])
{
    const struct advice *found = choose(r);

    if (r->is_deleting)
        return "Wait: it goes once its pods have ended.";
    if (strcmp(r->manager, SPEC_MANAGER) != 0) {
        (void)snprintf(out, REASON_TEXT_BYTES, "The controller %s decides: spec.managedBy.",
                       r->manager);
        return out;
    }
    if (r->status.state[0] == '\0')
        return "Check that the operator runs: kubectl get pods -A -l "
               "app.kubernetes.io/component=operator";
    if (!found)
        return NULL;
    (void)snprintf(out, REASON_TEXT_BYTES, "%s%s%s", found->text, found->has_name ? " " : "",
                   found->has_name ? r->name : "");
    return out;
}

/* --- as text --- */

static void print_condition(const struct status *s, enum condition_type type, int64_t now_ms,
                            FILE *out)
{
    const struct condition *c = &s->conditions[type];
    char age[32];

    show_age(now_ms - c->changed_ms, age);
    (void)fprintf(out, "condition   %s is %s for %s: %s%s%s\n", condition_type_names[type],
                  condition_value_names[c->value], age, c->reason, c->message[0] ? ": " : "",
                  c->message);
}

static void print_pod(const struct reason_pod *p, FILE *out)
{
    (void)fprintf(out, "pod         %s", p->name);
    if (p->node[0])
        (void)fprintf(out, " on %s", p->node);
    (void)fprintf(out, " is %s: %s%s%s\n", p->phase[0] ? p->phase : "Pending",
                  p->reason[0] ? p->reason : "no reason reported", p->message[0] ? ": " : "",
                  p->message);
}

static void print_event(const struct reason_event *e, int64_t now_ms, FILE *out)
{
    char age[32];
    char count[32] = "";

    show_age(now_ms - e->time_ms, age);
    if (e->count > 1)
        (void)snprintf(count, sizeof count, " (%d times)", e->count);
    (void)fprintf(out, "event       %s ago%s: %s%s: %s\n", age, count,
                  e->is_warning ? "Warning " : "", e->reason, e->message);
}

void reason_print(const struct reason *r, int64_t now_ms, FILE *out)
{
    const struct status *s = &r->status;
    const char *next;
    char text[REASON_TEXT_BYTES];
    char state[STATUS_WORD_BYTES + STATUS_MESSAGE_BYTES];
    char left[32];

    if (s->state[0])
        (void)snprintf(state, sizeof state, "%s%s%s", s->state, s->message[0] ? ": " : "",
                       s->message);
    else
        show_status_text(s, state);
    (void)fprintf(out, "state       %s%s\n", r->is_deleting ? "being deleted; " : "", state);
    for (int t = 0; t < CONDITION_COUNT; t++)
        if (reason_is_unusual(s, (enum condition_type)t))
            print_condition(s, (enum condition_type)t, now_ms, out);
    if (s->next_revision_ms > now_ms) {
        show_duration((double)(s->next_revision_ms - now_ms) / 1000, left);
        (void)fprintf(out, "pause       %s until the next attempt\n", left);
    }
    for (int i = 0; i < r->n_stuck && i < REASON_PODS_MAX; i++)
        print_pod(&r->pods[i], out);
    if (r->n_stuck > REASON_PODS_MAX)
        (void)fprintf(out, "            and %d more\n", r->n_stuck - REASON_PODS_MAX);
    for (int i = 0; i < r->n_events; i++)
        print_event(&r->events[i], now_ms, out);
    next = reason_next(r, text);
    if (next)
        (void)fprintf(out, "next        %s\n", next);
}
