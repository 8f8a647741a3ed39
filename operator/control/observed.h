/* control/observed.h - the input of a decision about one job.
 *
 * Filled by operator/run from its store, read by decide(). Nothing in it is a pointer into the API
 * client, and nothing that decide() needs is outside of it. Times are wall clock in ms.
 * Layer: control (may use balance, cluster, api, base).
 */
#ifndef CONTROL_OBSERVED_H
#define CONTROL_OBSERVED_H

#include "api/names.h"
#include "api/node.h"
#include "api/progress.h"
#include "api/revision.h"
#include "api/status.h"
#include "cluster/node_object.h"

/* With the one that reads the model; beside them there is a probe per node. */
#define OBSERVED_WORKER_PODS   (3 * SPEC_STAGES_MAX + 1)
#define OBSERVED_REVISIONS_MAX 16
#define OBSERVED_UID_BYTES     STATUS_UID_BYTES
#define OBSERVED_VERSION_BYTES 32
#define OBSERVED_WORD_BYTES    64
#define OBSERVED_TEXT_BYTES    240
#define SETTINGS_LABELS_BYTES  512

enum pod_role {
    POD_WORKER,     /* created by the operator */
    POD_PROBE,      /* created by the operator */
    POD_MODEL,      /* likewise: it reads the sizes of the model to start from */
    POD_UNVERIFIED, /* has our labels and a name that is due, but nothing proves that we made it */
    POD_FOREIGN,    /* has a name that is due and is not what we would have made */
};

enum pod_phase {
    POD_PENDING,
    POD_RUNNING,
    POD_SUCCEEDED,
    POD_FAILED,
    POD_PHASES,
};
extern const char *const pod_phase_names[POD_PHASES];

/* A pod of this job, also one that is not in the plan any more. */
struct seen_pod {
    char name[NAMES_BYTES];
    char uid[OBSERVED_UID_BYTES];
    enum pod_role role;
    int slot;                   /* of a worker */
    int incarnation;            /* of a worker; 0: another pod */
    char node[NODE_NAME_BYTES]; /* where it is or, of a probe, where it is meant to be */
    enum pod_phase phase;
    bool is_ready;
    bool is_deleting;
    int64_t grace_ms;    /* that its process is given to end, if it is deleting ... */
    int64_t deleting_ms; /* ... and for how long that has been seen; 0: it is not */
    bool is_disrupted;   /* evicted, preempted, its node shut down: not the worker's fault */
    bool is_unschedulable;
    bool is_gated;  /* must not be scheduled yet, as while Kueue has not admitted it */
    int group;      /* number in the name of its group, which Kueue reads; 0: none */
    int group_size; /* likewise */
    bool is_out_of_memory;
    bool has_exit_code;
    int exit_code;
    int cpu_milli;        /* its limit */
    int64_t memory_bytes; /* likewise */
    bool has_tls;         /* it has a certificate, and speaks nothing else */
    bool has_metrics;     /* it has that of the metrics port, too */
    uint64_t image_asked; /* hash of the image that a probe or reader was created with */
    char ip[PEERS_HOST_BYTES];
    char
        reason[OBSERVED_WORD_BYTES]; /* why it waits or ended, in Kubernetes' word; "" if neither */
    char message[OBSERVED_TEXT_BYTES]; /* the message that goes with it */
    int64_t created_ms;                /* when the operator first saw it, not gated any more */
    int64_t started_ms;  /* its container, by its node's clock; 0: has not, or not reported */
    int64_t finished_ms; /* of a probe by its node's clock, else when the operator first saw it;
                            0: has not */
    int64_t events_ms;   /* when its Events were last read; 0: not yet */
    int64_t silent_ms;   /* how long calls to it have failed; 0: it answers */
    int64_t answered_ms; /* how long ago it last answered one; 0: it never has */
    /* Of a worker, or of a probe that was posted its partners: */
    int accepted;                      /* the newest revision; of a probe 1 */
    bool refuses;                      /* a newer one: it has another one, or another key */
    char refusal[OBSERVED_TEXT_BYTES]; /* the reason */
    int halted;                        /* the newest revision that it was ordered to halt */
    int64_t halting_ms;                /* since it was to be ordered; 0: it was not */
    const struct report *report;       /* the newest since then; NULL: none */
    int64_t ended_ms;                  /* how long its session has ended by that report; 0: runs */
    /* What it left when it ended, one at most, else NULL; borrowed: */
    const struct progress *progress;      /* a worker's final report */
    const struct node_probe *probe;       /* a probe's result */
    const struct model *model;            /* the sizes that were read */
    char digest[ANNOTATION_DIGEST_BYTES]; /* of its image; "" before it runs */
};

