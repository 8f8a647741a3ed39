#include "balance/split.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

/* --- the candidates --- */

static double quota(const struct node *n)
{
    return n->cpu_milli > 0 && n->cpu_milli < 1000 ? n->cpu_milli / 1000.0 : 1;
}

static int by_rate(const void *a, const void *b)
{
    const struct split_rate *x = a;
    const struct split_rate *y = b;
    double more = x->speed * y->quota - y->speed * x->quota;

    return more != 0 ? (more > 0 ? -1 : 1) : 0;
}

static struct split_rate rate_of(const struct split_problem *p, int node)
{
    const struct node *n = &p->request->nodes[node];

    return (struct split_rate){n->gflops * 1e6 / p->flops, quota(n)};
}

static int by_speed(const void *a, const void *b, void *problem)
{
    const struct split_problem *p = problem;
    int i = *(const int *)a;
    int k = *(const int *)b;
    double x = p->request->nodes[i].gflops;
    double y = p->request->nodes[k].gflops;

    if (x != y)
        return x > y ? -1 : 1;
    return i < k ? -1 : i > k;
}

/* Candidate i becomes the i-th when sorted by kind. */
static void sort_by_kind(struct split_problem *p)
{
    const struct partition_request *r = p->request;
    int class[PARTITION_CANDIDATES_MAX];
    int node[PARTITION_CANDIDATES_MAX];
    struct kinds kinds;
    int n = 0;

    (void)link_classes(r, p->node, p->n, class);
    node_kinds(r, p->node, p->n, class, &kinds);
    memcpy(node, p->node, sizeof node);
    for (int k = 0; k < kinds.n; k++)
        for (int i = 0; i < p->n; i++) {
            if (kinds.of[i] != k)
                continue;
            p->node[n] = node[i];
            p->kind[n++] = k;
        }
}

static enum err_code find_candidates(struct split_problem *p, const struct cost_unit *units,
                                     struct err *err)
{
    const struct partition_request *r = p->request;
    int64_t least = cost_least_bytes(units, p->n_units);
    int *all = calloc((size_t)r->n_nodes, sizeof *all);
    int n = 0;

    p->rates = calloc((size_t)r->n_nodes, sizeof *p->rates);
    if (!all || !p->rates) {
        free(all);
        return err_set(err, ERR_NO_MEMORY, "planning on %d nodes", r->n_nodes);
    }
    for (int i = 0; i < r->n_nodes; i++)
        if (partition_memory(r, i) >= least)
            all[n++] = i;
    qsort_r(all, (size_t)n, sizeof *all, by_speed, p);
    p->n = n < PARTITION_CANDIDATES_MAX ? n : PARTITION_CANDIDATES_MAX;
    p->has_all = p->n == n;
    for (int i = 0; i < n; i++)
        p->rates[i] = rate_of(p, all[i]);
    p->n_rates = n;
    qsort(p->rates, (size_t)n, sizeof *p->rates, by_rate);
    memcpy(p->node, all, (size_t)p->n * sizeof *all);
    free(all);
    sort_by_kind(p);
    for (int i = 0; i < p->n; i++) {
        struct split_rate rate = rate_of(p, p->node[i]);
        int at = i;

        for (; at > 0; at--) {
            struct split_rate before = rate_of(p, p->node[p->order[at - 1]]);

            if (by_rate(&before, &rate) <= 0)
                break;
            p->order[at] = p->order[at - 1];
        }
        p->order[at] = i;
        p->speed[i] = rate.speed;
    }
    return ERR_OK;
}

/* The embeddings over the fastest link; and all parameters at the speed of all nodes. */
static void find_least(struct split_problem *p)
{
    const struct model *m = &p->request->job.spec->model;
    double embeddings_bytes = (double)model_unit_params(m, 0) * COST_FLOAT_BYTES;
    double params = 0;
    double speed = 0;

    for (int u = 0; u < p->n_units; u++)
        params += (double)model_unit_params(m, u);
    for (int i = 0; i < p->n_rates; i++)
        speed += p->rates[i].speed;
    p->update_least_ms = p->update_flops * params / (speed * p->flops);
    p->embeddings_least_ms = INFINITY;
    for (int a = 0; a < p->request->n_nodes; a++)
        for (int b = 0; b < a; b++) {
            const struct cost_link *link = partition_link(p->request, a, b);

            p->embeddings_least_ms =
                fmin(p->embeddings_least_ms,
                     embeddings_bytes / link->bytes_per_s * 1e3 + link->latency_ms);
        }
}

