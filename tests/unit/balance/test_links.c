/* Placement where the links between nodes differ, and where nodes are alike. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "balance/alike.h"
#include "balance/explain.h"
#include "balance/groups.h"
#include "balance/whatif.h"
#include "instances.h"

#define INSTANCES 1500

static void make(struct instance *in, struct dice *d, int i)
{
    make_instance(in, d, roll_int(d, 1, 3), roll_int(d, 2, INSTANCE_NODES_TRIED));
    make_links(in, d, (enum link_style)(i % LINK_STYLES));
}

static void links_partition_finds_what_trying_everything_finds(void **state)
{
    struct dice dice = {.state = 1121};
    int n_memory = 0;
    int n_links = 0;
    int n_infeasible = 0;

    (void)state;
    for (int i = 0; i < INSTANCES; i++) {
        static struct instance in;
        struct placement p;
        double want;

        make(&in, &dice, i);
        want = oracle_ms(&in, ORACLE_ANY_ORDER, false);
        if (isinf(want)) {
            assert_int_equal(partition_solve(&in.request, &p, NULL), ERR_NOT_FOUND);
            n_infeasible++;
            continue;
        }
        assert_int_equal(partition_solve(&in.request, &p, NULL), ERR_OK);
        assert_true(fabs(p.predicted_step_ms / want - 1) < 1e-8);
        assert_true(p.bound_ms >= p.predicted_step_ms * (1 - 1e-8));
        n_memory += want > oracle_ms(&in, ORACLE_ANY_ORDER, true) * (1 + 1e-9);
        in.request.links = NULL;
        in.request.link = (struct cost_link){.bytes_per_s = 1e15};
        n_links += want > oracle_ms(&in, ORACLE_ANY_ORDER, false) * 1.01;
    }
    assert_in_range(n_memory, INSTANCES / 6, INSTANCES);
    assert_in_range(n_links, INSTANCES / 4, INSTANCES);
    assert_in_range(n_infeasible, INSTANCES / 50, INSTANCES / 2);
}

static void links_a_node_more_never_makes_a_plan_slower(void **state)
{
    struct dice dice = {.state = 8};

    (void)state;
    for (int i = 0; i < 90; i++) {
        static struct instance in;
        double with_more = 0;

        make_instance(&in, &dice, roll_int(&dice, 1, 4), 8);
        make_links(&in, &dice, (enum link_style)(i % LINK_STYLES));
        for (; in.request.n_nodes > 0; drop_node(&in)) {
            struct placement p;
            enum err_code rc = partition_solve(&in.request, &p, NULL);

            assert_true(rc == ERR_OK || rc == ERR_NOT_FOUND);
            if (rc == ERR_OK) {
                assert_true(p.predicted_step_ms >= with_more * (1 - 1e-9));
                with_more = p.predicted_step_ms;
            } else {
                with_more = INFINITY;
            }
        }
    }
}

/* Nodes 0, 2, 4 ... in one building, 1, 3, 5 ... in another. */
static void make_buildings(struct instance *in, int n_nodes, double between_bytes_per_s)
{
    *in = (struct instance){
        .spec = {.training = {.batch_size = 32, .micro_batches = 8, .max_length = 128},
                 .placement = {.min_stages = 1, .max_stages = 64}},
        .request = {.n_nodes = n_nodes, .link = COST_LINK_DEFAULT}};
    in->request.spec = &in->spec;
    in->request.nodes = in->nodes;
    in->request.links = in->links;
    assert_int_equal(model_preset("BertBase", &in->spec.model, NULL), ERR_OK);
    for (int i = 0; i < n_nodes; i++) {
        in->nodes[i] = (struct node){.gflops = 40 + i % 5, .memory_bytes = 8192 * MIB};
        (void)snprintf(in->nodes[i].name, sizeof in->nodes[i].name, "node-%c", 'a' + i);
        for (int k = 0; k < n_nodes; k++)
            in->links[i * n_nodes + k] = (struct cost_link){
                .bytes_per_s = i % 2 == k % 2 ? 1e9 : between_bytes_per_s, .latency_ms = 0.1};
    }
}

static int crossings(const struct placement *p)
{
    int n = 0;

    for (int s = 1; s < p->n_stages; s++)
        n += p->stages[s].node % 2 != p->stages[s - 1].node % 2;
    return n;
}

