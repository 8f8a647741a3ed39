#include "cli/view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/status.h"
#include "balance/partition.h"
#include "base/yaml.h"

static struct {
    struct local local;
    struct node nodes[3];
    struct whatif whatif;
    struct cluster cluster;
    const struct survey_node *entries[3];
    struct node_object objects[5];
    struct survey_node all[5];
    struct view view;
} at;

static int solve(void **state)
{
    memset(&at, 0, sizeof at);
    (void)state;
    at.local.job.spec.training.batch_size = 32;
    at.local.job.spec.training.micro_batches = 8;
    at.local.job.spec.training.max_length = 128;
    at.local.job.spec.placement.min_stages = 1;
    at.local.job.spec.placement.max_stages = 8;
    at.nodes[0] = (struct node){.name = "slow", .gflops = 25, .memory_bytes = (int64_t)4 << 30};
    at.nodes[1] = (struct node){.name = "fast", .gflops = 100, .memory_bytes = (int64_t)4 << 30};
    at.nodes[2] = (struct node){.name = "tiny", .gflops = 0.5, .memory_bytes = (int64_t)4 << 30};
    at.local.request = partition_request_of(&at.local.job.spec);
    at.local.request.nodes = at.nodes;
    at.local.request.n_nodes = 3;
    for (int i = 0; i < 5; i++) {
        (void)snprintf(at.objects[i].name, sizeof at.objects[i].name, "node-%d", i);
        at.all[i] = (struct survey_node){.object = &at.objects[i],
                                         .excluded = i < 3 ? EXCLUDED_NOT : EXCLUDED_CORDONED};
    }
    for (int i = 0; i < 3; i++)
        at.entries[i] = &at.all[i];
    at.cluster.survey =
        (struct survey){.n_nodes = 5, .nodes = at.all, .n_candidates = 3, .entries = at.entries};
    at.view = (struct view){.local = &at.local, .cluster = &at.cluster, .whatif = &at.whatif};
    if (model_preset("BertBase", &at.local.job.spec.model, NULL) != ERR_OK ||
        replicas_choose(&at.local.request, 1, &at.local.replicas, NULL) != ERR_OK ||
        whatif_solve(&at.local.request, &at.local.replicas.pipelines[0], &at.whatif, NULL) !=
            ERR_OK)
        return -1;
    at.local.placement = at.local.replicas.pipelines[0];
    replicas_to_plan(&at.local.request, &at.local.replicas, &at.local.plan);
    return 0;
}

static enum err_code write_json(struct buf *out)
{
    struct jsonw w;

    jsonw_init(&w, out);
    jsonw_open_object(&w, NULL);
    view_write(&at.view, &w);
    jsonw_close(&w);
    return jsonw_finish(&w, NULL);
}

/* For people. */
static void expect_in_text(const char *const *words, size_t n_words)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);

    assert_non_null(out);
    view_text(&at.view, out);
    assert_int_equal(fclose(out), 0);
    for (size_t i = 0; i < n_words; i++)
        if (!strstr(text, words[i]))
            fail_msg("\"%s\" is not in\n%s", words[i], text);
    free(text);
}

