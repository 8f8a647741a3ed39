#include "cli/nodefile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define NODE(name, mark, cpu, memory)                                                              \
    "{kind: Node, metadata: {name: " name ", " mark "}, "                                          \
    "status: {allocatable: {cpu: " cpu ", memory: " memory "}}}"
#define SPEED(value) "labels: {skyjob.dev/gflops: " value "}"

static enum err_code load(const char *text, struct nodefile *out, struct err *err)
{
    char path[] = "/tmp/test_nodefile-XXXXXX";
    int fd = mkstemp(path);
    enum err_code rc;

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(close(fd), 0);
    rc = nodefile_load(path, out, err);
    assert_int_equal(unlink(path), 0);
    return rc;
}

static void nodefile_reads_lists_and_single_nodes(void **state)
{
    static const char text[] = "apiVersion: v1\nkind: List\nitems:\n- " NODE(
        "a", SPEED("\"85.5\""), "500m",
        "4Gi") "\n- "
               "{kind: Node, metadata: {name: control}, spec: {taints: [{effect: NoSchedule}]}}\n"
               "---\n" NODE(
                   "b", "annotations: {skyjob.dev/gflops: \"1e2\", skyjob.dev/unit-ms: \"0.2\"}",
                   "2", "1000000000") "\n---\nkind: ConfigMap\n";
    struct nodefile f;

    (void)state;
    assert_int_equal(load(text, &f, NULL), ERR_OK);
    assert_int_equal(f.n_nodes, 2);
    assert_int_equal(f.n_closed, 1);
    assert_string_equal(f.nodes[0].name, "a");
    assert_true(f.nodes[0].gflops == 85.5);
    assert_int_equal(f.nodes[0].cpu_milli, 500);
    assert_true(f.nodes[0].memory_bytes == (int64_t)4 << 30);
    assert_true(f.nodes[1].gflops == 100);
    assert_true(f.nodes[1].unit_ms == 0.2);
    assert_int_equal(f.nodes[1].cpu_milli, 2000);
    nodefile_deinit(&f);
}

#define FOUND                                                                                      \
    "annotations: {skyjob.dev/probe: '{\"time\":\"2026-11-21T08:00:00Z\",\"cpuMilli\":500,"        \
    "\"for\":{\"cpuMilli\":2000},\"found\":{\"gflops\":10,\"unitMs\":0.5,\"threads\":1}}'}"

static void nodefile_takes_what_was_measured_in_a_cluster(void **state)
{
    static const char text[] =
        NODE("a", FOUND, "2", "4Gi") "\n---\n" NODE("b", SPEED("\"7\"") ", " FOUND, "2", "4Gi");
    struct nodefile f;

    (void)state;
    assert_int_equal(load(text, &f, NULL), ERR_OK);
    assert_true(f.nodes[0].gflops == 40);
    assert_true(f.nodes[0].unit_ms == 0.5);
    assert_true(f.nodes[1].gflops == 7); /* declared */
    assert_true(f.nodes[1].unit_ms == 0);
    assert_true(f.marks[0].has_probe);
    assert_true(f.marks[1].gflops == 7);
    nodefile_deinit(&f);
}

struct refused {
    const char *name;
    const char *text;
    const char *says;
};

static struct refused refused[] = {
    {"nodefile_needs_a_speed", NODE("a", "labels: {}", "1", "1Gi"),
     "node a: has no label or annotation skyjob.dev/gflops"},
    {"nodefile_refuses_inf", NODE("a", SPEED("\"inf\""), "1", "1Gi"),
     "\"inf\" is not a number in 0..1e+09"},
    {"nodefile_refuses_a_negative_speed", NODE("a", SPEED("\"-1\""), "1", "1Gi"),
     "\"-1\" is not a number"},
    {"nodefile_refuses_no_speed_at_all", NODE("a", SPEED("\"0\""), "1", "1Gi"), "must be above 0"},
    {"nodefile_refuses_a_huge_speed", NODE("a", SPEED("\"1e300\""), "1", "1Gi"),
     "\"1e300\" is not a number"},
    {"nodefile_refuses_an_empty_speed", NODE("a", SPEED("\"\""), "1", "1Gi"),
     "\"\" is not a number"},
    {"nodefile_refuses_a_unit_behind_the_speed", NODE("a", SPEED("\"85 GFLOP/s\""), "1", "1Gi"),
     "\"85 GFLOP/s\" is not a number"},
    {"nodefile_needs_memory",
     "{kind: Node, metadata: {name: a, " SPEED("\"1\"") "}, "
                                                        "status: {allocatable: {cpu: 1}}}",
     "node a: status.allocatable.memory"},
    {"nodefile_refuses_negative_memory", NODE("a", SPEED("\"1\""), "1", "\"-1Gi\""),
     "node a: status.allocatable.memory"},
    {"nodefile_refuses_no_cpu", NODE("a", SPEED("\"1\""), "0", "1Gi"),
     "node a: status.allocatable.cpu"},
    {"nodefile_refuses_a_name_twice",
     NODE("a", SPEED("\"1\""), "1", "1Gi") "\n---\n" NODE("a", SPEED("\"2\""), "1", "1Gi"),
     "node a is there twice"},
    {"nodefile_needs_a_name", "{kind: Node, metadata: {}}", "a Node has no metadata.name"},
    {"nodefile_needs_a_node", "kind: SkyJob\n", "holds no Node"},
    {"nodefile_needs_a_document", "", "holds no Node"},
};

static void check_refused(void **state)
{
    const struct refused *row = *state;
    struct nodefile f;
    struct err err = {0};

    assert_int_not_equal(load(row->text, &f, &err), ERR_OK);
    if (!strstr(err.text, row->says))
        fail_msg("says \"%s\"", err.text);
}

#define N_REFUSED (sizeof refused / sizeof refused[0])

int main(void)
{
    struct CMUnitTest tests[N_REFUSED + 2] = {
        cmocka_unit_test(nodefile_reads_lists_and_single_nodes),
        cmocka_unit_test(nodefile_takes_what_was_measured_in_a_cluster)};

    for (size_t i = 0; i < N_REFUSED; i++)
        tests[i + 2] = (struct CMUnitTest){
            .name = refused[i].name, .test_func = check_refused, .initial_state = &refused[i]};
    return _cmocka_run_group_tests("nodefile", tests, N_REFUSED + 2, NULL, NULL);
}
