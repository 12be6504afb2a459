/* activation.c: y = f(u) or y = f(u) ⊙ up; u is the `gate`. All [T, C].
 *   silu       f = u σ(u)                                  f' = σ(u) (1 + u (1 - σ(u))),  σ(u) = 1 / (1 + e^-u)
 *              f'' = σ(u) (1 - σ(u)) (2 + u (1 - 2 σ(u)))
 *   gelu       f = u Φ(u), Φ(u) = erfc(-u / √2) / 2        f' = Φ(u) + u φ(u),  φ(u) = e^(-u²/2) / √(2π)
 *              f'' = φ(u) (2 - u²)
 *   gelu_tanh  f = u (1 + tanh a) / 2,  a = √(2/π) (u + 0.044715 u³)
 *              f' = (1 + tanh a) / 2 + u (1 - tanh² a) / 2 · a',  a' = √(2/π) (1 + 3 · 0.044715 u²)
 *              f'' = (1 - tanh² a) (a' + u (a'' / 2 - tanh a · a'²)),  a'' = √(2/π) 6 · 0.044715 u
 *   relu       f = max(u, 0), f'(0) = 0, f'' = 0
 * (Hendrycks and Gimpel, arXiv 1606.08415.)  dup = dy f(u),  du = dy up f'(u).
 * Tangents:  y_t = f'(u) u_t up + f(u) up_t,  dup_t = dy_t f(u) + dy f'(u) u_t,
 *            du_t = (dy_t up + dy up_t) f'(u) + dy up f''(u) u_t.  In double. */
#include "backend/reference/real.h"

#include <math.h>

struct slope {
    double value, derivative, second;
};

static struct slope silu(double u)
{
    const double sigma = 1 / (1 + exp(-u));
    return (struct slope){u * sigma, sigma * (1 + u * (1 - sigma)), sigma * (1 - sigma) * (2 + u * (1 - 2 * sigma))};
}

static struct slope gelu(double u)
{
    const double below = 0.5 * erfc(-u * M_SQRT1_2), bell = exp(-0.5 * u * u) / sqrt(2 * M_PI);
    return (struct slope){u * below, below + u * bell, bell * (2 - u * u)};
}

static struct slope gelu_tanh(double u)
{
    const double root = sqrt(2 / M_PI), curved = 0.044715 * u * u, t = tanh(root * u * (1 + curved));
    const double a1 = root * (1 + 3 * curved), a2 = root * 6 * 0.044715 * u, rest = 1 - t * t;
    return (struct slope){0.5 * u * (1 + t), 0.5 * (1 + t) + 0.5 * u * rest * a1,
                          rest * (a1 + u * (0.5 * a2 - t * a1 * a1))};
}

static struct slope relu(double u)
{
    /* written so that NaN stays NaN */
    return (struct slope){u < 0 ? 0 : u, u > 0 ? 1 : u <= 0 ? 0 : u, u > 0 || u <= 0 ? 0 : u};
}

static struct slope (*const kinds[])(double u) = {
    [ACTIVATION_SILU] = silu,
    [ACTIVATION_GELU] = gelu,
    [ACTIVATION_GELU_TANH] = gelu_tanh,
    [ACTIVATION_RELU] = relu,
};

void REFERENCE(activation_forward)(struct backend *backend, const struct activation_args *args)
{
    (void)backend;
    for (int64_t t = 0; t < args->gate.rows; t++)
        for (int64_t c = 0; c < args->gate.columns; c++) {
            const double up = args->up.data != NULL ? (double)row_of(args->up, t)[c] : 1;
            row_of(args->y, t)[c] = (real)(kinds[args->kind]((double)row_of(args->gate, t)[c]).value * up);
        }
}

static void put(struct matrix to, int64_t t, int64_t c, double value, bool accumulate)
{
    real *out = row_of(to, t) + c;
    *out = accumulate ? *out + (real)value : (real)value;
}

void REFERENCE(activation_backward)(struct backend *backend, const struct activation_args *args)
{
    (void)backend;
    for (int64_t t = 0; t < args->gate.rows; t++)
        for (int64_t c = 0; c < args->gate.columns; c++) {
            const struct slope f = kinds[args->kind]((double)row_of(args->gate, t)[c]);
            const double up = args->up.data != NULL ? (double)row_of(args->up, t)[c] : 1,
                         dy = (double)row_of(args->dy, t)[c];
            put(args->dgate, t, c, dy * up * f.derivative, args->accumulate_gate);
            if (args->up.data != NULL) put(args->dup, t, c, dy * f.value, args->accumulate_up);
        }
}

void REFERENCE(activation_tangent)(struct backend *backend, const struct activation_args *args)
{
    (void)backend;
    for (int64_t t = 0; t < args->gate.rows; t++)
        for (int64_t c = 0; c < args->gate.columns; c++) {
            const struct slope f = kinds[args->kind]((double)row_of(args->gate, t)[c]);
            const double up = args->up.data != NULL ? (double)row_of(args->up, t)[c] : 1;
            const double up_t = args->up.data != NULL ? (double)row_of(args->up_t, t)[c] : 0;
            row_of(args->y_t, t)[c] = (real)(f.derivative * (double)row_of(args->gate_t, t)[c] * up + f.value * up_t);
        }
}

void REFERENCE(activation_backward_tangent)(struct backend *backend, const struct activation_args *args)
{
    (void)backend;
    for (int64_t t = 0; t < args->gate.rows; t++)
        for (int64_t c = 0; c < args->gate.columns; c++) {
            const struct slope f = kinds[args->kind]((double)row_of(args->gate, t)[c]);
            const double u_t = (double)row_of(args->gate_t, t)[c];
            const double up = args->up.data != NULL ? (double)row_of(args->up, t)[c] : 1;
            const double up_t = args->up.data != NULL ? (double)row_of(args->up_t, t)[c] : 0;
            const double dy = (double)row_of(args->dy, t)[c], dy_t = (double)row_of(args->dy_t, t)[c];
            put(args->dgate, t, c, dy * up * f.derivative, args->accumulate_gate);
            put(args->dgate_t, t, c, (dy_t * up + dy * up_t) * f.derivative + dy * up * f.second * u_t,
                args->accumulate_gate);
            if (args->up.data == NULL) continue;
            put(args->dup, t, c, dy * f.value, args->accumulate_up);
            put(args->dup_t, t, c, dy_t * f.value + dy * f.derivative * u_t, args->accumulate_up);
        }
}
