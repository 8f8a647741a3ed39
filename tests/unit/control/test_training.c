/* From a plan to the end of training: one row, one situation, and what is decided then. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "control/context.h"
#include "row.h"

static void plan_there(struct world *w)
{
    world_round(w); /* the number is written down */
    world_round(w);
}

static void pods_pending(struct world *w)
{
    (void)world_settle(w);
}

static void pods_running(struct world *w)
{
    (void)world_settle(w);
    world_run_pods(w);
}

static void one_pod_pending(struct world *w)
{
    pods_running(w);
    world_pod(w, 1)->phase = POD_PENDING;
}

static void image_missing(struct world *w)
{
    (void)world_settle(w);
    (void)snprintf(world_pod(w, 1)->reason, OBSERVED_WORD_BYTES, "ImagePullBackOff");
}

static void no_room_yet(struct world *w)
{
    one_pod_pending(w);
    world_pod(w, 1)->is_unschedulable = true;
    (void)snprintf(world_pod(w, 1)->message, OBSERVED_TEXT_BYTES,
                   "0/3 nodes are available: 1 Insufficient cpu. no preemption victims found.");
    w->seen.now_ms += DECIDE_TERMINATING_MS - 1;
}

static void claim_missing(struct world *w)
{
    one_pod_pending(w);
    w->seen.now_ms += DECIDE_TERMINATING_MS;
    world_pod(w, 1)->is_unschedulable = true;
    (void)snprintf(world_pod(w, 1)->message, OBSERVED_TEXT_BYTES,
                   "0/3 nodes are available: persistentvolumeclaim \"bert\" not found.");
}

static void unschedulable_for_long(struct world *w)
{
    (void)world_settle(w);
    world_pod(w, 0)->is_unschedulable = true;
    w->seen.now_ms += DECIDE_PENDING_MS + 1;
}

/* Pod 1 has had this much time to start, and its kubelet reports this. */
static void start_for(struct world *w, int64_t ms, const char *reason, const char *message)
{
    pods_running(w);
    world_pod(w, 1)->phase = POD_PENDING;
    (void)snprintf(world_pod(w, 1)->reason, OBSERVED_WORD_BYTES, "%s", reason);
    (void)snprintf(world_pod(w, 1)->message, OBSERVED_TEXT_BYTES, "%s", message);
    w->seen.now_ms += ms;
}

static void image_missing_for_long(struct world *w)
{
    start_for(w, DECIDE_START_MS + 1, "ImagePullBackOff", "Back-off pulling image \"x\"");
}

static void image_pulled_for_a_while(struct world *w)
{
    start_for(w, DECIDE_START_MS + 1, "ContainerCreating", "");
}

static void container_created_for_a_moment(struct world *w)
{
    start_for(w, DECIDE_EVENTS_MS - 1, "ContainerCreating", "");
}

static void events_read(struct world *w)
{
    image_pulled_for_a_while(w);
    world_round(w);
}

static void container_created_for_long(struct world *w)
{
    start_for(w, DECIDE_CREATING_MS + 1, "ContainerCreating", "");
}

static void volume_missing_for_long(struct world *w)
{
    start_for(w, DECIDE_START_MS + 1, "ContainerCreating", "FailedMount: no such secret");
}

static void training(struct world *w)
{
    world_start_training(w);
}

static void stepped(struct world *w)
{
    world_start_training(w);
    w->seen.has_leader = true;
    w->seen.leader = (struct progress){
        .state = PROGRESS_TRAINING, .revision = 1, .step = 7, .total_steps = 50, .loss = 1.1};
}

static void without_room_for_checkpoints(struct world *w)
{
    stepped(w);
    w->seen.leader.saved = (struct progress_saved){.step = 5, .has_failed = true};
}

static void skipped(struct world *w)
{
    stepped(w);
    w->seen.leader.skipped_steps = 2;
}

static void lagging(struct world *w)
{
    stepped(w);
    w->seen.revision.plan.spec.sync.stragglers = SPEC_STRAGGLERS_ELASTIC;
    (void)snprintf(w->seen.leader.sync.lagging, sizeof w->seen.leader.sync.lagging,
                   "replica 1 takes 30.0 ms");
}

static void lagged(struct world *w)
{
    lagging(w);
    (void)world_settle(w);
    w->seen.leader.sync.lagging[0] = '\0';
    w->seen.now_ms += DECIDE_PROGRESS_MS;
}

static void saving_fails(struct world *w)
{
    struct progress *leader = &w->seen.leader;

    stepped(w);
    leader->state = PROGRESS_SAVING;
    leader->step = 50;
    (void)snprintf(leader->error, sizeof leader->error,
                   "writing the output failed: full; retrying");
}

