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

/* All slots of all edges: on a counting arena first. */
static void lay_out_slots(struct link *link, struct arena *arena)
{
    for (int e = 0; e < link->params.n_edges; e++) {
        struct edge *edge = &link->edges[e];
        size_t meta = edge->params.meta_max_bytes;
        size_t tensor = (size_t)edge->params.tensor_max_bytes;

        for (int i = 0; i < edge->params.n_slots; i++) {
            if (edge->params.is_incoming) {
                edge->received[i].meta = arena_take(arena, meta);
                edge->received[i].tensor = arena_take(arena, tensor);
            } else {
                uint8_t *room =
                    arena_take(arena, CHUNK_HEADROOM_BYTES + FRAME_HEADER_BYTES + meta + tensor);

                edge->queued[i].bytes = room ? room + CHUNK_HEADROOM_BYTES : NULL;
            }
        }
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
    char text[ERR_TEXT_BYTES / 2];
    char cause[ERR_TEXT_BYTES];
    va_list args;

    if (edge->state == EDGE_LOST)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    (void)snprintf(cause, sizeof cause, "%s%s%.*s %s", edge->params.peer_name,
                   edge->host[0] ? " at " : "", LINK_CLOSE_TEXT_MAX, edge->host, text);
    err_set(&edge->why, code, "%s: %s", edge->params.name, cause);
    end_edge(link, edge, cause);
}

void edge_end(struct link *link, struct edge *edge, const char *cause)
{
    if (edge->state == EDGE_LOST)
        return;
    if (cause)
        err_set(&edge->why, ERR_IO, "%s", cause);
    else
        err_set(&edge->why, ERR_IO, "%s: %s has closed the connection", edge->params.name,
                edge->params.peer_name);
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

static enum err_code check_edge(const struct link_params *p, int i, struct err *err)
{
    const struct link_edge *edge = &p->edges[i];

    if (edge->peer == p->worker || edge->meta_max_bytes > LINK_META_MAX ||
        edge->tensor_max_bytes > LINK_TENSOR_MAX || edge->n_slots < 1 ||
        edge->n_slots > LINK_SLOTS_MAX)
        return err_set(err, ERR_INVALID,
                       "%s, %s: the peer, the limits or the slots are out of range", edge->name,
                       edge->peer_name);
    if (p->tls && edge->tls_name[0] == '\0')
        return err_set(err, ERR_INVALID, "%s, %s: no name for the peer's certificate", edge->name,
                       edge->peer_name);
    for (int k = 0; k < i; k++)
        if (p->edges[k].id == edge->id && p->edges[k].peer == edge->peer &&
            p->edges[k].is_incoming == edge->is_incoming)
            return err_set(err, ERR_INVALID, "%s, %s: edge %u is in the list twice", edge->name,
                           edge->peer_name, edge->id);
    return ERR_OK;
}

static enum err_code check_params(const struct link_params *p, struct err *err)
{
    enum err_code rc = ERR_OK;

    if (p->n_edges < 1 || p->n_edges > LINK_EDGES_MAX)
        return err_set(err, ERR_INVALID, "%d edges, not 1..%d", p->n_edges, LINK_EDGES_MAX);
    for (int i = 0; rc == ERR_OK && i < p->n_edges; i++)
        rc = check_edge(p, i, err);
    if (rc != ERR_OK)
        return rc;
    if (!p->listen_address || p->listen_port < 0 || p->listen_port > 65535)
        return err_set(err, ERR_INVALID, "invalid listen port %d", p->listen_port);
    if (p->dial_timeout_ms < 0)
        return err_set(err, ERR_INVALID, "a negative dial timeout");
    if (p->silence_s < 0 || p->silence_s > SILENCE_S_MAX)
        return err_set(err, ERR_INVALID, "silence of %d s is out of range", p->silence_s);
    return ERR_OK;
}

/* What has not been acknowledged never will be. */
static void settle_traffic(const struct edge *edge)
{
    for (uint64_t i = edge->n_released; edge->params.traffic && i < edge->n_sent; i++)
        atomic_fetch_sub(&edge->params.traffic->unacknowledged_bytes,
                         edge->sizes[i % LINK_SLOTS_MAX]);
}

static void free_link(struct link *link)
{
    for (int i = 0; i < link->params.n_edges; i++)
        settle_traffic(&link->edges[i]);
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
    link = calloc(1, sizeof *link + (size_t)params->n_edges * sizeof link->edges[0]);
    if (!link)
        return err_set(err, ERR_NO_MEMORY, "no memory for the link");
    link->params = *params;
    link->params.listen_address = NULL;
    link->params.edges = NULL;
    if (link->params.silence_s == 0)
        link->params.silence_s = SILENCE_S;
    pthread_mutex_init(&link->lock, NULL);
    thread_cond_init(&link->changed);
    for (int i = 0; i < params->n_edges; i++) {
        link->edges[i].params = params->edges[i];
        link->edges[i].state = EDGE_CONNECTING;
        link->edges[i].n_allowed = (uint64_t)params->edges[i].n_slots;
    }
    lay_out_slots(link, &count);
    rc = arena_init(&link->arena, count.used, err);
    if (rc == ERR_OK) {
        lay_out_slots(link, &link->arena);
        rc = link_io_start(link, params->listen_address, err);
        link->params.tls = NULL;
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

enum err_code link_set_peer(struct link *link, uint32_t peer, const char *host, int port,
                            struct err *err)
{
    const char *name = NULL;
    bool is_known = false;
    enum err_code rc = ERR_OK;

    for (int i = 0; i < link->params.n_edges; i++)
        if (link->edges[i].params.peer == peer)
            name = link->edges[i].params.peer_name;
    if (!name)
        return err_set(err, ERR_INVALID, "no edge to or from worker %u", peer);
    if (port < 1 || port > 65535 || host[0] == '\0' || strlen(host) >= LINK_HOST_BYTES)
        return err_set(err, ERR_INVALID, "%s: \"%.*s\" port %d is not an address", name,
                       LINK_HOST_BYTES, host, port);
    pthread_mutex_lock(&link->lock);
    for (int i = 0; i < link->params.n_edges; i++) {
        struct edge *edge = &link->edges[i];

        if (edge->params.peer != peer)
            continue;
        is_known = is_known || edge->host[0];
        if (is_known)
            continue;
        (void)snprintf(edge->host, sizeof edge->host, "%s", host);
        edge->port = port;
        edge->dial_until_ms = clock_now_ms() + link->params.dial_timeout_ms;
    }
    if (is_known)
        rc = err_set(err, ERR_INVALID, "%s: its address is already set", name);
    pthread_mutex_unlock(&link->lock);
    link_io_wake(link);
    return rc;
}

/* The first edge that is not ready; NULL when all are. */
static const struct edge *unready(const struct link *link)
{
    const struct edge *found = NULL;

    for (int i = 0; i < link->params.n_edges; i++) {
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
        rc = err_set(err, ERR_TIMEOUT, "%s, %s: %s", edge->params.name, edge->params.peer_name,
                     edge->why.text[0]          ? edge->why.text
                     : edge->params.is_incoming ? "has not dialed yet"
                     : edge->host[0]            ? "is being dialed"
                                                : "has no known address yet");
    pthread_mutex_unlock(&link->lock);
    return rc;
}

/* --- sending --- */

static enum err_code check_message(const struct link *link, int index,
                                   const struct link_message *msg, struct err *err)
{
    const struct link_edge *edge;

    if (index < 0 || index >= link->params.n_edges)
        return err_set(err, ERR_INVALID, "no such edge to send on");
    edge = &link->edges[index].params;
    if (edge->is_incoming)
        return err_set(err, ERR_INVALID, "%s: cannot send on an incoming edge", edge->name);
    if (msg->type > FRAME_TYPE_MAX || msg->flags > FRAME_FLAGS_MAX ||
        msg->meta_bytes > edge->meta_max_bytes || msg->tensor_bytes > edge->tensor_max_bytes)
        return err_set(err, ERR_INVALID,
                       "%s: a message of %u + %llu bytes, type %u and flags 0x%x is beyond the "
                       "limits",
                       edge->name, msg->meta_bytes, (unsigned long long)msg->tensor_bytes,
                       msg->type, msg->flags);
    return ERR_OK;
}

static void fill(const struct link *link, const struct link_message *msg, struct send_slot *slot)
{
    struct frame_header head = {
        .kind = FRAME_DATA,
        .type = msg->type,
        .flags = msg->flags,
        .plan_hash = link->params.plan_hash,
        .revision = link->params.revision,
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

enum err_code link_send(struct link *link, int index, const struct link_message *msg,
                        int timeout_ms, struct err *err)
{
    struct timespec deadline = thread_deadline(timeout_ms);
    struct send_slot *slot = NULL;
    struct edge *edge;
    enum err_code rc = check_message(link, index, msg, err);
    bool in_time = true;

    if (rc != ERR_OK)
        return rc;
    edge = &link->edges[index];
    pthread_mutex_lock(&link->lock);
    while (edge->state != EDGE_LOST && edge->n_queued == edge->params.n_slots && in_time)
        in_time = wait_change(link, &deadline);
    if (edge->state == EDGE_LOST)
        rc = fail_as(&edge->why, err);
    else if (edge->n_queued == edge->params.n_slots)
        rc = err_set(err, ERR_TIMEOUT, "%s: %s took nothing for %d ms", edge->params.name,
                     edge->params.peer_name, timeout_ms);
    else
        slot = &edge->queued[(edge->queued_head + edge->n_queued) % edge->params.n_slots];
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

enum err_code link_recv(struct link *link, int index, int timeout_ms, struct link_message *out,
                        struct err *err)
{
    struct timespec deadline = thread_deadline(timeout_ms);
    const struct receive_slot *slot;
    struct edge *edge;
    enum err_code rc = ERR_OK;
    bool in_time = timeout_ms > 0;
    int taken = -1;

    if (index < 0 || index >= link->params.n_edges || !link->edges[index].params.is_incoming)
        return err_set(err, ERR_INVALID, "no such edge to receive on");
    edge = &link->edges[index];
    pthread_mutex_lock(&link->lock);
    while (edge->n_ready == 0 && edge->state != EDGE_LOST && in_time)
        in_time = wait_change(link, &deadline);
    if (edge->n_ready > 0) { /* also from an edge that was lost since */
        taken = edge->ready[edge->ready_head];
        edge->ready_head = (edge->ready_head + 1) % edge->params.n_slots;
        edge->n_ready--;
        edge->received[taken].phase = SLOT_HELD;
    } else if (edge->state == EDGE_LOST) {
        rc = fail_as(&edge->why, err);
    } else {
        rc = err_set(err, ERR_TIMEOUT, "%s: nothing from %s for %d ms", edge->params.name,
                     edge->params.peer_name, timeout_ms);
    }
    pthread_mutex_unlock(&link->lock);
    if (taken < 0)
        return rc;
    slot = &edge->received[taken];
    *out = (struct link_message){
        .type = slot->head.type,
        .flags = slot->head.flags,
        .step = slot->head.step,
        .microbatch = slot->head.microbatch,
        .meta_bytes = slot->head.meta_bytes,
        .tensor_bytes = slot->head.tensor_bytes,
        .meta = slot->meta,
        .tensor = slot->tensor,
        .slot = taken,
    };
    return ERR_OK;
}

void link_release(struct link *link, int index, const struct link_message *msg)
{
    struct edge *edge = &link->edges[index];

    pthread_mutex_lock(&link->lock);
    assert(msg->slot >= 0 && msg->slot < edge->params.n_slots &&
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
    for (int i = 0; i < link->params.n_edges; i++) {
        const struct edge *edge = &link->edges[i];

        if (edge->conn && edge->state != EDGE_CONNECTING)
            return false; /* BYE is not answered yet */
        if (!edge->params.is_incoming && edge->state == EDGE_CONNECTING && edge->n_queued > 0)
            return false;
    }
    return true;
}

/* Was everything that was sent delivered? With the lock. */
static enum err_code check_delivered(const struct edge *edge, int timeout_ms, struct err *err)
{
    uint64_t n_open = edge->n_sent + (uint64_t)edge->n_queued;

    if (edge->params.is_incoming || n_open == 0 || edge->delivered)
        return ERR_OK;
    if (edge->state == EDGE_LOST)
        return fail_as(&edge->why, err);
    return err_set(err, ERR_TIMEOUT, "%s: %s has not confirmed all messages in %d ms",
                   edge->params.name, edge->params.peer_name, timeout_ms);
}

/* Does the sender know that everything was? With the lock. */
static enum err_code check_closed(const struct edge *edge, int timeout_ms, struct err *err)
{
    if (!edge->params.is_incoming || !edge->conn || edge->state == EDGE_CONNECTING)
        return ERR_OK;
    return err_set(err, ERR_TIMEOUT, "%s: %s has not closed the connection in %d ms",
                   edge->params.name, edge->params.peer_name, timeout_ms);
}

enum err_code link_finish(struct link *link, int timeout_ms, struct err *err)
{
    struct timespec deadline = thread_deadline(timeout_ms);
    enum err_code rc = ERR_OK;
    bool in_time = true;

    pthread_mutex_lock(&link->lock);
    link->closing = true;
    pthread_mutex_unlock(&link->lock);
    link_io_wake(link);
    pthread_mutex_lock(&link->lock);
    while (!all_finished(link) && in_time)
        in_time = wait_change(link, &deadline);
    for (int i = 0; i < link->params.n_edges && rc == ERR_OK; i++)
        rc = check_delivered(&link->edges[i], timeout_ms, err);
    for (int i = 0; i < link->params.n_edges && rc == ERR_OK; i++)
        rc = check_closed(&link->edges[i], timeout_ms, err);
    pthread_mutex_unlock(&link->lock);
    return rc;
}

enum err_code link_close(struct link *link, int timeout_ms, struct err *err)
{
    enum err_code rc;

    if (!link)
        return ERR_OK;
    rc = link_finish(link, timeout_ms, err);
    link_io_stop(link);
    free_link(link);
    return rc;
}

static bool has_connection(const struct link *link)
{
    for (int i = 0; i < link->params.n_edges; i++)
        if (link->edges[i].conn)
            return true;
    return false;
}

void link_abort(struct link *link, const char *cause)
{
    struct timespec deadline = thread_deadline(ABORT_MS);

    if (!link)
        return;
    pthread_mutex_lock(&link->lock);
    if (link->cause[0] == '\0')
        (void)snprintf(link->cause, sizeof link->cause, "%s", cause);
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
