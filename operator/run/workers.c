#include "run/workers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

#define URL_BYTES 128

/* One request under way; the table of them is a list, so that workers_free() finds them. */
struct call {
    struct workers *workers;
    struct call *next;
    struct call **place; /* what points to this one */
    uint64_t id;
    bool is_peers; /* else the head is asked */
    char job_key[QUEUE_KEY_BYTES];
    char namespace[OBSERVED_WORD_BYTES];
    char pod[NAMES_BYTES];
    char uid[OBSERVED_UID_BYTES];
};

struct workers {
    struct http *http;
    struct store *store;
    struct workers_listener listener;
    struct call *calls;
};

enum err_code workers_new(struct http *http, struct store *store, struct workers_listener listener,
                          struct workers **out, struct err *err)
{
    struct workers *w = calloc(1, sizeof *w);

    if (!w)
        return err_set(err, ERR_NO_MEMORY, "no memory for the workers' calls");
    w->http = http;
    w->store = store;
    w->listener = listener;
    *out = w;
    return ERR_OK;
}

static void end_call(struct call *c)
{
    *c->place = c->next;
    if (c->next)
        c->next->place = c->place;
    free(c);
}

void workers_free(struct workers *w)
{
    if (!w)
        return;
    while (w->calls) {
        http_cancel(w->http, w->calls->id);
        end_call(w->calls);
    }
    free(w);
}

static const struct seen_pod *pod_of(const struct observed *seen, int stage)
{
    for (int i = 0; i < seen->n_pods; i++)
        if (seen->pods[i].role == POD_STAGE && seen->pods[i].stage == stage &&
            seen->pods[i].attempt == seen->plan.attempt)
            return &seen->pods[i];
    return NULL;
}

static void make_url(const char *ip, const char *path, char out[static URL_BYTES])
{
    bool is_ipv6 = strchr(ip, ':') != NULL;

    (void)snprintf(out, URL_BYTES, "http://%s%s%s:%d%s", is_ipv6 ? "[" : "", ip, is_ipv6 ? "]" : "",
                   PORT_CONTROL, path);
}

/* --- answers --- */

static void told(struct call *c, int status, const char *text)
{
    struct store_own *own = store_find_own(c->workers->store, c->namespace, c->pod, c->uid);
    bool is_refused = status >= 400;

    if (!own)
        return; /* the pod is gone, and with it the question */
    own->is_being_told = false;
    own->seen.knows_peers = status >= 200 && status < 300;
    if (is_refused)
        LOG(LOG_WARN, "worker refused the peer table", LOG_S("job", c->job_key),
            LOG_S("pod", c->pod), LOG_I("status", status), LOG_S("answer", text));
    c->workers->listener.on_again(c->workers->listener.ctx, c->job_key,
                                  own->seen.knows_peers ? 0
                                  : is_refused          ? WORKERS_REFUSED_MS
                                                        : WORKERS_RETRY_MS);
}

static void asked(struct call *c, int status, const struct buf *body)
{
    struct store_job *job = store_find_job(c->workers->store, c->job_key);
    struct progress p;
    struct err err;

    if (!job)
        return;
    job->is_asking = false;
    if (status != 200)
        return; /* the pod's own state says what there is to say */
    if (progress_parse(buf_text(body), body->len, &p, &err) != ERR_OK) {
        LOG(LOG_WARN, "head sent nonsense", LOG_S("job", c->job_key), LOG_S("error", err.text));
        return;
    }
    job->head = p;
    job->has_head = true;
    c->workers->listener.on_again(c->workers->listener.ctx, c->job_key, 0);
}

static void on_done(void *ctx, struct http_response *response, const struct err *err)
{
    struct call *c = ctx;
    int status = err->code == ERR_OK ? response->status : 0;

    if (c->is_peers)
        told(c, status, buf_text(&response->body));
    else
        asked(c, status, &response->body);
    end_call(c);
}

/* --- questions --- */

