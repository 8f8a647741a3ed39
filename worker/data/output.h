/* data/output.h - the folder where a job leaves its model and predictions.
 *
 * An attempt does not write there directly: all of its stages write into one hidden folder inside
 * it, `.skyjob-<hash of the job's uid>-a<attempt>`. The volume is the same for all stages.
 * Layer: data (may use api base). Threads: one; stages are different processes.
 */
#ifndef DATA_OUTPUT_H
#define DATA_OUTPUT_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct output_params {
    const char *folder; /* made when it is missing (not its parents) */
    const char *uid;    /* of the job */
    int attempt;
    int stage;
    int64_t bytes; /* of all weights that the stages will write */
};

struct output {
    char folder[PATH_MAX];
    char aside[PATH_MAX]; /* where the attempt writes */
};

/* Check that the output can be written before hours are spent on training: make the folder of the
 * attempt, remove those of earlier attempts of the job, write a small file and compare the free
 * space. A quota may still be exceeded later.
 *
 * Returns ERR_DENIED, ERR_NOT_FOUND or ERR_INVALID when the path can never be written; ERR_LIMIT
 * for too little space; ERR_IO, ERR_NO_MEMORY. The text says what to do.
 */
MUST_CHECK enum err_code output_open(struct output *out, const struct output_params *params,
                                     struct err *err);

#endif
