/* cli/variant.h - a job with another spec.sync: as a patch, as a run of the tuner, as a manifest.
 *
 * All three are a JSON merge patch (RFC 7386), which `kubectl patch --type merge` applies as well.
 * Layer: cli. Threads: any; no I/O.
 */
#ifndef CLI_VARIANT_H
#define CLI_VARIANT_H

#include "api/spec.h"
#include "base/json.h"

#define VARIANT_MAX_BYTES ((size_t)4 << 20) /* of a document */

/* How replicas are to work together: BSP for `percent` of the steps, then `later`, ASP or Local.
 * 100: BSP; 0: `later` from the start. */
struct variant_sync {
    int percent;
    enum spec_protocol later;
};

/* "BSP", "ASP", "6% BSP, then ASP" */
#define VARIANT_NAME_BYTES 32
void variant_name(struct variant_sync sync, char out[static VARIANT_NAME_BYTES]);

/* `target` with the merge patch `patch`: a null removes a member, objects are merged, everything
 * else is replaced. The caller owns *out: json_free(). ERR_INVALID, ERR_LIMIT, ERR_NO_MEMORY. */
MUST_CHECK enum err_code variant_apply(const struct json *target, const struct json *patch,
                                       struct json **out, struct err *err);

/* Write the member "sync" of a merge patch for a spec: that protocol, without those of the spec's
 * own fields that would have no effect then. Others, such as localSteps, stay. */
void variant_sync(const struct spec *spec, const struct json *spec_json, struct variant_sync sync,
                  struct jsonw *w);
/* The patch {"spec": {"sync": ...}} for the job; the caller owns *out. */
MUST_CHECK enum err_code variant_patch(const struct spec *spec, const struct json *spec_json,
                                       struct variant_sync sync, struct json **out,
                                       struct err *err);

/* A spec for a run of which only the metric counts. */
struct variant_run {
    struct variant_sync sync;
    int64_t seed;
    int steps; /* 0: as many as the job has */
};

/* The job's spec with that protocol, seed and steps. It writes no checkpoints; a job that keeps its
 * best weights, which needs them, only reports their evaluation. The caller owns *out. */
MUST_CHECK enum err_code variant_spec(const struct spec *spec, const struct json *spec_json,
                                      const struct variant_run *run, struct json **out,
                                      struct err *err);

/* A JSON value as YAML in one line, without quotes where none are needed. Appends to `out`. */
MUST_CHECK enum err_code variant_yaml(const struct json *value, struct buf *out, struct err *err);

#endif
