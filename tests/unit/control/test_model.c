/* A job whose model's own files have its sizes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "world.h"

#define JOB(model)                                                                                 \
    "{\"model\":{" model "\"from\":{\"persistentVolumeClaim\":{\"claimName\":\"models\","          \
    "\"path\":\"bert\"}}},\"data\":{\"source\":{\"sample\":\"MNLI\"}},"                            \
    "\"placement\":{\"maxStages\":3}}"

static const struct model tiny = {
    .vocab = 99, .hidden = 64, .layers = 3, .heads = 4, .ffn = 128, .positions = 256};

static const struct condition *placed(const struct world *w)
{
    return &w->seen.status.conditions[CONDITION_PLACED];
}

static void assert_waits(const struct world *w, const char *reason, const char *text)
{
    assert_int_equal(placed(w)->value, CONDITION_FALSE);
    assert_string_equal(placed(w)->reason, reason);
    if (!strstr(placed(w)->message, text))
        fail_msg("said \"%s\"", placed(w)->message);
    assert_string_equal(w->seen.status.message, placed(w)->message);
    assert_false(w->seen.has_plan);
}

/* A world whose reader has been created. */
static struct world *world_that_reads(const char *spec)
{
    struct world *w = world_new(spec);

    (void)world_settle(w);
    assert_non_null(world_reader(w));
    return w;
}

/* The claim has just been looked at again. */
static void later(struct world *w, int64_t ms)
{
    w->seen.now_ms += ms;
    w->seen.data_checked_ms = w->seen.now_ms;
}

static void end_reader(struct world *w, const struct model *sizes)
{
    struct seen_pod *p = world_reader(w);

    p->phase = POD_SUCCEEDED;
    p->has_exit_code = true;
    p->has_model = true;
    p->model = *sizes;
}

static void fail_reader(struct world *w, const char *message)
{
    struct seen_pod *p = world_reader(w);

    p->phase = POD_FAILED;
    p->has_exit_code = true;
    p->exit_code = 2;
    (void)snprintf(p->reason, sizeof p->reason, "Error");
    (void)snprintf(p->message, sizeof p->message, "%s", message);
}

static void model_is_read_before_anything_is_planned(void **state)
{
    struct world *w = world_that_reads(JOB(""));

    (void)state;
    assert_waits(w, "ReadingModel", "model in PersistentVolumeClaim \"models\"");
    assert_int_equal(w->seen.n_pods, 1);
    world_free(w);
}

static void model_read_is_what_the_plan_is_made_for(void **state)
{
    struct world *w = world_that_reads(JOB("\"layers\":3,"));

    (void)state;
    end_reader(w, &tiny);
    (void)world_settle(w);
    assert_true(w->seen.has_plan);
    assert_memory_equal(&w->seen.status.model, &tiny, sizeof tiny);
    assert_int_equal(w->seen.plan.spec.model.hidden, 64);
    assert_int_equal(w->seen.plan.spec.model.vocab, 99);
    assert_null(world_reader(w));
    world_free(w);
}

static void model_in_the_status_is_not_read_again(void **state)
{
    struct world *w = world_that_reads(JOB(""));

    (void)state;
    end_reader(w, &tiny);
    world_round(w);
    world_remove_pod(w, world_reader(w)); /* while no operator ran */
    later(w, 100000);
    world_decide(w);
    assert_int_equal(world_count(w, ACTION_CREATE_MODEL_POD), 0);
    assert_int_equal(world_count(w, ACTION_CREATE_PLAN), 1);
    world_free(w);
}

static void model_with_sizes_in_the_spec_is_not_read(void **state)
{
    struct world *w = world_new(JOB("\"preset\":\"BertMini\","));

    (void)state;
    (void)world_settle(w);
    assert_true(w->seen.has_plan);
    assert_null(world_reader(w));
    world_free(w);
}

static void model_of_other_sizes_than_the_spec_gives_is_refused(void **state)
{
    struct world *w = world_that_reads(JOB("\"layers\":4,\"vocabSize\":100,"));
    const struct condition *c = &w->seen.status.conditions[CONDITION_ACCEPTED];

    (void)state;
    end_reader(w, &tiny);
    (void)world_settle(w);
    assert_int_equal(c->value, CONDITION_FALSE);
    assert_string_equal(c->reason, "InvalidSpec");
    assert_string_equal(c->message, "config.json of spec.model.from: another size: set "
                                    "spec.model.vocabSize to 99 (is 100), spec.model.layers to 3 "
                                    "(is 4)");
    assert_false(w->seen.has_plan);
    world_free(w);
}

static void model_too_small_for_the_rest_of_the_spec_is_refused(void **state)
{
    struct world *w = world_that_reads(JOB(""));
    struct model shorter = tiny;

    (void)state;
    shorter.positions = 64;
    end_reader(w, &shorter);
    (void)world_settle(w);
    assert_string_equal(w->seen.status.conditions[CONDITION_ACCEPTED].message,
                        "spec.training.maxSequenceLength: 128 is above spec.model.maxPositions, "
                        "64");
    world_free(w);
}

