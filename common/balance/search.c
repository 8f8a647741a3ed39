#include "balance/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BELOW      (1 - 1e-9) /* just below: cuts that differ by less count as equal */
#define SOLVES_MAX 4000       /* a hundred is usual */
#define RUNS_MAX   (2 * MODEL_UNITS_MAX)

/* The node that is put in front of stages that are already placed. */
struct front {
    int node;
    int in_flight;
    bool is_roomy;                           /* no run under the cap is too large for its memory */
    double behind_ms[MODEL_UNITS_MAX + 1];   /* what is behind each unit, with the edge to it */
    short behind_class[MODEL_UNITS_MAX + 1]; /* and the link class there */
    int least_end, most_end;                 /* nothing of use is outside these */
    int least_first, most_first;             /* units that are wanted */
    const double *best_ms;                   /* [n_units+1] known already, by first unit */
};

struct run {
    double ms; /* from its first unit to the end */
    short first, end;
};

/* The first stage of a state. */
struct choice {
    short end;   /* the unit behind its run; 0: with SEARCH_ORDER, the node is skipped */
    short class; /* the link class of the stage there */
    short pick;  /* with SEARCH_ORDER the level there, with SEARCH_ALL its own kind of node */
};

struct solver {
    const struct cut_problem *p;
    double cap_ms, limit_ms; /* of the solve at hand: of stages and edges, and of the sum */
    double *sum_ms;          /* of each state */
    double *behind[PARTITION_CANDIDATES_MAX]; /* parts of it, by link class of the first stage */
    struct choice *choice;
    struct front front;
    struct run runs[RUNS_MAX]; /* of it */

    /* With SEARCH_ORDER. */
    double *with;     /* part of sum_ms: with the node being added */
    double *least_ms; /* part of sum_ms: the least of all classes, by level and first unit */
    int least_begin[PARTITION_CANDIDATES_MAX + 1]; /* lowest first unit of a level's states */
    int last_level;                                /* of the current solve */
    /* Every run of a node fits into its memory up to this cap, and not from that cap on. */
    double roomy_ms[PARTITION_CANDIDATES_MAX], tight_ms[PARTITION_CANDIDATES_MAX];
    int reach[PARTITION_CANDIDATES_MAX + 1]; /* units that the nodes before one can run */
    int begin[PARTITION_CANDIDATES_MAX + 1]; /* first unit from which it and those behind can */

    /* With SEARCH_ALL. */
    size_t n_sets;                         /* else 0 */
    size_t step[PARTITION_CANDIDATES_MAX]; /* from a set to the one with a node of a kind more */
    int most[PARTITION_CANDIDATES_MAX];    /* nodes of each kind that a set has */
};

static int lesser(int a, int b)
{
    return a < b ? a : b;
}

static size_t row_of(const struct cut_problem *p)
{
    return (size_t)p->n_units + 1;
}

/* --- the inner loop: every run of a node in front of others ---
 *
 * For every u we want the minimum of time(u, v) + behind_ms[v] over all v for which units u..v-1
 * take no longer than the cap and fit into the node's memory. A run that is too large stays so when
 * it gets longer, so these v reach from u+1 to a limit that only falls when u falls: a sliding
 * window, whose minimum a monotonic queue keeps. A v is checked against cap and memory only once it
 * is that minimum and better than the best known. Work: units, not units squared.
 *
 * Edges make two exceptions, which are evaluated run by run: nothing behind (v = n_units), which
 * saves an edge's messages and slots, and u = 0, which has the data set instead of them. */

static bool fits(const struct solver *s, int first, int end)
{
    const struct front *f = &s->front;

    return cut_busy_ms(s->p, f->node, first, end) <= s->cap_ms &&
           (f->is_roomy ||
            cut_run_bytes(s->p, first, end, f->in_flight) <= s->p->nodes[f->node].memory);
}

static bool is_improvement(const struct solver *s, int first, double ms)
{
    return ms < s->front.best_ms[first] && ms < s->limit_ms;
}

