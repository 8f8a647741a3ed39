#include "cli/command.h"

#include <getopt.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct {
    const char *file;
    const char *nodes;
    bool follows;
    bool is_serial;
    int n_cuts;
    const char *cuts[COMMAND_REPEATS_MAX];
} got;

static bool read_options(int argc, const char *const *argv)
{
    const struct command_option options[] = {
        {"file", 'f', .value = &got.file},
        {"nodes", .value = &got.nodes},
        {"follow", 'w', .is_set = &got.follows},
        {"serial", .is_set = &got.is_serial},
        {"cut", .value = got.cuts, .n = &got.n_cuts},
        {.name = NULL},
    };
    char *copy[2 * COMMAND_REPEATS_MAX + 4];

    memset(&got, 0, sizeof got);
    for (int i = 0; i <= argc; i++)
        copy[i] = (char *)(uintptr_t)argv[i];
    optind = 0; /* start anew */
    opterr = 0;
    return command_options(argc, copy, options);
}

static void command_options_may_be_short_or_long(void **state)
{
    const char *const all[] = {"plan", "-f", "a", "--nodes=b", "-w", "--serial", "name", NULL};
    const char *const none[] = {"plan", "name", NULL};

    (void)state;
    assert_true(read_options(7, all));
    assert_string_equal(got.file, "a");
    assert_string_equal(got.nodes, "b");
    assert_true(got.follows && got.is_serial);
    assert_int_equal(optind, 6);
    assert_true(read_options(2, none));
    assert_null(got.file);
    assert_false(got.follows || got.is_serial);
    assert_int_equal(optind, 1);
}

static void command_options_that_are_unknown_or_lack_a_value_are_refused(void **state)
{
    const char *const unknown[] = {"plan", "--colour", NULL};
    const char *const letter[] = {"plan", "-n", "x", NULL};
    const char *const empty[] = {"plan", "-f", NULL};

    (void)state;
    assert_false(read_options(2, unknown));
    assert_false(read_options(3, letter));
    assert_false(read_options(2, empty));
}

static void command_options_may_be_repeated_where_that_has_a_meaning(void **state)
{
    const char *many[2 * COMMAND_REPEATS_MAX + 4] = {"run"};
    int n = 1;

    (void)state;
    for (int i = 0; i < COMMAND_REPEATS_MAX; i++) {
        many[n++] = "--cut";
        many[n++] = i == 1 ? "second" : "other";
    }
    assert_true(read_options(n, many));
    assert_int_equal(got.n_cuts, COMMAND_REPEATS_MAX);
    assert_string_equal(got.cuts[1], "second");
    many[n++] = "--cut=more";
    assert_false(read_options(n, many));
}

static void command_counts_are_whole_numbers_within_their_bounds(void **state)
{
    static const char *const bad[] = {"", "0", "11", "2.5", "3x", "nan", "-1"};
    struct err err = {0};
    int n = 7;

    (void)state;
    assert_int_equal(command_count("runs", NULL, 1, 10, &n, &err), ERR_OK);
    assert_int_equal(n, 7);
    assert_int_equal(command_count("runs", "10", 1, 10, &n, &err), ERR_OK);
    assert_int_equal(n, 10);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(command_count("runs", bad[i], 1, 10, &n, &err), ERR_INVALID);
    assert_int_equal(n, 10);
    assert_string_equal(err.text, "--runs: must be a number from 1 to 10, not \"-1\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(command_options_may_be_short_or_long),
        cmocka_unit_test(command_options_may_be_repeated_where_that_has_a_meaning),
        cmocka_unit_test(command_counts_are_whole_numbers_within_their_bounds),
        cmocka_unit_test(command_options_that_are_unknown_or_lack_a_value_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
