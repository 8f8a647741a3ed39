/* Handshakes in memory, with certificates of two CAs. */
#include "tls/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "certificates.h"
#include "scratch.h"

#define NOW_S   ((int64_t)time(NULL))
#define A_DAY_S CERTIFICATES_DAY_S
#define WORKER  "w0-1.a.skyjob.internal"
#define OTHER   "w0-2.a.skyjob.internal"

static struct authority_pair ours, theirs; /* two CAs */
static struct err err;

static struct tls_identity *worker(void)
{
    return certificates_identity(&ours, &ours, WORKER);
}

static SSL *end_of(SSL_CTX *context, bool is_server)
{
    SSL *ssl = SSL_new(context);

    assert_non_null(ssl);
    if (is_server)
        SSL_set_accept_state(ssl);
    else
        SSL_set_connect_state(ssl);
    return ssl;
}

/* Both ends of a handshake over memory, with contexts that are given up; true when both are done.
 */
static bool shake(SSL_CTX *at_client, SSL_CTX *at_server, SSL **out_client, SSL **out_server)
{
    SSL *client = end_of(at_client, false), *server = end_of(at_server, true);
    BIO *left = NULL, *right = NULL;
    bool is_done;

    assert_int_equal(BIO_new_bio_pair(&left, 1 << 15, &right, 1 << 15), 1);
    SSL_set_bio(client, left, left);
    SSL_set_bio(server, right, right);
    for (int i = 0; i < 8; i++) {
        (void)SSL_do_handshake(client);
        (void)SSL_do_handshake(server);
    }
    is_done = SSL_is_init_finished(client) && SSL_is_init_finished(server);
    ERR_clear_error();
    SSL_CTX_free(at_client);
    SSL_CTX_free(at_server);
    *out_client = client;
    *out_server = server;
    return is_done;
}

static SSL_CTX *context(const struct tls_identity *id, enum tls_role role)
{
    SSL_CTX *out = NULL;

    assert_int_equal(tls_context_new(id, role, &out, &err), ERR_OK);
    return out;
}

/* Do a client and a server with these identities, which are given up, agree? */
static bool agree(struct tls_identity *client, struct tls_identity *server)
{
    SSL *at_client, *at_server;
    bool is_done =
        shake(context(client, TLS_CLIENT), context(server, TLS_SERVER), &at_client, &at_server);

    SSL_free(at_client);
    SSL_free(at_server);
    tls_identity_free(client);
    tls_identity_free(server);
    return is_done;
}

static void tls_is_1_3_with_the_fast_suite_between_two_ends_of_a_ca(void **state)
{
    struct tls_identity *id = worker();
    SSL *client, *server;

    (void)state;
    assert_true(shake(context(id, TLS_CLIENT), context(id, TLS_SERVER), &client, &server));
    tls_identity_free(id); /* connections do not need it any more */
    assert_int_equal(SSL_version(client), TLS1_3_VERSION);
    assert_string_equal(SSL_get_cipher(client), "TLS_AES_128_GCM_SHA256");
    assert_true(tls_peer_is(client, WORKER));
    assert_true(tls_peer_is(server, WORKER));
    assert_false(tls_peer_is(server, OTHER));
    assert_false(tls_peer_is(server, "w0-1.a.skyjob.interna"));
    assert_false(tls_peer_is(server, WORKER "x"));
    assert_false(tls_peer_is(server, ""));
    SSL_free(client);
    SSL_free(server);
}

static void tls_resumes_nothing(void **state)
{
    struct tls_identity *id = worker();
    SSL *client, *server;
    char byte;

    (void)state;
    assert_true(shake(context(id, TLS_CLIENT), context(id, TLS_SERVER), &client, &server));
    assert_int_equal(SSL_write(server, "x", 1), 1);
    assert_int_equal(SSL_read(client, &byte, 1), 1);
    assert_false(SSL_SESSION_is_resumable(SSL_get_session(client)));
    tls_identity_free(id);
    SSL_free(client);
    SSL_free(server);
}

