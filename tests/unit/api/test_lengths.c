/* How long sequences are, and when that is a guess. */
#include "api/lengths.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct spec spec_of(enum spec_source source, double mean, double mean_square)
{
    struct spec s = {.training.max_length = 128, .data.source = source};

    s.data.lengths = (struct spec_lengths){.mean = mean, .mean_square = mean_square};
    strcpy(s.data.sample, source == SPEC_SOURCE_SAMPLE ? "MNLI" : "");
    return s;
}

static void lengths_are_what_was_measured(void **state)
{
    struct spec s = spec_of(SPEC_SOURCE_CLAIM, 50, 3000);
    char text[LENGTHS_TEXT_BYTES];

    (void)state;
    assert_true(lengths_of(&s).mean == 50 && lengths_of(&s).mean_square == 3000);
    lengths_guess(&s, text);
    assert_string_equal(text, "");
    s.training.max_length = 32; /* what is longer is cut off */
    assert_true(lengths_of(&s).mean == 32 && lengths_of(&s).mean_square == 32 * 32);
}

static void lengths_of_the_sample_are_no_guess(void **state)
{
    struct spec s = spec_of(SPEC_SOURCE_SAMPLE, 0, 0);
    char text[LENGTHS_TEXT_BYTES];

    (void)state;
    assert_true(lengths_of(&s).mean == LENGTHS_SAMPLE);
    lengths_guess(&s, text);
    assert_string_equal(text, "");
}

static void lengths_that_nobody_measured_are_told_to_be_a_guess(void **state)
{
    struct spec s = spec_of(SPEC_SOURCE_CLAIM, 0, 0);
    char text[LENGTHS_TEXT_BYTES];

    (void)state;
    lengths_guess(&s, text);
    assert_string_equal(text, "sequences are taken to have 39 tokens, as is usual, since nobody "
                              "has read the data");
    s.training.max_length = 16;
    lengths_guess(&s, text);
    assert_non_null(strstr(text, "to have 16 tokens"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths_are_what_was_measured),
        cmocka_unit_test(lengths_of_the_sample_are_no_guess),
        cmocka_unit_test(lengths_that_nobody_measured_are_told_to_be_a_guess),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
