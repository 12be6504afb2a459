#include "quant/grid.h"

void grid_find(struct grid grid, const float *weights, int64_t count, double *scale, uint8_t *zero)
{
    float least = 0, most = 0;
#pragma omp simd reduction(min : least) reduction(max : most)
    for (int64_t i = 0; i < count; i++) {
        least = weights[i] < least ? weights[i] : least;
        most = weights[i] > most ? weights[i] : most;
    }
    double lo = (double)least, hi = (double)most;
    if (grid.sym) {
        hi = hi > -lo ? hi : -lo;
        lo = lo < 0 ? -hi : 0;
    }
    if (lo == 0 && hi == 0) {
        lo = -1;
        hi = 1;
    }
    const double top = grid_top(grid);
    double step = (hi - lo) / top;
    if (step < (double)FLT_MIN) step = (double)FLT_MIN;
    const double point = grid.sym ? (double)(1 << (grid.bits - 1)) : rint(-lo / step);
    *scale = step;
    *zero = (uint8_t)point;
}

void grid_encode(struct grid grid, const float *weights, int64_t count, double scale, uint8_t zero, uint8_t *codes)
{
    const double top = grid_top(grid), point = zero;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) codes[i] = (uint8_t)(int32_t)grid_code(weights[i], scale, point, top);
}
