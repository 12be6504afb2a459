/* rope.c: the rotation of reference/rope.c. */
#include "backend/cpu/kernels/all.h"

void KERNEL(rope)(const struct rope_args *args, int64_t first, int64_t end)
{
    const int64_t half = args->rotary / 2;
    const float sign = args->inverse ? -1.0f : 1.0f;
    for (int64_t t = first; t < end; t++) {
        const float *restrict cosine = float_row(args->cosine, args->batch->positions[t]);
        const float *restrict sine = float_row(args->sine, args->batch->positions[t]);
        for (int64_t h = 0; h < args->heads; h++) {
            float *restrict x = float_head(args->x, t, h), *restrict y = x + half;
#pragma omp simd
            for (int64_t j = 0; j < half; j++) {
                const float a = x[j], b = y[j], s = sign * sine[j];
                x[j] = a * cosine[j] - b * s;
                y[j] = b * cosine[j] + a * s;
            }
        }
    }
}
