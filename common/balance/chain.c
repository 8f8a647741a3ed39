#include "balance/chain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum err_code chain_init(const struct cut_problem *p, struct chain *out, struct err *err)
{
    size_t layer = ((size_t)p->max_stages + 1) * ((size_t)p->n_units + 1);
    struct chain c = {.n_nodes = p->n_nodes,
                      .sum_ms = calloc(layer, sizeof *c.sum_ms),
                      .end = calloc(layer * (size_t)p->n_nodes, sizeof *c.end)};

    if (!c.sum_ms || !c.end) {
        chain_deinit(&c);
        return err_set(err, ERR_NO_MEMORY, "planning on %d nodes", p->n_nodes);
    }
    for (int i = 0; i < p->n_nodes; i++)
        c.order[i] = i;
    *out = c;
    return ERR_OK;
}

void chain_deinit(struct chain *c)
{
    free(c->sum_ms);
    free(c->end);
    *c = (struct chain){0};
}

/* Let the node at `pos` be the stage in front of `behind` others that begin at unit `end`. */
static void extend(const struct cut_problem *p, struct chain *c, double cap_ms, int pos, int behind,
                   int end)
{
    size_t row = (size_t)p->n_units + 1;
    size_t layer = ((size_t)p->max_stages + 1) * row;
    size_t to = (size_t)(behind + 1) * row;
    int node = c->order[pos];
    double behind_ms = c->sum_ms[(size_t)behind * row + (size_t)end] + cut_edge_sum_ms(p, end);
    int in_flight = cut_in_flight(p, behind);
    int64_t scratch = 0;

    for (int first = end - 1; first >= 0; first--) {
        double ms = cut_run_ms(p, node, first, end);

        if (ms > cap_ms)
            return;
        if (p->scratch_bytes[first] > scratch)
            scratch = p->scratch_bytes[first];
        if (behind_ms + ms >= c->sum_ms[to + (size_t)first] ||
            cut_run_bytes(p, first, end, scratch, in_flight) > p->memory[node])
            continue;
        c->sum_ms[to + (size_t)first] = behind_ms + ms;
        c->end[(size_t)pos * layer + to + (size_t)first] = (short)end;
    }
}

static void fill(const struct cut_problem *p, struct chain *c, double cap_ms)
{
    size_t row = (size_t)p->n_units + 1;
    size_t layer = ((size_t)p->max_stages + 1) * row;

    for (size_t i = 0; i < layer; i++)
        c->sum_ms[i] = INFINITY;
    c->sum_ms[p->n_units] = 0;
    memset(c->end, 0, layer * (size_t)c->n_nodes * sizeof *c->end);
    for (int pos = c->n_nodes - 1; pos >= 0; pos--)
        /* From many stages to few, so that a node is not put in front of itself. */
        for (int behind = p->max_stages - 1; behind >= 0; behind--)
            for (int end = p->n_units; end > 0; end--)
                if (!isinf(c->sum_ms[(size_t)behind * row + (size_t)end]) &&
                    cut_edge_sum_ms(p, end) / 2 <= cap_ms)
                    extend(p, c, cap_ms, pos, behind, end);
}

bool chain_solve(const struct cut_problem *p, void *chain, double cap_ms, struct cut *out)
{
    struct chain *c = chain;
    size_t row = (size_t)p->n_units + 1;
    size_t layer = ((size_t)p->max_stages + 1) * row;
    int left = 0;
    struct cut cut = {0};

    fill(p, c, cap_ms);
    for (int n = p->min_stages; n <= p->max_stages; n++)
        if (!isinf(c->sum_ms[(size_t)n * row]) &&
            (left == 0 || c->sum_ms[(size_t)n * row] < c->sum_ms[(size_t)left * row]))
            left = n;
    if (left == 0)
        return false;
    /* The entry of the earliest position that improved a state is the one that counts. */
    for (int pos = 0; left > 0; pos++) {
        size_t at = (size_t)left * row + (size_t)cut.first[cut.n_stages];
        short end = c->end[(size_t)pos * layer + at];

        if (end == 0)
            continue;
        cut.node[cut.n_stages] = c->order[pos];
        cut.first[++cut.n_stages] = end;
        left--;
    }
    cut_measure(p, &cut);
    *out = cut;
    return true;
}
