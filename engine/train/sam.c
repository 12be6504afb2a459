/* sam.c: sharpness-aware minimisation: the gradient is taken where the loss nearby is worst, to first order, on the
 * same batch.
 *
 * SAM (Foret et al., arXiv 2010.01412, eq. 2 and algorithm 1, p = 2), with g the gradient at the parameters w:
 *
 *   e = rho g / |g|;  AdamW steps from w with the gradient at w + e
 *
 * ASAM (Kwon et al., arXiv 2102.11600, eq. 6 and 7), the same in coordinates that rescaling a layer does not change,
 * with T diagonal:
 *
 *   e = rho T² g / |T g|,  T = |w| + eta; biases are not rescaled (T = 1), as in the authors' own experiments
 *
 * Clipping acts on the gradient that updates. Moments are AdamW's, so that runs of these three branch from one
 * another. */
#include "train/adamw.h"

#include <math.h>
#include <string.h>

/* parameters += rho / |norm of| * direction, which is `gradients`. */
static void climb(struct optimizer *optimizer, struct parameters *parameters, const struct parameters *gradients,
                  double norm)
{
    struct backend *backend = parameters->backend;
    const struct matrix all = parameters_all(parameters);
    backend->ops->add(backend, parameters_all(&optimizer->home), all, 1, 0);
    /* at a stationary point no direction raises the loss */
    if (norm > 0) backend->ops->add(backend, all, parameters_all(gradients), optimizer->settings.rho / norm, 1);
}

static double norm_of(const struct parameters *gradients)
{
    const struct matrix all = parameters_all(gradients);
    return sqrt(gradients->backend->ops->dot(gradients->backend, all, all));
}

static bool sam_depart(struct optimizer *optimizer, struct parameters *parameters, struct parameters *gradients)
{
    const double norm = norm_of(gradients);
    if (!isfinite(norm)) return false;
    climb(optimizer, parameters, gradients, norm);
    return true;
}

static bool is_bias(const char *name)
{
    const size_t size = strlen(name);
    return size >= 4 && strcmp(name + size - 4, "bias") == 0;
}

static void rescale(const struct parameters *gradients, const struct parameters *parameters, double eta)
{
    struct backend *backend = parameters->backend;
    for (int64_t i = 0; i < parameters->layout->tensor_count; i++)
        if (!is_bias(parameters->layout->tensors[i].parameter.name))
            backend->ops->scale_by_magnitude(backend, parameters_view(gradients, i), parameters_view(parameters, i),
                                             eta);
}

static bool asam_depart(struct optimizer *optimizer, struct parameters *parameters, struct parameters *gradients)
{
    if (!isfinite(norm_of(gradients))) return false;
    rescale(gradients, parameters, optimizer->settings.eta);
    const double norm = norm_of(gradients);
    rescale(gradients, parameters, optimizer->settings.eta);
    if (!isfinite(norm)) return false;
    climb(optimizer, parameters, gradients, norm);
    return true;
}

static void sam_update(struct optimizer *optimizer, struct parameters *parameters, struct parameters *gradients,
                       const struct optimizer_update *update)
{
    optimizer_return(optimizer, parameters);
    adamw_update(optimizer, parameters, gradients, update);
}

const struct optimizer_kind optimizer_sam = {
    .name = "sam", .state = "adamw", .buffers = 2, .gradients = 2, .depart = sam_depart, .update = sam_update};

const struct optimizer_kind optimizer_asam = {
    .name = "asam", .state = "adamw", .buffers = 2, .gradients = 2, .depart = asam_depart, .update = sam_update};
