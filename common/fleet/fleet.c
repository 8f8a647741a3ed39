#include "fleet/fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/signature.h"
#include "base/clock.h"

#define URL_BYTES   192
#define STATUS_PATH "/v1/status"

/* A call under way, in a list so that fleet_free() finds it. */
struct call {
    struct fleet *fleet;
    struct call *next;
    uint64_t id;
    enum asked {
        ASKED_NOTHING,
        ASKED_STATUS,
        ASKED_REPORT,
    } asked;
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

void fleet_free(struct fleet *f)
{
    if (!f)
        return;
    for (struct call *c = f->calls, *next; c; c = next) {
        next = c->next;
        http_cancel(f->http, c->id);
        free(c);
    }
    free(f);
}

static void on_done(void *ctx, struct http_response *response, const struct err *err)
{
    struct call *c = ctx;
    struct call **place = &c->fleet->calls;
    const char *text = buf_text(&response->body);
    struct fleet_answer answer = {.report = NULL};
    struct progress progress;
    struct report report;
    struct err why = *err;
    int status = response->status;

    if (why.code == ERR_DENIED) /* another's certificate: the worker itself has not refused */
        why.code = ERR_IO;
    while (*place != c)
        place = &(*place)->next;
    *place = c->next; /* before the handler, which may start the next one */
    c->fleet->n_calls--;
    if (why.code == ERR_OK && status / 100 != 2) {
        (void)err_set(&why,
                      status == 409   ? ERR_CONFLICT
                      : status == 403 ? ERR_DENIED
                      : status >= 500 ? ERR_IO
                      : status >= 400 ? ERR_INVALID
                                      : ERR_PROTOCOL,
                      "worker answered %d: %.*s", status, (int)strcspn(text, "\r\n"), text);
    } else if (why.code == ERR_OK && c->asked == ASKED_STATUS) {
        if (progress_parse(text, response->body.len, &progress, &why) == ERR_OK)
            answer.progress = &progress;
    } else if (why.code == ERR_OK && c->asked == ASKED_REPORT) {
        if (report_parse(text, response->body.len, &report, &why) == ERR_OK)
            answer.report = &report;
    }
    if (why.code == ERR_INVALID && status / 100 == 2)
        why.code = ERR_PROTOCOL; /* it is not a worker's answer */
    c->handler.on_answer(c->handler.ctx, &answer, &why);
    free(c);
}

/* Post `body` or, without one, get `path`. */
static enum err_code start(struct fleet *f, const struct fleet_address *to, const char *path,
                           const struct buf *body, struct fleet_handler handler, struct err *err)
{
    enum asked asked = body                             ? ASKED_NOTHING
                       : strcmp(path, STATUS_PATH) == 0 ? ASKED_STATUS
                                                        : ASKED_REPORT;
    const char *host = to->identity ? to->name : to->host;
    bool is_ipv6 = strchr(host, ':') != NULL;
    char url[URL_BYTES];
    char signature[HMAC_TEXT_BYTES] = "";
    char lines[2][sizeof SIGNATURE_HEAD_HEADER + 2 + HMAC_TEXT_BYTES];
    const char *headers[] = {lines[0], lines[1], NULL};
    struct http_request request = {.method = body ? "POST" : "GET",
                                   .url = url,
                                   .connect_to = to->identity ? to->host : NULL,
                                   .tls.identity = to->identity,
                                   .headers = headers,
                                   .content_type = body ? "application/json" : NULL,
                                   .body = body ? body->data : NULL,
                                   .body_bytes = body ? body->len : 0,
                                   .closes = to->closes,
                                   .deadline_ms = FLEET_CALL_MS,
                                   .connect_ms = FLEET_CALL_MS,
                                   .response_max_bytes = asked == ASKED_REPORT
                                                             ? REPORT_TEXT_MAX_BYTES
                                                             : PROGRESS_TEXT_MAX_BYTES};
    struct signature_request signs = {request.method, path, request.body, request.body_bytes};
    struct call *c;
    enum err_code rc = signature_make(&to->key, &signs, signature, err);

    (void)snprintf(lines[0], sizeof lines[0], SIGNATURE_HEADER ": %s", signature);
    if (rc == ERR_OK)
        rc = signature_make_head(&to->key, &signs, signature, err);
    (void)snprintf(lines[1], sizeof lines[1], SIGNATURE_HEAD_HEADER ": %s", signature);
    if (rc != ERR_OK)
        return rc;
    c = calloc(1, sizeof *c + handler.ctx_bytes);
    if (!c)
        return err_set(err, ERR_NO_MEMORY, "no memory for a call to %s", to->host);
    (void)snprintf(url, sizeof url, "%s://%s%s%s:%d%s", to->identity ? "https" : "http",
                   is_ipv6 ? "[" : "", host, is_ipv6 ? "]" : "", to->port, path);
    *c = (struct call){.fleet = f, .next = f->calls, .asked = asked, .handler = handler};
    if (handler.ctx_bytes > 0)
        c->handler.ctx = memcpy(c->ctx, handler.ctx, handler.ctx_bytes);
    rc = http_start(f->http, &request, (struct http_handler){.ctx = c, .on_done = on_done}, &c->id,
                    err);
    if (rc != ERR_OK) {
        free(c);
        return err_wrap(err, rc, "call worker %s:%d", to->host, to->port);
    }
    f->calls = c;
    f->n_calls++;
    return ERR_OK;
}

enum err_code fleet_post_revision(struct fleet *f, const struct fleet_address *to,
                                  const struct buf *text, const struct peers *peers,
                                  struct fleet_handler handler, struct err *err)
{
    struct buf body = {.max = REVISION_POST_MAX_BYTES};
    enum err_code rc = revision_post_write(text->data, text->len, peers, &body, err);

