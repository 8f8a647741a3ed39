/* train/start.h - the weights that a stage starts from: those of a trained model, where one is
 * given.
 *
 * Every stage reads its own tensors from the folder, the last one of a language model also the word
 * embeddings that its decoder is tied to. What the folder lacks of a head keeps its random start.
 * Layer: train (may use data nn api base). Threads: one.
 */
#ifndef TRAIN_START_H
#define TRAIN_START_H

#include "api/progress.h"
#include "files/pretrained.h"
#include "train/stage.h"

/* Open the model of `plan` in `folder`, check that it is the one the spec describes, and take over
 * the epsilon of its LayerNorms. On ERR_OK the caller owns *out: pretrained_close(). Errors are
 * those of pretrained_open() and pretrained_check(). */
MUST_CHECK enum err_code start_open(const char *folder, struct plan *plan, struct pretrained **out,
                                    struct err *err);

/* Fill the weights of a stage that stage_init() has initialised. `out_initialised` names the units
 * of the whole model that start at random, "" when none does: every stage looks for all of them,
 * so that the leader can report them. Errors are those of pretrained_load_unit(), and
 * ERR_NO_MEMORY. */
MUST_CHECK enum err_code start_load(struct stage *s, const struct pretrained *p,
                                    char out_initialised[static PROGRESS_INITIALISED_BYTES],
                                    struct err *err);

#endif
