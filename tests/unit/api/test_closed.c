/* Which Nodes take workers. */
#include "api/closed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define READY          "{\"type\":\"Ready\",\"status\":\"True\"}"
#define LATE           "{\"type\":\"Ready\",\"status\":\"Unknown\"}"
#define CONDITIONS(is) "\"status\":{\"conditions\":[" is "]}"
#define TAINT(key, effect)                                                                         \
    "{\"spec\":{\"taints\":[{\"key\":\"" key "\",\"effect\":\"" effect                             \
    "\"}]}," CONDITIONS(READY) "}"

struct row {
    const char *name, *node;
    enum closed want;
};

static struct row rows[] = {
    {"closed_takes_a_node_that_is_ready", "{" CONDITIONS(READY) "}", CLOSED_NOT},
    {"closed_is_a_node_that_does_not_answer", "{" CONDITIONS(LATE) "}", CLOSED_NOT_READY},
    {"closed_is_a_node_that_was_never_seen", "{}", CLOSED_NOT_READY},
    {"closed_is_a_node_of_nonsense", "{\"spec\":[],\"status\":{\"conditions\":7}}",
     CLOSED_NOT_READY},
    {"closed_is_a_node_that_goes",
     "{\"metadata\":{\"deletionTimestamp\":\"2026-11-21T08:00:00Z\"}," CONDITIONS(READY) "}",
     CLOSED_DELETED},
    {"closed_is_a_cordoned_node",
     "{\"spec\":{\"unschedulable\":true,\"taints\":[{\"key\":\"node.kubernetes.io/unschedulable\","
     "\"effect\":\"NoSchedule\"}]}," CONDITIONS(READY) "}",
     CLOSED_CORDONED},
    {"closed_names_silence_before_cordons",
     "{\"spec\":{\"unschedulable\":true}," CONDITIONS(LATE) "}", CLOSED_NOT_READY},
    {"closed_is_a_node_without_room_on_its_disk",
     "{" CONDITIONS("{\"type\":\"DiskPressure\",\"status\":\"True\"}," READY) "}", CLOSED_PRESSED},
    {"closed_takes_a_node_without_pressure",
     "{" CONDITIONS("{\"type\":\"DiskPressure\",\"status\":\"False\"}," READY) "}", CLOSED_NOT},
    {"closed_is_a_tainted_node", TAINT("gpu", "NoSchedule"), CLOSED_TAINTED},
    {"closed_is_a_node_that_evicts", TAINT("gpu", "NoExecute"), CLOSED_TAINTED},
    {"closed_takes_a_node_that_only_prefers_others", TAINT("gpu", "PreferNoSchedule"), CLOSED_NOT},
    {"closed_takes_a_taint_that_workers_tolerate",
     TAINT("node.kubernetes.io/unreachable", "NoExecute"), CLOSED_NOT},
    {"closed_is_a_node_that_was_silent_a_moment_ago",
     TAINT("node.kubernetes.io/unreachable", "NoSchedule"), CLOSED_TAINTED},
};
#define N_ROWS (sizeof rows / sizeof rows[0])

static enum closed read_text(const char *text, enum closed unseen)
{
    struct json *node = NULL;
    enum closed why;

    assert_int_equal(json_parse(text, strlen(text), &node, NULL), ERR_OK);
    why = closed_read(node, unseen);
    json_free(node);
    return why;
}

static void check_row(void **state)
{
    const struct row *row = *state;

    assert_int_equal(read_text(row->node, CLOSED_NOT_READY), row->want);
}

static void closed_asks_a_file_only_for_what_it_says(void **state)
{
    (void)state;
    assert_int_equal(read_text("{}", CLOSED_NOT), CLOSED_NOT);
    assert_int_equal(read_text("{\"spec\":{\"unschedulable\":true}}", CLOSED_NOT), CLOSED_CORDONED);
    assert_int_equal(read_text("{" CONDITIONS(LATE) "}", CLOSED_NOT), CLOSED_NOT_READY);
}

static void closed_has_a_word_for_every_reason(void **state)
{
    (void)state;
    for (int i = 0; i < CLOSED_COUNT; i++)
        assert_true(closed_word((enum closed)i)[0] != '\0');
    assert_string_equal(closed_word(CLOSED_CORDONED), "cordoned");
}

int main(void)
{
    struct CMUnitTest tests[N_ROWS + 2] = {
        cmocka_unit_test(closed_asks_a_file_only_for_what_it_says),
        cmocka_unit_test(closed_has_a_word_for_every_reason),
    };

    for (size_t i = 0; i < N_ROWS; i++)
        tests[i + 2] = (struct CMUnitTest){
            .name = rows[i].name, .test_func = check_row, .initial_state = &rows[i]};
    return _cmocka_run_group_tests("closed", tests, N_ROWS + 2, NULL, NULL);
}
