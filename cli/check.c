/* kubectl-skyjob check: is the cluster ready for SkyJobs, and what is to be done if not? */
#include <stdio.h>

#include "base/clock.h"
#include "cli/cluster.h"
#include "cli/readiness.h"
#include "cli/target.h"
#include "kube/lease.h"

#define OPERATORS        "app.kubernetes.io/part-of=skyjob,app.kubernetes.io/component=operator"
#define HOME             "skyjob-system" /* the namespace in README.md */
#define REVIEW_MAX_BYTES 1024

/* Meanwhile who leads renews its Lease, and an operator takes over one that nobody renews, such as
 * one that another installation has left. */
#define ELECTION_MS (LEASE_DURATION_MS + 2 * LEASE_RETRY_MS)

static const struct kube_resource crds = {"apiextensions.k8s.io", "v1", "customresourcedefinitions",
                                          false};
static const struct kube_resource deployments = {"apps", "v1", "deployments", true};
static const struct kube_resource reviews = {"authorization.k8s.io", "v1",
                                             "selfsubjectaccessreviews", false};
static const struct kube_resource policies = {"admissionregistration.k8s.io", "v1",
                                              "validatingadmissionpolicies", false};
static const struct kube_resource bindings = {"admissionregistration.k8s.io", "v1",
                                              "validatingadmissionpolicybindings", false};

/* What may not be read, or is not there, is a finding; any other error ends the check. */
static enum err_code note(enum err_code rc, enum err_code *out_read)
{
    *out_read = rc;
    return rc == ERR_DENIED || rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

/* List in all namespaces or, if that is not allowed, where it may be of use. */
static enum err_code list(struct target *t, struct kube_ref ref, struct kube_lister lister,
                          enum err_code *out_read, struct err *err)
{
    const char *const places[] = {NULL, HOME, t->namespace};
    int n = ref.resource->is_namespaced ? 3 : 1;
    enum err_code rc = ERR_DENIED;

    for (int i = 0; i < n && rc == ERR_DENIED; i++) {
        ref.namespace = places[i];
        rc = kube_list(t->connection.client, &ref, lister, err);
    }
    return note(rc, out_read);
}

static enum err_code count(void *ctx, const struct json *object, struct err *err)
{
    int *n = ctx;

    (void)object, (void)err;
    ++*n;
    return ERR_OK;
}

static enum err_code read_crd(struct target *t, struct readiness *r, struct err *err)
{
    const struct kube_ref ref = {.resource = &crds, .name = "skyjobs." NAMES_GROUP};
    int n_jobs = 0;
    struct json *crd = NULL;
    enum err_code rc = note(kube_get(t->connection.client, &ref, &crd, err), &r->crd.read);

    if (crd)
        readiness_read_crd(r, crd);
    json_free(crd);
    if (rc == ERR_OK)
        rc = note(
            kube_list(t->connection.client, &t->ref, (struct kube_lister){&n_jobs, count}, err),
            &r->jobs_read);
    return rc;
}

static enum err_code read_lease(struct target *t, struct readiness *r, struct err *err)
{
    const struct kube_ref leases = {.resource = &kube_leases};
    const struct kube_lister lister = {r, readiness_add_lease};
    int64_t end_ms = clock_now_ms() + ELECTION_MS;
    enum err_code rc = list(t, leases, lister, &r->lease.read, err);

    while (rc == ERR_OK && r->lease.name[0] && !readiness_has_leader(r, clock_wall_ms()) &&
           clock_now_ms() < end_ms) {
        int64_t next_ms = clock_now_ms() + LEASE_RETRY_MS;

        while (clock_now_ms() < next_ms)
            if (interrupt_pause())
                return err_set(err, ERR_GONE, "interrupted");
        rc = list(t, leases, lister, &r->lease.read, err);
    }
    return rc;
}

static enum err_code ask_right(struct target *t, struct readiness *r, enum readiness_right right,
                               struct err *err)
{
    static const char *const attributes[RIGHTS] = {
        [RIGHT_CREATE] = "'verb':'create','group':'" NAMES_GROUP "','resource':'skyjobs'",
        [RIGHT_LOGS] = "'verb':'get','resource':'pods','subresource':'log'",
        [RIGHT_NODES] = "'verb':'list','resource':'nodes'",
    };
    const struct kube_ref ref = {.resource = &reviews};
    struct buf body = {.max = REVIEW_MAX_BYTES};
    struct json *review = NULL;
    char text[512];
    struct jsonw w;
    enum err_code rc;

