#include "cli/readiness.h"

#include <stdarg.h>
#include <string.h>

#include "api/spec.h"
#include "base/buf.h"
#include "base/clock.h"
#include "cli/nodes.h"
#include "cli/show.h"

#define INSTALL "install the chart, see README.md"

/* --- the CRD --- */

static bool is_true(const struct json *crd, const char *type)
{
    for (const struct json *c = json_first(json_path(crd, "status.conditions")); c;
         c = json_next(c))
        if (strcmp(json_text(c, "type"), type) == 0)
            return strcmp(json_text(c, "status"), "True") == 0;
    return false;
}

/* Does the schema have the field, which is given by its path below it? */
static bool has_field(const struct json *schema, const char *path)
{
    while (schema && *path) {
        char part[READINESS_FIELD_BYTES];
        size_t n = strcspn(path, ".");

        (void)snprintf(part, sizeof part, "%.*s", (int)n, path);
        schema = json_get(json_get(schema, "properties"), part);
        path += n + (path[n] == '.');
    }
    return schema != NULL;
}

/* What we know of a path below spec. */
static enum { UNKNOWN, ABOVE_A_FIELD, FIELD } known(const char *path)
{
    size_t n = strlen(path);

    for (const struct field *f = spec_fields; f->kind != FIELD_END; f++)
        if (strncmp(f->key, path, n) == 0 && (f->key[n] == '\0' || f->key[n] == '.'))
            return f->key[n] ? ABOVE_A_FIELD : FIELD;
    return UNKNOWN;
}

/* Note the first of several. */
static void note(const char *path, int *n, char first[static READINESS_FIELD_BYTES])
{
    if ((*n)++ == 0)
        (void)snprintf(first, READINESS_FIELD_BYTES, "spec.%s", path);
}

/* Of the fields below `path`; a document has JSON_DEPTH_MAX levels at most. */
static void find_unknown(struct readiness *r, const struct json *schema, const char *path)
{
    for (const struct json *p = json_first(json_get(schema, "properties")); p; p = json_next(p)) {
        char below[READINESS_FIELD_BYTES];

        (void)snprintf(below, sizeof below, "%s%s%s", path, path[0] ? "." : "", json_key(p));
        switch (known(below)) {
        case UNKNOWN:
            note(below, &r->crd.n_unknown, r->crd.unknown);
            break;
        case ABOVE_A_FIELD:
            find_unknown(r, p, below);
            break;
        case FIELD:
            break;
        }
    }
}

void readiness_read_crd(struct readiness *r, const struct json *crd)
{
    const struct json *v = json_first(json_path(crd, "spec.versions"));
    const struct json *spec;

    while (v && strcmp(json_text(v, "name"), NAMES_VERSION) != 0)
        v = json_next(v);
    spec = json_path(v, "schema.openAPIV3Schema.properties.spec");
    r->crd.is_served = json_bool(json_get(v, "served"), false);
    r->crd.is_established = is_true(crd, "Established");
    for (const struct field *f = spec_fields; f->kind != FIELD_END; f++)
        if (!has_field(spec, f->key))
            note(f->key, &r->crd.n_missing, r->crd.missing);
    find_unknown(r, spec, "");
}

/* --- the operator --- */

/* The chart names it after the release: "skyjob-operator", "nlp-skyjob-operator". */
static bool is_operators(const char *lease)
{
    static const char end[] = "-operator";
    size_t n = strlen(lease);

    return n > strlen(end) && strcmp(lease + n - strlen(end), end) == 0 && strstr(lease, "skyjob");
}

enum err_code readiness_add_lease(void *readiness, const struct json *lease, struct err *err)
{
    struct readiness *r = readiness;
    const char *name = json_text(lease, "metadata.name");
    const char *namespace = json_text(lease, "metadata.namespace");
    const char *version = json_text(lease, "metadata.resourceVersion");
    const struct json *spec = json_get(lease, "spec");
    bool is_same = strcmp(r->lease.name, name) == 0 && strcmp(r->lease.namespace, namespace) == 0;
    int64_t renewed_ms;

