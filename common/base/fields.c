#include "base/fields.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/hash.h"

#define PATH_BYTES    200
#define DECIMAL_BYTES 25

static bool is_integer(const struct field *f)
{
    return f->kind <= FIELD_MICROSECONDS;
}

/* The number as it is written. */
static double number_of(const struct field *f, const void *place)
{
    if (f->kind == FIELD_BOOL)
        return *(const bool *)place;
    if (f->kind == FIELD_INT || f->kind == FIELD_ANSWER)
        return *(const int *)place;
    if (f->kind == FIELD_INT64 || f->kind == FIELD_TIME)
        return (double)*(const int64_t *)place;
    if (!is_integer(f))
        return *(const double *)place;
    return round((f->kind == FIELD_MICROSECONDS ? 1000 : 1) * *(const double *)place);
}

static void set_number(const struct field *f, double d, void *place)
{
    if (f->kind == FIELD_BOOL)
        *(bool *)place = d != 0;
    else if (f->kind == FIELD_INT || f->kind == FIELD_ANSWER)
        *(int *)place = (int)d;
    else if (f->kind == FIELD_INT64)
        *(int64_t *)place = (int64_t)d;
    else
        *(double *)place = f->kind == FIELD_MICROSECONDS ? d / 1000 : d;
}

static int entries_max(const struct field *f)
{
    return (int)(f->bytes / f->entry_bytes);
}

static size_t text_max(const struct field *f)
{
    return f->max > 0 ? (size_t)f->max : f->bytes - 1;
}

/* --- from JSON --- */

/* "spec.steps: must be a whole number in 1..64, found null". */
static enum err_code wrong_kind(const struct field *f, const char *name, const struct json *v,
                                struct err *err)
{
    static const char *const kinds[] = {
        [FIELD_DOUBLE] = "a number",
        [FIELD_DECIMAL] = "a string that holds a decimal number, such as \"2e-5\"",
        [FIELD_BOOL] = "true or false",
        [FIELD_ANSWER] = "true or false",
        [FIELD_WORD] = "a string",
        [FIELD_ENUM] = "a string",
        [FIELD_TIME] = "a time such as \"2026-11-21T08:00:00Z\"",
        [FIELD_OBJECT] = "an object",
    };
    char want[120] = "";

    if (f->kind == FIELD_TEXT)
        text_add(want, sizeof want, "a string of %.0f..%zu bytes", f->min, text_max(f));
    else if (f->kind == FIELD_LIST)
        text_add(want, sizeof want, "a list of %s",
                 f->fields[0].key[0]               ? "objects"
                 : f->fields[0].kind == FIELD_TEXT ? "strings"
                                                   : "numbers");
    else
        text_add(want, sizeof want, "%s", is_integer(f) ? "a whole number" : kinds[f->kind]);
    if (f->kind <= FIELD_DOUBLE && (f->min != 0 || f->max != 0))
        text_add(want, sizeof want,
                 f->flags & FIELD_ABOVE ? " above %.16g, at most %.16g" : " in %.16g..%.16g",
                 f->min, f->max);
    for (int i = 0; f->kind == FIELD_INT && f->words && f->words[i]; i++)
        text_add(want, sizeof want, " or \"%s\"", f->words[i]);
    return err_set(err, ERR_INVALID, "%s: must be %s, found %s", name, want,
                   json_kind_name(json_kind_of(v)));
}

static enum err_code read_number(const struct field *f, const char *name, double d, void *place,
                                 struct err *err)
{
    bool is_bounded = f->min != 0 || f->max != 0;
    double any = f->kind == FIELD_INT ? (double)INT32_MAX : (double)INFINITY;
    double min = is_bounded ? f->min : -any;
    double max = is_bounded ? f->max : any;

    if (f->flags & FIELD_ABOVE && d == f->min)
        return err_set(err, ERR_INVALID, "%s: must be above %.16g", name, f->min);
    if (!(d >= min && d <= max))
        return err_set(err, ERR_INVALID, "%s: %.16g is not in %.16g..%.16g", name, d, min, max);
    set_number(f, d, place);
    return ERR_OK;
}

static int word_index(const struct field *f, const char *s)
{
    for (int i = 0; f->words[i]; i++)
        if (strcmp(f->words[i], s) == 0)
            return i;
    return -1;
}

static enum err_code read_text(const struct field *f, const char *name, const struct json *v,
                               enum fields_mode mode, void *place, struct err *err)
{
    const char *s = json_string(v, NULL);
    char list[160] = "";
    char *end = NULL;
    double d = NAN;
    int64_t ms;
    int i;

