/* The Secret with the certificates of a job's pods. */
#include "run/certificates.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "secrets.h"

#define KEY   "team/mnli"
#define UID   "u1"
#define NOW_S ((int64_t)time(NULL))
#define PATH  "/api/v1/namespaces/team/secrets"
#define CA                                                                                         \
    {                                                                                              \
        .expect = "GET /api/v1/namespaces/sky/secrets/ca ", .body = ca_secret                      \
    }
#define OWNED                                                                                      \
    "\"name\":\"mnli-certificates\",\"ownerReferences\":[{\"apiVersion\":\"skyjob.dev/v1alpha1\"," \
    "\"kind\":\"SkyJob\",\"name\":\"mnli\",\"uid\":\"" UID "\",\"controller\":true}],"             \
    "\"namespace\":\"team\""

static struct http *loop;
static struct loopback *server;
static struct kube_client *client;
static struct issuer *issuer;
static struct store store;
static struct store_view view;
static struct observed *seen;
static struct decision *decision;
static struct seen_pod pods[3];
static struct authority_pair ca, other_ca;
static struct authority_pair pair; /* of a worker, by `ca` */
static const char *ca_secret;
static struct err err;

static void begin(const struct loopback_reply *replies, size_t n)
{
    static const char text[] =
        "{\"metadata\":{\"namespace\":\"team\",\"name\":\"mnli\",\"uid\":\"" UID "\","
        "\"resourceVersion\":\"5\"},\"spec\":{\"data\":{\"source\":{\"sample\":\"MNLI\"}}}}";
    struct json *job = NULL;

    server = secrets_serve(replies, n);
    secrets_connect(server, &loop, &client);
    assert_int_equal(issuer_new(client, "sky", "ca", &issuer, &err), ERR_OK);
    assert_int_equal(issuer_tend(issuer, true, 1000, NOW_S, &err), ERR_OK);
    assert_int_equal(json_parse(text, strlen(text), &job, &err), ERR_OK);
    assert_int_equal(store_change(&store, STORE_JOBS, KUBE_ADDED, job, &err), ERR_OK);
    json_free(job);
    assert_int_equal(store_observe(&store, KEY, &view, seen, &err), ERR_OK);
}
#define BEGIN(...)                                                                                 \
    const struct loopback_reply replies[] = {__VA_ARGS__};                                         \
    begin(replies, sizeof replies / sizeof *replies)

/* The job's Secret with certificates of these files, which all hold the same. */
static const char *secret_with(const char *metadata, const struct authority_pair *issued_by,
                               const char *crt, const char *more)
{
    const struct secret_member members[] = {{"ca.crt", buf_text(&issued_by->certificate)},
                                            {crt, buf_text(&pair.certificate)},
                                            {more, more ? buf_text(&pair.certificate) : NULL},
                                            {NULL, NULL}};

    return secret_json("Opaque", metadata, members);
}

static int set_up(void **state)
{
    (void)state;
    ca = certificates_authority();
    other_ca = certificates_authority();
    pair = certificates_pair(&ca, "w0-1.u1.skyjob.internal", NOW_S + ISSUER_VALID_S);
    ca_secret = secret_of_ca(&ca);
    seen = calloc(1, sizeof *seen);
    decision = calloc(1, sizeof *decision);
    memset(pods, 0, sizeof pods);
    return seen && decision ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    store_view_deinit(&view);
    store_deinit(&store);
    issuer_free(issuer);
    kube_client_free(client);
    http_free(loop);
    secrets_stop(server);
    free(seen);
    free(decision);
    authority_pair_deinit(&ca);
    authority_pair_deinit(&other_ca);
    authority_pair_deinit(&pair);
    return 0;
}

static void add_pod(int slot, int incarnation)
{
    seen->pods = pods;
    pods[seen->n_pods++] = (struct seen_pod){.role = POD_WORKER,
                                             .slot = slot,
                                             .incarnation = incarnation,
                                             .phase = POD_RUNNING,
                                             .has_tls = true};
}

static enum err_code ensure(void)
{
    return certificates_ensure(client, issuer, &store, seen, decision, &err);
}

static void certificates_are_not_needed_without_pods_that_have_them(void **state)
{
    BEGIN(CA);

    (void)state;
    assert_int_equal(ensure(), ERR_OK);
    decision->n_actions = 1; /* no CA in the settings */
    decision->actions[0] = (struct action){.kind = ACTION_CREATE_PROBE_POD};
    assert_int_equal(ensure(), ERR_OK);
    assert_int_equal(loopback_strays(server), 0);
}

