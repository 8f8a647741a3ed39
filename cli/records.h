/* cli/records.h - what a run has recorded, as series: its history.jsonl (worker/train/history.h),
 * or what a leader's log has of it.
 *
 * A line that is no record is skipped and counted: the last one of a file that is being written is
 * often half there. A number that was not finite is NaN. Layer: cli (may use api base). Threads:
 * one.
 */
#ifndef CLI_RECORDS_H
#define CLI_RECORDS_H

#include "api/progress.h"

struct records_step {
    int64_t step;
    double seconds; /* since the run began */
    double loss;
    double tokens_per_second;
    double step_ms;
};

struct records_value {
    int64_t step;
    int metric; /* its place in `metrics` */
    double value;
};

/* Zeroed, it is empty. */
struct records {
    struct records_step *steps; /* in the order of the file */
    size_t n_steps, max_steps;
    struct records_value *values; /* of evaluations */
    size_t n_values, max_values;
    int n_metrics; /* more than PROGRESS_METRICS_MAX of them are left out */
    char metrics[PROGRESS_METRICS_MAX][sizeof(((struct progress_metric *)0)->name)];
    size_t n_skipped; /* lines */
};

/* Add the records in `text`. ERR_NO_MEMORY. */
MUST_CHECK enum err_code records_read(struct records *r, const char *text, size_t len,
                                      struct err *err);
/* Add the evaluations in a leader's log; all other lines are of no interest. ERR_NO_MEMORY. */
MUST_CHECK enum err_code records_read_log(struct records *r, const char *text, size_t len,
                                          struct err *err);
void records_deinit(struct records *r);

#endif
