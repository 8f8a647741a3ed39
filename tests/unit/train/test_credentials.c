/* Certificates of a worker, alone and at its control port. */
#include "train/credentials.h"

#include "base/clock.h"
#include "certificates.h"
#include "client.h"
#include "http/http.h"
#include "scratch.h"
#include "train/control.h"

#define WORKER   "w1-2.u.skyjob.internal"
#define OPERATOR "operator.u.skyjob.internal"
#define METRICS  "worker-metrics.skyjob.internal"
#define READER   "metrics-reader.skyjob.internal"
#define RENEW_MS 50

static struct authority_pair ours, theirs;
static struct credentials *credentials;
static struct err err;

static int set_up(void **state)
{
    (void)state;
    ours = certificates_authority();
    theirs = certificates_authority();
    if (scratch_make(state) != 0)
        return -1;
    certificates_write(scratch, &ours, WORKER);
    return credentials_open(scratch, 1, 2, &credentials, &err) == ERR_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    credentials_close(credentials);
    credentials = NULL;
    authority_pair_deinit(&ours);
    authority_pair_deinit(&theirs);
    return scratch_remove(state);
}

static enum err_code attempt(int slot, int incarnation)
{
    struct credentials *c = NULL;
    enum err_code rc = credentials_open(scratch, slot, incarnation, &c, &err);

    credentials_close(c);
    return rc;
}

static void credentials_are_those_of_the_very_worker(void **state)
{
    char name[NAMES_DNS_BYTES];

    (void)state;
    assert_int_equal(attempt(1, 2), ERR_OK);
    assert_int_equal(attempt(1, 3), ERR_INVALID);
    assert_non_null(strstr(err.text, "w1-2"));
    assert_int_equal(attempt(2, 2), ERR_INVALID);
    credentials_operator_name(credentials, name);
    assert_string_equal(name, OPERATOR);
    credentials_worker_name(credentials, 3, 4, name);
    assert_string_equal(name, "w3-4.u.skyjob.internal");
}

static void credentials_need_every_file(void **state)
{
    static const char *const files[] = {"ca.crt", "tls.crt", "tls.key"};

    (void)state;
    for (int i = 0; i < 3; i++) {
        certificates_write(scratch, &ours, WORKER);
        assert_int_equal(unlink(scratch_path(files[i])), 0);
        assert_int_equal(attempt(1, 2), ERR_NOT_FOUND);
        assert_non_null(strstr(err.text, files[i]));
        (void)scratch_text(files[i], "none");
        assert_int_equal(attempt(1, 2), ERR_INVALID);
    }
}

static void credentials_that_are_absent_mean_no_tls(void **state)
{
    char name[NAMES_DNS_BYTES];
    bool is_new = true;

    (void)state;
    assert_null(credentials_identity(NULL));
    credentials_operator_name(NULL, name);
    assert_string_equal(name, "");
    assert_int_equal(credentials_refresh(NULL, &is_new, &err), ERR_OK);
    assert_false(is_new);
    credentials_close(NULL);
}

static void credentials_of_the_metrics_port_are_files_of_their_own(void **state)
{
    struct credentials *c = NULL;

    (void)state;
    assert_int_equal(credentials_open_metrics(scratch, &c, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "metrics.crt"));
    certificates_write_pair(scratch, &ours, WORKER, "metrics");
    assert_int_equal(credentials_open_metrics(scratch, &c, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "not " METRICS));
    certificates_write_pair(scratch, &ours, METRICS, "metrics");
    assert_int_equal(credentials_open_metrics(scratch, &c, &err), ERR_OK);
    credentials_close(c);
    /* They are no worker's. */
    certificates_write(scratch, &ours, METRICS);
    assert_int_equal(attempt(1, 2), ERR_INVALID);
}

static uint64_t number(void)
{
    struct tls_identity *identity = credentials_identity(credentials);
    uint64_t n = tls_identity_number(identity);

    tls_identity_free(identity);
    return n;
}

