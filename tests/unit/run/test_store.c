/* Objects as the API server sends them go in; what a decision sees comes out. */
#include "run/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NOW_MS INT64_C(1800000000000)

static struct store store;
static struct store_view view;
static struct observed *seen;
static int n_touched;
static int n_capacity;
static char touched[QUEUE_KEY_BYTES];

static void on_enqueue(void *ctx, const char *key, int64_t delay_ms)
{
    (void)ctx;
    (void)delay_ms;
    n_touched++;
    (void)snprintf(touched, sizeof touched, "%s", key);
}

static void on_capacity(void *ctx, const char *key)
{
    (void)ctx;
    n_capacity += strcmp(key, "team/mnli") == 0;
}

static int set_up(void **state)
{
    (void)state;
    store = (struct store){.listener = {.on_enqueue = on_enqueue, .on_capacity = on_capacity}};
    seen = calloc(1, sizeof *seen);
    n_touched = 0;
    return seen ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    store_view_deinit(&view);
    store_deinit(&store);
    free(seen);
    return 0;
}

static void change(enum store_kind kind, enum kube_change what, const char *text)
{
    struct json *json = NULL;
    struct err err = {0};

    if (json_parse(text, strlen(text), &json, &err) != ERR_OK ||
        store_change(&store, kind, what, json, &err) != ERR_OK)
        fail_msg("%s", err.text);
    json_free(json);
}

static void add_job(const char *name, const char *uid, const char *status)
{
    char text[1024];

    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"namespace\":\"team\",\"name\":\"%s\",\"uid\":\"%s\","
                   "\"resourceVersion\":\"5\",\"generation\":2},\"spec\":{\"data\":{}}%s%s}",
                   name, uid, status ? ",\"status\":" : "", status ? status : "");
    change(STORE_JOBS, KUBE_ADDED, text);
}

#define OWNER                                                                                      \
    "\"ownerReferences\":[{\"apiVersion\":\"skyjob.dev/v1alpha1\",\"kind\":\"SkyJob\","            \
    "\"name\":\"mnli\",\"uid\":\"u1\",\"controller\":true}]"

#define POD_HEAD                                                                                   \
    "{\"metadata\":{\"namespace\":\"team\",\"name\":\"mnli-u1-w1-2\",\"uid\":\"p1\"," OWNER ","    \
    "\"creationTimestamp\":\"2026-11-21T08:00:00Z\",\"labels\":{\"skyjob.dev/role\":\"worker\","   \
    "\"skyjob.dev/slot\":\"1\",\"skyjob.dev/incarnation\":\"2\"}},\"spec\":{\"nodeName\":\"n1\","  \
    "\"containers\":[{\"resources\":{\"requests\":{\"cpu\":\"1500m\",\"memory\":\"1Gi\"},"         \
    "\"limits\":{\"cpu\":\"1500m\",\"memory\":\"1Gi\"}}}]},\"status\":"

static void add_node(const char *name, const char *cpu)
{
    char text[1024];

    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"name\":\"%s\",\"labels\":{\"skyjob.dev/gflops\":\"12.5\","
                   "\"skyjob.dev/unit-ms\":\"nonsense\"}},\"spec\":{\"taints\":["
                   "{\"key\":\"node.kubernetes.io/unreachable\",\"effect\":\"NoExecute\"},"
                   "{\"key\":\"soft\",\"effect\":\"PreferNoSchedule\"}]},\"status\":{"
                   "\"allocatable\":{\"cpu\":\"%s\",\"memory\":\"4Gi\"},\"conditions\":["
                   "{\"type\":\"Ready\",\"status\":\"True\"},"
                   "{\"type\":\"DiskPressure\",\"status\":\"False\"}]}}",
                   name, cpu);
    change(STORE_NODES, KUBE_ADDED, text);
}

static void observe(void)
{
    struct err err = {0};

    seen->now_ms = NOW_MS;
    if (store_observe(&store, "team/mnli", &view, seen, &err) != ERR_OK)
        fail_msg("%s", err.text);
}

static void store_shows_a_job_and_its_status(void **state)
{
    (void)state;
    add_job("mnli", "u1", "{\"revision\":3,\"restarts\":1}");
    observe();
    assert_string_equal(seen->uid, "u1");
    assert_int_equal(seen->generation, 2);
    assert_int_equal(seen->status.revision, 3);
    assert_string_equal(touched, "team/mnli");
    assert_int_equal(store_observe(&store, "team/other", &view, seen, NULL), ERR_NOT_FOUND);
}

static void store_shows_why_a_spec_is_invalid(void **state)
{
    (void)state;
    add_job("mnli", "u1", NULL);
    observe();
    assert_null(seen->spec);
    assert_non_null(strstr(seen->spec_problem, "spec.data.source"));
    assert_non_null(json_get(seen->spec_json, "data"));
}

static void store_keeps_no_documents_of_a_job_that_is_over(void **state)
{
    const struct store_job *job;

    (void)state;
    add_job("mnli", "u1", "{\"revision\":1}");
    job = store_find_job(&store, "team/mnli");
    assert_true(job->spec && job->status);
    add_job("mnli", "u1",
            "{\"revision\":2,\"conditions\":[{\"type\":\"Failed\",\"status\":\"True\"}]}");
    job = store_find_job(&store, "team/mnli");
    assert_true(!job->spec && !job->status);
    observe();
    assert_true(status_is_final(&seen->status));
    assert_int_equal(seen->status.revision, 2);
}

static void check_counts(size_t n_pending, size_t n_running, size_t n_failed, size_t n_other,
                         size_t n_stalled)
{
    assert_int_equal(store.n_jobs_in[0], n_pending);
    assert_int_equal(store.n_jobs_in[6], n_running);
    assert_int_equal(store.n_jobs_in[STATUS_STATES - 1], n_failed);
    assert_int_equal(store.n_jobs_in[STATUS_STATES], n_other);
    assert_int_equal(store.n_stalled, n_stalled);
}

