/* Pods that run once and leave a report: the probes that measure nodes, and the reader of the sizes
 * of the model to start from. */
#include <stdio.h>
#include <string.h>

#include "api/bert_config.h"
#include "base/buf.h"
#include "base/hash.h"
#include "control/context.h"
#include "control/manifest.h"

#define RETRY_MS 60000
/* A little more than its own deadline, which the kubelet keeps when it has the pod at all. */
#define LATE_MS ((MANIFEST_ONESHOT_SECONDS + 20) * 1000)

#define PROBE_MEMORY_MAX_BYTES ((int64_t)2 << 30)

/* For probes that start late; a probe itself waits a little longer. */
#define PAIRING_WAIT_MS 6000

/* The pod of this role and name, or the one that has taken its name. */
static const struct seen_pod *find_pod(const struct context *c, enum pod_role role,
                                       const char *name)
{
    for (int i = 0; i < c->seen->n_pods; i++) {
        const struct seen_pod *p = &c->seen->pods[i];

        if ((p->role == role || p->role == POD_FOREIGN) && strcmp(p->name, name) == 0)
            return p;
    }
    return NULL;
}

/* It holds a node and does not start there. */
static bool is_stuck(const struct context *c, const struct seen_pod *pod)
{
    return pod->phase == POD_PENDING && !pod->is_unschedulable && pod_start_left_ms(c, pod) < 0;
}

/* It has ended without a report, or will not leave one. */
static bool has_failed(const struct context *c, const struct seen_pod *pod)
{
    int64_t age_ms = c->seen->now_ms - pod->created_ms;

    if (pod->role == POD_FOREIGN)
        return true;
    if (pod->phase == POD_SUCCEEDED || pod->phase == POD_FAILED)
        return !pod->probe && !pod->model;
    return age_ms > LATE_MS || is_stuck(c, pod) || (pod->is_unschedulable && age_ms > RETRY_MS / 2);
}

static uint64_t image_of(const struct context *c)
{
    return hash_text(manifest_image(c->seen, &c->spec));
}

/* The spec has asked for another image since the pod was created. */
static bool is_outdated(const struct context *c, const struct seen_pod *pod)
{
    return pod->role != POD_FOREIGN && pod->image_asked != image_of(c);
}

/* Why it has failed, in a few words behind `what`, which names the pod. */
static void describe(const struct seen_pod *pod, const char *what, char *out, size_t bytes)
{
    const char *why = pod->reason[0] ? pod->reason : "no reason reported";

    if (pod->role == POD_FOREIGN)
        (void)snprintf(out, bytes, "pod %s exists already and was not created by the operator",
                       pod->name);
    else if (pod->phase == POD_PENDING)
        (void)snprintf(out, bytes, "%s did not start (%s)", what,
                       pod->is_unschedulable ? "Unschedulable" : why);
    else if (pod->phase == POD_RUNNING)
        (void)snprintf(out, bytes, "%s does not end", what);
    else if (pod->phase == POD_SUCCEEDED)
        (void)snprintf(out, bytes, "%s left no valid result", what);
    else if (pod->has_exit_code)
        (void)snprintf(out, bytes, "%s ended with code %d (%s)", what, pod->exit_code, why);
    else
        (void)snprintf(out, bytes, "%s failed (%s)", what, why);
}

bool oneshot_drop_failed(struct context *c, enum pod_role role)
{
    bool has_stuck = false;

    for (int i = 0; i < c->seen->n_pods; i++) {
        const struct seen_pod *p = &c->seen->pods[i];
        int64_t age_ms = c->seen->now_ms - p->created_ms;

        if (p->role != role || !has_failed(c, p))
            continue;
        has_stuck = has_stuck || is_stuck(c, p);
        if (age_ms >= RETRY_MS)
            context_delete_pod(c, p);
        else
            context_requeue(c, RETRY_MS - age_ms);
    }
    return has_stuck;
}

void oneshot_retry(struct context *c, enum pod_role role)
{
    if (oneshot_drop_failed(c, role))
        restart_pause(c); /* others may have the nodes meanwhile */
}

