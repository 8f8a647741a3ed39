#include "wire/link.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/thread.h"
#include "wire/link_parts.h"

#define ABORT_MS      1000 /* from a cause to the end of all connections, without an answer */
#define SILENCE_S     15
#define SILENCE_S_MAX 3600

/* --- the edges of a stage --- */

static bool is_in(enum link_edge id)
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

/* All slots of all edges: on a counting arena first. */
static void lay_out_slots(struct link *link, struct arena *arena)
{
    const struct link_limits *limits = &link->params.limits;
    size_t sent = CHUNK_HEADROOM_BYTES + FRAME_HEADER_BYTES + limits->meta_max_bytes +
                  (size_t)limits->tensor_max_bytes;

    for (enum link_edge id = 0; id < N_LINK_EDGES; id++) {
        struct edge *edge = &link->edges[id];

        for (int i = 0; i < edge->n_slots; i++) {
            if (is_in(id)) {
                edge->received[i].meta = arena_take(arena, limits->meta_max_bytes);
                edge->received[i].tensor = arena_take(arena, (size_t)limits->tensor_max_bytes);
            } else {
                uint8_t *room = arena_take(arena, sent);

                edge->queued[i].bytes = room ? room + CHUNK_HEADROOM_BYTES : NULL;
            }
        }
    }
}

static void init_edges(struct link *link)
{
    const struct link_params *p = &link->params;

    for (enum link_edge id = 0; id < N_LINK_EDGES; id++) {
        struct edge *edge = &link->edges[id];
        bool is_previous = id == LINK_FORWARD_IN || id == LINK_BACKWARD_OUT;

        edge->id = id;
        edge->peer_stage = is_previous ? p->stage - 1 : p->stage + 1;
        if (edge->peer_stage < 0 || edge->peer_stage >= p->n_stages)
            continue;
        edge->state = EDGE_CONNECTING;
        edge->n_slots = is_in(id) ? p->limits.n_receive_slots : p->limits.n_send_slots;
        edge->n_allowed = (uint64_t)edge->n_slots;
    }
}

/* --- the end of an edge --- */

/* `cause` is the link's too, if it is the first; NULL for an edge that ended in order. */
static void end_edge(struct link *link, struct edge *edge, const char *cause)
{
    if (cause && link->cause[0] == '\0')
        (void)snprintf(link->cause, sizeof link->cause, "%s", cause);
    edge->state = EDGE_LOST;
    pthread_cond_broadcast(&link->changed);
}

void edge_lose(struct link *link, struct edge *edge, enum err_code code, const char *fmt, ...)
{
    /* Only the OUT edge to a peer has its address; "" while that is not known. */
    bool is_next = edge->peer_stage > link->params.stage;
    const char *host = link->edges[is_next ? LINK_FORWARD_OUT : LINK_BACKWARD_OUT].host;
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
    err_set(&edge->why, code, "%s edge: %s", edge_name(edge->id), cause);
    end_edge(link, edge, cause);
}

void edge_end(struct link *link, struct edge *edge, const char *cause)
{
    if (edge->state == EDGE_LOST)
        return;
    if (cause)
        err_set(&edge->why, ERR_IO, "%s", cause);
    else
        err_set(&edge->why, ERR_IO, "%s edge: stage %d has closed the connection",
                edge_name(edge->id), edge->peer_stage);
    end_edge(link, edge, cause);
}

/* --- opening --- */

/* Wait with the lock held. False once the deadline has passed. */
static bool wait_change(struct link *link, const struct timespec *deadline)
{
    return pthread_cond_timedwait(&link->changed, &link->lock, deadline) == 0;
}

static enum err_code fail_as(const struct err *why, struct err *err)
{
    return err_set(err, why->code, "%s", why->text);
}

static enum err_code check_params(const struct link_params *p, struct err *err)
{
    const struct link_limits *l = &p->limits;

    if (p->n_stages < 2 || p->stage < 0 || p->stage >= p->n_stages ||
        l->meta_max_bytes > LINK_META_MAX || l->tensor_max_bytes > LINK_TENSOR_MAX ||
        l->n_receive_slots < 1 || l->n_receive_slots > LINK_SLOTS_MAX || l->n_send_slots < 1 ||
        l->n_send_slots > LINK_SLOTS_MAX)
        return err_set(err, ERR_INVALID, "stage %d of %d: the stage or the limits are out of range",
                       p->stage, p->n_stages);
    if (!p->listen_address || p->listen_port < 0 || p->listen_port > 65535)
        return err_set(err, ERR_INVALID, "invalid listen port %d", p->listen_port);
    if (p->dial_timeout_ms < 0)
        return err_set(err, ERR_INVALID, "a negative dial timeout");
    if (p->silence_s < 0 || p->silence_s > SILENCE_S_MAX)
        return err_set(err, ERR_INVALID, "silence of %d s is out of range", p->silence_s);
    return ERR_OK;
}

