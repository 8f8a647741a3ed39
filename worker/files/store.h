/* files/store.h - the checkpoints of a job: in a folder that all of its workers share, in one that
 * is a worker's own, or in a bucket.
 *
 *     <folder>/<lineage>-<step>/model-00001-of-00003.safetensors
 *                               model-00001-of-00003.json          its manifest
 *                               history.jsonl, progress.json       the leader's records
 *                               config.json, ...                   see files/export.h
 *
 * Every stage writes its own shard: per unit the parameters under their Hugging Face names, then
 * moment and variance, each as one tensor. So a checkpoint is also a model that `from_pretrained`
 * loads. The manifest, with sizes and checksums, comes last, and everything is synced before it: a
 * checkpoint is complete when all manifests are there, agree, and cover every unit once. One folder
 * is written under one revision, so all of its shards are of the same cut.
 *
 * In a worker's own store are the shards that it has written, and copies of other workers' shards.
 * A checkpoint there is never known to be complete; what is listed are the units that are there.
 *
 * A bucket holds the same files under the same names (files/remote.h). Then the folder is this
 * worker's own too: its shards are written there first, and shards of others are fetched into it
 * before they are read. What is listed, and complete, is what the bucket has.
 *
 * Nothing in the files is trusted. Sizes are checked when checkpoints are listed, checksums and
 * values when they are read. One that fails is refused: set aside, so that it is not listed again.
 * Layer: files. Threads: one per store, writer and reader, and besides them one per receiver;
 * workers are different processes.
 */
#ifndef FILES_STORE_H
#define FILES_STORE_H

#include <stdatomic.h>

#include "api/identity.h"
#include "api/resume.h"
#include "files/export.h"

struct remote;

struct store {
    char folder[PATH_MAX]; /* of this job alone */
    bool is_own;           /* of this worker alone, which others send copies to */
    struct remote *remote; /* borrowed: the bucket; NULL: there is none */
    int spare_percent;     /* of its disk, which no checkpoint takes: set by the caller */
};

/* Set and create the folder (with its parent). Errors of folder_make(). */
MUST_CHECK enum err_code store_open(struct store *s, const char *folder, struct err *err);
/* The same for one that is this worker's own. */
MUST_CHECK enum err_code store_open_own(struct store *s, const char *folder, struct err *err);

/* The same for a folder of this worker's own before a bucket. */
MUST_CHECK enum err_code store_open_remote(struct store *s, const char *folder,
                                           struct remote *remote, struct err *err);

/* A checkpoint, with the history that leads to it. */
struct store_point {
    struct resume_checkpoint at;
    struct resume_origins origins; /* of at.lineage */
    /* The best evaluation's, whose checkpoint is kept beside this one; step 0: none. */
    struct resume_origin best;
    struct identity identity; /* of its job; n is 0 in older ones */
};

/* List the complete checkpoints, or in a worker's own store those of which there are units, with
 * at.parts; the newest lineage first and the newest step first in it. Returns how many, at most
 * `max`. What cannot be read is skipped, with a warning in the log. */
int store_list(const struct store *s, struct store_point *out, int max);

/* Of the complete checkpoints that count for `at` keep the newest `keep` (at least 1) and the best
 * ones that they name, and remove older ones, complete or not, and those that do not count. Left
 * alone are checkpoints of newer lineages, incomplete ones newer than the newest that is kept, and
 * everything as long as there is none to keep. The leader's to call. Manifests are removed before
 * their shards. What cannot be removed is logged and tried again next time. */
void store_clean(const struct store *s, const struct resume *at, int keep);

/* The same for a worker's own store, for every worker to call: `step` is that of the newest
 * checkpoint that is known to be complete and safe (0: none is, and nothing is removed); older ones
 * count as complete. */
void store_clean_own(const struct store *s, const struct resume *at, int keep, int64_t step);

/* Where this one is, or would be. ERR_INVALID when that is too long for a path. */
MUST_CHECK enum err_code store_folder(const struct store *s, const struct resume_checkpoint *c,
                                      char out[static PATH_MAX], struct err *err);
/* Is this file of a checkpoint one of those that make it complete, which come last? */
bool store_is_manifest(const char *file);
/* Has this one been set aside? */
bool store_is_refused(const struct store *s, const struct resume_checkpoint *c);

/* Bring what is needed to read these units of a checkpoint, which is listed, into the folder; with
 * unit 0 the leader's records. There is something to do for a bucket only. Errors of http/s3.h and
 * store_receive_finish(). */
MUST_CHECK enum err_code store_fetch(const struct store *s, const struct resume_checkpoint *c,
                                     const struct resume_part *units, const atomic_bool *stops,
                                     struct err *err);

/* Set aside what the folder has of a checkpoint, so that it is fetched again; the bucket keeps it.
 */
void store_drop(const struct store *s, const struct resume_checkpoint *c);

/* Set a checkpoint aside that has proved to be damaged, as <lineage>-<step>.refused: it is not
 * listed any more. An older one of that name is removed. One in a bucket stays, with an object
 * "refused" beside its files. A failure is logged. */
void store_refuse(const struct store *s, const struct resume_checkpoint *c);

/* --- writing --- */

/* A shard of a checkpoint. */
struct store_shard {
    int64_t lineage;
    int64_t step;
    int stage;
    int n_stages;
};

struct store_writer; /* on the heap; all fields private */

