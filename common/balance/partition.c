#include "balance/partition.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "balance/rules.h"
#include "balance/search.h"
#include "base/buf.h"
#include "base/bytes.h"

#define WHERE_BYTES 160
#define PER_STAGE   4 /* micro-batches: the pipeline is then idle for a fifth of the time at most */
#define LONGER      (1 + 1e-9)

/* Stages and units, both squared, up to which the model is cut again with an excluded node. Above,
 * the node gets one unit of a stage: not the best use of it, but it needs no search. */
#define RECUT_WORK 1e5

/* --- what is refused --- */

static enum err_code check_link(const struct cost_link *l, const char *a, const char *b,
                                struct err *err)
{
    if (l->bytes_per_s > 0 && isfinite(l->bytes_per_s) && l->latency_ms >= 0 &&
        isfinite(l->latency_ms))
        return ERR_OK;
    return err_set(err, ERR_INVALID,
                   "the link between %.60s and %.60s: %g bytes/s and %g ms are not possible", a, b,
                   l->bytes_per_s, l->latency_ms);
}

static enum err_code check_request(const struct partition_request *r, struct err *err)
{
    enum err_code rc = check_link(&r->link, "one node", "another", err);

    if (r->n_nodes < 1)
        return err_set(err, ERR_NOT_FOUND, "no nodes to run on");
    for (int a = 0; a < r->n_nodes && rc == ERR_OK; a++) {
        const struct node *n = &r->nodes[a];

        if (!(n->gflops > 0 && isfinite(n->gflops)) || !(n->unit_ms >= 0 && isfinite(n->unit_ms)))
            return err_set(err, ERR_INVALID, "node %.60s: its speed is not known", n->name);
        for (int b = 0; r->links && b < a && rc == ERR_OK; b++) {
            const struct cost_link *there = partition_link(r, a, b);
            const struct cost_link *back = partition_link(r, b, a);

            rc = check_link(there, n->name, r->nodes[b].name, err);
            if (rc == ERR_OK &&
                (there->bytes_per_s != back->bytes_per_s || there->latency_ms != back->latency_ms))
                rc = err_set(err, ERR_INVALID,
                             "the link between %.60s and %.60s: %g bytes/s and %g ms one way, "
                             "%g bytes/s and %g ms the other; both ways must be given alike",
                             n->name, r->nodes[b].name, there->bytes_per_s, there->latency_ms,
                             back->bytes_per_s, back->latency_ms);
        }
    }
    return rc;
}

/* --- why nothing fits --- */

/* What every message about memory ends with. */
#define ADVICE                                                                                     \
    "take a smaller model, raise spec.training.microBatches, lower spec.training.batchSize or "    \
    "maxSequenceLength, or offer more memory"

/* What no cut can do without. */
struct need {
    int64_t offered, largest; /* by all nodes, and by one */
    int64_t all;              /* of the model, at least */
    int64_t unit_bytes;       /* of the largest unit: its stage's, at least */
    int unit;
};

static struct need find_need(const struct partition_request *r)
{
    struct need out = {.all = COST_PROCESS_BYTES + COST_DATA_BYTES};
    struct cost_unit units[MODEL_UNITS_MAX];

    for (int i = 0; i < r->n_nodes; i++) {
        int64_t offers = partition_memory(r, i);

        out.offered += offers;
        out.largest = offers > out.largest ? offers : out.largest;
    }
    cost_of_units(&r->job, units);
    for (int u = 0; u < model_units(&r->job.spec->model); u++) {
        int64_t bytes = cost_unit_bytes(units, u);

        if (bytes > out.unit_bytes) {
            out.unit_bytes = bytes;
            out.unit = u;
        }
        out.all += units[u].state_bytes + units[u].activation_bytes;
    }
    return out;
}

/* A search would find that, too, in seconds. */
static bool is_hopeless(const struct partition_request *r)
{
    struct need need = find_need(r);

    return need.unit_bytes > need.largest || need.all > need.offered;
}

static enum err_code explain_no_cut(const struct partition_request *r, struct err *err)
{
    const struct spec *spec = r->job.spec;
    int n_units = model_units(&spec->model);
    struct need need = find_need(r);
    struct placement nearest = {.n_stages = 0};
    char where[WHERE_BYTES] = "";
    int s;

