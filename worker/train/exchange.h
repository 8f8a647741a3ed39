/* train/exchange.h - messages between neighbours, checked to be the expected ones.
 *
 * At every moment it is known which message comes next; anything else on an edge means a broken
 * peer and ends the session with ERR_PROTOCOL. Waiting has no limit of its own: neighbours may be
 * slow, and the link detects one that is lost or silent within seconds. The owner can stop it from
 * another thread.
 * Layer: train (may use wire base). Threads: one, for each of several with the same link.
 */
#ifndef TRAIN_EXCHANGE_H
#define TRAIN_EXCHANGE_H

#include <pthread.h>
#include <stdatomic.h>

#include "train/edges.h"
#include "train/message.h"
#include "train/pulse.h"

/* Of a thread that exchanges messages over the same link beside the trainer: the first one. */
struct exchange_failure {
    atomic_flag is_claimed; /* by the thread that fills in the rest */
    atomic_bool is_set;     /* then the rest does not change any more */
    bool is_lost;           /* through a link that was lost */
    struct err why;
};

struct exchange {
    struct link *link;    /* NULL for a job of one stage: then nothing here is called */
    struct edges edges;   /* of this stage */
    bool is_bf16;         /* activations and gradients travel as bfloat16, else as floats; then: */
    void *packed;         /* room for the largest that this thread sends; NULL: it sends none */
    int gradient_percent; /* of gradients to homes, how many travel (train/topk.h); 0: all */
    const atomic_bool *stops; /* once it is true, every wait ends with ERR_GONE; NULL: never */
    struct exchange_failure *other; /* once it is set, every wait ends with it; NULL: none */
    struct pulse *pulse;            /* beats with every call, and while one waits; NULL: none */
    bool is_lost;                   /* the link to a neighbour has failed in a call */
};

/* Identifies a message; the same on both ends. */
struct exchange_key {
    int edge; /* enum edge_role, or exchange_edge() */
    enum message_kind kind;
    uint32_t flags; /* MESSAGE_EVAL or 0 */
    int64_t step;
    int microbatch;
};

/* The edge with this index in the list of edges, for those that have no role. */
static inline int exchange_edge(int index)
{
    return N_EDGE_ROLES + index;
}

static inline struct exchange_key exchange_key(int edge, enum message_kind kind, int64_t step,
                                               int microbatch)
{
    return (struct exchange_key){
        .edge = edge, .kind = kind, .step = step, .microbatch = microbatch};
}

/* The exchange of a thread beside that of `x`, until *stops is true, without room of its own. */
struct exchange exchange_beside(const struct exchange *x, const atomic_bool *stops);
/* That thread cannot go on: `why`, unless another one has failed before. */
void exchange_fail(struct exchange *x, const struct err *why);

/* Send `meta` and `floats` of `tensor`; both may be empty. Both are copied before it returns.
 * Activations and gradients (FORWARD, BACKWARD, GRADS) are packed if x->is_bf16.
 */
MUST_CHECK enum err_code exchange_send(struct exchange *x, struct exchange_key key,
                                       const void *meta, size_t meta_bytes, const float *tensor,
                                       size_t floats, struct err *err);

/* Send the largest of `n` gradients and of what is `unsent` of earlier ones, as topk_take() does.
 * exchange_view() gives the receiver as many, most of them zero. */
MUST_CHECK enum err_code exchange_send_largest(struct exchange *x, struct exchange_key key,
                                               float *grads, float *unsent, size_t n,
                                               struct err *err);

/* ERR_GONE once the owner has stopped it, or the failure of the other thread. For long work between
 * two calls. */
MUST_CHECK enum err_code exchange_check(const struct exchange *x, struct err *err);

/* With `lock` held, wait a moment for `changed`, then exchange_check(): for a loop around what is
 * waited for. */
MUST_CHECK enum err_code exchange_await(const struct exchange *x, pthread_cond_t *changed,
                                        pthread_mutex_t *lock, struct err *err);

/* link_wait_ready() that the owner can stop. ERR_GONE, or its errors. */
MUST_CHECK enum err_code exchange_wait_ready(struct exchange *x, int timeout_ms, struct err *err);

/* link_close(), likewise: what has not arrived by the stop is lost. */
MUST_CHECK enum err_code exchange_close(struct exchange *x, int timeout_ms, struct err *err);

/* Take the expected message; on ERR_OK give it back with exchange_release(). */
MUST_CHECK enum err_code exchange_recv(struct exchange *x, struct exchange_key key,
                                       struct link_message *out, struct err *err);
void exchange_release(struct exchange *x, struct exchange_key key, const struct link_message *msg);

/* Take the expected message, which has only meta data, `bytes` bytes of it, into `out`. */
MUST_CHECK enum err_code exchange_recv_meta(struct exchange *x, struct exchange_key key, void *out,
                                            size_t bytes, struct err *err);

/* Take the expected message, whose tensor is `n` floats, into `out`. */
MUST_CHECK enum err_code exchange_recv_floats(struct exchange *x, struct exchange_key key,
                                              float *out, size_t n, struct err *err);

/* Take the sums of a step, or of a ticket, over `n_units` units. */
MUST_CHECK enum err_code exchange_recv_sum(struct exchange *x, int edge, int64_t step, int n_units,
                                           struct message_sum *out, struct err *err);

/* edges_route(); of a worker that is alone, it has no edge. */
struct route exchange_route(const struct exchange *x, enum route_kind way);

/* Pass `meta` along a route that leads from one worker, which has filled it in, to all others,
 * which receive it. If it cannot be passed on to one worker, it still is to the others. */
MUST_CHECK enum err_code exchange_spread(struct exchange *x, enum route_kind way,
                                         enum message_kind kind, int64_t step, void *meta,
                                         size_t bytes, struct err *err);

/* The `floats` floats of a message's tensor: *out points into the message, or to `area` if they had
 * to be unpacked. ERR_PROTOCOL when the tensor has another size. */
MUST_CHECK enum err_code exchange_view(const struct exchange *x, const struct link_message *msg,
                                       size_t floats, float *area, const float **out,
                                       struct err *err);

#endif