static void leader_is_new(struct world *w)
{
    stepped(w);
    (void)snprintf(w->seen.leader.randomly_initialized, PROGRESS_RANDOM_BYTES, "classifier");
}

static void stepped_of_another_revision(struct world *w)
{
    stepped(w);
    w->seen.leader.revision = 9;
}

static void leader_silent(struct world *w)
{
    stepped(w);
    world_pod(w, 0)->silent_ms = 2 * DECIDE_SILENT_MS;
}

static void standing_still(struct world *w)
{
    stepped(w);
    w->seen.leader_same_ms = DECIDE_STILL_MS;
}

static void slow_steps(struct world *w)
{
    standing_still(w);
    w->seen.leader.step_ms = (double)DECIDE_STILL_MS / 10;
}

static void hung(struct world *w)
{
    stepped(w);
    w->seen.leader_same_ms = 1800000;
}

static void hung_before_the_first_step(struct world *w)
{
    hung(w);
    w->seen.leader.step = 0;
}

static void evaluating_for_long(struct world *w)
{
    hung(w);
    w->seen.leader.state = PROGRESS_EVALUATING;
}

static void done_for_long(struct world *w)
{
    hung(w);
    w->seen.leader.state = PROGRESS_DONE;
}

static void worker_unreachable(struct world *w)
{
    pods_running(w);
    world_pod(w, 1)->silent_ms = DECIDE_UNREACHABLE_MS;
}

static void worker_unreachable_for_long(struct world *w)
{
    pods_running(w);
    world_pod(w, 1)->silent_ms = DECIDE_GIVE_BACK_MS;
}

static void pod_vanished_before_training(struct world *w)
{
    (void)world_settle(w);
    world_remove_pod(w, world_pod(w, 1));
}

static void all_succeeded(struct world *w)
{
    world_start_training(w);
    for (int s = 0; s < w->seen.revision.plan.n_workers; s++)
        world_end_pod(w, s, 0, PROGRESS_CAUSE_NONE);
}

static void succeeded_with_metrics(struct world *w)
{
    struct progress *p;

    all_succeeded(w);
    p = world_last_words(w, 0);
    p->step = p->total_steps = 50;
    p->skipped_steps = 1;
    p->n_metrics = 3;
    p->metrics[0] = (struct progress_metric){"evalLoss", 0.5};
    p->metrics[1] = (struct progress_metric){"accuracyMismatched", 0.75};
    p->metrics[2] = (struct progress_metric){"accuracy", 0.875};
}

static void succeeded_early(struct world *w)
{
    struct progress *p;

    succeeded_with_metrics(w);
    w->seen.revision.plan.spec.training.patience = 3;
    w->seen.revision.plan.spec.training.keeps_best = true;
    p = world_last_words(w, 0);
    p->has_ended_early = true;
    (void)snprintf(p->best_metric, sizeof p->best_metric, "accuracy");
    p->best = (struct progress_best){.value = 0.9, .lineage = 1, .step = 20, .n_since = 3};
}

static void begun_by_a_clock_that_is_ahead(struct world *w)
{
    succeeded_with_metrics(w);
    w->seen.status.start_ms = w->seen.now_ms + 3600000;
}

static void succeeded_and_cleared_away(struct world *w)
{
    world_start_training(w);
    world_end_pod(w, 1, 0, PROGRESS_CAUSE_NONE);
    (void)world_settle(w);
    world_remove_pod(w, world_pod(w, 1));
    for (int s = 0; s < w->seen.revision.plan.n_workers; s++)
        if (s != 1)
            world_end_pod(w, s, 0, PROGRESS_CAUSE_NONE);
}

static void leader_succeeded_and_others_are_gone(struct world *w)
{
    world_start_training(w);
    world_end_pod(w, 0, 0, PROGRESS_CAUSE_NONE);
    world_remove_pod(w, world_pod(w, 1));
    world_remove_pod(w, world_pod(w, 2));
}

static void done_and_all_are_gone(struct world *w)
{
    stepped(w);
    w->seen.leader.state = PROGRESS_DONE;
    w->seen.n_pods = 0;
}

static void complete(struct world *w)
{
    all_succeeded(w);
    (void)world_settle(w);
}

static void plan_deleted(struct world *w)
{
    world_start_training(w);
    w->seen.has_revision = false;
    w->seen.n_revisions = 0;
}

static void plan_deleted_but_known(struct world *w)
{
    world_start_training(w);
    w->seen.is_revision_lost = true;
    w->seen.n_revisions = 0;
}

static void plan_restored(struct world *w)
{
    plan_deleted_but_known(w);
    (void)world_settle(w);
    assert_int_equal(w->seen.n_revisions, 1);
    assert_int_equal(w->seen.status.revision, 1);
}

static void plan_broken(struct world *w)
{
    plan_there(w);
    w->seen.has_revision = false;
}

