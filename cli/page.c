#include "cli/page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/chart.h"
#include "cli/show.h"

#define DOTS_MAX 100 /* more of them in a chart cover its line */

/* Kinds of passes differ in lightness, too, for those who do not see the colors. */
static const char *const style[] = {
    ":root{color-scheme:light dark;--bg:#fff;--fg:#1d2330;--dim:#667085;--line:#d5dae3;",
    "--card:#f6f7f9;--a:#2563eb;--f:#3b82f6;--b:#f59e0b;--x:#10b981;--idle:#e4e7ec;--bad:#b42318}",
    "@media(prefers-color-scheme:dark){:root{--bg:#12151c;--fg:#e6e9f0;--dim:#98a2b3;",
    "--line:#323846;--card:#1b202a;--a:#7aa7ff;--f:#5b8def;--b:#e0a13a;--x:#35b88a;",
    "--idle:#2a303c;--bad:#ff8a7a}}",
    "*{box-sizing:border-box}body{margin:0 auto;padding:24px;max-width:1120px;",
    "background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif}",
    "h1{font-size:24px;margin:0 0 4px}h2{font-size:17px;margin:32px 0 10px}",
    "p{margin:6px 0;overflow-wrap:anywhere}.dim,figcaption{color:var(--dim);font-size:13px}",
    ".bad{color:var(--bad)}",
    ".facts{display:flex;flex-wrap:wrap;gap:10px;margin:16px 0 0;padding:0}",
    ".facts div{background:var(--card);border:1px solid var(--line);border-radius:8px;",
    "padding:8px 14px}.facts dt{color:var(--dim);font-size:12px}",
    ".facts dd{margin:0;font-size:18px;font-variant-numeric:tabular-nums}",
    ".charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,420px),1fr));",
    "gap:14px}figure{margin:0}.chart,.wide{background:var(--card);border:1px solid var(--line);",
    "border-radius:8px;padding:8px}svg{display:block;width:100%;height:auto}",
    ".wide{overflow-x:auto}.wide svg{min-width:760px}",
    "svg text{fill:var(--fg);font:12px system-ui,sans-serif}svg .title{font-weight:600;",
    "font-size:14px}svg .tick,svg .label{fill:var(--dim)}svg .grid{stroke:var(--line);fill:none}",
    "svg .axis{stroke:var(--dim);fill:none}svg .line{stroke:var(--a);stroke-width:1.8;fill:none;",
    "stroke-linejoin:round}svg .faint{stroke-width:1;opacity:.35}svg .dot{fill:var(--a)}",
    "svg .box{fill:var(--bg);stroke:var(--line)}svg .bottleneck{stroke:var(--b);stroke-width:2}",
    "svg .predicted{fill:var(--dim);opacity:.5}svg .unit{fill:var(--a)}",
    "svg .rest,svg .idle{fill:var(--idle)}svg .forward{fill:var(--f)}",
    "svg .backward{fill:var(--b)}svg .exchange{fill:var(--x)}svg .arrow{stroke:var(--dim);",
    "fill:none}svg .name{font-weight:600}",
    ".scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:14px}",
    "th,td{text-align:left;vertical-align:top;padding:5px 12px 5px 0;",
    "border-bottom:1px solid var(--line);overflow-wrap:anywhere}th{color:var(--dim);",
    "font-weight:500;white-space:nowrap}.n{text-align:right;font-variant-numeric:tabular-nums;",
    "white-space:nowrap}@media print{body{max-width:none}}",
};

static void heading(struct markup *m, const char *text)
{
    markup_add(m, "<h2>");
    markup_text(m, text);
    markup_add(m, "</h2>\n");
}

static void paragraph(struct markup *m, const char *class, const char *text)
{
    markup_add(m, "<p class=\"%s\">", class);
    markup_text(m, text);
    markup_add(m, "</p>\n");
}

/* --- the facts --- */

