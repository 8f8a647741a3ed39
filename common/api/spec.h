/* api/spec.h - what a user asks for: the `spec` of a SkyJob, checked and with defaults filled in.
 *
 * One table (spec_fields) lists every field with its place, kind, bounds and default. The parser
 * walks it, and a test compares it with the CRD's schema, so that what the API server accepts and
 * what the programs read cannot drift apart. The CLI reads documents that no API server has seen,
 * so spec_parse() fills in defaults and refuses what the CRD would refuse.
 * Layer: api (may use base). Threads: any.
 */
#ifndef API_SPEC_H
#define API_SPEC_H

#include <stddef.h>
#include <stdint.h>

#include "api/task.h"
#include "base/fields.h"

#define SPEC_NAME_BYTES           254 /* of a Kubernetes object, with the NUL */
#define SPEC_PATH_BYTES           257
#define SPEC_BUCKET_BYTES         64 /* also of a region */
#define SPEC_IMAGE_BYTES          513
#define SPEC_WORD_BYTES           32
#define SPEC_RESUME_BYTES         47 /* of a job or its checkpoints' folder (names_checkpoints()) */
#define SPEC_REPLICAS_MAX         8
#define SPEC_STAGES_MAX           64
#define SPEC_HEADROOM_PERCENT_MAX 400
#define SPEC_COLUMN_BYTES         65
#define SPEC_MANAGER_BYTES        64
#define SPEC_MANAGER              "skyjob.dev/operator"

enum spec_source {
    SPEC_SOURCE_SAMPLE,     /* built into the worker image */
    SPEC_SOURCE_CONFIG_MAP, /* keys are file names */
    SPEC_SOURCE_CLAIM,      /* a folder in a persistent volume */
};

enum spec_strategy {
    SPEC_STRATEGY_OPTIMAL,
    SPEC_STRATEGY_EVEN,
    SPEC_STRATEGY_DYNAMIC, /* the published heuristic, balance/rules.h */
    SPEC_STRATEGY_MANUAL,  /* spec.placement.manual */
};

/* When a node is measured before a job is cut. */
enum spec_probe {
    SPEC_PROBE_IF_UNKNOWN, /* its speed is not declared, and no earlier measurement holds */
    SPEC_PROBE_ALWAYS,     /* once per job, even where a speed is declared */
    SPEC_PROBE_NEVER,      /* unknown speeds are estimated from the CPU */
};

enum spec_case {
    SPEC_CASE_UNCASED, /* the tokenizer lower-cases and strips accents */
    SPEC_CASE_CASED,
    SPEC_CASE_ABSENT, /* as in the model's own files, see text/tokenizer.h */
};

enum spec_optimizer {
    SPEC_OPTIMIZER_ADAMW,
    SPEC_OPTIMIZER_SGD, /* with momentum */
};

/* How activations and gradients travel between stages, and gradients between replicas. */
enum spec_wire {
    SPEC_WIRE_FP32,
    SPEC_WIRE_BF16, /* half the bytes, 8 bits of precision */
};

/* Do units of a running job move, with strategy Optimal: see balance/rebalance.h. */
enum spec_rebalance {
    SPEC_REBALANCE_AUTO,
    SPEC_REBALANCE_SUGGEST, /* a move that would pay off is only reported */
    SPEC_REBALANCE_OFF,
};

/* What to do when a loss or a gradient is not finite. */
enum spec_non_finite {
    SPEC_NON_FINITE_FAIL,
    SPEC_NON_FINITE_SKIP, /* leave the step out, count it, go on */
};

/* What the factors of matrix products are rounded to. */
enum spec_precision {
    SPEC_PRECISION_FP32,
    SPEC_PRECISION_BF16, /* a worker whose processor cannot do it refuses to start */
    SPEC_PRECISION_AUTO, /* each worker: BF16 where its processor can */
};

