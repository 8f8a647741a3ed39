#include "train/outer.h"

#include <math.h>

#include "suite.h"

static void a_deal_follows_the_speeds(void **state)
{
    int64_t begins[5];

    (void)state;
    outer_deal(130, 4, (const double[]){10, 10, 40, 10}, begins);
    assert_int_equal(begins[0], 0);
    assert_int_equal(begins[1], 40);
    assert_int_equal(begins[2], 80);
    assert_int_equal(begins[3], 90);
    assert_int_equal(begins[4], 130);
}

/* Whatever is left over goes to the replicas that end first: no other deal would end sooner. */
static void a_deal_ends_as_soon_as_one_can(void **state)
{
    static const double ticket_ms[] = {3, 7, 11};

    (void)state;
    for (int64_t n = 0; n < 60; n++) {
        int64_t begins[4];
        double end_ms = 0, least_ms = INFINITY;

        outer_deal(n, 3, ticket_ms, begins);
        assert_int_equal(begins[3], n);
        for (int r = 0; r < 3; r++) {
            assert_true(begins[r + 1] >= begins[r]);
            end_ms = fmax(end_ms, (double)(begins[r + 1] - begins[r]) * ticket_ms[r]);
        }
        for (int64_t a = 0; a <= n; a++)
            for (int64_t b = 0; a + b <= n; b++)
                least_ms = fmin(least_ms,
                                fmax(fmax((double)a * 3, (double)b * 7), (double)(n - a - b) * 11));
        assert_true(end_ms == least_ms);
    }
}

static void a_deal_of_few_tickets_leaves_slow_replicas_out(void **state)
{
    int64_t begins[4];

    (void)state;
    outer_deal(3, 3, (const double[]){1, 100, 1}, begins);
    assert_int_equal(begins[1], 2);
    assert_int_equal(begins[2], 2);
    assert_int_equal(begins[3], 3);
}

/* When a unit's turn comes, half of its bytes and all before it are due. */
static void units_are_offered_evenly_by_their_bytes(void **state)
{
    struct model m;
    double all = 0, before = 0;

    (void)state;
    assert_int_equal(model_preset("BertBase", &m, NULL), ERR_OK);
    for (int u = 0; u < model_units(&m); u++)
        all += (double)model_unit_params(&m, u);
    for (int u = 0; u < model_units(&m); u++) {
        double half = (double)model_unit_params(&m, u) / 2;
        double due = (double)outer_due(&m, u, 1000000) / 1e6;

        assert_true(fabs(due - (before + half) / all) < 1e-5);
        before += 2 * half;
        assert_int_equal(outer_due(&m, u, 0), 0);
    }
}

static void the_mean_of_all_replicas_is_a_step_of_rate_1(void **state)
{
    float params[] = {1, -2, 0}, sums[] = {3, -9, 0.5f}, velocity[3] = {0};

    (void)state;
    outer_apply(&(struct outer_step){.rate = 1, .n_replicas = 2}, params, sums, velocity, 3);
    assert_true(params[0] == 1.5f && params[1] == -4.5f && params[2] == 0.25f);
    for (int i = 0; i < 3; i++)
        assert_true(sums[i] == 0);
}

/* torch.optim.SGD(lr=0.5, momentum=0.5, nesterov=True) for the gradients 1 and then 2. */
static void outer_steps_have_nesterov_momentum(void **state)
{
    const struct outer_step how = {.rate = 0.5, .momentum = 0.5, .n_replicas = 1};
    float params = 8, sums = 7, velocity = 0;

    (void)state;
    outer_apply(&how, &params, &sums, &velocity, 1);
    assert_true(params == 8 - 0.5f * (1 + 0.5f));
    sums = params - 2;
    outer_apply(&how, &params, &sums, &velocity, 1);
    assert_true(velocity == 2.5f);
    assert_true(params == 7.25f - 0.5f * (2 + 1.25f));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_deal_follows_the_speeds),
        cmocka_unit_test(a_deal_ends_as_soon_as_one_can),
        cmocka_unit_test(a_deal_of_few_tickets_leaves_slow_replicas_out),
        cmocka_unit_test(units_are_offered_evenly_by_their_bytes),
        cmocka_unit_test(the_mean_of_all_replicas_is_a_step_of_rate_1),
        cmocka_unit_test(outer_steps_have_nesterov_momentum),
    };

    return cmocka_run_group_tests_name("outer", tests, NULL, NULL);
}
