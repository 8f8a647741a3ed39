#include "run/reviews.h"

#include <string.h>

#include "suite.h"

#define NOW_MS INT64_C(1000)

static struct err err;

/* --- headers --- */

static struct header_row {
    const char *name;
    const char *header;
    const char *token; /* NULL: there is none */
} header_rows[] = {
    {"a_bearer_token_is_found", "Bearer abc.d-e_f~+/=", "abc.d-e_f~+/="},
    {"the_case_of_the_scheme_does_not_count", "bEARER abc", "abc"},
    {"more_blanks_may_precede_a_token", "Bearer   abc", "abc"},
    {"no_header_has_no_token", "", NULL},
    {"another_scheme_has_no_token", "Basic YTpi", NULL},
    {"a_scheme_that_only_begins_alike_has_no_token", "Bearerabc", NULL},
    {"a_scheme_alone_has_no_token", "Bearer", NULL},
    {"a_scheme_with_blanks_has_no_token", "Bearer   ", NULL},
    {"two_words_are_no_token", "Bearer abc def", NULL},
    {"a_tab_is_in_no_token", "Bearer abc\tdef", NULL},
    {"what_is_not_ascii_is_in_no_token", "Bearer ab\xc3\xa4", NULL},
    {"what_does_not_print_is_in_no_token", "Bearer ab\x7f", NULL},
};

static void check_header(void **state)
{
    const struct header_row *row = *state;
    const char *token = reviews_token(row->header);

    if (row->token) {
        assert_non_null(token);
        assert_string_equal(token, row->token);
    } else {
        assert_null(token);
    }
}

static void a_token_that_is_too_long_is_none(void **state)
{
    char header[REVIEWS_TOKEN_MAX_BYTES + 16];

    (void)state;
    memset(header, 'a', sizeof header);
    memcpy(header, "Bearer ", 7);
    header[7 + REVIEWS_TOKEN_MAX_BYTES - 1] = '\0';
    assert_non_null(reviews_token(header));
    header[7 + REVIEWS_TOKEN_MAX_BYTES - 1] = 'a';
    header[7 + REVIEWS_TOKEN_MAX_BYTES] = '\0';
    assert_null(reviews_token(header));
}

/* --- questions --- */

static void a_token_review_has_the_token(void **state)
{
    struct buf out = {.max = REVIEWS_BODY_MAX_BYTES};

    (void)state;
    assert_int_equal(reviews_write_token("a\"b", &out, &err), ERR_OK);
    assert_string_equal(out.data, "{\"apiVersion\":\"authentication.k8s.io/v1\","
                                  "\"kind\":\"TokenReview\",\"spec\":{\"token\":\"a\\\"b\"}}");
    buf_deinit(&out);
}

static struct json *parse(const char *text)
{
    struct json *out = NULL;

    assert_int_equal(json_parse_tolerant(text, strlen(text), &out, &err), ERR_OK);
    return out;
}

static void write_access(const char *user, const char *spec)
{
    struct buf out = {.max = REVIEWS_BODY_MAX_BYTES};
    struct json *parsed = parse(user), *written, *expected = parse(spec);

    assert_int_equal(reviews_write_access(parsed, "/metrics", &out, &err), ERR_OK);
    written = parse(buf_text(&out));
    assert_string_equal(json_text(written, "kind"), "SubjectAccessReview");
    assert_true(json_equal(json_get(written, "spec"), expected));
    json_free(parsed);
    json_free(written);
    json_free(expected);
    buf_deinit(&out);
}

static void an_access_review_has_all_of_the_user(void **state)
{
    (void)state;
    write_access("{\"username\":\"u\",\"uid\":\"1\",\"groups\":[\"g\",\"h\"],"
                 "\"extra\":{\"a/b\":[\"c\"]},\"more\":1}",
                 "{\"user\":\"u\",\"uid\":\"1\",\"groups\":[\"g\",\"h\"],"
                 "\"extra\":{\"a/b\":[\"c\"]},"
                 "\"nonResourceAttributes\":{\"path\":\"/metrics\",\"verb\":\"get\"}}");
    write_access("{\"username\":\"u\",\"groups\":null}",
                 "{\"user\":\"u\","
                 "\"nonResourceAttributes\":{\"path\":\"/metrics\",\"verb\":\"get\"}}");
}