    (void)err;
    if (!is_operators(name))
        return ERR_OK;
    if (clock_parse(json_text(spec, "renewTime"), &renewed_ms, NULL) != ERR_OK)
        renewed_ms = 0;
    if (r->lease.name[0] && !is_same && renewed_ms <= r->lease.renewed_ms)
        return ERR_OK;
    r->lease.has_changed = is_same && strcmp(r->lease.version, version) != 0;
    r->lease.renewed_ms = renewed_ms;
    r->lease.duration_ms = json_int(json_get(spec, "leaseDurationSeconds"), 0) * INT64_C(1000);
    (void)snprintf(r->lease.name, sizeof r->lease.name, "%s", name);
    (void)snprintf(r->lease.namespace, sizeof r->lease.namespace, "%s", namespace);
    (void)snprintf(r->lease.version, sizeof r->lease.version, "%s", version);
    JSON_COPY(r->lease.holder, json_get(spec, "holderIdentity"));
    return ERR_OK;
}

static bool is_fresh(const struct readiness *r, int64_t now_ms)
{
    int64_t age_ms = now_ms - r->lease.renewed_ms;

    return age_ms >= -r->lease.duration_ms && age_ms <= r->lease.duration_ms;
}

bool readiness_has_leader(const struct readiness *r, int64_t now_ms)
{
    return r->lease.holder[0] && (is_fresh(r, now_ms) || r->lease.has_changed);
}

enum err_code readiness_add_operator(void *readiness, const struct json *deployment,
                                     struct err *err)
{
    struct readiness *r = readiness;
    const struct json *container =
        json_first(json_path(deployment, "spec.template.spec.containers"));

    (void)err;
    if (r->deployment.n++ > 0)
        return ERR_OK;
    JSON_COPY(r->deployment.image, json_get(container, "image"));
    r->deployment.n_wanted = json_int(json_path(deployment, "spec.replicas"), 1);
    r->deployment.n_ready = json_int(json_path(deployment, "status.readyReplicas"), 0);
    return ERR_OK;
}

/* "1.2.3" of "host:5000/a/operator:1.2.3"; "" without one, or with a digest. */
static const char *tag_of(const char *image)
{
    const char *slash = strrchr(image, '/');
    const char *colon = strchr(slash ? slash : image, ':');

    return colon && !strchr(image, '@') ? colon + 1 : "";
}

/* --- nodes --- */

void readiness_read_nodes(struct readiness *r, const struct node_object *nodes, size_t n,
                          int64_t now_ms)
{
    r->nodes.n = (int)n;
    for (size_t i = 0; i < n; i++) {
        const struct annotations *a = &nodes[i].annotations;

        if (node_object_exclusion(&nodes[i], NULL) != EXCLUDED_NOT)
            continue;
        r->nodes.n_usable++;
        r->nodes.n_measured +=
            a->gflops > 0 || (a->has_probe && nodes_stale(&nodes[i], now_ms) == NULL);
    }
}

/* --- what follows --- */

struct findings {
    struct finding *list;
    int n;
};

static void add(struct findings *f, enum readiness_level level, const char *subject,
                const char *fmt, ...) __attribute__((format(printf, 4, 5)));

static void add(struct findings *f, enum readiness_level level, const char *subject,
                const char *fmt, ...)
{
    struct finding *to = &f->list[f->n++];
    va_list args;

    to->level = level;
    to->subject = subject;
    va_start(args, fmt);
    (void)vsnprintf(to->text, sizeof to->text, fmt, args);
    va_end(args);
}

/* " and 3 more"; "" for one. */
static const char *and_more(int n, char out[static 32])
{
    out[0] = '\0';
    if (n > 1)
        (void)snprintf(out, 32, " and %d more", n - 1);
    return out;
}

