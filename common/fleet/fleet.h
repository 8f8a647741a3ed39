/* fleet/fleet.h - the running workers of a job: post revisions, halt them, ask for reports.
 *
 * A call is started, and its answer reaches the handler from inside http_poll(). Nothing here
 * waits, so a worker that hangs delays only its own answer, by at most FLEET_CALL_MS.
 * Workers speak HTTP on their control port (worker/train/control.h), those of a cluster over mutual
 * TLS; every call is signed.
 * Layer: fleet (may use http tls api base). Threads: those of the http loop.
 */
#ifndef FLEET_FLEET_H
#define FLEET_FLEET_H

#include "api/names.h"
#include "api/revision.h"
#include "base/hmac.h"
#include "http/http.h"

#define FLEET_CALL_MS 2000

/* A worker's control port, and the job's key, which signs the calls. */
struct fleet_address {
    char host[PEERS_HOST_BYTES]; /* an IP address, of either kind, without brackets */
    int port;
    struct hmac_key key;
    struct tls_identity *identity; /* borrowed for a call; NULL: plain HTTP */
    char name[NAMES_DNS_BYTES];    /* with one: what the worker's certificate names */
    bool closes;                   /* the connection is not kept for another call */
};

/* What the worker answered; both are NULL after an error or an order. */
struct fleet_answer {
    const struct progress *progress; /* of fleet_ask_status() */
    const struct report *report;     /* of fleet_ask_report() */
};

/* Called once for every started call, unless fleet_free() comes first.
 *
 * err->code is ERR_OK; ERR_CONFLICT when the worker has a newer revision or another one with this
 * number; ERR_DENIED when it has another key; ERR_INVALID when it refused for another
 * reason; ERR_IO, ERR_TIMEOUT when it did not answer, as is normal while it starts, or does not
 * prove that it is the one that is meant; ERR_PROTOCOL, ERR_LIMIT when the answer is not a
 * worker's. The handler may start calls. */
struct fleet_handler {
    void *ctx;
    size_t ctx_bytes; /* of `ctx`, which is copied and belongs to the call; 0: `ctx` is borrowed */
    void (*on_answer)(void *ctx, const struct fleet_answer *answer, const struct err *err);
};

struct fleet;

/* `http` is borrowed. */
MUST_CHECK enum err_code fleet_new(struct http *http, struct fleet **out, struct err *err);
/* Cancels the calls that are under way; their handlers are not called. NULL is allowed. */
void fleet_free(struct fleet *f);

/* How many calls are under way. */
int fleet_n_calls(const struct fleet *f);

/* Post a revision, as revision_write() wrote it, and the addresses of its workers. It may be posted
 * any number of times. */
MUST_CHECK enum err_code fleet_post_revision(struct fleet *f, const struct fleet_address *to,
                                             const struct buf *text, const struct peers *peers,
                                             struct fleet_handler handler, struct err *err);
/* End the session of this revision and of older ones; release a leader that is done. The answer
 * comes at once: the report has the session's end. */
MUST_CHECK enum err_code fleet_halt(struct fleet *f, const struct fleet_address *to, int revision,
                                    struct fleet_handler handler, struct err *err);
/* End the worker's process, whose job is gone or about to go. It may be ordered any number of
 * times: one that has ended does not answer. */
MUST_CHECK enum err_code fleet_end(struct fleet *f, const struct fleet_address *to,
                                   struct fleet_handler handler, struct err *err);
/* Have the leader write a checkpoint (api/progress.h). It may be ordered any number of times. */
MUST_CHECK enum err_code fleet_order_checkpoint(struct fleet *f, const struct fleet_address *to,
                                                int64_t order, struct fleet_handler handler,
                                                struct err *err);
/* Ask one worker what it holds. */
MUST_CHECK enum err_code fleet_ask_report(struct fleet *f, const struct fleet_address *to,
                                          struct fleet_handler handler, struct err *err);
/* Send a probe the addresses of the others, any number of times. */
MUST_CHECK enum err_code fleet_post_peers(struct fleet *f, const struct fleet_address *to,
                                          const struct peers *peers, struct fleet_handler handler,
                                          struct err *err);
/* Ask one worker for its status. */
MUST_CHECK enum err_code fleet_ask_status(struct fleet *f, const struct fleet_address *to,
                                          struct fleet_handler handler, struct err *err);

/* --- when to call --- */

/* One running worker as its caller sees it, for operator and CLI alike: which revision it has
 * accepted, and when it may be called. The owner starts the calls, sets `is_busy` during a call,
 * and hands every answer to contact_answered(). A worker that does not answer is called again after
 * a pause that doubles each time; one that refuses, after CONTACT_REFUSED_MS. Pure; times are
 * monotonic. */
#define CONTACT_RETRY_MS      250 /* then doubled */
#define CONTACT_REFUSED_MS    5000
#define CONTACT_REFUSAL_BYTES 240

struct contact {
    bool is_busy;            /* a call is under way */
    int accepted;            /* the newest revision that it has accepted; 0: none */
    bool is_refused;         /* has refused a newer one: it has another one, or another key */
    int n_unanswered;        /* calls in a row */
    int64_t silent_since_ms; /* of the first unanswered call in a row; 0: it answers */
    int64_t call_after_ms;
    char refusal[CONTACT_REFUSAL_BYTES]; /* the reason */
};

/* How long until the worker may be called; 0: now. */
int64_t contact_wait_ms(const struct contact *c, int64_t now_ms);

/* Note the answer (see struct fleet_handler) to a call that posted revision `posted`, or to any
 * other call (0). Pauses last at most `max_ms`. */
void contact_answered(struct contact *c, const struct err *err, int posted, int64_t now_ms,
                      int64_t max_ms);

#endif
