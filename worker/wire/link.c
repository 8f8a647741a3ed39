#include "wire/link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/crc32c.h"
#include "wire/link_parts.h"

#define SILENCE_S     15
#define SILENCE_S_MAX 3600

/* --- waiting: all with the lock --- */

static struct timespec deadline_in(int timeout_ms)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += timeout_ms / 1000;
    t.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

/* False once the deadline has passed. */
static bool wait_change(struct link *link, const struct timespec *deadline)
{
    return pthread_cond_timedwait(&link->changed, &link->lock, deadline) == 0;
}

static enum err_code fail_as(const struct err *why, struct err *err)
{
    return err_set(err, why->code, "%s", why->text);
}

static enum err_code interrupted(struct err *err)
{
    return err_set(err, ERR_GONE, "interrupted");
}

/* --- opening --- */

size_t link_area_bytes(const struct link_limits *limits, int stage, int n_stages)
{
    return edges_area_bytes(limits, stage, n_stages);
}

static enum err_code check_params(const struct link_params *p, struct err *err)
{
    size_t need = edges_area_bytes(&p->limits, p->stage, p->n_stages);

    if (need == 0)
        return err_set(err, ERR_INVALID, "stage %d of %d: the stage or the limits are out of range",
                       p->stage, p->n_stages);
    if (!p->area || (uintptr_t)p->area % LINK_AREA_ALIGN != 0 || p->area_bytes < need)
        return err_set(err, ERR_INVALID, "the area has %zu bytes, %zu are needed", p->area_bytes,
                       need);
    if (!p->listen_address || p->listen_port < 0 || p->listen_port > 65535)
        return err_set(err, ERR_INVALID, "port %d is none to listen on", p->listen_port);
    if (p->dial_timeout_ms < 0)
        return err_set(err, ERR_INVALID, "a negative dial timeout");
    if (p->silence_s < 0 || p->silence_s > SILENCE_S_MAX)
        return err_set(err, ERR_INVALID, "silence of %d s is out of range", p->silence_s);
    return ERR_OK;
}

static void init_waiting(struct link *link)
{
    pthread_condattr_t attr;

    pthread_mutex_init(&link->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&link->changed, &attr);
    pthread_condattr_destroy(&attr);
}

static void free_link(struct link *link)
{
    pthread_cond_destroy(&link->changed);
    pthread_mutex_destroy(&link->lock);
    free(link);
}

enum err_code link_open(const struct link_params *params, struct link **out, struct err *err)
{
    struct link *link;
    enum err_code rc = check_params(params, err);

    if (rc != ERR_OK)
        return rc;
    link = calloc(1, sizeof *link);
    if (!link)
        return err_set(err, ERR_NO_MEMORY, "no memory for the link");
    link->params = *params;
    link->params.listen_address = NULL; /* the caller's, and not needed any more after this */
    if (link->params.silence_s == 0)
        link->params.silence_s = SILENCE_S;
    init_waiting(link);
    edges_init(link);
    rc = link_io_start(link, params->listen_address, err);
    if (rc != ERR_OK) {
        free_link(link);
        return rc;
    }
    *out = link;
    return ERR_OK;
}

int link_port(const struct link *link)
{
    return link_io_port(link);
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
        !memchr(peer->host, '\0', sizeof peer->host))
        return err_set(err, ERR_INVALID, "stage %d: \"%.*s\" port %d is no address",
                       link->edges[id].peer_stage, (int)sizeof peer->host - 1, peer->host,
                       peer->port);
    return ERR_OK;
}

static void set_peer(struct link *link, enum link_edge id, const struct link_peer *peer)
{
    if (!peer)
        return;
    link->edges[id].peer = *peer;
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
        rc = err_set(err, ERR_INVALID, "the peers are known already");
    } else {
        link->peers_known = true;
        set_peer(link, LINK_FORWARD_OUT, next);
        set_peer(link, LINK_BACKWARD_OUT, prev);
    }
    pthread_mutex_unlock(&link->lock);
    link_io_wake(link);
    return rc;
}

static const char *state_of(const struct link *link, const struct edge *edge)
{
    if (edge->why.text[0])
        return edge->why.text;
    if (edge_is_in(edge->id))
        return "has not dialed yet";
    return link->peers_known ? "is being dialed" : "has no known address yet";
}

