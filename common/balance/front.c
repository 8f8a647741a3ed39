#include "balance/front.h"

#include <math.h>

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

static bool is_better(const struct front *f, int first, double ms)
{
    return ms < f->best_ms[first] && (f->rest_ms ? f->rest_ms[first] : 0) + ms < f->limit_ms;
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
        while (q.head < q.tail && is_better(f, first, q.ms[q.head] - fill * ms[first])) {
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

    if (ms <= run->ms && is_better(f, first, ms) && fits(p, f, first, end))
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
