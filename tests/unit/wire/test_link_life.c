#include "wire/link.h"

#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "stages.h"

/* The sender hears of an end a moment after it happened. */
static enum err_code send_until_it_fails(struct link *link, const struct link_message *msg,
                                         struct err *err)
{
    enum err_code rc = ERR_OK;

    for (int i = 0; i < 100 && rc == ERR_OK; i++)
        rc = send_on(link, FORWARD_OUT, msg, TIMEOUT_MS, err);
    return rc;
}

/* --- starting --- */

static void link_open_refuses_parameters_out_of_range(void **state)
{
    struct stage_params p = params_of(0, 2);
    struct link *link;
    struct err err;

    (void)state;
    p.link.listen_port = 65536;
    expect(try_open(&p, &link, &err), ERR_INVALID, &err, "65536");
    p.link.listen_port = 0;
    p.link.n_edges = 0;
    expect(try_open(&p, &link, &err), ERR_INVALID, &err, "0 edges");
    p.link.n_edges = 2;
    p.link.worker = 1;
    expect(try_open(&p, &link, &err), ERR_INVALID, &err, "out of range");
    p.link.worker = 0;
    p.edges[1].n_slots = LINK_SLOTS_MAX + 1;
    expect(try_open(&p, &link, &err), ERR_INVALID, &err, "backward edge, stage 1: the peer");
    p.edges[1] = p.edges[0];
    expect(try_open(&p, &link, &err), ERR_INVALID, &err, "edge 7 is in the list twice");
    p = params_of(0, 2);
    p.link.listen_address = "203.0.113.1"; /* for documentation only: no host has it */
    expect(try_open(&p, &link, &err), ERR_IO, &err, "203.0.113.1 port 0: Cannot assign");
    p.link.listen_address = "localhost";
    expect(try_open(&p, &link, &err), ERR_INVALID, &err, "not a numeric address");
    p.edges[0].tensor_max_bytes = LINK_TENSOR_MAX + 1;
    expect(try_open(&p, &link, &err), ERR_INVALID, &err, "out of range");
}

static void link_open_refuses_a_port_that_is_in_use(void **state)
{
    struct stage_params p = params_of(1, 2);
    struct link *link;
    struct stages s;
    struct err err;

    (void)state;
    start(&s, 2);
    p.link.listen_port = link_port(s.links[0]);
    expect(try_open(&p, &link, &err), ERR_IO, &err, "already in use");
    stop(&s);
}

static void link_set_peer_wants_one_address_of_a_worker_with_an_edge(void **state)
{
    struct stages s;
    struct err err;

    (void)state;
    start(&s, 2);
    expect(link_set_peer(s.links[0], 2, "127.0.0.1", 1, &err), ERR_INVALID, &err,
           "no edge to or from worker 2");
    expect(link_set_peer(s.links[0], 1, "", 1, &err), ERR_INVALID, &err, "not an address");
    expect(link_set_peer(s.links[0], 1, "127.0.0.1", 0, &err), ERR_INVALID, &err, "port 0 is not");
    assert_int_equal(link_set_peer(s.links[0], 1, "127.0.0.1", 1, &err), ERR_OK);
    expect(link_set_peer(s.links[0], 1, "127.0.0.1", 1, &err), ERR_INVALID, &err,
           "stage 1: its address is already set");
    stop(&s);
}

static void link_wait_ready_names_who_is_missing(void **state)
{
    struct stages s;
    struct err err;

    (void)state;
    start(&s, 2);
    expect(link_wait_ready(s.links[0], 50, &err), ERR_TIMEOUT, &err,
           "forward edge, stage 1: has no known address yet");
    expect(link_wait_ready(s.links[1], 50, &err), ERR_TIMEOUT, &err,
           "forward edge, stage 0: has not dialed yet");
    stop(&s);
}

