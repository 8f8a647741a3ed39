#include "nn/lanes.h"

bool lanes_have_avx512(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512cd");
#else
    return false;
#endif
}

bool lanes_have_avx2(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return false;
#endif
}

const struct lanes *lanes(void)
{
#if defined(__x86_64__)
    if (lanes_have_avx512())
        return &lanes_avx512;
    if (lanes_have_avx2())
        return &lanes_avx2;
#endif
    return &lanes_base;
}
