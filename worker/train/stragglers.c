#include "train/stragglers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(const double *values, int n)
{
    double sorted[STRAGGLERS_WINDOW];

    memcpy(sorted, values, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, by_value);
    return (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
}

static int n_values(const struct stragglers_replica *r)
{
    return r->n_usual < STRAGGLERS_WINDOW ? r->n_usual : STRAGGLERS_WINDOW;
}

double stragglers_usual_ms(const struct stragglers *s, int replica)
{
    const struct stragglers_replica *r = &s->replicas[replica];

    return r->n_usual < STRAGGLERS_LEAST ? 0 : median(r->usual_ms, n_values(r));
}

static bool is_slow_sample(const struct stragglers *s, int replica, double ms)
{
    const struct stragglers_replica *r = &s->replicas[replica];
    double usual_ms = stragglers_usual_ms(s, replica);
    double deviations[STRAGGLERS_WINDOW];

    if (usual_ms == 0)
        return false;
    for (int i = 0; i < n_values(r); i++)
        deviations[i] = fabs(r->usual_ms[i] - usual_ms);
    return ms > STRAGGLERS_TIMES * usual_ms &&
           ms > usual_ms + STRAGGLERS_MADS * median(deviations, n_values(r));
}

/* 0: the replica had nothing to do in that time. */
static bool add_sample(struct stragglers *s, int replica, double ms)
{
    struct stragglers_replica *r = &s->replicas[replica];
    bool is_slow;

    r->n_slow += r->is_slow;
    if (r->n_slow == STRAGGLERS_LASTS) {
        *r = (struct stragglers_replica){.last_ms = r->last_ms};
        return true;
    }
    if (ms == 0)
        return false;
    is_slow = is_slow_sample(s, replica, ms);
    r->last_ms = ms;
    r->n_row = is_slow == r->is_slow ? 0 : r->n_row + 1;
    if (!is_slow)
        r->usual_ms[r->n_usual++ % STRAGGLERS_WINDOW] = ms;
    if (r->n_row < STRAGGLERS_ROW)
        return false;
    r->is_slow = is_slow;
    r->n_row = r->n_slow = 0;
    return true;
}

bool stragglers_add(struct stragglers *s, int replica, double ms, double elapsed_ms)
{
    struct stragglers_replica *r = &s->replicas[replica];
    double sample_ms;

    r->elapsed_ms += elapsed_ms;
    r->sum_ms += ms;
    r->n_summed += ms > 0;
    if (r->elapsed_ms < STRAGGLERS_SAMPLE_MS)
        return false;
    sample_ms = r->n_summed > 0 ? r->sum_ms / r->n_summed : 0;
    r->sum_ms = r->elapsed_ms = 0;
    r->n_summed = 0;
    return add_sample(s, replica, sample_ms);
}

uint32_t stragglers_found(const struct stragglers *s)
{
    uint32_t found = 0;

    for (int k = 0; k < PLAN_REPLICAS_MAX; k++)
        found |= (uint32_t)s->replicas[k].is_slow << k;
    return found;
}

/* Every micro-batch to the replica that is done first with it. */
static void deal(const struct plan *plan, const double *ms, const int *most, int *out)
{
    for (int m = 0; m < plan->micro_batches; m++) {
        int next = -1;

        for (int k = 0; k < plan_n_replicas(plan); k++)
            if (out[k] < most[k] && (next < 0 || (out[k] + 1) * ms[k] < (out[next] + 1) * ms[next]))
                next = k;
        out[next]++;
    }
}

/* What a micro-batch takes in each replica now; false: that of some replica is not known. */
static bool know(const struct stragglers *s, int n_replicas, double *ms)
{
    for (int k = 0; k < n_replicas; k++) {
        ms[k] = s->replicas[k].is_slow ? s->replicas[k].last_ms : stragglers_usual_ms(s, k);
        if (ms[k] <= 0)
            return false;
    }
    return true;
}

/* Elastic's shares. They stay as they are if the stragglers could not be left out. */
static void share_out(const struct stragglers *s, const struct plan *plan, const double *ms,
                      int *shares)
{
    int most[PLAN_REPLICAS_MAX];
    int room = 0;

    for (int k = 0; k < plan_n_replicas(plan); k++) {
        bool is_short = plan->shares[k] < plan_replica(plan, k).n_stages; /* of slots */

        most[k] = is_short ? plan->shares[k] : plan->micro_batches;
        room += s->replicas[k].is_slow ? 0 : most[k];
    }
    if (room < plan->micro_batches)
        return;
    memset(shares, 0, PLAN_REPLICAS_MAX * sizeof *shares);
    deal(plan, ms, most, shares);
}

/* A micro-batch for each replica that has none, from the one that has most. */
static void look(int *shares, int n_replicas)
{
    for (int k = 0; k < n_replicas; k++) {
        int from = 0;

        if (shares[k] > 0)
            continue;
        for (int i = 1; i < n_replicas; i++)
            from = shares[i] > shares[from] ? i : from;
        shares[from]--;
        shares[k]++;
    }
}

static double in_step_ms(const int *shares, const double *ms, int n_replicas)
{
    double out = 0;

    for (int k = 0; k < n_replicas; k++)
        out = fmax(out, shares[k] * ms[k]);
    return out;
}

static double out_of_step_ms(const struct plan *plan, const double *ms)
{
    double per_ms = 0;

    for (int k = 0; k < plan_n_replicas(plan); k++)
        per_ms += 1 / ms[k];
    return plan->micro_batches / per_ms;
}

static enum spec_stragglers choose(double wait_ms, double elastic_ms, double greedy_ms)
{
    if (fmin(wait_ms, elastic_ms) > STRAGGLERS_TIMES * greedy_ms)
        return SPEC_STRAGGLERS_GREEDY;
    return wait_ms > STRAGGLERS_GAIN * elastic_ms ? SPEC_STRAGGLERS_ELASTIC : SPEC_STRAGGLERS_WAIT;
}

struct stragglers_answer stragglers_answer(const struct stragglers *s, const struct plan *plan,
                                           int64_t step)
{
    struct stragglers_answer out = {.how = plan->spec.sync.stragglers};
    int n = plan_n_replicas(plan);
    int shares[PLAN_REPLICAS_MAX];
    double ms[PLAN_REPLICAS_MAX];
    double elastic_ms, greedy_ms;

    memcpy(out.shares, plan->shares, sizeof out.shares);
    if (!know(s, n, ms)) {
        if (out.how == SPEC_STRAGGLERS_AUTO)
            out.how = SPEC_STRAGGLERS_WAIT;
        return out;
    }
    memcpy(shares, plan->shares, sizeof shares);
    share_out(s, plan, ms, shares);
    out.wait_ms = in_step_ms(plan->shares, ms, n);
    elastic_ms = in_step_ms(shares, ms, n);
    greedy_ms = out_of_step_ms(plan, ms);
    if (out.how == SPEC_STRAGGLERS_AUTO)
        out.how = choose(out.wait_ms, elastic_ms, greedy_ms);
    out.ms = out.how == SPEC_STRAGGLERS_ELASTIC  ? elastic_ms
             : out.how == SPEC_STRAGGLERS_GREEDY ? greedy_ms
                                                 : out.wait_ms;
    if (out.how != SPEC_STRAGGLERS_ELASTIC)
        return out;
    if (step % STRAGGLERS_LOOK == 0)
        look(shares, n);
    memcpy(out.shares, shares, sizeof out.shares);
    return out;
}
