#include "balance/replicas.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "balance/deal.h"
#include "balance/explain.h"
#include "base/buf.h"

#define PLAUSIBLE 1.6 /* times the shortest step: first steps that are improved on */

/* --- the number --- */

/* What was found for a number of replicas. */
struct number {
    int micro_batches; /* 0: nothing */
    bool saves_from_copy;
    struct split split;
    struct replicas_step step;
    int n_stages;
    double bound_ms;        /* with these micro-batches ... */
    double others_bound_ms; /* ... and with the other numbers of them that were tried */
    bool is_exact;
};

struct choice {
    const struct partition_request *request;
    int first, last; /* numbers of replicas that are looked at; the first is at least 2 */
    struct number numbers[PLAN_REPLICAS_MAX + 1];
};

static enum err_code set_number(struct number *out, const struct deal *d, struct err *err)
{
    const struct partition_request *r = d->problem->request;
    enum err_code rc = ERR_OK;

    out->micro_batches = r->job.micro_batches;
    out->saves_from_copy = r->job.saves_from_copy;
    out->split = d->best;
    out->step = d->step;
    out->bound_ms = d->bound_ms;
    out->is_exact = d->is_exact;
    out->n_stages = 0;
    for (int k = 0; k < d->n && rc == ERR_OK; k++) {
        const struct pipeline *pipeline;

        rc = split_pipeline(d->problem, d->best.nodes[k], d->best.shares[k], &pipeline, err);
        if (rc == ERR_OK)
            out->n_stages += pipeline->n_stages;
    }
    return rc;
}

/* A first split, which is kept if there is none or if other micro-batches gain enough. */
static enum err_code begin_number(struct number *out, struct deal *d, struct err *err)
{
    enum err_code rc = deal_begin(d, err);

    if (rc != ERR_OK || isinf(d->step.step_ms))
        return rc;
    if (out->micro_batches == 0) {
        out->others_bound_ms = INFINITY;
    } else if (d->step.step_ms >= out->step.step_ms * (1 - PARTITION_MICRO_GAIN)) {
        out->others_bound_ms = fmin(out->others_bound_ms, d->bound_ms);
        return ERR_OK;
    } else {
        out->others_bound_ms = fmin(out->others_bound_ms, out->bound_ms);
    }
    return set_number(out, d, err);
}

static enum err_code finish_number(struct number *out, struct deal *d, bool improves,
                                   struct err *err)
{
    enum err_code rc;

    d->best = out->split;
    d->step = out->step;
    d->bound_ms = out->bound_ms;
    d->is_exact = out->is_exact;
    if (d->is_exact || !(improves || deal_can_try_all(d)))
        return ERR_OK;
    rc = deal_finish(d, err);
    d->problem->n_calls_left = PLAN_REPLICAS_MAX; /* all are kept already */
    return rc == ERR_OK ? set_number(out, d, err) : rc;
}

/* Are replicas out of step from the first step on? Then no bound is known. */
static bool begins_free(const struct spec *spec)
{
    return spec->sync.protocol == SPEC_PROTOCOL_ASP || spec->sync.protocol == SPEC_PROTOCOL_LOCAL;
}

double replicas_first_step_ms(const struct spec *spec, const struct replicas_step *step)
{
    return begins_free(spec) ? replicas_step_ms(spec, step) : step->step_ms;
}

/* The shortest step of so many replicas or more. */
static double least_ms(const struct spec *spec, const struct number *numbers, int first)
{
    double ms = INFINITY;

    for (int n = first; n <= PLAN_REPLICAS_MAX; n++)
        if (numbers[n].micro_batches)
            ms = fmin(ms, replicas_first_step_ms(spec, &numbers[n].step));
    return ms;
}

/* May it become the best? */
static bool is_plausible(const struct choice *c, const struct number *number)
{
    const struct spec *spec = c->request->job.spec;
    double ms = least_ms(spec, c->numbers, 1);

    return (begins_free(spec) || number->bound_ms < ms) &&
           replicas_first_step_ms(spec, &number->step) < ms * PLAUSIBLE;
}