    if (r->min_stages > r->n_nodes)
        return err_set(err, ERR_NOT_FOUND,
                       "spec.placement.minStages is %d, but %d nodes are suitable", r->min_stages,
                       r->n_nodes);
    if (r->min_stages > n_units)
        return err_set(err, ERR_NOT_FOUND,
                       "spec.placement.minStages is %d, but the model has %d units", r->min_stages,
                       n_units);
    if (need.unit_bytes > need.largest) {
        char name[MODEL_NAME_BYTES];

        model_unit_name(&spec->model, need.unit, name);
        return err_set(
            err, ERR_NOT_FOUND,
            "unit %s needs %lld MiB by itself, the largest node offers %lld MiB and lacks "
            "%lld MiB: " ADVICE,
            name, (long long)mib_of(need.unit_bytes), (long long)mib_of(need.largest),
            (long long)mib_of(need.unit_bytes - need.largest));
    }
    /* Where the cut that repairs memory as far as it can ends up short. */
    if (rules_solve(r, SPEC_STRATEGY_DYNAMIC, &nearest, &s, NULL) == ERR_OK && s >= 0) {
        const struct placement_stage *stage = &nearest.stages[s];
        char range[MODEL_NAME_BYTES];

        model_range_name(&spec->model, stage->first_unit, stage->n_units, range);
        (void)snprintf(where, sizeof where, "; nearest, stage %d (%.40s) lacks %lld MiB on %.40s",
                       s, range,
                       (long long)mib_of(stage->memory_bytes - partition_memory(r, stage->node)),
                       r->nodes[stage->node].name);
    }
    return err_set(err, ERR_NOT_FOUND,
                   "no cut into %d to %d stages fits: the model needs at least %lld MiB and all %d "
                   "together offer %lld MiB%s: " ADVICE ", or raise spec.placement.maxStages",
                   r->min_stages, r->max_stages, (long long)mib_of(need.all), r->n_nodes,
                   (long long)mib_of(need.offered), where);
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
                   spec_strategy_names[fixed->strategy], misfit, units, r->nodes[stage->node].name,
                   (long long)mib_of(stage->memory_bytes - offers),
                   (long long)mib_of(stage->memory_bytes), (long long)mib_of(offers));
}

/* --- excluded nodes --- */

/* The nodes of the stages, which keep their order, with `extra` as number `at`. */
static void insert_node(const struct placement *p, int extra, int at, int *out)
{
    for (int i = 0; i <= p->n_stages; i++)
        out[i] = i == at ? extra : p->stages[i - (i > at)].node;
}

/* The shortest step with `extra` somewhere between the stages' nodes, and a unit that one of its
 * neighbours gives to it; negative when nothing fits. */
static enum err_code step_with_unit(const struct partition_request *request,
                                    const struct placement *p, int extra, double *out_ms,
                                    struct err *err)
{
    int n = p->n_stages;
    int nodes[PARTITION_CANDIDATES_MAX];
    struct cut_problem problem;
    enum err_code rc;

    *out_ms = -1;
    insert_node(p, extra, n, nodes);
    rc = cut_problem_init(request, nodes, n + 1, &problem, err);
    if (rc != ERR_OK)
        return rc;
    for (int at = 0; at <= n; at++) {
        struct cut cut = {.n_stages = n + 1};

        for (int i = 0; i <= n; i++) {
            int end = i + (i < at); /* the stage behind this one, before a unit is given away */

            cut.node[i] = i == at ? n : i - (i > at);
            cut.first[i + 1] = end < n ? p->stages[end].first_unit : problem.n_units;
        }
        for (int giver = at - 1; giver <= at; giver++) {
            struct cut with = cut;

            if (giver < 0 || giver == n || p->stages[giver].n_units < 2)
                continue;
            with.first[giver < at ? at : at + 1] += giver < at ? -1 : 1;
            cut_measure(&problem, &with);
            if (cut_misfit(&problem, &with) < 0 &&
                (*out_ms < 0 || cut_step_ms(&problem, &with) < *out_ms))
                *out_ms = cut_step_ms(&problem, &with);
        }
    }
    cut_problem_deinit(&problem);
    return ERR_OK;
}

