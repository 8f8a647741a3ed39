/* The row kernels for x86-64 with AVX512; the Makefile gives this file the flags. */
#if defined(__x86_64__)
#define LANES_TABLE lanes_avx512
#define LANES_NAME  "avx512"
#include "nn/lanes_body.h"
#else
typedef int lanes_avx512_is_for_x86; /* ISO C requires a declaration in every file */
#endif
