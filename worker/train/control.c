#include "train/control.h"

#include <stdlib.h>
#include <string.h>

#include "api/signature.h"
#include "base/clock.h"
#include "base/log.h"

#define TURNS 30 /* within the time after which a worker is abandoned */

_Static_assert(PEERS_TEXT_MAX_BYTES <= SERVER_BODY_MAX_BYTES, "a peer table fits a request");
_Static_assert(REVISION_POST_MAX_BYTES <= SERVER_BODY_ADMITTED_MAX_BYTES,
               "a revision fits a request");
_Static_assert(PROGRESS_TEXT_MAX_BYTES <= SERVER_ANSWER_BYTES &&
                   REPORT_TEXT_MAX_BYTES <= SERVER_ANSWER_BYTES,
               "a progress document and a report fit an answer");

/* --- the ports --- */

struct control {
    struct control_params params;
    struct server *server;
    struct server *health; /* NULL without one */
    /* Of the control port's thread: */
    int64_t called_ms;   /* the last request that was signed; 0: none */
    int64_t leaving_ms;  /* since when the worker leaves; 0: it does not */
    bool is_ordered;     /* to end the process */
    bool has_ended;      /* on_end has been called */
    int64_t renew_at_ms; /* when the credentials are read again */
};

static void answer(struct server_answer *out, int status, const char *text)
{
    out->status = status;
    (void)!buf_addf(&out->body, NULL, "%s\n", text); /* without memory the status must suffice */
}

/* With the document in the answer's body, or with the reason why it could not be written. */
static void answer_document(struct server_answer *out, enum err_code rc, const struct err *err)
{
    if (rc == ERR_OK) {
        out->type = "application/json";
        return;
    }
    buf_reset(&out->body);
    answer(out, 500, err->text);
}

/* After an order: `parsed` is whether its document was read, `taken` whether it was accepted. */
static void answer_order(struct server_answer *out, enum err_code parsed, enum err_code taken,
                         const struct err *err)
{
    if (parsed != ERR_OK || taken != ERR_OK)
        answer(out, parsed != ERR_OK ? 400 : taken == ERR_CONFLICT ? 409 : 500, err->text);
    else
        answer(out, 200, "ok");
}

static void get_status(struct control *c, const struct server_request *r, struct server_answer *out)
{
    struct progress p;
    struct err err;

    (void)r;
    mailbox_get_progress(c->params.mailbox, &p);
    answer_document(out, progress_write(&p, &out->body, &err), &err);
}

static void get_report(struct control *c, const struct server_request *r, struct server_answer *out)
{
    struct report report;
    struct err err;

    (void)r;
    mailbox_get_report(c->params.mailbox, &report);
    answer_document(out, report_write(&report, &out->body, &err), &err);
}

static void post_revision(struct control *c, const struct server_request *r,
                          struct server_answer *out)
{
    struct revision *revision = malloc(sizeof *revision);
    struct peers addresses;
    struct err err = {0};
    enum err_code parsed, taken = ERR_OK;

    if (!revision) {
        answer(out, 500, "no memory for a revision");
        return;
    }
    parsed = revision_post_parse(r->body, r->n_body, revision, &addresses, &err);
    if (parsed == ERR_OK)
        taken = mailbox_post_revision(c->params.mailbox, revision, &addresses, &err);
    answer_order(out, parsed, taken, &err);
    free(revision);
}

static void post_halt(struct control *c, const struct server_request *r, struct server_answer *out)
{
    int number;
    struct err err = {0};
    enum err_code parsed = revision_order_parse(r->body, r->n_body, &number, &err);
    enum err_code taken = ERR_OK;

    if (parsed == ERR_OK)
        taken = mailbox_halt(c->params.mailbox, number, &err);
    answer_order(out, parsed, taken, &err);
}

/* Takes effect in on_turn(), when the answer has been sent. */
static void post_end(struct control *c, const struct server_request *r, struct server_answer *out)
{
    (void)r;
    c->is_ordered = true;
    answer(out, 200, "ok");
}

static void post_checkpoint(struct control *c, const struct server_request *r,
                            struct server_answer *out)
{
    int64_t order;
    struct err err = {0};
    enum err_code parsed = progress_order_parse(r->body, r->n_body, &order, &err);

    if (parsed == ERR_OK)
        mailbox_order_checkpoint(c->params.mailbox, order);
    answer_order(out, parsed, ERR_OK, &err);
}

static void post_peers(struct control *c, const struct server_request *r, struct server_answer *out)
{
    struct peers peers;
    struct err err = {0};
    enum err_code parsed = peers_parse(r->body, r->n_body, &peers, &err);
    enum err_code taken = ERR_OK;

    if (parsed == ERR_OK)
        taken = mailbox_post_peers(c->params.mailbox, &peers, &err);
    answer_order(out, parsed, taken, &err);
}

static const struct page {
    const char *method, *path;
    void (*answer)(struct control *c, const struct server_request *r, struct server_answer *out);
    bool needs_revisions, needs_table; /* a worker that takes them */
} pages[] = {
    {"GET", "/v1/status", get_status, false, false},
    {"GET", "/v1/report", get_report, true, false},
    {"POST", "/v1/revision", post_revision, true, false},
    {"POST", "/v1/halt", post_halt, true, false},
    {"POST", "/v1/end", post_end, true, false},
    {"POST", "/v1/checkpoint", post_checkpoint, true, false},
    {"POST", "/v1/peers", post_peers, false, true},
};

