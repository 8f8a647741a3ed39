/* A plan for given workers: what their pods have, the links between their nodes, and the units that
 * each of them is to run. */
#include <stdio.h>
#include <string.h>

#include "balance/explain.h"
#include "balance/reshare.h"
#include "control/context.h"

static const struct survey_node *find_node(const struct survey *s, const char *name)
{
    for (int i = 0; i < s->n_nodes; i++)
        if (strcmp(s->nodes[i].object->name, name) == 0)
            return &s->nodes[i];
    return NULL;
}

void places_share(const struct node *candidate, int cpu_milli, int64_t memory_bytes,
                  struct node *out)
{
    *out = *candidate;
    out->cpu_milli = cpu_milli;
    out->memory_bytes = memory_bytes;
    out->gflops = candidate->gflops * cpu_milli / candidate->cpu_milli;
}

void places_pace(const struct context *c, const struct survey *s, int first_unit, int n_units,
                 double ms, struct node *node)
{
    const struct plan *last = &c->seen->revision.plan;
    struct cost_job job = {.spec = &last->spec,
                           .micro_batches = last->micro_batches,
                           .saves_from_copy = last->saves_from_copy,
                           .lengths = s->lengths,
                           .pace = s->pace};
    struct cost_unit unit;
    double flops = 0;

    if (plan_n_replicas(last) > 1)
        job = cost_job_in_replica(&job);
    for (int u = first_unit; u < first_unit + n_units; u++) {
        cost_of_unit(&job, u, &unit);
        flops += unit.flops;
    }
    node->gflops = ms > 0 ? flops / ms / 1e6 : 1;
    node->unit_ms = 0;
}

void places_offer(const struct context *c, const struct survey *s, int stage,
                  const struct seen_pod *pod, struct node *out)
{
    const struct plan_worker *worker = &c->seen->revision.plan.workers[stage];

    for (int i = 0; i < s->n_candidates; i++)
        if (strcmp(s->candidates[i].name, pod->node) == 0) {
            places_share(&s->candidates[i], pod->cpu_milli, pod->memory_bytes, out);
            return;
        }
    *out = (struct node){.cpu_milli = pod->cpu_milli, .memory_bytes = pod->memory_bytes};
    (void)snprintf(out->name, sizeof out->name, "%s", pod->node);
    places_pace(c, s, worker->first_unit, worker->n_units, worker->predicted_ms, out);
}

/* Of a candidate, beside the pods of this job; below 0: they have more than that. */
static void find_left(const struct context *c, const struct node *n, int64_t *out_cpu_milli,
                      int64_t *out_memory_bytes)
{
    *out_cpu_milli = n->cpu_milli;
    *out_memory_bytes = n->memory_bytes;
    for (int i = 0; i < c->seen->n_pods; i++) {
        const struct seen_pod *p = &c->seen->pods[i];

        if (pod_is_over(p) || strcmp(p->node, n->name) != 0 ||
            (p->role == POD_UNVERIFIED && p->incarnation == c->seen->revision.plan.revision))
            continue;
        *out_cpu_milli -= p->cpu_milli;
        *out_memory_bytes -= p->memory_bytes;
    }
}

int64_t places_memory_left(const struct context *c, const struct node *candidate)
{
    int64_t cpu_milli, memory_bytes;

    find_left(c, candidate, &cpu_milli, &memory_bytes);
    return memory_bytes > 0 ? memory_bytes : 0;
}

bool places_offer_free(const struct context *c, const struct survey *s, int candidate,
                       struct node *out)
{
    const struct node *n = &s->candidates[candidate];
    int64_t cpu_milli, memory_bytes;

    find_left(c, n, &cpu_milli, &memory_bytes);
    if (cpu_milli < NODE_CPU_MIN_MILLI || memory_bytes < NODE_MEMORY_MIN_BYTES ||
        recovery_has_silent(c, n->name))
        return false;
    places_share(n, node_useful_milli(cpu_milli), memory_bytes, out);
    return true;
}

/* The links between the places' nodes; false: none was measured. */
static bool find_links(const struct places *p, struct cost_link *out)
{
    struct network_node network[SPEC_STAGES_MAX];
    static const struct annotations none;

    for (int i = 0; i < p->n; i++) {
        const struct survey_node *n = find_node(p->survey, p->list[i].node.name);

        network[i] = (struct network_node){
            p->list[i].node.name, n ? &n->object->annotations : &none, n ? n->probe : NULL};
    }
    return network_links(network, p->n, out);
}

void places_request(const struct context *c, const struct places *p, struct places_space *space,
                    struct partition_request *out)
{
    const struct plan *last = &c->seen->revision.plan;

    space->spec = last->spec;
    *out = partition_request_of(&space->spec);
    for (int i = 0; i < p->n; i++)
        space->nodes[i] = p->list[i].node;
    out->job.micro_batches = last->micro_batches;
    out->job.saves_from_copy = last->saves_from_copy;
    out->job.lengths = p->survey->lengths;
    out->job.pace = p->survey->pace;
    out->nodes = space->nodes;
    out->n_nodes = p->n;
    if (find_links(p, space->links))
        out->links = space->links;
    out->memory_percent = context_memory_percent(c, NULL); /* the headroom is for this */
}

/* One pipeline on these places; new pods get this share of the memory that their stage needs. */
static enum err_code plan_one(const struct places *p, int memory_percent,
                              struct places_space *space, struct partition_request *request,
                              struct plan *plan, struct err *err)
{
    struct spec_stages *stages = &space->spec.placement.stages;
    enum spec_strategy asked = space->spec.placement.strategy;
    struct placement placement;
    enum err_code rc;