enum data_state {
    DATA_UNKNOWN, /* not looked at yet */
    DATA_PRESENT,
    DATA_MISSING,
    DATA_NO_CLAIM, /* a claim of the data, the model, checkpoints or the output is not there */
};

/* What a look at the data ConfigMap and at all claims has found. The files in a claim are not
 * looked at. */
struct seen_data {
    enum data_state state;
    bool is_everywhere;                /* pods on any node can read the claim at the same time */
    char problem[OBSERVED_TEXT_BYTES]; /* "ConfigMap mnli has no key train.tsv" */
    int64_t checked_ms;
};

/* The last search for a plan, if it found none, or was for a preview: the same question has the
 * same answer. */
struct unplaced {
    bool is_set;
    bool is_preview;
    uint64_t digest; /* of everything that the answer depends on */
    int64_t solved_ms;
    char why[ERR_TEXT_BYTES];
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
    char pull_policy[SPEC_WORD_BYTES];          /* "": the spec's */
    char probe_priority_class[NODE_NAME_BYTES]; /* of probes; "": the cluster's default */
    bool has_network_policies;                  /* jobs get one each */
    bool has_tls;                               /* new jobs' pods have certificates */
    int64_t worker_user; /* uid and group of the jobs' pods; 0: the platform gives them one */
    /* Of pods whose job names none, as a pod has them; borrowed. NULL: none. */
    const struct json *pull_secrets;
    char operator_namespace[OBSERVED_WORD_BYTES]; /* of the operator's pods; "": not known */
    char operator_labels[SETTINGS_LABELS_BYTES];  /* of those: "key=value,key=value" */
    bool has_worker_metrics;                      /* new workers serve metrics ... */
    char readers_namespace[OBSERVED_WORD_BYTES];  /* ... to pods of this one; "": to any ... */
    char readers_labels[SETTINGS_LABELS_BYTES];   /* ... with these labels; "": to all of it */
};

struct observed {
    int64_t now_ms;
    struct settings settings;

    char namespace[OBSERVED_WORD_BYTES];
    char name[OBSERVED_WORD_BYTES];
    char uid[OBSERVED_UID_BYTES];
    char version[OBSERVED_VERSION_BYTES]; /* resourceVersion */
    int64_t generation;
    int64_t created_ms;
    bool is_deleting;
    bool is_foreign;                /* another controller manages it (spec.managedBy) */
    int64_t expires_ms;             /* it has ended, and is to be deleted then; 0: it is not */
    char asked[STATUS_ASKED_BYTES]; /* ANNOTATION_REPLAN; "": there is none */
    /* As the user wrote it, and with the sizes in status.model; borrowed, like what follows. */
    const struct json *spec_json;
    const struct spec *spec; /* NULL: invalid, see `spec_problem` */
    const char *spec_problem;
    struct status status;
    char checkpoint_time[OBSERVED_WORD_BYTES]; /* ANNOTATION_CHECKPOINT as it is; "": none */

    int n_pods;
    struct seen_pod *pods;

    /* ConfigMaps with revisions; the newest one is read. */
    int n_revisions;
    int revision_numbers[OBSERVED_REVISIONS_MAX];
    char revision_uids[OBSERVED_REVISIONS_MAX][OBSERVED_UID_BYTES];
    bool has_revision;
    bool is_revision_lost; /* its ConfigMap was deleted, and this is what is remembered of it */
    struct revision revision;
    const struct buf *revision_text; /* the document as it was written; borrowed */

    struct seen_data data;

    /* All of the cluster; only there while the status is ahead of the newest revision, a worker
     * leaves, or units may move. */
    const struct node_object *nodes;
    int n_nodes;

    struct seen_problem problem;

    bool has_leader; /* what the leader last answered */
    struct progress leader;
    int64_t leader_answered_ms; /* when that was; 0: just now */
    int64_t leader_same_ms;     /* how long it has reported the same step and state */

    struct unplaced unplaced; /* from the last decision */

    int n_training; /* jobs of all namespaces, this one too */
};

#endif
