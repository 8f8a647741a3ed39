#include "balance/rebalance.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "balance/reshare.h"
#include "balance/search.h"
#include "base/buf.h"

/* What a decision is made of. */
struct look {
    const struct rebalance_input *in;
    int n; /* stages, and workers: the first of the nodes */
    struct node nodes[SPEC_STAGES_MAX];
    struct partition_request request; /* with these nodes */
    struct cut_problem problem;       /* with all of them, in that order */
    struct cut now, best;
    struct spec spec;        /* of several replicas, with the protocol that is in force */
    struct replicas *shared; /* [2] the present shares and cuts, and the best ones; NULL: there is
                              * one replica */
    double now_ms, best_ms;  /* predicted steps; the latter with doubt */
    double move_ms;          /* that moving takes */
    int64_t move_bytes;
    int far_stage;               /* that is off the plan most; -1: none is */
    bool is_other;               /* `best` has a node that joins */
    bool grows[SPEC_STAGES_MAX]; /* by stage of `best`: it does not fit into its worker's pod */
    int n_growing;
};

static bool has_times(const struct progress *measured)
{
    for (int i = 0; i < measured->n_stage_ms; i++)
        if (!(measured->stage_ms[i] > 0))
            return false;
    return true;
}

bool rebalance_is_due(const struct plan *plan, const struct progress *measured, bool is_asked,
                      const struct status_rebalance *last)
{
    int64_t seen = last->revision == plan->revision ? last->samples : 0;
    int64_t least =
        seen + REBALANCE_EVERY > REBALANCE_SAMPLES ? seen + REBALANCE_EVERY : REBALANCE_SAMPLES;

    return measured->revision == plan->revision && measured->state == PROGRESS_TRAINING &&
           measured->n_stage_ms == plan->n_workers && measured->window.step_ms > 0 &&
           measured->window.n_samples >= (is_asked ? REBALANCE_ASKED_SAMPLES : least) &&
           has_times(measured);
}

/* --- what is measured --- */

/* All that the node's CPU does takes `times` as long. */
static void slow_down(struct node *node, double times)
{
    node->gflops /= times;
    node->unit_ms *= times;
    node->message.ms *= times;
    node->message.byte_ns *= times;
}

static double slowest_ms(const struct look *l)
{
    double ms = 0;

    for (int i = 0; i < l->n; i++)
        ms = fmax(ms, l->in->measured->stage_ms[i]);
    return ms;
}

/* Most of what a stage with little to do takes is not its units' time: it shows that its node is
 * not slower than that, and no more. */
static bool has_little(const struct look *l, int i)
{
    return l->in->measured->stage_ms[i] < REBALANCE_LITTLE * slowest_ms(l);
}

/* The workers' nodes as fast as they are now. One whose stage has little to do is as fast as it was
 * when its units were planned, or faster. By what all of them are slower than their nodes were
 * measured, or faster, so are those that join: measurements do not show all that training takes. */
static void scale_nodes(struct look *l)
{
    const struct plan *plan = l->in->plan;
    struct cost_job job = l->in->request.job;
    struct cost_unit units[MODEL_UNITS_MAX];
    double least = INFINITY, most = 0;

    if (l->shared)
        job = cost_job_in_replica(&job);
    cost_of_units(&job, units);
    for (int i = 0; i < l->n; i++) {
        const struct plan_worker *w = &plan->workers[i];
        double now_ms = l->in->measured->stage_ms[i];
        double ms = 0;

        l->nodes[i] = l->in->request.nodes[i];
        for (int u = w->first_unit; u < w->first_unit + w->n_units; u++)
            ms += cost_unit_ms(&units[u], &l->nodes[i]);
        if (has_little(l, i) && w->predicted_ms > 0)
            now_ms = fmin(now_ms, w->predicted_ms);
        slow_down(&l->nodes[i], now_ms / ms);
        least = fmin(least, now_ms / ms);
        most = fmax(most, now_ms / ms);
    }
    for (int i = l->n; i < l->in->request.n_nodes; i++) {
        l->nodes[i] = l->in->request.nodes[i];
        slow_down(&l->nodes[i], least > 1 ? least : most < 1 ? most : 1);
    }
}

/* The stage that is off the plan most, and by more than noise: as a share of its time, that of the
 * slowest stage counts for all. */
