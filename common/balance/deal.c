#include "balance/deal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "balance/bound.h"

#define FIRST_CALLS   100 /* of the solver, for a first split; few of them are needed */
#define CALLS         120 /* to improve on it without trying everything, ... */
#define MANY_CALLS    60  /* ... and with more than PARTITION_FEW_NODES nodes */
#define FITS          4   /* times that shares are fitted to pipelines and pipelines to shares */
#define CHANGES       100 /* to a split, the most promising ones, that are tried, ... */
#define MANY_CHANGES  12  /* ... and with many nodes */
#define PROMISING     3.0 /* times the slowest replica: what the slowest may be estimated to take */
#define SETS_FITTED   256 /* of nodes, ... */
#define SPLITS_FITTED 1000 /* ... and splits, up to which all are tried with a few shares each */
#define SHORTER       (1 - 1e-9)

/* --- a split --- */

static enum err_code take_if_shorter(struct deal *d, const struct split *split, struct err *err)
{
    struct split sorted = *split;
    struct replicas_step step;
    enum err_code rc = split_measure(d->problem, &sorted, &step, err);

    if (rc == ERR_OK && step.step_ms < d->step.step_ms * SHORTER) {
        d->best = sorted;
        d->step = step;
    }
    return rc;
}

static double line_ms(struct split_line l, int m)
{
    return m > 1 ? l.first_ms + (m - 1) * l.more_ms : l.first_ms;
}

/* What all replicas can do together in the time that all micro-batches take: less than that is
 * never the slowest one's. All have at least one. */
static void share_most(const struct split_line *lines, int n, int n_microbatches, int *out_shares)
{
    double speed = 0;
    double done = 0; /* at time 0: less than nothing */
    int sum = 0;

    for (int k = 0; k < n; k++) {
        speed += 1 / lines[k].more_ms;
        done += 1 - lines[k].first_ms / lines[k].more_ms;
    }
    for (int k = 0; k < n; k++) {
        double ms = (n_microbatches - done) / speed;
        double m = floor((ms - lines[k].first_ms) / lines[k].more_ms + 1);

        out_shares[k] = m > 1 && m < n_microbatches ? (int)m : 1;
        sum += out_shares[k];
    }
    for (int k = 0; k < n && sum > n_microbatches; k++)
        out_shares[k] = 1;
}

/* Every replica has one micro-batch; each other one goes where it ends first, so that the last of
 * all ends as early as it can. Returns when that is. */
static double share_out(const struct split_line *lines, int n, int n_microbatches, int *out_shares)
{
    double slowest_ms = 0;
    int left = n_microbatches;

    share_most(lines, n, n_microbatches, out_shares);
    for (int k = 0; k < n; k++)
        left -= out_shares[k];
    for (; left > 0; left--) {
        int next = 0;

        for (int k = 1; k < n; k++)
            if (line_ms(lines[k], out_shares[k] + 1) < line_ms(lines[next], out_shares[next] + 1))
                next = k;
        out_shares[next]++;
    }
    for (int k = 0; k < n; k++)
        slowest_ms = fmax(slowest_ms, line_ms(lines[k], out_shares[k]));
    return slowest_ms;
}

static struct split_line line_of(const struct pipeline *p)
{
    if (isinf(p->step_ms)) /* it may fit with less in flight */
        return (struct split_line){p->share > 1 ? 0 : INFINITY, INFINITY};
    return (struct split_line){p->step_ms - (p->share - 1) * p->max_ms, p->max_ms};
}

/* The step with these nodes, for shares that the times of the pipelines found for the shares before
 * ask for; the first ones are the split's. */
static enum err_code fit(struct deal *d, struct split split, struct err *err)
{
    int n_microbatches = d->problem->request->job.micro_batches;
    enum err_code rc = ERR_OK;

    for (int i = 0; i < FITS && rc == ERR_OK; i++) {
        struct split_line lines[PLAN_REPLICAS_MAX];
        int shares[PLAN_REPLICAS_MAX];

        memcpy(shares, split.shares, sizeof shares);
        for (int k = 0; k < d->n && rc == ERR_OK; k++) {
            const struct pipeline *pipeline;

            rc = split_pipeline(d->problem, split.nodes[k], shares[k], &pipeline, err);
            if (rc == ERR_OK)
                lines[k] = line_of(pipeline);
        }
        if (rc == ERR_OK)
            rc = take_if_shorter(d, &split, err);
        if (rc != ERR_OK)
            break;
        (void)share_out(lines, d->n, n_microbatches, split.shares);
        if (memcmp(shares, split.shares, (size_t)d->n * sizeof *shares) == 0)
            break;
    }
    return rc;
}

