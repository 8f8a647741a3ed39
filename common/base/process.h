/* base/process.h - what this process uses, for Prometheus.
 *
 * Layer: base. Threads: any; pure but for process_read().
 */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <stdint.h>

#include "base/buf.h"

#define PROCESS_FAMILIES_BYTES ((size_t)2 << 10) /* of process_write() */

struct process {
    double cpu_seconds;
    double start_seconds; /* since 1970 */
    int64_t resident_bytes;
    int n_fds;
};

/* From /proc. ERR_IO, ERR_PROTOCOL and the codes of file_read(). */
MUST_CHECK enum err_code process_read(struct process *out, struct err *err);
/* Append its families, under the names that all programs use. ERR_LIMIT or ERR_NO_MEMORY. */
MUST_CHECK enum err_code process_write(const struct process *p, struct buf *out, struct err *err);

#endif