/* The same with any cut. */
static enum err_code step_with(const struct partition_request *request, const struct placement *p,
                               int extra, double *out_ms, struct err *err)
{
    int n = p->n_stages;
    enum err_code rc = ERR_OK;

    *out_ms = -1;
    for (int at = 0; at <= n && rc == ERR_OK; at++) {
        int nodes[PARTITION_CANDIDATES_MAX];
        struct cut_problem problem;
        struct search search;

        insert_node(p, extra, at, nodes);
        rc = cut_problem_init(request, nodes, n + 1, &problem, err);
        if (rc != ERR_OK)
            return rc;
        problem.min_stages = n + 1; /* none may be skipped */
        rc = search_init(&problem, SEARCH_ORDER, &search, err);
        if (rc == ERR_OK) {
            search.found = *out_ms >= 0;
            search.best_ms = *out_ms;
            search_run(&search);
            *out_ms = search.found ? search.best_ms : -1;
            search_deinit(&search);
        }
        cut_problem_deinit(&problem);
    }
    return rc;
}

static enum err_code reason_for(const struct partition_request *request, const struct placement *p,
                                int node, char out[static PLAN_EXCLUDED_BYTES], struct err *err)
{
    const struct node *n = &request->nodes[node];
    int n_units = model_units(&request->job.spec->model);
    int64_t offers = partition_memory(request, node);
    struct cost_unit units[MODEL_UNITS_MAX];
    int64_t least;
    bool is_small = RECUT_WORK >= pow(p->n_stages + 1, 2) * pow(n_units, 2);
    enum err_code rc = ERR_OK;
    double with_ms;

    cost_of_units(&request->job, units);
    least = cost_least_bytes(units, n_units);
    if (offers < least)
        (void)snprintf(out, PLAN_EXCLUDED_BYTES,
                       "offers %lld MiB, the smallest stage needs %lld MiB",
                       (long long)mib_of(offers), (long long)mib_of(least));
    else if (p->strategy == SPEC_STRATEGY_MANUAL)
        (void)snprintf(out, PLAN_EXCLUDED_BYTES, "spec.placement.manual does not use it");
    else if (p->strategy != SPEC_STRATEGY_OPTIMAL || p->n_stages >= n_units)
        (void)snprintf(out, PLAN_EXCLUDED_BYTES, "the plan has only %d stages", p->n_stages);
    else if (p->n_stages >= request->max_stages || p->n_stages + 1 > PARTITION_CANDIDATES_MAX)
        (void)snprintf(out, PLAN_EXCLUDED_BYTES,
                       "spec.placement.maxStages is %d, and the chosen nodes make a shorter step",
                       request->max_stages);
    else {
        rc = is_small ? step_with(request, p, node, &with_ms, err)
                      : step_with_unit(request, p, node, &with_ms, err);
        if (rc != ERR_OK)
            return rc;
        if (with_ms < 0)
            (void)snprintf(out, PLAN_EXCLUDED_BYTES, "no stage fits on it beside the chosen nodes");
        else if (with_ms < p->predicted_step_ms)
            (void)snprintf(out, PLAN_EXCLUDED_BYTES,
                           "at %.3g GFLOP/s a step would take %.1f ms with it, %.1f ms without: "
                           "too small a gain for another node",
                           n->gflops, with_ms, p->predicted_step_ms);
        else
            (void)snprintf(out, PLAN_EXCLUDED_BYTES,
                           "at %.3g GFLOP/s a step would take %.0f ms with %s, %.0f ms without",
                           n->gflops, with_ms, is_small ? "it" : "one unit on it",
                           p->predicted_step_ms);
    }
    return rc;
}

/* --- the placement --- */

static bool has_enough(const struct partition_request *r, const struct placement *p)
{
    return p->strategy == SPEC_STRATEGY_MANUAL || p->n_stages >= r->min_stages;
}

enum err_code partition_cut(const struct partition_request *request, struct placement *out,
                            struct err *err)
{
    struct placement p = {.strategy = request->job.spec->placement.strategy,
                          .micro_batches = request->job.micro_batches,
                          .saves_from_copy = request->job.saves_from_copy};
    struct placement optimal = p;
    struct partition_request open = *request; /* Manual is compared with all that could be */
    int misfit = -1;
    enum err_code rc = ERR_OK;

