#include "cli/report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "balance/partition.h"
#include "base/yaml.h"

static struct {
    struct spec spec;
    struct node nodes[3];
    struct partition_request request;
    struct placement placement;
    struct whatif whatif;
    struct cluster cluster;
    const struct survey_node *judged_at[3];
    struct node_object objects[5];
    struct survey_node all[5];
    struct report report;
} at;

static int solve(void **state)
{
    memset(&at, 0, sizeof at);
    (void)state;
    at.spec.training.batch_size = 32;
    at.spec.training.micro_batches = 8;
    at.spec.training.max_length = 128;
    at.spec.placement.min_stages = 1;
    at.spec.placement.max_stages = 8;
    at.nodes[0] = (struct node){.name = "slow", .gflops = 25, .memory_bytes = (int64_t)4 << 30};
    at.nodes[1] = (struct node){.name = "fast", .gflops = 100, .memory_bytes = (int64_t)4 << 30};
    at.nodes[2] = (struct node){.name = "tiny", .gflops = 0.5, .memory_bytes = (int64_t)4 << 30};
    at.request = (struct partition_request){
        .spec = &at.spec, .nodes = at.nodes, .n_nodes = 3, .link = COST_LINK_DEFAULT};
    for (int i = 0; i < 5; i++) {
        (void)snprintf(at.objects[i].name, sizeof at.objects[i].name, "node-%d", i);
        at.all[i] = (struct survey_node){.object = &at.objects[i],
                                         .excluded = i < 3 ? EXCLUDED_NOT : EXCLUDED_CORDONED};
    }
    for (int i = 0; i < 3; i++)
        at.judged_at[i] = &at.all[i];
    at.cluster.survey =
        (struct survey){.n_nodes = 5, .nodes = at.all, .n_candidates = 3, .judged = at.judged_at};
    at.report = (struct report){&at.request, &at.placement, &at.whatif, &at.cluster, false};
    if (model_preset("BertBase", &at.spec.model, NULL) != ERR_OK ||
        partition_solve(&at.request, &at.placement, NULL) != ERR_OK ||
        whatif_solve(&at.request, &at.placement, &at.whatif, NULL) != ERR_OK)
        return -1;
    return 0;
}

/* In the report for people. */
static void expect_in_text(const char *const *words, size_t n_words)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);

    assert_non_null(out);
    report_text(&at.report, out);
    assert_int_equal(fclose(out), 0);
    for (size_t i = 0; i < n_words; i++)
        if (!strstr(text, words[i]))
            fail_msg("\"%s\" is not in\n%s", words[i], text);
    free(text);
}

static void report_tells_people_all_there_is_to_know(void **state)
{
    static const char *const words[] = {"STAGE  NODE",
                                        "####",
                                        "note        lengths are a guess: sequences are",
                                        "taken to have 39 tokens, as is usual, since",
                                        "step        ",
                                        "no plan of these nodes is faster",
                                        "batch       32 sequences in 8 micro-batches of 4, as the",
                                        "bottleneck  ",
                                        "Even        ",
                                        "Dynamic     ",
                                        "one more    like fast: ",
                                        "one fewer   without ",
                                        "excluded    tiny:   at 0.5 GFLOP/s",
                                        "            node-3: cordoned"};

    (void)state;
    expect_in_text(words, sizeof words / sizeof words[0]);
}

static void report_says_when_the_planner_chose_the_micro_batches(void **state)
{
    static const char *const line =
        "\nbatch       32 sequences in 1 micro-batch of 32, which the planner chose\n";
    struct buf json = {.max = REPORT_MAX_BYTES};
    struct json *root = NULL;

    (void)state;
    at.report.is_micro_open = true;
    at.placement.micro_batches = 1;
    expect_in_text(&line, 1);
    assert_int_equal(report_json(&at.report, &json, NULL), ERR_OK);
    assert_int_equal(json_parse(buf_text(&json), json.len, &root, NULL), ERR_OK);
    assert_int_equal(json_int(json_get(root, "microBatches"), 0), 1);
    assert_true(json_bool(json_get(root, "microBatchesChosen"), false));
    json_free(root);
    buf_deinit(&json);
}

static void report_has_no_empty_list_of_excluded_nodes(void **state)
{
    struct buf json = {.max = REPORT_MAX_BYTES};

    (void)state;
    at.placement.n_left_out = 0;
    at.cluster.survey.n_nodes = 3;
    assert_int_equal(report_json(&at.report, &json, NULL), ERR_OK);
    assert_non_null(strstr(buf_text(&json), "\"excludedCount\":0"));
    assert_null(strstr(buf_text(&json), "\"excluded\""));
    buf_deinit(&json);
}

