/* draw.h - the published experiment in numbers: clusters of slowed-down nodes, a deep BERT.
 *
 * Sky Computing (arXiv 2202.11836) trained BERT-large widened to 24, 80 and 160 layers on 16, 32
 * and 64 workers that were slowed down on purpose. Here nothing is trained: times come from our
 * cost model, the same for every method, with 16 GiB a node and links that are alike.
 */
#ifndef PLACEMENT_DRAW_H
#define PLACEMENT_DRAW_H

#include "balance/cut.h"

#define DRAW_NODES_MAX 64
#define DRAW_DRAWS     30

enum draw_slowness {
    DRAW_INTEGERS, /* 2 to 7 times as long, in whole numbers, as in the release */
    DRAW_EVENLY,   /* anything from 1 to 2 times */
    DRAW_SLOWNESSES,
};

/* How a step runs, which is what decides what a good cut is. */
enum draw_runtime {
    DRAW_SERIAL,    /* one stage after the other, the whole batch at once */
    DRAW_PIPELINE,  /* 8 micro-batches */
    DRAW_PIPELINE4, /* 32: four times as many */
    DRAW_RUNTIMES,
};

struct draw {
    struct spec spec;
    struct node nodes[DRAW_NODES_MAX];
    struct partition_request request; /* points into these */
};

/* Draw number i of a setting; the same in every run, and the same nodes for every runtime. */
void draw_make(struct draw *out, int n_nodes, int n_layers, enum draw_slowness slowness, int i);
/* Let it run another way. */
void draw_run_as(struct draw *d, enum draw_runtime runtime);

const char *draw_slowness_name(enum draw_slowness s);
const char *draw_runtime_name(enum draw_runtime r);

/* Nodes of a large cluster: 1 to 7 times slower than the fastest, 4 to 12 GiB. */
void draw_many(struct node *out, int n);

/* The problem with 2 units a layer, which are ours, or 3, as published: attention, and the two
 * products of the feed-forward block apart. Nodes in their order, or the fastest first. */
void draw_problem(const struct draw *d, int per_layer, bool is_fastest_first,
                  struct cut_problem *out);

#endif
