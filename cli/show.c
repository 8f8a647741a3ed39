#include "cli/show.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/buf.h"

void show_number(double value, char out[static 32])
{
    char digits[32];
    size_t n;
    size_t to = 0;

    if (!(fabs(value) < 1e15))
        value = 0;
    n = (size_t)snprintf(digits, sizeof digits, "%.0f", value);
    for (size_t i = 0; i < n && to < 31; i++) {
        out[to++] = digits[i];
        if ((n - i - 1) % 3 == 0 && i + 1 < n && digits[i] != '-' && to < 31)
            out[to++] = ',';
    }
    out[to] = '\0';
}

void show_duration(double seconds, char out[static 32])
{
    long s = seconds < 0 || !(seconds < 1e8) ? 0 : lround(seconds);

    if (s >= 3600)
        (void)snprintf(out, 32, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        (void)snprintf(out, 32, "%ld:%02ld", s / 60, s % 60);
}

void show_age(int64_t ms, char out[static 32])
{
    long long s = ms > 0 ? ms / 1000 : 0;

    if (s < 120)
        (void)snprintf(out, 32, "%llds", s);
    else if (s < 120 * 60)
        (void)snprintf(out, 32, "%lldm", s / 60);
    else if (s < 48 * 3600)
        (void)snprintf(out, 32, "%lldh", s / 3600);
    else
        (void)snprintf(out, 32, "%lldd", s / 86400);
}

int show_name(const char *name, char out[static SHOW_NAME_CHARS + 1])
{
    static const char gap[] = "...";
    int n_tail = (SHOW_NAME_CHARS - (int)strlen(gap)) / 2;
    int n_head = SHOW_NAME_CHARS - (int)strlen(gap) - n_tail;
    size_t n = strlen(name);

    if (n <= SHOW_NAME_CHARS)
        return snprintf(out, SHOW_NAME_CHARS + 1, "%s", name);
    return snprintf(out, SHOW_NAME_CHARS + 1, "%.*s%s%s", n_head, name, gap, name + n - n_tail);
}

int show_widen(int width, const char *name)
{
    char text[SHOW_NAME_CHARS + 1];
    int n = show_name(name, text);

    return n > width ? n : width;
}

void show_progress_text(const struct progress *p, char out[static SHOW_LINE_BYTES])
{
    char number[32];

    /* A leader that takes over has steps before it knows how many there will be. */
    if (p->state != PROGRESS_TRAINING && p->state != PROGRESS_EVALUATING &&
        (p->step == 0 || p->total_steps == 0)) {
        (void)snprintf(out, SHOW_LINE_BYTES, "%s",
                       p->state == PROGRESS_STARTING  ? "workers are starting"
                       : p->state == PROGRESS_WAITING ? "workers are connecting"
                       : p->state == PROGRESS_HALTED  ? "workers have halted"
                                                      : progress_state_names[p->state]);
        return;
    }
    if (p->total_steps == 0) {
        (void)snprintf(out, SHOW_LINE_BYTES, "evaluating");
        return;
    }
    (void)snprintf(out, SHOW_LINE_BYTES, "step %lld/%lld", (long long)p->step,
                   (long long)p->total_steps);
    if (isfinite(p->loss))
        text_add(out, SHOW_LINE_BYTES, "  loss %.4f", p->loss);
    if (p->tokens_per_second > 0) {
        show_number(p->tokens_per_second, number);
        text_add(out, SHOW_LINE_BYTES, "  %s tokens/s", number);
    }
    if (p->skipped_steps > 0)
        text_add(out, SHOW_LINE_BYTES, "  %lld skipped", (long long)p->skipped_steps);
    if (p->sync.protocol[0])
        text_add(out, SHOW_LINE_BYTES, "  %s", p->sync.protocol);
    if (p->sync.staleness_max > 0)
        text_add(out, SHOW_LINE_BYTES, ", %.1f updates late, at most %lld", p->sync.staleness,
                 (long long)p->sync.staleness_max);
    if (p->sync.lagging[0])
        text_add(out, SHOW_LINE_BYTES, "; %s", p->sync.lagging);
    if (p->best.step > 0)
        text_add(out, SHOW_LINE_BYTES, "  best %s %.4f at %lld", p->best_metric, p->best.value,
                 (long long)p->best.step);
    for (int i = 0; i < p->n_stage_ms; i++)
        text_add(out, SHOW_LINE_BYTES, "%s %.1f", i ? "" : "  stages", p->stage_ms[i]);
    if (p->n_stage_ms > 0)
        text_add(out, SHOW_LINE_BYTES, " ms");
    if (p->state == PROGRESS_EVALUATING) {
        text_add(out, SHOW_LINE_BYTES, "  evaluating");
    } else if (p->state == PROGRESS_SAVING) {
        text_add(out, SHOW_LINE_BYTES, "  saving the model");
        if (p->error[0])
            text_add(out, SHOW_LINE_BYTES, ": %s", p->error);
    } else if (p->eta_seconds >= 0) {
        show_duration(p->eta_seconds, number);
        text_add(out, SHOW_LINE_BYTES, "  ETA %s", number);
    }
}

static const char *figure(double value, char out[static 32])
{
    (void)snprintf(out, 32, isfinite(value) ? "%.4f" : "NaN", value);
    return out;
}

void show_result(FILE *out, const struct progress *p)
{
    char text[32];

    if (p->step > 0)
        (void)fprintf(out, "  %-20s %s\n", "loss", figure(p->loss, text));
    for (int i = 0; i < p->n_metrics; i++)
        (void)fprintf(out, "  %-20s %s\n", p->metrics[i].name, figure(p->metrics[i].value, text));
    show_notes(out, p);
}

void show_notes(FILE *out, const struct progress *p)
{
    if (p->skipped_steps > 0)
        (void)fprintf(out, "  %-20s %lld (loss or gradient was not finite)\n", "skipped steps",
                      (long long)p->skipped_steps);
    if (p->best.step > 0)
        (void)fprintf(out, "  %-20s %s %.4f at step %lld\n", "best evaluation", p->best_metric,
                      p->best.value, (long long)p->best.step);
    if (p->saved.has_failed)
        (void)fprintf(out,
                      "  %-20s the last one could not be written; the workers' logs tell why\n",
                      "checkpoints");
    if (p->has_ended_early)
        (void)fprintf(out, "  %-20s at step %lld: no better evaluation\n", "ended early",
                      (long long)p->step);
    if (p->randomly_initialized[0])
        (void)fprintf(out, "  %-20s %s\n", "started at random", p->randomly_initialized);
}

void show_summary(const struct progress *p, double seconds, const char *output,
                  char out[static SHOW_SUMMARY_BYTES])
{
    char text[32];

    show_duration(seconds, text);
    (void)snprintf(out, SHOW_SUMMARY_BYTES, "done: %lld steps in %s", (long long)p->step, text);
    if (p->step > 0) {
        show_number(p->tokens_per_second, text);
        text_add(out, SHOW_SUMMARY_BYTES, ", %s tokens/s", text);
        text_add(out, SHOW_SUMMARY_BYTES, ", loss %s", figure(p->loss, text));
    }
    for (int i = 0; i < p->n_metrics; i++)
        text_add(out, SHOW_SUMMARY_BYTES, ", %s %s", p->metrics[i].name,
                 figure(p->metrics[i].value, text));
    if (output)
        text_add(out, SHOW_SUMMARY_BYTES, ", model in %s", output);
    else
        text_add(out, SHOW_SUMMARY_BYTES, ", model not kept (use --output DIR)");
}

void show_evaluation(const struct json *evaluation, char out[static SHOW_SUMMARY_BYTES])
{
    const struct json *metrics = json_get(evaluation, "metrics");
    char text[32];

    (void)snprintf(out, SHOW_SUMMARY_BYTES, "evaluated at step %lld: ",
                   (long long)json_i64(json_get(evaluation, "step"), 0));
    for (const struct json *m = json_first(metrics); m; m = json_next(m))
        text_add(out, SHOW_SUMMARY_BYTES, "%s%s %s", m == json_first(metrics) ? "" : ", ",
                 json_key(m), figure(json_double(m, NAN), text));
}

/* --- a job in the cluster --- */

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
        .best = {.value = decimal(from->best.value), .step = from->best.step},
        .has_ended_early = from->has_ended_early,
        .saved = from->saved,
        .sync.staleness_max = from->sync.staleness_max,
    };

    memcpy(p.best_metric, from->best.metric, sizeof p.best_metric);
    memcpy(p.sync.protocol, from->sync.protocol, sizeof p.sync.protocol);
    memcpy(p.sync.lagging, from->sync.lagging, sizeof p.sync.lagging);
    if (p.sync.staleness_max > 0)
        p.sync.staleness = decimal(from->sync.staleness);
    for (int i = 0; i < from->n_random; i++)
        text_add(p.randomly_initialized, sizeof p.randomly_initialized, "%s%s", i ? ", " : "",
                 from->random[i]);
    for (int i = 0; i < from->n_metrics; i++) {
        memcpy(p.metrics[i].name, from->metrics[i].name, sizeof p.metrics[i].name);
        p.metrics[i].value = decimal(from->metrics[i].value);
    }
    for (int i = 0; i < s->n_stages; i++)
        if (s->stages[i].measured_ms > 0)
            p.stage_ms[p.n_stage_ms++] = s->stages[i].measured_ms;
    return p;
}

