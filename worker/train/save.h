/* train/save.h - the end of a run whose output is kept: files written, confirmed, published.
 *
 * Every stage writes its files into the revision's folder (files/output.h), predictions and weights
 * of the same run. Then a STOP travels to the leader, through all stages: when it arrives, all have
 * written, or it names the first that could not. Only then does the leader publish.
 *
 * The training is complete by now and must not be lost: what fails is tried again, with growing
 * pauses and the reason in the progress, before the run is given up. What was written stays.
 * Layer: train. Threads: one.
 */
#ifndef TRAIN_SAVE_H
#define TRAIN_SAVE_H

#include "files/export.h"
#include "train/train.h"

/* The model as it is exported; what only the leader knows is from its loader, NULL for the others.
 * The folder is left to the caller. */
struct export_params save_model(const struct plan *plan, const struct loader *loader);

/* After train_run(); what fails is tried again for `patience_ms`.
 *
 * Returns ERR_OK: all files of this stage are written, and at the leader all are published;
 * otherwise the first failure, of this stage or of one behind it, with the place of the
 * files; ERR_GONE when the exchange was stopped. exchange.is_lost tells a lost neighbour from an
 * output that cannot be written. */
MUST_CHECK enum err_code save_run(struct train *t, int patience_ms, struct err *err);

#endif
