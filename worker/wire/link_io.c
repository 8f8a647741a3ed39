#include <assert.h>
#include <errno.h>
#include <libwebsockets.h>
#include <netdb.h>
#include <openssl/ssl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/thread.h"
#include "wire/hello.h"
#include "wire/link_parts.h"
#include "wire/reader.h"
#include "wire/wsframe.h"

#define SUBPROTOCOL    "skyjob.v1"
#define URL_PATH       "/skyjob"
#define HTTP_TIMEOUT_S 10
#define FDS_OWN        44 /* of the context, beside the connections: the listener and its own */

#define CHUNK_MAX_BYTES (256u << 10) /* of one write: where libwebsockets was measured fastest */

#define DIAL_ATTEMPT_MS   5000  /* from dialing to the first credit */
#define DIAL_LAST_MS      1000  /* the same for an attempt when the time to dial runs out */
#define CLOSING_MS        500   /* from a close frame to the end, without an answer */
#define GREETING_MS       10000 /* from being accepted to a HELLO */
#define REDIAL_MIN_MS     50    /* between two attempts, doubling ... */
#define REDIAL_MAX_MS     1000  /* ... up to this */
#define STRANGER_GRACE_MS 1000  /* a stranger younger than this is not evicted for another */

#define CLOSE_CAUSE       4000 /* status of a close frame whose reason is the cause of a failure */
#define NOT_AUTHENTICATED "not authenticated"

#define PEER_STRANGERS_MAX 8 /* strangers from the addresses of peers, beside the others */

/* OPENING until the websocket stands; GREETING while CHALLENGE and HELLO go both ways; OPEN from
 * the receiver's first credit on; CLOSING until libwebsockets has let go. */
enum conn_state {
    CONN_FREE,
    CONN_OPENING,
    CONN_GREETING,
    CONN_OPEN,    /* carries `edge` */
    CONN_CLOSING, /* what still arrives is ignored */
};

/* Credits and BYE carry totals since the start, not differences, so either end can check them. */
struct conn {
    enum conn_state state;
    struct link *link;
    struct edge *edge; /* dialed: always; accepted: from HELLO on */
    struct lws *wsi;
    bool dialed;
    bool is_from_peer; /* accepted, from an address where a peer is */
    bool kill_asked;
    int64_t since_ms;
    int64_t deadline_ms; /* to reach the next state; 0: none */
    int64_t received_ms; /* when anything came from the peer last */
    char why[160];       /* how it ended; empty: it has not */

    struct reader reader; /* without the lock */
    uint8_t hello[HELLO_BYTES];
    int slot; /* that the reader fills; -1: none */

    uint8_t nonce[HELLO_NONCE_BYTES]; /* ours */
    uint8_t peer_nonce[HELLO_NONCE_BYTES];
    bool challenge_sent, challenge_received;
    bool hello_sent, hello_received;
    bool is_authenticated; /* the peer has proved that it has the key */
    bool bye_sent, bye_received;
    bool bye_answered;     /* receiver: has confirmed the sender's BYE */
    uint64_t allowed_sent; /* receiver: n_allowed as the sender knows it */
    uint64_t chunk_at;     /* sender: bytes of the first queued slot that are written */

    uint8_t control_headroom[CHUNK_HEADROOM_BYTES]; /* directly in front of `control` */
    uint8_t control[FRAME_HEADER_BYTES + HELLO_BYTES];
};

struct link_io {
    struct lws_context *context;
#if LWS_LIBRARY_VERSION_NUMBER >= 4003000
    /* Without one of its own a context shares the process's, whose count of connections has no lock
     * (libwebsockets issue 2544). No flags: it prints nothing. */
    lws_log_cx_t log;
#endif
    struct lws_vhost *vhost;
    pthread_t thread;
    bool stop;
    lws_sorted_usec_list_t tick;
    struct lws_protocols protocols[2];
    lws_retry_bo_t idle_policy; /* pings, and the end of a connection without answers */
    SSL_CTX *client;            /* NULL: plain TCP */
    bool is_accepting;          /* a connection, which has no entry yet ... */
    bool incoming_is_from_peer; /* ... and where it comes from */
    int n_conns;
    struct conn conns[]; /* as many as there are edges and places for strangers */
};

static_assert(CHUNK_HEADROOM_BYTES >= LWS_PRE && CHUNK_HEADROOM_BYTES >= WSFRAME_HEAD_MAX,
              "websocket headers fit in front of a chunk");
static_assert(offsetof(struct conn, control) ==
                  offsetof(struct conn, control_headroom) + CHUNK_HEADROOM_BYTES,
              "the headroom lies directly in front of the control frames");

/* Keep the first reason. */
static __attribute__((format(printf, 2, 3))) void set_why(struct conn *c, const char *fmt, ...)
{
    va_list args;

    if (c->why[0] != '\0')
        return;
    va_start(args, fmt);
    vsnprintf(c->why, sizeof c->why, fmt, args);
    va_end(args);
}

static void open_edge(struct conn *c)
{
    c->state = CONN_OPEN;
    c->deadline_ms = 0;
    c->edge->state = EDGE_READY;
    pthread_cond_broadcast(&c->link->changed);
}

/* --- frames that arrive --- */

static struct frame_limits expected(const struct conn *c)
{
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
    return (struct frame_limits){.kinds = FRAME_KIND_BIT(FRAME_DATA) | FRAME_KIND_BIT(FRAME_BYE),
                                 .meta_max_bytes = c->edge->params.meta_max_bytes,
                                 .tensor_max_bytes = c->edge->params.tensor_max_bytes};
}

