/* kube/resource.h - resource types, references to objects, and their paths.
 *
 * Pure. Every part is percent-escaped, and a name that would change the path ("..", "a/b", "") is
 * refused.
 * Layer: kube (may use http, base). Threads: any.
 */
#ifndef KUBE_RESOURCE_H
#define KUBE_RESOURCE_H

#include "base/buf.h"

#define KUBE_PAGE_OBJECTS 100 /* at first; fewer where they are large */

/* A resource type as the API server names it in paths. */
struct kube_resource {
    const char *group; /* "" is the core group */
    const char *version;
    const char *plural; /* "pods" */
    bool is_namespaced;
};

/* Those that every cluster has. */
extern const struct kube_resource kube_pods;
extern const struct kube_resource kube_nodes;
extern const struct kube_resource kube_policies;
extern const struct kube_resource kube_config_maps;
extern const struct kube_resource kube_claims;
extern const struct kube_resource kube_volumes;
extern const struct kube_resource kube_secrets;
extern const struct kube_resource kube_events;

/* One object, or a collection of them when `name` is NULL. Borrowed everywhere. */
struct kube_ref {
    const struct kube_resource *resource;
    const char *namespace;      /* NULL: all namespaces, or not namespaced */
    const char *name;           /* NULL: the collection */
    const char *subresource;    /* "status", "log"; NULL: none */
    const char *label_selector; /* of a collection; NULL: all */
    const char *field_selector;
};

/* Append the path, with `?labelSelector=` and `&fieldSelector=` when the reference has them:
 * "/apis/skyjob.dev/v1alpha1/namespaces/default/skyjobs/mnli/status".
 * Returns ERR_INVALID for a part that is empty or not a path segment, or for an object of a
 * namespaced type without namespace. */
MUST_CHECK enum err_code kube_ref_path(const struct kube_ref *ref, struct buf *out,
                                       struct err *err);

/* Append "name=value" to a path, with the right separator, `value` percent-escaped. */
MUST_CHECK enum err_code kube_add_query(struct buf *path, const char *name, const char *value,
                                        struct err *err);

/* Append the path of one page of at most `n_objects` of a collection: the one after `position`, the
 * `metadata.continue` of the page before, or the first for "". */
MUST_CHECK enum err_code kube_list_path(const struct kube_ref *ref, const char *position,
                                        int n_objects, struct buf *out, struct err *err);

/* "pods default/mnli-r0-s0-a1", for messages. */
void kube_ref_text(const struct kube_ref *ref, char *out, size_t out_bytes);

#endif