/* Begin, or finish, all numbers of replicas for which `wanted` is true, with the micro-batches of
 * this request. */
static enum err_code solve_numbers(struct choice *c, const struct partition_request *request,
                                   const bool *wanted, bool is_first, struct err *err)
{
    struct split_problem *p = calloc(1, sizeof *p);
    struct change *changes = calloc(DEAL_CHANGES_MAX, sizeof *changes);
    enum err_code rc;

    if (p && changes)
        rc = split_problem_init(request, p, err);
    else
        rc = err_set(err, ERR_NO_MEMORY, "planning on %d nodes", request->n_nodes);
    for (int n = c->first; n <= c->last && rc == ERR_OK; n++) {
        struct deal d = {.problem = p, .changes = changes, .n = n};
        struct number *number = &c->numbers[n];

        if (wanted[n] && is_first)
            rc = begin_number(number, &d, err);
        else if (wanted[n])
            rc = finish_number(number, &d, c->first == c->last || is_plausible(c, number), err);
    }
    if (p)
        split_problem_deinit(p);
    free(p);
    free(changes);
    return rc;
}

/* First splits with these micro-batches for all numbers of replicas up to `last` that have none. */
static enum err_code begin_with(struct choice *c, struct partition_request *r,
                                const struct partition_tries *tries, int last, struct err *err)
{
    bool wanted[PLAN_REPLICAS_MAX + 1] = {false};
    bool wants = false;
    enum err_code rc = ERR_OK;

    for (int n = c->first; n <= last; n++) {
        wanted[n] = c->numbers[n].micro_batches == 0;
        wants = wants || wanted[n];
    }
    for (int i = 0; i < tries->n && wants && rc == ERR_OK; i++) {
        r->job.micro_batches = tries->micro_batches[i];
        rc = solve_numbers(c, r, wanted, true, err);
    }
    return rc;
}

/* First splits for all numbers of replicas that have none: with what is best for the fewest, and
 * where that does not fit with all numbers of micro-batches. */
static enum err_code begin_all(struct choice *c, bool saves_from_copy, struct err *err)
{
    const struct number *fewest = &c->numbers[c->first];
    struct partition_request r = *c->request;
    struct partition_tries tries = {.n = 1, .micro_batches = {r.job.micro_batches}};
    struct partition_tries best = {.n = 1};
    enum err_code rc;

    r.job.saves_from_copy = saves_from_copy;
    if (r.job.micro_batches == 0) {
        r.max_stages = SPEC_STAGES_MAX; /* of all replicas together */
        tries = partition_tries(&r, PARTITION_FEW_TRIES);
        r.max_stages = c->request->max_stages;
    }
    rc = begin_with(c, &r, &tries, c->first, err);
    best.micro_batches[0] = fewest->micro_batches;
    if (rc == ERR_OK && fewest->micro_batches > 0)
        rc = begin_with(c, &r, &best, c->last, err);
    if (rc == ERR_OK)
        rc = begin_with(c, &r, &tries, c->last, err);
    return rc;
}

/* Those with the same micro-batches have pipelines in common. */
static enum err_code finish_all(struct choice *c, struct err *err)
{
    bool is_done[PLAN_REPLICAS_MAX + 1] = {false};
    enum err_code rc = ERR_OK;

    for (int n = c->first; n <= c->last && rc == ERR_OK; n++) {
        const struct number *like = &c->numbers[n];
        struct partition_request r = *c->request;
        bool wanted[PLAN_REPLICAS_MAX + 1] = {false};

        if (is_done[n] || like->micro_batches == 0)
            continue;
        for (int k = n; k <= c->last; k++)
            is_done[k] = wanted[k] = c->numbers[k].micro_batches == like->micro_batches &&
                                     c->numbers[k].saves_from_copy == like->saves_from_copy;
        r.job.micro_batches = like->micro_batches;
        r.job.saves_from_copy = like->saves_from_copy;
        rc = solve_numbers(c, &r, wanted, false, err);
    }
    return rc;
}

/* Numbers that do not fit with a copy for checkpoints are tried without one if that may be chosen.
 */
