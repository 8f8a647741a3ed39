#include "files/weight.h"

#include <assert.h>
#include <endian.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"

static float from_bits(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* IEEE half: 1 sign, 5 exponent, 10 fraction; every one is a float. */
static float from_half(uint32_t half)
{
    uint32_t sign = (half & 0x8000) << 16;
    uint32_t exponent = half >> 10 & 0x1f;
    uint32_t fraction = half & 0x3ff;
    float tiny;

    if (exponent == 0x1f)
        return from_bits(sign | 0x7f800000 | fraction << 13);
    if (exponent > 0)
        return from_bits(sign | (exponent + 127 - 15) << 23 | fraction << 13);
    tiny = (float)fraction * 0x1p-24f; /* subnormal halves are normal floats */
    return sign ? -tiny : tiny;
}

static float element(const struct weight *w, size_t i)
{
    uint32_t full;
    uint16_t half;

    switch (w->type) {
    case WEIGHT_F32:
        memcpy(&full, w->data + 4 * i, sizeof full);
        return from_bits(le32toh(full));
    case WEIGHT_F16:
        memcpy(&half, w->data + 2 * i, sizeof half);
        return from_half(le16toh(half));
    case WEIGHT_BF16:
        memcpy(&half, w->data + 2 * i, sizeof half);
        return from_bits((uint32_t)le16toh(half) << 16);
    case WEIGHT_OTHER:
        break;
    }
    return NAN;
}

enum err_code weight_read(const struct weight *w, float *out, struct err *err)
{
    enum { BLOCK = 32 }; /* of a transposed matrix: both sides stay in the cache */
    size_t rows = w->is_transposed ? (size_t)w->dims[1] : 1;
    size_t columns = w->count / (rows > 0 ? rows : 1);

    if (w->type == WEIGHT_OTHER)
        return err_set(err, ERR_INVALID,
                       "%s: tensor \"%.96s\" has dtype %.16s; only F32, F16 and BF16 can be read: "
                       "convert it to F32",
                       w->file, w->name, w->type_name);
    assert(!w->is_transposed || w->n_dims == 2);
    /* `rows` and `columns` are the file's. */
    for (size_t at = 0; at < rows; at += BLOCK)
        for (size_t c = 0; c < columns; c++)
            for (size_t r = at; r < rows && r < at + BLOCK; r++) {
                float x = element(w, r * columns + c);

                if (!isfinite(x))
                    return err_set(
                        err, ERR_INVALID,
                        "%s: tensor \"%.96s\": element %zu is %s; the weights are damaged, or "
                        "their training failed: take another copy",
                        w->file, w->name, r * columns + c, isnan(x) ? "NaN" : "infinite");
                out[c * rows + r] = x;
            }
    return ERR_OK;
}

bool weight_rename(char name[static MODEL_NAME_BYTES], const char *end, const char *by)
{
    size_t n = strlen(name);
    size_t n_end = strlen(end);

    if (n < n_end || strcmp(name + n - n_end, end) != 0)
        return false;
    (void)snprintf(name + n - n_end, MODEL_NAME_BYTES - (n - n_end), "%s", by);
    return true;
}

void weight_shape(const struct weight *w, char out[static WEIGHT_SHAPE_BYTES])
{
    out[0] = '\0';
    for (int i = 0; i < w->n_dims; i++)
        text_add(out, WEIGHT_SHAPE_BYTES, "%s%lld", i > 0 ? ", " : "[", (long long)w->dims[i]);
    text_add(out, WEIGHT_SHAPE_BYTES, "%s", w->n_dims > 0 ? "]" : "[]");
}
