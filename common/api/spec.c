#include "api/spec.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "api/pods.h"
#include "base/buf.h"
#include "base/fields.h"

#define BETA_MAX    0.999999 /* at 1 a moment would never move */
#define EPSILON_MIN 1e-30    /* a float, and not 0: moments may be */

#define AT(member) FIELD_AT(struct spec, member)

static const char *const preset_words[] = {"BertTiny", "BertMini",  "BertSmall", "BertMedium",
                                           "BertBase", "BertLarge", NULL};
static const char *const sample_words[] = {"MNLI", NULL};
const char *const spec_strategy_names[] = {"Optimal", "Even", "Dynamic", "Manual", NULL};
static const char *const rebalance_words[] = {"Auto", "Suggest", "Off", NULL};
static const char *const probe_words[] = {"IfUnknown", "Always", "Never", NULL};
static const char *const schedule_words[] = {"Linear", "Constant", NULL};
static const char *const case_words[] = {"Uncased", "Cased", NULL};
static const char *const optimizer_words[] = {"AdamW", "SGD", NULL};
static const char *const non_finite_words[] = {"Fail", "Skip", NULL};
static const char *const precision_words[] = {"FP32", "BF16", "Auto", NULL};
static const char *const activations_words[] = {"Keep", "Recompute", NULL};
static const char *const saving_words[] = {"Auto", "Background", "Blocking", "Never", NULL};
static const char *const auto_words[] = {"Auto", NULL};
const char *const spec_stragglers_names[] = {"Wait", "Greedy", "Elastic", "Auto", NULL};
const char *const spec_protocol_names[] = {"BSP", "ASP", "Local", "Switch", "Auto", NULL};
static const char *const later_words[] = {"ASP", "Local", NULL};
static const char *const wire_words[] = {"FP32", "BF16", NULL};
static const char *const pull_words[] = {"Always", "IfNotPresent", "Never", NULL};

static const struct field label_fields[] = {
    {"", FIELD_TEXT, FIELD_ENTRY(char[TASK_LABEL_BYTES]), .min = 1, .flags = FIELD_UNIQUE}, {0}};

#define STAGE(member) FIELD_AT(struct spec_stage, member)
static const struct field stage_fields[] = {
    {"node", FIELD_TEXT, STAGE(node), .min = 1, .flags = FIELD_UNIQUE},
    {"layers", FIELD_INT, STAGE(layers), .min = 1, .max = MODEL_LAYERS_MAX},
    {"units", FIELD_INT, STAGE(units), .min = 1, .max = MODEL_UNITS_MAX},
    {0}};
static const struct field replica_fields[] = {{"stages", FIELD_LIST,
                                               FIELD_ITEMS(struct spec_stages, list, n), .min = 1,
                                               .fields = stage_fields, .flags = FIELD_REQUIRED},
                                              {0}};

/* Of an object that only has to be there. */
static const struct field no_fields[] = {{0}};

/* A field without a default keeps what spec_parse() starts with or the preset gave, or stays empty.
 * The schema has the same defaults. */