    (void)snprintf(text, sizeof text,
                   "{'apiVersion':'authorization.k8s.io/v1','kind':'SelfSubjectAccessReview',"
                   "'spec':{'resourceAttributes':{'namespace':$namespace,%s}}}",
                   attributes[right]);
    jsonw_init(&w, &body);
    jsont_write(&w, NULL, text,
                (const struct jsont_value[]){
                    JSONT_S("namespace", right == RIGHT_NODES ? NULL : t->namespace)},
                1);
    rc = jsonw_finish(&w, err);
    if (rc == ERR_OK)
        rc = note(kube_create(t->connection.client, &ref, buf_text(&body), &review, err),
                  &r->rights[right].read);
    r->rights[right].is_given = json_bool(json_path(review, "status.allowed"), false);
    json_free(review);
    buf_deinit(&body);
    return rc;
}

static enum err_code read_nodes(struct target *t, struct readiness *r, struct err *err)
{
    const struct kube_ref nodes = {.resource = &kube_nodes};
    struct cluster cluster = {.job = NULL};
    enum err_code rc =
        list(t, nodes, (struct kube_lister){&cluster, cluster_add_node}, &r->nodes.read, err);

    readiness_read_nodes(r, cluster.nodes, cluster.n_nodes, clock_wall_ms());
    cluster_deinit(&cluster);
    return rc;
}

static enum err_code read_all(struct target *t, struct readiness *r, struct err *err)
{
    const struct {
        const struct kube_resource *resource;
        struct kube_lister lister;
        enum err_code *out_read;
    } labelled[] = {
        {&deployments, {r, readiness_add_operator}, &r->deployment.read},
        {&kube_policies, {&r->network_policies.n, count}, &r->network_policies.read},
        {&policies, {&r->admission_policies.n, count}, &r->admission_policies.read},
        {&bindings, {&r->admission_bindings.n, count}, &r->admission_bindings.read},
    };
    enum err_code rc = read_crd(t, r, err);

    if (rc == ERR_OK)
        rc = read_lease(t, r, err);
    for (size_t i = 0; i < sizeof labelled / sizeof labelled[0] && rc == ERR_OK; i++)
        rc = list(t,
                  (struct kube_ref){.resource = labelled[i].resource, .label_selector = OPERATORS},
                  labelled[i].lister, labelled[i].out_read, err);
    for (int right = 0; right < RIGHTS && rc == ERR_OK; right++)
        rc = ask_right(t, r, (enum readiness_right)right, err);
    return rc == ERR_OK ? read_nodes(t, r, err) : rc;
}

static enum err_code run(void *ctx, struct target *t, struct err *err)
{
    struct readiness r = {.version = SKYJOB_VERSION, .namespace = t->namespace};
    struct finding findings[READINESS_FINDINGS_MAX];
    bool *out_has_problem = ctx;
    enum err_code rc;

    if (t->name)
        return err_set(err, ERR_INVALID, "check takes no name: it is about the cluster");
    interrupt_catch();
    rc = read_all(t, &r, err);
    if (rc == ERR_OK)
        *out_has_problem =
            readiness_print(findings, readiness_judge(&r, clock_wall_ms(), findings), stdout);
    return rc;
}

int command_check(int argc, char **argv)
{
    bool has_problem = false;
    int code = target_run_any(argc, argv, NULL, (struct target_action){&has_problem, run});

    return has_problem ? EXIT_FAILED : code;
}