    if (p.strategy == SPEC_STRATEGY_MANUAL) {
        open.min_stages = 1;
        open.max_stages = SPEC_STAGES_MAX;
    }
    if (p.strategy != SPEC_STRATEGY_OPTIMAL)
        rc = rules_solve(request, p.strategy, &p, &misfit, err);
    if (rc == ERR_OK && misfit >= 0)
        return explain_misfit(request, &p, misfit, err);
    if (rc == ERR_OK && p.strategy != SPEC_STRATEGY_OPTIMAL && !has_enough(request, &p))
        return explain_no_cut(request, err);
    if (rc == ERR_OK && p.strategy == SPEC_STRATEGY_OPTIMAL && is_hopeless(request))
        return explain_no_cut(request, err);
    if (rc == ERR_OK)
        rc = optimal_solve(&open, &optimal, err);
    if (rc != ERR_OK)
        return rc;
    if (optimal.n_stages == 0)
        return explain_no_cut(request, err);
    *out = p.strategy == SPEC_STRATEGY_OPTIMAL ? optimal : p;
    out->bound_ms = optimal.bound_ms;
    return ERR_OK;
}

/* Add what the stages are compared with: the steps of Even and Dynamic, negative where these do not
 * fit, and the excluded nodes. For a node that would fit, the reason contains the step time with it
 * in its best place between the chosen ones. */
static enum err_code compare(const struct partition_request *request, struct placement *p,
                             struct err *err)
{
    struct placement even = {.strategy = SPEC_STRATEGY_EVEN};
    struct placement dynamic = {.strategy = SPEC_STRATEGY_DYNAMIC};
    int misfits[2];
    enum err_code rc = rules_solve(request, even.strategy, &even, &misfits[0], err);

    if (rc == ERR_OK)
        rc = rules_solve(request, dynamic.strategy, &dynamic, &misfits[1], err);
    if (rc != ERR_OK)
        return rc;
    p->even_step_ms = misfits[0] < 0 && has_enough(request, &even) ? even.predicted_step_ms : -1;
    p->dynamic_step_ms =
        misfits[1] < 0 && has_enough(request, &dynamic) ? dynamic.predicted_step_ms : -1;
    for (int i = 0; i < request->n_nodes && rc == ERR_OK; i++) {
        struct plan_excluded *excluded;
        bool has_stage = false;

        for (int s = 0; s < p->n_stages; s++)
            has_stage = has_stage || p->stages[s].node == i;
        if (has_stage || p->n_excluded++ >= PARTITION_EXCLUDED_MAX)
            continue;
        excluded = &p->excluded[p->n_excluded - 1];
        (void)snprintf(excluded->node, sizeof excluded->node, "%s", request->nodes[i].name);
        rc = reason_for(request, p, i, excluded->reason, err);
    }
    return rc;
}

enum err_code partition_solve(const struct partition_request *request, struct placement *out,
                              struct err *err)
{
    struct placement p;
    enum err_code rc = check_request(request, err);

    if (rc == ERR_OK)
        rc = partition_cut(request, &p, err);
    if (rc == ERR_OK)
        rc = compare(request, &p, err);
    if (rc == ERR_OK)
        *out = p;
    return rc;
}

/* --- the number of micro-batches --- */

/* How many times larger or smaller. */
static double distance(int m, double typical)
{
    return fabs(log(m / typical));
}

struct partition_tries partition_tries(const struct partition_request *r, int n_max)
{
    int batch = r->job.spec->training.batch_size;
    int n_units = model_units(&r->job.spec->model);
    int n_nodes = r->n_nodes < r->max_stages ? r->n_nodes : r->max_stages;
    double typical = PER_STAGE * (n_nodes < n_units ? n_nodes : n_units);
    struct partition_tries t = {.n = 0};

    for (int m = 1; m <= batch && m <= PARTITION_MICRO_MAX; m++) {
        if (batch % m != 0)
            continue;
        if (t.n == n_max) { /* the smallest goes if it is the farthest, else the one before this */
            bool drops_first = distance(t.micro_batches[0], typical) >= distance(m, typical);

            t.n--;
            if (drops_first)
                memmove(t.micro_batches, t.micro_batches + 1,
                        (size_t)t.n * sizeof t.micro_batches[0]);
        }
        t.micro_batches[t.n++] = m;
    }
    return t;
}