static void store_counts_jobs_by_their_state(void **state)
{
    static const char stalled[] =
        "{\"state\":\"Running\",\"conditions\":[{\"type\":\"Stalled\",\"status\":\"True\"}]}";
    static const char failed[] =
        "{\"state\":\"Failed\",\"conditions\":[{\"type\":\"Stalled\",\"status\":\"True\"},"
        "{\"type\":\"Failed\",\"status\":\"True\"}]}";

    (void)state;
    assert_string_equal(status_states[6], "Running");
    add_job("mnli", "u1", NULL);
    add_job("rte", "u2", NULL);
    check_counts(2, 0, 0, 0, 0);
    add_job("mnli", "u1", stalled);
    add_job("mnli", "u1", stalled);
    check_counts(1, 1, 0, 0, 1);
    add_job("mnli", "u1", failed); /* what was the matter is over */
    add_job("rte", "u2", "{\"state\":\"Elsewhere\"}");
    check_counts(0, 0, 1, 1, 0);
    add_job("mnli", "u3", NULL); /* of the same name */
    check_counts(1, 0, 0, 1, 0);
    change(STORE_JOBS, KUBE_DELETED,
           "{\"metadata\":{\"namespace\":\"team\",\"name\":\"mnli\",\"uid\":\"u3\"}}");
    change(STORE_JOBS, KUBE_DELETED,
           "{\"metadata\":{\"namespace\":\"team\",\"name\":\"rte\",\"uid\":\"u2\"}}");
    check_counts(0, 0, 0, 0, 0);
}

static void store_knows_when_a_job_that_is_over_expires(void **state)
{
    static const char job[] =
        "{\"metadata\":{\"namespace\":\"team\",\"name\":\"mnli\",\"uid\":\"u1\"},\"spec\":{"
        "\"data\":{},"
        "\"ttlSecondsAfterFinished\":%s},\"status\":{\"completionTime\":\"2026-11-21T08:00:00Z\","
        "\"conditions\":[{\"type\":\"%s\",\"status\":\"True\"}]}}";
    static const struct {
        const char *ttl, *condition;
        int64_t after_ms; /* its end; -1: never */
    } cases[] = {{"10", "Complete", 10000},
                 {"0", "Failed", 0},
                 {"null", "Complete", -1},
                 {"10", "Running", -1}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[1024];

        (void)snprintf(text, sizeof text, job, cases[i].ttl, cases[i].condition);
        change(STORE_JOBS, KUBE_ADDED, text);
        observe();
        assert_true(seen->expires_ms ==
                    (cases[i].after_ms < 0 ? 0 : INT64_C(1795248000000) + cases[i].after_ms));
    }
}

static void store_knows_a_job_of_another_controller(void **state)
{
    static const char job[] =
        "{\"metadata\":{\"namespace\":\"team\",\"name\":\"mnli\",\"uid\":\"u1\"},"
        "\"spec\":{\"data\":{},\"managedBy\":\"%s\"}}";
    char text[1024];

    (void)state;
    add_job("mnli", "u1", NULL);
    observe();
    assert_false(seen->is_foreign);
    (void)snprintf(text, sizeof text, job, "skyjob.dev/operator");
    change(STORE_JOBS, KUBE_MODIFIED, text);
    observe();
    assert_false(seen->is_foreign);
    (void)snprintf(text, sizeof text, job, "example.com/queue");
    change(STORE_JOBS, KUBE_MODIFIED, text);
    observe();
    assert_true(seen->is_foreign);
}

/* Watches report while a decision is being applied. */
static void store_keeps_an_observed_spec_until_the_next_observation(void **state)
{
    const struct json *json;

    (void)state;
    add_job("mnli", "u1", "{\"revision\":1}");
    observe();
    json = seen->spec_json;
    add_job("mnli", "u1", "{\"revision\":2}");
    assert_ptr_equal(store_find_job(&store, "team/mnli")->spec->json, json); /* not parsed anew */
    add_job("mnli", "u2", NULL);
    assert_ptr_not_equal(store_find_job(&store, "team/mnli")->spec->json, json);
    assert_non_null(json_get(seen->spec_json, "data"));
    assert_non_null(strstr(seen->spec_problem, "spec.data.source"));
    observe();
    assert_string_equal(seen->uid, "u2");
    change(STORE_JOBS, KUBE_DELETED, "{\"metadata\":{\"namespace\":\"team\",\"name\":\"mnli\"}}");
    assert_non_null(json_get(seen->spec_json, "data"));
}

static void store_shows_a_running_pod(void **state)
{
    (void)state;
    add_job("mnli", "u1", NULL);
    change(STORE_PODS, KUBE_ADDED,
           POD_HEAD "{\"phase\":\"Running\",\"podIP\":\"10.1.2.3\",\"conditions\":[{\"type\":"
                    "\"Ready\",\"status\":\"True\"}]}}");
    observe();
    assert_int_equal(seen->n_pods, 1);
    assert_int_equal(seen->pods[0].slot, 1);
    assert_int_equal(seen->pods[0].incarnation, 2);
    assert_int_equal(seen->pods[0].phase, POD_RUNNING);
    assert_true(seen->pods[0].is_ready);
    assert_string_equal(seen->pods[0].ip, "10.1.2.3");
    assert_int_equal(seen->pods[0].cpu_milli, 1500);
    assert_true(seen->pods[0].memory_bytes == (int64_t)1 << 30);
    assert_in_range(NOW_MS - seen->pods[0].created_ms, 0, 60000); /* by our own clock */
}

/* Of the second worker, whose group has three. */
#define QUEUED_POD(gates)                                                                          \
    "{\"metadata\":{\"namespace\":\"team\",\"name\":\"mnli-u1-w1-2\",\"uid\":\"p1\"," OWNER ","    \
    "\"annotations\":{\"kueue.x-k8s.io/pod-group-total-count\":\"3\"},"                            \
    "\"labels\":{\"skyjob.dev/role\":\"worker\",\"skyjob.dev/slot\":\"1\","                        \
    "\"kueue.x-k8s.io/pod-group-name\":\"mnli-u1-g12\","                                           \
    "\"skyjob.dev/incarnation\":\"2\"}},\"spec\":{" gates "},\"status\":{\"phase\":\"Pending\"}}"
#define GATED     QUEUED_POD("\"schedulingGates\":[{\"name\":\"kueue.x-k8s.io/admission\"}]")
#define MINUTE_MS 60000

/* As if it had been created a minute before; returns how long ago that seems to be now. */
static int64_t age_ms(const char *then, const char *now)
{
    struct store_own *own;

    change(STORE_PODS, KUBE_ADDED, then);
    own = store_find_own(&store, "team", "mnli-u1-w1-2", "p1");
    assert_non_null(own);
    own->first_seen_ms -= MINUTE_MS;
    change(STORE_PODS, KUBE_MODIFIED, now);
    observe();
    return NOW_MS - seen->pods[0].created_ms;
}