static void fact(struct markup *m, const char *name, const char *value)
{
    if (!value[0])
        return;
    markup_add(m, "<div><dt>");
    markup_text(m, name);
    markup_add(m, "</dt><dd>");
    markup_text(m, value);
    markup_add(m, "</dd></div>\n");
}

/* Between the beginning of training and its end, or now. */
static double seconds_of(const struct page *p)
{
    const struct status *s = p->status;
    int64_t end_ms = s->completion_ms > 0 ? s->completion_ms : p->now_ms;

    if (p->seconds > 0 || s->start_ms == 0)
        return p->seconds;
    return (double)(end_ms - s->start_ms) / 1e3;
}

static void write_facts(const struct page *p, struct markup *m)
{
    const struct status_progress *progress = &p->status->progress;
    char text[80];
    char number[32];

    markup_add(m, "<dl class=\"facts\">\n");
    fact(m, "state", p->status->state);
    if (progress->total_steps > 0) {
        char total[32];

        show_number((double)progress->step, number);
        show_number((double)progress->total_steps, total);
        (void)snprintf(text, sizeof text, "%s of %s", number, total);
        fact(m, "step", text);
    }
    fact(m, "loss", progress->loss);
    for (int i = 0; i < progress->n_metrics; i++)
        fact(m, progress->metrics[i].name, progress->metrics[i].value);
    if (progress->best.metric[0]) {
        (void)snprintf(text, sizeof text, "%s at step %lld", progress->best.value,
                       (long long)progress->best.step);
        (void)snprintf(number, sizeof number, "best %.20s", progress->best.metric);
        fact(m, number, text);
    }
    if (progress->tokens_per_second > 0) {
        show_number((double)progress->tokens_per_second, number);
        fact(m, "tokens per second", number);
    }
    if (seconds_of(p) > 0) {
        show_duration(seconds_of(p), number);
        fact(m, "time", number);
    }
    if (p->status->restarts > 0) {
        (void)snprintf(number, sizeof number, "%d", p->status->restarts);
        fact(m, "restarts", number);
    }
    markup_add(m, "</dl>\n");
}

/* --- the curves --- */

static double loss_of(const struct records_step *s)
{
    return s->loss;
}

static double tokens_of(const struct records_step *s)
{
    return s->tokens_per_second;
}

static double ms_of(const struct records_step *s)
{
    return s->step_ms;
}

static void write_series(const struct records *r, struct chart c, struct chart_point *points,
                         double (*value)(const struct records_step *), struct markup *m)
{
    for (size_t i = 0; i < r->n_steps; i++)
        points[i] = (struct chart_point){(double)r->steps[i].step, value(&r->steps[i])};
    c.x_label = "step";
    c.points = points;
    c.n = r->n_steps;
    chart_write(&c, m);
}

static void write_metric(const struct records *r, int metric, struct chart_point *points,
                         struct markup *m)
{
    struct chart c = {.title = r->metrics[metric],
                      .x_label = "step",
                      .y_label = "of each evaluation",
                      .points = points};

    for (size_t i = 0; i < r->n_values; i++)
        if (r->values[i].metric == metric)
            points[c.n++] = (struct chart_point){(double)r->values[i].step, r->values[i].value};
    c.has_dots = c.n <= DOTS_MAX;
    chart_write(&c, m);
}

static enum err_code write_curves(const struct page *p, struct markup *m, struct err *err)
{
    static const struct records none;
    const struct records *r = p->records ? p->records : &none;
    size_t n = r->n_steps > r->n_values ? r->n_steps : r->n_values;
    struct chart_point *points = calloc(n + 1, sizeof *points);

