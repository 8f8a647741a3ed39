#include "cli/jobs.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/show.h"

#define CELL_BYTES 80

/* --- the jobs --- */

void jobs_row_read(const struct json *skyjob, struct jobs_row *out)
{
    struct status s;
    const struct status_progress *p = &s.progress;

    status_read(json_get(skyjob, "status"), &s);
    *out = (struct jobs_row){.step = p->step,
                             .total_steps = p->total_steps,
                             .tokens_per_second = p->tokens_per_second,
                             .left_s = status_is_over(&s) ? -1 : p->remaining_seconds,
                             .percentage = p->percentage};
    JSON_COPY(out->namespace, json_path(skyjob, "metadata.namespace"));
    JSON_COPY(out->name, json_path(skyjob, "metadata.name"));
    memcpy(out->state, s.state, sizeof out->state);
    memcpy(out->loss, p->loss, sizeof out->loss);
    if (clock_parse(json_text(skyjob, "metadata.creationTimestamp"), &out->created_ms, NULL) !=
        ERR_OK)
        out->created_ms = 0;
    if (p->total_steps == 0)
        out->left_s = -1;
}

static int compare(const struct jobs_row *row, const char *namespace, const char *name)
{
    int by_namespace = strcmp(row->namespace, namespace);

    return by_namespace ? by_namespace : strcmp(row->name, name);
}

