#include "train/exchange.h"

#include <string.h>

#include "base/thread.h"
#include "train/topk.h"
#include "wire/bf16.h"

#define WAIT_MS 100 /* of one call; repeated until the exchange is stopped */

static void beat(const struct exchange *x)
{
    if (x->pulse)
        pulse_beat(x->pulse);
}

static bool has_failed(const struct exchange *x)
{
    return x->other && atomic_load(&x->other->is_set);
}

static bool is_stopped(const struct exchange *x)
{
    return (x->stops && atomic_load(x->stops)) || has_failed(x);
}

enum err_code exchange_check(const struct exchange *x, struct err *err)
{
    beat(x);
    if (has_failed(x))
        return err_set(err, x->other->why.code, "%s", x->other->why.text);
    return is_stopped(x) ? err_set(err, ERR_GONE, "the session was stopped") : ERR_OK;
}

enum err_code exchange_await(const struct exchange *x, pthread_cond_t *changed,
                             pthread_mutex_t *lock, struct err *err)
{
    const struct timespec deadline = thread_deadline(WAIT_MS);

    (void)pthread_cond_timedwait(changed, lock, &deadline);
    return exchange_check(x, err);
}

struct exchange exchange_beside(const struct exchange *x, const atomic_bool *stops)
{
    return (struct exchange){.link = x->link,
                             .edges = x->edges,
                             .is_bf16 = x->is_bf16,
                             .gradient_percent = x->gradient_percent,
                             .stops = stops,
                             .other = x->other};
}

void exchange_fail(struct exchange *x, const struct err *why)
{
    if (atomic_flag_test_and_set(&x->other->is_claimed))
        return;
    x->other->is_lost = x->is_lost;
    x->other->why = *why;
    atomic_store(&x->other->is_set, true);
}

/* ERR_INVALID is a mistake on this side; any other failure of the link means a lost neighbour. A
 * timeout is left only when the exchange was stopped. */
static enum err_code note_loss(struct exchange *x, enum err_code rc, struct err *err)
{
    if (rc == ERR_TIMEOUT) {
        x->is_lost = x->is_lost || (has_failed(x) && x->other->is_lost);
        return exchange_check(x, err);
    }
    if (rc != ERR_OK && rc != ERR_INVALID)
        x->is_lost = true;
    return rc;
}

/* Repeat a call of the link for `timeout_ms` at the most. */
static enum err_code repeat(const struct exchange *x,
                            enum err_code (*call)(struct link *link, int timeout_ms,
                                                  struct err *err),
                            int timeout_ms, struct err *err)
{
    enum err_code rc;
    int waited_ms = 0;

    do {
        beat(x);
        rc = call(x->link, WAIT_MS, err);
        waited_ms += WAIT_MS;
    } while (rc == ERR_TIMEOUT && waited_ms < timeout_ms && !is_stopped(x));
    return rc == ERR_TIMEOUT && is_stopped(x) ? exchange_check(x, err) : rc;
}

enum err_code exchange_wait_ready(struct exchange *x, int timeout_ms, struct err *err)
{
    enum err_code rc = repeat(x, link_wait_ready, timeout_ms, err);

    x->is_lost = rc != ERR_OK && rc != ERR_GONE;
    return rc;
}

enum err_code exchange_close(struct exchange *x, int timeout_ms, struct err *err)
{
    enum err_code rc = x->link ? repeat(x, link_finish, timeout_ms, err) : ERR_OK;

    (void)!link_close(x->link, 0, NULL);
    x->link = NULL;
    return rc;
}

static bool is_packed(const struct exchange *x, uint32_t kind)
{
    return x->is_bf16 &&
           (kind == MESSAGE_FORWARD || kind == MESSAGE_BACKWARD || kind == MESSAGE_GRADS);
}

/* The index of an edge in the list. */
static int index_of(const struct exchange *x, int edge)
{
    return edge < N_EDGE_ROLES ? x->edges.index[edge] : edge - N_EDGE_ROLES;
}

/* With the key's fields, which are not set yet. */
static enum err_code send_message(struct exchange *x, struct exchange_key key,
                                  struct link_message msg, struct err *err)
{
    enum err_code rc;

    msg.type = key.kind;
    msg.flags = key.flags;
    msg.step = (uint64_t)key.step;
    msg.microbatch = (uint32_t)key.microbatch;
    do {
        beat(x);
        rc = link_send(x->link, index_of(x, key.edge), &msg, WAIT_MS, err);
    } while (rc == ERR_TIMEOUT && !is_stopped(x));
    return note_loss(x, rc, err);
}

enum err_code exchange_send(struct exchange *x, struct exchange_key key, const void *meta,
                            size_t meta_bytes, const float *tensor, size_t floats, struct err *err)
{
    struct link_message msg = {.meta = meta,
                               .meta_bytes = (uint32_t)meta_bytes,
                               .tensor = tensor,
                               .tensor_bytes = floats * sizeof *tensor};

    if (is_packed(x, key.kind)) {
        bf16_pack(x->packed, tensor, floats);
        msg.tensor = x->packed;
        msg.tensor_bytes = floats * sizeof(uint16_t);
    }
    return send_message(x, key, msg, err);
}

static struct topk topk_of(const struct exchange *x)
{
    return (struct topk){.percent = x->gradient_percent, .is_bf16 = x->is_bf16};
}

