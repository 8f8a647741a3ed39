#include "train/state.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tiny_model.h"

#define RATE 0.01

/* How far one weight, which starts at 0, has moved after gradients of 1 and then 3. */
static double moved(const struct spec *spec)
{
    static struct state state;
    struct weights w;
    double x;

    assert_int_equal(state_take(&state, spec, 0, NULL), ERR_OK);
    w = state_weights(&state, spec, 0, 1);
    for (int64_t step = 0; step < 2; step++) {
        struct weights_step how = {
            .spec = spec, .rate = RATE, .scale = 1, .share = 1, .updates = step};

        w.units[0].grads[0] = step == 0 ? 1.0f : 3.0f;
        weights_update(&w, &how);
    }
    x = w.units[0].params[0];
    state_deinit(&state);
    return x;
}

static double adamw(double b1, double b2, double eps)
{
    double m1 = 1 - b1, v1 = 1 - b2;
    double m2 = b1 * m1 + (1 - b1) * 3, v2 = b2 * v1 + (1 - b2) * 9;

    return -RATE * (1 / (1 + eps) + m2 / (1 - b1 * b1) / (sqrt(v2 / (1 - b2 * b2)) + eps));
}

static void weights_move_by_the_constants_of_the_spec(void **state)
{
    static const double rows[][3] = {
        {0.9, 0.999, 1e-8}, {0.5, 0.999, 1e-8}, {0.9, 0.5, 1e-8}, {0.9, 0.999, 0.5}, {0, 0, 1}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct spec spec = {.model = TINY_MODEL,
                            .training = {.optimizer = SPEC_OPTIMIZER_ADAMW,
                                         .beta1 = rows[i][0],
                                         .beta2 = rows[i][1],
                                         .epsilon = rows[i][2]}};
        double want = adamw(rows[i][0], rows[i][1], rows[i][2]);

        assert_true(fabs(moved(&spec) - want) < 1e-6 * RATE + 1e-5 * fabs(want));
    }
}

static void weights_move_with_the_momentum_of_the_spec(void **state)
{
    struct spec spec = {.model = TINY_MODEL,
                        .training = {.optimizer = SPEC_OPTIMIZER_SGD, .momentum = 0.5}};

    (void)state;
    assert_true(fabs(moved(&spec) - -RATE * (1 + 3.5)) < 1e-7);
}

/* Four updates of a quarter each, in parts that do not end where tensors do, and a whole one: with
 * the same gradient the moments are the same. */
static void shares_of_a_step_move_the_moments_as_far_as_the_step(void **state)
{
    struct spec spec = {
        .model = TINY_MODEL,
        .training = {
            .optimizer = SPEC_OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8}};
    static struct state whole, parts;
    struct weights_step step = {.spec = &spec, .rate = RATE, .scale = 1, .share = 1};
    struct weights_step quarter = {.spec = &spec, .rate = RATE / 4, .scale = 1, .share = 0.25};
    const struct weights_unit *a = &whole.units[1], *b = &parts.units[1];
    struct weights w;

    (void)state;
    assert_int_equal(state_add(&whole, &spec, 1, 1, NULL), ERR_OK);
    assert_int_equal(state_add(&parts, &spec, 1, 1, NULL), ERR_OK);
    w = state_weights(&whole, &spec, 1, 1);
    for (size_t i = 0; i < a->count; i++)
        a->grads[i] = (float)(i % 7) + 1;
    weights_update(&w, &step);
    for (int k = 0; k < 4; k++)
        for (size_t at = 0; at < b->count; at += 13) {
            size_t n = b->count - at < 13 ? b->count - at : 13;

            for (size_t i = at; i < at + n; i++)
                b->grads[i] = (float)(i % 7) + 1;
            weights_update_part(&spec.model, 1, b, at, n, b->grads + at, &quarter);
        }
    for (size_t i = 0; i < a->count; i++) {
        assert_true(b->grads[i] == 0);
        assert_true(fabsf(a->moment[i] - b->moment[i]) < 1e-5f * fabsf(a->moment[i]));
        assert_true(fabsf(a->variance[i] - b->variance[i]) < 1e-4f * a->variance[i]);
    }
    state_deinit(&whole);
    state_deinit(&parts);
}

