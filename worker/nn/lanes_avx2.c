/* The row kernels for x86-64 with AVX2; the Makefile gives this file the flags. */
#if defined(__x86_64__)
#define LANES_TABLE lanes_avx2
#define LANES_NAME  "avx2"
#include "nn/lanes_body.h"
#else
typedef int lanes_avx2_is_for_x86; /* ISO C requires a declaration in every file */
#endif
