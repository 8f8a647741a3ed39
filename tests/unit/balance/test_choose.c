#include "balance/choose.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "balance/explain.h"
#include "balance/partition.h"
#include "instances.h"

#define INSTANCES 200

static struct spec spec_of(int batch_size, int max_stages)
{
    struct spec spec = {.training = {.batch_size = batch_size, .max_length = 128},
                        .placement = {.min_stages = 1, .max_stages = max_stages}};

    assert_int_equal(model_preset("BertMini", &spec.model, NULL), ERR_OK);
    return spec;
}

static struct partition_request request_of(const struct spec *spec, const struct node *nodes, int n)
{
    struct partition_request request = partition_request_of(spec);

    request.nodes = nodes;
    request.n_nodes = n;
    return request;
}

static double step_with(struct partition_request request, int micro_batches)
{
    struct placement p;

    request.job.micro_batches = micro_batches;
    return partition_solve(&request, &p, NULL) == ERR_OK ? p.predicted_step_ms : -1;
}

/* Over batch sizes with few and with many divisors, and nodes of all speeds. */
static void choose_is_at_most_2_percent_slower_than_any_fixed_number(void **state)
{
    static const int batches[] = {1, 2, 12, 31, 32, 97, 128, 512};
    struct node nodes[3];

    (void)state;
    for (int i = 0; i < INSTANCES; i++) {
        int batch = batches[i % 8];
        struct spec spec = spec_of(batch, 3);
        struct partition_request request = request_of(&spec, nodes, 1 + i % 3);
        struct placement p;

        for (int k = 0; k < 3; k++)
            nodes[k] = (struct node){.name = "node",
                                     .gflops = 1 + (i * 7 + k * 31) % 100,
                                     .unit_ms = 0.001 * ((i * 13 + k) % 100),
                                     .memory_bytes = 4096 * MIB};
        assert_int_equal(choose_solve(&request, &p, NULL), ERR_OK);
        assert_int_equal(batch % p.micro_batches, 0);
        for (int m = 1; m <= batch; m++)
            if (batch % m == 0)
                assert_true(p.predicted_step_ms <= step_with(request, m) * 1.02 * (1 + 1e-9));
    }
}

static void choose_takes_the_usual_number_or_the_fewest_that_are_as_good(void **state)
{
    int n_usual = 0;
    int n_fewest = 0;

    (void)state;
    for (int i = 1; i <= 40; i++) {
        struct node nodes[2] = {
            {.name = "a", .gflops = 50, .unit_ms = 0.2 * i, .memory_bytes = 4096 * MIB},
            {.name = "b", .gflops = 40, .unit_ms = 0.2 * i, .memory_bytes = 4096 * MIB}};
        struct spec spec = spec_of(64, 2);
        struct partition_request request = request_of(&spec, nodes, 2);
        struct placement p;
        double best_ms = INFINITY;
        bool is_usual;

        assert_int_equal(choose_solve(&request, &p, NULL), ERR_OK);
        for (int m = 1; m <= 64; m *= 2)
            best_ms = fmin(best_ms, step_with(request, m));
        is_usual = step_with(request, 8) <= 1.02 * best_ms;
        assert_int_equal(p.n_stages, 2);
        assert_true((p.micro_batches == 8) == is_usual);
        for (int m = 1; m < p.micro_batches && !is_usual; m *= 2)
            assert_true(step_with(request, m) > 1.02 * best_ms);
        assert_true(p.bound_ms <= best_ms * (1 + 1e-9));
        n_usual += is_usual;
        n_fewest += !is_usual;
    }
    assert_true(n_usual > 0 && n_fewest > 0);
}

/* What two probes of the same machines find differs by some percent. */
static void choose_stays_with_its_number_when_figures_are_noisy(void **state)
{
    int first = 0;

    (void)state;
    for (int i = -3; i <= 3; i++)
        for (int k = -3; k <= 3; k++) {
            struct node nodes[2] = {{.name = "half",
                                     .cpu_milli = 500,
                                     .gflops = 40 * (1 + 0.01 * i),
                                     .memory_bytes = 4096 * MIB},
                                    {.name = "whole",
                                     .cpu_milli = 1000,
                                     .gflops = 80 * (1 + 0.01 * k),
                                     .memory_bytes = 4096 * MIB}};
            struct spec spec = spec_of(64, 2);
            struct partition_request request = request_of(&spec, nodes, 2);
            struct placement p;

            assert_int_equal(choose_solve(&request, &p, NULL), ERR_OK);
            assert_int_equal(p.n_stages, 2);
            if (first == 0)
                first = p.micro_batches;
            assert_int_equal(p.micro_batches, first);
        }
}

