#include "data/table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

#define LIST_BYTES  120 /* of a list of names in an error */
#define SCORE_BYTES 64  /* of a number, with the NUL */

/* What a row has in one column. */
struct cell {
    const char *text; /* borrowed; NULL: not there */
    size_t len;
};

static bool cell_is(struct cell f, const char *word)
{
    return f.len == strlen(word) && memcmp(f.text, word, f.len) == 0;
}

static bool has_column(const struct table *t, enum table_column which)
{
    return t->columns[which].name || t->columns[which].number >= 0;
}

/* A column's name in errors. */
static const char *column_name(const struct table *t, enum table_column which)
{
    static const char *const by_number[TABLE_COLUMNS] = {"the sentence", "the second sentence",
                                                         "the label"};

    return t->columns[which].name ? t->columns[which].name : by_number[which];
}

/* Append to a list of names, which may be cut off. */
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

/* Cut a line at its tabs or commas. *out_n, the number of cells, may be above TABLE_CELLS_MAX. */
static enum err_code split_line(struct table *t, const char *line, size_t len,
                                struct cell out[static TABLE_CELLS_MAX], int *out_n,
                                struct err *err)
{
    const char *end = line + len;
    const char *from = line;
    const char *next;
    char *unquoted;
    int n = 0;
    enum err_code rc = array_reserve(&t->unquoted, 1, &t->unquoted_cap, t->is_csv ? len : 0, err);

    if (rc != ERR_OK)
        return rc;
    unquoted = t->unquoted;
    do {
        struct cell cell = {from, 0};

        if (t->is_csv && from < end && *from == '"') {
            next = unquote(from + 1, end, unquoted, &cell.len);
            if (!next)
                return lines_refuse(&t->lines, err,
                                    "a quoted field must end with a quote and a comma or line end; "
                                    "double the quotes within it");
            cell.text = unquoted;
            unquoted += cell.len;
        } else {
            next = memchr(from, t->is_csv ? ',' : '\t', (size_t)(end - from));
            next = next ? next : end;
            cell.len = (size_t)(next - from);
        }
        if (n < TABLE_CELLS_MAX)
            out[n] = cell;
        n++;
        from = next == end ? end : next + 1;
    } while (next != end);
    *out_n = n;
    return ERR_OK;
}

static enum err_code read_header(struct table *t, struct err *err)
{
    struct cell fields[TABLE_CELLS_MAX];
    const char *line;
    size_t len;
    bool end;
    enum err_code rc = lines_next(&t->lines, &line, &len, &end, err);

    if (rc != ERR_OK)
        return rc;
    if (end)
        return err_set(err, ERR_INVALID, "%s: empty; its first line must name the columns",
                       t->lines.path);
    rc = split_line(t, line, len, fields, &t->n_columns, err);
    if (rc == ERR_OK && t->n_columns > TABLE_CELLS_MAX)
        rc = lines_refuse(&t->lines, err, "%d columns, more than %d; is it a %s file?",
                          t->n_columns, TABLE_CELLS_MAX, t->is_csv ? "CSV" : "TSV");
    for (int c = 0; c < TABLE_COLUMNS && rc == ERR_OK; c++) {
        const char *name = t->columns[c].name;
        char names[LIST_BYTES] = "";

        t->places[c] = -1;
        for (int i = 0; name && i < t->n_columns; i++) {
            list(names, fields[i].text, fields[i].len < LIST_BYTES ? fields[i].len : LIST_BYTES);
            if (!cell_is(fields[i], name))
                continue;
            if (t->places[c] >= 0)
                return lines_refuse(&t->lines, err,
                                    "column \"%s\" appears twice; remove or rename one", name);
            t->places[c] = i;
        }
        if (name && t->places[c] < 0)
            rc = lines_refuse(&t->lines, err,
                              "no column \"%s\"; the first line must name it, or %s; it names %s",
                              name,
                              t->layout->task->is_own ? "spec.data.columns another"
                                                      : "spec.data.task another task",
                              names);
    }
    return rc;
}

/* *out_broken: the row is one that a lenient layout leaves out. */
static enum err_code read_fields(struct table *t, const char *line, size_t len,
                                 struct cell out[static TABLE_COLUMNS], bool *out_broken,
                                 struct err *err)
{
    struct cell cells[TABLE_CELLS_MAX];
    int n;
    enum err_code rc = split_line(t, line, len, cells, &n, err);

