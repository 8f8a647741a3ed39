/* control/context.h (private) - what the policies of this folder share.
 *
 * A context belongs to one call of decide(): what was observed, what is being decided, and what has
 * been worked out on the way. Policies read `seen`, add to `out`, and never take anything back.
 * Layer: control (may use balance, cluster, api, base). Threads: one per context.
 */
#ifndef CONTROL_CONTEXT_H
#define CONTROL_CONTEXT_H

#include "api/recover.h"
#include "balance/replicas.h"
#include "cluster/survey.h"
#include "control/decide.h"

/* What becomes of the units of workers that leave. */
enum drain_state {
    DRAIN_NONE,       /* none leaves */
    DRAIN_WAITING,    /* nothing to do yet */
    DRAIN_JOINING,    /* the workers that take them are being started */
    DRAIN_READY,      /* the next plan is in out->revision */
    DRAIN_IMPOSSIBLE, /* none can take them: those that leave count as lost */
};

struct context {
    const struct observed *seen;
    struct decision *out;
    struct spec spec;   /* as the user wants it now */
    int number;         /* of the revision in force, or of the next one while that is to be made */
    bool has_plan;      /* the observed revision is the one in force */
    bool is_recovering; /* workers of the last revision wait for the next one */
    bool is_stalled;    /* context_stall() was called */
    enum drain_state drain; /* of drain_look() */
    char drain_text[STATUS_MESSAGE_BYTES];
};

/* Add an action; the caller fills in the rest. A full list drops it: the next decision asks again.
 */
struct action *context_add(struct context *c, enum action_kind kind);
/* Unless there is one of the kind. */
void context_add_once(struct context *c, enum action_kind kind);
void context_add_event(struct context *c, bool is_warning, const char *reason, const char *text);
/* Decide again after at most `ms`. */
void context_requeue(struct context *c, int64_t ms);

/* Set a condition and, when its value or reason has changed, post an Event with it too. */
enum event_kind {
    EVENT_NONE,
    EVENT_NORMAL,
    EVENT_WARNING,
};
void context_true(struct context *c, enum condition_type type, enum event_kind event,
                  const char *reason, const char *message);
void context_false(struct context *c, enum condition_type type, enum event_kind event,
                   const char *reason, const char *message);
/* The state and the message that users see first. */
void context_show(struct context *c, const char *state, const char *message);
/* Set Placed to false, and show the message. */
void context_wait(struct context *c, const char *state, enum event_kind event, const char *reason,
                  const char *message);
/* Set Stalled, for what the operator cannot fix itself, and show the message. At most once per
 * decision. */
void context_stall(struct context *c, const char *state, const char *reason, const char *message);

/* Of the memory that stages need, what their pods get: more than 100 after one ran out of memory,
 * and for the headroom of the spec, unless that is NULL. */
int context_memory_percent(const struct context *c, const struct spec *spec);
/* The NetworkPolicy, once, before the pods that it is for. */
void context_add_policy(struct context *c);
void context_delete_pod(struct context *c, const struct seen_pod *pod);
/* The pod of a stage: of the plan in force or, during a recovery, of those that wait; NULL when
 * there is none. */
const struct seen_pod *context_stage_pod(const struct context *c, int stage);
int context_n_stages(const struct context *c);
/* Can all be halted, and lose seconds of training at most? Replicas out of step go back to the
 * newest checkpoint. */
bool context_may_halt(const struct context *c);
/* spec.worker as it is now, for api/pods.h; NULL: there is none. */
const struct json *context_worker(const struct context *c);
/* The nodes as they were seen, for a plan of this spec. */
struct survey_request context_survey(const struct context *c, const struct spec *spec);
/* Is there a worker of this job on the node? */
bool context_has_worker(const struct context *c, const char *node);
/* Does the pod's node answer? One that does not may keep its pods for ever. */
bool context_has_answering_node(const struct context *c, const struct seen_pod *p);
/* Have all workers accepted the revision in force? */
bool context_has_started(const struct context *c);

