#include "balance/network.h"

#include <string.h>

/* A figure below 0 is not known. */
struct end {
    double bytes_per_s;
    double latency_ms;
};
static const struct end unknown = {-1, -1};

static const struct node_link *link_to(const struct network_node *from,
                                       const struct network_node *to)
{
    for (int i = 0; from->probe && i < from->probe->n_links; i++)
        if (strcmp(from->probe->links[i].node, to->name) == 0)
            return &from->probe->links[i];
    return NULL;
}

static struct end measured_between(const struct network_node *a, const struct network_node *b)
{
    const struct node_link *there = link_to(a, b);
    const struct node_link *back = link_to(b, a);

    if (!there || !back)
        there = back = there ? there : back;
    if (!there)
        return unknown;
    return (struct end){2 / (1 / there->bytes_per_s + 1 / back->bytes_per_s),
                        (there->latency_ms + back->latency_ms) / 2};
}

static void insert(double *sorted, int n, double value)
{
    int i = n;

    for (; i > 0 && sorted[i - 1] > value; i--)
        sorted[i] = sorted[i - 1];
    sorted[i] = value;
}

/* The usual link of a node. Of an even number, the slower one of the middle. */
static struct end median_of(const struct network_node *node)
{
    double speeds[NODE_LINKS_MAX];
    double latencies[NODE_LINKS_MAX];
    int n = node->probe ? node->probe->n_links : 0;

    for (int i = 0; i < n; i++) {
        insert(speeds, i, node->probe->links[i].bytes_per_s);
        insert(latencies, i, node->probe->links[i].latency_ms);
    }
    return n > 0 ? (struct end){speeds[(n - 1) / 2], latencies[n / 2]} : unknown;
}

/* How this node sees the link, with what was measured on it. */
static struct end end_of(const struct network_node *node, const struct end *measured)
{
    struct end e = measured->bytes_per_s > 0 ? *measured : median_of(node);

    if (node->mark && node->mark->link_bytes_per_s > 0)
        e.bytes_per_s = node->mark->link_bytes_per_s;
    if (node->mark && node->mark->has_latency)
        e.latency_ms = node->mark->link_latency_ms;
    return e;
}

static struct cost_link link_between(const struct network_node *a, const struct network_node *b)
{
    struct end measured = measured_between(a, b);
    struct end ends[2] = {end_of(a, &measured), end_of(b, &measured)};
    struct cost_link link = COST_LINK_DEFAULT;
    struct end slower = unknown;

    for (int i = 0; i < 2; i++) {
        if (ends[i].bytes_per_s > 0 &&
            (slower.bytes_per_s < 0 || ends[i].bytes_per_s < slower.bytes_per_s))
            slower.bytes_per_s = ends[i].bytes_per_s;
        if (ends[i].latency_ms > slower.latency_ms)
            slower.latency_ms = ends[i].latency_ms;
    }
    if (slower.bytes_per_s > 0)
        link.bytes_per_s = slower.bytes_per_s;
    if (slower.latency_ms >= 0)
        link.latency_ms = slower.latency_ms;
    return link;
}

static bool says_something(const struct network_node *node)
{
    return (node->probe && node->probe->n_links > 0) ||
           (node->mark && (node->mark->link_bytes_per_s > 0 || node->mark->has_latency));
}

bool network_links(const struct network_node *nodes, int n, struct cost_link *out)
{
    bool is_known = false;

    for (int i = 0; i < n; i++)
        is_known = is_known || says_something(&nodes[i]);
    if (!is_known)
        return false;
    for (size_t i = 0; i < (size_t)n; i++) {
        out[i * (size_t)n + i] = (struct cost_link)COST_LINK_DEFAULT; /* never asked for */
        for (size_t k = 0; k < i; k++)
            out[i * (size_t)n + k] = out[k * (size_t)n + i] = link_between(&nodes[i], &nodes[k]);
    }
    return true;
}
