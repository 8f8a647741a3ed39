#include "api/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define SPEC                                                                                       \
    "{\"model\": {\"preset\": \"BertTiny\"}, \"data\": {\"source\": {\"sample\": \"MNLI\"}}, "     \
    "\"training\": {\"seed\": 7}}"

static struct plan two_stages(void)
{
    return (struct plan){
        .namespace = "default",
        .job = "mnli",
        .uid = "6f1c",
        .revision = 3,
        .micro_batches = 16,
        .n_workers = 2,
        .workers = {{0, 3, 0, 0, 3, "node \"a\"", 500, 1 << 28, 1.25, "the first three"},
                    {5, 1, 0, 3, 4, "b", 2000, (int64_t)1 << 40, 0.1, "the rest"}},
        .summary = {.predicted_step_ms = 12.5,
                    .bound_ms = 11.75,
                    .n_alternatives = 2,
                    .alternatives = {{"Even", 20}, {"Dynamic", 15.5}},
                    .bottleneck = 1,
                    .n_excluded = 2,
                    .excluded = {{"tiny", "it would slow the rest"}, {"far", "no memory"}},
                    .explanation = "because"}};
}

static void write_plan(const struct plan *p, struct buf *out)
{
    struct json *spec = NULL;

    assert_int_equal(json_parse(SPEC, strlen(SPEC), &spec, NULL), ERR_OK);
    assert_int_equal(plan_write(p, spec, out, NULL), ERR_OK);
    json_free(spec);
}

static void plan_reads_back_what_was_written(void **state)
{
    struct plan p = two_stages();
    struct plan back;
    struct buf out = {.max = PLAN_TEXT_MAX_BYTES};

    (void)state;
    write_plan(&p, &out);
    assert_int_equal(plan_parse(out.data, out.len, &back, NULL), ERR_OK);
    assert_string_equal(back.namespace, p.namespace);
    assert_string_equal(back.job, p.job);
    assert_string_equal(back.uid, p.uid);
    assert_string_equal(back.summary.explanation, p.summary.explanation);
    assert_int_equal(back.revision, 3);
    assert_int_equal(back.spec.training.seed, 7);
    assert_int_equal(back.micro_batches, 16); /* planned; the spec has none */
    assert_int_equal(back.spec.training.micro_batches, 0);
    assert_int_equal(back.spec.model.layers, 2);
    assert_int_equal(back.n_workers, 2);
    for (int s = 0; s < 2; s++) {
        assert_int_equal(back.workers[s].slot, p.workers[s].slot);
        assert_int_equal(back.workers[s].incarnation, p.workers[s].incarnation);
        assert_int_equal(plan_find(&back, p.workers[s].slot), s);
        assert_int_equal(back.workers[s].first_unit, p.workers[s].first_unit);
        assert_int_equal(back.workers[s].n_units, p.workers[s].n_units);
        assert_string_equal(back.workers[s].node, p.workers[s].node);
        assert_string_equal(back.workers[s].units, p.workers[s].units);
        assert_int_equal(back.workers[s].cpu_milli, p.workers[s].cpu_milli);
        assert_true(back.workers[s].memory_bytes == p.workers[s].memory_bytes);
        assert_true(back.workers[s].predicted_ms == p.workers[s].predicted_ms);
    }
    assert_true(back.summary.predicted_step_ms == 12.5);
    assert_true(back.summary.bound_ms == 11.75);
    assert_int_equal(back.summary.n_alternatives, 2);
    assert_true(back.summary.alternatives[1].step_ms == 15.5);
    assert_int_equal(back.summary.bottleneck, 1);
    assert_int_equal(back.summary.n_excluded, 2);
    assert_memory_equal(back.summary.excluded, p.summary.excluded, sizeof back.summary.excluded);
    buf_deinit(&out);
}

/* Of five stages on nodes a, a, b, b and c. */
static void plan_keepers_are_the_next_stages_on_other_nodes(void **state)
{
    static const char *const nodes[] = {"a", "a", "b", "b", "c"};
    static const int want[] = {2, 2, 4, 4, 0};
    struct plan p = {.n_workers = 5};
    int keepers[SPEC_STAGES_MAX];

    (void)state;
    for (int s = 0; s < 5; s++)
        (void)snprintf(p.workers[s].node, sizeof p.workers[s].node, "%s", nodes[s]);
    plan_keepers(&p, keepers);
    for (int s = 0; s < 5; s++)
        assert_int_equal(keepers[s], want[s]);
    assert_true(plan_has_keepers(&p));
    p.n_workers = 2;
    plan_keepers(&p, keepers);
    assert_false(plan_has_keepers(&p));
    p.spec.checkpoint.is_on = true;
    assert_true(plan_saves(&p));
    p.spec.checkpoint.is_peers = true;
    assert_false(plan_saves(&p));
    assert_int_equal(keepers[0], -1);
    assert_int_equal(keepers[1], -1);
}