static enum err_code check_identity(const struct conn *c, struct err *err)
{
    const struct link_params *mine = &c->link->params;
    const struct frame_header *head = &c->reader.head;

    if (head->revision != mine->revision)
        return err_set(err, ERR_PROTOCOL, "revision %u, not %u", head->revision, mine->revision);
    if (head->plan_hash != mine->plan_hash)
        return err_set(err, ERR_PROTOCOL, "another job or plan");
    return ERR_OK;
}

static enum err_code place_payload(struct conn *c, struct err *err)
{
    struct edge *edge = c->edge;

    if (c->reader.head.kind != FRAME_DATA) {
        reader_place(&c->reader, c->hello, NULL);
        return ERR_OK;
    }
    for (int i = 0; i < edge->params.n_slots; i++) {
        struct receive_slot *slot = &edge->received[i];

        if (slot->phase != SLOT_FREE)
            continue;
        slot->phase = SLOT_FILLING;
        c->slot = i;
        reader_place(&c->reader, slot->meta, slot->tensor);
        return ERR_OK;
    }
    return err_set(err, ERR_PROTOCOL, "more frames than allowed");
}

/* What a HELLO's signature covers: of our own, or of the peer's. */
static struct hello_context context_of(const struct conn *c, bool is_ours)
{
    const struct link_params *mine = &c->link->params;
    struct hello_context context = {
        .key = mine->key,
        .is_dialer = c->dialed == is_ours,
        .plan_hash = is_ours ? mine->plan_hash : c->reader.head.plan_hash,
        .revision = is_ours ? mine->revision : c->reader.head.revision,
    };

    memcpy(context.peer_nonce, is_ours ? c->peer_nonce : c->nonce, sizeof context.peer_nonce);
    return context;
}

/* The edge that a dialer's HELLO names; NULL for none. */
static struct edge *find_edge(struct link *link, const struct hello *hello)
{
    for (int i = 0; i < link->params.n_edges; i++) {
        const struct link_edge *edge = &link->edges[i].params;

        if (edge->is_incoming && edge->peer == hello->from && edge->id == hello->edge)
            return &link->edges[i];
    }
    return NULL;
}

/* Does the certificate of the peer name the worker of the edge? */
static bool has_name(const struct conn *c, const struct edge *edge)
{
    return !c->link->io->client || tls_peer_is(lws_get_ssl(c->wsi), edge->params.tls_name);
}

/* Give a stranger the edge that its HELLO names, if it may have it. */
static enum err_code claim_edge(struct conn *c, struct edge *edge, struct err *err)
{
    if (edge->conn)
        return err_set(err, ERR_PROTOCOL, "the %s is taken", edge->params.name);
    if (edge->state == EDGE_LOST || c->link->closing)
        return err_set(err, ERR_PROTOCOL, "the %s was lost and stays so", edge->params.name);
    c->edge = edge;
    edge->conn = c;
    open_edge(c);
    return ERR_OK;
}

/* Nothing that the peer sends is compared before it has proved that it has the key. */
static enum err_code on_hello(struct conn *c, struct err *err)
{
    const struct link_params *mine = &c->link->params;
    struct hello_context context = context_of(c, false);
    struct edge *edge;
    struct hello hello;
    enum err_code rc = hello_decode(c->hello, c->reader.head.meta_bytes, &hello, err);

    if (rc != ERR_OK)
        return rc;
    if (!hello_is_signed(&hello, &context))
        return err_set(err, ERR_PROTOCOL, NOT_AUTHENTICATED);
    c->is_authenticated = true;
    memcpy(c->peer_nonce, hello.nonce, sizeof c->peer_nonce);
    rc = check_identity(c, err);
    if (rc != ERR_OK)
        return rc;
    if (hello.to != mine->worker)
        return err_set(err, ERR_PROTOCOL, "meant for worker %u, this is worker %u", hello.to,
                       mine->worker);
    edge = c->dialed ? c->edge : find_edge(c->link, &hello);
    if (!edge)
        return err_set(err, ERR_PROTOCOL, "worker %u has no edge %u to worker %u", hello.from,
                       hello.edge, mine->worker);
    if (hello.from != edge->params.peer || hello.edge != edge->params.id)
        return err_set(err, ERR_PROTOCOL, "worker %u answered for edge %u", hello.from, hello.edge);
    if (hello.to_incarnation != mine->incarnation ||
        hello.from_incarnation != edge->params.peer_incarnation)
        return err_set(err, ERR_PROTOCOL, "worker %u, incarnation %u, meant incarnation %u of %u",
                       hello.from, hello.from_incarnation, hello.to_incarnation, mine->worker);
    if (hello.tensor_max_bytes != edge->params.tensor_max_bytes ||
        hello.meta_max_bytes != edge->params.meta_max_bytes)
        return err_set(err, ERR_PROTOCOL, "different limits for tensors or meta data");
    if (!has_name(c, edge))
        return err_set(err, ERR_PROTOCOL,
                       "the certificate is not that of worker %u, incarnation %u", hello.from,
                       hello.from_incarnation);
    c->hello_received = true;
    return c->dialed ? ERR_OK : claim_edge(c, edge, err);
}

/* Every credit but those in advance is for a message that the receiver has released. */
static void count_released(struct edge *edge)
{
    uint64_t bytes = 0;

    while (edge->n_released < edge->n_sent &&
           edge->n_released + edge->n_slots_there < edge->n_credits)
        bytes += edge->sizes[edge->n_released++ % LINK_SLOTS_MAX];
    if (edge->params.traffic)
        atomic_fetch_sub(&edge->params.traffic->unacknowledged_bytes, bytes);
}

