#include "cluster/survey.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

/* Of one CPU when no speed is known at all. Only ratios matter then, so any figure is as good. */
#define ASSUMED_GFLOPS 20.0

/* Another node whose measurement contradicts this one's. */
static const struct node_object *rival_of(const struct survey_request *r,
                                          const struct node_object *node)
{
    for (int i = 0; i < r->n_nodes; i++) {
        const struct node_object *other = &r->nodes[i];

        if (node->annotations.has_probe && other->annotations.has_probe &&
            !other->annotations.probe.is_contradicted &&
            annotation_contradict(&node->annotations.probe, &other->annotations.probe) &&
            node_object_exclusion(other, r->worker) == EXCLUDED_NOT)
            return other;
    }
    return NULL;
}

/* Why the measurement in the node's annotation does not hold for this job; NULL: it does. */
static const char *stale_reason(const struct survey_request *r, const struct node_object *node,
                                const struct survey_own *own)
{
    const struct annotation_probe *p = &node->annotations.probe;
    bool is_earlier = p->time_ms < r->created_ms;
    struct annotation_subject now = {.cpu_milli = node->cpu_milli,
                                     .memory_bytes = node->memory_bytes};
    const char *stale;

    if (is_earlier && r->spec->placement.probe == SPEC_PROBE_ALWAYS)
        return "measured for an earlier job, and spec.placement.probePolicy is Always";
    memcpy(now.cpu, node->annotations.cpu, sizeof now.cpu);
    (void)snprintf(now.image, sizeof now.image, "%s", r->image);
    (void)snprintf(now.digest, sizeof now.digest, "%s", own->digest ? own->digest : "");
    annotation_work(r->spec, r->namespace, now.work);
    stale = annotation_stale(p, &now, r->now_ms);
    /* What was measured for this job counts all the same: no job measures a node twice for this. */
    if (!stale && is_earlier && rival_of(r, node))
        stale = "contradicted by the measurement of a node with the same processor";
    return stale;
}

static void take_annotation(const struct survey_request *r, struct survey_node *n)
{
    const struct annotation_probe *p = &n->object->annotations.probe;
    char work[ANNOTATION_WORK_BYTES];

    annotation_work(r->spec, r->namespace, work);
    n->gflops = annotation_gflops(p);
    n->unit_ms = p->found.unit_ms;
    n->probe = &p->found;
    n->is_same_work = strcmp(p->subject.work, work) == 0;
}

static void take_declared(struct survey_node *n, const char *stale)
{
    n->gflops = n->object->annotations.gflops;
    n->unit_ms = n->object->annotations.unit_ms;
    n->stale = stale;
}

/* Is the node a candidate, and with which figures? */
static enum exclusion judge(const struct survey_request *r, struct survey_node *n)
{
    const struct node_object *node = n->object;
    const struct annotations *annotations = &node->annotations;
    enum spec_probe policy = r->spec->placement.probe;
    struct survey_own own = {.found = NULL};
    enum node_answer has_bf16 = annotations->has_bf16;
    enum exclusion why = node_object_exclusion(node, r->worker);

    if (why != EXCLUDED_NOT)
        return why;
    if (node->cpu_milli < 1 || node->memory_bytes < 1)
        return EXCLUDED_UNREADABLE;
    if (node->cpu_milli - node->cpu_used_milli < NODE_CPU_MIN_MILLI)
        return EXCLUDED_CPU;
    if (node->memory_bytes - node->memory_used_bytes < NODE_MEMORY_MIN_BYTES)
        return EXCLUDED_MEMORY;
    if (r->own)
        r->own(r->ctx, node, &own);
    if (own.is_silent)
        return EXCLUDED_SILENT;
    if (own.found) {
        n->gflops = own.found->gflops * node_useful_milli(node->cpu_milli) /
                    node_useful_milli(own.cpu_milli);
        n->unit_ms = own.found->unit_ms;
        n->probe = own.found;
        n->is_same_work = true;
    } else if (annotations->has_probe) {
        n->stale = stale_reason(r, node, &own);
        if (!n->stale || policy == SPEC_PROBE_NEVER)
            take_annotation(r, n);
    }
    if (n->probe && n->probe->has_bf16 != NODE_UNKNOWN)
        has_bf16 = n->probe->has_bf16;
    if (r->spec->training.precision == SPEC_PRECISION_BF16 && has_bf16 == NODE_NO)
        return EXCLUDED_BF16;
    if (annotations->gflops > 0 && policy != SPEC_PROBE_ALWAYS) {
        take_declared(n, NULL);
    } else if (n->probe) {
        n->rival = rival_of(r, node);
    } else if (policy == SPEC_PROBE_NEVER) {
        n->is_assumed = true;
    } else if (own.has_failed) {
        return EXCLUDED_PROBE_FAILED;
    } else if (r->own || (!annotations->has_probe && annotations->gflops <= 0)) {
        return EXCLUDED_UNMEASURED;
    } else if (annotations->has_probe) {
        take_annotation(r, n);
    } else {
        take_declared(n, "declared, and spec.placement.probePolicy is Always");
    }
    return EXCLUDED_NOT;
}

