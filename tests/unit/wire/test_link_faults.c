#include "wire/link.h"

#include "proxy.h"
#include "stages.h"

#define MESSAGES 6
#define FAULT_AT 3

/* Two stages; a proxy lies before the port of stage 1, so on the forward edge. */
static struct proxy *start_behind_proxy(struct stages *s, enum proxy_fault_kind kind)
{
    const struct proxy_fault fault = {
        .kind = kind, .type = TYPE_FORWARD, .step = FAULT_AT, .microbatch = -1, .delay_ms = 300};
    struct proxy *proxy;

    start(s, 2);
    proxy = proxy_start("127.0.0.1", 0, "127.0.0.1", link_port(s->links[1]), &fault);
    assert_non_null(proxy);
    set_peer(s->links[0], 1, proxy_port(proxy));
    set_peer(s->links[1], 0, link_port(s->links[0]));
    wait_ready(s);
    return proxy;
}

/* Sends until the link is lost; receives `n` whole messages, in order. */
static void exchange(struct stages *s, int n)
{
    for (int i = 0; i < MESSAGES; i++) {
        struct link_message msg = message(s, TYPE_FORWARD, (uint64_t)i, TENSOR_MAX / 2);

        if (send_on(s->links[0], FORWARD_OUT, &msg, TIMEOUT_MS, NULL) != ERR_OK)
            assert_true(i > FAULT_AT);
        if (i < n)
            receive_ok(s->links[1], FORWARD_IN, &msg);
    }
}

static void lose(struct stages *s)
{
    struct link_message got;
    struct err err;

    assert_int_equal(receive_on(s->links[1], FORWARD_IN, TIMEOUT_MS, &got, &err), ERR_IO);
    for (int i = 0; i < 2; i++)
        link_abort(s->links[i], "the end of the test");
    free(s->tensor);
}

static void link_passes_a_proxy_without_a_fault(void **state)
{
    struct stages s;
    struct proxy *proxy = start_behind_proxy(&s, PROXY_NONE);

    (void)state;
    exchange(&s, MESSAGES);
    stop(&s);
    assert_true(proxy_messages(proxy) == MESSAGES);
    assert_false(proxy_is_done(proxy));
    proxy_stop(proxy);
}

static void link_hands_out_all_that_came_before_a_cut(void **state)
{
    struct stages s;
    struct proxy *proxy = start_behind_proxy(&s, PROXY_CUT);

    (void)state;
    exchange(&s, FAULT_AT + 1);
    lose(&s);
    assert_true(proxy_is_done(proxy));
    proxy_stop(proxy);
}

static void link_never_hands_out_half_a_message(void **state)
{
    struct stages s;
    struct proxy *proxy = start_behind_proxy(&s, PROXY_HALF);

    (void)state;
    exchange(&s, FAULT_AT);
    lose(&s);
    assert_true(proxy_is_done(proxy));
    proxy_stop(proxy);
}

static void link_waits_for_a_message_that_is_late(void **state)
{
    struct stages s;
    struct proxy *proxy = start_behind_proxy(&s, PROXY_DELAY);

    (void)state;
    exchange(&s, MESSAGES);
    stop(&s);
    assert_true(proxy_is_done(proxy));
    proxy_stop(proxy);
}

/* A frame has no number: that a message came twice is seen by its step and micro-batch. */
static void link_hands_out_a_repeated_message_twice(void **state)
{
    struct stages s;
    struct proxy *proxy = start_behind_proxy(&s, PROXY_REPEAT);
    struct link_message msg;

    (void)state;
    for (int i = 0; i <= FAULT_AT; i++) {
        msg = message(&s, TYPE_FORWARD, (uint64_t)i, 1000);
        send_ok(s.links[0], FORWARD_OUT, &msg);
        receive_ok(s.links[1], FORWARD_IN, &msg);
    }
    receive_ok(s.links[1], FORWARD_IN, &msg);
    for (int i = 0; i < 2; i++)
        link_abort(s.links[i], "the end of the test");
    free(s.tensor);
    proxy_stop(proxy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(link_passes_a_proxy_without_a_fault),
        cmocka_unit_test(link_hands_out_all_that_came_before_a_cut),
        cmocka_unit_test(link_never_hands_out_half_a_message),
        cmocka_unit_test(link_waits_for_a_message_that_is_late),
        cmocka_unit_test(link_hands_out_a_repeated_message_twice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