/* --- the model --- */

/* A user may correct the spec while the model cannot be read: then read it anew. */
static bool is_edited(const struct context *c)
{
    return c->seen->status.generation != c->seen->generation;
}

enum err_code model_check_given(const struct context *c, struct err *err)
{
    const struct model *read = &c->seen->status.model;

    if (spec_has_sizes(&c->spec) || read->hidden == 0 || is_edited(c))
        return ERR_OK;
    return bert_config_check("config.json of spec.model.from", read, &c->spec.model, err);
}

/* With what keeps the pod from starting or has ended it; NULL: it has not been seen yet. */
static void show_reader(struct context *c, const struct seen_pod *pod)
{
    const struct spec_volume *from = &c->spec.from;
    bool is_failed = pod && has_failed(c, pod);
    char why[STATUS_MESSAGE_BYTES / 2] = "";
    char text[STATUS_MESSAGE_BYTES];

    if (pod && pod->phase == POD_PENDING && !is_failed)
        pod_request_events(c, pod);
    if (is_failed)
        oneshot_retry(c, POD_MODEL);
    if (pod && pod_image_problem(c, pod, why)) {
        context_wait(c, "Waiting", EVENT_WARNING, "ImagePullFailed", why);
        return;
    }
    if (is_failed) {
        if (pod->has_exit_code && pod->message[0]) {
            (void)snprintf(why, sizeof why, "%s", pod->message);
        } else {
            describe(pod, "the pod that reads it", why, sizeof why);
            text_add(why, sizeof why, "%s%s", pod->message[0] ? ": " : "", pod->message);
        }
        (void)snprintf(text, sizeof text,
                       "Cannot read the sizes of the model in PersistentVolumeClaim \"%.60s\", "
                       "folder \"%.80s\": %s. Correct that, or create the job with "
                       "spec.model.preset or sizes. Trying again every minute.",
                       from->claim, from->path[0] ? from->path : "/", why);
        context_wait(c, "Waiting", EVENT_WARNING, "ModelNotRead", text);
        return;
    }
    (void)snprintf(text, sizeof text,
                   "Reading the sizes of the model in PersistentVolumeClaim \"%.100s\".",
                   from->claim);
    if (pod && pod_start_problem(pod, why, sizeof why))
        text_add(text, sizeof text, " %s", why);
    context_wait(c, "Waiting", EVENT_NORMAL, "ReadingModel", text);
}

bool model_waits(struct context *c)
{
    const struct seen_pod *pod;
    char name[NAMES_BYTES];
    bool is_ours;
    bool is_replaced;

    names_model_pod(c->seen->name, c->seen->uid, name);
    pod = find_pod(c, POD_MODEL, name);
    is_ours = pod && pod->role == POD_MODEL;
    is_replaced = is_ours && (is_edited(c) || is_outdated(c, pod));
    if (spec_has_sizes(&c->spec)) {
        if (is_ours)
            context_delete_pod(c, pod);
        return false;
    }
    context_requeue(c, DECIDE_NODES_RETRY_MS); /* the pod may be late by then */
    if (is_edited(c))
        c->out->status.model = (struct model){.hidden = 0};
    if (!pod)
        context_add(c, ACTION_CREATE_MODEL_POD)->image = image_of(c);
    else if (is_replaced)
        context_delete_pod(c, pod);
    else if (is_ours && pod->model)
        c->out->status.model = *pod->model;
    show_reader(c, is_replaced || (is_ours && pod->model) ? NULL : pod);
    return true;
}

/* --- nodes --- */

static const struct seen_pod *probe_of(const struct context *c, const struct node_object *node)
{
    char name[NAMES_BYTES];

    names_probe_pod(c->seen->name, c->seen->uid, node->name, name);
    return find_pod(c, POD_PROBE, name);
}

void nodes_annotation(const struct observed *seen, const struct spec *spec,
                      const struct node_object *node, const struct seen_pod *pod,
                      struct annotation_probe *out)
{
    int64_t time_ms = pod->finished_ms > 0 ? pod->finished_ms : pod->created_ms;

