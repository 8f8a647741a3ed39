#include "cli/reason.h"

#include "suite.h"
#include "verb.h"

#define NOW_MS INT64_C(1795853000000) /* 2026-11-28T08:03:20Z */

#define CONDITION(type, value, reason, message)                                                    \
    "{\"type\":\"" type "\",\"status\":\"" value "\",\"reason\":\"" reason                         \
    "\",\"message\":\"" message "\",\"lastTransitionTime\":\"2026-11-28T08:00:20Z\"}"
#define HEALTHY                                                                                    \
    CONDITION("Accepted", "True", "SpecAccepted", "")                                              \
    "," CONDITION("UpToDate", "True", "Planned", "") "," CONDITION("Stalled", "False",             \
                                                                   "NotStalled", "")
#define RUNS                                                                                       \
    HEALTHY "," CONDITION("Placed", "True", "PlanMade", "because") "," CONDITION(                  \
        "Running", "True", "Training",                                                             \
        "") "," CONDITION("Suspended", "False", "NotSuspended",                                    \
                          "") "," CONDITION("Complete", "False", "NotFinished",                    \
                                            "") "," CONDITION("Failed", "False", "NotFailed", "")
#define WITH(conditions) "{\"status\":{\"state\":\"X\",\"conditions\":[" conditions "]}}"

static struct reason at;

static void take(const char *text, enum err_code (*add)(void *, const struct json *, struct err *))
{
    struct json *json = NULL;

    assert_int_equal(json_parse(text, strlen(text), &json, NULL), ERR_OK);
    if (add)
        assert_int_equal(add(&at, json, NULL), ERR_OK);
    else
        reason_read(&at, json);
    json_free(json);
}

static const char *printed(void)
{
    static char text[VERB_TEXT_BYTES];
    FILE *out = fmemopen(text, sizeof text, "w");

    reason_print(&at, NOW_MS, out);
    assert_int_equal(fclose(out), 0);
    return text;
}

/* --- conditions --- */

struct row {
    const char *name;
    const char *job;
    const char *unusual; /* types, each with a space before it */
    const char *next;    /* a part of it; NULL: none */
};

static struct row rows[] = {
    {"reason_finds_nothing_unusual_in_a_job_that_trains", WITH(RUNS), "", NULL},
    {"reason_finds_nothing_unusual_in_a_job_that_is_complete",
     WITH(HEALTHY "," CONDITION("Running", "False", "Finished",
                                "") "," CONDITION("Complete", "True", "TrainingFinished", "")),
     "", NULL},
    {"reason_of_a_job_that_was_resumed_is_not_its_suspension",
     WITH(CONDITION("Suspended", "False", "Resumed", "")), "", NULL},
    {"reason_to_wait_may_be_that_nodes_are_measured",
     WITH(HEALTHY "," CONDITION("Placed", "False", "MeasuringNodes",
                                "") "," CONDITION("Running", "False", "NotPlaced", "")),
     " Placed Running", "once its nodes are measured"},
    {"reason_to_wait_may_be_too_few_nodes",
     WITH(HEALTHY "," CONDITION("Placed", "False", "InsufficientNodes", "")), " Placed",
     "Free or add nodes"},
    {"reason_of_a_suspended_job_is_that_it_is",
     WITH(CONDITION("Placed", "False", "Suspended", "") "," CONDITION("Suspended", "True",
                                                                      "Suspended", "")),
     " Placed Suspended", "kubectl skyjob resume mnli"},
    {"reason_includes_that_a_job_cannot_be_suspended",
     WITH(RUNS "," CONDITION("Suspended", "False", "CannotSuspend", "")), " Suspended",
     "kubectl skyjob resume mnli"},
    {"reason_of_a_job_that_is_failing_is_that_of_its_failure",
     WITH(CONDITION("Placed", "False", "InsufficientNodes",
                    "") "," CONDITION("Failed", "False", "StartDeadlineExceeded", "")),
     " Placed Failed", "with more spec.failurePolicy.startDeadlineSeconds"},
    {"reason_of_a_job_that_has_failed_is_that_of_its_failure",
     WITH(CONDITION("Running", "False", "RestartLimit", "") "," CONDITION("Failed", "True",
                                                                          "RestartLimit", "")),
     " Running Failed", "kubectl skyjob logs mnli"},
    {"reason_of_a_stalled_job_is_what_stalls_it",
     WITH(CONDITION("Placed", "True", "PlanMade", "") "," CONDITION("Stalled", "True", "NameTaken",
                                                                    "")),
     " Stalled", "Delete the object that is named"},
    {"reason_may_be_that_the_operator_has_not_seen_the_job", "{}", "", "Check that the operator"},
    {"reason_may_be_another_controller", "{\"spec\":{\"managedBy\":\"example.com/queue\"}}", "",
     "The controller example.com/queue decides"},
    {"reason_may_be_that_the_job_is_being_deleted",
     "{\"metadata\":{\"deletionTimestamp\":\"2026-11-28T08:00:20Z\"}}", "",
     "once its pods have ended"},
    {"reason_that_is_not_known_has_no_advice", WITH(CONDITION("Placed", "False", "New", "")),
     " Placed", NULL},
};