static void pods_time_to_start_begins_when_it_is_no_longer_gated(void **state)
{
    (void)state;
    add_job("mnli", "u1", NULL);
    assert_in_range(age_ms(GATED, GATED), 0, MINUTE_MS / 2);
    assert_true(seen->pods[0].is_gated);
    assert_string_equal(seen->pods[0].message, "kueue.x-k8s.io/admission");
    assert_int_equal(seen->pods[0].group, 12);
    assert_int_equal(seen->pods[0].group_size, 3);
    assert_in_range(age_ms(GATED, QUEUED_POD("")), 0, MINUTE_MS / 2);
    assert_false(seen->pods[0].is_gated);
    assert_in_range(age_ms(QUEUED_POD(""), QUEUED_POD("")), MINUTE_MS, 2 * MINUTE_MS);
}

static void store_reads_the_last_words_of_a_worker(void **state)
{
    (void)state;
    add_job("mnli", "u1", NULL);
    change(STORE_PODS, KUBE_ADDED,
           POD_HEAD "{\"phase\":\"Failed\",\"containerStatuses\":[{\"state\":{\"terminated\":{"
                    "\"exitCode\":2,\"reason\":\"Error\",\"finishedAt\":\"2026-11-21T08:00:09Z\","
                    "\"message\":\"{\\\"state\\\":\\\"Failed\\\",\\\"cause\\\":\\\"Config\\\","
                    "\\\"error\\\":\\\"vocab too large\\\"}\"}}}]}}");
    observe();
    assert_true(seen->pods[0].has_exit_code);
    assert_int_equal(seen->pods[0].exit_code, 2);
    assert_non_null(seen->pods[0].progress);
    assert_int_equal(seen->pods[0].progress->cause, PROGRESS_CAUSE_CONFIG);
    assert_string_equal(seen->pods[0].progress->error, "vocab too large");
    assert_in_range(NOW_MS - seen->pods[0].finished_ms, 0, 60000); /* by our own clock */
}

static void store_takes_a_lost_container_for_a_disruption(void **state)
{
    static const char *const ends[] = {
        POD_HEAD
        "{\"phase\":\"Failed\",\"containerStatuses\":[{\"state\":{\"terminated\":{"
        "\"exitCode\":137,\"reason\":\"ContainerStatusUnknown\",\"message\":\"The container "
        "could not be located when the pod was terminated\"}}}]}}",
        POD_HEAD "{\"phase\":\"Failed\",\"containerStatuses\":[{\"state\":{\"terminated\":{"
                 "\"exitCode\":255,\"reason\":\"Unknown\"}}}]}}"};

    (void)state;
    add_job("mnli", "u1", NULL);
    for (size_t i = 0; i < 2; i++) {
        change(STORE_PODS, KUBE_MODIFIED, ends[i]);
        observe();
        assert_true(seen->pods[0].is_disrupted);
    }
}

static void store_tells_the_ends_of_pods_apart(void **state)
{
    (void)state;
    add_job("mnli", "u1", NULL);
    change(STORE_PODS, KUBE_ADDED,
           POD_HEAD "{\"phase\":\"Failed\",\"containerStatuses\":[{\"state\":{\"terminated\":{"
                    "\"exitCode\":137,\"reason\":\"OOMKilled\",\"message\":\"\"}}}]}}");
    observe();
    assert_true(seen->pods[0].is_out_of_memory && !seen->pods[0].is_disrupted);
    change(STORE_PODS, KUBE_MODIFIED,
           POD_HEAD "{\"phase\":\"Failed\",\"reason\":\"Evicted\",\"message\":\"disk\"}}");
    observe();
    assert_true(seen->pods[0].is_disrupted && !seen->pods[0].has_exit_code);
    change(STORE_PODS, KUBE_MODIFIED,
           POD_HEAD "{\"phase\":\"Running\",\"conditions\":[{\"type\":\"DisruptionTarget\","
                    "\"status\":\"True\"}]}}");
    observe();
    assert_true(seen->pods[0].is_disrupted);
    change(STORE_PODS, KUBE_MODIFIED,
           POD_HEAD "{\"phase\":\"Pending\",\"conditions\":[{\"type\":\"PodScheduled\",\"status\":"
                    "\"False\",\"reason\":\"Unschedulable\",\"message\":\"no cpu\"}]}}");
    observe();
    assert_true(seen->pods[0].is_unschedulable);
    assert_string_equal(seen->pods[0].message, "no cpu");
    change(STORE_PODS, KUBE_DELETED, POD_HEAD "{}}");
    observe();
    assert_int_equal(seen->n_pods, 0);
}

static void store_remembers_who_has_accepted_which_revision(void **state)
{
    struct store_own *own;

    (void)state;
    add_job("mnli", "u1", NULL);
    change(STORE_PODS, KUBE_ADDED, POD_HEAD "{\"phase\":\"Running\"}}");
    own = store_find_own(&store, "team", "mnli-u1-w1-2", "p1");
    assert_non_null(own);
    own->contact.accepted = 1;
    own->contact.is_refused = true;
    strcpy(own->contact.refusal, "no");
    change(STORE_PODS, KUBE_MODIFIED, POD_HEAD "{\"phase\":\"Running\"}}");
    observe();
    assert_int_equal(seen->pods[0].accepted, 1);
    assert_true(seen->pods[0].refuses);
    assert_string_equal(seen->pods[0].refusal, "no");
    assert_null(store_find_own(&store, "team", "mnli-u1-w1-2", "another"));
}

static void store_calls_a_worker_that_becomes_ready_at_once(void **state)
{
    struct store_own *own;

    (void)state;
    add_job("mnli", "u1", NULL);
    change(STORE_PODS, KUBE_ADDED, POD_HEAD "{\"phase\":\"Running\"}}");
    own = store_find_own(&store, "team", "mnli-u1-w1-2", "p1");
    own->contact.n_unanswered = 3;
    own->contact.call_after_ms = 77;
    change(STORE_PODS, KUBE_MODIFIED, POD_HEAD "{\"phase\":\"Running\"}}");
    own = store_find_own(&store, "team", "mnli-u1-w1-2", "p1");
    assert_int_equal(own->contact.n_unanswered, 3);
    assert_int_equal(own->contact.call_after_ms, 77);
    change(STORE_PODS, KUBE_MODIFIED,
           POD_HEAD
           "{\"phase\":\"Running\",\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}}");
    own = store_find_own(&store, "team", "mnli-u1-w1-2", "p1");
    assert_int_equal(own->contact.n_unanswered, 0);
    assert_int_equal(own->contact.call_after_ms, 0);
}

