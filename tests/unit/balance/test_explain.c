#include "balance/explain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "balance/partition.h"
#include "instances.h"

#define N_NODES 40

struct setting {
    struct spec spec;
    struct node nodes[N_NODES];
    struct partition_request request;
    struct placement placement;
};

static int solve(void **state)
{
    static struct setting s;

    s = (struct setting){
        .spec = {.training = {.batch_size = 32, .micro_batches = 8, .max_length = 128},
                 .placement = {.min_stages = 1, .max_stages = 8}},
        .nodes = {{.name = "slow", .cpu_milli = 250, .gflops = 10, .memory_bytes = 8192 * MIB},
                  {.name = "fast", .cpu_milli = 2000, .gflops = 80, .memory_bytes = 8192 * MIB},
                  {.name = "tiny", .cpu_milli = 100, .gflops = 0.1, .memory_bytes = 8192 * MIB}}};
    s.request = partition_request_of(&s.spec);
    s.request.n_nodes = 3;
    s.request.nodes = s.nodes;
    *state = &s;
    if (model_preset("BertBase", &s.spec.model, NULL) != ERR_OK)
        return -1;
    return partition_solve(&s.request, &s.placement, NULL) == ERR_OK ? 0 : -1;
}

static void explain_names_step_bottleneck_even_and_who_is_left_out(void **state)
{
    struct setting *s = *state;
    char text[PLAN_REASON_BYTES];

    explain_placement(&s->request, &s->placement, text);
    assert_non_null(strstr(text, "A step is predicted to take"));
    assert_non_null(strstr(text, "The bottleneck is stage"));
    assert_non_null(strstr(text, "No other cut, order or choice"));
    assert_non_null(strstr(text, "Even would take"));
    assert_non_null(strstr(text, "Excluded: tiny (at 0.1 GFLOP/s"));
}

static void explain_fits_whatever_is_left_out(void **state)
{
    struct setting *s = *state;
    char text[PLAN_REASON_BYTES];

    s->request.n_nodes = N_NODES;
    for (int i = 3; i < N_NODES; i++) {
        memset(s->nodes[i].name, 'x', NODE_NAME_BYTES - 1);
        s->nodes[i].gflops = 1e-3;
        s->nodes[i].memory_bytes = 1;
    }
    assert_int_equal(partition_solve(&s->request, &s->placement, NULL), ERR_OK);
    assert_in_range(s->placement.n_excluded, 37, 39);
    explain_placement(&s->request, &s->placement, text);
    assert_int_equal(strlen(text), PLAN_REASON_BYTES - 1);
}

static void placement_hands_the_comparison_on_to_the_plan(void **state)
{
    struct setting *s = *state;
    static struct plan plan;

    s->placement.dynamic_step_ms = -1;
    placement_to_plan(&s->request, &s->placement, &plan);
    assert_int_equal(plan.summary.n_alternatives, 1);
    assert_true(plan.summary.alternatives[0].step_ms == s->placement.even_step_ms);
    assert_int_equal(plan.summary.bottleneck, s->placement.bottleneck);
    assert_int_equal(plan.summary.n_excluded, s->placement.n_excluded);
    assert_in_range(plan.summary.n_excluded, 1, PLAN_EXCLUDED_MAX);
    for (int i = 0; i < plan.summary.n_excluded; i++) {
        assert_string_equal(plan.summary.excluded[i].node, s->placement.excluded[i].node);
        assert_string_equal(plan.summary.excluded[i].reason, s->placement.excluded[i].reason);
    }
}

static void placement_becomes_a_plan_that_workers_accept(void **state)
{
    struct setting *s = *state;
    const char *text = "{\"model\": {\"preset\": \"BertBase\"}, "
                       "\"data\": {\"source\": {\"sample\": \"MNLI\"}}}";
    struct plan plan = {.namespace = "default", .job = "mnli", .uid = "u", .revision = 1};
    struct plan back;
    struct buf out = {.max = PLAN_TEXT_MAX_BYTES};
    struct json *spec = NULL;

    placement_to_plan(&s->request, &s->placement, &plan);
    assert_string_equal(plan.job, "mnli");
    assert_int_equal(plan.n_workers, s->placement.n_stages);
    for (int i = 0; i < plan.n_workers; i++) {
        assert_true(plan.workers[i].memory_bytes >= s->placement.stages[i].memory_bytes);
        assert_true(plan.workers[i].memory_bytes <= 8192 * MIB);
        assert_int_equal(plan.workers[i].cpu_milli,
                         s->nodes[s->placement.stages[i].node].cpu_milli);
    }
    assert_int_equal(json_parse(text, strlen(text), &spec, NULL), ERR_OK);
    assert_int_equal(plan_write(&plan, spec, &out, NULL), ERR_OK);
    assert_int_equal(plan_parse(out.data, out.len, &back, NULL), ERR_OK);
    assert_string_equal(back.summary.explanation, plan.summary.explanation);
    assert_true(plan_hash(&back) == plan_hash(&plan));
    json_free(spec);
    buf_deinit(&out);
}

static void placement_never_asks_for_more_memory_than_the_node_has(void **state)
{
    struct setting *s = *state;
    struct plan plan = {.revision = 1};
    int node = s->placement.stages[0].node;

    s->nodes[node].memory_bytes = s->placement.stages[0].memory_bytes + MIB;
    placement_to_plan(&s->request, &s->placement, &plan);
    assert_int_equal(plan.workers[0].memory_bytes, s->nodes[node].memory_bytes);
}

