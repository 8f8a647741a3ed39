/* files/remote.h - the checkpoints of a job in a bucket.
 *
 *     s3://<bucket>/<prefix>/<lineage>-<step>/<file>
 *
 * The files are those of files/store.h, and the prefix is the job's alone. A stage uploads its
 * shard, then the leader's records, then its manifest, so a checkpoint is complete as in a folder:
 * when all manifests are there, agree, cover every unit once, and have their files beside them,
 * with the sizes that they say. An object "refused" in it says that it has proved to be damaged.
 *
 * Manifests are read once and remembered by their ETag, so a listing is usually one request. When
 * the server does not answer, the listing before stands: no checkpoint is there no longer because a
 * request has failed.
 * Layer: files. Threads: one at a time.
 */
#ifndef FILES_REMOTE_H
#define FILES_REMOTE_H

#include "files/store.h"
#include "http/s3.h"

/* Open the bucket and list it. Errors of s3_new() and s3_list(). */
MUST_CHECK enum err_code remote_open(const struct s3_access *access, struct remote **out,
                                     struct err *err);
void remote_close(struct remote *r); /* NULL is fine */

/* As store_list(). */
int remote_list(struct remote *r, struct store_point *out, int max);

/* As store_push() and store_fetch(), from and into the folder of `s`. A file of it that has another
 * manifest than the bucket is replaced. */
MUST_CHECK enum err_code remote_push(struct remote *r, const struct store *s,
                                     const struct store_shard *shard, const atomic_bool *stops,
                                     struct err *err);
MUST_CHECK enum err_code remote_fetch(struct remote *r, const struct store *s,
                                      const struct resume_checkpoint *c,
                                      const struct resume_part *units, const atomic_bool *stops,
                                      struct err *err);

/* As store_clean() and store_refuse(). */
void remote_clean(struct remote *r, const struct resume *at, int keep);
void remote_refuse(struct remote *r, const struct resume_checkpoint *c);
/* Was it, as far as the last listing shows? */
bool remote_is_refused(const struct remote *r, const struct resume_checkpoint *c);

/* --- from one job to another (files/adopt.h); what is listed of the other one counts --- */

/* Make files in the folder of `to`, without a bucket, that store_read() takes for those of this
 * checkpoint: all but the data of shards and records, in the place of which are holes.
 * ERR_NOT_FOUND, ERR_INVALID as for store_read(); errors of s3_get() and of writing. */
MUST_CHECK enum err_code remote_fetch_headers(struct remote *r, const struct store *to,
                                              const struct resume_checkpoint *c, struct err *err);

/* Copy a checkpoint from another prefix of the bucket, manifests last. Errors of s3_copy():
 * ERR_NOT_FOUND when it has been removed meanwhile. */
MUST_CHECK enum err_code remote_copy(struct remote *r, struct remote *from,
                                     const struct resume_checkpoint *c, struct err *err);

#endif
