#include "import/bundle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "golden_model.h"
#include "scratch.h"
#include "suite.h"
#include "table.h"

#define ONE "tests/golden/bundle/one/bert_model.ckpt"
#define TWO "tests/golden/bundle/two/bert_model.ckpt"

static void bundle_reads_what_tensorflow_writes(void **state)
{
    const char *prefixes[] = {ONE, TWO};
    float out[11 * 4];

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct weight w;
        struct bundle *b;
        struct err err;

        if (bundle_open(prefixes[i], &b, &err) != ERR_OK)
            fail_msg("%s", err.text);
        assert_int_equal(bundle_find(b, "bert/embeddings/word_embeddings", &w, NULL), ERR_OK);
        assert_int_equal(w.n_dims, 2);
        assert_int_equal(w.dims[0], 11);
        assert_int_equal(w.dims[1], 4);
        assert_int_equal(weight_read(&w, out, NULL), ERR_OK);
        for (size_t k = 0; k < 11 * 4; k++)
            assert_true(out[k] == golden_element("bert.embeddings.word_embeddings.weight", k));
        assert_int_equal(bundle_find(b, "global_step", &w, NULL), ERR_OK);
        assert_int_equal(w.n_dims, 0);
        assert_int_equal(weight_read(&w, out, &err), ERR_INVALID);
        assert_non_null(strstr(err.text, "has dtype DT_INT64"));
        assert_int_equal(bundle_find(b, "bert", &w, NULL), ERR_NOT_FOUND);
        bundle_close(b);
    }
    bundle_close(NULL);
}

/* --- made by hand: one tensor "w" of shape [2] in 8 bytes, as in a good checkpoint --- */

static const float two[2] = {1.5f, -2};

struct entry {
    uint64_t type, shard, offset, size;
    uint64_t dims[9];
    int n_dims;
    bool has_wrong_crc, is_sliced, has_bare_dims;
};
#define GOOD                                                                                       \
    {                                                                                              \
        .type = 1, .size = 8, .dims = {2}, .n_dims = 1                                             \
    }

static size_t put_number(unsigned char *at, int field, uint64_t v)
{
    size_t n = table_varint(at, (uint64_t)field << 3);

    return n + table_varint(at + n, v);
}

static size_t put_message(unsigned char *at, int field, const unsigned char *bytes, size_t len)
{
    size_t n = table_varint(at, (uint64_t)field << 3 | 2);

    n += table_varint(at + n, len);
    memcpy(at + n, bytes, len);
    return n + len;
}

static size_t put_entry(unsigned char *at, const struct entry *e)
{
    unsigned char shape[256];
    unsigned char dim[16];
    size_t n_shape = 0;
    size_t n;

    for (int i = 0; i < e->n_dims; i++)
        n_shape += e->has_bare_dims
                       ? put_number(shape + n_shape, 2, e->dims[i])
                       : put_message(shape + n_shape, 2, dim, put_number(dim, 1, e->dims[i]));
    n = put_number(at, 1, e->type);
    n += put_message(at + n, 2, shape, n_shape);
    n += put_number(at + n, 3, e->shard);
    n += put_number(at + n, 4, e->offset);
    n += put_number(at + n, 5, e->size);
    at[n++] = 6 << 3 | 5;
    bytes_put(at + n, sstable_mask(crc32c(0, two, sizeof two)) + e->has_wrong_crc, 4);
    n += 4;
    return e->is_sliced ? n + put_message(at + n, 7, shape, 0) : n;
}

