#include "train/edges.h"

#include <stdio.h>

#include "api/names.h"
#include "api/schedule.h"
#include "train/message.h"
#include "train/stage.h"

#define SLOTS 2 /* of messages that are released soon: one is in use while the other is filled */
/* Of pieces of units: how many can be on their way at once, which a long link needs. The more
 * replicas, the fewer per peer, so that all together take some 20 MiB. */
#define UNIT_SLOTS_MAX 16
#define UNIT_SLOTS_MIN 3

/* The numbers of the edges, the same on both ends. */
enum {
    ID_FORWARD,
    ID_BACKWARD,
    ID_MOVE, /* see train/move.c */
    ID_COPY,
    ID_COPIED,
    ID_SUMS,
    ID_ENDS,
    ID_GRADS,
    ID_WEIGHTS,
};

_Static_assert(sizeof(struct message_end) >= sizeof(struct message_stop) &&
                   sizeof(struct message_end) >= sizeof(struct message_eval) &&
                   sizeof(struct message_end) >= sizeof(struct message_facts),
               "the largest message that travels backward is the end of a step");
_Static_assert(4 * SPEC_STAGES_MAX + 2 * PLAN_REPLICAS_MAX + 2 * PLAN_KEPT_MAX + 6 <=
                   LINK_EDGES_MAX,
               "a worker may share units with all others");

/* A stage uses its input where it was received, up to the backward pass; only bfloat16 is unpacked
 * first. Messages in flight keep their slots, and others must get past them. */
static int slots_of(const struct plan *plan, int worker, enum edge_role role)
{
    if (role != EDGE_FORWARD_IN || plan->spec.wire == SPEC_WIRE_BF16)
        return SLOTS;
    return SLOTS + schedule_slots(plan, worker);
}

/* Returns its index. */
static int add_edge(struct edges *edges, const struct plan *plan, int peer,
                    const struct link_edge *edge)
{
    struct link_edge *to = &edges->list[edges->n];

    *to = *edge;
    to->peer = (uint32_t)plan->workers[peer].slot;
    to->peer_incarnation = (uint32_t)plan->workers[peer].incarnation;
    (void)snprintf(to->peer_name, sizeof to->peer_name, "stage %d", peer);
    names_worker_dns(plan->uid, plan->workers[peer].slot, plan->workers[peer].incarnation,
                     to->tls_name);
    return edges->n++;
}

static void add_neighbours(struct edges *edges, const struct plan *plan, int worker)
{
    const struct message_limits limits = message_limits_of(&plan->spec, plan->micro_batches);
    const size_t meta_max = message_max_bytes(&limits, model_units(&plan->spec.model));

    for (enum edge_role role = EDGE_FORWARD_IN; role <= EDGE_BACKWARD_OUT; role++) {
        bool is_forward = role == EDGE_FORWARD_IN || role == EDGE_FORWARD_OUT;
        bool is_incoming = role == EDGE_FORWARD_IN || role == EDGE_BACKWARD_IN;
        int peer = is_forward == is_incoming ? worker - 1 : worker + 1;
        struct link_edge edge = {
            .id = is_forward ? ID_FORWARD : ID_BACKWARD,
            .is_incoming = is_incoming,
            .meta_max_bytes = (uint32_t)(is_forward ? meta_max : sizeof(struct message_end)),
            .tensor_max_bytes = stage_edge_floats(plan) * sizeof(float),
            .n_slots = slots_of(plan, worker, role),
        };

        if (peer < 0 || peer >= plan->n_workers ||
            plan->workers[peer].replica != plan->workers[worker].replica)
            continue;
        (void)snprintf(edge.name, sizeof edge.name, "%s edge", is_forward ? "forward" : "backward");
        edges->index[role] = add_edge(edges, plan, peer, &edge);
    }
}

/* The edges between the lead's last stage and that of another replica, `peer`, at either end. */
static void join(struct edges *edges, const struct plan *plan, int peer, enum edge_role sums,
                 enum edge_role ends)
{
    const struct link_edge edge[] = {
        {.id = ID_SUMS,
         .is_incoming = sums != EDGE_SUMS_OUT,
         .meta_max_bytes = (uint32_t)message_sum_bytes(model_units(&plan->spec.model)),
         .n_slots = SLOTS,
         .name = "sums"},
        {.id = ID_ENDS,
         .is_incoming = ends == EDGE_ENDS_IN,
         .meta_max_bytes = sizeof(struct message_end),
         .n_slots = SLOTS,
         .name = "ends"},
    };

    edges->index[sums] = add_edge(edges, plan, peer, &edge[0]);
    edges->index[ends] = add_edge(edges, plan, peer, &edge[1]);
}

static void add_replicas(struct edges *edges, const struct plan *plan, int worker)
{
    int decider = plan_replica(plan, 0).n_stages - 1;

    for (int r = 1, n = plan_n_replicas(plan); r < n; r++) {
        const struct plan_replica replica = plan_replica(plan, r);
        int last = replica.first_worker + replica.n_stages - 1;

        if (worker == decider)
            join(edges, plan, last, (enum edge_role)(EDGE_SUMS_IN + r),
                 (enum edge_role)(EDGE_ENDS_OUT + r));
        if (worker == last)
            join(edges, plan, decider, EDGE_SUMS_OUT, EDGE_ENDS_IN);
    }
}

/* Has the worker a unit of this home? */
static bool shares_units(const struct plan_worker *w, const struct plan_home *home)
{
    return w->first_unit < home->first_unit + home->n_units &&
           home->first_unit < w->first_unit + w->n_units;
}

