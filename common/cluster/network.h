/* cluster/network.h - the speed of the link between any two nodes, from what each of them measured
 * or declares.
 *
 * Layer: cluster (may use api, base). Threads: any; pure.
 */
#ifndef CLUSTER_NETWORK_H
#define CLUSTER_NETWORK_H

#include "cluster/annotation.h"

/* A link between two stages, in each direction. */
struct cost_link {
    double bytes_per_s;
    double latency_ms;
};

/* A pod network on 1 to 10 Gbit/s, or loopback with a busy CPU. */
#define COST_LINK_DEFAULT                                                                          \
    {                                                                                              \
        .bytes_per_s = 200e6, .latency_ms = 0.3                                                    \
    }

struct network_node {
    const char *name;
    const struct annotations *annotations; /* declared; NULL: nothing */
    const struct node_probe *probe;        /* measured; NULL: nothing */
};

/* Fill in out[n][n], symmetrical, for partition_request.links.
 *
 * A node's end of a link is what is declared for the node, else what was measured between the two,
 * else the median of what the node measured to others. The link is as slow as its slower end, and
 * COST_LINK_DEFAULT if neither end has any figures. When both ends have measured each other, the
 * link's figures give the measured time of a round trip, which is what a stage needs.
 *
 * Two measurements of the same link never agree. Taken as they are, they would make every pair of
 * nodes different: plans would follow noise, and the search over orders of nodes, which is quick
 * when links are alike, would have to try all of them. So measured figures are clustered: those
 * within a quarter of the smallest one are replaced by their mean, and so on from the next larger
 * one. A fixed grid would separate two nearly equal links on both sides of a grid line. Declared
 * figures are not changed.
 *
 * Returns false, with `out` unchanged, if no node has any figures about its links. */
bool network_links(const struct network_node *nodes, int n, struct cost_link *out);

#endif
