/* Jobs that take too long, and jobs that are kept for a while after their end. */
#include <stdio.h>
#include <string.h>

#include "row.h"

#define SPEC(members)                                                                              \
    "{\"data\": {\"source\": {\"sample\": \"MNLI\"}}, \"placement\": {\"maxStages\": 3}, " members \
    "}"
#define ACTIVE  SPEC("\"activeDeadlineSeconds\": 100")
#define START   SPEC("\"failurePolicy\": {\"startDeadlineSeconds\": 100}")
#define SUSPEND SPEC("\"activeDeadlineSeconds\": 100, \"suspend\": true")

static void settled(struct world *w)
{
    (void)world_settle(w);
}

static void waits_99_s(struct world *w)
{
    (void)world_settle(w);
    w->seen.now_ms += 99000;
}

static void waits_100_s(struct world *w)
{
    (void)world_settle(w);
    w->seen.now_ms += 100000;
}

static void trains_100_s(struct world *w)
{
    world_train_on(w);
    w->seen.now_ms += 100000;
}

static void trained_before_it_waits_100_s(struct world *w)
{
    world_train_on(w);
    world_end_pod(w, 1, 1, PROGRESS_CAUSE_OTHER);
    w->seen.now_ms += 100000;
}

static void is_released_after_100_s(struct world *w)
{
    world_train_on(w);
    w->seen.leader.state = PROGRESS_DONE;
    world_round(w);
    w->seen.now_ms += 100000;
}

static void has_ended(struct world *w, int64_t ago_ms)
{
    world_train_on(w);
    w->seen.status.conditions[CONDITION_COMPLETE].value = CONDITION_TRUE;
    w->seen.expires_ms = w->seen.now_ms - ago_ms;
}

static void expires_later(struct world *w)
{
    has_ended(w, -1);
}

static void expires_now(struct world *w)
{
    has_ended(w, 0);
}

static void is_kept(struct world *w)
{
    has_ended(w, 0);
    w->seen.expires_ms = 0;
}

static void resumes_at_100_s(struct world *w)
{
    (void)world_settle(w);
    w->seen.now_ms += 100000;
    world_set_spec(w, ACTIVE);
    (void)world_settle(w);
    w->seen.now_ms += 99000;
}

#define DELETES(n) COUNT(ACTION_DELETE_JOB, n)

static struct row rows[] = {
    ROW("deadline_that_is_not_given_never_passes", waits_100_s, FAILED, F, "NotFailed", DELETES(0)),
    ROW("deadline_is_waited_for", settled, FAILED, F, "NotFailed", .spec = ACTIVE,
        .is_waiting = true),
    ROW("deadline_has_not_passed_before", waits_99_s, FAILED, F, "NotFailed", .spec = ACTIVE),
    ROW("deadline_of_a_job_counts_while_it_waits", waits_100_s, FAILED, F, "DeadlineExceeded",
        .spec = ACTIVE, .state = "Failing", .event = "DeadlineExceeded", .message = "100 seconds"),
    ROW("deadline_of_a_job_counts_while_it_trains", trains_100_s, FAILED, F, "DeadlineExceeded",
        .spec = ACTIVE),
    ROW("deadline_does_not_fail_a_job_that_is_done", is_released_after_100_s, FAILED, F,
        "NotFailed", .spec = ACTIVE),
    ROW("deadline_does_not_count_while_the_job_is_suspended", waits_100_s, FAILED, F, "NotFailed",
        .spec = SUSPEND),
    ROW("deadline_counts_from_the_resumption", resumes_at_100_s, FAILED, F, "NotFailed",
        .spec = SUSPEND),
    ROW("deadline_of_the_start_has_not_passed_before", waits_99_s, FAILED, F, "NotFailed",
        .spec = START),
    ROW("deadline_of_the_start_reports_what_was_waited_for", waits_100_s, FAILED, F,
        "StartDeadlineExceeded", .spec = START, .event = "StartDeadlineExceeded",
        .message = "0 of 3 workers are running."),
    ROW("deadline_of_the_start_is_met_by_a_job_that_trains", trains_100_s, FAILED, F, "NotFailed",
        .spec = START),
    ROW("deadline_of_the_start_is_met_by_a_job_that_has_trained", trained_before_it_waits_100_s,
        FAILED, F, "NotFailed", .spec = START),
    ROW("deadline_of_a_finished_job_deletes_it", expires_now, COMPLETE, T, "NotFinished",
        DELETES(1)),
    ROW("deadline_of_a_finished_job_is_waited_for", expires_later, COMPLETE, T, "NotFinished",
        DELETES(0), .is_waiting = true),
    ROW("deadline_that_a_finished_job_does_not_have_never_passes", is_kept, COMPLETE, T,
        "NotFinished", DELETES(0)),
};

int main(void)
{
    return row_main(rows, sizeof rows / sizeof rows[0], NULL, 0);
}