static void image_changed(struct world *w)
{
    pods_pending(w);
    (void)snprintf(w->seen.revision.plan.spec.worker.image, SPEC_IMAGE_BYTES, "other:1");
}

static void image_changed_in_training(struct world *w)
{
    world_start_training(w);
    (void)snprintf(w->seen.revision.plan.spec.worker.image, SPEC_IMAGE_BYTES, "other:1");
}

static void status_emptied(struct world *w)
{
    world_start_training(w);
    w->seen.status = (struct status){.state = ""};
}

static struct row rows[] = {
    ROW("decide_waits_for_pods_without_doing_anything", pods_pending, RUNNING, F, "StartingWorkers",
        .state = "Starting", COUNT(ACTION_CREATE_WORKER_POD, 0)),
    ROW("decide_hands_out_peers_when_all_pods_run", pods_running, RUNNING, F, "StartingWorkers",
        .state = "Starting", COUNT(ACTION_POST_REVISION, 3)),
    ROW("decide_hands_out_no_peers_while_one_pod_waits", one_pod_pending, RUNNING, F,
        "StartingWorkers", .state = "Starting", COUNT(ACTION_POST_REVISION, 0)),
    ROW("decide_tells_that_the_image_cannot_be_pulled", image_missing, RUNNING, F,
        "ImagePullFailed", .state = "Starting", .event = "ImagePullFailed",
        COUNT(ACTION_DELETE_POD, 0)),
    ROW("decide_does_not_tell_of_pods_that_have_only_just_found_no_room", no_room_yet, RUNNING, F,
        "StartingWorkers", .message = "2 of 3 workers are running.", .is_waiting = true),
    ROW("decide_says_which_claim_a_pod_waits_for", claim_missing, RUNNING, F, "StartingWorkers",
        .state = "Starting", .message = "persistentvolumeclaim \"bert\" not found",
        COUNT(ACTION_POST_REVISION, 0), .is_waiting = true),
    ROW("decide_plans_anew_when_a_pod_finds_no_room", unschedulable_for_long, RUNNING, F,
        "Unschedulable", .state = "Restarting", .event = "Unschedulable",
        COUNT(ACTION_DELETE_POD, 0)),
    ROW("decide_gives_back_the_nodes_of_a_job_without_an_image", image_missing_for_long, RUNNING, F,
        "StartTimeout", .state = "Restarting", .event = "StartTimeout",
        .message = "Pod mnli-0b7d-w1-1 on node node-1 did not start within 2 minutes: "
                   "ImagePullBackOff: Back-off pulling image \"x\"",
        .is_waiting = true),
    ROW("decide_is_patient_with_a_large_image", image_pulled_for_a_while, RUNNING, F,
        "StartingWorkers", .state = "Starting", .is_waiting = true),
    ROW("decide_asks_for_the_events_of_a_pod_that_does_not_start", image_pulled_for_a_while,
        RUNNING, F, "StartingWorkers", COUNT(ACTION_READ_EVENTS, 1)),
    ROW("decide_asks_for_no_events_at_once", container_created_for_a_moment, RUNNING, F,
        "StartingWorkers", COUNT(ACTION_READ_EVENTS, 0), .is_waiting = true),
    ROW("decide_asks_for_events_now_and_then", events_read, RUNNING, F, "StartingWorkers",
        COUNT(ACTION_READ_EVENTS, 0), .is_waiting = true),
    ROW("decide_is_not_patient_for_ever", container_created_for_long, RUNNING, F, "StartTimeout",
        .message = "did not start within 10 minutes: ContainerCreating."),
    ROW("decide_gives_back_the_nodes_of_a_job_without_its_volume", volume_missing_for_long, RUNNING,
        F, "StartTimeout", .message = "2 minutes: ContainerCreating: FailedMount: no such secret"),
    ROW("decide_follows_training", training, RUNNING, T, "Training", .state = "Running",
        COUNT(ACTION_POST_REVISION, 0), .is_waiting = true),
    ROW("decide_shows_the_first_step_at_once", stepped, RUNNING, T, "Training", .state = "Running",
        COUNT(ACTION_EVENT, 0), .is_waiting = true),
    ROW("decide_shows_why_the_output_is_not_saved_yet", saving_fails, RUNNING, T, "Training",
        .message = "The output is being saved: writing the output failed: full; retrying.",
        .is_waiting = true),
    ROW("decide_warns_of_checkpoints_that_fail", without_room_for_checkpoints, RUNNING, T,
        "Training",
        .message = "Step 7 of 50, loss 1.1000, 0 tokens/s. The last checkpoint could not be "
                   "written.",
        .event = "CheckpointFailed", .is_waiting = true),
    ROW("decide_names_a_straggler_and_what_is_done", lagging, RUNNING, T, "Training",
        .event = "Straggler"),
    ROW("decide_tells_when_a_straggler_is_gone", lagged, RUNNING, T, "Training",
        .event = "StragglerGone"),
    ROW("decide_warns_of_skipped_steps", skipped, RUNNING, T, "Training",
        .message = "Step 7 of 50, loss 1.1000, 0 tokens/s, 2 steps skipped.",
        .event = "StepsSkipped", .is_waiting = true),
    ROW("decide_tells_which_weights_start_at_random", leader_is_new, RUNNING, T, "Training",
        .event = "PartlyInitialized", COUNT(ACTION_EVENT, 1), .is_waiting = true),
    ROW("decide_does_not_believe_a_leader_of_another_revision", stepped_of_another_revision,
        RUNNING, T, "Training", .state = "Running", COUNT(ACTION_EVENT, 0), .is_waiting = true),
    ROW("decide_tells_of_a_leader_that_does_not_answer", leader_silent, STALLED, T,
        "WorkersUnreachable", .state = "Running", .event = "WorkersUnreachable",
        .message = "has not answered on its control port for 2 minutes", .is_waiting = true),
    ROW("decide_tells_of_a_standstill", standing_still, STALLED, T, "NoProgress",
        .state = "Running", .event = "NoProgress",
        .message = "No progress for 10 minutes: the leader answers, Training after step 7 of 50. "
                   "The workers are halted after 30 minutes without progress."),
    ROW("decide_takes_slow_steps_for_no_standstill", slow_steps, STALLED, F, "NotStalled",
        .state = "Running", .message = "Step 7 of 50"),
    ROW("decide_restarts_a_trainer_that_hangs", hung, RUNNING, F, "NoProgress",
        .state = "Recovering", .event = "NoProgress"),
    ROW("decide_restarts_a_trainer_that_never_begins", hung_before_the_first_step, RUNNING, F,
        "NoProgress", .state = "Restarting"),
    ROW("decide_does_not_end_a_long_evaluation", evaluating_for_long, STALLED, T, "NoProgress",
        .state = "Running", .message = "Evaluating after step 7 of 50."),
    ROW("decide_lets_a_leader_that_is_done_wait", done_for_long, STALLED, F, "NotStalled",
        .state = "Running"),
    ROW("decide_tells_of_a_worker_that_cannot_be_reached", worker_unreachable, STALLED, T,
        "WorkersUnreachable", .state = "Starting",
        .message = "Pod mnli-0b7d-w1-1 on node node-1 is running but does not answer at 10.0.0.2"),
    ROW("decide_gives_back_the_nodes_of_workers_that_cannot_be_reached",
        worker_unreachable_for_long, RUNNING, F, "WorkersUnreachable", .state = "Restarting"),
    ROW("decide_replaces_a_pod_that_vanished_before_training", pod_vanished_before_training,
        RUNNING, F, "WorkerLost", .state = "Restarting", .event = "WorkerLost"),
    ROW("decide_completes_when_all_have_succeeded", all_succeeded, COMPLETE, T, "TrainingFinished",
        .state = "Complete", .event = "TrainingFinished"),
    ROW("decide_names_the_metric_of_the_task_first", succeeded_with_metrics, COMPLETE, T,
        "TrainingFinished", .event = "TrainingFinished",
        .message = "50 steps in 0 s (1 skipped), accuracy 0.8750, evalLoss 0.5000, "
                   "accuracyMismatched 0.7500."),
    ROW("decide_ends_no_job_before_it_began", begun_by_a_clock_that_is_ahead, COMPLETE, T,
        "TrainingFinished", .message = "50 steps in 0 s (1 skipped)"),
    ROW("decide_says_why_a_job_ended_early", succeeded_early, COMPLETE, T, "TrainingFinished",
        .message = "accuracyMismatched 0.7500. Ended early: 3 evaluations in a row were not "
                   "better. The best evaluation, whose weights are kept, was after step 20: "
                   "accuracy 0.9000."),
    ROW("decide_remembers_who_succeeded", succeeded_and_cleared_away, COMPLETE, T,
        "TrainingFinished", .state = "Complete", .event = "TrainingFinished"),
    ROW("decide_completes_when_the_leader_has_succeeded_and_pods_are_gone",
        leader_succeeded_and_others_are_gone, COMPLETE, T, "TrainingFinished", .state = "Complete"),
    ROW("decide_does_not_train_again_what_the_leader_has_finished", done_and_all_are_gone, COMPLETE,
        T, "TrainingFinished", .state = "Complete"),
    ROW("decide_keeps_ended_pods_of_a_complete_job_for_their_logs", complete, COMPLETE, T,
        "TrainingFinished", .state = "Complete", COUNT(ACTION_DELETE_POD, 0)),
    ROW("decide_restores_a_plan_and_leaves_workers_alone", plan_deleted_but_known, RUNNING, T,
        "Training", .state = "Running", .event = "RevisionRestored",
        COUNT(ACTION_RESTORE_REVISION, 1)),
    ROW("decide_goes_on_with_a_restored_plan", plan_restored, RUNNING, T, "Training",
        .state = "Running", COUNT(ACTION_RESTORE_REVISION, 0)),
    ROW("decide_starts_over_when_the_plan_is_not_known_any_more", plan_deleted, RUNNING, F,
        "RevisionLost", .state = "Restarting", .event = "RevisionLost",
        COUNT(ACTION_CREATE_REVISION, 0)),
    ROW("decide_starts_over_when_the_plan_cannot_be_read", plan_broken, RUNNING, F, "RevisionLost",
        .state = "Restarting", .event = "RevisionLost", COUNT(ACTION_CREATE_REVISION, 0)),
    ROW("decide_takes_a_changed_image_before_training", image_changed, RUNNING, F, "SpecChanged",
        .state = "Restarting", .event = "SpecChanged"),
    ROW("decide_tells_that_a_change_waits_for_new_workers", image_changed_in_training, UP_TO_DATE,
        F, "NextRevision", .state = "Running", .event = "NextRevision"),
    ROW("decide_tells_that_the_revision_is_up_to_date", training, UP_TO_DATE, T, "Planned",
        COUNT(ACTION_EVENT, 0)),
    ROW("decide_finds_its_revision_again_without_a_status", status_emptied, RUNNING, T, "Training",
        .state = "Running", .event = "Training", COUNT(ACTION_CREATE_WORKER_POD, 0)),
};

