#include "balance/cut.h"

#include <math.h>
#include <stdlib.h>

#define POWERS 11 /* of two, up to MODEL_UNITS_MAX */

/* --- link classes and kinds of nodes --- */

static bool has_alike_links(const struct partition_request *r, const int *nodes, int n, int a,
                            int b)
{
    if (r->link_class && r->link_class[nodes[a]] == r->link_class[nodes[b]])
        return true;
    for (int i = 0; i < n; i++) {
        const struct cost_link *x = partition_link(r, nodes[a], nodes[i]);
        const struct cost_link *y = partition_link(r, nodes[b], nodes[i]);

        if (i != a && i != b &&
            (x->bytes_per_s != y->bytes_per_s || x->latency_ms != y->latency_ms))
            return false;
    }
    return true;
}

int link_classes(const struct partition_request *r, const int *nodes, int n, int *out_class)
{
    int n_classes = 0;

    for (int i = 0; i < n; i++) {
        int like = 0; /* found: the first of its class */

        while (like < i && r->links && !has_alike_links(r, nodes, n, like, i))
            like++;
        out_class[i] = like < i ? out_class[like] : n_classes++;
    }
    return n_classes;
}

static bool is_same_node(const struct node *a, const struct node *b)
{
    return a->gflops == b->gflops && a->unit_ms == b->unit_ms &&
           a->memory_bytes == b->memory_bytes && a->cpu_milli == b->cpu_milli &&
           a->message.ms == b->message.ms && a->message.byte_ns == b->message.byte_ns;
}

void node_kinds(const struct partition_request *r, const int *nodes, int n, const int *link_class,
                struct kinds *out)
{
    struct kinds k = {.n = 0};

    for (int class = 0; class < n; class ++)
        for (int i = 0; i < n; i++) {
            int like = 0; /* found: the first of its kind */

            if (link_class[i] != class)
                continue;
            while (like < i && !(link_class[like] == class &&
                                 is_same_node(&r->nodes[nodes[like]], &r->nodes[nodes[i]])))
                like++;
            k.of[i] = like < i ? k.of[like] : k.n;
            k.link_class[k.of[i]] = class;
            if (k.count[k.of[i]]++ == 0)
                k.first[k.n++] = i;
        }
    *out = k;
}

/* --- the problem --- */

void cut_nodes_init(const struct partition_request *r, const int *nodes, int n,
                    const struct cost_unit *units, int n_units, struct cut_node *out)
{
    const struct cost_unit *largest = cost_largest_edge(units, n_units);
    double flops = 0;
    double balanced_ms;

    for (int u = 0; u < n_units; u++)
        flops += units[u].flops;
    balanced_ms = cost_balanced_ms(r->nodes, r->n_nodes, flops);
    for (int i = 0; i < n; i++) {
        const struct node *node = &r->nodes[nodes[i]];
        double fill = cost_fill_share(node, balanced_ms, r->job.micro_batches);

        out[i] = (struct cut_node){.at = nodes[i],
                                   .memory = partition_memory(r, nodes[i]),
                                   .fill = fill,
                                   .busy = cost_busy_share(fill, r->job.micro_batches),
                                   .message_ms = cost_messages_ms(largest, node)};
    }
}

/* The first unit that sends messages as large as `unit`. */
static int first_alike(const struct cost_unit *costs, int unit)
{
    int first = 0;

    while (costs[first].edge_mean_bytes != costs[unit].edge_mean_bytes)
        first++;
    return first;
}

/* One table for every size of message: nearly all edges carry the same. A pair of candidates stands
 * for their classes; a class of one node has no link to itself. */
static void fill_edges(const struct partition_request *r, const struct cost_unit *costs,
                       int n_tables, struct cut_problem *p)
{
    int64_t table = (int64_t)p->n_classes * p->n_classes;

    p->edge_at[p->n_units] = --n_tables * table;
    for (int u = 0; u < p->n_units - 1; u++) {
        int first = first_alike(costs, u);
        double *edges_ms;

        p->edge_at[u + 1] = first == u ? --n_tables * table : p->edge_at[first + 1];
        if (first < u)
            continue;
        edges_ms = p->edge_ms + p->edge_at[u + 1];
        for (int i = 0; i < table; i++)
            edges_ms[i] = INFINITY;
        for (int a = p->n_nodes - 1; a >= 0; a--)
            for (int b = p->n_nodes - 1; b >= 0; b--)
                if (a != b)
                    edges_ms[p->class_of[a] * p->n_classes + p->class_of[b]] =
                        cost_edge_ms(&costs[u], partition_link(r, p->nodes[a].at, p->nodes[b].at));
    }
}

enum err_code cut_problem_init(const struct partition_request *request, const int *nodes,
                               int n_nodes, struct cut_problem *out, struct err *err)
{
    struct cost_unit units[MODEL_UNITS_MAX];

    cost_of_units(&request->job, units);
    return cut_problem_init_units(request, nodes, n_nodes, units,
                                  model_units(&request->job.spec->model), out, err);
}

enum err_code cut_problem_init_units(const struct partition_request *request, const int *nodes,
                                     int n_nodes, const struct cost_unit *units, int n_units,
                                     struct cut_problem *out, struct err *err)
{
    struct cut_problem p = {.n_units = n_units,
                            .n_nodes = n_nodes,
                            .n_microbatches = request->job.micro_batches,
                            .min_stages = request->min_stages,
                            .max_stages = request->max_stages};
    size_t row = (size_t)n_units + 1;
    size_t n_rows = (size_t)(n_nodes + 4 + POWERS);
    int n_tables = 1;
    size_t table;
    int64_t *block;