const struct field spec_fields[] = {
    {"model.preset", FIELD_WORD, AT(preset), .words = preset_words},
    {"model.vocabSize", FIELD_INT, AT(model.vocab), .min = 5, .max = 1000000},
    {"model.hiddenSize", FIELD_INT, AT(model.hidden), .min = 1, .max = 16384},
    {"model.layers", FIELD_INT, AT(model.layers), .min = 1, .max = MODEL_LAYERS_MAX},
    {"model.attentionHeads", FIELD_INT, AT(model.heads), .min = 1, .max = 256},
    {"model.feedForwardSize", FIELD_INT, AT(model.ffn), .min = 1, .max = 65536},
    {"model.maxPositions", FIELD_INT, AT(model.positions), .min = 8, .max = 8192},
    {"model.case", FIELD_ENUM, AT(letters), .words = case_words},
    {"model.from.persistentVolumeClaim.claimName", FIELD_TEXT, AT(from.claim), .min = 1,
     .max = 253},
    {"model.from.persistentVolumeClaim.path", FIELD_TEXT, AT(from.path), .max = 256},
    {"data.task", FIELD_WORD, AT(data.task), .fallback = "MNLI", .words = task_names},
    {"data.files.train", FIELD_TEXT, AT(data.files.train), .min = 1, .max = 253},
    {"data.files.dev", FIELD_TEXT, AT(data.files.dev), .min = 1, .max = 253},
    {"data.files.test", FIELD_TEXT, AT(data.files.test), .min = 1, .max = 253},
    {"data.columns.text", FIELD_TEXT, AT(data.columns.text), .min = 1, .max = 64},
    {"data.columns.pair", FIELD_TEXT, AT(data.columns.pair), .min = 1, .max = 64},
    {"data.columns.label", FIELD_TEXT, AT(data.columns.label), .min = 1, .max = 64},
    {"data.labels", FIELD_LIST, FIELD_ITEMS(struct spec, data.labels.names, data.labels.n),
     .min = 2, .max = TASK_LABELS_MAX, .fields = label_fields},
    {"data.maskProbability", FIELD_DECIMAL, AT(data.mask_probability), .max = 0.9,
     .fallback = "0.15"},
    {"data.source.sample", FIELD_WORD, AT(data.sample), .words = sample_words},
    {"data.source.configMap.name", FIELD_TEXT, AT(data.config_map), .min = 1, .max = 253},
    {"data.source.persistentVolumeClaim.claimName", FIELD_TEXT, AT(data.volume.claim), .min = 1,
     .max = 253},
    {"data.source.persistentVolumeClaim.path", FIELD_TEXT, AT(data.volume.path), .max = 256},
    {"training.epochs", FIELD_INT, AT(training.epochs), .min = 1, .max = 100000},
    {"training.steps", FIELD_INT, AT(training.steps), .max = 100000000},
    {"training.batchSize", FIELD_INT, AT(training.batch_size), .min = 1, .max = 65536,
     .fallback = "32"},
    {"training.microBatches", FIELD_INT, AT(training.micro_batches), .min = 1, .max = 1024},
    {"training.maxSequenceLength", FIELD_INT, AT(training.max_length), .min = 8, .max = 8192,
     .fallback = "128"},
    {"training.seed", FIELD_INT64, AT(training.seed), .max = 9007199254740991.0, .fallback = "42"},
    {"training.dropout", FIELD_DECIMAL, AT(training.dropout), .max = 0.9, .fallback = "0.1"},
    {"training.maxGradientNorm", FIELD_DECIMAL, AT(training.max_grad_norm), .max = 1e6,
     .fallback = "1.0"},
    {"training.evaluateEverySteps", FIELD_INT, AT(training.evaluate_every), .min = 1,
     .max = 100000000},
    {"training.keepBest", FIELD_ENUM, AT(training.keep_best), .words = task_metric_names},
    {"training.earlyStopping.patience", FIELD_INT, AT(training.patience), .min = 1, .max = 100000},
    {"training.earlyStopping.metric", FIELD_ENUM, AT(training.stop_by), .words = task_metric_names},
    {"training.nonFinitePolicy", FIELD_ENUM, AT(training.non_finite), .fallback = "Fail",
     .words = non_finite_words},
    {"training.precision", FIELD_ENUM, AT(training.precision), .fallback = "FP32",
     .words = precision_words},
    {"training.activations", FIELD_ENUM, AT(training.activations), .fallback = "Keep",
     .words = activations_words},
    {"training.optimizer.type", FIELD_ENUM, AT(training.optimizer), .fallback = "AdamW",
     .words = optimizer_words},
    {"training.optimizer.momentum", FIELD_DECIMAL, AT(training.momentum), .max = 1},
    {"training.optimizer.beta1", FIELD_DECIMAL, AT(training.beta1), .max = BETA_MAX},
    {"training.optimizer.beta2", FIELD_DECIMAL, AT(training.beta2), .max = BETA_MAX},
    {"training.optimizer.epsilon", FIELD_DECIMAL, AT(training.epsilon), .min = EPSILON_MIN,
     .max = 1},
    {"training.optimizer.learningRate", FIELD_DECIMAL, AT(training.learning_rate), .max = 10,
     .fallback = "2e-5"},
    {"training.optimizer.learningRateSchedule", FIELD_ENUM, AT(training.schedule),
     .fallback = "Linear", .words = schedule_words},
    {"training.optimizer.warmupRatio", FIELD_DECIMAL, AT(training.warmup_ratio), .max = 1,
     .fallback = "0.1"},
    {"training.optimizer.weightDecay", FIELD_DECIMAL, AT(training.weight_decay), .max = 1,
     .fallback = "0.01"},
    {"replicas", FIELD_INT, AT(replicas), .min = 1, .max = SPEC_REPLICAS_MAX, .fallback = "1",
     .words = auto_words},
    {"sync.protocol", FIELD_ENUM, AT(sync.protocol), .fallback = "BSP",
     .words = spec_protocol_names},
    {"sync.switchAfterSteps", FIELD_INT, AT(sync.switch_steps), .min = 1, .max = 100000000},
    {"sync.switchAfterPercent", FIELD_INT, AT(sync.switch_percent), .min = 1, .max = 99},
    {"sync.switchTo", FIELD_ENUM, AT(sync.switch_to), .words = later_words},
    {"sync.maxStaleness", FIELD_INT, AT(sync.max_staleness), .min = 1, .max = 100000},
    {"sync.localSteps", FIELD_INT, AT(sync.local_steps), .min = 1, .max = 100000},
    {"sync.outerRate", FIELD_DECIMAL, AT(sync.outer_rate), .max = 10},
    {"sync.outerMomentum", FIELD_DECIMAL, AT(sync.outer_momentum), .max = 0.99},
    {"sync.gradientPercent", FIELD_INT, AT(sync.gradient_percent), .min = 1,
     .max = SPEC_GRADIENT_PERCENT_MAX},
    {"sync.stragglers", FIELD_ENUM, AT(sync.stragglers), .fallback = "Wait",
     .words = spec_stragglers_names},
    {"placement.strategy", FIELD_ENUM, AT(placement.strategy), .fallback = "Optimal",
     .words = spec_strategy_names},
    {"placement.probePolicy", FIELD_ENUM, AT(placement.probe), .fallback = "IfUnknown",
     .words = probe_words},
    {"placement.rebalance", FIELD_ENUM, AT(placement.rebalance), .fallback = "Auto",
     .words = rebalance_words},
    {"placement.headroomPercent", FIELD_INT, AT(placement.headroom_percent),
     .max = SPEC_HEADROOM_PERCENT_MAX, .fallback = "0"},
    {"placement.minStages", FIELD_INT, AT(placement.min_stages), .min = 1, .max = SPEC_STAGES_MAX,
     .fallback = "1"},
    {"placement.maxStages", FIELD_INT, AT(placement.max_stages), .min = 1, .max = SPEC_STAGES_MAX,
     .fallback = "8"},
    {"placement.manual.replicas", FIELD_LIST, AT(placement.stages), .min = 1, .max = 1,
     .fields = replica_fields, .entry_bytes = sizeof(struct spec_stages),
     .count_offset = offsetof(struct spec, placement.n_replicas)},
    {"wire.precision", FIELD_ENUM, AT(wire), .fallback = "FP32", .words = wire_words},
    {"worker.image", FIELD_TEXT, AT(worker.image), .min = 1, .max = 512},
    {"worker.imagePullPolicy", FIELD_WORD, AT(worker.pull_policy), .fallback = "IfNotPresent",
     .words = pull_words},
    {"worker.priorityClassName", FIELD_TEXT, AT(worker.priority_class), .min = 1, .max = 253},
    {"worker.labels", FIELD_HASH, AT(worker.labels)},
    {"worker.annotations", FIELD_HASH, AT(worker.annotations)},
    {"worker.nodeSelector", FIELD_HASH, AT(worker.node_selector)},
    {"worker.tolerations", FIELD_HASH, AT(worker.tolerations)},
    {"worker.imagePullSecrets", FIELD_HASH, AT(worker.pull_secrets)},
    {"checkpoint.store.persistentVolumeClaim.claimName", FIELD_TEXT, AT(checkpoint.volume.claim),
     .min = 1, .max = 253},
    {"checkpoint.store.persistentVolumeClaim.path", FIELD_TEXT, AT(checkpoint.volume.path),
     .max = 256},
    {"checkpoint.store.s3.bucket", FIELD_TEXT, AT(checkpoint.s3.bucket), .min = 3, .max = 63},
    {"checkpoint.store.s3.prefix", FIELD_TEXT, AT(checkpoint.s3.prefix), .max = 256},
    {"checkpoint.store.s3.endpoint", FIELD_TEXT, AT(checkpoint.s3.endpoint), .min = 1, .max = 256},
    {"checkpoint.store.s3.region", FIELD_TEXT, AT(checkpoint.s3.region), .min = 1, .max = 63},
    {"checkpoint.store.s3.credentialsSecret", FIELD_TEXT, AT(checkpoint.s3.secret), .min = 1,
     .max = 253},
    {"checkpoint.store.peers", FIELD_OBJECT, AT(checkpoint.is_peers), .fields = no_fields},
    {"checkpoint.mode", FIELD_ENUM, AT(checkpoint.mode), .fallback = "Auto", .words = saving_words},
    {"checkpoint.everySteps", FIELD_INT, AT(checkpoint.every_steps), .min = 1, .max = 100000000},
    {"checkpoint.everySeconds", FIELD_INT, AT(checkpoint.every_seconds), .min = 10, .max = 86400},
    {"checkpoint.keep", FIELD_INT, AT(checkpoint.keep), .min = 1, .max = 100, .fallback = "2"},
    {"resumeFrom.job", FIELD_TEXT, AT(resume_from), .min = 1, .max = SPEC_RESUME_BYTES - 1},
    {"output.persistentVolumeClaim.claimName", FIELD_TEXT, AT(output.claim), .min = 1, .max = 253},
    {"output.persistentVolumeClaim.path", FIELD_TEXT, AT(output.path), .max = 256},
    {"failurePolicy.maxRestarts", FIELD_INT, AT(max_restarts), .max = 1000, .fallback = "3"},
    {"failurePolicy.progressDeadlineSeconds", FIELD_INT, AT(progress_deadline_s), .min = 60,
     .max = 604800, .fallback = "1800"},
    {"failurePolicy.startDeadlineSeconds", FIELD_INT, AT(start_deadline_s), .min = 1,
     .max = INT_MAX},
    {"activeDeadlineSeconds", FIELD_INT, AT(active_deadline_s), .min = 1, .max = INT_MAX},
    {"ttlSecondsAfterFinished", FIELD_INT, AT(ttl_s), .max = INT_MAX},
    {"suspend", FIELD_BOOL, AT(suspends)},
    {"managedBy", FIELD_TEXT, AT(managed_by), .min = 1, .max = SPEC_MANAGER_BYTES - 1},
    {0},
};

