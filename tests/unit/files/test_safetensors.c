#include "files/safetensors.h"

#include "base/hash.h"
#include "scratch.h"
#include "suite.h"

/* --- write and read back --- */

static void safetensors_reads_back_what_was_written(void **state)
{
    const struct model_tensor list[] = {
        {.name = "z.weight", .n_dims = 2, .dims = {2, 3}, .count = 6},
        {.name = "a \"b\"\xc3\xa9", .n_dims = 1, .dims = {5}, .count = 5},
        {.name = "one", .n_dims = 0, .count = 1},
    };
    float data[12];
    struct safetensors_writer w;
    struct safetensors *s;
    const struct weight *t;
    struct buf bytes = {.max = 1000};

    (void)state;
    for (int i = 0; i < 12; i++)
        data[i] = (float)i / 3;
    assert_int_equal(safetensors_begin(scratch_path("m"), list, 3, &w, NULL), ERR_OK);
    assert_int_equal(safetensors_put(&w, data, 4, NULL), ERR_OK); /* calls need not fit tensors */
    assert_int_equal(safetensors_put(&w, data + 4, 0, NULL), ERR_OK);
    assert_int_not_equal(access(scratch_path("m"), F_OK), 0); /* not there before it is complete */
    assert_int_equal(safetensors_put(&w, data + 4, 8, NULL), ERR_OK);
    assert_int_equal(safetensors_finish(&w, NULL), ERR_OK);
    assert_int_not_equal(access(scratch_path("m.part"), F_OK), 0);

    assert_int_equal(file_read(scratch_path("m"), &bytes, NULL), ERR_OK);
    assert_int_equal(bytes.len, w.file_bytes);
    assert_int_equal(crc32c(0, bytes.data, bytes.len - sizeof data), w.header_crc);
    buf_deinit(&bytes);
    assert_int_equal(safetensors_open(scratch_path("m"), &s, NULL), ERR_OK);
    assert_int_equal(s->header_crc, w.header_crc);
    assert_int_equal(s->n, 3);
    t = safetensors_find(s, "z.weight");
    assert_non_null(t);
    assert_int_equal(t->n_dims, 2);
    assert_int_equal(t->dims[0], 2);
    assert_int_equal(t->dims[1], 3);
    assert_memory_equal(t->data, data, 6 * sizeof *data);
    assert_ptr_equal(&s->tensors[0], t);
    t = safetensors_find(s, "a \"b\"\xc3\xa9");
    assert_int_equal(t->count, 5);
    assert_memory_equal(t->data, data + 6, 5 * sizeof *data);
    t = safetensors_find(s, "one");
    assert_int_equal(t->n_dims, 0);
    assert_int_equal(t->count, 1);
    assert_null(safetensors_find(s, "two"));
    safetensors_close(s);
}

static void safetensors_writer_wants_exactly_what_was_announced(void **state)
{
    const struct model_tensor list[] = {{.name = "w", .n_dims = 1, .dims = {4}, .count = 4}};
    const float data[5] = {0};
    struct safetensors_writer w;

    (void)state;
    assert_int_equal(safetensors_begin(scratch_path("w"), list, 1, &w, NULL), ERR_OK);
    assert_int_equal(safetensors_put(&w, data, 5, NULL), ERR_INVALID);
    assert_int_equal(safetensors_put(&w, data, 3, NULL), ERR_OK);
    assert_int_equal(safetensors_finish(&w, NULL), ERR_INVALID);
    assert_int_not_equal(access(scratch_path("w"), F_OK), 0);
    assert_int_not_equal(access(scratch_path("w.part"), F_OK), 0);
}

static void safetensors_writer_leaves_the_old_file_when_abandoned(void **state)
{
    const struct model_tensor list[] = {{.name = "w", .n_dims = 1, .dims = {4}, .count = 4}};
    struct safetensors_writer w;
    struct buf text = {.max = 16};

    (void)state;
    scratch_text("kept", "old");
    assert_int_equal(safetensors_begin(scratch_path("kept"), list, 1, &w, NULL), ERR_OK);
    safetensors_abandon(&w);
    assert_int_equal(file_read(scratch_path("kept"), &text, NULL), ERR_OK);
    assert_string_equal(buf_text(&text), "old");
    assert_int_not_equal(access(scratch_path("kept.part"), F_OK), 0);
    buf_deinit(&text);
}

static void safetensors_writer_needs_the_folder(void **state)
{
    const struct model_tensor list[] = {{.name = "w", .n_dims = 1, .dims = {1}, .count = 1}};
    struct safetensors_writer w;

    (void)state;
    assert_int_equal(safetensors_begin(scratch_path("none/w"), list, 1, &w, NULL), ERR_NOT_FOUND);
}

