/* What is known of nodes, when it is measured anew, and what is made of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "row.h"

/* What an earlier job's probe left on node-0, whose speed nobody declares. */
static struct annotation_probe *measure_before(struct world *w)
{
    struct node_object *n = &w->nodes[0];
    struct annotation_probe *p = &n->annotations.probe;
    struct spec spec;

    assert_int_equal(spec_parse(w->spec_json, &spec, NULL), ERR_OK);
    n->annotations.gflops = 0;
    n->annotations.has_probe = true;
    *p = (struct annotation_probe){.found = {.gflops = 5, .threads = 1}, .cpu_milli = 500};
    p->subject.cpu_milli = n->cpu_milli;
    p->subject.memory_bytes = n->memory_bytes;
    p->time_ms = w->seen.now_ms - 1000;
    (void)snprintf(p->subject.image, sizeof p->subject.image, "worker:1");
    (void)snprintf(p->subject.digest, sizeof p->subject.digest, "sha256:1");
    annotation_work(&spec, w->seen.namespace, p->subject.work);
    return p;
}

static void measured(struct world *w)
{
    (void)measure_before(w);
    world_round(w); /* the attempt is written down */
}

static void measured_for_other_data(struct world *w)
{
    (void)snprintf(measure_before(w)->subject.work, ANNOTATION_WORK_BYTES, "0123456789abcdef");
}

static void measured_with_other_cpu(struct world *w)
{
    measure_before(w)->subject.cpu_milli++;
}

static void measured_with_other_memory(struct world *w)
{
    measure_before(w)->subject.memory_bytes++;
}

static void measured_with_another_image(struct world *w)
{
    (void)snprintf(measure_before(w)->subject.image, SPEC_IMAGE_BYTES, "worker:2");
}

static void measured_on_another_processor(struct world *w)
{
    (void)snprintf(measure_before(w)->subject.cpu, NODE_TEXT_BYTES, "Intel-6-85");
    (void)snprintf(w->nodes[0].annotations.cpu, NODE_TEXT_BYTES, "AMD-25-1");
}

static void contradicted(struct world *w)
{
    measure_before(w)->is_contradicted = true;
}

static void measured_long_ago(struct world *w)
{
    measure_before(w)->time_ms = w->seen.now_ms - ANNOTATION_FRESH_MS - 1;
}

static void measured_long_ago_and_written(struct world *w)
{
    measured_long_ago(w);
    world_round(w);
}

static void measured_in_the_future(struct world *w)
{
    measure_before(w)->time_ms = w->seen.now_ms + ANNOTATION_FRESH_MS;
}

/* A probe on another node finds that the image's name stands for something else by now. */
static void measured_with_another_digest(struct world *w)
{
    (void)measure_before(w);
    w->nodes[1].annotations.gflops = 0;
    (void)world_settle(w);
    assert_int_equal(w->seen.n_pods, 1);
    (void)snprintf(w->seen.pods[0].digest, ANNOTATION_DIGEST_BYTES, "sha256:2");
}

static void measured_with_that_digest_too(struct world *w)
{
    measured_with_another_digest(w);
    w->seen.pods[w->seen.n_pods] = w->seen.pods[0];
    (void)snprintf(w->seen.pods[w->seen.n_pods++].digest, ANNOTATION_DIGEST_BYTES, "sha256:1");
}

static void never_measured(struct world *w)
{
    w->nodes[0].annotations.gflops = 0;
    world_round(w);
}

/* Another pod has the name of the probe that would measure node-0. */
static void name_of_a_probe_taken(struct world *w)
{
    never_measured(w);
    (void)world_settle(w);
    world_probe(w, "node-0")->role = POD_TAKEN;
}

static void never_known(struct world *w)
{
    for (int i = 0; i < WORLD_NODES; i++)
        w->nodes[i].annotations.gflops = 0;
    world_round(w);
}

