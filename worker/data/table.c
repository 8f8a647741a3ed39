#include "data/table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "text/lines.h"

#define LIST_BYTES  120 /* of a list of names in an error */
#define SCORE_BYTES 64  /* of a number, with the NUL */

enum column { TEXT, PAIR, LABEL, N_COLUMNS };

struct field {
    const char *text; /* borrowed from the line; NULL: not there */
    size_t len;
};

struct table {
    struct lines *lines;
    const struct layout *layout;
    const struct layout_split *split;
    struct layout_column columns[N_COLUMNS]; /* of the split, to walk over */
    bool is_json;
    bool is_csv;
    uint64_t end;   /* of a thinned CSV file: rows from here on are left out; 0: none */
    char *unquoted; /* fields of a CSV row without their quotes */
    size_t unquoted_bytes;
    int n_columns;         /* of every row; 0: not known yet */
    int places[N_COLUMNS]; /* where each column is; -1: nowhere */
    int64_t n_unlabelled;
    int64_t n_broken;
    struct json *object; /* of the row that was handed out last */
    char number[24];     /* a label that is a number in JSON, as text */
};

static long long line_of(const struct table *t)
{
    return lines_number(t->lines);
}

static const char *path_of(const struct table *t)
{
    return lines_path(t->lines);
}

static bool field_is(struct field f, const char *word)
{
    return f.len == strlen(word) && memcmp(f.text, word, f.len) == 0;
}

static bool has_column(const struct table *t, enum column which)
{
    return t->columns[which].name || t->columns[which].number >= 0;
}

/* For errors: a column's name, or its number as people count. */
static const char *column_name(const struct table *t, enum column which)
{
    static const char *const by_number[N_COLUMNS] = {"the sentence", "the second sentence",
                                                     "the label"};

    return t->columns[which].name ? t->columns[which].name : by_number[which];
}

/* Append to a list of names; what does not fit is left out. */
static void list(char out[static LIST_BYTES], const char *name, size_t len)
{
    text_add(out, LIST_BYTES, "%s%.*s", out[0] ? ", " : "", (int)len, name);
}

/* --- TSV and CSV --- */

/* A field in quotes, from behind the first: without them into `to`, where there is room. Returns
 * its end in `from`, or NULL where the closing quote is missing or is not the field's end. */
static const char *unquote(const char *from, const char *end, char *to, size_t *out_len)
{
    size_t n = 0;

    for (; from < end; from++) {
        if (*from == '"' && (from + 1 == end || from[1] != '"')) {
            *out_len = n;
            return from + 1 == end || from[1] == ',' ? from + 1 : NULL;
        }
        from += *from == '"';
        to[n++] = *from;
    }
    return NULL;
}

/* As split_tabs(); -1: a field in quotes does not end as one. */
static int split_commas(char *unquoted, const char *line, size_t len,
                        struct field out[static TABLE_COLUMNS_MAX])
{
    const char *end = line + len;
    const char *from = line;
    int n = 0;

    for (;;) {
        struct field field = {from, 0};
        const char *next;

        if (from < end && *from == '"') {
            next = unquote(from + 1, end, unquoted, &field.len);
            if (!next)
                return -1;
            field.text = unquoted;
            unquoted += field.len;
        } else {
            next = memchr(from, ',', (size_t)(end - from));
            next = next ? next : end;
            field.len = (size_t)(next - from);
        }
        if (n < TABLE_COLUMNS_MAX)
            out[n] = field;
        n++;
        if (next == end)
            return n;
        from = next + 1;
    }
}

/* Cut the line at its tabs. Returns the number of columns, which may be above TABLE_COLUMNS_MAX. */
static int split_tabs(const char *line, size_t len, struct field out[static TABLE_COLUMNS_MAX])
{
    const char *from = line;
    int n = 0;

    for (;;) {
        size_t left = len - (size_t)(from - line);
        const char *tab = memchr(from, '\t', left);

        if (n < TABLE_COLUMNS_MAX)
            out[n] = (struct field){from, tab ? (size_t)(tab - from) : left};
        n++;
        if (!tab)
            return n;
        from = tab + 1;
    }
}

static enum err_code split_line(struct table *t, const char *line, size_t len,
                                struct field out[static TABLE_COLUMNS_MAX], int *out_n,
                                struct err *err)
{
    if (!t->is_csv) {
        *out_n = split_tabs(line, len, out);
        return ERR_OK;
    }
    if (t->unquoted_bytes < len) {
        char *grown = realloc(t->unquoted, len);

        if (!grown)
            return err_set(err, ERR_NO_MEMORY, "no memory for a row of %zu bytes", len);
        t->unquoted = grown;
        t->unquoted_bytes = len;
    }
    *out_n = split_commas(t->unquoted, line, len, out);
    if (*out_n < 0)
        return err_set(err, ERR_INVALID,
                       "%s line %lld: a field in quotes does not end with one and a comma or the "
                       "line's end; write quotes within it twice",
                       path_of(t), line_of(t));
    return ERR_OK;
}

