#include "data/mask.h"

#include <math.h>

#include "data/sampler.h"
#include "scratch.h"

/* Specials in odd places: words must not be taken for them. */
#define VOCAB "a\n[PAD]\nb\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nc\nd\ne\nf\n"

enum { PAD = 1, UNK = 3, CLS = 4, SEP = 5, MASK = 6, N_VOCAB = 11, LENGTH = 40 };

static struct mask make(double probability)
{
    struct vocab v;
    struct mask m;

    assert_int_equal(vocab_parse("v", VOCAB, strlen(VOCAB), &v, NULL), ERR_OK);
    assert_int_equal(mask_init(&m, &v, probability, NULL), ERR_OK);
    vocab_deinit(&v);
    return m;
}

/* [CLS] words [SEP] words [SEP], an [UNK] among them. */
static void fill(int32_t ids[static LENGTH], int length)
{
    static const int32_t words[] = {0, 2, 7, 8, UNK, 9, 10};

    for (int i = 0; i < length; i++)
        ids[i] = words[i % 7];
    ids[0] = CLS;
    ids[length / 2] = SEP;
    ids[length - 1] = SEP;
}

static void mask_counts_a_share_and_at_least_one(void **state)
{
    struct mask m = make(0.15);

    (void)state;
    assert_int_equal(mask_count(&m, 0), 0);
    assert_int_equal(mask_count(&m, 1), 1);
    assert_int_equal(mask_count(&m, 9), 1);
    assert_int_equal(mask_count(&m, 10), 2); /* 1.5 */
    assert_int_equal(mask_count(&m, 125), 19);
}

/* For many lengths, shares and keys. */
static void mask_hides_what_it_says_and_nothing_else(void **state)
{
    static const double shares[] = {0.01, 0.15, 0.5, 0.9};

    (void)state;
    for (int turn = 0; turn < 4000; turn++) {
        struct mask m = make(shares[turn % 4]);
        int length = 3 + turn / 4 % (LENGTH - 3);
        int32_t before[LENGTH], ids[LENGTH], again[LENGTH], rows[LENGTH], target_ids[LENGTH];

        int n, at = 0;

        fill(before, length);
        memcpy(ids, before, sizeof ids);
        memcpy(again, before, sizeof ids);
        n = mask_apply(&m, (uint64_t)turn, ids, length, rows, target_ids);
        assert_int_equal(n, mask_count(&m, length - 3));
        for (int i = 0; i < length; i++) {
            if (at < n && rows[at] == i) {
                assert_int_equal(target_ids[at], before[i]);
                assert_true(before[i] != CLS && before[i] != SEP);
                assert_in_range(ids[i], 0, N_VOCAB - 1);
                assert_true(ids[i] == MASK || ids[i] == before[i] ||
                            (ids[i] != PAD && ids[i] != UNK && ids[i] != CLS && ids[i] != SEP));
                at++;
            } else {
                assert_int_equal(ids[i], before[i]);
            }
        }
        assert_int_equal(at, n); /* so rows were rising */
        assert_int_equal(mask_apply(&m, (uint64_t)turn, again, length, rows, target_ids), n);
        assert_memory_equal(again, ids, (size_t)length * sizeof *ids);
    }
}

/* Shares over 40,000 masked tokens, within five standard deviations. */
static void mask_hides_80_changes_10_and_keeps_10_percent(void **state)
{
    struct mask m = make(0.15);
    int counts[N_VOCAB] = {0}, places[LENGTH] = {0};
    int n_all = 0, n_kept = 0, n_masked = 0;

    (void)state;
    for (uint64_t key = 0; key < 6700; key++) {
        int32_t ids[LENGTH], rows[LENGTH], target_ids[LENGTH];
        int n;

        fill(ids, LENGTH);
        n = mask_apply(&m, random_mix(key), ids, LENGTH, rows, target_ids);
        n_all += n;
        for (int i = 0; i < n; i++) {
            int32_t id = ids[rows[i]];

            places[rows[i]]++;
            n_masked += id == MASK;
            n_kept += id == target_ids[i];
            if (id != MASK && id != target_ids[i])
                counts[id]++;
        }
    }
    assert_int_equal(n_all, 6700 * 6);
    assert_true(fabs((double)n_masked / n_all - 0.8) < 5 * sqrt(0.16 / n_all));
    /* A random word is the old one in a sixth of the cases, but for [UNK]. */
    assert_true(fabs((double)n_kept / n_all - (0.1 + 0.1 / 6 * 6 / 7)) < 0.01);
    for (int i = 0; i < N_VOCAB; i++) {
        bool is_special = i == PAD || (i >= UNK && i <= MASK);

        assert_true(is_special ? counts[i] == 0 : abs(counts[i] - n_all / 70) < 170);
    }
    for (int i = 1; i < LENGTH - 1; i++) /* of 37 tokens each is as likely as the next */
        if (i != LENGTH / 2)
            assert_true(abs(places[i] - n_all / 37) < 170);
}

static void mask_needs_its_token_and_words(void **state)
{
    const char *without = "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\n";
    const char *empty = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    struct err err = {0};
    struct vocab v;
    struct mask m;

    (void)state;
    assert_int_equal(vocab_parse("v", without, strlen(without), &v, NULL), ERR_OK);
    assert_int_equal(mask_init(&m, &v, 0.15, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "no token [MASK]"));
    vocab_deinit(&v);
    assert_int_equal(vocab_parse("v", empty, strlen(empty), &v, NULL), ERR_OK);
    assert_int_equal(mask_init(&m, &v, 0.15, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "no words"));
    vocab_deinit(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mask_counts_a_share_and_at_least_one),
        cmocka_unit_test(mask_hides_what_it_says_and_nothing_else),
        cmocka_unit_test(mask_hides_80_changes_10_and_keeps_10_percent),
        cmocka_unit_test(mask_needs_its_token_and_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
