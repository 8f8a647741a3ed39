#include "base/yaml.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/json.h"

#define SCALAR_MAX_BYTES ((size_t)1 << 20)

struct walk {
    yaml_parser_t parser;
    struct jsonw out;
    char *key; /* of the next value in a mapping; owned; NULL when a key is due */
};

static enum err_code at(const yaml_mark_t *mark, struct err *err, const char *what)
{
    return err_set(err, ERR_INVALID, "line %zu, column %zu: %s", mark->line + 1, mark->column + 1,
                   what);
}

static bool is_word(const char *s, const char *const *words)
{
    while (*words && strcmp(s, *words) != 0)
        words++;
    return *words != NULL;
}

/* With the type that the core schema gives it. */
static void write_plain(struct jsonw *w, const char *key, const char *s)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const trues[] = {"true", "True", "TRUE", NULL};
    static const char *const falses[] = {"false", "False", "FALSE", NULL};
    /* Keeps strtod from reading "inf", "nan" or "0x1p3". */
    bool may_be_number = strpbrk(s, "0123456789") && !s[strspn(s, "0123456789+-.eE")];
    char *after_whole = NULL;
    char *after = NULL;
    long long whole = strtoll(s, &after_whole, 10);
    double d = strtod(s, &after);

    if (is_word(s, nulls))
        jsonw_null(w, key);
    else if (is_word(s, trues) || is_word(s, falses))
        jsonw_bool(w, key, is_word(s, trues));
    else if (may_be_number && !*after_whole && whole > -(1LL << 53) && whole < (1LL << 53))
        jsonw_int(w, key, whole);
    else if (may_be_number && !*after && isfinite(d))
        jsonw_double(w, key, d);
    else
        jsonw_string(w, key, s);
}

/* The beginning of a mapping or list, or a scalar, which may be a key. */
static enum err_code on_node(struct walk *w, const yaml_event_t *e, struct err *err)
{
    bool is_scalar = e->type == YAML_SCALAR_EVENT;
    bool is_mapping = e->type == YAML_MAPPING_START_EVENT;
    bool is_key = w->out.depth > 0 && w->out.closers[w->out.depth - 1] == '}' && !w->key;
    const char *value = is_scalar ? (const char *)e->data.scalar.value : NULL;

    if (is_scalar    ? e->data.scalar.anchor || e->data.scalar.tag
        : is_mapping ? e->data.mapping_start.anchor || e->data.mapping_start.tag
                     : e->data.sequence_start.anchor || e->data.sequence_start.tag)
        return at(&e->start_mark, err, "anchors and tags are not supported");
    if (is_scalar &&
        (e->data.scalar.length > SCALAR_MAX_BYTES || strlen(value) != e->data.scalar.length))
        return at(&e->start_mark, err, "the value is too long or contains a NUL");
    if (is_key && !is_scalar)
        return at(&e->start_mark, err, "a key must be plain text");
    if (is_key) {
        w->key = strdup(value);
        return w->key ? ERR_OK : err_set(err, ERR_NO_MEMORY, "no memory for a key");
    }
    if (!is_scalar && w->out.depth == JSON_DEPTH_MAX)
        return at(&e->start_mark, err, "too many levels");
    if (is_mapping)
        jsonw_open_object(&w->out, w->key);
    else if (!is_scalar)
        jsonw_open_array(&w->out, w->key);
    else if (e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
        write_plain(&w->out, w->key, value);
    else
        jsonw_string(&w->out, w->key, value);
    free(w->key);
    w->key = NULL;
    return ERR_OK;
}

/* Every document is written, in place of the one before it, until document `index` has ended. */
static enum err_code run(struct walk *w, int index, struct buf *out, struct err *err)
{
    int document = -1;

    for (;;) {
        yaml_event_t event;
        yaml_event_type_t type;
        enum err_code rc = ERR_OK;

        if (!yaml_parser_parse(&w->parser, &event))
            return at(&w->parser.problem_mark, err,
                      w->parser.problem ? w->parser.problem : "not YAML");
        type = event.type;
        if (type == YAML_DOCUMENT_START_EVENT) {
            document++;
            buf_reset(out);
            jsonw_init(&w->out, out);
        } else if (type == YAML_ALIAS_EVENT) {
            rc = at(&event.start_mark, err, "aliases are not supported");
        } else if (type == YAML_SCALAR_EVENT || type == YAML_MAPPING_START_EVENT ||
                   type == YAML_SEQUENCE_START_EVENT) {
            rc = on_node(w, &event, err);
        } else if (type == YAML_MAPPING_END_EVENT || type == YAML_SEQUENCE_END_EVENT) {
            jsonw_close(&w->out);
        }
        yaml_event_delete(&event);
        if (rc != ERR_OK)
            return rc;
        if (type == YAML_DOCUMENT_END_EVENT && document == index)
            return jsonw_finish(&w->out, err);
        if (type == YAML_STREAM_END_EVENT)
            return err_set(err, ERR_NOT_FOUND, "the file has %d documents", document + 1);
    }
}

enum err_code yaml_to_json(const char *text, size_t len, int index, struct buf *out,
                           struct err *err)
{
    struct walk w = {0};
    enum err_code rc;

    if (!yaml_parser_initialize(&w.parser))
        return err_set(err, ERR_NO_MEMORY, "no memory for the YAML parser");
    yaml_parser_set_input_string(&w.parser, (const unsigned char *)text, len);
    rc = run(&w, index, out, err);
    free(w.key);
    yaml_parser_delete(&w.parser);
    return rc;
}