static void decide_writes_progress_at_most_every_ten_seconds(void **state)
{
    struct world *w = world_new(NULL);

    (void)state;
    stepped(w);
    (void)world_settle(w);
    assert_int_equal(w->seen.status.progress.step, 7);
    w->seen.leader.step = 8;
    w->seen.now_ms += DECIDE_PROGRESS_MS - 1000;
    (void)world_settle(w);
    assert_int_equal(w->seen.status.progress.step, 7);
    w->seen.now_ms += 1000;
    (void)world_settle(w);
    assert_int_equal(w->seen.status.progress.step, 8);
    world_free(w);
}

static void decide_looks_at_each_of_many_jobs_less_often(void **state)
{
    static const struct {
        int n_training;
        int64_t poll_ms, progress_ms, reports_ms;
    } cases[] = {{1, 1000, 10000, 5000},
                 {10, 1000, 10000, 5000},
                 {30, 3000, 10000, 45000},
                 {100, 10000, 30000, 500000},
                 {100000, 30000, 90000, 4500000}};
    struct world *w = world_new(NULL);

    (void)state;
    stepped(w);
    w->seen.leader.eta_seconds = DECIDE_ENDS_S;
    (void)world_settle(w);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        w->seen.n_training = cases[i].n_training;
        world_decide(w);
        assert_int_equal(w->decision.ask_leader_ms, cases[i].poll_ms);
        assert_int_equal(w->decision.ask_reports_ms, cases[i].reports_ms);
        assert_int_equal(decide_progress_ms(&w->seen), cases[i].progress_ms);
        assert_in_range(w->decision.requeue_ms, 0, cases[i].poll_ms);
    }
    w->seen.now_ms += 89999;
    world_decide(w);
    assert_true(world_is_idle(w));
    w->seen.now_ms += 1;
    w->seen.leader.step++;
    world_decide(w);
    assert_false(world_is_idle(w));
    world_free(w);
}

