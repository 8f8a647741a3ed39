#include "balance/reshare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "balance/search.h"
#include "balance/split.h"

/* The workers of one replica as a problem of their own. */
struct part {
    struct plan_replica at;
    struct spec spec;
    struct cost_link *links; /* [n][n]; NULL: all links are alike */
    struct partition_request request;
    struct cut_problem problem;
};

static enum err_code part_init(const struct partition_request *all, const struct plan *plan, int k,
                               int share, struct part *out, struct err *err)
{
    int order[SPEC_STAGES_MAX];
    int n;

    *out = (struct part){.at = plan_replica(plan, k), .spec = *all->job.spec, .request = *all};
    n = out->at.n_stages;
    if (all->links) {
        out->links = calloc((size_t)n * (size_t)n, sizeof *out->links);
        if (!out->links)
            return err_set(err, ERR_NO_MEMORY, "sharing the batch among replicas");
    }
    for (int i = 0; i < n; i++) {
        order[i] = i;
        for (int s = 0; s < n && out->links; s++)
            out->links[i * n + s] =
                *partition_link(all, out->at.first_worker + i, out->at.first_worker + s);
    }
    out->spec.training.batch_size =
        all->job.spec->training.batch_size / plan->micro_batches * share;
    out->request.job = cost_job_in_replica(&all->job);
    out->request.job.spec = &out->spec;
    out->request.job.micro_batches = share;
    out->request.nodes = all->nodes + out->at.first_worker;
    out->request.n_nodes = n;
    out->request.links = out->links;
    out->request.link_class = NULL;
    out->request.min_stages = out->request.max_stages = n;
    return cut_problem_init(&out->request, order, n, &out->problem, err);
}

static void part_deinit(struct part *p)
{
    cut_problem_deinit(&p->problem);
    free(p->links);
}

static struct cut take_units(const struct part *p, const struct plan *plan, const int *n_units)
{
    struct cut c = {.n_stages = p->at.n_stages};

    for (int s = 0; s < c.n_stages; s++) {
        int i = p->at.first_worker + s;

        c.node[s] = s;
        c.first[s + 1] = c.first[s] + (n_units ? n_units[i] : plan->workers[i].n_units);
    }
    cut_measure(&p->problem, &c);
    return c;
}

/* Also while units move. */
static bool fits(const struct part *p, const struct plan *plan, const struct cut *c)
{
    for (int s = 0; s < c->n_stages; s++) {
        const struct plan_worker *w = &plan->workers[p->at.first_worker + s];

        if (cut_moving_bytes(&p->problem, c, s, w->first_unit, w->first_unit + w->n_units) >
            p->problem.nodes[s].memory)
            return false;
    }
    return true;
}

static enum err_code find_cut(struct part *p, struct cut *out, struct err *err)
{
    struct search search;
    enum err_code rc = search_init(&p->problem, SEARCH_ORDER, &search, err);

    if (rc != ERR_OK)
        return rc;
    search_run(&search);
    *out = search.best;
    search_deinit(&search);
    return ERR_OK;
}

enum cutting {
    CUT_GIVEN, /* whether or not the units fit */
    CUT_KEPT,  /* as it is */
    CUT_ANEW,
};

/* One replica with a share of the batch. One that cannot be cut anew stays as it is. */
static enum err_code place(const struct partition_request *all, const struct plan *plan, int k,
                           int share, const int *n_units, enum cutting cutting,
                           struct placement *out, struct err *err)
{
    struct part p;
    struct cut c = {.n_stages = 0};
    enum err_code rc = part_init(all, plan, k, share, &p, err);

    if (rc == ERR_OK && cutting == CUT_ANEW)
        rc = find_cut(&p, &c, err);
    if (rc == ERR_OK && (c.n_stages != p.at.n_stages || !fits(&p, plan, &c)))
        c = take_units(&p, plan, n_units);
    if (rc == ERR_OK && cutting != CUT_GIVEN && !fits(&p, plan, &c))
        rc = err_set(err, ERR_NOT_FOUND, "the units of replica %d do not fit into its pods", k);
    if (rc == ERR_OK) {
        *out = (struct placement){.strategy = all->job.spec->placement.strategy,
                                  .micro_batches = plan->micro_batches,
                                  .saves_from_copy = plan->saves_from_copy,
                                  .even_step_ms = -1,
                                  .dynamic_step_ms = -1};
        cut_place(&p.problem, &c, out);
        for (int s = 0; s < out->n_stages; s++)
            out->stages[s].node += p.at.first_worker;
    }
    part_deinit(&p);
    return rc;
}

static struct replicas begin(const struct plan *plan)
{
    return (struct replicas){.n = plan_n_replicas(plan), .micro_batches = plan->micro_batches};
}

enum err_code reshare_measure(const struct partition_request *request, const struct plan *plan,
                              const int *shares, const int *n_units, struct replicas *out,
                              struct err *err)
{
    enum err_code rc = ERR_OK;

    *out = begin(plan);
    for (int k = 0; k < out->n && rc == ERR_OK; k++) {
        out->shares[k] = shares[k];
        rc = place(request, plan, k, shares[k], n_units, CUT_GIVEN, &out->pipelines[k], err);
    }
    if (rc == ERR_OK)
        split_measure_placed(request, out);
    return rc;
}

enum err_code reshare_find(const struct partition_request *request, const struct plan *plan,
                           bool recuts, struct replicas *out, struct err *err)
{
    enum cutting cutting = recuts ? CUT_ANEW : CUT_KEPT;
    struct placement *more; /* [n] of each replica with a micro-batch more than it has */
    enum err_code rc = ERR_OK;

    *out = begin(plan);
    more = calloc((size_t)out->n, sizeof *more);
    if (!more)
        return err_set(err, ERR_NO_MEMORY, "sharing the batch among replicas");
    for (int k = 0; k < out->n && rc == ERR_OK; k++)
        rc = place(request, plan, k, 1, NULL, cutting, &more[k], err);
    for (int given = 0; given < plan->micro_batches && rc == ERR_OK; given++) {
        int next = given < out->n ? given : 0;

        for (int k = 0; k < out->n && given >= out->n; k++)
            if (more[k].predicted_step_ms < more[next].predicted_step_ms)
                next = k;
        out->pipelines[next] = more[next];
        out->shares[next]++;
        rc = place(request, plan, next, out->shares[next] + 1, NULL, cutting, &more[next], err);
        if (rc == ERR_NOT_FOUND) { /* so much does not fit */
            more[next].predicted_step_ms = INFINITY;
            rc = ERR_OK;
        }
    }
    for (int k = 0; k < out->n && rc == ERR_OK; k++)
        if (isinf(out->pipelines[k].predicted_step_ms))
            rc = err_set(err, ERR_NOT_FOUND, "the batch does not fit into the replicas' pods");
    free(more);
    if (rc == ERR_OK)
        split_measure_placed(request, out);
    return rc;
}
