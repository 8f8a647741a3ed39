/* control/manifest.h - the objects that the operator makes, as JSON text.
 *
 * Every child is owned by the SkyJob, carries its labels, and fits the restricted Pod Security
 * standard. Each function appends one document to `out`.
 * Layer: control (may use balance, api, base). Threads: any; pure.
 */
#ifndef CONTROL_MANIFEST_H
#define CONTROL_MANIFEST_H

#include "control/decide.h"

#define MANIFEST_MAX_BYTES       ((size_t)1 << 20) /* a revision in a string */
#define MANIFEST_ONESHOT_SECONDS 120 /* a probe or reader that takes longer is ended */

/* The user of the worker's image. */
#define MANIFEST_USER 65532

#define MANIFEST_SPEC_KEY   "spec.json"
#define MANIFEST_KEY_KEY    "key"
#define MANIFEST_TLS_VOLUME "tls"
#define MANIFEST_CA_FILE    "ca.crt" /* in the Secret with certificates and in pods */

/* Slot and incarnation that stand for the pair of the metrics ports, which a job's workers share.
 */
#define MANIFEST_METRICS -1, 0

/* The image that workers run: the spec's, else what the workers before were started with, so that
 * an operator with another default does not mix the two, else the operator's. Borrowed. */
const char *manifest_image(const struct observed *seen, const struct spec *spec);

/* The object that an action creates, and its name; `revision` is that of ACTION_CREATE_REVISION. */
MUST_CHECK enum err_code manifest_object(const struct observed *seen, const struct action *action,
                                         const struct revision *revision,
                                         char out_name[static NAMES_BYTES], struct buf *out,
                                         struct err *err);
/* The Secret with the key of the job's workers, as text. */
MUST_CHECK enum err_code manifest_key(const struct observed *seen, const char *key, struct buf *out,
                                      struct err *err);
/* Do the pods of this role speak TLS? As the settings have it, but never beside one of the job that
 * does otherwise: they could not connect. */
bool manifest_has_tls(const struct observed *seen, enum pod_role role);
/* The member of the Secret with certificates that a pod mounts: "w<slot>-<incarnation>.<kind>", or
 * "metrics.<kind>". */
void manifest_certificate_file(int slot, int incarnation, const char *kind,
                               char out[static NAMES_BYTES]);
/* The Secret with certificates; `texts` is an object with its members. */
MUST_CHECK enum err_code manifest_certificates(const struct observed *seen,
                                               const struct json *texts, struct buf *out,
                                               struct err *err);
/* A merge patch for a node, of ACTION_INVALIDATE_PROBE. */
MUST_CHECK enum err_code manifest_contradicted_patch(const struct observed *seen, struct buf *out,
                                                     struct err *err);
/* A merge patch for a node, of ACTION_ANNOTATE_NODE. ERR_NOT_FOUND when the node or the probe that
 * it names is not among what was seen. */
MUST_CHECK enum err_code manifest_node_patch(const struct observed *seen,
                                             const struct action *action, struct buf *out,
                                             struct err *err);
/* A merge patch for the job's status; refused when the job is not `resource_version` any more. */
MUST_CHECK enum err_code manifest_status_patch(const struct status *status,
                                               const char *resource_version, struct buf *out,
                                               struct err *err);

#endif
