#include "balance/partition.h"

#include <math.h>
#include <stdio.h>

#include "balance/chain.h"
#include "balance/rules.h"
#include "base/bytes.h"

#define NEAREST_BYTES 160

/* Stages and units, both squared, up to which the model is cut again with an excluded node. Above,
 * the node gets one unit of a stage: not the best use of it, but it needs no search. */
#define RECUT_WORK 1e5

/* --- what is refused --- */

static enum err_code check_nodes(const struct partition_request *r, struct err *err)
{
    if (r->n_nodes < 1)
        return err_set(err, ERR_NOT_FOUND, "there is no node to run on");
    for (int i = 0; i < r->n_nodes; i++) {
        const struct node *n = &r->nodes[i];

        if (!(n->gflops > 0 && isfinite(n->gflops)) || !(n->unit_ms >= 0 && isfinite(n->unit_ms)))
            return err_set(err, ERR_INVALID, "node %.60s: its speed is not known", n->name);
    }
    return ERR_OK;
}

static bool is_link(const struct cost_link *l)
{
    return l->bytes_per_s > 0 && isfinite(l->bytes_per_s) && l->latency_ms >= 0 &&
           isfinite(l->latency_ms);
}

enum err_code partition_check_links(const struct partition_request *r, struct err *err)
{
    if (!r->links)
        return is_link(&r->link) ? ERR_OK
                                 : err_set(err, ERR_INVALID,
                                           "the link between nodes: %g bytes/s and %g ms are not "
                                           "possible",
                                           r->link.bytes_per_s, r->link.latency_ms);
    for (int a = 0; a < r->n_nodes && !r->link_class; a++) /* classes are made of checked links */
        for (int b = 0; b < a; b++) {
            const struct cost_link *there = partition_link(r, a, b);
            const struct cost_link *back = partition_link(r, b, a);

            if (!is_link(there))
                return err_set(err, ERR_INVALID,
                               "the link between %.60s and %.60s: %g bytes/s and %g ms are not "
                               "possible",
                               r->nodes[a].name, r->nodes[b].name, there->bytes_per_s,
                               there->latency_ms);
            if (there->bytes_per_s != back->bytes_per_s || there->latency_ms != back->latency_ms)
                return err_set(err, ERR_INVALID,
                               "the link between %.60s and %.60s: %g bytes/s and %g ms one way, "
                               "%g bytes/s and %g ms the other; both ways must be given alike",
                               r->nodes[a].name, r->nodes[b].name, there->bytes_per_s,
                               there->latency_ms, back->bytes_per_s, back->latency_ms);
        }
    return ERR_OK;
}

/* --- why nothing fits --- */

/* What every message about memory ends with. */
#define ADVICE                                                                                     \
    "take a smaller model, raise spec.training.microBatches, lower spec.training.batchSize or "    \
    "maxSequenceLength, or offer more memory"

/* Where the cut that repairs memory as far as it can ends up short; "" when that is unknown. */
static void explain_nearest(const struct partition_request *r, char out[static NEAREST_BYTES])
{
    struct placement nearest = {.n_stages = 0};
    const struct placement_stage *stage;
    char units[MODEL_NAME_BYTES];
    int s = -1;

    out[0] = '\0';
    if (rules_solve(r, SPEC_STRATEGY_DYNAMIC, &nearest, &s, NULL) != ERR_OK || s < 0)
        return;
    stage = &nearest.stages[s];
    model_range_name(&r->job.spec->model, stage->first_unit, stage->n_units, units);
    (void)snprintf(out, NEAREST_BYTES, "; nearest, stage %d (%.40s) lacks %lld MiB on %.40s", s,
                   units, (long long)mib_of(stage->memory_bytes - partition_memory(r, stage->node)),
                   r->nodes[stage->node].name);
}

static enum err_code explain_no_cut(const struct partition_request *r, struct err *err)
{
    const struct spec *spec = r->job.spec;
    int n_units = model_units(&spec->model);
    int64_t sum = 0;
    int64_t largest = 0;
    int64_t all = COST_PROCESS_BYTES + COST_DATA_BYTES;
    char nearest[NEAREST_BYTES];

