#include "base/json.h"

#include <cJSON.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define JSON_INT_MAX     9007199254740992.0 /* 2^53: beyond it doubles skip integers */
#define NUMBER_MAX_BYTES 63
#define KEYS_FEW         32 /* sorted without an allocation */

static const cJSON *node_of(const struct json *v)
{
    return (const cJSON *)(const void *)v;
}

static const struct json *value_of(const cJSON *node)
{
    return (const struct json *)(const void *)node;
}

static size_t count_digits(const char *s, size_t n)
{
    size_t i = 0;

    while (i < n && s[i] >= '0' && s[i] <= '9')
        i++;
    return i;
}

static bool is_at(const char *s, size_t n, size_t i, const char *any_of)
{
    return i < n && s[i] != '\0' && strchr(any_of, s[i]);
}

/* Length of the number at the start; 0 if it is not in JSON's notation ("01", "1.", "1e"). */
static size_t number_length(const char *s, size_t n)
{
    size_t i = is_at(s, n, 0, "-");
    size_t digits = count_digits(s + i, n - i);

    if (digits == 0 || (digits > 1 && s[i] == '0'))
        return 0;
    i += digits;
    if (is_at(s, n, i, ".")) {
        digits = count_digits(s + i + 1, n - i - 1);
        if (digits == 0)
            return 0;
        i += 1 + digits;
    }
    if (is_at(s, n, i, "eE")) {
        i += is_at(s, n, i + 1, "+-") ? 2 : 1;
        digits = count_digits(s + i, n - i);
        if (digits == 0)
            return 0;
        i += digits;
    }
    return is_at(s, n, i, "+-.eE0123456789") ? 0 : i;
}

/* Is this a valid escape sequence? cJSON reads "\\uzzzz" as a NUL. */
static bool is_escape(const char *s, size_t n)
{
    if (!is_at(s, n, 1, "\"\\/bfnrtu"))
        return false;
    for (size_t i = 2; s[1] == 'u' && i < 6; i++)
        if (!is_at(s, n, i, "0123456789abcdefABCDEF"))
            return false;
    return true;
}

static bool is_escaped_nul(const char *s, size_t n)
{
    return n >= 6 && memcmp(s, "\\u0000", 6) == 0;
}

/* Refuse what cJSON accepts and we do not: depth, invalid UTF-8, control characters, \u0000 (unless
 * `out_nuls` is given to count them), numbers in other notations. One pass over the text before it
 * is parsed. */
static enum err_code check_text(const char *text, size_t len, size_t *out_nuls, struct err *err)
{
    bool in_string = false;
    int depth = 0;
    size_t step;

    for (size_t i = 0; i < len; i += step) {
        unsigned char c = (unsigned char)text[i];

        step = utf8_step(text + i, len - i);
        if (step == 0 || c == '\0')
            return err_set(err, ERR_INVALID, "byte %zu is not valid UTF-8 text", i);
        if (!in_string && c >= 0x80)
            return err_set(err, ERR_INVALID, "not JSON at byte %zu", i);
        if (c < 0x20 && (in_string || !strchr("\t\r\n", c)))
            return err_set(err, ERR_INVALID, "byte %zu: control character", i);
        if (in_string && c == '\\') {
            if (!is_escape(text + i, len - i))
                return err_set(err, ERR_INVALID, "byte %zu: invalid escape sequence", i);
            if (is_escaped_nul(text + i, len - i) && !out_nuls)
                return err_set(err, ERR_INVALID, "byte %zu: \\u0000 in a string", i);
            if (is_escaped_nul(text + i, len - i))
                ++*out_nuls;
            step = 2;
        } else if (c == '"') {
            in_string = !in_string;
        } else if (!in_string && (c == '-' || (c >= '0' && c <= '9'))) {
            step = number_length(text + i, len - i);
            if (step == 0)
                return err_set(err, ERR_INVALID, "byte %zu: not a JSON number", i);
            if (step > NUMBER_MAX_BYTES) /* cJSON would parse the rest as something else */
                return err_set(err, ERR_LIMIT, "byte %zu: a number of more than %d characters", i,
                               NUMBER_MAX_BYTES);
        } else if (!in_string && (c == '{' || c == '[')) {
            if (++depth > JSON_DEPTH_MAX)
                return err_set(err, ERR_LIMIT, "byte %zu: more than %d levels", i, JSON_DEPTH_MAX);
        } else if (!in_string && (c == '}' || c == ']')) {
            depth--;
        }
    }
    return ERR_OK;
}

static int compare_keys(const void *a, const void *b)
{
    const char *const *left = a;
    const char *const *right = b;

    return strcmp(*left, *right);
}

/* Refuse duplicate keys, of which it is undefined which one counts, and numbers too large for a
 * double, as infinity could not be written again. */
static enum err_code check_values(const cJSON *node, struct err *err)
{
    const char *few[KEYS_FEW];
    const char **keys = few;
    enum err_code rc = ERR_OK;
    size_t n = 0;

