/* Jobs that give their nodes back for a while. */
#include <stdio.h>
#include <string.h>

#include "row.h"

#define SPEC(members)                                                                              \
    "{\"data\": {\"source\": {\"sample\": \"MNLI\"}}, \"placement\": {\"maxStages\": 3}, "         \
    "\"checkpoint\": {\"store\": {" members
#define SHARED(rest) SPEC("\"persistentVolumeClaim\": {\"claimName\": \"a\"}}}" rest "}")
#define PEERS(rest)  SPEC("\"peers\": {}}}" rest "}")
#define SUSPEND      ", \"suspend\": true"
#define ON           SHARED("")
#define OFF          SHARED(SUSPEND)

static void suspend(struct world *w)
{
    world_set_spec(w, OFF);
    w->seen.generation++;
}

static void fresh(struct world *w)
{
    (void)w;
}

static void settled(struct world *w)
{
    (void)world_settle(w);
}

static void starting(struct world *w)
{
    (void)world_settle(w);
    suspend(w);
}

static void starting_with_the_last_number(struct world *w)
{
    starting(w);
    w->seen.status.revision = w->seen.revision.plan.revision = PLAN_REVISION_MAX;
}

static void measuring(struct world *w)
{
    for (int i = 0; i < WORLD_NODES; i++)
        w->nodes[i].annotations.gflops = 0;
    (void)world_settle(w);
    assert_non_null(world_probe(w, "node-0"));
    suspend(w);
    world_round(w);
}

static void training(struct world *w)
{
    world_train_on(w);
    suspend(w);
}

/* The checkpoint that was ordered is there, or could not be written. */
static void answers(struct world *w, int64_t step)
{
    training(w);
    world_round(w);
    w->seen.leader.ordered = (struct progress_ordered){w->seen.status.suspend_ms, step};
}

static void saved(struct world *w)
{
    answers(w, 8);
}

static void not_saved(struct world *w)
{
    answers(w, 0);
}

static void not_saved_30_s_ago(struct world *w)
{
    not_saved(w);
    world_round(w);
    w->seen.now_ms += 30000;
    world_round(w);
}

static void saved_before(struct world *w)
{
    training(w);
    world_round(w);
    w->seen.leader.ordered = (struct progress_ordered){w->seen.status.suspend_ms - 1000, 8};
}

static void saved_by_another_revision(struct world *w)
{
    saved(w);
    w->seen.leader.revision++;
}

static void suspended(struct world *w)
{
    saved(w);
    world_round(w);
}

static void without_pods(struct world *w)
{
    suspended(w);
    (void)world_settle(w);
    assert_int_equal(w->seen.n_pods, 0);
}

static void resumed(struct world *w)
{
    without_pods(w);
    world_set_spec(w, ON);
    w->seen.generation++;
}

static void changed_mind(struct world *w)
{
    training(w);
    world_round(w);
    world_set_spec(w, ON);
}

static void training_with_peers(struct world *w)
{
    world_train_on(w);
    world_set_spec(w, PEERS(SUSPEND));
}

static void recovering(struct world *w)
{
    world_train_on(w);
    world_remove_pod(w, world_pod(w, 1));
    world_round(w);
    suspend(w);
}

static void done(struct world *w)
{
    world_train_on(w);
    w->seen.leader.state = PROGRESS_DONE;
    world_round(w);
    suspend(w);
}

static void waiting_for_nodes(struct world *w)
{
    world_train_on(w);
    for (int i = 0; i < WORLD_NODES; i++)
        if (strcmp(w->nodes[i].name, world_pod(w, 1)->node) == 0)
            w->nodes[i].excluded = EXCLUDED_NOT_READY;
    world_remove_pod(w, world_pod(w, 1));
    (void)world_settle(w);
    (void)snprintf(w->seen.status.conditions[CONDITION_PLACED].reason, STATUS_REASON_BYTES,
                   "InsufficientNodes");
    suspend(w);
}

static void invalid_while_suspended(struct world *w)
{
    without_pods(w);
    world_set_spec(w, "{\"data\": 1}");
}

#define ORDERS(n) COUNT(ACTION_ORDER_CHECKPOINT, n)
#define PODS(n)   COUNT(ACTION_CREATE_WORKER_POD, n)
#define GONE(n)   COUNT(ACTION_DELETE_POD, n)

