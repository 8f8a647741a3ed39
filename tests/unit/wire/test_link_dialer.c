/* What a dialing stage makes of servers that are not, or not any more, what they should be. */
#include <libwebsockets.h>
#include <pthread.h>
#include <signal.h>

#include "base/clock.h"
#include "raw_peer.h"
#include "suite.h"

static int listener = -1;

/* --- a server that serves one connection after the other, badly --- */

static void answer_handshake(int fd)
{
    static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    char request[2048], text[200], accept_key[64];
    unsigned char hash[20];
    char *key, *end;
    bool ended;

    (void)raw_read_until(fd, "\r\n\r\n", request, sizeof request, &ended);
    key = strcasestr(request, "Sec-WebSocket-Key: ");
    end = key ? strstr(key, "\r\n") : NULL;
    if (!end)
        return;
    *end = '\0';
    snprintf(text, sizeof text, "%s%s", key + strlen("Sec-WebSocket-Key: "), guid);
    lws_SHA1((const unsigned char *)text, strlen(text), hash);
    lws_b64_encode_string((const char *)hash, sizeof hash, accept_key, sizeof accept_key);
    snprintf(request, sizeof request,
             "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
             "Sec-WebSocket-Accept: %s\r\nSec-WebSocket-Protocol: skyjob.v1\r\n\r\n",
             accept_key);
    raw_send(fd, request, strlen(request));
}

/* One unmasked binary message, as a server sends it. */
static void serve(int fd, struct frame_header head, const void *payload, size_t n)
{
    uint8_t bytes[4 + FRAME_HEADER_BYTES + HELLO_BYTES];
    size_t n_frame = FRAME_HEADER_BYTES + n;
    uint8_t *start = bytes + (n_frame > 125 ? 0 : 2);

    if (n > 0)
        memcpy(bytes + 4 + FRAME_HEADER_BYTES, payload, n);
    head.payload_crc = crc32c(0, payload, n);
    frame_encode(&head, bytes + 4);
    start[0] = 0x82;
    start[1] = (uint8_t)(n_frame > 125 ? 126 : n_frame);
    if (n_frame > 125) {
        start[2] = (uint8_t)(n_frame >> 8);
        start[3] = (uint8_t)n_frame;
    }
    raw_send(fd, start, (size_t)(bytes + 4 - start) + n_frame);
}

/* Challenge the dialer; its HELLO is left in `out`, and its nonce in raw_nonce. */
static bool challenge(int fd, uint8_t out[static HELLO_BYTES])
{
    static const uint8_t nonce[HELLO_NONCE_BYTES] = {1};
    struct frame_header head = {.kind = FRAME_CHALLENGE, .meta_bytes = sizeof nonce};
    uint8_t bytes[8 + FRAME_HEADER_BYTES + HELLO_BYTES]; /* masked: 4 bytes of header, 4 of key */
    struct hello hello;

    serve(fd, head, nonce, sizeof nonce);
    if (recv(fd, bytes, sizeof bytes, MSG_WAITALL) != (ssize_t)sizeof bytes)
        return false;
    for (size_t i = 8; i < sizeof bytes; i++)
        bytes[i] ^= bytes[4 + (i - 8) % 4];
    memcpy(out, bytes + 8 + FRAME_HEADER_BYTES, HELLO_BYTES);
    if (hello_decode(out, HELLO_BYTES, &hello, NULL) != ERR_OK)
        return false;
    memcpy(raw_nonce, hello.nonce, sizeof raw_nonce);
    return true;
}

static void serve_signed_hello(int fd, uint32_t from, uint32_t revision, uint8_t key_change)
{
    struct frame_header head = raw_header(FRAME_HELLO);
    struct hello hello = raw_hello(from, 0);
    struct hello_context context;
    uint8_t bytes[HELLO_BYTES];

    if (!challenge(fd, bytes))
        return;
    head.revision = revision;
    head.meta_bytes = HELLO_BYTES;
    context = raw_context(&head, false);
    context.key.bytes[0] ^= key_change;
    if (hello_sign(&hello, &context, NULL) != ERR_OK)
        return;
    hello_encode(&hello, bytes);
    serve(fd, head, bytes, sizeof bytes);
}

