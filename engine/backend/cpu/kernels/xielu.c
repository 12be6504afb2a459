/* xielu.c: xIELU like reference/xielu.c. expm1(x) - x computed from e^x loses its digits near 0; there it is a
 * series. */
#include "backend/cpu/kernels/all.h"

enum { BLOCK = 512 }; /* elements that are summed in float before the sum is added to a double */

/* a h + beta x with its number a and the derivatives of h. */
struct side_values {
    float a, a_t, h, slope, bend;
    bool positive;
};

static inline struct side_values side_of(const struct xielu_run *run, float x)
{
    /* e^x - 1 - x on [-1, 0]: terms up to x^11 / 11!, off by 6e-9 relative at -1 */
    const float tail =
        1.98412698e-4f + x * (2.48015873e-5f + x * (2.75573192e-6f + x * (2.75573192e-7f + x * 2.50521084e-8f)));
    const float series =
        x * x *
        (0.5f + x * (1.66666667e-1f + x * (4.16666667e-2f + x * (8.33333333e-3f + x * (1.38888889e-3f + x * tail)))));
    const float far = exp_of(x) - 1;
    const bool near = x > -1, inside = !(x >= run->epsilon), positive = x > 0;
    const float rest = inside ? (near ? series + x : far) : run->expm1_epsilon; /* expm1(min(x, epsilon)) */
    const float bent = inside ? (near ? series : far - x) : run->expm1_epsilon - x;
    struct side_values values;
    values.positive = positive;
    values.a = positive ? run->p : run->n;
    values.a_t = positive ? run->p_t : run->n_t;
    values.h = positive ? x * x : bent;
    values.slope = positive ? 2 * x : inside ? rest : -1;
    values.bend = positive ? 2 : inside ? rest + 1 : 0;
    return values;
}

void KERNEL(xielu_forward)(const struct xielu_run *run, int64_t t, int64_t column, int64_t count)
{
    const struct xielu_run lent = *run;
    const float *x = float_row(run->args->x, t) + column;
    float *y = float_row(run->args->y, t) + column; /* may be x */
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        const struct side_values f = side_of(&lent, x[i]);
        y[i] = f.a * f.h + lent.beta * x[i];
    }
}

void KERNEL(xielu_backward)(const struct xielu_run *run, int64_t t, int64_t column, int64_t count,
                            struct xielu_sums *sums)
{
    const struct xielu_run lent = *run;
    const float *restrict x = float_row(run->args->x, t) + column, *restrict dy = float_row(run->args->dy, t) + column;
    float *restrict dx = float_row(run->args->dx, t) + column;
    for (int64_t first = 0; first < count; first += BLOCK) {
        const int64_t end = first + BLOCK < count ? first + BLOCK : count;
        float above = 0, below = 0;
        if (!run->args->accumulate)
            for (int64_t i = first; i < end; i++) dx[i] = 0;
#pragma omp simd reduction(+ : above, below)
        for (int64_t i = first; i < end; i++) {
            const struct side_values f = side_of(&lent, x[i]);
            const float part = dy[i] * f.h;
            above += f.positive ? part : 0;
            below += f.positive ? 0 : part;
            dx[i] += dy[i] * (f.a * f.slope + lent.beta);
        }
        sums->dy_h[0] += (double)above;
        sums->dy_h[1] += (double)below;
    }
}

void KERNEL(xielu_tangent)(const struct xielu_run *run, int64_t t, int64_t column, int64_t count)
{
    const struct xielu_run lent = *run;
    const float *restrict x = float_row(run->args->x, t) + column, *restrict x_t =
                                                                       float_row(run->args->x_t, t) + column;
    float *restrict y_t = float_row(run->args->y_t, t) + column;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        const struct side_values f = side_of(&lent, x[i]);
        y_t[i] = (f.a * f.slope + lent.beta) * x_t[i] + f.a_t * f.h;
    }
}

void KERNEL(xielu_backward_tangent)(const struct xielu_run *run, int64_t t, int64_t column, int64_t count,
                                    struct xielu_sums *sums)
{
    const struct xielu_run lent = *run;
    const float *restrict x = float_row(run->args->x, t) + column, *restrict x_t =
                                                                       float_row(run->args->x_t, t) + column;
    const float *restrict dy = float_row(run->args->dy, t) + column, *restrict dy_t =
                                                                         float_row(run->args->dy_t, t) + column;
    float *restrict dx = float_row(run->args->dx, t) + column, *restrict dx_t = float_row(run->args->dx_t, t) + column;
    for (int64_t first = 0; first < count; first += BLOCK) {
        const int64_t end = first + BLOCK < count ? first + BLOCK : count;
        float above = 0, below = 0, above_t = 0, below_t = 0;
        if (!run->args->accumulate)
            for (int64_t i = first; i < end; i++) dx[i] = dx_t[i] = 0;
#pragma omp simd reduction(+ : above, below, above_t, below_t)
        for (int64_t i = first; i < end; i++) {
            const struct side_values f = side_of(&lent, x[i]);
            const float slope = f.a * f.slope + lent.beta, part = dy[i] * f.h;
            const float part_t = dy_t[i] * f.h + dy[i] * f.slope * x_t[i];
            above += f.positive ? part : 0;
            below += f.positive ? 0 : part;
            above_t += f.positive ? part_t : 0;
            below_t += f.positive ? 0 : part_t;
            dx[i] += dy[i] * slope;
            dx_t[i] += dy_t[i] * slope + dy[i] * (f.a * f.bend * x_t[i] + f.a_t * f.slope);
        }
        sums->dy_h[0] += (double)above;
        sums->dy_h[1] += (double)below;
        sums->tangent[0] += (double)above_t;
        sums->tangent[1] += (double)below_t;
    }
}
