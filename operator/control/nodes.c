/* Which nodes can take a stage, and how fast they are: what an administrator declared, else what
 * one of our own probes found, else what an earlier job's probe left as labels, else a new probe.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "control/manifest.h"
#include "control/parts.h"

#define STAGE_CPU_MIN_MILLI    100
#define STAGE_MEMORY_MIN_BYTES ((int64_t)160 << 20)
#define PROBE_MEMORY_MAX_BYTES ((int64_t)2 << 30)
#define PROBE_RETRY_MS         60000
/* A little more than its own deadline, which the kubelet keeps when it has the pod at all. */
#define PROBE_LATE_MS ((MANIFEST_PROBE_SECONDS + 20) * 1000)

enum why_not {
    USABLE,
    NOT_READY,
    CORDONED,
    DELETED,
    PRESSURE,
    TAINTED,
    NO_CPU,
    NO_MEMORY,
    SURPLUS,
    NOT_MEASURED,
    WHY_COUNT,
};

static const char *const why_words[WHY_COUNT] = {
    "usable",
    "not ready",
    "cordoned",
    "being deleted",
    "short of memory, disk or processes",
    "with a taint that workers do not tolerate",
    "with less than 100m of CPU free",
    "with less than 160Mi of memory free",
    "beyond the 64 largest",
    "that could not be measured",
};

static enum why_not why_not(const struct seen_node *n)
{
    if (n->is_deleting)
        return DELETED;
    if (!n->is_ready)
        return NOT_READY;
    if (n->is_unschedulable)
        return CORDONED;
    if (n->has_pressure)
        return PRESSURE;
    if (n->taint[0])
        return TAINTED;
    if (n->cpu_milli - n->cpu_used_milli < STAGE_CPU_MIN_MILLI)
        return NO_CPU;
    if (n->memory_bytes - n->memory_used_bytes < STAGE_MEMORY_MIN_BYTES)
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

/* What a measurement depends on: the node's size, the program, and the shape of the products. */
static void measured_for(const struct round *r, const struct seen_node *node,
                         char out[static OBSERVED_HASH_BYTES])
{
    const struct model *m = &r->spec.model;
    int64_t parts[] = {node->cpu_milli, m->hidden, m->heads, m->ffn, r->spec.training.max_length};
    uint64_t h = hash_text(manifest_image(r->seen, &r->spec));

    h = hash_bytes(h, parts, sizeof parts);
    (void)snprintf(out, OBSERVED_HASH_BYTES, "%016llx", (unsigned long long)h);
}

static const struct seen_pod *probe_of(const struct round *r, const struct seen_node *node)
{
    for (int i = 0; i < r->seen->n_pods; i++)
        if (r->seen->pods[i].role == POD_PROBE && strcmp(r->seen->pods[i].node, node->name) == 0)
            return &r->seen->pods[i];
    return NULL;
}

static bool has_failed(const struct round *r, const struct seen_pod *probe)
{
    int64_t age_ms = r->seen->now_ms - probe->created_ms;

    if (probe->phase == POD_SUCCEEDED || probe->phase == POD_FAILED)
        return !probe->has_probe;
    return age_ms > PROBE_LATE_MS || (probe->is_unschedulable && age_ms > PROBE_RETRY_MS / 2);
}

static void want_probe(struct round *r, const struct seen_node *node)
{
    int64_t memory = node->memory_bytes - node->memory_used_bytes;
    struct action *a;
    bool has_spec = false;

    for (int i = 0; i < r->out->n_actions; i++)
        has_spec = has_spec || r->out->actions[i].kind == ACTION_CREATE_PROBE_SPEC;
    if (!has_spec)
        (void)round_want(r, ACTION_CREATE_PROBE_SPEC);
    a = round_want(r, ACTION_CREATE_PROBE_POD);
    (void)snprintf(a->node, sizeof a->node, "%s", node->name);
    a->cpu_milli = free_milli(node);
    a->memory_bytes = memory < PROBE_MEMORY_MAX_BYTES ? memory : PROBE_MEMORY_MAX_BYTES;
}

/* For the next job, which then need not measure. */
static void want_label(struct round *r, const struct seen_node *node, const struct seen_pod *probe,
                       double gflops)
{
    struct action *a;
    char hash[OBSERVED_HASH_BYTES];

    measured_for(r, node, hash);
    if (strcmp(node->measured_for, hash) == 0 && fabs(node->measured_gflops - gflops) < 1e-3)
        return;
    a = round_want(r, ACTION_LABEL_NODE);
    (void)snprintf(a->node, sizeof a->node, "%s", node->name);
    memcpy(a->hash, hash, sizeof a->hash);
    a->gflops = gflops;
    a->unit_ms = probe->probe.unit_ms;
}

/* Speed with all allocatable CPU; 0 when it has to be measured, negative when it cannot be. */
static double speed_of(struct round *r, const struct seen_node *node, double *out_unit_ms)
{
    const struct seen_pod *probe = probe_of(r, node);
    char hash[OBSERVED_HASH_BYTES];
    double gflops;

    *out_unit_ms = node->measured_unit_ms;
    if (node->declared_gflops > 0)
        return node->declared_gflops;
    if (probe && probe->has_probe && probe->cpu_milli > 0) {
        /* Rounded as the label is, so that now and later the same is planned with. */
        gflops = probe->probe.gflops * (double)node->cpu_milli / probe->cpu_milli;
        gflops = round(gflops * 1000) / 1000;
        *out_unit_ms = probe->probe.unit_ms;
        want_label(r, node, probe, gflops);
        return gflops > 0 ? gflops : -1;
    }
    measured_for(r, node, hash);
    if (node->measured_gflops > 0 && strcmp(node->measured_for, hash) == 0)
        return node->measured_gflops;
    if (!probe)
        want_probe(r, node);
    return probe && has_failed(r, probe) ? -1 : 0;
}

static void take_node(struct round *r, const struct seen_node *from, struct candidates *c,
                      struct nodes *out)
{
    double unit_ms;
    double gflops = speed_of(r, from, &unit_ms);
    struct node *to = &out->list[out->n_known];

