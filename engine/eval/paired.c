#include "eval/paired.h"

#include "eval/proportion.h"

#include <math.h>

enum { EXACT_MOST = 61 }; /* flips whose subsets 64 bits can count */

/* The share of the subsets of n things that have at most `most` things. */
static double lower_tail(int64_t most, int64_t n)
{
    double sum = 0;
    if (n <= EXACT_MOST) {
        uint64_t subsets = 1, count = 0;
        for (int64_t k = 0; k <= most; k++) {
            count += subsets;
            /* n choose k + 1; the division comes first where it leaves nothing over, and the rest is small */
            const uint64_t left = (uint64_t)(n - k), next = (uint64_t)(k + 1);
            subsets = subsets / next * left + subsets % next * left / next;
        }
        return ldexp((double)count, -(int)n);
    }
    const double all = lgamma((double)n + 1) - (double)n * log(2);
    for (int64_t k = 0; k <= most; k++) sum += exp(all - lgamma((double)k + 1) - lgamma((double)(n - k) + 1));
    return sum;
}

double paired_mcnemar(int64_t up, int64_t down)
{
    const int64_t n = up + down, fewer = up < down ? up : down;
    if (n - 2 * fewer <= 1) return 1; /* no split is less uneven */
    return fmin(2 * lower_tail(fewer, n), 1);
}

void paired_change(int64_t up, int64_t down, int64_t n, double *low, double *high)
{
    double least, most, few, many;
    proportion_exact(up, up + down, &least, &most);
    proportion_wilson(up + down, n, &few, &many);
    *low = (2 * least - 1) * (least < 0.5 ? many : few);
    *high = (2 * most - 1) * (most > 0.5 ? many : few);
}
