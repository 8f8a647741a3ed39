#include "balance/whatif.h"

#include <stdlib.h>
#include <string.h>

/* The step with these nodes; negative when nothing fits. */
static enum err_code step_of(const struct partition_request *request, const struct node *nodes,
                             int n_nodes, double *out_ms, struct err *err)
{
    struct partition_request other = *request;
    struct placement *p = calloc(1, sizeof *p);
    enum err_code rc;

    if (!p)
        return err_set(err, ERR_NO_MEMORY, "planning on %d nodes", n_nodes);
    other.nodes = nodes;
    other.n_nodes = n_nodes;
    rc = partition_solve(&other, p, err);
    *out_ms = rc == ERR_OK ? p->predicted_step_ms : -1;
    free(p);
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

static enum err_code without(const struct partition_request *r, int node, struct node *nodes,
                             double *out_ms, struct err *err)
{
    memcpy(nodes, r->nodes, (size_t)node * sizeof *nodes);
    memcpy(nodes + node, r->nodes + node + 1, (size_t)(r->n_nodes - node - 1) * sizeof *nodes);
    return step_of(r, nodes, r->n_nodes - 1, out_ms, err);
}

enum err_code whatif_solve(const struct partition_request *request,
                           const struct placement *placement, struct whatif *out, struct err *err)
{
    struct whatif w = {.like = placement->stages[0].node};
    bool has_all = placement->n_stages <= WHATIF_FEWER_MAX;
    struct node *nodes;
    enum err_code rc;

    *out = (struct whatif){.n_fewer = 0};
    if (placement->strategy != SPEC_STRATEGY_OPTIMAL)
        return ERR_OK;
    nodes = calloc((size_t)request->n_nodes + 1, sizeof *nodes);
    if (!nodes)
        return err_set(err, ERR_NO_MEMORY, "planning on %d nodes", request->n_nodes + 1);
    for (int s = 1; s < placement->n_stages; s++)
        if (request->nodes[placement->stages[s].node].gflops > request->nodes[w.like].gflops)
            w.like = placement->stages[s].node;
    memcpy(nodes, request->nodes, (size_t)request->n_nodes * sizeof *nodes);
    nodes[request->n_nodes] = request->nodes[w.like];
    rc = step_of(request, nodes, request->n_nodes + 1, &w.more_ms, err);
    for (int s = 0; s < (has_all ? placement->n_stages : 1) && rc == ERR_OK; s++) {
        int node = placement->stages[has_all ? s : placement->bottleneck].node;

        w.fewer[w.n_fewer].node = node;
        rc = without(request, node, nodes, &w.fewer[w.n_fewer++].step_ms, err);
    }
    free(nodes);
    if (rc == ERR_OK)
        *out = w;
    return rc;
}