void show_status_text(const struct status *s, char out[static SHOW_LINE_BYTES])
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

void show_status_placement(FILE *out, const struct status *s, bool explains)
{
    double predicted = s->placement.summary.predicted_step_ms;
    double measured = s->progress.step_ms;
    bool has_replicas = s->n_stages > 0 && s->stages[s->n_stages - 1].plan.replica > 0;
    int width = (int)strlen("NODE");

    for (int i = 0; i < s->n_stages; i++)
        width = show_widen(width, s->stages[i].plan.node);
    (void)fprintf(out, "%-6s %s%-*s %-36s %11s %11s %5s  %s\n", "STAGE",
                  has_replicas ? "REPLICA  " : "", width, "NODE", "UNITS", "PREDICTED", "MEASURED",
                  "BUSY", "STATE");
    for (int i = 0; i < s->n_stages; i++) {
        const struct status_stage *stage = &s->stages[i];
        char name[SHOW_NAME_CHARS + 1];

        (void)show_name(stage->plan.node, name);
        (void)fprintf(out, "%-6d ", i);
        if (has_replicas)
            (void)fprintf(out, "%-8d ", stage->plan.replica);
        (void)fprintf(out, "%-*s %-36s", width, name, stage->plan.units);
        print_ms(out, stage->plan.predicted_ms);
        print_ms(out, stage->measured_ms);
        if (stage->busy_percent > 0)
            (void)fprintf(out, " %4d%%", stage->busy_percent);
        else
            (void)fprintf(out, " %5s", "-");
        (void)fprintf(out, "  %s\n", stage->state);
    }
    if (predicted > 0)
        (void)fprintf(out, "step: %.0f ms predicted", predicted);
    if (predicted > 0 && measured > 0)
        (void)fprintf(out, ", %.0f ms measured (%+.0f%%)", measured,
                      100 * (measured / predicted - 1));
    if (predicted > 0)
        (void)fprintf(out, "\n");
    if (explains && s->placement.summary.explanation[0])
        (void)fprintf(out, "\n%s\n", s->placement.summary.explanation);
}