/* The first edge that is not ready; NULL when all are. */
static const struct edge *unready(const struct link *link)
{
    const struct edge *found = NULL;

    for (int i = 0; i < N_LINK_EDGES; i++) {
        const struct edge *edge = &link->edges[i];

        if (edge->state == EDGE_LOST)
            return edge; /* worth more than one that is only late */
        if (edge->state == EDGE_CONNECTING && !found)
            found = edge;
    }
    return found;
}

enum err_code link_wait_ready(struct link *link, int timeout_ms, struct err *err)
{
    struct timespec deadline = deadline_in(timeout_ms);
    enum err_code rc = ERR_OK;
    const struct edge *edge;
    bool in_time = true;

    pthread_mutex_lock(&link->lock);
    while ((edge = unready(link)) && edge->state != EDGE_LOST && !link->interrupted && in_time)
        in_time = wait_change(link, &deadline);
    if (link->interrupted)
        rc = interrupted(err);
    else if (edge && edge->state == EDGE_LOST)
        rc = fail_as(&edge->why, err);
    else if (edge)
        rc = err_set(err, ERR_TIMEOUT, "%s edge, stage %d: %s", edge_name(edge->id),
                     edge->peer_stage, state_of(link, edge));
    pthread_mutex_unlock(&link->lock);
    return rc;
}

/* --- sending --- */

