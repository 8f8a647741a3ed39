#include <assert.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "wire/link_parts.h"

#define NOT_AUTHENTICATED "not authenticated"

static_assert(offsetof(struct conn, control) ==
                  offsetof(struct conn, control_headroom) + CHUNK_HEADROOM_BYTES,
              "the room lies directly in front of the control frames");

void conn_set_why(struct conn *c, const char *fmt, ...)
{
    va_list args;

    if (c->why[0] != '\0')
        return;
    va_start(args, fmt);
    vsnprintf(c->why, sizeof c->why, fmt, args);
    va_end(args);
}

const char *conn_public_why(const struct conn *c)
{
    return c->is_authenticated ? c->why : NOT_AUTHENTICATED;
}

void conn_init(struct conn *c, struct link *link, struct edge *edge, int64_t now_ms)
{
    *c = (struct conn){.state = CONN_OPENING,
                       .link = link,
                       .edge = edge,
                       .dialed = edge != NULL,
                       .since_ms = now_ms,
                       .slot = -1};
    c->deadline_ms = now_ms + (c->dialed ? DIAL_ATTEMPT_MS : GREETING_MS);
    if (!edge)
        return;
    pthread_mutex_lock(&link->lock);
    edge->conn = c;
    if (c->deadline_ms > edge->dial_until_ms) /* the last attempt */
        c->deadline_ms = edge->dial_until_ms > now_ms + DIAL_LAST_MS ? edge->dial_until_ms
                                                                     : now_ms + DIAL_LAST_MS;
    pthread_mutex_unlock(&link->lock);
}

void conn_established(struct conn *c, const uint8_t nonce[static HELLO_NONCE_BYTES])
{
    memcpy(c->nonce, nonce, sizeof c->nonce);
    c->state = CONN_GREETING;
}

static void open_edge(struct conn *c)
{
    c->state = CONN_OPEN;
    c->deadline_ms = 0;
    c->edge->state = EDGE_READY;
    pthread_cond_broadcast(&c->link->changed);
}

/* --- receiving --- */

static struct frame_limits expected(const struct conn *c)
{
    const struct link_limits *limits = &c->link->params.limits;

    if (c->dialed && c->hello_received)
        return (struct frame_limits){.kinds =
                                         FRAME_KIND_BIT(FRAME_CREDIT) | FRAME_KIND_BIT(FRAME_BYE)};
    if (c->dialed && !c->challenge_received)
        return (struct frame_limits){.kinds = FRAME_KIND_BIT(FRAME_CHALLENGE),
                                     .meta_max_bytes = HELLO_NONCE_BYTES};
    if (c->state == CONN_GREETING)
        return (struct frame_limits){.kinds = FRAME_KIND_BIT(FRAME_HELLO),
                                     .meta_max_bytes = HELLO_BYTES};
    if (c->bye_received)
        return (struct frame_limits){0};
    return (struct frame_limits){.kinds = FRAME_KINDS_OF_DATA | FRAME_KIND_BIT(FRAME_BYE),
                                 .meta_max_bytes = limits->meta_max_bytes,
                                 .tensor_max_bytes = limits->tensor_max_bytes};
}

static enum err_code check_identity(const struct conn *c, const struct frame_header *head,
                                    struct err *err)
{
    const struct link_params *mine = &c->link->params;

    if (head->attempt != mine->attempt)
        return err_set(err, ERR_PROTOCOL, "attempt %u, not %u", head->attempt, mine->attempt);
    if (head->plan_hash != mine->plan_hash)
        return err_set(err, ERR_PROTOCOL, "another job or plan");
    return ERR_OK;
}

static enum err_code place_payload(struct conn *c, struct err *err)
{
    const struct receive_slot *slot;

    if (FRAME_KIND_BIT(c->reader.head.kind) & FRAME_KINDS_OF_LINK) {
        reader_place(&c->reader, c->hello, NULL);
        return ERR_OK;
    }
    pthread_mutex_lock(&c->link->lock);
    c->slot = edge_reserve(c->edge);
    pthread_mutex_unlock(&c->link->lock);
    if (c->slot < 0)
        return err_set(err, ERR_PROTOCOL, "more frames than it was allowed");
    slot = &c->edge->received[c->slot];
    reader_place(&c->reader, slot->meta, slot->tensor);
    return ERR_OK;
}

