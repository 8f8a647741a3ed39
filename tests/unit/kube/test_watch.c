#include "kube/watch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "loopback.h"

#define REPLIES_MAX 9
#define PATIENCE_MS 5000

/* The documents of the scripts. */
#define THING(name, uid, version)                                                                  \
    "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"" name "\",\"uid\":\"" uid                     \
    "\",\"resourceVersion\":\"" version "\"}}"
#define NUL(name, uid, version) /* legal, and any user can write it */                             \
    "{\"metadata\":{\"namespace\":\"ns\",\"annotations\":{\"n\":\"\\u0000\"},\"name\":\"" name     \
    "\",\"uid\":\"" uid "\",\"resourceVersion\":\"" version "\"},\"message\":\"\\u0000\"}"
#define BAD(name, uid, version) /* a duplicate key */                                              \
    "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"" name "\",\"uid\":\"" uid                     \
    "\",\"resourceVersion\":\"" version "\"},\"x\":1,\"x\":1}"
#define LIST(version, items)                                                                       \
    "{\"metadata\":{\"resourceVersion\":\"" version "\"},\"items\":[" items "]}"
#define PAGE(version, next, items)                                                                 \
    "{\"metadata\":{\"resourceVersion\":\"" version "\",\"continue\":\"" next                      \
    "\"},\"items\":[" items "]}"
#define EVENT(type, object) "{\"type\":\"" type "\",\"object\":" object "}\n"
#define BOOKMARK(version)   EVENT("BOOKMARK", "{\"metadata\":{\"resourceVersion\":\"" version "\"}}")
#define STATUS(code)        "{\"kind\":\"Status\",\"code\":" #code ",\"message\":\"m\"}"

/* The requests that a script expects. */
#define FIRST_PAGE    "GET /api/v1/pods?limit=100 HTTP"
#define NEXT_PAGE(at) "GET /api/v1/pods?limit=100&continue=" at " HTTP"
#define WATCH(from)                                                                                \
    "GET /api/v1/pods?watch=true&allowWatchBookmarks=true&resourceVersion=" from "&timeoutSeconds" \
    "="

/* A script and what the caller of the watch is told: "+a" added, "~a" modified, "-a" deleted, each
 * with its uid, "?a" skipped, "S" synced, "!7" failed with that error code. The last reply usually
 * hangs. */
struct row {
    const char *name;
    bool is_early; /* the server may not end a watch, as it does here, before its time */
    struct loopback_reply replies[REPLIES_MAX];
    const char *want;
};

#define LISTED                                                                                     \
    {                                                                                              \
        .expect = FIRST_PAGE, .body = LIST("10", THING("a", "1", "7"))                             \
    }
#define HANGING_WATCH(from)                                                                        \
    {                                                                                              \
        .expect = WATCH(from), .body = "\n", .is_stream = true, .end = LOOPBACK_HANG               \
    }

