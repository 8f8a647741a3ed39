/* What the end of a pod means, and what follows from it. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "control/context.h"

#define HEALTHY_MS            60000 /* of training end a row of restarts */
#define RESTARTS_IN_A_ROW_MAX 1000  /* the pause has long stopped growing */

__attribute__((format(printf, 4, 5))) static void
add_cause(struct verdict *v, enum verdict_kind kind, int stage, const char *fmt, ...)
{
    va_list args;

    if (kind <= v->kind)
        return; /* the gravest wins, and among equals the first */
    v->kind = kind;
    v->stage = stage;
    va_start(args, fmt);
    (void)vsnprintf(v->text, sizeof v->text, fmt, args);
    va_end(args);
}

/* The worker's own message, else the kubelet's, else its exit code: those above 128 are signals. */
static void describe_end(const struct seen_pod *p, char *out, size_t bytes)
{
    static const struct {
        int code;
        const char *words;
    } known[] = {{134, "aborted (SIGABRT)"},
                 {137, "killed (SIGKILL; out of memory or by the node)"},
                 {139, "crashed (SIGSEGV)"},
                 {143, "terminated (SIGTERM)"}};
    const char *words = p->progress && p->progress->error[0] ? p->progress->error : p->message;

    for (size_t i = 0; i < sizeof known / sizeof known[0] && p->has_exit_code; i++)
        if (!*words && known[i].code == p->exit_code)
            words = known[i].words;
    if (!*words && p->has_exit_code)
        (void)snprintf(out, bytes, "exit code %d", p->exit_code);
    else if (!*words)
        (void)snprintf(out, bytes, "%s", p->reason[0] ? p->reason : "no reason reported");
    else
        (void)snprintf(out, bytes, "%s", words);
}

static enum verdict_kind kind_of_failure(const struct seen_pod *p)
{
    static const enum verdict_kind of_cause[] = {
        [PROGRESS_CAUSE_NONE] = VERDICT_FAILED,
        [PROGRESS_CAUSE_CONFIG] = VERDICT_CONFIG,
        [PROGRESS_CAUSE_DATA_MISSING] = VERDICT_DATA_MISSING,
        [PROGRESS_CAUSE_PEER_LOST] = VERDICT_PEER_LOST,
        [PROGRESS_CAUSE_OTHER] = VERDICT_FAILED,
        [PROGRESS_CAUSE_OUTPUT] = VERDICT_OUTPUT,
    };

    if (p->is_disrupted)
        return VERDICT_DISRUPTED;
    if (!p->has_exit_code)
        return VERDICT_UNSCHEDULABLE; /* it never ran: its node rejected it */
    if (p->is_out_of_memory)
        return VERDICT_OUT_OF_MEMORY;
    if (p->exit_code == EXIT_CONFIG)
        return VERDICT_CONFIG;
    return of_cause[p->progress ? p->progress->cause : PROGRESS_CAUSE_NONE];
}

static void judge_pod(const struct context *c, int stage, const struct seen_pod *p,
                      struct verdict *v)
{
    char words[PROGRESS_ERROR_BYTES];
    int64_t pending_ms = c->seen->now_ms - p->created_ms;

    if (p->phase == POD_SUCCEEDED)
        return;
    if (drain_goes_on(c, p) && !(c->is_recovering && recovery_is_overdue(p)))
        return;
    if (p->is_deleting || (p->is_disrupted && p->phase != POD_FAILED)) {
        add_cause(v, VERDICT_DISRUPTED, stage, "Pod %s on node %.100s was deleted or evicted.",
                  p->name, p->node);
    } else if (p->phase == POD_FAILED) {
        describe_end(p, words, sizeof words);
        add_cause(v, kind_of_failure(p), stage, "Stage %d on node %.100s failed: %s", stage,
                  p->node, words);
    } else if (c->is_recovering) {
        if (recovery_is_overdue(p))
            add_cause(v, VERDICT_PEER_LOST, stage,
                      "Stage %d on node %.100s does not halt: its pod %s is replaced.", stage,
                      p->node, p->name);
    } else if (p->refuses && !context_has_started(c)) {
        add_cause(v, VERDICT_REFUSED, stage, "Stage %d on node %.100s refused the revision: %s",
                  stage, p->node, p->refusal);
    } else if (p->phase == POD_PENDING && p->is_unschedulable) {
        if (pending_ms > DECIDE_PENDING_MS)
            add_cause(v, VERDICT_UNSCHEDULABLE, stage, "Pod %s could not be scheduled: %s", p->name,
                      p->message);
    } else if (p->phase == POD_PENDING && pod_start_left_ms(c, p) < 0) {
        add_cause(v, VERDICT_START_TIMEOUT, stage,
                  "Pod %s on node %.100s did not start within %lld minutes: %s%s%s", p->name,
                  p->node, (long long)pending_ms / 60000,
                  p->reason[0] ? p->reason : "no reason reported", p->message[0] ? ": " : ".",
                  p->message);
    }
}

