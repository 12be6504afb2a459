/* coding.h: how weights become codes and scales, the same in every backend. A coding has an element, a layout of
 * groups, a rule that finds a group's scale, and a type in which scales are stored. docs/quantization.md, "Exactness",
 * says why the rules are as they are.
 *
 * The element is a grid or a table. A grid, with rounding half to even:
 *
 *     value = (code - zero) scale
 *     code  = clamp(rint(w / scale) + zero, 0, 2^bits - 1)
 *
 *     min-max     rtn, gptq
 *                 lo = min(min w, 0), hi = max(max w, 0)
 *                 symmetric:   m = max(|lo|, hi), hi = m, lo = -m where lo < 0, else 0
 *                 an all-zero group:  lo = -1, hi = 1
 *                 scale = (hi - lo) / (2^bits - 1)
 *                 zero  = 2^(bits-1) when symmetric, else rint(-lo / scale)
 *     range       awq, with lo and hi of min-max: a zero point is a code, so a group of one sign has a grid from 0 on
 *                 scale = max(hi - lo, 1e-5) / (2^bits - 1)
 *                 zero  = clamp(rint(-lo / scale), 0, 2^bits - 1)
 *     absmax      int8, symmetric awq; code 0 is never used
 *                 scale = max |w| / (2^(bits-1) - 1)
 *                 zero  = 2^(bits-1)
 *
 * A table: value = values[code] scale. The code is that of the value nearest to w / scale, with the scale as it is
 * stored. Numbers beyond the largest value become it.
 *
 *     absmax      scale = max |w| / the largest value
 *     power       scale = 2^(floor(log2 max |w|) - floor(log2 of the largest value))   OCP MX v1.0, section 6.3
 *
 * Scales are found in double and then rounded to a float; of two types the float is a number of the type. The codes of
 * a group whose scale is 0 are those of w = 0.
 *
 *     E8M0        a power of two, at least 2^-127, which is the scale of a group of zeros
 *     E4M3        factor * e4m3(scale / factor), with a float `factor` of the whole matrix. e4m3 is the nearest number
 *                 with 1 sign, 4 exponent and 3 mantissa bits, ties to even, at most 448; below 2^-10 it is 0 */
#ifndef BACKEND_CODING_H
#define BACKEND_CODING_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __CUDACC__
#define CODING_FUNCTION static __host__ __device__ __forceinline__
#else
#define CODING_FUNCTION static inline
_Static_assert(FLT_EVAL_METHOD == 0, "codings are defined by single operations");
#endif

enum scale_rule { SCALE_MIN_MAX, SCALE_RANGE, SCALE_ABSMAX, SCALE_POWER };

/* The type of scales in a checkpoint. In memory scales are floats; writers of files round them to float16. */
enum scale_type { SCALE_TYPE_F16, SCALE_TYPE_F32, SCALE_TYPE_E8M0, SCALE_TYPE_E4M3 };

/* Which weights share a scale: `group_size` columns of a row (ROWS), or of `group_rows` rows (TILES), or `group_size`
 * consecutive values of the matrix in row-major order, across rows (RUNS). The last group of a row, a column or the
 * matrix may be smaller. */
enum coding_layout { LAYOUT_ROWS, LAYOUT_TILES, LAYOUT_RUNS };

/* How a number halfway between two values of a table is coded: as the lower one, or as that with an even code. On a
 * grid ties go to the even step. */
enum tie_rule { TIES_LOWER, TIES_EVEN };

enum { CODING_VALUES = 128 }; /* most values of a table */
#define CODING_E4M3_LARGEST 448.0

struct coding {
    int bits; /* of a code, 1 to 8 */
    bool sym; /* only of a grid: its zero point is the middle; SCALE_ABSMAX is symmetric, SCALE_RANGE is not */
    /* the table, ascending, in memory of the backend that reads it; NULL: a grid */
    const float *values;
    int count;
    bool mirrored; /* values are magnitudes: the highest bit of a code is its sign, the others are the index */
    enum tie_rule ties;
    enum scale_rule rule;
    enum scale_type type;
    float factor; /* only of SCALE_TYPE_E4M3, above 0 */
    bool given;   /* encode uses the scales that are already there */
    enum coding_layout layout;
    int64_t group_size, group_rows; /* group_rows: only of LAYOUT_TILES */
};

CODING_FUNCTION double coding_top(struct coding coding)
{
    return (double)((1 << coding.bits) - 1);
}

CODING_FUNCTION double coding_at_least(double step, double least)
{
    return step > least ? step : least;
}

