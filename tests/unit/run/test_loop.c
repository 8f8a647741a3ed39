/* The operator's loop against an API server that does not answer. */
#include "run/loop.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "control/decide.h"
#include "loopback.h"
#include "tls_client.h"

#define PATIENCE_MS 20000

#define ITEMS(text) "{\"metadata\":{\"resourceVersion\":\"9\"},\"items\":[" text "]}"
#define JOB                                                                                        \
    "{\"metadata\":{\"namespace\":\"team\",\"name\":\"mnli\",\"uid\":\"u1\","                      \
    "\"resourceVersion\":\"5\",\"generation\":1},"                                                 \
    "\"spec\":{\"data\":{\"source\":{\"sample\":\"MNLI\"}}}}"
#define JOB_OF_OTHER                                                                               \
    "{\"metadata\":{\"namespace\":\"other\",\"name\":\"mnli\",\"uid\":\"u2\","                     \
    "\"resourceVersion\":\"5\",\"generation\":1},"                                                 \
    "\"spec\":{\"data\":{\"source\":{\"sample\":\"MNLI\"}}}}"
#define CHANGED_JOB                                                                                \
    "{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{\"namespace\":\"team\",\"name\":\"mnli\","   \
    "\"uid\":\"u1\",\"resourceVersion\":\"6\",\"generation\":2},"                                  \
    "\"spec\":{\"data\":{\"source\":{\"sample\":\"MNLI\"}}}}}"
#define NODE(cpu)                                                                                  \
    "{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{\"name\":\"n1\",\"uid\":\"u2\","             \
    "\"resourceVersion\":\"10\"},\"status\":{\"allocatable\":{\"cpu\":\"" cpu "\"}}}}"
#define N_CHANGES    400
#define CHANGE_BYTES 200 /* of each, filled up with blanks */
#define LISTS                                                                                      \
    {.expect = "skyjobs?limit=", .body = ITEMS(JOB)},                                              \
        {.expect = "/pods?limit=", .body = ITEMS("")},                                             \
        {.expect = "/nodes?limit=", .body = ITEMS("")},                                            \
    {                                                                                              \
        .expect = "/configmaps?labelSelector=", .body = ITEMS("")                                  \
    }
#define HANGS(text)                                                                                \
    {                                                                                              \
        .expect = text, .raw = "HTTP/1.1 200 OK\r\n", .end = LOOPBACK_HANG                         \
    }

static struct http *http;
static struct kube_client *client;
static struct loopback *server;
static struct loop *loop;
static const char *const *namespaces; /* NULL: all */
static int port;

/* Another server says that whoever asks may read the metrics: once, since that is remembered. */
static const struct loopback_reply reviews[] = {
    {.expect = "POST /apis/authentication",
     .body = "{\"status\":{\"authenticated\":true,"
             "\"user\":{\"username\":\"u\"}}}"},
    {.expect = "POST /apis/authorization", .body = "{\"status\":{\"allowed\":true}}"}};
static struct loopback *reviewer;
static struct http *metrics_http;
static struct kube_client *metrics_client;
static int metrics_port;

/* A test may say that searches for a plan last until the end. */
static atomic_bool is_endless, has_begun;
static sem_t is_searching, has_searched;
/* Of the first searches: which version of the job each was for, and how many calls with what came
 * of those before it had been made by then. */
static struct {
    char version[OBSERVED_VERSION_BYTES];
    int n_calls;
} searched[2];
static atomic_int n_searched;

void __real_decide(const struct observed *seen, struct decision *out);
void __wrap_decide(const struct observed *seen, struct decision *out);

void __wrap_decide(const struct observed *seen, struct decision *out)
{
    has_begun = true;
    if (is_endless)
        (void)sem_post(&is_searching);
    while (is_endless)
        (void)usleep(1000);
    if (n_searched < 2) {
        searched[n_searched].n_calls = loopback_strays(server);
        (void)snprintf(searched[n_searched].version, sizeof searched->version, "%s", seen->version);
    }
    __real_decide(seen, out);
    n_searched++;
    (void)sem_post(&has_searched);
}

static void *run(void *arg)
{
    enum err_code *rc = arg;

    *rc = loop_run(loop, NULL);
    return NULL;
}

