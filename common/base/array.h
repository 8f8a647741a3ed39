/* base/array.h - room in an array that grows. Layer: base. Threads: any; pure. */
#ifndef BASE_ARRAY_H
#define BASE_ARRAY_H

#include <stddef.h>

#include "base/err.h"

/* Make room for `n` items in the array that the pointer at `array` owns and that has room for
 * *cap; it may move, and grows by half at least. ERR_NO_MEMORY; then nothing changed. */
MUST_CHECK enum err_code array_reserve(void *array, size_t item_bytes, size_t *cap, size_t n,
                                       struct err *err);

#endif
