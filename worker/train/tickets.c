#include "train/tickets.h"

#include <math.h>

void tickets_begin(struct tickets *t, int n_replicas, int64_t first_step, int64_t end_step)
{
    *t = (struct tickets){.n_replicas = n_replicas,
                          .first = first_step * n_replicas,
                          .next = first_step * n_replicas,
                          .end = end_step * n_replicas};
    for (int r = 0; r < n_replicas; r++)
        t->held[r].ticket = -1;
}

/* Would the others that still get tickets end all that is left before this replica ends one? Never
 * so for the fastest of them. One that has held a ticket for longer than usual is as slow as that.
 */
static bool is_left_to_others(const struct tickets *t, int replica, int64_t now_ms)
{
    double per_ms = 0, least_ms = INFINITY, others_ms;

    for (int r = 0; r < t->n_replicas; r++) {
        double ms = t->pace_ms[r];

        if (ms <= 0)
            return false;
        if (r == replica || t->held[r].is_over)
            continue;
        if (t->held[r].ticket >= 0)
            ms = fmax(ms, (double)(now_ms - t->held[r].given_ms));
        per_ms += 1 / ms;
        least_ms = fmin(least_ms, ms);
    }
    if (per_ms <= 0)
        return false;
    others_ms = fmax((double)(t->end - t->next) / per_ms, least_ms);
    return others_ms < t->pace_ms[replica];
}

bool tickets_must_wait(const struct tickets *t, int replica, int most)
{
    bool must_wait = false;
    int n_held = 0;

    for (int r = 0; r < t->n_replicas; r++)
        n_held += r != replica && t->held[r].ticket >= 0;
    for (int r = 0; r < t->n_replicas; r++)
        if (r != replica && t->held[r].ticket >= 0)
            must_wait = must_wait || t->n_ended - t->held[r].given_at + n_held > most;
    return t->next < t->end && must_wait;
}

bool tickets_take(struct tickets *t, int replica, int64_t now_ms, int64_t *out)
{
    t->held[replica].is_over = t->next == t->end || is_left_to_others(t, replica, now_ms);
    if (t->held[replica].is_over)
        return false;
    *out = t->held[replica].ticket = t->next++;
    t->held[replica].given_at = t->n_ended;
    t->held[replica].given_ms = now_ms;
    return true;
}

void tickets_return(struct tickets *t, int replica, int64_t now_ms, bool is_skipped)
{
    int64_t staleness = t->n_ended - t->held[replica].given_at;

    t->pace_ms[replica] = fmax((double)(now_ms - t->held[replica].given_ms), 1);
    t->held[replica].ticket = -1;
    t->n_ended++;
    t->n_skipped += is_skipped;
    t->staleness += staleness;
    t->staleness_max = staleness > t->staleness_max ? staleness : t->staleness_max;
}

void tickets_close(struct tickets *t)
{
    int n = t->n_replicas;
    int64_t end = (t->next + n - 1) / n * n;

    t->end = end < t->end ? end : t->end;
}

bool tickets_are_over(const struct tickets *t)
{
    return t->next == t->end && t->first + t->n_ended == t->end;
}

int64_t tickets_steps_done(const struct tickets *t)
{
    return (t->first + t->n_ended) / t->n_replicas;
}

double tickets_mean_staleness(const struct tickets *t)
{
    return t->n_ended > 0 ? (double)t->staleness / (double)t->n_ended : 0;
}
