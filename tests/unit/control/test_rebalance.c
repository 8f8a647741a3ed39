/* Units that move between the workers of a running job, or to new ones: from what the leader
 * measures to the next revision, and what may come in between. When they move is in
 * tests/unit/balance. */
#include "balance/rebalance.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "world.h"

#define SPEC(most, placement)                                                                      \
    "{\"model\":{\"preset\":\"BertMini\"},\"data\":{\"source\":{\"sample\":\"MNLI\"}},"            \
    "\"placement\":{\"minStages\":2,\"maxStages\":" most placement "}}"

static const char two_stages[] = SPEC("2", "");
static const char suggests[] = SPEC("2", ",\"rebalance\":\"Suggest\"");
static const char is_off[] = SPEC("2", ",\"rebalance\":\"Off\"");
static const char is_even[] = SPEC("2", ",\"strategy\":\"Even\"");
static const char with_headroom[] = SPEC("3", ",\"headroomPercent\":100");
static const char up_to_three[] = SPEC("3", "");
static const char three_suggested[] = SPEC("3", ",\"rebalance\":\"Suggest\"");
static const char three_off[] = SPEC("3", ",\"rebalance\":\"Off\"");

static const char two_replicas[] =
    "{\"model\":{\"preset\":\"BertMini\"},\"data\":{\"source\":{\"sample\":\"MNLI\"}},"
    "\"replicas\":2,\"placement\":{\"minStages\":1,\"maxStages\":1}}";

static const struct plan *plan_of(const struct world *w)
{
    return &w->seen.revision.plan;
}

/* All workers train, and hold all units after 7 steps. The third node is not there yet. */
static struct world *train(const char *spec)
{
    struct world *w = world_new(spec);

    world_make_alike(w);
    w->nodes[2].excluded = EXCLUDED_CORDONED;
    world_start_training(w);
    w->seen.has_leader = true;
    w->seen.leader = (struct progress){
        .state = PROGRESS_TRAINING, .revision = 1, .step = 7, .total_steps = 100000, .loss = 1};
    for (int s = 0; s < 2; s++) {
        struct report *report = &w->reports[world_pod(w, s)->slot];

        report->end = (struct step_end){.revision = 1, .step = 7};
        report_add(report, &(struct report_run){.first_unit = plan_of(w)->workers[s].first_unit,
                                                .n_units = plan_of(w)->workers[s].n_units,
                                                .step = 7});
    }
    (void)world_settle(w);
    return w;
}

/* The leader measures: the stages take so many times what was planned. One decision. */
static void measure(struct world *w, double first, double second)
{
    struct progress *p = &w->seen.leader;
    const double times[] = {first, second, 1};

    p->revision = plan_of(w)->revision;
    p->n_stage_ms = plan_of(w)->n_workers;
    for (int s = 0; s < p->n_stage_ms; s++)
        p->stage_ms[s] = plan_of(w)->workers[s].predicted_ms * times[s];
    p->window.mad_ms = 0.005 * p->stage_ms[0];
    p->window.n_samples += REBALANCE_SAMPLES;
    p->window.step_ms = p->step_ms = 100;
    w->seen.now_ms += 2 * DECIDE_PROGRESS_MS;
    world_decide(w);
}

static void apply(struct world *w)
{
    world_apply(w, DECIDE_ACTIONS_MAX);
}

/* Twice, as it must be seen; up to the decision to move. */
static void slow_down(struct world *w)
{
    for (int i = 0; i < REBALANCE_TIMES; i++) {
        if (i > 0)
            apply(w);
        measure(w, 1, 3);
    }
}

