#include "balance/choose.h"

#include <math.h>
#include <stdlib.h>

#include "balance/cut.h"
#include "balance/partition.h"

#define PER_STAGE 4 /* micro-batches: the pipeline is then idle for a fifth of the time at most */
#define LONGER    (1 + 1e-9)

/* How many times larger or smaller. */
static double distance(int m, double typical)
{
    return fabs(log(m / typical));
}

/* Divisors of the batch size, in rising order: all, or those nearest to what is typical, and the
 * largest, which needs the least memory. Returns how many. */
static int list_tries(const struct partition_request *r, int n_max, int out[static CHOOSE_TRIES])
{
    int batch = r->job.spec->training.batch_size;
    int n_units = model_units(&r->job.spec->model);
    int n_nodes = r->n_nodes < r->max_stages ? r->n_nodes : r->max_stages;
    double typical = PER_STAGE * (n_nodes < n_units ? n_nodes : n_units);
    int n = 0;

    for (int m = 1; m <= batch && m <= CHOOSE_MICRO_MAX; m++) {
        if (batch % m != 0)
            continue;
        if (n == n_max) { /* the smallest goes if it is the farthest, else the one before this */
            bool drops_first = distance(out[0], typical) >= distance(m, typical);

            for (int i = drops_first ? 0 : n - 1; i < n - 1; i++)
                out[i] = out[i + 1];
            n--;
        }
        out[n++] = m;
    }
    return n;
}

/* What is solved for: the numbers of micro-batches, and what was found for each of them. */
struct tries {
    int n;
    int micro_batches[CHOOSE_TRIES];
    double even_ms[CHOOSE_TRIES], dynamic_ms[CHOOSE_TRIES];
    double step_ms;  /* of the fastest plan of all ... */
    int n_stages;    /* ... which has this many */
    double bound_ms; /* that no plan of them is below */
};

/* Find the fastest plan of all tries. ERR_NOT_FOUND with the text of the last one, which needs
 * least memory. */
static enum err_code find_fastest(const struct partition_request *request, struct tries *t,
                                  struct placement *p, struct err *err)
{
    struct partition_request with = *request;
    enum err_code rc = ERR_OK;

    t->step_ms = t->bound_ms = INFINITY;
    for (int i = 0; i < t->n && (rc == ERR_OK || rc == ERR_NOT_FOUND); i++) {
        with.job.micro_batches = t->micro_batches[i];
        rc = partition_solve(&with, p, err);
        if (rc != ERR_OK)
            continue;
        t->even_ms[i] = p->even_step_ms;
        t->dynamic_ms[i] = p->dynamic_step_ms;
        if (p->predicted_step_ms < t->step_ms) {
            t->step_ms = p->predicted_step_ms;
            t->n_stages = p->n_stages;
        }
        t->bound_ms = fmin(t->bound_ms, p->bound_ms);
    }
    return rc == ERR_NOT_FOUND && !isinf(t->step_ms) ? ERR_OK : rc;
}

/* The try with the usual number of micro-batches for its number of stages. */
static int usual_try(const struct tries *t, int n_stages)
{
    double typical = n_stages > 1 ? PER_STAGE * n_stages : 1;
    int usual = 0;

    for (int i = 1; i < t->n; i++)
        if (distance(t->micro_batches[i], typical) < distance(t->micro_batches[usual], typical))
            usual = i;
    return usual;
}

/* Take a plan of at most request->max_stages stages whose step is at most `limit_ms`: with the
 * number of micro-batches that is usual for `n_stages`, else with the fewest. ERR_NOT_FOUND when
 * there is none. */
static enum err_code take_first(const struct partition_request *request, const struct tries *t,
                                int n_stages, double limit_ms, struct placement *out,
                                struct err *err)
{
    struct partition_request with = *request;
    enum err_code rc = ERR_NOT_FOUND;
    int usual = usual_try(t, n_stages);

    for (int k = 0; k < t->n && rc == ERR_NOT_FOUND; k++) {
        int i = k == 0 ? usual : k - (k <= usual); /* all others in rising order */

        with.job.micro_batches = t->micro_batches[i];
        rc = partition_solve(&with, out, err);
        if (rc == ERR_OK && out->predicted_step_ms > limit_ms * LONGER)
            rc = ERR_NOT_FOUND;
        out->even_step_ms = t->even_ms[i];
        out->dynamic_step_ms = t->dynamic_ms[i];
    }
    out->bound_ms = fmin(t->bound_ms, out->predicted_step_ms);
    return rc;
}

/* Drop nodes that gain too little. The least time with k nodes only falls as k grows, so the
 * first number of nodes that is too slow ends the search. */
