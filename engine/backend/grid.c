#include "backend/grid.h"

void grid_find(struct grid grid, const float *weights, int64_t count, double *scale, uint8_t *zero)
{
    const float origin = grid_origin(grid, weights[0]);
    float least = origin, most = origin;
    double point;
#pragma omp simd reduction(min : least) reduction(max : most)
    for (int64_t i = 0; i < count; i++) {
        least = weights[i] < least ? weights[i] : least;
        most = weights[i] > most ? weights[i] : most;
    }
    grid_of_range(grid, (double)least, (double)most, scale, &point);
    *zero = (uint8_t)point;
}

void grid_encode(struct grid grid, const float *weights, int64_t count, double scale, uint8_t zero, uint8_t *codes)
{
    const double top = grid_top(grid), point = zero;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) codes[i] = (uint8_t)(int32_t)grid_code(weights[i], scale, point, top);
}
