#include "instances.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

double roll(struct dice *d, double from, double to)
{
    d->state = d->state * 6364136223846793005u + 1442695040888963407u;
    return from + (to - from) * (double)(d->state >> 11) / (double)(1ull << 53);
}

int roll_int(struct dice *d, int from, int to)
{
    return from + (int)roll(d, 0, to - from + 1 - 1e-9);
}

void make_instance(struct instance *in, struct dice *d, int n_layers, int n_nodes)
{
    static const int hidden[] = {128, 256, 512, 768};

    *in = (struct instance){
        .spec = {.model = {.vocab = roll_int(d, 100, 20000),
                           .hidden = hidden[roll_int(d, 0, 3)],
                           .layers = n_layers,
                           .heads = 4,
                           .positions = 512,
                           .labels = 3},
                 .training = {.micro_batches = 1 << roll_int(d, 0, 4), .max_length = 128},
                 .placement = {.min_stages = 1, .max_stages = roll_int(d, 1, 8)}}};
    in->spec.model.ffn = 4 * in->spec.model.hidden;
    in->spec.training.batch_size = in->spec.training.micro_batches * roll_int(d, 1, 8);
    if (roll(d, 0, 1) < 0.3)
        in->spec.placement.min_stages = roll_int(d, 1, in->spec.placement.max_stages);
    for (int i = 0; i < n_nodes; i++) {
        struct node *n = &in->nodes[i];

        (void)snprintf(n->name, sizeof n->name, "n%d", i);
        n->cpu_milli = i % 2 == 0 ? 1000 : 50 + (int)(d->state >> 40) % 1200;
        n->gflops = exp(roll(d, log(2), log(200)));
        n->unit_ms = roll(d, 0, 0.2);
        if (i % 3 != 2)
            n->message = (struct node_message){exp(roll(d, log(0.005), log(0.5))), roll(d, 0, 4)};
        n->memory_bytes = (int64_t)(exp(roll(d, log(110), log(700))) * (double)MIB);
    }
    in->request = partition_request_of(&in->spec);
    in->request.nodes = in->nodes;
    in->request.n_nodes = n_nodes;
}

static struct cost_link make_link(struct dice *d, double from, double to)
{
    return (struct cost_link){.bytes_per_s = exp(roll(d, log(from), log(to))),
                              .latency_ms = roll(d, 0, 5)};
}

static struct cost_link slower(struct cost_link a, struct cost_link b)
{
    return a.bytes_per_s < b.bytes_per_s ? a : b;
}

void make_links(struct instance *in, struct dice *d, enum link_style style)
{
    int n = in->request.n_nodes;
    int n_buildings = roll_int(d, 2, 3);
    int kind[INSTANCE_NODES_MAX];
    struct cost_link fast = make_link(d, 1e7, 1e9);
    struct cost_link slow = make_link(d, 2e5, 1e7);
    struct cost_link uplinks[3] = {fast, slow, make_link(d, 1e6, 1e8)};

    for (int i = 0; i < n; i++)
        kind[i] = roll_int(d, 0, style == LINKS_UPLINKS ? 2 : n_buildings - 1);
    for (int a = 0; a < n; a++)
        for (int b = 0; b <= a; b++) {
            struct cost_link link = make_link(d, 3e5, 1e9);

            if (style == LINKS_BUILDINGS)
                link = kind[a] == kind[b] ? fast : slow;
            else if (style == LINKS_UPLINKS)
                link = slower(uplinks[kind[a]], uplinks[kind[b]]);
            in->links[a * n + b] = in->links[b * n + a] = link;
        }
    in->request.links = in->links;
}

void make_buildings(struct instance *in, int n_nodes, double between_bytes_per_s)
{
    *in = (struct instance){
        .spec = {.training = {.batch_size = 32, .micro_batches = 8, .max_length = 128},
                 .placement = {.min_stages = 1, .max_stages = 64}}};
    in->request = partition_request_of(&in->spec);
    in->request.n_nodes = n_nodes;
    in->request.nodes = in->nodes;
    in->request.links = in->links;
    if (model_preset("BertBase", &in->spec.model, NULL) != ERR_OK)
        abort();
    for (int i = 0; i < n_nodes; i++) {
        in->nodes[i] = (struct node){.gflops = 40 + i % 5, .memory_bytes = 8192 * MIB};
        (void)snprintf(in->nodes[i].name, sizeof in->nodes[i].name, "node-%c", 'a' + i);
        for (int k = 0; k < n_nodes; k++)
            in->links[i * n_nodes + k] = (struct cost_link){
                .bytes_per_s = i % 2 == k % 2 ? 1e9 : between_bytes_per_s, .latency_ms = 0.1};
    }
}

void drop_node(struct instance *in)
{
    int n = --in->request.n_nodes;

    for (int i = 0; i < n * n; i++) /* never behind what is still to be read */
        in->links[i] = in->links[i / n * (n + 1) + i % n];
}

double instance_fill(const struct instance *in, int node)
{
    double q = in->nodes[node].cpu_milli / 1000.0;
    double flops = 0;
    double speed = 0;
    double fill = 0;
    double t;

    if (q >= 1 || in->request.job.micro_batches == 1)
        return 1;
    for (int u = 0; u < model_units(&in->spec.model); u++) {
        struct cost_unit c;

        cost_of_unit(&in->request.job, u, &c);
        flops += c.flops;
    }
    for (int i = 0; i < in->request.n_nodes; i++)
        speed += in->nodes[i].gflops * 1e6;
    t = flops / speed;
    for (int part = 1; part <= 2; part++) {
        double cpu = q * t * part / 3;

        fill += cpu <= 100 * q ? cpu / t : (100 * q + (cpu - 100 * q) / q) / t;
    }
    return fill;
}

