#include "cli/records.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double number(const struct json *object, const char *key)
{
    return json_double(json_get(object, key), NAN);
}

static enum err_code add_step(struct records *r, const struct json *line, struct err *err)
{
    enum err_code rc =
        array_reserve(&r->steps, sizeof *r->steps, &r->max_steps, r->n_steps + 1, err);

    if (rc == ERR_OK)
        r->steps[r->n_steps++] =
            (struct records_step){.step = json_i64(json_get(line, "step"), 0),
                                  .seconds = number(line, "seconds"),
                                  .loss = number(line, "loss"),
                                  .tokens_per_second = number(line, "tokensPerSecond"),
                                  .step_ms = number(line, "stepMilliseconds")};
    return rc;
}

/* -1: there are too many. */
static int find_metric(struct records *r, const char *name)
{
    for (int i = 0; i < r->n_metrics; i++)
        if (strcmp(r->metrics[i], name) == 0)
            return i;
    if (r->n_metrics == PROGRESS_METRICS_MAX || strlen(name) >= sizeof r->metrics[0])
        return -1;
    memcpy(r->metrics[r->n_metrics], name, strlen(name) + 1);
    return r->n_metrics++;
}

static enum err_code add_value(struct records *r, int64_t step, const char *metric, double value,
                               struct err *err)
{
    int i = find_metric(r, metric);
    enum err_code rc = ERR_OK;

    if (i >= 0)
        rc = array_reserve(&r->values, sizeof *r->values, &r->max_values, r->n_values + 1, err);
    if (i >= 0 && rc == ERR_OK)
        r->values[r->n_values++] = (struct records_value){step, i, value};
    return rc;
}

static enum err_code add_line(struct records *r, const struct json *line, struct err *err)
{
    const struct json *metrics = json_get(line, "metrics");
    int64_t step = json_i64(json_get(line, "step"), -1);
    enum err_code rc = ERR_OK;

    if (step < 0 || (!metrics && !json_get(line, "loss")))
        r->n_skipped++;
    else if (!metrics)
        rc = add_step(r, line, err);
    for (const struct json *m = json_first(metrics); m && step >= 0 && rc == ERR_OK;
         m = json_next(m))
        rc = add_value(r, step, json_key(m), json_double(m, NAN), err);
    return rc;
}

static enum err_code add_log_line(struct records *r, const struct json *line, struct err *err)
{
    const char *metric = json_text(line, "metric");
    int64_t step = json_i64(json_get(line, "step"), -1);

    if (strcmp(json_text(line, "msg"), "evaluated") != 0 || !metric[0] || step < 0)
        return ERR_OK;
    return add_value(r, step, metric, number(line, "value"), err);
}

static enum err_code read_lines(struct records *r, const char *text, size_t len,
                                enum err_code (*add)(struct records *, const struct json *,
                                                     struct err *),
                                size_t *n_skipped, struct err *err)
{
    enum err_code rc = ERR_OK;

    for (size_t n; len > 0 && rc == ERR_OK; text += n, len -= n) {
        const char *end = memchr(text, '\n', len);
        size_t n_line = end ? (size_t)(end - text) : len;
        struct json *line = NULL;

        n = end ? n_line + 1 : len;
        if (n_line == 0)
            continue;
        rc = json_parse(text, n_line, &line, err);
        if (rc == ERR_OK)
            rc = add(r, line, err);
        else if (rc != ERR_NO_MEMORY)
            rc = (++*n_skipped, ERR_OK);
        json_free(line);
    }
    return rc;
}

enum err_code records_read(struct records *r, const char *text, size_t len, struct err *err)
{
    return read_lines(r, text, len, add_line, &r->n_skipped, err);
}

enum err_code records_read_log(struct records *r, const char *text, size_t len, struct err *err)
{
    size_t n_other = 0;

    return read_lines(r, text, len, add_log_line, &n_other, err);
}

void records_deinit(struct records *r)
{
    free(r->steps);
    free(r->values);
    *r = (struct records){.steps = NULL};
}
