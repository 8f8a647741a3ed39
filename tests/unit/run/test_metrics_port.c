/* The metrics' port, and an API server that says what a test wants about tokens. */
#include "run/metrics_port.h"

#include <openssl/x509v3.h>
#include <pthread.h>

#include "api/names.h"
#include "base/clock.h"
#include "secrets.h"
#include "tls_client.h"

#define NOW_S        ((int64_t)time(NULL))
#define GET          "GET /metrics HTTP/1.1\r\nHost: x\r\n"
#define GET_AS(name) GET "Authorization: Bearer " name "\r\n\r\n"

#define TOKEN_PATH "POST /apis/authentication.k8s.io/v1/tokenreviews?"
#define RIGHT_PATH "POST /apis/authorization.k8s.io/v1/subjectaccessreviews?"
#define VALID                                                                                      \
    {                                                                                              \
        .expect = TOKEN_PATH, .status = 201,                                                       \
        .body = "{\"status\":{\"authenticated\":true,\"user\":{\"username\":\"u\","                \
                "\"groups\":[\"g\"]}}}"                                                            \
    }
#define INVALID                                                                                    \
    {                                                                                              \
        .expect = TOKEN_PATH, .status = 201, .body = "{\"status\":{\"error\":\"invalid\"}}"        \
    }
#define MAY(word)                                                                                  \
    {                                                                                              \
        .expect = RIGHT_PATH, .status = 201, .body = "{\"status\":{\"allowed\":" word "}}"         \
    }

static struct loopback *server;
static struct http *loop;
static struct kube_client *client;
static struct metrics_port *metrics;
static int port;
static int64_t call_ms;
static struct err err;

static struct kube_client *new_client(struct http *http)
{
    const struct kube_options options = {.call_ms = call_ms};
    struct kube_config config = {.namespace = strdup("default")};
    struct kube_client *c = NULL;

    assert_true(asprintf(&config.server, "http://127.0.0.1:%d", loopback_port(server)) > 0);
    assert_int_equal(kube_client_new(http, &config, &options, &c, &err), ERR_OK);
    return c;
}

static void begin(const struct loopback_reply *replies, size_t n)
{
    const struct metrics m = {.has_jobs = true, .n_stalled = 3};
    char address[32];

    server = secrets_serve(replies, n);
    assert_non_null(server);
    assert_int_equal(http_new(&loop, &err), ERR_OK);
    client = new_client(loop);
    port = client_free_port();
    (void)snprintf(address, sizeof address, "127.0.0.1:%d", port);
    assert_int_equal(metrics_port_open(address, client, NOW_S, &metrics, &err), ERR_OK);
    metrics_port_publish(metrics, &m);
}

static int set_up(void **state)
{
    (void)state;
    call_ms = METRICS_PORT_CALL_MS;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    metrics_port_close(metrics);
    metrics = NULL;
    kube_client_free(client);
    http_free(loop);
    secrets_stop(server);
    return 0;
}

static bool says(const char *text)
{
    return strstr(client_answer, text) != NULL;
}

static void metrics_are_for_users_who_may_get_them(void **state)
{
    const struct loopback_reply replies[] = {VALID, MAY("true")};

    (void)state;
    begin(replies, 2);
    assert_int_equal(tls_client_ask(port, GET_AS("abc")), 200);
    assert_true(says("Content-Type: text/plain; version=0.0.4\r\n"));
    assert_true(says("\nskyjob_jobs_stalled 3\n"));
    assert_true(says("\n# HELP process_cpu_seconds_total "));
    assert_non_null(strstr(loopback_request(server, 0), "\"token\":\"abc\""));
    assert_non_null(strstr(loopback_request(server, 1), "\"user\":\"u\",\"groups\":[\"g\"]"));
    assert_non_null(strstr(loopback_request(server, 1), "\"path\":\"/metrics\",\"verb\":\"get\""));
    /* That is remembered, and for this token alone. */
    assert_int_equal(tls_client_ask(port, GET_AS("abc")), 200);
    assert_int_equal(loopback_strays(server), 0);
    assert_int_equal(tls_client_ask(port, GET_AS("abcd")), 503);
    assert_int_equal(loopback_strays(server), 1);
}

static void metrics_are_not_for_those_without_a_token(void **state)
{
    static const char *const requests[] = {GET "\r\n", GET "Authorization: Basic YTpi\r\n\r\n",
                                           GET "Authorization: Bearer \r\n\r\n",
                                           GET "Authorization: Bearer a b\r\n\r\n"};

    (void)state;
    begin(NULL, 0);
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        assert_int_equal(tls_client_ask(port, requests[i]), 401);
        assert_false(says("skyjob_jobs"));
    }
    assert_int_equal(loopback_strays(server), 0); /* nobody had to be asked */
}

