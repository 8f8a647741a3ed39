/* safetensors: what is accepted lies in the file, tensor after tensor, without overlap or hole.
 *
 * An input that begins with 'H' is a header's text up to a line end and then data: the length in
 * front of it is put there, so that the fuzzer need not guess it. All others are taken as they are.
 */
#include "data/safetensors.h"

#include <endian.h>
#include <math.h>
#include <string.h>

#include "fuzz.h"

static size_t bytes_of(const struct weight *w)
{
    static const size_t type_bytes[] = {
        [WEIGHT_F32] = 4, [WEIGHT_F16] = 2, [WEIGHT_BF16] = 2, [WEIGHT_OTHER] = 0};

    return w->count * type_bytes[w->type];
}

static void check_values(const struct weight *w)
{
    float *flat = malloc(w->count * sizeof *flat);
    float *turned = malloc(w->count * sizeof *turned);
    enum err_code rc;

    MUST(flat && turned);
    rc = weight_read(w, flat, NULL);
    for (size_t i = 0; rc == ERR_OK && i < w->count; i++)
        MUST(isfinite(flat[i]));
    if (w->n_dims == 2) {
        size_t rows = (size_t)w->dims[0], columns = (size_t)w->dims[1];

        MUST(weight_read_transposed(w, turned, NULL) == rc);
        for (size_t i = 0; rc == ERR_OK && i < w->count; i++)
            MUST(turned[i % columns * rows + i / columns] == flat[i]);
    }
    free(flat);
    free(turned);
}

static void check_tensor(const struct safetensors *s, int i, const uint8_t *bytes, size_t n)
{
    const struct weight *w = safetensors_at(s, i);
    char shape[WEIGHT_SHAPE_BYTES];
    size_t count = 1;

    MUST(safetensors_find(s, w->name) == w);
    MUST(strlen(w->name) >= 1 && strlen(w->name) <= SAFETENSORS_NAME_MAX_BYTES);
    MUST(w->n_dims >= 0 && w->n_dims <= WEIGHT_DIMS_MAX);
    for (int d = 0; d < w->n_dims; d++)
        count *= (size_t)w->dims[d];
    MUST(count == w->count && count >= 1 && count <= n);
    MUST(w->data >= bytes + 8 && w->data < bytes + n);
    MUST(bytes_of(w) <= (size_t)(bytes + n - w->data));
    if (i > 0) {
        const struct weight *before = safetensors_at(s, i - 1);

        MUST(before->data + bytes_of(before) <= w->data);
        MUST(before->type == WEIGHT_OTHER || before->data + bytes_of(before) == w->data);
    }
    weight_shape(w, shape);
    MUST(memchr(shape, '\0', sizeof shape));
    check_values(w);
}

static void check_file(const uint8_t *bytes, size_t n)
{
    struct safetensors *s = NULL;
    struct err err = {0};
    enum err_code rc = safetensors_open_memory("a.safetensors", bytes, n, &s, &err);

    MUST(rc == err.code);
    if (rc != ERR_OK) {
        MUST(rc == ERR_INVALID || rc == ERR_LIMIT);
        MUST(strncmp(err.text, "a.safetensors: ", 15) == 0);
        return;
    }
    for (int i = 0; i < safetensors_count(s); i++)
        check_tensor(s, i, bytes, n);
    MUST(!safetensors_find(s, ""));
    safetensors_close(s);
}

/* 'H', header, line end, data -> length, header, data. */
static size_t put_length(const uint8_t *bytes, size_t n, const uint8_t *line, uint8_t *out)
{
    size_t header_bytes = (size_t)(line - bytes) - 1;
    size_t data_bytes = n - header_bytes - 2;
    uint64_t length = htole64(header_bytes);

    memcpy(out, &length, sizeof length);
    memcpy(out + sizeof length, bytes + 1, header_bytes);
    memcpy(out + sizeof length + header_bytes, line + 1, data_bytes);
    return sizeof length + header_bytes + data_bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    const uint8_t *line = n > 0 && bytes[0] == 'H' ? memchr(bytes, '\n', n) : NULL;
    uint8_t *file;

    if (!line) {
        check_file(bytes, n);
        return 0;
    }
    file = malloc(n - 2 + 8); /* to the byte, so that the sanitizer sees one read too many */
    MUST(file);
    check_file(file, put_length(bytes, n, line, file));
    free(file);
    return 0;
}