static void rebalance_moves_units_and_repeats_nothing(void **state)
{
    struct world *w = train(two_stages);
    struct plan before = *plan_of(w);

    (void)state;
    slow_down(w);
    assert_true(world_has_event(w, "Rebalanced"));
    assert_int_equal(world_count(w, ACTION_EVENT), 1);
    apply(w);
    assert_int_equal(w->seen.status.revision, 2);
    assert_string_equal(w->seen.status.rebalance.decision, "Moved");
    (void)world_settle(w);
    assert_int_equal(plan_of(w)->revision, 2);
    assert_int_equal(plan_of(w)->n_workers, 2);
    assert_true(plan_of(w)->workers[1].n_units < before.workers[1].n_units);
    for (int s = 0; s < 2; s++) {
        assert_int_equal(plan_of(w)->workers[s].slot, before.workers[s].slot);
        assert_int_equal(plan_of(w)->workers[s].incarnation, 1);
        assert_int_equal(plan_of(w)->workers[s].memory_bytes, before.workers[s].memory_bytes);
        assert_int_equal(world_pod(w, s)->accepted, 2);
    }
    assert_int_equal(w->seen.revision.resume.step, 7);
    assert_int_equal(w->seen.revision.resume.lineage, 1);
    assert_int_equal(w->seen.revision.n_leaving, 0);
    assert_int_equal(w->seen.n_pods, 2);
    assert_int_equal(w->seen.status.restarts + w->seen.status.restarts_in_a_row, 0);
    assert_non_null(strstr(w->seen.status.revision_reason, "units per stage"));
    assert_true(status_is(&w->seen.status, CONDITION_RUNNING));
    world_free(w);
}

/* The workers keep their units and their pods; nothing is off the new plan. */
static void rebalance_gives_replicas_other_shares(void **state)
{
    struct world *w = train(two_replicas);
    struct plan before = *plan_of(w);

    (void)state;
    assert_int_equal(before.n_shares, 2);
    slow_down(w);
    assert_true(world_has_event(w, "Rebalanced"));
    apply(w);
    (void)world_settle(w);
    assert_int_equal(plan_of(w)->revision, 2);
    assert_true(plan_of(w)->shares[1] < before.shares[1]);
    assert_int_equal(plan_of(w)->shares[0] + plan_of(w)->shares[1], before.micro_batches);
    for (int s = 0; s < 2; s++) {
        const struct plan_worker *now = &plan_of(w)->workers[s];

        assert_int_equal(now->slot, before.workers[s].slot);
        assert_int_equal(now->replica, s);
        assert_int_equal(now->incarnation, 1);
        assert_int_equal(now->n_units, before.workers[s].n_units);
        assert_int_equal(now->memory_bytes, before.workers[s].memory_bytes);
        assert_int_equal(world_pod(w, s)->accepted, 2);
    }
    assert_true(plan_of(w)->workers[1].predicted_ms > 2.9 * before.workers[1].predicted_ms &&
                plan_of(w)->workers[1].predicted_ms < 3.1 * before.workers[1].predicted_ms);
    assert_int_equal(w->seen.revision.resume.step, 7);
    assert_int_equal(w->seen.status.restarts, 0);
    assert_non_null(strstr(w->seen.status.revision_reason, "micro-batches instead of"));
    assert_non_null(strstr(w->seen.status.placement.summary.explanation, "2 replicas"));
    world_free(w);
}

/* Its plan has the times that were measured, so nothing is off it. */
static void rebalance_plans_with_the_speeds_that_were_measured(void **state)
{
    struct world *w = train(two_stages);
    double unit_ms = plan_of(w)->workers[1].predicted_ms / plan_of(w)->workers[1].n_units;

    (void)state;
    slow_down(w);
    apply(w);
    (void)world_settle(w);
    assert_true(plan_of(w)->workers[1].predicted_ms > 2 * unit_ms * plan_of(w)->workers[1].n_units);
    for (int i = 0; i < 10; i++) {
        measure(w, 1, 1);
        apply(w);
        (void)world_settle(w);
    }
    assert_int_equal(plan_of(w)->revision, 2);
    assert_string_equal(w->seen.status.rebalance.decision, "Kept");
    world_free(w);
}

static void rebalance_goes_back_when_steps_become_longer(void **state)
{
    struct world *w = train(two_stages);
    int n_units = plan_of(w)->workers[1].n_units;

    (void)state;
    slow_down(w);
    apply(w);
    (void)world_settle(w);
    assert_int_equal(plan_of(w)->revision, 2);
    w->seen.leader.window.n_samples = 0;
    measure(w, 1, 1);
    w->seen.leader.window.step_ms = 130;
    world_decide(w);
    assert_true(world_has_event(w, "RebalanceReverted"));
    apply(w);
    (void)world_settle(w);
    assert_int_equal(plan_of(w)->revision, 3);
    assert_int_equal(plan_of(w)->workers[1].n_units, n_units);
    assert_string_equal(w->seen.status.rebalance.decision, "Reverted");
    world_free(w);
}

