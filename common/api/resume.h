/* api/resume.h - what the workers of a job hold, and the step that the job goes on from.
 *
 * A worker's state is a step and, per unit, parameters and moments. `GET /v1/report` returns
 * what a worker holds of it. From all reports resume_point() derives the start of the next revision
 * (api/revision.h): the step, and where the state of each unit comes from.
 *
 * When a STEP_END exists, every stage has complete gradients of its step: STEP_SUM has passed all
 * of them. So a worker that has not received it can still do the update: the next revision
 * repeats the newest STEP_END. A step without one is computed again.
 *
 * A rollback starts a new lineage. Steps of different lineages are never mixed.
 * Layer: api (may use base). Threads: any; everything here is pure.
 */
#ifndef API_RESUME_H
#define API_RESUME_H

#include "api/plan.h"
#include "api/progress.h"

#define REPORT_VERSION        1
#define REPORT_TEXT_MAX_BYTES 16384
#define REPORT_RUNS_MAX       128 /* further ones are not reported */
#define RESUME_STEP_MAX       1000000000000

/* What the end of a step decides about the update. */
enum step_outcome {
    STEP_APPLY,
    STEP_SKIP, /* a loss or a gradient is not finite: the weights stay */
    STEP_FAIL, /* likewise, and the job fails */
};

/* The end of an optimizer step: all that its update needs, beside the gradients. */
struct step_end {
    int revision; /* in which it was decided */
    int64_t step; /* that are done, including this one; 0: none has ended */
    enum step_outcome outcome;
    double scale;    /* of the summed gradients, for clipping; the loss has divided them by the
                        counts of the whole step, which every batch carries */
    double rate;     /* learning rate */
    int64_t updates; /* of the weights before this one; fewer than steps when some were skipped */
    double loss;     /* mean of the step; may be NaN */
};

/* What a worker's session is doing, or how it ended. */
enum report_session {
    REPORT_NONE,    /* there has been no session yet */
    REPORT_RUNNING, /* it fetches, connects or trains: what the worker holds may change */
    REPORT_HALTED,  /* ended by a broken link or by POST /v1/halt: what the worker holds does not
                       change until the next revision */
    REPORT_DONE,    /* it has run to its end: the output, if any, is in place */
    REPORT_FAILED,  /* through the worker's own fault: its process ends */
};

/* Consecutive units that a worker holds, parameters and moments, in the same state. A unit that is
 * being fetched is not reported before it is complete. */
struct report_run {
    int first_unit;
    int n_units;
    int64_t step;     /* that the parameters include */
    bool is_finished; /* the gradients of the next step are complete, and kept */
};

struct report {
    int slot;
    int incarnation;
    int revision; /* the newest that it has accepted; 0: none */
    enum report_session session;
    enum progress_cause cause;        /* of a session that ended before the job */
    char error[PROGRESS_ERROR_BYTES]; /* the same in one line */
    int64_t lineage;                  /* of all that follows */
    struct step_end end;              /* the newest that it has */
    int64_t evaluated; /* the newest step whose evaluation it has recorded as leader, or that its
                          revision names; 0: none */
    int n_runs;
    struct report_run runs[REPORT_RUNS_MAX]; /* by first_unit; they do not overlap */
};

extern const char *const step_outcome_names[];
extern const char *const report_session_names[];

/* The table of struct step_end, for the documents that contain one. */
extern const struct field step_end_fields[];

MUST_CHECK enum err_code report_write(const struct report *r, struct buf *out, struct err *err);
/* ERR_INVALID for what is out of bounds, another version, and runs that overlap. */
MUST_CHECK enum err_code report_parse(const char *text, size_t len, struct report *out,
                                      struct err *err);

/* Add units to the runs, in rising order; adjacent ones in the same state are joined. What does not
 * fit is dropped: a worker may report less than it holds. */
void report_add(struct report *r, const struct report_run *run);
/* The run that contains `unit`; NULL when the worker does not hold it. */
const struct report_run *report_find(const struct report *r, int unit);

/* --- where to go on from --- */

enum source_kind {
    SOURCE_RANDOM,     /* the seed */
    SOURCE_PRETRAINED, /* the model to start from; the seed for what that lacks */
    SOURCE_WORKER,     /* a worker, with its moments */
};

/* Where the state of consecutive units comes from. */
struct resume_source {
    int first_unit;
    int n_units;
    enum source_kind kind;
    int slot; /* of SOURCE_WORKER; the unit's own worker: it already has the unit */
};

struct resume {
    int64_t lineage; /* from 1 */
    int64_t step;    /* done */
    /* Of that step, for workers that have not applied it; end.step is 0 when `step` is. */
    struct step_end end;
    int64_t evaluated; /* as in a report */
    int n_sources;
    struct resume_source sources[MODEL_UNITS_MAX]; /* every unit once, in order */
};

/* Where `next` goes on from: `start` is the source of units without a state, `lineage` the newest
 * of earlier revisions (0 before the first).
 *
 * `reports` come from all reachable workers, including those that are not in `next`; their sessions
 * must not be running. A worker without a report, or one that was replaced, holds nothing.
 *
 * The newest STEP_END of the newest lineage counts: the job goes on after it if every unit is held
 * by a worker that has applied it or still can. The source of a unit is its own worker if that has
 * it, else the first of `reports` that does. If any unit is lost, all start again at step 0 in a
 * new lineage. */
void resume_point(const struct plan *next, const struct report *const reports[], int n_reports,
                  enum source_kind start, int64_t lineage, struct resume *out);

#endif