double instance_messages_ms(const struct instance *in, int node)
{
    const struct node *n = &in->nodes[node];
    double bytes = 0;
    double ms = n->message.ms;
    double byte_ns = n->message.byte_ns;

    for (int u = 0; u < model_units(&in->spec.model) - 1; u++) {
        struct cost_unit c;

        cost_of_unit(&in->request.job, u, &c);
        bytes = fmax(bytes, c.edge_mean_bytes);
    }
    if (ms == 0) {
        const struct node_message usual = COST_MESSAGE_DEFAULT;

        ms = usual.ms;
        byte_ns = usual.byte_ns;
    }
    return (2 * ms + bytes * byte_ns * 1e-6) * 1000 / n->cpu_milli;
}

/* --- the oracle: every order of every choice of nodes, every cut, formulas written again --- */

struct oracle {
    const struct instance *in;
    struct cost_unit units[MODEL_UNITS_MAX];
    int n_units;
    bool ignores_memory;
    enum oracle_order kind;
    int order[INSTANCE_NODES_TRIED];
    int first[INSTANCE_NODES_TRIED + 1];
    double fill[INSTANCE_NODES_MAX];
    double messages_ms[INSTANCE_NODES_MAX];
    double best_ms;
};

static bool stage_fits(const struct oracle *o, int s, int n_stages)
{
    int m = o->in->request.job.micro_batches;
    int in_flight = n_stages - s < m ? n_stages - s : m;
    int64_t bytes = COST_PROCESS_BYTES + (s == 0 ? COST_DATA_BYTES : 0);
    int64_t scratch = 0;

    for (int u = o->first[s]; u < o->first[s + 1]; u++) {
        const struct cost_unit *c = &o->units[u];

        bytes += c->state_bytes + in_flight * c->activation_bytes;
        scratch = c->scratch_bytes > scratch ? c->scratch_bytes : scratch;
    }
    if (s > 0)
        bytes += 2 * COST_LINK_SLOTS * o->units[o->first[s] - 1].slot_bytes;
    if (s < n_stages - 1)
        bytes += 2 * COST_LINK_SLOTS * o->units[o->first[s + 1] - 1].slot_bytes;
    return o->ignores_memory || bytes + scratch <= o->in->nodes[o->order[s]].memory_bytes;
}

static void measure_cut(struct oracle *o, int n_stages)
{
    int m = o->in->request.job.micro_batches;
    double sum = 0;
    double more = 0;

    for (int s = 0; s < n_stages; s++) {
        double ms = 0;
        double edge = 0;

        if (!stage_fits(o, s, n_stages))
            return;
        for (int u = o->first[s]; u < o->first[s + 1]; u++)
            ms += cost_unit_ms(&o->units[u], &o->in->nodes[o->order[s]]);
        ms += (n_stages == 1                 ? 0
               : s == 0 || s == n_stages - 1 ? 1
                                             : 2) *
              o->messages_ms[o->order[s]];
        if (s < n_stages - 1)
            edge = cost_edge_ms(&o->units[o->first[s + 1] - 1],
                                partition_link(&o->in->request, o->order[s], o->order[s + 1]));
        sum += o->fill[o->order[s]] * ms + 2 * edge;
        more = fmax(more, (m - o->fill[o->order[s]]) * ms);
        more = fmax(more, (m - 1) * edge);
    }
    o->best_ms = fmin(o->best_ms, sum + more);
}

static void cut_from(struct oracle *o, int s, int n_stages)
{
    if (s == n_stages) {
        o->first[s] = o->n_units;
        measure_cut(o, n_stages);
        return;
    }
    for (int u = s == 0 ? 0 : o->first[s - 1] + 1; u <= (s == 0 ? 0 : o->n_units - n_stages + s);
         u++) {
        o->first[s] = u;
        cut_from(o, s + 1, n_stages);
    }
}

static void choose_nodes(struct oracle *o, int n, unsigned used)
{
    const struct partition_request *r = &o->in->request;

    if (n >= r->min_stages && n > 0)
        cut_from(o, 0, n);
    if (n == r->max_stages || n == o->n_units)
        return;
    for (int i = 0; i < r->n_nodes; i++)
        if (!(used & 1u << i) && (o->kind == ORACLE_ANY_ORDER || used < 1u << i)) {
            o->order[n] = i;
            choose_nodes(o, n + 1, used | 1u << i);
        }
}

double oracle_ms(const struct instance *in, enum oracle_order order, bool ignores_memory)
{
    struct oracle o = {.in = in,
                       .n_units = model_units(&in->spec.model),
                       .kind = order,
                       .ignores_memory = ignores_memory,
                       .best_ms = INFINITY};

    for (int u = 0; u < o.n_units; u++)
        cost_of_unit(&in->request.job, u, &o.units[u]);
    for (int i = 0; i < in->request.n_nodes; i++) {
        o.fill[i] = instance_fill(in, i);
        o.messages_ms[i] = instance_messages_ms(in, i);
    }
    choose_nodes(&o, 0, 0);
    return o.best_ms;
}
