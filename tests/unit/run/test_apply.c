/* The steps of a decision against an API server that answers what a test wants. */
#include "run/apply.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "loopback.h"

#define KEY "team/mnli"

static struct http *loop;
static struct loopback *server;
static struct kube_client *client;
static struct kube_recorder recorder;
static struct store store;
static struct store_view view;
static struct observed *seen;
static struct decision *decision;

/* A job of this spec in the store, and an API server that gives these replies. */
static void begin(const char *spec_text, const struct loopback_reply *replies, size_t n)
{
    struct kube_config config = {.namespace = strdup("default")};
    struct json *job = NULL;
    char text[1024];
    struct err err = {0};

    server = loopback_start(replies, n);
    assert_non_null(server);
    assert_true(asprintf(&config.server, "http://127.0.0.1:%d", loopback_port(server)) > 0);
    assert_int_equal(http_new(&loop, &err), ERR_OK);
    assert_int_equal(kube_client_new(loop, &config, NULL, &client, &err), ERR_OK);
    recorder = (struct kube_recorder){.client = client, .component = "tester"};
    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"namespace\":\"team\",\"name\":\"mnli\",\"uid\":\"u1\","
                   "\"resourceVersion\":\"5\",\"generation\":2},\"spec\":%s}",
                   spec_text);
    assert_int_equal(json_parse(text, strlen(text), &job, &err), ERR_OK);
    assert_int_equal(store_change(&store, STORE_JOBS, KUBE_ADDED, job, &err), ERR_OK);
    json_free(job);
    seen = calloc(1, sizeof *seen);
    decision = calloc(1, sizeof *decision);
    assert_true(seen && decision);
    assert_int_equal(store_observe(&store, KEY, &view, seen, &err), ERR_OK);
    decision->ask_leader_ms = -1;
    decision->ask_reports_ms = -1;
    decision->status = seen->status;
}
#define BEGIN(spec, ...)                                                                           \
    static const struct loopback_reply replies[] = {__VA_ARGS__};                                  \
    begin(spec, replies, sizeof replies / sizeof *replies)

static int end(void **state)
{
    (void)state;
    store_view_deinit(&view);
    store_deinit(&store);
    kube_client_free(client);
    http_free(loop);
    loopback_stop(server);
    free(seen);
    free(decision);
    return 0;
}

/* Take this one step. */
static enum err_code take(enum action_kind kind, struct err *err)
{
    struct apply apply = {.client = client, .recorder = &recorder, .store = &store};

    decision->n_actions = 1;
    decision->actions[0] = (struct action){.kind = kind};
    return apply_decision(&apply, seen, decision, err);
}

static void assert_data(enum data_state want, const char *problem)
{
    const struct store_job *job = store_find_job(&store, KEY);

    assert_int_equal(job->data.state, want);
    if (!strstr(job->data.problem, problem))
        fail_msg("\"%s\" is not in \"%s\"", problem, job->data.problem);
}

#define CLAIMS "GET /api/v1/namespaces/team/persistentvolumeclaims/"
#define OUTPUT                                                                                     \
    "{\"data\":{\"source\":{\"sample\":\"MNLI\"}},"                                                \
    "\"output\":{\"persistentVolumeClaim\":{\"claimName\":\"out\"}}}"
#define CHECKPOINT                                                                                 \
    "{\"data\":{\"source\":{\"sample\":\"MNLI\"}},"                                                \
    "\"checkpoint\":{\"store\":{\"persistentVolumeClaim\":{\"claimName\":\"saves\"}}}}"
#define MODEL                                                                                      \
    "{\"model\":{\"preset\":\"BertTiny\","                                                         \
    "\"from\":{\"persistentVolumeClaim\":{\"claimName\":\"bert\"}}},"                              \
    "\"data\":{\"source\":{\"persistentVolumeClaim\":{\"claimName\":\"texts\"}}}}"

