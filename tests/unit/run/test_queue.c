#include "run/queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static char key[QUEUE_KEY_BYTES];
static int64_t wait_ms;

static void add(struct queue *q, const char *k, int64_t due_ms)
{
    assert_int_equal(queue_add(q, k, due_ms, NULL), ERR_OK);
}

static void queue_hands_out_what_has_been_due_longest(void **state)
{
    struct queue q = {0};

    (void)state;
    add(&q, "a", 30);
    add(&q, "b", 10);
    add(&q, "c", 20);
    assert_false(queue_take(&q, 9, key, &wait_ms));
    assert_int_equal(wait_ms, 1);
    assert_true(queue_take(&q, 100, key, &wait_ms));
    assert_string_equal(key, "b");
    assert_true(queue_take(&q, 100, key, &wait_ms));
    assert_string_equal(key, "c");
    assert_true(queue_take(&q, 100, key, &wait_ms));
    assert_string_equal(key, "a");
    assert_false(queue_take(&q, 100, key, &wait_ms));
    assert_int_equal(wait_ms, -1);
    queue_deinit(&q);
}

static void queue_moves_a_waiting_key_only_earlier(void **state)
{
    struct queue q = {0};

    (void)state;
    add(&q, "a", 50);
    add(&q, "a", 90);
    add(&q, "a", 20);
    add(&q, "a", 70);
    assert_int_equal(q.keys.n, 1);
    assert_false(queue_take(&q, 19, key, &wait_ms));
    assert_true(queue_take(&q, 20, key, &wait_ms));
    queue_done(&q, "a");
    assert_int_equal(q.keys.n, 0);
    queue_deinit(&q);
}

static void queue_never_hands_out_a_key_that_is_in_progress(void **state)
{
    struct queue q = {0};

    (void)state;
    add(&q, "a", 0);
    assert_true(queue_take(&q, 0, key, &wait_ms));
    add(&q, "a", 9);
    add(&q, "a", 5);
    add(&q, "a", 7);
    assert_false(queue_take(&q, 100, key, &wait_ms));
    queue_done(&q, "a");
    assert_false(queue_take(&q, 4, key, &wait_ms));
    assert_int_equal(wait_ms, 1);
    assert_true(queue_take(&q, 5, key, &wait_ms));
    queue_done(&q, "a");
    queue_done(&q, "a");
    queue_done(&q, "nobody");
    queue_deinit(&q);
}

static void queue_keeps_order_among_many(void **state)
{
    struct queue q = {0};
    uint64_t seed = 1;
    int n = 0;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        char name[32];

        seed = seed * UINT64_C(6364136223846793005) + 1;
        (void)snprintf(name, sizeof name, "ns/job-%d", (int)(seed >> 40) % 5000);
        add(&q, name, (int64_t)(seed >> 33) % 1000);
    }
    while (queue_take(&q, 500, key, &wait_ms)) {
        n++;
        queue_done(&q, key);
    }
    assert_true(n > 0 && wait_ms > 0);
    while (queue_take(&q, 1000, key, &wait_ms)) {
        n++;
        queue_done(&q, key);
    }
    assert_int_equal(q.keys.n, 0);
    assert_true(n <= 5000);
    queue_deinit(&q);
}

static void queue_knows_how_late_it_is(void **state)
{
    struct queue q = {0};

    (void)state;
    assert_int_equal(queue_late_ms(&q, 100), 0);
    add(&q, "a", 50);
    add(&q, "b", 70);
    assert_int_equal(queue_late_ms(&q, 40), 0);
    assert_int_equal(queue_late_ms(&q, 90), 40);
    assert_true(queue_take(&q, 90, key, &wait_ms));
    assert_int_equal(queue_late_ms(&q, 90), 20); /* what is in progress is not late */
    queue_deinit(&q);
}

static void queue_refuses_a_key_that_is_too_long(void **state)
{
    struct queue q = {0};
    char k[QUEUE_KEY_BYTES + 1];

    (void)state;
    memset(k, 'x', sizeof k);
    k[QUEUE_KEY_BYTES] = '\0';
    assert_int_equal(queue_add(&q, k, 0, NULL), ERR_INVALID);
    queue_deinit(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queue_hands_out_what_has_been_due_longest),
        cmocka_unit_test(queue_moves_a_waiting_key_only_earlier),
        cmocka_unit_test(queue_never_hands_out_a_key_that_is_in_progress),
        cmocka_unit_test(queue_keeps_order_among_many),
        cmocka_unit_test(queue_knows_how_late_it_is),
        cmocka_unit_test(queue_refuses_a_key_that_is_too_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
