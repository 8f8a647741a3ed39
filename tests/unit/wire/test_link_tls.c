/* Links with identities, and strangers of all kinds. */
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "certificates.h"
#include "raw_peer.h"

static struct authority_pair ours, theirs;

static void give(int stage, const struct authority_pair *ca, const struct authority_pair *trusted,
                 const char *name)
{
    tls_identity_free(stage_identities[stage]);
    stage_identities[stage] = ca ? certificates_identity(ca, trusted, name) : NULL;
}

static int set_up(void **state)
{
    (void)state;
    give(0, &ours, &ours, "stage-0.test");
    give(1, &ours, &ours, "stage-1.test");
    give(2, &ours, &ours, "stage-2.test");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < STAGES_MAX; i++)
        give(i, NULL, NULL, NULL);
    return 0;
}

static void abort_all(struct stages *s)
{
    for (int i = 0; i < s->n; i++)
        link_abort(s->links[i], "the test is over");
    free(s->tensor);
}

static void link_with_identities_carries_messages_through_a_chain(void **state)
{
    struct stages s;

    (void)state;
    start_ready(&s, 3);
    for (uint64_t step = 0; step < 10; step++) {
        struct link_message f = message(&s, TYPE_FORWARD, step, TENSOR_MAX - step);
        struct link_message b = message(&s, TYPE_BACKWARD, step, step * 1000);

        send_ok(s.links[0], FORWARD_OUT, &f);
        receive_ok(s.links[1], FORWARD_IN, &f);
        send_ok(s.links[1], FORWARD_OUT, &f);
        receive_ok(s.links[2], FORWARD_IN, &f);
        send_ok(s.links[2], BACKWARD_OUT, &b);
        receive_ok(s.links[1], BACKWARD_IN, &b);
    }
    stop(&s);
}

static void link_with_identities_carries_both_ways_at_once(void **state)
{
    struct stages s;

    (void)state;
    start_ready(&s, 2);
    for (uint64_t step = 0; step < 20; step++) {
        struct link_message f = message(&s, TYPE_FORWARD, step, TENSOR_MAX);
        struct link_message b = message(&s, TYPE_BACKWARD, step, TENSOR_MAX - 1);

        send_ok(s.links[0], FORWARD_OUT, &f);
        send_ok(s.links[1], BACKWARD_OUT, &b);
        receive_ok(s.links[1], FORWARD_IN, &f);
        receive_ok(s.links[0], BACKWARD_IN, &b);
    }
    stop(&s);
}

/* Stage 0 dials stage 1, which does not dial; neither gets ready. */
static void expect_refusal_among(int n, int dialer, const char *says)
{
    struct stages s;
    struct err err;
    int64_t end_ms = clock_now_ms() + TIMEOUT_MS;

    start(&s, n);
    set_peer(s.links[dialer], 1 - dialer, link_port(s.links[1 - dialer]));
    while (link_refused(s.links[1 - dialer]) == 0 && clock_now_ms() < end_ms)
        assert_int_equal(link_wait_ready(s.links[dialer], 50, &err), ERR_TIMEOUT);
    assert_int_equal(link_wait_ready(s.links[dialer], 200, &err), ERR_TIMEOUT);
    if (!strstr(err.text, says))
        fail_msg("\"%s\" does not say \"%s\"", err.text, says);
    assert_true(link_refused(s.links[1 - dialer]) > 0);
    assert_int_equal(link_wait_ready(s.links[1 - dialer], 0, &err), ERR_TIMEOUT);
    abort_all(&s);
}

static void expect_refusal(int dialer, const char *says)
{
    expect_refusal_among(2, dialer, says);
}

static void link_refuses_a_dialer_with_the_name_of_another_peer(void **state)
{
    (void)state;
    give(0, &ours, &ours, "stage-2.test");
    expect_refusal_among(3, 0, "certificate is not that of worker 0");
}

