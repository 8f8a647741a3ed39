#include "cli/chart.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define WIDTH       520
#define HEIGHT      250
#define LEFT        64
#define RIGHT       14
#define TOP         34
#define BOTTOM      44
#define TICKS       5
#define TICKS_MAX   20
#define VALUE_MAX   1e30 /* so that differences stay finite; what is beyond is left out */
#define VALUE_MIN   1e-30
#define RANGE_MIN   1e-6 /* of the values */
#define AVERAGE     0.05 /* share of the newest point */
#define LABEL_BYTES 32
#define DIGIT_WIDTH 8 /* at most: browsers have different fonts */

struct axis {
    double from, to;
    double tick;
};

struct frame {
    struct axis x, y;
    size_t n_drawn;
};

static bool is_drawn(const struct chart_point *p)
{
    return fabs(p->x) < VALUE_MAX && fabs(p->y) < VALUE_MAX;
}

/* The distance of ticks: 1, 2 or 5 times a power of ten. */
static double tick_of(double range)
{
    double rough = range / TICKS;
    double power = pow(10, floor(log10(rough)));
    double digits = rough / power;

    return power * (digits <= 1 ? 1 : digits <= 2 ? 2 : digits <= 5 ? 5 : 10);
}

/* An axis that has both values, and some space around a single one. */
static struct axis axis_of(double from, double to, bool is_whole)
{
    struct axis a = {.from = from, .to = to};

    /* A range that the ticks' labels could not show counts as none. */
    if (!(to - from > RANGE_MIN * (fabs(from) + fabs(to)) && to - from > VALUE_MIN)) {
        double space = fabs(from) > VALUE_MIN && !is_whole ? 0.1 * fabs(from) : 1;

        a.from = from - space;
        a.to = to + space;
    }
    a.tick = tick_of(a.to - a.from);
    if (is_whole && a.tick < 1)
        a.tick = 1;
    return a;
}

static struct frame frame_of(const struct chart *c)
{
    double x[2] = {0, 0}, y[2] = {0, 0};
    struct frame f = {.n_drawn = 0};

    for (size_t i = 0; i < c->n; i++) {
        const struct chart_point *p = &c->points[i];

        if (!is_drawn(p))
            continue;
        x[0] = f.n_drawn == 0 || p->x < x[0] ? p->x : x[0];
        x[1] = f.n_drawn == 0 || p->x > x[1] ? p->x : x[1];
        y[0] = f.n_drawn == 0 || p->y < y[0] ? p->y : y[0];
        y[1] = f.n_drawn == 0 || p->y > y[1] ? p->y : y[1];
        f.n_drawn++;
    }
    if (c->has_zero && y[0] > 0)
        y[0] = 0;
    f.x = axis_of(x[0], x[1], true);
    f.y = axis_of(y[0], y[1], false);
    f.y.from = f.y.tick * floor(f.y.from / f.y.tick);
    f.y.to = f.y.tick * ceil(f.y.to / f.y.tick);
    return f;
}

static double px(const struct frame *f, double x)
{
    return LEFT + (x - f->x.from) / (f->x.to - f->x.from) * (WIDTH - LEFT - RIGHT);
}

static double py(const struct frame *f, double y)
{
    return HEIGHT - BOTTOM - (y - f->y.from) / (f->y.to - f->y.from) * (HEIGHT - TOP - BOTTOM);
}

/* --- axes --- */

static void label_of(double value, double tick, char out[static LABEL_BYTES])
{
    double rounded = fabs(value) < tick / 1e3 ? 0 : value; /* a sum that is 0 but for rounding */

    (void)snprintf(out, LABEL_BYTES, fabs(rounded) >= 1e7 ? "%.3g" : "%.7g", rounded);
}

