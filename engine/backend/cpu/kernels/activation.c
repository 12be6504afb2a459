/* activation.c: the activations of reference/activation.c. Each is written once as a function of one number and inlined
 * into its own loops, so that the kind is chosen outside the loops. gelu_tanh uses (1 + tanh a) / 2 = σ(2 a). Second
 * derivatives use σ(-u) instead of 1 - σ(u), which loses its digits for large u, where its factors are large. */
#include "backend/cpu/kernels/all.h"

struct slope {
    float value, derivative, second;
};

/* Beyond a limit every second derivative is 0 in float, but its factors may overflow. */
static inline float clamp(float u, float limit)
{
    return u > limit ? limit : u < -limit ? -limit : u;
}

static inline struct slope silu(float u)
{
    const float sigma = sigmoid_of(u);
    return (struct slope){u * sigma, sigma * (1 + u * (1 - sigma)), sigma * sigmoid_of(-u) * (2 + u * (1 - 2 * sigma))};
}

static inline struct slope gelu(float u)
{
    const struct normal n = normal_of(u);
    const float near = clamp(u, 13);
    return (struct slope){u * n.below, n.below + u * 0.39894228f * n.bell, 0.39894228f * n.bell * (2 - near * near)};
}

static inline struct slope gelu_tanh(float u)
{
    const float root2 = 1.59576912f; /* 2 √(2/π) */
    const float curved = 0.044715f * u * u, sigma = sigmoid_of(root2 * u * (1 + curved));
    const float near = clamp(u, 20), bend = 0.044715f * near * near;
    const float z1 = root2 * (1 + 3 * bend), z2 = root2 * 6 * 0.044715f * near; /* derivatives of 2 a */
    return (struct slope){u * sigma, sigma + u * sigma * (1 - sigma) * root2 * (1 + 3 * curved),
                          sigma * sigmoid_of(-root2 * u * (1 + curved)) *
                              (2 * z1 + near * (z2 + (1 - 2 * sigma) * z1 * z1))};
}

static inline struct slope relu(float u)
{
    /* NaN stays NaN */
    return (struct slope){u < 0 ? 0 : u, u > 0 ? 1.0f : u <= 0 ? 0 : u, u > 0 || u <= 0 ? 0 : u};
}

struct run {
    const float *gate, *up, *dy; /* up: NULL when absent */
    float *y, *dgate, *dup;
    int64_t count;
    bool accumulate_gate, accumulate_up;
    const float *gate_t, *up_t, *dy_t;
    float *y_t, *dgate_t, *dup_t;
};

#define INLINE static inline __attribute__((always_inline))

/* y may be gate or up itself: element i is read before it is written, so the lanes stay independent. */
INLINE void forward(const struct run *run, struct slope (*f)(float u))
{
    const float *gate = run->gate, *up = run->up;
    float *y = run->y;
    if (up != NULL) {
#pragma omp simd
        for (int64_t i = 0; i < run->count; i++) y[i] = f(gate[i]).value * up[i];
    } else {
#pragma omp simd
        for (int64_t i = 0; i < run->count; i++) y[i] = f(gate[i]).value;
    }
}

INLINE void backward_with_up(const struct run *run, struct slope (*f)(float u), bool accumulate_gate,
                             bool accumulate_up)
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

INLINE void tangent(const struct run *run, struct slope (*f)(float u))
{
    const float *restrict gate = run->gate, *restrict up = run->up, *restrict gate_t = run->gate_t,
                          *restrict up_t = run->up_t;
    float *restrict y_t = run->y_t;
    if (up != NULL) {
#pragma omp simd
        for (int64_t i = 0; i < run->count; i++) {
            const struct slope s = f(gate[i]);
            y_t[i] = s.derivative * gate_t[i] * up[i] + s.value * up_t[i];
        }
    } else {
#pragma omp simd
        for (int64_t i = 0; i < run->count; i++) y_t[i] = f(gate[i]).derivative * gate_t[i];
    }
}

INLINE void backward_tangent_with_up(const struct run *run, struct slope (*f)(float u), bool accumulate_gate,
                                     bool accumulate_up)
{
    const float *restrict gate = run->gate, *restrict up = run->up, *restrict dy = run->dy;
    const float *restrict gate_t = run->gate_t, *restrict up_t = run->up_t, *restrict dy_t = run->dy_t;
    float *restrict dgate = run->dgate, *restrict dup = run->dup, *restrict dgate_t = run->dgate_t,
                    *restrict dup_t = run->dup_t;
#pragma omp simd
    for (int64_t i = 0; i < run->count; i++) {
        const struct slope s = f(gate[i]);
        const float bent = s.second * gate_t[i], moved = s.derivative * gate_t[i];
        const float to_gate = dy[i] * up[i] * s.derivative, to_up = dy[i] * s.value;
        const float to_gate_t = (dy_t[i] * up[i] + dy[i] * up_t[i]) * s.derivative + dy[i] * up[i] * bent;
        const float to_up_t = dy_t[i] * s.value + dy[i] * moved;
        dgate[i] = accumulate_gate ? dgate[i] + to_gate : to_gate;
        dgate_t[i] = accumulate_gate ? dgate_t[i] + to_gate_t : to_gate_t;
        dup[i] = accumulate_up ? dup[i] + to_up : to_up;
        dup_t[i] = accumulate_up ? dup_t[i] + to_up_t : to_up_t;
    }
}