void show_status_end(FILE *out, const struct status *s)
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

/* --- the line that is updated in place --- */

void show_init(struct show *s, FILE *out)
{
    *s = (struct show){.out = out, .is_tty = isatty(fileno(out)) == 1};
}

void show_line(struct show *s, const char *text, bool is_urgent, int64_t now_ms)
{
    struct winsize size = {.ws_col = 0};
    int width = 80;

    if (strcmp(text, s->last) == 0)
        return;
    /* Another kind of line is urgent: "step 1/40" after "workers are connecting". */
    if (strcspn(text, " ") != strcspn(s->last, " ") ||
        strncmp(text, s->last, strcspn(text, " ")) != 0)
        is_urgent = true;
    if (!s->is_tty && s->is_quiet)
        return;
    if (!s->is_tty && !is_urgent && s->last_ms > 0 && now_ms - s->last_ms < SHOW_EVERY_MS)
        return;
    s->last_ms = now_ms;
    (void)snprintf(s->last, sizeof s->last, "%s", text);
    if (!s->is_tty) {
        (void)fprintf(s->out, "%s\n", text);
        (void)fflush(s->out);
        return;
    }
    if (ioctl(fileno(s->out), TIOCGWINSZ, &size) == 0 && size.ws_col > 1)
        width = size.ws_col;
    /* A line that wraps could not be overwritten. */
    (void)fprintf(s->out, "\r%.*s\033[K", width - 1, text);
    (void)fflush(s->out);
    s->is_open = true;
}

void show_note(struct show *s, const char *text)
{
    if (s->is_quiet)
        return;
    (void)fprintf(s->out, s->is_tty ? "\r%s\033[K\n" : "%s\n", text);
    (void)fflush(s->out);
    s->is_open = false;
}

void show_end(struct show *s)
{
    if (s->is_open)
        (void)fputc('\n', s->out);
    s->is_open = false;
    s->last[0] = '\0';
    s->last_ms = 0;
}
