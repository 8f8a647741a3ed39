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
    p.spec.sync.chosen = SPEC_PROTOCOL_LOCAL; /* not a part of the spec's own text */
    write_plan(&p, &out);
    assert_int_equal(plan_parse(out.data, out.len, &back, NULL), ERR_OK);
    assert_int_equal(back.spec.sync.chosen, SPEC_PROTOCOL_LOCAL);
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
    refuse(&p, "workers[1].replica: 1, but replica 0 has ");
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
    refuse(&p, "workers: replica 0 has 6 of 7 units");
    p.workers[1].n_units = 5;
    refuse(&p, "workers[1]: has 5 units from unit 3; must have 1 to 4 from unit 3");
    p = two_stages();
    p.workers[1].first_unit = 2;
    refuse(&p, "workers[1]: has 4 units from unit 2");
    p = two_stages();
    p.workers[0].n_units = 0;
    refuse(&p, "workers[0]: has 0 units");
    p.n_workers = 0;
    refuse(&p, "workers: replica 0 has 0 of 7 units");
}

/* Two replicas of BERT-tiny's 7 units: one of two stages, one of three. */
static struct plan two_replicas(void)
{
    struct plan p = two_stages();

    p.n_shares = 2;
    p.shares[0] = 10;
    p.shares[1] = 6;
    p.n_workers = 5;
    p.workers[2] = (struct plan_worker){7, 1, 1, 0, 2, "c", 500, 1 << 28, 1, ""};
    p.workers[3] = (struct plan_worker){8, 1, 1, 2, 3, "d", 500, 1 << 28, 1, ""};
    p.workers[4] = (struct plan_worker){9, 1, 1, 5, 2, "e", 500, 1 << 28, 1, ""};
    return p;
}

static void plan_replicas_are_read_back_with_their_shares(void **state)
{
    struct plan p = two_replicas();
    struct plan back;
    struct buf out = {.max = PLAN_TEXT_MAX_BYTES};
    struct plan_replica r;

    (void)state;
    write_plan(&p, &out);
    assert_int_equal(plan_parse(out.data, out.len, &back, NULL), ERR_OK);
    buf_deinit(&out);
    assert_int_equal(plan_n_replicas(&back), 2);
    assert_int_equal(back.n_shares, 2);
    assert_int_equal(back.shares[1], 6);
    assert_int_not_equal(plan_hash(&back), plan_hash(&(struct plan){.n_workers = 0}));
    r = plan_replica(&back, 1);
    assert_int_equal(r.first_worker, 2);
    assert_int_equal(r.n_stages, 3);
    assert_int_equal(r.first_share, 1);
    assert_int_equal(r.n_shares, 1);
}

static void plan_replicas_must_be_whole_and_have_a_share_each(void **state)
{
    struct plan p = two_replicas();

    (void)state;
    p.workers[2].replica = 0;
    refuse(&p, "workers[2]: has 2 units from unit 0; must have 1 to 0 from unit 7");
    p = two_replicas();
    p.workers[1].replica = 1;
    refuse(&p, "workers[1].replica: 1, but replica 0 has 3 of 7 units before it");
    p = two_replicas();
    p.n_workers = 4;
    refuse(&p, "workers: replica 1 has 5 of 7 units");
    p = two_replicas();
    p.n_shares = 0;
    refuse(&p, "shares: there are 0 for 2 replicas");
    p = two_replicas();
    p.shares[0] = 9;
    refuse(&p, "shares: have 15 of 16 micro-batches");
    p = two_replicas();
    p.shares[0] = 0;
    refuse(&p, "shares[0]: 0 is not in 1..");
}

/* A step of fewer sequences has fewer micro-batches. */
static void plan_shares_of_a_short_step_end_with_it(void **state)
{
    struct plan p = two_replicas();

    (void)state;
    assert_int_equal(plan_share_begin(&p, 0, 16), 0);
    assert_int_equal(plan_share_begin(&p, 1, 16), 10);
    assert_int_equal(plan_share_begin(&p, 2, 16), 16);
    assert_int_equal(plan_share_begin(&p, 1, 12), 10);
    assert_int_equal(plan_share_begin(&p, 2, 12), 12);
    assert_int_equal(plan_share_begin(&p, 1, 7), 7);
    assert_int_equal(plan_share_begin(&p, 2, 7), 7);
    assert_int_equal(plan_microbatches(&p, 0, 16), 10);
    assert_int_equal(plan_microbatches(&p, 1, 16), 6);
    assert_int_equal(plan_microbatches(&p, 2, 16), 0);
    p.n_shares = 0;
    assert_int_equal(plan_share_begin(&p, 0, 7), 0);
    assert_int_equal(plan_share_begin(&p, 1, 7), 7);
}

/* Every unit is at home once, at a worker that runs it, and a worker is the home of one run of
 * units at the most. */
static void check_homes(const struct plan *p)
{
    struct plan_home homes[SPEC_STAGES_MAX], home;
    int n = plan_homes(p, homes);
    bool has_home[SPEC_STAGES_MAX] = {false};
    int unit = 0;

    assert_int_equal(homes[0].worker, 0);
    for (int i = 0; i < n; i++) {
        const struct plan_worker *w = &p->workers[homes[i].worker];

        assert_int_equal(homes[i].first_unit, unit);
        assert_true(homes[i].n_units > 0);
        assert_true(homes[i].first_unit >= w->first_unit);
        unit += homes[i].n_units;
        assert_true(unit <= w->first_unit + w->n_units);
        assert_false(has_home[homes[i].worker]);
        has_home[homes[i].worker] = true;
        assert_int_equal(plan_home(p, homes[i].worker, &home), i);
        assert_memory_equal(&home, &homes[i], sizeof home);
    }
    assert_int_equal(unit, model_units(&p->spec.model));
    for (int i = 0; i < p->n_workers; i++)
        if (!has_home[i])
            assert_int_equal(plan_home(p, i, &home), -1);
}