static enum err_code check_message(const struct link *link, const struct edge *edge,
                                   const struct link_message *msg, struct err *err)
{
    const struct link_limits *limits = &link->params.limits;

    if (!edge_exists(edge))
        return err_set(err, ERR_INVALID, "stage %d has no such edge", link->params.stage);
    if ((unsigned)msg->kind >= N_FRAME_KINDS ||
        !(FRAME_KIND_BIT(msg->kind) & FRAME_KINDS_OF_DATA) ||
        !frame_may_carry(msg->kind, msg->meta_bytes, msg->tensor_bytes))
        return err_set(err, ERR_INVALID, "no message of kind %s with such parts can be sent",
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
        .job_hash = link->params.job_hash,
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

/* Wait for a free send slot. With the lock. */
static enum err_code take_slot(struct link *link, struct edge *edge, int timeout_ms,
                               struct send_slot **out, struct err *err)
{
    struct timespec deadline = deadline_in(timeout_ms);
    int64_t start_ns = clock_now_ns();
    bool in_time = true;

    while (edge->state != EDGE_LOST && !link->interrupted && !(*out = edge_send_slot(edge)) &&
           in_time)
        in_time = wait_change(link, &deadline);
    edge->blocked_ns += (uint64_t)(clock_now_ns() - start_ns);
    if (edge->state == EDGE_LOST)
        return fail_as(&edge->why, err);
    if (link->interrupted)
        return interrupted(err);
    if (!*out)
        return err_set(err, ERR_TIMEOUT, "%s edge: stage %d took nothing for %d ms",
                       edge_name(edge->id), edge->peer_stage, timeout_ms);
    return ERR_OK;
}

enum err_code link_send(struct link *link, enum link_edge id, const struct link_message *msg,
                        int timeout_ms, struct err *err)
{
    struct edge *edge = &link->edges[id];
    struct send_slot *slot = NULL;
    enum err_code rc;

    if (edge_is_in(id))
        return err_set(err, ERR_INVALID, "nothing is sent on an edge that receives");
    rc = check_message(link, edge, msg, err);
    if (rc != ERR_OK)
        return rc;
    pthread_mutex_lock(&link->lock);
    rc = take_slot(link, edge, timeout_ms, &slot, err);
    pthread_mutex_unlock(&link->lock);
    if (rc != ERR_OK)
        return rc;

    fill(link, msg, slot);
    pthread_mutex_lock(&link->lock);
    edge_push_queued(edge);
    pthread_mutex_unlock(&link->lock);
    link_io_wake(link);
    return ERR_OK;
}

/* --- receiving --- */

static void hand_out(const struct edge *edge, int index, struct link_message *out)
{
    const struct receive_slot *slot = &edge->received[index];

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
}

/* Wait for a whole message. With the lock. */
static enum err_code take_message(struct link *link, struct edge *edge, int timeout_ms,
                                  int *out_slot, struct err *err)
{
    struct timespec deadline = deadline_in(timeout_ms);
    int64_t start_ns = clock_now_ns();
    bool in_time = timeout_ms > 0;
    int slot;

    while ((slot = edge_pop_ready(edge)) < 0 && edge->state != EDGE_LOST && !link->interrupted &&
           in_time)
        in_time = wait_change(link, &deadline);
    edge->blocked_ns += (uint64_t)(clock_now_ns() - start_ns);
    *out_slot = slot;
    if (slot >= 0)
        return ERR_OK;
    if (edge->state == EDGE_LOST)
        return fail_as(&edge->why, err);
    if (link->interrupted)
        return interrupted(err);
    return err_set(err, ERR_TIMEOUT, "%s edge: nothing from stage %d for %d ms",
                   edge_name(edge->id), edge->peer_stage, timeout_ms);
}

enum err_code link_recv(struct link *link, enum link_edge id, int timeout_ms,
                        struct link_message *out, struct err *err)
{
    struct edge *edge = &link->edges[id];
    enum err_code rc;
    int slot;

    if (!edge_is_in(id) || !edge_exists(edge))
        return err_set(err, ERR_INVALID, "stage %d has no such edge to receive on",
                       link->params.stage);
    pthread_mutex_lock(&link->lock);
    rc = take_message(link, edge, timeout_ms, &slot, err);
    pthread_mutex_unlock(&link->lock);
    if (rc == ERR_OK)
        hand_out(edge, slot, out);
    return rc;
}

void link_release(struct link *link, enum link_edge id, const struct link_message *msg)
{
    struct edge *edge = &link->edges[id];

    pthread_mutex_lock(&link->lock);
    edge_release(edge, msg->slot);
    pthread_mutex_unlock(&link->lock);
    link_io_wake(link);
}

/* --- stopping --- */

void link_interrupt(struct link *link)
{
    pthread_mutex_lock(&link->lock);
    link->interrupted = true;
    pthread_cond_broadcast(&link->changed);
    pthread_mutex_unlock(&link->lock);
}

void link_stats(struct link *link, struct link_stats *out)
{
    pthread_mutex_lock(&link->lock);
    for (int i = 0; i < N_LINK_EDGES; i++) {
        out->edges[i] = link->edges[i].stats;
        out->edges[i].blocked_ms = link->edges[i].blocked_ns / 1000000;
    }
    out->n_refused = link->n_refused;
    pthread_mutex_unlock(&link->lock);
}

/* Has everything on this edge come to an end? With the lock. */
static bool is_finished(const struct edge *edge)
{
    if (edge->conn && edge->state != EDGE_CONNECTING)
        return false; /* the goodbye is not over */
    return edge_is_in(edge->id) || edge->state != EDGE_CONNECTING || edge->n_queued == 0;
}

static bool all_finished(const struct link *link)
{
    for (int i = 0; i < N_LINK_EDGES; i++)
        if (!is_finished(&link->edges[i]))
            return false;
    return true;
}

/* Did all that was sent arrive? With the lock. */
static enum err_code check_delivered(const struct edge *edge, int timeout_ms, struct err *err)
{
    uint64_t n_open = edge->n_sent + (uint64_t)edge->n_queued;

    if (edge_is_in(edge->id) || n_open == 0 || edge->delivered)
        return ERR_OK;
    if (edge->state == EDGE_LOST)
        return fail_as(&edge->why, err);
    return err_set(err, ERR_TIMEOUT, "%s edge: stage %d has not confirmed all messages in %d ms",
                   edge_name(edge->id), edge->peer_stage, timeout_ms);
}

enum err_code link_close(struct link *link, int timeout_ms, struct err *err)
{
    struct timespec deadline = deadline_in(timeout_ms);
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
    struct timespec deadline = deadline_in(ABORT_MS);
    char cause[ERR_TEXT_BYTES];

    if (!link)
        return;
    pthread_mutex_lock(&link->lock);
    (void)snprintf(cause, sizeof cause, "stage %d failed: %s", link->params.stage, why);
    link_note_cause(link, cause);
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
