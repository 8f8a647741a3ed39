/* What is known of nodes, when it is measured anew, and what is made of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "row.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "control/decide.h"
#include "world.h"

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
    world_round(w); /* the number is written down */
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
    world_probe(w, "node-0")->role = POD_FOREIGN;
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
    static const struct node_probe found = {.gflops = 10, .unit_ms = 0.1, .threads = 1};

    for (int i = 0; i < WORLD_NODES; i++)
        w->nodes[i].annotations.gflops = 0;
    (void)world_settle(w);
    for (int i = 0; i < WORLD_NODES; i++) {
        struct seen_pod *p = world_probe(w, w->nodes[i].name);

        p->phase = POD_SUCCEEDED;
        p->probe = &found;
        p->finished_ms = w->seen.now_ms;
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
    static const struct node_probe with = {
        .gflops = 10, .unit_ms = 0.1, .threads = 1, .has_bf16 = NODE_YES};
    static const struct node_probe without = {
        .gflops = 10, .unit_ms = 0.1, .threads = 1, .has_bf16 = NODE_NO};

    all_probes_done(w);
    for (int i = 0; i < WORLD_NODES; i++) {
        w->nodes[i].annotations.has_bf16 = i == 0 ? NODE_NO : NODE_YES;
        world_probe(w, w->nodes[i].name)->probe = i == 0 ? &with : &without;
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
    ROW(id, how, PLACED, F, "NotPlaced", COUNT(ACTION_CREATE_REVISION, 1), __VA_ARGS__)

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
    assert_true(w->seen.has_revision);
    assert_int_equal(w->seen.revision.plan.n_workers, 1);
    assert_string_equal(w->seen.revision.plan.workers[0].node, "node-0");
    world_free(w);
}

static void nodes_are_measured_once_a_job_with_probe_always(void **state)
{
    struct world *w = world_new(ALWAYS);

    (void)state;
    w->seen.created_ms = w->seen.now_ms;
    all_probes_done(w);
    (void)world_settle(w);
    w->seen.n_pods = w->seen.n_revisions = 0; /* the plan is lost, and its probes are long gone */
    w->seen.has_revision = false;
    (void)world_settle(w);
    assert_true(w->seen.has_revision);
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
    assert_non_null(strstr(w->decision.revision.plan.summary.explanation, "at 10 GFLOP/s"));
    world_free(w);
}

static void nodes_assumed_from_their_cpu_are_reported_in_the_plan(void **state)
{
    struct world *w = world_new(NEVER);

    (void)state;
    never_measured(w); /* the others do 20 GFLOP/s with each CPU, so that is what it gets */
    world_decide(w);
    assert_non_null(
        strstr(w->decision.revision.plan.summary.explanation,
               "1 of 3 nodes were never measured (spec.placement.probePolicy is Never)"));
    world_free(w);
}

static void nodes_are_labelled_with_what_they_are_judged_by_next_time(void **state)
{
    struct world *w = world_new(NULL);

    (void)state;
    all_probes_done(w);
    (void)world_settle(w);
    w->seen.n_pods = w->seen.n_revisions = 0; /* another job, with the same nodes */
    w->seen.has_revision = false;
    w->seen.status = (struct status){.revision = 0};
    w->seen.now_ms += ANNOTATION_FRESH_MS / 2;
    (void)world_settle(w);
    assert_true(w->seen.has_revision);
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
    assert_false(w->seen.has_revision);
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
    assert_true(w->seen.has_revision);
    assert_non_null(strstr(w->seen.revision.plan.summary.explanation,
                           "the one with less CPU was measured faster"));
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
    assert_true(w->seen.has_revision);
    assert_string_equal(w->seen.revision.plan.workers[0].node, w->nodes[0].name);
    assert_int_equal(w->seen.revision.plan.workers[0].cpu_milli, NODE_CPU_USEFUL_MILLI);
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
    assert_in_range(w->seen.status.next_revision_ms - w->seen.now_ms, DECIDE_BACKOFF_MS,
                    DECIDE_BACKOFF_MS + 999);
    w->seen.now_ms = w->seen.status.next_revision_ms;
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
    assert_int_equal(w->seen.revision.plan.n_workers, 2);
    for (int s = 0; s < 2; s++)
        assert_string_not_equal(w->seen.revision.plan.workers[s].node, "node-1");
    world_free(w);
}

static void nodes_hand_on_how_long_the_data_are(void **state)
{
    struct world *w = world_new(NULL);
    double shorter_ms;

    (void)state;
    measure_before(w)->found.lengths = (struct node_lengths){.mean = 10, .mean_square = 110};
    (void)world_settle(w);
    shorter_ms = w->seen.revision.plan.summary.predicted_step_ms;
    world_free(w);
    w = world_new(NULL);
    measure_before(w)->found.lengths = (struct node_lengths){.mean = 40, .mean_square = 1700};
    (void)world_settle(w);
    assert_true(w->seen.revision.plan.summary.predicted_step_ms > 2 * shorter_ms);
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
    assert_true(w->seen.has_revision);
    assert_non_null(strstr(w->seen.revision.plan.summary.explanation,
                           "Lengths are a guess: sequences are assumed to have 39 tokens"));
    world_free(w);
    w = world_new(NULL); /* the sample's are known */
    (void)world_settle(w);
    assert_null(strstr(w->seen.revision.plan.summary.explanation, "guess"));
    world_free(w);
}

/* An image of the user's own may claim anything; the plan of its own job believes it. */
static void nodes_are_not_labelled_with_what_another_image_has_found(void **state)
{
    struct world *w = world_new(WITH("\"worker\":{\"image\":\"liar:1\"}"));

    (void)state;
    all_probes_done(w);
    (void)world_settle(w);
    assert_true(w->seen.has_revision);
    assert_non_null(strstr(w->seen.revision.plan.summary.explanation, "at 10 GFLOP/s"));
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
    assert_int_equal(world_count(w, ACTION_ANNOTATE_NODE), 0);
    assert_int_equal(world_count(w, ACTION_CREATE_REVISION), 0);
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
    assert_int_equal(world_count(w, ACTION_ANNOTATE_NODE), 2);
    world_free(w);
}

static int test_oneshot(void)
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

/* --- pairing --- */

/* Who measures the link to whom, and when the probes are told. */

static void pairing_lets_everybody_meet_everybody_once(void **state)
{
    (void)state;
    for (int n = 2; n <= 64; n++) {
        static int met[64][64];

        memset(met, 0, sizeof met);
        for (int round = 0; round < pairing_rounds(n); round++) {
            int n_idle = 0;

            for (int i = 0; i < n; i++) {
                int k = pairing_partner(n, round, i);

                n_idle += k < 0;
                assert_true(k < n && k != i);
                if (k < 0)
                    continue;
                assert_int_equal(pairing_partner(n, round, k), i); /* so no node has two partners */
                met[i][k]++;
            }
            assert_int_equal(n_idle, n % 2);
        }
        for (int i = 0; i < n; i++)
            for (int k = 0; k < n; k++)
                assert_int_equal(met[i][k], i != k);
    }
}

static void pairing_of_one_is_none(void **state)
{
    (void)state;
    assert_int_equal(pairing_rounds(0), 0);
    assert_int_equal(pairing_rounds(1), 0);
    assert_int_equal(pairing_partner(1, 0, 0), -1);
}

static void wanted(struct world *w)
{
    for (int i = 0; i < WORLD_NODES; i++)
        w->nodes[i].annotations.gflops = 0;
    (void)world_settle(w);
}

static void start(struct world *w, const char *node)
{
    struct seen_pod *p = world_probe(w, node);

    p->phase = POD_RUNNING;
    p->started_ms = w->seen.now_ms;
    (void)snprintf(p->ip, sizeof p->ip, "10.0.3.%c", node[5] + 1);
}

static void two_of_three(struct world *w)
{
    wanted(w);
    start(w, "node-0");
    start(w, "node-2");
}

static void all_three(struct world *w)
{
    two_of_three(w);
    start(w, "node-1");
}

static void two_and_a_while(struct world *w)
{
    two_of_three(w);
    w->seen.now_ms += 6000;
}

static void two_and_a_failure(struct world *w)
{
    two_of_three(w);
    world_probe(w, "node-1")->phase = POD_FAILED;
}

static void told(struct world *w)
{
    all_three(w);
    world_round(w);
}

static struct row pairing_rows[] = {
    ROW("pairing_waits_for_probes_that_do_not_run_yet", two_of_three, PLACED, F, "MeasuringNodes",
        COUNT(ACTION_POST_PROBE_PEERS, 0), .is_waiting = true),
    ROW("pairing_begins_when_all_probes_run", all_three, PLACED, F, "MeasuringNodes",
        COUNT(ACTION_POST_PROBE_PEERS, 3)),
    ROW("pairing_begins_without_late_ones", two_and_a_while, PLACED, F, "MeasuringNodes",
        COUNT(ACTION_POST_PROBE_PEERS, 2)),
    ROW("pairing_begins_without_failed_ones", two_and_a_failure, PLACED, F, "MeasuringNodes",
        COUNT(ACTION_POST_PROBE_PEERS, 2)),
    ROW("pairing_tells_each_once", told, PLACED, F, "MeasuringNodes",
        COUNT(ACTION_POST_PROBE_PEERS, 0)),
};

static int test_pairing(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(pairing_lets_everybody_meet_everybody_once),
        cmocka_unit_test(pairing_of_one_is_none),
    };

    return row_main(pairing_rows, sizeof pairing_rows / sizeof pairing_rows[0], others,
                    sizeof others / sizeof others[0]);
}

