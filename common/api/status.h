/* api/status.h - the `status` of a SkyJob: as a struct, from JSON and back.
 *
 * The operator writes it and kubectl-skyjob reads it. The API server keeps it, so it is also the
 * operator's memory: which revision is in force, how many failures count, when the next may begin.
 * status_write() is a function of the struct alone, so two statuses are equal when their texts are.
 * Points in time are wall clock in ms and are written in whole seconds, as Kubernetes does; 0 is
 * "not set". Durations are written in whole milliseconds or microseconds.
 * Layer: api (may use base). Threads: any; pure.
 */
#ifndef API_STATUS_H
#define API_STATUS_H

#include "api/names.h"
#include "api/node.h"
#include "api/plan.h"
#include "api/progress.h"
#include "base/fields.h"
#include "base/json.h"

#define STATUS_TEXT_MAX_BYTES     ((size_t)128 << 10)
#define STATUS_MESSAGE_BYTES      768
#define STATUS_REASON_BYTES       40
#define STATUS_EXCUSE_BYTES       240
#define STATUS_WORD_BYTES         24
#define STATUS_NODES_BYTES        400
#define STATUS_UID_BYTES          40
#define STATUS_RANDOM_MAX         4
#define STATUS_MEMORY_PERCENT_MAX 1000
#define STATUS_DOUBT_PERCENT_MAX  1000
#define STATUS_ASKED_BYTES        64

enum condition_type {
    CONDITION_ACCEPTED,   /* the spec can be run */
    CONDITION_PLACED,     /* there is a plan */
    CONDITION_RUNNING,    /* all workers have accepted the revision */
    CONDITION_UP_TO_DATE, /* the revision was planned with the current spec */
    CONDITION_SUSPENDED,  /* it holds no nodes, since spec.suspend */
    CONDITION_STALLED,    /* blocked by something that the operator cannot fix */
    CONDITION_COMPLETE,   /* final */
    CONDITION_FAILED,     /* final */
    CONDITION_COUNT,
};

enum condition_value {
    CONDITION_UNSET, /* not in the list yet */
    CONDITION_UNKNOWN,
    CONDITION_FALSE,
    CONDITION_TRUE,
};

/* As they are written; of a value that is not set "". */
extern const char *const condition_type_names[CONDITION_COUNT];
extern const char *const condition_value_names[]; /* closed by NULL */

struct condition {
    enum condition_value value;
    char reason[STATUS_REASON_BYTES];
    char message[STATUS_MESSAGE_BYTES];
    int64_t generation;
    int64_t changed_ms; /* when `value` last changed */
};

struct status_metric {
    char name[32];
    char value[STATUS_WORD_BYTES];
};

/* The best evaluation so far; its metric is "" in a job that does not compare them, or has none. */
struct status_best {
    char metric[32];
    char value[STATUS_WORD_BYTES];
    int64_t step;
};

/* As in a progress document. */
struct status_sync {
    char protocol[SPEC_WORD_BYTES]; /* "": there is one replica */
    char staleness[STATUS_WORD_BYTES];
    int64_t staleness_max;
    char lagging[PROGRESS_LAGGING_BYTES];
};

struct status_progress {
    int64_t step;
    int64_t total_steps;
    int64_t skipped_steps;
    int epoch;
    char loss[STATUS_WORD_BYTES]; /* "" before the first step */
    int64_t tokens_per_second;
    double step_ms; /* 0: not known yet */
    int percentage;
    int64_t remaining_seconds; /* negative: not known */
    int64_t updated_ms;        /* 0: there is no progress yet */
    int n_random;              /* parts that the model to start from had no weights for */
    char random[STATUS_RANDOM_MAX][PROGRESS_RANDOM_BYTES];
    int n_metrics;
    struct status_metric metrics[PROGRESS_METRICS_MAX];
    struct status_best best;
    struct status_sync sync;
    bool has_ended_early;        /* as in a progress document ... */
    struct progress_saved saved; /* ... likewise */
};

/* The last checkpoint on command that was dealt with (control/checkpoint.c). */
struct status_checkpoint {
    int64_t request_ms; /* what ANNOTATION_CHECKPOINT had; 0: there was none, or it was no time */
    int64_t step;       /* after which it was written; 0: it was not */
    char message[STATUS_EXCUSE_BYTES];
};

/* See control/drift.c. */
struct status_drift {
    int64_t since_step; /* first step of the current run of steps that are off the plan; 0: none */
    bool is_reported;   /* in an Event, once per revision */
};

struct status_stage {
    int stage; /* its index */
    char pod[NAMES_BYTES];
    char pod_uid[STATUS_UID_BYTES]; /* of the pod that was created under this name; "": none yet */
    struct plan_worker plan;        /* without CPU and memory once it was read back */
    double measured_ms;             /* 0: not known yet */
    int busy_percent;               /* share of a step that it computes; 0: not known yet */
    struct status_drift drift;
    bool is_ready;
    char state[STATUS_WORD_BYTES]; /* a pod's phase */
};

struct status_placement {
    char strategy[STATUS_WORD_BYTES]; /* "": there is none */
    char nodes[STATUS_NODES_BYTES];
    char image[SPEC_IMAGE_BYTES]; /* of the first workers, kept for those that replace them; "": the
                                   * spec had one, or there are none yet */
    int micro_batches;
    struct plan_summary summary;
};