/* Take a plan of at most request->max_stages stages whose step is at most `limit_ms`: with the
 * number of micro-batches that is usual for `n_stages`, else with the fewest. ERR_NOT_FOUND when
 * there is none. */
static enum err_code take_first(const struct partition_request *request,
                                const struct partition_tries *t, int n_stages, double limit_ms,
                                struct placement *out, struct err *err)
{
    struct partition_request with = *request;
    double typical = n_stages > 1 ? PER_STAGE * n_stages : 1;
    enum err_code rc = ERR_NOT_FOUND;
    int usual = 0;

    for (int i = 1; i < t->n; i++)
        if (distance(t->micro_batches[i], typical) < distance(t->micro_batches[usual], typical))
            usual = i;
    for (int k = 0; k < t->n && rc == ERR_NOT_FOUND; k++) {
        int i = k == 0 ? usual : k - (k <= usual); /* all others in rising order */

        with.job.micro_batches = t->micro_batches[i];
        rc = partition_cut(&with, out, err);
        if (rc == ERR_OK && out->predicted_step_ms > limit_ms * LONGER)
            rc = ERR_NOT_FOUND;
    }
    return rc;
}

/* Let the request name a link per pair of link classes instead of one per pair of nodes: it is
 * solved several times, and looking at all pairs would take most of the time with 1,000 nodes. The
 * caller frees *out_class and *out_links, which are NULL where that would be no shorter. */
static enum err_code classify_links(struct partition_request *r, int **out_class,
                                    struct cost_link **out_links, struct err *err)
{
    size_t n = (size_t)r->n_nodes;
    int n_classes = 0;
    int *nodes;

    if (!r->links || r->n_nodes <= PARTITION_FEW_NODES)
        return ERR_OK;
    nodes = calloc(n, sizeof *nodes);
    *out_class = calloc(n, sizeof **out_class);
    for (int i = 0; nodes && i < r->n_nodes; i++)
        nodes[i] = i;
    if (nodes && *out_class)
        n_classes = link_classes(r, nodes, r->n_nodes, *out_class);
    free(nodes);
    if (n_classes == r->n_nodes)
        return ERR_OK;
    *out_links = calloc((size_t)n_classes * (size_t)n_classes, sizeof **out_links);
    if (n_classes == 0 || !*out_links)
        return err_set(err, ERR_NO_MEMORY, "planning on %d nodes", r->n_nodes);
    for (int i = 0; i < r->n_nodes; i++)
        for (int k = 0; k < i; k++) {
            int a = (*out_class)[i];
            int b = (*out_class)[k];

            (*out_links)[a * n_classes + b] = (*out_links)[b * n_classes + a] =
                *partition_link(r, i, k);
        }
    r->links = *out_links;
    r->link_class = *out_class;
    r->n_link_classes = n_classes;
    return ERR_OK;
}

static enum err_code choose(const struct partition_request *request, struct placement *out,
                            struct err *err)
{
    bool has_many = request->n_nodes > PARTITION_FEW_NODES;
    int least = request->min_stages > 1 ? request->min_stages : 1;
    struct partition_request with = *request;
    struct partition_tries tries = {.n = 1, .micro_batches = {request->job.micro_batches}};
    struct cost_link *links = NULL;
    int *class = NULL;
    struct placement best;
    struct placement p;
    double least_ms = INFINITY; /* of the fastest plan ... */
    int n_stages = 0;           /* ... which has this many */
    double bound_ms = INFINITY; /* that no plan is below */
    enum err_code rc = check_request(request, err);

