/* What an S3 server may answer that a real one does not on demand. The rest is tested with a real
 * one: tests/integration/test_bucket.c. */
#include "http/s3.h"

#include <string.h>

#include "base/file.h"
#include "loopback.h"
#include "scratch.h"
#include "suite.h"

static struct loopback *server;
static struct s3 *s3;
static struct err err;
static char endpoint[64];

static struct s3_access access_to(const char *url)
{
    return (struct s3_access){.bucket = "runs",
                              .prefix = "a/b",
                              .endpoint = url,
                              .key_id = "id",
                              .secret = "secret",
                              .session_token = "token"};
}

static void serve(const struct loopback_reply *replies, size_t n)
{
    struct s3_access access = access_to(endpoint);

    server = loopback_start(replies, n);
    assert_non_null(server);
    (void)snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%d", loopback_port(server));
    assert_int_equal(s3_new(&access, &s3, &err), ERR_OK);
    err = (struct err){.text = ""};
}

#define SERVE(...)                                                                                 \
    static const struct loopback_reply replies[] = {__VA_ARGS__};                                  \
    serve(replies, sizeof replies / sizeof *replies)

static int stop_serving(void **state)
{
    (void)state;
    s3_free(s3);
    s3 = NULL;
    if (server)
        loopback_stop(server);
    server = NULL;
    return 0;
}

#define ERROR(code)                                                                                \
    "<?xml version=\"1.0\"?><Error><Code>" code "</Code><Message>m</Message></Error>"

/* --- requests --- */

static void s3_signs_every_request(void **state)
{
    const char *request;

    (void)state;
    SERVE({.expect = "PUT /runs/a/b/c%20d/e HTTP"});
    assert_int_equal(s3_put(s3, "c d/e", "hello", 5, &err), ERR_OK);
    request = loopback_request(server, 0);
    assert_non_null(strstr(request, "Authorization: AWS4-HMAC-SHA256 Credential=id/"));
    assert_non_null(strstr(request, "/us-east-1/s3/aws4_request, SignedHeaders=content-type;host;"
                                    "x-amz-content-sha256;x-amz-date;x-amz-security-token,"));
    assert_non_null(strstr(request, "x-amz-content-sha256: 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c"
                                    "1fa7425e73043362938b9824\r\n"));
    assert_non_null(strstr(request, "x-amz-security-token: token\r\n"));
    assert_non_null(strstr(request, "\r\n\r\nhello"));
    assert_null(strstr(request, "secret"));
}

static void s3_puts_the_bucket_where_the_endpoint_has_it(void **state)
{
    struct s3_access access;
    char url[80];

    (void)state;
    SERVE({.expect = "GET /v1/runs/x/a/b/key HTTP", .status = 206, .body = "12345"});
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%d/v1/{bucket}/x", loopback_port(server));
    access = access_to(url);
    s3_free(s3);
    assert_int_equal(s3_new(&access, &s3, &err), ERR_OK);
    struct buf got = {.max = 5};
    assert_int_equal(s3_get(s3, "key", 10, 5, &got, &err), ERR_OK);
    assert_non_null(strstr(loopback_request(server, 0), "Range: bytes=10-14\r\n"));
    assert_string_equal(buf_text(&got), "12345");
    buf_deinit(&got);
}

static void s3_refuses_an_endpoint_that_is_none(void **state)
{
    static const char *const urls[] = {"127.0.0.1:9000", "ftp://host", "https://", "http://a b"};

    (void)state;
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        struct s3_access access = access_to(urls[i]);

        assert_int_equal(s3_new(&access, &s3, &err), ERR_INVALID);
    }
}

/* --- what it does about refusals --- */