static void decide_looks_often_at_a_job_that_ends_soon_however_many_there_are(void **state)
{
    struct world *w = world_new(NULL);

    (void)state;
    stepped(w);
    w->seen.n_training = 1000;
    w->seen.leader.eta_seconds = DECIDE_ENDS_S - 1;
    world_decide(w);
    assert_int_equal(w->decision.ask_leader_ms, DECIDE_POLL_MS);
    w->seen.leader.eta_seconds = -1; /* not known yet */
    world_decide(w);
    assert_int_equal(w->decision.ask_leader_ms, DECIDE_POLL_MS);
    world_free(w);
}

static void decide_frees_the_nodes_during_the_pause_of_a_job_that_cannot_start(void **state)
{
    struct world *w = world_new(NULL);

    (void)state;
    for (int i = 0; i < 3; i++) {
        image_missing_for_long(w);
        (void)world_settle(w);
        assert_int_equal(w->seen.n_pods, 0);
        assert_in_range(w->seen.status.next_revision_ms - w->seen.now_ms, DECIDE_BACKOFF_MS << i,
                        (DECIDE_BACKOFF_MS << i) + 999);
        assert_int_equal(w->seen.status.restarts, 0);
        w->seen.now_ms = w->seen.status.next_revision_ms;
    }
    world_free(w);
}

