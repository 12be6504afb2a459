#include "train/optimizer.h"

#include <math.h>

/* AdamW (Loshchilov and Hutter, arXiv 1711.05101, algorithm 2), bias corrections from the global step; decay on matrices alone. The
 * defaults are those that language models are trained with (Touvron et al., arXiv 2302.13971, 2.3). */
static void adamw_update(struct optimizer *optimizer, struct parameters *parameters, const struct parameters *gradients,
                         const struct optimizer_update *update)
{
    const struct optimizer_settings *settings = &optimizer->settings;
    const struct parameters_layout *layout = parameters->layout;
    struct backend *backend = parameters->backend;
    const size_t element = backend->ops->element;
    for (int64_t i = 0; i < layout->span_count; i++) {
        const struct parameters_span *span = &layout->spans[i];
        const size_t first = (size_t)span->first * element;
        const struct adamw_args args = {
            .parameter = (char *)parameters->data + first,
            .moment1 = (char *)optimizer->state[0].data + first,
            .moment2 = (char *)optimizer->state[1].data + first,
            .gradient = (const char *)gradients->data + first,
            .count = span->count,
            .rate = update->rate,
            .beta1 = settings->beta1,
            .beta2 = settings->beta2,
            .epsilon = settings->epsilon,
            .weight_decay = span->decays ? settings->weight_decay : 0,
            .correction1 = 1 - pow(settings->beta1, (double)(update->step + 1)),
            .correction2 = 1 - pow(settings->beta2, (double)(update->step + 1)),
            .gradient_scale = update->gradient_scale,
        };
        backend->ops->adamw(backend, &args);
    }
}

#define BELOW_ONE 0.9999999 /* a decay rate of 1 would never forget, and its bias correction divides by 0 */

const struct param optimizer_adamw_params[] = {
    {.name = "beta1",
     .type = PARAM_NUMBER,
     .offset = offsetof(struct optimizer_settings, beta1),
     .fallback = "0.9",
     .minimum = 0,
     .maximum = BELOW_ONE,
     .help = "decay rate of the mean of gradients"},
    {.name = "beta2",
     .type = PARAM_NUMBER,
     .offset = offsetof(struct optimizer_settings, beta2),
     .fallback = "0.95",
     .minimum = 0,
     .maximum = BELOW_ONE,
     .help = "decay rate of the mean of squared gradients"},
    {.name = "epsilon",
     .type = PARAM_NUMBER,
     .offset = offsetof(struct optimizer_settings, epsilon),
     .fallback = "1e-8",
     .minimum = 1e-30,
     .maximum = 1,
     .help = "added to the root of the second moment"},
    {.name = "weight_decay",
     .type = PARAM_NUMBER,
     .offset = offsetof(struct optimizer_settings, weight_decay),
     .fallback = "0.1",
     .minimum = 0,
     .maximum = 100,
     .help = "decoupled decay of all matrices, the embedding included; norms and biases do not decay"},
    {.name = "clip",
     .type = PARAM_NUMBER,
     .offset = offsetof(struct optimizer_settings, clip),
     .fallback = "1",
     .minimum = 0,
     .maximum = 1e30,
     .help = "largest L2 norm of the whole gradient; 0: not clipped"},
    {0},
};

static const struct optimizer_kind optimizer_adamw = {.name = "adamw", .buffers = 2, .update = adamw_update};

const struct optimizer_kind *const optimizer_kinds[] = {&optimizer_adamw, NULL};

enum status optimizer_init(struct optimizer *optimizer, const struct optimizer_kind *kind,
                           const struct optimizer_settings *settings, const struct parameters_layout *layout,
                           struct backend *backend, struct error *error)
{
    *optimizer = (struct optimizer){.kind = kind, .settings = *settings};
    for (int i = 0; i < kind->buffers; i++) {
        const enum status status = parameters_init(&optimizer->state[i], layout, backend, "optimizer state", error);
        if (status == STATUS_OK) continue;
        optimizer_reset(optimizer);
        return status;
    }
    return STATUS_OK;
}

void optimizer_reset(struct optimizer *optimizer)
{
    for (int i = 0; i < OPTIMIZER_BUFFERS; i++) parameters_reset(&optimizer->state[i]);
    *optimizer = (struct optimizer){0};
}

bool optimizer_step(struct optimizer *optimizer, struct parameters *parameters, const struct parameters *gradients, double rate,
                    int64_t step, double *norm)
{
    struct backend *backend = parameters->backend;
    const struct matrix all = parameters_all(gradients);
    const double clip = optimizer->settings.clip;
    *norm = sqrt(backend->ops->dot(backend, all, all));
    if (!isfinite(*norm)) return false;
    const struct optimizer_update update = {
        .rate = rate, .step = step, .gradient_scale = clip > 0 && *norm > clip ? clip / *norm : 1};
    optimizer->kind->update(optimizer, parameters, gradients, &update);
    return true;
}
