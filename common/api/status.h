/* api/status.h - the `status` of a SkyJob: as a struct, from JSON and back.
 *
 * The API server keeps it, so it is also the operator's memory: which attempt is the current one,
 * how many failed, when the next may start. status_write() is a function of the struct alone, so
 * two statuses are equal when their texts are. Times are wall clock in ms, 0 is "not set"; they are
 * kept in whole seconds, as Kubernetes does.
 * Layer: api (may use base). Threads: any; pure.
 */
#ifndef API_STATUS_H
#define API_STATUS_H

#include "api/names.h"
#include "api/node.h"
#include "api/plan.h"
#include "api/progress.h"
#include "base/json.h"
#include "base/jsonw.h"

#define STATUS_TEXT_MAX_BYTES ((size_t)128 << 10)
#define STATUS_MESSAGE_BYTES  768
#define STATUS_REASON_BYTES   40
#define STATUS_WORD_BYTES     24
#define STATUS_NODES_BYTES    400
#define STATUS_UID_BYTES      40

enum condition_type {
    CONDITION_ACCEPTED,   /* the spec can be run */
    CONDITION_PLACED,     /* there is a plan */
    CONDITION_RUNNING,    /* all workers of the current attempt know each other */
    CONDITION_UP_TO_DATE, /* the attempt was planned with the spec as it is now */
    CONDITION_STALLED,    /* something is in the way that the operator cannot remedy */
    CONDITION_COMPLETE,   /* for good */
    CONDITION_FAILED,     /* for good */
    CONDITION_COUNT,
};

enum condition_value {
    CONDITION_UNSET, /* not in the list yet */
    CONDITION_UNKNOWN,
    CONDITION_FALSE,
    CONDITION_TRUE,
};

struct condition {
    enum condition_value value;
    char reason[STATUS_REASON_BYTES];
    char message[STATUS_MESSAGE_BYTES];
    int64_t generation;
    int64_t changed_ms; /* when `value` last changed */
};

struct status_progress {
    bool is_set;
    int64_t step;
    int64_t total_steps;
    int64_t skipped_steps;
    int epoch;
    char loss[STATUS_WORD_BYTES]; /* "" before the first step */
    int64_t tokens_per_second;
    double step_ms; /* 0: not known yet */
    int percentage;
    int64_t remaining_seconds; /* negative: not known */
    int64_t updated_ms;
    char initialised[PROGRESS_INITIALISED_BYTES];
    int n_metrics;
    struct {
        char name[32];
        char value[STATUS_WORD_BYTES];
    } metrics[PROGRESS_METRICS_MAX];
};

struct status_stage {
    char pod[NAMES_BYTES];
    char pod_uid[STATUS_UID_BYTES]; /* of the pod that was created under this name; "": none yet */
    char node[NODE_NAME_BYTES];
    char units[MODEL_NAME_BYTES];
    double predicted_ms;
    double measured_ms;     /* 0: not known yet */
    int busy_percent;       /* share of a step that it computes; 0: not known yet */
    int64_t off_since_step; /* first of the steps in a row that are off the plan; 0: it is not */
    bool is_off_told;       /* in an Event, once an attempt */
    bool is_ready;
    char state[STATUS_WORD_BYTES]; /* a pod's phase */
};

struct status_placement {
    char strategy[STATUS_WORD_BYTES]; /* "": there is none */
    char nodes[STATUS_NODES_BYTES];
    double predicted_step_ms;
    double bound_ms;
    double even_step_ms; /* 0: Even does not fit */
    double dynamic_step_ms;
    int bottleneck;
    int n_left_out; /* all of them; the first few are listed */
    struct plan_left_out left_out[PLAN_LEFT_OUT_MAX];
    char reason[PLAN_REASON_BYTES];
};

struct status {
    char state[STATUS_WORD_BYTES];
    char message[STATUS_MESSAGE_BYTES];
    int64_t generation;
    struct condition conditions[CONDITION_COUNT];
    int attempt;             /* 0: before the first */
    int restarts;            /* those that count */
    int restarts_in_a_row;   /* of any kind, without ten minutes of training between them */
    int64_t next_attempt_ms; /* not before */
    int memory_percent;      /* of what the plan thinks is needed; 0 is 100 */
    int64_t start_ms;
    int64_t completion_ms;
    struct status_progress progress;
    int n_stages;
    struct status_stage stages[SPEC_STAGES_MAX];
    struct status_placement placement;
};

const char *condition_name(enum condition_type type);

bool status_is(const struct status *s, enum condition_type type);

/* Complete or Failed: nothing will ever happen again. */
bool status_is_final(const struct status *s);

/* Set a condition. Returns whether its value or reason is another now: then it is worth an Event.
 * `now_ms` becomes the time of change only when the value is another. */
struct condition_set {
    enum condition_type type;
    enum condition_value value;
    const char *reason;
    const char *message;
};
bool status_set(struct status *s, const struct condition_set *c, int64_t now_ms);

/* Never fails: what is missing or of the wrong kind is as if not there. NULL gives an empty one. */
void status_read(const struct json *json, struct status *out);

/* Append the members of `status` as one JSON object. What is not set is written as null, so that
 * the text used as a merge patch also removes. */
void status_write(const struct status *s, struct jsonw *w, const char *key);

/* Take over what a worker says. Rounds to what is worth showing. */
void status_take_progress(struct status *s, const struct progress *p, int64_t now_ms);

#endif