static void model_that_cannot_be_read_is_reported_and_read_again(void **state)
{
    struct world *w = world_that_reads(JOB(""));

    (void)state;
    fail_reader(w, "/model: neither config.json nor bert_config.json");
    world_round(w);
    assert_waits(w, "ModelNotRead",
                 "Claim \"models\", folder \"bert\": /model: neither config.json nor "
                 "bert_config.json. Correct that, or create the job with");
    assert_true(world_has_event(w, "ModelNotRead"));
    (void)world_settle(w);
    assert_true(w->decision.requeue_ms > 0 && w->decision.requeue_ms <= 60000);
    later(w, 60000);
    world_round(w);
    assert_null(world_reader(w));
    (void)world_settle(w);
    assert_int_equal(world_reader(w)->phase, POD_PENDING);
    end_reader(w, &tiny);
    (void)world_settle(w);
    assert_true(w->seen.has_plan);
    world_free(w);
}

static void model_is_read_anew_for_a_spec_that_was_edited(void **state)
{
    struct world *w = world_that_reads(JOB(""));

    (void)state;
    fail_reader(w, "no");
    (void)world_settle(w);
    w->seen.generation++;
    (void)world_settle(w);
    assert_int_equal(world_reader(w)->phase, POD_PENDING);
    end_reader(w, &tiny);
    world_round(w);
    w->seen.generation++;
    world_observe_spec(w);
    world_round(w);
    assert_int_equal(w->seen.status.model.hidden, 0);
    assert_null(world_reader(w));
    world_free(w);
}

static void model_whose_image_cannot_be_pulled_is_reported(void **state)
{
    struct world *w = world_that_reads(JOB(""));
    struct seen_pod *p = world_reader(w);

    (void)state;
    (void)snprintf(p->node, sizeof p->node, "node-1");
    (void)snprintf(p->reason, sizeof p->reason, "ErrImagePull");
    world_round(w);
    assert_waits(w, "ImagePullFailed", "Node node-1 cannot pull the workers' image");
    world_free(w);
}

static void model_of_another_image_is_read_with_that(void **state)
{
    struct world *w = world_that_reads(JOB(""));

    (void)state;
    (void)snprintf(w->seen.settings.worker_image, sizeof w->seen.settings.worker_image, "b:2");
    world_round(w);
    assert_null(world_reader(w));
    world_round(w);
    assert_non_null(world_reader(w));
    world_free(w);
}

static void model_whose_volume_does_not_mount_is_reported(void **state)
{
    struct world *w = world_that_reads(JOB(""));
    struct seen_pod *p = world_reader(w);

    (void)state;
    (void)snprintf(p->node, sizeof p->node, "node-1");
    (void)snprintf(p->reason, sizeof p->reason, "ContainerCreating");
    later(w, DECIDE_EVENTS_MS);
    world_round(w);
    assert_int_equal(world_count(w, ACTION_READ_EVENTS), 1);
    (void)snprintf(p->message, sizeof p->message, "FailedMount: no such volume");
    world_round(w);
    assert_waits(w, "ReadingModel",
                 "Pod mnli-model cannot start: ContainerCreating: FailedMount: no such volume");
    later(w, DECIDE_START_MS);
    world_round(w);
    assert_waits(w, "ModelNotRead",
                 "the pod that reads it did not start (ContainerCreating): FailedMount: no such "
                 "volume");
    assert_null(world_reader(w)); /* its node is released for a while */
    assert_true(w->seen.status.next_attempt_ms > w->seen.now_ms);
    world_free(w);
}

static void model_of_a_pod_that_only_claims_to_be_ours_is_not_believed(void **state)
{
    static const enum pod_role roles[] = {POD_CLAIMED, POD_TAKEN};

    (void)state;
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        struct world *w = world_that_reads(JOB(""));

        end_reader(w, &tiny);
        world_reader(w)->role = roles[i];
        world_round(w);
        assert_int_equal(w->seen.status.model.hidden, 0);
        assert_int_equal(world_count(w, ACTION_CREATE_MODEL_POD), roles[i] == POD_CLAIMED);
        if (roles[i] == POD_TAKEN)
            assert_waits(w, "ModelNotRead",
                         "pod mnli-model exists already and was not created by the operator");
        world_free(w);
    }
}

static void model_that_is_not_read_in_time_is_reported(void **state)
{
    struct world *w = world_that_reads(JOB(""));

    (void)state;
    world_reader(w)->phase = POD_RUNNING;
    world_round(w);
    assert_waits(w, "ReadingModel", "Reading");
    assert_true(w->decision.requeue_ms >= 0);
    later(w, 200000);
    world_round(w);
    assert_waits(w, "ModelNotRead", "the pod that reads it does not end");
    world_free(w);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(model_is_read_before_anything_is_planned),
        cmocka_unit_test(model_read_is_what_the_plan_is_made_for),
        cmocka_unit_test(model_in_the_status_is_not_read_again),
        cmocka_unit_test(model_with_sizes_in_the_spec_is_not_read),
        cmocka_unit_test(model_of_other_sizes_than_the_spec_gives_is_refused),
        cmocka_unit_test(model_too_small_for_the_rest_of_the_spec_is_refused),
        cmocka_unit_test(model_that_cannot_be_read_is_reported_and_read_again),
        cmocka_unit_test(model_is_read_anew_for_a_spec_that_was_edited),
        cmocka_unit_test(model_whose_image_cannot_be_pulled_is_reported),
        cmocka_unit_test(model_of_another_image_is_read_with_that),
        cmocka_unit_test(model_whose_volume_does_not_mount_is_reported),
        cmocka_unit_test(model_of_a_pod_that_only_claims_to_be_ours_is_not_believed),
        cmocka_unit_test(model_that_is_not_read_in_time_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