static void apply_finds_that_the_output_claim_is_missing(void **state)
{
    struct err err = {0};

    (void)state;
    BEGIN(OUTPUT, {.expect = CLAIMS "out ", .status = 404, .body = "{}"});
    assert_int_equal(take(ACTION_READ_DATA, &err), ERR_OK);
    assert_data(DATA_NO_CLAIM, "There is no PersistentVolumeClaim \"out\" "
                               "(spec.output.persistentVolumeClaim)");
}

static void apply_finds_that_the_checkpoint_claim_is_missing(void **state)
{
    struct err err = {0};

    (void)state;
    BEGIN(CHECKPOINT, {.expect = CLAIMS "saves ", .status = 404, .body = "{}"});
    assert_int_equal(take(ACTION_READ_DATA, &err), ERR_OK);
    assert_data(DATA_NO_CLAIM, "There is no PersistentVolumeClaim \"saves\" "
                               "(spec.checkpoint.store.persistentVolumeClaim)");
}

static void apply_finds_that_the_model_claim_is_missing(void **state)
{
    struct err err = {0};

    (void)state;
    BEGIN(MODEL, {.expect = CLAIMS "texts ", .body = "{}"},
          {.expect = CLAIMS "bert ", .status = 404, .body = "{}"});
    assert_int_equal(take(ACTION_READ_DATA, &err), ERR_OK);
    assert_data(DATA_NO_CLAIM, "\"bert\" (spec.model.from.persistentVolumeClaim)");
}

static void apply_goes_on_when_it_may_not_read_claims(void **state)
{
    struct err err = {0};

    (void)state;
    BEGIN(OUTPUT, {.expect = CLAIMS "out ", .status = 403, .body = "{}"});
    assert_int_equal(take(ACTION_READ_DATA, &err), ERR_OK);
    assert_data(DATA_PRESENT, "");
}

static void apply_finds_all_claims(void **state)
{
    struct err err = {0};

    (void)state;
    BEGIN(MODEL, {.expect = CLAIMS "texts ", .body = "{\"spec\":{\"volumeName\":\"v\"}}"},
          {.expect = "GET /api/v1/persistentvolumes/v ", .body = "{}"},
          {.expect = CLAIMS "bert ", .body = "{}"});
    assert_int_equal(take(ACTION_READ_DATA, &err), ERR_OK);
    assert_data(DATA_PRESENT, "");
    assert_int_equal(loopback_unused(server), 0);
}

/* --- what is left of a job that is gone --- */

#define GONE_POD(metadata, spec)                                                                   \
    "{\"metadata\":{\"namespace\":\"team\",\"name\":\"mnli-u1-w0-1\",\"uid\":\"p1\"," metadata     \
    "\"ownerReferences\":[{\"apiVersion\":\"skyjob.dev/v1alpha1\",\"kind\":\"SkyJob\",\"name\":"   \
    "\"mnli\",\"uid\":\"u1\",\"controller\":true}],\"labels\":{\"skyjob.dev/role\":\"worker\","    \
    "\"kueue.x-k8s.io/pod-group-name\":\"mnli-u1-g4\",\"skyjob.dev/slot\":\"0\","                  \
    "\"skyjob.dev/incarnation\":\"1\"}},\"spec\":{" spec "}}"

static void see(enum store_kind kind, enum kube_change change, const char *text)
{
    struct json *object = NULL;
    struct err err = {0};

    assert_int_equal(json_parse(text, strlen(text), &object, &err), ERR_OK);
    assert_int_equal(store_change(&store, kind, change, object, &err), ERR_OK);
    json_free(object);
}

static void delete_job(void)
{
    see(STORE_JOBS, KUBE_DELETED, "{\"metadata\":{\"namespace\":\"team\",\"name\":\"mnli\"}}");
}

static void drop_orphans(void)
{
    struct workers workers = {.store = &store};
    struct apply apply = {.client = client, .store = &store, .workers = &workers};

    assert_int_equal(apply_orphans(&apply, KEY, NULL), ERR_OK);
}

