#include "balance/chain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The stage that a node was given: the unit behind its run, and level and class behind that. */
struct chain_choice {
    short end; /* 0: skipped */
    short level;
    short class;
};

/* What a solve is held against. */
struct limits {
    double cap_ms;   /* stages and edges */
    double limit_ms; /* sum */
};

enum err_code chain_init(const struct cut_problem *p, struct chain *out, struct err *err)
{
    size_t layer = ((size_t)p->max_stages + 1) * ((size_t)p->n_units + 1);
    struct chain c = {.n_nodes = p->n_nodes,
                      .sum_ms = calloc(((size_t)p->n_classes + 1) * layer, sizeof *c.sum_ms),
                      .rest_ms = calloc((size_t)p->n_units + 1, sizeof *c.rest_ms),
                      .choice = calloc(layer * (size_t)p->n_nodes, sizeof *c.choice)};

    if (!c.sum_ms || !c.choice || !c.rest_ms) {
        chain_deinit(&c);
        return err_set(err, ERR_NO_MEMORY, "planning on %d nodes", p->n_nodes);
    }
    for (int i = 0; i < p->n_nodes; i++)
        c.order[i] = i;
    for (int class = 0; class < p->n_classes; class ++)
        c.behind[class] = c.sum_ms + (size_t) class * layer;
    c.with = c.sum_ms + (size_t)p->n_classes * layer;
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

/* Least time of the stages of choice->level that begin at unit choice->end, and of the edge to them
 * from a node of link class `from`; INFINITY when that leads nowhere. */
static double join_ms(const struct cut_problem *p, const struct chain *c,
                      const struct limits *limits, int from, struct chain_choice *choice)
{
    const double *edges_ms = cut_edges_ms(p, from, choice->end);
    size_t state = (size_t)choice->level * ((size_t)p->n_units + 1) + (size_t)choice->end;
    double least = INFINITY;

    for (int class = 0; class < p->n_classes; class ++) {
        double behind_ms = c->behind[class][state];
        double ms = behind_ms + 2 * edges_ms[class];

        if (ms >= least || edges_ms[class] > limits->cap_ms ||
            behind_ms + c->rest_ms[choice->end] >= limits->limit_ms)
            continue;
        least = ms;
        choice->class = (short)class;
    }
    return least;
}

/* Let the node at `pos` be the stage in front of those that `found` tells, which take `behind_ms`
 * with the edge to them. */
static void extend(const struct cut_problem *p, struct chain *c, double cap_ms, int pos,
                   double behind_ms, struct chain_choice found)
{
    size_t row = (size_t)p->n_units + 1;
    int to = found.level < c->last_level ? found.level + 1 : found.level;
    int node = c->order[pos];
    const double *ms = p->ms[node];
    int end = found.end;
    double base_ms = behind_ms + ms[end];
    double *best = c->with + (size_t)to * row;
    struct chain_choice *choice =
        c->choice + ((size_t)pos * ((size_t)p->max_stages + 1) + (size_t)to) * row;
    int in_flight = cut_in_flight(p, found.level);
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
        choice[first] = found;
    }
}

/* Every stage that the node at `pos` may be. Only the states whose first stage is of its link class
 * can get better by it. */
static void add_node(const struct cut_problem *p, struct chain *c, const struct limits *limits,
                     int pos)
{
    size_t row = (size_t)p->n_units + 1;
    size_t used = ((size_t)c->last_level + 1) * row;
    int class = p->class_of[c->order[pos]];
    double *before = c->behind[class];

    memcpy(c->with, before, used * sizeof *before);
    memset(c->choice + (size_t)pos * ((size_t)p->max_stages + 1) * row, 0,
           used * sizeof *c->choice);
    for (int level = 0; level <= c->last_level && level < p->max_stages; level++)
        for (int end = c->reach[pos + 1]; end > 0; end--) {
            struct chain_choice found = {.end = (short)end, .level = (short)level};
            double behind_ms = join_ms(p, c, limits, class, &found);

            if (!isinf(behind_ms))
                extend(p, c, limits->cap_ms, pos, behind_ms, found);
        }
    c->behind[class] = c->with;
    c->with = before;
}

static void fill(const struct cut_problem *p, struct chain *c, const struct limits *limits)
{
    size_t used = ((size_t)c->last_level + 1) * ((size_t)p->n_units + 1);

    for (int class = 0; class < p->n_classes; class ++)
        for (size_t i = 0; i < used; i++)
            c->behind[class][i] = INFINITY;
    c->behind[0][p->n_units] = 0; /* nobody runs nothing */
    for (int pos = c->n_nodes - 1; pos >= 0; pos--)
        add_node(p, c, limits, pos);
}

/* The best of all that run every unit: level and class of the first stage. */
static double find_best(const struct cut_problem *p, const struct chain *c,
                        struct chain_choice *out)
{
    size_t row = (size_t)p->n_units + 1;
    int least = p->min_stages < c->last_level ? p->min_stages : c->last_level;
    double best_ms = INFINITY;

    for (int level = least; level <= c->last_level; level++)
        for (int class = 0; class < p->n_classes; class ++) {
            double ms = c->behind[class][(size_t)level * row];

            if (ms >= best_ms)
                continue;
            best_ms = ms;
            *out = (struct chain_choice){.level = (short)level, .class = (short)class};
        }
    return best_ms;
}

/* The best with stages told apart up to c->last_level. */
static bool solve_levels(const struct cut_problem *p, struct chain *c, const struct limits *limits,
                         struct cut *out)
{
    size_t row = (size_t)p->n_units + 1;
    struct chain_choice next = {.end = 0};
    struct cut cut = {0};
    double best_ms;

    fill(p, c, limits);
    best_ms = find_best(p, c, &next);
    if (isinf(best_ms) || best_ms >= limits->limit_ms)
        return false;
    /* The earliest position that improved a state is the one that counts. */
    for (int pos = 0; next.end < p->n_units; pos++) {
        int node = c->order[pos];
        size_t level = (size_t)pos * ((size_t)p->max_stages + 1) + (size_t)next.level;
        struct chain_choice choice = c->choice[level * row + (size_t)next.end];

        if (choice.end == 0 || p->class_of[node] != next.class)
            continue;
        cut.node[cut.n_stages] = node;
        cut.first[++cut.n_stages] = choice.end;
        next = choice;
    }
    cut_measure(p, &cut);
    *out = cut;
    return true;
}

bool chain_solve(const struct cut_problem *p, void *chain, double cap_ms, double limit_ms,
                 struct cut *out)
{
    struct chain *c = chain;
    struct limits limits = {cap_ms, limit_ms};
    struct cut cut;

    prepare(p, c, cap_ms);
    if (c->reach[c->n_nodes] < p->n_units || p->min_stages > p->max_stages)
        return false;
    if (c->bound)
        bound_rest(c->bound, cap_ms, c->rest_ms);
    /* With few levels memory counts too little, never too much: when that finds nothing there is
     * nothing, and when what it finds fits there is nothing better. */
    if (!solve_levels(p, c, &limits, &cut))
        return false;
    if (c->memory_level > c->last_level && cut_misfit(p, &cut) >= 0) {
        c->last_level = c->memory_level;
        if (!solve_levels(p, c, &limits, &cut))
            return false;
    }
    *out = cut;
    return true;
}