/* The last of 64 stages is alone on its node. */
static void plan_keepers_keep_for_a_bounded_number_of_stages(void **state)
{
    struct plan p = {.n_workers = SPEC_STAGES_MAX};
    int keepers[SPEC_STAGES_MAX];
    int n = 0;

    (void)state;
    p.workers[SPEC_STAGES_MAX - 1].node[0] = 'b';
    plan_keepers(&p, keepers);
    for (int s = 0; s < SPEC_STAGES_MAX; s++)
        n += keepers[s] == SPEC_STAGES_MAX - 1;
    assert_int_equal(n, PLAN_KEPT_MAX);
    assert_int_equal(keepers[PLAN_KEPT_MAX], -1);
    assert_int_equal(keepers[SPEC_STAGES_MAX - 1], 0);
}

static void plan_hash_differs_by_job_revision_workers_and_cut_only(void **state)
{
    struct plan a = two_stages();
    struct plan b = two_stages();

    (void)state;
    b.workers[0].predicted_ms = 99;
    assert_true(plan_hash(&a) == plan_hash(&b));
    b.revision = 4;
    assert_true(plan_hash(&a) != plan_hash(&b));
    b = a;
    b.workers[1].incarnation = 2;
    assert_true(plan_hash(&a) != plan_hash(&b));
    b = a;
    b.workers[1].slot = 1;
    assert_true(plan_hash(&a) != plan_hash(&b));
    b = a;
    b.workers[0].n_units = 4;
    b.workers[1].n_units = 3;
    assert_true(plan_hash(&a) != plan_hash(&b));
    b = a;
    b.uid[0] = 'x';
    assert_true(plan_hash(&a) != plan_hash(&b));
}

static void refuse(const struct plan *p, const char *says)
{
    struct plan back = {.revision = 99};
    struct buf out = {.max = PLAN_TEXT_MAX_BYTES};
    struct err err = {0};

    write_plan(p, &out);
    assert_int_equal(plan_parse(out.data, out.len, &back, &err), ERR_INVALID);
    if (!strstr(err.text, says))
        fail_msg("said \"%s\"", err.text);
    assert_int_equal(back.revision, 99);
    buf_deinit(&out);
}

static void plan_has_the_sizes_of_the_model_it_starts_from(void **state)
{
    static const char from[] = "{\"data\":{\"source\":{\"sample\":\"MNLI\"}},\"model\":{\"from\":"
                               "{\"persistentVolumeClaim\":{\"claimName\":\"a\"}}}}";
    struct plan p = two_stages();
    struct plan back;
    struct buf out = {.max = PLAN_TEXT_MAX_BYTES};
    struct json *spec = NULL;
    struct err err;

    (void)state;
    assert_int_equal(json_parse(from, sizeof from - 1, &spec, NULL), ERR_OK);
    assert_int_equal(plan_write(&p, spec, &out, NULL), ERR_OK);
    assert_int_equal(plan_parse(out.data, out.len, &back, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "spec.model: must have the sizes of the model"));
    json_free(spec);
    buf_deinit(&out);
}

static void plan_workers_have_a_slot_and_incarnation_each(void **state)
{
    struct plan p = two_stages();

    (void)state;
    p.workers[1].slot = 0;
    refuse(&p, "workers[1].slot: 0 is given twice");
    p.workers[1].slot = PLAN_SLOT_MAX + 1;
    refuse(&p, "workers[1].slot: 1000 is not in 0..999");
    p = two_stages();
    p.workers[0].incarnation = 0;
    refuse(&p, "workers[0].incarnation: 0 is not in 1..");
    p = two_stages();
    p.workers[1].replica = 1;
    refuse(&p, "workers[1].replica: 1, but there is one");
    p = two_stages();
    p.revision = 0;
    refuse(&p, "revision: 0 is not in 1..");
    assert_int_equal(plan_find(&p, 1), -1);
}