/* A grace period is for workers that are drained. */
static void apply_deletes_what_is_left_of_a_job_that_is_gone_at_once(void **state)
{
    (void)state;
    BEGIN(MODEL, {.expect = "DELETE /api/v1/namespaces/team/pods/mnli-u1-w0-1 ", .body = "{}"});
    see(STORE_PODS, KUBE_ADDED, GONE_POD("", "\"nodeName\":\"n1\""));
    drop_orphans();
    assert_int_equal(loopback_unused(server), 1);
    delete_job();
    drop_orphans();
    assert_int_equal(loopback_unused(server), 0);
    assert_non_null(strstr(loopback_request(server, 0), "\"gracePeriodSeconds\":1,"));
    drop_orphans(); /* each once */
}

/* Else Kueue would wait for the next pod for ever. */
static void apply_deletes_the_group_of_pods_that_never_ran_when_their_job_is_gone(void **state)
{
    static const char deleted[] = GONE_POD("\"deletionTimestamp\":\"2026-11-27T08:00:00Z\",", "");

    (void)state;
    BEGIN(MODEL, {.expect = "DELETE /api/v1/namespaces/team/pods/mnli-u1-w0-1 ", .body = "{}"},
          {.expect = "DELETE /apis/kueue.x-k8s.io/v1beta2/namespaces/team/workloads/mnli-u1-g4 ",
           .body = "{}"});
    see(STORE_PODS, KUBE_ADDED, deleted);
    drop_orphans();
    assert_int_equal(loopback_unused(server), 2);
    delete_job();
    drop_orphans();
    assert_int_equal(loopback_unused(server), 0);
}

static void apply_goes_on_where_it_may_not_delete_groups(void **state)
{
    struct err err = {0};

    (void)state;
    BEGIN(MODEL, {.expect = "DELETE /apis/kueue.x-k8s.io/", .status = 403});
    assert_int_equal(take(ACTION_DELETE_GROUP, &err), ERR_OK);
    assert_int_equal(loopback_unused(server), 0);
}

/* That one, and not another one of its name. */
static void apply_deletes_a_job_by_its_uid(void **state)
{
    struct err err = {0};

    (void)state;
    BEGIN(MODEL, {.expect = "DELETE /apis/skyjob.dev/v1alpha1/namespaces/team/skyjobs/mnli ",
                  .body = "{}"});
    assert_int_equal(take(ACTION_DELETE_JOB, &err), ERR_OK);
    assert_int_equal(loopback_unused(server), 0);
    assert_non_null(strstr(loopback_request(server, 0), "\"uid\":\"u1\""));
}

#define MAPS   "POST /api/v1/namespaces/team/configmaps"
#define STATUS "PATCH /apis/skyjob.dev/v1alpha1/namespaces/team/skyjobs/mnli/status"
#define SAMPLE "{\"data\":{\"source\":{\"sample\":\"MNLI\"}}}"

/* As the loop does: observe, decide, apply. Returns how often in a row a step has failed. */
static int again(enum err_code want)
{
    struct err err = {0};

    assert_int_equal(store_observe(&store, KEY, &view, seen, &err), ERR_OK);
    decision->status = seen->status;
    (void)snprintf(decision->status.message, sizeof decision->status.message, "%s",
                   seen->problem.text);
    assert_int_equal(take(ACTION_CREATE_PROBE_SPEC, &err), want);
    return store_find_job(&store, KEY)->problem.n_in_a_row;
}