static void check_row(void **state)
{
    const struct row *row = *state;
    char unusual[256] = "";
    char text[REASON_TEXT_BYTES];
    const char *next;

    take(row->job, NULL);
    (void)snprintf(at.name, sizeof at.name, "mnli");
    for (int t = 0; t < CONDITION_COUNT; t++)
        if (reason_is_unusual(&at.status, (enum condition_type)t))
            text_add(unusual, sizeof unusual, " %s", condition_type_names[t]);
    assert_string_equal(unusual, row->unusual);
    next = reason_next(&at, text);
    if (!row->next)
        assert_null(next);
    else
        assert_has(next ? next : "", row->next);
}

/* --- pods --- */

#define POD(phase, spec, status)                                                                   \
    "{\"metadata\":{\"name\":\"p\"},\"spec\":{" spec "},\"status\":{\"phase\":\"" phase            \
    "\"" status "}}"
#define STATE(state) ",\"containerStatuses\":[{\"state\":{" state "}}]"
#define FALSE_CONDITION(type, reason, message)                                                     \
    ",\"conditions\":[{\"type\":\"" type "\",\"status\":\"False\",\"reason\":\"" reason            \
    "\",\"message\":\"" message "\"}]"

struct pod_row {
    const char *name;
    const char *pod;
    const char *line; /* NULL: none */
    const char *next; /* with "Running is False: StartingWorkers"; a part of it */
};

static struct pod_row pod_rows[] = {
    {"reason_is_not_a_pod_that_runs", POD("Running", "", ""), NULL, "are being started"},
    {"reason_is_not_a_pod_that_has_done_its_work",
     POD("Succeeded", "", STATE("\"terminated\":{\"exitCode\":0}")), NULL, "are being started"},
    {"reason_may_be_an_image_that_cannot_be_pulled",
     POD("Pending", "\"nodeName\":\"n1\"",
         STATE("\"waiting\":{\"reason\":\"ImagePullBackOff\",\"message\":\"no such image\"}")),
     "pod         p on n1 is Pending: ImagePullBackOff: no such image\n", "spec.worker.image"},
    {"reason_may_be_a_pod_without_room",
     POD("Pending", "", FALSE_CONDITION("PodScheduled", "Unschedulable", "0/3 nodes")),
     "pod         p is Pending: Unschedulable: 0/3 nodes\n", "if its pod finds no room"},
    {"reason_may_be_a_queue",
     POD("Pending", "\"schedulingGates\":[{\"name\":\"kueue.x-k8s.io/admission\"}]", ""),
     "pod         p is Pending: SchedulingGated: waits until the gate kueue.x-k8s.io/admission is "
     "removed\n",
     "Its queue has to admit it"},
    {"reason_of_a_worker_that_failed_is_the_error_that_it_reported",
     POD("Failed", "",
         STATE("\"terminated\":{\"exitCode\":2,\"reason\":\"Error\",\"message\":\""
               "{\\\"state\\\":\\\"Failed\\\",\\\"cause\\\":\\\"Config\\\",\\\"error\\\":\\\"no "
               "file\\\"}\"}")),
     "pod         p is Failed: Error: ended with code 2: no file\n", "are being started"},
    {"reason_of_a_pod_that_failed_otherwise_is_what_it_has_printed",
     POD("Failed", "",
         STATE("\"terminated\":{\"exitCode\":137,\"reason\":\"OOMKilled\",\"message\":\"x\"}")),
     "pod         p is Failed: OOMKilled: ended with code 137: x\n", "are being started"},
    {"reason_of_a_pod_that_was_evicted_is_in_its_status",
     POD("Failed", "", ",\"reason\":\"Evicted\",\"message\":\"low on memory\""),
     "pod         p is Failed: Evicted: low on memory\n", "are being started"},
    {"reason_of_a_pod_that_is_not_connected_is_that_it_is_not_ready",
     POD("Running", "", FALSE_CONDITION("Ready", "ContainersNotReady", "")),
     "pod         p is Running: NotReady\n", "are being started"},
    {"reason_may_be_a_pod_of_which_nothing_is_known", "{\"metadata\":{\"name\":\"p\"}}",
     "pod         p is Pending: no reason reported\n", "are being started"},
};

