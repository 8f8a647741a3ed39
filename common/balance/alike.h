/* balance/alike.h - which nodes are alike: in their links, and in everything. Private to balance.
 *
 * Two nodes have alike links when every third node is as near to the one as to the other. If that
 * holds for a and b, and for b and c, then it does for a and c: a node beside them is as near to a
 * as to b as to c, and ac = bc = ab. So nodes fall into link classes, and the link between two
 * nodes depends on their classes alone: one class when all links are alike, one a node when all
 * differ. Nodes of a class that also have the same speed and memory are of one kind: a plan that
 * swaps two of them is the same plan.
 * Layer: balance (may use api base). Threads: any; pure.
 */
#ifndef BALANCE_ALIKE_H
#define BALANCE_ALIKE_H

#include "balance/request.h"

struct kinds {
    int n;
    int of[PARTITION_CANDIDATES_MAX]; /* each node's */
    int count[PARTITION_CANDIDATES_MAX];
    int first[PARTITION_CANDIDATES_MAX];      /* node of each kind */
    int link_class[PARTITION_CANDIDATES_MAX]; /* a kind's; never falls from one to the next */
};

/* Number the link classes of `n` nodes, indices into the request, from 0; returns how many. */
int alike_links(const struct partition_request *r, const int *nodes, int n, int *out_class);

/* For at most PARTITION_CANDIDATES_MAX nodes; `link_class` is what alike_links() found. */
void alike_nodes(const struct partition_request *r, const int *nodes, int n, const int *link_class,
                 struct kinds *out);

#endif
