/* From a plan to connected workers, and to their end. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "control/context.h"

static void set_running(struct context *c, enum condition_value value, enum news news,
                        const char *reason, const char *message)
{
    context_set(c, news, &(struct condition_set){CONDITION_RUNNING, value, reason, message});
}

/* --- the plan in the status --- */

static void show_stage(struct context *c, int stage)
{
    static const char *const phases[] = {"Pending", "Running", "Succeeded", "Failed"};
    const struct plan *plan = &c->seen->plan;
    const struct plan_stage *from = &plan->stages[stage];
    const struct seen_pod *pod = context_stage_pod(c, stage);
    struct status_stage *to = &c->out->status.stages[stage];

    to->stage = stage;
    to->first_unit = from->first_unit;
    to->n_units = from->n_units;
    names_stage_pod(c->seen->name, stage, c->attempt, to->pod);
    memcpy(to->node, from->node, sizeof to->node);
    memcpy(to->units, from->units, sizeof to->units);
    to->predicted_ms = from->predicted_ms;
    to->is_ready = pod && pod->is_ready && pod->phase == POD_RUNNING;
    if (pod)
        memcpy(to->pod_uid, pod->uid, sizeof to->pod_uid);
    if (pod)
        (void)snprintf(to->state, sizeof to->state, "%s", phases[pod->phase]);
    else if (strcmp(to->state, "Succeeded") != 0) /* an ended pod may be cleared away */
        (void)snprintf(to->state, sizeof to->state, "Pending");
}

static void show_plan(struct context *c)
{
    const struct plan *plan = &c->seen->plan;
    struct status *s = &c->out->status;
    struct status_placement *to = &s->placement;

    s->next_attempt_ms = 0;
    s->n_stages = plan->n_stages;
    for (int i = 0; i < plan->n_stages; i++)
        show_stage(c, i);
    (void)snprintf(to->strategy, sizeof to->strategy, "%s",
                   spec_strategy_name(plan->spec.placement.strategy));
    to->nodes[0] = '\0';
    for (int i = 0; i < plan->n_stages; i++)
        text_add(to->nodes, sizeof to->nodes, "%s%s", i ? "," : "", plan->stages[i].node);
    to->micro_batches = plan->micro_batches;
    to->summary = plan->summary;
    context_set(c, NEWS_NORMAL,
                &(struct condition_set){CONDITION_PLACED, CONDITION_TRUE, "PlanMade",
                                        plan->summary.explanation});
}

/* Probes and the reader of the model are done, and plans of older attempts are not needed any more.
 */
static void drop_leftovers(struct context *c)
{
    for (int i = 0; i < c->seen->n_pods; i++) {
        const struct seen_pod *p = &c->seen->pods[i];

        if (p->role == POD_PROBE || p->role == POD_MODEL ||
            (p->role == POD_CLAIMED && p->attempt == 0))
            context_delete_pod(c, p);
    }
    for (int i = 0; i < c->seen->n_plans; i++) {
        struct action *a;

        if (c->seen->plan_attempts[i] >= c->attempt)
            continue;
        a = context_add(c, ACTION_DELETE_PLAN);
        a->attempt = c->seen->plan_attempts[i];
        memcpy(a->uid, c->seen->plan_uids[i], sizeof a->uid);
    }
}

/* --- before training --- */

bool attempt_is_outdated(const struct context *c)
{
    return !spec_same_attempt(&c->spec, &c->seen->plan.spec);
}

bool attempt_image_problem(const struct context *c, const struct seen_pod *pod,
                           char out[static OBSERVED_TEXT_BYTES])
{
    static const char *const reasons[] = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName",
                                          "ErrImageNeverPull", "ImageInspectError"};

    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        if (strcmp(pod->reason, reasons[i]) != 0)
            continue;
        (void)snprintf(out, OBSERVED_TEXT_BYTES,
                       "Node %.80s cannot pull the workers' image: check %s and that its registry "
                       "can be reached. The node keeps trying.",
                       pod->node,
                       c->spec.worker.image[0] ? "spec.worker.image" : "the operator's default");
        return true;
    }
    return false;
}