/* One that the status lists, and that is not there any more. */
static void judge_missing(const struct context *c, int stage, struct verdict *v)
{
    const struct status_stage *listed = &c->out->status.stages[stage];
    const struct plan_worker *worker = &c->seen->revision.plan.workers[stage];

    for (int i = 0; i < c->seen->n_pods && !c->is_recovering; i++) {
        const struct seen_pod *p = &c->seen->pods[i];

        if (p->role == POD_FOREIGN && p->slot == worker->slot &&
            p->incarnation == worker->incarnation)
            add_cause(v, VERDICT_NAME_TAKEN, stage,
                      "Pod %s exists already and was not created by the operator: it is ignored. "
                      "Delete it.",
                      p->name);
    }
    if (listed->pod_uid[0] && strcmp(listed->state, "Succeeded") != 0)
        add_cause(v, VERDICT_DISRUPTED, stage, "The pod of stage %d on node %.100s is gone.", stage,
                  listed->plan.node);
}

/* A session that has ended before the job, as when a link breaks. Returns whether a worker may have
 * died of which that is not known yet: one that has not answered since. */
static bool judge_sessions(const struct context *c, struct verdict *v)
{
    const struct progress *leader = &c->seen->leader;
    struct recovery r;
    int64_t broken_ms = 0; /* since when that is known */
    bool is_silent = false;

    recovery_look(c, &r);
    if (r.in.has_progress && leader->state == PROGRESS_HALTED) {
        broken_ms = c->seen->leader_same_ms;
        if (c->seen->leader_answered_ms > 0)
            broken_ms += c->seen->now_ms - c->seen->leader_answered_ms;
        add_cause(v, VERDICT_PEER_LOST, 0, "Stage 0 on node %.100s has halted: %s",
                  c->seen->revision.plan.workers[0].node, leader->error);
    } else if (!recover_must_halt(&r.in)) {
        return false;
    }
    for (int i = 0; i < r.in.n_workers; i++) {
        const struct seen_pod *p = r.pods[i];

        if (!p || p->phase != POD_RUNNING || p->ended_ms == 0 || p->report->revision != c->number)
            continue;
        add_cause(v, VERDICT_PEER_LOST, i, "Stage %d on node %.100s has halted: %s", i, p->node,
                  p->report->error[0] ? p->report->error : "no reason reported");
        broken_ms = p->ended_ms > broken_ms ? p->ended_ms : broken_ms;
    }
    for (int i = 0; i < r.in.n_workers; i++) {
        const struct seen_pod *p = r.pods[i];

        is_silent = is_silent || !p ||
                    (p->phase == POD_RUNNING && p->ended_ms == 0 &&
                     (p->answered_ms == 0 || p->answered_ms >= broken_ms));
    }
    return is_silent && broken_ms < DECIDE_PEER_GRACE_MS;
}