static void serve_hello(int fd, uint32_t from, uint32_t revision)
{
    serve_signed_hello(fd, from, revision, 0);
}

static void serve_credit(int fd, uint64_t total)
{
    struct frame_header head = raw_header(FRAME_CREDIT);

    head.step = total;
    serve(fd, head, NULL, 0);
}

/* --- the ways to be bad --- */

static void hang_up(int fd)
{
    (void)fd;
}

static void say_not_found(int fd)
{
    raw_send(fd, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", 45);
}

static void say_ok(int fd)
{
    raw_send(fd, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 43);
}

static void say_nothing(int fd)
{
    char got[2048];
    bool ended;

    (void)raw_read_until(fd, NULL, got, sizeof got, &ended);
}

static void say_garbage(int fd)
{
    answer_handshake(fd);
    raw_send(fd, "\x82\x05hello", 7);
}

static void say_hello_of_another_revision(int fd)
{
    answer_handshake(fd);
    serve_hello(fd, 1, 7);
}

static void say_hello_of_another_stage(int fd)
{
    answer_handshake(fd);
    serve_hello(fd, 5, 2);
}

static void say_hello_with_another_key(int fd)
{
    answer_handshake(fd);
    serve_signed_hello(fd, 1, 2, 1);
}

/* The dialer's own HELLO, sent back to it. */
static void say_back_what_was_said(int fd)
{
    struct frame_header head = raw_header(FRAME_HELLO);
    uint8_t bytes[HELLO_BYTES];

    answer_handshake(fd);
    head.meta_bytes = HELLO_BYTES;
    if (challenge(fd, bytes))
        serve(fd, head, bytes, sizeof bytes);
}

static void say_hello_without_a_challenge(int fd)
{
    struct frame_header head = raw_header(FRAME_HELLO);
    uint8_t bytes[HELLO_BYTES] = {0};

    answer_handshake(fd);
    head.meta_bytes = HELLO_BYTES;
    serve(fd, head, bytes, sizeof bytes);
}

static void send_a_short_challenge(int fd)
{
    struct frame_header head = {.kind = FRAME_CHALLENGE, .meta_bytes = 3};

    answer_handshake(fd);
    serve(fd, head, "abc", 3);
}

static void give_credit_before_hello(int fd)
{
    uint8_t bytes[HELLO_BYTES];

    answer_handshake(fd);
    (void)challenge(fd, bytes);
    serve_credit(fd, 3);
}

static void say_hello_and_no_more(int fd)
{
    answer_handshake(fd);
    serve_hello(fd, 1, 2);
    say_nothing(fd);
}

static void give_endless_credit(int fd)
{
    answer_handshake(fd);
    serve_hello(fd, 1, 2);
    serve_credit(fd, UINT64_MAX);
    say_nothing(fd);
}

static void take_credit_back(int fd)
{
    answer_handshake(fd);
    serve_hello(fd, 1, 2);
    serve_credit(fd, 3);
    serve_credit(fd, 2);
    say_nothing(fd);
}

static void send_tensors_the_wrong_way(int fd)
{
    answer_handshake(fd);
    serve_hello(fd, 1, 2);
    serve_credit(fd, 3);
    serve(fd, raw_header(FRAME_DATA), NULL, 0);
    say_nothing(fd);
}

static void die_after_the_first_credit(int fd)
{
    answer_handshake(fd);
    serve_hello(fd, 1, 2);
    serve_credit(fd, 3);
}

struct server {
    const char *name;
    void (*treat)(int fd); /* one connection; it is closed afterwards */
    enum err_code want;
    const char *says;
};

static struct server servers[] = {
    {"link_gives_up_on_a_server_that_hangs_up", hang_up, ERR_TIMEOUT, "could not be reached"},
    {"link_gives_up_on_a_server_that_finds_nothing", say_not_found, ERR_TIMEOUT,
     "could not be reached"},
    {"link_gives_up_on_a_plain_web_server", say_ok, ERR_TIMEOUT, "could not be reached"},
    {"link_gives_up_on_a_silent_server", say_nothing, ERR_TIMEOUT, "could not be reached"},
    {"link_gives_up_on_a_server_that_says_garbage", say_garbage, ERR_TIMEOUT,
     "not a frame of version"},
    {"link_gives_up_on_a_server_of_another_revision", say_hello_of_another_revision, ERR_TIMEOUT,
     "revision 7, not 2"},
    {"link_gives_up_on_another_stage_at_the_address", say_hello_of_another_stage, ERR_TIMEOUT,
     "worker 5 answered"},
    {"link_gives_up_on_a_server_with_another_key", say_hello_with_another_key, ERR_TIMEOUT,
     "not authenticated"},
    {"link_gives_up_on_a_server_that_says_back_what_was_said", say_back_what_was_said, ERR_TIMEOUT,
     "not authenticated"},
    {"link_gives_up_on_a_server_that_does_not_challenge", say_hello_without_a_challenge,
     ERR_TIMEOUT, "HELLO frame is not expected"},
    {"link_gives_up_on_a_server_with_a_short_challenge", send_a_short_challenge, ERR_TIMEOUT,
     "a CHALLENGE of 3 bytes"},
    {"link_gives_up_on_a_server_without_a_hello", give_credit_before_hello, ERR_TIMEOUT,
     "CREDIT frame is not expected"},
    {"link_gives_up_on_a_server_that_does_not_accept", say_hello_and_no_more, ERR_TIMEOUT,
     "no greeting in time"},
    {"link_gives_up_on_a_server_with_endless_credit", give_endless_credit, ERR_TIMEOUT,
     "a credit of 18446744073709551615 after 0 frames"},
    {"link_loses_a_server_that_takes_credit_back", take_credit_back, ERR_PROTOCOL,
     "broke the protocol: a credit of 2"},
    {"link_loses_a_server_that_sends_tensors_the_wrong_way", send_tensors_the_wrong_way,
     ERR_PROTOCOL, "DATA frame is not expected"},
    {"link_loses_a_server_that_dies", die_after_the_first_credit, ERR_IO,
     "stage 1 at 127.0.0.1 is gone"},
};

static void *serve_all(void *arg)
{
    const struct server *row = arg;
    int fd;

    while ((fd = accept(listener, NULL, NULL)) >= 0) {
        row->treat(fd);
        close(fd);
    }
    return NULL;
}

static int listen_anywhere(void)
{
    int port = 0;

    listener = tcp_listen(TCP_LOCAL, 0, &port);
    assert_true(listener >= 0);
    return port;
}

static void check_server(void **state)
{
    struct server *row = *state;
    struct stage_params p = params_of(0, 2);
    int port = listen_anywhere();
    struct link_message msg = {.type = TYPE_STOP};
    struct stages s = {.n = 1};
    enum err_code rc = ERR_OK;
    pthread_t thread;
    struct err err;

    assert_int_equal(pthread_create(&thread, NULL, serve_all, row), 0);
    p.link.dial_timeout_ms = 200;
    open_stage(&s, 0, &p);
    set_peer(s.links[0], 1, port);
    for (int i = 0; i < 100 && rc == ERR_OK; i++)
        rc = send_on(s.links[0], FORWARD_OUT, &msg, TIMEOUT_MS, &err);
    if (rc != row->want || !strstr(err.text, row->says))
        fail_msg("code %d \"%s\"", rc, err.text);

    rc = link_close(s.links[0], TIMEOUT_MS, &err);
    assert_true(rc == row->want || rc == ERR_OK); /* unless nothing had been sent at all */
    s.links[0] = NULL;
    shutdown(listener, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(listener);
    stop(&s);
}

int main(void)
{
    struct suite suite = {.n = 0};

    signal(SIGPIPE, SIG_IGN);
    SUITE_ROWS(&suite, servers, check_server);
    return suite_run(&suite, "link_dialer", NULL, NULL);
}
