/* schedule_free.c: schedule-free AdamW (Defazio et al., arXiv 2405.15682, algorithm 1). With x the average that is the
 * model, z the sequence that steps, gamma the constant rate with its warm-up, all from one start x = z:
 *   y = (1 - beta1) z + beta1 x                                  where the gradient g is taken
 *   v = beta2 v + (1 - beta2) g²
 *   gamma_t = gamma sqrt(1 - beta2^t)                            t counts from 1
 *   z = z - gamma_t g / (sqrt(v) + epsilon) - gamma_t decay y    decay on matrices alone
 *   x = (1 - c) x + c z,  c = gamma_t² / sum of gamma_i², i <= t
 * Between steps the parameters hold x: checkpoints, validation and averages need not know. z and v are its state, and
 * the sum. */
#include "train/optimizer.h"

#include <math.h>

enum { Z, V };

static bool schedule_free_depart(struct optimizer *optimizer, struct parameters *parameters,
                                 struct parameters *gradients)
{
    (void)gradients;
    struct backend *backend = parameters->backend;
    const double beta1 = optimizer->settings.beta1;
    const struct matrix x = parameters_all(parameters), z = parameters_all(&optimizer->state[Z]);
    if (optimizer->weight == 0) backend->ops->add(backend, z, x, 1, 0); /* the very first step */
    backend->ops->add(backend, parameters_all(&optimizer->home), x, 1, 0);
    backend->ops->add(backend, x, z, 1 - beta1, beta1);
    return true;
}

/* z's step. This is the backend's AdamW with beta1 = 0, except for the decay, which acts from y and comes first. Its
 * first moment is then the gradient itself and is written over y, which is no longer needed. */
static void step_z(struct optimizer *optimizer, const struct parameters *y, const struct parameters *gradients,
                   double rate, double gradient_scale)
{
    const struct optimizer_settings *settings = &optimizer->settings;
    const struct parameters_layout *layout = y->layout;
    struct backend *backend = y->backend;
    const struct matrix all_z = parameters_all(&optimizer->state[Z]), all_y = parameters_all(y);
    for (int64_t i = 0; i < layout->span_count; i++) {
        const struct parameters_span *span = &layout->spans[i];
        if (span->decays && settings->weight_decay > 0)
            backend->ops->add(backend, matrix_columns(all_z, span->first, span->count),
                              matrix_columns(all_y, span->first, span->count), -rate * settings->weight_decay, 1);
    }
    const struct adamw_args args = {
        .parameter = optimizer->state[Z].data,
        .moment1 = y->data,
        .moment2 = optimizer->state[V].data,
        .gradient = gradients->data,
        .count = layout->elements,
        .rate = rate,
        .beta1 = 0,
        .beta2 = settings->beta2,
        .epsilon = settings->epsilon,
        .correction1 = 1,
        .correction2 = 1,
        .gradient_scale = gradient_scale,
    };
    backend->ops->adamw(backend, &args);
}

static void schedule_free_update(struct optimizer *optimizer, struct parameters *parameters,
                                 struct parameters *gradients, const struct optimizer_update *update)
{
    struct backend *backend = parameters->backend;
    const double correction = 1 - pow(optimizer->settings.beta2, (double)(update->step + 1));
    const double rate = update->rate * sqrt(correction);
    const struct matrix x = parameters_all(parameters);
    step_z(optimizer, parameters, gradients, rate, update->gradient_scale);
    optimizer->weight += rate * rate;
    const double share = rate * rate / optimizer->weight;
    backend->ops->add(backend, x, parameters_all(&optimizer->home), 1 - share, 0);
    backend->ops->add(backend, x, parameters_all(&optimizer->state[Z]), share, 1);
    optimizer->away = false;
}

const struct optimizer_kind optimizer_schedule_free = {.name = "schedule_free",
                                                       .state = "schedule_free",
                                                       .buffers = 2,
                                                       .gradients = 1,
                                                       .keeps_rate = true,
                                                       .depart = schedule_free_depart,
                                                       .update = schedule_free_update};
