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
    return cut_run_ms(p, f->node, first, end) <= f->cap_ms &&
           (f->is_roomy || cut_run_bytes(p, first, end, f->in_flight) <= p->memory[f->node]);
}

static void slide(const struct cut_problem *p, const struct front *f, struct front_run *out)
{
    const double *ms = p->ms[f->node];
    int next = f->most_end < p->n_units ? f->most_end : p->n_units - 1;
    int limit = next;
    int least = f->least_first > 1 ? f->least_first : 1;
    struct queue q;

    q.head = q.tail = 0;
    for (int first = f->most_first; first >= least; first--) {
        for (; next > first && next >= f->least_end; next--)
            push(&q, next, f->behind_ms[next] + ms[next]);
        while (limit > first && !fits(p, f, first, limit))
            limit--;
        while (q.head < q.tail && q.end[q.head] > limit)
            q.head++;
        if (q.head < q.tail)
            out[first] = (struct front_run){q.ms[q.head] - ms[first], q.end[q.head]};
        else if (next < f->least_end)
            return; /* all ends are out of reach */
    }
}

static void keep_better(const struct cut_problem *p, const struct front *f, int first, int end,
                        struct front_run *run)
{
    double ms = f->behind_ms[end] + cut_run_ms(p, f->node, first, end);

    if (ms <= run->ms && !isinf(ms) && fits(p, f, first, end))
        *run = (struct front_run){ms, end};
}

void front_runs(const struct cut_problem *p, const struct front *f, struct front_run *out_runs)
{
    int last = p->n_units;

    for (int first = f->least_first; first <= f->most_first; first++)
        out_runs[first] = (struct front_run){INFINITY, 0};
    slide(p, f, out_runs);
    if (f->least_first == 0)
        for (int end = f->least_end; end <= f->most_end && end < last; end++)
            keep_better(p, f, 0, end, &out_runs[0]);
    if (f->most_end < last || isinf(f->behind_ms[last]))
        return;
    for (int first = last - 1; first >= f->least_first; first--) {
        if (cut_run_ms(p, f->node, first, last) > f->cap_ms)
            return;
        if (first <= f->most_first)
            keep_better(p, f, first, last, &out_runs[first]);
    }
}
