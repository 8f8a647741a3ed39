#include "train/exchange.h"

#include <string.h>

#include "wire/bf16.h"

#define WAIT_MS 60000 /* of one call; repeated without a limit */

/* ERR_INVALID is a mistake on this side; any other failure of the link means a lost neighbour. */
static enum err_code note_loss(struct exchange *x, enum err_code rc)
{
    if (rc != ERR_OK && rc != ERR_INVALID)
        x->is_lost = true;
    return rc;
}

static bool is_packed(const struct exchange *x, enum frame_kind kind)
{
    return x->packed && (kind == FRAME_FORWARD || kind == FRAME_BACKWARD);
}

enum err_code exchange_send(struct exchange *x, struct exchange_key key, const void *meta,
                            size_t meta_bytes, const float *tensor, size_t floats, struct err *err)
{
    struct link_message msg = {.kind = key.kind,
                               .flags = key.flags,
                               .step = (uint64_t)key.step,
                               .microbatch = (uint32_t)key.microbatch,
                               .meta = meta,
                               .meta_bytes = (uint32_t)meta_bytes,
                               .tensor = tensor,
                               .tensor_bytes = floats * sizeof *tensor};
    enum err_code rc;

    if (is_packed(x, key.kind)) {
        bf16_pack(x->packed, tensor, floats);
        msg.tensor = x->packed;
        msg.tensor_bytes = floats * sizeof *x->packed;
    }
    do {
        rc = link_send(x->link, key.edge, &msg, WAIT_MS, err);
    } while (rc == ERR_TIMEOUT);
    return note_loss(x, rc);
}

enum err_code exchange_recv(struct exchange *x, struct exchange_key key, struct link_message *out,
                            struct err *err)
{
    struct link_message msg;
    enum err_code rc;

    do {
        rc = link_recv(x->link, key.edge, WAIT_MS, &msg, err);
    } while (rc == ERR_TIMEOUT);
    if (rc != ERR_OK)
        return note_loss(x, rc);
    if (msg.kind != key.kind || msg.flags != key.flags || msg.step != (uint64_t)key.step ||
        msg.microbatch != (uint32_t)key.microbatch) {
        link_release(x->link, key.edge, &msg);
        return err_set(err, ERR_PROTOCOL,
                       "received %s of step %llu, micro-batch %u instead of %s of step %lld, "
                       "micro-batch %d",
                       frame_kind_name(msg.kind), (unsigned long long)msg.step, msg.microbatch,
                       frame_kind_name(key.kind), (long long)key.step, key.microbatch);
    }
    *out = msg;
    return ERR_OK;
}

void exchange_release(struct exchange *x, struct exchange_key key, const struct link_message *msg)
{
    link_release(x->link, key.edge, msg);
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
        rc = err_set(err, ERR_PROTOCOL, "%s: %u bytes, not %zu", frame_kind_name(msg.kind),
                     msg.meta_bytes, bytes);
    exchange_release(x, key, &msg);
    return rc;
}

enum err_code exchange_view(const struct exchange *x, const struct link_message *msg, size_t floats,
                            float *area, const float **out, struct err *err)
{
    bool unpacks = is_packed(x, msg->kind);
    size_t bytes = floats * (unpacks ? sizeof *x->packed : sizeof **out);

    if (msg->tensor_bytes != bytes)
        return err_set(err, ERR_PROTOCOL, "%s: a tensor of %llu bytes, not %zu",
                       frame_kind_name(msg->kind), (unsigned long long)msg->tensor_bytes, bytes);
    if (unpacks)
        bf16_unpack(area, msg->tensor, floats);
    *out = unpacks ? area : msg->tensor;
    return ERR_OK;
}
