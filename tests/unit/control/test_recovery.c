/* From one revision to the next: who is told to halt, who stays, and where the job goes on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/recover.h"
#include "row.h"

static const struct plan *plan_of(const struct world *w)
{
    return &w->seen.revision.plan;
}

/* All workers train, and hold all units after `step` steps. */
static void trained(struct world *w, int64_t step)
{
    const struct revision *r = &w->seen.revision;

    world_start_training(w);
    w->seen.has_leader = true;
    w->seen.leader = (struct progress){.state = PROGRESS_TRAINING,
                                       .revision = r->plan.revision,
                                       .step = step,
                                       .total_steps = 100,
                                       .loss = 1};
    for (int s = 0; s < r->plan.n_workers; s++) {
        struct report *report = &w->reports[world_pod(w, s)->slot];

        report->end = (struct step_end){.revision = r->plan.revision, .step = step};
        report_add(report, &(struct report_run){.first_unit = r->plan.workers[s].first_unit,
                                                .n_units = r->plan.workers[s].n_units,
                                                .step = step});
    }
}

/* Halting leaves them what they hold. */
static void end_sessions(struct world *w)
{
    for (int s = 0; s < plan_of(w)->n_workers; s++) {
        struct seen_pod *p = world_pod(w, s);

        w->reports[p->slot].session = REPORT_HALTED;
        p->ended_ms = DECIDE_PEER_GRACE_MS;
    }
}

static void set_trained(struct world *w)
{
    trained(w, 7);
}

static void link_broken(struct world *w)
{
    trained(w, 7);
    end_sessions(w);
}

static void link_broken_and_halting(struct world *w)
{
    trained(w, 7);
    world_end_session(w, 0, DECIDE_PEER_GRACE_MS);
    world_round(w);
}

/* Stage 0 has, and all others have answered since that is known. */
static void link_broken_and_nobody_died(struct world *w)
{
    trained(w, 7);
    world_end_session(w, 0, 100);
    world_pod(w, 1)->answered_ms = world_pod(w, 2)->answered_ms = 99;
}

static void link_broken_and_one_is_silent(struct world *w)
{
    link_broken_and_nobody_died(w);
    world_pod(w, 2)->answered_ms = 101;
}

static void link_broken_and_one_stays_silent(struct world *w)
{
    link_broken_and_one_is_silent(w);
    world_pod(w, 0)->ended_ms = DECIDE_PEER_GRACE_MS;
}

static void leader_halted(struct world *w)
{
    trained(w, 7);
    w->seen.leader.state = PROGRESS_HALTED;
}

static void leader_done(struct world *w)
{
    trained(w, 100);
    w->seen.leader.state = PROGRESS_DONE;
    w->reports[world_pod(w, 0)->slot].session = REPORT_DONE;
}

static void leader_done_and_noted(struct world *w)
{
    leader_done(w);
    world_round(w);
}

static void leader_done_while_halting(struct world *w)
{
    link_broken_and_halting(w);
    w->seen.leader.state = PROGRESS_DONE;
    world_round(w);
}

static void leader_vanished_after_its_end(struct world *w)
{
    leader_done_and_noted(w);
    world_remove_pod(w, world_pod(w, 0));
    w->seen.has_leader = false;
}

static void leader_vanished_and_the_rest_ended(struct world *w)
{
    leader_vanished_after_its_end(w);
    (void)world_settle(w);
}

static void released_and_another_hangs(struct world *w)
{
    leader_done(w);
    world_end_pod(w, 0, 0, PROGRESS_CAUSE_NONE);
}

static void released_and_another_hangs_for_long(struct world *w)
{
    released_and_another_hangs(w);
    w->seen.now_ms += DECIDE_PEER_GRACE_MS;
}

static void released_and_the_rest_is_cut_off(struct world *w)
{
    released_and_another_hangs(w);
    for (int i = 0; i < WORLD_NODES; i++)
        w->nodes[i].excluded = EXCLUDED_NOT_READY;
}

