#include "text/lines.h"

#include <sys/stat.h>

#include "scratch.h"
#include "suite.h"

/* All lines of a file, joined by '|'; the code that ended it. */
static enum err_code read_all(const char *path, struct buf *out, struct err *err)
{
    struct lines l;
    const char *text;
    size_t len;
    bool end = false;
    enum err_code rc = lines_open(path, &l, err);

    if (rc != ERR_OK)
        return rc;
    while ((rc = lines_next(&l, &text, &len, &end, err)) == ERR_OK && !end) {
        assert_int_equal(buf_add(out, text, len, NULL), ERR_OK);
        assert_int_equal(buf_add(out, "|", 1, NULL), ERR_OK);
    }
    lines_close(&l);
    return rc;
}

struct row {
    const char *name, *text, *lines;
};
static struct row rows[] = {
    {"lines_of_an_empty_file_are_none", "", ""},
    {"lines_need_no_line_end_at_the_end", "a\nb", "a|b|"},
    {"lines_may_be_empty", "\n\na\n\n", "||a||"},
    {"lines_lose_carriage_returns_before_the_line_end_only", "a\r\nb\rc\r\n", "a|b\rc|"},
    {"lines_skip_a_byte_order_mark",
     "\xef\xbb\xbf"
     "a\n",
     "a|"},
};

static void lines_are(void **state)
{
    const struct row *row = *state;
    struct buf got = {.max = 1024};

    assert_int_equal(read_all(scratch_text("l", row->text), &got, NULL), ERR_OK);
    assert_string_equal(buf_text(&got), row->lines);
    buf_deinit(&got);
}

static void lines_refuse_bytes_that_are_not_utf8_and_name_the_place(void **state)
{
    struct buf got = {.max = 1024};
    struct err err = {0};

    (void)state;
    assert_int_equal(read_all(scratch_text("l", "a\nbc\xffz\n"), &got, &err), ERR_INVALID);
    assert_string_equal(buf_text(&got), "a|");
    assert_non_null(strstr(err.text, "l line 2: byte 3 is not UTF-8"));
    buf_deinit(&got);
}

/* Lines of every length around the limit. */
static void lines_of_up_to_1_mib_pass_and_longer_ones_do_not(void **state)
{
    size_t max = LINES_MAX_BYTES;
    char *text = malloc(2 * max + 16);
    struct err err = {0};

    (void)state;
    assert_non_null(text);
    for (size_t extra = 0; extra < 3; extra++) {
        struct buf got = {.max = 4 * max};
        size_t n = max + extra;

        memset(text, 'x', 2 * max + 16);
        memcpy(text, "ab\n", 3);
        memcpy(text + 3 + n, "\r\ncd", 4);
        scratch_write("l", text, 3 + n + 4);
        if (extra == 0) {
            assert_int_equal(read_all(scratch_path("l"), &got, &err), ERR_OK);
            assert_int_equal(got.len, 3 + n + 1 + 3);
            assert_memory_equal(got.data + got.len - 4, "|cd|", 4);
        } else {
            assert_int_equal(read_all(scratch_path("l"), &got, &err), ERR_INVALID);
            assert_non_null(strstr(err.text, "l line 2: longer than 1048576 bytes"));
        }
        buf_deinit(&got);
    }
    free(text);
}

static void lines_refuse_ten_megabytes_without_a_line_end(void **state)
{
    size_t n = (size_t)10 << 20;
    char *text = malloc(n);
    struct buf got = {.max = 1024};

    (void)state;
    assert_non_null(text);
    memset(text, 'x', n);
    assert_int_equal(read_all(scratch_write("l", text, n), &got, NULL), ERR_INVALID);
    buf_deinit(&got);
    free(text);
}

static void lines_are_found_again_by_their_offset(void **state)
{
    struct lines l;
    uint64_t offsets[3];
    const char *text;
    size_t len;
    bool end;

    (void)state;
    assert_int_equal(lines_open(scratch_text("l", "\xef\xbb\xbf"
                                                  "ab\r\n\ncde"),
                                &l, NULL),
                     ERR_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(lines_next(&l, &text, &len, &end, NULL), ERR_OK);
        assert_false(end);
        offsets[i] = l.offset;
    }
    lines_settle(&l);
    assert_int_equal(lines_at(&l, offsets[2], &text, &len), 11);
    assert_int_equal(len, 3);
    assert_memory_equal(text, "cde", 3);
    assert_int_equal(lines_at(&l, offsets[0], &text, &len), offsets[1]);
    assert_int_equal(len, 2);
    assert_memory_equal(text, "ab", 2);
    assert_int_equal(lines_at(&l, offsets[1], &text, &len), offsets[2]);
    assert_int_equal(len, 0);
    lines_close(&l);
}

