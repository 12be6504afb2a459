#include "quant/grid.h"

void grid_find(struct grid grid, const float *weights, int64_t count, float *scale, uint8_t *zero)
{
    float lo = 0, hi = 0;
#pragma omp simd reduction(min : lo) reduction(max : hi)
    for (int64_t i = 0; i < count; i++) {
        lo = weights[i] < lo ? weights[i] : lo;
        hi = weights[i] > hi ? weights[i] : hi;
    }
    if (grid.sym) {
        hi = hi > -lo ? hi : -lo;
        lo = lo < 0 ? -hi : 0.0f;
    }
    if (lo == 0 && hi == 0) {
        lo = -1;
        hi = 1;
    }
    const float top = grid_top(grid);
    float step = (hi - lo) / top;
    if (step == 0) step = FLT_MIN;
    /* the clamp acts only where the step is so small that it has lost its digits */
    const float point = grid.sym ? (float)(1 << (grid.bits - 1)) : fminf(rintf(-lo / step), top);
    *scale = step;
    *zero = (uint8_t)point;
}

void grid_encode(struct grid grid, const float *weights, int64_t count, float scale, uint8_t zero, uint8_t *codes)
{
    const float top = grid_top(grid), point = zero;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) codes[i] = (uint8_t)(int32_t)grid_code(weights[i], scale, point, top);
}
