/* One order of nodes, the bound and the whole search, each held against trying everything; and how
 * links sort nodes into classes and groups. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "balance/bound.h"
#include "balance/partition.h"
#include "balance/search.h"
#include "instances.h"

#define INSTANCES 1000

/* With a link that is as slow as a unit in one half, with links that differ in a quarter. */
static void make(struct instance *in, struct dice *d, int i)
{
    make_instance(in, d, roll_int(d, 1, 5), roll_int(d, 1, INSTANCE_NODES_TRIED));
    if (i % 2)
        in->request.link = (struct cost_link){.bytes_per_s = exp(roll(d, log(1e5), log(1e8))),
                                              .latency_ms = roll(d, 0, 20)};
    if (i % 4 == 2)
        make_links(in, d, (enum link_style)(i / 4 % LINK_STYLES));
}

/* The best of the order as it stands. */
static double order_ms(const struct instance *in)
{
    int nodes[INSTANCE_NODES_TRIED] = {0, 1, 2, 3};
    struct cut_problem p;
    struct search s;
    double ms;

    assert_int_equal(cut_problem_init(&in->request, nodes, in->request.n_nodes, &p, NULL), ERR_OK);
    assert_int_equal(search_init(&p, SEARCH_ORDER, &s, NULL), ERR_OK);
    search_run(&s);
    if (s.found) {
        assert_int_equal(cut_misfit(&p, &s.best), -1);
        assert_true(cut_step_ms(&p, &s.best) == s.best_ms);
    }
    ms = s.found ? s.best_ms : INFINITY;
    search_deinit(&s);
    cut_problem_deinit(&p);
    return ms;
}

static void search_finds_the_best_cut_of_an_order(void **state)
{
    struct dice dice = {.state = 42};
    int n_bitten = 0;
    int n_links = 0;

    (void)state;
    for (int i = 0; i < INSTANCES; i++) {
        struct instance in;
        double want;

        make(&in, &dice, i);
        want = oracle_ms(&in, ORACLE_THIS_ORDER, false);
        if (isinf(want)) {
            assert_true(isinf(order_ms(&in)));
        } else {
            assert_true(fabs(order_ms(&in) / want - 1) < 1e-8);
            n_bitten += want > oracle_ms(&in, ORACLE_THIS_ORDER, true) * (1 + 1e-9);
            in.request.link = (struct cost_link){.bytes_per_s = 1e15};
            in.request.links = NULL;
            n_links += want > oracle_ms(&in, ORACLE_THIS_ORDER, false) * 1.01;
        }
    }
    assert_in_range(n_bitten, INSTANCES / 6, INSTANCES);
    assert_in_range(n_links, INSTANCES / 5, INSTANCES);
}

static void bound_is_never_above_the_best_plan(void **state)
{
    struct dice dice = {.state = 43};
    int n_near = 0;
    int n = 0;

    (void)state;
    for (int i = 0; i < INSTANCES; i++) {
        struct instance in;
        const int nodes[INSTANCE_NODES_TRIED] = {0, 1, 2, 3};
        struct groups groups;
        struct bound bound;
        double best;
        double lo;
        double hi;

        make(&in, &dice, i);
        best = oracle_ms(&in, ORACLE_ANY_ORDER, false);
        assert_int_equal(groups_init(&in.request, nodes, in.request.n_nodes, &groups, NULL),
                         ERR_OK);
        assert_int_equal(bound_init(&in.request, nodes, &groups, &bound, NULL), ERR_OK);
        assert_true(bound_step_ms(&bound) <= best * (1 + 1e-9));
        if (!isinf(best)) {
            assert_true(bound_window(&bound, best * (1 + 1e-9), &lo, &hi));
            n_near += best < 2 * bound_step_ms(&bound);
            n++;
        }
        groups_deinit(&groups);
    }
    /* Weak here, far from its use: few units and nodes, links and memory that bite. */
    print_message("%d of %d best plans are below twice the bound\n", n_near, n);
    assert_true(n_near > n / 2);
}

