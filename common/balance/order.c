#include "balance/order.h"

#include <math.h>
#include <stdlib.h>

#include "balance/leftout.h"

#define LAYER_UNIT 1 /* sends what all units of layers do */

static int by_speed(const void *a, const void *b)
{
    const struct ranked *x = a;
    const struct ranked *y = b;

    if (x->ms != y->ms)
        return x->ms < y->ms ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

static int by_memory(const void *a, const void *b)
{
    const struct ranked *x = a;
    const struct ranked *y = b;

    if (x->memory_bytes != y->memory_bytes)
        return x->memory_bytes > y->memory_bytes ? -1 : 1;
    return by_speed(a, b);
}

static int by_strength(const void *a, const void *b)
{
    const struct ranked *x = a;
    const struct ranked *y = b;

    if (x->strength != y->strength)
        return x->strength > y->strength ? -1 : 1;
    if (x->district != y->district)
        return x->district < y->district ? -1 : 1;
    return by_speed(a, b);
}

static int by_group(const void *a, const void *b)
{
    const struct ranked *x = a;
    const struct ranked *y = b;

    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

int order_rank(const struct partition_request *r, struct ranked *out)
{
    int64_t least = leftout_least_bytes(r);
    int n_units = model_units(&r->spec->model);
    struct cost_unit costs[MODEL_UNITS_MAX];
    double flops = 0;
    int n = 0;

    cost_of_units(r->spec, costs);
    for (int u = 0; u < n_units; u++)
        flops += costs[u].flops;
    for (int i = 0; i < r->n_nodes; i++) {
        const struct node *node = &r->nodes[i];

        if (node->memory_bytes >= least)
            out[n++] = (struct ranked){.node = i,
                                       .ms = flops / (node->gflops * 1e6) + n_units * node->unit_ms,
                                       .memory_bytes = node->memory_bytes};
    }
    return n;
}

enum err_code order_group(const struct groups *g, struct ranked *nodes, int n, struct err *err)
{
    int *group = calloc((size_t)n, sizeof *group);
    double *speed = calloc((size_t)n, sizeof *speed);
    double least_ms = INFINITY;
    enum err_code rc = ERR_OK;

    if (!group || !speed) {
        rc = err_set(err, ERR_NO_MEMORY, "planning on %d nodes", n);
    } else if (g->n_scales > 0) {
        (void)groups_at(g, g->scale_ms[0], group);
        for (int i = 0; i < n; i++) {
            nodes[i].district = group[i];
            speed[group[i]] += 1 / nodes[i].ms;
        }
        for (int k = 0; k < g->n_scales; k++)
            least_ms = fmin(least_ms, g->scale_ms[k]);
        (void)groups_at(g, least_ms, group);
        for (int i = 0; i < n; i++) {
            nodes[i].group = group[i];
            nodes[i].strength = speed[nodes[i].district];
        }
    }
    free(group);
    free(speed);
    return rc;
}

void order_select(struct ranked *nodes, int n, int k)
{
    int n_fast = k - k / 4;

    qsort(nodes, (size_t)n, sizeof *nodes, by_speed);
    if (n > k)
        qsort(nodes + n_fast, (size_t)(n - n_fast), sizeof *nodes, by_memory);
}

void order_select_near(struct ranked *nodes, int n)
{
    qsort(nodes, (size_t)n, sizeof *nodes, by_strength);
}

void order_by_memory(struct ranked *nodes, int n)
{
    qsort(nodes, (size_t)n, sizeof *nodes, by_memory);
}

static void swap(struct ranked *a, struct ranked *b)
{
    struct ranked other = *a;

    *a = *b;
    *b = other;
}

void order_reverse(struct ranked *nodes, int n)
{
    for (int i = 0; i < n / 2; i++)
        swap(&nodes[i], &nodes[n - 1 - i]);
}

void order_by_distance(const struct partition_request *r, struct ranked *nodes, int n)
{
    struct cost_unit layer;

    cost_of_unit(r->spec, LAYER_UNIT, &layer);
    for (int i = 1; i < n; i++) {
        double least_ms = INFINITY;
        int nearest = i;

        for (int k = i; k < n; k++) {
            const struct cost_link *link = partition_link(r, nodes[i - 1].node, nodes[k].node);
            double ms = cost_edge_ms(&layer, link);

            if (ms < least_ms) {
                least_ms = ms;
                nearest = k;
            }
        }
        swap(&nodes[i], &nodes[nearest]);
    }
}

void order_keep_groups(struct ranked *nodes, int n)
{
    for (int i = 0; i < n; i++)
        nodes[i].place = i;
    qsort(nodes, (size_t)n, sizeof *nodes, by_group);
}
