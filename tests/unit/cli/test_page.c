#include "cli/page.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wellformed.h"

#define HOSTILE "</td><script>alert(\"1\")</script>&'\x01\xff"

static struct buf out;
static struct status status;
static struct records records;
static struct timeline timeline;

static int begin(void **state)
{
    (void)state;
    out = (struct buf){.max = PAGE_MAX_BYTES};
    status = (struct status){.state = "Running"};
    records = (struct records){.steps = NULL};
    timeline = (struct timeline){.spans = NULL};
    return 0;
}

static int clean(void **state)
{
    (void)state;
    buf_deinit(&out);
    records_deinit(&records);
    timeline_deinit(&timeline);
    return 0;
}

static const char *write_page(const struct page *p)
{
    const char *text;

    assert_int_equal(page_write(p, &out, NULL), ERR_OK);
    text = buf_text(&out);
    assert_wellformed(text);
    /* Complete in itself. */
    assert_null(strstr(text, "<script"));
    assert_null(strstr(text, "http"));
    assert_null(strstr(text, "url("));
    assert_null(strstr(text, " src="));
    assert_null(strstr(text, " href="));
    assert_non_null(strstr(text, "prefers-color-scheme:dark"));
    return text;
}

static void expect(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" is not in the page", part);
}

static int count(const char *text, const char *part)
{
    int n = 0;

    while ((text = strstr(text, part))) {
        text++;
        n++;
    }
    return n;
}

static void place(int n_stages, int n_replicas)
{
    status.n_stages = n_stages;
    status.placement.micro_batches = 8;
    (void)snprintf(status.placement.summary.explanation,
                   sizeof status.placement.summary.explanation, "stage 0 is the bottleneck");
    for (int i = 0; i < n_stages; i++) {
        struct status_stage *s = &status.stages[i];

        *s = (struct status_stage){.stage = i,
                                   .plan = {.replica = i * n_replicas / n_stages,
                                            .first_unit = 3 * i,
                                            .n_units = 3,
                                            .predicted_ms = 2 + i},
                                   .measured_ms = 3 + i,
                                   .busy_percent = 90};
        (void)snprintf(s->plan.node, sizeof s->plan.node, "node-%d", i);
        (void)snprintf(s->plan.units, sizeof s->plan.units, "attention %d to feed-forward %d", i,
                       i + 1);
    }
}

static void page_without_anything_says_what_is_missing(void **state)
{
    const char *text;

    (void)state;
    text = write_page(&(struct page){.job = NULL});
    expect(text, "<h1>SkyJob</h1>");
    expect(text, "no records");
    expect(text, "There is no status");
}

static void page_of_a_job_without_a_plan_has_its_state(void **state)
{
    const char *text;

    (void)state;
    (void)snprintf(status.message, sizeof status.message, "no node has room");
    text = write_page(&(struct page){.job = "mnli",
                                     .namespace = "team",
                                     .status = &status,
                                     .no_timeline = "There is no plan whose stages could be "
                                                    "shown."});
    expect(text, "SkyJob in namespace team");
    expect(text, "no node has room");
    expect(text, "There is no plan.");
    expect(text, "There is no plan whose stages");
}

static void page_shows_curves_and_metrics(void **state)
{
    static const char history[] = "{\"step\":1,\"loss\":1.5,\"tokensPerSecond\":100}\n"
                                  "{\"step\":2,\"loss\":null,\"tokensPerSecond\":100}\n"
                                  "{\"step\":2,\"metrics\":{\"accuracy\":0.5}}\nhalf a li";
    const char *text;

    (void)state;
    assert_int_equal(records_read(&records, history, strlen(history), NULL), ERR_OK);
    text = write_page(&(struct page){.status = &status, .records = &records});
    assert_int_equal(count(text, "<figure class=\"chart\">"), 4);
    expect(text, ">loss<");
    expect(text, ">tokens per second<");
    expect(text, ">step time<");
    expect(text, ">accuracy<");
    expect(text, "1 of 2 values were not finite");
    expect(text, "no records: 1 lines");
}

static void page_draws_every_node_with_its_times(void **state)
{
    const char *text;

    (void)state;
    place(7, 1);
    text = write_page(&(struct page){.status = &status});
    assert_int_equal(count(text, "class=\"box"), 7);
    assert_int_equal(count(text, "class=\"arrow\""), 6);
    assert_int_equal(count(text, "<rect class=\"box bottleneck\""), 1);
    expect(text, "stage 6: attention 6 to feed-forward 7");
    expect(text, ">8 ms<");
    expect(text, ">9 ms<");
    expect(text, "busy 90% of a step");
    expect(text, "stage 0 is the bottleneck");
    assert_null(strstr(text, "replica "));
}

static void page_draws_replicas_with_their_shares(void **state)
{
    static const int shares[] = {5, 3};
    const char *text;

    (void)state;
    place(4, 2);
    text = write_page(&(struct page){.status = &status, .n_shares = 2, .shares = shares});
    expect(text, "replica 0: 5 of 8 micro-batches");
    expect(text, "replica 1: 3 of 8 micro-batches");
    assert_int_equal(count(text, "class=\"arrow\""), 2);
}

static void make_timeline(int m)
{
    struct timeline_params params = {.n_stages = 3, .micro_batches = {m}, .step_ms = 40};

    for (int i = 0; i < 3; i++)
        params.stages[i] = (struct timeline_stage){.ms = 3, .is_measured = true, .node = HOSTILE};
    assert_int_equal(timeline_make(&params, &timeline, NULL), ERR_OK);
}

