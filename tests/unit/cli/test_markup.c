#include "cli/markup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wellformed.h"

static void expect_text(const char *text, const char *want)
{
    struct buf out = {.max = 4096};
    struct markup m;

    markup_init(&m, &out);
    markup_text(&m, text);
    assert_int_equal(markup_finish(&m, NULL), ERR_OK);
    assert_string_equal(buf_text(&out), want);
    buf_deinit(&out);
}

static void markup_escapes_whatever_has_a_meaning(void **state)
{
    (void)state;
    expect_text("a<b>&\"'c", "a&lt;b&gt;&amp;&quot;&#39;c");
    expect_text("</script><script>alert(1)</script>",
                "&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;");
    expect_text("&amp;", "&amp;amp;");
    expect_text("", "");
}

static void markup_replaces_what_is_no_text(void **state)
{
    (void)state;
    expect_text("a\x01\x7f\r"
                "b\n\tc",
                "a   b\n\tc");
    expect_text("gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f");
    expect_text("cut \xc3", "cut \xef\xbf\xbd");
    expect_text("\xff\xfe", "\xef\xbf\xbd\xef\xbf\xbd");
    expect_text("\xc0\xbc", "\xef\xbf\xbd\xef\xbf\xbd"); /* "<", written too long */
}

static void markup_keeps_its_first_error(void **state)
{
    struct buf out = {.max = 4};
    struct err err;
    struct markup m;

    (void)state;
    markup_init(&m, &out);
    markup_text(&m, "1234");
    markup_add(&m, "%d", 5);
    out.max = 100;
    markup_text(&m, "6");
    assert_int_equal(markup_finish(&m, &err), ERR_LIMIT);
    assert_string_equal(buf_text(&out), "1234");
    buf_deinit(&out);
}

static void markup_refuses_a_tag_that_would_be_cut_off(void **state)
{
    struct buf out = {.max = 1 << 20};
    struct err err;
    struct markup m;

    (void)state;
    markup_init(&m, &out);
    markup_add(&m, "%2000d", 1);
    assert_int_equal(markup_finish(&m, &err), ERR_LIMIT);
    assert_int_equal(out.len, 0);
    buf_deinit(&out);
}

/* The other tests are as good as the checker. */
static void markup_checker_finds_what_is_broken(void **state)
{
    static const char *const broken[] = {"<a>",         "<a></b>",
                                         "</a>",        "<a><b></a></b>",
                                         "a & b",       "&nbsp;",
                                         "<a b=c></a>", "<a b=\"<\"/>",
                                         "a > b",       "<a b=\"1\" b=\"2\"/>",
                                         "<a b=\"1>",   "<a b=\"&\"></a>",
                                         "< a></a>",    "<a",
                                         "a\x01"};

    (void)state;
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++)
        assert_non_null(wellformed_error(broken[i]));
    assert_null(wellformed_error("<!DOCTYPE html>\n<a b=\"1\" c=\"&lt;\"><b/>x &amp; y</a>"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(markup_escapes_whatever_has_a_meaning),
        cmocka_unit_test(markup_replaces_what_is_no_text),
        cmocka_unit_test(markup_keeps_its_first_error),
        cmocka_unit_test(markup_refuses_a_tag_that_would_be_cut_off),
        cmocka_unit_test(markup_checker_finds_what_is_broken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