static struct refusal {
    const char *name;
    int status;
    const char *body;
    enum err_code want;
    const char *text;
} refusals[] = {
    {"s3_says_that_the_secret_is_wrong", 403, ERROR("SignatureDoesNotMatch"), ERR_DENIED,
     "s3://runs/a/b/key: the secret access key is wrong (SignatureDoesNotMatch, 403)"},
    {"s3_says_that_the_key_id_is_unknown", 403, ERROR("InvalidAccessKeyId"), ERR_DENIED,
     "does not know this access key id"},
    {"s3_says_that_access_is_denied", 403, ERROR("AccessDenied"), ERR_DENIED,
     "these credentials do not allow it"},
    {"s3_says_that_the_clocks_differ", 403, ERROR("RequestTimeTooSkewed"), ERR_DENIED,
     "the clock of this machine"},
    {"s3_says_that_there_is_no_such_bucket", 404, ERROR("NoSuchBucket"), ERR_NOT_FOUND,
     "there is no such bucket"},
    {"s3_says_that_the_bucket_is_full", 403, ERROR("QuotaExceeded"), ERR_LIMIT,
     "the bucket is full (QuotaExceeded, 403)"},
    {"s3_says_that_the_disk_is_full", 507, ERROR("XMinioStorageFull"), ERR_LIMIT,
     "the bucket is full"},
    {"s3_says_that_the_bucket_is_elsewhere", 301, ERROR("PermanentRedirect"), ERR_INVALID,
     "another region"},
    {"s3_does_without_a_word_of_the_server", 403, "", ERR_DENIED, "access denied (403)"},
    {"s3_does_not_repeat_what_is_no_word", 403, ERROR("a b\nc"), ERR_DENIED, "access denied (403)"},
    {"s3_is_not_confused_by_html", 400, "<html><body>no<br></html>", ERR_PROTOCOL,
     "the server refused the request (400)"},
};

static void check_refusal(void **state)
{
    const struct refusal *row = *state;
    struct loopback_reply reply = {.expect = "PUT", .status = row->status, .body = row->body};

    serve(&reply, 1);
    assert_int_equal(s3_put(s3, "key", "x", 1, &err), row->want);
    if (!strstr(err.text, row->text))
        fail_msg("%s", err.text);
    assert_int_equal(loopback_strays(server), 0); /* once was enough */
    (void)stop_serving(NULL);
}

static void s3_tries_again_when_the_server_is_busy(void **state)
{
    (void)state;
    SERVE({.expect = "PUT", .status = 503, .body = ERROR("SlowDown")},
          {.expect = "PUT", .status = 500, .body = ERROR("InternalError")},
          {.expect = "PUT", .raw = "HTTP/1.1 200 OK\r\nContent-", .end = LOOPBACK_CLOSE},
          {.expect = "PUT", .raw = "", .end = LOOPBACK_RESET}, {.expect = "PUT"});
    assert_int_equal(s3_put(s3, "key", "x", 1, &err), ERR_OK);
    assert_int_equal(loopback_unused(server), 0);
}

static void s3_gives_up_in_the_end(void **state)
{
    (void)state;
    SERVE({.expect = "PUT", .status = 503, .body = ERROR("SlowDown")},
          {.expect = "PUT", .status = 503, .body = ERROR("SlowDown")});
    s3_set_patience(s3, 2, S3_DEADLINE_MS);
    assert_int_equal(s3_put(s3, "key", "x", 1, &err), ERR_IO);
    assert_non_null(strstr(err.text, "cannot serve the request now (SlowDown, 503)"));
    assert_int_equal(loopback_strays(server), 0);
}

static void s3_does_not_wait_for_ever(void **state)
{
    (void)state;
    SERVE({.expect = "PUT", .raw = "", .end = LOOPBACK_HANG},
          {.expect = "PUT", .raw = "", .end = LOOPBACK_HANG});
    s3_set_patience(s3, 2, 200);
    assert_int_equal(s3_put(s3, "key", "x", 1, &err), ERR_TIMEOUT);
    assert_non_null(strstr(err.text, "s3://runs"));
}

static void s3_stops_between_two_tries(void **state)
{
    static atomic_bool stops;

    (void)state;
    SERVE({.expect = "PUT", .status = 503, .body = ERROR("SlowDown")});
    atomic_store(&stops, true);
    s3_stop_at(s3, &stops);
    assert_int_equal(s3_put(s3, "key", "x", 1, &err), ERR_GONE);
    s3_stop_at(s3, NULL);
}

static void s3_delete_of_nothing_is_fine(void **state)
{
    (void)state;
    SERVE({.expect = "DELETE /runs/a/b/key", .status = 404, .body = ERROR("NoSuchKey")},
          {.expect = "DELETE /runs/a/b/more", .status = 404, .body = ERROR("NoSuchBucket")});
    assert_int_equal(s3_delete(s3, "key", &err), ERR_OK);
    assert_int_equal(s3_delete(s3, "more", &err), ERR_NOT_FOUND);
}

