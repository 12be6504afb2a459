/* scan_tangent.c: reference/scan_tangent.c on a strip of channels, like scan.c. */
#include "backend/cpu/kernels/scan.h"

struct pair {
    lanes value, tangent;
};

#define INLINE static inline __attribute__((always_inline))

INLINE struct pair product(struct pair a, struct pair b)
{
    return (struct pair){a.value * b.value, a.value * b.tangent + a.tangent * b.value};
}

INLINE struct pair sum(struct pair a, struct pair b)
{
    return (struct pair){a.value + b.value, a.tangent + b.tangent};
}

INLINE struct pair strip_pair(struct matrix value, struct matrix tangent, const struct place *at, int64_t i)
{
    return (struct pair){strip_load(value, at, i), strip_load(tangent, at, i)};
}

INLINE struct pair skip_pair(const struct place *at)
{
    return (struct pair){heads_load(at->args->skip, at, 0), heads_load(at->args->skip_t, at, 0)};
}

INLINE struct pair decay_pair(const struct place *at, int64_t n)
{
    const lanes decay = -lanes_exp(decay_load(at->args->a_log, at, n));
    return (struct pair){decay, decay * decay_load(at->args->a_log_t, at, n)};
}

/* The state before the chunk. */
INLINE struct pair state_pair(const struct place *at, int64_t n)
{
    if (at->first == at->start) return (struct pair){lanes_of(0), lanes_of(0)};
    const int64_t row = at->first - SCAN_CHUNK;
    return (struct pair){lanes_load(kept_at(at->args->kept, at, row, n), at->width),
                         lanes_load(kept_at(at->args->kept_t, at, row, n), at->width)};
}

/* A column of bc and its tangent, B or C of one state. */
struct column {
    const float *value, *tangent;
    int64_t stride, stride_t;
};

INLINE struct column column_of(const struct place *at, int64_t n, bool c)
{
    const struct scan_args *args = at->args;
    const int64_t behind = c ? args->groups * args->states : 0;
    return (struct column){b_at(args->bc, at, n) + behind, b_at(args->bc_t, at, n) + behind, args->bc.stride,
                           args->bc_t.stride};
}

INLINE struct pair column_pair(const struct column *column, int64_t i)
{
    return (struct pair){lanes_of(column->value[i * column->stride]), lanes_of(column->tangent[i * column->stride_t])};
}

/* The strip's rows of a chunk (scan.c); y_t for the forward pass. */
struct chunk {
    struct pair delta[SCAN_CHUNK], x[SCAN_CHUNK], input[SCAN_CHUNK], factor[SCAN_CHUNK];
    struct pair dy[SCAN_CHUNK], before[SCAN_CHUNK], w[SCAN_CHUNK], decayed[SCAN_CHUNK];
    lanes y_t[SCAN_CHUNK];
};

static void chunk_load(struct chunk *chunk, const struct place *at)
{
    for (int64_t i = 0; i < at->count; i++) {
        const struct softplus step = step_of(at, i);
        chunk->delta[i] = (struct pair){step.value, step.slope * step_tangent_of(at, i)};
        chunk->x[i] = strip_pair(at->args->x, at->args->x_t, at, i);
        chunk->input[i] = product(chunk->delta[i], chunk->x[i]);
    }
}

static void factors_fill(struct chunk *chunk, const struct place *at, struct pair decay)
{
    for (int64_t i = 0; i < at->count; i++) {
        const struct pair power = product(chunk->delta[i], decay);
        const lanes factor = lanes_exp_below(power.value);
        chunk->factor[i] = (struct pair){factor, factor * power.tangent};
    }
}

void KERNEL(scan_tangent)(const struct scan_strip *strip)
{
    struct place at = place_of(strip);
    const struct scan_args *args = strip->args;
    const struct pair skip = skip_pair(&at);
    _Alignas(64) struct pair states[SCAN_STATES];
    _Alignas(64) struct chunk chunk;
    for (int64_t n = 0; n < args->states; n++) states[n] = (struct pair){lanes_of(0), lanes_of(0)};
    for (; at.first < at.end; at.first += SCAN_CHUNK) {
        at.count = at.end - at.first < SCAN_CHUNK ? at.end - at.first : SCAN_CHUNK;
        chunk_load(&chunk, &at);
        for (int64_t i = 0; i < at.count; i++) chunk.y_t[i] = product(skip, chunk.x[i]).tangent;
        for (int64_t n = 0; n < args->states; n++) {
            const struct column b = column_of(&at, n, false), c = column_of(&at, n, true);
            struct pair s = states[n];
            if (at.first > at.start)
                lanes_store(kept_at(args->kept_t, &at, at.first - SCAN_CHUNK, n), s.tangent, at.width);
            if (n == 0 || at.own_decays) factors_fill(&chunk, &at, decay_pair(&at, n));
            for (int64_t i = 0; i < at.count; i++) {
                s = sum(product(chunk.factor[i], s), product(chunk.input[i], column_pair(&b, i)));
                chunk.y_t[i] += product(s, column_pair(&c, i)).tangent;
            }
            states[n] = s;
        }
        for (int64_t i = 0; i < at.count; i++) lanes_store(strip_row(args->y_t, &at, i), chunk.y_t[i], at.width);
    }
}

