#include "balance/explain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "balance/choose.h"
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

static void add_comparison(const struct placement *p, char out[static PLAN_REASON_BYTES])
{
    double gap = p->predicted_step_ms / p->bound_ms - 1;

    if (gap < 1e-6)
        text_add(out, PLAN_REASON_BYTES,
                 " No other cut, order or choice of these nodes is faster.");
    else if (p->strategy == SPEC_STRATEGY_OPTIMAL)
        text_add(
            out, PLAN_REASON_BYTES,
            " No plan can be faster than %.0f ms, so this one is at most %.1f%% above the optimum.",
            p->bound_ms, 100 * gap);
    else
        text_add(out, PLAN_REASON_BYTES, " Strategy %s was asked for; Optimal could take %.0f ms.",
                 spec_strategy_name(p->strategy), p->bound_ms);
    if (p->strategy != SPEC_STRATEGY_EVEN)
        add_other(p, "Even", p->even_step_ms, out);
    if (p->strategy != SPEC_STRATEGY_DYNAMIC)
        add_other(p, "Dynamic", p->dynamic_step_ms, out);
}

int explain_slow_edge(const struct placement *p)
{
    int slow = 0;

    for (int s = 1; s < p->n_stages; s++)
        if (p->stages[s].edge_ms > p->stages[slow].edge_ms)
            slow = s;
    return p->stages[slow].edge_ms > p->stages[p->bottleneck].predicted_ms ? slow : -1;
}

static void add_link(const struct partition_request *r, const struct placement *p, int s,
                     char out[static PLAN_REASON_BYTES])
{
    int from = p->stages[s].node;
    int to = p->stages[s + 1].node;

    text_add(out, PLAN_REASON_BYTES,
             " The link between %.60s and %.60s, %.3g MB/s, sets the pace: %.1f ms per micro-batch "
             "each way.",
             r->nodes[from].name, r->nodes[to].name, partition_link(r, from, to)->bytes_per_s / 1e6,
             p->stages[s].edge_ms);
}

void explain_placement(const struct partition_request *request, const struct placement *placement,
                       char out[static PLAN_REASON_BYTES])
{
    const struct placement_stage *slow = &placement->stages[placement->bottleneck];
    const struct node *node = &request->nodes[slow->node];
    int edge = explain_slow_edge(placement);
    int each = request->job.spec->training.batch_size / placement->micro_batches;
    char units[MODEL_NAME_BYTES];

    out[0] = '\0';
    model_range_name(&request->job.spec->model, slow->first_unit, slow->n_units, units);
    text_add(out, PLAN_REASON_BYTES,
             "A step is predicted to take %.0f ms with %d %s and %d %s of %d %s.",
             placement->predicted_step_ms, placement->n_stages,
             placement->n_stages == 1 ? "stage" : "stages", placement->micro_batches,
             placement->micro_batches == 1 ? "micro-batch" : "micro-batches", each,
             each == 1 ? "sequence" : "sequences");
    if (edge >= 0)
        add_link(request, placement, edge, out);
    text_add(out, PLAN_REASON_BYTES,
             " The %s is stage %d (%s) on %.60s: %.1f ms per micro-batch at %.3g GFLOP/s.",
             edge >= 0 ? "slowest stage" : "bottleneck", placement->bottleneck, units, node->name,
             slow->predicted_ms, node->gflops);
    add_comparison(placement, out);
    for (int i = 0; i < placement->n_left_out && i < PARTITION_LEFT_OUT_MAX; i++)
        text_add(out, PLAN_REASON_BYTES, " Excluded: %.60s (%s).", placement->left_out[i].node,
                 placement->left_out[i].reason);
    if (placement->n_left_out > PARTITION_LEFT_OUT_MAX)
        text_add(out, PLAN_REASON_BYTES, " And %d more.",
                 placement->n_left_out - PARTITION_LEFT_OUT_MAX);
}

/* Not above 0: it does not fit. */
static void add_alternative(struct plan_summary *out, enum spec_strategy strategy, double step_ms)
{
    struct plan_alternative *a = &out->alternatives[out->n_alternatives];

    if (step_ms <= 0)
        return;
    (void)snprintf(a->strategy, sizeof a->strategy, "%s", spec_strategy_name(strategy));
    a->step_ms = step_ms;
    out->n_alternatives++;
}

static void summarize(const struct partition_request *request, const struct placement *placement,
                      struct plan_summary *out)
{
    *out = (struct plan_summary){.predicted_step_ms = placement->predicted_step_ms,
                                 .bound_ms = placement->bound_ms,
                                 .bottleneck = placement->bottleneck,
                                 .n_left_out = placement->n_left_out};
    add_alternative(out, SPEC_STRATEGY_EVEN, placement->even_step_ms);
    add_alternative(out, SPEC_STRATEGY_DYNAMIC, placement->dynamic_step_ms);
    memcpy(out->left_out, placement->left_out, sizeof out->left_out);
    explain_placement(request, placement, out->explanation);
}