static void released_and_another_failed(struct world *w)
{
    leader_done(w);
    world_end_pod(w, 0, 0, PROGRESS_CAUSE_NONE);
    world_end_pod(w, 1, 1, PROGRESS_CAUSE_OTHER);
    world_end_pod(w, 2, 0, PROGRESS_CAUSE_NONE);
}

static void operator_forgot_who_was_told(struct world *w)
{
    trained(w, 7);
    for (int s = 0; s < plan_of(w)->n_workers; s++) {
        world_pod(w, s)->accepted = 0;
        world_pod(w, s)->report = NULL;
    }
}

static void others_have_ended(struct world *w)
{
    trained(w, 100);
    for (int s = 1; s < plan_of(w)->n_workers; s++)
        world_end_pod(w, s, 0, PROGRESS_CAUSE_NONE);
}

static struct row rows[] = {
    ROW("recovery_leaves_workers_alone_that_train", set_trained, RUNNING, T, "Training",
        COUNT(ACTION_HALT, 0)),
    ROW("recovery_tells_workers_again_after_a_restart_of_the_operator",
        operator_forgot_who_was_told, RUNNING, T, "Training", COUNT(ACTION_POST_REVISION, 3)),
    ROW("recovery_begins_when_a_link_has_broken", link_broken, RUNNING, F, "ConnectionLost",
        .state = "Recovering", .event = "ConnectionLost", COUNT(ACTION_DELETE_POD, 0)),
    ROW("recovery_begins_at_once_when_all_have_answered_since", link_broken_and_nobody_died,
        RUNNING, F, "ConnectionLost", .event = "ConnectionLost"),
    ROW("recovery_waits_for_the_cause_while_a_worker_does_not_answer",
        link_broken_and_one_is_silent, RUNNING, T, "Training", COUNT(ACTION_EVENT, 0),
        .is_waiting = true),
    ROW("recovery_does_not_wait_long_for_it", link_broken_and_one_stays_silent, RUNNING, F,
        "ConnectionLost", .event = "ConnectionLost"),
    ROW("recovery_looks_at_all_workers_when_the_leader_has_halted", leader_halted, RUNNING, T,
        "Training", COUNT(ACTION_EVENT, 0), .is_waiting = true),
    ROW("recovery_halts_the_workers_whose_sessions_still_run", link_broken_and_halting, RUNNING, F,
        "ConnectionLost", COUNT(ACTION_HALT, 2), .is_waiting = true),
    ROW("recovery_does_not_mind_workers_that_were_released", others_have_ended, RUNNING, T,
        "Training", COUNT(ACTION_EVENT, 0), .is_waiting = true),
    ROW("recovery_notes_the_end_before_it_releases_the_leader", leader_done, RUNNING, T,
        "Finishing", COUNT(ACTION_HALT, 0), .is_waiting = true),
    ROW("recovery_releases_the_leader_once_the_end_is_noted", leader_done_and_noted, RUNNING, T,
        "Finishing", COUNT(ACTION_HALT, 1), .is_waiting = true),
    ROW("recovery_ends_a_job_that_was_done_before_it_could_be_halted", leader_done_while_halting,
        RUNNING, T, "Finishing", COUNT(ACTION_HALT, 1), .is_waiting = true),
    ROW("recovery_ends_the_workers_of_a_leader_whose_end_is_noted", leader_vanished_after_its_end,
        COMPLETE, F, "NotFinished", COUNT(ACTION_DELETE_POD, 2), .is_waiting = true),
    ROW("recovery_does_not_need_a_leader_whose_end_is_noted", leader_vanished_and_the_rest_ended,
        COMPLETE, T, "TrainingFinished", .state = "Complete"),
    ROW("recovery_waits_for_workers_that_the_leader_has_released", released_and_another_hangs,
        RUNNING, T, "Training", .is_waiting = true),
    ROW("recovery_ends_them_after_a_while", released_and_another_hangs_for_long, COMPLETE, F,
        "NotFinished", COUNT(ACTION_DELETE_POD, 2), .is_waiting = true),
    ROW("recovery_does_not_wait_for_those_on_a_dead_node", released_and_the_rest_is_cut_off,
        COMPLETE, T, "TrainingFinished", .state = "Complete"),
    ROW("recovery_does_not_mind_what_becomes_of_them", released_and_another_failed, COMPLETE, T,
        "TrainingFinished", .state = "Complete"),
};

