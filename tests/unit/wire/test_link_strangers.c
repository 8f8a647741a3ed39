#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "raw_peer.h"
#include "suite.h"

#define FLOOD_SOCKETS 200

static atomic_bool flood_stops;

/* --- strangers on the port of a stage whose edges are in use --- */

/* Each attacks stage 1 of 3 on a fresh connection, and must be turned away. */
struct stranger {
    const char *name;
    const char *text;         /* sent as it is, or ... */
    void (*attack)(int port); /* ... everything by hand; the socket is left in `attacker` */
    const char *says;         /* in what comes back before the end; NULL: anything */
};

static int attacker = -1;

static void send_text_opcode(int port)
{
    attacker = raw_websocket(port);
    raw_send(attacker, "\x81\x85\0\0\0\0hello", 11);
}

static void send_unmasked_garbage(int port)
{
    attacker = raw_websocket(port);
    raw_send(attacker, "\x82\x05hello", 7);
}

static void send_masked_garbage(int port)
{
    attacker = raw_websocket(port);
    raw_send_message(attacker, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 50);
}

static void send_reserved_bits(int port)
{
    attacker = raw_websocket(port);
    raw_send(attacker, "\xf2\x85\0\0\0\0hello", 11);
}

static void send_bad_opcode(int port)
{
    attacker = raw_websocket(port);
    raw_send(attacker, "\x83\x85\0\0\0\0hello", 11);
}

static void send_a_continuation_of_nothing(int port)
{
    attacker = raw_websocket(port);
    raw_send(attacker, "\x80\x85\0\0\0\0hello", 11);
}

static void send_a_large_ping(int port)
{
    attacker = raw_websocket(port);
    raw_send(attacker, "\x89\xfe\xff\xff\0\0\0\0", 8);
}

static void send_a_negative_length(int port)
{
    attacker = raw_websocket(port);
    raw_send(attacker, "\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0hello", 19);
}

static void send_garbage_in_a_frame_of_4_exabytes(int port)
{
    attacker = raw_websocket(port);
    raw_send(attacker, "\x82\xff\x40\0\0\0\0\0\0\0\0\0\0\0hello", 19);
}

static void send_a_tensor_before_hello(int port)
{
    attacker = raw_websocket(port);
    raw_send_frame(attacker, raw_header(FRAME_DATA), NULL, 0);
}

static void send_a_hello_of_4_gib(int port)
{
    struct frame_header head = raw_header(FRAME_HELLO);
    uint8_t bytes[FRAME_HEADER_BYTES];

    attacker = raw_websocket(port);
    head.meta_bytes = UINT32_MAX;
    frame_encode(&head, bytes);
    raw_send_message(attacker, bytes, sizeof bytes);
}

static void send_a_short_hello(int port)
{
    struct frame_header head = raw_header(FRAME_HELLO);

    attacker = raw_websocket(port);
    head.meta_bytes = 3;
    raw_send_frame(attacker, head, "abc", 3);
}

static void send_a_hello_with_a_wrong_checksum(int port)
{
    struct frame_header head = raw_header(FRAME_HELLO);
    uint8_t bytes[FRAME_HEADER_BYTES + HELLO_BYTES] = {0};

    attacker = raw_websocket(port);
    head.meta_bytes = HELLO_BYTES;
    head.payload_crc = 1;
    frame_encode(&head, bytes);
    raw_send_message(attacker, bytes, sizeof bytes);
}

static void say_another_plan(int port)
{
    struct frame_header head = raw_header(FRAME_HELLO);
    struct hello hello = raw_hello(0, 1);

    attacker = raw_websocket(port);
    head.plan_hash++;
    raw_send_hello(attacker, head, &hello);
}

static void say_another_revision(int port)
{
    struct frame_header head = raw_header(FRAME_HELLO);
    struct hello hello = raw_hello(0, 1);

    attacker = raw_websocket(port);
    head.revision = 1;
    raw_send_hello(attacker, head, &hello);
}