    if (!points)
        return err_set(err, ERR_NO_MEMORY, "no memory for %zu points", n);
    heading(m, "Training");
    if (p->no_records)
        paragraph(m, "dim", p->no_records);
    markup_add(m, "<div class=\"charts\">\n");
    if (r->n_steps > 0 || !p->no_records) {
        write_series(r,
                     (struct chart){.title = "loss",
                                    .y_label = "mean of the step",
                                    .is_averaged = r->n_steps > 20},
                     points, loss_of, m);
        write_series(
            r,
            (struct chart){.title = "throughput", .y_label = "tokens per second", .has_zero = true},
            points, tokens_of, m);
        write_series(r, (struct chart){.title = "step time", .y_label = "ms", .has_zero = true},
                     points, ms_of, m);
    }
    for (int i = 0; i < r->n_metrics; i++)
        write_metric(r, i, points, m);
    markup_add(m, "</div>\n");
    if (r->n_skipped > 0)
        markup_add(m, "<p class=\"dim\">Left out, since they are no records: %zu lines.</p>\n",
                   r->n_skipped);
    free(points);
    return ERR_OK;
}

/* --- the placement --- */

#define PICTURE_WIDTH 1060
#define BOX_WIDTH     330
#define BOX_HEIGHT    128
#define BOX_GAP       35
#define BOX_COLUMNS   3
#define BOX_PAD       12
#define BAR_LEFT      84
#define BAR_WIDTH     150
#define REPLICA_TOP   30

/* What is needed to draw any box of the picture. */
struct picture {
    const struct status *status;
    int n_units;   /* of the model */
    double max_ms; /* of a stage, as predicted or measured */
};

static struct picture picture_of(const struct status *s)
{
    struct picture f = {.status = s};

    for (int i = 0; i < s->n_stages; i++) {
        const struct status_stage *stage = &s->stages[i];
        int end = stage->plan.first_unit + stage->plan.n_units;

        f.n_units = end > f.n_units ? end : f.n_units;
        f.max_ms = fmax(f.max_ms, fmax(stage->plan.predicted_ms, stage->measured_ms));
    }
    return f;
}

static void write_bar(const struct picture *f, double y, const char *name, const char *class,
                      double ms, struct markup *m)
{
    double width = f->max_ms > 0 ? ms / f->max_ms * BAR_WIDTH : 0;

    markup_add(m, "<text class=\"label\" x=\"%d\" y=\"%.1f\">%s</text>", BOX_PAD, y + 10, name);
    if (ms > 0)
        markup_add(m,
                   "<rect class=\"%s\" x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"12\" "
                   "rx=\"2\"/><text x=\"%.1f\" y=\"%.1f\">%.3g ms</text>",
                   class, BAR_LEFT, y, width, BAR_LEFT + width + 6, y + 10, ms);
    else
        markup_add(m, "<text class=\"label\" x=\"%d\" y=\"%.1f\">not known</text>", BAR_LEFT,
                   y + 10);
}

static void write_box(const struct picture *f, int i, int place, double x, double y,
                      struct markup *m)
{
    const struct status_stage *stage = &f->status->stages[i];
    bool is_bottleneck = f->status->n_stages > 1 && f->status->placement.summary.bottleneck == i;
    double strip = BOX_WIDTH - 2 * BOX_PAD;
    char name[SHOW_NAME_CHARS + 1];

    (void)show_name(stage->plan.node, name);
    markup_add(m, "<g transform=\"translate(%.1f %.1f)\"><title>", x, y);
    markup_textf(m, "stage %d on %s: %s%s", place, stage->plan.node, stage->plan.units,
                 is_bottleneck ? "; the bottleneck" : "");
    markup_add(m, "</title><rect class=\"box%s\" width=\"%d\" height=\"%d\" rx=\"8\"/>",
               is_bottleneck ? " bottleneck" : "", BOX_WIDTH, BOX_HEIGHT);
    markup_add(m, "<text class=\"name\" x=\"%d\" y=\"22\">", BOX_PAD);
    markup_text(m, name);
    markup_add(m, "</text><text x=\"%d\" y=\"42\">", BOX_PAD);
    markup_textf(m, "stage %d: %.40s", place, stage->plan.units);
    /* Which of the model's units. */
    markup_add(m,
               "</text><rect class=\"rest\" x=\"%d\" y=\"52\" width=\"%.1f\" height=\"6\" "
               "rx=\"3\"/>",
               BOX_PAD, strip);
    if (f->n_units > 0)
        markup_add(m,
                   "<rect class=\"unit\" x=\"%.1f\" y=\"52\" width=\"%.1f\" height=\"6\" "
                   "rx=\"3\"/>",
                   BOX_PAD + strip * stage->plan.first_unit / f->n_units,
                   strip * stage->plan.n_units / f->n_units);
    write_bar(f, 70, "predicted", "predicted", stage->plan.predicted_ms, m);
    write_bar(f, 88, "measured", "forward", stage->measured_ms, m);
    if (stage->busy_percent > 0)
        markup_add(m, "<text class=\"label\" x=\"%d\" y=\"118\">busy %d%% of a step</text>",
                   BOX_PAD, stage->busy_percent);
    markup_add(m, "</g>\n");
}

