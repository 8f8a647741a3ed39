/* balance/chain.h (private) - the shortest sum of times for one order of nodes, any of which may be
 * skipped.
 *
 * Dynamic programming from the back over (position in the order, stages used, link class of the
 * first stage, first unit), with the same argument as balance/subsets.h. A node that is added to
 * the order can be skipped, so the result never gets worse by it.
 *
 * The number of stages behind, the level, matters for memory until it reaches the number of
 * micro-batches, and for minStages and maxStages. From a last level on levels are merged. If every
 * run under the cap fits into memory at any position and the limits are out of reach, one level is
 * enough; if not, one level is tried first, which may count too little memory but never too much.
 * Units are skipped that the nodes before a position cannot reach, or from which the nodes behind
 * it cannot reach the end. Work: nodes * levels * remaining units * link classes.
 * Layer: balance. Threads: any, each with its own workspace.
 */
#ifndef BALANCE_CHAIN_H
#define BALANCE_CHAIN_H

#include "balance/cut.h"

struct chain {
    int n_nodes;
    int order[PARTITION_CANDIDATES_MAX]; /* candidates, first stage first; set before solving */
    double *sum_ms;                      /* [n_classes+2][max_stages+1][n_units+1] */
    double *behind[PARTITION_CANDIDATES_MAX]; /* parts of it, by class of the first stage */
    double *with;                             /* part of it: with the node being added */
    double *least_ms;            /* part of it: the least of all classes, by level and first unit */
    int *least_begin;            /* [max_stages+1] lowest first unit of all states of a level */
    struct chain_choice *choice; /* [n_nodes][max_stages+1][n_units+1] */
    int memory_level;            /* up to which levels matter for memory */
    int last_level;              /* of the current solve */
    /* Every run of a candidate fits into its memory up to this cap, and not from that cap on. */
    double roomy_ms[PARTITION_CANDIDATES_MAX], tight_ms[PARTITION_CANDIDATES_MAX];
    int reach[PARTITION_CANDIDATES_MAX + 1]; /* units that the nodes before a position can run */
    int begin[PARTITION_CANDIDATES_MAX +
              1]; /* least first unit from which those behind can reach the end */
    double front_ms[MODEL_UNITS_MAX + 1];   /* what is behind, with the edge to it, by first unit */
    short front_class[MODEL_UNITS_MAX + 1]; /* and the link class there */
};

/* The order is the problem's own at first. */
MUST_CHECK enum err_code chain_init(const struct cut_problem *p, struct chain *out,
                                    struct err *err);
void chain_deinit(struct chain *c);

/* As subsets_solve(). `chain` is a struct chain; it may hold fewer nodes than the problem. */
bool chain_solve(const struct cut_problem *p, void *chain, double cap_ms, double limit_ms,
                 struct cut *out);

#endif
