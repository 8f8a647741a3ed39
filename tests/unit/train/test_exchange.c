#include "train/exchange.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "links.h"

#define N_STAGES 2

static struct exchange ends[N_STAGES];

static int connect_stages(void **state)
{
    static struct plan plan = {.n_workers = N_STAGES, .micro_batches = 1};
    struct exchange *const all[N_STAGES] = {&ends[0], &ends[1]};

    (void)state;
    plan.spec.training.batch_size = 1;
    plan.spec.training.max_length = 1;
    plan.spec.model.hidden = 16;
    links_connect(&plan, all);
    return 0;
}

static int disconnect_stages(void **state)
{
    (void)state;
    for (int s = 0; s < N_STAGES; s++) {
        (void)!link_close(ends[s].link, 0, NULL);
        ends[s].link = NULL;
    }
    return 0;
}

static void exchange_takes_a_closed_link_for_a_lost_neighbour(void **state)
{
    struct exchange_key in = exchange_key(EDGE_FORWARD_IN, MESSAGE_FORWARD, 0, 0);
    struct exchange x = ends[1];
    struct link_message msg;

    (void)state;
    assert_int_equal(link_close(ends[0].link, LINKS_TIMEOUT_MS, NULL), ERR_OK);
    ends[0].link = NULL;
    assert_int_equal(exchange_recv(&x, in, &msg, NULL), ERR_IO);
    assert_true(x.is_lost);
}

static void exchange_takes_no_wrong_message_for_a_lost_neighbour(void **state)
{
    struct exchange_key out = exchange_key(EDGE_FORWARD_OUT, MESSAGE_FORWARD, 3, 0);
    struct exchange_key in = exchange_key(EDGE_FORWARD_IN, MESSAGE_FORWARD, 0, 0);
    struct exchange from = ends[0];
    struct exchange to = ends[1];
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
    struct exchange_key out = exchange_key(EDGE_FORWARD_OUT, MESSAGE_FORWARD, 0, 0);
    struct exchange x = ends[0];
    char meta[4096] = ""; /* more than any message has */

    assert_true(sizeof meta > ends[0].edges.list[0].meta_max_bytes);
    (void)state;
    assert_int_equal(exchange_send(&x, out, meta, sizeof meta, NULL, 0, NULL), ERR_INVALID);
    assert_false(x.is_lost);
}

/* The neighbour takes nothing, so without the stop neither call would ever return. */
static void exchange_is_closed_and_left_without_a_wait_once_it_is_stopped(void **state)
{
    struct exchange_key out = exchange_key(EDGE_FORWARD_OUT, MESSAGE_STEP_SUM, 0, 0);
    atomic_bool stops = false;
    struct err err = {0};
    enum err_code rc = ERR_OK;

    (void)state;
    ends[0].stops = &stops;
    assert_int_equal(exchange_check(&ends[0], NULL), ERR_OK);
    atomic_store(&stops, true);
    while (rc == ERR_OK) /* until all slots are taken */
        rc = exchange_send(&ends[0], out, "x", 1, NULL, 0, &err);
    assert_int_equal(rc, ERR_GONE);
    assert_int_equal(exchange_check(&ends[0], NULL), ERR_GONE);
    assert_int_equal(exchange_close(&ends[0], INT_MAX, &err), ERR_GONE);
    assert_string_equal(err.text, "the session was stopped");
    assert_null(ends[0].link);
    assert_false(ends[0].is_lost);
    assert_int_equal(exchange_close(&ends[0], INT_MAX, NULL), ERR_OK);
    ends[0].stops = NULL;
}

/* 1 + 2^-10 is no bfloat16. */
static void exchange_rounds_gradients_but_no_weights(void **state)
{
    static const uint32_t kinds[] = {MESSAGE_GRADS, MESSAGE_OFFER, MESSAGE_WEIGHTS};
    const float sent = 1 + 0x1p-10f;
    uint16_t room;
    struct exchange from = ends[0];
    struct exchange to = ends[1];

    (void)state;
    from.is_bf16 = to.is_bf16 = true;
    from.packed = &room;
    for (int i = 0; i < 3; i++) {
        float got = 0;

        assert_int_equal(exchange_send(&from, exchange_key(EDGE_FORWARD_OUT, kinds[i], 0, 0), NULL,
                                       0, &sent, 1, NULL),
                         ERR_OK);
        assert_int_equal(
            exchange_recv_floats(&to, exchange_key(EDGE_FORWARD_IN, kinds[i], 0, 0), &got, 1, NULL),
            ERR_OK);
        assert_true(got == (kinds[i] == MESSAGE_GRADS ? 1 : sent));
    }
}

static void exchange_refuses_meta_data_of_another_size(void **state)
{
    struct exchange_key out = exchange_key(EDGE_FORWARD_OUT, MESSAGE_STEP_SUM, 0, 0);
    struct exchange_key in = exchange_key(EDGE_FORWARD_IN, MESSAGE_STEP_SUM, 0, 0);
    struct exchange from = ends[0];
    struct exchange to = ends[1];
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

static void exchange_refuses_a_part_that_a_message_may_not_have(void **state)
{
    struct exchange_key out = exchange_key(EDGE_FORWARD_OUT, MESSAGE_STEP_SUM, 0, 0);
    struct exchange_key in = exchange_key(EDGE_FORWARD_IN, MESSAGE_STEP_SUM, 0, 0);
    struct exchange from = ends[0];
    struct exchange to = ends[1];
    struct err err = {0};
    float tensor = 1;
    int got = 0;

    (void)state;
    assert_int_equal(exchange_send(&from, out, &got, sizeof got, &tensor, 1, NULL), ERR_OK);
    assert_int_equal(exchange_recv_meta(&to, in, &got, sizeof got, &err), ERR_PROTOCOL);
    assert_non_null(strstr(err.text, "STEP_SUM with 4 bytes of meta data and 4 of tensor"));
}

#define ON_A_LINK(test) cmocka_unit_test_setup_teardown(test, connect_stages, disconnect_stages)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_A_LINK(exchange_takes_a_closed_link_for_a_lost_neighbour),
        ON_A_LINK(exchange_takes_no_wrong_message_for_a_lost_neighbour),
        ON_A_LINK(exchange_takes_its_own_mistake_for_no_lost_neighbour),
        ON_A_LINK(exchange_is_closed_and_left_without_a_wait_once_it_is_stopped),
        ON_A_LINK(exchange_rounds_gradients_but_no_weights),
        ON_A_LINK(exchange_refuses_meta_data_of_another_size),
        ON_A_LINK(exchange_refuses_a_part_that_a_message_may_not_have),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