/* Begin the shard of stage `stage`. `model` is as in export_begin(), its folder and n_moments are
 * not used, and what it points to is borrowed as long as *out is; `has_variance` is AdamW. On
 * ERR_OK the caller ends *out with exactly one of store_finish() and store_abandon(). ERR_LIMIT
 * when it would take the room that is spared; errors of export_begin(). */
MUST_CHECK enum err_code store_begin(const struct store *s, const struct store_point *point,
                                     const struct export_params *model, int stage,
                                     bool has_variance, struct store_writer **out, struct err *err);

/* The next `count` floats: unit by unit, its parameters, moment and variance, in any number of
 * calls. Errors of safetensors_put(). */
MUST_CHECK enum err_code store_put(struct store_writer *w, const float *data, size_t count,
                                   struct err *err);

/* What only the leader adds. Borrowed until store_finish(). */
struct store_records {
    const char *history; /* lines of JSON (train/history.h) */
    size_t n_history;
    const char *progress; /* a progress document */
    size_t n_progress;
};

/* Sync the shard, write the leader's files (`records` is NULL for stages other than 0), and the
 * manifest. Whatever this returns, *w is gone. On an error nothing is left that could be taken for
 * a complete shard. */
MUST_CHECK enum err_code store_finish(struct store_writer *w, const struct store_records *records,
                                      struct err *err);
void store_abandon(struct store_writer *w); /* NULL is fine */

/* --- copies of a shard, for stores that are workers' own --- */

/* The files of a shard, in the order in which they are received. The leader's records belong to
 * stage 0. */
enum store_file { STORE_SHARD, STORE_HISTORY, STORE_PROGRESS, STORE_MANIFEST, N_STORE_FILES };

/* Upload a shard that is finished; for a bucket only. ERR_GONE when *stops has become true; errors
 * of http/s3.h. */
MUST_CHECK enum err_code store_push(const struct store *s, const struct store_shard *shard,
                                    const atomic_bool *stops, struct err *err);

/* Where such a file is. ERR_INVALID when that is too long for a path. */
MUST_CHECK enum err_code store_file_path(const struct store *s, const struct store_shard *shard,
                                         enum store_file file, char out[static PATH_MAX],
                                         struct err *err);

struct store_receiver; /* on the heap; all fields private */

/* Begin the copy of a shard that another worker has written. On ERR_OK the caller ends *out with
 * exactly one of store_receive_finish() and store_receive_abandon(). ERR_INVALID for a shard that
 * cannot be; ERR_LIMIT as store_begin(); ERR_NOT_FOUND, ERR_DENIED, ERR_IO with the path,
 * ERR_NO_MEMORY. */
MUST_CHECK enum err_code store_receive_begin(const struct store *s, const struct store_shard *shard,
                                             struct store_receiver **out, struct err *err);

/* The next bytes of a file, in any number of calls. ERR_INVALID when it is not the turn of that
 * file; ERR_LIMIT for a manifest that is too long; errors of writing. */
MUST_CHECK enum err_code store_receive(struct store_receiver *r, enum store_file file,
                                       const void *bytes, size_t n, struct err *err);

/* Sync the files; then write the manifest, if it goes with them. Whatever this returns, *r is gone.
 * ERR_INVALID when a file is missing or has another size than the manifest says. */
MUST_CHECK enum err_code store_receive_finish(struct store_receiver *r, struct err *err);
void store_receive_abandon(struct store_receiver *r); /* NULL is fine */

/* --- reading --- */

struct store_reader; /* on the heap; all fields private */

/* Open the checkpoint of c's lineage and step, which is complete or this worker's own part of one:
 * read its manifests and map its shards. On ERR_OK the caller owns *out: store_close().
 *
 * Returns ERR_NOT_FOUND when there is no such checkpoint, or not all of it; ERR_INVALID with file
 * and reason when it is damaged; ERR_CONFLICT with a remedy when it is of another model or
 * optimizer; ERR_DENIED, ERR_IO, ERR_NO_MEMORY.
 */
MUST_CHECK enum err_code store_read(const struct store *s, const struct resume_checkpoint *c,
                                    const struct model *m, bool has_variance,
                                    struct store_reader **out, struct err *err);

/* Read a unit, model_unit_params() floats each; `variance` is NULL where there is none. ERR_INVALID
 * when the bytes do not have the manifest's checksum, or a number is not finite; the floats are
 * then undefined. ERR_NOT_FOUND for a unit that is not in a worker's own part. */
MUST_CHECK enum err_code store_read_unit(const struct store_reader *r, int unit, float *params,
                                         float *moment, float *variance, struct err *err);

/* A unit in memory that the kernel can put aside on the store's disk: to pass a unit on takes no
 * more memory than there is. */
struct store_unit {
    float *params, *moment;
    float *variance; /* NULL: there is none */
    size_t bytes;    /* of all */
};

/* Read a unit into such memory. On ERR_OK the caller owns *out: store_free_unit(). Errors of
 * store_read_unit(); ERR_IO, ERR_DENIED with the path when there is no room for it. */
MUST_CHECK enum err_code store_load_unit(const struct store_reader *r, int unit,
                                         struct store_unit *out, struct err *err);
void store_free_unit(struct store_unit *u);

/* Append the leader's records, which are where unit 0 is. ERR_INVALID and ERR_NOT_FOUND as above;
 * ERR_LIMIT, ERR_NO_MEMORY. */
MUST_CHECK enum err_code store_read_records(const struct store_reader *r, struct buf *out_history,
                                            struct buf *out_progress, struct err *err);

void store_close(struct store_reader *r); /* NULL is fine */

#endif
