/* adamw.c: AdamW (Loshchilov and Hutter, arXiv 1711.05101, algorithm 2), bias corrections from the global step; decay
 * on matrices alone. */
#include "train/adamw.h"
#include "train/optimizer.h"

#include <math.h>

void adamw_update_span(struct optimizer *optimizer, struct parameters *parameters, const struct parameters *gradients,
                       const struct optimizer_update *update, const struct parameters_span *span)
{
    const struct optimizer_settings *settings = &optimizer->settings;
    struct backend *backend = parameters->backend;
    const size_t first = (size_t)span->first * backend->ops->element;
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

void adamw_update(struct optimizer *optimizer, struct parameters *parameters, struct parameters *gradients,
                  const struct optimizer_update *update)
{
    const struct parameters_layout *layout = parameters->layout;
    for (int64_t i = 0; i < layout->span_count; i++)
        adamw_update_span(optimizer, parameters, gradients, update, &layout->spans[i]);
}

const struct optimizer_kind optimizer_adamw = {
    .name = "adamw", .state = "adamw", .buffers = 2, .gradients = 1, .update = adamw_update};