static void apply_writes_the_status_when_a_webhook_fails_again(void **state)
{
    (void)state;
    BEGIN(SAMPLE, {.expect = MAPS, .status = 500, .body = "failed calling webhook"},
          {.expect = MAPS, .status = 500, .body = "failed calling webhook"},
          {.expect = STATUS, .body = "{}"}, {.expect = MAPS, .status = 201, .body = "{}"});
    assert_int_equal(again(ERR_IO), 1);
    assert_int_equal(loopback_unused(server), 3); /* no status yet */
    assert_int_equal(again(ERR_IO), 2);
    assert_non_null(strstr(loopback_request(server, 2), "failed calling webhook"));
    decision->status = seen->status;
    assert_int_equal(take(ACTION_CREATE_PROBE_SPEC, &(struct err){0}), ERR_OK);
    assert_int_equal(store_find_job(&store, KEY)->problem.n_in_a_row, 0);
}

static void apply_writes_only_a_status_that_differs(void **state)
{
    struct apply apply;
    const struct store_job *job;

    (void)state;
    BEGIN(SAMPLE, {.expect = STATUS,
                   .body = "{\"metadata\":{\"namespace\":\"team\",\"name\":\"mnli\","
                           "\"uid\":\"u1\",\"resourceVersion\":\"6\"}}"});
    apply = (struct apply){.client = client, .recorder = &recorder, .store = &store};
    job = store_find_job(&store, KEY);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(apply_decision(&apply, seen, decision, &(struct err){0}), ERR_OK);
        assert_string_equal(job->shown_version, seen->version);
        assert_true(job->shown == hash_bytes(HASH_START, &decision->status, STATUS_BYTES(0)));
    }
    assert_int_equal(loopback_unused(server), 1);
    (void)snprintf(decision->status.message, sizeof decision->status.message, "new");
    assert_int_equal(apply_decision(&apply, seen, decision, &(struct err){0}), ERR_OK);
    assert_int_equal(loopback_unused(server), 0);
}

static void apply_keeps_that_a_name_is_taken(void **state)
{
    const struct store_job *job;

    (void)state;
    BEGIN(SAMPLE, {.expect = MAPS, .status = 409, .body = "{}"},
          {.expect = "GET /api/v1/namespaces/team/configmaps/", .body = "{}"});
    assert_int_equal(again(ERR_CONFLICT), 1);
    job = store_find_job(&store, KEY);
    assert_int_equal(job->problem.code, ERR_CONFLICT);
    assert_non_null(strstr(job->problem.text, "exists and does not belong to this SkyJob"));
}

static void apply_takes_the_other_steps_when_one_is_refused(void **state)
{
    struct apply apply;
    struct err err = {0};

    (void)state;
    BEGIN(SAMPLE, {.expect = MAPS, .status = 403, .body = "quota"},
          {.expect = MAPS, .status = 201, .body = "{}"});
    apply = (struct apply){.client = client, .recorder = &recorder, .store = &store};
    decision->n_actions = 2;
    decision->actions[0].kind = decision->actions[1].kind = ACTION_CREATE_PROBE_SPEC;
    assert_int_equal(apply_decision(&apply, seen, decision, &err), ERR_DENIED);
    assert_int_equal(loopback_unused(server), 0);
    assert_non_null(strstr(err.text, "quota"));
}

#define POLICIES "POST /apis/networking.k8s.io/v1/namespaces/team/networkpolicies"

static void apply_goes_on_without_a_network_policy_and_says_so_once(void **state)
{
    struct err err = {0};

    (void)state;
    BEGIN(OUTPUT, {.expect = POLICIES, .status = 403, .body = "{}"},
          {.expect = "POST /api/v1/namespaces/team/events", .status = 201, .body = "{}"},
          {.expect = POLICIES, .status = 403, .body = "{}"});
    assert_int_equal(take(ACTION_CREATE_POLICY, &err), ERR_OK);
    assert_int_equal(take(ACTION_CREATE_POLICY, &err), ERR_OK);
    assert_int_equal(loopback_unused(server), 0);
}

