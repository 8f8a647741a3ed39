/* balance/reshare.h - replicas of a running job on the workers that they have: other shares of the
 * batch for the speeds of today, and if need be other cuts.
 *
 * The request's nodes are the workers of the plan in its order, each as fast as it is now, with the
 * memory of its pod. Every worker stays in its replica and its place. T(m) is the time of a replica
 * for m micro-batches, as in balance/replicas.h, with its present cut or with its best one. It
 * never falls with m, so the slowest replica takes least if every replica has one micro-batch, and
 * every further one goes to the replica that would be done first with it. Layer: balance (may use
 * api, base). Threads: any; pure but for the memory it works in.
 */
#ifndef BALANCE_RESHARE_H
#define BALANCE_RESHARE_H

#include "balance/replicas.h"

/* The plan's replicas with these shares, and with these units per worker or, if NULL, those of the
 * plan, whether or not they fit. The placements' nodes are those of the request; there are no
 * bounds or alternatives. ERR_NO_MEMORY. */
MUST_CHECK enum err_code reshare_measure(const struct partition_request *request,
                                         const struct plan *plan, const int *shares,
                                         const int *n_units, struct replicas *out, struct err *err);

/* The best shares, with the plan's cuts, or if `recuts` with those that are best for each replica
 * and its share. A worker's units fit into its pod beside those that it gives away, which stay
 * until the first step is over. ERR_NOT_FOUND when that cannot be; ERR_NO_MEMORY. */
MUST_CHECK enum err_code reshare_find(const struct partition_request *request,
                                      const struct plan *plan, bool recuts, struct replicas *out,
                                      struct err *err);

#endif