/* --- to the next revision --- */

/* Pods of the workers, by slot; the uids of those that are not there are "". */
struct pods {
    char uids[WORLD_SLOTS][OBSERVED_UID_BYTES];
};

static struct pods pods_of(const struct world *w)
{
    struct pods pods = {{""}};

    for (int i = 0; i < w->seen.n_pods; i++) {
        const struct seen_pod *p = &w->seen.pods[i];

        if (p->role == POD_WORKER && p->phase <= POD_RUNNING)
            memcpy(pods.uids[p->slot], p->uid, sizeof pods.uids[0]);
    }
    return pods;
}

/* To where all workers train again. */
static void recover(struct world *w)
{
    (void)world_settle(w);
    world_run_pods(w);
    (void)world_settle(w);
    assert_true(status_is(&w->seen.status, CONDITION_RUNNING));
}

static void recovery_of_a_broken_link_costs_no_pod_and_no_step(void **state)
{
    struct world *w = world_new(NULL);
    struct pods before;
    struct pods after;

    (void)state;
    link_broken(w);
    before = pods_of(w);
    recover(w);
    after = pods_of(w);
    assert_memory_equal(&before, &after, sizeof before);
    assert_int_equal(w->seen.status.revision, 2);
    assert_int_equal(w->seen.status.restarts, 0);
    assert_int_equal(w->seen.revision.resume.step, 7);
    assert_int_equal(w->seen.revision.resume.lineage, 1);
    assert_int_equal(w->seen.status.revision_step, 7);
    assert_true(w->seen.status.revision_ms > 0);
    assert_non_null(strstr(w->seen.status.revision_reason, "has halted"));
    assert_string_equal(w->seen.status.conditions[CONDITION_RUNNING].message,
                        "All workers are connected. Training goes on from step 7.");
    for (int s = 0; s < plan_of(w)->n_workers; s++) {
        assert_int_equal(plan_of(w)->workers[s].incarnation, 1);
        assert_int_equal(world_pod(w, s)->accepted, 2);
    }
    world_free(w);
}

static void recovery_replaces_the_worker_that_was_lost_and_no_other(void **state)
{
    (void)state;
    for (int how = 0; how < 3; how++) {
        struct world *w = world_new(NULL);
        struct pods before;
        struct pods after;

        trained(w, 7);
        before = pods_of(w);
        if (how == 0)
            world_remove_pod(w, world_pod(w, 1));
        else
            world_end_pod(w, 1, 1, PROGRESS_CAUSE_OTHER);
        if (how == 2)
            world_pod(w, 1)->is_disrupted = true;
        (void)world_settle(w);
        w->seen.now_ms += DECIDE_BACKOFF_MS + 1000;
        recover(w);
        after = pods_of(w);
        assert_string_equal(before.uids[0], after.uids[0]);
        assert_string_not_equal(before.uids[1], after.uids[1]);
        assert_string_equal(before.uids[2], after.uids[2]);
        assert_int_equal(plan_of(w)->workers[1].slot, 1);
        assert_int_equal(plan_of(w)->workers[1].incarnation, 2);
        assert_int_equal(plan_of(w)->workers[2].incarnation, 1);
        assert_int_equal(w->seen.status.restarts, how == 1);
        assert_int_equal(w->seen.revision.resume.lineage, 2); /* its units are lost */
        world_free(w);
    }
}

