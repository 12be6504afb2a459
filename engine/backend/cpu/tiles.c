#include "backend/cpu/tiles.h"

#if defined(__x86_64__) && defined(__linux__)

#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,amx-tile,amx-bf16")
#include "backend/cpu/pairs.h"

#include <cpuid.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { HALF = PAIRS_LINES, TILE_BYTES = 1024, PLANES = 3 };

bool tiles_available(void)
{
    enum { AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24, REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & AMX_BF16) == 0 || (d & AMX_TILE) == 0) return false;
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

/* The upper half of every number of `x`, as a number. */
static inline __m512 upper(__m512 x)
{
    return _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32((int)0xffff0000u)));
}

/* 32 of the depth become 16 pairs of a number and the one 16 places later, in both operands, because that needs no
 * shuffling. */
static inline __attribute__((always_inline)) void split(__m512 first, __m512 second, __m512i planes[PLANES])
{
#pragma GCC unroll 3
    for (int plane = 0; plane < PLANES; plane++) {
        const __m512 first_upper = upper(first), second_upper = upper(second);
        planes[plane] =
            _mm512_or_si512(_mm512_srli_epi32(_mm512_castps_si512(first), 16), _mm512_castps_si512(second_upper));
        first = _mm512_sub_ps(first, first_upper);
        second = _mm512_sub_ps(second, second_upper);
    }
}

/* The source of a strip: see tiles_pack. */
struct source {
    const float *from;
    int64_t stride, lines, depth;
    bool along;
};

/* Vector i of 16 lines by 32 of the depth, from `line` and `k` on: line i if numbers are contiguous along the depth,
 * otherwise pair i. Numbers outside are zero and are not read. */
static inline __attribute__((always_inline)) void load(const struct source *source, int64_t line, int64_t k, int64_t i,
                                                       __m512i planes[PLANES])
{
    const int64_t lines = source->lines - line, depth = source->depth - k;
    __m512 parts[2];
#pragma GCC unroll 2
    for (int part = 0; part < 2; part++) {
        const int64_t offset = part * HALF, at = source->along ? i : i + offset, reach = source->along ? lines : depth;
        const int64_t count = at < reach ? (source->along ? depth - offset : lines) : 0;
        const float *from = source->from + (source->along ? (line + i) * source->stride + k + offset
                                                          : (k + at) * source->stride + line);
        parts[part] = count >= HALF ? _mm512_loadu_ps(from)
                      : count > 0   ? _mm512_maskz_loadu_ps(pairs_first(count), from)
                                    : _mm512_setzero_ps();
    }
    split(parts[0], parts[1], planes);
}

/* Packs half of a chunk. A tile of the left operand has one line per row, a tile of the right one pair per row. */
static inline __attribute__((always_inline)) void pack_half(const struct source *source, char *to, int64_t line,
                                                            int64_t k, bool transposed)
{
    __m512i pairs[PLANES][HALF];
    for (int64_t i = 0; i < HALF; i++) {
        __m512i planes[PLANES];
        load(source, line, k, i, planes);
#pragma GCC unroll 3
        for (int plane = 0; plane < PLANES; plane++)
            if (transposed)
                pairs[plane][i] = planes[plane];
            else
                _mm512_store_si512(to + plane * 2 * TILE_BYTES + i * 64, planes[plane]);
    }
    for (int plane = 0; transposed && plane < PLANES; plane++) {
        pairs_transpose(pairs[plane]);
#pragma GCC unroll 16
        for (int i = 0; i < HALF; i++) _mm512_store_si512(to + plane * 2 * TILE_BYTES + i * 64, pairs[plane][i]);
    }
}

void tiles_pack(enum tiles_side side, void *strip, const float *from, int64_t stride, bool along, int64_t lines,
                int64_t depth)
{
    const struct source rows = {from, stride, lines, depth, true}, columns = {from, stride, lines, depth, false};
    char *to = strip;
    for (int64_t k = 0; k < depth; k += TILES_DEPTH, to += TILES_CHUNK_BYTES)
        for (int half = 0; half < 2; half++) {
            char *const at = to + half * TILE_BYTES;
            const int64_t line = half * HALF;
            if (along && side == TILES_LEFT)
                pack_half(&rows, at, line, k, false);
            else if (along)
                pack_half(&rows, at, line, k, true);
            else if (side == TILES_LEFT)
                pack_half(&columns, at, line, k, true);
            else
                pack_half(&columns, at, line, k, false);
        }
}

void tiles_begin(void)
{
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        config.row_bytes[i] = 64;
        config.rows[i] = HALF;
    }
    __asm__ volatile("" : : "r"(&config) : "memory"); /* the intrinsic declares that it reads 8 bytes of the 64 */
    _tile_loadconfig(&config);
}

