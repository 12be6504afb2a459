/* oracle.h: min-max grids and GPTQ written a second time, in double and in the form of the original derivation: the
 * inverse of the remaining Hessian is kept whole and one row and column are eliminated for each quantized column
 * (Frantar et al., "Optimal Brain Compression", arXiv 2208.11580, equations 2 to 4), where deltaq factorises once.
 * Slow, short, and shares no code with the engine. */
#ifndef ORACLE_H
#define ORACLE_H

#include "base/random.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ORACLE_MAXIMUM = 400 }; /* columns */

struct oracle_case {
    int64_t rows, columns, tokens, group_size;
    int bits;
    bool sym, desc_act, act_group_aware;
    double damp;
};

struct oracle {
    float *weight, *input; /* [rows, columns], [tokens, columns] */
    double *hessian;       /* [columns, columns] undamped */
    double *quantized;     /* [rows, columns] */
    double *scales;        /* [rows, groups] */
    uint8_t *codes, *zeros;
    int32_t *g_idx;
};

static inline void oracle_free(struct oracle *o)
{
    free(o->weight);
    free(o->input);
    free(o->hessian);
    free(o->quantized);
    free(o->scales);
    free(o->codes);
    free(o->zeros);
    free(o->g_idx);
}

static inline int64_t oracle_groups(const struct oracle_case *c)
{
    return c->group_size == -1 ? 1 : (c->columns + c->group_size - 1) / c->group_size;
}

/* Correlated inputs of very different sizes with two dead columns, weights that follow no grid. */
static inline struct oracle oracle_make(const struct oracle_case *c, uint64_t seed)
{
    struct oracle o = {0};
    const int64_t n = c->columns;
    o.weight = calloc((size_t)(c->rows * n), sizeof(float));
    o.input = calloc((size_t)(c->tokens * n), sizeof(float));
    o.hessian = calloc((size_t)(n * n), sizeof(double));
    o.quantized = calloc((size_t)(c->rows * n), sizeof(double));
    o.scales = calloc((size_t)(c->rows * oracle_groups(c)), sizeof(double));
    o.codes = calloc((size_t)(c->rows * n), 1);
    o.zeros = calloc((size_t)(c->rows * oracle_groups(c)), 1);
    o.g_idx = calloc((size_t)n, sizeof(int32_t));
    for (int64_t i = 0; i < c->rows * n; i++) o.weight[i] = (float)(0.05 * random_normal(seed, 1, (uint64_t)i));
    for (int64_t t = 0; t < c->tokens; t++) {
        const double shared = random_normal(seed, 2, (uint64_t)t);
        for (int64_t j = 0; j < n; j++) {
            const double size = exp(random_normal(seed, 3, (uint64_t)j));
            const double x = size * (0.5 * shared + random_normal(seed, 4, (uint64_t)(t * n + j)));
            o.input[t * n + j] = n > 8 && (j == 3 || j == n - 2) ? 0 : (float)x;
        }
    }
    for (int64_t t = 0; t < c->tokens; t++)
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++)
                o.hessian[i * n + j] += 2.0 / (double)c->tokens * o.input[t * n + i] * o.input[t * n + j];
    return o;
}

static inline void oracle_grid(const struct oracle_case *c, const double *w, const int32_t *members, int64_t count,
                               double *scale, double *zero)
{
    double lo = 0, hi = 0;
    const double top = (1 << c->bits) - 1;
    for (int64_t i = 0; i < count; i++) {
        lo = fmin(lo, w[members[i]]);
        hi = fmax(hi, w[members[i]]);
    }
    if (c->sym) {
        hi = fmax(hi, -lo);
        if (lo < 0) lo = -hi;
    }
    if (lo == 0 && hi == 0) {
        lo = -1;
        hi = 1;
    }
    *scale = (hi - lo) / top;
    *zero = c->sym ? pow(2, c->bits - 1) : rint(-lo / *scale);
}

static inline void oracle_order(const struct oracle_case *c, const double *diagonal, int32_t *order, int32_t *run_group)
{
    const int64_t n = c->columns, g = c->group_size == -1 ? n : c->group_size, full = n / g;
    double key[ORACLE_MAXIMUM];
    for (int64_t j = 0; j < n; j++) order[j] = (int32_t)j;
    for (int64_t r = 0; r < oracle_groups(c); r++) run_group[r] = (int32_t)r;
    if (!c->desc_act && !c->act_group_aware) return;
    /* insertion sort by one key: everything; or (largest of the group, group, diagonal) for the group-aware order */
    int32_t rank[ORACLE_MAXIMUM] = {0};
    if (!c->desc_act)
        for (int64_t a = 0; a < full; a++) {
            key[a] = 0;
            for (int64_t j = a * g; j < a * g + g; j++) key[a] = fmax(key[a], diagonal[j]);
        }
    for (int64_t a = 0; !c->desc_act && a < full; a++)
        for (int64_t b = 0; b < full; b++) rank[a] += key[b] > key[a] || (key[b] == key[a] && b < a);
    for (int64_t a = 0; !c->desc_act && a < full; a++) run_group[rank[a]] = (int32_t)a;
    const int64_t sorted = c->desc_act ? n : full * g;
    for (int64_t i = 1; i < sorted; i++)
        for (int64_t k = i; k > 0; k--) {
            const int32_t a = order[k - 1], b = order[k];
            const int32_t ra = c->desc_act ? 0 : rank[a / g], rb = c->desc_act ? 0 : rank[b / g];
            if (ra < rb || (ra == rb && diagonal[a] >= diagonal[b])) break;
            order[k - 1] = b;
            order[k] = a;
        }
}

