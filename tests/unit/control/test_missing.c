/* A job of replicas that loses a node for which there is no other: it goes on with fewer replicas,
 * and has all again when the node is back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "world.h"

#define HOLD_MS 31000

static const char two_replicas[] =
    "{\"model\":{\"preset\":\"BertMini\"},\"data\":{\"source\":{\"sample\":\"MNLI\"}},"
    "\"replicas\":2,\"placement\":{\"minStages\":1,\"maxStages\":1}}";

static const struct plan *plan_of(const struct world *w)
{
    return &w->seen.revision.plan;
}

static struct node_object *node_of(struct world *w, int stage)
{
    int i = 0;

    while (strcmp(w->nodes[i].name, plan_of(w)->workers[stage].node) != 0)
        i++;
    return &w->nodes[i];
}

/* Two replicas that train, each on a node, and a third node that is closed. */
static struct world *train(void)
{
    struct world *w = world_new(two_replicas);

    world_make_alike(w);
    w->nodes[2].excluded = EXCLUDED_CORDONED;
    world_start_training(w);
    assert_int_equal(plan_n_replicas(plan_of(w)), 2);
    return w;
}

/* Its pod is gone, too. Returns the node. */
static struct node_object *lose_node(struct world *w, int stage)
{
    struct node_object *node = node_of(w, stage);

    node->excluded = EXCLUDED_NOT_READY;
    world_remove_pod(w, world_pod(w, stage));
    return node;
}

static void missing_replica_is_done_without(void **state)
{
    struct world *w = train();
    int slot = plan_of(w)->workers[0].slot;

    (void)state;
    (void)lose_node(w, 1);
    world_train_on(w);
    assert_int_equal(plan_of(w)->revision, 2);
    assert_int_equal(plan_n_replicas(plan_of(w)), 1);
    assert_int_equal(plan_of(w)->spec.replicas, 2);
    assert_int_equal(plan_of(w)->workers[0].slot, slot);
    assert_int_equal(plan_of(w)->workers[0].incarnation, 1); /* its pod is the same */
    assert_true(status_is(&w->seen.status, CONDITION_RUNNING));
    world_free(w);
}

static void missing_replica_returns_with_its_node(void **state)
{
    struct world *w = train();
    struct node_object *node = lose_node(w, 1);

    (void)state;
    world_train_on(w);
    node->excluded = EXCLUDED_NOT;
    assert_false(decide_is_replica_due(&w->seen)); /* not at once */
    w->seen.now_ms += HOLD_MS;
    assert_true(decide_is_replica_due(&w->seen));
    world_decide(w);
    assert_true(world_has_event(w, "ReplicaReturns"));
    world_train_on(w);
    assert_int_equal(plan_of(w)->revision, 3);
    assert_int_equal(plan_n_replicas(plan_of(w)), 2);
    assert_int_equal(plan_of(w)->workers[0].incarnation, 1);
    assert_int_equal(plan_of(w)->workers[1].incarnation, 3);
    assert_int_equal(w->seen.status.restarts, 0);
    assert_true(status_is(&w->seen.status, CONDITION_RUNNING));
    world_free(w);
}

static void missing_replica_is_looked_for_now_and_then(void **state)
{
    struct world *w = train();

    (void)state;
    (void)lose_node(w, 1);
    world_train_on(w);
    for (int i = 0; i < 3; i++) {
        w->seen.now_ms += HOLD_MS;
        assert_true(decide_is_replica_due(&w->seen));
        (void)world_settle(w);
        assert_false(decide_is_replica_due(&w->seen));
    }
    assert_int_equal(plan_of(w)->revision, 2);
    world_free(w);
}

/* Another node takes its place at once, and nothing is missing. */
static void missing_replica_is_none_where_another_node_has_room(void **state)
{
    struct world *w = train();

    (void)state;
    w->nodes[2].excluded = EXCLUDED_NOT;
    (void)lose_node(w, 1);
    world_train_on(w);
    assert_int_equal(plan_n_replicas(plan_of(w)), 2);
    w->seen.now_ms += HOLD_MS;
    assert_false(decide_is_replica_due(&w->seen));
    world_free(w);
}

/* It has no progress that would have to wait. */
static void missing_nodes_are_waited_for_before_the_first_step(void **state)
{
    struct world *w = world_new(two_replicas);

    (void)state;
    w->nodes[1].excluded = w->nodes[2].excluded = EXCLUDED_CORDONED;
    (void)world_settle(w);
    assert_false(w->seen.has_revision);
    assert_string_equal(w->seen.status.conditions[CONDITION_PLACED].reason, "InsufficientNodes");
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_replica_is_done_without),
        cmocka_unit_test(missing_replica_returns_with_its_node),
        cmocka_unit_test(missing_replica_is_looked_for_now_and_then),
        cmocka_unit_test(missing_replica_is_none_where_another_node_has_room),
        cmocka_unit_test(missing_nodes_are_waited_for_before_the_first_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
