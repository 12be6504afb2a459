#include "backend/cpu/bf16.h"

#if defined(__x86_64__) && defined(__linux__)

#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,amx-tile,amx-bf16")
#include "backend/cpu/pairs.h"
#include "backend/cpu/tiles.h"

#include <string.h>

enum { HALF = PAIRS_LINES, HALF_BYTES = 1024, GROUP = 8 };

/* ---- Packing ---- */

/* The source of a strip: see bf16_pack. */
struct source {
    const float *from;
    int64_t stride, lines, depth;
    bool along;
};

/* Loads 16 numbers from `from` on; only `count` exist, the others are zero. */
static inline __attribute__((always_inline)) __m512 load(const float *from, int64_t count)
{
    return count >= HALF ? _mm512_loadu_ps(from)
           : count > 0   ? _mm512_maskz_loadu_ps(pairs_first(count), from)
                         : _mm512_setzero_ps();
}

/* Vector i of 16 lines by 32 of the depth, from `line` and `k` on: line i if numbers are contiguous along the depth,
 * otherwise pair i. Numbers outside are zero and are not read. */
static inline __attribute__((always_inline)) __m512i pairs_at(const struct source *source, int64_t line, int64_t k,
                                                              int64_t i, __m512i interleave)
{
    const int64_t lines = source->lines - line, depth = source->depth - k;
    if (source->along) {
        const float *from = source->from + (line + i) * source->stride + k;
        const __m512 first = load(from, i < lines ? depth : 0),
                     second = load(from + HALF, i < lines ? depth - HALF : 0);
        return (__m512i)_mm512_cvtne2ps_pbh(second, first);
    }
    const float *from = source->from + (k + 2 * i) * source->stride + line;
    const __m512 first = load(from, 2 * i < depth ? lines : 0),
                 second = load(from + source->stride, 2 * i + 1 < depth ? lines : 0);
    return _mm512_permutexvar_epi16(interleave, (__m512i)_mm512_cvtne2ps_pbh(second, first));
}

static inline __attribute__((always_inline)) void pack_half(const struct source *source, char *to, int64_t line,
                                                            int64_t k, bool transposed)
{
    /* the order 0, 16, 1, 17, … pairs the numbers that two rows have of a line */
    const __m512i lower = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i interleave =
        _mm512_or_si512(lower, _mm512_slli_epi32(_mm512_add_epi32(lower, _mm512_set1_epi32(HALF)), 16));
    __m512i pairs[HALF];
    for (int64_t i = 0; i < HALF; i++) pairs[i] = pairs_at(source, line, k, i, interleave);
    if (transposed) pairs_transpose(pairs);
#pragma GCC unroll 16
    for (int i = 0; i < HALF; i++) _mm512_store_si512(to + i * 64, pairs[i]);
}

void bf16_pack(enum bf16_side side, void *strip, const float *from, int64_t stride, bool along, int64_t lines,
               int64_t depth)
{
    const struct source rows = {from, stride, lines, depth, true}, columns = {from, stride, lines, depth, false};
    char *to = strip;
    for (int64_t k = 0; k < depth; k += BF16_CHUNK_DEPTH)
        for (int64_t line = 0; line < BF16_STRIP; line += HALF, to += HALF_BYTES) {
            if (along && side == BF16_LEFT)
                pack_half(&rows, to, line, k, false);
            else if (along)
                pack_half(&rows, to, line, k, true);
            else if (side == BF16_LEFT)
                pack_half(&columns, to, line, k, true);
            else
                pack_half(&columns, to, line, k, false);
        }
}

/* ---- AVX512-BF16 ---- */