    _Static_assert(sizeof(double) == sizeof(int64_t), "one block holds both");
    _Static_assert(MODEL_UNITS_MAX < 1 << POWERS, "a row for every power of two");
    if (p.max_stages > n_nodes)
        p.max_stages = n_nodes;
    if (p.max_stages > n_units)
        p.max_stages = n_units;
    p.n_classes = link_classes(request, nodes, n_nodes, p.class_of);
    node_kinds(request, nodes, n_nodes, p.class_of, &p.kinds);
    table = (size_t)p.n_classes * (size_t)p.n_classes;
    for (int u = 0; u < n_units - 1; u++)
        n_tables += first_alike(units, u) == u;
    block = calloc(row * n_rows + (size_t)n_tables * table, sizeof *block);
    if (!block)
        return err_set(err, ERR_NO_MEMORY, "planning %d units on %d nodes", n_units, n_nodes);
    p.memory_block = block;
    p.state_bytes = block;
    p.activation_bytes = block + row;
    p.slot_bytes = block + 2 * row;
    p.edge_at = block + 3 * row;
    p.scratch_bytes = block + 4 * row;
    p.edge_ms = (double *)(block + n_rows * row);
    for (int i = 0; i < n_nodes; i++)
        p.ms[i] = (double *)(block + (size_t)(i + 4 + POWERS) * row);
    cut_nodes_init(request, nodes, n_nodes, units, n_units, p.nodes);
    fill_edges(request, units, n_tables, &p);
    for (int u = 0; u < n_units; u++) {
        p.state_bytes[u + 1] = p.state_bytes[u] + units[u].state_bytes;
        p.activation_bytes[u + 1] = p.activation_bytes[u] + units[u].activation_bytes;
        p.scratch_bytes[u] = units[u].scratch_bytes;
        p.slot_bytes[u] = units[u].slot_bytes;
        for (int i = 0; i < n_nodes; i++)
            p.ms[i][u + 1] = p.ms[i][u] + cost_unit_ms(&units[u], &request->nodes[nodes[i]]);
    }
    for (int k = 1; 1 << k <= n_units; k++) { /* of twice as many units each */
        const int64_t *half = p.scratch_bytes + (size_t)(k - 1) * row;

        for (int u = 0; u + (1 << k) <= n_units; u++) {
            int64_t back = half[u + (1 << (k - 1))];

            p.scratch_bytes[(size_t)k * row + (size_t)u] = half[u] > back ? half[u] : back;
        }
    }
    *out = p;
    return ERR_OK;
}

void cut_problem_deinit(struct cut_problem *p)
{
    free(p->memory_block);
    *p = (struct cut_problem){0};
}

/* --- a solution --- */

/* One way, of the edge behind stage s; 0 behind the last. */
static double stage_edge_ms(const struct cut_problem *p, const struct cut *c, int s)
{
    if (s == c->n_stages - 1)
        return 0;
    return cut_edges_ms(p, p->class_of[c->node[s]], c->first[s + 1])[p->class_of[c->node[s + 1]]];
}

void cut_measure(const struct cut_problem *p, struct cut *c)
{
    c->sum_ms = 0;
    c->max_ms = 0;
    for (int s = 0; s < c->n_stages; s++) {
        double busy_ms = cut_busy_ms(p, c->node[s], c->first[s], c->first[s + 1]);
        double edge_ms = stage_edge_ms(p, c, s);

        c->sum_ms += cut_fill_ms(p, c->node[s], c->first[s], c->first[s + 1]) + 2 * edge_ms;
        c->max_ms = fmax(c->max_ms, fmax(busy_ms, edge_ms));
    }
}

int64_t cut_stage_bytes(const struct cut_problem *p, const struct cut *c, int s)
{
    return cut_run_bytes(p, c->first[s], c->first[s + 1], cut_in_flight(p, c->n_stages - 1 - s));
}

int64_t cut_moving_bytes(const struct cut_problem *p, const struct cut *c, int s, int first,
                         int end)
{
    int64_t bytes = cut_stage_bytes(p, c, s);

    for (int u = first; u < end; u++)
        if (u < c->first[s] || u >= c->first[s + 1])
            bytes += p->state_bytes[u + 1] - p->state_bytes[u];
    return bytes;
}

double cut_step_ms(const struct cut_problem *p, const struct cut *c)
{
    return c->sum_ms + (p->n_microbatches - 1) * c->max_ms;
}

int cut_misfit(const struct cut_problem *p, const struct cut *c)
{
    for (int s = 0; s < c->n_stages; s++)
        if (cut_stage_bytes(p, c, s) > p->nodes[c->node[s]].memory)
            return s;
    return -1;
}

void cut_place(const struct cut_problem *p, const struct cut *c, struct placement *out)
{
    out->predicted_step_ms = cut_step_ms(p, c);
    out->max_ms = c->max_ms;
    out->n_stages = c->n_stages;
    out->bottleneck = 0;
    for (int s = 0; s < c->n_stages; s++) {
        out->stages[s] = (struct placement_stage){
            .node = p->nodes[c->node[s]].at,
            .first_unit = c->first[s],
            .n_units = c->first[s + 1] - c->first[s],
            .predicted_ms = cut_run_ms(p, c->node[s], c->first[s], c->first[s + 1]),
            .memory_bytes = cut_stage_bytes(p, c, s),
            .edge_ms = stage_edge_ms(p, c, s)};
        if (out->stages[s].predicted_ms > out->stages[out->bottleneck].predicted_ms)
            out->bottleneck = s;
    }
}