static void plan_workers_must_have_every_unit_once(void **state)
{
    struct plan p = two_stages();

    (void)state;
    p.workers[1].n_units = 3;
    refuse(&p, "workers: have 6 of 7 units");
    p.workers[1].n_units = 5;
    refuse(&p, "workers[1]: has 5 units from unit 3; must have 1 to 4 from unit 3");
    p = two_stages();
    p.workers[1].first_unit = 2;
    refuse(&p, "workers[1]: has 4 units from unit 2");
    p = two_stages();
    p.workers[0].n_units = 0;
    refuse(&p, "workers[0]: has 0 units");
    p.n_workers = 0;
    refuse(&p, "workers: have 0 of 7 units");
}

static void plan_micro_batches_must_divide_the_batch(void **state)
{
    struct plan p = two_stages();

    (void)state;
    p.micro_batches = 0;
    refuse(&p, "microBatches: 0 does not divide a batch of 32");
    p.micro_batches = -8;
    refuse(&p, "microBatches: -8");
    p.micro_batches = 5;
    refuse(&p, "microBatches: 5");
}

static void plan_is_pipelined_unless_it_says_serial(void **state)
{
    struct plan p = two_stages();
    struct plan back = {.is_serial = true};

    (void)state;
    for (int serial = 0; serial < 2; serial++) {
        struct buf out = {.max = PLAN_TEXT_MAX_BYTES};

        p.is_serial = serial;
        write_plan(&p, &out);
        assert_int_equal(plan_parse(out.data, out.len, &back, NULL), ERR_OK);
        assert_int_equal(back.is_serial, serial);
        buf_deinit(&out);
    }
}

/* Whatever is cut off or garbled must end in an error, never in a crash. */
static void plan_survives_every_cut_and_flip_of_its_text(void **state)
{
    struct plan p = two_stages();
    struct plan back;
    struct buf out = {.max = PLAN_TEXT_MAX_BYTES};

    (void)state;
    write_plan(&p, &out);
    for (size_t n = 0; n < out.len; n++)
        assert_int_not_equal(plan_parse(out.data, n, &back, NULL), ERR_OK);
    for (size_t i = 0; i < out.len; i++) {
        char was = out.data[i];

        out.data[i] = (char)(was ^ 1);
        (void)!plan_parse(out.data, out.len, &back, NULL);
        out.data[i] = was;
    }
    buf_deinit(&out);
}

static void plan_refuses_more_workers_than_there_may_be(void **state)
{
    struct plan back;
    struct err err;
    struct buf out = {.max = PLAN_TEXT_MAX_BYTES};

    (void)state;
    assert_int_equal(
        buf_addf(
            &out, NULL,
            "{\"version\": 2, \"revision\": 1, \"namespace\": \"\", \"job\": \"\", \"uid\": \"\", "
            "\"explanation\": \"\", \"microBatches\": 8, \"spec\": {\"model\": {\"layers\": 100}, "
            "\"data\": {\"source\": {\"sample\": \"MNLI\"}}}, \"workers\": ["),
        ERR_OK);
    for (int s = 0; s <= SPEC_STAGES_MAX; s++)
        assert_int_equal(buf_addf(&out, NULL,
                                  "%s{\"slot\": %d, \"incarnation\": 1, \"node\": \"a\", "
                                  "\"firstUnit\": %d, \"unitCount\": 1}",
                                  s ? "," : "", s, s),
                         ERR_OK);
    assert_int_equal(buf_addf(&out, NULL, "]}"), ERR_OK);
    assert_int_equal(plan_parse(out.data, out.len, &back, &err), ERR_INVALID);
    assert_string_equal(err.text, "plan: workers: must have 0..64 entries, found 65");
    buf_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan_reads_back_what_was_written),
        cmocka_unit_test(plan_keepers_are_the_next_stages_on_other_nodes),
        cmocka_unit_test(plan_keepers_keep_for_a_bounded_number_of_stages),
        cmocka_unit_test(plan_hash_differs_by_job_revision_workers_and_cut_only),
        cmocka_unit_test(plan_has_the_sizes_of_the_model_it_starts_from),
        cmocka_unit_test(plan_workers_have_a_slot_and_incarnation_each),
        cmocka_unit_test(plan_workers_must_have_every_unit_once),
        cmocka_unit_test(plan_micro_batches_must_divide_the_batch),
        cmocka_unit_test(plan_is_pipelined_unless_it_says_serial),
        cmocka_unit_test(plan_survives_every_cut_and_flip_of_its_text),
        cmocka_unit_test(plan_refuses_more_workers_than_there_may_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
