#include "eval/correlation.h"

#include "base/memory.h"
#include "base/random.h"
#include "eval/bootstrap.h"

#include <math.h>
#include <string.h>

enum { LEAST = 3 };

/* Two passes, so that large means cost no digits. NAN without variance. */
static double around(const double *x, const double *y, int64_t n, double mean_x, double mean_y)
{
    double xx = 0, yy = 0, xy = 0;
    for (int64_t i = 0; i < n; i++) {
        const double a = x[i] - mean_x, b = y[i] - mean_y;
        xx += a * a;
        yy += b * b;
        xy += a * b;
    }
    const double product =
        xx * yy; /* its root is exact where both are the same, as for ranks in the same or opposite order */
    const double value = xy / (isnormal(product) ? sqrt(product) : sqrt(xx) * sqrt(yy));
    return isfinite(value) ? fmax(-1, fmin(1, value)) : NAN;
}

static double pearson(const double *x, const double *y, int64_t n)
{
    double mean_x = 0, mean_y = 0;
    for (int64_t i = 0; i < n; i++) {
        mean_x += x[i] / (double)n;
        mean_y += y[i] / (double)n;
    }
    return around(x, y, n, mean_x, mean_y);
}

static bool varies(const double *values, int64_t n)
{
    for (int64_t i = 1; i < n; i++)
        if (values[i] < values[0] || values[i] > values[0]) return true;
    return false;
}

/* Sifts order[root] down the heap of `n` by value. */
static void sift(const double *values, int64_t *order, int64_t root, int64_t n)
{
    for (int64_t child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && values[order[child + 1]] > values[order[child]]) child++;
        if (values[order[root]] >= values[order[child]]) return;
        const int64_t kept = order[root];
        order[root] = order[child];
        order[child] = kept;
    }
}

void correlation_ranks(const double *values, int64_t n, int64_t *order, double *ranks)
{
    for (int64_t i = 0; i < n; i++) order[i] = i;
    for (int64_t i = n / 2; i-- > 0;) sift(values, order, i, n);
    for (int64_t end = n; end-- > 1;) {
        const int64_t kept = order[0];
        order[0] = order[end];
        order[end] = kept;
        sift(values, order, 0, end);
    }
    for (int64_t first = 0, last; first < n; first = last) {
        for (last = first + 1; last < n && !(values[order[last]] > values[order[first]]); last++) continue;
        for (int64_t i = first; i < last; i++) ranks[order[i]] = (double)(first + last + 1) / 2;
    }
}

struct scratch {
    double *x, *y, *rank_x, *rank_y; /* [n] a sample and its ranks */
    int64_t *order;                  /* [n] */
    double *draws, *spearman_draws;  /* [BOOTSTRAP_DRAWS] */
};

static double spearman(const double *x, const double *y, int64_t n, struct scratch *scratch)
{
    correlation_ranks(x, n, scratch->order, scratch->rank_x);
    correlation_ranks(y, n, scratch->order, scratch->rank_y);
    const double mean = (double)(n + 1) / 2; /* of ranks, ties or not: no sum of ours is rounded */
    return around(scratch->rank_x, scratch->rank_y, n, mean, mean);
}

/* Returns how many draws have a value. */
static int64_t draw_all(const double *x, const double *y, int64_t n, uint64_t seed, struct scratch *scratch)
{
    int64_t kept = 0;
    for (int64_t draw = 0; draw < BOOTSTRAP_DRAWS; draw++) {
        for (int64_t i = 0; i < n; i++) {
            const uint64_t pick = random_below(seed, (uint64_t)draw, (uint64_t)i, (uint64_t)n);
            scratch->x[i] = x[pick];
            scratch->y[i] = y[pick];
        }
        if (!varies(scratch->x, n) || !varies(scratch->y, n)) continue;
        scratch->draws[kept] = pearson(scratch->x, scratch->y, n);
        scratch->spearman_draws[kept] = spearman(scratch->x, scratch->y, n, scratch);
        kept += isfinite(scratch->draws[kept]) && isfinite(scratch->spearman_draws[kept]);
    }
    return kept;
}

static enum status scratch_new(int64_t n, struct scratch *scratch, struct error *error)
{
    double **blocks[] = {&scratch->x, &scratch->y, &scratch->rank_x, &scratch->rank_y};
    enum status status = memory_new(n, sizeof(int64_t), "correlation", &scratch->order, error);
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0] && status == STATUS_OK; i++)
        status = memory_new(n, sizeof(double), "correlation", blocks[i], error);
    if (status == STATUS_OK)
        status = memory_new(BOOTSTRAP_DRAWS, sizeof(double), "correlation", &scratch->draws, error);
    if (status == STATUS_OK)
        status = memory_new(BOOTSTRAP_DRAWS, sizeof(double), "correlation", &scratch->spearman_draws, error);
    return status;
}

static void scratch_free(struct scratch *scratch)
{
    memory_free(scratch->x);
    memory_free(scratch->y);
    memory_free(scratch->rank_x);
    memory_free(scratch->rank_y);
    memory_free(scratch->order);
    memory_free(scratch->draws);
    memory_free(scratch->spearman_draws);
}

enum status correlation_measure(const double *x, const double *y, int64_t n, uint64_t seed, struct correlation *out,
                                struct error *error)
{
    struct scratch scratch = {0};
    *out = (struct correlation){NAN, NAN, NAN, NAN, NAN, NAN};
    if (n < LEAST || !varies(x, n) || !varies(y, n)) return STATUS_OK;
    const enum status status = scratch_new(n, &scratch, error);
    if (status != STATUS_OK) goto done;
    out->pearson = pearson(x, y, n);
    out->spearman = spearman(x, y, n, &scratch);
    const int64_t kept = draw_all(x, y, n, seed, &scratch);
    if (kept > 0 && isfinite(out->pearson)) {
        bootstrap_interval(scratch.draws, kept, out->pearson, &out->low, &out->high);
        bootstrap_interval(scratch.spearman_draws, kept, out->spearman, &out->spearman_low, &out->spearman_high);
    }
done:
    scratch_free(&scratch);
    return status;
}
