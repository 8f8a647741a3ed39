/* balance/dynamic.h - the heuristic of Sky Computing (arXiv 2202.11836). Private to balance.
 *
 * From the even cut over the nodes in their order: first memory is repaired, by moving units out of
 * stages that do not fit; then single units move over the boundaries between neighbours, towards
 * the mean time: a stage below the mean takes a unit from the next one, a stage above it gives one
 * to a next one with less to do, as long as the slower of the two gets faster.
 *
 * In what was released, the time of "the next one" is computed from the stage's own units, so a
 * stage above the mean never finds a next one with less to do, boundaries move to the right only,
 * and all there is to look at is whether the stage gets nearer to the mean. That
 * form is here for the benchmark, and no strategy uses it.
 * Layer: balance. Threads: any.
 */
#ifndef BALANCE_DYNAMIC_H
#define BALANCE_DYNAMIC_H

#include "balance/cut.h"

enum dynamic_form {
    DYNAMIC_MENDED,
    DYNAMIC_AS_RELEASED,
};

/* Improve the even cut in *cut: the best cut on the way, and never a slower one, unless the even
 * one does not fit into memory. It may still not fit afterwards; see cut_misfit(). */
void dynamic_improve(const struct cut_problem *p, enum dynamic_form form, struct cut *cut);

#endif