/* --- model reader --- */

/* A job whose model's own files have its sizes. */

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
    assert_false(w->seen.has_revision);
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
    w->seen.data.checked_ms = w->seen.now_ms;
}

static void end_reader(struct world *w, const struct model *sizes)
{
    struct seen_pod *p = world_reader(w);

    p->phase = POD_SUCCEEDED;
    p->has_exit_code = true;
    p->model = sizes;
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
    assert_true(w->seen.has_revision);
    assert_memory_equal(&w->seen.status.model, &tiny, sizeof tiny);
    assert_int_equal(w->seen.revision.plan.spec.model.hidden, 64);
    assert_int_equal(w->seen.revision.plan.spec.model.vocab, 99);
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
    assert_int_equal(world_count(w, ACTION_CREATE_REVISION), 1);
    world_free(w);
}

static void model_with_sizes_in_the_spec_is_not_read(void **state)
{
    struct world *w = world_new(JOB("\"preset\":\"BertMini\","));

    (void)state;
    (void)world_settle(w);
    assert_true(w->seen.has_revision);
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
    assert_false(w->seen.has_revision);
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
    assert_true(w->seen.has_revision);
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
    assert_waits(
        w, "ReadingModel",
        "Pod mnli-0b7d-model cannot start: ContainerCreating: FailedMount: no such volume");
    later(w, DECIDE_START_MS);
    world_round(w);
    assert_waits(w, "ModelNotRead",
                 "the pod that reads it did not start (ContainerCreating): FailedMount: no such "
                 "volume");
    assert_null(world_reader(w)); /* its node is released for a while */
    assert_true(w->seen.status.next_revision_ms > w->seen.now_ms);
    world_free(w);
}

static void model_of_a_pod_that_only_claims_to_be_ours_is_not_believed(void **state)
{
    static const enum pod_role roles[] = {POD_UNVERIFIED, POD_FOREIGN};

    (void)state;
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        struct world *w = world_that_reads(JOB(""));

        end_reader(w, &tiny);
        world_reader(w)->role = roles[i];
        world_round(w);
        assert_int_equal(w->seen.status.model.hidden, 0);
        assert_int_equal(world_count(w, ACTION_CREATE_MODEL_POD), roles[i] == POD_UNVERIFIED);
        if (roles[i] == POD_FOREIGN)
            assert_waits(w, "ModelNotRead",
                         "pod mnli-0b7d-model exists already and was not created by the operator");
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

static int test_model_reader(void)
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

int main(void)
{
    return test_oneshot() + test_pairing() + test_model_reader();
}
