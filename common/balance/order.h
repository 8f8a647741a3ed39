/* balance/order.h - which nodes to look at, and in what orders. Private to balance.
 *
 * A cut of many nodes is searched for in a few orders only, so these should be good ones: fast
 * nodes or those with much memory in front, but nodes that are near each other always together,
 * since every stage sends to the next.
 * Layer: balance. Threads: any.
 */
#ifndef BALANCE_ORDER_H
#define BALANCE_ORDER_H

#include "balance/groups.h"

/* A node that can hold at least one unit. */
struct ranked {
    int node;
    double ms; /* of the whole model on it */
    int64_t memory_bytes;
    int group;       /* of nodes near each other; 0 where none are set apart */
    int district;    /* of those that the greatest distance sets apart */
    double strength; /* of its district: what all its nodes do in a ms */
    int place;       /* in an order in which groups are then put together */
};

/* All of the request, to out[n_nodes]; returns how many there are. */
int order_rank(const struct partition_request *r, struct ranked *out);

/* Set group, district and strength; `g` was made of the nodes as they stand. ERR_NO_MEMORY. */
MUST_CHECK enum err_code order_group(const struct groups *g, struct ranked *nodes, int n,
                                     struct err *err);

/* Put the `k` most promising nodes first: mostly fast ones, and some with much memory. */
void order_select(struct ranked *nodes, int n, int k);
/* Or: the fastest of the strongest district, and of the next. */
void order_select_near(struct ranked *nodes, int n);

/* Most memory first. */
void order_by_memory(struct ranked *nodes, int n);
void order_reverse(struct ranked *nodes, int n);
/* Each next one nearest to the one before. */
void order_by_distance(const struct partition_request *r, struct ranked *nodes, int n);
/* Put nodes of a group together and groups that are near each other, and else keep the order. */
void order_keep_groups(struct ranked *nodes, int n);

#endif
