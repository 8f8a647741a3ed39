/* balance/rules.h (private) - the strategies that follow a rule instead of a search: Even, Dynamic,
 * Manual.
 *
 * Even gives every node the same number of layers, as is usual elsewhere.
 *
 * Dynamic is the heuristic of Sky Computing (arXiv 2202.11836). It starts from the even cut over
 * the nodes in their order. First memory is repaired, by moving units out of stages that do not
 * fit; then single units move over the boundaries between neighbours, towards the mean time: a
 * stage below the mean takes a unit from the next one, and a stage above it gives a unit to a next
 * one with less to do, as long as the slower of the two gets faster. The released code differs: see
 * tests/bench/released.h.
 *
 * Manual places the stages that spec.placement.manual lists.
 * Layer: balance. Threads: any.
 */
#ifndef BALANCE_RULES_H
#define BALANCE_RULES_H

#include "balance/cut.h"

/* Cut the problem for its nodes in their order, as many as max_stages allows. Attention and
 * feed-forward of a layer stay together, embeddings go with the first and pooler and head with the
 * last stage; units are counted instead only if there are more stages than layers. Ignores
 * memory. A layer has `per_layer` units: two, in every real model. */
void even_cut(const struct cut_problem *p, int n_layers, int per_layer, struct cut *out);

/* Improve the even cut in *cut: returns the best cut on the way, never a slower one unless the even
 * one does not fit into memory. The result may not fit either; see cut_misfit(). */
void dynamic_improve(const struct cut_problem *p, struct cut *cut);

/* The cut of `strategy`, which is not Optimal.
 *
 * Returns ERR_OK with stages and times filled in, of `out`, which is zeroed; *out_misfit is the
 * first stage that does not fit, or -1. There may be fewer stages than request->min_stages.
 * ERR_NOT_FOUND, with the entry's number, if Manual names a node that is not in the request or no
 * node is left that can hold a stage. ERR_NO_MEMORY. */
MUST_CHECK enum err_code rules_solve(const struct partition_request *request,
                                     enum spec_strategy strategy, struct placement *out,
                                     int *out_misfit, struct err *err);

#endif