/* Without the sync that file_write() has, which thousands of files would wait for. */
static void write_fast(const char *file, const void *bytes, size_t n)
{
    FILE *f = fopen(scratch_path(file), "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void write_index(uint64_t n_shards, uint64_t endianness, const struct entry *entries, int n)
{
    static const char *const names[] = {"w", "x"};
    struct table t = {.n = 0};
    unsigned char value[512];
    size_t len = put_number(value, 1, n_shards);

    len += put_number(value + len, 2, endianness);
    table_add(&t, 0, "", value, len);
    for (int i = 0; i < n; i++)
        table_add(&t, 0, names[i], value, put_entry(value, &entries[i]));
    table_end_block(&t);
    table_finish(&t);
    write_fast("m.index", t.bytes, t.n);
}

/* Open m and read "w": the first error. */
static enum err_code read_made(float out[static 2], struct err *err)
{
    struct bundle *b = NULL;
    struct weight w;
    enum err_code rc = bundle_open(scratch_path("m"), &b, err);

    if (rc == ERR_OK)
        rc = bundle_find(b, "w", &w, err);
    if (rc == ERR_OK && w.count <= 2)
        rc = weight_read(&w, out, err);
    bundle_close(b);
    return rc;
}

static struct row {
    const char *name;
    uint64_t n_shards, endianness;
    struct entry entries[2];
    int n;
    const char *says; /* NULL: it is good */
} rows[] = {
    {"bundle_accepts_what_is_good", 1, 0, {GOOD}, 1, NULL},
    {"bundle_refuses_a_wrong_checksum",
     1,
     0,
     {{.type = 1, .size = 8, .dims = {2}, .n_dims = 1, .has_wrong_crc = true}},
     1,
     "m.data-00000-of-00001: tensor \"w\": its checksum is wrong"},
    {"bundle_refuses_slices",
     1,
     0,
     {{.type = 1, .dims = {2}, .n_dims = 1, .is_sliced = true}},
     1,
     "tensor \"w\" is stored in slices; save the checkpoint without"},
    {"bundle_refuses_big_endian", 1, 1, {GOOD}, 1, "big-endian"},
    {"bundle_refuses_no_data_file", 0, 0, {GOOD}, 1, "1..256 data files"},
    {"bundle_refuses_too_many_data_files", 257, 0, {GOOD}, 1, "1..256 data files"},
    {"bundle_names_a_missing_data_file",
     2,
     0,
     {GOOD},
     1,
     "m.data-00000-of-00002: the index names this file, but it is missing"},
    {"bundle_refuses_a_data_file_beyond",
     1,
     0,
     {{.type = 1, .shard = 1, .size = 8, .dims = {2}, .n_dims = 1}},
     1,
     "lies in data file 1 of 1"},
    {"bundle_refuses_data_that_is_cut_off",
     1,
     0,
     {{.type = 1, .offset = 8, .size = 8, .dims = {2}, .n_dims = 1}},
     1,
     "m.data-00000-of-00001: tensor \"w\" lies outside of 12 bytes"},
    {"bundle_refuses_a_negative_offset",
     1,
     0,
     {{.type = 1, .offset = UINT64_MAX - 3, .size = 8, .dims = {2}, .n_dims = 1}},
     1,
     "lies outside"},
    {"bundle_refuses_a_shape_unlike_its_bytes",
     1,
     0,
     {{.type = 1, .size = 8, .dims = {3}, .n_dims = 1}},
     1,
     "tensor \"w\" has 8 bytes, which does not match its shape"},
    {"bundle_refuses_a_negative_size",
     1,
     0,
     {{.type = 1, .size = 8, .dims = {UINT64_MAX}, .n_dims = 1}},
     1,
     "tensor \"w\": its entry is damaged"},
    {"bundle_refuses_a_shape_that_overflows",
     1,
     0,
     {{.type = 1, .size = 8, .dims = {1u << 31, 1u << 31, 1u << 31}, .n_dims = 3}},
     1,
     "its entry is damaged"},
    {"bundle_refuses_a_dimension_that_is_no_message",
     1,
     0,
     {{.type = 1, .size = 8, .dims = {2}, .n_dims = 1, .has_bare_dims = true}},
     1,
     "its entry is damaged"},
    {"bundle_refuses_nine_dimensions",
     1,
     0,
     {{.type = 1, .size = 4, .dims = {1, 1, 1, 1, 1, 1, 1, 1, 1}, .n_dims = 9}},
     1,
     "its entry is damaged"},
    {"bundle_refuses_other_types_when_asked",
     1,
     0,
     {{.type = 2, .size = 8, .dims = {1}, .n_dims = 1}},
     1,
     "tensor \"w\" has dtype DT_DOUBLE; only F32"},
    {"bundle_refuses_overlap",
     1,
     0,
     {GOOD, {.type = 1, .offset = 4, .size = 8, .dims = {2}, .n_dims = 1}},
     2,
     "tensors \"w\" and \"x\" overlap"},
};

static void bundle_row(void **state)
{
    const struct row *row = *state;
    unsigned char data[12] = {0};
    float out[2] = {0};
    struct err err = {0};

    memcpy(data, two, sizeof two);
    write_fast("m.data-00000-of-00001", data, sizeof data);
    write_index(row->n_shards, row->endianness, row->entries, row->n);
    assert_int_equal(read_made(out, &err), row->says ? ERR_INVALID : ERR_OK);
    if (row->says && !strstr(err.text, row->says))
        fail_msg("%s", err.text);
    if (!row->says)
        assert_memory_equal(out, two, sizeof two);
}

/* TensorFlow's own index, changed by somebody who can compute a checksum. */
static void bundle_survives_every_changed_byte_of_an_index(void **state)
{
    enum { BLOCK = 0x4d5 }; /* size of its only data block */
    static const unsigned char values[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
    struct buf index = {.max = 1 << 16};
    struct buf data = {.max = 1 << 16};
    unsigned char *bytes;
    float out[2];

    (void)state;
    assert_int_equal(file_read(ONE ".index", &index, NULL), ERR_OK);
    assert_int_equal(file_read(ONE ".data-00000-of-00001", &data, NULL), ERR_OK);
    write_fast("m.data-00000-of-00001", data.data, data.len);
    bytes = (unsigned char *)index.data;
    assert_int_equal(bytes_get(bytes + BLOCK + 1, 4), sstable_mask(crc32c(0, bytes, BLOCK + 1)));
    for (size_t i = 0; i < BLOCK; i++) {
        unsigned char old = bytes[i];

        for (size_t c = 0; c < sizeof values; c++) {
            bytes[i] = values[c];
            table_seal(bytes, BLOCK);
            write_fast("m.index", bytes, index.len);
            (void)!read_made(out, NULL);
        }
        bytes[i] = old;
    }
    buf_deinit(&index);
    buf_deinit(&data);
}

static void bundle_prefix_finds_the_checkpoint(void **state)
{
    char folder[PATH_MAX], prefix[PATH_MAX], command[PATH_MAX + 16];
    struct err err = {0};

    (void)state;
    (void)snprintf(folder, sizeof folder, "%s", scratch_path("f"));
    (void)snprintf(command, sizeof command, "mkdir -p '%s'", folder);
    assert_int_equal(system(command), 0);
    assert_int_equal(bundle_prefix(folder, prefix, NULL), ERR_NOT_FOUND);
    write_fast("f/model.ckpt-7.index", "", 0);
    write_fast("f/model.index.json", "", 0);
    assert_int_equal(bundle_prefix(folder, prefix, NULL), ERR_OK);
    assert_string_equal(prefix, scratch_path("f/model.ckpt-7"));
    write_fast("f/model.ckpt-8.index", "", 0);
    assert_int_equal(bundle_prefix(folder, prefix, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "2 checkpoints"));
    write_fast("f/bert_model.ckpt.index", "", 0);
    assert_int_equal(bundle_prefix(folder, prefix, NULL), ERR_OK);
    assert_string_equal(prefix, scratch_path("f/bert_model.ckpt"));
    assert_int_equal(bundle_prefix(scratch_path("none"), prefix, NULL), ERR_NOT_FOUND);
}

static int test_bundle(void)
{
    const struct CMUnitTest own[] = {
        cmocka_unit_test(bundle_reads_what_tensorflow_writes),
        cmocka_unit_test(bundle_survives_every_changed_byte_of_an_index),
        cmocka_unit_test(bundle_prefix_finds_the_checkpoint),
    };
    struct suite suite = {.n = 0};

    SUITE_TESTS(&suite, own);
    SUITE_ROWS(&suite, rows, bundle_row);
    return suite_run(&suite, "bundle", scratch_make, scratch_remove);
}

/* --- names --- */

static struct name_row {
    const char *name;
    const char *ours;
    const char *theirs;
    bool is_transposed;
} name_rows[] = {
    {"bundle_name_of_words", "bert.embeddings.word_embeddings.weight",
     "bert/embeddings/word_embeddings", false},
    {"bundle_name_of_a_norm_weight", "bert.encoder.layer.11.output.LayerNorm.weight",
     "bert/encoder/layer_11/output/LayerNorm/gamma", false},
    {"bundle_name_of_a_norm_bias", "bert.embeddings.LayerNorm.bias",
     "bert/embeddings/LayerNorm/beta", false},
    {"bundle_name_of_a_matrix", "bert.encoder.layer.0.attention.self.query.weight",
     "bert/encoder/layer_0/attention/self/query/kernel", true},
    {"bundle_name_of_a_bias", "bert.pooler.dense.bias", "bert/pooler/dense/bias", false},
    {"bundle_name_of_the_transform_norm", "cls.predictions.transform.LayerNorm.weight",
     "cls/predictions/transform/LayerNorm/gamma", false},
    {"bundle_name_of_the_decoder_bias", "cls.predictions.bias", "cls/predictions/output_bias",
     false},
    {"bundle_name_of_the_next_sentence_matrix", "cls.seq_relationship.weight",
     "cls/seq_relationship/output_weights", false},
    {"bundle_name_of_the_next_sentence_bias", "cls.seq_relationship.bias",
     "cls/seq_relationship/output_bias", false},
    {"bundle_name_of_the_classifier", "classifier.weight", "output_weights", false},
};

static void bundle_name_row(void **state)
{
    const struct name_row *row = *state;
    char out[MODEL_NAME_BYTES];
    bool is_transposed;

    bundle_name(row->ours, out, &is_transposed);
    assert_string_equal(out, row->theirs);
    assert_int_equal(is_transposed, row->is_transposed);
}

static int test_names(void)
{
    struct suite suite = {.n = 0};

    SUITE_ROWS(&suite, name_rows, bundle_name_row);
    return suite_run(&suite, "bundle_names", NULL, NULL);
}

int main(void)
{
    return test_bundle() + test_names();
}
