/* probe/sequences.h - the lengths of a job's sequences, so that a probe trains on such ones.
 *
 * Layer: probe (may use train data api base). Threads: one caller.
 */
#ifndef PROBE_SEQUENCES_H
#define PROBE_SEQUENCES_H

#include "api/node.h"

#define SEQUENCES_MAX     4096
#define SEQUENCES_READ_MS 1000 /* after that, use what has been read */

struct sequences {
    int n;
    int tokens[SEQUENCES_MAX]; /* [n] each cut to maxSequenceLength, in a random order */
    bool are_read;             /* of the job's own data */
    double make_ms;            /* CPU time to make one of them; 0: not measured */
};

/* A random part of the job's training file, made as training makes them. `folder` and
 * `model_folder` as in train/loader.h. Errors of source_load(), ERR_INVALID without a sample; *out
 * is only set with ERR_OK. */
MUST_CHECK enum err_code sequences_read(const struct spec *spec, const char *folder,
                                        const char *model_folder, struct sequences *out,
                                        struct err *err);

/* Without data: lengths with the mean and the spread of lengths_of(). */
void sequences_make(const struct spec *spec, struct sequences *out);

/* Mean and mean square; all zero for sequences_make(). */
struct node_lengths sequences_lengths(const struct sequences *s);

/* Where sequences begin in each of `m` micro-batches of `each`: starts[m][each + 1], dealt as
 * training deals the sequences of a step. ERR_NO_MEMORY. */
MUST_CHECK enum err_code sequences_deal(const struct sequences *s, int m, int each, int32_t *starts,
                                        struct err *err);

#endif
