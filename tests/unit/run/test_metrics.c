/* What is written is read back line by line, as Prometheus does. */
#include "run/metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/status.h"
#include "kube/client.h"

#define LINES_MAX   200
#define LINE_BYTES  200
#define NAME_BYTES  64
#define ANSWER_MAX  ((size_t)14 << 10) /* HEALTH_METRICS_BYTES */
#define NAME_CHARS  "abcdefghijklmnopqrstuvwxyz_"
#define LABEL_CHARS NAME_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789=\"+."

static size_t n_jobs_in[STATUS_STATES + 1];
static uint64_t n_requests[KUBE_STATUSES];
static struct metrics_reconciles reconciles;

static struct metrics everything(void)
{
    memset(&reconciles, 0, sizeof reconciles);
    memset(n_requests, 0, sizeof n_requests);
    for (size_t i = 0; i <= STATUS_STATES; i++)
        n_jobs_in[i] = i;
    return (struct metrics){.is_leader = true,
                            .reconciles = &reconciles,
                            .n_jobs_in = n_jobs_in,
                            .n_requests = n_requests,
                            .n_watches = 2,
                            .watches = {{"pods", 5000000000, 0}, {"nodes", 7, 1}}};
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Is it a sample of the family? */
static bool belongs_to(const char *name, const char *family, const char *type)
{
    size_t n = strlen(family);
    const char *suffix = name + n;

    if (strncmp(name, family, n) != 0)
        return false;
    return strcmp(type, "histogram") != 0
               ? *suffix == '\0'
               : strcmp(suffix, "_bucket") == 0 || strcmp(suffix, "_sum") == 0 ||
                     strcmp(suffix, "_count") == 0;
}

/* "name{label="value"} number": checked, and cut off before the number. */
static void check_sample(char *line, const char *family, const char *type)
{
    char name[NAME_BYTES];
    char *blank = strchr(line, ' ');
    char *brace;
    char *end;

    assert_non_null(blank);
    (void)strtod(blank + 1, &end);
    assert_true(end > blank + 1 && *end == '\0');
    *blank = '\0';
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(line, "{"), line);
    if (!belongs_to(name, family, type))
        fail_msg("%s is among the samples of %s", line, family);
    brace = strchr(line, '{');
    if (brace) {
        assert_int_equal(strspn(brace + 1, LABEL_CHARS), strlen(brace) - 2);
        assert_true(ends_with(brace, "\"}"));
    }
}

static void check_family(const char *name, const char *type)
{
    assert_int_equal(strspn(name, NAME_CHARS), strlen(name));
    assert_true(strncmp(name, "skyjob_", 7) == 0 || strncmp(name, "process_", 8) == 0);
    assert_true(strcmp(type, "counter") == 0 || strcmp(type, "gauge") == 0 ||
                strcmp(type, "histogram") == 0);
    assert_int_equal(ends_with(name, "_total"), strcmp(type, "counter") == 0);
    assert_false(ends_with(name, "_ms") || ends_with(name, "_kb"));
}

/* HELP, TYPE, samples; no family and no sample twice. */
static void check_text(const struct buf *text)
{
    static char lines[LINES_MAX][LINE_BYTES];
    char family[NAME_BYTES] = "", type[NAME_BYTES] = "";
    bool has_type = true;
    int n = 0;

    for (const char *at = buf_text(text); *at; at += strcspn(at, "\n") + 1) {
        char *line = lines[n++];
        int used = 0;

        assert_true(n < LINES_MAX);
        assert_int_equal(at[strcspn(at, "\n")], '\n');
        assert_true(strcspn(at, "\n") < LINE_BYTES);
        (void)snprintf(line, LINE_BYTES, "%.*s", (int)strcspn(at, "\n"), at);
        if (sscanf(line, "# HELP %63s %n", family, &used) == 1) {
            assert_true(has_type); /* of the family before */
            assert_true(ends_with(line, "."));
            has_type = false;
            line[used] = '\0';
        } else if (strncmp(line, "# TYPE ", 7) == 0) {
            char name[NAME_BYTES];

            assert_false(has_type);
            assert_int_equal(sscanf(line, "# TYPE %63s %63s", name, type), 2);
            assert_string_equal(name, family);
            check_family(family, type);
            has_type = true;
        } else {
            assert_true(has_type);
            check_sample(line, family, type);
        }
        for (int i = 0; i < n - 1; i++)
            assert_string_not_equal(lines[i], line);
    }
    assert_true(n > 0 && has_type);
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
    struct buf text = {.max = ANSWER_MAX};

    (void)state;
    n_requests[0] = n_requests[404] = n_requests[599] = 1;
    write_all(&m, &text);
    check_text(&text);
    buf_deinit(&text);
}