/* Of the step that is done all but the lost units are there; else all go back. */
static void recovery_takes_what_is_lost_from_a_checkpoint_and_shows_it(void **state)
{
    static const struct {
        int64_t step, lineage;
        const char *says;
    } cases[] = {{7, 1, " units from a checkpoint)."},
                 {5, 2, "Training goes on from step 5 (checkpoint)."},
                 {0, 2, "Training begins with step 0."}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct world *w = world_new(NULL);
        struct report *report;
        const char *message;

        trained(w, 7);
        report = &w->reports[world_pod(w, 0)->slot];
        report->n_checkpoints = cases[i].step > 0;
        report->checkpoints[0] =
            (struct resume_checkpoint){.lineage = 1, .end = {.revision = 1, .step = cases[i].step}};
        world_remove_pod(w, world_pod(w, 1));
        recover(w);
        message = w->seen.status.conditions[CONDITION_RUNNING].message;
        if (!strstr(message, cases[i].says))
            fail_msg("\"%s\" is not in \"%s\"", cases[i].says, message);
        assert_int_equal(w->seen.revision.resume.step, cases[i].step);
        assert_int_equal(w->seen.revision.resume.lineage, cases[i].lineage);
        assert_int_equal(w->seen.status.revision_step, cases[i].step);
        world_free(w);
    }
}

/* A revision made without any report begins anew; what the new workers find is not another loss. */
static void recovery_of_all_workers_goes_on_from_the_checkpoint_without_a_pause(void **state)
{
    struct world *w = world_new(NULL);

    (void)state;
    trained(w, 7);
    while (w->seen.n_pods > 0)
        world_remove_pod(w, &w->seen.pods[0]);
    w->seen.has_leader = false;
    (void)world_settle(w);
    world_run_pods(w);
    (void)world_settle(w);
    assert_int_equal(w->seen.revision.plan.revision, 2);
    assert_int_equal(w->seen.revision.resume.step, 0);
    assert_int_equal(w->seen.status.restarts_in_a_row, 1);
    for (int s = 0; s < plan_of(w)->n_workers; s++) {
        struct report *report = &w->reports[world_pod(w, s)->slot];

        world_end_session(w, s, 1);
        report->n_checkpoints = 1;
        report->checkpoints[0] =
            (struct resume_checkpoint){.lineage = 1, .end = {.revision = 1, .step = 5}};
    }
    world_round(w);
    assert_int_equal(w->seen.status.next_revision_ms, 0);
    assert_int_equal(w->seen.status.restarts_in_a_row, 1);
    (void)world_settle(w);
    assert_int_equal(w->seen.revision.plan.revision, 3);
    assert_int_equal(w->seen.revision.resume.step, 5);
    world_free(w);
}

static void recovery_goes_to_another_node_when_the_last_one_is_gone(void **state)
{
    struct world *w = world_new("{\"model\":{\"preset\":\"BertMini\"},\"data\":{\"source\":{"
                                "\"sample\":\"MNLI\"}},\"placement\":{\"maxStages\":2}}");
    char node[NODE_NAME_BYTES];
    struct pods before;
    struct pods after;
    int n_kept = 0;

    (void)state;
    world_make_alike(w); /* else the others get more than they have memory for */
    trained(w, 7);
    before = pods_of(w);
    assert_int_equal(plan_of(w)->n_workers, 2);
    memcpy(node, plan_of(w)->workers[1].node, sizeof node);
    for (int i = 0; i < WORLD_NODES; i++)
        if (strcmp(w->nodes[i].name, node) == 0)
            w->nodes[i].excluded = EXCLUDED_NOT_READY;
    world_remove_pod(w, world_pod(w, 1));
    recover(w);
    after = pods_of(w);
    for (int s = 0; s < plan_of(w)->n_workers; s++) {
        const struct plan_worker *worker = &plan_of(w)->workers[s];

        assert_string_not_equal(worker->node, node);
        n_kept += worker->incarnation == 1;
    }
    assert_int_equal(n_kept, 1);
    assert_string_equal(before.uids[0], after.uids[0]);
    world_free(w);
}

