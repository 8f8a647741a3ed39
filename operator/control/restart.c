/* What the end of a pod means, and what follows from it. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "control/context.h"

#define HEALTHY_MS            600000 /* of training end a row of restarts */
#define RESTARTS_IN_A_ROW_MAX 1000   /* the pause has long stopped growing */

static void add_cause(struct verdict *v, enum verdict_kind kind, int stage, const char *text)
{
    if (kind <= v->kind)
        return; /* the gravest wins, and among equals the first */
    v->kind = kind;
    v->stage = stage;
    (void)snprintf(v->text, sizeof v->text, "%s", text);
}

/* Exit codes above 128 are signals. */
static void describe_exit(int code, char *out, size_t bytes)
{
    static const struct {
        int code;
        const char *words;
    } known[] = {{134, "aborted (SIGABRT)"},
                 {137, "killed (SIGKILL; out of memory or by the node)"},
                 {139, "crashed (SIGSEGV)"},
                 {143, "terminated (SIGTERM)"}};

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].code == code) {
            (void)snprintf(out, bytes, "%s", known[i].words);
            return;
        }
    (void)snprintf(out, bytes, "exit code %d", code);
}

/* The worker's own message, else the kubelet's, else its exit code. */
static void describe_end(const struct seen_pod *p, char *out, size_t bytes)
{
    if (p->has_progress && p->progress.error[0])
        (void)snprintf(out, bytes, "%s", p->progress.error);
    else if (p->message[0])
        (void)snprintf(out, bytes, "%s", p->message);
    else if (p->has_exit_code)
        describe_exit(p->exit_code, out, bytes);
    else
        (void)snprintf(out, bytes, "%s", p->reason[0] ? p->reason : "no reason reported");
}

static enum verdict_kind kind_of_failure(const struct seen_pod *p)
{
    enum progress_cause cause = p->has_progress ? p->progress.cause : PROGRESS_CAUSE_NONE;

    if (p->is_disrupted)
        return VERDICT_DISRUPTED;
    if (!p->has_exit_code)
        return VERDICT_UNSCHEDULABLE; /* it never ran: its node rejected it */
    if (p->is_out_of_memory)
        return VERDICT_OUT_OF_MEMORY;
    if (cause == PROGRESS_CAUSE_CONFIG || p->exit_code == EXIT_CONFIG)
        return VERDICT_CONFIG;
    if (cause == PROGRESS_CAUSE_OUTPUT)
        return VERDICT_OUTPUT;
    if (cause == PROGRESS_CAUSE_DATA_MISSING)
        return VERDICT_DATA_MISSING;
    if (cause == PROGRESS_CAUSE_PEER_LOST)
        return VERDICT_PEER_LOST;
    return VERDICT_FAILED;
}

static void judge_pod(const struct context *c, const struct seen_pod *p, struct verdict *v)
{
    char words[PROGRESS_ERROR_BYTES];
    char text[STATUS_MESSAGE_BYTES];
    int64_t pending_ms = c->seen->now_ms - p->created_ms;

    if (p->phase == POD_SUCCEEDED)
        return;
    if (p->is_deleting || (p->is_disrupted && p->phase != POD_FAILED)) {
        (void)snprintf(text, sizeof text, "Pod %s on node %.100s was deleted or evicted.", p->name,
                       p->node);
        add_cause(v, VERDICT_DISRUPTED, p->stage, text);
        return;
    }
    if (p->phase == POD_FAILED) {
        describe_end(p, words, sizeof words);
        (void)snprintf(text, sizeof text, "Stage %d on node %.100s failed: %s", p->stage, p->node,
                       words);
        add_cause(v, kind_of_failure(p), p->stage, text);
        return;
    }
    if (p->refuses_peers && !context_has_started(c)) {
        (void)snprintf(text, sizeof text, "Stage %d on node %.100s refused the peer table: %s",
                       p->stage, p->node, p->refusal);
        add_cause(v, VERDICT_REFUSED, p->stage, text);
        return;
    }
    if (p->phase == POD_PENDING && p->is_unschedulable && pending_ms > DECIDE_PENDING_MS) {
        (void)snprintf(text, sizeof text, "Pod %s could not be scheduled: %s", p->name, p->message);
        add_cause(v, VERDICT_UNSCHEDULABLE, p->stage, text);
    }
    if (p->phase == POD_PENDING && !p->is_unschedulable && attempt_start_left_ms(c, p) < 0) {
        (void)snprintf(text, sizeof text,
                       "Pod %s on node %.100s did not start within %lld minutes: %s%s%s", p->name,
                       p->node, (long long)pending_ms / 60000,
                       p->reason[0] ? p->reason : "no reason reported", p->message[0] ? ": " : ".",
                       p->message);
        add_cause(v, VERDICT_START_TIMEOUT, p->stage, text);
    }
}

