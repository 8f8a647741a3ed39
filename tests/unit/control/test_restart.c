/* What follows when something breaks: one row, one situation, and what is decided then. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "row.h"

static void pod_vanished(struct world *w)
{
    world_start_training(w);
    world_remove_pod(w, world_pod(w, 1));
}

static void pod_deleted(struct world *w)
{
    world_start_training(w);
    world_pod(w, 1)->is_deleting = true;
}

static void pod_evicted(struct world *w)
{
    world_start_training(w);
    world_end_pod(w, 1, 137, PROGRESS_CAUSE_NONE);
    world_pod(w, 1)->is_disrupted = true;
}

static void pod_failed(struct world *w)
{
    world_start_training(w);
    world_end_pod(w, 1, 1, PROGRESS_CAUSE_OTHER);
}

static void pod_failed_once_too_often(struct world *w)
{
    pod_failed(w);
    w->seen.status.restarts = 3;
}

static void pod_killed(struct world *w)
{
    world_start_training(w);
    world_end_pod(w, 1, 137, PROGRESS_CAUSE_NONE);
    world_pod(w, 1)->progress = NULL;
}

static void pod_out_of_memory(struct world *w)
{
    pod_killed(w);
    world_pod(w, 1)->is_out_of_memory = true;
}

static void pod_says_config(struct world *w)
{
    world_start_training(w);
    world_end_pod(w, 0, 2, PROGRESS_CAUSE_CONFIG);
}

static void pod_cannot_save(struct world *w)
{
    world_start_training(w);
    world_end_pod(w, 0, 1, PROGRESS_CAUSE_OUTPUT);
}

static void pod_misses_data(struct world *w)
{
    world_start_training(w);
    world_end_pod(w, 0, 1, PROGRESS_CAUSE_DATA_MISSING);
    w->seen.status.restarts = 3; /* which is the limit, and does not matter */
}

static void pod_refuses_the_revision(struct world *w)
{
    (void)world_settle(w);
    world_run_pods(w);
    for (int s = 0; s < 3; s++)
        world_pod(w, s)->accepted = s != 1;
    world_pod(w, 1)->refuses = true;
    strcpy(world_pod(w, 1)->refusal, "worker answered 409: another revision 1");
}

static void pod_refuses_the_revision_while_training(struct world *w)
{
    world_start_training(w);
    world_pod(w, 1)->refuses = true;
}

static void pod_lost_its_peer(struct world *w)
{
    world_start_training(w);
    world_end_session(w, 0, 1);
}

static void pod_lost_its_peer_long_ago(struct world *w)
{
    world_start_training(w);
    world_end_session(w, 0, DECIDE_PEER_GRACE_MS);
}

static void stage_2_is_frozen(struct world *w)
{
    world_start_training(w);
    world_end_session(w, 0, DECIDE_PEER_GRACE_MS);
    world_end_session(w, 1, DECIDE_PEER_GRACE_MS);
    world_pod(w, 2)->silent_ms = 3000;
}

static void culprit_and_victim(struct world *w)
{
    pod_lost_its_peer(w);
    world_end_pod(w, 1, 1, PROGRESS_CAUSE_OTHER);
}

static void restarting(struct world *w)
{
    pod_failed(w);
    world_round(w);
}

static void pause_over(struct world *w)
{
    restarting(w);
    world_round(w); /* the old pods go */
    w->seen.now_ms += DECIDE_BACKOFF_MS + 1000;
}

static void old_pod_stays(struct world *w)
{
    pod_deleted(w);
    (void)world_settle(w);
}

static void node_of_stage_1_dies(struct world *w)
{
    for (int i = 0; i < WORLD_NODES; i++)
        if (strcmp(w->nodes[i].name, world_pod(w, 1)->node) == 0)
            w->nodes[i].excluded = EXCLUDED_NOT_READY;
}

static void old_pod_stays_on_dead_node(struct world *w)
{
    old_pod_stays(w);
    node_of_stage_1_dies(w);
}

static void failed_with_others_running(struct world *w)
{
    pod_says_config(w);
    world_round(w);
}

static void failed_and_ended(struct world *w)
{
    pod_says_config(w);
    (void)world_settle(w);
}

static void failed_with_a_pod_that_stays(struct world *w)
{
    pod_says_config(w);
    world_pod(w, 1)->is_deleting = true;
    (void)world_settle(w);
}

static void failed_on_a_dead_node(struct world *w)
{
    failed_with_a_pod_that_stays(w);
    node_of_stage_1_dies(w);
}