static void store_counts_what_others_request_of_a_node(void **state)
{
    (void)state;
    add_job("mnli", "u1", NULL);
    add_job("other", "u2", NULL);
    add_node("n1", "4");
    change(STORE_PODS, KUBE_ADDED, POD_HEAD "{\"phase\":\"Running\"}}"); /* our own */
    change(STORE_PODS, KUBE_ADDED,
           "{\"metadata\":{\"namespace\":\"x\",\"name\":\"y\",\"uid\":\"z\"},\"spec\":{"
           "\"nodeName\":\"n1\",\"overhead\":{\"cpu\":\"10m\"},\"containers\":[{\"resources\":{"
           "\"requests\":{\"cpu\":\"100m\"}}},{\"resources\":{\"requests\":{\"cpu\":\"0.2\","
           "\"memory\":\"1Gi\"}}}],\"initContainers\":[{\"resources\":{\"requests\":{\"cpu\":"
           "\"500m\"}}}]},\"status\":{\"phase\":\"Running\"}}");
    observe();
    assert_int_equal(seen->n_nodes, 1);
    assert_int_equal(seen->nodes[0].cpu_milli, 4000);
    assert_int_equal(seen->nodes[0].cpu_used_milli, 510);
    assert_int_equal(seen->nodes[0].memory_used_bytes, 1 << 30);
    assert_int_equal(store_observe(&store, "team/other", &view, seen, NULL), ERR_OK);
    assert_int_equal(seen->nodes[0].cpu_used_milli, 510 + 1500);
    assert_int_equal(seen->nodes[0].excluded, EXCLUDED_NOT);
    assert_true(seen->nodes[0].annotations.gflops == 12.5 &&
                seen->nodes[0].annotations.unit_ms == 0);
    assert_non_null(strstr(seen->nodes[0].annotations.bad, "\"nonsense\" is not a number"));
}

/* The smallest revision of job mnli, with one stage on n1. */
static void add_number(int number, const char *labels)
{
    static const char revision[] =
        "{\\\"version\\\":2,\\\"lineage\\\":1,\\\"step\\\":0,\\\"sources\\\":[{"
        "\\\"firstUnit\\\":0,\\\"unitCount\\\":7,\\\"from\\\":\\\"Random\\\"}],\\\"plan\\\":"
        "{\\\"version\\\":2,\\\"namespace\\\":\\\"team\\\",\\\"job\\\":\\\"mnli\\\","
        "\\\"uid\\\":\\\"u1\\\",\\\"revision\\\":%d,\\\"microBatches\\\":8,\\\"explanation\\\":"
        "\\\"\\\","
        "\\\"workers\\\":[{\\\"slot\\\":0,\\\"incarnation\\\":1,"
        "\\\"firstUnit\\\":0,\\\"unitCount\\\":7,\\\"node\\\":\\\"n1\\\",\\\"cpuMilli\\\":3000,"
        "\\\"memoryBytes\\\":1024}],\\\"spec\\\":{\\\"model\\\":{\\\"preset\\\":\\\"BertTiny\\\"},"
        "\\\"data\\\":{\\\"source\\\":{\\\"sample\\\":\\\"MNLI\\\"}}}}}";
    char document[1024];
    char text[2048];

    (void)snprintf(document, sizeof document, revision, number);
    (void)snprintf(
        text, sizeof text,
        "{\"metadata\":{\"namespace\":\"team\",\"name\":\"mnli-u1-r%d\",\"uid\":\"c\"," OWNER
        ",\"labels\":{%s}},\"data\":{\"revision.json\":\"%s\"}}",
        number, labels, document);
    change(STORE_REVISIONS, KUBE_ADDED, text);
}

static void add_revision(const char *labels)
{
    add_number(1, labels);
}

static void store_keeps_what_a_plan_promises_until_its_pod_is_bound(void **state)
{
    (void)state;
    add_job("mnli", "u1", "{\"revision\":1}");
    add_job("other", "u2", NULL);
    add_node("n1", "4");
    add_revision("\"skyjob.dev/revision\":\"1\"");
    observe();
    assert_true(seen->has_revision);
    assert_int_equal(seen->revision.plan.workers[0].cpu_milli, 3000);
    assert_int_equal(store_observe(&store, "team/other", &view, seen, NULL), ERR_OK);
    assert_int_equal(seen->nodes[0].cpu_used_milli, 3000);
    change(STORE_PODS, KUBE_ADDED,
           "{\"metadata\":{\"namespace\":\"team\",\"name\":\"mnli-u1-w0-1\",\"uid\":\"p\"," OWNER
           ",\"labels\":{\"skyjob.dev/role\":\"worker\"}},\"spec\":{\"nodeName\":\"n1\","
           "\"containers\":[{\"resources\":{\"requests\":{\"cpu\":\"3\"}}}]},\"status\":{}}");
    assert_int_equal(store_observe(&store, "team/other", &view, seen, NULL), ERR_OK);
    assert_int_equal(seen->nodes[0].cpu_used_milli, 3000);
}

static void store_remembers_a_revision_that_was_deleted_while_it_is_needed(void **state)
{
    (void)state;
    add_job("mnli", "u1", "{\"revision\":1}");
    add_revision("\"skyjob.dev/revision\":\"1\"");
    change(STORE_REVISIONS, KUBE_DELETED,
           "{\"metadata\":{\"namespace\":\"team\",\"name\":\"mnli-u1-r1\"}}");
    observe();
    assert_true(seen->has_revision && seen->is_revision_lost);
    assert_int_equal(seen->revision.plan.revision, 1);
    add_revision("\"skyjob.dev/revision\":\"1\""); /* made again */
    observe();
    assert_true(seen->has_revision && !seen->is_revision_lost);
    add_job("mnli", "u1", "{\"revision\":2}"); /* which goes on from it */
    change(STORE_REVISIONS, KUBE_DELETED,
           "{\"metadata\":{\"namespace\":\"team\",\"name\":\"mnli-u1-r1\"}}");
    observe();
    assert_true(seen->has_revision && seen->is_revision_lost);
    add_job("mnli", "u1", "{\"conditions\":[{\"type\":\"Failed\",\"status\":\"True\"}]}");
    observe();
    assert_false(seen->has_revision);
    assert_int_equal(seen->n_revisions, 0);
}

