#include "cli/nodes.h"

#include "suite.h"
#include "verb.h"

#define NOW_MS INT64_C(1795853000000) /* 2026-11-28T08:03:20Z */

#define FOUND "\\\"found\\\":{\\\"gflops\\\":20,\\\"unitMs\\\":0.1,\\\"threads\\\":1}"
/* With half of the node's 2 CPUs. */
#define PROBE(time)                                                                                \
    "\"skyjob.dev/probe\":\"{\\\"time\\\":\\\"" time "\\\",\\\"cpuMilli\\\":1000,"                 \
    "\\\"for\\\":{\\\"cpuMilli\\\":2000,\\\"memoryBytes\\\":4294967296}," FOUND "}\""
#define READY "\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]"
#define NODE(name, marks, spec, conditions)                                                        \
    "{\"metadata\":{\"name\":\"" name "\"," marks "},\"spec\":{" spec "},\"status\":{"             \
    "\"allocatable\":{\"cpu\":\"2\",\"memory\":\"4Gi\"}" conditions "}}"
#define MARKED(name, marks) NODE(name, "\"annotations\":{" marks "}", "", "," READY)

struct row {
    const char *name;
    const char *node;
    const char *line;
};

static struct row rows[] = {
    {"nodes_of_unknown_speed_are_listed", MARKED("n1", ""),
     "n1   yes     unknown     4.0Gi      2  -         \n"},
    {"nodes_have_their_measured_speed_with_all_cpu", MARKED("n1", PROBE("2026-11-28T05:00:00Z")),
     "n1   yes        40.0     4.0Gi      2  3h        \n"},
    {"nodes_whose_measurement_is_contradicted_have_a_note",
     MARKED("n1", PROBE("2026-11-28T05:00:00Z") ",\"skyjob.dev/probe-contradicted\":\"x\""),
     "n1   yes        40.0     4.0Gi      2  3h        contradicted by a training run since "
     "then\n"},
    {"nodes_whose_measurement_is_old_have_a_note", MARKED("n1", PROBE("2026-10-01T00:00:00Z")),
     "n1   yes        40.0     4.0Gi      2  58d       measured more than 30 days ago\n"},
    {"nodes_have_the_speed_that_is_declared",
     MARKED("n1", PROBE("2026-10-01T00:00:00Z") ",\"skyjob.dev/gflops\":\"85.55\""),
     "n1   yes        85.5     4.0Gi      2  58d       speed declared\n"},
    {"nodes_with_an_annotation_that_cannot_be_read_have_a_note",
     MARKED("n1", "\"skyjob.dev/gflops\":\"fast\""),
     "n1   yes     unknown     4.0Gi      2  -         skyjob.dev/gflops: \"fast\" is not a number "
     "in 0..1e+09\n"},
    {"nodes_that_are_not_ready_are_listed", NODE("n1", "\"labels\":{}", "", ""),
     "n1   no      unknown     4.0Gi      2  -         \n"},
    {"nodes_that_are_cordoned_have_a_note",
     NODE("n1", "\"labels\":{}", "\"unschedulable\":true", "," READY),
     "n1   yes     unknown     4.0Gi      2  -         cordoned\n"},
    {"nodes_that_are_tainted_have_a_note",
     NODE("n1", "\"labels\":{}", "\"taints\":[{\"key\":\"gpu\",\"effect\":\"NoSchedule\"}]",
          "," READY),
     "n1   yes     unknown     4.0Gi      2  -         tainted\n"},
};

static void check_row(void **state)
{
    const struct row *row = *state;
    struct node_object node;
    struct json *json = NULL;
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);

    assert_int_equal(json_parse(row->node, strlen(row->node), &json, NULL), ERR_OK);
    assert_int_equal(node_object_read(json, EXCLUDED_NOT_READY, &node, NULL), ERR_OK);
    json_free(json);
    nodes_print(&node, 1, NOW_MS, out);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(strchr(text, '\n') + 1, row->line);
    node_object_deinit(&node);
    free(text);
}