/* Units of a worker in a cut, which lists all workers in the order of the plan. */
struct status_share {
    int slot;
    int n_units;
    int micro_batches;   /* of a step that its replica computes; 0: there is one replica */
    double predicted_ms; /* as in a plan; 0: not known */
    bool grows;          /* the worker is started again, with more memory */
};

#define STATUS_JOINING_MAX 3

/* A worker that is started for the next cut. */
struct status_joining {
    int slot;
    char node[NODE_NAME_BYTES];
    int cpu_milli; /* that the node offers */
    int64_t memory_bytes;
};

/* The last decision whether units move, and what the next one needs: balance/rebalance.h. */
struct status_rebalance {
    char decision[STATUS_WORD_BYTES]; /* "Kept", "Joining", "Growing", "Moved"; "": not looked at
                                         yet */
    char message[STATUS_MESSAGE_BYTES];
    int64_t time_ms;
    int gain_percent;               /* of a step's time; 0: there is no better cut */
    int n_moves;                    /* so far, with those that went back */
    char asked[STATUS_ASKED_BYTES]; /* the last ANNOTATION_REPLAN that was answered */
    /* What the next decision needs of the last one: */
    int revision;         /* that was looked at, or the one that the last move has led to ... */
    int64_t samples;      /* ... of which so many steps were measured then */
    int n_seen;           /* times in a row that a move would have paid off */
    int64_t hold_ms;      /* no move before then, ... */
    int64_t hold_step;    /* ... nor before this step */
    double before_ms;     /* a step before the last move; 0: it has been judged */
    int expected_percent; /* of that, as it was predicted */
    int doubt_percent;    /* how much longer steps took than predicted after a move that was taken
                           * back, in percent; 0 is 100 */
    int n_next;           /* the cut of `revision`, while that is to be made, or of the one after
                           * it, while workers are started for that; 0: neither */
    struct status_share next[SPEC_STAGES_MAX];
    int n_joining; /* workers of that cut that the plan before has not */
    struct status_joining joining[STATUS_JOINING_MAX];
    int n_last; /* the cut before the last move, until that is judged */
    struct status_share last[SPEC_STAGES_MAX];
};

/* The words for `state`, as in the CRD. */
#define STATUS_STATES 13
extern const char *const status_states[STATUS_STATES];

struct status {
    char state[STATUS_WORD_BYTES];
    char message[STATUS_MESSAGE_BYTES];
    int64_t generation;
    struct condition conditions[CONDITION_COUNT];
    int revision;          /* the plan in force, or being made; 0: before the first */
    int64_t revision_ms;   /* when it was decided */
    int64_t revision_step; /* that it goes on from */
    char revision_reason[STATUS_MESSAGE_BYTES]; /* "": it is the first */
    int restarts;                               /* that count against failurePolicy.maxRestarts */
    int restarts_in_a_row;    /* of any kind, without a minute of training between them */
    int64_t next_revision_ms; /* the next revision is not made earlier */
    int memory_percent;       /* of the planned memory; 0 is 100 */
    struct model model;       /* the sizes in the files of spec.model.from; 0: not read */
    int64_t start_ms;         /* of training; once it is suspended, since it was resumed */
    int64_t completion_ms;
    int64_t suspend_ms; /* since when it is to be suspended; 0: it is not */
    struct status_progress progress;
    struct status_checkpoint checkpoint;
    struct status_placement placement;
    struct status_rebalance rebalance;
    int n_stages;
    struct status_stage stages[SPEC_STAGES_MAX]; /* last, see STATUS_BYTES */
};

/* Of a status without the stages that it does not have. */
#define STATUS_BYTES(n_stages)                                                                     \
    (offsetof(struct status, stages) + (size_t)(n_stages) * sizeof(struct status_stage))

/* The table that reader and writer follow, for the test that compares the CRD with it. */
extern const struct field status_fields[];

bool status_is(const struct status *s, enum condition_type type);

/* Complete or Failed: the status will not change again. */
bool status_is_final(const struct status *s);
/* Not yet Failed, but for pods that have to end first: the condition has the reason already. */
bool status_is_failing(const struct status *s);
#define STATUS_NOT_FAILED "NotFailed" /* the reason before that */
/* Either: nothing is done for the job any more but to end its pods. */
bool status_is_over(const struct status *s);

/* Set a condition. Returns whether its value or reason has changed: then it is worth an Event.
 * `now_ms` becomes the time of the transition only when the value has changed. */
struct condition_set {
    enum condition_type type;
    enum condition_value value;
    const char *reason;
    const char *message;
};
bool status_set(struct status *s, const struct condition_set *c, int64_t now_ms);

/* Never fails: what is unknown, of the wrong kind or out of bounds counts as missing. NULL gives an
 * empty status. */
void status_read(const struct json *json, struct status *out);

/* Append the status as one JSON object. What is not set is written as null, so that the text, used
 * as a merge patch, also removes it. */
void status_write(const struct status *s, struct jsonw *w, const char *key);

/* Take over what the leader reports, rounded to what is worth showing. */
void status_take_progress(struct status *s, const struct progress *p, int64_t now_ms);

#endif
