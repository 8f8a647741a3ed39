#include "train/message.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MAX_SEQS   4
#define MAX_LENGTH 10
#define LABELS     3

#define TARGETS 5
#define VOCAB   50

static const struct message_limits limits = {.seqs = MAX_SEQS,
                                             .step_seqs = 2 * MAX_SEQS,
                                             .length = MAX_LENGTH,
                                             .labels = LABELS,
                                             .targets = TARGETS,
                                             .vocab = VOCAB};
static _Alignas(8) char bytes[4096];

static size_t write_good(void)
{
    static const int32_t starts[] = {0, 3, 13, 14};
    static const int32_t labels[] = {0, 2, 1};
    static const uint32_t samples[] = {5, 4000000000u, 0};
    static const int32_t rows[] = {0, 4, 13};
    static const int32_t target_ids[] = {7, 0, VOCAB - 1};
    struct message_batch b = {.n_seqs = 3,
                              .n_tokens = 14,
                              .n_targets = 3,
                              .step_seqs = 5,
                              .step_targets = 8,
                              .starts = starts,
                              .labels = labels,
                              .samples = samples,
                              .rows = rows,
                              .target_ids = target_ids};
    size_t n = message_batch_write(&b, bytes);

    assert_true(n <= message_max_bytes(&limits, 7));
    return n;
}

static enum err_code read_batch(size_t n, struct message_batch *out)
{
    return message_batch_read(bytes, n, &limits, out, NULL);
}

static void message_batch_reads_back_what_was_written(void **state)
{
    struct message_batch b;

    (void)state;
    assert_int_equal(read_batch(write_good(), &b), ERR_OK);
    assert_int_equal(b.n_seqs, 3);
    assert_int_equal(b.n_tokens, 14);
    assert_int_equal(b.starts[2], 13);
    assert_int_equal(b.labels[1], 2);
    assert_int_equal(b.samples[1], 4000000000u);
    assert_null(b.scores);
    assert_int_equal(b.n_targets, 3);
    assert_int_equal(b.step_seqs, 5);
    assert_int_equal(b.step_targets, 8);
    assert_int_equal(b.rows[2], 13);
    assert_int_equal(b.target_ids[0], 7);
}

static void message_batch_carries_the_scores_of_a_regression(void **state)
{
    static const int32_t starts[] = {0, 2, 3};
    static const uint32_t samples[] = {1, 2};
    float scores[] = {-0.5f, 4.25f};
    struct message_batch b = {.n_seqs = 2,
                              .n_tokens = 3,
                              .step_seqs = 2,
                              .starts = starts,
                              .scores = scores,
                              .samples = samples};
    struct message_limits numbers = {.seqs = MAX_SEQS, .step_seqs = MAX_SEQS, .length = MAX_LENGTH};
    size_t n = message_batch_write(&b, bytes);
    struct message_batch got;

    (void)state;
    assert_int_equal(message_batch_read(bytes, n, &numbers, &got, NULL), ERR_OK);
    assert_null(got.labels);
    assert_memory_equal(got.scores, scores, sizeof scores);
    scores[1] = INFINITY;
    n = message_batch_write(&b, bytes);
    assert_int_equal(message_batch_read(bytes, n, &numbers, &got, NULL), ERR_PROTOCOL);
}

static void message_batch_of_any_other_length_is_refused(void **state)
{
    size_t n = write_good();
    struct message_batch b;

    (void)state;
    for (size_t cut = 0; cut < sizeof bytes; cut++)
        if (cut != n)
            assert_int_equal(read_batch(cut, &b), ERR_PROTOCOL);
}