static void write_axes(const struct chart *c, const struct frame *f, struct markup *m)
{
    char label[LABEL_BYTES];
    double at = f->y.from;

    for (int i = 0; i < TICKS_MAX && at <= f->y.to + f->y.tick / 2; i++) {
        label_of(at, f->y.tick, label);
        markup_add(m, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>", LEFT, py(f, at), WIDTH - RIGHT);
        markup_add(m, "<text class=\"tick\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>",
                   LEFT - 6, py(f, at) + 4, label);
        at = f->y.from + (i + 1) * f->y.tick;
    }
    at = f->x.tick * ceil(f->x.from / f->x.tick);
    for (int i = 0; i < TICKS_MAX && at + i * f->x.tick <= f->x.to; i++) {
        double x = px(f, at + i * f->x.tick);
        bool is_cut_off;

        label_of(at + i * f->x.tick, f->x.tick, label);
        is_cut_off = x + DIGIT_WIDTH * (double)strlen(label) / 2 > WIDTH; /* in the middle */
        markup_add(m, "<path class=\"axis\" d=\"M%.1f %dv5\"/>", x, HEIGHT - BOTTOM);
        markup_add(m, "<text class=\"tick\" x=\"%.1f\" y=\"%d\" text-anchor=\"%s\">%s</text>",
                   is_cut_off ? WIDTH - 2 : x, HEIGHT - BOTTOM + 17, is_cut_off ? "end" : "middle",
                   label);
    }
    markup_add(m, "<path class=\"axis\" d=\"M%d %dV%dH%d\"/>", LEFT, TOP, HEIGHT - BOTTOM,
               WIDTH - RIGHT);
    markup_add(m, "<text class=\"label\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">",
               (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8);
    markup_text(m, c->x_label);
    markup_add(m, "</text><text class=\"label\" x=\"%d\" y=\"%d\" text-anchor=\"end\">",
               WIDTH - RIGHT, 18);
    markup_text(m, c->y_label);
    markup_add(m, "</text>");
}

/* --- points --- */

/* A line through the points, at most four for each column: the first, the least, the greatest and
 * the last. Where points were left out it has a gap. */
struct pen {
    const struct frame *frame;
    struct markup *m;
    bool is_down;
    int column; /* of the points that are held back; -1: none */
    struct chart_point first, least, greatest, last;
};

static void draw_to(struct pen *pen, const struct chart_point *p)
{
    markup_add(pen->m, "%c%.1f %.1f", pen->is_down ? 'L' : 'M', px(pen->frame, p->x),
               py(pen->frame, p->y));
    pen->is_down = true;
}

static void flush(struct pen *pen)
{
    bool rises = pen->least.x <= pen->greatest.x;
    const struct chart_point *const held[] = {&pen->first, rises ? &pen->least : &pen->greatest,
                                              rises ? &pen->greatest : &pen->least, &pen->last};

    for (int i = 0; i < 4 && pen->column >= 0; i++)
        if (i == 0 || held[i]->x != held[i - 1]->x || held[i]->y != held[i - 1]->y)
            draw_to(pen, held[i]);
    pen->column = -1;
}

static void lift(struct pen *pen)
{
    flush(pen);
    pen->is_down = false;
}

static void take(struct pen *pen, const struct chart_point *p)
{
    const struct axis *x = &pen->frame->x;
    int column = (int)((p->x - x->from) / (x->to - x->from) * CHART_COLUMNS);

    if (column != pen->column) {
        flush(pen);
        pen->first = pen->least = pen->greatest = *p;
    }
    pen->column = column;
    pen->last = *p;
    if (p->y < pen->least.y)
        pen->least = *p;
    if (p->y > pen->greatest.y)
        pen->greatest = *p;
}

static struct pen pen_of(const struct frame *f, struct markup *m)
{
    return (struct pen){.frame = f, .m = m, .column = -1};
}

/* Gaps are at most as many as columns: one for every other point would be no line at all. */
static void write_line(const struct chart *c, const struct frame *f, struct markup *m)
{
    struct pen pen = pen_of(f, m);
    int n_gaps = 0;

    markup_add(m, "<path class=\"line%s\" d=\"", c->is_averaged ? " faint" : "");
    for (size_t i = 0; i < c->n; i++)
        if (is_drawn(&c->points[i]))
            take(&pen, &c->points[i]);
        else if (pen.column >= 0 && n_gaps < CHART_COLUMNS)
            n_gaps++, lift(&pen);
    flush(&pen);
    markup_add(m, "\"/>");
}

static void write_average(const struct chart *c, const struct frame *f, struct markup *m)
{
    struct pen pen = pen_of(f, m);
    double average = 0;
    size_t n = 0;

    markup_add(m, "<path class=\"line\" d=\"");
    for (size_t i = 0; i < c->n; i++) {
        struct chart_point p = c->points[i];

        if (!is_drawn(&p))
            continue;
        n++;
        /* First the mean of all, so that it does not begin at an outlier. */
        average += fmax(AVERAGE, 1.0 / (double)n) * (p.y - average);
        p.y = average;
        take(&pen, &p);
    }
    flush(&pen);
    markup_add(m, "\"/>");
}

/* One for each column at most. */
static void write_dots(const struct chart *c, const struct frame *f, struct markup *m)
{
    int last = -1;

    for (size_t i = 0; i < c->n; i++) {
        const struct chart_point *p = &c->points[i];
        int column;

        if (!is_drawn(p))
            continue;
        column = (int)((p->x - f->x.from) / (f->x.to - f->x.from) * CHART_COLUMNS);
        if (column == last)
            continue;
        last = column;
        markup_add(m,
                   "<circle class=\"dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"><title>%.10g: %.6g"
                   "</title></circle>",
                   px(f, p->x), py(f, p->y), p->x, p->y);
    }
}

void chart_write(const struct chart *c, struct markup *m)
{
    struct frame f = frame_of(c);

    markup_add(m, "<figure class=\"chart\"><svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"",
               WIDTH, HEIGHT);
    markup_text(m, c->title);
    markup_add(m, "\"><text class=\"title\" x=\"%d\" y=\"18\">", LEFT - 50);
    markup_text(m, c->title);
    markup_add(m, "</text>");
    if (f.n_drawn == 0) {
        markup_add(
            m, "<text class=\"label\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">no records</text>",
            WIDTH / 2, HEIGHT / 2);
    } else {
        write_axes(c, &f, m);
        write_line(c, &f, m);
        if (c->is_averaged)
            write_average(c, &f, m);
        if (c->has_dots || f.n_drawn == 1)
            write_dots(c, &f, m);
    }
    markup_add(m, "</svg>");
    if (f.n_drawn < c->n)
        markup_add(m, "<figcaption>%zu of %zu values were not finite and are left out</figcaption>",
                   c->n - f.n_drawn, c->n);
    markup_add(m, "</figure>\n");
}