static void metrics_are_not_for_a_token_that_is_nobodys(void **state)
{
    const struct loopback_reply replies[] = {INVALID};

    (void)state;
    begin(replies, 1);
    assert_int_equal(tls_client_ask(port, GET_AS("abc")), 401);
    assert_int_equal(tls_client_ask(port, GET_AS("abc")), 401);
    assert_false(says("skyjob_jobs"));
    assert_int_equal(loopback_strays(server), 0);
}

static void metrics_are_not_for_a_user_who_may_not(void **state)
{
    const struct loopback_reply replies[] = {VALID, MAY("false")};

    (void)state;
    begin(replies, 2);
    assert_int_equal(tls_client_ask(port, GET_AS("abc")), 403);
    assert_int_equal(tls_client_ask(port, GET_AS("abc")), 403);
    assert_false(says("skyjob_jobs"));
    assert_int_equal(loopback_strays(server), 0);
}

static void metrics_wait_for_an_api_server_that_refuses_to_say(void **state)
{
    const struct loopback_reply replies[] = {
        {.expect = TOKEN_PATH, .status = 403, .body = "{\"message\":\"no right\"}"}};

    (void)state;
    begin(replies, 1);
    assert_int_equal(tls_client_ask(port, GET_AS("abc")), 503);
    assert_true(says("\r\n\r\nthe API server cannot be asked "));
    assert_int_equal(tls_client_ask(port, GET_AS("def")), 503); /* which was not sent */
    assert_int_equal(loopback_strays(server), 0);
}

static void metrics_are_no_answer_to_an_odd_verdict(void **state)
{
    const struct loopback_reply replies[] = {VALID, MAY("\"true\"")};

    (void)state;
    begin(replies, 2);
    assert_int_equal(tls_client_ask(port, GET_AS("abc")), 503);
    assert_int_equal(loopback_unused(server), 0);
}

static void metrics_do_not_wait_long_for_an_api_server_that_hangs(void **state)
{
    const struct loopback_reply replies[] = {
        {.expect = TOKEN_PATH, .raw = "HTTP/1.1 201 Created\r\n", .end = LOOPBACK_HANG}};
    int64_t start_ms = clock_now_ms();

    (void)state;
    begin(replies, 1);
    assert_int_equal(tls_client_ask(port, GET_AS("abc")), 503);
    assert_in_range(clock_now_ms() - start_ms, METRICS_PORT_CALL_MS - 100, 15000);
}

static void *ask(void *arg)
{
    (void)arg;
    (void)tls_client_ask(port, GET_AS("abc"));
    return NULL;
}

static void the_port_closes_while_a_call_hangs(void **state)
{
    const struct loopback_reply replies[] = {
        {.expect = TOKEN_PATH, .raw = "HTTP/1.1 201 Created\r\n", .end = LOOPBACK_HANG}};
    int64_t end_ms = clock_now_ms() + 10000;
    pthread_t thread;

    (void)state;
    call_ms = 60000;
    begin(replies, 1);
    assert_int_equal(pthread_create(&thread, NULL, ask, NULL), 0);
    while (loopback_unused(server) > 0 && clock_now_ms() < end_ms)
        (void)usleep(1000);
    metrics_port_close(metrics);
    metrics = NULL;
    assert_true(clock_now_ms() < end_ms);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void the_port_serves_nothing_else(void **state)
{
    (void)state;
    begin(NULL, 0);
    assert_int_equal(tls_client_ask(port, "GET / HTTP/1.1\r\n\r\n"), 404);
    assert_int_equal(tls_client_ask(port, "GET /metricsx HTTP/1.1\r\n\r\n"), 404);
    assert_int_equal(tls_client_ask(port, "GET /metrics/ HTTP/1.1\r\n\r\n"), 404);
    assert_int_equal(tls_client_ask(port, "POST /metrics HTTP/1.1\r\n\r\n"), 405);
    assert_int_equal(tls_client_ask(port, "GET /metrics?a=b HTTP/1.1\r\n\r\n"), 401);
    assert_int_equal(client_ask(port, GET "\r\n", strlen(GET "\r\n")), 0); /* no plain HTTP */
}

static void the_port_refuses_an_address_that_is_none(void **state)
{
    struct metrics_port *other;

    (void)state;
    begin(NULL, 0);
    assert_int_equal(metrics_port_open("8443", client, NOW_S, &other, &err), ERR_INVALID);
    assert_string_equal(err.text, "metrics address: \"8443\" is not HOST:PORT");
}

/* --- the certificate --- */

/* What the server's certificate is told apart by. */
static void read_serial(char out[static 64])
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    SSL *ssl = SSL_new(context);
    int fd = client_dial(port);
    X509 *certificate;
    char *text;

    assert_int_equal(SSL_set_fd(ssl, fd), 1);
    assert_int_equal(SSL_connect(ssl), 1);
    certificate = SSL_get1_peer_certificate(ssl);
    text = i2s_ASN1_INTEGER(NULL, X509_get0_serialNumber(certificate));
    (void)snprintf(out, 64, "%s", text);
    OPENSSL_free(text);
    X509_free(certificate);
    SSL_free(ssl);
    SSL_CTX_free(context);
    close(fd);
}