void tiles_end(void)
{
    _tile_release();
}

/* Tiles 0 to 3 are sums; 4 and 5 two tiles of the left operand, 6 and 7 two of the right. */
#define LOAD_LEFT(plane)                                      \
    do {                                                      \
        _tile_loadd(4, l + (plane)*2 * TILE_BYTES, 64);       \
        _tile_loadd(5, l + ((plane)*2 + 1) * TILE_BYTES, 64); \
    } while (0)
#define LOAD_RIGHT(plane)                                     \
    do {                                                      \
        _tile_loadd(6, r + (plane)*2 * TILE_BYTES, 64);       \
        _tile_loadd(7, r + ((plane)*2 + 1) * TILE_BYTES, 64); \
    } while (0)
#define MULTIPLY()               \
    do {                         \
        _tile_dpbf16ps(0, 4, 6); \
        _tile_dpbf16ps(1, 4, 7); \
        _tile_dpbf16ps(2, 5, 6); \
        _tile_dpbf16ps(3, 5, 7); \
    } while (0)

enum { HIGH, MIDDLE, LOW };

void tiles_multiply(const void *left, const void *right, int64_t depth, float *sums)
{
    const int64_t end = (int64_t)tiles_strip_bytes(depth);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t at = 0; at < end; at += TILES_CHUNK_BYTES) {
        const char *l = (const char *)left + at, *r = (const char *)right + at;
        LOAD_LEFT(HIGH);
        LOAD_RIGHT(LOW);
        MULTIPLY();
        LOAD_RIGHT(MIDDLE);
        MULTIPLY();
        LOAD_LEFT(MIDDLE);
        MULTIPLY();
        LOAD_RIGHT(HIGH);
        MULTIPLY();
        LOAD_LEFT(LOW);
        MULTIPLY();
    }
    for (int64_t at = 0; at < end; at += TILES_CHUNK_BYTES) {
        const char *l = (const char *)left + at, *r = (const char *)right + at;
        LOAD_LEFT(HIGH);
        LOAD_RIGHT(HIGH);
        MULTIPLY();
    }
    const int64_t bytes = TILES_STRIP * sizeof(float);
    _tile_stored(0, sums, bytes);
    _tile_stored(1, sums + HALF, bytes);
    _tile_stored(2, sums + HALF * TILES_STRIP, bytes);
    _tile_stored(3, sums + HALF * TILES_STRIP + HALF, bytes);
    __asm__ volatile("" : : : "memory"); /* the intrinsic does not declare which memory it writes */
}

void tiles_fetch(const float *c, int64_t stride, int64_t rows)
{
    for (int64_t i = 0; i < rows; i++, c += stride) {
        __builtin_prefetch(c, 1);
        __builtin_prefetch(c + TILES_STRIP - 1, 1);
    }
}

void tiles_put(const float *sums, float *c, int64_t stride, int64_t rows, int64_t columns, int64_t reach, float alpha,
               float beta)
{
    const __m512 by = _mm512_set1_ps(alpha), keep = _mm512_set1_ps(beta);
    for (int64_t i = 0; i < rows; i++, c += stride) {
        const int64_t count = reach + i < columns ? reach + i : columns;
#pragma GCC unroll 2
        for (int half = 0; half < 2; half++) {
            const __mmask16 some = pairs_first(count - half * HALF);
            __m512 value = _mm512_mul_ps(by, _mm512_load_ps(sums + i * TILES_STRIP + half * HALF));
            if (beta != 0) value = _mm512_fmadd_ps(keep, _mm512_maskz_loadu_ps(some, c + half * HALF), value);
            _mm512_mask_storeu_ps(c + half * HALF, some, value);
        }
    }
}

#else

#include <assert.h>

bool tiles_available(void)
{
    return false;
}

void tiles_pack(enum tiles_side side, void *strip, const float *from, int64_t stride, bool along, int64_t lines,
                int64_t depth)
{
    (void)side, (void)strip, (void)from, (void)stride, (void)along, (void)lines, (void)depth;
    assert(!"never called where tiles_available is false");
}

void tiles_begin(void)
{
}

void tiles_end(void)
{
}

void tiles_multiply(const void *left, const void *right, int64_t depth, float *sums)
{
    (void)left, (void)right, (void)depth, (void)sums;
}

void tiles_fetch(const float *c, int64_t stride, int64_t rows)
{
    (void)c, (void)stride, (void)rows;
}

void tiles_put(const float *sums, float *c, int64_t stride, int64_t rows, int64_t columns, int64_t reach, float alpha,
               float beta)
{
    (void)sums, (void)c, (void)stride, (void)rows, (void)columns, (void)reach, (void)alpha, (void)beta;
}

#endif
