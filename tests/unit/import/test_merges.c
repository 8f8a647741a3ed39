/* The queue against an oracle that counts all pairs anew before every merge. */
#include "import/merges.h"

#include "scratch.h"

#define N_WORDS    40
#define LEN_MAX    12
#define SYMBOL_MAX 400

struct oracle {
    uint32_t symbols[N_WORDS][LEN_MAX];
    size_t lens[N_WORDS];
    uint64_t n_seen[N_WORDS];
    uint64_t counts[SYMBOL_MAX][SYMBOL_MAX];
};

static struct oracle oracle;

static struct merge oracle_best(struct oracle *o)
{
    struct merge best = {0};

    memset(o->counts, 0, sizeof o->counts);
    for (int w = 0; w < N_WORDS; w++) {
        for (size_t i = 1; i < o->lens[w]; i++)
            o->counts[o->symbols[w][i - 1]][o->symbols[w][i]] += o->n_seen[w];
    }
    for (uint32_t a = 0; a < SYMBOL_MAX; a++) {
        for (uint32_t b = 0; b < SYMBOL_MAX; b++) {
            if (o->counts[a][b] > best.n)
                best = (struct merge){.left = a, .right = b, .n = o->counts[a][b]};
        }
    }
    return best;
}

static void oracle_apply(struct oracle *o, const struct merge *merge, uint32_t symbol)
{
    for (int w = 0; w < N_WORDS; w++) {
        for (size_t i = 0; i + 1 < o->lens[w]; i++) {
            if (o->symbols[w][i] != merge->left || o->symbols[w][i + 1] != merge->right)
                continue;
            o->symbols[w][i] = symbol;
            o->lens[w]--;
            memmove(&o->symbols[w][i + 1], &o->symbols[w][i + 2],
                    (o->lens[w] - i - 1) * sizeof o->symbols[w][0]);
        }
    }
}

/* Few letters, so that pairs overlap and repeat. Every third merge reuses a symbol in use, as two
 * ways to spell one token do. */
static void merges_agree_with_an_oracle_to_the_end(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 30; seed++) {
        uint32_t next = 3;
        uint32_t rnd = seed;
        struct merges *m;
        struct merge got;

        assert_int_equal(merges_new(&m, NULL), ERR_OK);
        for (int w = 0; w < N_WORDS; w++) {
            oracle.lens[w] = 1 + (rnd = rnd * 1664525 + 1013904223) / 256 % LEN_MAX;
            oracle.n_seen[w] = 1 + (rnd = rnd * 1664525 + 1013904223) / 256 % 5;
            for (size_t i = 0; i < oracle.lens[w]; i++)
                oracle.symbols[w][i] = (rnd = rnd * 1664525 + 1013904223) / 256 % 3;
            assert_int_equal(
                merges_add(m, oracle.symbols[w], oracle.lens[w], oracle.n_seen[w], NULL), ERR_OK);
        }
        for (;;) {
            struct merge want = oracle_best(&oracle);
            uint32_t symbol = next % 3 == 0 && next > 3 ? next - 1 : next;

            merges_best(m, &got);
            assert_int_equal(got.n, want.n);
            assert_int_equal(got.left, want.left);
            assert_int_equal(got.right, want.right);
            if (got.n == 0)
                break;
            if (symbol == got.left || symbol == got.right)
                symbol = next;
            assert_int_equal(merges_apply(m, &got, symbol, NULL), ERR_OK);
            oracle_apply(&oracle, &got, symbol);
            assert_true(++next < SYMBOL_MAX);
        }
        merges_free(m);
    }
}

static void merges_join_from_left_to_right(void **state)
{
    const uint32_t word[] = {7, 7, 7};
    struct merges *m;
    struct merge best;

    (void)state;
    assert_int_equal(merges_new(&m, NULL), ERR_OK);
    assert_int_equal(merges_add(m, word, 3, 5, NULL), ERR_OK);
    merges_best(m, &best);
    assert_int_equal(best.n, 10);
    assert_int_equal(merges_apply(m, &best, 8, NULL), ERR_OK);
    merges_best(m, &best);
    assert_int_equal(best.left, 8);
    assert_int_equal(best.right, 7);
    assert_int_equal(best.n, 5);
    merges_free(m);
}

static void merges_of_nothing_are_none(void **state)
{
    const uint32_t word[] = {1};
    struct merges *m;
    struct merge best;

    (void)state;
    assert_int_equal(merges_new(&m, NULL), ERR_OK);
    merges_best(m, &best);
    assert_int_equal(best.n, 0);
    assert_int_equal(merges_add(m, word, 1, 5, NULL), ERR_OK);
    merges_best(m, &best);
    assert_int_equal(best.n, 0);
    merges_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_agree_with_an_oracle_to_the_end),
        cmocka_unit_test(merges_join_from_left_to_right),
        cmocka_unit_test(merges_of_nothing_are_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