/* As a scraper that has the CA and the name; without a token. */
static enum err_code scrape(const char *ca_pem, const char *name)
{
    struct http_request request = {.connect_to = TCP_LOCAL, .tls = {.ca_pem = ca_pem}};
    struct http_response response = {0};
    struct http *http = NULL;
    char url[128];
    enum err_code rc;

    (void)snprintf(url, sizeof url, "https://%s:%d/metrics", name, port);
    request.url = url;
    assert_int_equal(http_new(&http, &err), ERR_OK);
    rc = http_call(http, &request, &response, &err);
    if (rc == ERR_OK)
        assert_int_equal(response.status, 401);
    buf_deinit(&response.body);
    http_free(http);
    return rc;
}

static const char *secret_of(const struct authority_pair *ca)
{
    const struct secret_member members[] = {{"tls.crt", buf_text(&ca->certificate)},
                                            {"tls.key", buf_text(&ca->key)},
                                            {"ca.crt", buf_text(&ca->certificate)},
                                            {NULL, NULL}};

    return secret_json("Opaque", "\"resourceVersion\":\"7\"", members);
}

static void the_certificate_can_be_verified_once_the_ca_is_known(void **state)
{
    struct authority_pair first = certificates_authority(), second = certificates_authority();
    const struct loopback_reply replies[] = {
        {.expect = "/secrets/ca ", .body = secret_of(&first)},
        {.expect = "/secrets/ca ", .body = secret_of(&second)}};
    struct kube_client *issuer_client;
    struct http *issuer_http = NULL;
    struct issuer *issuer = NULL;

    (void)state;
    begin(replies, 2);
    assert_int_equal(http_new(&issuer_http, &err), ERR_OK);
    issuer_client = new_client(issuer_http);
    assert_int_equal(issuer_new(issuer_client, "sky", "ca", &issuer, &err), ERR_OK);

    assert_int_equal(metrics_port_tend(metrics, issuer, NOW_S, &err), ERR_OK);
    assert_int_equal(scrape(buf_text(&first.certificate), NAMES_OPERATOR_METRICS_DNS), ERR_DENIED);
    assert_int_equal(issuer_tend(issuer, false, 1000, NOW_S, &err), ERR_OK);
    assert_int_equal(metrics_port_tend(metrics, issuer, NOW_S, &err), ERR_OK);
    assert_int_equal(scrape(buf_text(&first.certificate), NAMES_OPERATOR_METRICS_DNS), ERR_OK);
    assert_int_equal(scrape(buf_text(&first.certificate), "operator.u.skyjob.internal"),
                     ERR_DENIED);
    /* And again when it is another one. */
    assert_int_equal(issuer_tend(issuer, false, 100000, NOW_S, &err), ERR_OK);
    assert_int_equal(metrics_port_tend(metrics, issuer, NOW_S, &err), ERR_OK);
    assert_int_equal(scrape(buf_text(&first.certificate), NAMES_OPERATOR_METRICS_DNS), ERR_DENIED);
    assert_int_equal(scrape(buf_text(&second.certificate), NAMES_OPERATOR_METRICS_DNS), ERR_OK);

    issuer_free(issuer);
    kube_client_free(issuer_client);
    http_free(issuer_http);
    authority_pair_deinit(&first);
    authority_pair_deinit(&second);
}

static void the_certificate_is_renewed_before_it_ends(void **state)
{
    int64_t renew_s;
    char before[64], after[64];

    (void)state;
    begin(NULL, 0);
    renew_s = NOW_S + ISSUER_VALID_S - ISSUER_RENEW_S;
    read_serial(before);
    assert_int_equal(metrics_port_tend(metrics, NULL, renew_s - 60, &err), ERR_OK);
    read_serial(after);
    assert_string_equal(after, before);
    assert_int_equal(metrics_port_tend(metrics, NULL, renew_s, &err), ERR_OK);
    read_serial(after);
    assert_string_not_equal(after, before);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(metrics_are_for_users_who_may_get_them),
        TEST(metrics_are_not_for_those_without_a_token),
        TEST(metrics_are_not_for_a_token_that_is_nobodys),
        TEST(metrics_are_not_for_a_user_who_may_not),
        TEST(metrics_wait_for_an_api_server_that_refuses_to_say),
        TEST(metrics_are_no_answer_to_an_odd_verdict),
        TEST(metrics_do_not_wait_long_for_an_api_server_that_hangs),
        TEST(the_port_closes_while_a_call_hangs),
        TEST(the_port_serves_nothing_else),
        TEST(the_port_refuses_an_address_that_is_none),
        TEST(the_certificate_can_be_verified_once_the_ca_is_known),
        TEST(the_certificate_is_renewed_before_it_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
