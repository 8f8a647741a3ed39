/* Workers that leave: who takes their units, and when they count as lost after all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "row.h"

/* Two stages on the fastest of three nodes. */
static const char two_stages[] = "{\"model\":{\"preset\":\"BertMini\"},\"data\":{\"source\":{"
                                 "\"sample\":\"MNLI\"}},\"placement\":{\"minStages\":2,"
                                 "\"maxStages\":2}}";
static const char two_at_most[] = "{\"model\":{\"preset\":\"BertMini\"},\"data\":{\"source\":{"
                                  "\"sample\":\"MNLI\"}},\"placement\":{\"maxStages\":2}}";

static const char two_replicas[] = "{\"model\":{\"preset\":\"BertMini\"},\"data\":{\"source\":{"
                                   "\"sample\":\"MNLI\"}},\"replicas\":2,\"placement\":{"
                                   "\"minStages\":1,\"maxStages\":1}}";

static const struct plan *plan_of(const struct world *w)
{
    return &w->seen.revision.plan;
}

/* All workers train, and hold the units that are at home there after 7 steps. */
static void train(struct world *w)
{
    const struct revision *r = &w->seen.revision;

    world_make_alike(w);
    world_start_training(w);
    w->seen.has_leader = true;
    w->seen.leader = (struct progress){.state = PROGRESS_TRAINING,
                                       .revision = r->plan.revision,
                                       .step = 7,
                                       .total_steps = 100,
                                       .loss = 1};
    for (int s = 0; s < r->plan.n_workers; s++) {
        struct report *report = &w->reports[world_pod(w, s)->slot];
        struct plan_home home;

        (void)plan_home(&r->plan, s, &home);
        report->end = (struct step_end){.revision = r->plan.revision, .step = 7};
        report_add(report, &(struct report_run){
                               .first_unit = home.first_unit, .n_units = home.n_units, .step = 7});
    }
    (void)world_settle(w);
}

/* As `kubectl drain` does it: the node is cordoned, the pod evicted with its grace period. */
static void drain(struct world *w, int stage)
{
    struct seen_pod *p = world_pod(w, stage);

    p->is_deleting = p->is_disrupted = true;
    p->grace_ms = 60000;
    p->deleting_ms = 1;
    for (int i = 0; i < WORLD_NODES; i++)
        if (strcmp(w->nodes[i].name, p->node) == 0)
            w->nodes[i].excluded = EXCLUDED_CORDONED;
}

static void exclude_spare(struct world *w)
{
    for (int i = 0; i < WORLD_NODES; i++)
        if (strcmp(w->nodes[i].name, plan_of(w)->workers[0].node) != 0 &&
            strcmp(w->nodes[i].name, plan_of(w)->workers[1].node) != 0)
            w->nodes[i].excluded = EXCLUDED_NOT_READY;
}

/* The pods that are not in the plan start, and answer. */
static void join(struct world *w)
{
    for (int i = 0; i < w->seen.n_pods; i++) {
        struct seen_pod *p = &w->seen.pods[i];
        struct report *report = &w->reports[p->slot];

        if (p->role != POD_WORKER || p->phase != POD_PENDING)
            continue;
        p->phase = POD_RUNNING;
        (void)snprintf(p->ip, sizeof p->ip, "10.0.1.%d", p->slot);
        *report = (struct report){.slot = p->slot, .incarnation = p->incarnation};
        p->report = report;
    }
}

static void second_drained(struct world *w)
{
    train(w);
    drain(w, 1);
}

static void second_drained_and_told(struct world *w)
{
    second_drained(w);
    world_round(w);
}

static void second_drained_without_room(struct world *w)
{
    train(w);
    w->seen.revision.plan.spec.checkpoint.is_on = false;
    exclude_spare(w);
    drain(w, 1);
}

static void second_drained_with_a_store(struct world *w)
{
    train(w);
    w->seen.revision.plan.spec.checkpoint.is_on = true;
    exclude_spare(w);
    drain(w, 1);
}

static void second_drained_and_saved(struct world *w)
{
    second_drained_with_a_store(w);
    w->reports[world_pod(w, 1)->slot].is_leaving = true;
    w->reports[world_pod(w, 1)->slot].has_saved = true;
}

static void second_saved_long_ago(struct world *w)
{
    second_drained_with_a_store(w);
    world_pod(w, 1)->deleting_ms = DECIDE_LEAVING_SAVE_MS;
}

