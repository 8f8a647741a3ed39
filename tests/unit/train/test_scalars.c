#include "train/scalars.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>

#include <cmocka.h>

#include "event.h"

static struct buf file = {.max = 1 << 20};

static int clean(void **state)
{
    (void)state;
    buf_deinit(&file);
    file.max = 1 << 20;
    return 0;
}

static void scalars_are_read_back(void **state)
{
    const struct scalar values[] = {{"train/loss", 0.5}, {"tokensPerSecond", 5321}};
    struct event e;
    size_t place = 0;

    (void)state;
    assert_int_equal(scalars_begin(&file, 1.5, NULL), ERR_OK);
    assert_int_equal(scalars_add(&file, 2.25, 300, values, 2, NULL), ERR_OK);
    assert_int_equal(scalars_add(&file, 3, INT64_MAX, values, 1, NULL), ERR_OK);
    assert_true(event_next(&file, &place, &e));
    assert_string_equal(e.version, "brain.Event:2");
    assert_true(e.wall_seconds == 1.5 && e.n_values == 0);
    assert_true(event_next(&file, &place, &e));
    assert_true(e.wall_seconds == 2.25 && e.step == 300);
    assert_int_equal(e.n_values, 2);
    assert_string_equal(e.values[0].tag, "train/loss");
    assert_true(e.values[0].value == 0.5F && e.values[1].value == 5321);
    assert_true(event_next(&file, &place, &e));
    assert_true(e.step == INT64_MAX);
    assert_false(event_next(&file, &place, &e));
}

/* As every event file that TensorFlow writes: the first event has 24 bytes. */
static void scalars_have_the_length_and_its_checksum_in_front(void **state)
{
    (void)state;
    assert_int_equal(scalars_begin(&file, 0, NULL), ERR_OK);
    assert_int_equal(file.len, 12 + 9 + 15 + 4);
    assert_memory_equal(buf_text(&file), "\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22", 12);
}

static void scalars_of_the_greatest_step_have_room(void **state)
{
    char tag[200];
    struct scalar values[SCALARS_MAX];
    struct event e;
    size_t place = 0;

    (void)state;
    memset(tag, 'x', sizeof tag - 1);
    tag[sizeof tag - 1] = '\0';
    for (int i = 0; i < SCALARS_MAX; i++)
        values[i] = (struct scalar){tag, i % 2 ? (double)NAN : DBL_MAX};
    assert_int_equal(scalars_add(&file, 1e300, -1, values, SCALARS_MAX, NULL), ERR_OK);
    assert_true(event_next(&file, &place, &e));
    assert_int_equal(e.n_values, SCALARS_MAX);
    assert_int_equal(e.step, -1);
    assert_int_equal(strlen(e.values[0].tag), SCALARS_TAG_BYTES - 1);
    assert_true(isinf(e.values[0].value) && isnan(e.values[1].value));
}

static void scalars_beyond_the_limit_add_nothing(void **state)
{
    (void)state;
    file.max = 50;
    assert_int_equal(scalars_begin(&file, 0, NULL), ERR_OK);
    assert_int_equal(scalars_add(&file, 0, 1, NULL, 0, NULL), ERR_LIMIT);
    assert_int_equal(file.len, 40);
}

#define TEST(name) cmocka_unit_test_teardown(name, clean)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(scalars_are_read_back),
        TEST(scalars_have_the_length_and_its_checksum_in_front),
        TEST(scalars_of_the_greatest_step_have_room),
        TEST(scalars_beyond_the_limit_add_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
