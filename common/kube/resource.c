#include "kube/resource.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

const struct kube_resource kube_pods = {"", "v1", "pods", true};
const struct kube_resource kube_nodes = {"", "v1", "nodes", false};
const struct kube_resource kube_policies = {"networking.k8s.io", "v1", "networkpolicies", true};
const struct kube_resource kube_config_maps = {"", "v1", "configmaps", true};
const struct kube_resource kube_claims = {"", "v1", "persistentvolumeclaims", true};
const struct kube_resource kube_volumes = {"", "v1", "persistentvolumes", false};
const struct kube_resource kube_secrets = {"", "v1", "secrets", true};
const struct kube_resource kube_events = {"", "v1", "events", true};

static enum err_code add_escaped(struct buf *out, const char *text, struct err *err)
{
    enum err_code rc = ERR_OK;

    for (const char *p = text; *p && rc == ERR_OK; p++)
        rc = isalnum((unsigned char)*p) || strchr("-._~", *p)
                 ? buf_add(out, p, 1, err)
                 : buf_addf(out, err, "%%%02X", (unsigned char)*p);
    return rc;
}

/* "/segment", which must not be empty or lead elsewhere. */
static enum err_code add_segment(struct buf *out, const char *segment, struct err *err)
{
    enum err_code rc;

    if (!*segment || strcmp(segment, ".") == 0 || strcmp(segment, "..") == 0 ||
        strpbrk(segment, "/%"))
        return err_set(err, ERR_INVALID, "\"%.80s\" is not valid in a path", segment);
    rc = buf_add(out, "/", 1, err);
    return rc == ERR_OK ? add_escaped(out, segment, err) : rc;
}

enum err_code kube_add_query(struct buf *path, const char *name, const char *value, struct err *err)
{
    const char *separator = strchr(buf_text(path), '?') ? "&" : "?";
    enum err_code rc = buf_addf(path, err, "%s%s=", separator, name);

    return rc == ERR_OK ? add_escaped(path, value, err) : rc;
}

enum err_code kube_ref_path(const struct kube_ref *ref, struct buf *out, struct err *err)
{
    const struct kube_resource *r = ref->resource;
    const char *namespace = r->is_namespaced ? ref->namespace : NULL;
    const char *const segments[] = {r->group[0] ? "apis" : "api",
                                    r->group[0] ? r->group : NULL,
                                    r->version,
                                    namespace ? "namespaces" : NULL,
                                    namespace,
                                    r->plural,
                                    ref->name,
                                    ref->name ? ref->subresource : NULL};
    enum err_code rc = ERR_OK;

    if (r->is_namespaced && ref->name && !ref->namespace)
        return err_set(err, ERR_INVALID, "%s %s: no namespace is given", r->plural, ref->name);
    for (size_t i = 0; i < sizeof segments / sizeof *segments && rc == ERR_OK; i++)
        if (segments[i])
            rc = add_segment(out, segments[i], err);
    if (rc == ERR_OK && ref->label_selector)
        rc = kube_add_query(out, "labelSelector", ref->label_selector, err);
    if (rc == ERR_OK && ref->field_selector)
        rc = kube_add_query(out, "fieldSelector", ref->field_selector, err);
    return rc;
}

enum err_code kube_list_path(const struct kube_ref *ref, const char *position, int n_objects,
                             struct buf *out, struct err *err)
{
    char limit[16];
    enum err_code rc = kube_ref_path(ref, out, err);

    (void)snprintf(limit, sizeof limit, "%d", n_objects);
    if (rc == ERR_OK)
        rc = kube_add_query(out, "limit", limit, err);
    if (rc == ERR_OK && *position)
        rc = kube_add_query(out, "continue", position, err);
    return rc;
}

void kube_ref_text(const struct kube_ref *ref, char *out, size_t out_bytes)
{
    bool has_namespace = ref->resource->is_namespaced && ref->namespace;
    const char *slash = has_namespace && ref->name ? "/" : "";

    (void)snprintf(out, out_bytes, "%s%s%s%s%s%s%s", ref->resource->plural,
                   has_namespace || ref->name ? " " : "", has_namespace ? ref->namespace : "",
                   slash, ref->name ? ref->name : "", ref->subresource ? " " : "",
                   ref->subresource ? ref->subresource : "");
}