enum err_code split_problem_init(const struct partition_request *request, struct split_problem *out,
                                 struct err *err)
{
    const struct model *m = &request->job.spec->model;
    struct split_problem p = {.request = request,
                              .n_units = model_units(m),
                              .update_flops = cost_pace(&request->job).update,
                              .plan.spec = *request->job.spec};
    struct cost_job job = cost_job_in_replica(&request->job);
    struct cost_unit units[MODEL_UNITS_MAX];
    enum err_code rc;

    cost_of_units(&job, units);
    for (int u = 0; u < p.n_units; u++)
        p.flops += units[u].flops;
    rc = find_candidates(&p, units, err);
    if (rc != ERR_OK) {
        split_problem_deinit(&p);
        return rc;
    }
    p.nodes = calloc((size_t)p.n + 1, sizeof *p.nodes);
    p.links = request->links ? calloc((size_t)p.n * (size_t)p.n + 1, sizeof *p.links) : NULL;
    p.pipelines = calloc(SPLIT_PIPELINES_MAX, sizeof *p.pipelines);
    if (!p.nodes || !p.pipelines || (request->links && !p.links)) {
        split_problem_deinit(&p);
        return err_set(err, ERR_NO_MEMORY, "planning on %d nodes", request->n_nodes);
    }
    find_least(&p);
    *out = p;
    return ERR_OK;
}

void split_problem_deinit(struct split_problem *p)
{
    for (int i = 0; p->pipelines && i < SPLIT_PIPELINES_MAX; i++)
        free(p->pipelines[i].stages);
    free(p->pipelines);
    free(p->links);
    free(p->nodes);
    free(p->rates);
    *p = (struct split_problem){.request = NULL};
}

double split_speed(const struct split_problem *p, uint64_t nodes)
{
    double speed = 0;

    for (int i = 0; i < p->n; i++)
        if (nodes >> i & 1)
            speed += p->speed[i];
    return speed;
}

struct sums {
    double quotas, speeds;
};

/* The sums over the first nodes of an order for which (quotas + more) / speeds is least. */
struct least {
    struct sums now, best;
};

static double sums_ms(struct sums s, double more)
{
    return s.speeds > 0 ? (s.quotas + more) / s.speeds : INFINITY;
}

static void add_rate(struct least *least, struct split_rate rate, double more)
{
    least->now.quotas += rate.quota;
    least->now.speeds += rate.speed;
    if (sums_ms(least->now, more) < sums_ms(least->best, more))
        least->best = least->now;
}

struct split_line split_pipeline_least(const struct split_problem *p, uint64_t nodes, int share)
{
    struct least least = {.best.speeds = 0};

    for (int i = 0; i < p->n; i++)
        if (nodes >> p->order[i] & 1)
            add_rate(&least, rate_of(p, p->node[p->order[i]]), share - 1);
    return (struct split_line){sums_ms(least.best, 0), 1 / least.best.speeds};
}

double split_slowest_least_ms(const struct split_problem *p, int n)
{
    struct least least = {.best.speeds = 0};
    int more = p->request->job.micro_batches - n;

    for (int i = 0; i < p->n_rates; i++)
        add_rate(&least, p->rates[i], more);
    return sums_ms(least.best, more);
}

/* What gradients take, for each byte of the same weights. */
static double gradients_part(const struct split_problem *p)
{
    const struct spec *spec = p->request->job.spec;
    double bytes = spec->wire == SPEC_WIRE_BF16 ? COST_FLOAT_BYTES / 2 : COST_FLOAT_BYTES;

    if (spec->sync.gradient_percent > 0) /* with a byte for the place of each */
        return spec->sync.gradient_percent / 100.0 * (bytes + 1) / COST_FLOAT_BYTES;
    return bytes / COST_FLOAT_BYTES;
}

double split_exchange_least_ms(const struct split_problem *p, int n)
{
    return (n - 1) * gradients_part(p) * p->embeddings_least_ms + p->update_least_ms;
}

/* --- pipelines --- */

