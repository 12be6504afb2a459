#include "curvature/krylov.h"

#include "base/eigen.h"
#include "base/memory.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum status krylov_init(struct krylov *krylov, const struct symmetric_operator *op, int64_t size, int64_t extra,
                        struct error *error)
{
    enum status status;
    *krylov = (struct krylov){.op = op, .size = size, .number_count = KRYLOV_OWN + extra + size * size};
    if ((status = memory_new(krylov->number_count, sizeof(double), "projected matrix", &krylov->numbers, error)) !=
        STATUS_OK)
        goto done;
    if ((status = basis_init(&krylov->basis, &op->space, size + 1, error)) != STATUS_OK) goto done;
    status = vector_new(&op->space, "a product", &krylov->work, error);
done:
    if (status != STATUS_OK) krylov_reset(krylov);
    return status;
}

void krylov_reset(struct krylov *krylov)
{
    if (krylov->op != NULL) matrix_release(krylov->op->space.backend, &krylov->work);
    if (krylov->basis.space != NULL) basis_reset(&krylov->basis);
    memory_free(krylov->numbers);
    *krylov = (struct krylov){0};
}

double *krylov_projected(const struct krylov *krylov)
{
    return krylov->numbers + krylov->number_count - krylov->size * krylov->size;
}

struct saver_state krylov_state(struct krylov *krylov)
{
    return (struct saver_state){krylov->numbers, krylov->number_count, &krylov->basis};
}

/* Makes `work` the next vector of the basis. */
static enum status work_append(struct krylov *krylov, struct error *error)
{
    struct backend *backend = krylov->op->space.backend;
    const enum status status = basis_append(&krylov->basis, error);
    if (status != STATUS_OK) return status;
    vector_normalise(&krylov->op->space, krylov->work);
    backend->ops->add(backend, krylov->basis.vectors[krylov->basis.count - 1], krylov->work, 1, 0);
    return STATUS_OK;
}

enum status krylov_begin(struct krylov *krylov, struct error *error)
{
    krylov->numbers[KRYLOV_EXPANDED] = krylov->numbers[KRYLOV_LOCKED] = 0;
    krylov->numbers[KRYLOV_BESIDE] = 1;
    memset(krylov_projected(krylov), 0, (size_t)(krylov->size * krylov->size) * sizeof(double));
    krylov->basis.count = 0;
    return work_append(krylov, error);
}

/* Rounding error of a product: a smaller rest has no direction, only noise. */
static double noise(const struct krylov *krylov, int64_t expanded)
{
    const double *t = krylov_projected(krylov);
    double scale = 0;
    for (int64_t i = 0; i < expanded; i++)
        for (int64_t k = 0; k < expanded; k++) scale = fmax(scale, fabs(t[i * krylov->size + k]));
    return scale * (krylov->op->space.backend->ops->element == sizeof(float) ? 0x1p-23 : 0x1p-51);
}

enum status krylov_expand(struct krylov *krylov, struct error *error)
{
    const struct symmetric_operator *op = krylov->op;
    struct backend *backend = op->space.backend;
    const int64_t j = (int64_t)krylov->numbers[KRYLOV_EXPANDED], size = krylov->size;
    struct matrix *vectors = krylov->basis.vectors;
    double *t = krylov_projected(krylov);
    enum status status;
    assert(j < size && krylov->basis.count == j + 1 && krylov->numbers[KRYLOV_BESIDE] != 0);
    if ((status = operator_apply(op, vectors[j], krylov->work, error)) != STATUS_OK) return status;
    t[j * size + j] = backend->ops->dot(backend, vectors[j], krylov->work);
    double beside = basis_orthogonalise(&krylov->basis, j + 1, krylov->work, NULL);
    krylov->numbers[KRYLOV_PRODUCTS]++;
    krylov->numbers[KRYLOV_EXPANDED]++;
    if (!(beside > noise(krylov, j + 1)) || j + 1 >= op->space.numbers) beside = 0;
    krylov->numbers[KRYLOV_BESIDE] = beside;
    if (beside == 0) return STATUS_OK;
    if (j + 1 < size) t[j * size + j + 1] = t[(j + 1) * size + j] = beside;
    return work_append(krylov, error);
}

/* Solves the full projected matrix, which after a restart of Lanczos (lanczos.c) begins with an arrow; before it is
 * tridiagonal. */
static enum status ritz_full(const struct krylov *krylov, int64_t n, double *values, double *first, double *last,
                             struct error *error)
{
    const double *t = krylov_projected(krylov);
    double *a = NULL;
    enum status status;
    if ((status = memory_new(n * n, sizeof *a, "projected matrix", &a, error)) != STATUS_OK) return status;
    for (int64_t i = 0; i < n; i++) memcpy(a + i * n, t + i * krylov->size, (size_t)n * sizeof *a);
    if ((status = eigen_symmetric(n, a, values, error)) != STATUS_OK) goto done;
    for (int64_t i = 0; i < n; i++) {
        if (first != NULL) first[i] = a[i * n];
        if (last != NULL) last[i] = a[i * n + n - 1];
    }
done:
    memory_free(a);
    return status;
}

enum status krylov_ritz(const struct krylov *krylov, double *values, double *first, double *last, struct error *error)
{
    const int64_t n = (int64_t)krylov->numbers[KRYLOV_EXPANDED], size = krylov->size;
    const double *t = krylov_projected(krylov);
    double *beside = NULL;
    enum status status;
    if (krylov->numbers[KRYLOV_LOCKED] > 0) return ritz_full(krylov, n, values, first, last, error);
    if ((status = memory_new(3 * n, sizeof *beside, "projected matrix", &beside, error)) != STATUS_OK) return status;
    double *z = beside + n;
    for (int64_t i = 0; i < n; i++) {
        values[i] = t[i * size + i];
        beside[i] = i + 1 < n ? t[i * size + i + 1] : 0;
    }
    z[0] = 1;
    z[2 * n - 1] = 1;
    if ((status = eigen_tridiagonal(n, values, beside, 2, z, error)) != STATUS_OK) goto done;
    if (first != NULL) memcpy(first, z, (size_t)n * sizeof *z);
    if (last != NULL) memcpy(last, z + n, (size_t)n * sizeof *z);
done:
    memory_free(beside);
    return status;
}