    if (r->min_stages > r->n_nodes)
        return err_set(err, ERR_NOT_FOUND,
                       "spec.placement.minStages is %d, but %d nodes are suitable", r->min_stages,
                       r->n_nodes);
    if (r->min_stages > n_units)
        return err_set(err, ERR_NOT_FOUND,
                       "spec.placement.minStages is %d, but the model has %d units", r->min_stages,
                       n_units);
    for (int i = 0; i < r->n_nodes; i++) {
        int64_t offers = partition_memory(r, i);

        sum += offers;
        largest = offers > largest ? offers : largest;
    }
    for (int u = 0; u < n_units; u++) {
        int64_t bytes = cost_unit_bytes(&r->job, u);
        char name[MODEL_NAME_BYTES];
        struct cost_unit c;

        model_unit_name(&spec->model, u, name);
        if (bytes > largest)
            return err_set(
                err, ERR_NOT_FOUND,
                "unit %s needs %lld MiB by itself, the largest node offers %lld MiB and lacks "
                "%lld MiB: " ADVICE,
                name, (long long)mib_of(bytes), (long long)mib_of(largest),
                (long long)mib_of(bytes - largest));
        cost_of_unit(&r->job, u, &c);
        all += c.state_bytes + c.activation_bytes;
    }
    explain_nearest(r, nearest);
    return err_set(err, ERR_NOT_FOUND,
                   "no cut into %d to %d stages fits: the model needs at least %lld MiB and all %d "
                   "together offer %lld MiB%s: " ADVICE ", or raise spec.placement.maxStages",
                   r->min_stages, r->max_stages, (long long)mib_of(all), r->n_nodes,
                   (long long)mib_of(sum), nearest);
}

static enum err_code explain_misfit(const struct partition_request *r,
                                    const struct placement *fixed, int misfit, struct err *err)
{
    const struct placement_stage *stage = &fixed->stages[misfit];
    int64_t offers = partition_memory(r, stage->node);
    char units[MODEL_NAME_BYTES];

    model_range_name(&r->job.spec->model, stage->first_unit, stage->n_units, units);
    return err_set(err, ERR_NOT_FOUND,
                   "strategy %s gives stage %d (%s) to node %.60s, which lacks %lld MiB: the stage "
                   "needs %lld MiB, the node offers %lld MiB: strategy Optimal may find a cut that "
                   "fits, or " ADVICE,
                   spec_strategy_name(fixed->strategy), misfit, units, r->nodes[stage->node].name,
                   (long long)mib_of(stage->memory_bytes - offers),
                   (long long)mib_of(stage->memory_bytes), (long long)mib_of(offers));
}

/* --- excluded nodes --- */

/* With the first or the last unit of stage `s` on the problem's last node. */
static void keep_if_shorter(const struct cut_problem *p, const struct placement *placement, int s,
                            bool is_before, double *best_ms)
{
    struct cut c = {.n_stages = placement->n_stages + 1};
    int to = 0;

    if (placement->stages[s].n_units < 2)
        return;
    for (int i = 0; i < placement->n_stages; i++) {
        const struct placement_stage *stage = &placement->stages[i];

        if (i == s && is_before) {
            c.node[to] = p->n_nodes - 1;
            c.first[to++] = stage->first_unit;
        }
        c.node[to] = i;
        c.first[to++] = stage->first_unit + (i == s && is_before);
        if (i == s && !is_before) {
            c.node[to] = p->n_nodes - 1;
            c.first[to++] = stage->first_unit + stage->n_units - 1;
        }
    }
    c.first[to] = p->n_units;
    cut_measure(p, &c);
    if (cut_misfit(p, &c) < 0 && (*best_ms < 0 || cut_step_ms(p, &c) < *best_ms))
        *best_ms = cut_step_ms(p, &c);
}