static void optimizer_share_keeps_the_way_of_a_step(void **state)
{
    struct spec sgd = {.training.optimizer = SPEC_OPTIMIZER_SGD};
    struct spec adamw = {.training.optimizer = SPEC_OPTIMIZER_ADAMW};

    (void)state;
    assert_true(optimizer_share(&sgd, 0.25) == 0.25);
    assert_true(optimizer_share(&adamw, 0.25) == 0.5);
}

static struct spec spec_of(enum spec_schedule schedule)
{
    struct spec s = {0};

    s.training.learning_rate = 2.0;
    s.training.warmup_ratio = 0.1;
    s.training.schedule = schedule;
    return s;
}

static void optimizer_rate_rises_to_the_full_rate_and_falls_to_zero(void **state)
{
    struct spec s = spec_of(SPEC_SCHEDULE_LINEAR);

    (void)state;
    assert_true(optimizer_rate(&s, 0, 100) == 0);
    assert_true(optimizer_rate(&s, 5, 100) == 1.0);
    assert_true(optimizer_rate(&s, 10, 100) == 2.0);
    assert_true(fabs(optimizer_rate(&s, 55, 100) - 1.0) < 1e-12);
    assert_true(optimizer_rate(&s, 100, 100) == 0);
}

static void optimizer_rate_stays_when_constant(void **state)
{
    struct spec s = spec_of(SPEC_SCHEDULE_CONSTANT);

    (void)state;
    assert_true(optimizer_rate(&s, 5, 100) == 1.0);
    assert_true(optimizer_rate(&s, 10, 100) == 2.0);
    assert_true(optimizer_rate(&s, 99, 100) == 2.0);
}

/* As transformers' Trainer: ceil(0.1 * 15) steps. */
static void optimizer_rounds_the_warm_up_up(void **state)
{
    struct spec s = spec_of(SPEC_SCHEDULE_LINEAR);

    (void)state;
    assert_true(optimizer_rate(&s, 0, 15) == 0);
    assert_true(optimizer_rate(&s, 1, 15) == 1.0);
    assert_true(optimizer_rate(&s, 2, 15) == 2.0);
    assert_true(optimizer_rate(&s, 0, 3) == 0);
    assert_true(optimizer_rate(&s, 1, 3) == 2.0);
}

static void optimizer_rate_is_full_at_once_without_a_warm_up(void **state)
{
    struct spec s = spec_of(SPEC_SCHEDULE_LINEAR);

    (void)state;
    s.training.warmup_ratio = 0;
    assert_true(optimizer_rate(&s, 0, 3) == 2.0);
}

static void optimizer_scale_brings_a_large_norm_down_and_leaves_a_small_one(void **state)
{
    (void)state;
    assert_true(fabs(optimizer_scale(16.0, 1.0) - 0.25) < 1e-6);
    assert_true(optimizer_scale(0.25, 1.0) == 1.0);
    assert_true(optimizer_scale(1e30, 0) == 1.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_move_by_the_constants_of_the_spec),
        cmocka_unit_test(weights_move_with_the_momentum_of_the_spec),
        cmocka_unit_test(shares_of_a_step_move_the_moments_as_far_as_the_step),
        cmocka_unit_test(optimizer_share_keeps_the_way_of_a_step),
        cmocka_unit_test(optimizer_rate_rises_to_the_full_rate_and_falls_to_zero),
        cmocka_unit_test(optimizer_rate_stays_when_constant),
        cmocka_unit_test(optimizer_rounds_the_warm_up_up),
        cmocka_unit_test(optimizer_rate_is_full_at_once_without_a_warm_up),
        cmocka_unit_test(optimizer_scale_brings_a_large_norm_down_and_leaves_a_small_one),
    };

    return cmocka_run_group_tests_name("weights", tests, NULL, NULL);
}