bool attempt_start_problem(const struct seen_pod *pod, char *out, size_t bytes)
{
    if (pod->phase != POD_PENDING)
        return false;
    if (pod->is_unschedulable) {
        (void)snprintf(out, bytes, "Pod %s cannot be scheduled: %s", pod->name, pod->message);
        return true;
    }
    if (pod->message[0] == '\0' &&
        (pod->reason[0] == '\0' || strcmp(pod->reason, "ContainerCreating") == 0 ||
         strcmp(pod->reason, "PodInitializing") == 0))
        return false;
    (void)snprintf(out, bytes, "Pod %s cannot start: %s: %s", pod->name, pod->reason, pod->message);
    return true;
}

int64_t attempt_start_left_ms(const struct context *c, const struct seen_pod *pod)
{
    char text[OBSERVED_TEXT_BYTES];
    bool has_problem = attempt_start_problem(pod, text, sizeof text);

    return pod->created_ms + (has_problem ? DECIDE_START_MS : DECIDE_CREATING_MS) - c->seen->now_ms;
}

static void create_missing(struct context *c)
{
    for (int s = 0; s < c->seen->plan.n_stages; s++) {
        struct action *a;

        if (context_stage_pod(c, s))
            continue;
        context_add_policy(c);
        a = context_add(c, ACTION_CREATE_STAGE_POD);
        a->stage = s;
        a->attempt = c->attempt;
        names_stage_pod(c->seen->name, s, c->attempt, a->name);
    }
}

/* Why a volume is not mounted is not in the pod's status but in the kubelet's Events. */
void attempt_request_events(struct context *c, const struct seen_pod *p)
{
    int64_t age_ms = c->seen->now_ms - p->created_ms;
    int64_t read_ms = c->seen->now_ms - p->events_ms;
    struct action *a;

    if (p->is_unschedulable || p->node[0] == '\0' || (p->message[0] && p->events_ms == 0))
        return;
    if (age_ms < DECIDE_EVENTS_MS) {
        context_requeue(c, DECIDE_EVENTS_MS - age_ms);
        return;
    }
    if (p->events_ms > 0 && read_ms >= 0 && read_ms < DECIDE_EVENTS_MS) {
        context_requeue(c, DECIDE_EVENTS_MS - read_ms);
        return;
    }
    a = context_add(c, ACTION_READ_EVENTS);
    memcpy(a->name, p->name, sizeof a->name);
    memcpy(a->uid, p->uid, sizeof a->uid);
}

/* Why the first pod that is not running has not started, as its status or Events report it. */
static void show_starting(struct context *c, int n_running)
{
    char text[STATUS_MESSAGE_BYTES];
    char image[OBSERVED_TEXT_BYTES];
    int n = c->seen->plan.n_stages;

    (void)snprintf(text, sizeof text, "%d of %d workers are running.", n_running, n);
    for (int s = 0; s < n; s++) {
        const struct seen_pod *p = context_stage_pod(c, s);
        int64_t age_ms = p ? c->seen->now_ms - p->created_ms : 0;

        if (!p || p->phase != POD_PENDING)
            continue;
        attempt_request_events(c, p);
        if (attempt_image_problem(c, p, image)) {
            context_requeue(c, attempt_start_left_ms(c, p) + 1);
            set_running(c, CONDITION_FALSE, NEWS_WARNING, "ImagePullFailed", image);
            context_show(c, "Starting", image);
            return;
        }
        if (!p->is_unschedulable || age_ms >= DECIDE_NO_ROOM_MS)
            (void)attempt_start_problem(p, text, sizeof text);
        else
            context_requeue(c, DECIDE_NO_ROOM_MS - age_ms);
        if (p->is_unschedulable)
            context_requeue(c, p->created_ms + DECIDE_PENDING_MS - c->seen->now_ms + 1);
        else
            context_requeue(c, attempt_start_left_ms(c, p) + 1);
    }
    set_running(c, CONDITION_FALSE, NEWS_QUIET, "StartingWorkers", text);
    context_show(c, "Starting", text);
}

