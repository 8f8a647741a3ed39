#include "balance/whatif.h"

#include <stdlib.h>
#include <string.h>

#include "balance/choose.h"

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
    struct spec *spec = malloc(sizeof *spec); /* choose_solve() writes into it */
    enum err_code rc = ERR_OK;

    if (!p || !spec)
        rc = err_set(err, ERR_NO_MEMORY, "planning on %d nodes", t->n);
    if (rc == ERR_OK) {
        *spec = *request->spec;
        other.nodes = t->nodes;
        other.links = t->links;
        other.n_nodes = t->n;
        rc = choose_solve(&other, spec, p, err);
        *out_ms = rc == ERR_OK ? p->predicted_step_ms : -1;
    }
    free(spec);
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