static struct row rows[] = {
    {.name = "watch_lists_page_by_page_and_goes_on_from_there",
     .replies = {{.expect = FIRST_PAGE, .body = PAGE("9", "c1", THING("a", "1", "7"))},
                 {.expect = NEXT_PAGE("c1"), .body = PAGE("9", "c2", "")},
                 {.expect = NEXT_PAGE("c2"), .body = LIST("10", THING("b", "2", "8"))},
                 {.expect = WATCH("10"),
                  .body = EVENT("ADDED", THING("c", "3", "11")) EVENT(
                      "MODIFIED", THING("a", "1", "12")) EVENT("DELETED", THING("b", "2", "13")),
                  .is_stream = true,
                  .end = LOOPBACK_HANG}},
     .want = "+a1 +b2 S +c3 ~a1 -b2 "},
    {.name = "watch_reads_events_that_come_byte_by_byte",
     .replies = {LISTED,
                 {.expect = WATCH("10"),
                  .body = EVENT("ADDED", THING("b", "2", "11")) "\n" EVENT("DELETED",
                                                                           THING("a", "1", "12")),
                  .piece_bytes = 1,
                  .is_stream = true,
                  .end = LOOPBACK_HANG}},
     .want = "+a1 S +b2 -a1 "},
    {.name = "watch_goes_on_at_once_when_the_server_ends_it",
     .replies = {LISTED,
                 {.expect = WATCH("10"),
                  .body = EVENT("MODIFIED", THING("a", "1", "11")),
                  .is_stream = true},
                 HANGING_WATCH("11")},
     .want = "+a1 S ~a1 "},
    {.name = "watch_lists_again_when_the_server_ends_it_too_early",
     .is_early = true,
     .replies = {LISTED,
                 {.expect = WATCH("10"),
                  .body = EVENT("MODIFIED", THING("a", "1", "11")),
                  .is_stream = true},
                 {.expect = FIRST_PAGE, .body = LIST("12", THING("b", "2", "12"))},
                 HANGING_WATCH("12")},
     .want = "+a1 S ~a1 +b2 -a1 S "},
    {.name = "watch_goes_on_from_a_bookmark",
     .replies = {LISTED,
                 {.expect = WATCH("10"),
                  .body = EVENT("MODIFIED", THING("a", "1", "11")) BOOKMARK("50"),
                  .is_stream = true},
                 HANGING_WATCH("50")},
     .want = "+a1 S ~a1 "},
    {.name = "watch_lists_again_after_a_cut",
     .replies = {LISTED,
                 {.expect = WATCH("10"),
                  .body = EVENT("MODIFIED", THING("a", "1", "11")) "{\"type\":\"ADDED\",\"obj",
                  .is_stream = true,
                  .end = LOOPBACK_CLOSE},
                 {.expect = FIRST_PAGE, .body = LIST("12", THING("b", "2", "12"))},
                 HANGING_WATCH("12")},
     .want = "+a1 S ~a1 !11 +b2 -a1 S "},
    {.name = "watch_lists_again_after_410_as_a_response",
     .replies = {LISTED,
                 {.expect = WATCH("10"), .status = 410, .body = STATUS(410)},
                 {.expect = FIRST_PAGE, .body = LIST("90", THING("b", "2", "80"))},
                 HANGING_WATCH("90")},
     .want = "+a1 S !8 +b2 -a1 S "},
    {.name = "watch_lists_again_after_410_as_an_event",
     .replies = {LISTED,
                 {.expect = WATCH("10"),
                  .body = EVENT("ERROR", STATUS(410)),
                  .is_stream = true,
                  .end = LOOPBACK_HANG},
                 {.expect = FIRST_PAGE, .body = LIST("90", THING("a", "1", "80"))},
                 HANGING_WATCH("90")},
     .want = "+a1 S !8 ~a1 S "},
    {.name = "watch_lists_again_when_its_version_is_ahead_of_the_server",
     .replies = {LISTED,
                 {.expect = WATCH("10"), .status = 504, .body = STATUS(504)},
                 {.expect = FIRST_PAGE, .body = LIST("5", THING("a", "1", "4"))},
                 {.expect = WATCH("5"), .body = EVENT("ERROR", STATUS(504)), .is_stream = true},
                 {.expect = FIRST_PAGE, .body = LIST("6", THING("a", "1", "4"))},
                 HANGING_WATCH("6")},
     .want = "+a1 S !10 ~a1 S !8 ~a1 S "},
    {.name = "watch_keeps_its_place_through_trouble_of_the_server",
     .replies = {LISTED,
                 {.expect = WATCH("10"), .status = 500, .body = STATUS(500)},
                 {.expect = WATCH("10"), .status = 503, .body = STATUS(503)},
                 HANGING_WATCH("10")},
     .want = "+a1 S !11 !11 "},
    {.name = "watch_lists_again_after_500_as_an_event_and_after_a_cut_in_the_head",
     .replies = {LISTED,
                 {.expect = WATCH("10"), .body = EVENT("ERROR", STATUS(500)), .is_stream = true},
                 LISTED,
                 {.expect = WATCH("10"), .raw = "HTTP/1.1 200 OK\r\nConte", .end = LOOPBACK_CLOSE},
                 LISTED,
                 HANGING_WATCH("10")},
     .want = "+a1 S !11 ~a1 S !11 ~a1 S "},
    {.name = "watch_counts_one_that_ends_at_once_without_events_as_failed",
     .replies = {LISTED,
                 {.expect = WATCH("10"), .body = "", .is_stream = true},
                 {.expect = WATCH("10"), .body = "\n", .is_stream = true},
                 HANGING_WATCH("10")},
     .want = "+a1 S !11 !11 "},
    {.name = "watch_tells_that_another_object_took_the_name",
     .replies = {LISTED,
                 {.expect = WATCH("10"), .status = 410},
                 {.expect = FIRST_PAGE, .body = LIST("90", THING("a", "9", "80"))},
                 HANGING_WATCH("90")},
     .want = "+a1 S !8 -a1 +a9 S "},
    {.name = "watch_starts_the_list_over_when_a_page_has_expired",
     .replies = {{.expect = FIRST_PAGE, .body = PAGE("9", "c1", THING("a", "1", "7"))},
                 {.expect = NEXT_PAGE("c1"), .status = 410, .body = STATUS(410)},
                 {.expect = FIRST_PAGE, .body = LIST("20", THING("b", "2", "8"))},
                 HANGING_WATCH("20")},
     .want = "+a1 !8 +b2 -a1 S "},
    {.name = "watch_tries_a_list_again_until_it_works",
     .replies = {{.expect = FIRST_PAGE, .status = 403, .body = STATUS(403)},
                 {.expect = FIRST_PAGE, .status = 404, .body = "404 page not found"},
                 {.expect = FIRST_PAGE, .body = "{\"items\":7}"},
                 {.expect = FIRST_PAGE, .body = "not json"},
                 {.expect = FIRST_PAGE, .body = "{\"metadata\":{},\"items\":[]}"},
                 LISTED,
                 HANGING_WATCH("10")},
     .want = "!9 !6 !5 !5 !5 +a1 S "},
    {.name = "watch_takes_a_list_whose_items_are_null",
     .replies = {{.expect = FIRST_PAGE,
                  .body = "{\"metadata\":{\"resourceVersion\":\"10\"},\"items\":null}"},
                 HANGING_WATCH("10")},
     .want = "S "},
    {.name = "watch_reads_objects_with_a_nul_in_a_text",
     .replies = {{.expect = FIRST_PAGE, .body = LIST("10", NUL("a", "1", "7"))},
                 {.expect = WATCH("10"),
                  .body = EVENT("MODIFIED", NUL("a", "1", "11")) EVENT("ADDED", NUL("b", "2", "12"))
                      EVENT("DELETED", NUL("a", "1", "13")),
                  .is_stream = true,
                  .end = LOOPBACK_HANG}},
     .want = "+a1 S ~a1 +b2 -a1 "},
    {.name = "watch_goes_on_behind_an_object_that_cannot_be_parsed",
     .replies = {LISTED,
                 {.expect = WATCH("10"),
                  .body = EVENT("MODIFIED", BAD("a", "1", "11")) EVENT("ADDED", BAD("b", "2", "12"))
                      EVENT("ADDED", THING("c", "3", "13")) EVENT("ADDED", BAD("d", "4", "14")),
                  .is_stream = true},
                 HANGING_WATCH("14")},
     .want = "+a1 S ?a ?b +c3 ?d "},
    {.name = "watch_tells_that_an_object_that_cannot_be_parsed_is_deleted",
     .replies = {LISTED,
                 {.expect = WATCH("10"),
                  .body = EVENT("DELETED", BAD("a", "1", "11")),
                  .is_stream = true,
                  .end = LOOPBACK_HANG}},
     .want = "+a1 S ?a -a1 "},
    {.name = "watch_lists_all_but_an_object_that_cannot_be_parsed",
     .replies = {{.expect = FIRST_PAGE,
                  .body = LIST("10", THING("a", "1", "7") "," BAD("b", "2",
                                                                  "7") ",7," THING("c", "3", "7"))},
                 HANGING_WATCH("10")},
     .want = "+a1 ?b +c3 S "},
    {.name = "watch_keeps_a_known_object_that_cannot_be_parsed_any_more",
     .replies = {LISTED,
                 {.expect = WATCH("10"), .status = 410},
                 {.expect = FIRST_PAGE, .body = LIST("90", BAD("a", "1", "80"))},
                 {.expect = WATCH("90"), .status = 410},
                 {.expect = FIRST_PAGE, .body = LIST("95", BAD("a", "other", "94"))},
                 HANGING_WATCH("95")},
     .want = "+a1 S !8 ?a S !8 ?a -a1 S "},
    {.name = "watch_skips_a_line_that_is_not_json_and_lists_when_the_watch_ends",
     .replies = {LISTED,
                 {.expect = WATCH("10"),
                  .body = "{\"type\":\n" EVENT("ADDED", THING("b", "2", "11")),
                  .is_stream = true},
                 {.expect = FIRST_PAGE, .body = LIST("11", THING("a", "1", "7"))},
                 HANGING_WATCH("11")},
     .want = "+a1 S ? +b2 ~a1 -b2 S "},
    {.name = "watch_ignores_what_it_does_not_know",
     .replies = {LISTED,
                 {.expect = WATCH("10"),
                  .body = EVENT("RENAMED", THING("a", "1", "11")) EVENT("ADDED", "{}")
                      EVENT("ADDED", "null")
                          EVENT("DELETED", "7") "7\n{}\n" EVENT("ADDED", THING("b", "2", "12")),
                  .is_stream = true,
                  .end = LOOPBACK_HANG}},
     .want = "+a1 S +b2 "},
    {.name = "watch_is_not_confused_by_events_that_are_repeated",
     .replies = {LISTED,
                 {.expect = WATCH("10"),
                  .body = EVENT("ADDED", THING("a", "1", "7"))
                      EVENT("DELETED", THING("a", "1", "8")) EVENT("DELETED", THING("a", "1", "8"))
                          EVENT("MODIFIED", THING("b", "2", "9"))
                              EVENT("DELETED", THING("b", "old", "9")),
                  .is_stream = true,
                  .end = LOOPBACK_HANG}},
     .want = "+a1 S ~a1 -a1 +b2 "},
};

