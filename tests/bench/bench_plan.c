/* How long the planner takes, how far from its bound it ends, and what other strategies make of
 * the same nodes. Predictions only: nothing is trained. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "balance/partition.h"
#include "balance/rules.h"
#include "bench.h"
#include "released.h"

#define N_ROUNDS  5
#define NODES_MAX 1000
#define N_DRAWS   10

static const struct {
    const char *name, *preset;
    int layers; /* 0: the preset's */
    int n_nodes;
    int max_stages;
    int zones; /* fast inside, slow between; 0: all links are alike */
    int kinds; /* of nodes; 0: all differ */
    int least_mib, most_mib;
} cases[] = {
    {"plan.BertMini.3nodes", "BertMini", 0, 3, 3, 0, 0, 4096, 12288},
    {"plan.BertBase.8nodes", "BertBase", 0, 8, 8, 0, 0, 4096, 12288},
    {"plan.BertBase.8nodes.4zones", "BertBase", 0, 8, 8, 4, 0, 4096, 12288},
    {"plan.BertBase.11nodes", "BertBase", 0, 11, 11, 0, 0, 4096, 12288},
    {"plan.BertBase.64nodes.3kinds", "BertBase", 0, 64, 27, 0, 3, 4096, 12288},
    {"plan.160layers.64nodes", "BertLarge", 160, 64, 64, 0, 0, 4096, 12288},
    {"plan.160layers.64nodes.4zones", "BertLarge", 160, 64, 64, 4, 0, 4096, 12288},
    {"plan.160layers.64nodes.tight", "BertLarge", 160, 64, 64, 0, 0, 1536, 2560},
    {"plan.160layers.64nodes.tight.4zones", "BertLarge", 160, 64, 64, 4, 0, 1536, 2560},
    {"plan.160layers.1000nodes", "BertLarge", 160, 1000, 64, 0, 0, 4096, 12288},
    {"plan.160layers.1000nodes.4zones", "BertLarge", 160, 1000, 64, 4, 0, 4096, 12288},
};

/* Clusters like the published ones: one worker a node, times drawn as multiples of the fastest. */
static const struct {
    const char *name;
    int n_nodes, layers;
    bool is_integer; /* 2 to 7 times as long; else anything from 1 to 2 */
} clusters[] = {
    {"16nodes.24layers.2to7", 16, 24, true},   {"16nodes.24layers.1to2", 16, 24, false},
    {"32nodes.80layers.2to7", 32, 80, true},   {"32nodes.80layers.1to2", 32, 80, false},
    {"64nodes.160layers.2to7", 64, 160, true}, {"64nodes.160layers.1to2", 64, 160, false},
};

struct draw {
    struct spec spec;
    struct node nodes[NODES_MAX];
    struct cost_link links[NODES_MAX * NODES_MAX];
    struct partition_request request;
    uint64_t dice; /* the same in every run */
};

static double roll(struct draw *d, double from, double to)
{
    d->dice = d->dice * 6364136223846793005u + 1442695040888963407u;
    return from + (to - from) * (double)(d->dice >> 11) / (double)(1ull << 53);
}

static void make_spec(struct draw *d, const char *preset, int layers, int n_nodes, int max_stages)
{
    d->spec = (struct spec){.training = {.batch_size = 32, .micro_batches = 8, .max_length = 128},
                            .placement = {.min_stages = 1, .max_stages = max_stages}};
    if (model_preset(preset, &d->spec.model, NULL) != ERR_OK)
        exit(1);
    if (layers > 0)
        d->spec.model.layers = layers;
    d->request = partition_request_of(&d->spec);
    d->request.nodes = d->nodes;
    d->request.n_nodes = n_nodes;
}

/* As buildings of one site: 8 Gbit/s in each, 100 Mbit/s to the others. */
static void make_zones(struct draw *d, int zones)
{
    static const struct cost_link inside = {.bytes_per_s = 1e9, .latency_ms = 0.1};
    static const struct cost_link between = {.bytes_per_s = 12e6, .latency_ms = 2};
    int n = d->request.n_nodes;

    for (int i = 0; i < n * n; i++)
        d->links[i] = i / n % zones == i % n % zones ? inside : between;
    d->request.links = d->links;
}

static void make_node(struct draw *d, int i, double slowness, int mib)
{
    d->nodes[i] = (struct node){.cpu_milli = 1000,
                                .memory_bytes = (int64_t)mib << 20,
                                .gflops = 200 / slowness,
                                .unit_ms = 0.1};
    (void)snprintf(d->nodes[i].name, sizeof d->nodes[i].name, "node-%d", i);
}

