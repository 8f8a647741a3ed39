/* import/import.h - a model of any format as a Hugging Face directory in F32.
 *
 * For TensorFlow's checkpoints above all, which transformers no longer reads. It writes
 * the encoder and its head, if all of it is there: of pre-training, a masked LM or a classifier.
 * One unit at a time is in memory. Layer: import. Threads: one per call.
 */
#ifndef IMPORT_IMPORT_H
#define IMPORT_IMPORT_H

#include "files/pretrained.h"

struct import_report {
    struct model model; /* its head is what was found */
    bool is_headless;   /* of the head not all was there: it is written as an encoder */
    bool is_cased;
    int n_tensors; /* written */
};

/* Read the model in `from`, with its tokenizer, and write it to `to`, which is made when it is not
 * there.
 *
 * Errors are those of pretrained_open(), pretrained_load_unit(), tokenizer_load(), export_rest().
 */
MUST_CHECK enum err_code import_folder(const char *from, const char *to, struct import_report *out,
                                       struct err *err);

#endif
