/* run/parse.h - API objects to the store's structs.
 *
 * Tolerant: whatever is missing or of another kind is as if not set, since objects come from
 * programs of many versions. Layer: run. Threads: any; pure but for memory.
 */
#ifndef RUN_PARSE_H
#define RUN_PARSE_H

#include "run/store.h"

/* Replace what is in the API server of the job; the rest stays. ERR_NO_MEMORY. */
MUST_CHECK enum err_code parse_job(const struct json *object, struct store_job *out,
                                   struct err *err);
/* Free what a job that is over does not need. */
void parse_drop_job(struct store_job *job);
/* One user less, and *spec is NULL, as it may be before. The last one frees it. */
void parse_release_spec(struct store_spec **spec);
/* `out` is zeroed; the store frees it. */
MUST_CHECK enum err_code parse_pod(const struct json *object, struct store_pod *out,
                                   struct err *err);
MUST_CHECK enum err_code parse_revision(const struct json *object, struct store_revision *out,
                                        struct err *err);

/* Is a pod what would be in the API server if it had been made from `made`? Labels, name and the
 * whole spec are compared, but for what the API server fills in. */
bool parse_is_as_made(const struct json *object, const struct json *made);

/* Can pods on any node read this claim at the same time, without deciding where its volume is to
 * be? It must be bound, for many readers, and its volume, which may be NULL, tied to no node. */
bool parse_is_everywhere(const struct json *claim, const struct json *volume);

/* The SkyJob that controls the object: its uid and name; false when none does. */
bool parse_owner(const struct json *object, char out_uid[static OBSERVED_UID_BYTES],
                 char out_key[static QUEUE_KEY_BYTES]);

#endif
