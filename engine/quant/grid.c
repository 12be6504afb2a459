#include "quant/grid.h"

static double step_at_least(double step, double least)
{
    return step > least ? step : least;
}

static void find_min_max(struct grid grid, double lo, double hi, double *scale, double *point)
{
    if (grid.sym) {
        hi = hi > -lo ? hi : -lo;
        lo = lo < 0 ? -hi : 0;
    }
    if (lo == 0 && hi == 0) {
        lo = -1;
        hi = 1;
    }
    *scale = step_at_least((hi - lo) / grid_top(grid), (double)FLT_MIN);
    *point = grid.sym ? (double)(1 << (grid.bits - 1)) : rint(-lo / *scale);
}

static void find_range(struct grid grid, double lo, double hi, double *scale, double *point)
{
    *scale = step_at_least(hi - lo, 1e-5) / grid_top(grid);
    const double zero = rint(-lo / *scale);
    *point = zero < 0 ? 0 : zero > grid_top(grid) ? grid_top(grid) : zero;
}

static void find_absmax(struct grid grid, double lo, double hi, double *scale, double *point)
{
    const double top = (double)((1 << (grid.bits - 1)) - 1), most = hi > -lo ? hi : -lo;
    *scale = most == 0 ? 1 : step_at_least(most / top, (double)FLT_MIN);
    *point = (double)(1 << (grid.bits - 1));
}

void grid_find(struct grid grid, const float *weights, int64_t count, double *scale, uint8_t *zero)
{
    static void (*const rules[])(struct grid grid, double lo, double hi, double *scale, double *point) = {
        [GRID_MIN_MAX] = find_min_max, [GRID_RANGE] = find_range, [GRID_ABSMAX] = find_absmax};
    const float origin = grid.rule == GRID_RANGE ? weights[0] : 0;
    float least = origin, most = origin;
    double point;
#pragma omp simd reduction(min : least) reduction(max : most)
    for (int64_t i = 0; i < count; i++) {
        least = weights[i] < least ? weights[i] : least;
        most = weights[i] > most ? weights[i] : most;
    }
    rules[grid.rule](grid, (double)least, (double)most, scale, &point);
    *zero = (uint8_t)point;
}

void grid_encode(struct grid grid, const float *weights, int64_t count, double scale, uint8_t zero, uint8_t *codes)
{
    const double top = grid_top(grid), point = zero;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) codes[i] = (uint8_t)(int32_t)grid_code(weights[i], scale, point, top);
}
