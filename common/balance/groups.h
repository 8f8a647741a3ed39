/* balance/groups.h - which nodes are near each other, at any distance. Private to balance.
 *
 * The distance of two nodes is the time of an edge between layers. The nodes' shortest spanning
 * tree tells, for every distance, which of them can be reached from each other over edges no longer
 * than that: they form a group, and whatever leads from one group to another is longer. A building
 * with a fast network inside is a group of nodes; so is a whole cluster whose links are alike.
 * Layer: balance (may use api base). Threads: any; only read once it is made.
 */
#ifndef BALANCE_GROUPS_H
#define BALANCE_GROUPS_H

#include "balance/request.h"

#define GROUPS_SCALES_MAX 2

struct groups {
    int n;
    int *order;  /* [n] from the first, each joined to one before it; groups are in one piece */
    int *parent; /* [n] to which each is joined; the first: itself */
    double *ms;  /* [n] how far that is; the first: 0 */
    double *least_ms; /* [n] from each to the nearest other; 0 for a node alone */
    double most_ms;   /* between the two that are furthest apart */
    int n_scales;     /* distances after which a much greater one is needed to join groups */
    double scale_ms[GROUPS_SCALES_MAX]; /* the greatest step first */
    double next_ms[GROUPS_SCALES_MAX];  /* least distance between groups of that scale */
};

/* Of the `n` nodes in `nodes`, indices into the request. groups_deinit() what *out holds.
 * ERR_NO_MEMORY. Work: n * n, or n when all links are alike. */
MUST_CHECK enum err_code groups_init(const struct partition_request *r, const int *nodes, int n,
                                     struct groups *out, struct err *err);
void groups_deinit(struct groups *g);

/* Number the groups whose nodes are joined by at most `ms`, to out_group[n]; returns how many. */
int groups_at(const struct groups *g, double ms, int *out_group);

#endif