static void free_link(struct link *link)
{
    pthread_cond_destroy(&link->changed);
    pthread_mutex_destroy(&link->lock);
    arena_deinit(&link->arena);
    free(link);
}

enum err_code link_open(const struct link_params *params, struct link **out, struct err *err)
{
    struct arena count = {0};
    struct link *link;
    enum err_code rc = check_params(params, err);

    if (rc != ERR_OK)
        return rc;
    link = calloc(1, sizeof *link);
    if (!link)
        return err_set(err, ERR_NO_MEMORY, "no memory for the link");
    link->params = *params;
    link->params.listen_address = NULL; /* the caller's, and not needed after this */
    if (link->params.silence_s == 0)
        link->params.silence_s = SILENCE_S;
    pthread_mutex_init(&link->lock, NULL);
    thread_cond_init(&link->changed);
    init_edges(link);
    lay_out_slots(link, &count);
    rc = arena_init(&link->arena, count.used, err);
    if (rc == ERR_OK) {
        lay_out_slots(link, &link->arena);
        rc = link_io_start(link, params->listen_address, err);
    } else {
        rc = err_wrap(err, rc, "message slots");
    }
    if (rc != ERR_OK) {
        free_link(link);
        return rc;
    }
    *out = link;
    return ERR_OK;
}

int link_port(const struct link *link)
{
    return link->port;
}

static enum err_code check_peer(const struct link *link, enum link_edge id,
                                const struct link_peer *peer, struct err *err)
{
    bool exists = edge_exists(&link->edges[id]);

    if (!peer && exists)
        return err_set(err, ERR_INVALID, "no address for stage %d", link->edges[id].peer_stage);
    if (!peer)
        return ERR_OK;
    if (!exists)
        return err_set(err, ERR_INVALID, "stage %d has no neighbour stage %d", link->params.stage,
                       link->edges[id].peer_stage);
    if (peer->port < 1 || peer->port > 65535 || peer->host[0] == '\0' ||
        strlen(peer->host) >= LINK_HOST_BYTES)
        return err_set(err, ERR_INVALID, "stage %d: \"%.*s\" port %d is not an address",
                       link->edges[id].peer_stage, LINK_HOST_BYTES, peer->host, peer->port);
    return ERR_OK;
}

static void set_peer(struct link *link, enum link_edge id, const struct link_peer *peer)
{
    if (!peer)
        return;
    (void)snprintf(link->edges[id].host, sizeof link->edges[id].host, "%s", peer->host);
    link->edges[id].port = peer->port;
    link->edges[id].dial_until_ms = clock_now_ms() + link->params.dial_timeout_ms;
}

enum err_code link_set_peers(struct link *link, const struct link_peer *next,
                             const struct link_peer *prev, struct err *err)
{
    enum err_code rc = check_peer(link, LINK_FORWARD_OUT, next, err);

    if (rc == ERR_OK)
        rc = check_peer(link, LINK_BACKWARD_OUT, prev, err);
    if (rc != ERR_OK)
        return rc;
    pthread_mutex_lock(&link->lock);
    if (link->peers_known) {
        rc = err_set(err, ERR_INVALID, "the peers are already set");
    } else {
        link->peers_known = true;
        set_peer(link, LINK_FORWARD_OUT, next);
        set_peer(link, LINK_BACKWARD_OUT, prev);
    }
    pthread_mutex_unlock(&link->lock);
    link_io_wake(link);
    return rc;
}

/* The first edge that is not ready; NULL when all are. */
static const struct edge *unready(const struct link *link)
{
    const struct edge *found = NULL;

    for (int i = 0; i < N_LINK_EDGES; i++) {
        const struct edge *edge = &link->edges[i];

        if (edge->state == EDGE_LOST)
            return edge; /* matters more than one that is only late */
        if (edge->state == EDGE_CONNECTING && !found)
            found = edge;
    }
    return found;
}

enum err_code link_wait_ready(struct link *link, int timeout_ms, struct err *err)
{
    struct timespec deadline = thread_deadline(timeout_ms);
    enum err_code rc = ERR_OK;
    const struct edge *edge;
    bool in_time = true;

    pthread_mutex_lock(&link->lock);
    while ((edge = unready(link)) && edge->state != EDGE_LOST && in_time)
        in_time = wait_change(link, &deadline);
    if (edge && edge->state == EDGE_LOST)
        rc = fail_as(&edge->why, err);
    else if (edge)
        rc = err_set(err, ERR_TIMEOUT, "%s edge, stage %d: %s", edge_name(edge->id),
                     edge->peer_stage,
                     edge->why.text[0]   ? edge->why.text
                     : is_in(edge->id)   ? "has not dialed yet"
                     : link->peers_known ? "is being dialed"
                                         : "has no known address yet");
    pthread_mutex_unlock(&link->lock);
    return rc;
}

