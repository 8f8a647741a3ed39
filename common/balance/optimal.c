#include "balance/optimal.h"

#include <math.h>
#include <stdlib.h>

#include "balance/bound.h"
#include "balance/chain.h"
#include "balance/leftout.h"
#include "balance/subsets.h"

#define EXACT_NODES_MAX 16
#define OPTIMAL_ENOUGH  1e-3 /* above the bound: not worth looking further */
#define NEAR            3e-3 /* above it: not worth another order */
#define GAIN            1e-3 /* of a step: not worth another look */
#define HINT            1.02 /* times the bound: where to look first */

/* A node that can hold at least one unit. */
struct ranked {
    int node;
    double ms; /* of the whole model on it */
    int64_t memory_bytes;
};

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

static int rank_nodes(const struct partition_request *r, struct ranked *out)
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

/* Put the `k` most promising nodes first: mostly fast ones, and some with much memory. */
static void select_nodes(struct ranked *nodes, int n, int k)
{
    int n_fast = k - k / 4;

    qsort(nodes, (size_t)n, sizeof *nodes, by_speed);
    if (n > k)
        qsort(nodes + n_fast, (size_t)(n - n_fast), sizeof *nodes, by_memory);
}

static int exact_nodes_max(int n_units)
{
    int k = 1;

    while (k < EXACT_NODES_MAX && subsets_work(k + 1, n_units) <= PARTITION_EXACT_WORK)
        k++;
    return k;
}

void solution_keep_better(const struct cut_problem *p, const struct search *s, struct solution *out)
{
    if (!s->found || (out->found && s->best_ms >= out->step_ms * (1 - 1e-9)))
        return;
    out->found = true;
    out->cut = s->best;
    out->step_ms = s->best_ms;
    for (int i = 0; i < s->best.n_stages; i++) {
        const struct cut *c = &s->best;

        out->bytes[i] = cut_stage_bytes(p, c, i);
        out->stage_ms[i] = cut_run_ms(p, c->node[i], c->first[i], c->first[i + 1]);
        out->cut.node[i] = p->nodes[c->node[i]];
    }
}

static enum err_code problem_of(const struct partition_request *r, const struct ranked *nodes,
                                int n, struct cut_problem *out, struct err *err)
{
    int index[PARTITION_CANDIDATES_MAX];

    for (int i = 0; i < n; i++)
        index[i] = nodes[i].node;
    return cut_problem_init(r, index, n, out, err);
}

/* All orders and choices of these nodes; `bound` may be NULL. */
static enum err_code solve_subsets(const struct partition_request *r, const struct ranked *nodes,
                                   int n, const struct bound *bound, struct solution *out,
                                   struct err *err)
{
    struct cut_problem p;
    struct subsets subsets;
    struct search search = {.solve = subsets_solve, .workspace = &subsets};
    enum err_code rc;

    if (bound && out->found && !bound_window(bound, out->step_ms, &search.lo_ms, &search.hi_ms))
        return ERR_OK;
    rc = problem_of(r, nodes, n, &p, err);
    if (rc != ERR_OK)
        return rc;
    rc = subsets_init(&p, &subsets, err);
    if (rc == ERR_OK) {
        search.problem = &p;
        search.found = out->found;
        search.best_ms = out->step_ms;
        search_run(&search);
        solution_keep_better(&p, &search, out);
        out->bound_ms = fmin(search.best_ms, search.open_ms);
        subsets_deinit(&subsets);
    }
    cut_problem_deinit(&p);
    return rc;
}

