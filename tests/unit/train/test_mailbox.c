#include "train/mailbox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* --- revisions --- */

static struct mailbox box;
static struct revision taken;
static struct peers addresses_taken;

static int set_up(void **state)
{
    struct report self = {.slot = 3, .incarnation = 2};

    (void)state;
    mailbox_init(&box);
    mailbox_set_report(&box, &self);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mailbox_deinit(&box);
    return 0;
}

static enum err_code post(int number)
{
    static struct revision r;
    struct peers addresses = {.revision = number, .n = 1, .list = {{"127.0.0.1", number, ""}}};

    r = (struct revision){.plan = {.uid = "6f1c",
                                   .revision = number,
                                   .n_workers = 1,
                                   .workers = {{.slot = 3, .incarnation = 2}}},
                          .hash = 7};
    return mailbox_post_revision(&box, &r, &addresses, NULL);
}

static void take(int number)
{
    assert_true(mailbox_wait_revision(&box, &taken, &addresses_taken));
    assert_int_equal(taken.plan.revision, number);
    assert_int_equal(addresses_taken.list[0].port, number);
}

static struct report report_now(void)
{
    struct report r;

    mailbox_get_report(&box, &r);
    return r;
}

static void end_session(enum report_session session)
{
    struct report r = {.slot = 3, .incarnation = 2, .session = session};

    mailbox_set_report(&box, &r);
}

static void mailbox_hands_out_the_newest_revision(void **state)
{
    (void)state;
    assert_int_equal(post(4), ERR_OK);
    assert_int_equal(post(6), ERR_OK);
    assert_int_equal(post(5), ERR_CONFLICT);
    take(6);
    assert_false(atomic_load(&box.stops));
    assert_int_equal(report_now().session, REPORT_RUNNING);
    assert_int_equal(report_now().revision, 6);
}

static void mailbox_stops_the_session_that_is_superseded(void **state)
{
    (void)state;
    assert_int_equal(post(4), ERR_OK);
    take(4);
    assert_int_equal(post(4), ERR_OK); /* again: nothing changes */
    assert_false(atomic_load(&box.stops));
    assert_int_equal(post(5), ERR_OK);
    assert_true(atomic_load(&box.stops));
    end_session(REPORT_HALTED);
    /* What it holds may change at once. */
    assert_int_equal(report_now().session, REPORT_RUNNING);
    take(5);
    assert_false(atomic_load(&box.stops));
}

/* The order may come before the revision that it ends. */
static void mailbox_halts_a_revision_whenever_it_comes(void **state)
{
    (void)state;
    assert_int_equal(mailbox_halt(&box, 4, NULL), ERR_OK);
    assert_int_equal(post(4), ERR_OK);
    take(4);
    assert_true(atomic_load(&box.stops));
    end_session(REPORT_HALTED);
    assert_int_equal(report_now().session, REPORT_HALTED);
    assert_int_equal(post(5), ERR_OK);
    take(5);
    assert_false(atomic_load(&box.stops));
    assert_int_equal(mailbox_halt(&box, 4, NULL), ERR_CONFLICT);
    assert_false(atomic_load(&box.stops));
}

static void mailbox_releases_a_worker_that_is_done(void **state)
{
    (void)state;
    assert_int_equal(post(4), ERR_OK);
    take(4);
    assert_int_equal(mailbox_halt(&box, 4, NULL), ERR_OK); /* too late to halt it ... */
    end_session(REPORT_DONE);
    assert_int_equal(box.halted, 0); /* ... and too early to release it */
    assert_int_equal(mailbox_halt(&box, 4, NULL), ERR_OK);
    assert_false(mailbox_wait_revision(&box, &taken, &addresses_taken));
}

static void mailbox_reports_that_its_process_is_to_end(void **state)
{
    atomic_bool is_leaving = false;

    (void)state;
    assert_false(report_now().is_leaving);
    box.is_leaving = &is_leaving;
    assert_false(report_now().is_leaving);
    is_leaving = true;
    assert_true(report_now().is_leaving);
    assert_false(report_now().has_saved);
    atomic_store(&box.has_saved, true);
    assert_true(report_now().has_saved);
}

static void mailbox_gives_a_worker_that_has_left_another_revision(void **state)
{
    (void)state;
    assert_int_equal(post(4), ERR_OK);
    take(4);
    end_session(REPORT_DONE);
    assert_int_equal(post(5), ERR_OK);
    take(5);
}