static int find_far(const struct look *l)
{
    const struct progress *m = l->in->measured;
    double most = 0;
    int far = -1;

    for (int i = 0; i < l->n; i++) {
        double planned_ms = l->in->plan->workers[i].predicted_ms;
        double off_ms = fabs(m->stage_ms[i] - planned_ms);
        double noise_ms = fmax(m->stage_ms[i], planned_ms) * m->window.mad_ms / slowest_ms(l);

        if (planned_ms <= 0 || (has_little(l, i) && m->stage_ms[i] > planned_ms) ||
            off_ms <= REBALANCE_FAR * planned_ms || off_ms <= REBALANCE_MADS * noise_ms ||
            off_ms / planned_ms <= most)
            continue;
        most = off_ms / planned_ms;
        far = i;
    }
    return far;
}

/* --- cuts --- */

static void take_plan(const struct plan *plan, struct cut *out)
{
    *out = (struct cut){.n_stages = plan->n_workers};
    for (int i = 0; i < plan->n_workers; i++) {
        out->node[i] = i;
        out->first[i] = plan->workers[i].first_unit;
        out->first[i + 1] = out->first[i] + plan->workers[i].n_units;
    }
}

static bool is_same(const struct cut *a, const struct cut *b)
{
    return a->n_stages == b->n_stages &&
           memcmp(a->node, b->node, (size_t)a->n_stages * sizeof a->node[0]) == 0 &&
           memcmp(a->first, b->first, (size_t)(a->n_stages + 1) * sizeof a->first[0]) == 0;
}

static bool has_same_cuts(const struct replicas *a, const struct replicas *b)
{
    for (int k = 0; k < a->n; k++)
        for (int s = 0; s < a->pipelines[k].n_stages; s++)
            if (a->pipelines[k].stages[s].n_units != b->pipelines[k].stages[s].n_units)
                return false;
    return true;
}

/* Is the best what there is? */
static bool is_kept(const struct look *l)
{
    if (!l->shared)
        return is_same(&l->best, &l->now);
    return memcmp(l->shared[0].shares, l->shared[1].shares, sizeof l->shared[0].shares) == 0 &&
           has_same_cuts(&l->shared[0], &l->shared[1]);
}

/* Does the stage fit into its pod, also while units move? */
static bool stage_fits(const struct look *l, const struct cut *c, int s)
{
    int from = c->node[s];
    bool is_there = from < l->n;

    return cut_moving_bytes(&l->problem, c, s, is_there ? l->now.first[from] : 0,
                            is_there ? l->now.first[from + 1] : 0) <= l->problem.nodes[from].memory;
}

static bool fits(const struct look *l, const struct cut *c)
{
    for (int s = 0; s < c->n_stages; s++)
        if (!stage_fits(l, c, s))
            return false;
    return true;
}

/* Between the present cut and the best one, the nearest to the latter that fits. */
static void approach(struct look *l)
{
    for (int part = 4; part >= 1; part--) {
        struct cut c = l->best;

        for (int s = 1; s < l->n; s++)
            c.first[s] = l->now.first[s] + (l->best.first[s] - l->now.first[s]) * part / 4;
        if (!fits(l, &c))
            continue;
        cut_measure(&l->problem, &c);
        l->best = c;
        return;
    }
    l->best = l->now;
}

static int node_of(const struct cut *c, int unit)
{
    int s = 0;

    while (unit >= c->first[s + 1])
        s++;
    return c->node[s];
}

/* What moves between workers, all at the same time. */
struct move {
    double busy_ms[SPEC_STAGES_MAX];
    int64_t bytes;
};

static void add_bytes(const struct look *l, int unit, int per_float, int from, int to,
                      struct move *m)
{
    int64_t bytes = (int64_t)model_unit_params(&l->request.job.spec->model, unit) * per_float;
    double ms;

    if (from == to)
        return;
    ms = (double)bytes / partition_link(&l->request, from, to)->bytes_per_s * 1000;
    m->bytes += bytes;
    m->busy_ms[from] += ms;
    m->busy_ms[to] += ms;
}

static void set_move(struct look *l, const struct move *m)
{
    double most_ms = 0;

    for (int i = 0; i < l->request.n_nodes; i++)
        most_ms = fmax(most_ms, m->busy_ms[i]);
    l->move_bytes = m->bytes;
    l->move_ms = most_ms + REBALANCE_MOVE_STEPS * l->in->measured->window.step_ms +
                 (l->n_growing > 0 ? REBALANCE_GROW_MS : 0);
}

