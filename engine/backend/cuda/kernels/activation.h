/* activation.h: kernels of reference/activation.c, which has the equations. Tangents are in double, like the reference;
 * values and slopes in float, because in double they took four times as long as moving the numbers does. */
#ifndef BACKEND_CUDA_KERNELS_ACTIVATION_H
#define BACKEND_CUDA_KERNELS_ACTIVATION_H

#include "backend/cuda/kernels/elementwise.h"

struct slope {
    double value, derivative, second;
};

DEVICE struct slope slope_of(enum activation_kind kind, double u)
{
    struct slope s;
    if (kind == ACTIVATION_SILU) {
        const double sigma = 1 / (1 + exp(-u));
        s.value = u * sigma;
        s.derivative = sigma * (1 + u * (1 - sigma));
        s.second = sigma * (1 - sigma) * (2 + u * (1 - 2 * sigma));
    } else if (kind == ACTIVATION_GELU) {
        const double below = 0.5 * erfc(-u * 0.70710678118654752440), bell = exp(-0.5 * u * u) * 0.39894228040143267794;
        s.value = u * below;
        s.derivative = below + u * bell;
        s.second = bell * (2 - u * u);
    } else if (kind == ACTIVATION_GELU_TANH) {
        const double root = 0.79788456080286535588, curved = 0.044715 * u * u, t = tanh(root * u * (1 + curved));
        const double a1 = root * (1 + 3 * curved), a2 = root * 6 * 0.044715 * u, rest = 1 - t * t;
        s.value = 0.5 * u * (1 + t);
        s.derivative = 0.5 * (1 + t) + 0.5 * u * rest * a1;
        s.second = rest * (a1 + u * (0.5 * a2 - t * a1 * a1));
    } else { /* written so that NaN stays NaN */
        s.value = u < 0 ? 0 : u;
        s.derivative = u > 0 ? 1 : u <= 0 ? 0 : u;
        s.second = u > 0 || u <= 0 ? 0 : u;
    }
    return s;
}

DEVICE double element_or(struct matrix m, int64_t i, double otherwise)
{
    return m.data != NULL ? (double)*element_of(m, i) : otherwise;
}

/* The value alone, in float: a few roundings, and in gelu's tail some u x² of it. NaN stays NaN. */
DEVICE float activated(enum activation_kind kind, float u)
{
    if (kind == ACTIVATION_SILU) return u / (1 + expf(-u));
    if (kind == ACTIVATION_GELU) return 0.5F * u * erfcf(-0.70710678118654752F * u);
    if (kind == ACTIVATION_GELU_TANH) return 0.5F * u * (1 + tanhf(0.79788456080286536F * u * (1 + 0.044715F * u * u)));
    return u < 0 ? 0 : u;
}

struct float_slope {
    float value, derivative;
};

/* Value and derivative in float. With s = sigma(x), sigma'(x) = e / (1 + e)² of e = exp(-|x|), where nothing cancels;
 * the tanh form of gelu is u sigma(2 a), a as in slope_of. NaN stays NaN. */
DEVICE struct float_slope float_slope_of(enum activation_kind kind, float u)
{
    struct float_slope f;
    if (kind == ACTIVATION_GELU) {
        const float below = 0.5F * erfcf(-0.70710678118654752F * u), bell = 0.39894228040143268F * expf(-0.5F * u * u);
        f.value = u * below;
        f.derivative = below + u * bell;
    } else if (kind == ACTIVATION_RELU) {
        f.value = u < 0 ? 0 : u;
        f.derivative = u > 0 ? 1 : u <= 0 ? 0 : u;
    } else {
        const bool curved = kind == ACTIVATION_GELU_TANH;
        const float root = 1.59576912160573071F, curve = 0.044715F * u * u;
        const float x = curved ? root * u * (1 + curve) : u, slope = curved ? root * (1 + 3 * curve) : 1;
        const float e = expf(-fabsf(x)), s = 1 / (1 + e), sigma = x < 0 ? e * s : s;
        f.value = u * sigma;
        f.derivative = sigma + u * slope * (e * s * s);
    }
    return f;
}

DEVICE struct four four_or(struct matrix m, int64_t t, int64_t c, float otherwise)
{
    const struct four same = {{otherwise, otherwise, otherwise, otherwise}};
    return m.data != NULL ? four_at(m, t, c) : same;
}

KERNEL(activation_forward, activation_kernel_args)
{
    const struct activation_args *activation = &args->activation;
    EACH_FOUR(t, c, activation->gate)
    {
        const struct four up = four_or(activation->up, t, c, 1);
        struct four x = four_at(activation->gate, t, c);
        UNROLL
        for (int k = 0; k < 4; k++) x.value[k] = activated(activation->kind, x.value[k]) * up.value[k];
        put_four(activation->y, t, c, x);
        if (args->rounded != NULL)
            *(struct two_pairs *)(void *)(args->rounded + (t * args->pitch + c) / 2) = pairs_of(x);
    }
}

KERNEL(activation_backward, activation_args)
{
    EACH_FOUR(t, c, args->gate)
    {
        const struct four gate = four_at(args->gate, t, c), up = four_or(args->up, t, c, 1),
                          dy = four_at(args->dy, t, c);
        struct four dgate = args->accumulate_gate ? four_at(args->dgate, t, c) : gate,
                    dup = args->accumulate_up && args->up.data != NULL ? four_at(args->dup, t, c) : gate;
        UNROLL
        for (int k = 0; k < 4; k++) {
            const struct float_slope f = float_slope_of(args->kind, gate.value[k]);
            const float by_gate = dy.value[k] * up.value[k] * f.derivative, by_up = dy.value[k] * f.value;
            dgate.value[k] = args->accumulate_gate ? dgate.value[k] + by_gate : by_gate;
            dup.value[k] = args->accumulate_up ? dup.value[k] + by_up : by_up;
        }
        put_four(args->dgate, t, c, dgate);
        if (args->up.data != NULL) put_four(args->dup, t, c, dup);
    }
}

KERNEL(activation_tangent, activation_args)
{
    EACH_ELEMENT(i, args->gate.rows * args->gate.columns)
    {
        const struct slope f = slope_of(args->kind, (double)*element_of(args->gate, i));
        const double up = element_or(args->up, i, 1),
                     up_t = args->up.data != NULL ? (double)*element_of(args->up_t, i) : 0;
        *element_of(args->y_t, i) = (float)(f.derivative * (double)*element_of(args->gate_t, i) * up + f.value * up_t);
    }
}

KERNEL(activation_backward_tangent, activation_args)
{
    EACH_ELEMENT(i, args->gate.rows * args->gate.columns)
    {
        const struct slope f = slope_of(args->kind, (double)*element_of(args->gate, i));
        const double up = element_or(args->up, i, 1),
                     up_t = args->up.data != NULL ? (double)*element_of(args->up_t, i) : 0;
        const double u_t = (double)*element_of(args->gate_t, i);
        const double dy = (double)*element_of(args->dy, i), dy_t = (double)*element_of(args->dy_t, i);
        put(element_of(args->dgate, i), dy * up * f.derivative, args->accumulate_gate);
        put(element_of(args->dgate_t, i), (dy_t * up + dy * up_t) * f.derivative + dy * up * f.second * u_t,
            args->accumulate_gate);
        if (args->up.data == NULL) continue;
        put(element_of(args->dup, i), dy * f.value, args->accumulate_up);
        put(element_of(args->dup_t, i), dy_t * f.value + dy * f.derivative * u_t, args->accumulate_up);
    }
}

#endif
