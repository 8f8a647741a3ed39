#include "balance/cut.h"

#include <math.h>
#include <stdlib.h>

#define POWERS 11 /* of two, up to MODEL_UNITS_MAX */

/* --- link classes and kinds of nodes --- */

static bool is_same_link(const struct cost_link *a, const struct cost_link *b)
{
    return a->bytes_per_s == b->bytes_per_s && a->latency_ms == b->latency_ms;
}

static bool has_alike_links(const struct partition_request *r, const int *nodes, int n, int a,
                            int b)
{
    if (r->link_class && r->link_class[nodes[a]] == r->link_class[nodes[b]])
        return true;
    for (int i = 0; i < n; i++)
        if (i != a && i != b &&
            !is_same_link(partition_link(r, nodes[a], nodes[i]),
                          partition_link(r, nodes[b], nodes[i])))
            return false;
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

static int find_kind(const struct partition_request *r, const int *nodes, int i,
                     const int *link_class, const struct kinds *k)
{
    for (int other = 0; other < i; other++)
        if (link_class[other] == link_class[i] &&
            is_same_node(&r->nodes[nodes[other]], &r->nodes[nodes[i]]))
            return k->of[other];
    return k->n;
}

void node_kinds(const struct partition_request *r, const int *nodes, int n, const int *link_class,
                struct kinds *out)
{
    struct kinds k = {.n = 0};

    for (int class = 0; class < n; class ++)
        for (int i = 0; i < n; i++) {
            if (link_class[i] != class)
                continue;
            k.of[i] = find_kind(r, nodes, i, link_class, &k);
            k.link_class[k.of[i]] = class;
            if (k.count[k.of[i]]++ == 0)
                k.first[k.n++] = i;
        }
    *out = k;
}

/* --- the problem --- */

/* Each row from the one before: twice as many units. */
static void fill_scratch(struct cut_problem *p)
{
    size_t row = (size_t)p->n_units + 1;

    for (int k = 1; 1 << k <= p->n_units; k++) {
        const int64_t *half = p->scratch_bytes + (size_t)(k - 1) * row;

        for (int u = 0; u + (1 << k) <= p->n_units; u++) {
            int64_t back = half[u + (1 << (k - 1))];

            p->scratch_bytes[(size_t)k * row + (size_t)u] = half[u] > back ? half[u] : back;
        }
    }
}

static void fill_shares(const struct partition_request *r, const struct cost_unit *costs,
                        struct cut_problem *p)
{
    const struct cost_unit *largest = cost_largest_edge(costs, p->n_units);
    double flops = 0;
    double balanced_ms;

    for (int u = 0; u < p->n_units; u++)
        flops += costs[u].flops;
    balanced_ms = cost_balanced_ms(r->nodes, r->n_nodes, flops);
    for (int i = 0; i < p->n_nodes; i++) {
        p->fill[i] = cost_fill_share(&r->nodes[p->nodes[i]], balanced_ms, p->n_microbatches);
        p->busy[i] = cost_busy_share(p->fill[i], p->n_microbatches);
        p->message_ms[i] = cost_messages_ms(largest, &r->nodes[p->nodes[i]]);
    }
}

static void fill_arrays(const struct partition_request *r, const struct cost_unit *costs,
                        struct cut_problem *p)
{
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
        for (int i = 0; i < p->n_nodes; i++)
            p->ms[i][u + 1] = p->ms[i][u] + cost_unit_ms(&c, &r->nodes[p->nodes[i]]);
    }
    fill_scratch(p);
}

/* A pair of candidates stands for their classes; a class of one node has no link to itself. */
static void fill_table(const struct partition_request *r, const struct cut_problem *p,
                       const struct cost_unit *c, double *table)
{
    for (int i = 0; i < p->n_classes * p->n_classes; i++)
        table[i] = INFINITY;
    for (int a = p->n_nodes - 1; a >= 0; a--)
        for (int b = p->n_nodes - 1; b >= 0; b--)
            if (a != b)
                table[p->class_of[a] * p->n_classes + p->class_of[b]] =
                    cost_edge_ms(c, partition_link(r, p->nodes[a], p->nodes[b]));
}

/* The first unit that sends messages as large as `unit`. */
static int first_alike(const struct cost_unit *costs, int unit)
{
    int first = 0;

    while (costs[first].edge_mean_bytes != costs[unit].edge_mean_bytes)
        first++;
    return first;
}

