/* Which Nodes are excluded by what their objects contain. */
#include "cluster/node_object.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "suite.h"

#define READY          "{\"type\":\"Ready\",\"status\":\"True\"}"
#define LATE           "{\"type\":\"Ready\",\"status\":\"Unknown\"}"
#define CONDITIONS(is) "\"status\":{\"conditions\":[" is "]}"
#define TAINTS(key, effect)                                                                        \
    "\"spec\":{\"taints\":[{\"key\":\"" key "\",\"effect\":\"" effect "\"}]}"
#define TAINT(key, effect) "{" TAINTS(key, effect) "," CONDITIONS(READY) "}"

struct row {
    const char *name, *node;
    enum exclusion want;
};

static struct row rows[] = {
    {"exclusion_keeps_a_node_that_is_ready", "{" CONDITIONS(READY) "}", EXCLUDED_NOT},
    {"exclusion_is_a_node_that_does_not_answer", "{" CONDITIONS(LATE) "}", EXCLUDED_NOT_READY},
    {"exclusion_is_a_node_that_was_never_seen", "{}", EXCLUDED_NOT_READY},
    {"exclusion_is_a_node_of_nonsense", "{\"spec\":[],\"status\":{\"conditions\":7}}",
     EXCLUDED_NOT_READY},
    {"exclusion_is_a_node_that_goes",
     "{\"metadata\":{\"deletionTimestamp\":\"2026-11-21T08:00:00Z\"}," CONDITIONS(READY) "}",
     EXCLUDED_DELETED},
    {"exclusion_is_a_cordoned_node",
     "{\"spec\":{\"unschedulable\":true,\"taints\":[{\"key\":\"node.kubernetes.io/unschedulable\","
     "\"effect\":\"NoSchedule\"}]}," CONDITIONS(READY) "}",
     EXCLUDED_CORDONED},
    {"exclusion_names_silence_before_cordons",
     "{\"spec\":{\"unschedulable\":true}," CONDITIONS(LATE) "}", EXCLUDED_NOT_READY},
    {"exclusion_is_a_node_without_room_on_its_disk",
     "{" CONDITIONS("{\"type\":\"DiskPressure\",\"status\":\"True\"}," READY) "}",
     EXCLUDED_PRESSURE},
    {"exclusion_keeps_a_node_without_pressure",
     "{" CONDITIONS("{\"type\":\"DiskPressure\",\"status\":\"False\"}," READY) "}", EXCLUDED_NOT},
    {"exclusion_is_a_tainted_node", TAINT("gpu", "NoSchedule"), EXCLUDED_TAINTED},
    {"exclusion_is_a_node_that_evicts", TAINT("gpu", "NoExecute"), EXCLUDED_TAINTED},
    {"exclusion_keeps_a_node_that_only_prefers_others", TAINT("gpu", "PreferNoSchedule"),
     EXCLUDED_NOT},
    {"exclusion_keeps_a_taint_that_workers_tolerate",
     TAINT("node.kubernetes.io/unreachable", "NoExecute"), EXCLUDED_NOT},
    {"exclusion_is_a_node_that_was_silent_a_moment_ago",
     TAINT("node.kubernetes.io/unreachable", "NoSchedule"), EXCLUDED_TAINTED},
};

static void read_object(const char *text, enum exclusion unseen, struct node_object *out)
{
    struct json *node = NULL;

    assert_int_equal(json_parse(text, strlen(text), &node, NULL), ERR_OK);
    assert_int_equal(node_object_read(node, unseen, out, NULL), ERR_OK);
    json_free(node);
}

static enum exclusion read_text(const char *text, enum exclusion unseen)
{
    struct node_object node;
    enum exclusion why;

    read_object(text, unseen, &node);
    why = node_object_exclusion(&node, NULL);
    node_object_deinit(&node);
    return why;
}

static void check_row(void **state)
{
    const struct row *row = *state;

    assert_int_equal(read_text(row->node, EXCLUDED_NOT_READY), row->want);
}

static void exclusion_asks_a_file_only_for_what_it_says(void **state)
{
    (void)state;
    assert_int_equal(read_text("{}", EXCLUDED_NOT), EXCLUDED_NOT);
    assert_int_equal(read_text("{\"spec\":{\"unschedulable\":true}}", EXCLUDED_NOT),
                     EXCLUDED_CORDONED);
    assert_int_equal(read_text("{" CONDITIONS(LATE) "}", EXCLUDED_NOT), EXCLUDED_NOT_READY);
}

