#include "cli/readiness.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/yaml.h"
#include "suite.h"

#define NOW_MS INT64_C(1795853000000) /* 2026-11-28T08:03:20Z */
#define CRD    "manifests/crd/skyjob.dev_skyjobs.yaml"

static struct json *parse(const char *text)
{
    struct json *json = NULL;

    assert_int_equal(json_parse(text, strlen(text), &json, NULL), ERR_OK);
    return json;
}

/* --- what follows from what was read --- */

/* A cluster in which all is well. */
static const struct readiness good = {
    .version = "1.2.3",
    .namespace = "team",
    .crd = {.is_served = true, .is_established = true},
    .lease = {.name = "skyjob-operator",
              .namespace = "skyjob-system",
              .holder = "a-1",
              .renewed_ms = NOW_MS - 2000,
              .duration_ms = 15000},
    .deployment = {.n = 1, .image = "host:5000/skyjob/operator:1.2.3", .n_ready = 2, .n_wanted = 2},
    .rights = {{.is_given = true}, {.is_given = true}, {.is_given = true}},
    .nodes = {.n = 4, .n_usable = 3, .n_measured = 3},
    .network_policies = {.n = 1},
    .admission_policies = {.n = 4},
    .admission_bindings = {.n = 4},
};

static struct readiness seen; /* what a row's change makes of it */

struct row {
    const char *name;
    void (*change)(void);
    const char *line;
    bool is_problem;
};

#define CHANGE(name, statement)                                                                    \
    static void name(void)                                                                         \
    {                                                                                              \
        statement;                                                                                 \
    }
CHANGE(none, (void)0)
CHANGE(no_crd, seen.crd.read = ERR_NOT_FOUND)
CHANGE(hidden_crd, seen.crd.read = ERR_DENIED)
CHANGE(hidden_and_no_crd, seen.crd.read = ERR_DENIED; seen.jobs_read = ERR_NOT_FOUND)
CHANGE(all_hidden, seen.crd.read = ERR_DENIED; seen.jobs_read = ERR_DENIED)
CHANGE(other_crd, seen.crd.is_served = false)
CHANGE(new_crd, seen.crd.is_established = false)
CHANGE(old_crd, seen.crd.n_missing = 3; strcpy(seen.crd.missing, "spec.a.b"))
CHANGE(later_crd, seen.crd.n_unknown = 1; strcpy(seen.crd.unknown, "spec.c"))
CHANGE(no_lease, memset(&seen.lease, 0, sizeof seen.lease))
CHANGE(hidden_lease, no_lease(); seen.lease.read = ERR_DENIED)
CHANGE(old_lease, seen.lease.renewed_ms = NOW_MS - 180000)
CHANGE(other_clock, old_lease(); seen.lease.has_changed = true)
CHANGE(late_clock, seen.lease.renewed_ms = NOW_MS + 9000)
CHANGE(released, seen.lease.holder[0] = '\0')
CHANGE(no_deployment, seen.deployment.n = 0)
CHANGE(hidden_deployment, seen.deployment.n = 0; seen.deployment.read = ERR_DENIED)
CHANGE(half_ready, seen.deployment.n_ready = 1)
CHANGE(scaled_away, seen.deployment.n_ready = seen.deployment.n_wanted = 0)
CHANGE(other_image, strcpy(seen.deployment.image, "skyjob/operator:1.3.0"))
CHANGE(digest, strcpy(seen.deployment.image, "skyjob/operator:1.3.0@sha256:00"))
CHANGE(no_create, seen.rights[RIGHT_CREATE].is_given = false)
CHANGE(no_logs, seen.rights[RIGHT_LOGS].is_given = false)
CHANGE(no_nodes, seen.rights[RIGHT_NODES].is_given = false)
CHANGE(no_question, seen.rights[RIGHT_CREATE].read = ERR_DENIED)
CHANGE(unmeasured, seen.nodes.n_measured = 1)
CHANGE(unusable, seen.nodes.n_usable = 0)
CHANGE(hidden_nodes, seen.nodes.read = ERR_DENIED)
CHANGE(no_network, seen.network_policies.n = 0)
CHANGE(hidden_network, no_network(); seen.network_policies.read = ERR_DENIED)
CHANGE(no_admission, seen.admission_policies.n = seen.admission_bindings.n = 0)
CHANGE(hidden_admission, no_admission(); seen.admission_policies.read = ERR_DENIED)
CHANGE(old_cluster, no_admission(); seen.admission_policies.read = ERR_NOT_FOUND)
CHANGE(unbound, seen.admission_bindings.n = 1)

