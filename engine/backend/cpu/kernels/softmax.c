/* softmax.c: the softmax of reference/attention.c over one block of scores at a time (Milakov and Gimelshein, arXiv 1805.02867):
 * with m the largest score so far and s = sum exp(score - m), a new block moves m to m', and s and out are scaled by exp(m - m').
 * A row of scores that are all NaN or all -infinity gives NaN. */
#include "backend/cpu/kernels/all.h"

#include <math.h>

struct range {
    int64_t low, high;
};

/* The columns of the block that row r sees. */
static inline struct range seen(const struct score_block *block, int64_t r)
{
    const int64_t query = block->first_query + r;
    int64_t low = block->window > 0 ? query - block->window + 1 - block->first_key : 0, high = query + 1 - block->first_key;
    if (low < 0) low = 0;
    if (low > block->columns) low = block->columns;
    if (high > block->columns) high = block->columns;
    if (high < low) high = low;
    return (struct range){low, high};
}

static inline void clear_unseen(float *scores, struct range range, int64_t columns)
{
    memset(scores, 0, (size_t)range.low * sizeof *scores);
    memset(scores + range.high, 0, (size_t)(columns - range.high) * sizeof *scores);
}

static inline float largest_of(const float *scores, struct range range, float largest)
{
#pragma omp simd reduction(max : largest)
    for (int64_t c = range.low; c < range.high; c++) largest = scores[c] > largest ? scores[c] : largest;
    return largest;
}

static inline float exp_all(float *scores, struct range range, float largest)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = range.low; c < range.high; c++) {
        const float p = exp_of(scores[c] - largest);
        scores[c] = p;
        sum += p;
    }
    return sum;
}

void KERNEL(softmax_block)(const struct score_block *block, float *largest, float *sums, float *out, int64_t out_stride,
                           int64_t head_dim)
{
    for (int64_t r = 0; r < block->rows; r++) {
        float *scores = block->scores + r * block->stride;
        const struct range range = seen(block, r);
        clear_unseen(scores, range, block->columns);
        if (range.low == range.high) continue;
        const float before = largest[r], now = largest_of(scores, range, before);
        const float sum = exp_all(scores, range, now);
        largest[r] = now;
        if (now == before) {
            sums[r] += sum;
            continue;
        }
        const float shrink = before == -INFINITY ? 0 : exp_of(before - now);
        float *to = out + r * out_stride;
        sums[r] = sums[r] * shrink + sum;
#pragma omp simd
        for (int64_t c = 0; c < head_dim; c++) to[c] *= shrink;
    }
}

void KERNEL(softmax_gradient)(const struct score_block *block, float *slopes, const float *log_sum, const float *d, float scale)
{
    for (int64_t r = 0; r < block->rows; r++) {
        float *restrict scores = block->scores + r * block->stride, *restrict slope = slopes + r * block->stride;
        const struct range range = seen(block, r);
        const float base = log_sum[r], offset = d[r];
        clear_unseen(scores, range, block->columns);
        clear_unseen(slope, range, block->columns);
#pragma omp simd
        for (int64_t c = range.low; c < range.high; c++) {
            const float p = exp_of(scores[c] - base);
            scores[c] = p;
            slope[c] = scale * p * (slope[c] - offset);
        }
    }
}