    if (gflops < 0) {
        c->n_why[NOT_MEASURED]++;
        return;
    }
    if (gflops == 0) {
        const struct seen_pod *probe = probe_of(r, from);

        out->n_measuring++;
        if (probe)
            (void)attempt_image_problem(r, probe, out->image_problem);
        return;
    }
    (void)snprintf(to->name, sizeof to->name, "%s", from->name);
    to->cpu_milli = free_milli(from);
    to->memory_bytes = from->memory_bytes - from->memory_used_bytes;
    to->gflops = gflops * to->cpu_milli / (double)from->cpu_milli;
    to->unit_ms = unit_ms;
    out->n_known++;
}

static void write_left_out(const struct candidates *c, char *out, size_t bytes)
{
    out[0] = '\0';
    for (int i = USABLE + 1; i < WHY_COUNT; i++) {
        size_t n = strlen(out);

        if (c->n_why[i] > 0)
            (void)snprintf(out + n, bytes - n, "%s%d %s", n ? ", " : "", c->n_why[i], why_words[i]);
    }
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
    write_left_out(&c, out->left_out, sizeof out->left_out);
    if (out->n_measuring > 0)
        round_again(r, PROBE_LATE_MS);
}

void nodes_retry(struct round *r)
{
    for (int i = 0; i < r->seen->n_pods; i++) {
        const struct seen_pod *p = &r->seen->pods[i];
        int64_t age_ms = r->seen->now_ms - p->created_ms;

        if (p->role != POD_PROBE || !has_failed(r, p))
            continue;
        if (age_ms >= PROBE_RETRY_MS)
            round_delete_pod(r, p);
        else
            round_again(r, PROBE_RETRY_MS - age_ms);
    }
}
