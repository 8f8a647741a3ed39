#include "fleet/fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/signature.h"
#include "base/clock.h"

#define URL_BYTES     128
#define FOLLOW_MAX_MS 250 /* between retries: on this machine a call costs nothing */

/* A call under way, in a list so that fleet_free() finds it. */
struct call {
    struct fleet *fleet;
    struct call *next;
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
    const struct progress *report = NULL;
    struct progress progress;
    struct err answer = *err;
    int status = response->status;

    while (*place != c)
        place = &(*place)->next;
    *place = c->next; /* before the handler, which may start the next one */
    c->fleet->n_calls--;
    if (answer.code == ERR_OK && status / 100 != 2) {
        (void)err_set(&answer,
                      status == 409   ? ERR_CONFLICT
                      : status == 403 ? ERR_DENIED
                      : status >= 500 ? ERR_IO
                      : status >= 400 ? ERR_INVALID
                                      : ERR_PROTOCOL,
                      "worker answered %d: %.*s", status, (int)strcspn(text, "\r\n"), text);
    } else if (answer.code == ERR_OK && c->is_status) {
        if (progress_parse(text, response->body.len, &progress, &answer) == ERR_OK)
            report = &progress;
        else
            answer.code = ERR_PROTOCOL;
    }
    c->handler.on_answer(c->handler.ctx, report, &answer);
    free(c);
}