void placement_to_plan(const struct partition_request *request, const struct placement *placement,
                       struct plan *out)
{
    out->spec = *request->job.spec;
    out->micro_batches = placement->micro_batches;
    out->n_stages = placement->n_stages;
    summarize(request, placement, &out->summary);
    for (int s = 0; s < placement->n_stages; s++) {
        const struct placement_stage *from = &placement->stages[s];
        const struct node *node = &request->nodes[from->node];
        struct plan_stage *to = &out->stages[s];

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

/* --- one node more or one node fewer --- */

/* Nodes and links to plan with instead. */
struct trial {
    struct node *nodes;
    struct cost_link *links; /* NULL: the request has none either */
    int n;
};

/* The step with these nodes; negative when nothing fits. */
static enum err_code step_of(const struct partition_request *request, const struct trial *t,
                             double *out_ms, struct err *err)
{
    struct partition_request other = *request;
    struct placement *p = calloc(1, sizeof *p);
    enum err_code rc;

    if (!p)
        return err_set(err, ERR_NO_MEMORY, "planning on %d nodes", t->n);
    other.nodes = t->nodes;
    other.links = t->links;
    other.link_class = NULL;
    other.n_nodes = t->n;
    rc = choose_solve(&other, p, err);
    *out_ms = rc == ERR_OK ? p->predicted_step_ms : -1;
    free(p);
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

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

/* Let node i of the trial be node pick[i] of the request. A node that is there twice is as near to
 * itself as to its nearest neighbour. */
static void take(const struct partition_request *r, const int *pick, struct trial *t)
{
    for (int i = 0; i < t->n; i++) {
        t->nodes[i] = r->nodes[pick[i]];
        for (int k = 0; t->links && k < t->n; k++)
            t->links[(size_t)i * (size_t)t->n + (size_t)k] =
                pick[i] == pick[k] ? *best_link(r, pick[i]) : *partition_link(r, pick[i], pick[k]);
    }
}

static enum err_code with_another(const struct partition_request *r, int like, int *pick,
                                  struct trial *t, double *out_ms, struct err *err)
{
    t->n = r->n_nodes + 1;
    for (int i = 0; i < r->n_nodes; i++)
        pick[i] = i;
    pick[r->n_nodes] = like;
    take(r, pick, t);
    return step_of(r, t, out_ms, err);
}

static enum err_code without(const struct partition_request *r, int node, int *pick,
                             struct trial *t, double *out_ms, struct err *err)
{
    t->n = r->n_nodes - 1;
    for (int i = 0; i < t->n; i++)
        pick[i] = i + (i >= node);
    take(r, pick, t);
    return step_of(r, t, out_ms, err);
}

static int fastest(const struct partition_request *r, const struct placement *p)
{
    int node = p->stages[0].node;

    for (int s = 1; s < p->n_stages; s++)
        if (r->nodes[p->stages[s].node].gflops > r->nodes[node].gflops)
            node = p->stages[s].node;
    return node;
}

enum err_code whatif_solve(const struct partition_request *request,
                           const struct placement *placement, struct whatif *out, struct err *err)
{
    struct whatif w = {.like = fastest(request, placement)};
    bool has_all = placement->n_stages <= WHATIF_FEWER_MAX;
    size_t n = (size_t)request->n_nodes + 1;
    struct trial trial = {.n = 0};
    int *pick;
    enum err_code rc;

    *out = (struct whatif){.n_fewer = 0};
    if (placement->strategy != SPEC_STRATEGY_OPTIMAL)
        return ERR_OK;
    pick = calloc(n, sizeof *pick);
    trial.nodes = calloc(n, sizeof *trial.nodes);
    trial.links = request->links ? calloc(n * n, sizeof *trial.links) : NULL;
    if (!pick || !trial.nodes || (request->links && !trial.links))
        rc = err_set(err, ERR_NO_MEMORY, "planning on %d nodes", request->n_nodes + 1);
    else
        rc = with_another(request, w.like, pick, &trial, &w.more_ms, err);
    for (int s = 0; s < (has_all ? placement->n_stages : 1) && rc == ERR_OK; s++) {
        int node = placement->stages[has_all ? s : placement->bottleneck].node;

        w.fewer[w.n_fewer].node = node;
        rc = without(request, node, pick, &trial, &w.fewer[w.n_fewer++].step_ms, err);
    }
    free(pick);
    free(trial.nodes);
    free(trial.links);
    if (rc == ERR_OK)
        *out = w;
    return rc;
}
