#include <math.h>
#include <stdlib.h>

#include "balance/bound.h"
#include "balance/search.h"

#define QUICK_WORK     5e4                        /* up to which all is tried at once */
#define PROMISING_WORK (PARTITION_EXACT_WORK / 2) /* for the most promising nodes of many */
#define OPTIMAL_ENOUGH 1e-3                       /* above the bound: not worth looking further */
#define NEAR           3e-3                       /* above it: not worth another order */
#define GAIN           2e-3                       /* of a step: not worth another look */
#define AROUND         1.07 /* times the slowest stage of the best order, for others */
#define HINT           1.04 /* times the bound: where to look first */

/* What is known of each node. */
struct rank {
    int link_class;
    double ms;            /* of the whole model on it */
    double message_ms;    /* per edge, see cost_messages_ms() */
    int64_t memory_bytes; /* at most what the whole model can use */
    int group;            /* of nodes near each other */
    double strength;      /* of its group: the speed of all its nodes */
    double key[2];        /* to sort by, before speed */
};

/* Lists of nodes are indices into the request. */
struct ranking {
    const struct partition_request *request;
    struct rank *ranks; /* [request->n_nodes], as the next two */
    int *number;        /* of the class or group of each in a list of nodes */
    double *speed;      /* of each group */
    bool has_groups;    /* that are far from each other */
    struct bound bound; /* with many nodes */
};

/* --- which nodes to look at, and in what order --- */

static int by_key(const void *a, const void *b, void *ranks)
{
    int i = *(const int *)a;
    int j = *(const int *)b;
    const struct rank *x = (const struct rank *)ranks + i;
    const struct rank *y = (const struct rank *)ranks + j;

    for (int k = 0; k < 2; k++)
        if (x->key[k] != y->key[k])
            return x->key[k] < y->key[k] ? -1 : 1;
    if (x->ms != y->ms)
        return x->ms < y->ms ? -1 : 1;
    return i < j ? -1 : i > j;
}

enum order {
    ORDER_SPEED,
    ORDER_MEMORY, /* the most first */
    ORDER_NEAR,   /* the fastest of the strongest group, then of the next */
    ORDER_GROUPS, /* nodes of a group together, and groups that are near each other; else as it is
                   */
};

static void sort(const struct ranking *g, int *nodes, int n, enum order order)
{
    for (int i = 0; i < n; i++) {
        struct rank *r = &g->ranks[nodes[i]];

        r->key[0] = order == ORDER_SPEED    ? 0
                    : order == ORDER_MEMORY ? -(double)r->memory_bytes
                    : order == ORDER_NEAR   ? -r->strength
                                            : r->group;
        r->key[1] = order == ORDER_NEAR ? r->group : order == ORDER_GROUPS ? i : 0;
    }
    qsort_r(nodes, (size_t)n, sizeof *nodes, by_key, g->ranks);
}

/* All nodes of the request that can hold a unit, the fastest first, to out[n_nodes]; returns how
 * many there are. */
static int rank_nodes(const struct ranking *g, int *out)
{
    const struct partition_request *r = g->request;
    int n_units = model_units(&r->job.spec->model);
    struct cost_unit costs[MODEL_UNITS_MAX];
    double flops = 0;
    int64_t least, most;
    int n = 0;

    cost_of_units(&r->job, costs);
    least = cost_least_bytes(costs, n_units);
    most = cost_most_bytes(costs, n_units, r->job.micro_batches);
    for (int u = 0; u < n_units; u++)
        flops += costs[u].flops;
    for (int i = 0; i < r->n_nodes; i++) {
        const struct node *node = &r->nodes[i];
        int64_t memory = partition_memory(r, i);

        if (memory < least)
            continue;
        g->ranks[i] =
            (struct rank){.ms = flops / (node->gflops * 1e6) + n_units * node->unit_ms,
                          .message_ms = cost_messages_ms(cost_largest_edge(costs, n_units), node),
                          .memory_bytes = memory < most ? memory : most};
        out[n++] = i;
    }
    sort(g, out, n, ORDER_SPEED);
    return n;
}

/* The share of a core that cost_fill_share() depends on. */
static int quota_milli(const struct node *n)
{
    return n->cpu_milli > 0 && n->cpu_milli < 1000 ? n->cpu_milli : 1000;
}

/* Is node `i` no worse than `k` in anything that a step or a limit depends on? */
static bool is_as_good(const struct ranking *g, int i, int k)
{
    const struct node *x = &g->request->nodes[i];
    const struct node *y = &g->request->nodes[k];
    const struct rank *a = &g->ranks[i];
    const struct rank *b = &g->ranks[k];

    return a->link_class == b->link_class && x->gflops >= y->gflops && x->unit_ms <= y->unit_ms &&
           a->message_ms <= b->message_ms && a->memory_bytes >= b->memory_bytes &&
           quota_milli(x) == quota_milli(y);
}

/* Drop the nodes that no best plan needs: for which there are as many others that are as good as a
 * plan may have stages. One of those is always free to take such a node's place. The order is kept;
 * returns how many are left. */
