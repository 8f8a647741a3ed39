#include "balance/leftout.h"

#include <math.h>
#include <stdio.h>

#include "balance/chain.h"
#include "balance/search.h"

/* Stages and units, both squared, up to which all is cut anew with the node. Above, it is given one
 * unit of a stage: it does not have to be the best with the node, but takes no search. */
#define RECUT_WORK 1e5

#define MIB(bytes) (((bytes) + ((int64_t)1 << 20) - 1) >> 20)

int64_t leftout_unit_bytes(const struct partition_request *request, int unit)
{
    struct cost_unit c;

    cost_of_unit(request->spec, unit, &c);
    return COST_PROCESS_BYTES + (unit == 0 ? COST_DATA_BYTES : 0) + c.state_bytes +
           c.activation_bytes + c.scratch_bytes;
}

int64_t leftout_least_bytes(const struct partition_request *request)
{
    int64_t least = INT64_MAX;
    int n_units = model_units(&request->spec->model);

    for (int u = 0; u < n_units; u++) { /* of the layers, which are alike, the first is enough */
        if (u > 2 && u <= 2 * request->spec->model.layers)
            continue;

        int64_t bytes = leftout_unit_bytes(request, u);

        if (bytes < least)
            least = bytes;
    }
    return least;
}

/* With the first or the last unit of stage `s` on the problem's last node. */
static void keep_if_shorter(const struct cut_problem *p, const struct placement *placement, int s,
                            bool is_before, double *best_ms)
{
    struct cut c = {.n_stages = placement->n_stages + 1};
    int to = 0;

    if (placement->stages[s].n_units < 2)
        return;
    for (int i = 0; i < placement->n_stages; i++) {
        const struct placement_stage *stage = &placement->stages[i];

        if (i == s && is_before) {
            c.node[to] = p->n_nodes - 1;
            c.first[to++] = stage->first_unit;
        }
        c.node[to] = i;
        c.first[to++] = stage->first_unit + (i == s && is_before);
        if (i == s && !is_before) {
            c.node[to] = p->n_nodes - 1;
            c.first[to++] = stage->first_unit + stage->n_units - 1;
        }
    }
    c.first[to] = p->n_units;
    cut_measure(p, &c);
    if (cut_misfit(p, &c) < 0 && (*best_ms < 0 || cut_step_ms(p, &c) < *best_ms))
        *best_ms = cut_step_ms(p, &c);
}

/* The shortest step when `extra` takes one unit off one of the stages. */
static enum err_code step_with_unit(const struct partition_request *request,
                                    const struct placement *p, int extra, double *out_ms,
                                    struct err *err)
{
    int nodes[PARTITION_CANDIDATES_MAX];
    struct cut_problem problem;
    enum err_code rc;

    for (int i = 0; i < p->n_stages; i++)
        nodes[i] = p->stages[i].node;
    nodes[p->n_stages] = extra;
    rc = cut_problem_init(request, nodes, p->n_stages + 1, &problem, err);
    if (rc != ERR_OK)
        return rc;
    *out_ms = -1;
    for (int s = 0; s < p->n_stages; s++) {
        keep_if_shorter(&problem, p, s, true, out_ms);
        keep_if_shorter(&problem, p, s, false, out_ms);
    }
    cut_problem_deinit(&problem);
    return ERR_OK;
}

/* The shortest step of all stages' nodes in their order with `extra` put in somewhere. */
static enum err_code step_with(const struct partition_request *request, const struct placement *p,
                               int extra, double *out_ms, struct err *err)
{
    struct search search = {.found = false};
    int n = p->n_stages;

    for (int at = 0; at <= n; at++) {
        int nodes[PARTITION_CANDIDATES_MAX];
        struct cut_problem problem;
        struct chain chain;
        enum err_code rc;

        for (int i = 0; i <= n; i++)
            nodes[i] = i == at ? extra : p->stages[i - (i > at)].node;
        rc = cut_problem_init(request, nodes, n + 1, &problem, err);
        if (rc != ERR_OK)
            return rc;
        problem.min_stages = n + 1; /* nobody may be skipped */
        rc = chain_init(&problem, &chain, err);
        if (rc == ERR_OK) {
            search.problem = &problem;
            search.solve = chain_solve;
            search.workspace = &chain;
            search_run(&search);
            chain_deinit(&chain);
        }
        cut_problem_deinit(&problem);
        if (rc != ERR_OK)
            return rc;
    }
    *out_ms = search.found ? search.best_ms : -1;
    return ERR_OK;
}