static struct row rows[] = {
    {"readiness_of_a_crd_of_this_version", none,
     "ok       crd        SkyJobs of v1alpha1 are served, with every field\n", false},
    {"readiness_without_the_crd", no_crd,
     "problem  crd        the cluster has no SkyJobs: install the chart, see README.md\n", true},
    {"readiness_where_the_crd_may_not_be_read", hidden_crd,
     "unknown  crd        its schema may not be read, but SkyJobs of v1alpha1 are served\n", false},
    {"readiness_without_the_crd_which_may_not_be_read", hidden_and_no_crd,
     "problem  crd        the cluster has no SkyJobs: install the chart, see README.md\n", true},
    {"readiness_where_neither_the_crd_nor_jobs_may_be_read", all_hidden,
     "unknown  crd        its schema may not be read\n", false},
    {"readiness_of_a_crd_of_another_version", other_crd,
     "problem  crd        SkyJobs of v1alpha1 are not served: upgrade the CRD, or use the "
     "kubectl-skyjob that belongs to it\n",
     true},
    {"readiness_of_a_crd_that_is_not_taken_up", new_crd,
     "problem  crd        the API server has not taken it up: see kubectl describe crd "
     "skyjobs.skyjob.dev\n",
     true},
    {"readiness_of_a_crd_that_lacks_fields", old_crd,
     "warning  crd        it does not know spec.a.b and 2 more, which jobs cannot use: upgrade it "
     "to version 1.2.3\n",
     false},
    {"readiness_of_a_crd_with_a_field_of_a_later_version", later_crd,
     "warning  crd        it has spec.c, which this kubectl-skyjob does not know: upgrade "
     "kubectl-skyjob\n",
     false},
    {"readiness_of_a_leader", none,
     "ok       leader     a-1 leads, by the Lease skyjob-system/skyjob-operator\n", false},
    {"readiness_of_a_leader_whose_clock_is_a_little_ahead", late_clock,
     "ok       leader     a-1 leads, by the Lease skyjob-system/skyjob-operator\n", false},
    {"readiness_without_a_lease", no_lease,
     "problem  leader     no operator leads, there is no Lease skyjob-operator: install the "
     "chart, see README.md\n",
     true},
    {"readiness_where_leases_may_not_be_read", hidden_lease,
     "unknown  leader     Leases may not be read\n", false},
    {"readiness_of_a_lease_that_is_not_renewed", old_lease,
     "problem  leader     no operator leads, a-1 last renewed the Lease "
     "skyjob-system/skyjob-operator 3m ago: see kubectl get pods -n skyjob-system\n",
     true},
    {"readiness_of_a_lease_that_is_renewed_by_another_clock", other_clock,
     "warning  leader     a-1 leads, but its clock and the one of this machine differ: set them "
     "right\n",
     false},
    {"readiness_of_a_lease_that_was_released", released,
     "problem  leader     no operator leads, the last one has ended: see kubectl get pods -n "
     "skyjob-system\n",
     true},
    {"readiness_of_an_operator_of_this_version", none,
     "ok       operator   2 of 2 pods are ready, with the image host:5000/skyjob/operator:1.2.3\n",
     false},
    {"readiness_without_a_deployment", no_deployment,
     "warning  operator   there is no Deployment of the chart's: if it was not installed "
     "otherwise, install the chart, see README.md\n",
     false},
    {"readiness_where_deployments_may_not_be_read", hidden_deployment,
     "unknown  operator   Deployments may not be read\n", false},
    {"readiness_of_an_operator_without_its_spare", half_ready,
     "warning  operator   1 of 2 pods are ready: see kubectl get pods -A -l "
     "app.kubernetes.io/component=operator\n",
     false},
    {"readiness_of_an_operator_without_pods", scaled_away,
     "warning  operator   0 of 0 pods are ready: see kubectl get pods -A -l "
     "app.kubernetes.io/component=operator\n",
     false},
    {"readiness_of_an_operator_of_another_version", other_image,
     "warning  operator   its image is skyjob/operator:1.3.0, kubectl-skyjob has version 1.2.3: "
     "use the same one\n",
     false},
    {"readiness_of_an_operator_by_digest_has_no_version", digest,
     "ok       operator   2 of 2 pods are ready, with the image skyjob/operator:1.3.0@sha256:00\n",
     false},
    {"readiness_of_a_user_who_may_create_jobs", none,
     "ok       create     you may create SkyJobs in the namespace team\n", false},
    {"readiness_of_a_user_who_may_not_create_jobs", no_create,
     "problem  create     you may not create SkyJobs in the namespace team: have the ClusterRole "
     "edit bound there\n",
     true},
    {"readiness_of_a_user_who_may_not_read_logs", no_logs,
     "warning  logs       you may not read the logs of pods in the namespace team: have the "
     "ClusterRole view bound there for kubectl skyjob logs\n",
     false},
    {"readiness_of_a_user_who_may_not_list_nodes", no_nodes,
     "warning  nodes      you may not list nodes: have that allowed for kubectl skyjob nodes, and "
     "for plan without a file\n",
     false},
    {"readiness_where_rights_may_not_be_asked", no_question,
     "unknown  create     whether you may create SkyJobs in the namespace team may not be asked\n",
     false},
    {"readiness_of_nodes", none,
     "ok       capacity   3 of 4 nodes can have workers, the speed of 3 is known\n", false},
    {"readiness_of_nodes_that_are_not_measured", unmeasured,
     "ok       capacity   3 of 4 nodes can have workers, the speed of 1 is known; the others are "
     "measured for the first job\n",
     false},
    {"readiness_without_a_usable_node", unusable,
     "problem  capacity   none of 4 nodes can have workers: kubectl skyjob nodes has the "
     "reasons\n",
     true},
    {"readiness_where_nodes_may_not_be_read", hidden_nodes,
     "unknown  capacity   nodes may not be listed\n", false},
    {"readiness_with_a_network_policy", none,
     "ok       network    the operator has a NetworkPolicy; each job gets its own\n", false},
    {"readiness_without_a_network_policy", no_network,
     "warning  network    the operator has no NetworkPolicy: set networkPolicy.enabled in the "
     "chart\n",
     false},
    {"readiness_where_network_policies_may_not_be_read", hidden_network,
     "unknown  network    NetworkPolicies may not be read\n", false},
    {"readiness_with_admission_policies", none,
     "ok       admission  4 ValidatingAdmissionPolicies bind the operator's account\n", false},
    {"readiness_without_admission_policies", no_admission,
     "warning  admission  no policies bind the operator's account: set admissionPolicies.enabled "
     "in the chart\n",
     false},
    {"readiness_where_admission_policies_may_not_be_read", hidden_admission,
     "unknown  admission  ValidatingAdmissionPolicies may not be read\n", false},
    {"readiness_of_a_cluster_without_admission_policies", old_cluster,
     "warning  admission  no policies bind the operator's account: that takes Kubernetes 1.30\n",
     false},
    {"readiness_with_admission_policies_that_bind_nothing", unbound,
     "warning  admission  4 ValidatingAdmissionPolicies, but 1 bindings: install the chart "
     "again\n",
     false},
};

