/* train/state.h - what a worker holds of a job: the step, and units with their moments.
 *
 * The state outlives sessions (train/session.h): a session works on a run of its units and leaves
 * it at a step's boundary, whatever ends the session. All units that are held are at the same step.
 * If the gradients of the next step are complete when a session ends, they are kept: another worker
 * may have received that step's STEP_END (api/resume.h), which the next revision then repeats. What
 * asynchronous replicas leave between two boundaries is of no step, and is dropped.
 *
 * Every unit has a block of memory of its own, so units come and go one by one. One that is given
 * away is kept until its new owner's first step is over.
 * Layer: train (may use nn api base). Threads: one.
 */
#ifndef TRAIN_STATE_H
#define TRAIN_STATE_H

#include "api/resume.h"
#include "train/weights.h"

enum state_hold {
    STATE_NOTHING,
    STATE_PARTIAL, /* memory that is being filled */
    STATE_KEPT,    /* whole, but another worker trains it */
    STATE_OWN,     /* whole, and trained here */
};

struct state {
    int64_t lineage;               /* 0: none yet */
    struct resume_origins origins; /* of the lineage */
    int64_t step;                  /* optimizer steps done, counting skipped ones */
    int64_t updates;     /* of the weights so far; fewer than steps when some were skipped */
    bool is_finished;    /* own units have the complete gradients of the next step */
    bool is_between;     /* asynchronous replicas have changed the units since `step` */
    struct step_end end; /* the newest that is known; of step + 1 until it is applied */
    enum state_hold hold[MODEL_UNITS_MAX];
    struct weights_unit units[MODEL_UNITS_MAX]; /* by unit of the model */
};

/* A zeroed state holds nothing. */
void state_deinit(struct state *s);

/* Is the unit here, as a whole? */
bool state_has(const struct state *s, int unit);

/* Is the state of a later step or lineage than this point? */
bool state_is_past(const struct state *s, const struct resume *at);

/* Is the unit at the point from which a revision goes on, or one update before it? */
bool state_reaches(const struct state *s, int unit, const struct resume *at);

/* Bytes that a unit takes. */
size_t state_unit_bytes(const struct spec *spec, int unit);

/* Take memory for a unit that is not held, zeroed: STATE_PARTIAL. ERR_NO_MEMORY names the unit. */
MUST_CHECK enum err_code state_take(struct state *s, const struct spec *spec, int unit,
                                    struct err *err);
/* Initialize a unit for which there is memory: BERT's random start, no moments. */
void state_start(struct state *s, const struct spec *spec, int unit);
void state_drop(struct state *s, int unit);

/* Own the `n` units from `first` on; those that are not held are initialized. */
MUST_CHECK enum err_code state_add(struct state *s, const struct spec *spec, int first, int n,
                                   struct err *err);

/* The `n` units from `first` on. Borrowed from the state, as is the model from the spec. */
struct weights state_weights(struct state *s, const struct spec *spec, int first, int n);

/* Do the update of a step whose gradients are complete: the state is at end->step afterwards, and
 * kept units, now a step behind, are dropped. ERR_INVALID when the job fails with that step. */
MUST_CHECK enum err_code state_apply(struct state *s, const struct spec *spec,
                                     const struct step_end *end, struct err *err);

/* The boundary behind asynchronous steps, at which all units are again. */
void state_reach(struct state *s, const struct step_end *end);
/* A session ends, perhaps between two boundaries. */
void state_settle(struct state *s);

/* Move to the point from which a revision goes on: do the update of its STEP_END if that is
 * missing, or drop what is of another step or lineage. All units that are left are STATE_KEPT, and
 * all gradients zero. Errors of state_apply(). */
MUST_CHECK enum err_code state_resume(struct state *s, const struct spec *spec,
                                      const struct resume *at, struct err *err);

/* Fill in the state's part of a report. */
void state_report(const struct state *s, struct report *out);

#endif
