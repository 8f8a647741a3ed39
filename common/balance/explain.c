#include "balance/explain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

static void add_other(const struct placement *p, const char *name, double ms,
                      char out[static PLAN_REASON_BYTES])
{
    if (ms < 0)
        text_add(out, PLAN_REASON_BYTES, " %s does not fit into memory or minStages.", name);
    else
        text_add(out, PLAN_REASON_BYTES, " %s would take %.0f ms, %.2f times as long.", name, ms,
                 ms / p->predicted_step_ms);
}

int explain_slow_edge(const struct placement *p)
{
    int slow = 0;

    for (int s = 1; s < p->n_stages; s++)
        if (p->stages[s].edge_ms > p->stages[slow].edge_ms)
            slow = s;
    return p->stages[slow].edge_ms > p->stages[p->bottleneck].predicted_ms ? slow : -1;
}

void explain_placement(const struct partition_request *request, const struct placement *placement,
                       char out[static PLAN_REASON_BYTES])
{
    const struct placement_stage *slow = &placement->stages[placement->bottleneck];
    const struct node *node = &request->nodes[slow->node];
    int edge = explain_slow_edge(placement);
    int each = request->job.spec->training.batch_size / placement->micro_batches;
    double gap = placement->predicted_step_ms / placement->bound_ms - 1;
    char units[MODEL_NAME_BYTES];

    out[0] = '\0';
    model_range_name(&request->job.spec->model, slow->first_unit, slow->n_units, units);
    text_add(out, PLAN_REASON_BYTES,
             "A step is predicted to take %.0f ms with %d %s and %d %s of %d %s.",
             placement->predicted_step_ms, placement->n_stages,
             placement->n_stages == 1 ? "stage" : "stages", placement->micro_batches,
             placement->micro_batches == 1 ? "micro-batch" : "micro-batches", each,
             each == 1 ? "sequence" : "sequences");
    if (edge >= 0) {
        int from = placement->stages[edge].node;
        int to = placement->stages[edge + 1].node;

        text_add(out, PLAN_REASON_BYTES,
                 " The link between %.60s and %.60s, %.3g MB/s, sets the pace: %.1f ms per "
                 "micro-batch each way.",
                 request->nodes[from].name, request->nodes[to].name,
                 partition_link(request, from, to)->bytes_per_s / 1e6,
                 placement->stages[edge].edge_ms);
    }
    text_add(out, PLAN_REASON_BYTES,
             " The %s is stage %d (%s) on %.60s: %.1f ms per micro-batch at %.3g GFLOP/s.",
             edge >= 0 ? "slowest stage" : "bottleneck", placement->bottleneck, units, node->name,
             slow->predicted_ms, node->gflops);
    if (placement->roomy_step_ms > 0)
        text_add(out, PLAN_REASON_BYTES,
                 " Pods have %d%% more memory, for units that may move to them "
                 "(spec.placement.headroomPercent); without that a step would take %.0f ms.",
                 request->job.spec->placement.headroom_percent, placement->roomy_step_ms);
    if (request->job.saves_from_copy && !placement->saves_from_copy && placement->n_stages > 1)
        text_add(out, PLAN_REASON_BYTES,
                 " Checkpoints are written without a copy of the state, for which these nodes lack "
                 "the memory: the next update waits for them (spec.checkpoint.mode).");
    if (gap < 1e-6)
        text_add(out, PLAN_REASON_BYTES,
                 " No other cut, order or choice of these nodes is faster.");
    else if (placement->strategy == SPEC_STRATEGY_OPTIMAL)
        text_add(out, PLAN_REASON_BYTES,
                 " No plan can be faster than %.0f ms, so this one is at most %.1f%% above the "
                 "optimum.",
                 placement->bound_ms, 100 * gap);
    else
        text_add(out, PLAN_REASON_BYTES, " Strategy %s was asked for; Optimal could take %.0f ms.",
                 spec_strategy_names[placement->strategy], placement->bound_ms);
    if (placement->strategy != SPEC_STRATEGY_EVEN)
        add_other(placement, "Even", placement->even_step_ms, out);
    if (placement->strategy != SPEC_STRATEGY_DYNAMIC)
        add_other(placement, "Dynamic", placement->dynamic_step_ms, out);
    for (int i = 0; i < placement->n_excluded && i < PARTITION_EXCLUDED_MAX; i++)
        text_add(out, PLAN_REASON_BYTES, " Excluded: %.60s (%s).", placement->excluded[i].node,
                 placement->excluded[i].reason);
    if (placement->n_excluded > PARTITION_EXCLUDED_MAX)
        text_add(out, PLAN_REASON_BYTES, " And %d more.",
                 placement->n_excluded - PARTITION_EXCLUDED_MAX);
}

static void add_alternative(struct plan_summary *out, enum spec_strategy strategy, double step_ms)
{
    struct plan_alternative *a = &out->alternatives[out->n_alternatives];

    if (step_ms <= 0) /* it does not fit */
        return;
    (void)snprintf(a->strategy, sizeof a->strategy, "%s", spec_strategy_names[strategy]);
    a->step_ms = step_ms;
    out->n_alternatives++;
}

