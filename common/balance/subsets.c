#include "balance/subsets.h"

#include <math.h>
#include <stdlib.h>

#include "balance/search.h"

/* The first stage of a set: which kind of node, the unit behind its run, and the link class of the
 * stage there. */
struct subsets_choice {
    short kind;
    short end;
    short behind;
};

/* A set of nodes, enumerated in ascending order. */
struct members {
    size_t set;
    int n;
    int count[PARTITION_CANDIDATES_MAX]; /* of each kind */
};

static int lesser(int a, int b)
{
    return a < b ? a : b;
}

double subsets_work(const int *counts, int n_kinds, int n_units, int max_stages)
{
    double sets = 1;
    int n = 0;

    for (int k = 0; k < n_kinds; k++) {
        sets *= lesser(counts[k], max_stages) + 1;
        n += counts[k] > 0;
    }
    return sets * (n_units + 1) * n;
}

static size_t row_of(const struct cut_problem *p, size_t set, int class)
{
    return (set * (size_t)p->n_classes + (size_t) class) * ((size_t)p->n_units + 1);
}

enum err_code subsets_init(const struct cut_problem *p, struct subsets *out, struct err *err)
{
    struct subsets s = {.n_sets = 1};
    size_t n;

    for (int k = 0; k < p->kinds.n; k++) {
        s.step[k] = s.n_sets;
        s.most[k] = lesser(p->kinds.count[k], p->max_stages);
        s.n_sets *= (size_t)s.most[k] + 1;
    }
    n = row_of(p, s.n_sets, 0);
    s.sum_ms = calloc(n, sizeof *s.sum_ms);
    s.choice = calloc(n, sizeof *s.choice);
    if (!s.sum_ms || !s.choice) {
        subsets_deinit(&s);
        return err_set(err, ERR_NO_MEMORY, "planning on %d nodes", p->n_nodes);
    }
    *out = s;
    return ERR_OK;
}

void subsets_deinit(struct subsets *s)
{
    free(s->sum_ms);
    free(s->choice);
    *s = (struct subsets){0};
}

static void next_set(const struct cut_problem *p, const struct subsets *s, struct members *m)
{
    m->set++;
    m->n++;
    for (int k = 0; k < p->kinds.n && ++m->count[k] > s->most[k]; k++) {
        m->n -= m->count[k] - 1;
        m->count[k] = 0;
    }
}

/* Least time of the stages of `set`, which begin at unit `end`, and of the edge to them from a node
 * of link class `from`; the class of the first of them. */
static double join_ms(const struct cut_problem *p, const struct subsets *s, size_t set, int from,
                      int end, short *out_behind)
{
    const double *edges_ms = cut_edges_ms(p, from, end);
    double least = INFINITY;

    for (int class = 0; class < p->n_classes; class ++) {
        double ms = s->sum_ms[row_of(p, set, class) + (size_t)end] + 2 * edges_ms[class];

        if (edges_ms[class] > s->cap_ms || ms >= least)
            continue;
        least = ms;
        *out_behind = (short)class;
    }
    return least;
}

/* Least times of all that can be behind a node of link class `from`, and what comes first there. */
static void join(const struct cut_problem *p, struct subsets *s, const struct members *m, int from)
{
    s->least_end = p->n_units + 1;
    s->most_end = 0;
    for (int end = p->n_units; end > 0; end--) {
        s->behind_ms[end] = join_ms(p, s, m->set, from, end, &s->behind[end]);
        if (isinf(s->behind_ms[end]))
            continue;
        s->least_end = end;
        if (s->most_end == 0)
            s->most_end = end;
    }
}