bool spec_is_name(const char *s, size_t max)
{
    size_t n = strlen(s);

    if (n == 0 || n > max || s[0] == '-' || s[n - 1] == '-')
        return false;
    return strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == n;
}

bool spec_is_domain(const char *s, size_t n)
{
    return n > 0 && !strchr("-.", s[0]) && !strchr("-.", s[n - 1]) &&
           strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-.") >= n;
}

static bool is_given(const struct json *spec, const char *path)
{
    const struct json *v = json_path(spec, path);

    return v && json_kind_of(v) != JSON_NULL;
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

static enum err_code check_own(const struct json *spec, const struct spec *s, struct err *err)
{
    bool has_columns = is_given(spec, "data.columns") || s->data.labels.n > 0;
    const struct task *task = task_find(s->data.task);
    bool is_text = model_is_tied(&s->model);

    if (has_columns && (!task->is_own || is_text))
        return err_set(
            err, ERR_INVALID,
            "spec.data.task: %s has its own columns and labels; leave out "
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
static enum err_code check_task(const struct json *spec, struct spec *s, struct err *err)
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
        rc = check_own(spec, s, err);
    if (rc == ERR_OK && s->data.sample[0] && strcmp(s->data.sample, s->data.task) != 0)
        rc = err_set(err, ERR_INVALID,
                     "spec.data.source.sample: %s needs spec.data.task to be %s, not %s",
                     s->data.sample, s->data.sample, s->data.task);
    return rc;
}

static enum err_code check_bucket(const struct spec_bucket *b, struct err *err)
{
    static const char *const schemes[] = {"https://", "http://"};
    const char *host = "";

    for (size_t i = 0; i < sizeof schemes / sizeof *schemes && !*host; i++)
        if (strncmp(b->endpoint, schemes[i], strlen(schemes[i])) == 0)
            host = b->endpoint + strlen(schemes[i]);
    if (strspn(b->bucket, "abcdefghijklmnopqrstuvwxyz0123456789.-") != strlen(b->bucket))
        return err_set(err, ERR_INVALID,
                       "spec.checkpoint.store.s3.bucket: must be the name of a bucket, found "
                       "\"%.63s\"",
                       b->bucket);
    if (b->endpoint[0] && (!*host || *host == '/'))
        return err_set(err, ERR_INVALID,
                       "spec.checkpoint.store.s3.endpoint: must be https://HOST or http://HOST, "
                       "found \"%.200s\"",
                       b->endpoint);
    if (!is_inside(b->prefix))
        return err_set(err, ERR_INVALID,
                       "spec.checkpoint.store.s3.prefix: must be a relative path without \"..\"");
    return ERR_OK;
}

/* What an object must have if it is there. */
static enum err_code check_needed(const struct json *spec, struct err *err)
{
    static const char *const needed[][2] = {{"data.source.configMap", "name"},
                                            {"training.earlyStopping", "patience"},
                                            {"placement.manual", "replicas"},
                                            {"checkpoint.store.s3", "bucket"},
                                            {"checkpoint.store.s3", "credentialsSecret"},
                                            {"resumeFrom", "job"}};

    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        char path[96];

        (void)snprintf(path, sizeof path, "%s.%s", needed[i][0], needed[i][1]);
        if (is_given(spec, needed[i][0]) && !is_given(spec, path))
            return err_set(err, ERR_INVALID, "spec.%s: must be given", path);
    }
    return ERR_OK;
}

/* The objects that may name a volume. */
static enum err_code check_volumes(const struct json *spec, const struct spec *s, struct err *err)
{
    const struct {
        const char *path;
        const struct spec_volume *volume;
        bool is_only_kind; /* the object can hold nothing else */
    } rows[] = {{"model.from", &s->from, true},
                {"data.source", &s->data.volume, false},
                {"checkpoint.store", &s->checkpoint.volume, false},
                {"output", &s->output, true}};
    int n_stores = is_given(spec, "checkpoint.store.persistentVolumeClaim") +
                   is_given(spec, "checkpoint.store.s3") + is_given(spec, "checkpoint.store.peers");

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct spec_volume *volume = rows[i].volume;
        char claim[96];

        (void)snprintf(claim, sizeof claim, "%s.persistentVolumeClaim", rows[i].path);
        if (is_given(spec, claim) && !volume->claim[0])
            return err_set(err, ERR_INVALID, "spec.%s.claimName: must be given", claim);
        if (!is_inside(volume->path))
            return err_set(err, ERR_INVALID, "spec.%s.path: must be a relative path without \"..\"",
                           claim);
        if (rows[i].is_only_kind && is_given(spec, rows[i].path) && !volume->claim[0])
            return err_set(err, ERR_INVALID,
                           "spec.%s: name exactly one of persistentVolumeClaim; found 0",
                           rows[i].path);
    }
    if (is_given(spec, "checkpoint.store") && n_stores != 1)
        return err_set(err, ERR_INVALID,
                       "spec.checkpoint.store: name exactly one of peers, persistentVolumeClaim, "
                       "s3; found %d",
                       n_stores);
    if (n_stores > 0 && s->checkpoint.mode == SPEC_SAVING_NEVER)
        return err_set(
            err, ERR_INVALID,
            "spec.checkpoint.store: has no effect with spec.checkpoint.mode Never; leave "
            "one of them out");
    return is_given(spec, "checkpoint.store.s3") ? check_bucket(&s->checkpoint.s3, err) : ERR_OK;
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

    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (is_given(spec, own[i].path) && s->training.optimizer != own[i].optimizer)
            return err_set(err, ERR_INVALID,
                           "spec.%s: belongs to %s and has no effect with %s; leave it out",
                           own[i].path, optimizer_words[own[i].optimizer],
                           optimizer_words[s->training.optimizer]);
    if (is_given(spec, "training.steps") && is_given(spec, "training.epochs"))
        return err_set(err, ERR_INVALID,
                       "spec.training.steps: give either steps or spec.training.epochs, not both");
    if (is_given(spec, "checkpoint.everySteps") && is_given(spec, "checkpoint.everySeconds"))
        return err_set(err, ERR_INVALID,
                       "spec.checkpoint.everySteps: give either everySteps or "
                       "spec.checkpoint.everySeconds, not both");
    return check_volumes(spec, s, err);
}