/* One table for every size of message: nearly all edges carry the same. */
static enum err_code init_edges(const struct partition_request *r, const struct cost_unit *costs,
                                struct cut_problem *p, struct err *err)
{
    int64_t table = (int64_t)p->n_classes * p->n_classes;
    int n_tables = 1;

    for (int u = 0; u < p->n_units - 1; u++)
        n_tables += first_alike(costs, u) == u;
    p->edge_ms = calloc((size_t)(n_tables * table), sizeof *p->edge_ms);
    if (!p->edge_ms)
        return err_set(err, ERR_NO_MEMORY, "planning on %d nodes", p->n_nodes);
    p->edge_at[p->n_units] = --n_tables * table;
    for (int u = 0; u < p->n_units - 1; u++) {
        int first = first_alike(costs, u);

        if (first == u) {
            p->edge_at[u + 1] = --n_tables * table;
            fill_table(r, p, &costs[u], p->edge_ms + p->edge_at[u + 1]);
        }
        p->edge_at[u + 1] = p->edge_at[first + 1];
    }
    return ERR_OK;
}

/* All arrays but edge_ms. */
static enum err_code init_block(struct cut_problem *p, struct err *err)
{
    size_t row = (size_t)p->n_units + 1;
    int64_t *block = calloc(row * (size_t)(p->n_nodes + 4 + POWERS), sizeof *block);

    _Static_assert(sizeof(double) == sizeof(int64_t), "one block holds both");
    _Static_assert(MODEL_UNITS_MAX < 1 << POWERS, "a row for every power of two");
    if (!block)
        return err_set(err, ERR_NO_MEMORY, "planning %d units on %d nodes", p->n_units, p->n_nodes);
    p->memory_block = block;
    p->state_bytes = block;
    p->activation_bytes = block + row;
    p->slot_bytes = block + 2 * row;
    p->edge_at = block + 3 * row;
    p->scratch_bytes = block + 4 * row;
    for (int i = 0; i < p->n_nodes; i++)
        p->ms[i] = (double *)(block + (size_t)(i + 4 + POWERS) * row);
    return ERR_OK;
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
    enum err_code rc = init_block(&p, err);

    p.n_classes = link_classes(request, nodes, n_nodes, p.class_of);
    node_kinds(request, nodes, n_nodes, p.class_of, &p.kinds);
    for (int i = 0; i < n_nodes; i++) {
        p.nodes[i] = nodes[i];
        p.memory[i] = partition_memory(request, nodes[i]);
    }
    if (p.max_stages > n_nodes)
        p.max_stages = n_nodes;
    if (p.max_stages > p.n_units)
        p.max_stages = p.n_units;
    if (rc == ERR_OK)
        rc = init_edges(request, units, &p, err);
    if (rc != ERR_OK) {
        cut_problem_deinit(&p);
        return rc;
    }
    fill_arrays(request, units, &p);
    fill_shares(request, units, &p);
    *out = p;
    return ERR_OK;
}

void cut_problem_deinit(struct cut_problem *p)
{
    free(p->memory_block);
    free(p->edge_ms);
    *p = (struct cut_problem){0};
}

/* --- a solution --- */

void cut_measure(const struct cut_problem *p, struct cut *c)
{
    c->sum_ms = 0;
    c->max_ms = 0;
    for (int s = 0; s < c->n_stages; s++) {
        double busy_ms = cut_busy_ms(p, c->node[s], c->first[s], c->first[s + 1]);
        double edge_ms = cut_edge_ms(p, c, s);

        c->sum_ms += cut_fill_ms(p, c->node[s], c->first[s], c->first[s + 1]) + 2 * edge_ms;
        if (busy_ms > c->max_ms)
            c->max_ms = busy_ms;
        if (edge_ms > c->max_ms)
            c->max_ms = edge_ms;
    }
}

double cut_edge_ms(const struct cut_problem *p, const struct cut *c, int s)
{
    if (s == c->n_stages - 1)
        return 0;
    return cut_edges_ms(p, p->class_of[c->node[s]], c->first[s + 1])[p->class_of[c->node[s + 1]]];
}

int64_t cut_stage_bytes(const struct cut_problem *p, const struct cut *c, int s)
{
    return cut_run_bytes(p, c->first[s], c->first[s + 1], cut_in_flight(p, c->n_stages - 1 - s));
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
