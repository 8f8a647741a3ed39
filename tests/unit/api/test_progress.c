#include "api/progress.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct progress training(void)
{
    return (struct progress){.state = PROGRESS_TRAINING,
                             .cause = PROGRESS_CAUSE_NONE,
                             .slot = 0,
                             .revision = 2,
                             .has_peers = true,
                             .step = 1234567890123,
                             .total_steps = 9007199254740991,
                             .skipped_steps = 7,
                             .epoch = 4,
                             .loss = 0.1,
                             .tokens_per_second = 333333,
                             .eta_seconds = 12,
                             .n_stage_ms = 2,
                             .stage_ms = {1.5, 2.25},
                             .step_ms = 31,
                             .best_step_ms = 29,
                             .window = {.n_samples = 40, .step_ms = 30.5, .mad_ms = 0.125},
                             .n_metrics = 1,
                             .metrics = {{"accuracy", 0.875}},
                             .best_metric = "accuracy",
                             .best = {.value = 1.0 / 3, .lineage = 2, .step = 70, .n_since = 4},
                             .has_ended_early = true,
                             .ordered = {1800000000000, 33},
                             .saved = {70, true},
                             .sync = {"ASP", 2.5, 7, "replica 1 is slow"},
                             .randomly_initialized = "classifier",
                             .blas = "SkylakeX, 1 thread",
                             .error = "file \"\\a\""};
}

static void progress_reads_back_what_was_written(void **state)
{
    struct progress p = training();
    struct progress back;
    struct buf out = {.max = PROGRESS_TEXT_MAX_BYTES};

    (void)state;
    assert_int_equal(progress_write(&p, &out, NULL), ERR_OK);
    assert_int_equal(progress_parse(out.data, out.len, &back, NULL), ERR_OK);
    assert_int_equal(back.state, PROGRESS_TRAINING);
    assert_int_equal(back.revision, 2);
    assert_true(back.has_peers);
    assert_true(back.step == p.step && back.total_steps == p.total_steps);
    assert_int_equal(back.skipped_steps, 7);
    assert_int_equal(back.epoch, 4);
    assert_true(back.loss == p.loss);
    assert_true(back.tokens_per_second == p.tokens_per_second);
    assert_true(back.eta_seconds == 12 && back.step_ms == 31 && back.best_step_ms == 29);
    assert_int_equal(back.n_stage_ms, 2);
    assert_true(back.stage_ms[0] == 1.5 && back.stage_ms[1] == 2.25);
    assert_int_equal(back.window.n_samples, 40);
    assert_true(back.window.step_ms == 30.5);
    assert_true(back.window.mad_ms == 0.125);
    assert_string_equal(back.sync.protocol, "ASP");
    assert_true(back.sync.staleness == 2.5);
    assert_int_equal(back.sync.staleness_max, 7);
    assert_string_equal(back.sync.lagging, "replica 1 is slow");
    assert_int_equal(back.n_metrics, 1);
    assert_string_equal(back.metrics[0].name, "accuracy");
    assert_true(back.metrics[0].value == 0.875);
    assert_string_equal(back.best_metric, "accuracy");
    assert_true(back.best.value == 1.0 / 3);
    assert_int_equal(back.best.lineage, 2);
    assert_int_equal(back.best.step, 70);
    assert_int_equal(back.best.n_since, 4);
    assert_true(back.has_ended_early);
    assert_true(back.saved.step == 70 && back.saved.has_failed);
    assert_int_equal(back.ordered.order, 1800000000000);
    assert_int_equal(back.ordered.step, 33);
    assert_string_equal(back.randomly_initialized, "classifier");
    assert_string_equal(back.blas, p.blas);
    assert_string_equal(back.error, p.error);
    buf_deinit(&out);
}

static void progress_without_a_loss_yet_has_none_when_read_back(void **state)
{
    struct progress p = {.state = PROGRESS_STARTING, .loss = NAN};
    struct progress back;
    struct buf out = {.max = PROGRESS_TEXT_MAX_BYTES};

    (void)state;
    assert_int_equal(progress_write(&p, &out, NULL), ERR_OK);
    assert_int_equal(progress_parse(out.data, out.len, &back, NULL), ERR_OK);
    assert_true(isnan(back.loss));
    buf_deinit(&out);
}

