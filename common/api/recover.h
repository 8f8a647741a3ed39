/* api/recover.h - the next order to each worker of a running job, for operator and CLI alike.
 *
 *   TELL --> RUN --> END
 *     ^       |
 *     |       v  a session has ended, a worker is gone, or another plan is due
 *   REVISE <- HALT
 *
 * Equal input gives equal orders, and an order may be repeated. Once all orders have taken effect,
 * the phase is RUN, REVISE or END.
 * Layer: api (may use base). Threads: any; pure.
 */
#ifndef API_RECOVER_H
#define API_RECOVER_H

#include "api/revision.h"

enum recover_phase {
    RECOVER_TELL,   /* not all workers have accepted the revision */
    RECOVER_RUN,    /* all have */
    RECOVER_HALT,   /* until no session runs */
    RECOVER_REVISE, /* what the workers hold no longer changes: call revision_make() */
    RECOVER_END,    /* the leader is done, and serves its last progress until it is released */
};

enum recover_order {
    ORDER_NONE,
    ORDER_REVISION, /* post the revision */
    ORDER_HALT,     /* end the session of the revision, or release a worker that is done with it */
};

/* A worker of the current revision, as its owner sees it. */
struct recover_worker {
    struct revision_worker id;
    bool is_gone;                /* its process has ended, or counts as lost */
    int accepted;                /* the newest revision that it has accepted */
    bool is_halted;              /* has accepted the order to halt this revision */
    const struct report *report; /* its newest since this revision became current and, if it is to
                                    halt, since it accepted that order; NULL: none */
};

struct recover_input {
    const struct revision *revision; /* the current one */
    int n_workers;
    /* Including those that have yet to start, without a report. Unlisted workers are gone. */
    const struct recover_worker *workers;
    bool is_halting;   /* see recover_must_halt(); or another plan is due */
    bool has_progress; /* the leader's, of this revision: */
    enum progress_state state;
    int64_t step;
    bool may_end; /* the leader's last progress has been saved: it may be released */
};

/* Is there a reason to halt: a session that has ended before the job, or a worker that is gone and
 * was still needed? */
bool recover_must_halt(const struct recover_input *in);
enum recover_phase recover_phase(const struct recover_input *in);
/* For worker `i` of `in`. */
enum recover_order recover_order(const struct recover_input *in, int i);
/* How long a worker that is to halt may take, and how long it may not answer meanwhile, before it
 * counts as lost: a process that is frozen, or one that does not come out of a computation. */
struct recover_patience {
    int64_t halt_ms, silent_ms;
};
#define RECOVER_HALT_MS   60000
#define RECOVER_SILENT_MS 20000
#define RECOVER_PATIENCE  ((struct recover_patience){RECOVER_HALT_MS, RECOVER_SILENT_MS})

/* For a worker whose session still runs. */
static inline bool recover_is_overdue(struct recover_patience patience, int64_t halting_ms,
                                      int64_t silent_ms)
{
    return halting_ms >= patience.halt_ms || (halting_ms > 0 && silent_ms >= patience.silent_ms);
}

/* Has what the worker holds stopped changing? */
bool recover_is_settled(const struct recover_worker *w);
/* Has this worker of the current revision handed over everything that others need? It is then
 * ordered to halt, and may be ended. */
bool recover_has_left(const struct recover_input *in, int slot);

#endif
