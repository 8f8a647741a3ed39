#include "data/tsv.h"

#include <stdlib.h>
#include <string.h>

#include "data/lines.h"

enum column { TEXT_A, TEXT_B, LABEL, N_COLUMNS };

static const char *const column_names[N_COLUMNS] = {"sentence1", "sentence2", "gold_label"};
static const char *const label_names[TSV_LABELS] = {"contradiction", "entailment", "neutral"};

struct field {
    const char *text; /* borrowed from the line */
    size_t len;
};

struct tsv {
    struct lines *lines;
    int64_t skipped;
    int n_columns;
    int places[N_COLUMNS]; /* where each column is */
};

static bool field_is(struct field f, const char *word)
{
    return f.len == strlen(word) && memcmp(f.text, word, f.len) == 0;
}

/* Cut the line at its tabs. Returns the number of columns, which may be above TSV_COLUMNS_MAX. */
static int split(const char *line, size_t len, struct field out[static TSV_COLUMNS_MAX])
{
    const char *from = line;
    int n = 0;

    for (;;) {
        size_t left = len - (size_t)(from - line);
        const char *tab = memchr(from, '\t', left);

        if (n < TSV_COLUMNS_MAX)
            out[n] = (struct field){from, tab ? (size_t)(tab - from) : left};
        n++;
        if (!tab)
            return n;
        from = tab + 1;
    }
}

static enum err_code find_column(struct tsv *t, enum column which, const struct field *fields,
                                 struct err *err)
{
    int place = -1;

    for (int i = 0; i < t->n_columns; i++) {
        if (!field_is(fields[i], column_names[which]))
            continue;
        if (place >= 0)
            return err_set(err, ERR_INVALID,
                           "%s line 1: column \"%s\" is there twice; remove or rename one",
                           lines_path(t->lines), column_names[which]);
        place = i;
    }
    if (place < 0)
        return err_set(err, ERR_INVALID,
                       "%s line 1: no column \"%s\"; the first line must name the columns, "
                       "separated by tabs, as in MNLI's files",
                       lines_path(t->lines), column_names[which]);
    t->places[which] = place;
    return ERR_OK;
}

static enum err_code read_header(struct tsv *t, struct err *err)
{
    struct field fields[TSV_COLUMNS_MAX];
    const char *line;
    size_t len;
    bool end;
    enum err_code rc = lines_next(t->lines, &line, &len, &end, err);

    if (rc != ERR_OK)
        return rc;
    if (end)
        return err_set(err, ERR_INVALID, "%s: empty; put MNLI's file of that name there",
                       lines_path(t->lines));
    t->n_columns = split(line, len, fields);
    if (t->n_columns > TSV_COLUMNS_MAX)
        return err_set(err, ERR_INVALID, "%s line 1: %d columns, above %d; is it a TSV file?",
                       lines_path(t->lines), t->n_columns, TSV_COLUMNS_MAX);
    for (int c = 0; c < N_COLUMNS && rc == ERR_OK; c++)
        rc = find_column(t, (enum column)c, fields, err);
    return rc;
}

enum err_code tsv_open(const char *path, struct tsv **out, struct err *err)
{
    struct tsv *t = calloc(1, sizeof *t);
    enum err_code rc;

    if (!t)
        return err_set(err, ERR_NO_MEMORY, "no memory to read %s", path);
    rc = lines_open(path, &t->lines, err);
    if (rc == ERR_OK)
        rc = read_header(t, err);
    if (rc != ERR_OK) {
        tsv_close(t);
        return rc;
    }
    *out = t;
    return ERR_OK;
}

static int label_of(struct field f)
{
    for (int i = 0; i < TSV_LABELS; i++) {
        if (field_is(f, label_names[i]))
            return i;
    }
    return -1;
}

/* Only spaces, or nothing at all. */
static bool is_blank(struct field f)
{
    size_t i = 0;

    while (i < f.len && f.text[i] == ' ')
        i++;
    return i == f.len;
}

static enum err_code read_row(const struct tsv *t, const struct field *fields, struct tsv_row *out,
                              struct err *err)
{
    struct field a = fields[t->places[TEXT_A]];
    struct field b = fields[t->places[TEXT_B]];
    struct field label = fields[t->places[LABEL]];
    long long line = lines_number(t->lines);
    struct tsv_row row = {.text_a = a.text,
                          .text_a_bytes = a.len,
                          .text_b = b.text,
                          .text_b_bytes = b.len,
                          .label = label_of(label),
                          .line = line};

    if (row.label < 0)
        return err_set(err, ERR_INVALID,
                       "%s line %lld: gold_label \"%.*s\" is none of contradiction, entailment, "
                       "neutral and \"-\"; correct it or remove the line",
                       lines_path(t->lines), line, label.len < 40 ? (int)label.len : 40,
                       label.text);
    if (is_blank(a) || is_blank(b))
        return err_set(err, ERR_INVALID, "%s line %lld: %s is empty; fill it in or remove the line",
                       lines_path(t->lines), line, column_names[is_blank(a) ? TEXT_A : TEXT_B]);
    *out = row;
    return ERR_OK;
}

enum err_code tsv_next(struct tsv *t, struct tsv_row *out, bool *out_end, struct err *err)
{
    struct field fields[TSV_COLUMNS_MAX];
    const char *line;
    size_t len;
    int n;

    for (;;) {
        enum err_code rc = lines_next(t->lines, &line, &len, out_end, err);

        if (rc != ERR_OK || *out_end)
            return rc;
        n = split(line, len, fields);
        if (n != t->n_columns)
            return err_set(err, ERR_INVALID,
                           "%s line %lld: %d columns where the first line names %d; is a tab "
                           "missing, or one too many?",
                           lines_path(t->lines), (long long)lines_number(t->lines), n,
                           t->n_columns);
        if (!field_is(fields[t->places[LABEL]], "-"))
            return read_row(t, fields, out, err);
        t->skipped++;
    }
}

int64_t tsv_skipped(const struct tsv *t)
{
    return t->skipped;
}

void tsv_close(struct tsv *t)
{
    if (!t)
        return;
    lines_close(t->lines);
    free(t);
}

const char *tsv_label_name(int label)
{
    return label_names[label];
}
