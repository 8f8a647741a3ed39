#include "api/spec.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/fields.h"

#define WITH(rest)      "{\"data\": {\"source\": {\"sample\": \"MNLI\"}}, " rest "}"
#define MANUAL(list)    WITH("\"placement\": {\"strategy\": \"Manual\", \"manual\": " list "}")
#define STAGES(list)    MANUAL("{\"replicas\": [{\"stages\": " list "}]}")
#define SMALLEST        "{\"data\": {\"source\": {\"sample\": \"MNLI\"}}}"
#define BUCKET(members) WITH("\"checkpoint\": {\"store\": {\"s3\": {" members "}}}")

static enum err_code parse(const char *text, struct spec *out, struct err *err)
{
    struct json *json = NULL;
    enum err_code rc = json_parse(text, strlen(text), &json, err);

    if (rc == ERR_OK)
        rc = spec_parse(json, out, err);
    json_free(json);
    return rc;
}

/* --- every field of the table, each a test of its own --- */

/* A document in which only the field is set, and the data source, which must be there. */
static void document_with(const struct field *f, const char *value, char out[static 2048])
{
    char tail[64] = "";
    const char *at = f->key;
    bool is_source = strncmp(f->key, "data.source.", 12) == 0;

    if (is_source) {
        (void)snprintf(out, 2048, "{");
    } else if (strncmp(f->key, "data.", 5) == 0) {
        (void)snprintf(out, 2048, "{\"data\": {\"source\": {\"sample\": \"MNLI\"}, ");
        (void)snprintf(tail, sizeof tail, "}");
        at += 5;
    } else {
        (void)snprintf(out, 2048, "{\"data\": {\"source\": {\"sample\": \"MNLI\"}}, ");
    }
    for (const char *dot = strchr(at, '.'); dot; dot = strchr(at, '.')) {
        (void)snprintf(out + strlen(out), 2048 - strlen(out), "\"%.*s\": {", (int)(dot - at), at);
        (void)snprintf(tail + strlen(tail), sizeof tail - strlen(tail), "}");
        at = dot + 1;
    }
    (void)snprintf(out + strlen(out), 2048 - strlen(out), "\"%s\": %s%s}", at, value, tail);
}

/* Does the parser take this value as far as the field itself goes? Rules that span fields (such as
 * batchSize % microBatches) speak of other things and are tested below. */
static bool takes(const struct field *f, const char *value)
{
    char text[2048];
    char name[128];
    struct spec spec;
    struct err err = {0};

    document_with(f, value, text);
    (void)snprintf(name, sizeof name, "spec.%s", f->key);
    if (parse(text, &spec, &err) == ERR_OK)
        return true;
    assert_int_equal(err.code, ERR_INVALID);
    if (strncmp(err.text, name, strlen(name)) != 0 || !strchr(":[", err.text[strlen(name)]))
        return true;
    return strstr(err.text, "not a multiple") || strstr(err.text, "is above spec.") ||
           strstr(err.text, "must be above 0") || strstr(err.text, " needs spec.") ||
           strstr(err.text, "has its own columns") || strstr(err.text, ": belongs to ") ||
           strstr(err.text, ": must be given") || strstr(err.text, "path after a domain");
}

static bool takes_number(const struct field *f, double d)
{
    char value[64];

    if (f->kind == FIELD_DECIMAL)
        (void)snprintf(value, sizeof value, "\"%.17g\"", d);
    else
        (void)snprintf(value, sizeof value, "%.0f", d);
    return takes(f, value);
}

static void check_number(const struct field *f)
{
    double step = f->kind == FIELD_DECIMAL ? 1e-3 : 1;

    assert_true(takes_number(f, f->min));
    assert_true(takes_number(f, f->max));
    assert_false(takes_number(f, f->min - step));
    assert_false(takes_number(f, f->max + step));
    assert_false(takes(f, "1e300"));
    assert_false(takes(f, f->kind == FIELD_DECIMAL ? "0.5" : "\"1\""));
    if (f->kind != FIELD_DECIMAL) {
        assert_false(takes(f, "1.5"));
        return;
    }
    assert_false(takes(f, "\"nan\""));
    assert_false(takes(f, "\"inf\""));
    assert_false(takes(f, "\"0x1\""));
    assert_false(takes(f, "\"\""));
    assert_false(takes(f, "\"1 \""));
    assert_false(takes(f, "\"1e\""));
}

static void check_words(const struct field *f)
{
    char value[64];

    for (int i = 0; f->words[i]; i++) {
        (void)snprintf(value, sizeof value, "\"%s\"", f->words[i]);
        assert_true(takes(f, value));
        (void)snprintf(value, sizeof value, "\"%sX\"", f->words[i]);
        assert_false(takes(f, value));
    }
    assert_false(takes(f, "\"\""));
    assert_int_equal(takes(f, "1"), f->kind == FIELD_INT);
}

static void check_text(const struct field *f)
{
    char value[700];
    int n = (int)f->max;

    (void)snprintf(value, sizeof value, "\"%0*d\"", n, 7);
    assert_true(takes(f, value));
    (void)snprintf(value, sizeof value, "\"%0*d\"", n + 1, 7);
    assert_false(takes(f, value));
    assert_int_equal(takes(f, "\"\""), f->min == 0);
    assert_true(f->bytes > (size_t)n);
    assert_false(takes(f, "1"));
}

static void check_list(const struct field *f)
{
    char value[40 * TASK_LABELS_MAX] = "[\"0\"";

    assert_true(takes(f, "[\"no\", \"yes\"]"));
    assert_false(takes(f, "[\"no\", \"no\"]"));
    assert_false(takes(f, "[\"no\"]"));
    assert_false(takes(f, "[\"no\", \"\"]"));
    assert_false(takes(f, "[\"no\", 1]"));
    for (int i = 1; i < TASK_LABELS_MAX; i++)
        (void)snprintf(value + strlen(value), sizeof value - strlen(value), ", \"%d\"", i);
    (void)snprintf(value + strlen(value), sizeof value - strlen(value), "]");
    assert_true(takes(f, value));
    (void)snprintf(value + strlen(value) - 1, 16, ", \"more\"]");
    assert_false(takes(f, value));
}

static void check_field(void **state)
{
    const struct field *f = *state;

    if (f->kind == FIELD_HASH) { /* an object or a list */
        assert_true(takes(f, "null") && takes(f, "{}") != takes(f, "[]"));
        assert_false(takes(f, "true"));
        return;
    }
    if (f->kind == FIELD_TEXT)
        check_text(f);
    else if (f->fields && f->fields[0].kind == FIELD_TEXT && f->fields[0].key[0] == '\0')
        check_list(f);
    else if (f->words)
        check_words(f);
    else if (f->kind != FIELD_LIST && f->kind != FIELD_OBJECT &&
             f->kind != FIELD_BOOL) /* all rules are in `refused` */
        check_number(f);
    assert_true(takes(f, "null")); /* as if it were not there */
    assert_false(takes(f, "[]"));
    assert_int_equal(takes(f, "{}"), f->kind == FIELD_OBJECT);
    assert_int_equal(takes(f, "true"), f->kind == FIELD_BOOL);
}

