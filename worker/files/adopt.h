/* files/adopt.h - a job goes on from the checkpoints of another one.
 *
 * Its own store gets them, before its first step, under the names that they have: in a folder as
 * hard links where the file system has these, else as copies; in a bucket as copies that the server
 * makes. From then on they are its own, as if the job had been interrupted. The other store is only
 * read, so the other job may still run, and what it removes stays here. Every worker of the job may
 * do it at the same time: what is there is left as it is, or replaced by the same bytes, and
 * manifests come last. Layer: files. Threads: one; workers are different processes.
 */
#ifndef FILES_ADOPT_H
#define FILES_ADOPT_H

#include "api/spec.h"
#include "files/store.h"

/* Where the other job has its checkpoints. */
struct adopt_source {
    char place[PATH_MAX];  /* a folder, or s3://BUCKET/PREFIX */
    struct remote *remote; /* owned; NULL: it is a folder */
};

/* Find the checkpoints that `from` names: those in it, or if it is not there, those of the only job
 * of that name beside it, whose folder has the name of names_checkpoints(). In a bucket a folder is
 * a prefix, and is there if it has a checkpoint. The job's own one, `own`, does not count. Both are
 * folders, or both s3://BUCKET/PREFIX of the same bucket. On ERR_OK the caller owns *out:
 * adopt_close().
 *
 * Returns ERR_NOT_FOUND; ERR_INVALID when it is the job's own, or there are several, which it
 * lists; errors of remote_open(). */
MUST_CHECK enum err_code adopt_find(const char *from, const char *own, struct adopt_source *out,
                                    struct err *err);
void adopt_close(struct adopt_source *s); /* a zeroed one is fine */

/* Take over the complete checkpoints of `from`, of a job like `spec`, unless `own` has one. A
 * damaged one is left out, and one that was set aside here before. `slot` is the worker's.
 *
 * Returns ERR_NOT_FOUND when there is none that can be used; ERR_CONFLICT, naming the fields, when
 * they are of a job that is too different (api/identity.h); ERR_DENIED, ERR_IO, ERR_NO_MEMORY; in a
 * bucket also errors of s3_copy(). */
MUST_CHECK enum err_code adopt_checkpoints(const struct store *own, const struct adopt_source *from,
                                           const struct spec *spec, int slot, struct err *err);

#endif
