/* The strategies that follow a rule: Dynamic and Manual. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "balance/partition.h"
#include "balance/rules.h"

#define MIB     ((int64_t)1 << 20)
#define N_NODES 6

struct setting {
    struct spec spec;
    struct node nodes[N_NODES];
    struct partition_request request;
};

/* BERT-base on nodes of these speeds. */
static void make(struct setting *s, const double *gflops, int n)
{
    *s = (struct setting){
        .spec = {.training = {.batch_size = 32, .micro_batches = 8, .max_length = 128},
                 .placement = {.min_stages = 1, .max_stages = 8}}};
    s->request = partition_request_of(&s->spec);
    s->request.n_nodes = n;
    for (int i = 0; i < n; i++) {
        s->nodes[i] = (struct node){.gflops = gflops[i], .memory_bytes = 8192 * MIB};
        (void)snprintf(s->nodes[i].name, NODE_NAME_BYTES, "n%d", i);
    }
    s->request.nodes = s->nodes;
    assert_int_equal(model_preset("BertBase", &s->spec.model, NULL), ERR_OK);
}

static void dynamic_moves_units_both_ways(void **state)
{
    static const double orders[][3] = {{25, 50, 100}, {100, 50, 25}, {50, 25, 100}};

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct setting s;
        struct placement even;
        struct placement p;

        make(&s, orders[i], 3);
        s.spec.placement.strategy = SPEC_STRATEGY_EVEN;
        assert_int_equal(partition_solve(&s.request, &even, NULL), ERR_OK);
        s.spec.placement.strategy = SPEC_STRATEGY_DYNAMIC;
        assert_int_equal(partition_solve(&s.request, &p, NULL), ERR_OK);
        assert_int_equal(p.n_stages, 3);
        assert_true(p.predicted_step_ms < 0.75 * even.predicted_step_ms);
        assert_true(p.predicted_step_ms >= p.bound_ms);
        assert_true(even.dynamic_step_ms == p.predicted_step_ms);
        assert_true(p.even_step_ms == even.predicted_step_ms);
    }
}

static void dynamic_repairs_memory_in_both_directions(void **state)
{
    static const double same[] = {50, 50, 50};

    (void)state;
    for (int small = 0; small < 3; small++) {
        struct setting s;
        struct placement p;

        make(&s, same, 3);
        s.nodes[small].memory_bytes = 500 * MIB;
        s.spec.placement.strategy = SPEC_STRATEGY_EVEN;
        assert_int_equal(partition_solve(&s.request, &p, NULL), ERR_NOT_FOUND);
        s.spec.placement.strategy = SPEC_STRATEGY_DYNAMIC;
        if (small == 0) { /* the embeddings alone are larger */
            assert_int_equal(partition_solve(&s.request, &p, NULL), ERR_NOT_FOUND);
            continue;
        }
        assert_int_equal(partition_solve(&s.request, &p, NULL), ERR_OK);
        assert_true(p.even_step_ms < 0);
        assert_true(p.stages[small].memory_bytes <= 500 * MIB);
    }
}

static void name_stage(struct setting *s, int stage, const char *node, int layers)
{
    struct spec_stages *stages = &s->spec.placement.stages;

    stages->list[stage].layers = layers;
    (void)snprintf(stages->list[stage].node, SPEC_NAME_BYTES, "%s", node);
    stages->n = stage + 1;
    s->spec.placement.strategy = SPEC_STRATEGY_MANUAL;
}

static void manual_is_what_the_list_says(void **state)
{
    static const double speeds[] = {25, 50, 100, 200};
    struct setting s;
    struct placement p;

    (void)state;
    make(&s, speeds, 4);
    s.request.max_stages = 2; /* ignored */
    name_stage(&s, 0, "n1", 2);
    name_stage(&s, 1, "", 3);
    name_stage(&s, 2, "", 7);
    assert_int_equal(partition_solve(&s.request, &p, NULL), ERR_OK);
    assert_int_equal(p.n_stages, 3);
    assert_int_equal(p.stages[0].node, 1);
    assert_int_equal(p.stages[1].node, 2);
    assert_int_equal(p.stages[2].node, 3); /* the most work, so the fastest */
    assert_int_equal(p.stages[0].n_units, 5);
    assert_int_equal(p.stages[1].n_units, 6);
    assert_int_equal(p.stages[2].n_units, 16);
    assert_true(p.bound_ms < p.predicted_step_ms);
    assert_int_equal(p.n_excluded, 1);
    assert_string_equal(p.excluded[0].reason, "spec.placement.manual does not use it");
}

static void manual_says_what_is_in_its_way(void **state)
{
    static const double speeds[] = {25, 50};
    struct setting s;
    struct placement p;
    struct err err;

    (void)state;
    make(&s, speeds, 2);
    name_stage(&s, 0, "n0", 6);
    name_stage(&s, 1, "n7", 6);
    assert_int_equal(partition_solve(&s.request, &p, &err), ERR_NOT_FOUND);
    assert_string_equal(
        err.text,
        "spec.placement.manual.replicas[0].stages[1].node: none of the 2 suitable nodes is "
        "called \"n7\"");
    name_stage(&s, 1, "n1", 6);
    s.nodes[1].memory_bytes = 300 * MIB;
    assert_int_equal(partition_solve(&s.request, &p, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "strategy Manual gives stage 1 (attention 6 to head) to node "
                                     "n1, which lacks "));
    assert_non_null(strstr(err.text, "the node offers 300 MiB"));
    name_stage(&s, 1, "", 6);
    assert_int_equal(partition_solve(&s.request, &p, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "spec.placement.manual.replicas[0].stages[1]: needs "));
    s.nodes[1].memory_bytes = 8192 * MIB;
    name_stage(&s, 2, "", 1);
    s.spec.placement.stages.list[1].layers = 5;
    assert_int_equal(partition_solve(&s.request, &p, &err), ERR_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dynamic_moves_units_both_ways),
        cmocka_unit_test(dynamic_repairs_memory_in_both_directions),
        cmocka_unit_test(manual_is_what_the_list_says),
        cmocka_unit_test(manual_says_what_is_in_its_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