/* Of the HELLO that `c` speaks, or hears. */
static struct hello_context context_of(const struct conn *c, bool is_ours)
{
    const struct link_params *mine = &c->link->params;
    struct hello_context context = {
        .key = mine->key,
        .is_dialer = c->dialed == is_ours,
        .plan_hash = is_ours ? mine->plan_hash : c->reader.head.plan_hash,
        .attempt = is_ours ? mine->attempt : c->reader.head.attempt,
    };

    memcpy(context.peer_nonce, is_ours ? c->peer_nonce : c->nonce, sizeof context.peer_nonce);
    return context;
}

/* Do the limits and the receiver's number agree? */
static enum err_code check_hello(const struct link_params *mine, const struct hello *hello,
                                 struct err *err)
{
    if (hello->tensor_max_bytes != mine->limits.tensor_max_bytes ||
        hello->meta_max_bytes != mine->limits.meta_max_bytes)
        return err_set(err, ERR_PROTOCOL, "other limits for tensors or meta data");
    if (hello->to_stage != (uint32_t)mine->stage)
        return err_set(err, ERR_PROTOCOL, "stage %u was meant, this is stage %d", hello->to_stage,
                       mine->stage);
    return ERR_OK;
}

/* The edge that a stranger's HELLO names, if it may have it. Called with the lock. */
static enum err_code claim_edge(struct conn *c, const struct hello *hello, struct err *err)
{
    struct edge *edge = &c->link->edges[hello->is_backward ? LINK_BACKWARD_IN : LINK_FORWARD_IN];

    if (!edge_exists(edge) || hello->from_stage != (uint32_t)edge->peer_stage)
        return err_set(err, ERR_PROTOCOL, "stage %u has no such edge to stage %d",
                       hello->from_stage, c->link->params.stage);
    if (edge->conn)
        return err_set(err, ERR_PROTOCOL, "the %s edge is taken", edge_name(edge->id));
    if (edge->state == EDGE_LOST || c->link->closing)
        return err_set(err, ERR_PROTOCOL, "the %s edge was lost and stays so", edge_name(edge->id));
    c->edge = edge;
    edge->conn = c;
    open_edge(c);
    return ERR_OK;
}

/* Nothing is compared with what the peer says before it has proved that it has the key. */
static enum err_code on_hello(struct conn *c, struct err *err)
{
    struct hello_context context = context_of(c, false);
    struct hello hello;
    enum err_code rc = hello_decode(c->hello, c->reader.head.meta_bytes, &hello, err);

    if (rc != ERR_OK)
        return rc;
    if (!hello_is_signed(&hello, &context))
        return err_set(err, ERR_PROTOCOL, NOT_AUTHENTICATED);
    c->is_authenticated = true;
    memcpy(c->peer_nonce, hello.nonce, sizeof c->peer_nonce);
    rc = check_identity(c, &c->reader.head, err);
    if (rc == ERR_OK)
        rc = check_hello(&c->link->params, &hello, err);
    if (rc != ERR_OK)
        return rc;
    c->hello_received = true;
    if (!c->dialed) {
        pthread_mutex_lock(&c->link->lock);
        rc = claim_edge(c, &hello, err);
        pthread_mutex_unlock(&c->link->lock);
    } else if (hello.from_stage != (uint32_t)c->edge->peer_stage) {
        rc = err_set(err, ERR_PROTOCOL, "stage %u answered", hello.from_stage);
    }
    return rc;
}

static enum err_code on_challenge(struct conn *c, struct err *err)
{
    if (c->reader.head.meta_bytes != HELLO_NONCE_BYTES)
        return err_set(err, ERR_PROTOCOL, "a CHALLENGE of %u bytes", c->reader.head.meta_bytes);
    memcpy(c->peer_nonce, c->hello, sizeof c->peer_nonce);
    c->challenge_received = true;
    return ERR_OK;
}

/* The first credit also says that the receiver has accepted the dialer. */
static enum err_code on_credit(struct conn *c, struct err *err)
{
    struct edge *edge = c->edge;
    uint64_t total = c->reader.head.step;
    enum err_code rc = ERR_OK;

