#include "cli/watched.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

static double decimal(const char *text)
{
    char *end;
    double d = strtod(text, &end);

    return *text && *end == '\0' ? d : NAN;
}

/* As a local run reports it, so that both look the same. */
static struct progress progress_of(const struct status *s)
{
    const struct status_progress *from = &s->progress;
    struct progress p = {
        .state = PROGRESS_TRAINING,
        .step = from->step,
        .total_steps = from->total_steps,
        .skipped_steps = from->skipped_steps,
        .loss = decimal(from->loss),
        .tokens_per_second = (double)from->tokens_per_second,
        .eta_seconds = (double)from->remaining_seconds,
        .n_metrics = from->n_metrics,
    };

    for (int i = 0; i < from->n_random; i++)
        text_add(p.initialised, sizeof p.initialised, "%s%s", i ? ", " : "", from->random[i]);
    for (int i = 0; i < from->n_metrics; i++) {
        memcpy(p.metrics[i].name, from->metrics[i].name, sizeof p.metrics[i].name);
        p.metrics[i].value = decimal(from->metrics[i].value);
    }
    for (int i = 0; i < s->n_stages; i++)
        if (s->stages[i].measured_ms > 0)
            p.stage_ms[p.n_stage_ms++] = s->stages[i].measured_ms;
    return p;
}

void watched_line(const struct status *s, char out[static SHOW_LINE_BYTES])
{
    struct progress p = progress_of(s);

    if (p.total_steps > 0 && !status_is_final(s))
        show_progress_text(&p, out);
    else if (s->state[0])
        (void)snprintf(out, SHOW_LINE_BYTES, "%s%s%s", s->state, s->message[0] ? ": " : "",
                       s->message);
    else
        (void)snprintf(out, SHOW_LINE_BYTES, "the operator has not seen the job yet");
}

static void print_ms(FILE *out, double ms)
{
    if (ms > 0)
        (void)fprintf(out, " %8.1f ms", ms);
    else
        (void)fprintf(out, " %11s", "-");
}

void watched_print_stages(FILE *out, const struct status *s)
{
    double predicted = s->placement.summary.predicted_step_ms;
    double measured = s->progress.step_ms;
    int width = (int)strlen("NODE");

    for (int i = 0; i < s->n_stages; i++)
        width = show_widen(width, s->stages[i].node);
    (void)fprintf(out, "%-6s %-*s %-36s %11s %11s %5s  %s\n", "STAGE", width, "NODE", "UNITS",
                  "PREDICTED", "MEASURED", "BUSY", "STATE");
    for (int i = 0; i < s->n_stages; i++) {
        const struct status_stage *stage = &s->stages[i];
        char name[SHOW_NAME_CHARS + 1];

        (void)show_name(stage->node, name);
        (void)fprintf(out, "%-6d %-*s %-36s", i, width, name, stage->units);
        print_ms(out, stage->predicted_ms);
        print_ms(out, stage->measured_ms);
        if (stage->busy_percent > 0)
            (void)fprintf(out, " %4d%%", stage->busy_percent);
        else
            (void)fprintf(out, " %5s", "-");
        (void)fprintf(out, "  %s\n", stage->state);
    }
    if (predicted <= 0)
        return;
    (void)fprintf(out, "step: %.0f ms predicted", predicted);
    if (measured > 0)
        (void)fprintf(out, ", %.0f ms measured (%+.0f%%)", measured,
                      100 * (measured / predicted - 1));
    (void)fprintf(out, "\n");
}

void watched_print_explanation(FILE *out, const struct status *s)
{
    if (s->placement.summary.explanation[0])
        (void)fprintf(out, "\n%s\n", s->placement.summary.explanation);
}

void watched_print_end(FILE *out, const struct status *s)
{
    const struct condition *failed = &s->conditions[CONDITION_FAILED];
    struct progress p = progress_of(s);

    if (failed->value == CONDITION_TRUE) {
        (void)fprintf(out, "Failed: %s: %s\n", failed->reason, failed->message);
        return;
    }
    (void)fprintf(out, "Complete after %lld steps\n", (long long)p.step);
    show_result(out, &p);
}