static struct http *loop;
static struct loopback *server;
static struct kube_client *client;
static struct kube_watch watch;
static struct err err;
static char told[1000];

static void on_change(void *ctx, enum kube_change change, const struct json *object)
{
    size_t n = strlen(told);

    (void)ctx;
    if (change == KUBE_SYNCED)
        (void)snprintf(told + n, sizeof told - n, "S ");
    else
        (void)snprintf(told + n, sizeof told - n, "%c%s%s ", "+~-"[change],
                       json_string(json_path(object, "metadata.name"), "?"),
                       json_string(json_path(object, "metadata.uid"), "?"));
}

static void on_error(void *ctx, const struct err *e, int64_t wait_ms)
{
    size_t n = strlen(told);

    (void)ctx;
    assert_true(wait_ms >= 800 && wait_ms <= 30000);
    assert_non_null(strstr(e->text, "pods"));
    (void)snprintf(told + n, sizeof told - n, "!%d ", (int)e->code);
}

static void on_skipped(void *ctx, const struct json *identity, const struct err *e)
{
    size_t n = strlen(told);

    (void)ctx;
    assert_true(e->text[0] != '\0');
    (void)snprintf(told + n, sizeof told - n, "?%s ", json_text(identity, "metadata.name"));
}

static void begin(const struct loopback_reply *replies, size_t n)
{
    struct kube_config config = {.namespace = strdup("default")};

    told[0] = '\0';
    server = loopback_start(replies, n);
    assert_non_null(server);
    assert_true(asprintf(&config.server, "http://127.0.0.1:%d", loopback_port(server)) > 0);
    assert_int_equal(http_new(&loop, &err), ERR_OK);
    assert_int_equal(kube_client_new(loop, &config, NULL, &client, &err), ERR_OK);
    watch = (struct kube_watch){.client = client,
                                .ref.resource = &kube_pods,
                                .watcher = {NULL, on_change, on_error, on_skipped},
                                .early_ms = KUBE_WATCH_MAX_S * 1000LL};
}