static void s3_get_must_have_every_byte(void **state)
{
    struct buf got = {.max = 100};

    (void)state;
    SERVE({.expect = "GET", .status = 206, .body = "1234"}, {.expect = "GET", .body = "12345"});
    assert_int_equal(s3_get(s3, "key", 10, 5, &got, &err), ERR_PROTOCOL);
    assert_int_equal(s3_get(s3, "key", 10, 5, &got, &err), ERR_PROTOCOL); /* from byte 0 on */
    assert_int_equal(got.len, 0);
    buf_deinit(&got);
}

/* --- listings --- */

static enum err_code add_name(void *ctx, const struct s3_object *o, struct err *e)
{
    (void)e;
    text_add(ctx, 1000, "%s:%s:%lld ", o->key, o->etag, (long long)o->bytes);
    return ERR_OK;
}

#define ENTRY(key, size)                                                                           \
    "<Contents><Key>" key "</Key><ETag>&quot;e&quot;</ETag><Size>" size "</Size></Contents>"
#define LIST(entries) "<ListBucketResult>" entries "</ListBucketResult>"

static void s3_lists_page_after_page(void **state)
{
    char names[1000] = "";

    (void)state;
    SERVE({.expect = "GET /runs/?list-type=2&prefix=a%2Fb%2F HTTP",
           .body = LIST("<IsTruncated>true</IsTruncated><NextContinuationToken>x/=+</"
                        "NextContinuationToken>" ENTRY("a/b/1", "10") ENTRY("a/b/2/&amp;", "0"))},
          {.expect = "GET /runs/?continuation-token=x%2F%3D%2B&list-type=2&prefix=a%2Fb%2F HTTP",
           .body = LIST(ENTRY("a/b/3", "7") "<IsTruncated>false</IsTruncated>")});
    if (s3_list(s3, add_name, names, &err) != ERR_OK)
        fail_msg("%s", err.text);
    assert_string_equal(names, "1:\"e\":10 2/&:\"e\":0 3:\"e\":7 ");
}

static struct listing {
    const char *name;
    const char *body;
    const char *why;
} listings[] = {
    {"s3_listing_is_xml", "{}", "not XML"},
    {"s3_listing_is_a_listing", "<html></html>", "not a listing"},
    {"s3_listing_is_whole", "<ListBucketResult>" ENTRY("a/b/1", "1"), "cut short"},
    {"s3_listing_has_what_was_asked_for", LIST(ENTRY("a/bc", "1")), "not asked for"},
    {"s3_listing_has_sizes", LIST(ENTRY("a/b/1", "-1")), "\"-1\" bytes"},
    {"s3_listing_says_where_it_goes_on", LIST("<IsTruncated>true</IsTruncated>"), "does not say"},
};

static void check_listing(void **state)
{
    const struct listing *row = *state;
    struct loopback_reply reply = {.expect = "GET", .body = row->body};
    char names[1000] = "";

    serve(&reply, 1);
    assert_int_equal(s3_list(s3, add_name, names, &err), ERR_PROTOCOL);
    if (!strstr(err.text, row->why))
        fail_msg("%s", err.text);
    (void)stop_serving(NULL);
}

static enum err_code add_folder(void *ctx, const char *name, struct err *e)
{
    (void)e;
    text_add(ctx, 1000, "%s ", name);
    return ERR_OK;
}

#define FOLDER(name) "<CommonPrefixes><Prefix>" name "</Prefix></CommonPrefixes>"

static void s3_lists_folders_by_the_start_of_their_names(void **state)
{
    char names[1000] = "";

    (void)state;
    SERVE({.expect = "GET /runs/?delimiter=%2F&list-type=2&prefix=a%2Fb%2Fx%26 HTTP",
           .body = LIST("<IsTruncated>true</IsTruncated><NextContinuationToken>t</"
                        "NextContinuationToken>" ENTRY("a/b/x&amp;0", "7") FOLDER("a/b/x&amp;1/"))},
          {.expect = "GET /runs/?continuation-token=t&delimiter=%2F&list-type=2&prefix=",
           .body = LIST(FOLDER("a/b/x&amp;2/"))},
          {.expect = "GET", .body = LIST(FOLDER("c/x&amp;1/"))});
    if (s3_list_folders(s3, "x&", add_folder, names, &err) != ERR_OK)
        fail_msg("%s", err.text);
    assert_string_equal(names, "x&1 x&2 ");
    assert_int_equal(s3_list_folders(s3, "x&", add_folder, names, &err), ERR_PROTOCOL);
    assert_non_null(strstr(err.text, "not asked for"));
}

/* --- uploads in parts --- */

#define STARTED                                                                                    \
    "<InitiateMultipartUploadResult><UploadId>u/1</UploadId></InitiateMultipartUploadResult>"
