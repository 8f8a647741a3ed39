/* run/store.h - what decisions need of the objects that the watches report.
 *
 * Of every object only what decisions need is kept, not its JSON. Changes come from the watches and
 * from the answers to our own writes, and name the jobs to reconcile. Beside that the store holds
 * what is not in the API server and can be found out again: what the workers last reported, who has
 * accepted which revision, whether the data is there.
 *
 * Pods of all kinds are kept, since they use up nodes; only ours with details.
 * Layer: run (may use control fleet kube http balance api base). Threads: those of the http loop.
 */
#ifndef RUN_STORE_H
#define RUN_STORE_H

#include <stdatomic.h>

#include "base/hmac.h"
#include "base/map.h"
#include "base/sparse.h"
#include "cluster/node_object.h"
#include "control/observed.h"
#include "fleet/fleet.h"
#include "kube/watch.h"
#include "run/queue.h"

/* A job's spec, parsed when the object arrives. It stays as it is while anyone needs it: a change
 * gives the job another one. */
struct store_spec {
    atomic_int n_users; /* the job that has it, and observations, of any thread */
    struct json *json;  /* as the user wrote it, and with the sizes in status.model */
    bool is_valid;
    bool has_sizes;               /* of its model */
    struct sparse *parsed;        /* a struct spec, if it is valid; else NULL */
    char problem[ERR_TEXT_BYTES]; /* if it is not valid */
};

/* What the Secret with the certificates of a job's pods holds. */
struct store_certificate {
    int slot, incarnation;
    int64_t until_s; /* since 1970 */
};
struct store_certificates {
    bool was_read;
    bool is_there;
    uint64_t generation; /* of the CAs in it, as in run/issuer.h */
    int n;
    size_t n_max;
    struct store_certificate *list;
};

struct store_job {
    char namespace[OBSERVED_WORD_BYTES];
    char name[OBSERVED_WORD_BYTES];
    char uid[OBSERVED_UID_BYTES];
    char version[OBSERVED_VERSION_BYTES]; /* resourceVersion */
    int64_t generation;
    int64_t created_ms;
    bool is_deleting;
    bool is_foreign;                           /* as in struct observed ... */
    int64_t expires_ms;                        /* ... likewise */
    char checkpoint_time[OBSERVED_WORD_BYTES]; /* as in struct observed */
    char asked[STATUS_ASKED_BYTES];            /* ANNOTATION_REPLAN; "": there is none */
    int revision;                              /* of the status, like the next ones */
    bool is_final;
    bool trains; /* is Running */
    int state;   /* as in status_states; STATUS_STATES: another one */
    bool is_stalled;
    /* A job that is over needs neither, and there may be thousands of those: NULL. */
    struct store_spec *spec;
    struct sparse *status; /* a struct status up to its last stage */
    /* Not in the API server: */
    bool is_written;          /* a decision about it is being applied */
    bool waits_for_nodes;     /* the last decision waited for nodes */
    bool lacks_policy;        /* reported already */
    struct unplaced unplaced; /* of the last decision */
    int64_t decided_ms;       /* monotonic; when that was */
    struct seen_data data;
    bool has_leader;
    struct progress leader;
    int64_t leader_answered_ms;   /* monotonic */
    int64_t leader_same_since_ms; /* monotonic, of the first answer with this step and state */
    int64_t leader_asked_ms;      /* monotonic */
    int n_failures;               /* writes that failed in a row */
    struct seen_problem problem;
    bool has_secret; /* the key that it shares with its workers */
    struct hmac_key secret;
    struct store_certificates certificates;
    int secret_revision; /* for whose pods its Secret was last seen to exist */
    /* Hash of a status that was decided and makes the same document as that of this version; "":
     * not known. */
    uint64_t shown;
    char shown_version[OBSERVED_VERSION_BYTES];
};

struct store_pod {
    char uid[OBSERVED_UID_BYTES];
    char version[OBSERVED_VERSION_BYTES];
    char *node; /* NULL: not scheduled */
    struct pod_requests requests;
    bool has_ended; /* and so holds nothing of its node any more */
    /* Of ours only, else NULL: */
    struct store_own *own;
};

