/* For 200 random clusters, the operator and `kubectl skyjob plan` make the same plan of the same
 * objects, with the same reasons. Both get nothing but these objects, as the API server has them:
 * the operator through its store, as from watches, the CLI as from lists. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/plan.h"
#include "base/clock.h"
#include "base/json.h"
#include "cli/cluster.h"
#include "cli/local.h"
#include "control/decide.h"
#include "run/store.h"

#define CLUSTERS  200
#define MANY      25 /* one cluster in MANY is large */
#define NODES_MAX 90
#define JOBS      3
#define NOW_MS    INT64_C(1795334400000)
#define NOW       "2026-11-22T08:00:00Z"
#define HOUR_MS   (INT64_C(60) * 60 * 1000)

static struct {
    uint64_t dice;
    struct store store;
    struct store_view view;
    struct cluster cluster;
    struct observed *seen;
    struct decision *decision;
    struct local *local;
    struct json *spec;
    int n_planned, n_planned_large, n_measured, n_without;
} at;

static int below(int n)
{
    at.dice = at.dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((at.dice >> 33) % (unsigned)n);
}

static bool one_in(int n)
{
    return below(n) == 0;
}

/* --- objects, as both programs get them --- */

static struct json *parse(const char *text)
{
    struct json *json = NULL;
    struct err err;

    if (json_parse(text, strlen(text), &json, &err) != ERR_OK)
        fail_msg("%s: %s", err.text, text);
    return json;
}

static void store(enum store_kind kind, const struct json *object)
{
    assert_int_equal(store_change(&at.store, kind, KUBE_ADDED, object, NULL), ERR_OK);
}

static void write_measurement(struct jsonw *w, int i, int n_nodes, int cpu_milli)
{
    struct buf text = {.max = ANNOTATION_TEXT_MAX_BYTES};
    struct annotation_probe p = {.cpu_milli = 250 * (1 + below(8)),
                                 .time_ms = NOW_MS - HOUR_MS * (1 + below(one_in(6) ? 1200 : 600))};

    p.found = (struct node_probe){.gflops = 5 * (1 + below(20)),
                                  .unit_ms = 0.1 * below(5),
                                  .threads = 1,
                                  .has_bf16 = (enum node_answer)below(3)};
    (void)snprintf(p.found.cpu_model, sizeof p.found.cpu_model, "EPYC %d", below(3));
    if (!one_in(3))
        p.found.message = (struct node_message){.ms = 0.1, .byte_ns = 0.5 * (1 + below(4))};
    if (!one_in(3))
        p.found.lengths = (struct node_lengths){.mean = 10 + below(40), .mean_square = 3000};
    if (!one_in(3))
        p.found.pace = (struct node_pace){.attention = 1 + below(3), .ffn = 1, .parameter = 100};
    for (int k = 0; k < 3 && n_nodes > 3; k++) {
        struct node_link *l = &p.found.links[p.found.n_links++];

        (void)snprintf(l->node, sizeof l->node, "n%02d", (i + 1 + k) % n_nodes);
        l->bytes_per_s = 1e7 * (1 + below(50));
        l->latency_ms = 0.1 * (1 + below(9));
    }
    p.subject.cpu_milli = one_in(8) ? 1234 : cpu_milli;
    p.subject.memory_bytes = (int64_t)4 << 30;
    (void)snprintf(p.subject.image, sizeof p.subject.image, "%s", one_in(4) ? "" : "worker:1");
    if (one_in(6))
        (void)snprintf(p.subject.work, sizeof p.subject.work, "other");
    else
        annotation_work(&at.local->job.spec, "team", p.subject.work);
    assert_int_equal(annotation_probe_write(&p, &text, NULL), ERR_OK);
    jsonw_string(w, ANNOTATION_PROBE, one_in(10) ? "{\"found\":7}" : buf_text(&text));
    if (one_in(10))
        jsonw_string(w, ANNOTATION_CONTRADICTED, NOW);
    buf_deinit(&text);
}