static enum err_code save_nodes(const struct partition_request *request, const struct tries *all,
                                struct placement *best, struct err *err)
{
    struct partition_request with = *request;
    struct placement *p = calloc(1, sizeof *p);
    struct tries tries = *all;
    int least = request->min_stages > 1 ? request->min_stages : 1;
    bool is_saved = false;
    enum err_code rc = ERR_OK;

    if (!p)
        return err_set(err, ERR_NO_MEMORY, "planning on %d nodes", request->n_nodes);
    for (int i = 0; request->n_nodes > CHOOSE_FEW_NODES && i < all->n; i++)
        if (all->micro_batches[i] == best->micro_batches) { /* one solve takes long enough */
            tries.n = 1;
            tries.micro_batches[0] = all->micro_batches[i];
            tries.even_ms[0] = all->even_ms[i];
            tries.dynamic_ms[0] = all->dynamic_ms[i];
        }
    while (rc == ERR_OK && best->n_stages > least) {
        with.max_stages = best->n_stages - 1;
        rc = take_first(&with, &tries, best->n_stages - 1, all->step_ms * (1 + CHOOSE_NODE_GAIN), p,
                        err);
        if (rc != ERR_OK)
            continue;
        *best = *p;
        is_saved = true;
    }
    free(p);
    if (rc != ERR_OK && rc != ERR_NOT_FOUND)
        return rc;
    with.max_stages = request->max_stages;
    with.job.micro_batches = best->micro_batches;
    return is_saved ? partition_list_left_out(&with, best, err) : ERR_OK;
}

/* Let the request name a link per pair of link classes instead of one per pair of nodes: it is
 * solved several times, and looking at all pairs would take most of the time with 1,000 nodes. The
 * caller frees *out_class and *out_links, which are NULL where that would be no shorter. */
static enum err_code classify_links(struct partition_request *r, int **out_class,
                                    struct cost_link **out_links, struct err *err)
{
    size_t n = (size_t)r->n_nodes;
    enum err_code rc = partition_check_links(r, err);
    int n_classes = 0;
    int *nodes;

    if (rc != ERR_OK || !r->links || r->n_nodes <= CHOOSE_FEW_NODES)
        return rc;
    nodes = calloc(n, sizeof *nodes);
    *out_class = calloc(n, sizeof **out_class);
    for (int i = 0; nodes && i < r->n_nodes; i++)
        nodes[i] = i;
    if (nodes && *out_class)
        n_classes = link_classes(r, nodes, r->n_nodes, *out_class);
    free(nodes);
    if (n_classes == r->n_nodes)
        return ERR_OK;
    *out_links = calloc((size_t)n_classes * (size_t)n_classes, sizeof **out_links);
    if (n_classes == 0 || !*out_links)
        return err_set(err, ERR_NO_MEMORY, "planning on %d nodes", r->n_nodes);
    for (int i = 0; i < r->n_nodes; i++)
        for (int k = 0; k < i; k++) {
            int a = (*out_class)[i];
            int b = (*out_class)[k];

            (*out_links)[a * n_classes + b] = (*out_links)[b * n_classes + a] =
                *partition_link(r, i, k);
        }
    r->links = *out_links;
    r->link_class = *out_class;
    r->n_link_classes = n_classes;
    return ERR_OK;
}

enum err_code choose_solve(const struct partition_request *request, struct placement *out,
                           struct err *err)
{
    struct partition_request by_class = *request;
    struct cost_link *links = NULL;
    int *class = NULL;
    struct tries tries = {.n = 1, .micro_batches = {request->job.micro_batches}};
    struct placement *best = calloc(1, sizeof *best);
    enum err_code rc;

    if (!best)
        return err_set(err, ERR_NO_MEMORY, "planning on %d nodes", request->n_nodes);
    if (request->job.micro_batches == 0)
        tries.n = list_tries(request,
                             request->n_nodes > CHOOSE_FEW_NODES ? CHOOSE_FEW_TRIES : CHOOSE_TRIES,
                             tries.micro_batches);
    rc = classify_links(&by_class, &class, &links, err);
    if (rc == ERR_OK)
        rc = find_fastest(&by_class, &tries, best, err);
    if (rc == ERR_OK)
        rc = take_first(&by_class, &tries, tries.n_stages, tries.step_ms * (1 + CHOOSE_MICRO_GAIN),
                        best, err);
    if (rc == ERR_OK && request->job.spec->placement.strategy == SPEC_STRATEGY_OPTIMAL)
        rc = save_nodes(&by_class, &tries, best, err);
    if (rc == ERR_OK)
        *out = *best;
    free(class);
    free(links);
    free(best);
    return rc;
}
