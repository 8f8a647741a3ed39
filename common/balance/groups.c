#include "balance/groups.h"

#include <math.h>
#include <stdlib.h>

#define STEP_LEAST 1.5 /* times a distance: a greater one that sets groups apart */
#define LAYER_UNIT 1   /* the first unit of a layer, which sends what all of them do */

/* Prim's algorithm: again and again the node that is nearest to one of those joined already. */
static void join_nearest(const struct partition_request *r, const struct cost_unit *layer,
                         const int *nodes, bool *is_joined, struct groups *g)
{
    int at = 0;

    for (int i = 0; i < g->n; i++)
        g->ms[i] = g->least_ms[i] = INFINITY;
    for (int k = 0; k < g->n; k++) {
        int next = -1;

        is_joined[at] = true;
        g->order[k] = at;
        for (int i = 0; i < g->n; i++) {
            double ms;

            if (i == at)
                continue;
            ms = cost_edge_ms(layer, partition_link(r, nodes[at], nodes[i]));
            g->least_ms[at] = fmin(g->least_ms[at], ms);
            g->most_ms = fmax(g->most_ms, ms);
            if (is_joined[i])
                continue;
            if (ms < g->ms[i]) {
                g->ms[i] = ms;
                g->parent[i] = at;
            }
            if (next < 0 || g->ms[i] < g->ms[next])
                next = i;
        }
        at = next;
    }
}

static void join_alike(double edge_ms, struct groups *g)
{
    g->most_ms = edge_ms;
    for (int i = 0; i < g->n; i++) {
        g->order[i] = i;
        g->ms[i] = g->least_ms[i] = edge_ms;
    }
}

static int by_ms(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* Distances of the tree, sorted, tell where the greatest steps are. */
static void find_scales(const double *sorted_ms, int n, struct groups *g)
{
    for (int i = 0; i + 1 < n; i++) {
        double step = sorted_ms[i + 1] / sorted_ms[i];
        int at = g->n_scales;

        if (step < STEP_LEAST)
            continue;
        while (at > 0 && step > g->next_ms[at - 1] / g->scale_ms[at - 1])
            at--;
        for (int k = GROUPS_SCALES_MAX - 1; k > at; k--) {
            g->scale_ms[k] = g->scale_ms[k - 1];
            g->next_ms[k] = g->next_ms[k - 1];
        }
        if (at < GROUPS_SCALES_MAX) {
            g->scale_ms[at] = sorted_ms[i];
            g->next_ms[at] = sorted_ms[i + 1];
        }
        if (g->n_scales < GROUPS_SCALES_MAX)
            g->n_scales++;
    }
}

enum err_code groups_init(const struct partition_request *r, const int *nodes, int n,
                          struct groups *out, struct err *err)
{
    struct groups g = {.n = n,
                       .order = calloc((size_t)n, sizeof *g.order),
                       .parent = calloc((size_t)n, sizeof *g.parent),
                       .ms = calloc((size_t)n, sizeof *g.ms),
                       .least_ms = calloc((size_t)n, sizeof *g.least_ms)};
    bool *is_joined = calloc((size_t)n, sizeof *is_joined);
    double *sorted_ms = calloc((size_t)n, sizeof *sorted_ms);
    struct cost_unit layer;
    enum err_code rc = ERR_OK;

    if (!g.order || !g.parent || !g.ms || !g.least_ms || !is_joined || !sorted_ms) {
        groups_deinit(&g);
        rc = err_set(err, ERR_NO_MEMORY, "planning on %d nodes", n);
        goto out;
    }
    cost_of_unit(r->spec, LAYER_UNIT, &layer);
    if (r->links)
        join_nearest(r, &layer, nodes, is_joined, &g);
    else
        join_alike(cost_edge_ms(&layer, &r->link), &g);
    g.ms[0] = 0;
    if (n == 1)
        g.least_ms[0] = 0;
    for (int i = 1; i < n; i++)
        sorted_ms[i - 1] = g.ms[i];
    qsort(sorted_ms, (size_t)(n - 1), sizeof *sorted_ms, by_ms);
    find_scales(sorted_ms, n - 1, &g);
    *out = g;
out:
    free(is_joined);
    free(sorted_ms);
    return rc;
}

void groups_deinit(struct groups *g)
{
    free(g->order);
    free(g->parent);
    free(g->ms);
    free(g->least_ms);
    *g = (struct groups){0};
}

int groups_at(const struct groups *g, double ms, int *out_group)
{
    int n_groups = 0;

    for (int k = 0; k < g->n; k++) {
        int i = g->order[k];

        out_group[i] = k > 0 && g->ms[i] <= ms ? out_group[g->parent[i]] : n_groups++;
    }
    return n_groups;
}