static void rebalance_suggest_moves_nothing(void **state)
{
    struct world *w = train(suggests);
    int n_events = w->n_events;

    (void)state;
    slow_down(w);
    assert_true(world_has_event(w, "RebalanceSuggested"));
    apply(w);
    slow_down(w);
    apply(w);
    (void)world_settle(w);
    assert_int_equal(plan_of(w)->revision, 1);
    assert_int_equal(w->n_events, n_events + 1);
    assert_string_equal(w->seen.status.rebalance.decision, "Suggested");
    assert_in_range(w->seen.status.rebalance.gain_percent, 10, 90);
    world_free(w);
}

static void rebalance_leaves_alone_what_it_is_not_for(void **state)
{
    static const char *const specs[] = {is_off, is_even};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct world *w = train(specs[i]);

        slow_down(w);
        assert_false(decide_is_balance_due(&w->seen));
        apply(w);
        (void)world_settle(w);
        assert_int_equal(plan_of(w)->revision, 1);
        assert_string_equal(w->seen.status.rebalance.decision, "");
        world_free(w);
    }
}

/* It may be changed while the job runs, and is no reason for other workers. */
static void rebalance_can_be_switched_off(void **state)
{
    struct world *w = train(two_stages);

    (void)state;
    measure(w, 1, 3);
    apply(w);
    world_set_spec(w, is_off);
    measure(w, 1, 3);
    apply(w);
    (void)world_settle(w);
    assert_int_equal(plan_of(w)->revision, 1);
    assert_true(status_is(&w->seen.status, CONDITION_UP_TO_DATE));
    world_free(w);
}

/* The one that is lost gets a new pod, and all keep their units. */
static void rebalance_is_given_up_when_a_worker_is_lost(void **state)
{
    struct world *w = train(two_stages);
    int n_units = plan_of(w)->workers[1].n_units;

    (void)state;
    slow_down(w);
    apply(w);
    world_remove_pod(w, world_pod(w, 1));
    (void)world_settle(w);
    world_run_pods(w);
    (void)world_settle(w);
    assert_int_equal(plan_of(w)->revision, 2);
    assert_int_equal(plan_of(w)->workers[1].n_units, n_units);
    assert_int_equal(w->seen.status.rebalance.n_next + w->seen.status.rebalance.n_last, 0);
    assert_true(status_is(&w->seen.status, CONDITION_RUNNING));
    world_free(w);
}

static void ask(struct world *w, const char *when)
{
    (void)snprintf(w->seen.asked, sizeof w->seen.asked, "%s", when);
}

/* Whatever spec.placement.rebalance is, and without a second look. */
static void rebalance_answers_a_user_at_once(void **state)
{
    static const char *const specs[] = {two_stages, suggests, is_off};

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct world *w = train(specs[i]);

        ask(w, "2026-11-23T21:00:00Z");
        measure(w, 1, 3);
        assert_true(world_has_event(w, "Rebalanced"));
        apply(w);
        (void)world_settle(w);
        assert_int_equal(plan_of(w)->revision, 2);
        assert_string_equal(w->seen.status.rebalance.asked, w->seen.asked);
        world_free(w);
    }
}

static void rebalance_answers_a_user_also_when_nothing_moves(void **state)
{
    static const char *const specs[] = {two_stages, is_even};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct world *w = train(specs[i]);

        ask(w, "2026-11-23T21:00:00Z");
        measure(w, 1, 1);
        assert_true(world_has_event(w, "RebalanceKept"));
        apply(w);
        measure(w, 1, 1);
        assert_false(world_has_event(w, "RebalanceKept"));
        apply(w);
        ask(w, "2026-11-23T22:00:00Z");
        measure(w, 1, 1);
        assert_true(world_has_event(w, "RebalanceKept"));
        apply(w);
        (void)world_settle(w);
        assert_int_equal(plan_of(w)->revision, 1);
        world_free(w);
    }
}

/* All that the next decisions need is in the status. */
static void rebalance_survives_a_restart_of_the_operator(void **state)
{
    struct world *w = train(two_stages);
    struct buf text = {.max = STATUS_TEXT_MAX_BYTES};
    struct json *json = NULL;
    struct jsonw writer;

    (void)state;
    slow_down(w);
    apply(w);
    jsonw_init(&writer, &text);
    status_write(&w->seen.status, &writer, NULL);
    assert_int_equal(jsonw_finish(&writer, NULL), ERR_OK);
    assert_int_equal(json_parse(text.data, text.len, &json, NULL), ERR_OK);
    status_read(json, &w->seen.status);
    (void)world_settle(w);
    assert_int_equal(plan_of(w)->revision, 2);
    assert_true(w->seen.status.rebalance.n_last == 2 && w->seen.status.rebalance.before_ms == 100);
    assert_true(plan_of(w)->workers[1].n_units < w->seen.status.rebalance.last[1].n_units);
    json_free(json);
    buf_deinit(&text);
    world_free(w);
}

