/* From a revision to workers that train, and to their end. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "control/context.h"
#include "control/manifest.h"

/* --- the plan in the status --- */

void context_show_placement(struct context *c, const struct plan *plan)
{
    struct status_placement *to = &c->out->status.placement;

    to->nodes[0] = '\0';
    for (int i = 0; i < plan->n_workers; i++)
        text_add(to->nodes, sizeof to->nodes, "%s%s", i ? "," : "", plan->workers[i].node);
    (void)snprintf(to->strategy, sizeof to->strategy, "%s",
                   spec_strategy_names[plan->spec.placement.strategy]);
    to->micro_batches = plan->micro_batches;
    to->summary = plan->summary;
}

static void show_plan(struct context *c)
{
    const struct plan *plan = &c->seen->revision.plan;
    struct status *s = &c->out->status;

    if (s->revision_ms == 0)
        s->revision_ms = c->seen->now_ms - c->seen->now_ms % 1000;
    s->revision_step = c->seen->revision.resume.step;
    s->next_revision_ms = 0;
    if (s->n_stages > plan->n_workers)
        s->n_stages = plan->n_workers;
    memset(&s->stages[s->n_stages], 0,
           (size_t)(plan->n_workers - s->n_stages) * sizeof s->stages[0]);
    s->n_stages = plan->n_workers;
    for (int i = 0; i < plan->n_workers; i++) {
        const struct plan_worker *from = &plan->workers[i];
        const struct seen_pod *pod = context_stage_pod(c, i);
        struct status_stage *to = &s->stages[i];
        char name[NAMES_BYTES];

        names_worker_pod(c->seen->name, c->seen->uid, from->slot, from->incarnation, name);
        if (strcmp(to->pod, name) != 0) /* what follows is of another one */
            *to = (struct status_stage){.stage = i};
        to->stage = i;
        to->plan = *from;
        (void)snprintf(to->pod, sizeof to->pod, "%s", name);
        to->is_ready = pod && pod->is_ready && pod->phase == POD_RUNNING;
        if (pod)
            memcpy(to->pod_uid, pod->uid, sizeof to->pod_uid);
        if (pod || strcmp(to->state, "Succeeded") != 0) /* an ended pod may be cleared away */
            (void)snprintf(to->state, sizeof to->state, "%s",
                           pod_phase_names[pod ? pod->phase : POD_PENDING]);
    }
    context_show_placement(c, plan);
    (void)snprintf(s->placement.image, sizeof s->placement.image, "%s",
                   c->spec.worker.image[0] ? "" : manifest_image(c->seen, &c->spec));
    context_true(c, CONDITION_PLACED, EVENT_NORMAL, "PlanMade", plan->summary.explanation);
}

/* Probes and the reader of the model are done, older revisions are not needed any more, and workers
 * go that have given away what they held. */
static void drop_leftovers(struct context *c, const struct recovery *r)
{
    for (int i = 0; i < c->seen->n_pods; i++) {
        const struct seen_pod *p = &c->seen->pods[i];

        bool has_joined_in_vain = p->role == POD_WORKER && p->incarnation == c->number &&
                                  revision_find(&c->seen->revision, p->slot) < 0 &&
                                  c->drain == DRAIN_NONE && !rebalance_is_joining(c, p);

        if ((p->role == POD_PROBE && !rebalance_measures(c)) || p->role == POD_MODEL ||
            has_joined_in_vain || (p->role == POD_UNVERIFIED && p->incarnation == 0))
            context_delete_pod(c, p);
    }
    for (int i = 0; i < r->in.n_workers; i++)
        if (r->pods[i] && recover_has_left(&r->in, r->in.workers[i].id.slot))
            context_delete_pod(c, r->pods[i]);
    for (int i = 0; i < c->seen->n_revisions; i++) {
        struct action *a;

        if (c->seen->revision_numbers[i] >= c->number)
            continue;
        a = context_add(c, ACTION_DELETE_REVISION);
        a->revision = c->seen->revision_numbers[i];
        memcpy(a->uid, c->seen->revision_uids[i], sizeof a->uid);
    }
}

/* --- before training --- */

