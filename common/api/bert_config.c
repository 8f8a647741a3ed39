#include "api/bert_config.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"

#define DROPOUT_DEFAULT 0.1
#define EPS_DEFAULT     1e-12
#define LABELS_DEFAULT  2
#define LABELS_MAX      4096

#define SIZE(member) FIELD_AT(struct model, member), .min = 1, .flags = FIELD_REQUIRED
const struct field bert_config_sizes[] = {
    {"vocabSize", FIELD_INT, SIZE(vocab), .max = 1000000},
    {"hiddenSize", FIELD_INT, SIZE(hidden), .max = 16384},
    {"layers", FIELD_INT, SIZE(layers), .max = MODEL_LAYERS_MAX},
    {"attentionHeads", FIELD_INT, SIZE(heads), .max = 256},
    {"feedForwardSize", FIELD_INT, SIZE(ffn), .max = 65536},
    {"maxPositions", FIELD_INT, SIZE(positions), .max = 8192},
    {0}};
/* The members of config.json, in the order of bert_config_sizes. */
static const char *const keys[BERT_CONFIG_SIZES] = {"vocab_size",        "hidden_size",
                                                    "num_hidden_layers", "num_attention_heads",
                                                    "intermediate_size", "max_position_embeddings"};

static enum err_code read_sizes(const char *file, const struct json *root, struct model *m,
                                struct err *err)
{
    for (int i = 0; i < BERT_CONFIG_SIZES; i++) {
        const struct json *v = json_get(root, keys[i]);
        int64_t n = json_i64(v, 0);

        if (n < 1 || n > (int64_t)bert_config_sizes[i].max)
            return err_set(err, ERR_INVALID, "%s: %s %s; it must be a whole number in 1..%d", file,
                           keys[i], v ? "is out of range or no number" : "is missing",
                           (int)bert_config_sizes[i].max);
        memcpy((char *)m + bert_config_sizes[i].offset, &(int){(int)n}, sizeof(int));
    }
    if (m->hidden % m->heads != 0)
        return err_set(err, ERR_INVALID,
                       "%s: num_attention_heads %d does not divide hidden_size %d; no such BERT "
                       "exists, correct the file",
                       file, m->heads, m->hidden);
    return ERR_OK;
}

/* Numbers from 0 to below 1. */
static enum err_code read_numbers(const char *file, const struct json *root,
                                  struct bert_config *out, struct err *err)
{
    const struct {
        const char *key;
        double fallback;
        double *number;
    } rows[] = {{"layer_norm_eps", EPS_DEFAULT, &out->model.norm_eps},
                {"hidden_dropout_prob", DROPOUT_DEFAULT, &out->hidden_dropout},
                {"attention_probs_dropout_prob", DROPOUT_DEFAULT, &out->attention_dropout}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct json *v = json_get(root, rows[i].key);
        double number = json_double(v, rows[i].fallback);

        if ((v && json_kind_of(v) != JSON_NUMBER) || !(number >= 0 && number < 1))
            return err_set(err, ERR_INVALID, "%s: %s must be a number from 0 to below 1", file,
                           rows[i].key);
        *rows[i].number = number;
    }
    return ERR_OK;
}

/* What SkyJob computes in one way only. */
static enum err_code check_kind(const char *file, const struct json *root, struct err *err)
{
    static const struct {
        const char *key, *word, *other, *why;
    } rows[] = {
        {"model_type", "bert", "bert", "SkyJob trains \"bert\" only"},
        {"hidden_act", "gelu", "gelu_python",
         "SkyJob computes the exact GELU, \"gelu\", and no approximation"},
        {"position_embedding_type", "absolute", "absolute",
         "SkyJob computes \"absolute\" positions only"},
    };
    const struct json *types = json_get(root, "type_vocab_size");

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct json *v = json_get(root, rows[i].key);
        const char *text = json_string(v, "(no text)");

