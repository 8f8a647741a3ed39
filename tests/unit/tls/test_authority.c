#include "tls/authority.h"

#include "certificates.h"
#include "scratch.h"

#define NOW_S   ((int64_t)time(NULL))
#define A_DAY_S 86400
#define WORKER  "w0-1.a.skyjob.internal"

static struct authority_pair ours, theirs; /* two CAs */
static struct err err;

static struct authority *parse(const struct authority_pair *ca)
{
    struct authority *a = NULL;

    assert_int_equal(authority_parse(buf_text(&ca->certificate), buf_text(&ca->key), &a, &err),
                     ERR_OK);
    return a;
}

static void authority_is_never_that_of_an_end(void **state)
{
    struct authority *ca = parse(&ours);
    struct authority_pair pair = AUTHORITY_PAIR;
    struct authority *none = NULL;

    (void)state;
    assert_int_equal(authority_issue(ca, WORKER, NOW_S, A_DAY_S, &pair, &err), ERR_OK);
    assert_int_equal(authority_parse(buf_text(&pair.certificate), buf_text(&pair.key), &none, &err),
                     ERR_INVALID);
    assert_null(none);
    authority_pair_deinit(&pair);
    authority_free(ca);
}

static void authority_refuses_names_that_are_none(void **state)
{
    static const char *const names[] = {"", "a,DNS:b", "*.skyjob.internal", "A", "a b", "a\n"};
    struct authority *ca = parse(&ours);
    struct authority_pair pair = AUTHORITY_PAIR;

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_int_equal(authority_issue(ca, names[i], NOW_S, A_DAY_S, &pair, &err), ERR_INVALID);
    assert_int_equal(pair.certificate.len, 0);
    authority_free(ca);
}

static void authority_reads_only_its_own_key(void **state)
{
    struct authority *ca = NULL;

    (void)state;
    assert_int_equal(authority_parse(buf_text(&ours.certificate), buf_text(&theirs.key), &ca, &err),
                     ERR_INVALID);
    assert_int_equal(authority_parse("", buf_text(&ours.key), &ca, &err), ERR_INVALID);
    assert_int_equal(authority_parse(buf_text(&ours.certificate), "", &ca, &err), ERR_INVALID);
    assert_null(ca);
    authority_free(NULL);
}

static void authority_knows_from_when_until_when_a_certificate_is(void **state)
{
    struct authority *ca = parse(&ours);
    struct authority_pair pair = AUTHORITY_PAIR;
    int64_t from_s = 0, until_s = 0;

    (void)state;
    assert_int_equal(authority_issue(ca, WORKER, 1800000000, A_DAY_S, &pair, &err), ERR_OK);
    assert_int_equal(authority_times(buf_text(&pair.certificate), &from_s, &until_s, &err), ERR_OK);
    assert_int_equal(from_s, 1800000000);
    assert_int_equal(until_s, 1800000000 + A_DAY_S);
    assert_int_equal(authority_times("none", &from_s, &until_s, &err), ERR_INVALID);
    authority_pair_deinit(&pair);
    authority_free(ca);
}

static void authority_writes_both_texts_or_none(void **state)
{
    struct authority_pair pair = {.certificate = {.max = AUTHORITY_PEM_MAX_BYTES}};

    (void)state;
    assert_int_equal(authority_make(NOW_S, &pair, &err), ERR_LIMIT);
    assert_int_equal(pair.certificate.len, 0);
    authority_pair_deinit(&pair);
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
        cmocka_unit_test(authority_is_never_that_of_an_end),
        cmocka_unit_test(authority_refuses_names_that_are_none),
        cmocka_unit_test(authority_reads_only_its_own_key),
        cmocka_unit_test(authority_knows_from_when_until_when_a_certificate_is),
        cmocka_unit_test(authority_writes_both_texts_or_none),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