    space->spec.placement.strategy = SPEC_STRATEGY_MANUAL;
    *stages = (struct spec_stages){.n = p->n};
    for (int i = 0; i < p->n; i++) {
        stages->list[i].units = p->list[i].n_units;
        (void)snprintf(stages->list[i].node, sizeof stages->list[i].node, "%s",
                       p->list[i].node.name);
    }
    rc = partition_solve(request, &placement, err);
    if (rc != ERR_OK)
        return rc;
    placement.strategy = asked;
    request->memory_percent = memory_percent;
    if (plan_n_replicas(plan) > 1)
        plan->n_shares = 0; /* it is the one that is left */
    placement_to_plan(request, &placement, plan);
    return ERR_OK;
}

static int replica_of(const struct places *p, const struct plan *last, int i)
{
    return last->workers[p->list[i].stage].replica;
}

/* Are these places of several replicas? Then each has a stage of the last plan. */
static bool are_several(const struct places *p, const struct plan *last)
{
    return plan_n_replicas(last) > 1 && replica_of(p, last, 0) != replica_of(p, last, p->n - 1);
}

/* Do new pods fit on their nodes? Those that are there are as they are. */
static enum err_code check_rooms(const struct places *p, const struct partition_request *request,
                                 const struct replicas *r, struct err *err)
{
    for (int k = 0; k < r->n; k++)
        for (int s = 0; s < r->pipelines[k].n_stages; s++) {
            const struct placement_stage *stage = &r->pipelines[k].stages[s];

            if (!p->list[stage->node].pod &&
                stage->memory_bytes > partition_memory(request, stage->node))
                return err_set(err, ERR_NOT_FOUND, "stage %d of replica %d does not fit on %s", s,
                               k, request->nodes[stage->node].name);
        }
    return ERR_OK;
}

/* Replicas of the last plan, with other shares and cuts, or without those that are left out. The
 * shares are dealt anew if they do not make up the batch. Memory as in plan_one(). */
static enum err_code plan_several(const struct places *p, int memory_percent,
                                  struct partition_request *request, const struct plan *last,
                                  struct plan *plan, struct err *err)
{
    struct replicas replicas;
    int n_units[SPEC_STAGES_MAX];
    int left = last->micro_batches;
    enum err_code rc;

    plan->n_workers = p->n;
    plan->n_shares = 0;
    for (int i = 0; i < p->n; i++) {
        const struct plan_worker *from = &last->workers[p->list[i].stage];

        n_units[i] = p->list[i].n_units;
        plan->workers[i] = *from;
        if (i == 0 || from->replica != replica_of(p, last, i - 1)) {
            plan->shares[plan->n_shares++] = p->list[i].micro_batches;
            left -= p->list[i].micro_batches;
        }
        plan->workers[i].replica = plan->n_shares - 1;
    }
    rc = left == 0 ? reshare_measure(request, plan, plan->shares, n_units, &replicas, err)
                   : reshare_find(request, plan, false, &replicas, err);
    if (rc == ERR_OK)
        rc = check_rooms(p, request, &replicas, err);
    if (rc != ERR_OK)
        return rc;
    request->memory_percent = memory_percent;
    replicas_to_plan(request, &replicas, plan);
    return ERR_OK;
}

enum err_code places_plan(const struct context *c, const struct places *p, struct plan *plan,
                          struct err *err)
{
    const struct plan *last = &c->seen->revision.plan;
    int memory_percent = context_memory_percent(c, &last->spec);
    struct partition_request request;
    struct places_space space;
    enum err_code rc;

    places_request(c, p, &space, &request);
    *plan = *last;
    plan->revision = c->number;
    rc = are_several(p, last) ? plan_several(p, memory_percent, &request, last, plan, err)
                              : plan_one(p, memory_percent, &space, &request, plan, err);
    if (rc != ERR_OK)
        return rc;
    plan->spec = last->spec;
    for (int i = 0; i < p->n; i++) {
        const struct seen_pod *pod = p->list[i].pod;
        struct plan_worker *to = &plan->workers[i];

        to->slot = p->list[i].slot;
        to->incarnation = pod ? pod->incarnation : c->number;
        if (pod) {
            to->cpu_milli = pod->cpu_milli;
            to->memory_bytes = pod->memory_bytes;
        }
    }
    return ERR_OK;
}

bool places_is_name_taken(const struct context *c, int slot)
{
    for (int i = 0; i < c->seen->n_pods; i++) {
        const struct seen_pod *p = &c->seen->pods[i];

        if (p->role == POD_FOREIGN && p->slot == slot &&
            p->incarnation == c->seen->revision.plan.revision)
            return true;
    }
    return false;
}

bool places_has_joined(const struct seen_pod *pod)
{
    return pod && pod->phase == POD_RUNNING && pod->ip[0] && pod->report;
}

void places_create(struct context *c, const struct place *place, int stage)
{
    const struct plan_worker *worker = &c->out->revision.plan.workers[stage];
    struct action *a;

    context_add_policy(c);
    a = context_add(c, ACTION_CREATE_SUBSTITUTE);
    a->stage = stage;
    a->slot = place->slot;
    a->reads_data = worker->first_unit == 0;
    a->cpu_milli = worker->cpu_milli;
    a->memory_bytes = worker->memory_bytes;
    memcpy(a->node, worker->node, sizeof a->node);
}