static void bad_annotation(struct world *w)
{
    (void)snprintf(w->nodes[0].annotations.bad, ANNOTATION_BAD_BYTES,
                   "skyjob.dev/gflops: \"inf\" is wrong");
    w->nodes[0].annotations.gflops = 0;
}

static void bad_annotation_and_measured(struct world *w)
{
    (void)snprintf(w->nodes[0].annotations.bad, ANNOTATION_BAD_BYTES,
                   "skyjob.dev/gflops: \"inf\" is wrong");
    measured(w);
}

static void all_probes_done(struct world *w)
{
    for (int i = 0; i < WORLD_NODES; i++)
        w->nodes[i].annotations.gflops = 0;
    (void)world_settle(w);
    for (int i = 0; i < WORLD_NODES; i++) {
        struct seen_pod *p = world_probe(w, w->nodes[i].name);

        p->phase = POD_SUCCEEDED;
        p->has_probe = true;
        p->finished_ms = w->seen.now_ms;
        p->probe = (struct node_probe){.gflops = 10, .unit_ms = 0.1, .threads = 1};
    }
}

static void declared_all(struct world *w)
{
    world_round(w);
    w->seen.n_pods = 0;
}

static void without_bf16(struct world *w)
{
    never_known(w);
    w->seen.n_pods = 0;
    w->nodes[0].annotations.has_bf16 = NODE_NO; /* as NFD says */
    w->nodes[1].annotations.has_bf16 = NODE_YES;
}

static void only_without_bf16(struct world *w)
{
    for (int i = 0; i < WORLD_NODES; i++)
        w->nodes[i].annotations.has_bf16 = NODE_NO;
    world_round(w);
}

/* A probe that ran there knows better than NFD, in either direction. */
static void probes_tell_of_bf16(struct world *w)
{
    all_probes_done(w);
    for (int i = 0; i < WORLD_NODES; i++) {
        w->nodes[i].annotations.has_bf16 = i == 0 ? NODE_NO : NODE_YES;
        world_probe(w, w->nodes[i].name)->probe.has_bf16 = i == 0 ? NODE_YES : NODE_NO;
    }
}

#define WITH(more)                                                                                 \
    "{\"model\":{\"preset\":\"BertTiny\"},\"data\":{\"source\":{\"sample\":\"MNLI\"}}," more "}"
#define ALWAYS WITH("\"placement\":{\"probePolicy\":\"Always\"}")
#define NEVER  WITH("\"placement\":{\"probePolicy\":\"Never\"}")
#define BF16   WITH("\"training\":{\"precision\":\"BF16\"}")
/* So many more nodes are measured; or none, and there is a plan. */
#define PROBES(id, how, n, ...)                                                                    \
    ROW(id, how, PLACED, F, "MeasuringNodes", COUNT(ACTION_CREATE_PROBE_POD, n), __VA_ARGS__)
#define PLANS(id, how, ...)                                                                        \
    ROW(id, how, PLACED, F, "NotPlaced", COUNT(ACTION_CREATE_PLAN, 1), __VA_ARGS__)