/* --- the command --- */

#define LIST  .expect = "GET /api/v1/nodes?limit="
#define PATCH .expect = "PATCH /api/v1/nodes/"
#define TWO                                                                                        \
    "{\"metadata\":{},\"items\":[" MARKED("b", PROBE("2026-11-28T05:00:00Z")) "," MARKED(          \
        "a", "\"skyjob.dev/gflops\":\"9\"") "]}"

static void nodes_are_listed_by_name(void **state)
{
    (void)state;
    VERB_SERVE({LIST, .body = TWO});
    assert_int_equal(VERB_RUN(command_nodes, "nodes"), EXIT_DONE);
    assert_has(verb_out,
               "NODE READY   GFLOP/S    MEMORY  CORES  MEASURED  NOTE\na    yes         9.0 ");
    assert_has(verb_out, "\nb    yes        40.0 ");
}

static void nodes_are_measured_again_once_their_measurement_is_removed(void **state)
{
    (void)state;
    VERB_SERVE({LIST, .body = TWO}, {.expect = "PATCH /api/v1/nodes/b?", .body = "{}"});
    assert_int_equal(VERB_RUN(command_nodes, "nodes", "--measure", "b"), EXIT_DONE);
    assert_string_equal(verb_out, "b: is measured for the next job to be planned\n");
    assert_has(loopback_request(verb_server, 1),
               "\r\n\r\n{\"metadata\":{\"annotations\":{\"skyjob.dev/probe\":null,"
               "\"skyjob.dev/probe-contradicted\":null},"
               "\"labels\":{\"skyjob.dev/measured-gflops\":null}}}");
}

static void nodes_may_all_be_measured_again(void **state)
{
    (void)state;
    VERB_SERVE({LIST, .body = TWO}, {PATCH, .body = "{}"}, {PATCH, .body = "{}"});
    assert_int_equal(VERB_RUN(command_nodes, "nodes", "--measure", "--all"), EXIT_DONE);
    assert_string_equal(verb_out, "a: its speed is declared in skyjob.dev/gflops; only a job with "
                                  "spec.placement.probePolicy Always measures it\n"
                                  "b: is measured for the next job to be planned\n");
}

static void nodes_stay_as_they_are_if_one_does_not_exist(void **state)
{
    (void)state;
    VERB_SERVE({LIST, .body = TWO});
    assert_int_equal(VERB_RUN(command_nodes, "nodes", "--measure", "b", "c"), EXIT_CONFIG);
    assert_string_equal(verb_err, "kubectl-skyjob: there is no node c\n");
}

static void nodes_to_measure_are_named_or_all(void **state)
{
    (void)state;
    verb_serve(NULL, 0);
    assert_int_equal(VERB_RUN(command_nodes, "nodes", "--measure"), EXIT_CONFIG);
    assert_int_equal(VERB_RUN(command_nodes, "nodes", "--measure", "--all", "a"), EXIT_CONFIG);
    assert_int_equal(VERB_RUN(command_nodes, "nodes", "--all"), EXIT_CONFIG);
    assert_int_equal(VERB_RUN(command_nodes, "nodes", "a"), EXIT_CONFIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        VERB_TEST(nodes_are_listed_by_name),
        VERB_TEST(nodes_are_measured_again_once_their_measurement_is_removed),
        VERB_TEST(nodes_may_all_be_measured_again),
        VERB_TEST(nodes_stay_as_they_are_if_one_does_not_exist),
        VERB_TEST(nodes_to_measure_are_named_or_all),
    };
    struct suite suite = {.n = 0};

    SUITE_ROWS(&suite, rows, check_row);
    SUITE_TESTS(&suite, tests);
    return suite_run(&suite, "nodes", scratch_make, scratch_remove);
}
