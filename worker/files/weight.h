/* files/weight.h - one tensor somewhere in a file, and how it becomes floats.
 *
 * What the readers of safetensors and of TensorFlow's bundles have in common: they check where a
 * tensor lies, this turns its bytes into the caller's floats. F32, F16 and BF16 can be read. A
 * tensor of another type may be in a file (position ids, say) and is refused only when it is
 * asked for. Numbers that are not finite are refused: nothing good comes from training on them.
 * Layer: files. Threads: any.
 */
#ifndef FILES_WEIGHT_H
#define FILES_WEIGHT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define WEIGHT_DIMS_MAX    8
#define WEIGHT_SHAPE_BYTES 96

enum weight_type {
    WEIGHT_F32,
    WEIGHT_F16,
    WEIGHT_BF16,
    WEIGHT_OTHER, /* of a known size, but not read */
};

struct weight {
    const char *file; /* for errors; borrowed like all that follows */
    const char *name;
    const char *type_name; /* as the file calls it: "BF16" */
    enum weight_type type;
    int n_dims; /* 0: one number */
    int64_t dims[WEIGHT_DIMS_MAX];
    size_t count;              /* elements */
    const unsigned char *data; /* little-endian, at any address */
};

/* Convert all of it into out[count].
 *
 * Returns ERR_INVALID with file, tensor and remedy for a type that is not read and for an element
 * that is not finite; `out` is then undefined.
 */
MUST_CHECK enum err_code weight_read(const struct weight *w, float *out, struct err *err);

/* The same for a matrix [rows, columns], written as [columns, rows]. */
MUST_CHECK enum err_code weight_read_transposed(const struct weight *w, float *out,
                                                struct err *err);

/* For people: "[2, 3]". */
void weight_shape(const struct weight *w, char out[static WEIGHT_SHAPE_BYTES]);

#endif