    if (!s)
        return wrong_kind(f, name, v, err);
    switch (f->kind) {
    case FIELD_DECIMAL:
        /* Digits, a point, an exponent; nothing that only strtod takes ("inf", "0x1"). */
        if (*s && strlen(s) < DECIMAL_BYTES && strspn(s, "0123456789.eE+-") == strlen(s))
            d = strtod(s, &end);
        if (!end || *end || !isfinite(d))
            return err_set(err, ERR_INVALID, "%s: \"%.40s\" is not a decimal number", name, s);
        return read_number(f, name, d, place, err);
    case FIELD_TIME:
        if (clock_parse(s, &ms, NULL) != ERR_OK)
            return err_set(err, ERR_INVALID,
                           "%s: \"%.40s\" is not a time such as \"2026-11-21T08:00:00Z\"", name, s);
        *(int64_t *)place = ms;
        return ERR_OK;
    case FIELD_WORD:
    case FIELD_ENUM:
        i = word_index(f, s);
        if (i < 0) {
            for (i = 0; f->words[i]; i++)
                text_add(list, sizeof list, "%s%s", i ? ", " : "", f->words[i]);
            return err_set(err, ERR_INVALID, "%s: \"%.40s\" is not one of %s", name, s, list);
        }
        if (f->kind == FIELD_ENUM) {
            *(int *)place = i;
            return ERR_OK;
        }
        break;
    default:
        if (strlen(s) < (size_t)f->min || (strlen(s) > text_max(f) && mode != FIELDS_TOLERANT))
            return err_set(err, ERR_INVALID,
                           "%s: must be a string of %.0f..%zu bytes, found one of %zu", name,
                           f->min, text_max(f), strlen(s));
    }
    (void)snprintf(place, f->bytes, "%s", s);
    return ERR_OK;
}

/* Does the last entry repeat a unique text of another? */
static bool is_repeated(const struct field *f, const char *entries, int last,
                        const struct field **out_which)
{
    const char *entry = entries + (size_t)last * f->entry_bytes;

    for (const struct field *e = f->fields; e->kind != FIELD_END; e++) {
        if (!(e->flags & FIELD_UNIQUE) || entry[e->offset] == '\0')
            continue;
        for (int i = 0; i < last; i++) {
            *out_which = e;
            if (strcmp(entries + (size_t)i * f->entry_bytes + e->offset, entry + e->offset) == 0)
                return true;
        }
    }
    return false;
}

static enum err_code read_list(const struct field *f, const char *name, const struct json *v,
                               enum fields_mode mode, char *out, struct err *err)
{
    char *entries = out + f->offset;
    int max = entries_max(f);
    int n = 0;

    if (json_kind_of(v) != JSON_ARRAY)
        return wrong_kind(f, name, v, err);
    if (mode != FIELDS_TOLERANT && (json_count(v) < (size_t)f->min || json_count(v) > (size_t)max))
        return err_set(err, ERR_INVALID, "%s: must have %.0f..%d entries, found %zu", name, f->min,
                       max, json_count(v));
    for (const struct json *e = json_first(v); e && n < max; e = json_next(e)) {
        char *entry = entries + (size_t)n * f->entry_bytes;
        const struct field *which;
        char path[PATH_BYTES];
        enum err_code rc;

        (void)snprintf(path, sizeof path, "%s[%d]", name, n);
        memset(entry, 0, f->entry_bytes);
        rc = fields_read(f->fields, e, mode, path, entry, err);
        if (rc == ERR_OK && is_repeated(f, entries, n, &which))
            rc = err_set(err, ERR_INVALID, "%s%s%s: \"%.60s\" is given twice", path,
                         which->key[0] ? "." : "", which->key, entry + which->offset);
        if (rc == ERR_OK)
            n++;
        else if (mode != FIELDS_TOLERANT)
            return rc;
    }
    *(int *)(void *)(out + f->count_offset) = n;
    return ERR_OK;
}

static enum err_code read_hash(const char *name, const struct json *v, uint64_t *out,
                               struct err *err)
{
    char *text = json_print(v);

    if (!text)
        return err_set(err, ERR_NO_MEMORY, "no memory to read %s", name);
    *out = hash_text(text);
    free(text);
    return ERR_OK;
}

static enum err_code read_value(const struct field *f, const char *name, const struct json *v,
                                enum fields_mode mode, char *out, struct err *err)
{
    void *place = out + f->offset;
    enum err_code rc;