/* Workers are running but cannot be reached: after a while their nodes are released. */
static void report_unreachable(struct context *c)
{
    struct verdict v = {.kind = VERDICT_UNREACHABLE};

    for (int s = 0; s < c->seen->plan.n_stages; s++) {
        const struct seen_pod *p = context_stage_pod(c, s);

        if (!p || p->has_peers || p->silent_ms < DECIDE_UNREACHABLE_MS)
            continue;
        (void)snprintf(
            v.text, sizeof v.text,
            "Pod %s on node %.100s is running but does not answer at %s, port %d. Does a "
            "NetworkPolicy or firewall block it?",
            p->name, p->node, p->ip, PORT_CONTROL);
        if (p->silent_ms >= DECIDE_GIVE_BACK_MS) {
            restart_apply(c, &v);
            return;
        }
        context_stall(c, "WorkersUnreachable", v.text);
        context_show(c, "Starting", v.text);
        return;
    }
}

/* Connect all workers as soon as each of them has an address. */
static void connect_workers(struct context *c)
{
    int n = c->seen->plan.n_stages;
    int n_running = 0;
    int n_connected = 0;

    for (int s = 0; s < n; s++) {
        const struct seen_pod *p = context_stage_pod(c, s);

        n_running += p && p->phase != POD_PENDING && p->ip[0];
        n_connected += p && (p->has_peers || p->phase == POD_SUCCEEDED);
    }
    if (n_running < n) {
        show_starting(c, n_running);
        return;
    }
    for (int s = 0; s < n; s++) {
        const struct seen_pod *p = context_stage_pod(c, s);

        if (!p->has_peers && p->phase == POD_RUNNING)
            context_add(c, ACTION_POST_PEERS)->stage = s;
    }
    if (n_connected < n) {
        show_starting(c, n_running);
        report_unreachable(c);
        return;
    }
    set_running(c, CONDITION_TRUE, NEWS_NORMAL, "Training", "All workers are connected.");
    context_show(c, "Running", "All workers are connected.");
    if (c->out->status.start_ms == 0)
        c->out->status.start_ms = c->seen->now_ms;
    context_requeue(c, 0);
}

/* --- training --- */

/* Also reports, once per attempt, what users should know and would not look for. */
static void take_progress(struct context *c, const struct progress *from, int64_t time_ms)
{
    struct status_progress *p = &c->out->status.progress;
    bool had_start = p->n_random > 0;
    bool had_skips = p->skipped_steps > 0;
    char text[STATUS_MESSAGE_BYTES];

    status_take_progress(&c->out->status, from, time_ms);
    drift_watch(c, from);
    if (!had_start && p->n_random > 0) {
        (void)snprintf(
            text, sizeof text,
            "The model to start from has no weights for %s: they start with random values.",
            from->initialised);
        context_add_event(c, false, "PartlyInitialized", text);
    }
    if (!had_skips && p->skipped_steps > 0) {
        (void)snprintf(text, sizeof text,
                       "%lld of the first %lld steps were skipped because a loss or a gradient "
                       "was not finite. If this continues, lower "
                       "spec.training.optimizer.learningRate.",
                       (long long)p->skipped_steps, (long long)p->step);
        context_add_event(c, true, "StepsSkipped", text);
    }
}