static struct kube_client *new_client(struct http *http_loop, const struct loopback *of)
{
    struct kube_config config = {.namespace = strdup("default")};
    struct kube_client *c = NULL;

    assert_true(asprintf(&config.server, "http://127.0.0.1:%d", loopback_port(of)) > 0);
    assert_int_equal(kube_client_new(http_loop, &config, NULL, &c, NULL), ERR_OK);
    return c;
}

static void open_loop(const struct lease *lease)
{
    char address[32], metrics_address[32];
    struct loop_options options = {.namespaces = namespaces,
                                   .settings = {.worker_image = "worker:1"},
                                   .health_address = address,
                                   .metrics_address = metrics_address,
                                   .lease = lease};

    assert_int_equal(http_new(&http, NULL), ERR_OK);
    client = new_client(http, server);
    reviewer = loopback_start(reviews, sizeof reviews / sizeof reviews[0]);
    assert_non_null(reviewer);
    assert_int_equal(http_new(&metrics_http, NULL), ERR_OK);
    options.metrics_client = metrics_client = new_client(metrics_http, reviewer);
    port = client_free_port();
    metrics_port = client_free_port();
    (void)snprintf(address, sizeof address, "127.0.0.1:%d", port);
    (void)snprintf(metrics_address, sizeof metrics_address, "127.0.0.1:%d", metrics_port);
    assert_int_equal(loop_new(client, &options, &loop, NULL), ERR_OK);
}

static void start(const struct loopback_reply *replies, size_t n_replies, pthread_t *thread,
                  enum err_code *rc)
{
    server = loopback_start(replies, n_replies);
    assert_non_null(server);
    open_loop(NULL);
    assert_int_equal(pthread_create(thread, NULL, run, rc), 0);
}

static void wait_for_calls(void)
{
    int64_t end_ms = clock_now_ms() + PATIENCE_MS;

    while (loopback_unused(server) > 0 && clock_now_ms() < end_ms)
        (void)usleep(1000);
    assert_int_equal(loopback_unused(server), 0);
}

/* Run the loop until a search for a plan has begun, which lasts until the test ends it. `n`
 * searches count as noted. */
static void start_with_search(const struct loopback_reply *replies, size_t n_replies, int n,
                              pthread_t *thread, enum err_code *rc)
{
    (void)sem_init(&is_searching, 0, 0);
    (void)sem_init(&has_searched, 0, 0);
    is_endless = true;
    has_begun = false;
    n_searched = n;
    start(replies, n_replies, thread, rc);
    (void)sem_wait(&is_searching);
}

/* The status of the answer of the health port. */
static int ask(const char *path)
{
    return client_call(port, "GET", path, "", NULL);
}

static int ask_for_metrics(void)
{
    return tls_client_ask(metrics_port, "GET /metrics HTTP/1.1\r\nAuthorization: Bearer t\r\n\r\n");
}

/* The value of a metric; -1 before there is one. */
static long metric(const char *name)
{
    const char *line;

    assert_int_equal(ask_for_metrics(), 200);
    line = strstr(client_answer, name);
    return line ? strtol(line + strlen(name), NULL, 10) : -1;
}

static void close_loop(void)
{
    loop_free(loop);
    kube_client_free(metrics_client);
    http_free(metrics_http);
    loopback_stop(reviewer);
    kube_client_free(client);
    http_free(http);
    loopback_stop(server);
}

static void loop_serves_health_and_ends_while_a_call_hangs(void **state)
{
    static const struct loopback_reply replies[] = {
        LISTS, HANGS("/namespaces/team/")}; /* before any watch */
    int64_t end_ms = clock_now_ms() + PATIENCE_MS;
    enum err_code rc = ERR_IO;
    pthread_t thread;

    (void)state;
    server = loopback_start(replies, sizeof replies / sizeof *replies);
    assert_non_null(server);
    open_loop(NULL);
    assert_int_equal(ask("/readyz"), 503);
    assert_int_equal(pthread_create(&thread, NULL, run, &rc), 0);
    wait_for_calls(); /* the last one is waited for */
    assert_int_equal(ask("/healthz"), 200);
    assert_int_equal(ask_for_metrics(), 200);
    loop_stop(loop);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(rc, ERR_OK);
    assert_true(clock_now_ms() < end_ms); /* a call alone may take 30 s */
    close_loop();
}