    if (f->kind == FIELD_INT && f->words && word_index(f, json_string(v, "")) >= 0) {
        set_number(f, word_index(f, json_string(v, "")), place);
        return ERR_OK;
    }
    if (f->kind <= FIELD_DOUBLE) {
        if (json_kind_of(v) != JSON_NUMBER || (is_integer(f) && !json_is_i64(v)))
            return wrong_kind(f, name, v, err);
        return read_number(f, name, json_double(v, 0), place, err);
    }
    switch (f->kind) {
    case FIELD_BOOL:
    case FIELD_ANSWER:
        if (json_kind_of(v) != JSON_BOOL)
            return wrong_kind(f, name, v, err);
        set_number(f, json_bool(v, false) ? 1 : f->kind == FIELD_ANSWER ? 2 : 0, place);
        return ERR_OK;
    case FIELD_LIST:
        return read_list(f, name, v, mode, out, err);
    case FIELD_OBJECT:
        rc = fields_read(f->fields, v, mode, name, place, err);
        if (rc != ERR_OK && mode == FIELDS_TOLERANT)
            memset(place, 0, f->bytes);
        return rc;
    case FIELD_HASH:
        return read_hash(name, v, place, err);
    default:
        return read_text(f, name, v, mode, place, err);
    }
}

/* Our own text, so it is not checked. */
static void take_fallback(const struct field *f, void *place)
{
    if (f->kind == FIELD_ENUM)
        *(int *)place = word_index(f, f->fallback);
    else if (f->kind == FIELD_BOOL)
        *(bool *)place = strcmp(f->fallback, "true") == 0;
    else if (f->kind <= FIELD_DECIMAL)
        set_number(f, strtod(f->fallback, NULL), place);
    else
        (void)snprintf(place, f->bytes, "%s", f->fallback);
}

/* `path` leads from the table's object to `object`; "" for itself. */
static enum err_code refuse_unknown(const struct field *fields, const struct json *object,
                                    const char *name, const char *path, struct err *err)
{
    for (const struct json *v = json_first(object); v; v = json_next(v)) {
        const struct field *f = fields; /* the one with this path, or one below it */
        char below[PATH_BYTES];
        enum err_code rc;
        size_t n;

        (void)snprintf(below, sizeof below, "%s%s%.60s", path, *path ? "." : "", json_key(v));
        n = strlen(below);
        while (f->kind != FIELD_END &&
               (strncmp(f->key, below, n) != 0 || (f->key[n] != '\0' && f->key[n] != '.')))
            f++;
        /* A dot inside a key would look like a path that is known and then not be found. */
        if (strchr(json_key(v), '.') || f->kind == FIELD_END)
            return err_set(err, ERR_INVALID, "%s.%s: there is no such field", name, below);
        if (f->key[n] == '\0' || json_kind_of(v) == JSON_NULL)
            continue;
        if (json_kind_of(v) != JSON_OBJECT)
            return err_set(err, ERR_INVALID, "%s.%s: must be an object, found %s", name, below,
                           json_kind_name(json_kind_of(v)));
        rc = refuse_unknown(fields, v, name, below, err);
        if (rc != ERR_OK)
            return rc;
    }
    return ERR_OK;
}

enum err_code fields_read(const struct field *fields, const struct json *json,
                          enum fields_mode mode, const char *name, void *out, struct err *err)
{
    bool is_entry = fields[0].kind != FIELD_END && fields[0].key[0] == '\0';
    enum err_code rc = ERR_OK;

    if (!is_entry && json_kind_of(json) != JSON_OBJECT)
        return err_set(err, ERR_INVALID, "%s%smust be an object, found %s", name, *name ? ": " : "",
                       json_kind_name(json_kind_of(json)));
    if (!is_entry && mode == FIELDS_CLOSED)
        rc = refuse_unknown(fields, json, name, "", err);
    for (const struct field *f = fields; f->kind != FIELD_END && rc == ERR_OK; f++) {
        const struct json *v = is_entry ? json : json_path(json, f->key);
        bool is_missing = json_kind_of(v) == JSON_ABSENT || json_kind_of(v) == JSON_NULL;
        char path[PATH_BYTES];

        (void)snprintf(path, sizeof path, "%s%s%s", name, *name && !is_entry ? "." : "", f->key);
        if (!is_missing)
            rc = read_value(f, path, v, mode, out, err);
        else if (f->flags & FIELD_REQUIRED)
            rc = err_set(err, ERR_INVALID, "%s: missing", path);
        if (rc != ERR_OK && mode == FIELDS_TOLERANT && !(f->flags & FIELD_REQUIRED)) {
            rc = ERR_OK;
            is_missing = true;
        }
        if (rc == ERR_OK && is_missing && f->fallback)
            take_fallback(f, (char *)out + f->offset);
    }
    return rc;
}

enum err_code fields_parse(const struct field *fields, const char *text, size_t len,
                           enum fields_mode mode, void *out, struct err *err)
{
    struct json *root = NULL;
    enum err_code rc = json_parse(text, len, &root, err);

