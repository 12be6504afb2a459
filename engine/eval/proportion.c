#include "eval/proportion.h"

#include <math.h>

enum { HALVINGS = 60 };
static const double normal_quantile = 1.959963984540054; /* 0.975 of a standard normal variable */
static const double tail = 0.025;

void proportion_wilson(int64_t k, int64_t n, double *low, double *high)
{
    const double z = normal_quantile, count = (double)n, hits = (double)k;
    *low = 0;
    *high = 1;
    if (n == 0) return;
    const double centre = (hits + z * z / 2) / (count + z * z);
    const double reach = z * sqrt(hits * (count - hits) / count + z * z / 4) / (count + z * z);
    if (k > 0) *low = centre - reach;
    if (k < n) *high = centre + reach;
}

/* P(X = k) of n trials of probability p in (0, 1). */
static double probability(int64_t k, int64_t n, double p)
{
    return exp(lgamma((double)n + 1) - lgamma((double)k + 1) - lgamma((double)(n - k) + 1) + (double)k * log(p) +
               (double)(n - k) * log1p(-p));
}

/* P(X >= k), k in [1, n], summed from its largest term outwards if it can be small. A tail that contains the mean has
 * at least half of the probability; callers compare with about a fortieth, so 1 is returned for it. */
static double at_least(int64_t k, int64_t n, double p)
{
    const double odds = p / (1 - p);
    double sum = 0;
    if ((double)k <= (double)n * p) return 1;
    double term = probability(k, n, p);
    for (int64_t i = k; i <= n && term > 0; i++) {
        sum += term;
        term *= odds * (double)(n - i) / (double)(i + 1);
    }
    return sum;
}

static double exact_low(int64_t k, int64_t n)
{
    double low = 0, high = 1;
    if (k == 0) return 0;
    for (int i = 0; i < HALVINGS; i++) {
        const double middle = (low + high) / 2;
        if (at_least(k, n, middle) < tail)
            low = middle;
        else
            high = middle;
    }
    return low;
}

void proportion_exact(int64_t k, int64_t n, double *low, double *high)
{
    *low = n == 0 ? 0 : exact_low(k, n);
    *high = n == 0 ? 1 : 1 - exact_low(n - k, n);
}
