#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "wire/link_parts.h"

bool edge_is_in(enum link_edge id)
{
    return id == LINK_FORWARD_IN || id == LINK_BACKWARD_IN;
}

const char *edge_name(enum link_edge id)
{
    return id == LINK_FORWARD_IN || id == LINK_FORWARD_OUT ? "forward" : "backward";
}

bool edge_exists(const struct edge *edge)
{
    return edge->n_slots > 0;
}

static int peer_of(enum link_edge id, int stage)
{
    return id == LINK_FORWARD_IN || id == LINK_BACKWARD_OUT ? stage - 1 : stage + 1;
}

static bool has_edge(enum link_edge id, int stage, int n_stages)
{
    int peer = peer_of(id, stage);

    return peer >= 0 && peer < n_stages;
}

/* --- the area --- */

static size_t aligned(size_t n)
{
    return (n + LINK_AREA_ALIGN - 1) / LINK_AREA_ALIGN * LINK_AREA_ALIGN;
}

static size_t receive_slot_bytes(const struct link_limits *limits)
{
    return aligned(limits->meta_max_bytes) + aligned((size_t)limits->tensor_max_bytes);
}

static size_t send_slot_bytes(const struct link_limits *limits)
{
    return aligned(CHUNK_ROOM_BYTES + FRAME_HEADER_BYTES + limits->meta_max_bytes +
                   (size_t)limits->tensor_max_bytes);
}

size_t edges_area_bytes(const struct link_limits *limits, int stage, int n_stages)
{
    size_t n = 0;

    if (n_stages < 2 || stage < 0 || stage >= n_stages || limits->meta_max_bytes > LINK_META_MAX ||
        limits->tensor_max_bytes > LINK_TENSOR_MAX || limits->n_receive_slots < 1 ||
        limits->n_receive_slots > LINK_SLOTS_MAX || limits->n_send_slots < 1 ||
        limits->n_send_slots > LINK_SLOTS_MAX)
        return 0;
    for (enum link_edge id = 0; id < N_LINK_EDGES; id++)
        if (has_edge(id, stage, n_stages))
            n += edge_is_in(id) ? (size_t)limits->n_receive_slots * receive_slot_bytes(limits)
                                : (size_t)limits->n_send_slots * send_slot_bytes(limits);
    return n;
}

static uint8_t *lay_out_receive(struct edge *edge, const struct link_limits *limits, uint8_t *at)
{
    edge->n_slots = limits->n_receive_slots;
    edge->n_allowed = (uint64_t)edge->n_slots;
    for (int i = 0; i < edge->n_slots; i++, at += receive_slot_bytes(limits)) {
        edge->received[i].meta = at;
        edge->received[i].tensor = at + aligned(limits->meta_max_bytes);
    }
    return at;
}

static uint8_t *lay_out_send(struct edge *edge, const struct link_limits *limits, uint8_t *at)
{
    edge->n_slots = limits->n_send_slots;
    for (int i = 0; i < edge->n_slots; i++, at += send_slot_bytes(limits))
        edge->queued[i].bytes = at + CHUNK_ROOM_BYTES;
    return at;
}

void edges_init(struct link *link)
{
    const struct link_params *p = &link->params;
    uint8_t *at = p->area;

    for (enum link_edge id = 0; id < N_LINK_EDGES; id++) {
        struct edge *edge = &link->edges[id];

        edge->id = id;
        edge->peer_stage = peer_of(id, p->stage);
        edge->state = EDGE_UNUSED;
        if (!has_edge(id, p->stage, p->n_stages))
            continue;
        edge->state = EDGE_CONNECTING;
        at = edge_is_in(id) ? lay_out_receive(edge, &p->limits, at)
                            : lay_out_send(edge, &p->limits, at);
    }
    assert(at <= (uint8_t *)p->area + p->area_bytes);
}

/* --- the end --- */

void link_note_cause(struct link *link, const char *cause)
{
    if (link->cause[0] == '\0')
        (void)snprintf(link->cause, sizeof link->cause, "%s", cause);
}

