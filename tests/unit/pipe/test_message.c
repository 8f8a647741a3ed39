#include "pipe/message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MAX_SEQS   4
#define MAX_LENGTH 10
#define LABELS     3

static _Alignas(8) char bytes[4096];

static size_t write_good(void)
{
    static const int32_t starts[] = {0, 3, 13, 14};
    static const int32_t labels[] = {0, 2, 1};
    static const uint32_t samples[] = {5, 4000000000u, 0};
    struct message_batch b = {3, 14, starts, labels, samples};
    size_t n = message_batch_write(&b, bytes);

    assert_true(n <= message_max_bytes(3));
    return n;
}

static enum err_code read_batch(size_t n, struct message_batch *out)
{
    return message_batch_read(bytes, n, MAX_SEQS, MAX_LENGTH, LABELS, out, NULL);
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
            assert_int_equal(b.starts[b.n_seqs], b.n_tokens);
            for (int i = 0; i < b.n_seqs; i++) {
                assert_in_range(b.starts[i + 1] - b.starts[i], 1, MAX_LENGTH);
                assert_in_range(b.labels[i], 0, LABELS - 1);
            }
        }
    }
}

static void message_sums_read_back_and_check_their_stage_count(void **state)
{
    struct message_sum sum = {.square_sum = 0.1, .n_stages = 2, .stage_ms = {1.5, 2.5}};
    struct message_sum got;
    size_t n = message_sum_write(&sum, bytes);

    (void)state;
    assert_int_equal(message_sum_read(bytes, n, &got, NULL), ERR_OK);
    assert_memory_equal(&got, &sum, sizeof sum);
    assert_int_equal(message_sum_read(bytes, n - 1, &got, NULL), ERR_PROTOCOL);
    sum.n_stages = SPEC_STAGES_MAX;
    n = message_sum_write(&sum, bytes);
    assert_int_equal(message_sum_read(bytes, n, &got, NULL), ERR_PROTOCOL);
}

static void message_end_and_facts_refuse_what_cannot_be(void **state)
{
    struct message_end end = {.loss_sum = 3, .n_samples = 12, .n_stages = 1};
    struct message_facts facts = {.total_steps = 10, .steps_per_epoch = 5};
    struct message_end got_end;
    struct message_facts got_facts;

    (void)state;
    assert_int_equal(message_end_read(bytes, message_end_write(&end, bytes), &got_end, NULL),
                     ERR_OK);
    assert_true(got_end.loss_sum == 3);
    end.n_stages = -1;
    assert_int_equal(message_end_read(bytes, message_end_write(&end, bytes), &got_end, NULL),
                     ERR_PROTOCOL);
    assert_int_equal(
        message_facts_read(bytes, message_facts_write(&facts, bytes), &got_facts, NULL), ERR_OK);
    facts.total_steps = 0;
    assert_int_equal(
        message_facts_read(bytes, message_facts_write(&facts, bytes), &got_facts, NULL),
        ERR_PROTOCOL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(message_batch_reads_back_what_was_written),
        cmocka_unit_test(message_batch_of_any_other_length_is_refused),
        cmocka_unit_test(message_batch_with_any_wrong_number_is_refused_or_in_bounds),
        cmocka_unit_test(message_sums_read_back_and_check_their_stage_count),
        cmocka_unit_test(message_end_and_facts_refuse_what_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
