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
 * A rollback, to a checkpoint or to the start, starts a new lineage. Steps of different lineages
 * are never mixed: an older lineage counts only up to the step that was rolled back to.
 * Layer: api (may use base). Threads: any; everything here is pure.
 */
#ifndef API_RESUME_H
#define API_RESUME_H

#include "api/plan.h"
#include "api/progress.h"

#define REPORT_VERSION        2
#define REPORT_TEXT_MAX_BYTES 16384
#define REPORT_RUNS_MAX       128 /* further ones are not reported */
#define RESUME_STEP_MAX       1000000000000
#define RESUME_ORIGINS_MAX    8 /* older ones are forgotten */
#define RESUME_POINTS_MAX     8 /* of the checkpoints that are reported, the newest */
#define RESUME_PARTS_MAX      8 /* of one of them; further ones are not reported */

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

/* The steps that came before a lineage: up to `step` of `lineage`, they count as its own. */
struct resume_origin {
    int64_t lineage;
    int64_t step;
};

struct resume_origins {
    int n;
    /* Of rising lineages. Each begins where the one before ends, so no step is less either. */
    struct resume_origin list[RESUME_ORIGINS_MAX];
};

/* Consecutive units. */
struct resume_part {
    int first_unit;
    int n_units;
};

/* A step that a job can go back to, in a store (files/store.h): a complete checkpoint where all
 * workers share it, or the part of one that a worker has in its own. */
struct resume_checkpoint {
    int64_t lineage; /* in which it was written */
    struct step_end end;
    int64_t evaluated;                          /* as in a report */
    int n_parts;                                /* 0: all units, for all workers */
    struct resume_part parts[RESUME_PARTS_MAX]; /* by first_unit; they do not overlap */
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
    int64_t lineage;                  /* of the runs and `end`; the newest that it knows */
    struct resume_origins origins;    /* of that lineage */
    struct step_end end;              /* the newest that it has */
    int64_t evaluated; /* the newest step whose evaluation it has recorded as leader, or that its
                          revision names; 0: none */
    bool is_leaving;   /* its process is to end soon: others should take what it holds ... */
    bool has_saved;    /* ... and a checkpoint that was begun since then is complete */
    int n_runs;
    struct report_run runs[REPORT_RUNS_MAX]; /* by first_unit; they do not overlap */
    int n_checkpoints;
    struct resume_checkpoint checkpoints[RESUME_POINTS_MAX]; /* in its store, the newest first */
};

extern const char *const step_outcome_names[];
extern const char *const report_session_names[];

/* For the documents that contain one of these. */
extern const struct field step_end_fields[];
extern const struct field resume_origin_fields[];
extern const struct field resume_checkpoint_fields[];

/* Can these have come before `lineage`? ERR_INVALID names the entry that cannot. */
MUST_CHECK enum err_code resume_origins_check(const struct resume_origins *o, int64_t lineage,
                                              struct err *err);

MUST_CHECK enum err_code report_write(const struct report *r, struct buf *out, struct err *err);
/* ERR_INVALID for what is out of bounds, another version, runs that overlap, and what contradicts
 * itself. */
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
    SOURCE_CHECKPOINT, /* the checkpoint of the revision's step in the job's store, which all
                          workers share, with its moments: of those that count, see
                          resume_counts(), the one of the newest lineage */
    SOURCE_PEER,       /* the same in a worker's own store */
};

/* Where the state of consecutive units comes from. */
struct resume_source {
    int first_unit;
    int n_units;
    enum source_kind kind;
    int slot; /* of SOURCE_WORKER and SOURCE_PEER; the unit's own worker: it already has it */
};

/* Is it a worker that the units come from, or a checkpoint? One in a worker's own store is both. */
bool resume_is_worker(const struct resume_source *s);
bool resume_is_saved(const struct resume_source *s);

struct resume {
    int64_t lineage; /* from 1 */
    struct resume_origins origins;
    int64_t step; /* done */
    /* Of that step, for workers that have not applied it; end.step is 0 when `step` is. */
    struct step_end end;
    int64_t evaluated; /* as in a report */
    int n_sources;
    struct resume_source sources[MODEL_UNITS_MAX]; /* every unit once, in order */
};

/* Does this step belong to the history of `at`: is it of its lineage, or of an origin and not later
 * than the step at which that was left? */
bool resume_counts(const struct resume *at, int64_t lineage, int64_t step);

/* Where `next` goes on from: `start` is the source of units without a state, `last` where the
 * revision before went on from (NULL: there was none, or it is not known); it is not in `out`.
 *
 * `reports` come from all reachable workers, including those that are not in `next`; their sessions
 * must not be running. A worker without a report, or one that was replaced, holds nothing.
 *
 * The newest STEP_END of the newest lineage counts: the job goes on after it if every unit is held
 * by a worker that has applied it or still can, or is in a checkpoint of that very step, and no
 * checkpoint that counts is of a later one. The source of a unit is its own worker if that has it,
 * else the first of `reports` that does, else the checkpoint.
 *
 * A checkpoint in workers' own stores counts if together they have all of its units. The source of
 * such a unit is its own worker's store if that has it, else the first of `reports` that does.
 *
 * If any unit is lost, all go back to the newest checkpoint that counts. Without one, nothing of
 * the newest lineage is left, and any checkpoint will do, first of the newest lineage that is
 * reported: a job whose workers were all replaced had to begin anew before any of them could report
 * its store. Only when no checkpoint is reported, all begin again with step 0. In all of these
 * cases the lineage is new, with a number above all that the reports contain. */
void resume_point(const struct plan *next, const struct report *const reports[], int n_reports,
                  enum source_kind start, const struct resume *last, struct resume *out);

#endif
