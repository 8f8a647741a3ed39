#include "fleet/fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/signature.h"

#define URL_BYTES            128
#define SIGNATURE_LINE_BYTES (sizeof SIGNATURE_HEADER + 2 + HMAC_TEXT_BYTES)

/* A call under way, in a list so that fleet_free() finds it. */
struct call {
    struct fleet *fleet;
    struct call *next;
    struct call **place; /* what points to this one */
    uint64_t id;
    bool is_status;
    struct fleet_handler handler;
    _Alignas(max_align_t) unsigned char ctx[]; /* a copy for the handler */
};

struct fleet {
    struct http *http;
    struct call *calls;
    int n_calls;
};

enum err_code fleet_new(struct http *http, struct fleet **out, struct err *err)
{
    struct fleet *f = calloc(1, sizeof *f);

    if (!f)
        return err_set(err, ERR_NO_MEMORY, "no memory for calls to workers");
    f->http = http;
    *out = f;
    return ERR_OK;
}

int fleet_n_calls(const struct fleet *f)
{
    return f->n_calls;
}

static void unlink_call(struct call *c)
{
    *c->place = c->next;
    if (c->next)
        c->next->place = c->place;
    c->fleet->n_calls--;
}

void fleet_free(struct fleet *f)
{
    if (!f)
        return;
    while (f->calls) {
        struct call *c = f->calls;

        http_cancel(f->http, c->id);
        unlink_call(c);
        free(c);
    }
    free(f);
}

/* What a status other than 2xx means, with the worker's own sentence. */
static enum err_code refused(const struct http_response *r, struct err *err)
{
    enum err_code code = r->status == 409   ? ERR_CONFLICT
                         : r->status == 403 ? ERR_DENIED
                         : r->status >= 500 ? ERR_IO
                         : r->status >= 400 ? ERR_INVALID
                                            : ERR_PROTOCOL;
    const char *text = buf_text(&r->body);

    return err_set(err, code, "worker answered %d: %.*s", r->status, (int)strcspn(text, "\r\n"),
                   text);
}

static void on_done(void *ctx, struct http_response *response, const struct err *err)
{
    struct call *c = ctx;
    bool is_status = c->is_status;
    struct progress progress;
    struct err answer = *err;

    unlink_call(c); /* first: the handler may start the next one */
    if (answer.code == ERR_OK && response->status / 100 != 2)
        (void)refused(response, &answer);
    else if (answer.code == ERR_OK && is_status &&
             progress_parse(buf_text(&response->body), response->body.len, &progress, &answer) !=
                 ERR_OK)
        answer.code = ERR_PROTOCOL;
    c->handler.on_answer(c->handler.ctx, is_status && answer.code == ERR_OK ? &progress : NULL,
                         &answer);
    free(c);
}

static enum err_code sign(const struct fleet_address *to, const struct http_request *request,
                          const char *path, char out[static SIGNATURE_LINE_BYTES], struct err *err)
{
    struct signature_request signs = {request->method, path, request->body, request->body_bytes};
    char text[HMAC_TEXT_BYTES];
    enum err_code rc = signature_make(&to->key, &signs, text, err);

    if (rc == ERR_OK)
        (void)snprintf(out, SIGNATURE_LINE_BYTES, SIGNATURE_HEADER ": %s", text);
    return rc;
}

static enum err_code start(struct fleet *f, const struct fleet_address *to, const char *path,
                           const struct buf *body, struct fleet_handler handler, struct err *err)
{
    bool is_ipv6 = strchr(to->host, ':') != NULL;
    char url[URL_BYTES];
    char signature[SIGNATURE_LINE_BYTES];
    const char *headers[] = {signature, NULL};
    struct http_request request = {.method = body ? "POST" : "GET",
                                   .url = url,
                                   .headers = headers,
                                   .content_type = body ? "application/json" : NULL,
                                   .body = body ? body->data : NULL,
                                   .body_bytes = body ? body->len : 0,
                                   .deadline_ms = FLEET_CALL_MS,
                                   .connect_ms = FLEET_CALL_MS,
                                   .response_max_bytes = PROGRESS_TEXT_MAX_BYTES};
    struct call *c;
    enum err_code rc = sign(to, &request, path, signature, err);

    if (rc != ERR_OK)
        return rc;
    c = calloc(1, sizeof *c + handler.ctx_bytes);
    if (!c)
        return err_set(err, ERR_NO_MEMORY, "no memory for a call to %s", to->host);
    (void)snprintf(url, sizeof url, "http://%s%s%s:%d%s", is_ipv6 ? "[" : "", to->host,
                   is_ipv6 ? "]" : "", to->port, path);
    *c = (struct call){.fleet = f,
                       .next = f->calls,
                       .place = &f->calls,
                       .is_status = body == NULL,
                       .handler = handler};
    if (handler.ctx_bytes > 0)
        c->handler.ctx = memcpy(c->ctx, handler.ctx, handler.ctx_bytes);
    rc = http_start(f->http, &request, (struct http_handler){.ctx = c, .on_done = on_done}, &c->id,
                    err);
    if (rc != ERR_OK) {
        free(c);
        return err_wrap(err, rc, "call worker %s:%d", to->host, to->port);
    }
    if (c->next)
        c->next->place = &c->next;
    f->calls = c;
    f->n_calls++;
    return ERR_OK;
}

enum err_code fleet_post_peers(struct fleet *f, const struct fleet_address *to,
                               const struct peers *peers, struct fleet_handler handler,
                               struct err *err)
{
    struct buf body = {.max = PEERS_TEXT_MAX_BYTES};
    enum err_code rc = peers_write(peers, &body, err);

    if (rc == ERR_OK)
        rc = start(f, to, "/v1/peers", &body, handler, err);
    buf_deinit(&body);
    return rc;
}

enum err_code fleet_ask_status(struct fleet *f, const struct fleet_address *to,
                               struct fleet_handler handler, struct err *err)
{
    return start(f, to, "/v1/status", NULL, handler, err);
}
