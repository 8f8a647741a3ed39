/* Splits of nodes among replicas, held against trying everything: all assignments of nodes to
 * replicas or to none, all shares, all orders and cuts, by formulas written again. */
#include "balance/replicas.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "balance/explain.h"
#include "base/buf.h"
#include "instances.h"
#include "suite.h"

#define NODES 4 /* whose splits can all be tried */
#define M_MAX 6
#define WAYS  4096 /* to cut a pipeline, of a set of nodes */
#define TIES  8

/* --- trying everything --- */

/* A pipeline. */
struct way {
    int n;
    int node[NODES]; /* of the whole instance */
    int first[NODES + 1];
    double ms[NODES]; /* a micro-batch's forward and backward pass, without messages */
    double edge_ms[NODES];
    double step_ms;
    int share;
};

/* All pipelines of a set of nodes with a share of the batch. */
struct ways {
    int n;
    struct way list[WAYS];
    double least_ms;
    int n_ties; /* as short as the shortest */
    int ties[TIES];
};

struct search {
    struct instance *in; /* of the set, which is numbered from 0 */
    int of[NODES];       /* in the whole instance */
    struct cost_unit units[MODEL_UNITS_MAX];
    int n_units;
    struct way now;
    int used[NODES]; /* stage's node in the set */
    struct ways *out;
};

static bool fits(const struct search *s, int stage)
{
    const struct way *w = &s->now;
    int in_flight = w->n - stage < w->share ? w->n - stage : w->share;
    int64_t bytes = COST_PROCESS_BYTES + (stage == 0 ? COST_DATA_BYTES : 0);
    int64_t scratch = 0;

    for (int u = w->first[stage]; u < w->first[stage + 1]; u++) {
        bytes += s->units[u].state_bytes + in_flight * s->units[u].activation_bytes;
        scratch = s->units[u].scratch_bytes > scratch ? s->units[u].scratch_bytes : scratch;
    }
    if (stage > 0)
        bytes += 2 * COST_LINK_SLOTS * s->units[w->first[stage] - 1].slot_bytes;
    if (stage < w->n - 1)
        bytes += 2 * COST_LINK_SLOTS * s->units[w->first[stage + 1] - 1].slot_bytes;
    return bytes + scratch <= s->in->nodes[s->used[stage]].memory_bytes;
}

static void measure_way(struct search *s)
{
    struct way *w = &s->now;
    int m = w->share;
    double sum = 0;
    double more = 0;

    for (int i = 0; i < w->n; i++) {
        double f = instance_fill(s->in, s->used[i]);
        double with;

        if (!fits(s, i))
            return;
        w->ms[i] = w->edge_ms[i] = 0;
        for (int u = w->first[i]; u < w->first[i + 1]; u++)
            w->ms[i] += cost_unit_ms(&s->units[u], &s->in->nodes[s->used[i]]);
        with = w->ms[i] + ((i > 0) + (i < w->n - 1)) * instance_messages_ms(s->in, s->used[i]);
        if (i < w->n - 1)
            w->edge_ms[i] =
                cost_edge_ms(&s->units[w->first[i + 1] - 1],
                             partition_link(&s->in->request, s->used[i], s->used[i + 1]));
        sum += f * with + 2 * w->edge_ms[i];
        more = fmax(more, fmax((m - f) * with, (m - 1) * w->edge_ms[i]));
    }
    w->step_ms = sum + more;
    assert_true(s->out->n < WAYS);
    s->out->list[s->out->n++] = *w;
}

static void cut_from(struct search *s, int stage)
{
    int first = stage == 0 ? 0 : s->now.first[stage - 1] + 1;
    int last = stage == 0 ? 0 : s->n_units - s->now.n + stage;

    if (stage == s->now.n) {
        s->now.first[stage] = s->n_units;
        measure_way(s);
        return;
    }
    for (int u = first; u <= last; u++) {
        s->now.first[stage] = u;
        cut_from(s, stage + 1);
    }
}

static void order_from(struct search *s, int n)
{
    const struct partition_request *r = &s->in->request;

    s->now.n = n;
    if (n >= r->min_stages && n > 0)
        cut_from(s, 0);
    if (n == r->max_stages || n == s->n_units)
        return;
    for (int i = 0; i < r->n_nodes; i++) {
        bool is_used = false;

        for (int k = 0; k < n; k++)
            is_used = is_used || s->used[k] == i;
        if (is_used)
            continue;
        s->used[n] = i;
        s->now.node[n] = s->of[i];
        order_from(s, n + 1);
    }
}