__attribute__((format(printf, 3, 4))) static void write_text(struct jsonw *w, const char *key,
                                                             const char *fmt, ...)
{
    char text[256];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    jsonw_string(w, key, text);
}

static void write_condition(struct jsonw *w, const char *type, const char *status)
{
    jsonw_open_object(w, NULL);
    jsonw_string(w, "type", type);
    jsonw_string(w, "status", status);
    jsonw_close(w);
}

static void write_node(struct jsonw *w, int i, int n_nodes)
{
    static const char *const bad[] = {"inf", "", "12 GFLOPS", "-3", "1e300"};
    static const int milli[] = {500, 1000, 2000, 4000, 96000};
    int cpu = milli[below(5)];

    jsonw_open_object(w, NULL);
    jsonw_open_object(w, "metadata");
    write_text(w, "name", "n%02d", i);
    jsonw_open_object(w, "labels");
    if (one_in(8))
        jsonw_string(w, LABEL_GFLOPS, bad[below(5)]);
    else if (!one_in(3))
        write_text(w, LABEL_GFLOPS, "%d", 10 * (1 + below(12)));
    if (one_in(5))
        write_text(w, LABEL_LINK_MBIT, "%d%s", 100 * (1 + below(9)), one_in(4) ? " Mbit" : "");
    if (one_in(5))
        jsonw_string(w, "feature.node.kubernetes.io/cpu-cpuid.AVX2", "true");
    jsonw_close(w);
    jsonw_open_object(w, "annotations");
    if (one_in(4))
        jsonw_string(w, LABEL_UNIT_MS, one_in(3) ? "slow" : "0.2");
    if (!one_in(4))
        write_measurement(w, i, n_nodes, cpu);
    jsonw_close(w);
    jsonw_close(w);
    jsonw_open_object(w, "spec");
    if (one_in(12))
        jsonw_bool(w, "unschedulable", true);
    jsonw_open_array(w, "taints");
    if (one_in(12)) {
        jsonw_open_object(w, NULL);
        jsonw_string(w, "key", "gpu");
        jsonw_string(w, "effect", one_in(2) ? "NoSchedule" : "PreferNoSchedule");
        jsonw_close(w);
    }
    jsonw_close(w);
    jsonw_close(w);
    jsonw_open_object(w, "status");
    jsonw_open_object(w, "allocatable");
    if (!one_in(20))
        write_text(w, "cpu", "%d%s", cpu, one_in(20) ? " milli" : "m");
    jsonw_string(w, "memory", one_in(12) ? "100Mi" : "4Gi");
    jsonw_close(w);
    jsonw_open_array(w, "conditions");
    if (!one_in(12))
        write_condition(w, "Ready", one_in(12) ? "Unknown" : "True");
    write_condition(w, "DiskPressure", one_in(20) ? "True" : "False");
    jsonw_close(w);
    jsonw_close(w);
    jsonw_close(w);
}

static struct json *finish(struct jsonw *w, struct buf *text)
{
    struct json *json;

    assert_int_equal(jsonw_finish(w, NULL), ERR_OK);
    json = parse(buf_text(text));
    buf_deinit(text);
    return json;
}

static void add_node(int i, int n_nodes)
{
    struct buf text = {.max = 1 << 20};
    struct jsonw w;
    struct json *json;

    jsonw_init(&w, &text);
    write_node(&w, i, n_nodes);
    json = finish(&w, &text);
    store(STORE_NODES, json);
    assert_int_equal(cluster_add_node(&at.cluster, json, NULL), ERR_OK);
    json_free(json);
}