void restart_judge(const struct context *c, struct verdict *out)
{
    struct verdict v = {.kind = VERDICT_NONE};
    bool is_too_early = false;

    for (int s = 0; s < context_n_stages(c); s++) {
        const struct seen_pod *p = context_stage_pod(c, s);

        if (p)
            judge_pod(c, s, p, &v);
        else
            judge_missing(c, s, &v);
        is_too_early = is_too_early || (p && p->phase == POD_FAILED &&
                                        c->seen->now_ms - p->finished_ms < DECIDE_PEER_GRACE_MS);
    }
    if (!c->is_recovering && v.kind <= VERDICT_PEER_LOST)
        is_too_early = judge_sessions(c, &v) || is_too_early;
    /* A worker that lost its neighbour is not the cause: the one that failed may take a moment to
     * show. */
    if (v.kind == VERDICT_PEER_LOST && is_too_early && !c->is_recovering)
        v.kind = VERDICT_WAIT;
    *out = v;
    for (int s = 0; s < context_n_stages(c) && v.kind == VERDICT_PEER_LOST; s++) {
        const struct seen_pod *p = context_stage_pod(c, s);

        if (c->is_recovering || !p || p->phase != POD_RUNNING || p->silent_ms == 0)
            continue;
        /* When the sessions of all that answer have ended, the one that does not answer is the one
         * that they lost: a process that is frozen, or a node that is cut off. */
        out->stage = s;
        (void)snprintf(
            out->text, sizeof out->text,
            "Stage %d on node %.100s stopped responding: its pod %s is still running, but "
            "the others have lost their connections. %.400s",
            s, p->node, p->name, v.text);
        return;
    }
}

/* --- what follows --- */

/* Is there a pod that has to end, and can? */
static bool has_live_pod(const struct context *c)
{
    for (int i = 0; i < c->seen->n_pods; i++) {
        const struct seen_pod *p = &c->seen->pods[i];

        if (p->role != POD_FOREIGN && !pod_is_over(p) &&
            (!p->node[0] || context_has_answering_node(c, p)))
            return true;
    }
    return false;
}

void restart_give_up(struct context *c, const char *reason, const char *text)
{
    context_false(c, CONDITION_RUNNING, EVENT_NONE, reason, text);
    context_false(c, CONDITION_FAILED, EVENT_WARNING, reason, text);
    context_show(c, "Failing", text);
    restart_end(c);
}

void restart_end(struct context *c)
{
    struct status *s = &c->out->status;
    const struct condition failed = s->conditions[CONDITION_FAILED];

    if (has_live_pod(c)) {
        context_requeue(c, DECIDE_TERMINATING_MS); /* its node may become silent */
        return;
    }
    context_true(c, CONDITION_FAILED, EVENT_NONE, failed.reason, failed.message);
    context_show(c, "Failed", failed.message);
    s->completion_ms = c->seen->now_ms;
}

/* Status keeps whole seconds: round up. */
static void write_pause(struct context *c, int64_t pause_ms)
{
    c->out->status.next_revision_ms =
        pause_ms > 0 ? (c->seen->now_ms + pause_ms + 999) / 1000 * 1000 : 0;
    context_requeue(c, pause_ms);
}

/* Is there anything that would be lost if all began anew? */
static bool has_progress(const struct context *c)
{
    const struct progress *leader = &c->seen->leader;

    return c->seen->revision.resume.step > 0 || c->seen->status.progress.step > 0 ||
           (c->seen->has_leader && leader->revision == c->number && leader->step > 0);
}

void restart_next(struct context *c, const struct next *n)
{
    struct status *s = &c->out->status;

    if (c->number >= PLAN_REVISION_MAX) {
        restart_give_up(c, "RestartLimit", n->text);
        return;
    }
    context_false(c, CONDITION_RUNNING, EVENT_NONE, n->reason, n->text);
    context_false(c, CONDITION_PLACED, EVENT_NONE, "Restarting", n->text);
    /* Always an Event: the second loss of a worker is as much news as the first. */
    if (!n->is_expected)
        context_add_event(c, true, n->reason, n->text);
    context_show(c, n->keeps_workers && has_progress(c) ? "Recovering" : "Restarting", n->text);
    s->revision = c->number + (c->is_recovering ? 0 : 1); /* a number that was not used yet stays */
    s->revision_ms = c->seen->now_ms - c->seen->now_ms % 1000;
    s->revision_step = 0;
    (void)snprintf(s->revision_reason, sizeof s->revision_reason, "%s", n->text);
    write_pause(c, n->pause_ms);
    s->progress = (struct status_progress){.remaining_seconds = -1};
    for (int i = 0; i < s->n_stages; i++)
        s->stages[i].drift = (struct status_drift){.since_step = 0};
    if (!n->keeps_workers) {
        s->n_stages = 0;
        memset(s->stages, 0, sizeof s->stages);
        s->placement = (struct status_placement){.strategy = ""};
    }
    context_requeue(c, 0);
}

