/* Which nodes can take a stage, and how fast they are: what an administrator declared, else what
 * one of our own probes found, else what an earlier job's probe left on the node as long as that
 * holds, else a new probe. With spec.placement.probePolicy Always only what was measured since the
 * job was created counts; with Never nothing is measured, and CPU has to do where nothing is known.
 */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/text.h"
#include "control/manifest.h"
#include "control/parts.h"

#define PROBE_MEMORY_MAX_BYTES ((int64_t)2 << 30)
#define PROBE_RETRY_MS         60000
/* Of one CPU when no node is known. Only ratios matter then, so any figure is as good. */
#define ASSUMED_GFLOPS 20.0
/* A little more than its own deadline, which the kubelet keeps when it has the pod at all. */
#define PROBE_LATE_MS ((MANIFEST_PROBE_SECONDS + 20) * 1000)

enum why_not {
    USABLE = CLOSED_NOT, /* and the other reasons of that, then: */
    NO_CPU = CLOSED_COUNT,
    NO_MEMORY,
    SURPLUS,
    NOT_MEASURED,
    NO_BF16,
    WHY_COUNT,
};

static const char *const why_words[WHY_COUNT - CLOSED_COUNT] = {
    "with less than 100m of CPU free",
    "with less than 160Mi of memory free",
    "beyond the 64 largest",
    "that could not be measured",
    "whose processor cannot do spec.training.precision BF16",
};

static const char *why_word(int why)
{
    return why < CLOSED_COUNT ? closed_word((enum closed)why) : why_words[why - CLOSED_COUNT];
}

static enum why_not why_not(const struct seen_node *n)
{
    if (n->closed != CLOSED_NOT)
        return (enum why_not)n->closed;
    if (n->cpu_milli - n->cpu_used_milli < NODE_CPU_MIN_MILLI)
        return NO_CPU;
    if (n->memory_bytes - n->memory_used_bytes < NODE_MEMORY_MIN_BYTES)
        return NO_MEMORY;
    return USABLE;
}

static int free_milli(const struct seen_node *n)
{
    int64_t left = n->cpu_milli - n->cpu_used_milli;

    return (int)(left > 1000000 ? 1000000 : left);
}

/* Candidates, the ones with most free CPU if there are too many. Their order does not matter. */
struct candidates {
    int n;
    const struct seen_node *list[PARTITION_CANDIDATES_MAX];
    int n_why[WHY_COUNT];
};

static void add_candidate(struct candidates *c, const struct seen_node *node)
{
    int smallest = 0;

    if (c->n < PARTITION_CANDIDATES_MAX) {
        c->list[c->n++] = node;
        return;
    }
    c->n_why[SURPLUS]++;
    for (int i = 1; i < c->n; i++)
        if (free_milli(c->list[i]) < free_milli(c->list[smallest]))
            smallest = i;
    if (free_milli(node) > free_milli(c->list[smallest]))
        c->list[smallest] = node;
}

/* By name: the order in which the store hands nodes out must not decide anything. */
static void sort_candidates(struct candidates *c)
{
    for (int i = 1; i < c->n; i++) {
        const struct seen_node *node = c->list[i];
        int k = i;

        for (; k > 0 && strcmp(c->list[k - 1]->name, node->name) > 0; k--)
            c->list[k] = c->list[k - 1];
        c->list[k] = node;
    }
}

/* Or the pod that has taken its name. */
static const struct seen_pod *probe_of(const struct round *r, const struct seen_node *node)
{
    for (int i = 0; i < r->seen->n_pods; i++) {
        const struct seen_pod *p = &r->seen->pods[i];

        if ((p->role == POD_PROBE || (p->role == POD_TAKEN && p->attempt == 0)) &&
            strcmp(p->node, node->name) == 0)
            return p;
    }
    return NULL;
}

/* It holds a node and does not begin to measure it. */
static bool is_stuck(const struct round *r, const struct seen_pod *probe)
{
    return probe->phase == POD_PENDING && !probe->is_unschedulable &&
           attempt_start_left_ms(r, probe) < 0;
}

static bool has_failed(const struct round *r, const struct seen_pod *probe)
{
    int64_t age_ms = r->seen->now_ms - probe->created_ms;

    if (probe->role == POD_TAKEN)
        return true;
    if (probe->phase == POD_SUCCEEDED || probe->phase == POD_FAILED)
        return !probe->has_probe;
    return age_ms > PROBE_LATE_MS || is_stuck(r, probe) ||
           (probe->is_unschedulable && age_ms > PROBE_RETRY_MS / 2);
}

static uint64_t image_asked(const struct round *r)
{
    return hash_text(manifest_image(r->seen, &r->spec));
}

