#include "jobs/sharpness/sharpness_critical.h"

#include "jobs/sharpness/sharpness_losses.h"

/* The first step moves the weights by this share of their norm, and the bracket ends so narrow. */
static const double first_share = 1.0 / 1024, tolerance = 0.01;

static enum status loss_after(void *owner, double step, double *loss, struct error *error)
{
    const struct sharpness_losses *line = owner;
    const struct sharpness *s = line->s;
    const struct backend_ops *ops = s->parameters.backend->ops;
    const struct matrix moved = parameters_all(&line->moved);
    const int64_t made = s->out->critical.losses + 1;
    ops->add(s->parameters.backend, moved, parameters_all(&s->parameters), 1, 0);
    ops->add(s->parameters.backend, moved, vector_part(s->gradient, 0, s->layout->elements), -step, 1);
    const enum status status = sharpness_losses_at(line, loss, error);
    if (status == STATUS_OK)
        monitor_progress(s->request->monitor, made, made > SHARPNESS_CRITICAL_LOSSES ? made : SHARPNESS_CRITICAL_LOSSES,
                         "loss");
    return status;
}

enum status sharpness_critical_run(struct sharpness *s, struct error *error)
{
    struct sharpness_losses line;
    const struct critical_line along = {&line, loss_after};
    const double first = first_share * s->out->weight_norm / s->out->gradient_norm;
    enum status status = sharpness_losses_new(s, &line, error);
    if (status == STATUS_OK) status = critical_find(&along, first, tolerance, &s->out->critical, error);
    sharpness_losses_reset(&line);
    return status;
}