/* Both where everything is tried (8 nodes) and where it is not (20). */
static void links_a_plan_goes_once_from_one_building_to_the_other(void **state)
{
    (void)state;
    for (int n = 8; n <= 20; n += 12) {
        static struct instance in;
        struct placement alone;
        struct placement p;

        make_buildings(&in, n, 2e7);
        assert_int_equal(partition_solve(&in.request, &p, NULL), ERR_OK);
        assert_true(p.n_stages > n / 2);
        assert_int_equal(crossings(&p), 1);
        make_buildings(&in, n, 1e5);
        assert_int_equal(partition_solve(&in.request, &p, NULL), ERR_OK);
        assert_in_range(p.n_stages, 2, n / 2);
        assert_int_equal(crossings(&p), 0);
        for (int i = 0; i < n / 2; i++) /* as if there were but one building */
            in.nodes[i] = in.nodes[2 * i];
        in.request.n_nodes = n / 2;
        in.request.links = NULL;
        in.request.link = (struct cost_link){.bytes_per_s = 1e9, .latency_ms = 0.1};
        assert_int_equal(partition_solve(&in.request, &alone, NULL), ERR_OK);
        assert_true(p.predicted_step_ms <= alone.predicted_step_ms * (1 + 1e-9));
    }
}

static void links_explanation_names_the_one_that_sets_the_pace(void **state)
{
    static struct instance in;
    struct placement p;
    char text[PLAN_REASON_BYTES];

    (void)state;
    make_buildings(&in, 2, 4e5);
    in.spec.placement.min_stages = 2;
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
        other.request.spec = &other.spec;
        other.request.nodes = other.nodes;
        other.request.links = other.links;
        drop_node(&other);
        assert_int_equal(partition_solve(&other.request, &fewer, NULL), ERR_OK);
        assert_true(w.fewer[i].step_ms == fewer.predicted_step_ms);
    }
}

static void links_one_that_cannot_be_is_refused(void **state)
{
    static const double wrong[] = {0, -1, NAN, INFINITY};
    static struct instance in;
    struct placement p;
    struct err err;

    (void)state;
    make_buildings(&in, 3, 1e8);
    for (int i = 0; i < 3; i++) /* nobody looks at a node's link to itself */
        in.links[4 * i].bytes_per_s = 0;
    assert_int_equal(partition_solve(&in.request, &p, &err), ERR_OK);
    for (int i = 0; i < 4; i++) {
        in.links[5].bytes_per_s = in.links[7].bytes_per_s = wrong[i];
        assert_int_equal(partition_solve(&in.request, &p, &err), ERR_INVALID);
        assert_non_null(strstr(err.text, "the link between node-c and node-b: "));
    }
    in.links[5].bytes_per_s = in.links[7].bytes_per_s = 1e8;
    in.links[5].latency_ms = in.links[7].latency_ms = -1;
    assert_int_equal(partition_solve(&in.request, &p, &err), ERR_INVALID);
    in.links[5].latency_ms = 1;
    in.links[7].latency_ms = 2;
    assert_int_equal(partition_solve(&in.request, &p, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "both ways must be given alike"));
    in.request.links = NULL;
    in.request.link.bytes_per_s = NAN;
    assert_int_equal(partition_solve(&in.request, &p, &err), ERR_INVALID);
}

static void alike_links_make_a_class_and_the_link_depends_on_classes_alone(void **state)
{
    struct dice dice = {.state = 12};
    const int nodes[] = {0, 1, 2, 3, 4, 5, 6, 7};
    int n_classes[LINK_STYLES] = {0};

    (void)state;
    for (int i = 0; i < 60; i++) {
        static struct instance in;
        int class[8];

        make_instance(&in, &dice, 1, 8);
        assert_int_equal(alike_links(&in.request, nodes, 8, class), 1);
        make_links(&in, &dice, (enum link_style)(i % LINK_STYLES));
        n_classes[i % LINK_STYLES] += alike_links(&in.request, nodes, 8, class);
        for (int k = 0; k < 8 * 8 * 8 * 8; k++) {
            int a = k % 8, b = k / 8 % 8, c = k / 64 % 8, d = k / 512;

            if (a != b && c != d && class[a] == class[c] && class[b] == class[d])
                assert_memory_equal(partition_link(&in.request, a, b),
                                    partition_link(&in.request, c, d), sizeof(struct cost_link));
        }
    }
    assert_int_equal(n_classes[LINKS_OWN], 20 * 8);
    assert_in_range(n_classes[LINKS_BUILDINGS], 30, 60);
    assert_in_range(n_classes[LINKS_UPLINKS], 30, 80);
}

