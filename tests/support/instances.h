/* instances.h - random placement problems, the same in every run, and what trying everything finds.
 */
#ifndef INSTANCES_H
#define INSTANCES_H

#include "balance/partition.h"

#include "base/bytes.h"

#define INSTANCE_NODES_TRIED 4 /* whose orders can all be tried */
#define INSTANCE_NODES_MAX   80

struct dice {
    uint64_t state;
};

double roll(struct dice *d, double from, double to);
int roll_int(struct dice *d, int from, int to);

struct instance {
    struct spec spec;
    struct node nodes[INSTANCE_NODES_MAX];
    struct partition_request request; /* points into these */
    struct cost_link links[INSTANCE_NODES_MAX * INSTANCE_NODES_MAX];
};

/* Memory, links, quotas, minStages and maxStages bite in many of them. */
void make_instance(struct instance *in, struct dice *d, int n_layers, int n_nodes);

enum link_style {
    LINKS_OWN,       /* every pair has a link of its own */
    LINKS_BUILDINGS, /* fast within a building, slow between two */
    LINKS_UPLINKS,   /* the slower of two nodes' own connections, of which there are three kinds */
    LINK_STYLES,
};

/* Links that differ, for the nodes that there are. */
void make_links(struct instance *in, struct dice *d, enum link_style style);

/* BERT-base on nodes 0, 2, 4 ... in one building and 1, 3, 5 ... in another. */
void make_buildings(struct instance *in, int n_nodes, double between_bytes_per_s);

/* Forget the last node and its links. */
void drop_node(struct instance *in);

/* What a micro-batch takes on a node that has waited, as a share: cost_fill_share(), written again.
 */
double instance_fill(const struct instance *in, int node);

/* What the messages of one edge take on a node, per micro-batch: cost_messages_ms(), written again.
 */
double instance_messages_ms(const struct instance *in, int node);

enum oracle_order {
    ORACLE_ANY_ORDER,
    ORACLE_THIS_ORDER, /* the nodes as they stand, any of which may be left out */
};

/* The shortest step of every order of every choice of nodes and every cut, by formulas written
 * again; INFINITY when nothing fits. */
double oracle_ms(const struct instance *in, enum oracle_order order, bool ignores_memory);

#endif
