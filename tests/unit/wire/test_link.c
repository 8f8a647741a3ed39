#include "wire/link.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "stages.h"

/* --- messages --- */

static void link_carries_tensors_both_ways(void **state)
{
    struct stages s;

    (void)state;
    start_ready(&s, 2);
    for (uint64_t step = 0; step < 20; step++) {
        struct link_message f = message(&s, FRAME_FORWARD, step, TENSOR_MAX - step);
        struct link_message b = message(&s, FRAME_BACKWARD, step, step * 1000);

        send_ok(s.links[0], LINK_FORWARD_OUT, &f);
        send_ok(s.links[1], LINK_BACKWARD_OUT, &b);
        receive_ok(s.links[1], LINK_FORWARD_IN, &f);
        receive_ok(s.links[0], LINK_BACKWARD_IN, &b);
    }
    stop(&s);
}

static void link_carries_messages_through_a_chain_of_three(void **state)
{
    struct stages s;

    (void)state;
    start_ready(&s, 3);
    for (uint64_t step = 0; step < 10; step++) {
        struct link_message f = message(&s, FRAME_FORWARD, step, 100000);
        struct link_message b = message(&s, FRAME_BACKWARD, step, 200000);

        send_ok(s.links[0], LINK_FORWARD_OUT, &f);
        receive_ok(s.links[1], LINK_FORWARD_IN, &f);
        send_ok(s.links[1], LINK_FORWARD_OUT, &f);
        receive_ok(s.links[2], LINK_FORWARD_IN, &f);
        send_ok(s.links[2], LINK_BACKWARD_OUT, &b);
        receive_ok(s.links[1], LINK_BACKWARD_IN, &b);
        send_ok(s.links[1], LINK_BACKWARD_OUT, &b);
        receive_ok(s.links[0], LINK_BACKWARD_IN, &b);
    }
    stop(&s);
}

static bool has_ipv6(void)
{
    struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    bool can = fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0;

    if (fd >= 0)
        close(fd);
    return can;
}

static void link_works_over_ipv6(void **state)
{
    struct stages s = {.n = 2};
    struct link_peer peers[2];
    struct link_message msg = {.kind = FRAME_STOP};

    (void)state;
    if (!has_ipv6())
        skip();
    for (int i = 0; i < 2; i++) {
        struct link_params p = params_of(i, 2);

        p.listen_address = "::1";
        open_stage(&s, i, &p);
        peers[i] = (struct link_peer){.host = "::1", .port = link_port(s.links[i])};
    }
    assert_int_equal(link_set_peers(s.links[0], &peers[1], NULL, NULL), ERR_OK);
    assert_int_equal(link_set_peers(s.links[1], NULL, &peers[0], NULL), ERR_OK);
    wait_ready(&s);
    send_ok(s.links[0], LINK_FORWARD_OUT, &msg);
    receive_ok(s.links[1], LINK_FORWARD_IN, &msg);
    stop(&s);
}

static void link_keeps_the_order_of_all_kinds_and_sizes(void **state)
{
    const enum frame_kind kinds[] = {FRAME_FORWARD, FRAME_STEP_SUM, FRAME_COMMAND, FRAME_BACKWARD,
                                     FRAME_STEP_END};
    struct stages s;

    (void)state;
    start_ready(&s, 2);
    for (uint64_t step = 0; step < 400; step += 4) {
        struct link_message sent[4];

        for (uint64_t i = 0; i < 4; i++) {
            enum frame_kind kind = kinds[(step + i) % 5];
            bool has_tensor = kind == FRAME_FORWARD || kind == FRAME_BACKWARD;

            sent[i] = message(&s, kind, step + i, has_tensor ? (step + i) * 2311 % 300000 : 0);
            send_ok(s.links[0], LINK_FORWARD_OUT, &sent[i]);
        }
        for (int i = 0; i < 4; i++)
            receive_ok(s.links[1], LINK_FORWARD_IN, &sent[i]);
    }
    stop(&s);
}

static void link_carries_empty_messages(void **state)
{
    struct link_message stop_message = {.kind = FRAME_STOP};
    struct stages s;

    (void)state;
    start_ready(&s, 2);
    send_ok(s.links[0], LINK_FORWARD_OUT, &stop_message);
    receive_ok(s.links[1], LINK_FORWARD_IN, &stop_message);
    stop(&s);
}

/* --- bounds --- */