/* --- defaults and rules that span fields --- */

static void spec_fills_in_every_default(void **state)
{
    struct spec s;

    (void)state;
    assert_int_equal(parse(SMALLEST, &s, NULL), ERR_OK);
    assert_string_equal(s.preset, "");
    assert_int_equal(s.model.hidden, 256);
    assert_string_equal(s.data.task, "MNLI");
    assert_int_equal(s.data.source, SPEC_SOURCE_SAMPLE);
    assert_int_equal(s.training.epochs, 3);
    assert_int_equal(s.training.steps, 0);
    assert_false(s.training.evaluates_only);
    assert_int_equal(s.training.batch_size, 32);
    assert_int_equal(s.training.micro_batches, 0); /* the planner chooses */
    assert_int_equal(s.training.max_length, 128);
    assert_int_equal(s.training.seed, 42);
    assert_true(s.training.dropout == 0.1);
    assert_true(s.training.warmup_ratio == 0.1);
    assert_int_equal(s.training.schedule, SPEC_SCHEDULE_LINEAR);
    assert_true(s.training.max_grad_norm == 1.0);
    assert_int_equal(s.training.evaluate_every, 0);
    assert_int_equal(s.letters, SPEC_CASE_ABSENT);
    assert_int_equal(s.model.head, MODEL_HEAD_CLASSIFIER);
    assert_int_equal(s.model.labels, 3);
    assert_true(s.data.mask_probability == 0.15);
    assert_int_equal(s.training.non_finite, SPEC_NON_FINITE_FAIL);
    assert_int_equal(s.training.precision, SPEC_PRECISION_FP32);
    assert_int_equal(s.training.activations, SPEC_ACTIVATIONS_KEEP);
    assert_int_equal(s.training.optimizer, SPEC_OPTIMIZER_ADAMW);
    assert_true(s.training.momentum == 0.9);
    assert_true(s.training.beta1 == 0.9);
    assert_true(s.training.beta2 == 0.999);
    assert_true(s.training.epsilon == 1e-8);
    assert_true(s.training.learning_rate == 2e-5);
    assert_true(s.training.weight_decay == 0.01);
    assert_int_equal(s.placement.strategy, SPEC_STRATEGY_OPTIMAL);
    assert_int_equal(s.placement.min_stages, 1);
    assert_int_equal(s.placement.max_stages, 8);
    assert_int_equal(s.replicas, 1);
    assert_string_equal(s.worker.image, "");
    assert_string_equal(s.worker.pull_policy, "IfNotPresent");
    assert_string_equal(s.output.claim, "");
    assert_true(s.checkpoint.is_on && s.checkpoint.is_peers);
    assert_int_equal(s.checkpoint.mode, SPEC_SAVING_AUTO);
    assert_int_equal(s.checkpoint.every_steps, 0);
    assert_int_equal(s.checkpoint.every_seconds, 300);
    assert_int_equal(s.checkpoint.keep, 2);
    assert_false(s.training.keeps_best);
    assert_int_equal(s.training.patience, 0);
    assert_int_equal(s.max_restarts, 3);
    assert_int_equal(s.start_deadline_s, 0);
    assert_int_equal(s.active_deadline_s, 0);
    assert_int_equal(s.ttl_s, -1);
    assert_false(s.suspends);
    assert_string_equal(s.managed_by, "");
}

static void spec_writes_checkpoints_to_a_store(void **state)
{
    static const char store[] =
        WITH("\"checkpoint\": {\"everySteps\": 50, \"store\": "
             "{\"persistentVolumeClaim\": {\"claimName\": \"a\", \"path\": \"b/c\"}}}");
    struct spec s, never;

    (void)state;
    assert_int_equal(parse(store, &s, NULL), ERR_OK);
    assert_true(s.checkpoint.is_on);
    assert_string_equal(s.checkpoint.volume.claim, "a");
    assert_string_equal(s.checkpoint.volume.path, "b/c");
    assert_int_equal(s.checkpoint.every_steps, 50);
    assert_int_equal(parse(WITH("\"checkpoint\": {\"everySeconds\": 10}"), &s, NULL), ERR_OK);
    assert_true(s.checkpoint.is_on && s.checkpoint.is_peers);
    assert_int_equal(s.checkpoint.every_seconds, 10);
    assert_int_equal(parse(WITH("\"checkpoint\": {\"store\": {\"peers\": {}}}"), &s, NULL), ERR_OK);
    assert_true(s.checkpoint.is_on && s.checkpoint.is_peers);
    assert_int_equal(
        parse(BUCKET("\"bucket\": \"abc\", \"credentialsSecret\": \"keys\""), &s, NULL), ERR_OK);
    assert_true(s.checkpoint.is_on && !s.checkpoint.is_peers);
    assert_int_equal(parse(WITH("\"checkpoint\": {\"mode\": \"Never\"}"), &never, NULL), ERR_OK);
    assert_false(never.checkpoint.is_on || never.checkpoint.is_peers);
    assert_string_equal(s.checkpoint.s3.bucket, "abc");
    assert_string_equal(s.checkpoint.s3.secret, "keys");
    assert_string_equal(s.checkpoint.s3.region, "");
}

#define COMPARES(task, rest)                                                                       \
    "{\"data\": {\"task\": \"" task "\", \"source\": {\"configMap\": {\"name\": \"a\"}}}, "        \
    "\"training\": {\"evaluateEverySteps\": 5, " rest "}}"