static void recovery_counts_workers_that_fail_together_once(void **state)
{
    struct world *w = world_new(NULL);

    (void)state;
    trained(w, 7);
    world_end_pod(w, 0, 1, PROGRESS_CAUSE_OTHER);
    (void)world_settle(w);
    assert_int_equal(w->seen.status.restarts, 1);
    world_end_pod(w, 1, 1, PROGRESS_CAUSE_OTHER); /* it is seen a moment later */
    (void)world_settle(w);
    world_end_pod(w, 2, 1, PROGRESS_CAUSE_OTHER);
    (void)world_settle(w);
    assert_int_equal(w->seen.status.restarts, 1);
    assert_int_equal(w->seen.status.revision, 2);
    assert_int_equal(w->seen.status.next_revision_ms, w->seen.now_ms + DECIDE_FAILED_MS);
    world_free(w);
}

static void recovery_blames_the_worker_that_failed_for_the_link_that_broke(void **state)
{
    struct world *w = world_new(NULL);

    (void)state;
    link_broken(w);
    world_round(w);
    assert_int_equal(w->seen.status.restarts, 0);
    world_end_pod(w, 1, 1, PROGRESS_CAUSE_OTHER);
    (void)world_settle(w);
    assert_int_equal(w->seen.status.restarts, 1);
    assert_string_equal(w->seen.status.conditions[CONDITION_RUNNING].reason, "WorkerFailed");
    assert_int_equal(w->seen.status.revision, 2);
    world_free(w);
}

/* A process that does not come out of a computation; or one that is frozen, or its node gone: then
 * another node takes its place. */
static void recovery_replaces_a_worker_that_does_not_halt(void **state)
{
    (void)state;
    for (int is_silent = 0; is_silent < 2; is_silent++) {
        struct world *w = world_new(NULL);
        int64_t most_ms = is_silent ? RECOVER_SILENT_MS : RECOVER_HALT_MS;
        char node[NODE_NAME_BYTES];
        struct seen_pod *p;

        trained(w, 7);
        world_end_session(w, 0, DECIDE_PEER_GRACE_MS);
        world_end_session(w, 1, DECIDE_PEER_GRACE_MS);
        world_round(w);
        p = world_pod(w, 2);
        (void)snprintf(node, sizeof node, "%s", p->node);
        p->halting_ms = most_ms - 1;
        p->silent_ms = is_silent ? most_ms - 1 : 0;
        world_decide(w);
        assert_int_equal(world_count(w, ACTION_HALT), 1);
        assert_false(world_has_event(w, "ConnectionLost"));
        p->halting_ms = most_ms;
        p->silent_ms = is_silent ? most_ms : 0;
        world_decide(w);
        assert_true(world_has_event(w, "ConnectionLost"));
        world_apply(w, DECIDE_ACTIONS_MAX);
        recover(w);
        for (int i = 0; i < plan_of(w)->n_workers; i++)
            assert_true(strcmp(plan_of(w)->workers[i].node, node) != 0 || !is_silent);
        assert_int_equal(plan_of(w)->n_workers, is_silent ? 2 : 3);
        assert_int_equal(plan_of(w)->workers[1].incarnation, 1);
        assert_int_equal(w->seen.status.restarts, 0);
        world_free(w);
    }
}

/* After a restart of the operator, when the ConfigMap is gone, too. */
static void recovery_needs_no_revision_but_the_reports(void **state)
{
    struct world *w = world_new(NULL);
    struct pods before;
    struct pods after;

    (void)state;
    trained(w, 7);
    before = pods_of(w);
    w->seen.has_revision = false;
    w->seen.n_revisions = 0;
    w->seen.revision = (struct revision){.until = 0};
    for (int s = 0; s < 3; s++)
        w->seen.pods[s].accepted = 0;
    (void)world_settle(w);
    after = pods_of(w);
    assert_memory_equal(&before, &after, sizeof before);
    assert_int_equal(w->seen.revision.plan.revision, 2);
    assert_int_equal(w->seen.revision.resume.step, 7);
    world_free(w);
}

