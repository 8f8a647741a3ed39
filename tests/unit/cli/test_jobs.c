#include "cli/jobs.h"

#include <stdlib.h>
#include <string.h>

#include "suite.h"

#define NOW_MS INT64_C(1795853000000) /* 2026-11-28T08:03:20Z */

#define JOB(namespace, name, status)                                                               \
    "{\"metadata\":{\"namespace\":\"" namespace "\",\"name\":\"" name                              \
                                                "\",\"creationTimestamp\":\"2026-11-28T08:00:"     \
                                                "00Z\"}" status "}"
#define UPDATED "\"lastUpdatedTime\":\"2026-11-28T08:03:00Z\""
#define TRAINING                                                                                   \
    ",\"status\":{\"state\":\"Running\",\"progress\":{\"step\":120,\"totalSteps\":375,"            \
    "\"percentage\":32,\"loss\":\"0.8432\",\"tokensPerSecond\":53210,"                             \
    "\"estimatedRemainingSeconds\":62," UPDATED "}}"
#define COMPLETE                                                                                   \
    ",\"status\":{\"state\":\"Complete\",\"conditions\":[{\"type\":\"Complete\","                  \
    "\"status\":\"True\"}],\"progress\":{\"step\":375,\"totalSteps\":375,\"percentage\":100,"      \
    "\"loss\":\"0.5\",\"tokensPerSecond\":53210,\"estimatedRemainingSeconds\":0," UPDATED "}}"

static struct json *parse(const char *text)
{
    struct json *json = NULL;

    assert_int_equal(json_parse(text, strlen(text), &json, NULL), ERR_OK);
    return json;
}

static bool put(struct jobs *jobs, const char *text)
{
    struct json *json = parse(text);
    struct jobs_row row;
    bool is_news = false;

    jobs_row_read(json, &row);
    json_free(json);
    assert_int_equal(jobs_put(jobs, &row, &is_news, NULL), ERR_OK);
    return is_news;
}

/* --- one line --- */

struct row {
    const char *name;
    const char *job;
    const char *line;
};

static struct row rows[] = {
    {"jobs_that_train_have_all_their_figures", JOB("a", "j", TRAINING),
     "j     Running   120    375      32%  0.8432    53,210  1:02   3m\n"},
    {"jobs_that_have_ended_have_no_time_left", JOB("a", "j", COMPLETE),
     "j     Complete   375    375     100%   0.5    53,210     -   3m\n"},
    {"jobs_that_the_operator_has_not_seen_have_only_a_name_and_an_age", JOB("a", "j", ""),
     "j     -         -      -        -     -         -     -   3m\n"},
    {"jobs_that_do_not_train_yet_have_a_state",
     JOB("a", "j", ",\"status\":{\"state\":\"Waiting\"}"),
     "j     Waiting     -      -        -     -         -     -   3m\n"},
};

static char *print(const struct jobs *jobs, bool has_namespaces)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);

    jobs_print(jobs, has_namespaces, NOW_MS, out);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void check_row(void **state)
{
    const struct row *row = *state;
    struct jobs jobs = {.n = 0};
    char *text;

    assert_true(put(&jobs, row->job));
    text = print(&jobs, false);
    assert_string_equal(strchr(text, '\n') + 1, row->line);
    free(text);
    jobs_deinit(&jobs);
}

/* --- the table --- */

static void jobs_are_in_order_and_columns_are_as_wide_as_they_have_to_be(void **state)
{
    struct jobs jobs = {.n = 0};
    char *text;

    (void)state;
    assert_true(put(&jobs, JOB("team-b", "a", "")));
    assert_true(put(&jobs, JOB("a", "second-job", COMPLETE)));
    assert_true(put(&jobs, JOB("a", "first", TRAINING)));
    text = print(&jobs, true);
    assert_string_equal(
        text,
        "NAMESPACE  NAME        STATE     STEP  TOTAL  PERCENT    LOSS  TOKENS/S  LEFT  AGE\n"
        "a          first       Running    120    375      32%  0.8432    53,210  1:02   3m\n"
        "a          second-job  Complete   375    375     100%     0.5    53,210     -   3m\n"
        "team-b     a           -            -      -        -       -         -     -   3m\n");
    free(text);
    jobs_deinit(&jobs);
}

static void jobs_are_news_when_a_figure_has_changed(void **state)
{
    struct jobs jobs = {.n = 0};
    struct jobs_row row;

    (void)state;
    assert_true(put(&jobs, JOB("a", "j", "")));
    assert_false(put(&jobs, JOB("a", "j", "")));
    assert_true(put(&jobs, JOB("a", "j", TRAINING)));
    assert_false(put(&jobs, JOB("a", "j", TRAINING)));
    assert_int_equal(jobs.n, 1);
    assert_false(jobs_take(&jobs, "b", "j", &row));
    assert_true(jobs_take(&jobs, "a", "j", &row));
    assert_string_equal(row.state, "Running");
    assert_false(jobs_take(&jobs, "a", "j", &row));
    jobs_deinit(&jobs);
}

/* --- as JSON --- */

static void check_json(const char *job, const char *want)
{
    struct buf text = {.max = 4096};
    struct json *json = parse(job);
    struct jsonw w;

    jsonw_init(&w, &text);
    jobs_write(json, &w);
    assert_int_equal(jsonw_finish(&w, NULL), ERR_OK);
    assert_string_equal(buf_text(&text), want);
    json_free(json);
    buf_deinit(&text);
}

static void jobs_as_json_have_every_member_and_the_status_unchanged(void **state)
{
    (void)state;
    check_json(JOB("a", "j", ",\"status\":{\"state\":\"Waiting\",\"foreign\":[1]}"),
               "{\"namespace\":\"a\",\"name\":\"j\",\"creationTimestamp\":\"2026-11-28T08:00:00Z\","
               "\"state\":\"Waiting\",\"step\":null,\"totalSteps\":null,\"percentage\":null,"
               "\"loss\":null,\"tokensPerSecond\":null,\"estimatedRemainingSeconds\":null,"
               "\"status\":{\"state\":\"Waiting\",\"foreign\":[1]}}");
    check_json(JOB("a", "j", ""),
               "{\"namespace\":\"a\",\"name\":\"j\",\"creationTimestamp\":\"2026-11-28T08:00:00Z\","
               "\"state\":null,\"step\":null,\"totalSteps\":null,\"percentage\":null,"
               "\"loss\":null,\"tokensPerSecond\":null,\"estimatedRemainingSeconds\":null,"
               "\"status\":null}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_are_in_order_and_columns_are_as_wide_as_they_have_to_be),
        cmocka_unit_test(jobs_are_news_when_a_figure_has_changed),
        cmocka_unit_test(jobs_as_json_have_every_member_and_the_status_unchanged),
    };
    struct suite suite = {.n = 0};

    SUITE_ROWS(&suite, rows, check_row);
    SUITE_TESTS(&suite, tests);
    return suite_run(&suite, "jobs", NULL, NULL);
}
