/* base/sparse.h - a copy of a struct without its zeros.
 *
 * Structs whose texts and lists have room for the largest case are mostly zeros. Where many of them
 * are kept and few are in use, they are kept like this: whole words of zeros take one bit each.
 * Sizes are multiples of SPARSE_WORD_BYTES, as are those of structs with a pointer or an int64_t.
 * Layer: base. Threads: any; pure.
 */
#ifndef BASE_SPARSE_H
#define BASE_SPARSE_H

#include <stddef.h>

#include "base/err.h"

#define SPARSE_WORD_BYTES 8

struct sparse; /* to be freed with free() */

/* ERR_NO_MEMORY: *out is as it was. */
MUST_CHECK enum err_code sparse_new(const void *from, size_t bytes, struct sparse **out,
                                    struct err *err);
/* All bytes of what was copied. */
void sparse_read(const struct sparse *s, void *out);

#endif