static struct row rows[] = {
    PLANS("nodes_measured_before_are_not_measured_again", measured, .spec = NULL),
    PROBES("nodes_are_measured_again_for_other_shapes_or_data", measured_for_other_data, 1,
           .spec = NULL),
    PROBES("nodes_are_measured_again_with_other_cpu", measured_with_other_cpu, 1, .spec = NULL),
    PROBES("nodes_are_measured_again_with_other_memory", measured_with_other_memory, 1,
           .spec = NULL),
    PROBES("nodes_are_measured_again_for_another_image", measured_with_another_image, 1,
           .spec = NULL),
    PROBES("nodes_are_measured_again_on_another_processor", measured_on_another_processor, 1,
           .spec = NULL),
    PROBES("nodes_are_measured_again_when_training_contradicts", contradicted, 1, .spec = NULL),
    PROBES("nodes_are_measured_again_after_a_month", measured_long_ago, 1, .spec = NULL),
    PROBES("nodes_measured_at_a_time_to_come_are_measured_again", measured_in_the_future, 1,
           .spec = NULL),
    PROBES("nodes_are_measured_again_for_another_digest", measured_with_another_digest, 1,
           .spec = NULL),
    PROBES("nodes_keep_what_was_measured_with_one_of_several_digests",
           measured_with_that_digest_too, 0, .spec = NULL),
    PROBES("nodes_report_an_invalid_annotation_while_measuring", bad_annotation, 1,
           .message =
               "Invalid annotation on node node-0: skyjob.dev/gflops: \"inf\" is wrong; it is "
               "ignored."),
    PLANS("nodes_report_an_invalid_annotation_in_an_event", bad_annotation_and_measured,
          .event = "InvalidNodeAnnotation"),
    ROW("nodes_whose_probe_finds_its_name_taken_are_excluded", name_of_a_probe_taken, PLACED, F,
        "MeasuringNodes", .event = "NodeNotMeasured"),
    ROW("nodes_are_all_measured_with_probe_always", declared_all, PLACED, F, "MeasuringNodes",
        COUNT(ACTION_CREATE_PROBE_POD, 3), .spec = ALWAYS),
    ROW("nodes_measured_for_another_job_are_measured_with_probe_always", measured, PLACED, F,
        "MeasuringNodes", .state = "Measuring", .spec = ALWAYS),
    PLANS("nodes_are_never_measured_with_probe_never", never_known, .spec = NEVER),
    PLANS("nodes_measured_long_ago_will_do_with_probe_never", measured_long_ago_and_written,
          .spec = NEVER),
    PROBES("nodes_that_nfd_denies_bf16_are_not_measured_for_it", without_bf16, 2, .spec = BF16),
    ROW("nodes_without_bf16_are_excluded_with_the_reason", only_without_bf16, PLACED, F,
        "InsufficientNodes", .spec = BF16,
        .message = "3 without BF16 support, which spec.training.precision asks for"),
};

static void nodes_believe_a_probe_more_than_nfd_about_bf16(void **state)
{
    struct world *w = world_new(BF16);

    (void)state;
    probes_tell_of_bf16(w);
    (void)world_settle(w);
    assert_true(w->seen.has_plan);
    assert_int_equal(w->seen.plan.n_stages, 1);
    assert_string_equal(w->seen.plan.stages[0].node, "node-0");
    world_free(w);
}

static void nodes_are_measured_once_a_job_with_probe_always(void **state)
{
    struct world *w = world_new(ALWAYS);

    (void)state;
    w->seen.created_ms = w->seen.now_ms;
    all_probes_done(w);
    (void)world_settle(w);
    w->seen.n_pods = w->seen.n_plans = 0; /* the plan is lost, and its probes are long gone */
    w->seen.has_plan = false;
    (void)world_settle(w);
    assert_true(w->seen.has_plan);
    assert_null(world_probe(w, "node-0"));
    world_free(w);
}

static void nodes_count_what_was_measured_more_than_declared_with_probe_always(void **state)
{
    struct world *w = world_new(ALWAYS);

    (void)state;
    all_probes_done(w);
    w->nodes[0].annotations.gflops = 1e6;
    world_decide(w);
    assert_non_null(strstr(w->decision.plan.summary.explanation, "at 10 GFLOP/s"));
    world_free(w);
}

static void nodes_assumed_from_their_cpu_are_reported_in_the_plan(void **state)
{
    struct world *w = world_new(NEVER);

    (void)state;
    never_measured(w); /* the others do 20 GFLOP/s with each CPU, so that is what it gets */
    world_decide(w);
    assert_non_null(
        strstr(w->decision.plan.summary.explanation,
               "1 of 3 nodes were never measured (spec.placement.probePolicy is Never)"));
    world_free(w);
}

