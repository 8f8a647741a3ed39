#include "balance/alike.h"

static bool is_same_link(const struct cost_link *a, const struct cost_link *b)
{
    return a->bytes_per_s == b->bytes_per_s && a->latency_ms == b->latency_ms;
}

static bool has_alike_links(const struct partition_request *r, const int *nodes, int n, int a,
                            int b)
{
    for (int i = 0; i < n; i++)
        if (i != a && i != b &&
            !is_same_link(partition_link(r, nodes[a], nodes[i]),
                          partition_link(r, nodes[b], nodes[i])))
            return false;
    return true;
}

int alike_links(const struct partition_request *r, const int *nodes, int n, int *out_class)
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

void alike_nodes(const struct partition_request *r, const int *nodes, int n, const int *link_class,
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
