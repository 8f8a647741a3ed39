/* From what nodes say of their links to a link for every pair. */
#include "cluster/network.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "balance/cut.h"

static struct annotations annotations[4];
static struct node_probe probes[4];
static struct network_node nodes[4];
static struct cost_link links[4][4];

static int set_up(void **state)
{
    static const char *const names[] = {"a", "b", "c", "d"};

    (void)state;
    memset(annotations, 0, sizeof annotations);
    memset(probes, 0, sizeof probes);
    memset(links, 0, sizeof links);
    for (int i = 0; i < 4; i++)
        nodes[i] = (struct network_node){names[i], &annotations[i], &probes[i]};
    return 0;
}

static void add_link(int from, int to, double bytes_per_s, double latency_ms)
{
    struct node_link *l = &probes[from].links[probes[from].n_links++];

    *l = (struct node_link){.bytes_per_s = bytes_per_s, .latency_ms = latency_ms};
    strcpy(l->node, nodes[to].name);
}

static void check_link(int a, int b, double bytes_per_s, double latency_ms)
{
    for (int turn = 0; turn < 2; turn++) {
        const struct cost_link *l = turn ? &links[b][a] : &links[a][b];

        if (l->bytes_per_s < bytes_per_s * (1 - 1e-12) ||
            l->bytes_per_s > bytes_per_s * (1 + 1e-12) || l->latency_ms != latency_ms)
            fail_msg("%d-%d: %g bytes/s, %g ms", a, b, l->bytes_per_s, l->latency_ms);
    }
}

static void network_is_silent_when_nobody_knows(void **state)
{
    (void)state;
    assert_false(network_links(nodes, 4, &links[0][0]));
    assert_true(links[0][1].bytes_per_s == 0);
    nodes[0].annotations = NULL;
    nodes[1].probe = NULL;
    assert_false(network_links(nodes, 4, &links[0][0]));
    assert_false(network_links(nodes, 0, &links[0][0]));
}

static void network_takes_what_was_measured_between_two(void **state)
{
    (void)state;
    add_link(0, 1, 1e8, 0.5);
    add_link(0, 2, 3e8, 0.1);
    assert_true(network_links(nodes, 4, &links[0][0]));
    check_link(0, 1, 1e8, 0.5);
    check_link(0, 2, 3e8, 0.1);
    check_link(1, 3, 200e6, 0.3); /* neither said anything: the default */
}

static void network_takes_the_mean_time_of_both_directions(void **state)
{
    (void)state;
    add_link(0, 1, 1e8, 0.25);
    add_link(1, 0, 3e8, 0.75);
    assert_true(network_links(nodes, 4, &links[0][0]));
    check_link(0, 1, 1.5e8, 0.5); /* 1/1.5 = (1/1 + 1/3) / 2 */
}

static void network_takes_the_slower_median_of_two_that_never_met(void **state)
{
    (void)state;
    add_link(0, 2, 1e8, 0.1);
    add_link(0, 3, 5e8, 0.2);
    add_link(1, 2, 2e8, 0.4);
    add_link(1, 3, 3e8, 0.8);
    assert_true(network_links(nodes, 4, &links[0][0]));
    check_link(0, 1, 1e8, 0.8);
    check_link(2, 3, 200e6, 0.3);
    check_link(0, 2, 1e8, 0.1);
}

static void network_believes_what_is_declared_more(void **state)
{
    (void)state;
    add_link(0, 1, 1e8, 0.5);
    add_link(1, 0, 1e8, 0.5);
    annotations[0].link_bytes_per_s = 1.25e8;
    assert_true(network_links(nodes, 4, &links[0][0]));
    check_link(0, 1, 1e8, 0.5); /* as slow as its slower end */
    annotations[1].link_bytes_per_s = 2.5e8;
    annotations[0].has_latency = annotations[1].has_latency = true;
    assert_true(network_links(nodes, 4, &links[0][0]));
    check_link(0, 1, 1.25e8, 0);
    check_link(0, 2, 1.25e8, 0);
    check_link(2, 3, 200e6, 0.3);
}

