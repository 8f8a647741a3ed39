/* api/plan.h - which units run on which worker and node. Written once, never changed.
 *
 * The planner makes it; a revision (api/revision.h) contains it and is numbered with it. It carries
 * the job's whole spec, so that a worker needs nothing else.
 *
 * A replica is a whole pipeline. Every replica has all units and computes the gradients of its
 * share of the batch. A unit has one home among the workers that run it: there it has its moments
 * and is updated; the others get its weights from there.
 * Layer: api (may use base). Threads: any.
 */
#ifndef API_PLAN_H
#define API_PLAN_H

#include "api/node.h"
#include "api/spec.h"
#include "base/fields.h"

#define PLAN_VERSION          2
#define PLAN_TEXT_MAX_BYTES   (256 * 1024)
#define PLAN_REASON_BYTES     1024
#define PLAN_EXCLUDED_MAX     8
#define PLAN_EXCLUDED_BYTES   160
#define PLAN_ALTERNATIVES_MAX 2
#define PLAN_STRATEGY_BYTES   24
#define PLAN_SLOT_MAX         999
#define PLAN_KEPT_MAX         32
#define PLAN_REPLICAS_MAX     SPEC_REPLICAS_MAX
#define PLAN_SHARES_MAX       PLAN_REPLICAS_MAX
#define PLAN_REVISION_MAX     999999999 /* so that every name fits (api/names.h) */

/* A worker and the stage that it runs. */
struct plan_worker {
    int slot;        /* its number in the job, which it keeps from plan to plan */
    int incarnation; /* grows whenever its pod is replaced */
    int replica;     /* the pipeline that it belongs to */
    int first_unit;
    int n_units;
    char node[NODE_NAME_BYTES];
    int cpu_milli;                /* CPU limit and request of the pod */
    int64_t memory_bytes;         /* memory limit and request of the pod */
    double predicted_ms;          /* forward and backward of one micro-batch */
    char units[MODEL_NAME_BYTES]; /* in words: "embeddings to attention 2" */
};

struct plan_excluded {
    char node[NODE_NAME_BYTES];
    char reason[PLAN_EXCLUDED_BYTES];
};

/* Another strategy with the same nodes. */
struct plan_alternative {
    char strategy[PLAN_STRATEGY_BYTES];
    double step_ms;
};

/* What people are shown of a plan, in the status too. */
struct plan_summary {
    double predicted_step_ms;
    double bound_ms;    /* no plan can be faster than this */
    int n_alternatives; /* only those that fit into memory */
    struct plan_alternative alternatives[PLAN_ALTERNATIVES_MAX];
    int bottleneck; /* stage that takes longest */
    int n_excluded; /* nodes; only the first PLAN_EXCLUDED_MAX are listed */
    struct plan_excluded excluded[PLAN_EXCLUDED_MAX];
    char explanation[PLAN_REASON_BYTES]; /* the bottleneck, which nodes are excluded and why */
};

struct plan {
    char namespace[64];
    char job[64];
    char uid[64];
    int revision;   /* the number of the plan */
    bool is_serial; /* one micro-batch at a time, for comparison */
    struct spec spec;
    int micro_batches;    /* M: the spec's, or chosen by the planner; divides the batch size */
    bool saves_from_copy; /* checkpoints are written from a copy of the state, for which there is
                             memory; else the next update waits until one is written */
    /* The batch in shares: the number of consecutive micro-batches of each. The gradients of a
     * share are added up, then the shares in this order. Several replicas have one each; a single
     * one may have more, and then has the bits of as many replicas. None: the batch is one. */
    int n_shares;
    int shares[PLAN_SHARES_MAX];
    /* Parameters have their homes in the replicas by their shares, and none in those that have less
     * than half of the largest. A home sends and receives more than others, and a slow node would
     * hold up all. Otherwise homes are spread evenly, as links are used then. */
    bool homes_follow_shares;
    int n_workers;
    /* Replica by replica, each in the order of its pipeline. The first is the leader. */
    struct plan_worker workers[SPEC_STAGES_MAX];
    struct plan_summary summary;
};

/* Where a replica is in the plan. */
struct plan_replica {
    int first_worker;
    int n_stages;
    int first_share; /* of the batch */
    int n_shares;
};

/* Consecutive units that have their home at a worker. */
struct plan_home {
    int worker; /* its place in the plan */
    int first_unit;
    int n_units;
};

/* The tables of parts, for documents that show a plan to people. */
extern const struct field plan_worker_fields[];
extern const struct field plan_excluded_fields[];
extern const struct field plan_summary_fields[];

/* Append the plan as JSON. `spec` is the job's spec with the sizes of its model, copied in. */
void plan_add(const struct plan *p, const char *key, const struct json *spec, struct jsonw *w);
/* The same as a document. */
MUST_CHECK enum err_code plan_write(const struct plan *p, const struct json *spec, struct buf *out,
                                    struct err *err);

/* Read it back and check that the workers of each replica have every unit once, in order, that
 * every worker has a slot of its own, and that the shares make up the batch. */
MUST_CHECK enum err_code plan_parse(const char *text, size_t len, struct plan *out,
                                    struct err *err);
/* The same for a value in another document. */
MUST_CHECK enum err_code plan_read(const struct json *json, struct plan *out, struct err *err);

/* The place of the worker with this slot; -1: it has none. */
int plan_find(const struct plan *p, int slot);

int plan_n_replicas(const struct plan *p);
struct plan_replica plan_replica(const struct plan *p, int replica);

/* The first micro-batch of share `k`, in a step that has `n` micro-batches: M, or fewer in a step
 * of less than M sequences, whose last shares are smaller or empty. k = n_shares: `n`. */
int plan_share_begin(const struct plan *p, int k, int n);

/* How many of `n` micro-batches, as above, a replica computes; one that is not there, none. */
int plan_microbatches(const struct plan *p, int replica, int n);

/* The homes, in the order of units, each worker at most once; returns how many. The leader's is the
 * first. Parameters are spread over the workers evenly, or by shares, as far as the cuts allow. */
int plan_homes(const struct plan *p, struct plan_home out[static SPEC_STAGES_MAX]);
/* What is at home at `worker`, and its place among the homes, or -1 with no units. */
int plan_home(const struct plan *p, int worker, struct plan_home *out);

static inline bool plan_home_has(const struct plan_home *home, int unit)
{
    return unit >= home->first_unit && unit < home->first_unit + home->n_units;
}

/* Where checkpoints lie in workers' own stores, the stage that keeps copies of a stage's: the next
 * one in the pipeline, with the first behind the last, that is on another node and keeps those of
 * less than PLAN_KEPT_MAX stages. out[s] is -1 when there is none. */
void plan_keepers(const struct plan *p, int out[static SPEC_STAGES_MAX]);
/* Is there one for any stage? Else such checkpoints would be lost together with their workers. */
bool plan_has_keepers(const struct plan *p);
/* Do the workers write checkpoints? */
bool plan_saves(const struct plan *p);

/* Identity of the plan: equal only for the same job, revision, workers and cut. */
uint64_t plan_hash(const struct plan *p);

#endif
