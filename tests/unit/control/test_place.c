/* From a fresh job to a plan: one row, one situation, and what is decided then. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "row.h"

#define CONFIG_MAP_SPEC                                                                            \
    "{\"model\":{\"preset\":\"BertTiny\"},\"data\":{\"source\":{\"configMap\":{\"name\": "         \
    "\"nli\"}}}}"
#define EVALUATED_SPEC                                                                             \
    "{\"model\":{\"preset\":\"BertTiny\"},\"training\":{\"steps\":0},\"data\":{\"files\":{"        \
    "\"dev\":"                                                                                     \
    "\"dev.tsv\"},\"source\":{\"configMap\":{\"name\": \"nli\"}}}}"
#define STARTED_FROM_SPEC                                                                          \
    "{\"model\":{\"preset\":\"BertTiny\",\"from\":{\"persistentVolumeClaim\":{\"claimName\":"      \
    "\"bert\"}}},\"data\":{\"task\":\"RTE\",\"source\":{\"configMap\":{\"name\": \"rte\"}}}}"

#define ALL_NODES                                                                                  \
    "{\"model\":{\"preset\":\"BertTiny\"},\"data\":{\"source\":{\"sample\":\"MNLI\"}},"            \
    "\"placement\":{\"minStages\":3}}"

static void fresh(struct world *w)
{
    (void)w;
}

static void invalid(struct world *w)
{
    world_set_spec(w, "{\"data\":{\"source\":{}}}");
}

static void invalid_while_running(struct world *w)
{
    world_start_training(w);
    invalid(w);
}

static void invalid_before_the_next_revision(struct world *w)
{
    invalid_while_running(w);
    w->seen.status.revision = 2;
}

static void deleting(struct world *w)
{
    w->seen.is_deleting = true;
}

static void planned(struct world *w)
{
    world_round(w); /* the number is written down */
}

static void plan_there(struct world *w)
{
    planned(w);
    world_round(w);
}

static void data_missing(struct world *w)
{
    w->has_data = false;
    planned(w);
}

static void claim_missing(struct world *w)
{
    w->lacks_claim = true;
    (void)snprintf(w->seen.data.problem, sizeof w->seen.data.problem, "There is no claim \"out\"");
    planned(w);
}

static void claim_came(struct world *w)
{
    claim_missing(w);
    world_round(w);
    w->lacks_claim = false;
    w->seen.now_ms += DECIDE_DATA_RETRY_MS;
    world_round(w);
}

static void refused(struct world *w, enum err_code code, int n)
{
    planned(w);
    w->seen.problem = (struct seen_problem){.n_in_a_row = n, .code = code, .text = "no such luck"};
}

static void name_taken(struct world *w)
{
    refused(w, ERR_CONFLICT, 2);
}

static void webhook_fails(struct world *w)
{
    refused(w, ERR_IO, 2);
}

static void webhook_failed_once(struct world *w)
{
    refused(w, ERR_IO, 1);
}

static void webhook_fails_for_pods(struct world *w)
{
    plan_there(w);
    refused(w, ERR_IO, 2);
}

static void webhook_fails_still(struct world *w)
{
    webhook_fails(w);
    world_decide(w);
    w->seen.status = w->decision.status;
}

static void webhook_works_again(struct world *w)
{
    webhook_fails_still(w);
    w->seen.problem.n_in_a_row = 0;
    (void)world_settle(w);
}

static void webhook_fails_in_training(struct world *w)
{
    world_start_training(w);
    refused(w, ERR_IO, 2);
}

static void clock_set_back(struct world *w)
{
    planned(w);
    w->seen.status.next_revision_ms = w->seen.now_ms + 3600000;
}

static void data_came(struct world *w)
{
    data_missing(w);
    world_round(w);
    w->has_data = true;
    w->seen.now_ms += DECIDE_DATA_RETRY_MS;
}

static void no_nodes(struct world *w)
{
    planned(w);
    w->nodes[0].excluded = EXCLUDED_NOT_READY;
    w->nodes[1].excluded = EXCLUDED_CORDONED;
    w->nodes[2].excluded = EXCLUDED_TAINTED;
}

static void full_nodes(struct world *w)
{
    planned(w);
    for (int i = 0; i < WORLD_NODES; i++)
        w->nodes[i].cpu_used_milli = w->nodes[i].cpu_milli - 50;
}