/* How a checkpoint is written while the training goes on. */
enum spec_saving {
    SPEC_SAVING_AUTO,       /* one of the next two, as the planner finds (balance/partition.h) */
    SPEC_SAVING_BACKGROUND, /* from a copy of the state, which takes memory */
    SPEC_SAVING_BLOCKING,   /* without one: the next update waits until it is written */
    SPEC_SAVING_NEVER,      /* there are no checkpoints */
};

/* When the gradients of replicas change the weights. */
enum spec_protocol {
    SPEC_PROTOCOL_BSP,    /* once per step, those of all replicas together */
    SPEC_PROTOCOL_ASP,    /* as soon as one replica has them (train/tickets.h) */
    SPEC_PROTOCOL_LOCAL,  /* each replica's its own, which meet from time to time (train/outer.h) */
    SPEC_PROTOCOL_SWITCH, /* first BSP, then: */
    SPEC_PROTOCOL_AUTO,   /* BSP, or a Switch after SPEC_AUTO_PERCENT of the steps */
};
extern const char *const spec_protocol_names[];
/* What is done in BSP while a replica is slower than usual, for a while. */
enum spec_stragglers {
    SPEC_STRAGGLERS_WAIT,
    SPEC_STRAGGLERS_GREEDY,  /* ASP meanwhile */
    SPEC_STRAGGLERS_ELASTIC, /* the others compute most or all of its share */
    SPEC_STRAGGLERS_AUTO,    /* one of these (train/stragglers.h) */
};
extern const char *const spec_stragglers_names[];
#define SPEC_AUTO_PERCENT         25
#define SPEC_GRADIENT_PERCENT_MAX 50 /* above, their places take most of what is saved */
enum spec_later {
    SPEC_LATER_ASP,
    SPEC_LATER_LOCAL,
};

/* What a stage keeps of a micro-batch between its forward and its backward. */
enum spec_activations {
    SPEC_ACTIVATIONS_KEEP,
    SPEC_ACTIVATIONS_RECOMPUTE, /* run forward again before backward */
};

enum spec_schedule {
    SPEC_SCHEDULE_LINEAR, /* to zero at the last step */
    SPEC_SCHEDULE_CONSTANT,
};

/* The labels of a Classification, in the order of their ids. */
struct spec_labels {
    int n;
    char names[TASK_LABELS_MAX][TASK_LABEL_BYTES];
};

/* A folder in a PersistentVolumeClaim: the only kind of volume there is for a model, data,
 * checkpoints or output. */
struct spec_volume {
    char claim[SPEC_NAME_BYTES]; /* "": no volume */
    char path[SPEC_PATH_BYTES];  /* inside the volume; "": its root */
};

/* One stage of spec.placement.manual: how many layers or units, and on which node. A list of counts
 * cannot leave a gap or give a unit to two stages, so the only check is that they add up. */
struct spec_stage {
    char node[SPEC_NAME_BYTES]; /* "": the fastest that is left and has the memory */
    int layers;                 /* the first stage has the embeddings, the last the head as well */
    int units;                  /* either this or layers is above 0, the same in all entries */
};

struct spec_stages {
    int n;
    struct spec_stage list[SPEC_STAGES_MAX];
};

/* On an S3-compatible server; no bucket: not used. */
struct spec_bucket {
    char bucket[SPEC_BUCKET_BYTES];
    char prefix[SPEC_PATH_BYTES];
    char endpoint[SPEC_PATH_BYTES]; /* "": AWS's for the region */
    char region[SPEC_BUCKET_BYTES]; /* "": us-east-1 */
    char secret[SPEC_NAME_BYTES];   /* in the job's namespace */
};

