#include "base/json.h"

#include <cJSON.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JSON_INT_MAX     9007199254740992.0 /* 2^53: beyond it doubles skip integers */
#define NUMBER_MAX_BYTES 63
#define KEYS_FEW         32  /* sorted without an allocation */
#define TEXT_BYTES       512 /* of a template's string */
#define NAME_CHARS       "abcdefghijklmnopqrstuvwxyz_"

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

/* The parser does not tell why it failed. It asks here for memory, so that this is known. */
static _Thread_local bool lacks_memory;

static void *allocate(size_t n)
{
    void *p = malloc(n);

    lacks_memory = lacks_memory || !p;
    return p;
}

static void set_up_parser(void)
{
    cJSON_InitHooks(&(cJSON_Hooks){.malloc_fn = allocate, .free_fn = free});
}

static cJSON *run_parser(const char *text, size_t len, const char **end)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, set_up_parser);
    lacks_memory = false;
    return cJSON_ParseWithLengthOpts(text, len, end, false);
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
    root = run_parser(text, len, &end);
    while (root && end < text + len && strchr(" \t\r\n", *end))
        end++;
    if (!root && lacks_memory)
        rc = err_set(err, ERR_NO_MEMORY, "no memory for %zu bytes of JSON", len);
    else if (!root)
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