static void an_access_review_that_is_too_large_is_refused(void **state)
{
    struct buf out = {.max = 100};
    struct json *user = parse("{\"username\":\"u\",\"groups\":[\"g\"]}");

    (void)state;
    assert_int_equal(reviews_write_access(user, "/metrics", &out, &err), ERR_LIMIT);
    json_free(user);
    buf_deinit(&out);
}

/* --- answers --- */

static struct token_row {
    const char *name;
    const char *answer;
    enum err_code rc;
    const char *user; /* NULL: the token is nobody's */
} token_rows[] = {
    {"a_token_that_is_authenticated_is_the_users",
     "{\"status\":{\"authenticated\":true,\"user\":{\"username\":\"u\"}}}", ERR_OK, "u"},
    {"a_token_is_nobodys_when_authenticated_is_false",
     "{\"status\":{\"authenticated\":false,\"user\":{\"username\":\"u\"}}}", ERR_OK, NULL},
    {"a_token_is_nobodys_when_authenticated_is_absent", "{\"status\":{\"user\":{}}}", ERR_OK, NULL},
    {"a_token_is_nobodys_when_there_was_an_error",
     "{\"status\":{\"authenticated\":true,\"error\":\"expired\",\"user\":{\"username\":\"u\"}}}",
     ERR_OK, NULL},
    {"an_error_that_is_no_text_is_one",
     "{\"status\":{\"authenticated\":true,\"error\":[],\"user\":{\"username\":\"u\"}}}", ERR_OK,
     NULL},
    {"an_error_that_is_empty_is_none",
     "{\"status\":{\"authenticated\":true,\"error\":\"\",\"user\":{\"username\":\"u\"}}}", ERR_OK,
     "u"},
    {"a_token_review_without_a_status_says_nothing", "{\"spec\":{}}", ERR_PROTOCOL, NULL},
    {"a_token_review_whose_status_is_a_list_says_nothing", "{\"status\":[true]}", ERR_PROTOCOL,
     NULL},
    {"a_token_review_that_is_no_object_says_nothing", "[]", ERR_PROTOCOL, NULL},
    {"authenticated_as_a_text_says_nothing",
     "{\"status\":{\"authenticated\":\"true\",\"user\":{\"username\":\"u\"}}}", ERR_PROTOCOL, NULL},
    {"authenticated_as_a_number_says_nothing",
     "{\"status\":{\"authenticated\":1,\"user\":{\"username\":\"u\"}}}", ERR_PROTOCOL, NULL},
    {"a_token_of_no_user_says_nothing", "{\"status\":{\"authenticated\":true}}", ERR_PROTOCOL,
     NULL},
    {"a_user_without_a_name_says_nothing",
     "{\"status\":{\"authenticated\":true,\"user\":{\"groups\":[\"system:masters\"]}}}",
     ERR_PROTOCOL, NULL},
    {"a_user_whose_name_is_a_list_says_nothing",
     "{\"status\":{\"authenticated\":true,\"user\":{\"username\":[\"u\"]}}}", ERR_PROTOCOL, NULL},
    {"a_user_that_is_a_text_says_nothing", "{\"status\":{\"authenticated\":true,\"user\":\"u\"}}",
     ERR_PROTOCOL, NULL},
};

static void check_token(void **state)
{
    const struct token_row *row = *state;
    struct json *answer = parse(row->answer);
    const struct json *user = answer; /* untouched on failure */

    assert_int_equal(reviews_read_token(answer, &user, &err), row->rc);
    if (row->rc != ERR_OK)
        assert_ptr_equal(user, answer);
    else if (!row->user)
        assert_null(user);
    else
        assert_string_equal(json_text(user, "username"), row->user);
    json_free(answer);
}

