#include "method.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "balance/partition.h"
#include "balance/rules.h"
#include "balance/search.h"
#include "released.h"

#define GAIN 2e-3 /* of a step, as the planner itself */

const char *method_name(enum method m)
{
    static const char *const names[METHODS] = {"Even",  "Released", "Mended",
                                               "Mixed", "Ours",     "OursAll"};

    return names[m];
}

double method_clock_ms(clockid_t clock)
{
    struct timespec now;

    if (clock_gettime(clock, &now) != 0)
        exit(1);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* Shares of layers' units, in the nodes' order; the embeddings go to the first, pooler and head to
 * the last. */
static bool mixed(const struct cut_problem *p, int n_layer_units, struct cut *out)
{
    int units[PARTITION_CANDIDATES_MAX] = {0};
    struct cut c = {.n_stages = 0};
    int at = 1;

    if (!mixed_solve(p, n_layer_units, units))
        return false;
    for (int i = 0; i < p->n_nodes; i++) {
        if (units[i] == 0)
            continue;
        c.node[c.n_stages] = i;
        c.first[c.n_stages++] = at;
        at += units[i];
    }
    c.first[0] = 0;
    c.first[c.n_stages] = p->n_units;
    cut_measure(p, &c);
    *out = c;
    return true;
}

/* One order is enough where all links are alike and memory is ample. */
static bool search(const struct cut_problem *p, struct cut *out)
{
    struct search s;
    bool is_found;

    if (search_init(p, SEARCH_ORDER, &s, NULL) != ERR_OK)
        exit(1);
    s.gain = GAIN;
    search_run(&s);
    is_found = s.found;
    *out = s.best;
    search_deinit(&s);
    return is_found;
}

static bool cut_by(enum method m, const struct draw *d, const struct cut_problem *p, int per_layer,
                   struct cut *out)
{
    int n_layers = d->spec.model.layers;

    if (m == METHOD_MIXED)
        return mixed(p, per_layer * n_layers, out);
    if (m == METHOD_OURS || m == METHOD_OURS_ALL)
        return search(p, out);
    even_cut(p, n_layers, per_layer, out);
    if (m == METHOD_RELEASED)
        released_improve(p, out);
    else if (m != METHOD_EVEN)
        dynamic_improve(p, out);
    return true;
}

static struct outcome run_planner(const struct draw *d, double *out_bound_ms)
{
    static struct placement placement;
    double start_ms = method_clock_ms(CLOCK_PROCESS_CPUTIME_ID);
    struct err err;

    if (partition_solve(&d->request, &placement, &err) != ERR_OK) {
        (void)fprintf(stderr, "bench-placement: %s\n", err.text);
        exit(1);
    }
    *out_bound_ms = placement.bound_ms;
    return (struct outcome){true, placement.predicted_step_ms,
                            method_clock_ms(CLOCK_PROCESS_CPUTIME_ID) - start_ms};
}

struct outcome method_run(enum method m, const struct draw *d, int per_layer, double *out_bound_ms)
{
    struct outcome result = {.is_there = false};
    clockid_t clock = m == METHOD_MIXED ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID;
    struct cut_problem p;
    struct cut cut;
    double start_ms;

    if (m == METHOD_OURS && per_layer == 2)
        return run_planner(d, out_bound_ms);
    draw_problem(d, per_layer, m >= METHOD_OURS, &p);
    if (m == METHOD_OURS_ALL)
        p.min_stages = p.max_stages;
    start_ms = method_clock_ms(clock);
    if (cut_by(m, d, &p, per_layer, &cut) && cut_misfit(&p, &cut) < 0)
        result = (struct outcome){true, cut_step_ms(&p, &cut), method_clock_ms(clock) - start_ms};
    cut_problem_deinit(&p);
    return result;
}
