#include "kube/lease.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "loopback.h"

#define US   "us_1"
#define THEM "them_2"

static struct lease_view view_of(const char *version, const char *holder)
{
    struct lease_record record = {.duration_ms = 15000, .n_transitions = 3};
    struct lease_view view = {0};

    (void)snprintf(record.version, sizeof record.version, "%s", version);
    (void)snprintf(record.holder, sizeof record.holder, "%s", holder);
    (void)snprintf(record.acquired, sizeof record.acquired, "2026-01-01T00:00:00.000000Z");
    lease_observe(&view, &record, 1000);
    return view;
}

/* --- decisions --- */

static void a_lease_of_nobody_and_one_of_our_own_are_free(void **state)
{
    struct lease_view none = {0};
    struct lease_view nobody = view_of("1", ""), ours = view_of("1", US);

    (void)state;
    assert_true(lease_is_free(&none, US, 0));
    assert_true(lease_is_free(&nobody, US, 1001));
    assert_true(lease_is_free(&ours, US, 1001));
}

static void a_lease_of_another_is_free_when_it_was_not_seen_to_change_for_its_duration(void **state)
{
    struct lease_view view = view_of("1", THEM);
    struct lease_record record = view.record;

    (void)state;
    assert_false(lease_is_free(&view, US, 1001));
    assert_false(lease_is_free(&view, US, 15999));
    assert_true(lease_is_free(&view, US, 16000));
    lease_observe(&view, &record, 15000); /* seen again: no change */
    assert_true(lease_is_free(&view, US, 16000));
    strcpy(record.version, "2");
    lease_observe(&view, &record, 15500);
    assert_false(lease_is_free(&view, US, 30499));
    assert_true(lease_is_free(&view, US, 30500));
}

static void the_times_in_a_lease_decide_nothing(void **state)
{
    static const char text[] =
        "{\"metadata\":{\"resourceVersion\":\"7\"},\"spec\":{\"holderIdentity\":\"" THEM
        "\",\"leaseDurationSeconds\":15,\"acquireTime\":\"2001-01-01T00:00:00.000000Z\","
        "\"renewTime\":\"2001-01-01T00:00:00.000000Z\",\"leaseTransitions\":4}}";
    struct json *object = NULL;
    struct lease_record record;
    struct lease_view view = {0};

    (void)state;
    assert_int_equal(json_parse(text, strlen(text), &object, NULL), ERR_OK);
    lease_read(object, &record);
    json_free(object);
    assert_string_equal(record.version, "7");
    assert_string_equal(record.holder, THEM);
    assert_int_equal(record.duration_ms, 15000);
    assert_int_equal(record.n_transitions, 4);
    lease_observe(&view, &record, 5000);
    assert_false(lease_is_free(&view, US, 19999));
}

static void a_lease_without_anything_in_it_is_free(void **state)
{
    struct json *object = NULL;
    struct lease_record record;
    struct lease_view view = {0};

    (void)state;
    assert_int_equal(json_parse("{\"spec\":{\"holderIdentity\":7}}", 29, &object, NULL), ERR_OK);
    lease_read(object, &record);
    json_free(object);
    lease_observe(&view, &record, 1);
    assert_true(lease_is_free(&view, US, 1));
}

static void assert_written(const struct lease_view *view, bool releases, const char *expected)
{
    struct buf out = {.max = 4096};

    assert_int_equal(lease_write(view, "op", US, releases, 1767225600123, &out, NULL), ERR_OK);
    assert_string_equal(strstr(out.data, "\"metadata\""), expected);
    buf_deinit(&out);
}

static void a_new_lease_has_no_version_and_no_transitions(void **state)
{
    struct lease_view none = {0};

    (void)state;
    assert_written(&none, false,
                   "\"metadata\":{\"name\":\"op\"},\"spec\":{\"holderIdentity\":\"us_1\","
                   "\"leaseDurationSeconds\":15,\"acquireTime\":\"2026-01-01T00:00:00.123000Z\","
                   "\"renewTime\":\"2026-01-01T00:00:00.123000Z\",\"leaseTransitions\":0}}");
}

static void a_lease_that_is_taken_counts_a_transition_and_one_that_is_renewed_does_not(void **state)
{
    struct lease_view theirs = view_of("9", THEM), ours = view_of("9", US);

    (void)state;
    assert_written(&theirs, false,
                   "\"metadata\":{\"name\":\"op\",\"resourceVersion\":\"9\"},"
                   "\"spec\":{\"holderIdentity\":\"us_1\",\"leaseDurationSeconds\":15,"
                   "\"acquireTime\":\"2026-01-01T00:00:00.123000Z\","
                   "\"renewTime\":\"2026-01-01T00:00:00.123000Z\",\"leaseTransitions\":4}}");
    assert_written(&ours, false,
                   "\"metadata\":{\"name\":\"op\",\"resourceVersion\":\"9\"},"
                   "\"spec\":{\"holderIdentity\":\"us_1\",\"leaseDurationSeconds\":15,"
                   "\"acquireTime\":\"2026-01-01T00:00:00.000000Z\","
                   "\"renewTime\":\"2026-01-01T00:00:00.123000Z\",\"leaseTransitions\":3}}");
}