/* A worker that lost its neighbour is not the cause: the one that failed may take a moment to show.
 */
static bool is_too_early(const struct context *c)
{
    for (int i = 0; i < c->seen->n_pods; i++) {
        const struct seen_pod *p = &c->seen->pods[i];

        if (p->role == POD_STAGE && p->attempt == c->attempt && p->phase == POD_FAILED &&
            c->seen->now_ms - p->finished_ms < DECIDE_PEER_GRACE_MS)
            return true;
    }
    return false;
}

/* Pods of another attempt have other names. */
static void judge_missing(const struct context *c, int stage, struct verdict *v)
{
    char text[STATUS_MESSAGE_BYTES];

    for (int i = 0; i < c->seen->n_pods; i++) {
        const struct seen_pod *p = &c->seen->pods[i];

        if (p->role != POD_TAKEN || p->attempt != c->attempt || p->stage != stage)
            continue;
        (void)snprintf(text, sizeof text,
                       "Pod %s exists already and was not created by the operator: it is ignored. "
                       "Delete it.",
                       p->name);
        add_cause(v, VERDICT_NAME_TAKEN, stage, text);
    }
    if (context_has_started(c) && strcmp(c->seen->status.stages[stage].state, "Succeeded") != 0) {
        (void)snprintf(text, sizeof text, "The pod of stage %d on node %.100s is gone.", stage,
                       c->seen->plan.stages[stage].node);
        add_cause(v, VERDICT_DISRUPTED, stage, text);
    }
}

/* When all who have ended only lost a neighbour, the one that has not ended is the one they lost: a
 * process that is frozen, or a node that is cut off. */
static void find_silent(const struct context *c, struct verdict *v)
{
    char reported[STATUS_MESSAGE_BYTES];

    memcpy(reported, v->text, sizeof reported);
    for (int s = 0; s < c->seen->plan.n_stages; s++) {
        const struct seen_pod *p = context_stage_pod(c, s);

        if (!p || p->phase != POD_RUNNING)
            continue;
        v->stage = s;
        (void)snprintf(
            v->text, sizeof v->text,
            "Stage %d on node %.100s stopped responding: its pod %s is still running, but "
            "the others have lost their connections. %.400s",
            s, p->node, p->name, reported);
        return;
    }
}

void restart_judge(const struct context *c, struct verdict *out)
{
    struct verdict v = {.kind = VERDICT_NONE};

    for (int s = 0; s < c->seen->plan.n_stages; s++) {
        const struct seen_pod *p = context_stage_pod(c, s);

        if (p)
            judge_pod(c, p, &v);
        else
            judge_missing(c, s, &v);
    }
    if (v.kind == VERDICT_PEER_LOST && is_too_early(c))
        v.kind = VERDICT_WAIT;
    if (v.kind == VERDICT_PEER_LOST)
        find_silent(c, &v);
    *out = v;
}

/* --- what follows --- */

static void give_up(struct context *c, const char *reason, const char *text)
{
    struct status *s = &c->out->status;

    context_set(c, NEWS_QUIET,
                &(struct condition_set){CONDITION_RUNNING, CONDITION_FALSE, reason, text});
    context_set(c, NEWS_WARNING,
                &(struct condition_set){CONDITION_FAILED, CONDITION_TRUE, reason, text});
    context_show(c, "Failed", text);
    s->completion_ms = c->seen->now_ms;
}

/* Status keeps whole seconds: round up. */
static void write_pause(struct context *c, int64_t pause_ms)
{
    c->out->status.next_attempt_ms =
        pause_ms > 0 ? (c->seen->now_ms + pause_ms + 999) / 1000 * 1000 : 0;
    context_requeue(c, pause_ms);
}

void restart_next(struct context *c, const char *reason, const char *text, int64_t pause_ms)
{
    struct status *s = &c->out->status;

    if (c->attempt >= NAMES_ATTEMPT_MAX) {
        give_up(c, "RestartLimit", text);
        return;
    }
    context_set(c, NEWS_QUIET,
                &(struct condition_set){CONDITION_RUNNING, CONDITION_FALSE, reason, text});
    context_set(c, NEWS_QUIET,
                &(struct condition_set){CONDITION_PLACED, CONDITION_FALSE, "Restarting", text});
    /* Always an Event: the second loss of a worker is as much news as the first. */
    context_add_event(c, true, reason, text);
    context_show(c, "Restarting", text);
    s->attempt = c->attempt + 1;
    write_pause(c, pause_ms);
    s->progress = (struct status_progress){.remaining_seconds = -1};
    s->n_stages = 0;
    memset(s->stages, 0, sizeof s->stages);
    s->placement = (struct status_placement){.strategy = ""};
    context_requeue(c, 0);
}

