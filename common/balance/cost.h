/* balance/cost.h - what a unit of BERT costs: arithmetic, bytes and time, from shapes alone.
 *
 * Time is counted in FLOPs, forward and backward of one micro-batch, and turned into milliseconds
 * with a node's measured GFLOP/s. Letters as in api/model.h; T is the tokens of a micro-batch
 * without padding, l the tokens of one sequence. A product [T,C] x [C,F] has 2 T C F FLOPs and its
 * backward twice as many (Narayanan et al. 2021, arXiv 2104.04473, appendix A):
 *
 *   attention     3 * (8 T C^2 + 4 C sum(l^2))     four projections; scores and values a sequence
 *   feed-forward  3 * 4 T C F
 *   pooler, head  3 * 2 B C^2 and 3 * 2 B C N      only the first token of each sequence
 *   LM head       3 * 2 t C (C + V)                t masked tokens; and a pooler for pre-training
 *
 * Memory-bound work is converted to the FLOPs that would take the same time (struct node_pace, as a
 * probe measured it, else the constants below):
 *
 *   embeddings    element * T C + sequence * B   the first stage tokenizes the texts
 *   all others    parameter * params    weights are read; gradients are read and written
 *   every unit    update * params / M   its share of the optimizer's pass
 *
 * FLOPs of attention and of feed-forward have a factor each, since products with narrow heads are
 * slower. A stage also sends and receives two messages per edge, which its CPU copies, checksums
 * and hands to the kernel: cost_messages_ms(), beside the FLOPs of its units. The products are
 * model_unit_flops(), which the probe divides by its time.
 *
 * Bytes of a stage at position s of S under 1F1B with M micro-batches, all numbers fp32:
 *   params * (1 weights + 1 gradients + 2 moments, 1 for SGD) + min(M, S - s) * activations kept
 *   + scratch of its largest unit + slots of its links + COST_PROCESS_BYTES
 *   + weights and gradients of the word embeddings once more on the LM head's stage
 *   + weights and moments once more where checkpoints are written, from a copy
 *   + weights once more where replicas may be out of step, and again with sync.outerMomentum
 *   + COST_DATA_BYTES on the first stage, which keeps the data set.
 * With activations recomputed, a unit keeps its output only, the rest is scratch, and its products
 * have 4 passes instead of 3 (except for the LM head, which is not recomputed).
 * Memory is counted for sequences of full length, since a stage takes its memory before it starts.
 * Within 1% of the worker's memory for BERT-mini to BERT-large.
 *
 * A node whose CPU limit is a fraction of a core computes at the speed of a whole core until its
 * quota for the period is used up; then it is stopped until the next one. A stage that is always
 * busy sees the mean: t. A stage that has waited for others, as all do while a pipeline fills and
 * drains, has the quota of a whole period Q = q P at hand, so CPU time c takes it
 *
 *     L(c) = min(c, Q) + max(0, c - Q) / q
 *
 * once for its forward, c = q t / 3, and once for its backward pass. So a step takes M t for the
 * slowest stage, and only L for every other stage. With f = L / t, which is 1 for whole cores:
 *
 *     step = max over stages ((M - f) t) + sum over stages (f t)
 *          = (M - 1) * max (busy t) + sum (f t)      busy = (M - f) / (M - 1)
 *
 * f depends on t a little. It is evaluated at the t that all stages would have if the model could
 * be cut anywhere over all candidates. Right would be the nodes of the plan, but these are known
 * only at the end, and a t for each plan would make one stage's term depend on all others; so f is
 * a property of the node, times add up, and all plans of a request are judged alike. A plan of few
 * of many candidates has longer stages than that t, so its f is larger: its fill and drain are
 * predicted too short, by at most 1 - q of them, and not at all on nodes with whole cores.
 * Layer: balance (may use api base). Threads: any; everything here is pure.
 */
#ifndef BALANCE_COST_H
#define BALANCE_COST_H

#include "api/node.h"
#include "api/spec.h"
#include "cluster/network.h"

/* As printed by `skyjob-worker probe` for BERT-base, 4 sequences of 16 tokens, on one core of an
 * AMD EPYC (OpenBLAS for AVX-512, fp32). */
#define COST_ELEMENT_FLOPS   200.0 /* 1.5 ns at 137 GFLOP/s */
#define COST_PARAMETER_FLOPS 135.0 /* 1.0 ns */
#define COST_UPDATE_FLOPS    100.0 /* 0.7 ns, AdamW and the gradients' norm */
#define COST_SEQUENCE_FLOPS  245e3 /* 2 us, sequences of the sample */

