#include "eval/bootstrap.h"

#include "base/memory.h"
#include "base/random.h"

#include <math.h>
#include <stdlib.h>

static int compare(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double quantile(const double *sorted, int64_t count, double share)
{
    const double place = share * (double)(count - 1);
    const int64_t below = (int64_t)place;
    const int64_t above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (place - (double)below) * (sorted[above] - sorted[below]);
}

void bootstrap_interval(double *draws, int64_t count, double value, double *low, double *high)
{
    qsort(draws, (size_t)count, sizeof *draws, compare);
    *low = fmin(quantile(draws, count, 0.025), value);
    *high = fmax(quantile(draws, count, 0.975), value);
}

enum status bootstrap_ratio(const double *a, const double *b, const int64_t *weights, int64_t count, double value,
                            uint64_t seed, double *low, double *high, struct error *error)
{
    double *draws = NULL;
    const enum status status = memory_new(BOOTSTRAP_DRAWS, sizeof *draws, "bootstrap", &draws, error);
    if (status != STATUS_OK) return status;
    *low = *high = NAN;
    if (!isfinite(value)) goto done;
    for (int64_t draw = 0; draw < BOOTSTRAP_DRAWS; draw++) {
        double sum_a = 0, sum_b = 0;
        for (int64_t i = 0; i < count; i++) {
            const uint64_t pick = random_below(seed, (uint64_t)draw, (uint64_t)i, (uint64_t)count);
            sum_a += (double)weights[pick] * a[pick];
            sum_b += (double)weights[pick] * b[pick];
        }
        draws[draw] = sum_b / sum_a - 1;
        if (!isfinite(draws[draw])) goto done;
    }
    bootstrap_interval(draws, BOOTSTRAP_DRAWS, value, low, high);
done:
    memory_free(draws);
    return STATUS_OK;
}

void bootstrap_means(const double *values, int64_t count, int columns, uint64_t seed, uint32_t stream, double *draws)
{
    for (int64_t draw = 0; draw < BOOTSTRAP_DRAWS; draw++) {
        for (int c = 0; c < columns; c++) draws[c * BOOTSTRAP_DRAWS + draw] = 0;
        for (int64_t i = 0; i < count; i++) {
            const uint64_t index = (uint64_t)stream << 40 | (uint64_t)i;
            const double *row = values + (int64_t)random_below(seed, (uint64_t)draw, index, (uint64_t)count) * columns;
            for (int c = 0; c < columns; c++) draws[c * BOOTSTRAP_DRAWS + draw] += row[c];
        }
        for (int c = 0; c < columns; c++) draws[c * BOOTSTRAP_DRAWS + draw] /= (double)count;
    }
}