/* --- changes to a split --- */

/* s->n: of none. */
static int replica_of(const struct split *s, int node)
{
    int k = 0;

    while (k < s->n && !(s->nodes[k] >> node & 1))
        k++;
    return k;
}

static void put(struct split *s, int node, int to)
{
    for (int k = 0; k < s->n; k++)
        s->nodes[k] &= ~(UINT64_C(1) << node);
    if (to < s->n)
        s->nodes[to] |= UINT64_C(1) << node;
}

static struct split changed(const struct split *s, struct change c)
{
    struct split out = *s;

    if (c.with >= 0)
        put(&out, c.with, replica_of(s, c.node));
    put(&out, c.node, c.to);
    return out;
}

/* How each pipeline's time compares with its least. */
struct factors {
    double by[PLAN_REPLICAS_MAX];
};

static const struct factors least_factors = {{1, 1, 1, 1, 1, 1, 1, 1}};
_Static_assert(PLAN_REPLICAS_MAX == 8, "a factor for each replica");

/* Set shares for which the slowest replica is fastest and return its time, if the factors stay as
 * they are. INFINITY: a replica has no nodes. */
static double estimate(const struct deal *d, const struct factors *f, struct split *s)
{
    int n_microbatches = d->problem->request->job.micro_batches;
    struct split_line lines[PLAN_REPLICAS_MAX];

    for (int k = 0; k < s->n; k++) {
        if (s->nodes[k] == 0)
            return INFINITY;
        lines[k] = split_pipeline_least(d->problem, s->nodes[k], s->shares[k]);
        lines[k].first_ms *= f->by[k];
        lines[k].more_ms *= f->by[k];
    }
    return share_out(lines, s->n, n_microbatches, s->shares);
}

static int by_ms(const void *a, const void *b)
{
    const struct change *x = a;
    const struct change *y = b;

    if (x->ms != y->ms)
        return x->ms < y->ms ? -1 : 1;
    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    return x->with != y->with ? (x->with < y->with ? -1 : 1) : x->to - y->to;
}

/* The first node of its kind in its replica, for which the others stand as well. */
static bool is_first_alike(const struct deal *d, const struct split *s, int node)
{
    const int *kind = d->problem->kind;

    for (int i = node - 1; i >= 0 && kind[i] == kind[node]; i--)
        if (replica_of(s, i) == replica_of(s, node))
            return false;
    return true;
}

/* All changes, the most promising first; returns how many. */
static int list_changes(const struct deal *d, const struct factors *f, const struct split *s,
                        struct change *out)
{
    const int *kind = d->problem->kind;
    int n = 0;

    for (int i = 0; i < d->problem->n; i++) {
        int from = replica_of(s, i);

        if (!is_first_alike(d, s, i))
            continue;
        for (int to = 0; to <= d->n; to++)
            if (to != from)
                out[n++] = (struct change){.node = i, .with = -1, .to = to};
        for (int k = 0; k < i; k++) {
            int to = replica_of(s, k);

            if (to != from && kind[i] != kind[k] && is_first_alike(d, s, k))
                out[n++] = (struct change){.node = i, .with = k, .to = to};
        }
    }
    for (int i = 0; i < n; i++) {
        struct split split = changed(s, out[i]);

        out[i].ms = estimate(d, f, &split);
    }
    qsort(out, (size_t)n, sizeof *out, by_ms);
    return n;
}

/* Until no change makes the estimate shorter. */
static void improve_estimate(const struct deal *d, struct split *split)
{
    double ms = estimate(d, &least_factors, split);
    for (int i = 0; i < 2 * PARTITION_CANDIDATES_MAX; i++) {
        struct split next;

        (void)list_changes(d, &least_factors, split, d->changes);
        next = changed(split, d->changes[0]);
        if (d->changes[0].ms >= ms * SHORTER)
            break;
        ms = estimate(d, &least_factors, &next);
        *split = next;
    }
}

/* How the pipelines of the best split compare with their least. */
static enum err_code factors_of(const struct deal *d, struct factors *out, struct err *err)
{
    const struct split *s = &d->best;

    for (int k = 0; k < d->n; k++) {
        struct split_line line = split_pipeline_least(d->problem, s->nodes[k], s->shares[k]);
        const struct pipeline *pipeline;
        enum err_code rc = split_pipeline(d->problem, s->nodes[k], s->shares[k], &pipeline, err);

        if (rc != ERR_OK)
            return rc;
        out->by[k] = pipeline->step_ms / line_ms(line, s->shares[k]);
    }
    return ERR_OK;
}

