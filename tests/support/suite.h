/* A group of tests of which many are rows of a table: each row is a test with a name of its own.
 *
 *     struct suite suite = {.n = 0};
 *
 *     SUITE_TESTS(&suite, own);             an array of struct CMUnitTest
 *     SUITE_ROWS(&suite, rows, check_row);  rows have a member `name`; *state is the row
 *     return suite_run(&suite, "name", set_up, tear_down);
 */
#ifndef SUITE_H
#define SUITE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SUITE_MAX 300

struct suite {
    size_t n;
    struct CMUnitTest tests[SUITE_MAX];
};

static inline void suite_add(struct suite *s, struct CMUnitTest test)
{
    if (s->n == SUITE_MAX)
        fail_msg("more than %d tests", SUITE_MAX);
    s->tests[s->n++] = test;
}

#define SUITE_TESTS(suite, list)                                                                   \
    for (size_t suite_i = 0; suite_i < sizeof(list) / sizeof *(list); suite_i++)                   \
    suite_add(suite, (list)[suite_i])

#define SUITE_ROWS(suite, rows, check)                                                             \
    for (size_t suite_i = 0; suite_i < sizeof(rows) / sizeof *(rows); suite_i++)                   \
    suite_add(suite, (struct CMUnitTest){(rows)[suite_i].name, check, NULL, NULL, &(rows)[suite_i]})

static inline int suite_run(const struct suite *s, const char *name, CMFixtureFunction set_up,
                            CMFixtureFunction tear_down)
{
    return _cmocka_run_group_tests(name, s->tests, s->n, set_up, tear_down);
}

#endif
