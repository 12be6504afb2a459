/* xielu.h: kernels of reference/xielu.c, which has the equations. The gradients of the two learned numbers are sums
 * over all elements: first partials of DOT_PARTS blocks, then one block. In double, like the reference. */
#ifndef BACKEND_CUDA_KERNELS_XIELU_H
#define BACKEND_CUDA_KERNELS_XIELU_H

#include "backend/cuda/kernels/elementwise.h"

/* p and n, their slopes and curvatures by alpha, and their tangents; [0] for x > 0, [1] for the others. */
struct xielu_numbers {
    double a[2], slope[2], bend[2], direction[2], a_t[2], beta, epsilon;
};

DEVICE double xielu_scalar(struct matrix m)
{
    return m.data != NULL ? (double)*(const float *)m.data : 0;
}

DEVICE struct xielu_numbers xielu_numbers(const struct xielu_args *args)
{
    const double alpha[2] = {xielu_scalar(args->alpha_p), xielu_scalar(args->alpha_n)};
    struct xielu_numbers n;
    n.beta = xielu_scalar(args->beta);
    n.epsilon = xielu_scalar(args->epsilon);
    n.direction[0] = xielu_scalar(args->alpha_p_t);
    n.direction[1] = xielu_scalar(args->alpha_n_t);
    for (int i = 0; i < 2; i++) {
        n.a[i] = (alpha[i] > 0 ? alpha[i] : 0) + log1p(exp(-fabs(alpha[i]))) + (i == 1 ? n.beta : 0);
        n.slope[i] = 1 / (1 + exp(-alpha[i]));
        n.bend[i] = n.slope[i] * (1 - n.slope[i]);
        n.a_t[i] = n.slope[i] * n.direction[i];
    }
    return n;
}

struct xielu_values {
    double h, slope, bend;
    int side;
};

DEVICE struct xielu_values xielu_values(const struct xielu_numbers *n, double x)
{
    struct xielu_values f;
    const bool inside = !(x >= n->epsilon); /* NaN stays NaN */
    const double rest = expm1(inside ? x : n->epsilon);
    f.side = x > 0 ? 0 : 1;
    f.h = x > 0 ? x * x : rest - x;
    f.slope = x > 0 ? 2 * x : inside ? rest : -1;
    f.bend = x > 0 ? 2 : inside ? rest + 1 : 0;
    return f;
}

KERNEL(xielu_forward, xielu_kernel_args)
{
    const struct xielu_args *v = &args->xielu;
    const struct xielu_numbers n = xielu_numbers(v);
    EACH_ELEMENT(i, v->x.rows * v->x.columns)
    {
        const double x = (double)*element_of(v->x, i);
        const struct xielu_values f = xielu_values(&n, x);
        *element_of(v->y, i) = (float)(n.a[f.side] * f.h + n.beta * x);
    }
}

KERNEL(xielu_tangent, xielu_kernel_args)
{
    const struct xielu_args *v = &args->xielu;
    const struct xielu_numbers n = xielu_numbers(v);
    EACH_ELEMENT(i, v->x.rows * v->x.columns)
    {
        const struct xielu_values f = xielu_values(&n, (double)*element_of(v->x, i));
        *element_of(v->y_t, i) =
            (float)((n.a[f.side] * f.slope + n.beta) * (double)*element_of(v->x_t, i) + n.a_t[f.side] * f.h);
    }
}

/* The sums of dy h and, with a tangent, of dy_t h + dy h' x_t, by side: four rows of partials. */
DEVICE void xielu_back(const struct launch *grid, const struct xielu_kernel_args *args, double *shared, bool tangent)
{
    PRIVATE(double, sum0);
    PRIVATE(double, sum1);
    PRIVATE(double, sum0_t);
    PRIVATE(double, sum1_t);
    const struct xielu_args *v = &args->xielu;
    const struct xielu_numbers n = xielu_numbers(v);
    EACH_THREAD(thread)
    {
        sum0[MINE(thread)] = sum1[MINE(thread)] = sum0_t[MINE(thread)] = sum1_t[MINE(thread)] = 0;
        for (int64_t i = grid->block * KERNEL_THREADS + thread; i < v->x.rows * v->x.columns;
             i += grid->blocks * KERNEL_THREADS) {
            const struct xielu_values f = xielu_values(&n, (double)*element_of(v->x, i));
            const double dy = (double)*element_of(v->dy, i), slope = n.a[f.side] * f.slope + n.beta;
            if (f.side == 0)
                sum0[MINE(thread)] += dy * f.h;
            else
                sum1[MINE(thread)] += dy * f.h;
            if (tangent) {
                const double x_t = (double)*element_of(v->x_t, i), dy_t = (double)*element_of(v->dy_t, i);
                const double share = dy_t * f.h + dy * f.slope * x_t;
                if (f.side == 0)
                    sum0_t[MINE(thread)] += share;
                else
                    sum1_t[MINE(thread)] += share;
                put(element_of(v->dx_t, i), dy_t * slope + dy * (n.a[f.side] * f.bend * x_t + n.a_t[f.side] * f.slope),
                    v->accumulate);
            }
            put(element_of(v->dx, i), dy * slope, v->accumulate);
        }
    }
    const double total0 = block_sum(grid, sum0, shared), total1 = block_sum(grid, sum1, shared);
    const double total0_t = tangent ? block_sum(grid, sum0_t, shared) : 0,
                 total1_t = tangent ? block_sum(grid, sum1_t, shared) : 0;
    EACH_THREAD(thread)
    {
        if (thread > 0) continue;
        args->partials[grid->block] = total0;
        args->partials[DOT_PARTS + grid->block] = total1;
        args->partials[2 * DOT_PARTS + grid->block] = total0_t;
        args->partials[3 * DOT_PARTS + grid->block] = total1_t;
    }
}

KERNEL(xielu_backward, xielu_kernel_args)
{
    SHARED double shared[KERNEL_THREADS];
    xielu_back(grid, args, shared, false);
}

KERNEL(xielu_backward_tangent, xielu_kernel_args)
{
    SHARED double shared[KERNEL_THREADS];
    xielu_back(grid, args, shared, true);
}

/* One block. */
KERNEL(xielu_end, xielu_kernel_args)
{
    SHARED double totals[4];
    const struct xielu_args *v = &args->xielu;
    const struct xielu_numbers n = xielu_numbers(v);
    EACH_THREAD(thread)
    {
        double sum = 0;
        for (int i = 0; thread < 4 && i < DOT_PARTS; i++) sum += args->partials[thread * DOT_PARTS + i];
        if (thread < 4) totals[thread] = sum;
    }
    EACH_THREAD(thread)
    {
        const struct matrix to =
            args->tangent ? (thread == 0 ? v->dalpha_p_t : v->dalpha_n_t) : (thread == 0 ? v->dalpha_p : v->dalpha_n);
        if (thread > 1 || to.data == NULL) continue;
        const double value =
            args->tangent ? n.slope[thread] * totals[2 + thread] + n.bend[thread] * n.direction[thread] * totals[thread]
                          : n.slope[thread] * totals[thread];
        *(float *)to.data += (float)value;
    }
}

#endif
