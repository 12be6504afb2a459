/* grid.h: the grids of a group of weights, the same in every backend. The min-max grid, of rtn and gptq:
 *
 *     lo = min(min w, 0), hi = max(max w, 0)
 *     symmetric:   m = max(|lo|, hi), hi = m, lo = -m where lo < 0, else 0
 *     an all-zero group:  lo = -1, hi = 1
 *     scale = (hi - lo) / (2^bits - 1)
 *     zero  = 2^(bits-1) when symmetric, else rint(-lo / scale)
 *     code  = clamp(rint(w / scale) + zero, 0, 2^bits - 1)
 *
 * All of it in double, on float weights, with rounding half to even; the scale is stored as a float afterwards. The
 * type matters: in a symmetric grid the largest weight, when negative, lies exactly between codes 0 and 1, and the last
 * bit of the division decides. Neither answer is better, but they differ between types; the reference losses of whole
 * models are those of double. A symmetric group without a negative weight keeps lo = 0: half the step, and the upper
 * half clips. That is what GPTQ tools do.
 *
 * The others differ in the rule alone:
 *
 *     range    awq                   scale = max(max w - min w, 1e-5) / (2^bits - 1)
 *                                    zero  = clamp(rint(-min w / scale), 0, 2^bits - 1)
 *                                    0 need not lie between min w and max w.
 *     absmax   int8, symmetric awq   scale = max |w| / (2^(bits-1) - 1)
 *                                    zero  = 2^(bits-1)
 *                                    The largest weight lies on no tie, and code 0 is never used. */
#ifndef BACKEND_GRID_H
#define BACKEND_GRID_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#define GRID_FUNCTION static __host__ __device__ __forceinline__
#else
#define GRID_FUNCTION static inline
_Static_assert(FLT_EVAL_METHOD == 0, "grids are defined by single operations");
#endif

enum grid_rule { GRID_MIN_MAX, GRID_RANGE, GRID_ABSMAX };

struct grid {
    int bits; /* 1 to 8 */
    bool sym; /* of GRID_MIN_MAX; the others are what they are */
    enum grid_rule rule;
};

GRID_FUNCTION double grid_top(struct grid grid)
{
    return (double)((1 << grid.bits) - 1);
}

/* Where the search for a group's range begins; `first` is its first weight. */
GRID_FUNCTION float grid_origin(struct grid grid, float first)
{
    return grid.rule == GRID_RANGE ? first : 0;
}

GRID_FUNCTION double grid_at_least(double step, double least)
{
    return step > least ? step : least;
}

/* The scale and zero point for weights from lo to hi, both found from grid_origin on. A step below FLT_MIN becomes
 * FLT_MIN: it has to be stored as a float. */
GRID_FUNCTION void grid_of_range(struct grid grid, double lo, double hi, double *scale, double *point)
{
    const double top = grid_top(grid), middle = (double)(1 << (grid.bits - 1)), most = hi > -lo ? hi : -lo;
    if (grid.rule == GRID_ABSMAX) {
        *scale = most == 0 ? 1 : grid_at_least(most / (middle - 1), (double)FLT_MIN);
        *point = middle;
        return;
    }
    if (grid.rule == GRID_RANGE) {
        *scale = grid_at_least(hi - lo, 1e-5) / top;
        const double zero = rint(-lo / *scale);
        *point = zero < 0 ? 0 : zero > top ? top : zero;
        return;
    }
    if (grid.sym) {
        hi = most;
        lo = lo < 0 ? -most : 0;
    }
    if (lo == 0 && hi == 0) {
        lo = -1;
        hi = 1;
    }
    *scale = grid_at_least((hi - lo) / top, (double)FLT_MIN);
    *point = grid.sym ? middle : rint(-lo / *scale);
}

/* The code, as a number. Clamping comes first, so that adding and taking away 1.5 * 2^52 rounds half to even; a NaN
 * gives 0. */
GRID_FUNCTION double grid_code(float weight, double scale, double zero, double top)
{
    const double magic = 6755399441055744.0, low = -zero, high = top - zero;
    double x = (double)weight / scale;
    x = x > low ? x : low;
    x = x < high ? x : high;
    return ((x + magic) - magic) + zero;
}

/* Index of the nearest of the ascending values of a book to x; on a midpoint, and among equals, the lower one. */
GRID_FUNCTION int grid_nearest(const double *values, int count, double x)
{
    int low = 0, high = count - 1; /* the answer lies in [low, high] */
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (x <= (values[middle] + values[middle + 1]) / 2)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Of `count` >= 1 finite weights in host memory. */
void grid_find(struct grid grid, const float *weights, int64_t count, double *scale, uint8_t *zero);
void grid_encode(struct grid grid, const float *weights, int64_t count, double scale, uint8_t zero, uint8_t *codes);

#endif