/* Draw the stages from `first` on that belong to one replica; returns the y below them. */
static double write_replica(const struct page *p, const struct picture *f, int first, int end,
                            double y, struct markup *m)
{
    int replica = f->status->stages[first].plan.replica;

    if (end - first < f->status->n_stages) {
        markup_add(m, "<text class=\"name\" x=\"0\" y=\"%.1f\">replica %d", y + 18, replica);
        if (replica < p->n_shares)
            markup_add(m, ": %d of %d micro-batches", p->shares[replica],
                       f->status->placement.micro_batches);
        markup_add(m, "</text>\n");
        y += REPLICA_TOP;
    }
    for (int i = first; i < end; i++) {
        int column = (i - first) % BOX_COLUMNS;
        double x = 1 + column * (BOX_WIDTH + BOX_GAP);
        double top = y + (i - first) / BOX_COLUMNS * (BOX_HEIGHT + BOX_GAP);

        write_box(f, i, i - first, x, top, m);
        if (i + 1 < end && column + 1 < BOX_COLUMNS)
            markup_add(m, "<path class=\"arrow\" d=\"M%.1f %.1fh%dm-6 -5l6 5l-6 5\"/>\n",
                       x + BOX_WIDTH + 5, top + BOX_HEIGHT / 2.0, BOX_GAP - 10);
        else if (i + 1 < end) /* to the beginning of the next row */
            markup_add(m, "<path class=\"arrow\" d=\"M%.1f %.1fv%dH%dv%dm-5 -6l5 6l5 -6\"/>\n",
                       x + BOX_WIDTH / 2.0, top + BOX_HEIGHT + 5, BOX_GAP / 2 - 5, BOX_WIDTH / 2,
                       BOX_GAP / 2 - 4);
    }
    return y + ((end - first - 1) / BOX_COLUMNS + 1) * (BOX_HEIGHT + BOX_GAP);
}

static int end_of_replica(const struct status *s, int first)
{
    int end = first + 1;

    while (end < s->n_stages && s->stages[end].plan.replica == s->stages[first].plan.replica)
        end++;
    return end;
}

static double height_of(const struct status *s)
{
    double height = 0;

    for (int i = 0; i < s->n_stages; i = end_of_replica(s, i)) {
        int n = end_of_replica(s, i) - i;

        height += (n < s->n_stages ? REPLICA_TOP : 0) +
                  ((n - 1) / BOX_COLUMNS + 1) * (BOX_HEIGHT + BOX_GAP);
    }
    return height;
}

