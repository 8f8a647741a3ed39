#include "balance/bound.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "balance/cut.h"
#include "balance/groups.h"

#define HALVINGS_MAX  96
#define PRICES        20     /* tried for maxStages */
#define IN_FLIGHT_MAX 8      /* looked at; a stage may have more */
#define NARROW        1.0005 /* an interval of T that is not worth halving */

/* A node that is being filled. */
struct vessel {
    int at;            /* index into bound.nodes */
    double flops;      /* that it can take under T */
    double edge_ms;    /* that no edge of it is below */
    double message_ms; /* of the messages of an edge, in the sum */
    double price;      /* ms a FLOP */
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
    double least_rate;     /* ms a FLOP in the sum, of the fastest node */
    double largest_flops;  /* of a layer unit */
    int64_t scratch_bytes; /* of a layer unit, at least */
    struct groups groups;
    int *group_of[GROUPS_SCALES_MAX]; /* [n] at each scale of the groups */
    int *island_of;                   /* [n] who can reach whom under the T at hand */
    double *fill, *busy;              /* [n] see balance/cost.h */
    double *message_ms;               /* [n] of one edge, see balance/cut.h */
    double *group_flops;              /* [n] that those of a group can take */
    double bonus_flops;               /* that the last stages can take beyond their vessels */
    int n_vessels;
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
    for (int i = 0; i < b->n; i++)
        b->message_ms[i] =
            cost_messages_ms(cost_largest_edge(costs, b->n_units), &b->request->nodes[b->nodes[i]]);
    b->n_layer_units = 2 * spec->model.layers;
    for (int u = 0; u < b->n_units; u++) {
        const struct cost_unit c = costs[u];

        b->flops[u + 1] = b->flops[u] + c.flops;
        b->state_bytes[u + 1] = b->state_bytes[u] + c.state_bytes;
        b->activation_bytes[u + 1] = b->activation_bytes[u] + c.activation_bytes;
        if (u >= 1 && u <= b->n_layer_units) {
            b->largest_flops = fmax(b->largest_flops, c.flops);
            if (u == 1 || c.scratch_bytes < b->scratch_bytes)
                b->scratch_bytes = c.scratch_bytes;
        }
    }
}

/* A stage that does not have all layers has an edge at least. */
static bool fits(const struct bound *b, int at, int first, int end, const struct limit *limit)
{
    const struct node *n = &b->request->nodes[b->nodes[at]];
    bool has_all = end - first == b->n_layer_units;
    double ms = (b->flops[end] - b->flops[first]) / (n->gflops * 1e6) + (end - first) * n->unit_ms;
    int64_t bytes = COST_PROCESS_BYTES + b->scratch_bytes + b->state_bytes[end] -
                    b->state_bytes[first] +
                    limit->in_flight * (b->activation_bytes[end] - b->activation_bytes[first]);

    ms += has_all ? 0 : b->message_ms[at];
    return b->busy[at] * ms <= limit->cap_ms && bytes <= n->memory_bytes;
}