static void spec_compares_evaluations_by_the_metric_that_is_named(void **state)
{
    static const struct {
        const char *text;
        enum task_metric by;
        bool keeps;
        int patience;
    } rows[] = {
        {COMPARES("QQP", "\"keepBest\": \"f1\""), TASK_F1, true, 0},
        {COMPARES("QQP", "\"earlyStopping\": {\"patience\": 3}"), TASK_ACCURACY, false, 3},
        {COMPARES("CoLA", "\"earlyStopping\": {\"patience\": 1}"), TASK_MATTHEWS, false, 1},
        {COMPARES("STSB", "\"earlyStopping\": {\"patience\": 1, \"metric\": \"evalLoss\"}"),
         TASK_EVAL_LOSS, false, 1},
        {COMPARES("MRPC", "\"keepBest\": \"f1\", \"earlyStopping\": {\"patience\": 2}"), TASK_F1,
         true, 2},
        {COMPARES("Pretraining", "\"keepBest\": \"nextSentenceAccuracy\""), TASK_NEXT_SENTENCE,
         true, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct spec s;
        struct err err = {.text = ""};

        if (parse(rows[i].text, &s, &err) != ERR_OK)
            fail_msg("%s", err.text);
        assert_int_equal(s.training.best_by, rows[i].by);
        assert_int_equal(s.training.keeps_best, rows[i].keeps);
        assert_int_equal(s.training.patience, rows[i].patience);
        assert_int_equal(s.checkpoint.mode, /* the best weights are read into the copy */
                         rows[i].keeps ? SPEC_SAVING_BACKGROUND : SPEC_SAVING_AUTO);
    }
}

static void spec_keeps_the_best_weights_with_an_output_and_checkpoints(void **state)
{
    struct spec s = {.training = {.keeps_best = true}};
    struct err err = {.text = ""};

    (void)state;
    assert_int_equal(spec_check_best(&s, false, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "spec.training.keepBest: needs spec.output"));
    assert_int_equal(spec_check_best(&s, true, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "spec.training.keepBest: needs spec.checkpoint.store"));
    s.checkpoint.is_on = true;
    assert_int_equal(spec_check_best(&s, true, &err), ERR_OK);
    s.checkpoint.is_peers = true;
    assert_int_equal(spec_check_best(&s, true, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "spec.checkpoint.store.persistentVolumeClaim or s3"));
    s.checkpoint.is_peers = false;
    s.checkpoint.mode = SPEC_SAVING_BLOCKING;
    assert_int_equal(spec_check_best(&s, true, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "needs spec.checkpoint.mode Auto or Background"));
    s = (struct spec){.training = {.patience = 1}};
    assert_int_equal(spec_check_best(&s, false, &err), ERR_OK);
}

static void spec_with_zero_steps_only_evaluates(void **state)
{
    const char *files[SPEC_FILES_MAX];
    struct spec s;

    (void)state;
    assert_int_equal(
        parse("{\"data\":{\"source\":{\"sample\":\"MNLI\"}},\"training\":{\"steps\":0}}", &s, NULL),
        ERR_OK);
    assert_true(s.training.evaluates_only);
    assert_false(s.checkpoint.is_on); /* there is nothing to keep */
    assert_int_equal(spec_data_files(&s, files), 1);
    assert_string_equal(files[0], SPEC_VOCAB_FILE);
}

static void spec_reads_the_constants_of_its_optimizer(void **state)
{
    static const char adamw[] =
        WITH("\"training\": {\"optimizer\": {\"beta1\": \"0.8\", \"beta2\": \"0.95\", "
             "\"epsilon\": \"1e-6\"}}");
    static const char sgd[] =
        WITH("\"training\": {\"optimizer\": {\"type\": \"SGD\", \"momentum\": \"0.5\"}}");
    struct spec s;

    (void)state;
    assert_int_equal(parse(adamw, &s, NULL), ERR_OK);
    assert_true(s.training.beta1 == 0.8 && s.training.beta2 == 0.95 && s.training.epsilon == 1e-6);
    assert_int_equal(parse(sgd, &s, NULL), ERR_OK);
    assert_true(s.training.momentum == 0.5);
}

static void spec_stages_count_layers_or_units(void **state)
{
    struct spec s;
    struct spec other;

    (void)state;
    assert_int_equal(parse(STAGES("[{\"layers\": 1, \"node\": \"a\"}, {\"layers\": 3}]"), &s, NULL),
                     ERR_OK);
    assert_int_equal(s.placement.strategy, SPEC_STRATEGY_MANUAL);
    assert_string_equal(s.placement.stages.list[0].node, "a");
    assert_string_equal(s.placement.stages.list[1].node, "");
    assert_int_equal(spec_stage_units(&s, 0), 3);
    assert_int_equal(spec_stage_units(&s, 1), 8);
    assert_true(spec_same_workers(&s, &s));
    assert_int_equal(
        parse(STAGES("[{\"units\": 3, \"node\": \"a\"}, {\"units\": 8}]"), &other, NULL), ERR_OK);
    assert_int_equal(spec_stage_units(&other, 0), 3);
    assert_int_equal(spec_stage_units(&other, 1), 8);
    assert_false(spec_same_workers(&s, &other));
}

static bool is_below(const struct field *f, const char *object)
{
    return strncmp(f->key, object, strlen(object)) == 0 && f->key[strlen(object)] == '.';
}

/* Every field is immutable, takes effect at once, or needs new workers: no other kind. */
static void spec_tells_which_changes_need_new_workers(void **state)
{
    struct spec s;

    (void)state;
    assert_int_equal(parse(SMALLEST, &s, NULL), ERR_OK);
    for (const struct field *f = spec_fields; f->kind != FIELD_END; f++) {
        bool is_immutable = is_below(f, "model") || is_below(f, "data") ||
                            is_below(f, "training") || is_below(f, "wire") ||
                            is_below(f, "resumeFrom") || strcmp(f->key, "managedBy") == 0;
        bool is_immediate =
            is_below(f, "failurePolicy") || strcmp(f->key, "placement.rebalance") == 0 ||
            strcmp(f->key, "activeDeadlineSeconds") == 0 ||
            strcmp(f->key, "ttlSecondsAfterFinished") == 0 || strcmp(f->key, "suspend") == 0;
        struct spec other = s;

        if (strcmp(f->key, "placement.manual.replicas") == 0)
            other.placement.stages.n++;
        else
            ((char *)&other)[f->offset] ^= 1;
        assert_int_equal(spec_same_workers(&s, &other), is_immutable || is_immediate);
    }
}

static void spec_strategies_have_names(void **state)
{
    (void)state;
    assert_string_equal(spec_strategy_names[SPEC_STRATEGY_MANUAL], "Manual");
    assert_null(spec_strategy_names[SPEC_STRATEGY_MANUAL + 1]);
}

static void spec_own_sizes_override_the_preset(void **state)
{
    struct spec s;

    (void)state;
    assert_int_equal(parse("{\"model\": {\"preset\": \"BertTiny\", \"hiddenSize\": 64}, "
                           "\"data\": {\"source\": {\"sample\": \"MNLI\"}}}",
                           &s, NULL),
                     ERR_OK);
    assert_int_equal(s.model.hidden, 64);
    assert_int_equal(s.model.ffn, 256);
    assert_int_equal(s.model.layers, 2);
}

static void spec_task_decides_about_the_head(void **state)
{
    static const char claim[] =
        "{\"data\": {\"task\": \"%s\", \"source\": {\"configMap\": {\"name\": \"a\"}}%s}}";
    static const char own[] = ", \"columns\": {\"text\": \"a\", \"label\": \"b\"}";
    static const char labels[] = ", \"columns\": {\"text\": \"a\", \"label\": \"b\"}, "
                                 "\"labels\": [\"x\", \"y\", \"z\", \"w\"]";
    static const struct {
        const char *task, *rest;
        enum model_head head;
        int labels;
    } want[] = {
        {"QQP", "", MODEL_HEAD_CLASSIFIER, 2},
        {"STSB", "", MODEL_HEAD_REGRESSION, 1},
        {"MaskedLM", "", MODEL_HEAD_MASKED_LM, 0},
        {"Pretraining", "", MODEL_HEAD_PRETRAINING, 0},
        {"Regression", own, MODEL_HEAD_REGRESSION, 1},
        {"Classification", labels, MODEL_HEAD_CLASSIFIER, 4},
    };

    (void)state;
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        char text[512];
        struct spec s;

        (void)snprintf(text, sizeof text, claim, want[i].task, want[i].rest);
        assert_int_equal(parse(text, &s, NULL), ERR_OK);
        assert_int_equal(s.model.head, want[i].head);
        assert_int_equal(s.model.labels, want[i].labels);
    }
}