static int slide(const struct solver *s, struct run *restrict runs)
{
    const struct cut_problem *p = s->p;
    const struct front *f = &s->front;
    const double *ms = p->ms[f->node];
    double fill = p->nodes[f->node].fill;
    double edges_ms = 2 * fill * p->nodes[f->node].message_ms;
    int next = f->most_end < p->n_units ? f->most_end : p->n_units - 1;
    int least = f->least_first > 1 ? f->least_first : 1;
    /* Ends in the window, from the furthest; each with less time than those before it. */
    short ends[MODEL_UNITS_MAX];
    double ends_ms[MODEL_UNITS_MAX]; /* behind it, and of all units before it */
    int head = 0;
    int tail = 0;
    int n = 0;

    for (int first = f->most_first; first >= least; first--) {
        for (; next > first && next >= f->least_end; next--) {
            double end_ms = f->behind_ms[next] + edges_ms + fill * ms[next];

            if (isinf(end_ms))
                continue;
            while (tail > head && ends_ms[tail - 1] > end_ms)
                tail--;
            ends[tail] = (short)next;
            ends_ms[tail++] = end_ms;
        }
        /* What does not fit now will not with a unit more. */
        while (head < tail && is_improvement(s, first, ends_ms[head] - fill * ms[first])) {
            if (fits(s, first, ends[head])) {
                runs[n++] =
                    (struct run){ends_ms[head] - fill * ms[first], (short)first, ends[head]};
                break;
            }
            head++;
        }
        if (head == tail && next < f->least_end)
            break; /* all ends are out of reach */
    }
    return n;
}

static void keep_better(const struct solver *s, int first, int end, struct run *run)
{
    double ms = s->front.behind_ms[end] + cut_fill_ms(s->p, s->front.node, first, end);

    if (ms <= run->ms && is_improvement(s, first, ms) && fits(s, first, end))
        *run = (struct run){ms, (short)first, (short)end};
}

/* All units up to the last one. */
static int end_all(const struct solver *s, struct run *restrict runs)
{
    const struct front *f = &s->front;
    int last = s->p->n_units;
    int n = 0;

    if (f->most_end < last || isinf(f->behind_ms[last]))
        return 0;
    for (int first = last - 1; first >= f->least_first; first--) {
        struct run run = {INFINITY, 0, 0};

        if (cut_busy_ms(s->p, f->node, first, last) > s->cap_ms) {
            first = first > 1 ? 1 : first; /* only all units, without any messages, may take less */
            continue;
        }
        if (first <= f->most_first)
            keep_better(s, first, last, &run);
        if (run.end > 0)
            runs[n++] = run;
    }
    return n;
}

/* Put the node in front with every run that is better than what is known: in s->runs, of which this
 * returns how many there are. For a few units there are two, of which the better counts, or the
 * first when they are equal. */
static int place(struct solver *s, double *best_ms, struct choice *choice, int pick)
{
    const struct front *f = &s->front;
    struct run whole = {INFINITY, 0, 0};
    int n;

    s->front.best_ms = best_ms;
    n = end_all(s, s->runs);
    for (int end = f->least_end; f->least_first == 0 && end <= f->most_end && end < s->p->n_units;
         end++)
        keep_better(s, 0, end, &whole);
    if (whole.end > 0)
        s->runs[n++] = whole;
    n += slide(s, s->runs + n);
    for (int i = 0; i < n; i++) {
        const struct run *run = &s->runs[i];

        if (run->ms >= best_ms[run->first])
            continue;
        best_ms[run->first] = run->ms;
        choice[run->first] = (struct choice){run->end, f->behind_class[run->end], (short)pick};
    }
    return n;
}

/* Least times of what can be behind a node of link class `from`: of stages that begin at units
 * least..most, in the states from `at` on, and of the edge to them. Where `least_ms` is INFINITY no
 * class has any; it may be NULL. False when there is nothing. */
static bool join(struct solver *s, int from, size_t at, const double *least_ms, int least, int most)
{
    const struct cut_problem *p = s->p;
    struct front *restrict f = &s->front;
    double cap_ms = s->cap_ms;
    int n_classes = p->n_classes;
    int least_end = p->n_units + 1;
    int most_end = 0;

    for (int end = most; end >= least && end > 0; end--) {
        const double *edges_ms = cut_edges_ms(p, from, end);
        double best_ms = INFINITY;

        if (least_ms && isinf(least_ms[end])) {
            f->behind_ms[end] = INFINITY;
            continue;
        }
        for (int class = 0; class < n_classes; class ++) {
            double ms = s->behind[class][at + (size_t)end] + 2 * edges_ms[class];

            if (ms >= best_ms || edges_ms[class] > cap_ms)
                continue;
            best_ms = ms;
            f->behind_class[end] = (short)class;
        }
        f->behind_ms[end] = best_ms;
        if (isinf(best_ms))
            continue;
        least_end = end;
        if (most_end == 0)
            most_end = end;
    }
    f->least_end = least_end;
    f->most_end = most_end;
    return most_end > 0;
}

