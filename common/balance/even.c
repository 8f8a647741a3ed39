#include "balance/even.h"

void even_cut(const struct cut_problem *p, int n_layers, struct cut *out)
{
    struct cut c = {.n_stages = p->max_stages};
    bool by_layers = c.n_stages <= n_layers;
    int n = by_layers ? n_layers : p->n_units;

    for (int s = 0; s < c.n_stages; s++) {
        /* The first n % n_stages stages get one more. */
        int before = s * (n / c.n_stages) + (s < n % c.n_stages ? s : n % c.n_stages);

        c.node[s] = s;
        c.first[s] = by_layers && s > 0 ? 1 + 2 * before : before;
    }
    c.first[c.n_stages] = p->n_units;
    cut_measure(p, &c);
    *out = c;
}