/* When all workers are lost there is no report to go by, and the next revision begins anew. The new
 * workers refuse it for a checkpoint that they find, and report that: a part of the same loss. */
static bool finds_checkpoint(const struct context *c)
{
    bool has_found = false;

    if (!c->has_plan || c->seen->revision.resume.step > 0)
        return false;
    for (int i = 0; i < c->seen->n_pods; i++) {
        const struct seen_pod *p = &c->seen->pods[i];

        if (p->role != POD_WORKER || p->phase != POD_RUNNING || !p->report)
            continue;
        if (p->report->n_runs > 0)
            return false;
        has_found = has_found || p->report->n_checkpoints > 0;
    }
    return has_found;
}

/* Every cause of a restart takes part in the same row: a job that is restarted again and again
 * must not keep the cluster busy, whether or not that is its own fault. */
static int64_t next_pause_ms(struct context *c, enum verdict_kind kind)
{
    /* What was lost in training is replaced at once, the first time; of workers that fail, others
     * may do so in the same moment. */
    bool has_failed = kind == VERDICT_FAILED || kind == VERDICT_OUT_OF_MEMORY;
    bool is_first_free = (kind == VERDICT_DISRUPTED || kind == VERDICT_PEER_LOST || has_failed) &&
                         (context_has_started(c) || c->is_recovering);
    int64_t first_ms = has_failed ? DECIDE_FAILED_MS : 0;
    int64_t pause_ms;
    struct status *s = &c->out->status;
    int64_t trained_ms = c->seen->now_ms - s->conditions[CONDITION_RUNNING].changed_ms;

    if (context_has_started(c) && trained_ms >= HEALTHY_MS)
        s->restarts_in_a_row = 0;
    if (s->restarts_in_a_row < RESTARTS_IN_A_ROW_MAX && !finds_checkpoint(c))
        s->restarts_in_a_row++;
    pause_ms = backoff_ms(s->restarts_in_a_row - (is_first_free ? 1 : 0), DECIDE_BACKOFF_MS,
                          DECIDE_BACKOFF_MAX_MS);
    return pause_ms > 0 ? pause_ms : first_ms;
}

void restart_pause(struct context *c)
{
    write_pause(c, next_pause_ms(c, VERDICT_NONE));
}

/* What follows from a verdict. */
enum consequence {
    CONTINUE,
    GIVE_UP,     /* it would end the same way again */
    MORE_MEMORY, /* counts, too */
    COUNT,       /* another revision, up to spec.failurePolicy.maxRestarts of them */
    PAUSE,       /* another revision, which does not count */
};
static const struct {
    enum consequence what;
    const char *reason;
    bool is_obstacle; /* the same worker, on the same node, would meet it again */
} consequences[] = {
    [VERDICT_NONE] = {CONTINUE, "", false},
    [VERDICT_WAIT] = {CONTINUE, "", false},
    [VERDICT_PEER_LOST] = {PAUSE, "ConnectionLost", false},
    [VERDICT_UNSCHEDULABLE] = {PAUSE, "Unschedulable", true},
    [VERDICT_UNREACHABLE] = {PAUSE, "WorkersUnreachable", true},
    [VERDICT_START_TIMEOUT] = {PAUSE, "StartTimeout", true},
    [VERDICT_NAME_TAKEN] = {PAUSE, "NameTaken", true},
    [VERDICT_NO_PROGRESS] = {COUNT, "NoProgress", false},
    [VERDICT_FAILED] = {COUNT, "WorkerFailed", false},
    [VERDICT_REFUSED] = {COUNT, "RevisionRefused", true},
    [VERDICT_DATA_MISSING] = {PAUSE, "DataMissing", true},
    [VERDICT_DISRUPTED] = {PAUSE, "WorkerLost", false},
    [VERDICT_OUT_OF_MEMORY] = {MORE_MEMORY, "WorkerOutOfMemory", false},
    [VERDICT_OUTPUT] = {GIVE_UP, "OutputFailed", false},
    [VERDICT_CONFIG] = {GIVE_UP, "InvalidConfiguration", false},
};