static void page_draws_the_timeline(void **state)
{
    const char *text;

    (void)state;
    place(3, 1);
    make_timeline(4);
    text = write_page(&(struct page){.status = &status, .timeline = &timeline});
    assert_int_equal(count(text, "<title>forward"), 12);
    assert_int_equal(count(text, "<title>backward"), 12);
    assert_int_equal(count(text, "<title>exchange"), 3);
    expect(text, "not a recording");
}

static void page_of_too_many_passes_has_no_picture_of_them(void **state)
{
    (void)state;
    place(3, 1);
    make_timeline(PAGE_PASSES_MAX);
    expect(write_page(&(struct page){.status = &status, .timeline = &timeline}), "too many passes");
}

static void page_escapes_every_text_of_others(void **state)
{
    const struct reason_event events[] = {
        {.time_ms = 1000, .count = 1, .reason = HOSTILE, .message = HOSTILE, .is_warning = true}};
    static const char history[] = "{\"step\":1,\"metrics\":{\"</text><b>&\":1}}\n";
    const char *text;

    (void)state;
    place(2, 1);
    make_timeline(2);
    assert_int_equal(records_read(&records, history, strlen(history), NULL), ERR_OK);
    (void)snprintf(status.state, sizeof status.state, "<b>&");
    (void)snprintf(status.message, sizeof status.message, HOSTILE);
    (void)snprintf(status.stages[1].plan.node, NODE_NAME_BYTES, HOSTILE);
    (void)snprintf(status.stages[1].plan.units, MODEL_NAME_BYTES, HOSTILE);
    (void)snprintf(status.placement.strategy, STATUS_WORD_BYTES, "<b>");
    (void)snprintf(status.placement.summary.explanation, PLAN_REASON_BYTES, HOSTILE);
    status.conditions[CONDITION_PLACED] =
        (struct condition){.value = CONDITION_TRUE, .reason = HOSTILE, .message = HOSTILE};
    status.progress.total_steps = 1;
    (void)snprintf(status.progress.loss, STATUS_WORD_BYTES, "<b>");
    status.progress.n_metrics = 1;
    status.progress.metrics[0] = (struct status_metric){"<i>", "<b>"};
    status.progress.best = (struct status_best){"<i>", "<b>", 3};
    (void)snprintf(status.revision_reason, sizeof status.revision_reason, HOSTILE);
    text = write_page(&(struct page){.job = HOSTILE,
                                     .namespace = HOSTILE,
                                     .status = &status,
                                     .records = &records,
                                     .no_records = HOSTILE,
                                     .timeline = &timeline,
                                     .revisions = &(struct page_revision){.number = 1},
                                     .n_revisions = 1,
                                     .events = events,
                                     .n_events = 1});
    assert_null(strstr(text, "<b>"));
    assert_null(strstr(text, "<i>"));
    expect(text, "&lt;/td&gt;&lt;script&gt;alert(&quot;1&quot;)");
}

static void page_lists_revisions_and_the_newest_events(void **state)
{
    static struct reason_event events[PAGE_EVENTS_MAX + 5];
    const struct page_revision revisions[] = {{1, 0, 2, 12.5, 1000}, {2, 40, 3, 11, 0}};
    const char *text;

    (void)state;
    for (int i = 0; i < PAGE_EVENTS_MAX + 5; i++) {
        events[i] = (struct reason_event){.time_ms = 1000 * i, .count = 2};
        (void)snprintf(events[i].reason, sizeof events[i].reason, "Event%d", i);
    }
    text = write_page(&(struct page){.status = &status,
                                     .revisions = revisions,
                                     .n_revisions = 2,
                                     .events = events,
                                     .n_events = PAGE_EVENTS_MAX + 5});
    expect(text, "<tr><td>2</td><td>40</td><td>3</td><td>11 ms</td>");
    expect(text, "5 older ones are left out");
    assert_null(strstr(text, "Event4<"));
    expect(text, "Event5<");
    expect(text, "Event204<");
}

static void page_of_a_long_run_is_bounded(void **state)
{
    (void)state;
    assert_int_equal(
        array_reserve(&records.steps, sizeof *records.steps, &records.max_steps, 100000, NULL),
        ERR_OK);
    for (int i = 0; i < 100000; i++)
        records.steps[records.n_steps++] =
            (struct records_step){.step = i,
                                  .loss = i % 10 ? 1.0 / (1 + i % 17) : (double)NAN,
                                  .tokens_per_second = i % 23,
                                  .step_ms = i % 31};
    place(SPEC_STAGES_MAX, 4);
    (void)write_page(&(struct page){.status = &status, .records = &records});
    assert_true(out.len < 500000);
}

static void page_reports_the_limit(void **state)
{
    struct err err;

    (void)state;
    out.max = 1000;
    assert_int_equal(page_write(&(struct page){.status = &status}, &out, &err), ERR_LIMIT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, clean)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(page_without_anything_says_what_is_missing),
        TEST(page_of_a_job_without_a_plan_has_its_state),
        TEST(page_shows_curves_and_metrics),
        TEST(page_draws_every_node_with_its_times),
        TEST(page_draws_replicas_with_their_shares),
        TEST(page_draws_the_timeline),
        TEST(page_of_too_many_passes_has_no_picture_of_them),
        TEST(page_escapes_every_text_of_others),
        TEST(page_lists_revisions_and_the_newest_events),
        TEST(page_of_a_long_run_is_bounded),
        TEST(page_reports_the_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
