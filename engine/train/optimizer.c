#include "train/optimizer.h"

#include "base/memory.h"

#include <math.h>

const struct optimizer_kind *const optimizer_kinds[] = {
#define ROW(id, name) [OPTIMIZER_##id] = &optimizer_##name,
    OPTIMIZERS(ROW)
#undef ROW
        [OPTIMIZER_COUNT] = NULL,
};

int optimizer_buffers(const struct optimizer_kind *kind)
{
    return kind->buffers + (kind->depart != NULL ? 1 : 0);
}

struct optimizer_memory optimizer_memory(const struct optimizer_kind *kind, const struct optimizer_settings *settings,
                                         const struct parameters_layout *layout)
{
    struct optimizer_memory memory = {0};
    if (kind->memory != NULL) kind->memory(settings, layout, &memory);
    return memory;
}

double optimizer_work(const struct optimizer_kind *kind, const struct optimizer_settings *settings,
                      const struct parameters_layout *layout, int64_t steps)
{
    return kind->work != NULL ? kind->work(settings, layout, steps) : 0;
}

static enum status memory_take(struct optimizer *optimizer, const struct parameters_layout *layout,
                               struct backend *backend, struct error *error)
{
    const struct optimizer_memory memory = optimizer_memory(optimizer->kind, &optimizer->settings, layout);
    const struct backend_ops *ops = backend->ops;
    enum status status = STATUS_OK;
    if (memory.kept > 0) {
        optimizer->kept = matrix_of(NULL, 1, memory.kept, ops->element);
        status = ops->allocate(backend, memory.kept, "optimizer state", &optimizer->kept.data, error);
        if (status == STATUS_OK) ops->fill(backend, optimizer->kept, 0);
    }
    if (status == STATUS_OK && memory.scratch > 0)
        status = ops->allocate(backend, memory.scratch, "optimizer scratch", &optimizer->scratch, error);
    if (status == STATUS_OK && memory.host > 0)
        status = memory_new(memory.host, sizeof *optimizer->host, "optimizer scratch", &optimizer->host, error);
    return status;
}

enum status optimizer_init(struct optimizer *optimizer, const struct optimizer_kind *kind,
                           const struct optimizer_settings *settings, const struct parameters_layout *layout,
                           struct backend *backend, struct error *error)
{
    enum status status = STATUS_OK;
    *optimizer = (struct optimizer){.kind = kind, .settings = *settings};
    for (int i = 0; i < kind->buffers && status == STATUS_OK; i++)
        status = parameters_init(&optimizer->state[i], layout, backend, "optimizer state", error);
    if (status == STATUS_OK) status = memory_take(optimizer, layout, backend, error);
    if (status == STATUS_OK && kind->depart != NULL)
        status = parameters_init(&optimizer->home, layout, backend, "optimizer state", error);
    if (status != STATUS_OK) optimizer_reset(optimizer);
    return status;
}

void optimizer_reset(struct optimizer *optimizer)
{
    struct backend *backend = optimizer->state[0].backend;
    if (optimizer->kept.data != NULL) backend->ops->release(backend, optimizer->kept.data);
    if (optimizer->scratch != NULL) backend->ops->release(backend, optimizer->scratch);
    memory_free(optimizer->host);
    for (int i = 0; i < OPTIMIZER_BUFFERS; i++) parameters_reset(&optimizer->state[i]);
    parameters_reset(&optimizer->home);
    *optimizer = (struct optimizer){0};
}

bool optimizer_depart(struct optimizer *optimizer, struct parameters *parameters, struct parameters *gradients)
{
    if (optimizer->kind->depart == NULL) return true;
    optimizer->away = optimizer->kind->depart(optimizer, parameters, gradients);
    return optimizer->away;
}

void optimizer_return(struct optimizer *optimizer, struct parameters *parameters)
{
    struct backend *backend = parameters->backend;
    if (optimizer->away) backend->ops->add(backend, parameters_all(parameters), parameters_all(&optimizer->home), 1, 0);
    optimizer->away = false;
}

bool optimizer_step(struct optimizer *optimizer, struct parameters *parameters, struct parameters *gradients,
                    double rate, int64_t step, double *norm)
{
    struct backend *backend = parameters->backend;
    const struct matrix all = parameters_all(gradients);
    const double clip = optimizer->settings.clip;
    *norm = sqrt(backend->ops->dot(backend, all, all));
    if (!isfinite(*norm)) {
        optimizer_return(optimizer, parameters);
        return false;
    }
    const struct optimizer_update update = {
        .rate = rate, .step = step, .gradient_scale = clip > 0 && *norm > clip ? clip / *norm : 1};
    optimizer->kind->update(optimizer, parameters, gradients, &update);
    return true;
}
