#include "api/pods.h"

#include <stdio.h>
#include <string.h>

#include "api/names.h"
#include "api/spec.h"
#include "base/fields.h"

/* Of Kubernetes: a label's value and the name in its key have at most 63 bytes, the DNS name before
 * that 253. */
#define PART_BYTES   64
#define PREFIX_BYTES 254
#define KEY_BYTES    (PREFIX_BYTES + PART_BYTES)

struct toleration {
    char key[KEY_BYTES];
    char op[8];
    char value[PART_BYTES];
    char effect[20];
    int64_t seconds; /* -1: for ever */
};

static const char *const operators[] = {"Exists", "Equal", NULL};
static const char *const effects[] = {"NoSchedule", "PreferNoSchedule", "NoExecute", NULL};

#define TOLERATION(member) FIELD_AT(struct toleration, member)
static const struct field toleration_fields[] = {
    {"key", FIELD_TEXT, TOLERATION(key)},
    {"operator", FIELD_WORD, TOLERATION(op), .fallback = "Equal", .words = operators},
    {"value", FIELD_TEXT, TOLERATION(value)},
    {"effect", FIELD_WORD, TOLERATION(effect), .words = effects},
    {"tolerationSeconds", FIELD_INT64, TOLERATION(seconds), .fallback = "-1"},
    {0}};

struct secret {
    char name[PREFIX_BYTES];
};
static const struct field secret_fields[] = {
    {"name", FIELD_TEXT, FIELD_AT(struct secret, name), .min = 1, .flags = FIELD_REQUIRED}, {0}};

/* --- keys and values --- */

#define ALPHANUMERIC "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

/* A label's value, or the name in its key. */
static bool is_part(const char *s)
{
    size_t n = strlen(s);

    return n > 0 && n < PART_BYTES && strchr(ALPHANUMERIC, s[0]) &&
           strchr(ALPHANUMERIC, s[n - 1]) && strspn(s, ALPHANUMERIC "-_.") == n;
}

/* "example.com/team" or "team". */
static bool is_key(const char *s)
{
    const char *slash = strchr(s, '/');
    size_t n_prefix = slash ? (size_t)(slash - s) : 0;

    if (slash && (n_prefix >= PREFIX_BYTES || !spec_is_domain(s, n_prefix)))
        return false;
    return is_part(slash ? slash + 1 : s);
}

