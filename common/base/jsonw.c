#include "base/jsonw.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

#define STRINGF_MAX_BYTES 4096
#define TEXT_BYTES        512 /* of a template's string */
#define NAME_CHARS        "abcdefghijklmnopqrstuvwxyz_"

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

/* The first error stays: later ones follow from it. */
__attribute__((format(printf, 3, 4))) static void fail(struct jsonw *w, enum err_code code,
                                                       const char *fmt, ...)
{
    char text[ERR_TEXT_BYTES];
    va_list args;

    if (w->err.code != ERR_OK)
        return;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    err_set(&w->err, code, "%s", text);
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
        fail(w, ERR_LIMIT, "more than %d levels", JSON_DEPTH_MAX);
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
        fail(w, ERR_INVALID, "nothing is open");
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

void jsonw_line(struct jsonw *w, const char *key, const char *text)
{
    char line[512];

    (void)snprintf(line, sizeof line, "%s", text);
    for (char *c = line; *c; c++)
        if ((unsigned char)*c < ' ')
            *c = ' ';
    jsonw_string(w, key, line);
}

void jsonw_stringf(struct jsonw *w, const char *key, const char *fmt, ...)
{
    char text[STRINGF_MAX_BYTES];
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (n < 0 || n >= (int)sizeof text) {
        fail(w, ERR_LIMIT, "%s: more than %d bytes", key ? key : "value", STRINGF_MAX_BYTES - 1);
        return;
    }
    jsonw_string(w, key, text);
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
        fail(w, ERR_INVALID, "%s: %g is not a JSON number", key ? key : "value", value);
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
        fail(w, ERR_NO_MEMORY, "no memory to print a value");
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

/* The first error stands, and ends the template. */
static void misread(struct reader *r, const char *why)
{
    fail(r->w, ERR_INVALID, "template: %s at \"%.40s\"", why, r->at);
    r->at = "";
}

static char next(struct reader *r)
{
    r->at += strspn(r->at, " \n");
    return *r->at;
}

static bool is_there(const struct jsont_value *v)
{
    return v->kind == JSONT_INT || v->text;
}

/* The value named after a `$`, `${` or `?`. */
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
        else if (v.text && v.kind == JSONT_LIST)
            write_pairs(w, key, v.text);
        else if (v.text)
            jsonw_string(w, key, v.text);
    } else if (first == '{' || first == '[') {
        char closer = first == '{' ? '}' : ']';

        open_level(w, key, first, closer);
        r->at++;
        while (next(r) != closer && w->err.code == ERR_OK) {
            if (first == '{' && (!read_string(r, text) || next(r) != ':'))
                misread(r, "no key");
            else if (first == '{')
                r->at++;
            read_value(r, first == '{' ? text : NULL);
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
    } else if (is_word(r->at, n, "true") || is_word(r->at, n, "false")) {
        jsonw_bool(w, key, first == 't');
        r->at += n;
    } else if (is_word(r->at, n, "null")) {
        jsonw_null(w, key);
        r->at += n;
    } else if (n > strspn(r->at, "-") && n == strspn(r->at, "-0123456789")) {
        jsonw_int(w, key, strtoll(r->at, NULL, 10));
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