static void link_send_waits_while_all_slots_of_both_sides_are_in_use(void **state)
{
    struct link_message msg, got[5];
    struct stages s;
    struct err err;

    (void)state;
    start_ready(&s, 2);
    msg = message(&s, FRAME_FORWARD, 0, 1000);
    for (int i = 0; i < 3 + 2; i++) /* n_receive_slots and n_send_slots of params_of() */
        send_ok(s.links[0], LINK_FORWARD_OUT, &msg);
    expect(link_send(s.links[0], LINK_FORWARD_OUT, &msg, 100, &err), ERR_TIMEOUT, &err, "stage 1");

    for (int i = 0; i < 3; i++)
        assert_int_equal(link_recv(s.links[1], LINK_FORWARD_IN, TIMEOUT_MS, &got[i], NULL), ERR_OK);
    expect(link_recv(s.links[1], LINK_FORWARD_IN, 100, &got[3], &err), ERR_TIMEOUT, &err,
           "nothing from stage 0");
    expect(link_send(s.links[0], LINK_FORWARD_OUT, &msg, 100, &err), ERR_TIMEOUT, &err, "stage 1");

    link_release(s.links[1], LINK_FORWARD_IN, &got[2]); /* in any order */
    send_ok(s.links[0], LINK_FORWARD_OUT, &msg);
    link_release(s.links[1], LINK_FORWARD_IN, &got[0]);
    link_release(s.links[1], LINK_FORWARD_IN, &got[1]);
    for (int i = 0; i < 3; i++)
        receive_ok(s.links[1], LINK_FORWARD_IN, &msg);
    stop(&s);
}

static void link_recv_only_looks_with_a_timeout_of_0(void **state)
{
    int64_t start_ms = clock_now_ms();
    struct link_message msg;
    struct stages s;

    (void)state;
    start(&s, 2);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(link_recv(s.links[1], LINK_FORWARD_IN, 0, &msg, NULL), ERR_TIMEOUT);
    assert_true(clock_now_ms() - start_ms < 1000);
    stop(&s);
}

static void link_send_refuses_what_the_plan_does_not_allow(void **state)
{
    struct link_message msg;
    struct stages s;
    struct err err;

    (void)state;
    start_ready(&s, 2);
    msg = message(&s, FRAME_FORWARD, 0, TENSOR_MAX + 1);
    expect(link_send(s.links[0], LINK_FORWARD_OUT, &msg, 0, &err), ERR_INVALID, &err, "limits");
    msg = message(&s, FRAME_FORWARD, 0, 0);
    msg.meta_bytes = META_MAX + 1;
    expect(link_send(s.links[0], LINK_FORWARD_OUT, &msg, 0, &err), ERR_INVALID, &err, "limits");
    msg = message(&s, FRAME_STEP_SUM, 0, 1);
    expect(link_send(s.links[0], LINK_FORWARD_OUT, &msg, 0, &err), ERR_INVALID, &err, "STEP_SUM");
    msg = message(&s, FRAME_HELLO, 0, 0);
    expect(link_send(s.links[0], LINK_FORWARD_OUT, &msg, 0, &err), ERR_INVALID, &err, "HELLO");
    msg = message(&s, FRAME_FORWARD, 0, 0);
    msg.flags = 0x80;
    expect(link_send(s.links[0], LINK_FORWARD_OUT, &msg, 0, &err), ERR_INVALID, &err, "0x80");
    msg = message(&s, FRAME_FORWARD, 0, 0);
    expect(link_send(s.links[0], LINK_BACKWARD_OUT, &msg, 0, &err), ERR_INVALID, &err, "no such");
    expect(link_send(s.links[0], LINK_BACKWARD_IN, &msg, 0, &err), ERR_INVALID, &err, "incoming");
    expect(link_recv(s.links[0], LINK_FORWARD_IN, 0, &msg, &err), ERR_INVALID, &err, "no such");
    stop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(link_carries_tensors_both_ways),
        cmocka_unit_test(link_carries_messages_through_a_chain_of_three),
        cmocka_unit_test(link_works_over_ipv6),
        cmocka_unit_test(link_keeps_the_order_of_all_kinds_and_sizes),
        cmocka_unit_test(link_carries_empty_messages),
        cmocka_unit_test(link_send_waits_while_all_slots_of_both_sides_are_in_use),
        cmocka_unit_test(link_recv_only_looks_with_a_timeout_of_0),
        cmocka_unit_test(link_send_refuses_what_the_plan_does_not_allow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