/* oneshot.c: pods that run once and leave a report. Delete those that failed a while ago, to try
 * again. Returns whether any has held a node without starting there. */
bool oneshot_drop_failed(struct context *c, enum pod_role role);
/* The same when there will be no plan this time. */
void oneshot_retry(struct context *c, enum pod_role role);

/* The survey of nodes, and the probes of this job. */
struct nodes {
    struct survey survey;
    int n_measuring;                          /* still being measured: no plan before that */
    char image_problem[OBSERVED_TEXT_BYTES];  /* a probe's image cannot be pulled; "" if it can */
    char waits_for[STATUS_MESSAGE_BYTES / 2]; /* what else keeps a probe from starting */
    char failed[STATUS_MESSAGE_BYTES / 2];    /* "node a: its probe ..."; "" if none failed */
    int n_failed_more;                        /* for which there is no room in `failed` */
};
/* Also asks for probes of nodes that are not measured and have no worker that trains, and for
 * labels from probes that are done. The caller owns out->survey. ERR_NO_MEMORY. */
MUST_CHECK enum err_code nodes_survey(struct context *c, struct nodes *out, struct err *err);
/* A probe pod's result as it is kept on the node. */
void nodes_annotation(const struct observed *seen, const struct spec *spec,
                      const struct node_object *node, const struct seen_pod *pod,
                      struct annotation_probe *out);

/* The sizes of the model to start from, where the spec leaves them to the model's files: a pod with
 * the model's volume reports them, the status keeps them, and the next observation has a spec with
 * them. Returns whether there is no plan without them; then the reason is in the status. */
bool model_waits(struct context *c);
/* ERR_INVALID when the spec gives other sizes than the model's files have. */
MUST_CHECK enum err_code model_check_given(const struct context *c, struct err *err);

/* place.c: from data and nodes to a plan, or back to the last one with new workers for those that
 * were lost; then the next revision goes on from what the others hold. */
void place(struct context *c);
/* What the plan of a suspended job would be, from what is known of the nodes: into its status. */
void place_preview(struct context *c);
/* What the planner is asked for: all that the survey has. ERR_NO_MEMORY. */
MUST_CHECK enum err_code place_request(const struct context *c, const struct spec *spec,
                                       struct survey *survey, struct partition_request *out,
                                       struct err *err);

/* protocol.c: a change of spec.sync while replicas train. */
/* Is there one that needs no other plan, and can all be halted for it? */
bool protocol_is_due(const struct context *c);
/* Go on to a revision with it. Returns whether that is so. */
bool protocol_follow(struct context *c);
/* While that, or another revision, is to be made: c->spec has it. */
void protocol_take(struct context *c);

/* missing.c: fewer replicas than the spec asks for, while nodes that were lost have no successors.
 */
/* Has the plan fewer? */
bool missing_replicas(const struct plan *plan);
/* May it, as there is progress that would have to wait? */
bool missing_are_allowed(const struct context *c);
/* replicas_choose() for the spec's number or, if that is allowed, the most below it. */
MUST_CHECK enum err_code missing_choose(struct context *c, const struct partition_request *request,
                                        struct replicas *out, struct err *err);
/* Go on to a revision with all of them if nodes have room. Returns whether that is so. */
bool missing_return(struct context *c);

/* places.c: a plan for given workers. */
/* A stage of the next plan. */
struct place {
    int stage;        /* in the last plan */
    struct node node; /* what it offers; of an open one, what the worker has that leaves */
    int n_units;
    int micro_batches; /* of a step, that its replica computes; 0: it is the only one */
    int slot;
    const struct seen_pod *pod; /* NULL: to be created */
    bool is_open;               /* its worker leaves, and no node was found so far */
};

struct places {
    const struct survey *survey;
    int n;
    struct place list[SPEC_STAGES_MAX];
};

/* A candidate with this much of its CPU, which has that share of its speed. */
void places_share(const struct node *candidate, int cpu_milli, int64_t memory_bytes,
                  struct node *out);