static void want_probe(struct round *r, const struct seen_node *node)
{
    int64_t memory = node->memory_bytes - node->memory_used_bytes;
    struct action *a;
    bool has_spec = false;

    round_want_policy(r);
    for (int i = 0; i < r->out->n_actions; i++)
        has_spec = has_spec || r->out->actions[i].kind == ACTION_CREATE_PROBE_SPEC;
    if (!has_spec)
        (void)round_want(r, ACTION_CREATE_PROBE_SPEC);
    a = round_want(r, ACTION_CREATE_PROBE_POD);
    (void)snprintf(a->node, sizeof a->node, "%s", node->name);
    a->cpu_milli = node_useful_milli(free_milli(node));
    a->image = image_asked(r);
    a->memory_bytes = memory < PROBE_MEMORY_MAX_BYTES ? memory : PROBE_MEMORY_MAX_BYTES;
}

/* --- what is known of a node --- */

struct figures {
    double gflops; /* with all allocatable CPU */
    double unit_ms;
    const struct node_probe *probe; /* all that was found there; NULL: nobody looked */
    bool is_same_work;              /* it was at this job's shapes and with its data */
};

enum known {
    KNOWN,
    ASSUMED,   /* nobody measured it, and nobody may */
    MEASURING, /* by a probe that is under way, or just asked for */
    FAILED,
    INCAPABLE,
};

/* The digest that this job's probes have met, `then` if one of them did: an image's name may stand
 * for several, one for each kind of processor. */
static void digest_now(const struct observed *seen, const char *then,
                       char out[static MARK_DIGEST_BYTES])
{
    out[0] = '\0';
    for (int i = 0; i < seen->n_pods; i++) {
        const struct seen_pod *p = &seen->pods[i];

        if (p->role != POD_PROBE || p->digest[0] == '\0' || strcmp(out, then) == 0)
            continue;
        memcpy(out, p->digest, MARK_DIGEST_BYTES);
    }
}

static void subject_now(const struct observed *seen, const struct spec *spec,
                        const struct seen_node *node, struct mark_subject *out)
{
    memset(out, 0, sizeof *out);
    out->cpu_milli = node->cpu_milli;
    out->memory_bytes = node->memory_bytes;
    memcpy(out->cpu, node->mark.cpu, sizeof out->cpu);
    (void)snprintf(out->image, sizeof out->image, "%s", manifest_image(seen, spec));
    mark_work(spec, seen->namespace, out->work);
}

void nodes_mark(const struct observed *seen, const struct spec *spec, const struct seen_node *node,
                const struct seen_pod *pod, struct mark_probe *out)
{
    int64_t time_ms = pod->finished_ms > 0 ? pod->finished_ms : pod->created_ms;

    memset(out, 0, sizeof *out);
    subject_now(seen, spec, node, &out->subject);
    memcpy(out->subject.digest, pod->digest, sizeof out->subject.digest);
    out->found = pod->probe;
    out->cpu_milli = pod->cpu_milli;
    out->time_ms = time_ms / 1000 * 1000; /* as it is written */
}

/* For the next job, which then need not measure. Of two jobs that did, the later one is right. What
 * an image of the user's own has found is for that job only: it may claim anything, and other
 * users' jobs would believe it. */
static void want_label(struct round *r, const struct seen_node *node, const struct seen_pod *pod,
                       const struct mark_probe *mine)
{
    int64_t time_ms = node->mark.probe.time_ms;
    struct action *a;

    if (strcmp(mine->subject.image, r->seen->settings.worker_image) != 0)
        return;
    if (node->mark.has_probe &&
        (time_ms == mine->time_ms || (time_ms > mine->time_ms && time_ms <= r->seen->now_ms)))
        return;
    a = round_want(r, ACTION_LABEL_NODE);
    (void)snprintf(a->node, sizeof a->node, "%s", node->name);
    memcpy(a->name, pod->name, sizeof a->name);
}

/* Another node whose measurement contradicts this one's; NULL: there is none. */
static const struct seen_node *contradicts(const struct round *r, const struct seen_node *node)
{
    for (int i = 0; i < r->seen->n_nodes; i++) {
        const struct seen_node *other = &r->seen->nodes[i];

        if (node->mark.has_probe && other->mark.has_probe && other->closed == CLOSED_NOT &&
            !other->mark.probe.is_contradicted &&
            mark_contradict(&node->mark.probe, &other->mark.probe))
            return other;
    }
    return NULL;
}

/* What was measured for this job counts all the same: no job measures a node twice for this. */
static bool is_implausible(const struct round *r, const struct seen_node *node)
{
    return node->mark.probe.time_ms < r->seen->created_ms && contradicts(r, node);
}

