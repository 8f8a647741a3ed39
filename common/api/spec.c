#include "api/spec.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/stages.h"
#include "base/text.h"

#define BETA_MAX    0.999999 /* at 1 a moment would never move */
#define EPSILON_MIN 1e-30    /* a float, and not 0: moments may be */

#define AT(member) offsetof(struct spec, member), sizeof(((struct spec *)0)->member)

static const char *const preset_words[] = {"BertTiny", "BertMini",  "BertSmall", "BertMedium",
                                           "BertBase", "BertLarge", NULL};
static const char *const sample_words[] = {"MNLI", NULL};
static const char *const strategy_words[] = {"Optimal", "Even", "Dynamic", "Manual", NULL};
static const char *const probe_words[] = {"IfUnknown", "Always", "Never", NULL};
static const char *const schedule_words[] = {"Linear", "Constant", NULL};
static const char *const case_words[] = {"Uncased", "Cased", NULL};
static const char *const optimizer_words[] = {"AdamW", "SGD", NULL};
static const char *const non_finite_words[] = {"Fail", "Skip", NULL};
static const char *const precision_words[] = {"FP32", "BF16", "Auto", NULL};
static const char *const activations_words[] = {"Keep", "Recompute", NULL};
static const char *const wire_words[] = {"FP32", "BF16", NULL};
static const char *const pull_words[] = {"Always", "IfNotPresent", "Never", NULL};

/* A field without a default keeps what spec_parse() starts with or the preset gave, or stays empty.
 * The schema has the same defaults. */