/* What the pod of a worker offers. A node that is no candidate, as when it is to be drained too, is
 * as fast as the last plan has it. */
void places_offer(const struct context *c, const struct survey *s, int stage,
                  const struct seen_pod *pod, struct node *out);
/* Give the node the speed with which these units take `ms` per micro-batch. */
void places_pace(const struct context *c, const struct survey *s, int first_unit, int n_units,
                 double ms, struct node *node);
/* Of its memory, what is left beside the pods of this job. */
int64_t places_memory_left(const struct context *c, const struct node *candidate);
/* What a candidate has beside the pods of this job; false: too little. A worker from before a
 * restart of the operator that may be a new one does not count: it is created again, and found
 * there. */
bool places_offer_free(const struct context *c, const struct survey *s, int candidate,
                       struct node *out);
/* What a partition is asked for with these places; `out` points into `space`. */
struct places_space {
    struct spec spec;
    struct node nodes[SPEC_STAGES_MAX];
    struct cost_link links[SPEC_STAGES_MAX * SPEC_STAGES_MAX];
};
void places_request(const struct context *c, const struct places *p, struct places_space *space,
                    struct partition_request *out);
/* The plan with these places, in `plan`. ERR_NOT_FOUND when a stage does not fit where it is. */
MUST_CHECK enum err_code places_plan(const struct context *c, const struct places *p,
                                     struct plan *plan, struct err *err);

/* Workers for the next plan are created while the last one trains: with its number as incarnation
 * and a slot, below this number, that it has not. */
#define PLACES_SLOTS (2 * SPEC_STAGES_MAX)
/* Create the worker of a place, for a stage of the plan in out->revision. */
void places_create(struct context *c, const struct place *place, int stage);
/* Has another pod the name that is due for such a worker? */
bool places_is_name_taken(const struct context *c, int slot);
/* Does the pod run, and answer? NULL: it is not there. */
bool places_has_joined(const struct seen_pod *pod);

/* rebalance.c: units that move between the workers of a running job, or to new ones. */
#define REBALANCE_REASON "Rebalanced"
/* Is this a worker that is started for the next cut? */
bool rebalance_is_joining(const struct context *c, const struct seen_pod *pod);
/* May probes measure nodes that could join, while the job trains? */
bool rebalance_measures(const struct context *c);
/* Look at what the leader has measured, and go on to the next revision if that pays: it has the cut
 * in the status then. */
void rebalance_look(struct context *c);
/* While that revision is to be made: its plan, in out->revision. Returns whether there is one. */
bool rebalance_plan(struct context *c);

/* drain.c: workers whose pods are to end, and that train on meanwhile (decide_is_leaving()). */
#define DRAIN_REASON "WorkerLeaving"
/* Find out who takes their units, and have workers created for that. Before restart_judge(). */
void drain_look(struct context *c);
/* Is this a worker that leaves, and is not lost? */
bool drain_goes_on(const struct context *c, const struct seen_pod *pod);
/* Is this a worker that is to take the units of one that leaves? */
bool drain_is_joining(const struct context *c, const struct seen_pod *pod);
/* All is ready: go on to the next revision. Returns whether that is so. */
bool drain_hands_over(struct context *c);

/* pod.c: pods that do not start. */
/* Does the pod wait for its image? Then the message is in `out`. */
bool pod_image_problem(const struct context *c, const struct seen_pod *pod,
                       char out[static OBSERVED_TEXT_BYTES]);
/* Does it wait for anything else? Likewise, as its status or Events report it. */
bool pod_start_problem(const struct seen_pod *pod, char *out, size_t bytes);
/* Look up why a pod does not start. */
void pod_request_events(struct context *c, const struct seen_pod *p);
/* How long a pod that has a node may go on trying to start; below 0: its node is better given back
 * to others, and all is tried again after a pause. */
int64_t pod_start_left_ms(const struct context *c, const struct seen_pod *pod);
bool pod_is_over(const struct seen_pod *pod);