bool training_is_outdated(const struct context *c)
{
    return !spec_same_workers(&c->spec, &c->seen->revision.plan.spec);
}

/* Why the first pod that is not running has not started, as its status or Events report it. */
static void show_starting(struct context *c, int n_running)
{
    char text[STATUS_MESSAGE_BYTES];
    char image[OBSERVED_TEXT_BYTES];
    int64_t step = c->seen->revision.resume.step;
    const char *state = step > 0 ? "Recovering" : "Starting";
    int n = c->seen->revision.plan.n_workers;

    (void)snprintf(text, sizeof text, "%d of %d workers are running.", n_running, n);
    if (step > 0)
        text_add(text, sizeof text, " Training goes on from step %lld.", (long long)step);
    for (int s = 0; s < n; s++) {
        const struct seen_pod *p = context_stage_pod(c, s);
        int64_t age_ms = p ? c->seen->now_ms - p->created_ms : 0;

        if (!p || p->phase != POD_PENDING)
            continue;
        if (p->is_gated) {
            (void)snprintf(text, sizeof text,
                           "Pod %s waits until its scheduling gate %s is removed.", p->name,
                           p->message);
            context_false(c, CONDITION_RUNNING, EVENT_NORMAL, "Queued", text);
            context_show(c, "Queued", text);
            return;
        }
        pod_request_events(c, p);
        if (pod_image_problem(c, p, image)) {
            context_requeue(c, pod_start_left_ms(c, p) + 1);
            context_false(c, CONDITION_RUNNING, EVENT_WARNING, "ImagePullFailed", image);
            context_show(c, state, image);
            return;
        }
        if (!p->is_unschedulable || age_ms >= DECIDE_TERMINATING_MS)
            (void)pod_start_problem(p, text, sizeof text);
        else
            context_requeue(c, DECIDE_TERMINATING_MS - age_ms);
        if (p->is_unschedulable)
            context_requeue(c, p->created_ms + DECIDE_PENDING_MS - c->seen->now_ms + 1);
        else
            context_requeue(c, pod_start_left_ms(c, p) + 1);
    }
    context_false(c, CONDITION_RUNNING, EVENT_NONE, "StartingWorkers", text);
    context_show(c, state, text);
}

/* Workers are running but cannot be reached: after a while their nodes are released. */
static void report_unreachable(struct context *c)
{
    struct verdict v = {.kind = VERDICT_UNREACHABLE};

    for (int s = 0; s < c->seen->revision.plan.n_workers; s++) {
        const struct seen_pod *p = context_stage_pod(c, s);

        if (!p || p->accepted == c->number || p->silent_ms < DECIDE_UNREACHABLE_MS)
            continue;
        v.stage = s;
        (void)snprintf(
            v.text, sizeof v.text,
            "Pod %s on node %.100s is running but does not answer at %s, port %d. Does a "
            "NetworkPolicy or firewall block it?",
            p->name, p->node, p->ip, PORT_CONTROL);
        if (p->silent_ms >= DECIDE_GIVE_BACK_MS)
            restart_apply(c, &v);
        else
            context_stall(c, "Starting", "WorkersUnreachable", v.text);
        return;
    }
}

/* Create the pods that are missing, and post the revision to all as soon as each has an address:
 * also after a restart of the operator, which does not remember who has it. */
static void tell(struct context *c, const struct recovery *r)
{
    bool have_addresses = true;

    for (int i = 0; i < r->in.n_workers; i++) {
        const struct seen_pod *p = r->pods[i];

        have_addresses = have_addresses && p && p->phase != POD_PENDING && p->ip[0];
        if (p || i >= c->seen->revision.plan.n_workers)
            continue;
        context_add_policy(c);
        context_add(c, ACTION_CREATE_WORKER_POD)->stage = i;
    }
    for (int i = 0; i < r->in.n_workers && have_addresses; i++)
        if (recover_order(&r->in, i) == ORDER_REVISION && !r->pods[i]->refuses)
            memcpy(context_add(c, ACTION_POST_REVISION)->name, r->pods[i]->name, NAMES_BYTES);
    for (int i = 0; i < r->in.n_workers; i++) {
        struct action *a;

        if (recover_order(&r->in, i) != ORDER_HALT || r->pods[i]->phase != POD_RUNNING)
            continue;
        a = context_add(c, ACTION_HALT); /* it has left, and ends by itself */
        a->revision = c->number;
        memcpy(a->name, r->pods[i]->name, sizeof a->name);
    }
}