/* Of parameters and moments, bytes for each float. */
static int state_bytes(const struct look *l)
{
    int n_moments = l->request.job.spec->training.optimizer == SPEC_OPTIMIZER_SGD ? 1 : 2;

    return (1 + n_moments) * COST_FLOAT_BYTES;
}

static void measure_move(struct look *l)
{
    struct move m = {.bytes = 0};

    for (int u = 0; u < l->problem.n_units; u++)
        add_bytes(l, u, state_bytes(l), node_of(&l->now, u), node_of(&l->best, u), &m);
    set_move(l, &m);
}

/* The nodes that a cut is for, as they stand, and how many stages it may have. */
struct order {
    int n;
    int nodes[SPEC_STAGES_MAX];
    int least, most;
};

/* The shortest step on these nodes, which are those of the request, if it is below `below_ms`, or
 * that is 0; else out->n_stages is 0. */
static enum err_code solve_on(const struct look *l, const struct node *nodes, const struct order *o,
                              double below_ms, struct cut *out, struct err *err)
{
    struct partition_request request = l->request;
    struct cut_problem problem = {.n_units = 0};
    struct search search;
    enum err_code rc;

    request.nodes = nodes;
    request.min_stages = o->least;
    request.max_stages = o->most;
    rc = cut_problem_init(&request, o->nodes, o->n, &problem, err);
    if (rc == ERR_OK)
        rc = search_init(&problem, SEARCH_ORDER, &search, err);
    if (rc == ERR_OK) {
        search.found = below_ms > 0;
        search.best_ms = search.found ? below_ms : search.best_ms;
        search_run(&search);
        *out = search.best;
        for (int s = 0; s < out->n_stages; s++)
            out->node[s] = o->nodes[out->node[s]];
        if (out->n_stages > 0)
            cut_measure(&l->problem, out);
        search_deinit(&search);
    }
    cut_problem_deinit(&problem);
    return rc;
}

static enum err_code solve(const struct look *l, const struct order *o, double below_ms,
                           struct cut *out, struct err *err)
{
    return solve_on(l, l->nodes, o, below_ms, out, err);
}

static bool has_node(const struct cut *c, int node)
{
    for (int s = 0; s < c->n_stages; s++)
        if (c->node[s] == node)
            return true;
    return false;
}

/* The shortest step below `below_ms` with `n_more` of the nodes that can join. They stand together
 * behind any of the workers, of which any but the first may be left out: only that one can read the
 * data. The last of the nodes must be used. out->n_stages is 0 if there is none. */
static enum err_code insert(const struct look *l, int n_more, double below_ms, struct cut *out,
                            struct err *err)
{
    const struct partition_request *asked = &l->in->request;
    struct order o = {.least = asked->min_stages < l->n ? asked->min_stages : l->n,
                      .most = asked->max_stages > l->n ? asked->max_stages : l->n};
    enum err_code rc = ERR_OK;

    out->n_stages = 0;
    for (int at = l->n; at >= 1 && rc == ERR_OK; at -= 1 + l->n / REBALANCE_JOIN_PLACES) {
        struct cut c = {.n_stages = 0};

        o.n = 0;
        for (int i = 0; i < at; i++)
            o.nodes[o.n++] = i;
        for (int i = 0; i < n_more; i++)
            o.nodes[o.n++] = l->n + i;
        for (int i = at; i < l->n; i++)
            o.nodes[o.n++] = i;
        rc = solve(l, &o, below_ms, &c, err);
        if (rc != ERR_OK || c.n_stages == 0 || c.node[0] != 0 || !has_node(&c, l->n + n_more - 1) ||
            !fits(l, &c))
            continue;
        *out = c;
        below_ms = cut_step_ms(&l->problem, &c);
    }
    return rc;
}

/* A node more must be worth its pod, and the doubt in what is not measured yet. */
static enum err_code try_joining(struct look *l, struct err *err)
{
    double gain = l->in->is_asked ? REBALANCE_ASKED_GAIN : REBALANCE_GAIN;

