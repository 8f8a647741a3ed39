#include "cli/cluster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/view.h"

#define READY             "\"conditions\": [{\"type\": \"Ready\", \"status\": \"True\"}]"
#define SIZE(cpu, memory) "\"allocatable\": {\"cpu\": \"" cpu "\", \"memory\": \"" memory "\"}"
#define SPEED(gflops)     "\"labels\": {\"skyjob.dev/gflops\": \"" gflops "\"}"
#define NODE(name, marks, status)                                                                  \
    "{\"metadata\": {\"name\": \"" name "\", " marks "}, \"status\": {" status "}}"
#define GOOD(name) NODE(name, SPEED("80"), SIZE("2", "4Gi") ", " READY)

#define NOW_MS INT64_C(1795334400000)

static struct job mine;
static struct cluster at;

static int set_up(void **state)
{
    (void)state;
    mine = (struct job){.namespace = "default", .name = "mine"};
    at = (struct cluster){.job = &mine};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    cluster_deinit(&at);
    return 0;
}

static struct json *parse(const char *text)
{
    struct json *json = NULL;

    assert_int_equal(json_parse(text, strlen(text), &json, NULL), ERR_OK);
    return json;
}

static void add_node(const char *text)
{
    struct json *json = parse(text);

    assert_int_equal(cluster_add_node(&at, json, NULL), ERR_OK);
    cluster_close_nodes(&at);
    json_free(json);
}

static void add_pod(const char *name, const char *node, const char *phase, const char *job)
{
    char text[1024];
    struct json *json;

    (void)snprintf(text, sizeof text,
                   "{\"metadata\": {\"namespace\": \"default\", \"name\": \"%s\", \"labels\": "
                   "{\"skyjob.dev/job\": \"%s\"}}, \"spec\": {\"nodeName\": \"%s\", "
                   "\"containers\": [{\"resources\": {\"requests\": {\"cpu\": \"500m\", "
                   "\"memory\": \"1Gi\"}}}]}, \"status\": {\"phase\": \"%s\"}}",
                   name, job, node, phase);
    json = parse(text);
    assert_int_equal(cluster_add_pod(&at, json, NULL), ERR_OK);
    json_free(json);
}

static void add_job(const char *name, int revision, const char *condition)
{
    char text[512];
    struct json *json;

    (void)snprintf(
        text, sizeof text,
        "{\"metadata\": {\"namespace\": \"default\", \"name\": \"%s\", \"uid\": \"u-%s\"},"
        "\"status\": {\"revision\": %d, \"conditions\": [{\"type\": \"%s\", "
        "\"status\": \"True\"}]}}",
        name, name, revision, condition);
    json = parse(text);
    assert_int_equal(cluster_add_job(&at, json, NULL), ERR_OK);
    json_free(json);
}

