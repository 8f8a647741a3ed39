#include "api/status.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NOW_MS INT64_C(1800000000500)

static void write_status(const struct status *s, struct buf *out)
{
    struct jsonw w;

    jsonw_init(&w, out);
    status_write(s, &w, NULL);
    assert_int_equal(jsonw_finish(&w, NULL), ERR_OK);
}

static void fill(struct status *s)
{
    struct progress p = {.revision = 2,
                         .step = 30,
                         .total_steps = 90,
                         .skipped_steps = 2,
                         .epoch = 1,
                         .loss = 0.123456,
                         .tokens_per_second = 1234.5,
                         .step_ms = 33.125,
                         .eta_seconds = 61.2,
                         .n_stage_ms = 2,
                         .stage_ms = {1.5, 2.25},
                         .n_metrics = 1,
                         .metrics = {{"accuracy", 0.875}},
                         .best_metric = "accuracy",
                         .best = {.value = 0.9, .lineage = 1, .step = 20},
                         .has_ended_early = true,
                         .saved = {20, true},
                         .sync = {"ASP", 2.5, 7, "replica 1 is slow"},
                         .randomly_initialized = "pooler (w, b), classifier (none)"};

    *s = (struct status){
        .state = "Running", .generation = 3, .revision = 2, .restarts = 1, .restarts_in_a_row = 3};
    (void)snprintf(s->message, sizeof s->message, "all is \"well\"");
    for (int t = 0; t < CONDITION_COUNT; t++)
        (void)status_set(
            s, &(struct condition_set){(enum condition_type)t, CONDITION_FALSE, "Why", "because"},
            NOW_MS);
    s->start_ms = NOW_MS - 500;
    s->memory_percent = 150;
    s->checkpoint = (struct status_checkpoint){NOW_MS - NOW_MS % 1000, 17, "It is written."};
    s->model = (struct model){
        .vocab = 99, .hidden = 64, .layers = 3, .heads = 4, .ffn = 100, .positions = 32};
    s->n_stages = 2;
    for (int i = 0; i < 2; i++) {
        s->stages[i].stage = i;
        s->stages[i].plan.first_unit = 3 * i;
        s->stages[i].plan.n_units = 3;
        (void)snprintf(s->stages[i].pod, sizeof s->stages[i].pod, "mnli-0b7d3-w%d-2", i);
        (void)snprintf(s->stages[i].pod_uid, sizeof s->stages[i].pod_uid, "b%d", i);
        (void)snprintf(s->stages[i].plan.node, sizeof s->stages[i].plan.node, "n%d", i);
        (void)snprintf(s->stages[i].state, sizeof s->stages[i].state, "Running");
        s->stages[i].plan.predicted_ms = 1.25;
        s->stages[i].busy_percent = 60 + i;
        s->stages[i].drift.since_step = 12 * i;
        s->stages[i].drift.is_reported = i;
        s->stages[i].is_ready = true;
    }
    (void)snprintf(s->placement.strategy, sizeof s->placement.strategy, "Optimal");
    (void)snprintf(s->placement.image, sizeof s->placement.image, "worker:1");
    s->placement.summary.predicted_step_ms = 12.5;
    s->placement.micro_batches = 4;
    s->placement.summary.n_alternatives = 1;
    s->placement.summary.alternatives[0] = (struct plan_alternative){"Even", 20};
    s->placement.summary.bottleneck = 1;
    s->placement.summary.n_excluded = PLAN_EXCLUDED_MAX + 3;
    for (int i = 0; i < PLAN_EXCLUDED_MAX; i++)
        s->placement.summary.excluded[i] =
            (struct plan_excluded){.node = "tiny", .reason = "is \"slow\""};
    s->rebalance = (struct status_rebalance){.time_ms = NOW_MS,
                                             .gain_percent = 33,
                                             .n_moves = 2,
                                             .revision = 3,
                                             .samples = 40,
                                             .n_seen = 1,
                                             .hold_ms = NOW_MS + 59500,
                                             .hold_step = 80,
                                             .before_ms = 12.345,
                                             .expected_percent = 67,
                                             .doubt_percent = 150,
                                             .n_next = 2,
                                             .next = {{0, 4, 3, 1.5, false}, {5, 7, 0, 0, true}},
                                             .n_joining = 1,
                                             .joining = {{5, "node-c", 1500, 1 << 30}},
                                             .n_last = 1,
                                             .last = {{3, 11, 1, 2.25, false}}};
    (void)snprintf(s->rebalance.asked, sizeof s->rebalance.asked, "2026-11-23T21:00:00Z");
    (void)snprintf(s->rebalance.decision, sizeof s->rebalance.decision, "Moved");
    (void)snprintf(s->rebalance.message, sizeof s->rebalance.message, "stage 1 is \"slow\"");
    status_take_progress(s, &p, NOW_MS);
}

