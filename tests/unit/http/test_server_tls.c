/* A server with an identity, and clients of all kinds. */
#include "http/server.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "certificates.h"
#include "client.h"

#define OPERATOR "operator.a.skyjob.internal"
#define WORKER   "w0-1.a.skyjob.internal"
#define GET      "GET / HTTP/1.1\r\n\r\n"

static struct authority_pair ours, theirs;
static struct tls_identity *operator_id, *worker_id;
static struct server *server;
static int port;
static atomic_int n_asked;

/* Answers with the length of the body. */
static void count(void *ctx, const struct server_request *r, struct server_answer *out)
{
    (void)ctx;
    n_asked++;
    assert_int_equal(buf_addf(&out->body, NULL, "%zu bytes", r->n_body), ERR_OK);
}

static bool admits(void *ctx, const struct server_request *head)
{
    (void)ctx;
    return head->n_body > 0;
}

static int start(bool is_open)
{
    struct server_handler handler = {.on_request = count,
                                     .admits = admits,
                                     .identity = worker_id,
                                     .client = OPERATOR,
                                     .is_open = is_open};

    n_asked = 0;
    port = client_free_port();
    return server_open("127.0.0.1", port, handler, &server, NULL) == ERR_OK ? 0 : -1;
}

static int set_up(void **state)
{
    (void)state;
    return start(false);
}

static int set_up_open(void **state)
{
    (void)state;
    return start(true);
}

static int tear_down(void **state)
{
    (void)state;
    server_close(server);
    return 0;
}

/* With a context that is given up. NULL when the handshake fails on this end. */
static SSL *dial_with(SSL_CTX *context)
{
    SSL *ssl = SSL_new(context);

    SSL_CTX_free(context);
    assert_int_equal(SSL_set_fd(ssl, client_dial(port)), 1);
    if (SSL_connect(ssl) == 1)
        return ssl;
    close(SSL_get_fd(ssl));
    SSL_free(ssl);
    ERR_clear_error();
    return NULL;
}

static SSL *dial(const struct tls_identity *id)
{
    SSL_CTX *context = NULL;

    assert_int_equal(tls_context_new(id, TLS_CLIENT, &context, NULL), ERR_OK);
    return dial_with(context);
}

/* As one without a certificate, who believes any. */
static SSL *dial_bare(void)
{
    return dial_with(SSL_CTX_new(TLS_client_method()));
}

static void hang_up(SSL *ssl)
{
    if (ssl)
        close(SSL_get_fd(ssl));
    SSL_free(ssl);
}

/* Send `request` and read one answer; false when the connection ends before. */
static bool ask(SSL *ssl, const char *request, size_t n, const char *expected)
{
    size_t len = 0;
    const char *body = NULL;

    for (size_t at = 0; at < n;) {
        int sent = SSL_write(ssl, request + at, (int)(n - at));

        if (sent <= 0)
            return false;
        at += (size_t)sent;
    }
    while (!body || strlen(body + 4) < strlen(expected)) {
        int got = SSL_read(ssl, client_answer + len, (int)(sizeof client_answer - 1 - len));

        if (got <= 0)
            return false;
        len += (size_t)got;
        client_answer[len] = '\0';
        body = strstr(client_answer, "\r\n\r\n");
    }
    assert_string_equal(body + 4, expected);
    return true;
}

static bool get(SSL *ssl)
{
    return ask(ssl, GET, strlen(GET), "0 bytes");
}

/* Does one with this identity, which is given up, get an answer? */
static bool is_answered(struct tls_identity *id)
{
    SSL *ssl = dial(id);
    bool is_answer = ssl && get(ssl);

    hang_up(ssl);
    tls_identity_free(id);
    return is_answer;
}