static int drop_dominated(const struct ranking *g, int *nodes, int n)
{
    const struct partition_request *r = g->request;
    int n_units = model_units(&r->job.spec->model);
    int max_stages = r->max_stages < n_units ? r->max_stages : n_units;
    int n_kept = 0;

    (void)link_classes(r, nodes, n, g->number);
    for (int i = 0; i < n; i++)
        g->ranks[nodes[i]].link_class = g->number[i];
    for (int i = 0; i < n; i++) {
        int n_better = 0;

        for (int k = 0; k < n_kept && n_better < max_stages; k++)
            n_better += is_as_good(g, nodes[k], nodes[i]);
        if (n_better < max_stages)
            nodes[n_kept++] = nodes[i];
    }
    return n_kept;
}

/* Put the `k` most promising nodes first: mostly fast ones, and some with much memory. */
static void select_promising(const struct ranking *g, int *nodes, int n, int k)
{
    int n_fast = k - k / 4;

    sort(g, nodes, n, ORDER_SPEED);
    if (n > k)
        sort(g, nodes + n_fast, n - n_fast, ORDER_MEMORY);
}

static void swap(int *a, int *b)
{
    int other = *a;

    *a = *b;
    *b = other;
}

/* For how many of the nodes, in their order, can all orders and choices be tried with this much
 * work, states times kinds? */
static int exact_nodes(const struct ranking *g, const int *nodes, int n, double most_work)
{
    const struct partition_request *r = g->request;
    int link_class[PARTITION_CANDIDATES_MAX];
    int counts[PARTITION_CANDIDATES_MAX] = {0};
    struct kinds kinds;
    double sets = 1; /* of the first k nodes; a set is a count per kind */
    int n_kinds = 0;
    int k = 0;

    if (n > PARTITION_CANDIDATES_MAX)
        n = PARTITION_CANDIDATES_MAX;
    (void)link_classes(r, nodes, n, link_class);
    node_kinds(r, nodes, n, link_class, &kinds);
    for (; k < n; k++) {
        int count = counts[kinds.of[k]]++;

        n_kinds += count == 0;
        if (count < r->max_stages)
            sets = sets / (count + 1) * (count + 2);
        if (sets * (model_units(&r->job.spec->model) + 1) * n_kinds > most_work)
            break;
    }
    return k;
}

/* --- the search --- */

/* Where the bound leaves room for a step below `step_ms`. */
static bool look_below(const struct ranking *g, double step_ms, struct search *search)
{
    return bound_window(&g->bound, step_ms, &search->lo_ms, &search->hi_ms);
}

/* Improve the plan with the best one of these nodes, in this order or in all orders and choices.
 * With `gain`, a share of the step, only by more than that, and not if the plan is near the bound.
 * With SEARCH_ALL out->bound_ms is then what no plan of these nodes beats. */
static enum err_code solve(const struct ranking *g, const int *nodes, int n, enum search_over over,
                           double gain, struct placement *out, struct err *err)
{
    bool has_plan = out->n_stages > 0;
    bool has_room = true;
    double bound_ms = bound_step_ms(&g->bound);
    struct search search;
    struct cut_problem p;
    enum err_code rc;

    if (gain > 0 && has_plan && out->predicted_step_ms <= bound_ms * (1 + NEAR))
        return ERR_OK;
    rc = cut_problem_init(g->request, nodes, n, &p, err);
    if (rc != ERR_OK)
        return rc;
    rc = search_init(&p, over, &search, err);
    if (rc != ERR_OK) {
        cut_problem_deinit(&p);
        return rc;
    }
    search.gain = gain;
    search.found = has_plan;
    search.best_ms = out->predicted_step_ms;
    if (over == SEARCH_ORDER) {
        search.enough_ms = bound_ms * (1 + OPTIMAL_ENOUGH);
        /* Before any plan is known look first where the bound allows a good one. */
        if (!has_plan && look_below(g, bound_ms * HINT, &search)) {
            search_run(&search);
            has_room = !search.found || search.best_ms > bound_ms * HINT;
            search.lo_ms = search.hi_ms = 0;
        }
    }
    if (search.found)
        has_room = has_room && look_below(g, search.best_ms, &search);
    if (over == SEARCH_ORDER && has_plan) { /* another order's slowest stage is much like this */
        search.lo_ms = fmax(search.lo_ms, out->max_ms / AROUND);
        search.hi_ms = fmin(search.hi_ms, out->max_ms * AROUND);
    }
    if (has_room)
        search_run(&search);
    if (search.best.n_stages > 0)
        cut_place(&p, &search.best, out);
    if (over == SEARCH_ALL)
        out->bound_ms = fmin(search.best_ms, search.open_ms);
    search_deinit(&search);
    cut_problem_deinit(&p);
    return ERR_OK;
}

/* Three orders of these nodes; a fourth if links differ. */
static enum err_code solve_orders(const struct ranking *g, int *nodes, int n, struct placement *out,
                                  struct err *err)
{
    const struct partition_request *r = g->request;
    struct cost_unit layer;
    enum err_code rc;