    memset(out, 0, sizeof *out);
    out->subject.cpu_milli = node->cpu_milli;
    out->subject.memory_bytes = node->memory_bytes;
    memcpy(out->subject.cpu, node->annotations.cpu, sizeof out->subject.cpu);
    (void)snprintf(out->subject.image, sizeof out->subject.image, "%s", manifest_image(seen, spec));
    annotation_work(spec, seen->namespace, out->subject.work);
    memcpy(out->subject.digest, pod->digest, sizeof out->subject.digest);
    out->found = *pod->probe;
    out->cpu_milli = pod->cpu_milli;
    out->time_ms = time_ms / 1000 * 1000; /* as it is written */
}

/* For the next job, which then need not measure. Of two jobs that did, the later one is right. What
 * an image of the user's own has found is for that job only: it may claim anything, and other
 * users' jobs would believe it. */
static void request_annotation(struct context *c, const struct node_object *node,
                               const struct seen_pod *pod)
{
    int64_t time_ms = node->annotations.probe.time_ms;
    struct annotation_probe mine;
    struct action *a;

    nodes_annotation(c->seen, &c->spec, node, pod, &mine);
    if (strcmp(mine.subject.image, c->seen->settings.worker_image) != 0)
        return;
    if (node->annotations.has_probe &&
        (time_ms == mine.time_ms || (time_ms > mine.time_ms && time_ms <= c->seen->now_ms)))
        return;
    a = context_add(c, ACTION_ANNOTATE_NODE);
    (void)snprintf(a->node, sizeof a->node, "%s", node->name);
    memcpy(a->name, pod->name, sizeof a->name);
}

/* The result of this job's own probe of a node, if there is one. */
static bool has_result(const struct context *c, const struct seen_pod *pod)
{
    return pod && pod->probe && pod->cpu_milli > 0 && pod->image_asked == image_of(c);
}

static void report_own(void *ctx, const struct node_object *node, struct survey_own *out)
{
    const struct context *c = ctx;
    const struct seen_pod *pod = probe_of(c, node);
    const char *then = node->annotations.probe.subject.digest;

    out->is_silent = recovery_has_silent(c, node->name);
    /* The digest that this job's probes ran with, `then` if one of them did: an image's name may
     * stand for several, one for each kind of processor. */
    for (int i = 0; i < c->seen->n_pods; i++) {
        const struct seen_pod *p = &c->seen->pods[i];

        if (p->role == POD_PROBE && p->digest[0] &&
            (!out->digest || strcmp(out->digest, then) != 0))
            out->digest = p->digest;
    }
    if (has_result(c, pod)) {
        out->found = pod->probe;
        out->cpu_milli = pod->cpu_milli;
    } else if (pod && !is_outdated(c, pod)) {
        out->has_failed = has_failed(c, pod);
    }
}

/* Measure it, or wait for the probe that does. */
static void measure(struct context *c, const struct node_object *node, struct nodes *out)
{
    const struct seen_pod *pod = probe_of(c, node);
    int64_t memory = node->memory_bytes - node->memory_used_bytes;
    struct action *a;

    out->n_measuring++;
    if (pod && is_outdated(c, pod)) {
        context_delete_pod(c, pod);
    } else if (pod) {
        if (!pod_image_problem(c, pod, out->image_problem))
            (void)pod_start_problem(pod, out->waits_for, sizeof out->waits_for);
    } else {
        context_add_policy(c);
        context_add_once(c, ACTION_CREATE_PROBE_SPEC);
        a = context_add(c, ACTION_CREATE_PROBE_POD);
        (void)snprintf(a->node, sizeof a->node, "%s", node->name);
        a->cpu_milli = node_useful_milli(node->cpu_milli - node->cpu_used_milli);
        a->image = image_of(c);
        a->memory_bytes = memory < PROBE_MEMORY_MAX_BYTES ? memory : PROBE_MEMORY_MAX_BYTES;
    }
}

/* The circle method: one stays, the others move on by one place per round, opposites are paired. */
int pairing_rounds(int n)
{
    return n < 2 ? 0 : n - 1 + n % 2;
}

