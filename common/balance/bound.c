#include "balance/bound.h"

#include <math.h>
#include <stdlib.h>

#include "balance/cut.h"

#define HALVINGS_MAX  96
#define PRICES        20     /* tried for maxStages */
#define IN_FLIGHT_MAX 8      /* looked at; a stage may have more */
#define NARROW        1.0005 /* an interval of T that is not worth halving */

/* A node that is being filled. */
struct vessel {
    int node;
    double flops; /* that it can take under T */
    double price; /* ms a FLOP */
};

/* What a run is held against. */
struct limit {
    double cap_ms;
    int in_flight; /* micro-batches whose activations it keeps */
};

struct interval {
    double lo, hi;
    double sum_ms; /* f(hi) */
};

struct bound {
    const struct partition_request *request;
    const int *nodes;
    int n;
    int n_units;
    int n_layer_units;                 /* 1 .. n_layer_units */
    double flops[MODEL_UNITS_MAX + 1]; /* prefix sums */
    int64_t state_bytes[MODEL_UNITS_MAX + 1];
    int64_t activation_bytes[MODEL_UNITS_MAX + 1];
    double largest_flops;  /* of a layer unit */
    int64_t scratch_bytes; /* of a layer unit, at least */
    double edge_ms, least_edge_ms;
    double bonus_flops;     /* that the last stages can take beyond their vessels */
    struct vessel *vessels; /* [n] */
    int n_intervals;
    struct interval list[HALVINGS_MAX + 1];
};

static void sum_up(struct bound *b)
{
    const struct spec *spec = b->request->spec;
    struct cost_unit costs[MODEL_UNITS_MAX];

    cost_of_units(spec, costs);
    b->n_units = model_units(&spec->model);
    b->n_layer_units = 2 * spec->model.layers;
    b->edge_ms = b->least_edge_ms = INFINITY;
    for (int u = 0; u < b->n_units; u++) {
        const struct cost_unit c = costs[u];
        double edge_ms;

        b->flops[u + 1] = b->flops[u] + c.flops;
        b->state_bytes[u + 1] = b->state_bytes[u] + c.state_bytes;
        b->activation_bytes[u + 1] = b->activation_bytes[u] + c.activation_bytes;
        if (u >= 1 && u <= b->n_layer_units) {
            b->largest_flops = fmax(b->largest_flops, c.flops);
            if (u == 1 || c.scratch_bytes < b->scratch_bytes)
                b->scratch_bytes = c.scratch_bytes;
        }
        edge_ms = cost_edge_ms(&c, &b->request->link);
        if (u < b->n_units - 1)
            b->least_edge_ms = fmin(b->least_edge_ms, edge_ms);
        if (u <= b->n_layer_units - 1)
            b->edge_ms = fmin(b->edge_ms, edge_ms);
    }
}

static bool fits(const struct bound *b, const struct node *n, int first, int end,
                 const struct limit *limit)
{
    double ms = (b->flops[end] - b->flops[first]) / (n->gflops * 1e6) + (end - first) * n->unit_ms;
    int64_t bytes = COST_PROCESS_BYTES + b->scratch_bytes + b->state_bytes[end] -
                    b->state_bytes[first] +
                    limit->in_flight * (b->activation_bytes[end] - b->activation_bytes[first]);

    return ms <= limit->cap_ms && bytes <= n->memory_bytes;
}

/* Layers are alike, so a run may as well begin in the first one. */
static double most_flops(const struct bound *b, int node, const struct limit *limit)
{
    const struct node *n = &b->request->nodes[node];
    double most = 0;

    for (int first = 1; first <= 2; first++) {
        int least = first;
        int most_end = b->n_layer_units + 1;

        while (least < most_end) {
            int end = (least + most_end + 1) / 2;

            if (fits(b, n, first, end, limit))
                least = end;
            else
                most_end = end - 1;
        }
        most = fmax(most, b->flops[least] - b->flops[first]);
    }
    return most;
}

