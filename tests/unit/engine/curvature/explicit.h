/* explicit.h: symmetric operators whose spectrum is known: A = U diag(values) Uᵀ, U a product of Householder
 * reflections, over a buffer with a gap in it. */
#ifndef EXPLICIT_H
#define EXPLICIT_H

#include "base/random.h"
#include "curvature/operator.h"
#include "curvature/saver.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { EXPLICIT_MOST = 200, EXPLICIT_GAP = 7, REFLECTIONS = 3 };

struct explicit
{
    struct symmetric_operator op;
    struct vector_span spans[2];
    int64_t n, products;
    double values[EXPLICIT_MOST], normals[REFLECTIONS][EXPLICIT_MOST];
    int64_t fail_at; /* product that is refused with STATUS_CANCELLED; -1: none */
};

static inline void explicit_reflect(const struct explicit *e, double *x, bool backwards)
{
    for (int r = 0; r < REFLECTIONS; r++) {
        const double *u = e->normals[backwards ? REFLECTIONS - 1 - r : r];
        double along = 0;
        for (int64_t i = 0; i < e->n; i++) along += u[i] * x[i];
        for (int64_t i = 0; i < e->n; i++) x[i] -= 2 * along * u[i];
    }
}

/* Numbers of a vector without the gap. */
static inline void explicit_take(const struct explicit *e, struct matrix v, double *out)
{
    double all[EXPLICIT_MOST + EXPLICIT_GAP];
    e->op.space.backend->ops->download(e->op.space.backend, vector_part(v, 0, e->n + EXPLICIT_GAP), all, DTYPE_F64);
    memcpy(out, all, (size_t)e->spans[0].count * sizeof *out);
    memcpy(out + e->spans[0].count, all + e->spans[1].first, (size_t)e->spans[1].count * sizeof *out);
}

static inline enum status explicit_apply(void *owner, struct matrix v, struct matrix out, struct error *error)
{
    struct explicit *e = owner;
    double x[EXPLICIT_MOST], all[EXPLICIT_MOST + EXPLICIT_GAP] = {0};
    if (e->products == e->fail_at) return error_set(error, STATUS_CANCELLED, "stopped");
    e->products++;
    explicit_take(e, v, x);
    explicit_reflect(e, x, false);
    for (int64_t i = 0; i < e->n; i++) x[i] *= e->values[i];
    explicit_reflect(e, x, true);
    memcpy(all, x, (size_t)e->spans[0].count * sizeof *x);
    memcpy(all + e->spans[1].first, x + e->spans[0].count, (size_t)e->spans[1].count * sizeof *x);
    e->op.space.backend->ops->upload(e->op.space.backend, vector_part(out, 0, e->n + EXPLICIT_GAP), all, DTYPE_F64);
    return STATUS_OK;
}

static inline void explicit_open(struct explicit *e, const double *values, int64_t n, bool use_double)
{
    struct error error;
    struct backend *backend = NULL;
    assert_int_equal(backend_reference_new(use_double, NULL, &backend, &error), STATUS_OK);
    *e = (struct explicit){.n = n, .fail_at = -1};
    memcpy(e->values, values, (size_t)n * sizeof *values);
    e->spans[0] = (struct vector_span){0, n / 3};
    e->spans[1] = (struct vector_span){n / 3 + EXPLICIT_GAP, n - n / 3};
    e->op = (struct symmetric_operator){{backend, n + EXPLICIT_GAP, n, 2, e->spans}, e, explicit_apply};
    for (int r = 0; r < REFLECTIONS; r++) {
        double norm = 0;
        for (int64_t i = 0; i < n; i++) {
            e->normals[r][i] = random_normal(11, (uint64_t)r, (uint64_t)i);
            norm = hypot(norm, e->normals[r][i]);
        }
        for (int64_t i = 0; i < n; i++) e->normals[r][i] /= norm;
    }
}

static inline void explicit_close(struct explicit *e)
{
    backend_free(e->op.space.backend);
}

/* A saver in memory: what was shown last, and stops after `stop` steps. */
struct memory_saver {
    struct saver saver;
    int64_t stop, steps; /* stop -1: never */
    double *numbers;
    int64_t number_count, vector_count, vector_bytes;
    char *vectors;
};

static inline enum status memory_saver_restore(void *owner, struct saver_state *state, bool *found, struct error *error)
{
    struct memory_saver *k = owner;
    *found = k->numbers != NULL;
    if (!*found) return STATUS_OK;
    assert_int_equal(k->number_count, state->number_count);
    memcpy(state->numbers, k->numbers, (size_t)k->number_count * sizeof *k->numbers);
    for (int64_t i = 0; i < k->vector_count; i++) {
        assert_int_equal(basis_append(state->basis, error), STATUS_OK);
        memcpy(state->basis->vectors[i].data, k->vectors + i * k->vector_bytes, (size_t)k->vector_bytes);
    }
    return STATUS_OK;
}

static inline enum status memory_saver_step(void *owner, const struct saver_state *state, int64_t remaining,
                                            struct error *error)
{
    struct memory_saver *k = owner;
    assert_true(remaining >= 0);
    k->number_count = state->number_count;
    k->numbers = realloc(k->numbers, (size_t)k->number_count * sizeof *k->numbers);
    memcpy(k->numbers, state->numbers, (size_t)k->number_count * sizeof *k->numbers);
    k->vector_count = state->basis->count;
    k->vector_bytes = vector_bytes(state->basis->space);
    k->vectors = realloc(k->vectors, (size_t)(k->vector_count * k->vector_bytes) + 1);
    for (int64_t i = 0; i < k->vector_count; i++)
        memcpy(k->vectors + i * k->vector_bytes, state->basis->vectors[i].data, (size_t)k->vector_bytes);
    if (++k->steps == k->stop) return error_set(error, STATUS_CANCELLED, "stopped");
    return STATUS_OK;
}

static inline void memory_saver_init(struct memory_saver *k, int64_t stop)
{
    *k = (struct memory_saver){.saver = {k, memory_saver_restore, memory_saver_step}, .stop = stop};
}

static inline void memory_saver_reset(struct memory_saver *k)
{
    free(k->numbers);
    free(k->vectors);
}

#endif
