#include "pipe/stopwatch.h"

#include <math.h>

#include "base/clock.h"

void stopwatch_start(struct stopwatch *w)
{
    w->wall_from_ns = clock_now_ns();
    w->cpu_from_ns = clock_cpu_ns();
}

void stopwatch_stop(struct stopwatch *w)
{
    w->wall_ns += clock_now_ns() - w->wall_from_ns;
    w->cpu_ns += clock_cpu_ns() - w->cpu_from_ns;
}

double stopwatch_ms(double wall_ms, double cpu_ms, int allowed_milli)
{
    return fmax(wall_ms, cpu_ms * 1000 / allowed_milli);
}