/* --- nodes that join --- */

static void open_third(struct world *w)
{
    w->nodes[2].excluded = EXCLUDED_NOT;
}

/* Nothing is off the plan, and there is a node more; up to the decision. */
static void look_twice(struct world *w)
{
    for (int i = 0; i < REBALANCE_TIMES; i++) {
        if (i > 0)
            apply(w);
        measure(w, 1, 1);
    }
}

/* The pod that is not in the plan. */
static struct seen_pod *newcomer(struct world *w)
{
    for (int i = 0; i < w->seen.n_pods; i++)
        if (w->seen.pods[i].role == POD_WORKER && plan_find(plan_of(w), w->seen.pods[i].slot) < 0)
            return &w->seen.pods[i];
    return NULL;
}

/* It starts, and answers. */
static void run_newcomer(struct world *w)
{
    struct seen_pod *p = newcomer(w);
    struct report *report = &w->reports[p->slot];

    p->phase = POD_RUNNING;
    (void)snprintf(p->ip, sizeof p->ip, "10.0.1.%d", p->slot);
    *report = (struct report){.slot = p->slot, .incarnation = p->incarnation};
    p->report = report;
}

/* Up to the pod of the new worker. */
static struct world *train_with_newcomer(const char *spec)
{
    struct world *w = train(spec);

    open_third(w);
    look_twice(w);
    apply(w);
    (void)world_settle(w);
    return w;
}

static void rebalance_lets_a_node_join_and_repeats_nothing(void **state)
{
    struct world *w = train(up_to_three);
    struct plan before = *plan_of(w);

    (void)state;
    open_third(w);
    look_twice(w);
    assert_true(world_has_event(w, "NodesJoining"));
    apply(w);
    (void)world_settle(w);
    assert_non_null(newcomer(w));
    assert_string_equal(newcomer(w)->node, w->nodes[2].name);
    assert_int_equal(newcomer(w)->incarnation, 1);
    assert_string_equal(w->seen.status.rebalance.decision, "Joining");
    assert_int_equal(w->seen.status.revision, 1); /* all train on meanwhile */
    assert_true(status_is(&w->seen.status, CONDITION_RUNNING));
    run_newcomer(w);
    w->seen.leader.state = PROGRESS_SAVING; /* nothing is halted then */
    world_decide(w);
    assert_false(world_has_event(w, "Rebalanced"));
    w->seen.leader.state = PROGRESS_TRAINING;
    world_decide(w);
    assert_true(world_has_event(w, "Rebalanced"));
    (void)world_settle(w);
    assert_int_equal(plan_of(w)->revision, 2);
    assert_int_equal(plan_of(w)->n_workers, 3);
    assert_int_equal(w->seen.n_pods, 3);
    assert_int_equal(plan_of(w)->workers[0].slot, before.workers[0].slot);
    for (int s = 0; s < 3; s++) {
        assert_int_equal(plan_of(w)->workers[s].incarnation, 1);
        assert_int_equal(world_pod(w, s)->accepted, 2);
    }
    assert_int_equal(w->seen.revision.resume.step, 7);
    assert_int_equal(w->seen.revision.resume.lineage, 1);
    assert_int_equal(w->seen.revision.n_leaving, 0);
    assert_int_equal(w->seen.status.restarts + w->seen.status.restarts_in_a_row, 0);
    assert_string_equal(w->seen.status.rebalance.decision, "Moved");
    assert_true(status_is(&w->seen.status, CONDITION_RUNNING));
    for (int i = 0; i < 5; i++) {
        measure(w, 1, 1);
        apply(w);
        (void)world_settle(w);
    }
    assert_int_equal(plan_of(w)->revision, 2);
    assert_int_equal(w->seen.n_pods, 3);
    world_free(w);
}

