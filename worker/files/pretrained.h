/* files/pretrained.h - a folder with a trained BERT, to start from.
 *
 * Hugging Face's layout (config.json, model.safetensors or shards with their index) or that of
 * google-research/bert (bert_config.json, bert_model.ckpt.*). Tensors are found under all the
 * names they go by (files/alias.h). Files are mapped: what a stage does not ask for, it does not
 * read. Nothing in the files is trusted.
 *
 * What a folder lacks of the encoder is an error. What it lacks of a head is not: a bare encoder
 * or another task's head is what fine-tuning starts from. Such tensors stay as the caller
 * initialised them, and he is told.
 * Layer: files. Threads: any, once open.
 */
#ifndef FILES_PRETRAINED_H
#define FILES_PRETRAINED_H

#include "api/bert_config.h"
#include "data/layout.h"
#include "text/vocab.h"

struct pretrained; /* on the heap; all fields private */

/* Open it, read its config and check what it holds, but no tensor. On ERR_OK the caller owns *out:
 * pretrained_close().
 *
 * Returns ERR_NOT_FOUND when there is no such folder; ERR_INVALID with file, place and remedy for
 * what is wrong in it; ERR_DENIED, ERR_IO, ERR_LIMIT, ERR_NO_MEMORY.
 */
MUST_CHECK enum err_code pretrained_open(const char *folder, struct pretrained **out,
                                         struct err *err);

/* What its config says; borrowed. Its model.head is always the classifier. */
const struct bert_config *pretrained_config(const struct pretrained *p);

/* Can this model start from it? ERR_INVALID with the first difference and what to set in the spec.
 * Labels may differ; norm_eps may, and the caller takes it over from the config. */
MUST_CHECK enum err_code pretrained_check(const struct pretrained *p, const struct model *wanted,
                                          struct err *err);

/* Find out which row of the model's classifier is which label of the task, so that
 * pretrained_load_unit() reads them in the task's order. A folder without a classifier of so many
 * labels is fine: the head is new. ERR_INVALID with both lists where names cannot be matched. */
MUST_CHECK enum err_code pretrained_match_labels(struct pretrained *p, const struct layout *layout,
                                                 struct err *err);

/* Does it know every word? A model may know more than the vocabulary has. */
MUST_CHECK enum err_code pretrained_check_vocab(const struct pretrained *p,
                                                const struct vocab *vocab, struct err *err);

/* Is the tensor that model_tensor() calls `name` there? */
bool pretrained_has(const struct pretrained *p, const char *name);

/* What a unit did not find in the folder. */
struct pretrained_missing {
    int n_tensors;
    char why[256]; /* for people: "classifier.weight is not there", the last of them */
};

/* Fill one unit's parameters: model_unit_params() floats, the tensors of model_tensor() in order.
 * `params` comes initialised; tensors of a head that are not in the folder, or have another number
 * of labels, stay so and are counted in *out_missing.
 *
 * Returns ERR_INVALID with file, tensor and remedy for a missing tensor of the encoder and for a
 * wrong shape, dtype or value; then `params` is undefined.
 */
MUST_CHECK enum err_code pretrained_load_unit(const struct pretrained *p, const struct model *m,
                                              int unit, float *params,
                                              struct pretrained_missing *out_missing,
                                              struct err *err);

/* The word embeddings alone, for the decoder that is tied to them: model_word_floats(). */
MUST_CHECK enum err_code pretrained_load_words(const struct pretrained *p, const struct model *m,
                                               float *out, struct err *err);

void pretrained_close(struct pretrained *p); /* NULL is fine */

#endif