/* The first credit also means that the receiver has accepted the dialer. */
static enum err_code on_credit(struct conn *c, struct err *err)
{
    struct edge *edge = c->edge;
    uint64_t total = c->reader.head.step;

    if (total < edge->n_credits || total > edge->n_sent + LINK_SLOTS_MAX)
        return err_set(err, ERR_PROTOCOL, "a credit of %llu after %llu frames",
                       (unsigned long long)total, (unsigned long long)edge->n_sent);
    edge->n_credits = total;
    if (c->state == CONN_GREETING) {
        edge->n_slots_there = total;
        open_edge(c);
    }
    count_released(edge);
    return ERR_OK;
}

static enum err_code on_bye(struct conn *c, struct err *err)
{
    struct edge *edge = c->edge;
    uint64_t total = c->reader.head.step;

    if (c->state != CONN_OPEN)
        return err_set(err, ERR_PROTOCOL, "a BYE before the first credit");
    c->bye_received = true;
    if (!c->dialed && total != edge->n_received)
        return err_set(err, ERR_PROTOCOL, "%llu frames were sent, %llu arrived",
                       (unsigned long long)total, (unsigned long long)edge->n_received);
    if (c->dialed && c->bye_sent && total == edge->n_sent)
        edge->delivered = true;
    edge_end(c->link, edge, NULL);
    return ERR_OK;
}

static enum err_code on_frame(struct conn *c, struct err *err)
{
    struct edge *edge = c->edge;

    switch (c->reader.head.kind) {
    case FRAME_CHALLENGE:
        if (c->reader.head.meta_bytes != HELLO_NONCE_BYTES)
            return err_set(err, ERR_PROTOCOL, "a CHALLENGE of %u bytes", c->reader.head.meta_bytes);
        memcpy(c->peer_nonce, c->hello, sizeof c->peer_nonce);
        c->challenge_received = true;
        return ERR_OK;
    case FRAME_HELLO:
        return on_hello(c, err);
    case FRAME_CREDIT:
        return on_credit(c, err);
    case FRAME_BYE:
        return on_bye(c, err);
    default: /* a message for the caller */
        edge->received[c->slot].phase = SLOT_READY;
        edge->received[c->slot].head = c->reader.head;
        edge->ready[(edge->ready_head + edge->n_ready) % edge->params.n_slots] = c->slot;
        edge->n_ready++;
        edge->n_received++;
        if (edge->params.traffic)
            atomic_fetch_add(&edge->params.traffic->received_bytes,
                             FRAME_HEADER_BYTES + c->reader.head.meta_bytes +
                                 c->reader.head.tensor_bytes);
        c->slot = -1;
        pthread_cond_broadcast(&c->link->changed);
        return ERR_OK;
    }
}

/* Whole frames out of bytes that came. ERR_PROTOCOL: the connection must be closed. */
static enum err_code receive(struct conn *c, const uint8_t *bytes, size_t n, struct err *err)
{
    enum reader_event event;
    enum err_code rc;

    do {
        struct frame_limits limits = expected(c);

        pthread_mutex_unlock(&c->link->lock);
        rc = reader_feed(&c->reader, &limits, &bytes, &n, &event, err);
        pthread_mutex_lock(&c->link->lock);
        if (rc == ERR_OK && event == READER_EVENT_HEADER) {
            if (c->is_authenticated)
                rc = check_identity(c, err);
            if (rc == ERR_OK)
                rc = place_payload(c, err);
        } else if (rc == ERR_OK && event == READER_EVENT_FRAME) {
            rc = on_frame(c, err);
        }
    } while (rc == ERR_OK && event != READER_EVENT_NONE);
    return rc;
}

/* --- frames that are sent --- */

/* A piece of a websocket message, to be written now. */
struct chunk {
    uint8_t *bytes; /* CHUNK_HEADROOM_BYTES in front may be destroyed, and the bytes themselves */
    size_t n_bytes;
    bool first, last; /* of its websocket message */
};

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

    if (c->chunk_at > 0)
        return SEND_MESSAGE; /* nothing may come in between its chunks */
    if (c->bye_sent)
        return SEND_NOTHING;
    if (edge->n_queued > 0 && edge->n_sent < edge->n_credits)
        return SEND_MESSAGE;
    if ((c->link->closing && edge->n_queued == 0) || c->bye_received)
        return SEND_BYE;
    return SEND_NOTHING;
}

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

static void write_hello(struct conn *c, uint8_t out[static HELLO_BYTES])
{
    struct hello_context context = context_of(c, true);
    const struct link_edge *edge = &c->edge->params;
    struct hello hello = {
        .from = c->link->params.worker,
        .from_incarnation = c->link->params.incarnation,
        .to = edge->peer,
        .to_incarnation = edge->peer_incarnation,
        .edge = edge->id,
        .meta_max_bytes = edge->meta_max_bytes,
        .tensor_max_bytes = edge->tensor_max_bytes,
    };

    memcpy(hello.nonce, c->nonce, sizeof hello.nonce);
    if (hello_sign(&hello, &context, NULL) != ERR_OK)
        set_why(c, "no memory for a signature"); /* the peer will refuse what has none */
    hello_encode(&hello, out);
}

static struct chunk control_chunk(struct conn *c, enum outgoing next)
{
    struct frame_header head = {.plan_hash = c->link->params.plan_hash,
                                .revision = c->link->params.revision};
    uint8_t *meta = c->control + FRAME_HEADER_BYTES;

