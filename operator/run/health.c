#include "run/health.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "http/server.h"

struct health {
    struct server *server;
    int64_t (*turned_ms)(void *ctx);
    void *ctx;
    atomic_bool is_ready;
};

static void answer(struct server_answer *out, int status, const char *text)
{
    out->status = status;
    (void)!buf_addf(&out->body, NULL, "%s\n", text); /* without memory, the status has to do */
}

static void on_request(void *ctx, const struct server_request *r, struct server_answer *out)
{
    struct health *h = ctx;
    bool is_late = clock_now_ms() - h->turned_ms(h->ctx) >= HEALTH_STALLED_MS;
    bool is_ready = h->is_ready;
    char path[16];

    (void)snprintf(path, sizeof path, "%.*s", (int)strcspn(r->path, "?"), r->path);
    if (strcmp(r->method, "GET") != 0) {
        answer(out, 405, "only GET is allowed");
    } else if (strcmp(path, "/healthz") == 0) {
        answer(out, is_late ? 503 : 200, is_late ? "the main loop hangs" : "ok");
    } else if (strcmp(path, "/readyz") == 0) {
        answer(out, is_ready ? 200 : 503, is_ready ? "ok" : "still listing the cluster's objects");
    } else {
        answer(out, 404, "try /healthz or /readyz");
    }
}

enum err_code health_open(const char *address, int64_t (*turned_ms)(void *ctx), void *ctx,
                          struct health **out, struct err *err)
{
    struct health *h = calloc(1, sizeof *h);
    enum err_code rc;

    if (!h)
        return err_set(err, ERR_NO_MEMORY, "no memory for the health port");
    h->turned_ms = turned_ms;
    h->ctx = ctx;
    rc = server_open_at(address, (struct server_handler){.ctx = h, .on_request = on_request},
                        &h->server, err);
    if (rc != ERR_OK) {
        health_close(h);
        return err_wrap(err, rc, "health address");
    }
    *out = h;
    return ERR_OK;
}

void health_close(struct health *h)
{
    if (!h)
        return;
    server_close(h->server);
    free(h);
}

void health_publish(struct health *h, bool is_ready)
{
    h->is_ready = is_ready;
}