static enum err_code start(struct workers *w, const struct observed *seen,
                           const struct seen_pod *pod, const struct http_request *request,
                           struct err *err)
{
    struct call *c = calloc(1, sizeof *c);
    enum err_code rc;

    if (!c)
        return err_set(err, ERR_NO_MEMORY, "no memory for a call to %s", pod->name);
    c->workers = w;
    c->is_peers = request->body != NULL;
    store_key(seen->namespace, seen->name, c->job_key);
    memcpy(c->namespace, seen->namespace, sizeof c->namespace);
    memcpy(c->pod, pod->name, sizeof c->pod);
    memcpy(c->uid, pod->uid, sizeof c->uid);
    rc = http_start(w->http, request, (struct http_handler){.ctx = c, .on_done = on_done}, &c->id,
                    err);
    if (rc != ERR_OK) {
        free(c);
        return err_wrap(err, rc, "call %s", pod->name);
    }
    c->next = w->calls;
    c->place = &w->calls;
    if (c->next)
        c->next->place = &c->next;
    w->calls = c;
    return ERR_OK;
}

static enum err_code write_peers(const struct observed *seen, struct buf *out, struct err *err)
{
    struct peers peers = {.attempt = seen->plan.attempt, .n_stages = seen->plan.n_stages};

    for (int s = 0; s < peers.n_stages; s++) {
        const struct seen_pod *pod = pod_of(seen, s);

        if (!pod || pod->ip[0] == '\0')
            return err_set(err, ERR_AGAIN, "stage %d has no address", s);
        memcpy(peers.stages[s].host, pod->ip, sizeof peers.stages[s].host);
        peers.stages[s].port = PORT_TENSOR;
    }
    return peers_write(&peers, out, err);
}

enum err_code workers_tell(struct workers *w, const struct observed *seen, int stage,
                           struct err *err)
{
    const struct seen_pod *pod = pod_of(seen, stage);
    struct store_own *own =
        pod ? store_find_own(w->store, seen->namespace, pod->name, pod->uid) : NULL;
    struct buf body = {.max = PEERS_TEXT_MAX_BYTES};
    char url[URL_BYTES];
    enum err_code rc;

    if (!own || own->is_being_told || own->seen.knows_peers)
        return ERR_OK;
    rc = write_peers(seen, &body, err);
    if (rc == ERR_OK) {
        struct http_request request = {.method = "POST",
                                       .url = url,
                                       .content_type = "application/json",
                                       .body = body.data,
                                       .body_bytes = body.len,
                                       .deadline_ms = WORKERS_DEADLINE_MS,
                                       .connect_ms = WORKERS_DEADLINE_MS};

        make_url(pod->ip, "/v1/peers", url);
        rc = start(w, seen, pod, &request, err);
    }
    if (rc == ERR_OK)
        own->is_being_told = true;
    buf_deinit(&body);
    return rc;
}

enum err_code workers_ask(struct workers *w, const struct observed *seen, int64_t age_ms,
                          struct err *err)
{
    const struct seen_pod *pod = seen->has_plan ? pod_of(seen, 0) : NULL;
    char key[QUEUE_KEY_BYTES];
    char url[URL_BYTES];
    struct http_request request = {.url = url,
                                   .deadline_ms = WORKERS_DEADLINE_MS,
                                   .connect_ms = WORKERS_DEADLINE_MS,
                                   .response_max_bytes = PEERS_TEXT_MAX_BYTES};
    struct store_job *job;
    enum err_code rc;

    store_key(seen->namespace, seen->name, key);
    job = store_find_job(w->store, key);
    if (!job || !pod || pod->ip[0] == '\0' || pod->phase != POD_RUNNING || job->is_asking ||
        (job->head_asked_ms > 0 && clock_now_ms() - job->head_asked_ms < age_ms))
        return ERR_OK;
    make_url(pod->ip, "/v1/status", url);
    rc = start(w, seen, pod, &request, err);
    if (rc == ERR_OK) {
        job->is_asking = true;
        job->head_asked_ms = clock_now_ms();
    }
    return rc;
}
