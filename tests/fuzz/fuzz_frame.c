/* Frames and the HELLO: the same bytes give the same frames, however they are cut.
 *
 * The first byte says whether the magic number and the checksums, of headers and of payloads, are
 * put right, so that the fuzzer gets behind them; the second one where the bytes are cut.
 */
#include "wire/reader.h"

#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "fuzz.h"
#include "wire/hello.h"

#define META_MAX      128
#define TENSOR_MAX    512
#define AT_TENSOR     32 /* in a header, as wire/frame.c has it */
#define AT_META       40
#define AT_CRC        44
#define AT_HEAD_CRC   60
#define MEND_HEADERS  1 /* bits of the first byte */
#define MEND_PAYLOADS 2
#define OPTION_BYTES  2

static const struct frame_limits limits = {
    .kinds = UINT32_MAX, .meta_max_bytes = META_MAX, .tensor_max_bytes = TENSOR_MAX};

/* What a connection's bytes led to. */
struct outcome {
    int n_frames;
    uint32_t crc; /* over headers and payloads of all frames */
    enum err_code rc;
};

struct sink {
    struct reader reader;
    struct outcome outcome;
    uint8_t meta[META_MAX];
    uint8_t tensor[TENSOR_MAX];
};

static void check_header(const struct frame_header *head)
{
    uint8_t bytes[FRAME_HEADER_BYTES];
    struct frame_header back;

    MUST(head->kind > FRAME_NONE && head->kind < N_FRAME_KINDS);
    MUST((limits.kinds & FRAME_KIND_BIT(head->kind)) != 0);
    MUST(head->meta_bytes <= META_MAX && head->tensor_bytes <= TENSOR_MAX);
    MUST(frame_may_carry(head->kind, head->meta_bytes, head->tensor_bytes));
    frame_encode(head, bytes);
    MUST(frame_decode(bytes, sizeof bytes, &limits, &back, NULL) == ERR_OK);
    MUST(back.kind == head->kind && back.type == head->type && back.flags == head->flags);
    MUST(back.plan_hash == head->plan_hash && back.revision == head->revision);
    MUST(back.step == head->step && back.microbatch == head->microbatch);
    MUST(back.payload_crc == head->payload_crc);
    MUST(back.meta_bytes == head->meta_bytes && back.tensor_bytes == head->tensor_bytes);
}

static void check_hello(const uint8_t *bytes, uint32_t n)
{
    struct hello hello;
    uint8_t back[HELLO_BYTES];

    if (hello_decode(bytes, n, &hello, NULL) != ERR_OK)
        return;
    hello_encode(&hello, back);
    MUST(n == HELLO_BYTES && memcmp(back, bytes, n) == 0);
}

static void take_frame(struct sink *sink)
{
    const struct frame_header *head = &sink->reader.head;
    uint32_t crc = crc32c(0, sink->meta, head->meta_bytes);
    uint8_t bytes[FRAME_HEADER_BYTES];

    MUST(crc32c(crc, sink->tensor, (size_t)head->tensor_bytes) == head->payload_crc);
    frame_encode(head, bytes);
    sink->outcome.crc = crc32c(sink->outcome.crc, bytes, sizeof bytes);
    sink->outcome.n_frames++;
    if (head->kind == FRAME_HELLO)
        check_hello(sink->meta, head->meta_bytes);
}

static void feed(struct sink *sink, const uint8_t *bytes, size_t n)
{
    enum reader_event event = READER_EVENT_NONE;

    if (sink->outcome.rc != ERR_OK)
        return;
    do {
        const uint8_t *before = bytes;
        size_t n_before = n;

        sink->outcome.rc = reader_feed(&sink->reader, &limits, &bytes, &n, &event, NULL);
        MUST((size_t)(bytes - before) == n_before - n && n <= n_before);
        if (sink->outcome.rc == ERR_OK && event == READER_EVENT_HEADER) {
            check_header(&sink->reader.head);
            reader_place(&sink->reader, sink->meta, sink->tensor);
        }
        if (sink->outcome.rc == ERR_OK && event == READER_EVENT_FRAME)
            take_frame(sink);
    } while (sink->outcome.rc == ERR_OK && event != READER_EVENT_NONE);
    MUST(sink->outcome.rc == ERR_PROTOCOL || (sink->outcome.rc == ERR_OK && n == 0));
}

/* In pieces of `part` bytes, each in memory that ends where it does. */
static struct outcome feed_cut(const uint8_t *bytes, size_t n, size_t part)
{
    struct sink sink = {0};
    size_t last = n % part;
    uint8_t *piece = malloc(part);
    uint8_t *rest = malloc(last);

    MUST(piece && rest);
    for (size_t at = 0; at + part <= n; at += part)
        feed(&sink, memcpy(piece, bytes + at, part), part);
    if (last > 0)
        feed(&sink, memcpy(rest, bytes + n - last, last), last);
    free(piece);
    free(rest);
    return sink.outcome;
}

/* Make frames of the bytes wherever their lengths allow it: magic number and checksums. */
static void mend(uint8_t *bytes, size_t n, bool with_payloads)
{
    for (size_t at = 0; n - at >= FRAME_HEADER_BYTES;) {
        uint8_t *head = bytes + at;
        uint64_t payload = bytes_get(head + AT_META, 4) + bytes_get(head + AT_TENSOR, 8);
        size_t left = n - at - FRAME_HEADER_BYTES;

        memcpy(head, "SKJ\2", 4);
        if (with_payloads && payload <= left)
            bytes_put(head + AT_CRC, crc32c(0, head + FRAME_HEADER_BYTES, (size_t)payload), 4);
        bytes_put(head + AT_HEAD_CRC, crc32c(0, head, AT_HEAD_CRC), 4);
        if (payload > left)
            return;
        at += FRAME_HEADER_BYTES + (size_t)payload;
    }
}

static bool is_same(struct outcome a, struct outcome b)
{
    return a.n_frames == b.n_frames && a.crc == b.crc && a.rc == b.rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct outcome whole;
    uint8_t *stream;
    size_t part;

    if (n <= OPTION_BYTES)
        return 0;
    stream = malloc(n - OPTION_BYTES);
    MUST(stream);
    memcpy(stream, bytes + OPTION_BYTES, n - OPTION_BYTES);
    part = 1 + bytes[1];
    check_hello(stream, (uint32_t)(n - OPTION_BYTES));
    if ((bytes[0] & MEND_HEADERS) != 0)
        mend(stream, n - OPTION_BYTES, (bytes[0] & MEND_PAYLOADS) != 0);
    whole = feed_cut(stream, n - OPTION_BYTES, n);
    MUST(is_same(whole, feed_cut(stream, n - OPTION_BYTES, part)));
    MUST(is_same(whole, feed_cut(stream, n - OPTION_BYTES, 1)));
    free(stream);
    return 0;
}
