/* Probes that meet over loopback, in this process.
 *
 * What one sends to another passes through the test, and only that moves the probes' clock, by the
 * time that its bytes take at the given speed. How fast this machine is does not matter.
 */
#include "probe/probe_link.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "api/progress.h"
#include "certificates.h"
#include "client.h"
#include "http/http.h"
#include "scratch.h"

#define PROBES_MAX 3

struct party {
    struct probe_link_params params;
    struct probe_link *probe;
    struct peers table;
    struct node_probe found;
    pthread_t thread;
};

static struct party parties[PROBES_MAX];
static const struct hmac_key key = {{1, 2, 3}};
static const char *key_path;
static struct tls_identity *caller; /* the operator's; NULL: probes have no certificates */

static int make_key(void **state)
{
    char text[HMAC_TEXT_BYTES];
    int is_set = setenv("TZ", "UTC", 1); /* see test_link_tls.c */
    int failed = scratch_make(state);

    hmac_to_text(key.bytes, text);
    key_path = scratch_text("key", text);
    return is_set != 0 ? is_set : failed;
}

/* --- ways --- */

/* From one probe to another. */
struct way {
    double bytes_per_s;
    int listener;
    int port; /* where it leads to */
    pthread_t thread;
};

static struct way ways[PROBES_MAX][PROBES_MAX];
static atomic_llong passed_ns;

static int64_t now_ns(void)
{
    return passed_ns;
}

/* False when the sender has closed, or the receiver. */
static bool pump(int from, int to, double bytes_per_s)
{
    char bytes[16384];
    ssize_t n = read(from, bytes, sizeof bytes);

    if (n > 0 && bytes_per_s > 0) /* before they arrive */
        passed_ns += (int64_t)((double)n / bytes_per_s * 1e9);
    return n > 0 && send(to, bytes, (size_t)n, MSG_NOSIGNAL) == n;
}

/* One connection after another until the listener is closed. Only one direction takes time: the
 * other carries credits. */
static void *lead(void *arg)
{
    const struct way *w = arg;
    int in;

    while ((in = accept(w->listener, NULL, NULL)) >= 0) {
        int out = tcp_connect(TCP_LOCAL, w->port);
        struct pollfd ends[2] = {{.fd = in, .events = POLLIN}, {.fd = out, .events = POLLIN}};
        bool is_open = out >= 0;

        while (is_open && poll(ends, 2, -1) > 0) {
            if (ends[0].revents)
                is_open = pump(in, out, w->bytes_per_s);
            if (is_open && ends[1].revents)
                is_open = pump(out, in, 0);
        }
        (void)close(in);
        if (out >= 0)
            (void)close(out);
    }
    return NULL;
}

/* Returns the port to dial instead of `port`. */
static int way_open(struct way *w, double bytes_per_s, int port)
{
    int own_port = 0;

    *w = (struct way){
        .bytes_per_s = bytes_per_s, .port = port, .listener = tcp_listen(TCP_LOCAL, 0, &own_port)};
    assert_true(w->listener >= 0);
    assert_int_equal(pthread_create(&w->thread, NULL, lead, w), 0);
    return own_port;
}

static void way_close(struct way *w)
{
    if (w->bytes_per_s == 0)
        return;
    assert_int_equal(shutdown(w->listener, SHUT_RDWR), 0);
    assert_int_equal(pthread_join(w->thread, NULL), 0);
    assert_int_equal(close(w->listener), 0);
    w->bytes_per_s = 0;
}

/* --- probes --- */

static int call_over_tls(int port, const struct buf *body)
{
    struct signature_request signs = {"POST", "/v1/peers", body->data, body->len};
    char text[HMAC_TEXT_BYTES], line[128], url[128];
    const char *headers[] = {line, NULL};
    struct http_request request = {.method = "POST",
                                   .url = url,
                                   .connect_to = "127.0.0.1",
                                   .headers = headers,
                                   .body = body->data,
                                   .body_bytes = body->len,
                                   .tls.identity = caller};
    struct http_response answer = {0};
    struct http *http = NULL;

    assert_int_equal(signature_make(&key, &signs, text, NULL), ERR_OK);
    (void)snprintf(line, sizeof line, SIGNATURE_HEADER ": %s", text);
    (void)snprintf(url, sizeof url, "https://w0-0.u.skyjob.internal:%d/v1/peers", port);
    assert_int_equal(http_new(&http, NULL), ERR_OK);
    assert_int_equal(http_call(http, &request, &answer, NULL), ERR_OK);
    buf_deinit(&answer.body);
    http_free(http);
    return answer.status;
}

/* As the operator does. */
static void post_table(const struct party *p)
{
    struct buf body = {.max = PEERS_TEXT_MAX_BYTES};

    assert_int_equal(peers_write(&p->table, &body, NULL), ERR_OK);
    assert_int_equal(
        caller ? call_over_tls(p->params.control_port, &body)
               : client_call(p->params.control_port, "POST", "/v1/peers", body.data, &key),
        200);
    buf_deinit(&body);
}

static void begin(int i, int total_ms, int partner_ms)
{
    struct party *p = &parties[i];
    struct err err;

    *p = (struct party){.params = {.key_path = key_path,
                                   .certificates_dir = caller ? scratch : NULL,
                                   .control_host = "127.0.0.1",
                                   .control_port = client_free_port(),
                                   .tensor_host = "127.0.0.1",
                                   .tensor_port = client_free_port(),
                                   .now_ns = now_ns,
                                   .end_ms = now_ns() / 1000000 + total_ms,
                                   .table_ms = 300,
                                   .partner_ms = partner_ms,
                                   .partner_more_ms = 20000}};
    p->table.n = 1;
    (void)snprintf(p->table.list[0].host, PEERS_HOST_BYTES, "127.0.0.1");
    (void)snprintf(p->table.list[0].node, NODE_NAME_BYTES, "node-%d", i);
    p->table.list[0].port = p->params.tensor_port;
    if (probe_link_open(&p->params, &p->probe, &err) != ERR_OK)
        fail_msg("%s", err.text);
}