enum store_trust {
    TRUST_NONE,    /* it has our labels and owner, which anyone can write */
    TRUST_CREATED, /* the API server answered with it when we created it, or it is what we make, or
                      the status had its uid */
    TRUST_REFUSED, /* has a name that was due, and is not what we make */
};

/* What a worker was ordered and asked, and how it answered. */
struct store_calls {
    int halting;   /* the newest revision that it was to be ordered to halt; 0: none */
    int halted;    /* likewise, and has taken the order */
    bool is_ended; /* has taken the order to end, or refused it */
    /* Monotonic: */
    int64_t halting_ms;     /* since when */
    int64_t halt_posted_ms; /* when the order was last taken */
    int64_t ordered;        /* the last checkpoint that it has taken an order for; 0: none */
    int64_t asked_ms;       /* when its report was last asked for */
    int64_t answered_ms;    /* when it last answered a call; 0: it never has */
    int64_t ended_ms;       /* when that first had the end of a session; 0: it does not */
    struct sparse *report;  /* the newest since it has taken an order; NULL: none */
    int report_revision;    /* that it has */
};

/* Of a list of what belongs to the same job, in the order in which it came. */
struct store_link {
    struct store_link *before, *next;
};

struct store_own {
    struct store_link link;
    char job_uid[OBSERVED_UID_BYTES];
    char job_key[QUEUE_KEY_BYTES];
    enum store_trust trust; /* lost with the operator: then the status has the uid */
    bool is_orphan;         /* its job was seen to go, and it is not being deleted for that yet */
    bool is_to_end;         /* its job is gone or being deleted, and it has not taken the order to
                               end yet, which is signed with ... */
    struct hmac_key key;    /* ... the key of that job; zeros if it is not to end */
    struct contact contact; /* when to call it */
    struct store_calls calls;
    int64_t first_seen_ms;    /* monotonic: clocks of nodes may be wrong, and ours may be set */
    int64_t end_seen_ms;      /* likewise, of its end; 0: it has not ended */
    int64_t deleting_seen_ms; /* likewise, of its deletion; 0: it is not deleting */
    char event[OBSERVED_TEXT_BYTES]; /* the last warning about it, as "reason: message" */
    struct sparse *left; /* a union store_left; NULL: it has not ended, or left nothing of use */
    struct seen_pod seen;
};

/* What a pod left when it ended, as its role says. */
union store_left {
    struct progress progress;
    struct node_probe probe;
    struct model model;
};

struct store_revision {
    struct store_link link;
    char job_uid[OBSERVED_UID_BYTES];
    char job_key[QUEUE_KEY_BYTES];
    char uid[OBSERVED_UID_BYTES];
    int number;
    bool is_lost;          /* its ConfigMap was deleted while the job needs it */
    struct sparse *parsed; /* a struct revision; NULL: it holds no valid one, or its job is over */
    struct buf text;       /* as it was written; with `parsed` */
};

/* What there is of a job, which may be gone itself. */
struct store_family {
    struct store_list {
        struct store_link *first, *last;
    } pods, revisions; /* struct store_own and struct store_revision */
};

/* What is watched. */
enum store_kind {
    STORE_JOBS,
    STORE_PODS,
    STORE_NODES,
    STORE_REVISIONS,
    STORE_KINDS,
};

struct store_listener {
    void *ctx;
    /* Reconcile the job after `delay_ms`. */
    void (*on_enqueue)(void *ctx, const char *job_key, int64_t delay_ms);
    /* The job waits for nodes, and something about nodes has changed. May come for every job with
     * every event, so it should not be looked at each time. */
    void (*on_capacity)(void *ctx, const char *job_key);
};

struct store {
    int n_training;       /* jobs */
    struct map jobs;      /* "namespace/name" to struct store_job */
    struct map pods;      /* the same to struct store_pod */
    struct map nodes;     /* name to struct sparse, of a struct node_object with texts of its own */
    struct map revisions; /* "namespace/name" of the ConfigMap to struct store_revision */
    struct map families;  /* "namespace/name" of the job to struct store_family */
    size_t n_jobs_in[STATUS_STATES + 1]; /* jobs by their state */
    size_t n_stalled;                    /* jobs of any state */
    struct store_listener listener;
};

