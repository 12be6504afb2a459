/* scan.h: shared by scan.c and scan_tangent.c: a strip of channels in one chunk of a sequence. */
#ifndef BACKEND_CPU_KERNELS_SCAN_H
#define BACKEND_CPU_KERNELS_SCAN_H

#include "backend/cpu/kernels/all.h"
#include "backend/cpu/kernels/lanes.h"

struct place {
    const struct scan_args *args;
    int64_t start, end;     /* rows of the sequence */
    int64_t first, count;   /* rows of the chunk */
    int64_t channel, width; /* of the strip */
    int64_t head, group;    /* of its first channel */
    bool own_heads;         /* each channel is a head; otherwise the whole strip is in one head */
    bool own_decays;        /* each state of a head has its own decay; otherwise they share one */
};

static inline struct place place_of(const struct scan_strip *strip)
{
    const struct scan_args *args = strip->args;
    const int64_t channels = args->x.columns / args->heads, head = strip->channel / channels;
    return (struct place){
        .args = args,
        .start = strip->start,
        .end = strip->end,
        .first = strip->first,
        .count = strip->end - strip->first < SCAN_CHUNK ? strip->end - strip->first : SCAN_CHUNK,
        .channel = strip->channel,
        .width = strip->width,
        .head = head,
        .group = head / (args->heads / args->groups),
        .own_heads = channels == 1,
        .own_decays = args->a_log.rows == args->heads && args->a_log.columns == args->states,
    };
}

/* Columns of the strip in row i of the chunk. */
static inline float *strip_row(struct matrix m, const struct place *at, int64_t i)
{
    return float_row(m, at->first + i) + at->channel;
}

static inline lanes strip_load(struct matrix m, const struct place *at, int64_t i)
{
    return lanes_load(strip_row(m, at, i), at->width);
}

/* The values of the strip's heads in a row of m [., H]; zero when m is absent. */
static inline lanes heads_load(struct matrix m, const struct place *at, int64_t row)
{
    if (m.data == NULL) return lanes_of(0);
    const float *from = float_row(m, row) + at->head;
    return at->own_heads ? lanes_load(from, at->width) : lanes_of(*from);
}

/* Sums the strip's channels into their heads: overwrites, or adds. */
static inline void heads_store(struct matrix m, const struct place *at, int64_t row, lanes value, bool add)
{
    float *to = float_row(m, row) + at->head;
    if (!at->own_heads)
        *to = (add ? *to : 0) + lanes_sum(value);
    else if (add)
        lanes_store(to, lanes_load(to, at->width) + value, at->width);
    else
        lanes_store(to, value, at->width);
}

/* State n of a [H, N] or [1, H] parameter, for each of the strip's channels. decay_add adds gradients in the same
 * layout. */
static inline lanes decay_load(struct matrix m, const struct place *at, int64_t n)
{
    if (m.data == NULL) return lanes_of(0);
    if (!at->own_decays) return heads_load(m, at, 0);
    if (!at->own_heads) return lanes_of(float_row(m, at->head)[n]);
    float part[LANES] = {0};
    for (int64_t l = 0; l < at->width; l++) part[l] = float_row(m, at->head + l)[n];
    return *(const lanes *)part;
}

static inline void decay_add(struct matrix m, const struct place *at, int64_t n, lanes value)
{
    if (m.data == NULL) return;
    if (!at->own_decays)
        heads_store(m, at, 0, value, true);
    else if (!at->own_heads)
        float_row(m, at->head)[n] += lanes_sum(value);
    else
        for (int64_t l = 0; l < at->width; l++) float_row(m, at->head + l)[n] += value[l];
}

/* The strip's channels of state n in a matrix without gaps that holds states [N, C] from `row` on. */
static inline float *kept_at(struct matrix m, const struct place *at, int64_t row, int64_t n)
{
    return float_row(m, row) + n * at->args->x.columns + at->channel;
}

/* B of state n in the chunk's first row; C lies groups * states behind. */
static inline const float *b_at(struct matrix bc, const struct place *at, int64_t n)
{
    return float_row(bc, at->first) + at->group * at->args->states + n;
}

static inline struct softplus step_of(const struct place *at, int64_t i)
{
    struct softplus step =
        softplus_of(heads_load(at->args->step, at, at->first + i) + heads_load(at->args->step_bias, at, 0));
    const lanes least = lanes_of((float)at->args->step_least), most = lanes_of((float)at->args->step_most);
    const lane_bits below = (lane_bits)(step.value < least), above = (lane_bits)(step.value > most);
    step.value = lanes_where(below, least, lanes_where(above, most, step.value));
    step.slope = lanes_where(below | above, lanes_of(0), step.slope);
    step.curve = lanes_where(below | above, lanes_of(0), step.curve);
    return step;
}

static inline lanes step_tangent_of(const struct place *at, int64_t i)
{
    return heads_load(at->args->step_t, at, at->first + i) + heads_load(at->args->step_bias_t, at, 0);
}

#endif