static void credentials_follow_their_files(void **state)
{
    uint64_t first = number();
    bool is_new = true;

    (void)state;
    assert_int_equal(credentials_refresh(credentials, &is_new, &err), ERR_OK);
    assert_false(is_new);
    assert_true(number() == first);
    certificates_write(scratch, &ours, WORKER);
    assert_int_equal(credentials_refresh(credentials, &is_new, &err), ERR_OK);
    assert_true(is_new);
    assert_true(number() != first);
}

static void credentials_stay_when_the_new_files_cannot_be_used(void **state)
{
    uint64_t first = number();
    bool is_new = true;

    (void)state;
    certificates_write(scratch, &ours, "w1-3.u.skyjob.internal");
    assert_int_equal(credentials_refresh(credentials, &is_new, &err), ERR_INVALID);
    (void)scratch_text("tls.key", "");
    assert_int_equal(credentials_refresh(credentials, &is_new, &err), ERR_INVALID);
    assert_int_equal(unlink(scratch_path("ca.crt")), 0);
    assert_int_equal(credentials_refresh(credentials, &is_new, &err), ERR_NOT_FOUND);
    assert_false(is_new);
    assert_true(number() == first);
    certificates_write(scratch, &ours, WORKER); /* at last */
    assert_int_equal(credentials_refresh(credentials, &is_new, &err), ERR_OK);
    assert_true(is_new);
}

/* --- at the control port --- */

static const struct hmac_key key = {{7, 7, 7}};

static enum err_code get_from(struct http *http, const char *name, int port, const char *path,
                              struct tls_identity *identity)
{
    struct signature_request signs = {"GET", path, NULL, 0};
    char text[HMAC_TEXT_BYTES], line[128], url[128];
    const char *headers[] = {line, NULL};
    struct http_request request = {.url = url,
                                   .connect_to = "127.0.0.1",
                                   .headers = headers,
                                   .tls.identity = identity,
                                   .deadline_ms = 5000};
    struct http_response answer = {0};
    enum err_code rc;

    assert_int_equal(signature_make(&key, &signs, text, NULL), ERR_OK);
    (void)snprintf(line, sizeof line, SIGNATURE_HEADER ": %s", text);
    (void)snprintf(url, sizeof url, "https://%s:%d%s", name, port, path);
    rc = http_call(http, &request, &answer, &err);
    buf_deinit(&answer.body);
    return rc == ERR_OK && answer.status != 200 ? ERR_PROTOCOL : rc;
}

static enum err_code get(struct http *http, int port, struct tls_identity *identity)
{
    return get_from(http, WORKER, port, "/v1/status", identity);
}

static void control_with_credentials_answers_only_the_operator(void **state)
{
    struct tls_identity *caller = certificates_identity(&ours, &ours, OPERATOR);
    struct tls_identity *neighbour = certificates_identity(&ours, &ours, "w0-2.u.skyjob.internal");
    struct tls_identity *renewed = certificates_identity(&theirs, &theirs, OPERATOR);
    struct progress p = {.revision = 1, .eta_seconds = -1};
    struct mailbox mailbox;
    struct control_params params = {.host = "127.0.0.1",
                                    .port = client_free_port(),
                                    .health_host = "127.0.0.1",
                                    .health_port = client_free_port(),
                                    .takes_revisions = true,
                                    .key = key,
                                    .credentials = credentials,
                                    .mailbox = &mailbox,
                                    .abandoned_ms = 1000,
                                    .renew_ms = RENEW_MS};
    int64_t end_ms = clock_now_ms() + 10000;
    struct control *control = NULL;
    struct http *http = NULL;

    (void)state;
    mailbox_init(&mailbox);
    mailbox_set_progress(&mailbox, &p);
    assert_int_equal(http_new(&http, NULL), ERR_OK);
    assert_int_equal(control_open(&params, &control, &err), ERR_OK);
    assert_int_equal(get(http, params.port, caller), ERR_OK);
    assert_int_not_equal(get(http, params.port, neighbour), ERR_OK);
    assert_int_equal(client_call(params.port, "GET", "/v1/status", "", &key), 0);
    /* The kubelet has no certificate. */
    assert_int_equal(client_call(params.health_port, "GET", "/healthz", "", NULL), 200);
    /* Another CA has issued the next certificate; the operator's connection goes on. */
    certificates_write(scratch, &theirs, WORKER);
    while (get(http, params.port, renewed) != ERR_OK && clock_now_ms() < end_ms)
        usleep(10000);
    assert_int_equal(get(http, params.port, renewed), ERR_OK);
    assert_int_equal(get(http, params.port, caller), ERR_OK);
    control_close(control);
    http_free(http);
    mailbox_deinit(&mailbox);
    tls_identity_free(caller);
    tls_identity_free(neighbour);
    tls_identity_free(renewed);
}