static void metrics_have_every_state_even_without_jobs(void **state)
{
    struct metrics m = everything();
    struct buf text = {.max = ANSWER_MAX};
    char line[LINE_BYTES];

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
    struct buf text = {.max = ANSWER_MAX};

    (void)state;
    m.n_jobs_in = NULL;
    write_all(&m, &text);
    check_text(&text);
    assert_null(strstr(buf_text(&text), "skyjob_jobs"));
    buf_deinit(&text);
}

static void metrics_count_requests_by_code(void **state)
{
    struct metrics m = everything();
    struct buf text = {.max = ANSWER_MAX};

    (void)state;
    n_requests[503] = 2;
    write_all(&m, &text);
    assert_has(&text, "\nskyjob_kube_requests_total{code=\"error\"} 0\n"
                      "skyjob_kube_requests_total{code=\"200\"} 0\n"
                      "skyjob_kube_requests_total{code=\"503\"} 2\n# HELP");
    buf_deinit(&text);
}

static void metrics_put_reconciles_into_buckets_that_add_up(void **state)
{
    struct metrics m = everything();
    struct buf text = {.max = ANSWER_MAX};

    (void)state;
    metrics_add_reconcile(&reconciles, 1000000); /* a bound belongs to its bucket */
    metrics_add_reconcile(&reconciles, 300000000);
    metrics_add_reconcile(&reconciles, 11000000000);
    write_all(&m, &text);
    assert_has(&text, "_bucket{le=\"0.001\"} 1\n");
    assert_has(&text, "_bucket{le=\"0.25\"} 1\n");
    assert_has(&text, "_bucket{le=\"0.5\"} 2\n");
    assert_has(&text, "_bucket{le=\"10\"} 2\n");
    assert_has(&text, "_bucket{le=\"+Inf\"} 3\n"
                      "skyjob_reconcile_seconds_sum 11.301\n"
                      "skyjob_reconcile_seconds_count 3\n");
    buf_deinit(&text);
}

static void metrics_write_large_counters_to_the_last_digit(void **state)
{
    struct metrics m = everything();
    struct buf text = {.max = ANSWER_MAX};

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

static void metrics_of_the_process_are_those_of_this_one(void **state)
{
    struct metrics_process p, more;
    struct buf text = {.max = METRICS_PROCESS_BYTES};
    struct err err = {0};
    int fd;

    (void)state;
    if (metrics_read_process(&p, &err) != ERR_OK)
        fail_msg("%s", err.text);
    fd = dup(1);
    assert_int_equal(metrics_read_process(&more, NULL), ERR_OK);
    (void)close(fd);
    assert_int_equal(more.n_fds, p.n_fds + 1);
    assert_true(more.cpu_seconds >= p.cpu_seconds && p.cpu_seconds > 0);
    assert_true(p.resident_bytes > 100000);
    assert_true(p.start_seconds > (double)time(NULL) - 600 &&
                p.start_seconds < (double)time(NULL) + 2);
    assert_int_equal(metrics_write_process(&p, &text, NULL), ERR_OK);
    check_text(&text);
    p = (struct metrics_process){1e12 / 3, 1e12 / 3, INT64_MAX, 1000000};
    buf_reset(&text);
    assert_int_equal(metrics_write_process(&p, &text, NULL), ERR_OK);
    buf_deinit(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metrics_have_help_and_type_and_no_sample_twice),
        cmocka_unit_test(metrics_have_every_state_even_without_jobs),
        cmocka_unit_test(metrics_leave_out_jobs_that_are_not_listed_yet),
        cmocka_unit_test(metrics_count_requests_by_code),
        cmocka_unit_test(metrics_put_reconciles_into_buckets_that_add_up),
        cmocka_unit_test(metrics_write_large_counters_to_the_last_digit),
        cmocka_unit_test(metrics_that_do_not_fit_are_an_error),
        cmocka_unit_test(metrics_of_the_process_are_those_of_this_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