static void show_progress(struct context *c)
{
    const struct status_progress *p = &c->out->status.progress;
    const struct progress *leader = &c->seen->leader;
    char text[STATUS_MESSAGE_BYTES] = "";

    if (p->step == 0 || p->total_steps == 0)
        return;
    text_add(text, sizeof text, "Step %lld of %lld, loss %s, %lld tokens/s", (long long)p->step,
             (long long)p->total_steps, p->loss, (long long)p->tokens_per_second);
    if (p->skipped_steps > 0)
        text_add(text, sizeof text, ", %lld steps skipped", (long long)p->skipped_steps);
    text_add(text, sizeof text, ".");
    if (leader->state == PROGRESS_SAVING)
        text_add(text, sizeof text, " The output is being saved%s%.400s.",
                 leader->error[0] ? ": " : "", leader->error);
    drift_describe(&c->out->status, text, sizeof text);
    context_show(c, "Running", text);
}

/* The leader does not answer: training may go on, so the workers are left alone. */
static bool report_silence(struct context *c)
{
    const struct seen_pod *leader = context_stage_pod(c, 0);
    char text[STATUS_MESSAGE_BYTES];

    if (!leader || leader->silent_ms < DECIDE_SILENT_MS)
        return false;
    (void)snprintf(text, sizeof text,
                   "Pod %s on node %.100s has not answered on its control port for %lld minutes: "
                   "progress is not known. Does a NetworkPolicy or firewall block it?",
                   leader->name, leader->node, (long long)leader->silent_ms / 60000);
    context_stall(c, "WorkersUnreachable", text);
    context_show(c, "Running", text);
    return true;
}

/* A trainer that hangs while it still answers. */
static void report_standstill(struct context *c)
{
    int64_t limit_ms = (int64_t)c->spec.progress_deadline_s * 1000;
    int64_t warn_ms = DECIDE_STILL_MS;
    int64_t still_ms = c->seen->leader_same_ms;
    const struct progress *leader = &c->seen->leader;
    struct verdict v = {.kind = VERDICT_NO_PROGRESS};

    if (leader->state == PROGRESS_DONE)
        return; /* there is nothing left to move */
    if (20 * leader->step_ms > (double)warn_ms)
        warn_ms = (int64_t)(20 * leader->step_ms);
    (void)snprintf(v.text, sizeof v.text,
                   "No progress for %lld minutes: the leader answers, %s after step %lld of %lld",
                   (long long)still_ms / 60000, progress_state_name(leader->state),
                   (long long)leader->step, (long long)leader->total_steps);
    if (still_ms >= limit_ms && leader->state != PROGRESS_EVALUATING) {
        text_add(v.text, sizeof v.text, " (spec.failurePolicy.progressDeadlineSeconds is %d).",
                 c->spec.progress_deadline_s);
        restart_apply(c, &v);
    } else if (still_ms >= warn_ms) {
        text_add(v.text, sizeof v.text, ".");
        if (leader->state != PROGRESS_EVALUATING) /* which can take any time and shows no steps */
            text_add(v.text, sizeof v.text, " The attempt ends after %d minutes without progress.",
                     c->spec.progress_deadline_s / 60);
        context_stall(c, "NoProgress", v.text);
        context_show(c, "Running", v.text);
    }
}

static void follow(struct context *c)
{
    struct status *s = &c->out->status;
    int64_t now_ms = c->seen->now_ms;
    int64_t answered_ms = c->seen->leader_answered_ms > 0 ? c->seen->leader_answered_ms : now_ms;
    int64_t age_ms = now_ms - s->progress.updated_ms;

    c->out->ask_leader_ms = s->progress.updated_ms > 0 ? DECIDE_POLL_MS : DECIDE_FIRST_POLL_MS;
    context_requeue(c, c->out->ask_leader_ms);
    if (report_silence(c) || !c->seen->has_leader || c->seen->leader.attempt != c->attempt)
        return;
    /* What is shown is as old as the answer, however often it is looked at. */
    if (c->seen->leader.step > 0 && s->progress.updated_ms > 0 && age_ms >= 0 &&
        age_ms < DECIDE_PROGRESS_MS) {
        context_requeue(c, DECIDE_PROGRESS_MS - age_ms);
    } else if (c->seen->leader.step > 0 &&
               answered_ms - answered_ms % 1000 != s->progress.updated_ms) {
        take_progress(c, &c->seen->leader, answered_ms);
        show_progress(c);
    }
    report_standstill(c);
}