/* The nodes of the set alone, with micro-batches as in the whole step, and without an update. */
static void list_ways(const struct instance *all, unsigned set, int share, struct ways *out)
{
    static struct instance in;
    struct search s = {.in = &in, .out = out, .now.share = share};
    int total = all->request.job.micro_batches;
    int n = 0;

    in = *all;
    for (int i = 0; i < all->request.n_nodes; i++)
        if (set >> i & 1) {
            s.of[n] = i;
            in.nodes[n++] = all->nodes[i];
        }
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++)
            in.links[a * n + b] = *partition_link(&all->request, s.of[a], s.of[b]);
    in.spec.training.batch_size = all->spec.training.batch_size / total * share;
    in.request.job.spec = &in.spec;
    in.request.job.micro_batches = share;
    in.request.job.pace = (struct node_pace){.attention = 1,
                                             .ffn = 1,
                                             .parameter = COST_PARAMETER_FLOPS,
                                             .element = COST_ELEMENT_FLOPS,
                                             .sequence = COST_SEQUENCE_FLOPS};
    in.request.nodes = in.nodes;
    in.request.n_nodes = n;
    in.request.links = in.links;
    s.n_units = model_units(&in.spec.model);
    for (int u = 0; u < s.n_units; u++)
        cost_of_unit(&in.request.job, u, &s.units[u]);
    out->n = out->n_ties = 0;
    out->least_ms = INFINITY;
    order_from(&s, 0);
    for (int i = 0; i < out->n; i++)
        out->least_ms = fmin(out->least_ms, out->list[i].step_ms);
    for (int i = 0; i < out->n; i++)
        if (out->list[i].step_ms <= out->least_ms * (1 + 1e-9) && out->n_ties < TIES)
            out->ties[out->n_ties++] = i;
}

/* A stage among those of all replicas. */
struct place {
    const struct way *way;
    int stage;
    int replica;
    double from_first_ms[2]; /* forward, and back */
    double out_ms, in_ms, bytes;
    double busy_ms;
};

/* The step of these pipelines in this order, written again from replicas.h. */
static double step_with_homes(const struct instance *in, const struct way *const *ways, int n,
                              bool homes_follow_shares)
{
    static struct plan plan;
    const struct model *model = &in->spec.model;
    struct plan_home homes[SPEC_STAGES_MAX];
    struct place places[NODES] = {{.way = NULL}};
    int home_of[MODEL_UNITS_MAX] = {0};
    double update_flops =
        in->request.job.pace.attention > 0 ? in->request.job.pace.update : COST_UPDATE_FLOPS;
    double slowest = 0, sums = 0, late = 0, update = 0;
    int n_homes;

    plan.spec.model = *model;
    plan.n_workers = plan.micro_batches = 0;
    plan.n_shares = n;
    plan.homes_follow_shares = homes_follow_shares;
    for (int k = 0; k < n; k++) {
        double there = 0, back = 0;

        plan.micro_batches += plan.shares[k] = ways[k]->share;

        slowest = fmax(slowest, ways[k]->step_ms);
        for (int s = 0; s < ways[k]->n; s++) {
            const struct node *node = &in->nodes[ways[k]->node[s]];
            double whole = node->cpu_milli < 1000 ? node->cpu_milli / 1000.0 : 1;

            places[plan.n_workers] = (struct place){
                .way = ways[k], .stage = s, .replica = k, .from_first_ms = {there, back}};
            plan.workers[plan.n_workers++] =
                (struct plan_worker){.replica = k,
                                     .first_unit = ways[k]->first[s],
                                     .n_units = ways[k]->first[s + 1] - ways[k]->first[s]};
            there += whole * ways[k]->ms[s] / 3 + ways[k]->edge_ms[s];
            back += whole * ways[k]->ms[s] * 2 / 3 + ways[k]->edge_ms[s];
        }
    }
    n_homes = plan_homes(&plan, homes);
    for (int i = 0; i < n_homes; i++) {
        const struct place *p = &places[homes[i].worker];
        double params = 0;

        for (int u = homes[i].first_unit; u < homes[i].first_unit + homes[i].n_units; u++) {
            home_of[u] = homes[i].worker;
            params += (double)model_unit_params(model, u);
        }
        update =
            fmax(update, update_flops * params / (in->nodes[p->way->node[p->stage]].gflops * 1e6));
    }
    for (int pass = 0; pass < 2; pass++) {
        double sent[NODES][NODES] = {{0}};

        for (int g = 0; g < plan.n_workers; g++)
            for (int u = plan.workers[g].first_unit;
                 u < plan.workers[g].first_unit + plan.workers[g].n_units; u++)
                if (places[g].replica != places[home_of[u]].replica)
                    sent[g][home_of[u]] += 4.0 * (double)model_unit_params(model, u);
        for (int g = 0; g < plan.n_workers; g++)
            for (int h = 0; h < plan.n_workers; h++) {
                struct place *guest = &places[g];
                struct place *home = &places[h];
                const struct cost_link *link = partition_link(
                    &in->request, guest->way->node[guest->stage], home->way->node[home->stage]);
                double ms = sent[g][h] / link->bytes_per_s * 1e3 + link->latency_ms;
                double busy = fmax(guest->busy_ms, home->busy_ms);

                if (sent[g][h] == 0)
                    continue;
                if (pass == 0) {
                    guest->out_ms += ms;
                    home->in_ms += ms;
                    guest->bytes += sent[g][h];
                    home->bytes += sent[g][h];
                } else {
                    sums = fmax(sums, guest->way->step_ms - guest->from_first_ms[1] + busy);
                    late = fmax(late, busy - guest->from_first_ms[0]);
                }
            }
        for (int i = 0; i < plan.n_workers; i++) {
            const struct node *node = &in->nodes[places[i].way->node[places[i].stage]];
            double whole = node->cpu_milli < 1000 ? node->cpu_milli / 1000.0 : 1;
            double byte_ns = node->message.ms > 0 ? node->message.byte_ns : 1;

            places[i].busy_ms = fmax(fmax(places[i].out_ms, places[i].in_ms),
                                     places[i].bytes / 2 * byte_ns * 1e-6 / whole);
        }
    }
    return slowest + fmax(0, sums - slowest) + late + update;
}

