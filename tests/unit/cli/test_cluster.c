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

static void cluster_counts_as_many_cores_as_are_useful(void **state)
{
    struct cluster c = {.job = &mine};

    (void)state;
    add_node(&c, NODE("a", SPEED("800"), SIZE("128", "64Gi") ", " READY));
    add_pod(&c, "a", "Running", "other");
    assert_int_equal(cluster_close(&c, NULL), ERR_OK);
    assert_int_equal(c.n_nodes, 1);
    assert_int_equal(c.nodes[0].cpu_milli, NODE_CPU_USEFUL_MILLI);
    assert_true(c.nodes[0].gflops == 800);
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

/* A node with 2 CPUs and 4 GiB that was measured at MEASURED_MS, with all of it, for `work`. */
#define MEASURED      "2026-11-21T08:00:00Z"
#define MEASURED_MS   INT64_C(1795248000000)
#define MIB_4096      "4294967296"
#define DAY_MS        (INT64_C(24) * 60 * 60 * 1000)
#define OTHER_SHAPES  "measured for other shapes or data"
#define OTHER_MACHINE "measured with other allocatable CPU or memory"

static void add_measured(struct cluster *c, const char *name, const char *memory, const char *work)
{
    struct buf text = {.max = 4096};

    assert_int_equal(
        buf_addf(&text, NULL,
                 "{\"metadata\": {\"name\": \"%s\", \"annotations\": {\"skyjob.dev/probe\": "
                 "\"{\\\"time\\\":\\\"" MEASURED "\\\",\\\"cpuMilli\\\":2000,\\\"for\\\":"
                 "{\\\"cpuMilli\\\":2000,\\\"memoryBytes\\\":%s,\\\"image\\\":\\\"worker:1\\\","
                 "\\\"work\\\":\\\"%s\\\"},\\\"found\\\":{\\\"gflops\\\":20,\\\"unitMs\\\":0,"
                 "\\\"threads\\\":1}}\"}}, \"status\": {" SIZE("2", "4Gi") ", " READY "}}",
                 name, memory, work),
        ERR_OK);
    add_node(c, buf_text(&text));
    buf_deinit(&text);
}

static const char *stale_after(const struct job *job, int64_t age_ms, const char *memory,
                               const char *work)
{
    struct cluster c = {.job = job, .now_ms = MEASURED_MS + age_ms};
    const char *stale;

    add_measured(&c, "n", memory, work);
    add_pod(&c, "n", "Running", ""); /* what is free now is not what was measured */
    assert_int_equal(cluster_close(&c, NULL), ERR_OK);
    assert_int_equal(c.n_nodes, 1); /* the figures are used all the same */
    stale = c.stale[0];
    cluster_deinit(&c);
    return stale;
}

static void cluster_knows_which_figures_the_operator_would_not_take(void **state)
{
    struct job job = mine;
    char work[MARK_WORK_BYTES];

    (void)state;
    job.spec.placement.probe = SPEC_PROBE_IF_UNKNOWN;
    mark_work(&job.spec, job.namespace, work);
    assert_null(stale_after(&job, DAY_MS, MIB_4096, work));
    assert_string_equal(stale_after(&job, DAY_MS, MIB_4096, "another"), OTHER_SHAPES);
    assert_string_equal(stale_after(&job, DAY_MS, "7", work), OTHER_MACHINE);
    assert_non_null(strstr(stale_after(&job, 31 * DAY_MS, MIB_4096, work), "30 days ago"));
    strcpy(job.spec.worker.image, "worker:1");
    assert_null(stale_after(&job, DAY_MS, MIB_4096, work));
    strcpy(job.spec.worker.image, "worker:2");
    assert_string_equal(stale_after(&job, DAY_MS, MIB_4096, work),
                        "measured with another worker image");
    job.spec.placement.probe = SPEC_PROBE_ALWAYS;
    assert_non_null(strstr(stale_after(&job, 0, MIB_4096, work), "probePolicy is Always"));
}

static void cluster_believes_what_is_declared_unless_all_is_to_be_measured(void **state)
{
    struct job job = mine;
    struct cluster c = {.job = &job};

    (void)state;
    job.spec.placement.probe = SPEC_PROBE_IF_UNKNOWN;
    add_node(&c, GOOD("a"));
    job.spec.placement.probe = SPEC_PROBE_ALWAYS;
    add_node(&c, GOOD("b"));
    assert_int_equal(cluster_close(&c, NULL), ERR_OK);
    assert_null(c.stale[0]);
    assert_string_equal(c.stale[1], "declared, and spec.placement.probePolicy is Always");
    cluster_deinit(&c);
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
    assert_non_null(
        strstr(c.machines[0].why_not, "may not be (spec.placement.probePolicy is Never)"));
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
        add_node(&c, i ? NODE("late", SPEED("1"), SIZE("2", "4Gi"))
                       : NODE("belated", SPEED("1"), SIZE("2", "4Gi")));
    assert_int_equal(cluster_close(&c, NULL), ERR_OK);
    report_unusable(&c, out);
    (void)fclose(out);
    assert_non_null(strstr(text, "not usable  belated is not ready\n"
                                 "            late    is not ready\n"));
    assert_non_null(strstr(text, "and 3 more\n"));
    assert_null(strstr(text, "good"));
    free(text);
    cluster_deinit(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cluster_takes_away_what_pods_have_requested),
        cmocka_unit_test(cluster_counts_as_many_cores_as_are_useful),
        cmocka_unit_test(cluster_says_why_a_node_cannot_be_used),
        cmocka_unit_test(cluster_plans_with_what_was_measured_before),
        cmocka_unit_test(cluster_knows_which_figures_the_operator_would_not_take),
        cmocka_unit_test(cluster_believes_what_is_declared_unless_all_is_to_be_measured),
        cmocka_unit_test(cluster_leaves_out_what_this_job_cannot_use),
        cmocka_unit_test(cluster_without_nodes_or_full_of_pods_is_empty),
        cmocka_unit_test(cluster_lists_the_first_nodes_that_cannot_be_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
