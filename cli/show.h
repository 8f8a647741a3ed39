/* cli/show.h - what people see of a run, here or in the cluster: a line that is updated in
 * place, notes above it, stages, the result.
 *
 * Layer: cli. Threads: one.
 */
#ifndef CLI_SHOW_H
#define CLI_SHOW_H

#include <stdint.h>
#include <stdio.h>

#include "api/status.h"
#include "base/json.h"

#define SHOW_SUMMARY_BYTES 1024
#define SHOW_LINE_BYTES    256
#define SHOW_NAME_CHARS    40
#define SHOW_EVERY_MS      5000 /* between lines where they cannot be overwritten */

/* A node's name as lists and tables have it: in one longer than SHOW_NAME_CHARS the middle is
 * "...", since names differ at the front on some clouds and at the end on others. Returns its
 * length. */
int show_name(const char *name, char out[static SHOW_NAME_CHARS + 1]);
/* The width of a column of such names, one more of which is `name`. */
int show_widen(int width, const char *name);

/* "step 120/375  loss 0.8432  5,321 tokens/s  stages 3.2 4.1 ms  ETA 0:42" */
void show_progress_text(const struct progress *p, char out[static SHOW_LINE_BYTES]);
/* Loss and metrics, a line each, then show_notes(). */
void show_result(FILE *out, const struct progress *p);
/* What was skipped or started at random, the best evaluation, an early end: if anything. */
void show_notes(FILE *out, const struct progress *p);
/* "done: 375 steps in 1:02, 5,321 tokens/s, loss 0.8432, accuracy 0.8100, model in DIR" of a run
 * that has ended; `output` is the folder, or NULL. */
void show_summary(const struct progress *p, double seconds, const char *output,
                  char out[static SHOW_SUMMARY_BYTES]);
/* "evaluated at step 100: accuracy 0.8100, evalLoss 0.5012" of a record of the history. */
void show_evaluation(const struct json *evaluation, char out[static SHOW_SUMMARY_BYTES]);
/* 12345678 becomes "12,345,678"; seconds become "1:02:03". */
void show_number(double value, char out[static 32]);
void show_duration(double seconds, char out[static 32]);
/* "41s", "12m", "5h", "3d" */
void show_age(int64_t ms, char out[static 32]);

/* Of a job in the cluster. */
/* One line: how far training is, or what the job waits for. */
void show_status_text(const struct status *s, char out[static SHOW_LINE_BYTES]);
/* The stages with predicted and measured times and, if wanted, the explanation. */
void show_status_placement(FILE *out, const struct status *s, bool explains);
/* Metrics of a job that is over, or why it failed. */
void show_status_end(FILE *out, const struct status *s);

struct show {
    FILE *out;
    bool is_tty;
    bool is_open;  /* there is a line that may be overwritten */
    bool is_quiet; /* nothing but that line is shown */
    int64_t last_ms;
    char last[SHOW_LINE_BYTES];
};

void show_init(struct show *s, FILE *out);
/* Show `text` in place of the line before on a terminal; else as a new line, unless one with the
 * same first word was shown less than SHOW_EVERY_MS ago and `is_urgent` is false. */
void show_line(struct show *s, const char *text, bool is_urgent, int64_t now_ms);
/* A line that stays, above those of show_line(); not if it is quiet. */
void show_note(struct show *s, const char *text);
/* Leave the line as it is; what follows starts on a new one. */
void show_end(struct show *s);

#endif