static void status_reads_back_what_it_wrote(void **state)
{
    struct status *s = calloc(1, sizeof *s);
    struct status *again = calloc(1, sizeof *again);
    struct buf text = {.max = STATUS_TEXT_MAX_BYTES};
    struct buf text_again = {.max = STATUS_TEXT_MAX_BYTES};
    struct json *json;

    (void)state;
    fill(s);
    write_status(s, &text);
    assert_int_equal(json_parse(text.data, text.len, &json, NULL), ERR_OK);
    status_read(json, again);
    json_free(json);
    assert_int_equal(again->restarts_in_a_row, 3);
    assert_memory_equal(&again->checkpoint, &s->checkpoint, sizeof s->checkpoint);
    assert_memory_equal(&again->model, &s->model, sizeof s->model);
    assert_int_equal(again->placement.summary.n_excluded, PLAN_EXCLUDED_MAX + 3);
    assert_int_equal(again->progress.n_random, 2);
    assert_string_equal(again->progress.random[0], "pooler (w, b)");
    assert_string_equal(again->progress.random[1], "classifier (none)");
    assert_string_equal(again->progress.best.metric, "accuracy");
    assert_string_equal(again->progress.best.value, "0.9000");
    assert_int_equal(again->progress.best.step, 20);
    assert_true(again->progress.has_ended_early);
    assert_true(again->progress.saved.step == 20 && again->progress.saved.has_failed);
    assert_string_equal(again->progress.sync.protocol, "ASP");
    assert_string_equal(again->progress.sync.staleness, "2.5000");
    assert_int_equal(again->progress.sync.staleness_max, 7);
    assert_string_equal(again->progress.sync.lagging, "replica 1 is slow");
    assert_int_equal(again->rebalance.hold_ms, s->rebalance.hold_ms);
    assert_true(again->rebalance.before_ms == 12.345);
    assert_int_equal(again->rebalance.n_next, 2);
    assert_int_equal(again->rebalance.next[1].slot, 5);
    assert_int_equal(again->rebalance.next[1].n_units, 7);
    assert_true(again->rebalance.next[1].grows && !again->rebalance.next[0].grows);
    assert_int_equal(again->rebalance.n_joining, 1);
    assert_memory_equal(&again->rebalance.joining[0], &s->rebalance.joining[0],
                        sizeof s->rebalance.joining[0]);
    assert_true(again->rebalance.last[0].predicted_ms == 2.25);
    write_status(again, &text_again);
    assert_string_equal(buf_text(&text), buf_text(&text_again));
    buf_deinit(&text);
    buf_deinit(&text_again);
    free(s);
    free(again);
}

static void status_without_one_of_the_sizes_has_none(void **state)
{
    static const char part[] = "{\"model\":{\"vocabSize\":99,\"hiddenSize\":64,\"layers\":3,"
                               "\"attentionHeads\":4,\"feedForwardSize\":100}}";
    struct status *s = calloc(1, sizeof *s);
    struct buf text = {.max = STATUS_TEXT_MAX_BYTES};
    struct json *json;

    (void)state;
    assert_int_equal(json_parse(part, sizeof part - 1, &json, NULL), ERR_OK);
    status_read(json, s);
    json_free(json);
    assert_int_equal(s->model.hidden, 0);
    write_status(s, &text);
    assert_non_null(strstr(buf_text(&text), "\"model\":null"));
    buf_deinit(&text);
    free(s);
}

/* A stage's time is worth more digits than a step's. */
static void status_writes_times_as_whole_numbers(void **state)
{
    struct status *s = calloc(1, sizeof *s);
    struct buf text = {.max = STATUS_TEXT_MAX_BYTES};

    (void)state;
    fill(s);
    s->placement.summary.bound_ms = 0.2;
    write_status(s, &text);
    assert_non_null(strstr(buf_text(&text), "\"stepMilliseconds\":33,"));
    assert_non_null(strstr(buf_text(&text), "\"predictedMicroseconds\":1250,"));
    assert_non_null(strstr(buf_text(&text), "\"measuredMicroseconds\":2250,"));
    assert_non_null(strstr(buf_text(&text), "\"boundMilliseconds\":null,"));
    assert_non_null(strstr(buf_text(&text), "[{\"strategy\":\"Even\",\"stepMilliseconds\":20}]"));
    buf_deinit(&text);
    free(s);
}