struct refused {
    const char *name;
    const char *text;
    const char *says;
};

#define TASK(name, rest)                                                                           \
    "{\"data\": {\"task\": \"" name "\", \"source\": {\"sample\": \"MNLI\"}" rest "}}"
#define DATA(rest) "{\"data\": {\"source\": {" rest "}}}"

static struct refused refused[] = {
    {"spec_must_be_an_object", "[]", "spec: must be an object, found"},
    {"spec_names_an_unknown_field", WITH("\"modell\": {}"), "spec.modell: there is no such field"},
    {"spec_names_an_unknown_field_deep_down",
     WITH("\"training\": {\"optimizer\": {\"beta\": \"1\"}}"),
     "spec.training.optimizer.beta: there is no such field"},
    {"spec_refuses_a_name_with_a_dot", WITH("\"training.epochs\": 5"),
     "spec.training.epochs: there is no such field"},
    {"spec_refuses_an_optimizer_that_is_not_there",
     WITH("\"training\": {\"optimizer\": {\"type\": \"LAMB\"}}"),
     "spec.training.optimizer.type: \"LAMB\" is not one of AdamW, SGD"},
    {"spec_sample_belongs_to_its_task", TASK("QNLI", ""),
     "spec.data.source.sample: MNLI needs spec.data.task to be MNLI, not QNLI"},
    {"spec_classification_needs_labels",
     TASK("Classification", ", \"columns\": {\"text\": \"a\", \"label\": \"b\"}"),
     "spec.data.task: Classification needs spec.data.labels"},
    {"spec_regression_needs_columns", TASK("Regression", ""),
     "spec.data.task: Regression needs spec.data.columns.text and spec.data.columns.label"},
    {"spec_regression_has_no_labels",
     TASK("Regression", ", \"labels\": [\"a\", \"b\"], "
                        "\"columns\": {\"text\": \"a\", \"label\": \"b\"}"),
     "spec.data.labels: Regression has numbers for labels"},
    {"spec_glue_tasks_know_their_columns", TASK("MNLI", ", \"columns\": {\"text\": \"a\"}"),
     "spec.data.task: MNLI has its own columns and labels"},
    {"spec_text_has_no_columns", TASK("MaskedLM", ", \"columns\": {\"text\": \"a\"}"),
     "spec.data.task: MaskedLM has its own columns and labels"},
    {"spec_file_names_stay_in_the_folder", TASK("MNLI", ", \"files\": {\"dev\": \"../a\"}"),
     "spec.data.files.dev: must be the name of a file in the data folder"},
    {"spec_file_names_are_not_the_folder", TASK("MNLI", ", \"files\": {\"dev\": \".\"}"),
     "spec.data.files.dev: must be the name of a file in the data folder"},
    {"spec_file_names_have_no_control_characters",
     TASK("MNLI", ", \"files\": {\"test\": \"a\\nb\"}"),
     "spec.data.files.test: must not hold control characters"},
    {"spec_model_path_stays_in_the_volume",
     WITH("\"model\": {\"from\": {\"persistentVolumeClaim\": {\"claimName\": \"a\", "
          "\"path\": \"..\"}}}"),
     "spec.model.from.persistentVolumeClaim.path: must be a relative path"},
    {"spec_replicas_are_at_most_eight", WITH("\"replicas\": 9"), "spec.replicas: 9 is not in 1..8"},
    {"spec_replicas_have_no_manual_cut",
     WITH("\"replicas\": 2, \"placement\": {\"strategy\": \"Manual\", \"manual\": {\"replicas\": "
          "[{\"stages\": [{\"layers\": 4}]}]}}"),
     "spec.replicas: must be 1 with spec.placement.strategy Manual"},
    {"spec_replicas_are_a_number_or_auto", WITH("\"replicas\": \"Many\""),
     "spec.replicas: must be a whole number in 1..8 or \"Auto\", found a string"},
    {"spec_replicas_need_a_sequence_each",
     WITH("\"replicas\": 4, \"training\": {\"batchSize\": 3}"),
     "spec.replicas: 4 is above spec.training.batchSize, 3"},
    {"spec_replicas_need_a_micro_batch_each",
     WITH("\"replicas\": 4, \"training\": {\"batchSize\": 8, \"microBatches\": 2}"),
     "spec.replicas: 4 is above spec.training.microBatches, 2"},
    {"spec_stragglers_needs_replicas", WITH("\"sync\": {\"stragglers\": \"Greedy\"}"),
     "spec.sync.stragglers: Greedy needs spec.replicas of 2 or more"},
    {"spec_stragglers_is_for_steps_in_step",
     WITH("\"replicas\": 2, \"sync\": {\"protocol\": \"ASP\", \"stragglers\": \"Elastic\"}"),
     "spec.sync.stragglers: Elastic needs spec.sync.protocol BSP, Switch or Auto, not ASP"},
    {"spec_staleness_needs_asp", WITH("\"replicas\": 2, \"sync\": {\"maxStaleness\": 3}"),
     "spec.sync.maxStaleness: belongs to spec.sync.protocol ASP and has no effect with BSP; leave "
     "it out"},
    {"spec_local_exchanges_no_gradients",
     WITH("\"replicas\": 2, \"sync\": {\"protocol\": \"Local\", \"gradientPercent\": 1}"),
     "spec.sync.gradientPercent: belongs to spec.sync.protocol BSP or ASP and has no effect with "
     "Local; leave it out"},
    {"spec_one_replica_exchanges_no_gradients", WITH("\"sync\": {\"gradientPercent\": 1}"),
     "spec.sync.gradientPercent: needs spec.replicas of 2 or more, or Auto: only replicas exchange "
     "gradients"},
    {"spec_most_gradients_travel_as_all",
     WITH("\"replicas\": 2, \"sync\": {\"gradientPercent\": 51}"),
     "spec.sync.gradientPercent: 51 is not in 1..50"},
    {"spec_managers_have_a_domain", WITH("\"managedBy\": \"queue\""),
     "spec.managedBy: must be a path after a domain, such as example.com/queue, found \"queue\""},
    {"spec_managers_have_a_path", WITH("\"managedBy\": \"example.com/\""),
     "spec.managedBy: must be a path after a domain"},
    {"spec_has_no_empty_columns_of_a_task_with_its_own",
     "{\"data\": {\"columns\": {}, \"source\": {\"sample\": \"MNLI\"}}}",
     "spec.data.task: MNLI has its own columns and labels"},
    {"spec_config_maps_have_a_name",
     "{\"data\": {\"source\": {\"sample\": \"MNLI\", \"configMap\": {}}}}",
     "spec.data.source.configMap.name: must be given"},
    {"spec_manual_has_replicas", WITH("\"placement\": {\"manual\": {}}"),
     "spec.placement.manual.replicas: must be given"},
    {"spec_manual_needs_stages_whatever_the_sizes",
     WITH("\"model\": {\"from\": {\"persistentVolumeClaim\": {\"claimName\": \"a\"}}}, "
          "\"placement\": {\"strategy\": \"Manual\"}"),
     "spec.placement.strategy: Manual needs spec.placement.manual"},
    {"spec_sequences_fit_positions_that_are_given",
     WITH("\"model\": {\"maxPositions\": 64, \"from\": {\"persistentVolumeClaim\": {\"claimName\": "
          "\"a\"}}}"),
     "spec.training.maxSequenceLength: 128 is above spec.model.maxPositions, 64"},
    {"spec_pods_keep_the_operators_labels",
     WITH("\"worker\": {\"labels\": {\"skyjob.dev/job\": \"x\"}}"),
     "spec.worker.labels: \"skyjob.dev/job\" is the operator's own"},
    {"spec_asp_needs_replicas", WITH("\"sync\": {\"protocol\": \"ASP\"}"),
     "spec.sync.protocol: ASP needs spec.replicas of 2 or more"},
    {"spec_switch_needs_a_step", WITH("\"replicas\": 2, \"sync\": {\"protocol\": \"Switch\"}"),
     "spec.sync.protocol: Switch needs spec.sync.switchAfterSteps or "
     "spec.sync.switchAfterPercent; found 0 of them"},
    {"spec_switch_has_one_step",
     WITH("\"replicas\": 2, \"sync\": {\"protocol\": \"Switch\", \"switchAfterSteps\": 5, "
          "\"switchAfterPercent\": 5}"),
     "spec.sync.protocol: Switch needs spec.sync.switchAfterSteps or "
     "spec.sync.switchAfterPercent; found 2 of them"},
    {"spec_local_steps_belong_to_local",
     WITH("\"replicas\": 2, \"sync\": {\"protocol\": \"Switch\", \"switchAfterSteps\": 5, "
          "\"localSteps\": 8}"),
     "spec.sync.localSteps: belongs to spec.sync.protocol Local and has no effect with Switch; "
     "leave it out"},
    {"spec_switches_to_a_protocol_that_waits_less",
     WITH("\"replicas\": 2, \"sync\": {\"protocol\": \"Switch\", \"switchAfterSteps\": 5, "
          "\"switchTo\": \"BSP\"}"),
     "spec.sync.switchTo: \"BSP\" is not one of ASP, Local"},
    {"spec_only_switch_has_a_step",
     WITH("\"replicas\": 2, \"sync\": {\"protocol\": \"ASP\", \"switchAfterSteps\": 5}"),
     "spec.sync.switchAfterSteps: belongs to spec.sync.protocol Switch and has no effect with ASP; "
     "leave it out"},
    {"spec_replicas_need_their_stages",
     WITH("\"replicas\": 8, \"placement\": {\"minStages\": 9, \"maxStages\": 9}"),
     "spec.replicas: 8 times spec.placement.minStages, 9, is above 64 stages"},
    {"spec_manual_needs_stages", WITH("\"placement\": {\"strategy\": \"Manual\"}"),
     "spec.placement.strategy: Manual needs spec.placement.manual"},
    {"spec_stages_need_manual",
     WITH("\"placement\": {\"manual\": {\"replicas\": [{\"stages\": [{\"layers\": 4}]}]}}"),
     "spec.placement.manual: is read with strategy Manual only"},
    {"spec_replicas_are_a_list", MANUAL("{\"replicas\": {}}"),
     "spec.placement.manual.replicas: must be a list of objects, found an object"},
    {"spec_has_one_replica_for_now",
     MANUAL("{\"replicas\": [{\"stages\": [{\"layers\": 4}]}, {\"stages\": [{\"layers\": 4}]}]}"),
     "spec.placement.manual.replicas: must have 1 entry, found 2; more than one replica is not "
     "supported yet"},
    {"spec_replicas_are_objects", MANUAL("{\"replicas\": [4]}"),
     "spec.placement.manual.replicas[0]: must be an object, found a number"},
    {"spec_replicas_have_no_other_fields", MANUAL("{\"replicas\": [{\"nodes\": []}]}"),
     "spec.placement.manual.replicas[0].nodes: there is no such field"},
    {"spec_replicas_have_stages", MANUAL("{\"replicas\": [{}]}"),
     "spec.placement.manual.replicas[0].stages: missing"},
    {"spec_stages_are_a_list", STAGES("{\"layers\": 4}"),
     "spec.placement.manual.replicas[0].stages: must be a list of objects, found an object"},
    {"spec_stages_are_not_empty", STAGES("[]"),
     "spec.placement.manual.replicas[0].stages: must have 1..64 entries"},
    {"spec_stages_are_objects", STAGES("[4]"),
     "spec.placement.manual.replicas[0].stages[0]: must be an object, found a number"},
    {"spec_stages_have_no_other_fields", STAGES("[{\"layer\": 4}]"),
     "spec.placement.manual.replicas[0].stages[0].layer: there is no such field"},
    {"spec_stages_nodes_are_names", STAGES("[{\"layers\": 4, \"node\": 7}]"),
     "spec.placement.manual.replicas[0].stages[0].node: must be a string of 1..253 bytes"},
    {"spec_stages_count_whole_layers", STAGES("[{\"layers\": 2}, {\"layers\": 1.5}]"),
     "spec.placement.manual.replicas[0].stages[1].layers: must be a whole number in 1..512"},
    {"spec_stages_count_from_one", STAGES("[{\"units\": 0}]"),
     "spec.placement.manual.replicas[0].stages[0].units: 0 is not in 1..1027"},
    {"spec_stages_say_how_many", STAGES("[{\"node\": \"a\"}]"),
     "spec.placement.manual.replicas[0].stages[0]: must have either layers or units"},
    {"spec_stages_say_it_once", STAGES("[{\"units\": 1, \"layers\": 1}]"),
     "spec.placement.manual.replicas[0].stages[0]: must have either layers or units"},
    {"spec_stages_count_all_alike", STAGES("[{\"units\": 1}, {\"layers\": 1}]"),
     "spec.placement.manual.replicas[0].stages[1]: counts layers, the entries before it units"},
    {"spec_stages_layers_add_up", STAGES("[{\"layers\": 2}, {\"layers\": 1}]"),
     "spec.placement.manual.replicas[0].stages: their layers add up to 3, the model has 4"},
    {"spec_stages_units_add_up", STAGES("[{\"units\": 7}, {\"units\": 5}]"),
     "spec.placement.manual.replicas[0].stages: their units add up to 12, the model has 11"},
    {"spec_stages_are_on_different_nodes",
     STAGES("[{\"layers\": 2, \"node\": \"a\"}, {\"layers\": 2, \"node\": \"a\"}]"),
     "spec.placement.manual.replicas[0].stages[1].node: \"a\" is given twice"},
    {"spec_objects_must_be_objects", WITH("\"training\": 3"),
     "spec.training: must be an object, found a number"},
    {"spec_batch_must_split_into_microbatches",
     WITH("\"training\": {\"batchSize\": 30, \"microBatches\": 8}"),
     "spec.training.batchSize: 30 is not a multiple of spec.training.microBatches, 8"},
    {"spec_max_length_must_fit_the_positions",
     WITH("\"model\": {\"maxPositions\": 64}, \"training\": {\"maxSequenceLength\": 65}"),
     "spec.training.maxSequenceLength: 65 is above spec.model.maxPositions, 64"},
    {"spec_hidden_size_must_split_into_heads", WITH("\"model\": {\"attentionHeads\": 3}"),
     "spec.model.hiddenSize: 256 is not a multiple of spec.model.attentionHeads, 3"},
    {"spec_momentum_belongs_to_sgd", WITH("\"training\": {\"optimizer\": {\"momentum\": \"0.9\"}}"),
     "spec.training.optimizer.momentum: belongs to SGD and has no effect with AdamW; leave it out"},
    {"spec_betas_belong_to_adamw",
     WITH("\"training\": {\"optimizer\": {\"type\": \"SGD\", \"beta2\": \"0.9\"}}"),
     "spec.training.optimizer.beta2: belongs to AdamW and has no effect with SGD; leave it out"},
    {"spec_epsilon_is_above_zero", WITH("\"training\": {\"optimizer\": {\"epsilon\": \"0\"}}"),
     "spec.training.optimizer.epsilon: 0 is not in 1e-30..1"},
    {"spec_has_either_steps_or_epochs", WITH("\"training\": {\"steps\": 5, \"epochs\": 1}"),
     "spec.training.steps: give either steps or spec.training.epochs, not both"},
    {"spec_has_no_micro_batches_of_zero", WITH("\"training\": {\"microBatches\": 0}"),
     "spec.training.microBatches: 0 is not in 1..1024"},
    {"spec_output_names_a_volume", WITH("\"output\": {}"),
     "spec.output: name exactly one of persistentVolumeClaim; found 0"},
    {"spec_checkpoint_store_names_a_volume", WITH("\"checkpoint\": {\"store\": {}}"),
     "spec.checkpoint.store: name exactly one of peers, persistentVolumeClaim, s3; found 0"},
    {"spec_resume_from_names_a_job",
     WITH("\"resumeFrom\": {}, \"checkpoint\": {\"store\": {\"persistentVolumeClaim\": "
          "{\"claimName\": \"a\"}}}"),
     "spec.resumeFrom.job: must be given"},
    {"spec_resume_from_is_no_path",
     WITH("\"resumeFrom\": {\"job\": \"../a\"}, \"checkpoint\": {\"store\": "
          "{\"persistentVolumeClaim\": {\"claimName\": \"a\"}}}"),
     "spec.resumeFrom.job: \"../a\" is not the name of a job"},
    {"spec_resume_from_needs_a_shared_store", WITH("\"resumeFrom\": {\"job\": \"a\"}"),
     "spec.resumeFrom: needs spec.checkpoint.store.persistentVolumeClaim or s3, where job a has"},
    {"spec_resume_from_is_refused_with_peers",
     WITH("\"resumeFrom\": {\"job\": \"a\"}, \"checkpoint\": {\"store\": {\"peers\": {}}}"),
     "those in the store peers end with their workers"},
    {"spec_checkpoint_store_names_one_kind_only",
     WITH("\"checkpoint\": {\"store\": {\"peers\": {}, "
          "\"persistentVolumeClaim\": {\"claimName\": \"a\"}}}"),
     "spec.checkpoint.store: name exactly one of peers, persistentVolumeClaim, s3; found 2"},
    {"spec_checkpoint_store_is_not_also_a_bucket",
     WITH("\"checkpoint\": {\"store\": {\"peers\": {}, \"s3\": {\"bucket\": \"abc\", "
          "\"credentialsSecret\": \"a\"}}}"),
     "spec.checkpoint.store: name exactly one of peers, persistentVolumeClaim, s3; found 2"},
    {"spec_checkpoint_bucket_is_given", BUCKET("\"credentialsSecret\": \"a\""),
     "spec.checkpoint.store.s3.bucket: must be given"},
    {"spec_checkpoint_bucket_is_a_name",
     BUCKET("\"bucket\": \"a/b\", \"credentialsSecret\": \"a\""),
     "spec.checkpoint.store.s3.bucket: must be the name of a bucket, found \"a/b\""},
    {"spec_checkpoint_bucket_needs_credentials", BUCKET("\"bucket\": \"abc\""),
     "spec.checkpoint.store.s3.credentialsSecret: must be given"},
    {"spec_checkpoint_endpoint_is_a_url",
     BUCKET("\"bucket\": \"abc\", \"credentialsSecret\": \"a\", \"endpoint\": \"host:9000\""),
     "spec.checkpoint.store.s3.endpoint: must be https://HOST or http://HOST, found "
     "\"host:9000\""},
    {"spec_checkpoint_endpoint_has_a_host",
     BUCKET("\"bucket\": \"abc\", \"credentialsSecret\": \"a\", \"endpoint\": \"https:///a\""),
     "spec.checkpoint.store.s3.endpoint: must be https://HOST"},
    {"spec_checkpoint_prefix_is_relative",
     BUCKET("\"bucket\": \"abc\", \"credentialsSecret\": \"a\", \"prefix\": \"/a\""),
     "spec.checkpoint.store.s3.prefix: must be a relative path"},
    {"spec_checkpoint_mode_is_known", WITH("\"checkpoint\": {\"mode\": \"Sometimes\"}"),
     "spec.checkpoint.mode: "},
    {"spec_checkpoint_mode_never_has_no_store",
     WITH("\"checkpoint\": {\"mode\": \"Never\", \"store\": {\"peers\": {}}}"),
     "spec.checkpoint.store: has no effect with spec.checkpoint.mode Never"},
    {"spec_checkpoint_peers_have_no_members",
     WITH("\"checkpoint\": {\"store\": {\"peers\": {\"copies\": 2}}}"),
     "spec.checkpoint.store.peers.copies: "},
    {"spec_checkpoint_path_stays_in_the_volume",
     WITH("\"checkpoint\": {\"store\": "
          "{\"persistentVolumeClaim\": {\"claimName\": \"a\", \"path\": \"..\"}}}"),
     "spec.checkpoint.store.persistentVolumeClaim.path: must be a relative path"},
    {"spec_checkpoints_are_counted_in_steps_or_in_seconds",
     WITH("\"checkpoint\": {\"everySteps\": 5, \"everySeconds\": 60}"),
     "spec.checkpoint.everySteps: give either everySteps or spec.checkpoint.everySeconds, not "
     "both"},
    {"spec_best_evaluation_needs_evaluations", WITH("\"training\": {\"keepBest\": \"accuracy\"}"),
     "spec.training.keepBest: needs spec.training.evaluateEverySteps, and steps to train"},
    {"spec_best_evaluation_needs_steps",
     COMPARES("MNLI", "\"steps\": 0, \"keepBest\": \"accuracy\""),
     "spec.training.keepBest: needs spec.training.evaluateEverySteps, and steps to train"},
    {"spec_early_stopping_needs_evaluations",
     WITH("\"training\": {\"earlyStopping\": {\"patience\": 2}}"),
     "spec.training.earlyStopping: needs spec.training.evaluateEverySteps, and steps to train"},
    {"spec_early_stopping_has_a_patience",
     COMPARES("MNLI", "\"earlyStopping\": {\"metric\": \"accuracy\"}"),
     "spec.training.earlyStopping.patience: must be given"},
    {"spec_patience_is_at_least_one", COMPARES("MNLI", "\"earlyStopping\": {\"patience\": 0}"),
     "spec.training.earlyStopping.patience: 0 is not in 1..100000"},
    {"spec_keeps_the_best_by_a_metric_of_the_task", COMPARES("MNLI", "\"keepBest\": \"f1\""),
     "spec.training.keepBest: f1 is no metric of MNLI, which has accuracy, evalLoss"},
    {"spec_stops_by_a_metric_of_the_task",
     COMPARES("STSB", "\"earlyStopping\": {\"patience\": 1, \"metric\": \"accuracy\"}"),
     "spec.training.earlyStopping.metric: accuracy is no metric of STSB, which has pearson, "
     "spearman, evalLoss"},
    {"spec_compares_by_one_metric",
     COMPARES("QQP", "\"keepBest\": \"f1\", "
                     "\"earlyStopping\": {\"patience\": 1, \"metric\": \"accuracy\"}"),
     "spec.training.earlyStopping.metric: must be that of spec.training.keepBest, f1, or be left "
     "out"},
    {"spec_keeps_the_best_by_a_known_metric", COMPARES("MNLI", "\"keepBest\": \"recall\""),
     "spec.training.keepBest: "},
    {"spec_model_from_names_a_volume", WITH("\"model\": {\"from\": {}}"),
     "spec.model.from: name exactly one of persistentVolumeClaim; found 0"},
    {"spec_volumes_name_their_claim",
     WITH("\"output\": {\"persistentVolumeClaim\": {\"path\": \"a\"}}"),
     "spec.output.persistentVolumeClaim.claimName: must be given"},
    {"spec_min_stages_must_not_be_above_max_stages",
     WITH("\"placement\": {\"minStages\": 3, \"maxStages\": 2}"),
     "spec.placement.minStages: 3 is above spec.placement.maxStages, 2"},
    {"spec_learning_rate_must_be_above_zero",
     WITH("\"training\": {\"optimizer\": {\"learningRate\": \"0\"}}"),
     "spec.training.optimizer.learningRate: must be above 0"},
    {"spec_prints_bounds_as_people_write_them", WITH("\"training\": {\"dropout\": \"0.91\"}"),
     "spec.training.dropout: 0.91 is not in 0..0.9"},
    {"spec_masks_more_than_nothing",
     "{\"data\": {\"source\": {\"sample\": \"MNLI\"}, \"maskProbability\": \"0\"}}",
     "spec.data.maskProbability: must be above 0"},
    {"spec_needs_a_data_source", "{}", "spec.data.source: name exactly one of"},
    {"spec_takes_one_data_source_only",
     DATA("\"sample\": \"MNLI\", \"configMap\": {\"name\": \"a\"}"),
     "spec.data.source: name exactly one of sample, configMap, persistentVolumeClaim; found 2"},
    {"spec_data_path_stays_in_the_volume",
     DATA("\"persistentVolumeClaim\": {\"claimName\": \"a\", \"path\": \"a/../../b\"}"),
     "spec.data.source.persistentVolumeClaim.path: must be a relative path"},
    {"spec_data_path_is_relative",
     DATA("\"persistentVolumeClaim\": {\"claimName\": \"a\", \"path\": \"/a\"}"),
     "spec.data.source.persistentVolumeClaim.path: must be a relative path"},
    {"spec_output_path_stays_in_the_volume",
     WITH("\"output\": {\"persistentVolumeClaim\": {\"claimName\": \"a\", \"path\": \"..\"}}"),
     "spec.output.persistentVolumeClaim.path: must be a relative path"},
};

