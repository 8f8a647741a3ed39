#include "balance/dynamic.h"

#include <math.h>

#define SWEEPS_PER_UNIT 4 /* over all boundaries; it has settled long before */

static bool fits(const struct cut_problem *p, const struct cut *c, int s)
{
    return cut_stage_bytes(p, c, s) <= p->memory[c->node[s]];
}

static int units_of(const struct cut *c, int s)
{
    return c->first[s + 1] - c->first[s];
}

static double stage_ms(const struct cut_problem *p, const struct cut *c, int s)
{
    return cut_run_ms(p, c->node[s], c->first[s], c->first[s + 1]);
}

/* Push what is too much to the next stage, from first to last, and then back from last to first. */
static void repair_memory(const struct cut_problem *p, struct cut *c)
{
    for (int s = 0; s < c->n_stages - 1; s++)
        while (units_of(c, s) > 1 && !fits(p, c, s))
            c->first[s + 1]--;
    for (int s = c->n_stages - 1; s > 0; s--)
        while (units_of(c, s) > 1 && !fits(p, c, s))
            c->first[s]++;
}

static double mean_ms(const struct cut_problem *p, const struct cut *c)
{
    double sum = 0;

    for (int s = 0; s < c->n_stages; s++)
        sum += stage_ms(p, c, s);
    return sum / c->n_stages;
}

/* Is it better to have the boundary behind stage `s` where it is now? */
static bool is_gain(const struct cut_problem *p, enum dynamic_form form, const struct cut *c, int s,
                    double own_before, double next_before, double mean)
{
    double own = stage_ms(p, c, s);

    if (form == DYNAMIC_AS_RELEASED)
        return fabs(own - mean) < fabs(own_before - mean);
    return fmax(own, stage_ms(p, c, s + 1)) < fmax(own_before, next_before);
}

/* Move the boundary behind stage `s` by one unit if that is a gain. */
static bool move(const struct cut_problem *p, enum dynamic_form form, struct cut *c, int s)
{
    double mean = mean_ms(p, c);
    double own = stage_ms(p, c, s);
    double next = form == DYNAMIC_AS_RELEASED ? own : stage_ms(p, c, s + 1);
    int by;

    if (own < mean && units_of(c, s + 1) > 1)
        by = 1;
    else if (own > mean && next < own && units_of(c, s) > 1)
        by = -1;
    else
        return false;
    c->first[s + 1] += by;
    if (is_gain(p, form, c, s, own, next, mean) && fits(p, c, s) && fits(p, c, s + 1))
        return true;
    c->first[s + 1] -= by;
    return false;
}

void dynamic_improve(const struct cut_problem *p, enum dynamic_form form, struct cut *cut)
{
    struct cut now = *cut;

    repair_memory(p, &now);
    cut_measure(p, &now);
    *cut = now;
    for (int sweep = 0; sweep < SWEEPS_PER_UNIT * p->n_units; sweep++) {
        bool moved = false;

        for (int s = 0; s < now.n_stages - 1; s++)
            moved = move(p, form, &now, s) || moved;
        if (!moved)
            return;
        cut_measure(p, &now);
        if (cut_step_ms(p, &now) < cut_step_ms(p, cut))
            *cut = now;
    }
}