void placement_add_workers(const struct partition_request *request,
                           const struct placement *placement, int replica, struct plan *out)
{
    for (int s = 0; s < placement->n_stages; s++) {
        const struct placement_stage *from = &placement->stages[s];
        const struct node *node = &request->nodes[from->node];
        struct plan_worker *to = &out->workers[out->n_workers];

        to->slot = out->n_workers++;
        to->incarnation = out->revision;
        to->replica = replica;
        to->first_unit = from->first_unit;
        to->n_units = from->n_units;
        to->cpu_milli = node->cpu_milli;
        to->memory_bytes =
            cost_limit_bytes(from->memory_bytes, node->memory_bytes, request->memory_percent);
        to->predicted_ms = from->predicted_ms;
        (void)snprintf(to->node, sizeof to->node, "%s", node->name);
        model_range_name(&request->job.spec->model, to->first_unit, to->n_units, to->units);
    }
}

void placement_to_plan(const struct partition_request *request, const struct placement *placement,
                       struct plan *out)
{
    out->spec = *request->job.spec;
    out->micro_batches = placement->micro_batches;
    out->saves_from_copy = placement->saves_from_copy;
    out->summary = (struct plan_summary){.predicted_step_ms = placement->predicted_step_ms,
                                         .bound_ms = placement->bound_ms,
                                         .bottleneck = placement->bottleneck,
                                         .n_excluded = placement->n_excluded};
    add_alternative(&out->summary, SPEC_STRATEGY_EVEN, placement->even_step_ms);
    add_alternative(&out->summary, SPEC_STRATEGY_DYNAMIC, placement->dynamic_step_ms);
    memcpy(out->summary.excluded, placement->excluded, sizeof out->summary.excluded);
    explain_placement(request, placement, out->summary.explanation);
    out->n_workers = 0;
    placement_add_workers(request, placement, 0, out);
}

/* --- one node more or one node fewer --- */

/* The fastest link of a node for a message of a megabyte; what all have when it is alone. */
static const struct cost_link *best_link(const struct partition_request *r, int node)
{
    const struct cost_unit megabyte = {.edge_mean_bytes = 1e6};
    const struct cost_link *best = NULL;

    for (int i = 0; i < r->n_nodes; i++) {
        const struct cost_link *link = partition_link(r, node, i);

        if (i != node && (!best || cost_edge_ms(&megabyte, link) < cost_edge_ms(&megabyte, best)))
            best = link;
    }
    return best ? best : &r->link;
}

/* The step with these `n` of the request's nodes; negative when nothing fits. A node that is there
 * twice is as near to itself as to its nearest neighbour. */
static enum err_code step_of(const struct partition_request *r, const int *pick, int n,
                             double *out_ms, struct err *err)
{
    size_t n_links = r->links ? (size_t)n * (size_t)n : 0;
    struct node *nodes = calloc((size_t)n + 1, sizeof *nodes);
    struct cost_link *links = calloc(n_links + 1, sizeof *links);
    struct partition_request other = *r;
    struct placement p;
    enum err_code rc;

    if (!nodes || !links) {
        rc = err_set(err, ERR_NO_MEMORY, "planning on %d nodes", n);
        goto out;
    }
    for (int i = 0; i < n; i++) {
        nodes[i] = r->nodes[pick[i]];
        for (int k = 0; r->links && k < n; k++)
            links[(size_t)i * (size_t)n + (size_t)k] =
                pick[i] == pick[k] ? *best_link(r, pick[i]) : *partition_link(r, pick[i], pick[k]);
    }
    other.nodes = nodes;
    other.n_nodes = n;
    other.links = r->links ? links : NULL;
    other.link_class = NULL;
    rc = partition_choose(&other, &p, err);
    *out_ms = rc == ERR_OK ? p.predicted_step_ms : -1;
out:
    free(nodes);
    free(links);
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

enum err_code whatif_solve(const struct partition_request *request,
                           const struct placement *placement, struct whatif *out, struct err *err)
{
    bool has_all = placement->n_stages <= WHATIF_FEWER_MAX;
    struct whatif w = {.n_fewer = has_all ? placement->n_stages : 1};
    int n = request->n_nodes;
    int *pick;
    enum err_code rc;

    *out = (struct whatif){.n_fewer = 0};
    if (placement->strategy != SPEC_STRATEGY_OPTIMAL)
        return ERR_OK;
    pick = calloc((size_t)n + 1, sizeof *pick);
    if (!pick)
        return err_set(err, ERR_NO_MEMORY, "planning on %d nodes", n + 1);
    w.like = placement->stages[0].node; /* the fastest */
    for (int s = 1; s < placement->n_stages; s++)
        if (request->nodes[placement->stages[s].node].gflops > request->nodes[w.like].gflops)
            w.like = placement->stages[s].node;
    for (int i = 0; i < n; i++)
        pick[i] = i;
    pick[n] = w.like;
    rc = step_of(request, pick, n + 1, &w.more_ms, err);
    for (int s = 0; s < w.n_fewer && rc == ERR_OK; s++) {
        int node = placement->stages[has_all ? s : placement->bottleneck].node;

        for (int i = 0; i < n - 1; i++)
            pick[i] = i + (i >= node);
        w.fewer[s].node = node;
        rc = step_of(request, pick, n - 1, &w.fewer[s].step_ms, err);
    }
    free(pick);
    if (rc == ERR_OK)
        *out = w;
    return rc;
}
