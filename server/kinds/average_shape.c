#include "kinds/average_shape.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>

static double linear(double x)
{
    return 1 - x;
}

static double cosine(double x)
{
    return 0.5 * (1 + cos(acos(-1) * x));
}

static double one_less_root(double x)
{
    return 1 - sqrt(x);
}

/* What is left of the rate; NULL: there is no decay. */
static double (*const left[])(double x) = {
    [AVERAGE_UNIFORM] = NULL,
    [AVERAGE_LINEAR] = linear,
    [AVERAGE_COSINE] = cosine,
    [AVERAGE_SQRT] = one_less_root,
};
const char *const average_shapes[] = {"uniform", "linear", "cosine", "sqrt", NULL};
static_assert(sizeof left / sizeof left[0] + 1 == sizeof average_shapes / sizeof average_shapes[0], "a name each");

void average_shape_weights(enum average_shape shape, int64_t count, double *weights)
{
    for (int64_t k = 0; k < count; k++) {
        if (left[shape] == NULL) {
            weights[k] = 1;
            continue;
        }
        const double after = k + 1 < count ? left[shape]((double)(k + 1) / (double)count) : 0;
        weights[k] = left[shape]((double)k / (double)count) - after;
    }
}
