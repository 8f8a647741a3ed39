#include "balance/chain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The stage that a node was given: the unit behind its run, and the level behind that. */
struct chain_choice {
    short end; /* 0: skipped */
    short level;
};

enum err_code chain_init(const struct cut_problem *p, struct chain *out, struct err *err)
{
    size_t layer = ((size_t)p->max_stages + 1) * ((size_t)p->n_units + 1);
    struct chain c = {.n_nodes = p->n_nodes,
                      .sum_ms = calloc(2 * layer, sizeof *c.sum_ms),
                      .rest_ms = calloc((size_t)p->n_units + 1, sizeof *c.rest_ms),
                      .choice = calloc(layer * (size_t)p->n_nodes, sizeof *c.choice)};

    if (!c.sum_ms || !c.choice || !c.rest_ms) {
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
    free(c->choice);
    free(c->rest_ms);
    *c = (struct chain){0};
}

/* Look at the longest runs of a node under the cap: do they fit with everything in flight, and how
 * far do they get from `from`? */
static int survey(const struct cut_problem *p, double cap_ms, int node, int from, bool *out_roomy)
{
    int reach = from;
    int end = 0;

    *out_roomy = true;
    for (int first = 0; first < p->n_units; first++) {
        if (end < first)
            end = first;
        while (end < p->n_units && cut_run_ms(p, node, first, end + 1) <= cap_ms)
            end++;
        if (first <= from && end > reach)
            reach = end;
        /* With edges on both sides, so that a shorter run cannot take more. */
        if (*out_roomy && end > first &&
            cut_run_bytes(p, first, end, p->max_scratch_bytes,
                          cut_in_flight(p, p->n_microbatches)) +
                    4 * COST_LINK_SLOTS * p->slot_bytes[0] >
                p->memory[node])
            *out_roomy = false;
    }
    return reach;
}

static void prepare(const struct cut_problem *p, struct chain *c, double cap_ms)
{
    bool all_roomy = true;

    c->reach[0] = 0;
    for (int pos = 0; pos < c->n_nodes; pos++) {
        bool roomy;

        c->reach[pos + 1] = survey(p, cap_ms, c->order[pos], c->reach[pos], &roomy);
        c->is_roomy[pos] = roomy;
        all_roomy = all_roomy && roomy;
    }
    c->last_level = p->max_stages < c->n_nodes ? p->max_stages : p->min_stages;
    c->memory_level = all_roomy ? 0 : p->n_microbatches - 1;
    if (c->memory_level > p->max_stages)
        c->memory_level = p->max_stages;
}

/* Let the node at `pos` be the stage in front of those of `level` that begin at unit `end`. */
static void extend(const struct cut_problem *p, struct chain *c, double cap_ms, int pos, int level,
                   int end, const double *behind, double *with)
{
    size_t row = (size_t)p->n_units + 1;
    int to = level < c->last_level ? level + 1 : level;
    int node = c->order[pos];
    const double *ms = p->ms[node];
    double base_ms = behind[(size_t)level * row + (size_t)end] + cut_edge_sum_ms(p, end) + ms[end];
    double *best = with + (size_t)to * row;
    struct chain_choice *choice =
        c->choice + ((size_t)pos * ((size_t)p->max_stages + 1) + (size_t)to) * row;
    int in_flight = cut_in_flight(p, level);
    int64_t scratch = 0;

    for (int first = end - 1; first >= 0; first--) {
        if (ms[end] - ms[first] > cap_ms)
            return;
        if (p->scratch_bytes[first] > scratch)
            scratch = p->scratch_bytes[first];
        if (base_ms - ms[first] >= best[first] || first > c->reach[pos])
            continue;
        if (!c->is_roomy[pos] && cut_run_bytes(p, first, end, scratch, in_flight) > p->memory[node])
            continue;
        best[first] = base_ms - ms[first];
        choice[first] = (struct chain_choice){.end = (short)end, .level = (short)level};
    }
}

/* Returns the sums with all nodes. */
static const double *fill(const struct cut_problem *p, struct chain *c, double cap_ms,
                          double limit_ms)
{
    size_t row = (size_t)p->n_units + 1;
    size_t layer = ((size_t)p->max_stages + 1) * row;
    size_t used = ((size_t)c->last_level + 1) * row;
    double *behind = c->sum_ms;
    double *with = c->sum_ms + layer;

    for (size_t i = 0; i < used; i++)
        behind[i] = INFINITY;
    behind[p->n_units] = 0;
    for (int pos = c->n_nodes - 1; pos >= 0; pos--) {
        double *other = behind;

        memcpy(with, behind, used * sizeof *with);
        memset(c->choice + (size_t)pos * layer, 0, used * sizeof *c->choice);
        for (int level = 0; level <= c->last_level; level++) {
            if (level == p->max_stages)
                break;
            for (int end = p->n_units; end > 0; end--)
                if (end <= c->reach[pos + 1] && /* INFINITY is no state at all */
                    behind[(size_t)level * row + (size_t)end] + c->rest_ms[end] < limit_ms &&
                    cut_edge_sum_ms(p, end) / 2 <= cap_ms)
                    extend(p, c, cap_ms, pos, level, end, behind, with);
        }
        behind = with;
        with = other;
    }
    return behind;
}

/* The best with stages told apart up to c->last_level. */
static bool solve_levels(const struct cut_problem *p, struct chain *c, double cap_ms,
                         double limit_ms, struct cut *out)
{
    size_t row = (size_t)p->n_units + 1;
    size_t layer = ((size_t)p->max_stages + 1) * row;
    const double *sum_ms = fill(p, c, cap_ms, limit_ms);
    int level = -1;
    struct cut cut = {0};

    for (int n = p->min_stages < c->last_level ? p->min_stages : c->last_level; n <= c->last_level;
         n++)
        if (!isinf(sum_ms[(size_t)n * row]) &&
            (level < 0 || sum_ms[(size_t)n * row] < sum_ms[(size_t)level * row]))
            level = n;
    if (level < 0 || sum_ms[(size_t)level * row] >= limit_ms)
        return false;
    /* The earliest position that improved a state is the one that counts. */
    for (int pos = 0; cut.first[cut.n_stages] < p->n_units; pos++) {
        struct chain_choice choice =
            c->choice[(size_t)pos * layer + (size_t)level * row + (size_t)cut.first[cut.n_stages]];

        if (choice.end == 0)
            continue;
        cut.node[cut.n_stages] = c->order[pos];
        cut.first[++cut.n_stages] = choice.end;
        level = choice.level;
    }
    cut_measure(p, &cut);
    *out = cut;
    return true;
}

bool chain_solve(const struct cut_problem *p, void *chain, double cap_ms, double limit_ms,
                 struct cut *out)
{
    struct chain *c = chain;
    struct cut cut;

    prepare(p, c, cap_ms);
    if (c->reach[c->n_nodes] < p->n_units || p->min_stages > p->max_stages)
        return false;
    if (c->bound)
        bound_rest(c->bound, cap_ms, c->rest_ms);
    /* With few levels memory counts too little, never too much: when that finds nothing there is
     * nothing, and when what it finds fits there is nothing better. */
    if (!solve_levels(p, c, cap_ms, limit_ms, &cut))
        return false;
    if (c->memory_level > c->last_level && cut_misfit(p, &cut) >= 0) {
        c->last_level = c->memory_level;
        if (!solve_levels(p, c, cap_ms, limit_ms, &cut))
            return false;
    }
    *out = cut;
    return true;
}