    if (rc != ERR_OK)
        return rc;
    *out_broken = t->n_columns > 0 && n != t->n_columns && t->skips_broken;
    if (*out_broken)
        return ERR_OK;
    if (t->n_columns > 0 && n != t->n_columns)
        return lines_refuse(&t->lines, err,
                            "%d columns where the first line has %d; is a %s missing, or one too "
                            "many?",
                            n, t->n_columns, t->is_csv ? "comma" : "tab");
    for (int c = 0; c < TABLE_COLUMNS; c++) {
        int place = t->places[c];

        if (has_column(t, (enum table_column)c) && (place >= n || n > TABLE_CELLS_MAX))
            return lines_refuse(
                &t->lines, err, "%d columns, but %s should be in column %d; is it %s's file?", n,
                column_name(t, (enum table_column)c), place + 1, t->layout->task->name);
        if (place >= 0 && has_column(t, (enum table_column)c))
            out[c] = cells[place];
    }
    t->n_columns = n;
    return ERR_OK;
}

/* --- JSON --- */

static enum err_code wrong_member(const struct table *t, enum table_column which,
                                  const char *wanted, struct err *err)
{
    char names[LIST_BYTES] = "";

    for (const struct json *m = json_first(t->object); m; m = json_next(m))
        list(names, json_key(m), strlen(json_key(m)));
    return lines_refuse(&t->lines, err, "member \"%s\" must be %s; the object has %s",
                        t->columns[which].name, wanted, names);
}

static enum err_code read_json(struct table *t, const char *line, size_t len,
                               struct cell out[static TABLE_COLUMNS], struct err *err)
{
    enum err_code rc;

    json_free(t->object);
    t->object = NULL;
    rc = json_parse(line, len, &t->object, err);
    if (rc != ERR_OK)
        return err_wrap(err, rc, "%s line %lld", t->lines.path, (long long)lines_number(&t->lines));
    if (json_kind_of(t->object) != JSON_OBJECT)
        return lines_refuse(&t->lines, err, "not a JSON object; write one per line");
    for (int c = 0; c < TABLE_COLUMNS; c++) {
        const struct json *v;
        const char *text;

        if (!has_column(t, (enum table_column)c))
            continue;
        v = json_get(t->object, t->columns[c].name);
        text = json_string(v, NULL);
        if (c == TABLE_LABEL && json_is_i64(v)) { /* counts as its digits */
            (void)snprintf(t->number, sizeof t->number, "%lld", (long long)json_i64(v, 0));
            text = t->number;
        }
        if (c == TABLE_LABEL && t->layout->n_labels == 0) {
            if (json_kind_of(v) != JSON_NUMBER)
                return wrong_member(t, TABLE_LABEL, "a number", err);
            continue; /* read_score() takes it from the object */
        }
        if (!text)
            return wrong_member(t, (enum table_column)c,
                                c == TABLE_LABEL ? "a string or a whole number" : "a string", err);
        out[c] = (struct cell){text, strlen(text)};
    }
    return ERR_OK;
}

/* --- rows --- */

static enum err_code read_label(const struct table *t, struct cell f, int *out, struct err *err)
{
    char names[LIST_BYTES] = "";

    for (int i = 0; i < t->layout->n_labels; i++) {
        if (cell_is(f, t->layout->labels[i])) {
            *out = i;
            return ERR_OK;
        }
        list(names, t->layout->labels[i], strlen(t->layout->labels[i]));
    }
    return lines_refuse(&t->lines, err,
                        "%s \"%.*s\" is not one of %s; correct it or remove the line",
                        column_name(t, TABLE_LABEL), f.len < 40 ? (int)f.len : 40, f.text, names);
}

static enum err_code read_score(const struct table *t, struct cell f, float *out, struct err *err)
{
    char text[SCORE_BYTES] = "";
    char *end = text;
    double score;

    if (t->is_json) {
        score = json_double(json_get(t->object, t->columns[TABLE_LABEL].name), 0);
    } else {
        if (f.len < SCORE_BYTES)
            memcpy(text, f.text, f.len);
        score = strspn(text, "0123456789+-.eE") == f.len ? strtod(text, &end) : 0;
    }
    if ((!t->is_json && (end == text || *end)) || !isfinite((float)score))
        return lines_refuse(
            &t->lines, err, "%s \"%.*s\" is not a number; correct it or remove the line",
            column_name(t, TABLE_LABEL), f.len < 40 ? (int)f.len : 40, f.text ? f.text : "");
    *out = (float)score;
    return ERR_OK;
}

/* What the columns of a line have; NULL for a column that there is not. *out_broken as above. */
static enum err_code read_cells(struct table *t, const char *line, size_t len,
                                struct cell out[static TABLE_COLUMNS], bool *out_broken,
                                struct err *err)
{
    memset(out, 0, TABLE_COLUMNS * sizeof *out);
    *out_broken = false;
    return t->is_json ? read_json(t, line, len, out, err)
                      : read_fields(t, line, len, out, out_broken, err);
}

