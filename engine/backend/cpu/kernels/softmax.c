/* softmax.c: the softmax of reference/attention.c over one block of scores at a time (Milakov and Gimelshein, arXiv
 * 1805.02867): with m the largest score so far and s = sum exp(score - m), a new block moves m to m', and s and out are
 * scaled by exp(m - m'). A row of scores that are all NaN or all -infinity gives NaN. */
#include "backend/cpu/kernels/all.h"

#include <math.h>

enum { GRAIN = 16 }; /* rows are processed in whole vectors of the widest level */

struct range {
    int64_t low, high;
};

/* The columns of the block that row r sees. */
static inline struct range seen(const struct score_block *block, int64_t r)
{
    const int64_t query = block->first_query + r;
    int64_t low = block->window > 0 ? query - block->window + 1 - block->first_key : 0,
            high = query + 1 - block->first_key;
    if (low < 0) low = 0;
    if (high > block->columns) high = block->columns;
    return low < high ? (struct range){low, high} : (struct range){0, 0};
}

/* Sets those of GRAIN scores from column `first` on that the row does not see to `ends`. */
static inline void clear_edge(float *scores, int32_t first, struct range range, float ends)
{
    const int32_t low = (int32_t)range.low, high = (int32_t)range.high;
#pragma omp simd
    for (int32_t i = 0; i < GRAIN; i++)
        scores[first + i] = (first + i >= low) & (first + i < high) ? scores[first + i] : ends;
}

/* Widens the range to whole vectors, sets the added scores to `ends`, and clears the other scores that are read: loops
 * over the range have no remainder. */
static inline struct range widen(const struct score_block *block, float *scores, struct range range, float ends)
{
    const int64_t reach = range.high + block->step,
                  columns = block->step > 0 && reach < block->columns ? reach : block->columns;
    const struct range wide = {range.low / GRAIN * GRAIN, (range.high + GRAIN - 1) / GRAIN * GRAIN};
    if (wide.low > 0) memset(scores, 0, (size_t)wide.low * sizeof *scores);
    if (wide.low < range.low) clear_edge(scores, (int32_t)wide.low, range, ends);
    if (range.high < wide.high) clear_edge(scores, (int32_t)wide.high - GRAIN, range, ends);
    if (wide.high < columns) memset(scores + wide.high, 0, (size_t)(columns - wide.high) * sizeof *scores);
    return wide;
}

static inline float largest_of(const float *scores, int64_t vectors, float largest)
{
#pragma omp simd reduction(max : largest)
    for (int64_t c = 0; c < vectors * GRAIN; c++) largest = scores[c] > largest ? scores[c] : largest;
    return largest;
}

/* Two loops, which is cheap because a row stays in the first-level cache: the ordered sum does not slow down the
 * exponentials. */
static inline float exp_all(float *scores, int64_t vectors, float largest)
{
#pragma omp simd
    for (int64_t c = 0; c < vectors * GRAIN; c++) scores[c] = exp_below(scores[c] - largest);
    lanes sum = {0};
    for (int64_t c = 0; c < vectors * GRAIN; c += LANES) sum += *(const lanes *)(scores + c);
    return lanes_sum(sum);
}

void KERNEL(softmax_block)(const struct score_block *block, float *largest, float *sums, float *out, int64_t out_stride,
                           int64_t head_dim)
{
    for (int64_t r = 0; r < block->rows; r++) {
        float *scores = block->scores + r * block->stride;
        const struct range range = seen(block, r);
        const struct range wide = widen(block, scores, range, -INFINITY);
        const int64_t vectors = (wide.high - wide.low) / GRAIN;
        if (vectors == 0) continue;
        const float before = largest[r], now = largest_of(scores + wide.low, vectors, before);
        const float sum = exp_all(scores + wide.low, vectors, now);
        largest[r] = now;
        if (now == before) {
            sums[r] += sum;
            continue;
        }
        const float shrink = before == -INFINITY ? 0 : exp_below(before - now);
        float *to = out + r * out_stride;
        sums[r] = sums[r] * shrink + sum;
#pragma omp simd
        for (int64_t c = 0; c < head_dim; c++) to[c] *= shrink;
    }
}

void KERNEL(softmax_gradient)(const struct score_block *block, float *slopes, const float *log_sum, const float *d,
                              float scale)
{
    for (int64_t r = 0; r < block->rows; r++) {
        float *restrict scores = block->scores + r * block->stride, *restrict slope = slopes + r * block->stride;
        const struct range range = seen(block, r);
        const float base = log_sum[r], offset = d[r];
        const struct range wide = widen(block, scores, range, -INFINITY);
        widen(block, slope, range, 0);
        const int64_t vectors = (wide.high - wide.low) / GRAIN;
        scores += wide.low;
        slope += wide.low;
#pragma omp simd
        for (int64_t c = 0; c < vectors * GRAIN; c++) {
            const float p = exp_below(scores[c] - base);
            scores[c] = p;
            slope[c] = scale * p * (slope[c] - offset);
        }
    }
}

void KERNEL(softmax_tangent)(const struct score_block *block, float *scores_t, const float *log_sum, float *log_sum_t)
{
    for (int64_t r = 0; r < block->rows; r++) {
        float *restrict score = block->scores + r * block->stride, *restrict score_t = scores_t + r * block->stride;
        const struct range range = seen(block, r);
        const float base = log_sum[r];
        const struct range wide = widen(block, score, range, -INFINITY);
        widen(block, score_t, range, 0);
        const int64_t vectors = (wide.high - wide.low) / GRAIN;
        score += wide.low;
        score_t += wide.low;
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t c = 0; c < vectors * GRAIN; c++) {
            const float p = exp_below(score[c] - base), weighted = p * score_t[c];
            score[c] = p;
            score_t[c] = weighted;
            sum += weighted;
        }
        log_sum_t[r] += sum;
    }
}

void KERNEL(softmax_gradient_tangent)(const struct softmax_tangents *t)
{
    const struct score_block *block = &t->block;
    for (int64_t r = 0; r < block->rows; r++) {
        const int64_t at = r * block->stride;
        const struct range range = seen(block, r);
        const struct range wide = widen(block, block->scores + at, range, -INFINITY);
        widen(block, t->scores_t + at, range, 0);
        widen(block, t->slopes + at, range, 0);
        widen(block, t->slopes_t + at, range, 0);
        float *restrict score = block->scores + at + wide.low, *restrict score_t = t->scores_t + at + wide.low;
        float *restrict slope = t->slopes + at + wide.low, *restrict slope_t = t->slopes_t + at + wide.low;
        const float base = t->log_sum[r], base_t = t->log_sum_t[r], d = t->d[r], d_t = t->d_t[r], scale = t->scale;
        const int64_t vectors = (wide.high - wide.low) / GRAIN;
#pragma omp simd
        for (int64_t c = 0; c < vectors * GRAIN; c++) {
            const float p = exp_below(score[c] - base), p_t = p * (score_t[c] - base_t), e = slope[c] - d;
            score[c] = p;
            score_t[c] = p_t;
            slope_t[c] = scale * (p_t * e + p * (slope_t[c] - d_t));
            slope[c] = scale * p * e;
        }
    }
}