    if (rc == ERR_OK)
        rc = start(f, to, "/v1/revision", &body, handler, err);
    buf_deinit(&body);
    return rc;
}

enum err_code fleet_halt(struct fleet *f, const struct fleet_address *to, int revision,
                         struct fleet_handler handler, struct err *err)
{
    struct buf body = {.max = REVISION_ORDER_MAX_BYTES};
    enum err_code rc = revision_order_write(revision, &body, err);

    if (rc == ERR_OK)
        rc = start(f, to, "/v1/halt", &body, handler, err);
    buf_deinit(&body);
    return rc;
}

enum err_code fleet_end(struct fleet *f, const struct fleet_address *to,
                        struct fleet_handler handler, struct err *err)
{
    const struct buf nothing = {0};

    return start(f, to, "/v1/end", &nothing, handler, err);
}

enum err_code fleet_order_checkpoint(struct fleet *f, const struct fleet_address *to, int64_t order,
                                     struct fleet_handler handler, struct err *err)
{
    struct buf body = {.max = PROGRESS_ORDER_BYTES};
    enum err_code rc = progress_order_write(order, &body, err);

    if (rc == ERR_OK)
        rc = start(f, to, "/v1/checkpoint", &body, handler, err);
    buf_deinit(&body);
    return rc;
}

enum err_code fleet_ask_report(struct fleet *f, const struct fleet_address *to,
                               struct fleet_handler handler, struct err *err)
{
    return start(f, to, "/v1/report", NULL, handler, err);
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
    return start(f, to, STATUS_PATH, NULL, handler, err);
}

int64_t contact_wait_ms(const struct contact *c, int64_t now_ms)
{
    return c->call_after_ms > now_ms ? c->call_after_ms - now_ms : 0;
}

void contact_answered(struct contact *c, const struct err *err, int posted, int64_t now_ms,
                      int64_t max_ms)
{
    bool is_ok = err->code == ERR_OK;
    bool is_refusal =
        err->code == ERR_CONFLICT || err->code == ERR_INVALID || err->code == ERR_DENIED;

    c->is_busy = false;
    if (posted > 0) {
        c->accepted = is_ok ? posted : c->accepted;
        c->is_refused = is_refusal;
        if (is_refusal)
            (void)snprintf(c->refusal, sizeof c->refusal, "%s", err->text);
    }
    if (is_ok || is_refusal) { /* a refusal counts as an answer; a malformed reply does not */
        c->n_unanswered = 0;
        c->silent_since_ms = 0;
        c->call_after_ms = is_ok ? 0 : now_ms + CONTACT_REFUSED_MS;
        return;
    }
    if (c->n_unanswered++ == 0 || c->silent_since_ms == 0)
        c->silent_since_ms = now_ms;
    c->call_after_ms = now_ms + backoff_ms(c->n_unanswered, CONTACT_RETRY_MS, max_ms);
}
