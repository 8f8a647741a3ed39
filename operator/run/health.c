#include "run/health.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/families.h"
#include "base/process.h"
#include "http/server.h"

_Static_assert(HEALTH_METRICS_BYTES + PROCESS_FAMILIES_BYTES <= SERVER_ANSWER_BYTES,
               "the metrics fit an answer");

struct health {
    struct server *server;
    int64_t (*turned_ms)(void *ctx);
    void *ctx;
    pthread_mutex_t lock; /* of what follows */
    bool is_ready;
    struct buf metrics;
};

static void answer(struct server_answer *out, int status, const char *text)
{
    out->status = status;
    (void)!buf_addf(&out->body, NULL, "%s\n", text); /* without memory, the status has to do */
}

/* What the loop has published and, since a loop that hangs publishes nothing, what the process uses
 * now. The loop may want the lock, so /proc is read without it. */
static enum err_code add_metrics(struct health *h, struct buf *out)
{
    struct process process;
    enum err_code rc = process_read(&process, NULL);

    pthread_mutex_lock(&h->lock);
    if (rc == ERR_OK && h->metrics.len > 0)
        rc = buf_add(out, h->metrics.data, h->metrics.len, NULL);
    pthread_mutex_unlock(&h->lock);
    return rc == ERR_OK ? process_write(&process, out, NULL) : rc;
}

static bool is_ready(struct health *h)
{
    bool is_ready_now;

    pthread_mutex_lock(&h->lock);
    is_ready_now = h->is_ready;
    pthread_mutex_unlock(&h->lock);
    return is_ready_now;
}

static void on_request(void *ctx, const struct server_request *r, struct server_answer *out)
{
    struct health *h = ctx;
    bool is_late = clock_now_ms() - h->turned_ms(h->ctx) >= HEALTH_STALLED_MS;
    bool is_ready_now;
    char path[16];

    (void)snprintf(path, sizeof path, "%.*s", (int)strcspn(r->path, "?"), r->path);
    if (strcmp(r->method, "GET") != 0) {
        answer(out, 405, "only GET is allowed");
    } else if (strcmp(path, "/healthz") == 0) {
        answer(out, is_late ? 503 : 200, is_late ? "the main loop hangs" : "ok");
    } else if (strcmp(path, "/readyz") == 0) {
        is_ready_now = is_ready(h);
        answer(out, is_ready_now ? 200 : 503,
               is_ready_now ? "ok" : "still listing the cluster's objects");
    } else if (strcmp(path, "/metrics") == 0) {
        out->type = FAMILIES_TYPE;
        if (add_metrics(h, &out->body) != ERR_OK)
            out->status = 503;
    } else {
        answer(out, 404, "try /healthz, /readyz or /metrics");
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
    (void)pthread_mutex_init(&h->lock, NULL);
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
    (void)pthread_mutex_destroy(&h->lock);
    buf_deinit(&h->metrics);
    free(h);
}

void health_publish(struct health *h, bool is_ready_now, struct buf *metrics)
{
    struct buf old;

    pthread_mutex_lock(&h->lock);
    h->is_ready = is_ready_now;
    old = h->metrics;
    h->metrics = *metrics;
    pthread_mutex_unlock(&h->lock);
    *metrics = (struct buf){0};
    buf_deinit(&old);
}