/* The shortest step when `extra` takes one unit off one of the stages. */
static enum err_code step_with_unit(const struct partition_request *request,
                                    const struct placement *p, int extra, double *out_ms,
                                    struct err *err)
{
    int nodes[PARTITION_CANDIDATES_MAX];
    struct cut_problem problem;
    enum err_code rc;

    for (int i = 0; i < p->n_stages; i++)
        nodes[i] = p->stages[i].node;
    nodes[p->n_stages] = extra;
    rc = cut_problem_init(request, nodes, p->n_stages + 1, &problem, err);
    if (rc != ERR_OK)
        return rc;
    *out_ms = -1;
    for (int s = 0; s < p->n_stages; s++) {
        keep_if_shorter(&problem, p, s, true, out_ms);
        keep_if_shorter(&problem, p, s, false, out_ms);
    }
    cut_problem_deinit(&problem);
    return ERR_OK;
}

/* The shortest step of all stages' nodes in their order with `extra` put in somewhere. */
static enum err_code step_with(const struct partition_request *request, const struct placement *p,
                               int extra, double *out_ms, struct err *err)
{
    struct search search = {.found = false};
    int n = p->n_stages;

    for (int at = 0; at <= n; at++) {
        int nodes[PARTITION_CANDIDATES_MAX];
        struct cut_problem problem;
        struct chain chain;
        enum err_code rc;

        for (int i = 0; i <= n; i++)
            nodes[i] = i == at ? extra : p->stages[i - (i > at)].node;
        rc = cut_problem_init(request, nodes, n + 1, &problem, err);
        if (rc != ERR_OK)
            return rc;
        problem.min_stages = n + 1; /* none may be skipped */
        rc = chain_init(&problem, &chain, err);
        if (rc == ERR_OK) {
            search.problem = &problem;
            search.solve = chain_solve;
            search.workspace = &chain;
            search_run(&search);
            chain_deinit(&chain);
        }
        cut_problem_deinit(&problem);
        if (rc != ERR_OK)
            return rc;
    }
    *out_ms = search.found ? search.best_ms : -1;
    return ERR_OK;
}

static enum err_code reason_for(const struct partition_request *request, const struct placement *p,
                                int node, char out[static PLAN_LEFT_OUT_BYTES], struct err *err)
{
    const struct node *n = &request->nodes[node];
    int64_t least = cost_least_bytes(&request->job);
    int64_t offers = partition_memory(request, node);
    int max_stages = request->max_stages;
    double with_ms;
    bool is_small;
    enum err_code rc;

    if (offers < least) {
        (void)snprintf(out, PLAN_LEFT_OUT_BYTES,
                       "offers %lld MiB, the smallest stage needs %lld MiB",
                       (long long)mib_of(offers), (long long)mib_of(least));
        return ERR_OK;
    }
    if (p->strategy == SPEC_STRATEGY_MANUAL) {
        (void)snprintf(out, PLAN_LEFT_OUT_BYTES, "spec.placement.manual does not use it");
        return ERR_OK;
    }
    if (p->strategy != SPEC_STRATEGY_OPTIMAL ||
        p->n_stages >= model_units(&request->job.spec->model)) {
        (void)snprintf(out, PLAN_LEFT_OUT_BYTES, "there are stages for %d nodes", p->n_stages);
        return ERR_OK;
    }
    if (p->n_stages >= max_stages || p->n_stages + 1 > PARTITION_CANDIDATES_MAX) {
        (void)snprintf(out, PLAN_LEFT_OUT_BYTES,
                       "spec.placement.maxStages is %d, and the chosen nodes make a shorter step",
                       max_stages);
        return ERR_OK;
    }
    is_small =
        RECUT_WORK >= pow(p->n_stages + 1, 2) * pow(model_units(&request->job.spec->model), 2);
    rc = is_small ? step_with(request, p, node, &with_ms, err)
                  : step_with_unit(request, p, node, &with_ms, err);
    if (rc != ERR_OK)
        return rc;
    if (with_ms < 0)
        (void)snprintf(out, PLAN_LEFT_OUT_BYTES, "no stage beside the chosen nodes fits it");
    else if (with_ms < p->predicted_step_ms)
        (void)snprintf(out, PLAN_LEFT_OUT_BYTES,
                       "at %.3g GFLOP/s a step would take %.1f ms with it, %.1f ms without: too "
                       "small a gain for another node",
                       n->gflops, with_ms, p->predicted_step_ms);
    else
        (void)snprintf(out, PLAN_LEFT_OUT_BYTES,
                       "at %.3g GFLOP/s a step would take %.0f ms with %s, %.0f ms without",
                       n->gflops, with_ms, is_small ? "it" : "one unit on it",
                       p->predicted_step_ms);
    return ERR_OK;
}