static int unit_slots(const struct plan *plan)
{
    int n = UNIT_SLOTS_MAX / (plan_n_replicas(plan) - 1);

    return n > UNIT_SLOTS_MIN ? n : UNIT_SLOTS_MIN;
}

static int add_unit_edge(struct edges *edges, const struct plan *plan, int peer, bool is_grads,
                         bool is_incoming)
{
    struct link_edge edge = {.id = is_grads ? ID_GRADS : ID_WEIGHTS,
                             .is_incoming = is_incoming,
                             .meta_max_bytes = is_grads ? sizeof(struct message_push) : 0,
                             .tensor_max_bytes = EDGES_PIECE_FLOATS * sizeof(float),
                             .n_slots = unit_slots(plan)};

    (void)snprintf(edge.name, sizeof edge.name, is_grads ? "gradients" : "weights");
    return add_edge(edges, plan, peer, &edge);
}

static void add_homes(struct edges *edges, const struct plan *plan, int worker)
{
    const struct plan_worker *own = &plan->workers[worker];
    struct plan_home here, there;

    (void)plan_home(plan, worker, &here);
    for (int i = 0; i < plan->n_workers; i++) {
        const struct plan_worker *w = &plan->workers[i];
        struct home_edges home = {i, w->replica, -1, -1, -1, -1};

        if (w->replica == own->replica)
            continue;
        (void)plan_home(plan, i, &there);
        if (shares_units(own, &there)) {
            home.grads_out = add_unit_edge(edges, plan, i, true, false);
            home.weights_in = add_unit_edge(edges, plan, i, false, true);
        }
        if (shares_units(w, &here)) {
            home.grads_in = add_unit_edge(edges, plan, i, true, true);
            home.weights_out = add_unit_edge(edges, plan, i, false, false);
        }
        if (home.grads_out >= 0 || home.grads_in >= 0)
            edges->homes[edges->n_homes++] = home;
    }
}

struct edges edges_of(const struct plan *plan, int worker)
{
    struct edges edges = {.is_lead = plan->workers[worker].replica == 0};

    for (int role = 0; role < N_EDGE_ROLES; role++)
        edges.index[role] = -1;
    add_neighbours(&edges, plan, worker);
    add_replicas(&edges, plan, worker);
    add_homes(&edges, plan, worker);
    return edges;
}

/* --- routes --- */

static int add_role(const struct edges *edges, int role, int n, int list[])
{
    if (edges->index[role] >= 0)
        list[n++] = role;
    return n;
}

struct route edges_route(const struct edges *edges, enum route_kind kind)
{
    bool is_sum = kind == ROUTE_TO_DECIDER || kind == ROUTE_TO_LEADER;
    /* In the lead, the way to the leader and that from the decider lead backward; the other
     * replicas are behind the decider. */
    bool is_forward =
        edges->is_lead ? kind == ROUTE_TO_DECIDER || kind == ROUTE_FROM_LEADER : is_sum;
    struct route r = {.n_in = 0};
    bool is_in_replica = kind == ROUTE_IN_REPLICA || kind == ROUTE_ALONE;
    int n_replicas = is_in_replica ? 1 : PLAN_REPLICAS_MAX;

    r.n_in = add_role(edges, is_forward ? EDGE_FORWARD_IN : EDGE_BACKWARD_IN, 0, r.in);
    r.n_out = add_role(edges, is_forward ? EDGE_FORWARD_OUT : EDGE_BACKWARD_OUT, 0, r.out);
    if (is_sum)
        r.n_out = add_role(edges, EDGE_SUMS_OUT, r.n_out, r.out);
    else if (kind != ROUTE_ALONE)
        r.n_in = add_role(edges, EDGE_ENDS_IN, r.n_in, r.in);
    for (int i = 1; i < n_replicas; i++) {
        if (is_sum)
            r.n_in = add_role(edges, EDGE_SUMS_IN + i, r.n_in, r.in);
        else
            r.n_out = add_role(edges, EDGE_ENDS_OUT + i, r.n_out, r.out);
    }
    return r;
}

/* --- copies of checkpoints --- */

/* Add one of the edges between stage `from` and its keeper; returns its index. */
static int add_copy_edge(struct edges *edges, const struct plan *plan, int from, int peer,
                         bool is_copy, bool is_incoming)
{
    struct link_edge edge = {.id = is_copy ? ID_COPY : ID_COPIED,
                             .is_incoming = is_incoming,
                             .meta_max_bytes = is_copy ? sizeof(struct message_copy)
                                                       : sizeof(struct message_copied),
                             .tensor_max_bytes = is_copy ? EDGES_COPY_PIECE_BYTES : 0,
                             .n_slots = SLOTS};

    (void)snprintf(edge.name, sizeof edge.name, "%s stage %d", is_copy ? "copies of" : "answers to",
                   from);
    return add_edge(edges, plan, peer, &edge);
}

void edges_add_copies(struct edges *edges, const struct plan *plan, int stage)
{
    int keepers[SPEC_STAGES_MAX];

    plan_keepers(plan, keepers);
    edges->has_keeper = keepers[stage] >= 0;
    if (edges->has_keeper)
        edges->keeper = (struct copy_edges){
            .copies = add_copy_edge(edges, plan, stage, keepers[stage], true, false),
            .answers = add_copy_edge(edges, plan, stage, keepers[stage], false, true)};
    for (int s = 0; s < plan->n_workers; s++)
        if (keepers[s] == stage)
            edges->kept[edges->n_kept++] =
                (struct copy_edges){.copies = add_copy_edge(edges, plan, s, s, true, true),
                                    .answers = add_copy_edge(edges, plan, s, s, false, false)};
}