/* Put a node of `kind` in front of the stages of a set, with every run it can. */
static void extend(const struct cut_problem *p, struct subsets *s, const struct members *m,
                   int kind)
{
    size_t row = row_of(p, m->set + s->step[kind], p->kinds.link_class[kind]);
    const struct front front = {.node = p->kinds.first[kind],
                                .in_flight = cut_in_flight(p, m->n),
                                .cap_ms = s->cap_ms,
                                .behind_ms = s->behind_ms,
                                .least_end = s->least_end,
                                .most_end = s->most_end,
                                .most_first = s->most_end - 1,
                                .best_ms = s->sum_ms + row,
                                .limit_ms = s->limit_ms};
    struct front_run runs[FRONT_RUNS_MAX];
    int n = front_runs(p, &front, runs);

    for (int i = 0; i < n; i++) {
        size_t state = row + (size_t)runs[i].first;

        if (runs[i].ms >= s->sum_ms[state])
            continue;
        s->sum_ms[state] = runs[i].ms;
        s->choice[state] = (struct subsets_choice){
            .kind = (short)kind, .end = runs[i].end, .behind = s->behind[runs[i].end]};
    }
}

/* Kinds come class by class, and what is behind is the same for all of a class. */
static void extend_all(const struct cut_problem *p, struct subsets *s, const struct members *m)
{
    int class = -1;

    for (int k = 0; k < p->kinds.n; k++) {
        if (m->count[k] == s->most[k])
            continue;
        if (p->kinds.link_class[k] != class) {
            class = p->kinds.link_class[k];
            join(p, s, m, class);
        }
        if (s->most_end > 0)
            extend(p, s, m, k);
    }
}

static void fill(const struct cut_problem *p, struct subsets *s)
{
    struct members m = {.set = 0};
    size_t n = row_of(p, s->n_sets, 0);

    for (size_t i = 0; i < n; i++)
        s->sum_ms[i] = INFINITY;
    s->sum_ms[p->n_units] = 0; /* no stage for no unit */
    for (; m.set < s->n_sets; next_set(p, s, &m))
        if (m.n < p->max_stages)
            extend_all(p, s, &m);
}

/* The best of all sets that run every unit, and the class of its first stage. */
static double find_best(const struct cut_problem *p, const struct subsets *s, size_t *out_set,
                        int *out_class)
{
    struct members m = {.set = 0};
    double best_ms = INFINITY;
    int best_n = 0;

    for (; m.set < s->n_sets; next_set(p, s, &m))
        for (int class = 0; class < p->n_classes; class ++) {
            double ms = s->sum_ms[row_of(p, m.set, class)];

            if (isinf(ms) || m.n < p->min_stages || ms > best_ms ||
                (ms == best_ms && m.n >= best_n))
                continue;
            best_ms = ms;
            best_n = m.n;
            *out_set = m.set;
            *out_class = class;
        }
    return best_ms;
}

/* The candidate of a kind that has `n` of it before it. */
static int node_of(const struct cut_problem *p, int kind, int n)
{
    int node = p->kinds.first[kind];

    while (p->kinds.of[node] != kind || n-- > 0)
        node++;
    return node;
}

bool subsets_solve(const struct cut_problem *p, void *subsets, double cap_ms, double limit_ms,
                   struct cut *out)
{
    struct subsets *s = subsets;
    int taken[PARTITION_CANDIDATES_MAX] = {0};
    struct cut cut = {0};
    double best_ms;
    size_t set = 0;
    int class = 0;

    s->cap_ms = cap_ms;
    s->limit_ms = limit_ms;
    fill(p, s);
    best_ms = find_best(p, s, &set, &class);
    if (isinf(best_ms) || best_ms >= limit_ms)
        return false;
    while (set > 0) {
        struct subsets_choice c =
            s->choice[row_of(p, set, class) + (size_t)cut.first[cut.n_stages]];

        cut.node[cut.n_stages] = node_of(p, c.kind, taken[c.kind]++);
        cut.first[++cut.n_stages] = c.end;
        set -= s->step[c.kind];
        class = c.behind;
    }
    cut_measure(p, &cut);
    *out = cut;
    return true;
}
