/* Probes that meet over loopback, in this process, and one whose way is narrow. */
#include "probe/probe_link.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/progress.h"
#include "base/clock.h"
#include "client.h"

#define PROBES_MAX         3
#define NARROW_BYTES_PER_S 2e6

struct party {
    struct probe_link_params params;
    struct probe_link *probe;
    struct peers table;
    struct node_probe found;
    pthread_t thread;
};

static struct party parties[PROBES_MAX];
static const struct hmac_key key = {{1, 2, 3}};
static char key_path[] = "/tmp/skyjob-key-XXXXXX";

static int make_key(void **state)
{
    char text[HMAC_TEXT_BYTES];
    int fd = mkstemp(key_path);

    (void)state;
    hmac_to_text(key.bytes, text);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        return -1;
    return close(fd);
}

static int remove_key(void **state)
{
    (void)state;
    return unlink(key_path);
}

static int dial(int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
        return fd;
    (void)close(fd);
    return -1;
}

/* As the operator does. */
static void post_table(const struct party *p)
{
    struct buf body = {.max = PEERS_TEXT_MAX_BYTES};

    assert_int_equal(peers_write(&p->table, &body, NULL), ERR_OK);
    assert_int_equal(client_call(p->params.control_port, "POST", "/v1/peers", body.data, &key),
                     200);
    buf_deinit(&body);
}

static void begin(struct party *p, int i, int total_ms)
{
    struct err err;

    *p = (struct party){.params = {.key_path = key_path,
                                   .control_host = "127.0.0.1",
                                   .control_port = client_free_port(),
                                   .tensor_host = "127.0.0.1",
                                   .tensor_port = client_free_port(),
                                   .end_ms = clock_now_ms() + total_ms,
                                   .table_ms = 300}};
    p->table.n_stages = 1;
    (void)snprintf(p->table.stages[0].host, PEERS_HOST_BYTES, "127.0.0.1");
    (void)snprintf(p->table.stages[0].node, NODE_NAME_BYTES, "node-%d", i);
    p->table.stages[0].port = p->params.tensor_port;
    if (probe_link_open(&p->params, &p->probe, &err) != ERR_OK)
        fail_msg("%s", err.text);
}

static void add_peer(struct party *p, const struct party *other, int port)
{
    int i = p->table.n_stages++;

    p->table.stages[i] = other->table.stages[0];
    if (port > 0)
        p->table.stages[i].port = port;
}

static void *run(void *party)
{
    struct party *p = party;

    probe_link_run(p->probe, &p->found);
    return NULL;
}

static void run_all(int n)
{
    for (int i = 0; i < n; i++)
        post_table(&parties[i]);
    for (int i = 0; i < n; i++)
        assert_int_equal(pthread_create(&parties[i].thread, NULL, run, &parties[i]), 0);
    for (int i = 0; i < n; i++) {
        assert_int_equal(pthread_join(parties[i].thread, NULL), 0);
        probe_link_close(parties[i].probe);
    }
}

static void check_link(const struct party *from, const struct party *to)
{
    const struct node_probe *found = &from->found;
    int n = 0;

    for (int i = 0; i < found->n_links; i++) {
        if (strcmp(found->links[i].node, to->table.stages[0].node) != 0)
            continue;
        n++;
        assert_true(found->links[i].bytes_per_s > 0);
        assert_true(found->links[i].latency_ms >= 0);
    }
    assert_int_equal(n, 1);
}

static void probe_link_measures_every_pair_in_both_directions(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        begin(&parties[i], i, 30000);
    add_peer(&parties[0], &parties[1], 0); /* 0-1, 0-2, 1-2 */
    add_peer(&parties[0], &parties[2], 0);
    add_peer(&parties[1], &parties[0], 0);
    add_peer(&parties[1], &parties[2], 0);
    add_peer(&parties[2], &parties[0], 0);
    add_peer(&parties[2], &parties[1], 0);
    run_all(3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(parties[i].found.n_links, 2);
        for (int k = 0; k < 3; k++)
            if (k != i)
                check_link(&parties[i], &parties[k]);
    }
}

static void probe_link_needs_no_table_to_end(void **state)
{
    (void)state;
    begin(&parties[0], 0, 30000);
    probe_link_run(parties[0].probe, &parties[0].found);
    assert_int_equal(parties[0].found.n_links, 0);
    probe_link_close(parties[0].probe);
}

static void probe_link_of_a_lonely_node_is_none(void **state)
{
    (void)state;
    begin(&parties[0], 0, 30000);
    run_all(1);
    assert_int_equal(parties[0].found.n_links, 0);
}

