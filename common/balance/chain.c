#include "balance/chain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "balance/search.h"

/* The stage that a node was given: the unit behind its run, and level and class behind that. */
struct chain_choice {
    short end; /* 0: skipped */
    short level;
    short class;
};

/* The limits of a solve. */
struct limits {
    double cap_ms;   /* stages and edges */
    double limit_ms; /* sum */
};

enum err_code chain_init(const struct cut_problem *p, struct chain *out, struct err *err)
{
    size_t layer = ((size_t)p->max_stages + 1) * ((size_t)p->n_units + 1);
    struct chain c = {.n_nodes = p->n_nodes,
                      .sum_ms = calloc(((size_t)p->n_classes + 2) * layer, sizeof *c.sum_ms),
                      .least_begin = calloc((size_t)p->max_stages + 1, sizeof *c.least_begin),
                      .choice = calloc(layer * (size_t)p->n_nodes, sizeof *c.choice)};

    if (!c.sum_ms || !c.choice || !c.least_begin) {
        chain_deinit(&c);
        return err_set(err, ERR_NO_MEMORY, "planning on %d nodes", p->n_nodes);
    }
    for (int i = 0; i < p->n_nodes; i++) {
        c.order[i] = i;
        c.tight_ms[i] = INFINITY;
    }
    for (int class = 0; class < p->n_classes; class ++)
        c.behind[class] = c.sum_ms + (size_t) class * layer;
    c.with = c.sum_ms + (size_t)p->n_classes * layer;
    c.least_ms = c.with + layer;
    *out = c;
    return ERR_OK;
}

void chain_deinit(struct chain *c)
{
    free(c->sum_ms);
    free(c->choice);
    free(c->least_begin);
    *c = (struct chain){0};
}

/* Does every run of a candidate under the cap fit with all micro-batches in flight? */
static bool has_room(const struct cut_problem *p, double cap_ms, int node)
{
    int in_flight = cut_in_flight(p, p->n_microbatches);
    int end = 0;

    for (int first = 0; first < p->n_units; first++) {
        if (end < first)
            end = first;
        while (end < p->n_units && cut_least_ms(p, node, first, end + 1) <= cap_ms)
            end++;
        /* With edges on both sides, so that a shorter run cannot take more. */
        if (end > first &&
            cut_run_bytes(p, first, end, in_flight) + 4 * COST_LINK_SLOTS * p->slot_bytes[0] >
                p->memory[node])
            return false;
    }
    return true;
}

/* What fits under a cap fits under a lower one. */
static bool is_roomy(const struct cut_problem *p, struct chain *c, double cap_ms, int node)
{
    if (cap_ms > c->roomy_ms[node] && cap_ms < c->tight_ms[node]) {
        if (has_room(p, cap_ms, node))
            c->roomy_ms[node] = cap_ms;
        else
            c->tight_ms[node] = cap_ms;
    }
    return cap_ms <= c->roomy_ms[node];
}

/* The end of a node's longest run under the cap from unit `first`, and the beginning of that to
 * unit `end`. */
static int furthest(const struct cut_problem *p, double cap_ms, int node, int first)
{
    int least = first;
    int most = p->n_units;

    while (least < most) {
        int end = (least + most + 1) / 2;

        if (cut_least_ms(p, node, first, end) <= cap_ms)
            least = end;
        else
            most = end - 1;
    }
    return least;
}

static int earliest(const struct cut_problem *p, double cap_ms, int node, int end)
{
    int least = 0;
    int most = end;

    while (least < most) {
        int first = (least + most) / 2;

        if (cut_least_ms(p, node, first, end) <= cap_ms)
            most = first;
        else
            least = first + 1;
    }
    return least;
}

static void prepare(const struct cut_problem *p, struct chain *c, double cap_ms)
{
    bool all_roomy = true;

    c->reach[0] = 0;
    for (int pos = 0; pos < c->n_nodes; pos++) {
        c->reach[pos + 1] = furthest(p, cap_ms, c->order[pos], c->reach[pos]);
        all_roomy = is_roomy(p, c, cap_ms, c->order[pos]) && all_roomy;
    }
    c->begin[c->n_nodes] = p->n_units;
    for (int pos = c->n_nodes - 1; pos >= 0; pos--)
        c->begin[pos] = earliest(p, cap_ms, c->order[pos], c->begin[pos + 1]);
    c->last_level = p->max_stages < c->n_nodes ? p->max_stages : p->min_stages;
    c->memory_level = all_roomy ? 0 : p->n_microbatches - 1;
    if (c->memory_level > p->max_stages)
        c->memory_level = p->max_stages;
}

/* Least time of the stages of a state and of the edge to them, from whose class on are edges_ms;
 * INFINITY when that is above the cap. */
static double join_ms(const struct cut_problem *p, const struct chain *c, const double *edges_ms,
                      double cap_ms, size_t state, short *out_class)
{
    double least = INFINITY;

    for (int class = 0; class < p->n_classes; class ++) {
        double ms = c->behind[class][state] + 2 * edges_ms[class];

        if (ms >= least || edges_ms[class] > cap_ms)
            continue;
        least = ms;
        *out_class = (short)class;
    }
    return least;
}

