/* files/adopt.h - a job goes on from the checkpoints of another one.
 *
 * Its own store gets them, before its first step, under the names that they have, as hard links
 * where the file system has these, else as copies. From then on they are its own, as if the job had
 * been interrupted. The other store is only read, so the other job may still run, and what it
 * removes stays here. Every worker of the job may do it at the same time: what is there is left as
 * it is, and manifests come last. Layer: files. Threads: one; workers are different processes.
 */
#ifndef FILES_ADOPT_H
#define FILES_ADOPT_H

#include "api/spec.h"
#include "files/store.h"

/* The folder with the checkpoints that `path` names: itself, or if it is not there, the only one
 * beside it with the name of a job's folder (names_checkpoints()) of a job of that name. The job's
 * own folder, `own`, does not count. ERR_NOT_FOUND; ERR_INVALID when it is the job's own, or there
 * are several. */
MUST_CHECK enum err_code adopt_find(const char *path, const char *own, char out[static PATH_MAX],
                                    struct err *err);

/* Take over the complete checkpoints in the folder `from`, of a job like `spec`, unless `own` has
 * one. A damaged one is left out, and one that was set aside here before. `slot` is the worker's.
 *
 * Returns ERR_NOT_FOUND when there is none that can be used; ERR_CONFLICT, naming the fields, when
 * they are of a job that is too different (api/identity.h); ERR_DENIED, ERR_IO, ERR_NO_MEMORY. */
MUST_CHECK enum err_code adopt_checkpoints(const struct store *own, const char *from,
                                           const struct spec *spec, int slot, struct err *err);

#endif