    if (next == SEND_CHALLENGE) { /* for strangers, so without the job's identity */
        head = (struct frame_header){.kind = FRAME_CHALLENGE, .meta_bytes = HELLO_NONCE_BYTES};
        memcpy(meta, c->nonce, HELLO_NONCE_BYTES);
        c->challenge_sent = true;
    } else if (next == SEND_HELLO) {
        head.kind = FRAME_HELLO;
        head.meta_bytes = HELLO_BYTES;
        write_hello(c, meta);
        c->hello_sent = true;
    } else if (next == SEND_CREDIT) {
        head.kind = FRAME_CREDIT;
        head.step = c->allowed_sent = c->edge->n_allowed;
    } else {
        head.kind = FRAME_BYE;
        head.step = c->dialed ? c->edge->n_sent : c->edge->n_received;
        c->bye_sent = true;
        c->bye_answered = c->bye_received;
    }
    head.payload_crc = crc32c(0, meta, head.meta_bytes);
    frame_encode(&head, c->control);
    return (struct chunk){.bytes = c->control,
                          .n_bytes = FRAME_HEADER_BYTES + head.meta_bytes,
                          .first = true,
                          .last = true};
}

static struct chunk message_chunk(struct conn *c)
{
    struct edge *edge = c->edge;
    const struct send_slot *slot = &edge->queued[edge->queued_head];
    uint64_t left = slot->n_bytes - c->chunk_at;
    struct chunk chunk = {.bytes = slot->bytes + c->chunk_at,
                          .n_bytes = left < CHUNK_MAX_BYTES ? (size_t)left : CHUNK_MAX_BYTES,
                          .first = c->chunk_at == 0,
                          .last = left <= CHUNK_MAX_BYTES};

    if (chunk.first)
        edge->sizes[edge->n_sent++ % LINK_SLOTS_MAX] = slot->n_bytes;
    if (chunk.first && edge->params.traffic)
        atomic_fetch_add(&edge->params.traffic->unacknowledged_bytes, slot->n_bytes);
    if (edge->params.traffic)
        atomic_fetch_add(&edge->params.traffic->sent_bytes, chunk.n_bytes);
    c->chunk_at = chunk.last ? 0 : c->chunk_at + CHUNK_MAX_BYTES;
    return chunk;
}

/* A dialer's frames are masked here (see wsframe.h) and go out as they are: on a websocket the
 * library sends what is written as LWS_WRITE_RAW unchanged, with its own buffering and pings.
 * Without the lock. Negative on failure. */
static int write_chunk(const struct conn *c, const struct chunk *chunk)
{
    uint32_t key;
    size_t head;

    if (!c->dialed)
        return lws_write(c->wsi, chunk->bytes, chunk->n_bytes,
                         (enum lws_write_protocol)lws_write_ws_flags(LWS_WRITE_BINARY, chunk->first,
                                                                     chunk->last));
    if (getrandom(&key, sizeof key, 0) != (ssize_t)sizeof key)
        return -1;
    head = wsframe_wrap(chunk->bytes, chunk->n_bytes, chunk->first, chunk->last, key);
    return lws_write(c->wsi, chunk->bytes - head, chunk->n_bytes + head, LWS_WRITE_RAW);
}

/* --- the end of a connection --- */

/* Have both ends sent their BYE, so that the dialer may close the websocket? */
static bool is_over(const struct conn *c)
{
    return c->dialed && c->state == CONN_OPEN && c->edge->delivered;
}

/* Is this worker ending because of a failure, so that the peer has to be given the cause? */
static bool is_aborted(const struct conn *c)
{
    return c->state == CONN_OPEN && c->link->aborting;
}

static void kill_later(struct conn *c, const char *why)
{
    if (c->kill_asked)
        return;
    c->kill_asked = true;
    set_why(c, "%s", why);
    lws_set_timeout(c->wsi, PENDING_TIMEOUT_USER_REASON_BASE, LWS_TO_KILL_ASYNC);
}

/* Close a websocket, with the reason in its close frame; returns what the callback has to return.
 * Foreign text must not break a close frame. */
static int close_with(struct conn *c, int status, const char *why)
{
    unsigned char text[LINK_CLOSE_TEXT_MAX];
    size_t n = 0;

    for (; why[n] && n < sizeof text; n++)
        text[n] = why[n] >= ' ' && why[n] <= '~' ? (unsigned char)why[n] : '?';
    lws_close_reason(c->wsi, (enum lws_close_status)status, text, n);
    c->state = CONN_CLOSING;
    c->deadline_ms = clock_now_ms() + CLOSING_MS;
    return -1;
}

static void plan_redial(struct conn *c, int64_t now_ms)
{
    struct edge *edge = c->edge;
    int wait_ms = edge->redial_wait_ms * 2;

    err_set(&edge->why, ERR_TIMEOUT, "%s: %s at %s port %d: %s", edge->params.name,
            edge->params.peer_name, edge->host, edge->port, c->why);
    edge->redial_wait_ms = wait_ms < REDIAL_MIN_MS   ? REDIAL_MIN_MS
                           : wait_ms > REDIAL_MAX_MS ? REDIAL_MAX_MS
                                                     : wait_ms;
    edge->redial_at_ms = now_ms + edge->redial_wait_ms;
    if (edge->redial_at_ms >= edge->dial_until_ms)
        edge_lose(c->link, edge, ERR_TIMEOUT, "port %d could not be reached: %s", edge->port,
                  c->why);
}