        if (v && json_kind_of(v) != JSON_NULL && strcmp(text, rows[i].word) != 0 &&
            strcmp(text, rows[i].other) != 0)
            return err_set(err, ERR_INVALID, "%s: %s is \"%.32s\": %s; use another model", file,
                           rows[i].key, text, rows[i].why);
    }
    if (types && json_i64(types, 0) != MODEL_TYPES)
        return err_set(err, ERR_INVALID,
                       "%s: type_vocab_size must be %d, for two sentences; use another model", file,
                       MODEL_TYPES);
    if (json_bool(json_get(root, "is_decoder"), false) ||
        json_bool(json_get(root, "add_cross_attention"), false))
        return err_set(err, ERR_INVALID, "%s: is a decoder; SkyJob trains encoders only", file);
    return ERR_OK;
}

static enum err_code read_labels(const char *file, const struct json *root, struct bert_config *out,
                                 struct err *err)
{
    const struct json *names = json_get(root, "id2label");
    const struct json *count = json_get(root, "num_labels");
    bool has_names = json_kind_of(names) == JSON_OBJECT;
    int64_t n =
        has_names ? (int64_t)json_count(names) : json_i64(count, count ? 0 : LABELS_DEFAULT);

    if (n < 1 || n > LABELS_MAX)
        return err_set(err, ERR_INVALID, "%s: id2label or num_labels must give 1..%d labels", file,
                       LABELS_MAX);
    out->model.labels = (int)n;
    out->n_names = has_names && n <= TASK_LABELS_MAX ? (int)n : 0;
    for (int i = 0; i < out->n_names; i++) { /* by id, whatever their order in the file */
        char key[24];
        const struct json *v;

        (void)snprintf(key, sizeof key, "%d", i);
        v = json_get(names, key);
        if (json_kind_of(v) != JSON_STRING && !json_is_i64(v))
            return err_set(err, ERR_INVALID, "%s: id2label must name every label from 0 to %d",
                           file, out->n_names - 1);
        (void)snprintf(key, sizeof key, "%lld", (long long)json_i64(v, 0));
        (void)snprintf(out->names[i], sizeof out->names[i], "%s", json_string(v, key));
    }
    return ERR_OK;
}

enum err_code bert_config_parse(const char *file, const struct json *root, struct bert_config *out,
                                struct err *err)
{
    struct bert_config c = {.is_tied = json_bool(json_get(root, "tie_word_embeddings"), true)};
    enum err_code rc;

    if (json_kind_of(root) != JSON_OBJECT)
        return err_set(err, ERR_INVALID, "%s: not a JSON object; copy the file again", file);
    rc = check_kind(file, root, err);
    if (rc == ERR_OK)
        rc = read_sizes(file, root, &c.model, err);
    if (rc == ERR_OK)
        rc = read_numbers(file, root, &c, err);
    if (rc == ERR_OK)
        rc = read_labels(file, root, &c, err);
    if (rc == ERR_OK)
        *out = c;
    return rc;
}

enum err_code bert_config_check(const char *file, const struct model *has,
                                const struct model *wanted, struct err *err)
{
    char list[ERR_TEXT_BYTES] = "";

    for (int i = 0; i < BERT_CONFIG_SIZES; i++) {
        int is;
        int wants;

        memcpy(&is, (const char *)has + bert_config_sizes[i].offset, sizeof is);
        memcpy(&wants, (const char *)wanted + bert_config_sizes[i].offset, sizeof wants);
        if (wants != 0 && wants != is)
            text_add(list, sizeof list, "%sspec.model.%s to %d (is %d)", list[0] ? ", " : "",
                     bert_config_sizes[i].key, is, wants);
    }
    if (list[0] == '\0')
        return ERR_OK;
    return err_set(err, ERR_INVALID, "%.80s: another size: set %s", file, list);
}

enum err_code bert_config_fill(const char *file, const struct model *sizes, const struct json *spec,
                               struct json **out, struct err *err)
{
    struct buf text = {.max = BERT_CONFIG_SPEC_MAX_BYTES};
    struct model given = {0};
    struct jsonw w;
    enum err_code rc;

