/* files/output.h - the folder where a job leaves its model and predictions.
 *
 * A revision does not write there directly: all of its stages write into one hidden folder inside
 * it, `.skyjob-<hash of the job's uid>-r<revision>`. Once all have written, the leader (stage 0)
 * renames the files into place as a whole. The volume is the same for all stages.
 *
 * Only the current revision may publish. The leader leaves its claim, `.skyjob-revision`, when it
 * starts, and before it publishes it reads the file again: a newer revision of the job, or another
 * job, has replaced it. What remains is the time between that check and the last rename: a worker
 * that stops in between and wakes up after its successor has published would still publish.
 * Layer: files. Threads: one; stages are different processes.
 */
#ifndef FILES_OUTPUT_H
#define FILES_OUTPUT_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct output {
    const char *folder; /* made when it is missing (not its parents); borrowed */
    const char *uid;    /* of the job; borrowed */
    int revision;
    char aside[PATH_MAX]; /* where the revision writes; made by the first stage that does */
    bool is_complete;     /* every file of the model was there when publishing began */
};

/* Check that the output can be written before hours are spent on training: make the folder,
 * remove what earlier revisions of the job left, write a small file and compare the free space with
 * the `bytes` of all weights that the stages will write. A quota may still be exceeded later.
 * Stage 0 also leaves the claim. The caller has set folder, uid and revision.
 *
 * Returns ERR_DENIED, ERR_NOT_FOUND or ERR_INVALID when the path can never be written; ERR_LIMIT
 * for too little space; ERR_CONFLICT when a newer revision of the job has the folder; ERR_IO,
 * ERR_NO_MEMORY. The text has the remedy.
 */
MUST_CHECK enum err_code output_open(struct output *o, int stage, int64_t bytes, struct err *err);

/* For stages other than 0, once the leader has left its claim: is this the folder that it writes
 * to? ERR_AGAIN when the claim is missing: some network file systems show it late. */
MUST_CHECK enum err_code output_find_claim(const struct output *o, struct err *err);

/* Put the revision's files into place, the `n_stages` shards and all other files, and remove what
 * an older model left. An index or a model.safetensors never exists beside files of another run:
 * the old one is removed first and the new one comes last. After an error it may be called again
 * and continues where it stopped.
 *
 * Returns ERR_CONFLICT when a newer revision or another job has claimed the folder; ERR_NOT_FOUND
 * when a file of the model is missing; ERR_DENIED, ERR_IO, ERR_NO_MEMORY.
 */
MUST_CHECK enum err_code output_publish(struct output *o, int n_stages, struct err *err);

#endif
