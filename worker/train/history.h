/* train/history.h - the losses and metrics of a run as a file, one JSON object per line.
 *
 *     {"step":10,"seconds":3.2,"loss":0.6931,"tokensPerSecond":5321,"stepMilliseconds":48.1}
 *     {"step":10,"seconds":4.0,"metrics":{"accuracy":0.81,"evalLoss":0.52}}
 *
 * A number that is not finite is null. Of a long run only every n-th step is written, at most
 * HISTORY_STEPS_MAX of them; evaluations are all written. The leader writes it; a failure to
 * write it does not end the training. It moves to another worker with the first unit. What is to be
 * saved beside the weights is kept in memory until then, 16 MiB at most. Allocates nothing between
 * history_open() and history_save(). Layer: train (may use api base). Threads: one.
 */
#ifndef TRAIN_HISTORY_H
#define TRAIN_HISTORY_H

#include "api/progress.h"
#include "base/buf.h"

#define HISTORY_NAME      "history.jsonl"
#define HISTORY_STEPS_MAX 10000
#define HISTORY_MAX_BYTES ((size_t)16 << 20) /* in memory */

struct history {
    bool is_kept; /* in `memory`, a file without a name */
    bool has_file;
    int memory;
    int file;
    size_t n_bytes; /* in `memory` */
    int64_t start_ms;
};

/* Begin. `is_kept`: history_save() may follow; `path`: a file that is written during the training,
 * NULL: none. ERR_IO, ERR_DENIED, ERR_NOT_FOUND. */
MUST_CHECK enum err_code history_open(struct history *h, bool is_kept, const char *path,
                                      struct err *err);
/* Write the file HISTORY_NAME in `folder`, if the history was kept, and beside it the same numbers
 * as an event file for TensorBoard (train/scalars.h): "train/loss", "evaluation/accuracy". Codes of
 * file_write(), ERR_NO_MEMORY. */
MUST_CHECK enum err_code history_save(const struct history *h, const char *folder, struct err *err);
void history_close(struct history *h); /* a zeroed one is fine */

/* Append what was kept to `out`. ERR_LIMIT, ERR_NO_MEMORY. */
MUST_CHECK enum err_code history_text(const struct history *h, struct buf *out, struct err *err);
/* Take over a leader's records: its progress document, and the text of its history. What identifies
 * this worker in `own` stays. ERR_INVALID when the document cannot be read. */
MUST_CHECK enum err_code history_take_over(struct history *h, struct progress *own,
                                           const char *progress, size_t n_progress,
                                           const struct buf *text, struct err *err);
/* Replace everything so far with another worker's records, or with nothing when the training begins
 * again. Failures as in history_step(). */
void history_restart(struct history *h, const char *text, size_t len);

/* Record the step in `p`, unless it is one to leave out. A file that cannot be written is dropped,
 * with a warning in the log. */
void history_step(struct history *h, const struct progress *p, int64_t now_ms);
/* Record the metrics in `p`. */
void history_evaluation(struct history *h, const struct progress *p, int64_t now_ms);

#endif
