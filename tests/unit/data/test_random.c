#include "data/random.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_below_stays_below_and_reaches_everything),
        cmocka_unit_test(random_below_is_the_high_half_of_a_product),
        cmocka_unit_test(random_keys_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