static void check_row(void **state)
{
    const struct row *row = *state;
    struct finding findings[READINESS_FINDINGS_MAX];
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    bool is_problem;

    seen = good;
    row->change();
    is_problem = readiness_print(findings, readiness_judge(&seen, NOW_MS, findings), out);
    assert_int_equal(fclose(out), 0);
    if (!strstr(text, row->line))
        fail_msg("%s is not in:\n%s", row->line, text);
    assert_int_equal(is_problem, row->is_problem);
    if (!row->is_problem)
        assert_null(strstr(text, "problem "));
    free(text);
}

/* --- reading --- */

static struct json *read_our_crd(void)
{
    struct buf yaml = {.max = 1 << 20};
    struct buf text = {.max = 4 << 20};
    struct json *json;

    assert_int_equal(file_read(CRD, &yaml, NULL), ERR_OK);
    assert_int_equal(yaml_to_json(buf_text(&yaml), yaml.len, 0, &text, NULL), ERR_OK);
    json = parse(buf_text(&text));
    buf_deinit(&yaml);
    buf_deinit(&text);
    return json;
}

static void readiness_finds_no_difference_to_the_crd_of_this_version(void **state)
{
    struct readiness r = {.version = "1"};
    struct json *crd = read_our_crd();

    (void)state;
    readiness_read_crd(&r, crd);
    json_free(crd);
    assert_true(r.crd.is_served);
    assert_false(r.crd.is_established); /* a file has no status */
    assert_string_equal(r.crd.missing, "");
    assert_int_equal(r.crd.n_missing, 0);
    assert_string_equal(r.crd.unknown, "");
    assert_int_equal(r.crd.n_unknown, 0);
}