/* The same number of nodes of each kind, the first ones. out_of[i], where given, is the node of
 * `nodes` that the i-th candidate stands for. */
static uint64_t first_alike(const struct split_problem *p, uint64_t nodes, int *out_of)
{
    uint64_t first = 0;
    int next = 0;

    for (int i = 0; i < p->n; i++) {
        if (i == 0 || p->kind[i] != p->kind[i - 1])
            next = i;
        if (!(nodes >> i & 1))
            continue;
        if (out_of)
            out_of[next] = i;
        first |= UINT64_C(1) << next++;
    }
    return first;
}

/* The request of one pipeline. Its nodes are candidates at[0], at[1], ... */
static struct partition_request request_of(struct split_problem *p, uint64_t nodes, int share,
                                           int *at)
{
    const struct partition_request *all = p->request;
    struct partition_request r = *all;
    int n = 0;

    for (int i = 0; i < p->n; i++)
        if (nodes >> i & 1)
            at[n++] = i;
    for (int i = 0; i < n; i++) {
        p->nodes[i] = all->nodes[p->node[at[i]]];
        for (int k = 0; p->links && k < n; k++)
            p->links[i * n + k] = *partition_link(all, p->node[at[i]], p->node[at[k]]);
    }
    p->spec = *all->job.spec;
    p->spec.training.batch_size =
        all->job.spec->training.batch_size / all->job.micro_batches * share;
    r.job = cost_job_in_replica(&all->job);
    r.job.spec = &p->spec;
    r.job.micro_batches = share;
    r.nodes = p->nodes;
    r.n_nodes = n;
    r.links = p->links;
    r.link_class = NULL;
    return r;
}

static enum err_code search_pipeline(struct split_problem *p, struct pipeline *out, struct err *err)
{
    int at[PARTITION_CANDIDATES_MAX];
    struct partition_request r = request_of(p, out->nodes, out->share, at);
    struct placement placement;
    enum err_code rc = partition_cut(&r, &placement, err);

    out->step_ms = out->bound_ms = INFINITY;
    if (rc != ERR_OK)
        return rc == ERR_NOT_FOUND ? ERR_OK : rc;
    out->stages = calloc((size_t)placement.n_stages, sizeof *out->stages);
    if (!out->stages)
        return err_set(err, ERR_NO_MEMORY, "planning on %d nodes", p->n);
    out->step_ms = placement.predicted_step_ms;
    out->bound_ms = placement.bound_ms;
    out->max_ms = placement.max_ms;
    out->n_stages = placement.n_stages;
    memcpy(out->stages, placement.stages, (size_t)placement.n_stages * sizeof *out->stages);
    for (int s = 0; s < out->n_stages; s++)
        out->stages[s].node = at[out->stages[s].node];
    return ERR_OK;
}

enum err_code split_pipeline(struct split_problem *p, uint64_t nodes, int share,
                             const struct pipeline **out, struct err *err)
{
    uint64_t key = first_alike(p, nodes, NULL);
    uint64_t hash = (key * 1031 + (uint64_t)share) * UINT64_C(0x9e3779b97f4a7c15);
    size_t i = hash >> 32 & (SPLIT_PIPELINES_MAX - 1);
    enum err_code rc;

    while (p->pipelines[i].nodes &&
           !(p->pipelines[i].nodes == key && p->pipelines[i].share == share))
        i = (i + 1) & (SPLIT_PIPELINES_MAX - 1);
    if (!p->pipelines[i].nodes) {
        struct pipeline found = {.nodes = key, .share = share};

        if (p->n_calls_left <= 0 || p->n_pipelines >= SPLIT_PIPELINES_MAX - 1)
            return err_set(err, ERR_LIMIT, "planning replicas: no calls of the solver are left");
        rc = search_pipeline(p, &found, err);
        if (rc != ERR_OK)
            return rc;
        p->n_calls_left--;
        p->n_pipelines++;
        p->pipelines[i] = found;
    }
    *out = &p->pipelines[i];
    return ERR_OK;
}

/* --- the step --- */

/* A worker as the exchange sees it. */
struct peer {
    int node; /* index into the request */
    int replica;
    int first_unit, end_unit;
    double drain_ms, fill_ms; /* between it and the first stage of its replica */
    double end_ms;            /* of its last backward pass */
    double out_ms, in_ms;     /* gradients; for weights the other way round */
    double bytes;             /* out and in */
    double busy_ms;           /* d */
    double home_params;
};