/* Changes to the best split whose step may be shorter, the most promising first, to d->changes. */
static enum err_code list_promising(const struct deal *d, int *out_n, struct err *err)
{
    struct factors factors;
    enum err_code rc = factors_of(d, &factors, err);
    int n = 0;

    if (rc != ERR_OK)
        return rc;
    *out_n = list_changes(d, &factors, &d->best, d->changes);
    for (; n < *out_n && n < CHANGES && rc == ERR_OK; n++) {
        struct change *c = &d->changes[n];
        struct replicas_step step = d->step;

        if (c->ms > d->step.slowest_ms * PROMISING)
            break;
        if (c->with >= 0)
            rc = split_measure_swap(d->problem, &d->best, c->node, c->with, &step, err);
        c->ms += step.exposed_ms + step.update_ms;
    }
    qsort(d->changes, (size_t)n, sizeof *d->changes, by_ms);
    *out_n = n;
    return rc;
}

/* Until no promising change makes the best split better, or no calls are left. */
static enum err_code improve(struct deal *d, struct err *err)
{
    bool is_better = true;
    enum err_code rc = ERR_OK;

    while (is_better && rc == ERR_OK) {
        struct split before = d->best;
        double before_ms = d->step.step_ms;
        int n_tried = d->problem->n > PARTITION_FEW_NODES ? MANY_CHANGES : CHANGES;
        int n = 0;

        is_better = false;
        rc = list_promising(d, &n, err);
        for (int i = 0; i < n && i < n_tried && rc == ERR_OK && !is_better; i++) {
            struct split split = changed(&before, d->changes[i]);
            struct factors factors;

            rc = factors_of(d, &factors, err);
            if (rc == ERR_OK && !isinf(estimate(d, &factors, &split)))
                rc = fit(d, split, err);
            is_better = d->step.step_ms < before_ms;
        }
    }
    return rc;
}

/* --- splits to begin with --- */

/* Candidates that the bound of the slowest replica is reached with, the fastest ones. */
static uint64_t useful(const struct deal *d)
{
    const struct split_problem *p = d->problem;
    int more = p->request->job.micro_batches - d->n;
    double least_ms = INFINITY;
    double speeds = 0;
    uint64_t nodes = 0;
    uint64_t best = 0;

    for (int i = 0; i < p->n; i++) {
        nodes |= UINT64_C(1) << p->order[i];
        speeds += p->speed[p->order[i]];
        if (i + 1 >= d->n && (i + 1 + more) / speeds < least_ms) {
            least_ms = (i + 1 + more) / speeds;
            best = nodes;
        }
    }
    return best;
}

/* Shares by speed. */
static void share_by_speed(const struct deal *d, struct split *s)
{
    struct split_line lines[PLAN_REPLICAS_MAX];

    for (int k = 0; k < d->n; k++) {
        double ms = 1 / split_speed(d->problem, s->nodes[k]);

        lines[k] = (struct split_line){ms, ms};
    }
    (void)share_out(lines, d->n, d->problem->request->job.micro_batches, s->shares);
}

/* The heaviest of `nodes` first, each to the replica that has the least. */
static struct split deal_by(const struct deal *d, const double *weight, uint64_t nodes)
{
    struct split split = {.n = d->n};
    double sums[PLAN_REPLICAS_MAX] = {0};

    while (nodes) {
        int next = -1;
        int to = 0;

        for (int k = 0; k < d->problem->n; k++)
            if (nodes >> k & 1 && (next < 0 || weight[k] > weight[next]))
                next = k;
        for (int k = 1; k < d->n; k++)
            if (sums[k] < sums[to])
                to = k;
        nodes &= ~(UINT64_C(1) << next);
        split.nodes[to] |= UINT64_C(1) << next;
        sums[to] += weight[next];
    }
    share_by_speed(d, &split);
    return split;
}

/* Those that are near each other together, with as much speed as the other replicas. */
static enum err_code deal_by_nearness(const struct deal *d, uint64_t nodes, struct split *out,
                                      struct err *err)
{
    const struct split_problem *p = d->problem;
    int left = __builtin_popcountll(nodes);
    double all = split_speed(p, nodes);
    struct groups groups;
    double sum = 0;
    int to = 0;
    enum err_code rc = groups_init(p->request, p->node, p->n, &groups, err);

    if (rc != ERR_OK)
        return rc;
    *out = (struct split){.n = d->n};
    for (int i = 0; i < p->n; i++) {
        int node = groups.order[i];
        bool is_full = out->nodes[to] && sum + p->speed[node] / 2 > all * (to + 1) / d->n;

        if (!(nodes >> node & 1))
            continue;
        if (to + 1 < d->n && out->nodes[to] && (is_full || left == d->n - 1 - to))
            to++;
        out->nodes[to] |= UINT64_C(1) << node;
        sum += p->speed[node];
        left--;
    }
    groups_deinit(&groups);
    share_by_speed(d, out);
    return ERR_OK;
}

