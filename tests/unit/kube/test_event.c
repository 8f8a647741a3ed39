#include "kube/event.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "loopback.h"

static struct http *loop;
static struct loopback *server;
static struct kube_client *client;
static struct kube_recorder recorder;
static struct err err;

#define SERVE(...)                                                                                 \
    static const struct loopback_reply replies[] = {__VA_ARGS__};                                  \
    begin(replies, sizeof replies / sizeof *replies)

static void begin(const struct loopback_reply *replies, size_t n)
{
    struct kube_config config = {.namespace = strdup("default")};

    server = loopback_start(replies, n);
    assert_non_null(server);
    assert_true(asprintf(&config.server, "http://127.0.0.1:%d", loopback_port(server)) > 0);
    assert_int_equal(http_new(&loop, &err), ERR_OK);
    assert_int_equal(kube_client_new(loop, &config, NULL, &client, &err), ERR_OK);
    recorder = (struct kube_recorder){.client = client, .component = "tester"};
}

static int end(void **state)
{
    (void)state;
    kube_client_free(client);
    http_free(loop);
    loopback_stop(server);
    return 0;
}

static void assert_sent(size_t i, const char *part)
{
    if (!strstr(loopback_request(server, i), part))
        fail_msg("request %zu lacks \"%s\":\n%s", i, part, loopback_request(server, i));
}

static const struct kube_event said = {
    .subject = {"v1", "Pod", "ns", "a", "u-1"}, .reason = "Started", .message = "it \"runs\""};

static void event_is_created_once_and_then_counted(void **state)
{

    (void)state;
    SERVE({.expect = "POST /api/v1/namespaces/ns/events?", .status = 201, .body = "{}"},
          {.expect = "POST /api/v1/namespaces/ns/events?", .status = 409},
          {.expect = "GET /api/v1/namespaces/ns/events/a.", .body = "{\"count\":1}"},
          {.expect = "PATCH /api/v1/namespaces/ns/events/a.", .body = "{}"});
    assert_int_equal(kube_event_post(&recorder, &said, &err), ERR_OK);
    assert_sent(0, "\"involvedObject\":{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"namespace\":"
                   "\"ns\",\"name\":\"a\",\"uid\":\"u-1\"}");
    assert_sent(0, "\"type\":\"Normal\",\"reason\":\"Started\",\"message\":\"it \\\"runs\\\"\"");
    assert_sent(0, "\"source\":{\"component\":\"tester\"}");
    assert_int_equal(kube_event_post(&recorder, &said, &err), ERR_OK);
    assert_sent(3, "{\"count\":2,\"lastTimestamp\":\"");
}

static void event_message_is_cut_between_two_characters(void **state)
{
    struct kube_event event = said;
    char message[2000] = "x";
    const char *sent;

    (void)state;
    SERVE({.expect = "POST", .status = 201, .body = "{}"});
    while (strlen(message) < sizeof message - 4)
        strcat(message, "\xe2\x82\xac");
    event.message = message;
    event.subject.namespace = NULL; /* of a node, say */
    assert_int_equal(kube_event_post(&recorder, &event, &err), ERR_OK);
    assert_sent(0, "POST /api/v1/namespaces/default/events?");
    sent = strstr(loopback_request(server, 0), "\"message\":\"");
    assert_non_null(sent);
    assert_int_equal(strcspn(sent + 11, "\""), 1 + 341 * 3);
}

static void events_of_one_reason_are_limited_and_of_another_are_not(void **state)
{
    static struct loopback_reply replies[KUBE_EVENT_BURST + 2];
    struct kube_event event = said;
    char message[32];

    (void)state;
    for (int i = 0; i <= KUBE_EVENT_BURST + 1; i++)
        replies[i] = (struct loopback_reply){.expect = "POST", .status = 201, .body = "{}"};
    begin(replies, KUBE_EVENT_BURST + 2);
    event.message = message;
    for (int i = 0; i <= KUBE_EVENT_BURST; i++) {
        (void)snprintf(message, sizeof message, "number %d", i);
        assert_int_equal(kube_event_post(&recorder, &event, &err),
                         i < KUBE_EVENT_BURST ? ERR_OK : ERR_LIMIT);
    }
    event.reason = "Finished";
    assert_int_equal(kube_event_post(&recorder, &event, &err), ERR_OK);
    event.reason = said.reason;
    event.subject.uid = "u-2";
    assert_int_equal(kube_event_post(&recorder, &event, &err), ERR_OK);
    assert_int_equal(loopback_unused(server), 0);
}

#define TEST(f) cmocka_unit_test_teardown(f, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(event_is_created_once_and_then_counted),
        TEST(event_message_is_cut_between_two_characters),
        TEST(events_of_one_reason_are_limited_and_of_another_are_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
