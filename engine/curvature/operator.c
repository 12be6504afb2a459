#include "curvature/operator.h"

enum status operator_apply(const struct symmetric_operator *op, struct matrix v, struct matrix out, struct error *error)
{
    const struct vector_space *space = &op->space;
    const enum status status = op->apply(op->owner, v, out, error);
    if (status != STATUS_OK) return status;
    vector_restrict(space, out);
    if (space->backend->ops->finite(space->backend, out)) return STATUS_OK;
    return error_set(
        error, STATUS_NOT_FINITE,
        "a product with the Hessian is not finite: the curvature of this checkpoint overflows float arithmetic");
}
