/* base/mib.h - mebibytes, in which people read the sizes of memory. Layer: base. */
#ifndef BASE_MIB_H
#define BASE_MIB_H

#include <stdint.h>

#define MIB ((int64_t)1 << 20)

/* Whole ones that hold `bytes`. */
static inline int64_t mib_ceil(int64_t bytes)
{
    return (bytes + MIB - 1) / MIB;
}

#endif
