#include "http/http.h"

#include <curl/curl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "http/transfer.h"

#define CALL_POLL_MS 1000
#define STOP_POLL_MS 50

struct http {
    CURLM *multi;
    struct transfer *first; /* all transfers, in no order */
    size_t n_transfers;
    uint64_t last_id;
    uint64_t n_callbacks; /* ever; tells whether a poll had anything to do */
    _Atomic int64_t turned_ms;
    atomic_bool stops;
    int64_t stop_ms; /* when calls end; 0: not noticed yet */
    int depth;       /* of callbacks that run now; > 0: curl must not be entered */
};

enum err_code http_new(struct http **out, struct err *err)
{
    struct http *h = calloc(1, sizeof *h);

    if (!h)
        return err_set(err, ERR_NO_MEMORY, "no memory for the HTTP loop");
    (void)signal(SIGPIPE, SIG_IGN);
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        free(h);
        return err_set(err, ERR_IO, "libcurl cannot be started");
    }
    h->multi = curl_multi_init();
    if (!h->multi) {
        curl_global_cleanup();
        free(h);
        return err_set(err, ERR_NO_MEMORY, "no memory for the HTTP loop");
    }
    atomic_store(&h->turned_ms, clock_now_ms());
    *out = h;
    return ERR_OK;
}

void http_enter_callback(struct http *h)
{
    h->depth++;
    h->n_callbacks++;
}

void http_leave_callback(struct http *h)
{
    h->depth--;
}

/* Take it out of the list and away from curl. */
static void detach(struct http *h, struct transfer *t)
{
    struct transfer **link = &h->first;

    while (*link != t)
        link = &(*link)->next;
    *link = t->next;
    h->n_transfers--;
    /* Known to curl or not: for one that it never had this is a harmless no. */
    (void)curl_multi_remove_handle(h->multi, t->easy);
}

void http_free(struct http *h)
{
    if (!h)
        return;
    while (h->first) {
        struct transfer *t = h->first;

        detach(h, t);
        transfer_free(t);
    }
    (void)curl_multi_cleanup(h->multi);
    curl_global_cleanup();
    free(h);
}

enum err_code http_start(struct http *h, const struct http_request *request,
                         struct http_handler handler, uint64_t *out_id, struct err *err)
{
    struct transfer *t;
    enum err_code rc;

    if (h->n_transfers >= HTTP_TRANSFERS_MAX)
        return err_set(err, ERR_LIMIT, "more than %d requests at once", HTTP_TRANSFERS_MAX);
    rc = transfer_new(request, handler, &t, err);
    if (rc != ERR_OK)
        return rc;
    t->loop = h;
    t->id = ++h->last_id;
    t->next = h->first;
    h->first = t;
    h->n_transfers++;
    *out_id = t->id;
    return ERR_OK;
}

/* Drop what was cancelled. Not while a callback runs: curl is inside that transfer. */
static void sweep(struct http *h)
{
    struct transfer *next;

    for (struct transfer *t = h->first; t && h->depth == 0; t = next) {
        next = t->next;
        if (t->state == TRANSFER_CANCELLED) {
            detach(h, t);
            transfer_free(t);
        }
    }
}

void http_cancel(struct http *h, uint64_t id)
{
    for (struct transfer *t = h->first; t; t = t->next)
        if (t->id == id)
            t->state = TRANSFER_CANCELLED;
    sweep(h);
}

/* Hand what is queued to curl. One that curl does not take ends like a failed one. */
static void start_queued(struct http *h)
{
    for (struct transfer *t = h->first; t; t = t->next) {
        if (t->state != TRANSFER_QUEUED)
            continue;
        t->state = TRANSFER_RUNNING;
        if (curl_multi_add_handle(h->multi, t->easy) != CURLM_OK) {
            t->state = TRANSFER_DONE;
            t->result = CURLE_OUT_OF_MEMORY;
        }
    }
}

static struct transfer *find_done(struct http *h)
{
    for (struct transfer *t = h->first; t; t = t->next)
        if (t->state == TRANSFER_DONE)
            return t;
    return NULL;
}

