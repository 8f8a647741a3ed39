/* The CA of all jobs, in a Secret of an API server that answers what a test wants. */
#include "run/issuer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "secrets.h"

#define DAY_S 86400
#define NOW_S ((int64_t)time(NULL))
#define PATH  "/api/v1/namespaces/sky/secrets"

static struct http *loop;
static struct loopback *server;
static struct kube_client *client;
static struct issuer *issuer;
static struct authority_pair first, second;
static struct err err;

static void begin(const struct loopback_reply *replies, size_t n)
{
    server = secrets_serve(replies, n);
    secrets_connect(server, &loop, &client);
    assert_int_equal(issuer_new(client, "sky", "ca", &issuer, &err), ERR_OK);
}

static int set_up(void **state)
{
    (void)state;
    first = certificates_authority();
    second = certificates_authority();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    issuer_free(issuer);
    kube_client_free(client);
    http_free(loop);
    secrets_stop(server);
    authority_pair_deinit(&first);
    authority_pair_deinit(&second);
    return 0;
}

/* With `trusted` as its ca.crt; NULL: without. */
static const char *secret_of(const char *type, const struct authority_pair *ca, const char *trusted)
{
    const struct secret_member members[] = {{"tls.crt", buf_text(&ca->certificate)},
                                            {"tls.key", buf_text(&ca->key)},
                                            {"ca.crt", trusted},
                                            {NULL, NULL}};

    return secret_json(type, "\"resourceVersion\":\"7\"", members);
}

static void issuer_makes_a_ca_when_there_is_none(void **state)
{
    const char *made = secret_of("Opaque", &first, buf_text(&first.certificate));
    const struct loopback_reply replies[] = {
        {.expect = "GET " PATH "/ca ", .status = 404, .body = "{}"},
        {.expect = "POST " PATH, .status = 201, .body = made}};
    struct authority_pair pair = AUTHORITY_PAIR;

    (void)state;
    begin(replies, 2);
    assert_int_equal(issuer_generation(issuer), 0);
    assert_int_equal(issuer_issue(issuer, "a", NOW_S, &pair, &err), ERR_AGAIN);
    if (issuer_tend(issuer, true, 1000, NOW_S, &err) != ERR_OK)
        fail_msg("%s", err.text);
    assert_non_null(strstr(loopback_request(server, 1), "\"ca.crt\":\"-----BEGIN CERTIFICATE"));
    assert_non_null(strstr(loopback_request(server, 1), "\"tls.key\":\"-----BEGIN PRIVATE KEY"));
    assert_null(strstr(loopback_request(server, 1), "next"));
    assert_string_equal(issuer_trusted(issuer), buf_text(&first.certificate));
    assert_true(issuer_generation(issuer) != 0);
    assert_int_equal(issuer_issue(issuer, "a", NOW_S, &pair, &err), ERR_OK);
    /* It is not looked at again so soon. */
    assert_int_equal(issuer_tend(issuer, true, 1000 + ISSUER_LOOK_MS - 1, NOW_S, &err), ERR_OK);
    assert_int_equal(loopback_strays(server), 0);
    authority_pair_deinit(&pair);
}

static void issuer_goes_on_with_what_it_knows(void **state)
{
    const char *made = secret_of("Opaque", &first, buf_text(&first.certificate));
    const struct loopback_reply replies[] = {
        {.expect = "GET " PATH "/ca ", .body = made},
        {.expect = "GET " PATH "/ca ", .status = 500, .body = "{}"},
        {.expect = "GET " PATH "/ca ",
         .body = "{\"type\":\"Opaque\",\"data\":{\"ca.crt\":\"eA==\"}}"}};
    uint64_t generation;

    (void)state;
    begin(replies, 3);
    assert_int_equal(issuer_tend(issuer, true, 1000, NOW_S, &err), ERR_OK);
    generation = issuer_generation(issuer);
    assert_int_equal(issuer_tend(issuer, true, 100000, NOW_S, &err), ERR_IO);
    assert_int_equal(issuer_tend(issuer, true, 200000, NOW_S, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "Secret sky/ca"));
    assert_true(issuer_generation(issuer) == generation);
    assert_string_equal(issuer_trusted(issuer), buf_text(&first.certificate));
}