static void readiness_finds_fields_that_one_side_lacks(void **state)
{
    struct readiness r = {.version = "1"};
    struct json *crd = parse(
        "{\"status\":{\"conditions\":[{\"type\":\"Established\",\"status\":\"True\"}]},\"spec\":{"
        "\"versions\":[{\"name\":\"v1\"},{\"name\":\"v1alpha1\",\"served\":true,\"schema\":{"
        "\"openAPIV3Schema\":{\"properties\":{\"spec\":{\"properties\":{\"model\":{\"properties\":{"
        "\"preset\":{},\"shape\":{}}},\"replicas\":{}}}}}}}]}}");

    (void)state;
    readiness_read_crd(&r, crd);
    json_free(crd);
    assert_true(r.crd.is_served && r.crd.is_established);
    assert_string_equal(r.crd.missing, "spec.model.vocabSize");
    assert_true(r.crd.n_missing > 50);
    assert_string_equal(r.crd.unknown, "spec.model.shape");
    assert_int_equal(r.crd.n_unknown, 1);
}

static void add_lease(struct readiness *r, const char *namespace, const char *name,
                      const char *version, const char *renewed)
{
    char text[400];
    struct json *lease;

    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"namespace\":\"%s\",\"name\":\"%s\",\"resourceVersion\":\"%s\"}"
                   ",\"spec\":{\"holderIdentity\":\"h\",\"leaseDurationSeconds\":15,"
                   "\"renewTime\":\"%s\"}}",
                   namespace, name, version, renewed);
    lease = parse(text);
    assert_int_equal(readiness_add_lease(r, lease, NULL), ERR_OK);
    json_free(lease);
}

static void readiness_takes_the_lease_that_was_renewed_last(void **state)
{
    struct readiness r = {.version = "1"};

    (void)state;
    add_lease(&r, "a", "kube-scheduler", "1", "2026-11-28T08:03:20.000000Z");
    assert_string_equal(r.lease.name, "");
    add_lease(&r, "a", "skyjob-operator", "1", "2026-11-28T08:03:00.000000Z");
    add_lease(&r, "b", "nlp-skyjob-operator", "2", "2026-11-28T08:03:10.000000Z");
    add_lease(&r, "c", "skyjob-operator", "3", "2026-11-28T08:03:05.000000Z");
    assert_string_equal(r.lease.namespace, "b");
    assert_int_equal(r.lease.renewed_ms, NOW_MS - 10000);
    assert_true(readiness_has_leader(&r, NOW_MS));
    assert_false(readiness_has_leader(&r, NOW_MS + 6000));
    assert_false(r.lease.has_changed);
}

static void readiness_notices_a_lease_that_changes(void **state)
{
    struct readiness r = {.version = "1"};

    (void)state;
    add_lease(&r, "a", "skyjob-operator", "1", "2026-11-28T07:00:00Z");
    add_lease(&r, "a", "skyjob-operator", "1", "2026-11-28T07:00:00Z");
    assert_false(r.lease.has_changed);
    add_lease(&r, "a", "skyjob-operator", "2", "2026-11-28T07:00:02Z");
    assert_true(r.lease.has_changed);
}

static void readiness_counts_nodes_that_are_usable_and_measured(void **state)
{
    struct node_object nodes[] = {
        {.name = "a", .annotations.gflops = 40},
        {.name = "b", .annotations = {.has_probe = true, .probe.time_ms = NOW_MS - 1000}},
        {.name = "c", .annotations = {.has_probe = true, .probe.time_ms = 1}},
        {.name = "d", .excluded = EXCLUDED_CORDONED, .annotations.gflops = 40},
        {.name = "e"},
    };
    struct readiness r = {.version = "1"};

    (void)state;
    readiness_read_nodes(&r, nodes, sizeof nodes / sizeof nodes[0], NOW_MS);
    assert_int_equal(r.nodes.n, 5);
    assert_int_equal(r.nodes.n_usable, 4);
    assert_int_equal(r.nodes.n_measured, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readiness_finds_no_difference_to_the_crd_of_this_version),
        cmocka_unit_test(readiness_finds_fields_that_one_side_lacks),
        cmocka_unit_test(readiness_takes_the_lease_that_was_renewed_last),
        cmocka_unit_test(readiness_notices_a_lease_that_changes),
        cmocka_unit_test(readiness_counts_nodes_that_are_usable_and_measured),
    };
    struct suite suite = {.n = 0};

    SUITE_ROWS(&suite, rows, check_row);
    SUITE_TESTS(&suite, tests);
    return suite_run(&suite, "readiness", NULL, NULL);
}
