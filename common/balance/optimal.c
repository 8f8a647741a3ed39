#include "balance/optimal.h"

#include <math.h>
#include <stdlib.h>

#include "balance/chain.h"
#include "balance/leftout.h"
#include "balance/subsets.h"

#define EXACT_NODES_MAX 16

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
    int n = 0;

    for (int i = 0; i < r->n_nodes; i++) {
        if (r->nodes[i].memory_bytes < least)
            continue;
        out[n] = (struct ranked){.node = i, .memory_bytes = r->nodes[i].memory_bytes};
        for (int u = 0; u < n_units; u++) {
            struct cost_unit c;

            cost_of_unit(r->spec, u, &c);
            out[n].ms += cost_unit_ms(&c, &r->nodes[i]);
        }
        n++;
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

/* All orders and choices of these nodes. */
static enum err_code solve_subsets(const struct partition_request *r, const struct ranked *nodes,
                                   int n, struct solution *out, struct err *err)
{
    struct cut_problem p;
    struct subsets subsets;
    struct search search = {.solve = subsets_solve, .workspace = &subsets};
    enum err_code rc = problem_of(r, nodes, n, &p, err);

    if (rc != ERR_OK)
        return rc;
    rc = subsets_init(&p, &subsets, err);
    if (rc == ERR_OK) {
        search.problem = &p;
        search_run(&search);
        solution_keep_better(&p, &search, out);
        out->bound_ms = fmin(search.best_ms, search.open_ms);
        subsets_deinit(&subsets);
    }
    cut_problem_deinit(&p);
    return rc;
}

/* One order of many nodes. */
static enum err_code solve_chain(const struct partition_request *r, const struct ranked *nodes,
                                 int n, struct solution *out, struct err *err)
{
    struct cut_problem p;
    struct chain chain;
    struct search search = {.solve = chain_solve, .workspace = &chain};
    enum err_code rc = problem_of(r, nodes, n, &p, err);

    if (rc != ERR_OK)
        return rc;
    rc = chain_init(&p, &chain, err);
    if (rc == ERR_OK) {
        search.problem = &p;
        search_run(&search);
        solution_keep_better(&p, &search, out);
        chain_deinit(&chain);
    }
    cut_problem_deinit(&p);
    return rc;
}

/* What no plan of `n_stages` can beat, memory and whole units aside: every unit on its fastest
 * node, and the work spread over the fastest nodes without a rest. `nodes` are sorted by speed. */
static double relaxed_ms(const struct partition_request *r, const struct ranked *nodes,
                         int n_stages)
{
    double speed = 0;
    double max_ms = 0;
    double sum_ms = 0;
    double edge_ms = INFINITY;
    double flops = 0;

    for (int i = 0; i < n_stages; i++)
        speed += r->nodes[nodes[i].node].gflops * 1e6;
    for (int u = 0; u < model_units(&r->spec->model); u++) {
        const struct node *fast = &r->nodes[nodes[0].node];
        struct cost_unit c;

        cost_of_unit(r->spec, u, &c);
        flops += c.flops;
        edge_ms = fmin(edge_ms, cost_edge_ms(&c, &r->link));
        sum_ms += c.flops / (fast->gflops * 1e6);
    }
    max_ms = flops / speed;
    return sum_ms + (r->spec->training.micro_batches - 1) * max_ms + 2 * (n_stages - 1) * edge_ms;
}

static double relaxed_bound(const struct partition_request *r, struct ranked *nodes, int n)
{
    const struct spec *spec = r->spec;
    double best = INFINITY;

    /* By GFLOP/s alone, which the bound counts: without the fixed cost of units. */
    for (int i = 0; i < n; i++)
        nodes[i].ms = 1 / r->nodes[nodes[i].node].gflops;
    qsort(nodes, (size_t)n, sizeof *nodes, by_speed);
    for (int s = spec->placement.min_stages; s <= spec->placement.max_stages && s <= n; s++)
        best = fmin(best, relaxed_ms(r, nodes, s));
    return best;
}

static enum err_code solve_many(const struct partition_request *r, struct ranked *nodes, int n,
                                struct solution *out, struct err *err)
{
    int exact = exact_nodes_max(model_units(&r->spec->model));
    int many = n < PARTITION_CANDIDATES_MAX ? n : PARTITION_CANDIDATES_MAX;
    enum err_code rc;

    select_nodes(nodes, n, exact);
    rc = solve_subsets(r, nodes, exact, out, err);
    select_nodes(nodes, n, many);
    if (rc == ERR_OK)
        rc = solve_chain(r, nodes, many, out, err);
    qsort(nodes, (size_t)many, sizeof *nodes, by_memory);
    if (rc == ERR_OK)
        rc = solve_chain(r, nodes, many, out, err);
    for (int i = 0; i < many / 2; i++) {
        struct ranked other = nodes[i];

        nodes[i] = nodes[many - 1 - i];
        nodes[many - 1 - i] = other;
    }
    if (rc == ERR_OK)
        rc = solve_chain(r, nodes, many, out, err);
    if (rc == ERR_OK)
        out->bound_ms = relaxed_bound(r, nodes, n);
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
        rc = solve_subsets(r, nodes, n, out, err);
    }
    free(nodes);
    return rc;
}
