#include "train/control.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "client.h"

#define ADDRESS "127.0.0.1"
#define N_SLOW  200
#define N_MORE  1000
#define N_FLOOD 300

#define TABLE                                                                                      \
    "{\"revision\":0,\"peers\":[{\"host\":\"127.0.0.1\",\"port\":1},{\"host\":\"127.0.0.1\","      \
    "\"port\":2}]}"
#define OTHER_TABLE                                                                                \
    "{\"revision\":0,\"peers\":[{\"host\":\"127.0.0.1\",\"port\":1},{\"host\":\"127.0.0.1\","      \
    "\"port\":3}]}"

static const struct hmac_key key = {{7, 7, 7}};
static const struct hmac_key other_key = {{7, 7, 8}};

#define ABANDONED_MS 300

struct fixture {
    struct mailbox mailbox;
    atomic_bool is_leaving;
    struct control *control;
    int port;
    int health_port;
    int metrics_port;
};

static struct fixture f;
static atomic_bool flood_stops;
static atomic_int n_ends;
static _Atomic int64_t end_ms;

static void note_end(void *ctx, const char *reason)
{
    assert_ptr_equal(ctx, &f);
    assert_true(*reason);
    end_ms = clock_now_ms();
    n_ends++;
}

static int open_ports(void **state, bool takes_revisions)
{
    struct progress p = {.revision = 1, .step = 41, .eta_seconds = -1};
    struct control_params params = {.host = ADDRESS,
                                    .health_host = ADDRESS,
                                    .metrics_host = ADDRESS,
                                    .takes_revisions = takes_revisions,
                                    .key = key,
                                    .mailbox = &f.mailbox,
                                    .on_end = note_end,
                                    .end_ctx = &f,
                                    .abandoned_ms = ABANDONED_MS};

    (void)state;
    n_ends = 0;
    f.is_leaving = false;
    mailbox_init(&f.mailbox);
    f.mailbox.is_leaving = &f.is_leaving;
    mailbox_set_progress(&f.mailbox, &p);
    f.port = params.port = client_free_port();
    f.health_port = params.health_port = client_free_port();
    f.metrics_port = params.metrics_port = client_free_port();
    return control_open(&params, &f.control, NULL) == ERR_OK ? 0 : -1;
}

static int set_up(void **state)
{
    return open_ports(state, false);
}

static int tear_down(void **state)
{
    (void)state;
    control_close(f.control);
    mailbox_deinit(&f.mailbox);
    return 0;
}

static int get(const char *path)
{
    return client_call(f.port, "GET", path, "", &key);
}

static int post(const char *path, const char *body)
{
    return client_call(f.port, "POST", path, body, &key);
}

static int health(const char *path)
{
    return client_call(f.health_port, "GET", path, "", NULL);
}

static void control_serves_the_progress_document(void **state)
{
    struct progress p;
    const char *body;

    (void)state;
    assert_int_equal(get("/v1/status"), 200);
    body = strstr(client_answer, "\r\n\r\n");
    assert_non_null(body);
    assert_int_equal(progress_parse(body + 4, strlen(body + 4), &p, NULL), ERR_OK);
    assert_int_equal(p.step, 41);
}

static void control_takes_a_peer_table_and_refuses_a_foreign_one(void **state)
{
    struct peers got;

    (void)state;
    assert_int_equal(post("/v1/peers", "{\"revision\":9,\"peers\":[]}"), 409);
    assert_int_equal(post("/v1/peers", "{\"revision\":"), 400);
    assert_int_equal(post("/v1/peers", TABLE), 200);
    assert_int_equal(mailbox_wait_peers(&f.mailbox, 0, &got, NULL), ERR_OK);
    assert_int_equal(got.list[1].port, 2);
}

static void control_takes_the_same_table_again_and_no_different_one(void **state)
{
    struct peers got;

    (void)state;
    assert_int_equal(post("/v1/peers", TABLE), 200);
    assert_int_equal(post("/v1/peers", TABLE), 200);
    assert_int_equal(post("/v1/peers", OTHER_TABLE), 409);
    assert_int_equal(mailbox_wait_peers(&f.mailbox, 0, &got, NULL), ERR_OK);
    assert_int_equal(got.list[1].port, 2);
}

