#include "base/families.h"

#include "exposition.h"

static void write_all(struct families *f)
{
    families_one(f, "skyjob_last_timestamp_seconds", "gauge", "When it was.", 1764328983.25);
    families_begin(f, "skyjob_wait_seconds", "histogram", "Time that it took.");
    families_add_with(f, "_bucket", "le", "0.5", 2);
    families_add_with(f, "_bucket", "le", "+Inf", 3);
    families_add(f, "_sum", 11.301);
    families_add(f, "_count", 3);
    families_begin(f, "skyjob_sent_bytes_total", "counter", "Bytes that were sent.");
}

static void families_are_written_as_prometheus_reads_them(void **state)
{
    struct buf text = {.max = 1000};
    struct families f = {.out = &text};

    (void)state;
    write_all(&f);
    assert_int_equal(f.rc, ERR_OK);
    assert_string_equal(buf_text(&text), "# HELP skyjob_last_timestamp_seconds When it was.\n"
                                         "# TYPE skyjob_last_timestamp_seconds gauge\n"
                                         "skyjob_last_timestamp_seconds 1764328983.25\n"
                                         "# HELP skyjob_wait_seconds Time that it took.\n"
                                         "# TYPE skyjob_wait_seconds histogram\n"
                                         "skyjob_wait_seconds_bucket{le=\"0.5\"} 2\n"
                                         "skyjob_wait_seconds_bucket{le=\"+Inf\"} 3\n"
                                         "skyjob_wait_seconds_sum 11.301\n"
                                         "skyjob_wait_seconds_count 3\n"
                                         "# HELP skyjob_sent_bytes_total Bytes that were sent.\n"
                                         "# TYPE skyjob_sent_bytes_total counter\n");
    exposition_check(&text);
    buf_deinit(&text);
}

static void families_end_with_the_first_error(void **state)
{
    struct err err = {0};

    (void)state;
    for (size_t max = 0; max < 300; max += 50) {
        struct buf text = {.max = max};
        struct families f = {.out = &text, .err = &err};

        write_all(&f);
        assert_int_equal(f.rc, ERR_LIMIT);
        assert_true(text.len == 0 || text.data[text.len - 1] == '\n');
        buf_deinit(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_are_written_as_prometheus_reads_them),
        cmocka_unit_test(families_end_with_the_first_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
