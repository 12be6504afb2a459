#include "jobs/sharpness/sharpness_losses.h"

#include "base/memory.h"
#include "model/gradient.h"

enum status sharpness_losses_new(const struct sharpness *s, struct sharpness_losses *out, struct error *error)
{
    *out = (struct sharpness_losses){.s = s};
    enum status status = memory_new(s->chunks.tokens, sizeof *out->losses, "losses", &out->losses, error);
    if (status == STATUS_OK)
        status = parameters_init(&out->moved, s->layout, s->parameters.backend, "moved parameters", error);
    if (status == STATUS_OK)
        status =
            gradient_new(&out->moved, GRADIENT_RECOMPUTE, s->chunks.largest, s->chunks.longest, &out->gradient, error);
    return status;
}

void sharpness_losses_reset(struct sharpness_losses *losses)
{
    gradient_free(losses->gradient);
    if (losses->moved.backend != NULL) parameters_reset(&losses->moved);
    memory_free(losses->losses);
    *losses = (struct sharpness_losses){0};
}

enum status sharpness_losses_at(const struct sharpness_losses *losses, double *mean, struct error *error)
{
    const struct sharpness *s = losses->s;
    return gradient_over(losses->gradient, &s->chunks, s->request->monitor, NULL, losses->losses, mean, error);
}
