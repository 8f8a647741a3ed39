#include "train/control.h"

#include <stdlib.h>
#include <string.h>

#include "api/signature.h"
#include "base/clock.h"
#include "base/families.h"
#include "base/log.h"
#include "base/process.h"
#include "train/metrics.h"

#define JSON_TYPE "application/json"

#define TURNS 30 /* within the time after which a worker is abandoned */

_Static_assert(PEERS_TEXT_MAX_BYTES <= SERVER_BODY_MAX_BYTES, "a peer table fits a request");
_Static_assert(REVISION_POST_MAX_BYTES <= SERVER_BODY_ADMITTED_MAX_BYTES,
               "a revision fits a request");
_Static_assert(PROGRESS_TEXT_MAX_BYTES <= SERVER_ANSWER_BYTES &&
                   REPORT_TEXT_MAX_BYTES <= SERVER_ANSWER_BYTES,
               "a progress document and a report fit an answer");
_Static_assert(METRICS_BYTES + PROCESS_FAMILIES_BYTES <= SERVER_ANSWER_BYTES,
               "the metrics fit an answer");

/* --- the ports --- */

struct control {
    struct control_params params;
    struct server *server;
    struct server *health;  /* NULL without one ... */
    struct server *metrics; /* ... likewise */
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
static void answer_document(struct server_answer *out, const char *type, enum err_code rc,
                            const struct err *err)
{
    if (rc == ERR_OK) {
        out->type = type;
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
    answer_document(out, JSON_TYPE, progress_write(&p, &out->body, &err), &err);
}

static void get_report(struct control *c, const struct server_request *r, struct server_answer *out)
{
    struct report report;
    struct err err;

    (void)r;
    mailbox_get_report(c->params.mailbox, &report);
    answer_document(out, JSON_TYPE, report_write(&report, &out->body, &err), &err);
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
static void renew(struct server *server, struct credentials *credentials, const char *port)
{
    struct tls_identity *renewed = NULL;
    struct err err;
    bool is_new;
    enum err_code rc = credentials_refresh(credentials, &is_new, &err);

    if (rc == ERR_OK && is_new) {
        renewed = credentials_identity(credentials);
        rc = server_renew(server, renewed, &err);
        tls_identity_free(renewed);
    }
    if (rc != ERR_OK)
        LOG(LOG_WARN, "certificate not renewed", LOG_S("port", port), LOG_S("error", err.text));
    else if (is_new)
        LOG(LOG_INFO, "certificate renewed", LOG_S("port", port));
}

static int on_turn(void *ctx)
{
    struct control *c = ctx;
    int64_t now_ms = clock_now_ms();

    if (now_ms >= c->renew_at_ms) {
        c->renew_at_ms = now_ms + c->params.renew_ms;
        renew(c->server, c->params.credentials, "control");
        renew(c->metrics, c->params.metrics_credentials, "metrics");
    }
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

static void on_metrics_request(void *ctx, const struct server_request *r, struct server_answer *out)
{
    size_t n = strcspn(r->path, "?");
    struct control *c = ctx;
    struct metrics metrics;
    struct process process;
    struct err err;
    enum err_code rc;

    if (strcmp(r->method, "GET") != 0) {
        answer(out, 405, "method not allowed");
        return;
    }
    if (n != strlen("/metrics") || strncmp(r->path, "/metrics", n) != 0) {
        answer(out, 404, "no such page");
        return;
    }
    metrics_read(c->params.mailbox, &metrics);
    rc = metrics_write(&metrics, &out->body, &err);
    if (rc == ERR_OK)
        rc = process_read(&process, &err);
    if (rc == ERR_OK)
        rc = process_write(&process, &out->body, &err);
    answer_document(out, FAMILIES_TYPE, rc, &err);
}

/* Listen, with the credentials' identity if there are any, for this client only. */
static enum err_code open_port(const char *host, int port, struct credentials *credentials,
                               struct server_handler handler, const char *name, struct server **out,
                               struct err *err)
{
    struct tls_identity *identity = credentials_identity(credentials);
    enum err_code rc;

    handler.identity = identity;
    rc = server_open(host, port, handler, out, err);
    tls_identity_free(identity);
    return rc == ERR_OK ? ERR_OK : err_wrap(err, rc, "%s port", name);
}

enum err_code control_open(const struct control_params *params, struct control **out,
                           struct err *err)
{
    struct control *c = calloc(1, sizeof *c);
    struct server_handler handler = {
        .ctx = c, .on_request = on_request, .admits = admits, .on_turn = on_turn};
    enum err_code rc = ERR_OK;

    if (!c)
        return err_set(err, ERR_NO_MEMORY, "no memory for the control port");
    c->params = *params;
    if (c->params.abandoned_ms == 0)
        c->params.abandoned_ms = CONTROL_ABANDONED_MS;
    if (c->params.renew_ms == 0)
        c->params.renew_ms = CONTROL_RENEW_MS;
    c->renew_at_ms = clock_now_ms() + c->params.renew_ms;
    if (params->metrics_host) /* first: the control port's thread renews its certificate */
        rc = open_port(params->metrics_host, params->metrics_port, params->metrics_credentials,
                       (struct server_handler){
                           .ctx = c, .on_request = on_metrics_request, .client = NAMES_READER_DNS},
                       "metrics", &c->metrics, err);
    if (rc == ERR_OK && params->health_host)
        rc = open_port(params->health_host, params->health_port, NULL,
                       (struct server_handler){.ctx = c, .on_request = on_health_request}, "health",
                       &c->health, err);
    credentials_operator_name(params->credentials, handler.client);
    if (rc == ERR_OK)
        rc = open_port(params->host, params->port, params->credentials, handler, "control",
                       &c->server, err);
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
    server_close(control->metrics);
    free(control);
}