static void loop_looks_after_the_jobs_of_each_namespace_in_a_list(void **state)
{
    static const char *const two[] = {"team", "other", NULL};
    static const struct loopback_reply replies[] = {
        {.expect = "/namespaces/team/skyjobs?limit=", .body = ITEMS(JOB)},
        {.expect = "/namespaces/other/skyjobs?limit=", .body = ITEMS(JOB_OF_OTHER)},
        {.expect = "/namespaces/team/pods?limit=", .body = ITEMS("")},
        {.expect = "/namespaces/other/pods?limit=", .body = ITEMS("")},
        {.expect = "/v1/nodes?limit=", .body = ITEMS("")},
        {.expect = "/namespaces/team/configmaps?labelSelector=", .body = ITEMS("")},
        {.expect = "/namespaces/other/configmaps?labelSelector=", .body = ITEMS("")},
        HANGS("/namespaces/")};
    int64_t end_ms = clock_now_ms() + PATIENCE_MS;
    enum err_code rc = ERR_IO;
    pthread_t thread;

    (void)state;
    namespaces = two;
    start(replies, sizeof replies / sizeof *replies, &thread, &rc);
    wait_for_calls();
    while (metric("\nskyjob_jobs{state=\"Pending\"} ") < 2 && clock_now_ms() < end_ms)
        (void)usleep(1000);
    assert_int_equal(metric("\nskyjob_jobs{state=\"Pending\"} "), 2);
    loop_stop(loop);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(rc, ERR_OK);
    close_loop();
    namespaces = NULL;
}

static void loop_goes_on_with_other_jobs_while_a_call_for_one_hangs(void **state)
{
    static const struct loopback_reply replies[] = {
        {.expect = "skyjobs?limit=", .body = ITEMS(JOB "," JOB_OF_OTHER)},
        {.expect = "/pods?limit=", .body = ITEMS("")},
        {.expect = "/nodes?limit=", .body = ITEMS("")},
        {.expect = "/configmaps?labelSelector=", .body = ITEMS("")},
        HANGS("/namespaces/team/"),
        HANGS("/namespaces/other/")};
    enum err_code rc = ERR_IO;
    pthread_t thread;

    (void)state;
    start(replies, sizeof replies / sizeof *replies, &thread, &rc);
    wait_for_calls(); /* of both jobs, whichever came first */
    assert_int_equal(ask("/healthz"), 200);
    loop_stop(loop);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(rc, ERR_OK);
    close_loop();
}

/* Nodes whose free CPU changes all the time, and a job that waits for some. */
static void loop_does_not_look_at_a_waiting_job_with_every_change_of_a_node(void **state)
{
    static char events[N_CHANGES * CHANGE_BYTES + 1];
    static const struct loopback_reply replies[] = {LISTS,
                                                    {.expect = "/nodes?watch=",
                                                     .body = events,
                                                     .piece_bytes = CHANGE_BYTES,
                                                     .pause_ms = 10,
                                                     .is_stream = true,
                                                     .end = LOOPBACK_HANG}};
    int64_t end_ms = clock_now_ms() + PATIENCE_MS;
    enum err_code rc = ERR_IO;
    pthread_t thread;

    (void)state;
    for (int i = 0; i < N_CHANGES; i++)
        (void)snprintf(events + i * CHANGE_BYTES, CHANGE_BYTES + 1, "%-*s\n", CHANGE_BYTES - 1,
                       i % 2 ? NODE("1") : NODE("2"));
    start(replies, sizeof replies / sizeof *replies, &thread, &rc);
    while (metric("skyjob_watch_events_total{resource=\"nodes\"} ") < N_CHANGES &&
           clock_now_ms() < end_ms)
        (void)usleep(20000);
    assert_int_equal(metric("skyjob_watch_events_total{resource=\"nodes\"} "), N_CHANGES);
    assert_in_range(metric("\nskyjob_reconcile_seconds_count "), 1, N_CHANGES / 20);
    loop_stop(loop);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(rc, ERR_OK);
    close_loop();
}