static bool vectors_available(void)
{
    return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

static void nothing(void)
{
}

/* Writes GROUP rows by two vectors of columns. */
static inline __attribute__((always_inline)) void put(const struct bf16_block *to, int64_t row, __m512 sums[GROUP][2])
{
    const __m512 by = _mm512_set1_ps(to->alpha), keep = _mm512_set1_ps(to->beta);
#pragma GCC unroll 8
    for (int r = 0; r < GROUP; r++)
#pragma GCC unroll 2
        for (int half = 0; half < 2; half++) {
            const __mmask16 some = row + r < to->rows ? pairs_first(to->columns - half * HALF) : 0;
            float *const c = to->c + (row + r) * to->stride + half * HALF;
            __m512 value = _mm512_mul_ps(by, sums[r][half]);
            if (to->beta != 0) value = _mm512_fmadd_ps(keep, _mm512_maskz_loadu_ps(some, c), value);
            _mm512_mask_storeu_ps(c, some, value);
        }
}

static inline int32_t pair_at(const char *from)
{
    int32_t pair;
    memcpy(&pair, from, sizeof pair);
    return pair;
}

static void vectors_multiply(const void *left, const void *right, int64_t depth, const struct bf16_block *to)
{
    const int64_t end = (int64_t)bf16_strip_bytes(depth);
    for (int64_t row = 0; row < to->rows; row += GROUP) {
        const char *lines = (const char *)left + row / HALF * HALF_BYTES + row % HALF * 64;
        __m512 sums[GROUP][2];
#pragma GCC unroll 8
        for (int r = 0; r < GROUP; r++) sums[r][0] = sums[r][1] = _mm512_setzero_ps();
        for (int64_t at = 0; at < end; at += BF16_CHUNK_BYTES)
            for (int pair = 0; pair < HALF; pair++) {
                const char *columns = (const char *)right + at + pair * 64;
                const __m512i first = _mm512_load_si512(columns), second = _mm512_load_si512(columns + HALF_BYTES);
#pragma GCC unroll 8
                for (int r = 0; r < GROUP; r++) {
                    const __m512bh x = (__m512bh)_mm512_set1_epi32(pair_at(lines + at + r * 64 + pair * 4));
                    sums[r][0] = _mm512_dpbf16_ps(sums[r][0], x, (__m512bh)first);
                    sums[r][1] = _mm512_dpbf16_ps(sums[r][1], x, (__m512bh)second);
                }
            }
        put(to, row, sums);
    }
}

static const struct bf16_unit vectors = {"AVX512-BF16", vectors_available, nothing, nothing, vectors_multiply};

/* ---- AMX ---- */

static bool units_available(void)
{
    return vectors_available() && tiles_available();
}

/* Tiles 0 to 3 are sums; 4 and 5 halves of the left strip, 6 and 7 of the right one. */
static void units_multiply(const void *left, const void *right, int64_t depth, const struct bf16_block *to)
{
    const int64_t end = (int64_t)bf16_strip_bytes(depth), bytes = BF16_STRIP * sizeof(float);
    float sums[BF16_STRIP * BF16_STRIP] __attribute__((aligned(64)));
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t at = 0; at < end; at += BF16_CHUNK_BYTES) {
        const char *l = (const char *)left + at, *r = (const char *)right + at;
        _tile_loadd(4, l, 64);
        _tile_loadd(6, r, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, r + HALF_BYTES, 64);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, l + HALF_BYTES, 64);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, sums, bytes);
    _tile_stored(1, sums + HALF, bytes);
    _tile_stored(2, sums + HALF * BF16_STRIP, bytes);
    _tile_stored(3, sums + HALF * BF16_STRIP + HALF, bytes);
    __asm__ volatile("" : : : "memory"); /* the intrinsic does not declare which memory it writes */
    tiles_put(sums, to->c, to->stride, to->rows, to->columns, BF16_STRIP, to->alpha, to->beta);
}

static const struct bf16_unit units = {"AMX", units_available, tiles_begin, tiles_end, units_multiply};

const struct bf16_unit *const bf16_units[] = {&units, &vectors, NULL};

#else

#include <assert.h>

const struct bf16_unit *const bf16_units[] = {NULL};

void bf16_pack(enum bf16_side side, void *strip, const float *from, int64_t stride, bool along, int64_t lines,
               int64_t depth)
{
    (void)side, (void)strip, (void)from, (void)stride, (void)along, (void)lines, (void)depth;
    assert(!"never called where there are no units");
}

#endif