/* All nodes at once, with no bound and no orders tried before. */
static double all_ms(const struct instance *in)
{
    int nodes[PARTITION_CANDIDATES_MAX];
    struct cut_problem p;
    struct search s;
    double ms;

    for (int i = 0; i < in->request.n_nodes; i++)
        nodes[i] = i;
    assert_int_equal(cut_problem_init(&in->request, nodes, in->request.n_nodes, &p, NULL), ERR_OK);
    assert_int_equal(search_init(&p, SEARCH_ALL, &s, NULL), ERR_OK);
    search_run(&s);
    ms = s.found ? s.best_ms : INFINITY;
    search_deinit(&s);
    cut_problem_deinit(&p);
    return ms;
}

/* Where all can be tried but it takes long, only what bound and orders leave is looked at. */
static void optimal_loses_nothing_to_the_bound(void **state)
{
    struct dice dice = {.state = 44};
    int n_found = 0;

    (void)state;
    for (int i = 0; i < 60; i++) {
        static struct instance in;
        struct placement best = {.n_stages = 0};
        double want;

        make_instance(&in, &dice, roll_int(&dice, 8, 12), 10);
        if (i % 3)
            make_links(&in, &dice, (enum link_style)(i % LINK_STYLES));
        want = all_ms(&in);
        assert_int_equal(optimal_solve(&in.request, &best, NULL), ERR_OK);
        assert_true((best.n_stages > 0) == !isinf(want));
        if (best.n_stages == 0)
            continue;
        assert_true(fabs(best.predicted_step_ms / want - 1) < 1e-8);
        assert_true(fabs(best.bound_ms / want - 1) < 1e-8);
        n_found++;
    }
    assert_in_range(n_found, 30, 60);
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
        assert_int_equal(link_classes(&in.request, nodes, 8, class), 1);
        make_links(&in, &dice, (enum link_style)(i % LINK_STYLES));
        n_classes[i % LINK_STYLES] += link_classes(&in.request, nodes, 8, class);
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
static void groups_are_what_edges_up_to_a_distance_join(void **state)
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
    assert_int_equal(groups_at(&g, g.near_ms, group), 2); /* the widest gap */
    for (int i = 0; i < 8; i++)
        assert_true((group[i] == group[0]) == (i % 2 == 0));
    assert_int_equal(groups_at(&g, g.shortest_ms, group), 4);
    for (int i = 0; i < 8; i++)
        assert_true((group[i] == group[0]) == (i % 4 == 0));
    for (int k = 1; k < 8; k++) /* in one piece */
        assert_true(group[g.order[k]] - group[g.order[k - 1]] >= 0);
    groups_deinit(&g);
    in.request.links = NULL;
    assert_int_equal(groups_init(&in.request, nodes, 8, &g, NULL), ERR_OK);
    assert_int_equal(groups_at(&g, g.near_ms, group), 1);
    assert_true(g.shortest_ms == g.longest_ms);
    groups_deinit(&g);
}

/* More nodes than stages: most of them can be replaced by as many that are as good. */
static void optimal_loses_nothing_to_nodes_that_it_drops(void **state)
{
    struct dice dice = {.state = 45};
    int n_found = 0;

    (void)state;
    for (int i = 0; i < 60; i++) {
        static struct instance in;
        struct placement best = {.n_stages = 0};
        double want;

        make_instance(&in, &dice, roll_int(&dice, 2, 4), 9);
        in.request.min_stages = 1;
        in.request.max_stages = roll_int(&dice, 1, 3);
        if (i % 3)
            make_links(&in, &dice, (enum link_style)(i % LINK_STYLES));
        want = all_ms(&in);
        assert_int_equal(optimal_solve(&in.request, &best, NULL), ERR_OK);
        assert_true((best.n_stages > 0) == !isinf(want));
        if (best.n_stages == 0)
            continue;
        assert_true(fabs(best.predicted_step_ms / want - 1) < 1e-8);
        n_found++;
    }
    assert_in_range(n_found, 30, 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(search_finds_the_best_cut_of_an_order),
        cmocka_unit_test(bound_is_never_above_the_best_plan),
        cmocka_unit_test(optimal_loses_nothing_to_the_bound),
        cmocka_unit_test(optimal_loses_nothing_to_nodes_that_it_drops),
        cmocka_unit_test(alike_links_make_a_class_and_the_link_depends_on_classes_alone),
        cmocka_unit_test(groups_are_what_edges_up_to_a_distance_join),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