/* A domain, a slash and the characters of a path. */
static enum err_code check_manager(const struct spec *s, struct err *err)
{
    const char *name = s->managed_by, *slash = strchr(name, '/');
    bool has_domain = slash && spec_is_domain(name, (size_t)(slash - name));

    if (!name[0] || (has_domain && slash[1] &&
                     strspn(slash + 1, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                       "0123456789-._~!$&()*+,;=:@%/") == strlen(slash + 1)))
        return ERR_OK;
    return err_set(err, ERR_INVALID,
                   "spec.managedBy: must be a path after a domain, such as example.com/queue, "
                   "found \"%.63s\"",
                   name);
}

static enum err_code check_resume(const struct spec *s, struct err *err)
{
    if (!s->resume_from[0])
        return ERR_OK;
    if (!spec_is_name(s->resume_from, SPEC_RESUME_BYTES - 1))
        return err_set(err, ERR_INVALID,
                       "spec.resumeFrom.job: \"%s\" is not the name of a job, nor of the folder "
                       "with its checkpoints",
                       s->resume_from);
    if (!s->checkpoint.volume.claim[0] && !s->checkpoint.s3.bucket[0])
        return err_set(err, ERR_INVALID,
                       "spec.resumeFrom: needs spec.checkpoint.store.persistentVolumeClaim or s3, "
                       "where job %s has its checkpoints; those in the store peers end with their "
                       "workers",
                       s->resume_from);
    return ERR_OK;
}