/* Where a revision that is not the first goes on from. */
static void add_step(const struct context *c, char *text, size_t bytes)
{
    const struct revision *r = &c->seen->revision;
    int n_units = model_units(&r->plan.spec.model);
    int n_saved = 0;

    if (c->out->status.revision_reason[0] == '\0')
        return;
    if (r->resume.step == 0) {
        text_add(text, bytes, " Training begins with step 0.");
        return;
    }
    for (int i = 0; i < r->resume.n_sources; i++)
        if (resume_is_saved(&r->resume.sources[i]))
            n_saved += r->resume.sources[i].n_units;
    text_add(text, bytes, " Training goes on from step %lld", (long long)r->resume.step);
    if (n_saved == n_units)
        text_add(text, bytes, " (checkpoint)");
    else if (n_saved > 0)
        text_add(text, bytes, " (%d of %d units from a checkpoint)", n_saved, n_units);
    text_add(text, bytes, ".");
}

/* Where checkpoints lie with the workers, as by default, they need two nodes. */
static void warn_unprotected(struct context *c)
{
    const struct plan *plan = &c->seen->revision.plan;
    int keepers[SPEC_STAGES_MAX];
    char text[STATUS_MESSAGE_BYTES];
    int n_bare = 0;
    int bare = 0;

    if (!plan->spec.checkpoint.is_peers)
        return;
    plan_keepers(plan, keepers);
    for (int s = plan->n_workers - 1; s >= 0; s--)
        if (keepers[s] < 0) {
            n_bare++;
            bare = s;
        }
    if (n_bare == 0)
        return;
    if (n_bare == plan->n_workers)
        (void)snprintf(
            text, sizeof text,
            "No checkpoints are written, since node %s has the whole job: if a worker is "
            "lost, the job begins again with step 0. Raise spec.placement.minStages, or "
            "set spec.checkpoint.store.persistentVolumeClaim or s3.",
            plan->workers[0].node);
    else
        (void)snprintf(text, sizeof text,
                       "The checkpoints of %d of %d stages have no copy on another node: if node "
                       "%s is lost, the job begins again with step 0. Raise "
                       "spec.placement.minStages, or set "
                       "spec.checkpoint.store.persistentVolumeClaim or s3.",
                       n_bare, plan->n_workers, plan->workers[bare].node);
    context_add_event(c, true, "Unprotected", text);
}

static void start(struct context *c, const struct recovery *r)
{
    char text[STATUS_MESSAGE_BYTES] = "All workers are connected.";
    int n = c->seen->revision.plan.n_workers;
    int n_running = 0;
    int n_told = 0;

    tell(c, r);
    for (int s = 0; s < n; s++) {
        const struct seen_pod *p = context_stage_pod(c, s);

        n_running += p && p->phase != POD_PENDING && p->ip[0];
        n_told += p && (p->accepted == c->number || p->phase == POD_SUCCEEDED);
    }
    if (n_running < n || n_told < n) {
        show_starting(c, n_running);
        if (n_running == n)
            report_unreachable(c);
        return;
    }
    add_step(c, text, sizeof text);
    warn_unprotected(c);
    context_true(c, CONDITION_RUNNING, EVENT_NORMAL, "Training", text);
    context_show(c, "Running", text);
    if (c->out->status.start_ms == 0)
        c->out->status.start_ms = c->seen->now_ms;
    context_requeue(c, 0);
}

/* --- training --- */

/* A replica is slower than usual, or none is any more, and something is done about it: on a busy
 * cluster that happens too often to be told where all just wait. */
