/* Large clusters: how long a whole plan takes, with the number of micro-batches chosen, as the
 * operator makes it, and how far from the bound it ends. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "balance/partition.h"
#include "method.h"

static const struct {
    int n_nodes;
    const char *preset;
    int n_layers;    /* 0: the preset's */
    int n_buildings; /* fast inside, slow between; 1: all links are alike */
} rows[] = {
    {1000, "BertBase", 0, 1},    {1000, "BertBase", 0, 4},    {5000, "BertBase", 0, 1},
    {5000, "BertBase", 0, 4},    {1000, "BertLarge", 160, 1}, {1000, "BertLarge", 160, 4},
    {5000, "BertLarge", 160, 1}, {5000, "BertLarge", 160, 4},
};

static void *take(size_t n, size_t size)
{
    void *p = calloc(n, size);

    if (!p)
        exit(1);
    return p;
}

static void print_row(size_t row)
{
    static const struct cost_link inside = {.bytes_per_s = 1e9, .latency_ms = 0.1};
    static const struct cost_link between = {.bytes_per_s = 12e6, .latency_ms = 2};
    static struct placement placement;
    size_t n = (size_t)rows[row].n_nodes;
    struct node *nodes = take(n, sizeof *nodes);
    struct cost_link *links = rows[row].n_buildings > 1 ? take(n * n, sizeof *links) : NULL;
    struct spec spec = {.training = {.batch_size = 32, .max_length = 128},
                        .placement = {.min_stages = 1, .max_stages = SPEC_STAGES_MAX}};
    struct partition_request request = partition_request_of(&spec);
    size_t n_buildings = (size_t)rows[row].n_buildings;
    double start_ms;
    struct err err;

    if (model_preset(rows[row].preset, &spec.model, NULL) != ERR_OK)
        exit(1);
    if (rows[row].n_layers > 0)
        spec.model.layers = rows[row].n_layers;
    draw_many(nodes, rows[row].n_nodes);
    for (size_t i = 0; links && i < n * n; i++)
        links[i] = i / n % n_buildings == i % n % n_buildings ? inside : between;
    request.nodes = nodes;
    request.n_nodes = rows[row].n_nodes;
    request.links = links;
    start_ms = method_clock_ms(CLOCK_PROCESS_CPUTIME_ID);
    if (partition_choose(&request, &placement, &err) != ERR_OK) {
        (void)fprintf(stderr, "bench-placement: %s\n", err.text);
        exit(1);
    }
    (void)printf("%-5d %9d %6d %12d %8d %10.1f %9.2f%% %10.2f\n", rows[row].n_nodes,
                 rows[row].n_buildings, spec.model.layers, placement.micro_batches,
                 placement.n_stages, placement.predicted_step_ms,
                 100 * (placement.predicted_step_ms / placement.bound_ms - 1),
                 (method_clock_ms(CLOCK_PROCESS_CPUTIME_ID) - start_ms) / 1e3);
    free(links);
    free(nodes);
}

void many_print(void)
{
    (void)printf("\nLarge clusters, nodes 1 to 7 times slower than the fastest, 4 to 12 GiB; in "
                 "buildings 8 Gbit/s, between them 0.1\n%-5s %9s %6s %12s %8s %10s %10s %10s\n",
                 "nodes", "buildings", "layers", "microBatches", "stages", "step ms", "over bound",
                 "CPU s");
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++)
        print_row(row);
}
