#include "cli/watched.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct json *condition(const struct json *object, const char *type)
{
    const struct json *list = json_path(object, "status.conditions");

    for (const struct json *v = json_first(list); v; v = json_next(v))
        if (strcmp(json_string(json_get(v, "type"), ""), type) == 0)
            return v;
    return NULL;
}

static bool is_true(const struct json *object, const char *type)
{
    const char *status = json_string(json_get(condition(object, type), "status"), "");

    return strcmp(status, "True") == 0;
}

enum watched_end watched_end(const struct json *object)
{
    if (is_true(object, "Complete"))
        return WATCHED_COMPLETE;
    return is_true(object, "Failed") ? WATCHED_FAILED : WATCHED_GOES_ON;
}

static double decimal(const struct json *v, double fallback)
{
    const char *text = json_string(v, "");
    char *end;
    double d = strtod(text, &end);

    return *text && *end == '\0' ? d : fallback;
}

static void read_progress(const struct json *object, struct progress *out)
{
    const struct json *p = json_path(object, "status.progress");
    const struct json *stages = json_path(object, "status.stages");

    *out = (struct progress){
        .state = PROGRESS_TRAINING,
        .step = json_i64(json_get(p, "step"), 0),
        .total_steps = json_i64(json_get(p, "totalSteps"), 0),
        .skipped_steps = json_i64(json_get(p, "skippedSteps"), 0),
        .loss = decimal(json_get(p, "loss"), NAN),
        .tokens_per_second = json_double(json_get(p, "tokensPerSecond"), 0),
        .eta_seconds = json_double(json_get(p, "estimatedRemainingSeconds"), -1),
    };
    (void)snprintf(out->initialised, sizeof out->initialised, "%s",
                   json_string(json_get(p, "initialised"), ""));
    for (const struct json *v = json_first(json_get(p, "metrics")); v; v = json_next(v)) {
        struct progress_metric *m = &out->metrics[out->n_metrics];

        if (out->n_metrics == PROGRESS_METRICS_MAX)
            break;
        (void)snprintf(m->name, sizeof m->name, "%s", json_string(json_get(v, "name"), ""));
        m->value = decimal(json_get(v, "value"), NAN);
        out->n_metrics++;
    }
    for (const struct json *v = json_first(stages); v; v = json_next(v)) {
        double ms = json_double(json_get(v, "measuredMs"), 0);

        if (ms > 0 && out->n_stage_ms < SPEC_STAGES_MAX)
            out->stage_ms[out->n_stage_ms++] = ms;
    }
}

void watched_line(const struct json *object, char out[static SHOW_LINE_BYTES])
{
    const char *state = json_string(json_path(object, "status.state"), "");
    const char *message = json_string(json_path(object, "status.message"), "");
    struct progress p;

    read_progress(object, &p);
    if (p.total_steps > 0 && watched_end(object) == WATCHED_GOES_ON)
        show_progress_text(&p, out);
    else if (*state)
        (void)snprintf(out, SHOW_LINE_BYTES, "%s%s%s", state, *message ? ": " : "", message);
    else
        (void)snprintf(out, SHOW_LINE_BYTES, "the operator has not looked at it yet");
}

int watched_attempt(const struct json *object)
{
    if (json_count(json_path(object, "status.stages")) == 0)
        return 0;
    return json_int(json_path(object, "status.attempt"), 1);
}

static void print_ms(FILE *out, const struct json *v)
{
    double ms = json_double(v, 0);

    if (ms > 0)
        (void)fprintf(out, " %8.1f ms", ms);
    else
        (void)fprintf(out, " %11s", "-");
}

static void print_percent(FILE *out, const struct json *v)
{
    int percent = json_int(v, 0);

    if (percent > 0)
        (void)fprintf(out, " %4d%%", percent);
    else
        (void)fprintf(out, " %5s", "-");
}

static void print_step(FILE *out, const struct json *object)
{
    double predicted = json_double(json_path(object, "status.placement.predictedStepMs"), 0);
    double measured = json_double(json_path(object, "status.progress.stepMs"), 0);

    if (predicted <= 0)
        return;
    (void)fprintf(out, "a step: %.1f ms predicted", predicted);
    if (measured > 0)
        (void)fprintf(out, ", %.1f ms measured (%+.0f%%)", measured,
                      100 * (measured / predicted - 1));
    (void)fprintf(out, "\n");
}

/* Of the column of nodes. */
static int name_width(const struct json *stages)
{
    int width = (int)strlen("NODE");

    for (const struct json *v = json_first(stages); v; v = json_next(v))
        width = show_widen(width, json_string(json_get(v, "node"), ""));
    return width;
}

void watched_print_stages(FILE *out, const struct json *object)
{
    const struct json *stages = json_path(object, "status.stages");
    int width = name_width(stages);

    (void)fprintf(out, "%-6s %-*s %-36s %11s %11s %5s  %s\n", "STAGE", width, "NODE", "UNITS",
                  "PREDICTED", "MEASURED", "BUSY", "STATE");
    for (const struct json *v = json_first(stages); v; v = json_next(v)) {
        char name[SHOW_NAME_CHARS + 1];

        (void)show_name(json_string(json_get(v, "node"), ""), name);
        (void)fprintf(out, "%-6lld %-*s %-36s", (long long)json_i64(json_get(v, "stage"), 0), width,
                      name, json_string(json_get(v, "units"), ""));
        print_ms(out, json_get(v, "predictedMs"));
        print_ms(out, json_get(v, "measuredMs"));
        print_percent(out, json_get(v, "busyPercent"));
        (void)fprintf(out, "  %s\n", json_string(json_get(v, "state"), ""));
    }
    print_step(out, object);
}

void watched_print_reason(FILE *out, const struct json *object)
{
    const char *reason = json_string(json_path(object, "status.placement.reason"), "");

    if (*reason)
        (void)fprintf(out, "\n%s\n", reason);
}

void watched_print_end(FILE *out, const struct json *object)
{
    struct progress p;

    if (watched_end(object) == WATCHED_FAILED) {
        const struct json *failed = condition(object, "Failed");

        (void)fprintf(out, "Failed: %s: %s\n", json_string(json_get(failed, "reason"), ""),
                      json_string(json_get(failed, "message"), ""));
        return;
    }
    read_progress(object, &p);
    (void)fprintf(out, "Complete after %lld steps\n", (long long)p.step);
    show_result(out, &p);
}
