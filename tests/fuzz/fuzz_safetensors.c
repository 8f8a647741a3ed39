/* safetensors: what is accepted lies in the file, tensor after tensor, without overlap or hole.
 *
 * An input that begins with 'H' is a header's text up to a line end and then data: the length in
 * front of it is put there, so that the fuzzer need not guess it. One that begins with 'T' is a
 * list of tensors, of which a file is made, with a mistake or without: it must be accepted exactly
 * when it is without. All others are taken as they are.
 */
#include "files/safetensors.h"

#include <endian.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "fuzz.h"

#define TENSORS_MAX         32 /* of a list */
#define LIST_FILE_MAX_BYTES ((size_t)16384)

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
        struct weight other = *w;

        other.dims[0] = w->dims[1];
        other.dims[1] = w->dims[0];
        other.is_transposed = true;
        MUST(weight_read(&other, turned, NULL) == rc);
        for (size_t i = 0; rc == ERR_OK && i < w->count; i++)
            MUST(turned[i % columns * rows + i / columns] == flat[i]);
    }
    free(flat);
    free(turned);
}

static void check_tensor(const struct safetensors *s, int i, const uint8_t *bytes, size_t n)
{
    const struct weight *w = &s->tensors[i];
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
        const struct weight *before = &s->tensors[i - 1];

        MUST(before->data + bytes_of(before) <= w->data);
        MUST(before->type == WEIGHT_OTHER || before->data + bytes_of(before) == w->data);
    }
    weight_shape(w, shape);
    MUST(memchr(shape, '\0', sizeof shape));
    check_values(w);
}

/* Returns whether it is accepted. */
static bool check_file(const uint8_t *bytes, size_t n)
{
    struct safetensors *s = NULL;
    struct err err = {0};
    enum err_code rc = safetensors_open_memory("a.safetensors", bytes, n, &s, &err);

    MUST(rc == err.code);
    if (rc != ERR_OK) {
        MUST(rc == ERR_INVALID || rc == ERR_LIMIT);
        MUST(strncmp(err.text, "a.safetensors: ", 15) == 0);
        return false;
    }
    for (int i = 0; i < s->n; i++)
        check_tensor(s, i, bytes, n);
    MUST(!safetensors_find(s, ""));
    safetensors_close(s);
    return true;
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

/* What is wrong with a tensor of a list; most numbers stand for nothing. */
enum mistake { HOLE = 1, OVERLAP, TOO_LONG, TOO_SHORT, N_MISTAKES };

/* A file of a list: type, two sizes and a mistake in four bytes a tensor. What is left over is
 * data that belongs to no tensor. Returns whether there is no mistake. */
static bool make_file(const uint8_t *list, size_t n, uint8_t *out, size_t *out_n)
{
    static const char *const names[] = {"F32", "F16", "BF16", "I64", "BOOL"};
    static const size_t bytes[] = {4, 2, 2, 8, 1};
    char *header = (char *)out + 8;
    size_t at = 0, len = 0, n_tensors = n / 4 < TENSORS_MAX ? n / 4 : TENSORS_MAX;
    uint64_t length;
    bool is_good = n % 4 == 0; /* else there is a rest */

    header[len++] = '{';
    for (size_t i = 0; i < n_tensors; i++, list += 4) {
        size_t type = list[0] % 5, rows = 1 + list[1] % 4, columns = 1 + list[2] % 4;
        size_t size = rows * columns * bytes[type], mistake = list[3] % 64;

        if (mistake == OVERLAP && i == 0)
            mistake = 0; /* with what? */
        is_good = is_good && (mistake == 0 || mistake >= N_MISTAKES);
        at += mistake == HOLE;
        at -= mistake == OVERLAP && at > 0;
        size += (size_t)(mistake == TOO_LONG) - (size_t)(mistake == TOO_SHORT);
        len += (size_t)sprintf(header + len,
                               "%s\"%zu\":{\"dtype\":\"%s\",\"shape\":[%zu,%zu],"
                               "\"data_offsets\":[%zu,%zu]}",
                               i > 0 ? "," : "", i, names[type], rows, columns, at, at + size);
        at += size;
    }
    header[len++] = '}';
    length = htole64(len);
    memcpy(out, &length, sizeof length);
    memset(header + len, 1, at + n % 4);
    *out_n = 8 + len + at + n % 4;
    return is_good;
}

static void check_list(const uint8_t *list, size_t n)
{
    static uint8_t room[LIST_FILE_MAX_BYTES];
    size_t size = 0;
    bool is_good = make_file(list, n, room, &size);
    uint8_t *file = malloc(size);

    MUST(file);
    MUST(check_file(memcpy(file, room, size), size) == is_good);
    free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    const uint8_t *line = n > 0 && bytes[0] == 'H' ? memchr(bytes, '\n', n) : NULL;
    uint8_t *file;

    if (n > 0 && bytes[0] == 'T') {
        check_list(bytes + 1, n - 1);
        return 0;
    }
    if (!line) {
        (void)check_file(bytes, n);
        return 0;
    }
    file = malloc(n - 2 + 8); /* to the byte, so that the sanitizer sees one read too many */
    MUST(file);
    (void)check_file(file, put_length(bytes, n, line, file));
    free(file);
    return 0;
}