static void add_pod(const char *name, const char *job, int n_nodes)
{
    static const char *const phases[] = {"Pending", "Running", "Running", "Succeeded", "Failed"};
    char text[1024];
    char node[32] = "";
    struct json *json;

    if (!one_in(3))
        (void)snprintf(node, sizeof node, "n%02d", below(n_nodes));
    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"namespace\":\"team\",\"name\":\"%s\",\"uid\":\"p-%s\","
                   "\"labels\":{\"skyjob.dev/job\":\"%s\"}},\"spec\":{%s%s%s\"containers\":[{"
                   "\"resources\":{\"requests\":{\"cpu\":\"%dm\",\"memory\":\"%dMi\"}}}]},"
                   "\"status\":{\"phase\":\"%s\"}}",
                   name, name, job, *node ? "\"nodeName\":\"" : "", node, *node ? "\"," : "",
                   100 * below(30), 100 * below(30), phases[below(5)]);
    json = parse(text);
    store(STORE_PODS, json);
    assert_int_equal(cluster_add_pod(&at.cluster, json, NULL), ERR_OK);
    json_free(json);
}

/* Another job's plan of two stages; some of their pods exist. */
static void add_plan(const char *job, int revision, int n_nodes)
{
    struct buf inner = {.max = REVISION_TEXT_MAX_BYTES};
    struct buf text = {.max = 1 << 20};
    struct revision *r = calloc(1, sizeof *r);
    struct plan *p = &r->plan;
    int n_units = model_units(&at.local->job.spec.model);
    char name[NAMES_BYTES];
    struct jsonw w;
    struct json *json;

    assert_non_null(r);
    (void)snprintf(p->namespace, sizeof p->namespace, "team");
    (void)snprintf(p->job, sizeof p->job, "%s", job);
    (void)snprintf(p->uid, sizeof p->uid, "u-%s", job);
    p->revision = revision;
    p->spec = at.local->job.spec;
    p->micro_batches = 4;
    p->n_workers = 2;
    for (int s = 0; s < 2; s++) {
        struct plan_worker *stage = &p->workers[s];
        char pod[NAMES_BYTES];

        stage->slot = s;
        stage->incarnation = revision;
        stage->first_unit = s == 0 ? 0 : 3;
        stage->n_units = s == 0 ? 3 : n_units - 3;
        (void)snprintf(stage->node, sizeof stage->node, "n%02d", below(n_nodes));
        stage->cpu_milli = 100 * (1 + below(20));
        stage->memory_bytes = (int64_t)(1 + below(1000)) << 20;
        names_worker_pod(job, p->uid, s, stage->incarnation, pod);
        if (one_in(2))
            add_pod(pod, job, n_nodes);
    }
    resume_point(p, NULL, 0, SOURCE_RANDOM, NULL, &r->resume);
    assert_int_equal(revision_write(r, at.spec, &inner, NULL), ERR_OK);
    jsonw_init(&w, &text);
    jsonw_open_object(&w, NULL);
    jsonw_open_object(&w, "metadata");
    jsonw_string(&w, "namespace", "team");
    names_revision(job, p->uid, one_in(8) ? 77 : revision, name);
    jsonw_string(&w, "name", name);
    jsonw_open_array(&w, "ownerReferences");
    jsonw_open_object(&w, NULL);
    jsonw_string(&w, "apiVersion", "skyjob.dev/v1alpha1");
    jsonw_string(&w, "kind", "SkyJob");
    jsonw_string(&w, "name", job);
    write_text(&w, "uid", "u-%s", job);
    jsonw_bool(&w, "controller", true);
    jsonw_close(&w);
    jsonw_close(&w);
    jsonw_open_object(&w, "labels");
    write_text(&w, LABEL_REVISION, "%d", revision);
    jsonw_close(&w);
    jsonw_close(&w);
    jsonw_open_object(&w, "data");
    jsonw_string(&w, REVISION_FILE, buf_text(&inner));
    jsonw_close(&w);
    jsonw_close(&w);
    json = finish(&w, &text);
    store(STORE_REVISIONS, json);
    assert_int_equal(cluster_add_plan(&at.cluster, json, NULL), ERR_OK);
    json_free(json);
    buf_deinit(&inner);
    free(r);
}