    pthread_mutex_lock(&c->link->lock);
    if (total < edge->n_credits || total > edge->n_sent + LINK_SLOTS_MAX)
        rc = err_set(err, ERR_PROTOCOL, "a credit of %llu after %llu frames",
                     (unsigned long long)total, (unsigned long long)edge->n_sent);
    else
        edge->n_credits = total;
    if (rc == ERR_OK && c->state == CONN_GREETING)
        open_edge(c);
    pthread_mutex_unlock(&c->link->lock);
    return rc;
}

static enum err_code on_bye(struct conn *c, struct err *err)
{
    struct edge *edge = c->edge;
    uint64_t total = c->reader.head.step;
    enum err_code rc = ERR_OK;

    if (c->state != CONN_OPEN)
        return err_set(err, ERR_PROTOCOL, "a BYE before the first credit");
    pthread_mutex_lock(&c->link->lock);
    c->bye_received = true;
    if (!c->dialed && total != edge->n_received)
        rc = err_set(err, ERR_PROTOCOL, "%llu frames were sent, %llu came",
                     (unsigned long long)total, (unsigned long long)edge->n_received);
    if (c->dialed && c->bye_sent && total == edge->n_sent)
        edge->delivered = true;
    if (rc == ERR_OK)
        edge_end(c->link, edge);
    pthread_mutex_unlock(&c->link->lock);
    return rc;
}

static void on_message(struct conn *c)
{
    pthread_mutex_lock(&c->link->lock);
    edge_push_ready(c->link, c->edge, c->slot, &c->reader.head);
    pthread_mutex_unlock(&c->link->lock);
    c->slot = -1;
}

static enum err_code on_frame(struct conn *c, struct err *err)
{
    switch (c->reader.head.kind) {
    case FRAME_CHALLENGE:
        return on_challenge(c, err);
    case FRAME_HELLO:
        return on_hello(c, err);
    case FRAME_CREDIT:
        return on_credit(c, err);
    case FRAME_BYE:
        return on_bye(c, err);
    default:
        on_message(c);
        return ERR_OK;
    }
}

static enum err_code receive(struct conn *c, const uint8_t *bytes, size_t n, struct err *err)
{
    enum reader_event event;
    enum err_code rc;

    do {
        struct frame_limits limits = expected(c);

        rc = reader_feed(&c->reader, &limits, &bytes, &n, &event, err);
        if (rc == ERR_OK && event == READER_EVENT_HEADER) {
            if (c->is_authenticated)
                rc = check_identity(c, &c->reader.head, err);
            if (rc == ERR_OK)
                rc = place_payload(c, err);
        } else if (rc == ERR_OK && event == READER_EVENT_FRAME) {
            rc = on_frame(c, err);
        }
    } while (rc == ERR_OK && event != READER_EVENT_NONE);
    return rc;
}

void conn_break(struct conn *c, const char *why)
{
    conn_set_why(c, "%s", why);
    if (c->state != CONN_OPEN)
        return;
    pthread_mutex_lock(&c->link->lock);
    edge_lose(c->link, c->edge, ERR_PROTOCOL, "broke the protocol: %s", why);
    pthread_mutex_unlock(&c->link->lock);
}

void conn_peer_failed(struct conn *c, const char *cause)
{
    if (c->state != CONN_OPEN)
        return;
    pthread_mutex_lock(&c->link->lock);
    edge_fail(c->link, c->edge, cause);
    pthread_mutex_unlock(&c->link->lock);
}

enum err_code conn_receive(struct conn *c, const uint8_t *bytes, size_t n)
{
    struct err err;

    if (c->state != CONN_GREETING && c->state != CONN_OPEN)
        return ERR_OK; /* it is on its way out */
    if (receive(c, bytes, n, &err) == ERR_OK)
        return ERR_OK;
    conn_break(c, err.text);
    return ERR_PROTOCOL;
}

/* --- sending --- */

enum outgoing { SEND_NOTHING, SEND_CHALLENGE, SEND_HELLO, SEND_CREDIT, SEND_MESSAGE, SEND_BYE };

static enum outgoing next_of_receiver(const struct conn *c)
{
    if (c->edge->n_allowed > c->allowed_sent && !c->bye_received)
        return SEND_CREDIT;
    if ((c->bye_received && !c->bye_answered) || (c->link->closing && !c->bye_sent))
        return SEND_BYE;
    return SEND_NOTHING;
}

