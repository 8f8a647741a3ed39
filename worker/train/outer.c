#include "train/outer.h"

/* The replica that would end first if it got one more. */
static int find_first(int n, const double ticket_ms[], const int64_t shares[])
{
    int first = 0;

    for (int r = 1; r < n; r++)
        if ((double)(shares[r] + 1) * ticket_ms[r] < (double)(shares[first] + 1) * ticket_ms[first])
            first = r;
    return first;
}

void outer_deal(int64_t n_tickets, int n, const double ticket_ms[], int64_t out[])
{
    int64_t left = n_tickets;
    double per_ms = 0;

    for (int r = 0; r < n; r++)
        per_ms += 1 / ticket_ms[r];
    /* out[r + 1] is first the share of replica r. */
    for (int r = 0; r < n; r++) {
        out[r + 1] = (int64_t)((double)n_tickets / ticket_ms[r] / per_ms);
        left -= out[r + 1];
    }
    for (; left > 0; left--)
        out[find_first(n, ticket_ms, out + 1) + 1]++;
    out[0] = 0;
    for (int r = 0; r < n; r++)
        out[r + 1] += out[r];
}

int64_t outer_due(const struct model *m, int unit, int64_t n_tickets)
{
    double before = 0, all = 0;

    for (int u = 0; u < model_units(m); u++) {
        double params = (double)model_unit_params(m, u);

        all += params;
        before += u < unit ? params : u == unit ? params / 2 : 0;
    }
    return (int64_t)((double)n_tickets * before / all);
}

void outer_apply(const struct outer_step *how, float *params, float *sums, float *velocity,
                 size_t n)
{
    const float rate = (float)how->rate, momentum = (float)how->momentum;
    const float of_sum = 1.0f / (float)how->n_replicas;

    for (size_t i = 0; i < n; i++) {
        float d = params[i] - of_sum * sums[i];

        if (velocity) {
            velocity[i] = momentum * velocity[i] + d;
            d += momentum * velocity[i];
        }
        params[i] -= rate * d;
        sums[i] = 0;
    }
}