    for (int i = 0; i < BERT_CONFIG_SIZES; i++) {
        const struct json *v = json_get(json_get(spec, "model"), bert_config_sizes[i].key);
        int n = json_int(v, 0);

        if (n == 0 && json_kind_of(v) == JSON_NUMBER)
            return err_set(err, ERR_INVALID, "spec.model.%s: must be at least 1 and an integer",
                           bert_config_sizes[i].key);
        memcpy((char *)&given + bert_config_sizes[i].offset, &n, sizeof n);
    }
    rc = bert_config_check(file, sizes, &given, err);
    if (rc != ERR_OK)
        return rc;
    jsonw_init(&w, &text);
    jsonw_open_object(&w, NULL);
    for (const struct json *v = json_first(spec); v; v = json_next(v))
        if (strcmp(json_key(v), "model") != 0)
            jsonw_value(&w, json_key(v), v);
    jsonw_open_object(&w, "model");
    for (const struct json *v = json_first(json_get(spec, "model")); v; v = json_next(v)) {
        bool is_size = false;

        for (int i = 0; i < BERT_CONFIG_SIZES; i++)
            is_size = is_size || strcmp(json_key(v), bert_config_sizes[i].key) == 0;
        if (!is_size)
            jsonw_value(&w, json_key(v), v);
    }
    fields_write(bert_config_sizes, sizes, &w);
    jsonw_close(&w);
    jsonw_close(&w);
    rc = jsonw_finish(&w, err);
    if (rc == ERR_OK)
        rc = json_parse(buf_text(&text), text.len, out, err);
    buf_deinit(&text);
    return rc;
}

/* --- labels --- */

static char plain(char c)
{
    return c == '-' || c == ' ' ? '_' : (char)tolower((unsigned char)c);
}

static bool is_same_name(const char *a, const char *b)
{
    while (*a && plain(*a) == plain(*b)) {
        a++;
        b++;
    }
    return *a == '\0' && *b == '\0';
}

/* Every label is one name, and none is left. */
static bool match_names(const struct bert_config *c, const char *const *labels, int n, int *rows)
{
    bool is_taken[TASK_LABELS_MAX] = {false};

    if (c->n_names != n)
        return false;
    for (int i = 0; i < n; i++) {
        int n_found = 0;

        for (int k = 0; k < n; k++) {
            if (is_same_name(labels[i], c->names[k])) {
                rows[i] = k;
                n_found++;
            }
        }
        if (n_found != 1 || is_taken[rows[i]])
            return false;
        is_taken[rows[i]] = true;
    }
    return true;
}

static bool match_positions(const struct bert_config *c, int n, int *rows)
{
    for (int i = 0; i < n; i++) {
        char name[24];

        (void)snprintf(name, sizeof name, "LABEL_%d", i);
        if (c->n_names > 0 && (c->n_names != n || strcmp(c->names[i], name) != 0))
            return false;
        rows[i] = i;
    }
    return true;
}

/* At most the first few: an error has room for a line. */
static void list_names(char out[static 80], const char *name, int i)
{
    size_t used = strlen(out);

    if (used > 0 && out[used - 1] == '.')
        return;
    if (used + strlen(name) > 60)
        text_add(out, 80, ", ...");
    else
        text_add(out, 80, "%s%s", i > 0 ? ", " : "", name);
}

enum err_code bert_config_match(const char *file, const struct bert_config *config,
                                const struct task *task, const char *const *labels, int n,
                                int out_rows[static TASK_LABELS_MAX], struct err *err)
{
    int rows[TASK_LABELS_MAX];
    char has[80] = "";
    char wants[80] = "";

    if (match_names(config, labels, n, rows) ||
        (task->names && match_names(config, task->names, n, rows)) ||
        match_positions(config, n, rows)) {
        memcpy(out_rows, rows, (size_t)n * sizeof *rows);
        return ERR_OK;
    }
    for (int i = 0; i < config->n_names; i++)
        list_names(has, config->names[i], i);
    for (int i = 0; i < n; i++)
        list_names(wants, labels[i], i);
    return err_set(err, ERR_INVALID,
                   "%s: id2label has the labels %s; the task has %s: name them alike in "
                   "id2label, or remove it to match them by position",
                   file, has, wants);
}