static void view_for_people_has_every_part(void **state)
{
    static const char *const words[] = {"STAGE  NODE",
                                        "####",
                                        "note        lengths are a guess: sequences are",
                                        "assumed to have 39 tokens, since the data",
                                        "step        ",
                                        "no plan of these nodes is faster",
                                        "batch       32 sequences in 8 micro-batches of 4, set by",
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

static void view_shows_when_the_planner_chose_the_micro_batches(void **state)
{
    static const char *const line =
        "\nbatch       32 sequences in 1 micro-batch of 32, chosen by the planner\n";
    struct buf json = {.max = VIEW_MAX_BYTES};
    struct json *root = NULL;

    (void)state;
    at.local.request.job.micro_batches = 0;
    at.local.placement.micro_batches = 1;
    expect_in_text(&line, 1);
    assert_int_equal(write_json(&json), ERR_OK);
    assert_int_equal(json_parse(buf_text(&json), json.len, &root, NULL), ERR_OK);
    assert_int_equal(json_int(json_get(root, "microBatches"), 0), 1);
    assert_true(json_bool(json_get(root, "microBatchesChosen"), false));
    json_free(root);
    buf_deinit(&json);
}

static void view_has_no_empty_list_of_excluded_nodes(void **state)
{
    struct buf json = {.max = VIEW_MAX_BYTES};

    (void)state;
    at.local.placement.n_excluded = 0;
    at.cluster.survey.n_nodes = 3;
    assert_int_equal(write_json(&json), ERR_OK);
    assert_non_null(strstr(buf_text(&json), "\"excludedNodeCount\":0"));
    assert_null(strstr(buf_text(&json), "\"excludedNodes\""));
    buf_deinit(&json);
}

static void view_lists_excluded_nodes_in_columns(void **state)
{
    static const char *const lines[] = {
        "\nexcluded    slow:                                     for its speed\n",
        "\n            a-node-of-a-name-th...body-would-want-it: for its name\n",
    };

    (void)state;
    (void)snprintf(at.nodes[2].name, sizeof at.nodes[2].name,
                   "a-node-of-a-name-that-is-longer-than-anybody-would-want-it");
    at.local.placement.n_excluded = 2;
    (void)strcpy(at.local.placement.excluded[0].node, at.nodes[0].name);
    (void)strcpy(at.local.placement.excluded[1].node, at.nodes[2].name);
    (void)snprintf(at.local.placement.excluded[0].reason,
                   sizeof at.local.placement.excluded[0].reason, "for its speed");
    (void)snprintf(at.local.placement.excluded[1].reason,
                   sizeof at.local.placement.excluded[1].reason, "for its name");
    expect_in_text(lines, sizeof lines / sizeof lines[0]);
}

static void view_names_a_link_that_is_slower_than_every_stage(void **state)
{
    static const char *const words[] = {"bottleneck  the link between ",
                                        ": 100000.0 ms per micro-batch each way"};

    (void)state;
    assert_int_equal(at.local.placement.n_stages, 2);
    at.local.placement.stages[0].edge_ms = 1e5;
    expect_in_text(words, sizeof words / sizeof words[0]);
}

static void view_lists_whose_figures_do_not_hold(void **state)
{
    static const char *const stale[] = {"measured long ago", NULL, "measured long ago"};
    static const char *const measures =
        "note        measured long ago: slow, tiny; the operator will measure before it starts, "
        "and may plan otherwise\n";
    static const char *const takes = "slow, tiny; used anyway";
    struct buf json = {.max = VIEW_MAX_BYTES};
    struct json *root = NULL;
    int n_stale = 0;

    (void)state;
    for (int i = 0; i < 3; i++)
        at.all[i].stale = stale[i];
    expect_in_text(&measures, 1);
    at.local.job.spec.placement.probe = SPEC_PROBE_NEVER;
    expect_in_text(&takes, 1);
    assert_int_equal(write_json(&json), ERR_OK);
    assert_int_equal(json_parse(buf_text(&json), json.len, &root, NULL), ERR_OK);
    assert_int_equal(json_int(json_get(root, "staleNodeCount"), 0), 2);
    assert_int_equal(json_count(json_get(root, "staleNodes")), 2);
    for (const struct json *v = json_first(json_get(root, "stages")); v; v = json_next(v)) {
        bool is_slow = strcmp(json_text(v, "node"), "slow") == 0;

        assert_string_equal(json_text(v, "stale"), is_slow ? stale[0] : "");
        n_stale += is_slow;
    }
    assert_int_equal(n_stale, 1);
    json_free(root);
    buf_deinit(&json);
}

static void view_for_programs_is_the_same_in_json_and_yaml(void **state)
{
    struct buf json = {.max = VIEW_MAX_BYTES};
    struct buf back = {.max = VIEW_MAX_BYTES};
    struct json *first = NULL;
    struct json *second = NULL;
    char *yaml = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&yaml, &n);

    (void)state;
    assert_non_null(out);
    assert_int_equal(write_json(&json), ERR_OK);
    assert_int_equal(view_yaml(&json, out, NULL), ERR_OK);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(yaml_to_json(yaml, n, 0, &back, NULL), ERR_OK);
    assert_int_equal(json_parse(buf_text(&json), json.len, &first, NULL), ERR_OK);
    assert_int_equal(json_parse(buf_text(&back), back.len, &second, NULL), ERR_OK);
    assert_true(json_equal(first, second));
    assert_int_equal(json_count(json_get(first, "stages")), at.local.placement.n_stages);
    assert_true(json_double(json_get(first, "gap"), -1) >= 0);
    assert_string_equal(json_text(first, "oneMore.like"), "fast");
    assert_int_equal(json_int(json_get(first, "excludedNodeCount"), 0), 3);
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

static const struct field *table_of(const char *key)
{
    for (const struct field *f = status_fields; f->key; f++)
        if (strcmp(f->key, key) == 0)
            return f->fields;
    return NULL;
}

static void view_for_programs_has_the_names_of_the_status(void **state)
{
    struct progress measured = {.n_stage_ms = 1, .stage_ms = {12.5}};
    struct buf json = {.max = VIEW_MAX_BYTES};
    struct json *root = NULL;
    const struct json *stage;

    (void)state;
    at.view.measured = &measured;
    assert_int_equal(write_json(&json), ERR_OK);
    assert_int_equal(json_parse(buf_text(&json), json.len, &root, NULL), ERR_OK);
    for (const struct field *f = table_of("placement"); f->key; f++)
        if (strcmp(f->key, "nodes") != 0 && strcmp(f->key, "image") != 0 && !json_get(root, f->key))
            fail_msg("no %s in %s", f->key, buf_text(&json));
    stage = json_first(json_get(root, "stages"));
    for (const struct field *f = table_of("stages"); f->key; f++)
        if (f->kind != FIELD_BOOL && f->kind != FIELD_OBJECT && strcmp(f->key, "stage") != 0 &&
            strncmp(f->key, "pod", 3) != 0 && strcmp(f->key, "state") != 0 &&
            !json_get(stage, f->key))
            fail_msg("no %s in %s", f->key, buf_text(&json));
    assert_int_equal(json_int(json_get(stage, "measuredMicroseconds"), 0), 12500);
    assert_null(strstr(buf_text(&json), "Ms\""));
    json_free(root);
    buf_deinit(&json);
}

/* The table for these names; free() it. */
static char *plan_of(const char *first, const char *second)
{
    static struct local l;
    struct spec *spec = &l.job.spec;
    struct node nodes[] = {{.cpu_milli = 500, .gflops = 20, .memory_bytes = (int64_t)4 << 30},
                           {.cpu_milli = 2000, .gflops = 80, .memory_bytes = (int64_t)4 << 30}};
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);

    spec->training.batch_size = 32;
    spec->training.micro_batches = 8;
    spec->training.max_length = 128;
    spec->placement.min_stages = spec->placement.max_stages = 2;
    l.request = partition_request_of(spec);
    l.request.nodes = nodes;
    l.request.n_nodes = 2;
    (void)snprintf(nodes[0].name, sizeof nodes[0].name, "%s", first);
    (void)snprintf(nodes[1].name, sizeof nodes[1].name, "%s", second);
    assert_int_equal(model_preset("BertMini", &spec->model, NULL), ERR_OK);
    assert_int_equal(replicas_choose(&l.request, 1, &l.replicas, NULL), ERR_OK);
    l.placement = l.replicas.pipelines[0];
    replicas_to_plan(&l.request, &l.replicas, &l.plan);
    view_stages(&l, out);
    (void)fclose(out);
    return text;
}

static void view_has_a_row_for_every_stage(void **state)
{
    char *text = plan_of("worker-0", "worker-1");

    (void)state;
    assert_non_null(strstr(text, "STAGE  NODE       CPU  GFLOP/S  UNITS"));
    assert_non_null(strstr(text, "PREDICTED"));
    assert_non_null(strstr(text, "worker-0   0.5     20.0"));
    assert_non_null(strstr(text, "worker-1     2     80.0"));
    assert_non_null(strstr(text, "########################\n")); /* the bottleneck's bar */
    free(text);
}

static void view_keeps_its_columns_whatever_nodes_are_called(void **state)
{
    static const char *const names[] = {"a", "worker-10-of-20",
                                        "gke-training-east1--of-the-pool-2-7f3c9d1b-xk2"};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *text = plan_of(names[i], "worker-1");
        const char *header = strstr(text, "UNITS");
        long column = header ? header - text : -1;
        int n_rows = 0;

        for (char *row = strchr(text, '\n'); row && row[1]; row = strchr(row + 1, '\n')) {
            assert_true((long)strcspn(row + 1, "\n") > column);
            assert_int_equal(row[column], ' ');
            assert_int_not_equal(row[1 + column], ' ');
            n_rows++;
        }
        assert_int_equal(n_rows, 2);
        free(text);
    }
}

