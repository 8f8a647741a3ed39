#include "base/jsonw.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

#define STRINGF_MAX_BYTES 4096

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