    if (cJSON_IsNumber(node) && !isfinite(node->valuedouble))
        return err_set(err, ERR_INVALID, "a number is too large");
    for (const cJSON *c = node->child; c; c = c->next, n++) {
        rc = check_values(c, err);
        if (rc != ERR_OK)
            return rc;
    }
    if (!cJSON_IsObject(node))
        return ERR_OK;
    if (n > KEYS_FEW)
        keys = malloc(n * sizeof *keys);
    if (!keys)
        return err_set(err, ERR_NO_MEMORY, "no memory for %zu keys", n);
    n = 0;
    for (const cJSON *c = node->child; c; c = c->next)
        keys[n++] = c->string;
    qsort(keys, n, sizeof *keys, compare_keys);
    for (size_t i = 1; i < n && rc == ERR_OK; i++)
        if (strcmp(keys[i - 1], keys[i]) == 0)
            rc = err_set(err, ERR_INVALID, "duplicate key \"%.60s\"", keys[i]);
    if (keys != few)
        free(keys);
    return rc;
}

static enum err_code parse(const char *text, size_t len, bool is_tolerant, struct json **out,
                           struct err *err)
{
    size_t n_nuls = 0;
    char *copy = NULL;
    const char *end = NULL;
    cJSON *root;
    enum err_code rc;

    if (len > JSON_TEXT_MAX_BYTES)
        return err_set(err, ERR_LIMIT, "JSON text above %zu bytes", JSON_TEXT_MAX_BYTES);
    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        text += 3;
        len -= 3;
    }
    rc = check_text(text, len, is_tolerant ? &n_nuls : NULL, err);
    if (rc != ERR_OK)
        return rc;
    if (n_nuls > 0) { /* where cJSON would end a string; the replacement has the same length */
        copy = malloc(len);
        if (!copy)
            return err_set(err, ERR_NO_MEMORY, "no memory for %zu bytes of JSON", len);
        memcpy(copy, text, len);
        for (size_t i = 0; i < len; i += copy[i] == '\\' ? 2 : 1)
            if (is_escaped_nul(copy + i, len - i))
                memcpy(copy + i, "\\ufffd", 6);
        text = copy;
    }
    root = cJSON_ParseWithLengthOpts(text, len, &end, false);
    while (root && end < text + len && strchr(" \t\r\n", *end))
        end++;
    if (!root)
        rc = err_set(err, ERR_INVALID, "not JSON at byte %zu", end ? (size_t)(end - text) : 0);
    else if (end != text + len)
        rc = err_set(err, ERR_INVALID, "byte %zu: text after the document", (size_t)(end - text));
    else
        rc = check_values(root, err);
    free(copy);
    if (rc == ERR_OK)
        *out = (struct json *)(void *)root;
    else
        cJSON_Delete(root);
    return rc;
}

enum err_code json_parse(const char *text, size_t len, struct json **out, struct err *err)
{
    return parse(text, len, false, out, err);
}

enum err_code json_parse_tolerant(const char *text, size_t len, struct json **out, struct err *err)
{
    return parse(text, len, true, out, err);
}

void json_free(struct json *root)
{
    cJSON_Delete((cJSON *)(void *)root);
}

enum json_kind json_kind_of(const struct json *v)
{
    static const enum json_kind kinds[] = {
        [cJSON_False] = JSON_BOOL,    [cJSON_True] = JSON_BOOL,     [cJSON_NULL] = JSON_NULL,
        [cJSON_Number] = JSON_NUMBER, [cJSON_String] = JSON_STRING, [cJSON_Array] = JSON_ARRAY,
        [cJSON_Object] = JSON_OBJECT};

    return v ? kinds[node_of(v)->type & 0x7f] : JSON_ABSENT;
}

const char *json_kind_name(enum json_kind kind)
{
    static const char *const names[] = {"nothing",  "null",   "a boolean", "a number",
                                        "a string", "a list", "an object"};

    return names[kind];
}

const struct json *json_get(const struct json *v, const char *key)
{
    if (json_kind_of(v) != JSON_OBJECT)
        return NULL;
    return value_of(cJSON_GetObjectItemCaseSensitive(node_of(v), key));
}

const struct json *json_path(const struct json *v, const char *path)
{
    for (;;) {
        const char *dot = strchrnul(path, '.');
        size_t n = (size_t)(dot - path);
        const struct json *member = json_kind_of(v) == JSON_OBJECT ? json_first(v) : NULL;

        while (member && (strncmp(json_key(member), path, n) != 0 || json_key(member)[n] != '\0'))
            member = json_next(member);
        if (!member || *dot == '\0')
            return member;
        v = member;
        path = dot + 1;
    }
}

const struct json *json_first(const struct json *v)
{
    return v ? value_of(node_of(v)->child) : NULL;
}

const struct json *json_next(const struct json *v)
{
    return v ? value_of(node_of(v)->next) : NULL;
}

const char *json_key(const struct json *v)
{
    return v && node_of(v)->string ? node_of(v)->string : "";
}

