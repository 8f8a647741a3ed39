#include "balance/cost.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MIB ((int64_t)1 << 20)

static struct spec bert_base(void)
{
    struct spec spec = {.training = {.batch_size = 32, .max_length = 128}};

    assert_int_equal(model_preset("BertBase", &spec.model, NULL), ERR_OK);
    return spec;
}

static struct cost_job job_of(const struct spec *spec)
{
    return (struct cost_job){.spec = spec, .micro_batches = 8};
}

/* The usual rule: a training step takes 6 FLOPs for each parameter that is multiplied and token. */
static void cost_counts_six_flops_a_parameter_and_token(void **state)
{
    struct spec spec = bert_base();
    struct model_load load = {.n_seqs = 1, .tokens = 100};
    double flops = 0;
    double params = 0;

    (void)state;
    for (int u = 1; u <= 2 * spec.model.layers; u++) {
        flops += model_unit_flops(&spec.model, u, &load);
        params += (double)model_unit_params(&spec.model, u);
    }
    assert_true(flops / (6 * params * 100) > 0.99);
    assert_true(flops / (6 * params * 100) <= 1.0);
}

static void cost_of_attention_grows_with_the_square_of_a_sequence(void **state)
{
    struct spec spec = bert_base();
    struct model_load four = {.n_seqs = 4, .tokens = 400, .tokens_squared = 4 * 100.0 * 100.0};
    struct model_load one = {.n_seqs = 1, .tokens = 400, .tokens_squared = 400.0 * 400.0};
    double more = model_unit_flops(&spec.model, 1, &one) - model_unit_flops(&spec.model, 1, &four);

    (void)state;
    assert_true(more == 3.0 * 4 * 768 * (160000 - 40000));
    assert_true(model_unit_flops(&spec.model, 2, &one) == model_unit_flops(&spec.model, 2, &four));
}

static void cost_of_every_unit_is_above_zero(void **state)
{
    struct spec spec = bert_base();
    struct cost_job job = job_of(&spec);

    (void)state;
    for (int u = 0; u < model_units(&spec.model); u++) {
        struct cost_unit c;

        cost_of_unit(&job, u, &c);
        assert_true(c.flops > 0);
        assert_true(c.state_bytes == (int64_t)(16 * model_unit_params(&spec.model, u)));
        assert_true(c.activation_bytes > 0);
        assert_true(c.scratch_bytes > 0);
    }
}

static void cost_of_checkpoints_is_a_copy_of_all_but_the_gradients(void **state)
{
    struct spec spec = bert_base();
    struct cost_job job = job_of(&spec), saved_job = job;

    (void)state;
    saved_job.saves_from_copy = true;
    for (int sgd = 0; sgd < 2; sgd++) {
        spec.training.optimizer = sgd ? SPEC_OPTIMIZER_SGD : SPEC_OPTIMIZER_ADAMW;
        for (int u = 0; u < model_units(&spec.model); u++) {
            struct cost_unit a, b;

            cost_of_unit(&job, u, &a);
            cost_of_unit(&saved_job, u, &b);
            assert_true(b.state_bytes - a.state_bytes ==
                        (int64_t)((sgd ? 8 : 12) * model_unit_params(&spec.model, u)));
            assert_true(b.flops == a.flops);
        }
    }
}

static void cost_of_recomputing_is_a_pass_more_and_activations_once(void **state)
{
    struct spec spec = bert_base(), again = spec;
    struct cost_job job = job_of(&spec), again_job = job_of(&again);
    double passes = 0, kept = 0, kept_again = 0;

    (void)state;
    again.training.activations = SPEC_ACTIVATIONS_RECOMPUTE;
    for (int u = 1; u <= 24; u++) {
        struct cost_unit a, b;

        cost_of_unit(&job, u, &a);
        cost_of_unit(&again_job, u, &b);
        passes += b.flops / a.flops / 24;
        kept += (double)a.activation_bytes;
        kept_again += (double)b.activation_bytes;
        assert_int_equal(b.state_bytes, a.state_bytes);
        /* With one micro-batch in flight a lone unit would take as much as before. */
        assert_int_equal(b.activation_bytes + b.scratch_bytes,
                         a.activation_bytes + a.scratch_bytes);
    }
    assert_true(passes > 1.25 && passes < 1.34); /* the optimizer's share stays */
    assert_true(kept / kept_again > 5.9 && kept / kept_again < 6.1);
}