INLINE void backward_tangent_alone(const struct run *run, struct slope (*f)(float u), bool accumulate)
{
    const float *restrict gate = run->gate, *restrict dy = run->dy, *restrict gate_t = run->gate_t,
                          *restrict dy_t = run->dy_t;
    float *restrict dgate = run->dgate, *restrict dgate_t = run->dgate_t;
#pragma omp simd
    for (int64_t i = 0; i < run->count; i++) {
        const struct slope s = f(gate[i]);
        const float to_gate = dy[i] * s.derivative, to_gate_t = dy_t[i] * s.derivative + dy[i] * s.second * gate_t[i];
        dgate[i] = accumulate ? dgate[i] + to_gate : to_gate;
        dgate_t[i] = accumulate ? dgate_t[i] + to_gate_t : to_gate_t;
    }
}

/* What a pass accumulates is chosen outside its loops too. */
#define DEFINE_BACKWARD(pass)                                           \
    INLINE void pass(const struct run *run, struct slope (*f)(float u)) \
    {                                                                   \
        if (run->up == NULL) {                                          \
            if (run->accumulate_gate)                                   \
                pass##_alone(run, f, true);                             \
            else                                                        \
                pass##_alone(run, f, false);                            \
        } else if (run->accumulate_gate) {                              \
            if (run->accumulate_up)                                     \
                pass##_with_up(run, f, true, true);                     \
            else                                                        \
                pass##_with_up(run, f, true, false);                    \
        } else {                                                        \
            if (run->accumulate_up)                                     \
                pass##_with_up(run, f, false, true);                    \
            else                                                        \
                pass##_with_up(run, f, false, false);                   \
        }                                                               \
    }
DEFINE_BACKWARD(backward)
DEFINE_BACKWARD(backward_tangent)

#define DEFINE_LOOP(kind, pass)                      \
    static void kind##_##pass(const struct run *run) \
    {                                                \
        pass(run, kind);                             \
    }
#define DEFINE_LOOPS(kind)      \
    DEFINE_LOOP(kind, forward)  \
    DEFINE_LOOP(kind, backward) \
    DEFINE_LOOP(kind, tangent)  \
    DEFINE_LOOP(kind, backward_tangent)

DEFINE_LOOPS(silu)
DEFINE_LOOPS(gelu)
DEFINE_LOOPS(gelu_tanh)
DEFINE_LOOPS(relu)

static const struct loops {
    void (*forward)(const struct run *run);
    void (*backward)(const struct run *run);
    void (*tangent)(const struct run *run);
    void (*backward_tangent)(const struct run *run);
} loops[] = {
    [ACTIVATION_SILU] = {silu_forward, silu_backward, silu_tangent, silu_backward_tangent},
    [ACTIVATION_GELU] = {gelu_forward, gelu_backward, gelu_tangent, gelu_backward_tangent},
    [ACTIVATION_GELU_TANH] = {gelu_tanh_forward, gelu_tanh_backward, gelu_tanh_tangent, gelu_tanh_backward_tangent},
    [ACTIVATION_RELU] = {relu_forward, relu_backward, relu_tangent, relu_backward_tangent},
};

static float *part_of(struct matrix matrix, int64_t t, int64_t column)
{
    return matrix.data != NULL ? float_row(matrix, t) + column : NULL;
}

#define PART(name) .name = part_of(args->name, t, column)

/* For every pass, which looks at what is its own. */
static struct run run_of(const struct activation_args *args, int64_t t, int64_t column, int64_t count)
{
    return (struct run){.count = count,
                        .accumulate_gate = args->accumulate_gate,
                        .accumulate_up = args->accumulate_up,
                        PART(gate),
                        PART(up),
                        PART(y),
                        PART(dy),
                        PART(dgate),
                        PART(dup),
                        PART(gate_t),
                        PART(up_t),
                        PART(y_t),
                        PART(dy_t),
                        PART(dgate_t),
                        PART(dup_t)};
}

#define DEFINE_KERNEL(pass)                                                                                      \
    void KERNEL(activation_##pass)(const struct activation_args *args, int64_t t, int64_t column, int64_t count) \
    {                                                                                                            \
        const struct run run = run_of(args, t, column, count);                                                   \
        loops[args->kind].pass(&run);                                                                            \
    }
DEFINE_KERNEL(forward)
DEFINE_KERNEL(backward)
DEFINE_KERNEL(tangent)
DEFINE_KERNEL(backward_tangent)