static void write_placement(const struct page *p, struct markup *m)
{
    const struct status_placement *placement = &p->status->placement;
    const struct plan_summary *summary = &placement->summary;
    struct picture f = picture_of(p->status);
    double y = 2;

    heading(m, "Placement");
    if (f.status->n_stages == 0) {
        paragraph(m, "dim", "There is no plan.");
        return;
    }
    markup_add(m, "<p class=\"dim\">Times are of one micro-batch, forward and backward");
    if (f.status->n_stages > 1)
        markup_add(m, "; the bottleneck has a thick border");
    markup_add(m,
               ".</p>\n<figure class=\"wide\"><svg viewBox=\"0 0 %d %.0f\" role=\"img\" "
               "aria-label=\"placement\">\n",
               PICTURE_WIDTH + 2, height_of(f.status) - BOX_GAP + 4);
    for (int i = 0; i < f.status->n_stages;) {
        int end = end_of_replica(f.status, i);

        y = write_replica(p, &f, i, end, y, m);
        i = end;
    }
    markup_add(m, "</svg></figure>\n<p>");
    markup_text(m, summary->explanation);
    markup_add(m, "</p>\n<p class=\"dim\">");
    if (placement->strategy[0])
        markup_textf(m, "Strategy %s. ", placement->strategy);
    if (placement->micro_batches > 0)
        markup_add(m, "Micro-batches of a step: %d. ", placement->micro_batches);
    if (summary->predicted_step_ms > 0)
        markup_add(m, "Step, predicted: %.4g ms. ", summary->predicted_step_ms);
    if (p->status->progress.step_ms > 0)
        markup_add(m, "Step, measured: %.4g ms. ", p->status->progress.step_ms);
    markup_add(m, "</p>\n");
}

/* --- the timeline --- */

#define ROW_HEIGHT 26
#define ROW_LEFT   190
#define ROWS_TOP   8
#define NODE_CHARS 9 /* of the beginning and of the end of a longer name */

static void write_span(const struct timeline *t, const struct timeline_span *s, struct markup *m)
{
    double scale = (PICTURE_WIDTH - ROW_LEFT - 10) / t->end_ms;
    double width = s->ms * scale;

    if (s->kind == TIMELINE_IDLE)
        return; /* as the row behind it */
    /* A gap between passes, where they are wide enough for one. */
    markup_add(m, "<rect class=\"%s\" x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\"><title>%s",
               timeline_kind_names[s->kind], ROW_LEFT + s->from_ms * scale,
               ROWS_TOP + s->stage * ROW_HEIGHT, width > 3 ? width - 0.8 : width, ROW_HEIGHT - 6,
               timeline_kind_names[s->kind]);
    if (s->microbatch >= 0)
        markup_add(m, " %d", s->microbatch);
    markup_add(m, ": %.4g ms</title></rect>\n", s->ms);
}

/* The row of a stage while it is idle, and its name. */
static void write_row(const struct timeline_params *p, int i, struct markup *m)
{
    bool has_replicas = p->stages[p->n_stages - 1].replica > 0;
    const char *node = p->stages[i].node;
    size_t n = strlen(node);
    char place[40];

    if (has_replicas)
        (void)snprintf(place, sizeof place, "%d/%d", p->stages[i].replica, timeline_place(p, i));
    else
        (void)snprintf(place, sizeof place, "%d", i);
    markup_add(m, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">", ROW_LEFT - 8,
               ROWS_TOP + i * ROW_HEIGHT + 14);
    if (n > 2 * NODE_CHARS + 3) /* as in show_name(): names may differ at either end */
        markup_textf(m, "%s  %.*s...%s", place, NODE_CHARS, node, node + n - NODE_CHARS);
    else
        markup_textf(m, "%s  %s", place, node);
    markup_add(m, "</text><rect class=\"idle\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n",
               ROW_LEFT, ROWS_TOP + i * ROW_HEIGHT, PICTURE_WIDTH - ROW_LEFT - 10, ROW_HEIGHT - 6);
}

/* The axis of time, and what the colors mean. */
static void write_scale(const struct timeline *t, double y, struct markup *m)
{
    double tick = pow(10, floor(log10(t->end_ms / 2)));

    tick *= t->end_ms / tick > 10 ? 2 : t->end_ms / tick < 4 ? 0.5 : 1;
    for (int i = 0; i <= 10 && i * tick <= t->end_ms; i++)
        markup_add(
            m, "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.4g</text>",
            ROW_LEFT + i * tick / t->end_ms * (PICTURE_WIDTH - ROW_LEFT - 10), y + 14, i * tick);
    markup_add(m, "<text class=\"label\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">ms</text>\n",
               ROW_LEFT - 12, y + 14);
    for (int k = 0, x = ROW_LEFT; k < TIMELINE_KINDS; k++, x += 110)
        markup_add(m,
                   "<rect class=\"%s\" x=\"%d\" y=\"%.1f\" width=\"12\" height=\"12\"/>"
                   "<text x=\"%d\" y=\"%.1f\">%s</text>",
                   timeline_kind_names[k], x, y + 26, x + 18, y + 36, timeline_kind_names[k]);
}