static void decide_does_not_pause_once_the_spec_was_edited(void **state)
{
    struct world *w = world_new(NULL);

    (void)state;
    image_missing_for_long(w);
    (void)world_settle(w);
    w->seen.generation++;
    (void)world_settle(w);
    assert_int_equal(w->seen.n_pods, w->seen.revision.plan.n_workers);
    world_free(w);
}

static void decide_does_not_make_old_progress_look_new(void **state)
{
    struct world *w = world_new(NULL);

    (void)state;
    stepped(w);
    w->seen.leader_answered_ms = w->seen.now_ms;
    (void)world_settle(w);
    w->seen.now_ms += 10 * DECIDE_PROGRESS_MS;
    world_round(w);
    assert_int_equal(w->seen.status.progress.updated_ms, w->seen.leader_answered_ms);
    world_free(w);
}

static void decide_counts_a_trainer_that_hangs(void **state)
{
    struct world *w = world_new(NULL);

    (void)state;
    hung(w);
    world_decide(w);
    assert_int_equal(w->decision.status.restarts, 1);
    assert_int_equal(w->decision.status.revision, 2);
    world_free(w);
}

#define ROUND_STEP_MS 500.0 /* DRIFT_STEPS of them take DRIFT_MS */

/* As planned: `n_microbatches` of 100 ms per stage; in ROUND_STEP_MS. */
static void plan_round_figures(struct world *w)
{
    struct plan *plan = &w->seen.revision.plan;

    plan->micro_batches = 4;
    plan->summary.predicted_step_ms = ROUND_STEP_MS;
    for (int s = 0; s < plan->n_workers; s++)
        plan->workers[s].predicted_ms = 100;
}

/* At this step stage 1 has taken `share` of what was predicted, the others all of it. */
static void measured(struct world *w, int64_t step, double share)
{
    struct progress *leader = &w->seen.leader;

    leader->step = step;
    leader->n_stage_ms = w->seen.revision.plan.n_workers;
    for (int s = 0; s < leader->n_stage_ms; s++)
        leader->stage_ms[s] = w->seen.revision.plan.workers[s].predicted_ms * (s == 1 ? share : 1);
    w->seen.now_ms += DECIDE_PROGRESS_MS;
    world_round(w);
}

/* A job in training whose steps take as long as planned. */
static void stepped_as_planned(struct world *w)
{
    stepped(w);
    plan_round_figures(w);
    w->seen.leader.step_ms = ROUND_STEP_MS;
}

static void decide_tells_of_a_stage_that_is_off_its_plan(void **state)
{
    static const struct {
        double share;
        const char *event;
    } cases[] = {{1.3, "StageSlower"}, {0.7, "StageFaster"}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct world *w = world_new(NULL);

        stepped_as_planned(w);
        measured(w, 7, cases[i].share);
        assert_int_equal(w->seen.status.stages[1].drift.since_step, 7);
        assert_int_equal(w->seen.status.stages[0].drift.since_step, 0);
        measured(w, 26, cases[i].share);
        assert_int_equal(world_count(w, ACTION_EVENT), 0);
        measured(w, 27, cases[i].share);
        assert_int_equal(world_count(w, ACTION_EVENT), 1);
        assert_true(world_has_event(w, cases[i].event));
        assert_true(world_find(w, ACTION_EVENT)->is_warning);
        assert_non_null(strstr(world_find(w, ACTION_EVENT)->text, "Stage 1 ("));
        assert_non_null(
            strstr(world_find(w, ACTION_EVENT)->text, w->seen.status.stages[1].plan.node));
        assert_int_equal(world_count(w, ACTION_INVALIDATE_PROBE), 1);
        assert_string_equal(world_find(w, ACTION_INVALIDATE_PROBE)->node,
                            w->seen.status.stages[1].plan.node);
        measured(w, 90, cases[i].share); /* once is enough */
        assert_int_equal(world_count(w, ACTION_EVENT), 0);
        assert_int_equal(world_count(w, ACTION_INVALIDATE_PROBE), 0);
        world_free(w);
    }
}

/* Whether a stage that takes twice as long as planned from step 7 to 27 is reported. */
static bool is_reported(double stage_ms, double step_ms)
{
    struct world *w = world_new(NULL);
    bool has_event;

    stepped_as_planned(w);
    w->seen.revision.plan.workers[1].predicted_ms = stage_ms;
    w->seen.leader.step_ms = step_ms;
    measured(w, 7, 2);
    measured(w, 27, 2);
    has_event = world_has_event(w, "StageSlower");
    assert_int_equal(world_count(w, ACTION_INVALIDATE_PROBE), has_event ? 1 : 0);
    world_free(w);
    return has_event;
}