/* A node with two taints and two labels. */
static void exclusion_heeds_what_the_job_tolerates_and_selects(void **state)
{
#define GPU  "{\"key\":\"gpu\",\"operator\":\"Exists\"}"
#define OLD  "{\"key\":\"old\",\"value\":\"a:b=c\",\"effect\":\"NoExecute\"}"
#define BOTH "\"tolerations\":[" GPU "," OLD "]"
    static const char text[] =
        "{\"metadata\":{\"labels\":{\"a.b/zone\":\"x\",\"disk\":\"\"}},\"spec\":{\"taints\":["
        "{\"key\":\"gpu\",\"effect\":\"NoSchedule\"},"
        "{\"key\":\"old\",\"value\":\"a:b=c\",\"effect\":\"NoExecute\"}]}}";
    static const struct {
        const char *worker;
        enum exclusion want;
    } table[] = {
        {"{}", EXCLUDED_TAINTED},
        {"{\"tolerations\":[" GPU "]}", EXCLUDED_TAINTED},
        {"{\"tolerations\":[" OLD "]}", EXCLUDED_TAINTED},
        {"{" BOTH "}", EXCLUDED_NOT},
        {"{" BOTH ",\"nodeSelector\":{\"a.b/zone\":\"x\",\"disk\":\"\"}}", EXCLUDED_NOT},
        {"{" BOTH ",\"nodeSelector\":{\"a.b/zone\":\"y\"}}", EXCLUDED_UNSELECTED},
        {"{\"nodeSelector\":{\"a.b/zone\":\"y\"}}", EXCLUDED_TAINTED},
    };
    struct node_object node;

    (void)state;
    read_object(text, EXCLUDED_NOT, &node);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct json *worker = NULL;

        assert_int_equal(json_parse(table[i].worker, strlen(table[i].worker), &worker, NULL),
                         ERR_OK);
        if (node_object_exclusion(&node, worker) != table[i].want)
            fail_msg("%s", table[i].worker);
        json_free(worker);
    }
    node_object_deinit(&node);
}

static void node_objects_differ_by_what_counts_for_a_plan(void **state)
{
    static const char *const texts[] = {
        "{\"metadata\":{\"name\":\"a\"}}",
        "{\"metadata\":{\"name\":\"a\",\"labels\":{\"x\":\"y\"}}}",
        "{\"metadata\":{\"name\":\"a\"}," TAINTS("gpu", "NoSchedule") "}",
        "{\"metadata\":{\"name\":\"a\"},\"status\":{\"allocatable\":{\"cpu\":1}}}",
        "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"unschedulable\":true}}",
        "{\"metadata\":{\"name\":\"a\",\"annotations\":{\"skyjob.dev/gflops\":\"7\"}}}"};
    enum { N = sizeof texts / sizeof texts[0] };
    struct node_object a, b;

    (void)state;
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++) {
            read_object(texts[i], EXCLUDED_NOT, &a);
            read_object(texts[k], EXCLUDED_NOT, &b);
            if (node_object_equal(&a, &b) != (i == k))
                fail_msg("%s and %s", texts[i], texts[k]);
            node_object_deinit(&a);
            node_object_deinit(&b);
        }
}

static void exclusion_has_a_text_for_every_reason(void **state)
{
    (void)state;
    for (int i = 0; i < EXCLUSIONS; i++)
        assert_true(exclusion_text((enum exclusion)i)[0] != '\0');
    assert_string_equal(exclusion_text(EXCLUDED_CORDONED), "cordoned");
}

static int test_node_object(void)
{
    const struct CMUnitTest own[] = {
        cmocka_unit_test(exclusion_asks_a_file_only_for_what_it_says),
        cmocka_unit_test(exclusion_heeds_what_the_job_tolerates_and_selects),
        cmocka_unit_test(node_objects_differ_by_what_counts_for_a_plan),
        cmocka_unit_test(exclusion_has_a_text_for_every_reason),
    };
    struct suite suite = {.n = 0};

    SUITE_TESTS(&suite, own);
    SUITE_ROWS(&suite, rows, check_row);
    return suite_run(&suite, "exclusion", NULL, NULL);
}

/* --- pod requests --- */

#define C(cpu, memory) "{\"resources\": {\"requests\": {\"cpu\": " cpu ", \"memory\": " memory "}}}"

static struct json *pod(const char *text)
{
    struct json *json = NULL;

    assert_int_equal(json_parse(text, strlen(text), &json, NULL), ERR_OK);
    return json;
}

