/* files/weight.h - a tensor in a file, and its conversion to floats.
 *
 * The readers of safetensors and of TensorFlow's bundles check where a tensor is; here its bytes
 * become the caller's floats. F32, F16 and BF16 can be read. A file may contain tensors of
 * other types (position ids, for example), which are refused when they are read. So are numbers
 * that are not finite: training cannot recover from them. Layer: files. Threads: any.
 */
#ifndef FILES_WEIGHT_H
#define FILES_WEIGHT_H

#include "api/model.h"

#define WEIGHT_DIMS_MAX    8
#define WEIGHT_SHAPE_BYTES 96

enum weight_type {
    WEIGHT_F32,
    WEIGHT_F16,
    WEIGHT_BF16,
    WEIGHT_OTHER, /* cannot be read */
};

struct weight {
    const char *file; /* for errors; borrowed like all that follows */
    const char *name;
    const char *type_name; /* as the file calls it: "BF16" */
    enum weight_type type;
    int n_dims; /* 0: one number */
    int64_t dims[WEIGHT_DIMS_MAX];
    size_t count;              /* elements */
    bool is_transposed;        /* a matrix that lies as [dims[1], dims[0]] in the file */
    const unsigned char *data; /* little-endian, at any address */
};

/* Convert all of it into out[count], in the order of `dims`.
 *
 * Returns ERR_INVALID with file, tensor and remedy for a type that is not read and for an element
 * that is not finite; `out` is then undefined.
 */
MUST_CHECK enum err_code weight_read(const struct weight *w, float *out, struct err *err);

/* Replace `end` at the end of a tensor's name by `by`; false when the name does not end in it. */
bool weight_rename(char name[static MODEL_NAME_BYTES], const char *end, const char *by);

/* For messages: "[2, 3]". */
void weight_shape(const struct weight *w, char out[static WEIGHT_SHAPE_BYTES]);

#endif