struct exchange {
    int n;
    struct peer peers[SPEC_STAGES_MAX];
    int home_of[MODEL_UNITS_MAX];
};

/* The workers, as plan_homes() and the exchange want them, if candidates a and b change places. */
static void list_peers(struct split_problem *p, const struct pipeline *const *pipelines,
                       const struct split *split, int a, int b, struct exchange *out)
{
    const struct spec *spec = p->request->job.spec;
    double forward = spec->training.activations == SPEC_ACTIVATIONS_RECOMPUTE ? 1.0 / 4 : 1.0 / 3;
    int to[PARTITION_CANDIDATES_MAX];

    out->n = 0;
    for (int k = 0; k < split->n; k++) {
        double drain_ms = 0;
        double fill_ms = 0;

        (void)first_alike(p, split->nodes[k], to);
        for (int s = 0; s < pipelines[k]->n_stages; s++) {
            const struct placement_stage *stage = &pipelines[k]->stages[s];
            int at = to[stage->node];
            int node = p->node[at == a ? b : at == b ? a : at];
            double ms = quota(&p->request->nodes[node]) * stage->predicted_ms;

            p->plan.workers[out->n] = (struct plan_worker){.slot = out->n,
                                                           .replica = k,
                                                           .first_unit = stage->first_unit,
                                                           .n_units = stage->n_units};
            out->peers[out->n++] = (struct peer){.node = node,
                                                 .replica = k,
                                                 .first_unit = stage->first_unit,
                                                 .end_unit = stage->first_unit + stage->n_units,
                                                 .drain_ms = drain_ms,
                                                 .fill_ms = fill_ms,
                                                 .end_ms = pipelines[k]->step_ms - drain_ms};
            drain_ms += ms * 2 / 3 + stage->edge_ms;
            fill_ms += ms * forward + stage->edge_ms;
        }
    }
    p->plan.n_workers = out->n;
    p->plan.micro_batches = p->request->job.micro_batches;
    p->plan.n_shares = split->n;
    memcpy(p->plan.shares, split->shares, sizeof split->shares);
}

static void find_homes(struct split_problem *p, struct exchange *x)
{
    struct plan_home homes[SPEC_STAGES_MAX];
    int n = plan_homes(&p->plan, homes);

    for (int i = 0; i < n; i++)
        for (int u = homes[i].first_unit; u < homes[i].first_unit + homes[i].n_units; u++) {
            x->home_of[u] = homes[i].worker;
            x->peers[homes[i].worker].home_params +=
                (double)model_unit_params(&p->plan.spec.model, u);
        }
}

/* Bytes of gradients that worker `from` sends to `home`. */
static double bytes_between(const struct split_problem *p, const struct exchange *x, int from,
                            int home)
{
    const struct peer *guest = &x->peers[from];
    double params = 0;

    if (guest->replica == x->peers[home].replica)
        return 0;
    for (int u = guest->first_unit; u < guest->end_unit; u++)
        if (x->home_of[u] == home)
            params += (double)model_unit_params(&p->plan.spec.model, u);
    return params * COST_FLOAT_BYTES;
}

static double cpu_ms(const struct node *n, double bytes)
{
    static const struct node_message usual = COST_MESSAGE_DEFAULT;
    double byte_ns = n->message.ms > 0 ? n->message.byte_ns : usual.byte_ns;

    return bytes / 2 * byte_ns / 1e6 / quota(n); /* by one thread */
}

static void add_messages(const struct split_problem *p, struct exchange *x)
{
    for (int a = 0; a < x->n; a++)
        for (int b = 0; b < x->n; b++) {
            double bytes = bytes_between(p, x, a, b);
            const struct cost_link *link;
            double ms;

            if (bytes == 0)
                continue;
            link = partition_link(p->request, x->peers[a].node, x->peers[b].node);
            ms = bytes / link->bytes_per_s * 1e3 + link->latency_ms;
            x->peers[a].out_ms += ms;
            x->peers[b].in_ms += ms;
            x->peers[a].bytes += bytes;
            x->peers[b].bytes += bytes;
        }
    for (int i = 0; i < x->n; i++) {
        struct peer *w = &x->peers[i];

        w->busy_ms = fmax(fmax(w->out_ms, w->in_ms), cpu_ms(&p->request->nodes[w->node], w->bytes));
    }
}