static enum err_code solve_several(struct choice *c, struct err *err)
{
    const struct cost_job *job = &c->request->job;
    enum err_code rc = begin_all(c, job->saves_from_copy, err);

    if (rc == ERR_OK && job->saves_from_copy && job->spec->checkpoint.mode == SPEC_SAVING_AUTO)
        rc = begin_all(c, false, err);
    return rc == ERR_OK ? finish_all(c, err) : rc;
}

/* The fewest replicas, of at least `first`, that are nearly as fast as the fastest; 0: nothing
 * fits. */
static int pick(const struct spec *spec, const struct number *numbers, int first)
{
    double enough_ms = least_ms(spec, numbers, first) * (1 + REPLICAS_GAIN);

    for (int n = first; n <= PLAN_REPLICAS_MAX; n++)
        if (numbers[n].micro_batches && replicas_first_step_ms(spec, &numbers[n].step) <= enough_ms)
            return n;
    return 0;
}

static enum err_code place(const struct choice *c, int n,
                           struct placement out[static PLAN_REPLICAS_MAX], struct err *err)
{
    const struct number *number = &c->numbers[n];
    struct partition_request r = *c->request;
    struct split_problem *p = calloc(1, sizeof *p);
    enum err_code rc;

    if (!p)
        return err_set(err, ERR_NO_MEMORY, "planning on %d nodes", r.n_nodes);
    r.job.micro_batches = number->micro_batches;
    r.job.saves_from_copy = number->saves_from_copy;
    rc = split_problem_init(&r, p, err);
    p->n_calls_left = PLAN_REPLICAS_MAX;
    if (rc == ERR_OK)
        rc = split_place(p, &number->split, out, err);
    split_problem_deinit(p);
    free(p);
    return rc;
}

static enum err_code explain_none(const struct partition_request *r, int n, struct err *err)
{
    if (r->n_nodes < n)
        return err_set(err, ERR_NOT_FOUND, "spec.replicas is %d, but %d nodes are suitable", n,
                       r->n_nodes);
    if (r->job.micro_batches && r->job.micro_batches < n)
        return err_set(err, ERR_NOT_FOUND,
                       "spec.replicas is %d, but a step has only %d micro-batches", n,
                       r->job.micro_batches);
    return err_set(err, ERR_NOT_FOUND,
                   "no way was found to split %d nodes into %d replicas, each with memory for the "
                   "whole model: lower spec.replicas, raise spec.placement.maxStages, or offer "
                   "more memory",
                   r->n_nodes, n);
}

static struct number number_of(const struct placement *one)
{
    return (struct number){.micro_batches = one->micro_batches,
                           .saves_from_copy = one->saves_from_copy,
                           .split = {.n = 1, .shares = {one->micro_batches}},
                           .step = {.step_ms = one->predicted_step_ms,
                                    .slowest_ms = one->predicted_step_ms,
                                    .asp_ms = one->predicted_step_ms,
                                    .local_ms = one->predicted_step_ms},
                           .n_stages = one->n_stages,
                           .bound_ms = one->bound_ms,
                           .others_bound_ms = INFINITY};
}

/* All but the pipelines. */
static void report(const struct choice *c, bool is_auto, struct replicas *out)
{
    const struct number *chosen = &c->numbers[out->n];
    const struct spec *spec = c->request->job.spec;
    bool is_bounded = out->n == 1 || !begins_free(spec);

    out->micro_batches = chosen->micro_batches;
    memcpy(out->shares, chosen->split.shares, sizeof out->shares);
    out->step = chosen->step;
    out->is_exact = chosen->is_exact;
    out->bound_ms = is_bounded ? out->step.step_ms : 0;
    for (int n = 1; n <= PLAN_REPLICAS_MAX; n++) {
        const struct number *number = &c->numbers[n];

        if (number->micro_batches == 0)
            continue;
        if (is_bounded && (is_auto || n == out->n))
            out->bound_ms = fmin(out->bound_ms, fmin(number->bound_ms, number->others_bound_ms));
        out->alternatives[out->n_alternatives++] =
            (struct replicas_alternative){.n = n,
                                          .n_stages = number->n_stages,
                                          .step_ms = replicas_first_step_ms(spec, &number->step)};
    }
}

