/* grid.h: the grids of a group of weights. The min-max grid, of rtn and gptq:
 *
 *     lo = min(min w, 0), hi = max(max w, 0); an all-zero group: -1, 1
 *     symmetric:   m = max(|lo|, hi); hi = m; lo = -m where lo < 0, else 0; zero = 2^(bits-1)
 *     scale = (hi - lo) / (2^bits - 1); asymmetric: zero = rint(-lo / scale)
 *     code = clamp(rint(w / scale) + zero, 0, 2^bits - 1)
 *
 * All of it in double, on float weights, with rounding half to even; the scale is stored as a float afterwards. The type matters:
 * in a symmetric grid the largest weight, when negative, lies exactly between codes 0 and 1, and the last bit of the division
 * decides. Neither answer is better, but they differ between types; the reference losses of whole models are those of double. A
 * symmetric group without a negative weight keeps lo = 0: half the step, and the upper half clips. That is what GPTQ tools do.
 *
 * The others differ in the rule alone:
 *     range    (awq) scale = max(max w - min w, 1e-5) / (2^bits - 1), zero = clamp(rint(-min w / scale), 0, 2^bits - 1): zero need
 * not lie in the range absmax   (int8, symmetric awq) scale = max |w| / (2^(bits-1) - 1), zero = 2^(bits-1): no tie, and code 0 is
 * never used */
#ifndef QUANT_GRID_H
#define QUANT_GRID_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

_Static_assert(FLT_EVAL_METHOD == 0, "grids are defined by single operations");

enum grid_rule { GRID_MIN_MAX, GRID_RANGE, GRID_ABSMAX };

struct grid {
    int bits; /* 1 to 8 */
    bool sym; /* of GRID_MIN_MAX; the others are what they are */
    enum grid_rule rule;
};

static inline double grid_top(struct grid grid)
{
    return (double)((1 << grid.bits) - 1);
}

/* The scale and zero point of one group of `count` >= 1 finite weights. A step below FLT_MIN becomes FLT_MIN: it has to be stored
 * as a float. */
void grid_find(struct grid grid, const float *weights, int64_t count, double *scale, uint8_t *zero);

/* The code, as a number. Clamping comes first, so that adding and taking away 1.5 * 2^52 rounds half to even; a NaN gives 0. */
static inline double grid_code(float weight, double scale, double zero, double top)
{
    const double magic = 6755399441055744.0, low = -zero, high = top - zero;
    double x = (double)weight / scale;
    x = x > low ? x : low;
    x = x < high ? x : high;
    return ((x + magic) - magic) + zero;
}

void grid_encode(struct grid grid, const float *weights, int64_t count, double scale, uint8_t zero, uint8_t *codes);

#endif
