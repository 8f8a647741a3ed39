#include "data/batch.h"

#include "scratch.h"

#define SEQS       4
#define MAX_LENGTH 8

/* Token k of sequence i is 100 i + k; lengths 5, 8, 6, 7. */
static struct sequence sequence_of(uint32_t i)
{
    static const int lengths[] = {5, 8, 6, 7};
    static const int firsts[] = {3, 4, 2, 6};
    static const int32_t labels[] = {2, 0, 1, 2};
    static const int32_t places[] = {1, 4};
    static const int32_t words[] = {71, 72};
    static int32_t ids[4][MAX_LENGTH];

    for (int k = 0; k < MAX_LENGTH; k++)
        ids[i][k] = 100 * (int32_t)i + k;
    return (struct sequence){.sample = i,
                             .length = lengths[i],
                             .n_first = firsts[i],
                             .ids = ids[i],
                             .label = labels[i],
                             .score = 0.5f * (float)i,
                             .n_targets = 2,
                             .rows = places,
                             .target_ids = words};
}

static void *make(struct batch *b, int n_seqs, int max_length, bool has_targets)
{
    struct batch_limits limits = {n_seqs, max_length, has_targets};
    void *memory = aligned_alloc(64, batch_bytes(&limits));

    assert_non_null(memory);
    batch_init(b, memory, &limits);
    return memory;
}

static void add(struct batch *b, uint32_t i)
{
    struct sequence s = sequence_of(i);

    assert_int_equal(batch_add(b, &s, NULL), ERR_OK);
}

static void check_two_and_zero(const struct batch *b)
{
    const int32_t ids[] = {200, 201, 202, 203, 204, 205, 0, 1, 2, 3, 4};
    const int32_t types[] = {0, 0, 1, 1, 1, 1, 0, 0, 0, 1, 1};
    const int32_t starts[] = {0, 6, 11};
    const int32_t places[] = {1, 4, 7, 10};
    const int32_t words[] = {71, 72, 71, 72};

    assert_int_equal(b->n_seqs, 2);
    assert_int_equal(b->n_tokens, 11);
    assert_int_equal(b->n_targets, 4);
    assert_memory_equal(b->ids, ids, sizeof ids);
    assert_memory_equal(b->types, types, sizeof types);
    assert_memory_equal(b->starts, starts, sizeof starts);
    assert_memory_equal(b->rows, places, sizeof places);
    assert_memory_equal(b->target_ids, words, sizeof words);
    assert_int_equal(b->labels[0], 1);
    assert_int_equal(b->labels[1], 2);
    assert_true(b->scores[0] == 1.0f && b->scores[1] == 0.0f);
    assert_int_equal(b->samples[0], 2);
    assert_int_equal(b->samples[1], 0);
}

static void batch_packs_sequences_end_to_end(void **state)
{
    struct batch b;
    void *memory = make(&b, SEQS, MAX_LENGTH, true);

    (void)state;
    add(&b, 2);
    add(&b, 0);
    check_two_and_zero(&b);
    batch_reset(&b);
    assert_int_equal(b.n_tokens, 0);
    add(&b, 2);
    add(&b, 0);
    check_two_and_zero(&b);
    free(memory);
}

static void batch_copies_sequences_of_another(void **state)
{
    struct batch whole;
    struct batch b;
    void *whole_memory = make(&whole, SEQS, MAX_LENGTH, true);
    void *memory = make(&b, 2, 6, true);

    (void)state;
    for (uint32_t i = 0; i < 4; i++)
        add(&whole, i);
    assert_int_equal(batch_copy(&b, &whole, 2, NULL), ERR_OK);
    assert_int_equal(batch_copy(&b, &whole, 1, NULL), ERR_LIMIT); /* of 8 tokens */
    assert_int_equal(batch_copy(&b, &whole, 0, NULL), ERR_OK);
    check_two_and_zero(&b);
    assert_int_equal(batch_copy(&b, &whole, 0, NULL), ERR_LIMIT);
    check_two_and_zero(&b);
    free(memory);
    free(whole_memory);
}

/* Under ASan this also proves that batch_bytes() is enough. */
static void batch_holds_as_much_as_it_was_made_for(void **state)
{
    static const int32_t places[] = {0, 1, 2, 3, 4, 5, 6, 7};
    struct sequence longest = sequence_of(1);
    struct batch b;
    void *memory = make(&b, SEQS, MAX_LENGTH, true);

    (void)state;
    longest.n_targets = MAX_LENGTH;
    longest.rows = longest.target_ids = places;
    for (int i = 0; i < SEQS; i++)
        assert_int_equal(batch_add(&b, &longest, NULL), ERR_OK);
    assert_int_equal(b.n_tokens, 32);
    assert_int_equal(b.starts[4], 32);
    assert_int_equal(b.n_targets, 32);
    assert_int_equal(b.rows[31], 31);
    free(memory);
}