static enum err_code scrape(struct http *http, int port, struct tls_identity *identity)
{
    return get_from(http, METRICS, port, "/metrics", identity);
}

/* Neither the worker's own certificate nor that of the port opens it, and that of its reader opens
 * nothing else. */
static void metrics_with_credentials_are_only_for_their_reader(void **state)
{
    static const char *const names[] = {OPERATOR, WORKER, METRICS,
                                        "metrics-reader.u.skyjob.internal"};
    struct tls_identity *reader = certificates_identity(&ours, &ours, READER);
    struct tls_identity *foreign = certificates_identity(&theirs, &ours, READER);
    struct tls_identity *renewed = certificates_identity(&theirs, &theirs, READER);
    struct mailbox mailbox;
    struct control_params params = {.host = "127.0.0.1",
                                    .port = client_free_port(),
                                    .metrics_host = "127.0.0.1",
                                    .metrics_port = client_free_port(),
                                    .takes_revisions = true,
                                    .key = key,
                                    .credentials = credentials,
                                    .mailbox = &mailbox,
                                    .renew_ms = RENEW_MS};
    int64_t end_ms = clock_now_ms() + 10000;
    struct control *control = NULL;
    struct http *http = NULL;

    (void)state;
    mailbox_init(&mailbox);
    certificates_write_pair(scratch, &ours, METRICS, "metrics");
    assert_int_equal(credentials_open_metrics(scratch, &params.metrics_credentials, &err), ERR_OK);
    assert_int_equal(http_new(&http, NULL), ERR_OK);
    assert_int_equal(control_open(&params, &control, &err), ERR_OK);
    if (scrape(http, params.metrics_port, reader) != ERR_OK)
        fail_msg("%s", err.text);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct tls_identity *other = certificates_identity(&ours, &ours, names[i]);

        assert_int_not_equal(scrape(http, params.metrics_port, other), ERR_OK);
        tls_identity_free(other);
    }
    assert_int_not_equal(scrape(http, params.metrics_port, foreign), ERR_OK);
    assert_int_equal(client_call(params.metrics_port, "GET", "/metrics", "", NULL), 0);
    assert_int_not_equal(get(http, params.port, reader), ERR_OK);
    certificates_write_pair(scratch, &theirs, METRICS, "metrics"); /* of the next CA */
    while (scrape(http, params.metrics_port, renewed) != ERR_OK && clock_now_ms() < end_ms)
        usleep(10000);
    assert_int_equal(scrape(http, params.metrics_port, renewed), ERR_OK);
    control_close(control);
    credentials_close(params.metrics_credentials);
    http_free(http);
    mailbox_deinit(&mailbox);
    tls_identity_free(reader);
    tls_identity_free(foreign);
    tls_identity_free(renewed);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(credentials_are_those_of_the_very_worker),
        TEST(credentials_need_every_file),
        TEST(credentials_that_are_absent_mean_no_tls),
        TEST(credentials_of_the_metrics_port_are_files_of_their_own),
        TEST(credentials_follow_their_files),
        TEST(credentials_stay_when_the_new_files_cannot_be_used),
        TEST(control_with_credentials_answers_only_the_operator),
        TEST(metrics_with_credentials_are_only_for_their_reader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
