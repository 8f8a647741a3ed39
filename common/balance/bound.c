#include "balance/bound.h"

#include <math.h>
#include <stdlib.h>

#include "balance/cut.h"

#define FAR           1.5    /* times the distance within groups: groups are far from each other */
#define IN_FLIGHT_MAX 8      /* micro-batches that are counted; a stage may have more */
#define NARROW        1.0005 /* an interval of T that is not worth halving */

/* --- groups --- */

static int by_ms(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return x < y ? -1 : x > y;
}

enum err_code groups_init(const struct partition_request *r, const int *nodes, int n,
                          struct groups *out, struct err *err)
{
    struct groups g = {.n = n,
                       .order = calloc((size_t)n, sizeof *g.order),
                       .parent = calloc((size_t)n, sizeof *g.parent),
                       .ms = calloc((size_t)n, sizeof *g.ms),
                       .near_ms = INFINITY};
    bool *is_joined = calloc((size_t)n, sizeof *is_joined);
    double *sorted_ms = calloc((size_t)n, sizeof *sorted_ms);
    double widest = FAR;
    struct cost_unit layer;
    enum err_code rc = ERR_OK;

    if (!g.order || !g.parent || !g.ms || !is_joined || !sorted_ms) {
        groups_deinit(&g);
        rc = err_set(err, ERR_NO_MEMORY, "planning on %d nodes", n);
        goto out;
    }
    cost_of_unit(&r->job, COST_LAYER_UNIT, &layer);
    for (int i = 0; i < n; i++) {
        g.order[i] = i;
        g.ms[i] = r->links ? INFINITY : cost_edge_ms(&layer, &r->link);
    }
    g.longest_ms = r->links ? 0 : g.ms[0];
    /* Prim's algorithm: repeatedly join the node that is nearest to one of those joined already. */
    for (int k = 0, at = 0, next = -1; r->links && k < n; k++, at = next, next = -1) {
        is_joined[at] = true;
        g.order[k] = at;
        for (int i = 0; i < n; i++) {
            double ms;

            if (is_joined[i])
                continue;
            ms = cost_edge_ms(&layer, partition_link(r, nodes[at], nodes[i]));
            g.longest_ms = fmax(g.longest_ms, ms);
            if (ms < g.ms[i]) {
                g.ms[i] = ms;
                g.parent[i] = at;
            }
            if (next < 0 || g.ms[i] < g.ms[next])
                next = i;
        }
    }
    g.ms[0] = 0;
    for (int i = 1; i < n; i++)
        sorted_ms[i - 1] = g.ms[i];
    qsort(sorted_ms, (size_t)(n - 1), sizeof *sorted_ms, by_ms);
    g.shortest_ms = n > 1 ? sorted_ms[0] : 0;
    /* Groups are set apart by the widest gap between the distances of the tree. */
    for (int i = 0; i + 2 < n; i++)
        if (sorted_ms[i + 1] / sorted_ms[i] > widest) {
            widest = sorted_ms[i + 1] / sorted_ms[i];
            g.near_ms = sorted_ms[i];
        }
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

/* --- bins --- */

/* A node that layers' FLOPs are poured into. */
struct bin {
    const struct cut_node *node;
    double capacity; /* FLOPs that it can take within T */
    double price;    /* ms per FLOP */
};

/* What f(T) is computed from. */
struct knapsack {
    const struct partition_request *request;
    const struct groups *groups;
    int n;
    struct cut_node *nodes; /* [n] */
    int n_units;
    int n_layer_units;                 /* 1 .. n_layer_units */
    double flops[MODEL_UNITS_MAX + 1]; /* prefix sums */
    int64_t state_bytes[MODEL_UNITS_MAX + 1];
    int64_t activation_bytes[MODEL_UNITS_MAX + 1];
    double least_rate;     /* ms per FLOP in the sum, of the fastest node */
    double largest_flops;  /* of a layer unit */
    int64_t scratch_bytes; /* of a layer unit, at least */
    int *island_of;        /* [n] the group of each node at the current T */
    double extra_flops;    /* that the last stages can take beyond their capacities */
    int n_bins;
    struct bin *bins; /* [n] */
};

/* Does a run of layer units fit on a node within T, with `in_flight` micro-batches? */
static bool fits(const struct knapsack *k, const struct cut_node *at, int first, int end,
                 double cap_ms, int in_flight)
{
    const struct node *n = &k->request->nodes[at->at];
    bool has_all = end - first == k->n_layer_units; /* else its stage has at least one edge */
    double ms = (k->flops[end] - k->flops[first]) / (n->gflops * 1e6) + (end - first) * n->unit_ms +
                (has_all ? 0 : at->message_ms);
    int64_t bytes = COST_PROCESS_BYTES + k->scratch_bytes + k->state_bytes[end] -
                    k->state_bytes[first] +
                    in_flight * (k->activation_bytes[end] - k->activation_bytes[first]);

    return at->busy * ms <= cap_ms && bytes <= at->memory;
}

/* Layers are alike, so only runs that begin in the first layer need to be tried. */
static double capacity_of(const struct knapsack *k, const struct cut_node *at, double cap_ms,
                          int in_flight)
{
    double most = 0;

    /* All layers have no edge, so they may take less time than a unit less. */
    if (fits(k, at, 1, k->n_layer_units + 1, cap_ms, in_flight))
        return k->flops[k->n_layer_units + 1] - k->flops[1];
    for (int first = 1; first <= 2; first++) {
        int least = first;
        int most_end = k->n_layer_units + 1;

        while (least < most_end) {
            int end = (least + most_end + 1) / 2;

            if (fits(k, at, first, end, cap_ms, in_flight))
                least = end;
            else
                most_end = end - 1;
        }
        most = fmax(most, k->flops[least] - k->flops[first]);
    }
    return most;
}

/* Set the bins to what the nodes of an island can take with `in_flight` micro-batches. Returns
 * the sum of capacities. */
static double set_bins(struct knapsack *k, int island, double cap_ms, int in_flight)
{
    double sum = 0;

    k->extra_flops = 0;
    k->n_bins = 0;
    for (int i = 0; i < k->n; i++) {
        double capacity;

        if (k->island_of[i] != island)
            continue;
        capacity = capacity_of(k, &k->nodes[i], cap_ms, in_flight);
        k->bins[k->n_bins++] = (struct bin){.node = &k->nodes[i], .capacity = capacity};
        sum += capacity;
    }
    return sum;
}

static int by_price(const void *a, const void *b)
{
    const struct bin *x = a;
    const struct bin *y = b;

    if (x->price != y->price)
        return x->price < y->price ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

static int by_capacity(const void *a, const void *b)
{
    const struct bin *x = a;
    const struct bin *y = b;

    return x->capacity != y->capacity ? (x->capacity > y->capacity ? -1 : 1) : 0;
}

/* --- filling them --- */

/* The least time of all stages and edges with the bins as they are; INFINITY if they are too small.
 * S stages have S - 1 edges, so `slack` takes back one edge and the messages at both ends. */
static double pour(struct knapsack *k, double cap_ms)
{
    double left = k->flops[k->n_layer_units + 1] - k->flops[1];
    double beside = k->flops[k->n_units] - left;
    double extra = fmin(k->extra_flops, left);
    double sum_ms = (beside + extra) * k->least_rate;
    double edge_ms = fmin(k->groups->shortest_ms, cap_ms);
    double slack = 0;
    double lacking = left * (1 - 1e-9) - k->extra_flops;

    /* Can maxStages nodes hold the layers at all? */
    qsort(k->bins, (size_t)k->n_bins, sizeof *k->bins, by_capacity);
    for (int i = 0; i < k->n_bins && i < k->request->max_stages; i++)
        lacking -= k->bins[i].capacity;
    if (lacking > 0)
        return INFINITY;
    for (int i = 0; i < k->n_bins; i++) {
        struct bin *bin = &k->bins[i];
        double beside_ms = 2 * (edge_ms + bin->node->fill * bin->node->message_ms);
        const struct node *n = &k->request->nodes[bin->node->at];

        bin->price =
            bin->capacity > 0
                ? bin->node->fill * (1 / (n->gflops * 1e6) + n->unit_ms / k->largest_flops) +
                      beside_ms / bin->capacity
                : INFINITY;
        slack = fmax(slack, beside_ms);
    }
    qsort(k->bins, (size_t)k->n_bins, sizeof *k->bins, by_price);
    left -= extra;
    for (int i = 0; i < k->n_bins && left > 0 && k->bins[i].capacity > 0; i++) {
        double part = fmin(k->bins[i].capacity, left);

        sum_ms += part * k->bins[i].price;
        left -= part;
    }
    return left > 1e-9 * k->flops[k->n_units] ? INFINITY : sum_ms - slack;
}

/* f(T): no edge is longer than T either, so all stages with layers are on one island. For each,
 * the better of two bounds: one micro-batch in flight everywhere; and as many as there are, except
 * in the last stages: the j-th from the end has only j, so it may take more than a bin for `most`
 * of them, at most as much more as the node to which that makes the greatest difference. */
static double least_sum(struct knapsack *k, double cap_ms)
{
    int n_islands = groups_at(k->groups, cap_ms, k->island_of);
    int m = k->request->job.micro_batches;
    int most = m < IN_FLIGHT_MAX ? m : IN_FLIGHT_MAX;
    double least = INFINITY;

    for (int island = 0; island < n_islands; island++) {
        double roomy = set_bins(k, island, cap_ms, 1);
        double best = pour(k, cap_ms);

        if (!isinf(best) && set_bins(k, island, cap_ms, most) < roomy) {
            for (int j = 1; j < most; j++) {
                double extra = 0;

                for (int i = 0; i < k->n_bins; i++)
                    extra = fmax(extra,
                                 capacity_of(k, k->bins[i].node, cap_ms, j) - k->bins[i].capacity);
                k->extra_flops += extra;
            }
            best = fmax(best, pour(k, cap_ms));
        }
        least = fmin(least, best);
    }
    return least;
}

/* --- intervals of T --- */

static double bound_of(const struct bound *b, const struct interval *i)
{
    return i->sum_ms + (b->n_microbatches - 1) * i->lo;
}

enum err_code bound_init(const struct partition_request *request, const int *nodes,
                         const struct groups *groups, struct bound *out, struct err *err)
{
    const struct model *model = &request->job.spec->model;
    size_t n = (size_t)groups->n;
    struct bound b = {.n_microbatches = request->job.micro_batches, .n = 1};
    struct interval whole = {.lo = INFINITY, .hi = groups->longest_ms};
    struct cost_unit units[MODEL_UNITS_MAX];
    double largest = 0; /* of all units */
    struct knapsack k = {.request = request,
                         .n_units = model_units(model),
                         .n_layer_units = 2 * model->layers,
                         .nodes = calloc(n, sizeof *k.nodes),
                         .groups = groups,
                         .n = groups->n,
                         .least_rate = INFINITY,
                         .bins = calloc(n, sizeof *k.bins),
                         .island_of = calloc(n, sizeof *k.island_of)};
    enum err_code rc = ERR_OK;

    if (!k.nodes || !k.bins || !k.island_of) {
        rc = err_set(err, ERR_NO_MEMORY, "planning on %d nodes", groups->n);
        goto out;
    }
    cost_of_units(&request->job, units);
    for (int u = 0; u < k.n_units; u++) {
        k.flops[u + 1] = k.flops[u] + units[u].flops;
        k.state_bytes[u + 1] = k.state_bytes[u] + units[u].state_bytes;
        k.activation_bytes[u + 1] = k.activation_bytes[u] + units[u].activation_bytes;
        largest = fmax(largest, k.flops[u + 1] - k.flops[u]);
        if (u >= 1 && u <= k.n_layer_units) {
            k.largest_flops = fmax(k.largest_flops, units[u].flops);
            if (u == 1 || units[u].scratch_bytes < k.scratch_bytes)
                k.scratch_bytes = units[u].scratch_bytes;
        }
    }
    cut_nodes_init(request, nodes, k.n, units, k.n_units, k.nodes);
    /* T lies where some stage has the largest unit and none has more than all of them. */
    for (int i = 0; i < k.n; i++) {
        const struct node *node = &request->nodes[nodes[i]];
        double rate = 1 / (node->gflops * 1e6);

        k.least_rate = fmin(k.least_rate, k.nodes[i].fill / (node->gflops * 1e6));
        whole.lo = fmin(whole.lo, k.nodes[i].busy * largest * rate);
        whole.hi = fmax(whole.hi,
                        k.nodes[i].busy * (k.flops[k.n_units] * rate + k.n_units * node->unit_ms +
                                           2 * k.nodes[i].message_ms));
    }
    whole.sum_ms = least_sum(&k, whole.hi);
    b.intervals[0] = whole;
    while (b.n < BOUND_INTERVALS_MAX) {
        struct interval *least = &b.intervals[0];
        double middle;

        for (int i = 1; i < b.n; i++)
            if (bound_of(&b, &b.intervals[i]) < bound_of(&b, least))
                least = &b.intervals[i];
        if (least->hi < least->lo * NARROW)
            break;
        middle = sqrt(least->lo * least->hi);
        b.intervals[b.n++] = (struct interval){middle, least->hi, least->sum_ms};
        least->hi = middle;
        least->sum_ms = least_sum(&k, middle);
    }
    *out = b;
out:
    free(k.bins);
    free(k.island_of);
    free(k.nodes);
    return rc;
}

double bound_step_ms(const struct bound *b)
{
    double least = INFINITY;

    for (int i = 0; i < b->n; i++)
        least = fmin(least, bound_of(b, &b->intervals[i]));
    return least;
}

bool bound_window(const struct bound *b, double step_ms, double *out_lo_ms, double *out_hi_ms)
{
    double lo = INFINITY;
    double hi = 0;

    for (int i = 0; i < b->n; i++)
        if (bound_of(b, &b->intervals[i]) < step_ms) {
            lo = fmin(lo, b->intervals[i].lo);
            hi = fmax(hi, b->intervals[i].hi);
        }
    *out_lo_ms = lo;
    *out_hi_ms = hi;
    return hi > 0;
}
