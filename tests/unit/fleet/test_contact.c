#include "fleet/fleet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define MAX_MS (4 * CONTACT_RETRY_MS)

static void answer(struct contact *c, enum err_code code, bool was_table, int64_t now_ms)
{
    struct err err = {.code = code, .text = "why"};

    c->is_busy = true;
    contact_answered(c, &err, was_table, now_ms, MAX_MS);
    assert_false(c->is_busy);
}

static void contact_pauses_longer_after_each_call_without_an_answer(void **state)
{
    static const enum err_code codes[] = {ERR_IO, ERR_TIMEOUT, ERR_PROTOCOL, ERR_LIMIT};
    static const int64_t want_ms[] = {CONTACT_RETRY_MS, 2 * CONTACT_RETRY_MS, MAX_MS, MAX_MS};
    struct contact c = {0};

    (void)state;
    assert_int_equal(contact_wait_ms(&c, 1000), 0);
    for (int i = 0; i < 4; i++) {
        answer(&c, codes[i], i % 2, 1000 + i);
        assert_int_equal(contact_wait_ms(&c, 1000 + i), want_ms[i]);
        assert_int_equal(contact_wait_ms(&c, 1000 + i + want_ms[i]), 0);
        assert_int_equal(c.silent_since_ms, 1000); /* of the first of them */
    }
    answer(&c, ERR_OK, false, 5000);
    assert_int_equal(contact_wait_ms(&c, 5000), 0);
    assert_int_equal(c.silent_since_ms, 0);
    assert_int_equal(c.n_unanswered, 0);
    assert_false(c.has_table); /* it was only asked */
}

static void contact_of_a_refusal_keeps_its_reason_and_pauses(void **state)
{
    static const enum err_code codes[] = {ERR_CONFLICT, ERR_INVALID, ERR_DENIED};

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct contact c = {.n_unanswered = 3, .silent_since_ms = 7};

        answer(&c, codes[i], true, 1000);
        assert_true(c.is_refused);
        assert_false(c.has_table);
        assert_string_equal(c.refusal, "why");
        assert_int_equal(c.silent_since_ms, 0);
        assert_int_equal(contact_wait_ms(&c, 1000), CONTACT_REFUSED_MS);
        answer(&c, ERR_OK, true, 9000);
        assert_false(c.is_refused);
        assert_true(c.has_table);
    }
}

static void contact_keeps_its_table_whatever_questions_are_answered(void **state)
{
    struct contact c = {0};

    (void)state;
    answer(&c, ERR_OK, true, 1000);
    answer(&c, ERR_TIMEOUT, false, 2000);
    answer(&c, ERR_DENIED, false, 3000);
    assert_true(c.has_table);
    assert_false(c.is_refused);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contact_pauses_longer_after_each_call_without_an_answer),
        cmocka_unit_test(contact_of_a_refusal_keeps_its_reason_and_pauses),
        cmocka_unit_test(contact_keeps_its_table_whatever_questions_are_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