/* For a node that was not measured: as measured on a busy AMD EPYC. */
#define COST_MESSAGE_DEFAULT                                                                       \
    {                                                                                              \
        .ms = 0.07, .byte_ns = 1.0                                                                 \
    }

#define COST_PROCESS_BYTES ((int64_t)64 << 20) /* measured 20 MiB; more with BLAS threads */
#define COST_DATA_BYTES    ((int64_t)64 << 20) /* 400,000 sentence pairs as token ids */
#define COST_HEAD_MATRICES 16                  /* of the longest sequence squared, in attention */
#define COST_LM_ROWS       64                  /* masked tokens whose scores are held at once */
#define COST_FLOAT_BYTES   4                   /* of a parameter, and of each of its moments */
#define COST_LINK_SLOTS    2                   /* messages held by each end of an edge */
#define COST_LAYER_UNIT    1                   /* the first unit of a layer; they send alike */

/* What the cost of a job depends on: what the user wrote, and what was chosen or measured for it.
 */
struct cost_job {
    const struct spec *spec;
    int micro_batches;           /* M, which divides the batch size */
    bool saves_from_copy;        /* checkpoints are written from a copy of the state */
    struct node_lengths lengths; /* of the job's data; zeros: not measured */
    struct node_pace pace;       /* zeros: not measured */
};

/* Take what the fastest of the probes measured of the job's data and of its block; what none has
 * measured stays as it is. */
void cost_job_measured(struct cost_job *job, const struct node_probe *probes, int n);

/* A unit's share of a micro-batch. */
struct cost_unit {
    double flops;             /* forward and backward, and its share of the optimizer */
    int64_t state_bytes;      /* weights, gradients, moments; copies of other units' weights; and
                               * the copy of its own that a checkpoint is written from */
    int64_t activation_bytes; /* kept from forward to backward */
    int64_t scratch_bytes;    /* needed only while it computes */
    int64_t slot_bytes;       /* of one message to the next unit, or back; full length */
    double edge_mean_bytes;   /* what is really sent, at mean length */
};

/* A micro-batch of sequences of full length, and of mean length (api/node.h). */
struct model_load cost_load_full(const struct cost_job *job);
struct model_load cost_load_mean(const struct cost_job *job);

/* What was measured for the job, else the constants above. */
struct node_pace cost_pace(const struct cost_job *job);
/* The same job without the optimizer's share of a micro-batch: in a replica that is a time of its
 * own (balance/replicas.h). */
struct cost_job cost_job_in_replica(const struct cost_job *job);

/* Of a whole checkpoint: parameters and moments of all units. */
int64_t cost_checkpoint_bytes(const struct spec *spec);

void cost_of_unit(const struct cost_job *job, int unit, struct cost_unit *out);
/* All of them, to out[model_units()]; layers are alike, so more of them cost no more time. */
void cost_of_units(const struct cost_job *job, struct cost_unit *out);

/* Milliseconds of a unit, forward and backward of one micro-batch, on a node. */
double cost_unit_ms(const struct cost_unit *c, const struct node *n);

/* Lower bounds of the memory of a stage: of any that holds `unit`, and of any at all. */
int64_t cost_unit_bytes(const struct cost_unit *units, int unit);
int64_t cost_least_bytes(const struct cost_unit *units, int n_units);
/* And an upper bound for any. */
int64_t cost_most_bytes(const struct cost_unit *units, int n_units, int micro_batches);

/* From the estimate of a stage to the limit of its pod. With the estimate itself as limit, its
 * error would get the pod killed, so the limit is a quarter more, in whole MiB, as far as the node
 * has it. After a worker ran out of memory the estimate counts `percent` (100 at first): a plan may
 * use less of a node, and the limit is higher. */
int64_t cost_planned_bytes(int64_t node_bytes, int percent);
int64_t cost_limit_bytes(int64_t stage_bytes, int64_t node_bytes, int percent);

/* The unit that sends the largest messages. */
const struct cost_unit *cost_largest_edge(const struct cost_unit *units, int n_units);

/* CPU milliseconds per micro-batch that one edge of a stage behind unit `c` costs its node: an
 * activation one way and its gradient the other are copied, checksummed and sent by the CPU that
 * also computes. */
double cost_messages_ms(const struct cost_unit *c, const struct node *n);

/* Milliseconds per micro-batch that activations take over an edge, one way. */
double cost_edge_ms(const struct cost_unit *c, const struct cost_link *link);

/* t if the model could be cut anywhere over all `n` nodes. */
double cost_balanced_ms(const struct node *nodes, int n, double flops);
/* f of a node, in (0, 1]; and busy, for its f. */
double cost_fill_share(const struct node *n, double balanced_ms, int n_microbatches);
double cost_busy_share(double fill_share, int n_microbatches);

#endif