/* Does what an earlier probe left on the node still count? */
static bool holds(const struct round *r, const struct seen_node *node)
{
    const struct mark_probe *p = &node->mark.probe;
    struct mark_subject now;

    if (!node->mark.has_probe || r->spec.placement.probe == SPEC_PROBE_NEVER)
        return node->mark.has_probe;
    if (r->spec.placement.probe == SPEC_PROBE_ALWAYS && p->time_ms < r->seen->created_ms)
        return false;
    subject_now(r->seen, &r->spec, node, &now);
    digest_now(r->seen, p->subject.digest, now.digest);
    return mark_stale(p, &now, r->seen->now_ms) == NULL && !is_implausible(r, node);
}

/* What this job's probe found, or an earlier one that holds. */
static bool take_measured(struct round *r, const struct seen_node *node, struct figures *f)
{
    const struct seen_pod *pod = probe_of(r, node);
    struct mark_probe mine;
    char work[MARK_WORK_BYTES];

    if (pod && pod->has_probe && pod->cpu_milli > 0 && pod->image_asked == image_asked(r)) {
        nodes_mark(r->seen, &r->spec, node, pod, &mine);
        want_label(r, node, pod, &mine);
        *f = (struct figures){mark_gflops(&mine), pod->probe.unit_ms, &pod->probe, true};
        return true;
    }
    if (!holds(r, node))
        return false;
    mark_work(&r->spec, r->seen->namespace, work);
    *f =
        (struct figures){mark_gflops(&node->mark.probe), node->mark.probe.found.unit_ms,
                         &node->mark.probe.found, strcmp(node->mark.probe.subject.work, work) == 0};
    return true;
}

static enum known know(struct round *r, const struct seen_node *node, struct figures *f)
{
    bool is_measured = take_measured(r, node, f);
    const struct seen_pod *pod = probe_of(r, node);

    if (r->spec.training.precision == SPEC_PRECISION_BF16 &&
        mark_bf16(&node->mark, f->probe) == NODE_NO)
        return INCAPABLE;
    if (node->mark.gflops > 0 && r->spec.placement.probe != SPEC_PROBE_ALWAYS) {
        f->gflops = node->mark.gflops;
        f->unit_ms = node->mark.unit_ms;
        return KNOWN;
    }
    if (is_measured)
        return KNOWN;
    if (r->spec.placement.probe == SPEC_PROBE_NEVER)
        return ASSUMED;
    if (!pod)
        want_probe(r, node);
    if (pod && pod->role == POD_PROBE && pod->image_asked != image_asked(r)) {
        round_delete_pod(r, pod); /* the spec has another image by now */
        return MEASURING;
    }
    return pod && has_failed(r, pod) ? FAILED : MEASURING;
}

/* A mark that is wrong is somebody's mistake, who should hear of it. */
static void note_bad_mark(const struct seen_node *node, struct nodes *out)
{
    if (node->mark.bad[0] && out->n_bad_marks++ == 0)
        (void)snprintf(out->bad_mark, sizeof out->bad_mark, "node %.60s: %s, and is not used",
                       node->name, node->mark.bad);
}

/* Why a probe has no result, in a few words. */
static void describe_failure(const struct seen_pod *probe, char *out, size_t bytes)
{
    const char *why = probe->reason[0] ? probe->reason : "no reason given";

    if (probe->role == POD_TAKEN)
        (void)snprintf(out, bytes, "pod %s exists already and was not created by the operator",
                       probe->name);
    else if (probe->phase == POD_PENDING)
        (void)snprintf(out, bytes, "its probe did not start (%s)",
                       probe->is_unschedulable ? "Unschedulable" : why);
    else if (probe->phase == POD_RUNNING)
        (void)snprintf(out, bytes, "its probe does not end");
    else if (probe->phase == POD_SUCCEEDED)
        (void)snprintf(out, bytes, "its probe left no result that makes sense");
    else if (probe->has_exit_code)
        (void)snprintf(out, bytes, "its probe ended with code %d (%s)", probe->exit_code, why);
    else
        (void)snprintf(out, bytes, "its probe failed (%s)", why);
}

/* As many as there is room for; the others are counted. */
static void note_failure(const struct seen_pod *probe, struct nodes *out)
{
    char why[OBSERVED_TEXT_BYTES];
    char text[sizeof out->failed];
    size_t n = strlen(out->failed);

    describe_failure(probe, why, sizeof why);
    (void)snprintf(text, sizeof text, "%snode %.60s: %s%s%s", n ? "; " : "", probe->node, why,
                   probe->message[0] ? ": " : "", probe->message);
    if (n + strlen(text) < sizeof out->failed)
        memcpy(out->failed + n, text, strlen(text) + 1);
    else
        out->n_failed_more++;
}