/* A pod that somebody else has made has the name of stage 1. */
static void name_taken(struct world *w)
{
    struct seen_pod *p;

    (void)world_settle(w);
    p = world_pod(w, 1);
    w->seen.status.stages[1].pod_uid[0] = '\0';
    p->role = POD_FOREIGN;
    p->phase = POD_FAILED;
    p->has_exit_code = true;
    p->exit_code = 2;
}

/* The same, and nothing has refused it yet. */
static void claims_to_be_ours(struct world *w)
{
    world_start_training(w);
    w->seen.pods[w->seen.n_pods] = *world_pod(w, 1);
    w->seen.pods[w->seen.n_pods].role = POD_UNVERIFIED;
    w->seen.pods[w->seen.n_pods].phase = POD_FAILED;
    w->seen.pods[w->seen.n_pods].has_exit_code = true;
    w->seen.pods[w->seen.n_pods++].exit_code = 2;
}

static void last_revision_lost(struct world *w)
{
    w->seen.status.revision = PLAN_REVISION_MAX;
    pod_vanished(w);
}

static struct row rows[] = {
    ROW("decide_says_that_a_name_is_taken_and_goes_on_with_others", name_taken, RUNNING, F,
        "NameTaken", .state = "Restarting", .event = "NameTaken", COUNT(ACTION_DELETE_POD, 0),
        .message = "Pod mnli-0b7d-w1-1 exists already and was not created by the operator"),
    ROW("decide_does_not_believe_a_pod_that_claims_to_be_ours", claims_to_be_ours, RUNNING, T,
        "Training", .state = "Running", COUNT(ACTION_EVENT, 0), .is_waiting = true),
    ROW("decide_gives_up_when_there_are_no_more_numbers", last_revision_lost, FAILED, F,
        "RestartLimit", .state = "Failing"),
    ROW("decide_restarts_when_a_pod_has_vanished", pod_vanished, RUNNING, F, "WorkerLost",
        .state = "Restarting", .event = "WorkerLost", COUNT(ACTION_CREATE_WORKER_POD, 0)),
    ROW("decide_restarts_as_soon_as_a_pod_is_deleted", pod_deleted, RUNNING, F, "WorkerLost",
        .state = "Restarting", .event = "WorkerLost"),
    ROW("decide_takes_an_eviction_for_a_disruption", pod_evicted, RUNNING, F, "WorkerLost",
        .state = "Restarting", .event = "WorkerLost"),
    ROW("decide_restarts_after_a_failure", pod_failed, RUNNING, F, "WorkerFailed",
        .state = "Restarting", .event = "WorkerFailed", COUNT(ACTION_DELETE_POD, 0)),
    ROW("decide_gives_up_at_the_restart_limit", pod_failed_once_too_often, FAILED, F,
        "RestartLimit", .state = "Failing", .event = "RestartLimit"),
    ROW("decide_counts_a_killed_worker_as_failed", pod_killed, RUNNING, F, "WorkerFailed",
        .message = "failed: killed (SIGKILL; out of memory or by the node)", .state = "Restarting",
        .event = "WorkerFailed"),
    ROW("decide_says_what_to_do_about_memory", pod_out_of_memory, RUNNING, F, "WorkerOutOfMemory",
        .state = "Restarting", .event = "WorkerOutOfMemory"),
    ROW("decide_fails_at_once_when_the_configuration_is_wrong", pod_says_config, FAILED, F,
        "InvalidConfiguration", .state = "Failing", .event = "InvalidConfiguration"),
    ROW("decide_restarts_loudly_when_a_worker_has_another_revision", pod_refuses_the_revision,
        RUNNING, F, "RevisionRefused", .state = "Restarting", .event = "RevisionRefused",
        .message = "worker answered 409"),
    ROW("decide_lets_workers_train_that_refuse_late", pod_refuses_the_revision_while_training,
        RUNNING, T, "Training", .state = "Running"),
    ROW("decide_does_not_train_again_when_the_output_cannot_be_saved", pod_cannot_save, FAILED, F,
        "OutputFailed", .state = "Failing", .event = "OutputFailed"),
    ROW("decide_tries_again_without_end_for_missing_data", pod_misses_data, RUNNING, F,
        "DataMissing", .state = "Restarting", .event = "DataMissing"),
    ROW("decide_waits_for_the_culprit_of_a_lost_peer", pod_lost_its_peer, RUNNING, T, "Training",
        .state = "Running", COUNT(ACTION_EVENT, 0), .is_waiting = true),
    ROW("decide_restarts_when_nobody_is_to_blame", pod_lost_its_peer_long_ago, RUNNING, F,
        "ConnectionLost", .state = "Restarting", .event = "ConnectionLost"),
    ROW("decide_names_the_worker_that_went_silent", stage_2_is_frozen, RUNNING, F, "ConnectionLost",
        .message =
            "Stage 2 on node node-0 stopped responding: its pod mnli-0b7d-w2-1 is still running"),
    ROW("decide_blames_the_culprit_and_not_the_victim", culprit_and_victim, RUNNING, F,
        "WorkerFailed", .state = "Restarting", .event = "WorkerFailed"),
    ROW("decide_deletes_a_failed_pod_once_the_next_revision_is_written", restarting, PLACED, F,
        "Restarting", .state = "Restarting", COUNT(ACTION_DELETE_POD, 1), .is_waiting = true),
    ROW("decide_makes_the_next_revision_after_the_pause", pause_over, PLACED, F, "Restarting",
        COUNT(ACTION_CREATE_REVISION, 1)),
    ROW("decide_waits_until_a_lost_pod_is_gone", old_pod_stays, PLACED, F, "WaitingForPods",
        .state = "Restarting", COUNT(ACTION_CREATE_REVISION, 0)),
    ROW("decide_does_not_wait_for_pods_on_a_dead_node", old_pod_stays_on_dead_node, PLACED, F,
        "WaitingForPods", COUNT(ACTION_CREATE_REVISION, 1)),
    ROW("decide_stops_what_still_runs_of_a_failed_job", failed_with_others_running, FAILED, F,
        "InvalidConfiguration", .state = "Failing", COUNT(ACTION_DELETE_POD, 2)),
    ROW("decide_lets_a_job_fail_once_its_pods_have_ended", failed_and_ended, FAILED, T,
        "InvalidConfiguration", .state = "Failed", COUNT(ACTION_EVENT, 0)),
    ROW("decide_waits_for_the_last_pod_of_a_job_that_fails", failed_with_a_pod_that_stays, FAILED,
        F, "InvalidConfiguration", .state = "Failing", COUNT(ACTION_EVENT, 0), .is_waiting = true),
    ROW("decide_lets_a_job_fail_whose_last_pod_is_on_a_dead_node", failed_on_a_dead_node, FAILED, T,
        "InvalidConfiguration", .state = "Failed"),
};

