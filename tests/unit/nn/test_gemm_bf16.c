#include "nn/gemm_bf16.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "reference.h"
#include "suite.h"

/* Everything here needs AVX512_BF16, except the refusal without it. */
static void skip_without_bf16(void)
{
    if (!gemm_has_bf16()) {
        print_message("skipped: this processor has no AVX512_BF16\n");
        skip();
    }
}

static void use_bf16(int threads)
{
    assert_int_equal(gemm_setup(threads, NULL), ERR_OK);
    assert_int_equal(gemm_use(GEMM_BF16, NULL), ERR_OK);
    assert_int_equal(gemm_precision(), GEMM_BF16);
}

/* The nearest bfloat16, of two as near the even one. */
static float rounded(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    bits += 0x7fff + (bits >> 16 & 1);
    bits &= 0xffff0000;
    memcpy(&x, &bits, sizeof bits);
    return x;
}

struct row {
    const char *name;
    enum gemm_kind kind;
    int m, n, k, threads;
    bool add;
};

/* Tiles are 6 x 64 in vectors of 16, blocks 192 x 1536 x 1024, k goes in pairs. */
static struct row rows[] = {
    {"gemm_bf16_nn_smallest", GEMM_NN, 16, 16, 16, 1, false},
    {"gemm_bf16_nt_smallest", GEMM_NT, 16, 16, 16, 1, true},
    {"gemm_bf16_tn_smallest", GEMM_TN, 16, 16, 16, 1, false},
    {"gemm_bf16_nn_tails", GEMM_NN, 17, 83, 33, 1, true},
    {"gemm_bf16_nt_tails", GEMM_NT, 17, 83, 33, 1, false},
    {"gemm_bf16_tn_tails", GEMM_TN, 17, 83, 33, 1, true},
    {"gemm_bf16_nn_one_row_over_the_blocks", GEMM_NN, 193, 65, 1025, 1, true},
    {"gemm_bf16_nt_one_row_over_the_blocks", GEMM_NT, 193, 65, 1025, 1, true},
    {"gemm_bf16_tn_one_row_over_the_blocks", GEMM_TN, 193, 65, 1025, 1, false},
    {"gemm_bf16_nn_one_column_over_the_blocks", GEMM_NN, 20, 1537, 100, 1, true},
    {"gemm_bf16_nt_one_column_over_the_blocks", GEMM_NT, 20, 1537, 100, 1, false},
    {"gemm_bf16_tn_one_column_over_the_blocks", GEMM_TN, 20, 1537, 100, 1, true},
    {"gemm_bf16_nn_on_two_threads", GEMM_NN, 301, 129, 65, 2, true},
    {"gemm_bf16_nt_on_two_threads", GEMM_NT, 129, 301, 65, 2, false},
    {"gemm_bf16_tn_on_three_threads", GEMM_TN, 257, 255, 80, 3, true},
};

/* Matrices for a row with ld 3 more than the columns; what lies between must stay as it is. */
struct matrices {
    int ld_a, ld_b, ld_c;
    size_t n_a, n_b, n_c;
    float *a, *b, *c;
};

static struct matrices matrices_of(const struct row *r)
{
    struct matrices x = {.ld_a = (r->kind == GEMM_TN ? r->m : r->k) + 3,
                         .ld_b = (r->kind == GEMM_NT ? r->k : r->n) + 3,
                         .ld_c = r->n + 3};

    x.n_a = (size_t)((r->kind == GEMM_TN ? r->k : r->m) * x.ld_a);
    x.n_b = (size_t)((r->kind == GEMM_NT ? r->n : r->k) * x.ld_b);
    x.n_c = (size_t)(r->m * x.ld_c);
    x.a = filled(x.n_a, 1);
    x.b = filled(x.n_b, 2);
    x.c = filled(x.n_c, 3);
    return x;
}

static void matrices_free(struct matrices *x)
{
    free(x->a);
    free(x->b);
    free(x->c);
}

static void run(const struct row *r, const struct matrices *x)
{
    gemm(r->kind, r->m, r->n, r->k, (struct gemm_in){x->a, x->ld_a},
         (struct gemm_in){x->b, x->ld_b}, (struct gemm_out){x->c, x->ld_c, r->add});
}

static void gemm_bf16_is_the_triple_loop_of_rounded_factors(void **state)
{
    const struct row *r = *state;
    struct matrices x;
    double *want;

    skip_without_bf16();
    x = matrices_of(r);
    want = widen(x.c, x.n_c);
    for (int i = 0; i < r->m; i++)
        for (int j = 0; j < r->n; j++) {
            double sum = 0.0;

            for (int l = 0; l < r->k; l++)
                sum += (double)rounded(x.a[r->kind == GEMM_TN ? l * x.ld_a + i : i * x.ld_a + l]) *
                       rounded(x.b[r->kind == GEMM_NT ? j * x.ld_b + l : l * x.ld_b + j]);
            want[i * x.ld_c + j] = sum + (r->add ? (double)x.c[i * x.ld_c + j] : 0.0);
            if (!r->add)
                x.c[i * x.ld_c + j] = NAN; /* overwritten whatever it was */
        }
    use_bf16(r->threads);
    run(r, &x);
    assert_true(difference(x.c, want, x.n_c) < 2e-6);
    matrices_free(&x);
    free(want);
}