/* --- sending --- */

static enum err_code check_message(const struct link *link, const struct edge *edge,
                                   const struct link_message *msg, struct err *err)
{
    const struct link_limits *limits = &link->params.limits;

    if (is_in(edge->id))
        return err_set(err, ERR_INVALID, "cannot send on an incoming edge");
    if (!edge_exists(edge))
        return err_set(err, ERR_INVALID, "stage %d has no such edge", link->params.stage);
    if ((unsigned)msg->kind >= N_FRAME_KINDS ||
        !(FRAME_KIND_BIT(msg->kind) & FRAME_KINDS_OF_DATA) ||
        !frame_may_carry(msg->kind, msg->meta_bytes, msg->tensor_bytes))
        return err_set(err, ERR_INVALID, "a %s message cannot have these parts",
                       frame_kind_name(msg->kind));
    if ((msg->flags & ~FRAME_FLAGS_ALL) != 0 || msg->meta_bytes > limits->meta_max_bytes ||
        msg->tensor_bytes > limits->tensor_max_bytes)
        return err_set(err, ERR_INVALID,
                       "a %s message of %u + %llu bytes and flags 0x%x is beyond the limits",
                       frame_kind_name(msg->kind), msg->meta_bytes,
                       (unsigned long long)msg->tensor_bytes, msg->flags);
    return ERR_OK;
}

static void fill(const struct link *link, const struct link_message *msg, struct send_slot *slot)
{
    struct frame_header head = {
        .kind = msg->kind,
        .flags = msg->flags,
        .plan_hash = link->params.plan_hash,
        .attempt = link->params.attempt,
        .step = msg->step,
        .microbatch = msg->microbatch,
        .meta_bytes = msg->meta_bytes,
        .tensor_bytes = msg->tensor_bytes,
    };
    uint8_t *meta = slot->bytes + FRAME_HEADER_BYTES, *tensor = meta + msg->meta_bytes;

    if (msg->meta_bytes > 0)
        memcpy(meta, msg->meta, msg->meta_bytes);
    if (msg->tensor_bytes > 0)
        memcpy(tensor, msg->tensor, (size_t)msg->tensor_bytes);
    head.payload_crc = crc32c(0, meta, msg->meta_bytes + (size_t)msg->tensor_bytes);
    frame_encode(&head, slot->bytes);
    slot->n_bytes = FRAME_HEADER_BYTES + msg->meta_bytes + msg->tensor_bytes;
}

enum err_code link_send(struct link *link, enum link_edge id, const struct link_message *msg,
                        int timeout_ms, struct err *err)
{
    struct edge *edge = &link->edges[id];
    struct timespec deadline = thread_deadline(timeout_ms);
    struct send_slot *slot = NULL;
    enum err_code rc = check_message(link, edge, msg, err);
    bool in_time = true;

    if (rc != ERR_OK)
        return rc;
    pthread_mutex_lock(&link->lock);
    while (edge->state != EDGE_LOST && edge->n_queued == edge->n_slots && in_time)
        in_time = wait_change(link, &deadline);
    if (edge->state == EDGE_LOST)
        rc = fail_as(&edge->why, err);
    else if (edge->n_queued == edge->n_slots)
        rc = err_set(err, ERR_TIMEOUT, "%s edge: stage %d took nothing for %d ms",
                     edge_name(edge->id), edge->peer_stage, timeout_ms);
    else
        slot = &edge->queued[(edge->queued_head + edge->n_queued) % edge->n_slots];
    pthread_mutex_unlock(&link->lock);
    if (!slot)
        return rc;

    fill(link, msg, slot); /* the slot behind the last queued one is the caller's: no lock */
    pthread_mutex_lock(&link->lock);
    edge->n_queued++;
    pthread_mutex_unlock(&link->lock);
    link_io_wake(link);
    return ERR_OK;
}

/* --- receiving --- */

enum err_code link_recv(struct link *link, enum link_edge id, int timeout_ms,
                        struct link_message *out, struct err *err)
{
    struct edge *edge = &link->edges[id];
    struct timespec deadline = thread_deadline(timeout_ms);
    const struct receive_slot *slot;
    enum err_code rc = ERR_OK;
    bool in_time = timeout_ms > 0;
    int index = -1;