/* How evaluations are compared, if they are. */
static enum err_code check_best(struct spec *s, struct err *err)
{
    const struct task *task = task_find(s->data.task);
    enum task_metric keep = s->training.keep_best, stop = s->training.stop_by;
    const char *path = keep != TASK_METRICS   ? "keepBest"
                       : stop != TASK_METRICS ? "earlyStopping.metric"
                                              : "earlyStopping";
    enum task_metric list[TASK_METRICS];
    char names[160] = "";
    int n = task_metric_list(task, list);
    bool is_measured = false;

    s->training.keeps_best = keep != TASK_METRICS;
    if (!s->training.keeps_best && s->training.patience == 0)
        return ERR_OK;
    if (s->training.evaluate_every == 0 || s->training.evaluates_only)
        return err_set(err, ERR_INVALID,
                       "spec.training.%s: needs spec.training.evaluateEverySteps, and steps to "
                       "train: it compares evaluations",
                       path);
    if (s->training.keeps_best && stop != TASK_METRICS && stop != keep)
        return err_set(err, ERR_INVALID,
                       "spec.training.earlyStopping.metric: must be that of "
                       "spec.training.keepBest, %s, or be left out",
                       task_metric_names[keep]);
    s->training.best_by = s->training.keeps_best ? keep : stop != TASK_METRICS ? stop : list[0];
    for (int i = 0; i < n; i++) {
        is_measured = is_measured || list[i] == s->training.best_by;
        text_add(names, sizeof names, "%s%s", i > 0 ? ", " : "", task_metric_names[list[i]]);
    }
    if (!is_measured)
        return err_set(err, ERR_INVALID, "spec.training.%s: %s is no metric of %s, which has %s",
                       path, task_metric_names[s->training.best_by], s->data.task, names);
    return ERR_OK;
}

#define MANUAL "spec.placement.manual.replicas[0].stages"

/* Does the list belong to the strategy? */
static enum err_code check_manual(const struct spec *spec, struct err *err)
{
    bool is_manual = spec->placement.strategy == SPEC_STRATEGY_MANUAL;
    bool has_stages = spec->placement.stages.n > 0;

    if (is_manual && !has_stages)
        return err_set(err, ERR_INVALID,
                       "spec.placement.strategy: Manual needs spec.placement.manual, such as "
                       "{replicas: [{stages: [{layers: %d, node: NAME}]}]}",
                       spec->model.layers > 0 ? spec->model.layers : 1);
    if (!is_manual && has_stages)
        return err_set(err, ERR_INVALID,
                       "spec.placement.manual: is read with strategy Manual only; leave it out or "
                       "set the strategy");
    return ERR_OK;
}

/* Do its counts make the whole model? */
static enum err_code check_stages(const struct spec *spec, struct err *err)
{
    const struct spec_stages *stages = &spec->placement.stages;
    bool counts_units = stages->n > 0 && stages->list[0].units > 0;
    int want = counts_units ? model_units(&spec->model) : spec->model.layers;
    int sum = 0;