static void link_connects_to_a_peer_that_comes_later(void **state)
{
    struct stage_params p = params_of(1, 2);
    struct link_message msg;
    struct stages s;

    (void)state;
    start(&s, 2);
    p.link.listen_port = link_port(s.links[1]);
    assert_int_equal(link_close(s.links[1], TIMEOUT_MS, NULL), ERR_OK);
    set_peer(s.links[0], 1, p.link.listen_port);
    usleep(300 * 1000); /* no answer for a while */
    open_stage(&s, 1, &p);
    connect_stage(&s, 1);
    wait_ready(&s);
    msg = message(&s, TYPE_FORWARD, 0, 1000);
    send_ok(s.links[0], FORWARD_OUT, &msg);
    receive_ok(s.links[1], FORWARD_IN, &msg);
    stop(&s);
}

static void link_gives_up_on_a_peer_that_cannot_be_reached(void **state)
{
    struct stage_params p = params_of(0, 2);
    struct stages s = {.n = 1};
    struct link_message msg = {.type = TYPE_STOP};
    struct err err;

    (void)state;
    p.link.dial_timeout_ms = 200;
    open_stage(&s, 0, &p);
    set_peer(s.links[0], 1, 1);
    expect(link_wait_ready(s.links[0], TIMEOUT_MS, &err), ERR_TIMEOUT, &err,
           "forward edge: stage 1 at 127.0.0.1 port 1 could not be reached");
    expect(send_on(s.links[0], FORWARD_OUT, &msg, TIMEOUT_MS, &err), ERR_TIMEOUT, &err,
           "could not be reached");
    stop(&s);
}

static void link_does_not_connect_stages_of_different_plans(void **state)
{
    struct stage_params other = params_of(0, 2);
    struct stages s = {.n = 2};
    struct err err;

    (void)state;
    other.link.plan_hash++;
    other.link.dial_timeout_ms = 300;
    open_stage(&s, 0, &other);
    other = params_of(1, 2);
    open_stage(&s, 1, &other);
    connect_stage(&s, 0);
    expect(link_wait_ready(s.links[0], TIMEOUT_MS, &err), ERR_TIMEOUT, &err, "another job or plan");
    assert_int_equal(link_wait_ready(s.links[1], 0, &err), ERR_TIMEOUT);
    assert_true(link_refused(s.links[1]) >= 1);
    stop(&s);
}

static void link_refuses_a_second_connection_for_an_edge_that_lives(void **state)
{
    struct stage_params p = params_of(0, 2);
    struct link_message msg;
    struct stages s, twin = {.n = 1};
    struct err err;

    (void)state;
    start_ready(&s, 2);
    p.link.dial_timeout_ms = 300;
    open_stage(&twin, 0, &p);
    set_peer(twin.links[0], 1, link_port(s.links[1]));
    expect(link_wait_ready(twin.links[0], TIMEOUT_MS, &err), ERR_TIMEOUT, &err,
           "the forward edge is taken");
    stop(&twin);

    msg = message(&s, TYPE_FORWARD, 0, 1000);
    send_ok(s.links[0], FORWARD_OUT, &msg);
    receive_ok(s.links[1], FORWARD_IN, &msg);
    stop(&s);
}

/* --- ending --- */

static void link_close_delivers_everything_that_was_sent(void **state)
{
    struct link_message msg, got;
    struct stages s;
    struct err err;

    (void)state;
    start_ready(&s, 2);
    msg = message(&s, TYPE_FORWARD, 9, TENSOR_MAX);
    for (int i = 0; i < 3; i++)
        send_ok(s.links[0], FORWARD_OUT, &msg);
    assert_int_equal(link_close(s.links[0], TIMEOUT_MS, &err), ERR_OK);
    s.links[0] = NULL;

    for (int i = 0; i < 3; i++)
        receive_ok(s.links[1], FORWARD_IN, &msg);
    expect(receive_on(s.links[1], FORWARD_IN, TIMEOUT_MS, &got, &err), ERR_IO, &err,
           "forward edge: stage 0 has closed the connection");
    stop(&s);
}

#define N_FULL 5 /* messages: two more than the receiver has slots */

static void start_full(struct stages *s, struct link_message *out)
{
    start_ready(s, 2);
    *out = message(s, TYPE_FORWARD, 0, 1000);
    for (int i = 0; i < N_FULL; i++)
        send_ok(s->links[0], FORWARD_OUT, out);
}