static void gemm_bf16_gives_the_same_bits_on_any_number_of_threads(void **state)
{
    (void)state;
    skip_without_bf16();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct matrices one = matrices_of(&rows[i]);

        use_bf16(1);
        run(&rows[i], &one);
        for (int threads = 2; threads <= 5; threads++) {
            struct matrices more = matrices_of(&rows[i]);

            use_bf16(threads);
            run(&rows[i], &more);
            assert_memory_equal(one.c, more.c, one.n_c * sizeof(float));
            matrices_free(&more);
        }
        matrices_free(&one);
    }
}

/* a[0,0] alone decides c[0,0]; everything else is 0. */
static float rounded_by_gemm(float value)
{
    float a[16 * 16] = {value}, b[16 * 16] = {1.0f}, c[16 * 16];

    gemm(GEMM_NN, 16, 16, 16, (struct gemm_in){a, 16}, (struct gemm_in){b, 16},
         (struct gemm_out){c, 16, false});
    for (int i = 1; i < 16; i++)
        assert_true(c[i * 16] == 0.0f);
    return c[0];
}

static void gemm_bf16_rounds_to_the_nearest_and_ties_to_even(void **state)
{
    (void)state;
    skip_without_bf16();
    use_bf16(1);
    assert_true(rounded_by_gemm(0x1.00p0f) == 0x1.00p0f);
    assert_true(rounded_by_gemm(0x1.01p0f) == 0x1.00p0f); /* half way: down to even */
    assert_true(rounded_by_gemm(0x1.03p0f) == 0x1.04p0f); /* half way: up to even */
    assert_true(rounded_by_gemm(0x1.0102p0f) == 0x1.02p0f);
    assert_true(rounded_by_gemm(-0x1.03p0f) == -0x1.04p0f);
    assert_true(isinf(rounded_by_gemm(INFINITY)));
}

static void gemm_bf16_hands_a_nan_on(void **state)
{
    float a[16 * 16] = {NAN}, b[16 * 16] = {1.0f}, c[16 * 16];

    (void)state;
    skip_without_bf16();
    use_bf16(1);
    gemm(GEMM_NN, 16, 16, 16, (struct gemm_in){a, 16}, (struct gemm_in){b, 16},
         (struct gemm_out){c, 16, false});
    assert_true(isnan(c[0]));
    assert_true(c[16] == 0.0f);
}

static void gemm_keeps_small_products_and_those_of_one_thread_fp32(void **state)
{
    float x = 0x1.010203p0f, one[16 * 16] = {x}, eye[16 * 16] = {1.0f}, c[16 * 16];

    (void)state;
    skip_without_bf16();
    use_bf16(1);
    gemm(GEMM_NN, 15, 16, 16, (struct gemm_in){one, 16}, (struct gemm_in){eye, 16},
         (struct gemm_out){c, 16, false});
    assert_true(c[0] == x);
    gemm_alone(GEMM_NN, 16, 16, 16, (struct gemm_in){one, 16}, (struct gemm_in){eye, 16},
               (struct gemm_out){c, 16, false});
    assert_true(c[0] == x);
}

static void gemm_use_works_or_says_what_is_missing(void **state)
{
    struct err err;

    (void)state;
    assert_int_equal(gemm_setup(1, NULL), ERR_OK);
    assert_int_equal(gemm_precision(), GEMM_FP32);
    if (gemm_has_bf16()) {
        assert_int_equal(gemm_use(GEMM_BF16, &err), ERR_OK);
        assert_int_equal(gemm_use(GEMM_FP32, &err), ERR_OK);
    } else {
        assert_int_equal(gemm_use(GEMM_BF16, &err), ERR_INVALID);
        assert_string_equal(err.text, "this processor has no AVX512_BF16");
    }
    assert_int_equal(gemm_precision(), GEMM_FP32);
}

static const struct CMUnitTest singles[] = {
    cmocka_unit_test(gemm_bf16_gives_the_same_bits_on_any_number_of_threads),
    cmocka_unit_test(gemm_bf16_rounds_to_the_nearest_and_ties_to_even),
    cmocka_unit_test(gemm_bf16_hands_a_nan_on),
    cmocka_unit_test(gemm_keeps_small_products_and_those_of_one_thread_fp32),
    cmocka_unit_test(gemm_use_works_or_says_what_is_missing),
};

int main(void)
{
    struct suite suite = {.n = 0};

    SUITE_TESTS(&suite, singles);
    SUITE_ROWS(&suite, rows, gemm_bf16_is_the_triple_loop_of_rounded_factors);
    return suite_run(&suite, "gemm_bf16", NULL, NULL);
}
