/* Which pods of a queued job are in its group. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "world.h"

#define SPEC(more)                                                                                 \
    "{\"model\": {\"preset\": \"BertMini\"}, \"data\": {\"source\": {\"sample\": \"MNLI\"}},"      \
    " \"placement\": {\"minStages\": 2, \"maxStages\": 2}" more "}"
#define QUEUED SPEC(", \"worker\": {\"labels\": {\"kueue.x-k8s.io/queue-name\": \"nlp\"}}")

/* Of the pods in the list: "w0:g1/2 w1:- ", slot, group and its size. */
static const char *groups(const struct world *w)
{
    static char text[200];
    int n = 0;

    text[0] = '\0';
    for (int i = 0; i < w->seen.n_pods; i++)
        n += snprintf(text + n, sizeof text - (size_t)n,
                      w->seen.pods[i].group > 0 ? "w%d:g%d/%d " : "w%d:- ", w->seen.pods[i].slot,
                      w->seen.pods[i].group, w->seen.pods[i].group_size);
    return text;
}

static struct world *train(const char *spec)
{
    struct world *w = world_new(spec);

    world_make_alike(w);
    world_train_on(w);
    (void)world_settle(w);
    return w;
}

static void job_without_a_queue_has_no_group(void **state)
{
    struct world *w = train(SPEC(""));

    (void)state;
    assert_string_equal(groups(w), "w0:- w1:- ");
    world_free(w);
}

static void workers_of_a_queued_job_are_one_group(void **state)
{
    struct world *w = train(QUEUED);

    (void)state;
    assert_string_equal(groups(w), "w0:g1/2 w1:g1/2 ");
    world_free(w);
}

static void pod_that_replaces_one_that_is_gone_joins_its_group(void **state)
{
    struct world *w = train(QUEUED);

    (void)state;
    world_remove_pod(w, world_pod(w, 1));
    (void)world_settle(w);
    w->seen.now_ms += 10000;
    (void)world_settle(w);
    assert_string_equal(groups(w), "w0:g1/2 w1:g1/2 ");
    assert_int_equal(world_pod(w, 1)->incarnation, 2);
    world_free(w);
}

/* Its process runs on for a while, and Kueue would delete one more. */
static void pod_that_replaces_one_that_leaves_is_queued_by_itself(void **state)
{
    struct world *w = train(QUEUED);
    struct seen_pod *p = world_pod(w, 1);

    (void)state;
    p->is_deleting = p->is_disrupted = true;
    p->grace_ms = 60000;
    p->deleting_ms = 1;
    (void)world_settle(w);
    assert_string_equal(groups(w), "w0:g1/2 w1:g1/2 w65:- ");
    world_free(w);
}

static void job_that_has_lost_all_pods_starts_with_a_new_group(void **state)
{
    struct world *w = train(QUEUED);

    (void)state;
    while (w->seen.n_pods > 0)
        world_remove_pod(w, &w->seen.pods[0]);
    for (int i = 0; i < 3; i++) {
        (void)world_settle(w);
        w->seen.now_ms += 10000;
    }
    assert_string_equal(groups(w), "w0:g2/2 w1:g2/2 ");
    world_free(w);
}

/* As they come back from the API server. */
static void gate(struct world *w)
{
    for (int i = 0; i < w->seen.n_pods; i++) {
        w->seen.pods[i].is_gated = true;
        w->seen.pods[i].node[0] = '\0';
        (void)snprintf(w->seen.pods[i].message, OBSERVED_TEXT_BYTES, "kueue.x-k8s.io/admission");
    }
}

/* It may be in its queue for days. */
static void job_waits_for_gated_pods_without_an_end(void **state)
{
    struct world *w = world_new(QUEUED);
    const struct condition *running = &w->seen.status.conditions[CONDITION_RUNNING];

    (void)state;
    (void)world_settle(w);
    gate(w);
    w->seen.now_ms += INT64_C(3) * 86400 * 1000;
    (void)world_settle(w);
    assert_string_equal(w->seen.status.state, "Queued");
    assert_string_equal(running->reason, "Queued");
    assert_string_equal(running->message, "Pod mnli-0b7d-w0-1 waits until its scheduling gate "
                                          "kueue.x-k8s.io/admission is removed.");
    assert_int_equal(w->seen.n_pods, 2);
    assert_int_equal(w->seen.status.revision, 1);
    world_free(w);
}

/* Its pods never run, and Kueue waits for others in their place. */
static void job_that_is_deleted_in_its_queue_has_its_group_deleted(void **state)
{
    struct world *w = world_new(QUEUED);

    (void)state;
    (void)world_settle(w);
    gate(w);
    w->seen.is_deleting = true;
    world_decide(w);
    assert_int_equal(world_count(w, ACTION_DELETE_GROUP), 0);
    assert_int_equal(world_count(w, ACTION_DELETE_POD), 2);
    for (int i = 0; i < w->seen.n_pods; i++)
        w->seen.pods[i].is_deleting = true;
    world_decide(w);
    assert_int_equal(world_count(w, ACTION_DELETE_GROUP), 1);
    assert_int_equal(world_find(w, ACTION_DELETE_GROUP)->group, 1);
    world_free(w);
}

/* Kueue would end all of its pods. */
static void group_with_a_pod_that_runs_is_not_deleted(void **state)
{
    struct world *w = train(QUEUED);
    struct seen_pod *p = world_pod(w, 1);

    (void)state;
    p->is_deleting = true;
    p->node[0] = '\0';
    world_decide(w);
    assert_int_equal(world_count(w, ACTION_DELETE_GROUP), 0);
    p->group = 7; /* an older one */
    world_decide(w);
    assert_int_equal(world_find(w, ACTION_DELETE_GROUP)->group, 7);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(job_without_a_queue_has_no_group),
        cmocka_unit_test(workers_of_a_queued_job_are_one_group),
        cmocka_unit_test(pod_that_replaces_one_that_is_gone_joins_its_group),
        cmocka_unit_test(pod_that_replaces_one_that_leaves_is_queued_by_itself),
        cmocka_unit_test(job_that_has_lost_all_pods_starts_with_a_new_group),
        cmocka_unit_test(job_waits_for_gated_pods_without_an_end),
        cmocka_unit_test(job_that_is_deleted_in_its_queue_has_its_group_deleted),
        cmocka_unit_test(group_with_a_pod_that_runs_is_not_deleted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