static void store_forgets_a_revision_that_was_deleted_once_there_is_a_newer_one(void **state)
{
    (void)state;
    add_job("mnli", "u1", "{\"revision\":2}");
    add_revision("\"skyjob.dev/revision\":\"1\"");
    add_number(2, "\"skyjob.dev/revision\":\"2\"");
    observe();
    assert_int_equal(seen->n_revisions, 2);
    assert_int_equal(seen->revision.plan.revision, 2);
    change(STORE_REVISIONS, KUBE_DELETED,
           "{\"metadata\":{\"namespace\":\"team\",\"name\":\"mnli-u1-r1\"}}");
    observe();
    assert_int_equal(seen->n_revisions, 1);
    assert_true(seen->has_revision && !seen->is_revision_lost);
}

/* It is posted and restored byte for byte. */
static void store_keeps_the_text_of_a_revision(void **state)
{
    (void)state;
    add_job("mnli", "u1", "{\"revision\":1}");
    add_revision("\"skyjob.dev/revision\":\"1\"");
    observe();
    assert_memory_equal(seen->revision_text->data, "{\"version\":2,\"lineage\":1,\"step\":0,", 34);
    assert_int_equal(seen->revision_text->data[seen->revision_text->len - 1], '}');
    change(STORE_REVISIONS, KUBE_DELETED,
           "{\"metadata\":{\"namespace\":\"team\",\"name\":\"mnli-u1-r1\"}}");
    observe();
    assert_int_equal(seen->revision_text->data[0], '{');
}

/* Decisions refer to it until they have been applied. */
static void store_shows_a_report_for_as_long_as_the_observation(void **state)
{
    struct report report = {.slot = 1, .incarnation = 2, .session = REPORT_HALTED};
    struct store_own *own;

    (void)state;
    add_job("mnli", "u1", NULL);
    change(STORE_PODS, KUBE_ADDED, POD_HEAD "{\"phase\":\"Running\"}}");
    own = store_find_own(&store, "team", "mnli-u1-w1-2", "p1");
    report.revision = 3;
    assert_int_equal(store_set_report(own, &report, NULL), ERR_OK);
    own->calls.halted = own->calls.halting = 3;
    change(STORE_PODS, KUBE_MODIFIED, POD_HEAD "{\"phase\":\"Running\"}}");
    observe();
    assert_int_equal(seen->pods[0].halted, 3);
    assert_true(seen->pods[0].ended_ms > 0);
    change(STORE_PODS, KUBE_DELETED, POD_HEAD "{}}");
    assert_int_equal(seen->pods[0].report->revision, 3);
    assert_int_equal(seen->pods[0].report->session, REPORT_HALTED);
}

static void store_does_not_read_a_revision_under_a_wrong_label(void **state)
{
    (void)state;
    add_job("mnli", "u1", NULL);
    add_revision("\"skyjob.dev/revision\":\"2\"");
    add_revision("\"skyjob.dev/revision\":\"2147483647\"");
    add_revision("\"skyjob.dev/revision\":\"4294967297\""); /* 1, with 32 bits */
    add_revision("\"skyjob.dev/revision\":\"-1\"");
    observe();
    assert_int_equal(seen->n_revisions, 0);
    assert_false(seen->has_revision);
}

static void store_keeps_the_uid_of_a_revision(void **state)
{
    (void)state;
    add_job("mnli", "u1", NULL);
    add_revision("\"skyjob.dev/revision\":\"1\"");
    observe();
    assert_int_equal(seen->n_revisions, 1);
    assert_string_equal(seen->revision_uids[0], "c");
}

/* Owner, labels and even the name are right, since its maker can read them all. */
static void store_counts_only_the_pod_whose_uid_the_status_has(void **state)
{
    (void)state;
    add_job("mnli", "u1",
            "{\"revision\":2,\"stages\":[{\"stage\":0},{\"stage\":1,\"podUID\":\"p0\"}]}");
    change(STORE_PODS, KUBE_ADDED, POD_HEAD "{\"phase\":\"Failed\"}}");
    observe();
    assert_int_equal(seen->n_pods, 1);
    assert_int_equal(seen->pods[0].role, POD_UNVERIFIED);
    add_job("mnli", "u1",
            "{\"revision\":2,\"stages\":[{\"stage\":0},{\"stage\":1,\"podUID\":\"p1\"}]}");
    observe();
    assert_int_equal(seen->pods[0].role, POD_WORKER);
    add_job("mnli", "u1", "{\"revision\":3,\"stages\":[]}"); /* it leaves, and was ours */
    observe();
    assert_int_equal(seen->pods[0].role, POD_WORKER);
}

static void trust(const char *name, const char *uid)
{
    struct kube_ref pod = {.namespace = "team", .name = name};

    store_trust_pod(&store, &pod, uid, 7);
}

static void store_counts_a_pod_that_was_created_until_it_is_another(void **state)
{
    (void)state;
    add_job("mnli", "u1", "{\"revision\":2}");
    change(STORE_PODS, KUBE_ADDED, POD_HEAD "{\"phase\":\"Pending\"}}");
    n_touched = 0;
    trust("mnli-u1-w1-2", "another");
    assert_int_equal(n_touched, 0);
    trust("mnli-u1-w1-2", "p1");
    assert_int_equal(n_touched, 1);
    change(STORE_PODS, KUBE_MODIFIED, POD_HEAD "{\"phase\":\"Running\"}}");
    observe();
    assert_int_equal(seen->pods[0].role, POD_WORKER);
    assert_int_equal(seen->pods[0].image_asked, 7);
    change(STORE_PODS, KUBE_MODIFIED,
           "{\"metadata\":{\"namespace\":\"team\",\"name\":\"mnli-u1-w1-2\",\"uid\":\"p2\"," OWNER
           ",\"labels\":{\"skyjob.dev/role\":\"worker\",\"skyjob.dev/slot\":\"1\","
           "\"skyjob.dev/incarnation\":\"2\"}}}");
    observe();
    assert_int_equal(seen->pods[0].role, POD_UNVERIFIED);
}

static void store_shows_a_pod_that_has_taken_a_name_whatever_its_labels_say(void **state)
{
    struct seen_pod due = {.name = "mnli-u1-w0-2", .role = POD_WORKER, .slot = 0, .incarnation = 2};
    static const char stranger[] =
        "{\"metadata\":{\"namespace\":\"team\",\"name\":\"mnli-u1-w0-2\",\"uid\":\"x\"}}";
    struct json *json;

    (void)state;
    add_job("mnli", "u1", "{\"revision\":2}");
    observe();
    assert_int_equal(json_parse(stranger, strlen(stranger), &json, NULL), ERR_OK);
    assert_int_equal(store_refuse_pod(&store, json, seen, &due, NULL), ERR_OK);
    json_free(json);
    change(STORE_PODS, KUBE_MODIFIED, stranger);
    observe();
    assert_int_equal(seen->n_pods, 1);
    assert_int_equal(seen->pods[0].role, POD_FOREIGN);
    assert_int_equal(seen->pods[0].slot, 0);
    add_job("mnli", "u1", "{\"revision\":3}"); /* whose pods have other names */
    observe();
    assert_int_equal(seen->n_pods, 0);
}