static void tls_refuses_a_peer_of_another_ca_on_either_end(void **state)
{
    const char *trusted = buf_text(&ours.certificate);

    (void)state;
    assert_true(agree(worker(), worker()));
    assert_false(agree(certificates_at(&theirs, trusted, WORKER, NOW_S), worker()));
    assert_false(agree(worker(), certificates_at(&theirs, trusted, WORKER, NOW_S)));
}

static void tls_identity_like_another_one_trusts_the_same_ca_and_no_other(void **state)
{
    struct authority_pair pair = certificates_pair(&ours, WORKER, NOW_S);
    struct tls_end end = {.certificate = buf_text(&pair.certificate), .key = buf_text(&pair.key)};
    struct tls_identity *id, *first = worker();

    (void)state;
    assert_int_equal(tls_identity_new_like(first, &end, &id, &err), ERR_OK);
    tls_identity_free(first);
    assert_true(agree(tls_identity_share(id), worker()));
    assert_false(agree(id, certificates_at(&theirs, buf_text(&ours.certificate), WORKER, NOW_S)));
    authority_pair_deinit(&pair);
}

static void tls_trusts_two_cas_while_one_replaces_the_other(void **state)
{
    struct buf both = {.max = AUTHORITY_PEM_MAX_BYTES};

    (void)state;
    assert_int_equal(
        buf_addf(&both, &err, "%s%s", buf_text(&ours.certificate), buf_text(&theirs.certificate)),
        ERR_OK);
    assert_true(agree(certificates_at(&ours, buf_text(&both), WORKER, NOW_S),
                      certificates_at(&theirs, buf_text(&both), OTHER, NOW_S)));
    buf_deinit(&both);
}

static void tls_refuses_a_certificate_that_has_ended_or_not_begun(void **state)
{
    const char *trusted = buf_text(&ours.certificate);

    (void)state;
    assert_false(agree(certificates_at(&ours, trusted, WORKER, NOW_S - 4 * A_DAY_S), worker()));
    assert_false(agree(certificates_at(&ours, trusted, WORKER, NOW_S + A_DAY_S), worker()));
}

static void tls_allows_for_clocks_that_differ_by_an_hour(void **state)
{
    const char *trusted = buf_text(&ours.certificate);

    (void)state;
    assert_true(agree(certificates_at(&ours, trusted, WORKER, NOW_S + 3600), worker()));
    assert_true(agree(certificates_at(&ours, trusted, WORKER, NOW_S - A_DAY_S - 3600), worker()));
}

static void tls_refuses_a_client_without_a_certificate(void **state)
{
    struct tls_identity *id = worker();
    SSL_CTX *bare = SSL_CTX_new(TLS_client_method());
    SSL *client, *server;

    (void)state;
    assert_false(shake(bare, context(id, TLS_SERVER), &client, &server));
    assert_false(tls_peer_is(server, WORKER));
    SSL_free(client);
    SSL_free(server);
    tls_identity_free(id);
}

static void tls_open_server_admits_a_client_without_a_certificate(void **state)
{
    struct tls_identity *id = worker();
    SSL_CTX *bare = SSL_CTX_new(TLS_client_method());
    SSL *client, *server;

    (void)state;
    assert_true(shake(bare, context(id, TLS_OPEN_SERVER), &client, &server));
    assert_false(tls_peer_is(server, WORKER));
    assert_false(tls_peer_is(server, ""));
    SSL_free(client);
    SSL_free(server);
    tls_identity_free(id);
}

/* It still shows its own, which a client may check, and one that has a certificate does. */
static void tls_open_server_asks_no_client_for_a_certificate(void **state)
{
    struct tls_identity *id = worker();
    SSL *client, *server;

    (void)state;
    assert_true(shake(context(id, TLS_CLIENT), context(id, TLS_OPEN_SERVER), &client, &server));
    assert_true(tls_peer_is(client, WORKER));
    assert_false(tls_peer_is(server, WORKER));
    SSL_free(client);
    SSL_free(server);
    tls_identity_free(id);
}

