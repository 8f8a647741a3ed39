/* fleet/fleet.h - calls to running workers: hand out the peer table, ask how far they are.
 *
 * A call is started and its answer comes to the handler from inside http_poll(); nothing here ever
 * waits, so a worker that hangs delays only its own answer, and that by FLEET_CALL_MS at most.
 * Workers speak plain HTTP on their control port (worker/train/control.h); every call is signed.
 * Layer: fleet (may use http api base). Threads: one, that of the http loop.
 */
#ifndef FLEET_FLEET_H
#define FLEET_FLEET_H

#include "api/progress.h"
#include "base/hmac.h"
#include "http/http.h"

#define FLEET_CALL_MS 2000

/* A worker's control port, and the key of its job, with which calls are signed. */
struct fleet_address {
    char host[PEERS_HOST_BYTES]; /* an IP address, of either kind, without brackets */
    int port;
    struct hmac_key key;
};

/* Called once for every call that was started, unless fleet_free() came first.
 *
 * err->code is ERR_OK; ERR_CONFLICT when the worker belongs to another attempt or has taken another
 * peer table; ERR_DENIED when it has another key; ERR_INVALID when it refused for another reason;
 * ERR_IO, ERR_TIMEOUT when it could not be reached or not answer, which is usual while it starts;
 * ERR_PROTOCOL, ERR_LIMIT when that was no answer of a worker. `progress` is what a worker that was
 * asked reports; NULL for a peer table and for every error. The handler may start calls. */
struct fleet_handler {
    void *ctx;
    size_t ctx_bytes; /* of `ctx`, which is copied and belongs to the call; 0: `ctx` is borrowed */
    void (*on_answer)(void *ctx, const struct progress *progress, const struct err *err);
};

struct fleet;

/* `http` is borrowed. */
MUST_CHECK enum err_code fleet_new(struct http *http, struct fleet **out, struct err *err);
/* Cancels the calls that are under way; their handlers are not called. NULL is allowed. */
void fleet_free(struct fleet *f);

/* How many calls are under way. */
int fleet_n_calls(const struct fleet *f);

/* Hand the table to one worker. It may be sent any number of times. */
MUST_CHECK enum err_code fleet_post_peers(struct fleet *f, const struct fleet_address *to,
                                          const struct peers *peers, struct fleet_handler handler,
                                          struct err *err);
/* Ask one worker for its status. */
MUST_CHECK enum err_code fleet_ask_status(struct fleet *f, const struct fleet_address *to,
                                          struct fleet_handler handler, struct err *err);

#endif
