#include "eval/difference.h"

#include "base/memory.h"
#include "base/random.h"
#include "eval/bootstrap.h"
#include "eval/leverage.h"
#include "eval/paired.h"
#include "eval/student.h"

#include <math.h>

struct sums {
    double over, under;
};

static double under_of(const struct difference_side *side, int64_t i)
{
    return side->under != NULL ? side->under[i] : 1;
}

static void sums_add(struct sums *sums, const struct difference_side *side, const int64_t *weights, int64_t i)
{
    sums->over += (double)weights[i] * side->over[i];
    sums->under += (double)weights[i] * under_of(side, i);
}

static struct sums sums_of(const struct difference_side *side, const int64_t *weights, int64_t count)
{
    struct sums sums = {0, 0};
    for (int64_t i = 0; i < count; i++) sums_add(&sums, side, weights, i);
    return sums;
}

static double residual(const struct difference_side *side, const struct sums *sums, int64_t weight, int64_t i)
{
    return (double)weight * (side->over[i] - sums->over / sums->under * under_of(side, i)) / sums->under;
}

static double standard_error(const struct difference_pair *pair, const struct sums *a, const struct sums *b,
                             const struct leverage *leverage, const int64_t *weights, int64_t count)
{
    double squares = 0;
    for (int64_t i = 0; i < count; i++) {
        const double both = residual(&pair->b, b, weights[i], i) - residual(&pair->a, a, weights[i], i);
        const double e = leverage_residual(leverage, both, weights[i]);
        squares += e * e;
    }
    return count > 1 ? sqrt(leverage->over / leverage->under * squares) : NAN;
}

static struct ratio_interval student(const struct difference *found, double degrees)
{
    const double half = student_quantile(degrees) * found->standard_error;
    if (!isfinite(found->value) || !isfinite(half)) return (struct ratio_interval){NAN, NAN, RATIO_NONE};
    return (struct ratio_interval){found->value - half, found->value + half, RATIO_STUDENT};
}

/* A sequence's own numbers over / under, compared without dividing. */
static void count_sides(const struct difference_pair *pair, int64_t count, struct difference *out)
{
    for (int64_t i = 0; i < count; i++) {
        const double a = pair->a.over[i] * under_of(&pair->b, i), b = pair->b.over[i] * under_of(&pair->a, i);
        out->greater += b > a;
        out->smaller += b < a;
    }
    out->sign_p = paired_mcnemar(out->greater, out->smaller);
}

/* draws[pair * BOOTSTRAP_DRAWS + draw]: the difference in each sample; all pairs see the same samples. */
static void resample(const struct difference_pair *pairs, int pair_count, const int64_t *weights, int64_t count,
                     uint64_t seed, double *draws)
{
    for (int64_t draw = 0; draw < BOOTSTRAP_DRAWS; draw++) {
        struct sums a[DIFFERENCE_PAIRS_MOST] = {{0, 0}}, b[DIFFERENCE_PAIRS_MOST] = {{0, 0}};
        for (int64_t i = 0; i < count; i++) {
            const int64_t pick = (int64_t)random_below(seed, (uint64_t)draw, (uint64_t)i, (uint64_t)count);
            for (int p = 0; p < pair_count; p++) {
                sums_add(&a[p], &pairs[p].a, weights, pick);
                sums_add(&b[p], &pairs[p].b, weights, pick);
            }
        }
        for (int p = 0; p < pair_count; p++)
            draws[p * BOOTSTRAP_DRAWS + draw] = b[p].over / b[p].under - a[p].over / a[p].under;
    }
}

static struct ratio_interval percentiles(double *draws, double value)
{
    struct ratio_interval found = {NAN, NAN, RATIO_NONE};
    bool finite = isfinite(value);
    for (int64_t draw = 0; draw < BOOTSTRAP_DRAWS && finite; draw++) finite = isfinite(draws[draw]);
    if (!finite) return found;
    bootstrap_interval(draws, BOOTSTRAP_DRAWS, value, &found.low, &found.high);
    found.method = RATIO_BOOTSTRAP;
    return found;
}

bool difference_resampled(double degrees, int64_t count)
{
    return ratio_resampled(degrees) && count <= DIFFERENCE_BOOTSTRAP_MOST;
}

enum status difference_measure(const struct difference_pair *pairs, int pair_count, const int64_t *weights,
                               int64_t count, uint64_t seed, struct difference *out, struct error *error)
{
    const struct leverage leverage = leverage_of(weights, count);
    const bool drawn = difference_resampled(leverage.degrees, count);
    double *draws = NULL;
    if (drawn) {
        const enum status status =
            memory_new((int64_t)pair_count * BOOTSTRAP_DRAWS, sizeof *draws, "bootstrap", &draws, error);
        if (status != STATUS_OK) return status;
        resample(pairs, pair_count, weights, count, seed, draws);
    }
    for (int p = 0; p < pair_count; p++) {
        const struct difference_pair *pair = &pairs[p];
        const struct sums a = sums_of(&pair->a, weights, count), b = sums_of(&pair->b, weights, count);
        out[p] = (struct difference){.a = a.over / a.under, .b = b.over / b.under};
        out[p].value = out[p].b - out[p].a;
        out[p].standard_error = standard_error(pair, &a, &b, &leverage, weights, count);
        out[p].interval = drawn ? percentiles(draws + (int64_t)p * BOOTSTRAP_DRAWS, out[p].value)
                                : student(&out[p], leverage.degrees);
        count_sides(pair, count, &out[p]);
    }
    memory_free(draws);
    return STATUS_OK;
}