/* It is gone: end or redial its edge, count a stranger, free the entry. */
static void conn_gone(struct conn *c, int64_t now_ms)
{
    struct link *link = c->link;
    struct edge *edge = c->edge;
    int64_t silent_ms = now_ms - c->received_ms;
    bool is_silent = c->why[0] == '\0' && c->state == CONN_OPEN &&
                     silent_ms > (int64_t)link->params.silence_s * 500;

    set_why(c, "the connection broke");
    if (!edge) {
        link->n_refused++;
    } else {
        edge->conn = NULL;
        if (c->slot >= 0)
            edge->received[c->slot].phase = SLOT_FREE;
        if (edge->state == EDGE_CONNECTING)
            plan_redial(c, now_ms);
        else if (is_silent)
            edge_lose(link, edge, ERR_IO, "was silent for %d s", (int)((silent_ms + 500) / 1000));
        else
            edge_lose(link, edge, ERR_IO, "is gone: %s", c->why);
    }
    pthread_cond_broadcast(&link->changed);
    c->state = CONN_FREE;
}

/* --- what libwebsockets reports --- */

/* The connection of a wsi; NULL when its entry is already free or used again. */
static struct conn *conn_of(struct lws *wsi)
{
    struct conn *c = lws_get_opaque_user_data(wsi);

    return c && c->state != CONN_FREE && c->wsi == wsi ? c : NULL;
}

static struct conn *free_conn(struct link_io *io)
{
    for (int i = 0; i < io->n_conns; i++)
        if (io->conns[i].state == CONN_FREE)
            return &io->conns[i];
    return NULL;
}

/* Does this socket come from an address where a peer is? Names are not looked up. */
static bool is_from_peer(const struct link *link, int fd)
{
    struct sockaddr_storage from;
    socklen_t n = sizeof from;
    char host[NI_MAXHOST];
    const char *address = host;

    if (getpeername(fd, (struct sockaddr *)&from, &n) != 0 ||
        getnameinfo((struct sockaddr *)&from, n, host, sizeof host, NULL, 0, NI_NUMERICHOST) != 0)
        return false;
    if (strncmp(host, "::ffff:", 7) == 0 && strchr(host, '.'))
        address = host + 7;
    for (int i = 0; i < link->params.n_edges; i++)
        if (strcmp(link->edges[i].host, address) == 0)
            return true;
    return false;
}

/* The library drops a connection before it reports it when its first bytes are not TLS. */
static void count_unreported(struct link *link)
{
    link->n_refused += link->io->is_accepting;
    link->io->is_accepting = false;
}

/* A new connection: is there a place for one more stranger? Those from a peer's address have places
 * of their own, so that no flood from elsewhere keeps the peer out. */
static int on_incoming(struct link *link, int fd)
{
    bool from_peer = is_from_peer(link, fd);
    int64_t now_ms = clock_now_ms();
    struct conn *oldest = NULL;
    int n_strangers = 0;

    for (int i = 0; i < link->io->n_conns; i++) {
        struct conn *c = &link->io->conns[i];

        if (c->state == CONN_FREE || c->dialed || c->edge || c->is_from_peer != from_peer)
            continue;
        n_strangers++;
        if (!oldest || c->since_ms < oldest->since_ms)
            oldest = c;
    }
    count_unreported(link);
    link->io->incoming_is_from_peer = from_peer;
    if (n_strangers < (from_peer ? PEER_STRANGERS_MAX : LINK_STRANGERS_MAX)) {
        link->io->is_accepting = true;
        return 0;
    }
    /* This one is refused, but a peer dials again soon and then finds a place. */
    if (now_ms - oldest->since_ms > STRANGER_GRACE_MS)
        kill_later(oldest, "evicted: too many unauthenticated connections");
    link->n_refused++;
    return -1;
}

static int on_accepted(struct link *link, struct lws *wsi)
{
    int64_t now_ms = clock_now_ms();
    struct conn *c;

    if (lws_get_opaque_user_data(wsi))
        return 0; /* one that we have dialed */
    link->io->is_accepting = false;
    c = free_conn(link->io);
    if (!c)
        return -1; /* impossible: on_incoming() counts */
    *c = (struct conn){.state = CONN_OPENING,
                       .link = link,
                       .wsi = wsi,
                       .is_from_peer = link->io->incoming_is_from_peer,
                       .since_ms = now_ms,
                       .deadline_ms = now_ms + GREETING_MS,
                       .slot = -1};
    lws_set_opaque_user_data(wsi, c);
    return 0;
}

static int on_established(struct conn *c)
{
    if (!c || c->state != CONN_OPENING ||
        getrandom(c->nonce, sizeof c->nonce, 0) != (ssize_t)sizeof c->nonce)
        return -1;
    if (c->dialed && !has_name(c, c->edge)) {
        set_why(c, "the certificate is that of another worker");
        return -1;
    }
    c->received_ms = clock_now_ms();
    c->state = CONN_GREETING;
    return 0;
}

static int on_receive(struct conn *c, const void *bytes, size_t n)
{
    int status = LWS_CLOSE_STATUS_POLICY_VIOLATION;
    struct err err;

    if (c->state != CONN_GREETING && c->state != CONN_OPEN)
        return 0;
    c->received_ms = clock_now_ms();
    if (!lws_frame_is_binary(c->wsi)) {
        status = LWS_CLOSE_STATUS_UNACCEPTABLE_OPCODE;
        err_set(&err, ERR_PROTOCOL, "text instead of binary frames");
    } else if (n == 0 || receive(c, bytes, n, &err) == ERR_OK) {
        return 0;
    }
    set_why(c, "%s", err.text);
    if (c->state == CONN_OPEN)
        edge_lose(c->link, c->edge, ERR_PROTOCOL, "broke the protocol: %s", err.text);
    return close_with(c, status, c->is_authenticated ? c->why : NOT_AUTHENTICATED);
}