static void message_batch_with_any_wrong_number_is_refused_or_in_bounds(void **state)
{
    static const int32_t hostile[] = {-1, 0, 1, 2, 5, 100, INT32_MAX, INT32_MIN};
    size_t n = write_good();
    char good[256];
    char back[256];

    (void)state;
    memcpy(good, bytes, n);
    for (size_t at = 0; at + 4 <= n; at += 4) {
        for (size_t h = 0; h < sizeof hostile / sizeof hostile[0]; h++) {
            struct message_batch b;

            memcpy(bytes, good, n);
            memcpy(bytes + at, &hostile[h], 4);
            if (read_batch(n, &b) != ERR_OK)
                continue;
            assert_in_range(b.n_seqs, 1, MAX_SEQS);
            assert_in_range(b.step_seqs, b.n_seqs, limits.step_seqs);
            assert_int_equal(b.starts[b.n_seqs], b.n_tokens);
            for (int i = 0; i < b.n_seqs; i++) {
                assert_in_range(b.starts[i + 1] - b.starts[i], 1, MAX_LENGTH);
                assert_in_range(b.labels[i], 0, LABELS - 1);
            }
            assert_in_range(b.n_targets, 0, TARGETS);
            for (int i = 0; i < b.n_targets; i++) {
                assert_in_range(b.rows[i], i > 0 ? b.rows[i - 1] + 1 : 0, b.n_tokens - 1);
                assert_in_range(b.target_ids[i], 0, VOCAB - 1);
            }
            assert_int_equal(message_batch_write(&b, back), n);
            assert_memory_equal(back, bytes, n); /* each has one form */
        }
    }
}

static void message_sum_checks_its_times(void **state)
{
    struct message_sum sum = {.n_units = 3, .n_stages = 2, .stage_ms = {1.5, 2.5}};

    (void)state;
    assert_int_equal(message_sum_check(&sum, NULL), ERR_OK);
    sum.stage_ms[1] = (double)NAN;
    assert_int_equal(message_sum_check(&sum, NULL), ERR_PROTOCOL);
    sum.stage_ms[1] = 2.5;
    sum.stage_mad_ms[0] = -1;
    assert_int_equal(message_sum_check(&sum, NULL), ERR_PROTOCOL);
    sum.stage_mad_ms[0] = 0;
    sum.n_stages = SPEC_STAGES_MAX; /* the receiver could not add its own */
    assert_int_equal(message_sum_check(&sum, NULL), ERR_PROTOCOL);
    sum.n_stages = 2;
    sum.n_units = MODEL_UNITS_MAX + 1;
    assert_int_equal(message_sum_check(&sum, NULL), ERR_PROTOCOL);
    assert_true(message_sum_bytes(MODEL_UNITS_MAX) == sizeof sum);
}