/* There must not be more workers, so the slow one leaves. */
static void rebalance_lets_a_node_take_the_place_of_a_slow_one(void **state)
{
    struct world *w = train(two_stages);
    int slow = plan_of(w)->workers[1].slot;

    (void)state;
    open_third(w);
    slow_down(w);
    apply(w);
    (void)world_settle(w);
    run_newcomer(w);
    (void)world_settle(w);
    assert_int_equal(plan_of(w)->revision, 2);
    assert_int_equal(plan_of(w)->n_workers, 2);
    assert_int_equal(plan_find(plan_of(w), slow), -1);
    assert_int_equal(w->seen.revision.n_leaving, 1);
    assert_int_equal(w->seen.revision.resume.step, 7);
    assert_string_equal(plan_of(w)->workers[1].node, w->nodes[2].name);
    world_free(w);
}

static void rebalance_takes_no_more_workers_than_the_spec_has(void **state)
{
    struct world *w = train_with_newcomer(two_stages);

    (void)state;
    assert_null(newcomer(w));
    assert_int_equal(plan_of(w)->revision, 1);
    world_free(w);
}

static void rebalance_starts_no_worker_where_it_is_not_wanted(void **state)
{
    static const char *const specs[] = {three_suggested, three_off};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct world *w = train_with_newcomer(specs[i]);

        assert_null(newcomer(w));
        assert_int_equal(plan_of(w)->revision, 1);
        assert_string_equal(w->seen.status.rebalance.decision, i == 0 ? "Suggested" : "");
        world_free(w);
    }
}

static void rebalance_measures_a_node_before_it_joins(void **state)
{
    static const char *const specs[] = {up_to_three, three_off};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct world *w = train(specs[i]);

        w->nodes[2].annotations.gflops = 0;
        open_third(w);
        look_twice(w);
        apply(w);
        (void)world_settle(w);
        assert_null(newcomer(w));
        assert_null(world_probe(w, w->nodes[0].name));
        assert_true((world_probe(w, w->nodes[2].name) != NULL) == (i == 0));
        world_free(w);
    }
}

static void rebalance_lets_a_node_join_once_it_is_measured(void **state)
{
    struct world *w = train(up_to_three);
    struct node_probe found = {.gflops = 40, .unit_ms = 0.1, .threads = 1};
    struct seen_pod *probe;

    (void)state;
    w->nodes[2].annotations.gflops = 0;
    open_third(w);
    look_twice(w);
    apply(w);
    probe = world_probe(w, w->nodes[2].name);
    probe->phase = POD_SUCCEEDED;
    probe->probe = &found;
    look_twice(w);
    apply(w);
    (void)world_settle(w);
    assert_non_null(newcomer(w));
    assert_true(w->nodes[2].annotations.has_probe);
    run_newcomer(w);
    (void)world_settle(w);
    assert_int_equal(plan_of(w)->n_workers, 3);
    assert_null(world_probe(w, w->nodes[2].name));
    world_free(w);
}

/* Those of the first plan, and those that join. */
static void rebalance_has_the_headroom_that_was_asked_for(void **state)
{
    int64_t bytes[2][3];

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct world *w = train_with_newcomer(i == 0 ? up_to_three : with_headroom);

        bytes[i][2] = newcomer(w)->memory_bytes;
        run_newcomer(w);
        for (int s = 0; s < 2; s++)
            bytes[i][s] = world_pod(w, s)->memory_bytes;
        (void)world_settle(w);
        assert_int_equal(plan_of(w)->n_workers, 3);
        world_free(w);
    }
    for (int k = 0; k < 3; k++)
        assert_in_range(bytes[1][k], 2 * bytes[0][k] - (2 << 20), 2 * bytes[0][k]);
}

/* --- workers that need more memory --- */

/* The pods have what their stages need, and no more. */
static struct world *train_without_room(void)
{
    struct world *w = train(two_stages);

    for (int s = 0; s < 2; s++) {
        struct plan_worker *worker = &w->seen.revision.plan.workers[s];

        worker->memory_bytes = world_pod(w, s)->memory_bytes = worker->memory_bytes * 4 / 5;
    }
    slow_down(w);
    assert_true(world_has_event(w, "WorkersGrowing"));
    apply(w);
    assert_string_equal(w->seen.status.rebalance.decision, "Growing");
    return w;
}