/* Whatever is asked and whatever the worker's state, the answer is the same. */
static void control_tells_strangers_nothing(void **state)
{
    static const struct {
        const char *method, *path, *body;
    } asked[] = {{"GET", "/v1/status", ""},
                 {"POST", "/v1/peers", TABLE},
                 {"POST", "/v1/peers", OTHER_TABLE},
                 {"POST", "/v1/peers", "{"},
                 {"GET", "/", ""},
                 {"DELETE", "/v1/status", ""}};
    const struct hmac_key *keys[] = {NULL, &other_key};
    char first[sizeof client_answer] = "";
    struct peers got;

    (void)state;
    for (size_t i = 0; i < 2 * sizeof asked / sizeof asked[0]; i++) {
        size_t k = i / 2;

        if (i == 2 * sizeof asked / sizeof asked[0] - 2)
            assert_int_equal(post("/v1/peers", OTHER_TABLE), 200);
        assert_int_equal(
            client_call(f.port, asked[k].method, asked[k].path, asked[k].body, keys[i % 2]), 403);
        if (i == 0)
            memcpy(first, client_answer, sizeof first);
        assert_string_equal(client_answer, first);
    }
    assert_null(strpbrk(strstr(first, "\r\n\r\n"), "0123456789"));
    assert_int_equal(mailbox_wait_peers(&f.mailbox, 0, &got, NULL), ERR_OK);
    assert_int_equal(got.list[1].port, 3); /* only what was signed has come in */
}

static void control_refuses_a_signature_of_another_request(void **state)
{
    char request[4096];
    size_t n = client_request("POST", "/v1/peers", TABLE, &key, request);
    char *port = strstr(request, "\"port\":2");

    (void)state;
    port[7] = '3';
    assert_int_equal(client_ask(f.port, request, n), 403);
    port[7] = '2';
    assert_int_equal(client_ask(f.port, request, n), 200);
}

static void control_knows_no_other_pages_or_methods(void **state)
{
    (void)state;
    assert_int_equal(get("/"), 404);
    assert_int_equal(get("/healthz"), 404);
    assert_int_equal(get("/v1/status/../../etc/passwd"), 404);
    assert_int_equal(post("/v1/status", "x"), 405);
}

static void control_survives_garbage_and_oversize(void **state)
{
    static char huge[PEERS_TEXT_MAX_BYTES * 2];
    static const char bytes[] = "\x00\xff\x16\x03\x01PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    char head[128];
    int fd = client_dial(f.port);
    int n =
        snprintf(head, sizeof head,
                 "POST /v1/peers HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n", sizeof huge);

    (void)state;
    memset(huge, 'x', sizeof huge);
    memcpy(huge, head, (size_t)n);
    (void)client_ask(f.port, bytes, sizeof bytes);
    (void)client_ask(f.port, huge, sizeof huge);
    assert_int_equal(send(fd, "GET /v1/status HTTP/1.1\r\n", 25, 0), 25); /* never finished */
    assert_int_equal(get("/v1/status"), 200);
    close(fd);
}

static void health_is_ready_only_when_connected_and_tells_nothing_else(void **state)
{
    (void)state;
    assert_int_equal(health("/healthz"), 200);
    assert_int_equal(health("/readyz"), 503);
    atomic_store(&f.mailbox.is_ready, true);
    assert_int_equal(health("/readyz"), 200);
    assert_int_equal(health("/v1/status"), 404);
    assert_int_equal(client_call(f.health_port, "POST", "/v1/peers", TABLE, &key), 405);
}

static int metrics(const char *method, const char *path)
{
    return client_call(f.metrics_port, method, path, "", NULL);
}

static void metrics_are_all_that_the_metrics_port_serves(void **state)
{
    (void)state;
    assert_int_equal(metrics("GET", "/metrics"), 200);
    assert_non_null(strstr(client_answer, "\r\nContent-Type: text/plain; version=0.0.4\r\n"));
    assert_non_null(strstr(client_answer, "\nskyjob_worker_revision 1\n"));
    assert_non_null(strstr(client_answer, "\nprocess_resident_memory_bytes "));
    assert_int_equal(metrics("GET", "/metrics?a=b"), 200);
    assert_int_equal(metrics("GET", "/metricsa"), 404);
    assert_int_equal(metrics("GET", "/v1/status"), 404);
    assert_int_equal(metrics("POST", "/metrics"), 405);
    assert_int_equal(get("/metrics"), 404);
    assert_int_equal(health("/metrics"), 404);
}

/* Idle ones, and ones that have begun a request and send no more of it. */
static void hold(int port, int *fds, int n)
{
    for (int i = 0; i < n; i++) {
        fds[i] = client_dial(port);
        if (i % 2)
            assert_int_equal(send(fds[i], "GET /v1/status HTTP/1.1\r\n", 25, MSG_NOSIGNAL), 25);
    }
}