static void add_claim(const char *name, const char *labels)
{
    char text[1024];

    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"namespace\":\"team\",\"name\":\"%s\",\"uid\":\"x\"," OWNER
                   ",\"labels\":{%s}},\"status\":{\"phase\":\"Failed\"}}",
                   name, labels);
    change(STORE_PODS, KUBE_ADDED, text);
}

static void store_leaves_out_pods_under_names_that_no_pod_of_the_job_has(void **state)
{
#define SLOT "\"skyjob.dev/role\":\"worker\",\"skyjob.dev/slot\":"
    (void)state;
    add_job("mnli", "u1", "{\"revision\":2}");
    add_claim("fake", SLOT "\"1\",\"skyjob.dev/incarnation\":\"2\"");
    add_claim("mnli-u1-w1-2", SLOT "\"0\",\"skyjob.dev/incarnation\":\"2\"");
    add_claim("mnli-u1-w1000-2", SLOT "\"1000\",\"skyjob.dev/incarnation\":\"2\"");
    add_claim("mnli-u1-w1-3", SLOT "\"1\",\"skyjob.dev/incarnation\":\"3\"");
    add_claim("mnli-u1-w1-2147483647", SLOT "\"1\",\"skyjob.dev/incarnation\":\"2147483647\"");
    add_claim("mnli-u1-probe-00000000", "\"skyjob.dev/role\":\"probe\"");
    observe();
    assert_int_equal(seen->n_pods, 0);
    add_job("mnli", "u1", NULL); /* no number is known: what is there may be ours, within reason */
    observe();
    assert_int_equal(seen->n_pods, 1);
    assert_int_equal(seen->pods[0].incarnation, 3);
#undef SLOT
}

static void store_does_not_take_a_probe_for_another_nodes(void **state)
{
    static const char probe[] =
        "{\"metadata\":{\"namespace\":\"team\",\"name\":\"%s\",\"uid\":\"q\"," OWNER
        ",\"annotations\":{\"skyjob.dev/probed-node\":\"n2\"},"
        "\"labels\":{\"skyjob.dev/role\":\"probe\",\"skyjob.dev/incarnation\":\"7\"}},\"spec\":{"
        "\"affinity\":{\"nodeAffinity\":{\"requiredDuringSchedulingIgnoredDuringExecution\":{"
        "\"nodeSelectorTerms\":[{\"matchFields\":[{\"key\":\"metadata.name\",\"operator\":\"In\","
        "\"values\":[\"n1\"]}]}]}}}}}";
    char name[NAMES_BYTES];
    char text[1024];

    (void)state;
    add_job("mnli", "u1", "{\"revision\":1}");
    names_probe_pod("mnli", "u1", "n2", name);
    (void)snprintf(text, sizeof text, probe, name);
    change(STORE_PODS, KUBE_ADDED, text);
    observe();
    assert_int_equal(seen->n_pods, 0);
    names_probe_pod("mnli", "u1", "n1", name);
    (void)snprintf(text, sizeof text, probe, name);
    change(STORE_PODS, KUBE_ADDED, text);
    observe();
    assert_int_equal(seen->n_pods, 1);
    assert_int_equal(seen->pods[0].role, POD_UNVERIFIED);
    assert_int_equal(seen->pods[0].incarnation, 0);
    trust(name, "q");
    observe();
    assert_int_equal(seen->pods[0].role, POD_PROBE);
    assert_string_equal(seen->pods[0].node, "n1");
}

static void store_takes_the_sizes_of_a_model_from_its_own_reader_only(void **state)
{
    static const char reader[] =
        "{\"metadata\":{\"namespace\":\"team\",\"name\":\"%s\",\"uid\":\"q\"," OWNER
        ",\"labels\":{\"skyjob.dev/role\":\"model\"}},\"spec\":{\"nodeName\":\"n1\"},\"status\":{"
        "\"phase\":\"Succeeded\",\"containerStatuses\":[{\"state\":{\"terminated\":{\"exitCode\":0,"
        "\"message\":\"{\\\"vocabSize\\\":99,\\\"hiddenSize\\\":64,\\\"layers\\\":3,"
        "\\\"attentionHeads\\\":4,\\\"feedForwardSize\\\":128,\\\"maxPositions\\\":256}\"}}}]}}";
    char text[1024];

    (void)state;
    add_job("mnli", "u1", "{\"revision\":1}");
    (void)snprintf(text, sizeof text, reader, "mnli-u1-model-2");
    change(STORE_PODS, KUBE_ADDED, text);
    observe();
    assert_int_equal(seen->n_pods, 0);
    (void)snprintf(text, sizeof text, reader, "mnli-u1-model");
    change(STORE_PODS, KUBE_ADDED, text);
    observe();
    assert_int_equal(seen->n_pods, 1);
    assert_int_equal(seen->pods[0].role, POD_UNVERIFIED);
    trust("mnli-u1-model", "q");
    observe();
    assert_int_equal(seen->pods[0].role, POD_MODEL);
    assert_non_null(seen->pods[0].model);
    assert_int_equal(seen->pods[0].model->hidden, 64);
    assert_int_equal(seen->pods[0].model->positions, 256);
}

#define MODEL_JOB(generation, spec)                                                                \
    "{\"metadata\":{\"namespace\":\"team\",\"name\":\"mnli\",\"uid\":\"u1\",\"generation\":2},"    \
    "\"spec\":{\"model\":{" spec "}},\"status\":{\"observedGeneration\":" generation               \
    ",\"model\":{\"vocabSize\":99,\"hiddenSize\":64,\"layers\":3,\"attentionHeads\":4,"            \
    "\"feedForwardSize\":128,\"maxPositions\":256}}}"

static void store_completes_a_spec_with_the_sizes_in_its_status(void **state)
{
    static const struct {
        const char *object;
        bool is_filled;
    } jobs[] = {{MODEL_JOB("2", ""), true},
                {MODEL_JOB("2", "\"layers\":3"), true},
                {MODEL_JOB("1", ""), false},              /* of an older spec */
                {MODEL_JOB("2", "\"layers\":4"), false}}; /* decide() reports that */

    (void)state;
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        change(STORE_JOBS, KUBE_DELETED, jobs[i].object);
        change(STORE_JOBS, KUBE_ADDED, jobs[i].object);
        assert_int_equal(
            json_int(json_path(store_find_job(&store, "team/mnli")->spec->json, "model.hiddenSize"),
                     0),
            jobs[i].is_filled ? 64 : 0);
    }
}