/* When the last sum is known, and by how much weights come too late for a stage. */
static void time_messages(const struct split_problem *p, const struct exchange *x,
                          double *out_sums_ms, double *out_late_ms)
{
    *out_sums_ms = 0;
    *out_late_ms = 0;
    for (int a = 0; a < x->n; a++) {
        const struct peer *guest = &x->peers[a];

        for (int b = 0; b < x->n; b++) {
            const struct peer *home = &x->peers[b];
            double busy_ms = fmax(guest->busy_ms, home->busy_ms);

            if (bytes_between(p, x, a, b) == 0)
                continue;
            *out_sums_ms = fmax(*out_sums_ms, guest->end_ms + gradients_part(p) * busy_ms);
            *out_late_ms = fmax(*out_late_ms, busy_ms - guest->fill_ms);
        }
    }
}

/* The order of replicas in a plan depends on nothing that differs between nodes of a kind. */
static bool comes_first(const struct split_problem *p, const struct pipeline *a,
                        const struct pipeline *b)
{
    if (a->share != b->share)
        return a->share > b->share;
    if (a->step_ms != b->step_ms)
        return a->step_ms < b->step_ms;
    for (int s = 0; s < a->n_stages && s < b->n_stages; s++) {
        int x = p->kind[a->stages[s].node];
        int y = p->kind[b->stages[s].node];

        if (x != y)
            return x < y;
        if (a->stages[s].n_units != b->stages[s].n_units)
            return a->stages[s].n_units < b->stages[s].n_units;
    }
    return false;
}

static void swap_replicas(struct split *split, const struct pipeline **pipelines, int a, int b)
{
    const struct pipeline *pipeline = pipelines[a];
    uint64_t nodes = split->nodes[a];
    int share = split->shares[a];

    pipelines[a] = pipelines[b];
    split->nodes[a] = split->nodes[b];
    split->shares[a] = split->shares[b];
    pipelines[b] = pipeline;
    split->nodes[b] = nodes;
    split->shares[b] = share;
}

static void sort_replicas(const struct split_problem *p, struct split *split,
                          const struct pipeline **pipelines)
{
    for (int i = 1; i < split->n; i++)
        for (int k = i; k > 0 && comes_first(p, pipelines[k], pipelines[k - 1]); k--)
            swap_replicas(split, pipelines, k - 1, k);
}

/* A pipeline's time for a part of the batch that all replicas have alike. */
static double ticket_ms(const struct split_problem *p, const struct split *split,
                        const struct pipeline *pipeline)
{
    double ticket = (double)p->request->job.micro_batches / split->n;

    return fmax(pipeline->max_ms,
                pipeline->step_ms + (ticket - pipeline->share) * pipeline->max_ms);
}

/* The optimizer's pass of a stage over all of its parameters. */
static double own_update_ms(const struct split_problem *p, const struct peer *w)
{
    double params = 0;

    for (int u = w->first_unit; u < w->end_unit; u++)
        params += (double)model_unit_params(&p->plan.spec.model, u);
    return p->update_flops * params / (p->request->nodes[w->node].gflops * 1e6);
}

/* The step of replicas that do not wait for each other: see balance/replicas.h. */
static void measure_out_of_step(const struct split_problem *p,
                                const struct pipeline *const *pipelines, const struct split *split,
                                const struct exchange *x, struct replicas_step *step)
{
    double asp_per_ms = 0, local_per_ms = 0, busy_ms = 0;

    for (int k = 0; k < split->n; k++) {
        double ms = ticket_ms(p, split, pipelines[k]);
        double out_ms = 0, update_ms = 0;

        for (int i = 0; i < x->n; i++) {
            if (x->peers[i].replica != k)
                continue;
            out_ms = fmax(out_ms, x->peers[i].out_ms);
            update_ms = fmax(update_ms, own_update_ms(p, &x->peers[i]));
        }
        asp_per_ms += 1 / (ms + (1 + gradients_part(p)) * out_ms + step->update_ms);
        local_per_ms += 1 / (ms + update_ms);
    }
    for (int i = 0; i < x->n; i++)
        busy_ms = fmax(busy_ms, x->peers[i].busy_ms);
    step->asp_ms = fmax(fmax(split->n / asp_per_ms, step->exchange_ms), split->n * step->update_ms);
    step->local_ms = fmax(split->n / local_per_ms,
                          (2 * busy_ms + step->update_ms) / p->plan.spec.sync.local_steps);
}