static int by_price(const void *a, const void *b)
{
    const struct vessel *x = a;
    const struct vessel *y = b;

    if (x->price != y->price)
        return x->price < y->price ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

static int by_flops(const void *a, const void *b)
{
    const struct vessel *x = a;
    const struct vessel *y = b;

    return x->flops != y->flops ? (x->flops > y->flops ? -1 : 1) : 0;
}

/* Can maxStages nodes hold the layers at all? */
static bool is_enough(struct bound *b)
{
    int max_stages = b->request->spec->placement.max_stages;
    double left = (b->flops[b->n_layer_units + 1] - b->flops[1]) * (1 - 1e-9) - b->bonus_flops;

    qsort(b->vessels, (size_t)b->n, sizeof *b->vessels, by_flops);
    for (int i = 0; i < b->n && i < max_stages; i++)
        left -= b->vessels[i].flops;
    return left <= 0;
}

/* Returns the least time of a FLOP. */
static double sort_by_price(struct bound *b, double stage_ms)
{
    double rate = INFINITY;

    for (int i = 0; i < b->n; i++) {
        struct vessel *v = &b->vessels[i];
        const struct node *n = &b->request->nodes[v->node];
        double own = 1 / (n->gflops * 1e6) + n->unit_ms / b->largest_flops;

        rate = fmin(rate, 1 / (n->gflops * 1e6));
        v->price = v->flops > 0 ? own + stage_ms / v->flops : INFINITY;
    }
    qsort(b->vessels, (size_t)b->n, sizeof *b->vessels, by_price);
    return rate;
}

/* Least time of all stages and edges when every stage costs `stage_ms` as well; how many stages
 * that takes. INFINITY: it does not go in. */
static double pour(struct bound *b, double stage_ms, double *out_stages)
{
    double left = b->flops[b->n_layer_units + 1] - b->flops[1];
    double beside = b->flops[b->n_units] - left;
    double bonus = fmin(b->bonus_flops, left);
    double sum_ms = 0;
    double rate = sort_by_price(b, stage_ms);

    *out_stages = 0;
    left -= bonus;
    for (int i = 0; i < b->n && left > 0; i++) {
        const struct vessel *v = &b->vessels[i];
        double part = fmin(v->flops, left);

        if (v->flops <= 0)
            break;
        sum_ms += part * v->price;
        *out_stages += part / v->flops;
        left -= part;
    }
    return left > 1e-9 * b->flops[b->n_units] ? INFINITY : sum_ms + (beside + bonus) * rate;
}

/* Least time with the vessels as they are. One of the edges may be the cheap one behind the pooler,
 * and S stages have S - 1 edges. */
static double price_stages(struct bound *b, double cap_ms)
{
    int max_stages = b->request->spec->placement.max_stages;
    double spared = 2 * b->edge_ms + 2 * fmax(0, b->edge_ms - b->least_edge_ms);
    double stages;
    double best;
    double low = 0;
    double high = cap_ms;

    if (!is_enough(b))
        return INFINITY;
    best = pour(b, 2 * b->edge_ms, &stages) - spared;
    /* The price of a stage at which so many are enough; every price gives a bound. */
    for (int i = 0; i < PRICES && !isinf(best) && stages != max_stages; i++) {
        double price = (low + high) / 2;
        double sum_ms;

        if (i == 0 && stages < max_stages)
            break;
        sum_ms = pour(b, 2 * b->edge_ms + price, &stages) - price * max_stages - spared;
        best = fmax(best, sum_ms);
        if (stages > max_stages)
            low = price;
        else
            high = price;
    }
    return best;
}

/* Set the vessels to what nodes can take with so much in flight. */
static double set_vessels(struct bound *b, const struct limit *limit)
{
    double sum = 0;

    b->bonus_flops = 0;
    for (int i = 0; i < b->n; i++) {
        b->vessels[i].node = b->nodes[i];
        b->vessels[i].flops = most_flops(b, b->nodes[i], limit);
        sum += b->vessels[i].flops;
    }
    return sum;
}

/* The j-th stage from the end has j micro-batches in flight, and so may take more than one that has
 * `most`; not more than the node to which that makes the greatest difference. */
static void set_bonus(struct bound *b, double cap_ms, int most)
{
    for (int j = 1; j < most; j++) {
        double bonus = 0;

        for (int i = 0; i < b->n; i++) {
            const struct vessel *v = &b->vessels[i];

            bonus = fmax(bonus, most_flops(b, v->node, &(struct limit){cap_ms, j}) - v->flops);
        }
        b->bonus_flops += bonus;
    }
}

/* f(T). Two bounds, of which the better counts: one micro-batch in flight everywhere; and as many
 * as there are, but for the last stages. */
static double least_sum(struct bound *b, double cap_ms)
{
    int m = b->request->spec->training.micro_batches;
    int most = m < IN_FLIGHT_MAX ? m : IN_FLIGHT_MAX;
    double roomy = set_vessels(b, &(struct limit){cap_ms, 1});
    double best = price_stages(b, cap_ms);

    if (isinf(best) || set_vessels(b, &(struct limit){cap_ms, most}) >= roomy)
        return best;
    set_bonus(b, cap_ms, most);
    return fmax(best, price_stages(b, cap_ms));
}

static double bound_of(const struct bound *b, const struct interval *i)
{
    return i->sum_ms + (b->request->spec->training.micro_batches - 1) * i->lo;
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

enum err_code bound_new(const struct partition_request *request, const int *nodes, int n,
                        struct bound **out, struct err *err)
{
    struct bound *b = calloc(1, sizeof *b);
    struct vessel *vessels = calloc((size_t)n, sizeof *vessels);
    double fastest = 0;
    double slowest = INFINITY;
    double unit_ms = 0;
    double largest = 0;
    double lo;
    double hi;

    if (!b || !vessels) {
        free(b);
        free(vessels);
        return err_set(err, ERR_NO_MEMORY, "planning on %d nodes", n);
    }
    *b = (struct bound){.request = request, .nodes = nodes, .n = n, .vessels = vessels};
    sum_up(b);
    for (int i = 0; i < n; i++) {
        fastest = fmax(fastest, request->nodes[nodes[i]].gflops * 1e6);
        slowest = fmin(slowest, request->nodes[nodes[i]].gflops * 1e6);
        unit_ms = fmax(unit_ms, request->nodes[nodes[i]].unit_ms);
    }
    /* Some stage has the largest unit, and none has more than all of them. */
    for (int u = 0; u < b->n_units; u++)
        largest = fmax(largest, b->flops[u + 1] - b->flops[u]);
    lo = largest / fastest;
    hi = fmax(b->flops[b->n_units] / slowest + b->n_units * unit_ms, 2 * b->edge_ms);
    b->list[0] = (struct interval){lo, hi, least_sum(b, hi)};
    b->n_intervals = 1;
    halve_intervals(b);
    *out = b;
    return ERR_OK;
}

void bound_free(struct bound *b)
{
    if (b)
        free(b->vessels);
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

void bound_rest(struct bound *b, double cap_ms, double *out_ms)
{
    double slack = 2 * fmax(0, b->edge_ms - b->least_edge_ms);
    double sum_ms = 0;
    double rate;
    double room;
    int at = 0;

    (void)set_vessels(b, &(struct limit){cap_ms, 1});
    rate = sort_by_price(b, 2 * b->edge_ms);
    room = b->vessels[0].flops;
    out_ms[0] = 0;
    for (int u = 0; u < b->n_units; u++) {
        double left = b->flops[u + 1] - b->flops[u];
        bool is_layer = u >= 1 && u <= b->n_layer_units;

        if (!is_layer)
            sum_ms += left * rate;
        while (is_layer && left > 0 && at < b->n) {
            double part = fmin(left, room);

            if (part > 0)
                sum_ms += part * b->vessels[at].price;
            left -= part;
            room -= part;
            if (left > 0 && ++at < b->n)
                room = b->vessels[at].flops;
        }
        out_ms[u + 1] = fmax(0, sum_ms - slack);
    }
}