/* Run on_done of everything that has ended. The list may change under the callbacks. */
static void finish_done(struct http *h)
{
    struct transfer *t;
    CURLMsg *msg;
    int n_left;

    while ((msg = curl_multi_info_read(h->multi, &n_left))) {
        void *private = NULL;

        if (msg->msg != CURLMSG_DONE ||
            curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &private) != CURLE_OK)
            continue;
        t = private;
        t->result = msg->data.result;
        if (t->state == TRANSFER_RUNNING)
            t->state = TRANSFER_DONE;
    }
    while ((t = find_done(h))) {
        struct err err = {.code = ERR_OK};

        transfer_conclude(t, t->result, &err);
        detach(h, t);
        http_enter_callback(h);
        t->handler.on_done(t->handler.ctx, &t->response, &err);
        http_leave_callback(h);
        transfer_free(t);
    }
    sweep(h);
}

static enum err_code loop_error(CURLMcode code, struct err *err)
{
    return err_set(err, code == CURLM_OUT_OF_MEMORY ? ERR_NO_MEMORY : ERR_IO, "HTTP loop: %s",
                   curl_multi_strerror(code));
}

static enum err_code advance(struct http *h, struct err *err)
{
    int n_running;
    CURLMcode code;

    start_queued(h);
    code = curl_multi_perform(h->multi, &n_running);
    finish_done(h);
    return code == CURLM_OK ? ERR_OK : loop_error(code, err);
}

enum err_code http_poll(struct http *h, int64_t timeout_ms, struct err *err)
{
    uint64_t n_before = h->n_callbacks;
    CURLMcode code;
    enum err_code rc;

    if (h->depth > 0)
        return err_set(err, ERR_INVALID, "the HTTP loop was entered from a callback");
    atomic_store(&h->turned_ms, clock_now_ms());
    rc = advance(h, err);
    if (rc != ERR_OK)
        return rc;
    if (h->n_callbacks != n_before || timeout_ms < 0)
        timeout_ms = 0; /* something happened already */
    if (timeout_ms > INT_MAX)
        timeout_ms = INT_MAX;
    code = curl_multi_poll(h->multi, NULL, 0, (int)timeout_ms, NULL);
    atomic_store(&h->turned_ms, clock_now_ms());
    return code == CURLM_OK ? advance(h, err) : loop_error(code, err);
}

void http_stop(struct http *h)
{
    atomic_store(&h->stops, true);
    (void)curl_multi_wakeup(h->multi);
}

int64_t http_turned_ms(const struct http *h)
{
    return atomic_load(&h->turned_ms);
}

/* Has the time run out that http_stop() left? It begins when a call first notices. */
static bool is_over(struct http *h)
{
    int64_t now_ms = clock_now_ms();

    if (!atomic_load(&h->stops))
        return false;
    if (h->stop_ms == 0)
        h->stop_ms = now_ms + HTTP_STOP_MS;
    return now_ms >= h->stop_ms;
}

struct waiter {
    bool is_done;
    struct http_response response;
    struct err err;
};

static void on_waited(void *ctx, struct http_response *response, const struct err *err)
{
    struct waiter *w = ctx;

    w->is_done = true;
    w->err = *err;
    w->response = *response;
    response->body = (struct buf){0}; /* ours now */
}

enum err_code http_call(struct http *h, const struct http_request *request,
                        struct http_response *out, struct err *err)
{
    struct waiter waiter = {0};
    uint64_t id = 0;
    enum err_code rc;

    if (h->depth > 0)
        return err_set(err, ERR_INVALID, "a callback cannot wait for a response");
    if (is_over(h))
        return err_set(err, ERR_AGAIN, "stopped");
    rc = http_start(h, request, (struct http_handler){.ctx = &waiter, .on_done = on_waited}, &id,
                    err);
    while (rc == ERR_OK && !waiter.is_done) {
        rc = http_poll(h, h->stop_ms > 0 ? STOP_POLL_MS : CALL_POLL_MS, err);
        if (rc == ERR_OK && !waiter.is_done && is_over(h))
            rc = err_set(err, ERR_AGAIN, "stopped");
    }
    if (!waiter.is_done)
        http_cancel(h, id); /* the waiter lives on our stack */
    else if (waiter.err.code != ERR_OK)
        rc = err_set(err, waiter.err.code, "%s", waiter.err.text);
    if (rc == ERR_OK)
        *out = waiter.response;
    else
        http_response_deinit(&waiter.response);
    return rc;
}
