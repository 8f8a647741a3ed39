#include "train/metrics.h"

#include "exposition.h"

static struct mailbox box;

static int set_up(void **state)
{
    (void)state;
    mailbox_init(&box);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mailbox_deinit(&box);
    return 0;
}

/* What the mailbox has is written as these lines, but for HELP, which is for people. */
static void check_samples(const char *want)
{
    struct buf text = {.max = METRICS_BYTES};
    char samples[4096] = "";
    struct err err = {0};
    struct metrics m;

    metrics_read(&box, &m);
    m.throttled_ns = 1250000000; /* whatever limits this test */
    if (metrics_write(&m, &text, &err) != ERR_OK)
        fail_msg("%s", err.text);
    for (const char *at = buf_text(&text); *at; at += strcspn(at, "\n") + 1)
        if (strncmp(at, "# HELP ", 7) != 0)
            text_add(samples, sizeof samples, "%.*s", (int)strcspn(at, "\n") + 1, at);
    assert_string_equal(samples, want);
    exposition_check(&text);
    buf_deinit(&text);
}

#define STATES(starting, training)                                                                 \
    "# TYPE skyjob_worker_state gauge\n"                                                           \
    "skyjob_worker_state{state=\"Starting\"} " starting "\n"                                       \
    "skyjob_worker_state{state=\"Waiting\"} 0\n"                                                   \
    "skyjob_worker_state{state=\"Training\"} " training "\n"                                       \
    "skyjob_worker_state{state=\"Evaluating\"} 0\n"                                                \
    "skyjob_worker_state{state=\"Saving\"} 0\n"                                                    \
    "skyjob_worker_state{state=\"Done\"} 0\n"                                                      \
    "skyjob_worker_state{state=\"Failed\"} 0\n"                                                    \
    "skyjob_worker_state{state=\"Halted\"} 0\n"
#define THROTTLED                                                                                  \
    "# TYPE skyjob_worker_cpu_throttled_seconds_total counter\n"                                   \
    "skyjob_worker_cpu_throttled_seconds_total 1.25\n"

static void metrics_have_all_figures_of_a_worker_that_trains(void **state)
{
    struct progress p = {.state = PROGRESS_TRAINING,
                         .revision = 3,
                         .sync = {.protocol = "ASP", .staleness = 1.5, .staleness_max = 4}};

    (void)state;
    mailbox_set_progress(&box, &p);
    box.tally.n_steps = 700;
    box.tally.n_tokens = 5000000001;
    box.tally.ns[TALLY_FORWARD] = 1500000000;
    box.tally.ns[TALLY_BACKWARD] = 3000000001;
    box.tally.ns[TALLY_UPDATE] = 10000000;
    box.tally.ns[TALLY_WAITING] = 250000000;
    box.tally.ns[TALLY_EXCHANGE] = 500000000;
    box.tally.ns[TALLY_OTHER] = 2000000000;
    box.tally.saved_ms = 1764328983250;
    box.tally.peers[0].is_there = box.tally.peers[999].is_there = true;
    box.tally.peers[0].traffic.sent_bytes = 5000000000;
    box.tally.peers[0].traffic.unacknowledged_bytes = 1048640;
    box.tally.peers[999].traffic.received_bytes = 64;
    box.tally.peers[5].traffic.sent_bytes = 1; /* of a session before */
    check_samples(STATES("0", "1") "# TYPE skyjob_worker_revision gauge\n"
                                   "skyjob_worker_revision 3\n"
                                   "# TYPE skyjob_worker_steps_total counter\n"
                                   "skyjob_worker_steps_total 700\n"
                                   "# TYPE skyjob_worker_tokens_total counter\n"
                                   "skyjob_worker_tokens_total 5000000001\n"
                                   "# TYPE skyjob_worker_time_seconds_total counter\n"
                                   "skyjob_worker_time_seconds_total{part=\"forward\"} 1.5\n"
                                   "skyjob_worker_time_seconds_total{part=\"backward\"} "
                                   "3.000000001\n"
                                   "skyjob_worker_time_seconds_total{part=\"update\"} 0.01\n"
                                   "skyjob_worker_time_seconds_total{part=\"waiting\"} 0.25\n"
                                   "skyjob_worker_time_seconds_total{part=\"exchange\"} 0.5\n"
                                   "skyjob_worker_time_seconds_total{part=\"other\"} 2\n"
                                   "# TYPE skyjob_worker_staleness_tickets gauge\n"
                                   "skyjob_worker_staleness_tickets 1.5\n"
                                   "# TYPE skyjob_worker_sent_bytes_total counter\n"
                                   "skyjob_worker_sent_bytes_total{edge=\"0\"} 5000000000\n"
                                   "skyjob_worker_sent_bytes_total{edge=\"999\"} 0\n"
                                   "# TYPE skyjob_worker_received_bytes_total counter\n"
                                   "skyjob_worker_received_bytes_total{edge=\"0\"} 0\n"
                                   "skyjob_worker_received_bytes_total{edge=\"999\"} 64\n"
                                   "# TYPE skyjob_worker_unacknowledged_bytes gauge\n"
                                   "skyjob_worker_unacknowledged_bytes{edge=\"0\"} 1048640\n"
                                   "skyjob_worker_unacknowledged_bytes{edge=\"999\"} 0\n" THROTTLED
                                   "# TYPE skyjob_worker_last_checkpoint_timestamp_seconds gauge\n"
                                   "skyjob_worker_last_checkpoint_timestamp_seconds "
                                   "1764328983.25\n");
}