static void check_pod(void **state)
{
    const struct pod_row *row = *state;
    char text[REASON_TEXT_BYTES];

    take(WITH(CONDITION("Running", "False", "StartingWorkers", "")), NULL);
    take(row->pod, reason_add_pod);
    assert_int_equal(at.n_stuck, row->line ? 1 : 0);
    if (row->line)
        assert_has(printed(), row->line);
    assert_has(reason_next(&at, text), row->next);
}

static void reason_counts_pods_that_it_does_not_list(void **state)
{
    (void)state;
    take("{}", NULL);
    for (int i = 0; i < REASON_PODS_MAX + 3; i++)
        take(POD("Pending", "", ""), reason_add_pod);
    assert_has(printed(), "            and 3 more\n");
}

/* --- Events --- */

static void add_event(const char *time, const char *reason)
{
    char text[512];

    (void)snprintf(text, sizeof text,
                   "{\"type\":\"Warning\",\"reason\":\"%s\",\"message\":\"m\",\"count\":2,"
                   "\"lastTimestamp\":\"2026-11-28T08:%sZ\"}",
                   reason, time);
    take(text, reason_add_event);
}

static void reason_has_the_newest_events_by_time(void **state)
{
    (void)state;
    take("{}", NULL);
    add_event("02:20", "Late");
    add_event("00:01", "Oldest");
    for (int i = 0; i < REASON_EVENTS_MAX - 2; i++)
        add_event("01:00", "Middle");
    add_event("00:00", "TooOld");
    assert_string_equal(at.events[0].reason, "Oldest");
    add_event("02:10", "Newer");
    assert_int_equal(at.n_events, REASON_EVENTS_MAX);
    assert_string_equal(at.events[0].reason, "Middle");
    assert_string_equal(at.events[REASON_EVENTS_MAX - 2].reason, "Newer");
    assert_has(printed(), "event       60s ago (2 times): Warning Late: m\n");
    take("{\"reason\":\"Micro\",\"eventTime\":\"2026-11-28T08:03:10.123456Z\"}", reason_add_event);
    assert_string_equal(at.events[REASON_EVENTS_MAX - 1].reason, "Micro");
    assert_has(printed(), "event       9s ago: Micro: \n");
}

/* --- the command --- */

#define JOB                                                                                        \
    "{\"metadata\":{\"name\":\"mnli\",\"uid\":\"7\"},\"status\":{\"state\":\"Starting\","          \
    "\"message\":\"1 of 2 workers\",\"conditions\":[" CONDITION("Running", "False",                \
                                                                "StartingWorkers", "1 of 2") "]}}"
#define PODS   .expect = "GET /api/v1/namespaces/team/pods?labelSelector=skyjob.dev%2Fjob-uid%3D7&"
#define EVENTS .expect = "GET /api/v1/namespaces/team/events?fieldSelector=involvedObject.uid%3D7&"

static void explain_asks_for_job_pods_and_events(void **state)
{
    (void)state;
    VERB_SERVE(
        {.expect = "GET " VERB_JOB_PATH " ", .body = JOB},
        {PODS, .body = "{\"metadata\":{},\"items\":[" POD(
                   "Pending", "", STATE("\"waiting\":{\"reason\":\"ContainerCreating\"}")) "]}"},
        {EVENTS, .status = 403, .body = "{\"message\":\"events is forbidden\"}"});
    assert_int_equal(VERB_RUN(command_explain, "explain", "mnli"), EXIT_DONE);
    assert_has(verb_out, "state       Starting: 1 of 2 workers\ncondition   Running is False for ");
    assert_has(verb_out, ": StartingWorkers: 1 of 2\npod         p is Pending: ContainerCreating\n"
                         "next        Wait: the workers are being started.\n");
    assert_has(verb_err, "events is forbidden (403)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reason_counts_pods_that_it_does_not_list),
        cmocka_unit_test(reason_has_the_newest_events_by_time),
        VERB_TEST(explain_asks_for_job_pods_and_events),
    };
    struct suite suite = {.n = 0};

    SUITE_ROWS(&suite, rows, check_row);
    SUITE_ROWS(&suite, pod_rows, check_pod);
    SUITE_TESTS(&suite, tests);
    return suite_run(&suite, "reason", scratch_make, scratch_remove);
}