static void judge_crd(const struct readiness *r, struct findings *f)
{
    static const char crd[] = "crd";
    char more[32];

    if (r->crd.read == ERR_NOT_FOUND ||
        (r->crd.read == ERR_DENIED && r->jobs_read == ERR_NOT_FOUND)) {
        add(f, LEVEL_PROBLEM, crd, "the cluster has no SkyJobs: " INSTALL);
    } else if (r->crd.read == ERR_DENIED) {
        add(f, LEVEL_UNKNOWN, crd, "its schema may not be read%s",
            r->jobs_read == ERR_OK ? ", but SkyJobs of " NAMES_VERSION " are served" : "");
    } else if (!r->crd.is_served) {
        add(f, LEVEL_PROBLEM, crd,
            "SkyJobs of " NAMES_VERSION " are not served: upgrade the CRD, or use the "
            "kubectl-skyjob that belongs to it");
    } else if (!r->crd.is_established) {
        add(f, LEVEL_PROBLEM, crd,
            "the API server has not taken it up: see kubectl describe crd skyjobs." NAMES_GROUP);
    } else if (r->crd.n_missing > 0) {
        add(f, LEVEL_WARNING, crd,
            "it does not know %s%s, which jobs cannot use: upgrade it to version %s",
            r->crd.missing, and_more(r->crd.n_missing, more), r->version);
    } else if (r->crd.n_unknown > 0) {
        add(f, LEVEL_WARNING, crd,
            "it has %s%s, which this kubectl-skyjob does not know: upgrade "
            "kubectl-skyjob",
            r->crd.unknown, and_more(r->crd.n_unknown, more));
    } else {
        add(f, LEVEL_OK, crd, "SkyJobs of " NAMES_VERSION " are served, with every field");
    }
}

static void judge_lease(const struct readiness *r, int64_t now_ms, struct findings *f)
{
    static const char leader[] = "leader";
    char age[32];

    show_age(now_ms - r->lease.renewed_ms, age);
    if (r->lease.name[0] && r->lease.holder[0] && is_fresh(r, now_ms))
        add(f, LEVEL_OK, leader, "%s leads, by the Lease %s/%s", r->lease.holder,
            r->lease.namespace, r->lease.name);
    else if (r->lease.name[0] && readiness_has_leader(r, now_ms))
        add(f, LEVEL_WARNING, leader,
            "%s leads, but its clock and the one of this machine differ: set them right",
            r->lease.holder);
    else if (r->lease.name[0] && !r->lease.holder[0])
        add(f, LEVEL_PROBLEM, leader,
            "no operator leads, the last one has ended: see kubectl get "
            "pods -n %s",
            r->lease.namespace);
    else if (r->lease.name[0])
        add(f, LEVEL_PROBLEM, leader,
            "no operator leads, %s last renewed the Lease %s/%s %s ago: see kubectl get pods -n %s",
            r->lease.holder, r->lease.namespace, r->lease.name, age, r->lease.namespace);
    else if (r->lease.read == ERR_DENIED)
        add(f, LEVEL_UNKNOWN, leader, "Leases may not be read");
    else
        add(f, LEVEL_PROBLEM, leader,
            "no operator leads, there is no Lease " READINESS_LEASE ": " INSTALL);
}

static void judge_operator(const struct readiness *r, struct findings *f)
{
    static const char subject[] = "operator";
    const char *tag = tag_of(r->deployment.image);

    if (r->deployment.n == 0 && r->deployment.read == ERR_DENIED)
        add(f, LEVEL_UNKNOWN, subject, "Deployments may not be read");
    else if (r->deployment.n == 0)
        add(f, LEVEL_WARNING, subject,
            "there is no Deployment of the chart's: if it was not installed otherwise, " INSTALL);
    else if (r->deployment.n_ready == 0 || r->deployment.n_ready < r->deployment.n_wanted)
        add(f, LEVEL_WARNING, subject,
            "%d of %d pods are ready: see kubectl get pods -A -l "
            "app.kubernetes.io/component=operator",
            r->deployment.n_ready, r->deployment.n_wanted);
    else if (tag[0] && strcmp(tag, r->version) != 0)
        add(f, LEVEL_WARNING, subject,
            "its image is %.200s, kubectl-skyjob has version %s: use the same one",
            r->deployment.image, r->version);
    else
        add(f, LEVEL_OK, subject, "%d of %d pods are ready, with the image %.200s",
            r->deployment.n_ready, r->deployment.n_wanted, r->deployment.image);
}

