/* files/safetensors.h - weights in the safetensors format: one file out, any file in.
 *
 * Format (huggingface/safetensors): 8 bytes little-endian length N, N bytes of JSON
 * {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...}, then the data
 * without holes; offsets count from the end of the header. The writer writes F32; files/weight.h
 * lists what can be read.
 *
 * The writer streams: tensors are announced first, then their floats follow in order, so nothing is
 * in memory twice. A file appears under its name only when it is complete and synced. The reader
 * maps the file and trusts nothing in it; it touches the header only, so a process has in memory
 * what it reads of the tensors. Layer: files. Threads: one per writer; a reader any, once open.
 */
#ifndef FILES_SAFETENSORS_H
#define FILES_SAFETENSORS_H

#include "base/file.h"
#include "base/map.h"
#include "files/weight.h"

#define SAFETENSORS_NAME_MAX_BYTES   256
#define SAFETENSORS_TENSORS_MAX      65536
#define SAFETENSORS_HEADER_MAX_BYTES ((size_t)64 << 20)

struct safetensors_writer {
    uint64_t file_bytes; /* of the whole file */
    uint32_t header_crc; /* CRC-32C of all bytes in front of the data */
    /* private */
    struct file_writer file;
    uint64_t left; /* floats announced and not written yet */
};

/* Begin `path` with these tensors in this order. On ERR_OK the caller ends *out with exactly one of
 * safetensors_finish() and safetensors_abandon(). ERR_LIMIT, ERR_NOT_FOUND (no such folder),
 * ERR_DENIED, ERR_IO, ERR_NO_MEMORY. */
MUST_CHECK enum err_code safetensors_begin(const char *path, const struct model_tensor *tensors,
                                           int n, struct safetensors_writer *out, struct err *err);

/* The next `count` floats of the file: one tensor after the other, in any number of calls.
 * ERR_INVALID when they are more than announced; ERR_IO (a full disk, for example). */
MUST_CHECK enum err_code safetensors_put(struct safetensors_writer *w, const float *data,
                                         size_t count, struct err *err);

/* Sync and rename. ERR_INVALID when floats are missing; then, and on every other error, nothing is
 * left behind. */
MUST_CHECK enum err_code safetensors_finish(struct safetensors_writer *w, struct err *err);
/* Remove what was written so far. */
void safetensors_abandon(struct safetensors_writer *w);

/* An open file. */
struct safetensors {
    int n;
    struct weight *tensors; /* [n] in the order of their data */
    uint32_t header_crc;    /* CRC-32C of all bytes in front of the data */
    /* private */
    struct json *header;       /* owns the names of tensors and types */
    char *name;                /* of the file */
    const unsigned char *data; /* behind the header */
    uint64_t data_bytes;
    struct map by_name;
    struct mapping map; /* zeroed: the caller's memory */
};

/* Map a file and check its whole header: lengths within the file, known dtypes, shapes that fit
 * their bytes, no name twice, no overlap, no hole, no rest.
 *
 * Returns ERR_INVALID with file, tensor and reason; ERR_NOT_FOUND, ERR_DENIED, ERR_IO,
 * ERR_NO_MEMORY for the file.
 */
MUST_CHECK enum err_code safetensors_open(const char *path, struct safetensors **out,
                                          struct err *err);
/* The same over memory that the caller keeps; `name` stands for it in errors. */
MUST_CHECK enum err_code safetensors_open_memory(const char *name, const void *bytes, size_t len,
                                                 struct safetensors **out, struct err *err);

/* Good until safetensors_close(); NULL when there is no such tensor. */
const struct weight *safetensors_find(const struct safetensors *s, const char *name);

void safetensors_close(struct safetensors *s); /* NULL is fine */

#endif
