/* Calls to workers and what their answers mean, over a real socket. */
#include "fleet/fleet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/signature.h"
#include "base/clock.h"
#include "certificates.h"
#include "client.h"
#include "http/server.h"
#include "loopback.h"

#define PATIENCE_MS 10000

static struct http *loop;
static struct fleet *fleet;
static struct loopback *server;

static int make_fleet(void **state)
{
    (void)state;
    if (http_new(&loop, NULL) != ERR_OK)
        return -1;
    return fleet_new(loop, &fleet, NULL) == ERR_OK ? 0 : -1;
}

static int free_fleet(void **state)
{
    (void)state;
    fleet_free(fleet);
    fleet = NULL;
    http_free(loop);
    if (server)
        loopback_stop(server);
    server = NULL;
    return 0;
}

#define SERVE(...)                                                                                 \
    static const struct loopback_reply replies[] = {__VA_ARGS__};                                  \
    server = loopback_start(replies, sizeof replies / sizeof *replies);                            \
    assert_non_null(server)

static struct fleet_address address(void)
{
    return (struct fleet_address){
        .host = "127.0.0.1", .port = loopback_port(server), .key = {{1, 2, 3}}};
}

struct heard {
    int n;
    bool has_progress;
    struct progress progress;
    bool has_report;
    struct report report;
    struct err err;
};

static void hear(void *ctx, const struct fleet_answer *answer, const struct err *err)
{
    struct heard *h = ctx;

    h->n++;
    h->err = *err;
    h->has_progress = answer->progress;
    if (answer->progress)
        h->progress = *answer->progress;
    h->has_report = answer->report;
    if (answer->report)
        h->report = *answer->report;
}

static void wait_for(struct heard *h)
{
    int64_t until = clock_now_ms() + PATIENCE_MS;

    while (h->n == 0 && clock_now_ms() < until)
        assert_int_equal(http_poll(loop, 20, NULL), ERR_OK);
    assert_int_equal(h->n, 1);
}

static struct heard ask(void)
{
    struct heard h = {0};
    struct fleet_address to = address();

    assert_int_equal(
        fleet_ask_status(fleet, &to, (struct fleet_handler){.ctx = &h, .on_answer = hear}, NULL),
        ERR_OK);
    wait_for(&h);
    return h;
}

static const struct peers two = {
    .revision = 3,
    .n = 2,
    .list = {{.host = "10.0.0.1", .port = 7071}, {.host = "fd00::2", .port = 7071}}};

static struct heard post(void)
{
    struct heard h = {0};
    struct fleet_address to = address();

    assert_int_equal(fleet_post_peers(fleet, &to, &two,
                                      (struct fleet_handler){.ctx = &h, .on_answer = hear}, NULL),
                     ERR_OK);
    wait_for(&h);
    return h;
}

static void fleet_hears_what_a_worker_says_of_itself(void **state)
{
    SERVE({.expect = "GET /v1/status",
           .body = "{\"state\": \"Training\", \"cause\": \"\", \"step\": 7, \"hasPeers\": true}"});
    struct heard h = ask();

    (void)state;
    assert_int_equal(h.err.code, ERR_OK);
    assert_true(h.has_progress);
    assert_int_equal(h.progress.step, 7);
}

static void answer_training(void *ctx, const struct server_request *r, struct server_answer *out)
{
    (void)ctx;
    assert_string_equal(r->path, "/v1/status");
    assert_int_equal(buf_addf(&out->body, NULL,
                              "{\"state\": \"Training\", \"cause\": \"\", \"step\": 7, "
                              "\"hasPeers\": true}"),
                     ERR_OK);
}

static void fleet_with_an_identity_hears_only_the_worker_that_it_means(void **state)
{
    struct authority_pair ca = certificates_authority();
    struct tls_identity *worker = certificates_identity(&ca, &ca, "w1-2.u.skyjob.internal");
    struct tls_identity *caller = certificates_identity(&ca, &ca, "operator.u.skyjob.internal");
    struct server_handler handler = {
        .on_request = answer_training, .identity = worker, .client = "operator.u.skyjob.internal"};
    struct fleet_address to = {.host = "127.0.0.1",
                               .port = client_free_port(),
                               .identity = caller,
                               .name = "w1-2.u.skyjob.internal"};
    struct server *control = NULL;

    (void)state;
    assert_int_equal(server_open("127.0.0.1", to.port, handler, &control, NULL), ERR_OK);
    for (int i = 0; i < 2; i++) {
        struct heard h = {0};

        assert_int_equal(fleet_ask_status(fleet, &to,
                                          (struct fleet_handler){.ctx = &h, .on_answer = hear},
                                          NULL),
                         ERR_OK);
        wait_for(&h);
        assert_int_equal(h.err.code, i == 0 ? ERR_OK : ERR_IO);
        assert_int_equal(h.has_progress, i == 0);
        (void)snprintf(to.name, sizeof to.name, "w1-3.u.skyjob.internal");
    }
    server_close(control);
    tls_identity_free(worker);
    tls_identity_free(caller);
    authority_pair_deinit(&ca);
}

