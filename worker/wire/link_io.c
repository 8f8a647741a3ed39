#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "wire/link_lws.h"

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

/* --- the IO thread --- */

static void dial(struct link *link, struct edge *edge, int64_t now_ms)
{
    struct conn *c = link_free_conn(link);
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
        conn_say_why(c, "cannot connect");
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
        link_kill_later(c,
                        c->state == CONN_OPENING ? "no connection in time" : "no greeting in time");
    else if (c->deadline_ms != 0 && c->deadline_ms < *next_ms)
        *next_ms = c->deadline_ms;
    if (c->state != CONN_GREETING && c->state != CONN_OPEN)
        return;
    if (conn_wants_to_write(c) || conn_is_over(c) || conn_is_aborted(c, cause))
        lws_callback_on_writable(c->wsi);
}

static void on_tick(lws_sorted_usec_list_t *tick)
{
    (void)tick; /* tend() follows */
}

/* Everything that does not answer an event: dial, give up, ask for writing. */
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

/* Can this address be listened on? libwebsockets would not say why not, and its 4.3 tries for ever
 * to bind an address that is nobody's. */
static enum err_code check_address(const char *address, int port, struct err *err)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_PASSIVE, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char service[12];
    int yes = 1, fd = -1, failed;
    enum err_code rc = ERR_OK;

    snprintf(service, sizeof service, "%d", port);
    if (getaddrinfo(address, service, &hints, &found) != 0)
        return err_set(err, ERR_INVALID, "\"%s\" is no numeric address", address);
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

/* Signals are for the caller's threads. */
static int start_thread(struct link *link)
{
    sigset_t all, before;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&link->io->thread, NULL, run, link);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
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
                                              .callback = link_on_event,
                                              .rx_buffer_size = CHUNK_MAX_BYTES,
                                              .tx_packet_size = CHUNK_MAX_BYTES};
    rc = check_address(listen_address, link->params.listen_port, err);
    if (rc == ERR_OK)
        rc = create_context(link, listen_address, err);
    if (rc != ERR_OK)
        goto fail;
    if (start_thread(link) != 0) {
        rc = err_set(err, ERR_NO_MEMORY, "cannot start the IO thread");
        goto fail;
    }
    return ERR_OK;
fail:
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
