/* Which nodes a job can use, with which figures, and why not the others. */
#include "cluster/survey.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define NODES_MAX 100
#define NOW_MS    INT64_C(1795334400000)
#define DAY_MS    (INT64_C(24) * 60 * 60 * 1000)

static struct {
    struct spec spec;
    struct node_object nodes[NODES_MAX];
    struct survey_request request;
    struct survey survey;
} at;

static int set_up(void **state)
{
    (void)state;
    memset(&at, 0, sizeof at);
    at.request = (struct survey_request){.spec = &at.spec,
                                         .namespace = "team",
                                         .image = "worker:1",
                                         .created_ms = INT64_MAX,
                                         .now_ms = NOW_MS,
                                         .nodes = at.nodes};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    survey_deinit(&at.survey);
    return 0;
}

/* A node of 2 CPU and 4 GiB whose speed is declared. */
static struct node_object *add(const char *name, double gflops)
{
    struct node_object *n = &at.nodes[at.request.n_nodes++];

    (void)snprintf(n->name, sizeof n->name, "%s", name);
    n->cpu_milli = 2000;
    n->memory_bytes = (int64_t)4 << 30;
    n->annotations.gflops = gflops;
    return n;
}

/* The same, with what an earlier job's probe found instead. */
static struct node_object *add_measured(const char *name, double gflops)
{
    struct node_object *n = add(name, 0);
    struct annotation_probe *p = &n->annotations.probe;

    n->annotations.has_probe = true;
    *p = (struct annotation_probe){.found = {.gflops = gflops, .unit_ms = 0.25, .threads = 1},
                                   .cpu_milli = 2000,
                                   .subject = {.cpu_milli = 2000, .memory_bytes = (int64_t)4 << 30},
                                   .time_ms = NOW_MS - DAY_MS};
    annotation_work(&at.spec, "team", p->subject.work);
    return n;
}

static void make(void)
{
    survey_deinit(&at.survey);
    assert_int_equal(survey_make(&at.request, &at.survey, NULL), ERR_OK);
}

static void survey_offers_what_is_free_of_a_node(void **state)
{
    const struct node *n;

    (void)state;
    add("b", 80)->cpu_used_milli = 500;
    add("a", 80)->memory_used_bytes = (int64_t)1 << 30;
    add("c", 800)->cpu_milli = 128000;
    make();
    n = at.survey.candidates;
    assert_int_equal(at.survey.n_candidates, 3);
    assert_string_equal(n[0].name, "a");
    assert_int_equal(n[0].memory_bytes, (int64_t)3 << 30);
    assert_int_equal(n[1].cpu_milli, 1500);
    assert_true(n[1].gflops == 60);
    assert_int_equal(n[2].cpu_milli, NODE_CPU_USEFUL_MILLI);
    assert_true(n[2].gflops == 800);
}

static void survey_has_one_reason_for_each_excluded_node(void **state)
{
    char text[256] = "";

    (void)state;
    add("a", 80)->excluded = EXCLUDED_CORDONED;
    add("b", 80)->memory_bytes = 0;
    add("c", 80)->cpu_used_milli = 1901;
    add("d", 80)->memory_used_bytes = (int64_t)4 << 30;
    add("e", 80)->annotations.has_bf16 = NODE_NO;
    (void)add("f", 0);
    at.spec.training.precision = SPEC_PRECISION_BF16;
    make();
    assert_int_equal(at.survey.n_candidates, 0);
    survey_add_excluded(&at.survey, text, sizeof text);
    assert_string_equal(text, "1 cordoned, 1 without readable allocatable CPU and memory, "
                              "1 with less than 100m of CPU free, 1 with less than 160Mi of "
                              "memory free, 1 without BF16 support, which spec.training.precision "
                              "asks for, 1 not measured yet");
}

static void survey_hands_every_node_to_the_planner(void **state)
{
    char name[8];

    (void)state;
    for (int i = 0; i < NODES_MAX; i++) {
        (void)snprintf(name, sizeof name, "n%02d", i);
        (void)add(name, 1 + i);
    }
    make();
    assert_int_equal(at.survey.n_candidates, NODES_MAX);
}

static void survey_ignores_an_invalid_annotation_and_reports_it(void **state)
{
    char text[256] = "";

    (void)state;
    (void)snprintf(add_measured("a", 20)->annotations.bad, ANNOTATION_BAD_BYTES,
                   "skyjob.dev/gflops: \"inf\"");
    (void)snprintf(add("b", 10)->annotations.bad, ANNOTATION_BAD_BYTES,
                   "skyjob.dev/unit-ms: \"x\"");
    make();
    assert_int_equal(at.survey.n_candidates, 2);
    assert_true(at.survey.candidates[0].gflops == 20);
    survey_add_bad(&at.survey, text, sizeof text);
    assert_string_equal(text, "Invalid annotation on node a: skyjob.dev/gflops: \"inf\"; it is "
                              "ignored. 2 nodes have invalid annotations.");
}