static void certificates_come_with_the_first_pods_all_at_once(void **state)
{
    const char *made = secret_with(OWNED, &ca, "w0-0.crt", NULL);
    BEGIN(CA, {.expect = "POST " PATH, .status = 201, .body = made});

    (void)state;
    seen->settings.has_tls = true;
    decision->n_actions = 2;
    decision->actions[0] = (struct action){.kind = ACTION_CREATE_PROBE_POD, .node = "a"};
    decision->actions[1] = (struct action){.kind = ACTION_CREATE_PROBE_POD, .node = "b"};
    assert_int_equal(ensure(), ERR_OK);
    assert_non_null(strstr(loopback_request(server, 1), "\"w0-0.crt\":\"-----BEGIN"));
    assert_non_null(strstr(loopback_request(server, 1), "\"w0-0.key\":\"-----BEGIN"));
    assert_non_null(strstr(loopback_request(server, 1), "\"ca.crt\":\"-----BEGIN"));
    assert_int_equal(ensure(), ERR_OK); /* nothing is left to do */
    assert_int_equal(loopback_strays(server), 0);
}

/* As when an operator was stopped between the Secret and the pods. */
static void add_metrics(void)
{
    pods[seen->n_pods - 1].has_metrics = true;
}

/* One pair for all workers of the job, beside their own. */
static void certificates_of_metrics_ports_are_one_pair_more(void **state)
{
    const char *before = secret_with(OWNED, &ca, "w0-1.crt", NULL);
    const char *after = secret_with(OWNED, &ca, "w0-1.crt", "metrics.crt");
    const char *sent;
    BEGIN(CA, {.expect = "GET " PATH "/mnli-certificates ", .body = before},
          {.expect = "PATCH " PATH "/mnli-certificates?", .body = after});

    (void)state;
    add_pod(0, 1);
    add_metrics();
    assert_int_equal(ensure(), ERR_OK);
    sent = loopback_request(server, 2);
    assert_non_null(strstr(sent, "\"metrics.crt\":\"-----BEGIN"));
    assert_non_null(strstr(sent, "\"metrics.key\":\"-----BEGIN"));
    assert_null(strstr(sent, "w0-1"));
    assert_int_equal(ensure(), ERR_OK); /* nothing is left to do */
    assert_int_equal(loopback_strays(server), 0);
}

/* The pair comes with the first pod that is to have it, and goes with none. */
static void certificates_of_metrics_ports_come_only_with_metrics(void **state)
{
    const char *before = secret_with(OWNED, &ca, "w0-1.crt", "metrics.crt");
    const char *without = secret_with(OWNED, &ca, "w0-1.crt", "w1-1.crt");
    const char *with = secret_with(OWNED, &ca, "w1-1.crt", "metrics.crt");
    BEGIN(CA, {.expect = "GET " PATH "/mnli-certificates ", .body = before},
          {.expect = "PATCH " PATH "/mnli-certificates?", .body = without},
          {.expect = "PATCH " PATH "/mnli-certificates?", .body = with});

    (void)state;
    add_pod(0, 1);
    seen->settings.has_worker_metrics = true; /* for new pods */
    assert_int_equal(ensure(), ERR_OK);
    seen->settings.has_worker_metrics = false;
    decision->n_actions = 1;
    decision->actions[0] = (struct action){.kind = ACTION_CREATE_WORKER_POD, .stage = 1};
    seen->revision.plan.workers[1] = (struct plan_worker){.slot = 1, .incarnation = 1};
    assert_int_equal(ensure(), ERR_OK);
    assert_null(strstr(loopback_request(server, 2), "metrics"));
    seen->settings.has_worker_metrics = true;
    assert_int_equal(ensure(), ERR_OK);
    assert_non_null(strstr(loopback_request(server, 3), "\"metrics.crt\":\"-----BEGIN"));
    assert_int_equal(loopback_strays(server), 0);
}

static void certificates_that_were_made_before_any_pod_are_found(void **state)
{
    const char *before = secret_with(OWNED, &ca, "w5-1.crt", NULL);
    const char *after = secret_with(OWNED, &ca, "w0-0.crt", NULL);
    BEGIN(CA, {.expect = "POST " PATH, .status = 409, .body = "{}"},
          {.expect = "GET " PATH "/mnli-certificates ", .body = before},
          {.expect = "PATCH " PATH "/mnli-certificates?", .body = after});

    (void)state;
    seen->settings.has_tls = true;
    decision->n_actions = 1;
    decision->actions[0] = (struct action){.kind = ACTION_CREATE_PROBE_POD, .node = "a"};
    assert_int_equal(ensure(), ERR_OK);
    assert_non_null(strstr(loopback_request(server, 3), "\"w0-0.crt\":\"-----BEGIN"));
    assert_int_equal(ensure(), ERR_OK);
    assert_int_equal(loopback_strays(server), 0);
}