static const struct spec_field fields[] = {
    {"model.preset", SPEC_WORD, AT(preset), 0, 0, NULL, preset_words},
    {"model.vocabSize", SPEC_INT, AT(model.vocab), 5, 1000000, NULL, NULL},
    {"model.hiddenSize", SPEC_INT, AT(model.hidden), 1, 16384, NULL, NULL},
    {"model.layers", SPEC_INT, AT(model.layers), 1, MODEL_LAYERS_MAX, NULL, NULL},
    {"model.attentionHeads", SPEC_INT, AT(model.heads), 1, 256, NULL, NULL},
    {"model.feedForwardSize", SPEC_INT, AT(model.ffn), 1, 65536, NULL, NULL},
    {"model.maxPositions", SPEC_INT, AT(model.positions), 8, 8192, NULL, NULL},
    {"model.case", SPEC_ENUM, AT(letters), 0, 0, NULL, case_words},
    {"model.from.persistentVolumeClaim.claimName", SPEC_TEXT, AT(from.claim), 1, 253, NULL, NULL},
    {"model.from.persistentVolumeClaim.path", SPEC_TEXT, AT(from.path), 0, 256, NULL, NULL},
    {"data.task", SPEC_WORD, AT(data.task), 0, 0, "MNLI", task_names},
    {"data.files.train", SPEC_TEXT, AT(data.files.train), 1, 253, NULL, NULL},
    {"data.files.dev", SPEC_TEXT, AT(data.files.dev), 1, 253, NULL, NULL},
    {"data.files.test", SPEC_TEXT, AT(data.files.test), 1, 253, NULL, NULL},
    {"data.columns.text", SPEC_TEXT, AT(data.columns.text), 1, 64, NULL, NULL},
    {"data.columns.pair", SPEC_TEXT, AT(data.columns.pair), 1, 64, NULL, NULL},
    {"data.columns.label", SPEC_TEXT, AT(data.columns.label), 1, 64, NULL, NULL},
    {"data.labels", SPEC_LIST, AT(data.labels), 2, TASK_LABELS_MAX, NULL, NULL},
    {"data.maskProbability", SPEC_DECIMAL, AT(data.mask_probability), 0, 0.9, "0.15", NULL},
    {"data.source.sample", SPEC_WORD, AT(data.sample), 0, 0, NULL, sample_words},
    {"data.source.configMap.name", SPEC_TEXT, AT(data.config_map), 1, 253, NULL, NULL},
    {"data.source.persistentVolumeClaim.claimName", SPEC_TEXT, AT(data.volume.claim), 1, 253, NULL,
     NULL},
    {"data.source.persistentVolumeClaim.path", SPEC_TEXT, AT(data.volume.path), 0, 256, NULL, NULL},
    {"training.epochs", SPEC_INT, AT(training.epochs), 1, 100000, NULL, NULL},
    {"training.steps", SPEC_INT, AT(training.steps), 0, 100000000, NULL, NULL},
    {"training.batchSize", SPEC_INT, AT(training.batch_size), 1, 65536, "32", NULL},
    {"training.microBatches", SPEC_INT, AT(training.micro_batches), 1, 1024, NULL, NULL},
    {"training.maxSequenceLength", SPEC_INT, AT(training.max_length), 8, 8192, "128", NULL},
    {"training.seed", SPEC_INT64, AT(training.seed), 0, 9007199254740991.0, "42", NULL},
    {"training.dropout", SPEC_DECIMAL, AT(training.dropout), 0, 0.9, "0.1", NULL},
    {"training.maxGradientNorm", SPEC_DECIMAL, AT(training.max_grad_norm), 0, 1e6, "1.0", NULL},
    {"training.evaluateEverySteps", SPEC_INT, AT(training.evaluate_every), 1, 100000000, NULL,
     NULL},
    {"training.nonFinitePolicy", SPEC_ENUM, AT(training.non_finite), 0, 0, "Fail",
     non_finite_words},
    {"training.precision", SPEC_ENUM, AT(training.precision), 0, 0, "FP32", precision_words},
    {"training.activations", SPEC_ENUM, AT(training.activations), 0, 0, "Keep", activations_words},
    {"training.optimizer.type", SPEC_ENUM, AT(training.optimizer), 0, 0, "AdamW", optimizer_words},
    {"training.optimizer.momentum", SPEC_DECIMAL, AT(training.momentum), 0, 1, NULL, NULL},
    {"training.optimizer.beta1", SPEC_DECIMAL, AT(training.beta1), 0, BETA_MAX, NULL, NULL},
    {"training.optimizer.beta2", SPEC_DECIMAL, AT(training.beta2), 0, BETA_MAX, NULL, NULL},
    {"training.optimizer.epsilon", SPEC_DECIMAL, AT(training.epsilon), EPSILON_MIN, 1, NULL, NULL},
    {"training.optimizer.learningRate", SPEC_DECIMAL, AT(training.learning_rate), 0, 10, "2e-5",
     NULL},
    {"training.optimizer.learningRateSchedule", SPEC_ENUM, AT(training.schedule), 0, 0, "Linear",
     schedule_words},
    {"training.optimizer.warmupRatio", SPEC_DECIMAL, AT(training.warmup_ratio), 0, 1, "0.1", NULL},
    {"training.optimizer.weightDecay", SPEC_DECIMAL, AT(training.weight_decay), 0, 1, "0.01", NULL},
    {"placement.strategy", SPEC_ENUM, AT(placement.strategy), 0, 0, "Optimal", strategy_words},
    {"placement.probePolicy", SPEC_ENUM, AT(placement.probe), 0, 0, "IfUnknown", probe_words},
    {"placement.minStages", SPEC_INT, AT(placement.min_stages), 1, SPEC_STAGES_MAX, "1", NULL},
    {"placement.maxStages", SPEC_INT, AT(placement.max_stages), 1, SPEC_STAGES_MAX, "8", NULL},
    {"placement.manual.replicas", SPEC_STAGES, AT(placement.stages), 1, 1, NULL, NULL},
    {"wire.precision", SPEC_ENUM, AT(wire), 0, 0, "FP32", wire_words},
    {"worker.image", SPEC_TEXT, AT(worker.image), 1, 512, NULL, NULL},
    {"worker.imagePullPolicy", SPEC_WORD, AT(worker.pull_policy), 0, 0, "IfNotPresent", pull_words},
    {"output.persistentVolumeClaim.claimName", SPEC_TEXT, AT(output.claim), 1, 253, NULL, NULL},
    {"output.persistentVolumeClaim.path", SPEC_TEXT, AT(output.path), 0, 256, NULL, NULL},
    {"failurePolicy.maxRestarts", SPEC_INT, AT(max_restarts), 0, 1000, "3", NULL},
    {"failurePolicy.progressDeadlineSeconds", SPEC_INT, AT(progress_deadline_s), 60, 604800, "1800",
     NULL},
    {NULL, SPEC_INT, 0, 0, 0, 0, NULL, NULL},
};