enum err_code replicas_choose(const struct partition_request *request, int n, struct replicas *out,
                              struct err *err)
{
    bool is_manual = request->job.spec->placement.strategy == SPEC_STRATEGY_MANUAL;
    bool is_one = n == 1 || is_manual;
    struct choice c = {.request = request, .first = n ? n : 2, .last = n ? n : PLAN_REPLICAS_MAX};
    struct replicas best = {.n = 0};
    struct err reason; /* why there is not even one pipeline */
    enum err_code one;
    enum err_code rc = ERR_OK;

    if (n < 0 || n > PLAN_REPLICAS_MAX)
        return err_set(err, ERR_INVALID, "spec.replicas: %d is not in 1..%d", n, PLAN_REPLICAS_MAX);
    if (n > 1 && is_manual)
        return err_set(err, ERR_INVALID, "spec.replicas: strategy Manual has one replica, not %d",
                       n);
    one = partition_choose(request, &best.pipelines[0], &reason);
    if (one != ERR_OK && (one != ERR_NOT_FOUND || is_one))
        return err_set(err, one, "%s", reason.text);
    if (one == ERR_OK)
        c.numbers[1] = number_of(&best.pipelines[0]);
    if (!is_one)
        rc = solve_several(&c, err);
    if (rc != ERR_OK)
        return rc;
    best.n = pick(request->job.spec, c.numbers, n > 1 ? n : 1);
    if (best.n == 0)
        return n > 1 ? explain_none(request, n, err) : err_set(err, one, "%s", reason.text);
    if (best.n > 1)
        rc = place(&c, best.n, best.pipelines, err);
    if (rc != ERR_OK)
        return rc;
    report(&c, n == REPLICAS_AUTO, &best);
    *out = best;
    return ERR_OK;
}

/* --- as text, and as a plan --- */

/* "2, 3 and 1" */
static void add_list(const int *numbers, int n, char out[static PLAN_REASON_BYTES])
{
    for (int i = 0; i < n; i++)
        text_add(out, PLAN_REASON_BYTES, "%s%d",
                 i == 0       ? ""
                 : i == n - 1 ? " and "
                              : ", ",
                 numbers[i]);
}

static void add_alternatives(const struct replicas *r, double step_ms,
                             char out[static PLAN_REASON_BYTES])
{
    for (int i = 0; i < r->n_alternatives; i++) {
        const struct replicas_alternative *a = &r->alternatives[i];

        if (a->n == r->n)
            continue;
        if (a->n == 1)
            text_add(out, PLAN_REASON_BYTES, " One pipeline of %d %s", a->n_stages,
                     a->n_stages == 1 ? "stage" : "stages");
        else
            text_add(out, PLAN_REASON_BYTES, " %d replicas of %d stages in all", a->n, a->n_stages);
        text_add(out, PLAN_REASON_BYTES, " would take %.0f ms, %.2f times as long.", a->step_ms,
                 a->step_ms / step_ms);
    }
}

static void explain_protocol(const struct replicas_step *step, char out[static PLAN_REASON_BYTES])
{
    enum spec_protocol chosen = replicas_protocol(step);

    if (chosen == SPEC_PROTOCOL_BSP)
        text_add(out, PLAN_REASON_BYTES, " Protocol: BSP");
    else
        text_add(out, PLAN_REASON_BYTES, " Protocol: BSP for %d%% of the steps, then %s",
                 SPEC_AUTO_PERCENT, spec_protocol_names[chosen]);
    text_add(out, PLAN_REASON_BYTES,
             "; a step of BSP takes %.0f ms, of ASP %.0f and of Local %.0f.", step->step_ms,
             step->asp_ms, step->local_ms);
}