static void nodes_are_labelled_with_what_they_are_judged_by_next_time(void **state)
{
    struct world *w = world_new(NULL);

    (void)state;
    all_probes_done(w);
    (void)world_settle(w);
    w->seen.n_pods = w->seen.n_plans = 0; /* another job, with the same nodes */
    w->seen.has_plan = false;
    w->seen.status = (struct status){.attempt = 0};
    w->seen.now_ms += ANNOTATION_FRESH_MS / 2;
    (void)world_settle(w);
    assert_true(w->seen.has_plan);
    for (int i = 0; i < WORLD_NODES; i++)
        assert_null(world_probe(w, w->nodes[i].name));
    world_free(w);
}

/* Half a core "faster" than a whole one: one of the two was busy when it was measured. */
static void contradict(struct world *w)
{
    w->nodes[1].annotations.gflops = 0;
    w->nodes[1].annotations.has_probe = true;
    w->nodes[1].annotations.probe = *measure_before(w);
    w->nodes[1].annotations.probe.subject.cpu_milli = w->nodes[1].cpu_milli;
    w->nodes[1].annotations.probe.subject.memory_bytes = w->nodes[1].memory_bytes;
    w->nodes[1].annotations.probe.cpu_milli = 1000;
    w->nodes[1].annotations.probe.found.gflops = 4;
    for (int i = 0; i < 2; i++)
        (void)snprintf(w->nodes[i].annotations.probe.found.cpu_model, NODE_TEXT_BYTES, "EPYC");
}

static void nodes_that_contradict_each_other_are_measured_again_once(void **state)
{
    struct world *w = world_new(NULL);

    (void)state;
    w->seen.created_ms = w->seen.now_ms - 500;
    contradict(w);
    (void)world_settle(w);
    assert_int_equal(w->seen.n_pods, 2);
    assert_false(w->seen.has_plan);
    world_free(w);
}

/* Measured for this job already: the plan carries a remark. */
static void nodes_that_contradict_each_other_after_that_are_used(void **state)
{
    struct world *w = world_new(NULL);

    (void)state;
    w->seen.created_ms = w->seen.now_ms - 5000; /* before measure_before() */
    contradict(w);
    (void)world_settle(w);
    assert_true(w->seen.has_plan);
    assert_non_null(
        strstr(w->seen.plan.summary.explanation, "the one with less CPU was measured faster"));
    world_free(w);
}

/* The plan gives a stage what a worker can use, and counts on no more speed than that. */
static void nodes_of_128_cores_are_used_with_as_many_as_are_useful(void **state)
{
    struct world *w = world_new(WITH("\"placement\":{\"maxStages\":1}"));

    (void)state;
    w->nodes[0].cpu_milli = 128000;
    w->nodes[0].cpu_used_milli = 10000;
    w->nodes[0].annotations.gflops = 1000;
    w->nodes[0].memory_bytes = (int64_t)8 << 30;
    (void)world_settle(w);
    assert_true(w->seen.has_plan);
    assert_string_equal(w->seen.plan.stages[0].node, w->nodes[0].name);
    assert_int_equal(w->seen.plan.stages[0].cpu_milli, NODE_CPU_USEFUL_MILLI);
    world_free(w);
}

static void nodes_of_128_cores_are_measured_with_as_many_as_are_useful(void **state)
{
    struct world *w = world_new(NULL);

    (void)state;
    w->nodes[0].cpu_milli = 128000;
    w->nodes[0].annotations.gflops = 0;
    (void)world_settle(w);
    assert_int_equal(w->seen.n_pods, 1);
    assert_int_equal(w->seen.pods[0].cpu_milli, NODE_CPU_USEFUL_MILLI);
    world_free(w);
}

