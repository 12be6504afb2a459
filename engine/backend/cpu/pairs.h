/* pairs.h: vectors of 16 pairs of bfloat16 numbers, the operands of AVX512-BF16 and AMX. Only for files compiled for
 * AVX-512, whose functions run only on processors that have it. */
#ifndef BACKEND_CPU_PAIRS_H
#define BACKEND_CPU_PAIRS_H

#if defined(__x86_64__)

#include <immintrin.h>
#include <stdint.h>

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq")

enum { PAIRS_LINES = 16 }; /* lines of a vector, and vectors of a square */

/* Transposes 16 x 16 pairs. */
static inline __attribute__((always_inline)) void pairs_transpose(__m512i r[PAIRS_LINES])
{
    __m512i t[PAIRS_LINES];
#pragma GCC unroll 8
    for (int i = 0; i < PAIRS_LINES; i += 2) {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < PAIRS_LINES; i += 4)
#pragma GCC unroll 2
        for (int j = 0; j < 2; j++) {
            r[i + 2 * j] = _mm512_unpacklo_epi64(t[i + j], t[i + j + 2]);
            r[i + 2 * j + 1] = _mm512_unpackhi_epi64(t[i + j], t[i + j + 2]);
        }
#pragma GCC unroll 2
    for (int i = 0; i < PAIRS_LINES; i += 8)
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            t[i + j] = _mm512_shuffle_i32x4(r[i + j], r[i + j + 4], 0x88);
            t[i + j + 4] = _mm512_shuffle_i32x4(r[i + j], r[i + j + 4], 0xdd);
        }
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) {
        r[j] = _mm512_shuffle_i32x4(t[j], t[j + 8], 0x88);
        r[j + 8] = _mm512_shuffle_i32x4(t[j], t[j + 8], 0xdd);
    }
}

/* Mask of the first `count` of a vector's 16 lines. */
static inline __mmask16 pairs_first(int64_t count)
{
    return (__mmask16)(count >= PAIRS_LINES ? 0xffff : count <= 0 ? 0 : (1u << count) - 1);
}

#pragma GCC pop_options

#endif
#endif