static void probe_link_skips_a_partner_that_does_not_come(void **state)
{
    (void)state;
    begin(&parties[0], 0, 30000);
    begin(&parties[1], 1, 30000);
    begin(&parties[2], 2, 30000);
    add_peer(&parties[0], &parties[2], client_free_port()); /* no probe is there */
    add_peer(&parties[0], &parties[1], 0);
    add_peer(&parties[1], &parties[1], 0); /* left over in the first round */
    add_peer(&parties[1], &parties[0], 0);
    run_all(2);
    probe_link_close(parties[2].probe);
    assert_int_equal(parties[0].found.n_links, 1);
    check_link(&parties[0], &parties[1]);
    check_link(&parties[1], &parties[0]);
}

static void probe_link_is_over_in_time(void **state)
{
    (void)state;
    begin(&parties[0], 0, 0);
    begin(&parties[1], 1, 0);
    add_peer(&parties[0], &parties[1], 0);
    add_peer(&parties[1], &parties[0], 0);
    run_all(2);
    assert_int_equal(parties[0].found.n_links, 0);
}

/* A message takes some time, and less than a hundred times what it took where this was written. */
static void probe_message_finds_what_messages_take(void **state)
{
    struct node_message found = {0};
    struct err err = {0};

    (void)state;
    if (probe_message_run(&found, &err) != ERR_OK)
        fail_msg("%s", err.text);
    print_message("%.3f ms per message, %.2f ns per byte\n", found.ms, found.byte_ns);
    assert_true(found.ms > 0 && found.ms < 10);
    assert_true(found.byte_ns >= 0 && found.byte_ns < 100);
}

/* --- a way that is narrow, but only forward --- */

struct way {
    int listener;
    int port; /* where it leads to */
    int in;
    int out;
    pthread_t accepting;
    pthread_t back;
};

static void *pump_back(void *arg)
{
    const struct way *w = arg;
    char bytes[4096];
    ssize_t n;

    while ((n = read(w->out, bytes, sizeof bytes)) > 0)
        if (write(w->in, bytes, (size_t)n) != n)
            break;
    (void)shutdown(w->in, SHUT_WR);
    return NULL;
}

/* No byte is early: the total since the first one is limited. */
static void pump_slowly(const struct way *w)
{
    int64_t start_ns = clock_now_ns();
    double sum = 0;
    char bytes[16384];
    ssize_t n;

    while ((n = read(w->in, bytes, sizeof bytes)) > 0) {
        int64_t due_ns;

        sum += (double)n;
        due_ns = start_ns + (int64_t)(sum / NARROW_BYTES_PER_S * 1e9);
        while (clock_now_ns() < due_ns)
            (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        if (sum > 20 * NARROW_BYTES_PER_S || write(w->out, bytes, (size_t)n) != n)
            break;
    }
    (void)shutdown(w->out, SHUT_WR);
}

static void *lead(void *arg)
{
    struct way *w = arg;

    w->in = accept(w->listener, NULL, NULL);
    for (int i = 0; i < 1000 && (w->out = dial(w->port)) < 0; i++)
        (void)nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    if (w->in < 0 || w->out < 0 || pthread_create(&w->back, NULL, pump_back, w) != 0)
        return NULL;
    pump_slowly(w);
    (void)pthread_join(w->back, NULL);
    (void)close(w->in);
    (void)close(w->out);
    return NULL;
}

static int way_open(struct way *w, int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof at;

    *w = (struct way){.port = port, .listener = socket(AF_INET, SOCK_STREAM, 0)};
    assert_int_equal(bind(w->listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(w->listener, 4), 0);
    assert_int_equal(getsockname(w->listener, (struct sockaddr *)&at, &bytes), 0);
    assert_int_equal(pthread_create(&w->accepting, NULL, lead, w), 0);
    return ntohs(at.sin_port);
}

/* What is sent over it cannot be faster than it lets through, whatever this machine does. */
static void probe_link_measures_a_slow_link_as_slow(void **state)
{
    struct way way;

    (void)state;
    begin(&parties[0], 0, 30000);
    begin(&parties[1], 1, 30000);
    add_peer(&parties[0], &parties[1], way_open(&way, parties[1].params.tensor_port));
    add_peer(&parties[1], &parties[0], 0);
    run_all(2);
    assert_int_equal(pthread_join(way.accepting, NULL), 0);
    assert_int_equal(close(way.listener), 0);
    check_link(&parties[0], &parties[1]);
    assert_true(parties[0].found.links[0].bytes_per_s < 1.2 * NARROW_BYTES_PER_S);
    check_link(&parties[1], &parties[0]);
    assert_true(parties[1].found.links[0].bytes_per_s > 2 * NARROW_BYTES_PER_S);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(probe_message_finds_what_messages_take),
        cmocka_unit_test(probe_link_measures_every_pair_in_both_directions),
        cmocka_unit_test(probe_link_needs_no_table_to_end),
        cmocka_unit_test(probe_link_of_a_lonely_node_is_none),
        cmocka_unit_test(probe_link_skips_a_partner_that_does_not_come),
        cmocka_unit_test(probe_link_is_over_in_time),
        cmocka_unit_test(probe_link_measures_a_slow_link_as_slow),
    };
    return cmocka_run_group_tests(tests, make_key, remove_key);
}