static enum err_code find_column(struct table *t, enum column which, const struct field *fields,
                                 struct err *err)
{
    const char *name = t->columns[which].name;
    char names[LIST_BYTES] = "";

    t->places[which] = -1;
    for (int i = 0; name && i < t->n_columns; i++) {
        list(names, fields[i].text, fields[i].len < LIST_BYTES ? fields[i].len : LIST_BYTES);
        if (!field_is(fields[i], name))
            continue;
        if (t->places[which] >= 0)
            return err_set(err, ERR_INVALID,
                           "%s line 1: column \"%s\" is there twice; remove or rename one",
                           path_of(t), name);
        t->places[which] = i;
    }
    if (name && t->places[which] < 0)
        return err_set(err, ERR_INVALID,
                       "%s line 1: no column \"%s\"; the first line must name it, or "
                       "%s; it names %s",
                       path_of(t), name,
                       t->layout->task->is_own ? "spec.data.columns another"
                                               : "spec.data.task another task",
                       names);
    return ERR_OK;
}

static enum err_code read_header(struct table *t, struct err *err)
{
    struct field fields[TABLE_COLUMNS_MAX];
    const char *line;
    size_t len;
    bool end;
    enum err_code rc = lines_next(t->lines, &line, &len, &end, err);

    if (rc != ERR_OK)
        return rc;
    if (end)
        return err_set(err, ERR_INVALID, "%s: empty; its first line must name the columns",
                       path_of(t));
    rc = split_line(t, line, len, fields, &t->n_columns, err);
    if (rc == ERR_OK && t->n_columns > TABLE_COLUMNS_MAX)
        rc = err_set(err, ERR_INVALID, "%s line 1: %d columns, above %d; is it a %s file?",
                     path_of(t), t->n_columns, TABLE_COLUMNS_MAX, t->is_csv ? "CSV" : "TSV");
    for (int c = 0; c < N_COLUMNS && rc == ERR_OK; c++)
        rc = find_column(t, (enum column)c, fields, err);
    return rc;
}

/* The columns of a file without a header, by its layout. */
static void take_numbers(struct table *t)
{
    for (int c = 0; c < N_COLUMNS; c++)
        t->places[c] = t->columns[c].number;
}

/* Sets all fields to NULL for a row with another number of columns; *out_n has it then. */
static enum err_code pick_fields(struct table *t, const char *line, size_t len,
                                 struct field out[static N_COLUMNS], int *out_n, struct err *err)
{
    struct field fields[TABLE_COLUMNS_MAX];
    enum err_code rc = split_line(t, line, len, fields, out_n, err);

    memset(out, 0, N_COLUMNS * sizeof *out);
    if (rc != ERR_OK || *out_n > TABLE_COLUMNS_MAX || (t->n_columns > 0 && *out_n != t->n_columns))
        return rc;
    for (int c = 0; c < N_COLUMNS; c++) {
        if (t->places[c] >= 0 && t->places[c] < *out_n)
            out[c] = fields[t->places[c]];
    }
    return ERR_OK;
}

/* Are rows that line ends or tabs broke left out? */
static bool leaves_out_broken(const struct table *t)
{
    return t->layout->is_lenient && !t->split->is_test;
}

/* *out_broken: the row is one that a lenient layout leaves out. */
static enum err_code read_fields(struct table *t, const char *line, size_t len,
                                 struct field out[static N_COLUMNS], bool *out_broken,
                                 struct err *err)
{
    int n;
    enum err_code rc = pick_fields(t, line, len, out, &n, err);

    if (rc != ERR_OK)
        return rc;
    *out_broken = t->n_columns > 0 && n != t->n_columns && leaves_out_broken(t);
    if (*out_broken)
        return ERR_OK;
    if (t->n_columns > 0 && n != t->n_columns)
        return err_set(err, ERR_INVALID,
                       "%s line %lld: %d columns where the first line has %d; is a %s missing, or "
                       "one too many?",
                       path_of(t), line_of(t), n, t->n_columns, t->is_csv ? "comma" : "tab");
    for (int c = 0; c < N_COLUMNS; c++) {
        if (has_column(t, (enum column)c) && !out[c].text)
            return err_set(err, ERR_INVALID,
                           "%s line %lld: %d columns, but %s should be in column %d; is it %s's "
                           "file?",
                           path_of(t), line_of(t), n, column_name(t, (enum column)c),
                           t->places[c] + 1, t->layout->task->name);
    }
    t->n_columns = n;
    return ERR_OK;
}

