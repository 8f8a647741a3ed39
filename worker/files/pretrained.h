/* files/pretrained.h - a folder with a trained BERT, to start from.
 *
 * A Hugging Face directory: config.json, and model.safetensors or shards with their index. Tensors
 * are found under any of their known names. Files are mapped, so a stage reads no more than its own
 * tensors. Nothing in them is trusted. TensorFlow checkpoints have to be
 * converted (import/import.h), and the error for one names the command.
 *
 * A tensor of the encoder that is missing is an error. A head, or a part of it, may be missing:
 * fine-tuning starts from a bare encoder or from another task's head. Such tensors keep the
 * caller's initial values and are reported.
 * Layer: files. Threads: any, once open.
 */
#ifndef FILES_PRETRAINED_H
#define FILES_PRETRAINED_H

#include "api/bert_config.h"
#include "api/task.h"
#include "files/weight.h"

#define PRETRAINED_ALIAS_MAX 5

struct pretrained; /* on the heap; all fields private */

/* The known names of a tensor. Ours are those of transformers' BertForSequenceClassification
 * and BertForPreTraining. Older checkpoints have gamma and beta for LayerNorm's weight and bias; a
 * bare BertModel has no "bert." in front.
 *
 * Sets `out` to name number `i`, 0 <= i < PRETRAINED_ALIAS_MAX, most usual first, of the tensor
 * that we call `name`; false if it has no such name. */
bool pretrained_alias(const char *name, int i, char out[static MODEL_NAME_BYTES]);

/* Where tensors of another format come from: TensorFlow checkpoints (import/bundle.h). */
struct pretrained_reader {
    const void *from;
    /* Find the tensor that model_tensor() calls `name`. ERR_NOT_FOUND when there is none, another
     * code for a damaged one; what *out points to lives as long as `from`. */
    enum err_code (*find)(const void *from, const char *name, struct weight *out, struct err *err);
};

/* Open it, read its config and check what it holds, but no tensor. `reader` finds the tensors of
 * another format and must outlive *out; NULL: safetensors. On ERR_OK the caller owns *out:
 * pretrained_close().
 *
 * Returns ERR_NOT_FOUND when there is no such folder; ERR_INVALID with file, place and remedy for
 * what is wrong in it; ERR_DENIED, ERR_IO, ERR_LIMIT, ERR_NO_MEMORY.
 */
MUST_CHECK enum err_code pretrained_open(const char *folder, const struct pretrained_reader *reader,
                                         struct pretrained **out, struct err *err);

/* Its config; borrowed. Its model.head is always the classifier. */
const struct bert_config *pretrained_config(const struct pretrained *p);

/* Append its sizes as a JSON object with the members of bert_config_sizes, the report of
 * `skyjob-worker inspect`. Returns what pretrained_open() does. */
MUST_CHECK enum err_code pretrained_inspect(const char *folder, struct buf *out, struct err *err);

/* Can this model start from it? ERR_INVALID with the first difference and what to set in the spec.
 * Labels may differ; norm_eps may, and the caller takes it over from the config. */
MUST_CHECK enum err_code pretrained_check(const struct pretrained *p, const struct model *wanted,
                                          struct err *err);

/* Find the row of the model's classifier for each label of the task, so that
 * pretrained_load_unit() reads them in the task's order. A folder without a classifier of that
 * many labels is fine: the head is new. ERR_INVALID with both lists where names cannot be matched.
 */
MUST_CHECK enum err_code pretrained_match_labels(struct pretrained *p, const struct task *task,
                                                 const char *const *labels, int n_labels,
                                                 struct err *err);

/* ERR_INVALID for a vocabulary that has more tokens than the model. It may have fewer. */
MUST_CHECK enum err_code pretrained_check_vocab(const struct pretrained *p, int n_tokens,
                                                struct err *err);

/* Does the folder have the tensor that model_tensor() calls `name`? */
bool pretrained_has(const struct pretrained *p, const char *name);

/* What a unit did not find in the folder. */
struct pretrained_missing {
    int n_tensors;
    char why[256]; /* for people: "classifier.weight is missing", the last of them */
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

void pretrained_close(struct pretrained *p); /* NULL is fine */

#endif