static void link_answers_no_dialer_with_the_name_of_no_peer(void **state)
{
    (void)state;
    give(0, &ours, &ours, "stage-2.test");
    expect_refusal(0, "stage 1");
}

static void link_refuses_a_dialer_of_another_ca(void **state)
{
    (void)state;
    give(0, &theirs, &ours, "stage-0.test");
    expect_refusal(0, "stage 1");
}

static void link_refuses_a_dialer_without_tls(void **state)
{
    (void)state;
    give(0, NULL, NULL, NULL);
    expect_refusal(0, "stage 1");
}

static void link_sends_nothing_to_a_listener_with_the_name_of_another_worker(void **state)
{
    (void)state;
    give(1, &ours, &ours, "stage-2.test");
    expect_refusal(0, "certificate: hostname mismatch");
}

static void link_sends_nothing_to_a_listener_of_another_ca(void **state)
{
    (void)state;
    give(1, &theirs, &ours, "stage-1.test");
    expect_refusal(0, "certificate: unable to get local issuer");
}

static void link_sends_nothing_to_a_listener_without_tls(void **state)
{
    (void)state;
    give(1, NULL, NULL, NULL);
    expect_refusal(0, "stage 1");
}

/* Every way to come in without the right certificate, while the edges are in use. */
static void link_with_identities_goes_on_among_strangers(void **state)
{
    static const char *const texts[] = {RAW_HANDSHAKE, "GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01",
                                        ""};
    struct stages s;
    struct link_message msg;
    int fds[sizeof texts / sizeof texts[0]];

    (void)state;
    start_ready(&s, 2);
    msg = message(&s, TYPE_FORWARD, 0, TENSOR_MAX);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        fds[i] = raw_connect(link_port(s.links[1]));
        raw_send(fds[i], texts[i], strlen(texts[i]));
    }
    send_ok(s.links[0], FORWARD_OUT, &msg);
    receive_ok(s.links[1], FORWARD_IN, &msg);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        close(fds[i]);
    msg.step++;
    send_ok(s.links[0], FORWARD_OUT, &msg);
    receive_ok(s.links[1], FORWARD_IN, &msg);
    stop(&s);
}

/* Does a client with this context, which is given up, get an answer to a websocket handshake? */
static bool is_answered(struct link *link, SSL_CTX *context)
{
    SSL *ssl = SSL_new(context);
    int fd = raw_connect(link_port(link));
    char answer[256] = "";
    bool is_answer;

    assert_int_equal(SSL_set_fd(ssl, fd), 1);
    is_answer = SSL_connect(ssl) == 1 &&
                SSL_write(ssl, RAW_HANDSHAKE, (int)strlen(RAW_HANDSHAKE)) > 0 &&
                SSL_read(ssl, answer, sizeof answer - 1) > 0;
    ERR_clear_error();
    SSL_free(ssl);
    SSL_CTX_free(context);
    close(fd);
    return is_answer;
}

static SSL_CTX *context_of(const struct tls_identity *id)
{
    SSL_CTX *context = NULL;

    assert_int_equal(tls_context_new(id, TLS_CLIENT, &context, NULL), ERR_OK);
    return context;
}

static void link_answers_no_handshake_without_the_certificate_of_a_peer(void **state)
{
    struct tls_identity *foreign = certificates_identity(&theirs, &ours, "stage-0.test");
    struct tls_identity *unknown = certificates_identity(&ours, &ours, "w0-1.b.skyjob.internal");
    struct tls_identity *old = certificates_at(&ours, buf_text(&ours.certificate), "stage-0.test",
                                               (int64_t)time(NULL) - 3 * CERTIFICATES_DAY_S);
    SSL_CTX *tls_1_2 = context_of(stage_identities[0]);
    struct stages s;

    (void)state;
    start(&s, 2);
    assert_true(is_answered(s.links[1], context_of(stage_identities[0])));
    assert_false(is_answered(s.links[1], SSL_CTX_new(TLS_client_method())));
    assert_false(is_answered(s.links[1], context_of(foreign)));
    assert_false(is_answered(s.links[1], context_of(unknown)));
    assert_false(is_answered(s.links[1], context_of(old)));
    assert_int_equal(SSL_CTX_set_min_proto_version(tls_1_2, TLS1_2_VERSION), 1);
    assert_int_equal(SSL_CTX_set_max_proto_version(tls_1_2, TLS1_2_VERSION), 1);
    assert_false(is_answered(s.links[1], tls_1_2));
    tls_identity_free(foreign);
    tls_identity_free(unknown);
    tls_identity_free(old);
    abort_all(&s);
}