static void second_deleted_at_once(struct world *w)
{
    second_drained(w);
    world_pod(w, 1)->grace_ms = 1000;
}

static void second_drained_and_silent(struct world *w)
{
    second_drained(w);
    world_pod(w, 1)->silent_ms = DECIDE_LEAVING_SILENT_MS;
}

static void second_told_by_its_node(struct world *w)
{
    train(w);
    w->reports[world_pod(w, 1)->slot].is_leaving = true;
}

static void second_gone_before_it_joined(struct world *w)
{
    second_drained_and_told(w);
    world_remove_pod(w, world_pod(w, 1));
}

static struct row rows[] = {
    ROW("drain_starts_another_worker_while_the_job_trains", second_drained, RUNNING, T, "Training",
        .event = "WorkerLeaving", COUNT(ACTION_CREATE_SUBSTITUTE, 1), .is_waiting = true,
        .spec = two_stages),
    ROW("drain_halts_none_before_the_new_worker_is_there", second_drained_and_told, RUNNING, T,
        "Training", COUNT(ACTION_HALT, 0), .is_waiting = true, .spec = two_stages),
    ROW("drain_creates_the_new_worker_once", second_drained_and_told, RUNNING, T, "Training",
        COUNT(ACTION_CREATE_SUBSTITUTE, 0), .spec = two_stages),
    ROW("drain_deletes_no_pod_meanwhile", second_drained_and_told, RUNNING, T, "Training",
        COUNT(ACTION_DELETE_POD, 0), .spec = two_stages),
    ROW("drain_lets_the_neighbours_take_over_where_no_node_has_room", second_drained_without_room,
        RUNNING, F, "WorkerLeaving", .event = "WorkerLeaving", .spec = two_at_most),
    ROW("drain_counts_a_worker_as_lost_that_none_can_follow", second_drained_without_room, RUNNING,
        F, "WorkerLost", .event = "WorkerLost", .spec = two_stages),
    ROW("drain_waits_for_a_checkpoint_before_it_does", second_drained_with_a_store, RUNNING, T,
        "Training", COUNT(ACTION_EVENT, 0), .is_waiting = true, .spec = two_stages),
    ROW("drain_waits_no_longer_than_that_takes", second_drained_and_saved, RUNNING, F, "WorkerLost",
        .spec = two_stages),
    ROW("drain_does_not_wait_for_it_for_ever", second_saved_long_ago, RUNNING, F, "WorkerLost",
        .spec = two_stages),
    ROW("drain_needs_a_grace_period", second_deleted_at_once, RUNNING, F, "WorkerLost",
        COUNT(ACTION_CREATE_SUBSTITUTE, 0), .spec = two_stages),
    ROW("drain_needs_a_worker_that_answers", second_drained_and_silent, RUNNING, F, "WorkerLost",
        COUNT(ACTION_CREATE_SUBSTITUTE, 0), .spec = two_stages),
    ROW("drain_believes_the_worker_too", second_told_by_its_node, RUNNING, T, "Training",
        COUNT(ACTION_CREATE_SUBSTITUTE, 1), .spec = two_stages),
    ROW("drain_ends_when_the_worker_is_gone", second_gone_before_it_joined, RUNNING, F,
        "WorkerLost", .spec = two_stages),
};

/* Drain a stage, up to where all workers of the next revision train. */
static void hand_over(struct world *w, int stage)
{
    drain(w, stage);
    (void)world_settle(w);
    join(w);
    (void)world_settle(w);
    assert_int_equal(w->seen.revision.plan.revision, 2);
    assert_true(status_is(&w->seen.status, CONDITION_RUNNING));
}

static void check_handed_over(const struct world *w)
{
    assert_int_equal(w->seen.revision.resume.step, 7);
    assert_int_equal(w->seen.revision.resume.lineage, 1);
    assert_int_equal(w->seen.status.restarts, 0);
    assert_int_equal(w->seen.status.restarts_in_a_row, 0);
    assert_int_equal(w->seen.status.next_revision_ms, 0);
    assert_non_null(strstr(w->seen.status.revision_reason, "is being drained"));
}