    for (int i = 0; i < stages->n; i++) {
        const struct spec_stage *stage = &stages->list[i];

        if ((stage->layers > 0) == (stage->units > 0))
            return err_set(err, ERR_INVALID, MANUAL "[%d]: must have either layers or units", i);
        if ((stage->units > 0) != counts_units)
            return err_set(err, ERR_INVALID, MANUAL "[%d]: counts %s, the entries before it %s", i,
                           counts_units ? "layers" : "units", counts_units ? "units" : "layers");
        sum += counts_units ? stage->units : stage->layers;
    }
    if (stages->n > 0 && sum != want)
        return err_set(err, ERR_INVALID, MANUAL ": their %s add up to %d, the model has %d",
                       counts_units ? "units" : "layers", sum, want);
    return ERR_OK;
}

/* Every replica has a pipeline, and a share of the batch. */
static enum err_code check_replicas(const struct spec *s, struct err *err)
{
    const struct {
        const char *field;
        int n;
    } most[] = {{"spec.training.batchSize", s->training.batch_size},
                {"spec.training.microBatches", s->training.micro_batches}};

    if (s->replicas == 1)
        return ERR_OK;
    if (s->placement.strategy == SPEC_STRATEGY_MANUAL)
        return err_set(err, ERR_INVALID,
                       "spec.replicas: must be 1 with spec.placement.strategy Manual, which has "
                       "one pipeline");
    for (size_t i = 0; i < sizeof most / sizeof most[0]; i++)
        if (most[i].n > 0 && s->replicas > most[i].n)
            return err_set(err, ERR_INVALID, "spec.replicas: %d is above %s, %d", s->replicas,
                           most[i].field, most[i].n);
    if (s->replicas * s->placement.min_stages > SPEC_STAGES_MAX)
        return err_set(err, ERR_INVALID,
                       "spec.replicas: %d times spec.placement.minStages, %d, is above %d stages",
                       s->replicas, s->placement.min_stages, SPEC_STAGES_MAX);
    return ERR_OK;
}

/* How replicas work together, and when that changes. */
static enum err_code check_sync(const struct json *spec, const struct spec *s, struct err *err)
{
    bool is_switch = s->sync.protocol == SPEC_PROTOCOL_SWITCH;
    bool is_open = s->sync.protocol == SPEC_PROTOCOL_AUTO;
    bool is_local = spec_later_protocol(s) == SPEC_PROTOCOL_LOCAL || is_open;
    bool is_free =
        spec_later_protocol(s) == SPEC_PROTOCOL_ASP || is_open || spec_is_asynchronous_at_times(s);
    const struct {
        const char *key, *of;
        bool has_effect;
    } table[] = {{"sync.switchAfterSteps", "Switch", is_switch},
                 {"sync.switchAfterPercent", "Switch", is_switch},
                 {"sync.switchTo", "Switch", is_switch},
                 {"sync.maxStaleness", "ASP", is_free},
                 {"sync.localSteps", "Local", is_local},
                 {"sync.outerRate", "Local", is_local},
                 {"sync.outerMomentum", "Local", is_local},
                 {"sync.gradientPercent", "BSP or ASP", s->sync.protocol != SPEC_PROTOCOL_LOCAL}};
    int n_given =
        is_given(spec, "sync.switchAfterSteps") + is_given(spec, "sync.switchAfterPercent");

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (is_given(spec, table[i].key) && !table[i].has_effect)
            return err_set(err, ERR_INVALID,
                           "spec.%s: belongs to spec.sync.protocol %s and has no effect with %s; "
                           "leave it out",
                           table[i].key, table[i].of, spec_protocol_names[s->sync.protocol]);
    if (is_switch && n_given != 1)
        return err_set(err, ERR_INVALID,
                       "spec.sync.protocol: Switch needs spec.sync.switchAfterSteps or "
                       "spec.sync.switchAfterPercent; found %d of them",
                       n_given);
    if (s->sync.protocol != SPEC_PROTOCOL_BSP && s->replicas == 1)
        return err_set(err, ERR_INVALID,
                       "spec.sync.protocol: %s needs spec.replicas of 2 or more, or Auto",
                       spec_protocol_names[s->sync.protocol]);
    if (s->sync.gradient_percent > 0 && s->replicas == 1)
        return err_set(err, ERR_INVALID,
                       "spec.sync.gradientPercent: needs spec.replicas of 2 or more, or Auto: "
                       "only replicas exchange gradients");
    if (s->sync.stragglers == SPEC_STRAGGLERS_WAIT)
        return ERR_OK;
    if (s->replicas == 1)
        return err_set(err, ERR_INVALID,
                       "spec.sync.stragglers: %s needs spec.replicas of 2 or more",
                       spec_stragglers_names[s->sync.stragglers]);
    if (!is_switch && !is_open && s->sync.protocol != SPEC_PROTOCOL_BSP)
        return err_set(err, ERR_INVALID,
                       "spec.sync.stragglers: %s needs spec.sync.protocol BSP, Switch or Auto, "
                       "not %s",
                       spec_stragglers_names[s->sync.stragglers],
                       spec_protocol_names[s->sync.protocol]);
    return ERR_OK;
}

static enum err_code check_spec(const struct json *spec, struct spec *s, struct err *err)
{
    enum err_code rc = check_task(spec, s, err);
    bool has_sizes = spec_has_sizes(s);
    int n_sources = (s->data.sample[0] != '\0') + (s->data.config_map[0] != '\0') +
                    (s->data.volume.claim[0] != '\0');