static int on_writeable(struct conn *c)
{
    enum outgoing next = next_to_send(c);
    struct chunk chunk;
    int written;

    if (lws_partial_buffered(c->wsi))
        return 0;
    if (is_aborted(c)) {
        set_why(c, "this worker has failed");
        return close_with(c, CLOSE_CAUSE, c->link->cause);
    }
    if (is_over(c)) {
        set_why(c, "both ends have sent BYE");
        return close_with(c, LWS_CLOSE_STATUS_NORMAL, "");
    }
    if (next == SEND_NOTHING)
        return 0; /* libwebsockets also calls unasked */
    chunk = next == SEND_MESSAGE ? message_chunk(c) : control_chunk(c, next);
    pthread_mutex_unlock(&c->link->lock);
    written = write_chunk(c, &chunk);
    pthread_mutex_lock(&c->link->lock);
    if (written < 0) {
        set_why(c, "writing failed");
        return -1;
    }
    if (next == SEND_MESSAGE && chunk.last) {
        c->edge->queued_head = (c->edge->queued_head + 1) % c->edge->params.n_slots;
        c->edge->n_queued--;
        pthread_cond_broadcast(&c->link->changed);
    }
    return 0;
}

/* The library's own text has no reason for a failed handshake. */
static void on_dial_failed(struct conn *c, const char *text, size_t n)
{
    SSL *ssl = c->link->io->client ? lws_get_ssl(c->wsi) : NULL;
    long result = ssl ? SSL_get_verify_result(ssl) : X509_V_OK;

    if (result != X509_V_OK)
        set_why(c, "the peer's certificate: %s", X509_verify_cert_error_string(result));
    else if (text && n > 0)
        set_why(c, "%.*s", (int)strnlen(text, n), text);
}

/* The peer ends the websocket: two bytes of status and its reason. */
static int on_peer_close(struct conn *c, const char *in, size_t n)
{
    char text[LINK_CLOSE_TEXT_MAX + 1] = "";

    for (size_t i = 2; i < n && i - 2 < LINK_CLOSE_TEXT_MAX; i++)
        text[i - 2] = in[i] >= ' ' && in[i] <= '~' ? in[i] : '?';
    if (text[0] && ((unsigned char)in[0] << 8 | (unsigned char)in[1]) == CLOSE_CAUSE &&
        c->state == CONN_OPEN)
        edge_end(c->link, c->edge, text);
    set_why(c, text[0] ? "closed by the peer: %s" : "closed by the peer%s", text);
    return 0;
}

/* Only a websocket handshake may go on. Above all not "Upgrade: h2c": HTTP/2 is compiled into the
 * library and had a remote hole in its header decoder. Nothing of the request is touched except
 * through lws_hdr_total_length(), which knows when the headers are gone already. */
static bool is_websocket(struct lws *wsi)
{
    return lws_hdr_total_length(wsi, WSI_TOKEN_KEY) > 0 &&
           lws_hdr_total_length(wsi, WSI_TOKEN_HTTP2_SETTINGS) == 0;
}

/* Is the peer, by its certificate, one that may dial? Which edge it may have is the HELLO's. */
static bool may_dial(const struct link *link, struct lws *wsi)
{
    char name[TLS_NAME_BYTES];

    if (!link->io->client)
        return true;
    if (!tls_peer_name(lws_get_ssl(wsi), name))
        return false;
    for (int i = 0; i < link->params.n_edges; i++)
        if (link->edges[i].params.is_incoming && strcmp(link->edges[i].params.tls_name, name) == 0)
            return true;
    return false;
}

static int handle_event(struct link *link, struct lws *wsi, enum lws_callback_reasons reason,
                        void *in, size_t n)
{
    struct conn *c = conn_of(wsi);

    switch (reason) {
    case LWS_CALLBACK_FILTER_NETWORK_CONNECTION:
        return on_incoming(link, (int)(intptr_t)in);
    case LWS_CALLBACK_SERVER_NEW_CLIENT_INSTANTIATED:
        return on_accepted(link, wsi);
    case LWS_CALLBACK_HTTP_CONFIRM_UPGRADE:
        return is_websocket(wsi) ? 0 : -1;
    case LWS_CALLBACK_FILTER_PROTOCOL_CONNECTION: /* without a name it would be our first one */
        return lws_hdr_total_length(wsi, WSI_TOKEN_PROTOCOL) > 0 && may_dial(link, wsi) ? 0 : -1;
    case LWS_CALLBACK_FILTER_HTTP_CONNECTION: /* no HTTP is served here ... */
    case LWS_CALLBACK_HTTP:
    case LWS_CALLBACK_RAW_ADOPT: /* ... and nothing else, as after CONNECT */
    case LWS_CALLBACK_RAW_RX:
        return -1;
    case LWS_CALLBACK_ESTABLISHED:
    case LWS_CALLBACK_CLIENT_ESTABLISHED:
        return on_established(c);
    case LWS_CALLBACK_RECEIVE:
    case LWS_CALLBACK_CLIENT_RECEIVE:
        return c ? on_receive(c, in, n) : 0;
    case LWS_CALLBACK_RECEIVE_PONG:
    case LWS_CALLBACK_CLIENT_RECEIVE_PONG:
        if (c)
            c->received_ms = clock_now_ms();
        return 0;
    case LWS_CALLBACK_SERVER_WRITEABLE:
    case LWS_CALLBACK_CLIENT_WRITEABLE:
        return c ? on_writeable(c) : 0;
    case LWS_CALLBACK_WS_PEER_INITIATED_CLOSE:
        return c ? on_peer_close(c, in, n) : 0;
    case LWS_CALLBACK_CLIENT_CONNECTION_ERROR:
    case LWS_CALLBACK_CLOSED:
    case LWS_CALLBACK_CLIENT_CLOSED:
    case LWS_CALLBACK_WSI_DESTROY:
        if (c && reason == LWS_CALLBACK_CLIENT_CONNECTION_ERROR)
            on_dial_failed(c, in, n);
        if (c)
            conn_gone(c, clock_now_ms());
        return 0;
    default:
        return 0;
    }
}