/* Of two stages with 1.5 CPU and 1 GiB each, on nodes a and b. */
static void add_plan(const char *job, int revision)
{
#define STAGE(first, units, node)                                                                  \
    "{\\\"slot\\\":" first ",\\\"incarnation\\\":1,\\\"firstUnit\\\":" first                       \
    ",\\\"unitCount\\\":" units ",\\\"node\\\":\\\"" node "\\\","                                  \
    "\\\"cpuMilli\\\":1500,\\\"memoryBytes\\\":1073741824}"
    char text[2048];
    struct json *json;

    (void)snprintf(
        text, sizeof text,
        "{\"metadata\":{\"namespace\":\"default\",\"name\":\"%s-u-%.3s-r%d\",\"ownerReferences\":[{"
        "\"apiVersion\":\"skyjob.dev/v1alpha1\",\"kind\":\"SkyJob\",\"name\":\"%s\","
        "\"uid\":\"u-%s\",\"controller\":true}],\"labels\":{\"skyjob.dev/revision\":\"%d\"}},"
        "\"data\":{\"revision.json\":\"{\\\"version\\\":2,\\\"lineage\\\":1,\\\"step\\\":0,"
        "\\\"sources\\\":[{\\\"firstUnit\\\":0,\\\"unitCount\\\":7,\\\"from\\\":\\\"Random\\\"}],"
        "\\\"plan\\\":{\\\"version\\\":2,\\\"namespace\\\":\\\"default\\\","
        "\\\"job\\\":\\\"%s\\\",\\\"uid\\\":\\\"u-%s\\\",\\\"revision\\\":%d,"
        "\\\"microBatches\\\":8,\\\"explanation\\\":\\\"\\\",\\\"workers\\\":[" STAGE(
            "0", "3",
            "a") "," STAGE("3", "4",
                           "b") "],\\\"spec\\\":{\\\"model\\\":{\\\"preset\\\":\\\"BertTiny\\\"},"
                                "\\\"data\\\":{\\\"source\\\":{\\\"sample\\\":\\\"MNLI\\\"}}}}}\"}"
                                "}",
        job, job, revision, job, job, revision, job, job, revision);
    json = parse(text);
    assert_int_equal(cluster_add_plan(&at, json, NULL), ERR_OK);
    json_free(json);
}

static const struct survey *survey(void)
{
    assert_int_equal(cluster_survey(&at, NOW_MS, NULL), ERR_OK);
    return &at.survey;
}

static void cluster_takes_away_what_pods_have_requested(void **state)
{
    const struct survey *s;

    (void)state;
    add_node(GOOD("b"));
    add_node(GOOD("a"));
    add_pod("1", "b", "Running", "other");
    add_pod("2", "b", "Pending", "");
    add_pod("3", "b", "Succeeded", "");
    add_pod("4", "a", "Running", "mine"); /* a new plan has its room */
    add_pod("5", "", "Pending", "");
    add_pod("6", "elsewhere", "Running", "");
    s = survey();
    assert_int_equal(s->n_candidates, 2);
    assert_string_equal(s->candidates[0].name, "a");
    assert_int_equal(s->candidates[0].cpu_milli, 2000);
    assert_true(s->candidates[0].gflops == 80);
    assert_int_equal(s->candidates[1].cpu_milli, 1000);
    assert_true(s->candidates[1].gflops == 40);
    assert_true(s->candidates[1].memory_bytes == (int64_t)2 << 30);
}

static void cluster_takes_away_what_plans_promise_until_their_pods_are_bound(void **state)
{
    const struct survey *s;

    (void)state;
    add_node(GOOD("a"));
    add_node(GOOD("b"));
    add_job("other", 2, "Placed");
    add_job("done", 1, "Complete");
    add_pod("other-u-oth-w0-1", "a", "Running", "other"); /* counts for what it requests */
    add_pod("other-u-oth-w3-1", "", "Pending", "other");
    add_plan("other", 1); /* superseded */
    add_plan("other", 2);
    add_plan("done", 1);
    add_plan("gone", 1);
    add_plan("mine", 1);
    s = survey();
    assert_int_equal(s->candidates[0].cpu_milli, 1500);
    assert_int_equal(s->candidates[1].cpu_milli, 500);
    assert_true(s->candidates[1].memory_bytes == (int64_t)3 << 30);
}

static void cluster_without_nodes_is_empty(void **state)
{
    (void)state;
    add_pod("1", "a", "Running", "");
    assert_int_equal(survey()->n_candidates, 0);
}

