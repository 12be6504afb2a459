/* grid.h: the min-max grid of rtn and gptq.
 *
 *     lo = min(min w, 0), hi = max(max w, 0); an all-zero group: -1, 1
 *     symmetric:   m = max(|lo|, hi); hi = m; lo = -m where lo < 0, else 0; zero = 2^(bits-1)
 *     scale = (hi - lo) / (2^bits - 1); asymmetric: zero = rint(-lo / scale)
 *     code = clamp(rint(w / scale) + zero, 0, 2^bits - 1)
 *
 * Each operation is done once in float with IEEE division, rounding half to even. That matters: in a symmetric grid the largest
 * weight, when negative, lies exactly between codes 0 and 1, and the last bit of the division decides. A symmetric group without a
 * negative weight keeps lo = 0: half the step, and the upper half clips. That is what GPTQ tools do. */
#ifndef QUANT_GRID_H
#define QUANT_GRID_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

_Static_assert(FLT_EVAL_METHOD == 0, "grids are defined by single float operations");

struct grid {
    int bits; /* 1 to 8 */
    bool sym;
};

static inline float grid_top(struct grid grid)
{
    return (float)((1 << grid.bits) - 1);
}

/* The scale and zero point of one group of `count` >= 1 finite weights. A step too small for a float becomes FLT_MIN; one too large
 * comes out infinite: the caller refuses it. */
void grid_find(struct grid grid, const float *weights, int64_t count, float *scale, uint8_t *zero);

/* The code, as a float. Clamping comes first, so that adding and taking away 1.5 * 2^23 rounds half to even; a NaN gives 0. */
static inline float grid_code(float weight, float scale, float zero, float top)
{
    const float magic = 12582912.0f, low = -zero, high = top - zero;
    float x = weight / scale;
    x = x > low ? x : low;
    x = x < high ? x : high;
    return ((x + magic) - magic) + zero;
}

void grid_encode(struct grid grid, const float *weights, int64_t count, float scale, uint8_t zero, uint8_t *codes);

#endif