    for (int n_more = 1; n_more <= l->request.n_nodes - l->n; n_more++) {
        double below_ms = (1 - gain) * cut_step_ms(&l->problem, &l->best);
        struct cut c;
        enum err_code rc = insert(l, n_more, below_ms, &c, err);

        if (rc != ERR_OK)
            return rc;
        if (c.n_stages == 0)
            break;
        l->best = c;
        l->is_other = true;
    }
    return ERR_OK;
}

/* Pods with more memory must be worth their new start. */
static enum err_code try_growing(struct look *l, const struct order *workers, struct err *err)
{
    double gain = l->in->is_asked ? REBALANCE_ASKED_GAIN : REBALANCE_GAIN;
    double below_ms = (1 - gain) * cut_step_ms(&l->problem, &l->best);
    struct node nodes[SPEC_STAGES_MAX];
    struct cut c = {.n_stages = 0};
    enum err_code rc;

    if (!l->in->room_bytes)
        return ERR_OK;
    memcpy(nodes, l->nodes, sizeof nodes);
    for (int i = 0; i < l->n; i++)
        nodes[i].memory_bytes = l->in->room_bytes[i] > nodes[i].memory_bytes
                                    ? l->in->room_bytes[i]
                                    : nodes[i].memory_bytes;
    rc = solve_on(l, nodes, workers, below_ms, &c, err);
    if (rc != ERR_OK || c.n_stages != l->n)
        return rc;
    l->best = c;
    l->is_other = false;
    for (int s = 0; s < c.n_stages; s++) {
        l->grows[s] = !stage_fits(l, &c, s);
        l->n_growing += l->grows[s];
    }
    return ERR_OK;
}

/* Times that a step takes longer than predicted, if anything moves. */
static double doubt_of(const struct look *l)
{
    int percent = l->in->last->doubt_percent;

    return is_kept(l) || percent < 100 ? 1 : percent / 100.0;
}

static enum err_code find_best_cut(struct look *l, struct err *err)
{
    struct order workers = {.n = l->n, .least = l->n, .most = l->n};
    struct cut c = {.n_stages = 0};
    enum err_code rc;

    for (int i = 0; i < l->request.n_nodes; i++)
        workers.nodes[i] = i;
    rc = cut_problem_init(&l->request, workers.nodes, l->request.n_nodes, &l->problem, err);
    if (rc != ERR_OK)
        return rc;
    take_plan(l->in->plan, &l->now);
    cut_measure(&l->problem, &l->now);
    l->best = l->now;
    rc = solve(l, &workers, 0, &c, err);
    if (rc == ERR_OK && c.n_stages == l->n) {
        l->best = c;
        approach(l);
    }
    if (rc == ERR_OK)
        rc = try_joining(l, err);
    if (rc == ERR_OK)
        rc = try_growing(l, &workers, err);
    if (rc != ERR_OK)
        return rc;
    l->now_ms = cut_step_ms(&l->problem, &l->now);
    l->best_ms = cut_step_ms(&l->problem, &l->best);
    l->best_ms *= doubt_of(l);
    if (l->best_ms >= l->now_ms) {
        l->best = l->now;
        l->best_ms = l->now_ms;
        l->is_other = false;
        l->n_growing = 0;
    }
    measure_move(l);
    return ERR_OK;
}

/* --- replicas --- */

/* The plan with these shares and cuts. */
static void plan_of(const struct look *l, const struct replicas *r, struct plan *out)
{
    *out = *l->in->plan;
    memcpy(out->shares, r->shares, sizeof out->shares);
    out->homes_follow_shares = r->step.homes_follow_shares;
    for (int k = 0; k < r->n; k++)
        for (int s = 0; s < r->pipelines[k].n_stages; s++) {
            const struct placement_stage *stage = &r->pipelines[k].stages[s];

            out->workers[stage->node].first_unit = stage->first_unit;
            out->workers[stage->node].n_units = stage->n_units;
        }
}

static void find_homes(const struct plan *plan, int out[static MODEL_UNITS_MAX])
{
    struct plan_home homes[SPEC_STAGES_MAX];
    int n = plan_homes(plan, homes);

    for (int i = 0; i < n; i++)
        for (int u = homes[i].first_unit; u < homes[i].first_unit + homes[i].n_units; u++)
            out[u] = homes[i].worker;
}

static bool runs(const struct plan_worker *w, int unit)
{
    return unit >= w->first_unit && unit < w->first_unit + w->n_units;
}