static void cluster_view_lists_the_first_excluded_nodes(void **state)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);

    (void)state;
    add_node(GOOD("good"));
    add_node(NODE("full", SPEED("1"), SIZE("99m", "4Gi") ", " READY));
    add_node(NODE("small", SPEED("1"), SIZE("1", "159Mi") ", " READY));
    add_node(NODE("strange", SPEED("inf"), SIZE("1", "1Gi") ", " READY));
    for (int i = 0; i < VIEW_NODES_MAX; i++)
        add_node(i ? NODE("later", SPEED("1"), SIZE("2", "4Gi"))
                   : NODE("belated", SPEED("1"), SIZE("2", "4Gi")));
    (void)survey();
    view_nodes(&at, out);
    (void)fclose(out);
    assert_non_null(strstr(text, "note        Invalid annotation on node strange: "
                                 "skyjob.dev/gflops: \"inf\" is not a number"));
    assert_non_null(strstr(text, "excluded    belated: not ready\n"
                                 "            full:    with less than 100m of CPU free (99m)\n"));
    assert_non_null(strstr(text, "and 3 more\n"));
    assert_null(strstr(text, "good"));
    free(text);
}

/* --- files of nodes --- */

static enum err_code load(const char *text, struct err *err)
{
    char path[] = "/tmp/test_cluster-XXXXXX";
    int fd = mkstemp(path);
    enum err_code rc;

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(close(fd), 0);
    rc = cluster_load_file(path, &at, err);
    assert_int_equal(unlink(path), 0);
    return rc;
}

#define YAML(name, marks, cpu, memory)                                                             \
    "{kind: Node, metadata: {name: " name ", " marks "}, "                                         \
    "status: {allocatable: {cpu: " cpu ", memory: " memory "}}}"

static void cluster_file_has_lists_and_single_nodes(void **state)
{
    static const char text[] = "apiVersion: v1\nkind: List\nitems:\n- " YAML(
        "b", "labels: {skyjob.dev/gflops: \"85.5\"}", "500m",
        "4Gi") "\n- "
               "{kind: Node, metadata: {name: control}, spec: {taints: [{effect: NoSchedule}]}}\n"
               "---\n" YAML(
                   "a", "annotations: {skyjob.dev/gflops: \"1e2\", skyjob.dev/unit-ms: \"0.2\"}",
                   "2", "1000000000") "\n---\nkind: ConfigMap\n";
    const struct survey *s;

    (void)state;
    assert_int_equal(load(text, NULL), ERR_OK);
    s = survey();
    assert_int_equal(s->n_candidates, 2);
    assert_int_equal(s->n_excluded[EXCLUDED_TAINTED], 1);
    assert_string_equal(s->candidates[1].name, "b");
    assert_true(s->candidates[1].gflops == 85.5);
    assert_int_equal(s->candidates[1].cpu_milli, 500);
    assert_true(s->candidates[1].memory_bytes == (int64_t)4 << 30);
    assert_true(s->candidates[0].gflops == 100 && s->candidates[0].unit_ms == 0.2);
    assert_int_equal(s->candidates[0].cpu_milli, 2000);
}

static void check_refused(const char *text, enum err_code want, const char *words)
{
    struct err err = {0};

    assert_int_equal(load(text, &err), want);
    if (!strstr(err.text, words))
        fail_msg("\"%s\" is not in \"%s\"", words, err.text);
    cluster_deinit(&at);
}

static void cluster_file_needs_nodes_with_names_of_their_own(void **state)
{
    (void)state;
    check_refused(YAML("a", "labels: {}", "1", "1Gi") "\n---\n" YAML("a", "labels: {}", "1", "1Gi"),
                  ERR_INVALID, "node a is listed twice");
    check_refused("{kind: Node, metadata: {}}", ERR_INVALID, "a Node has no metadata.name");
    check_refused("kind: SkyJob\n", ERR_NOT_FOUND, "contains no Node");
    check_refused("", ERR_NOT_FOUND, "contains no Node");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(cluster_takes_away_what_pods_have_requested),
        TEST(cluster_takes_away_what_plans_promise_until_their_pods_are_bound),
        TEST(cluster_without_nodes_is_empty),
        TEST(cluster_view_lists_the_first_excluded_nodes),
        TEST(cluster_file_has_lists_and_single_nodes),
        TEST(cluster_file_needs_nodes_with_names_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