static void unknown_speed(struct world *w)
{
    for (int i = 0; i < 2; i++)
        w->nodes[i].annotations.gflops = 0;
    planned(w);
    w->seen.n_pods = 0;
}

static void probes_run(struct world *w)
{
    for (int i = 0; i < 2; i++)
        w->nodes[i].annotations.gflops = 0;
    (void)world_settle(w);
}

static void probes_done(struct world *w)
{
    static const struct node_probe found[] = {{.gflops = 10, .unit_ms = 0.1, .threads = 1},
                                              {.gflops = 20, .unit_ms = 0.1, .threads = 1}};

    probes_run(w);
    for (int i = 0; i < 2; i++) {
        struct seen_pod *p = world_probe(w, w->nodes[i].name);

        p->phase = POD_SUCCEEDED;
        p->probe = &found[i];
    }
}

static void a_probe_failed(struct world *w)
{
    probes_done(w);
    world_probe(w, "node-0")->phase = POD_FAILED;
    world_probe(w, "node-0")->probe = NULL;
}

static void crash_probe(struct world *w, const char *node)
{
    struct seen_pod *p = world_probe(w, node);

    p->phase = POD_FAILED;
    p->has_exit_code = true;
    p->exit_code = 139;
    p->probe = NULL;
    (void)snprintf(p->reason, sizeof p->reason, "Error");
    (void)snprintf(p->message, sizeof p->message, "segmentation fault");
}

static void a_probe_crashed(struct world *w)
{
    probes_done(w);
    crash_probe(w, "node-0");
}

static void two_probes_crashed(struct world *w)
{
    a_probe_crashed(w);
    crash_probe(w, "node-1");
}

static void two_probes_said_much(struct world *w)
{
    static const char *const names[] = {"node-0", "node-1"};

    two_probes_crashed(w);
    for (int i = 0; i < 2; i++) {
        struct seen_pod *p = world_probe(w, names[i]);

        memset(p->message, 'x', sizeof p->message - 1);
    }
}

static void a_probe_told_nonsense(struct world *w)
{
    probes_done(w);
    world_probe(w, "node-0")->probe = NULL;
    (void)snprintf(world_probe(w, "node-0")->message, OBSERVED_TEXT_BYTES, "fast");
}

static void a_probe_cannot_start(struct world *w)
{
    struct seen_pod *p;

    probes_run(w);
    p = world_probe(w, "node-0");
    p->phase = POD_PENDING;
    (void)snprintf(p->reason, sizeof p->reason, "CreateContainerError");
    (void)snprintf(p->message, sizeof p->message, "no space left");
}

static void a_probe_never_started(struct world *w)
{
    a_probe_cannot_start(w);
    crash_probe(w, "node-1"); /* too few are left to go on without it */
    w->seen.now_ms += 200000;
}

static void a_probe_has_no_place(struct world *w)
{
    struct seen_pod *p;

    probes_run(w);
    p = world_probe(w, "node-0");
    p->phase = POD_PENDING;
    p->is_unschedulable = true;
    (void)snprintf(p->message, sizeof p->message, "too many pods");
}

static void image_missing_for_probes(struct world *w)
{
    probes_run(w);
    (void)snprintf(world_probe(w, "node-0")->reason, OBSERVED_WORD_BYTES, "ErrImagePull");
}

static const char to_claim[] = "{\"data\":{\"source\":{\"sample\":\"MNLI\"}},"
                               "\"output\":{\"persistentVolumeClaim\":{\"claimName\":\"out\"}}}";

static const char to_store[] =
    "{\"data\":{\"source\":{\"sample\":\"MNLI\"}},"
    "\"checkpoint\":{\"store\":{\"persistentVolumeClaim\":{\"claimName\":\"saves\"}}}}";