    if (!is_in(id) || !edge_exists(edge))
        return err_set(err, ERR_INVALID, "stage %d has no such edge to receive on",
                       link->params.stage);
    pthread_mutex_lock(&link->lock);
    while (edge->n_ready == 0 && edge->state != EDGE_LOST && in_time)
        in_time = wait_change(link, &deadline);
    if (edge->n_ready > 0) { /* also from an edge that was lost since */
        index = edge->ready[edge->ready_head];
        edge->ready_head = (edge->ready_head + 1) % edge->n_slots;
        edge->n_ready--;
        edge->received[index].phase = SLOT_HELD;
    } else if (edge->state == EDGE_LOST) {
        rc = fail_as(&edge->why, err);
    } else {
        rc = err_set(err, ERR_TIMEOUT, "%s edge: nothing from stage %d for %d ms",
                     edge_name(edge->id), edge->peer_stage, timeout_ms);
    }
    pthread_mutex_unlock(&link->lock);
    if (index < 0)
        return rc;
    slot = &edge->received[index];
    *out = (struct link_message){
        .kind = slot->head.kind,
        .flags = slot->head.flags,
        .step = slot->head.step,
        .microbatch = slot->head.microbatch,
        .meta_bytes = slot->head.meta_bytes,
        .tensor_bytes = slot->head.tensor_bytes,
        .meta = slot->meta,
        .tensor = slot->tensor,
        .slot = index,
    };
    return ERR_OK;
}

void link_release(struct link *link, enum link_edge id, const struct link_message *msg)
{
    struct edge *edge = &link->edges[id];

    pthread_mutex_lock(&link->lock);
    assert(msg->slot >= 0 && msg->slot < edge->n_slots &&
           edge->received[msg->slot].phase == SLOT_HELD);
    edge->received[msg->slot].phase = SLOT_FREE;
    edge->n_allowed++;
    pthread_mutex_unlock(&link->lock);
    link_io_wake(link);
}

uint64_t link_refused(struct link *link)
{
    uint64_t n;

    pthread_mutex_lock(&link->lock);
    n = link->n_refused;
    pthread_mutex_unlock(&link->lock);
    return n;
}

/* --- closing --- */

/* Has every edge come to an end? With the lock. */
static bool all_finished(const struct link *link)
{
    for (int i = 0; i < N_LINK_EDGES; i++) {
        const struct edge *edge = &link->edges[i];

        if (edge->conn && edge->state != EDGE_CONNECTING)
            return false; /* BYE is not answered yet */
        if (!is_in(edge->id) && edge->state == EDGE_CONNECTING && edge->n_queued > 0)
            return false;
    }
    return true;
}

/* Was everything that was sent delivered? With the lock. */
static enum err_code check_delivered(const struct edge *edge, int timeout_ms, struct err *err)
{
    uint64_t n_open = edge->n_sent + (uint64_t)edge->n_queued;

    if (is_in(edge->id) || n_open == 0 || edge->delivered)
        return ERR_OK;
    if (edge->state == EDGE_LOST)
        return fail_as(&edge->why, err);
    return err_set(err, ERR_TIMEOUT, "%s edge: stage %d has not confirmed all messages in %d ms",
                   edge_name(edge->id), edge->peer_stage, timeout_ms);
}

enum err_code link_close(struct link *link, int timeout_ms, struct err *err)
{
    struct timespec deadline = thread_deadline(timeout_ms);
    enum err_code rc = ERR_OK;
    bool in_time = true;

    if (!link)
        return ERR_OK;
    pthread_mutex_lock(&link->lock);
    link->closing = true;
    pthread_mutex_unlock(&link->lock);
    link_io_wake(link);
    pthread_mutex_lock(&link->lock);
    while (!all_finished(link) && in_time)
        in_time = wait_change(link, &deadline);
    for (int i = 0; i < N_LINK_EDGES && rc == ERR_OK; i++)
        rc = check_delivered(&link->edges[i], timeout_ms, err);
    pthread_mutex_unlock(&link->lock);
    link_io_stop(link);
    free_link(link);
    return rc;
}

static bool has_connection(const struct link *link)
{
    for (int i = 0; i < N_LINK_EDGES; i++)
        if (link->edges[i].conn)
            return true;
    return false;
}

void link_abort(struct link *link, const char *why)
{
    struct timespec deadline = thread_deadline(ABORT_MS);

    if (!link)
        return;
    pthread_mutex_lock(&link->lock);
    if (link->cause[0] == '\0')
        (void)snprintf(link->cause, sizeof link->cause, "stage %d failed: %s", link->params.stage,
                       why);
    link->closing = true;
    link->aborting = true;
    pthread_mutex_unlock(&link->lock);
    link_io_wake(link);
    pthread_mutex_lock(&link->lock);
    while (has_connection(link) && wait_change(link, &deadline))
        ;
    pthread_mutex_unlock(&link->lock);
    link_io_stop(link);
    free_link(link);
}