static void let_go(const int *fds, int n)
{
    for (int i = 0; i < n; i++)
        close(fds[i]);
}

static void control_answers_the_operator_through_200_slow_connections(void **state)
{
    int fds[N_SLOW];
    int64_t start_ms;

    (void)state;
    hold(f.port, fds, N_SLOW);
    start_ms = clock_now_ms();
    assert_int_equal(get("/v1/status"), 200);
    assert_int_equal(post("/v1/peers", TABLE), 200);
    assert_int_equal(health("/healthz"), 200);
    assert_true(clock_now_ms() - start_ms < SERVER_REQUEST_MS); /* none had to time out for it */
    let_go(fds, N_SLOW);
}

static void control_answers_the_operator_through_1000_slow_connections(void **state)
{
    struct rlimit limit;
    int fds[N_MORE];
    int64_t start_ms;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max < 4096 ? limit.rlim_max : 4096;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    hold(f.port, fds, N_MORE);
    start_ms = clock_now_ms();
    assert_int_equal(get("/v1/status"), 200);
    assert_int_equal(health("/healthz"), 200);
    assert_true(clock_now_ms() - start_ms < SERVER_REQUEST_MS);
    let_go(fds, N_MORE);
}

/* Connections as fast as they can be made, some with the beginning of a request. */
static void *flood(void *unused)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)f.port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fds[N_FLOOD];

    (void)unused;
    memset(fds, -1, sizeof fds);
    for (size_t i = 0; !atomic_load(&flood_stops); i = (i + 1) % N_FLOOD) {
        if (fds[i] >= 0)
            close(fds[i]);
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)connect(fds[i], (struct sockaddr *)&to, sizeof to);
        if (i % 2)
            (void)!send(fds[i], "GET /", 5, MSG_NOSIGNAL);
        usleep(100);
    }
    for (size_t i = 0; i < N_FLOOD; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    return NULL;
}

/* The operator would call again: one of a few calls is enough. */
static void control_answers_the_operator_through_a_flood_of_connections(void **state)
{
    pthread_t thread;
    int status = 0;

    (void)state;
    atomic_store(&flood_stops, false);
    assert_int_equal(pthread_create(&thread, NULL, flood, NULL), 0);
    usleep(200000);
    for (int i = 0; i < 4 && status != 200; i++)
        status = get("/v1/status");
    assert_int_equal(status, 200);
    assert_int_equal(health("/healthz"), 200);
    atomic_store(&flood_stops, true);
    pthread_join(thread, NULL);
}

static void health_answers_through_200_slow_connections_on_either_port(void **state)
{
    int fds[2 * N_SLOW];
    int64_t start_ms;

    (void)state;
    hold(f.port, fds, N_SLOW);
    hold(f.health_port, fds + N_SLOW, N_SLOW);
    start_ms = clock_now_ms();
    assert_int_equal(health("/healthz"), 200);
    assert_int_equal(health("/readyz"), 503);
    assert_int_equal(get("/v1/status"), 200);
    assert_true(clock_now_ms() - start_ms < SERVER_REQUEST_MS);
    let_go(fds, 2 * N_SLOW);
}

/* --- of a worker that takes revisions --- */

static int set_up_worker(void **state)
{
    struct report self = {.slot = 3, .incarnation = 2};

    if (open_ports(state, true) != 0)
        return -1;
    mailbox_set_report(&f.mailbox, &self);
    return 0;
}

/* The body of POST /v1/revision; filled up with blanks to `n_least` bytes. */
static struct buf revision_body(int number, int incarnation, size_t n_least)
{
    static const char spec[] = "{\"model\":{\"preset\":\"BertTiny\"},"
                               "\"data\":{\"source\":{\"sample\":\"MNLI\"}}}";
    static struct revision r;
    struct peers addresses = {.revision = number, .n = 1, .list = {{"127.0.0.1", 1, ""}}};
    struct buf text = {.max = REVISION_TEXT_MAX_BYTES}, body = {.max = REVISION_POST_MAX_BYTES};
    struct json *json = NULL;

