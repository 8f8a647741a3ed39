/* api/plan.h - the decision of one attempt: which units run where. Written once, never changed.
 *
 * The planner makes it, the operator keeps it as a ConfigMap (the CLI as a file), every worker of
 * the attempt reads it. It carries the job's whole spec, so that a worker needs nothing else.
 * Layer: api (may use base). Threads: any.
 */
#ifndef API_PLAN_H
#define API_PLAN_H

#include "api/node.h"
#include "api/spec.h"
#include "base/fields.h"

#define PLAN_VERSION          1
#define PLAN_FILE             "plan.json" /* in its ConfigMap and in a worker's folder */
#define PLAN_TEXT_MAX_BYTES   (256 * 1024)
#define PLAN_REASON_BYTES     1024
#define PLAN_LEFT_OUT_MAX     8
#define PLAN_LEFT_OUT_BYTES   160
#define PLAN_ALTERNATIVES_MAX 2
#define PLAN_STRATEGY_BYTES   24

struct plan_stage {
    int first_unit;
    int n_units;
    char node[NODE_NAME_BYTES];
    int cpu_milli;                /* CPU limit and request of the pod */
    int64_t memory_bytes;         /* memory limit and request of the pod */
    double predicted_ms;          /* forward and backward of one micro-batch */
    char units[MODEL_NAME_BYTES]; /* in words: "embeddings to attention 2" */
};

struct plan_left_out {
    char node[NODE_NAME_BYTES];
    char reason[PLAN_LEFT_OUT_BYTES];
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
    int n_left_out; /* nodes; only the first PLAN_LEFT_OUT_MAX are listed */
    struct plan_left_out left_out[PLAN_LEFT_OUT_MAX];
    char explanation[PLAN_REASON_BYTES]; /* the bottleneck, which nodes are excluded and why */
};

struct plan {
    char namespace[64];
    char job[64];
    char uid[64];
    int attempt;
    bool is_serial; /* one micro-batch at a time, for comparison */
    struct spec spec;
    int micro_batches; /* M: the spec's, or chosen by the planner; divides the batch size */
    int n_stages;
    struct plan_stage stages[SPEC_STAGES_MAX];
    struct plan_summary summary;
};

/* The tables of a stage and of the summary, for documents that show a plan to people. */
const struct field *plan_stage_fields(void);
const struct field *plan_summary_fields(void);

/* Append the plan as JSON. `spec` is the job's spec with the sizes of its model, copied in. */
MUST_CHECK enum err_code plan_write(const struct plan *p, const struct json *spec, struct buf *out,
                                    struct err *err);

/* Read it back and check that the stages cover every unit once, in order. */
MUST_CHECK enum err_code plan_parse(const char *text, size_t len, struct plan *out,
                                    struct err *err);

/* Identity of the plan on the wire: equal only for the same job, attempt and cut. */
uint64_t plan_hash(const struct plan *p);

#endif
