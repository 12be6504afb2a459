/* scan.c: reference/scan.c on a strip of as many channels as a vector has lanes. Each state goes through a chunk of
 * rows on its own, so that the state stays in a register and the chunk's rows in the first-level cache. */
#include "backend/cpu/kernels/scan.h"

static inline void factors_fill(lanes *factor, const lanes *delta, lanes decay, int64_t count)
{
    for (int64_t i = 0; i < count; i++) factor[i] = lanes_exp_below(delta[i] * decay);
}

void KERNEL(scan_forward)(const struct scan_strip *strip)
{
    struct place at = place_of(strip);
    const struct scan_args *args = strip->args;
    const int64_t stride = args->bc.stride, to_c = args->groups * args->states;
    _Alignas(64) lanes states[SCAN_STATES], delta[SCAN_CHUNK], input[SCAN_CHUNK], factor[SCAN_CHUNK], y[SCAN_CHUNK];
    const lanes skip = heads_load(args->skip, &at, 0);
    for (int64_t n = 0; n < args->states; n++)
        states[n] = strip->initial != NULL ? lanes_load(strip->initial + n * args->x.columns + at.channel, at.width)
                                           : lanes_of(0);
    for (; at.first < at.end; at.first += SCAN_CHUNK) {
        at.count = at.end - at.first < SCAN_CHUNK ? at.end - at.first : SCAN_CHUNK;
        for (int64_t i = 0; i < at.count; i++) {
            const lanes x = strip_load(args->x, &at, i);
            delta[i] = step_of(&at, i).value;
            input[i] = delta[i] * x;
            y[i] = skip * x;
        }
        for (int64_t n = 0; n < args->states; n++) {
            const float *b = b_at(args->bc, &at, n);
            lanes s = states[n];
            if (args->kept.data != NULL && at.first > at.start)
                lanes_store(kept_at(args->kept, &at, at.first - SCAN_CHUNK, n), s, at.width);
            if (n == 0 || at.own_decays)
                factors_fill(factor, delta, -lanes_exp(decay_load(args->a_log, &at, n)), at.count);
            for (int64_t i = 0; i < at.count; i++) {
                s = factor[i] * s + input[i] * b[i * stride];
                y[i] += s * b[i * stride + to_c];
            }
            states[n] = s;
        }
        for (int64_t i = 0; i < at.count; i++) lanes_store(strip_row(args->y, &at, i), y[i], at.width);
    }
    for (int64_t n = 0; strip->final != NULL && n < args->states; n++)
        lanes_store(strip->final + n * args->x.columns + at.channel, states[n], at.width);
}

/* The strip's rows of a chunk; w = sum_n g B; decayed: the decays' part of ddelta. */
struct chunk {
    lanes delta[SCAN_CHUNK], slope[SCAN_CHUNK], x[SCAN_CHUNK], input[SCAN_CHUNK], dy[SCAN_CHUNK];
    lanes factor[SCAN_CHUNK], before[SCAN_CHUNK], w[SCAN_CHUNK], decayed[SCAN_CHUNK];
};

static void chunk_load(struct chunk *chunk, const struct place *at)
{
    for (int64_t i = 0; i < at->count; i++) {
        const struct softplus step = step_of(at, i);
        chunk->delta[i] = step.value;
        chunk->slope[i] = step.slope;
        chunk->x[i] = strip_load(at->args->x, at, i);
        chunk->dy[i] = strip_load(at->args->dy, at, i);
        chunk->input[i] = step.value * chunk->x[i];
        chunk->w[i] = chunk->decayed[i] = lanes_of(0);
    }
}

static void state_backward(struct chunk *chunk, const struct place *at, int64_t n, float *dbc)
{
    const struct scan_args *args = at->args;
    const int64_t stride = args->bc.stride, to_c = args->groups * args->states, row = 2 * args->states;
    const float *b = b_at(args->bc, at, n), *c = b + to_c;
    const lanes decay = -lanes_exp(decay_load(args->a_log, at, n));
    const bool last = at->first + SCAN_CHUNK >= at->end;
    float *carry = kept_at(args->dkept, at, at->start, n);
    lanes s =
        at->first > at->start ? lanes_load(kept_at(args->kept, at, at->first - SCAN_CHUNK, n), at->width) : lanes_of(0);
    lanes g = last ? lanes_of(0) : lanes_load(carry, at->width), da = lanes_of(0);
    if (n == 0 || at->own_decays) factors_fill(chunk->factor, chunk->delta, decay, at->count);
    for (int64_t i = 0; i < at->count; i++) {
        chunk->before[i] = chunk->factor[i] * s;
        s = chunk->before[i] + chunk->input[i] * b[i * stride];
    }
    for (int64_t i = at->count - 1; i >= 0; i--) {
        const lanes before = chunk->before[i], input = chunk->input[i];
        g += chunk->dy[i] * c[i * stride];
        dbc[i * row + n] += lanes_sum(g * input);
        dbc[i * row + args->states + n] += lanes_sum(chunk->dy[i] * (before + input * b[i * stride]));
        chunk->w[i] += g * b[i * stride];
        const lanes e = g * before;
        chunk->decayed[i] += e * decay;
        da += e * chunk->delta[i];
        g *= chunk->factor[i];
    }
    if (at->first > at->start) lanes_store(carry, g, at->width);
    decay_add(args->da_log, at, n, da * decay);
}

void KERNEL(scan_backward)(const struct scan_strip *strip, float *dbc, bool first_of_head)
{
    const struct place at = place_of(strip);
    const struct scan_args *args = strip->args;
    const lanes skip = heads_load(args->skip, &at, 0);
    lanes dskip = lanes_of(0), dbias = lanes_of(0);
    _Alignas(64) struct chunk chunk;
    chunk_load(&chunk, &at);
    for (int64_t n = 0; n < args->states; n++) state_backward(&chunk, &at, n, dbc);
    for (int64_t i = 0; i < at.count; i++) {
        const lanes dstep = (chunk.x[i] * chunk.w[i] + chunk.decayed[i]) * chunk.slope[i];
        lanes_store(strip_row(args->dx, &at, i), skip * chunk.dy[i] + chunk.delta[i] * chunk.w[i], at.width);
        heads_store(args->dstep, &at, at.first + i, dstep, !first_of_head);
        dskip += chunk.dy[i] * chunk.x[i];
        dbias += dstep;
    }
    if (args->dskip.data != NULL) heads_store(args->dskip, &at, 0, dskip, true);
    if (args->dstep_bias.data != NULL) heads_store(args->dstep_bias, &at, 0, dbias, true);
}