/* Least times of what can be behind the node at position pos, to c->front_ms and front_class, and
 * the range of units in `front`. False when there is nothing. */
static bool join(const struct cut_problem *p, struct chain *c, int pos, int level,
                 struct front *front)
{
    size_t states = (size_t)level * ((size_t)p->n_units + 1);
    int from = p->class_of[front->node];
    int least =
        c->begin[pos + 1] > c->least_begin[level] ? c->begin[pos + 1] : c->least_begin[level];

    front->least_end = p->n_units + 1;
    front->most_end = 0;
    for (int end = c->reach[pos + 1]; end >= least && end > 0; end--) {
        c->front_ms[end] = INFINITY;
        if (isinf(c->least_ms[states + (size_t)end]))
            continue;
        c->front_ms[end] = join_ms(p, c, cut_edges_ms(p, from, end), front->cap_ms,
                                   states + (size_t)end, &c->front_class[end]);
        if (isinf(c->front_ms[end]))
            continue;
        front->least_end = end;
        if (front->most_end == 0)
            front->most_end = end;
    }
    front->least_first = c->begin[pos];
    front->most_first = c->reach[pos] < front->most_end ? c->reach[pos] : front->most_end - 1;
    return front->most_end > 0;
}

/* Let the node at `pos` be the stage in front of those of `level`. States that cannot get below the
 * limit any more are not kept. */
static void extend(const struct cut_problem *p, struct chain *c, struct front *front, int pos,
                   int level)
{
    int to = level < c->last_level ? level + 1 : level;
    size_t states = (size_t)to * ((size_t)p->n_units + 1);
    double *best = c->with + states;
    double *least = c->least_ms + states;
    struct chain_choice *choice =
        c->choice + (size_t)pos * ((size_t)p->max_stages + 1) * ((size_t)p->n_units + 1) + states;
    struct front_run runs[FRONT_RUNS_MAX];
    int n;

    front->best_ms = best;
    n = front_runs(p, front, runs);
    for (int i = 0; i < n; i++) {
        int first = runs[i].first;

        if (runs[i].ms >= best[first])
            continue;
        best[first] = runs[i].ms;
        choice[first] = (struct chain_choice){
            .end = runs[i].end, .level = (short)level, .class = c->front_class[runs[i].end]};
        if (runs[i].ms < least[first])
            least[first] = runs[i].ms;
        if (first < c->least_begin[to])
            c->least_begin[to] = first;
    }
}

/* Every stage that the node at `pos` may be. Only the states whose first stage is of its link class
 * can get better by it. */
static void add_node(const struct cut_problem *p, struct chain *c, const struct limits *limits,
                     int pos)
{
    size_t row = (size_t)p->n_units + 1;
    size_t from = (size_t)c->begin[pos]; /* there are no states before, and none behind `reach` */
    size_t n = (size_t)(c->reach[pos] + 1) > from ? (size_t)(c->reach[pos] + 1) - from : 0;
    int node = c->order[pos];
    double **behind = &c->behind[p->class_of[node]];
    double *before = *behind;
    struct front front = {.node = node,
                          .is_roomy = is_roomy(p, c, limits->cap_ms, node),
                          .cap_ms = limits->cap_ms,
                          .behind_ms = c->front_ms,
                          .limit_ms = limits->limit_ms};

    for (size_t level = 0; level <= (size_t)c->last_level; level++) {
        size_t choices = (size_t)pos * ((size_t)p->max_stages + 1) + level;

        memcpy(c->with + level * row + from, before + level * row + from, n * sizeof *before);
        memset(c->choice + choices * row + from, 0, n * sizeof *c->choice);
    }
    for (int level = 0; level <= c->last_level && level < p->max_stages; level++) {
        front.in_flight = cut_in_flight(p, level);
        if (level < c->n_nodes - pos && join(p, c, pos, level, &front))
            extend(p, c, &front, pos, level);
    }
    *behind = c->with;
    c->with = before;
}

static void fill(const struct cut_problem *p, struct chain *c, const struct limits *limits)
{
    size_t used = ((size_t)c->last_level + 1) * ((size_t)p->n_units + 1);

    for (int class = 0; class < p->n_classes; class ++)
        for (size_t i = 0; i < used; i++)
            c->behind[class][i] = INFINITY;
    for (size_t i = 0; i < used; i++)
        c->with[i] = c->least_ms[i] = INFINITY;
    for (int level = 0; level <= c->last_level; level++)
        c->least_begin[level] = p->n_units;
    c->behind[0][p->n_units] = 0; /* no stage for no unit */
    c->least_ms[p->n_units] = 0;
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

/* The best with levels up to c->last_level. */
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
    /* Few levels count too little memory, never too much: if they find nothing there is nothing,
     * and if what they find fits there is nothing better. */
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
