/* Units that move between the workers of a running job: from what the leader measures to the next
 * revision, and what may come in between. When they move is in tests/unit/balance. */
#include "balance/rebalance.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "world.h"

#define SPEC(placement)                                                                            \
    "{\"model\":{\"preset\":\"BertMini\"},\"data\":{\"source\":{\"sample\":\"MNLI\"}},"            \
    "\"placement\":{\"minStages\":2,\"maxStages\":2" placement "}}"

static const char two_stages[] = SPEC("");
static const char suggests[] = SPEC(",\"rebalance\":\"Suggest\"");
static const char is_off[] = SPEC(",\"rebalance\":\"Off\"");
static const char is_even[] = SPEC(",\"strategy\":\"Even\"");

static const struct plan *plan_of(const struct world *w)
{
    return &w->seen.revision.plan;
}

/* All workers train, and hold all units after 7 steps. */
static struct world *train(const char *spec)
{
    struct world *w = world_new(spec);

    for (int i = 0; i < WORLD_NODES; i++) {
        w->nodes[i].cpu_milli = 2000;
        w->nodes[i].annotations.gflops = 40;
    }
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
    const double times[] = {first, second};

    p->revision = plan_of(w)->revision;
    p->n_stage_ms = 2;
    for (int s = 0; s < 2; s++)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rebalance_moves_units_and_repeats_nothing),
        cmocka_unit_test(rebalance_plans_with_the_speeds_that_were_measured),
        cmocka_unit_test(rebalance_goes_back_when_steps_become_longer),
        cmocka_unit_test(rebalance_suggest_moves_nothing),
        cmocka_unit_test(rebalance_leaves_alone_what_it_is_not_for),
        cmocka_unit_test(rebalance_can_be_switched_off),
        cmocka_unit_test(rebalance_is_given_up_when_a_worker_is_lost),
        cmocka_unit_test(rebalance_answers_a_user_at_once),
        cmocka_unit_test(rebalance_answers_a_user_also_when_nothing_moves),
        cmocka_unit_test(rebalance_survives_a_restart_of_the_operator),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
