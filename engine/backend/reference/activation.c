/* activation.c: y = f(u) or y = f(u) ⊙ up; u is the `gate`. All [T, C].
 *   silu       f = u σ(u)                                  f' = σ(u) (1 + u (1 - σ(u))),  σ(u) = 1 / (1 + e^-u)
 *   gelu       f = u Φ(u), Φ(u) = erfc(-u / √2) / 2        f' = Φ(u) + u φ(u),  φ(u) = e^(-u²/2) / √(2π)
 *   gelu_tanh  f = u (1 + tanh a) / 2,  a = √(2/π) (u + 0.044715 u³)
 *              f' = (1 + tanh a) / 2 + u (1 - tanh² a) / 2 · √(2/π) (1 + 3 · 0.044715 u²)
 *   relu       f = max(u, 0), f'(0) = 0
 * (Hendrycks and Gimpel, arXiv 1606.08415.)  dup = dy f(u),  du = dy up f'(u). In double. */
#include "backend/reference/real.h"

#include <math.h>

struct slope {
    double value, derivative;
};

static struct slope silu(double u)
{
    const double sigma = 1 / (1 + exp(-u));
    return (struct slope){u * sigma, sigma * (1 + u * (1 - sigma))};
}

static struct slope gelu(double u)
{
    const double below = 0.5 * erfc(-u * M_SQRT1_2);
    return (struct slope){u * below, below + u * exp(-0.5 * u * u) / sqrt(2 * M_PI)};
}

static struct slope gelu_tanh(double u)
{
    const double root = sqrt(2 / M_PI), curved = 0.044715 * u * u, t = tanh(root * u * (1 + curved));
    return (struct slope){0.5 * u * (1 + t), 0.5 * (1 + t) + 0.5 * u * (1 - t * t) * root * (1 + 3 * curved)};
}

static struct slope relu(double u)
{
    /* written so that NaN stays NaN */
    return (struct slope){u < 0 ? 0 : u, u > 0 ? 1 : u <= 0 ? 0 : u};
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
            const double up = args->up.data ? (double)row_of(args->up, t)[c] : 1;
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
            const double up = args->up.data ? (double)row_of(args->up, t)[c] : 1, dy = (double)row_of(args->dy, t)[c];
            put(args->dgate, t, c, dy * up * f.derivative, args->accumulate_gate);
            if (args->up.data) put(args->dup, t, c, dy * f.value, args->accumulate_up);
        }
}