/* Where the job is, or belongs. */
static size_t place_of(const struct jobs *jobs, const char *namespace, const char *name)
{
    size_t from = 0;
    size_t to = jobs->n;

    while (from < to) {
        size_t middle = from + (to - from) / 2;

        if (compare(&jobs->rows[middle], namespace, name) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

static bool is_at(const struct jobs *jobs, size_t at, const char *namespace, const char *name)
{
    return at < jobs->n && compare(&jobs->rows[at], namespace, name) == 0;
}

static bool is_equal(const struct jobs_row *a, const struct jobs_row *b)
{
    return strcmp(a->state, b->state) == 0 && strcmp(a->loss, b->loss) == 0 && a->step == b->step &&
           a->total_steps == b->total_steps && a->tokens_per_second == b->tokens_per_second &&
           a->left_s == b->left_s && a->created_ms == b->created_ms &&
           a->percentage == b->percentage;
}

enum err_code jobs_put(struct jobs *jobs, const struct jobs_row *row, bool *out_is_news,
                       struct err *err)
{
    size_t at = place_of(jobs, row->namespace, row->name);
    enum err_code rc;

    if (is_at(jobs, at, row->namespace, row->name)) {
        *out_is_news = !is_equal(&jobs->rows[at], row);
        jobs->rows[at] = *row;
        return ERR_OK;
    }
    rc = array_reserve(&jobs->rows, sizeof *jobs->rows, &jobs->max, jobs->n + 1, err);
    if (rc != ERR_OK)
        return rc;
    memmove(&jobs->rows[at + 1], &jobs->rows[at], (jobs->n - at) * sizeof *jobs->rows);
    jobs->rows[at] = *row;
    jobs->n++;
    *out_is_news = true;
    return ERR_OK;
}

bool jobs_take(struct jobs *jobs, const char *namespace, const char *name, struct jobs_row *out)
{
    size_t at = place_of(jobs, namespace, name);

    if (!is_at(jobs, at, namespace, name))
        return false;
    *out = jobs->rows[at];
    jobs->n--;
    memmove(&jobs->rows[at], &jobs->rows[at + 1], (jobs->n - at) * sizeof *jobs->rows);
    return true;
}

void jobs_deinit(struct jobs *jobs)
{
    free(jobs->rows);
    *jobs = (struct jobs){.rows = NULL};
}

/* --- as a table --- */

enum column { NAMESPACE, NAME, STATE, STEP, TOTAL, PERCENT, LOSS, TOKENS, LEFT, AGE, COLUMNS };

static const struct {
    const char *title;
    bool is_figure; /* at the right edge of its column */
} columns[COLUMNS] = {
    [NAMESPACE] = {"NAMESPACE", false},
    [NAME] = {"NAME", false},
    [STATE] = {"STATE", false},
    [STEP] = {"STEP", true},
    [TOTAL] = {"TOTAL", true},
    [PERCENT] = {"PERCENT", true},
    [LOSS] = {"LOSS", true},
    [TOKENS] = {"TOKENS/S", true},
    [LEFT] = {"LEFT", true},
    [AGE] = {"AGE", true},
};

/* What is not known is "-"; `row` NULL is the header. */
static void cell(const struct jobs_row *row, enum column column, int64_t now_ms,
                 char out[static CELL_BYTES])
{
    char text[32] = "";
    const char *value = text;
    bool has_steps = row && row->total_steps > 0;

    if (!row)
        value = columns[column].title;
    else if (column == NAMESPACE)
        value = row->namespace;
    else if (column == NAME)
        value = row->name;
    else if (column == STATE)
        value = row->state;
    else if (column == LOSS)
        value = row->loss;
    else if (column == STEP && has_steps)
        (void)snprintf(text, sizeof text, "%lld", (long long)row->step);
    else if (column == TOTAL && has_steps)
        (void)snprintf(text, sizeof text, "%lld", (long long)row->total_steps);
    else if (column == PERCENT && has_steps)
        (void)snprintf(text, sizeof text, "%d%%", row->percentage);
    else if (column == TOKENS && row->tokens_per_second > 0)
        show_number((double)row->tokens_per_second, text);
    else if (column == LEFT && row->left_s >= 0)
        show_duration((double)row->left_s, text);
    else if (column == AGE && row->created_ms > 0)
        show_age(now_ms - row->created_ms, text);
    (void)snprintf(out, CELL_BYTES, "%s", value[0] ? value : "-");
}

static void widen(int widths[static COLUMNS], const struct jobs_row *row, int64_t now_ms)
{
    for (int c = 0; c < COLUMNS; c++) {
        char text[CELL_BYTES];

        cell(row, (enum column)c, now_ms, text);
        if ((int)strlen(text) > widths[c])
            widths[c] = (int)strlen(text);
    }
}

static void measure(const struct jobs *jobs, int64_t now_ms, int widths[static COLUMNS])
{
    memset(widths, 0, COLUMNS * sizeof widths[0]);
    widen(widths, NULL, now_ms);
    for (size_t i = 0; i < jobs->n; i++)
        widen(widths, &jobs->rows[i], now_ms);
}

static void print_line(const int widths[static COLUMNS], const struct jobs_row *row,
                       bool has_namespaces, int64_t now_ms, FILE *out)
{
    for (int c = has_namespaces ? NAMESPACE : NAME; c < COLUMNS; c++) {
        char text[CELL_BYTES];

        cell(row, (enum column)c, now_ms, text);
        (void)fprintf(out, "%*s%s", columns[c].is_figure ? widths[c] : -widths[c], text,
                      c == AGE ? "\n" : "  ");
    }
}

void jobs_print(const struct jobs *jobs, bool has_namespaces, int64_t now_ms, FILE *out)
{
    int widths[COLUMNS];

    measure(jobs, now_ms, widths);
    print_line(widths, NULL, has_namespaces, now_ms, out);
    for (size_t i = 0; i < jobs->n; i++)
        print_line(widths, &jobs->rows[i], has_namespaces, now_ms, out);
}

void jobs_print_row(const struct jobs *jobs, const struct jobs_row *row, bool has_namespaces,
                    int64_t now_ms, FILE *out)
{
    int widths[COLUMNS];

    measure(jobs, now_ms, widths);
    print_line(widths, row, has_namespaces, now_ms, out);
}

/* --- as JSON --- */

static void write_text(struct jsonw *w, const char *key, const char *value)
{
    if (value[0])
        jsonw_string(w, key, value);
    else
        jsonw_null(w, key);
}

static void write_figure(struct jsonw *w, const char *key, bool is_known, int64_t value)
{
    if (is_known)
        jsonw_int(w, key, value);
    else
        jsonw_null(w, key);
}

void jobs_write(const struct json *skyjob, struct jsonw *w)
{
    const struct json *status = json_get(skyjob, "status");
    struct jobs_row row;
    bool has_steps;

    jobs_row_read(skyjob, &row);
    has_steps = row.total_steps > 0;
    jsonw_open_object(w, NULL);
    jsonw_string(w, "namespace", row.namespace);
    jsonw_string(w, "name", row.name);
    jsonw_string(w, "creationTimestamp", json_text(skyjob, "metadata.creationTimestamp"));
    write_text(w, "state", row.state);
    write_figure(w, "step", has_steps, row.step);
    write_figure(w, "totalSteps", has_steps, row.total_steps);
    write_figure(w, "percentage", has_steps, row.percentage);
    write_text(w, "loss", row.loss);
    write_figure(w, "tokensPerSecond", row.tokens_per_second > 0, row.tokens_per_second);
    write_figure(w, "estimatedRemainingSeconds", row.left_s >= 0, row.left_s);
    if (status)
        jsonw_value(w, "status", status);
    else
        jsonw_null(w, "status");
    jsonw_close(w);
}