static int add_replica(struct plan *p, int replica, int first_cut, int second_cut)
{
    int n_units = model_units(&p->spec.model);
    const int cuts[] = {0, first_cut, second_cut, n_units};

    for (int i = 0; i < 3; i++)
        if (cuts[i] < cuts[i + 1])
            p->workers[p->n_workers++] = (struct plan_worker){
                .replica = replica, .first_unit = cuts[i], .n_units = cuts[i + 1] - cuts[i]};
    return p->n_workers;
}

static void plan_homes_are_whole_for_every_cut_of_two_replicas(void **state)
{
    static struct plan p;

    (void)state;
    assert_int_equal(model_preset("BertTiny", &p.spec.model, NULL), ERR_OK);
    p.spec.model.layers = 5;
    p.micro_batches = 4;
    p.n_shares = 2;
    p.homes_follow_shares = true;
    for (int a = 1, n = model_units(&p.spec.model); a <= n; a++)
        for (int b = a; b <= n; b++)
            for (int c = 1; c <= n; c++)
                for (int d = c; d <= n; d++) {
                    p.n_workers = 0;
                    (void)add_replica(&p, 0, a, b);
                    (void)add_replica(&p, 1, c, d);
                    for (int share = 1; share < 4; share++) { /* of one, of both, of the other */
                        p.shares[0] = share;
                        p.shares[1] = 4 - share;
                        check_homes(&p);
                    }
                }
}

static const struct model twelve_layers = {.vocab = 1000,
                                           .hidden = 64,
                                           .layers = 12,
                                           .heads = 2,
                                           .ffn = 256,
                                           .positions = 64,
                                           .labels = 2};

/* As far as a unit can be a fair part. */
static void plan_homes_are_spread_evenly_over_replicas_that_are_cut_alike(void **state)
{
    static struct plan p;
    struct plan_home homes[SPEC_STAGES_MAX];
    double total = 0, most = 0;
    int n;

    (void)state;
    p.spec.model = twelve_layers;
    p.n_workers = 0;
    for (int r = 0; r < 3; r++)
        (void)add_replica(&p, r, 9, 18);
    n = plan_homes(&p, homes);
    assert_int_equal(n, 9);
    for (int i = 0; i < n; i++) {
        double params = 0;

        for (int u = homes[i].first_unit; u < homes[i].first_unit + homes[i].n_units; u++)
            params += (double)model_unit_params(&p.spec.model, u);
        total += params;
        most = params > most ? params : most;
    }
    if (most >= 1.4 * total / n)
        fail_msg("%.0f of a mean of %.0f", most, total / n);
}

/* Two of a kind, one that is half as fast, and one with a quarter of their speed. */
static void plan_homes_may_follow_the_shares_of_replicas(void **state)
{
    static struct plan p;
    struct plan_home homes[SPEC_STAGES_MAX];
    double params[4] = {0};

    (void)state;
    p.spec.model = twelve_layers;
    p.n_workers = 0;
    p.micro_batches = 11;
    p.n_shares = 4;
    memcpy(p.shares, (const int[]){4, 4, 2, 1}, 4 * sizeof(int));
    p.homes_follow_shares = true;
    for (int r = 0; r < 4; r++)
        (void)add_replica(&p, r, 9, 18);
    for (int i = 0, n = plan_homes(&p, homes); i < n; i++)
        for (int u = homes[i].first_unit; u < homes[i].first_unit + homes[i].n_units; u++)
            params[p.workers[homes[i].worker].replica] +=
                (double)model_unit_params(&p.spec.model, u);
    assert_true(params[3] == 0);
    assert_true(params[2] > 0.3 * params[0] && params[2] < 0.7 * params[0]);
    assert_true(params[1] > 0.7 * params[0] && params[1] < 1.4 * params[0]);
}

static void plan_homes_of_one_replica_are_its_stages(void **state)
{
    struct plan p = two_stages();
    struct plan_home homes[SPEC_STAGES_MAX];

    (void)state;
    assert_int_equal(model_preset("BertTiny", &p.spec.model, NULL), ERR_OK);
    assert_int_equal(plan_homes(&p, homes), 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(homes[i].worker, i);
        assert_int_equal(homes[i].first_unit, p.workers[i].first_unit);
        assert_int_equal(homes[i].n_units, p.workers[i].n_units);
    }
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
        cmocka_unit_test(plan_replicas_are_read_back_with_their_shares),
        cmocka_unit_test(plan_replicas_must_be_whole_and_have_a_share_each),
        cmocka_unit_test(plan_shares_of_a_short_step_end_with_it),
        cmocka_unit_test(plan_homes_are_whole_for_every_cut_of_two_replicas),
        cmocka_unit_test(plan_homes_are_spread_evenly_over_replicas_that_are_cut_alike),
        cmocka_unit_test(plan_homes_may_follow_the_shares_of_replicas),
        cmocka_unit_test(plan_homes_of_one_replica_are_its_stages),
        cmocka_unit_test(plan_micro_batches_must_divide_the_batch),
        cmocka_unit_test(plan_is_pipelined_unless_it_says_serial),
        cmocka_unit_test(plan_survives_every_cut_and_flip_of_its_text),
        cmocka_unit_test(plan_refuses_more_workers_than_there_may_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