const struct spec_field *spec_fields(void)
{
    return fields;
}

bool spec_is_name(const char *s, size_t max)
{
    size_t n = strlen(s);

    if (n == 0 || n > max || s[0] == '-' || s[n - 1] == '-')
        return false;
    return strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == n;
}

static int word_index(const char *const *words, const char *s)
{
    for (int i = 0; words[i]; i++)
        if (strcmp(words[i], s) == 0)
            return i;
    return -1;
}

static enum err_code wrong_word(const struct spec_field *f, const char *s, struct err *err)
{
    char list[160] = "";

    for (int i = 0; f->words[i]; i++)
        text_add(list, sizeof list, "%s%s", i ? ", " : "", f->words[i]);
    return err_set(err, ERR_INVALID, "spec.%s: \"%.40s\" is not one of %s", f->path, s, list);
}

/* Digits, a point, an exponent: "2e-5". strtod() alone would also take "inf" and "0x1". */
static bool read_decimal(const char *s, double *out)
{
    char *end;

    if (*s == '\0' || strlen(s) > 24 || strspn(s, "0123456789.eE+-") != strlen(s))
        return false;
    *out = strtod(s, &end);
    return *end == '\0' && isfinite(*out);
}

static enum err_code set_number(const struct spec_field *f, double d, void *place, struct err *err)
{
    if (!(d >= f->min && d <= f->max))
        return err_set(err, ERR_INVALID, "spec.%s: %.16g is not in %.16g..%.16g", f->path, d,
                       f->min, f->max);
    if (f->kind == SPEC_INT)
        *(int *)place = (int)d;
    else if (f->kind == SPEC_INT64)
        *(int64_t *)place = (int64_t)d;
    else
        *(double *)place = d;
    return ERR_OK;
}

static enum err_code set_text(const struct spec_field *f, const char *s, void *place,
                              struct err *err)
{
    double d;
    int i;

    switch (f->kind) {
    case SPEC_INT:
    case SPEC_INT64:
    case SPEC_DECIMAL:
        if (!read_decimal(s, &d))
            return err_set(err, ERR_INVALID, "spec.%s: \"%.40s\" is not a decimal number", f->path,
                           s);
        return set_number(f, d, place, err);
    case SPEC_WORD:
    case SPEC_ENUM:
        i = word_index(f->words, s);
        if (i < 0)
            return wrong_word(f, s, err);
        if (f->kind == SPEC_ENUM) {
            memcpy(place, &i, sizeof i);
            return ERR_OK;
        }
        break;
    case SPEC_TEXT:
        if (strlen(s) > (size_t)f->max || strlen(s) < (size_t)f->min)
            return err_set(err, ERR_INVALID, "spec.%s: its length is not in %.0f..%.0f", f->path,
                           f->min, f->max);
        break;
    case SPEC_LIST:
    case SPEC_STAGES:
        break; /* has no default and is read by its own function */
    }
    (void)snprintf(place, f->bytes, "%s", s);
    return ERR_OK;
}

static enum err_code set_list(const struct spec_field *f, const struct json *v,
                              struct spec_labels *place, struct err *err)
{
    struct spec_labels list = {0};