static void loop_retries_a_job_when_the_server_has_asked_it_to(void **state)
{
    static const struct loopback_reply refusal = {
        .expect = "/namespaces/team/", .status = 429, .headers = "Retry-After: 1\r\n"};
    const struct loopback_reply replies[] = {LISTS, refusal, refusal, HANGS("/namespaces/team/")};
    enum err_code rc = ERR_IO;
    pthread_t thread;

    (void)state;
    start(replies, sizeof replies / sizeof *replies, &thread, &rc);
    wait_for_calls();
    /* A try in between would have been one more, refused before it was sent. */
    assert_int_equal(metric("\nskyjob_reconcile_errors_total "), 2);
    assert_int_equal(metric("\nskyjob_kube_requests_total{code=\"429\"} "), 2);
    assert_int_equal(metric("\nskyjob_jobs{state=\"Pending\"} "), 1);
    loop_stop(loop);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(rc, ERR_OK);
    close_loop();
}

/* --- one of several operators --- */

#define LEASE_OF(version, holder)                                                                  \
    "{\"metadata\":{\"resourceVersion\":\"" version "\"},\"spec\":{\"holderIdentity\":\"" holder   \
    "\",\"leaseDurationSeconds\":15}}"
static void stop_loop(void *ctx)
{
    http_stop(*(struct http **)ctx);
}

/* Of "us", from the same server. */
static struct lease *open_lease(struct http **out_http, struct kube_client **out_client)
{
    const struct lease_options options = {.namespace = "sys",
                                          .name = "op",
                                          .component = "tester",
                                          .identity = "us",
                                          .on_lost = stop_loop,
                                          .ctx = &http};
    struct lease *lease = NULL;

    assert_int_equal(http_new(out_http, NULL), ERR_OK);
    *out_client = new_client(*out_http, server);
    assert_int_equal(lease_new(*out_client, &options, &lease, NULL), ERR_OK);
    return lease;
}

static void loop_goes_on_while_a_plan_is_searched(void **state)
{
    static char events[10 * CHANGE_BYTES + 1];
    const struct loopback_reply replies[] = {
        LISTS,
        HANGS("skyjobs?watch="),
        HANGS("/pods?watch="),
        {.expect = "/nodes?watch=", .body = events, .is_stream = true, .end = LOOPBACK_HANG},
        HANGS("/configmaps?labelSelector=skyjob.dev%2Fjob-uid%2Cskyjob.dev%2Frevision&watch=")};
    int64_t end_ms = clock_now_ms() + PATIENCE_MS;
    enum err_code rc = ERR_IO;
    pthread_t thread;

    (void)state;
    for (int i = 0; i < 10; i++)
        (void)snprintf(events + i * CHANGE_BYTES, CHANGE_BYTES + 1, "%-*s\n", CHANGE_BYTES - 1,
                       i % 2 ? NODE("1") : NODE("2"));
    start_with_search(replies, sizeof replies / sizeof *replies, 2, &thread, &rc);
    while (metric("skyjob_watch_events_total{resource=\"nodes\"} ") < 10 && clock_now_ms() < end_ms)
        (void)usleep(20000);
    assert_int_equal(metric("skyjob_watch_events_total{resource=\"nodes\"} "), 10);
    loop_stop(loop);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(rc, ERR_OK);
    close_loop(); /* would hang here if it waited for the search */
    is_endless = false;
    (void)sem_wait(&has_searched);
}

/* The lists of other kinds may take longer, and nothing begins before they are there. */
static void wait_for_search(void)
{
    while (!has_begun)
        (void)usleep(1000);
}

static void what_was_found_for_a_job_that_has_changed_is_not_used(void **state)
{
    static const struct loopback_reply replies[] = {
        LISTS,
        {.expect = "skyjobs?watch=",
         .body = CHANGED_JOB "\n",
         .before = wait_for_search,
         .is_stream = true,
         .end = LOOPBACK_HANG},
        HANGS("/pods?watch="),
        HANGS("/nodes?watch="),
        HANGS("/configmaps?labelSelector=skyjob.dev%2Fjob-uid%2Cskyjob.dev%2Frevision&watch=")};
    int64_t end_ms = clock_now_ms() + PATIENCE_MS;
    enum err_code rc = ERR_IO;
    pthread_t thread;

    (void)state;
    start_with_search(replies, sizeof replies / sizeof *replies, 0, &thread, &rc);
    while (metric("skyjob_watch_events_total{resource=\"skyjobs\"} ") < 1 &&
           clock_now_ms() < end_ms)
        (void)usleep(20000);
    is_endless = false;
    (void)sem_wait(&has_searched);
    (void)sem_wait(&has_searched);
    assert_string_equal(searched[0].version, "5");
    assert_string_equal(searched[1].version, "6");
    assert_int_equal(searched[1].n_calls, 0);
    loop_stop(loop);
    assert_int_equal(pthread_join(thread, NULL), 0);
    close_loop();
}

