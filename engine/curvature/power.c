#include "curvature/power.h"

#include <math.h>

enum { PRODUCTS, TOP, RESIDUAL, CONVERGED, NUMBERS };

/* One product: the quotient and residual of the unit vector, which is then replaced by the direction of its product. */
static enum status advance(const struct symmetric_operator *op, double tolerance, struct matrix vector,
                           struct matrix product, double *numbers, struct error *error)
{
    struct backend *backend = op->space.backend;
    const double before = numbers[TOP];
    const enum status status = operator_apply(op, vector, product, error);
    if (status != STATUS_OK) return status;
    const double top = backend->ops->dot(backend, vector, product);
    backend->ops->add(backend, vector, product, 1, -top);
    const double residual = sqrt(backend->ops->dot(backend, vector, vector));
    backend->ops->add(backend, vector, product, 1, 0);
    const double norm = vector_normalise(&op->space, vector);
    numbers[CONVERGED] =
        norm == 0 || (numbers[PRODUCTS] > 0 && fabs(top - before) <= tolerance * (fabs(before) + 1e-6));
    numbers[TOP] = top;
    numbers[RESIDUAL] = top == 0 ? residual : residual / fabs(top);
    numbers[PRODUCTS]++;
    return STATUS_OK;
}

enum status power_run(const struct symmetric_operator *op, const struct lanczos_settings *settings,
                      const struct saver *saver, struct matrix vector, struct spectrum_ends *out, struct error *error)
{
    double numbers[NUMBERS] = {0};
    struct basis basis = {0};
    struct matrix product = {0};
    bool found;
    enum status status;
    if ((status = vector_new(&op->space, "a product", &product, error)) != STATUS_OK) goto done;
    if ((status = basis_init(&basis, &op->space, 1, error)) != STATUS_OK) goto done;
    struct saver_state state = {numbers, NUMBERS, &basis};
    if ((status = saver_restore(saver, &state, &found, error)) != STATUS_OK) goto done;
    if (!found) {
        if ((status = basis_append(&basis, error)) != STATUS_OK) goto done;
        vector_normal(&op->space, settings->seed, settings->stream, basis.vectors[0]);
        vector_normalise(&op->space, basis.vectors[0]);
    }
    while (numbers[CONVERGED] == 0 && numbers[PRODUCTS] < (double)settings->most_products) {
        status = advance(op, settings->tolerance, basis.vectors[0], product, numbers, error);
        if (status != STATUS_OK) goto done;
        status = saver_step(saver, &state, settings->most_products - (int64_t)numbers[PRODUCTS], error);
        if (status != STATUS_OK) goto done;
    }
    if (vector.data != NULL) op->space.backend->ops->add(op->space.backend, vector, basis.vectors[0], 1, 0);
    const double bound = numbers[RESIDUAL] * (numbers[TOP] == 0 ? 1 : fabs(numbers[TOP]));
    *out = (struct spectrum_ends){.top = numbers[TOP],
                                  .largest = numbers[TOP] >= 0 ? numbers[TOP] : NAN,
                                  .smallest = numbers[TOP] < 0 ? numbers[TOP] : NAN,
                                  .residual = numbers[RESIDUAL],
                                  .largest_bound = numbers[TOP] >= 0 ? bound : (double)NAN,
                                  .smallest_bound = numbers[TOP] < 0 ? bound : (double)NAN,
                                  .products = (int64_t)numbers[PRODUCTS],
                                  .converged = numbers[CONVERGED] != 0};
done:
    matrix_release(op->space.backend, &product);
    if (basis.space != NULL) basis_reset(&basis);
    return status;
}