static void say_other_limits(int port)
{
    struct hello hello = raw_hello(0, 1);

    attacker = raw_websocket(port);
    hello.tensor_max_bytes *= 2;
    raw_send_hello(attacker, raw_header(FRAME_HELLO), &hello);
}

static void mean_another_stage(int port)
{
    struct hello hello = raw_hello(1, 2);

    attacker = raw_websocket(port);
    raw_send_hello(attacker, raw_header(FRAME_HELLO), &hello);
}

/* Of a pod that has been replaced, or to one. */
static void mean_another_incarnation(int port)
{
    struct hello hello = raw_hello(0, 1);

    attacker = raw_websocket(port);
    hello.to_incarnation--;
    raw_send_hello(attacker, raw_header(FRAME_HELLO), &hello);
}

static void come_from_another_incarnation(int port)
{
    struct hello hello = raw_hello(0, 1);

    attacker = raw_websocket(port);
    hello.from_incarnation--;
    raw_send_hello(attacker, raw_header(FRAME_HELLO), &hello);
}

static void come_from_a_stage_that_is_no_neighbour(int port)
{
    struct hello hello = raw_hello(2, 1); /* that edge comes from stage 0 */

    attacker = raw_websocket(port);
    raw_send_hello(attacker, raw_header(FRAME_HELLO), &hello);
}

static void want_an_edge_that_is_taken(int port)
{
    struct hello hello = raw_hello(2, 1);

    attacker = raw_websocket(port);
    hello.edge = BACKWARD_ID;
    raw_send_hello(attacker, raw_header(FRAME_HELLO), &hello);
}

/* Everything is right but the signature: strangers who know all that can be known. */
static void say_hello_without_a_key(int port)
{
    struct hello hello = raw_hello(0, 1);

    attacker = raw_websocket(port);
    raw_send_hello_bytes(attacker, raw_header(FRAME_HELLO), &hello);
}

static void say_hello_with_another_key(int port)
{
    struct frame_header head = raw_header(FRAME_HELLO);
    struct hello hello = raw_hello(0, 1);
    struct hello_context context;

    attacker = raw_websocket(port);
    context = raw_context(&head, true);
    context.key.bytes[HMAC_BYTES - 1] ^= 1;
    assert_int_equal(hello_sign(&hello, &context, NULL), ERR_OK);
    raw_send_hello_bytes(attacker, head, &hello);
}

/* What was overheard on one connection is said on the next. */
static void repeat_the_hello_of_another_connection(int port)
{
    struct frame_header head = raw_header(FRAME_HELLO);
    struct hello hello = raw_hello(0, 1);
    struct hello_context context;
    int first = raw_websocket(port);

    context = raw_context(&head, true);
    close(first);
    attacker = raw_websocket(port);
    assert_int_equal(hello_sign(&hello, &context, NULL), ERR_OK);
    raw_send_hello_bytes(attacker, head, &hello);
}

/* An acceptor's signature, as one could be had by being dialed. */
static void say_hello_in_the_role_of_an_acceptor(int port)
{
    struct frame_header head = raw_header(FRAME_HELLO);
    struct hello hello = raw_hello(0, 1);
    struct hello_context context;

    attacker = raw_websocket(port);
    context = raw_context(&head, false);
    assert_int_equal(hello_sign(&hello, &context, NULL), ERR_OK);
    raw_send_hello_bytes(attacker, head, &hello);
}

static void change_a_field_of_a_signed_hello(int port)
{
    struct frame_header head = raw_header(FRAME_HELLO);
    struct hello hello = raw_hello(0, 1);
    struct hello_context context;

    attacker = raw_websocket(port);
    context = raw_context(&head, true);
    assert_int_equal(hello_sign(&hello, &context, NULL), ERR_OK);
    hello.from = 2;
    hello.edge = BACKWARD_ID;
    raw_send_hello_bytes(attacker, head, &hello);
}

