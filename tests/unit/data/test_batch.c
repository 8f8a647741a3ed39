#include "data/batch.h"

#include "scratch.h"

#define SEQS       4
#define MAX_LENGTH 8

/* Samples of 5, 8, 6 and 7 tokens; token k of sample i is 100 i + k. */
static struct dataset small_set(void)
{
    static int32_t ids[26];
    static uint64_t starts[] = {0, 5, 13, 19, 26};
    static uint16_t second[] = {3, 4, 2, 6};
    static uint8_t labels[] = {2, 0, 1, 2};

    for (int i = 0; i < 4; i++) {
        for (uint64_t k = starts[i]; k < starts[i + 1]; k++)
            ids[k] = 100 * i + (int32_t)(k - starts[i]);
    }
    return (struct dataset){
        .n_samples = 4, .ids = ids, .starts = starts, .second = second, .labels = labels};
}

static void batch_packs_sequences_end_to_end(void **state)
{
    struct dataset d = small_set();
    struct batch b;
    void *memory = aligned_alloc(64, batch_bytes(SEQS, MAX_LENGTH));
    const uint64_t samples[] = {2, 0};
    const int32_t ids[] = {200, 201, 202, 203, 204, 205, 0, 1, 2, 3, 4};
    const int32_t types[] = {0, 0, 1, 1, 1, 1, 0, 0, 0, 1, 1};
    const int32_t positions[] = {0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4};

    (void)state;
    batch_init(&b, memory, SEQS, MAX_LENGTH);
    assert_int_equal(batch_pack(&b, &d, samples, 2, NULL), ERR_OK);
    assert_int_equal(b.n_seqs, 2);
    assert_int_equal(b.n_tokens, 11);
    assert_memory_equal(b.ids, ids, sizeof ids);
    assert_memory_equal(b.types, types, sizeof types);
    assert_memory_equal(b.positions, positions, sizeof positions);
    assert_int_equal(b.starts[0], 0);
    assert_int_equal(b.starts[1], 6);
    assert_int_equal(b.starts[2], 11);
    assert_int_equal(b.labels[0], 1);
    assert_int_equal(b.labels[1], 2);
    assert_int_equal(b.samples[0], 2);
    assert_int_equal(b.samples[1], 0);
    free(memory);
}

/* Under ASan this also proves that batch_bytes() is enough. */
static void batch_holds_as_much_as_it_was_made_for(void **state)
{
    struct dataset d = small_set();
    struct batch b;
    void *memory = aligned_alloc(64, batch_bytes(SEQS, MAX_LENGTH));
    const uint64_t longest[] = {1, 1, 1, 1};

    (void)state;
    batch_init(&b, memory, SEQS, MAX_LENGTH);
    assert_int_equal(batch_pack(&b, &d, longest, 4, NULL), ERR_OK);
    assert_int_equal(b.n_tokens, 32);
    assert_int_equal(b.starts[4], 32);
    free(memory);
}

static void batch_refuses_what_does_not_fit_and_stays_empty(void **state)
{
    struct dataset d = small_set();
    struct batch b;
    void *memory = aligned_alloc(64, batch_bytes(2, 6));
    const uint64_t too_long[] = {1, 3};
    const uint64_t unknown[] = {0, 4};

    (void)state;
    batch_init(&b, memory, 2, 6);
    assert_int_equal(batch_pack(&b, &d, too_long, 2, NULL), ERR_LIMIT);
    assert_int_equal(b.n_seqs, 0);
    assert_int_equal(batch_pack(&b, &d, too_long, 3, NULL), ERR_LIMIT);
    assert_int_equal(batch_pack(&b, &d, unknown, 2, NULL), ERR_INVALID);
    assert_int_equal(b.n_tokens, 0);
    assert_int_equal(batch_pack(&b, &d, unknown, 0, NULL), ERR_OK);
    free(memory);
}

/* --- balancing --- */

enum { N = 256 };

/* N samples with the lengths given; nothing else of the set is looked at. */
static struct dataset lengths_set(const int lengths[static N])
{
    static uint64_t starts[N + 1];

    for (int i = 0; i < N; i++)
        starts[i + 1] = starts[i] + (uint64_t)lengths[i];
    return (struct dataset){.n_samples = N, .starts = starts};
}

static int64_t tokens_of(const struct dataset *d, const uint64_t *samples, int n)
{
    int64_t tokens = 0;

    for (int i = 0; i < n; i++)
        tokens += dataset_length(d, (size_t)samples[i]);
    return tokens;
}

static void batch_balance_keeps_the_set_and_evens_out_tokens(void **state)
{
    static const int counts[][2] = {{32, 8}, {32, 1}, {32, 32}, {256, 16}, {24, 3}, {1, 1}};
    uint64_t samples[N];
    uint64_t scratch_samples[N];
    int lengths[N];
    struct dataset d;

    (void)state;
    for (int i = 0; i < N; i++)
        lengths[i] = 8 + (i * 7919) % 121; /* like MNLI: from 8 to 128 */
    d = lengths_set(lengths);
    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
        int n = counts[k][0];
        int m = counts[k][1];
        int64_t largest = 0;
        bool seen[N] = {false};

        for (int i = 0; i < n; i++)
            samples[i] = (uint64_t)(i * 5 % N);
        batch_balance(&d, samples, scratch_samples, n, m);
        for (int i = 0; i < n; i++) {
            assert_false(seen[samples[i]]);
            assert_true(samples[i] % 5 == 0 || n > N / 5);
            seen[samples[i]] = true;
        }
        for (int i = 0; i < m; i++) {
            int64_t tokens = tokens_of(&d, samples + i * (n / m), n / m);

            largest = tokens > largest ? tokens : largest;
        }
        /* Unbalanced it would be up to twice the mean. */
        if (n / m >= 4)
            assert_true((double)largest * m < 1.1 * (double)tokens_of(&d, samples, n));
    }
}

static void batch_balance_is_a_function_of_the_set_alone(void **state)
{
    uint64_t a[64];
    uint64_t b[64];
    uint64_t scratch_samples[64];
    int lengths[N];
    struct dataset d;

    (void)state;
    for (int i = 0; i < N; i++)
        lengths[i] = 10 + i % 4; /* many ties */
    d = lengths_set(lengths);
    for (uint64_t i = 0; i < 64; i++) {
        a[i] = i;
        b[63 - i] = i;
    }
    batch_balance(&d, a, scratch_samples, 64, 8);
    batch_balance(&d, b, scratch_samples, 64, 8);
    assert_memory_equal(a, b, sizeof a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batch_packs_sequences_end_to_end),
        cmocka_unit_test(batch_holds_as_much_as_it_was_made_for),
        cmocka_unit_test(batch_refuses_what_does_not_fit_and_stays_empty),
        cmocka_unit_test(batch_balance_keeps_the_set_and_evens_out_tokens),
        cmocka_unit_test(batch_balance_is_a_function_of_the_set_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
