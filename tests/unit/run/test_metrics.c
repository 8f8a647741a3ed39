/* What is written is read back line by line, as Prometheus does. */
#include "run/metrics.h"

#include "exposition.h"

static struct metrics everything(void)
{
    struct metrics m = {.is_leader = true,
                        .has_jobs = true,
                        .n_watches = 2,
                        .watches = {{"pods", 5000000000, 0}, {"nodes", 7, 1}}};

    for (size_t i = 0; i <= STATUS_STATES; i++)
        m.n_jobs_in[i] = i;
    return m;
}

static void write_all(const struct metrics *m, struct buf *out)
{
    struct err err = {0};

    if (metrics_write(m, out, &err) != ERR_OK)
        fail_msg("%s", err.text);
}

static void assert_has(const struct buf *text, const char *line)
{
    if (!strstr(buf_text(text), line))
        fail_msg("no \"%s\" in:\n%s", line, buf_text(text));
}

static void metrics_have_help_and_type_and_no_sample_twice(void **state)
{
    struct metrics m = everything();
    struct buf text = {.max = METRICS_BYTES};

    (void)state;
    m.n_requests[0] = m.n_requests[404] = m.n_requests[599] = 1;
    write_all(&m, &text);
    exposition_check(&text);
    buf_deinit(&text);
}

static void metrics_have_every_state_even_without_jobs(void **state)
{
    struct metrics m = everything();
    struct buf text = {.max = METRICS_BYTES};
    char line[EXPOSITION_LINE_BYTES];

    (void)state;
    write_all(&m, &text);
    for (size_t i = 0; i < STATUS_STATES; i++) {
        (void)snprintf(line, sizeof line, "\nskyjob_jobs{state=\"%s\"} %zu\n", status_states[i], i);
        assert_has(&text, line);
    }
    assert_has(&text, "\nskyjob_jobs{state=\"Unknown\"} 13\n");
    buf_deinit(&text);
}

/* Zeros before the first list would look like jobs that have gone, and come back. */
static void metrics_leave_out_jobs_that_are_not_listed_yet(void **state)
{
    struct metrics m = everything();
    struct buf text = {.max = METRICS_BYTES};

    (void)state;
    m.has_jobs = false;
    write_all(&m, &text);
    exposition_check(&text);
    assert_null(strstr(buf_text(&text), "skyjob_jobs"));
    buf_deinit(&text);
}

static void metrics_count_requests_by_code(void **state)
{
    struct metrics m = everything();
    struct buf text = {.max = METRICS_BYTES};

    (void)state;
    m.n_requests[503] = 2;
    write_all(&m, &text);
    assert_has(&text, "\nskyjob_kube_requests_total{code=\"error\"} 0\n"
                      "skyjob_kube_requests_total{code=\"200\"} 0\n"
                      "skyjob_kube_requests_total{code=\"503\"} 2\n# HELP");
    buf_deinit(&text);
}

static void metrics_put_times_into_buckets_that_add_up(void **state)
{
    struct metrics m = everything();
    struct buf text = {.max = METRICS_BYTES};

    (void)state;
    metrics_add_time(&m.reconciles, 1000000); /* a bound belongs to its bucket */
    metrics_add_time(&m.reconciles, 300000000);
    metrics_add_time(&m.reconciles, 11000000000);
    metrics_add_time(&m.own, 2000000);
    write_all(&m, &text);
    assert_has(&text, "_bucket{le=\"0.001\"} 1\n");
    assert_has(&text, "_bucket{le=\"0.25\"} 1\n");
    assert_has(&text, "_bucket{le=\"0.5\"} 2\n");
    assert_has(&text, "_bucket{le=\"10\"} 2\n");
    assert_has(&text, "_bucket{le=\"+Inf\"} 3\n"
                      "skyjob_reconcile_seconds_sum 11.301\n"
                      "skyjob_reconcile_seconds_count 3\n");
    assert_has(&text, "skyjob_reconcile_own_seconds_sum 0.002\n"
                      "skyjob_reconcile_own_seconds_count 1\n");
    buf_deinit(&text);
}

static void metrics_write_large_counters_to_the_last_digit(void **state)
{
    struct metrics m = everything();
    struct buf text = {.max = METRICS_BYTES};

    (void)state;
    write_all(&m, &text);
    assert_has(&text, "\nskyjob_watch_events_total{resource=\"pods\"} 5000000000\n");
    assert_has(&text, "\nskyjob_leader 1\n");
    buf_deinit(&text);
}

static void metrics_that_do_not_fit_are_an_error(void **state)
{
    struct metrics m = everything();
    struct buf text = {.max = 1000};

    (void)state;
    assert_int_equal(metrics_write(&m, &text, NULL), ERR_LIMIT);
    buf_deinit(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metrics_have_help_and_type_and_no_sample_twice),
        cmocka_unit_test(metrics_have_every_state_even_without_jobs),
        cmocka_unit_test(metrics_leave_out_jobs_that_are_not_listed_yet),
        cmocka_unit_test(metrics_count_requests_by_code),
        cmocka_unit_test(metrics_put_times_into_buckets_that_add_up),
        cmocka_unit_test(metrics_write_large_counters_to_the_last_digit),
        cmocka_unit_test(metrics_that_do_not_fit_are_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