static void check_refused(void **state)
{
    const struct refused *row = *state;
    struct spec before = {.max_restarts = 77};
    struct spec s = before;
    struct err err = {0};

    assert_int_equal(parse(row->text, &s, &err), ERR_INVALID);
    if (!strstr(err.text, row->says))
        fail_msg("said \"%s\"", err.text);
    assert_int_equal(s.max_restarts, 77);
}

static void spec_names_the_files_of_its_task(void **state)
{
    static const struct {
        const char *data, *train, *dev;
    } want[] = {
        {"", "train.tsv", NULL},
        {", \"task\": \"QQP\"", "train.tsv", NULL},
        {", \"task\": \"MaskedLM\"", "train.txt", NULL},
        {", \"task\": \"RTE\", \"files\": {\"dev\": \"b.jsonl\"}", "train.tsv", "b.jsonl"},
        {", \"task\": \"Pretraining\", \"files\": {\"train\": \"wiki\"}", "wiki", NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        const char *files[SPEC_FILES_MAX];
        char text[256];
        struct spec s;

        (void)snprintf(text, sizeof text,
                       "{\"data\": {\"source\": {\"configMap\": {\"name\": \"a\"}}%s}}",
                       want[i].data);
        assert_int_equal(parse(text, &s, NULL), ERR_OK);
        assert_int_equal(spec_data_files(&s, files), want[i].dev ? 3 : 2);
        assert_string_equal(files[0], want[i].train);
        assert_string_equal(files[1], want[i].dev ? want[i].dev : SPEC_VOCAB_FILE);
    }
}

#define FROM "\"from\": {\"persistentVolumeClaim\": {\"claimName\": \"a\"}}"

static void spec_leaves_its_sizes_to_the_model_it_starts_from(void **state)
{
    static const struct {
        const char *text;
        bool has_sizes;
        int vocab, ffn;
    } rows[] = {
        {WITH("\"model\": {" FROM "}"), false, 0, 0},
        {WITH("\"model\": {\"layers\": 4, \"hiddenSize\": 64, " FROM "}"), false, 0, 0},
        {WITH("\"model\": {\"vocabSize\": 99, " FROM "}"), false, 99, 0},
        /* What needs the sizes is not checked yet. */
        {WITH("\"model\": {" FROM "}, \"training\": {\"maxSequenceLength\": 1024}"), false, 0, 0},
        {WITH("\"model\": {\"preset\": \"BertTiny\", " FROM "}"), true, 30522, 512},
        {WITH("\"model\": {\"layers\": 4, \"hiddenSize\": 64, \"attentionHeads\": 4, " FROM "}"),
         true, 30522, 256},
        {SMALLEST, true, 30522, 1024},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct spec s;

        assert_int_equal(parse(rows[i].text, &s, NULL), ERR_OK);
        assert_int_equal(spec_has_sizes(&s), rows[i].has_sizes);
        assert_int_equal(s.model.vocab, rows[i].vocab);
        assert_int_equal(s.model.ffn, rows[i].ffn);
    }
}

static void spec_path_with_dots_in_names_is_fine(void **state)
{
    struct spec s;

    (void)state;
    assert_int_equal(
        parse(DATA("\"persistentVolumeClaim\": {\"claimName\": \"a\", \"path\": \"a/..b/c..\"}"),
              &s, NULL),
        ERR_OK);
    assert_string_equal(s.data.volume.path, "a/..b/c..");
    assert_int_equal(s.data.source, SPEC_SOURCE_CLAIM);
}

static void spec_names_follow_rfc_1123(void **state)
{
    (void)state;
    assert_true(spec_is_name("mnli-1", 40));
    assert_true(spec_is_name("0", 1));
    assert_false(spec_is_name("", 40));
    assert_false(spec_is_name("-a", 40));
    assert_false(spec_is_name("a-", 40));
    assert_false(spec_is_name("A", 40));
    assert_false(spec_is_name("a.b", 40));
    assert_false(spec_is_name("a/b", 40));
    assert_false(spec_is_name("abc", 2));
}

#define N_REFUSED (sizeof refused / sizeof refused[0])

static void spec_leaves_the_number_of_replicas_to_the_planner(void **state)
{
    struct spec s;

    (void)state;
    assert_int_equal(parse(WITH("\"replicas\": \"Auto\""), &s, NULL), ERR_OK);
    assert_int_equal(s.replicas, 0);
    assert_int_equal(
        parse(WITH("\"replicas\": \"Auto\", \"sync\": {\"protocol\": \"ASP\"}"), &s, NULL), ERR_OK);
    assert_int_equal(parse(WITH("\"replicas\": 3"), &s, NULL), ERR_OK);
    assert_int_equal(s.replicas, 3);
}

/* What the planner has chosen: nothing but BSP, or another one after a quarter of the steps. */
static void spec_auto_is_what_was_chosen(void **state)
{
    struct spec s;

    (void)state;
    assert_int_equal(
        parse(WITH("\"replicas\": 2, \"sync\": {\"protocol\": \"Auto\", \"localSteps\": 8, "
                   "\"maxStaleness\": 3, \"stragglers\": \"Elastic\"}"),
              &s, NULL),
        ERR_OK);
    assert_false(spec_is_asynchronous(&s));
    assert_int_equal(spec_switch_step(&s, 1000), 1000);
    s.sync.chosen = SPEC_PROTOCOL_LOCAL;
    assert_int_equal(spec_later_protocol(&s), SPEC_PROTOCOL_LOCAL);
    assert_int_equal(spec_switch_step(&s, 1000), 250);
    assert_true(spec_is_asynchronous(&s));
}

/* For those there must be room. */
static void spec_greedy_and_auto_may_be_asynchronous_for_a_while(void **state)
{
    struct spec s;

    (void)state;
    assert_int_equal(
        parse(WITH("\"replicas\": 2, \"sync\": {\"stragglers\": \"Greedy\"}"), &s, NULL), ERR_OK);
    assert_true(spec_is_asynchronous(&s));
    assert_int_equal(spec_switch_step(&s, 1000), 1000);
    assert_int_equal(
        parse(WITH("\"replicas\": 2, \"sync\": {\"stragglers\": \"Auto\", \"maxStaleness\": 3}"),
              &s, NULL),
        ERR_OK);
    assert_true(spec_is_asynchronous(&s));
    assert_int_equal(
        parse(WITH("\"replicas\": 2, \"sync\": {\"stragglers\": \"Elastic\"}"), &s, NULL), ERR_OK);
    assert_false(spec_is_asynchronous(&s));
}

static void spec_switches_after_a_number_or_a_part_of_the_steps(void **state)
{
    static const struct {
        const char *sync;
        int64_t step; /* of 1000 */
    } table[] = {{"{}", 1000},
                 {"{\"protocol\": \"ASP\"}", 0},
                 {"{\"protocol\": \"Local\", \"localSteps\": 8}", 0},
                 {"{\"protocol\": \"Switch\", \"switchAfterSteps\": 30}", 30},
                 {"{\"protocol\": \"Switch\", \"switchAfterSteps\": 3000}", 1000},
                 {"{\"protocol\": \"Switch\", \"switchAfterPercent\": 25}", 250}};

    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char text[512];
        struct spec s;

        (void)snprintf(text, sizeof text, WITH("\"replicas\": 2, \"sync\": %s"), table[i].sync);
        assert_int_equal(parse(text, &s, NULL), ERR_OK);
        assert_int_equal(spec_switch_step(&s, 1000), table[i].step);
        assert_int_equal(spec_is_asynchronous(&s), i > 0);
    }
}