static void report_lists_excluded_nodes_in_columns(void **state)
{
    static const char *const lines[] = {
        "\nexcluded    slow:                                     for its speed\n",
        "\n            a-node-of-a-name-th...body-would-want-it: for its name\n",
    };

    (void)state;
    (void)snprintf(at.nodes[2].name, sizeof at.nodes[2].name,
                   "a-node-of-a-name-that-is-longer-than-anybody-would-want-it");
    at.placement.n_left_out = 2;
    at.placement.left_out[0].node = 0;
    at.placement.left_out[1].node = 2;
    (void)snprintf(at.placement.left_out[0].reason, sizeof at.placement.left_out[0].reason,
                   "for its speed");
    (void)snprintf(at.placement.left_out[1].reason, sizeof at.placement.left_out[1].reason,
                   "for its name");
    expect_in_text(lines, sizeof lines / sizeof lines[0]);
}

static void report_names_a_link_that_is_slower_than_every_stage(void **state)
{
    static const char *const words[] = {"bottleneck  the link between ",
                                        ": 100000.0 ms per micro-batch each way"};

    (void)state;
    assert_int_equal(at.placement.n_stages, 2);
    at.placement.stages[0].edge_ms = 1e5;
    expect_in_text(words, sizeof words / sizeof words[0]);
}

static void report_says_whose_figures_do_not_hold(void **state)
{
    static const char *const stale[] = {"measured long ago", NULL, "measured long ago"};
    static const char *const measures =
        "note        measured long ago: slow, tiny; the operator will measure before it starts, "
        "and may plan otherwise\n";
    static const char *const takes = "slow, tiny; the operator takes it as it is";
    struct buf json = {.max = REPORT_MAX_BYTES};
    struct json *root = NULL;
    int n_stale = 0;

    (void)state;
    for (int i = 0; i < 3; i++)
        at.all[i].stale = stale[i];
    expect_in_text(&measures, 1);
    at.spec.placement.probe = SPEC_PROBE_NEVER;
    expect_in_text(&takes, 1);
    assert_int_equal(report_json(&at.report, &json, NULL), ERR_OK);
    assert_int_equal(json_parse(buf_text(&json), json.len, &root, NULL), ERR_OK);
    assert_int_equal(json_int(json_get(root, "staleCount"), 0), 2);
    assert_int_equal(json_count(json_get(root, "stale")), 2);
    for (const struct json *v = json_first(json_get(root, "stages")); v; v = json_next(v)) {
        bool is_slow = strcmp(json_string(json_get(v, "node"), ""), "slow") == 0;

        assert_string_equal(json_string(json_get(v, "stale"), ""), is_slow ? stale[0] : "");
        n_stale += is_slow;
    }
    assert_int_equal(n_stale, 1);
    json_free(root);
    buf_deinit(&json);
}

static void report_for_programs_says_the_same_in_json_and_yaml(void **state)
{
    struct buf json = {.max = REPORT_MAX_BYTES};
    struct buf back = {.max = REPORT_MAX_BYTES};
    struct json *first = NULL;
    struct json *second = NULL;
    char *yaml = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&yaml, &n);

    (void)state;
    assert_non_null(out);
    assert_int_equal(report_json(&at.report, &json, NULL), ERR_OK);
    assert_int_equal(report_yaml(&json, out, NULL), ERR_OK);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(yaml_to_json(yaml, n, 0, &back, NULL), ERR_OK);
    assert_int_equal(json_parse(buf_text(&json), json.len, &first, NULL), ERR_OK);
    assert_int_equal(json_parse(buf_text(&back), back.len, &second, NULL), ERR_OK);
    assert_true(json_equal(first, second));
    assert_int_equal(json_count(json_get(first, "stages")), at.placement.n_stages);
    assert_true(json_double(json_get(first, "gap"), -1) >= 0);
    assert_string_equal(json_string(json_path(first, "oneMore.like"), ""), "fast");
    assert_int_equal(json_int(json_get(first, "excludedCount"), 0), 3);
    assert_int_equal(json_int(json_get(first, "microBatches"), 0), 8);
    assert_false(json_bool(json_get(first, "microBatchesChosen"), true));
    assert_true(json_double(json_path(first, "lengths.mean"), 0) == 39);
    assert_true(json_bool(json_path(first, "lengths.guessed"), false));
    json_free(first);
    json_free(second);
    buf_deinit(&json);
    buf_deinit(&back);
    free(yaml);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(report_tells_people_all_there_is_to_know, solve),
        cmocka_unit_test_setup(report_says_when_the_planner_chose_the_micro_batches, solve),
        cmocka_unit_test_setup(report_has_no_empty_list_of_excluded_nodes, solve),
        cmocka_unit_test_setup(report_lists_excluded_nodes_in_columns, solve),
        cmocka_unit_test_setup(report_names_a_link_that_is_slower_than_every_stage, solve),
        cmocka_unit_test_setup(report_says_whose_figures_do_not_hold, solve),
        cmocka_unit_test_setup(report_for_programs_says_the_same_in_json_and_yaml, solve),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
