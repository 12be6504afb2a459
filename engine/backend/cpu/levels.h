/* levels.h: the instruction sets for which the kernels are compiled, and whether the processor has them. A family and a
 * level make a name, "x86-64-v4" or "armv8-neon", which DELTAQ_KERNELS takes; the Makefile has the flags of each level.
 *
 * KERNEL_LEVELS(X): X(level), best one first; level_NAME(): the processor has it. */
#ifndef BACKEND_CPU_LEVELS_H
#define BACKEND_CPU_LEVELS_H

#include <stdbool.h>

#if defined(__x86_64__)

#define KERNEL_FAMILY    "x86-64-"
#define KERNEL_LEVELS(X) X(v4) X(v3) X(v2)
#define KERNEL_LEAST     "x86-64-v2 (SSE4.2)"

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

/* Not a level of our kernels: it tells two generations of processors apart for OpenBLAS. */
static inline bool level_avx(void)
{
    return __builtin_cpu_supports("avx");
}

static inline bool level_v2(void)
{
    return __builtin_cpu_supports("sse4.2");
}

/* Bits of a vector if the processor decides its width; 0: the level does. */
static inline int level_bits(void)
{
    return 0;
}

#elif defined(__aarch64__)

#include <asm/hwcap.h>
#include <sys/auxv.h>
#include <sys/prctl.h>

#define KERNEL_FAMILY    "armv8-"
#define KERNEL_LEVELS(X) X(sve) X(neon) X(portable)
#define KERNEL_LEAST     "ARMv8-A"

/* Bits of an SVE vector in this process; 0: the processor has no SVE. */
static inline int level_bits(void)
{
    const int found = (getauxval(AT_HWCAP) & HWCAP_SVE) != 0 ? prctl(PR_SVE_GET_VL) : 0;
    return found > 0 ? (found & PR_SVE_VL_LEN_MASK) * 8 : 0;
}

/* Vectors of 128 bits are no wider than NEON's, for whose width the products are written. */
static inline bool level_sve(void)
{
    return level_bits() > 128;
}

/* Every ARMv8-A processor that runs Linux has NEON. */
static inline bool level_neon(void)
{
    return true;
}

/* NEON's vectors without fused multiply-adds: bit-for-bit identical to x86-64-v2. */
static inline bool level_portable(void)
{
    return true;
}

/* Not levels of our kernels: processors for which OpenBLAS has kernels. */
static inline bool level_any_sve(void)
{
    return level_bits() > 0;
}

static inline bool level_dot_products(void)
{
    return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
}

#else
#error "deltaq's kernels are compiled for x86-64 and aarch64"
#endif

#endif
