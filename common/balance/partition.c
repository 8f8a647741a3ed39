#include "balance/partition.h"

#include <math.h>
#include <stdio.h>

#include "balance/fixed.h"
#include "balance/leftout.h"

#define NEAREST_BYTES 160
#define MIB(bytes)    (((bytes) + ((int64_t)1 << 20) - 1) >> 20)

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

static enum err_code check_links(const struct partition_request *r, struct err *err)
{
    if (!r->links)
        return is_link(&r->link) ? ERR_OK
                                 : err_set(err, ERR_INVALID,
                                           "the link between nodes: %g bytes/s and %g ms are not "
                                           "possible",
                                           r->link.bytes_per_s, r->link.latency_ms);
    for (int a = 0; a < r->n_nodes; a++)
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

/* What every message about memory ends with. */
#define ADVICE                                                                                     \
    "take a smaller model, raise spec.training.microBatches, lower spec.training.batchSize or "    \
    "maxLength, or offer more memory"

static int64_t largest_memory(const struct partition_request *r, int64_t *out_sum)
{
    int64_t largest = 0;

    *out_sum = 0;
    for (int i = 0; i < r->n_nodes; i++) {
        int64_t bytes = r->nodes[i].memory_bytes;

        *out_sum += bytes;
        if (bytes > largest)
            largest = bytes;
    }
    return largest;
}

/* Where the cut that repairs memory as far as it can ends up short; "" when that is unknown. */
static void explain_nearest(const struct partition_request *r, char out[static NEAREST_BYTES])
{
    struct solution nearest = {.found = false};
    const struct cut *c = &nearest.cut;
    char units[MODEL_NAME_BYTES];
    int s = -1;

    out[0] = '\0';
    if (fixed_solve(r, SPEC_STRATEGY_DYNAMIC, &nearest, &s, NULL) != ERR_OK || s < 0)
        return;
    model_range_name(&r->spec->model, c->first[s], c->first[s + 1] - c->first[s], units);
    (void)snprintf(out, NEAREST_BYTES, "; nearest, stage %d (%.40s) lacks %lld MiB on %.40s", s,
                   units, (long long)MIB(nearest.bytes[s] - r->nodes[c->node[s]].memory_bytes),
                   r->nodes[c->node[s]].name);
}

static enum err_code explain_no_cut(const struct partition_request *r, struct err *err)
{
    const struct spec *spec = r->spec;
    int n_units = model_units(&spec->model);
    int64_t sum;
    int64_t largest = largest_memory(r, &sum);
    int64_t all = COST_PROCESS_BYTES + COST_DATA_BYTES;
    char nearest[NEAREST_BYTES];