static enum err_code reason_for(const struct partition_request *request, const struct placement *p,
                                int node, char out[static PARTITION_REASON_BYTES], struct err *err)
{
    const struct node *n = &request->nodes[node];
    int64_t least = leftout_least_bytes(request);
    int max_stages = request->spec->placement.max_stages;
    double with_ms;
    bool is_small;
    enum err_code rc;

    if (n->memory_bytes < least) {
        (void)snprintf(out, PARTITION_REASON_BYTES,
                       "offers %lld MiB, the smallest stage needs %lld MiB",
                       (long long)MIB(n->memory_bytes), (long long)MIB(least));
        return ERR_OK;
    }
    if (p->strategy == SPEC_STRATEGY_MANUAL) {
        (void)snprintf(out, PARTITION_REASON_BYTES, "spec.placement.stages does not use it");
        return ERR_OK;
    }
    if (p->strategy != SPEC_STRATEGY_OPTIMAL || p->n_stages >= model_units(&request->spec->model)) {
        (void)snprintf(out, PARTITION_REASON_BYTES, "there are stages for %d nodes", p->n_stages);
        return ERR_OK;
    }
    if (p->n_stages >= max_stages || p->n_stages + 1 > PARTITION_CANDIDATES_MAX) {
        (void)snprintf(out, PARTITION_REASON_BYTES,
                       "spec.placement.maxStages is %d, and the chosen nodes make a shorter step",
                       max_stages);
        return ERR_OK;
    }
    is_small = RECUT_WORK >= pow(p->n_stages + 1, 2) * pow(model_units(&request->spec->model), 2);
    rc = is_small ? step_with(request, p, node, &with_ms, err)
                  : step_with_unit(request, p, node, &with_ms, err);
    if (rc != ERR_OK)
        return rc;
    if (with_ms < 0)
        (void)snprintf(out, PARTITION_REASON_BYTES, "no stage beside the chosen nodes fits it");
    else if (with_ms < p->predicted_step_ms)
        (void)snprintf(out, PARTITION_REASON_BYTES,
                       "at %.3g GFLOP/s a step would take %.1f ms with it, %.1f ms without: too "
                       "small a gain for another node",
                       n->gflops, with_ms, p->predicted_step_ms);
    else
        (void)snprintf(out, PARTITION_REASON_BYTES,
                       "at %.3g GFLOP/s a step would take %.0f ms with %s, %.0f ms without",
                       n->gflops, with_ms, is_small ? "it" : "one unit on it",
                       p->predicted_step_ms);
    return ERR_OK;
}

static bool has_stage(const struct placement *p, int node)
{
    for (int s = 0; s < p->n_stages; s++)
        if (p->stages[s].node == node)
            return true;
    return false;
}

enum err_code leftout_list(const struct partition_request *request, struct placement *p,
                           struct err *err)
{
    p->n_left_out = 0;
    for (int i = 0; i < request->n_nodes; i++) {
        struct placement_left_out *left = &p->left_out[p->n_left_out];
        enum err_code rc;

        if (has_stage(p, i))
            continue;
        if (p->n_left_out++ >= PARTITION_LEFT_OUT_MAX)
            continue;
        left->node = i;
        rc = reason_for(request, p, i, left->reason, err);
        if (rc != ERR_OK)
            return rc;
    }
    return ERR_OK;
}