static void nodes_are_given_back_by_probes_that_cannot_start(void **state)
{
    struct world *w = world_new(NULL);

    (void)state;
    for (int i = 0; i < WORLD_NODES; i++)
        w->nodes[i].annotations.gflops = 0;
    (void)world_settle(w);
    assert_int_equal(w->seen.n_pods, WORLD_NODES);
    for (int i = 0; i < WORLD_NODES; i++)
        (void)snprintf(w->seen.pods[i].reason, OBSERVED_WORD_BYTES, "ErrImagePull");
    w->seen.now_ms += DECIDE_START_MS + 1;
    (void)world_settle(w);
    assert_int_equal(w->seen.n_pods, 0);
    assert_string_equal(w->seen.status.conditions[CONDITION_PLACED].reason, "InsufficientNodes");
    assert_non_null(strstr(w->seen.status.message, "its probe did not start (ErrImagePull)"));
    assert_in_range(w->seen.status.next_attempt_ms - w->seen.now_ms, DECIDE_BACKOFF_MS,
                    DECIDE_BACKOFF_MS + 999);
    w->seen.now_ms = w->seen.status.next_attempt_ms;
    (void)world_settle(w);
    assert_int_equal(w->seen.n_pods, WORLD_NODES);
    world_free(w);
}

/* Three alike, of which two have a slow network: no message goes there. */
static void nodes_behind_slow_links_are_excluded(void **state)
{
    struct world *w = world_new(WITH("\"placement\":{\"maxStages\":2}"));

    (void)state;
    for (int i = 0; i < WORLD_NODES; i++) {
        w->nodes[i].cpu_milli = 1000;
        w->nodes[i].annotations.gflops = 1;
        w->nodes[i].annotations.link_bytes_per_s = i == 1 ? 1e6 : 1e10;
    }
    (void)world_settle(w);
    assert_int_equal(w->seen.plan.n_stages, 2);
    for (int s = 0; s < 2; s++)
        assert_string_not_equal(w->seen.plan.stages[s].node, "node-1");
    world_free(w);
}

static void nodes_hand_on_how_long_the_data_are(void **state)
{
    struct world *w = world_new(NULL);
    double shorter_ms;

    (void)state;
    measure_before(w)->found.lengths = (struct node_lengths){.mean = 10, .mean_square = 110};
    (void)world_settle(w);
    shorter_ms = w->seen.plan.summary.predicted_step_ms;
    world_free(w);
    w = world_new(NULL);
    measure_before(w)->found.lengths = (struct node_lengths){.mean = 40, .mean_square = 1700};
    (void)world_settle(w);
    assert_true(w->seen.plan.summary.predicted_step_ms > 2 * shorter_ms);
    world_free(w);
}

static void nodes_are_measured_after_a_claim_was_looked_at(void **state)
{
    struct world *w = world_new("{\"model\":{\"preset\":\"BertTiny\"},\"data\":{\"source\":{"
                                "\"persistentVolumeClaim\":{\"claimName\":\"glue\"}}}}");

    (void)state;
    for (int i = 0; i < WORLD_NODES; i++)
        w->nodes[i].annotations.gflops = 0;
    do { /* accept the spec first */
        world_round(w);
        assert_int_equal(world_count(w, ACTION_CREATE_PROBE_POD), 0);
    } while (world_count(w, ACTION_READ_DATA) == 0);
    (void)world_settle(w);
    assert_non_null(world_probe(w, "node-0"));
    world_free(w);
}

static void nodes_that_saw_no_data_leave_lengths_a_guess(void **state)
{
    struct world *w = world_new("{\"model\":{\"preset\":\"BertTiny\"},\"data\":{\"source\":{"
                                "\"persistentVolumeClaim\":{\"claimName\":\"glue\"}}}}");

    (void)state;
    (void)world_settle(w);
    assert_true(w->seen.has_plan);
    assert_non_null(strstr(w->seen.plan.summary.explanation,
                           "Lengths are a guess: sequences are assumed to have 39 tokens"));
    world_free(w);
    w = world_new(NULL); /* the sample's are known */
    (void)world_settle(w);
    assert_null(strstr(w->seen.plan.summary.explanation, "guess"));
    world_free(w);
}