static struct access_row {
    const char *name;
    const char *answer;
    enum err_code rc;
    bool may;
} access_rows[] = {
    {"a_user_may_who_is_allowed", "{\"status\":{\"allowed\":true}}", ERR_OK, true},
    {"a_user_may_not_who_is_not_allowed", "{\"status\":{\"allowed\":false,\"reason\":\"no rule\"}}",
     ERR_OK, false},
    {"a_user_may_not_who_is_denied", "{\"status\":{\"allowed\":false,\"denied\":true}}", ERR_OK,
     false},
    {"denied_counts_more_than_allowed", "{\"status\":{\"allowed\":true,\"denied\":true}}", ERR_OK,
     false},
    {"a_user_may_not_of_whom_nothing_is_said", "{\"status\":{}}", ERR_OK, false},
    {"an_access_review_without_a_status_says_nothing", "{\"allowed\":true}", ERR_PROTOCOL, false},
    {"an_access_review_whose_status_is_true_says_nothing", "{\"status\":true}", ERR_PROTOCOL,
     false},
    {"allowed_as_a_text_says_nothing", "{\"status\":{\"allowed\":\"true\"}}", ERR_PROTOCOL, false},
    {"denied_as_a_text_says_nothing", "{\"status\":{\"allowed\":true,\"denied\":\"no\"}}",
     ERR_PROTOCOL, false},
};

static void check_access(void **state)
{
    const struct access_row *row = *state;
    struct json *answer = parse(row->answer);
    bool may = false;

    assert_int_equal(reviews_read_access(answer, &may, &err), row->rc);
    assert_int_equal(may, row->may);
    json_free(answer);
}

/* --- verdicts --- */

static struct reviews reviews;

/* A key of its own for each number from 1. */
static const uint8_t *key(int n)
{
    static uint8_t bytes[HMAC_BYTES];

    memcpy(bytes, &n, sizeof n);
    return bytes;
}

static int forget(void **state)
{
    (void)state;
    reviews_init(&reviews);
    return 0;
}

static void an_unknown_token_is_asked_about(void **state)
{
    (void)state;
    assert_int_equal(reviews_find(&reviews, key(1), NOW_MS), REVIEWS_ASK);
}

static void verdicts_count_for_their_time(void **state)
{
    static const struct {
        enum reviews_verdict verdict;
        int64_t ms;
    } rows[] = {{REVIEWS_ALLOWED, REVIEWS_ALLOWED_MS},
                {REVIEWS_UNKNOWN, REVIEWS_REFUSED_MS},
                {REVIEWS_FORBIDDEN, REVIEWS_REFUSED_MS}};

    (void)state;
    for (int i = 0; i < 3; i++)
        reviews_put(&reviews, key(i + 1), rows[i].verdict, NOW_MS);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(reviews_find(&reviews, key(i + 1), NOW_MS), rows[i].verdict);
        assert_int_equal(reviews_find(&reviews, key(i + 1), NOW_MS + rows[i].ms - 1),
                         rows[i].verdict);
        assert_int_equal(reviews_find(&reviews, key(i + 1), NOW_MS + rows[i].ms), REVIEWS_ASK);
    }
}

static void a_new_verdict_replaces_the_old_one(void **state)
{
    (void)state;
    reviews_put(&reviews, key(1), REVIEWS_ALLOWED, NOW_MS);
    reviews_put(&reviews, key(1), REVIEWS_FORBIDDEN, NOW_MS + 1);
    assert_int_equal(reviews_find(&reviews, key(1), NOW_MS + 2), REVIEWS_FORBIDDEN);
    assert_int_equal(reviews_find(&reviews, key(1), NOW_MS + 1 + REVIEWS_REFUSED_MS), REVIEWS_ASK);
}

static void a_flood_of_tokens_becomes_no_flood_of_calls(void **state)
{
    int n_asked = 0;

    (void)state;
    for (int i = 0; i < 10000; i++) /* in ten seconds */
        if (reviews_find(&reviews, key(i + 1), NOW_MS + i) == REVIEWS_ASK) {
            reviews_put(&reviews, key(i + 1), REVIEWS_UNKNOWN, NOW_MS + i);
            n_asked++;
        }
    assert_int_equal(n_asked, REVIEWS_BURST + 9999 / REVIEWS_REFILL_MS);
    assert_int_equal(reviews_find(&reviews, key(20000), NOW_MS + 9999), REVIEWS_LATER);
}

static void strangers_do_not_keep_out_who_was_allowed(void **state)
{
    int64_t later_ms = NOW_MS + REVIEWS_ALLOWED_MS;

    (void)state;
    reviews_put(&reviews, key(1), REVIEWS_ALLOWED, NOW_MS);
    for (int i = 0; i < REVIEWS_BURST; i++)
        assert_int_equal(reviews_find(&reviews, key(2 + i), later_ms), REVIEWS_ASK);
    assert_int_equal(reviews_find(&reviews, key(99), later_ms), REVIEWS_LATER);
    assert_int_equal(reviews_find(&reviews, key(1), later_ms), REVIEWS_ASK);
    /* As soon as it is refused, it is a stranger's. */
    reviews_put(&reviews, key(1), REVIEWS_UNKNOWN, later_ms - REVIEWS_REFUSED_MS);
    assert_int_equal(reviews_find(&reviews, key(1), later_ms), REVIEWS_LATER);
}

