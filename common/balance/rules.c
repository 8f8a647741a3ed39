#include "balance/rules.h"

#include <math.h>
#include <string.h>

#include "base/bytes.h"

#define SWEEPS_PER_UNIT 4 /* over all boundaries; it converges long before */

/* --- Even --- */

void even_cut(const struct cut_problem *p, int n_layers, int per_layer, struct cut *out)
{
    struct cut c = {.n_stages = p->max_stages};
    bool by_layers = c.n_stages <= n_layers;
    int n = by_layers ? n_layers : p->n_units;

    for (int s = 0; s < c.n_stages; s++) {
        /* The first n % n_stages stages get one more. */
        int before = s * (n / c.n_stages) + (s < n % c.n_stages ? s : n % c.n_stages);

        c.node[s] = s;
        c.first[s] = by_layers && s > 0 ? 1 + per_layer * before : before;
    }
    c.first[c.n_stages] = p->n_units;
    cut_measure(p, &c);
    *out = c;
}

/* --- Dynamic --- */

static bool fits(const struct cut_problem *p, const struct cut *c, int s)
{
    return cut_stage_bytes(p, c, s) <= p->nodes[c->node[s]].memory;
}

static int units_of(const struct cut *c, int s)
{
    return c->first[s + 1] - c->first[s];
}

static double stage_ms(const struct cut_problem *p, const struct cut *c, int s)
{
    return cut_run_ms(p, c->node[s], c->first[s], c->first[s + 1]);
}

/* Move the boundary behind stage `s` by one unit if that is a gain. */
static bool move(const struct cut_problem *p, struct cut *c, int s)
{
    double own = stage_ms(p, c, s);
    double next = stage_ms(p, c, s + 1);
    double mean = 0;
    int by;

    for (int i = 0; i < c->n_stages; i++)
        mean += stage_ms(p, c, i);
    mean /= c->n_stages;
    if (own < mean && units_of(c, s + 1) > 1)
        by = 1;
    else if (own > mean && next < own && units_of(c, s) > 1)
        by = -1;
    else
        return false;
    c->first[s + 1] += by;
    if (fmax(stage_ms(p, c, s), stage_ms(p, c, s + 1)) < fmax(own, next) && fits(p, c, s) &&
        fits(p, c, s + 1))
        return true;
    c->first[s + 1] -= by;
    return false;
}

void dynamic_improve(const struct cut_problem *p, struct cut *cut)
{
    struct cut now = *cut;

    /* Repair memory: push what is too much to the next stage, and then back from the last one. */
    for (int s = 0; s < now.n_stages - 1; s++)
        while (units_of(&now, s) > 1 && !fits(p, &now, s))
            now.first[s + 1]--;
    for (int s = now.n_stages - 1; s > 0; s--)
        while (units_of(&now, s) > 1 && !fits(p, &now, s))
            now.first[s]++;
    cut_measure(p, &now);
    *cut = now;
    for (int sweep = 0; sweep < SWEEPS_PER_UNIT * p->n_units; sweep++) {
        bool moved = false;

        for (int s = 0; s < now.n_stages - 1; s++)
            moved = move(p, &now, s) || moved;
        if (!moved)
            return;
        cut_measure(p, &now);
        if (cut_step_ms(p, &now) < cut_step_ms(p, cut))
            *cut = now;
    }
}

/* --- Manual --- */

/* A stage that names no node gets the fastest free one that can hold it, heavy stages first. */
static enum err_code take_fastest(const struct partition_request *r, const struct cut *c,
                                  int *nodes, struct err *err)
{
    const int first_node = 0; /* any node will do to compare the stages' work */
    struct cut_problem p;
    enum err_code rc = cut_problem_init(r, &first_node, 1, &p, err);

    if (rc != ERR_OK)
        return rc;
    while (rc == ERR_OK) {
        double most_ms = 0;
        int64_t bytes;
        int heavy = -1;

        for (int s = 0; s < c->n_stages; s++) {
            double ms = cut_run_ms(&p, 0, c->first[s], c->first[s + 1]);

            if (nodes[s] < 0 && ms > most_ms) {
                most_ms = ms;
                heavy = s;
            }
        }
        if (heavy < 0)
            break; /* all have one */
        bytes = cut_stage_bytes(&p, c, heavy);
        for (int i = 0; i < r->n_nodes; i++) {
            bool is_free = true;

            for (int k = 0; k < c->n_stages; k++)
                is_free = is_free && nodes[k] != i;
            if (is_free && partition_memory(r, i) >= bytes &&
                (nodes[heavy] < 0 || r->nodes[i].gflops > r->nodes[nodes[heavy]].gflops))
                nodes[heavy] = i;
        }
        if (nodes[heavy] < 0)
            rc = err_set(err, ERR_NOT_FOUND,
                         "spec.placement.manual.replicas[0].stages[%d]: needs %lld MiB, more than "
                         "any of the %d nodes that is not taken yet offers",
                         heavy, (long long)mib_of(bytes), r->n_nodes);
    }
    cut_problem_deinit(&p);
    return rc;
}

/* The cut that spec.placement.manual describes, and the node of each stage. */
static enum err_code manual_cut(const struct partition_request *r, struct cut *out, int *out_nodes,
                                struct err *err)
{
    const struct spec_stages *stages = &r->job.spec->placement.stages;

    *out = (struct cut){.n_stages = stages->n};
    for (int s = 0; s < stages->n; s++) {
        const char *name = stages->list[s].node;

        out->node[s] = s;
        out->first[s + 1] = out->first[s] + spec_stage_units(r->job.spec, s);
        out_nodes[s] = -1; /* none is named */
        for (int i = r->n_nodes - 1; *name && i >= 0; i--)
            out_nodes[s] = strcmp(r->nodes[i].name, name) == 0 ? i : out_nodes[s];
        if (*name && out_nodes[s] < 0)
            return err_set(err, ERR_NOT_FOUND,
                           "spec.placement.manual.replicas[0].stages[%d].node: none of the %d "
                           "suitable nodes is called \"%.60s\"",
                           s, r->n_nodes, name);
    }
    return take_fastest(r, out, out_nodes, err);
}

/* --- all three --- */

enum err_code rules_solve(const struct partition_request *request, enum spec_strategy strategy,
                          struct placement *out, int *out_misfit, struct err *err)
{
    bool is_manual = strategy == SPEC_STRATEGY_MANUAL;
    int n = request->n_nodes < SPEC_STAGES_MAX ? request->n_nodes : SPEC_STAGES_MAX;
    int nodes[SPEC_STAGES_MAX];
    struct cut_problem p;
    struct cut cut;
    enum err_code rc = ERR_OK;

    for (int i = 0; i < n; i++) /* Even and Dynamic: the first ones */
        nodes[i] = i;
    if (is_manual) {
        rc = manual_cut(request, &cut, nodes, err);
        n = cut.n_stages;
    }
    if (rc == ERR_OK)
        rc = cut_problem_init(request, nodes, n, &p, err);
    if (rc != ERR_OK)
        return rc;
    if (is_manual)
        cut_measure(&p, &cut);
    else
        even_cut(&p, request->job.spec->model.layers, 2, &cut);
    if (strategy == SPEC_STRATEGY_DYNAMIC)
        dynamic_improve(&p, &cut);
    cut_place(&p, &cut, out);
    *out_misfit = cut_misfit(&p, &cut);
    cut_problem_deinit(&p);
    return ERR_OK;
}
