#include "curvature/preconditioned.h"

#include "base/memory.h"

#include <math.h>

enum { CHUNK = 1 << 14 }; /* numbers in the host's memory at a time */

enum status preconditioned_init(struct preconditioned *p, const struct vector_space *space, struct error *error)
{
    *p = (struct preconditioned){.op.space = {.backend = space->backend, .elements = space->elements}};
    enum status status = vector_new(space, "second moments", &p->scale, error);
    if (status == STATUS_OK) status = vector_new(space, "a scaled vector", &p->scaled, error);
    if (status != STATUS_OK) preconditioned_reset(p);
    return status;
}

void preconditioned_reset(struct preconditioned *p)
{
    struct backend *backend = p->op.space.backend;
    if (backend != NULL) {
        matrix_release(backend, &p->scale);
        matrix_release(backend, &p->scaled);
    }
    *p = (struct preconditioned){.inner = NULL};
}

/* Scales with the magnitude of what is positive. */
void preconditioned_unscale(const struct preconditioned *p, struct matrix vector)
{
    struct backend *backend = p->op.space.backend;
    backend->ops->scale_by_magnitude(backend, vector, p->scale, 0);
}

static enum status apply(void *owner, struct matrix v, struct matrix out, struct error *error)
{
    const struct preconditioned *p = owner;
    struct backend *backend = p->op.space.backend;
    backend->ops->add(backend, p->scaled, v, 1, 0);
    preconditioned_unscale(p, p->scaled);
    const enum status status = p->inner->apply(p->inner->owner, p->scaled, out, error);
    if (status == STATUS_OK) preconditioned_unscale(p, out);
    return status;
}

void preconditioned_over(struct preconditioned *p, const struct symmetric_operator *inner)
{
    p->inner = inner;
    p->op = (struct symmetric_operator){inner->space, p, apply};
}

/* What becomes of `count` numbers of v, given as many of `scaled`. */
struct change {
    enum status (*numbers)(const struct change *change, double *v, const double *scaled, int64_t count,
                           struct error *error);
    double correction1, correction2, epsilon;
};

/* In the host's memory, so that the bits are those of the host on every device. */
static enum status change_all(struct preconditioned *p, const struct change *change, struct error *error)
{
    const struct vector_space *space = &p->op.space;
    struct backend *backend = space->backend;
    double *v = NULL;
    enum status status = memory_new(2 * CHUNK, sizeof *v, "second moments", &v, error);
    for (int64_t first = 0, count; first < space->elements && status == STATUS_OK; first += count) {
        count = space->elements - first < CHUNK ? space->elements - first : CHUNK;
        const struct matrix part = vector_part(p->scale, first, count);
        backend->ops->download(backend, part, v, DTYPE_F64);
        backend->ops->download(backend, vector_part(p->scaled, first, count), v + CHUNK, DTYPE_F64);
        status = change->numbers(change, v, v + CHUNK, count, error);
        if (status == STATUS_OK) backend->ops->upload(backend, part, v, DTYPE_F64);
    }
    memory_free(v);
    return status;
}

static enum status add_squares(const struct change *change, double *v, const double *scaled, int64_t count,
                               struct error *error)
{
    (void)change, (void)error;
    for (int64_t i = 0; i < count; i++) v[i] += scaled[i] * scaled[i];
    return STATUS_OK;
}

enum status preconditioned_add_squares(struct preconditioned *p, struct error *error)
{
    return change_all(p, &(struct change){.numbers = add_squares}, error);
}

static enum status invert(const struct change *change, double *v, const double *scaled, int64_t count,
                          struct error *error)
{
    (void)scaled;
    for (int64_t i = 0; i < count; i++) {
        if (!(v[i] >= 0 && isfinite(v[i])))
            return error_set(error, STATUS_NOT_FINITE, "a second moment is %g, which is no mean of squares", v[i]);
        v[i] = 1 / sqrt(change->correction1 * (sqrt(v[i] / change->correction2) + change->epsilon));
    }
    return STATUS_OK;
}

enum status preconditioned_scale(struct preconditioned *p, double correction1, double correction2, double epsilon,
                                 struct error *error)
{
    const struct change change = {invert, correction1, correction2, epsilon};
    return change_all(p, &change, error);
}