static void decide_judges_no_stage_by_steps_of_a_moment(void **state)
{
    (void)state;
    assert_false(is_reported(100, 1)); /* 20 ms of training in all */
    assert_false(is_reported(100, DRIFT_MS / DRIFT_STEPS - 1));
    assert_true(is_reported(100, DRIFT_MS / DRIFT_STEPS));
}

/* As a stage that holds nothing but the head of a small model. */
static void decide_ignores_a_stage_too_short_to_matter(void **state)
{
    double least_ms = DRIFT_STEP_SHARE * ROUND_STEP_MS / 4;

    (void)state;
    assert_false(is_reported(0.05, ROUND_STEP_MS));
    assert_false(is_reported(0.9 * least_ms, ROUND_STEP_MS));
    assert_true(is_reported(1.1 * least_ms, ROUND_STEP_MS));
    assert_false(is_reported(1.1 * least_ms, 2 * ROUND_STEP_MS)); /* of the step as it is */
}

/* Its image may compute whatever it likes. */
static void decide_invalidates_no_probe_for_an_image_of_the_jobs_own(void **state)
{
    struct world *w = world_new("{\"model\":{\"preset\":\"BertTiny\"},\"data\":{\"source\":{"
                                "\"sample\":\"MNLI\"}},\"worker\":{\"image\":\"mine:1\"}}");

    (void)state;
    stepped_as_planned(w);
    measured(w, 7, 2);
    measured(w, 27, 2);
    assert_int_equal(world_count(w, ACTION_EVENT), 1);
    assert_int_equal(world_count(w, ACTION_INVALIDATE_PROBE), 0);
    world_free(w);
}

static void decide_says_when_a_step_is_not_what_the_plan_predicted(void **state)
{
    static const struct {
        double share;
        bool is_said;
    } cases[] = {{1.5, true}, {1.2, false}, {0.8, false}, {0.6, true}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct world *w = world_new(NULL);
        struct progress *leader = &w->seen.leader;

        stepped_as_planned(w);
        measured(w, 20, 1);
        leader->step++;
        leader->step_ms = cases[i].share * w->seen.revision.plan.summary.predicted_step_ms;
        w->seen.now_ms += DECIDE_PROGRESS_MS;
        world_round(w);
        assert_true((strstr(w->seen.status.message, "the plan predicted") != NULL) ==
                    cases[i].is_said);
        world_free(w);
    }
}

static void decide_forgets_what_was_off_for_a_moment(void **state)
{
    struct world *w = world_new(NULL);

    (void)state;
    stepped_as_planned(w);
    measured(w, 7, 3);
    measured(w, 20, 1.2);
    assert_int_equal(w->seen.status.stages[1].drift.since_step, 0);
    measured(w, 30, 3);
    measured(w, 49, 3);
    assert_int_equal(world_count(w, ACTION_EVENT), 0);
    world_free(w);
}

static void decide_tells_again_of_another_revision(void **state)
{
    struct world *w = world_new(NULL);

    (void)state;
    stepped_as_planned(w);
    measured(w, 7, 2);
    measured(w, 27, 2);
    assert_true(w->seen.status.stages[1].drift.is_reported);
    world_remove_pod(w, world_pod(w, 1));
    (void)world_settle(w);
    assert_int_equal(w->seen.status.revision, 2);
    assert_false(w->seen.status.stages[1].drift.is_reported);
    assert_int_equal(w->seen.status.stages[1].drift.since_step, 0);
    world_free(w);
}

static void decide_shows_how_busy_every_stage_is(void **state)
{
    struct world *w = world_new(NULL);
    const struct status *s = &w->seen.status;

    (void)state;
    stepped_as_planned(w);
    measured(w, 7, 1);
    w->seen.leader.step_ms = 2 * w->seen.revision.plan.micro_batches * s->stages[1].measured_ms;
    w->seen.now_ms += DECIDE_PROGRESS_MS;
    world_round(w);
    assert_int_equal(s->stages[1].busy_percent, 50);
    assert_true(s->progress.step_ms == w->seen.leader.step_ms);
    w->seen.leader.step_ms = 1e-9;
    w->seen.now_ms += DECIDE_PROGRESS_MS;
    world_round(w);
    assert_int_equal(s->stages[1].busy_percent, 100);
    w->seen.leader.step_ms = 0;
    w->seen.now_ms += DECIDE_PROGRESS_MS;
    world_round(w);
    assert_int_equal(s->stages[1].busy_percent, 0);
    world_free(w);
}