static void link_close_says_when_messages_were_not_taken(void **state)
{
    struct link_message msg;
    struct stages s;
    struct err err;

    (void)state;
    start_full(&s, &msg);
    expect(link_close(s.links[0], 200, &err), ERR_TIMEOUT, &err, "stage 1 has not confirmed");
    s.links[0] = NULL;
    stop(&s);
}

/* What the receiver takes meanwhile arrives with a later call. */
static void link_finish_may_be_called_again(void **state)
{
    struct link_message msg;
    struct stages s;
    struct err err;

    (void)state;
    start_full(&s, &msg);
    expect(link_finish(s.links[0], 50, &err), ERR_TIMEOUT, &err, "stage 1 has not confirmed");
    for (int i = 0; i < N_FULL; i++)
        receive_ok(s.links[1], FORWARD_IN, &msg);
    assert_int_equal(link_finish(s.links[0], TIMEOUT_MS, &err), ERR_OK);
    stop(&s);
}

static void link_close_of_a_receiver_is_told_to_the_sender(void **state)
{
    struct link_message msg;
    struct stages s;
    struct err err;

    (void)state;
    start_ready(&s, 2);
    assert_int_equal(link_close(s.links[1], TIMEOUT_MS, NULL), ERR_OK);
    s.links[1] = NULL;
    msg = message(&s, TYPE_FORWARD, 0, 1000);
    expect(send_until_it_fails(s.links[0], &msg, &err), ERR_IO, &err,
           "forward edge: stage 1 has closed the connection");
    expect(receive_on(s.links[0], BACKWARD_IN, TIMEOUT_MS, &msg, &err), ERR_IO, &err,
           "backward edge: stage 1 has closed the connection");
    stop(&s);
}

static void link_close_accepts_no_link(void **state)
{
    (void)state;
    assert_int_equal(link_close(NULL, 0, NULL), ERR_OK);
}

/* Be the last stage in a process of its own: trade ports over `fd`, then wait to be killed. */
static void be_last_stage(int fd, int n_stages)
{
    struct stage_params p = params_of(n_stages - 1, n_stages);
    struct link *link;
    int port;

    if (try_open(&p, &link, NULL) != ERR_OK)
        _exit(1);
    port = link_port(link);
    if (write(fd, &port, sizeof port) != sizeof port ||
        read(fd, &port, sizeof port) != sizeof port ||
        link_set_peer(link, (uint32_t)n_stages - 2, "127.0.0.1", port, NULL) != ERR_OK)
        _exit(1);
    for (;;)
        pause();
}

static void link_notices_within_a_second_that_the_peer_was_killed(void **state)
{
    struct stage_params p = params_of(0, 2);
    struct stages s = {.n = 1};
    struct link_message msg = {.type = TYPE_STOP};
    int fds[2], port, port_of_1;
    int64_t killed_ms;
    enum err_code rc;
    struct err err;
    pid_t child;

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    child = fork(); /* no thread is running here */
    if (child == 0)
        be_last_stage(fds[1], 2);
    open_stage(&s, 0, &p);
    port = link_port(s.links[0]);
    assert_int_equal(read(fds[0], &port_of_1, sizeof port_of_1), sizeof port_of_1);
    assert_int_equal(write(fds[0], &port, sizeof port), sizeof port);
    set_peer(s.links[0], 1, port_of_1);
    wait_ready(&s);

    killed_ms = clock_now_ms();
    kill(child, SIGKILL);
    expect(receive_on(s.links[0], BACKWARD_IN, TIMEOUT_MS, &msg, &err), ERR_IO, &err,
           "backward edge: stage 1 at 127.0.0.1 is gone");
    assert_true(clock_now_ms() - killed_ms < 1000);
    msg = (struct link_message){.type = TYPE_STOP};
    expect(send_until_it_fails(s.links[0], &msg, &err), ERR_IO, &err,
           "forward edge: stage 1 at 127.0.0.1 is gone");
    rc = link_close(s.links[0], TIMEOUT_MS, NULL);
    assert_true(rc == ERR_OK || rc == ERR_IO); /* a frame may have been on its way */
    s.links[0] = NULL;
    waitpid(child, NULL, 0);
    close(fds[0]);
    close(fds[1]);
    stop(&s);
}

