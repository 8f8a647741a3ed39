#include "pipe/control.h"

#include <libwebsockets.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define BODY_MAX_BYTES PEERS_TEXT_MAX_BYTES
#define TIMEOUT_S      10

struct control {
    struct lws_context *context;
    struct board *board;
    int n_stages;
    atomic_bool stops;
    pthread_t thread;
};

/* One connection. libwebsockets zeroes it for each new one and frees it. */
struct session {
    bool is_post;
    bool is_answered; /* the request is done with: its body, if more comes, is dropped */
    size_t n_body;
    size_t n_answer;
    char body[BODY_MAX_BYTES];
    unsigned char answer[LWS_PRE + BODY_MAX_BYTES];
};

static int answer(struct lws *wsi, struct session *s, unsigned status, const char *type,
                  const char *text)
{
    unsigned char head[LWS_PRE + 512];
    unsigned char *start = head + LWS_PRE;
    unsigned char *p = start;
    unsigned char *end = head + sizeof head - 1;

    s->n_answer = strnlen(text, BODY_MAX_BYTES);
    s->is_answered = true;
    memcpy(s->answer + LWS_PRE, text, s->n_answer);
    if (lws_add_http_common_headers(wsi, status, type, s->n_answer, &p, end) ||
        lws_finalize_write_http_header(wsi, start, &p, end))
        return 1;
    if (s->n_answer == 0)
        return lws_http_transaction_completed(wsi);
    lws_callback_on_writable(wsi);
    return 0;
}

static int answer_status(struct control *c, struct lws *wsi, struct session *s)
{
    struct buf text = {.max = BODY_MAX_BYTES - 1};
    struct progress p;
    struct err err;
    int rc;

    board_get_progress(c->board, &p);
    if (progress_write(&p, &text, &err) == ERR_OK)
        rc = answer(wsi, s, 200, "application/json", buf_text(&text));
    else
        rc = answer(wsi, s, 500, "text/plain", err.text);
    buf_deinit(&text);
    return rc;
}

static int answer_peers(struct control *c, struct lws *wsi, struct session *s)
{
    struct peers peers;
    struct err err;

    if (peers_parse(s->body, s->n_body, &peers, &err) != ERR_OK)
        return answer(wsi, s, 400, "text/plain", err.text);
    if (board_post_peers(c->board, &peers, c->n_stages, &err) != ERR_OK)
        return answer(wsi, s, 409, "text/plain", err.text);
    return answer(wsi, s, 200, "text/plain", "ok\n");
}

static int on_request(struct control *c, struct lws *wsi, struct session *s, const char *path)
{
    s->is_post = lws_hdr_total_length(wsi, WSI_TOKEN_POST_URI) > 0;
    s->is_answered = false;
    s->n_body = 0;
    if (s->is_post && strcmp(path, "/v1/peers") == 0)
        return 0; /* the answer comes with the body */
    if (s->is_post || lws_hdr_total_length(wsi, WSI_TOKEN_GET_URI) == 0)
        return answer(wsi, s, 405, "text/plain", "method not allowed\n");
    if (strcmp(path, "/v1/status") == 0)
        return answer_status(c, wsi, s);
    if (strcmp(path, "/healthz") == 0)
        return answer(wsi, s, 200, "text/plain", "ok\n");
    if (strcmp(path, "/readyz") == 0 && board_is_ready(c->board))
        return answer(wsi, s, 200, "text/plain", "ok\n");
    if (strcmp(path, "/readyz") == 0)
        return answer(wsi, s, 503, "text/plain", "not connected to the neighbours yet\n");
    return answer(wsi, s, 404, "text/plain", "no such page\n");
}

static int on_body(struct lws *wsi, struct session *s, const void *bytes, size_t n)
{
    if (s->is_answered)
        return 0;
    if (n > BODY_MAX_BYTES - s->n_body)
        return answer(wsi, s, 413, "text/plain", "body too large\n");
    memcpy(s->body + s->n_body, bytes, n);
    s->n_body += n;
    return 0;
}

static int on_writeable(struct lws *wsi, struct session *s)
{
    int n = (int)s->n_answer;

    if (!s->is_answered || n == 0)
        return 0;
    if (lws_write(wsi, s->answer + LWS_PRE, (size_t)n, LWS_WRITE_HTTP_FINAL) != n)
        return 1;
    s->n_answer = 0;
    return lws_http_transaction_completed(wsi) ? -1 : 0;
}

static int callback(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in,
                    size_t len)
{
    struct control *c = lws_context_user(lws_get_context(wsi));
    struct session *s = user;

    switch (reason) {
    case LWS_CALLBACK_HTTP:
        return on_request(c, wsi, s, in);
    case LWS_CALLBACK_HTTP_BODY:
        return on_body(wsi, s, in, len);
    case LWS_CALLBACK_HTTP_BODY_COMPLETION:
        return s->is_answered ? 0 : answer_peers(c, wsi, s);
    case LWS_CALLBACK_HTTP_WRITEABLE:
        return on_writeable(wsi, s);
    case LWS_CALLBACK_HTTP_CONFIRM_UPGRADE:
        return 1; /* nothing here is a websocket */
    default:
        return 0;
    }
}

static void *serve(void *arg)
{
    struct control *c = arg;

    while (!atomic_load(&c->stops))
        if (lws_service(c->context, 0) < 0)
            break;
    return NULL;
}

enum err_code control_open(const char *address, int port, int n_stages, struct board *board,
                           struct control **out, struct err *err)
{
    static const struct lws_protocols protocols[] = {
        {.name = "http", .callback = callback, .per_session_data_size = sizeof(struct session)},
        {.name = NULL},
    };
    struct lws_context_creation_info info = {
        .iface = strcmp(address, "0.0.0.0") == 0 ? NULL : address,
        .port = port,
        .protocols = protocols,
        .options = LWS_SERVER_OPTION_DISABLE_IPV6 | LWS_SERVER_OPTION_FAIL_UPON_UNABLE_TO_BIND,
        .timeout_secs = TIMEOUT_S,
        .keepalive_timeout = TIMEOUT_S,
        .fd_limit_per_thread = CONTROL_CONNECTIONS_MAX,
    };
    struct control *c = calloc(1, sizeof *c);

    if (!c)
        return err_set(err, ERR_NO_MEMORY, "no memory for the control port");
    c->board = board;
    c->n_stages = n_stages;
    info.user = c;
    lws_set_log_level(0, NULL);
    c->context = lws_create_context(&info);
    if (!c->context) {
        free(c);
        return err_set(err, ERR_IO, "control port %s:%d: cannot listen there; is it taken?",
                       address, port);
    }
    if (pthread_create(&c->thread, NULL, serve, c) != 0) {
        lws_context_destroy(c->context);
        free(c);
        return err_set(err, ERR_NO_MEMORY, "no thread for the control port");
    }
    *out = c;
    return ERR_OK;
}

void control_close(struct control *control)
{
    if (!control)
        return;
    atomic_store(&control->stops, true);
    lws_cancel_service(control->context);
    (void)pthread_join(control->thread, NULL);
    lws_context_destroy(control->context);
    free(control);
}