/* HTTP/2 in libwebsockets has written out of bounds (CVE-2026-19773): no peer may get there, not
 * even one with the right certificate. */
static void link_speaks_no_http2_with_a_peer_that_asks_for_it(void **state)
{
    static const char *const offers[] = {"\x02h2", "\x02h2\x08http/1.1"};
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0";
    struct stages s;

    (void)state;
    start(&s, 2);
    for (size_t i = 0; i < sizeof offers / sizeof offers[0]; i++) {
        SSL_CTX *context = context_of(stage_identities[0]);
        SSL *ssl = SSL_new(context);
        int fd = raw_connect(link_port(s.links[1]));
        const unsigned char *chosen = NULL;
        unsigned n_chosen = 0;
        char answer[64];

        assert_int_equal(
            SSL_set_alpn_protos(ssl, (const unsigned char *)offers[i], (unsigned)strlen(offers[i])),
            0);
        assert_int_equal(SSL_set_fd(ssl, fd), 1);
        if (SSL_connect(ssl) == 1) {
            SSL_get0_alpn_selected(ssl, &chosen, &n_chosen);
            assert_false(n_chosen == 2 && memcmp(chosen, "h2", 2) == 0);
            assert_true(SSL_write(ssl, preface, (int)sizeof preface) > 0);
            if (SSL_read(ssl, answer, sizeof answer) > 0)
                assert_memory_equal(answer, "HTTP/1.", 7); /* a refusal */
        }
        ERR_clear_error();
        SSL_free(ssl);
        SSL_CTX_free(context);
        close(fd);
    }
    abort_all(&s);
}

static void link_with_an_identity_needs_the_names_of_its_peers(void **state)
{
    struct stage_params p = params_of(0, 2);
    struct link *link = NULL;
    struct err err;

    (void)state;
    p.edges[1].tls_name[0] = '\0';
    expect(try_open(&p, &link, &err), ERR_INVALID, &err, "no name for the peer's certificate");
}

static int make_authorities(void **state)
{
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    /* Without it the C library replaces its own in every thread, under a lock that ThreadSanitizer
     * does not see. */
    (void)setenv("TZ", "UTC", 1);
    ours = certificates_authority();
    theirs = certificates_authority();
    return 0;
}

static int free_authorities(void **state)
{
    (void)state;
    authority_pair_deinit(&ours);
    authority_pair_deinit(&theirs);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(link_with_identities_carries_messages_through_a_chain),
        TEST(link_with_identities_carries_both_ways_at_once),
        TEST(link_refuses_a_dialer_with_the_name_of_another_peer),
        TEST(link_answers_no_dialer_with_the_name_of_no_peer),
        TEST(link_refuses_a_dialer_of_another_ca),
        TEST(link_refuses_a_dialer_without_tls),
        TEST(link_sends_nothing_to_a_listener_with_the_name_of_another_worker),
        TEST(link_sends_nothing_to_a_listener_of_another_ca),
        TEST(link_sends_nothing_to_a_listener_without_tls),
        TEST(link_with_identities_goes_on_among_strangers),
        TEST(link_answers_no_handshake_without_the_certificate_of_a_peer),
        TEST(link_speaks_no_http2_with_a_peer_that_asks_for_it),
        TEST(link_with_an_identity_needs_the_names_of_its_peers),
    };
    return cmocka_run_group_tests(tests, make_authorities, free_authorities);
}