/* --- JSON --- */

static enum err_code wrong_member(const struct table *t, enum column which, const char *wanted,
                                  struct err *err)
{
    char names[LIST_BYTES] = "";

    for (const struct json *m = json_first(t->object); m; m = json_next(m))
        list(names, json_key(m), strlen(json_key(m)));
    return err_set(err, ERR_INVALID,
                   "%s line %lld: \"%s\" must be there and be %s; the object has %s", path_of(t),
                   line_of(t), t->columns[which].name, wanted, names);
}

/* The text of a label; a number counts as its digits. */
static const char *label_text(struct table *t, const struct json *v)
{
    if (!json_is_i64(v))
        return json_string(v, NULL);
    (void)snprintf(t->number, sizeof t->number, "%lld", (long long)json_i64(v, 0));
    return t->number;
}

static enum err_code read_json(struct table *t, const char *line, size_t len,
                               struct field out[static N_COLUMNS], struct err *err)
{
    enum err_code rc;

    memset(out, 0, N_COLUMNS * sizeof *out);
    json_free(t->object);
    t->object = NULL;
    rc = json_parse(line, len, &t->object, err);
    if (rc != ERR_OK)
        return err_wrap(err, rc, "%s line %lld", path_of(t), line_of(t));
    if (json_kind_of(t->object) != JSON_OBJECT)
        return err_set(err, ERR_INVALID, "%s line %lld: not a JSON object; write one per line",
                       path_of(t), line_of(t));
    for (int c = 0; c < N_COLUMNS; c++) {
        const struct json *v;
        const char *text;

        if (!has_column(t, (enum column)c))
            continue;
        v = json_get(t->object, t->columns[c].name);
        text = c == LABEL ? label_text(t, v) : json_string(v, NULL);
        if (c == LABEL && t->layout->n_labels == 0) {
            if (json_kind_of(v) != JSON_NUMBER)
                return wrong_member(t, LABEL, "a number", err);
            continue; /* read_score() takes it from the object */
        }
        if (!text)
            return wrong_member(t, (enum column)c,
                                c == LABEL ? "a string or a whole number" : "a string", err);
        out[c] = (struct field){text, strlen(text)};
    }
    return ERR_OK;
}

/* --- rows --- */

/* Only spaces, or nothing at all. */
static bool is_blank(struct field f)
{
    size_t i = 0;

    while (i < f.len && f.text[i] == ' ')
        i++;
    return i == f.len;
}

static enum err_code read_label(const struct table *t, struct field f, int *out, struct err *err)
{
    char names[LIST_BYTES] = "";

    for (int i = 0; i < t->layout->n_labels; i++) {
        if (field_is(f, t->layout->labels[i])) {
            *out = i;
            return ERR_OK;
        }
        list(names, t->layout->labels[i], strlen(t->layout->labels[i]));
    }
    return err_set(err, ERR_INVALID,
                   "%s line %lld: %s \"%.*s\" is not one of %s; correct it or remove the line",
                   path_of(t), line_of(t), column_name(t, LABEL), f.len < 40 ? (int)f.len : 40,
                   f.text, names);
}

static enum err_code read_score(const struct table *t, struct field f, float *out, struct err *err)
{
    char text[SCORE_BYTES] = "";
    char *end = text;
    double score;

    if (t->is_json) {
        score = json_double(json_get(t->object, t->columns[LABEL].name), 0);
    } else {
        if (f.len < SCORE_BYTES)
            memcpy(text, f.text, f.len);
        score = strspn(text, "0123456789+-.eE") == f.len ? strtod(text, &end) : 0;
    }
    if ((!t->is_json && (end == text || *end)) || !isfinite((float)score))
        return err_set(err, ERR_INVALID,
                       "%s line %lld: %s \"%.*s\" is not a number; correct it or remove the line",
                       path_of(t), line_of(t), column_name(t, LABEL), f.len < 40 ? (int)f.len : 40,
                       f.text ? f.text : "");
    *out = (float)score;
    return ERR_OK;
}

static void take_texts(const struct field *f, struct table_row *out)
{
    *out = (struct table_row){.text = f[TEXT].text,
                              .text_bytes = f[TEXT].len,
                              .pair = f[PAIR].text,
                              .pair_bytes = f[PAIR].len};
}

static enum err_code read_row(const struct table *t, const struct field *f, struct table_row *out,
                              struct err *err)
{
    struct table_row row;
    enum err_code rc = ERR_OK;

