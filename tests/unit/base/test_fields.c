#include "base/fields.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "suite.h"

enum colour { RED, GREEN };

struct point {
    char name[8];
    int x;
};

struct sample {
    int count;
    int64_t large;
    double real;
    double share;
    bool flag;
    int answer;
    char text[6];
    char word[8];
    enum colour colour;
    int64_t time_ms;
    struct point at;
    int n_points;
    struct point points[3];
    int n_reals;
    double reals[2];
    int depth;
    uint64_t any;
};

static const char *const colours[] = {"Red", "Green", NULL};

static const struct field point_fields[] = {
    {"name", FIELD_TEXT, FIELD_AT(struct point, name), .min = 1,
     .flags = FIELD_REQUIRED | FIELD_UNIQUE | FIELD_LINE},
    {"x", FIELD_INT, FIELD_AT(struct point, x), .max = 9, .fallback = "7"},
    {0}};
static const struct field real_fields[] = {
    {"", FIELD_DOUBLE, FIELD_ENTRY(double), .max = 1, .flags = FIELD_NULL}, {0}};

#define AT(member) FIELD_AT(struct sample, member)
static const struct field fields[] = {
    {"count", FIELD_INT, AT(count), .min = 1, .max = 10, .flags = FIELD_REQUIRED},
    {"large", FIELD_INT64, AT(large), .flags = FIELD_NULL},
    {"real", FIELD_DOUBLE, AT(real), .max = 5, .fallback = "nan",
     .flags = FIELD_ABOVE | FIELD_NULL},
    {"share", FIELD_DECIMAL, AT(share), .max = 1, .fallback = "0.5", .flags = FIELD_SHORT},
    {"flag", FIELD_BOOL, AT(flag), .fallback = "true"},
    {"answer", FIELD_ANSWER, AT(answer)},
    {"text", FIELD_TEXT, AT(text), .flags = FIELD_OMIT},
    {"word", FIELD_WORD, AT(word), .fallback = "Red", .words = colours},
    {"colour", FIELD_ENUM, AT(colour), .fallback = "Green", .words = colours},
    {"time", FIELD_TIME, AT(time_ms), .flags = FIELD_NULL},
    {"at", FIELD_OBJECT, AT(at), .fields = point_fields, .flags = FIELD_OMIT},
    {"points", FIELD_LIST, FIELD_ITEMS(struct sample, points, n_points), .fields = point_fields,
     .min = 1},
    {"reals", FIELD_LIST, FIELD_ITEMS(struct sample, reals, n_reals), .fields = real_fields},
    {"inner.depth", FIELD_INT, AT(depth), .fallback = "3"},
    {"any", FIELD_HASH, AT(any)},
    {0}};

/* As they are written: without what is only read. */
static const struct field written[] = {
    {"count", FIELD_INT, AT(count)},
    {"large", FIELD_INT64, AT(large), .flags = FIELD_NULL},
    {"real", FIELD_DOUBLE, AT(real), .fallback = "nan", .flags = FIELD_NULL},
    {"share", FIELD_DECIMAL, AT(share), .flags = FIELD_SHORT},
    {"answer", FIELD_ANSWER, AT(answer)},
    {"text", FIELD_TEXT, AT(text), .flags = FIELD_OMIT},
    {"colour", FIELD_ENUM, AT(colour), .words = colours},
    {"time", FIELD_TIME, AT(time_ms), .flags = FIELD_NULL},
    {"at", FIELD_OBJECT, AT(at), .fields = point_fields, .flags = FIELD_OMIT},
    {"points", FIELD_LIST, FIELD_ITEMS(struct sample, points, n_points), .fields = point_fields},
    {"reals", FIELD_LIST, FIELD_ITEMS(struct sample, reals, n_reals), .fields = real_fields},
    {0}};

static enum err_code read_text(const char *text, enum fields_mode mode, struct sample *out,
                               struct err *err)
{
    struct json *root = NULL;
    enum err_code rc;

    *out = (struct sample){0};
    assert_int_equal(json_parse(text, strlen(text), &root, NULL), ERR_OK);
    rc = fields_read(fields, root, mode, "doc", out, err);
    json_free(root);
    return rc;
}

