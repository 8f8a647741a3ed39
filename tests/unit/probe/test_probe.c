#include "probe/probe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "nn/gemm.h"

static void probe_measures_something_that_node_probe_read_accepts(void **state)
{
    struct buf text = {.max = 4096};
    struct spec spec = {0};
    struct node_probe probe;
    struct node_probe again;
    struct sequences sequences;

    (void)state;
    assert_int_equal(model_preset("BertTiny", &spec.model, NULL), ERR_OK);
    spec.training.batch_size = 8;
    spec.training.micro_batches = 2;
    spec.training.max_length = 32;
    spec.training.beta1 = 0.9;
    spec.training.beta2 = 0.999;
    spec.training.epsilon = 1e-8;
    spec.training.dropout = 0.1;
    sequences_make(&spec, &sequences);
    assert_int_equal(gemm_setup(1, NULL), ERR_OK);
    assert_int_equal(probe_run(&spec, &sequences, 20, &probe, NULL), ERR_OK);
    assert_int_equal(node_probe_write(&probe, &text, NULL), ERR_OK);
    assert_int_equal(node_probe_read(buf_text(&text), &again, NULL), ERR_OK);
    assert_true(again.gflops == probe.gflops);
    assert_true(again.block_ms == probe.block_ms && probe.block_ms > 0);
    assert_true(again.pace.attention == probe.pace.attention);
    assert_true(again.memory_bytes_per_s > 0);
    assert_true(again.lengths.mean == 0); /* there was no data */
    buf_deinit(&text);
}

/* As the job will compute there, or the plan would think too little of the node. */
static void probe_measures_in_the_precision_of_the_job(void **state)
{
    static const enum spec_precision asked[] = {SPEC_PRECISION_BF16, SPEC_PRECISION_AUTO,
                                                SPEC_PRECISION_FP32};
    struct spec spec = {0};
    struct node_probe probe;
    struct sequences sequences;

    (void)state;
    assert_int_equal(model_preset("BertTiny", &spec.model, NULL), ERR_OK);
    spec.training.batch_size = 8;
    spec.training.micro_batches = 1;
    spec.training.max_length = 32;
    spec.training.beta1 = 0.9;
    spec.training.beta2 = 0.999;
    spec.training.epsilon = 1e-8;
    sequences_make(&spec, &sequences);
    assert_int_equal(gemm_setup(1, NULL), ERR_OK);
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        bool is_bf16 = gemm_has_bf16() && asked[i] != SPEC_PRECISION_FP32;

        spec.training.precision = asked[i];
        assert_int_equal(probe_run(&spec, &sequences, 1, &probe, NULL), ERR_OK);
        assert_int_equal(gemm_precision(), is_bf16 ? GEMM_BF16 : GEMM_FP32);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(probe_measures_something_that_node_probe_read_accepts),
        cmocka_unit_test(probe_measures_in_the_precision_of_the_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