/* The library has made a context without a certificate; it is called from link_open(). */
static int set_up_server(const struct link *link, SSL_CTX *context)
{
    return tls_context_set(link->params.tls, context, NULL) == ERR_OK ? 0 : -1;
}

static int on_event(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in,
                    size_t n)
{
    struct link *link = lws_context_user(lws_get_context(wsi));
    int answer;

    switch (reason) {
    case LWS_CALLBACK_OPENSSL_LOAD_EXTRA_SERVER_VERIFY_CERTS:
        return set_up_server(link, user);
    case LWS_CALLBACK_LOCK_POLL: /* from within calls of ours, which have the lock: since 4.3 */
    case LWS_CALLBACK_UNLOCK_POLL:
    case LWS_CALLBACK_ADD_POLL_FD:
    case LWS_CALLBACK_DEL_POLL_FD:
    case LWS_CALLBACK_CHANGE_MODE_POLL_FD:
        return 0;
    default:
        break;
    }
    pthread_mutex_lock(&link->lock);
    answer = handle_event(link, wsi, reason, in, n);
    pthread_mutex_unlock(&link->lock);
    return answer;
}

/* --- the IO thread --- */

static void dial(struct link *link, struct edge *edge, int64_t now_ms)
{
    struct conn *c = free_conn(link->io);
    int64_t first_ms = now_ms + DIAL_LAST_MS, last_ms = now_ms + DIAL_ATTEMPT_MS;
    struct lws_client_connect_info info = {
        .context = link->io->context,
        .vhost = link->io->vhost,
        .address = edge->host,
        .port = edge->port,
        .host = link->io->client ? edge->params.tls_name : edge->host, /* is checked with TLS */
        .origin = edge->host,
        .path = URL_PATH,
        .protocol = SUBPROTOCOL,
        .alpn = "http/1.1",
        .retry_and_idle_policy = &link->io->idle_policy,
        .opaque_user_data = c,
        .ssl_connection = link->io->client ? LCCSCF_USE_SSL : 0,
    };
    bool is_dialing;

    assert(c); /* strangers and edges are counted */
    if (last_ms > edge->dial_until_ms)
        last_ms = edge->dial_until_ms > first_ms ? edge->dial_until_ms : first_ms;
    *c = (struct conn){.state = CONN_OPENING,
                       .link = link,
                       .edge = edge,
                       .dialed = true,
                       .since_ms = now_ms,
                       .deadline_ms = last_ms,
                       .slot = -1};
    edge->conn = c;
    info.pwsi = &c->wsi;
    pthread_mutex_unlock(&link->lock); /* the library may report failures before it returns */
    is_dialing = lws_client_connect_via_info(&info);
    pthread_mutex_lock(&link->lock);
    if (!is_dialing && c->state != CONN_FREE) {
        set_why(c, "cannot connect");
        conn_gone(c, now_ms);
    }
}

static void on_tick(lws_sorted_usec_list_t *tick)
{
    (void)tick; /* it only ends lws_service(); tend() follows */
}

/* Everything that no event starts: dial, enforce deadlines, ask to write. */
static void tend(struct link *link)
{
    int64_t now_ms = clock_now_ms(), next_ms = INT64_MAX;

    count_unreported(link);
    for (int i = 0; i < link->params.n_edges; i++) {
        struct edge *edge = &link->edges[i];

        if (edge->params.is_incoming || edge->state != EDGE_CONNECTING || edge->conn ||
            edge->host[0] == '\0' || link->aborting || (link->closing && edge->n_queued == 0))
            continue;
        if (now_ms >= edge->redial_at_ms)
            dial(link, edge, now_ms);
        if (!edge->conn && edge->redial_at_ms < next_ms)
            next_ms = edge->redial_at_ms;
    }
    for (int i = 0; i < link->io->n_conns; i++) {
        struct conn *c = &link->io->conns[i];

        if (c->state == CONN_FREE)
            continue;
        if (c->deadline_ms != 0 && now_ms >= c->deadline_ms)
            kill_later(c,
                       c->state == CONN_OPENING ? "no connection in time" : "no greeting in time");
        else if (c->deadline_ms != 0 && c->deadline_ms < next_ms)
            next_ms = c->deadline_ms;
        if (next_to_send(c) != SEND_NOTHING || is_over(c) || is_aborted(c))
            lws_callback_on_writable(c->wsi);
    }
    if (next_ms == INT64_MAX)
        lws_sul_cancel(&link->io->tick);
    else
        lws_sul_schedule(link->io->context, 0, &link->io->tick, on_tick,
                         next_ms > now_ms ? (next_ms - now_ms) * LWS_US_PER_MS : 1);
}

