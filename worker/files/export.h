/* files/export.h - a trained model as a Hugging Face directory.
 *
 * `from_pretrained(folder)` of transformers loads what is written here: every worker writes the
 * units that are at home with it into a shard, model-0000i-of-0000S.safetensors, at the same time
 * as the others; that with the first unit adds the index from tensors to shards, config.json and
 * tokenizer_config.json. A worker alone writes model.safetensors and no index. The index comes
 * last: a folder that has it is complete as soon as all shards are. Layer: files. Threads: one per
 * call; workers are different processes.
 */
#ifndef FILES_EXPORT_H
#define FILES_EXPORT_H

#include "api/plan.h"
#include "files/safetensors.h"

#define EXPORT_SHARD_BYTES 48 /* of a shard's file name, with the NUL */
#define EXPORT_WHOLE_FILE  "model.safetensors"
#define EXPORT_INDEX_FILE  "model.safetensors.index.json"

/* What is written, and where; all pointers are borrowed. */
struct export_params {
    const struct model *model;
    const char *folder; /* made when it is missing (not its parents) */
    int n_shards;
    struct plan_home shards[SPEC_STAGES_MAX]; /* the homes of plan_homes() */
    /* of the files that exist once: */
    int pad_id;                /* of the vocabulary */
    bool is_cased;             /* the tokenizer keeps capitals and accents */
    int n_labels;              /* whose names are known; the others are LABEL_i */
    const char *const *labels; /* [n_labels] by id */
    double dropout;
    bool is_headless; /* an encoder: its head is not written */
    /* Of the optimizer, written behind the parameters of each unit: 0 none, 1 SGD's moment, 2
     * AdamW's moment and variance. The index does not list them; `from_pretrained` ignores them,
     * and lists them as unexpected since version 5. */
    int n_moments;
};

/* "model.safetensors" of one shard, "model-0000i-of-0000S.safetensors" of several. */
void export_shard_name(int shard, int n_shards, char out[static EXPORT_SHARD_BYTES]);

#define EXPORT_UNIT_TENSORS_MAX (MODEL_UNIT_TENSORS_MAX + 2)

/* The tensors of a unit in its shard: those of model_tensor(), then `n_moments` flat ones of
 * model_unit_params() floats, "optimizer.moment.unit-00012" and "optimizer.variance.unit-00012".
 * Offsets count from the start of the unit. Returns how many. */
int export_unit_tensors(const struct model *m, int n_moments, int unit,
                        struct model_tensor out[static EXPORT_UNIT_TENSORS_MAX]);

/* Does the model that is written have this tensor? */
typedef bool export_has_fn(void *arg, const char *name);

/* Begin shard `shard`: the tensors of its units as export_unit_tensors() has them, all
 * or those that `has` is true for, which is asked once about each. On ERR_OK the caller hands the
 * floats to `out` and ends it. Returns ERR_NOT_FOUND, ERR_DENIED, ERR_IO with the path,
 * ERR_NO_MEMORY. */
MUST_CHECK enum err_code export_begin(const struct export_params *p, int shard, export_has_fn *has,
                                      void *arg, struct safetensors_writer *out, struct err *err);

/* Write the whole shard, without moments. `params` is one pointer for each of its units:
 * model_unit_params() floats. Errors as above. */
MUST_CHECK enum err_code export_shard(const struct export_params *p, int shard,
                                      const float *const *params, struct err *err);

/* Write the files that exist once, except the vocabulary (vocab_save()): config.json,
 * tokenizer_config.json, and the index when there is more than one shard. Errors as above. */
MUST_CHECK enum err_code export_rest(const struct export_params *p, struct err *err);

/* Remove a file unless it is gone already. */
MUST_CHECK enum err_code export_remove(const char *folder, const char *file, struct err *err);

#endif