/* What an observation points to, and nothing else does. A zeroed struct is an empty one. */
struct store_view {
    struct store_spec *spec;   /* what it has that is not in ... */
    struct spec parsed;        /* ... this */
    struct node_object *nodes; /* without texts of their own: they are in node_texts */
    size_t n_nodes;
    char *node_texts;
    size_t n_node_texts;
    struct seen_pod *pods;
    size_t n_pods;
    struct report *reports; /* of the pods that have one, at their places */
    size_t n_reports;
    union store_left *left; /* likewise */
    size_t n_left;
    struct buf revision;
};

void store_view_deinit(struct store_view *v);
/* The nodes of a large cluster are megabytes: free them. The observation must not be used again. */
void store_view_drop_nodes(struct store_view *v);

void store_deinit(struct store *s);

/* Take over a change of one object; KUBE_SYNCED is ignored. Objects that cannot be used (no name,
 * no memory for them) are skipped: ERR_INVALID or ERR_NO_MEMORY, for the log. */
MUST_CHECK enum err_code store_change(struct store *s, enum store_kind kind,
                                      enum kube_change change, const struct json *object,
                                      struct err *err);

/* Have the job reconciled after `delay_ms`, if there is one of this key. */
void store_enqueue(const struct store *s, const char *job_key, int64_t delay_ms);

/* Have what is left of a job that is gone looked at after `delay_ms`: `own` is one of its pods. */
void store_enqueue_orphan(const struct store *s, const struct store_own *own, int64_t delay_ms);

struct store_job *store_find_job(const struct store *s, const char *key);
/* The job that was observed; NULL: gone meanwhile. */
struct store_job *store_job_of(const struct store *s, const struct observed *seen);
/* A pod of ours; NULL when there is none, or it is another one by now. */
struct store_own *store_find_own(const struct store *s, const char *namespace, const char *name,
                                 const char *uid);
/* What belongs to a job of this key, or did: the first pod of ours and the next one, likewise
 * revisions. NULL: there are no more. */
struct store_own *store_pods(const struct store *s, const char *job_key);
struct store_own *store_next_pod(const struct store_own *own);
struct store_revision *store_revisions(const struct store *s, const char *job_key);
struct store_revision *store_next_revision(const struct store_revision *r);
/* A pod that is left of a job of this key that is gone; NULL: none. */
struct store_own *store_find_orphan(const struct store *s, const char *key);
/* Have the Secret read again. */
void store_forget_certificates(struct store_certificates *c);
/* The worker is not to be ordered to end any more: wipe the key. */
void store_drop_key(struct store_own *own);
/* Keep what a worker has reported, in place of its last report. ERR_NO_MEMORY. */
MUST_CHECK enum err_code store_set_report(struct store_own *own, const struct report *report,
                                          struct err *err);
void store_drop_report(struct store_own *own);

/* From now on the pod counts, as the one that was created with the image of hash `image`. */
void store_trust_pod(struct store *s, const struct kube_ref *pod, const char *uid, uint64_t image);
/* The pod `object`, ours or not, has the name of `due`, a pod of this job, and does not count. */
MUST_CHECK enum err_code store_refuse_pod(struct store *s, const struct json *object,
                                          const struct observed *job, const struct seen_pod *due,
                                          struct err *err);

/* Fill in everything about a job but `settings` and `now_ms`; times in the store that are
 * monotonic stay there. Pods and revisions beyond what `out` can hold are left out, oldest first;
 * so are those that have another name or number than any of this job can have. What `out`
 * points to is in `view` and stays as it is until that is filled again, whatever changes
 * meanwhile; another thread may read it. Returns ERR_NOT_FOUND when there is no such job, or
 * ERR_NO_MEMORY. */
MUST_CHECK enum err_code store_observe(struct store *s, const char *key, struct store_view *view,
                                       struct observed *out, struct err *err);

void store_key(const char *namespace, const char *name, char out[static QUEUE_KEY_BYTES]);

#endif
