#include "jobs/sharpness/sharpness_random.h"

#include "base/memory.h"
#include "jobs/sharpness/sharpness_direction.h"
#include "jobs/sharpness/sharpness_losses.h"

#include <math.h>

/* Adds `scale` times the change of that number to `to`, whose layout is the parameters'. `signs` is overwritten. */
static void add_change(const struct sharpness *s, struct matrix direction, int64_t number, double scale,
                       struct matrix signs, struct matrix to)
{
    struct backend *backend = s->parameters.backend;
    const struct vector_space space = {.backend = backend,
                                       .elements = s->layout->elements,
                                       .numbers = s->layout->elements,
                                       .span_count = 1,
                                       .spans = &(struct vector_span){0, s->layout->elements}};
    const struct parameters d = {s->layout, backend, direction.data}, random = {s->layout, backend, signs.data},
                            sum = {s->layout, backend, to.data};
    vector_rademacher(&space, (uint64_t)s->request->settings.seed, STREAM_CHANGES + (uint64_t)number, signs);
    for (int64_t i = 0; i < s->out->direction.layer_count; i++) {
        const int64_t tensor = sharpness_direction_tensor(s->layout, s->out->direction.layers[i].name);
        const struct matrix part = parameters_view(&d, tensor);
        const double size = sqrt(backend->ops->dot(backend, part, part) / ((double)part.rows * (double)part.columns));
        backend->ops->add(backend, parameters_view(&sum, tensor), parameters_view(&random, tensor), scale * size, 1);
    }
}

/* The mean, and its standard error over the changes; NAN for a single one. */
static double mean_of(const double *values, int64_t count, double *error)
{
    double mean = 0, squares = 0;
    for (int64_t i = 0; i < count; i++) mean += values[i] / (double)count;
    for (int64_t i = 0; i < count; i++) squares += (values[i] - mean) * (values[i] - mean);
    *error = count > 1 ? sqrt(squares / (double)(count - 1) / (double)count) : NAN;
    return mean;
}

static enum status product_with(struct sharpness *s, struct matrix direction, int64_t number, struct matrix change,
                                struct matrix product, double *out, struct error *error)
{
    struct backend *backend = s->parameters.backend;
    backend->ops->fill(backend, change, 0);
    add_change(s, direction, number, 1, product, change);
    const enum status status = operator_apply(hvp_operator(s->hvp), change, product, error);
    if (status == STATUS_OK) *out = backend->ops->dot(backend, change, product) / 2;
    return status;
}

enum status sharpness_random_products(struct sharpness *s, struct matrix direction, struct error *error)
{
    const struct symmetric_operator *op = hvp_operator(s->hvp);
    struct sharpness_random *out = &s->out->direction.random;
    const int64_t count = s->request->random_directions;
    struct matrix change = {0}, product = {0};
    double *terms = NULL;
    enum status status = memory_new(count, sizeof *terms, "random changes", &terms, error);
    if (status == STATUS_OK) status = vector_new(&op->space, "a random change", &change, error);
    if (status == STATUS_OK) status = vector_new(&op->space, "a product", &product, error);
    for (int64_t i = 0; i < count && status == STATUS_OK; i++) {
        status = product_with(s, direction, i, change, product, &terms[i], error);
        s->state.products++;
        sharpness_tasks_show(s, count - i - 1);
        if (status == STATUS_OK) status = monitor_check(s->request->monitor, error);
    }
    if (status == STATUS_OK) {
        out->directions = count;
        out->curvature_term = mean_of(terms, count, &out->curvature_error);
        if (out->curvature_term > 0) out->ratio = s->out->direction.curvature_term / out->curvature_term;
    }
    matrix_release(s->parameters.backend, &product);
    matrix_release(s->parameters.backend, &change);
    memory_free(terms);
    return status;
}

/* (L(θ + r) + L(θ - r)) / 2. */
static enum status loss_around(const struct sharpness_losses *losses, struct matrix direction, int64_t number,
                               struct matrix signs, double *out, struct error *error)
{
    const struct sharpness *s = losses->s;
    struct backend *backend = s->parameters.backend;
    const struct matrix moved = parameters_all(&losses->moved);
    *out = 0;
    for (int side = 1; side >= -1; side -= 2) {
        double loss;
        backend->ops->add(backend, moved, parameters_all(&s->parameters), 1, 0);
        add_change(s, direction, number, side, signs, moved);
        const enum status status = sharpness_losses_at(losses, &loss, error);
        if (status != STATUS_OK) return status;
        *out += loss / 2;
    }
    return STATUS_OK;
}

enum status sharpness_random_losses(struct sharpness *s, struct matrix direction, struct error *error)
{
    struct sharpness_random *out = &s->out->direction.random;
    const int64_t count = s->request->random_directions;
    struct sharpness_losses losses = {0};
    struct parameters signs = {0};
    double *deltas = NULL;
    enum status status = memory_new(count, sizeof *deltas, "random changes", &deltas, error);
    if (status == STATUS_OK)
        status = parameters_init(&signs, s->layout, s->parameters.backend, "a random change", error);
    if (status == STATUS_OK) status = sharpness_losses_new(s, &losses, error);
    for (int64_t i = 0; i < count && status == STATUS_OK; i++) {
        status = loss_around(&losses, direction, i, parameters_all(&signs), &deltas[i], error);
        deltas[i] = deltas[i] / s->out->loss - 1;
        monitor_progress(s->request->monitor, 2 * (i + 1), 2 * count, "loss");
    }
    if (status == STATUS_OK) out->delta = mean_of(deltas, count, &out->delta_error);
    sharpness_losses_reset(&losses);
    if (signs.backend != NULL) parameters_reset(&signs);
    memory_free(deltas);
    return status;
}