/* A unit goes from home to home; workers that begin to run it get its weights from there. */
static void measure_shared_move(struct look *l)
{
    struct move m = {.bytes = 0};
    struct plan next;
    int from[MODEL_UNITS_MAX], to[MODEL_UNITS_MAX];

    plan_of(l, &l->shared[1], &next);
    find_homes(l->in->plan, from);
    find_homes(&next, to);
    for (int u = 0; u < model_units(&next.spec.model); u++) {
        add_bytes(l, u, state_bytes(l), from[u], to[u], &m);
        for (int i = 0; i < l->n; i++)
            if (i != to[u] && runs(&next.workers[i], u) && !runs(&l->in->plan->workers[i], u))
                add_bytes(l, u, COST_FLOAT_BYTES, to[u], i, &m);
    }
    set_move(l, &m);
}

/* Take what was found if its step is shorter by this share. */
static enum err_code take_shared(struct look *l, bool recuts, double gain, struct err *err)
{
    struct replicas *best = &l->shared[1];
    struct replicas *found = calloc(1, sizeof *found);
    double below_ms = (1 - gain) * replicas_step_ms(&l->spec, &best->step);
    enum err_code rc;

    if (!found)
        return err_set(err, ERR_NO_MEMORY, "sharing the batch among replicas");
    rc = reshare_find(&l->request, l->in->plan, recuts, found, err);
    if (rc == ERR_OK && replicas_step_ms(&l->spec, &found->step) < below_ms)
        *best = *found;
    free(found);
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

/* Other cuts must be worth what moves, beyond other shares. */
static enum err_code find_best_shares(struct look *l, struct err *err)
{
    struct replicas *now = &l->shared[0], *best = &l->shared[1];
    double gain = l->in->is_asked ? REBALANCE_ASKED_GAIN : REBALANCE_GAIN;
    enum err_code rc =
        reshare_measure(&l->request, l->in->plan, l->in->plan->shares, NULL, now, err);

