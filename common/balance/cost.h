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
 *   embeddings    COST_ELEMENT_FLOPS * T C         bound by memory, so as FLOPs that take as long
 *   every unit    COST_UPDATE_FLOPS * params / M   its share of the optimizer's pass, likewise
 *
 * The products are model_unit_flops(), which the probe divides by its time to get GFLOP/s.
 *
 * Bytes of a stage at position s of S under 1F1B with M micro-batches, all numbers fp32:
 *   params * (1 weights + 1 gradients + 2 moments, 1 for SGD) + min(M, S - s) * activations kept
 *   + scratch of its largest unit + slots of its links + COST_PROCESS_BYTES
 *   + weights and gradients of the word embeddings once more on the LM head's stage
 *   + COST_DATA_BYTES on the first stage, which keeps the data set.
 * With training.recompute, what a unit keeps is counted once as scratch, but for its output, and
 * its products have 4 passes instead of 3 (the LM head is as without).
 * Memory is counted for sequences of full length, since a stage takes its memory before it starts.
 * Held against the worker: within 1% of the slab and link areas of BERT-mini to BERT-large.
 * Layer: balance (may use api base). Threads: any; everything here is pure.
 */
#ifndef BALANCE_COST_H
#define BALANCE_COST_H

#include "api/node.h"
#include "api/spec.h"

#define COST_ELEMENT_FLOPS 400.0 /* embeddings: about 40 bytes an element at 0.1 bytes a FLOP */
#define COST_UPDATE_FLOPS  360.0 /* AdamW: about 36 bytes a parameter */
#define COST_PROCESS_BYTES ((int64_t)64 << 20) /* measured 20 MiB; more with BLAS threads */
#define COST_DATA_BYTES    ((int64_t)64 << 20) /* 400,000 sentence pairs as token ids */
#define COST_MEAN_TOKENS   39.0                /* of a sequence of MNLI */
#define COST_SAMPLE_TOKENS 17.0                /* of a sequence of the built-in sample */
#define COST_SPREAD        1.25                /* mean of l^2 over square of the mean of l */
#define COST_HEAD_MATRICES 16                  /* of the longest sequence squared, in attention */
#define COST_LM_ROWS       64                  /* masked tokens whose scores are held at once */
#define COST_LINK_SLOTS    2                   /* messages held by each end of an edge */

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

/* A unit's share of a micro-batch. */
struct cost_unit {
    double flops;             /* forward and backward, and its share of the optimizer */
    int64_t state_bytes;      /* weights, gradients, moments; and copies of other units' weights */
    int64_t activation_bytes; /* kept from forward to backward */
    int64_t scratch_bytes;    /* needed only while it computes */
    int64_t slot_bytes;       /* of one message to the next unit, or back; full length */
    double edge_mean_bytes;   /* what is really sent, at mean length */
};

/* Sequences of full length and of the mean length: that of spec.data.lengths, or where nobody
 * measured the job's data the mean of MNLI, or of the sample where that is the source. */
struct model_load cost_load_full(const struct spec *spec);
struct model_load cost_load_mean(const struct spec *spec);

void cost_of_unit(const struct spec *spec, int unit, struct cost_unit *out);
/* All of them, to out[model_units()]; the layers are alike, so this is no slower for many. */
void cost_of_units(const struct spec *spec, struct cost_unit *out);

/* Milliseconds of a unit, forward and backward of one micro-batch, on a node. */
double cost_unit_ms(const struct cost_unit *c, const struct node *n);

/* Milliseconds that a micro-batch's activations take over an edge, one way. */
double cost_edge_ms(const struct cost_unit *c, const struct cost_link *link);

#endif