int main(void)
{
    static const struct CMUnitTest fixed[] = {
        cmocka_unit_test(spec_fills_in_every_default),
        cmocka_unit_test(spec_with_zero_steps_only_evaluates),
        cmocka_unit_test(spec_writes_checkpoints_to_a_store),
        cmocka_unit_test(spec_compares_evaluations_by_the_metric_that_is_named),
        cmocka_unit_test(spec_keeps_the_best_weights_with_an_output_and_checkpoints),
        cmocka_unit_test(spec_task_decides_about_the_head),
        cmocka_unit_test(spec_reads_the_constants_of_its_optimizer),
        cmocka_unit_test(spec_stages_count_layers_or_units),
        cmocka_unit_test(spec_tells_which_changes_need_new_workers),
        cmocka_unit_test(spec_strategies_have_names),
        cmocka_unit_test(spec_own_sizes_override_the_preset),
        cmocka_unit_test(spec_names_the_files_of_its_task),
        cmocka_unit_test(spec_leaves_its_sizes_to_the_model_it_starts_from),
        cmocka_unit_test(spec_path_with_dots_in_names_is_fine),
        cmocka_unit_test(spec_names_follow_rfc_1123),
        cmocka_unit_test(spec_leaves_the_number_of_replicas_to_the_planner),
        cmocka_unit_test(spec_switches_after_a_number_or_a_part_of_the_steps),
        cmocka_unit_test(spec_greedy_and_auto_may_be_asynchronous_for_a_while),
        cmocka_unit_test(spec_auto_is_what_was_chosen),
    };
    enum { N_FIXED = sizeof fixed / sizeof fixed[0] };
    enum { FIELDS_MAX = 128 };
    static struct CMUnitTest tests[N_FIXED + N_REFUSED + FIELDS_MAX];
    static struct field rows[FIELDS_MAX];
    static char names[FIELDS_MAX][96];
    size_t n = N_FIXED;
    int n_rows = 0;

    while (spec_fields[n_rows].kind != FIELD_END)
        n_rows++;
    if (n_rows > FIELDS_MAX) {
        (void)fprintf(stderr, "FIELDS_MAX is below the %d fields of the table\n", n_rows);
        return 1;
    }
    memcpy(tests, fixed, sizeof fixed);
    for (size_t i = 0; i < N_REFUSED; i++)
        tests[n++] = (struct CMUnitTest){refused[i].name, check_refused, NULL, NULL, &refused[i]};
    for (int i = 0; i < n_rows; i++) {
        rows[i] = spec_fields[i];
        (void)snprintf(names[i], sizeof names[0], "spec_bounds_%s", rows[i].key);
        tests[n++] = (struct CMUnitTest){names[i], check_field, NULL, NULL, &rows[i]};
    }
    return _cmocka_run_group_tests("spec", tests, n, NULL, NULL);
}