/* It was posted while the last session saved. */
static void mailbox_runs_no_revision_once_the_job_is_done(void **state)
{
    (void)state;
    assert_int_equal(post(4), ERR_OK);
    take(4);
    assert_int_equal(post(5), ERR_OK);
    mailbox_end_job(&box);
    end_session(REPORT_DONE);
    assert_int_equal(report_now().session, REPORT_DONE);
    assert_int_equal(report_now().revision, 5);
    assert_int_equal(post(6), ERR_OK);
    assert_int_equal(report_now().session, REPORT_DONE);
    assert_int_equal(mailbox_halt(&box, 6, NULL), ERR_OK);
    assert_false(mailbox_wait_revision(&box, &taken, &addresses_taken));
}

/* --- peer tables --- */

static const struct peers peers = {
    .n = 2, .list = {{.host = "127.0.0.1", .port = 1}, {.host = "127.0.0.2", .port = 2}}};

static void mailbox_hands_out_the_peers_that_were_posted(void **state)
{
    struct peers got;
    struct mailbox b;

    (void)state;
    mailbox_init(&b);
    assert_int_equal(mailbox_post_peers(&b, &peers, NULL), ERR_OK);
    assert_int_equal(mailbox_wait_peers(&b, 0, &got, NULL), ERR_OK);
    assert_string_equal(got.list[1].host, "127.0.0.2");
    mailbox_deinit(&b);
}

static void mailbox_says_in_its_progress_that_it_has_peers(void **state)
{
    struct progress p;
    struct mailbox b;

    (void)state;
    mailbox_init(&b);
    mailbox_get_progress(&b, &p);
    assert_false(p.has_peers);
    assert_int_equal(mailbox_post_peers(&b, &peers, NULL), ERR_OK);
    mailbox_get_progress(&b, &p);
    assert_true(p.has_peers);
    mailbox_deinit(&b);
}

static void mailbox_refuses_peers_of_a_revision(void **state)
{
    struct peers other = peers;
    struct err err;
    struct mailbox b;

    (void)state;
    mailbox_init(&b);
    other.revision = 3;
    assert_int_equal(mailbox_post_peers(&b, &other, &err), ERR_CONFLICT);
    assert_non_null(strstr(err.text, "revision 3"));
    mailbox_deinit(&b);
}

static void mailbox_keeps_the_first_peers_and_refuses_different_ones(void **state)
{
    struct peers other = peers;
    struct peers got;
    struct mailbox b;

    (void)state;
    mailbox_init(&b);
    strcpy(other.list[0].host, "10.0.0.1");
    assert_int_equal(mailbox_post_peers(&b, &peers, NULL), ERR_OK);
    assert_int_equal(mailbox_post_peers(&b, &peers, NULL), ERR_OK);
    assert_int_equal(mailbox_post_peers(&b, &other, NULL), ERR_CONFLICT);
    other = peers;
    other.list[1].port++;
    assert_int_equal(mailbox_post_peers(&b, &other, NULL), ERR_CONFLICT);
    other = peers;
    strcpy(other.list[1].node, "n2");
    assert_int_equal(mailbox_post_peers(&b, &other, NULL), ERR_CONFLICT);
    assert_int_equal(mailbox_wait_peers(&b, 0, &got, NULL), ERR_OK);
    assert_string_equal(got.list[0].host, "127.0.0.1");
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

static void mailbox_keeps_the_newest_order_for_a_checkpoint(void **state)
{
    (void)state;
    assert_int_equal(mailbox_ordered(&box), 0);
    mailbox_order_checkpoint(&box, 7);
    mailbox_order_checkpoint(&box, 5);
    mailbox_order_checkpoint(&box, 7);
    assert_int_equal(mailbox_ordered(&box), 7);
    mailbox_order_checkpoint(&box, 8);
    assert_int_equal(mailbox_ordered(&box), 8);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(mailbox_hands_out_the_newest_revision),
        TEST(mailbox_stops_the_session_that_is_superseded),
        TEST(mailbox_halts_a_revision_whenever_it_comes),
        TEST(mailbox_releases_a_worker_that_is_done),
        TEST(mailbox_reports_that_its_process_is_to_end),
        TEST(mailbox_gives_a_worker_that_has_left_another_revision),
        TEST(mailbox_keeps_the_newest_order_for_a_checkpoint),
        TEST(mailbox_runs_no_revision_once_the_job_is_done),
        cmocka_unit_test(mailbox_hands_out_the_peers_that_were_posted),
        cmocka_unit_test(mailbox_says_in_its_progress_that_it_has_peers),
        cmocka_unit_test(mailbox_refuses_peers_of_a_revision),
        cmocka_unit_test(mailbox_keeps_the_first_peers_and_refuses_different_ones),
        cmocka_unit_test(mailbox_wait_ends_when_no_peers_come),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
