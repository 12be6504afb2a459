#include "curvature/lanczos.h"

#include "base/eigen.h"
#include "base/memory.h"
#include "curvature/krylov.h"

#include <math.h>
#include <string.h>

struct lanczos {
    const struct lanczos_settings *settings;
    struct krylov krylov;
    double *values, *last; /* [size] of the projected matrix; last components of its eigenvectors */
};

static int64_t expanded(const struct lanczos *lanczos)
{
    return (int64_t)lanczos->krylov.numbers[KRYLOV_EXPANDED];
}

/* Index of the value of largest magnitude: one of the ends. */
static int64_t top_index(const struct lanczos *lanczos)
{
    const int64_t n = expanded(lanczos);
    return fabs(lanczos->values[0]) > fabs(lanczos->values[n - 1]) ? 0 : n - 1;
}

static bool converged(const struct lanczos *lanczos)
{
    const int64_t n = expanded(lanczos);
    const double beside = lanczos->krylov.numbers[KRYLOV_BESIDE];
    const double bound = lanczos->settings->tolerance * fabs(lanczos->values[top_index(lanczos)]);
    return beside * fabs(lanczos->last[0]) <= bound && beside * fabs(lanczos->last[n - 1]) <= bound;
}

/* All eigenvectors of the projected matrix: the caller owns *out [n, n], a row each. */
static enum status ritz_vectors(const struct lanczos *lanczos, double **out, struct error *error)
{
    const int64_t n = expanded(lanczos), size = lanczos->krylov.size;
    const double *t = krylov_projected(&lanczos->krylov);
    enum status status = memory_new(n * n, sizeof **out, "projected matrix", out, error);
    if (status != STATUS_OK) return status;
    for (int64_t i = 0; i < n; i++) memcpy(*out + i * n, t + i * size, (size_t)n * sizeof **out);
    return eigen_symmetric(n, *out, lanczos->values, error);
}

/* Keeps half of the vectors, from both ends of the spectrum, and the next one; the projected matrix becomes an
 * arrow. */
static enum status restart(struct lanczos *lanczos, struct error *error)
{
    struct krylov *krylov = &lanczos->krylov;
    const int64_t n = expanded(lanczos), keep = n / 2, low = keep / 2, size = krylov->size;
    const double beside = krylov->numbers[KRYLOV_BESIDE];
    double *rows = NULL, *t = krylov_projected(krylov);
    enum status status;
    if ((status = ritz_vectors(lanczos, &rows, error)) != STATUS_OK) goto done;
    memmove(rows + low * n, rows + (n - (keep - low)) * n, (size_t)((keep - low) * n) * sizeof *rows);
    if ((status = basis_rotate(&krylov->basis, n, keep, rows, error)) != STATUS_OK) goto done;
    memset(t, 0, (size_t)(size * size) * sizeof *t);
    for (int64_t i = 0; i < keep; i++) {
        t[i * size + i] = lanczos->values[i < low ? i : n - keep + i];
        t[i * size + keep] = t[keep * size + i] = beside * rows[i * n + n - 1];
    }
    const struct matrix next = krylov->basis.vectors[n];
    krylov->basis.vectors[n] = krylov->basis.vectors[keep];
    krylov->basis.vectors[keep] = next;
    krylov->basis.count = keep + 1;
    krylov->numbers[KRYLOV_EXPANDED] = krylov->numbers[KRYLOV_LOCKED] = (double)keep;
done:
    memory_free(rows);
    return status;
}

static enum status begin(struct lanczos *lanczos, const struct saver *saver, struct error *error)
{
    struct krylov *krylov = &lanczos->krylov;
    struct saver_state state = krylov_state(krylov);
    bool found;
    const enum status status = saver_restore(saver, &state, &found, error);
    if (status != STATUS_OK || found) return status;
    vector_normal(&krylov->op->space, lanczos->settings->seed, lanczos->settings->stream, krylov->work);
    return krylov_begin(krylov, error);
}

