/* balance/replicas.h - one long pipeline or several short ones: nodes are split among replicas, and
 * the batch with them.
 *
 * A replica is a pipeline on nodes of its own that computes a share of the step's M micro-batches,
 * whole ones and at least one (api/plan.h). In BSP a step of several replicas takes
 *
 *     step     = slowest + exposed + update
 *     slowest  = max over replicas of T(m)
 *     exposed  = what gradients come later than `slowest`, and weights later than a stage could use
 *                them
 *     update   = max over homes of the optimizer's pass over the parameters that are at home there
 *
 * T(m) is the time of a pipeline for its m micro-batches, as in balance/partition.h with m for M
 * and without the optimizer's share of a micro-batch: that belongs to M micro-batches on the node
 * that updates the unit, while a replica has m and updates only what has its home there, once.
 *
 * Every unit of n parameters sends 4 n bytes from each other replica to its home and 4 n bytes
 * back. A worker is busy with that, once for gradients and once for weights, for
 *
 *     d = max(out, in, CPU)   out, in = sum over peers of (bytes / bandwidth + latency)
 *
 * with both directions at once but one peer after the other, and the CPU of its messages. A guest
 * is a worker that runs a unit without being its home. As stage s of its replica it is done with
 * its last backward pass before the replica is, and begins after it:
 *
 *     drain(s) = sum over stages before s of (2/3 t + edge)      fill(s) = likewise with 1/3 t
 *
 * where t is the stage's time (1/4 forward if activations are recomputed), less on a fraction of a
 * core, which may compute as quickly as a whole one for a while. Then
 *
 *     sums     = max over guests and their homes of T(m) - drain(s) + g max(d of both)
 *     exposed  = max(0, sums - slowest)
 *              + max(0, max over guests and their homes of max(d of both) - fill(s))
 *
 * with g = 1, or 1/2 where gradients travel as bfloat16 (spec.wire); where only p percent of their
 * entries do (sync.gradientPercent), p / 100 * 5/4 or 3/4. The time to choose these, some 3 ns for
 * each of all entries, is not counted.
 *
 * Nothing is updated before all sums are there, and no weights leave before: with clipping since
 * the norm is needed, without it since a step with gradients that are not finite is skipped. This
 * counts too much rather than too little: what is hidden behind a stage's own computation is left
 * out, a stage waits for all its weights, and the slowest terms are added as if they were on one
 * worker. As for a single pipeline, the word embeddings' way to the LM head is not counted. Memory
 * is that of a pipeline alone, with the moments of all units: workers that are not a unit's home
 * need less.
 *
 * Homes are spread evenly or by the replicas' shares (api/plan.h), whichever makes a step of the
 * job's protocol shorter; by shares if they are asynchronous, since every ticket of the others
 * would wait for a slow node that is busy with its own.
 *
 * The same replicas out of step: a step is n tickets of M / n micro-batches (train/tickets.h). With
 * T(m) as a line through the pipeline's share, as steep as its slowest stage,
 *
 *     ASP   = max(n / sum over replicas of 1 / (T(M / n) + (1 + g) out + update),
 *                 (1 + g) d, n update)
 *     Local = max(n / sum over replicas of 1 / (T(M / n) + its own update),
 *                 (2 d + update) / localSteps)
 *
 * where `out` is what its busiest guest sends, and gets back, for a ticket, and d and `update` are
 * those of the busiest home, which has n pushes to apply per step.
 *
 * Each pipeline is cut so that its own T(m) is shortest; the exchange does not change the cut.
 * Against all cuts of small models on two to four nodes, where the exchange is below half of the
 * slowest replica, that costs 2% on average. Homes depend on which replica leads. The lead
 * evaluates alone, so it is the one with the largest share, unless another one shortens the step by
 * REPLICAS_LEAD_GAIN. The others follow in the order of falling shares.
 *
 * Up to REPLICAS_EXACT_SPLITS splits times shares, and REPLICAS_EXACT_CALLS pipelines, all are
 * tried: eight different nodes as two replicas with 8 micro-batches, or 16 of two kinds with 16. Up
 * to a thousand splits, all are tried with shares that follow the pipelines' times. Above, nodes
 * are dealt out by speed, memory and nearness, then moved and swapped between replicas while the
 * step gets shorter, for a limited number of searches. Where trying everything was possible, the
 * rest found the same in 125 of 133 problems and lost 0.8% on average. BERT-base on 12 to 16
 * different nodes in two buildings comes to 9% to 11% above the bound, on 32 to 64 to 19% to 25%,
 * most of which is exchange and whole units. Planning takes 0.2 to 1.5 s.
 *
 * The bound holds for every cut, split and choice of nodes:
 *
 *     slowest >= min over k of (k + M - r) / speed of the k fastest nodes
 *             >= the bound of one pipeline of all nodes for the M / r micro-batches of a replica
 *     exposed >= r - 1 embeddings over the fastest link, since no first stage has a fill
 *     update  >= all parameters at the speed of all nodes
 *
 * For the first: let x be 1 / (slowest stage) of a replica. T(m) >= sum of stages + (m - 1) / x,
 * and the sum times x is the sum over its nodes of u = stage / (slowest stage) <= 1, with x = sum
 * of u * speed, in micro-batches. Summed over all replicas, T X >= sum of u + M - r, where the sum
 * of u that yields X is least with the fastest nodes (on fractions of a core, u counts as the
 * fraction: as it fills, a stage may be as quick as on a whole one). Where everything was tried,
 * `slowest` is what was found.
 *
 * Layer: balance (may use api base). Threads: any; pure but for the memory it works in.
 */