static void decide_replaces_a_worker_at_once_and_then_after_growing_pauses(void **state)
{
    static const int64_t pauses_ms[] = {1000, 10000, 20000};
    struct world *w = world_new(NULL);

    (void)state;
    for (int i = 0; i < 3; i++) {
        world_start_training(w);
        world_end_pod(w, 0, 1, PROGRESS_CAUSE_OTHER);
        world_decide(w);
        assert_int_equal(w->decision.status.restarts, i + 1);
        assert_int_equal(w->decision.status.revision, i + 2);
        assert_int_equal(w->decision.status.next_revision_ms, w->seen.now_ms + pauses_ms[i]);
        (void)world_settle(w);
        w->seen.now_ms += pauses_ms[i];
    }
    world_free(w);
}

/* --- the pause before the next revision --- */

static void lose_worker(struct world *w)
{
    world_remove_pod(w, world_pod(w, 2));
}

static void lose_connection(struct world *w)
{
    world_end_session(w, 0, DECIDE_PEER_GRACE_MS);
}

static void miss_data(struct world *w)
{
    world_end_pod(w, 0, 1, PROGRESS_CAUSE_DATA_MISSING);
}

static void be_turned_away(struct world *w)
{
    world_end_pod(w, 1, 1, PROGRESS_CAUSE_NONE);
    world_pod(w, 1)->has_exit_code = false;
}

static const struct pauses {
    void (*break_it)(struct world *w);
    const char *reason;
    int64_t first_ms;
    int64_t second_ms;
} uncounted[] = {
    {lose_worker, "WorkerLost", 0, DECIDE_BACKOFF_MS},
    {lose_connection, "ConnectionLost", 0, DECIDE_BACKOFF_MS},
    {miss_data, "DataMissing", DECIDE_BACKOFF_MS, 2 * DECIDE_BACKOFF_MS},
    {be_turned_away, "Unschedulable", DECIDE_BACKOFF_MS, 2 * DECIDE_BACKOFF_MS},
};