/* With all nodes and with the useful ones. */
static enum err_code try_deals(struct deal *d, struct err *err)
{
    const struct split_problem *p = d->problem;
    const uint64_t sets[] = {useful(d), split_all(p)};
    double memory[PARTITION_CANDIDATES_MAX];
    struct split split = deal_by(d, p->speed, sets[0]);
    enum err_code rc;

    improve_estimate(d, &split);
    rc = fit(d, split, err);
    for (int i = 0; i < 2 && p->links && rc == ERR_OK; i++) {
        rc = deal_by_nearness(d, sets[i], &split, err);
        if (rc == ERR_OK)
            rc = fit(d, split, err);
    }
    for (int i = 0; i < p->n; i++)
        memory[i] = (double)partition_memory(p->request, p->node[i]);
    if (rc == ERR_OK && isinf(d->step.step_ms)) /* memory decides */
        rc = fit(d, deal_by(d, memory, sets[1]), err);
    return rc;
}

/* --- all splits --- */

struct trial {
    struct deal *deal;
    struct split split;
    double slowest_ms; /* least bound of the slowest replica */
    double n_splits;   /* counted; or how many there may be at most */
    enum { TRIAL_COUNTS, TRIAL_FITS, TRIAL_SHARES } kind; /* what is done with a split */
    struct err *err;
};

/* Share out what is left among the replicas from `k` on. */
static enum err_code try_shares(struct trial *t, int k, int left, double slowest_ms)
{
    struct deal *d = t->deal;
    double least_ms = split_exchange_least_ms(d->problem, d->n);
    bool is_last = k == d->n - 1;
    enum err_code rc = ERR_OK;

    for (int m = is_last ? left : 1; m <= left - (d->n - 1 - k) && rc == ERR_OK; m++) {
        const struct pipeline *pipeline;
        double ms;

        if (line_ms(split_pipeline_least(d->problem, t->split.nodes[k], m), m) + least_ms >=
            d->step.step_ms)
            break;
        rc = split_pipeline(d->problem, t->split.nodes[k], m, &pipeline, t->err);
        if (rc != ERR_OK || pipeline->bound_ms + least_ms >= d->step.step_ms)
            continue;
        t->split.shares[k] = m;
        ms = fmax(slowest_ms, pipeline->bound_ms);
        if (is_last) {
            t->slowest_ms = fmin(t->slowest_ms, ms);
            rc = take_if_shorter(d, &t->split, t->err);
        } else {
            rc = try_shares(t, k + 1, left - m, ms);
        }
    }
    return rc;
}

/* With shares that fit, unless the split can hardly be any good. */
static enum err_code try_fit(struct trial *t)
{
    struct deal *d = t->deal;
    struct split split = t->split;
    double slowest_ms;

    share_by_speed(d, &split);
    slowest_ms = estimate(d, &least_factors, &split);
    if (slowest_ms + split_exchange_least_ms(d->problem, d->n) >= d->step.step_ms)
        return ERR_OK;
    return fit(d, split, t->err);
}

/* Candidates from `i` on; `n_used` replicas have a node. Replicas are interchangeable, so the next
 * empty one stands for all; nodes of a kind are, so they go to replicas in rising order. */
static enum err_code try_splits(struct trial *t, int i, int n_used, int from)
{
    const struct split_problem *p = t->deal->problem;
    int n = t->deal->n;
    enum err_code rc = ERR_OK;

    if (p->n - i < n - n_used)
        return ERR_OK;
    if (i == p->n) {
        if (t->kind == TRIAL_SHARES)
            return try_shares(t, 0, p->request->job.micro_batches, 0);
        if (t->kind == TRIAL_FITS)
            return try_fit(t);
        t->n_splits++;
        return ERR_OK;
    }
    for (int to = from; to <= n && rc == ERR_OK && t->n_splits <= REPLICAS_EXACT_SPLITS; to++) {
        bool is_next_alike = i + 1 < p->n && p->kind[i + 1] == p->kind[i];
        int now = n_used + (to == n_used && to < n);

        if (to > n_used && to < n)
            continue;
        put(&t->split, i, to);
        rc = try_splits(t, i + 1, now, is_next_alike ? to : 0);
        put(&t->split, i, n);
    }
    return rc;
}

