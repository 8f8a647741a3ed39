#include "released.h"

#include <math.h>

#define SWEEPS_PER_UNIT 4 /* over all boundaries; it converges long before */

static double stage_ms(const struct cut_problem *p, const struct cut *c, int s)
{
    return cut_run_ms(p, c->node[s], c->first[s], c->first[s + 1]);
}

/* Move the boundary behind stage `s` to the right by one unit if that is a gain. */
static bool move(const struct cut_problem *p, struct cut *c, int s)
{
    double own = stage_ms(p, c, s);
    double mean = 0;

    for (int i = 0; i < c->n_stages; i++)
        mean += stage_ms(p, c, i);
    mean /= c->n_stages;
    if (own >= mean || c->first[s + 2] - c->first[s + 1] == 1)
        return false;
    c->first[s + 1]++;
    if (fabs(stage_ms(p, c, s) - mean) < fabs(own - mean))
        return true;
    c->first[s + 1]--;
    return false;
}

void released_improve(const struct cut_problem *p, struct cut *cut)
{
    struct cut now = *cut;
    bool moved = true;

    for (int sweep = 0; moved && sweep < SWEEPS_PER_UNIT * p->n_units; sweep++) {
        moved = false;
        for (int s = 0; s < now.n_stages - 1; s++)
            moved = move(p, &now, s) || moved;
        cut_measure(p, &now);
        if (cut_step_ms(p, &now) < cut_step_ms(p, cut))
            *cut = now;
    }
}
