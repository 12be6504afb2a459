#include "quant/gptq_factor.h"

#include "base/memory.h"

struct factor {
    struct backend *backend;
    const struct gptq_order *order;
    struct matrix hessian, upper;
    const float *diagonal;
    float *damped; /* [C] owned: the diagonal in visiting order, plus the damping */
    double mean;
};

static bool try_damp(struct factor *factor, double damp)
{
    const struct backend_ops *ops = factor->backend->ops;
    const int32_t *from = factor->order->from;
    const float added = (float)(damp * factor->mean);
    for (int64_t i = 0; i < factor->order->columns; i++) factor->damped[i] = factor->diagonal[from[i]] + added;
    ops->select(factor->backend, factor->upper, factor->hessian, from, from);
    ops->upload(factor->backend, matrix_diagonal(factor->upper), factor->damped, DTYPE_F32);
    return ops->inverse_cholesky(factor->backend, factor->upper);
}

static enum status find_damp(struct factor *factor, double damp, const char *name, double *used, struct error *error)
{
    static const double increment = GPTQ_DAMP_INCREMENT;
    int64_t failed = 0, worked = 0;
    *used = damp;
    if (try_damp(factor, damp)) return STATUS_OK;
    while (damp + increment * (double)(worked + 1) < 1) worked++;
    const double highest = damp + increment * (double)worked;
    bool last = worked > 0 && try_damp(factor, highest);
    enum status status = factor->backend->ops->sync(factor->backend, error);
    if (status != STATUS_OK) return status;
    if (!last)
        return error_set(
            error, STATUS_INVALID,
            "%s: the Hessian of its inputs is not positive definite even with damping %.2f; use more calibration data",
            name, highest);
    /* `failed` steps fail, `worked` steps succeed; more damping never hurts */
    while (worked - failed > 1) {
        const int64_t middle = failed + (worked - failed) / 2;
        last = try_damp(factor, damp + increment * (double)middle);
        if (last)
            worked = middle;
        else
            failed = middle;
    }
    *used = damp + increment * (double)worked;
    if (!last && !try_damp(factor, *used))
        return error_set(error, STATUS_INTERNAL,
                         "%s: a factorisation that worked at damping %.2f fails the second time", name, *used);
    return STATUS_OK;
}

enum status gptq_factor(struct backend *backend, const struct gptq_order *order, struct matrix hessian,
                        const float *diagonal, double damp, const char *name, struct matrix upper, double *used,
                        struct error *error)
{
    struct factor factor = {
        .backend = backend, .order = order, .hessian = hessian, .upper = upper, .diagonal = diagonal};
    enum status status = memory_new(order->columns, sizeof *factor.damped, "Hessian diagonal", &factor.damped, error);
    if (status != STATUS_OK) return status;
    for (int64_t c = 0; c < order->columns; c++) factor.mean += diagonal[c];
    factor.mean /= (double)order->columns;
    status = find_damp(&factor, damp, name, used, error);
    memory_free(factor.damped);
    return status;
}
