#include "train/stopwatch.h"

#include <math.h>

#include "base/clock.h"

void stopwatch_start(struct stopwatch *w)
{
    w->wall_from_ns = clock_now_ns();
    w->cpu_from_ns = clock_cpu_ns();
}

void stopwatch_stop(struct stopwatch *w)
{
    w->wall_to_ns = clock_now_ns();
    w->wall_ns += w->wall_to_ns - w->wall_from_ns;
    w->cpu_ns += clock_cpu_ns() - w->cpu_from_ns;
}

double stopwatch_busy_ms(const struct stopwatch *w, int threads)
{
    return (double)(threads == 1 ? w->cpu_ns : w->wall_ns) / 1e6;
}

double stopwatch_ms(double wall_ms, double cpu_ms, int allowed_milli)
{
    return fmax(wall_ms, cpu_ms * 1000 / allowed_milli);
}

void stretch_add(struct stretch *s, double step_ms)
{
    s->sum_ms += step_ms;
    s->n++;
    if (s->sum_ms < STRETCH_MS)
        return;
    if (s->best_ms == 0 || s->sum_ms / s->n < s->best_ms)
        s->best_ms = s->sum_ms / s->n;
    s->sum_ms = 0;
    s->n = 0;
}