static void cost_sends_the_hidden_states_and_behind_the_pooler_a_vector(void **state)
{
    struct spec spec = bert_base();
    struct cost_job job = job_of(&spec);
    struct cost_unit c;

    (void)state;
    cost_of_unit(&job, 3, &c);
    assert_int_equal(c.slot_bytes, 4 * 128 * 768 * 4);
    assert_true(c.edge_mean_bytes == 4 * 39 * 768 * 4);
    cost_of_unit(&job, 25, &c);
    assert_true(c.edge_mean_bytes == 4 * 768 * 4);
    cost_of_unit(&job, 26, &c);
    assert_true(c.edge_mean_bytes == 0);
}

static void cost_turns_flops_into_milliseconds_of_a_node(void **state)
{
    struct cost_unit c = {.flops = 3e9, .edge_mean_bytes = 1e6};
    struct node node = {.gflops = 100, .unit_ms = 0.5};
    struct cost_link link = {.bytes_per_s = 1e8, .latency_ms = 0.25};

    (void)state;
    assert_float_equal((float)cost_unit_ms(&c, &node), 30.5f, 1e-4f);
    assert_float_equal((float)cost_edge_ms(&c, &link), 10.25f, 1e-4f);
}

static void cost_never_takes_sequences_to_be_longer_than_max_length(void **state)
{
    struct spec spec = bert_base();
    struct cost_job job = job_of(&spec);

    (void)state;
    spec.training.max_length = 16;
    assert_true(cost_load_mean(&job).tokens == 4 * 16);
    assert_true(cost_load_mean(&job).tokens_squared == 4 * 16 * 16);
    assert_true(cost_load_full(&job).tokens == 4 * 16);
}

static void cost_takes_lengths_that_were_measured(void **state)
{
    struct spec spec = bert_base();
    struct cost_job job = job_of(&spec);

    (void)state;
    job.lengths = (struct node_lengths){.mean = 90, .mean_square = 9000};
    assert_true(cost_load_mean(&job).tokens == 4 * 90);
    assert_true(cost_load_mean(&job).tokens_squared == 4 * 9000);
    assert_true(cost_load_full(&job).tokens == 4 * 128);
    spec.training.max_length =
        64; /* measured for another maxSequenceLength: cut as the data will be */
    assert_true(cost_load_mean(&job).tokens == 4 * 64);
    assert_true(cost_load_mean(&job).tokens_squared == 4 * 64 * 64);
}

/* As a probe measured it: every part of a step by its own factor. */
static void cost_counts_each_part_at_its_measured_pace(void **state)
{
    struct spec spec = bert_base();
    struct cost_job job = job_of(&spec);
    struct model_load load = cost_load_mean(&job);
    struct cost_unit attention, ffn, embeddings, pooler;

    (void)state;
    job.pace = (struct node_pace){
        .attention = 2, .ffn = 0.5, .parameter = 10, .element = 7, .update = 80, .sequence = 900};
    cost_of_unit(&job, 0, &embeddings);
    cost_of_unit(&job, 1, &attention);
    cost_of_unit(&job, 2, &ffn);
    cost_of_unit(&job, 25, &pooler);
    /* 80 a parameter and step are 10 a micro-batch of 8. */
    assert_true(embeddings.flops ==
                7 * load.tokens * 768 + 900 * 4 + 10.0 * (double)model_unit_params(&spec.model, 0));
    assert_true(attention.flops == 2 * model_unit_flops(&spec.model, 1, &load) +
                                       20.0 * (double)model_unit_params(&spec.model, 1));
    assert_true(ffn.flops == 0.5 * model_unit_flops(&spec.model, 2, &load) +
                                 20.0 * (double)model_unit_params(&spec.model, 2));
    assert_true(pooler.flops == model_unit_flops(&spec.model, 25, &load) +
                                    20.0 * (double)model_unit_params(&spec.model, 25));
}