const char *json_text(const struct json *v, const char *path)
{
    return json_string(json_path(v, path), "");
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

/* The value at `*i`; moves `*i` to the next byte that is not white space. */
static bool take_value(struct jsonraw v, size_t *i, struct jsonraw *out)
{
    bool in_string = false;
    size_t depth = 0;
    size_t end = *i;

    for (; end < v.len && (in_string || depth > 0 || !is_at(v.text, v.len, end, " \t\r\n,:]}"));
         end++) {
        if (v.text[end] == '"')
            in_string = !in_string;
        else if (in_string)
            end += v.text[end] == '\\';
        else if (is_at(v.text, v.len, end, "{["))
            depth++;
        else if (is_at(v.text, v.len, end, "}]"))
            depth--;
    }
    if (in_string || depth > 0 || end == *i)
        return false;
    *out = (struct jsonraw){v.text + *i, end - *i};
    *i = skip_space(v, end);
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

/* --- writing --- */

void jsonw_init(struct jsonw *w, struct buf *out)
{
    *w = (struct jsonw){.out = out};
}

static void put(struct jsonw *w, const char *bytes, size_t n)
{
    if (w->err.code == ERR_OK)
        (void)!buf_add(w->out, bytes, n, &w->err);
}

static void put_quoted(struct jsonw *w, const char *s)
{
    size_t left = strlen(s);
    size_t step;
    char code[8];

    put(w, "\"", 1);
    for (; left > 0; s += step, left -= step) {
        unsigned char c = (unsigned char)*s;
        size_t n = utf8_step(s, left);

        step = n > 0 ? n : 1;
        if (c == '"' || c == '\\')
            put(w, "\\", 1);
        if (c < 0x20) {
            (void)snprintf(code, sizeof code, "\\u%04x", c);
            put(w, code, 6);
        } else if (n > 0) {
            put(w, s, n);
        } else {
            put(w, "\xef\xbf\xbd", 3);
        }
    }
    put(w, "\"", 1);
}

/* Where to report an error: the first one stays, as later ones follow from it. */
static struct err *first_err(struct jsonw *w)
{
    return w->err.code == ERR_OK ? &w->err : NULL;
}

/* Everything before a value. */
static void begin(struct jsonw *w, const char *key)
{
    if (w->needs_comma)
        put(w, ",", 1);
    if (key) {
        put_quoted(w, key);
        put(w, ":", 1);
    }
    w->needs_comma = true;
}

static void open_level(struct jsonw *w, const char *key, char opener, char closer)
{
    if (w->depth == JSON_DEPTH_MAX) {
        err_set(first_err(w), ERR_LIMIT, "more than %d levels", JSON_DEPTH_MAX);
        return;
    }
    begin(w, key);
    put(w, &opener, 1);
    w->closers[w->depth++] = closer;
    w->needs_comma = false;
}

void jsonw_open_object(struct jsonw *w, const char *key)
{
    open_level(w, key, '{', '}');
}

void jsonw_open_array(struct jsonw *w, const char *key)
{
    open_level(w, key, '[', ']');
}

void jsonw_close(struct jsonw *w)
{
    if (w->depth == 0) {
        err_set(first_err(w), ERR_INVALID, "nothing is open");
        return;
    }
    put(w, &w->closers[--w->depth], 1);
    w->needs_comma = true;
}

void jsonw_string(struct jsonw *w, const char *key, const char *value)
{
    begin(w, key);
    put_quoted(w, value ? value : "");
}

void jsonw_int(struct jsonw *w, const char *key, int64_t value)
{
    char text[24];

    begin(w, key);
    put(w, text, (size_t)snprintf(text, sizeof text, "%lld", (long long)value));
}

void jsonw_bool(struct jsonw *w, const char *key, bool value)
{
    begin(w, key);
    put(w, value ? "true" : "false", value ? 4 : 5);
}

void jsonw_double(struct jsonw *w, const char *key, double value)
{
    char text[32];

    if (!isfinite(value)) {
        err_set(first_err(w), ERR_INVALID, "%s: %g is not a JSON number", key ? key : "value",
                value);
        return;
    }
    begin(w, key);
    for (int digits = 6; digits <= 17; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    put(w, text, strlen(text));
}

void jsonw_null(struct jsonw *w, const char *key)
{
    begin(w, key);
    put(w, "null", 4);
}

void jsonw_value(struct jsonw *w, const char *key, const struct json *value)
{
    char *text = json_print(value);

    if (!text) {
        err_set(first_err(w), ERR_NO_MEMORY, "no memory to print a value");
        return;
    }
    begin(w, key);
    put(w, text, strlen(text));
    free(text);
}

enum err_code jsonw_finish(struct jsonw *w, struct err *err)
{
    if (w->err.code != ERR_OK)
        return err_set(err, w->err.code, "%s", w->err.text);
    if (w->depth > 0)
        return err_set(err, ERR_INVALID, "%d levels are still open", w->depth);
    return ERR_OK;
}

/* --- templates --- */

/* Where in the template we are. */
struct reader {
    struct jsonw *w;
    const char *at;
    const struct jsont_value *values;
    size_t n_values;
};

/* Ends the template. */
static void misread(struct reader *r, const char *why)
{
    err_set(first_err(r->w), ERR_INVALID, "template: %s at \"%.40s\"", why, r->at);
    r->at = "";
}

static char next(struct reader *r)
{
    r->at += strspn(r->at, " \n");
    return *r->at;
}

static bool is_there(const struct jsont_value *v)
{
    if (v->kind == JSONT_JSON)
        return json_kind_of(v->json) > JSON_NULL;
    return v->kind == JSONT_INT || v->text;
}

/* The value named after a `$`, `${`, `?` or `*`. */
static struct jsont_value read_name(struct reader *r)
{
    const char *start = r->at + 1 + (r->at[1] == '{');
    size_t n = strspn(start, NAME_CHARS);

    for (size_t i = 0; i < r->n_values; i++) {
        const struct jsont_value *v = &r->values[i];

        if (strlen(v->name) != n || memcmp(v->name, start, n) != 0)
            continue;
        r->at = start + n + (r->at[1] == '{');
        return *v;
    }
    misread(r, "no value is given for the name");
    return (struct jsont_value){0};
}

/* Returns false when a value that the string contains is absent. */
static bool read_string(struct reader *r, char out[static TEXT_BYTES])
{
    bool is_whole = true;
    size_t n = 0;

    out[0] = '\0';
    if (next(r) != '\'')
        misread(r, "no string");
    else
        r->at++;
    while (*r->at && *r->at != '\'' && n < TEXT_BYTES - 1) {
        struct jsont_value v;

        if (*r->at != '$') {
            out[n++] = *r->at++;
            out[n] = '\0';
            continue;
        }
        v = read_name(r);
        is_whole = is_whole && is_there(&v);
        if (v.kind == JSONT_INT)
            n += (size_t)snprintf(out + n, TEXT_BYTES - n, "%lld", (long long)v.number);
        else if (v.text)
            n += (size_t)snprintf(out + n, TEXT_BYTES - n, "%s", v.text);
    }
    if (*r->at == '\'' && n < TEXT_BYTES)
        r->at++;
    else
        misread(r, "a string that is too long or does not end");
    return is_whole;
}

static void write_pairs(struct jsonw *w, const char *key, const char *pairs)
{
    jsonw_open_object(w, key);
    while (*pairs) {
        char name[TEXT_BYTES];
        char value[TEXT_BYTES];
        size_t n = strcspn(pairs, ",");
        size_t n_name = strcspn(pairs, "=");

        if (n_name < n) {
            (void)snprintf(name, sizeof name, "%.*s", (int)n_name, pairs);
            (void)snprintf(value, sizeof value, "%.*s", (int)(n - n_name - 1), pairs + n_name + 1);
            jsonw_string(w, name, value);
        }
        pairs += n + (pairs[n] == ',');
    }
    jsonw_close(w);
}

/* The members or entries of a value, in an object or array that is open. */
static void splice(struct reader *r, bool is_object)
{
    struct jsont_value v = read_name(r);

    if (is_there(&v) && json_kind_of(v.json) != (is_object ? JSON_OBJECT : JSON_ARRAY))
        misread(r, "a value that cannot be put in");
    for (const struct json *e = json_first(v.json); e; e = json_next(e))
        jsonw_value(r->w, is_object ? json_key(e) : NULL, e);
}

static bool is_word(const char *at, size_t n, const char *word)
{
    return n == strlen(word) && memcmp(at, word, n) == 0;
}

static void read_value(struct reader *r, const char *key)
{
    struct jsonw *w = r->w;
    struct jsonw before = *w;
    size_t len = w->out->len;
    char text[TEXT_BYTES];
    struct jsont_value v;
    char first = next(r);
    size_t n = strspn(r->at, "-0123456789abcdefghijklmnopqrstuvwxyz");

    if (first == '?') {
        v = read_name(r);
        read_value(r, key);
        if (!is_there(&v) && w->err.code == ERR_OK) { /* as if it had not been written */
            *w = before;
            w->out->len = len;
        }
    } else if (first == '$') {
        v = read_name(r);
        if (v.kind == JSONT_INT)
            jsonw_int(w, key, v.number);
        else if (v.kind == JSONT_JSON && is_there(&v))
            jsonw_value(w, key, v.json);
        else if (v.text && v.kind == JSONT_LIST)
            write_pairs(w, key, v.text);
        else if (v.text)
            jsonw_string(w, key, v.text);
    } else if (first == '{' || first == '[') {
        char closer = first == '{' ? '}' : ']';

        open_level(w, key, first, closer);
        r->at++;
        while (next(r) != closer && w->err.code == ERR_OK) {
            if (*r->at == '*') {
                splice(r, first == '{');
            } else {
                if (first == '{' && (!read_string(r, text) || next(r) != ':'))
                    misread(r, "no key");
                else if (first == '{')
                    r->at++;
                read_value(r, first == '{' ? text : NULL);
            }
            if (next(r) == ',')
                r->at++;
            else if (*r->at != closer)
                misread(r, "no comma");
        }
        r->at += *r->at != '\0';
        if (w->err.code == ERR_OK)
            jsonw_close(w);
    } else if (first == '\'') {
        if (read_string(r, text))
            jsonw_string(w, key, text);
    } else if (is_word(r->at, n, "true") || is_word(r->at, n, "false") ||
               is_word(r->at, n, "null") || (n > 0 && number_length(r->at, n) == n)) {
        begin(w, key);
        put(w, r->at, n);
        r->at += n;
    } else {
        misread(r, "no value");
    }
}

void jsont_write(struct jsonw *w, const char *key, const char *text,
                 const struct jsont_value *values, size_t n_values)
{
    struct reader r = {.w = w, .at = text, .values = values, .n_values = n_values};

    read_value(&r, key);
    if (next(&r) != '\0')
        misread(&r, "more than one value");
}
