#include "balance/subsets.h"

#include <math.h>
#include <stdlib.h>

/* The first stage of a set: which node, and the unit behind its run. */
struct subsets_choice {
    short node;
    short end;
};

double subsets_work(int n_nodes, int n_units)
{
    return ldexp(1, n_nodes) * (n_units + 1) * n_nodes * n_units / 2;
}

enum err_code subsets_init(const struct cut_problem *p, struct subsets *out, struct err *err)
{
    size_t n = ((size_t)1 << p->n_nodes) * ((size_t)p->n_units + 1);
    struct subsets s = {calloc(n, sizeof *s.sum_ms), calloc(n, sizeof *s.choice)};

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

/* Put `node` in front of the stages of `set`, which begin at unit `end`, with every run it can. */
static void extend(const struct cut_problem *p, struct subsets *s, double cap_ms, unsigned set,
                   int end, int node)
{
    size_t row = (size_t)p->n_units + 1;
    unsigned with = set | 1u << node;
    double behind_ms = s->sum_ms[set * row + (size_t)end] + cut_edge_sum_ms(p, end);
    int in_flight = cut_in_flight(p, __builtin_popcount(set));
    int64_t scratch = 0;

    for (int first = end - 1; first >= 0; first--) {
        double ms = cut_run_ms(p, node, first, end);
        double *best = &s->sum_ms[with * row + (size_t)first];

        if (ms > cap_ms)
            return; /* a longer run takes longer still */
        if (p->scratch_bytes[first] > scratch)
            scratch = p->scratch_bytes[first];
        if (behind_ms + ms >= *best ||
            cut_run_bytes(p, first, end, scratch, in_flight) > p->memory[node])
            continue;
        *best = behind_ms + ms;
        s->choice[with * row + (size_t)first] =
            (struct subsets_choice){.node = (short)node, .end = (short)end};
    }
}

static void fill(const struct cut_problem *p, struct subsets *s, double cap_ms)
{
    size_t row = (size_t)p->n_units + 1;
    unsigned n_sets = 1u << p->n_nodes;

    for (size_t i = 0; i < n_sets * row; i++)
        s->sum_ms[i] = INFINITY;
    s->sum_ms[p->n_units] = 0; /* nobody runs nothing */
    for (unsigned set = 0; set < n_sets; set++) {
        if (__builtin_popcount(set) >= p->max_stages)
            continue;
        for (int end = p->n_units; end > 0; end--) {
            if (isinf(s->sum_ms[set * row + (size_t)end]) || cut_edge_sum_ms(p, end) / 2 > cap_ms)
                continue;
            for (int node = 0; node < p->n_nodes; node++)
                if (!(set & 1u << node))
                    extend(p, s, cap_ms, set, end, node);
        }
    }
}

bool subsets_solve(const struct cut_problem *p, void *subsets, double cap_ms, double limit_ms,
                   struct cut *out)
{
    struct subsets *s = subsets;
    size_t row = (size_t)p->n_units + 1;
    unsigned best = 0;
    struct cut cut = {0};

    fill(p, s, cap_ms);
    for (unsigned set = 1; set < 1u << p->n_nodes; set++) {
        double ms = s->sum_ms[set * row];
        int n = __builtin_popcount(set);

        if (isinf(ms) || n < p->min_stages)
            continue;
        if (best == 0 || ms < s->sum_ms[best * row] ||
            (ms <= s->sum_ms[best * row] && n < __builtin_popcount(best)))
            best = set;
    }
    if (best == 0 || s->sum_ms[best * row] >= limit_ms)
        return false;
    for (unsigned set = best; set;) {
        struct subsets_choice c = s->choice[set * row + (size_t)cut.first[cut.n_stages]];

        cut.node[cut.n_stages] = c.node;
        cut.first[++cut.n_stages] = c.end;
        set &= ~(1u << c.node);
    }
    cut_measure(p, &cut);
    *out = cut;
    return true;
}