/* BERT-base's weights, gradients and moments alone are 1.75 GB (109.5 M * 16 bytes). */
static void cost_of_all_parameters_is_that_of_the_published_model(void **state)
{
    struct spec spec = bert_base();
    struct cost_job job = job_of(&spec);
    int64_t bytes = 0;

    (void)state;
    for (int u = 0; u < model_units(&spec.model); u++) {
        struct cost_unit c;

        cost_of_unit(&job, u, &c);
        bytes += c.state_bytes;
    }
    assert_in_range(bytes / MIB, 1665, 1675);
}

static void cost_job_takes_what_the_fastest_probe_measured(void **state)
{
    struct node_probe probes[3] = {{.gflops = 5, .lengths.mean = 1},
                                   {.gflops = 20, .lengths.mean = 2, .pace.attention = 3},
                                   {.gflops = 10, .lengths.mean = 4, .pace.attention = 5}};
    struct cost_job job = {.lengths.mean = 9};

    (void)state;
    cost_job_measured(&job, probes, 3);
    assert_true(job.lengths.mean == 2);
    assert_true(job.pace.attention == 3);
    probes[1] = (struct node_probe){.gflops = 30}; /* measured neither: what is known stays */
    cost_job_measured(&job, probes + 1, 1);
    assert_true(job.lengths.mean == 2);
    assert_true(job.pace.attention == 3);
}

static void cost_limit_is_a_quarter_above_the_estimate(void **state)
{
    (void)state;
    assert_int_equal(cost_limit_bytes(400 * MIB - 1, 8192 * MIB, 100), 500 * MIB);
    assert_int_equal(cost_limit_bytes(400 * MIB, 450 * MIB + 1, 100), 450 * MIB + 1);
    assert_int_equal(cost_planned_bytes(8192 * MIB, 100), 8192 * MIB);
}

/* Whatever a plan may put on a node leaves room for a limit that has grown alike. */
static void cost_limit_and_plan_grow_together_after_memory_ran_out(void **state)
{
    (void)state;
    assert_int_equal(cost_limit_bytes(400 * MIB, 8192 * MIB, 150), 750 * MIB);
    assert_int_equal(cost_planned_bytes(600 * MIB, 150), 400 * MIB);
    assert_int_equal(cost_limit_bytes(400 * MIB, 600 * MIB, 150), 600 * MIB);
}

/* Two messages an edge; what they take of a CPU takes longer where there is less of it. */
static void cost_of_messages_is_cpu_time_under_the_nodes_limit(void **state)
{
    const struct cost_unit c = {.edge_mean_bytes = 1e5};
    struct node n = {.cpu_milli = 1000, .message = {.ms = 0.1, .byte_ns = 2}};
    struct node usual = {.cpu_milli = 1000};

    (void)state;
    assert_true(fabs(cost_messages_ms(&c, &n) - 0.4) < 1e-12);
    n.cpu_milli = 500;
    assert_true(fabs(cost_messages_ms(&c, &n) - 0.8) < 1e-12);
    n.cpu_milli = 4000;
    assert_true(fabs(cost_messages_ms(&c, &n) - 0.1) < 1e-12);
    assert_true(cost_messages_ms(&c, &usual) > 0); /* not measured is not free */
}

/* --- CPU quotas --- */