/* Of this process, so that others on the machine do not count. */
static double cpu_ms(void)
{
    struct timespec now;

    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) != 0)
        exit(1);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static double solve_ms(const struct partition_request *request, struct placement *out)
{
    double start_ms = cpu_ms();
    struct err err;

    if (partition_solve(request, out, &err) != ERR_OK) {
        (void)fprintf(stderr, "bench_plan: %s\n", err.text);
        exit(1);
    }
    return cpu_ms() - start_ms;
}

static void bench_case(struct draw *d, size_t c)
{
    static struct placement placement;
    double times[N_ROUNDS];
    double worst = 0;
    char name[64];

    for (int i = 0; i < bench_rounds(N_ROUNDS); i++) {
        make_spec(d, cases[c].preset, cases[c].layers, cases[c].n_nodes, cases[c].max_stages);
        for (int n = 0; n < cases[c].n_nodes; n++)
            make_node(d, n, roll(d, 1, 7),
                      cases[c].least_mib + n % 9 * (cases[c].most_mib - cases[c].least_mib) / 8);
        for (int n = cases[c].kinds; cases[c].kinds && n < cases[c].n_nodes; n++)
            d->nodes[n] = d->nodes[n % cases[c].kinds];
        if (cases[c].zones)
            make_zones(d, cases[c].zones);
        times[i] = solve_ms(&d->request, &placement);
        worst = fmax(worst, placement.predicted_step_ms / placement.bound_ms - 1);
    }
    bench_print(cases[c].name, bench_median(times, bench_rounds(N_ROUNDS)), "ms",
                "CPU time; nodes 1 to 7 times slower than the fastest, 4 to 12 GiB, tight: 1.5 to "
                "2.5 GiB; zones: 8 Gbit/s inside, 0.1 between");
    (void)snprintf(name, sizeof name, "%s.gap", cases[c].name);
    bench_print(name, 100 * worst, "%", "above what no plan can beat, at worst");
}

/* The step of Even, or of what a form of Dynamic makes of it, over nodes as they stand. */
static double fixed_ms(const struct draw *d,
                       void (*improve)(const struct cut_problem *p, struct cut *cut))
{
    int nodes[PARTITION_CANDIDATES_MAX];
    struct cut_problem p;
    struct cut cut;
    double ms;

    for (int i = 0; i < d->request.n_nodes; i++)
        nodes[i] = i;
    if (cut_problem_init(&d->request, nodes, d->request.n_nodes, &p, NULL) != ERR_OK)
        exit(1);
    even_cut(&p, d->spec.model.layers, 2, &cut);
    if (improve)
        improve(&p, &cut);
    ms = cut_step_ms(&p, &cut);
    cut_problem_deinit(&p);
    return ms;
}

static void bench_cluster(struct draw *d, size_t c)
{
    static const char *const names[] = {"Even", "DynamicAsReleased", "DynamicMended", "bound"};
    static struct placement best;
    double sums[4] = {0};

    for (int i = 0; i < bench_rounds(N_DRAWS); i++) {
        make_spec(d, "BertLarge", clusters[c].layers, clusters[c].n_nodes, clusters[c].n_nodes);
        for (int n = 0; n < clusters[c].n_nodes; n++)
            make_node(d, n, clusters[c].is_integer ? 2 + floor(roll(d, 0, 6)) : roll(d, 1, 2),
                      65536);
        (void)solve_ms(&d->request, &best);
        sums[0] += fixed_ms(d, NULL) / best.predicted_step_ms;
        sums[1] += fixed_ms(d, released_improve) / best.predicted_step_ms;
        sums[2] += fixed_ms(d, dynamic_improve) / best.predicted_step_ms;
        sums[3] += best.bound_ms / best.predicted_step_ms;
    }
    for (int s = 0; s < 4; s++) {
        char name[96];

        (void)snprintf(name, sizeof name, "plan.%s.%s", clusters[c].name, names[s]);
        bench_print(name, sums[s] / bench_rounds(N_DRAWS), "x",
                    "predicted step over Optimal's, mean of 10 draws, 8 micro-batches");
    }
}

int main(void)
{
    static struct draw draw = {.dice = 20261121};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        bench_case(&draw, i);
    for (size_t i = 0; i < sizeof clusters / sizeof clusters[0]; i++)
        bench_cluster(&draw, i);
    return 0;
}
