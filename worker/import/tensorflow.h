/* import/tensorflow.h - the tensors of google-research/bert's checkpoints under our names.
 *
 * There names are paths, and matrices are transposed. Layer: import. Threads: any.
 */
#ifndef IMPORT_TENSORFLOW_H
#define IMPORT_TENSORFLOW_H

#include "api/model.h"
#include "files/weight.h"

/* The name there of the tensor that we call `name`; *out_transposed: it is [in, out] there. */
void tensorflow_name(const char *name, char out[static MODEL_NAME_BYTES], bool *out_transposed);

/* As pretrained_reader.find; `from` is a struct bundle. */
MUST_CHECK enum err_code tensorflow_find(const void *from, const char *name, struct weight *out,
                                         struct err *err);

#endif
