#include "pipe/stage.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "nn/gemm.h"
#include "pipe/optimizer.h"
#include "pipe/schedule.h"

#define N_STEPS    4
#define N_SEQS     3 /* of a micro-batch */
#define N_MICRO    4
#define LENGTH     9
#define VOCAB      40
#define STAGES_MAX 5

/* A whole run of training, with the stages driven one after the other in this process. */
struct run {
    struct plan plan;
    struct stage stages[STAGES_MAX];
    double losses[N_STEPS];
};

static void make_plan(struct plan *plan, const int *units, int n_stages)
{
    int next = 0;

    memset(plan, 0, sizeof *plan);
    plan->spec.model = (struct model){.vocab = VOCAB,
                                      .hidden = 32,
                                      .layers = 2,
                                      .heads = 4,
                                      .ffn = 64,
                                      .positions = 16,
                                      .labels = 3,
                                      .norm_eps = 1e-12};
    plan->spec.training.batch_size = N_SEQS * N_MICRO;
    plan->spec.training.micro_batches = N_MICRO;
    plan->spec.training.max_length = LENGTH;
    plan->spec.training.seed = 7;
    plan->spec.training.dropout = 0.1;
    plan->spec.training.learning_rate = 1e-3;
    plan->spec.training.warmup_ratio = 0.25;
    plan->spec.training.max_grad_norm = 0.5;
    plan->spec.training.weight_decay = 0.01;
    plan->n_stages = n_stages;
    for (int s = 0; s < n_stages; s++) {
        plan->stages[s].first_unit = next;
        plan->stages[s].n_units = units[s];
        next += units[s];
    }
    assert_int_equal(next, model_units(&plan->spec.model));
}

/* Sequences of mixed length whose label depends on their tokens. */
static void make_input(int64_t step, int micro, struct stage_input *in)
{
    static int32_t ids[N_SEQS * LENGTH], types[N_SEQS * LENGTH], positions[N_SEQS * LENGTH];
    static int32_t starts[N_SEQS + 1], labels[N_SEQS];
    static uint32_t samples[N_SEQS];
    int t = 0;

    for (int i = 0; i < N_SEQS; i++) {
        uint32_t sample = (uint32_t)(step * 100 + micro * N_SEQS + i);
        int length = 4 + (int)(sample * 7 % (LENGTH - 3));

        starts[i] = t;
        samples[i] = sample;
        labels[i] = (int32_t)(sample % 3);
        for (int p = 0; p < length; p++, t++) {
            ids[t] = (int32_t)((sample * 31 + (uint32_t)p * 17 + (uint32_t)labels[i]) % VOCAB);
            types[t] = p > length / 2;
            positions[t] = p;
        }
    }
    starts[N_SEQS] = t;
    *in = (struct stage_input){.batch = {N_SEQS, t, starts, labels, samples},
                               .ids = ids,
                               .types = types,
                               .positions = positions,
                               .step = step};
}

/* All micro-batches forward through all stages and back, in micro-batch order. Slots allow only
 * S - s in flight, so each goes back before the next one starts. */
static void run_microbatch(struct run *r, int64_t step, int micro)
{
    struct stage_result result = {0};
    const float *gradient = NULL;
    struct stage_input in;

    make_input(step, micro, &in);
    for (int s = 0; s < r->plan.n_stages; s++) {
        assert_int_equal(stage_forward(&r->stages[s], 0, &in, &result, NULL), ERR_OK);
        in.tensor = result.tensor;
    }
    r->losses[step] += result.loss_sum;
    for (int s = r->plan.n_stages - 1; s >= 0; s--)
        gradient = stage_backward(&r->stages[s], 0, gradient);
    assert_null(gradient);
}

static struct run *run_cut(const int *units, int n_stages)
{
    struct run *r = calloc(1, sizeof *r);