static void drain_moves_the_units_and_nothing_else(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct world *w = world_new(i < 2 ? two_stages : two_replicas);
        struct plan before;
        int stage = i % 2;

        train(w);
        before = *plan_of(w);
        hand_over(w, stage);
        check_handed_over(w);
        assert_int_equal(plan_of(w)->n_workers, 2);
        assert_int_equal(plan_n_replicas(plan_of(w)), plan_n_replicas(&before));
        assert_memory_equal(plan_of(w)->shares, before.shares, sizeof before.shares);
        for (int s = 0; s < 2; s++) {
            const struct plan_worker *now = &plan_of(w)->workers[s];

            assert_int_equal(now->replica, before.workers[s].replica);
            assert_int_equal(now->n_units, before.workers[s].n_units);
            assert_int_equal(now->slot == before.workers[s].slot, s != stage);
            assert_int_equal(strcmp(now->node, before.workers[s].node) == 0, s != stage);
            assert_int_equal(world_pod(w, s)->accepted, 2);
        }
        assert_int_equal(w->seen.revision.n_leaving, 1);
        assert_int_equal(w->seen.revision.leaving[0].slot, before.workers[stage].slot);
        assert_int_equal(w->seen.n_pods, 3);
        world_free(w);
    }
}

static void drain_releases_the_worker_after_the_first_step(void **state)
{
    struct world *w = world_new(two_stages);
    const struct action *a;

    (void)state;
    train(w);
    hand_over(w, 1);
    w->seen.leader.revision = 2;
    world_decide(w);
    assert_int_equal(world_count(w, ACTION_HALT), 0);
    w->seen.leader.step = 8;
    world_decide(w);
    a = world_find(w, ACTION_HALT);
    assert_non_null(a);
    assert_int_equal(a->revision, 2);
    assert_non_null(strstr(a->name, "-w1-1"));
    assert_int_equal(world_count(w, ACTION_DELETE_POD), 1);
    world_apply(w, DECIDE_ACTIONS_MAX);
    (void)world_settle(w);
    assert_int_equal(w->seen.n_pods, 2);
    assert_true(status_is(&w->seen.status, CONDITION_RUNNING));
    world_free(w);
}

static void drain_leaves_all_units_to_the_neighbour(void **state)
{
    struct world *w = world_new(two_at_most);

    (void)state;
    train(w);
    exclude_spare(w);
    hand_over(w, 1);
    check_handed_over(w);
    assert_int_equal(plan_of(w)->n_workers, 1);
    assert_int_equal(plan_of(w)->workers[0].n_units, model_units(&plan_of(w)->spec.model));
    assert_int_equal(plan_of(w)->workers[0].incarnation, 1);
    world_free(w);
}

static void shrink_spare(struct world *w)
{
    for (int i = 0; i < WORLD_NODES; i++)
        if (strcmp(w->nodes[i].name, plan_of(w)->workers[0].node) != 0 &&
            strcmp(w->nodes[i].name, plan_of(w)->workers[1].node) != 0)
            w->nodes[i].memory_bytes = plan_of(w)->workers[0].memory_bytes / 2;
}

/* Nothing is lost with it: what was at home there moves. */
static void drain_leaves_out_a_replica_for_which_there_is_no_room(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct world *w = world_new(two_replicas);
        int stage = i % 2;
        int left;

        train(w);
        left = plan_of(w)->workers[1 - stage].slot;
        if (i < 2)
            exclude_spare(w);
        else
            shrink_spare(w);
        hand_over(w, stage);
        check_handed_over(w);
        assert_int_equal(plan_n_replicas(plan_of(w)), 1);
        assert_int_equal(plan_of(w)->n_shares, 0);
        assert_int_equal(plan_of(w)->spec.replicas, 2);
        assert_int_equal(plan_of(w)->workers[0].slot, left);
        assert_int_equal(plan_of(w)->workers[0].incarnation, 1);
        assert_int_equal(w->seen.revision.n_leaving, 1);
        assert_non_null(strstr(w->seen.status.revision_reason, "which do without this one"));
        world_free(w);
    }
}

/* The link breaks while the new worker starts: the next revision has it all the same. */
static void drain_survives_a_link_that_breaks(void **state)
{
    struct world *w = world_new(two_stages);

    (void)state;
    train(w);
    drain(w, 1);
    (void)world_settle(w);
    for (int s = 0; s < 2; s++) {
        w->reports[world_pod(w, s)->slot].session = REPORT_HALTED;
        world_pod(w, s)->ended_ms = DECIDE_PEER_GRACE_MS;
    }
    join(w);
    (void)world_settle(w);
    assert_int_equal(w->seen.revision.plan.revision, 2);
    assert_int_equal(w->seen.revision.resume.step, 7);
    assert_int_equal(w->seen.revision.n_leaving, 1);
    assert_int_equal(w->seen.n_pods, 3);
    world_free(w);
}