/* The slow node and the fast one, a pipeline each. */
static void view_has_the_replicas_and_what_one_pipeline_would_take(void **state)
{
    static struct local l;
    const struct cluster none = {.unread = ""};
    const struct view view = {.local = &l, .cluster = &none};
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);

    (void)state;
    l.job.spec = at.local.job.spec;
    l.job.spec.replicas = 2;
    l.request = at.local.request;
    l.request.job.spec = &l.job.spec;
    l.request.n_nodes = 2;
    assert_int_equal(replicas_choose(&l.request, 2, &l.replicas, NULL), ERR_OK);
    l.placement = l.replicas.pipelines[0];
    replicas_to_plan(&l.request, &l.replicas, &l.plan);
    assert_non_null(out);
    view_text(&view, out);
    (void)fclose(out);
    assert_non_null(strstr(text, "STAGE  REPLICA  NODE"));
    assert_non_null(strstr(text, "\n0      0        fast"));
    assert_non_null(strstr(text, "\n1      1        slow"));
    assert_non_null(strstr(text, "shares      7 + 1 micro-batches\n"));
    assert_non_null(strstr(text, "\ninstead     one pipeline of "));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(view_for_people_has_every_part, solve),
        cmocka_unit_test_setup(view_shows_when_the_planner_chose_the_micro_batches, solve),
        cmocka_unit_test_setup(view_has_no_empty_list_of_excluded_nodes, solve),
        cmocka_unit_test_setup(view_lists_excluded_nodes_in_columns, solve),
        cmocka_unit_test_setup(view_names_a_link_that_is_slower_than_every_stage, solve),
        cmocka_unit_test_setup(view_lists_whose_figures_do_not_hold, solve),
        cmocka_unit_test_setup(view_for_programs_is_the_same_in_json_and_yaml, solve),
        cmocka_unit_test_setup(view_for_programs_has_the_names_of_the_status, solve),
        cmocka_unit_test_setup(view_has_the_replicas_and_what_one_pipeline_would_take, solve),
        cmocka_unit_test(view_has_a_row_for_every_stage),
        cmocka_unit_test(view_keeps_its_columns_whatever_nodes_are_called),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
