#include "draw.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define BATCH      32
#define FLOAT_SIZE 4

static double roll(uint64_t *dice, double from, double to)
{
    *dice = *dice * 6364136223846793005u + 1442695040888963407u;
    return from + (to - from) * (double)(*dice >> 11) / (double)(1ull << 53);
}

void draw_make(struct draw *out, int n_nodes, int n_layers, enum draw_slowness slowness, int i)
{
    uint64_t dice =
        20261121u + (uint64_t)(((i * 1000 + n_nodes) * 1000 + n_layers) * 2 + (int)slowness);
    struct spec *spec = &out->spec;

    *out = (struct draw){.spec = {.training = {.batch_size = BATCH, .max_length = 128},
                                  .placement = {.min_stages = 1, .max_stages = n_nodes}}};
    out->request = partition_request_of(spec);
    out->request.nodes = out->nodes;
    out->request.n_nodes = n_nodes;
    if (model_preset("BertLarge", &spec->model, NULL) != ERR_OK)
        exit(1);
    spec->model.layers = n_layers;
    (void)roll(&dice, 0, 1); /* the first numbers of seeds that are near each other are, too */
    for (int n = 0; n < n_nodes; n++) {
        double slow = slowness == DRAW_INTEGERS ? 2 + floor(roll(&dice, 0, 6)) : roll(&dice, 1, 2);

        out->nodes[n] = (struct node){.cpu_milli = 1000,
                                      .memory_bytes = (int64_t)16 << 30,
                                      .gflops = 200 / slow,
                                      .unit_ms = 0.1};
        (void)snprintf(out->nodes[n].name, sizeof out->nodes[n].name, "node-%d", n);
    }
    draw_run_as(out, DRAW_SERIAL);
}

void draw_many(struct node *out, int n)
{
    uint64_t dice = 20261121u;

    for (int i = 0; i < n; i++) {
        out[i] = (struct node){.cpu_milli = 1000,
                               .memory_bytes = (int64_t)(4 + i % 9) << 30,
                               .gflops = 200 / roll(&dice, 1, 7),
                               .unit_ms = 0.1};
        (void)snprintf(out[i].name, sizeof out[i].name, "node-%d", i);
    }
}

void draw_run_as(struct draw *d, enum draw_runtime runtime)
{
    d->request.job.micro_batches = runtime == DRAW_SERIAL ? 1 : runtime == DRAW_PIPELINE ? 8 : 32;
}

const char *draw_slowness_name(enum draw_slowness s)
{
    return s == DRAW_INTEGERS ? "2..7" : "[1,2)";
}

const char *draw_runtime_name(enum draw_runtime r)
{
    return r == DRAW_SERIAL     ? "serial"
           : r == DRAW_PIPELINE ? "pipeline, 8 micro-batches"
                                : "pipeline, 32 micro-batches";
}

/* The feed-forward block as two units. Between them runs what is wider, and the residual. */
static void split(const struct cost_job *job, const struct cost_unit *ffn, struct cost_unit out[2])
{
    struct model_load mean = cost_load_mean(job);

    out[0] = *ffn;
    out[0].flops /= 2;
    out[0].state_bytes /= 2;
    out[0].activation_bytes /= 2;
    out[1] = out[0];
    out[0].edge_mean_bytes =
        mean.tokens * (double)(job->spec->model.ffn + job->spec->model.hidden) * FLOAT_SIZE;
}

static int units_of(const struct draw *d, int per_layer, struct cost_unit *out)
{
    struct cost_unit ours[MODEL_UNITS_MAX];
    int n_ours = model_units(&d->spec.model);
    int n = 0;

    cost_of_units(&d->request.job, ours);
    for (int u = 0; u < n_ours; u++) {
        if (per_layer == 3 && model_unit_kind(&d->spec.model, u) == UNIT_FFN) {
            split(&d->request.job, &ours[u], out + n);
            n += 2;
        } else {
            out[n++] = ours[u];
        }
    }
    return n;
}

static void sort_by_speed(const struct draw *d, int *nodes)
{
    for (int i = 1; i < d->request.n_nodes; i++)
        for (int k = i; k > 0 && d->nodes[nodes[k]].gflops > d->nodes[nodes[k - 1]].gflops; k--) {
            int other = nodes[k];

            nodes[k] = nodes[k - 1];
            nodes[k - 1] = other;
        }
}

void draw_problem(const struct draw *d, int per_layer, bool is_fastest_first,
                  struct cut_problem *out)
{
    struct cost_unit units[MODEL_UNITS_MAX];
    int n_units = units_of(d, per_layer, units);
    int nodes[DRAW_NODES_MAX];
    struct err err;

    for (int i = 0; i < d->request.n_nodes; i++)
        nodes[i] = i;
    if (is_fastest_first)
        sort_by_speed(d, nodes);
    if (cut_problem_init_units(&d->request, nodes, d->request.n_nodes, units, n_units, out, &err) !=
        ERR_OK) {
        (void)fprintf(stderr, "bench-placement: %s\n", err.text);
        exit(1);
    }
}
