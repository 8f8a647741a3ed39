#include "base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct row {
    const char *name;
    const char *text;
    const char *want; /* the value of member "a", or all elements with '|' behind each */
};

static struct row members[] = {
    {"jsonraw_finds_a_member_among_others", " { \"b\" : [1,2] , \"a\" : 7 , \"c\" : {} } ", "7"},
    {"jsonraw_finds_an_object_whole", "{\"a\":{\"a\":[{}]},\"b\":1}", "{\"a\":[{}]}"},
    {"jsonraw_does_not_look_into_values", "{\"b\":{\"a\":1},\"c\":[\"a\"]}", NULL},
    {"jsonraw_is_not_misled_by_brackets_in_strings", "{\"b\":\"}]\\\"{\",\"a\":\"x\\\\\"}",
     "\"x\\\\\""},
    {"jsonraw_takes_the_first_of_two_members", "{\"a\":1,\"a\":2}", "1"},
    {"jsonraw_finds_a_member_with_a_value_that_is_wrong_inside", "{\"a\":[\"\\u0000\",,nil]}",
     "[\"\\u0000\",,nil]"},
    {"jsonraw_finds_a_member_before_the_text_breaks", "{\"a\":1,\"b\":[", "1"},
    {"jsonraw_finds_no_member_that_is_cut_short", "{\"a\":[1,{\"x\":", NULL},
    {"jsonraw_finds_no_member_cut_in_its_string", "{\"a\":\"x\\", NULL},
    {"jsonraw_finds_no_member_without_a_value", "{\"a\":}", NULL},
    {"jsonraw_finds_no_member_of_an_array", "[\"a\",1]", NULL},
    {"jsonraw_finds_no_member_of_nothing", "", NULL},
    {"jsonraw_finds_no_member_of_an_empty_object", "{}", NULL},
};

static struct row elements[] = {
    {"jsonraw_walks_an_array", " [ 1 , {\"a\":[2]} ,\"]\",[] , null ] ",
     "1|{\"a\":[2]}|\"]\"|[]|null|"},
    {"jsonraw_walks_an_empty_array", "[ ]", ""},
    {"jsonraw_walks_no_object", "{\"a\":1}", ""},
    {"jsonraw_ends_where_an_array_breaks", "[1,{\"a\":2},[3", "1|{\"a\":2}|"},
    {"jsonraw_ends_at_a_missing_element", "[1,,2]", "1|"},
};

static struct jsonraw exact_copy(const char *text)
{
    size_t n = strlen(text);
    char *copy = malloc(n + 1); /* so that a sanitizer sees a read past the end */

    assert_non_null(copy);
    memcpy(copy, text, n);
    return (struct jsonraw){copy, n};
}

static void free_copy(struct jsonraw v)
{
    union {
        const char *from;
        void *to;
    } unconst = {.from = v.text};

    free(unconst.to);
}

static void check_member(void **state)
{
    const struct row *row = *state;
    struct jsonraw v = exact_copy(row->text);
    struct jsonraw found = {0};

    assert_true(jsonraw_member(v, "a", &found) == (row->want != NULL));
    if (row->want) {
        assert_int_equal(found.len, strlen(row->want));
        assert_memory_equal(found.text, row->want, found.len);
    }
    free_copy(v);
}

static void check_elements(void **state)
{
    const struct row *row = *state;
    struct jsonraw v = exact_copy(row->text);
    struct jsonraw found;
    size_t place = 0;
    char all[100] = "";

    while (jsonraw_next(v, &place, &found)) {
        strncat(all, found.text, found.len);
        strcat(all, "|");
    }
    assert_string_equal(all, row->want);
    free_copy(v);
}

#define N_MEMBERS  (sizeof members / sizeof *members)
#define N_ELEMENTS (sizeof elements / sizeof *elements)

int main(void)
{
    struct CMUnitTest tests[N_MEMBERS + N_ELEMENTS];

    for (size_t i = 0; i < N_MEMBERS; i++)
        tests[i] = (struct CMUnitTest){members[i].name, check_member, NULL, NULL, &members[i]};
    for (size_t i = 0; i < N_ELEMENTS; i++)
        tests[N_MEMBERS + i] =
            (struct CMUnitTest){elements[i].name, check_elements, NULL, NULL, &elements[i]};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