static bool has_stage(const struct placement *p, int node)
{
    for (int s = 0; s < p->n_stages; s++)
        if (p->stages[s].node == node)
            return true;
    return false;
}

enum err_code partition_list_left_out(const struct partition_request *request, struct placement *p,
                                      struct err *err)
{
    p->n_left_out = 0;
    for (int i = 0; i < request->n_nodes; i++) {
        struct plan_left_out *left;
        enum err_code rc;

        if (has_stage(p, i))
            continue;
        if (p->n_left_out++ >= PARTITION_LEFT_OUT_MAX)
            continue;
        left = &p->left_out[p->n_left_out - 1];
        (void)snprintf(left->node, sizeof left->node, "%s", request->nodes[i].name);
        rc = reason_for(request, p, i, left->reason, err);
        if (rc != ERR_OK)
            return rc;
    }
    return ERR_OK;
}

/* --- the placement --- */

static bool has_enough(const struct partition_request *r, const struct placement *p)
{
    return p->strategy == SPEC_STRATEGY_MANUAL || p->n_stages >= r->min_stages;
}

/* Even and Dynamic to compare with; a negative time where it does not fit. */
static enum err_code compare(const struct partition_request *r, enum spec_strategy strategy,
                             double *out_ms, struct err *err)
{
    struct placement other = {.strategy = strategy};
    int misfit;
    enum err_code rc = rules_solve(r, strategy, &other, &misfit, err);

    if (rc == ERR_OK)
        *out_ms = misfit < 0 && has_enough(r, &other) ? other.predicted_step_ms : -1;
    return rc;
}

enum err_code partition_solve(const struct partition_request *request, struct placement *out,
                              struct err *err)
{
    struct placement p = {.strategy = request->job.spec->placement.strategy,
                          .micro_batches = request->job.micro_batches};
    struct placement optimal = p;
    struct partition_request open = *request; /* Manual is compared with all that could be */
    int misfit = -1;
    enum err_code rc = check_nodes(request, err);

    if (rc == ERR_OK)
        rc = partition_check_links(request, err);
    if (p.strategy == SPEC_STRATEGY_MANUAL) {
        open.min_stages = 1;
        open.max_stages = SPEC_STAGES_MAX;
    }
    if (rc == ERR_OK && p.strategy != SPEC_STRATEGY_OPTIMAL) {
        rc = rules_solve(request, p.strategy, &p, &misfit, err);
        if (rc == ERR_OK && misfit >= 0)
            return explain_misfit(request, &p, misfit, err);
        if (rc == ERR_OK && !has_enough(request, &p))
            return explain_no_cut(request, err);
    }
    if (rc == ERR_OK)
        rc = optimal_solve(&open, &optimal, err);
    if (rc == ERR_OK && optimal.n_stages == 0)
        return explain_no_cut(request, err);
    if (p.strategy == SPEC_STRATEGY_OPTIMAL)
        p = optimal;
    p.bound_ms = optimal.bound_ms;
    if (rc == ERR_OK)
        rc = compare(request, SPEC_STRATEGY_EVEN, &p.even_step_ms, err);
    if (rc == ERR_OK)
        rc = compare(request, SPEC_STRATEGY_DYNAMIC, &p.dynamic_step_ms, err);
    if (rc == ERR_OK)
        rc = partition_list_left_out(request, &p, err);
    if (rc == ERR_OK)
        *out = p;
    return rc;
}
