/* train/scalars.h - scalars as TensorBoard reads them: records of an event file.
 *
 * A file is a sequence of records, each with its length and two checksums (TFRecord), and each
 * record is one protocol buffer `Event`: first the version, then a step with its values. Only the
 * fields that scalars need are written:
 *
 *     Event   { double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5
 * } Summary { repeated Value value = 1 }     Value { string tag = 1; float simple_value = 2 }
 *
 * Layer: train (may use base). Threads: one; pure.
 */
#ifndef TRAIN_SCALARS_H
#define TRAIN_SCALARS_H

#include <stdint.h>

#include "base/buf.h"

/* TensorBoard takes every file with "tfevents" in its name. A fixed one, so that the next run with
 * the same output replaces it. */
#define SCALARS_NAME      "events.out.tfevents.skyjob"
#define SCALARS_MAX       16 /* of a step */
#define SCALARS_TAG_BYTES 64 /* with the NUL; what is longer is cut off */

struct scalar {
    const char *tag; /* "train/loss" */
    double value;    /* is rounded to float */
};

/* Append the record that a file begins with. ERR_LIMIT, ERR_NO_MEMORY; then nothing is added. */
MUST_CHECK enum err_code scalars_begin(struct buf *out, double wall_seconds, struct err *err);
/* Append the values of a step, SCALARS_MAX of them at most. The same codes. */
MUST_CHECK enum err_code scalars_add(struct buf *out, double wall_seconds, int64_t step,
                                     const struct scalar *values, int n, struct err *err);

#endif
