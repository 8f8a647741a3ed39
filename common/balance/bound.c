#include "balance/bound.h"

#include <math.h>
#include <stdlib.h>

#include "balance/cut.h"

#define FAR           1.5    /* times the distance within groups: groups are far from each other */
#define LAYER_UNIT    1      /* the first unit of a layer, which sends what all of them do */
#define HALVINGS_MAX  96     /* of intervals of T */
#define IN_FLIGHT_MAX 8      /* micro-batches that are counted; a stage may have more */
#define NARROW        1.0005 /* an interval of T that is not worth halving */

/* --- groups --- */

/* Prim's algorithm: repeatedly join the node that is nearest to one of those joined already. */
static void join_nearest(const struct partition_request *r, const struct cost_unit *layer,
                         const int *nodes, bool *is_joined, struct groups *g)
{
    int at = 0;

    for (int i = 0; i < g->n; i++)
        g->ms[i] = INFINITY;
    for (int k = 0; k < g->n; k++) {
        int next = -1;

        is_joined[at] = true;
        g->order[k] = at;
        for (int i = 0; i < g->n; i++) {
            double ms;

            if (is_joined[i])
                continue;
            ms = cost_edge_ms(layer, partition_link(r, nodes[at], nodes[i]));
            g->longest_ms = fmax(g->longest_ms, ms);
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
    cost_of_unit(&r->job, LAYER_UNIT, &layer);
    if (r->links) {
        join_nearest(r, &layer, nodes, is_joined, &g);
    } else {
        g.longest_ms = cost_edge_ms(&layer, &r->link);
        for (int i = 0; i < n; i++) {
            g.order[i] = i;
            g.ms[i] = g.longest_ms;
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

struct share {
    double fill, busy; /* of a run's time, see balance/cost.h */
    double message_ms; /* per edge, see balance/cut.h */
    int64_t memory;    /* bytes */
};

/* A node that layers' FLOPs are poured into. */
struct bin {
    int at;            /* index into bound.nodes */
    double capacity;   /* FLOPs that it can take within T */
    double message_ms; /* of the messages of an edge, in the sum */
    double price;      /* ms per FLOP */
};

struct interval {
    double lo, hi; /* of T */
    double sum_ms; /* f(hi) */
};

struct bound {
    const struct partition_request *request;
    const int *nodes;
    const struct groups *groups;
    int n;
    int n_units;
    int n_layer_units;                 /* 1 .. n_layer_units */
    double flops[MODEL_UNITS_MAX + 1]; /* prefix sums */
    int64_t state_bytes[MODEL_UNITS_MAX + 1];
    int64_t activation_bytes[MODEL_UNITS_MAX + 1];
    double least_rate;     /* ms per FLOP in the sum, of the fastest node */
    double largest_flops;  /* of a layer unit */
    int64_t scratch_bytes; /* of a layer unit, at least */
    int *island_of;        /* [n] the group of each node at the current T */
    struct share *shares;  /* [n] of each node */
    double extra_flops;    /* that the last stages can take beyond their capacities */
    int n_bins;
    struct bin *bins; /* [n] */
    int n_intervals;
    struct interval list[HALVINGS_MAX + 1];
};

/* Does a run of layer units fit on a node within T, with `in_flight` micro-batches? */
static bool fits(const struct bound *b, int at, int first, int end, double cap_ms, int in_flight)
{
    const struct node *n = &b->request->nodes[b->nodes[at]];
    bool has_all = end - first == b->n_layer_units; /* else its stage has at least one edge */
    double ms = (b->flops[end] - b->flops[first]) / (n->gflops * 1e6) + (end - first) * n->unit_ms +
                (has_all ? 0 : b->shares[at].message_ms);
    int64_t bytes = COST_PROCESS_BYTES + b->scratch_bytes + b->state_bytes[end] -
                    b->state_bytes[first] +
                    in_flight * (b->activation_bytes[end] - b->activation_bytes[first]);

    return b->shares[at].busy * ms <= cap_ms && bytes <= b->shares[at].memory;
}

/* Layers are alike, so only runs that begin in the first layer need to be tried. */
static double capacity_of(const struct bound *b, int at, double cap_ms, int in_flight)
{
    double most = 0;

    /* All layers have no edge, so they may take less time than a unit less. */
    if (fits(b, at, 1, b->n_layer_units + 1, cap_ms, in_flight))
        return b->flops[b->n_layer_units + 1] - b->flops[1];
    for (int first = 1; first <= 2; first++) {
        int least = first;
        int most_end = b->n_layer_units + 1;

        while (least < most_end) {
            int end = (least + most_end + 1) / 2;

            if (fits(b, at, first, end, cap_ms, in_flight))
                least = end;
            else
                most_end = end - 1;
        }
        most = fmax(most, b->flops[least] - b->flops[first]);
    }
    return most;
}

/* Set the bins to what the nodes of an island can take with `in_flight` micro-batches. Returns
 * the sum of capacities. */
static double set_bins(struct bound *b, int island, double cap_ms, int in_flight)
{
    double sum = 0;

    b->extra_flops = 0;
    b->n_bins = 0;
    for (int i = 0; i < b->n; i++) {
        double capacity;

        if (b->island_of[i] != island)
            continue;
        capacity = capacity_of(b, i, cap_ms, in_flight);
        b->bins[b->n_bins++] =
            (struct bin){.at = i,
                         .capacity = capacity,
                         .message_ms = b->shares[i].fill * b->shares[i].message_ms};
        sum += capacity;
    }
    return sum;
}

/* The j-th stage from the end has only j micro-batches in flight, so it may take more than a bin
 * for `most` of them: at most as much more as the node to which that makes the greatest
 * difference. */
static void set_extra(struct bound *b, double cap_ms, int most)
{
    for (int j = 1; j < most; j++) {
        double extra = 0;

        for (int i = 0; i < b->n_bins; i++)
            extra = fmax(extra, capacity_of(b, b->bins[i].at, cap_ms, j) - b->bins[i].capacity);
        b->extra_flops += extra;
    }
}

static int by_price(const void *a, const void *b)
{
    const struct bin *x = a;
    const struct bin *y = b;

    if (x->price != y->price)
        return x->price < y->price ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

static int by_capacity(const void *a, const void *b)
{
    const struct bin *x = a;
    const struct bin *y = b;

    return x->capacity != y->capacity ? (x->capacity > y->capacity ? -1 : 1) : 0;
}

/* --- filling them --- */

/* Can maxStages nodes hold the layers at all? */
static bool is_enough(struct bound *b)
{
    int max_stages = b->request->max_stages;
    double left = (b->flops[b->n_layer_units + 1] - b->flops[1]) * (1 - 1e-9) - b->extra_flops;

    qsort(b->bins, (size_t)b->n_bins, sizeof *b->bins, by_capacity);
    for (int i = 0; i < b->n_bins && i < max_stages; i++)
        left -= b->bins[i].capacity;
    return left <= 0;
}

/* The least time of all stages and edges with the bins as they are; INFINITY if they are too small.
 * S stages have S - 1 edges, so `slack` takes back one edge and the messages at both ends. */
static double pour(struct bound *b, double cap_ms)
{
    double left = b->flops[b->n_layer_units + 1] - b->flops[1];
    double beside = b->flops[b->n_units] - left;
    double extra = fmin(b->extra_flops, left);
    double sum_ms = (beside + extra) * b->least_rate;
    double edge_ms = fmin(b->groups->shortest_ms, cap_ms);
    double slack = 0;

    if (!is_enough(b))
        return INFINITY;
    for (int i = 0; i < b->n_bins; i++) {
        struct bin *bin = &b->bins[i];
        const struct node *n = &b->request->nodes[b->nodes[bin->at]];

        bin->price = bin->capacity > 0 ? b->shares[bin->at].fill * (1 / (n->gflops * 1e6) +
                                                                    n->unit_ms / b->largest_flops) +
                                             2 * (edge_ms + bin->message_ms) / bin->capacity
                                       : INFINITY;
        slack = fmax(slack, 2 * (edge_ms + bin->message_ms));
    }
    qsort(b->bins, (size_t)b->n_bins, sizeof *b->bins, by_price);
    left -= extra;
    for (int i = 0; i < b->n_bins && left > 0 && b->bins[i].capacity > 0; i++) {
        double part = fmin(b->bins[i].capacity, left);

        sum_ms += part * b->bins[i].price;
        left -= part;
    }
    return left > 1e-9 * b->flops[b->n_units] ? INFINITY : sum_ms - slack;
}

/* f(T): no edge is longer than T either, so all stages with layers are on one island. For each,
 * the better of two bounds: one micro-batch in flight everywhere; and as many as there are, except
 * in the last stages. */
static double least_sum(struct bound *b, double cap_ms)
{
    int n_islands = groups_at(b->groups, cap_ms, b->island_of);
    int m = b->request->job.micro_batches;
    int most = m < IN_FLIGHT_MAX ? m : IN_FLIGHT_MAX;
    double least = INFINITY;

    for (int island = 0; island < n_islands; island++) {
        double roomy = set_bins(b, island, cap_ms, 1);
        double best = pour(b, cap_ms);

        if (!isinf(best) && set_bins(b, island, cap_ms, most) < roomy) {
            set_extra(b, cap_ms, most);
            best = fmax(best, pour(b, cap_ms));
        }
        least = fmin(least, best);
    }
    return least;
}

/* --- intervals of T --- */

static double bound_of(const struct bound *b, const struct interval *i)
{
    return i->sum_ms + (b->request->job.micro_batches - 1) * i->lo;
}

static void halve_intervals(struct bound *b)
{
    while (b->n_intervals <= HALVINGS_MAX) {
        struct interval *least = &b->list[0];
        double middle;

        for (int i = 1; i < b->n_intervals; i++)
            if (bound_of(b, &b->list[i]) < bound_of(b, least))
                least = &b->list[i];
        if (least->hi < least->lo * NARROW)
            break;
        middle = sqrt(least->lo * least->hi);
        b->list[b->n_intervals++] = (struct interval){middle, least->hi, least->sum_ms};
        least->hi = middle;
        least->sum_ms = least_sum(b, middle);
    }
}

/* Fill in everything but the intervals. */
static void sum_up(struct bound *b)
{
    const struct cost_job *job = &b->request->job;
    struct cost_unit costs[MODEL_UNITS_MAX];
    double balanced_ms;

    cost_of_units(job, costs);
    b->n_units = model_units(&job->spec->model);
    b->n_layer_units = 2 * job->spec->model.layers;
    for (int u = 0; u < b->n_units; u++) {
        const struct cost_unit *c = &costs[u];

        b->flops[u + 1] = b->flops[u] + c->flops;
        b->state_bytes[u + 1] = b->state_bytes[u] + c->state_bytes;
        b->activation_bytes[u + 1] = b->activation_bytes[u] + c->activation_bytes;
        if (u >= 1 && u <= b->n_layer_units) {
            b->largest_flops = fmax(b->largest_flops, c->flops);
            if (u == 1 || c->scratch_bytes < b->scratch_bytes)
                b->scratch_bytes = c->scratch_bytes;
        }
    }
    balanced_ms = cost_balanced_ms(b->request->nodes, b->request->n_nodes, b->flops[b->n_units]);
    for (int i = 0; i < b->n; i++) {
        const struct node *node = &b->request->nodes[b->nodes[i]];

        double fill = cost_fill_share(node, balanced_ms, job->micro_batches);

        b->shares[i] = (struct share){
            .fill = fill,
            .busy = cost_busy_share(fill, job->micro_batches),
            .message_ms = cost_messages_ms(cost_largest_edge(costs, b->n_units), node),
            .memory = partition_memory(b->request, b->nodes[i])};
        b->least_rate = fmin(b->least_rate, fill / (node->gflops * 1e6));
    }
}

/* T lies in it: some stage has the largest unit, and none has more than all of them. */
static struct interval whole_interval(const struct bound *b)
{
    double largest = 0;
    double least_ms = INFINITY; /* of the largest unit */
    double most_ms = b->groups->longest_ms;

    for (int u = 0; u < b->n_units; u++)
        largest = fmax(largest, b->flops[u + 1] - b->flops[u]);
    for (int i = 0; i < b->n; i++) {
        const struct node *node = &b->request->nodes[b->nodes[i]];
        double rate = 1 / (node->gflops * 1e6);

        least_ms = fmin(least_ms, b->shares[i].busy * largest * rate);
        most_ms = fmax(most_ms, b->shares[i].busy *
                                    (b->flops[b->n_units] * rate + b->n_units * node->unit_ms +
                                     2 * b->shares[i].message_ms));
    }
    return (struct interval){.lo = least_ms, .hi = most_ms};
}

enum err_code bound_new(const struct partition_request *request, const int *nodes,
                        const struct groups *groups, struct bound **out, struct err *err)
{
    size_t n = (size_t)groups->n;
    struct bound *b = calloc(1, sizeof *b);

    if (b) {
        *b = (struct bound){.request = request,
                            .nodes = nodes,
                            .groups = groups,
                            .n = groups->n,
                            .least_rate = INFINITY,
                            .bins = calloc(n, sizeof *b->bins),
                            .island_of = calloc(n, sizeof *b->island_of),
                            .shares = calloc(n, sizeof *b->shares)};
    }
    if (!b || !b->bins || !b->island_of || !b->shares) {
        bound_free(b);
        return err_set(err, ERR_NO_MEMORY, "planning on %d nodes", groups->n);
    }
    sum_up(b);
    b->list[0] = whole_interval(b);
    b->list[0].sum_ms = least_sum(b, b->list[0].hi);
    b->n_intervals = 1;
    halve_intervals(b);
    *out = b;
    return ERR_OK;
}

void bound_free(struct bound *b)
{
    if (!b)
        return;
    free(b->bins);
    free(b->island_of);
    free(b->shares);
    free(b);
}

double bound_step_ms(const struct bound *b)
{
    double least = INFINITY;

    for (int i = 0; i < b->n_intervals; i++)
        least = fmin(least, bound_of(b, &b->list[i]));
    return least;
}

bool bound_window(const struct bound *b, double step_ms, double *out_lo_ms, double *out_hi_ms)
{
    double lo = INFINITY;
    double hi = 0;

    for (int i = 0; i < b->n_intervals; i++)
        if (bound_of(b, &b->list[i]) < step_ms) {
            lo = fmin(lo, b->list[i].lo);
            hi = fmax(hi, b->list[i].hi);
        }
    *out_lo_ms = lo;
    *out_hi_ms = hi;
    return hi > 0;
}
