/* What the operator adds to the survey of nodes (cluster/survey.h): the probes of this job, which
 * measure what is not known, and the annotations that keep what they found for the next job.
 */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "control/context.h"
#include "control/manifest.h"

#define PROBE_MEMORY_MAX_BYTES ((int64_t)2 << 30)

/* Or the pod that has taken its name. */
static const struct seen_pod *probe_of(const struct context *c, const struct node_object *node)
{
    for (int i = 0; i < c->seen->n_pods; i++) {
        const struct seen_pod *p = &c->seen->pods[i];

        if ((p->role == POD_PROBE || (p->role == POD_TAKEN && p->attempt == 0)) &&
            strcmp(p->node, node->name) == 0)
            return p;
    }
    return NULL;
}

static void request_probe(struct context *c, const struct node_object *node)
{
    int64_t memory = node->memory_bytes - node->memory_used_bytes;
    struct action *a;
    bool has_spec = false;

    context_add_policy(c);
    for (int i = 0; i < c->out->n_actions; i++)
        has_spec = has_spec || c->out->actions[i].kind == ACTION_CREATE_PROBE_SPEC;
    if (!has_spec)
        (void)context_add(c, ACTION_CREATE_PROBE_SPEC);
    a = context_add(c, ACTION_CREATE_PROBE_POD);
    (void)snprintf(a->node, sizeof a->node, "%s", node->name);
    a->cpu_milli = node_useful_milli(node->cpu_milli - node->cpu_used_milli);
    a->image = oneshot_image(c);
    a->memory_bytes = memory < PROBE_MEMORY_MAX_BYTES ? memory : PROBE_MEMORY_MAX_BYTES;
}

/* The digest that this job's probes have met, `then` if one of them did: an image's name may stand
 * for several, one for each kind of processor. NULL: none. */
static const char *digest_now(const struct observed *seen, const char *then)
{
    const char *digest = NULL;

    for (int i = 0; i < seen->n_pods; i++) {
        const struct seen_pod *p = &seen->pods[i];

        if (p->role == POD_PROBE && p->digest[0] && (!digest || strcmp(digest, then) != 0))
            digest = p->digest;
    }
    return digest;
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
    out->found = pod->probe;
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
    a = context_add(c, ACTION_LABEL_NODE);
    (void)snprintf(a->node, sizeof a->node, "%s", node->name);
    memcpy(a->name, pod->name, sizeof a->name);
}

/* The result of this job's own probe of a node, if there is one. */
static bool has_result(const struct context *c, const struct seen_pod *pod)
{
    return pod && pod->has_probe && pod->cpu_milli > 0 && pod->image_asked == oneshot_image(c);
}

static void report_own(void *ctx, const struct node_object *node, struct survey_own *out)
{
    const struct context *c = ctx;
    const struct seen_pod *pod = probe_of(c, node);

    out->digest = digest_now(c->seen, node->annotations.probe.subject.digest);
    if (has_result(c, pod)) {
        out->found = &pod->probe;
        out->cpu_milli = pod->cpu_milli;
    } else if (pod && !oneshot_is_outdated(c, pod)) {
        out->has_failed = oneshot_has_failed(c, pod);
    }
}

/* As many as there is room for; the others are counted. */
static void note_failure(const struct seen_pod *probe, struct nodes *out)
{
    char why[OBSERVED_TEXT_BYTES];
    char text[sizeof out->failed];
    size_t n = strlen(out->failed);

    oneshot_describe(probe, "its probe", why, sizeof why);
    (void)snprintf(text, sizeof text, "%snode %.60s: %s%s%s", n ? "; " : "", probe->node, why,
                   probe->message[0] ? ": " : "", probe->message);
    if (n + strlen(text) < sizeof out->failed)
        memcpy(out->failed + n, text, strlen(text) + 1);
    else
        out->n_failed_more++;
}

/* Measure it, or wait for the probe that does. */
static void measure(struct context *c, const struct node_object *node, struct nodes *out)
{
    const struct seen_pod *pod = probe_of(c, node);

    out->n_measuring++;
    if (!pod)
        request_probe(c, node);
    else if (oneshot_is_outdated(c, pod))
        context_delete_pod(c, pod);
    else if (!attempt_image_problem(c, pod, out->image_problem))
        (void)attempt_start_problem(pod, out->waits_for, sizeof out->waits_for);
}

enum err_code nodes_survey(struct context *c, struct nodes *out, struct err *err)
{
    struct survey_request request = {.spec = &c->spec,
                                     .namespace = c->seen->namespace,
                                     .image = manifest_image(c->seen, &c->spec),
                                     .created_ms = c->seen->created_ms,
                                     .now_ms = c->seen->now_ms,
                                     .nodes = c->seen->nodes,
                                     .n_nodes = c->seen->n_nodes,
                                     .own = report_own,
                                     .ctx = c};
    enum err_code rc;

    memset(out, 0, sizeof *out);
    rc = survey_make(&request, &out->survey, err);
    if (rc != ERR_OK)
        return rc;
    for (int i = 0; i < out->survey.n_nodes; i++) {
        const struct survey_node *n = &out->survey.nodes[i];
        const struct seen_pod *pod = probe_of(c, n->object);

        if (has_result(c, pod) && n->object->excluded == EXCLUDED_NOT)
            request_annotation(c, n->object, pod);
        if (n->excluded == EXCLUDED_UNMEASURED)
            measure(c, n->object, out);
        else if (n->excluded == EXCLUDED_PROBE_FAILED)
            note_failure(pod, out);
    }
    if (out->n_measuring > 0)
        context_requeue(c, DECIDE_NODES_RETRY_MS); /* some of them may be late by then */
    pairing_begin(c);
    return ERR_OK;
}