    if (rc == ERR_OK)
        rc = fields_read(fields, root, mode, "", out, err);
    json_free(root);
    return rc;
}

/* --- to JSON --- */

static int count_of(const struct field *f, const char *from)
{
    int n = *(const int *)(const void *)(from + f->count_offset);

    return n < entries_max(f) ? n : entries_max(f);
}

static bool is_empty(const struct field *f, const char *from)
{
    const void *place = from + f->offset;
    bool has_any = false;
    double d;

    switch (f->kind) {
    case FIELD_TEXT:
    case FIELD_WORD:
        return *(const char *)place == '\0';
    case FIELD_ENUM:
        return f->words[*(const int *)place][0] == '\0';
    case FIELD_LIST:
        return count_of(f, from) <= 0;
    case FIELD_OBJECT:
        for (const struct field *e = f->fields; e->kind != FIELD_END; e++) {
            /* Zero is a figure like others where the bounds admit it. */
            bool may_be_zero = e->kind == FIELD_DOUBLE && !(e->flags & FIELD_ABOVE) &&
                               isfinite(number_of(e, (const char *)place + e->offset));

            if (!is_empty(e, place))
                has_any = true;
            else if (e->flags & FIELD_REQUIRED && !may_be_zero)
                return true;
        }
        return !has_any;
    default:
        d = number_of(f, place);
        return !isfinite(d) || d == (f->fallback ? strtod(f->fallback, NULL) : 0);
    }
}

static void write_value(const struct field *f, const char *key, const char *from, struct jsonw *w)
{
    bool has_objects = f->kind == FIELD_LIST && f->fields[0].key[0] != '\0';
    const void *place = from + f->offset;
    char text[512];

    switch (f->kind) {
    case FIELD_END:
    case FIELD_HASH: /* what it was made of is not here */
        break;
    case FIELD_INT64: /* a double has only 53 bits */
        jsonw_int(w, key, *(const int64_t *)place);
        break;
    case FIELD_INT:
    case FIELD_MILLISECONDS:
    case FIELD_MICROSECONDS:
        jsonw_int(w, key, (int64_t)number_of(f, place));
        break;
    case FIELD_DOUBLE:
    case FIELD_DECIMAL:
        (void)snprintf(text, sizeof text, "%.*g", f->flags & FIELD_SHORT ? 6 : 17,
                       number_of(f, place));
        if (f->kind == FIELD_DOUBLE)
            jsonw_double(w, key, strtod(text, NULL));
        else
            jsonw_string(w, key, text);
        break;
    case FIELD_BOOL:
    case FIELD_ANSWER:
        jsonw_bool(w, key, number_of(f, place) == 1);
        break;
    case FIELD_TEXT:
    case FIELD_WORD:
        if (f->flags & FIELD_LINE) {
            (void)snprintf(text, sizeof text, "%s", (const char *)place);
            for (char *c = text; *c; c++)
                if ((unsigned char)*c < ' ')
                    *c = ' ';
            place = text;
        }
        jsonw_string(w, key, place);
        break;
    case FIELD_ENUM:
        jsonw_string(w, key, f->words[*(const int *)place]);
        break;
    case FIELD_TIME:
        clock_format(*(const int64_t *)place, text);
        jsonw_string(w, key, text);
        break;
    case FIELD_OBJECT:
        jsonw_open_object(w, key);
        fields_write(f->fields, place, w);
        jsonw_close(w);
        break;
    case FIELD_LIST:
        jsonw_open_array(w, key);
        for (int i = 0; i < count_of(f, from); i++) {
            if (has_objects)
                jsonw_open_object(w, NULL);
            fields_write(f->fields, from + f->offset + (size_t)i * f->entry_bytes, w);
            if (has_objects)
                jsonw_close(w);
        }
        jsonw_close(w);
        break;
    }
}

void fields_write(const struct field *fields, const void *from, struct jsonw *w)
{
    for (const struct field *f = fields; f->kind != FIELD_END; f++) {
        bool may_lack = f->flags & (FIELD_OMIT | FIELD_NULL) || f->kind == FIELD_ANSWER;
        const char *key = f->key[0] ? f->key : NULL;

        if (!may_lack || !is_empty(f, from))
            write_value(f, key, from, w);
        else if (f->flags & FIELD_NULL)
            jsonw_null(w, key);
    }
}

enum err_code fields_print(const struct field *fields, const void *from, struct buf *out,
                           struct err *err)
{
    struct jsonw w;

    jsonw_init(&w, out);
    jsonw_open_object(&w, NULL);
    fields_write(fields, from, &w);
    jsonw_close(&w);
    return jsonw_finish(&w, err);
}
