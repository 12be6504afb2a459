#include "jobs/sharpness/sharpness_critical.h"

#include "base/memory.h"
#include "model/gradient.h"

/* The first step moves the weights by this share of their norm, and the bracket ends so narrow. */
static const double first_share = 1.0 / 1024, tolerance = 0.01;

struct line {
    const struct sharpness *s;
    struct parameters moved;
    struct gradient *gradient; /* for its forward pass over `moved` */
    double *losses;            /* of each token */
};

static enum status loss_after(void *owner, double step, double *loss, struct error *error)
{
    const struct line *line = owner;
    const struct sharpness *s = line->s;
    const struct backend_ops *ops = s->parameters.backend->ops;
    const struct matrix moved = parameters_all(&line->moved);
    const int64_t made = s->out->critical.losses + 1;
    ops->add(s->parameters.backend, moved, parameters_all(&s->parameters), 1, 0);
    ops->add(s->parameters.backend, moved, vector_part(s->gradient, 0, s->layout->elements), -step, 1);
    const enum status status =
        gradient_over(line->gradient, &s->chunks, s->request->monitor, NULL, line->losses, loss, error);
    if (status == STATUS_OK)
        monitor_progress(s->request->monitor, made, made > SHARPNESS_CRITICAL_LOSSES ? made : SHARPNESS_CRITICAL_LOSSES,
                         "loss");
    return status;
}

enum status sharpness_critical_run(struct sharpness *s, struct error *error)
{
    struct line line = {.s = s};
    const struct critical_line along = {&line, loss_after};
    const double first = first_share * s->out->weight_norm / s->out->gradient_norm;
    enum status status = memory_new(s->chunks.tokens, sizeof *line.losses, "losses", &line.losses, error);
    if (status == STATUS_OK)
        status = parameters_init(&line.moved, s->layout, s->parameters.backend, "moved parameters", error);
    if (status == STATUS_OK)
        status =
            gradient_new(&line.moved, GRADIENT_RECOMPUTE, s->chunks.largest, s->chunks.longest, &line.gradient, error);
    if (status == STATUS_OK) status = critical_find(&along, first, tolerance, &s->out->critical, error);
    gradient_free(line.gradient);
    if (line.moved.backend != NULL) parameters_reset(&line.moved);
    memory_free(line.losses);
    return status;
}