/* That is sooner than the next request of a job that trains. */
static void recovery_asks_all_workers_when_the_leader_has_halted(void **state)
{
    struct world *w = world_new(NULL);

    (void)state;
    leader_halted(w);
    world_decide(w);
    assert_int_equal(w->decision.ask_reports_ms, DECIDE_BROKEN_MS);
    assert_int_equal(w->decision.requeue_ms, DECIDE_BROKEN_MS);
    world_free(w);
}

/* A worker refuses a number that it has had already. */
static void recovery_takes_a_number_that_no_worker_has(void **state)
{
    struct world *w = world_new(NULL);

    (void)state;
    link_broken(w);
    world_round(w);
    for (int s = 0; s < 3; s++)
        w->reports[s].revision = 5;
    recover(w);
    assert_int_equal(w->seen.status.revision, 6);
    assert_int_equal(w->seen.revision.plan.revision, 6);
    world_free(w);
}

static void recovery_keeps_the_spec_of_the_workers_that_are_left(void **state)
{
    struct world *w = world_new(NULL);
    const struct action *a = NULL;

    (void)state;
    link_broken(w);
    world_set_spec(w, "{\"model\":{\"preset\":\"BertMini\"},\"data\":{\"source\":{\"sample\":"
                      "\"MNLI\"}},\"worker\":{\"image\":\"other:1\"}}");
    w->seen.generation++;
    for (int i = 0; i < WORLD_ROUNDS_MAX && !a; i++) {
        world_round(w);
        a = world_find(w, ACTION_CREATE_REVISION);
    }
    assert_non_null(a);
    assert_true(a->keeps_spec);
    assert_string_equal(w->decision.revision.plan.spec.worker.image, "");
    world_free(w);
}

/* Its claims are written by anyone, and what counts is the uid in the status. */
static void recovery_keeps_no_pod_that_the_status_does_not_list(void **state)
{
    struct world *w = world_new(NULL);
    struct seen_pod *fake;

    (void)state;
    link_broken(w);
    world_round(w);
    fake = &w->seen.pods[w->seen.n_pods++];
    *fake = *world_pod(w, 1);
    fake->slot = 7;
    names_worker_pod(w->seen.name, w->seen.uid, 7, 1, fake->name);
    (void)snprintf(fake->uid, sizeof fake->uid, "another");
    world_decide(w);
    assert_int_equal(world_count(w, ACTION_DELETE_POD), 1);
    assert_string_equal(world_find(w, ACTION_DELETE_POD)->uid, "another");
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(recovery_of_a_broken_link_costs_no_pod_and_no_step),
        cmocka_unit_test(recovery_replaces_the_worker_that_was_lost_and_no_other),
        cmocka_unit_test(recovery_takes_what_is_lost_from_a_checkpoint_and_shows_it),
        cmocka_unit_test(recovery_of_all_workers_goes_on_from_the_checkpoint_without_a_pause),
        cmocka_unit_test(recovery_goes_to_another_node_when_the_last_one_is_gone),
        cmocka_unit_test(recovery_counts_workers_that_fail_together_once),
        cmocka_unit_test(recovery_blames_the_worker_that_failed_for_the_link_that_broke),
        cmocka_unit_test(recovery_replaces_a_worker_that_does_not_halt),
        cmocka_unit_test(recovery_needs_no_revision_but_the_reports),
        cmocka_unit_test(recovery_asks_all_workers_when_the_leader_has_halted),
        cmocka_unit_test(recovery_takes_a_number_that_no_worker_has),
        cmocka_unit_test(recovery_keeps_the_spec_of_the_workers_that_are_left),
        cmocka_unit_test(recovery_keeps_no_pod_that_the_status_does_not_list),
    };

    return row_main(rows, sizeof rows / sizeof rows[0], others, sizeof others / sizeof others[0]);
}
