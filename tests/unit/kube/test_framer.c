#include "kube/response.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct lines {
    struct buf text; /* every line, closed by '|' */
    int n_lines;
    int fails_at; /* line number that is refused; 0: none */
    int n_long;
};

static enum err_code on_line(void *ctx, const char *line, size_t n, struct err *err)
{
    struct lines *l = ctx;
    enum err_code rc = buf_add(&l->text, line, n, err);

    if (++l->n_lines == l->fails_at)
        return err_set(err, ERR_GONE, "refused");
    return rc == ERR_OK ? buf_add(&l->text, "|", 1, err) : rc;
}

static void on_long(void *ctx)
{
    ((struct lines *)ctx)->n_long++;
}

static enum err_code feed(struct framer *f, struct lines *l, const char *bytes, size_t n,
                          struct err *err)
{
    struct framer_sink sink = {.ctx = l, .on_line = on_line, .on_long = on_long};
    char *exact = malloc(n + 1); /* so that a sanitizer sees a read past the end */
    enum err_code rc;

    assert_non_null(exact);
    memcpy(exact, bytes, n);
    rc = framer_feed(f, exact, n, sink, err);
    free(exact);
    return rc;
}

static void framer_gives_the_same_lines_for_every_way_to_cut(void **state)
{
    const char *text = "one\ntwo \xe2\x82\xac\n\n\nthree\nrest";
    size_t n = strlen(text);

    (void)state;
    for (size_t a = 0; a <= n; a++) {
        for (size_t b = a; b <= n; b++) {
            struct framer f = {.partial.max = 100};
            struct lines l = {.text.max = 100};

            assert_int_equal(feed(&f, &l, text, a, NULL), ERR_OK);
            assert_int_equal(feed(&f, &l, text + a, b - a, NULL), ERR_OK);
            assert_int_equal(feed(&f, &l, text + b, n - b, NULL), ERR_OK);
            assert_string_equal(buf_text(&l.text), "one|two \xe2\x82\xac|three|");
            assert_string_equal(buf_text(&f.partial), "rest");
            framer_reset(&f);
            buf_deinit(&l.text);
        }
    }
}

static void framer_gives_the_same_lines_byte_by_byte(void **state)
{
    const char *text = "a\nbc\n\ndef\n";
    struct framer f = {.partial.max = 3};
    struct lines l = {.text.max = 100};

    (void)state;
    for (const char *p = text; *p; p++)
        assert_int_equal(feed(&f, &l, p, 1, NULL), ERR_OK);
    assert_string_equal(buf_text(&l.text), "a|bc|def|");
    framer_reset(&f);
    buf_deinit(&l.text);
}

static void framer_skips_a_line_above_the_limit_and_takes_the_next(void **state)
{
    static const char text[] = "1234\n12345\nab\n123456789\ncd\n";
    size_t n = sizeof text - 1;

    (void)state;
    for (size_t a = 0; a <= n; a++) {
        for (size_t b = a; b <= n; b++) {
            struct framer f = {.partial.max = 4};
            struct lines l = {.text.max = 100};

            assert_int_equal(feed(&f, &l, text, a, NULL), ERR_OK);
            assert_int_equal(feed(&f, &l, text + a, b - a, NULL), ERR_OK);
            assert_int_equal(feed(&f, &l, text + b, n - b, NULL), ERR_OK);
            assert_string_equal(buf_text(&l.text), "1234|ab|cd|");
            assert_int_equal(l.n_long, 2);
            framer_reset(&f);
            buf_deinit(&l.text);
        }
    }
}

static void framer_keeps_nothing_of_a_line_that_never_ends(void **state)
{
    struct framer f = {.partial.max = 1000};
    struct lines l = {.text.max = 100};

    (void)state;
    for (int i = 0; i < 10000; i++)
        assert_int_equal(feed(&f, &l, "xxxxxxxxxx", 10, NULL), ERR_OK);
    assert_int_equal(l.n_long, 1);
    assert_int_equal(f.partial.len, 0);
    framer_reset(&f); /* another stream begins */
    assert_int_equal(feed(&f, &l, "a\n", 2, NULL), ERR_OK);
    assert_string_equal(buf_text(&l.text), "a|");
    framer_reset(&f);
    buf_deinit(&l.text);
}

static void framer_ends_at_a_line_that_is_refused(void **state)
{
    struct framer f = {.partial.max = 100};
    struct lines l = {.text.max = 100, .fails_at = 2};

    (void)state;
    assert_int_equal(feed(&f, &l, "a\nb\nc\n", 6, NULL), ERR_GONE);
    assert_int_equal(l.n_lines, 2);
    framer_reset(&f);
    buf_deinit(&l.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(framer_gives_the_same_lines_for_every_way_to_cut),
        cmocka_unit_test(framer_gives_the_same_lines_byte_by_byte),
        cmocka_unit_test(framer_skips_a_line_above_the_limit_and_takes_the_next),
        cmocka_unit_test(framer_keeps_nothing_of_a_line_that_never_ends),
        cmocka_unit_test(framer_ends_at_a_line_that_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