    if (json_kind_of(v) != JSON_ARRAY)
        return err_set(err, ERR_INVALID, "spec.%s: must be a list of strings, found %s", f->path,
                       json_kind_name(json_kind_of(v)));
    for (const struct json *item = json_first(v); item; item = json_next(item)) {
        const char *s = json_string(item, "");

        if (*s == '\0' || strlen(s) >= TASK_LABEL_BYTES)
            return err_set(err, ERR_INVALID, "spec.%s: entry %d must be a string of 1..%d bytes",
                           f->path, list.n + 1, TASK_LABEL_BYTES - 1);
        if (list.n == (int)f->max)
            return err_set(err, ERR_INVALID, "spec.%s: more than %.0f entries", f->path, f->max);
        for (int i = 0; i < list.n; i++)
            if (strcmp(list.names[i], s) == 0)
                return err_set(err, ERR_INVALID, "spec.%s: \"%s\" is given twice", f->path, s);
        (void)snprintf(list.names[list.n++], TASK_LABEL_BYTES, "%s", s);
    }
    if (list.n < (int)f->min)
        return err_set(err, ERR_INVALID, "spec.%s: needs at least %.0f entries", f->path, f->min);
    *place = list;
    return ERR_OK;
}

static enum err_code set_field(const struct spec_field *f, const struct json *v, void *place,
                               struct err *err)
{
    bool is_integer = f->kind == SPEC_INT || f->kind == SPEC_INT64;
    enum json_kind want = is_integer ? JSON_NUMBER : JSON_STRING;

    if (f->kind == SPEC_LIST)
        return set_list(f, v, place, err);
    if (f->kind == SPEC_STAGES)
        return stages_read(v, place, err);
    if (json_kind_of(v) != want || (is_integer && !json_is_i64(v)))
        return err_set(err, ERR_INVALID, "spec.%s: must be %s, found %s", f->path,
                       is_integer ? "a whole number"
                       : f->kind == SPEC_DECIMAL
                           ? "a string that holds a decimal number, such as \"2e-5\""
                           : "a string",
                       json_kind_name(json_kind_of(v)));
    if (is_integer)
        return set_number(f, json_double(v, 0), place, err);
    return set_text(f, json_string(v, ""), place, err);
}

/* Is `path` a field, or an object that holds some? */
static bool is_known(const char *path, bool *out_is_leaf)
{
    size_t n = strlen(path);

    for (const struct spec_field *f = fields; f->path; f++) {
        if (strncmp(f->path, path, n) == 0 && (f->path[n] == '\0' || f->path[n] == '.')) {
            *out_is_leaf = f->path[n] == '\0';
            return true;
        }
    }
    return false;
}

static enum err_code check_known(const struct json *object, const char *prefix, struct err *err)
{
    for (const struct json *v = json_first(object); v; v = json_next(v)) {
        char path[160];
        bool is_leaf;
        enum err_code rc;

        (void)snprintf(path, sizeof path, "%s%s%.60s", prefix, *prefix ? "." : "", json_key(v));
        /* A dot inside a name would look like a path that is known and then not be found. */
        if (strchr(json_key(v), '.') || !is_known(path, &is_leaf))
            return err_set(err, ERR_INVALID, "spec.%s: there is no such field", path);
        if (is_leaf || json_kind_of(v) == JSON_NULL)
            continue;
        if (json_kind_of(v) != JSON_OBJECT)
            return err_set(err, ERR_INVALID, "spec.%s: must be an object, found %s", path,
                           json_kind_name(json_kind_of(v)));
        rc = check_known(v, path, err);
        if (rc != ERR_OK)
            return rc;
    }
    return ERR_OK;
}

/* A path must not leave its volume. */
static bool is_inside(const char *path)
{
    if (path[0] == '/')
        return false;
    for (const char *p = path; p; p = strchr(p, '/')) {
        p += *p == '/';
        if (strncmp(p, "..", 2) == 0 && (p[2] == '/' || p[2] == '\0'))
            return false;
    }
    return true;
}