static struct table_row row_of(const struct cell *cells)
{
    return (struct table_row){.text = cells[TABLE_TEXT].text,
                              .text_bytes = cells[TABLE_TEXT].len,
                              .pair = cells[TABLE_PAIR].text,
                              .pair_bytes = cells[TABLE_PAIR].len};
}

/* The next line that is not empty. Empty ones are fine only at the end. */
static enum err_code next_line(struct table *t, const char **out_line, size_t *out_len,
                               bool *out_end, struct err *err)
{
    struct lines first = t->lines; /* of the empty ones */
    int64_t n = 0;

    for (;; n++) {
        enum err_code rc = lines_next(&t->lines, out_line, out_len, out_end, err);

        if (rc != ERR_OK || *out_end)
            return rc;
        *out_end = t->end > 0 && t->lines.offset >= t->end;
        if (*out_end)
            return ERR_OK;
        if (*out_len > 0)
            break;
        if (n == 0)
            first = t->lines;
    }
    if (n > 0 && !t->skips_broken)
        return lines_refuse(&first, err, "empty; remove the line");
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
    t->columns[TABLE_TEXT] = split->text;
    t->columns[TABLE_PAIR] = split->pair;
    t->columns[TABLE_LABEL] = split->label;
    t->is_json = layout_ends_in(split, LAYOUT_JSON);
    t->is_csv = layout_ends_in(split, LAYOUT_CSV);
    t->skips_broken = layout->is_lenient && !split->is_test;
    for (int c = 0; c < TABLE_COLUMNS; c++)
        t->places[c] = t->columns[c].number; /* unless a header has their names */
    rc = lines_open(path, &t->lines, err);
    t->lines.is_quoted = t->is_csv;
    if (rc == ERR_OK && !t->is_json && split->has_header)
        rc = read_header(t, err);
    if (rc != ERR_OK) {
        table_close(t);
        return rc;
    }
    *out = t;
    return ERR_OK;
}

enum err_code table_next(struct table *t, struct table_row *out, bool *out_end, struct err *err)
{
    struct cell cells[TABLE_COLUMNS];
    struct table_row row;
    bool is_broken;
    enum err_code rc;

    for (;;) {
        const char *line;
        size_t len;

        rc = next_line(t, &line, &len, out_end, err);
        if (rc != ERR_OK || *out_end)
            return rc;
        rc = read_cells(t, line, len, cells, &is_broken, err);
        if (rc != ERR_OK)
            return rc;
        if (is_broken)
            t->n_broken++;
        else if (t->layout->no_label && cells[TABLE_LABEL].text &&
                 cell_is(cells[TABLE_LABEL], t->layout->no_label))
            t->n_unlabelled++;
        else
            break;
    }
    row = row_of(cells);
    row.offset = t->lines.offset;
    for (int c = TABLE_TEXT; c <= TABLE_PAIR; c++) {
        if (has_column(t, (enum table_column)c) && lines_is_blank(cells[c].text, cells[c].len) &&
            !t->layout->is_lenient)
            return lines_refuse(&t->lines, err, "%s is empty; fill it in or remove the line",
                                column_name(t, (enum table_column)c));
    }
    if (has_column(t, TABLE_LABEL))
        rc = t->layout->n_labels > 0 ? read_label(t, cells[TABLE_LABEL], &row.label, err)
                                     : read_score(t, cells[TABLE_LABEL], &row.score, err);
    if (rc == ERR_OK)
        *out = row;
    return rc;
}

enum err_code table_at(struct table *t, uint64_t offset, struct table_row *out, struct err *err)
{
    struct cell cells[TABLE_COLUMNS];
    const char *line;
    size_t len;
    bool is_broken;
    enum err_code rc;

    (void)lines_at(&t->lines, offset, &line, &len);
    rc = read_cells(t, line, len, cells, &is_broken, err);
    if (rc == ERR_NO_MEMORY)
        return rc;
    if (rc != ERR_OK || is_broken)
        return lines_changed(&t->lines, err);
    *out = row_of(cells);
    return ERR_OK;
}

void table_thin(struct table *t, size_t most_bytes)
{
    if (t->is_csv)
        t->end = most_bytes;
    else
        lines_thin(&t->lines, most_bytes);
}

void table_close(struct table *t)
{
    if (!t)
        return;
    lines_close(&t->lines);
    json_free(t->object);
    free(t->unquoted);
    free(t);
}
