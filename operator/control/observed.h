/* control/observed.h - everything that a decision about one job is made from.
 *
 * Filled by operator/run from its store, read by decide(). Nothing in it is a pointer into the API
 * client, and nothing that decide() needs is outside of it. Times are wall clock in ms.
 * Layer: control (may use balance, cluster, api, base).
 */
#ifndef CONTROL_OBSERVED_H
#define CONTROL_OBSERVED_H

#include "api/names.h"
#include "api/node.h"
#include "api/plan.h"
#include "api/progress.h"
#include "api/status.h"
#include "cluster/node_object.h"

/* With the one that reads the model; beside them there is a probe per node. */
#define OBSERVED_STAGE_PODS   (3 * SPEC_STAGES_MAX + 1)
#define OBSERVED_PLANS_MAX    16
#define OBSERVED_UID_BYTES    STATUS_UID_BYTES
#define OBSERVED_WORD_BYTES   64
#define OBSERVED_TEXT_BYTES   240
#define SETTINGS_LABELS_BYTES 512
#define OBSERVED_WHY_BYTES    ERR_TEXT_BYTES

enum pod_role {
    POD_STAGE,   /* created by the operator, or of an attempt that is over */
    POD_PROBE,   /* created by the operator */
    POD_MODEL,   /* likewise: it reads the sizes of the model to start from */
    POD_CLAIMED, /* has our labels and a name that is due, but nothing proves that we made it */
    POD_TAKEN,   /* has a name that is due and is not what we would have made */
};

enum pod_phase {
    POD_PENDING,
    POD_RUNNING,
    POD_SUCCEEDED,
    POD_FAILED,
};

/* A pod of this job, whatever its attempt. */
struct seen_pod {
    char name[NAMES_BYTES];
    char uid[OBSERVED_UID_BYTES];
    enum pod_role role;
    int stage;                  /* of a stage */
    int attempt;                /* of a stage; 0: another pod */
    char node[NODE_NAME_BYTES]; /* where it is or, of a probe, where it is meant to be */
    enum pod_phase phase;
    bool is_ready;
    bool is_deleting;
    bool is_disrupted; /* evicted, preempted, its node shut down: not the worker's fault */
    bool is_unschedulable;
    bool is_out_of_memory;
    bool has_exit_code;
    bool has_peers;                    /* has taken the peer table from us */
    bool refuses_peers;                /* has refused it: it has another one, or another key */
    char refusal[OBSERVED_TEXT_BYTES]; /* its reason */
    int exit_code;
    int cpu_milli;        /* its limit */
    uint64_t image_asked; /* hash of the image that a probe or reader was created with */
    char ip[PEERS_HOST_BYTES];
    char
        reason[OBSERVED_WORD_BYTES]; /* why it waits or ended, in Kubernetes' word; "" if neither */
    char message[OBSERVED_TEXT_BYTES]; /* the message that goes with it */
    int64_t created_ms;                /* when the operator first saw it */
    int64_t started_ms;  /* its container, by its node's clock; 0: has not, or not reported */
    int64_t finished_ms; /* of a probe by its node's clock, else when the operator first saw it;
                            0: has not */
    int64_t events_ms;   /* when its Events were last read; 0: not yet */
    int64_t silent_ms;   /* how long calls to it have failed; 0: it answers */
    bool has_progress;   /* a worker's last words */
    struct progress progress;
    bool has_probe; /* a probe's result */
    struct node_probe probe;
    bool has_model; /* the sizes that were read: */
    struct model model;
    char digest[ANNOTATION_DIGEST_BYTES]; /* of its image; "" before it runs */
};

enum data_state {
    DATA_UNKNOWN, /* not looked at yet */
    DATA_PRESENT,
    DATA_MISSING,
    DATA_NO_CLAIM, /* a claim of the data, the model or the output is not there */
};

/* The last search for a plan, if it found none: the same question has the same answer. */
struct unplaced {
    bool is_set;
    uint64_t digest; /* of everything that the answer depends on */
    int64_t solved_ms;
    char why[OBSERVED_WHY_BYTES];
};

/* What the API server last answered to a step of this job that failed. */
struct seen_problem {
    int n_in_a_row; /* 0: there is none */
    enum err_code code;
    char text[OBSERVED_TEXT_BYTES];
};

/* How the operator was started. */
struct settings {
    char worker_image[SPEC_IMAGE_BYTES];
    char pull_policy[SPEC_WORD_BYTES];            /* "": the spec's */
    char probe_priority_class[NODE_NAME_BYTES];   /* of probes; "": the cluster's default */
    bool has_network_policies;                    /* jobs get one each */
    char operator_namespace[OBSERVED_WORD_BYTES]; /* of the operator's pods; "": not known */
    char operator_labels[SETTINGS_LABELS_BYTES];  /* of those: "key=value,key=value" */
};

struct observed {
    int64_t now_ms;
    struct settings settings;

    char namespace[OBSERVED_WORD_BYTES];
    char name[OBSERVED_WORD_BYTES];
    char uid[OBSERVED_UID_BYTES];
    int64_t generation;
    int64_t created_ms;
    bool is_deleting;
    /* As the user wrote it, and with the sizes in status.model; borrowed, like what follows. */
    const struct json *spec_json;
    const struct spec *spec; /* NULL: invalid, see `spec_problem` */
    const char *spec_problem;
    struct status status;

    int n_pods;
    struct seen_pod *pods;

    /* Plans that exist, by attempt; the newest one is read. */
    int n_plans;
    int plan_attempts[OBSERVED_PLANS_MAX];
    char plan_uids[OBSERVED_PLANS_MAX][OBSERVED_UID_BYTES];
    bool has_plan;
    bool is_plan_lost; /* its ConfigMap was deleted, and `plan` is what is remembered of it */
    struct plan plan;

    /* What a look at the data ConfigMap and at all claims has found. The files in a claim are not
     * looked at. */
    enum data_state data;
    bool is_data_everywhere; /* pods on any node can read the claim at the same time */
    char data_problem[OBSERVED_TEXT_BYTES]; /* "ConfigMap mnli has no key train.tsv" */
    int64_t data_checked_ms;

    /* All of the cluster; only there while the current attempt has no plan. */
    const struct node_object *nodes;
    int n_nodes;

    struct seen_problem problem;

    bool has_leader; /* what the leader last answered */
    struct progress leader;
    int64_t leader_answered_ms; /* when that was; 0: just now */
    int64_t leader_same_ms;     /* how long it has reported the same step and state */

    struct unplaced unplaced; /* from the last decision */
};

#endif