/* The name of a file in the data folder, without a path. */
static enum err_code check_file(const char *path, const char *name, struct err *err)
{
    if (strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return err_set(err, ERR_INVALID,
                       "spec.%s: must be the name of a file in the data folder, without \"/\"",
                       path);
    for (const char *p = name; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return err_set(err, ERR_INVALID, "spec.%s: must not hold control characters", path);
    return ERR_OK;
}

static enum err_code check_own(const struct spec *s, struct err *err)
{
    bool has_columns = s->data.columns.text[0] || s->data.columns.pair[0] ||
                       s->data.columns.label[0] || s->data.labels.n > 0;
    const struct task *task = task_find(s->data.task);
    bool is_text = model_is_tied(&s->model);

    if (has_columns && (!task->is_own || is_text))
        return err_set(
            err, ERR_INVALID,
            "spec.data.task: %s knows its columns and labels; leave out "
            "spec.data.columns and spec.data.labels, or set Classification or Regression",
            s->data.task);
    if (!task->is_own || is_text)
        return ERR_OK;
    if (!s->data.columns.text[0] || !s->data.columns.label[0])
        return err_set(
            err, ERR_INVALID,
            "spec.data.task: %s needs spec.data.columns.text and spec.data.columns.label",
            s->data.task);
    if (s->model.head == MODEL_HEAD_CLASSIFIER && s->data.labels.n == 0)
        return err_set(err, ERR_INVALID, "spec.data.task: %s needs spec.data.labels", s->data.task);
    if (s->model.head == MODEL_HEAD_REGRESSION && s->data.labels.n > 0)
        return err_set(err, ERR_INVALID,
                       "spec.data.labels: Regression has numbers for labels; leave it out");
    return ERR_OK;
}

/* The task determines the model's head. */
static enum err_code check_task(struct spec *s, struct err *err)
{
    const struct task *task = task_find(s->data.task);
    enum err_code rc = check_file("data.files.train", s->data.files.train, err);

    s->model.head = task->head;
    s->model.labels = task->n_labels;
    if (task->head == MODEL_HEAD_REGRESSION)
        s->model.labels = 1;
    else if (task->n_labels == 0)
        s->model.labels = s->data.labels.n;
    if (rc == ERR_OK)
        rc = check_file("data.files.dev", s->data.files.dev, err);
    if (rc == ERR_OK)
        rc = check_file("data.files.test", s->data.files.test, err);
    if (rc == ERR_OK)
        rc = check_own(s, err);
    if (rc == ERR_OK && s->data.sample[0] && strcmp(s->data.sample, s->data.task) != 0)
        rc = err_set(err, ERR_INVALID,
                     "spec.data.source.sample: %s needs spec.data.task to be %s, not %s",
                     s->data.sample, s->data.sample, s->data.task);
    return rc;
}

static enum err_code check_source(struct spec *s, struct err *err)
{
    int n = (s->data.sample[0] != '\0') + (s->data.config_map[0] != '\0') +
            (s->data.volume.claim[0] != '\0');

    if (n != 1)
        return err_set(err, ERR_INVALID,
                       "spec.data.source: name exactly one of sample, configMap, "
                       "persistentVolumeClaim; found %d",
                       n);
    s->data.source = s->data.config_map[0]     ? SPEC_SOURCE_CONFIG_MAP
                     : s->data.volume.claim[0] ? SPEC_SOURCE_CLAIM
                                               : SPEC_SOURCE_SAMPLE;
    return ERR_OK;
}

static bool is_given(const struct json *spec, const char *path)
{
    const struct json *v = json_path(spec, path);

    return v && json_kind_of(v) != JSON_NULL;
}

/* The object at `path`, as far as it names a volume. */
static enum err_code check_volume(const struct json *spec, const char *path,
                                  const struct spec_volume *volume, struct err *err)
{
    char claim[96];

    (void)snprintf(claim, sizeof claim, "%s.persistentVolumeClaim", path);
    if (is_given(spec, claim) && !volume->claim[0])
        return err_set(err, ERR_INVALID, "spec.%s.claimName: must be given", claim);
    if (!is_inside(volume->path))
        return err_set(err, ERR_INVALID, "spec.%s.path: must be a relative path without \"..\"",
                       claim);
    return ERR_OK;
}

static enum err_code check_volumes(const struct json *spec, const struct spec *s, struct err *err)
{
    const struct {
        const char *path;
        const struct spec_volume *volume;
        bool is_only_kind; /* the object can hold nothing else */
    } rows[] = {{"model.from", &s->from, true},
                {"data.source", &s->data.volume, false},
                {"output", &s->output, true}};
    enum err_code rc = ERR_OK;

    for (size_t i = 0; rc == ERR_OK && i < sizeof rows / sizeof rows[0]; i++) {
        rc = check_volume(spec, rows[i].path, rows[i].volume, err);
        if (rc == ERR_OK && rows[i].is_only_kind && is_given(spec, rows[i].path) &&
            !rows[i].volume->claim[0])
            rc = err_set(err, ERR_INVALID,
                         "spec.%s: name exactly one of persistentVolumeClaim; found 0",
                         rows[i].path);
    }
    return rc;
}

/* Fields that would silently have no effect beside what else is given. */
static enum err_code check_given(const struct json *spec, const struct spec *s, struct err *err)
{
    static const struct {
        const char *path;
        enum spec_optimizer optimizer;
    } own[] = {{"training.optimizer.momentum", SPEC_OPTIMIZER_SGD},
               {"training.optimizer.beta1", SPEC_OPTIMIZER_ADAMW},
               {"training.optimizer.beta2", SPEC_OPTIMIZER_ADAMW},
               {"training.optimizer.epsilon", SPEC_OPTIMIZER_ADAMW}};
    enum err_code rc;

    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (is_given(spec, own[i].path) && s->training.optimizer != own[i].optimizer)
            return err_set(err, ERR_INVALID,
                           "spec.%s: belongs to %s and has no effect with %s; leave it out",
                           own[i].path, optimizer_words[own[i].optimizer],
                           optimizer_words[s->training.optimizer]);
    if (is_given(spec, "training.steps") && is_given(spec, "training.epochs"))
        return err_set(err, ERR_INVALID,
                       "spec.training.steps: give either steps or spec.training.epochs, not both");
    rc = check_volumes(spec, s, err);
    if (rc != ERR_OK)
        return rc;
    /* Absent sizes are refused, so that they can mean one day: those of the model's own files. */
    if (s->from.claim[0] && !is_given(spec, "model.preset") &&
        !(is_given(spec, "model.hiddenSize") && is_given(spec, "model.layers") &&
          is_given(spec, "model.attentionHeads")))
        return err_set(err, ERR_INVALID,
                       "spec.model: needs the sizes of the model in spec.model.from: give preset, "
                       "or hiddenSize, layers and attentionHeads");
    return ERR_OK;
}

static enum err_code check_spec(struct spec *s, struct err *err)
{
    enum err_code rc = check_task(s, err);

    if (rc == ERR_OK)
        rc = model_check(&s->model, err);
    if (rc != ERR_OK)
        return rc;
    if (s->training.micro_batches > 0 && s->training.batch_size % s->training.micro_batches != 0)
        return err_set(err, ERR_INVALID,
                       "spec.training.batchSize: %d is not a multiple of "
                       "spec.training.microBatches, %d",
                       s->training.batch_size, s->training.micro_batches);
    if (s->training.max_length > s->model.positions)
        return err_set(err, ERR_INVALID,
                       "spec.training.maxSequenceLength: %d is above spec.model.maxPositions, %d",
                       s->training.max_length, s->model.positions);
    if (s->placement.min_stages > s->placement.max_stages)
        return err_set(err, ERR_INVALID,
                       "spec.placement.minStages: %d is above spec.placement.maxStages, %d",
                       s->placement.min_stages, s->placement.max_stages);
    if (s->training.learning_rate <= 0)
        return err_set(err, ERR_INVALID, "spec.training.optimizer.learningRate: must be above 0");
    if (s->data.mask_probability <= 0)
        return err_set(err, ERR_INVALID,
                       "spec.data.maskProbability: must be above 0, or there is nothing to learn");
    rc = stages_check(s, err);
    return rc == ERR_OK ? check_source(s, err) : rc;
}

enum err_code spec_parse(const struct json *json, struct spec *out, struct err *err)
{
    /* Defaults that the schema cannot have, since they hold only where something else is absent. */
    struct spec s = {
        .letters = SPEC_CASE_ABSENT,
        .training = {.epochs = 3, .momentum = 0.9, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8}};
    enum err_code rc;
    const char *preset = json_string(json_path(json, "model.preset"), "BertMini");

    if (json_kind_of(json) != JSON_OBJECT)
        return err_set(err, ERR_INVALID, "spec: must be an object, found %s",
                       json_kind_name(json_kind_of(json)));
    rc = check_known(json, "", err);
    if (rc == ERR_OK && model_preset(preset, &s.model, err) != ERR_OK) {
        rc = ERR_INVALID;
        if (err)
            err->code = rc;
    }
    for (const struct spec_field *f = fields; f->path && rc == ERR_OK; f++) {
        const struct json *v = json_path(json, f->path);
        void *place = (char *)&s + f->offset;

        if (v && json_kind_of(v) != JSON_NULL)
            rc = set_field(f, v, place, err);
        else if (f->fallback)
            rc = set_text(f, f->fallback, place, err);
    }
    /* F is 4 C in the published sizes, and by default for any other hidden size. */
    if (rc == ERR_OK && json_path(json, "model.hiddenSize") &&
        !json_path(json, "model.feedForwardSize"))
        s.model.ffn = 4 * s.model.hidden;
    s.training.evaluates_only =
        json_is_i64(json_path(json, "training.steps")) && s.training.steps == 0;
    if (rc == ERR_OK)
        rc = check_given(json, &s, err);
    if (rc == ERR_OK)
        rc = check_spec(&s, err);
    if (rc == ERR_OK)
        *out = s;
    return rc;
}

const char *spec_train_file(const struct spec *s)
{
    if (s->training.evaluates_only)
        return NULL;
    if (s->data.files.train[0])
        return s->data.files.train;
    return model_is_tied(&s->model) ? "train.txt" : "train.tsv"; /* language models read text */
}

const char *spec_dev_file(const struct spec *s)
{
    return s->data.files.dev[0] ? s->data.files.dev : NULL;
}

const char *spec_strategy_name(enum spec_strategy strategy)
{
    return strategy <= SPEC_STRATEGY_MANUAL ? strategy_words[strategy] : NULL;
}

bool spec_strategy_find(const char *name, enum spec_strategy *out)
{
    int i = word_index(strategy_words, name);

    if (i < 0)
        return false;
    *out = (enum spec_strategy)i;
    return true;
}

int spec_least_stages(const struct spec *s)
{
    return s->placement.strategy == SPEC_STRATEGY_MANUAL ? s->placement.stages.n
                                                         : s->placement.min_stages;
}

/* The CRD keeps model, data, training and wire as they are; failurePolicy is read when it counts.
 */
static bool needs_new_attempt(const struct spec_field *f)
{
    return strncmp(f->path, "placement.", 10) == 0 || strncmp(f->path, "worker.", 7) == 0 ||
           strncmp(f->path, "output.", 7) == 0;
}

bool spec_same_attempt(const struct spec *a, const struct spec *b)
{
    for (const struct spec_field *f = fields; f->path; f++) {
        const char *x = (const char *)a + f->offset;
        const char *y = (const char *)b + f->offset;

        if (needs_new_attempt(f) && f->kind != SPEC_STAGES && memcmp(x, y, f->bytes) != 0)
            return false;
    }
    return stages_equal(&a->placement.stages, &b->placement.stages);
}
