/* spec.sync is changed while replicas train. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "world.h"

#define SPEC(replicas, sync)                                                                       \
    "{\"model\":{\"preset\":\"BertMini\"},\"data\":{\"source\":{\"sample\":\"MNLI\"}},"            \
    "\"replicas\":" replicas ",\"sync\":{" sync                                                    \
    "},\"placement\":{\"minStages\":1,\"maxStages\":1}}"

static const char in_step[] = SPEC("2", "\"protocol\":\"BSP\"");
static const char is_free[] = SPEC("2", "\"protocol\":\"ASP\",\"maxStaleness\":5");
static const char is_open[] = SPEC("2", "\"protocol\":\"Auto\"");
static const char three_free[] = SPEC("3", "\"protocol\":\"ASP\"");

static const struct plan *plan_of(const struct world *w)
{
    return &w->seen.revision.plan;
}

static struct world *train(void)
{
    struct world *w = world_new(in_step);

    world_make_alike(w);
    w->nodes[2].excluded = EXCLUDED_CORDONED;
    world_start_training(w);
    world_train_on(w);
    return w;
}

static void protocol_changes_there_and_back_with_the_same_pods(void **state)
{
    struct world *w = train();
    struct plan before = *plan_of(w);

    (void)state;
    world_set_spec(w, is_free);
    world_decide(w);
    assert_true(world_has_event(w, "SyncChanged"));
    world_train_on(w);
    assert_int_equal(plan_of(w)->revision, 2);
    assert_int_equal(plan_of(w)->spec.sync.protocol,
                     SPEC_PROTOCOL_ASP); /* as the document has it */
    assert_int_equal(plan_of(w)->spec.sync.max_staleness, 5);
    assert_true(plan_of(w)->homes_follow_shares);
    assert_true(status_is(&w->seen.status, CONDITION_UP_TO_DATE));
    world_set_spec(w, in_step);
    world_train_on(w);
    assert_int_equal(plan_of(w)->revision, 3);
    assert_int_equal(plan_of(w)->spec.sync.protocol, SPEC_PROTOCOL_BSP);
    assert_int_equal(plan_of(w)->spec.sync.max_staleness, 0);
    for (int s = 0; s < 2; s++) {
        assert_int_equal(plan_of(w)->workers[s].slot, before.workers[s].slot);
        assert_int_equal(plan_of(w)->workers[s].incarnation, 1);
        assert_int_equal(plan_of(w)->shares[s], before.shares[s]);
    }
    assert_int_equal(w->seen.n_pods, 2);
    assert_int_equal(w->seen.status.restarts, 0);
    assert_true(status_is(&w->seen.status, CONDITION_RUNNING));
    world_free(w);
}

/* They would go back to a checkpoint of long ago. */
static void protocol_of_replicas_out_of_step_waits_for_a_checkpoint(void **state)
{
    struct world *w = train();

    (void)state;
    (void)snprintf(w->seen.leader.sync.protocol, sizeof w->seen.leader.sync.protocol, "Local");
    w->seen.leader.step = 1000;
    w->seen.leader.step_ms = 100;
    world_set_spec(w, is_free);
    (void)world_settle(w);
    assert_int_equal(plan_of(w)->revision, 1);
    assert_false(status_is(&w->seen.status, CONDITION_UP_TO_DATE));
    w->seen.leader.saved.step = 900;
    world_decide(w);
    assert_true(world_has_event(w, "SyncChanged"));
    world_train_on(w);
    assert_int_equal(plan_of(w)->revision, 2);
    world_free(w);
}

static void assert_waits(struct world *w, const char *spec)
{
    world_set_spec(w, spec);
    world_train_on(w);
    assert_int_equal(plan_of(w)->revision, 1);
    assert_int_equal(plan_of(w)->spec.sync.protocol, SPEC_PROTOCOL_BSP);
    assert_false(status_is(&w->seen.status, CONDITION_UP_TO_DATE));
    world_free(w);
}

static void protocol_waits_for_the_next_plan_where_only_that_can_choose(void **state)
{
    (void)state;
    assert_waits(train(), is_open);
    assert_waits(train(), three_free);
}

static void protocol_waits_for_larger_pods(void **state)
{
    struct world *w = train();

    (void)state;
    for (int s = 0; s < 2; s++)
        w->seen.revision.plan.workers[s].memory_bytes /= 2;
    assert_waits(w, is_free);
}

static void protocol_is_that_of_the_next_revision_whatever_it_is_for(void **state)
{
    struct world *w = train();

    (void)state;
    world_remove_pod(w, world_pod(w, 1));
    world_set_spec(w, is_free);
    (void)world_settle(w);
    world_run_pods(w);
    world_train_on(w);
    assert_int_equal(plan_of(w)->revision, 2);
    assert_int_equal(plan_of(w)->spec.sync.protocol, SPEC_PROTOCOL_ASP);
    assert_true(status_is(&w->seen.status, CONDITION_RUNNING));
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(protocol_changes_there_and_back_with_the_same_pods),
        cmocka_unit_test(protocol_waits_for_the_next_plan_where_only_that_can_choose),
        cmocka_unit_test(protocol_waits_for_larger_pods),
        cmocka_unit_test(protocol_of_replicas_out_of_step_waits_for_a_checkpoint),
        cmocka_unit_test(protocol_is_that_of_the_next_revision_whatever_it_is_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