/* With these homes. */
static struct replicas_step measure_homes(struct split_problem *p,
                                          const struct pipeline *const *pipelines,
                                          const struct split *split, int a, int b,
                                          bool homes_follow_shares)
{
    struct replicas_step step = {.homes_follow_shares = homes_follow_shares};
    struct exchange x;
    double sums_ms;
    double late_ms;

    for (int k = 0; k < split->n; k++)
        step.slowest_ms = fmax(step.slowest_ms, pipelines[k]->step_ms);
    list_peers(p, pipelines, split, a, b, &x);
    p->plan.homes_follow_shares = homes_follow_shares;
    find_homes(p, &x);
    add_messages(p, &x);
    time_messages(p, &x, &sums_ms, &late_ms);
    for (int i = 0; i < x.n; i++) {
        const struct peer *w = &x.peers[i];
        double flops_per_ms = p->request->nodes[w->node].gflops * 1e6;

        step.exchange_ms = fmax(step.exchange_ms, (1 + gradients_part(p)) * w->busy_ms);
        step.update_ms = fmax(step.update_ms, p->update_flops * w->home_params / flops_per_ms);
    }
    step.exposed_ms = fmax(0, sums_ms - step.slowest_ms) + late_ms;
    step.step_ms = step.slowest_ms + step.exposed_ms + step.update_ms;
    measure_out_of_step(p, pipelines, split, &x, &step);
    return step;
}

enum spec_protocol replicas_protocol(const struct replicas_step *step)
{
    double least_ms = fmin(step->asp_ms, step->local_ms);

    if (step->step_ms <= REPLICAS_FREE_TIMES * least_ms)
        return SPEC_PROTOCOL_BSP;
    return step->asp_ms == least_ms ? SPEC_PROTOCOL_ASP : SPEC_PROTOCOL_LOCAL;
}

static enum spec_protocol later_protocol(const struct spec *spec, const struct replicas_step *step)
{
    return spec->sync.protocol == SPEC_PROTOCOL_AUTO ? replicas_protocol(step)
                                                     : spec_later_protocol(spec);
}

double replicas_step_ms(const struct spec *spec, const struct replicas_step *step)
{
    switch (later_protocol(spec, step)) {
    case SPEC_PROTOCOL_ASP:
        return step->asp_ms;
    case SPEC_PROTOCOL_LOCAL:
        return step->local_ms;
    default:
        return step->step_ms;
    }
}

/* With the replicas in this order, if candidates a and b change places and no pipeline gets faster
 * or slower. */
static struct replicas_step measure(struct split_problem *p,
                                    const struct pipeline *const *pipelines,
                                    const struct split *split, int a, int b)
{
    const struct spec *spec = p->request->job.spec;
    struct replicas_step by_shares = measure_homes(p, pipelines, split, a, b, true);
    struct replicas_step evenly;

    if (later_protocol(spec, &by_shares) == SPEC_PROTOCOL_ASP)
        return by_shares;
    evenly = measure_homes(p, pipelines, split, a, b, false);
    if (later_protocol(spec, &evenly) == SPEC_PROTOCOL_ASP)
        return by_shares;
    return replicas_step_ms(spec, &by_shares) < replicas_step_ms(spec, &evenly) ? by_shares
                                                                                : evenly;
}

/* The replica at place `k` goes to the front. */
static void lead_with(int k, struct split *split, const struct pipeline **pipelines)
{
    for (; k > 0; k--)
        swap_replicas(split, pipelines, k - 1, k);
}

enum err_code split_measure(struct split_problem *p, struct split *split, struct replicas_step *out,
                            struct err *err)
{
    const struct pipeline *sorted[PLAN_REPLICAS_MAX];
    struct split best = *split;
    double most_ms = INFINITY; /* with which another lead is better than the fastest replica */

