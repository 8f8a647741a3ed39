#include "cli/command.h"

#include "base/clock.h"
#include "verb.h"

#define CRD                                                                                        \
    .expect = "GET /apis/apiextensions.k8s.io/v1/customresourcedefinitions/skyjobs.skyjob.dev "
#define JOBS        .expect = "GET /apis/skyjob.dev/v1alpha1/namespaces/team/skyjobs?limit="
#define LEASES(in)  .expect = "GET /apis/coordination.k8s.io/v1/" in "leases?limit="
#define DEPLOYS(in) .expect = "GET /apis/apps/v1/" in "deployments?labelSelector="
#define NETWORK(in) .expect = "GET /apis/networking.k8s.io/v1/" in "networkpolicies?labelSelector="
#define POLICIES                                                                                   \
    .expect = "GET "                                                                               \
              "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies?labelSelector="
#define BINDINGS                                                                                   \
    .expect = "GET /apis/admissionregistration.k8s.io/v1/"                                         \
              "validatingadmissionpolicybindings?labelSelector="
#define REVIEW      .expect = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews?fieldManager="
#define NODES       .expect = "GET /api/v1/nodes?limit="
#define LIST(items) "{\"metadata\":{},\"items\":[" items "]}"
#define DENIED      .status = 403, .body = "{\"message\":\"no\"}"
#define YES         .body = "{\"status\":{\"allowed\":true}}"
#define HOME        "namespaces/skyjob-system/"
#define TEAM        "namespaces/team/"
#define EVERYWHERE_DENIED(list)                                                                    \
    {list(""), DENIED}, {list(HOME), DENIED},                                                      \
    {                                                                                              \
        list(TEAM), DENIED                                                                         \
    }
#define NODE                                                                                       \
    "{\"metadata\":{\"name\":\"n1\"},\"status\":{\"conditions\":[{\"type\":\"Ready\","             \
    "\"status\":\"True\"}]}}"
#define DEPLOYMENT                                                                                 \
    "{\"spec\":{\"replicas\":2,\"template\":{\"spec\":{\"containers\":[{\"image\":"                \
    "\"skyjob/operator:" SKYJOB_VERSION "\"}]}}},\"status\":{\"readyReplicas\":2}}"
#define SERVED                                                                                     \
    "{\"status\":{\"conditions\":[{\"type\":\"Established\",\"status\":\"True\"}]},\"spec\":{"     \
    "\"versions\":[{\"name\":\"v1alpha1\",\"served\":true}]}}"

#define READY_BUT_FOR_ITS_LEADER                                                                   \
    {CRD, .body = SERVED}, {JOBS, .body = LIST("")}, {DEPLOYS(""), .body = LIST(DEPLOYMENT)},      \
        {NETWORK(""), .body = LIST("{}")}, {POLICIES, .body = LIST("{},{}")},                      \
        {BINDINGS, .body = LIST("{},{}")}, {REVIEW, YES}, {REVIEW, YES}, {REVIEW, YES},            \
    {                                                                                              \
        NODES, .body = LIST(NODE)                                                                  \
    }

#define LEASE(holder, time)                                                                        \
    "{\"metadata\":{\"namespace\":\"skyjob-system\",\"name\":\"skyjob-operator\"},\"spec\":{"      \
    "\"holderIdentity\":\"" holder "\",\"leaseDurationSeconds\":15,\"renewTime\":\"" time "\"}}"
#define LEASE_BYTES 400

/* A list with the Lease of an operator that leads. */
static void renewed_now(char out[static LEASE_BYTES])
{
    char now[CLOCK_TEXT_BYTES];

    clock_format(clock_wall_ms(), now);
    (void)snprintf(out, LEASE_BYTES, LIST(LEASE("a-1", "%s")), now);
}

static void check_of_a_ready_cluster_has_no_problem(void **state)
{
    static char lease[LEASE_BYTES];
    static struct loopback_reply replies[] = {
        READY_BUT_FOR_ITS_LEADER,
        {LEASES(""), .body = lease},
    };

    (void)state;
    renewed_now(lease);
    verb_serve(replies, sizeof replies / sizeof replies[0]);
    assert_int_equal(VERB_RUN(command_check, "check"), EXIT_DONE);
    assert_has(verb_out, "warning  crd        it does not know spec.model.preset and ");
    assert_has(verb_out, "\nok       leader     a-1 leads");
    assert_has(verb_out, "\nok       operator   2 of 2 pods are ready");
    assert_has(verb_out, "\nok       create     you may create SkyJobs in the namespace team\n");
    assert_has(verb_out, "\nok       logs       ");
    assert_has(verb_out, "\nok       nodes      ");
    assert_has(verb_out, "\nok       capacity   1 of 1 nodes");
    assert_has(verb_out, "\nok       network    ");
    assert_has(verb_out, "\nok       admission  2 ");
    assert_has(loopback_request(verb_server, 6),
               "\"resourceAttributes\":{\"namespace\":\"team\",\"verb\":\"create\",\"group\":"
               "\"skyjob.dev\",\"resource\":\"skyjobs\"}");
    assert_has(loopback_request(verb_server, 8),
               "\"resourceAttributes\":{\"verb\":\"list\",\"resource\":\"nodes\"}");
}

