/* api/progress.h - what a worker reports, and the addresses that it is given.
 *
 * `GET /v1/status` answers with a progress document; the same document is the pod's termination
 * message, so that the last report outlives the worker. Only the leader, which runs the first
 * stage, has loss and metrics: they reach it in band. Addresses are given to a worker beside its
 * revision (api/revision.h), and to a probe by `POST /v1/peers`.
 * Layer: api (may use base). Threads: any.
 */
#ifndef API_PROGRESS_H
#define API_PROGRESS_H

#include "api/node.h"
#include "api/spec.h"
#include "base/json.h"

#define PROGRESS_TEXT_MAX_BYTES 4096 /* the kubelet keeps no more of a termination message */
#define PROGRESS_METRICS_MAX    9
#define PROGRESS_MS_MAX         1e9 /* eleven days for a step: nothing takes longer */
#define PROGRESS_ERROR_BYTES    512
#define PROGRESS_RANDOM_BYTES   160
#define PROGRESS_ORDER_BYTES    64 /* of the document of an order */
#define PEERS_TEXT_MAX_BYTES    16384
#define PEERS_HOST_BYTES        64
#define PEERS_MAX               (2 * SPEC_STAGES_MAX)

enum progress_state {
    PROGRESS_STARTING, /* reads plan and data */
    PROGRESS_WAITING,  /* for a revision and the neighbours */
    PROGRESS_TRAINING,
    PROGRESS_EVALUATING,
    PROGRESS_SAVING, /* the training is complete; `error` is why writing is retried */
    PROGRESS_DONE,
    PROGRESS_FAILED,
    PROGRESS_HALTED, /* its session ended before the job did, see `cause` and `error`: it waits for
                        the next revision */
};

/* Why a worker failed, as far as the operator acts on it. */
enum progress_cause {
    PROGRESS_CAUSE_NONE,
    PROGRESS_CAUSE_CONFIG,       /* the same job can never work: exit 2 */
    PROGRESS_CAUSE_DATA_MISSING, /* a file is not there yet: exit 1, try again later */
    PROGRESS_CAUSE_PEER_LOST,    /* a neighbour went away: exit 1, the fault is elsewhere */
    PROGRESS_CAUSE_OTHER,        /* exit 1 */
    PROGRESS_CAUSE_OUTPUT,       /* trained, but not saved: exit 1, training again does not help */
};

struct progress_metric {
    char name[32]; /* "accuracy", "evalLoss" */
    double value;  /* NaN: it came out so */
};

/* The best evaluation so far, of a job that compares them (train/best.h). */
struct progress_best {
    double value;    /* of the metric that the spec names */
    int64_t lineage; /* of the step ... */
    int64_t step;    /* ... after which it was; 0: there is none yet */
    int64_t n_since; /* evaluations since, none of them better */
};

/* The last checkpoint on command (POST /v1/checkpoint) of which is known what became of it. */
struct progress_ordered {
    int64_t order; /* its number; 0: there was none */
    int64_t step;  /* after which it was written; 0: it could not be */
};

/* Checkpoints so far, of any kind. */
struct progress_saved {
    int64_t step;    /* of the newest that is complete; 0: there is none */
    bool has_failed; /* a later one could not be written */
};

#define PROGRESS_LAGGING_BYTES 192

/* How the replicas do the steps (spec.sync). */
struct progress_sync {
    char protocol[SPEC_WORD_BYTES]; /* "BSP"; "": there is one replica */
    double staleness;               /* ASP: of tickets so far (train/tickets.h), their mean ... */
    int64_t staleness_max;          /* ... and the greatest; else 0 */
    char lagging[PROGRESS_LAGGING_BYTES]; /* BSP: which replica is slower than usual, and what the
                                             others do about it; "": none */
};

/* The last steps of the leader's session, sampled as in train/pace.h: see balance/rebalance.h. */
struct progress_window {
    int n_samples;  /* so far; 0: there is none yet */
    double step_ms; /* median of the steps */
    double mad_ms;  /* median absolute deviation of the time of the slowest stage */
};

struct progress {
    enum progress_state state;
    enum progress_cause cause;
    int slot;     /* of the worker */
    int revision; /* the newest that it has accepted */
    bool has_peers;
    int64_t step; /* optimizer steps done */
    int64_t total_steps;
    int64_t skipped_steps; /* of them, left out: a loss or a gradient was not finite */
    int epoch;             /* 0-based, of the next step */
    double loss;           /* mean of the last step; NaN before the first */
    double tokens_per_second;
    double eta_seconds; /* negative: not known yet */
    int n_stage_ms;
    double stage_ms[SPEC_STAGES_MAX]; /* measured: computing, per stage and micro-batch; median */
    double step_ms;
    double best_step_ms; /* in the fastest stretch so far (train/stopwatch.h); 0: not known yet */
    struct progress_window window;
    struct progress_sync sync;
    int n_metrics;
    struct progress_metric metrics[PROGRESS_METRICS_MAX];
    char best_metric[32]; /* "accuracy"; "": evaluations are not compared */
    struct progress_best best;
    bool has_ended_early; /* for want of a better evaluation; total_steps is that one's */
    struct progress_ordered ordered;
    struct progress_saved saved;
    /* What a model to start from lacked and so begins at random: "classifier"; "": nothing. */
    char randomly_initialized[PROGRESS_RANDOM_BYTES];
    char blas[64]; /* "SkylakeX, 1 thread" */
    char error[PROGRESS_ERROR_BYTES];
};

extern const char *const progress_state_names[];
extern const char *const progress_cause_names[];

/* Fits PROGRESS_TEXT_MAX_BYTES whatever is in `p`: texts become one line, times keep six digits.
 * What is not finite is null. */
MUST_CHECK enum err_code progress_write(const struct progress *p, struct buf *out, struct err *err);
/* Tolerant (see base/fields.h): whatever is accepted can be made into a status, whose metrics have
 * different names. Only state and cause must be known ones. */
MUST_CHECK enum err_code progress_parse(const char *text, size_t len, struct progress *out,
                                        struct err *err);

/* The body of POST /v1/checkpoint: write a checkpoint at the end of the step, whatever
 * spec.checkpoint says, and report it in the progress document's `ordered`. `order` is the time at
 * which it was asked for, wall clock in ms: one that is not later than the last one changes
 * nothing. */
MUST_CHECK enum err_code progress_order_write(int64_t order, struct buf *out, struct err *err);
MUST_CHECK enum err_code progress_order_parse(const char *text, size_t len, int64_t *out_order,
                                              struct err *err);

/* For a worker: those of its revision, in the order of revision_worker(). For a probe, with
 * revision 0 and the names of the nodes: itself, then the one to which it measures its link in each
 * round, or itself again. */
struct peers {
    int revision;
    int n;
    struct peer {
        char host[PEERS_HOST_BYTES]; /* an IP address */
        int port;                    /* of tensors */
        char node[NODE_NAME_BYTES];  /* "" between workers */
    } list[PEERS_MAX];
};

MUST_CHECK enum err_code peers_write(const struct peers *p, struct buf *out, struct err *err);
MUST_CHECK enum err_code peers_parse(const char *text, size_t len, struct peers *out,
                                     struct err *err);

#endif