static void server_answers_only_the_named_client_of_its_ca(void **state)
{
    (void)state;
    assert_true(is_answered(tls_identity_share(operator_id)));
    assert_false(is_answered(tls_identity_share(worker_id)));
    assert_false(is_answered(certificates_identity(&ours, &ours, "operator.b.skyjob.internal")));
    assert_false(is_answered(certificates_identity(&theirs, &ours, OPERATOR)));
    assert_false(is_answered(certificates_at(&ours, buf_text(&ours.certificate), OPERATOR,
                                             (int64_t)time(NULL) - 3 * CERTIFICATES_DAY_S)));
    assert_int_equal(n_asked, 1);
}

static void server_with_an_identity_speaks_no_plain_http(void **state)
{
    (void)state;
    assert_int_equal(client_ask(port, GET, strlen(GET)), 0);
    assert_int_equal(n_asked, 0);
}

static void server_answers_no_client_without_a_certificate(void **state)
{
    SSL *ssl = dial_bare();

    (void)state;
    assert_false(ssl && get(ssl));
    assert_int_equal(n_asked, 0);
    hang_up(ssl);
}

static void server_keeps_the_connection_of_its_client(void **state)
{
    SSL *ssl = dial(operator_id);

    (void)state;
    assert_non_null(ssl);
    for (int i = 0; i < 3; i++)
        assert_true(get(ssl));
    assert_non_null(strstr(client_answer, "keep-alive"));
    assert_true(ask(ssl, "GET / HTTP/1.1\r\nConnection: close\r\n\r\n", 37, "0 bytes"));
    assert_non_null(strstr(client_answer, "Connection: close"));
    assert_false(get(ssl));
    hang_up(ssl);
}

static void server_ends_a_connection_on_which_requests_overlap(void **state)
{
    SSL *ssl = dial(operator_id);

    (void)state;
    assert_non_null(ssl);
    assert_true(ask(ssl, GET GET, 2 * strlen(GET), "0 bytes"));
    assert_false(get(ssl));
    assert_int_equal(n_asked, 1);
    hang_up(ssl);
}

static void server_reads_bodies_of_many_records(void **state)
{
    static const char head[] = "POST / HTTP/1.1\r\nContent-Length: 300000\r\n\r\n";
    size_t n = strlen(head) + 300000;
    char *request = calloc(1, n);
    SSL *ssl = dial(operator_id);

    (void)state;
    assert_non_null(request);
    assert_non_null(ssl);
    memcpy(request, head, strlen(head));
    assert_true(ask(ssl, request, n, "300000 bytes"));
    assert_true(ask(ssl, request, n, "300000 bytes"));
    hang_up(ssl);
    free(request);
}

static void server_gives_its_clients_place_to_no_stranger(void **state)
{
    SSL *ssl = dial(operator_id);
    int fds[2 * SERVER_CONNECTIONS_MAX];

    (void)state;
    assert_non_null(ssl);
    assert_true(get(ssl));
    for (int i = 0; i < 2 * SERVER_CONNECTIONS_MAX; i++) {
        fds[i] = client_dial(port);
        usleep(1000);
    }
    assert_true(get(ssl));
    assert_true(is_answered(tls_identity_share(operator_id))); /* one more finds a place */
    for (int i = 0; i < 2 * SERVER_CONNECTIONS_MAX; i++)
        close(fds[i]);
    hang_up(ssl);
}

static void server_gives_up_on_a_handshake_that_does_not_end(void **state)
{
    int64_t start_ms = clock_now_ms();
    int fd = client_dial(port);

    (void)state;
    assert_int_equal(send(fd, "\x16\x03\x01\x02", 4, 0), 4); /* the beginning of one */
    assert_int_equal(client_hear(fd), 0);
    assert_in_range(clock_now_ms() - start_ms, SERVER_REQUEST_MS - 100, 1000 * CLIENT_PATIENCE_S);
}