static enum outgoing next_of_sender(const struct conn *c)
{
    const struct edge *edge = c->edge;
    bool may_send = edge->n_sent < edge->n_credits;

    if (c->chunk_at > 0)
        return SEND_MESSAGE; /* nothing may come in between its chunks */
    if (c->bye_sent)
        return SEND_NOTHING;
    if (edge->n_queued > 0 && may_send)
        return SEND_MESSAGE;
    if ((c->link->closing && edge->n_queued == 0) || c->bye_received)
        return SEND_BYE;
    return SEND_NOTHING;
}

/* With the lock. */
static enum outgoing next_to_send(const struct conn *c)
{
    if (!c->dialed && !c->challenge_sent && c->state == CONN_GREETING)
        return SEND_CHALLENGE;
    if (!c->hello_sent &&
        ((c->challenge_received && c->state == CONN_GREETING) || c->state == CONN_OPEN))
        return SEND_HELLO;
    if (c->state != CONN_OPEN)
        return SEND_NOTHING;
    return c->dialed ? next_of_sender(c) : next_of_receiver(c);
}

bool conn_wants_to_write(const struct conn *c)
{
    enum outgoing next;

    pthread_mutex_lock(&c->link->lock);
    next = next_to_send(c);
    pthread_mutex_unlock(&c->link->lock);
    return next != SEND_NOTHING;
}

static void control_chunk(struct conn *c, struct frame_header *head, struct chunk *out)
{
    if (head->kind != FRAME_CHALLENGE) { /* which is for strangers */
        head->plan_hash = c->link->params.plan_hash;
        head->attempt = c->link->params.attempt;
    }
    head->payload_crc = crc32c(0, c->control + FRAME_HEADER_BYTES, head->meta_bytes);
    frame_encode(head, c->control);
    *out = (struct chunk){.bytes = c->control,
                          .n_bytes = FRAME_HEADER_BYTES + head->meta_bytes,
                          .first = true,
                          .last = true};
}

static void put_challenge(struct conn *c, struct chunk *out)
{
    struct frame_header head = {.kind = FRAME_CHALLENGE, .meta_bytes = HELLO_NONCE_BYTES};

    memcpy(c->control + FRAME_HEADER_BYTES, c->nonce, HELLO_NONCE_BYTES);
    control_chunk(c, &head, out);
    c->challenge_sent = true;
}

static void put_hello(struct conn *c, struct chunk *out)
{
    struct hello_context context = context_of(c, true);
    const struct link_params *mine = &c->link->params;
    struct frame_header head = {.kind = FRAME_HELLO, .meta_bytes = HELLO_BYTES};
    struct hello hello = {
        .from_stage = (uint32_t)mine->stage,
        .to_stage = (uint32_t)c->edge->peer_stage,
        .is_backward = c->edge->id == LINK_BACKWARD_IN || c->edge->id == LINK_BACKWARD_OUT,
        .tensor_max_bytes = mine->limits.tensor_max_bytes,
        .meta_max_bytes = mine->limits.meta_max_bytes,
    };

    memcpy(hello.nonce, c->nonce, sizeof hello.nonce);
    if (hello_sign(&hello, &context, NULL) != ERR_OK)
        conn_set_why(c, "no memory for a signature"); /* the peer will refuse what has none */
    hello_encode(&hello, c->control + FRAME_HEADER_BYTES);
    control_chunk(c, &head, out);
    c->hello_sent = true;
}

static void put_credit(struct conn *c, struct chunk *out)
{
    struct frame_header head = {.kind = FRAME_CREDIT, .step = c->edge->n_allowed};

    c->allowed_sent = c->edge->n_allowed;
    control_chunk(c, &head, out);
}

static void put_bye(struct conn *c, struct chunk *out)
{
    struct frame_header head = {.kind = FRAME_BYE};

    head.step = c->dialed ? c->edge->n_sent : c->edge->n_received;
    c->bye_sent = true;
    c->bye_answered = c->bye_received;
    control_chunk(c, &head, out);
}

