#include "train/exchange.h"

#include "base/clock.h"
#include "wire/bf16.h"

#define WAIT_MS 60000 /* one round of waiting; there is another one after it */

/* Only what the link itself reports is a lost neighbour; ERR_INVALID is a mistake on this side. */
static enum err_code note_loss(struct exchange *x, enum err_code rc)
{
    if (rc != ERR_OK && rc != ERR_INVALID)
        x->is_lost = true;
    return rc;
}

static enum err_code send_bytes(struct exchange *x, const struct exchange_key *key,
                                struct link_message *msg, struct err *err)
{
    int64_t start_ns = clock_now_ns();
    enum err_code rc;

    msg->kind = key->kind;
    msg->flags = key->flags;
    msg->step = (uint64_t)key->step;
    msg->microbatch = (uint32_t)key->microbatch;
    do {
        rc = link_send(x->link, key->edge, msg, WAIT_MS, err);
    } while (rc == ERR_TIMEOUT);
    x->blocked_ns += clock_now_ns() - start_ns;
    return note_loss(x, rc);
}

enum err_code exchange_send(struct exchange *x, const struct exchange_key *key, const void *meta,
                            size_t meta_bytes, const float *tensor, size_t floats, struct err *err)
{
    struct link_message msg = {.meta = meta,
                               .meta_bytes = (uint32_t)meta_bytes,
                               .tensor = tensor,
                               .tensor_bytes = floats * sizeof *tensor};

    return send_bytes(x, key, &msg, err);
}

enum err_code exchange_send_tensor(struct exchange *x, const struct exchange_key *key,
                                   const void *meta, size_t meta_bytes, const float *tensor,
                                   size_t floats, struct err *err)
{
    struct link_message msg = {.meta = meta,
                               .meta_bytes = (uint32_t)meta_bytes,
                               .tensor = x->narrow,
                               .tensor_bytes = floats * sizeof *x->narrow};

    if (!x->narrow)
        return exchange_send(x, key, meta, meta_bytes, tensor, floats, err);
    bf16_pack(x->narrow, tensor, floats);
    return send_bytes(x, key, &msg, err);
}

enum err_code exchange_recv(struct exchange *x, const struct exchange_key *key,
                            struct link_message *out, struct err *err)
{
    int64_t start_ns = clock_now_ns();
    struct link_message msg;
    enum err_code rc;

    do {
        rc = link_recv(x->link, key->edge, WAIT_MS, &msg, err);
    } while (rc == ERR_TIMEOUT);
    x->blocked_ns += clock_now_ns() - start_ns;
    if (rc != ERR_OK)
        return note_loss(x, rc);
    if (msg.kind != key->kind || msg.flags != key->flags || msg.step != (uint64_t)key->step ||
        msg.microbatch != (uint32_t)key->microbatch) {
        link_release(x->link, key->edge, &msg);
        return err_set(err, ERR_PROTOCOL,
                       "%s of step %llu, micro-batch %u came where %s of step %lld, micro-batch "
                       "%d was due",
                       frame_kind_name(msg.kind), (unsigned long long)msg.step, msg.microbatch,
                       frame_kind_name(key->kind), (long long)key->step, key->microbatch);
    }
    *out = msg;
    return ERR_OK;
}

void exchange_release(struct exchange *x, const struct exchange_key *key,
                      const struct link_message *msg)
{
    link_release(x->link, key->edge, msg);
}

static enum err_code check_bytes(const struct link_message *msg, size_t bytes, struct err *err)
{
    if (msg->tensor_bytes != bytes)
        return err_set(err, ERR_PROTOCOL, "%s: a tensor of %llu bytes, not %zu",
                       frame_kind_name(msg->kind), (unsigned long long)msg->tensor_bytes, bytes);
    return ERR_OK;
}

enum err_code exchange_tensor(struct exchange *x, const struct link_message *msg, size_t floats,
                              const float **out, struct err *err)
{
    enum err_code rc;

    if (!x->narrow) {
        rc = check_bytes(msg, floats * sizeof(float), err);
        *out = msg->tensor;
        return rc;
    }
    rc = check_bytes(msg, floats * sizeof *x->narrow, err);
    if (rc != ERR_OK)
        return rc;
    bf16_unpack(x->wide, msg->tensor, floats);
    *out = x->wide;
    return ERR_OK;
}

enum err_code exchange_check_floats(const struct link_message *msg, size_t floats, struct err *err)
{
    return check_bytes(msg, floats * sizeof(float), err);
}