/* Counters begin with 0, so that rates have a beginning; what is not there is left out. */
static void metrics_of_a_worker_without_steps_are_zeros(void **state)
{
    (void)state;
    check_samples(STATES("1", "0") "# TYPE skyjob_worker_revision gauge\n"
                                   "skyjob_worker_revision 0\n"
                                   "# TYPE skyjob_worker_steps_total counter\n"
                                   "skyjob_worker_steps_total 0\n"
                                   "# TYPE skyjob_worker_tokens_total counter\n"
                                   "skyjob_worker_tokens_total 0\n"
                                   "# TYPE skyjob_worker_time_seconds_total counter\n"
                                   "skyjob_worker_time_seconds_total{part=\"forward\"} 0\n"
                                   "skyjob_worker_time_seconds_total{part=\"backward\"} 0\n"
                                   "skyjob_worker_time_seconds_total{part=\"update\"} 0\n"
                                   "skyjob_worker_time_seconds_total{part=\"waiting\"} 0\n"
                                   "skyjob_worker_time_seconds_total{part=\"exchange\"} 0\n"
                                   "skyjob_worker_time_seconds_total{part=\"other\"} 0\n"
                                   "# TYPE skyjob_worker_sent_bytes_total counter\n"
                                   "# TYPE skyjob_worker_received_bytes_total counter\n"
                                   "# TYPE skyjob_worker_unacknowledged_bytes gauge\n" THROTTLED);
}

static void metrics_fit_with_the_largest_figures_and_most_peers(void **state)
{
    struct buf text = {.max = METRICS_BYTES};
    struct metrics m = {.has_staleness = true, .staleness = 1e9 / 3};

    (void)state;
    m.revision = PLAN_REVISION_MAX;
    m.n_steps = m.n_tokens = m.saved_ms = m.throttled_ns = INT64_MAX;
    for (int i = 0; i < TALLY_PARTS; i++)
        m.ns[i] = INT64_MAX;
    for (m.n_peers = 0; m.n_peers < SPEC_STAGES_MAX; m.n_peers++)
        m.peers[m.n_peers] =
            (struct metrics_peer){PLAN_SLOT_MAX - m.n_peers, UINT64_MAX, UINT64_MAX, UINT64_MAX};
    assert_int_equal(metrics_write(&m, &text, NULL), ERR_OK);
    buf_deinit(&text);
}

static void metrics_that_do_not_fit_are_an_error(void **state)
{
    struct buf text = {.max = 1000};
    struct metrics m = {.revision = 1};

    (void)state;
    assert_int_equal(metrics_write(&m, &text, NULL), ERR_LIMIT);
    buf_deinit(&text);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(metrics_have_all_figures_of_a_worker_that_trains),
        TEST(metrics_of_a_worker_without_steps_are_zeros),
        TEST(metrics_fit_with_the_largest_figures_and_most_peers),
        TEST(metrics_that_do_not_fit_are_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
