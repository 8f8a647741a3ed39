/* train/exchange.h - messages between neighbours, with the check that what arrives is what is due.
 *
 * The trainer knows at every moment which message comes next; anything else on an edge is a broken
 * peer and ends the attempt with ERR_PROTOCOL. Waiting has no limit of its own: a slow neighbour
 * is waited for, one that is gone or silent is noticed by the link within seconds.
 * Layer: train (may use wire base). Threads: one.
 */
#ifndef TRAIN_EXCHANGE_H
#define TRAIN_EXCHANGE_H

#include "wire/link.h"

struct exchange {
    struct link *link;  /* NULL for a job of one stage: then nothing here is called */
    uint16_t *narrow;   /* activations and gradients travel as bfloat16: room for the largest */
    float *wide;        /* and for what came in; both NULL when they travel as floats */
    int64_t blocked_ns; /* waited in calls so far */
    bool is_lost;       /* the link to a neighbour has failed in a call */
};

/* What a message is about: the same on both ends. */
struct exchange_key {
    enum link_edge edge;
    enum frame_kind kind;
    uint32_t flags; /* FRAME_EVAL or 0 */
    int64_t step;
    int microbatch;
};

static inline struct exchange_key exchange_key(enum link_edge edge, enum frame_kind kind,
                                               int64_t step, int microbatch)
{
    return (struct exchange_key){
        .edge = edge, .kind = kind, .step = step, .microbatch = microbatch};
}

/* Send `meta` and `floats` of `tensor`; both may be empty. The buffers are the caller's again. */
MUST_CHECK enum err_code exchange_send(struct exchange *x, const struct exchange_key *key,
                                       const void *meta, size_t meta_bytes, const float *tensor,
                                       size_t floats, struct err *err);

/* The same for activations and their gradients, which may travel as bfloat16. */
MUST_CHECK enum err_code exchange_send_tensor(struct exchange *x, const struct exchange_key *key,
                                              const void *meta, size_t meta_bytes,
                                              const float *tensor, size_t floats, struct err *err);

/* Take the message that is due; on ERR_OK give it back with exchange_release(). */
MUST_CHECK enum err_code exchange_recv(struct exchange *x, const struct exchange_key *key,
                                       struct link_message *out, struct err *err);
void exchange_release(struct exchange *x, const struct exchange_key *key,
                      const struct link_message *msg);

/* The `floats` floats that exchange_send_tensor() has sent: in the message, or made of it and good
 * until the next call. ERR_PROTOCOL when it has another size. */
MUST_CHECK enum err_code exchange_tensor(struct exchange *x, const struct link_message *msg,
                                         size_t floats, const float **out, struct err *err);

/* ERR_PROTOCOL unless the message's tensor has just `floats` floats. */
MUST_CHECK enum err_code exchange_check_floats(const struct link_message *msg, size_t floats,
                                               struct err *err);

#endif