static void drain_during_a_recovery_moves_the_units_too(void **state)
{
    struct world *w = world_new(two_stages);

    (void)state;
    train(w);
    world_end_session(w, 0, DECIDE_PEER_GRACE_MS);
    world_end_session(w, 1, DECIDE_PEER_GRACE_MS);
    for (int s = 0; s < 2; s++) {
        struct report *report = &w->reports[world_pod(w, s)->slot];

        report->end = (struct step_end){.revision = 1, .step = 7};
        report_add(report, &(struct report_run){.first_unit = plan_of(w)->workers[s].first_unit,
                                                .n_units = plan_of(w)->workers[s].n_units,
                                                .step = 7});
    }
    world_round(w);
    assert_string_equal(w->seen.status.conditions[CONDITION_RUNNING].reason, "ConnectionLost");
    drain(w, 1);
    (void)world_settle(w);
    world_run_pods(w);
    (void)world_settle(w);
    assert_true(status_is(&w->seen.status, CONDITION_RUNNING));
    assert_int_equal(w->seen.revision.resume.step, 7);
    assert_int_equal(w->seen.revision.resume.lineage, 1);
    assert_int_equal(w->seen.revision.n_leaving, 1);
    world_free(w);
}

/* Else it would take itself for abandoned (train/control.h). */
static void drain_of_a_worker_before_training_calls_it_all_the_same(void **state)
{
    struct world *w = world_new(two_stages);

    (void)state;
    (void)world_settle(w);
    world_pod(w, 1)->phase = POD_RUNNING; /* the other one does not run yet */
    world_decide(w);
    assert_true(w->decision.ask_reports_ms < 0);
    drain(w, 1);
    world_decide(w);
    assert_in_range(w->decision.ask_reports_ms, 0, DECIDE_REPORTS_MS);
    assert_in_range(w->decision.requeue_ms, 0, DECIDE_REPORTS_MS);
    world_free(w);
}

/* What has started for a worker that then stays is not kept. */
static void drain_that_is_called_off_leaves_no_pod(void **state)
{
    struct world *w = world_new(two_stages);

    (void)state;
    second_told_by_its_node(w);
    (void)world_settle(w);
    assert_int_equal(w->seen.n_pods, 3);
    w->reports[world_pod(w, 1)->slot].is_leaving = false;
    (void)world_settle(w);
    assert_int_equal(w->seen.n_pods, 2);
    assert_int_equal(w->seen.revision.plan.revision, 1);
    world_free(w);
}

/* The garbage collector gives them the whole grace period. */
static void drain_is_not_what_happens_to_a_job_that_is_deleted(void **state)
{
    struct world *w = world_new(two_stages);

    (void)state;
    train(w);
    w->seen.is_deleting = true;
    for (int s = 0; s < 2; s++) {
        world_pod(w, s)->is_deleting = true;
        world_pod(w, s)->grace_ms = 60000;
    }
    world_decide(w);
    assert_int_equal(world_count(w, ACTION_DELETE_POD), 2);
    assert_int_equal(world_count(w, ACTION_CREATE_SUBSTITUTE), 0);
    for (int s = 0; s < 2; s++)
        world_pod(w, s)->grace_ms = 1000;
    world_decide(w);
    assert_int_equal(world_count(w, ACTION_DELETE_POD), 0);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(drain_moves_the_units_and_nothing_else),
        cmocka_unit_test(drain_releases_the_worker_after_the_first_step),
        cmocka_unit_test(drain_leaves_all_units_to_the_neighbour),
        cmocka_unit_test(drain_leaves_out_a_replica_for_which_there_is_no_room),
        cmocka_unit_test(drain_survives_a_link_that_breaks),
        cmocka_unit_test(drain_during_a_recovery_moves_the_units_too),
        cmocka_unit_test(drain_of_a_worker_before_training_calls_it_all_the_same),
        cmocka_unit_test(drain_that_is_called_off_leaves_no_pod),
        cmocka_unit_test(drain_is_not_what_happens_to_a_job_that_is_deleted),
    };

    return row_main(rows, sizeof rows / sizeof rows[0], others, sizeof others / sizeof others[0]);
}
