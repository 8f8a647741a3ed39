/* http/transfer.h (private) - one request on its way: how it is told to curl and what its end
 * means.
 *
 * Layer: http (may use base). Threads: that of the loop.
 */
#ifndef HTTP_TRANSFER_H
#define HTTP_TRANSFER_H

#include <curl/curl.h>

#include "http/http.h"

enum transfer_state {
    TRANSFER_QUEUED,    /* curl does not know it yet */
    TRANSFER_RUNNING,   /* curl has it */
    TRANSFER_DONE,      /* curl has finished with it, on_done has not run */
    TRANSFER_CANCELLED, /* to be dropped as soon as no callback runs */
};

struct transfer {
    struct transfer *next; /* in the loop's list */
    struct http *loop;     /* borrowed */
    uint64_t id;
    enum transfer_state state;
    CURL *easy;
    CURLcode result; /* once DONE */
    struct curl_slist *headers;
    struct curl_slist *connect_to;
    struct http_handler handler;
    struct http_response response;
    bool has_head;  /* the empty line that closes the head has come */
    struct err err; /* of ours: the ceiling, on_chunk */
    int64_t deadline_ms;
    int64_t connect_ms;
    char host[HTTP_HOST_BYTES];
    char curl_text[CURL_ERROR_SIZE];
};

/* Check the request and copy it. Codes of http_start(). */
MUST_CHECK enum err_code transfer_new(const struct http_request *request,
                                      struct http_handler handler, struct transfer **out,
                                      struct err *err);
void transfer_free(struct transfer *t);

/* Fill in the response's head and say what `result` means; ERR_OK for a whole response. */
enum err_code transfer_conclude(struct transfer *t, CURLcode result, struct err *err);

/* Called around on_chunk, so that the loop knows that a callback runs (in http.c). */
void http_enter_callback(struct http *h);
void http_leave_callback(struct http *h);

#endif
