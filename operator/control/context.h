/* control/context.h (private) - what the policies of this folder share.
 *
 * A context belongs to one call of decide(): what was observed, what is being decided, and what has
 * been worked out on the way. Policies read `seen`, add to `out`, and never take anything back.
 * Layer: control (may use balance, cluster, api, base). Threads: one per context.
 */
#ifndef CONTROL_CONTEXT_H
#define CONTROL_CONTEXT_H

#include "balance/request.h"
#include "cluster/survey.h"
#include "control/decide.h"

struct context {
    const struct observed *seen;
    struct decision *out;
    struct spec spec; /* as the user wants it now */
    int attempt;      /* the current one */
    bool is_stalled;  /* context_stall() was called */
};

/* Add an action; the caller fills in the rest. A full list drops it: the next decision asks again.
 */
struct action *context_add(struct context *c, enum action_kind kind);
void context_add_event(struct context *c, bool is_warning, const char *reason, const char *text);
/* Decide again after at most `ms`. */
void context_requeue(struct context *c, int64_t ms);

/* Set a condition and, when it has changed, post an Event with it too. */
enum news {
    NEWS_QUIET,
    NEWS_NORMAL,
    NEWS_WARNING,
};
void context_set(struct context *c, enum news news, const struct condition_set *set);
/* Something blocks the job that the operator cannot remedy. At most once per decision. */
void context_stall(struct context *c, const char *reason, const char *message);
/* For people: a word and a sentence. */
void context_show(struct context *c, const char *state, const char *message);

/* The NetworkPolicy, once, before the pods that it is for. */
void context_add_policy(struct context *c);
void context_delete_pod(struct context *c, const struct seen_pod *pod);
/* The pod of a stage in the current attempt; NULL when there is none. */
const struct seen_pod *context_stage_pod(const struct context *c, int stage);
/* Have all workers of the current attempt had the peer table? */
bool context_has_started(const struct context *c);

/* nodes.c: the survey of nodes, and the probes of this job. */
struct nodes {
    struct survey survey;
    int n_measuring;                          /* still being measured: no plan before that */
    char image_problem[OBSERVED_TEXT_BYTES];  /* a probe's image cannot be pulled; "" if it can */
    char waits_for[STATUS_MESSAGE_BYTES / 2]; /* what else keeps a probe from starting */
    char failed[STATUS_MESSAGE_BYTES / 2];    /* "node a: its probe ..."; "" if none failed */
    int n_failed_more;                        /* for which there is no room in `failed` */
};
/* Also asks for probes of nodes that are not measured, and for labels from probes that are done.
 * The caller owns out->survey. ERR_NO_MEMORY. */
MUST_CHECK enum err_code nodes_survey(struct context *c, struct nodes *out, struct err *err);
/* A probe pod's result as it is kept on the node. */
void nodes_annotation(const struct observed *seen, const struct spec *spec,
                      const struct node_object *node, const struct seen_pod *pod,
                      struct annotation_probe *out);

/* oneshot.c: pods that run once and leave a report. The hash of the image that they get. */
uint64_t oneshot_image(const struct context *c);
/* The spec has asked for another image since the pod was created. */
bool oneshot_is_outdated(const struct context *c, const struct seen_pod *pod);
/* It has ended without a report, or will not leave one. */
bool oneshot_has_failed(const struct context *c, const struct seen_pod *pod);
/* Why, in a few words behind `what`, which names the pod. */
void oneshot_describe(const struct seen_pod *pod, const char *what, char *out, size_t bytes);
/* There will be no plan this time: delete those that failed a while ago, to try again. */
void oneshot_retry(struct context *c, enum pod_role role);

/* model.c: the sizes of the model to start from, where the spec leaves them to the model's files.
 * Returns whether there is no plan without them, with the reason in *out. */
struct model_wait {
    enum news news;
    const char *reason;
    char text[STATUS_MESSAGE_BYTES];
};
bool model_waits(struct context *c, struct model_wait *out);
/* ERR_INVALID when the spec gives other sizes than the model's files have. */
MUST_CHECK enum err_code model_check_given(const struct context *c, struct err *err);

/* tour.c: let the probes that run meet each other, once all of them do or after a while. */
void pairing_begin(struct context *c);

/* place.c: from data and nodes to a plan. */
void place(struct context *c);

/* attempt.c: from a plan to workers that know each other, and their end. */
void attempt_drive(struct context *c);
/* What may be changed while the job exists, has been changed since the plan was made. */
bool attempt_is_outdated(const struct context *c);
/* Is it the image that keeps this pod waiting? Then the message is in `out`. */
bool attempt_image_problem(const struct context *c, const struct seen_pod *pod,
                           char out[static OBSERVED_TEXT_BYTES]);
/* Does anything else keep it from starting? Likewise; as its status or Events report it. */
bool attempt_start_problem(const struct seen_pod *pod, char *out, size_t bytes);
/* Look up why a pod does not start. */
void attempt_request_events(struct context *c, const struct seen_pod *p);
/* How long a pod that has a node may go on trying to start; below 0: its node is better given back
 * to others, and all is tried again after a pause. */
int64_t attempt_start_left_ms(const struct context *c, const struct seen_pod *pod);

/* drift.c: what the workers measure against what the plan predicted. Fills in how busy every stage
 * is, and reports, once per attempt, a stage whose time differs from the plan by more than
 * DRIFT_SHARE and by at least DRIFT_STEP_SHARE of the step, for DRIFT_STEPS steps that took
 * DRIFT_MS. Its node was measured wrong or is used by another program, so its figure is doubted. */
#define DRIFT_SHARE      0.25
#define DRIFT_STEP_SHARE 0.05
#define DRIFT_STEPS      20
#define DRIFT_MS         10000
void drift_watch(struct context *c, const struct progress *from);
/* Append a sentence when steps take longer or shorter than the plan predicted. */
void drift_describe(const struct status *s, char *text, size_t bytes);

/* restart.c: what the end of a pod means. */
enum verdict_kind {
    VERDICT_NONE,          /* all is well, as far as one can see */
    VERDICT_WAIT,          /* a worker lost a neighbour: wait for the cause to show */
    VERDICT_PEER_LOST,     /* no cause found */
    VERDICT_UNSCHEDULABLE, /* a pod fits on no node: plan again */
    VERDICT_UNREACHABLE,   /* workers run and do not answer */
    VERDICT_START_TIMEOUT, /* a pod holds a node and cannot start there */
    VERDICT_NAME_TAKEN,    /* the name of a pod belongs to another one */
    VERDICT_NO_PROGRESS,   /* the trainer hangs */
    VERDICT_FAILED,
    VERDICT_REFUSED, /* a worker has another peer table, or key, than ours */
    VERDICT_DATA_MISSING,
    VERDICT_DISRUPTED, /* deleted, evicted, its node gone */
    VERDICT_OUT_OF_MEMORY,
    VERDICT_OUTPUT, /* trained, but the output cannot be saved */
    VERDICT_CONFIG, /* the same job can never work */
};
struct verdict {
    enum verdict_kind kind; /* the gravest of all pods */
    int stage;
    char text[STATUS_MESSAGE_BYTES];
};
void restart_judge(const struct context *c, struct verdict *out);
/* Give up, or write down the next attempt. */
void restart_apply(struct context *c, const struct verdict *v);
/* Go on to the next attempt without counting. `reason` and `text` end up in Running. */
void restart_next(struct context *c, const char *reason, const char *text, int64_t pause_ms);
/* Stay in this attempt, which has no plan yet, and do nothing for a pause. */
void restart_pause(struct context *c);

#endif