/* Over a link of that speed; 0: nothing listens there. */
static void add_peer(int from, int to, double bytes_per_s)
{
    struct peers *table = &parties[from].table;
    int port = client_free_port();

    if (bytes_per_s > 0)
        port = way_open(&ways[from][to], bytes_per_s, parties[to].params.tensor_port);
    table->list[table->n] = parties[to].table.list[0];
    if (from != to)
        table->list[table->n].port = port;
    table->n++;
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
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++)
            way_close(&ways[i][k]);
}

/* One figure, which is that of the way there. */
static void check_link(int from, int to, double bytes_per_s)
{
    const struct node_probe *found = &parties[from].found;
    int n = 0;

    for (int i = 0; i < found->n_links; i++) {
        const struct node_link *link = &found->links[i];

        if (strcmp(link->node, parties[to].table.list[0].node) != 0)
            continue;
        n++;
        if (link->bytes_per_s < 0.8 * bytes_per_s || link->bytes_per_s > 1.2 * bytes_per_s)
            fail_msg("%d to %d: %g bytes per second of %g", from, to, link->bytes_per_s,
                     bytes_per_s);
        assert_true(link->latency_ms > 0 && link->latency_ms < 1);
    }
    assert_int_equal(n, 1);
}

static void probe_link_measures_every_pair_in_both_directions(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        begin(i, 30000, 20000);
    for (int i = 0; i < 3; i++) /* 0-1, 0-2, 1-2 */
        for (int k = 0; k < 3; k++)
            if (k != i)
                add_peer(i, k, 1e6 * (1 + i + 3 * k));
    run_all(3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(parties[i].found.n_links, 2);
        for (int k = 0; k < 3; k++)
            if (k != i)
                check_link(i, k, 1e6 * (1 + i + 3 * k));
    }
}

static void probe_link_needs_no_table_to_end(void **state)
{
    (void)state;
    begin(0, 30000, 20000);
    probe_link_run(parties[0].probe, &parties[0].found);
    assert_int_equal(parties[0].found.n_links, 0);
    probe_link_close(parties[0].probe);
}

static void probe_link_of_a_lonely_node_is_none(void **state)
{
    (void)state;
    begin(0, 30000, 20000);
    run_all(1);
    assert_int_equal(parties[0].found.n_links, 0);
}

static void probe_link_skips_a_partner_that_does_not_come(void **state)
{
    (void)state;
    begin(0, 30000, 500);
    begin(1, 30000, 500);
    begin(2, 30000, 500);
    add_peer(0, 2, 0); /* no probe is there */
    add_peer(0, 1, 2e6);
    add_peer(1, 1, 0); /* left over in the first round */
    add_peer(1, 0, 3e6);
    run_all(2);
    probe_link_close(parties[2].probe);
    assert_int_equal(parties[0].found.n_links, 1);
    check_link(0, 1, 2e6);
    check_link(1, 0, 3e6);
}

static void probe_link_is_over_in_time(void **state)
{
    (void)state;
    begin(0, 0, 20000);
    begin(1, 0, 20000);
    add_peer(0, 1, 2e6);
    add_peer(1, 0, 2e6);
    run_all(2);
    assert_int_equal(parties[0].found.n_links, 0);
}

/* A message takes some time, and less than a hundred times what it took where this was written. */
static void probe_message_finds_what_messages_take(void **state)
{
    struct node_message found = {0};
    struct err err = {0};

    (void)state;
    if (probe_message_run(now_ns, NULL, &found, &err) != ERR_OK)
        fail_msg("%s", err.text);
    print_message("%.3f ms per message, %.2f ns per byte\n", found.ms, found.byte_ns);
    assert_true(found.ms > 0 && found.ms < 10);
    assert_true(found.byte_ns >= 0 && found.byte_ns < 100);
}

/* The way there and the way back are apart, however unlike. */
static void probe_link_measures_a_slow_link_as_slow(void **state)
{
    (void)state;
    begin(0, 30000, 20000);
    begin(1, 30000, 20000);
    add_peer(0, 1, 5e5);
    add_peer(1, 0, 2e7);
    run_all(2);
    check_link(0, 1, 5e5);
    check_link(1, 0, 2e7);
}

static void probe_link_measures_between_probes_with_certificates(void **state)
{
    struct authority_pair ca = certificates_authority();
    struct node_message message;
    struct err err;

    (void)state;
    certificates_write(scratch, &ca, "w0-0.u.skyjob.internal");
    caller = certificates_identity(&ca, &ca, "operator.u.skyjob.internal");
    begin(0, 30000, 20000);
    begin(1, 30000, 20000);
    add_peer(0, 1, 2e6);
    add_peer(1, 0, 3e6);
    run_all(2);
    check_link(0, 1, 2e6);
    check_link(1, 0, 3e6);
    if (probe_message_run(now_ns, caller, &message, &err) != ERR_OK)
        fail_msg("%s", err.text);
    print_message("%.3f ms per message, %.2f ns per byte\n", message.ms, message.byte_ns);
    tls_identity_free(caller);
    caller = NULL;
    authority_pair_deinit(&ca);
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
        cmocka_unit_test(probe_link_measures_between_probes_with_certificates),
    };
    return cmocka_run_group_tests(tests, make_key, scratch_remove);
}
