#include "wire/frame.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"

/* Where each field lies in the header. */
enum {
    AT_MAGIC = 0,        /* "SKJ" and the version */
    AT_KIND = 4,         /* u8 */
    AT_FLAGS = 5,        /* u8 */
    AT_TYPE = 6,         /* u8 */
    AT_ZERO_7 = 7,       /* u8, must be 0 */
    AT_PLAN_HASH = 8,    /* u64 */
    AT_STEP = 16,        /* u64 */
    AT_REVISION = 24,    /* u32 */
    AT_MICROBATCH = 28,  /* u32 */
    AT_TENSOR = 32,      /* u64 */
    AT_META = 40,        /* u32 */
    AT_PAYLOAD_CRC = 44, /* u32 */
    AT_ZERO_48 = 48,     /* 12 bytes, must be 0 */
    AT_HEADER_CRC = 60,  /* u32, over the 60 bytes before it */
};

static const uint8_t magic[4] = {'S', 'K', 'J', 3};

enum parts { PARTS_N = 0, PARTS_M = 1, PARTS_T = 2, PARTS_B = PARTS_M | PARTS_T };

#define FRAME_ROW(name, parts) [FRAME_##name] = {#name, PARTS_##parts},
static const struct {
    const char *name;
    enum parts parts;
} kinds[N_FRAME_KINDS] = {[FRAME_NONE] = {"NONE", PARTS_N}, FRAME_KINDS(FRAME_ROW)};
#undef FRAME_ROW

const char *frame_kind_name(enum frame_kind kind)
{
    return (unsigned)kind < N_FRAME_KINDS ? kinds[kind].name : "unknown";
}

bool frame_may_carry(enum frame_kind kind, uint32_t meta_bytes, uint64_t tensor_bytes)
{
    enum parts parts = (unsigned)kind < N_FRAME_KINDS ? kinds[kind].parts : PARTS_N;

    return (meta_bytes == 0 || (parts & PARTS_M)) && (tensor_bytes == 0 || (parts & PARTS_T));
}

void frame_encode(const struct frame_header *head, uint8_t out[static FRAME_HEADER_BYTES])
{
    assert(head->kind > FRAME_NONE && head->kind < N_FRAME_KINDS);
    assert(head->type <= FRAME_TYPE_MAX && head->flags <= FRAME_FLAGS_MAX);
    assert(head->kind == FRAME_DATA || (head->type == 0 && head->flags == 0));
    assert(frame_may_carry(head->kind, head->meta_bytes, head->tensor_bytes));

    memset(out, 0, FRAME_HEADER_BYTES);
    memcpy(out + AT_MAGIC, magic, sizeof magic);
    bytes_put(out + AT_KIND, (uint64_t)head->kind, 1);
    bytes_put(out + AT_FLAGS, head->flags, 1);
    bytes_put(out + AT_TYPE, head->type, 1);
    bytes_put(out + AT_PLAN_HASH, head->plan_hash, 8);
    bytes_put(out + AT_STEP, head->step, 8);
    bytes_put(out + AT_REVISION, head->revision, 4);
    bytes_put(out + AT_MICROBATCH, head->microbatch, 4);
    bytes_put(out + AT_TENSOR, head->tensor_bytes, 8);
    bytes_put(out + AT_META, head->meta_bytes, 4);
    bytes_put(out + AT_PAYLOAD_CRC, head->payload_crc, 4);
    bytes_put(out + AT_HEADER_CRC, crc32c(0, out, AT_HEADER_CRC), 4);
}

static enum err_code check_limits(const struct frame_header *head,
                                  const struct frame_limits *limits, struct err *err)
{
    const char *name = kinds[head->kind].name;
    uint64_t tensor_max = kinds[head->kind].parts & PARTS_T ? limits->tensor_max_bytes : 0;
    uint32_t meta_max = kinds[head->kind].parts & PARTS_M ? limits->meta_max_bytes : 0;

    if (!(limits->kinds & FRAME_KIND_BIT(head->kind)))
        return err_set(err, ERR_PROTOCOL, "a %s frame is not expected here", name);
    if (head->meta_bytes > meta_max)
        return err_set(err, ERR_PROTOCOL, "%s frame: %u bytes of meta data, at most %u", name,
                       head->meta_bytes, meta_max);
    if (head->tensor_bytes > tensor_max)
        return err_set(err, ERR_PROTOCOL, "%s frame: %llu bytes of tensor, at most %llu", name,
                       (unsigned long long)head->tensor_bytes, (unsigned long long)tensor_max);
    if (head->meta_bytes == 0 && head->tensor_bytes == 0 && head->payload_crc != 0)
        return err_set(err, ERR_PROTOCOL, "%s frame: a checksum without a payload", name);
    return ERR_OK;
}

enum err_code frame_decode(const uint8_t *bytes, size_t n, const struct frame_limits *limits,
                           struct frame_header *out, struct err *err)
{
    struct frame_header head;
    enum err_code rc;

    if (memcmp(bytes, magic, n < sizeof magic ? n : sizeof magic) != 0)
        return err_set(err, ERR_PROTOCOL, "not a frame of version %d", magic[3]);
    if (n < FRAME_HEADER_BYTES)
        return err_set(err, ERR_AGAIN, "%zu of %d header bytes", n, FRAME_HEADER_BYTES);
    if (bytes_get(bytes + AT_HEADER_CRC, 4) != crc32c(0, bytes, AT_HEADER_CRC))
        return err_set(err, ERR_PROTOCOL, "a frame's header has a wrong checksum");

    head = (struct frame_header){
        .kind = (enum frame_kind)bytes[AT_KIND],
        .type = bytes[AT_TYPE],
        .flags = bytes[AT_FLAGS],
        .plan_hash = bytes_get(bytes + AT_PLAN_HASH, 8),
        .step = bytes_get(bytes + AT_STEP, 8),
        .revision = (uint32_t)bytes_get(bytes + AT_REVISION, 4),
        .microbatch = (uint32_t)bytes_get(bytes + AT_MICROBATCH, 4),
        .tensor_bytes = bytes_get(bytes + AT_TENSOR, 8),
        .meta_bytes = (uint32_t)bytes_get(bytes + AT_META, 4),
        .payload_crc = (uint32_t)bytes_get(bytes + AT_PAYLOAD_CRC, 4),
    };
    if (head.kind <= FRAME_NONE || head.kind >= N_FRAME_KINDS)
        return err_set(err, ERR_PROTOCOL, "unknown frame kind %d", (int)head.kind);
    if (head.kind != FRAME_DATA && (head.type != 0 || head.flags != 0))
        return err_set(err, ERR_PROTOCOL, "%s frame: type %u and flags 0x%x, not 0",
                       kinds[head.kind].name, head.type, head.flags);
    if (bytes[AT_ZERO_7] != 0 || bytes_get(bytes + AT_ZERO_48, 8) != 0 ||
        bytes_get(bytes + AT_ZERO_48 + 8, 4) != 0)
        return err_set(err, ERR_PROTOCOL, "a frame uses reserved bytes");
    rc = check_limits(&head, limits, err);
    if (rc != ERR_OK)
        return rc;
    *out = head;
    return ERR_OK;
}
