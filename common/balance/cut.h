/* balance/cut.h (private) - the partition problem in numbers, and one solution of it.
 *
 * Units 0..n_units-1 are cut into consecutive runs, each on another node. Sums over runs are
 * differences of prefix sums, so a run of any length costs the same to evaluate.
 *
 * Two nodes have alike links when every third node is as near to the one as to the other. This is
 * an equivalence: if it holds for a and b, and for b and c, then a node beside them is as near to a
 * as to b as to c, and ac = bc = ab, so it holds for a and c. So nodes fall into link classes, and
 * the link between two nodes depends on their classes alone: there is one class when all links are
 * alike, and one per node when all differ. Nodes of a class that also have the same speed and
 * memory are of one kind: a plan that swaps two of them is the same plan.
 * Layer: balance (may use api base). Threads: any; the problem is not changed once it is made.
 */
#ifndef BALANCE_CUT_H
#define BALANCE_CUT_H

#include "balance/partition.h"

struct kinds {
    int n;
    int of[PARTITION_CANDIDATES_MAX]; /* each node's */
    int count[PARTITION_CANDIDATES_MAX];
    int first[PARTITION_CANDIDATES_MAX];      /* node of each kind */
    int link_class[PARTITION_CANDIDATES_MAX]; /* of each kind, in ascending order */
};

/* Number the link classes of `n` nodes, indices into the request, from 0; returns how many. */
int link_classes(const struct partition_request *r, const int *nodes, int n, int *out_class);

/* For at most PARTITION_CANDIDATES_MAX nodes; `link_class` is what link_classes() found. */
void node_kinds(const struct partition_request *r, const int *nodes, int n, const int *link_class,
                struct kinds *out);

/* What a node is to every run of units on it. */
struct cut_node {
    int at;            /* index into the request */
    int64_t memory;    /* bytes that it offers */
    double fill, busy; /* shares of a run's time in sum_ms and in max_ms, see balance/cost.h */
    double message_ms; /* for each edge of a stage, see below */
};

void cut_nodes_init(const struct partition_request *r, const int *nodes, int n,
                    const struct cost_unit *units, int n_units, struct cut_node *out);

struct cut_problem {
    int n_units;
    int n_nodes; /* candidates, 1..PARTITION_CANDIDATES_MAX */
    int n_microbatches;
    int min_stages, max_stages;
    struct cut_node nodes[PARTITION_CANDIDATES_MAX];
    double *ms[PARTITION_CANDIDATES_MAX];   /* [n_units+1] prefix sums of unit times */
    int64_t *state_bytes;                   /* [n_units+1] prefix sums */
    int64_t *activation_bytes;              /* [n_units+1] prefix sums */
    int64_t *scratch_bytes;                 /* [k][n_units+1] largest of 2^k units from each */
    int64_t *slot_bytes;                    /* [n_units] behind each unit */
    int n_classes;                          /* of links */
    int class_of[PARTITION_CANDIDATES_MAX]; /* each node's */
    struct kinds kinds;                     /* of nodes */
    int64_t *edge_at;   /* [n_units+1] where in edge_ms the table in front of each unit is */
    double *edge_ms;    /* tables [n_classes][n_classes], one way; the last one is of zeros */
    void *memory_block; /* all arrays */
};

/* A way to cut: stage s is units first[s] .. first[s+1]-1 on candidate node[s]. */
struct cut {
    int n_stages;
    int node[SPEC_STAGES_MAX];
    int first[SPEC_STAGES_MAX + 1];
    double sum_ms; /* of stages as they fill the pipeline, and of edges there and back */
    double max_ms; /* slowest stage, as it is busy, or edge */
};

/* Take over `n_nodes` nodes of the request, at most PARTITION_CANDIDATES_MAX. ERR_NO_MEMORY. */
MUST_CHECK enum err_code cut_problem_init(const struct partition_request *request, const int *nodes,
                                          int n_nodes, struct cut_problem *out, struct err *err);
