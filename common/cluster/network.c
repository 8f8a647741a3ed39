#include "cluster/network.h"

#include <math.h>
#include <string.h>

/* Figures within one step of the smallest one count as equal. There cannot be more levels than
 * LEVELS_MAX between the limits of what a probe may report. */
#define LEVEL_STEP     1.25
#define LEVELS_MAX     144
#define SPEED_MIN      1.0  /* bytes per second */
#define LATENCY_MIN_MS 0.05 /* shorter ones are mostly noise, and small beside a stage */

struct levels {
    int n;
    double from[LEVELS_MAX]; /* rising */
    double value[LEVELS_MAX];
};

struct scale {
    struct levels ms_per_byte; /* the mean of times is what messages see */
    struct levels latency_ms;
};

static const struct cost_link unknown = {-1, -1};

/* --- levels --- */

static double ms_per_byte(const struct node_link *l)
{
    return 1e3 / fmax(l->bytes_per_s, SPEED_MIN);
}

static double latency_ms(const struct node_link *l)
{
    return fmax(l->latency_ms, LATENCY_MIN_MS);
}

/* A level is the mean of all figures from the smallest one above the last level up to one step
 * more. */
static void find_levels(const struct network_node *nodes, int n,
                        double (*figure)(const struct node_link *), struct levels *out)
{
    double above = 0;

    for (out->n = 0; out->n < LEVELS_MAX; out->n++) {
        double from = INFINITY;
        double sum = 0;
        int count = 0;

        for (int i = 0; i < n; i++)
            for (int k = 0; nodes[i].probe && k < nodes[i].probe->n_links; k++) {
                double f = figure(&nodes[i].probe->links[k]);

                from = f > above && f < from ? f : from;
            }
        for (int i = 0; i < n; i++)
            for (int k = 0; nodes[i].probe && k < nodes[i].probe->n_links; k++) {
                double f = figure(&nodes[i].probe->links[k]);
                bool is_within = f >= from && f <= from * LEVEL_STEP;

                sum += is_within ? f : 0;
                count += is_within;
            }
        if (count == 0)
            return;
        out->from[out->n] = from;
        out->value[out->n] = sum / count;
        above = from * LEVEL_STEP;
    }
}

static double level_of(const struct levels *l, double figure)
{
    int i = l->n - 1;

    while (i > 0 && l->from[i] > figure)
        i--;
    return l->value[i];
}

/* --- the ends of a link --- */

static const struct node_link *link_to(const struct network_node *from,
                                       const struct network_node *to)
{
    for (int i = 0; from->probe && i < from->probe->n_links; i++)
        if (strcmp(from->probe->links[i].node, to->name) == 0)
            return &from->probe->links[i];
    return NULL;
}

static struct cost_link figures_of(const struct scale *scale, const struct node_link *l)
{
    return (struct cost_link){1e3 / level_of(&scale->ms_per_byte, ms_per_byte(l)),
                              level_of(&scale->latency_ms, latency_ms(l))};
}

static struct cost_link measured_between(const struct scale *scale, const struct network_node *a,
                                         const struct network_node *b)
{
    const struct node_link *there = link_to(a, b);
    const struct node_link *back = link_to(b, a);
    struct cost_link ends[2];

    if (!there || !back)
        there = back = there ? there : back;
    if (!there)
        return unknown;
    ends[0] = figures_of(scale, there);
    ends[1] = figures_of(scale, back);
    return (struct cost_link){2 / (1 / ends[0].bytes_per_s + 1 / ends[1].bytes_per_s),
                              (ends[0].latency_ms + ends[1].latency_ms) / 2};
}

static void insert(double *sorted, int n, double value)
{
    int i = n;

    for (; i > 0 && sorted[i - 1] > value; i--)
        sorted[i] = sorted[i - 1];
    sorted[i] = value;
}

/* The median link of a node; of an even number, the slower one in the middle. */
static struct cost_link median_of(const struct scale *scale, const struct network_node *node)
{
    double speeds[NODE_LINKS_MAX];
    double latencies[NODE_LINKS_MAX];
    int n = node->probe ? node->probe->n_links : 0;

    for (int i = 0; i < n; i++) {
        struct cost_link e = figures_of(scale, &node->probe->links[i]);

        insert(speeds, i, e.bytes_per_s);
        insert(latencies, i, e.latency_ms);
    }
    return n > 0 ? (struct cost_link){speeds[(n - 1) / 2], latencies[n / 2]} : unknown;
}

/* The link as seen from this node. */
static struct cost_link end_of(const struct scale *scale, const struct network_node *node,
                               const struct cost_link *measured)
{
    struct cost_link e = measured->bytes_per_s > 0 ? *measured : median_of(scale, node);

    if (node->annotations && node->annotations->link_bytes_per_s > 0)
        e.bytes_per_s = node->annotations->link_bytes_per_s;
    if (node->annotations && node->annotations->has_latency)
        e.latency_ms = node->annotations->link_latency_ms;
    return e;
}

static struct cost_link link_between(const struct scale *scale, const struct network_node *a,
                                     const struct network_node *b)
{
    struct cost_link measured = measured_between(scale, a, b);
    struct cost_link ends[2] = {end_of(scale, a, &measured), end_of(scale, b, &measured)};
    const struct cost_link fallback = COST_LINK_DEFAULT;
    struct cost_link slower = unknown;

    for (int i = 0; i < 2; i++) {
        if (ends[i].bytes_per_s > 0 &&
            (slower.bytes_per_s < 0 || ends[i].bytes_per_s < slower.bytes_per_s))
            slower.bytes_per_s = ends[i].bytes_per_s;
        slower.latency_ms = fmax(slower.latency_ms, ends[i].latency_ms);
    }
    if (slower.bytes_per_s < 0)
        slower.bytes_per_s = fallback.bytes_per_s;
    if (slower.latency_ms < 0)
        slower.latency_ms = fallback.latency_ms;
    return slower;
}

bool network_links(const struct network_node *nodes, int n, struct cost_link *out)
{
    struct scale scale;
    bool is_known = false;

    for (int i = 0; i < n; i++) {
        const struct annotations *declared = nodes[i].annotations;

        is_known = is_known || (nodes[i].probe && nodes[i].probe->n_links > 0) ||
                   (declared && (declared->link_bytes_per_s > 0 || declared->has_latency));
    }
    if (!is_known)
        return false;
    find_levels(nodes, n, ms_per_byte, &scale.ms_per_byte);
    find_levels(nodes, n, latency_ms, &scale.latency_ms);
    for (size_t i = 0; i < (size_t)n; i++) {
        out[i * (size_t)n + i] = (struct cost_link)COST_LINK_DEFAULT; /* never asked for */
        for (size_t k = 0; k < i; k++)
            out[i * (size_t)n + k] = out[k * (size_t)n + i] =
                link_between(&scale, &nodes[i], &nodes[k]);
    }
    return true;
}