/* A second node so slow that it can take only a small part of the work: it has a stage only where
 * that gains 1 percent. */
static void choose_leaves_out_a_node_that_gains_less_than_1_percent(void **state)
{
    int n_small = 0;
    int n_large = 0;

    (void)state;
    for (int i = 1; i <= 60; i++) {
        const struct node_message free = {.ms = 1e-6};
        struct node nodes[2] = {
            {.name = "fast", .gflops = 100, .message = free, .memory_bytes = 4096 * MIB},
            {.name = "slow", .gflops = 0.25 * i, .message = free, .memory_bytes = 4096 * MIB}};
        struct spec spec = spec_of(32, 2);
        struct partition_request request = request_of(&spec, nodes, 2);
        struct placement p;
        double both_ms;
        double one_ms;

        request.link = (struct cost_link){.bytes_per_s = 1e12};
        request.job.micro_batches = 8;
        both_ms = step_with(request, 8);
        request.n_nodes = 1;
        one_ms = step_with(request, 8);
        request.n_nodes = 2;
        assert_int_equal(choose_solve(&request, &p, NULL), ERR_OK);
        assert_int_equal(p.n_stages, one_ms <= 1.01 * both_ms ? 1 : 2);
        if (p.n_stages == 1 && both_ms < one_ms * (1 - 1e-9)) {
            n_small++;
            assert_int_equal(p.n_left_out, 1);
            assert_non_null(strstr(p.left_out[0].reason, "too small a gain for another node"));
            assert_true(fabs(p.bound_ms / both_ms - 1) < 1e-8);
        }
        n_large += p.n_stages == 2;
    }
    assert_true(n_small > 0 && n_large > 0);
}

static void choose_keeps_a_small_gain_where_min_stages_asks_for_it(void **state)
{
    struct node nodes[2] = {{.name = "fast", .gflops = 100, .memory_bytes = 4096 * MIB},
                            {.name = "slow", .gflops = 0.1, .memory_bytes = 4096 * MIB}};
    struct spec spec = spec_of(32, 2);
    struct partition_request request = request_of(&spec, nodes, 2);
    struct placement p;

    (void)state;
    request.min_stages = 2;
    assert_int_equal(choose_solve(&request, &p, NULL), ERR_OK);
    assert_int_equal(p.n_stages, 2);
}

static void choose_keeps_what_the_user_says(void **state)
{
    struct node node = {.name = "node", .gflops = 50, .memory_bytes = 4096 * MIB};
    struct spec spec = spec_of(32, 3);
    struct partition_request request = request_of(&spec, &node, 1);
    struct placement p;

    (void)state;
    request.job.micro_batches = 4;
    assert_int_equal(choose_solve(&request, &p, NULL), ERR_OK);
    assert_int_equal(p.micro_batches, 4);
}

/* One stage has nothing to wait for: every further micro-batch only costs. */
static void choose_does_not_cut_the_batch_of_a_single_stage(void **state)
{
    struct node node = {.name = "node", .gflops = 50, .unit_ms = 0.1, .memory_bytes = 8192 * MIB};
    struct spec spec = spec_of(32, 3);
    struct partition_request request = request_of(&spec, &node, 1);
    struct placement p;

    (void)state;
    assert_int_equal(choose_solve(&request, &p, NULL), ERR_OK);
    assert_int_equal(p.micro_batches, 1);
}

static void choose_cuts_a_batch_that_does_not_fit_into_memory(void **state)
{
    struct node node = {.name = "node", .gflops = 50, .unit_ms = 0.1, .memory_bytes = 700 * MIB};
    struct spec spec = spec_of(128, 3);
    struct partition_request request = request_of(&spec, &node, 1);
    struct placement p;

    (void)state;
    assert_true(step_with(request, 1) < 0);
    assert_int_equal(choose_solve(&request, &p, NULL), ERR_OK);
    assert_true(p.micro_batches > 1);
    assert_true(p.stages[0].memory_bytes <= 700 * MIB);
}

