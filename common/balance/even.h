/* balance/even.h - the same number of layers for every node, as is usual elsewhere. Private.
 *
 * Layer: balance. Threads: any.
 */
#ifndef BALANCE_EVEN_H
#define BALANCE_EVEN_H

#include "balance/cut.h"

/* Cut the problem for its nodes in their order, as many as max_stages lets in. Attention and
 * feed-forward of a layer stay together, embeddings go with the first and pooler and head with the
 * last stage; only with more stages than layers it is units that are counted. Memory is not
 * looked at. */
void even_cut(const struct cut_problem *p, int n_layers, struct cut *out);

#endif