static void pod_requests_are_what_the_scheduler_counts(void **state)
{
    static const struct {
        const char *pod;
        int64_t cpu_milli, memory_bytes;
    } pods[] = {
        {"{}", 0, 0},
        {"{\"spec\": {\"containers\": [{}, " C("\"1\"", "\"1Ki\"") ", " C("\"250m\"",
                                                                          "\"24\"") "]}}",
         1250, 1048},
        {"{\"spec\": {\"initContainers\": [" C("\"3\"", "\"1\"") "], \"containers\": [" C(
             "\"2\"", "\"1Mi\"") "], \"overhead\": {\"cpu\": \"10m\"}}}",
         3010, 1 << 20},
        {"{\"spec\": {\"containers\": [" C("\"fast\"", "7") ", " C("\"-1\"", "null") "]}}", 0, 7},
        {"{\"spec\": 3}", 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof pods / sizeof pods[0]; i++) {
        struct json *json = pod(pods[i].pod);

        struct pod_requests requests = pod_requests_read(json);

        assert_int_equal(requests.cpu_milli, pods[i].cpu_milli);
        assert_int_equal(requests.memory_bytes, pods[i].memory_bytes);
        json_free(json);
    }
}

static void pod_has_ended_when_it_succeeded_or_failed(void **state)
{
    struct json *json = pod("[{\"status\": {\"phase\": \"Failed\"}}, {\"status\": {\"phase\": "
                            "\"Running\"}}, {}, {\"status\": {\"phase\": \"Succeeded\"}}]");
    const bool want[] = {true, false, false, true};
    int i = 0;

    (void)state;
    for (const struct json *v = json_first(json); v; v = json_next(v))
        assert_int_equal(pod_has_ended(v), want[i++]);
    assert_int_equal(i, 4);
    json_free(json);
}

static int test_pod_requests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pod_requests_are_what_the_scheduler_counts),
        cmocka_unit_test(pod_has_ended_when_it_succeeded_or_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* --- quantities --- */

#define BAD (-1)

struct quantity_row {
    const char *text;
    int64_t milli; /* BAD: refused */
    int64_t units;
};

static struct quantity_row quantities[] = {
    {"0", 0, 0},
    {"1", 1000, 1},
    {"0.5", 500, 1},
    {"500m", 500, 1},
    {"1500m", 1500, 2},
    {"100m", 100, 1},
    {"0.1", 100, 1},
    {"1.5", 1500, 2},
    {".5", 500, 1},
    {"5.", 5000, 5},
    {"2k", 2000000, 2000},
    {"1Ki", 1024000, 1024},
    {"1.5Gi", 1610612736000, 1610612736},
    {"3Gi", 3221225472000, 3221225472},
    {"8127484Ki", 8322543616000, 8322543616},
    {"1e3", 1000000, 1000},
    {"1E3", 1000000, 1000},
    {"12e-1", 1200, 2},
    {"1e+3", 1000000, 1000},
    {"1u", 1, 1},
    {"1n", 1, 1},
    {"100000000n", 100, 1},
    {"0.0001", 1, 1},
    {"1E", BAD, 1000000000000000000},
    {"7Ei", BAD, 8070450532247928832},
    {"9Ei", BAD, BAD},
    {"1e18", BAD, 1000000000000000000},
    {"999999999999999999999", BAD, BAD},
    {"", BAD, BAD},
    {" 1", BAD, BAD},
    {"1 ", BAD, BAD},
    {"-1", BAD, BAD},
    {"+1", BAD, BAD},
    {".", BAD, BAD},
    {"..", BAD, BAD},
    {"1.2.3", BAD, BAD},
    {"1e", BAD, BAD},
    {"e3", BAD, BAD},
    {"1e3m", BAD, BAD},
    {"1e 3", BAD, BAD},
    {"1e99", BAD, BAD},
    {"1e-99", BAD, BAD},
    {"1e9999999999999999999", BAD, BAD},
    {"1ki", BAD, BAD},
    {"1K", BAD, BAD},
    {"1mi", BAD, BAD},
    {"1GiB", BAD, BAD},
    {"Gi", BAD, BAD},
    {"0x10", BAD, BAD},
    {"nan", BAD, BAD},
    {"inf", BAD, BAD},
    {"1,5", BAD, BAD},
    {"00000000000000000000000000000001", BAD, BAD},
};

static void check_quantity(void **state)
{
    const struct quantity_row *row = *state;
    int64_t milli = BAD;
    int64_t units = BAD;
    enum err_code rc = quantity_parse(row->text, true, &milli, NULL);

    assert_int_equal(rc == ERR_OK, row->milli != BAD);
    assert_true(milli == row->milli);
    rc = quantity_parse(row->text, false, &units, NULL);
    assert_int_equal(rc == ERR_OK, row->units != BAD);
    assert_true(units == row->units);
}

static int test_quantities(void)
{
    enum { N = sizeof quantities / sizeof quantities[0] };
    static struct CMUnitTest tests[N];
    static char names[N][64];

    for (int i = 0; i < N; i++) {
        (void)snprintf(names[i], sizeof names[i], "quantity_%s \"%.40s\"",
                       quantities[i].units == BAD ? "refuses" : "reads", quantities[i].text);
        tests[i] = (struct CMUnitTest){names[i], check_quantity, NULL, NULL, &quantities[i]};
    }
    return _cmocka_run_group_tests("quantity", tests, N, NULL, NULL);
}

int main(void)
{
    return test_node_object() + test_pod_requests() + test_quantities();
}