#define JOINED "<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>"

static const char *large_file(void)
{
    size_t n = S3_PIECE_BYTES + 10;
    char *bytes = calloc(1, n);
    const char *path;

    assert_non_null(bytes);
    path = scratch_write("large", bytes, n);
    free(bytes);
    return path;
}

static void s3_uploads_a_large_file_in_parts(void **state)
{
    (void)state;
    SERVE({.expect = "POST /runs/a/b/key?uploads= HTTP", .body = STARTED},
          {.expect = "PUT /runs/a/b/key?partNumber=1&uploadId=u%2F1 HTTP",
           .headers = "ETag: \"one\"\r\n"},
          {.expect = "PUT /runs/a/b/key?partNumber=2&uploadId=u%2F1 HTTP",
           .headers = "etag:\"two\"\r\n"},
          {.expect = "POST /runs/a/b/key?uploadId=u%2F1 HTTP", .body = JOINED});
    if (s3_put_file(s3, "key", large_file(), &err) != ERR_OK)
        fail_msg("%s", err.text);
    assert_non_null(strstr(loopback_request(server, 3),
                           "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>\"one\""
                           "</ETag></Part><Part><PartNumber>2</PartNumber><ETag>\"two\"</ETag>"
                           "</Part></CompleteMultipartUpload>"));
}

static void s3_aborts_an_upload_that_fails(void **state)
{
    (void)state;
    SERVE({.expect = "POST /runs/a/b/key?uploads= HTTP", .body = STARTED},
          {.expect = "PUT", .status = 403, .body = ERROR("QuotaExceeded")},
          {.expect = "DELETE /runs/a/b/key?uploadId=u%2F1 HTTP", .status = 204});
    assert_int_equal(s3_put_file(s3, "key", large_file(), &err), ERR_LIMIT);
    assert_non_null(strstr(err.text, "the bucket is full"));
    assert_int_equal(loopback_unused(server), 0);
}

static void s3_upload_may_fail_with_status_200(void **state)
{
    (void)state;
    SERVE({.expect = "POST /runs/a/b/key?uploads= HTTP", .body = STARTED},
          {.expect = "partNumber=1", .headers = "ETag: \"one\"\r\n"},
          {.expect = "partNumber=2", .headers = "ETag: \"two\"\r\n"},
          {.expect = "POST /runs/a/b/key?uploadId", .body = ERROR("InternalError")},
          {.expect = "POST /runs/a/b/key?uploadId", .body = JOINED});
    assert_int_equal(s3_put_file(s3, "key", large_file(), &err), ERR_OK);
    assert_int_equal(loopback_unused(server), 0);
}

static void s3_begins_again_when_the_upload_was_forgotten(void **state)
{
    (void)state;
    SERVE({.expect = "POST /runs/a/b/key?uploads= HTTP", .body = STARTED},
          {.expect = "partNumber=1", .status = 404, .body = ERROR("NoSuchUpload")},
          {.expect = "DELETE", .status = 404, .body = ERROR("NoSuchUpload")},
          {.expect = "POST /runs/a/b/key?uploads= HTTP", .body = STARTED},
          {.expect = "partNumber=1", .headers = "ETag: \"one\"\r\n"},
          {.expect = "partNumber=2", .headers = "ETag: \"two\"\r\n"},
          {.expect = "POST /runs/a/b/key?uploadId", .body = JOINED});
    assert_int_equal(s3_put_file(s3, "key", large_file(), &err), ERR_OK);
    assert_int_equal(loopback_unused(server), 0);
}

/* --- copies --- */

/* A client of the same bucket, for another prefix. */
static struct s3 *make_other(void)
{
    struct s3_access access = access_to(endpoint);
    struct s3 *other;

    (void)snprintf(access.prefix, sizeof access.prefix, "c d");
    assert_int_equal(s3_new(&access, &other, &err), ERR_OK);
    return other;
}

static enum err_code copy(int64_t bytes)
{
    struct s3 *other = make_other();
    enum err_code rc = s3_copy(s3, "to", other, "from+", bytes, &err);

    s3_free(other);
    return rc;
}

#define COPIED "<CopyObjectResult><ETag>&quot;e&quot;</ETag></CopyObjectResult>"

