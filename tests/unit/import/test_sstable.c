#include "import/sstable.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "suite.h"
#include "table.h"

struct seen {
    char text[512]; /* "key=value;..." */
    size_t n;
    bool fails;
};

static enum err_code see(void *arg, const char *key, size_t key_len, const unsigned char *value,
                         size_t value_len, struct err *err)
{
    struct seen *s = arg;

    if (s->fails)
        return err_set(err, ERR_LIMIT, "enough");
    if (s->n < sizeof s->text)
        s->n += (size_t)snprintf(s->text + s->n, sizeof s->text - s->n, "%.*s=%.*s;", (int)key_len,
                                 key, (int)value_len, (const char *)value);
    return ERR_OK;
}

/* Reads it from memory that ends where the table does, so that ASan sees one byte too far. */
static enum err_code read_copy(const unsigned char *bytes, size_t n, struct seen *seen,
                               struct err *err)
{
    unsigned char *copy = malloc(n ? n : 1);
    enum err_code rc;

    assert_non_null(copy);
    memcpy(copy, bytes, n);
    rc = sstable_read("index", copy, n, see, seen, err);
    free(copy);
    return rc;
}

static void make_good(struct table *t)
{
    *t = (struct table){0};
    table_add(t, 0, "", "head", 4);
    table_add(t, 0, "apple", "1", 1);
    table_add(t, 3, "ricot", "", 0);
    table_end_block(t);
    table_add(t, 0, "b", "2", 1);
    table_end_block(t);
    table_finish(t);
}

static void sstable_reads_all_blocks_in_order(void **state)
{
    struct table t;
    struct seen seen = {.n = 0};

    (void)state;
    make_good(&t);
    assert_int_equal(read_copy(t.bytes, t.n, &seen, NULL), ERR_OK);
    assert_string_equal(seen.text, "=head;apple=1;appricot=;b=2;");
}

static void sstable_ends_with_the_error_of_its_reader(void **state)
{
    struct table t;
    struct seen seen = {.fails = true};
    struct err err;

    (void)state;
    make_good(&t);
    assert_int_equal(read_copy(t.bytes, t.n, &seen, &err), ERR_LIMIT);
    assert_string_equal(err.text, "enough");
}

/* --- bad tables --- */

static void make_compressed(struct table *t)
{
    table_add(t, 0, "a", "1", 1);
    table_end_with(t, 1, 1);
}

static void make_many_restarts(struct table *t)
{
    table_add(t, 0, "a", "1", 1);
    table_end_with(t, UINT32_MAX, 0);
}

static void make_no_entries(struct table *t)
{
    table_end_block(t);
}

static void make_no_restart(struct table *t)
{
    table_add(t, 0, "a", "1", 1);
    table_end_with(t, 0, 0);
}

static void make_falling_keys(struct table *t)
{
    table_add(t, 0, "b", "1", 1);
    table_end_block(t);
    table_add(t, 0, "a", "1", 1);
    table_end_block(t);
}

static void make_a_key_twice(struct table *t)
{
    table_add(t, 0, "b", "1", 1);
    table_add(t, 1, "", "2", 1);
    table_end_block(t);
}

static void make_a_prefix_behind(struct table *t)
{
    table_add(t, 0, "bb", "1", 1);
    table_add(t, 1, "", "2", 1);
    table_end_block(t);
}

static void make_too_much_shared(struct table *t)
{
    table_add(t, 0, "a", "1", 1);
    table_add(t, 2, "b", "1", 1);
    table_end_block(t);
}

static void make_a_long_key(struct table *t)
{
    char key[SSTABLE_KEY_MAX_BYTES + 2];

    memset(key, 'a', sizeof key - 1);
    key[sizeof key - 1] = '\0';
    table_add(t, 0, key, "1", 1);
    table_end_block(t);
}

/* An entry that says 0 shared, `rest` and `value` and has no more. */
static void add_lengths(struct table *t, uint64_t rest, uint64_t value)
{
    t->n += table_varint(t->bytes + t->n, 0);
    t->n += table_varint(t->bytes + t->n, rest);
    t->n += table_varint(t->bytes + t->n, value);
}

static void make_a_long_value(struct table *t)
{
    add_lengths(t, 0, UINT64_MAX);
    table_end_block(t);
}

static void make_a_key_behind_the_end(struct table *t)
{
    add_lengths(t, 1, 0);
    table_end_block(t);
}

static void make_an_endless_number(struct table *t)
{
    memset(t->bytes + t->n, 0xff, 11);
    t->n += 11;
    table_end_block(t);
}

static void make_a_handle_outside(struct table *t)
{
    static const unsigned char handle[] = {0, 1, 3, 'k', 0xff, 0x7f, 9};

    memcpy(t->handles, handle, sizeof handle);
    t->n_handles = sizeof handle;
}

static void make_a_huge_handle(struct table *t)
{
    t->n_handles = 4;
    memcpy(t->handles, "\0\1\13k", 4);
    t->handles[t->n_handles++] = 0;
    t->n_handles += table_varint(t->handles + t->n_handles, UINT64_MAX);
}