    if (spec->placement.min_stages > r->n_nodes)
        return err_set(err, ERR_NOT_FOUND,
                       "spec.placement.minStages is %d, but %d nodes are suitable",
                       spec->placement.min_stages, r->n_nodes);
    if (spec->placement.min_stages > n_units)
        return err_set(err, ERR_NOT_FOUND,
                       "spec.placement.minStages is %d, but the model has %d units",
                       spec->placement.min_stages, n_units);
    for (int u = 0; u < n_units; u++) {
        int64_t bytes = leftout_unit_bytes(r, u);
        char name[MODEL_NAME_BYTES];
        struct cost_unit c;

        model_unit_name(&spec->model, u, name);
        if (bytes > largest)
            return err_set(
                err, ERR_NOT_FOUND,
                "unit %s needs %lld MiB by itself, the largest node offers %lld MiB and lacks "
                "%lld MiB: " ADVICE,
                name, (long long)MIB(bytes), (long long)MIB(largest),
                (long long)MIB(bytes - largest));
        cost_of_unit(spec, u, &c);
        all += c.state_bytes + c.activation_bytes;
    }
    explain_nearest(r, nearest);
    return err_set(err, ERR_NOT_FOUND,
                   "no cut into %d to %d stages fits: the model needs at least %lld MiB and all %d "
                   "together offer %lld MiB%s: " ADVICE ", or raise spec.placement.maxStages",
                   spec->placement.min_stages, spec->placement.max_stages, (long long)MIB(all),
                   r->n_nodes, (long long)MIB(sum), nearest);
}

static enum err_code explain_misfit(const struct partition_request *r, const struct solution *fixed,
                                    int misfit, struct err *err)
{
    const struct cut *c = &fixed->cut;
    const struct node *n;
    int64_t lacks;
    char units[MODEL_NAME_BYTES];

    if (misfit < 0)
        return explain_no_cut(r, err);
    n = &r->nodes[c->node[misfit]];
    lacks = fixed->bytes[misfit] - n->memory_bytes;
    model_range_name(&r->spec->model, c->first[misfit], c->first[misfit + 1] - c->first[misfit],
                     units);
    return err_set(err, ERR_NOT_FOUND,
                   "strategy %s gives stage %d (%s) to node %.60s, which lacks %lld MiB: the stage "
                   "needs %lld MiB, the node offers %lld MiB: strategy Optimal may find a cut that "
                   "fits, or " ADVICE,
                   spec_strategy_name(r->spec->placement.strategy), misfit, units, n->name,
                   (long long)MIB(lacks), (long long)MIB(fixed->bytes[misfit]),
                   (long long)MIB(n->memory_bytes));
}

static void fill_placement(const struct solution *chosen, struct placement *out)
{
    const struct cut *c = &chosen->cut;

    out->n_stages = c->n_stages;
    out->predicted_step_ms = chosen->step_ms;
    for (int s = 0; s < c->n_stages; s++) {
        out->stages[s] = (struct placement_stage){.node = c->node[s],
                                                  .first_unit = c->first[s],
                                                  .n_units = c->first[s + 1] - c->first[s],
                                                  .predicted_ms = chosen->stage_ms[s],
                                                  .memory_bytes = chosen->bytes[s],
                                                  .edge_ms = chosen->edge_ms[s]};
        if (chosen->stage_ms[s] > chosen->stage_ms[out->bottleneck])
            out->bottleneck = s;
    }
}

/* Even and Dynamic beside what is asked for; a negative time where it does not fit. */
static enum err_code compare(const struct partition_request *r, enum spec_strategy strategy,
                             double *out_ms, struct err *err)
{
    struct solution other = {.found = false};
    int misfit;
    enum err_code rc = fixed_solve(r, strategy, &other, &misfit, err);

    *out_ms = rc == ERR_OK && other.found ? other.step_ms : -1;
    return rc;
}

enum err_code partition_solve(const struct partition_request *request, struct placement *out,
                              struct err *err)
{
    struct placement p = {.strategy = request->spec->placement.strategy,
                          .micro_batches = request->spec->training.micro_batches};
    struct spec wide = *request->spec; /* Manual is held against all that could be */
    struct partition_request open = *request;
    struct solution optimal = {.found = false};
    struct solution fixed = {.found = false};
    bool is_fixed = p.strategy != SPEC_STRATEGY_OPTIMAL;
    int misfit = -1;
    enum err_code rc = check_nodes(request, err);

    if (rc == ERR_OK)
        rc = check_links(request, err);
    if (p.strategy == SPEC_STRATEGY_MANUAL) {
        wide.placement.min_stages = 1;
        wide.placement.max_stages = SPEC_STAGES_MAX;
        open.spec = &wide;
    }
    if (rc == ERR_OK && is_fixed)
        rc = fixed_solve(request, p.strategy, &fixed, &misfit, err);
    if (rc == ERR_OK && is_fixed && !fixed.found)
        return explain_misfit(request, &fixed, misfit, err);
    if (rc == ERR_OK)
        rc = compare(request, SPEC_STRATEGY_EVEN, &p.even_step_ms, err);
    if (rc == ERR_OK)
        rc = compare(request, SPEC_STRATEGY_DYNAMIC, &p.dynamic_step_ms, err);
    if (rc == ERR_OK)
        rc = optimal_solve(&open, &optimal, err);
    if (rc != ERR_OK)
        return rc;
    if (!optimal.found)
        return explain_no_cut(request, err);
    fill_placement(is_fixed ? &fixed : &optimal, &p);
    p.bound_ms = optimal.bound_ms;
    rc = leftout_list(request, &p, err);
    if (rc == ERR_OK)
        *out = p;
    return rc;
}
