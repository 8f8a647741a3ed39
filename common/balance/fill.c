#include "balance/fill.h"

#include <math.h>

#define PERIOD_MS 100.0 /* of a CPU quota: the kernel's and the kubelet's default */

double fill_balanced_ms(const struct partition_request *r, double flops)
{
    double flops_per_ms = 0;

    for (int i = 0; i < r->n_nodes; i++)
        flops_per_ms += r->nodes[i].gflops * 1e6;
    return flops / flops_per_ms;
}

static double latency_ms(double cpu_ms, double quota)
{
    double at_hand_ms = quota * PERIOD_MS;

    return fmin(cpu_ms, at_hand_ms) + fmax(0, cpu_ms - at_hand_ms) / quota;
}

double fill_share(const struct node *n, double balanced_ms, int n_microbatches)
{
    double quota = n->cpu_milli / 1000.0;
    double cpu_ms = quota * balanced_ms;

    if (n->cpu_milli <= 0 || n->cpu_milli >= 1000 || n_microbatches == 1)
        return 1;
    return (latency_ms(cpu_ms / 3, quota) + latency_ms(cpu_ms * 2 / 3, quota)) / balanced_ms;
}

double fill_busy(double share, int n_microbatches)
{
    return n_microbatches > 1 ? (n_microbatches - share) / (n_microbatches - 1) : 1;
}