static void make_a_handle_cut_off(struct table *t)
{
    memcpy(t->handles, "\0\1\1k\0", 5);
    t->n_handles = 5;
}

static struct row {
    const char *name;
    void (*make)(struct table *t);
    const char *says;
} rows[] = {
    {"sstable_refuses_compression", make_compressed, "byte 0 is compressed"},
    {"sstable_refuses_more_restarts_than_bytes", make_many_restarts, "restart points"},
    {"sstable_refuses_a_block_without_entries", make_no_entries, "it has no entries"},
    {"sstable_refuses_no_restart", make_no_restart, "restart points"},
    {"sstable_refuses_keys_that_fall", make_falling_keys, "keys do not rise"},
    {"sstable_refuses_a_key_twice", make_a_key_twice, "keys do not rise"},
    {"sstable_refuses_a_prefix_behind_its_key", make_a_prefix_behind, "keys do not rise"},
    {"sstable_refuses_more_shared_than_there_is", make_too_much_shared, "a key is too long"},
    {"sstable_refuses_a_key_beyond_the_limit", make_a_long_key, "a key is too long"},
    {"sstable_refuses_a_value_behind_the_end", make_a_long_value, "longer than the block"},
    {"sstable_refuses_a_key_behind_the_end", make_a_key_behind_the_end, "longer than the block"},
    {"sstable_refuses_an_endless_number", make_an_endless_number, "an entry is truncated"},
    {"sstable_refuses_a_block_outside", make_a_handle_outside, "does not lie inside the file"},
    {"sstable_refuses_a_block_of_all_bytes", make_a_huge_handle, "does not lie inside the file"},
    {"sstable_refuses_a_handle_that_is_cut_off", make_a_handle_cut_off,
     "its place is not a whole number"},
};

static void sstable_row(void **state)
{
    const struct row *row = *state;
    struct table t = {.n = 0};
    struct seen seen = {.n = 0};
    struct err err = {0};

    row->make(&t);
    table_finish(&t);
    assert_int_equal(read_copy(t.bytes, t.n, &seen, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "index: "));
    if (!strstr(err.text, row->says))
        fail_msg("%s", err.text);
}

static void sstable_refuses_every_cut(void **state)
{
    struct table t;

    (void)state;
    make_good(&t);
    for (size_t cut = 1; cut <= t.n; cut++) {
        struct seen seen = {.n = 0};

        assert_int_equal(read_copy(t.bytes, t.n - cut, &seen, NULL), ERR_INVALID);
    }
}

static void sstable_finds_every_changed_byte_of_its_blocks(void **state)
{
    struct table t;

    (void)state;
    make_good(&t);
    for (size_t i = 0; i < t.n - 48; i++)
        for (int bit = 0; bit < 8; bit++) {
            struct seen seen = {.n = 0};

            t.bytes[i] ^= (unsigned char)(1 << bit);
            assert_int_equal(read_copy(t.bytes, t.n, &seen, NULL), ERR_INVALID);
            t.bytes[i] ^= (unsigned char)(1 << bit);
        }
}

/* Bytes changed by somebody who can compute a checksum: an answer, whatever it is. */
static void sstable_survives_every_changed_byte_under_a_good_checksum(void **state)
{
    struct table good, t;
    size_t size;

    (void)state;
    make_good(&good);
    make_good(&t);
    size = 4 + 3 + 1 + 5 + 3 + 5 + 3 + 8; /* of the first block */
    assert_int_equal(good.bytes[size], 0);
    for (size_t i = 0; i < size; i++)
        for (int c = 0; c < 256; c++) {
            struct seen seen = {.n = 0};

            t.bytes[i] = (unsigned char)c;
            table_seal(t.bytes, size);
            (void)!read_copy(t.bytes, t.n, &seen, NULL);
            t.bytes[i] = good.bytes[i];
        }
    table_seal(t.bytes, size);
    assert_memory_equal(t.bytes, good.bytes, good.n);
}

/* The footer has no checksum. */
static void sstable_survives_every_changed_byte_of_the_footer(void **state)
{
    struct table t;

    (void)state;
    make_good(&t);
    for (size_t i = t.n - 48; i < t.n; i++) {
        unsigned char old = t.bytes[i];

        for (int c = 0; c < 256; c++) {
            struct seen seen = {.n = 0};

            t.bytes[i] = (unsigned char)c;
            (void)!read_copy(t.bytes, t.n, &seen, NULL);
        }
        t.bytes[i] = old;
    }
}

int main(void)
{
    const struct CMUnitTest own[] = {
        cmocka_unit_test(sstable_reads_all_blocks_in_order),
        cmocka_unit_test(sstable_ends_with_the_error_of_its_reader),
        cmocka_unit_test(sstable_refuses_every_cut),
        cmocka_unit_test(sstable_finds_every_changed_byte_of_its_blocks),
        cmocka_unit_test(sstable_survives_every_changed_byte_under_a_good_checksum),
        cmocka_unit_test(sstable_survives_every_changed_byte_of_the_footer),
    };
    struct suite suite = {.n = 0};

    SUITE_TESTS(&suite, own);
    SUITE_ROWS(&suite, rows, sstable_row);
    return suite_run(&suite, "sstable", NULL, NULL);
}