/* Scale and zero point of a grid. A step below FLT_MIN becomes FLT_MIN, because it is stored as a float. */
CODING_FUNCTION void coding_grid(struct coding coding, double lo, double hi, double *scale, double *point)
{
    const double top = coding_top(coding), middle = (double)(1 << (coding.bits - 1)), most = hi > -lo ? hi : -lo;
    if (coding.rule == SCALE_ABSMAX) {
        *scale = most == 0 ? 1 : coding_at_least(most / (middle - 1), (double)FLT_MIN);
        *point = middle;
        return;
    }
    if (coding.rule == SCALE_RANGE) {
        *scale = coding_at_least(hi - lo, 1e-5) / top;
        const double zero = rint(-lo / *scale);
        *point = zero < 0 ? 0 : zero > top ? top : zero;
        return;
    }
    if (coding.sym) {
        hi = most;
        lo = lo < 0 ? -most : 0;
    }
    if (lo == 0 && hi == 0) {
        lo = -1;
        hi = 1;
    }
    *scale = coding_at_least((hi - lo) / top, (double)FLT_MIN);
    *point = coding.sym ? middle : rint(-lo / *scale);
}

/* The largest power of two not above x; 0 for 0. All floats are normal doubles, so the exponent's bits are enough. */
CODING_FUNCTION double coding_power(double x)
{
    union {
        double number;
        uint64_t bits;
    } parts;
    parts.number = x;
    parts.bits &= 0x7ff0000000000000u;
    return parts.number;
}

/* The number of E4M3 nearest to x >= 0. */
CODING_FUNCTION double coding_e4m3(double x)
{
    const double step = coding_at_least(coding_power(x) / 8, 0x1p-9), rounded = rint(x / step) * step;
    return rounded < CODING_E4M3_LARGEST ? rounded : CODING_E4M3_LARGEST;
}

/* Scale of a table for weights whose largest magnitude is `most`; exactly a float. */
CODING_FUNCTION double coding_table_scale(struct coding coding, double most)
{
    const double largest = (double)coding.values[coding.count - 1], factor = (double)coding.factor;
    double scale = most / largest;
    if (coding.rule == SCALE_POWER) scale = coding_power(most) / coding_power(largest);
    if (coding.type == SCALE_TYPE_E8M0) scale = coding_at_least(scale, 0x1p-127);
    if (coding.type == SCALE_TYPE_E4M3) scale = coding_e4m3(scale / factor) * factor;
    return (double)(float)scale;
}

/* The scale and zero point for weights from lo <= 0 to hi >= 0: the search for both begins at 0. A table has no zero
 * point, and its scale is a float. */
CODING_FUNCTION void coding_scale(struct coding coding, double lo, double hi, double *scale, double *point)
{
    if (coding.values == NULL) {
        coding_grid(coding, lo, hi, scale, point);
        *point = (double)(uint8_t)*point; /* never -0 */
        return;
    }
    *scale = coding_table_scale(coding, hi > -lo ? hi : -lo);
    *point = 0;
}

/* The code on a grid, as a number. It clamps first, so that adding and subtracting 1.5 * 2^52 rounds half to even; a
 * NaN gives 0. */
CODING_FUNCTION double coding_step(float weight, double scale, double zero, double top)
{
    const double magic = 6755399441055744.0, low = -zero, high = top - zero;
    double x = (double)weight / scale;
    x = x > low ? x : low;
    x = x < high ? x : high;
    return ((x + magic) - magic) + zero;
}

/* Index of the value nearest to x in ascending values; ties as `ties` says. */
CODING_FUNCTION int coding_nearest(const double *values, int count, enum tie_rule ties, double x)
{
    int low = 0, high = count - 1; /* the answer lies in [low, high] */
    while (low < high) {
        const int middle = low + (high - low) / 2;
        const double halfway = (values[middle] + values[middle + 1]) / 2;
        if (x < halfway || (x == halfway && (ties == TIES_LOWER || middle % 2 == 0)))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The code in a table; `values` is the table as doubles. */
CODING_FUNCTION int coding_look_up(struct coding coding, const double *values, float weight, double scale)
{
    const double x = scale > 0 ? (double)weight / scale : 0;
    if (!coding.mirrored) return coding_nearest(values, coding.count, coding.ties, x);
    return (x < 0 ? 1 << (coding.bits - 1) : 0) + coding_nearest(values, coding.count, coding.ties, fabs(x));
}

/* The number that is multiplied by the scale. */
CODING_FUNCTION float coding_value(struct coding coding, int code, int zero)
{
    const int sign = coding.mirrored ? 1 << (coding.bits - 1) : 0;
    if (coding.values == NULL) return (float)(code - zero);
    return (code & sign) != 0 ? -coding.values[code - sign] : coding.values[code];
}

/* The table as doubles; does nothing for a grid. */
CODING_FUNCTION void coding_table(struct coding coding, double values[CODING_VALUES])
{
    for (int i = 0; coding.values != NULL && i < coding.count; i++) values[i] = (double)coding.values[i];
}

/* For contiguous weights in host memory: coding_extend widens the range [*lo, *hi] to contain them; coding_encode
 * writes their codes, with the table of coding_table. */
void coding_extend(const float *weights, int64_t count, float *lo, float *hi);
void coding_encode(struct coding coding, const double *values, const float *weights, int64_t count, double scale,
                   double zero, uint8_t *codes);
/* The scale and zero point of `count` >= 1 finite weights. */
void coding_find(struct coding coding, const float *weights, int64_t count, double *scale, double *zero);

#endif