/* Two buildings of two racks each. */
static void groups_are_told_apart_at_both_scales(void **state)
{
    static struct instance in;
    const int nodes[] = {0, 1, 2, 3, 4, 5, 6, 7};
    struct groups g;
    int group[8];

    (void)state;
    make_buildings(&in, 8, 1e6);
    for (int i = 0; i < 64; i++)
        if (i / 8 % 2 == i % 2 && i / 8 % 4 != i % 4)
            in.links[i].bytes_per_s = 1e8;
    assert_int_equal(groups_init(&in.request, nodes, 8, &g, NULL), ERR_OK);
    assert_int_equal(g.n_scales, 2);
    assert_int_equal(groups_at(&g, g.scale_ms[0], group), 2);
    for (int i = 0; i < 8; i++)
        assert_true((group[i] == group[0]) == (i % 2 == 0));
    assert_int_equal(groups_at(&g, g.scale_ms[1], group), 4);
    for (int i = 0; i < 8; i++)
        assert_true((group[i] == group[0]) == (i % 4 == 0));
    for (int k = 1; k < 8; k++) /* in one piece */
        assert_true(group[g.order[k]] - group[g.order[k - 1]] >= 0);
    groups_deinit(&g);
    in.request.links = NULL;
    assert_int_equal(groups_init(&in.request, nodes, 8, &g, NULL), ERR_OK);
    assert_int_equal(g.n_scales, 0);
    groups_deinit(&g);
}

/* More nodes than could all be tried if they were not of three kinds. */
static void many_nodes_of_few_kinds_are_planned_exactly(void **state)
{
    struct dice dice = {.state = 3};
    int n_used = 0;

    (void)state;
    for (int i = 0; i < 12; i++) {
        static struct instance in;
        struct placement few;
        struct placement p;

        make_instance(&in, &dice, 12, 15);
        in.spec.placement.min_stages = 1;
        in.spec.placement.max_stages = 15;
        for (int n = 0; n < 3; n++)
            in.nodes[n].memory_bytes = roll_int(&dice, 400, 1500) * MIB;
        for (int n = 3; n < 15; n++)
            in.nodes[n] = in.nodes[n % 3];
        in.request.n_nodes = 8;
        if (partition_solve(&in.request, &few, NULL) != ERR_OK)
            few.predicted_step_ms = INFINITY;
        in.request.n_nodes = 15;
        if (partition_solve(&in.request, &p, NULL) != ERR_OK)
            continue;
        assert_true(p.bound_ms >= p.predicted_step_ms * (1 - 1e-8));
        assert_true(p.predicted_step_ms <= few.predicted_step_ms * (1 + 1e-9));
        for (int s = 0; s < p.n_stages; s++)
            for (int k = 0; k < s; k++)
                assert_int_not_equal(p.stages[s].node, p.stages[k].node);
        n_used += p.n_stages > 3;
    }
    assert_in_range(n_used, 4, 12);
}

/* As links_partition_finds..., with two nodes the same. */
static void twins_change_nothing_that_trying_everything_finds(void **state)
{
    struct dice dice = {.state = 2};

    (void)state;
    for (int i = 0; i < 400; i++) {
        static struct instance in;
        struct placement p;
        double want;

        make_instance(&in, &dice, roll_int(&dice, 1, 3), 4);
        if (i % 2)
            make_links(&in, &dice, LINKS_BUILDINGS);
        in.nodes[2] = in.nodes[0];
        if (i % 3 == 0)
            in.nodes[3] = in.nodes[1];
        want = oracle_ms(&in, ORACLE_ANY_ORDER, false);
        if (partition_solve(&in.request, &p, NULL) == ERR_OK)
            assert_true(fabs(p.predicted_step_ms / want - 1) < 1e-8);
        else
            assert_true(isinf(want));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_partition_finds_what_trying_everything_finds),
        cmocka_unit_test(links_a_node_more_never_makes_a_plan_slower),
        cmocka_unit_test(links_a_plan_goes_once_from_one_building_to_the_other),
        cmocka_unit_test(links_explanation_names_the_one_that_sets_the_pace),
        cmocka_unit_test(links_whatif_keeps_them_with_their_nodes),
        cmocka_unit_test(links_one_that_cannot_be_is_refused),
        cmocka_unit_test(alike_links_make_a_class_and_the_link_depends_on_classes_alone),
        cmocka_unit_test(groups_are_told_apart_at_both_scales),
        cmocka_unit_test(many_nodes_of_few_kinds_are_planned_exactly),
        cmocka_unit_test(twins_change_nothing_that_trying_everything_finds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