    assert_non_null(r);
    make_plan(&r->plan, units, n_stages);
    for (int s = 0; s < n_stages; s++)
        assert_int_equal(stage_init(&r->stages[s], &r->plan, s, NULL), ERR_OK);
    for (int64_t step = 0; step < N_STEPS; step++) {
        struct weights_step how = {.step = step, .decay = r->plan.spec.training.weight_decay};
        double square_sum = 0;

        for (int m = 0; m < N_MICRO; m++)
            run_microbatch(r, step, m);
        for (int s = 0; s < n_stages; s++)
            square_sum = weights_square_sum(&r->stages[s].weights, square_sum);
        assert_true(square_sum > 0);
        how.rate = optimizer_rate(&r->plan.spec, step, N_STEPS);
        how.scale = optimizer_scale(square_sum, r->plan.spec.training.max_grad_norm);
        for (int s = 0; s < n_stages; s++)
            weights_update(&r->stages[s].weights, &how);
    }
    return r;
}

static void free_run(struct run *r)
{
    for (int s = 0; s < r->plan.n_stages; s++)
        stage_deinit(&r->stages[s]);
    free(r);
}

static const struct weights_unit *unit_of(const struct run *r, int unit)
{
    for (int s = 0; s < r->plan.n_stages; s++) {
        const struct weights *w = &r->stages[s].weights;

        if (unit >= w->first_unit && unit < w->first_unit + w->n_units)
            return &w->units[unit - w->first_unit];
    }
    return NULL;
}

static void stage_cuts_change_no_bit_of_losses_and_weights(void **state)
{
    static const int cuts[][STAGES_MAX] = {{3, 4}, {2, 5}, {1, 5, 1}, {1, 1, 3, 1, 1}, {5, 2}};
    static const int n_stages[] = {2, 2, 3, 5, 2};
    struct run *whole = run_cut((const int[]){7}, 1);

    (void)state;
    for (size_t c = 0; c < sizeof n_stages / sizeof n_stages[0]; c++) {
        struct run *cut = run_cut(cuts[c], n_stages[c]);

        assert_memory_equal(cut->losses, whole->losses, sizeof whole->losses);
        for (int u = 0; u < model_units(&whole->plan.spec.model); u++) {
            const struct weights_unit *a = unit_of(whole, u);
            const struct weights_unit *b = unit_of(cut, u);

            assert_int_equal(a->count, b->count);
            assert_memory_equal(a->params, b->params, a->count * sizeof(float));
        }
        free_run(cut);
    }
    free_run(whole);
}

static void stage_loss_starts_at_chance_and_moves(void **state)
{
    struct run *r = run_cut((const int[]){7}, 1);

    (void)state;
    assert_true(fabs(r->losses[0] / (N_SEQS * N_MICRO) - log(3)) < 0.1);
    assert_true(r->losses[N_STEPS - 1] != r->losses[0]);
    free_run(r);
}

static void stage_forward_refuses_tokens_outside_the_model(void **state)
{
    struct run *r = calloc(1, sizeof *r);
    int32_t bad_ids[N_SEQS * LENGTH];
    struct stage_result result;
    struct stage_input in;
    struct err err;

    (void)state;
    assert_non_null(r);
    make_plan(&r->plan, (const int[]){7}, 1);
    assert_int_equal(stage_init(&r->stages[0], &r->plan, 0, NULL), ERR_OK);
    make_input(0, 0, &in);
    memcpy(bad_ids, in.ids, sizeof bad_ids);
    bad_ids[3] = VOCAB;
    in.ids = bad_ids;
    assert_int_equal(stage_forward(&r->stages[0], 0, &in, &result, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "token 3"));
    free_run(r);
}

static void stage_bytes_grow_with_the_microbatches_in_flight(void **state)
{
    struct plan plan;
    size_t first;

    (void)state;
    make_plan(&plan, (const int[]){3, 2, 2}, 3);
    first = stage_bytes(&plan, 0);
    plan.spec.training.micro_batches = 1;
    plan.spec.training.batch_size = N_SEQS;
    assert_true(stage_bytes(&plan, 0) < first);
}

static int set_up(void **state)
{
    (void)state;
    return gemm_setup(1, NULL) == ERR_OK ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stage_cuts_change_no_bit_of_losses_and_weights),
        cmocka_unit_test(stage_loss_starts_at_chance_and_moves),
        cmocka_unit_test(stage_forward_refuses_tokens_outside_the_model),
        cmocka_unit_test(stage_bytes_grow_with_the_microbatches_in_flight),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
