#include "balance/fixed.h"

#include "api/stages.h"
#include "balance/dynamic.h"
#include "balance/even.h"
#include "balance/manual.h"

/* For as many nodes as come first; for Manual, those that it has. */
static enum err_code choose_nodes(const struct partition_request *r, enum spec_strategy strategy,
                                  int *nodes, int *out_n, struct err *err)
{
    int n = r->n_nodes < SPEC_STAGES_MAX ? r->n_nodes : SPEC_STAGES_MAX;

    *out_n = n;
    for (int i = 0; i < n; i++)
        nodes[i] = i;
    if (strategy != SPEC_STRATEGY_MANUAL)
        return ERR_OK;
    *out_n = r->spec->placement.stages.n;
    return manual_nodes(r, nodes, err);
}

static void manual_cut(const struct cut_problem *p, const struct spec *spec, struct cut *out)
{
    struct cut c = {.n_stages = spec->placement.stages.n};

    for (int s = 0; s < c.n_stages; s++) {
        c.node[s] = s;
        c.first[s + 1] = c.first[s] + stages_units(spec, s);
    }
    cut_measure(p, &c);
    *out = c;
}

enum err_code fixed_solve(const struct partition_request *request, enum spec_strategy strategy,
                          struct solution *out, int *out_misfit, struct err *err)
{
    int nodes[SPEC_STAGES_MAX];
    int n;
    struct cut_problem p;
    struct search result = {.found = true};
    enum err_code rc = choose_nodes(request, strategy, nodes, &n, err);

    if (rc == ERR_OK)
        rc = cut_problem_init(request, nodes, n, &p, err);
    if (rc != ERR_OK)
        return rc;
    if (strategy == SPEC_STRATEGY_MANUAL)
        manual_cut(&p, request->spec, &result.best);
    else
        even_cut(&p, request->spec->model.layers, &result.best);
    if (strategy == SPEC_STRATEGY_DYNAMIC)
        dynamic_improve(&p, DYNAMIC_MENDED, &result.best);
    result.best_ms = cut_step_ms(&p, &result.best);
    solution_keep_better(&p, &result, out);
    *out_misfit = cut_misfit(&p, &result.best);
    out->found = *out_misfit < 0 && (strategy == SPEC_STRATEGY_MANUAL ||
                                     result.best.n_stages >= request->spec->placement.min_stages);
    cut_problem_deinit(&p);
    return ERR_OK;
}
