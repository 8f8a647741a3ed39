#include "cli/cluster.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/closed.h"
#include "api/mark.h"
#include "api/names.h"
#include "api/request.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "cli/nodefile.h"
#include "cli/stale.h"

__attribute__((format(printf, 2, 3))) static void leave_out(struct cluster_machine *m,
                                                            const char *fmt, ...)
{
    va_list args;

    if (m->why_not[0]) /* the first reason is enough */
        return;
    va_start(args, fmt);
    (void)vsnprintf(m->why_not, sizeof m->why_not, fmt, args);
    va_end(args);
}

static enum err_code add_machine(struct cluster *c, struct cluster_machine **out, struct err *err)
{
    if (!c->machines)
        c->machines = calloc(CLUSTER_NODES_MAX, sizeof *c->machines);
    if (!c->machines)
        return err_set(err, ERR_NO_MEMORY, "no memory for %d nodes", CLUSTER_NODES_MAX);
    if (c->n_machines == CLUSTER_NODES_MAX)
        return err_set(err, ERR_LIMIT, "more than %d nodes", CLUSTER_NODES_MAX);
    *out = &c->machines[c->n_machines++];
    return ERR_OK;
}

static void look_at_speed(const struct cluster *c, const struct json *node,
                          struct cluster_machine *m)
{
    const struct spec *spec = &c->job->spec;
    const struct mark *mark = &m->mark;
    struct err why;

    mark_read(node, &m->mark);
    if (nodefile_read(node, &m->node, &why) != ERR_OK) {
        (void)snprintf(m->node.name, sizeof m->node.name, "%s",
                       json_string(json_path(node, "metadata.name"), ""));
        leave_out(m, "says what makes no sense: %.200s", why.text);
    } else if (m->node.gflops <= 0) {
        leave_out(
            m, spec->placement.probe == SPEC_PROBE_NEVER
                   ? "is not measured, and may not be (spec.placement.probePolicy is Never): the "
                     "operator will judge it by its CPU"
                   : "is not measured yet: the operator will when the job is submitted");
    }
    m->stale = stale_reason(c->job, &m->node, mark, c->now_ms);
    if (spec->training.precision == SPEC_PRECISION_BF16 &&
        mark_bf16(mark, mark->has_probe ? &mark->probe.found : NULL) == NODE_NO)
        leave_out(m, "has a processor that cannot do spec.training.precision BF16");
}

enum err_code cluster_add_node(struct cluster *c, const struct json *node, struct err *err)
{
    struct cluster_machine *m = NULL;
    enum closed closed = closed_read(node, CLOSED_NOT_READY);
    enum err_code rc = add_machine(c, &m, err);

    if (rc != ERR_OK)
        return rc;
    if (closed != CLOSED_NOT)
        leave_out(m, "is %s", closed_word(closed));
    look_at_speed(c, node, m);
    return ERR_OK;
}

static int compare_machines(const void *a, const void *b)
{
    return strcmp(((const struct cluster_machine *)a)->node.name,
                  ((const struct cluster_machine *)b)->node.name);
}

static void sort(struct cluster *c)
{
    if (!c->is_sorted && c->n_machines > 0)
        qsort(c->machines, (size_t)c->n_machines, sizeof *c->machines, compare_machines);
    c->is_sorted = true;
}

static int compare_name(const void *name, const void *machine)
{
    return strcmp(name, ((const struct cluster_machine *)machine)->node.name);
}

static bool is_of_job(const struct cluster *c, const struct json *pod)
{
    const struct json *metadata = json_get(pod, "metadata");
    const char *job = json_string(json_get(json_get(metadata, "labels"), LABEL_JOB), "");

    return strcmp(job, c->job->name) == 0 &&
           strcmp(json_string(json_get(metadata, "namespace"), ""), c->job->namespace) == 0;
}

void cluster_add_pod(struct cluster *c, const struct json *pod)
{
    const char *node = json_string(json_path(pod, "spec.nodeName"), "");
    struct cluster_machine *m = NULL;

    sort(c);
    if (is_of_job(c, pod))
        return;
    if (*node && c->n_machines > 0 && !request_is_over(pod))
        m = bsearch(node, c->machines, (size_t)c->n_machines, sizeof *m, compare_name);
    if (!m)
        return;
    m->cpu_used_milli += request_cpu_milli(pod);
    m->memory_used_bytes += request_memory_bytes(pod);
}

/* A share of the CPU has that share of the speed. */
static void take_used(struct cluster_machine *m)
{
    int64_t milli = m->node.cpu_milli - m->cpu_used_milli;
    int64_t bytes = m->node.memory_bytes - m->memory_used_bytes;

    if (milli < NODE_CPU_MIN_MILLI)
        leave_out(m, "has %lldm of CPU free, less than %dm", (long long)(milli > 0 ? milli : 0),
                  NODE_CPU_MIN_MILLI);
    if (bytes < NODE_MEMORY_MIN_BYTES)
        leave_out(m, "has %lld MiB of memory free, less than %lld MiB",
                  (long long)(bytes > 0 ? bytes / MIB : 0),
                  (long long)(NODE_MEMORY_MIN_BYTES / MIB));
    if (m->why_not[0])
        return;
    m->node.gflops *= (double)node_useful_milli(milli) / node_useful_milli(m->node.cpu_milli);
    m->node.cpu_milli = node_useful_milli(milli);
    m->node.memory_bytes = bytes;
}

enum err_code cluster_close(struct cluster *c, struct err *err)
{
    c->nodes = calloc((size_t)c->n_machines + 1, sizeof *c->nodes);
    c->marks = calloc((size_t)c->n_machines + 1, sizeof *c->marks);
    c->stale = calloc((size_t)c->n_machines + 1, sizeof *c->stale);
    if (!c->nodes || !c->marks || !c->stale)
        return err_set(err, ERR_NO_MEMORY, "no memory for %d nodes", c->n_machines);
    sort(c);
    for (int i = 0; i < c->n_machines; i++) {
        take_used(&c->machines[i]);
        if (c->machines[i].why_not[0])
            continue;
        c->marks[c->n_nodes] = c->machines[i].mark;
        c->stale[c->n_nodes] = c->machines[i].stale;
        c->nodes[c->n_nodes++] = c->machines[i].node;
    }
    for (int i = 0; i < c->n_nodes; i++)
        if (!c->stale[i])
            c->stale[i] = stale_beside(c->marks, c->n_nodes, i);
    return ERR_OK;
}

static enum err_code on_node(void *ctx, const struct json *object, struct err *err)
{
    return cluster_add_node(ctx, object, err);
}

static enum err_code on_pod(void *ctx, const struct json *object, struct err *err)
{
    (void)err;
    cluster_add_pod(ctx, object);
    return ERR_OK;
}

enum err_code cluster_load(struct kube_client *client, const struct job *job, struct cluster *out,
                           struct err *err)
{
    const struct kube_ref nodes = {.resource = &kube_nodes};
    const struct kube_ref pods = {.resource = &kube_pods};
    enum err_code rc;

    *out = (struct cluster){.job = job, .now_ms = clock_wall_ms()};
    rc = kube_list(client, &nodes, (struct kube_lister){out, on_node}, err);

    if (rc == ERR_OK)
        rc = kube_list(client, &pods, (struct kube_lister){out, on_pod}, err);
    return rc == ERR_OK ? cluster_close(out, err) : rc;
}

void cluster_deinit(struct cluster *c)
{
    free(c->machines);
    free(c->nodes);
    free(c->marks);
    free(c->stale);
    *c = (struct cluster){.n_machines = 0};
}
