#include "eval/leverage.h"

#include <math.h>
#include <stdbool.h>

static double weight_at(const int64_t *numbers, bool starts, int64_t i)
{
    return (double)(starts ? numbers[i + 1] - numbers[i] - 1 : numbers[i]);
}

static struct leverage make(const int64_t *numbers, bool starts, int64_t count)
{
    const double n = (double)count;
    const double first = weight_at(numbers, starts, 0);
    bool equal = true;
    double total = 0, squares = 0;
    for (int64_t i = 0; i < count; i++) {
        const double weight = weight_at(numbers, starts, i);
        equal = equal && !(weight < first) && !(weight > first);
        total += weight;
        squares += weight * weight;
    }
    if (equal) return (struct leverage){.over = n, .under = n - 1, .degrees = n - 1};
    return (struct leverage){
        .over = n - 1, .under = n, .degrees = fmax(total * total / squares - 1, 1), .total = total};
}

struct leverage leverage_of(const int64_t *weights, int64_t count)
{
    return make(weights, false, count);
}

struct leverage leverage_of_starts(const int64_t *starts, int64_t count)
{
    return make(starts, true, count);
}

double leverage_residual(const struct leverage *leverage, double residual, int64_t weight)
{
    return leverage->total > 0 ? residual / (1 - (double)weight / leverage->total) : residual;
}

double leverage_degrees(const int64_t *weights, int64_t count)
{
    return count < 2 ? 0 : leverage_of(weights, count).degrees;
}