static bool is_reserved(const char *key)
{
    static const char *const prefixes[] = {NAMES_GROUP "/", "app.kubernetes.io/",
                                           "kueue.x-k8s.io/pod-group-", KUEUE_ROLE, KUEUE_RETRY};

    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (strncmp(key, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

static enum err_code check_pairs(const struct json *worker, const char *name, bool are_labels,
                                 bool may_be_reserved, struct err *err)
{
    const struct json *pairs = json_get(worker, name);
    enum json_kind kind = json_kind_of(pairs);

    if (kind == JSON_ABSENT || kind == JSON_NULL)
        return ERR_OK;
    if (kind != JSON_OBJECT)
        return err_set(err, ERR_INVALID, "spec.worker.%s: must be an object, found %s", name,
                       json_kind_name(kind));
    if (json_count(pairs) > PODS_LABELS_MAX)
        return err_set(err, ERR_INVALID, "spec.worker.%s: must have at most %d entries, found %zu",
                       name, PODS_LABELS_MAX, json_count(pairs));
    for (const struct json *v = json_first(pairs); v; v = json_next(v)) {
        const char *key = json_key(v);
        const char *value = json_string(v, NULL);

        if (!is_key(key))
            return err_set(err, ERR_INVALID,
                           "spec.worker.%s: \"%.80s\" is no key such as \"team\" or "
                           "\"example.com/team\"",
                           name, key);
        if (!may_be_reserved && is_reserved(key))
            return err_set(err, ERR_INVALID, "spec.worker.%s: \"%.80s\" is the operator's own",
                           name, key);
        if (!value)
            return err_set(err, ERR_INVALID, "spec.worker.%s: \"%.80s\" must be a string, found %s",
                           name, key, json_kind_name(json_kind_of(v)));
        if (are_labels && *value && !is_part(value))
            return err_set(err, ERR_INVALID,
                           "spec.worker.%s: \"%.80s\" must be at most 63 letters, digits, \"-\", "
                           "\"_\" and \".\", with a letter or digit at both ends; found \"%.80s\"",
                           name, key, value);
        if (strlen(value) > PODS_ANNOTATION_MAX)
            return err_set(err, ERR_INVALID, "spec.worker.%s: \"%.80s\" is longer than %d bytes",
                           name, key, PODS_ANNOTATION_MAX);
    }
    return ERR_OK;
}

static enum err_code check_toleration(const struct toleration *t, const char *name, struct err *err)
{
    bool exists = strcmp(t->op, "Exists") == 0;

    if (t->key[0] && !is_key(t->key))
        return err_set(err, ERR_INVALID, "%s.key: \"%.80s\" is no key", name, t->key);
    if (!t->key[0] && !exists)
        return err_set(err, ERR_INVALID, "%s.operator: must be Exists without a key", name);
    if (exists && t->value[0])
        return err_set(err, ERR_INVALID, "%s.value: has no effect with Exists; leave it out", name);
    if (t->seconds >= 0 && strcmp(t->effect, "NoExecute") != 0)
        return err_set(err, ERR_INVALID, "%s.tolerationSeconds: needs effect NoExecute", name);
    return ERR_OK;
}

/* The list of that name; what it is if it is none. */
static enum err_code check_list(const struct json *worker, const char *name, size_t max,
                                struct err *err)
{
    const struct json *list = json_get(worker, name);
    enum json_kind kind = json_kind_of(list);

    if (kind > JSON_NULL && kind != JSON_ARRAY)
        return err_set(err, ERR_INVALID, "spec.worker.%s: must be a list of objects, found %s",
                       name, json_kind_name(kind));
    if (kind == JSON_ARRAY && json_count(list) > max)
        return err_set(err, ERR_INVALID, "spec.worker.%s: must have at most %zu entries, found %zu",
                       name, max, json_count(list));
    return ERR_OK;
}

static enum err_code check_tolerations(const struct json *worker, struct err *err)
{
    const struct json *v = json_first(json_get(worker, "tolerations"));
    enum err_code rc = check_list(worker, "tolerations", PODS_TOLERATIONS_MAX, err);

    for (int i = 0; rc == ERR_OK && v; v = json_next(v), i++) {
        struct toleration t = {.key = ""};
        char name[48];

        (void)snprintf(name, sizeof name, "spec.worker.tolerations[%d]", i);
        rc = fields_read(toleration_fields, v, FIELDS_CLOSED, name, &t, err);
        if (rc == ERR_OK)
            rc = check_toleration(&t, name, err);
    }
    return rc;
}

static enum err_code check_secrets(const struct json *worker, struct err *err)
{
    const struct json *v = json_first(json_get(worker, "imagePullSecrets"));
    enum err_code rc = check_list(worker, "imagePullSecrets", PODS_SECRETS_MAX, err);

    for (int i = 0; rc == ERR_OK && v; v = json_next(v), i++) {
        struct secret secret;
        char name[48];

        (void)snprintf(name, sizeof name, "spec.worker.imagePullSecrets[%d]", i);
        rc = fields_read(secret_fields, v, FIELDS_CLOSED, name, &secret, err);
    }
    return rc;
}

enum err_code pods_check(const struct json *worker, struct err *err)
{
    enum err_code rc = check_pairs(worker, "labels", true, false, err);

    if (rc == ERR_OK)
        rc = check_pairs(worker, "annotations", false, false, err);
    if (rc == ERR_OK)
        rc = check_pairs(worker, "nodeSelector", true, true, err);
    if (rc == ERR_OK)
        rc = check_tolerations(worker, err);
    return rc == ERR_OK ? check_secrets(worker, err) : rc;
}

/* --- nodes --- */

/* Is it one of the lines? */
static bool has_line(const char *lines, const char *key, const char *value)
{
    size_t n_key = strlen(key), n_value = strlen(value);

    while (*lines) {
        size_t n = strcspn(lines, "\n");

        if (n == n_key + 1 + n_value && memcmp(lines, key, n_key) == 0 && lines[n_key] == '=' &&
            memcmp(lines + n_key + 1, value, n_value) == 0)
            return true;
        lines += n + (lines[n] == '\n');
    }
    return false;
}

bool pods_select(const struct json *worker, const char *labels)
{
    const struct json *v = json_first(json_get(worker, "nodeSelector"));

    for (; v; v = json_next(v))
        if (!has_line(labels, json_key(v), json_string(v, "")))
            return false;
    return true;
}

bool pods_tolerate(const struct json *worker, const char *key, const char *value,
                   const char *effect)
{
    const struct json *v = json_first(json_get(worker, "tolerations"));

    for (; v; v = json_next(v)) {
        struct toleration t = {.key = ""};

        if (fields_read(toleration_fields, v, FIELDS_TOLERANT, "", &t, NULL) == ERR_OK &&
            t.seconds < 0 && (!t.key[0] || strcmp(t.key, key) == 0) &&
            (strcmp(t.op, "Exists") == 0 || strcmp(t.value, value) == 0) &&
            (!t.effect[0] || strcmp(t.effect, effect) == 0))
            return true;
    }
    return false;
}