static double step_of(const struct instance *in, const struct way *const *ways, int n)
{
    return fmin(step_with_homes(in, ways, n, false), step_with_homes(in, ways, n, true));
}

/* The least and the most that pipelines which are equally good can make of a split. */
struct range {
    double least, most;
};

/* Must `a` follow `b`, wherever `a` does not lead? */
static bool follows(const struct way *a, const struct way *b)
{
    if (a->share != b->share)
        return a->share < b->share;
    return a->step_ms > b->step_ms * (1 + 1e-9);
}

/* Every order that is allowed but for the leader, with the best leader. */
static void try_orders(const struct instance *in, const struct way **ways, int k, int n,
                       struct range *range)
{
    double least_ms = INFINITY;

    for (int i = k; i < n; i++) {
        const struct way *at_k = ways[k];
        bool is_allowed = true;

        ways[k] = ways[i];
        ways[i] = at_k;
        for (int b = k + 1; b < n; b++)
            is_allowed = is_allowed && !follows(ways[k], ways[b]);
        if (is_allowed)
            try_orders(in, ways, k + 1, n, range);
        ways[i] = ways[k];
        ways[k] = at_k;
    }
    for (int lead = 0; k == n && lead < n; lead++) {
        const struct way *with[PLAN_REPLICAS_MAX];

        with[0] = ways[lead];
        for (int i = 0, to = 1; i < n; i++)
            if (i != lead)
                with[to++] = ways[i];
        least_ms = fmin(least_ms, step_of(in, with, n));
    }
    if (k == n) {
        range->least = fmin(range->least, least_ms);
        range->most = fmax(range->most, least_ms);
    }
}

struct everything {
    const struct instance *in;
    int n; /* replicas */
    struct ways *ways[1 << NODES][M_MAX + 1];
    unsigned sets[PLAN_REPLICAS_MAX];
    int shares[PLAN_REPLICAS_MAX];
    bool all_cuts; /* else each pipeline is the shortest of its nodes */
    double least, most;
    int n_tried;
};

static const struct ways *ways_of(struct everything *e, int k)
{
    struct ways **w = &e->ways[e->sets[k]][e->shares[k]];

    if (!*w) {
        *w = malloc(sizeof **w);
        assert_non_null(*w);
        list_ways(e->in, e->sets[k], e->shares[k], *w);
    }
    return *w;
}

static void try_ways(struct everything *e, int k, const struct way **ways, struct range *range)
{
    const struct ways *all = ways_of(e, k);
    int n = e->all_cuts ? all->n : all->n_ties;

    for (int i = 0; i < n; i++) {
        const struct way *sorted[PLAN_REPLICAS_MAX];

        ways[k] = &all->list[e->all_cuts ? i : all->ties[i]];
        if (e->all_cuts && ways[k]->step_ms >= e->least)
            continue;
        if (k + 1 < e->n) {
            try_ways(e, k + 1, ways, range);
            continue;
        }
        memcpy(sorted, ways, (size_t)e->n * sizeof(const struct way *));
        try_orders(e->in, sorted, 0, e->n, range);
    }
}

static void try_shares(struct everything *e, int k, int left)
{
    const struct way *ways[PLAN_REPLICAS_MAX];
    struct range range = {INFINITY, 0};

    if (k == e->n - 1) {
        e->shares[k] = left;
        try_ways(e, 0, ways, &range);
        e->n_tried++;
        if (isinf(range.least))
            return;
        e->least = fmin(e->least, range.least);
        e->most = fmin(e->most, range.most);
        return;
    }
    for (e->shares[k] = 1; e->shares[k] <= left - (e->n - 1 - k); e->shares[k]++)
        try_shares(e, k + 1, left - e->shares[k]);
}

static void try_sets(struct everything *e, int node)
{
    if (node == e->in->request.n_nodes) {
        for (int k = 0; k < e->n; k++)
            if (e->sets[k] == 0)
                return;
        try_shares(e, 0, e->in->request.job.micro_batches);
        return;
    }
    for (int k = 0; k <= e->n; k++) {
        if (k < e->n)
            e->sets[k] |= 1u << node;
        try_sets(e, node + 1);
        if (k < e->n)
            e->sets[k] &= ~(1u << node);
    }
}

static void try_everything(const struct instance *in, int n, bool all_cuts, struct everything *out)
{
    *out = (struct everything){
        .in = in, .n = n, .all_cuts = all_cuts, .least = INFINITY, .most = INFINITY};
    try_sets(out, 0);
    for (int set = 0; set < 1 << NODES; set++)
        for (int m = 0; m <= M_MAX; m++)
            free(out->ways[set][m]);
}

/* --- against it --- */

