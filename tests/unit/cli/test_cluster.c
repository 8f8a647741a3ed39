#include "cli/cluster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/report.h"

#define READY             "\"conditions\": [{\"type\": \"Ready\", \"status\": \"True\"}]"
#define SIZE(cpu, memory) "\"allocatable\": {\"cpu\": \"" cpu "\", \"memory\": \"" memory "\"}"
#define SPEED(gflops)     "\"labels\": {\"skyjob.dev/gflops\": \"" gflops "\"}"
#define NODE(name, marks, status)                                                                  \
    "{\"metadata\": {\"name\": \"" name "\", " marks "}, \"status\": {" status "}}"
#define GOOD(name) NODE(name, SPEED("80"), SIZE("2", "4Gi") ", " READY)

static const struct job mine = {.namespace = "default", .name = "mine"};

static struct json *parse(const char *text)
{
    struct json *json = NULL;

    assert_int_equal(json_parse(text, strlen(text), &json, NULL), ERR_OK);
    return json;
}

static void add_node(struct cluster *c, const char *text)
{
    struct json *json = parse(text);

    assert_int_equal(cluster_add_node(c, json, NULL), ERR_OK);
    json_free(json);
}

static void add_pod(struct cluster *c, const char *node, const char *phase, const char *job)
{
    struct buf text = {.max = 4096};
    struct json *json;

    assert_int_equal(buf_addf(&text, NULL,
                              "{\"metadata\": {\"namespace\": \"default\", \"labels\": "
                              "{\"skyjob.dev/job\": \"%s\"}}, \"spec\": {\"nodeName\": \"%s\", "
                              "\"containers\": [{\"resources\": {\"requests\": {\"cpu\": \"500m\", "
                              "\"memory\": \"1Gi\"}}}]}, \"status\": {\"phase\": \"%s\"}}",
                              job, node, phase),
                     ERR_OK);
    json = parse(buf_text(&text));
    cluster_add_pod(c, json);
    json_free(json);
    buf_deinit(&text);
}

static void cluster_takes_away_what_pods_have_requested(void **state)
{
    struct cluster c = {.job = &mine};

    (void)state;
    add_node(&c, GOOD("b"));
    add_node(&c, GOOD("a"));
    add_pod(&c, "b", "Running", "other");
    add_pod(&c, "b", "Pending", "");
    add_pod(&c, "b", "Succeeded", "");
    add_pod(&c, "a", "Running", "mine"); /* a new plan has its room */
    add_pod(&c, "", "Pending", "");
    add_pod(&c, "elsewhere", "Running", "");
    assert_int_equal(cluster_close(&c, NULL), ERR_OK);
    assert_int_equal(c.n_nodes, 2);
    assert_string_equal(c.nodes[0].name, "a");
    assert_int_equal(c.nodes[0].cpu_milli, 2000);
    assert_true(c.nodes[0].gflops == 80);
    assert_int_equal(c.nodes[1].cpu_milli, 1000);
    assert_true(c.nodes[1].gflops == 40);
    assert_true(c.nodes[1].memory_bytes == (int64_t)2 << 30);
    cluster_deinit(&c);
}

/* Each row is a node that cannot be used, and why. */
static const struct {
    const char *node, *why;
} unusable[] = {
    {"{\"metadata\": {\"name\": \"n\", " SPEED("80") "}, \"spec\": {\"unschedulable\": true}, "
                                                     "\"status\": {" SIZE("2", "4Gi") ", " READY
                                                                                      "}}",
     "is cordoned"},
    {"{\"metadata\": {\"name\": \"n\", " SPEED("80") "}, \"spec\": {\"taints\": [{\"effect\": "
                                                     "\"NoExecute\"}]}, \"status\": {" SIZE(
                                                         "2", "4Gi") ", " READY "}}",
     "is kept from workers by a taint"},
    {NODE("n", SPEED("80"), SIZE("2", "4Gi")), "is not ready"},
    {NODE("n", SPEED("80"),
          SIZE("2", "4Gi") ", \"conditions\": [{\"type\": \"Ready\", \"status\": "
                           "\"True\"}, {\"type\": \"DiskPressure\", \"status\": \"True\"}]"),
     "is short of memory, disk or processes"},
    {NODE("n", "\"labels\": {}", SIZE("2", "4Gi") ", " READY), "is not measured yet: the operator"},
    {NODE("n", SPEED("inf"), SIZE("2", "4Gi") ", " READY), "is not a number in"},
    {NODE("n", SPEED("80"), SIZE("99m", "4Gi") ", " READY), "has 99m of CPU free, less than 100m"},
    {NODE("n", SPEED("80"), SIZE("2", "159Mi") ", " READY), "has 159 MiB of memory free"},
    {"{\"metadata\": {\"name\": \"n\"}}", "is not ready"},
    {"{}", "is not ready"},
};