/* Every pair has met, both ways, and each figure is off by up to 10% either way. */
static void add_noisy_links(const double bytes_per_s[4][4])
{
    unsigned random = 7;

    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++) {
            double off[2];

            for (int j = 0; j < 2; j++) {
                random = random * 1664525 + 1013904223;
                off[j] = 0.9 + 0.2 * (random >> 8) / (1 << 24);
            }
            if (i != k)
                add_link(i, k, bytes_per_s[i][k] * off[0], 0.4 * off[1]);
        }
}

static int count_classes(void)
{
    struct node all[4] = {{.name = "a"}, {.name = "b"}, {.name = "c"}, {.name = "d"}};
    struct partition_request r = {.nodes = all, .n_nodes = 4, .links = &links[0][0]};
    int order[] = {0, 1, 2, 3};
    int classes[4];

    return link_classes(&r, order, 4, classes);
}

static void network_takes_what_differs_by_noise_for_alike(void **state)
{
    static const double speed[4][4] = {
        {0, 1e8, 1e8, 1e8}, {1e8, 0, 1e8, 1e8}, {1e8, 1e8, 0, 1e8}, {1e8, 1e8, 1e8, 0}};

    (void)state;
    add_noisy_links(speed);
    assert_true(network_links(nodes, 4, &links[0][0]));
    assert_int_equal(count_classes(), 1);
    assert_true(links[0][1].bytes_per_s > 0.95e8 && links[0][1].bytes_per_s < 1.05e8);
    assert_true(links[0][1].latency_ms > 0.38 && links[0][1].latency_ms < 0.42);
}

/* Two racks: fast within, half as fast between. */
static void network_still_tells_apart_what_differs(void **state)
{
    static const double speed[4][4] = {
        {0, 2e8, 1e8, 1e8}, {2e8, 0, 1e8, 1e8}, {1e8, 1e8, 0, 2e8}, {1e8, 1e8, 2e8, 0}};

    (void)state;
    add_noisy_links(speed);
    assert_true(network_links(nodes, 4, &links[0][0]));
    assert_int_equal(count_classes(), 2);
    assert_true(links[0][1].bytes_per_s > 1.8e8 && links[0][2].bytes_per_s < 1.1e8);
    assert_true(links[0][2].bytes_per_s == links[1][3].bytes_per_s);
}

/* Whatever a probe may have found: the extremes of node_probe_read(). */
static void network_stays_within_its_bounds(void **state)
{
    (void)state;
    for (int i = 0; i < NODE_LINKS_MAX; i++) {
        add_link(0, 1, i % 2 ? 1e-300 : 0.999e13, i % 2 ? 0 : 0.999e5);
        add_link(1, 2, 1e3 * (i + 1), 1e-9 * (i + 1));
    }
    assert_true(network_links(nodes, 4, &links[0][0]));
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++) {
            assert_true(links[i][k].bytes_per_s > 0.5 && links[i][k].bytes_per_s < 1.01e13);
            assert_true(links[i][k].latency_ms >= 0 && links[i][k].latency_ms < 1e5);
        }
}

#define WITH_SET_UP(test) cmocka_unit_test_setup(test, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SET_UP(network_is_silent_when_nobody_knows),
        WITH_SET_UP(network_takes_what_was_measured_between_two),
        WITH_SET_UP(network_takes_the_mean_time_of_both_directions),
        WITH_SET_UP(network_takes_the_slower_median_of_two_that_never_met),
        WITH_SET_UP(network_believes_what_is_declared_more),
        WITH_SET_UP(network_takes_what_differs_by_noise_for_alike),
        WITH_SET_UP(network_still_tells_apart_what_differs),
        WITH_SET_UP(network_stays_within_its_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
