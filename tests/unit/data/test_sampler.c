#include "data/sampler.h"

#include "scratch.h"

static void random_below_stays_below_and_reaches_everything(void **state)
{
    int counts[7] = {0};

    (void)state;
    for (uint64_t i = 0; i < 7000; i++) {
        uint64_t r = random_below(42, i, 7);

        assert_in_range(r, 0, 6);
        counts[r]++;
    }
    for (int i = 0; i < 7; i++)
        assert_in_range(counts[i], 850, 1150); /* five deviations of 29 */
    assert_int_equal(random_below(42, 0, 1), 0);
}

/* The product in halves against what a wide multiplication says. */
static void random_below_is_the_high_half_of_a_product(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t n = random_mix(i + 1) >> (i % 64);
        uint64_t r = random_mix(7 + UINT64_C(0x9e3779b97f4a7c15) * (i + 1));
        uint64_t want = 0;

        if (n == 0)
            continue;
        for (int bit = 0; bit < 64; bit++) { /* r * n / 2^64, from the lowest bit of r up */
            uint64_t add = r >> bit & 1 ? n : 0;
            uint64_t sum = want + add;

            want = sum >> 1 | (sum < want ? UINT64_C(1) << 63 : 0);
        }
        assert_int_equal(random_below(7, i, n), want);
    }
}

static void random_keys_differ(void **state)
{
    (void)state;
    assert_true(random_key(1, 2) != random_key(2, 1));
    assert_true(random_key(1, 2) == random_key(1, 2));
    assert_true(random_key(0, 0) != random_key(0, 1));
}

static struct sampler make(uint64_t seed, uint64_t n, uint32_t batch)
{
    struct sampler s;

    assert_int_equal(sampler_init(&s, seed, n, batch, NULL), ERR_OK);
    return s;
}

static void sampler_gives_every_sample_once_an_epoch(void **state)
{
    static const uint64_t sizes[] = {1, 2, 3, 4, 5, 16, 17, 63, 64, 65, 1000, 4096, 9001};
    static unsigned char seen[9001];

    (void)state;
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        for (uint64_t seed = 0; seed < 5; seed++) {
            struct sampler s = make(seed, sizes[k], 1);

            memset(seen, 0, sizeof seen);
            for (uint64_t i = 0; i < sizes[k]; i++) {
                uint64_t sample = sampler_at(&s, seed + 3, i);

                assert_in_range(sample, 0, sizes[k] - 1);
                assert_int_equal(seen[sample]++, 0);
            }
        }
    }
}

/* The order is part of the checkpoint format: this pins it. */
static void sampler_never_changes_its_order(void **state)
{
    static const uint64_t want[] = {89, 79, 52, 70, 77, 30, 93, 46};
    struct sampler s = make(42, 100, 4);
    uint64_t got[8];

    (void)state;
    assert_int_equal(sampler_step(&s, 0, got), 4);
    assert_int_equal(sampler_step(&s, 26, got + 4), 4);
    for (int i = 0; i < 8; i++)
        assert_int_equal(got[i], want[i]);
}

static void sampler_orders_differ_by_seed_and_epoch(void **state)
{
    struct sampler a = make(1, 1000, 1);
    struct sampler b = make(2, 1000, 1);
    int same_seed = 0;
    int same_epoch = 0;

    (void)state;
    for (uint64_t i = 0; i < 1000; i++) {
        same_seed += sampler_at(&a, 0, i) == sampler_at(&b, 0, i);
        same_epoch += sampler_at(&a, 0, i) == sampler_at(&a, 1, i);
    }
    assert_in_range(same_seed, 0, 8); /* one is expected by chance */
    assert_in_range(same_epoch, 0, 8);
}

/* Chi-square over (position block, sample block): an order with a pattern shows here. */
static void sampler_orders_look_random(void **state)
{
    enum { N = 6400, BLOCKS = 8, EPOCHS = 20 };
    struct sampler s = make(7, N, 1);
    int counts[BLOCKS][BLOCKS] = {{0}};
    double expected = (double)N * EPOCHS / (BLOCKS * BLOCKS);
    double chi = 0;

    (void)state;
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        for (uint64_t i = 0; i < N; i++)
            counts[i * BLOCKS / N][sampler_at(&s, epoch, i) * BLOCKS / N]++;
    }
    for (int i = 0; i < BLOCKS * BLOCKS; i++) {
        double d = counts[i / BLOCKS][i % BLOCKS] - expected;

        chi += d * d / expected;
    }
    assert_true(chi < 100); /* 49 degrees of freedom: 85 is one in a thousand */
}

static void sampler_ends_an_epoch_with_a_smaller_batch(void **state)
{
    struct sampler s = make(3, 10, 4);
    uint64_t got[4] = {0};

    (void)state;
    assert_int_equal(sampler_steps_per_epoch(&s), 3);
    assert_int_equal(sampler_step(&s, 2, got), 2);
    assert_int_equal(got[0], sampler_at(&s, 0, 8));
    assert_int_equal(got[1], sampler_at(&s, 0, 9));
    assert_int_equal(sampler_step(&s, 3, got), 4);
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(got[i], sampler_at(&s, 1, i));
}

static void sampler_makes_one_step_of_fewer_samples_than_a_batch(void **state)
{
    struct sampler s = make(1, 3, 32);
    uint64_t got[32];

    (void)state;
    assert_int_equal(sampler_steps_per_epoch(&s), 1);
    assert_int_equal(sampler_step(&s, 5, got), 3);
}

static void sampler_refuses_what_it_cannot_deal_with(void **state)
{
    struct sampler s;

    (void)state;
    assert_int_equal(sampler_init(&s, 1, 0, 32, NULL), ERR_INVALID);
    assert_int_equal(sampler_init(&s, 1, 31, 0, NULL), ERR_INVALID);
    assert_int_equal(sampler_init(&s, 1, UINT64_MAX, 1, NULL), ERR_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_below_stays_below_and_reaches_everything),
        cmocka_unit_test(random_below_is_the_high_half_of_a_product),
        cmocka_unit_test(random_keys_differ),
        cmocka_unit_test(sampler_gives_every_sample_once_an_epoch),
        cmocka_unit_test(sampler_never_changes_its_order),
        cmocka_unit_test(sampler_orders_differ_by_seed_and_epoch),
        cmocka_unit_test(sampler_orders_look_random),
        cmocka_unit_test(sampler_ends_an_epoch_with_a_smaller_batch),
        cmocka_unit_test(sampler_makes_one_step_of_fewer_samples_than_a_batch),
        cmocka_unit_test(sampler_refuses_what_it_cannot_deal_with),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