static void add_job(const char *name, int revision, const char *condition)
{
    char *spec = json_print(at.spec);
    char text[1024];
    struct json *json;

    assert_non_null(spec);
    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"namespace\":\"team\",\"name\":\"%s\",\"uid\":\"u-%s\","
                   "\"creationTimestamp\":\"" NOW "\",\"generation\":1},\"spec\":%s,"
                   "\"status\":{\"revision\":%d,\"conditions\":[{\"type\":\"%s\","
                   "\"status\":\"True\"}]}}",
                   name, name, spec, revision, condition);
    free(spec);
    json = parse(text);
    store(STORE_JOBS, json);
    assert_int_equal(cluster_add_job(&at.cluster, json, NULL), ERR_OK);
    json_free(json);
}

static void make_spec(void)
{
    static const char *const policies[] = {"Never", "Never", "IfUnknown", "IfUnknown", "Always"};
    char text[1024];
    struct err err;

    (void)snprintf(text, sizeof text,
                   "{\"model\":{\"preset\":\"BertMini\"},\"data\":{\"source\":{\"sample\":"
                   "\"MNLI\"}},\"training\":{\"microBatches\":4,\"precision\":\"%s\"},"
                   "\"placement\":{\"maxStages\":3,\"probePolicy\":\"%s\"}}",
                   one_in(5) ? "BF16" : "FP32", policies[below(5)]);
    at.spec = parse(text);
    *at.local = (struct local){.job = {.namespace = "team", .name = "mine", .spec_json = at.spec}};
    if (spec_parse(at.spec, &at.local->job.spec, &err) != ERR_OK)
        fail_msg("%s", err.text);
}

static void make_cluster(int number)
{
    bool is_large = number % MANY == MANY - 1;
    int n_nodes = is_large ? NODES_MAX - below(20) : 1 + below(9);
    char name[64];

    make_spec();
    for (int i = 0; i < n_nodes; i++)
        add_node(i, n_nodes);
    cluster_close_nodes(&at.cluster);
    add_job("mine", 0, "Accepted");
    for (int i = 0; i < JOBS; i++) {
        int revision = 1 + below(2);

        (void)snprintf(name, sizeof name, "other-%d", i);
        if (!one_in(5))
            add_job(name, revision, one_in(4) ? "Complete" : "Accepted");
        for (int r = 1; r <= 2; r++)
            if (!one_in(3))
                add_plan(name, r, n_nodes);
    }
    for (int i = 0; i < n_nodes; i++) {
        (void)snprintf(name, sizeof name, "pod-%d", i);
        if (one_in(2))
            add_pod(name, "", n_nodes);
    }
}

/* --- what they make of them --- */

/* Twice, as the operator writes down the number before it plans. */
static void operate(void)
{
    struct err err;

    at.seen->now_ms = NOW_MS;
    if (store_observe(&at.store, "team/mine", &at.view, at.seen, &err) != ERR_OK)
        fail_msg("%s", err.text);
    (void)snprintf(at.seen->settings.worker_image, sizeof at.seen->settings.worker_image,
                   "worker:1");
    decide(at.seen, at.decision);
    at.seen->status = at.decision->status;
    decide(at.seen, at.decision);
}

static const struct action *find(enum action_kind kind, const char *text)
{
    for (int i = 0; i < at.decision->n_actions; i++) {
        const struct action *a = &at.decision->actions[i];

        if (a->kind == kind && strcmp(kind == ACTION_EVENT ? a->reason : a->node, text) == 0)
            return a;
    }
    return NULL;
}

/* The nodes that the operator measures are those whose figures the CLI lacks or doubts. */
static int compare_measured(const struct survey *s)
{
    int n = 0;

    for (int i = 0; i < s->n_nodes; i++) {
        const struct survey_node *node = &s->nodes[i];
        bool lacks = node->excluded == EXCLUDED_UNMEASURED ||
                     (node->excluded == EXCLUDED_NOT && node->stale &&
                      at.local->job.spec.placement.probe != SPEC_PROBE_NEVER);
        bool is_measured = find(ACTION_CREATE_PROBE_POD, node->object->name) != NULL;

        if (lacks != is_measured)
            fail_msg("node %s: the CLI %s it, the operator %s", node->object->name,
                     lacks ? "doubts" : "trusts", is_measured ? "measures it" : "does not");
        n += lacks;
    }
    return n;
}

