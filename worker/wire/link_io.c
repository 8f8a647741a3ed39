#include <assert.h>
#include <errno.h>
#include <libwebsockets.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "wire/link_parts.h"
#include "wire/wsframe.h"

#define SUBPROTOCOL    "skyjob.v1"
#define URL_PATH       "/skyjob"
#define HTTP_TIMEOUT_S 10
#define FDS_MAX        64 /* of the context: the connections, the listener and its own */

struct link_io {
    struct lws_context *context;
    struct lws_vhost *vhost;
    pthread_t thread;
    bool stop; /* guarded by link.lock */
    lws_sorted_usec_list_t tick;
    struct lws_protocols protocols[2];
    lws_retry_bo_t idle_policy; /* pings, and the end of a connection without answers */
};

static_assert(CHUNK_HEADROOM_BYTES >= LWS_PRE && CHUNK_HEADROOM_BYTES >= WSFRAME_HEAD_MAX,
              "websocket headers fit in front of a chunk");

/* --- connections and their wsi --- */

/* The connection of a wsi; NULL when its entry is already free or used again. */
static struct conn *conn_of(struct lws *wsi)
{
    struct conn *c = lws_get_opaque_user_data(wsi);

    return c && c->state != CONN_FREE && c->wsi == wsi ? c : NULL;
}

static struct conn *free_conn(struct link *link)
{
    for (int i = 0; i < LINK_CONNS_MAX; i++)
        if (link->conns[i].state == CONN_FREE)
            return &link->conns[i];
    return NULL;
}

static bool is_stranger(const struct conn *c)
{
    return c->state != CONN_FREE && !c->dialed && !c->edge;
}

static void kill_later(struct conn *c, const char *why)
{
    if (c->kill_asked)
        return;
    c->kill_asked = true;
    conn_set_why(c, "%s", why);
    lws_set_timeout(c->wsi, PENDING_TIMEOUT_USER_REASON_BASE, LWS_TO_KILL_ASYNC);
}

/* Close a websocket, with the reason in its close frame; returns what the callback has to return.
 */
static int close_with(struct conn *c, enum lws_close_status status, const char *why)
{
    unsigned char text[LINK_CLOSE_TEXT_MAX];
    size_t n = strlen(why);

    if (n > sizeof text)
        n = sizeof text;
    memcpy(text, why, n);
    lws_close_reason(c->wsi, status, text, n);
    c->state = CONN_CLOSING;
    c->deadline_ms = clock_now_ms() + CLOSING_MS;
    return -1;
}

/* The stage has failed: give the peer the cause. Foreign text must not break a close frame. */
static int abort_with(struct conn *c, char *cause)
{
    for (char *p = cause; *p; p++)
        if (*p < ' ' || *p > '~')
            *p = '?';
    conn_set_why(c, "this stage has failed");
    return close_with(c, (enum lws_close_status)CLOSE_CAUSE, cause);
}

/* --- what libwebsockets reports --- */

/* Does this socket come from an address where a neighbour is? Names are not looked up. */
static bool is_from_neighbour(struct link *link, int fd)
{
    struct sockaddr_storage from;
    socklen_t n = sizeof from;
    char host[NI_MAXHOST];
    const char *address = host;
    bool found = false;

    if (getpeername(fd, (struct sockaddr *)&from, &n) != 0 ||
        getnameinfo((struct sockaddr *)&from, n, host, sizeof host, NULL, 0, NI_NUMERICHOST) != 0)
        return false;
    if (strncmp(host, "::ffff:", 7) == 0 && strchr(host, '.'))
        address = host + 7;
    pthread_mutex_lock(&link->lock);
    for (int i = 0; i < N_LINK_EDGES; i++)
        found = found || strcmp(link->edges[i].peer.host, address) == 0;
    pthread_mutex_unlock(&link->lock);
    return found;
}

/* A new connection: is there a place for one more stranger? Those from a neighbour's address have
 * places of their own, so that no flood from elsewhere keeps the neighbour out. */
static int on_incoming(struct link *link, int fd)
{
    bool is_neighbour = is_from_neighbour(link, fd);
    int64_t now_ms = clock_now_ms();
    struct conn *oldest = NULL;
    int n_strangers = 0;

    for (int i = 0; i < LINK_CONNS_MAX; i++) {
        struct conn *c = &link->conns[i];

        if (!is_stranger(c) || c->is_from_neighbour != is_neighbour)
            continue;
        n_strangers++;
        if (!oldest || c->since_ms < oldest->since_ms)
            oldest = c;
    }
    link->incoming_is_neighbour = is_neighbour;
    if (n_strangers < (is_neighbour ? LINK_NEIGHBOURS_MAX : LINK_STRANGERS_MAX))
        return 0;
    /* This one is refused, but a neighbour dials again soon and then finds a place. */
    if (now_ms - oldest->since_ms > STRANGER_GRACE_MS)
        kill_later(oldest, "evicted: too many unauthenticated connections");
    pthread_mutex_lock(&link->lock);
    link->n_refused++;
    pthread_mutex_unlock(&link->lock);
    return -1;
}