static double share(int cpu_milli, double balanced_ms)
{
    struct node n = {.cpu_milli = cpu_milli};

    return cost_fill_share(&n, balanced_ms, 8);
}

static void fill_of_whole_cores_is_as_slow_as_the_rest(void **state)
{
    (void)state;
    assert_true(share(1000, 50) == 1);
    assert_true(share(2500, 50) == 1);
    assert_true(share(0, 50) == 1); /* nobody knows */
}

static void fill_within_a_periods_quota_runs_at_the_speed_of_a_core(void **state)
{
    (void)state;
    assert_true(fabs(share(250, 8) - 0.25) < 1e-12);
    assert_true(fabs(share(750, 100) - 0.75) < 1e-12);
}

/* Forward: 100 ms of CPU of which 50 are at hand, 50 + 50 / 0.5. Backward: 50 + 150 / 0.5. */
static void fill_beyond_a_periods_quota_is_stopped_for_the_rest(void **state)
{
    (void)state;
    assert_true(fabs(share(500, 600) - (150 + 350) / 600.0) < 1e-12);
    assert_true(share(500, 1e6) > 0.999);
}

static void fill_of_one_micro_batch_is_all_there_is(void **state)
{
    struct node n = {.cpu_milli = 250};

    (void)state;
    assert_true(cost_fill_share(&n, 8, 1) == 1);
    assert_true(cost_busy_share(1, 1) == 1);
}

/* The slowest stage takes M t, whatever its share. */
static void busy_and_fill_are_all_micro_batches_of_the_slowest_stage(void **state)
{
    (void)state;
    for (int m = 2; m <= 64; m *= 2)
        for (double f = 0.1; f <= 1; f += 0.1)
            assert_true(fabs((m - 1) * cost_busy_share(f, m) + f - m) < 1e-9);
}

static void balanced_time_is_that_of_all_nodes_together(void **state)
{
    struct node nodes[] = {{.gflops = 10}, {.gflops = 30}};

    (void)state;
    assert_true(fabs(cost_balanced_ms(nodes, 2, 80e6) - 2) < 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cost_counts_six_flops_a_parameter_and_token),
        cmocka_unit_test(cost_of_attention_grows_with_the_square_of_a_sequence),
        cmocka_unit_test(cost_of_every_unit_is_above_zero),
        cmocka_unit_test(cost_job_takes_what_the_fastest_probe_measured),
        cmocka_unit_test(cost_limit_is_a_quarter_above_the_estimate),
        cmocka_unit_test(cost_limit_and_plan_grow_together_after_memory_ran_out),
        cmocka_unit_test(cost_of_messages_is_cpu_time_under_the_nodes_limit),
        cmocka_unit_test(cost_of_checkpoints_is_a_copy_of_all_but_the_gradients),
        cmocka_unit_test(cost_of_recomputing_is_a_pass_more_and_activations_once),
        cmocka_unit_test(cost_sends_the_hidden_states_and_behind_the_pooler_a_vector),
        cmocka_unit_test(cost_turns_flops_into_milliseconds_of_a_node),
        cmocka_unit_test(cost_never_takes_sequences_to_be_longer_than_max_length),
        cmocka_unit_test(cost_takes_lengths_that_were_measured),
        cmocka_unit_test(cost_counts_each_part_at_its_measured_pace),
        cmocka_unit_test(cost_of_all_parameters_is_that_of_the_published_model),
        cmocka_unit_test(fill_of_whole_cores_is_as_slow_as_the_rest),
        cmocka_unit_test(fill_within_a_periods_quota_runs_at_the_speed_of_a_core),
        cmocka_unit_test(fill_beyond_a_periods_quota_is_stopped_for_the_rest),
        cmocka_unit_test(fill_of_one_micro_batch_is_all_there_is),
        cmocka_unit_test(busy_and_fill_are_all_micro_batches_of_the_slowest_stage),
        cmocka_unit_test(balanced_time_is_that_of_all_nodes_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