static struct row rows[] = {
    ROW("decide_accepts_a_valid_spec", fresh, ACCEPTED, T, "SpecAccepted", .state = "Pending"),
    ROW("decide_sets_every_condition_at_once", fresh, FAILED, F, "NotFailed",
        COUNT(ACTION_EVENT, 0)),
    ROW("decide_refuses_an_invalid_spec_with_an_event", invalid, ACCEPTED, F, "InvalidSpec",
        .state = "Invalid", .event = "InvalidSpec"),
    ROW("decide_makes_no_revision_with_a_broken_spec", invalid_before_the_next_revision, ACCEPTED,
        F, "InvalidSpec", .state = "Invalid"),
    ROW("decide_goes_on_with_the_plan_when_the_spec_breaks", invalid_while_running, RUNNING, T,
        "Training", .state = "Running", .event = "InvalidSpec"),
    ROW("decide_leaves_a_job_that_is_being_deleted_alone", deleting, ACCEPTED, CONDITION_UNSET, "",
        .state = "", COUNT(ACTION_CREATE_REVISION, 0)),
    ROW("decide_writes_the_number_before_it_plans", fresh, PLACED, F, "NotPlaced",
        COUNT(ACTION_CREATE_REVISION, 0), .is_waiting = true),
    ROW("decide_plans_once_the_number_is_written", planned, PLACED, F, "NotPlaced",
        COUNT(ACTION_CREATE_REVISION, 1)),
    ROW("decide_makes_pods_only_from_a_plan_that_is_there", plan_there, PLACED, T, "PlanMade",
        .state = "Starting", .event = "PlanMade", COUNT(ACTION_CREATE_WORKER_POD, 3)),
    ROW("decide_looks_for_a_data_config_map_first", fresh, PLACED, F, "NotPlaced",
        COUNT(ACTION_READ_DATA, 1), .spec = CONFIG_MAP_SPEC),
    ROW("decide_waits_for_missing_data_with_an_event", data_missing, PLACED, F, "DataNotFound",
        .state = "Waiting", .event = "DataNotFound", COUNT(ACTION_CREATE_REVISION, 0),
        .message = "It must have the keys train.tsv, vocab.txt.", .is_waiting = true,
        .spec = CONFIG_MAP_SPEC),
    ROW("decide_needs_no_vocabulary_beside_a_model", data_missing, PLACED, F, "DataNotFound",
        .message = "It must have the keys train.tsv.", .spec = STARTED_FROM_SPEC),
    ROW("decide_needs_no_training_file_to_evaluate", data_missing, PLACED, F, "DataNotFound",
        .message = "It must have the keys dev.tsv, vocab.txt.", .spec = EVALUATED_SPEC),
    ROW("decide_makes_no_pod_while_a_claim_is_missing", claim_missing, PLACED, F, "ClaimNotFound",
        .state = "Waiting", .event = "ClaimNotFound",
        .message = "There is no claim \"out\". Checking again every 10 seconds.", .spec = to_claim,
        COUNT(ACTION_CREATE_PROBE_POD, 0), .is_waiting = true),
    ROW("decide_looks_for_the_claim_of_checkpoints_first", fresh, PLACED, F, "NotPlaced",
        COUNT(ACTION_READ_DATA, 1), .spec = to_store),
    ROW("decide_plans_once_the_claim_is_there", claim_came, PLACED, F, "ClaimNotFound",
        .spec = to_claim, COUNT(ACTION_CREATE_REVISION, 1)),
    ROW("decide_shows_that_a_name_is_taken", name_taken, STALLED, T, "NameTaken",
        .state = "Waiting", .event = "NameTaken",
        .message = "no such luck. Retrying with growing pauses."),
    ROW("decide_shows_what_the_api_server_refuses", webhook_fails, STALLED, T, "CannotCreate",
        .state = "Waiting", .event = "CannotCreate"),
    ROW("decide_says_once_what_the_api_server_refuses", webhook_fails_still, STALLED, T,
        "CannotCreate", .state = "Waiting", COUNT(ACTION_EVENT, 0)),
    ROW("decide_shows_no_error_that_came_once", webhook_failed_once, STALLED, F, "NotStalled",
        COUNT(ACTION_EVENT, 0)),
    ROW("decide_shows_that_pods_are_refused", webhook_fails_for_pods, STALLED, T, "CannotCreate",
        .state = "Starting"),
    ROW("decide_shows_no_refusal_in_training", webhook_fails_in_training, STALLED, F, "NotStalled",
        .state = "Running", COUNT(ACTION_EVENT, 0)),
    ROW("decide_forgets_what_was_refused", webhook_works_again, STALLED, F, "NotStalled",
        .state = "Starting"),
    ROW("decide_does_not_wait_an_hour_when_the_clock_was_set_back", clock_set_back, PLACED, F,
        "NotPlaced", COUNT(ACTION_CREATE_REVISION, 1)),
    ROW("decide_looks_again_for_missing_data", data_came, PLACED, F, "DataNotFound",
        COUNT(ACTION_READ_DATA, 1), .spec = CONFIG_MAP_SPEC),
    ROW("decide_tells_why_no_node_can_be_used", no_nodes, PLACED, F, "InsufficientNodes",
        .state = "Waiting", .event = "InsufficientNodes", COUNT(ACTION_CREATE_REVISION, 0),
        .is_waiting = true),
    ROW("decide_counts_what_other_pods_request", full_nodes, PLACED, F, "InsufficientNodes",
        .state = "Waiting", .event = "InsufficientNodes", COUNT(ACTION_CREATE_REVISION, 0),
        .is_waiting = true),
    ROW("decide_probes_nodes_of_unknown_speed_and_no_others", unknown_speed, PLACED, F,
        "MeasuringNodes", .state = "Measuring", COUNT(ACTION_CREATE_PROBE_POD, 2),
        .is_waiting = true),
    ROW("decide_waits_for_all_probes", probes_run, PLACED, F, "MeasuringNodes",
        .state = "Measuring", COUNT(ACTION_CREATE_REVISION, 0), .is_waiting = true),
    ROW("decide_labels_nodes_with_what_probes_found", probes_done, PLACED, F, "MeasuringNodes",
        COUNT(ACTION_ANNOTATE_NODE, 2)),
    ROW("decide_plans_with_what_probes_found", probes_done, PLACED, F, "MeasuringNodes",
        COUNT(ACTION_CREATE_REVISION, 1)),
    ROW("decide_plans_without_a_node_whose_probe_failed", a_probe_failed, PLACED, F,
        "MeasuringNodes", COUNT(ACTION_CREATE_REVISION, 1)),
    ROW("decide_tells_of_a_probe_that_crashed_when_it_goes_on_without_it", a_probe_crashed, PLACED,
        F, "MeasuringNodes", .event = "NodeNotMeasured", COUNT(ACTION_CREATE_REVISION, 1)),
    ROW("decide_tells_how_a_probe_ended_while_it_waits_for_its_node", a_probe_crashed, PLACED, F,
        "InsufficientNodes", .state = "Waiting", .event = "InsufficientNodes", .spec = ALL_NODES,
        .message = "Not measured: node node-0: its probe ended with code 139 (Error): segmentation "
                   "fault."),
    ROW("decide_tells_of_every_probe_that_failed", two_probes_crashed, PLACED, F,
        "InsufficientNodes", .spec = ALL_NODES,
        .message = "Not measured: node node-0: its probe ended with code 139 (Error): segmentation "
                   "fault; node node-1: its probe ended with code 139 (Error): segmentation "
                   "fault."),
    ROW("decide_counts_failed_probes_that_it_has_no_room_for", two_probes_said_much, PLACED, F,
        "InsufficientNodes", .message = " 1 more could not be measured.", .spec = ALL_NODES),
    ROW("decide_tells_of_a_probe_that_reports_nonsense", a_probe_told_nonsense, PLACED, F,
        "InsufficientNodes", .message = "its probe left no valid result: fast.", .spec = ALL_NODES),
    ROW("decide_tells_what_keeps_a_probe_from_starting", a_probe_cannot_start, PLACED, F,
        "MeasuringNodes", .state = "Measuring", COUNT(ACTION_CREATE_REVISION, 0),
        .is_waiting = true, .message = " cannot start: CreateContainerError: no space left"),
    ROW("decide_gives_a_probe_up_that_never_starts", a_probe_never_started, PLACED, F,
        "InsufficientNodes", .spec = ALL_NODES,
        .message = "node node-0: its probe did not start (CreateContainerError): no space left;"),
    ROW("decide_tells_that_a_probe_has_no_place", a_probe_has_no_place, PLACED, F, "MeasuringNodes",
        .message = " cannot be scheduled: too many pods"),
    ROW("decide_tells_that_probes_have_no_image", image_missing_for_probes, PLACED, F,
        "ImagePullFailed", .state = "Waiting", .event = "ImagePullFailed",
        COUNT(ACTION_DELETE_POD, 0)),
};