static int on_accepted(struct link *link, struct lws *wsi)
{
    struct conn *c;

    if (lws_get_opaque_user_data(wsi))
        return 0; /* one that we have dialed */
    c = free_conn(link);
    if (!c)
        return -1; /* impossible: on_incoming() counts */
    conn_init(c, link, NULL, clock_now_ms());
    c->is_from_neighbour = link->incoming_is_neighbour;
    c->wsi = wsi;
    lws_set_opaque_user_data(wsi, c);
    return 0;
}

/* Only a websocket handshake may go on. Above all not "Upgrade: h2c": HTTP/2 is compiled into the
 * library and had a remote hole in its header decoder. Nothing of the request is touched except
 * through lws_hdr_total_length(), which knows when the headers are gone already. */
static int on_upgrade(struct lws *wsi)
{
    bool websocket = lws_hdr_total_length(wsi, WSI_TOKEN_KEY) > 0 &&
                     lws_hdr_total_length(wsi, WSI_TOKEN_HTTP2_SETTINGS) == 0;

    return websocket ? 0 : -1;
}

static int on_established(struct lws *wsi)
{
    struct conn *c = conn_of(wsi);
    uint8_t nonce[HELLO_NONCE_BYTES];

    if (!c || c->state != CONN_OPENING ||
        getrandom(nonce, sizeof nonce, 0) != (ssize_t)sizeof nonce)
        return -1;
    c->received_ms = clock_now_ms();
    conn_established(c, nonce);
    return 0;
}

static int on_receive(struct lws *wsi, const void *bytes, size_t n)
{
    struct conn *c = conn_of(wsi);

    if (!c || c->state == CONN_CLOSING)
        return 0;
    c->received_ms = clock_now_ms();
    if (!lws_frame_is_binary(wsi)) {
        conn_break(c, "text instead of binary frames");
        return close_with(c, LWS_CLOSE_STATUS_UNACCEPTABLE_OPCODE, conn_public_why(c));
    }
    if (n > 0 && conn_receive(c, bytes, n) != ERR_OK)
        return close_with(c, LWS_CLOSE_STATUS_POLICY_VIOLATION, conn_public_why(c));
    return 0;
}

static int on_pong(struct lws *wsi)
{
    struct conn *c = conn_of(wsi);

    if (c)
        c->received_ms = clock_now_ms();
    return 0;
}

/* A dialer's frames are masked here (see wsframe.h) and go out as they are: on a websocket the
 * library sends what is written as LWS_WRITE_RAW unchanged, with its own buffering and pings. */
static int write_masked(struct lws *wsi, const struct chunk *chunk)
{
    uint32_t key;
    size_t head;

    if (getrandom(&key, sizeof key, 0) != (ssize_t)sizeof key)
        return -1;
    head = wsframe_wrap(chunk->bytes, chunk->n_bytes, chunk->first, chunk->last, key);
    return lws_write(wsi, chunk->bytes - head, chunk->n_bytes + head, LWS_WRITE_RAW);
}

static int write_plain(struct lws *wsi, const struct chunk *chunk)
{
    int flags = lws_write_ws_flags(LWS_WRITE_BINARY, chunk->first, chunk->last);

    return lws_write(wsi, chunk->bytes, chunk->n_bytes, (enum lws_write_protocol)flags);
}

static int on_writeable(struct lws *wsi)
{
    struct conn *c = conn_of(wsi);
    char cause[LINK_CLOSE_TEXT_MAX + 1];
    struct chunk chunk;

    if (!c || c->state == CONN_CLOSING || lws_partial_buffered(wsi))
        return 0;
    if (conn_is_aborted(c, cause))
        return abort_with(c, cause);
    if (conn_is_over(c)) {
        conn_set_why(c, "both ends have sent BYE");
        return close_with(c, LWS_CLOSE_STATUS_NORMAL, "");
    }
    if (!conn_next_chunk(c, &chunk))
        return 0; /* libwebsockets also calls unasked */
    if ((c->dialed ? write_masked(wsi, &chunk) : write_plain(wsi, &chunk)) < 0) {
        conn_set_why(c, "writing failed");
        return -1;
    }
    conn_chunk_written(c, &chunk);
    return 0;
}

