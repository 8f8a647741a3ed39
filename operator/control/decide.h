/* control/decide.h - what to do about one job now.
 *
 * decide() looks at everything observed and names the next steps, which operator/run takes. Equal
 * input gives an equal decision, and after the steps have been taken the next decision is empty
 * until something changes. Steps may be taken twice (after a crash, or from a slightly stale
 * view): names are deterministic, deletions name the uid.
 *
 *   Accepted --> Placed (data there, nodes measured, plan kept) --> Running --> Complete
 *                  ^                                                  |
 *                  +---- next revision, after a growing pause --------+--> Failed
 *
 * A job is Complete or Failed once its pods have ended, and nothing is done for it any more.
 *
 * The order that makes a restart of the operator harmless at any point: a revision's number is
 * written to the status before anything of it is made; the revision is an immutable object
 * whose existence is the decision; pods are only made for a plan that was read back, and only
 * those count whose uid the operator got when it created them.
 * Layer: control (may use balance, cluster, api, base). Threads: any; pure.
 */
#ifndef CONTROL_DECIDE_H
#define CONTROL_DECIDE_H

#include "control/observed.h"

#define DECIDE_ACTIONS_MAX 256

#define DECIDE_FAILED_MS      1000   /* after the first worker that failed in training */
#define DECIDE_BACKOFF_MS     10000  /* after the first restart in a row, then doubled ... */
#define DECIDE_BACKOFF_MAX_MS 300000 /* ... up to this */
#define DECIDE_DATA_RETRY_MS  10000
#define DECIDE_DATA_STALE_MS  60000 /* data seen before that is checked again */
#define DECIDE_NODES_RETRY_MS 30000
#define DECIDE_SOLVE_MS       5000  /* between two searches for a plan of a job that does not fit */
#define DECIDE_PROBLEM_MIN    2     /* failures in a row until the status shows them */
#define DECIDE_TERMINATING_MS 15000 /* until then our own ended pods may still be terminating */
#define DECIDE_EVENTS_MS      30000 /* between two looks at the Events of a pod that does not start */
#define DECIDE_PENDING_MS     60000  /* a pod unschedulable for longer needs a new plan */
#define DECIDE_START_MS       120000 /* after which a pod with a problem releases its node ... */
#define DECIDE_CREATING_MS    600000 /* ... and one without, as when a large image is pulled */
#define DECIDE_UNREACHABLE_MS 10000  /* a worker that has just started may not listen yet */
#define DECIDE_GIVE_BACK_MS   300000 /* of a worker that never answered */
#define DECIDE_SILENT_MS      60000  /* of a leader in training, after which it is reported */
#define DECIDE_STILL_MS       600000 /* without a step, after which a standstill is reported */
#define DECIDE_PEER_GRACE_MS  5000   /* after a lost connection, for its cause to show */
#define DECIDE_HALT_POLL_MS   250    /* between two requests for the report of one that halts */
#define DECIDE_PROGRESS_MS    10000  /* between two writes of progress, at least */
#define DECIDE_POLL_MS        1000   /* between two status requests to the leader, at least */
#define DECIDE_POLL_MAX_MS    30000  /* likewise, however many jobs train */
#define DECIDE_POLL_JOB_MS    100    /* this for each job that trains, if that is more */
#define DECIDE_REPORTS_MS     5000   /* between two requests for the report of one that trains */
#define DECIDE_ENDS_S         60     /* a job that has less to go is looked at often */
#define DECIDE_BROKEN_MS      500    /* likewise after a session has ended: is it there? */

/* Workers that leave. */
#define DECIDE_LEAVING_GRACE_MS  5000  /* in less a worker cannot hand its units over */
#define DECIDE_LEAVING_SILENT_MS 5000  /* one that does not answer for so long is lost */
#define DECIDE_LEAVING_SAVE_MS   10000 /* for a last checkpoint, where no other can take over */
/* For the process of a pod that is deleted because it is not needed any more. */
#define DECIDE_DELETE_GRACE_S 1