static const struct action *ordered(const struct world *w)
{
    for (int i = 0; i < w->decision.n_actions; i++)
        if (w->decision.actions[i].kind == ACTION_ORDER_CHECKPOINT)
            return &w->decision.actions[i];
    return NULL;
}

/* The checkpoint is ordered and written, in a folder that all share; after step 0 it could not be.
 */
static void save(struct world *w, int64_t step)
{
    world_decide(w);
    assert_non_null(ordered(w));
    w->seen.leader.ordered = (struct progress_ordered){ordered(w)->order, step};
    for (int s = 0; s < 2; s++) {
        struct report *report = &w->reports[world_pod(w, s)->slot];

        report->n_checkpoints = step > 0;
        report->checkpoints[0] =
            (struct resume_checkpoint){.lineage = 1, .end = {.revision = 1, .step = step}};
    }
}

/* What it has goes with its pod, so all go back to the checkpoint. */
static void rebalance_starts_a_worker_again_that_needs_more_memory(void **state)
{
    struct world *w = train_without_room();
    struct plan before = *plan_of(w);

    (void)state;
    save(w, 5);
    assert_int_equal(w->decision.status.revision, 1); /* nothing is lost before that is written */
    world_decide(w);
    assert_true(world_has_event(w, "Rebalanced"));
    apply(w);
    (void)world_settle(w);
    world_run_pods(w);
    (void)world_settle(w);
    assert_int_equal(plan_of(w)->revision, 2);
    assert_int_equal(w->seen.revision.resume.step, 5);
    assert_int_equal(plan_of(w)->workers[0].incarnation, 2);
    assert_int_equal(plan_of(w)->workers[0].slot, before.workers[0].slot);
    assert_string_equal(plan_of(w)->workers[0].node, before.workers[0].node);
    assert_true(plan_of(w)->workers[0].n_units > before.workers[0].n_units);
    assert_true(plan_of(w)->workers[0].memory_bytes > before.workers[0].memory_bytes);
    assert_int_equal(plan_of(w)->workers[1].incarnation, 1);
    assert_int_equal(plan_of(w)->workers[1].memory_bytes, before.workers[1].memory_bytes);
    assert_int_equal(w->seen.n_pods, 2);
    assert_int_equal(w->seen.status.restarts, 0);
    world_free(w);
}

static void rebalance_keeps_the_cut_when_no_checkpoint_can_be_written(void **state)
{
    struct world *w = train_without_room();

    (void)state;
    save(w, 0);
    world_decide(w);
    assert_true(world_has_event(w, "RebalanceKept"));
    apply(w);
    (void)world_settle(w);
    assert_string_equal(w->seen.status.rebalance.decision, "Kept");
    assert_int_equal(plan_of(w)->revision, 1);
    assert_int_equal(w->seen.n_pods, 2);
    world_free(w);
}

/* While the checkpoint is written. */
static void rebalance_forgets_that_a_worker_grows_when_one_is_lost(void **state)
{
    struct world *w = train_without_room();
    int n_units = plan_of(w)->workers[0].n_units;

    (void)state;
    world_remove_pod(w, world_pod(w, 1));
    (void)world_settle(w);
    world_run_pods(w);
    (void)world_settle(w);
    assert_int_equal(plan_of(w)->revision, 2);
    assert_int_equal(plan_of(w)->workers[0].n_units, n_units);
    assert_int_equal(plan_of(w)->workers[0].incarnation, 1);
    assert_string_equal(w->seen.status.rebalance.decision, "Kept");
    world_free(w);
}

/* --- */

/* Its pod goes, and the cut stays. */
static void rebalance_gives_up_a_worker_that_does_not_start(void **state)
{
    (void)state;
    for (int why = 0; why < 3; why++) {
        struct world *w = train_with_newcomer(up_to_three);

        if (why == 0)
            newcomer(w)->phase = POD_FAILED;
        else if (why == 1)
            newcomer(w)->is_unschedulable = true;
        w->seen.now_ms += DECIDE_CREATING_MS + DECIDE_START_MS + 1000;
        world_decide(w);
        assert_true(world_has_event(w, "RebalanceKept"));
        apply(w);
        (void)world_settle(w);
        assert_null(newcomer(w));
        look_twice(w);
        apply(w);
        (void)world_settle(w);
        assert_null(newcomer(w));
        assert_int_equal(plan_of(w)->revision, 1);
        assert_true(status_is(&w->seen.status, CONDITION_RUNNING));
        assert_int_equal(w->seen.status.rebalance.n_moves, 0);
        world_free(w);
    }
}