static void progress_takes_no_time_that_no_clock_can_measure(void **state)
{
    static const char text[] =
        "{\"state\":\"Training\",\"cause\":\"\",\"stepMilliseconds\":1e306,"
        "\"bestStepMilliseconds\":-1,\"stageMilliseconds\":[2.5,1e306,-3,\"x\",1e9]}";
    struct progress p;

    (void)state;
    assert_int_equal(progress_parse(text, sizeof text - 1, &p, NULL), ERR_OK);
    assert_true(p.step_ms == 0 && p.best_step_ms == 0);
    assert_int_equal(p.n_stage_ms, 5);
    assert_true(p.stage_ms[0] == 2.5 && p.stage_ms[1] == 0 && p.stage_ms[2] == 0);
    assert_true(p.stage_ms[3] == 0 && p.stage_ms[4] == 1e9);
}

static void progress_keeps_the_first_of_two_metrics_of_one_name(void **state)
{
    static const char text[] = "{\"state\":\"Training\",\"cause\":\"\",\"metrics\":["
                               "{\"name\":\"f1\",\"value\":0.5},{\"name\":\"f1\",\"value\":0.7},"
                               "{\"name\":\"accuracy\",\"value\":0.9}]}";
    struct progress p;

    (void)state;
    assert_int_equal(progress_parse(text, sizeof text - 1, &p, NULL), ERR_OK);
    assert_int_equal(p.n_metrics, 2);
    assert_true(p.metrics[0].value == 0.5);
    assert_string_equal(p.metrics[1].name, "accuracy");
}

static void fill_text(char *text, size_t bytes, char c)
{
    memset(text, c, bytes - 1);
    text[bytes - 1] = '\0';
}

/* It is also a termination message, of which the kubelet keeps 4,096 bytes. `c` is what the texts
 * are made of: a quote is written with two bytes. */
static struct progress largest(char c)
{
    struct progress p = {.state = PROGRESS_EVALUATING,
                         .cause = PROGRESS_CAUSE_DATA_MISSING,
                         .slot = INT_MAX,
                         .revision = INT_MAX,
                         .step = INT64_MIN,
                         .total_steps = INT64_MIN,
                         .skipped_steps = INT64_MIN,
                         .epoch = INT_MIN,
                         .loss = -DBL_MAX / 3,
                         .tokens_per_second = -DBL_MAX / 3,
                         .eta_seconds = -DBL_MAX / 3,
                         .step_ms = -DBL_MAX / 3,
                         .best_step_ms = -DBL_MAX / 3,
                         .window = {INT_MIN, -DBL_MAX / 3, -DBL_MAX / 3},
                         .best = {-DBL_MAX / 3, INT64_MIN, INT64_MIN, INT64_MIN},
                         .ordered = {INT64_MIN, INT64_MIN},
                         .saved = {INT64_MIN, true},
                         .has_ended_early = true,
                         .n_stage_ms = SPEC_STAGES_MAX,
                         .n_metrics = PROGRESS_METRICS_MAX};

    fill_text(p.best_metric, sizeof p.best_metric, c);
    for (int i = 0; i < p.n_stage_ms; i++)
        p.stage_ms[i] = -DBL_MAX / 3;
    for (int i = 0; i < p.n_metrics; i++) {
        fill_text(p.metrics[i].name, sizeof p.metrics[i].name, c);
        p.metrics[i].name[0] = (char)('a' + i);
        p.metrics[i].value = -DBL_MAX / 3;
    }
    fill_text(p.randomly_initialized, sizeof p.randomly_initialized, c);
    fill_text(p.blas, sizeof p.blas, c);
    fill_text(p.error, sizeof p.error, c);
    return p;
}

static void progress_of_the_largest_job_fits_its_limit(void **state)
{
    static const char kinds[] = "e\"\\\n\1";

    (void)state;
    for (size_t i = 0; i + 1 < sizeof kinds; i++) {
        struct progress p = largest(kinds[i]);
        struct progress back;
        struct buf out = {.max = PROGRESS_TEXT_MAX_BYTES};
        struct err err;

        if (progress_write(&p, &out, &err) != ERR_OK)
            fail_msg("texts of 0x%02x: %s", kinds[i], err.text);
        assert_int_equal(progress_parse(out.data, out.len, &back, NULL), ERR_OK);
        assert_int_equal(back.n_metrics, PROGRESS_METRICS_MAX);
        assert_int_equal(strlen(back.error), sizeof p.error - 1);
        assert_int_equal(strlen(back.randomly_initialized), sizeof p.randomly_initialized - 1);
        buf_deinit(&out);
    }
}