static void fields_fill_in_what_is_missing(void **state)
{
    struct sample s;

    (void)state;
    assert_int_equal(read_text("{\"count\": 2, \"large\": null}", FIELDS_STRICT, &s, NULL), ERR_OK);
    assert_int_equal(s.count, 2);
    assert_true(s.large == 0 && isnan(s.real) && s.share == 0.5 && s.flag && s.answer == 0);
    assert_string_equal(s.word, "Red");
    assert_int_equal(s.colour, GREEN);
    assert_int_equal(s.n_points, 0);
    assert_int_equal(s.depth, 3);
}

static void fields_read_every_kind(void **state)
{
    static const char text[] =
        "{\"count\": 10, \"large\": 9007199254740991, \"real\": 0.5, \"share\": \"2e-1\", "
        "\"flag\": false, \"answer\": false, \"text\": \"abcde\", \"word\": \"Green\", "
        "\"colour\": \"Red\", \"time\": \"1970-01-01T00:00:02Z\", \"at\": {\"name\": \"a\"}, "
        "\"points\": [{\"name\": \"b\", \"x\": 0}, {\"name\": \"c\", \"x\": 9}], "
        "\"reals\": [0.25, 1], \"inner\": {\"depth\": 8}}";
    struct sample s;

    (void)state;
    assert_int_equal(read_text(text, FIELDS_CLOSED, &s, NULL), ERR_OK);
    assert_int_equal(s.count, 10);
    assert_true(s.large == INT64_C(9007199254740991) && s.real == 0.5 && s.share == 0.2);
    assert_true(!s.flag && s.answer == 2 && s.colour == RED && s.time_ms == 2000);
    assert_string_equal(s.text, "abcde");
    assert_string_equal(s.word, "Green");
    assert_string_equal(s.at.name, "a");
    assert_int_equal(s.at.x, 7);
    assert_int_equal(s.n_points, 2);
    assert_string_equal(s.points[1].name, "c");
    assert_int_equal(s.points[1].x, 9);
    assert_int_equal(s.n_reals, 2);
    assert_true(s.reals[0] == 0.25 && s.reals[1] == 1);
    assert_int_equal(s.depth, 8);
}

static void fields_read_a_hash_that_differs_with_the_value(void **state)
{
    static const char *const values[] = {"1", "\"1\"", "{}", "[]", "{\"a\":1}", "{\"a\":2}"};
    enum { N = sizeof values / sizeof values[0] };
    struct sample s[N], again;
    char text[64];

    (void)state;
    for (int i = 0; i < N; i++) {
        (void)snprintf(text, sizeof text, "{\"count\": 1, \"any\":  %s }", values[i]);
        assert_int_equal(read_text(text, FIELDS_CLOSED, &s[i], NULL), ERR_OK);
        assert_int_equal(read_text(text, FIELDS_CLOSED, &again, NULL), ERR_OK);
        assert_true(s[i].any != 0 && s[i].any == again.any);
        for (int k = 0; k < i; k++)
            assert_true(s[i].any != s[k].any);
    }
    assert_int_equal(read_text("{\"count\": 1}", FIELDS_CLOSED, &again, NULL), ERR_OK);
    assert_true(again.any == 0);
}

struct refused {
    const char *name, *text, *says;
};