static void issuer_of_an_operator_that_does_not_lead_only_reads(void **state)
{
    int64_t late_s = NOW_S + AUTHORITY_VALID_S; /* when one that leads would make the next CA */
    const char *made = secret_of("Opaque", &first, buf_text(&first.certificate));
    const struct loopback_reply replies[] = {
        {.expect = "GET " PATH "/ca ", .status = 404, .body = "{}"},
        {.expect = "GET " PATH "/ca ", .body = made},
        {.expect = "GET " PATH "/ca ", .status = 403, .body = "{}"}};

    (void)state;
    begin(replies, 3);
    assert_int_equal(issuer_tend(issuer, false, 1000, late_s, &err), ERR_OK);
    assert_int_equal(issuer_generation(issuer), 0);
    assert_int_equal(issuer_tend(issuer, false, 1000 + ISSUER_RETRY_MS, late_s, &err), ERR_OK);
    assert_string_equal(issuer_trusted(issuer), buf_text(&first.certificate));
    assert_int_equal(issuer_tend(issuer, false, 100000, late_s, &err), ERR_DENIED);
    assert_int_equal(loopback_strays(server), 0);
}

static void issuer_of_an_operator_that_begins_to_lead_looks_at_once(void **state)
{
    const char *made = secret_of("Opaque", &first, buf_text(&first.certificate));
    const struct loopback_reply replies[] = {
        {.expect = "GET " PATH "/ca ", .status = 404, .body = "{}"},
        {.expect = "GET " PATH "/ca ", .status = 404, .body = "{}"},
        {.expect = "POST " PATH, .status = 201, .body = made}};

    (void)state;
    begin(replies, 3);
    assert_int_equal(issuer_tend(issuer, false, 1000, NOW_S, &err), ERR_OK);
    assert_int_equal(issuer_tend(issuer, false, 1001, NOW_S, &err), ERR_OK); /* not due */
    assert_int_equal(issuer_tend(issuer, true, 1002, NOW_S, &err), ERR_OK);
    assert_true(issuer_generation(issuer) != 0);
    assert_int_equal(issuer_tend(issuer, true, 1003, NOW_S, &err), ERR_OK); /* not due */
    assert_int_equal(loopback_strays(server), 0);
}

static void issuer_only_reads_the_secret_of_another_program(void **state)
{
    const char *made = secret_of("kubernetes.io/tls", &first, buf_text(&second.certificate));
    const struct loopback_reply replies[] = {{.expect = "GET " PATH "/ca ", .body = made}};

    (void)state;
    begin(replies, 1);
    /* Long after a CA of its own would have been replaced. */
    assert_int_equal(issuer_tend(issuer, true, 1000, NOW_S + AUTHORITY_VALID_S, &err), ERR_OK);
    assert_int_equal(loopback_strays(server), 0);
    assert_true(
        strncmp(issuer_trusted(issuer), buf_text(&first.certificate), first.certificate.len) == 0);
    assert_string_equal(issuer_trusted(issuer) + first.certificate.len,
                        buf_text(&second.certificate));
}

/* A CA that ends within a year gets a successor that is trusted, and does not issue yet. */
static void issuer_makes_the_next_ca_in_time(void **state)
{
    int64_t now_s = NOW_S + AUTHORITY_VALID_S - ISSUER_ROTATE_S + DAY_S;
    const char *made = secret_of("Opaque", &first, buf_text(&first.certificate));
    const struct loopback_reply replies[] = {{.expect = "GET " PATH "/ca ", .body = made},
                                             {.expect = "PATCH " PATH "/ca?", .body = made}};
    const char *sent;

    (void)state;
    begin(replies, 2);
    assert_int_equal(issuer_tend(issuer, true, 1000, now_s, &err), ERR_OK);
    sent = loopback_request(server, 1);
    assert_non_null(strstr(sent, "\"resourceVersion\":\"7\""));
    assert_non_null(strstr(sent, "\"next.crt\":\"-----BEGIN CERTIFICATE"));
    assert_non_null(strstr(sent, "\"next.key\":\"-----BEGIN PRIVATE KEY"));
    /* Two are trusted: four certificates in all. */
    for (int n = 0; n < 4; n++) {
        sent = strstr(sent, "BEGIN CERTIFICATE");
        assert_non_null(sent);
        sent++;
    }
    assert_null(strstr(sent, "BEGIN CERTIFICATE"));
}