#ifndef BALANCE_REPLICAS_H
#define BALANCE_REPLICAS_H

#include "balance/partition.h"

#define REPLICAS_AUTO 0

#define REPLICAS_EXACT_SPLITS 1e5  /* times the ways to share the batch */
#define REPLICAS_EXACT_CALLS  2500 /* of the solver */

/* Share of the shortest predicted step that more replicas must gain. Each has the whole model in
 * memory once more and needs the links between replicas to be as quick as measured. */
#define REPLICAS_GAIN 0.03
/* Auto stays with BSP unless its step takes this many times as long as that of another protocol,
 * whose gradients are stale or whose weights differ for a while. */
#define REPLICAS_FREE_TIMES 1.5
#define REPLICAS_LEAD_GAIN  0.05 /* that a slower lead must gain */

struct replicas_step {
    double step_ms;
    double slowest_ms;  /* of the slowest replica */
    double exchange_ms; /* of the worker that is busiest with it, gradients and weights */
    double exposed_ms;
    double update_ms;
    double asp_ms;            /* a step if the same replicas are asynchronous ... */
    double local_ms;          /* ... or train alone */
    bool homes_follow_shares; /* as in a plan */
};

/* With another number of replicas. */
struct replicas_alternative {
    int n;        /* replicas */
    int n_stages; /* of all together */
    double step_ms;
};

struct replicas {
    int n;             /* 1..PLAN_REPLICAS_MAX */
    int micro_batches; /* M, the spec's or chosen */
    int shares[PLAN_REPLICAS_MAX];
    struct placement pipelines[PLAN_REPLICAS_MAX]; /* predicted_step_ms: of its share */
    struct replicas_step step;
    double bound_ms;    /* 0: not known, as with ASP and Local; no plan is faster with the number of
                         * replicas, or in Auto with one of the alternatives, and with the numbers of
                         * micro-batches that were tried */
    bool is_exact;      /* all splits and shares of several replicas were tried */
    int n_alternatives; /* in rising order; numbers that do not fit are missing */
    struct replicas_alternative alternatives[PLAN_REPLICAS_MAX];
};

/* Split the request's nodes among `n` replicas, or REPLICAS_AUTO: the fewest whose step is at most
 * REPLICAS_GAIN longer than the shortest, in ASP and Local as these have it. One replica is
 * exactly partition_choose(), in Auto and to compare with. Where the request leaves M open, it is
 * chosen for the fewest replicas that are looked at, as the smallest that is at most
 * PARTITION_MICRO_GAIN slower than the fastest of PARTITION_FEW_TRIES, and more replicas have the
 * same if it fits. minStages and maxStages hold for each pipeline, SPEC_STAGES_MAX for all. With
 * strategy Manual there is one replica; with Even and Dynamic every pipeline is cut so. With
 * checkpoint.mode Auto, there is a copy to write them from if it fits.
 *
 * Returns ERR_OK; ERR_NOT_FOUND when nothing fits; ERR_INVALID for a number that is not in
 * 0..PLAN_REPLICAS_MAX, several replicas with strategy Manual, and as partition_solve();
 * ERR_NO_MEMORY. */
MUST_CHECK enum err_code replicas_choose(const struct partition_request *request, int n,
                                         struct replicas *out, struct err *err);

/* What spec.sync.protocol Auto comes to: what follows BSP's first part, or BSP. */
enum spec_protocol replicas_protocol(const struct replicas_step *step);
/* The step with the job's protocol, of Switch or Auto the one that it leads to. */
double replicas_step_ms(const struct spec *spec, const struct replicas_step *step);
/* ... as the job begins: of Switch and Auto, that is BSP's. */
double replicas_first_step_ms(const struct spec *spec, const struct replicas_step *step);

/* A few sentences: step, replicas, shares, exchange, how one pipeline and the other numbers
 * compare, and the bound; for one replica explain_placement() and how others compare. */
void replicas_explain(const struct partition_request *request, const struct replicas *r,
                      char out[static PLAN_REASON_BYTES]);

/* placement_to_plan(), replica by replica; a single one has no shares, as usual. */
void replicas_to_plan(const struct partition_request *request, const struct replicas *r,
                      struct plan *out);

#endif
