#include "quant/hadamard.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

enum { PANEL = 8, ORDER_MAXIMUM = 256 }; /* vectors side by side; the largest Paley matrix */

static bool is_prime(int64_t n)
{
    for (int64_t d = 2; d * d <= n; d++)
        if (n % d == 0) return false;
    return n > 1;
}

static int64_t power_of_two_in(int64_t n)
{
    return n & -n;
}

/* The least order whose quotient is a power of two; 0: there is none. */
static int64_t find_order(int64_t size)
{
    if (power_of_two_in(size) == size) return 1;
    for (int64_t m = 12; m <= ORDER_MAXIMUM; m += 4)
        if (size % m == 0 && power_of_two_in(size / m) == size / m && is_prime(m - 1)) return m;
    return 0;
}

static void fill_paley(int8_t *paley, int64_t order)
{
    const int64_t q = order - 1;
    int8_t character[ORDER_MAXIMUM];
    memset(character, -1, sizeof character);
    for (int64_t i = 1; i < q; i++) character[i * i % q] = 1;
    character[0] = 0;
    for (int64_t i = 0; i < order; i++)
        for (int64_t j = 0; j < order; j++) {
            const int8_t s = i == 0 ? (j > 0) : j == 0 ? -1 : character[(j - i + q) % q];
            paley[i * order + j] = (int8_t)(s + (i == j));
        }
}

enum status hadamard_init(struct hadamard *hadamard, struct team *team, int64_t size, struct error *error)
{
    const int64_t order = find_order(size);
    enum status status;
    *hadamard = (struct hadamard){.size = size, .blocks = 1, .order = order};
    if (order == 0) {
        hadamard->order = 1;
        hadamard->blocks = size / power_of_two_in(size);
    }
    hadamard->power = size / hadamard->blocks / hadamard->order;
    if (hadamard->order > 1) {
        status = memory_new(order * order, sizeof(int8_t), "a Hadamard matrix", &hadamard->paley, error);
        if (status != STATUS_OK) return status;
        fill_paley(hadamard->paley, order);
    }
    return memory_new(team_size(team) * size * PANEL, sizeof(double), "a rotation", &hadamard->scratch, error);
}

void hadamard_reset(struct hadamard *hadamard)
{
    memory_free(hadamard->paley);
    memory_free(hadamard->scratch);
    *hadamard = (struct hadamard){0};
}

/* Butterflies within each run of `power` places of [count, PANEL]. */
static void sylvester(double *v, int64_t count, int64_t power)
{
    for (int64_t half = 1; half < power; half *= 2)
        for (int64_t i = 0; i < count; i += 2 * half)
            for (int64_t j = i; j < i + half; j++) {
                double *a = v + j * PANEL, *b = a + half * PANEL;
#pragma omp simd
                for (int p = 0; p < PANEL; p++) {
                    const double sum = a[p] + b[p];
                    b[p] = a[p] - b[p];
                    a[p] = sum;
                }
            }
}

/* y[j] = sum over i of v[i] P[i, j] (P[j, i] for the inverse), for the places i * power + offset. */
static void paley_product(const struct hadamard *hadamard, bool inverse, double *v, int64_t offset)
{
    const int64_t order = hadamard->order, stride = hadamard->power * PANEL;
    double y[ORDER_MAXIMUM * PANEL] = {0};
    for (int64_t i = 0; i < order; i++) {
        const double *from = v + i * stride + offset * PANEL;
        for (int64_t j = 0; j < order; j++) {
            const double entry = inverse ? hadamard->paley[j * order + i] : hadamard->paley[i * order + j];
#pragma omp simd
            for (int p = 0; p < PANEL; p++) y[j * PANEL + p] += entry * from[p];
        }
    }
    for (int64_t i = 0; i < order; i++) memcpy(v + i * stride + offset * PANEL, y + i * PANEL, PANEL * sizeof(double));
}

struct transform {
    const struct hadamard *hadamard;
    const float *sign;
    bool inverse;
    struct matrix x, to;
    int64_t along, across;       /* elements from a number of a vector to the next, from a vector to the next; of x … */
    int64_t to_along, to_across; /* … and of `to` */
    int64_t vectors;
};

static void transform_panel(void *context, int64_t panel, int thread)
{
    const struct transform *job = context;
    const struct hadamard *hadamard = job->hadamard;
    const int64_t size = hadamard->size, first = panel * PANEL, left = job->vectors - first;
    const int count = left < PANEL ? (int)left : PANEL;
    const double norm = 1 / sqrt((double)(hadamard->order * hadamard->power));
    double *v = hadamard->scratch + (int64_t)thread * size * PANEL;
    const float *x = (const float *)job->x.data + first * job->across;
    float *to = (float *)job->to.data + first * job->to_across;
    for (int64_t i = 0; i < size; i++) {
        const double sign = job->sign == NULL || job->inverse ? 1 : (double)job->sign[i];
        for (int p = 0; p < PANEL; p++) v[i * PANEL + p] = p < count ? sign * (double)x[i * job->along + p * job->across] : 0;
    }
    sylvester(v, size, hadamard->power);
    for (int64_t offset = 0; offset < hadamard->power && hadamard->order > 1; offset++)
        paley_product(hadamard, job->inverse, v, offset);
    for (int64_t i = 0; i < size; i++) {
        const double factor = job->sign == NULL || !job->inverse ? norm : norm * (double)job->sign[i];
        for (int p = 0; p < count; p++) to[i * job->to_along + p * job->to_across] = (float)(factor * v[i * PANEL + p]);
    }
}

static void transform_run(struct transform *job, struct team *team)
{
    team_run(team, (job->vectors + PANEL - 1) / PANEL, transform_panel, job);
}

void hadamard_rows(const struct hadamard *hadamard, struct team *team, const float *sign, bool inverse, struct matrix x,
                   struct matrix to)
{
    struct transform job = {hadamard, sign, inverse, x, to, 1, x.stride, 1, to.stride, x.rows};
    transform_run(&job, team);
}

void hadamard_columns(const struct hadamard *hadamard, struct team *team, const float *sign, bool inverse, struct matrix x)
{
    struct transform job = {hadamard, sign, inverse, x, x, x.stride, 1, x.stride, 1, x.columns};
    transform_run(&job, team);
}