static void issuer_lets_the_next_ca_issue_when_all_trust_it(void **state)
{
    const struct secret_member members[] = {
        {"ca.crt", "-----BEGIN CERTIFICATE-----x"}, {"tls.crt", buf_text(&first.certificate)},
        {"tls.key", buf_text(&first.key)},          {"next.crt", buf_text(&second.certificate)},
        {"next.key", buf_text(&second.key)},        {NULL, NULL}};
    const char *waiting = secret_json("Opaque", "\"resourceVersion\":\"7\"", members);
    const char *switched = secret_of("Opaque", &second, buf_text(&second.certificate));
    const struct loopback_reply replies[] = {{.expect = "GET " PATH "/ca ", .body = waiting},
                                             {.expect = "PATCH " PATH "/ca?", .body = switched}};
    const char *sent;

    (void)state;
    begin(replies, 2);
    assert_int_equal(issuer_tend(issuer, true, 1000, NOW_S + ISSUER_SPREAD_S + DAY_S, &err),
                     ERR_OK);
    sent = loopback_request(server, 1);
    assert_non_null(strstr(sent, "\"next.crt\":null"));
    assert_non_null(strstr(sent, "\"next.key\":null"));
    assert_string_equal(issuer_trusted(issuer), buf_text(&second.certificate));
}

static void issuer_keeps_an_identity_for_each_job(void **state)
{
    const char *made = secret_of("Opaque", &first, buf_text(&first.certificate));
    const char *other = secret_of("Opaque", &second, buf_text(&second.certificate));
    const struct loopback_reply replies[] = {{.expect = "GET " PATH "/ca ", .body = made},
                                             {.expect = "GET " PATH "/ca ", .body = other}};
    struct tls_identity *a, *b, *again;
    uint64_t number;

    (void)state;
    begin(replies, 2);
    assert_int_equal(issuer_tend(issuer, true, 1000, NOW_S, &err), ERR_OK);
    assert_int_equal(issuer_caller(issuer, "u1", NOW_S, &a, &err), ERR_OK);
    assert_int_equal(issuer_caller(issuer, "u2", NOW_S, &b, &err), ERR_OK);
    assert_string_equal(tls_identity_name(a), "operator.u1.skyjob.internal");
    assert_string_equal(tls_identity_name(b), "operator.u2.skyjob.internal");
    assert_int_equal(issuer_caller(issuer, "u1", NOW_S + DAY_S, &again, &err), ERR_OK);
    assert_ptr_equal(again, a);
    number = tls_identity_number(a);
    /* Another one when it ends, or the CA changes. */
    assert_int_equal(issuer_caller(issuer, "u1", NOW_S + ISSUER_VALID_S, &again, &err), ERR_OK);
    assert_true(tls_identity_number(again) != number);
    number = tls_identity_number(again);
    assert_int_equal(issuer_tend(issuer, true, 100000, NOW_S, &err), ERR_OK);
    assert_int_equal(issuer_caller(issuer, "u1", NOW_S + ISSUER_VALID_S, &again, &err), ERR_OK);
    assert_true(tls_identity_number(again) != number);
}

static void issuer_replaces_its_ca_in_phases(void **state)
{
    const int64_t until_s = AUTHORITY_VALID_S;
    int64_t next_s = until_s - ISSUER_ROTATE_S;
    int64_t later_s = next_s + ISSUER_SPREAD_S;

    (void)state;
    assert_int_equal(issuer_phase(0, 0, until_s, 0, false), ISSUER_STEADY);
    assert_int_equal(issuer_phase(next_s - 1, 0, until_s, 0, false), ISSUER_STEADY);
    assert_int_equal(issuer_phase(next_s, 0, until_s, 0, false), ISSUER_MAKE_NEXT);
    assert_int_equal(issuer_phase(later_s - 1, 0, until_s, next_s, true), ISSUER_STEADY);
    assert_int_equal(issuer_phase(later_s, 0, until_s, next_s, true), ISSUER_SWITCH);
    assert_int_equal(issuer_phase(later_s, next_s, next_s + until_s, 0, true), ISSUER_STEADY);
    later_s += ISSUER_SPREAD_S;
    assert_int_equal(issuer_phase(later_s, next_s, next_s + until_s, 0, true), ISSUER_DROP);
    assert_int_equal(issuer_phase(later_s, next_s, next_s + until_s, 0, false), ISSUER_STEADY);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(issuer_makes_a_ca_when_there_is_none),
        TEST(issuer_goes_on_with_what_it_knows),
        TEST(issuer_of_an_operator_that_does_not_lead_only_reads),
        TEST(issuer_of_an_operator_that_begins_to_lead_looks_at_once),
        TEST(issuer_only_reads_the_secret_of_another_program),
        TEST(issuer_makes_the_next_ca_in_time),
        TEST(issuer_lets_the_next_ca_issue_when_all_trust_it),
        TEST(issuer_keeps_an_identity_for_each_job),
        cmocka_unit_test(issuer_replaces_its_ca_in_phases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
