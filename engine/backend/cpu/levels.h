/* levels.h: the levels of x86-64 that the kernels are compiled for, asked of the processor. */
#ifndef BACKEND_CPU_LEVELS_H
#define BACKEND_CPU_LEVELS_H

#include <stdbool.h>

static inline bool level_v4(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

static inline bool level_v3(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
}

/* No level of the kernels: what separates two generations of processors that OpenBLAS knows. */
static inline bool level_avx(void)
{
    return __builtin_cpu_supports("avx");
}

static inline bool level_v2(void)
{
    return __builtin_cpu_supports("sse4.2");
}

#endif
