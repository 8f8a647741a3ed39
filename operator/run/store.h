/* run/store.h - what decisions need of the objects that the watches report.
 *
 * Of every object only what decisions need is kept, not its JSON. Changes come from the watches and
 * from the answers to our own writes, and name the jobs to reconcile. Beside that the store
 * holds the few things that are nowhere in the API server and may be forgotten at any time: what
 * the leader last reported, who has the peer table, whether the data is there.
 *
 * Pods of all kinds are kept, since they use up nodes; only ours with details.
 * Layer: run (may use control fleet kube http balance api base). Threads: one.
 */
#ifndef RUN_STORE_H
#define RUN_STORE_H

#include "base/hmac.h"
#include "base/map.h"
#include "cluster/pod_requests.h"
#include "cluster/promise.h"
#include "control/observed.h"
#include "fleet/fleet.h"
#include "kube/watch.h"
#include "run/queue.h"

#define STORE_VERSION_BYTES 32

struct store_job {
    char namespace[OBSERVED_WORD_BYTES];
    char name[OBSERVED_WORD_BYTES];
    char uid[OBSERVED_UID_BYTES];
    char version[STORE_VERSION_BYTES]; /* resourceVersion */
    int64_t generation;
    int64_t created_ms;
    bool is_deleting;
    int attempt; /* of the status, like the next */
    bool is_final;
    /* Parsed when the object arrives. A job that is over needs nothing of it, and there may be
     * thousands of those: NULL. */
    struct json *spec_json;            /* as the user wrote it */
    struct spec *spec;                 /* NULL: invalid */
    char spec_problem[ERR_TEXT_BYTES]; /* then the reason */
    struct status *status;             /* up to its last stage */
    /* Not in the API server: */
    bool waits_for_nodes;     /* the last decision waited for nodes */
    bool lacks_policy;        /* reported already */
    struct unplaced unplaced; /* of the last decision */
    int64_t looked_ms;        /* monotonic; when that was */
    enum data_state data;
    bool is_data_everywhere;
    char data_problem[OBSERVED_TEXT_BYTES];
    int64_t data_checked_ms;
    bool has_leader;
    struct progress leader;
    int64_t leader_answered_ms;   /* monotonic */
    int64_t leader_same_since_ms; /* monotonic, of the first answer with this step and state */
    int64_t leader_asked_ms;      /* monotonic */
    int n_failures;               /* writes that failed in a row */
    struct seen_problem problem;
    bool has_secret; /* the key that it shares with its workers, see run/secret.h */
    struct hmac_key secret;
    int secret_attempt; /* for whose pods its Secret was last seen to exist */
};

struct store_pod {
    char uid[OBSERVED_UID_BYTES];
    char version[STORE_VERSION_BYTES];
    char *node; /* NULL: not scheduled */
    struct pod_requests requests;
    bool has_ended; /* and so holds nothing of its node any more */
    /* Of ours only, else NULL: */
    struct store_own *own;
};

enum store_trust {
    TRUST_NONE,    /* it has our labels and owner, which anyone can write */
    TRUST_CREATED, /* the API server answered with it when we created it, or it is what we make */
    TRUST_REFUSED, /* has a name that was due, and is not what we make */
};

struct store_own {
    char job_uid[OBSERVED_UID_BYTES];
    char job_key[QUEUE_KEY_BYTES];
    enum store_trust trust; /* lost with the operator: then the status has the uid */
    struct contact contact; /* the calls to it */
    int64_t first_seen_ms;  /* monotonic: clocks of nodes may be wrong, and ours may be set */
    int64_t end_seen_ms;    /* likewise, of its end; 0: it has not ended */
    char event[OBSERVED_TEXT_BYTES]; /* the last warning about it, as "reason: message" */
    struct seen_pod seen;
};

struct store_plan {
    char job_uid[OBSERVED_UID_BYTES];
    char job_key[QUEUE_KEY_BYTES];
    char uid[OBSERVED_UID_BYTES];
    int attempt;
    bool is_lost;      /* its ConfigMap was deleted while the job needs it */
    struct plan *plan; /* NULL: it holds no valid one, or its job is over */
    struct promise promise;
};

/* Called whenever a job should be reconciled. */
struct store_listener {
    void *ctx;
    void (*on_touch)(void *ctx, const char *job_key);
    /* The job waits for nodes, and something about nodes has changed. May come for every job with
     * every event, so it should not be looked at each time. */
    void (*on_room)(void *ctx, const char *job_key);
};

struct store {
    struct map jobs;  /* "namespace/name" to struct store_job */
    struct map pods;  /* the same to struct store_pod */
    struct map nodes; /* name to struct node_object */
    struct map plans; /* "namespace/name" of the ConfigMap to struct store_plan */
    struct store_listener listener;
    /* For store_observe(): */
    struct node_object *scratch;
    size_t n_scratch;
    struct seen_pod *seen_pods;
    size_t n_seen_pods;
};

void store_deinit(struct store *s);

/* Take over a change of one object; KUBE_SYNCED is ignored. Objects that cannot be used (no name,
 * no memory for them) are skipped: ERR_INVALID or ERR_NO_MEMORY, for the log. */
MUST_CHECK enum err_code store_change_job(struct store *s, enum kube_change change,
                                          const struct json *object, struct err *err);
MUST_CHECK enum err_code store_change_pod(struct store *s, enum kube_change change,
                                          const struct json *object, struct err *err);
MUST_CHECK enum err_code store_change_node(struct store *s, enum kube_change change,
                                           const struct json *object, struct err *err);
MUST_CHECK enum err_code store_change_plan(struct store *s, enum kube_change change,
                                           const struct json *object, struct err *err);

struct store_job *store_find_job(const struct store *s, const char *key);
/* A pod of ours; NULL when there is none, or it is another one by now. */
struct store_own *store_find_own(const struct store *s, const char *namespace, const char *name,
                                 const char *uid);

/* From now on the pod counts, as the one that was created with the image of hash `image`. */
void store_trust_pod(struct store *s, const struct kube_ref *pod, const char *uid, uint64_t image);
/* The pod `object`, ours or not, has the name of `due`, a pod of this job, and does not count. */
MUST_CHECK enum err_code store_refuse_pod(struct store *s, const struct json *object,
                                          const struct observed *job, const struct seen_pod *due,
                                          struct err *err);

/* Fill in everything about a job but `settings` and `now_ms`; times in the store that are
 * monotonic stay there. Pods and plans beyond what `out` can hold are left out, oldest attempts
 * first; so are those that have another name or attempt than any of this job can have. `out->spec`,
 * `out->nodes` and `out->pods` point into the store and are good until the next call or change.
 * Returns ERR_NOT_FOUND when there is no such job, or ERR_NO_MEMORY. */
MUST_CHECK enum err_code store_observe(struct store *s, const char *key, struct observed *out,
                                       struct err *err);

void store_key(const char *namespace, const char *name, char out[static QUEUE_KEY_BYTES]);

#endif