static void cluster_says_why_a_node_cannot_be_used(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof unusable / sizeof unusable[0]; i++) {
        struct cluster c = {.job = &mine};

        add_node(&c, unusable[i].node);
        assert_int_equal(cluster_close(&c, NULL), ERR_OK);
        assert_int_equal(c.n_nodes, 0);
        if (!strstr(c.machines[0].why_not, unusable[i].why))
            fail_msg("\"%s\" is not in \"%s\"", unusable[i].why, c.machines[0].why_not);
        cluster_deinit(&c);
    }
}

static void cluster_plans_with_what_was_measured_before(void **state)
{
    static const char found[] = "{\\\"time\\\":\\\"2026-11-21T08:00:00Z\\\",\\\"cpuMilli\\\":500,"
                                "\\\"for\\\":{\\\"cpuMilli\\\":2000},\\\"found\\\":"
                                "{\\\"gflops\\\":20,\\\"unitMs\\\":0.25,\\\"threads\\\":1}}";
    struct buf text = {.max = 4096};
    struct cluster c = {.job = &mine};

    (void)state;
    assert_int_equal(buf_addf(&text, NULL,
                              NODE("n", "\"annotations\": {\"skyjob.dev/probe\": \"%s\"}",
                                   SIZE("2", "4Gi") ", " READY),
                              found),
                     ERR_OK);
    add_node(&c, buf_text(&text));
    add_pod(&c, "n", "Running", "");
    assert_int_equal(cluster_close(&c, NULL), ERR_OK);
    assert_int_equal(c.n_nodes, 1);
    assert_true(c.nodes[0].gflops == 60); /* 1.5 CPU of what half a CPU has 20 */
    assert_true(c.nodes[0].unit_ms == 0.25);
    cluster_deinit(&c);
    buf_deinit(&text);
}

static void cluster_leaves_out_what_this_job_cannot_use(void **state)
{
    struct job job = mine;
    struct cluster c = {.job = &job};

    (void)state;
    job.spec.placement.probe = SPEC_PROBE_NEVER;
    job.spec.training.precision = SPEC_PRECISION_BF16;
    add_node(&c, NODE("a", "\"labels\": {}", SIZE("2", "4Gi") ", " READY));
    add_node(&c, NODE("b",
                      "\"labels\": {\"skyjob.dev/gflops\": \"9\", "
                      "\"feature.node.kubernetes.io/cpu-model.vendor_id\": \"Intel\", "
                      "\"feature.node.kubernetes.io/cpu-cpuid.AVX2\": \"true\"}",
                      SIZE("2", "4Gi") ", " READY));
    assert_int_equal(cluster_close(&c, NULL), ERR_OK);
    assert_int_equal(c.n_nodes, 0);
    assert_non_null(strstr(c.machines[0].why_not, "may not be (spec.placement.probe is Never)"));
    assert_non_null(strstr(c.machines[1].why_not, "cannot do spec.training.precision BF16"));
    cluster_deinit(&c);
}

static void cluster_without_nodes_or_full_of_pods_is_empty(void **state)
{
    struct cluster c = {.job = &mine};

    (void)state;
    add_pod(&c, "a", "Running", "");
    assert_int_equal(cluster_close(&c, NULL), ERR_OK);
    assert_int_equal(c.n_nodes, 0);
    cluster_deinit(&c);
    c.job = &mine;
    add_node(&c, GOOD("a"));
    for (int i = 0; i < 9; i++)
        add_pod(&c, "a", "Running", "");
    assert_int_equal(cluster_close(&c, NULL), ERR_OK);
    assert_int_equal(c.n_nodes, 0);
    assert_non_null(strstr(c.machines[0].why_not, "has 0m of CPU free"));
    cluster_deinit(&c);
}

static void cluster_lists_the_first_nodes_that_cannot_be_used(void **state)
{
    struct cluster c = {.job = &mine};
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);

    (void)state;
    add_node(&c, GOOD("good"));
    for (int i = 0; i < REPORT_UNUSABLE_MAX + 3; i++)
        add_node(&c, NODE("late", SPEED("1"), SIZE("2", "4Gi")));
    assert_int_equal(cluster_close(&c, NULL), ERR_OK);
    report_unusable(&c, out);
    (void)fclose(out);
    assert_non_null(strstr(text, "not usable  late is not ready\n"));
    assert_non_null(strstr(text, "and 3 more\n"));
    assert_null(strstr(text, "good"));
    free(text);
    cluster_deinit(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cluster_takes_away_what_pods_have_requested),
        cmocka_unit_test(cluster_says_why_a_node_cannot_be_used),
        cmocka_unit_test(cluster_plans_with_what_was_measured_before),
        cmocka_unit_test(cluster_leaves_out_what_this_job_cannot_use),
        cmocka_unit_test(cluster_without_nodes_or_full_of_pods_is_empty),
        cmocka_unit_test(cluster_lists_the_first_nodes_that_cannot_be_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