static void decide_plans_with_speed_by_free_cpu(void **state)
{
    struct world *w = world_new(NULL);

    (void)state;
    w->nodes[2].cpu_used_milli = 2400; /* of 3000: the fastest becomes the slowest */
    (void)world_settle(w);
    for (int s = 0; s < w->seen.revision.plan.n_workers; s++)
        if (strcmp(w->seen.revision.plan.workers[s].node, "node-2") == 0)
            assert_int_equal(w->seen.revision.plan.workers[s].cpu_milli, 600);
    world_free(w);
}

static void decide_never_labels_twice(void **state)
{
    struct world *w = world_new(NULL);

    (void)state;
    probes_done(w);
    (void)world_settle(w);
    world_decide(w);
    assert_int_equal(world_count(w, ACTION_ANNOTATE_NODE), 0);
    assert_null(world_probe(w, "node-0")); /* and clears its probes away */
    world_free(w);
}

/* No node has room for the largest unit of the model. */
static struct world *without_room(void)
{
    struct world *w = world_new(
        "{\"model\":{\"preset\":\"BertBase\"},\"data\":{\"source\":{\"sample\":\"MNLI\"}}}");

    for (int i = 0; i < WORLD_NODES; i++)
        w->nodes[i].memory_used_bytes = w->nodes[i].memory_bytes - ((int64_t)200 << 20);
    (void)world_settle(w);
    assert_true(w->seen.unplaced.is_set);
    assert_int_equal(w->seen.unplaced.solved_ms, w->seen.now_ms);
    return w;
}

