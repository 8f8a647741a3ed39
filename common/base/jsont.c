#include "base/jsont.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES 512
#define NAME_CHARS "abcdefghijklmnopqrstuvwxyz_"

/* Where in the template we are. */
struct reader {
    struct jsonw *w;
    const char *at;
    const struct jsont_value *values;
    size_t n_values;
};

/* The first error stands, and ends the template. */
static void fail(struct reader *r, const char *why)
{
    if (r->w->err.code == ERR_OK)
        (void)err_set(&r->w->err, ERR_INVALID, "template: %s at \"%.40s\"", why, r->at);
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

/* The value behind a `$`, `${` or `?`. */
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
    fail(r, "no value is given for the name");
    return (struct jsont_value){0};
}

/* Returns false when a value that the string contains is absent. */
static bool read_string(struct reader *r, char out[static TEXT_BYTES])
{
    bool is_whole = true;
    size_t n = 0;

    out[0] = '\0';
    if (next(r) != '\'')
        fail(r, "no string");
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
        fail(r, "a string that is too long or does not end");
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

static bool read_word(struct reader *r, const char *word)
{
    if (strncmp(r->at, word, strlen(word)) != 0)
        return false;
    r->at += strlen(word);
    return true;
}

static void read_value(struct reader *r, const char *key, bool is_kept);

/* An object or array; `is_kept` is false where it is only skipped. */
static void read_nested(struct reader *r, const char *key, bool is_kept)
{
    bool is_object = *r->at++ == '{';
    char closer = is_object ? '}' : ']';

    if (is_kept && is_object)
        jsonw_open_object(r->w, key);
    else if (is_kept)
        jsonw_open_array(r->w, key);
    while (next(r) != closer && r->w->err.code == ERR_OK) {
        char member[TEXT_BYTES];

        if (is_object && (!read_string(r, member) || next(r) != ':'))
            fail(r, "no key");
        else if (is_object)
            r->at++;
        read_value(r, is_object ? member : NULL, is_kept);
        if (next(r) == ',')
            r->at++;
        else if (*r->at != closer)
            fail(r, "no comma");
    }
    if (*r->at)
        r->at++;
    if (is_kept)
        jsonw_close(r->w);
}

static void read_value(struct reader *r, const char *key, bool is_kept)
{
    char text[TEXT_BYTES];
    struct jsont_value v;
    char first = next(r);
    char *end;
    long long number;

    if (first == '?') {
        v = read_name(r);
        read_value(r, key, is_kept && is_there(&v));
    } else if (first == '$') {
        v = read_name(r);
        is_kept = is_kept && is_there(&v);
        if (is_kept && v.kind == JSONT_INT)
            jsonw_int(r->w, key, v.number);
        else if (is_kept && v.kind == JSONT_LIST)
            write_pairs(r->w, key, v.text);
        else if (is_kept)
            jsonw_string(r->w, key, v.text);
    } else if (first == '{' || first == '[') {
        read_nested(r, key, is_kept);
    } else if (first == '\'') {
        if (read_string(r, text) && is_kept)
            jsonw_string(r->w, key, text);
    } else if (read_word(r, "true") || read_word(r, "false")) {
        if (is_kept)
            jsonw_bool(r->w, key, first == 't');
    } else if (read_word(r, "null")) {
        if (is_kept)
            jsonw_null(r->w, key);
    } else {
        number = strtoll(r->at, &end, 10);
        if (end == r->at)
            fail(r, "no value");
        else if (is_kept)
            jsonw_int(r->w, key, number);
        r->at = *r->at ? end : r->at;
    }
}

void jsont_write(struct jsonw *w, const char *key, const char *text,
                 const struct jsont_value *values, size_t n_values)
{
    struct reader r = {.w = w, .at = text, .values = values, .n_values = n_values};

    read_value(&r, key, true);
    if (next(&r) != '\0')
        fail(&r, "more than one value");
}
