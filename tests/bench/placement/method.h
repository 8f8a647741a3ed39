/* method.h - the ways to cut that are compared, each with the step it is predicted to take. */
#ifndef PLACEMENT_METHOD_H
#define PLACEMENT_METHOD_H

#include <time.h>

#include "draw.h"

enum method {
    METHOD_EVEN,     /* every node as many units, in their order */
    METHOD_RELEASED, /* the published heuristic as it was released: boundaries move one way only */
    METHOD_MENDED,   /* the same, mended: strategy Dynamic */
    METHOD_MIXED,    /* a mixed-integer program that stops within 20% of the least slowest stage */
    METHOD_OURS,     /* strategy Optimal */
    METHOD_OURS_ALL, /* the same with a stage on every node, for the serial runtime only */
    METHODS,
};

struct outcome {
    bool is_there;   /* there is a solver for it, and it found something that fits */
    double step_ms;  /* predicted */
    double solve_ms; /* to make the plan; of this process, or all of a solver's time */
};

const char *method_name(enum method m);

/* With 2 or 3 units a layer. *out_bound_ms is set by METHOD_OURS with 2. */
struct outcome method_run(enum method m, const struct draw *d, int per_layer, double *out_bound_ms);

double method_clock_ms(clockid_t clock);

/* A table of large clusters. */
void many_print(void);

/* Is glpsol there? */
bool mixed_is_there(void);
/* How many of the layers' units each node of the problem gets; false when there is no answer. */
bool mixed_solve(const struct cut_problem *p, int n_layer_units, int *out_units);

#endif