static void loop_that_does_not_lead_reconciles_nothing_and_then_all(void **state)
{
    static const struct loopback_reply replies[] = {
        LISTS,
        {.expect = "GET /apis/coordination", .body = LEASE_OF("1", "them")},
        {.expect = "GET /apis/coordination", .body = LEASE_OF("2", ""), .pause_ms = 3000},
        {.expect = "PATCH /apis/coordination", .body = LEASE_OF("3", "us")}};
    int64_t end_ms = clock_now_ms() + PATIENCE_MS;
    struct kube_client *lease_client;
    struct http *lease_http;
    struct lease *lease;
    enum err_code rc = ERR_IO;
    pthread_t thread;

    (void)state;
    server = loopback_start(replies, sizeof replies / sizeof *replies);
    assert_non_null(server);
    lease = open_lease(&lease_http, &lease_client);
    open_loop(lease);
    assert_int_equal(pthread_create(&thread, NULL, run, &rc), 0);
    while (ask("/readyz") != 200 && clock_now_ms() < end_ms)
        (void)usleep(1000);
    assert_int_equal(ask("/readyz"), 200);
    assert_int_equal(metric("\nskyjob_reconcile_seconds_count "), 0); /* seconds to go */
    assert_int_equal(metric("\nskyjob_leader "), 0);
    assert_int_equal(metric("\nskyjob_queue_delay_seconds "), 0); /* the leader's is looked at */
    while (metric("\nskyjob_reconcile_seconds_count ") < 1 && clock_now_ms() < end_ms)
        (void)usleep(1000);
    assert_in_range(metric("\nskyjob_reconcile_seconds_count "), 1, 1000);
    assert_int_equal(metric("\nskyjob_leader "), 1);
    loop_stop(loop);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(rc, ERR_OK);
    lease_free(lease);
    kube_client_free(lease_client);
    http_free(lease_http);
    close_loop();
}

static void loop_whose_lease_is_taken_ends(void **state)
{
    static const struct loopback_reply replies[] = {
        LISTS,
        {.expect = "GET /apis/coordination", .body = LEASE_OF("1", "")},
        {.expect = "PATCH /apis/coordination", .body = LEASE_OF("2", "us")},
        {.expect = "PATCH /apis/coordination", .status = 409},
        {.expect = "GET /apis/coordination", .body = LEASE_OF("3", "them")}};
    struct kube_client *lease_client;
    struct http *lease_http;
    struct lease *lease;
    struct err err = {0};

    (void)state;
    server = loopback_start(replies, sizeof replies / sizeof *replies);
    assert_non_null(server);
    lease = open_lease(&lease_http, &lease_client);
    open_loop(lease);
    assert_int_equal(loop_run(loop, &err), ERR_DENIED);
    assert_string_equal(err.text, "another operator may lead now");
    lease_free(lease);
    kube_client_free(lease_client);
    http_free(lease_http);
    close_loop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loop_serves_health_and_ends_while_a_call_hangs),
        cmocka_unit_test(loop_goes_on_with_other_jobs_while_a_call_for_one_hangs),
        cmocka_unit_test(loop_looks_after_the_jobs_of_each_namespace_in_a_list),
        cmocka_unit_test(loop_does_not_look_at_a_waiting_job_with_every_change_of_a_node),
        cmocka_unit_test(loop_retries_a_job_when_the_server_has_asked_it_to),
        cmocka_unit_test(what_was_found_for_a_job_that_has_changed_is_not_used),
        cmocka_unit_test(loop_that_does_not_lead_reconciles_nothing_and_then_all),
        cmocka_unit_test(loop_whose_lease_is_taken_ends),
        cmocka_unit_test(loop_goes_on_while_a_plan_is_searched), /* its search never ends */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
