#include "eval/paired.h"

#include <math.h>

double paired_mcnemar(int64_t up, int64_t down)
{
    const int64_t n = up + down, fewer = up < down ? up : down;
    const double all = lgamma((double)n + 1) - (double)n * log(2);
    double tail = 0;
    for (int64_t k = 0; k <= fewer; k++) tail += exp(all - lgamma((double)k + 1) - lgamma((double)(n - k) + 1));
    return 2 * tail < 1 ? 2 * tail : 1;
}