static void check_waits_for_an_operator_to_take_over(void **state)
{
    static char lease[LEASE_BYTES];
    static struct loopback_reply replies[] = {
        READY_BUT_FOR_ITS_LEADER,
        {LEASES(""), .body = LIST(LEASE("old-1", "2026-01-01T00:00:00Z"))},
        {LEASES(""), .body = LIST(LEASE("", "2026-01-01T00:00:00Z"))},
        {LEASES(""), .body = lease},
    };

    (void)state;
    renewed_now(lease);
    verb_serve(replies, sizeof replies / sizeof replies[0]);
    assert_int_equal(VERB_RUN(command_check, "check"), EXIT_DONE);
    assert_has(verb_out, "\nok       leader     a-1 leads");
}

static void check_by_a_user_with_few_rights_says_what_is_not_known(void **state)
{
    (void)state;
    VERB_SERVE({CRD, DENIED}, {JOBS, .body = LIST("")}, EVERYWHERE_DENIED(LEASES),
               EVERYWHERE_DENIED(DEPLOYS), EVERYWHERE_DENIED(NETWORK), {POLICIES, DENIED},
               {BINDINGS, DENIED}, {REVIEW, YES}, {REVIEW, YES}, {REVIEW, .body = "{}"},
               {NODES, DENIED});
    assert_int_equal(VERB_RUN(command_check, "check"), EXIT_DONE);
    assert_has(verb_out, "unknown  crd        its schema may not be read, but ");
    assert_has(verb_out, "\nunknown  leader     Leases may not be read\n");
    assert_has(verb_out, "\nunknown  operator   ");
    assert_has(verb_out, "\nwarning  nodes      you may not list nodes: ");
    assert_has(verb_out, "\nunknown  capacity   ");
    assert_has(verb_out, "\nunknown  network    ");
    assert_has(verb_out, "\nunknown  admission  ");
    assert_string_equal(verb_err, "");
}

static void check_of_a_cluster_without_skyjob_fails(void **state)
{
    (void)state;
    VERB_SERVE({CRD, .status = 404, .body = "{}"}, {JOBS, .status = 404, .body = "{}"},
               {LEASES(""), .body = LIST("")}, {DEPLOYS(""), .body = LIST("")},
               {NETWORK(""), .body = LIST("")}, {POLICIES, .status = 404, .body = "{}"},
               {BINDINGS, .status = 404, .body = "{}"}, {REVIEW, YES}, {REVIEW, YES}, {REVIEW, YES},
               {NODES, .body = LIST(NODE)});
    assert_int_equal(VERB_RUN(command_check, "check"), EXIT_FAILED);
    assert_has(verb_out, "problem  crd        the cluster has no SkyJobs: ");
    assert_has(verb_out, "\nproblem  leader     no operator leads, there is no Lease ");
    assert_has(verb_out, "\nwarning  operator   ");
    assert_has(verb_out, "\nwarning  network    ");
    assert_has(verb_out, "\nwarning  admission  ");
}

static void check_of_a_server_that_fails_is_an_error(void **state)
{
    (void)state;
    VERB_SERVE({CRD, .status = 500, .body = "{\"message\":\"broken\"}"});
    assert_int_equal(VERB_RUN(command_check, "check"), EXIT_FAILED);
    assert_string_equal(verb_out, "");
    assert_has(verb_err, "broken (500)");
}

static void check_is_about_the_cluster_and_takes_no_name(void **state)
{
    (void)state;
    verb_serve(NULL, 0);
    assert_int_equal(VERB_RUN(command_check, "check", "mnli"), EXIT_CONFIG);
    assert_string_equal(verb_err, "kubectl-skyjob: check takes no name: it is about the cluster\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        VERB_TEST(check_of_a_ready_cluster_has_no_problem),
        VERB_TEST(check_waits_for_an_operator_to_take_over),
        VERB_TEST(check_by_a_user_with_few_rights_says_what_is_not_known),
        VERB_TEST(check_of_a_cluster_without_skyjob_fails),
        VERB_TEST(check_of_a_server_that_fails_is_an_error),
        VERB_TEST(check_is_about_the_cluster_and_takes_no_name),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