static void progress_keeps_its_texts_on_one_line(void **state)
{
    struct progress p = {.state = PROGRESS_FAILED, .error = "train.tsv:\tline\n7"};
    struct progress back;
    struct buf out = {.max = PROGRESS_TEXT_MAX_BYTES};

    (void)state;
    assert_int_equal(progress_write(&p, &out, NULL), ERR_OK);
    assert_int_equal(progress_parse(out.data, out.len, &back, NULL), ERR_OK);
    assert_string_equal(back.error, "train.tsv: line 7");
    buf_deinit(&out);
}

static void progress_is_told_even_when_nothing_in_it_is_finite(void **state)
{
    struct progress p = {.state = PROGRESS_DONE,
                         .step = 3,
                         .loss = INFINITY,
                         .tokens_per_second = NAN,
                         .eta_seconds = NAN,
                         .step_ms = INFINITY,
                         .n_stage_ms = 1,
                         .stage_ms = {NAN},
                         .n_metrics = 2,
                         .metrics = {{"evalLoss", NAN}, {"accuracy", 0.5}}};
    struct progress back;
    struct buf out = {.max = PROGRESS_TEXT_MAX_BYTES};

    (void)state;
    assert_int_equal(progress_write(&p, &out, NULL), ERR_OK);
    assert_int_equal(progress_parse(out.data, out.len, &back, NULL), ERR_OK);
    assert_int_equal(back.step, 3);
    assert_true(isnan(back.loss) && back.eta_seconds < 0 && back.tokens_per_second == 0);
    assert_true(isnan(back.metrics[0].value) && back.metrics[1].value == 0.5);
    buf_deinit(&out);
}

static void progress_names_every_state_and_cause(void **state)
{
    (void)state;
    for (int s = PROGRESS_STARTING; s <= PROGRESS_FAILED; s++)
        for (int c = PROGRESS_CAUSE_NONE; c <= PROGRESS_CAUSE_OUTPUT; c++) {
            struct progress p = {.state = (enum progress_state)s, .cause = (enum progress_cause)c};
            struct progress back;
            struct buf out = {.max = PROGRESS_TEXT_MAX_BYTES};

            assert_int_equal(progress_write(&p, &out, NULL), ERR_OK);
            assert_int_equal(progress_parse(out.data, out.len, &back, NULL), ERR_OK);
            assert_int_equal(back.state, s);
            assert_int_equal(back.cause, c);
            buf_deinit(&out);
        }
}