/* Without a key not even a wrong plan or revision is remarked on. */
static void say_another_plan_without_a_key(int port)
{
    struct frame_header head = raw_header(FRAME_HELLO);
    struct hello hello = raw_hello(0, 1);

    attacker = raw_websocket(port);
    head.plan_hash++;
    head.revision++;
    raw_send_hello_bytes(attacker, head, &hello);
}

static void hang_up_at_once(int port)
{
    attacker = raw_connect(port);
    shutdown(attacker, SHUT_WR);
}

static void hang_up_in_the_middle_of_hello(int port)
{
    attacker = raw_websocket(port);
    raw_send(attacker, "\x82\xe8\0\0\0\0SKJ", 9);
    shutdown(attacker, SHUT_WR);
}

static struct stranger strangers[] = {
    {"link_refuses_a_plain_get", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", NULL, NULL},
    {"link_refuses_a_post", "POST /skyjob HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
     NULL, NULL},
    {"link_refuses_garbage", "\x16\x03\x01\x02garbage\r\n\r\n\r\n", NULL, NULL},
    {"link_refuses_the_preface_of_http2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", NULL, NULL},
    {"link_refuses_an_upgrade_to_http2",
     "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
     "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n",
     NULL, NULL},
    {"link_refuses_an_upgrade_to_http2_that_also_has_a_websocket_key",
     "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
     "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
     "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n",
     NULL, NULL},
    {"link_refuses_an_upgrade_to_something_unknown",
     "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: nonsense\r\n\r\n", NULL, NULL},
    {"link_refuses_connect", "CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n", NULL, NULL},
    {"link_refuses_a_websocket_without_a_subprotocol", RAW_HANDSHAKE_OF(""), NULL, NULL},
    {"link_refuses_a_websocket_of_another_subprotocol",
     RAW_HANDSHAKE_OF("Sec-WebSocket-Protocol: chat, skyjob.v2\r\n"), NULL, NULL},
    {"link_refuses_a_websocket_without_a_key",
     "GET /skyjob HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
     "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: skyjob.v1\r\n\r\n",
     NULL, NULL},
    {"link_refuses_who_hangs_up_at_once", NULL, hang_up_at_once, NULL},
    {"link_refuses_who_hangs_up_in_the_middle_of_hello", NULL, hang_up_in_the_middle_of_hello,
     NULL},
    {"link_refuses_text_frames", NULL, send_text_opcode, "not authenticated"},
    {"link_refuses_unmasked_garbage", NULL, send_unmasked_garbage, "not authenticated"},
    {"link_refuses_masked_garbage", NULL, send_masked_garbage, "not authenticated"},
    {"link_refuses_reserved_bits", NULL, send_reserved_bits, "rsv bits"},
    {"link_refuses_an_unknown_opcode", NULL, send_bad_opcode, "bad opc"},
    {"link_refuses_a_continuation_of_nothing", NULL, send_a_continuation_of_nothing, "bad cont"},
    {"link_refuses_a_large_ping", NULL, send_a_large_ping, NULL},
    {"link_refuses_a_frame_of_negative_length", NULL, send_a_negative_length, NULL},
    {"link_refuses_garbage_in_an_endless_frame", NULL, send_garbage_in_a_frame_of_4_exabytes,
     "not authenticated"},
    {"link_refuses_a_tensor_before_hello", NULL, send_a_tensor_before_hello, "not authenticated"},
    {"link_refuses_a_hello_of_4_gib", NULL, send_a_hello_of_4_gib, "not authenticated"},
    {"link_refuses_a_short_hello", NULL, send_a_short_hello, "not authenticated"},
    {"link_refuses_a_hello_with_a_wrong_checksum", NULL, send_a_hello_with_a_wrong_checksum,
     "not authenticated"},
    {"link_refuses_who_has_no_key", NULL, say_hello_without_a_key, "not authenticated"},
    {"link_refuses_who_has_another_key", NULL, say_hello_with_another_key, "not authenticated"},
    {"link_refuses_a_hello_of_another_connection", NULL, repeat_the_hello_of_another_connection,
     "not authenticated"},
    {"link_refuses_the_signature_of_another_role", NULL, say_hello_in_the_role_of_an_acceptor,
     "not authenticated"},
    {"link_refuses_a_hello_that_was_changed", NULL, change_a_field_of_a_signed_hello,
     "not authenticated"},
    {"link_tells_who_has_no_key_nothing_of_plan_and_revision", NULL, say_another_plan_without_a_key,
     "not authenticated"},
    {"link_refuses_another_revision", NULL, say_another_revision, "revision 1, not 2"},
    {"link_refuses_another_plan", NULL, say_another_plan, "another job or plan"},
    {"link_refuses_other_limits", NULL, say_other_limits, "different limits"},
    {"link_refuses_who_means_another_stage", NULL, mean_another_stage,
     "meant for worker 2, this is worker 1"},
    {"link_refuses_who_means_another_incarnation", NULL, mean_another_incarnation,
     "worker 0, incarnation 20, meant incarnation 20 of 1"},
    {"link_refuses_another_incarnation", NULL, come_from_another_incarnation,
     "worker 0, incarnation 19, meant incarnation 21 of 1"},
    {"link_refuses_a_stage_that_is_no_neighbour", NULL, come_from_a_stage_that_is_no_neighbour,
     "worker 2 has no edge 7 to worker 1"},
    {"link_refuses_who_wants_an_edge_that_is_taken", NULL, want_an_edge_that_is_taken,
     "the backward edge is taken"},
};

static struct stages victims; /* stage 0, 1 and 2, connected */

static int start_victims(void **state)
{
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    start_ready(&victims, 3);
    return 0;
}

static int stop_victims(void **state)
{
    (void)state;
    stop(&victims);
    return 0;
}

static void check_that_traffic_goes_on(struct stages *s)
{
    struct link_message f = message(s, TYPE_FORWARD, 1, 100000);
    struct link_message b = message(s, TYPE_BACKWARD, 2, 100000);

    send_ok(s->links[0], FORWARD_OUT, &f);
    send_ok(s->links[2], BACKWARD_OUT, &b);
    receive_ok(s->links[1], FORWARD_IN, &f);
    receive_ok(s->links[1], BACKWARD_IN, &b);
}

static void check_stranger(void **state)
{
    const struct stranger *row = *state;
    uint64_t n_connections = row->attack == repeat_the_hello_of_another_connection ? 2 : 1;
    int port = link_port(victims.links[1]);
    uint64_t before = link_refused(victims.links[1]);
    int64_t until_ms = clock_now_ms() + TIMEOUT_MS;
    char answer[2048];
    bool ended;
    size_t n;

    if (row->attack) {
        row->attack(port);
    } else {
        attacker = raw_connect(port);
        raw_send(attacker, row->text, strlen(row->text));
    }
    n = raw_read_until(attacker, row->says, answer, sizeof answer, &ended);
    if (row->says ? !memmem(answer, n, row->says, strlen(row->says)) : !ended)
        fail_msg("%zu bytes came back, %s", n, ended ? "then the end" : "and no end");
    close(attacker);
    while (link_refused(victims.links[1]) < before + n_connections && clock_now_ms() < until_ms)
        usleep(1000);
    assert_int_equal(link_refused(victims.links[1]), before + n_connections);
    check_that_traffic_goes_on(&victims);
}

/* The nonce is all that it says to a stranger, and no two are alike. */
static void link_challenges_with_a_new_nonce_and_says_nothing_else(void **state)
{
    char challenge[2 + FRAME_HEADER_BYTES + HELLO_NONCE_BYTES];
    uint8_t first[HELLO_NONCE_BYTES];
    struct frame_limits limits = {.kinds = FRAME_KIND_BIT(FRAME_CHALLENGE),
                                  .meta_max_bytes = HELLO_NONCE_BYTES};
    struct frame_header head;
    struct stages s;
    bool ended;
    int fd;

    (void)state;
    start(&s, 2);
    close(raw_websocket(link_port(s.links[1])));
    memcpy(first, raw_nonce, sizeof first);
    close(raw_websocket(link_port(s.links[1])));
    assert_memory_not_equal(first, raw_nonce, sizeof first);
    fd = raw_connect(link_port(s.links[1]));
    raw_send(fd, RAW_HANDSHAKE, strlen(RAW_HANDSHAKE));
    (void)raw_read_until(fd, "\r\n\r\n", (char[1024]){0}, 1024, &ended);
    assert_int_equal(recv(fd, challenge, sizeof challenge, MSG_WAITALL), sizeof challenge);
    assert_int_equal(
        frame_decode((uint8_t *)challenge + 2, FRAME_HEADER_BYTES, &limits, &head, NULL), ERR_OK);
    assert_int_equal(head.plan_hash, 0);
    assert_int_equal(head.revision, 0);
    close(fd);
    connect_stage(&s, 0);
    connect_stage(&s, 1);
    wait_ready(&s);
    stop(&s);
}

static void link_lets_a_neighbour_in_while_strangers_hold_all_places(void **state)
{
    int idle[LINK_STRANGERS_MAX + 3];
    struct stages s;

    (void)state;
    start(&s, 2);
    for (size_t i = 0; i < sizeof idle / sizeof idle[0]; i++)
        idle[i] = raw_connect(link_port(s.links[1]));
    connect_stage(&s, 0);
    connect_stage(&s, 1);
    wait_ready(&s);
    while (link_refused(s.links[1]) < 3) /* strangers that are too many go, in their own time */
        usleep(1000);
    for (size_t i = 0; i < sizeof idle / sizeof idle[0]; i++)
        close(idle[i]);
    stop(&s);
}

/* Connections from another address, as fast as they can be made, none of which says a word. */
static void *flood(void *port)
{
    struct sockaddr_in from = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 8)};
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t) * (int *)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fds[FLOOD_SOCKETS];

    memset(fds, -1, sizeof fds);
    for (size_t i = 0; !atomic_load(&flood_stops); i = (i + 1) % FLOOD_SOCKETS) {
        if (fds[i] >= 0)
            close(fds[i]);
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)bind(fds[i], (struct sockaddr *)&from, sizeof from);
        (void)connect(fds[i], (struct sockaddr *)&to, sizeof to);
        usleep(100);
    }
    for (size_t i = 0; i < FLOOD_SOCKETS; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    return NULL;
}

static void link_lets_a_neighbour_in_through_a_flood_of_strangers(void **state)
{
    pthread_t thread;
    struct stages s;
    int port;

    (void)state;
    start(&s, 2);
    port = link_port(s.links[1]);
    atomic_store(&flood_stops, false);
    assert_int_equal(pthread_create(&thread, NULL, flood, &port), 0);
    while (link_refused(s.links[1]) < 100)
        usleep(1000);
    connect_stage(&s, 1); /* from now on it knows its neighbour */
    set_peer(s.links[0], 1, port);
    wait_ready(&s);
    atomic_store(&flood_stops, true);
    pthread_join(thread, NULL);
    stop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(link_challenges_with_a_new_nonce_and_says_nothing_else),
        cmocka_unit_test(link_lets_a_neighbour_in_while_strangers_hold_all_places),
        cmocka_unit_test(link_lets_a_neighbour_in_through_a_flood_of_strangers),
    };
    struct suite suite = {.n = 0};

    SUITE_ROWS(&suite, strangers, check_stranger);
    return suite_run(&suite, "strangers", start_victims, stop_victims) +
           cmocka_run_group_tests(tests, NULL, NULL);
}