static int end(void **state)
{
    (void)state;
    kube_watch_deinit(&watch);
    kube_client_free(client);
    http_free(loop);
    loopback_stop(server);
    return 0;
}

/* Go on until the caller has been told `want` and the script is through. Waiting times are skipped:
 * the watch believes what it is told about the time. */
static void run_until(const char *want)
{
    int64_t end_ms = clock_now_ms() + PATIENCE_MS;
    int64_t skipped_ms = 0;

    while (clock_now_ms() < end_ms && (strcmp(told, want) != 0 || loopback_unused(server) > 0)) {
        int64_t wait_ms = kube_watch_step(&watch, clock_now_ms() + skipped_ms);

        if (wait_ms > 0)
            skipped_ms += wait_ms;
        assert_int_equal(http_poll(loop, wait_ms > 0 ? 0 : 20, &err), ERR_OK);
    }
    assert_string_equal(told, want);
    assert_int_equal(loopback_unused(server), 0);
}

static void check_row(void **state)
{
    const struct row *row = *state;
    size_t n = 0;

    while (n < REPLIES_MAX && row->replies[n].expect)
        n++;
    begin(row->replies, n);
    if (row->is_early)
        watch.early_ms = 0;
    run_until(row->want);
    for (int i = 0; i < 5; i++) /* nothing else comes */
        assert_int_equal(http_poll(loop, 2, &err), ERR_OK);
    assert_string_equal(told, row->want);
    assert_int_equal(loopback_strays(server), 0);
    assert_true(watch.is_synced);
}