/* Gauss-Jordan; the matrix is positive definite. */
static inline void oracle_invert(double *a, double *inverse, int64_t n)
{
    for (int64_t i = 0; i < n * n; i++) inverse[i] = i % (n + 1) == 0;
    for (int64_t p = 0; p < n; p++) {
        const double pivot = a[p * n + p];
        for (int64_t j = 0; j < n; j++) {
            a[p * n + j] /= pivot;
            inverse[p * n + j] /= pivot;
        }
        for (int64_t i = 0; i < n; i++) {
            const double factor = a[i * n + p];
            if (i == p || factor == 0) continue;
            for (int64_t j = 0; j < n; j++) {
                a[i * n + j] -= factor * a[p * n + j];
                inverse[i * n + j] -= factor * inverse[p * n + j];
            }
        }
    }
}

static inline void oracle_gptq(const struct oracle_case *c, struct oracle *o)
{
    const int64_t n = c->columns, g = c->group_size == -1 ? n : c->group_size, groups = oracle_groups(c);
    double diagonal[ORACLE_MAXIMUM], mean = 0;
    int32_t order[ORACLE_MAXIMUM], run_group[ORACLE_MAXIMUM];
    bool dead[ORACLE_MAXIMUM];
    double *damped = calloc((size_t)(n * n), sizeof(double)), *inverse = calloc((size_t)(n * n), sizeof(double));
    double *work = calloc((size_t)(c->rows * n), sizeof(double)), *seen = calloc((size_t)(c->rows * n), sizeof(double));
    for (int64_t j = 0; j < n; j++) {
        dead[j] = o->hessian[j * n + j] == 0;
        diagonal[j] = dead[j] ? 1 : o->hessian[j * n + j];
        mean += diagonal[j] / (double)n;
    }
    oracle_order(c, diagonal, order, run_group);
    memcpy(damped, o->hessian, (size_t)(n * n) * sizeof(double));
    for (int64_t j = 0; j < n; j++) damped[j * n + j] = diagonal[j] + c->damp * mean;
    oracle_invert(damped, inverse, n);
    for (int64_t i = 0; i < c->rows * n; i++) work[i] = dead[i % n] ? 0 : (double)o->weight[i];
    for (int64_t j = 0; j < n; j++) o->g_idx[order[j]] = run_group[j / g];
    double *row_scale = calloc((size_t)(c->rows * groups), sizeof(double)),
           *row_zero = calloc((size_t)(c->rows * groups), sizeof(double));
    for (int64_t p = 0; p < n; p++) {
        const int32_t j = order[p];
        if (p % 128 == 0) memcpy(seen, work, (size_t)(c->rows * n) * sizeof(double));
        for (int64_t r = 0; r < c->rows; r++) {
            double *scale = &row_scale[r * groups + o->g_idx[j]], *zero = &row_zero[r * groups + o->g_idx[j]];
            if (c->group_size == -1 && p == 0) {
                double row[ORACLE_MAXIMUM];
                for (int64_t k = 0; k < n; k++) row[k] = (double)o->weight[r * n + k];
                oracle_grid(c, row, order, n, scale, zero);
            } else if (c->group_size != -1 && p % g == 0) {
                oracle_grid(c, seen + r * n, order + p, p + g < n ? g : n - p, scale, zero);
            }
            const double top = (1 << c->bits) - 1;
            const double code = fmin(fmax(rint(work[r * n + j] / *scale) + *zero, 0), top);
            const double error = (work[r * n + j] - (code - *zero) * *scale) / inverse[j * n + j];
            o->codes[r * n + j] = (uint8_t)code;
            o->quantized[r * n + j] = (code - *zero) * *scale;
            for (int64_t q = p + 1; q < n; q++) work[r * n + order[q]] -= error * inverse[j * n + order[q]];
        }
        for (int64_t a = p + 1; a < n; a++)
            for (int64_t b = p + 1; b < n; b++)
                inverse[order[a] * n + order[b]] -=
                    inverse[order[a] * n + j] * inverse[j * n + order[b]] / inverse[j * n + j];
    }
    for (int64_t i = 0; i < c->rows * groups; i++) {
        o->scales[i] = row_scale[i];
        o->zeros[i] = (uint8_t)row_zero[i];
    }
    free(row_scale);
    free(row_zero);
    free(damped);
    free(inverse);
    free(work);
    free(seen);
}

/* tr(D H Dᵀ) with D = weight - other. */
static inline double oracle_proxy(const struct oracle_case *c, const struct oracle *o, const double *other)
{
    const int64_t n = c->columns;
    double sum = 0;
    for (int64_t r = 0; r < c->rows; r++)
        for (int64_t i = 0; i < n; i++) {
            double product = 0;
            for (int64_t j = 0; j < n; j++)
                product += o->hessian[i * n + j] * ((double)o->weight[r * n + j] - other[r * n + j]);
            sum += product * ((double)o->weight[r * n + i] - other[r * n + i]);
        }
    return sum;
}

#endif
