#include "balance/cut.h"

#include <stdlib.h>

static void fill_arrays(const struct partition_request *r, struct cut_problem *p)
{
    struct cost_unit costs[MODEL_UNITS_MAX];

    cost_of_units(r->spec, costs);
    p->state_bytes[0] = 0;
    p->activation_bytes[0] = 0;
    for (int i = 0; i < p->n_nodes; i++)
        p->ms[i][0] = 0;
    for (int u = 0; u < p->n_units; u++) {
        const struct cost_unit c = costs[u];

        p->state_bytes[u + 1] = p->state_bytes[u] + c.state_bytes;
        p->activation_bytes[u + 1] = p->activation_bytes[u] + c.activation_bytes;
        p->scratch_bytes[u] = c.scratch_bytes;
        if (c.scratch_bytes > p->max_scratch_bytes)
            p->max_scratch_bytes = c.scratch_bytes;
        p->slot_bytes[u] = c.slot_bytes;
        p->edge_ms[u] = cost_edge_ms(&c, &r->link);
        for (int i = 0; i < p->n_nodes; i++)
            p->ms[i][u + 1] = p->ms[i][u] + cost_unit_ms(&c, &r->nodes[p->nodes[i]]);
    }
}

enum err_code cut_problem_init(const struct partition_request *request, const int *nodes,
                               int n_nodes, struct cut_problem *out, struct err *err)
{
    const struct spec *spec = request->spec;
    struct cut_problem p = {.n_units = model_units(&spec->model),
                            .n_nodes = n_nodes,
                            .n_microbatches = spec->training.micro_batches,
                            .min_stages = spec->placement.min_stages,
                            .max_stages = spec->placement.max_stages};
    size_t row = (size_t)p.n_units + 1;
    int64_t *block = calloc(row * (size_t)(n_nodes + 5), sizeof *block);

    _Static_assert(sizeof(double) == sizeof(int64_t), "one block holds both");
    if (!block)
        return err_set(err, ERR_NO_MEMORY, "planning %d units on %d nodes", p.n_units, n_nodes);
    p.memory_block = block;
    p.state_bytes = block;
    p.activation_bytes = block + row;
    p.scratch_bytes = block + 2 * row;
    p.slot_bytes = block + 3 * row;
    p.edge_ms = (double *)(block + 4 * row);
    for (int i = 0; i < n_nodes; i++) {
        p.nodes[i] = nodes[i];
        p.memory[i] = request->nodes[nodes[i]].memory_bytes;
        p.ms[i] = (double *)(block + (size_t)(i + 5) * row);
    }
    if (p.max_stages > n_nodes)
        p.max_stages = n_nodes;
    if (p.max_stages > p.n_units)
        p.max_stages = p.n_units;
    fill_arrays(request, &p);
    *out = p;
    return ERR_OK;
}

void cut_problem_deinit(struct cut_problem *p)
{
    free(p->memory_block);
    *p = (struct cut_problem){0};
}

void cut_measure(const struct cut_problem *p, struct cut *c)
{
    c->sum_ms = 0;
    c->max_ms = 0;
    for (int s = 0; s < c->n_stages; s++) {
        double ms = cut_run_ms(p, c->node[s], c->first[s], c->first[s + 1]);
        double edge_ms = cut_edge_sum_ms(p, c->first[s + 1]);

        c->sum_ms += ms + edge_ms;
        if (ms > c->max_ms)
            c->max_ms = ms;
        if (edge_ms / 2 > c->max_ms)
            c->max_ms = edge_ms / 2;
    }
}

int64_t cut_stage_bytes(const struct cut_problem *p, const struct cut *c, int s)
{
    int64_t scratch = 0;

    for (int u = c->first[s]; u < c->first[s + 1]; u++)
        if (p->scratch_bytes[u] > scratch)
            scratch = p->scratch_bytes[u];
    return cut_run_bytes(p, c->first[s], c->first[s + 1], scratch,
                         cut_in_flight(p, c->n_stages - 1 - s));
}

double cut_step_ms(const struct cut_problem *p, const struct cut *c)
{
    return c->sum_ms + (p->n_microbatches - 1) * c->max_ms;
}

int cut_misfit(const struct cut_problem *p, const struct cut *c)
{
    for (int s = 0; s < c->n_stages; s++)
        if (cut_stage_bytes(p, c, s) > p->memory[c->node[s]])
            return s;
    return -1;
}
