/* api/pods.h - what spec.worker says about all pods of a job: their labels and annotations, and
 * which nodes may have them.
 *
 *   labels, annotations   added to the operator's own
 *   nodeSelector          labels that a node must have
 *   tolerations           taints that a node may have
 *   imagePullSecrets      for a registry that asks who pulls
 *
 * They go into pods as they are written, so they stay the JSON of the spec; `struct spec` has only
 * a hash of each, to see that one has changed. Layer: api (uses base). Threads: any; pure.
 */
#ifndef API_PODS_H
#define API_PODS_H

#include <stdbool.h>

#include "base/json.h"

#define PODS_LABELS_MAX      32 /* labels, annotations, labels of nodes; each */
#define PODS_TOLERATIONS_MAX 16
#define PODS_SECRETS_MAX     8
#define PODS_ANNOTATION_MAX  4096 /* bytes of a value */

/* `worker` is spec.worker in all of these; NULL: there is none. ERR_INVALID names the field. */
MUST_CHECK enum err_code pods_check(const struct json *worker, struct err *err);

/* Has a node with these labels all that are asked for? Lines "key=value\n". */
bool pods_select(const struct json *worker, const char *labels);

/* May pods stay on a node with this taint? One that they tolerate only for some seconds does not
 * count: a worker is to stay. */
bool pods_tolerate(const struct json *worker, const char *key, const char *value,
                   const char *effect);

#endif