/* Which workers go on to the next revision: those that are neither gone nor the ones that cannot go
 * on. A job that has nothing to lose gives all its nodes back while it waits for what it needs. */
static bool keep_workers(struct context *c, const struct verdict *v)
{
    struct status *s = &c->out->status;
    bool obstructs = consequences[v->kind].is_obstacle;

    if (obstructs && !has_progress(c))
        return false;
    for (int i = 0; i < s->n_stages; i++) {
        const struct seen_pod *p = context_stage_pod(c, i);
        bool is_obstructed = obstructs && i == v->stage;

        if (p && !pod_is_over(p) && !is_obstructed &&
            (drain_goes_on(c, p) || (!p->is_deleting && !p->is_disrupted)) &&
            !(c->is_recovering && recovery_is_overdue(p)))
            continue;
        s->stages[i].pod_uid[0] = '\0';
        s->stages[i].is_ready = false;
        /* With another size, or on another node. */
        if (is_obstructed || (p && p->is_out_of_memory))
            s->stages[i].plan.node[0] = '\0';
    }
    return true;
}

/* Workers that are lost while others wait for the next revision are a part of the same misfortune:
 * what fails counts once, and the pause is not longer for it. */
static bool belongs_to_recovery(const struct context *c, const struct verdict *v)
{
    const char *reason = c->seen->status.conditions[CONDITION_RUNNING].reason;
    bool was_counted = false;

    for (size_t i = 0; i < sizeof consequences / sizeof consequences[0]; i++)
        was_counted = was_counted ||
                      ((consequences[i].what == COUNT || consequences[i].what == MORE_MEMORY) &&
                       strcmp(consequences[i].reason, reason) == 0);
    return c->is_recovering && (was_counted || consequences[v->kind].what == PAUSE) &&
           (has_progress(c) || !consequences[v->kind].is_obstacle);
}

void restart_apply(struct context *c, const struct verdict *v)
{
    enum consequence what = consequences[v->kind].what;
    const char *reason = consequences[v->kind].reason;
    struct status *s = &c->out->status;
    char text[STATUS_MESSAGE_BYTES];
    struct next next = {.reason = reason, .text = text};

    (void)snprintf(text, sizeof text, "%s", v->text);
    if (what == MORE_MEMORY && !belongs_to_recovery(c, v)) {
        const struct seen_pod *pod = context_stage_pod(c, v->stage);
        int percent = (s->memory_percent > 100 ? s->memory_percent : 100) * 3 / 2;

        s->memory_percent =
            percent < STATUS_MEMORY_PERCENT_MAX ? percent : STATUS_MEMORY_PERCENT_MAX;
        (void)snprintf(
            text, sizeof text,
            "Stage %d on node %.100s was killed for using more than its %lld MiB. New workers get "
            "%d%% of the planned memory. If that does not help, lower "
            "spec.training.maxSequenceLength or batchSize, or raise spec.placement.maxStages.",
            v->stage, pod->node, (long long)pod->memory_bytes >> 20, s->memory_percent);
    }
    if (what == GIVE_UP) {
        restart_give_up(c, reason, text);
    } else if (belongs_to_recovery(c, v)) {
        context_add_event(c, true, reason, text);
        (void)keep_workers(c, v);
        context_requeue(c, 0);
    } else if (what == PAUSE) {
        next.pause_ms = next_pause_ms(c, v->kind);
        next.keeps_workers = keep_workers(c, v);
        if (finds_checkpoint(c)) { /* nothing new has gone wrong */
            next.reason = "CheckpointFound";
            next.is_expected = true;
        }
        restart_next(c, &next);
    } else if (what != CONTINUE && s->restarts < c->spec.max_restarts) {
        s->restarts++;
        next.pause_ms = next_pause_ms(c, v->kind);
        next.keeps_workers = keep_workers(c, v);
        restart_next(c, &next);
    } else if (what != CONTINUE) {
        text[600] = '\0';
        text_add(text, sizeof text,
                 " The job has failed after %d of %d restarts (spec.failurePolicy.maxRestarts).",
                 s->restarts, c->spec.max_restarts);
        restart_give_up(c, "RestartLimit", text);
    }
}