/* Nodes that are alike in a third, links as they come. */
static void make(struct instance *in, struct dice *d, int i, int n_layers, int n_nodes)
{
    int n_microbatches = roll_int(d, 2, M_MAX);

    make_instance(in, d, n_layers, n_nodes);
    in->spec.training.micro_batches = n_microbatches;
    in->spec.training.batch_size = n_microbatches * roll_int(d, 1, 8);
    in->request.job.micro_batches = n_microbatches;
    in->spec.model.vocab = roll_int(d, 100, 3000);
    in->request.min_stages = 1;
    in->request.max_stages = roll_int(d, 1, 4);
    if (i % 3 == 2)
        for (int k = 1; k < n_nodes; k++)
            in->nodes[k] = in->nodes[k / 2];
    for (int k = 0; k < n_nodes; k++) /* each needs the whole model in memory */
        in->nodes[k].memory_bytes *= 2;
    if (i % 4)
        make_links(in, d, (enum link_style)(i / 4 % LINK_STYLES));
}

static void replicas_are_split_as_trying_everything_finds(void **state)
{
    struct dice dice = {.state = 11};
    int n_found = 0, n_none = 0, n_wide = 0, n_partial = 0, n_slower = 0;
    double n_tried = 0;

    (void)state;
    for (int i = 0; i < 240; i++) {
        static struct instance in;
        static struct replicas got;
        static struct everything want;
        int n = roll_int(&dice, 2, 3);
        int n_used = 0;
        enum err_code rc;

        make(&in, &dice, i, roll_int(&dice, 1, 2), roll_int(&dice, n, NODES));
        try_everything(&in, n, false, &want);
        n_tried += want.n_tried;
        rc = replicas_choose(&in.request, n, &got, NULL);
        assert_int_equal(rc, isinf(want.least) ? ERR_NOT_FOUND : ERR_OK);
        n_none += rc != ERR_OK;
        if (rc != ERR_OK)
            continue;
        assert_true(got.is_exact);
        assert_true(got.step.step_ms >= want.least * (1 - 1e-9));
        assert_true(got.step.step_ms <= want.most / (1 - REPLICAS_LEAD_GAIN) * (1 + 1e-9));
        n_slower += got.step.step_ms > want.most * (1 + 1e-9);
        n_wide += want.most > want.least * (1 + 1e-6);
        for (int k = 0; k < n; k++)
            n_used += got.pipelines[k].n_stages;
        n_partial += n_used < in.request.n_nodes;
        n_found++;
    }
    print_message("%d found, %d do not fit, %.0f splits and shares; %d leave nodes out, %d have "
                  "equally short pipelines\n",
                  n_found, n_none, n_tried, n_partial, n_wide);
    assert_in_range(n_found, 120, 230);
    assert_in_range(n_none, 10, 120);
    assert_in_range(n_partial, 20, 230);
    assert_in_range(n_wide, 0, 24);
    assert_in_range(n_slower, 0, 60); /* with the fastest replica as the lead */
}

/* The cut of each pipeline is the shortest for itself, so the exchange may be longer than with
 * another one. */
static void replicas_lose_little_to_cuts_that_heed_the_exchange(void **state)
{
    struct dice dice = {.state = 12};
    double most = 0, sum = 0;
    int n = 0;

    (void)state;
    for (int i = 0; i < 100; i++) {
        static struct instance in;
        static struct replicas got;
        static struct everything want;
        double ratio;

        make(&in, &dice, i, 1, roll_int(&dice, 2, NODES));
        if (replicas_choose(&in.request, 2, &got, NULL) != ERR_OK)
            continue;
        try_everything(&in, 2, true, &want);
        ratio = got.step.step_ms / want.least;
        assert_true(got.bound_ms <= want.least * (1 + 1e-9));
        assert_true(ratio >= 1 - 1e-9);
        if (got.step.exposed_ms > got.step.slowest_ms / 2)
            continue; /* replicas are of no use */
        most = fmax(most, ratio - 1);
        sum += ratio - 1;
        n++;
    }
    print_message("%d steps are %.2f%% longer on average, %.1f%% at most\n", n, 100 * sum / n,
                  100 * most);
    assert_in_range(n, 20, 100);
    assert_true(sum / n < 0.03);
}

/* And no update, which depends on the cut, too. */
static void replicas_lose_nothing_to_any_cut_without_an_exchange(void **state)
{
    struct dice dice = {.state = 13};
    int n = 0;

    (void)state;
    for (int i = 0; i < 60; i++) {
        static struct instance in;
        static struct replicas got;
        static struct everything want;

        make(&in, &dice, i, 1, roll_int(&dice, 2, NODES));
        in.request.links = NULL;
        in.request.link = (struct cost_link){.bytes_per_s = 1e18};
        in.request.job.pace = (struct node_pace){
            1, 1, COST_PARAMETER_FLOPS, COST_ELEMENT_FLOPS, 0, COST_SEQUENCE_FLOPS};
        for (int k = 0; k < NODES; k++)
            in.nodes[k].message = (struct node_message){.ms = 1e-9};
        if (replicas_choose(&in.request, 2, &got, NULL) != ERR_OK)
            continue;
        try_everything(&in, 2, true, &want);
        assert_true(got.step.exposed_ms < 1e-6);
        assert_true(fabs(got.step.step_ms / want.least - 1) < 1e-8);
        assert_true(fabs(got.bound_ms / want.least - 1) < 1e-8);
        n++;
    }
    assert_in_range(n, 20, 60);
}

