/* How long sequences are, and when that is a guess. */
#include "api/node.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const struct node_lengths unknown = {.mean = 0};

static struct spec spec_of(enum spec_source source)
{
    struct spec s = {.training.max_length = 128, .data.source = source};

    strcpy(s.data.sample, source == SPEC_SOURCE_SAMPLE ? "MNLI" : "");
    return s;
}

static void lengths_are_what_was_measured(void **state)
{
    struct spec s = spec_of(SPEC_SOURCE_CLAIM);
    const struct node_lengths l = {.mean = 50, .mean_square = 3000};
    char text[LENGTHS_TEXT_BYTES];

    (void)state;
    assert_true(lengths_of(&s, &l).mean == 50 && lengths_of(&s, &l).mean_square == 3000);
    lengths_guess(&s, &l, text);
    assert_string_equal(text, "");
    s.training.max_length = 32; /* what is longer is cut off */
    assert_true(lengths_of(&s, &l).mean == 32 && lengths_of(&s, &l).mean_square == 32 * 32);
}

static void lengths_of_the_sample_are_no_guess(void **state)
{
    struct spec s = spec_of(SPEC_SOURCE_SAMPLE);
    char text[LENGTHS_TEXT_BYTES];

    (void)state;
    assert_true(lengths_of(&s, &unknown).mean == LENGTHS_SAMPLE);
    lengths_guess(&s, &unknown, text);
    assert_string_equal(text, "");
}

static void lengths_that_were_not_measured_are_called_a_guess(void **state)
{
    struct spec s = spec_of(SPEC_SOURCE_CLAIM);
    char text[LENGTHS_TEXT_BYTES];

    (void)state;
    lengths_guess(&s, &unknown, text);
    assert_string_equal(text, "sequences are assumed to have 39 tokens, since the data have not "
                              "been read");
    s.training.max_length = 16;
    lengths_guess(&s, &unknown, text);
    assert_non_null(strstr(text, "to have 16 tokens"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths_are_what_was_measured),
        cmocka_unit_test(lengths_of_the_sample_are_no_guess),
        cmocka_unit_test(lengths_that_were_not_measured_are_called_a_guess),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
