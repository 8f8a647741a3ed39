/* balance/subsets.h (private) - the shortest sum of times over all cuts, orders and choices of
 * nodes.
 *
 * Dynamic programming over (set of nodes, link class of the first of them, first unit). Let
 * g(D, c, u) be the least sum of times in which the nodes of D, in any order but with one of class
 * c first, run units u..n-1, with no stage or edge above cap_ms. The first of those stages is some
 * node d of class c in D with a run u..v-1, and the class c' of the next decides what the edge
 * between them takes, so
 *
 *     g(D, c, u) = min over d, v of  time(d, u, v) + m(D - d, c, v)
 *     m(D, c, v) = min over c' of    edge(c, c', v), there and back + g(D, c', v)
 *
 * because nothing about the stages behind depends on d or on the run: their times are their own,
 * and the memory of a stage depends only on how many stages are behind it, which is |D| - 1 for
 * this one and known within D - d for the others. So an optimal solution contains an optimal
 * solution of the rest (Held and Karp 1962). m is the same for every d of a class, so classes add
 * little work.
 *
 * Nodes of one kind (balance/cut.h) are interchangeable, so a set is a count per kind: 2^nodes sets
 * if all nodes differ, 17^4 for 64 nodes of 4 kinds. Work: sets * (units + 1) states with a choice
 * of kinds each, all runs of which front_runs() evaluates together.
 * Layer: balance. Threads: any, each with its own workspace.
 */
#ifndef BALANCE_SUBSETS_H
#define BALANCE_SUBSETS_H

#include "balance/cut.h"

struct subsets {
    size_t n_sets;
    size_t step[PARTITION_CANDIDATES_MAX]; /* from a set to the one with a node of a kind more */
    int most[PARTITION_CANDIDATES_MAX];    /* nodes of each kind that a set has */
    double *sum_ms;                        /* [n_sets][n_classes][n_units+1] */
    struct subsets_choice *choice;
    double cap_ms, limit_ms;               /* of the solve at hand */
    double behind_ms[MODEL_UNITS_MAX + 1]; /* the set at hand, with the edge in front of it */
    short behind[MODEL_UNITS_MAX + 1];     /* and the link class of its first stage */
    int least_end, most_end;               /* where it may begin */
};

/* The work of a search over these numbers of nodes of each kind, in states times kinds. */
double subsets_work(const int *counts, int n_kinds, int n_units, int max_stages);

MUST_CHECK enum err_code subsets_init(const struct cut_problem *p, struct subsets *out,
                                      struct err *err);
void subsets_deinit(struct subsets *s);

/* The cut with the least sum_ms among those whose max_ms is at most cap_ms; among equals one with
 * the fewest stages. False when there is none. `subsets` is a struct subsets. */
bool subsets_solve(const struct cut_problem *p, void *subsets, double cap_ms, double limit_ms,
                   struct cut *out);

#endif