static void take_node(struct round *r, const struct seen_node *from, struct candidates *c,
                      struct nodes *out)
{
    struct node *to = &out->list[out->n_known];
    struct figures f = {.gflops = 0};
    enum known known = know(r, from, &f);
    const struct seen_pod *probe = probe_of(r, from);

    note_bad_mark(from, out);
    if (known == FAILED)
        note_failure(probe, out);
    if (known == FAILED || known == INCAPABLE) {
        c->n_why[known == FAILED ? NOT_MEASURED : NO_BF16]++;
        return;
    }
    if (known == MEASURING) {
        out->n_measuring++;
        if (probe && !attempt_image_problem(r, probe, out->image_problem))
            (void)attempt_start_problem(probe, out->waits_for, sizeof out->waits_for);
        return;
    }
    (void)snprintf(to->name, sizeof to->name, "%s", from->name);
    to->cpu_milli = node_useful_milli(free_milli(from));
    to->memory_bytes = from->memory_bytes - from->memory_used_bytes;
    to->gflops =
        f.gflops * to->cpu_milli / node_useful_milli(from->cpu_milli); /* 0: assumed below */
    to->unit_ms = f.unit_ms;
    if (f.probe)
        to->message = f.probe->message;
    if (f.gflops > 0 && from->mark.gflops <= 0 && out->doubtful[0] == '\0' && contradicts(r, from))
        (void)snprintf(out->doubtful, sizeof out->doubtful,
                       "Of %.60s and %.60s, which have the same processor, the one with less CPU "
                       "was measured faster",
                       from->name, contradicts(r, from)->name);
    out->marks[out->n_known] = &from->mark;
    out->probes[out->n_known] = f.probe;
    if (f.probe && f.is_same_work && f.probe->lengths.mean > 0)
        out->lengths = f.probe->lengths; /* the data are the same everywhere */
    if (f.probe && f.is_same_work && f.probe->pace.attention > 0)
        out->pace = f.probe->pace; /* and so are the shapes */
    out->n_known++;
}

/* Without a figure a CPU counts as much as the others' do on average. */
static void assume_speeds(struct nodes *out)
{
    double sum = 0;
    int n = 0;

    for (int i = 0; i < out->n_known; i++) {
        sum += out->list[i].gflops / out->list[i].cpu_milli;
        n += out->list[i].gflops > 0;
    }
    for (int i = 0; i < out->n_known; i++) {
        struct node *to = &out->list[i];

        if (to->gflops > 0)
            continue;
        to->gflops = to->cpu_milli * (n > 0 ? sum / n : ASSUMED_GFLOPS / 1000);
        out->n_assumed++;
    }
}

static void write_left_out(const struct candidates *c, char *out, size_t bytes)
{
    out[0] = '\0';
    for (int i = USABLE + 1; i < WHY_COUNT; i++)
        if (c->n_why[i] > 0)
            text_add(out, bytes, "%s%d %s", out[0] ? ", " : "", c->n_why[i], why_word(i));
}

void nodes_survey(struct round *r, struct nodes *out)
{
    struct candidates c = {0};

    memset(out, 0, sizeof *out);
    for (int i = 0; i < r->seen->n_nodes; i++) {
        enum why_not why = why_not(&r->seen->nodes[i]);

        if (why == USABLE)
            add_candidate(&c, &r->seen->nodes[i]);
        else
            c.n_why[why]++;
    }
    sort_candidates(&c);
    for (int i = 0; i < c.n; i++)
        take_node(r, c.list[i], &c, out);
    assume_speeds(out);
    write_left_out(&c, out->left_out, sizeof out->left_out);
    if (out->n_measuring > 0)
        round_again(r, DECIDE_NODES_RETRY_MS); /* some of them may be late by then */
    tour_begin(r);
}

void nodes_retry(struct round *r)
{
    bool has_stuck = false;

    for (int i = 0; i < r->seen->n_pods; i++) {
        const struct seen_pod *p = &r->seen->pods[i];
        int64_t age_ms = r->seen->now_ms - p->created_ms;

        if (p->role != POD_PROBE || !has_failed(r, p))
            continue;
        has_stuck = has_stuck || is_stuck(r, p);
        if (age_ms >= PROBE_RETRY_MS)
            round_delete_pod(r, p);
        else
            round_again(r, PROBE_RETRY_MS - age_ms);
    }
    if (has_stuck)
        restart_pause(r); /* others may have the nodes meanwhile */
}