static void report_straggler(struct context *c, const struct progress_sync *sync)
{
    char text[STATUS_MESSAGE_BYTES];

    if (c->seen->revision.plan.spec.sync.stragglers == SPEC_STRAGGLERS_WAIT)
        return;
    if (sync->lagging[0])
        (void)snprintf(text, sizeof text, "At step %lld %s.", (long long)c->seen->leader.step,
                       sync->lagging);
    else
        (void)snprintf(text, sizeof text, "All replicas are as fast as usual at step %lld.",
                       (long long)c->seen->leader.step);
    context_add_event(c, false, sync->lagging[0] ? "Straggler" : "StragglerGone", text);
}

/* Also reports, once per revision, what users should know and would not look for. */
static void take_progress(struct context *c, const struct progress *from, int64_t time_ms)
{
    struct status_progress *p = &c->out->status.progress;
    bool had_start = p->n_random > 0;
    bool had_skips = p->skipped_steps > 0;
    bool had_failed = p->saved.has_failed;
    bool was_lagging = p->sync.lagging[0] != '\0';
    char text[STATUS_MESSAGE_BYTES];

    status_take_progress(&c->out->status, from, time_ms);
    drift_watch(c, from);
    if (was_lagging != (p->sync.lagging[0] != '\0'))
        report_straggler(c, &from->sync);
    if (!had_start && p->n_random > 0) {
        (void)snprintf(
            text, sizeof text,
            "The model to start from has no weights for %s: they start with random values.",
            from->randomly_initialized);
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
    if (!had_failed && p->saved.has_failed) {
        (void)snprintf(text, sizeof text,
                       "A checkpoint could not be written; the workers' logs have the reason. "
                       "Training goes on, and the next one is tried.");
        if (p->saved.step > 0)
            text_add(text, sizeof text, " The newest is that of step %lld.",
                     (long long)p->saved.step);
        else
            text_add(text, sizeof text, " There is none yet.");
        context_add_event(c, true, "CheckpointFailed", text);
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
    if (p->saved.has_failed)
        text_add(text, sizeof text, " The last checkpoint could not be written.");
    if (leader->state == PROGRESS_SAVING)
        text_add(text, sizeof text, " The output is being saved%s%.400s.",
                 leader->error[0] ? ": " : "", leader->error);
    drift_describe(&c->out->status, text, sizeof text);
    context_show(c, "Running", text);
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
                   (long long)still_ms / 60000, progress_state_names[leader->state],
                   (long long)leader->step, (long long)leader->total_steps);
    if (still_ms >= limit_ms && leader->state != PROGRESS_EVALUATING) {
        text_add(v.text, sizeof v.text, " (spec.failurePolicy.progressDeadlineSeconds is %d).",
                 c->spec.progress_deadline_s);
        restart_apply(c, &v);
    } else if (still_ms >= warn_ms) {
        text_add(v.text, sizeof v.text, ".");
        if (leader->state != PROGRESS_EVALUATING) /* which can take any time and shows no steps */
            text_add(v.text, sizeof v.text,
                     " The workers are halted after %d minutes without progress.",
                     c->spec.progress_deadline_s / 60);
        context_stall(c, "Running", "NoProgress", v.text);
    }
}

int64_t decide_poll_ms(const struct observed *seen)
{
    int64_t ms = (int64_t)DECIDE_POLL_JOB_MS * seen->n_training;

    if (ms < DECIDE_POLL_MS || !seen->has_leader || seen->leader.eta_seconds < DECIDE_ENDS_S)
        return DECIDE_POLL_MS;
    return ms < DECIDE_POLL_MAX_MS ? ms : DECIDE_POLL_MAX_MS;
}

int64_t decide_progress_ms(const struct observed *seen)
{
    int64_t ms = 3 * decide_poll_ms(seen);

    return ms > DECIDE_PROGRESS_MS ? ms : DECIDE_PROGRESS_MS;
}

/* With many jobs each report takes a connection of its own (run/workers.h), so they come less
 * often: by the square of the pause between status requests. */
static int64_t reports_ms(int64_t poll_ms)
{
    return DECIDE_REPORTS_MS * poll_ms / DECIDE_POLL_MS * poll_ms / DECIDE_POLL_MS;
}

static void follow(struct context *c)
{
    struct status *s = &c->out->status;
    int64_t now_ms = c->seen->now_ms;
    int64_t answered_ms = c->seen->leader_answered_ms > 0 ? c->seen->leader_answered_ms : now_ms;
    int64_t age_ms = now_ms - s->progress.updated_ms;
    int64_t progress_ms = decide_progress_ms(c->seen);
    const struct seen_pod *pod = context_stage_pod(c, 0);
    char text[STATUS_MESSAGE_BYTES];

    c->out->ask_leader_ms = decide_poll_ms(c->seen);
    c->out->ask_reports_ms = reports_ms(c->out->ask_leader_ms);
    context_requeue(c, c->out->ask_leader_ms);
    if (pod && pod->silent_ms >= DECIDE_SILENT_MS) {
        /* Training may go on, so the workers are left alone. */
        (void)snprintf(
            text, sizeof text,
            "Pod %s on node %.100s has not answered on its control port for %lld minutes: "
            "progress is not known. Does a NetworkPolicy or firewall block it?",
            pod->name, pod->node, (long long)pod->silent_ms / 60000);
        context_stall(c, "Running", "WorkersUnreachable", text);
        return;
    }
    if (!c->seen->has_leader || c->seen->leader.revision != c->number)
        return;
    /* What is shown is as old as the answer, however often it is looked at. */
    if (c->seen->leader.step > 0 && s->progress.updated_ms > 0 && age_ms >= 0 &&
        age_ms < progress_ms) {
        context_requeue(c, progress_ms - age_ms);
    } else if (c->seen->leader.step > 0 &&
               answered_ms - answered_ms % 1000 != s->progress.updated_ms) {
        take_progress(c, &c->seen->leader, answered_ms);
        show_progress(c);
    }
    report_standstill(c);
}

/* --- the end --- */

/* In the status before the leader is released. */
#define FINISHING "Finishing"

bool training_is_finishing(const struct context *c)
{
    const struct condition *running = &c->seen->status.conditions[CONDITION_RUNNING];

    return running->value == CONDITION_TRUE && strcmp(running->reason, FINISHING) == 0;
}

static void complete(struct context *c)
{
    const struct seen_pod *leader = context_stage_pod(c, 0);
    const struct spec *spec = &c->seen->revision.plan.spec;
    const struct task *task = task_find(spec->data.task);
    struct status *s = &c->out->status;
    char text[STATUS_MESSAGE_BYTES] = "";

    if (leader && leader->progress)
        take_progress(c, leader->progress, c->seen->now_ms);
    else if (c->seen->has_leader && c->seen->leader.state == PROGRESS_DONE)
        take_progress(c, &c->seen->leader, c->seen->now_ms);
    s->progress.percentage = 100;
    s->progress.remaining_seconds = 0;
    s->completion_ms = c->seen->now_ms;
    if (s->start_ms == 0)
        s->start_ms = s->completion_ms;
    if (s->completion_ms < s->start_ms) /* by the clock of the operator that led then */
        s->completion_ms = s->start_ms;
    text_add(text, sizeof text, "%lld %s in %lld s", (long long)s->progress.step,
             s->progress.step == 1 ? "step" : "steps",
             (long long)(s->completion_ms - s->start_ms) / 1000);
    if (s->progress.skipped_steps > 0)
        text_add(text, sizeof text, " (%lld skipped)", (long long)s->progress.skipped_steps);
    for (int is_ranking = 1; is_ranking >= 0; is_ranking--)
        for (int i = 0; i < s->progress.n_metrics; i++)
            if (task_is_ranked_by(task, s->progress.metrics[i].name) == is_ranking)
                text_add(text, sizeof text, ", %s %s", s->progress.metrics[i].name,
                         s->progress.metrics[i].value);
    text_add(text, sizeof text, ".");
    if (s->progress.has_ended_early)
        text_add(text, sizeof text, " Ended early: %d evaluations in a row were not better.",
                 spec->training.patience);
    if (s->progress.best.step > 0)
        text_add(text, sizeof text, " The best evaluation%s was after step %lld: %s %s.",
                 spec->training.keeps_best ? ", whose weights are kept," : "",
                 (long long)s->progress.best.step, s->progress.best.metric, s->progress.best.value);
    drift_describe(s, text, sizeof text);
    context_false(c, CONDITION_RUNNING, EVENT_NONE, "Finished", text);
    context_true(c, CONDITION_COMPLETE, EVENT_NORMAL, "TrainingFinished", text);
    context_show(c, "Complete", text);
}

/* Its progress goes into the status first. */
static void release(struct context *c, const struct recovery *r, const struct seen_pod *leader)
{
    struct action *a;

    c->out->ask_leader_ms = DECIDE_POLL_MS;
    context_requeue(c, DECIDE_POLL_MS);
    if (!training_is_finishing(c) && r->in.has_progress && r->in.state == PROGRESS_DONE) {
        take_progress(c, &c->seen->leader, c->seen->now_ms);
        context_true(c, CONDITION_RUNNING, EVENT_NONE, FINISHING,
                     "Training is finished; the leader is released.");
        context_requeue(c, 0);
    } else if (training_is_finishing(c)) {
        a = context_add(c, ACTION_HALT);
        a->revision = r->in.revision->plan.revision;
        memcpy(a->name, leader->name, sizeof a->name);
    }
}

/* The leader ends last, when all stages have done their part and the output is in place: what
 * becomes of the other pods then does not matter. Not seen is a job that ended and whose pods were
 * all removed while no operator ran: that one is trained again, until its leader waits for its
 * release.
 */
bool training_end(struct context *c, const struct recovery *r)
{
    const struct seen_pod *leader = context_stage_pod(c, 0);
    const struct status *s = &c->seen->status;
    bool is_waiting = false;
    bool has_succeeded = leader ? leader->phase == POD_SUCCEEDED
                                : s->n_stages > 0 && strcmp(s->stages[0].state, "Succeeded") == 0;

    if (!training_is_finishing(c) && !has_succeeded && recover_phase(&r->in) != RECOVER_END)
        return false;
    if (leader && !pod_is_over(leader) && leader->halting_ms < RECOVER_HALT_MS) {
        release(c, r, leader);
        return true;
    }
    for (int i = 0; i < r->in.n_workers; i++) {
        const struct seen_pod *p = r->pods[i];
        int64_t finished_ms = leader ? leader->finished_ms : 0;
        int64_t left_ms = finished_ms + DECIDE_PEER_GRACE_MS - c->seen->now_ms;

        if (!p || p == leader || pod_is_over(p) || !context_has_answering_node(c, p))
            continue;
        if (left_ms <= 0)
            context_delete_pod(c, p);
        /* It was released by the leader, and ends in a moment. */
        context_requeue(c, left_ms > 0 ? left_ms : DECIDE_TERMINATING_MS);
        is_waiting = true;
    }
    if (!is_waiting)
        complete(c);
    return true;
}

void training_drive(struct context *c)
{
    const struct plan *plan = &c->seen->revision.plan;
    struct recovery r;
    struct verdict verdict;
    bool is_new = true; /* no worker has anything of an earlier revision */

    for (int i = 0; i < plan->n_workers; i++)
        is_new = is_new && plan->workers[i].incarnation == c->number;
    recovery_look(c, &r);
    show_plan(c);
    drain_look(c);
    drop_leftovers(c, &r);
    if (training_end(c, &r))
        return;
    restart_judge(c, &verdict);
    if (verdict.kind == VERDICT_WAIT) {
        c->out->ask_reports_ms = DECIDE_BROKEN_MS;
        context_requeue(c, DECIDE_BROKEN_MS);
    } else if (verdict.kind != VERDICT_NONE) {
        restart_apply(c, &verdict);
    } else if (context_has_started(c)) {
        if (drain_hands_over(c))
            return;
        tell(c, &r);
        follow(c);
        if (!protocol_follow(c) && !missing_return(c))
            rebalance_look(c);
        if (c->drain == DRAIN_JOINING || c->drain == DRAIN_WAITING) { /* until they answer */
            c->out->ask_reports_ms = DECIDE_POLL_MS;
            context_requeue(c, DECIDE_POLL_MS);
        }
    } else if (is_new && training_is_outdated(c)) {
        restart_next(c, &(struct next){.reason = "SpecChanged",
                                       .text = "The spec was changed before training began."});
    } else {
        start(c, &r);
    }
}