static enum err_code start(struct fleet *f, const struct fleet_address *to, const char *path,
                           const struct buf *body, struct fleet_handler handler, struct err *err)
{
    bool is_ipv6 = strchr(to->host, ':') != NULL;
    char url[URL_BYTES];
    char signature[HMAC_TEXT_BYTES];
    char line[sizeof SIGNATURE_HEADER + 2 + HMAC_TEXT_BYTES];
    const char *headers[] = {line, NULL};
    struct http_request request = {.method = body ? "POST" : "GET",
                                   .url = url,
                                   .headers = headers,
                                   .content_type = body ? "application/json" : NULL,
                                   .body = body ? body->data : NULL,
                                   .body_bytes = body ? body->len : 0,
                                   .deadline_ms = FLEET_CALL_MS,
                                   .connect_ms = FLEET_CALL_MS,
                                   .response_max_bytes = PROGRESS_TEXT_MAX_BYTES};
    struct signature_request signs = {request.method, path, request.body, request.body_bytes};
    struct call *c;
    enum err_code rc = signature_make(&to->key, &signs, signature, err);

    if (rc != ERR_OK)
        return rc;
    c = calloc(1, sizeof *c + handler.ctx_bytes);
    if (!c)
        return err_set(err, ERR_NO_MEMORY, "no memory for a call to %s", to->host);
    (void)snprintf(line, sizeof line, SIGNATURE_HEADER ": %s", signature);
    (void)snprintf(url, sizeof url, "http://%s%s%s:%d%s", is_ipv6 ? "[" : "", to->host,
                   is_ipv6 ? "]" : "", to->port, path);
    *c = (struct call){.fleet = f, .next = f->calls, .is_status = body == NULL, .handler = handler};
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

int64_t contact_wait_ms(const struct contact *c, int64_t now_ms)
{
    return c->call_after_ms > now_ms ? c->call_after_ms - now_ms : 0;
}

void contact_answered(struct contact *c, const struct err *err, bool was_table, int64_t now_ms,
                      int64_t max_ms)
{
    bool is_ok = err->code == ERR_OK;
    bool is_refusal =
        err->code == ERR_CONFLICT || err->code == ERR_INVALID || err->code == ERR_DENIED;

    c->is_busy = false;
    if (was_table) {
        c->has_table = is_ok;
        c->is_refused = is_refusal;
        if (is_refusal)
            (void)snprintf(c->refusal, sizeof c->refusal, "%s", err->text);
    }
    if (is_ok || is_refusal) { /* a refusal is an answer; silence and an invalid one are not */
        c->n_unanswered = 0;
        c->silent_since_ms = 0;
        c->call_after_ms = is_ok ? 0 : now_ms + CONTACT_REFUSED_MS;
        return;
    }
    if (c->n_unanswered++ == 0 || c->silent_since_ms == 0)
        c->silent_since_ms = now_ms;
    c->call_after_ms = now_ms + backoff_ms(c->n_unanswered, CONTACT_RETRY_MS, max_ms);
}

/* --- follow --- */

/* The calls that send a worker its peer table, or those that ask the leader. */
struct line {
    struct follow *follow;
    struct fleet_address address;
    struct contact contact;
};

struct follow {
    struct fleet *fleet;
    struct peers peers;
    struct line lines[SPEC_STAGES_MAX];
    struct line leader;
    int64_t asked_ms; /* last call to the leader */
    bool has_progress;
    struct progress progress;
};

enum err_code follow_new(struct fleet *fleet, const struct peers *peers,
                         const struct fleet_address *control, struct follow **out, struct err *err)
{
    struct follow *f = calloc(1, sizeof *f);

    if (!f)
        return err_set(err, ERR_NO_MEMORY, "no memory to follow %d workers", peers->n_stages);
    f->fleet = fleet;
    f->peers = *peers;
    for (int s = 0; s < peers->n_stages; s++)
        f->lines[s] = (struct line){.follow = f, .address = control[s]};
    f->leader = (struct line){.follow = f, .address = control[0]};
    *out = f;
    return ERR_OK;
}

void follow_free(struct follow *f)
{
    free(f);
}

/* `progress` is NULL for a peer table and for a call that failed. */
static void on_answer(void *ctx, const struct progress *progress, const struct err *err)
{
    struct line *line = ctx;
    struct err named = *err;

    if (err->code != ERR_OK)
        (void)err_wrap(&named, err->code, "worker %s:%d", line->address.host, line->address.port);
    contact_answered(&line->contact, &named, line != &line->follow->leader, clock_now_ms(),
                     FOLLOW_MAX_MS);
    if (progress) {
        line->follow->progress = *progress;
        line->follow->has_progress = true;
    }
}

/* Call the worker if that is due. Returns how long until it is, at most FOLLOW_ASK_MS. */
static int64_t step_line(struct follow *f, struct line *line, int64_t wait_ms)
{
    struct fleet_handler handler = {.ctx = line, .on_answer = on_answer};
    struct err err = {0};
    enum err_code rc;

    if (line->contact.is_busy || line->contact.has_table || wait_ms > 0)
        return wait_ms > 0 && wait_ms < FOLLOW_ASK_MS ? wait_ms : FOLLOW_ASK_MS;
    if (line == &f->leader)
        rc = fleet_ask_status(f->fleet, &line->address, handler, &err);
    else
        rc = fleet_post_peers(f->fleet, &line->address, &f->peers, handler, &err);
    if (rc == ERR_OK)
        line->contact.is_busy = true;
    else
        on_answer(line, NULL, &err);
    return FOLLOW_ASK_MS;
}

int64_t follow_step(struct follow *f, int64_t now_ms)
{
    int64_t wait_ms = contact_wait_ms(&f->leader.contact, now_ms);
    int64_t ask_ms = f->asked_ms + FOLLOW_ASK_MS - now_ms;
    int64_t next_ms;

    if (f->asked_ms > 0 && ask_ms > wait_ms)
        wait_ms = ask_ms;
    if (wait_ms <= 0 && !f->leader.contact.is_busy)
        f->asked_ms = now_ms;
    next_ms = step_line(f, &f->leader, wait_ms);
    for (int s = 0; s < f->peers.n_stages; s++) {
        int64_t ms = step_line(f, &f->lines[s], contact_wait_ms(&f->lines[s].contact, now_ms));

        next_ms = ms < next_ms ? ms : next_ms;
    }
    return next_ms;
}

const struct progress *follow_progress(const struct follow *f)
{
    return f->has_progress ? &f->progress : NULL;
}

const char *follow_refusal(const struct follow *f)
{
    for (int s = 0; s < f->peers.n_stages; s++)
        if (f->lines[s].contact.is_refused)
            return f->lines[s].contact.refusal;
    return NULL;
}
