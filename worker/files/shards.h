/* files/shards.h - the safetensors files of a Hugging Face folder, as one set of tensors.
 *
 * model.safetensors alone, or model.safetensors.index.json and the shards it names. All are
 * mapped and their headers checked; their tensors are not touched before they are read.
 * Layer: files. Threads: any, once open.
 */
#ifndef FILES_SHARDS_H
#define FILES_SHARDS_H

#include "files/weight.h"

#define SHARDS_MAX 1024

struct shards; /* on the heap; all fields private */

/* Are there such files in the folder? */
bool shards_in(const char *folder);

/* On ERR_OK the caller owns *out: shards_close().
 *
 * Returns ERR_INVALID with file, place and remedy for what is wrong in a file, for a shard that is
 * missing, lies outside the folder or does not hold what the index says; ERR_DENIED, ERR_IO,
 * ERR_LIMIT, ERR_NO_MEMORY.
 */
MUST_CHECK enum err_code shards_open(const char *folder, struct shards **out, struct err *err);

/* NULL when there is no such tensor; good until shards_close(). */
const struct weight *shards_find(const struct shards *s, const char *name);

void shards_close(struct shards *s); /* NULL is fine */

#endif