static void server_renews_its_identity_while_connections_go_on(void **state)
{
    struct tls_identity *renewed = certificates_identity(&theirs, &theirs, WORKER);
    SSL *ssl = dial(operator_id);

    (void)state;
    assert_non_null(ssl);
    assert_true(get(ssl));
    assert_int_equal(server_renew(server, renewed, NULL), ERR_OK);
    tls_identity_free(renewed);
    assert_true(get(ssl));
    assert_false(is_answered(tls_identity_share(operator_id)));
    assert_true(is_answered(certificates_identity(&theirs, &theirs, OPERATOR)));
    assert_true(get(ssl));
    hang_up(ssl);
}

/* Without a certificate, or with any. */
static void an_open_server_answers_every_client(void **state)
{
    SSL *ssl = dial_bare();

    (void)state;
    assert_non_null(ssl);
    assert_true(get(ssl));
    hang_up(ssl);
    assert_true(is_answered(tls_identity_share(operator_id)));
    assert_true(is_answered(certificates_identity(&theirs, &ours, "a")));
    assert_int_equal(n_asked, 3);
}

static void an_open_server_speaks_no_plain_http_and_no_old_tls(void **state)
{
    SSL_CTX *old = SSL_CTX_new(TLS_client_method());

    (void)state;
    assert_int_equal(client_ask(port, GET, strlen(GET)), 0);
    assert_int_equal(SSL_CTX_set_max_proto_version(old, TLS1_2_VERSION), 1);
    assert_null(dial_with(old));
    assert_int_equal(n_asked, 0);
}

/* Who may keep one is known by a certificate. */
static void an_open_server_ends_each_connection_after_its_answer(void **state)
{
    SSL *ssl = dial_bare();
    char byte;

    (void)state;
    assert_non_null(ssl);
    assert_true(get(ssl));
    assert_non_null(strstr(client_answer, "Connection: close"));
    assert_int_equal(SSL_get_error(ssl, SSL_read(ssl, &byte, 1)), SSL_ERROR_ZERO_RETURN);
    hang_up(ssl);
}

static void an_open_server_stays_open_with_a_new_identity(void **state)
{
    struct tls_identity *renewed = certificates_identity(&theirs, &theirs, WORKER);
    SSL *ssl;

    (void)state;
    assert_int_equal(server_renew(server, renewed, NULL), ERR_OK);
    tls_identity_free(renewed);
    assert_false(is_answered(tls_identity_share(operator_id))); /* does not believe it */
    ssl = dial_bare();
    assert_non_null(ssl);
    assert_true(get(ssl));
    hang_up(ssl);
}

static int make_identities(void **state)
{
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    ours = certificates_authority();
    theirs = certificates_authority();
    operator_id = certificates_identity(&ours, &ours, OPERATOR);
    worker_id = certificates_identity(&ours, &ours, WORKER);
    return 0;
}

static int free_identities(void **state)
{
    (void)state;
    tls_identity_free(operator_id);
    tls_identity_free(worker_id);
    authority_pair_deinit(&ours);
    authority_pair_deinit(&theirs);
    return 0;
}

#define TEST(name)      cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define TEST_OPEN(name) cmocka_unit_test_setup_teardown(name, set_up_open, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(server_answers_only_the_named_client_of_its_ca),
        TEST(server_with_an_identity_speaks_no_plain_http),
        TEST(server_answers_no_client_without_a_certificate),
        TEST(server_keeps_the_connection_of_its_client),
        TEST(server_ends_a_connection_on_which_requests_overlap),
        TEST(server_reads_bodies_of_many_records),
        TEST(server_gives_its_clients_place_to_no_stranger),
        TEST(server_gives_up_on_a_handshake_that_does_not_end),
        TEST(server_renews_its_identity_while_connections_go_on),
        TEST_OPEN(an_open_server_answers_every_client),
        TEST_OPEN(an_open_server_speaks_no_plain_http_and_no_old_tls),
        TEST_OPEN(an_open_server_ends_each_connection_after_its_answer),
        TEST_OPEN(an_open_server_stays_open_with_a_new_identity),
    };
    return cmocka_run_group_tests(tests, make_identities, free_identities);
}