static enum status iterate(struct lanczos *lanczos, const struct saver *saver, struct spectrum_ends *out,
                           struct error *error)
{
    struct krylov *krylov = &lanczos->krylov;
    const int64_t most = lanczos->settings->most_products;
    enum status status;
    for (;;) {
        const int64_t products = (int64_t)krylov->numbers[KRYLOV_PRODUCTS];
        const bool exhausted = krylov->numbers[KRYLOV_BESIDE] == 0;
        if (products > 0 && expanded(lanczos) > (int64_t)krylov->numbers[KRYLOV_LOCKED]) {
            if ((status = krylov_ritz(krylov, lanczos->values, NULL, lanczos->last, error)) != STATUS_OK) return status;
            out->converged = converged(lanczos);
        }
        out->products = products;
        if (out->converged || exhausted || products >= most) return STATUS_OK;
        if (expanded(lanczos) == krylov->size && (status = restart(lanczos, error)) != STATUS_OK) return status;
        if ((status = krylov_expand(krylov, error)) != STATUS_OK) return status;
        const struct saver_state state = krylov_state(krylov);
        if ((status = saver_step(saver, &state, most - products, error)) != STATUS_OK) return status;
    }
}

/* The residual of the top value by one more product, and the vector of the largest one. */
static enum status finish(struct lanczos *lanczos, struct matrix vector, struct spectrum_ends *out, struct error *error)
{
    struct krylov *krylov = &lanczos->krylov;
    const struct vector_space *space = &krylov->op->space;
    struct backend *backend = space->backend;
    const double beside = krylov->numbers[KRYLOV_BESIDE];
    const int64_t n = expanded(lanczos);
    struct matrix own = {0}, top_vector = vector;
    double *rows = NULL;
    enum status status;
    if ((status = ritz_vectors(lanczos, &rows, error)) != STATUS_OK) goto done;
    const int64_t top = top_index(lanczos);
    *out = (struct spectrum_ends){.top = lanczos->values[top],
                                  .largest = lanczos->values[n - 1],
                                  .smallest = lanczos->values[0],
                                  .products = out->products,
                                  .converged = out->converged};
    if (vector.data == NULL || top != n - 1) {
        if ((status = vector_new(space, "an eigenvector", &own, error)) != STATUS_OK) goto done;
        top_vector = own;
    }
    basis_combine(&krylov->basis, n, rows + top * n, top_vector);
    vector_normalise(space, top_vector);
    if ((status = operator_apply(krylov->op, top_vector, krylov->work, error)) != STATUS_OK) goto done;
    backend->ops->add(backend, krylov->work, top_vector, -out->top, 1);
    const double residual = sqrt(backend->ops->dot(backend, krylov->work, krylov->work));
    out->residual = out->top == 0 ? residual : residual / fabs(out->top);
    out->largest_bound = top == n - 1 ? residual : beside * fabs(lanczos->last[n - 1]);
    out->smallest_bound = top == 0 ? residual : beside * fabs(lanczos->last[0]);
    if (vector.data != NULL && vector.data != top_vector.data) {
        basis_combine(&krylov->basis, n, rows + (n - 1) * n, vector);
        vector_normalise(space, vector);
    }
done:
    matrix_release(backend, &own);
    memory_free(rows);
    return status;
}

enum status lanczos_run(const struct symmetric_operator *op, const struct lanczos_settings *settings,
                        const struct saver *saver, struct matrix vector, struct spectrum_ends *out, struct error *error)
{
    struct lanczos lanczos = {.settings = settings};
    int64_t size = settings->most_products;
    enum status status;
    *out = (struct spectrum_ends){0};
    if (settings->most_vectors > 0 && settings->most_vectors < size) size = settings->most_vectors;
    if (size > op->space.numbers) size = op->space.numbers;
    if ((status = krylov_init(&lanczos.krylov, op, size, 0, error)) != STATUS_OK) goto done;
    if ((status = memory_new(2 * size, sizeof(double), "Ritz values", &lanczos.values, error)) != STATUS_OK) goto done;
    lanczos.last = lanczos.values + size;
    if ((status = begin(&lanczos, saver, error)) != STATUS_OK) goto done;
    if ((status = iterate(&lanczos, saver, out, error)) != STATUS_OK) goto done;
    status = finish(&lanczos, vector, out, error);
done:
    krylov_reset(&lanczos.krylov);
    memory_free(lanczos.values);
    return status;
}