    take_texts(f, &row);
    row.offset = lines_offset(t->lines);
    for (int c = TEXT; c <= PAIR; c++) {
        if (has_column(t, (enum column)c) && is_blank(f[c]) && !t->layout->is_lenient)
            return err_set(err, ERR_INVALID,
                           "%s line %lld: %s is empty; fill it in or remove the line", path_of(t),
                           line_of(t), column_name(t, (enum column)c));
    }
    if (has_column(t, LABEL))
        rc = t->layout->n_labels > 0 ? read_label(t, f[LABEL], &row.label, err)
                                     : read_score(t, f[LABEL], &row.score, err);
    if (rc == ERR_OK)
        *out = row;
    return rc;
}

/* The next line that is not empty. Empty ones are fine only at the end. */
static enum err_code next_line(struct table *t, const char **out_line, size_t *out_len,
                               bool *out_end, struct err *err)
{
    long long first = 0; /* number of the first empty one */
    int64_t n = 0;

    for (;;) {
        enum err_code rc = lines_next(t->lines, out_line, out_len, out_end, err);

        if (rc != ERR_OK || *out_end)
            return rc;
        *out_end = t->end > 0 && lines_offset(t->lines) >= t->end;
        if (*out_end)
            return ERR_OK;
        if (*out_len > 0)
            break;
        if (n++ == 0)
            first = line_of(t);
    }
    if (n > 0 && !leaves_out_broken(t))
        return err_set(err, ERR_INVALID, "%s line %lld: empty; remove the line", path_of(t), first);
    t->n_broken += n;
    return ERR_OK;
}

enum err_code table_open(const char *path, const struct layout *layout,
                         const struct layout_split *split, struct table **out, struct err *err)
{
    struct table *t = calloc(1, sizeof *t);
    enum err_code rc;

    if (!t)
        return err_set(err, ERR_NO_MEMORY, "no memory to read %s", path);
    t->layout = layout;
    t->split = split;
    t->columns[TEXT] = split->text;
    t->columns[PAIR] = split->pair;
    t->columns[LABEL] = split->label;
    t->is_json = layout_is_json(split);
    t->is_csv = layout_is_csv(split);
    rc = lines_open(path, &t->lines, err);
    if (rc == ERR_OK && t->is_csv)
        lines_quote(t->lines);
    if (rc == ERR_OK && !t->is_json) {
        if (split->has_header)
            rc = read_header(t, err);
        else
            take_numbers(t);
    }
    if (rc != ERR_OK) {
        table_close(t);
        return rc;
    }
    *out = t;
    return ERR_OK;
}

enum err_code table_next(struct table *t, struct table_row *out, bool *out_end, struct err *err)
{
    struct field fields[N_COLUMNS];
    const char *line;
    size_t len;

    for (;;) {
        bool is_broken = false;
        enum err_code rc = next_line(t, &line, &len, out_end, err);

        if (rc != ERR_OK || *out_end)
            return rc;
        rc = t->is_json ? read_json(t, line, len, fields, err)
                        : read_fields(t, line, len, fields, &is_broken, err);
        if (rc != ERR_OK)
            return rc;
        if (is_broken)
            t->n_broken++;
        else if (t->layout->no_label && fields[LABEL].text &&
                 field_is(fields[LABEL], t->layout->no_label))
            t->n_unlabelled++;
        else
            return read_row(t, fields, out, err);
    }
}

enum err_code table_at(struct table *t, uint64_t offset, struct table_row *out, struct err *err)
{
    struct field fields[N_COLUMNS] = {{0}};
    const char *line;
    size_t len;
    enum err_code rc = ERR_OK;
    int n;

    (void)lines_at(t->lines, offset, &line, &len);
    if (t->is_json)
        rc = read_json(t, line, len, fields, err);
    else
        rc = pick_fields(t, line, len, fields, &n, err);
    if (rc != ERR_OK || !fields[TEXT].text || (has_column(t, PAIR) && !fields[PAIR].text))
        return err_set(err, ERR_INVALID,
                       "%s changed since it was checked; leave it alone while the job runs",
                       path_of(t));
    take_texts(fields, out);
    return ERR_OK;
}

void table_thin(struct table *t, size_t most_bytes)
{
    if (t->is_csv)
        t->end = most_bytes;
    else
        lines_thin(t->lines, most_bytes);
}

void table_settle(const struct table *t)
{
    lines_settle(t->lines);
}

int64_t table_unlabelled(const struct table *t)
{
    return t->n_unlabelled;
}

int64_t table_broken(const struct table *t)
{
    return t->n_broken;
}

void table_close(struct table *t)
{
    if (!t)
        return;
    lines_close(t->lines);
    json_free(t->object);
    free(t->unquoted);
    free(t);
}
