#include "cli/tuner.h"

#include <assert.h>
#include <math.h>

#define PI             3.14159265358979323846
#define BISECTIONS_MAX 60 /* then the interval is as small as a double allows */

const int tuner_percents[TUNER_CANDIDATES] = {0, 6, 12, 25, 50};

/* --- Student's t --- */

/* P(|T| < t) for t = sqrt(n) tan(angle) and n degrees of freedom, by the finite sums of Abramowitz
 * and Stegun, 26.7.3 for odd n and 26.7.4 for even n. */
static double probability_within(double angle, int n)
{
    double c = cos(angle);
    double term = n % 2 == 1 ? c : 1;
    double sum = n == 1 ? 0 : term;

    for (int k = n % 2 == 1 ? 3 : 2; k < n; k += 2) {
        term *= c * c * (k - 1) / k;
        sum += term;
    }
    return n % 2 == 1 ? 2 / PI * (angle + sin(angle) * sum) : sin(angle) * sum;
}

double tuner_t(double tail, int n_free)
{
    double low = 0;
    double high = PI / 2;

    assert(tail > 0 && tail <= 0.5 && n_free > 0);
    for (int i = 0; i < BISECTIONS_MAX; i++) {
        double angle = (low + high) / 2;

        if (probability_within(angle, n_free) < 1 - 2 * tail)
            low = angle;
        else
            high = angle;
    }
    return sqrt(n_free) * tan((low + high) / 2);
}

/* --- bounds --- */

static int first_look(const struct tuner *t)
{
    return t->n_pairs_max < TUNER_LOOK_FIRST ? t->n_pairs_max : TUNER_LOOK_FIRST;
}

static double mean_of(const double *values, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += values[i];
    return sum / n;
}

/* How far either bound is from the mean. */
static double reach_of(const struct tuner *t, const double *differences, int n)
{
    int n_looks = t->n_pairs_max - first_look(t) + 1;
    double mean = mean_of(differences, n);
    double squares = 0;

    if (n < 2)
        return INFINITY;
    for (int i = 0; i < n; i++)
        squares += (differences[i] - mean) * (differences[i] - mean);
    return tuner_t(TUNER_ALPHA / n_looks, n - 1) * sqrt(squares / (n - 1) / n);
}

static int differences_of(const struct tuner *t, int candidate, double out[static TUNER_RUNS_MAX])
{
    const struct tuner_candidate *c = &t->candidates[candidate];
    int n = 0;

    for (int i = 0; i < c->n; i++)
        if (c->runs[i].is_trained) {
            double difference = c->runs[i].metric - t->references[i].metric;

            out[n++] = t->is_less_better ? -difference : difference;
        }
    return n;
}

/* --- verdicts --- */

/* Pairs that repeat the best one raise the mean and lower the spread: what even they cannot show is
 * not worth more runs. This only ends a test that would fail, and so leaves its level as it is. */
static bool is_futile(const struct tuner *t, const double *differences, int n)
{
    double all[TUNER_RUNS_MAX];
    double best = -INFINITY;

    for (int i = 0; i < n; i++) {
        all[i] = differences[i];
        best = fmax(best, differences[i]);
    }
    for (int k = n; k < t->n_pairs_max; k++) {
        all[k] = best;
        if (mean_of(all, k + 1) - reach_of(t, all, k + 1) > -t->margin)
            return false;
    }
    return true;
}

static enum tuner_verdict judge(const struct tuner *t, const double *differences, int n)
{
    double mean, reach;

    if (n < first_look(t))
        return TUNER_OPEN;
    mean = mean_of(differences, n);
    reach = reach_of(t, differences, n);
    if (mean - reach > -t->margin)
        return TUNER_GOOD;
    if (mean + reach < -t->margin)
        return TUNER_WORSE;
    if (n == t->n_pairs_max)
        return TUNER_UNDECIDED;
    return is_futile(t, differences, n) ? TUNER_FUTILE : TUNER_OPEN;
}