/* An image of the user's own may claim anything; the plan of its own job believes it. */
static void nodes_are_not_labelled_with_what_another_image_has_found(void **state)
{
    struct world *w = world_new(WITH("\"worker\":{\"image\":\"liar:1\"}"));

    (void)state;
    all_probes_done(w);
    (void)world_settle(w);
    assert_true(w->seen.has_plan);
    assert_non_null(strstr(w->seen.plan.summary.explanation, "at 10 GFLOP/s"));
    for (int i = 0; i < WORLD_NODES; i++)
        assert_false(w->nodes[i].annotations.has_probe);
    world_free(w);
    w = world_new(WITH("\"worker\":{\"image\":\"worker:1\"}")); /* the default, by name */
    all_probes_done(w);
    (void)world_settle(w);
    assert_true(w->nodes[0].annotations.has_probe);
    world_free(w);
}

static void nodes_are_measured_again_when_the_image_is_another(void **state)
{
    struct world *w = world_new(NULL);

    (void)state;
    all_probes_done(w);
    (void)snprintf(w->seen.settings.worker_image, SPEC_IMAGE_BYTES, "worker:2");
    world_decide(w);
    assert_int_equal(world_count(w, ACTION_LABEL_NODE), 0);
    assert_int_equal(world_count(w, ACTION_CREATE_PLAN), 0);
    assert_int_equal(world_count(w, ACTION_DELETE_POD), WORLD_NODES);
    world_apply(w, DECIDE_ACTIONS_MAX);
    world_decide(w);
    assert_int_equal(world_count(w, ACTION_CREATE_PROBE_POD), WORLD_NODES);
    world_free(w);
}

static void nodes_keep_the_newer_of_two_measurements(void **state)
{
    struct world *w = world_new(NULL);

    (void)state;
    all_probes_done(w);
    (void)measure_before(w);
    w->nodes[0].annotations.probe.time_ms = w->seen.now_ms;
    world_probe(w, "node-0")->finished_ms = w->seen.now_ms - 1000;
    world_decide(w);
    assert_int_equal(world_count(w, ACTION_LABEL_NODE), 2);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(nodes_believe_a_probe_more_than_nfd_about_bf16),
        cmocka_unit_test(nodes_are_measured_once_a_job_with_probe_always),
        cmocka_unit_test(nodes_count_what_was_measured_more_than_declared_with_probe_always),
        cmocka_unit_test(nodes_assumed_from_their_cpu_are_reported_in_the_plan),
        cmocka_unit_test(nodes_are_labelled_with_what_they_are_judged_by_next_time),
        cmocka_unit_test(nodes_that_contradict_each_other_are_measured_again_once),
        cmocka_unit_test(nodes_that_contradict_each_other_after_that_are_used),
        cmocka_unit_test(nodes_of_128_cores_are_used_with_as_many_as_are_useful),
        cmocka_unit_test(nodes_of_128_cores_are_measured_with_as_many_as_are_useful),
        cmocka_unit_test(nodes_are_given_back_by_probes_that_cannot_start),
        cmocka_unit_test(nodes_behind_slow_links_are_excluded),
        cmocka_unit_test(nodes_hand_on_how_long_the_data_are),
        cmocka_unit_test(nodes_are_measured_after_a_claim_was_looked_at),
        cmocka_unit_test(nodes_that_saw_no_data_leave_lengths_a_guess),
        cmocka_unit_test(nodes_are_not_labelled_with_what_another_image_has_found),
        cmocka_unit_test(nodes_are_measured_again_when_the_image_is_another),
        cmocka_unit_test(nodes_keep_the_newer_of_two_measurements),
    };

    return row_main(rows, sizeof rows / sizeof rows[0], others, sizeof others / sizeof others[0]);
}
