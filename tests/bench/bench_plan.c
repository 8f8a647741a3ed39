/* How long the planner takes. */
#include <stdio.h>
#include <stdlib.h>

#include "balance/partition.h"
#include "base/clock.h"
#include "bench.h"

#define N_ROUNDS 5

static const struct {
    const char *name, *preset;
    int n_nodes;
} cases[] = {
    {"plan.BertMini.3nodes", "BertMini", 3},
    {"plan.BertBase.8nodes", "BertBase", 8},
};

static void make_nodes(struct node *nodes, int n)
{
    for (int i = 0; i < n; i++) {
        nodes[i] = (struct node){.cpu_milli = 1000 * (1 + i % 4),
                                 .memory_bytes = (int64_t)(4 + i % 3) << 30,
                                 .gflops = 20.0 * (1 + (i * 5) % 7),
                                 .unit_ms = 0.1};
        (void)snprintf(nodes[i].name, sizeof nodes[i].name, "node-%d", i);
    }
}

static double solve_ms(const struct partition_request *request, struct placement *out)
{
    int64_t start_ns = clock_now_ns();
    struct err err;

    if (partition_solve(request, out, &err) != ERR_OK) {
        (void)fprintf(stderr, "bench_plan: %s\n", err.text);
        exit(1);
    }
    return (double)(clock_now_ns() - start_ns) / 1e6;
}

static void bench_case(const char *name, const char *preset, int n_nodes)
{
    static struct placement placement;
    struct node nodes[8];
    struct spec spec = {0};
    struct partition_request request = {
        .spec = &spec, .nodes = nodes, .n_nodes = n_nodes, .link = COST_LINK_DEFAULT};
    double times[N_ROUNDS];

    if (model_preset(preset, &spec.model, NULL) != ERR_OK)
        exit(1);
    spec.training.batch_size = 32;
    spec.training.micro_batches = 8;
    spec.training.max_length = 128;
    spec.placement.min_stages = 1;
    spec.placement.max_stages = n_nodes;
    make_nodes(nodes, n_nodes);
    for (int i = 0; i < N_ROUNDS; i++)
        times[i] = solve_ms(&request, &placement);
    bench_print(name, bench_median(times, N_ROUNDS), "ms",
                "exact search over cuts, orders and nodes left out");
}

int main(void)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        bench_case(cases[i].name, cases[i].preset, cases[i].n_nodes);
    return 0;
}