    if (rc == ERR_OK)
        rc = classify_links(&with, &class, &links, err);
    if (request->job.micro_batches == 0)
        tries = partition_tries(request, has_many ? PARTITION_FEW_TRIES : PARTITION_TRIES);
    for (int i = 0; i < tries.n && (rc == ERR_OK || rc == ERR_NOT_FOUND); i++) {
        with.job.micro_batches = tries.micro_batches[i];
        rc = partition_cut(&with, &p, err);
        if (rc != ERR_OK)
            continue;
        bound_ms = fmin(bound_ms, p.bound_ms);
        if (p.predicted_step_ms >= least_ms)
            continue;
        least_ms = p.predicted_step_ms;
        n_stages = p.n_stages;
    }
    /* If there is no plan the reason is that of the last try, which needs the least memory. */
    if (rc == ERR_OK || (rc == ERR_NOT_FOUND && n_stages > 0))
        rc = take_first(&with, &tries, n_stages, least_ms * (1 + PARTITION_MICRO_GAIN), &best, err);
    if (rc != ERR_OK)
        goto out;
    /* Drop nodes that gain too little. The least time with k nodes only falls as k grows, so the
     * first number of nodes that is too slow ends the search. */
    if (has_many) { /* one solve takes long enough */
        tries.n = 1;
        tries.micro_batches[0] = best.micro_batches;
    }
    while (best.strategy == SPEC_STRATEGY_OPTIMAL && best.n_stages > least && rc == ERR_OK) {
        with.max_stages = best.n_stages - 1;
        rc = take_first(&with, &tries, with.max_stages, least_ms * (1 + PARTITION_NODE_GAIN), &p,
                        err);
        if (rc == ERR_OK)
            best = p;
    }
    best.bound_ms = fmin(bound_ms, best.predicted_step_ms);
    with.max_stages = request->max_stages;
    with.job.micro_batches = best.micro_batches;
    if (rc == ERR_OK || rc == ERR_NOT_FOUND)
        rc = compare(&with, &best, err);
    if (rc == ERR_OK)
        *out = best;
out:
    free(class);
    free(links);
    return rc;
}

/* --- the copy that checkpoints are written from --- */

/* Is there a node that cannot hold the whole model? Else memory decides nothing. */
static bool memory_matters(const struct partition_request *r)
{
    int n_units = model_units(&r->job.spec->model);
    struct cost_unit units[MODEL_UNITS_MAX];
    struct cost_job job = r->job;
    int64_t most;

    if (job.micro_batches == 0)
        job.micro_batches = 1; /* for which scratch and messages are largest */
    cost_of_units(&job, units);
    most = cost_most_bytes(units, n_units, job.micro_batches);
    for (int i = 0; i < r->n_nodes; i++)
        if (partition_memory(r, i) < most)
            return true;
    return false;
}

static enum err_code choose_saving(const struct partition_request *request, struct placement *out,
                                   struct err *err)
{
    const struct spec *spec = request->job.spec;
    struct partition_request without = *request;
    struct placement held;
    bool is_alone;
    enum err_code rc = choose(request, out, err);

    without.job.saves_from_copy = false;
    if (!request->job.saves_from_copy || spec->checkpoint.mode != SPEC_SAVING_AUTO)
        return rc;
    if (rc == ERR_NOT_FOUND) /* if both fail, the reason is that of the plan that needs less */
        return choose(&without, out, err);
    is_alone = rc == ERR_OK && spec->checkpoint.is_peers && out->n_stages == 1;
    if (rc != ERR_OK || !(is_alone || memory_matters(request)))
        return rc;
    rc = choose(&without, &held, err);
    if (rc != ERR_OK)
        return rc;
    if (is_alone ? held.n_stages == 1
                 : out->predicted_step_ms > held.predicted_step_ms * (1 + PARTITION_NODE_GAIN))
        *out = held;
    return ERR_OK;
}

enum err_code partition_choose(const struct partition_request *request, struct placement *out,
                               struct err *err)
{
    int headroom = request->job.spec->placement.headroom_percent;
    struct partition_request without = *request;
    struct placement roomy;
    enum err_code rc = choose_saving(request, out, err);

    if (headroom == 0 || rc == ERR_NO_MEMORY || rc == ERR_INVALID)
        return rc;
    if (rc != ERR_OK && err)
        text_add(err->text, sizeof err->text, " (spec.placement.headroomPercent is %d)", headroom);
    if (rc != ERR_OK)
        return rc;
    without.memory_percent = request->memory_percent * 100 / (100 + headroom);
    without.job.saves_from_copy = out->saves_from_copy;
    rc = choose(&without, &roomy, err);
    if (rc == ERR_OK)
        out->roomy_step_ms = roomy.predicted_step_ms;
    return rc;
}