static struct refused refused[] = {
    {"fields_must_be_in_an_object", "[]", "doc: must be an object, found a list"},
    {"fields_that_are_required_must_be_there", "{}", "doc.count: missing"},
    {"fields_that_are_null_are_missing", "{\"count\": null}", "doc.count: missing"},
    {"fields_keep_whole_numbers_whole", "{\"count\": 1.5}",
     "doc.count: must be a whole number in 1..10, found a number"},
    {"fields_keep_numbers_in_bounds", "{\"count\": 11}", "doc.count: 11 is not in 1..10"},
    {"fields_keep_ints_in_bounds", "{\"count\": 1, \"inner\": {\"depth\": 1e10}}",
     "doc.inner.depth: 10000000000 is not in -2147483647..2147483647"},
    {"fields_know_bounds_that_are_excluded", "{\"count\": 1, \"real\": 0}",
     "doc.real: must be above 0"},
    {"fields_take_no_number_for_a_decimal", "{\"count\": 1, \"share\": 0.5}",
     "doc.share: must be a string that holds a decimal number, such as \"2e-5\", found a number"},
    {"fields_take_no_word_for_a_decimal", "{\"count\": 1, \"share\": \"inf\"}",
     "doc.share: \"inf\" is not a decimal number"},
    {"fields_keep_decimals_in_bounds", "{\"count\": 1, \"share\": \"1.5\"}",
     "doc.share: 1.5 is not in 0..1"},
    {"fields_refuse_long_texts", "{\"count\": 1, \"text\": \"abcdef\"}",
     "doc.text: must be a string of 0..5 bytes, found one of 6"},
    {"fields_refuse_a_text_of_another_kind", "{\"count\": 1, \"text\": []}",
     "doc.text: must be a string of 0..5 bytes, found a list"},
    {"fields_refuse_unknown_words", "{\"count\": 1, \"colour\": \"Blue\"}",
     "doc.colour: \"Blue\" is not one of Red, Green"},
    {"fields_refuse_what_is_no_time", "{\"count\": 1, \"time\": \"noon\"}",
     "doc.time: \"noon\" is not a time such as"},
    {"fields_name_the_members_of_objects", "{\"count\": 1, \"at\": {\"name\": \"\"}}",
     "doc.at.name: must be a string of 1..7 bytes, found one of 0"},
    {"fields_name_the_entries_of_lists", "{\"count\": 1, \"points\": [{\"name\": \"a\"}, {}]}",
     "doc.points[1].name: missing"},
    {"fields_count_the_entries_of_lists", "{\"count\": 1, \"points\": []}",
     "doc.points: must have 1..3 entries, found 0"},
    {"fields_have_room_for_so_many_entries", "{\"count\": 1, \"reals\": [1, 1, 1]}",
     "doc.reals: must have 0..2 entries, found 3"},
    {"fields_refuse_a_list_of_another_kind", "{\"count\": 1, \"points\": {}}",
     "doc.points: must be a list of objects, found an object"},
    {"fields_refuse_entries_of_another_kind", "{\"count\": 1, \"reals\": [0, \"1\"]}",
     "doc.reals[1]: must be a number in 0..1, found a string"},
    {"fields_refuse_texts_that_are_there_twice",
     "{\"count\": 1, \"points\": [{\"name\": \"a\"}, {\"name\": \"a\"}]}",
     "doc.points[1].name: \"a\" is given twice"},
    {"fields_refuse_unknown_members", "{\"count\": 1, \"inner\": {\"width\": 1}}",
     "doc.inner.width: there is no such field"},
    {"fields_refuse_a_key_with_a_dot", "{\"count\": 1, \"inner.depth\": 1}",
     "doc.inner.depth: there is no such field"},
    {"fields_refuse_unknown_members_of_entries", "{\"count\": 1, \"points\": [{\"y\": 1}]}",
     "doc.points[0].y: there is no such field"},
    {"fields_refuse_a_value_where_an_object_must_be", "{\"count\": 1, \"inner\": 3}",
     "doc.inner: must be an object, found a number"},
};

static void check_refused(void **state)
{
    const struct refused *r = *state;
    struct sample s;
    struct err err = {0};

    assert_int_equal(read_text(r->text, FIELDS_CLOSED, &s, &err), ERR_INVALID);
    if (strncmp(err.text, r->says, strlen(r->says)) != 0)
        fail_msg("said \"%s\"", err.text);
}

