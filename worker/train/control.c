#include "train/control.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/signature.h"
#include "base/thread.h"

_Static_assert(PEERS_TEXT_MAX_BYTES <= SERVER_BODY_MAX_BYTES, "a peer table fits a request");
_Static_assert(PROGRESS_TEXT_MAX_BYTES <= SERVER_ANSWER_BYTES,
               "a progress document fits an answer");

/* --- the mailbox --- */

void mailbox_init(struct mailbox *b)
{
    *b = (struct mailbox){.progress = {.eta_seconds = -1}};
    (void)pthread_mutex_init(&b->lock, NULL);
    thread_cond_init(&b->changed);
}

void mailbox_deinit(struct mailbox *b)
{
    (void)pthread_cond_destroy(&b->changed);
    (void)pthread_mutex_destroy(&b->lock);
}

void mailbox_set_progress(struct mailbox *b, const struct progress *p)
{
    pthread_mutex_lock(&b->lock);
    b->progress = *p;
    b->progress.has_peers = b->peers.n_stages > 0;
    pthread_mutex_unlock(&b->lock);
}

void mailbox_get_progress(struct mailbox *b, struct progress *out)
{
    pthread_mutex_lock(&b->lock);
    *out = b->progress;
    pthread_mutex_unlock(&b->lock);
}

static bool is_same(const struct peers *a, const struct peers *b)
{
    bool same = a->attempt == b->attempt && a->n_stages == b->n_stages;

    for (int i = 0; i < a->n_stages && same; i++)
        same = strcmp(a->stages[i].host, b->stages[i].host) == 0 &&
               strcmp(a->stages[i].node, b->stages[i].node) == 0 &&
               a->stages[i].port == b->stages[i].port;
    return same;
}

enum err_code mailbox_post_peers(struct mailbox *b, const struct peers *peers, int n_stages,
                                 struct err *err)
{
    enum err_code rc = ERR_OK;

    pthread_mutex_lock(&b->lock);
    if (peers->attempt != b->progress.attempt || (n_stages > 0 && peers->n_stages != n_stages)) {
        rc = err_set(err, ERR_CONFLICT,
                     "peer table of attempt %d with %d stages, but this is attempt %d with %d",
                     peers->attempt, peers->n_stages, b->progress.attempt, n_stages);
    } else if (b->peers.n_stages == 0) {
        b->peers = *peers;
        b->progress.has_peers = true;
        pthread_cond_broadcast(&b->changed);
    } else if (!is_same(&b->peers, peers)) {
        rc = err_set(err, ERR_CONFLICT, "a different peer table was accepted before");
    }
    pthread_mutex_unlock(&b->lock);
    return rc;
}

enum err_code mailbox_wait_peers(struct mailbox *b, int timeout_ms, struct peers *out,
                                 struct err *err)
{
    struct timespec until = thread_deadline(timeout_ms);
    enum err_code rc = ERR_OK;
    int failed = 0;

    pthread_mutex_lock(&b->lock);
    while (b->peers.n_stages == 0 && failed != ETIMEDOUT)
        failed = pthread_cond_timedwait(&b->changed, &b->lock, &until);
    if (b->peers.n_stages == 0)
        rc = err_set(err, ERR_TIMEOUT, "no peer table after %d s", timeout_ms / 1000);
    else
        *out = b->peers;
    pthread_mutex_unlock(&b->lock);
    return rc;
}

/* --- the ports --- */

struct control {
    struct control_params params;
    struct server *server;
    struct server *health; /* NULL without one */
};

static void answer(struct server_answer *out, int status, const char *text)
{
    out->status = status;
    (void)!buf_addf(&out->body, NULL, "%s\n", text); /* without memory, the status has to do */
}

static void answer_status(struct control *c, struct server_answer *out)
{
    struct progress p;
    struct err err;

    mailbox_get_progress(c->params.mailbox, &p);
    if (progress_write(&p, &out->body, &err) == ERR_OK) {
        out->type = "application/json";
        return;
    }
    buf_reset(&out->body);
    answer(out, 500, err.text);
}

static void answer_peers(struct control *c, const struct server_request *request,
                         struct server_answer *out)
{
    struct peers peers;
    struct err err;

    if (peers_parse(request->body, request->n_body, &peers, &err) != ERR_OK)
        answer(out, 400, err.text);
    else if (mailbox_post_peers(c->params.mailbox, &peers, c->params.n_stages, &err) != ERR_OK)
        answer(out, 409, err.text);
    else
        answer(out, 200, "ok");
}

static void on_request(void *ctx, const struct server_request *r, struct server_answer *out)
{
    struct control *c = ctx;
    struct signature_request is_signed = {r->method, r->path, r->body, r->n_body};
    bool is_get = strcmp(r->method, "GET") == 0;
    bool is_post = strcmp(r->method, "POST") == 0;

    if (!signature_check(&c->params.key, &is_signed, server_header(r, SIGNATURE_HEADER)))
        answer(out, 403, "not authenticated");
    else if (is_get && strcmp(r->path, "/v1/status") == 0)
        answer_status(c, out);
    else if (is_post && strcmp(r->path, "/v1/peers") == 0)
        answer_peers(c, r, out);
    else if (is_get)
        answer(out, 404, "no such page");
    else
        answer(out, 405, "method not allowed");
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
    enum err_code rc;

    if (!c)
        return err_set(err, ERR_NO_MEMORY, "no memory for the control port");
    c->params = *params;
    rc = server_open(params->host, params->port,
                     (struct server_handler){.ctx = c, .on_request = on_request}, &c->server, err);
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