static void compare_stages(const struct plan *operators, const struct plan *clis)
{
    assert_int_equal(operators->n_workers, clis->n_workers);
    for (int s = 0; s < clis->n_workers; s++) {
        assert_string_equal(operators->workers[s].node, clis->workers[s].node);
        assert_int_equal(operators->workers[s].first_unit, clis->workers[s].first_unit);
        assert_int_equal(operators->workers[s].n_units, clis->workers[s].n_units);
        assert_int_equal(operators->workers[s].cpu_milli, clis->workers[s].cpu_milli);
    }
    if (operators->summary.predicted_step_ms != clis->summary.predicted_step_ms)
        fail_msg("%g ms, %g ms", operators->summary.predicted_step_ms,
                 clis->summary.predicted_step_ms);
}

static void compare_reasons(const struct survey *s, const char *operators)
{
    char text[PLAN_REASON_BYTES] = "";
    const struct action *event = find(ACTION_EVENT, "InvalidNodeAnnotation");

    survey_add_excluded(s, text, sizeof text);
    if (!strstr(operators, text))
        fail_msg("\"%s\" is not in \"%s\"", text, operators);
    if (!at.decision->revision.plan.n_workers || s->n_bad == 0)
        return;
    text[0] = '\0';
    survey_add_bad(s, text, sizeof text);
    assert_non_null(event);
    assert_string_equal(event->text, text);
}

static void compare(int number)
{
    const struct local_params params = {.data = NULL};
    const struct survey *s = &at.cluster.survey;
    struct err err = {0};
    bool has_plan;

    at.decision->revision.plan.n_workers = 0;
    operate();
    assert_int_equal(cluster_survey(&at.cluster, NOW_MS, &err), ERR_OK);
    if (compare_measured(s) > 0) {
        at.n_measured++;
        return;
    }
    has_plan = local_plan(at.local, &params, &at.cluster.survey, &err) == ERR_OK;
    if (has_plan != (at.decision->revision.plan.n_workers > 0))
        fail_msg("the CLI: %s; the operator: %s", has_plan ? "a plan" : err.text,
                 at.decision->status.message);
    compare_reasons(s, has_plan ? at.decision->revision.plan.summary.explanation
                                : at.decision->status.message);
    if (!has_plan) {
        at.n_without++;
        return;
    }
    compare_stages(&at.decision->revision.plan, &at.local->plan);
    at.n_planned++;
    at.n_planned_large += number % MANY == MANY - 1;
}

static void survey_gives_operator_and_cli_the_same_plan_and_reasons(void **state)
{
    (void)state;
    at.dice = 20261122;
    at.seen = calloc(1, sizeof *at.seen);
    at.decision = calloc(1, sizeof *at.decision);
    at.local = calloc(1, sizeof *at.local);
    assert_true(at.seen && at.decision && at.local);
    at.cluster.job = &at.local->job;
    for (int i = 0; i < CLUSTERS; i++) {
        make_cluster(i);
        compare(i);
        store_view_deinit(&at.view);
        store_deinit(&at.store);
        cluster_deinit(&at.cluster);
        json_free(at.spec);
        memset(at.seen, 0, sizeof *at.seen);
    }
    print_message("%d plans, %d of large clusters; %d measured, %d without\n", at.n_planned,
                  at.n_planned_large, at.n_measured, at.n_without);
    assert_in_range(at.n_planned, 60, CLUSTERS);
    assert_in_range(at.n_planned_large, 1, CLUSTERS);
    assert_in_range(at.n_measured, 20, CLUSTERS);
    assert_in_range(at.n_without, 3, CLUSTERS);
    free(at.seen);
    free(at.decision);
    free(at.local);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(survey_gives_operator_and_cli_the_same_plan_and_reasons),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