/* Stage 2 freezes. Stage 1 notices, ends, and gives stage 0 the cause that it has met. */
static void link_names_the_stage_that_was_silent_first(void **state)
{
    struct stages s = {.n = 2};
    struct link_message msg;
    int fds[2], ports[3];
    struct err err;
    pid_t child;

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    child = fork(); /* no thread is running here */
    if (child == 0)
        be_last_stage(fds[1], 3);
    for (int i = 0; i < 2; i++) {
        struct stage_params p = params_of(i, 3);

        p.link.silence_s = 3;
        open_stage(&s, i, &p);
        ports[i] = link_port(s.links[i]);
    }
    assert_int_equal(read(fds[0], &ports[2], sizeof ports[2]), sizeof ports[2]);
    assert_int_equal(write(fds[0], &ports[1], sizeof ports[1]), sizeof ports[1]);
    set_peer(s.links[0], 1, ports[1]);
    set_peer(s.links[1], 0, ports[0]);
    set_peer(s.links[1], 2, ports[2]);
    wait_ready(&s);

    kill(child, SIGSTOP);
    expect(receive_on(s.links[1], BACKWARD_IN, 2 * TIMEOUT_MS, &msg, &err), ERR_IO, &err,
           "stage 2 at 127.0.0.1 was silent for ");
    link_abort(s.links[1], err.text);
    s.links[1] = NULL;
    expect(receive_on(s.links[0], BACKWARD_IN, TIMEOUT_MS, &msg, &err), ERR_IO, &err,
           "stage 2 at 127.0.0.1 was silent for ");
    assert_null(strstr(err.text, "stage 1"));
    msg = (struct link_message){.type = TYPE_STOP};
    expect(send_until_it_fails(s.links[0], &msg, &err), ERR_IO, &err,
           "stage 2 at 127.0.0.1 was silent for ");
    link_abort(s.links[0], err.text);
    s.links[0] = NULL;
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(fds[0]);
    close(fds[1]);
    stop(&s);
}

static void link_abort_gives_all_workers_the_cause(void **state)
{
    struct link_message msg;
    struct stages s;
    struct err err;

    (void)state;
    start_ready(&s, 3);
    link_abort(s.links[2], "stage 2 failed: caf\xc3\xa9 is full");
    s.links[2] = NULL;
    expect(receive_on(s.links[1], BACKWARD_IN, TIMEOUT_MS, &msg, &err), ERR_IO, &err,
           "stage 2 failed: caf?? is full");
    link_abort(s.links[1], err.text);
    s.links[1] = NULL;
    expect(receive_on(s.links[0], BACKWARD_IN, TIMEOUT_MS, &msg, &err), ERR_IO, &err,
           "stage 2 failed: caf?? is full");
    assert_null(strstr(err.text, "stage 1"));
    link_abort(s.links[0], err.text);
    s.links[0] = NULL;
    link_abort(NULL, "no link");
    stop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(link_notices_within_a_second_that_the_peer_was_killed),
        cmocka_unit_test(link_names_the_stage_that_was_silent_first),
        cmocka_unit_test(link_open_refuses_parameters_out_of_range),
        cmocka_unit_test(link_open_refuses_a_port_that_is_in_use),
        cmocka_unit_test(link_set_peer_wants_one_address_of_a_worker_with_an_edge),
        cmocka_unit_test(link_wait_ready_names_who_is_missing),
        cmocka_unit_test(link_connects_to_a_peer_that_comes_later),
        cmocka_unit_test(link_gives_up_on_a_peer_that_cannot_be_reached),
        cmocka_unit_test(link_does_not_connect_stages_of_different_plans),
        cmocka_unit_test(link_refuses_a_second_connection_for_an_edge_that_lives),
        cmocka_unit_test(link_close_delivers_everything_that_was_sent),
        cmocka_unit_test(link_close_says_when_messages_were_not_taken),
        cmocka_unit_test(link_finish_may_be_called_again),
        cmocka_unit_test(link_close_of_a_receiver_is_told_to_the_sender),
        cmocka_unit_test(link_close_accepts_no_link),
        cmocka_unit_test(link_abort_gives_all_workers_the_cause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
