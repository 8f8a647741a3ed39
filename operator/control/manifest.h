/* control/manifest.h - the objects that the operator makes, as JSON text.
 *
 * Every child is owned by the SkyJob, carries its labels, and fits the restricted Pod Security
 * standard. Each function appends one document to `out`.
 * Layer: control (may use balance, api, base). Threads: any; pure.
 */
#ifndef CONTROL_MANIFEST_H
#define CONTROL_MANIFEST_H

#include "control/decide.h"

#define MANIFEST_MAX_BYTES       ((size_t)512 << 10)
#define MANIFEST_ONESHOT_SECONDS 120 /* a probe or reader that takes longer is ended */

#define MANIFEST_SPEC_KEY "spec.json"
#define MANIFEST_KEY_KEY  "key"

/* The image that workers run: the spec's, else the operator's. Borrowed from either. */
const char *manifest_image(const struct observed *seen, const struct spec *spec);

/* A NetworkPolicy that lets the job's pods talk to each other, the operator to them, and anyone ask
 * whether they are healthy; where the operator is not known (settings), the control port is open.
 * Its name goes with names_policy(). */
MUST_CHECK enum err_code manifest_policy(const struct observed *seen, struct buf *out,
                                         struct err *err);
/* The Secret with the key of the job's workers, as text; its name goes with names_key(). */
MUST_CHECK enum err_code manifest_key(const struct observed *seen, const char *key, struct buf *out,
                                      struct err *err);
MUST_CHECK enum err_code manifest_plan(const struct observed *seen, const struct plan *plan,
                                       struct buf *out, struct err *err);
/* Of a stage of seen->plan. */
MUST_CHECK enum err_code manifest_stage_pod(const struct observed *seen, int stage, struct buf *out,
                                            struct err *err);
/* The ConfigMap with the job's spec; its name goes with names_probe_spec(). */
MUST_CHECK enum err_code manifest_probe_spec(const struct observed *seen, struct buf *out,
                                             struct err *err);
MUST_CHECK enum err_code manifest_probe_pod(const struct observed *seen,
                                            const struct action *action, struct buf *out,
                                            struct err *err);
MUST_CHECK enum err_code manifest_model_pod(const struct observed *seen, struct buf *out,
                                            struct err *err);
/* A merge patch for a node, of ACTION_DOUBT_NODE. */
MUST_CHECK enum err_code manifest_doubt_patch(const struct observed *seen, struct buf *out,
                                              struct err *err);
/* A merge patch for a node, of ACTION_LABEL_NODE. ERR_NOT_FOUND when the node or the probe that
 * it names is not among what was seen. */
MUST_CHECK enum err_code manifest_node_patch(const struct observed *seen,
                                             const struct action *action, struct buf *out,
                                             struct err *err);
/* A merge patch for the job's status; refused when the job is not `resource_version` any more. */
MUST_CHECK enum err_code manifest_status_patch(const struct status *status,
                                               const char *resource_version, struct buf *out,
                                               struct err *err);

#endif