static void store_wakes_waiting_jobs_when_a_node_really_changes(void **state)
{
    (void)state;
    n_capacity = 0;
    add_job("mnli", "u1", NULL);
    add_node("n1", "4");
    store_find_job(&store, "team/mnli")->waits_for_nodes = true;
    n_touched = 0;
    add_node("n1", "4"); /* a heartbeat */
    assert_int_equal(n_capacity, 0);
    add_node("n1", "3");
    assert_int_equal(n_capacity, 1);
    change(STORE_NODES, KUBE_DELETED, "{\"metadata\":{\"name\":\"n1\"}}");
    assert_int_equal(n_capacity, 2);
    assert_int_equal(n_touched, 0); /* which would be at once, for each change */
}

static void store_counts_the_jobs_that_train(void **state)
{
    static const char running[] = "{\"conditions\":[{\"type\":\"Running\",\"status\":\"True\"}]}";

    (void)state;
    add_job("mnli", "u1", running);
    add_job("other", "u2", running);
    add_job("other", "u2", running); /* a change of one that is counted */
    add_job("third", "u3", NULL);
    observe();
    assert_int_equal(seen->n_training, 2);
    add_job("other", "u4", NULL); /* another one of the name */
    observe();
    assert_int_equal(seen->n_training, 1);
    add_job("third", "u3", running);
    change(STORE_JOBS, KUBE_DELETED, "{\"metadata\":{\"namespace\":\"team\",\"name\":\"third\"}}");
    add_job("mnli", "u1", "{\"conditions\":[{\"type\":\"Complete\",\"status\":\"True\"}]}");
    observe();
    assert_int_equal(seen->n_training, 0);
}

static void store_takes_a_new_job_of_the_same_name_for_another(void **state)
{
    (void)state;
    add_job("mnli", "u1", "{\"revision\":4}");
    store_find_job(&store, "team/mnli")->has_leader = true;
    add_job("mnli", "u9", NULL);
    assert_false(store_find_job(&store, "team/mnli")->has_leader);
    change(STORE_PODS, KUBE_ADDED, POD_HEAD "{\"phase\":\"Running\"}}"); /* of u1 */
    observe();
    assert_int_equal(seen->n_pods, 0);
}

#define DELETING                                                                                   \
    "{\"metadata\":{\"namespace\":\"team\",\"name\":\"mnli-u1-w1-2\",\"uid\":\"p1\"," OWNER ","    \
    "\"deletionTimestamp\":\"2026-11-21T08:01:00Z\",\"deletionGracePeriodSeconds\":60,"            \
    "\"labels\":{\"skyjob.dev/role\":\"worker\",\"skyjob.dev/slot\":\"1\","                        \
    "\"skyjob.dev/incarnation\":\"2\"}},\"status\":{\"phase\":\"Running\"}}"

static void store_shows_how_long_a_pod_has_to_end(void **state)
{
    (void)state;
    add_job("mnli", "u1", NULL);
    change(STORE_PODS, KUBE_ADDED, POD_HEAD "{\"phase\":\"Running\"}}");
    observe();
    assert_false(seen->pods[0].is_deleting);
    assert_int_equal(seen->pods[0].deleting_ms, 0);
    change(STORE_PODS, KUBE_MODIFIED, DELETING);
    observe();
    assert_true(seen->pods[0].is_deleting);
    assert_int_equal(seen->pods[0].grace_ms, 60000);
    assert_in_range(seen->pods[0].deleting_ms, 1, 60000);
}

/* They would hold its nodes for the whole grace period. */
static void store_finds_the_pods_of_a_job_that_is_gone(void **state)
{
    (void)state;
    add_job("mnli", "u1", NULL);
    change(STORE_PODS, KUBE_ADDED, POD_HEAD "{\"phase\":\"Running\"}}");
    assert_null(store_find_orphan(&store, "team/mnli"));
    n_touched = 0;
    add_job("mnli", "u9", NULL);
    assert_true(n_touched > 0);
    change(STORE_PODS, KUBE_MODIFIED, DELETING);
    assert_null(store_find_orphan(&store, "team/other"));
    assert_string_equal(store_find_orphan(&store, "team/mnli")->seen.uid, "p1");
    change(STORE_PODS, KUBE_DELETED, DELETING);
    assert_null(store_find_orphan(&store, "team/mnli"));
}

static struct store_own *own_pod(void)
{
    return store_find_own(&store, "team", "mnli-u1-w1-2", "p1");
}

/* With a key, and a running worker. */
static void begin_job(void)
{
    struct store_job *job;

    add_job("mnli", "u1", NULL);
    job = store_find_job(&store, "team/mnli");
    job->has_secret = true;
    job->secret = (struct hmac_key){{7}};
    change(STORE_PODS, KUBE_ADDED, POD_HEAD "{\"phase\":\"Running\"}}");
}

/* Until the worker has taken the order to end. */
static void store_keeps_the_key_of_a_job_that_is_gone_with_its_pods(void **state)
{
    static const struct hmac_key zeros;

    (void)state;
    begin_job();
    assert_false(own_pod()->is_to_end);
    add_job("mnli", "u9", NULL); /* another job of the name */
    change(STORE_PODS, KUBE_MODIFIED, DELETING);
    assert_true(own_pod()->is_orphan);
    assert_true(own_pod()->is_to_end);
    assert_int_equal(own_pod()->key.bytes[0], 7);
    store_drop_key(own_pod());
    assert_false(own_pod()->is_to_end);
    assert_memory_equal(&own_pod()->key, &zeros, sizeof zeros);
}

static void store_finds_no_worker_to_end_of_another_job_of_the_name(void **state)
{
    struct store_job *job;

    (void)state;
    add_job("mnli", "u8", NULL);
    job = store_find_job(&store, "team/mnli");
    job->has_secret = true;
    add_job("mnli", "u1", NULL);
    change(STORE_PODS, KUBE_ADDED, POD_HEAD "{\"phase\":\"Running\"}}");
    add_job("mnli", "u1", NULL);
    assert_false(own_pod()->is_to_end);
    assert_false(own_pod()->is_orphan);
}

