/* data/predictions.h - the predictions for a test set, in GLUE's submission format.
 *
 * A first line "index\tprediction", then a line for every row in file order: its number from 0 and
 * the name of a label, or a number. The file appears under its name only when it is complete.
 * Layer: data. Threads: one per set.
 */
#ifndef DATA_PREDICTIONS_H
#define DATA_PREDICTIONS_H

#include "base/buf.h"
#include "data/layout.h"

#define PREDICTIONS_MAX_BYTES ((size_t)4 << 30)

struct predictions {
    const struct layout *layout; /* borrowed */
    int64_t n;                   /* so far */
    struct buf text;             /* private */
};

/* Empty. The caller calls predictions_deinit(). */
void predictions_init(struct predictions *p, const struct layout *layout);
void predictions_deinit(struct predictions *p);

/* Add the prediction for the next row, 0 <= label < layout->n_labels. ERR_LIMIT, ERR_NO_MEMORY. */
MUST_CHECK enum err_code predictions_add_label(struct predictions *p, int label, struct err *err);
/* The same for a regression. Also ERR_INVALID: it is not finite. */
MUST_CHECK enum err_code predictions_add_score(struct predictions *p, float score, struct err *err);

/* Write folder/split->submission; the folder is made when it is missing. Errors of file_write(),
 * ERR_INVALID when not all `n_rows` of the split have a prediction. */
MUST_CHECK enum err_code predictions_write(const struct predictions *p, const char *folder,
                                           const struct layout_split *split, int64_t n_rows,
                                           struct err *err);

#endif
