/* api/revision.h - one plan of a running job, and the point that it goes on from.
 *
 * Each revision supersedes the one before. The operator stores it in a ConfigMap before posting it;
 * the CLI keeps it in memory. `POST /v1/revision` carries the document byte for byte as it was
 * written and, beside it, the addresses of the workers, which may change.
 * Layer: api (may use base). Threads: any; pure.
 */
#ifndef API_REVISION_H
#define API_REVISION_H

#include "api/resume.h"

#define REVISION_VERSION         2
#define REVISION_FILE            "revision.json" /* in its ConfigMap */
#define REVISION_TEXT_MAX_BYTES  (384 * 1024)
#define REVISION_POST_MAX_BYTES  (400 * 1024)
#define REVISION_ORDER_MAX_BYTES 128

/* One incarnation of a slot. */
struct revision_worker {
    int slot;
    int incarnation;
};

/* Its number is plan.revision. */
struct revision {
    struct plan plan;
    struct resume resume;
    int64_t until; /* sessions halt by themselves once this many steps are done, for the next
                      revision to begin there; 0: they do not */
    /* Workers that are no longer in the plan and have units that others fetch. */
    int n_leaving;
    struct revision_worker leaving[SPEC_STAGES_MAX];
    uint64_t hash; /* of the document's text; revision_parse() sets it */
};

/* Turn `next`, which has its number, into a revision that goes on from what the workers hold: see
 * resume_point(). Sources that are not in `next` leave. `until` and `hash` are 0. `out` contains
 * neither `next` nor `last`. */
void revision_make(const struct plan *next, const struct report *const reports[], int n_reports,
                   enum source_kind start, const struct resume *last, struct revision *out);

/* Append the document. `spec` is as in plan_write(). */
MUST_CHECK enum err_code revision_write(const struct revision *r, const struct json *spec,
                                        struct buf *out, struct err *err);
/* Read it back and check that sources cover every unit once, in order, that every source is one of
 * the workers, and that no slot occurs twice. */
MUST_CHECK enum err_code revision_parse(const char *text, size_t len, struct revision *out,
                                        struct err *err);

/* All workers: those of the plan in its order, then those that leave. The addresses beside a
 * revision are in the same order. */
int revision_n_workers(const struct revision *r);
/* Worker `i` of revision_n_workers(). */
struct revision_worker revision_worker(const struct revision *r, int i);
/* The number of the worker with this slot; -1: there is none. */
int revision_find(const struct revision *r, int slot);
/* Where the state of `unit` comes from. */
const struct resume_source *revision_source(const struct revision *r, int unit);

/* What a worker does with a posted revision. `current` is the one that it has, NULL before the
 * first.
 *
 * Returns ERR_OK        it is newer: take it;
 *         ERR_AGAIN     the worker has it already: nothing changes;
 *         ERR_CONFLICT  of another job, older, another document with the same number, or not for
 *                       this slot and incarnation. The text has the numbers.
 */
MUST_CHECK enum err_code revision_compare(const struct revision *current,
                                          const struct revision *posted,
                                          const struct revision_worker *self, struct err *err);

/* --- on the control port --- */

/* The body of POST /v1/revision: `text` as revision_write() made it, and peers->n addresses. */
MUST_CHECK enum err_code revision_post_write(const char *text, size_t len,
                                             const struct peers *peers, struct buf *out,
                                             struct err *err);
/* ERR_INVALID also when the number of addresses is not that of the workers. */
MUST_CHECK enum err_code revision_post_parse(const char *text, size_t len, struct revision *out,
                                             struct peers *out_peers, struct err *err);

/* The body of POST /v1/halt: end the session of this revision, or of an older one; release a leader
 * that is done. A late repeat is refused once the worker has a newer revision. */
MUST_CHECK enum err_code revision_order_write(int revision, struct buf *out, struct err *err);
MUST_CHECK enum err_code revision_order_parse(const char *text, size_t len, int *out_revision,
                                              struct err *err);

#endif