/* Of one stage each, the last one four times slower. */
static void replicas_out_of_step_are_as_fast_as_all_speeds_together(void **state)
{
    static struct instance in;
    static struct replicas quick, slow, rare;
    double all;

    (void)state;
    make_buildings(&in, 4, 1e8);
    in.request.links = NULL;
    in.request.link = (struct cost_link){.bytes_per_s = 1e18};
    in.request.min_stages = in.request.max_stages = 1;
    for (int k = 0; k < 4; k++) {
        in.nodes[k].gflops = k < 3 ? 100 : 25;
        in.nodes[k].message = (struct node_message){.ms = 1e-9};
    }
    in.request.job.pace =
        (struct node_pace){1, 1, COST_PARAMETER_FLOPS, COST_ELEMENT_FLOPS, 0, COST_SEQUENCE_FLOPS};
    in.spec.training.batch_size = in.spec.training.micro_batches = in.request.job.micro_batches =
        16;
    in.spec.sync.local_steps = 8;
    assert_int_equal(replicas_choose(&in.request, 4, &quick, NULL), ERR_OK);
    all = 16 * quick.pipelines[0].max_ms / 3.25; /* 16 micro-batches at 3.25 times one's speed */
    assert_true(fabs(quick.step.asp_ms / all - 1) < 1e-6);
    assert_true(fabs(quick.step.local_ms / all - 1) < 1e-6);
    assert_true(quick.step.step_ms > all);
    in.request.link.bytes_per_s = 1e6;
    assert_int_equal(replicas_choose(&in.request, 4, &slow, NULL), ERR_OK);
    assert_true(fabs(slow.step.local_ms - slow.step.exchange_ms / 8) < 1e-6);
    assert_true(slow.step.local_ms > all);
    assert_true(slow.step.asp_ms >= slow.step.exchange_ms);
    in.spec.sync.local_steps = 1000000; /* the exchange is over before the tickets are */
    assert_int_equal(replicas_choose(&in.request, 4, &rare, NULL), ERR_OK);
    assert_true(fabs(rare.step.local_ms / all - 1) < 1e-6);
}

/* All weights travel, and a byte more for each gradient that does. */
static void replicas_exchange_less_when_few_gradients_travel(void **state)
{
    static const struct {
        enum spec_wire wire;
        int percent;
        double part; /* of the bytes of the weights */
    } table[] = {{SPEC_WIRE_FP32, 40, 0.5},
                 {SPEC_WIRE_FP32, 1, 0.0125},
                 {SPEC_WIRE_BF16, 0, 0.5},
                 {SPEC_WIRE_BF16, 40, 0.3}};
    static struct instance in;
    static struct replicas whole, r;

    (void)state;
    make_buildings(&in, 2, 1e6);
    in.request.links = NULL;
    in.request.link = (struct cost_link){.bytes_per_s = 1e6};
    in.request.min_stages = in.request.max_stages = 1;
    assert_int_equal(replicas_choose(&in.request, 2, &whole, NULL), ERR_OK);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        in.spec.wire = table[i].wire;
        in.spec.sync.gradient_percent = table[i].percent;
        assert_int_equal(replicas_choose(&in.request, 2, &r, NULL), ERR_OK);
        assert_true(fabs(r.step.exchange_ms / whole.step.exchange_ms - (1 + table[i].part) / 2) <
                    1e-9);
        assert_true(r.step.step_ms < whole.step.step_ms && r.step.asp_ms < whole.step.asp_ms);
    }
}

/* As long as steps of BSP are not half as long again as others. */
static void replicas_stay_in_step_unless_the_exchange_is_too_slow(void **state)
{
    static struct instance in;
    static struct replicas r;
    static struct plan plan;

    (void)state;
    make_buildings(&in, 4, 1e8);
    in.request.links = NULL;
    in.request.min_stages = in.request.max_stages = 1;
    for (int k = 0; k < 4; k++) {
        in.nodes[k].gflops = 100;
        in.nodes[k].message = (struct node_message){.ms = 1e-9};
    }
    in.spec.training.batch_size = in.spec.training.micro_batches = in.request.job.micro_batches =
        16;
    in.spec.replicas = 4;
    in.spec.sync.local_steps = 100;
    in.spec.sync.protocol = SPEC_PROTOCOL_AUTO;
    in.request.link = (struct cost_link){.bytes_per_s = 1e12};
    assert_int_equal(replicas_choose(&in.request, 4, &r, NULL), ERR_OK);
    assert_int_equal(replicas_protocol(&r.step), SPEC_PROTOCOL_BSP);
    replicas_to_plan(&in.request, &r, &plan);
    assert_int_equal(plan.spec.sync.chosen, SPEC_PROTOCOL_BSP);
    assert_non_null(strstr(plan.summary.explanation, " Protocol: BSP; a step of BSP takes "));
    in.request.link = (struct cost_link){.bytes_per_s = 1e6};
    assert_int_equal(replicas_choose(&in.request, 4, &r, NULL), ERR_OK);
    assert_int_equal(replicas_protocol(&r.step), SPEC_PROTOCOL_LOCAL);
    replicas_to_plan(&in.request, &r, &plan);
    assert_int_equal(plan.spec.sync.chosen, SPEC_PROTOCOL_LOCAL);
    assert_true(replicas_step_ms(&in.spec, &r.step) == r.step.local_ms);
    assert_non_null(strstr(plan.summary.explanation, "BSP for 25% of the steps, then Local; "));
}