size_t json_count(const struct json *v)
{
    size_t n = 0;

    for (const struct json *c = json_first(v); c; c = json_next(c))
        n++;
    return n;
}

const char *json_string(const struct json *v, const char *fallback)
{
    return json_kind_of(v) == JSON_STRING ? node_of(v)->valuestring : fallback;
}

bool json_bool(const struct json *v, bool fallback)
{
    return json_kind_of(v) == JSON_BOOL ? cJSON_IsTrue(node_of(v)) : fallback;
}

double json_double(const struct json *v, double fallback)
{
    return json_kind_of(v) == JSON_NUMBER ? node_of(v)->valuedouble : fallback;
}

bool json_is_i64(const struct json *v)
{
    double d = json_double(v, NAN);

    return d >= -JSON_INT_MAX && d <= JSON_INT_MAX && d == floor(d);
}

int64_t json_i64(const struct json *v, int64_t fallback)
{
    return json_is_i64(v) ? (int64_t)json_double(v, 0) : fallback;
}

int json_int(const struct json *v, int fallback)
{
    int64_t i = json_i64(v, fallback);

    return i >= INT_MIN && i <= INT_MAX ? (int)i : fallback;
}

char *json_print(const struct json *v)
{
    return v ? cJSON_PrintUnformatted(node_of(v)) : strdup("null");
}

bool json_equal(const struct json *a, const struct json *b)
{
    if (!a || !b)
        return a == b;
    return cJSON_Compare(node_of(a), node_of(b), true);
}

size_t utf8_step(const char *text, size_t left)
{
    const unsigned char *s = (const unsigned char *)text;
    static const uint32_t lowest[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t code;
    size_t n;

    if (s[0] < 0x80)
        return 1;
    n = s[0] >= 0xf0 && s[0] < 0xf8 ? 4 : s[0] >= 0xe0 ? 3 : s[0] >= 0xc2 ? 2 : 0;
    if (n == 0 || n > left || s[0] >= 0xf8)
        return 0;
    code = s[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        code = (code << 6) | (s[i] & 0x3fu);
    }
    if (code < lowest[n] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        return 0;
    return n;
}

/* --- without parsing --- */

static size_t skip_space(struct jsonraw v, size_t i)
{
    while (is_at(v.text, v.len, i, " \t\r\n"))
        i++;
    return i;
}

/* From an opening quote to the byte after the closing one. */
static bool skip_string(struct jsonraw v, size_t *i)
{
    for (size_t k = *i + 1; k < v.len; k += v.text[k] == '\\' ? 2 : 1) {
        if (v.text[k] == '"') {
            *i = k + 1;
            return true;
        }
    }
    return false;
}

/* From the first byte of a value to the byte after its last one. */
static bool skip_value(struct jsonraw v, size_t *i)
{
    size_t depth = 0;
    size_t start;

    do {
        if (is_at(v.text, v.len, *i, "{[")) {
            depth++;
            ++*i;
        } else if (is_at(v.text, v.len, *i, "}]") && depth > 0) {
            depth--;
            ++*i;
        } else if (is_at(v.text, v.len, *i, "\"")) {
            if (!skip_string(v, i))
                return false;
        } else if (depth > 0 && is_at(v.text, v.len, *i, ",: \t\r\n")) {
            ++*i;
        } else { /* a number or a word */
            start = *i;
            while (*i < v.len && !is_at(v.text, v.len, *i, " \t\r\n,:]}[{\""))
                ++*i;
            if (*i == start)
                return false;
        }
    } while (depth > 0);
    return true;
}

/* The value at `*i`; moves `*i` to the next byte that is not white space. */
static bool take_value(struct jsonraw v, size_t *i, struct jsonraw *out)
{
    size_t start = *i;

    if (!skip_value(v, i))
        return false;
    *out = (struct jsonraw){v.text + start, *i - start};
    *i = skip_space(v, *i);
    return true;
}

bool jsonraw_member(struct jsonraw v, const char *key, struct jsonraw *out)
{
    size_t i = skip_space(v, 0);
    size_t n = strlen(key);
    struct jsonraw name;
    struct jsonraw value;

    if (!is_at(v.text, v.len, i, "{"))
        return false;
    do {
        i = skip_space(v, i + 1);
        if (!take_value(v, &i, &name) || !is_at(v.text, v.len, i, ":"))
            return false;
        i = skip_space(v, i + 1);
        if (!take_value(v, &i, &value))
            return false;
        if (name.len == n + 2 && name.text[0] == '"' && memcmp(name.text + 1, key, n) == 0) {
            *out = value;
            return true;
        }
    } while (is_at(v.text, v.len, i, ","));
    return false;
}

bool jsonraw_next(struct jsonraw v, size_t *place, struct jsonraw *out)
{
    size_t i = *place > 0 ? *place : skip_space(v, 0);

    if (!is_at(v.text, v.len, i, *place > 0 ? "," : "["))
        return false;
    i = skip_space(v, i + 1);
    if (!take_value(v, &i, out))
        return false;
    *place = i;
    return true;
}