    assert_int_equal(json_parse(spec, strlen(spec), &json, NULL), ERR_OK);
    r.plan = (struct plan){.namespace = "default",
                           .job = "job",
                           .uid = "6f1c",
                           .revision = number,
                           .micro_batches = 1,
                           .n_workers = 1,
                           .summary = {.explanation = "a test"}};
    assert_int_equal(spec_parse(json, &r.plan.spec, NULL), ERR_OK);
    r.plan.workers[0] = (struct plan_worker){.slot = 3,
                                             .incarnation = incarnation,
                                             .n_units = model_units(&r.plan.spec.model),
                                             .node = "here"};
    resume_point(&r.plan, NULL, 0, SOURCE_RANDOM, NULL, &r.resume);
    assert_int_equal(revision_write(&r, json, &text, NULL), ERR_OK);
    assert_int_equal(revision_post_write(text.data, text.len, &addresses, &body, NULL), ERR_OK);
    while (body.len < n_least)
        assert_int_equal(buf_add(&body, " ", 1, NULL), ERR_OK);
    json_free(json);
    buf_deinit(&text);
    return body;
}

/* With the signature of the head, or with a wrong one. */
static int post_signed(const char *path, const struct buf *body, bool has_head_signature)
{
    struct signature_request signs = {"POST", path, body->data, body->len};
    struct buf request = {.max = body->len + 4096};
    char whole[HMAC_TEXT_BYTES], head[HMAC_TEXT_BYTES];
    int status;

    assert_int_equal(signature_make(&key, &signs, whole, NULL), ERR_OK);
    assert_int_equal(
        signature_make_head(has_head_signature ? &key : &other_key, &signs, head, NULL), ERR_OK);
    assert_int_equal(buf_addf(&request, NULL,
                              "POST %s HTTP/1.1\r\n" SIGNATURE_HEADER
                              ": %s\r\n" SIGNATURE_HEAD_HEADER
                              ": %s\r\nContent-Length: %zu\r\n\r\n",
                              path, whole, head, body->len),
                     ERR_OK);
    if (body->len <= SERVER_BODY_MAX_BYTES || has_head_signature)
        assert_int_equal(buf_add(&request, body->data, body->len, NULL), ERR_OK);
    status = client_ask(f.port, request.data, request.len);
    buf_deinit(&request);
    return status;
}

static int post_revision(int number, int incarnation)
{
    struct buf body = revision_body(number, incarnation, 0);
    int status = post_signed("/v1/revision", &body, true);

    buf_deinit(&body);
    return status;
}

static enum report_session session_of_report(void)
{
    static struct report r;
    const char *body;

    assert_int_equal(get("/v1/report"), 200);
    body = strstr(client_answer, "\r\n\r\n");
    assert_non_null(body);
    assert_int_equal(report_parse(body + 4, strlen(body + 4), &r, NULL), ERR_OK);
    assert_int_equal(r.slot, 3);
    return r.session;
}

static void control_takes_revisions_and_serves_the_report(void **state)
{
    (void)state;
    assert_int_equal(session_of_report(), REPORT_NONE);
    assert_int_equal(post("/v1/revision", "{}"), 400);
    assert_int_equal(post_revision(4, 1), 409); /* for the pod before */
    assert_int_equal(post_revision(4, 2), 200);
    assert_int_equal(session_of_report(), REPORT_RUNNING);
    assert_int_equal(post_revision(4, 2), 200); /* again: nothing changes */
    assert_int_equal(post_revision(3, 2), 409);
    assert_non_null(strstr(client_answer, "revision 3 is older than 4"));
    assert_int_equal(post_revision(5, 2), 200);
}

static void control_halts_a_revision_and_no_newer_one(void **state)
{
    (void)state;
    assert_int_equal(post_revision(4, 2), 200);
    atomic_store(&f.mailbox.stops, false);
    assert_int_equal(post("/v1/halt", "{\"revision\":3}"), 409);
    assert_false(atomic_load(&f.mailbox.stops));
    assert_int_equal(post("/v1/halt", "{}"), 400);
    assert_int_equal(post("/v1/halt", "{\"revision\":4}"), 200);
    assert_true(atomic_load(&f.mailbox.stops));
}

static void control_takes_a_large_revision_only_with_a_signed_head(void **state)
{
    struct buf body = revision_body(4, 2, SERVER_BODY_MAX_BYTES + 1);

    (void)state;
    assert_int_equal(post_signed("/v1/revision", &body, false), 413);
    assert_int_equal(session_of_report(), REPORT_NONE);
    assert_int_equal(post_signed("/v1/revision", &body, true), 200);
    assert_int_equal(session_of_report(), REPORT_RUNNING);
    buf_deinit(&body);
}

static void control_of_a_worker_with_revisions_takes_no_peer_table(void **state)
{
    (void)state;
    assert_int_equal(post("/v1/peers", TABLE), 405);
}

static void control_of_a_worker_with_a_plan_takes_no_orders(void **state)
{
    (void)state;
    assert_int_equal(get("/v1/report"), 404);
    assert_int_equal(post("/v1/halt", "{\"revision\":1}"), 405);
    assert_int_equal(post("/v1/checkpoint", "{\"order\":1}"), 405);
    assert_int_equal(post("/v1/end", ""), 405);
}