/* group.c: pods of workers that Kueue admits together. */
/* Of the pods that are to be created, which ones? When all have been asked for. */
void group_workers(struct context *c);
/* Have Kueue let go of pods that it waits for replacements of. */
void group_release(struct context *c);

/* recovery.c: from a revision to the next, with the workers that are left. The status lists them:
 * its stages have the uids of their pods. */
struct recovery {
    struct revision stub; /* of what the status knows, when the last revision is not known */
    struct recover_input in;
    struct recover_worker workers[PEERS_MAX];
    const struct seen_pod *pods[PEERS_MAX]; /* of `workers`; NULL: gone */
};
/* The workers of the observed revision as api/recover.h wants them. */
void recovery_look(const struct context *c, struct recovery *out);
/* Is this a worker that was not lost, as far as the status says? */
bool recovery_keeps(const struct context *c, const struct seen_pod *pod);
/* Is there any? Then the next revision is for them, too. */
bool recovery_is_due(const struct context *c);
/* Has it had enough time to halt? Then it counts as lost. */
bool recovery_is_overdue(const struct seen_pod *pod);
/* Has a worker on this node that was lost stopped responding? Its node may be cut off: it is no
 * place for another one, and what is left of the pod may stay for ever. */
bool recovery_has_silent(const struct context *c, const char *node);
/* Halt all, then make the next revision. */
void recovery_drive(struct context *c);
/* What the workers that are left hold; returns how many have reported. */
int recovery_reports(const struct context *c, const struct report *out[static PEERS_MAX]);

/* training.c: from a revision to workers that train, and to their end. */
/* Where the plan has its workers, and why, in the status. */
void context_show_placement(struct context *c, const struct plan *plan);
void training_drive(struct context *c);
/* The leader is done: release it and complete the job. Returns whether that is so. */
bool training_end(struct context *c, const struct recovery *r);
/* Has the status the leader's last progress? Whatever happens then, the job has ended. */
bool training_is_finishing(const struct context *c);
/* Has the spec changed, in what may change while the job exists, since the plan was made? */
bool training_is_outdated(const struct context *c);

/* checkpoint.c: have the leader write one when a user asks for it, and report what became of it. */
void checkpoint_follow(struct context *c);
/* Have it write one that counts as number `order`, a time in ms, unless it has one as late. */
void checkpoint_order(struct context *c, int64_t order);

/* drift.c: what the workers measure against what the plan predicted. Fills in how busy every stage
 * is, and reports, once per revision, a stage whose time differs from the plan by more than
 * DRIFT_SHARE and by at least DRIFT_STEP_SHARE of the step, for DRIFT_STEPS steps that took
 * DRIFT_MS. Its node was measured wrong or is used by another program, so its measurement is not
 * used again. */
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
    VERDICT_REFUSED, /* a worker has another revision, or key, than ours */
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
/* Give up, or write down the next revision. */
void restart_apply(struct context *c, const struct verdict *v);
/* Go on to the next revision without counting. `reason` and `text` end up in Running. */
struct next {
    const char *reason;
    const char *text;
    int64_t pause_ms;
    bool keeps_workers; /* those that are listed in the status; else all begin anew */
    bool is_expected;   /* nothing has gone wrong, and an Event has told why */
};
void restart_next(struct context *c, const struct next *n);
/* There is no plan yet: do nothing for a pause. */
void restart_pause(struct context *c);
/* The job fails: the condition Failed gets the reason now, and becomes true with restart_end(),
 * once all of its pods have ended. */
void restart_give_up(struct context *c, const char *reason, const char *text);
void restart_end(struct context *c);

/* deadline.c: spec.activeDeadlineSeconds and spec.failurePolicy.startDeadlineSeconds. Returns
 * whether one of them has passed: then the job has failed. */
bool deadline_has_passed(struct context *c);

/* suspend.c: spec.suspend. */
/* Is the job suspended, and not resumed? */
bool suspend_is_kept(const struct observed *seen);
/* Returns whether it is suspended now: there is nothing to drive. */
bool suspend_follow(struct context *c);

#endif