static void rebalance_forgets_a_new_worker_when_another_one_is_lost(void **state)
{
    (void)state;
    for (int runs = 0; runs < 2; runs++) {
        struct world *w = train_with_newcomer(up_to_three);

        world_remove_pod(w, world_pod(w, 1));
        if (runs)
            run_newcomer(w);
        (void)world_settle(w);
        world_run_pods(w);
        (void)world_settle(w);
        assert_int_equal(plan_of(w)->revision, 2);
        assert_int_equal(plan_of(w)->n_workers, 2);
        assert_int_equal(w->seen.n_pods, 2);
        assert_int_equal(w->seen.status.rebalance.n_joining + w->seen.status.rebalance.n_next, 0);
        assert_true(status_is(&w->seen.status, CONDITION_RUNNING));
        world_free(w);
    }
}

/* Created, and known to no operator: it is created again, and found. */
static void rebalance_finds_a_new_worker_after_a_restart_of_the_operator(void **state)
{
    struct world *w = train_with_newcomer(up_to_three);

    (void)state;
    newcomer(w)->role = POD_UNVERIFIED;
    world_decide(w);
    assert_int_equal(world_count(w, ACTION_CREATE_SUBSTITUTE), 1);
    assert_int_equal(world_count(w, ACTION_DELETE_POD), 0);
    world_free(w);
}

static void rebalance_sends_the_new_worker_away_when_steps_become_longer(void **state)
{
    struct world *w = train_with_newcomer(up_to_three);

    (void)state;
    run_newcomer(w);
    (void)world_settle(w);
    assert_int_equal(plan_of(w)->n_workers, 3);
    w->seen.leader.window.n_samples = 0;
    measure(w, 1, 1);
    w->seen.leader.window.step_ms = 130;
    world_decide(w);
    assert_true(world_has_event(w, "RebalanceReverted"));
    apply(w);
    (void)world_settle(w);
    assert_int_equal(plan_of(w)->revision, 3);
    assert_int_equal(plan_of(w)->n_workers, 2);
    assert_int_equal(w->seen.n_pods, 2);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rebalance_moves_units_and_repeats_nothing),
        cmocka_unit_test(rebalance_gives_replicas_other_shares),
        cmocka_unit_test(rebalance_plans_with_the_speeds_that_were_measured),
        cmocka_unit_test(rebalance_goes_back_when_steps_become_longer),
        cmocka_unit_test(rebalance_suggest_moves_nothing),
        cmocka_unit_test(rebalance_leaves_alone_what_it_is_not_for),
        cmocka_unit_test(rebalance_can_be_switched_off),
        cmocka_unit_test(rebalance_is_given_up_when_a_worker_is_lost),
        cmocka_unit_test(rebalance_answers_a_user_at_once),
        cmocka_unit_test(rebalance_answers_a_user_also_when_nothing_moves),
        cmocka_unit_test(rebalance_survives_a_restart_of_the_operator),
        cmocka_unit_test(rebalance_lets_a_node_join_and_repeats_nothing),
        cmocka_unit_test(rebalance_lets_a_node_take_the_place_of_a_slow_one),
        cmocka_unit_test(rebalance_takes_no_more_workers_than_the_spec_has),
        cmocka_unit_test(rebalance_starts_no_worker_where_it_is_not_wanted),
        cmocka_unit_test(rebalance_measures_a_node_before_it_joins),
        cmocka_unit_test(rebalance_lets_a_node_join_once_it_is_measured),
        cmocka_unit_test(rebalance_has_the_headroom_that_was_asked_for),
        cmocka_unit_test(rebalance_starts_a_worker_again_that_needs_more_memory),
        cmocka_unit_test(rebalance_keeps_the_cut_when_no_checkpoint_can_be_written),
        cmocka_unit_test(rebalance_forgets_that_a_worker_grows_when_one_is_lost),
        cmocka_unit_test(rebalance_gives_up_a_worker_that_does_not_start),
        cmocka_unit_test(rebalance_forgets_a_new_worker_when_another_one_is_lost),
        cmocka_unit_test(rebalance_finds_a_new_worker_after_a_restart_of_the_operator),
        cmocka_unit_test(rebalance_sends_the_new_worker_away_when_steps_become_longer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