static void fields_read_tolerantly_take_what_they_can(void **state)
{
    static const char text[] =
        "{\"count\": 3, \"large\": \"1\", \"real\": 9, \"share\": \"x\", \"flag\": 1, "
        "\"text\": \"abcdefgh\", \"word\": \"Blue\", \"time\": 5, \"at\": {\"x\": 2}, "
        "\"points\": [{\"name\": \"a\", \"x\": 99}, {\"x\": 1}, 4, {\"name\": \"a\"}, "
        "{\"name\": \"b\"}, {\"name\": \"c\"}, {\"name\": \"d\"}], "
        "\"reals\": [0.5, \"x\", 0.75], \"more\": 1}";
    struct sample s;

    (void)state;
    assert_int_equal(read_text(text, FIELDS_TOLERANT, &s, NULL), ERR_OK);
    assert_true(s.count == 3 && s.large == 0 && isnan(s.real) && s.share == 0.5 && s.flag);
    assert_string_equal(s.text, "abcde");
    assert_string_equal(s.word, "Red");
    assert_true(s.time_ms == 0 && s.at.x == 0); /* without its name it does not count */
    assert_int_equal(s.n_points, 3);
    assert_int_equal(s.points[0].x, 7);
    assert_string_equal(s.points[1].name, "b");
    assert_string_equal(s.points[2].name, "c");
    assert_int_equal(s.n_reals, 2);
    assert_true(s.reals[0] == 0.5 && s.reals[1] == 0);
    assert_int_equal(read_text("{}", FIELDS_TOLERANT, &s, NULL), ERR_INVALID);
}

static void assert_prints(const struct sample *s, const char *text)
{
    struct buf out = {.max = 4096};

    assert_int_equal(fields_print(written, s, &out, NULL), ERR_OK);
    assert_string_equal(buf_text(&out), text);
    buf_deinit(&out);
}

static void fields_write_every_kind(void **state)
{
    struct sample s = {.count = 4,
                       .large = -1,
                       .real = 1.0 / 3,
                       .share = 2e-5,
                       .answer = 1,
                       .text = "a\tb",
                       .colour = GREEN,
                       .time_ms = 1000,
                       .at = {"p\nq", 2},
                       .n_points = 1,
                       .points = {{"r", 0}},
                       .n_reals = 2,
                       .reals = {0.5, NAN}};

    (void)state;
    assert_prints(&s, "{\"count\":4,\"large\":-1,\"real\":0.3333333333333333,\"share\":\"2e-05\","
                      "\"answer\":true,\"text\":\"a\\u0009b\",\"colour\":\"Green\","
                      "\"time\":\"1970-01-01T00:00:01Z\",\"at\":{\"name\":\"p q\",\"x\":2},"
                      "\"points\":[{\"name\":\"r\",\"x\":0}],\"reals\":[0.5,null]}");
}

static void fields_that_are_empty_are_null_or_left_out(void **state)
{
    struct sample s = {.real = INFINITY, .at.x = 7};

    (void)state;
    assert_prints(&s, "{\"count\":0,\"large\":null,\"real\":null,\"share\":\"0\","
                      "\"colour\":\"Red\",\"time\":null,\"points\":[],\"reals\":[]}");
}

struct lines {
    char two[20];
    char many[600];
};

static void fields_write_a_line_of_what_has_control_characters(void **state)
{
    static const struct field table[] = {
        {"two", FIELD_TEXT, FIELD_AT(struct lines, two), .flags = FIELD_LINE},
        {"many", FIELD_TEXT, FIELD_AT(struct lines, many), .flags = FIELD_LINE},
        {0}};
    struct lines lines = {.two = "two\nlines\t\"a\""};
    struct buf out = {.max = 700};
    const char *start = "{\"two\":\"two lines \\\"a\\\"\",\"many\":\"  ";

    (void)state;
    memset(lines.many, '\a', sizeof lines.many - 1);
    assert_int_equal(fields_print(table, &lines, &out, NULL), ERR_OK);
    assert_int_equal(strncmp(out.data, start, strlen(start)), 0);
    assert_int_equal(out.len, strlen(start) - 2 + 511 + 2); /* cut at 511 */
    buf_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest own[] = {
        cmocka_unit_test(fields_fill_in_what_is_missing),
        cmocka_unit_test(fields_read_every_kind),
        cmocka_unit_test(fields_read_a_hash_that_differs_with_the_value),
        cmocka_unit_test(fields_read_tolerantly_take_what_they_can),
        cmocka_unit_test(fields_write_every_kind),
        cmocka_unit_test(fields_that_are_empty_are_null_or_left_out),
        cmocka_unit_test(fields_write_a_line_of_what_has_control_characters),
    };
    struct suite suite = {.n = 0};

    SUITE_TESTS(&suite, own);
    SUITE_ROWS(&suite, refused, check_refused);
    return suite_run(&suite, "fields", NULL, NULL);
}