/* The peer ends the websocket: two bytes of status and its reason. */
static int on_peer_close(struct lws *wsi, const char *in, size_t n)
{
    struct conn *c = conn_of(wsi);
    char text[LINK_CLOSE_TEXT_MAX + 1] = "";

    if (!c)
        return 0;
    for (size_t i = 2; i < n && i - 2 < LINK_CLOSE_TEXT_MAX; i++)
        text[i - 2] = in[i] >= ' ' && in[i] <= '~' ? in[i] : '?';
    if (text[0] && ((unsigned char)in[0] << 8 | (unsigned char)in[1]) == CLOSE_CAUSE)
        conn_peer_failed(c, text);
    conn_set_why(c, text[0] ? "the peer closed it: %s" : "the peer closed it%s", text);
    return 0;
}

static int on_gone(struct lws *wsi, const char *why, size_t n)
{
    struct conn *c = conn_of(wsi);

    if (!c)
        return 0;
    if (why && n > 0)
        conn_set_why(c, "%.*s", (int)strnlen(why, n), why);
    conn_gone(c, clock_now_ms());
    return 0;
}

static int on_event(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in,
                    size_t n)
{
    struct link *link = lws_context_user(lws_get_context(wsi));

    (void)user;
    switch (reason) {
    case LWS_CALLBACK_FILTER_NETWORK_CONNECTION:
        return on_incoming(link, (int)(intptr_t)in);
    case LWS_CALLBACK_SERVER_NEW_CLIENT_INSTANTIATED:
        return on_accepted(link, wsi);
    case LWS_CALLBACK_HTTP_CONFIRM_UPGRADE:
        return on_upgrade(wsi);
    case LWS_CALLBACK_FILTER_PROTOCOL_CONNECTION: /* without a name it would be our first one */
        return lws_hdr_total_length(wsi, WSI_TOKEN_PROTOCOL) > 0 ? 0 : -1;
    case LWS_CALLBACK_ESTABLISHED:
    case LWS_CALLBACK_CLIENT_ESTABLISHED:
        return on_established(wsi);
    case LWS_CALLBACK_RECEIVE:
    case LWS_CALLBACK_CLIENT_RECEIVE:
        return on_receive(wsi, in, n);
    case LWS_CALLBACK_RECEIVE_PONG:
    case LWS_CALLBACK_CLIENT_RECEIVE_PONG:
        return on_pong(wsi);
    case LWS_CALLBACK_SERVER_WRITEABLE:
    case LWS_CALLBACK_CLIENT_WRITEABLE:
        return on_writeable(wsi);
    case LWS_CALLBACK_WS_PEER_INITIATED_CLOSE:
        return on_peer_close(wsi, in, n);
    case LWS_CALLBACK_CLIENT_CONNECTION_ERROR:
        return on_gone(wsi, in, n);
    case LWS_CALLBACK_CLOSED:
    case LWS_CALLBACK_CLIENT_CLOSED:
    case LWS_CALLBACK_WSI_DESTROY:
        return on_gone(wsi, NULL, 0);
    case LWS_CALLBACK_FILTER_HTTP_CONNECTION: /* no HTTP is served here ... */
    case LWS_CALLBACK_HTTP:
    case LWS_CALLBACK_RAW_ADOPT: /* ... and nothing else, as after CONNECT */
    case LWS_CALLBACK_RAW_RX:
        return -1;
    default:
        return 0;
    }
}

/* --- the IO thread --- */

static void dial(struct link *link, struct edge *edge, int64_t now_ms)
{
    struct conn *c = free_conn(link);
    struct lws_client_connect_info info = {
        .context = link->io->context,
        .vhost = link->io->vhost,
        .address = edge->peer.host,
        .port = edge->peer.port,
        .host = edge->peer.host,
        .origin = edge->peer.host,
        .path = URL_PATH,
        .protocol = SUBPROTOCOL,
        .alpn = "http/1.1",
        .retry_and_idle_policy = &link->io->idle_policy,
        .opaque_user_data = c,
        /* TLS: .ssl_connection, and the check of the peer's name in on_established(). */
    };

    assert(c); /* strangers and edges are counted */
    conn_init(c, link, edge, now_ms);
    info.pwsi = &c->wsi;
    if (!lws_client_connect_via_info(&info)) {
        conn_set_why(c, "cannot connect");
        conn_gone(c, now_ms);
    }
}