/* Every cause of a restart takes part in the same row: a job that is restarted again and again
 * must not keep the cluster busy, whether or not that is its own fault. */
static int64_t next_pause_ms(struct context *c, bool is_first_free)
{
    struct status *s = &c->out->status;
    int64_t trained_ms = c->seen->now_ms - s->conditions[CONDITION_RUNNING].changed_ms;

    if (context_has_started(c) && trained_ms >= HEALTHY_MS)
        s->restarts_in_a_row = 0;
    if (s->restarts_in_a_row < RESTARTS_IN_A_ROW_MAX)
        s->restarts_in_a_row++;
    return backoff_ms(s->restarts_in_a_row - (is_first_free ? 1 : 0), DECIDE_BACKOFF_MS,
                      DECIDE_BACKOFF_MAX_MS);
}

void restart_pause(struct context *c)
{
    write_pause(c, next_pause_ms(c, false));
}

/* A failure that counts. */
static void count(struct context *c, const char *reason, const char *text)
{
    struct status *s = &c->out->status;
    char more[STATUS_MESSAGE_BYTES];

    if (s->restarts >= c->spec.max_restarts) {
        (void)snprintf(more, sizeof more,
                       "%.600s The job has failed after %d of %d restarts "
                       "(spec.failurePolicy.maxRestarts).",
                       text, s->restarts, c->spec.max_restarts);
        give_up(c, "RestartLimit", more);
        return;
    }
    s->restarts++;
    restart_next(c, reason, text, next_pause_ms(c, false));
}

static void more_memory(struct context *c, const char *reason, const struct verdict *v)
{
    struct status *s = &c->out->status;
    int percent = s->memory_percent > 100 ? s->memory_percent : 100;
    int64_t mib = c->seen->plan.stages[v->stage].memory_bytes >> 20;
    char text[STATUS_MESSAGE_BYTES];

    percent =
        percent * 3 / 2 < STATUS_MEMORY_PERCENT_MAX ? percent * 3 / 2 : STATUS_MEMORY_PERCENT_MAX;
    s->memory_percent = percent;
    (void)snprintf(
        text, sizeof text,
        "Stage %d on node %.100s was killed for using more than its %lld MiB. The next "
        "attempt gives every worker %d%% of the planned memory. If that does not help, "
        "lower spec.training.maxSequenceLength or batchSize, or raise spec.placement.maxStages.",
        v->stage, c->seen->plan.stages[v->stage].node, (long long)mib, percent);
    count(c, reason, text);
}

void restart_apply(struct context *c, const struct verdict *v)
{
    enum consequence {
        CONTINUE,
        GIVE_UP,     /* another attempt would end the same way */
        MORE_MEMORY, /* counts, too */
        COUNT,
        PAUSE,
    };
    static const struct {
        enum consequence what;
        const char *reason;
    } rows[] = {
        [VERDICT_NONE] = {CONTINUE, ""},
        [VERDICT_WAIT] = {CONTINUE, ""},
        [VERDICT_PEER_LOST] = {PAUSE, "ConnectionLost"},
        [VERDICT_UNSCHEDULABLE] = {PAUSE, "Unschedulable"},
        [VERDICT_UNREACHABLE] = {PAUSE, "WorkersUnreachable"},
        [VERDICT_START_TIMEOUT] = {PAUSE, "StartTimeout"},
        [VERDICT_NAME_TAKEN] = {PAUSE, "NameTaken"},
        [VERDICT_NO_PROGRESS] = {COUNT, "NoProgress"},
        [VERDICT_FAILED] = {COUNT, "WorkerFailed"},
        [VERDICT_REFUSED] = {COUNT, "PeerTableConflict"},
        [VERDICT_DATA_MISSING] = {PAUSE, "DataMissing"},
        [VERDICT_DISRUPTED] = {PAUSE, "WorkerLost"},
        [VERDICT_OUT_OF_MEMORY] = {MORE_MEMORY, "WorkerOutOfMemory"},
        [VERDICT_OUTPUT] = {GIVE_UP, "OutputFailed"},
        [VERDICT_CONFIG] = {GIVE_UP, "InvalidConfiguration"},
    };
    const char *reason = rows[v->kind].reason;
    /* A worker that was lost in training is replaced at once, the first time. */
    bool is_first_free = v->kind == VERDICT_DISRUPTED && context_has_started(c);

    switch (rows[v->kind].what) {
    case CONTINUE:
        break;
    case GIVE_UP:
        give_up(c, reason, v->text);
        break;
    case MORE_MEMORY:
        more_memory(c, reason, v);
        break;
    case COUNT:
        count(c, reason, v->text);
        break;
    case PAUSE: /* a restart that does not count */
        restart_next(c, reason, v->text, next_pause_ms(c, is_first_free));
        break;
    }
}
