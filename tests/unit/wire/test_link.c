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
        struct link_message f = message(&s, TYPE_FORWARD, step, TENSOR_MAX - step);
        struct link_message b = message(&s, TYPE_BACKWARD, step, step * 1000);

        send_ok(s.links[0], FORWARD_OUT, &f);
        send_ok(s.links[1], BACKWARD_OUT, &b);
        receive_ok(s.links[1], FORWARD_IN, &f);
        receive_ok(s.links[0], BACKWARD_IN, &b);
    }
    stop(&s);
}

static void link_carries_messages_through_a_chain_of_three(void **state)
{
    struct stages s;

    (void)state;
    start_ready(&s, 3);
    for (uint64_t step = 0; step < 10; step++) {
        struct link_message f = message(&s, TYPE_FORWARD, step, 100000);
        struct link_message b = message(&s, TYPE_BACKWARD, step, 200000);

        send_ok(s.links[0], FORWARD_OUT, &f);
        receive_ok(s.links[1], FORWARD_IN, &f);
        send_ok(s.links[1], FORWARD_OUT, &f);
        receive_ok(s.links[2], FORWARD_IN, &f);
        send_ok(s.links[2], BACKWARD_OUT, &b);
        receive_ok(s.links[1], BACKWARD_IN, &b);
        send_ok(s.links[1], BACKWARD_OUT, &b);
        receive_ok(s.links[0], BACKWARD_IN, &b);
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
    struct link_message msg = {.type = TYPE_STOP};

    (void)state;
    if (!has_ipv6())
        skip();
    for (int i = 0; i < 2; i++) {
        struct stage_params p = params_of(i, 2);

        p.link.listen_address = "::1";
        open_stage(&s, i, &p);
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            link_set_peer(s.links[i], (uint32_t)(1 - i), "::1", link_port(s.links[1 - i]), NULL),
            ERR_OK);
    wait_ready(&s);
    send_ok(s.links[0], FORWARD_OUT, &msg);
    receive_ok(s.links[1], FORWARD_IN, &msg);
    stop(&s);
}

static void link_keeps_the_order_of_all_types_and_sizes(void **state)
{
    const uint32_t types[] = {TYPE_FORWARD, TYPE_SUM, TYPE_STOP, TYPE_BACKWARD, 0};
    struct stages s;

    (void)state;
    start_ready(&s, 2);
    for (uint64_t step = 0; step < 400; step += 4) {
        struct link_message sent[4];

        for (uint64_t i = 0; i < 4; i++) {
            uint32_t type = types[(step + i) % 5];
            bool has_tensor = type == TYPE_FORWARD || type == TYPE_BACKWARD;

            sent[i] = message(&s, type, step + i, has_tensor ? (step + i) * 2311 % 300000 : 0);
            send_ok(s.links[0], FORWARD_OUT, &sent[i]);
        }
        for (int i = 0; i < 4; i++)
            receive_ok(s.links[1], FORWARD_IN, &sent[i]);
    }
    stop(&s);
}

static void link_carries_empty_messages(void **state)
{
    struct link_message stop_message = {.type = TYPE_STOP};
    struct stages s;

    (void)state;
    start_ready(&s, 2);
    send_ok(s.links[0], FORWARD_OUT, &stop_message);
    receive_ok(s.links[1], FORWARD_IN, &stop_message);
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
    msg = message(&s, TYPE_FORWARD, 0, 1000);
    for (int i = 0; i < 3 + 2; i++) /* the slots of params_of() */
        send_ok(s.links[0], FORWARD_OUT, &msg);
    expect(send_on(s.links[0], FORWARD_OUT, &msg, 100, &err), ERR_TIMEOUT, &err, "stage 1");

    for (int i = 0; i < 3; i++)
        assert_int_equal(receive_on(s.links[1], FORWARD_IN, TIMEOUT_MS, &got[i], NULL), ERR_OK);
    expect(receive_on(s.links[1], FORWARD_IN, 100, &got[3], &err), ERR_TIMEOUT, &err,
           "nothing from stage 0");
    expect(send_on(s.links[0], FORWARD_OUT, &msg, 100, &err), ERR_TIMEOUT, &err, "stage 1");

    release_on(s.links[1], FORWARD_IN, &got[2]); /* in any order */
    send_ok(s.links[0], FORWARD_OUT, &msg);
    release_on(s.links[1], FORWARD_IN, &got[0]);
    release_on(s.links[1], FORWARD_IN, &got[1]);
    for (int i = 0; i < 3; i++)
        receive_ok(s.links[1], FORWARD_IN, &msg);
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
        assert_int_equal(receive_on(s.links[1], FORWARD_IN, 0, &msg, NULL), ERR_TIMEOUT);
    assert_true(clock_now_ms() - start_ms < 1000);
    stop(&s);
}

static void link_send_refuses_what_the_edge_does_not_allow(void **state)
{
    struct link_message msg;
    struct stages s;
    struct err err;

    (void)state;
    start_ready(&s, 2);
    msg = message(&s, TYPE_FORWARD, 0, TENSOR_MAX + 1);
    expect(send_on(s.links[0], FORWARD_OUT, &msg, 0, &err), ERR_INVALID, &err, "limits");
    msg = message(&s, TYPE_FORWARD, 0, 0);
    msg.meta_bytes = META_MAX + 1;
    expect(send_on(s.links[0], FORWARD_OUT, &msg, 0, &err), ERR_INVALID, &err, "limits");
    msg = message(&s, TYPE_FORWARD, 0, 0);
    msg.flags = FRAME_FLAGS_MAX + 1;
    expect(send_on(s.links[0], FORWARD_OUT, &msg, 0, &err), ERR_INVALID, &err, "flags 0x100");
    msg = message(&s, FRAME_TYPE_MAX + 1, 0, 0);
    expect(send_on(s.links[0], FORWARD_OUT, &msg, 0, &err), ERR_INVALID, &err, "type 256");
    msg = message(&s, TYPE_FORWARD, 0, 0);
    expect(send_on(s.links[0], BACKWARD_OUT, &msg, 0, &err), ERR_INVALID, &err, "no such");
    expect(send_on(s.links[0], BACKWARD_IN, &msg, 0, &err), ERR_INVALID, &err, "incoming");
    expect(receive_on(s.links[0], FORWARD_IN, 0, &msg, &err), ERR_INVALID, &err, "no such");
    stop(&s);
}

/* --- what has travelled --- */

static struct link_traffic traffic[2];

/* Two stages that count, with bytes from before. */
static void start_counting(struct stages *s)
{
    start(s, 0);
    s->n = 2;
    for (int i = 0; i < 2; i++) {
        struct stage_params p = params_of(i, 2);

        traffic[i] = (struct link_traffic){.sent_bytes = 1000};
        for (int e = 0; e < p.link.n_edges; e++)
            p.edges[e].traffic = &traffic[i];
        open_stage(s, i, &p);
    }
    for (int i = 0; i < 2; i++)
        connect_stage(s, i);
    wait_ready(s);
}

static void wait_unacknowledged(int stage, uint64_t want)
{
    int64_t end_ms = clock_now_ms() + TIMEOUT_MS;

    while (traffic[stage].unacknowledged_bytes != want && clock_now_ms() < end_ms)
        usleep(1000);
    assert_int_equal(traffic[stage].unacknowledged_bytes, want);
}

static void link_counts_what_has_travelled_until_it_is_released(void **state)
{
    const uint64_t size = FRAME_HEADER_BYTES + 7 + TENSOR_MAX; /* of the largest message() */
    struct link_message large, small, got;
    struct stages s;

    (void)state;
    start_counting(&s);
    large = message(&s, TYPE_FORWARD, 0, TENSOR_MAX);
    small = message(&s, TYPE_BACKWARD, 0, 0);
    send_ok(s.links[0], FORWARD_OUT, &large);
    send_ok(s.links[0], FORWARD_OUT, &large);
    receive_ok(s.links[1], FORWARD_IN, &large);
    assert_int_equal(receive_on(s.links[1], FORWARD_IN, TIMEOUT_MS, &got, NULL), ERR_OK);
    wait_unacknowledged(0, size);
    release_on(s.links[1], FORWARD_IN, &got);
    wait_unacknowledged(0, 0);
    send_ok(s.links[1], BACKWARD_OUT, &small);
    receive_ok(s.links[0], BACKWARD_IN, &small);
    assert_int_equal(traffic[0].sent_bytes, 1000 + 2 * size);
    assert_int_equal(traffic[1].received_bytes, 2 * size);
    assert_int_equal(traffic[1].sent_bytes, 1000 + size - TENSOR_MAX);
    assert_int_equal(traffic[0].received_bytes, size - TENSOR_MAX);
    stop(&s);
}

static void link_that_ends_leaves_nothing_unacknowledged(void **state)
{
    struct link_message msg, got;
    struct stages s;

    (void)state;
    start_counting(&s);
    msg = message(&s, TYPE_FORWARD, 0, 1000);
    for (int i = 0; i < 5; i++)
        send_ok(s.links[0], FORWARD_OUT, &msg);
    for (int i = 0; i < 3; i++)
        assert_int_equal(receive_on(s.links[1], FORWARD_IN, TIMEOUT_MS, &got, NULL), ERR_OK);
    wait_unacknowledged(0, 3 * (FRAME_HEADER_BYTES + 7 + 1000)); /* the others are not sent */
    link_abort(s.links[0], "a test");
    assert_int_equal(traffic[0].unacknowledged_bytes, 0);
    link_abort(s.links[1], "a test");
    free(s.tensor);
}

/* --- lists of edges --- */

/* Two workers with three edges from the first to the second and one back, with limits and slots of
 * their own. */
static void link_keeps_the_edges_between_two_workers_apart(void **state)
{
    static const uint32_t tensor_max[3] = {64, 100000, 0};
    struct link_params p = params_of(0, 2).link;
    struct link_edge edges[4];
    struct link *links[2];
    struct link_message msg = {.type = TYPE_FORWARD}, got;
    uint8_t tensor[65] = {1, 2, 3};
    struct err err;

    (void)state;
    for (int w = 0; w < 2; w++) {
        for (int i = 0; i < 4; i++) { /* the lists need not be in the same order */
            int e = w == 0 ? i : 3 - i;

            edges[i] = (struct link_edge){.id = e < 3 ? (uint32_t)e : 0,
                                          .is_incoming = (e < 3) == (w == 1),
                                          .peer = (uint32_t)(1 - w),
                                          .peer_incarnation = INCARNATION_OF(1 - w),
                                          .meta_max_bytes = 8,
                                          .tensor_max_bytes = e < 3 ? tensor_max[e] : 8,
                                          .n_slots = 1 + e};
            (void)snprintf(edges[i].name, sizeof edges[i].name, "edge %d", e);
            (void)snprintf(edges[i].peer_name, sizeof edges[i].peer_name, "worker %d", 1 - w);
        }
        p.worker = (uint32_t)w;
        p.incarnation = INCARNATION_OF(w);
        p.edges = edges;
        p.n_edges = 4;
        assert_int_equal(link_open(&p, &links[w], NULL), ERR_OK);
    }
    set_peer(links[0], 1, link_port(links[1]));
    set_peer(links[1], 0, link_port(links[0]));
    for (int w = 0; w < 2; w++)
        if (link_wait_ready(links[w], TIMEOUT_MS, &err) != ERR_OK)
            fail_msg("%s", err.text);

    for (int i = 2; i >= 0; i--) { /* on each what fits, and its number as the step */
        msg.step = (uint64_t)i;
        msg.tensor = tensor;
        msg.tensor_bytes = tensor_max[i] < sizeof tensor ? tensor_max[i] : sizeof tensor;
        assert_int_equal(link_send(links[0], i, &msg, TIMEOUT_MS, NULL), ERR_OK);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(link_recv(links[1], 3 - i, TIMEOUT_MS, &got, NULL), ERR_OK);
        assert_int_equal(got.step, i);
        link_release(links[1], 3 - i, &got);
    }
    msg.tensor_bytes = sizeof tensor;
    assert_int_equal(link_send(links[0], 0, &msg, 0, NULL), ERR_INVALID);
    expect(link_recv(links[0], 3, 0, &got, &err), ERR_TIMEOUT, &err,
           "edge 3: nothing from worker 1");
    for (int w = 0; w < 2; w++)
        assert_int_equal(link_close(links[w], TIMEOUT_MS, NULL), ERR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(link_carries_tensors_both_ways),
        cmocka_unit_test(link_carries_messages_through_a_chain_of_three),
        cmocka_unit_test(link_works_over_ipv6),
        cmocka_unit_test(link_keeps_the_order_of_all_types_and_sizes),
        cmocka_unit_test(link_carries_empty_messages),
        cmocka_unit_test(link_send_waits_while_all_slots_of_both_sides_are_in_use),
        cmocka_unit_test(link_recv_only_looks_with_a_timeout_of_0),
        cmocka_unit_test(link_counts_what_has_travelled_until_it_is_released),
        cmocka_unit_test(link_that_ends_leaves_nothing_unacknowledged),
        cmocka_unit_test(link_keeps_the_edges_between_two_workers_apart),
        cmocka_unit_test(link_send_refuses_what_the_edge_does_not_allow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