static void fleet_takes_nonsense_for_a_broken_protocol(void **state)
{
    SERVE({.expect = "GET /v1/status", .body = "{\"state\": \"Sleeping\"}"});
    struct heard h = ask();

    (void)state;
    assert_int_equal(h.err.code, ERR_PROTOCOL);
    assert_false(h.has_progress);
}

static void fleet_reads_no_endless_answer(void **state)
{
    static char body[PROGRESS_TEXT_MAX_BYTES + 100];
    struct heard h;

    (void)state;
    memset(body, ' ', sizeof body - 1);
    SERVE({.expect = "GET /v1/status", .body = body});
    h = ask();
    assert_int_equal(h.err.code, ERR_LIMIT);
}

static void fleet_hands_out_the_table(void **state)
{
    SERVE({.expect = "POST /v1/peers", .body = "ok\n"});
    struct heard h = post();

    (void)state;
    assert_int_equal(h.err.code, ERR_OK);
    assert_false(h.has_progress);
    assert_non_null(strstr(loopback_request(server, 0), "{\"host\":\"fd00::2\",\"port\":7071}"));
}

static void fleet_signs_every_call_and_sends_no_key(void **state)
{
    SERVE({.expect = "POST /v1/peers"}, {.expect = "GET /v1/status", .body = "{}"});
    static const char body[] = "{\"revision\":3,\"peers\":[{\"host\":\"10.0.0.1\",\"port\":7071},"
                               "{\"host\":\"fd00::2\",\"port\":7071}]}";
    struct fleet_address to = address();
    struct signature_request signs = {"POST", "/v1/peers", body, sizeof body - 1};
    char line[200];
    char text[HMAC_TEXT_BYTES];

    (void)state;
    (void)post();
    (void)ask();
    assert_int_equal(signature_make(&to.key, &signs, text, NULL), ERR_OK);
    (void)snprintf(line, sizeof line, "\r\nSkyjob-Signature: %s\r\n", text);
    assert_non_null(strstr(loopback_request(server, 0), body));
    assert_non_null(strstr(loopback_request(server, 0), line));
    signs = (struct signature_request){"GET", "/v1/status", NULL, 0};
    assert_int_equal(signature_make(&to.key, &signs, text, NULL), ERR_OK);
    assert_non_null(strstr(loopback_request(server, 1), text));
    hmac_to_text(to.key.bytes, text);
    assert_null(strstr(loopback_request(server, 0), text));
}

#define HANDLER(h) ((struct fleet_handler){.ctx = (h), .on_answer = hear})

static void fleet_posts_a_revision_as_it_was_written(void **state)
{
    SERVE({.expect = "POST /v1/revision"});
    static char text[] = "{\"lineage\":  7}"; /* two spaces, which no writer makes */
    static const char body[] =
        "{\"revision\":{\"lineage\":  7},\"addresses\":{\"revision\":3,"
        "\"peers\":[{\"host\":\"10.0.0.1\",\"port\":7071},{\"host\":\"fd00::2\","
        "\"port\":7071}]}}";
    const struct buf revision = {.data = text, .len = sizeof text - 1};
    struct fleet_address to = address();
    struct signature_request is_signed = {"POST", "/v1/revision", body, sizeof body - 1};
    char line[200];
    char signature[HMAC_TEXT_BYTES];
    struct heard h = {0};

    (void)state;
    assert_int_equal(fleet_post_revision(fleet, &to, &revision, &two, HANDLER(&h), NULL), ERR_OK);
    wait_for(&h);
    assert_int_equal(h.err.code, ERR_OK);
    assert_non_null(strstr(loopback_request(server, 0), body));
    assert_int_equal(signature_make_head(&to.key, &is_signed, signature, NULL), ERR_OK);
    (void)snprintf(line, sizeof line, "\r\nSkyjob-Head-Signature: %s\r\n", signature);
    assert_non_null(strstr(loopback_request(server, 0), line));
}