static double count_splits(struct deal *d)
{
    struct trial count = {.deal = d, .split.n = d->n, .kind = TRIAL_COUNTS};

    (void)!try_splits(&count, 0, 0, 0);
    return count.n_splits;
}

/* Sets of nodes that differ. */
static double count_sets(const struct split_problem *p)
{
    double n_sets = 1;

    for (int i = 0, alike = 0; i < p->n; i++) {
        alike = i > 0 && p->kind[i] == p->kind[i - 1] ? alike + 1 : 1;
        n_sets *= (alike + 1.0) / alike;
    }
    return n_sets;
}

bool deal_can_try_all(struct deal *d)
{
    int n_microbatches = d->problem->request->job.micro_batches;
    double n_shares = 1;

    for (int k = 1; k < d->n; k++)
        n_shares *= (double)(n_microbatches - k) / k;
    return d->problem->has_all && count_sets(d->problem) * n_microbatches <= REPLICAS_EXACT_CALLS &&
           n_shares <= REPLICAS_EXACT_SPLITS && count_splits(d) * n_shares <= REPLICAS_EXACT_SPLITS;
}

/* Are splits few enough to be tried with a few shares each? */
static bool can_try_splits(struct deal *d)
{
    return count_sets(d->problem) <= SETS_FITTED && count_splits(d) <= SPLITS_FITTED;
}

/* Try them. */
static enum err_code try_fits(struct deal *d, struct err *err)
{
    struct trial t = {.deal = d, .split.n = d->n, .kind = TRIAL_FITS, .err = err};

    d->problem->n_calls_left = SPLIT_PIPELINES_MAX;
    return try_splits(&t, 0, 0, 0);
}

static enum err_code try_all(struct deal *d, struct err *err)
{
    struct trial t = {
        .deal = d, .split.n = d->n, .kind = TRIAL_SHARES, .slowest_ms = INFINITY, .err = err};
    double least_ms = split_exchange_least_ms(d->problem, d->n);
    enum err_code rc;

    d->problem->n_calls_left = SPLIT_PIPELINES_MAX;
    rc = try_splits(&t, 0, 0, 0);
    d->is_exact = rc == ERR_OK;
    if (rc == ERR_OK && d->problem->request->job.spec->placement.strategy == SPEC_STRATEGY_OPTIMAL)
        d->bound_ms = fmax(d->bound_ms, fmin(t.slowest_ms + least_ms, d->step.step_ms));
    return rc;
}

/* --- one number of replicas --- */

/* What holds for every split. */
static enum err_code bound_all(struct deal *d, struct err *err)
{
    struct split_problem *p = d->problem;
    int n_microbatches = p->request->job.micro_batches;
    double exchange_ms = split_exchange_least_ms(p, d->n);
    const struct pipeline *pipeline;
    enum err_code rc = ERR_OK;

    d->bound_ms = split_slowest_least_ms(p, d->n) + exchange_ms;
    if (!p->has_all)
        return ERR_OK;
    rc = split_pipeline(p, split_all(p), (n_microbatches + d->n - 1) / d->n, &pipeline, err);
    if (rc == ERR_OK && !isinf(pipeline->bound_ms)) /* a search of many nodes may find nothing */
        d->bound_ms = fmax(d->bound_ms, pipeline->bound_ms + exchange_ms);
    return rc;
}

/* As many splits as can be tried, if that is all. */
static enum err_code try_more(struct deal *d, struct err *err)
{
    if (deal_can_try_all(d))
        return try_all(d, err);
    return can_try_splits(d) ? try_fits(d, err) : ERR_OK;
}

enum err_code deal_begin(struct deal *d, struct err *err)
{
    struct split_problem *p = d->problem;
    enum err_code rc;

    d->step.step_ms = d->bound_ms = INFINITY;
    if (p->n < d->n || p->request->job.micro_batches < d->n)
        return ERR_OK;
    p->n_calls_left = FIRST_CALLS;
    rc = bound_all(d, err);
    if (rc == ERR_OK)
        rc = try_deals(d, err);
    if ((rc == ERR_OK || rc == ERR_LIMIT) && isinf(d->step.step_ms))
        rc = try_more(d, err);
    return rc == ERR_LIMIT ? ERR_OK : rc;
}

enum err_code deal_finish(struct deal *d, struct err *err)
{
    struct split_problem *p = d->problem;
    enum err_code rc;

    p->n_calls_left = p->n > PARTITION_FEW_NODES ? MANY_CALLS : CALLS;
    rc = improve(d, err);
    if (rc == ERR_OK || rc == ERR_LIMIT)
        rc = try_more(d, err);
    return rc == ERR_LIMIT ? ERR_OK : rc;
}
