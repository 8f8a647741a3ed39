/* The XML of S3's answers: what is read of it, and what is refused. */
#include "http/xml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "suite.h"

/* Append "path=text;" of every element. */
static enum err_code read_all(const char *text, char *out, size_t bytes, struct err *err)
{
    size_t n = strlen(text);
    char *copy = malloc(n + 1); /* of the very size, so that the sanitizer sees a byte too many */
    struct xml x;
    enum err_code rc;

    assert_non_null(copy);
    memcpy(copy, text, n);
    out[0] = '\0';
    xml_init(&x, copy, n);
    while ((rc = xml_next(&x, err)) == ERR_OK)
        text_add(out, bytes, "%s=%s;", x.path, x.text);
    free(copy);
    return rc;
}

static struct good {
    const char *name;
    const char *text;
    const char *want;
} good[] = {
    {"xml_reads_elements_in_the_order_in_which_they_end", "<a><b>1</b><c><d>2</d></c></a>",
     "a/b=1;a/c/d=2;a/c=;a=;"},
    {"xml_reads_what_a_server_sends",
     "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error xmlns=\"http://s3/\"><Code>AccessDenied</"
     "Code>\n</Error>\n",
     "Error/Code=AccessDenied;Error=\n;"},
    {"xml_has_elements_without_an_end_tag", "<a><b/><c x='/'></c></a>", "a/b=;a/c=;a=;"},
    {"xml_replaces_entities", "<a>&lt;&amp;&gt;&quot;&apos;&#65;&#x42;&#xe4;&#x20ac;&#x1F600;</a>",
     "a=<&>\"'AB\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80;"},
    {"xml_skips_comments_and_attributes", "<!-- <x> --><a b=\"1>2\"><!-- y -->z</a><!-- -->",
     "a=z;"},
    {"xml_may_begin_with_a_byte_order_mark", "\xef\xbb\xbf<a/>", "a=;"},
    {"xml_tags_may_end_behind_white_space", "<a ><b\n>1</b\n></a >", "a/b=1;a=;"},
};

static void check_good(void **state)
{
    const struct good *row = *state;
    struct err err = {.text = ""};
    char got[1000];

    if (read_all(row->text, got, sizeof got, &err) != ERR_GONE)
        fail_msg("%s", err.text);
    assert_string_equal(got, row->want);
}

static struct bad {
    const char *name;
    const char *text;
    const char *why;
} bad[] = {
    {"xml_has_a_root", "", "cut short"},
    {"xml_is_not_json", "{\"a\": 1}", "not XML"},
    {"xml_is_not_cut_in_a_text", "<a>b", "cut short"},
    {"xml_is_not_cut_in_a_tag", "<a><b", "cut short"},
    {"xml_is_not_cut_in_an_attribute", "<a b=\"c", "cut short"},
    {"xml_is_not_cut_in_a_comment", "<a><!-- ", "cut short"},
    {"xml_is_not_cut_in_an_end_tag", "<a></a", "does not end"},
    {"xml_tags_match", "<a><b></a></b>", "do not match"},
    {"xml_end_tags_need_a_beginning", "<a></a></a>", "do not match"},
    {"xml_has_one_root", "<a></a><b></b>", "more than one root"},
    {"xml_has_no_text_around_its_root", "<a></a>b", "not XML"},
    {"xml_tags_have_names", "<a><></></a>", "no name"},
    {"xml_tags_do_not_nest", "<a <b></b></a>", "within a tag"},
    {"xml_has_no_doctype", "<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>", "declaration"},
    {"xml_has_no_cdata", "<a><![CDATA[b]]></a>", "declaration"},
    {"xml_has_no_entities_of_its_own", "<a>&b;</a>", "entity"},
    {"xml_entities_end", "<a>&amp</a>", "entity"},
    {"xml_numbers_are_characters", "<a>&#x110000;</a>", "entity"},
    {"xml_numbers_are_no_surrogates", "<a>&#xd800;</a>", "entity"},
    {"xml_numbers_are_not_nul", "<a>&#0;</a>", "entity"},
    {"xml_numbers_do_not_overflow", "<a>&#99999999999999999999;</a>", "entity"},
};

static void check_bad(void **state)
{
    const struct bad *row = *state;
    struct err err = {.text = ""};
    char got[1000];

    assert_int_equal(read_all(row->text, got, sizeof got, &err), ERR_PROTOCOL);
    if (!strstr(err.text, row->why))
        fail_msg("%s", err.text);
}

/* Repeat a text until it has `bytes`. */
static enum err_code read_repeated(const char *text, size_t bytes, const char *why)
{
    struct buf b = {.max = 1 << 20};
    struct err err = {.text = ""};
    enum err_code rc;
    struct xml x;

    assert_int_equal(buf_addf(&b, NULL, "<a>"), ERR_OK);
    while (b.len < bytes)
        assert_int_equal(buf_addf(&b, NULL, "%s", text), ERR_OK);
    xml_init(&x, b.data, b.len);
    do {
        rc = xml_next(&x, &err);
    } while (rc == ERR_OK);
    buf_deinit(&b);
    if (!strstr(err.text, why))
        fail_msg("%s", err.text);
    return rc;
}

static void xml_limits_its_depth(void **state)
{
    (void)state;
    assert_int_equal(read_repeated("<element>", 10000, "too deeply"), ERR_PROTOCOL);
}

static void xml_limits_a_text(void **state)
{
    (void)state;
    assert_int_equal(read_repeated("text", 10000, "too long"), ERR_PROTOCOL);
    assert_int_equal(read_repeated("&amp;", 30000, "too long"), ERR_PROTOCOL);
}

static void xml_text_has_no_nul(void **state)
{
    static const char text[] = "<a>b\0c</a>";
    struct err err = {.text = ""};
    struct xml x;

    (void)state;
    xml_init(&x, text, sizeof text - 1);
    assert_int_equal(xml_next(&x, &err), ERR_PROTOCOL);
}

int main(void)
{
    static const struct CMUnitTest own[] = {
        cmocka_unit_test(xml_limits_its_depth),
        cmocka_unit_test(xml_limits_a_text),
        cmocka_unit_test(xml_text_has_no_nul),
    };
    struct suite suite = {.n = 0};

    SUITE_ROWS(&suite, good, check_good);
    SUITE_ROWS(&suite, bad, check_bad);
    SUITE_TESTS(&suite, own);
    return suite_run(&suite, "xml", NULL, NULL);
}
