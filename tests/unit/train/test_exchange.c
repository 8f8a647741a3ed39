#include "train/exchange.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define N_STAGES   2
#define TIMEOUT_MS 5000

static struct link *links[N_STAGES];

static int connect_stages(void **state)
{
    struct link_peer at[N_STAGES];

    (void)state;
    for (int s = 0; s < N_STAGES; s++) {
        struct link_params p = {.listen_address = "127.0.0.1",
                                .stage = s,
                                .n_stages = N_STAGES,
                                .limits = {64, 64, 2, 2},
                                .dial_timeout_ms = TIMEOUT_MS};

        assert_int_equal(link_open(&p, &links[s], NULL), ERR_OK);
        at[s] = (struct link_peer){.host = "127.0.0.1", .port = link_port(links[s])};
    }
    assert_int_equal(link_set_peers(links[0], &at[1], NULL, NULL), ERR_OK);
    assert_int_equal(link_set_peers(links[1], NULL, &at[0], NULL), ERR_OK);
    for (int s = 0; s < N_STAGES; s++)
        assert_int_equal(link_wait_ready(links[s], TIMEOUT_MS, NULL), ERR_OK);
    return 0;
}

static int disconnect_stages(void **state)
{
    (void)state;
    for (int s = 0; s < N_STAGES; s++) {
        (void)!link_close(links[s], 0, NULL);
        links[s] = NULL;
    }
    return 0;
}

static void exchange_takes_a_closed_link_for_a_lost_neighbour(void **state)
{
    struct exchange_key in = exchange_key(LINK_FORWARD_IN, FRAME_FORWARD, 0, 0);
    struct exchange x = {.link = links[1]};
    struct link_message msg;

    (void)state;
    assert_int_equal(link_close(links[0], TIMEOUT_MS, NULL), ERR_OK);
    links[0] = NULL;
    assert_int_equal(exchange_recv(&x, in, &msg, NULL), ERR_IO);
    assert_true(x.is_lost);
}

static void exchange_takes_no_wrong_message_for_a_lost_neighbour(void **state)
{
    struct exchange_key out = exchange_key(LINK_FORWARD_OUT, FRAME_FORWARD, 3, 0);
    struct exchange_key in = exchange_key(LINK_FORWARD_IN, FRAME_FORWARD, 0, 0);
    struct exchange from = {.link = links[0]};
    struct exchange to = {.link = links[1]};
    struct link_message msg;
    struct err err = {0};

    (void)state;
    assert_int_equal(exchange_send(&from, out, "x", 1, NULL, 0, NULL), ERR_OK);
    assert_int_equal(exchange_recv(&to, in, &msg, &err), ERR_PROTOCOL);
    assert_non_null(strstr(err.text, "FORWARD of step 3"));
    assert_false(from.is_lost);
    assert_false(to.is_lost);
}

static void exchange_takes_its_own_mistake_for_no_lost_neighbour(void **state)
{
    struct exchange_key out = exchange_key(LINK_FORWARD_OUT, FRAME_FORWARD, 0, 0);
    struct exchange x = {.link = links[0]};
    char meta[128] = "";

    (void)state;
    assert_int_equal(exchange_send(&x, out, meta, sizeof meta, NULL, 0, NULL), ERR_INVALID);
    assert_false(x.is_lost);
}

static void exchange_refuses_meta_data_of_another_size(void **state)
{
    struct exchange_key out = exchange_key(LINK_FORWARD_OUT, FRAME_STEP_SUM, 0, 0);
    struct exchange_key in = exchange_key(LINK_FORWARD_IN, FRAME_STEP_SUM, 0, 0);
    struct exchange from = {.link = links[0]};
    struct exchange to = {.link = links[1]};
    struct err err = {0};
    int got = 0;

    (void)state;
    assert_int_equal(exchange_send(&from, out, &(int){7}, sizeof got, NULL, 0, NULL), ERR_OK);
    assert_int_equal(exchange_recv_meta(&to, in, &got, sizeof got, NULL), ERR_OK);
    assert_int_equal(got, 7);
    assert_int_equal(exchange_send(&from, out, "long", 5, NULL, 0, NULL), ERR_OK);
    assert_int_equal(exchange_recv_meta(&to, in, &got, sizeof got, &err), ERR_PROTOCOL);
    assert_non_null(strstr(err.text, "STEP_SUM: 5 bytes, not 4"));
    assert_int_equal(got, 7);
}

#define ON_A_LINK(test) cmocka_unit_test_setup_teardown(test, connect_stages, disconnect_stages)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_A_LINK(exchange_takes_a_closed_link_for_a_lost_neighbour),
        ON_A_LINK(exchange_takes_no_wrong_message_for_a_lost_neighbour),
        ON_A_LINK(exchange_takes_its_own_mistake_for_no_lost_neighbour),
        ON_A_LINK(exchange_refuses_meta_data_of_another_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