static void fleet_halts_a_revision_by_its_number(void **state)
{
    SERVE({.expect = "POST /v1/halt", .body = "ok\n"});
    struct fleet_address to = address();
    struct heard h = {0};

    (void)state;
    assert_int_equal(fleet_halt(fleet, &to, 7, HANDLER(&h), NULL), ERR_OK);
    wait_for(&h);
    assert_int_equal(h.err.code, ERR_OK);
    assert_non_null(strstr(loopback_request(server, 0), "{\"revision\":7}"));
}

static void fleet_orders_an_end_with_a_signed_request(void **state)
{
    SERVE({.expect = "POST /v1/end"});
    struct fleet_address to = address();
    struct signature_request is_signed = {"POST", "/v1/end", NULL, 0};
    char signature[HMAC_TEXT_BYTES];
    struct heard h = {0};

    (void)state;
    assert_int_equal(fleet_end(fleet, &to, HANDLER(&h), NULL), ERR_OK);
    wait_for(&h);
    assert_int_equal(h.err.code, ERR_OK);
    assert_int_equal(signature_make(&to.key, &is_signed, signature, NULL), ERR_OK);
    assert_non_null(strstr(loopback_request(server, 0), signature));
}

static void fleet_hears_what_a_worker_holds(void **state)
{
    SERVE({.expect = "GET /v1/report",
           .body = "{\"version\":2,\"slot\":2,\"incarnation\":1,\"revision\":7,\"session\":"
                   "\"Halted\",\"lineage\":1,\"runs\":[{\"firstUnit\":3,\"unitCount\":2,"
                   "\"step\":41}]}"},
          {.expect = "GET /v1/report", .body = "{\"version\":2}"});
    struct fleet_address to = address();
    struct heard h = {0};

    (void)state;
    assert_int_equal(fleet_ask_report(fleet, &to, HANDLER(&h), NULL), ERR_OK);
    wait_for(&h);
    assert_true(h.has_report && !h.has_progress);
    assert_int_equal(h.report.slot, 2);
    assert_int_equal(report_find(&h.report, 4)->step, 41);
    h.n = 0;
    assert_int_equal(fleet_ask_report(fleet, &to, HANDLER(&h), NULL), ERR_OK);
    wait_for(&h);
    assert_int_equal(h.err.code, ERR_PROTOCOL);
    assert_false(h.has_report);
}

static void fleet_tells_a_conflict_from_a_bad_table(void **state)
{
    SERVE({.expect = "POST /v1/peers", .status = 409, .body = "this is revision 4\n"},
          {.expect = "POST /v1/peers", .status = 400, .body = "no"},
          {.expect = "POST /v1/peers", .status = 403, .body = "not authenticated"},
          {.expect = "POST /v1/peers", .status = 500}, {.expect = "POST /v1/peers", .status = 302});
    struct heard h = post();

    (void)state;
    assert_int_equal(h.err.code, ERR_CONFLICT);
    assert_string_equal(h.err.text, "worker answered 409: this is revision 4");
    assert_int_equal(post().err.code, ERR_INVALID);
    assert_int_equal(post().err.code, ERR_DENIED);
    assert_int_equal(post().err.code, ERR_IO);
    assert_int_equal(post().err.code, ERR_PROTOCOL);
}

static void fleet_gives_up_on_a_worker_that_hangs(void **state)
{
    SERVE({.expect = "GET /v1/status", .raw = "HTTP/1.1 200 OK\r\n", .end = LOOPBACK_HANG});
    int64_t from = clock_now_ms();
    struct heard h = ask();

    (void)state;
    assert_int_equal(h.err.code, ERR_TIMEOUT);
    assert_in_range(clock_now_ms() - from, FLEET_CALL_MS - 100, FLEET_CALL_MS + 2000);
}

#define HANGS                                                                                      \
    {                                                                                              \
        .expect = "GET /v1/status", .raw = "HTTP/1.1 200 OK\r\n", .end = LOOPBACK_HANG             \
    }
static void fleet_that_is_freed_calls_no_handler(void **state)
{
    SERVE(HANGS, HANGS, HANGS);
    struct heard h = {0};
    struct fleet_address to = address();

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(fleet_ask_status(fleet, &to,
                                          (struct fleet_handler){.ctx = &h, .on_answer = hear},
                                          NULL),
                         ERR_OK);
    assert_int_equal(fleet_n_calls(fleet), 3);
    assert_int_equal(http_poll(loop, 50, NULL), ERR_OK);
    fleet_free(fleet);
    fleet = NULL;
    assert_int_equal(http_poll(loop, 50, NULL), ERR_OK);
    assert_int_equal(h.n, 0);
}