/* As it is in the foreground, until its pods are gone. */
static void store_lets_the_workers_of_a_job_that_is_being_deleted_end(void **state)
{
    (void)state;
    begin_job();
    change(STORE_JOBS, KUBE_MODIFIED,
           "{\"metadata\":{\"namespace\":\"team\",\"name\":\"mnli\",\"uid\":\"u1\","
           "\"resourceVersion\":\"8\",\"deletionTimestamp\":\"2026-11-21T08:01:00Z\"},"
           "\"spec\":{}}");
    assert_true(own_pod()->is_to_end);
    assert_false(own_pod()->is_orphan);
    assert_int_equal(own_pod()->key.bytes[0], 7);
    own_pod()->calls.is_ended = true;
    store_drop_key(own_pod());
    change(STORE_JOBS, KUBE_DELETED,
           "{\"metadata\":{\"namespace\":\"team\",\"name\":\"mnli\",\"uid\":\"u1\"}}");
    assert_true(own_pod()->is_orphan);
    assert_false(own_pod()->is_to_end); /* it has taken the order */
}

static void store_refuses_objects_without_a_name(void **state)
{
    struct json *json;

    (void)state;
    assert_int_equal(json_parse("{\"metadata\":{}}", 15, &json, NULL), ERR_OK);
    assert_int_equal(store_change(&store, STORE_JOBS, KUBE_ADDED, json, NULL), ERR_INVALID);
    assert_int_equal(store_change(&store, STORE_PODS, KUBE_ADDED, json, NULL), ERR_INVALID);
    assert_int_equal(store_change(&store, STORE_NODES, KUBE_ADDED, json, NULL), ERR_INVALID);
    assert_int_equal(store_change(&store, STORE_REVISIONS, KUBE_ADDED, json, NULL), ERR_INVALID);
    json_free(json);
}

/* Of two jobs in turn, whose pods come, change and go. */
static void change_pod(const char *job, int slot, enum kube_change what)
{
    char text[1024];

    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"namespace\":\"team\",\"name\":\"%s-w%d\",\"uid\":\"%s%d\","
                   "\"ownerReferences\":[{\"apiVersion\":\"skyjob.dev/v1alpha1\",\"kind\":"
                   "\"SkyJob\",\"name\":\"%s\",\"uid\":\"u-%s\",\"controller\":true}],"
                   "\"labels\":{\"skyjob.dev/role\":\"worker\",\"skyjob.dev/slot\":\"%d\"}},"
                   "\"spec\":{\"containers\":[]},\"status\":{\"phase\":\"Running\"}}",
                   job, slot, job, slot, job, job, slot);
    change(STORE_PODS, what, text);
}

static void check_slots(const char *key, const char *want)
{
    char got[16] = "";

    for (const struct store_own *own = store_pods(&store, key); own; own = store_next_pod(own))
        (void)snprintf(got + strlen(got), sizeof got - strlen(got), "%d", own->seen.slot);
    assert_string_equal(got, want);
}

static void store_keeps_the_pods_of_each_job_together(void **state)
{
    (void)state;
    for (int slot = 0; slot < 4; slot++) {
        change_pod("one", slot, KUBE_ADDED);
        change_pod("two", slot, KUBE_ADDED);
    }
    check_slots("team/one", "0123");
    change_pod("one", 1, KUBE_MODIFIED); /* the newest now */
    check_slots("team/one", "0231");
    check_slots("team/two", "0123");
    change_pod("one", 0, KUBE_DELETED);
    change_pod("one", 3, KUBE_DELETED);
    change_pod("one", 1, KUBE_DELETED);
    check_slots("team/one", "2");
    change_pod("one", 2, KUBE_DELETED);
    check_slots("team/one", "");
    check_slots("team/two", "0123");
    for (int slot = 3; slot >= 0; slot--)
        change_pod("two", slot, KUBE_DELETED);
    assert_int_equal(store.families.n, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(store_keeps_the_pods_of_each_job_together),
        TEST(store_shows_a_job_and_its_status),
        TEST(store_shows_why_a_spec_is_invalid),
        TEST(store_keeps_no_documents_of_a_job_that_is_over),
        TEST(store_keeps_an_observed_spec_until_the_next_observation),
        TEST(store_shows_a_running_pod),
        TEST(pods_time_to_start_begins_when_it_is_no_longer_gated),
        TEST(store_reads_the_last_words_of_a_worker),
        TEST(store_takes_a_lost_container_for_a_disruption),
        TEST(store_tells_the_ends_of_pods_apart),
        TEST(store_remembers_who_has_accepted_which_revision),
        TEST(store_calls_a_worker_that_becomes_ready_at_once),
        TEST(store_counts_what_others_request_of_a_node),
        TEST(store_keeps_what_a_plan_promises_until_its_pod_is_bound),
        TEST(store_remembers_a_revision_that_was_deleted_while_it_is_needed),
        TEST(store_forgets_a_revision_that_was_deleted_once_there_is_a_newer_one),
        TEST(store_counts_jobs_by_their_state),
        TEST(store_knows_when_a_job_that_is_over_expires),
        TEST(store_knows_a_job_of_another_controller),
        TEST(store_keeps_the_text_of_a_revision),
        TEST(store_shows_a_report_for_as_long_as_the_observation),
        TEST(store_does_not_read_a_revision_under_a_wrong_label),
        TEST(store_keeps_the_uid_of_a_revision),
        TEST(store_counts_only_the_pod_whose_uid_the_status_has),
        TEST(store_counts_a_pod_that_was_created_until_it_is_another),
        TEST(store_shows_a_pod_that_has_taken_a_name_whatever_its_labels_say),
        TEST(store_leaves_out_pods_under_names_that_no_pod_of_the_job_has),
        TEST(store_does_not_take_a_probe_for_another_nodes),
        TEST(store_takes_the_sizes_of_a_model_from_its_own_reader_only),
        TEST(store_completes_a_spec_with_the_sizes_in_its_status),
        TEST(store_wakes_waiting_jobs_when_a_node_really_changes),
        TEST(store_counts_the_jobs_that_train),
        TEST(store_takes_a_new_job_of_the_same_name_for_another),
        TEST(store_shows_how_long_a_pod_has_to_end),
        TEST(store_finds_the_pods_of_a_job_that_is_gone),
        TEST(store_keeps_the_key_of_a_job_that_is_gone_with_its_pods),
        TEST(store_finds_no_worker_to_end_of_another_job_of_the_name),
        TEST(store_lets_the_workers_of_a_job_that_is_being_deleted_end),
        TEST(store_refuses_objects_without_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
