#include "balance/optimal.h"

#include <math.h>
#include <stdlib.h>

#include "balance/bound.h"
#include "balance/chain.h"
#include "balance/partition.h"
#include "balance/subsets.h"

#define QUICK_WORK     5e4                        /* up to which all is tried at once */
#define PROMISING_WORK (PARTITION_EXACT_WORK / 2) /* for the most promising nodes of many */
#define OPTIMAL_ENOUGH 1e-3                       /* above the bound: not worth looking further */
#define NEAR           3e-3                       /* above it: not worth another order */
#define GAIN           2e-3                       /* of a step: not worth another look */
#define AROUND         1.07 /* times the slowest stage of the best order, for others */
#define HINT           1.04 /* times the bound: where to look first */
#define LAYER_UNIT     1    /* the first unit of a layer, which sends what all of them do */

/* --- which nodes to look at, and in what order --- */

/* A node that can hold at least one unit. */
struct ranked {
    int node;
    int link_class;
    double ms;            /* of the whole model on it */
    double message_ms;    /* per edge, see cost_messages_ms() */
    int64_t memory_bytes; /* at most what the whole model can use */
    int group;            /* of nodes near each other */
    double strength;      /* of its group: the speed of all its nodes */
    double key[2];        /* to sort by, before speed */
};