static void watch_asks_the_server_for_5_to_10_minutes(void **state)
{
    static const struct loopback_reply replies[] = {LISTED, HANGING_WATCH("10")};
    const char *asked;
    long seconds;

    (void)state;
    begin(replies, 2);
    run_until("+a1 S ");
    asked = strstr(loopback_request(server, 1), "timeoutSeconds=");
    assert_non_null(asked);
    seconds = strtol(asked + strlen("timeoutSeconds="), NULL, 10);
    assert_in_range(seconds, KUBE_WATCH_MIN_S, KUBE_WATCH_MAX_S);
}

static void watch_is_not_synced_between_a_cut_and_the_next_list(void **state)
{
    static const struct loopback_reply replies[] = {
        LISTED, {.expect = WATCH("10"), .body = "\n", .is_stream = true, .end = LOOPBACK_CLOSE}};

    (void)state;
    begin(replies, 2);
    run_until("+a1 S !11 ");
    assert_false(watch.is_synced);
}

static void watch_skips_a_line_that_is_too_long_and_lists_when_the_watch_ends(void **state)
{
    static char lines[KUBE_LINE_MAX_BYTES + 1000];
    static const char next[] = "\n" EVENT("ADDED", THING("b", "2", "11"));
    static const struct loopback_reply replies[] = {
        LISTED,
        {.expect = WATCH("10"), .body = lines, .is_stream = true},
        {.expect = FIRST_PAGE, .body = LIST("11", THING("b", "2", "11"))},
        HANGING_WATCH("11")};

    (void)state;
    memset(lines, 'x', sizeof lines - 1);
    memcpy(lines + sizeof lines - sizeof next, next, sizeof next);
    begin(replies, 4);
    run_until("+a1 S ? +b2 ~b2 -a1 S ");
}

static char large[KUBE_PAGE_MAX_BYTES + 1000];

static void watch_asks_for_fewer_objects_when_a_page_is_too_large(void **state)
{
    static const struct loopback_reply replies[] = {
        {.expect = "pods?limit=100 HTTP", .body = large},
        {.expect = "pods?limit=50 HTTP", .body = PAGE("9", "c1", THING("a", "1", "7"))},
        {.expect = "pods?limit=100&continue=c1 HTTP", .body = large},
        {.expect = "pods?limit=50&continue=c1 HTTP", .body = large},
        {.expect = "pods?limit=25&continue=c1 HTTP", .body = LIST("10", THING("b", "2", "8"))},
        HANGING_WATCH("10")};

    (void)state;
    memset(large, ' ', sizeof large - 1);
    begin(replies, 6);
    run_until("+a1 +b2 S ");
}