    if (rc != ERR_OK)
        return rc;
    *best = *now;
    rc = take_shared(l, false, 0, err);
    if (rc == ERR_OK)
        rc = take_shared(l, true, gain, err);
    if (rc != ERR_OK)
        return rc;
    l->now_ms = replicas_step_ms(&l->spec, &now->step);
    l->best_ms = replicas_step_ms(&l->spec, &best->step) * doubt_of(l);
    if (l->best_ms >= l->now_ms) {
        *best = *now;
        l->best_ms = l->now_ms;
    }
    measure_shared_move(l);
    return ERR_OK;
}

/* --- the decision --- */

static void list_shared(const struct look *l, const struct replicas *r, int *out_n,
                        struct status_share *out)
{
    *out_n = l->n;
    for (int k = 0; k < r->n; k++)
        for (int s = 0; s < r->pipelines[k].n_stages; s++) {
            const struct placement_stage *stage = &r->pipelines[k].stages[s];

            out[stage->node] = (struct status_share){.slot = l->in->plan->workers[stage->node].slot,
                                                     .n_units = stage->n_units,
                                                     .micro_batches = r->shares[k],
                                                     .predicted_ms = stage->predicted_ms};
        }
}

static void list_shares(const struct look *l, const struct cut *c, int *out_n,
                        struct status_share *out)
{
    *out_n = c->n_stages;
    for (int s = 0; s < c->n_stages; s++) {
        int i = c->node[s];

        out[s] = (struct status_share){
            .slot = i < l->n ? l->in->plan->workers[i].slot : REBALANCE_SLOT_JOINS + i - l->n,
            .n_units = c->first[s + 1] - c->first[s],
            .predicted_ms = cut_run_ms(&l->problem, i, c->first[s], c->first[s + 1]),
            .grows = c == &l->best && l->n_growing > 0 && l->grows[s]};
    }
}

/* What there is, or the best. */
static void list_workers(const struct look *l, bool is_best, int *out_n, struct status_share *out)
{
    if (l->shared)
        list_shared(l, &l->shared[is_best], out_n, out);
    else
        list_shares(l, is_best ? &l->best : &l->now, out_n, out);
}

static void add_units(const struct cut *c, char *text, size_t bytes)
{
    for (int i = 0; i < c->n_stages; i++)
        text_add(text, bytes, "%s%d", i > 0 ? "+" : "", c->first[i + 1] - c->first[i]);
}

static double percent_of(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

/* "Stage 1 on node b takes 30.1 ms per micro-batch instead of the planned 10.0 ms. " */
static void add_far(const struct look *l, char *text, size_t bytes)
{
    const struct plan_worker *w;

    if (l->far_stage < 0)
        return;
    w = &l->in->plan->workers[l->far_stage];
    text_add(text, bytes,
             "Stage %d on node %.100s takes %.1f ms per micro-batch instead of the planned %.1f "
             "ms. ",
             l->far_stage, w->node, l->in->measured->stage_ms[l->far_stage], w->predicted_ms);
}

/* "Node d can join, and the worker on node b leaves. " */
static void add_joining(const struct look *l, char *text, size_t bytes)
{
    const char *gap = "";

    if (!l->is_other)
        return;
    for (int i = l->n; i < l->request.n_nodes; i++) {
        if (!has_node(&l->best, i))
            continue;
        text_add(text, bytes, "%s %.100s", *gap ? gap : "Node", l->nodes[i].name);
        gap = " and node";
    }
    text_add(text, bytes, " can join");
    for (int i = 0; i < l->n; i++)
        if (!has_node(&l->best, i))
            text_add(text, bytes, "; the worker on node %.100s leaves",
                     l->in->plan->workers[i].node);
    text_add(text, bytes, ". ");
}

/* "The worker on node b is started again with more memory, from a checkpoint. " */
static void add_growing(const struct look *l, char *text, size_t bytes)
{
    const char *gap = "";

    if (l->n_growing == 0)
        return;
    text_add(text, bytes, "The %s on node ", l->n_growing == 1 ? "worker" : "workers");
    for (int s = 0; s < l->best.n_stages; s++) {
        if (!l->grows[s])
            continue;
        text_add(text, bytes, "%s%.100s", gap, l->in->plan->workers[l->best.node[s]].node);
        gap = " and node ";
    }
    text_add(text, bytes, " must be started again with more memory, from a checkpoint. ");
}

/* "3+1 of 4 micro-batches and 9+18, 20+7 units per stage" */
static void add_shared(const struct replicas *r, bool has_units, char *text, size_t bytes)
{
    for (int k = 0; k < r->n; k++)
        text_add(text, bytes, "%s%d", k > 0 ? "+" : "", r->shares[k]);
    text_add(text, bytes, " of %d micro-batches", r->micro_batches);
    for (int k = 0; k < r->n && has_units; k++) {
        const struct placement *p = &r->pipelines[k];

        text_add(text, bytes, "%s", k == 0 ? " and " : ", ");
        for (int s = 0; s < p->n_stages; s++)
            text_add(text, bytes, "%s%d", s > 0 ? "+" : "", p->stages[s].n_units);
    }
    if (has_units)
        text_add(text, bytes, " units per stage");
}

static void add_change(const struct look *l, char *text, size_t bytes)
{
    add_joining(l, text, bytes);
    add_growing(l, text, bytes);
    text_add(text, bytes, "With ");
    if (l->shared) {
        bool has_units = !has_same_cuts(&l->shared[0], &l->shared[1]);

        add_shared(&l->shared[1], has_units, text, bytes);
        text_add(text, bytes, " instead of ");
        add_shared(&l->shared[0], has_units, text, bytes);
    } else {
        add_units(&l->best, text, bytes);
        text_add(text, bytes, " units per stage instead of ");
        add_units(&l->now, text, bytes);
    }
    text_add(text, bytes,
             ", a step should take %.0f%% less than the %.1f ms that it takes now; moving %.1f MB "
             "takes about %.1f s",
             percent_of(l->now_ms - l->best_ms, l->now_ms), l->in->measured->window.step_ms,
             (double)l->move_bytes / 1e6, l->move_ms / 1000);
}

static int64_t steps_left(const struct look *l)
{
    int64_t left = l->in->measured->total_steps - l->in->measured->step;

    return left > 0 ? left : 0;
}

/* What moving saves in all steps that are left, less what it costs. */
static double saved_ms(const struct look *l)
{
    double share = (l->now_ms - l->best_ms) / l->now_ms;

    return share * l->in->measured->window.step_ms * (double)steps_left(l) - l->move_ms;
}

static bool is_held(const struct look *l)
{
    const struct status_rebalance *last = l->in->last;
    int64_t left_ms = last->hold_ms - l->in->now_ms;

    /* Longer than any pause: the clock was set back since. */
    return (left_ms > 0 && left_ms <= REBALANCE_BACK_HOLD * REBALANCE_HOLD_MS) ||
           l->in->measured->step < last->hold_step;
}

/* Of the revision that follows. */
static void hold(const struct look *l, int times, struct status_rebalance *next)
{
    next->samples = 0;
    next->n_seen = 0;
    next->hold_ms = l->in->now_ms + (int64_t)times * REBALANCE_HOLD_MS;
    next->hold_step = l->in->measured->step + (int64_t)times * REBALANCE_HOLD_STEPS;
}

/* Does a move pay? If not, the reason is added to the message. */
static bool pays(const struct look *l, char *text, size_t bytes)
{
    double gain = (l->now_ms - l->best_ms) / l->now_ms;

    if (l->far_stage < 0 && !l->is_other && !l->in->is_asked) {
        text_add(text, bytes, "All stages take as long as planned, within the noise.");
        return false;
    }
    add_far(l, text, bytes);
    if (is_kept(l)) {
        text_add(text, bytes, "The %s still the best for these workers.",
                 l->shared ? "shares and cuts are" : "cut is");
        return false;
    }
    add_change(l, text, bytes);
    if (gain < (l->in->is_asked ? REBALANCE_ASKED_GAIN : REBALANCE_GAIN)) {
        text_add(text, bytes, ": too small a gain.");
        return false;
    }
    if (saved_ms(l) <= 0) {
        text_add(text, bytes, ": that does not pay off in the %lld steps that are left.",
                 (long long)steps_left(l));
        return false;
    }
    text_add(text, bytes, ".");
    return true;
}

/* Has the last move led to this revision, and have its steps not been judged yet? */
static bool is_to_be_judged(const struct rebalance_input *in)
{
    return in->last->before_ms > 0 && in->last->n_last > 0 &&
           in->last->revision == in->plan->revision;
}

/* The cut before the last move. Returns whether the units can go back: all of its workers are still
 * there. */
static bool find_way_back(const struct rebalance_input *in, struct cut *out)
{
    const struct status_rebalance *last = in->last;

    *out = (struct cut){.n_stages = last->n_last};
    if (plan_n_replicas(in->plan) > 1)
        return last->n_last == in->plan->n_workers;
    for (int s = 0; s < last->n_last; s++) {
        int at = plan_find(in->plan, last->last[s].slot);

        if (at < 0 || (s == 0) != (at == 0))
            return false;
        out->node[s] = at;
        out->first[s + 1] = out->first[s] + last->last[s].n_units;
    }
    return out->first[last->n_last] == model_units(&in->plan->spec.model);
}

static bool is_worse(const struct rebalance_input *in)
{
    const struct progress_window *w = &in->measured->window;
    double longer_ms = w->step_ms - in->last->before_ms;

    return longer_ms > REBALANCE_WORSE * in->last->before_ms &&
           longer_ms > REBALANCE_MADS * in->plan->micro_batches * w->mad_ms;
}

/* The steps after the last move take longer than those before. */
static void go_back(const struct look *l, const struct cut *back, struct rebalance_decision *out)
{
    const struct status_rebalance *last = l->in->last;
    struct status_rebalance *next = &out->next;
    double expected_ms = last->before_ms * last->expected_percent / 100;
    double step_ms = l->in->measured->window.step_ms;
    double doubt = expected_ms > 0 ? ceil(100 * step_ms / expected_ms) : 100;

    out->kind = REBALANCE_BACK;
    (void)snprintf(next->decision, sizeof next->decision, "Reverted");
    (void)snprintf(next->message, sizeof next->message,
                   "After the move a step takes %.1f ms; it took %.1f ms before, and %.1f ms were "
                   "predicted. The units move back%s.",
                   step_ms, last->before_ms, expected_ms,
                   back->n_stages < l->n ? ", and the workers that have joined leave" : "");
    next->gain_percent = 0;
    next->n_moves++;
    next->doubt_percent = doubt > last->doubt_percent ? (int)fmin(doubt, STATUS_DOUBT_PERCENT_MAX)
                                                      : last->doubt_percent;
    if (l->shared) {
        next->n_next = last->n_last;
        memcpy(next->next, last->last, sizeof next->next);
    } else {
        list_shares(l, back, &next->n_next, next->next);
    }
    hold(l, REBALANCE_BACK_HOLD, next);
}

static void move(const struct look *l, struct rebalance_decision *out)
{
    struct status_rebalance *next = &out->next;

    out->kind = l->is_other ? REBALANCE_JOIN : l->n_growing > 0 ? REBALANCE_GROW : REBALANCE_MOVE;
    (void)snprintf(next->decision, sizeof next->decision, "%s",
                   out->kind == REBALANCE_JOIN   ? "Joining"
                   : out->kind == REBALANCE_GROW ? "Growing"
                                                 : "Moved");
    next->n_moves++;
    next->before_ms = l->in->measured->window.step_ms;
    next->expected_percent = (int)percent_of(l->best_ms, l->now_ms);
    list_workers(l, true, &next->n_next, next->next);
    list_workers(l, false, &next->n_last, next->last);
    hold(l, 1, next);
}

static void choose(const struct look *l, struct rebalance_decision *out)
{
    struct status_rebalance *next = &out->next;
    bool does_pay = pays(l, next->message, sizeof next->message);

    next->gain_percent = (int)percent_of(l->now_ms - l->best_ms, l->now_ms);
    (void)snprintf(next->decision, sizeof next->decision, "Kept");
    if (!does_pay) {
        next->n_seen = 0;
        return;
    }
    if (l->in->is_asked) {
        move(l, out);
        return;
    }
    if (is_held(l)) {
        text_add(next->message, sizeof next->message, " Waiting, since units have just moved.");
        return;
    }
    if (next->n_seen < REBALANCE_TIMES)
        next->n_seen++;
    if (next->n_seen < REBALANCE_TIMES) {
        text_add(next->message, sizeof next->message, " Looking once more before anything moves.");
    } else if (l->in->mode == SPEC_REBALANCE_AUTO) {
        move(l, out);
    } else {
        out->kind = REBALANCE_SUGGEST;
        out->is_new = strcmp(l->in->last->decision, "Suggested") != 0;
        (void)snprintf(next->decision, sizeof next->decision, "Suggested");
    }
}

/* Replicas are to be quick with the protocol that they have now, not with a later one. */
static struct spec spec_in_force(const struct rebalance_input *in)
{
    struct spec spec = *in->request.job.spec;

    for (int i = 0; spec_protocol_names[i]; i++)
        if (strcmp(spec_protocol_names[i], in->measured->sync.protocol) == 0)
            spec.sync.protocol = (enum spec_protocol)i;
    return spec;
}

enum err_code rebalance_decide(const struct rebalance_input *in, struct rebalance_decision *out,
                               struct err *err)
{
    struct look l = {.in = in, .n = in->plan->n_workers, .request = in->request};
    struct rebalance_decision d = {.next = *in->last};
    struct cut back;
    enum err_code rc;

    if (plan_n_replicas(in->plan) > 1) {
        l.shared = calloc(2, sizeof *l.shared);
        if (!l.shared)
            return err_set(err, ERR_NO_MEMORY, "sharing the batch among replicas");
        l.spec = spec_in_force(in);
        l.request.job.spec = &l.spec;
    }
    scale_nodes(&l);
    l.request.nodes = l.nodes;
    l.far_stage = find_far(&l);
    rc = l.shared ? find_best_shares(&l, err) : find_best_cut(&l, err);
    if (rc != ERR_OK)
        goto out;
    d.next.message[0] = '\0';
    d.next.time_ms = in->now_ms - in->now_ms % 1000;
    d.next.revision = in->plan->revision;
    d.next.samples = in->measured->window.n_samples;
    d.next.n_next = d.next.n_joining = 0;
    if (in->last->revision != in->plan->revision)
        d.next.n_seen = 0; /* of another cut */
    d.next.before_ms = 0;
    d.next.expected_percent = 0;
    d.next.n_last = 0;
    if (is_to_be_judged(in) && is_worse(in) && find_way_back(in, &back))
        go_back(&l, &back, &d);
    else
        choose(&l, &d);
    *out = d;
out:
    cut_problem_deinit(&l.problem);
    free(l.shared);
    return rc;
}
