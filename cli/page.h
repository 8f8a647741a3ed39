/* cli/page.h - the report of a job as one HTML page, complete in itself.
 *
 * Everything is inside the page: style, charts and pictures as SVG. It needs no script and nothing
 * from the network, and follows the reader's light or dark scheme. Its size is bounded however long
 * the run was. Layer: cli. Threads: one; pure.
 */
#ifndef CLI_PAGE_H
#define CLI_PAGE_H

#include "cli/reason.h"
#include "cli/records.h"
#include "cli/timeline.h"

#define PAGE_MAX_BYTES   ((size_t)16 << 20)
#define PAGE_EVENTS_MAX  200  /* the newest are shown */
#define PAGE_PASSES_MAX  3000 /* in the picture of the timeline; the trace has more */
#define PAGE_DEFAULT_JOB "SkyJob"

/* A plan that the job has had. */
struct page_revision {
    int number;
    int64_t step; /* that it goes on from */
    int n_workers;
    double predicted_step_ms;
    int64_t created_ms; /* 0: not known */
};

/* All borrowed; zeroed, it is a page that says what is missing. */
struct page {
    const char *job;             /* NULL: PAGE_DEFAULT_JOB */
    const char *namespace;       /* NULL: not in a cluster */
    const struct status *status; /* NULL: not known */
    double seconds;              /* that the run took; 0: not known, or in the status */
    int n_shares;                /* of replicas, in micro-batches; 0: not known */
    const int *shares;
    const struct records *records; /* NULL: none */
    const char *no_records; /* why there are no losses, and what to do; NULL: nothing to say */
    const struct timeline *timeline;       /* NULL: none ... */
    const char *no_timeline;               /* ... for this reason */
    const struct page_revision *revisions; /* by number */
    size_t n_revisions;
    const struct reason_event *events; /* by time */
    size_t n_events;
    int64_t now_ms; /* wall clock */
};

/* Append the page. ERR_LIMIT, ERR_NO_MEMORY. */
MUST_CHECK enum err_code page_write(const struct page *p, struct buf *out, struct err *err);

#endif
