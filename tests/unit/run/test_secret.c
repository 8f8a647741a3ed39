#include "run/secret.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The text "000102...1f" as base64. */
#define KEY_BASE64                                                                                 \
    "MDAwMTAyMDMwNDA1MDYwNzA4MDkwYTBiMGMwZDBlMGYxMDExMTIxMzE0MTUxNjE3MTgxOTFhMWIxYzFkMWUxZg=="
#define SECRET(uid, key)                                                                           \
    "{\"metadata\":{\"name\":\"mnli-key\",\"namespace\":\"team\",\"ownerReferences\":[{"           \
    "\"kind\":\"SkyJob\",\"apiVersion\":\"skyjob.dev/v1alpha1\",\"controller\":true,"              \
    "\"name\":\"mnli\",\"uid\":\"" uid "\"}]},\"data\":{\"key\":\"" key "\"}}"

static struct store store;

static int set_up(void **state)
{
    static const char job[] = "{\"metadata\":{\"name\":\"mnli\",\"namespace\":\"team\","
                              "\"uid\":\"u1\",\"resourceVersion\":\"1\"},\"spec\":{}}";
    struct json *object = NULL;

    (void)state;
    if (json_parse(job, sizeof job - 1, &object, NULL) != ERR_OK ||
        store_change_job(&store, KUBE_ADDED, object, NULL) != ERR_OK)
        return -1;
    json_free(object);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    store_deinit(&store);
    memset(&store, 0, sizeof store);
    return 0;
}

static enum err_code take(const char *text, struct err *err)
{
    struct json *object = NULL;
    enum err_code rc;

    assert_int_equal(json_parse(text, strlen(text), &object, NULL), ERR_OK);
    rc = secret_take(&store, KUBE_ADDED, object, err);
    json_free(object);
    return rc;
}

static void secret_gives_its_job_the_key(void **state)
{
    const struct store_job *job = store_find_job(&store, "team/mnli");

    (void)state;
    assert_false(job->has_secret);
    assert_int_equal(take(SECRET("u1", KEY_BASE64), NULL), ERR_OK);
    assert_true(job->has_secret);
    for (int i = 0; i < HMAC_BYTES; i++)
        assert_int_equal(job->secret.bytes[i], i);
}

static void secret_of_another_job_of_the_name_is_not_taken(void **state)
{
    (void)state;
    assert_int_equal(take(SECRET("u2", KEY_BASE64), NULL), ERR_OK);
    assert_false(store_find_job(&store, "team/mnli")->has_secret);
}

static void secret_without_a_key_is_an_error_that_quotes_nothing(void **state)
{
    static const char *const bad[] = {SECRET("u1", ""), SECRET("u1", "!!!!"),
                                      SECRET("u1", "c2VjcmV0"),
                                      SECRET("u1", KEY_BASE64 KEY_BASE64 KEY_BASE64)};
    struct err err;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(take(bad[i], &err), ERR_INVALID);
        assert_non_null(strstr(err.text, "mnli-key"));
        assert_null(strstr(err.text, "secret"));
    }
    assert_false(store_find_job(&store, "team/mnli")->has_secret);
}

static void secret_is_written_with_a_new_key_each_time(void **state)
{
    struct observed *seen = calloc(1, sizeof *seen);
    struct buf a = {.max = 4096};
    struct buf b = {.max = 4096};

    (void)state;
    assert_non_null(seen);
    strcpy(seen->name, "mnli");
    strcpy(seen->namespace, "team");
    strcpy(seen->uid, "u1");
    assert_int_equal(secret_write(seen, &a, NULL), ERR_OK);
    assert_int_equal(secret_write(seen, &b, NULL), ERR_OK);
    assert_string_not_equal(buf_text(&a), buf_text(&b));
    buf_deinit(&a);
    buf_deinit(&b);
    free(seen);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(secret_gives_its_job_the_key),
        TEST(secret_of_another_job_of_the_name_is_not_taken),
        TEST(secret_without_a_key_is_an_error_that_quotes_nothing),
        TEST(secret_is_written_with_a_new_key_each_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