static void write_rows(const struct timeline *t, struct markup *m)
{
    for (int i = 0; i < t->params.n_stages; i++)
        write_row(&t->params, i, m);
    for (size_t i = 0; i < t->n_spans; i++)
        write_span(t, &t->spans[i], m);
    write_scale(t, ROWS_TOP + t->params.n_stages * ROW_HEIGHT, m);
}

static size_t count_passes(const struct timeline *t)
{
    size_t n = 0;

    for (size_t i = 0; i < t->n_spans; i++)
        n += t->spans[i].kind != TIMELINE_IDLE;
    return n;
}

static void write_timeline(const struct page *p, struct markup *m)
{
    const struct timeline *t = p->timeline;

    heading(m, "Timeline of a step");
    if (!t && p->no_timeline)
        paragraph(m, "dim", p->no_timeline);
    if (!t)
        return;
    markup_add(m,
               "<p class=\"dim\">This is the schedule with the medians that were measured, not a "
               "recording. Where nothing was measured, predicted times are used. The passes end "
               "after %.4g ms",
               t->passes_end_ms);
    if (t->params.step_ms > 0)
        markup_add(m, "; a step takes %.4g ms as measured", t->params.step_ms);
    if (t->params.step_ms > t->passes_end_ms)
        markup_add(m, ", and what remains is the exchange: sums, weights and updates");
    markup_add(m, ".</p>\n");
    if (count_passes(t) > PAGE_PASSES_MAX) {
        markup_add(m,
                   "<p>A step has too many passes for a picture: %zu. The file of --trace has "
                   "all of them.</p>\n",
                   count_passes(t));
        return;
    }
    markup_add(m,
               "<figure class=\"wide\"><svg viewBox=\"0 0 %d %d\" role=\"img\" "
               "aria-label=\"timeline\">\n",
               PICTURE_WIDTH, ROWS_TOP + t->params.n_stages * ROW_HEIGHT + 46);
    write_rows(t, m);
    markup_add(m, "</svg></figure>\n");
}

/* --- tables --- */

static void begin_table(struct markup *m, const char *const *titles, int n)
{
    markup_add(m, "<div class=\"scroll\"><table><thead><tr>");
    for (int i = 0; i < n; i++)
        markup_add(m, "<th>%s</th>", titles[i]);
    markup_add(m, "</tr></thead><tbody>\n");
}

static void end_table(struct markup *m)
{
    markup_add(m, "</tbody></table></div>\n");
}

static void cell(struct markup *m, const char *class, const char *text)
{
    markup_add(m, "<td class=\"%s\">", class);
    markup_text(m, text);
    markup_add(m, "</td>");
}

static void time_cell(struct markup *m, int64_t ms)
{
    char text[CLOCK_TEXT_BYTES] = "";

    if (ms > 0)
        clock_format(ms, text);
    cell(m, "n", text);
}

static void write_conditions(const struct page *p, struct markup *m)
{
    static const char *const titles[] = {"condition", "status", "reason", "message", "since"};
    bool has_any = false;

    for (int i = 0; i < CONDITION_COUNT; i++)
        has_any = has_any || p->status->conditions[i].value != CONDITION_UNSET;
    if (!has_any)
        return;
    heading(m, "Conditions");
    begin_table(m, titles, 5);
    for (int i = 0; i < CONDITION_COUNT; i++) {
        const struct condition *c = &p->status->conditions[i];

        if (c->value == CONDITION_UNSET)
            continue;
        markup_add(m, "<tr>");
        cell(m, "", condition_type_names[i]);
        cell(m, reason_is_unusual(p->status, (enum condition_type)i) ? "bad" : "",
             condition_value_names[c->value]);
        cell(m, "", c->reason);
        cell(m, "", c->message);
        time_cell(m, c->changed_ms);
        markup_add(m, "</tr>\n");
    }
    end_table(m);
}

