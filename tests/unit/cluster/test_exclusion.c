/* Which Nodes are excluded by what their objects contain. */
#include "cluster/exclusion.h"

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
    enum exclusion want;
};

static struct row rows[] = {
    {"exclusion_keeps_a_node_that_is_ready", "{" CONDITIONS(READY) "}", EXCLUDED_NOT},
    {"exclusion_is_a_node_that_does_not_answer", "{" CONDITIONS(LATE) "}", EXCLUDED_NOT_READY},
    {"exclusion_is_a_node_that_was_never_seen", "{}", EXCLUDED_NOT_READY},
    {"exclusion_is_a_node_of_nonsense", "{\"spec\":[],\"status\":{\"conditions\":7}}",
     EXCLUDED_NOT_READY},
    {"exclusion_is_a_node_that_goes",
     "{\"metadata\":{\"deletionTimestamp\":\"2026-11-21T08:00:00Z\"}," CONDITIONS(READY) "}",
     EXCLUDED_DELETED},
    {"exclusion_is_a_cordoned_node",
     "{\"spec\":{\"unschedulable\":true,\"taints\":[{\"key\":\"node.kubernetes.io/unschedulable\","
     "\"effect\":\"NoSchedule\"}]}," CONDITIONS(READY) "}",
     EXCLUDED_CORDONED},
    {"exclusion_names_silence_before_cordons",
     "{\"spec\":{\"unschedulable\":true}," CONDITIONS(LATE) "}", EXCLUDED_NOT_READY},
    {"exclusion_is_a_node_without_room_on_its_disk",
     "{" CONDITIONS("{\"type\":\"DiskPressure\",\"status\":\"True\"}," READY) "}",
     EXCLUDED_PRESSURE},
    {"exclusion_keeps_a_node_without_pressure",
     "{" CONDITIONS("{\"type\":\"DiskPressure\",\"status\":\"False\"}," READY) "}", EXCLUDED_NOT},
    {"exclusion_is_a_tainted_node", TAINT("gpu", "NoSchedule"), EXCLUDED_TAINTED},
    {"exclusion_is_a_node_that_evicts", TAINT("gpu", "NoExecute"), EXCLUDED_TAINTED},
    {"exclusion_keeps_a_node_that_only_prefers_others", TAINT("gpu", "PreferNoSchedule"),
     EXCLUDED_NOT},
    {"exclusion_keeps_a_taint_that_workers_tolerate",
     TAINT("node.kubernetes.io/unreachable", "NoExecute"), EXCLUDED_NOT},
    {"exclusion_is_a_node_that_was_silent_a_moment_ago",
     TAINT("node.kubernetes.io/unreachable", "NoSchedule"), EXCLUDED_TAINTED},
};
#define N_ROWS (sizeof rows / sizeof rows[0])

static enum exclusion read_text(const char *text, enum exclusion unseen)
{
    struct json *node = NULL;
    enum exclusion why;

    assert_int_equal(json_parse(text, strlen(text), &node, NULL), ERR_OK);
    why = exclusion_read(node, unseen);
    json_free(node);
    return why;
}

static void check_row(void **state)
{
    const struct row *row = *state;

    assert_int_equal(read_text(row->node, EXCLUDED_NOT_READY), row->want);
}

static void exclusion_asks_a_file_only_for_what_it_says(void **state)
{
    (void)state;
    assert_int_equal(read_text("{}", EXCLUDED_NOT), EXCLUDED_NOT);
    assert_int_equal(read_text("{\"spec\":{\"unschedulable\":true}}", EXCLUDED_NOT),
                     EXCLUDED_CORDONED);
    assert_int_equal(read_text("{" CONDITIONS(LATE) "}", EXCLUDED_NOT), EXCLUDED_NOT_READY);
}

static void exclusion_has_a_text_for_every_reason(void **state)
{
    (void)state;
    for (int i = 0; i < EXCLUSIONS; i++)
        assert_true(exclusion_text((enum exclusion)i)[0] != '\0');
    assert_string_equal(exclusion_text(EXCLUDED_CORDONED), "cordoned");
}

int main(void)
{
    struct CMUnitTest tests[N_ROWS + 2] = {
        cmocka_unit_test(exclusion_asks_a_file_only_for_what_it_says),
        cmocka_unit_test(exclusion_has_a_text_for_every_reason),
    };

    for (size_t i = 0; i < N_ROWS; i++)
        tests[i + 2] = (struct CMUnitTest){
            .name = rows[i].name, .test_func = check_row, .initial_state = &rows[i]};
    return _cmocka_run_group_tests("exclusion", tests, N_ROWS + 2, NULL, NULL);
}