/* Over a slow link replicas pay only if they exchange rarely. */
static void replicas_are_as_many_as_pay_with_the_protocol_of_the_job(void **state)
{
    static struct instance in;
    static struct replicas r;
    static struct plan plan;

    (void)state;
    make_buildings(&in, 4, 1e6);
    in.request.links = NULL;
    in.request.link = (struct cost_link){.bytes_per_s = 1e6};
    in.request.min_stages = in.request.max_stages = 1;
    in.spec.training.batch_size = in.spec.training.micro_batches = in.request.job.micro_batches =
        16;
    in.spec.sync.local_steps = 1000000;
    assert_int_equal(replicas_choose(&in.request, REPLICAS_AUTO, &r, NULL), ERR_OK);
    assert_int_equal(r.n, 1);
    in.spec.sync.protocol = SPEC_PROTOCOL_LOCAL;
    assert_int_equal(replicas_choose(&in.request, REPLICAS_AUTO, &r, NULL), ERR_OK);
    assert_int_equal(r.n, 4);
    assert_true(r.bound_ms == 0); /* only BSP has one */
    replicas_to_plan(&in.request, &r, &plan);
    assert_true(plan.summary.predicted_step_ms == r.step.local_ms);
    assert_non_null(strstr(plan.summary.explanation, " In step it would take "));
}

/* --- what always holds --- */

static void assert_sound(const struct instance *in, const struct replicas *r)
{
    bool is_used[INSTANCE_NODES_MAX] = {false};
    int total = 0;

    for (int k = 0; k < r->n; k++) {
        const struct placement *p = &r->pipelines[k];
        int next = 0;

        assert_true(r->shares[k] >= 1);
        total += r->shares[k];
        assert_in_range(p->n_stages, in->request.min_stages, in->request.max_stages);
        for (int s = 0; s < p->n_stages; s++) {
            const struct placement_stage *stage = &p->stages[s];

            assert_int_equal(stage->first_unit, next);
            next += stage->n_units;
            assert_false(is_used[stage->node]);
            is_used[stage->node] = true;
            assert_true(stage->memory_bytes <= in->nodes[stage->node].memory_bytes);
        }
        assert_int_equal(next, model_units(&in->spec.model));
        assert_true(p->predicted_step_ms <= r->step.slowest_ms);
    }
    assert_int_equal(total, r->micro_batches);
    assert_true(r->step.exposed_ms <= r->step.exchange_ms * (1 + 1e-9));
    assert_true(
        fabs(r->step.slowest_ms + r->step.exposed_ms + r->step.update_ms - r->step.step_ms) < 1e-6);
    assert_true(r->bound_ms <= r->step.step_ms);
}

/* BERT-base on nodes of two buildings, up to seven times slower than the fastest. */
static void make_many(struct instance *in, int n_nodes, int n_microbatches)
{
    struct dice dice = {.state = 5};

    make_buildings(in, n_nodes, 1e8);
    for (int i = 0; i < n_nodes; i++)
        in->nodes[i].gflops = roll(&dice, 20, 140);
    in->spec.training.batch_size = 4 * (n_microbatches ? n_microbatches : 64);
    in->spec.training.micro_batches = in->request.job.micro_batches = n_microbatches;
}

static void replicas_of_many_nodes_are_sound_and_quickly_near_the_bound(void **state)
{
    static const struct {
        int n_nodes, n_microbatches, n;
        double most;
    } rows[] = {{8, 8, 2, 1.3},   {12, 40, 2, 1.12}, {16, 40, 2, 1.12}, {16, 40, 3, 1.15},
                {16, 0, 0, 1.15}, {32, 40, 2, 1.25}, {64, 128, 4, 1.45}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        static struct instance in;
        static struct replicas r;
        clock_t begin = clock();
        double seconds;

        make_many(&in, rows[i].n_nodes, rows[i].n_microbatches);
        assert_int_equal(replicas_choose(&in.request, rows[i].n, &r, NULL), ERR_OK);
        seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
        print_message("%d nodes: %d replicas, %.0f ms, %.1f%% above the bound, planned in %.2f s\n",
                      rows[i].n_nodes, r.n, r.step.step_ms, 100 * (r.step.step_ms / r.bound_ms - 1),
                      seconds);
        assert_sound(&in, &r);
        assert_true(r.step.step_ms < r.bound_ms * rows[i].most);
        assert_true(seconds < 30); /* with sanitizers on a busy machine */
    }
}