static void survey_takes_lengths_and_pace_from_the_fastest_node(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        static const double gflops[] = {10, 30, 30, 90};
        struct node_probe *p = &add_measured((const char *[]){"a", "b", "c", "d"}[i], gflops[i])
                                    ->annotations.probe.found;

        p->lengths = (struct node_lengths){.mean = 10 + i, .mean_square = 400};
        p->pace = (struct node_pace){.attention = 1 + i};
    }
    (void)snprintf(at.nodes[3].annotations.probe.subject.work, ANNOTATION_WORK_BYTES, "other");
    make();
    assert_true(at.survey.lengths.mean == 11); /* b's: d measured something else */
    assert_true(at.survey.pace.attention == 2);
}

static void survey_names_what_makes_a_measurement_stale(void **state)
{
    (void)state;
    (void)add_measured("a", 20);
    add_measured("b", 20)->annotations.probe.subject.cpu_milli = 1;
    add_measured("c", 20)->annotations.probe.time_ms = NOW_MS - 31 * DAY_MS;
    (void)snprintf(add_measured("d", 20)->annotations.probe.subject.image, SPEC_IMAGE_BYTES,
                   "worker:2");
    make();
    assert_int_equal(at.survey.n_candidates, 4); /* better than nothing */
    assert_null(at.survey.nodes[0].stale);
    assert_non_null(strstr(at.survey.nodes[1].stale, "other allocatable CPU or memory"));
    assert_non_null(strstr(at.survey.nodes[2].stale, "30 days ago"));
    assert_non_null(strstr(at.survey.nodes[3].stale, "another worker image"));
    at.spec.placement.probe = SPEC_PROBE_ALWAYS;
    make();
    assert_non_null(strstr(at.survey.nodes[0].stale, "probePolicy is Always"));
    at.request.created_ms = NOW_MS - 2 * DAY_MS;
    make();
    assert_null(at.survey.nodes[0].stale); /* measured since the job was created */
}

static void no_result(void *ctx, const struct node_object *node, struct survey_own *out)
{
    (void)ctx;
    out->has_failed = strcmp(node->name, "b") == 0;
}

static void survey_that_can_measure_does_without_stale_figures(void **state)
{
    (void)state;
    add_measured("a", 20)->annotations.probe.subject.cpu_milli = 1;
    (void)add("b", 0);
    (void)add("c", 5);
    at.request.own = no_result;
    make();
    assert_int_equal(at.survey.nodes[0].excluded, EXCLUDED_UNMEASURED);
    assert_int_equal(at.survey.nodes[1].excluded, EXCLUDED_PROBE_FAILED);
    assert_int_equal(at.survey.nodes[2].excluded, EXCLUDED_NOT);
}

static void survey_assumes_the_speed_of_others_where_nothing_may_be_measured(void **state)
{
    char text[256] = "";

    (void)state;
    at.spec.placement.probe = SPEC_PROBE_NEVER;
    (void)add("a", 0);
    (void)add("b", 30);
    make();
    assert_int_equal(at.survey.n_candidates, 2);
    assert_true(at.survey.candidates[0].gflops == 30);
    survey_add_assumed(&at.survey, text, sizeof text);
    assert_non_null(strstr(text, "1 of 2 nodes were never measured"));
}

static void survey_links_nodes_that_declare_their_network(void **state)
{
    (void)state;
    add("a", 30)->annotations.link_bytes_per_s = 1e6;
    (void)add("b", 30);
    make();
    assert_null(at.survey.links);
    assert_int_equal(survey_link(&at.survey, NULL), ERR_OK);
    assert_true(at.survey.links[1].bytes_per_s == 1e6);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(survey_offers_what_is_free_of_a_node),
        TEST(survey_has_one_reason_for_each_excluded_node),
        TEST(survey_hands_every_node_to_the_planner),
        TEST(survey_ignores_an_invalid_annotation_and_reports_it),
        TEST(survey_takes_lengths_and_pace_from_the_fastest_node),
        TEST(survey_names_what_makes_a_measurement_stale),
        TEST(survey_that_can_measure_does_without_stale_figures),
        TEST(survey_assumes_the_speed_of_others_where_nothing_may_be_measured),
        TEST(survey_links_nodes_that_declare_their_network),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