    *out = (struct replicas_step){.step_ms = INFINITY};
    for (int k = 0; k < split->n; k++) {
        enum err_code rc = split_pipeline(p, split->nodes[k], split->shares[k], &sorted[k], err);

        if (rc != ERR_OK)
            return rc;
    }
    for (int k = 0; k < split->n; k++)
        if (isinf(sorted[k]->step_ms))
            return ERR_OK;
    sort_replicas(p, split, sorted);
    for (int k = 0; k < split->n; k++) {
        const struct pipeline *pipelines[PLAN_REPLICAS_MAX];
        struct split with = *split;
        struct replicas_step step;

        memcpy(pipelines, sorted, (size_t)split->n * sizeof(const struct pipeline *));
        lead_with(k, &with, pipelines);
        step = measure(p, pipelines, &with, -1, -1);
        if (k == 0)
            most_ms = step.step_ms * (1 - REPLICAS_LEAD_GAIN);
        if (k == 0 || step.step_ms < fmin(most_ms, out->step_ms * (1 - 1e-9))) {
            best = with;
            *out = step;
        }
    }
    *split = best;
    return ERR_OK;
}

enum err_code split_measure_swap(struct split_problem *p, const struct split *split, int a, int b,
                                 struct replicas_step *out, struct err *err)
{
    const struct pipeline *pipelines[PLAN_REPLICAS_MAX];

    for (int k = 0; k < split->n; k++) {
        enum err_code rc = split_pipeline(p, split->nodes[k], split->shares[k], &pipelines[k], err);

        if (rc != ERR_OK)
            return rc;
    }
    *out = measure(p, pipelines, split, a, b);
    return ERR_OK;
}

void split_measure_placed(const struct partition_request *request, struct replicas *r)
{
    struct split_problem p = {.request = request,
                              .n_units = model_units(&request->job.spec->model),
                              .n = request->n_nodes,
                              .update_flops = cost_pace(&request->job).update,
                              .plan.spec = *request->job.spec};
    struct pipeline pipelines[PLAN_REPLICAS_MAX];
    const struct pipeline *list[PLAN_REPLICAS_MAX];
    struct split split = {.n = r->n};

    for (int i = 0; i < p.n; i++) /* none stands for another one */
        p.node[i] = p.kind[i] = i;
    for (int k = 0; k < r->n; k++) {
        struct placement *from = &r->pipelines[k];

        split.shares[k] = r->shares[k];
        for (int s = 0; s < from->n_stages; s++)
            split.nodes[k] |= UINT64_C(1) << from->stages[s].node;
        pipelines[k] = (struct pipeline){.nodes = split.nodes[k],
                                         .share = r->shares[k],
                                         .step_ms = from->predicted_step_ms,
                                         .max_ms = from->max_ms,
                                         .n_stages = from->n_stages,
                                         .stages = from->stages};
        list[k] = &pipelines[k];
    }
    r->step = measure(&p, list, &split, -1, -1);
}

enum err_code split_place(struct split_problem *p, const struct split *split,
                          struct placement out[static PLAN_REPLICAS_MAX], struct err *err)
{
    for (int k = 0; k < split->n; k++) {
        int to[PARTITION_CANDIDATES_MAX];
        const struct pipeline *from;
        enum err_code rc = split_pipeline(p, split->nodes[k], split->shares[k], &from, err);

        if (rc != ERR_OK)
            return rc;
        (void)first_alike(p, split->nodes[k], to);
        out[k] = (struct placement){.strategy = p->request->job.spec->placement.strategy,
                                    .micro_batches = p->request->job.micro_batches,
                                    .saves_from_copy = p->request->job.saves_from_copy,
                                    .n_stages = from->n_stages,
                                    .predicted_step_ms = from->step_ms,
                                    .bound_ms = from->bound_ms,
                                    .max_ms = from->max_ms,
                                    .even_step_ms = -1,
                                    .dynamic_step_ms = -1};
        for (int s = 0; s < from->n_stages; s++) {
            struct placement_stage *stage = &out[k].stages[s];

            *stage = from->stages[s];
            stage->node = p->node[to[stage->node]];
            if (stage->predicted_ms > out[k].stages[out[k].bottleneck].predicted_ms)
                out[k].bottleneck = s;
        }
    }
    return ERR_OK;
}