static void replicas_of_like_nodes_are_all_tried(void **state)
{
    static struct instance in;
    static struct replicas r;

    (void)state;
    make_many(&in, 16, 16);
    in.request.links = NULL;
    for (int i = 0; i < 16; i++)
        in.nodes[i].gflops = i < 8 ? 40 : 80;
    assert_int_equal(replicas_choose(&in.request, 2, &r, NULL), ERR_OK);
    assert_true(r.is_exact);
    assert_sound(&in, &r);
}

static void replicas_get_shares_that_follow_their_speeds(void **state)
{
    static struct instance in;
    static struct replicas r;

    (void)state;
    make_many(&in, 2, 12);
    in.nodes[0].gflops = 30;
    in.nodes[1].gflops = 90;
    assert_int_equal(replicas_choose(&in.request, 2, &r, NULL), ERR_OK);
    for (int k = 0; k < 2; k++)
        assert_int_equal(r.shares[k], r.pipelines[k].stages[0].node == 1 ? 9 : 3);
}

static void replicas_with_one_are_what_partition_chooses(void **state)
{
    struct dice dice = {.state = 14};
    int n = 0;

    (void)state;
    for (int i = 0; i < 60; i++) {
        static struct instance in;
        static struct replicas r;
        struct placement want;
        enum err_code rc;

        make(&in, &dice, i, roll_int(&dice, 1, 4), roll_int(&dice, 1, NODES));
        in.request.job.micro_batches *= i % 2;
        rc = partition_choose(&in.request, &want, NULL);
        assert_int_equal(replicas_choose(&in.request, 1, &r, NULL), rc);
        if (rc != ERR_OK)
            continue;
        assert_int_equal(r.n, 1);
        assert_int_equal(r.shares[0], want.micro_batches);
        assert_true(r.step.step_ms == want.predicted_step_ms);
        assert_true(r.bound_ms == want.bound_ms);
        assert_memory_equal(r.pipelines[0].stages, want.stages,
                            (size_t)want.n_stages * sizeof want.stages[0]);
        n++;
    }
    assert_in_range(n, 30, 60);
}

static void replicas_are_the_fewest_that_are_nearly_as_fast_as_any(void **state)
{
    struct dice dice = {.state = 15};
    int n_several = 0, n_one = 0;

    (void)state;
    for (int i = 0; i < 80; i++) {
        static struct instance in;
        static struct replicas r;
        double least_ms = INFINITY;

        make(&in, &dice, i, roll_int(&dice, 1, 3), roll_int(&dice, 1, NODES));
        if (i % 2) {
            in.request.links = NULL;
            in.request.link.bytes_per_s = 1e10;
        }
        if (replicas_choose(&in.request, REPLICAS_AUTO, &r, NULL) != ERR_OK)
            continue;
        for (int k = 0; k < r.n_alternatives; k++)
            least_ms = fmin(least_ms, r.alternatives[k].step_ms);
        for (int k = 0; k < r.n_alternatives; k++) {
            const struct replicas_alternative *a = &r.alternatives[k];

            if (a->n == r.n)
                assert_true(a->step_ms == r.step.step_ms);
            if (a->n < r.n)
                assert_true(a->step_ms > least_ms * (1 + REPLICAS_GAIN));
        }
        assert_true(r.step.step_ms <= least_ms * (1 + REPLICAS_GAIN));
        n_several += r.n > 1;
        n_one += r.n == 1;
    }
    assert_in_range(n_several, 10, 70);
    assert_in_range(n_one, 10, 70);
}

/* --- what is refused --- */

static struct refusal {
    const char *name;
    int n, n_nodes, n_microbatches;
    enum spec_strategy strategy;
    enum err_code want;
    const char *text;
} refusals[] = {
    {"replicas_below_zero_are_refused", -1, 4, 8, SPEC_STRATEGY_OPTIMAL, ERR_INVALID, "1..8"},
    {"replicas_above_the_limit_are_refused", 9, 16, 16, SPEC_STRATEGY_OPTIMAL, ERR_INVALID, "1..8"},
    {"replicas_of_manual_are_refused", 2, 4, 8, SPEC_STRATEGY_MANUAL, ERR_INVALID, "Manual"},
    {"replicas_need_a_node_each", 5, 4, 8, SPEC_STRATEGY_OPTIMAL, ERR_NOT_FOUND, "4 nodes"},
    {"replicas_need_a_micro_batch_each", 3, 4, 2, SPEC_STRATEGY_OPTIMAL, ERR_NOT_FOUND,
     "2 micro-batches"},
};

static void check_refusal(void **state)
{
    const struct refusal *row = *state;
    static struct instance in;
    struct replicas r = {.n = -1};
    struct err err;

    make_many(&in, row->n_nodes, row->n_microbatches);
    in.spec.placement.strategy = row->strategy;
    assert_int_equal(replicas_choose(&in.request, row->n, &r, &err), row->want);
    assert_non_null(strstr(err.text, row->text));
    assert_int_equal(r.n, -1);
}

/* --- the plan --- */

