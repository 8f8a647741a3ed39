/* The Secret of who reads metrics, of an API server that answers what a test wants. */
#include "run/reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "secrets.h"
#include "suite.h"

#define NAME  "metrics-reader.skyjob.internal"
#define NOW_S ((int64_t)time(NULL))
#define PATH  "/api/v1/namespaces/sky/secrets"
#define OURS  "\"labels\":{\"app.kubernetes.io/component\":\"metrics-reader\"}"

static struct http *loop;
static struct loopback *server;
static struct kube_client *client;
static struct issuer *issuer;
static struct reader reader;
static struct authority_pair ca, other_ca;
static struct err err;

/* With a CA; then come the replies, of which there may be two. */
static void begin(struct loopback_reply first, struct loopback_reply second)
{
    struct loopback_reply replies[] = {
        {.expect = "GET " PATH "/ca ", .body = secret_of_ca(&ca)}, first, second};

    server = secrets_serve(replies, second.expect ? 3 : first.expect ? 2 : 1);
    secrets_connect(server, &loop, &client);
    assert_int_equal(issuer_new(client, "sky", "ca", &issuer, &err), ERR_OK);
    assert_int_equal(issuer_tend(issuer, true, 1000, NOW_S, &err), ERR_OK);
    reader =
        (struct reader){.client = client, .issuer = issuer, .namespace = "sky", .name = "reader"};
}

static int set_up(void **state)
{
    (void)state;
    ca = certificates_authority();
    other_ca = certificates_authority();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    issuer_free(issuer);
    kube_client_free(client);
    http_free(loop);
    secrets_stop(server);
    authority_pair_deinit(&ca);
    authority_pair_deinit(&other_ca);
    return 0;
}

static void tend(int64_t now_ms)
{
    if (reader_tend(&reader, now_ms, NOW_S, &err) != ERR_OK)
        fail_msg("%s", err.text);
}

/* The request of this number has the files of the reader, trusting and of the CA. */
static void check_sent(size_t i)
{
    const char *body = strstr(loopback_request(server, i), "\r\n\r\n");
    struct tls_identity *identity = NULL;
    struct json *secret = NULL;
    const struct json *texts;
    struct tls_end end;

    assert_non_null(body);
    assert_int_equal(json_parse(body + 4, strlen(body + 4), &secret, NULL), ERR_OK);
    texts = json_get(secret, "stringData");
    end = (struct tls_end){json_string(json_get(texts, "ca.crt"), ""),
                           json_string(json_get(texts, "tls.crt"), ""),
                           json_string(json_get(texts, "tls.key"), "")};
    assert_string_equal(end.ca, buf_text(&ca.certificate));
    assert_int_equal(tls_identity_new(&end, &identity, NULL), ERR_OK);
    assert_string_equal(tls_identity_name(identity), NAME);
    assert_string_equal(json_text(secret, "metadata.name"), "reader");
    tls_identity_free(identity);
    json_free(secret);
}

static void reader_gets_a_secret_when_there_is_none(void **state)
{
    (void)state;
    begin((struct loopback_reply){.expect = "GET " PATH "/reader ", .status = 404, .body = "{}"},
          (struct loopback_reply){.expect = "POST " PATH, .status = 201, .body = "{}"});
    tend(1000);
    check_sent(2);
    tend(1000 + ISSUER_LOOK_MS - 1); /* it is not looked at again so soon */
    assert_int_equal(loopback_strays(server), 0);
}

static struct row {
    const char *name;
    const struct authority_pair *trusts;
    int64_t valid_s;
    bool has_key;
    bool is_good;
} rows[] = {
    {"reader_whose_certificate_is_good_keeps_it", &ca, ISSUER_VALID_S, true, true},
    {"reader_gets_another_certificate_before_its_end", &ca, ISSUER_RENEW_S - 86400, true, false},
    {"reader_gets_another_certificate_when_the_ca_changes", &other_ca, ISSUER_VALID_S, true, false},
    {"reader_gets_a_key_that_is_missing", &ca, ISSUER_VALID_S, false, false},
};

static void check_row(void **state)
{
    const struct row *row = *state;
    struct authority_pair pair =
        certificates_pair(&ca, NAME, NOW_S + row->valid_s - CERTIFICATES_DAY_S);
    const struct secret_member members[] = {{"ca.crt", buf_text(&row->trusts->certificate)},
                                            {"tls.crt", buf_text(&pair.certificate)},
                                            {"tls.key", row->has_key ? buf_text(&pair.key) : NULL},
                                            {NULL, NULL}};

    begin((struct loopback_reply){.expect = "GET " PATH "/reader ",
                                  .body = secret_json("Opaque", OURS, members)},
          (struct loopback_reply){.expect = "PATCH " PATH "/reader?", .body = "{}"});
    tend(1000);
    if (!row->is_good)
        check_sent(2);
    assert_int_equal(loopback_unused(server), row->is_good);
    authority_pair_deinit(&pair);
}

static void reader_leaves_a_secret_alone_that_it_has_not_made(void **state)
{
    const char *foreign = secret_of_ca(&ca);

    (void)state;
    begin((struct loopback_reply){.expect = "GET " PATH "/reader ", .body = foreign},
          (struct loopback_reply){.expect = "GET " PATH "/reader ", .body = foreign});
    assert_int_equal(reader_tend(&reader, 1000, NOW_S, &err), ERR_CONFLICT);
    assert_non_null(strstr(err.text, "Secret sky/reader: it exists"));
    tend(1000 + ISSUER_RETRY_MS - 1);
    assert_int_equal(reader_tend(&reader, 1000 + ISSUER_RETRY_MS, NOW_S, &err), ERR_CONFLICT);
    assert_int_equal(loopback_strays(server), 0);
}

static void reader_without_a_name_is_none(void **state)
{
    (void)state;
    begin((struct loopback_reply){.expect = NULL}, (struct loopback_reply){.expect = NULL});
    reader.name = NULL;
    tend(1000);
    assert_int_equal(loopback_strays(server), 0);
}

int main(void)
{
    const struct CMUnitTest own[] = {
        cmocka_unit_test_setup_teardown(reader_gets_a_secret_when_there_is_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(reader_leaves_a_secret_alone_that_it_has_not_made, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(reader_without_a_name_is_none, set_up, tear_down),
    };
    struct suite suite = {.n = 0};

    SUITE_TESTS(&suite, own);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        suite_add(&suite,
                  (struct CMUnitTest){rows[i].name, check_row, set_up, tear_down, &rows[i]});
    return suite_run(&suite, "reader", NULL, NULL);
}
