/* Requests with an identity, to a server with one. */
#include "http/http.h"

#include <stdatomic.h>

#include "certificates.h"
#include "client.h"
#include "http/server.h"

#define OPERATOR "operator.a.skyjob.internal"
#define WORKER   "w0-1.a.skyjob.internal"
#define OTHER    "w1-1.a.skyjob.internal"

static struct authority_pair ours, theirs;
static struct tls_identity *operator_id;
static struct http *loop;
static struct server *server;
static struct err err;
static int port;

static void greet(void *ctx, const struct server_request *r, struct server_answer *out)
{
    (void)ctx;
    assert_int_equal(buf_addf(&out->body, NULL, "%s", r->path), ERR_OK);
}

static int open_server(const struct authority_pair *ca, const char *name)
{
    struct tls_identity *id = certificates_identity(ca, ca, name);
    struct server_handler handler = {.on_request = greet, .identity = id, .client = OPERATOR};
    enum err_code rc;

    port = client_free_port();
    rc = server_open("127.0.0.1", port, handler, &server, &err);
    tls_identity_free(id);
    return rc == ERR_OK ? 0 : -1;
}

static int set_up(void **state)
{
    (void)state;
    ours = certificates_authority();
    theirs = certificates_authority();
    operator_id = certificates_identity(&ours, &ours, OPERATOR);
    return http_new(&loop, &err) == ERR_OK ? open_server(&ours, WORKER) : -1;
}

static int tear_down(void **state)
{
    (void)state;
    http_free(loop);
    server_close(server);
    tls_identity_free(operator_id);
    authority_pair_deinit(&ours);
    authority_pair_deinit(&theirs);
    return 0;
}

static enum err_code get(struct tls_identity *id, const char *name)
{
    struct http_response r = {0};
    char url[128];
    struct http_request request = {
        .url = url, .connect_to = "127.0.0.1", .tls.identity = id, .deadline_ms = 5000};
    enum err_code rc;

    (void)snprintf(url, sizeof url, "https://%s:%d/a", name, port);
    rc = http_call(loop, &request, &r, &err);
    if (rc == ERR_OK) {
        assert_int_equal(r.status, 200);
        assert_string_equal(buf_text(&r.body), "/a");
    }
    buf_deinit(&r.body);
    return rc;
}

/* The same with an identity that is given up. */
static enum err_code get_once(struct tls_identity *id, const char *name)
{
    enum err_code rc = get(id, name);

    tls_identity_free(id);
    return rc;
}

static void http_with_an_identity_reaches_only_the_peer_that_it_names(void **state)
{
    (void)state;
    assert_int_equal(get(operator_id, WORKER), ERR_OK);
    assert_int_equal(get(operator_id, OTHER), ERR_DENIED);
}

static void http_trusts_no_other_ca_than_the_identity(void **state)
{
    (void)state;
    assert_int_equal(get_once(certificates_identity(&ours, &theirs, OPERATOR), WORKER), ERR_DENIED);
    assert_int_equal(get(operator_id, WORKER), ERR_OK);
}

/* The client is done with its handshake when it is refused: whether it sees the alert or the end of
 * the connection is chance. */
static void http_gets_no_answer_with_a_certificate_of_another_ca(void **state)
{
    (void)state;
    assert_int_not_equal(get_once(certificates_identity(&theirs, &ours, OPERATOR), WORKER), ERR_OK);
}

static void http_gets_no_answer_with_another_name(void **state)
{
    (void)state;
    assert_int_not_equal(get_once(certificates_identity(&ours, &ours, WORKER), WORKER), ERR_OK);
}

/* The server has another identity meanwhile, which only new connections see. */
static void http_reuses_a_connection_only_with_the_same_identity(void **state)
{
    struct tls_identity *renewed = certificates_identity(&theirs, &theirs, WORKER);
    struct tls_identity *old = certificates_identity(&ours, &ours, OPERATOR);

    (void)state;
    assert_int_equal(get(operator_id, WORKER), ERR_OK);
    assert_int_equal(server_renew(server, renewed, &err), ERR_OK);
    tls_identity_free(renewed);
    assert_int_equal(get(operator_id, WORKER), ERR_OK);
    assert_int_equal(get_once(old, WORKER), ERR_DENIED);
    assert_int_equal(get_once(certificates_identity(&theirs, &theirs, OPERATOR), WORKER), ERR_OK);
    assert_int_equal(get(operator_id, WORKER), ERR_OK);
}

static void http_reaches_a_server_that_has_come_back_under_its_port(void **state)
{
    int old_port = port;
    struct tls_identity *id = certificates_identity(&ours, &ours, WORKER);
    struct server_handler handler = {.on_request = greet, .identity = id, .client = OPERATOR};

    (void)state;
    assert_int_equal(get(operator_id, WORKER), ERR_OK);
    server_close(server);
    server = NULL;
    assert_int_equal(server_open("127.0.0.1", old_port, handler, &server, &err), ERR_OK);
    tls_identity_free(id);
    assert_int_equal(get(operator_id, WORKER), ERR_OK);
}

static void http_refuses_an_identity_beside_other_settings(void **state)
{
    struct http_request request = {.url = "https://" WORKER ":1/",
                                   .tls = {.identity = operator_id, .insecure = true}};
    struct http_response r = {0};

    (void)state;
    assert_int_equal(http_call(loop, &request, &r, &err), ERR_INVALID);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(http_with_an_identity_reaches_only_the_peer_that_it_names),
        TEST(http_trusts_no_other_ca_than_the_identity),
        TEST(http_gets_no_answer_with_a_certificate_of_another_ca),
        TEST(http_gets_no_answer_with_another_name),
        TEST(http_reuses_a_connection_only_with_the_same_identity),
        TEST(http_reaches_a_server_that_has_come_back_under_its_port),
        TEST(http_refuses_an_identity_beside_other_settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