/* Layers are alike, so a run may as well begin in the first one. */
static double most_flops(const struct bound *b, int at, const struct limit *limit)
{
    double most = 0;

    if (fits(b, at, 1, b->n_layer_units + 1, limit)) /* it may take less time than a layer less */
        return b->flops[b->n_layer_units + 1] - b->flops[1];
    for (int first = 1; first <= 2; first++) {
        int least = first;
        int most_end = b->n_layer_units + 1;

        while (least < most_end) {
            int end = (least + most_end + 1) / 2;

            if (fits(b, at, first, end, limit))
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
    return x->at < y->at ? -1 : x->at > y->at;
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

    qsort(b->vessels, (size_t)b->n_vessels, sizeof *b->vessels, by_flops);
    for (int i = 0; i < b->n_vessels && i < max_stages; i++)
        left -= b->vessels[i].flops;
    return left <= 0;
}

/* What a stage costs beside its FLOPs. */
struct toll {
    double stage_ms;
    int scale;           /* of the groups; -1: all nodes are one */
    double most_edge_ms; /* an edge within a group counts as at most this */
    double group_ms;     /* for each group but one: another edge that long joins it */
    int message_edges;   /* of a stage whose messages are paid for */
};

static double edge_price_ms(const struct vessel *v, const struct toll *t)
{
    return 2 * fmin(v->edge_ms, t->most_edge_ms);
}

/* A group is paid for by those in it as they are filled. */
static void sum_groups(struct bound *b, const struct toll *t)
{
    for (int i = 0; i < b->n; i++)
        b->group_flops[i] = 0;
    for (int i = 0; i < b->n_vessels; i++)
        b->group_flops[b->group_of[t->scale][b->vessels[i].at]] += b->vessels[i].flops;
    for (int i = 0; i < b->n; i++)
        b->group_flops[i] = fmin(b->group_flops[i], b->flops[b->n_units]);
}

static void sort_by_price(struct bound *b, const struct toll *t)
{
    for (int i = 0; i < b->n_vessels; i++) {
        struct vessel *v = &b->vessels[i];
        const struct node *n = &b->request->nodes[b->nodes[v->at]];
        double own = b->fill[v->at] * (1 / (n->gflops * 1e6) + n->unit_ms / b->largest_flops);

        if (v->flops <= 0) {
            v->price = INFINITY;
            continue;
        }
        v->price =
            own + (t->stage_ms + edge_price_ms(v, t) + t->message_edges * v->message_ms) / v->flops;
        if (t->scale >= 0)
            v->price += t->group_ms / b->group_flops[b->group_of[t->scale][v->at]];
    }
    qsort(b->vessels, (size_t)b->n_vessels, sizeof *b->vessels, by_price);
}

/* Least time of all stages and edges at this toll, which is paid for the last stage and group as
 * well; how many stages that takes. INFINITY: it does not go in. */
static double pour(struct bound *b, const struct toll *t, double *out_stages)
{
    double left = b->flops[b->n_layer_units + 1] - b->flops[1];
    double beside = b->flops[b->n_units] - left;
    double bonus = fmin(b->bonus_flops, left);
    double sum_ms = 0;

    sort_by_price(b, t);
    *out_stages = 0;
    left -= bonus;
    for (int i = 0; i < b->n_vessels && left > 0; i++) {
        const struct vessel *v = &b->vessels[i];
        double part = fmin(v->flops, left);

        if (v->flops <= 0)
            break;
        sum_ms += part * v->price;
        *out_stages += part / v->flops;
        left -= part;
    }
    return left > 1e-9 * b->flops[b->n_units] ? INFINITY
                                              : sum_ms + (beside + bonus) * b->least_rate;
}

/* Least time with the vessels as they are. S stages that have layers have S - 1 edges between
 * them, so the greatest toll of an edge is spared once, and that of its messages at both ends. */
static double price_stages(struct bound *b, double cap_ms, struct toll toll)
{
    int max_stages = b->request->spec->placement.max_stages;
    double low = 0;
    double high = cap_ms;
    double spared = 0;
    double most_ms = 0;
    double stages;
    double best;

    for (int i = 0; i < b->n_vessels; i++) {
        spared = fmax(spared, edge_price_ms(&b->vessels[i], &toll));
        most_ms = fmax(most_ms, b->vessels[i].message_ms);
    }
    spared += toll.group_ms + toll.message_edges * most_ms;
    best = pour(b, &toll, &stages) - spared;
    if (isinf(best) || stages <= max_stages)
        return best;
    /* The price of a stage at which so many are enough; every price gives a bound. */
    for (int i = 0; i < PRICES && stages != max_stages; i++) {
        toll.stage_ms = (low + high) / 2;
        best = fmax(best, pour(b, &toll, &stages) - toll.stage_ms * max_stages - spared);
        if (stages > max_stages)
            low = toll.stage_ms;
        else
            high = toll.stage_ms;
    }
    return best;
}

/* The best of what is known when groups are told apart at some scale, or not. */
static double price_groups(struct bound *b, double cap_ms)
{
    const struct groups *g = &b->groups;
    double best;

    if (!is_enough(b))
        return INFINITY;
    best = price_stages(b, cap_ms,
                        (struct toll){.scale = -1, .most_edge_ms = cap_ms, .message_edges = 2});
    for (int k = 0; k < g->n_scales && !isinf(best); k++) {
        struct toll toll = {.scale = k,
                            .most_edge_ms = g->scale_ms[k],
                            .group_ms = 2 * (g->next_ms[k] - g->scale_ms[k]),
                            .message_edges = 2};

        if (g->next_ms[k] > cap_ms)
            continue;
        sum_groups(b, &toll);
        best = fmax(best, price_stages(b, cap_ms, toll));
    }
    return best;
}

/* Set the vessels to what the nodes of an island can take with so much in flight. */
static double set_vessels(struct bound *b, int island, const struct limit *limit)
{
    double sum = 0;

    b->bonus_flops = 0;
    b->n_vessels = 0;
    for (int i = 0; i < b->n; i++) {
        struct vessel *v = &b->vessels[b->n_vessels];

        if (b->island_of[i] != island)
            continue;
        b->n_vessels++;
        *v = (struct vessel){.at = i,
                             .flops = most_flops(b, i, limit),
                             .edge_ms = b->groups.least_ms[i],
                             .message_ms = b->fill[i] * b->message_ms[i]};
        sum += v->flops;
    }
    return sum;
}

/* The j-th stage from the end has j micro-batches in flight, and so may take more than one that has
 * `most`; not more than the node to which that makes the greatest difference. */
static void set_bonus(struct bound *b, double cap_ms, int most)
{
    for (int j = 1; j < most; j++) {
        double bonus = 0;

        for (int i = 0; i < b->n_vessels; i++) {
            const struct vessel *v = &b->vessels[i];

            bonus = fmax(bonus, most_flops(b, v->at, &(struct limit){cap_ms, j}) - v->flops);
        }
        b->bonus_flops += bonus;
    }
}

/* f(T) for the nodes of an island. Two bounds, of which the better counts: one micro-batch in
 * flight everywhere; and as many as there are, but for the last stages. */
static double least_of_island(struct bound *b, int island, double cap_ms)
{
    int m = b->request->spec->training.micro_batches;
    int most = m < IN_FLIGHT_MAX ? m : IN_FLIGHT_MAX;
    double roomy = set_vessels(b, island, &(struct limit){cap_ms, 1});
    double best = price_groups(b, cap_ms);

    if (isinf(best) || set_vessels(b, island, &(struct limit){cap_ms, most}) >= roomy)
        return best;
    set_bonus(b, cap_ms, most);
    return fmax(best, price_groups(b, cap_ms));
}

/* f(T): no edge is above T either, so all stages with layers are on one island. */
static double least_sum(struct bound *b, double cap_ms)
{
    int n_islands = groups_at(&b->groups, cap_ms, b->island_of);
    double least = INFINITY;

    for (int island = 0; island < n_islands; island++)
        least = fmin(least, least_of_island(b, island, cap_ms));
    return least;
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

static enum err_code init_groups(struct bound *b, struct err *err)
{
    size_t n = (size_t)b->n;
    enum err_code rc = groups_init(b->request, b->nodes, b->n, &b->groups, err);

    if (rc != ERR_OK)
        return rc;
    b->vessels = calloc(n, sizeof *b->vessels);
    b->group_flops = calloc(n, sizeof *b->group_flops);
    b->fill = calloc(n, sizeof *b->fill);
    b->busy = calloc(n, sizeof *b->busy);
    b->message_ms = calloc(n, sizeof *b->message_ms);
    b->island_of = calloc(n * (1 + GROUPS_SCALES_MAX), sizeof *b->island_of);
    if (!b->vessels || !b->group_flops || !b->fill || !b->busy || !b->message_ms || !b->island_of)
        return err_set(err, ERR_NO_MEMORY, "planning on %d nodes", b->n);
    for (int k = 0; k < b->groups.n_scales; k++) {
        b->group_of[k] = b->island_of + (size_t)(k + 1) * n;
        (void)groups_at(&b->groups, b->groups.scale_ms[k], b->group_of[k]);
    }
    return ERR_OK;
}

enum err_code bound_new(const struct partition_request *request, const int *nodes, int n,
                        struct bound **out, struct err *err)
{
    struct bound *b = calloc(1, sizeof *b);
    int m = request->spec->training.micro_batches;
    double balanced_ms;
    double slowest = INFINITY;
    double least_busy = INFINITY;
    double most_busy = 1;
    double unit_ms = 0;
    double message_ms = 0;
    double largest = 0;
    double lo;
    double hi;
    enum err_code rc;

    if (!b)
        return err_set(err, ERR_NO_MEMORY, "planning on %d nodes", n);
    *b = (struct bound){.request = request, .nodes = nodes, .n = n, .least_rate = INFINITY};
    rc = init_groups(b, err);
    if (rc != ERR_OK) {
        bound_free(b);
        return rc;
    }
    sum_up(b);
    balanced_ms = cost_balanced_ms(request->nodes, request->n_nodes, b->flops[b->n_units]);
    for (int i = 0; i < n; i++) {
        const struct node *node = &request->nodes[nodes[i]];

        b->fill[i] = cost_fill_share(node, balanced_ms, m);
        b->busy[i] = cost_busy_share(b->fill[i], m);
        b->least_rate = fmin(b->least_rate, b->fill[i] / (node->gflops * 1e6));
        least_busy = fmin(least_busy, b->busy[i] / (node->gflops * 1e6));
        most_busy = fmax(most_busy, b->busy[i]);
        slowest = fmin(slowest, node->gflops * 1e6);
        unit_ms = fmax(unit_ms, node->unit_ms);
        message_ms = fmax(message_ms, b->message_ms[i]);
    }
    /* Some stage has the largest unit, and none has more than all of them. */
    for (int u = 0; u < b->n_units; u++)
        largest = fmax(largest, b->flops[u + 1] - b->flops[u]);
    lo = largest * least_busy;
    hi = fmax(most_busy * (b->flops[b->n_units] / slowest + b->n_units * unit_ms + 2 * message_ms),
              b->groups.most_ms);
    b->list[0] = (struct interval){lo, hi, least_sum(b, hi)};
    b->n_intervals = 1;
    halve_intervals(b);
    *out = b;
    return ERR_OK;
}

void bound_free(struct bound *b)
{
    if (!b)
        return;
    groups_deinit(&b->groups);
    free(b->vessels);
    free(b->group_flops);
    free(b->fill);
    free(b->busy);
    free(b->message_ms);
    free(b->island_of);
    free(b);
}

const struct groups *bound_groups(const struct bound *b)
{
    return &b->groups;
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
    const struct toll toll = {.scale = -1, .most_edge_ms = cap_ms, .message_edges = 1};
    double spared = 0; /* behind the pooler an edge is shorter, and behind the head there is none */
    double sum_ms = 0;
    double room;
    int at = 0;

    memset(b->island_of, 0, (size_t)b->n * sizeof *b->island_of);
    (void)set_vessels(b, 0, &(struct limit){cap_ms, 1});
    for (int i = 0; i < b->n_vessels; i++)
        spared = fmax(spared, edge_price_ms(&b->vessels[i], &toll) + b->vessels[i].message_ms);
    sort_by_price(b, &toll);
    room = b->vessels[0].flops;
    out_ms[0] = 0;
    for (int u = 0; u < b->n_units; u++) {
        double left = b->flops[u + 1] - b->flops[u];
        bool is_layer = u >= 1 && u <= b->n_layer_units;

        if (!is_layer)
            sum_ms += left * b->least_rate;
        while (is_layer && left > 0 && at < b->n) {
            double part = fmin(left, room);

            if (part > 0)
                sum_ms += part * b->vessels[at].price;
            left -= part;
            room -= part;
            if (left > 0 && ++at < b->n)
                room = b->vessels[at].flops;
        }
        out_ms[u + 1] = u <= b->n_layer_units ? sum_ms : fmax(0, sum_ms - spared);
    }
}
