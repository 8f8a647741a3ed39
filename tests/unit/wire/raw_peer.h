/* A websocket client made of a bare socket, for tests that break rules a real one keeps. */
#ifndef TESTS_WIRE_RAW_PEER_H
#define TESTS_WIRE_RAW_PEER_H

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "stages.h"
#include "tcp.h"
#include "wire/hello.h"
#include "wire/wsframe.h"

#define RAW_HANDSHAKE_OF(protocol)                                                                 \
    "GET /skyjob HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"             \
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n" protocol "\r\n"
#define RAW_HANDSHAKE RAW_HANDSHAKE_OF("Sec-WebSocket-Protocol: skyjob.v1\r\n")

static inline int raw_connect(int port)
{
    int fd = tcp_connect(TCP_LOCAL, port);

    assert_true(fd >= 0);
    return fd;
}

/* The other end may hang up in the middle: that is what these tests are about. */
static inline void raw_send(int fd, const void *bytes, size_t n)
{
    (void)tcp_send(fd, bytes, n);
}

/* Read until `stop` has been seen, the end, or the time is over. Returns the number of bytes; the
 * text is NUL-terminated. *out_ended says whether the other end hung up. */
static inline size_t raw_read_until(int fd, const char *stop, char *out, size_t max,
                                    bool *out_ended)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    size_t n = 0;

    *out_ended = false;
    while (n + 1 < max && poll(&p, 1, TIMEOUT_MS) > 0) {
        ssize_t got = recv(fd, out + n, 1, 0);

        if (got <= 0) {
            *out_ended = true;
            break;
        }
        n++;
        out[n] = '\0';
        if (stop && n >= strlen(stop) && memcmp(out + n - strlen(stop), stop, strlen(stop)) == 0)
            break;
    }
    out[n] = '\0';
    return n;
}

/* The last nonce that a link has sent to us. */
static uint8_t raw_nonce[HELLO_NONCE_BYTES];

/* A connection on which the websocket handshake has been made and the CHALLENGE read. */
static inline int raw_websocket(int port)
{
    char answer[1024];
    char challenge[2 + FRAME_HEADER_BYTES + HELLO_NONCE_BYTES + 1];
    bool ended;
    int fd = raw_connect(port);

    raw_send(fd, RAW_HANDSHAKE, strlen(RAW_HANDSHAKE));
    (void)raw_read_until(fd, "\r\n\r\n", answer, sizeof answer, &ended);
    assert_non_null(strstr(answer, "101 Switching"));
    assert_non_null(strstr(answer, "skyjob.v1"));
    assert_int_equal(raw_read_until(fd, NULL, challenge, sizeof challenge, &ended),
                     sizeof challenge - 1);
    memcpy(raw_nonce, challenge + 2 + FRAME_HEADER_BYTES, sizeof raw_nonce);
    return fd;
}

/* One whole masked binary message. */
static inline void raw_send_message(int fd, const void *bytes, size_t n)
{
    uint8_t *frame = malloc(WSFRAME_HEAD_MAX + n);
    size_t head;

    assert_non_null(frame);
    memcpy(frame + WSFRAME_HEAD_MAX, bytes, n);
    head = wsframe_wrap(frame + WSFRAME_HEAD_MAX, n, true, true, 0x12345678);
    raw_send(fd, frame + WSFRAME_HEAD_MAX - head, head + n);
    free(frame);
}

/* A header as stage 0 of params_of() would send it, to be changed at will. */
static inline struct frame_header raw_header(enum frame_kind kind)
{
    struct link_params p = params_of(0, 2).link;

    return (struct frame_header){.kind = kind, .plan_hash = p.plan_hash, .revision = p.revision};
}

/* For the forward edge. */
static inline struct hello raw_hello(uint32_t from, uint32_t to)
{
    return (struct hello){.from = from,
                          .from_incarnation = INCARNATION_OF(from),
                          .to = to,
                          .to_incarnation = INCARNATION_OF(to),
                          .edge = FORWARD_ID,
                          .meta_max_bytes = META_MAX,
                          .tensor_max_bytes = TENSOR_MAX};
}

/* Send a frame whose header says what it says; `payload_crc` is made right. */
static inline void raw_send_frame(int fd, struct frame_header head, const void *payload, size_t n)
{
    uint8_t *bytes = malloc(FRAME_HEADER_BYTES + n);

    assert_non_null(bytes);
    if (n > 0)
        memcpy(bytes + FRAME_HEADER_BYTES, payload, n);
    head.payload_crc = crc32c(0, bytes + FRAME_HEADER_BYTES, n);
    frame_encode(&head, bytes);
    raw_send_message(fd, bytes, FRAME_HEADER_BYTES + n);
    free(bytes);
}

/* What a signature of stage 0 of params_of() covers, in answer to raw_nonce. */
static inline struct hello_context raw_context(const struct frame_header *head, bool is_dialer)
{
    struct hello_context context = {.key = params_of(0, 2).link.key,
                                    .is_dialer = is_dialer,
                                    .plan_hash = head->plan_hash,
                                    .revision = head->revision};

    memcpy(context.peer_nonce, raw_nonce, sizeof raw_nonce);
    return context;
}

/* As it is, signed or not. */
static inline void raw_send_hello_bytes(int fd, struct frame_header head, const struct hello *hello)
{
    uint8_t bytes[HELLO_BYTES];

    hello_encode(hello, bytes);
    head.meta_bytes = HELLO_BYTES;
    raw_send_frame(fd, head, bytes, HELLO_BYTES);
}

/* With the signature of one that has the key. */
static inline void raw_send_hello(int fd, struct frame_header head, const struct hello *hello)
{
    struct hello_context context = raw_context(&head, true);
    struct hello is_signed = *hello;

    assert_int_equal(hello_sign(&is_signed, &context, NULL), ERR_OK);
    raw_send_hello_bytes(fd, head, &is_signed);
}

/* Become stage 0's forward edge to stage 1 of 2, in the way a real stage does. */
static inline int raw_stage_0(int port)
{
    struct hello hello = raw_hello(0, 1);
    char answer[4 + FRAME_HEADER_BYTES + HELLO_BYTES + 2 + FRAME_HEADER_BYTES + 1];
    int fd = raw_websocket(port);
    bool ended;

    raw_send_hello(fd, raw_header(FRAME_HELLO), &hello);
    /* Its HELLO and its first CREDIT, in frames with 4 and 2 bytes of header. */
    assert_int_equal(raw_read_until(fd, NULL, answer, sizeof answer, &ended), sizeof answer - 1);
    return fd;
}

#endif