static struct row rows[] = {
    ROW("suspend_is_not_there_unless_asked_for", settled, SUSPENDED, F, "NotSuspended", .spec = ON,
        .state = "Starting"),
    ROW("suspend_from_the_start_makes_no_pod", fresh, SUSPENDED, T, "Suspended", .spec = OFF,
        .state = "Suspended", .event = "Suspended", .counts = true,
        .action = ACTION_CREATE_REVISION),
    ROW("suspend_from_the_start_stays", settled, SUSPENDED, T, "Suspended", .spec = OFF, PODS(0)),
    ROW("suspend_of_a_job_that_starts_needs_no_checkpoint", starting, SUSPENDED, T, "Suspended",
        .spec = ON, ORDERS(0)),
    ROW("suspend_fails_a_job_for_which_there_is_no_number_left", starting_with_the_last_number,
        FAILED, F, "RestartLimit", .spec = ON, .state = "Failing"),
    ROW("suspend_ends_probes", measuring, SUSPENDED, T, "Suspended", .spec = ON, GONE(3)),
    ROW("suspend_of_a_job_that_trains_writes_a_checkpoint_first", training, SUSPENDED, F,
        "Suspending", .spec = ON, ORDERS(1)),
    ROW("suspend_does_not_count_a_checkpoint_from_before", saved_before, SUSPENDED, F, "Suspending",
        .spec = ON),
    ROW("suspend_does_not_count_a_checkpoint_of_another_revision", saved_by_another_revision,
        SUSPENDED, F, "Suspending", .spec = ON),
    ROW("suspend_follows_the_checkpoint", saved, SUSPENDED, T, "Suspended", .spec = ON,
        .state = "Suspended", .event = "Suspended", .message = "step 8", GONE(0)),
    ROW("suspend_is_written_down_before_pods_are_deleted", suspended, SUSPENDED, T, "Suspended",
        .spec = ON, GONE(3)),
    ROW("suspend_is_not_running", suspended, RUNNING, F, "Suspended", .spec = ON),
    ROW("suspend_waits_for_nothing", without_pods, SUSPENDED, T, "Suspended", .spec = ON,
        COUNT(ACTION_EVENT, 0)),
    ROW("suspend_tells_that_the_checkpoint_failed", not_saved, SUSPENDED, F, "CheckpointFailed",
        .spec = ON, .event = "CheckpointFailed"),
    ROW("suspend_tries_another_checkpoint_later", not_saved_30_s_ago, SUSPENDED, F, "Suspending",
        .spec = ON, ORDERS(1)),
    ROW("suspend_that_is_taken_back_in_time_has_no_effect", changed_mind, SUSPENDED, F,
        "NotSuspended", .spec = ON, ORDERS(0)),
    ROW("suspend_of_what_would_be_lost_is_refused", training_with_peers, SUSPENDED, F,
        "CannotSuspend", .spec = PEERS(""), .event = "CannotSuspend", ORDERS(0)),
    ROW("suspend_of_a_job_that_recovers_waits_until_it_trains", recovering, SUSPENDED, F,
        "Suspending", .spec = ON, ORDERS(0)),
    ROW("suspend_of_a_job_that_recovers_in_vain_does_not_wait", waiting_for_nodes, SUSPENDED, T,
        "Suspended", .spec = ON),
    ROW("suspend_of_a_job_that_is_done_is_too_late", done, SUSPENDED, F, "NotSuspended",
        .spec = ON),
    ROW("suspended_job_that_is_resumed_is_planned_again", resumed, SUSPENDED, F, "Resumed",
        .spec = ON, .event = "Resumed", COUNT(ACTION_CREATE_REVISION, 1)),
    ROW("suspended_job_with_an_invalid_spec_makes_no_pod", invalid_while_suspended, SUSPENDED, T,
        "Suspended", .spec = ON, .state = "Invalid", PODS(0)),
};

/* The progress that a suspended job has made stays in sight; the number of its next revision is
 * above that of its last, and its start is that of the resumption. */
static void suspended_job_shows_where_it_is(void **state)
{
    struct world *w = world_new(ON);
    const struct status *s = &w->seen.status;

    (void)state;
    without_pods(w);
    assert_int_equal(s->progress.step, 7);
    assert_int_equal(s->revision, 2);
    assert_int_equal(s->n_stages, 0);
    assert_true(s->start_ms == 0);
    world_set_spec(w, ON);
    w->seen.has_leader = false;
    world_start_training(w);
    assert_int_equal(s->revision, 2);
    assert_true(s->start_ms > 0);
    assert_int_equal(s->restarts, 0);
    world_free(w);
}

/* Without a pod, and again when a node changes. */
static void suspended_job_shows_what_its_plan_would_be(void **state)
{
    struct world *w = world_new(OFF);
    const struct status *s = &w->seen.status;
    const struct condition *placed = &s->conditions[CONDITION_PLACED];

    (void)state;
    (void)world_settle(w);
    assert_string_equal(s->placement.nodes, "node-2,node-1,node-0");
    assert_string_equal(s->placement.strategy, "Optimal");
    assert_true(s->placement.summary.predicted_step_ms > 0);
    assert_int_equal(placed->value, F);
    assert_non_null(strstr(placed->message, "With the nodes as they are: "));
    assert_int_equal(s->n_stages, 0);
    assert_int_equal(w->seen.n_pods, 0);
    for (int i = 0; i < WORLD_NODES; i++)
        w->nodes[i].excluded = EXCLUDED_NOT_READY;
    w->seen.now_ms += DECIDE_SOLVE_MS;
    (void)world_settle(w);
    assert_string_equal(s->placement.nodes, "");
    assert_non_null(strstr(placed->message, "there is no plan: "));
    for (int i = 0; i < WORLD_NODES; i++)
        w->nodes[i].excluded = EXCLUDED_NOT;
    world_set_spec(w, ON); /* the answer to the preview is none to this */
    (void)world_settle(w);
    assert_int_equal(s->n_stages, 3);
    world_free(w);
}

static void job_of_another_manager_is_left_alone(void **state)
{
    struct world *w = world_new(ON);

    (void)state;
    w->seen.is_foreign = true;
    assert_int_equal(world_settle(w), 0);
    assert_string_equal(w->seen.status.state, "");
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(suspended_job_shows_where_it_is),
        cmocka_unit_test(suspended_job_shows_what_its_plan_would_be),
        cmocka_unit_test(job_of_another_manager_is_left_alone),
    };

    return row_main(rows, sizeof rows / sizeof rows[0], others, sizeof others / sizeof others[0]);
}