static void tend_edge(struct link *link, struct edge *edge, int64_t now_ms, int64_t *next_ms)
{
    bool due;

    pthread_mutex_lock(&link->lock);
    due = edge->state == EDGE_CONNECTING && !edge->conn && edge->peer.port != 0 &&
          !link->aborting && (!link->closing || edge->n_queued > 0);
    pthread_mutex_unlock(&link->lock);
    if (!due)
        return;
    if (now_ms >= edge->redial_at_ms)
        dial(link, edge, now_ms);
    if (!edge->conn && edge->redial_at_ms < *next_ms)
        *next_ms = edge->redial_at_ms;
}

static void tend_conn(struct conn *c, int64_t now_ms, int64_t *next_ms)
{
    char cause[LINK_CLOSE_TEXT_MAX + 1];

    if (c->deadline_ms != 0 && now_ms >= c->deadline_ms)
        kill_later(c, c->state == CONN_OPENING ? "no connection in time" : "no greeting in time");
    else if (c->deadline_ms != 0 && c->deadline_ms < *next_ms)
        *next_ms = c->deadline_ms;
    if (c->state != CONN_GREETING && c->state != CONN_OPEN)
        return;
    if (conn_wants_to_write(c) || conn_is_over(c) || conn_is_aborted(c, cause))
        lws_callback_on_writable(c->wsi);
}

static void on_tick(lws_sorted_usec_list_t *tick)
{
    (void)tick; /* it only ends lws_service(); tend() follows */
}

/* Everything that no event starts: dial, enforce deadlines, ask to write. */
static void tend(struct link *link)
{
    int64_t now_ms = clock_now_ms(), next_ms = INT64_MAX;

    for (int i = 0; i < N_LINK_EDGES; i++)
        tend_edge(link, &link->edges[i], now_ms, &next_ms);
    for (int i = 0; i < LINK_CONNS_MAX; i++)
        if (link->conns[i].state != CONN_FREE)
            tend_conn(&link->conns[i], now_ms, &next_ms);
    if (next_ms == INT64_MAX)
        lws_sul_cancel(&link->io->tick);
    else
        lws_sul_schedule(link->io->context, 0, &link->io->tick, on_tick,
                         next_ms > now_ms ? (next_ms - now_ms) * LWS_US_PER_MS : 1);
}

static bool is_stopped(struct link *link)
{
    bool stop;

    pthread_mutex_lock(&link->lock);
    stop = link->io->stop;
    pthread_mutex_unlock(&link->lock);
    return stop;
}

static void *run(void *arg)
{
    struct link *link = arg;

    while (!is_stopped(link) && lws_service(link->io->context, 0) >= 0)
        tend(link);
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
        .fd_limit_per_thread = FDS_MAX,
        .max_http_header_pool = LINK_CONNS_MAX + 2,
        .alpn = "http/1.1",
        .options = LWS_SERVER_OPTION_EXPLICIT_VHOSTS | LWS_SERVER_OPTION_FAIL_UPON_UNABLE_TO_BIND |
                   LWS_SERVER_OPTION_SKIP_SERVER_CANONICAL_NAME,
        /* TLS: certificate, key, CA and LWS_SERVER_OPTION_REQUIRE_VALID_OPENSSL_CLIENT_CERT. */
    };

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
    return ERR_OK;
}

enum err_code link_io_start(struct link *link, const char *listen_address, struct err *err)
{
    struct link_io *io = calloc(1, sizeof *io);
    enum err_code rc;

    if (!io)
        return err_set(err, ERR_NO_MEMORY, "no memory for the IO thread");
    link->io = io;
    io->idle_policy = (lws_retry_bo_t){
        .secs_since_valid_ping = (uint16_t)((link->params.silence_s + 2) / 3),
        .secs_since_valid_hangup = (uint16_t)link->params.silence_s,
    };
    io->protocols[0] = (struct lws_protocols){.name = SUBPROTOCOL,
                                              .callback = on_event,
                                              .rx_buffer_size = CHUNK_MAX_BYTES,
                                              .tx_packet_size = CHUNK_MAX_BYTES};
    rc = check_address(listen_address, link->params.listen_port, err);
    if (rc == ERR_OK)
        rc = create_context(link, listen_address, err);
    if (rc == ERR_OK)
        rc = thread_start(&io->thread, run, link, err);
    if (rc == ERR_OK)
        return ERR_OK;
    if (io->context)
        lws_context_destroy(io->context);
    free(io);
    link->io = NULL;
    return rc;
}

int link_io_port(const struct link *link)
{
    return lws_get_vhost_listen_port(link->io->vhost);
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
    free(link->io);
    link->io = NULL;
}
