#include "train/mailbox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const struct peers peers = {
    .attempt = 3,
    .n_stages = 2,
    .stages = {{.host = "127.0.0.1", .port = 1}, {.host = "127.0.0.2", .port = 2}}};

static void set_attempt(struct mailbox *b, int attempt)
{
    struct progress p = {.attempt = attempt, .eta_seconds = -1};

    mailbox_set_progress(b, &p);
}

static void mailbox_hands_out_the_peers_that_were_posted(void **state)
{
    struct peers got;
    struct mailbox b;

    (void)state;
    mailbox_init(&b);
    set_attempt(&b, 3);
    assert_int_equal(mailbox_post_peers(&b, &peers, 2, NULL), ERR_OK);
    assert_int_equal(mailbox_wait_peers(&b, 0, &got, NULL), ERR_OK);
    assert_string_equal(got.stages[1].host, "127.0.0.2");
    mailbox_deinit(&b);
}

static void mailbox_says_in_its_progress_that_it_has_peers(void **state)
{
    struct progress p;
    struct mailbox b;

    (void)state;
    mailbox_init(&b);
    set_attempt(&b, 3);
    mailbox_get_progress(&b, &p);
    assert_false(p.has_peers);
    assert_int_equal(mailbox_post_peers(&b, &peers, 2, NULL), ERR_OK);
    set_attempt(&b, 3);
    mailbox_get_progress(&b, &p);
    assert_true(p.has_peers);
    mailbox_deinit(&b);
}

static void mailbox_refuses_peers_of_another_attempt_or_size(void **state)
{
    struct err err;
    struct mailbox b;

    (void)state;
    mailbox_init(&b);
    set_attempt(&b, 4);
    assert_int_equal(mailbox_post_peers(&b, &peers, 2, &err), ERR_CONFLICT);
    assert_non_null(strstr(err.text, "attempt 3"));
    set_attempt(&b, 3);
    assert_int_equal(mailbox_post_peers(&b, &peers, 5, &err), ERR_CONFLICT);
    mailbox_deinit(&b);
}

static void mailbox_keeps_the_first_peers_and_refuses_different_ones(void **state)
{
    struct peers other = peers;
    struct peers got;
    struct mailbox b;

    (void)state;
    mailbox_init(&b);
    set_attempt(&b, 3);
    strcpy(other.stages[0].host, "10.0.0.1");
    assert_int_equal(mailbox_post_peers(&b, &peers, 2, NULL), ERR_OK);
    assert_int_equal(mailbox_post_peers(&b, &peers, 2, NULL), ERR_OK);
    assert_int_equal(mailbox_post_peers(&b, &other, 2, NULL), ERR_CONFLICT);
    other = peers;
    other.stages[1].port++;
    assert_int_equal(mailbox_post_peers(&b, &other, 2, NULL), ERR_CONFLICT);
    other = peers;
    strcpy(other.stages[1].node, "n2");
    assert_int_equal(mailbox_post_peers(&b, &other, 2, NULL), ERR_CONFLICT);
    assert_int_equal(mailbox_wait_peers(&b, 0, &got, NULL), ERR_OK);
    assert_string_equal(got.stages[0].host, "127.0.0.1");
    mailbox_deinit(&b);
}

static void mailbox_wait_ends_when_no_peers_come(void **state)
{
    struct peers got;
    struct mailbox b;

    (void)state;
    mailbox_init(&b);
    assert_int_equal(mailbox_wait_peers(&b, 20, &got, NULL), ERR_TIMEOUT);
    mailbox_deinit(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mailbox_hands_out_the_peers_that_were_posted),
        cmocka_unit_test(mailbox_says_in_its_progress_that_it_has_peers),
        cmocka_unit_test(mailbox_refuses_peers_of_another_attempt_or_size),
        cmocka_unit_test(mailbox_keeps_the_first_peers_and_refuses_different_ones),
        cmocka_unit_test(mailbox_wait_ends_when_no_peers_come),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