static void apply_reads_what_the_kubelet_reports_of_a_pod(void **state)
{
    static const char pod[] =
        "{\"metadata\":{\"namespace\":\"team\",\"name\":\"mnli-u1-w1-1\",\"uid\":\"p1\","
        "\"ownerReferences\":[{\"apiVersion\":\"skyjob.dev/v1alpha1\",\"kind\":\"SkyJob\","
        "\"name\":\"mnli\",\"uid\":\"u1\",\"controller\":true}],\"labels\":{"
        "\"skyjob.dev/role\":\"worker\",\"skyjob.dev/slot\":\"1\",\"skyjob.dev/"
        "incarnation\":\"1\"}},"
        "\"spec\":{\"nodeName\":\"n1\"},\"status\":{\"phase\":\"Pending\"}}";
    struct apply apply;
    struct json *json = NULL;
    struct err err = {0};

    (void)state;
    BEGIN(SAMPLE, {.expect = "GET /api/v1/namespaces/team/events?",
                   .body = "{\"metadata\":{},\"items\":["
                           "{\"reason\":\"FailedMount\",\"message\":\"no such secret\","
                           "\"lastTimestamp\":\"2026-11-22T10:00:02Z\"},"
                           "{\"reason\":\"FailedMount\",\"message\":\"older\","
                           "\"lastTimestamp\":\"2026-11-22T10:00:01Z\"},"
                           "{\"reason\":\"FailedScheduling\",\"message\":\"no room\","
                           "\"lastTimestamp\":\"2026-11-22T10:00:03Z\"}]}"});
    apply = (struct apply){.client = client, .recorder = &recorder, .store = &store};
    assert_int_equal(json_parse(pod, strlen(pod), &json, &err), ERR_OK);
    assert_int_equal(store_change(&store, STORE_PODS, KUBE_ADDED, json, &err), ERR_OK);
    json_free(json);
    decision->n_actions = 1;
    decision->actions[0] =
        (struct action){.kind = ACTION_READ_EVENTS, .name = "mnli-u1-w1-1", .uid = "p1"};
    assert_int_equal(apply_decision(&apply, seen, decision, &err), ERR_OK);
    assert_string_equal(store_find_own(&store, "team", "mnli-u1-w1-1", "p1")->event,
                        "FailedMount: no such secret");
}

#define TEST(f) cmocka_unit_test_teardown(f, end)

/* --- secrets --- */

/* The text "000102...1f" as base64. */
#define KEY_BASE64                                                                                 \
    "MDAwMTAyMDMwNDA1MDYwNzA4MDkwYTBiMGMwZDBlMGYxMDExMTIxMzE0MTUxNjE3MTgxOTFhMWIxYzFkMWUxZg=="
#define SECRET(uid, key)                                                                           \
    "{\"metadata\":{\"name\":\"mnli-key\",\"namespace\":\"team\",\"ownerReferences\":[{"           \
    "\"kind\":\"SkyJob\",\"apiVersion\":\"skyjob.dev/v1alpha1\",\"controller\":true,"              \
    "\"name\":\"mnli\",\"uid\":\"" uid "\"}]},\"data\":{\"key\":\"" key "\"}}"

static struct store store;

static int add_job(void **state)
{
    static const char job[] = "{\"metadata\":{\"name\":\"mnli\",\"namespace\":\"team\","
                              "\"uid\":\"u1\",\"resourceVersion\":\"1\"},\"spec\":{}}";
    struct json *object = NULL;

    (void)state;
    if (json_parse(job, sizeof job - 1, &object, NULL) != ERR_OK ||
        store_change(&store, STORE_JOBS, KUBE_ADDED, object, NULL) != ERR_OK)
        return -1;
    json_free(object);
    return 0;
}

static int remove_job(void **state)
{
    (void)state;
    store_deinit(&store);
    memset(&store, 0, sizeof store);
    return 0;
}

static enum err_code take_secret(const char *text, struct err *err)
{
    struct json *object = NULL;
    enum err_code rc;

    assert_int_equal(json_parse(text, strlen(text), &object, NULL), ERR_OK);
    rc = secret_take(&store, object, err);
    json_free(object);
    return rc;
}