static void decide_does_not_search_again_while_nothing_has_changed(void **state)
{
    struct world *w = without_room();
    struct unplaced first = w->seen.unplaced;

    (void)state;
    for (int i = 0; i < 100; i++) {
        w->seen.now_ms += DECIDE_SOLVE_MS;
        world_round(w);
        assert_int_equal(w->seen.unplaced.solved_ms, first.solved_ms);
        assert_true(w->decision.requeue_ms > DECIDE_SOLVE_MS);
    }
    assert_non_null(strstr(w->seen.status.message, first.why)); /* and says the same */
    world_free(w);
}

static void decide_searches_again_when_a_node_has_changed_but_not_at_once(void **state)
{
    struct world *w = without_room();
    int64_t first_ms = w->seen.now_ms;

    (void)state;
    for (int i = 1; i < 50; i++) { /* nodes that never come to rest */
        w->seen.now_ms = first_ms + i;
        w->nodes[0].memory_used_bytes -= 4096;
        world_round(w);
        assert_int_equal(w->seen.unplaced.solved_ms, first_ms);
        assert_int_equal(w->decision.requeue_ms, DECIDE_SOLVE_MS - i);
    }
    for (int i = 0; i < WORLD_NODES; i++)
        w->nodes[i].memory_used_bytes = 0;
    w->seen.now_ms = first_ms + DECIDE_SOLVE_MS;
    world_round(w);
    assert_int_equal(world_count(w, ACTION_CREATE_REVISION), 1);
    assert_false(w->seen.unplaced.is_set);
    world_free(w);
}

static void decide_searches_again_after_an_edit_of_the_job(void **state)
{
    struct world *w = without_room();

    (void)state;
    w->seen.generation++;
    w->seen.now_ms += DECIDE_SOLVE_MS;
    world_round(w);
    assert_int_equal(w->seen.unplaced.solved_ms, w->seen.now_ms);
    world_free(w);
}

static void decide_searches_again_when_the_clock_was_set_back(void **state)
{
    struct world *w = without_room();

    (void)state;
    w->seen.generation++;
    w->seen.now_ms -= 3600000;
    world_round(w);
    assert_int_equal(w->seen.unplaced.solved_ms, w->seen.now_ms);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(decide_plans_with_speed_by_free_cpu),
        cmocka_unit_test(decide_never_labels_twice),
        cmocka_unit_test(decide_does_not_search_again_while_nothing_has_changed),
        cmocka_unit_test(decide_searches_again_when_a_node_has_changed_but_not_at_once),
        cmocka_unit_test(decide_searches_again_after_an_edit_of_the_job),
        cmocka_unit_test(decide_searches_again_when_the_clock_was_set_back),
    };

    return row_main(rows, sizeof rows / sizeof rows[0], others, sizeof others / sizeof others[0]);
}