/* The peer's address, which only the edge to it has; "" when it is not known yet. */
static const char *host_of(const struct link *link, const struct edge *edge)
{
    bool is_next = edge->peer_stage > link->params.stage;

    return link->edges[is_next ? LINK_FORWARD_OUT : LINK_BACKWARD_OUT].peer.host;
}

static void end(struct link *link, struct edge *edge)
{
    edge->state = EDGE_LOST;
    pthread_cond_broadcast(&link->changed);
}

void edge_lose(struct link *link, struct edge *edge, enum err_code code, const char *fmt, ...)
{
    const char *host = host_of(link, edge);
    char text[ERR_TEXT_BYTES / 2];
    char cause[ERR_TEXT_BYTES];
    va_list args;

    if (edge->state == EDGE_LOST)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    (void)snprintf(cause, sizeof cause, "stage %d%s%.*s %s", edge->peer_stage,
                   host[0] ? " at " : "", LINK_CLOSE_TEXT_MAX, host, text);
    link_note_cause(link, cause);
    err_set(&edge->why, code, "%s edge: %s", edge_name(edge->id), cause);
    end(link, edge);
}

void edge_end(struct link *link, struct edge *edge)
{
    if (edge->state == EDGE_LOST)
        return;
    err_set(&edge->why, ERR_IO, "%s edge: stage %d has closed the connection", edge_name(edge->id),
            edge->peer_stage);
    end(link, edge);
}

void edge_fail(struct link *link, struct edge *edge, const char *cause)
{
    if (edge->state == EDGE_LOST)
        return;
    link_note_cause(link, cause);
    err_set(&edge->why, ERR_IO, "%s", cause);
    end(link, edge);
}

/* --- IN --- */

int edge_reserve(struct edge *edge)
{
    for (int i = 0; i < edge->n_slots; i++)
        if (edge->received[i].phase == SLOT_FREE) {
            edge->received[i].phase = SLOT_FILLING;
            return i;
        }
    return -1;
}

void edge_unreserve(struct edge *edge, int slot)
{
    edge->received[slot].phase = SLOT_FREE;
}

void edge_push_ready(struct link *link, struct edge *edge, int slot,
                     const struct frame_header *head)
{
    edge->received[slot].phase = SLOT_READY;
    edge->received[slot].head = *head;
    edge->ready[(edge->ready_head + edge->n_ready) % edge->n_slots] = slot;
    edge->n_ready++;
    edge->stats.n_messages++;
    edge->stats.n_bytes += FRAME_HEADER_BYTES + head->meta_bytes + head->tensor_bytes;
    pthread_cond_broadcast(&link->changed);
}

int edge_pop_ready(struct edge *edge)
{
    int slot;

    if (edge->n_ready == 0)
        return -1;
    slot = edge->ready[edge->ready_head];
    edge->ready_head = (edge->ready_head + 1) % edge->n_slots;
    edge->n_ready--;
    edge->received[slot].phase = SLOT_HELD;
    return slot;
}

void edge_release(struct edge *edge, int slot)
{
    assert(slot >= 0 && slot < edge->n_slots && edge->received[slot].phase == SLOT_HELD);
    edge->received[slot].phase = SLOT_FREE;
    edge->n_allowed++;
}

/* --- OUT --- */

struct send_slot *edge_send_slot(struct edge *edge)
{
    if (edge->n_queued == edge->n_slots)
        return NULL;
    return &edge->queued[(edge->queued_head + edge->n_queued) % edge->n_slots];
}

void edge_push_queued(struct edge *edge)
{
    assert(edge->n_queued < edge->n_slots);
    edge->n_queued++;
}

void edge_pop_queued(struct link *link, struct edge *edge)
{
    edge->stats.n_messages++;
    edge->stats.n_bytes += edge->queued[edge->queued_head].n_bytes;
    edge->queued_head = (edge->queued_head + 1) % edge->n_slots;
    edge->n_queued--;
    pthread_cond_broadcast(&link->changed);
}
