#include "train/edges.h"

#include <stdio.h>

#include "train/message.h"
#include "train/schedule.h"
#include "train/stage.h"

#define SLOTS 2 /* of messages that are released soon: one is in use while the other is filled */

/* The numbers of the edges, the same on both ends. */
enum { ID_FORWARD, ID_BACKWARD, ID_MOVE, ID_COPY, ID_COPIED }; /* see train/move.c */

_Static_assert(sizeof(struct message_end) >= sizeof(struct message_stop) &&
                   sizeof(struct message_end) >= sizeof(struct message_eval),
               "the largest message that travels backward is the end of a step");

/* A stage uses its input where it was received, up to the backward pass; only bfloat16 is unpacked
 * first. Messages in flight keep their slots, and others must get past them. */
static int slots_of(const struct plan *plan, int stage, enum edge_role role)
{
    const struct schedule schedule = schedule_of(plan, plan->spec.training.batch_size);

    if (role != EDGE_FORWARD_IN || plan->spec.wire == SPEC_WIRE_BF16)
        return SLOTS;
    return SLOTS + schedule_in_flight(&schedule, stage);
}

struct edges edges_of(const struct plan *plan, int stage)
{
    const struct message_limits limits = message_limits_of(&plan->spec, plan->micro_batches);
    const size_t meta_max = message_max_bytes(&limits, model_units(&plan->spec.model));
    struct edges edges = {.n = 0};

    for (enum edge_role role = 0; role < N_EDGE_ROLES; role++) {
        bool is_forward = role == EDGE_FORWARD_IN || role == EDGE_FORWARD_OUT;
        bool is_incoming = role == EDGE_FORWARD_IN || role == EDGE_BACKWARD_IN;
        int peer = is_forward == is_incoming ? stage - 1 : stage + 1;
        struct link_edge edge = {
            .id = is_forward ? ID_FORWARD : ID_BACKWARD,
            .is_incoming = is_incoming,
            .meta_max_bytes = (uint32_t)(is_forward ? meta_max : sizeof(struct message_end)),
            .tensor_max_bytes = stage_edge_floats(plan) * sizeof(float),
            .n_slots = slots_of(plan, stage, role),
        };

        edges.index[role] = -1;
        if (peer < 0 || peer >= plan->n_workers)
            continue;
        edge.peer = (uint32_t)plan->workers[peer].slot;
        edge.peer_incarnation = (uint32_t)plan->workers[peer].incarnation;
        (void)snprintf(edge.name, sizeof edge.name, "%s edge", is_forward ? "forward" : "backward");
        (void)snprintf(edge.peer_name, sizeof edge.peer_name, "stage %d", peer);
        edges.index[role] = edges.n;
        edges.list[edges.n++] = edge;
    }
    return edges;
}

/* Add one of the edges between stage `from` and its keeper; returns its index. */
static int add_copy_edge(struct edges *edges, const struct plan *plan, int from, int peer,
                         bool is_copy, bool is_incoming)
{
    struct link_edge *edge = &edges->list[edges->n];

    *edge = (struct link_edge){.id = is_copy ? ID_COPY : ID_COPIED,
                               .is_incoming = is_incoming,
                               .peer = (uint32_t)plan->workers[peer].slot,
                               .peer_incarnation = (uint32_t)plan->workers[peer].incarnation,
                               .meta_max_bytes = is_copy ? sizeof(struct message_copy)
                                                         : sizeof(struct message_copied),
                               .tensor_max_bytes = is_copy ? EDGES_COPY_PIECE_BYTES : 0,
                               .n_slots = SLOTS};
    (void)snprintf(edge->name, sizeof edge->name, "%s stage %d",
                   is_copy ? "copies of" : "answers to", from);
    (void)snprintf(edge->peer_name, sizeof edge->peer_name, "stage %d", peer);
    return edges->n++;
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