static void put_message(struct conn *c, struct chunk *out)
{
    struct edge *edge = c->edge;
    const struct send_slot *slot = &edge->queued[edge->queued_head];
    uint64_t left = slot->n_bytes - c->chunk_at;

    if (c->chunk_at == 0)
        edge->n_sent++;
    *out = (struct chunk){.bytes = slot->bytes + c->chunk_at,
                          .n_bytes = left < CHUNK_MAX_BYTES ? (size_t)left : CHUNK_MAX_BYTES,
                          .first = c->chunk_at == 0,
                          .last = left <= CHUNK_MAX_BYTES};
    c->chunk_at = out->last ? 0 : c->chunk_at + CHUNK_MAX_BYTES;
}

bool conn_next_chunk(struct conn *c, struct chunk *out)
{
    enum outgoing next;

    pthread_mutex_lock(&c->link->lock);
    next = next_to_send(c);
    switch (next) {
    case SEND_NOTHING:
        break;
    case SEND_CHALLENGE:
        put_challenge(c, out);
        break;
    case SEND_HELLO:
        put_hello(c, out);
        break;
    case SEND_CREDIT:
        put_credit(c, out);
        break;
    case SEND_MESSAGE:
        put_message(c, out);
        break;
    case SEND_BYE:
        put_bye(c, out);
        break;
    }
    pthread_mutex_unlock(&c->link->lock);
    return next != SEND_NOTHING;
}

void conn_chunk_written(struct conn *c, const struct chunk *chunk)
{
    if (chunk->bytes == c->control || !chunk->last)
        return;
    pthread_mutex_lock(&c->link->lock);
    edge_pop_queued(c->link, c->edge);
    pthread_mutex_unlock(&c->link->lock);
}

bool conn_is_over(const struct conn *c)
{
    return c->dialed && c->state == CONN_OPEN && c->edge->delivered;
}

bool conn_is_aborted(const struct conn *c, char out_cause[static LINK_CLOSE_TEXT_MAX + 1])
{
    bool is_aborted;

    if (c->state != CONN_OPEN)
        return false;
    pthread_mutex_lock(&c->link->lock);
    is_aborted = c->link->aborting;
    memcpy(out_cause, c->link->cause, sizeof c->link->cause);
    pthread_mutex_unlock(&c->link->lock);
    return is_aborted;
}

/* --- the end --- */

static void plan_redial(struct conn *c, int64_t now_ms)
{
    struct edge *edge = c->edge;
    int wait_ms = edge->redial_wait_ms * 2;

    err_set(&edge->why, ERR_TIMEOUT, "%s edge: stage %d at %s port %d: %s", edge_name(edge->id),
            edge->peer_stage, edge->peer.host, edge->peer.port, c->why);
    edge->redial_wait_ms = wait_ms < REDIAL_MIN_MS   ? REDIAL_MIN_MS
                           : wait_ms > REDIAL_MAX_MS ? REDIAL_MAX_MS
                                                     : wait_ms;
    edge->redial_at_ms = now_ms + edge->redial_wait_ms;
    if (edge->redial_at_ms >= edge->dial_until_ms)
        edge_lose(c->link, edge, ERR_TIMEOUT, "port %d could not be reached: %s", edge->peer.port,
                  c->why);
}

void conn_gone(struct conn *c, int64_t now_ms)
{
    struct link *link = c->link;
    struct edge *edge = c->edge;
    int64_t silent_ms;
    bool is_silent;

    if (c->state == CONN_FREE)
        return;
    silent_ms = now_ms - c->received_ms;
    is_silent = c->why[0] == '\0' && c->state == CONN_OPEN &&
                silent_ms > (int64_t)link->params.silence_s * 500;
    conn_set_why(c, "the connection broke");
    pthread_mutex_lock(&link->lock);
    if (!edge) {
        link->n_refused++;
    } else {
        edge->conn = NULL;
        if (c->slot >= 0)
            edge_unreserve(edge, c->slot);
        if (edge->state == EDGE_CONNECTING)
            plan_redial(c, now_ms);
        else if (is_silent)
            edge_lose(link, edge, ERR_IO, "was silent for %d s", (int)((silent_ms + 500) / 1000));
        else
            edge_lose(link, edge, ERR_IO, "is gone: %s", c->why);
    }
    pthread_cond_broadcast(&link->changed);
    pthread_mutex_unlock(&link->lock);
    c->state = CONN_FREE;
}