/* --- one order, in which any node may be skipped ---
 *
 * Dynamic programming from the back over (position in the order, stages used, link class of the
 * first stage, first unit), with the same argument as below for all orders. A node that is added
 * to the order can be skipped, so the result never gets worse by it.
 *
 * The number of stages behind, the level, matters for memory until it reaches the number of
 * micro-batches, and for minStages and maxStages. From a last level on levels are merged. If every
 * run under the cap fits into memory at any position and the limits are out of reach, one level is
 * enough; if not, one level is tried first, which may count too little memory but never too much.
 * Units are skipped that the nodes before a position cannot reach, or from which the nodes behind
 * it cannot reach the end. Work: nodes * levels * remaining units * link classes. */

/* Does every run of a node under the cap fit with all micro-batches in flight? What fits under a
 * cap fits under a lower one. */
static bool is_roomy(struct solver *s, int node)
{
    const struct cut_problem *p = s->p;
    int in_flight = cut_in_flight(p, p->n_microbatches);
    bool is_enough = true;
    int end = 0;

    if (s->cap_ms <= s->roomy_ms[node] || s->cap_ms >= s->tight_ms[node])
        return s->cap_ms <= s->roomy_ms[node];
    for (int first = 0; is_enough && first < p->n_units; first++) {
        if (end < first)
            end = first;
        while (end < p->n_units && cut_least_ms(p, node, first, end + 1) <= s->cap_ms)
            end++;
        /* With edges on both sides, so that a shorter run cannot take more. */
        is_enough = end == first || cut_run_bytes(p, first, end, in_flight) +
                                            4 * COST_LINK_SLOTS * p->slot_bytes[0] <=
                                        p->nodes[node].memory;
    }
    *(is_enough ? &s->roomy_ms[node] : &s->tight_ms[node]) = s->cap_ms;
    return is_enough;
}

/* Every stage that a node may be. Only the states whose first stage is of its link class can get
 * better by it, and states that cannot get below the limit any more are not kept. */
static void add_node(struct solver *s, int node)
{
    const struct cut_problem *p = s->p;
    size_t row = row_of(p);
    struct choice *choice = s->choice + (size_t)node * ((size_t)p->max_stages + 1) * row;
    size_t from = (size_t)s->begin[node]; /* no states are before, and none behind `reach` */
    size_t n = (size_t)(s->reach[node] + 1) > from ? (size_t)(s->reach[node] + 1) - from : 0;
    double **behind = &s->behind[p->class_of[node]];
    double *before = *behind;
    struct front *f = &s->front;

    f->node = node;
    f->is_roomy = is_roomy(s, node);
    f->least_first = s->begin[node];
    for (size_t level = 0; level <= (size_t)s->last_level; level++) {
        memcpy(s->with + level * row + from, before + level * row + from, n * sizeof *before);
        memset(choice + level * row + from, 0, n * sizeof *choice);
    }
    for (int level = 0;
         level <= s->last_level && level < p->max_stages && level < p->n_nodes - node; level++) {
        int to = level < s->last_level ? level + 1 : level;
        int least = s->begin[node + 1];
        size_t at = (size_t)level * row;
        size_t next = (size_t)to * row;
        int n_runs;

        if (least < s->least_begin[level])
            least = s->least_begin[level];
        f->in_flight = cut_in_flight(p, level);
        if (!join(s, p->class_of[node], at, s->least_ms + at, least, s->reach[node + 1]))
            continue;
        f->most_first = lesser(s->reach[node], f->most_end - 1);
        n_runs = place(s, s->with + next, choice + next, level);
        for (int i = 0; i < n_runs; i++) {
            int first = s->runs[i].first;

            s->least_ms[next + (size_t)first] =
                fmin(s->least_ms[next + (size_t)first], s->runs[i].ms);
            s->least_begin[to] = lesser(s->least_begin[to], first);
        }
    }
    *behind = s->with;
    s->with = before;
}

