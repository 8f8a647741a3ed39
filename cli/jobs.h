/* cli/jobs.h - the SkyJobs of a namespace, or of all, as a table and as JSON.
 *
 * Layer: cli. Threads: one.
 */
#ifndef CLI_JOBS_H
#define CLI_JOBS_H

#include <stdio.h>

#include "api/status.h"

/* What is shown of a job. */
struct jobs_row {
    char namespace[64];
    char name[NAMES_BYTES];
    char state[STATUS_WORD_BYTES]; /* "": the operator has not seen it yet */
    char loss[STATUS_WORD_BYTES];  /* "": there is none yet */
    int64_t step;
    int64_t total_steps; /* 0: not known yet, as is the rest of its progress */
    int64_t tokens_per_second;
    int64_t left_s; /* negative: not known, or it has ended */
    int64_t created_ms;
    int percentage;
};

/* Zeroed, it is empty. */
struct jobs {
    struct jobs_row *rows; /* by namespace and name */
    size_t n, max;
};

void jobs_row_read(const struct json *skyjob, struct jobs_row *out);

/* Add the job, or replace what was known of it. *out_is_news: something in the row has changed.
 * ERR_NO_MEMORY. */
MUST_CHECK enum err_code jobs_put(struct jobs *jobs, const struct jobs_row *row, bool *out_is_news,
                                  struct err *err);
/* Take the job of this name out. False: it was not in. */
bool jobs_take(struct jobs *jobs, const char *namespace, const char *name, struct jobs_row *out);
void jobs_deinit(struct jobs *jobs);

/* A header, then a line for each job; namespaces only if wanted. Pure but for the output. */
void jobs_print(const struct jobs *jobs, bool has_namespaces, int64_t now_ms, FILE *out);
/* One line, in the columns of that table. */
void jobs_print_row(const struct jobs *jobs, const struct jobs_row *row, bool has_namespaces,
                    int64_t now_ms, FILE *out);

/* Write the job as an object: what the table has, under the names of the status and null where that
 * is not known, and `status` as the API server has it. */
void jobs_write(const struct json *skyjob, struct jsonw *w);

#endif
