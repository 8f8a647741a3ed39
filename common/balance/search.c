#include "balance/search.h"

#include <math.h>

/* Just below: cuts that differ by less than this are the same to us. */
#define BELOW (1 - 1e-9)

/* For a cut with a max above `lo`. */
static bool ask(struct search *s, double lo, double cap_ms, struct cut *out)
{
    double limit_ms = INFINITY;
    double ms;

    s->n_solves++;
    if (s->found)
        limit_ms = s->best_ms * (BELOW - s->gain) - (s->problem->n_microbatches - 1) * lo;
    if (!s->solve(s->problem, s->workspace, cap_ms, limit_ms, out))
        return false;
    ms = cut_step_ms(s->problem, out);
    if (!s->found || ms < s->best_ms * BELOW) {
        s->best = *out;
        s->best_ms = ms;
        s->found = true;
    }
    return true;
}

/* Can a cut with a max above `lo` and a sum of at least `sum_ms` still be the best? */
static bool is_open(const struct search *s, double lo, double sum_ms)
{
    return s->best_ms > s->enough_ms &&
           sum_ms + (s->problem->n_microbatches - 1) * lo < s->best_ms * (BELOW - s->gain);
}

/* Look at all cuts with max in (lo, hi), whose sums are at least `sum_ms`. Each level halves the
 * interval, so the depth is that of the doubles between lo and hi: 60 at most before BELOW ends it.
 */
static void narrow(struct search *s, double lo, double hi, double sum_ms)
{
    double middle;
    struct cut top;
    struct cut half;

    if (!is_open(s, lo, sum_ms) || lo >= hi * BELOW)
        return;
    if (s->n_solves >= SEARCH_SOLVES_MAX) {
        s->open_ms = fmin(s->open_ms, sum_ms + (s->problem->n_microbatches - 1) * lo);
        return;
    }
    if (!ask(s, lo, hi * BELOW, &top) || !is_open(s, lo, top.sum_ms))
        return;
    middle = (lo + top.max_ms) / 2;
    if (!ask(s, lo, middle, &half)) {
        narrow(s, middle, top.max_ms, top.sum_ms);
        return;
    }
    narrow(s, lo, half.max_ms, half.sum_ms);
    narrow(s, middle, top.max_ms, top.sum_ms);
}

/* No stage can be faster than the slowest unit on its fastest node. */
static double least_max(const struct cut_problem *p)
{
    double least = 0;

    for (int u = 0; u < p->n_units; u++) {
        double fastest = INFINITY;

        for (int i = 0; i < p->n_nodes; i++)
            fastest = fmin(fastest, cut_least_ms(p, i, u, u + 1));
        least = fmax(least, fastest);
    }
    return least;
}

void search_run(struct search *s)
{
    struct cut first;
    double lo = fmax(s->lo_ms, least_max(s->problem) * BELOW);

    s->n_solves = 0;
    s->open_ms = INFINITY;
    if (ask(s, lo, s->hi_ms > 0 ? s->hi_ms : INFINITY, &first))
        narrow(s, lo, first.max_ms, first.sum_ms);
}
