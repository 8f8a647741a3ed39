/* balance/network.h - what a message takes between any two nodes, from what each says of itself.
 *
 * Layer: balance (may use api base). Threads: any; pure.
 */
#ifndef BALANCE_NETWORK_H
#define BALANCE_NETWORK_H

#include "api/mark.h"
#include "balance/cost.h"

struct network_node {
    const char *name;
    const struct mark *mark;        /* what is declared; NULL: nothing is */
    const struct node_probe *probe; /* what was measured; NULL: nothing was */
};

/* Fill in out[n][n], symmetrical, for partition_request.links.
 *
 * A node's end of a link is what is declared for it, else what was measured between the two, else
 * the median of what it measured to others. The link is as slow as its slower end, and
 * COST_LINK_DEFAULT where neither end says anything. When both ends have measured each other, a
 * message there and one back take as long as over the link: that is what a stage does.
 *
 * No two measurements of one and the same link agree, so without more each pair of nodes would seem
 * to be another one: a plan would follow what is noise, and the search over orders of nodes, which
 * is quick when links are alike, would have to look at all of them. So measured figures within a
 * quarter of the smallest one are taken for the same, for their mean; and so on from the next that
 * is larger. Steps at fixed places would part two equal links that happen to lie on both sides of
 * one. What is declared is taken as it is.
 *
 * Returns false, with `out` as it was, when no node says anything about its links. */
bool network_links(const struct network_node *nodes, int n, struct cost_link *out);

#endif