static int by_key(const void *a, const void *b)
{
    const struct ranked *x = a;
    const struct ranked *y = b;

    for (int i = 0; i < 2; i++)
        if (x->key[i] != y->key[i])
            return x->key[i] < y->key[i] ? -1 : 1;
    if (x->ms != y->ms)
        return x->ms < y->ms ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

enum order {
    ORDER_SPEED,
    ORDER_MEMORY, /* the most first */
    ORDER_NEAR,   /* the fastest of the strongest group, then of the next */
    ORDER_GROUPS, /* nodes of a group together, and groups that are near each other; else as it is
                   */
};

static void sort(struct ranked *nodes, int n, enum order order)
{
    for (int i = 0; i < n; i++) {
        struct ranked *r = &nodes[i];

        r->key[0] = order == ORDER_SPEED    ? 0
                    : order == ORDER_MEMORY ? -(double)r->memory_bytes
                    : order == ORDER_NEAR   ? -r->strength
                                            : r->group;
        r->key[1] = order == ORDER_NEAR ? r->group : order == ORDER_GROUPS ? i : 0;
    }
    qsort(nodes, (size_t)n, sizeof *nodes, by_key);
}

/* All of the request that can hold a unit, to out[n_nodes]; returns how many there are. */
static int order_rank(const struct partition_request *r, struct ranked *out)
{
    int64_t least = cost_least_bytes(&r->job);
    int64_t most = COST_PROCESS_BYTES + COST_DATA_BYTES;
    int n_units = model_units(&r->job.spec->model);
    struct cost_unit costs[MODEL_UNITS_MAX];
    double flops = 0;
    int n = 0;

    cost_of_units(&r->job, costs);
    for (int u = 0; u < n_units; u++) {
        const struct cost_unit *c = &costs[u];

        flops += c->flops;
        most += c->state_bytes + r->job.micro_batches * c->activation_bytes + c->scratch_bytes +
                2 * COST_LINK_SLOTS * c->slot_bytes;
    }
    for (int i = 0; i < r->n_nodes; i++) {
        const struct node *node = &r->nodes[i];

        int64_t memory = partition_memory(r, i);

        if (memory >= least)
            out[n++] = (struct ranked){
                .node = i,
                .ms = flops / (node->gflops * 1e6) + n_units * node->unit_ms,
                .message_ms = cost_messages_ms(cost_largest_edge(costs, n_units), node),
                .memory_bytes = memory < most ? memory : most};
    }
    return n;
}

static void take_index(const struct ranked *nodes, int n, int *out)
{
    for (int i = 0; i < n; i++)
        out[i] = nodes[i].node;
}

/* The share of a core that cost_fill_share() depends on. */
static int quota_milli(const struct node *n)
{
    return n->cpu_milli > 0 && n->cpu_milli < 1000 ? n->cpu_milli : 1000;
}

/* Is `a` no worse than `b` in anything that a step or a limit depends on? */
static bool is_as_good(const struct partition_request *r, const struct ranked *a,
                       const struct ranked *b)
{
    const struct node *x = &r->nodes[a->node];
    const struct node *y = &r->nodes[b->node];

    return a->link_class == b->link_class && x->gflops >= y->gflops && x->unit_ms <= y->unit_ms &&
           a->message_ms <= b->message_ms && a->memory_bytes >= b->memory_bytes &&
           quota_milli(x) == quota_milli(y);
}

/* Drop the nodes that no best plan needs: for which there are as many others that are as good as a
 * plan may have stages. One of those is always free to take such a node's place. The order is kept;
 * returns how many are left. */
static enum err_code drop_dominated(const struct partition_request *r, struct ranked *nodes, int *n,
                                    struct err *err)
{
    int n_units = model_units(&r->job.spec->model);
    int max_stages = r->max_stages < n_units ? r->max_stages : n_units;
    int *index = calloc(2 * (size_t)*n, sizeof *index);
    int n_kept = 0;

    if (!index)
        return err_set(err, ERR_NO_MEMORY, "planning on %d nodes", *n);
    take_index(nodes, *n, index);
    (void)link_classes(r, index, *n, index + *n);
    for (int i = 0; i < *n; i++)
        nodes[i].link_class = index[*n + i];
    free(index);
    for (int i = 0; i < *n; i++) {
        int n_better = 0;

        for (int k = 0; k < n_kept && n_better < max_stages; k++)
            n_better += is_as_good(r, &nodes[k], &nodes[i]);
        if (n_better < max_stages)
            nodes[n_kept++] = nodes[i];
    }
    *n = n_kept;
    return ERR_OK;
}

/* Put the `k` most promising nodes first: mostly fast ones, and some with much memory. */
static void order_select(struct ranked *nodes, int n, int k)
{
    int n_fast = k - k / 4;

    sort(nodes, n, ORDER_SPEED);
    if (n > k)
        sort(nodes + n_fast, n - n_fast, ORDER_MEMORY);
}

static void swap(struct ranked *a, struct ranked *b)
{
    struct ranked other = *a;

    *a = *b;
    *b = other;
}

/* Each next one nearest to the one before. */
static void order_by_distance(const struct partition_request *r, struct ranked *nodes, int n)
{
    struct cost_unit layer;

    cost_of_unit(&r->job, LAYER_UNIT, &layer);
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

/* --- the search --- */

/* For how many of the nodes, in their order, can all orders and choices be tried? */
static int exact_nodes(const struct partition_request *r, const struct ranked *nodes, int n,
                       double most_work)
{
    int n_units = model_units(&r->job.spec->model);
    int max_stages = r->max_stages;
    int index[PARTITION_CANDIDATES_MAX];
    int link_class[PARTITION_CANDIDATES_MAX];
    int counts[PARTITION_CANDIDATES_MAX] = {0};
    struct kinds kinds;
    int k = 0;

    if (n > PARTITION_CANDIDATES_MAX)
        n = PARTITION_CANDIDATES_MAX;
    take_index(nodes, n, index);
    (void)link_classes(r, index, n, link_class);
    node_kinds(r, index, n, link_class, &kinds);
    for (; k < n; k++) {
        counts[kinds.of[k]]++;
        if (subsets_work(counts, kinds.n, n_units, max_stages) > most_work)
            break;
    }
    return k;
}

void placement_keep_better(const struct cut_problem *p, const struct search *s,
                           struct placement *out)
{
    const struct cut *c = &s->best;

    if (!s->found || (out->n_stages > 0 && s->best_ms >= out->predicted_step_ms * (1 - 1e-9)))
        return;
    out->predicted_step_ms = s->best_ms;
    out->max_ms = c->max_ms;
    out->n_stages = c->n_stages;
    out->bottleneck = 0;
    for (int i = 0; i < c->n_stages; i++) {
        out->stages[i] = (struct placement_stage){
            .node = p->nodes[c->node[i]],
            .first_unit = c->first[i],
            .n_units = c->first[i + 1] - c->first[i],
            .predicted_ms = cut_run_ms(p, c->node[i], c->first[i], c->first[i + 1]),
            .memory_bytes = cut_stage_bytes(p, c, i),
            .edge_ms = cut_edge_ms(p, c, i)};
        if (out->stages[i].predicted_ms > out->stages[out->bottleneck].predicted_ms)
            out->bottleneck = i;
    }
}

static enum err_code problem_of(const struct partition_request *r, const struct ranked *nodes,
                                int n, struct cut_problem *out, struct err *err)
{
    int index[PARTITION_CANDIDATES_MAX];

    take_index(nodes, n, index);
    return cut_problem_init(r, index, n, out, err);
}

static bool is_near(const struct bound *bound, const struct placement *best)
{
    return best->n_stages > 0 && best->predicted_step_ms <= bound_step_ms(bound) * (1 + NEAR);
}

/* All orders and choices of these nodes, to `gain`, a share of the step, and only where the bound
 * leaves room for something better; it may be NULL. Sets out->bound_ms to what no plan of these
 * nodes beats. */
static enum err_code solve_subsets(const struct partition_request *r, const struct ranked *nodes,
                                   int n, double gain, const struct bound *bound,
                                   struct placement *out, struct err *err)
{
    struct cut_problem p;
    struct subsets subsets;
    struct search search = {.solve = subsets_solve, .workspace = &subsets, .gain = gain};
    enum err_code rc;

    if (bound && out->n_stages > 0 &&
        !bound_window(bound, out->predicted_step_ms, &search.lo_ms, &search.hi_ms)) {
        out->bound_ms = out->predicted_step_ms;
        return ERR_OK;
    }
    rc = problem_of(r, nodes, n, &p, err);
    if (rc != ERR_OK)
        return rc;
    rc = subsets_init(&p, &subsets, err);
    if (rc == ERR_OK) {
        search.problem = &p;
        search.found = out->n_stages > 0;
        search.best_ms = out->predicted_step_ms;
        search_run(&search);
        placement_keep_better(&p, &search, out);
        out->bound_ms = fmin(search.best_ms, search.open_ms);
        subsets_deinit(&subsets);
    }
    cut_problem_deinit(&p);
    return rc;
}

/* Before any plan is known: look first where the bound allows a good plan, and if there is none,
 * wherever there can be a better one. */
static void search_first(struct search *search, const struct bound *bound, struct placement *out)
{
    double hint_ms = bound_step_ms(bound) * HINT;

    if (bound_window(bound, hint_ms, &search->lo_ms, &search->hi_ms)) {
        search_run(search);
        placement_keep_better(search->problem, search, out);
        if (out->n_stages > 0 && out->predicted_step_ms <= hint_ms)
            return;
    }
    search->lo_ms = search->hi_ms = 0;
    if (out->n_stages == 0 ||
        bound_window(bound, out->predicted_step_ms, &search->lo_ms, &search->hi_ms))
        search_run(search);
}

/* The best plan of another order has a slowest stage much like that of the best plan so far. */
static void search_again(struct search *search, const struct bound *bound,
                         const struct placement *best)
{
    double max_ms = best->max_ms;

    search->found = true;
    search->best_ms = best->predicted_step_ms;
    if (!bound_window(bound, best->predicted_step_ms, &search->lo_ms, &search->hi_ms))
        return;
    search->lo_ms = fmax(search->lo_ms, max_ms / AROUND);
    search->hi_ms = fmin(search->hi_ms, max_ms * AROUND);
    search_run(search);
}

/* One order of many nodes, given the bound and the best plan of the orders before. */
static enum err_code solve_chain(const struct partition_request *r, const struct ranked *nodes,
                                 int n, const struct bound *bound, struct placement *out,
                                 struct err *err)
{
    struct cut_problem p;
    struct chain chain;
    struct search search = {.solve = chain_solve,
                            .workspace = &chain,
                            .problem = &p,
                            .gain = GAIN,
                            .enough_ms = bound_step_ms(bound) * (1 + OPTIMAL_ENOUGH)};
    enum err_code rc;

    if (is_near(bound, out))
        return ERR_OK;
    rc = problem_of(r, nodes, n, &p, err);
    if (rc != ERR_OK)
        return rc;
    rc = chain_init(&p, &chain, err);
    if (rc == ERR_OK) {
        if (out->n_stages > 0)
            search_again(&search, bound, out);
        else
            search_first(&search, bound, out);
        placement_keep_better(&p, &search, out);
        chain_deinit(&chain);
    }
    cut_problem_deinit(&p);
    return rc;
}

/* Three orders of these nodes; a fourth if links differ. */
static enum err_code solve_orders(const struct partition_request *r, struct ranked *nodes, int n,
                                  const struct bound *bound, struct placement *out, struct err *err)
{
    enum err_code rc;

    sort(nodes, n, ORDER_GROUPS);
    rc = solve_chain(r, nodes, n, bound, out, err);
    sort(nodes, n, ORDER_MEMORY);
    sort(nodes, n, ORDER_GROUPS);
    if (rc == ERR_OK)
        rc = solve_chain(r, nodes, n, bound, out, err);
    for (int i = 0; i < n / 2; i++) /* and the other way round */
        swap(&nodes[i], &nodes[n - 1 - i]);
    if (rc == ERR_OK)
        rc = solve_chain(r, nodes, n, bound, out, err);
    if (rc != ERR_OK || !r->links)
        return rc;
    sort(nodes, n, ORDER_SPEED);
    order_by_distance(r, nodes, n);
    return solve_chain(r, nodes, n, bound, out, err);
}

/* All orders and choices of the most promising nodes, which come first. */
static enum err_code solve_promising(const struct partition_request *r, const struct ranked *nodes,
                                     int n, const struct bound *bound, struct placement *out,
                                     struct err *err)
{
    if (is_near(bound, out))
        return ERR_OK;
    return solve_subsets(r, nodes, exact_nodes(r, nodes, n, PROMISING_WORK), GAIN, bound, out, err);
}

/* A few orders of the most promising nodes, then all orders and choices: of all nodes if that is
 * feasible, where the bound and the orders leave room, else of the most promising few. Where groups
 * are far apart, the most promising nodes may also be those of one group. */
static enum err_code solve_bounded(const struct partition_request *r, struct ranked *nodes, int n,
                                   bool has_groups, const struct bound *bound,
                                   struct placement *out, struct err *err)
{
    bool is_exact = exact_nodes(r, nodes, n, PARTITION_EXACT_WORK) == n;
    int many = n < PARTITION_CANDIDATES_MAX ? n : PARTITION_CANDIDATES_MAX;
    enum err_code rc;

    order_select(nodes, n, many);
    rc = solve_orders(r, nodes, many, bound, out, err);
    if (rc == ERR_OK && is_exact) {
        sort(nodes, n, ORDER_SPEED);
        return solve_subsets(r, nodes, n, 0, bound, out, err);
    }
    if (rc == ERR_OK && has_groups && n > many) {
        sort(nodes, n, ORDER_NEAR);
        rc = solve_orders(r, nodes, many, bound, out, err);
    }
    sort(nodes, n, ORDER_SPEED);
    order_select(nodes, n, exact_nodes(r, nodes, n, PROMISING_WORK));
    if (rc == ERR_OK)
        rc = solve_promising(r, nodes, n, bound, out, err);
    sort(nodes, n, ORDER_NEAR);
    if (rc == ERR_OK && has_groups)
        rc = solve_promising(r, nodes, n, bound, out, err);
    if (rc == ERR_OK)
        out->bound_ms = fmin(bound_step_ms(bound), out->predicted_step_ms);
    return rc;
}

static enum err_code solve_many(const struct partition_request *r, struct ranked *nodes, int n,
                                struct placement *out, struct err *err)
{
    int *index = calloc((size_t)n, sizeof *index);
    int *group = calloc((size_t)n, sizeof *group);
    double *speed = calloc((size_t)n, sizeof *speed); /* of each group */
    struct groups groups = {.n = 0};
    struct bound *bound = NULL;
    enum err_code rc = ERR_OK;

    if (!index || !group || !speed)
        rc = err_set(err, ERR_NO_MEMORY, "planning on %d nodes", n);
    if (rc == ERR_OK) {
        take_index(nodes, n, index);
        rc = groups_init(r, index, n, &groups, err);
    }
    if (rc == ERR_OK)
        rc = bound_new(r, index, &groups, &bound, err);
    if (rc == ERR_OK) {
        (void)groups_at(&groups, groups.near_ms, group);
        for (int i = 0; i < n; i++)
            speed[group[i]] += 1 / nodes[i].ms;
        for (int i = 0; i < n; i++) {
            nodes[i].group = group[i];
            nodes[i].strength = speed[group[i]];
        }
        rc = solve_bounded(r, nodes, n, !isinf(groups.near_ms), bound, out, err);
    }
    bound_free(bound);
    groups_deinit(&groups);
    free(index);
    free(group);
    free(speed);
    return rc;
}

enum err_code optimal_solve(const struct partition_request *r, struct placement *out,
                            struct err *err)
{
    struct ranked *nodes = calloc((size_t)r->n_nodes, sizeof *nodes);
    enum err_code rc = ERR_OK;
    int n;

    if (!nodes)
        return err_set(err, ERR_NO_MEMORY, "planning on %d nodes", r->n_nodes);
    n = order_rank(r, nodes);
    sort(nodes, n, ORDER_SPEED);
    if (n > r->max_stages)
        rc = drop_dominated(r, nodes, &n, err);
    if (rc == ERR_OK && exact_nodes(r, nodes, n, QUICK_WORK) < n)
        rc = solve_many(r, nodes, n, out, err);
    else if (rc == ERR_OK && n > 0)
        rc = solve_subsets(r, nodes, n, 0, NULL, out, err);
    free(nodes);
    return rc;
}
