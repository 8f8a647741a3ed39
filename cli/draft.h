/* cli/draft.h - a SkyJob to begin with, as commented YAML, from the options of `init`.
 *
 * Layer: cli. Threads: any; pure.
 */
#ifndef CLI_DRAFT_H
#define CLI_DRAFT_H

#include "base/buf.h"

#define DRAFT_MAX_BYTES 8192

/* As they are given; NULL: not. */
struct draft {
    const char *name;   /* default: the task's, in lower case */
    const char *task;   /* default: MNLI */
    const char *data;   /* sample, configmap/NAME or pvc/NAME[/PATH]; default: the sample of MNLI */
    const char *preset; /* default: BertMini; with `from`, the sizes of that model */
    const char *from;   /* pvc/NAME[/PATH] */
    const char *output; /* pvc/NAME[/PATH] */
    const char *epochs; /* default: 3 */
    const char *steps;  /* in place of epochs */
    const char *batch_size; /* default: 32 */
    const char *replicas;   /* a number or Auto; default: 1 */
};

/* Append the manifest, which job_check() has accepted. ERR_INVALID names the option, with what to
 * write; ERR_NO_MEMORY, ERR_LIMIT. */
MUST_CHECK enum err_code draft_write(const struct draft *d, struct buf *out, struct err *err);

#endif