static void tls_refuses_older_versions(void **state)
{
    static const enum tls_role roles[] = {TLS_SERVER, TLS_OPEN_SERVER};
    struct tls_identity *id = worker();
    SSL *client, *server;

    (void)state;
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        SSL_CTX *old = context(id, TLS_CLIENT);

        assert_int_equal(SSL_CTX_set_min_proto_version(old, TLS1_2_VERSION), 1);
        assert_int_equal(SSL_CTX_set_max_proto_version(old, TLS1_2_VERSION), 1);
        assert_false(shake(old, context(id, roles[i]), &client, &server));
        SSL_free(client);
        SSL_free(server);
    }
    tls_identity_free(id);
}

static void tls_identities_have_numbers_of_their_own(void **state)
{
    struct tls_identity *a = worker(), *b = worker();

    (void)state;
    assert_true(tls_identity_number(a) != tls_identity_number(b));
    assert_string_equal(tls_identity_name(a), WORKER);
    assert_ptr_equal(tls_identity_share(a), a);
    tls_identity_free(a);
    assert_true(tls_identity_number(a) > 0); /* one owner is left */
    tls_identity_free(a);
    tls_identity_free(b);
    tls_identity_free(NULL);
    assert_null(tls_identity_share(NULL));
}

static void tls_identity_is_refused_when_a_text_cannot_be_used(void **state)
{
    struct authority_pair one = certificates_pair(&ours, WORKER, NOW_S);
    struct authority_pair two = certificates_pair(&ours, WORKER, NOW_S);
    const char *trusted = buf_text(&ours.certificate);
    struct tls_identity *id = NULL;

    (void)state;
    const struct tls_end ends[] = {
        {"", buf_text(&one.certificate), buf_text(&one.key)},
        {trusted, "", buf_text(&one.key)},
        {trusted, buf_text(&one.certificate), ""},
        {trusted, buf_text(&one.certificate), buf_text(&two.key)},
        {trusted, buf_text(&one.certificate), buf_text(&one.certificate)},
        {buf_text(&one.key), buf_text(&one.certificate), buf_text(&one.key)},
        {trusted, trusted, buf_text(&ours.key)}, /* without a name */
    };
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        assert_int_equal(tls_identity_new(&ends[i], &id, &err), ERR_INVALID);
        assert_null(id);
        assert_null(strstr(err.text, "BEGIN"));
    }
    authority_pair_deinit(&one);
    authority_pair_deinit(&two);
}

static int set_up(void **state)
{
    (void)state;
    ours = certificates_authority();
    theirs = certificates_authority();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    authority_pair_deinit(&ours);
    authority_pair_deinit(&theirs);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tls_is_1_3_with_the_fast_suite_between_two_ends_of_a_ca),
        cmocka_unit_test(tls_resumes_nothing),
        cmocka_unit_test(tls_refuses_a_peer_of_another_ca_on_either_end),
        cmocka_unit_test(tls_identity_like_another_one_trusts_the_same_ca_and_no_other),
        cmocka_unit_test(tls_trusts_two_cas_while_one_replaces_the_other),
        cmocka_unit_test(tls_refuses_a_certificate_that_has_ended_or_not_begun),
        cmocka_unit_test(tls_allows_for_clocks_that_differ_by_an_hour),
        cmocka_unit_test(tls_refuses_a_client_without_a_certificate),
        cmocka_unit_test(tls_open_server_admits_a_client_without_a_certificate),
        cmocka_unit_test(tls_open_server_asks_no_client_for_a_certificate),
        cmocka_unit_test(tls_refuses_older_versions),
        cmocka_unit_test(tls_identities_have_numbers_of_their_own),
        cmocka_unit_test(tls_identity_is_refused_when_a_text_cannot_be_used),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