static void whatif_tells_what_a_node_more_or_fewer_changes(void **state)
{
    struct setting *s = *state;
    struct whatif w;

    s->nodes[2].gflops = 40;
    assert_int_equal(partition_solve(&s->request, &s->placement, NULL), ERR_OK);
    assert_int_equal(whatif_solve(&s->request, &s->placement, &w, NULL), ERR_OK);
    assert_int_equal(w.like, 1);
    assert_true(w.more_ms < s->placement.predicted_step_ms);
    assert_int_equal(w.n_fewer, s->placement.n_stages);
    for (int i = 0; i < w.n_fewer; i++) {
        assert_int_equal(w.fewer[i].node, s->placement.stages[i].node);
        assert_true(w.fewer[i].step_ms > s->placement.predicted_step_ms);
    }
}

/* One node alone needs no micro-batches, two keep each other busier with many. What is said of one
 * fewer must be what a plan without it would be, not that with as many micro-batches as now. */
static void whatif_chooses_the_micro_batches_again_where_they_are_open(void **state)
{
    struct setting *s = *state;
    struct partition_request one = s->request;
    struct placement alone;
    struct whatif held, w;

    s->nodes[0] = s->nodes[1];
    s->request.n_nodes = 2;
    s->request.job.micro_batches = one.job.micro_batches = 0;
    assert_int_equal(partition_choose(&s->request, &s->placement, NULL), ERR_OK);
    assert_int_equal(whatif_solve(&s->request, &s->placement, &w, NULL), ERR_OK);
    s->request.job.micro_batches = s->placement.micro_batches;
    assert_int_equal(whatif_solve(&s->request, &s->placement, &held, NULL), ERR_OK);
    one.n_nodes = 1;
    assert_int_equal(partition_choose(&one, &alone, NULL), ERR_OK);
    assert_true(alone.micro_batches < s->placement.micro_batches);
    assert_int_equal(w.n_fewer, 2);
    assert_true(w.fewer[0].step_ms == alone.predicted_step_ms);
    assert_true(w.fewer[0].step_ms < held.fewer[0].step_ms);
    assert_true(w.more_ms <= held.more_ms * (1 + PARTITION_MICRO_GAIN));
}

static void whatif_says_when_nothing_fits_without_a_node(void **state)
{
    struct setting *s = *state;
    struct whatif w;

    s->nodes[0].memory_bytes = s->nodes[2].memory_bytes = 100 * MIB;
    assert_int_equal(partition_solve(&s->request, &s->placement, NULL), ERR_OK);
    assert_int_equal(whatif_solve(&s->request, &s->placement, &w, NULL), ERR_OK);
    assert_int_equal(w.n_fewer, 1);
    assert_true(w.fewer[0].step_ms < 0);
}

static void links_explanation_names_the_one_that_sets_the_pace(void **state)
{
    static struct instance in;
    struct placement p;
    char text[PLAN_REASON_BYTES];

    (void)state;
    make_buildings(&in, 2, 4e5);
    in.request.min_stages = 2;
    assert_int_equal(partition_solve(&in.request, &p, NULL), ERR_OK);
    assert_int_equal(explain_slow_edge(&p), 0);
    explain_placement(&in.request, &p, text);
    assert_non_null(strstr(text, "The link between node-"));
    assert_non_null(strstr(text, ", 0.4 MB/s, sets the pace: "));
    assert_non_null(strstr(text, "The slowest stage is "));
    make_buildings(&in, 2, 1e9);
    assert_int_equal(partition_solve(&in.request, &p, NULL), ERR_OK);
    assert_int_equal(explain_slow_edge(&p), -1);
    explain_placement(&in.request, &p, text);
    assert_null(strstr(text, "sets the pace"));
}

static void links_whatif_keeps_them_with_their_nodes(void **state)
{
    static struct instance in;
    static struct instance other;
    struct placement p;
    struct placement fewer;
    struct whatif w;

    (void)state;
    make_buildings(&in, 6, 2e7);
    assert_int_equal(partition_solve(&in.request, &p, NULL), ERR_OK);
    assert_int_equal(p.n_stages, 6);
    assert_int_equal(whatif_solve(&in.request, &p, &w, NULL), ERR_OK);
    assert_true(w.more_ms < p.predicted_step_ms);
    assert_int_equal(w.n_fewer, 6);
    for (int i = 0; i < w.n_fewer; i++) {
        if (w.fewer[i].node != 5)
            continue;
        other = in;
        other.request.job.spec = &other.spec;
        other.request.nodes = other.nodes;
        other.request.links = other.links;
        drop_node(&other);
        assert_int_equal(partition_solve(&other.request, &fewer, NULL), ERR_OK);
        assert_true(w.fewer[i].step_ms == fewer.predicted_step_ms);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(explain_names_step_bottleneck_even_and_who_is_left_out, solve),
        cmocka_unit_test_setup(explain_fits_whatever_is_left_out, solve),
        cmocka_unit_test_setup(placement_hands_the_comparison_on_to_the_plan, solve),
        cmocka_unit_test_setup(placement_becomes_a_plan_that_workers_accept, solve),
        cmocka_unit_test_setup(whatif_tells_what_a_node_more_or_fewer_changes, solve),
        cmocka_unit_test_setup(whatif_chooses_the_micro_batches_again_where_they_are_open, solve),
        cmocka_unit_test_setup(whatif_says_when_nothing_fits_without_a_node, solve),
        cmocka_unit_test_setup(placement_never_asks_for_more_memory_than_the_node_has, solve),
        cmocka_unit_test(links_explanation_names_the_one_that_sets_the_pace),
        cmocka_unit_test(links_whatif_keeps_them_with_their_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