/* --- hostile files --- */

#define TENSOR(dtype, shape, from, to)                                                             \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" from "," to "]}"
#define F32(shape, from, to) TENSOR("F32", shape, from, to)

struct row {
    const char *name;
    const char *header;
    size_t data_bytes;
    const char *says; /* NULL: it is good */
};
static struct row rows[] = {
    {"safetensors_accepts_tensors_in_any_order",
     "{\"b\":" F32("[2]", "4", "12") ",\"a\":" F32("[1]", "0", "4") "}", 12, NULL},
    {"safetensors_accepts_metadata",
     "{\"__metadata__\":{\"format\":\"pt\"},\"a\":" F32("[1]", "0", "4") "}", 4, NULL},
    {"safetensors_accepts_a_file_without_tensors", "{}", 0, NULL},
    {"safetensors_refuses_overlap",
     "{\"a\":" F32("[2]", "0", "8") ",\"b\":" F32("[2]", "4", "12") "}", 12, "overlaps"},
    {"safetensors_refuses_two_tensors_in_one_place",
     "{\"a\":" F32("[1]", "0", "4") ",\"b\":" F32("[1]", "0", "4") "}", 4, "overlaps"},
    {"safetensors_refuses_holes",
     "{\"a\":" F32("[1]", "0", "4") ",\"b\":" F32("[1]", "8", "12") "}", 12, "hole"},
    {"safetensors_refuses_a_hole_at_the_start", "{\"a\":" F32("[1]", "4", "8") "}", 8, "hole"},
    {"safetensors_refuses_a_rest", "{\"a\":" F32("[1]", "0", "4") "}", 8, "belong to no tensor"},
    {"safetensors_refuses_data_that_is_cut_off", "{\"a\":" F32("[4]", "0", "16") "}", 12,
     "does not fit into the file"},
    {"safetensors_refuses_offsets_outside", "{\"a\":" F32("[1]", "8", "12") "}", 8, "outside"},
    {"safetensors_refuses_offsets_backwards", "{\"a\":" F32("[1]", "4", "0") "}", 8, "outside"},
    {"safetensors_refuses_negative_offsets", "{\"a\":" F32("[1]", "-4", "0") "}", 8, "outside"},
    {"safetensors_refuses_fractional_offsets", "{\"a\":" F32("[1]", "0.5", "4.5") "}", 8,
     "outside"},
    {"safetensors_refuses_huge_offsets", "{\"a\":" F32("[1]", "0", "18446744073709551620") "}", 8,
     "outside"},
    {"safetensors_refuses_a_shape_unlike_its_bytes", "{\"a\":" F32("[2]", "0", "4") "}", 8,
     "do not fit its shape"},
    {"safetensors_refuses_a_shape_that_overflows",
     "{\"a\":" F32("[4294967296,4294967296,4294967297]", "0", "4") "}", 4, "does not fit"},
    {"safetensors_refuses_a_size_of_zero", "{\"a\":" F32("[0]", "0", "0") "}", 0, "does not fit"},
    {"safetensors_refuses_a_negative_size", "{\"a\":" F32("[-1,-1]", "0", "4") "}", 4,
     "does not fit"},
    {"safetensors_refuses_more_than_eight_dimensions",
     "{\"a\":" F32("[1,1,1,1,1,1,1,1,1]", "0", "4") "}", 4, "at most 8 sizes"},
    {"safetensors_accepts_every_dtype_it_can_measure",
     "{\"a\":" TENSOR("BF16", "[2]", "0", "4") ",\"b\":" TENSOR(
         "F16", "[1]", "4",
         "6") ",\"c\":" TENSOR("I64", "[1,2]", "6",
                               "22") ",\"d\":" TENSOR("BOOL", "[3]", "22",
                                                      "25") ",\"e\":" F32("[1]", "25", "29") "}",
     29, NULL},
    {"safetensors_refuses_half_the_bytes_of_a_wider_dtype",
     "{\"a\":" TENSOR("F64", "[2]", "0", "8") "}", 16, "do not fit its shape and dtype"},
    {"safetensors_refuses_unknown_dtypes", "{\"a\":" TENSOR("Q4", "[2]", "0", "4") "}", 4,
     "tensor \"a\" has unknown dtype \"Q4\""},
    {"safetensors_refuses_a_missing_dtype", "{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
     "no more"},
    {"safetensors_refuses_unknown_members",
     "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4, "no more"},
    {"safetensors_refuses_a_tensor_that_is_no_object", "{\"a\":1}", 0, "no more"},
    {"safetensors_refuses_offsets_that_are_no_list",
     "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":{\"x\":0,\"y\":4}}}", 4, "outside"},
    {"safetensors_refuses_a_name_that_is_there_twice",
     "{\"a\":" F32("[1]", "0", "4") ",\"a\":" F32("[1]", "4", "8") "}", 8, "header"},
    {"safetensors_refuses_an_empty_name", "{\"\":" F32("[1]", "0", "4") "}", 4, "name"},
    {"safetensors_refuses_a_header_that_is_a_list", "[]", 0, "not a JSON object"},
    {"safetensors_refuses_a_header_that_is_no_json", "{\"a\":", 0, "header"},
    {"safetensors_refuses_text_behind_the_header", "{} {}", 0, "header"},
};

/* Header padded to a multiple of 8 bytes, data all zero. */
static size_t build(const char *header, size_t data_bytes, unsigned char out[static 4096])
{
    uint64_t n = (strlen(header) + 7) / 8 * 8;

    memset(out, 0, 4096);
    memset(out + 8, ' ', n);
    memcpy(out, &n, 8);
    memcpy(out + 8, header, strlen(header));
    return (size_t)(8 + n + data_bytes);
}

/* Reads it from memory that ends where the file does, so that ASan sees one byte too far. */
static enum err_code open_copy(const void *bytes, size_t n, struct err *err)
{
    struct safetensors *s = NULL;
    void *copy = malloc(n ? n : 1);
    enum err_code rc;

    assert_non_null(copy);
    memcpy(copy, bytes, n);
    rc = safetensors_open_memory("file", copy, n, &s, err);
    safetensors_close(s);
    free(copy);
    return rc;
}

static void safetensors_row(void **state)
{
    const struct row *row = *state;
    unsigned char bytes[4096];
    size_t n = build(row->header, row->data_bytes, bytes);
    struct err err = {0};

    assert_int_equal(open_copy(bytes, n, &err), row->says ? ERR_INVALID : ERR_OK);
    if (row->says && !strstr(err.text, row->says))
        fail_msg("%s", err.text);
}

static void safetensors_refuses_every_cut_and_wrong_length(void **state)
{
    unsigned char bytes[4096];
    size_t n = build("{\"a\":" F32("[4]", "0", "16") "}", 16, bytes);
    static const uint64_t lengths[] = {0,  1,          4095,           UINT64_MAX, INT64_MAX,
                                       57, UINT32_MAX, UINT64_MAX - 7, 1u << 31};

    (void)state;
    for (size_t cut = 0; cut < n; cut++)
        assert_int_equal(open_copy(bytes, cut, NULL), ERR_INVALID);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        memcpy(bytes, &lengths[i], 8);
        assert_int_equal(open_copy(bytes, n, NULL), ERR_INVALID);
    }
}

/* Every byte of a good file changed to every value: an answer, whatever it is. */
static void safetensors_survives_every_changed_byte(void **state)
{
    unsigned char bytes[4096];
    size_t n = build("{\"a\":" F32("[2,2]", "0", "16") "}", 16, bytes);

    (void)state;
    for (size_t i = 0; i < n; i++) {
        unsigned char old = bytes[i];

        for (int c = 0; c < 256; c++) {
            bytes[i] = (unsigned char)c;
            (void)!open_copy(bytes, n, NULL);
        }
        bytes[i] = old;
    }
    assert_int_equal(open_copy(bytes, n, NULL), ERR_OK);
}

static void safetensors_open_names_what_is_wrong_with_the_file(void **state)
{
    struct safetensors *s;
    struct err err = {0};

    (void)state;
    assert_int_equal(safetensors_open(scratch_path("none"), &s, NULL), ERR_NOT_FOUND);
    assert_int_equal(safetensors_open(scratch, &s, NULL), ERR_INVALID);
    assert_int_equal(safetensors_open(scratch_text("short", "x"), &s, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "short: truncated"));
    assert_int_equal(safetensors_open(scratch_text("text", "{\"a\": 1, \"b\": 2}"), &s, NULL),
                     ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest own[] = {
        cmocka_unit_test(safetensors_reads_back_what_was_written),
        cmocka_unit_test(safetensors_writer_wants_exactly_what_was_announced),
        cmocka_unit_test(safetensors_writer_leaves_the_old_file_when_abandoned),
        cmocka_unit_test(safetensors_writer_needs_the_folder),
        cmocka_unit_test(safetensors_refuses_every_cut_and_wrong_length),
        cmocka_unit_test(safetensors_survives_every_changed_byte),
        cmocka_unit_test(safetensors_open_names_what_is_wrong_with_the_file),
    };
    struct suite suite = {.n = 0};

    SUITE_TESTS(&suite, own);
    SUITE_ROWS(&suite, rows, safetensors_row);
    return suite_run(&suite, "safetensors", scratch_make, scratch_remove);
}
