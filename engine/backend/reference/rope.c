/* rope.c: rotary positions (Su et al., arXiv 2104.09864) in the two-halves pairing. For head h of row t at position p
 * and j < R / 2, both from the values before:
 *
 *   x_j         <- x_j cos[p][j] - x_{j+R/2} sin[p][j]
 *   x_{j+R/2}   <- x_{j+R/2} cos[p][j] + x_j sin[p][j]
 *
 * The inverse (the transpose) has -sin: it carries gradients back. */
#include "backend/reference/real.h"

void REFERENCE(rope)(struct backend *backend, const struct rope_args *args)
{
    (void)backend;
    const int64_t half = args->rotary / 2;
    const real sign = args->inverse ? (real)-1 : (real)1;
    for (int64_t t = 0; t < args->x.matrix.rows; t++) {
        const real *cosine = row_of(args->cosine, args->batch->positions[t]);
        const real *sine = row_of(args->sine, args->batch->positions[t]);
        for (int64_t h = 0; h < args->heads; h++) {
            real *x = head_of(args->x, t, h);
            for (int64_t j = 0; j < half; j++) {
                const real a = x[j], b = x[j + half], s = sign * sine[j];
                x[j] = a * cosine[j] - b * s;
                x[j + half] = b * cosine[j] + a * s;
            }
        }
    }
}