static void progress_takes_missing_members_but_not_a_strange_state(void **state)
{
    static const char *const bad[] = {"", "[]", "{}", "{\"state\": 3, \"cause\": \"\"}",
                                      "{\"state\": \"Resting\", \"cause\": \"\"}"};
    const char *good =
        "{\"state\": \"Done\", \"cause\": \"\", \"metrics\": 5, \"stageMilliseconds\": {}}";
    struct progress p;

    (void)state;
    assert_int_equal(progress_parse(good, strlen(good), &p, NULL), ERR_OK);
    assert_int_equal(p.state, PROGRESS_DONE);
    assert_true(p.eta_seconds < 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(progress_parse(bad[i], strlen(bad[i]), &p, NULL), ERR_INVALID);
}

static void progress_keeps_no_more_than_it_has_room_for(void **state)
{
    struct progress p;
    struct buf text = {.max = 100000};

    (void)state;
    assert_int_equal(
        buf_addf(&text, NULL, "{\"state\": \"Done\", \"cause\": \"\", \"stageMilliseconds\": [1"),
        ERR_OK);
    for (int i = 0; i < 500; i++)
        assert_int_equal(buf_addf(&text, NULL, ",1"), ERR_OK);
    assert_int_equal(buf_addf(&text, NULL, "], \"metrics\": [{\"name\": \"%0200d\"}", 1), ERR_OK);
    for (int i = 0; i < 500; i++)
        assert_int_equal(buf_addf(&text, NULL, ",{\"name\": \"m%d\"}", i), ERR_OK);
    assert_int_equal(buf_addf(&text, NULL, "], \"error\": \"%0900d\"}", 1), ERR_OK);
    assert_int_equal(progress_parse(text.data, text.len, &p, NULL), ERR_OK);
    assert_int_equal(p.n_stage_ms, SPEC_STAGES_MAX);
    assert_int_equal(p.n_metrics, PROGRESS_METRICS_MAX);
    assert_int_equal(strlen(p.metrics[0].name), sizeof p.metrics[0].name - 1);
    assert_int_equal(strlen(p.error), PROGRESS_ERROR_BYTES - 1);
    buf_deinit(&text);
}

static void peers_read_back_what_was_written(void **state)
{
    struct peers p = {.revision = 5, .n = SPEC_STAGES_MAX};
    struct peers back;
    struct buf out = {.max = PEERS_TEXT_MAX_BYTES};

    (void)state;
    for (int i = 0; i < p.n; i++) {
        (void)snprintf(p.list[i].host, sizeof p.list[i].host, "2001:db8::%d", i);
        p.list[i].port = i == 0 ? 65535 : i;
    }
    assert_int_equal(peers_write(&p, &out, NULL), ERR_OK);
    assert_int_equal(peers_parse(out.data, out.len, &back, NULL), ERR_OK);
    assert_int_equal(back.revision, 5);
    assert_int_equal(back.n, SPEC_STAGES_MAX);
    for (int i = 0; i < p.n; i++) {
        assert_string_equal(back.list[i].host, p.list[i].host);
        assert_int_equal(back.list[i].port, p.list[i].port);
    }
    buf_deinit(&out);
}

static void peers_of_a_probe_have_the_names_of_their_nodes(void **state)
{
    struct peers p = {.n = NODE_LINKS_MAX + 1};
    struct peers back;
    struct buf out = {.max = PEERS_TEXT_MAX_BYTES};

    (void)state;
    for (int i = 0; i < p.n; i++) {
        (void)snprintf(p.list[i].host, sizeof p.list[i].host, "10.0.0.%d", i);
        memset(p.list[i].node, 'a' + i, NODE_NAME_BYTES - 1);
        p.list[i].port = 7071;
    }
    assert_int_equal(peers_write(&p, &out, NULL), ERR_OK);
    assert_int_equal(peers_parse(out.data, out.len, &back, NULL), ERR_OK);
    assert_int_equal(back.revision, 0);
    for (int i = 0; i < p.n; i++)
        assert_string_equal(back.list[i].node, p.list[i].node);
    buf_deinit(&out);
}

static void peers_refuse_hosts_and_ports_that_cannot_be(void **state)
{
    static const char *const bad[] = {
        "{\"peers\": [{\"host\": \"\", \"port\": 1}]}",
        "{\"peers\": [{\"port\": 1}]}",
        "{\"peers\": [{\"host\": \"a\"}]}",
        "{\"peers\": [{\"host\": \"a\", \"port\": 0}]}",
        "{\"peers\": [{\"host\": \"a\", \"port\": 65536}]}",
        "{\"peers\": [{\"host\": \"a\", \"port\": 1.5}]}",
        "{\"peers\": [{\"host\": \"a\", \"port\": \"1\"}]}",
        "{\"peers\": [7]}",
        ("{\"peers\": [{\"host\": "
         "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\", \"port\": 1}]}"),
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct peers p;

        assert_int_equal(peers_parse(bad[i], strlen(bad[i]), &p, NULL), ERR_INVALID);
    }
}

static void order_reads_back_and_refuses_what_is_no_time(void **state)
{
    static const char *const bad[] = {
        "{}", "{\"order\":0}", "{\"order\":-1}", "{\"order\":\"now\"}", "{\"order\":1e300}", "7"};
    struct buf out = {.max = PROGRESS_ORDER_BYTES};
    int64_t order = 0;

    (void)state;
    assert_int_equal(progress_order_write(9007199254740991, &out, NULL), ERR_OK);
    assert_int_equal(progress_order_parse(out.data, out.len, &order, NULL), ERR_OK);
    assert_true(order == 9007199254740991);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(progress_order_parse(bad[i], strlen(bad[i]), &order, NULL), ERR_INVALID);
    assert_true(order == 9007199254740991);
    buf_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(progress_takes_no_time_that_no_clock_can_measure),
        cmocka_unit_test(progress_keeps_the_first_of_two_metrics_of_one_name),
        cmocka_unit_test(progress_reads_back_what_was_written),
        cmocka_unit_test(progress_without_a_loss_yet_has_none_when_read_back),
        cmocka_unit_test(progress_of_the_largest_job_fits_its_limit),
        cmocka_unit_test(progress_keeps_its_texts_on_one_line),
        cmocka_unit_test(progress_is_told_even_when_nothing_in_it_is_finite),
        cmocka_unit_test(progress_names_every_state_and_cause),
        cmocka_unit_test(progress_takes_missing_members_but_not_a_strange_state),
        cmocka_unit_test(progress_keeps_no_more_than_it_has_room_for),
        cmocka_unit_test(order_reads_back_and_refuses_what_is_no_time),
        cmocka_unit_test(peers_read_back_what_was_written),
        cmocka_unit_test(peers_of_a_probe_have_the_names_of_their_nodes),
        cmocka_unit_test(peers_refuse_hosts_and_ports_that_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
