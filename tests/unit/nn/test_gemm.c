#include "nn/gemm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "nn/threads.h"
#include "reference.h"

struct row {
    const char *name;
    enum gemm_kind kind;
    int m, n, k, threads;
    bool add;
};

static struct row rows[] = {
    {"gemm_nn_small", GEMM_NN, 3, 5, 7, 1, false},
    {"gemm_nt_small", GEMM_NT, 3, 5, 7, 1, true},
    {"gemm_tn_small", GEMM_TN, 3, 5, 7, 1, true},
    {"gemm_nn_of_one_element", GEMM_NN, 1, 1, 1, 4, false},
    {"gemm_nn_on_two_threads", GEMM_NN, 301, 129, 65, 2, true},
    {"gemm_nt_on_two_threads", GEMM_NT, 129, 301, 65, 2, false},
    {"gemm_tn_on_three_threads", GEMM_TN, 257, 255, 80, 3, true},
    {"gemm_nt_with_fewer_tiles_than_threads", GEMM_NT, 70, 60, 3000, 7, false},
};

/* ld is 3 more than the columns, and what lies between must stay as it is. */
static void gemm_is_the_triple_loop(void **state)
{
    const struct row *r = *state;
    int rows_a = r->kind == GEMM_TN ? r->k : r->m, ld_a = (r->kind == GEMM_TN ? r->m : r->k) + 3;
    int rows_b = r->kind == GEMM_NT ? r->n : r->k, ld_b = (r->kind == GEMM_NT ? r->k : r->n) + 3;
    int ld_c = r->n + 3;
    size_t n_c = (size_t)(r->m * ld_c);
    float *a = filled((size_t)(rows_a * ld_a), 1), *b = filled((size_t)(rows_b * ld_b), 2);
    float *c = filled(n_c, 3);
    double *want = widen(c, n_c);

    for (int i = 0; i < r->m; i++)
        for (int j = 0; j < r->n; j++) {
            double sum = 0.0;

            for (int l = 0; l < r->k; l++)
                sum += (double)a[r->kind == GEMM_TN ? l * ld_a + i : i * ld_a + l] *
                       b[r->kind == GEMM_NT ? j * ld_b + l : l * ld_b + j];
            want[i * ld_c + j] = sum + (r->add ? (double)c[i * ld_c + j] : 0.0);
            if (!r->add)
                c[i * ld_c + j] = NAN; /* overwritten whatever it was */
        }
    assert_int_equal(gemm_setup(r->threads, NULL), ERR_OK);
    gemm(r->kind, r->m, r->n, r->k, (struct gemm_in){a, ld_a}, (struct gemm_in){b, ld_b},
         (struct gemm_out){c, ld_c, r->add});
    assert_true(difference(c, want, n_c) < 2e-6);
    free(a);
    free(b);
    free(c);
    free(want);
}

static void gemm_setup_takes_as_many_threads_as_are_useful(void **state)
{
    struct err err;
    int most;

    (void)state;
    assert_int_equal(gemm_setup(0, &err), ERR_INVALID);
    assert_string_equal(err.text, "threads: 0 is below 1");
    threads_set(2);
    most = threads_count() == 2 ? THREADS_MAX : 1; /* 1: the compiler has no OpenMP */
    assert_int_equal(gemm_setup(128, NULL), ERR_OK);
    assert_int_equal(threads_count(), most);
    assert_int_equal(gemm_setup(1, NULL), ERR_OK);
}

static void gemm_core_wanted_is_a_core_that_openblas_knows(void **state)
{
    const char *wanted = gemm_core_wanted();

    (void)state;
    assert_non_null(gemm_core_name());
    assert_true(!wanted || strcmp(wanted, "SkylakeX") == 0 || strcmp(wanted, "Haswell") == 0);
}

#define N_ROWS (sizeof rows / sizeof rows[0])

int main(void)
{
    struct CMUnitTest tests[N_ROWS + 2];

    for (size_t i = 0; i < N_ROWS; i++)
        tests[i] = (struct CMUnitTest){rows[i].name, gemm_is_the_triple_loop, NULL, NULL, &rows[i]};
    tests[N_ROWS] =
        (struct CMUnitTest)cmocka_unit_test(gemm_setup_takes_as_many_threads_as_are_useful);
    tests[N_ROWS + 1] =
        (struct CMUnitTest)cmocka_unit_test(gemm_core_wanted_is_a_core_that_openblas_knows);
    return _cmocka_run_group_tests("gemm", tests, N_ROWS + 2, NULL, NULL);
}