static void choose_reports_what_lacks_with_the_least_memory(void **state)
{
    struct node node = {.name = "node", .gflops = 50, .memory_bytes = 100 * MIB};
    struct spec spec = spec_of(32, 3);
    struct partition_request request = request_of(&spec, &node, 1);
    struct placement p;
    struct err err, last;

    (void)state;
    assert_int_equal(choose_solve(&request, &p, &err), ERR_NOT_FOUND);
    request.job.micro_batches = 32;
    assert_int_equal(partition_solve(&request, &p, &last), ERR_NOT_FOUND);
    assert_string_equal(err.text, last.text);
}

/* 5040 has 60 divisors, 43 of them up to 1024. */
static void choose_looks_at_a_bounded_number_of_divisors(void **state)
{
    struct node nodes[2] = {{.name = "a", .gflops = 50, .memory_bytes = 65536 * MIB},
                            {.name = "b", .gflops = 40, .memory_bytes = 65536 * MIB}};
    struct spec spec = spec_of(5040, 2);
    struct partition_request request = request_of(&spec, nodes, 2);
    struct placement p;

    (void)state;
    assert_int_equal(choose_solve(&request, &p, NULL), ERR_OK);
    assert_int_equal(5040 % p.micro_batches, 0);
    assert_in_range(p.micro_batches, 2, CHOOSE_MICRO_MAX);
    spec = spec_of(65521, 2); /* a prime above the most there may be */
    assert_int_equal(choose_solve(&request, &p, NULL), ERR_NOT_FOUND);
    spec = spec_of(1021, 2); /* one below */
    assert_int_equal(choose_solve(&request, &p, NULL), ERR_OK);
    assert_int_equal(p.micro_batches, 1021);
}

/* More than CHOOSE_FEW_NODES: solved with a link per pair of buildings. */
static void choose_plans_by_link_classes_as_partition_does_by_nodes(void **state)
{
    static struct instance in;
    struct placement by_class, by_node;
    struct err err;

    (void)state;
    for (int n = CHOOSE_FEW_NODES + 1; n < 30; n += 4) {
        make_buildings(&in, n, 2e7);
        assert_int_equal(choose_solve(&in.request, &by_class, NULL), ERR_OK);
        in.request.max_stages = by_class.n_stages;
        assert_int_equal(partition_solve(&in.request, &by_node, NULL), ERR_OK);
        assert_int_equal(by_class.n_stages, by_node.n_stages);
        assert_memory_equal(by_class.stages, by_node.stages,
                            (size_t)by_node.n_stages * sizeof *by_node.stages);
    }
    in.links[1].latency_ms = 5; /* not what the way back takes */
    assert_int_equal(choose_solve(&in.request, &by_class, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "both ways must be given alike"));
}

static void choose_is_explained(void **state)
{
    struct node nodes[2] = {{.name = "a", .gflops = 5, .memory_bytes = 4096 * MIB},
                            {.name = "b", .gflops = 4, .memory_bytes = 4096 * MIB}};
    struct spec spec = spec_of(31, 2);
    struct partition_request request = request_of(&spec, nodes, 2);
    struct placement p;
    char text[PLAN_REASON_BYTES];

    (void)state;
    assert_int_equal(choose_solve(&request, &p, NULL), ERR_OK);
    explain_placement(&request, &p, text);
    if (!strstr(text, "2 stages and 31 micro-batches of 1 sequence."))
        fail_msg("%s", text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choose_is_at_most_2_percent_slower_than_any_fixed_number),
        cmocka_unit_test(choose_takes_the_usual_number_or_the_fewest_that_are_as_good),
        cmocka_unit_test(choose_stays_with_its_number_when_figures_are_noisy),
        cmocka_unit_test(choose_leaves_out_a_node_that_gains_less_than_1_percent),
        cmocka_unit_test(choose_keeps_a_small_gain_where_min_stages_asks_for_it),
        cmocka_unit_test(choose_keeps_what_the_user_says),
        cmocka_unit_test(choose_does_not_cut_the_batch_of_a_single_stage),
        cmocka_unit_test(choose_cuts_a_batch_that_does_not_fit_into_memory),
        cmocka_unit_test(choose_reports_what_lacks_with_the_least_memory),
        cmocka_unit_test(choose_looks_at_a_bounded_number_of_divisors),
        cmocka_unit_test(choose_plans_by_link_classes_as_partition_does_by_nodes),
        cmocka_unit_test(choose_is_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