int pairing_partner(int n, int round, int i)
{
    int m = n + n % 2; /* with a dummy, if there is one too many */
    int partner;

    if (n < 2)
        return -1;
    if (i == m - 1) { /* it is paired with the one that would be paired with itself */
        for (partner = 0; (2 * partner - round) % (m - 1) != 0; partner++)
            ;
        return partner;
    }
    partner = ((round - i) % (m - 1) + m - 1) % (m - 1);
    if (partner == i)
        partner = m - 1;
    return partner < n ? partner : -1;
}

static bool waits_for_table(const struct seen_pod *p)
{
    return p->role == POD_PROBE && !p->is_deleting && p->phase == POD_RUNNING && p->ip[0] &&
           p->accepted == 0;
}

/* Send the running probes their partners, once all of them run or after a while. */
static void begin_pairing(struct context *c)
{
    int64_t first_ms = INT64_MAX;
    int64_t left_ms;
    bool all_run = true;

    for (int i = 0; i < c->out->n_actions; i++) /* those to be created are waited for, too */
        all_run = all_run && c->out->actions[i].kind != ACTION_CREATE_PROBE_POD;
    for (int i = 0; i < c->seen->n_pods; i++) {
        const struct seen_pod *p = &c->seen->pods[i];
        int64_t start_ms = p->started_ms;

        if (start_ms < p->created_ms || start_ms > c->seen->now_ms)
            start_ms = p->created_ms; /* its node's clock is another */
        if (waits_for_table(p) && start_ms < first_ms)
            first_ms = start_ms;
        if (p->role == POD_PROBE && !p->is_deleting &&
            (p->phase == POD_PENDING || (p->phase == POD_RUNNING && p->ip[0] == '\0')))
            all_run = false;
    }
    if (first_ms == INT64_MAX)
        return;
    left_ms = first_ms + PAIRING_WAIT_MS - c->seen->now_ms;
    if (left_ms > 0 && !all_run) {
        context_requeue(c, left_ms);
        return;
    }
    for (int i = 0; i < c->seen->n_pods; i++)
        if (waits_for_table(&c->seen->pods[i]))
            memcpy(context_add(c, ACTION_POST_PROBE_PEERS)->name, c->seen->pods[i].name,
                   NAMES_BYTES);
}

enum err_code nodes_survey(struct context *c, struct nodes *out, struct err *err)
{
    struct survey_request request = context_survey(c, &c->spec);
    enum err_code rc;

    memset(out, 0, sizeof *out);
    request.own = report_own;
    request.ctx = c;
    rc = survey_make(&request, &out->survey, err);
    if (rc != ERR_OK)
        return rc;
    for (int i = 0; i < out->survey.n_nodes; i++) {
        const struct survey_node *n = &out->survey.nodes[i];
        const struct seen_pod *pod = probe_of(c, n->object);
        char why[OBSERVED_TEXT_BYTES];
        char text[sizeof out->failed];
        size_t n_failed = strlen(out->failed);

        if (has_result(c, pod) && node_object_exclusion(n->object, request.worker) == EXCLUDED_NOT)
            request_annotation(c, n->object, pod);
        /* Where a worker trains, a probe would get in the way, and the speed shows without it. */
        if (n->excluded == EXCLUDED_UNMEASURED &&
            !(c->has_plan && context_has_worker(c, n->object->name)))
            measure(c, n->object, out);
        if (n->excluded != EXCLUDED_PROBE_FAILED)
            continue;
        describe(pod, "its probe", why, sizeof why);
        (void)snprintf(text, sizeof text, "%snode %.60s: %s%s%s", n_failed ? "; " : "", pod->node,
                       why, pod->message[0] ? ": " : "", pod->message);
        if (n_failed + strlen(text) < sizeof out->failed)
            memcpy(out->failed + n_failed, text, strlen(text) + 1);
        else
            out->n_failed_more++;
    }
    if (out->n_measuring > 0)
        context_requeue(c, DECIDE_NODES_RETRY_MS); /* some of them may be late by then */
    begin_pairing(c);
    return ERR_OK;
}