static void on_request(void *ctx, const struct server_request *r, struct server_answer *out)
{
    struct control *c = ctx;
    bool takes_revisions = c->params.takes_revisions;
    struct signature_request is_signed = {r->method, r->path, r->body, r->n_body};

    if (!signature_check(&c->params.key, &is_signed, server_header(r, SIGNATURE_HEADER))) {
        answer(out, 403, "not authenticated");
        return;
    }
    c->called_ms = clock_now_ms();
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        const struct page *p = &pages[i];

        if (strcmp(r->method, p->method) != 0 || strcmp(r->path, p->path) != 0 ||
            (takes_revisions ? p->needs_table : p->needs_revisions))
            continue;
        p->answer(c, r, out);
        return;
    }
    if (strcmp(r->method, "GET") == 0)
        answer(out, 404, "no such page");
    else
        answer(out, 405, "method not allowed");
}

static bool is_abandoned(const struct control *c, int64_t now_ms)
{
    int64_t since_ms = c->called_ms > c->leaving_ms ? c->called_ms : c->leaving_ms;

    return c->leaving_ms > 0 && now_ms - since_ms >= c->params.abandoned_ms;
}

/* A failure is not the worker's end: the old certificate may still be valid for days. */
static void renew(struct control *c, int64_t now_ms)
{
    struct tls_identity *renewed = NULL;
    struct err err;
    bool is_new;
    enum err_code rc;

    if (!c->params.credentials || now_ms < c->renew_at_ms)
        return;
    c->renew_at_ms = now_ms + c->params.renew_ms;
    rc = credentials_refresh(c->params.credentials, &is_new, &err);
    if (rc == ERR_OK && is_new) {
        renewed = credentials_identity(c->params.credentials);
        rc = server_renew(c->server, renewed, &err);
        tls_identity_free(renewed);
    }
    if (rc != ERR_OK)
        LOG(LOG_WARN, "certificate not renewed", LOG_S("error", err.text));
    else if (is_new)
        LOG(LOG_INFO, "certificate renewed");
}

static int on_turn(void *ctx)
{
    struct control *c = ctx;
    int64_t now_ms = clock_now_ms();

    renew(c, now_ms);
    if (c->leaving_ms == 0 && mailbox_is_leaving(c->params.mailbox))
        c->leaving_ms = now_ms;
    if (!c->has_ended && c->params.on_end && (c->is_ordered || is_abandoned(c, now_ms))) {
        c->has_ended = true;
        c->params.on_end(c->params.end_ctx, c->is_ordered ? "ordered by the operator"
                                                          : "leaving, and no operator calls");
    }
    return (int)(c->params.abandoned_ms / TURNS) + 1;
}

/* Only a revision is large. */
static bool admits(void *ctx, const struct server_request *r)
{
    struct control *c = ctx;
    struct signature_request is_signed = {r->method, r->path, NULL, r->n_body};

    return c->params.takes_revisions && r->n_body <= REVISION_POST_MAX_BYTES &&
           signature_check_head(&c->params.key, &is_signed,
                                server_header(r, SIGNATURE_HEAD_HEADER));
}

static void on_health_request(void *ctx, const struct server_request *r, struct server_answer *out)
{
    bool is_readiness = strcmp(r->path, "/readyz") == 0;
    struct control *c = ctx;

    if (strcmp(r->method, "GET") != 0)
        answer(out, 405, "method not allowed");
    else if (!is_readiness && strcmp(r->path, "/healthz") != 0)
        answer(out, 404, "no such page");
    else if (is_readiness && !atomic_load(&c->params.mailbox->is_ready))
        answer(out, 503, "not connected to the neighbours yet");
    else
        answer(out, 200, "ok");
}

enum err_code control_open(const struct control_params *params, struct control **out,
                           struct err *err)
{
    struct control *c = calloc(1, sizeof *c);
    struct server_handler handler = {
        .ctx = c, .on_request = on_request, .admits = admits, .on_turn = on_turn};
    struct tls_identity *identity;
    enum err_code rc;

    if (!c)
        return err_set(err, ERR_NO_MEMORY, "no memory for the control port");
    c->params = *params;
    if (c->params.abandoned_ms == 0)
        c->params.abandoned_ms = CONTROL_ABANDONED_MS;
    if (c->params.renew_ms == 0)
        c->params.renew_ms = CONTROL_RENEW_MS;
    c->renew_at_ms = clock_now_ms() + c->params.renew_ms;
    identity = credentials_identity(params->credentials);
    handler.identity = identity;
    credentials_operator_name(params->credentials, handler.client);
    rc = server_open(params->host, params->port, handler, &c->server, err);
    tls_identity_free(identity);
    if (rc != ERR_OK)
        rc = err_wrap(err, rc, "control port");
    if (rc == ERR_OK && params->health_host) {
        rc = server_open(params->health_host, params->health_port,
                         (struct server_handler){.ctx = c, .on_request = on_health_request},
                         &c->health, err);
        if (rc != ERR_OK)
            rc = err_wrap(err, rc, "health port");
    }
    if (rc == ERR_OK)
        *out = c;
    else
        control_close(c);
    return rc;
}

void control_close(struct control *control)
{
    if (!control)
        return;
    server_close(control->server);
    server_close(control->health);
    free(control);
}