static void *run(void *arg)
{
    struct link *link = arg;
    bool stop = false;

    while (!stop && lws_service(link->io->context, 0) >= 0) {
        pthread_mutex_lock(&link->lock);
        stop = link->io->stop;
        if (!stop)
            tend(link);
        pthread_mutex_unlock(&link->lock);
    }
    return NULL;
}

/* --- starting and stopping --- */

/* Can this address be listened on? libwebsockets does not report why not, and its 4.3 retries for
 * ever to bind an address that this host does not have. */
static enum err_code check_address(const char *address, int port, struct err *err)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_PASSIVE, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char service[12];
    int yes = 1, fd = -1, failed;
    enum err_code rc = ERR_OK;

    snprintf(service, sizeof service, "%d", port);
    if (getaddrinfo(address, service, &hints, &found) != 0)
        return err_set(err, ERR_INVALID, "\"%s\" is not a numeric address", address);
    fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    failed = fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
             bind(fd, found->ai_addr, found->ai_addrlen) != 0;
    if (failed)
        rc =
            err_set(err, ERR_IO, "cannot listen on %s port %d: %s", address, port, strerror(errno));
    if (fd >= 0)
        close(fd);
    freeaddrinfo(found);
    return rc;
}

/* The context first and what listens after it: a context that cannot listen leaks (4.1.6). */
static enum err_code create_context(struct link *link, const char *listen_address, struct err *err)
{
    struct link_io *io = link->io;
    struct lws_context_creation_info info = {
        .port = link->params.listen_port,
        .iface = listen_address,
        .protocols = io->protocols,
        .user = link,
        .pt_serv_buf_size = CHUNK_MAX_BYTES,
        .retry_and_idle_policy = &io->idle_policy,
        .timeout_secs = HTTP_TIMEOUT_S,
        .connect_timeout_secs = DIAL_ATTEMPT_MS / 1000,
        .fd_limit_per_thread = (unsigned)(io->n_conns + FDS_OWN),
        .max_http_header_pool = (unsigned short)(io->n_conns + 2),
        .alpn = "http/1.1",
        .options = LWS_SERVER_OPTION_EXPLICIT_VHOSTS | LWS_SERVER_OPTION_FAIL_UPON_UNABLE_TO_BIND |
                   LWS_SERVER_OPTION_SKIP_SERVER_CANONICAL_NAME,
        .provided_client_ssl_ctx = io->client,
#if LWS_LIBRARY_VERSION_NUMBER >= 4003000
        .log_cx = &io->log,
#endif
    };

    if (io->client)
        info.options |=
            LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT | LWS_SERVER_OPTION_CREATE_VHOST_SSL_CTX;

    if (!strchr(listen_address, ':'))
        info.options |= LWS_SERVER_OPTION_DISABLE_IPV6;
    lws_set_log_level(0, NULL); /* what matters comes back as an error */
    io->context = lws_create_context(&info);
    if (!io->context)
        return err_set(err, ERR_NO_MEMORY, "cannot create a libwebsockets context");
    io->vhost = lws_create_vhost(io->context, &info);
    if (!io->vhost || lws_get_vhost_listen_port(io->vhost) <= 0)
        return err_set(err, ERR_IO, "cannot listen on %s port %d", listen_address,
                       link->params.listen_port);
    link->port = lws_get_vhost_listen_port(io->vhost);
    return ERR_OK;
}

enum err_code link_io_start(struct link *link, const char *listen_address, struct err *err)
{
    int n_conns = link->params.n_edges + LINK_STRANGERS_MAX + PEER_STRANGERS_MAX;
    struct link_io *io = calloc(1, sizeof *io + (size_t)n_conns * sizeof io->conns[0]);
    enum err_code rc;

    if (!io)
        return err_set(err, ERR_NO_MEMORY, "no memory for the IO thread");
    link->io = io;
    io->n_conns = n_conns;
    io->idle_policy = (lws_retry_bo_t){
        .secs_since_valid_ping = (uint16_t)((link->params.silence_s + 2) / 3),
        .secs_since_valid_hangup = (uint16_t)link->params.silence_s,
    };
    io->protocols[0] = (struct lws_protocols){.name = SUBPROTOCOL,
                                              .callback = on_event,
                                              .rx_buffer_size = CHUNK_MAX_BYTES,
                                              .tx_packet_size = CHUNK_MAX_BYTES};
    rc =
        link->params.tls ? tls_context_new(link->params.tls, TLS_CLIENT, &io->client, err) : ERR_OK;
    if (rc == ERR_OK)
        rc = check_address(listen_address, link->params.listen_port, err);
    if (rc == ERR_OK)
        rc = create_context(link, listen_address, err);
    if (rc == ERR_OK)
        rc = thread_start(&io->thread, run, link, err);
    if (rc == ERR_OK)
        return ERR_OK;
    if (io->context)
        lws_context_destroy(io->context);
    SSL_CTX_free(io->client);
    free(io);
    link->io = NULL;
    return rc;
}

void link_io_wake(struct link *link)
{
    lws_cancel_service(link->io->context);
}

void link_io_stop(struct link *link)
{
    pthread_mutex_lock(&link->lock);
    link->io->stop = true;
    pthread_mutex_unlock(&link->lock);
    link_io_wake(link);
    pthread_join(link->io->thread, NULL);
    lws_context_destroy(link->io->context);
    SSL_CTX_free(link->io->client);
    free(link->io);
    link->io = NULL;
}