static void judge_right(const struct readiness *r, enum readiness_right right, struct findings *f)
{
    static const struct {
        const char *subject, *what, *remedy;
        enum readiness_level without;
        bool is_namespaced;
    } rows[RIGHTS] = {
        [RIGHT_CREATE] = {"create", "create SkyJobs", "have the ClusterRole edit bound there",
                          LEVEL_PROBLEM, true},
        [RIGHT_LOGS] = {"logs", "read the logs of pods",
                        "have the ClusterRole view bound there for kubectl skyjob logs",
                        LEVEL_WARNING, true},
        [RIGHT_NODES] = {"nodes", "list nodes",
                         "have that allowed for kubectl skyjob nodes, and for plan without a file",
                         LEVEL_WARNING, false},
    };
    const char *in = rows[right].is_namespaced ? " in the namespace " : "";
    const char *namespace = rows[right].is_namespaced ? r->namespace : "";

    if (r->rights[right].read != ERR_OK)
        add(f, LEVEL_UNKNOWN, rows[right].subject, "whether you may %s%s%s may not be asked",
            rows[right].what, in, namespace);
    else if (r->rights[right].is_given)
        add(f, LEVEL_OK, rows[right].subject, "you may %s%s%s", rows[right].what, in, namespace);
    else
        add(f, rows[right].without, rows[right].subject, "you may not %s%s%s: %s", rows[right].what,
            in, namespace, rows[right].remedy);
}

static void judge_nodes(const struct readiness *r, struct findings *f)
{
    static const char capacity[] = "capacity";

    if (r->nodes.read != ERR_OK)
        add(f, LEVEL_UNKNOWN, capacity, "nodes may not be listed");
    else if (r->nodes.n_usable == 0)
        add(f, LEVEL_PROBLEM, capacity,
            "none of %d nodes can have workers: kubectl skyjob nodes has the reasons", r->nodes.n);
    else
        add(f, LEVEL_OK, capacity, "%d of %d nodes can have workers, the speed of %d is known%s",
            r->nodes.n_usable, r->nodes.n, r->nodes.n_measured,
            r->nodes.n_measured < r->nodes.n_usable ? "; the others are measured for the first job"
                                                    : "");
}

static void judge_policies(const struct readiness *r, struct findings *f)
{
    static const char network[] = "network", admission[] = "admission";

    if (r->network_policies.n > 0)
        add(f, LEVEL_OK, network, "the operator has a NetworkPolicy; each job gets its own");
    else if (r->network_policies.read == ERR_DENIED)
        add(f, LEVEL_UNKNOWN, network, "NetworkPolicies may not be read");
    else
        add(f, LEVEL_WARNING, network,
            "the operator has no NetworkPolicy: set networkPolicy.enabled in the chart");
    if (r->admission_policies.n > 0 && r->admission_bindings.n >= r->admission_policies.n)
        add(f, LEVEL_OK, admission, "%d ValidatingAdmissionPolicies bind the operator's account",
            r->admission_policies.n);
    else if (r->admission_policies.n > 0 && r->admission_bindings.read == ERR_OK)
        add(f, LEVEL_WARNING, admission,
            "%d ValidatingAdmissionPolicies, but %d bindings: install the chart again",
            r->admission_policies.n, r->admission_bindings.n);
    else if (r->admission_policies.read == ERR_DENIED || r->admission_bindings.read == ERR_DENIED)
        add(f, LEVEL_UNKNOWN, admission, "ValidatingAdmissionPolicies may not be read");
    else if (r->admission_policies.read == ERR_NOT_FOUND)
        add(f, LEVEL_WARNING, admission,
            "no policies bind the operator's account: that takes Kubernetes 1.30");
    else
        add(f, LEVEL_WARNING, admission,
            "no policies bind the operator's account: set admissionPolicies.enabled in the chart");
}

int readiness_judge(const struct readiness *r, int64_t now_ms,
                    struct finding out[static READINESS_FINDINGS_MAX])
{
    struct findings f = {.list = out};

    judge_crd(r, &f);
    judge_lease(r, now_ms, &f);
    judge_operator(r, &f);
    for (int right = 0; right < RIGHTS; right++)
        judge_right(r, (enum readiness_right)right, &f);
    judge_nodes(r, &f);
    judge_policies(r, &f);
    return f.n;
}

bool readiness_print(const struct finding *findings, int n, FILE *out)
{
    static const char *const levels[] = {
        [LEVEL_OK] = "ok",
        [LEVEL_UNKNOWN] = "unknown",
        [LEVEL_WARNING] = "warning",
        [LEVEL_PROBLEM] = "problem",
    };
    bool has_problem = false;

    for (int i = 0; i < n; i++) {
        (void)fprintf(out, "%-8s %-10s %s\n", levels[findings[i].level], findings[i].subject,
                      findings[i].text);
        has_problem = has_problem || findings[i].level == LEVEL_PROBLEM;
    }
    return has_problem;
}