static void wait_end(void)
{
    for (int64_t until_ms = clock_now_ms() + 10000; n_ends == 0 && clock_now_ms() < until_ms;)
        (void)usleep(1000);
    assert_int_equal(n_ends, 1);
}

static void control_ends_the_process_once_the_order_is_answered(void **state)
{
    (void)state;
    assert_int_equal(client_call(f.port, "POST", "/v1/end", "", &other_key), 403);
    assert_int_equal(get("/v1/end"), 404);
    assert_int_equal(n_ends, 0);
    assert_int_equal(post("/v1/end", ""), 200);
    wait_end();
    assert_int_equal(post("/v1/end", ""), 200);
    (void)usleep(2 * ABANDONED_MS * 1000);
    assert_int_equal(n_ends, 1);
}

static void control_ends_a_worker_that_leaves_when_no_one_calls(void **state)
{
    int64_t start_ms;

    (void)state;
    (void)usleep(2 * ABANDONED_MS * 1000);
    assert_int_equal(n_ends, 0); /* it does not leave */
    start_ms = clock_now_ms();
    f.is_leaving = true;
    wait_end();
    assert_true(end_ms - start_ms >= ABANDONED_MS);
}

static void control_counts_from_the_last_call_that_was_signed(void **state)
{
    int64_t start_ms = clock_now_ms();
    int64_t called_ms = start_ms;

    (void)state;
    f.is_leaving = true;
    while (called_ms < start_ms + 3 * ABANDONED_MS) {
        called_ms = clock_now_ms();
        assert_int_equal(get("/v1/report"), 200);
        assert_int_equal(client_call(f.port, "GET", "/v1/report", "", &other_key), 403);
        (void)usleep(ABANDONED_MS * 1000 / 10);
    }
    assert_int_equal(n_ends, 0);
    while (n_ends == 0 && clock_now_ms() < called_ms + 10000) {
        assert_int_equal(client_call(f.port, "GET", "/v1/report", "", &other_key), 403);
        assert_int_equal(health("/healthz"), 200);
        (void)usleep(1000);
    }
    assert_int_equal(n_ends, 1);
    assert_true(end_ms - called_ms >= ABANDONED_MS);
}

static void control_takes_an_order_for_a_checkpoint(void **state)
{
    (void)state;
    assert_int_equal(post("/v1/checkpoint", "{\"order\":7}"), 200);
    assert_int_equal(post("/v1/checkpoint", "{\"order\":7}"), 200);
    assert_int_equal(post("/v1/checkpoint", "{\"order\":0}"), 400);
    assert_int_equal(post("/v1/checkpoint", ""), 400);
    assert_int_equal(mailbox_ordered(&f.mailbox), 7);
}

#define TEST(name)        cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define WORKER_TEST(name) cmocka_unit_test_setup_teardown(name, set_up_worker, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(control_serves_the_progress_document),
        TEST(control_takes_a_peer_table_and_refuses_a_foreign_one),
        TEST(control_takes_the_same_table_again_and_no_different_one),
        TEST(control_tells_strangers_nothing),
        TEST(control_refuses_a_signature_of_another_request),
        TEST(control_knows_no_other_pages_or_methods),
        TEST(control_survives_garbage_and_oversize),
        TEST(health_is_ready_only_when_connected_and_tells_nothing_else),
        TEST(metrics_are_all_that_the_metrics_port_serves),
        TEST(control_answers_the_operator_through_200_slow_connections),
        TEST(control_answers_the_operator_through_1000_slow_connections),
        TEST(control_answers_the_operator_through_a_flood_of_connections),
        TEST(health_answers_through_200_slow_connections_on_either_port),
        WORKER_TEST(control_takes_revisions_and_serves_the_report),
        WORKER_TEST(control_halts_a_revision_and_no_newer_one),
        WORKER_TEST(control_takes_a_large_revision_only_with_a_signed_head),
        WORKER_TEST(control_takes_an_order_for_a_checkpoint),
        WORKER_TEST(control_of_a_worker_with_revisions_takes_no_peer_table),
        WORKER_TEST(control_ends_the_process_once_the_order_is_answered),
        WORKER_TEST(control_ends_a_worker_that_leaves_when_no_one_calls),
        WORKER_TEST(control_counts_from_the_last_call_that_was_signed),
        TEST(control_of_a_worker_with_a_plan_takes_no_orders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
