#include "train/ema.h"

#include <math.h>

enum status ema_init(struct ema *ema, double decay, const struct parameters_layout *layout, struct backend *backend,
                     struct error *error)
{
    *ema = (struct ema){.decay = decay};
    if (decay == 0) return STATUS_OK;
    return parameters_init(&ema->mean, layout, backend, "averaged parameters", error);
}

void ema_reset(struct ema *ema)
{
    parameters_reset(&ema->mean);
    *ema = (struct ema){0};
}

void ema_add(struct ema *ema, const struct parameters *parameters)
{
    if (ema->decay == 0) return;
    struct backend *backend = parameters->backend;
    ema->updates++;
    const double share = (1 - ema->decay) / (1 - pow(ema->decay, (double)ema->updates));
    /* the first update copies the parameters: their share is 1 except for rounding */
    const bool first = ema->updates == 1;
    backend->ops->add(backend, parameters_all(&ema->mean), parameters_all(parameters), first ? 1 : share,
                      first ? 0 : 1 - share);
}
