#include "balance/search.h"

#include <math.h>

/* Just below: cuts that differ by less than this are the same to us. */
#define BELOW (1 - 1e-9)

/* For a cut with a max above `lo`. */
static bool ask(struct search *s, double lo, double cap_ms, struct cut *out)
{
    double limit_ms = INFINITY;
    double ms;

    s->n_solves++;
    if (s->found)
        limit_ms = s->best_ms * (BELOW - s->gain) - (s->problem->n_microbatches - 1) * lo;
    if (!s->solve(s->problem, s->workspace, cap_ms, limit_ms, out))
        return false;
    ms = cut_step_ms(s->problem, out);
    if (!s->found || ms < s->best_ms * BELOW) {
        s->best = *out;
        s->best_ms = ms;
        s->found = true;
    }
    return true;
}

/* Can a cut with a max above `lo` and a sum of at least `sum_ms` still be the best? */
static bool is_open(const struct search *s, double lo, double sum_ms)
{
    return s->best_ms > s->enough_ms &&
           sum_ms + (s->problem->n_microbatches - 1) * lo < s->best_ms * (BELOW - s->gain);
}

/* Look at all cuts with max in (lo, hi), whose sums are at least `sum_ms`. Each level halves the
 * interval, so the depth is that of the doubles between lo and hi: 60 at most before BELOW ends it.
 */
static void narrow(struct search *s, double lo, double hi, double sum_ms)
{
    double middle;
    struct cut top;
    struct cut half;

    if (!is_open(s, lo, sum_ms) || lo >= hi * BELOW)
        return;
    if (s->n_solves >= SEARCH_SOLVES_MAX) {
        s->open_ms = fmin(s->open_ms, sum_ms + (s->problem->n_microbatches - 1) * lo);
        return;
    }
    if (!ask(s, lo, hi * BELOW, &top) || !is_open(s, lo, top.sum_ms))
        return;
    middle = (lo + top.max_ms) / 2;
    if (!ask(s, lo, middle, &half)) {
        narrow(s, middle, top.max_ms, top.sum_ms);
        return;
    }
    narrow(s, lo, half.max_ms, half.sum_ms);
    narrow(s, middle, top.max_ms, top.sum_ms);
}

/* No stage can be faster than the slowest unit on its fastest node. */
static double least_max(const struct cut_problem *p)
{
    double least = 0;

    for (int u = 0; u < p->n_units; u++) {
        double fastest = INFINITY;

        for (int i = 0; i < p->n_nodes; i++)
            fastest = fmin(fastest, cut_least_ms(p, i, u, u + 1));
        least = fmax(least, fastest);
    }
    return least;
}

void search_run(struct search *s)
{
    struct cut first;
    double lo = fmax(s->lo_ms, least_max(s->problem) * BELOW);

    s->n_solves = 0;
    s->open_ms = INFINITY;
    if (ask(s, lo, s->hi_ms > 0 ? s->hi_ms : INFINITY, &first))
        narrow(s, lo, first.max_ms, first.sum_ms);
}

/* --- the inner loop of the solvers --- */

/* Ends in the window, from the furthest; each with less time than those before it. */
struct queue {
    int head, tail;
    short end[MODEL_UNITS_MAX];
    double ms[MODEL_UNITS_MAX]; /* behind it, and of all units before it */
};

static void push(struct queue *q, int end, double ms)
{
    if (isinf(ms))
        return;
    while (q->tail > q->head && q->ms[q->tail - 1] > ms)
        q->tail--;
    q->end[q->tail] = (short)end;
    q->ms[q->tail++] = ms;
}

static bool fits(const struct cut_problem *p, const struct front *f, int first, int end)
{
    return cut_busy_ms(p, f->node, first, end) <= f->cap_ms &&
           (f->is_roomy || cut_run_bytes(p, first, end, f->in_flight) <= p->memory[f->node]);
}

static bool is_improvement(const struct front *f, int first, double ms)
{
    return ms < f->best_ms[first] && ms < f->limit_ms;
}

static int slide(const struct cut_problem *p, const struct front *f, struct front_run *out)
{
    const double *ms = p->ms[f->node];
    double fill = p->fill[f->node];
    double edges_ms = 2 * fill * p->message_ms[f->node];
    int next = f->most_end < p->n_units ? f->most_end : p->n_units - 1;
    int least = f->least_first > 1 ? f->least_first : 1;
    int n = 0;
    struct queue q;

    q.head = q.tail = 0;
    for (int first = f->most_first; first >= least; first--) {
        for (; next > first && next >= f->least_end; next--)
            push(&q, next, f->behind_ms[next] + edges_ms + fill * ms[next]);
        /* What does not fit now will not with a unit more. */
        while (q.head < q.tail && is_improvement(f, first, q.ms[q.head] - fill * ms[first])) {
            if (fits(p, f, first, q.end[q.head])) {
                out[n++] = (struct front_run){q.ms[q.head] - fill * ms[first], (short)first,
                                              q.end[q.head]};
                break;
            }
            q.head++;
        }
        if (q.head == q.tail && next < f->least_end)
            break; /* all ends are out of reach */
    }
    return n;
}

static void keep_better(const struct cut_problem *p, const struct front *f, int first, int end,
                        struct front_run *run)
{
    double ms = f->behind_ms[end] + cut_fill_ms(p, f->node, first, end);

    if (ms <= run->ms && is_improvement(f, first, ms) && fits(p, f, first, end))
        *run = (struct front_run){ms, (short)first, (short)end};
}

/* All units up to the last one. */
static int end_all(const struct cut_problem *p, const struct front *f, struct front_run *out)
{
    int last = p->n_units;
    int n = 0;

    if (f->most_end < last || isinf(f->behind_ms[last]))
        return 0;
    for (int first = last - 1; first >= f->least_first; first--) {
        struct front_run run = {INFINITY, 0, 0};

        if (cut_busy_ms(p, f->node, first, last) > f->cap_ms) {
            first = first > 1 ? 1 : first; /* only all units, without any messages, may take less */
            continue;
        }
        if (first <= f->most_first)
            keep_better(p, f, first, last, &run);
        if (run.end > 0)
            out[n++] = run;
    }
    return n;
}

int front_runs(const struct cut_problem *p, const struct front *f,
               struct front_run out_runs[static FRONT_RUNS_MAX])
{
    struct front_run whole = {INFINITY, 0, 0};
    int n = end_all(p, f, out_runs);

    if (f->least_first == 0)
        for (int end = f->least_end; end <= f->most_end && end < p->n_units; end++)
            keep_better(p, f, 0, end, &whole);
    if (whole.end > 0)
        out_runs[n++] = whole;
    return n + slide(p, f, out_runs + n);
}