enum action_kind {
    ACTION_READ_DATA,         /* look at the data ConfigMap and all claims */
    ACTION_CREATE_POLICY,     /* the NetworkPolicy, before the first pod */
    ACTION_CREATE_REVISION,   /* decision.revision as ConfigMap; everything else waits for it */
    ACTION_RESTORE_REVISION,  /* the observed one, whose ConfigMap was deleted, byte for byte */
    ACTION_DELETE_REVISION,   /* of `revision` with `uid` */
    ACTION_CREATE_WORKER_POD, /* of `stage` of the observed plan */
    ACTION_CREATE_SUBSTITUTE, /* worker pod `slot` on `node` with `cpu_milli` and `memory_bytes`,
                                 for `stage` of the next plan */
    ACTION_CREATE_PROBE_SPEC, /* ConfigMap that probes read */
    ACTION_CREATE_PROBE_POD,  /* for `node` with `cpu_milli` and `memory_bytes` */
    ACTION_CREATE_MODEL_POD,  /* with `image`, to read the sizes of the model to start from */
    ACTION_DELETE_POD,        /* `name` with `uid` */
    ACTION_ANNOTATE_NODE,     /* `node` with what probe pod `name` found there */
    ACTION_INVALIDATE_PROBE,  /* `node`: training contradicts what was measured there */
    ACTION_READ_EVENTS,       /* what the kubelet reports of pod `name` with `uid` */
    ACTION_POST_REVISION,     /* to worker pod `name` */
    ACTION_HALT,              /* worker pod `name`, in `revision` and older ones; or release it */
    ACTION_ORDER_CHECKPOINT,  /* from worker pod `name`, the leader: number `order` */
    ACTION_POST_PROBE_PEERS,  /* to the probe pod `name`: its partners */
    ACTION_DELETE_GROUP, /* Kueue's Workload of `group`, which holds pods that will never run */
    ACTION_DELETE_JOB,   /* the SkyJob itself */
    ACTION_EVENT,        /* `reason`, `text`, `is_warning` */
};

struct action {
    enum action_kind kind;
    int stage;
    int slot;
    int revision;
    int64_t order;
    bool reads_data; /* the substitute is a first stage */
    bool keeps_spec; /* the revision has the spec of the last one, and not the job's ... */
    bool takes_sync; /* ... but for the job's spec.sync */
    char name[NAMES_BYTES];
    char uid[OBSERVED_UID_BYTES];
    char node[NODE_NAME_BYTES];
    int cpu_milli;
    int64_t memory_bytes;
    uint64_t image; /* hash of a probe's or reader's */
    int group;      /* number of the one that a worker's pod joins; 0: none */
    int group_size;
    bool is_warning;
    char reason[STATUS_REASON_BYTES];
    char text[STATUS_MESSAGE_BYTES];
};

struct decision {
    int n_actions;
    struct action actions[DECIDE_ACTIONS_MAX];
    struct status status;     /* to be written last, if it differs from the observed one */
    struct revision revision; /* of ACTION_CREATE_REVISION */
    /* Ask the leader for its status, and all workers for their reports, unless that was done within
     * this time; -1: do not. */
    int64_t ask_leader_ms;
    int64_t ask_reports_ms;
    int64_t requeue_ms; /* decide again after this at the latest; -1: only when something changes */
    struct unplaced unplaced; /* to be handed in with the next call */
};

/* The pod of a worker; NULL when there is none. */
const struct seen_pod *decide_worker_pod(const struct observed *seen, struct revision_worker id);

/* Has the pod neither run nor been scheduled, and is deleted? Kueue waits for its replacement. */
bool group_holds(const struct seen_pod *p);

/* Is the pod to end, as when its node is drained, while its worker goes on for long enough to hand
 * its units over? Decisions need the nodes then. */
bool decide_is_leaving(const struct seen_pod *pod);

/* Are workers being started for the next plan, while the last one trains? Likewise. */
bool decide_is_join_due(const struct observed *seen);

/* Has a job that trains fewer replicas than its spec asks for, and is it time to look for room for
 * the others? Likewise. */
bool decide_is_replica_due(const struct observed *seen);

/* How often the leader of a job that trains is asked for its status, and how often progress is
 * written. All looks at jobs together are to need a constant part of a core: of more than ten jobs
 * that train each is looked at less often. */
int64_t decide_poll_ms(const struct observed *seen);
int64_t decide_progress_ms(const struct observed *seen);

/* Has the leader measured enough to decide whether units move? Decisions need the nodes then. */
bool decide_is_balance_due(const struct observed *seen);

/* Which probes measure the link between them, and in what order: a round-robin tournament. In each
 * round every probe has one partner, so that no measurement disturbs another on the same machine.
 * The partner of probe `i` of `n` in `round` (from 0); -1: none, since n is odd. After n - 1 rounds
 * (n of an odd number) all have been paired with each other once. */
int pairing_partner(int n, int round, int i);
int pairing_rounds(int n);

/* Fill in all of `out`. Never fails: what cannot be done is reported in out->status.
 *
 * Searching for a plan is the only part that takes long: 20 to 100 ms on 64 nodes, up to a second
 * where a large model does not fit. For a job that did not fit it is done at most every
 * DECIDE_SOLVE_MS, and only when something that the answer depends on has changed. */
void decide(const struct observed *seen, struct decision *out);

#endif