static void s3_copy_names_its_source_in_a_signed_header(void **state)
{
    const char *request;

    (void)state;
    SERVE({.expect = "PUT /runs/a/b/to HTTP", .body = COPIED});
    if (copy(10) != ERR_OK)
        fail_msg("%s", err.text);
    request = loopback_request(server, 0);
    assert_non_null(strstr(request, "\r\nx-amz-copy-source: /runs/c%20d/from%2B\r\n"));
    assert_non_null(strstr(request, ";x-amz-content-sha256;x-amz-copy-source;x-amz-date;"));
}

/* Servers send the status before they copy. */
static void s3_copy_may_fail_with_status_200(void **state)
{
    (void)state;
    SERVE({.expect = "PUT", .body = ERROR("InternalError")}, {.expect = "PUT", .body = COPIED},
          {.expect = "PUT", .body = ERROR("AccessDenied")});
    assert_int_equal(copy(10), ERR_OK);
    assert_int_equal(copy(10), ERR_DENIED);
    assert_int_equal(loopback_unused(server), 0);
}

static void s3_copy_says_what_is_not_there(void **state)
{
    (void)state;
    SERVE({.expect = "PUT", .status = 404, .body = ERROR("NoSuchKey")});
    assert_int_equal(copy(10), ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "copy c d/from+: "));
    assert_non_null(strstr(err.text, "there is no such object"));
}

/* Above 5 GiB, or on a server that does not know the request. */
static void s3_copies_in_pieces_what_the_server_does_not_copy(void **state)
{
    (void)state;
    SERVE({.expect = "PUT", .status = 400, .body = ERROR("InvalidRequest")},
          {.expect = "GET /runs/c%20d/from%2B HTTP", .body = "0123456789"},
          {.expect = "PUT /runs/a/b/to HTTP"},
          {.expect = "PUT", .status = 501, .body = ERROR("NotImplemented")},
          {.expect = "GET /runs/c%20d/from%2B HTTP", .body = "0123456789"},
          {.expect = "PUT /runs/a/b/to HTTP"});
    for (size_t i = 0; i < 2; i++) {
        if (copy(10) != ERR_OK)
            fail_msg("%s", err.text);
        assert_non_null(strstr(loopback_request(server, 3 * i + 1), "Range: bytes=0-9\r\n"));
        assert_non_null(strstr(loopback_request(server, 3 * i + 2), "\r\n\r\n0123456789"));
        assert_null(strstr(loopback_request(server, 3 * i + 2), "x-amz-copy-source"));
    }
}

static void s3_copies_a_large_object_in_parts(void **state)
{
    char *piece = malloc(S3_PIECE_BYTES + 1);

    (void)state;
    assert_non_null(piece);
    memset(piece, 'x', S3_PIECE_BYTES);
    piece[S3_PIECE_BYTES] = '\0';
    const struct loopback_reply replies[] = {
        {.expect = "PUT", .status = 400, .body = ERROR("EntityTooLarge")},
        {.expect = "POST /runs/a/b/to?uploads= HTTP", .body = STARTED},
        {.expect = "GET", .status = 206, .body = piece},
        {.expect = "PUT /runs/a/b/to?partNumber=1&uploadId=", .headers = "ETag: \"one\"\r\n"},
        {.expect = "GET", .status = 206, .body = "0123456789"},
        {.expect = "PUT /runs/a/b/to?partNumber=2&uploadId=", .headers = "ETag: \"two\"\r\n"},
        {.expect = "POST /runs/a/b/to?uploadId=u%2F1 HTTP", .body = JOINED}};

    serve(replies, sizeof replies / sizeof *replies);
    if (copy((int64_t)S3_PIECE_BYTES + 10) != ERR_OK)
        fail_msg("%s", err.text);
    assert_non_null(strstr(loopback_request(server, 2), "Range: bytes=0-8388607\r\n"));
    assert_non_null(strstr(loopback_request(server, 4), "Range: bytes=8388608-8388617\r\n"));
    assert_non_null(strstr(loopback_request(server, 5), "\r\n\r\n0123456789"));
    free(piece);
}

/* --- where and who --- */

static void set_environment(void)
{
    static const char *const others[] = {
        "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_SESSION_TOKEN", "AWS_REGION",
        "AWS_DEFAULT_REGION",  "AWS_CA_BUNDLE",    S3_CA_PEM_VARIABLE};

    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_int_equal(unsetenv(others[i]), 0);
    assert_int_equal(setenv("AWS_ACCESS_KEY_ID", "id", 1), 0);
    assert_int_equal(setenv("AWS_SECRET_ACCESS_KEY", "secret", 1), 0);
}