INLINE void sums_add(float *dbc, float *dbc_t, struct pair value)
{
    *dbc += lanes_sum(value.value);
    *dbc_t += lanes_sum(value.tangent);
}

static void state_backward(struct chunk *chunk, const struct place *at, int64_t n, float *dbc, float *dbc_t)
{
    const struct scan_args *args = at->args;
    const struct column b = column_of(at, n, false), c = column_of(at, n, true);
    const struct pair decay = decay_pair(at, n);
    const bool last = at->first + SCAN_CHUNK >= at->end;
    float *carry = kept_at(args->dkept, at, at->start, n), *carry_t = kept_at(args->dkept_t, at, at->start, n);
    struct pair s = state_pair(at, n), g = {lanes_of(0), lanes_of(0)};
    lanes da_t = lanes_of(0);
    if (!last) g = (struct pair){lanes_load(carry, at->width), lanes_load(carry_t, at->width)};
    if (n == 0 || at->own_decays) factors_fill(chunk, at, decay);
    for (int64_t i = 0; i < at->count; i++) {
        chunk->before[i] = product(chunk->factor[i], s);
        s = sum(chunk->before[i], product(chunk->input[i], column_pair(&b, i)));
    }
    for (int64_t i = at->count - 1; i >= 0; i--) {
        const int64_t to = i * 2 * args->states + n;
        const struct pair b_i = column_pair(&b, i), input = chunk->input[i], dy = chunk->dy[i];
        s = sum(chunk->before[i], product(input, b_i));
        g = sum(g, product(dy, column_pair(&c, i)));
        sums_add(dbc + to, dbc_t + to, product(g, input));
        sums_add(dbc + to + args->states, dbc_t + to + args->states, product(dy, s));
        const struct pair e = product(product(g, chunk->before[i]), decay);
        chunk->w[i] = sum(chunk->w[i], product(g, b_i));
        chunk->decayed[i] = sum(chunk->decayed[i], e);
        da_t += product(e, chunk->delta[i]).tangent;
        g = product(g, chunk->factor[i]);
    }
    if (at->first > at->start) {
        lanes_store(carry, g.value, at->width);
        lanes_store(carry_t, g.tangent, at->width);
    }
    decay_add(args->da_log_t, at, n, da_t);
}

void KERNEL(scan_backward_tangent)(const struct scan_strip *strip, float *dbc, float *dbc_t, bool first_of_head)
{
    const struct place at = place_of(strip);
    const struct scan_args *args = strip->args;
    const struct pair skip = skip_pair(&at);
    lanes dskip_t = lanes_of(0), dbias_t = lanes_of(0);
    _Alignas(64) struct chunk chunk;
    chunk_load(&chunk, &at);
    for (int64_t i = 0; i < at.count; i++) {
        chunk.dy[i] = strip_pair(args->dy, args->dy_t, &at, i);
        chunk.w[i] = chunk.decayed[i] = (struct pair){lanes_of(0), lanes_of(0)};
    }
    for (int64_t n = 0; n < args->states; n++) state_backward(&chunk, &at, n, dbc, dbc_t);
    for (int64_t i = 0; i < at.count; i++) {
        const struct softplus step = step_of(&at, i);
        const struct pair slope = {step.slope, step.curve * step_tangent_of(&at, i)};
        const struct pair dx = sum(product(skip, chunk.dy[i]), product(chunk.delta[i], chunk.w[i]));
        const struct pair dstep = product(sum(product(chunk.x[i], chunk.w[i]), chunk.decayed[i]), slope);
        lanes_store(strip_row(args->dx, &at, i), dx.value, at.width);
        lanes_store(strip_row(args->dx_t, &at, i), dx.tangent, at.width);
        heads_store(args->dstep, &at, at.first + i, dstep.value, !first_of_head);
        heads_store(args->dstep_t, &at, at.first + i, dstep.tangent, !first_of_head);
        dskip_t += product(chunk.dy[i], chunk.x[i]).tangent;
        dbias_t += dstep.tangent;
    }
    if (args->dskip_t.data != NULL) heads_store(args->dskip_t, &at, 0, dskip_t, true);
    if (args->dstep_bias_t.data != NULL) heads_store(args->dstep_bias_t, &at, 0, dbias_t, true);
}