/* Train for `trained_ms`, break, and return the pause that follows; then let it pass. */
static int64_t pause_after(struct world *w, const struct pauses *how, int64_t trained_ms)
{
    int64_t pause_ms;

    world_start_training(w);
    w->seen.now_ms += trained_ms;
    how->break_it(w);
    world_round(w);
    assert_string_equal(w->seen.status.conditions[CONDITION_RUNNING].reason, how->reason);
    assert_int_equal(w->seen.status.restarts, 0);
    pause_ms =
        w->seen.status.next_revision_ms ? w->seen.status.next_revision_ms - w->seen.now_ms : 0;
    w->seen.now_ms += pause_ms;
    return pause_ms;
}

static void decide_doubles_the_pause_of_restarts_that_do_not_count(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof uncounted / sizeof uncounted[0]; i++) {
        struct world *w = world_new(NULL);
        int64_t pause_ms = uncounted[i].second_ms;

        assert_int_equal(pause_after(w, &uncounted[i], 1000), uncounted[i].first_ms);
        for (int k = 0; k < 6; k++) {
            assert_int_equal(pause_after(w, &uncounted[i], 1000), pause_ms);
            pause_ms = 2 * pause_ms < DECIDE_BACKOFF_MAX_MS ? 2 * pause_ms : DECIDE_BACKOFF_MAX_MS;
        }
        assert_int_equal(pause_after(w, &uncounted[i], 1000), DECIDE_BACKOFF_MAX_MS);
        world_free(w);
    }
}

static void decide_starts_with_a_short_pause_after_a_minute_of_training(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof uncounted / sizeof uncounted[0]; i++) {
        struct world *w = world_new(NULL);

        for (int k = 0; k < 4; k++)
            (void)pause_after(w, &uncounted[i], 1000);
        assert_int_equal(pause_after(w, &uncounted[i], 60000), uncounted[i].first_ms);
        world_free(w);
    }
}

static void decide_makes_another_revision_when_a_name_is_taken(void **state)
{
    struct world *w = world_new(NULL);

    (void)state;
    name_taken(w);
    (void)world_settle(w);
    w->seen.now_ms += 60000;
    (void)world_settle(w);
    assert_int_equal(w->seen.status.revision, 2);
    assert_int_equal(w->seen.status.restarts, 0);
    assert_int_equal(w->seen.revision.plan.revision, 2);
    world_free(w);
}

static void decide_deletes_the_revision_that_it_has_seen_and_no_other(void **state)
{
    struct world *w = world_new(NULL);
    const struct action *a = NULL;

    (void)state;
    pod_vanished(w);
    for (int i = 0; i < WORLD_ROUNDS_MAX && !a; i++) {
        world_round(w);
        a = world_find(w, ACTION_DELETE_REVISION);
    }
    assert_non_null(a);
    assert_int_equal(a->revision, 1);
    assert_string_equal(a->uid, "revision-1");
    world_free(w);
}

static void decide_gives_half_as_much_memory_again(void **state)
{
    struct world *w = world_new(NULL);
    int64_t before;

    (void)state;
    world_start_training(w);
    before = w->seen.revision.plan.workers[1].memory_bytes;
    world_end_pod(w, 1, 137, PROGRESS_CAUSE_NONE);
    world_pod(w, 1)->is_out_of_memory = true;
    (void)world_settle(w);
    assert_int_equal(w->seen.status.memory_percent, 150);
    w->seen.now_ms += DECIDE_BACKOFF_MS + 1000;
    (void)world_settle(w);
    assert_int_equal(w->seen.revision.plan.revision, 2);
    assert_true(w->seen.revision.plan.workers[1].memory_bytes >= before * 3 / 2 - (1 << 20));
    for (int s = 0; s < w->seen.revision.plan.n_workers; s++)
        assert_true(w->seen.revision.plan.workers[s].memory_bytes <= w->nodes[s].memory_bytes);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(decide_replaces_a_worker_at_once_and_then_after_growing_pauses),
        cmocka_unit_test(decide_doubles_the_pause_of_restarts_that_do_not_count),
        cmocka_unit_test(decide_starts_with_a_short_pause_after_a_minute_of_training),
        cmocka_unit_test(decide_makes_another_revision_when_a_name_is_taken),
        cmocka_unit_test(decide_deletes_the_revision_that_it_has_seen_and_no_other),
        cmocka_unit_test(decide_gives_half_as_much_memory_again),
    };

    return row_main(rows, sizeof rows / sizeof rows[0], others, sizeof others / sizeof others[0]);
}
