#include "balance/manual.h"

#include <string.h>

#include "api/stages.h"
#include "balance/cut.h"

#define MIB(bytes) (((bytes) + ((int64_t)1 << 20) - 1) >> 20)

static int find_node(const struct partition_request *r, const char *name)
{
    for (int i = 0; i < r->n_nodes; i++)
        if (strcmp(r->nodes[i].name, name) == 0)
            return i;
    return -1;
}

static bool is_taken(const int *nodes, int n_stages, int node)
{
    for (int s = 0; s < n_stages; s++)
        if (nodes[s] == node)
            return true;
    return false;
}

static enum err_code take_named(const struct partition_request *r, int *nodes, struct err *err)
{
    const struct spec_stages *stages = &r->spec->placement.stages;

    for (int s = 0; s < stages->n; s++) {
        const char *name = stages->list[s].node;

        nodes[s] = *name ? find_node(r, name) : -1;
        if (*name && nodes[s] < 0)
            return err_set(err, ERR_NOT_FOUND,
                           "spec.placement.stages[%d].node: none of the %d suitable nodes is "
                           "called \"%.60s\"",
                           s, r->n_nodes, name);
    }
    return ERR_OK;
}

/* The stage without a node that has the most work; -1: all have one. */
static int heaviest(const struct cut_problem *p, const struct cut *c, const int *nodes)
{
    double most_ms = 0;
    int heavy = -1;

    for (int s = 0; s < c->n_stages; s++) {
        double ms = cut_run_ms(p, 0, c->first[s], c->first[s + 1]);

        if (nodes[s] < 0 && ms > most_ms) {
            most_ms = ms;
            heavy = s;
        }
    }
    return heavy;
}

static enum err_code take_fastest(const struct partition_request *r, const struct cut_problem *p,
                                  const struct cut *c, int *nodes, struct err *err)
{
    for (int s = heaviest(p, c, nodes); s >= 0; s = heaviest(p, c, nodes)) {
        int64_t bytes = cut_stage_bytes(p, c, s);

        for (int i = 0; i < r->n_nodes; i++)
            if (r->nodes[i].memory_bytes >= bytes && !is_taken(nodes, c->n_stages, i) &&
                (nodes[s] < 0 || r->nodes[i].gflops > r->nodes[nodes[s]].gflops))
                nodes[s] = i;
        if (nodes[s] < 0)
            return err_set(err, ERR_NOT_FOUND,
                           "spec.placement.stages[%d]: needs %lld MiB, and no node that offers so "
                           "much is left of %d",
                           s, (long long)MIB(bytes), r->n_nodes);
    }
    return ERR_OK;
}

enum err_code manual_nodes(const struct partition_request *request, int *out_nodes, struct err *err)
{
    const int first_node = 0; /* to compare work, any node does */
    struct cut c = {.n_stages = request->spec->placement.stages.n};
    struct cut_problem p;
    enum err_code rc = take_named(request, out_nodes, err);

    if (rc == ERR_OK)
        rc = cut_problem_init(request, &first_node, 1, &p, err);
    if (rc != ERR_OK)
        return rc;
    for (int s = 0; s < c.n_stages; s++)
        c.first[s + 1] = c.first[s] + stages_units(request->spec, s);
    rc = take_fastest(request, &p, &c, out_nodes, err);
    cut_problem_deinit(&p);
    return rc;
}