static void s3_access_comes_from_a_url_and_the_environment(void **state)
{
    struct s3_access a;

    (void)state;
    set_environment();
    assert_int_equal(s3_access_load("s3://runs//a/b//", &a, &err), ERR_OK);
    assert_string_equal(a.bucket, "runs");
    assert_string_equal(a.prefix, "a/b");
    assert_null(a.endpoint);
    assert_null(a.region);
    assert_int_equal(setenv("AWS_ENDPOINT_URL", "http://all", 1), 0);
    assert_int_equal(setenv("AWS_DEFAULT_REGION", "eu", 1), 0);
    assert_int_equal(s3_access_load("s3://runs", &a, &err), ERR_OK);
    assert_string_equal(a.prefix, "");
    assert_string_equal(a.endpoint, "http://all");
    assert_string_equal(a.region, "eu");
    assert_int_equal(setenv("AWS_ENDPOINT_URL_S3", "http://s3", 1), 0);
    assert_int_equal(setenv("AWS_REGION", "us", 1), 0);
    assert_int_equal(s3_access_load("s3://runs", &a, &err), ERR_OK);
    assert_string_equal(a.endpoint, "http://s3");
    assert_string_equal(a.region, "us");
}

static void s3_access_names_what_is_missing(void **state)
{
    struct s3_access a;

    (void)state;
    set_environment();
    assert_int_equal(unsetenv("AWS_SECRET_ACCESS_KEY"), 0);
    assert_int_equal(s3_access_load("s3://runs/a", &a, &err), ERR_INVALID);
    assert_string_equal(err.text, "s3://runs/a: set AWS_SECRET_ACCESS_KEY in the environment");
    assert_int_equal(unsetenv("AWS_ACCESS_KEY_ID"), 0);
    assert_int_equal(s3_access_load("s3://runs/a", &a, &err), ERR_INVALID);
    assert_string_equal(err.text, "s3://runs/a: set AWS_ACCESS_KEY_ID in the environment");
}

static void s3_access_refuses_what_is_no_bucket(void **state)
{
    static const char *const urls[] = {"s3://", "s3:///a", "s3://A_B/c", "s3://ab", "s3://-abc"};
    struct s3_access a;

    (void)state;
    set_environment();
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++)
        assert_int_equal(s3_access_load(urls[i], &a, &err), ERR_INVALID);
}

int main(void)
{
#define ON_A_SERVER(test) cmocka_unit_test_teardown(test, stop_serving)
    static const struct CMUnitTest own[] = {
        ON_A_SERVER(s3_signs_every_request),
        ON_A_SERVER(s3_puts_the_bucket_where_the_endpoint_has_it),
        ON_A_SERVER(s3_tries_again_when_the_server_is_busy),
        ON_A_SERVER(s3_gives_up_in_the_end),
        ON_A_SERVER(s3_does_not_wait_for_ever),
        ON_A_SERVER(s3_stops_between_two_tries),
        ON_A_SERVER(s3_delete_of_nothing_is_fine),
        ON_A_SERVER(s3_get_must_have_every_byte),
        ON_A_SERVER(s3_lists_page_after_page),
        ON_A_SERVER(s3_uploads_a_large_file_in_parts),
        ON_A_SERVER(s3_aborts_an_upload_that_fails),
        ON_A_SERVER(s3_upload_may_fail_with_status_200),
        ON_A_SERVER(s3_begins_again_when_the_upload_was_forgotten),
        ON_A_SERVER(s3_lists_folders_by_the_start_of_their_names),
        ON_A_SERVER(s3_copy_names_its_source_in_a_signed_header),
        ON_A_SERVER(s3_copy_may_fail_with_status_200),
        ON_A_SERVER(s3_copy_says_what_is_not_there),
        ON_A_SERVER(s3_copies_in_pieces_what_the_server_does_not_copy),
        ON_A_SERVER(s3_copies_a_large_object_in_parts),
        cmocka_unit_test(s3_refuses_an_endpoint_that_is_none),
        cmocka_unit_test(s3_access_comes_from_a_url_and_the_environment),
        cmocka_unit_test(s3_access_names_what_is_missing),
        cmocka_unit_test(s3_access_refuses_what_is_no_bucket),
    };
    struct suite suite = {.n = 0};

    SUITE_TESTS(&suite, own);
    SUITE_ROWS(&suite, refusals, check_refusal);
    SUITE_ROWS(&suite, listings, check_listing);
    return suite_run(&suite, "s3", scratch_make, scratch_remove);
}