static void status_has_no_empty_list_of_excluded_nodes(void **state)
{
    struct status *s = calloc(1, sizeof *s);
    struct buf text = {.max = STATUS_TEXT_MAX_BYTES};

    (void)state;
    fill(s);
    s->placement.summary.n_excluded = 0;
    write_status(s, &text);
    assert_non_null(strstr(buf_text(&text), "\"excludedNodes\":null,\"excludedNodeCount\":null"));
    buf_deinit(&text);
    free(s);
}

static void fill_text(char *text, size_t bytes)
{
    memset(text, '"', bytes - 1); /* two bytes each in JSON */
    text[bytes - 1] = '\0';
}
#define FILL(array) fill_text((array), sizeof(array))

static void status_has_an_end_however_much_there_is_to_say(void **state)
{
    struct status *s = calloc(1, sizeof *s);
    struct buf text = {.max = STATUS_TEXT_MAX_BYTES};

    (void)state;
    fill(s);
    FILL(s->message);
    FILL(s->placement.summary.explanation);
    FILL(s->placement.nodes);
    FILL(s->placement.image);
    for (int t = 0; t < CONDITION_COUNT; t++)
        FILL(s->conditions[t].message);
    s->n_stages = SPEC_STAGES_MAX;
    for (int i = 0; i < SPEC_STAGES_MAX; i++) {
        s->stages[i] = s->stages[1];
        s->stages[i].stage = i;
        FILL(s->stages[i].pod);
        FILL(s->stages[i].pod_uid);
        FILL(s->stages[i].plan.node);
        FILL(s->stages[i].plan.units);
    }
    for (int i = 0; i < PLAN_EXCLUDED_MAX; i++) {
        FILL(s->placement.summary.excluded[i].node);
        FILL(s->placement.summary.excluded[i].reason);
    }
    write_status(s, &text); /* not more than .max, or it fails */
    buf_deinit(&text);
    free(s);
}

/* A merge patch writes over what is there, so null takes away what a revision before had. */
static void status_shows_skipped_steps_only_when_there_are_some(void **state)
{
    struct status *s = calloc(1, sizeof *s);
    struct progress p = {.step = 4, .total_steps = 9, .loss = 1};

    (void)state;
    for (int skipped = 0; skipped < 2; skipped++) {
        struct buf text = {.max = STATUS_TEXT_MAX_BYTES};

        p.skipped_steps = skipped;
        status_take_progress(s, &p, NOW_MS);
        write_status(s, &text);
        assert_non_null(
            strstr(buf_text(&text), skipped ? "\"skippedSteps\":1," : "\"skippedSteps\":null,"));
        assert_non_null(strstr(buf_text(&text), "\"randomlyInitialized\":null,"));
        buf_deinit(&text);
    }
    free(s);
}

/* All that a worker may say about how good a model is, by name and value. */
static void status_has_room_for_every_metric(void **state)
{
    static const char *const names[] = {"accuracy",
                                        "f1",
                                        "matthews",
                                        "pearson",
                                        "spearman",
                                        "evalLoss",
                                        "accuracyMismatched",
                                        "evalLossMismatched",
                                        "nextSentenceAccuracy"};
    struct status *s = calloc(1, sizeof *s);
    struct status *again = calloc(1, sizeof *again);
    struct buf text = {.max = STATUS_TEXT_MAX_BYTES};
    struct progress p = {.step = 9, .total_steps = 9, .n_metrics = 9};
    struct json *json;

    (void)state;
    for (int i = 0; i < 9; i++) {
        (void)snprintf(p.metrics[i].name, sizeof p.metrics[i].name, "%s", names[i]);
        p.metrics[i].value = -i / 8.0;
    }
    status_take_progress(s, &p, NOW_MS);
    write_status(s, &text);
    assert_int_equal(json_parse(text.data, text.len, &json, NULL), ERR_OK);
    status_read(json, again);
    assert_int_equal(again->progress.n_metrics, 9);
    for (int i = 0; i < 9; i++)
        assert_string_equal(again->progress.metrics[i].name, names[i]);
    assert_string_equal(again->progress.metrics[8].value, "-1.0000");
    json_free(json);
    buf_deinit(&text);
    free(s);
    free(again);
}