static enum tuner_verdict verdict_of(const struct tuner *t, int candidate)
{
    double differences[TUNER_RUNS_MAX];
    int n = differences_of(t, candidate, differences);

    return n < t->candidates[candidate].n ? TUNER_FAILED : judge(t, differences, n);
}

/* The first that is good or open, as all before it are not good enough. */
static int current(const struct tuner *t)
{
    int i = 0;

    while (i < TUNER_CANDIDATES && verdict_of(t, i) != TUNER_OPEN && verdict_of(t, i) != TUNER_GOOD)
        i++;
    return i;
}

void tuner_init(struct tuner *t, double margin, bool is_less_better, int n_pairs_max)
{
    assert(margin >= 0 && n_pairs_max >= TUNER_RUNS_MIN && n_pairs_max <= TUNER_RUNS_MAX);
    *t = (struct tuner){
        .margin = margin, .is_less_better = is_less_better, .n_pairs_max = n_pairs_max};
}

bool tuner_next(const struct tuner *t, struct tuner_run *out)
{
    int i = current(t);
    int seed;

    if (i == TUNER_CANDIDATES || verdict_of(t, i) == TUNER_GOOD)
        return false;
    seed = t->candidates[i].n;
    *out = (struct tuner_run){.percent = seed < t->n_references ? tuner_percents[i] : TUNER_BSP,
                              .seed = seed};
    return true;
}

void tuner_note(struct tuner *t, const struct tuner_result *result)
{
    struct tuner_candidate *c = &t->candidates[current(t)];
    struct tuner_run run;
    bool is_wanted = tuner_next(t, &run);

    assert(is_wanted && (run.percent != TUNER_BSP || result->is_trained));
    (void)is_wanted;
    if (run.percent == TUNER_BSP)
        t->references[t->n_references++] = *result;
    else
        c->runs[c->n++] = *result;
}

/* --- what came out --- */

struct tuner_summary tuner_summary(const struct tuner *t, int candidate)
{
    const struct tuner_candidate *c = &t->candidates[candidate];
    double differences[TUNER_RUNS_MAX];
    int n = differences_of(t, candidate, differences);
    struct tuner_summary out = {.verdict = verdict_of(t, candidate), .n_pairs = n};

    out.mean = n > 0 ? mean_of(differences, n) : NAN;
    out.lower = n > 1 ? out.mean - reach_of(t, differences, n) : -INFINITY;
    out.upper = n > 1 ? out.mean + reach_of(t, differences, n) : INFINITY;
    for (int i = 0; i < c->n; i++)
        if (c->runs[i].is_trained) {
            out.seconds += c->runs[i].seconds;
            out.bsp_seconds += t->references[i].seconds;
        }
    out.seconds = n > 0 ? out.seconds / n : NAN;
    out.bsp_seconds = n > 0 ? out.bsp_seconds / n : NAN;
    return out;
}

int tuner_answer(const struct tuner *t)
{
    int i = current(t);

    return i < TUNER_CANDIDATES && verdict_of(t, i) == TUNER_GOOD ? tuner_percents[i] : TUNER_BSP;
}

int tuner_count(const struct tuner *t)
{
    int n = t->n_references;

    for (int i = 0; i < TUNER_CANDIDATES; i++)
        n += t->candidates[i].n;
    return n;
}

static double seconds_of(const struct tuner_result *runs, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += runs[i].seconds;
    return sum;
}

double tuner_seconds(const struct tuner *t)
{
    double sum = seconds_of(t->references, t->n_references);

    for (int i = 0; i < TUNER_CANDIDATES; i++)
        sum += seconds_of(t->candidates[i].runs, t->candidates[i].n);
    return sum;
}

double tuner_saving(const struct tuner *t)
{
    int i = current(t);
    struct tuner_summary s;

    if (tuner_answer(t) == TUNER_BSP)
        return 0;
    s = tuner_summary(t, i);
    return s.bsp_seconds - s.seconds;
}