/* The best with levels up to s->last_level. */
static bool solve_levels(struct solver *s, struct cut *out)
{
    const struct cut_problem *p = s->p;
    size_t row = row_of(p);
    size_t used = ((size_t)s->last_level + 1) * row;
    struct choice next = {.end = 0};
    struct cut cut = {0};
    double best_ms = INFINITY;

    for (int class = 0; class < p->n_classes; class ++)
        for (size_t i = 0; i < used; i++)
            s->behind[class][i] = INFINITY;
    for (size_t i = 0; i < used; i++)
        s->with[i] = s->least_ms[i] = INFINITY;
    for (int level = 0; level <= s->last_level; level++)
        s->least_begin[level] = p->n_units;
    s->behind[0][p->n_units] = 0; /* no stage for no unit */
    s->least_ms[p->n_units] = 0;
    for (int node = p->n_nodes - 1; node >= 0; node--)
        add_node(s, node);
    for (int level = lesser(p->min_stages, s->last_level); level <= s->last_level; level++)
        for (int class = 0; class < p->n_classes; class ++) {
            double ms = s->behind[class][(size_t)level * row];

            if (ms >= best_ms)
                continue;
            best_ms = ms;
            next = (struct choice){.class = (short)class, .pick = (short)level};
        }
    if (isinf(best_ms) || best_ms >= s->limit_ms)
        return false;
    /* The earliest position that improved a state is the one that counts. */
    for (int node = 0; next.end < p->n_units; node++) {
        size_t level = (size_t)node * ((size_t)p->max_stages + 1) + (size_t)next.pick;
        struct choice choice = s->choice[level * row + (size_t)next.end];

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

static bool solve_order(struct solver *s, struct cut *out)
{
    const struct cut_problem *p = s->p;
    bool all_roomy = true;
    int memory_level; /* up to which levels matter for memory */

    s->reach[0] = 0;
    for (int node = 0; node < p->n_nodes; node++) {
        int end = s->reach[node];

        while (end < p->n_units && cut_least_ms(p, node, s->reach[node], end + 1) <= s->cap_ms)
            end++;
        s->reach[node + 1] = end;
        all_roomy = is_roomy(s, node) && all_roomy;
    }
    s->begin[p->n_nodes] = p->n_units;
    for (int node = p->n_nodes - 1; node >= 0; node--) {
        int first = s->begin[node + 1];

        while (first > 0 && cut_least_ms(p, node, first - 1, s->begin[node + 1]) <= s->cap_ms)
            first--;
        s->begin[node] = first;
    }
    s->last_level = p->max_stages < p->n_nodes ? p->max_stages : p->min_stages;
    memory_level = all_roomy ? 0 : lesser(p->n_microbatches - 1, p->max_stages);
    if (s->reach[p->n_nodes] < p->n_units || p->min_stages > p->max_stages)
        return false;
    /* Few levels count too little memory, never too much: if they find nothing there is nothing,
     * and if what they find fits there is nothing better. */
    if (!solve_levels(s, out))
        return false;
    if (memory_level <= s->last_level || cut_misfit(p, out) < 0)
        return true;
    s->last_level = memory_level;
    return solve_levels(s, out);
}

/* --- all orders and choices ---
 *
 * Dynamic programming over (set of nodes, link class of the first of them, first unit). Let
 * g(D, c, u) be the least sum of times in which the nodes of D, in any order but with one of class
 * c first, run units u..n-1, with no stage or edge above cap_ms. The first of those stages is some
 * node d of class c in D with a run u..v-1, and the class c' of the next decides what the edge
 * between them takes, so
 *
 *     g(D, c, u) = min over d, v of  time(d, u, v) + m(D - d, c, v)
 *     m(D, c, v) = min over c' of    edge(c, c', v), there and back + g(D, c', v)
 *
 * because nothing about the stages behind depends on d or on the run: their times are their own,
 * and the memory of a stage depends only on how many stages are behind it, which is |D| - 1 for
 * this one and known within D - d for the others. So an optimal solution contains an optimal
 * solution of the rest (Held and Karp 1962). m is the same for every d of a class, so classes add
 * little work.
 *
 * Nodes of one kind (balance/cut.h) are interchangeable, so a set is a count per kind: 2^nodes sets
 * if all nodes differ, 17^4 for 64 nodes of 4 kinds. Work: sets * (units + 1) states with a choice
 * of kinds each, all runs of which place() evaluates together. */

/* A set of nodes, enumerated in ascending order. */
struct members {
    size_t set;
    int n;
    int count[PARTITION_CANDIDATES_MAX]; /* of each kind */
};

static void next_set(const struct solver *s, struct members *m)
{
    m->set++;
    m->n++;
    for (int k = 0; k < s->p->kinds.n && ++m->count[k] > s->most[k]; k++) {
        m->n -= m->count[k] - 1;
        m->count[k] = 0;
    }
}

/* Put each kind of node in front of the stages of a set. Kinds come class by class, and what is
 * behind is the same for all of a class. */
static void extend(struct solver *s, const struct members *m)
{
    const struct cut_problem *p = s->p;
    size_t set_states = (size_t)p->n_classes * row_of(p);
    bool has_any = false;
    int class = -1;

    for (int k = 0; k < p->kinds.n; k++) {
        size_t at = (m->set + s->step[k]) * set_states;

        if (m->count[k] == s->most[k])
            continue;
        if (p->kinds.link_class[k] != class) {
            class = p->kinds.link_class[k];
            has_any = join(s, class, m->set * set_states, NULL, 1, p->n_units);
        }
        if (!has_any)
            continue;
        s->front.node = p->kinds.first[k];
        s->front.in_flight = cut_in_flight(p, m->n);
        s->front.most_first = s->front.most_end - 1;
        at += (size_t) class * row_of(p);
        (void)place(s, s->sum_ms + at, s->choice + at, k);
    }
}

static bool solve_all(struct solver *s, struct cut *out)
{
    const struct cut_problem *p = s->p;
    size_t set_states = (size_t)p->n_classes * row_of(p);
    int taken[PARTITION_CANDIDATES_MAX] = {0};
    struct cut cut = {0};
    double best_ms = INFINITY;
    int best_n = 0;
    size_t set = 0;
    int class = 0;

    for (size_t i = 0; i < s->n_sets * set_states; i++)
        s->sum_ms[i] = INFINITY;
    s->sum_ms[p->n_units] = 0; /* no stage for no unit */
    for (struct members m = {.set = 0}; m.set < s->n_sets; next_set(s, &m))
        if (m.n < p->max_stages)
            extend(s, &m);
    for (struct members m = {.set = 0}; m.set < s->n_sets; next_set(s, &m))
        for (int c = 0; c < p->n_classes; c++) {
            double ms = s->behind[c][m.set * set_states];

            if (isinf(ms) || m.n < p->min_stages || ms > best_ms ||
                (ms == best_ms && m.n >= best_n))
                continue;
            best_ms = ms;
            best_n = m.n;
            set = m.set;
            class = c;
        }
    if (isinf(best_ms) || best_ms >= s->limit_ms)
        return false;
    while (set > 0) {
        const struct choice *c =
            &s->choice[set * set_states + (size_t) class * row_of(p)] + cut.first[cut.n_stages];
        int node = p->kinds.first[c->pick];

        for (int n = taken[c->pick]++; p->kinds.of[node] != c->pick || n-- > 0;)
            node++; /* the first of its kind that is not taken */
        cut.node[cut.n_stages] = node;
        cut.first[++cut.n_stages] = c->end;
        set -= s->step[c->pick];
        class = c->class;
    }
    cut_measure(p, &cut);
    *out = cut;
    return true;
}

/* --- from "least sum under a cap" to "shortest step" --- */

enum err_code search_init(const struct cut_problem *p, enum search_over over, struct search *out,
                          struct err *err)
{
    struct search search = {
        .problem = p, .solver = calloc(1, sizeof *search.solver), .open_ms = INFINITY};
    struct solver *s = search.solver;
    size_t levels = over == SEARCH_ORDER ? (size_t)p->max_stages + 1 : 1;
    size_t states = levels * row_of(p); /* of a class */
    size_t n_sums = ((size_t)p->n_classes + 2) * states;
    size_t n_choices = (size_t)p->n_nodes * states;

    if (!s)
        goto no_memory;
    s->p = p;
    if (over == SEARCH_ALL) {
        s->n_sets = 1;
        for (int k = 0; k < p->kinds.n; k++) {
            s->step[k] = s->n_sets;
            s->most[k] = lesser(p->kinds.count[k], p->max_stages);
            s->n_sets *= (size_t)s->most[k] + 1;
        }
        n_sums = n_choices = s->n_sets * (size_t)p->n_classes * states;
    }
    s->sum_ms = calloc(n_sums, sizeof *s->sum_ms);
    s->choice = calloc(n_choices, sizeof *s->choice);
    if (!s->sum_ms || !s->choice)
        goto no_memory;
    for (int class = 0; class < p->n_classes; class ++)
        s->behind[class] = s->sum_ms + (size_t) class * states;
    if (over == SEARCH_ORDER) {
        s->with = s->sum_ms + (size_t)p->n_classes * states;
        s->least_ms = s->with + states;
    }
    for (int i = 0; i < p->n_nodes; i++)
        s->tight_ms[i] = INFINITY;
    *out = search;
    return ERR_OK;
no_memory:
    search_deinit(&search);
    return err_set(err, ERR_NO_MEMORY, "planning on %d nodes", p->n_nodes);
}

void search_deinit(struct search *s)
{
    if (s->solver) {
        free(s->solver->sum_ms);
        free(s->solver->choice);
    }
    free(s->solver);
    *s = (struct search){0};
}

/* For a cut with a max above `lo`: the least sum of those whose max is at most cap_ms, if that sum
 * can make a better step. */
static bool ask(struct search *s, double lo, double cap_ms, struct cut *out)
{
    struct solver *solver = s->solver;
    double ms;

    s->n_solves++;
    solver->cap_ms = cap_ms;
    solver->limit_ms = s->found
                           ? s->best_ms * (BELOW - s->gain) - (s->problem->n_microbatches - 1) * lo
                           : (double)INFINITY;
    if (!(solver->n_sets > 0 ? solve_all(solver, out) : solve_order(solver, out)))
        return false;
    ms = cut_step_ms(s->problem, out);
    if (!s->found || ms < s->best_ms * BELOW) {
        s->best = *out;
        s->best_ms = ms;
        s->found = true;
    }
    return true;
}

/* Can a cut with a max above `lo` and a sum of at least `sum_ms` still be the best? */
static bool is_open(const struct search *s, double lo, double sum_ms)
{
    return s->best_ms > s->enough_ms &&
           sum_ms + (s->problem->n_microbatches - 1) * lo < s->best_ms * (BELOW - s->gain);
}

/* Look at all cuts with max in (lo, hi), whose sums are at least `sum_ms`. Each level halves the
 * interval, so the depth is that of the doubles between lo and hi: 60 at most before BELOW ends it.
 */
static void narrow(struct search *s, double lo, double hi, double sum_ms)
{
    double middle;
    struct cut top;
    struct cut half;

    if (!is_open(s, lo, sum_ms) || lo >= hi * BELOW)
        return;
    if (s->n_solves >= SOLVES_MAX) {
        s->open_ms = fmin(s->open_ms, sum_ms + (s->problem->n_microbatches - 1) * lo);
        return;
    }
    if (!ask(s, lo, hi * BELOW, &top) || !is_open(s, lo, top.sum_ms))
        return;
    middle = (lo + top.max_ms) / 2;
    if (ask(s, lo, middle, &half))
        narrow(s, lo, half.max_ms, half.sum_ms);
    narrow(s, middle, top.max_ms, top.sum_ms);
}

void search_run(struct search *s)
{
    const struct cut_problem *p = s->problem;
    double lo = 0;
    struct cut first;

    /* No stage can be faster than the slowest unit on its fastest node. */
    for (int u = 0; u < p->n_units; u++) {
        double fastest = INFINITY;

        for (int i = 0; i < p->n_nodes; i++)
            fastest = fmin(fastest, cut_least_ms(p, i, u, u + 1));
        lo = fmax(lo, fastest);
    }
    lo = fmax(s->lo_ms, lo * BELOW);
    s->n_solves = 0;
    if (ask(s, lo, s->hi_ms > 0 ? s->hi_ms : INFINITY, &first))
        narrow(s, lo, first.max_ms, first.sum_ms);
}