/* One order of many nodes, under what is known from the bound and from orders before. */
static enum err_code solve_chain(const struct partition_request *r, const struct ranked *nodes,
                                 int n, struct bound *bound, struct solution *out, struct err *err)
{
    double enough_ms = bound_step_ms(bound) * (1 + OPTIMAL_ENOUGH);
    double hint_ms = bound_step_ms(bound) * HINT;
    struct cut_problem p;
    struct chain chain;
    struct search search = {.solve = chain_solve,
                            .workspace = &chain,
                            .problem = &p,
                            .gain = GAIN,
                            .enough_ms = enough_ms};
    bool is_settled;
    enum err_code rc;

    if (out->found && out->step_ms <= bound_step_ms(bound) * (1 + NEAR))
        return ERR_OK;
    rc = problem_of(r, nodes, n, &p, err);
    if (rc != ERR_OK)
        return rc;
    rc = chain_init(&p, &chain, err);
    if (rc == ERR_OK) {
        chain.bound = bound;
        /* First where the bound says that a good plan could be; if none is, wherever a better one
         * can be than the best so far. */
        is_settled = !out->found && bound_window(bound, hint_ms, &search.lo_ms, &search.hi_ms);
        if (is_settled) {
            search_run(&search);
            solution_keep_better(&p, &search, out);
            is_settled = out->found && out->step_ms <= hint_ms;
        }
        search.lo_ms = search.hi_ms = 0;
        search.found = out->found;
        search.best_ms = out->step_ms;
        if (!is_settled &&
            (!out->found || bound_window(bound, out->step_ms, &search.lo_ms, &search.hi_ms)))
            search_run(&search);
        solution_keep_better(&p, &search, out);
        chain_deinit(&chain);
    }
    cut_problem_deinit(&p);
    return rc;
}

static void reverse(struct ranked *nodes, int n)
{
    for (int i = 0; i < n / 2; i++) {
        struct ranked other = nodes[i];

        nodes[i] = nodes[n - 1 - i];
        nodes[n - 1 - i] = other;
    }
}

static enum err_code solve_orders(const struct partition_request *r, struct ranked *nodes, int n,
                                  struct bound *bound, struct solution *out, struct err *err)
{
    int exact = exact_nodes_max(model_units(&r->spec->model));
    int many = n < PARTITION_CANDIDATES_MAX ? n : PARTITION_CANDIDATES_MAX;
    enum err_code rc;

    select_nodes(nodes, n, many);
    rc = solve_chain(r, nodes, many, bound, out, err);
    qsort(nodes, (size_t)many, sizeof *nodes, by_memory);
    if (rc == ERR_OK)
        rc = solve_chain(r, nodes, many, bound, out, err);
    reverse(nodes, many);
    if (rc == ERR_OK)
        rc = solve_chain(r, nodes, many, bound, out, err);
    select_nodes(nodes, n, exact);
    if (rc == ERR_OK)
        rc = solve_subsets(r, nodes, exact, bound, out, err);
    return rc;
}

static enum err_code solve_many(const struct partition_request *r, struct ranked *nodes, int n,
                                struct solution *out, struct err *err)
{
    int *all = calloc((size_t)n, sizeof *all);
    struct bound *bound = NULL;
    enum err_code rc;

    if (!all)
        return err_set(err, ERR_NO_MEMORY, "planning on %d nodes", n);
    for (int i = 0; i < n; i++)
        all[i] = nodes[i].node;
    rc = bound_new(r, all, n, &bound, err);
    if (rc == ERR_OK)
        rc = solve_orders(r, nodes, n, bound, out, err);
    if (rc == ERR_OK)
        out->bound_ms = fmin(bound_step_ms(bound), out->step_ms);
    bound_free(bound);
    free(all);
    return rc;
}

enum err_code optimal_solve(const struct partition_request *r, struct solution *out,
                            struct err *err)
{
    struct ranked *nodes = calloc((size_t)r->n_nodes, sizeof *nodes);
    enum err_code rc = ERR_OK;
    int n;

    if (!nodes)
        return err_set(err, ERR_NO_MEMORY, "planning on %d nodes", r->n_nodes);
    n = rank_nodes(r, nodes);
    if (n > exact_nodes_max(model_units(&r->spec->model))) {
        rc = solve_many(r, nodes, n, out, err);
    } else if (n > 0) {
        select_nodes(nodes, n, n);
        rc = solve_subsets(r, nodes, n, NULL, out, err);
    }
    free(nodes);
    return rc;
}