static void a_lease_that_is_released_names_nobody(void **state)
{
    struct lease_view ours = view_of("9", US);

    (void)state;
    assert_written(&ours, true,
                   "\"metadata\":{\"name\":\"op\",\"resourceVersion\":\"9\"},"
                   "\"spec\":{\"holderIdentity\":\"\",\"leaseDurationSeconds\":1,"
                   "\"acquireTime\":\"2026-01-01T00:00:00.000000Z\","
                   "\"renewTime\":\"2026-01-01T00:00:00.123000Z\",\"leaseTransitions\":3}}");
}

/* --- a process --- */

static struct http *loop;
static struct loopback *server;
static struct kube_client *client;
static struct lease *lease;
static atomic_int n_lost;

static void on_lost(void *ctx)
{
    (void)ctx;
    n_lost++;
}

#define LEASE(version, holder)                                                                     \
    "{\"metadata\":{\"resourceVersion\":\"" version "\"},\"spec\":{\"holderIdentity\":\"" holder   \
    "\",\"leaseDurationSeconds\":15}}"
#define PATH "/apis/coordination.k8s.io/v1/namespaces/sys/leases"
#define NO_EVENT                                                                                   \
    {                                                                                              \
        .expect = "POST /api/v1/namespaces/sys/events", .status = 403                              \
    }

static void begin(const struct loopback_reply *replies, size_t n)
{
    static const struct lease_options options = {.namespace = "sys",
                                                 .name = "op",
                                                 .component = "tester",
                                                 .identity = US,
                                                 .on_lost = on_lost};
    struct kube_config config = {.namespace = strdup("default")};

    n_lost = 0;
    server = loopback_start(replies, n);
    assert_non_null(server);
    assert_true(asprintf(&config.server, "http://127.0.0.1:%d", loopback_port(server)) > 0);
    assert_int_equal(http_new(&loop, NULL), ERR_OK);
    assert_int_equal(kube_client_new(loop, &config, NULL, &client, NULL), ERR_OK);
    assert_int_equal(lease_new(client, &options, &lease, NULL), ERR_OK);
}
#define SERVE(...)                                                                                 \
    static const struct loopback_reply replies[] = {__VA_ARGS__};                                  \
    begin(replies, sizeof replies / sizeof *replies)

static int end(void **state)
{
    (void)state;
    lease_free(lease);
    lease = NULL;
    kube_client_free(client);
    http_free(loop);
    loopback_stop(server);
    return 0;
}

static void wait_until(bool (*is_true)(void))
{
    const struct timespec pause = {.tv_nsec = 10000000};

    for (int i = 0; i < 2000 && !is_true(); i++)
        (void)nanosleep(&pause, NULL);
    assert_true(is_true());
}
static bool is_held(void)
{
    return lease_is_held(lease);
}
static bool is_lost(void)
{
    return lease_is_lost(lease);
}
static bool all_used(void)
{
    return loopback_unused(server) == 0;
}

static void a_process_creates_the_lease_and_releases_it(void **state)
{
    (void)state;
    SERVE({.expect = "GET " PATH "/op", .status = 404},
          {.expect = "POST " PATH, .status = 201, .body = LEASE("1", US)}, NO_EVENT,
          {.expect = "PATCH " PATH "/op", .body = LEASE("2", "")});
    wait_until(is_held);
    assert_non_null(strstr(loopback_request(server, 1), "\"holderIdentity\":\"us_1\""));
    lease_free(lease);
    lease = NULL;
    assert_int_equal(loopback_unused(server), 0);
    assert_non_null(strstr(loopback_request(server, 3), "\"resourceVersion\":\"1\""));
    assert_non_null(strstr(loopback_request(server, 3), "\"holderIdentity\":\"\""));
}

static void a_process_waits_while_another_leads(void **state)
{
    (void)state;
    SERVE({.expect = "GET " PATH "/op", .body = LEASE("1", THEM)},
          {.expect = "GET " PATH "/op", .body = LEASE("1", THEM)});
    wait_until(all_used);
    assert_false(lease_is_held(lease));
    assert_false(lease_is_lost(lease));
    assert_int_equal(loopback_strays(server), 0);
}

static void a_process_whose_lease_is_taken_leads_no_more(void **state)
{
    (void)state;
    SERVE({.expect = "GET " PATH "/op", .body = LEASE("1", "")},
          {.expect = "PATCH " PATH "/op", .body = LEASE("2", US)}, NO_EVENT,
          {.expect = "PATCH " PATH "/op", .status = 409},
          {.expect = "GET " PATH "/op", .body = LEASE("3", THEM)});
    wait_until(is_held);
    wait_until(is_lost);
    assert_false(lease_is_held(lease));
    assert_int_equal(n_lost, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lease_of_nobody_and_one_of_our_own_are_free),
        cmocka_unit_test(
            a_lease_of_another_is_free_when_it_was_not_seen_to_change_for_its_duration),
        cmocka_unit_test(the_times_in_a_lease_decide_nothing),
        cmocka_unit_test(a_lease_without_anything_in_it_is_free),
        cmocka_unit_test(a_new_lease_has_no_version_and_no_transitions),
        cmocka_unit_test(
            a_lease_that_is_taken_counts_a_transition_and_one_that_is_renewed_does_not),
        cmocka_unit_test(a_lease_that_is_released_names_nobody),
        cmocka_unit_test_teardown(a_process_creates_the_lease_and_releases_it, end),
        cmocka_unit_test_teardown(a_process_waits_while_another_leads, end),
        cmocka_unit_test_teardown(a_process_whose_lease_is_taken_leads_no_more, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
