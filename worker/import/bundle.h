/* import/bundle.h - TensorFlow checkpoints: PREFIX.index and PREFIX.data-0000i-of-0000N.
 *
 * The index is a sorted table (import/sstable.h) from names to where each tensor lies, as protocol
 * buffers (tensorflow/core/protobuf/tensor_bundle.proto); the key "" has the header. The data
 * files are mapped, and a tensor's checksum is checked when it is read: those of an optimizer never
 * are.
 * Layer: import. Threads: any, once open.
 */
#ifndef IMPORT_BUNDLE_H
#define IMPORT_BUNDLE_H

#include <limits.h>

#include "files/weight.h"

#define BUNDLE_SHARDS_MAX     256
#define BUNDLE_TENSORS_MAX    65536
#define BUNDLE_NAME_MAX_BYTES 255

struct bundle; /* on the heap; all fields private */

/* The prefix of the checkpoint in a folder: that of bert_model.ckpt.index, else of the only
 * .index file. ERR_NOT_FOUND when there is none, ERR_INVALID when there are several. */
MUST_CHECK enum err_code bundle_prefix(const char *folder, char out[static PATH_MAX],
                                       struct err *err);

/* On ERR_OK the caller owns *out: bundle_close().
 *
 * Returns ERR_INVALID with file, tensor and remedy for what is wrong in the index, for data files
 * that are missing or truncated and for tensors that overlap; ERR_NOT_FOUND (the index),
 * ERR_DENIED, ERR_IO, ERR_LIMIT, ERR_NO_MEMORY.
 */
MUST_CHECK enum err_code bundle_open(const char *prefix, struct bundle **out, struct err *err);

/* The tensor `name`, its checksum checked; good until bundle_close(). ERR_NOT_FOUND, without a
 * text, when there is none; ERR_INVALID for a wrong checksum and for a tensor that is stored in
 * slices. */
MUST_CHECK enum err_code bundle_find(const struct bundle *b, const char *name, struct weight *out,
                                     struct err *err);

/* google-research/bert's name of the tensor that we call `name`: a path. *out_transposed: the
 * matrix is [in, out] there. */
void bundle_name(const char *name, char out[static MODEL_NAME_BYTES], bool *out_transposed);

/* As pretrained_reader.find, by our names; `bundle` is a struct bundle. */
MUST_CHECK enum err_code bundle_find_ours(const void *bundle, const char *name, struct weight *out,
                                          struct err *err);

void bundle_close(struct bundle *b); /* NULL is fine */

#endif