static void certificates_of_a_new_pod_are_added_and_those_of_the_old_removed(void **state)
{
    const char *before = secret_with(OWNED, &ca, "w0-1.crt", "w1-1.crt");
    const char *after = secret_with(OWNED, &ca, "w0-1.crt", "w1-2.crt");
    BEGIN(CA, {.expect = "GET " PATH "/mnli-certificates ", .body = before},
          {.expect = "PATCH " PATH "/mnli-certificates?", .body = after});
    const char *sent;

    (void)state;
    add_pod(0, 1);
    add_pod(1, 2);
    assert_int_equal(ensure(), ERR_OK);
    sent = loopback_request(server, 2);
    assert_non_null(strstr(sent, "\"w1-2.crt\":\"-----BEGIN"));
    assert_non_null(strstr(sent, "\"w1-1.crt\":null"));
    assert_non_null(strstr(sent, "\"w1-1.key\":null"));
    assert_null(strstr(sent, "w0-1"));
    assert_int_equal(ensure(), ERR_OK);
    assert_int_equal(loopback_strays(server), 0);
}

static void certificates_are_issued_again_before_they_end(void **state)
{
    const char *after = secret_with(OWNED, &ca, "w0-1.crt", NULL);
    const char *before;

    (void)state;
    authority_pair_deinit(&pair);
    pair = certificates_pair(&ca, "w0-1.u1.skyjob.internal", NOW_S);
    before = secret_with(OWNED, &ca, "w0-1.crt", NULL);
    BEGIN(CA, {.expect = "GET " PATH "/mnli-certificates ", .body = before},
          {.expect = "PATCH " PATH "/mnli-certificates?", .body = after});
    add_pod(0, 1);
    assert_int_equal(ensure(), ERR_OK);
    assert_non_null(strstr(loopback_request(server, 2), "\"w0-1.crt\":\"-----BEGIN"));
}

static void certificates_are_issued_again_when_the_ca_changes(void **state)
{
    const char *before = secret_with(OWNED, &other_ca, "w0-1.crt", NULL);
    const char *after = secret_with(OWNED, &ca, "w0-1.crt", NULL);
    BEGIN(CA, {.expect = "GET " PATH "/mnli-certificates ", .body = before},
          {.expect = "PATCH " PATH "/mnli-certificates?", .body = after});

    (void)state;
    add_pod(0, 1);
    assert_int_equal(ensure(), ERR_OK);
    assert_non_null(strstr(loopback_request(server, 2), "\"ca.crt\":\"-----BEGIN"));
    assert_int_equal(ensure(), ERR_OK);
    assert_int_equal(loopback_strays(server), 0);
}

static void certificates_that_were_deleted_are_made_again(void **state)
{
    const char *made = secret_with(OWNED, &ca, "w0-1.crt", NULL);
    BEGIN(CA, {.expect = "GET " PATH "/mnli-certificates ", .body = made},
          {.expect = "PATCH " PATH "/mnli-certificates?", .status = 404, .body = "{}"},
          {.expect = "GET " PATH "/mnli-certificates ", .status = 404, .body = "{}"},
          {.expect = "POST " PATH, .status = 201, .body = made});

    (void)state;
    add_pod(0, 1);
    assert_int_equal(ensure(), ERR_OK);
    add_pod(1, 1);
    assert_int_equal(ensure(), ERR_CONFLICT);
    seen->n_pods = 1;
    assert_int_equal(ensure(), ERR_OK);
    assert_int_equal(loopback_strays(server), 0);
    assert_int_equal(loopback_unused(server), 0);
}

static void certificates_are_never_put_into_anothers_secret(void **state)
{
    const char *foreign = secret_with("\"name\":\"mnli-certificates\"", &ca, "w0-1.crt", NULL);
    BEGIN(CA, {.expect = "GET " PATH "/mnli-certificates ", .body = foreign});

    (void)state;
    add_pod(0, 1);
    assert_int_equal(ensure(), ERR_CONFLICT);
    assert_non_null(strstr(err.text, "does not belong to this SkyJob"));
    assert_int_equal(loopback_strays(server), 0);
}

static void certificates_need_an_issuer_where_pods_have_them(void **state)
{
    BEGIN(CA);

    (void)state;
    add_pod(0, 1);
    assert_int_equal(certificates_ensure(client, NULL, &store, seen, decision, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "--authority"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(certificates_are_not_needed_without_pods_that_have_them),
        TEST(certificates_come_with_the_first_pods_all_at_once),
        TEST(certificates_of_metrics_ports_are_one_pair_more),
        TEST(certificates_of_metrics_ports_come_only_with_metrics),
        TEST(certificates_that_were_made_before_any_pod_are_found),
        TEST(certificates_of_a_new_pod_are_added_and_those_of_the_old_removed),
        TEST(certificates_are_issued_again_before_they_end),
        TEST(certificates_are_issued_again_when_the_ca_changes),
        TEST(certificates_that_were_deleted_are_made_again),
        TEST(certificates_are_never_put_into_anothers_secret),
        TEST(certificates_need_an_issuer_where_pods_have_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