    sort(g, nodes, n, ORDER_GROUPS);
    rc = solve(g, nodes, n, SEARCH_ORDER, GAIN, out, err);
    sort(g, nodes, n, ORDER_MEMORY);
    sort(g, nodes, n, ORDER_GROUPS);
    if (rc == ERR_OK)
        rc = solve(g, nodes, n, SEARCH_ORDER, GAIN, out, err);
    for (int i = 0; i < n / 2; i++) /* and the other way round */
        swap(&nodes[i], &nodes[n - 1 - i]);
    if (rc == ERR_OK)
        rc = solve(g, nodes, n, SEARCH_ORDER, GAIN, out, err);
    if (rc != ERR_OK || !r->links)
        return rc;
    sort(g, nodes, n, ORDER_SPEED);
    cost_of_unit(&r->job, COST_LAYER_UNIT, &layer);
    for (int i = 1; i < n; i++) { /* each next one nearest to the one before */
        double least_ms = INFINITY;
        int nearest = i;

        for (int k = i; k < n; k++) {
            double ms = cost_edge_ms(&layer, partition_link(r, nodes[i - 1], nodes[k]));

            if (ms < least_ms) {
                least_ms = ms;
                nearest = k;
            }
        }
        swap(&nodes[i], &nodes[nearest]);
    }
    return solve(g, nodes, n, SEARCH_ORDER, GAIN, out, err);
}

/* A few orders of the most promising nodes, then all orders and choices: of all nodes if that is
 * feasible, where the bound and the orders leave room, else of the most promising few. Where groups
 * are far apart, the most promising nodes may also be those of one group. */
static enum err_code solve_many(struct ranking *g, int *nodes, int n, struct placement *out,
                                struct err *err)
{
    bool is_exact = exact_nodes(g, nodes, n, PARTITION_EXACT_WORK) == n;
    int many = n < PARTITION_CANDIDATES_MAX ? n : PARTITION_CANDIDATES_MAX;
    struct groups groups;
    enum err_code rc = groups_init(g->request, nodes, n, &groups, err);

    if (rc != ERR_OK)
        return rc;
    g->has_groups = !isinf(groups.near_ms);
    (void)groups_at(&groups, groups.near_ms, g->number);
    for (int i = 0; i < n; i++)
        g->speed[g->number[i]] += 1 / g->ranks[nodes[i]].ms;
    for (int i = 0; i < n; i++) {
        g->ranks[nodes[i]].group = g->number[i];
        g->ranks[nodes[i]].strength = g->speed[g->number[i]];
    }
    rc = bound_init(g->request, nodes, &groups, &g->bound, err);
    groups_deinit(&groups);
    select_promising(g, nodes, n, many);
    if (rc == ERR_OK)
        rc = solve_orders(g, nodes, many, out, err);
    if (rc == ERR_OK && is_exact) {
        sort(g, nodes, n, ORDER_SPEED);
        return solve(g, nodes, n, SEARCH_ALL, 0, out, err);
    }
    if (rc == ERR_OK && g->has_groups && n > many) {
        sort(g, nodes, n, ORDER_NEAR);
        rc = solve_orders(g, nodes, many, out, err);
    }
    sort(g, nodes, n, ORDER_SPEED);
    select_promising(g, nodes, n, exact_nodes(g, nodes, n, PROMISING_WORK));
    for (int i = 0; i < 1 + g->has_groups && rc == ERR_OK; i++) {
        rc = solve(g, nodes, exact_nodes(g, nodes, n, PROMISING_WORK), SEARCH_ALL, GAIN, out, err);
        sort(g, nodes, n, ORDER_NEAR);
    }
    if (rc == ERR_OK)
        out->bound_ms = fmin(bound_step_ms(&g->bound), out->predicted_step_ms);
    return rc;
}

enum err_code optimal_solve(const struct partition_request *r, struct placement *out,
                            struct err *err)
{
    size_t n_nodes = (size_t)r->n_nodes;
    struct ranking g = {.request = r,
                        .ranks = calloc(n_nodes, sizeof *g.ranks),
                        .number = calloc(n_nodes, sizeof *g.number),
                        .speed = calloc(n_nodes, sizeof *g.speed)};
    int *nodes = calloc(n_nodes, sizeof *nodes);
    enum err_code rc = ERR_OK;
    int n;

    if (!g.ranks || !g.number || !g.speed || !nodes) {
        rc = err_set(err, ERR_NO_MEMORY, "planning on %d nodes", r->n_nodes);
        goto out;
    }
    n = rank_nodes(&g, nodes);
    if (n > r->max_stages)
        n = drop_dominated(&g, nodes, n);
    if (exact_nodes(&g, nodes, n, QUICK_WORK) < n)
        rc = solve_many(&g, nodes, n, out, err);
    else if (n > 0)
        rc = solve(&g, nodes, n, SEARCH_ALL, 0, out, err);
out:
    free(g.ranks);
    free(g.number);
    free(g.speed);
    free(nodes);
    return rc;
}