static void batch_refuses_what_does_not_fit_and_stays_as_it_was(void **state)
{
    struct sequence longer = sequence_of(3);
    struct sequence s = sequence_of(2);
    struct batch b;
    void *memory = make(&b, 2, 6, false);

    (void)state;
    assert_int_equal(batch_add(&b, &s, NULL), ERR_LIMIT); /* its targets */
    s.n_targets = longer.n_targets = 0;
    assert_int_equal(batch_add(&b, &longer, NULL), ERR_LIMIT);
    assert_int_equal(b.n_seqs, 0);
    assert_int_equal(batch_add(&b, &s, NULL), ERR_OK);
    assert_int_equal(batch_add(&b, &s, NULL), ERR_OK);
    assert_int_equal(batch_add(&b, &s, NULL), ERR_LIMIT);
    assert_int_equal(b.n_seqs, 2);
    assert_int_equal(b.n_tokens, 12);
    free(memory);
}

/* --- balancing --- */

enum { N = 256 };

/* A step of n sequences: number i is sample i * 5 % N, of `lengths[sample]` tokens. */
static struct batch lengths_step(const int lengths[static N], int n)
{
    static int32_t starts[N + 1];
    static uint32_t samples[N];

    for (int i = 0; i < n; i++) {
        samples[i] = (uint32_t)(i * 5 % N);
        starts[i + 1] = starts[i] + lengths[samples[i]];
    }
    return (struct batch){.n_seqs = n, .starts = starts, .samples = samples};
}

static void batch_balance_keeps_the_set_and_evens_out_tokens(void **state)
{
    static const int counts[][2] = {{32, 8}, {32, 1}, {32, 32}, {256, 16}, {24, 3},
                                    {1, 1},  {22, 8}, {10, 3},  {33, 32},  {7, 7}};
    int32_t order[N];
    int32_t scratch_order[N];
    int lengths[N];

    (void)state;
    for (int i = 0; i < N; i++)
        lengths[i] = 8 + (i * 7919) % 121; /* like MNLI: from 8 to 128 */
    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
        int n = counts[k][0];
        int m = counts[k][1];
        struct batch step = lengths_step(lengths, n);
        int largest = 0;
        bool seen[N] = {false};

        batch_balance(&step, order, scratch_order, m);
        for (int i = 0; i < m; i++) {
            int tokens = 0;

            assert_in_range(batch_first(n, m, i + 1) - batch_first(n, m, i), n / m, n / m + 1);
            for (int j = batch_first(n, m, i); j < batch_first(n, m, i + 1); j++) {
                assert_in_range(order[j], 0, n - 1);
                assert_false(seen[order[j]]);
                seen[order[j]] = true;
                tokens += step.starts[order[j] + 1] - step.starts[order[j]];
            }
            largest = tokens > largest ? tokens : largest;
        }
        assert_int_equal(batch_first(n, m, m), n);
        /* Unbalanced it would be up to twice the mean. */
        if (n / m >= 4)
            assert_true(largest * m < 1.1 * step.starts[n]);
    }
}

/* The same samples in another order of arrival are dealt out the same way. */
static void batch_balance_is_a_function_of_the_set_alone(void **state)
{
    int32_t starts[2][65] = {{0}};
    uint32_t samples[2][64];
    int32_t order[2][64];
    int32_t scratch_order[64];

    (void)state;
    for (int turn = 0; turn < 2; turn++) {
        struct batch step = {.n_seqs = 64, .starts = starts[turn], .samples = samples[turn]};

        for (int i = 0; i < 64; i++) {
            samples[turn][i] = (uint32_t)(turn ? 63 - i : i);
            starts[turn][i + 1] = starts[turn][i] + 10 + (int)samples[turn][i] % 4; /* ties */
        }
        batch_balance(&step, order[turn], scratch_order, 8);
    }
    for (int i = 0; i < 64; i++)
        assert_int_equal(samples[0][order[0][i]], samples[1][order[1][i]]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batch_packs_sequences_end_to_end),
        cmocka_unit_test(batch_copies_sequences_of_another),
        cmocka_unit_test(batch_holds_as_much_as_it_was_made_for),
        cmocka_unit_test(batch_refuses_what_does_not_fit_and_stays_as_it_was),
        cmocka_unit_test(batch_balance_keeps_the_set_and_evens_out_tokens),
        cmocka_unit_test(batch_balance_is_a_function_of_the_set_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