    if (rc == ERR_OK && has_sizes)
        rc = model_check(&s->model, err);
    if (rc != ERR_OK)
        return rc;
    if (s->training.micro_batches > 0 && s->training.batch_size % s->training.micro_batches != 0)
        return err_set(err, ERR_INVALID,
                       "spec.training.batchSize: %d is not a multiple of "
                       "spec.training.microBatches, %d",
                       s->training.batch_size, s->training.micro_batches);
    if (s->model.positions > 0 && s->training.max_length > s->model.positions)
        return err_set(err, ERR_INVALID,
                       "spec.training.maxSequenceLength: %d is above spec.model.maxPositions, %d",
                       s->training.max_length, s->model.positions);
    if (s->placement.min_stages > s->placement.max_stages)
        return err_set(err, ERR_INVALID,
                       "spec.placement.minStages: %d is above spec.placement.maxStages, %d",
                       s->placement.min_stages, s->placement.max_stages);
    rc = check_replicas(s, err);
    if (rc != ERR_OK)
        return rc;
    if (s->training.learning_rate <= 0)
        return err_set(err, ERR_INVALID, "spec.training.optimizer.learningRate: must be above 0");
    if (s->data.mask_probability <= 0)
        return err_set(err, ERR_INVALID,
                       "spec.data.maskProbability: must be above 0, or there is nothing to learn");
    rc = check_manual(s, err);
    if (rc == ERR_OK && has_sizes)
        rc = check_stages(s, err);
    if (rc == ERR_OK)
        rc = check_best(s, err);
    if (rc == ERR_OK && n_sources != 1)
        rc = err_set(err, ERR_INVALID,
                     "spec.data.source: name exactly one of sample, configMap, "
                     "persistentVolumeClaim; found %d",
                     n_sources);
    s->data.source = s->data.config_map[0]     ? SPEC_SOURCE_CONFIG_MAP
                     : s->data.volume.claim[0] ? SPEC_SOURCE_CLAIM
                                               : SPEC_SOURCE_SAMPLE;
    return rc;
}

enum err_code spec_parse(const struct json *json, struct spec *out, struct err *err)
{
    /* Defaults that the schema cannot have, since they hold only where something else is absent. */
    struct spec s = {.letters = SPEC_CASE_ABSENT,
                     .training = {.epochs = 3,
                                  .momentum = 0.9,
                                  .beta1 = 0.9,
                                  .beta2 = 0.999,
                                  .epsilon = 1e-8,
                                  .keep_best = TASK_METRICS,
                                  .stop_by = TASK_METRICS},
                     .sync = {.local_steps = 32, .outer_rate = 1},
                     .checkpoint = {.every_seconds = 300},
                     .ttl_s = -1};
    enum err_code rc;
    const char *preset = json_string(json_path(json, "model.preset"), "BertMini");
    bool has_sizes = is_given(json, "model.preset") || !is_given(json, "model.from") ||
                     (is_given(json, "model.hiddenSize") && is_given(json, "model.layers") &&
                      is_given(json, "model.attentionHeads"));
    const struct json *replicas = json_path(json, "placement.manual.replicas");

    if (json_kind_of(replicas) == JSON_ARRAY && json_count(replicas) > 1)
        return err_set(
            err, ERR_INVALID,
            "spec.placement.manual.replicas: must have 1 entry, found %zu; more than one "
            "replica is not supported yet",
            json_count(replicas));
    if (has_sizes)
        (void)!model_preset(preset, &s.model, NULL); /* the table refuses an unknown one */
    rc = fields_read(spec_fields, json, FIELDS_CLOSED, "spec", &s, err);
    /* F is 4 C in the published sizes, and by default for any other hidden size. */
    if (rc == ERR_OK && has_sizes && json_path(json, "model.hiddenSize") &&
        !json_path(json, "model.feedForwardSize"))
        s.model.ffn = 4 * s.model.hidden;
    s.training.evaluates_only =
        json_is_i64(json_path(json, "training.steps")) && s.training.steps == 0;
    s.checkpoint.is_on = s.checkpoint.volume.claim[0] || s.checkpoint.s3.bucket[0];
    s.checkpoint.is_peers =
        !s.checkpoint.is_on && s.checkpoint.mode != SPEC_SAVING_NEVER && !s.training.evaluates_only;
    s.checkpoint.is_on = s.checkpoint.is_on || s.checkpoint.is_peers;
    if (rc == ERR_OK)
        rc = check_needed(json, err);
    if (rc == ERR_OK)
        rc = check_given(json, &s, err);
    if (rc == ERR_OK)
        rc = check_sync(json, &s, err);
    if (rc == ERR_OK)
        rc = pods_check(json_get(json, "worker"), err);
    if (rc == ERR_OK)
        rc = check_resume(&s, err);
    if (rc == ERR_OK)
        rc = check_manager(&s, err);
    if (rc == ERR_OK)
        rc = check_spec(json, &s, err);
    if (s.training.keeps_best && s.checkpoint.mode == SPEC_SAVING_AUTO)
        s.checkpoint.mode = SPEC_SAVING_BACKGROUND; /* they are read into the copy */
    if (rc == ERR_OK)
        *out = s;
    return rc;
}