static void fleet_refuses_an_address_that_is_none(void **state)
{
    struct heard h = {0};
    struct fleet_address to = {.host = "a b\r\nX: y", .port = 1};

    (void)state;
    assert_int_not_equal(
        fleet_ask_status(fleet, &to, (struct fleet_handler){.ctx = &h, .on_answer = hear}, NULL),
        ERR_OK);
    assert_int_equal(h.n, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_fleet, free_fleet)

/* --- contact --- */

/* A zero is a question, else the revision that was posted. */
#define MAX_MS (4 * CONTACT_RETRY_MS)

static void answer(struct contact *c, enum err_code code, int posted, int64_t now_ms)
{
    struct err err = {.code = code, .text = "why"};

    c->is_busy = true;
    contact_answered(c, &err, posted, now_ms, MAX_MS);
    assert_false(c->is_busy);
}

static void contact_pauses_longer_after_each_call_without_an_answer(void **state)
{
    static const enum err_code codes[] = {ERR_IO, ERR_TIMEOUT, ERR_PROTOCOL, ERR_LIMIT};
    static const int64_t want_ms[] = {CONTACT_RETRY_MS, 2 * CONTACT_RETRY_MS, MAX_MS, MAX_MS};
    struct contact c = {0};

    (void)state;
    assert_int_equal(contact_wait_ms(&c, 1000), 0);
    for (int i = 0; i < 4; i++) {
        answer(&c, codes[i], i % 2, 1000 + i);
        assert_int_equal(contact_wait_ms(&c, 1000 + i), want_ms[i]);
        assert_int_equal(contact_wait_ms(&c, 1000 + i + want_ms[i]), 0);
        assert_int_equal(c.silent_since_ms, 1000); /* of the first of them */
    }
    answer(&c, ERR_OK, 0, 5000);
    assert_int_equal(contact_wait_ms(&c, 5000), 0);
    assert_int_equal(c.silent_since_ms, 0);
    assert_int_equal(c.n_unanswered, 0);
    assert_int_equal(c.accepted, 0); /* it was only asked */
}

static void contact_of_a_refusal_keeps_its_reason_and_pauses(void **state)
{
    static const enum err_code codes[] = {ERR_CONFLICT, ERR_INVALID, ERR_DENIED};

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct contact c = {.n_unanswered = 3, .silent_since_ms = 7};

        answer(&c, codes[i], 7, 1000);
        assert_true(c.is_refused);
        assert_int_equal(c.accepted, 0);
        assert_string_equal(c.refusal, "why");
        assert_int_equal(c.silent_since_ms, 0);
        assert_int_equal(contact_wait_ms(&c, 1000), CONTACT_REFUSED_MS);
        answer(&c, ERR_OK, 7, 9000);
        assert_false(c.is_refused);
        assert_int_equal(c.accepted, 7);
    }
}

static void contact_keeps_its_revision_whatever_questions_are_answered(void **state)
{
    struct contact c = {0};

    (void)state;
    answer(&c, ERR_OK, 3, 1000);
    answer(&c, ERR_TIMEOUT, 0, 2000);
    answer(&c, ERR_DENIED, 0, 3000);
    assert_int_equal(c.accepted, 3);
    assert_false(c.is_refused);
    answer(&c, ERR_TIMEOUT, 4, 4000);
    answer(&c, ERR_CONFLICT, 4, 5000);
    assert_int_equal(c.accepted, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(fleet_hears_what_a_worker_says_of_itself),
        TEST(fleet_with_an_identity_hears_only_the_worker_that_it_means),
        TEST(fleet_takes_nonsense_for_a_broken_protocol),
        TEST(fleet_reads_no_endless_answer),
        TEST(fleet_hands_out_the_table),
        TEST(fleet_signs_every_call_and_sends_no_key),
        TEST(fleet_posts_a_revision_as_it_was_written),
        TEST(fleet_halts_a_revision_by_its_number),
        TEST(fleet_orders_an_end_with_a_signed_request),
        TEST(fleet_hears_what_a_worker_holds),
        TEST(fleet_tells_a_conflict_from_a_bad_table),
        TEST(fleet_gives_up_on_a_worker_that_hangs),
        TEST(fleet_that_is_freed_calls_no_handler),
        TEST(fleet_refuses_an_address_that_is_none),
        cmocka_unit_test(contact_pauses_longer_after_each_call_without_an_answer),
        cmocka_unit_test(contact_of_a_refusal_keeps_its_reason_and_pauses),
        cmocka_unit_test(contact_keeps_its_revision_whatever_questions_are_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
