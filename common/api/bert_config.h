/* api/bert_config.h - config.json, the sizes and labels of a model of Hugging Face's or
 * TensorFlow's.
 *
 * Only what changes the numbers is read, and what SkyJob does not compute (another activation,
 * relative positions, a decoder) is refused with its name: such a model would load and be wrong.
 * bert_config.json of TensorFlow's checkpoints is the same document with fewer members.
 * Layer: api (may use base). Threads: any; everything here is pure.
 */
#ifndef API_BERT_CONFIG_H
#define API_BERT_CONFIG_H

#include "api/task.h"
#include "base/fields.h"

#define BERT_CONFIG_LABEL_BYTES (TASK_LABEL_BYTES + 8) /* a name that is cut equals no label */

/* The sizes in a struct model as members of our own documents: vocabSize, hiddenSize, layers,
 * attentionHeads, feedForwardSize, maxPositions. Without one of them there is no model. */
#define BERT_CONFIG_SIZES 6
extern const struct field bert_config_sizes[BERT_CONFIG_SIZES + 1];

struct bert_config {
    struct model model; /* labels: num_labels or the count of id2label, else 2 */
    double hidden_dropout;
    double attention_dropout;
    int n_names; /* of id2label; 0: it is not there, or too long for any task */
    char names[TASK_LABELS_MAX][BERT_CONFIG_LABEL_BYTES]; /* [n_names] by id */
    bool is_tied; /* the decoder of a masked LM is the word embeddings */
};

/* Read a parsed document. `file` stands for it in errors. ERR_INVALID with file, member, remedy. */
MUST_CHECK enum err_code bert_config_parse(const char *file, const struct json *root,
                                           struct bert_config *out, struct err *err);

/* Does a model have the sizes that are wanted, where those are not 0? ERR_INVALID with all that
 * differ: "FILE: another size: set spec.model.hiddenSize to 384 (is 256), ...". Labels may differ,
 * then the head is new; norm_eps is not in the spec: take the file's. */
MUST_CHECK enum err_code bert_config_check(const char *file, const struct model *has,
                                           const struct model *wanted, struct err *err);

/* Copy `spec`, the spec of a SkyJob, which is an object, with the sizes of its model in place of
 * its own. The caller owns *out. ERR_INVALID as above where its own are others; ERR_LIMIT,
 * ERR_NO_MEMORY. */
#define BERT_CONFIG_SPEC_MAX_BYTES ((size_t)4 << 20)
MUST_CHECK enum err_code bert_config_fill(const char *file, const struct model *sizes,
                                          const struct json *spec, struct json **out,
                                          struct err *err);

/* Which row of the model's head is which label of the task: out_rows[i] is that of labels[i].
 *
 * Matched by name, in any case and with '-' or ' ' for '_': a label's own or the task's
 * `names`. Without names, or with transformers' "LABEL_0", "LABEL_1", ..., by position. ERR_INVALID
 * with both lists where neither holds. */
MUST_CHECK enum err_code bert_config_match(const char *file, const struct bert_config *config,
                                           const struct task *task, const char *const *labels,
                                           int n, int out_rows[static TASK_LABELS_MAX],
                                           struct err *err);

#endif