enum err_code spec_check_best(const struct spec *s, bool has_output, struct err *err)
{
    if (s->training.keeps_best && !has_output)
        return err_set(err, ERR_INVALID,
                       "spec.training.keepBest: needs spec.output, or --output DIR on this "
                       "machine: without it no weights are kept");
    if (s->training.keeps_best && (!s->checkpoint.is_on || s->checkpoint.is_peers))
        return err_set(err, ERR_INVALID,
                       "spec.training.keepBest: needs spec.checkpoint.store.persistentVolumeClaim "
                       "or s3, or --checkpoints DIR on this machine: the best weights wait there "
                       "for the end");
    if (s->training.keeps_best && s->checkpoint.mode == SPEC_SAVING_BLOCKING)
        return err_set(err, ERR_INVALID,
                       "spec.training.keepBest: needs spec.checkpoint.mode Auto or Background: the "
                       "best weights are read into the memory of the copy");
    return ERR_OK;
}

enum spec_protocol spec_later_protocol(const struct spec *s)
{
    if (s->sync.protocol == SPEC_PROTOCOL_AUTO)
        return s->sync.chosen;
    if (s->sync.protocol != SPEC_PROTOCOL_SWITCH)
        return s->sync.protocol;
    return s->sync.switch_to == SPEC_LATER_LOCAL ? SPEC_PROTOCOL_LOCAL : SPEC_PROTOCOL_ASP;
}

bool spec_is_asynchronous_at_times(const struct spec *s)
{
    return s->sync.stragglers == SPEC_STRAGGLERS_GREEDY ||
           s->sync.stragglers == SPEC_STRAGGLERS_AUTO;
}

bool spec_is_asynchronous(const struct spec *s)
{
    return spec_later_protocol(s) != SPEC_PROTOCOL_BSP || spec_is_asynchronous_at_times(s);
}

int64_t spec_switch_step(const struct spec *s, int64_t total_steps)
{
    bool is_open = s->sync.protocol == SPEC_PROTOCOL_AUTO;
    int percent = is_open ? SPEC_AUTO_PERCENT : s->sync.switch_percent;
    int64_t steps = s->sync.switch_steps;

    if (spec_later_protocol(s) == SPEC_PROTOCOL_BSP)
        return total_steps;
    if (s->sync.protocol != SPEC_PROTOCOL_SWITCH && !is_open)
        return 0;
    if (steps == 0)
        steps = total_steps * percent / 100;
    return steps < total_steps ? steps : total_steps;
}

bool spec_has_sizes(const struct spec *s)
{
    return s->model.hidden > 0 && s->model.layers > 0 && s->model.heads > 0;
}

int spec_data_files(const struct spec *s, const char *out[static SPEC_FILES_MAX])
{
    int n = 0;

    if (!s->training.evaluates_only)
        out[n++] = s->data.files.train[0]     ? s->data.files.train
                   : model_is_tied(&s->model) ? "train.txt" /* language models read text */
                                              : "train.tsv";
    if (s->data.files.dev[0])
        out[n++] = s->data.files.dev;
    if (!s->from.claim[0])
        out[n++] = SPEC_VOCAB_FILE;
    return n;
}

int spec_stage_units(const struct spec *spec, int s)
{
    const struct spec_stages *stages = &spec->placement.stages;
    int tail = model_units(&spec->model) - 2 * spec->model.layers - 1;

    if (stages->list[s].units > 0)
        return stages->list[s].units;
    return 2 * stages->list[s].layers + (s == 0) + (s == stages->n - 1 ? tail : 0);
}

static bool is_same_field(const struct field *f, const struct spec *a, const struct spec *b)
{
    return memcmp((const char *)a + f->offset, (const char *)b + f->offset, f->bytes) == 0;
}

bool spec_same_sync(const struct spec *a, const struct spec *b)
{
    bool same = true;

    for (const struct field *f = spec_fields; f->kind != FIELD_END; f++)
        if (strncmp(f->key, "sync.", 5) == 0)
            same = same && is_same_field(f, a, b);
    return same;
}

bool spec_same_workers(const struct spec *a, const struct spec *b)
{
    const struct spec_stages *x = &a->placement.stages;
    const struct spec_stages *y = &b->placement.stages;
    bool same = x->n == y->n && spec_same_sync(a, b);

    /* The CRD keeps model, data, training and wire as they are; failurePolicy and
     * placement.rebalance are read when they count. */
    for (const struct field *f = spec_fields; f->kind != FIELD_END; f++)
        if (f->kind != FIELD_LIST && strcmp(f->key, "placement.rebalance") != 0 &&
            (strcmp(f->key, "replicas") == 0 || strncmp(f->key, "placement.", 10) == 0 ||
             strncmp(f->key, "worker.", 7) == 0 || strncmp(f->key, "checkpoint.", 11) == 0 ||
             strncmp(f->key, "output.", 7) == 0))
            same = same && is_same_field(f, a, b);
    for (int s = 0; same && s < x->n; s++)
        same = x->list[s].layers == y->list[s].layers && x->list[s].units == y->list[s].units &&
               strcmp(x->list[s].node, y->list[s].node) == 0;
    return same;
}
