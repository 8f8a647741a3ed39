/* run/solver.h - decisions that look for a plan, on a thread of their own, since that may take
 * seconds.
 *
 * One at a time. The thread has a view of the world that nothing else touches; what has come of it
 * is applied by the loop, if the job is still the one that it was.
 *
 * Layer: run (may use control). Threads: its own; the functions here are for the loop's.
 */
#ifndef RUN_SOLVER_H
#define RUN_SOLVER_H

#include "control/decide.h"
#include "run/store.h"

/* What a decision is made of, and what it is. */
struct solver_case {
    struct store_view view;
    struct observed seen;
    struct decision decision;
    int64_t decided_ms; /* of the decision before, to notice another one */
    int64_t took_ms;    /* set by the solver */
};

/* Of any thread. */
void solver_case_free(struct solver_case *c);

struct solver;

/* `on_done` is called in the thread when a case has been decided. ERR_NO_MEMORY. */
MUST_CHECK enum err_code solver_new(void (*on_done)(void *ctx), void *ctx, struct solver **out,
                                    struct err *err);
/* And the case that it has. A search that is under way is not waited for: what it has is freed when
 * it ends. */
void solver_free(struct solver *s);

bool solver_is_busy(const struct solver *s);
/* Decide it; it is the solver's until solver_take() returns it. Not while it is busy. */
void solver_start(struct solver *s, struct solver_case *c);
/* The case that has been decided; NULL: none has been yet. */
struct solver_case *solver_take(struct solver *s);

#endif