static void replicas_become_a_plan_that_workers_accept(void **state)
{
    const char *text = "{\"model\": {\"preset\": \"BertBase\"}, "
                       "\"training\": {\"batchSize\": 160}, "
                       "\"data\": {\"source\": {\"sample\": \"MNLI\"}}}";
    static struct instance in;
    static struct replicas r;
    static struct plan plan, back;
    struct buf out = {.max = PLAN_TEXT_MAX_BYTES};
    struct json *spec = NULL;

    (void)state;
    make_many(&in, 12, 40);
    in.nodes[11].gflops = 0.01; /* of no use */
    plan = (struct plan){.namespace = "default", .job = "mnli", .uid = "u", .revision = 3};
    assert_int_equal(replicas_choose(&in.request, 2, &r, NULL), ERR_OK);
    replicas_to_plan(&in.request, &r, &plan);
    assert_int_equal(plan_n_replicas(&plan), 2);
    assert_int_equal(plan.n_workers, r.pipelines[0].n_stages + r.pipelines[1].n_stages);
    assert_int_equal(plan.n_shares, 2);
    assert_int_equal(plan.micro_batches, 40);
    for (int k = 0; k < 2; k++) {
        struct plan_replica replica = plan_replica(&plan, k);

        assert_int_equal(plan.shares[k], r.shares[k]);
        assert_int_equal(replica.n_stages, r.pipelines[k].n_stages);
        for (int s = 0; s < replica.n_stages; s++) {
            const struct plan_worker *w = &plan.workers[replica.first_worker + s];

            assert_string_equal(w->node, in.nodes[r.pipelines[k].stages[s].node].name);
            assert_int_equal(w->slot, replica.first_worker + s);
            assert_int_equal(w->incarnation, 3);
        }
    }
    assert_true(plan.summary.predicted_step_ms == r.step.step_ms);
    assert_in_range(plan.summary.n_excluded, 1, 12);
    assert_int_equal(plan.n_workers + plan.summary.n_excluded, 12);
    assert_int_equal(json_parse(text, strlen(text), &spec, NULL), ERR_OK);
    assert_int_equal(plan_write(&plan, spec, &out, NULL), ERR_OK);
    back = plan;
    assert_int_equal(plan_parse(out.data, out.len, &back, NULL), ERR_OK);
    assert_true(plan_hash(&back) == plan_hash(&plan));
    json_free(spec);
    buf_deinit(&out);
}

static void replicas_of_one_become_the_plan_of_its_placement(void **state)
{
    static struct instance in;
    static struct replicas r;
    static struct plan plan, want;

    (void)state;
    make_many(&in, 4, 8);
    assert_int_equal(replicas_choose(&in.request, 1, &r, NULL), ERR_OK);
    replicas_to_plan(&in.request, &r, &plan);
    placement_to_plan(&in.request, &r.pipelines[0], &want);
    assert_memory_equal(&plan, &want, sizeof plan);
}

static void replicas_explain_shares_exchange_and_one_pipeline(void **state)
{
    static struct instance in;
    static struct replicas r;
    char text[PLAN_REASON_BYTES];

    (void)state;
    make_many(&in, 4, 8);
    assert_int_equal(replicas_choose(&in.request, 2, &r, NULL), ERR_OK);
    replicas_explain(&in.request, &r, text);
    print_message("%s\n", text);
    assert_non_null(strstr(text, "with 2 replicas of "));
    assert_non_null(strstr(text, " of 8 micro-batches of 4 sequences"));
    assert_non_null(strstr(text, " are exposed"));
    assert_non_null(strstr(text, "One pipeline of "));
    assert_non_null(strstr(text, " times as long."));
    assert_int_equal(replicas_choose(&in.request, REPLICAS_AUTO, &r, NULL), ERR_OK);
    replicas_explain(&in.request, &r, text);
    assert_non_null(strstr(text, "3 replicas of "));
}

int main(void)
{
    const struct CMUnitTest own[] = {
        cmocka_unit_test(replicas_are_split_as_trying_everything_finds),
        cmocka_unit_test(replicas_lose_little_to_cuts_that_heed_the_exchange),
        cmocka_unit_test(replicas_lose_nothing_to_any_cut_without_an_exchange),
        cmocka_unit_test(replicas_out_of_step_are_as_fast_as_all_speeds_together),
        cmocka_unit_test(replicas_exchange_less_when_few_gradients_travel),
        cmocka_unit_test(replicas_stay_in_step_unless_the_exchange_is_too_slow),
        cmocka_unit_test(replicas_are_as_many_as_pay_with_the_protocol_of_the_job),
        cmocka_unit_test(replicas_of_many_nodes_are_sound_and_quickly_near_the_bound),
        cmocka_unit_test(replicas_of_like_nodes_are_all_tried),
        cmocka_unit_test(replicas_get_shares_that_follow_their_speeds),
        cmocka_unit_test(replicas_with_one_are_what_partition_chooses),
        cmocka_unit_test(replicas_are_the_fewest_that_are_nearly_as_fast_as_any),
        cmocka_unit_test(replicas_become_a_plan_that_workers_accept),
        cmocka_unit_test(replicas_of_one_become_the_plan_of_its_placement),
        cmocka_unit_test(replicas_explain_shares_exchange_and_one_pipeline),
    };
    struct suite suite = {.n = 0};

    SUITE_TESTS(&suite, own);
    SUITE_ROWS(&suite, refusals, check_refusal);
    return suite_run(&suite, "replicas", NULL, NULL);
}