static void secret_gives_its_job_the_key(void **state)
{
    const struct store_job *job = store_find_job(&store, "team/mnli");

    (void)state;
    assert_false(job->has_secret);
    assert_int_equal(take_secret(SECRET("u1", KEY_BASE64), NULL), ERR_OK);
    assert_true(job->has_secret);
    for (int i = 0; i < HMAC_BYTES; i++)
        assert_int_equal(job->secret.bytes[i], i);
}

static void secret_of_another_job_of_the_name_is_not_taken(void **state)
{
    (void)state;
    assert_int_equal(take_secret(SECRET("u2", KEY_BASE64), NULL), ERR_OK);
    assert_false(store_find_job(&store, "team/mnli")->has_secret);
}

static void secret_without_a_key_is_an_error_that_quotes_nothing(void **state)
{
    static const char *const bad[] = {SECRET("u1", ""), SECRET("u1", "!!!!"),
                                      SECRET("u1", "c2VjcmV0"),
                                      SECRET("u1", KEY_BASE64 KEY_BASE64 KEY_BASE64)};
    struct err err;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(take_secret(bad[i], &err), ERR_INVALID);
        assert_non_null(strstr(err.text, "mnli-key"));
        assert_null(strstr(err.text, "secret"));
    }
    assert_false(store_find_job(&store, "team/mnli")->has_secret);
}

static void secret_is_written_with_a_new_key_unless_there_is_one(void **state)
{
    struct observed *observed = calloc(1, sizeof *observed);
    struct hmac_key key = {.bytes = {7}};
    struct buf a = {.max = 4096};
    struct buf b = {.max = 4096};

    (void)state;
    assert_non_null(observed);
    strcpy(observed->name, "mnli");
    strcpy(observed->namespace, "team");
    strcpy(observed->uid, "u1");
    assert_int_equal(secret_write(observed, NULL, &a, NULL), ERR_OK);
    assert_int_equal(secret_write(observed, NULL, &b, NULL), ERR_OK);
    assert_string_not_equal(buf_text(&a), buf_text(&b));
    buf_reset(&a);
    buf_reset(&b);
    assert_int_equal(secret_write(observed, &key, &a, NULL), ERR_OK);
    assert_int_equal(secret_write(observed, &key, &b, NULL), ERR_OK);
    assert_string_equal(buf_text(&a), buf_text(&b));
    buf_deinit(&a);
    buf_deinit(&b);
    free(observed);
}

#define SECRET_TEST(name) cmocka_unit_test_setup_teardown(name, add_job, remove_job)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(apply_finds_that_the_output_claim_is_missing),
        TEST(apply_finds_that_the_checkpoint_claim_is_missing),
        TEST(apply_finds_that_the_model_claim_is_missing),
        TEST(apply_goes_on_when_it_may_not_read_claims),
        TEST(apply_finds_all_claims),
        TEST(apply_reads_what_the_kubelet_reports_of_a_pod),
        TEST(apply_writes_the_status_when_a_webhook_fails_again),
        TEST(apply_writes_only_a_status_that_differs),
        TEST(apply_keeps_that_a_name_is_taken),
        TEST(apply_takes_the_other_steps_when_one_is_refused),
        TEST(apply_deletes_what_is_left_of_a_job_that_is_gone_at_once),
        TEST(apply_deletes_the_group_of_pods_that_never_ran_when_their_job_is_gone),
        TEST(apply_goes_on_where_it_may_not_delete_groups),
        TEST(apply_deletes_a_job_by_its_uid),
        TEST(apply_goes_on_without_a_network_policy_and_says_so_once),
        SECRET_TEST(secret_gives_its_job_the_key),
        SECRET_TEST(secret_of_another_job_of_the_name_is_not_taken),
        SECRET_TEST(secret_without_a_key_is_an_error_that_quotes_nothing),
        SECRET_TEST(secret_is_written_with_a_new_key_unless_there_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
