#include "backend/coding.h"

void coding_extend(const float *weights, int64_t count, float *lo, float *hi)
{
    float least = *lo, most = *hi;
#pragma omp simd reduction(min : least) reduction(max : most)
    for (int64_t i = 0; i < count; i++) {
        least = weights[i] < least ? weights[i] : least;
        most = weights[i] > most ? weights[i] : most;
    }
    *lo = least;
    *hi = most;
}

void coding_find(struct coding coding, const float *weights, int64_t count, double *scale, double *zero)
{
    float lo = 0, hi = 0;
    coding_extend(weights, count, &lo, &hi);
    coding_scale(coding, (double)lo, (double)hi, scale, zero);
}

void coding_encode(struct coding coding, const double *values, const float *weights, int64_t count, double scale,
                   double zero, uint8_t *codes)
{
    const double top = coding_top(coding);
    if (coding.values != NULL) {
        for (int64_t i = 0; i < count; i++) codes[i] = (uint8_t)coding_look_up(coding, values, weights[i], scale);
        return;
    }
#pragma omp simd
    for (int64_t i = 0; i < count; i++) codes[i] = (uint8_t)(int32_t)coding_step(weights[i], scale, zero, top);
}