/* A share of the CPU has that share of the speed. */
static void add_candidate(struct survey *s, struct survey_node *n)
{
    const struct node_object *from = n->object;
    struct node *to = &s->candidates[s->n_candidates];

    (void)snprintf(to->name, sizeof to->name, "%s", from->name);
    to->cpu_milli = node_useful_milli(from->cpu_milli - from->cpu_used_milli);
    to->memory_bytes = from->memory_bytes - from->memory_used_bytes;
    to->gflops = n->gflops * to->cpu_milli / node_useful_milli(from->cpu_milli);
    to->unit_ms = n->unit_ms;
    if (n->probe)
        to->message = n->probe->message;
    s->entries[s->n_candidates++] = n;
}

/* What depends on all candidates. */
static void complete(struct survey *s)
{
    double lengths_gflops = 0;
    double pace_gflops = 0;
    double sum = 0;
    int n = 0;

    for (int i = 0; i < s->n_candidates; i++) {
        sum += s->candidates[i].gflops / s->candidates[i].cpu_milli;
        n += !s->entries[i]->is_assumed;
    }
    for (int i = 0; i < s->n_candidates; i++) {
        const struct node_probe *p = s->entries[i]->probe;
        struct node *to = &s->candidates[i];

        if (s->entries[i]->is_assumed) { /* a CPU counts as much as the others' do on average */
            to->gflops = to->cpu_milli * (n > 0 ? sum / n : ASSUMED_GFLOPS / 1000);
            s->n_assumed++;
        }
        if (!p || !s->entries[i]->is_same_work)
            continue;
        if (p->lengths.mean > 0 && to->gflops > lengths_gflops) {
            s->lengths = p->lengths;
            lengths_gflops = to->gflops;
        }
        if (p->pace.attention > 0 && to->gflops > pace_gflops) {
            s->pace = p->pace;
            pace_gflops = to->gflops;
        }
    }
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct survey_node *)a)->object->name,
                  ((const struct survey_node *)b)->object->name);
}

enum err_code survey_make(const struct survey_request *r, struct survey *out, struct err *err)
{
    size_t n = (size_t)r->n_nodes;
    struct survey s = {.n_nodes = r->n_nodes,
                       .nodes = calloc(n + 1, sizeof *s.nodes),
                       .candidates = calloc(n + 1, sizeof *s.candidates),
                       .entries = calloc(n + 1, sizeof *s.entries)};

    if (!s.nodes || !s.candidates || !s.entries) {
        survey_deinit(&s);
        return err_set(err, ERR_NO_MEMORY, "no memory for %d nodes", r->n_nodes);
    }
    for (int i = 0; i < r->n_nodes; i++)
        s.nodes[i].object = &r->nodes[i];
    qsort(s.nodes, n, sizeof *s.nodes, compare_names);
    for (int i = 0; i < r->n_nodes; i++) {
        s.nodes[i].excluded = judge(r, &s.nodes[i]);
        s.n_excluded[s.nodes[i].excluded]++;
        s.n_bad += s.nodes[i].object->annotations.bad[0] != '\0';
        if (s.nodes[i].excluded == EXCLUDED_NOT)
            add_candidate(&s, &s.nodes[i]);
    }
    complete(&s);
    *out = s;
    return ERR_OK;
}

enum err_code survey_link(struct survey *s, struct err *err)
{
    size_t n = (size_t)s->n_candidates;
    struct network_node *network = calloc(n + 1, sizeof *network);
    struct cost_link *links = NULL;

    if (network && n <= SURVEY_LINKS_MAX)
        links = calloc(n * n + 1, sizeof *links);
    for (size_t i = 0; links && i < n; i++)
        network[i] = (struct network_node){
            s->candidates[i].name, &s->entries[i]->object->annotations, s->entries[i]->probe};
    if (links && network_links(network, s->n_candidates, links)) {
        s->links = links;
        links = NULL;
    } else if (!links && n <= SURVEY_LINKS_MAX) {
        free(network);
        return err_set(err, ERR_NO_MEMORY, "no memory for the links of %zu nodes", n);
    }
    free(links);
    free(network);
    return ERR_OK;
}

void survey_deinit(struct survey *s)
{
    free(s->nodes);
    free(s->candidates);
    free(s->entries);
    free(s->links);
    *s = (struct survey){.n_nodes = 0};
}

/* --- for people --- */

void survey_add_excluded(const struct survey *s, char *text, size_t bytes)
{
    const char *gap = "";

    for (int i = EXCLUDED_NOT + 1; i < EXCLUSIONS; i++) {
        if (s->n_excluded[i] == 0)
            continue;
        text_add(text, bytes, "%s%d %s", gap, s->n_excluded[i], exclusion_text((enum exclusion)i));
        gap = ", ";
    }
}

void survey_add_bad(const struct survey *s, char *text, size_t bytes)
{
    int i = 0;

    if (s->n_bad == 0)
        return;
    while (s->nodes[i].object->annotations.bad[0] == '\0')
        i++;
    text_add(text, bytes, "%sInvalid annotation on node %.60s: %s; it is ignored.",
             text[0] ? " " : "", s->nodes[i].object->name, s->nodes[i].object->annotations.bad);
    if (s->n_bad > 1)
        text_add(text, bytes, " %d nodes have invalid annotations.", s->n_bad);
}

void survey_add_assumed(const struct survey *s, char *text, size_t bytes)
{
    if (s->n_assumed > 0)
        text_add(
            text, bytes,
            "%d of %d nodes were never measured (spec.placement.probePolicy is Never): their speed "
            "is assumed from their CPU alone.",
            s->n_assumed, s->n_candidates);
}