enum err_code exchange_send_largest(struct exchange *x, struct exchange_key key, float *grads,
                                    float *unsent, size_t n, struct err *err)
{
    const struct topk topk = topk_of(x);
    size_t bytes = topk_take(&topk, grads, unsent, n, x->packed);

    return send_message(x, key, (struct link_message){.tensor = x->packed, .tensor_bytes = bytes},
                        err);
}

enum err_code exchange_recv(struct exchange *x, struct exchange_key key, struct link_message *out,
                            struct err *err)
{
    struct link_message msg;
    enum err_code rc;

    do {
        beat(x);
        rc = link_recv(x->link, index_of(x, key.edge), WAIT_MS, &msg, err);
    } while (rc == ERR_TIMEOUT && !is_stopped(x));
    if (rc != ERR_OK)
        return note_loss(x, rc, err);
    if (msg.type != key.kind || msg.flags != key.flags || msg.step != (uint64_t)key.step ||
        msg.microbatch != (uint32_t)key.microbatch) {
        exchange_release(x, key, &msg);
        return err_set(err, ERR_PROTOCOL,
                       "received %s of step %llu, micro-batch %u instead of %s of step %lld, "
                       "micro-batch %d",
                       message_kind_name(msg.type), (unsigned long long)msg.step, msg.microbatch,
                       message_kind_name(key.kind), (long long)key.step, key.microbatch);
    }
    if (!message_may_carry(key.kind, msg.meta_bytes, msg.tensor_bytes)) {
        exchange_release(x, key, &msg);
        return err_set(err, ERR_PROTOCOL, "%s with %u bytes of meta data and %llu of tensor",
                       message_kind_name(key.kind), msg.meta_bytes,
                       (unsigned long long)msg.tensor_bytes);
    }
    *out = msg;
    return ERR_OK;
}

void exchange_release(struct exchange *x, struct exchange_key key, const struct link_message *msg)
{
    link_release(x->link, index_of(x, key.edge), msg);
}

enum err_code exchange_recv_meta(struct exchange *x, struct exchange_key key, void *out,
                                 size_t bytes, struct err *err)
{
    struct link_message msg;
    enum err_code rc = exchange_recv(x, key, &msg, err);

    if (rc != ERR_OK)
        return rc;
    if (msg.meta_bytes == bytes)
        memcpy(out, msg.meta, bytes);
    else
        rc = err_set(err, ERR_PROTOCOL, "%s: %u bytes, not %zu", message_kind_name(msg.type),
                     msg.meta_bytes, bytes);
    exchange_release(x, key, &msg);
    return rc;
}

enum err_code exchange_recv_sum(struct exchange *x, int edge, int64_t step, int n_units,
                                struct message_sum *out, struct err *err)
{
    enum err_code rc = exchange_recv_meta(x, exchange_key(edge, MESSAGE_STEP_SUM, step, 0), out,
                                          message_sum_bytes(n_units), err);

    if (rc == ERR_OK)
        rc = message_sum_check(out, err);
    if (rc == ERR_OK && out->n_units != n_units)
        rc = err_set(err, ERR_PROTOCOL, "end of a step: sums of %d units, not %d", out->n_units,
                     n_units);
    return rc;
}

struct route exchange_route(const struct exchange *x, enum route_kind way)
{
    return x->link ? edges_route(&x->edges, way) : (struct route){.n_in = 0};
}

enum err_code exchange_spread(struct exchange *x, enum route_kind way, enum message_kind kind,
                              int64_t step, void *meta, size_t bytes, struct err *err)
{
    const struct route route = exchange_route(x, way);
    enum err_code rc = ERR_OK;

    for (int i = 0; rc == ERR_OK && i < route.n_in; i++)
        rc = exchange_recv_meta(x, exchange_key(route.in[i], kind, step, 0), meta, bytes, err);
    if (rc != ERR_OK)
        return rc;
    for (int i = 0; i < route.n_out; i++) {
        struct err why = {.text = ""};
        enum err_code rc_sent =
            exchange_send(x, exchange_key(route.out[i], kind, step, 0), meta, bytes, NULL, 0, &why);

        if (rc == ERR_OK && rc_sent != ERR_OK)
            rc = err_set(err, rc_sent, "%s", why.text);
    }
    return rc;
}

enum err_code exchange_view(const struct exchange *x, const struct link_message *msg, size_t floats,
                            float *area, const float **out, struct err *err)
{
    bool unpacks = is_packed(x, msg->type);
    size_t bytes = floats * (unpacks ? sizeof(uint16_t) : sizeof **out);

    if (msg->type == MESSAGE_GRADS && x->gradient_percent > 0) {
        const struct topk topk = topk_of(x);

        *out = area;
        return topk_read(&topk, msg->tensor, msg->tensor_bytes, area, floats, err);
    }
    if (msg->tensor_bytes != bytes)
        return err_set(err, ERR_PROTOCOL, "%s: a tensor of %llu bytes, not %zu",
                       message_kind_name(msg->type), (unsigned long long)msg->tensor_bytes, bytes);
    if (unpacks)
        bf16_unpack(area, msg->tensor, floats);
    *out = unpacks ? area : msg->tensor;
    return ERR_OK;
}

enum err_code exchange_recv_floats(struct exchange *x, struct exchange_key key, float *out,
                                   size_t n, struct err *err)
{
    struct link_message msg;
    const float *floats;
    enum err_code rc = exchange_recv(x, key, &msg, err);

    if (rc != ERR_OK)
        return rc;
    rc = exchange_view(x, &msg, n, out, &floats, err);
    if (rc == ERR_OK && floats != out)
        memcpy(out, floats, n * sizeof *out);
    exchange_release(x, key, &msg);
    return rc;
}
