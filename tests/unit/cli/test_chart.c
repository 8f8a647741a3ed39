#include "cli/chart.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wellformed.h"

#define MANY 100000

static struct chart_point points[MANY];
static struct buf out = {.max = 1 << 20};

static int clean(void **state)
{
    (void)state;
    buf_deinit(&out);
    out.max = 1 << 20;
    return 0;
}

/* The chart of `n` points with everything that a chart may have. */
static const char *draw(size_t n)
{
    const struct chart c = {.title = "loss",
                            .x_label = "step",
                            .y_label = "nats",
                            .points = points,
                            .n = n,
                            .has_dots = true,
                            .is_averaged = true};
    struct markup m;

    markup_init(&m, &out);
    chart_write(&c, &m);
    assert_int_equal(markup_finish(&m, NULL), ERR_OK);
    assert_wellformed(buf_text(&out));
    assert_null(strstr(buf_text(&out), "nan"));
    assert_null(strstr(buf_text(&out), "inf"));
    return buf_text(&out);
}

static int count(const char *text, const char *part)
{
    int n = 0;

    while ((text = strstr(text, part))) {
        text++;
        n++;
    }
    return n;
}

static void chart_without_points_says_so(void **state)
{
    (void)state;
    assert_non_null(strstr(draw(0), "no records"));
}

static void chart_of_one_point_has_a_dot_and_axes_around_it(void **state)
{
    const char *text;

    (void)state;
    points[0] = (struct chart_point){7, 0.5};
    text = draw(1);
    assert_int_equal(count(text, "<circle"), 1);
    assert_non_null(strstr(text, ">0.5<"));
    assert_non_null(strstr(text, ">7<"));
    assert_non_null(strstr(text, "<title>7: 0.5</title>"));
}

static void chart_does_not_cut_off_the_last_label(void **state)
{
    const char *text;

    (void)state;
    for (int i = 0; i <= 100; i++)
        points[i] = (struct chart_point){10000 * i, 1};
    text = draw(101);
    assert_non_null(strstr(text, "text-anchor=\"middle\">800000<"));
    assert_non_null(strstr(text, "text-anchor=\"end\">1000000<"));
}

static void chart_has_labels_and_round_ticks(void **state)
{
    const char *text;

    (void)state;
    for (int i = 0; i <= 100; i++)
        points[i] = (struct chart_point){10 * i, 1.02 - i / 100.0};
    text = draw(101);
    assert_non_null(strstr(text, ">step<"));
    assert_non_null(strstr(text, ">nats<"));
    assert_non_null(strstr(text, ">200<"));
    assert_non_null(strstr(text, ">1000<"));
    assert_non_null(strstr(text, ">0.2<"));
    assert_non_null(strstr(text, ">1.2<"));
    assert_non_null(strstr(text, ">0<"));
}

static void chart_of_many_points_is_small_and_keeps_the_outliers(void **state)
{
    const struct chart c = {
        .title = "t", .x_label = "x", .y_label = "y", .points = points, .n = MANY};
    struct markup m;

    (void)state;
    for (int i = 0; i < MANY; i++)
        points[i] = (struct chart_point){i, sin(i * 0.7)};
    points[54321].y = 10;
    markup_init(&m, &out);
    chart_write(&c, &m);
    assert_int_equal(markup_finish(&m, NULL), ERR_OK);
    assert_wellformed(buf_text(&out));
    assert_true(out.len < 40000);
    assert_non_null(strstr(buf_text(&out), " 34.0L")); /* the top of the frame */
}

static void chart_of_everything_at_once_is_bounded(void **state)
{
    (void)state;
    for (int i = 0; i < MANY; i++)
        points[i] = (struct chart_point){i, i % 3 == 0 ? (double)NAN : (double)(i % 7)};
    (void)draw(MANY);
    assert_true(out.len < 160000);
}

static void chart_counts_what_is_not_finite(void **state)
{
    (void)state;
    points[0] = (struct chart_point){0, 1};
    points[1] = (struct chart_point){1, NAN};
    points[2] = (struct chart_point){2, INFINITY};
    points[3] = (struct chart_point){3, 2};
    points[4] = (struct chart_point){4, 1e300};
    assert_non_null(strstr(draw(5), "3 of 5 values were not finite"));
    assert_int_equal(count(buf_text(&out), "<circle"), 2);
}

static void chart_of_nothing_but_nan_has_no_line(void **state)
{
    const char *text;

    (void)state;
    for (int i = 0; i < 9; i++)
        points[i] = (struct chart_point){i, NAN};
    text = draw(9);
    assert_non_null(strstr(text, "no records"));
    assert_non_null(strstr(text, "9 of 9 values"));
}

static void chart_survives_extreme_numbers(void **state)
{
    static const double extremes[] = {0, -0.0, 1e29, -1e29, 1e-300, 5e-324, 1e15, 1e15 + 1};

    (void)state;
    for (size_t a = 0; a < sizeof extremes / sizeof extremes[0]; a++)
        for (size_t b = 0; b < sizeof extremes / sizeof extremes[0]; b++) {
            points[0] = (struct chart_point){(double)a, extremes[a]};
            points[1] = (struct chart_point){(double)b, extremes[b]};
            buf_reset(&out);
            (void)draw(2);
            assert_true(out.len < 8000);
        }
}

#define TEST(name) cmocka_unit_test_teardown(name, clean)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(chart_without_points_says_so),
        TEST(chart_of_one_point_has_a_dot_and_axes_around_it),
        TEST(chart_does_not_cut_off_the_last_label),
        TEST(chart_has_labels_and_round_ticks),
        TEST(chart_of_many_points_is_small_and_keeps_the_outliers),
        TEST(chart_of_everything_at_once_is_bounded),
        TEST(chart_counts_what_is_not_finite),
        TEST(chart_of_nothing_but_nan_has_no_line),
        TEST(chart_survives_extreme_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