static void after_a_failed_call_only_what_is_known_counts(void **state)
{
    (void)state;
    reviews_put(&reviews, key(1), REVIEWS_ALLOWED, NOW_MS);
    reviews_put(&reviews, key(2), REVIEWS_ALLOWED, NOW_MS - REVIEWS_ALLOWED_MS);
    reviews_pause(&reviews, NOW_MS);
    assert_int_equal(reviews_find(&reviews, key(1), NOW_MS), REVIEWS_ALLOWED);
    assert_int_equal(reviews_find(&reviews, key(2), NOW_MS), REVIEWS_LATER);
    assert_int_equal(reviews_find(&reviews, key(3), NOW_MS + REVIEWS_PAUSE_MS - 1), REVIEWS_LATER);
    assert_int_equal(reviews_find(&reviews, key(2), NOW_MS + REVIEWS_PAUSE_MS), REVIEWS_ASK);
    assert_int_equal(reviews_find(&reviews, key(3), NOW_MS + REVIEWS_PAUSE_MS), REVIEWS_ASK);
}

/* First that of a stranger whose time ends first, at last that of a reader. */
static void a_full_cache_forgets_strangers_first(void **state)
{
    (void)state;
    reviews_put(&reviews, key(1), REVIEWS_ALLOWED, NOW_MS - 1);
    reviews_put(&reviews, key(2), REVIEWS_ALLOWED, NOW_MS);
    for (int i = 3; i <= REVIEWS_MAX; i++)
        reviews_put(&reviews, key(i), REVIEWS_UNKNOWN, NOW_MS + i);
    reviews_put(&reviews, key(1000), REVIEWS_FORBIDDEN, NOW_MS + 1000);
    assert_int_equal(reviews_find(&reviews, key(3), NOW_MS + 1000), REVIEWS_ASK);
    assert_int_equal(reviews_find(&reviews, key(4), NOW_MS + 1000), REVIEWS_UNKNOWN);
    assert_int_equal(reviews_find(&reviews, key(1000), NOW_MS + 1000), REVIEWS_FORBIDDEN);
    for (int i = 0; i < 1000; i++)
        reviews_put(&reviews, key(2000 + i), REVIEWS_UNKNOWN, NOW_MS + 1000);
    assert_int_equal(reviews_find(&reviews, key(1), NOW_MS + 1000), REVIEWS_ALLOWED);
    for (int i = 0; i < REVIEWS_MAX - 1; i++)
        reviews_put(&reviews, key(5000 + i), REVIEWS_ALLOWED, NOW_MS + 1000);
    assert_int_equal(reviews_find(&reviews, key(1), NOW_MS + 1000), REVIEWS_ASK);
    assert_int_equal(reviews_find(&reviews, key(2), NOW_MS + 1000), REVIEWS_ALLOWED);
}

#define CACHE(test) cmocka_unit_test_setup(test, forget)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_that_is_too_long_is_none),
        cmocka_unit_test(a_token_review_has_the_token),
        cmocka_unit_test(an_access_review_has_all_of_the_user),
        cmocka_unit_test(an_access_review_that_is_too_large_is_refused),
        CACHE(an_unknown_token_is_asked_about),
        CACHE(verdicts_count_for_their_time),
        CACHE(a_new_verdict_replaces_the_old_one),
        CACHE(a_flood_of_tokens_becomes_no_flood_of_calls),
        CACHE(strangers_do_not_keep_out_who_was_allowed),
        CACHE(after_a_failed_call_only_what_is_known_counts),
        CACHE(a_full_cache_forgets_strangers_first),
    };
    struct suite suite = {.n = 0};

    SUITE_TESTS(&suite, tests);
    SUITE_ROWS(&suite, header_rows, check_header);
    SUITE_ROWS(&suite, token_rows, check_token);
    SUITE_ROWS(&suite, access_rows, check_access);
    return suite_run(&suite, "reviews", NULL, NULL);
}
