#include "cli/records.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct records r;

static int clean(void **state)
{
    (void)state;
    records_deinit(&r);
    return 0;
}

static void read_text(const char *text)
{
    assert_int_equal(records_read(&r, text, strlen(text), NULL), ERR_OK);
}

static void records_are_steps_and_evaluations(void **state)
{
    (void)state;
    read_text("{\"step\":10,\"seconds\":3.2,\"loss\":0.6931,\"tokensPerSecond\":5321,"
              "\"stepMilliseconds\":48.1}\n"
              "{\"step\":10,\"seconds\":4.0,\"metrics\":{\"accuracy\":0.81,\"evalLoss\":0.52}}\n"
              "{\"step\":20,\"seconds\":6,\"metrics\":{\"accuracy\":0.9}}\n");
    assert_int_equal(r.n_steps, 1);
    assert_int_equal(r.steps[0].step, 10);
    assert_true(r.steps[0].loss == 0.6931 && r.steps[0].tokens_per_second == 5321 &&
                r.steps[0].step_ms == 48.1 && r.steps[0].seconds == 3.2);
    assert_int_equal(r.n_metrics, 2);
    assert_string_equal(r.metrics[1], "evalLoss");
    assert_int_equal(r.n_values, 3);
    assert_int_equal(r.values[2].step, 20);
    assert_int_equal(r.values[2].metric, 0);
    assert_true(r.values[2].value == 0.9);
    assert_int_equal(r.n_skipped, 0);
}

static void records_of_numbers_that_were_not_finite_are_nan(void **state)
{
    (void)state;
    read_text("{\"step\":1,\"loss\":null,\"tokensPerSecond\":1}\n"
              "{\"step\":1,\"metrics\":{\"accuracy\":null}}");
    assert_true(isnan(r.steps[0].loss) && isnan(r.steps[0].step_ms));
    assert_true(isnan(r.values[0].value));
}

static void records_skip_and_count_other_lines(void **state)
{
    (void)state;
    read_text("\n\nno JSON\n[]\n{}\n{\"step\":-1,\"loss\":1}\n{\"step\":1}\n"
              "{\"step\":2,\"loss\":1}\n{\"step\":3,\"lo");
    assert_int_equal(r.n_steps, 1);
    assert_int_equal(r.n_skipped, 6);
}

static void records_leave_out_metrics_beyond_the_limit(void **state)
{
    (void)state;
    for (int i = 0; i < PROGRESS_METRICS_MAX + 3; i++) {
        char line[80];

        (void)snprintf(line, sizeof line, "{\"step\":%d,\"metrics\":{\"m%d\":1}}\n", i, i);
        read_text(line);
    }
    read_text("{\"step\":1,\"metrics\":{\"a name of more than thirty-one bytes\":1}}\n");
    assert_int_equal(r.n_metrics, PROGRESS_METRICS_MAX);
    assert_int_equal(r.n_values, PROGRESS_METRICS_MAX);
}

static void records_of_a_log_are_its_evaluations(void **state)
{
    static const char log[] =
        "panic: not JSON\n"
        "{\"level\":\"info\",\"msg\":\"stage ready\",\"stage\":0}\n"
        "{\"msg\":\"evaluated\",\"step\":60,\"metric\":\"accuracy\",\"value\":0.5}\n"
        "{\"msg\":\"evaluated\",\"step\":60,\"metric\":\"evalLoss\",\"value\":null}\n"
        "{\"msg\":\"evaluated\"}\n";

    (void)state;
    assert_int_equal(records_read_log(&r, log, strlen(log), NULL), ERR_OK);
    assert_int_equal(r.n_values, 2);
    assert_int_equal(r.values[0].step, 60);
    assert_string_equal(r.metrics[r.values[1].metric], "evalLoss");
    assert_true(isnan(r.values[1].value));
    assert_int_equal(r.n_skipped, 0);
}

#define TEST(name) cmocka_unit_test_teardown(name, clean)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(records_are_steps_and_evaluations),
        TEST(records_of_numbers_that_were_not_finite_are_nan),
        TEST(records_skip_and_count_other_lines),
        TEST(records_leave_out_metrics_beyond_the_limit),
        TEST(records_of_a_log_are_its_evaluations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