static void message_end_and_facts_refuse_what_cannot_be(void **state)
{
    static const struct message_end good = {
        .end = {.revision = 1, .step = 7, .scale = 0.5, .rate = 1e-3, .updates = 6, .loss = 0.25},
        .n_stages = 1};
    struct message_end end[19];
    static const struct progress_best bests[] = {{.step = -1},
                                                 {.step = 1}, /* of no lineage */
                                                 {.value = (double)NAN},
                                                 {.n_since = -1},
                                                 {.step = INT64_MAX, .lineage = 1}};
    struct message_eval eval = {.n_metrics = MESSAGE_METRICS_MAX};
    struct message_loss loss = {.sum = 3, .n = 12, .n_seqs = 12};
    struct message_facts facts = {.version = MESSAGE_VERSION,
                                  .total_steps = 10,
                                  .steps_per_epoch = 5,
                                  .last_seqs = 3,
                                  .n_splits = 1,
                                  .splits = {{.n_samples = 7, .n_batches = 2}}};

    (void)state;
    assert_true(message_loss_mean(&loss) == 0.25);
    for (size_t i = 0; i < sizeof end / sizeof end[0]; i++)
        end[i] = good;
    end[0].end.loss = (double)NAN; /* of a step that is skipped */
    end[0].end.outcome = STEP_SKIP;
    assert_int_equal(message_end_check(&end[0], NULL), ERR_OK);
    end[1].stage_ms[0] = (double)INFINITY;
    end[2].n_stages = -1;
    end[3].end.step = 0;
    end[4].end.updates = 7; /* no more than one per step */
    end[5].end.scale = (double)NAN;
    end[6].end.outcome = (enum step_outcome)3;
    end[7].end.rate = (double)INFINITY;
    end[8].ticket.next = -2;
    end[9].ticket.share = 1.5;
    end[10].ticket.share = (double)NAN;
    end[11].ticket.steps_done = -1;
    end[12].ticket.staleness = (double)INFINITY;
    end[13].ticket_ms[1] = -1;
    end[14].next.protocol = SPEC_PROTOCOL_SWITCH;
    end[15].next.protocol = -1;
    end[16].next.n_steps = -1;
    end[17].next.shares[3] = -1;
    end[18].next.lag_ms = (double)NAN;
    for (size_t i = 1; i < sizeof end / sizeof end[0]; i++)
        assert_int_equal(message_end_check(&end[i], NULL), ERR_PROTOCOL);
    assert_int_equal(message_eval_check(&eval, NULL), ERR_OK);
    eval.n_metrics++;
    assert_int_equal(message_eval_check(&eval, NULL), ERR_PROTOCOL);
    assert_int_equal(message_facts_check(&facts, NULL), ERR_OK);
    facts.version++;
    assert_int_equal(message_facts_check(&facts, NULL), ERR_PROTOCOL);
    facts.version--;
    facts.last_seqs = 0;
    assert_int_equal(message_facts_check(&facts, NULL), ERR_PROTOCOL);
    facts.last_seqs = 3;
    facts.splits[0].n_batches = 8;
    assert_int_equal(message_facts_check(&facts, NULL), ERR_PROTOCOL);
    facts.splits[0].n_batches = 2;
    facts.splits[0].place = MESSAGE_SPLITS_MAX / 2;
    assert_int_equal(message_facts_check(&facts, NULL), ERR_PROTOCOL);
    facts.splits[0].place = 0;
    facts.total_steps = -1;
    assert_int_equal(message_facts_check(&facts, NULL), ERR_PROTOCOL);
    facts.total_steps = 10;
    eval.n_metrics--;
    eval.best = facts.best =
        (struct progress_best){.value = -1, .lineage = 2, .step = 10, .n_since = 3};
    assert_int_equal(message_facts_check(&facts, NULL), ERR_OK);
    assert_int_equal(message_eval_check(&eval, NULL), ERR_OK);
    for (size_t i = 0; i < sizeof bests / sizeof bests[0]; i++) {
        eval.best = facts.best = bests[i];
        assert_int_equal(message_facts_check(&facts, NULL), ERR_PROTOCOL);
        assert_int_equal(message_eval_check(&eval, NULL), ERR_PROTOCOL);
    }
}

static void message_stop_refuses_what_cannot_be(void **state)
{
    struct message_stop stop = {.failed_stage = 2, .why = "write /out: no space"};

    (void)state;
    assert_int_equal(message_stop_check(&stop, NULL), ERR_OK);
    stop.failed_stage = SPEC_STAGES_MAX;
    assert_int_equal(message_stop_check(&stop, NULL), ERR_PROTOCOL);
    stop.failed_stage = -1;
    memset(stop.why, 'x', sizeof stop.why);
    assert_int_equal(message_stop_check(&stop, NULL), ERR_PROTOCOL);
}

static void a_push_that_no_optimizer_can_apply_is_refused(void **state)
{
    const struct message_push good = {
        .is_applied = 1, .rate = 1e-3, .scale = 2, .share = 0.5, .updates = 3};
    const struct message_push left_out = {.is_last = 1};
    struct message_push bad[7];

    (void)state;
    assert_int_equal(message_push_check(&good, NULL), ERR_OK);
    assert_int_equal(message_push_check(&left_out, NULL), ERR_OK);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        bad[i] = good;
    bad[0].share = 0; /* AdamW's bias correction would divide by it */
    bad[1].share = 2;
    bad[2].rate = (double)NAN;
    bad[3].scale = (double)INFINITY;
    bad[4].updates = -1;
    bad[5].is_applied = 2;
    bad[6].is_last = -1;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(message_push_check(&bad[i], NULL), ERR_PROTOCOL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(message_batch_reads_back_what_was_written),
        cmocka_unit_test(message_batch_carries_the_scores_of_a_regression),
        cmocka_unit_test(message_batch_of_any_other_length_is_refused),
        cmocka_unit_test(message_batch_with_any_wrong_number_is_refused_or_in_bounds),
        cmocka_unit_test(message_sum_checks_its_times),
        cmocka_unit_test(message_end_and_facts_refuse_what_cannot_be),
        cmocka_unit_test(message_stop_refuses_what_cannot_be),
        cmocka_unit_test(a_push_that_no_optimizer_can_apply_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