static void write_revisions(const struct page *p, struct markup *m)
{
    static const char *const titles[] = {"revision", "from step", "workers", "predicted step",
                                         "made"};

    if (p->n_revisions == 0)
        return;
    heading(m, "Revisions");
    if (p->status && p->status->revision_reason[0]) {
        markup_add(m, "<p>");
        markup_textf(m, "Revision %d: %s", p->status->revision, p->status->revision_reason);
        markup_add(m, "</p>\n");
    }
    begin_table(m, titles, 5);
    for (size_t i = 0; i < p->n_revisions; i++) {
        const struct page_revision *r = &p->revisions[i];

        markup_add(m, "<tr><td>%d</td><td>%lld</td><td>%d</td><td>%.4g ms</td>", r->number,
                   (long long)r->step, r->n_workers, r->predicted_step_ms);
        time_cell(m, r->created_ms);
        markup_add(m, "</tr>\n");
    }
    end_table(m);
}

static void write_events(const struct page *p, struct markup *m)
{
    static const char *const titles[] = {"time", "event", "message", "times"};
    size_t first = p->n_events > PAGE_EVENTS_MAX ? p->n_events - PAGE_EVENTS_MAX : 0;

    if (p->n_events == 0)
        return;
    heading(m, "Events");
    if (first > 0)
        markup_add(m, "<p class=\"dim\">%zu older ones are left out.</p>\n", first);
    begin_table(m, titles, 4);
    for (size_t i = first; i < p->n_events; i++) {
        const struct reason_event *e = &p->events[i];
        char count[32];

        (void)snprintf(count, sizeof count, "%d", e->count);
        markup_add(m, "<tr>");
        time_cell(m, e->time_ms);
        cell(m, e->is_warning ? "bad" : "", e->reason);
        cell(m, "", e->message);
        cell(m, "n", count);
        markup_add(m, "</tr>\n");
    }
    end_table(m);
}

/* --- the page --- */

static void write_head(const struct page *p, const char *job, struct markup *m)
{
    char now[CLOCK_TEXT_BYTES];

    markup_add(m, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\n"
                  "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
                  "<title>");
    markup_text(m, job);
    markup_add(m, "</title>\n<style>\n");
    for (size_t i = 0; i < sizeof style / sizeof style[0]; i++)
        markup_add(m, "%s\n", style[i]);
    markup_add(m, "</style></head>\n<body><h1>");
    markup_text(m, job);
    clock_format(p->now_ms, now);
    markup_add(m, "</h1>\n<p class=\"dim\">");
    if (p->namespace)
        markup_textf(m, "SkyJob in namespace %s, ", p->namespace);
    markup_add(m, "as of %s; kubectl-skyjob %s</p>\n", now, SKYJOB_VERSION);
}

enum err_code page_write(const struct page *p, struct buf *out, struct err *err)
{
    struct markup m;
    enum err_code rc;

    markup_init(&m, out);
    write_head(p, p->job && p->job[0] ? p->job : PAGE_DEFAULT_JOB, &m);
    if (p->status && p->status->message[0])
        paragraph(&m, status_is(p->status, CONDITION_FAILED) ? "bad" : "", p->status->message);
    if (p->status)
        write_facts(p, &m);
    rc = write_curves(p, &m, err);
    if (rc != ERR_OK)
        return rc;
    if (p->status) {
        write_placement(p, &m);
        write_timeline(p, &m);
        write_conditions(p, &m);
    } else {
        paragraph(&m, "dim", "There is no status, so placement and timeline are left out.");
    }
    write_revisions(p, &m);
    write_events(p, &m);
    markup_add(&m, "</body></html>\n");
    return markup_finish(&m, err);
}
