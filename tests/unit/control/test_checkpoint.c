/* Checkpoints on command: who is ordered what, and what users are told. */
#include <stdio.h>
#include <string.h>

#include "row.h"

#define ASKED_MS INT64_C(1795593600000)
#define ASKED    "2026-11-25T08:00:00Z"
#define EARLIER  "2026-11-25T07:59:59Z"

static void ask(struct world *w, const char *text)
{
    (void)snprintf(w->seen.checkpoint_time, sizeof w->seen.checkpoint_time, "%s", text);
}

static void train(struct world *w)
{
    world_start_training(w);
    w->seen.revision.plan.spec.checkpoint.is_on = true;
    w->seen.has_leader = true;
    w->seen.leader = (struct progress){.state = PROGRESS_TRAINING,
                                       .revision = w->seen.revision.plan.revision,
                                       .step = 7,
                                       .total_steps = 100,
                                       .loss = 1};
    (void)world_settle(w);
}

static void asked(struct world *w)
{
    train(w);
    ask(w, ASKED);
}

static void asked_with_a_fraction(struct world *w)
{
    train(w);
    ask(w, "2026-11-25T08:00:00.7Z");
}

static void asked_before_it_trains(struct world *w)
{
    ask(w, ASKED);
    w->spec.checkpoint.is_on = true;
    (void)world_settle(w);
}

static void written(struct world *w)
{
    asked(w);
    w->seen.leader.ordered = (struct progress_ordered){ASKED_MS, 7};
}

static void not_written(struct world *w)
{
    asked(w);
    w->seen.leader.ordered = (struct progress_ordered){ASKED_MS, 0};
}

static void written_and_told(struct world *w)
{
    written(w);
    world_round(w);
}

/* Another operator has the status alone, and another leader knows of nothing. */
static void written_before_all_was_forgotten(struct world *w)
{
    written_and_told(w);
    w->seen.leader.ordered = (struct progress_ordered){0, 0};
}

static void written_for_the_one_before(struct world *w)
{
    train(w);
    ask(w, EARLIER);
    w->seen.leader.ordered = (struct progress_ordered){ASKED_MS - 1000, 5};
    (void)world_settle(w);
    ask(w, ASKED);
}

static void asked_without_a_store(struct world *w)
{
    asked(w);
    w->seen.revision.plan.spec.checkpoint.is_on = false;
}

static void asked_on_one_node(struct world *w)
{
    struct plan *plan = &w->seen.revision.plan;

    asked(w);
    plan->spec.checkpoint.is_peers = true;
    for (int i = 1; i < plan->n_workers; i++)
        memcpy(plan->workers[i].node, plan->workers[0].node, sizeof plan->workers[0].node);
}

static void refused_and_told(struct world *w)
{
    asked_without_a_store(w);
    world_round(w);
}

static void asked_at_no_time(struct world *w)
{
    train(w);
    ask(w, "now");
}

static void asked_at_no_time_and_told(struct world *w)
{
    asked_at_no_time(w);
    world_round(w);
}

#define ORDERS(n) COUNT(ACTION_ORDER_CHECKPOINT, n)
#define SILENT    COUNT(ACTION_EVENT, 0)

static struct row rows[] = {
    ROW("checkpoint_is_not_ordered_unless_it_is_asked_for", train, RUNNING, T, "Training",
        ORDERS(0)),
    ROW("checkpoint_is_ordered_from_the_leader", asked, RUNNING, T, "Training", ORDERS(1)),
    ROW("checkpoint_may_be_asked_for_within_a_second", asked_with_a_fraction, RUNNING, T,
        "Training", ORDERS(1)),
    ROW("checkpoint_waits_until_the_job_trains", asked_before_it_trains, RUNNING, F,
        "StartingWorkers", ORDERS(0)),
    ROW("checkpoint_that_is_written_is_told", written, RUNNING, T, "Training", ORDERS(0),
        .event = "CheckpointWritten"),
    ROW("checkpoint_that_could_not_be_written_is_told", not_written, RUNNING, T, "Training",
        ORDERS(0), .event = "CheckpointFailed"),
    ROW("checkpoint_is_told_once", written_and_told, RUNNING, T, "Training", SILENT),
    ROW("checkpoint_is_not_ordered_again_by_another_operator", written_before_all_was_forgotten,
        RUNNING, T, "Training", ORDERS(0)),
    ROW("checkpoint_that_is_asked_for_later_is_another_one", written_for_the_one_before, RUNNING, T,
        "Training", ORDERS(1)),
    ROW("checkpoint_without_a_store_is_refused", asked_without_a_store, RUNNING, T, "Training",
        ORDERS(0), .event = "CheckpointImpossible"),
    ROW("checkpoint_without_a_store_is_refused_once", refused_and_told, RUNNING, T, "Training",
        SILENT),
    ROW("checkpoint_that_would_be_lost_with_the_only_node_is_refused", asked_on_one_node, RUNNING,
        T, "Training", ORDERS(0), .event = "CheckpointImpossible"),
    ROW("checkpoint_at_no_time_is_refused", asked_at_no_time, RUNNING, T, "Training", ORDERS(0),
        .event = "CheckpointImpossible"),
    ROW("checkpoint_at_no_time_is_refused_once", asked_at_no_time_and_told, RUNNING, T, "Training",
        SILENT),
};

static void checkpoint_leaves_its_step_and_time_in_the_status(void **state)
{
    struct world *w = world_new(NULL);
    const struct status_checkpoint *c = &w->seen.status.checkpoint;

    (void)state;
    written(w);
    (void)world_settle(w);
    assert_int_equal(c->step, 7);
    assert_true(c->request_ms == ASKED_MS);
    assert_string_equal(c->message, "The checkpoint of step 7 is written.");
    ask(w, "now");
    (void)world_settle(w);
    assert_int_equal(c->step, 0);
    assert_non_null(strstr(c->message, "such as 2026-11-21T08:00:00Z, found \"now\""));
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(checkpoint_leaves_its_step_and_time_in_the_status),
    };

    return row_main(rows, sizeof rows / sizeof rows[0], others, sizeof others / sizeof others[0]);
}
