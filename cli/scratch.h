/* cli/scratch.h - the temporary folder of a local run: plan, key, logs of the workers.
 *
 * All are in $TMPDIR/skyjob-<user id> (/tmp by default), which only this user can read. A run that
 * succeeds removes its own; of those that failed, the newest SCRATCH_KEPT_MAX are kept.
 * Layer: cli. Threads: one.
 */
#ifndef CLI_SCRATCH_H
#define CLI_SCRATCH_H

#include "base/err.h"

#define SCRATCH_PATH_BYTES 512
#define SCRATCH_KEPT_MAX   5

struct scratch {
    char path[SCRATCH_PATH_BYTES]; /* "": there is none */
    int lock;                      /* while it is open, the folder is in use */
};

/* Make a new folder, and remove old ones that no process uses. ERR_INVALID when TMPDIR is too long
 * or its skyjob folder is not this user's own; ERR_DENIED, ERR_NOT_FOUND, ERR_IO. */
MUST_CHECK enum err_code scratch_make(struct scratch *out, struct err *err);
/* The path of a file in it, with a name of a few characters. */
void scratch_file(const struct scratch *s, char out[static SCRATCH_PATH_BYTES], const char *fmt,
                  ...) __attribute__((format(printf, 3, 4)));
/* Remove the folder unless it is kept. A zeroed struct is fine. */
void scratch_end(struct scratch *s, bool is_kept);

#endif
