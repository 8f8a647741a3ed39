/* train/train.h - the training loop of one stage, from the state's step to the last evaluation.
 *
 * All stages run the same loop: micro-batches in the order of api/schedule, the sums over
 * replicas (train/homes.h), then the end of the step (train/message.h), an evaluation by the lead
 * where one is due and after the last step. Asynchronous replicas (ASP) compute tickets instead of
 * shares of a step (train/tickets.h), in rounds: at the boundaries between them they meet, and
 * everything that needs the state of a step is done there. So do replicas that train alone (Local,
 * train/outer.h), but they exchange weights only there. It may end the run early (train/best.h).
 * Test sets are predicted at the end, with the best weights if those are kept: the stage then has
 * them, the state those of the last step. First stages load the data; every stage posts its
 * progress to the mailbox. However the loop ends, the state is at a step's boundary
 * (train/state.h). Layer: train. Threads: one; the mailbox's and the link's run beside it.
 */
#ifndef TRAIN_TRAIN_H
#define TRAIN_TRAIN_H

#include "api/schedule.h"
#include "files/output.h"
#include "train/best.h"
#include "train/checkpoint.h"
#include "train/control.h"
#include "train/couriers.h"
#include "train/desk.h"
#include "train/exchange.h"
#include "train/history.h"
#include "train/homes.h"
#include "train/loader.h"
#include "train/pace.h"
#include "train/pushes.h"
#include "train/score.h"
#include "train/stage.h"
#include "train/stopwatch.h"
#include "train/stragglers.h"

#define TRAIN_STEP (-1) /* no split is evaluated: a step is trained */

struct train {
    const struct plan *plan;
    struct state *state;
    struct stage *stage;
    struct loader *loader; /* a first stage's; NULL for the others */
    struct mailbox *mailbox;
    struct output *output;         /* borrowed; NULL: it is not kept */
    struct history *history;       /* the leader's; NULL for the others */
    struct checkpoint *checkpoint; /* NULL: none are written */
    int64_t
        saved_ms; /* when the last checkpoint was begun, in an earlier session too; 0: not yet */
    int64_t saved_step; /* its step, or the session's first */
    int64_t begun;      /* the step of this session's last checkpoint; 0: none yet */
    bool is_leaving;    /* this worker is to end soon: noted in the log ... */
    bool is_kept;       /* ... and a checkpoint was begun since then, and has not failed */
    int64_t wanted;     /* an order for a checkpoint, which this step's STEP_SUM has; 0: none */
    struct progress_ordered ordered; /* it is being written; order 0: none is. The leader's */
    int64_t evaluated; /* the newest step whose evaluation is over, in an earlier session too: a
                          leader has recorded it. The last step is evaluated again, for its
                          predictions */
    struct exchange exchange;
    struct homes homes;
    struct couriers couriers;     /* in a round of asynchronous steps ... */
    struct pushes pushes;         /* ... likewise ... */
    struct desk *desk;            /* ... likewise, the decider's; NULL: none */
    bool is_ticket;               /* one is computed, not a synchronous step */
    struct schedule schedule;     /* of the step or the ticket */
    enum spec_protocol protocol;  /* of the step, or of the round */
    struct message_next next;     /* of the next one, as the decider had it in the last STEP_END */
    struct plan dealt;            /* the plan with the shares of this step */
    struct stragglers stragglers; /* the decider's ... */
    int64_t n_free;               /* ... and steps out of step because of them, in this session */
    struct stage_hooks hooks;
    struct err hook_failure;
    bool is_last_backward; /* of the step */
    /* [slot]: the message that holds the slot's input; without a tensor: none. */
    struct link_message inputs[SPEC_STAGES_MAX];
    void *meta;                 /* of the message that is sent */
    struct progress progress;   /* what was posted last; all stages have its `best` */
    struct message_facts facts; /* of the run */
    int64_t n_counted;          /* steps that the tally has, with those before this session */
    int64_t first_step;         /* of this session ... */
    int64_t until;              /* ... and where it halts by itself; 0: it does not */
    struct stopwatch compute;   /* in this step, with the update of the step before */
    struct stopwatch update;    /* of the weights, in the step before ... */
    int64_t updated_ns;         /* ... as it is in `compute` */
    int64_t step_from_ns;       /* when this step began */
    int64_t round_from_ns;      /* when this round of asynchronous steps began */
    int64_t switched_ns;        /* when the protocol changed; 0: it has computed since */
    int64_t shown_ns;           /* when the leader last showed steps out of step */
    bool has_moments;           /* of guests: replicas have trained alone in this session */
    bool is_apart;              /* replicas that train alone: weights of their own */
    double ticket_ms[PLAN_REPLICAS_MAX]; /* each replica's mean in the last steps alone, or 0 */
    struct pace computing;               /* per micro-batch: wall time and CPU time */
    struct pace stepping;                /* of whole steps: wall time; the leader's */
    int cpu_milli;                       /* that may be used */
    int64_t tokens;                      /* in this step */
    struct message_loss loss;            /* in this step or evaluation; the last stage's ... */
    struct message_loss share;           /* ... and of the share of a step that is computed */
    int split;                           /* of the facts that is evaluated, or TRAIN_STEP */
    struct score score;                  /* of evaluations; the last stage's */
    double judged;                       /* what an evaluation is compared by; the last stage's */
    bool has_lost_best;                  /* the weights of the best evaluation cannot be read */
    double seconds_per_step;             /* smoothed; 0 before the first step */
    struct stretch steps;
    double tokens_per_step; /* smoothed */
};

/* The leader has the records of the job; the last stage of the same replica decides about steps and
 * evaluations. */
static inline bool train_is_leader(const struct train *t)
{
    return t->stage->is_first && t->stage->worker == 0;
}

static inline bool train_is_decider(const struct train *t)
{
    return t->stage->is_last && t->stage->replica.first_worker == 0;
}

/* Train and evaluate to the end. Before the call the link, if any, is ready. Predictions stay in
 * `score`, which the caller ends with score_deinit() whatever this returns.
 *
 * Returns ERR_OK; ERR_INVALID for data that does not fit and for a loss that is not finite;
 * ERR_LIMIT when every step was skipped; ERR_IO or ERR_PROTOCOL when a neighbour is lost (then
 * exchange.is_lost is set) or wrong; ERR_GONE when the exchange was stopped; ERR_AGAIN at the step
 * `until`, after its evaluation; any other code for a failure of this process.
 */
MUST_CHECK enum err_code train_run(struct train *t, struct err *err);

/* Show a step that ended before this session: with a STEP_END that the revision repeats, the leader
 * does the update without having seen the end of the step. */
void train_show_end(struct progress *p, struct history *history, const struct state *state);

#endif
