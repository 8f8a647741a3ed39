#include "probe/microbenchmark.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "nn/gemm.h"

#define LAYERS 2
#define SEQS   4

static struct microbenchmark bench; /* large */
static struct spec spec;

static int make_bench(void **state)
{
    static struct sequences sequences;

    (void)state;
    if (model_preset("BertTiny", &spec.model, NULL) != ERR_OK || gemm_setup(1, NULL) != ERR_OK)
        return -1;
    spec.training.batch_size = SEQS;
    spec.training.micro_batches = 1;
    spec.training.max_length = 32;
    spec.training.beta1 = 0.9;
    spec.training.beta2 = 0.999;
    spec.training.epsilon = 1e-8;
    sequences.n = 0;
    for (int i = 0; i < 50; i++)
        sequences.tokens[sequences.n++] = 3 + i % 7;
    return microbenchmark_init(&bench, &spec, &sequences, LAYERS, SEQS, NULL) == ERR_OK ? 0 : -1;
}

static int free_bench(void **state)
{
    (void)state;
    microbenchmark_deinit(&bench);
    return 0;
}

static double tokens_of(int round, int n_seqs)
{
    return bench.starts[round * (SEQS + 1) + n_seqs];
}

static void microbenchmark_times_the_units_that_it_has(void **state)
{
    struct microbenchmark_sum sum = {0};

    (void)state;
    assert_int_equal(microbenchmark_round(&bench, SEQS, &sum, NULL), ERR_OK);
    for (int k = 0; k < UNIT_KINDS; k++)
        assert_true((sum.kind_ms[k] > 0) == (k <= UNIT_FFN));
}

static void
microbenchmark_counts_a_forward_of_one_micro_batch_and_a_backward_of_the_one_before(void **state)
{
    struct microbenchmark_sum sum = {0};

    (void)state;
    assert_int_equal(microbenchmark_round(&bench, SEQS, &sum, NULL), ERR_OK);
    assert_true(fabs(sum.load.tokens - tokens_of(0, SEQS)) < 1e-9);
    assert_int_equal(microbenchmark_round(&bench, 1, &sum, NULL), ERR_OK);
    assert_true(fabs(sum.load.tokens - tokens_of(0, SEQS) -
                     (tokens_of(1, 1) + 2 * tokens_of(0, SEQS)) / 3) < 1e-9);
    assert_true(sum.load.tokens_squared > sum.load.tokens);
}

static void microbenchmark_load_is_the_mean_of_the_micro_batches_that_come(void **state)
{
    double tokens = 0;
    double fewer = 0;

    (void)state;
    for (int i = 0; i < MICROBENCHMARK_MICRO_MAX; i++) {
        tokens += tokens_of(i, SEQS) / MICROBENCHMARK_MICRO_MAX;
        fewer += tokens_of(i, 2) / MICROBENCHMARK_MICRO_MAX;
    }
    assert_true(fabs(microbenchmark_load(&bench, SEQS).tokens - tokens) < 1e-9);
    assert_true(fabs(microbenchmark_load(&bench, 2).tokens - fewer) < 1e-9);
    assert_int_equal(microbenchmark_load(&bench, 2).n_seqs, 2);
}

static void microbenchmark_has_the_parameters_of_its_units(void **state)
{
    size_t params = 0;

    (void)state;
    for (int u = 0; u < 1 + 2 * LAYERS; u++)
        params += model_unit_params(&bench.plan.spec.model, u);
    assert_true(microbenchmark_update(&bench) == (double)params);
    assert_true(bench.plan.spec.model.vocab <= MICROBENCHMARK_WORDS_MAX);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_bench, free_bench)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(microbenchmark_times_the_units_that_it_has),
        TEST(microbenchmark_counts_a_forward_of_one_micro_batch_and_a_backward_of_the_one_before),
        TEST(microbenchmark_load_is_the_mean_of_the_micro_batches_that_come),
        TEST(microbenchmark_has_the_parameters_of_its_units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