static void decide_warns_of_skipped_steps_once_a_revision(void **state)
{
    struct world *w = world_new(NULL);

    (void)state;
    skipped(w);
    (void)world_settle(w);
    w->seen.leader.skipped_steps = 3;
    w->seen.now_ms += DECIDE_PROGRESS_MS;
    world_decide(w);
    assert_int_equal(w->decision.status.progress.skipped_steps, 3);
    assert_false(world_has_event(w, "StepsSkipped"));
    world_free(w);
}

/* How often, until it trains. */
static int count_unprotected(const char *spec)
{
    struct world *w = world_new(spec);
    int n = 0;

    (void)world_settle(w);
    world_run_pods(w);
    for (int i = 0; i < WORLD_ROUNDS_MAX; i++) {
        world_round(w);
        n += world_has_event(w, "Unprotected");
    }
    assert_true(status_is(&w->seen.status, CONDITION_RUNNING));
    world_free(w);
    return n;
}

static void decide_warns_once_of_checkpoints_without_a_copy(void **state)
{
#define STORED(stages, checkpoint)                                                                 \
    "{\"model\":{\"preset\":\"BertTiny\"},\"data\":{\"source\":{\"sample\":\"MNLI\"}},"            \
    "\"placement\":{\"minStages\":" #stages ",\"maxStages\":" #stages "},"                         \
    "\"checkpoint\":{" checkpoint "}}"

    (void)state;
    assert_int_equal(count_unprotected(STORED(1, "")), 1);
    assert_int_equal(count_unprotected(STORED(2, "")), 0);
    assert_int_equal(count_unprotected(STORED(1, "\"mode\":\"Never\"")), 0);
    assert_int_equal(
        count_unprotected(STORED(1, "\"store\":{\"persistentVolumeClaim\":{\"claimName\":\"a\"}}")),
        0);
}

/* Of stages, and of probes, which have the same ports. */
static void decide_makes_the_network_policy_before_any_pod(void **state)
{
    (void)state;
    for (int measures = 0; measures < 2; measures++) {
        for (int is_on = 0; is_on < 2; is_on++) {
            struct world *w = world_new(NULL);
            enum action_kind pod = measures ? ACTION_CREATE_PROBE_POD : ACTION_CREATE_WORKER_POD;

            w->seen.settings.has_network_policies = is_on;
            w->nodes[0].annotations.gflops = w->nodes[1].annotations.gflops = measures ? 0 : 20;
            for (int i = 0; i < WORLD_ROUNDS_MAX; i++) {
                world_decide(w);
                if (world_count(w, pod) > 0)
                    break;
                world_apply(w, DECIDE_ACTIONS_MAX);
            }
            assert_true(world_count(w, pod) > 0);
            assert_int_equal(world_count(w, ACTION_CREATE_POLICY), is_on);
            if (is_on)
                assert_true(world_find(w, ACTION_CREATE_POLICY) < world_find(w, pod));
            world_free(w);
        }
    }
}

static void decide_records_which_pods_it_has_created(void **state)
{
    struct world *w = world_new(NULL);

    (void)state;
    (void)world_settle(w);
    for (int s = 0; s < w->seen.revision.plan.n_workers; s++)
        assert_string_equal(w->seen.status.stages[s].pod_uid, world_pod(w, s)->uid);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(decide_does_not_make_old_progress_look_new),
        cmocka_unit_test(decide_counts_a_trainer_that_hangs),
        cmocka_unit_test(decide_frees_the_nodes_during_the_pause_of_a_job_that_cannot_start),
        cmocka_unit_test(decide_does_not_pause_once_the_spec_was_edited),
        cmocka_unit_test(decide_makes_the_network_policy_before_any_pod),
        cmocka_unit_test(decide_records_which_pods_it_has_created),
        cmocka_unit_test(decide_warns_once_of_checkpoints_without_a_copy),
        cmocka_unit_test(decide_writes_progress_at_most_every_ten_seconds),
        cmocka_unit_test(decide_looks_at_each_of_many_jobs_less_often),
        cmocka_unit_test(decide_looks_often_at_a_job_that_ends_soon_however_many_there_are),
        cmocka_unit_test(decide_warns_of_skipped_steps_once_a_revision),
        cmocka_unit_test(decide_tells_of_a_stage_that_is_off_its_plan),
        cmocka_unit_test(decide_judges_no_stage_by_steps_of_a_moment),
        cmocka_unit_test(decide_ignores_a_stage_too_short_to_matter),
        cmocka_unit_test(decide_invalidates_no_probe_for_an_image_of_the_jobs_own),
        cmocka_unit_test(decide_says_when_a_step_is_not_what_the_plan_predicted),
        cmocka_unit_test(decide_forgets_what_was_off_for_a_moment),
        cmocka_unit_test(decide_tells_again_of_another_revision),
        cmocka_unit_test(decide_shows_how_busy_every_stage_is),
    };

    return row_main(rows, sizeof rows / sizeof rows[0], others, sizeof others / sizeof others[0]);
}
