#include "files/weight.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "suite.h"

/* Bytes at an odd address, as a file may have them. */
static struct weight weight_of(enum weight_type type, const void *bytes, size_t n, size_t count)
{
    static unsigned char room[256];
    struct weight w = {.file = "f",
                       .name = "w",
                       .type_name = "I64",
                       .type = type,
                       .n_dims = 1,
                       .dims = {(int64_t)count},
                       .count = count,
                       .data = room + 1};

    assert_true(n < sizeof room);
    memcpy(room + 1, bytes, n);
    return w;
}

struct row {
    const char *name;
    enum weight_type type;
    uint32_t bits;
    float want;
};
static struct row rows[] = {
    {"weight_reads_a_half_one", WEIGHT_F16, 0x3c00, 1},
    {"weight_reads_a_half_third", WEIGHT_F16, 0x3555, 0x1.554p-2f},
    {"weight_reads_a_half_below_zero", WEIGHT_F16, 0xc500, -5},
    {"weight_reads_the_largest_half", WEIGHT_F16, 0x7bff, 65504},
    {"weight_reads_the_smallest_normal_half", WEIGHT_F16, 0x0400, 0x1p-14f},
    {"weight_reads_the_largest_subnormal_half", WEIGHT_F16, 0x03ff, 0x1.ff8p-15f},
    {"weight_reads_the_smallest_subnormal_half", WEIGHT_F16, 0x8001, -0x1p-24f},
    {"weight_reads_a_half_minus_zero", WEIGHT_F16, 0x8000, -0.0f},
    {"weight_reads_a_bfloat", WEIGHT_BF16, 0xbfc0, -1.5f},
    {"weight_reads_the_largest_bfloat", WEIGHT_BF16, 0x7f7f, 0x1.fep127f},
    {"weight_reads_a_subnormal_bfloat", WEIGHT_BF16, 0x0001, 0x1p-133f},
    {"weight_reads_a_float", WEIGHT_F32, 0x3f800001, 0x1.000002p0f},
    {"weight_refuses_a_half_infinity", WEIGHT_F16, 0x7c00, INFINITY},
    {"weight_refuses_a_half_nan", WEIGHT_F16, 0xfe00, NAN},
    {"weight_refuses_a_bfloat_infinity", WEIGHT_BF16, 0xff80, INFINITY},
    {"weight_refuses_a_float_nan", WEIGHT_F32, 0x7f800001, NAN},
};

static void weight_row(void **state)
{
    const struct row *row = *state;
    unsigned char bytes[3 * 4] = {0};
    size_t width = row->type == WEIGHT_F32 ? 4 : 2;
    struct weight w;
    struct err err = {0};
    float out[3];

    for (size_t i = 0; i < width; i++)
        bytes[2 * width + i] = (unsigned char)(row->bits >> 8 * i);
    w = weight_of(row->type, bytes, 3 * width, 3);
    if (isfinite(row->want)) {
        assert_int_equal(weight_read(&w, out, NULL), ERR_OK);
        assert_memory_equal(&out[2], &row->want, sizeof row->want);
        return;
    }
    assert_int_equal(weight_read(&w, out, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, isnan(row->want) ? "f: tensor \"w\": element 2 is NaN"
                                                      : "f: tensor \"w\": element 2 is infinite"));
}

static void weight_transposes_matrices_of_every_shape(void **state)
{
    enum { MAX = 70 };
    static float in[MAX * MAX], out[MAX * MAX];
    struct weight w = {
        .type = WEIGHT_F32, .n_dims = 2, .is_transposed = true, .data = (const unsigned char *)in};

    (void)state;
    for (int i = 0; i < MAX * MAX; i++)
        in[i] = (float)i;
    for (int rows_n = 1; rows_n <= MAX; rows_n += 3)
        for (int columns = 1; columns <= MAX; columns += 3) {
            w.dims[0] = columns;
            w.dims[1] = rows_n;
            w.count = (size_t)(rows_n * columns);
            assert_int_equal(weight_read(&w, out, NULL), ERR_OK);
            for (int r = 0; r < rows_n; r++)
                for (int c = 0; c < columns; c++)
                    assert_true(out[c * rows_n + r] == in[r * columns + c]);
        }
}

static void weight_names_the_place_of_a_nan_in_a_transposed_matrix(void **state)
{
    const float in[6] = {0, 1, 2, 3, NAN, 5};
    float out[6];
    struct weight w = weight_of(WEIGHT_F32, in, sizeof in, 6);
    struct err err = {0};

    (void)state;
    w.n_dims = 2;
    w.dims[0] = 3;
    w.dims[1] = 2;
    w.is_transposed = true;
    assert_int_equal(weight_read(&w, out, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "element 4 is NaN"));
}

static void weight_of_another_type_is_refused_with_its_name(void **state)
{
    const int64_t ids[2] = {0, 1};
    struct weight w = weight_of(WEIGHT_OTHER, ids, sizeof ids, 2);
    struct err err = {0};
    float out[2];

    (void)state;
    assert_int_equal(weight_read(&w, out, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "tensor \"w\" has dtype I64; only F32, F16 and BF16"));
}

static void weight_shape_is_written_for_people(void **state)
{
    struct weight w = {.n_dims = 2, .dims = {30522, 384}};
    char text[WEIGHT_SHAPE_BYTES];

    (void)state;
    weight_shape(&w, text);
    assert_string_equal(text, "[30522, 384]");
    w.n_dims = 0;
    weight_shape(&w, text);
    assert_string_equal(text, "[]");
    w.n_dims = WEIGHT_DIMS_MAX; /* too long: cut off */
    for (int i = 0; i < WEIGHT_DIMS_MAX; i++)
        w.dims[i] = INT64_MAX;
    weight_shape(&w, text);
    assert_int_equal(strlen(text), WEIGHT_SHAPE_BYTES - 1);
}

int main(void)
{
    const struct CMUnitTest own[] = {
        cmocka_unit_test(weight_transposes_matrices_of_every_shape),
        cmocka_unit_test(weight_names_the_place_of_a_nan_in_a_transposed_matrix),
        cmocka_unit_test(weight_of_another_type_is_refused_with_its_name),
        cmocka_unit_test(weight_shape_is_written_for_people),
    };
    struct suite suite = {.n = 0};

    SUITE_TESTS(&suite, own);
    SUITE_ROWS(&suite, rows, weight_row);
    return suite_run(&suite, "weight", NULL, NULL);
}