static void status_that_is_empty_reads_as_zero(void **state)
{
    struct status *s = malloc(sizeof *s);

    (void)state;
    memset(s, 0xff, sizeof *s);
    status_read(NULL, s);
    assert_int_equal(s->revision, 0);
    assert_false(status_is_final(s));
    assert_int_equal(s->progress.updated_ms, 0);
    free(s);
}

static void status_shrugs_off_nonsense(void **state)
{
    static const char text[] =
        "{\"state\":7,\"revision\":\"x\",\"conditions\":[1,{\"type\":\"Other\"},"
        "{\"type\":\"Running\",\"status\":\"Perhaps\"}],\"stages\":[{\"stage\":-1},"
        "{\"stage\":1000000},{}],\"progress\":{\"metrics\":[1,2,3,4,5,6,7,8,9,10]},"
        "\"startTime\":\"yesterday\",\"placement\":[],\"restarts\":-1,\"memoryScalePercent\":1e9,"
        "\"someNewField\":{\"a\":[1]}}";
    struct status *s = calloc(1, sizeof *s);
    struct json *json;

    (void)state;
    assert_int_equal(json_parse(text, sizeof text - 1, &json, NULL), ERR_OK);
    status_read(json, s);
    assert_int_equal(s->n_stages, 0);
    assert_int_equal(s->start_ms, 0);
    assert_int_equal(s->restarts, 0);
    assert_int_equal(s->memory_percent, 0);
    assert_int_equal(s->conditions[CONDITION_RUNNING].value, CONDITION_UNSET);
    json_free(json);
    free(s);
}

static void status_set_keeps_the_time_of_the_last_change(void **state)
{
    struct status *s = calloc(1, sizeof *s);
    struct condition_set set = {CONDITION_PLACED, CONDITION_FALSE, "NoNodes", "none"};

    (void)state;
    assert_true(status_set(s, &set, NOW_MS));
    assert_int_equal(s->conditions[CONDITION_PLACED].changed_ms, NOW_MS - 500);
    set.message = "still none";
    assert_false(status_set(s, &set, NOW_MS + 5000));
    set.reason = "Other";
    assert_true(status_set(s, &set, NOW_MS + 5000));
    assert_int_equal(s->conditions[CONDITION_PLACED].changed_ms, NOW_MS - 500);
    set.value = CONDITION_TRUE;
    assert_true(status_set(s, &set, NOW_MS + 5000));
    assert_int_equal(s->conditions[CONDITION_PLACED].changed_ms, NOW_MS + 4500);
    free(s);
}

static void status_takes_no_figure_that_json_cannot_hold(void **state)
{
    struct status *s = calloc(1, sizeof *s);
    struct progress p = {.step = 5,
                         .total_steps = 3,
                         .loss = INFINITY,
                         .tokens_per_second = NAN,
                         .eta_seconds = INFINITY,
                         .n_stage_ms = 1,
                         .stage_ms = {NAN},
                         .n_metrics = 2,
                         .metrics = {{"", 1}, {"f1", NAN}}};
    struct buf text = {.max = STATUS_TEXT_MAX_BYTES};

    (void)state;
    s->n_stages = 1;
    status_take_progress(s, &p, NOW_MS);
    assert_string_equal(s->progress.loss, "NaN");
    assert_int_equal(s->progress.percentage, 100);
    assert_int_equal(s->progress.tokens_per_second, 0);
    assert_int_equal(s->progress.n_metrics, 1);
    write_status(s, &text);
    buf_deinit(&text);
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_reads_back_what_it_wrote),
        cmocka_unit_test(status_without_one_of_the_sizes_has_none),
        cmocka_unit_test(status_writes_times_as_whole_numbers),
        cmocka_unit_test(status_has_no_empty_list_of_excluded_nodes),
        cmocka_unit_test(status_has_an_end_however_much_there_is_to_say),
        cmocka_unit_test(status_shows_skipped_steps_only_when_there_are_some),
        cmocka_unit_test(status_has_room_for_every_metric),
        cmocka_unit_test(status_that_is_empty_reads_as_zero),
        cmocka_unit_test(status_shrugs_off_nonsense),
        cmocka_unit_test(status_set_keeps_the_time_of_the_last_change),
        cmocka_unit_test(status_takes_no_figure_that_json_cannot_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
