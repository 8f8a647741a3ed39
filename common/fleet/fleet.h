/* fleet/fleet.h - the running workers of a job: send the peer table, ask for status.
 *
 * A call is started, and its answer reaches the handler from inside http_poll(). Nothing here
 * waits, so a worker that hangs delays only its own answer, by at most FLEET_CALL_MS.
 * Workers speak plain HTTP on their control port (worker/train/control.h); every call is signed.
 * Layer: fleet (may use http api base). Threads: one, that of the http loop.
 */
#ifndef FLEET_FLEET_H
#define FLEET_FLEET_H

#include "api/progress.h"
#include "base/hmac.h"
#include "http/http.h"

#define FLEET_CALL_MS 2000

/* A worker's control port, and the job's key, which signs the calls. */
struct fleet_address {
    char host[PEERS_HOST_BYTES]; /* an IP address, of either kind, without brackets */
    int port;
    struct hmac_key key;
};

/* Called once for every call that was started, unless fleet_free() came first.
 *
 * err->code is ERR_OK; ERR_CONFLICT when the worker belongs to another attempt or has accepted
 * another peer table; ERR_DENIED when it has another key; ERR_INVALID when it refused for another
 * reason; ERR_IO, ERR_TIMEOUT when it did not answer, as is usual while it starts; ERR_PROTOCOL,
 * ERR_LIMIT when the answer is not a worker's. `progress` is the reported status; NULL for a peer
 * table and for every error. The handler may start calls. */
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

/* --- when to call --- */

/* One running worker as its caller sees it, for operator and CLI alike: send the peer table until
 * the worker has accepted or refused it, and ask for status. The owner starts the calls, sets
 * `is_busy` for the time of a call, and hands every answer to contact_answered(). A worker that
 * does not answer is called again after a pause that doubles each time; one that refuses, after
 * CONTACT_REFUSED_MS. Pure; times are monotonic. */
#define CONTACT_RETRY_MS   250 /* then doubled */
#define CONTACT_REFUSED_MS 5000

struct contact {
    bool is_busy;            /* a call is under way */
    bool has_table;          /* has accepted the peer table */
    bool is_refused;         /* has refused it: it has another one, or another key */
    int n_unanswered;        /* calls in a row */
    int64_t silent_since_ms; /* of the first unanswered call in a row; 0: it answers */
    int64_t call_after_ms;
    char refusal[ERR_TEXT_BYTES]; /* the reason */
};

/* How long until the worker may be called; 0: now. */
int64_t contact_wait_ms(const struct contact *c, int64_t now_ms);

/* Note the answer (see struct fleet_handler) to a call that sent the peer table or to another.
 * Pauses are at most `max_ms` long. */
void contact_answered(struct contact *c, const struct err *err, bool was_table, int64_t now_ms,
                      int64_t max_ms);

/* --- follow --- */

/* All calls to the workers of one attempt: the peer table to every stage until each has it, and
 * requests for status to the leader. The owner calls follow_step() between polls of the http loop;
 * the rest happens inside http_poll(). */
#define FOLLOW_ASK_MS 500 /* between two calls to the leader */

struct follow;

/* Copies everything; `fleet` is borrowed. `control` has an address for each of peers->n_stages. */
MUST_CHECK enum err_code follow_new(struct fleet *fleet, const struct peers *peers,
                                    const struct fleet_address *control, struct follow **out,
                                    struct err *err);
/* Only after fleet_free(), which cancels the calls that refer to it. NULL is allowed. */
void follow_free(struct follow *f);

/* Start the calls that are due; returns the milliseconds until the next one is. */
int64_t follow_step(struct follow *f, int64_t now_ms);

/* The leader's last report; NULL before the first. Borrowed until the next http_poll(). */
const struct progress *follow_progress(const struct follow *f);
/* Why a worker refuses the table; NULL when none does. */
const char *follow_refusal(const struct follow *f);

#endif