/* --- the end --- */

/* The leader ends last, when all stages have done their part, so that its success is that of pods
 * that are gone by now. Not seen is a job that ended and whose pods were all removed while no
 * operator ran: that one is trained again, until the leader waits for its release. */
static bool has_led_to_the_end(const struct context *c)
{
    const struct seen_pod *leader = context_stage_pod(c, 0);

    if (leader)
        return leader->phase == POD_SUCCEEDED;
    return strcmp(c->seen->status.stages[0].state, "Succeeded") == 0 ||
           (c->seen->has_leader && c->seen->leader.attempt == c->attempt &&
            c->seen->leader.state == PROGRESS_DONE);
}

static bool has_succeeded(const struct context *c, int stage)
{
    const struct seen_pod *p = context_stage_pod(c, stage);

    if (p)
        return p->phase == POD_SUCCEEDED;
    return strcmp(c->seen->status.stages[stage].state, "Succeeded") == 0 || has_led_to_the_end(c);
}

static void add_metrics(char text[static STATUS_MESSAGE_BYTES], const struct context *c,
                        bool is_ranking)
{
    const struct status_progress *p = &c->out->status.progress;
    const struct task *task = task_find(c->seen->plan.spec.data.task);

    for (int i = 0; i < p->n_metrics; i++)
        if (task_is_ranked_by(task, p->metrics[i].name) == is_ranking)
            text_add(text, STATUS_MESSAGE_BYTES, ", %s %s", p->metrics[i].name,
                     p->metrics[i].value);
}

static void complete(struct context *c)
{
    const struct seen_pod *leader = context_stage_pod(c, 0);
    struct status *s = &c->out->status;
    char text[STATUS_MESSAGE_BYTES] = "";

    if (leader && leader->has_progress)
        take_progress(c, &leader->progress, c->seen->now_ms);
    s->progress.percentage = 100;
    s->progress.remaining_seconds = 0;
    s->completion_ms = c->seen->now_ms;
    if (s->start_ms == 0)
        s->start_ms = s->completion_ms;
    text_add(text, sizeof text, "%lld %s in %lld s", (long long)s->progress.step,
             s->progress.step == 1 ? "step" : "steps",
             (long long)(s->completion_ms - s->start_ms) / 1000);
    if (s->progress.skipped_steps > 0)
        text_add(text, sizeof text, " (%lld skipped)", (long long)s->progress.skipped_steps);
    add_metrics(text, c, true);
    add_metrics(text, c, false);
    text_add(text, sizeof text, ".");
    drift_describe(s, text, sizeof text);
    set_running(c, CONDITION_FALSE, NEWS_QUIET, "Finished", text);
    context_set(
        c, NEWS_NORMAL,
        &(struct condition_set){CONDITION_COMPLETE, CONDITION_TRUE, "TrainingFinished", text});
    context_show(c, "Complete", text);
}

void attempt_drive(struct context *c)
{
    struct verdict verdict;
    int n_succeeded = 0;

    show_plan(c);
    drop_leftovers(c);
    for (int s = 0; s < c->seen->plan.n_stages; s++)
        n_succeeded += has_succeeded(c, s);
    if (n_succeeded == c->seen->plan.n_stages) {
        complete(c);
        return;
    }
    restart_judge(c, &verdict);
    if (verdict.kind == VERDICT_WAIT) {
        context_requeue(c, DECIDE_PEER_GRACE_MS);
    } else if (verdict.kind != VERDICT_NONE) {
        restart_apply(c, &verdict);
    } else if (context_has_started(c)) {
        follow(c);
    } else if (attempt_is_outdated(c)) {
        restart_next(c, "SpecChanged", "The spec was changed before training began.", 0);
    } else {
        create_missing(c);
        connect_workers(c);
    }
}