struct spec {
    char preset[SPEC_WORD_BYTES]; /* "": BertMini, or the sizes are given one by one or in `from` */
    struct model model;           /* head and labels follow from the task; see spec_has_sizes() */
    struct spec_volume from;      /* of a trained model; no volume: random weights */
    enum spec_case letters;
    struct {
        char task[SPEC_WORD_BYTES]; /* of api/task.h */
        struct {
            char train[SPEC_NAME_BYTES]; /* "": the task's own name of the file */
            char dev[SPEC_NAME_BYTES];
            char test[SPEC_NAME_BYTES];
        } files;
        struct {
            char text[SPEC_COLUMN_BYTES];
            char pair[SPEC_COLUMN_BYTES]; /* "": one sentence a row */
            char label[SPEC_COLUMN_BYTES];
        } columns; /* of Classification and Regression */
        struct spec_labels labels;
        double mask_probability; /* of a token, in MaskedLM and Pretraining */
        enum spec_source source;
        char sample[SPEC_WORD_BYTES];
        char config_map[SPEC_NAME_BYTES];
        struct spec_volume volume;
    } data;
    struct {
        int epochs;
        int steps;           /* instead of epochs; 0: not given, unless: */
        bool evaluates_only; /* training.steps is 0: nothing is trained */
        int batch_size;      /* sequences in an optimizer step, a multiple of micro_batches */
        int micro_batches;   /* M; 0: absent, the planner chooses */
        int max_length;      /* tokens of a sequence; longer pairs are cut */
        int64_t seed;
        double dropout;
        double max_grad_norm; /* 0: no clipping */
        int evaluate_every;   /* steps between evaluations; 0: only at the end */
        /* Evaluations are compared when weights are kept by them, or the run ends by them: */
        bool keeps_best;            /* output has the weights of the best one */
        int patience;               /* the run ends after so many without a better one; 0: never */
        enum task_metric best_by;   /* how they are compared */
        enum task_metric keep_best; /* the same as they were given; TASK_METRICS: not */
        enum task_metric stop_by;
        enum spec_non_finite non_finite;
        enum spec_precision precision;
        enum spec_activations activations;
        enum spec_optimizer optimizer;
        double momentum;              /* of SGD */
        double beta1, beta2, epsilon; /* of AdamW */
        double learning_rate;
        enum spec_schedule schedule; /* of the learning rate after the warm-up */
        double warmup_ratio;         /* of all steps */
        double weight_decay;
    } training;
    int replicas; /* pipelines, each on nodes of its own; 0: Auto, as many as are quickest */
    struct {
        enum spec_protocol protocol;
        int switch_steps;          /* of Switch: BSP's steps; 0: not given, but: */
        int switch_percent;        /* ... BSP's part of all steps; 0: not given */
        enum spec_later switch_to; /* ... and what follows */
        int local_steps;           /* of Local: from one meeting of the replicas to the next */
        double outer_rate;         /* what weights then move by of their mean difference ... */
        double outer_momentum;     /* ... and the Nesterov momentum of that */
        int gradient_percent;      /* of a gradient's entries, the largest, that travel between
                                    * replicas (train/topk.h); 0: not given, all do */
        enum spec_stragglers stragglers;
        enum spec_protocol chosen; /* of Auto, by the planner, which the plan tells: what follows
                                    * BSP, or BSP */
        int max_staleness;         /* of ASP, in tickets (train/tickets.h); 0: no bound */
    } sync;
    struct {
        enum spec_strategy strategy;
        enum spec_probe probe;
        enum spec_rebalance rebalance;
        int headroom_percent; /* of the memory that the plan needs, which pods get beside that */
        int min_stages;
        int max_stages;
        int n_replicas;            /* 1 with Manual */
        struct spec_stages stages; /* of Manual: those of its one replica */
    } placement;
    struct {
        char image[SPEC_IMAGE_BYTES]; /* "" : the operator's default */
        char pull_policy[SPEC_WORD_BYTES];
        char priority_class[SPEC_NAME_BYTES]; /* "": the default of the cluster */
        /* Hashes of what api/pods.h reads: */
        uint64_t labels, annotations, node_selector, tolerations, pull_secrets;
    } worker;
    struct {
        enum spec_saving mode;
        struct spec_volume volume;
        bool is_peers; /* they lie with the workers and need no volume: the default */
        struct spec_bucket s3;
        bool is_on;      /* there is a store, or the CLI has a folder; else none are written */
        int every_steps; /* between two; 0: every_seconds counts */
        int every_seconds;
        int keep; /* the newest */
    } checkpoint;
    char
        resume_from[SPEC_RESUME_BYTES]; /* a job whose checkpoints, in the same store, this one goes
                                           on from, or the folder of one; "": it begins anew */
    struct spec_volume output;          /* no volume: weights are not kept */
    enum spec_wire wire;
    int max_restarts;
    int progress_deadline_s; /* a trainer that hangs for so long is restarted */
    int start_deadline_s;    /* a job that has not begun to train by then fails; 0: never ... */
    int active_deadline_s;   /* ... nor has ended; both from its creation or its last resumption */
    int ttl_s;               /* a job that has ended is deleted so long after; -1: never */
    bool suspends;           /* it holds no nodes, until this is changed */
    char managed_by[SPEC_MANAGER_BYTES]; /* "": by this operator, as with SPEC_MANAGER */
};