/* `n` lines, each its own number. */
static struct lines open_numbers(int n)
{
    struct buf text = {.max = 1 << 20};
    struct lines l;

    for (int i = 1; i <= n; i++)
        assert_int_equal(buf_addf(&text, NULL, "%d\n", i), ERR_OK);
    assert_int_equal(lines_open(scratch_text("l", text.data), &l, NULL), ERR_OK);
    buf_deinit(&text);
    return l;
}

static void lines_of_a_thinned_file_come_from_all_over_and_know_their_numbers(void **state)
{
    struct lines l = open_numbers(20000);
    const char *text;
    size_t len;
    bool end;
    double sum = 0;
    long before = 0;
    int n = 0;

    (void)state;
    lines_thin(&l, 4000);
    while (lines_next(&l, &text, &len, &end, NULL) == ERR_OK && !end) {
        long number = strtol(text, NULL, 10);

        assert_int_equal(lines_number(&l), number);
        assert_int_equal(l.skipped, number != before + 1);
        before = number;
        sum += (double)number;
        n++;
    }
    assert_in_range(n, 640, 768);
    assert_true(sum / n > 9500 && sum / n < 10500);
    lines_close(&l);
}

static void lines_of_a_short_file_are_not_thinned(void **state)
{
    struct lines l = open_numbers(600);
    const char *text;
    size_t len;
    bool end;
    int n = 0;

    (void)state;
    lines_thin(&l, 600 * 4);
    while (lines_next(&l, &text, &len, &end, NULL) == ERR_OK && !end) {
        assert_false(l.skipped);
        n++;
    }
    assert_int_equal(n, 600);
    lines_close(&l);
}

static void lines_end_early_when_they_are_stopped(void **state)
{
    struct lines l = open_numbers(3);
    atomic_bool stops = false;
    const char *text;
    struct err err;
    size_t len;
    bool end;

    (void)state;
    l.stops = &stops;
    assert_int_equal(lines_next(&l, &text, &len, &end, NULL), ERR_OK);
    atomic_store(&stops, true);
    assert_int_equal(lines_next(&l, &text, &len, &end, &err), ERR_GONE);
    assert_non_null(strstr(err.text, "/l was not read to its end"));
    lines_close(&l);
}

static void lines_of_a_folder_or_of_nothing_are_an_error(void **state)
{
    struct buf got = {.max = 1024};

    (void)state;
    assert_int_equal(read_all(scratch, &got, NULL), ERR_INVALID);
    assert_int_equal(read_all(scratch_path("none"), &got, NULL), ERR_NOT_FOUND);
}

static void lines_of_a_pipe_are_refused_at_once(void **state)
{
    struct buf got = {.max = 1024};

    (void)state;
    assert_int_equal(mkfifo(scratch_path("pipe"), 0600), 0);
    assert_int_equal(read_all(scratch_path("pipe"), &got, NULL), ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest own[] = {
        cmocka_unit_test(lines_refuse_bytes_that_are_not_utf8_and_name_the_place),
        cmocka_unit_test(lines_of_up_to_1_mib_pass_and_longer_ones_do_not),
        cmocka_unit_test(lines_refuse_ten_megabytes_without_a_line_end),
        cmocka_unit_test(lines_are_found_again_by_their_offset),
        cmocka_unit_test(lines_of_a_thinned_file_come_from_all_over_and_know_their_numbers),
        cmocka_unit_test(lines_of_a_short_file_are_not_thinned),
        cmocka_unit_test(lines_end_early_when_they_are_stopped),
        cmocka_unit_test(lines_of_a_folder_or_of_nothing_are_an_error),
        cmocka_unit_test(lines_of_a_pipe_are_refused_at_once),
    };
    struct suite suite = {.n = 0};

    SUITE_TESTS(&suite, own);
    SUITE_ROWS(&suite, rows, lines_are);
    return suite_run(&suite, "lines", scratch_make, scratch_remove);
}