static void explain_several(const struct partition_request *request, const struct replicas *r,
                            char out[static PLAN_REASON_BYTES])
{
    const struct spec *spec = request->job.spec;
    int each = spec->training.batch_size / r->micro_batches;
    double gap = r->step.step_ms / r->bound_ms - 1;
    int n_stages[PLAN_REPLICAS_MAX];

    for (int k = 0; k < r->n; k++)
        n_stages[k] = r->pipelines[k].n_stages;
    text_add(out, PLAN_REASON_BYTES, "A step is predicted to take %.0f ms with %d replicas of ",
             replicas_first_step_ms(spec, &r->step), r->n);
    add_list(n_stages, r->n, out);
    text_add(out, PLAN_REASON_BYTES, " stages, which compute ");
    add_list(r->shares, r->n, out);
    text_add(out, PLAN_REASON_BYTES,
             " of %d micro-batches of %d %s. The slowest replica takes %.0f ms; gradients and "
             "weights take %.0f ms between replicas, of which %.0f ms are exposed, and the update "
             "%.0f ms.",
             r->micro_batches, each, each == 1 ? "sequence" : "sequences", r->step.slowest_ms,
             r->step.exchange_ms, r->step.exposed_ms, r->step.update_ms);
    if (spec->sync.protocol == SPEC_PROTOCOL_AUTO)
        explain_protocol(&r->step, out);
    if (begins_free(spec))
        text_add(out, PLAN_REASON_BYTES, " In step it would take %.0f ms.", r->step.step_ms);
    else if (gap < 1e-6)
        text_add(out, PLAN_REASON_BYTES, " No plan is faster.");
    else if (r->bound_ms > 0)
        text_add(out, PLAN_REASON_BYTES,
                 " No plan can be faster than %.0f ms, so this one is at most %.1f%% above the "
                 "optimum.",
                 r->bound_ms, 100 * gap);
}

void replicas_explain(const struct partition_request *request, const struct replicas *r,
                      char out[static PLAN_REASON_BYTES])
{
    out[0] = '\0';
    if (r->n == 1)
        explain_placement(request, &r->pipelines[0], out);
    else
        explain_several(request, r, out);
    add_alternatives(r, replicas_first_step_ms(request->job.spec, &r->step), out);
}

static bool has_node(const struct replicas *r, int node)
{
    for (int k = 0; k < r->n; k++)
        for (int s = 0; s < r->pipelines[k].n_stages; s++)
            if (r->pipelines[k].stages[s].node == node)
                return true;
    return false;
}

static void add_excluded(const struct partition_request *request, const struct replicas *r,
                         struct plan_summary *out)
{
    for (int i = 0; i < request->n_nodes; i++) {
        struct plan_excluded *excluded;

        if (has_node(r, i) || out->n_excluded++ >= PLAN_EXCLUDED_MAX)
            continue;
        excluded = &out->excluded[out->n_excluded - 1];
        (void)snprintf(excluded->node, sizeof excluded->node, "%s", request->nodes[i].name);
        (void)snprintf(excluded->reason, sizeof excluded->reason,
                       "of the splits that were tried none is faster with it");
    }
}

void replicas_to_plan(const struct partition_request *request, const struct replicas *r,
                      struct plan *out)
{
    int slowest = 0;

    placement_to_plan(request, &r->pipelines[0], out);
    out->n_shares = 0;
    if (r->n > 1) {
        out->summary = (struct plan_summary){.predicted_step_ms =
                                                 replicas_first_step_ms(&out->spec, &r->step)};
        out->summary.bottleneck = r->pipelines[0].bottleneck;
        out->n_shares = r->n;
        if (out->spec.sync.protocol == SPEC_PROTOCOL_AUTO)
            out->spec.sync.chosen = replicas_protocol(&r->step);
        out->homes_follow_shares = r->step.homes_follow_shares;
        memcpy(out->shares, r->shares, sizeof out->shares);
        add_excluded(request, r, &out->summary);
    }
    for (int k = 1; k < r->n; k++) {
        if (r->pipelines[k].predicted_step_ms > r->pipelines[slowest].predicted_step_ms) {
            slowest = k;
            out->summary.bottleneck = out->n_workers + r->pipelines[k].bottleneck;
        }
        placement_add_workers(request, &r->pipelines[k], k, out);
    }
    out->summary.bound_ms = r->bound_ms;
    replicas_explain(request, r, out->summary.explanation);
}
