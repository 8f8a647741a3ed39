/* What bfloat16 factors do to a training run: its loss stays by that of fp32. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "begin.h"
#include "nn/gemm.h"
#include "train/stage.h"

#define N_STEPS  200
#define N_LAST   20 /* steps whose losses count */
#define N_SEQS   32
#define N_LABELS 3
#define LENGTH   16
#define VOCAB    97

/* Two words of a sequence decide its label, of one sequence in four it is any: after these steps
 * the loss is still falling and well above 0, where a relative difference would mean nothing. */
static int32_t word_of(uint32_t sample, int at)
{
    uint32_t mixed = sample * 2654435761u;

    return (int32_t)((mixed >> (8 + 4 * at)) % 5);
}

static int32_t label_of(uint32_t sample)
{
    if (sample % 4 == 0)
        return (int32_t)(sample / 4 % N_LABELS);
    return word_of(sample, 0) < 2 ? 0 : word_of(sample, 1) < 2 ? 1 : 2;
}

static void make_input(int64_t step, struct message_batch *in)
{
    static int32_t ids[N_SEQS * LENGTH], types[N_SEQS * LENGTH];
    static int32_t starts[N_SEQS + 1], labels[N_SEQS];
    static uint32_t samples[N_SEQS];
    int t = 0;

    for (int i = 0; i < N_SEQS; i++) {
        uint32_t sample = (uint32_t)(step * N_SEQS + i);

        starts[i] = t;
        samples[i] = sample;
        labels[i] = label_of(sample);
        for (int p = 0; p < LENGTH - i % 5; p++, t++) {
            ids[t] = p == 1 || p == 4 ? word_of(sample, p / 4)
                                      : (int32_t)((sample * 7 + (uint32_t)p) % VOCAB);
            types[t] = p > LENGTH / 2;
        }
    }
    starts[N_SEQS] = t;
    *in = (struct message_batch){.n_seqs = N_SEQS,
                                 .n_tokens = t,
                                 .step_seqs = N_SEQS,
                                 .starts = starts,
                                 .labels = labels,
                                 .samples = samples,
                                 .ids = ids,
                                 .types = types,
                                 .step = step};
}

static void make_plan(struct plan *plan)
{
    *plan = (struct plan){.n_workers = 1};
    plan->spec.model = (struct model){.head = MODEL_HEAD_CLASSIFIER,
                                      .vocab = VOCAB,
                                      .hidden = 64,
                                      .layers = 2,
                                      .heads = 2,
                                      .ffn = 256,
                                      .positions = LENGTH,
                                      .labels = N_LABELS,
                                      .norm_eps = 1e-12};
    plan->spec.training.batch_size = N_SEQS;
    plan->micro_batches = 1;
    plan->spec.training.max_length = LENGTH;
    plan->spec.training.seed = 3;
    plan->spec.training.dropout = 0.1;
    plan->spec.training.learning_rate = 1e-3;
    plan->spec.training.warmup_ratio = 0.1;
    plan->spec.training.weight_decay = 0.01;
    plan->spec.training.beta1 = 0.9;
    plan->spec.training.beta2 = 0.999;
    plan->spec.training.epsilon = 1e-8;
    plan->workers[0].n_units = model_units(&plan->spec.model);
}

/* The mean loss of a sequence in the last steps. */
static double train(enum gemm_precision precision, double *out_first)
{
    static struct plan plan;
    static struct state weights;
    static struct stage stage;
    double sum = 0;

    assert_int_equal(gemm_setup(1, NULL), ERR_OK);
    assert_int_equal(gemm_use(precision, NULL), ERR_OK);
    make_plan(&plan);
    begin_stage(&stage, &weights, &plan, 0);
    for (int64_t step = 0; step < N_STEPS; step++) {
        struct weights_step how = {.spec = &plan.spec, .share = 1, .updates = step};
        struct stage_result result;
        struct message_batch in;

        make_input(step, &in);
        assert_int_equal(stage_load(&stage, 0, &in, NULL), ERR_OK);
        stage_forward(&stage, 0, &result);
        assert_null(stage_backward(&stage, 0, NULL));
        how.rate = optimizer_rate(&plan.spec, step, N_STEPS);
        how.scale = optimizer_scale(weights_square_sum(&stage.weights, 0), 1.0);
        weights_update(&stage.weights, &how);
        if (step == 0)
            *out_first = result.loss.sum / N_SEQS;
        if (step >= N_STEPS - N_LAST)
            sum += result.loss.sum / N_SEQS;
    }
    stage_deinit(&stage);
    state_deinit(&weights);
    return sum / N_LAST;
}

static void precision_bf16_trains_to_within_a_hundredth_of_fp32(void **state)
{
    double first, fp32, bf16;

    (void)state;
    if (!gemm_has_bf16()) {
        print_message("skipped: this processor has no AVX512_BF16\n");
        skip();
    }
    fp32 = train(GEMM_FP32, &first);
    assert_true(fp32 > 0.2 && fp32 < 0.8 * first); /* it learned, and has something left */
    bf16 = train(GEMM_BF16, &first);
    print_message("loss after %d steps: fp32 %.5f, bf16 %.5f\n", N_STEPS, fp32, bf16);
    assert_true(bf16 != fp32);
    assert_true(fabs(bf16 - fp32) < 0.01 * fp32);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(precision_bf16_trains_to_within_a_hundredth_of_fp32),
    };

    return cmocka_run_group_tests_name("precision", tests, NULL, NULL);
}
