#include <assert.h>
#include <netdb.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "wire/link_lws.h"
#include "wire/wsframe.h"

static_assert(CHUNK_ROOM_BYTES >= LWS_PRE && CHUNK_ROOM_BYTES >= WSFRAME_HEAD_MAX,
              "websocket headers fit in front of a chunk");

/* --- connections and their wsi --- */

/* The connection of a wsi; NULL when its entry is already free or used again. */
static struct conn *conn_of(struct lws *wsi)
{
    struct conn *c = lws_get_opaque_user_data(wsi);

    return c && c->state != CONN_FREE && c->wsi == wsi ? c : NULL;
}

struct conn *link_free_conn(struct link *link)
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

void link_kill_later(struct conn *c, const char *why)
{
    if (c->kill_asked)
        return;
    c->kill_asked = true;
    conn_say_why(c, "%s", why);
    lws_set_timeout(c->wsi, PENDING_TIMEOUT_USER_REASON_BASE, LWS_TO_KILL_ASYNC);
}

/* Start the end of a websocket, with the reason in its close frame; returns what the callback has
 * to return. */
static int hang_up(struct conn *c, enum lws_close_status status, const char *why)
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
    conn_say_why(c, "this stage has failed");
    return hang_up(c, (enum lws_close_status)CLOSE_CAUSE, cause);
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

/* A new connection: is there room for one more stranger? Those from a neighbour's address have
 * places of their own, so that no flood from elsewhere keeps the neighbour out. */
static int on_knock(struct link *link, int fd)
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
    link->knocks_as_neighbour = is_neighbour;
    if (n_strangers < (is_neighbour ? LINK_NEIGHBOURS_MAX : LINK_STRANGERS_MAX))
        return 0;
    /* A neighbour dials again soon; make room for it. */
    if (now_ms - oldest->since_ms > STRANGER_GRACE_MS)
        link_kill_later(oldest, "evicted: too many unauthenticated connections");
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
    c = link_free_conn(link);
    if (!c)
        return -1; /* cannot be: on_knock() counts */
    conn_init(c, link, NULL, clock_now_ms());
    c->is_from_neighbour = link->knocks_as_neighbour;
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
    c->heard_ms = clock_now_ms();
    conn_established(c, nonce);
    return 0;
}

static int on_receive(struct lws *wsi, const void *bytes, size_t n)
{
    struct conn *c = conn_of(wsi);

    if (!c || c->state == CONN_CLOSING)
        return 0;
    c->heard_ms = clock_now_ms();
    if (!lws_frame_is_binary(wsi)) {
        conn_break(c, "text instead of binary frames");
        return hang_up(c, LWS_CLOSE_STATUS_UNACCEPTABLE_OPCODE, conn_public_why(c));
    }
    if (n > 0 && conn_receive(c, bytes, n) != ERR_OK)
        return hang_up(c, LWS_CLOSE_STATUS_POLICY_VIOLATION, conn_public_why(c));
    return 0;
}

static int on_pong(struct lws *wsi)
{
    struct conn *c = conn_of(wsi);

    if (c)
        c->heard_ms = clock_now_ms();
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
        conn_say_why(c, "the goodbye was said");
        return hang_up(c, LWS_CLOSE_STATUS_NORMAL, "");
    }
    if (!conn_next_chunk(c, &chunk))
        return 0; /* libwebsockets also calls unasked */
    if ((c->dialed ? write_masked(wsi, &chunk) : write_plain(wsi, &chunk)) < 0) {
        conn_say_why(c, "writing failed");
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
    conn_say_why(c, text[0] ? "it hung up: %s" : "it hung up%s", text);
    return 0;
}

static int on_gone(struct lws *wsi, const char *why, size_t n)
{
    struct conn *c = conn_of(wsi);

    if (!c)
        return 0;
    if (why && n > 0)
        conn_say_why(c, "%.*s", (int)strnlen(why, n), why);
    conn_gone(c, clock_now_ms());
    return 0;
}

int link_on_event(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t n)
{
    struct link *link = lws_context_user(lws_get_context(wsi));

    (void)user;
    switch (reason) {
    case LWS_CALLBACK_FILTER_NETWORK_CONNECTION:
        return on_knock(link, (int)(intptr_t)in);
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
