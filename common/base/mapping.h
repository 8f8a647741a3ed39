/* base/mapping.h - a file as memory: only the pages that are used are read.
 *
 * The file must not shrink meanwhile. Layer: base. Threads: any, once open.
 */
#ifndef BASE_MAPPING_H
#define BASE_MAPPING_H

#include <stddef.h>

#include "base/err.h"

struct mapping {
    const unsigned char *bytes; /* never NULL once open */
    size_t n;
};

/* On ERR_OK the caller owns *out: mapping_close(). Returns ERR_NOT_FOUND, ERR_DENIED, ERR_IO with
 * the path, ERR_INVALID when it is not a file. */
MUST_CHECK enum err_code mapping_open(const char *path, struct mapping *out, struct err *err);

void mapping_close(struct mapping *m); /* a zeroed one is fine */

#endif
