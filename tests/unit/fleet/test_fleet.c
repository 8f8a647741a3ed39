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
#include "fleet/fleet.h"
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
    struct err err;
};

static void hear(void *ctx, const struct progress *progress, const struct err *err)
{
    struct heard *h = ctx;

    h->n++;
    h->err = *err;
    h->has_progress = progress != NULL;
    if (progress)
        h->progress = *progress;
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
    .attempt = 3,
    .n_stages = 2,
    .stages = {{.host = "10.0.0.1", .port = 7071}, {.host = "fd00::2", .port = 7071}}};

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
    static const char body[] = "{\"attempt\":3,\"stages\":[{\"host\":\"10.0.0.1\",\"port\":7071},"
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

static void fleet_tells_another_attempt_from_a_bad_table(void **state)
{
    SERVE({.expect = "POST /v1/peers", .status = 409, .body = "table is for attempt 3, I am 4\n"},
          {.expect = "POST /v1/peers", .status = 400, .body = "no"},
          {.expect = "POST /v1/peers", .status = 403, .body = "not authenticated"},
          {.expect = "POST /v1/peers", .status = 500}, {.expect = "POST /v1/peers", .status = 302});
    struct heard h = post();

    (void)state;
    assert_int_equal(h.err.code, ERR_CONFLICT);
    assert_string_equal(h.err.text, "worker answered 409: table is for attempt 3, I am 4");
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

/* --- follow --- */

/* Until every reply of the server was taken, and the leader's is the one with `step`. */
static void run_follow(struct follow *f, int64_t step)
{
    int64_t until = clock_now_ms() + PATIENCE_MS;

    while (clock_now_ms() < until) {
        const struct progress *head = follow_progress(f);
        int64_t wait_ms = follow_step(f, clock_now_ms());

        if (loopback_unused(server) == 0 && head && head->step == step)
            return;
        assert_in_range(wait_ms, 0, FOLLOW_ASK_MS);
        assert_int_equal(http_poll(loop, wait_ms < 20 ? wait_ms : 20, NULL), ERR_OK);
    }
    fail_msg("%d replies are left", loopback_unused(server));
}

#define STATUS(n) "{\"state\": \"Training\", \"cause\": \"\", \"step\": " #n "}"

static void follow_repeats_until_all_have_the_table_and_keeps_asking_the_leader(void **state)
{
    SERVE({.expect = "POST /v1/peers", .end = LOOPBACK_CLOSE},
          {.expect = "POST /v1/peers", .raw = "", .end = LOOPBACK_RESET},
          {.expect = "POST /v1/peers", .status = 503}, {.expect = "POST /v1/peers"},
          {.expect = "GET /v1/status", .body = STATUS(1)},
          {.expect = "GET /v1/status", .raw = "", .end = LOOPBACK_RESET},
          {.expect = "GET /v1/status", .body = STATUS(2)});
    struct fleet_address control[2] = {address(), address()};
    struct follow *f = NULL;

    (void)state;
    assert_int_equal(follow_new(fleet, &two, control, &f, NULL), ERR_OK);
    assert_null(follow_progress(f));
    run_follow(f, 2);
    assert_null(follow_refusal(f));
    assert_int_equal(loopback_strays(server), 0);
    fleet_free(fleet);
    fleet = NULL;
    follow_free(f);
}

static void follow_reports_a_refusal_with_its_reason(void **state)
{
    SERVE({.expect = "GET /v1/status", .body = STATUS(1)}, {.expect = "POST /v1/peers"},
          {.expect = "POST /v1/peers", .status = 409, .body = "another attempt\n"});
    struct fleet_address control[2] = {address(), address()};
    struct follow *f = NULL;

    (void)state;
    assert_int_equal(follow_new(fleet, &two, control, &f, NULL), ERR_OK);
    for (int i = 0; i < 500 && !follow_refusal(f); i++) {
        (void)follow_step(f, clock_now_ms());
        assert_int_equal(http_poll(loop, 10, NULL), ERR_OK);
    }
    assert_non_null(follow_refusal(f));
    assert_non_null(strstr(follow_refusal(f), "worker answered 409: another attempt"));
    fleet_free(fleet);
    fleet = NULL;
    follow_free(f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_fleet, free_fleet)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(fleet_hears_what_a_worker_says_of_itself),
        TEST(fleet_takes_nonsense_for_a_broken_protocol),
        TEST(fleet_reads_no_endless_answer),
        TEST(fleet_hands_out_the_table),
        TEST(fleet_signs_every_call_and_sends_no_key),
        TEST(fleet_tells_another_attempt_from_a_bad_table),
        TEST(fleet_gives_up_on_a_worker_that_hangs),
        TEST(fleet_that_is_freed_calls_no_handler),
        TEST(fleet_refuses_an_address_that_is_none),
        TEST(follow_repeats_until_all_have_the_table_and_keeps_asking_the_leader),
        TEST(follow_reports_a_refusal_with_its_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