/* The table. Keys are paths below spec; the bounds are those of the CRD. */
extern const struct field spec_fields[];

/* Read the `spec` object of a SkyJob.
 *
 * Returns ERR_INVALID with the field's full name, what was found and what is allowed. Unknown
 * fields are refused by name, as kubectl does.
 */
MUST_CHECK enum err_code spec_parse(const struct json *json, struct spec *out, struct err *err);

/* How replicas work together from spec_switch_step() on: the protocol itself, or what Switch leads
 * to. */
enum spec_protocol spec_later_protocol(const struct spec *s);
/* May replicas be out of step while one of them is slower than usual? */
bool spec_is_asynchronous_at_times(const struct spec *s);
/* May they be so in a part of the job, for any reason? */
bool spec_is_asynchronous(const struct spec *s);
/* From which of `total_steps` steps on they are; the number of steps: from none. */
int64_t spec_switch_step(const struct spec *s, int64_t total_steps);

/* Do replicas work together in the same way, as far as the user says? */
bool spec_same_sync(const struct spec *a, const struct spec *b);

/* Can a job with training.keepBest keep them: is there a place for checkpoints, in which the best
 * weights wait for the end, and one for the output? `has_output`: a volume, or a folder of the
 * CLI's. ERR_INVALID says what is missing. */
MUST_CHECK enum err_code spec_check_best(const struct spec *s, bool has_output, struct err *err);

/* Does the spec have the sizes of its model? One that starts from a model may leave them to that
 * model's own files: bert_config_fill() adds them. Until then those that are not given are 0, and
 * what depends on them is not checked. */
bool spec_has_sizes(const struct spec *s);

/* The files that a job needs in its data folder, by name; returns how many. The training file
 * defaults to the task's own; without a dev file the job is not evaluated. The vocabulary may
 * instead be in the folder of spec.model.from. */
#define SPEC_FILES_MAX  3
#define SPEC_VOCAB_FILE "vocab.txt"
int spec_data_files(const struct spec *s, const char *out[static SPEC_FILES_MAX]);

/* By enum spec_strategy, closed by NULL: "Optimal". */
extern const char *const spec_strategy_names[];
/* Units of entry `stage` of spec.placement.manual. */
int spec_stage_units(const struct spec *s, int stage);
/* Are two specs of spec_parse() equal in all that may be changed and needs other workers then? Not
 * spec.placement.rebalance, which is read when it counts. */
bool spec_same_workers(const struct spec *a, const struct spec *b);

/* A name of Kubernetes' RFC 1123 kind (lower case, digits, '-'), at most `max` bytes. */
bool spec_is_name(const char *s, size_t max);
/* Do the first `n` bytes look like a domain: such characters and '.', none of '-' and '.' at an
 * end?
 */
bool spec_is_domain(const char *s, size_t n);

#endif
