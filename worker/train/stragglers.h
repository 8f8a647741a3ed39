/* train/stragglers.h - replicas that are slower than usual for a while, and what the others do
 * about it in BSP (spec.sync.stragglers).
 *
 * The decider adds what a micro-batch took in every replica, step by step: in its slowest stage,
 * computing, so it depends neither on the replica's share of the batch nor on what others wait for.
 * A sample is the mean of steps that took STRAGGLERS_SAMPLE_MS together: under a CPU quota a short
 * step either is stopped for a while or is not. Of the last STRAGGLERS_WINDOW samples that were as
 * usual there are the median and the median absolute deviation (MAD). A sample is slow if it is
 * above STRAGGLERS_TIMES the median and STRAGGLERS_MADS deviations; STRAGGLERS_ROW of them in a row
 * make a straggler, and as many that are not slow end it. What lasts for STRAGGLERS_LASTS samples
 * is the new usual: the answer to that is another plan (balance/rebalance.h). The published rule, a
 * throughput below the mean of all workers by a standard deviation for several windows (arXiv
 * 2104.08364), takes workers to be alike.
 *
 * Greedy and Elastic are that paper's policies. Greedy: ASP while there is a straggler, in rounds
 * of STRAGGLERS_ROUND steps, and BSP for as many steps in all as without. Elastic: a straggler is
 * left out. Here it keeps what it can compute while the others do; if that is nothing, it has one
 * micro-batch in every STRAGGLERS_LOOK-th step, to be seen when it is quick again. Auto is Elastic
 * if its steps are at least STRAGGLERS_GAIN times as quick as those in which all wait, but Greedy
 * if they still take STRAGGLERS_TIMES as long as Greedy's: where a few micro-batches cannot be
 * shared out evenly, stale gradients are the lesser evil.
 *
 * Layer: train (may use api base). Threads: one; pure.
 */
#ifndef TRAIN_STRAGGLERS_H
#define TRAIN_STRAGGLERS_H

#include "api/plan.h"

#define STRAGGLERS_SAMPLE_MS 200
#define STRAGGLERS_WINDOW    20
#define STRAGGLERS_LEAST     5 /* samples that show what is usual */
#define STRAGGLERS_TIMES     1.5
#define STRAGGLERS_MADS      6.0
#define STRAGGLERS_ROW       3
#define STRAGGLERS_LASTS     300
#define STRAGGLERS_ROUND     4
#define STRAGGLERS_LOOK      10
#define STRAGGLERS_GAIN      1.1

struct stragglers_replica {
    double usual_ms[STRAGGLERS_WINDOW]; /* a ring */
    int n_usual;                        /* so far */
    int n_row;                          /* samples in a row that say the other thing than is_slow */
    int n_slow;                         /* samples since it became a straggler */
    double last_ms;                     /* the newest sample; 0: there is none */
    double sum_ms;                      /* of the next one ... */
    int n_summed;                       /* ... the steps that had one ... */
    double elapsed_ms;                  /* ... and the time of all */
    bool is_slow;
};

struct stragglers { /* zeroed at first */
    struct stragglers_replica replicas[PLAN_REPLICAS_MAX];
};

/* A step of `elapsed_ms`, in which a micro-batch took `ms` in this replica; 0: it had none. Returns
 * whether it has become a straggler, or is none any more. */
bool stragglers_add(struct stragglers *s, int replica, double ms, double elapsed_ms);

/* The median of its usual samples; 0 before there are STRAGGLERS_LEAST. */
double stragglers_usual_ms(const struct stragglers *s, int replica);

/* A bit for each straggler. */
uint32_t stragglers_found(const struct stragglers *s);

struct stragglers_answer {
    enum spec_stragglers how;      /* Wait, Greedy or Elastic */
    int shares[PLAN_REPLICAS_MAX]; /* of the next step in BSP, in micro-batches */
    double ms, wait_ms; /* computing per step, with this answer and with Wait; 0: not known */
};

/* What plan->spec.sync.stragglers, Auto among them, answers in step `step`, while one is found.
 * Elastic: a replica that the plan gives fewer micro-batches than it has stages never has more: its
 * stages have no room for them. As long as the time of a replica is not known the shares are those
 * of the plan, and Auto waits. */
struct stragglers_answer stragglers_answer(const struct stragglers *s, const struct plan *plan,
                                           int64_t step);

#endif
