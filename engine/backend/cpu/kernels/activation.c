/* activation.c: the activations of reference/activation.c. Each is written once as a function of one number and inlined
 * into its own loops, so that the kind is chosen outside of them. gelu_tanh uses (1 + tanh a) / 2 = σ(2 a). */
#include "backend/cpu/kernels/all.h"

struct slope {
    float value, derivative;
};

static inline struct slope silu(float u)
{
    const float sigma = sigmoid_of(u);
    return (struct slope){u * sigma, sigma * (1 + u * (1 - sigma))};
}

static inline struct slope gelu(float u)
{
    const struct normal n = normal_of(u);
    return (struct slope){u * n.below, n.below + u * 0.39894228f * n.bell};
}

static inline struct slope gelu_tanh(float u)
{
    const float root2 = 1.59576912f; /* 2 √(2/π) */
    const float curved = 0.044715f * u * u, sigma = sigmoid_of(root2 * u * (1 + curved));
    return (struct slope){u * sigma, sigma + u * sigma * (1 - sigma) * root2 * (1 + 3 * curved)};
}

static inline struct slope relu(float u)
{
    return (struct slope){u < 0 ? 0 : u, u > 0 ? 1.0f : u <= 0 ? 0 : u}; /* NaN stays NaN */
}

struct run {
    const float *gate, *up, *dy; /* up: NULL when absent */
    float *y, *dgate, *dup;
    int64_t count;
    bool accumulate_gate, accumulate_up;
};

#define INLINE static inline __attribute__((always_inline))

/* y may be gate or up itself: element i is read before it is written, so the lanes stay independent. */
INLINE void forward(const struct run *run, struct slope (*f)(float u))
{
    const float *gate = run->gate, *up = run->up;
    float *y = run->y;
    if (up) {
#pragma omp simd
        for (int64_t i = 0; i < run->count; i++) y[i] = f(gate[i]).value * up[i];
    } else {
#pragma omp simd
        for (int64_t i = 0; i < run->count; i++) y[i] = f(gate[i]).value;
    }
}

INLINE void backward_with_up(const struct run *run, struct slope (*f)(float u), bool accumulate_gate, bool accumulate_up)
{
    const float *restrict gate = run->gate, *restrict up = run->up, *restrict dy = run->dy;
    float *restrict dgate = run->dgate, *restrict dup = run->dup;
#pragma omp simd
    for (int64_t i = 0; i < run->count; i++) {
        const struct slope s = f(gate[i]);
        const float to_gate = dy[i] * up[i] * s.derivative, to_up = dy[i] * s.value;
        dgate[i] = accumulate_gate ? dgate[i] + to_gate : to_gate;
        dup[i] = accumulate_up ? dup[i] + to_up : to_up;
    }
}

INLINE void backward_alone(const struct run *run, struct slope (*f)(float u), bool accumulate)
{
    const float *restrict gate = run->gate, *restrict dy = run->dy;
    float *restrict dgate = run->dgate;
#pragma omp simd
    for (int64_t i = 0; i < run->count; i++) {
        const float to_gate = dy[i] * f(gate[i]).derivative;
        dgate[i] = accumulate ? dgate[i] + to_gate : to_gate;
    }
}

INLINE void backward(const struct run *run, struct slope (*f)(float u))
{
    if (run->up == NULL) {
        if (run->accumulate_gate)
            backward_alone(run, f, true);
        else
            backward_alone(run, f, false);
    } else if (run->accumulate_gate) {
        if (run->accumulate_up)
            backward_with_up(run, f, true, true);
        else
            backward_with_up(run, f, true, false);
    } else {
        if (run->accumulate_up)
            backward_with_up(run, f, false, true);
        else
            backward_with_up(run, f, false, false);
    }
}

#define DEFINE_LOOPS(kind)                                                                                                         \
    static void kind##_forward(const struct run *run)                                                                              \
    {                                                                                                                              \
        forward(run, kind);                                                                                                        \
    }                                                                                                                              \
    static void kind##_backward(const struct run *run)                                                                             \
    {                                                                                                                              \
        backward(run, kind);                                                                                                       \
    }

DEFINE_LOOPS(silu)
DEFINE_LOOPS(gelu)
DEFINE_LOOPS(gelu_tanh)
DEFINE_LOOPS(relu)

static const struct loops {
    void (*forward)(const struct run *run);
    void (*backward)(const struct run *run);
} loops[] = {
    [ACTIVATION_SILU] = {silu_forward, silu_backward},
    [ACTIVATION_GELU] = {gelu_forward, gelu_backward},
    [ACTIVATION_GELU_TANH] = {gelu_tanh_forward, gelu_tanh_backward},
    [ACTIVATION_RELU] = {relu_forward, relu_backward},
};

void KERNEL(activation_forward)(const struct activation_args *args, int64_t t, int64_t column, int64_t count)
{
    const struct run run = {
        .gate = float_row(args->gate, t) + column,
        .up = args->up.data ? float_row(args->up, t) + column : NULL,
        .y = float_row(args->y, t) + column,
        .count = count,
    };
    loops[args->kind].forward(&run);
}

void KERNEL(activation_backward)(const struct activation_args *args, int64_t t, int64_t column, int64_t count)
{
    const struct run run = {
        .gate = float_row(args->gate, t) + column,
        .up = args->up.data ? float_row(args->up, t) + column : NULL,
        .dy = float_row(args->dy, t) + column,
        .dgate = float_row(args->dgate, t) + column,
        .dup = args->up.data ? float_row(args->dup, t) + column : NULL,
        .count = count,
        .accumulate_gate = args->accumulate_gate,
        .accumulate_up = args->accumulate_up,
    };
    loops[args->kind].backward(&run);
}