static void watch_skips_a_single_object_that_is_too_large(void **state)
{
    static const struct loopback_reply replies[] = {
        {.expect = "limit=100 HTTP", .body = large},
        {.expect = "limit=50 HTTP", .body = large},
        {.expect = "limit=25 HTTP", .body = large},
        {.expect = "limit=12 HTTP", .body = large},
        {.expect = "limit=6 HTTP", .body = large},
        {.expect = "limit=3 HTTP", .body = large},
        {.expect = "limit=1 HTTP", .body = large},
        {.expect = "as=PartialObjectMetadataList", .body = PAGE("9", "c1", THING("a", "1", "7"))},
        {.expect = "limit=2&continue=c1 HTTP", .body = LIST("10", THING("b", "2", "8"))},
        HANGING_WATCH("10")};

    (void)state;
    memset(large, ' ', sizeof large - 1);
    begin(replies, 10);
    run_until("?a +b2 S ");
    assert_non_null(strstr(loopback_request(server, 7), "GET /api/v1/pods?limit=1 HTTP"));
}

static void watch_waits_for_its_backoff(void **state)
{
    static const struct loopback_reply replies[] = {{.expect = FIRST_PAGE, .status = 500}};
    int64_t now_ms;
    int64_t wait_ms;

    (void)state;
    begin(replies, 1);
    run_until("!11 ");
    assert_false(watch.is_synced);
    now_ms = clock_now_ms();
    wait_ms = kube_watch_step(&watch, now_ms);
    assert_in_range(wait_ms, 500, 1600);
    assert_int_equal(kube_watch_step(&watch, now_ms + wait_ms - 1), 1);
    assert_int_equal(kube_watch_step(&watch, now_ms + wait_ms), -1);
}

static void watch_keeps_quiet_as_long_as_the_server_asked(void **state)
{
    static const struct loopback_reply replies[] = {
        {.expect = FIRST_PAGE, .status = 429, .headers = "Retry-After: 7\r\n"}};

    (void)state;
    begin(replies, 1);
    run_until("!4 ");
    assert_in_range(kube_watch_step(&watch, clock_now_ms()), 6000, 7000);
}

static void watch_survives_a_server_that_is_away(void **state)
{
    static const struct loopback_reply replies[] = {LISTED};
    int64_t end_ms = clock_now_ms() + PATIENCE_MS;

    (void)state;
    begin(replies, 1);
    loopback_stop(server);
    while (told[0] == '\0' && clock_now_ms() < end_ms) {
        kube_watch_step(&watch, clock_now_ms());
        assert_int_equal(http_poll(loop, 20, &err), ERR_OK);
    }
    assert_string_equal(told, "!11 ");
    assert_int_equal(kube_client_requests(watch.client)[0], 1);
    server = loopback_start(replies, 0);
    assert_non_null(server);
}

#define TEST(f) cmocka_unit_test_teardown(f, end)
#define N_ROWS  (sizeof rows / sizeof *rows)

int main(void)
{
    const struct CMUnitTest singles[] = {
        TEST(watch_asks_the_server_for_5_to_10_minutes),
        TEST(watch_is_not_synced_between_a_cut_and_the_next_list),
        TEST(watch_skips_a_line_that_is_too_long_and_lists_when_the_watch_ends),
        TEST(watch_asks_for_fewer_objects_when_a_page_is_too_large),
        TEST(watch_skips_a_single_object_that_is_too_large),
        TEST(watch_waits_for_its_backoff),
        TEST(watch_keeps_quiet_as_long_as_the_server_asked),
        TEST(watch_survives_a_server_that_is_away),
    };
    struct CMUnitTest tests[N_ROWS + sizeof singles / sizeof *singles];

    for (size_t i = 0; i < N_ROWS; i++)
        tests[i] = (struct CMUnitTest){rows[i].name, check_row, NULL, end, &rows[i]};
    memcpy(tests + N_ROWS, singles, sizeof singles);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
