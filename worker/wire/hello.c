#include "wire/hello.h"

#include <string.h>

#include "base/bytes.h"

enum {
    AT_FROM = 0,              /* u32 */
    AT_TO = 4,                /* u32 */
    AT_EDGE = 8,              /* u32 */
    AT_META = 12,             /* u32 */
    AT_TENSOR = 16,           /* u64 */
    AT_FROM_INCARNATION = 24, /* u32 */
    AT_TO_INCARNATION = 28,   /* u32 */
    AT_ZERO = 32,             /* 8 bytes, must be 0 */
    AT_NONCE = 40,
    AT_MAC = AT_NONCE + HELLO_NONCE_BYTES,
};

void hello_encode(const struct hello *hello, uint8_t out[static HELLO_BYTES])
{
    bytes_put(out + AT_FROM, hello->from, 4);
    bytes_put(out + AT_TO, hello->to, 4);
    bytes_put(out + AT_EDGE, hello->edge, 4);
    bytes_put(out + AT_META, hello->meta_max_bytes, 4);
    bytes_put(out + AT_TENSOR, hello->tensor_max_bytes, 8);
    bytes_put(out + AT_FROM_INCARNATION, hello->from_incarnation, 4);
    bytes_put(out + AT_TO_INCARNATION, hello->to_incarnation, 4);
    memset(out + AT_ZERO, 0, AT_NONCE - AT_ZERO);
    memcpy(out + AT_NONCE, hello->nonce, sizeof hello->nonce);
    memcpy(out + AT_MAC, hello->mac, sizeof hello->mac);
}

enum err_code hello_decode(const uint8_t *bytes, uint32_t n, struct hello *out, struct err *err)
{
    if (n != HELLO_BYTES)
        return err_set(err, ERR_PROTOCOL, "a HELLO of %u bytes, not %d", n, HELLO_BYTES);
    if (bytes_get(bytes + AT_ZERO, 8) != 0)
        return err_set(err, ERR_PROTOCOL, "a HELLO uses reserved bytes");
    *out = (struct hello){
        .from = (uint32_t)bytes_get(bytes + AT_FROM, 4),
        .to = (uint32_t)bytes_get(bytes + AT_TO, 4),
        .edge = (uint32_t)bytes_get(bytes + AT_EDGE, 4),
        .meta_max_bytes = (uint32_t)bytes_get(bytes + AT_META, 4),
        .tensor_max_bytes = bytes_get(bytes + AT_TENSOR, 8),
        .from_incarnation = (uint32_t)bytes_get(bytes + AT_FROM_INCARNATION, 4),
        .to_incarnation = (uint32_t)bytes_get(bytes + AT_TO_INCARNATION, 4),
    };
    memcpy(out->nonce, bytes + AT_NONCE, sizeof out->nonce);
    memcpy(out->mac, bytes + AT_MAC, sizeof out->mac);
    return ERR_OK;
}

#define N_PARTS 5

/* `fields` and `identity` are room for what `out` points into. */
static void list_parts(const struct hello *hello, const struct hello_context *c,
                       uint8_t fields[static HELLO_BYTES], uint8_t identity[static 12],
                       struct hmac_part out[static N_PARTS])
{
    const char *role = c->is_dialer ? "dialer" : "acceptor";

    hello_encode(hello, fields);
    bytes_put(identity, c->plan_hash, 8);
    bytes_put(identity + 8, c->revision, 4);
    out[0] = (struct hmac_part){"skyjob hello", strlen("skyjob hello")};
    out[1] = (struct hmac_part){role, strlen(role)};
    out[2] = (struct hmac_part){identity, 12};
    out[3] = (struct hmac_part){fields, AT_MAC};
    out[4] = (struct hmac_part){c->peer_nonce, sizeof c->peer_nonce};
}

enum err_code hello_sign(struct hello *hello, const struct hello_context *context, struct err *err)
{
    uint8_t fields[HELLO_BYTES];
    uint8_t identity[12];
    struct hmac_part parts[N_PARTS];

    list_parts(hello, context, fields, identity, parts);
    return hmac_sign(&context->key, parts, N_PARTS, hello->mac, err);
}

bool hello_is_signed(const struct hello *hello, const struct hello_context *context)
{
    uint8_t fields[HELLO_BYTES];
    uint8_t identity[12];
    struct hmac_part parts[N_PARTS];

    list_parts(hello, context, fields, identity, parts);
    return hmac_check(&context->key, parts, N_PARTS, hello->mac);
}