/* The same for a model that is cut into `n_units` other units, as in the literature. */
MUST_CHECK enum err_code cut_problem_init_units(const struct partition_request *request,
                                                const int *nodes, int n_nodes,
                                                const struct cost_unit *units, int n_units,
                                                struct cut_problem *out, struct err *err);
void cut_problem_deinit(struct cut_problem *p);

/* How many micro-batches are in flight in a stage that has `behind` stages behind it. */
static inline int cut_in_flight(const struct cut_problem *p, int behind)
{
    return behind + 1 < p->n_microbatches ? behind + 1 : p->n_microbatches;
}

static inline double cut_run_ms(const struct cut_problem *p, int node, int first, int end)
{
    return p->ms[node][end] - p->ms[node][first];
}

/* The same with the messages on both sides. All count as the largest, so that another unit never
 * makes a run in the middle shorter; the first and the last stage have one edge less. */
static inline double cut_stage_ms(const struct cut_problem *p, int node, int first, int end)
{
    return cut_run_ms(p, node, first, end) +
           ((first > 0) + (end < p->n_units)) * p->nodes[node].message_ms;
}

/* A run's term in sum_ms, and in max_ms. */
static inline double cut_fill_ms(const struct cut_problem *p, int node, int first, int end)
{
    return p->nodes[node].fill * cut_stage_ms(p, node, first, end);
}

static inline double cut_busy_ms(const struct cut_problem *p, int node, int first, int end)
{
    return p->nodes[node].busy * cut_stage_ms(p, node, first, end);
}

/* A lower bound of cut_busy_ms() that never falls when a unit is added. */
static inline double cut_least_ms(const struct cut_problem *p, int node, int first, int end)
{
    return p->nodes[node].busy * cut_run_ms(p, node, first, end);
}

/* Bytes of units first..end-1. The largest scratch among them is that of the 2^k first or of the
 * 2^k last of them. */
static inline int64_t cut_run_bytes(const struct cut_problem *p, int first, int end, int in_flight)
{
    int k = 31 - __builtin_clz((unsigned)(end - first));
    const int64_t *largest = p->scratch_bytes + (size_t)k * ((size_t)p->n_units + 1);
    int64_t front = largest[first];
    int64_t back = largest[end - (1 << k)];
    int64_t edges = (first > 0 ? p->slot_bytes[first - 1] : 0) +
                    (end < p->n_units ? p->slot_bytes[end - 1] : 0);

    return COST_PROCESS_BYTES + (first == 0 ? COST_DATA_BYTES : 0) +
           (p->state_bytes[end] - p->state_bytes[first]) +
           in_flight * (p->activation_bytes[end] - p->activation_bytes[first]) +
           (front > back ? front : back) + 2 * COST_LINK_SLOTS * edges;
}

/* Milliseconds, one way, of the edge behind unit end-1 from a node of link class `from` to one of
 * each class; zeros behind the last unit. A class of one node is infinitely far from itself. */
static inline const double *cut_edges_ms(const struct cut_problem *p, int from, int end)
{
    return p->edge_ms + p->edge_at[end] + (size_t)from * (size_t)p->n_classes;
}

/* Fill in sum_ms and max_ms from the stages. */
void cut_measure(const struct cut_problem *p, struct cut *c);

/* Bytes of stage s while units move: of those before, first..end-1, the ones that it gives away
 * stay until the first step is over. */
int64_t cut_moving_bytes(const struct cut_problem *p, const struct cut *c, int s, int first,
                         int end);

/* Bytes of stage s; the step that the cut is predicted to take. */
int64_t cut_stage_bytes(const struct cut_problem *p, const struct cut *c, int s);
double cut_step_ms(const struct cut_problem *p, const struct cut *c);

/* The first stage that needs more memory than its node offers, or -1. */
int cut_misfit(const struct cut_problem *p, const struct cut *c);

/* Set stages, times and bottleneck of `out`. */
void cut_place(const struct cut_problem *p, const struct cut *c, struct placement *out);

#endif
