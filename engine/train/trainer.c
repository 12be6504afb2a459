#include "train/trainer.h"

#include "base/memory.h"
#include "model/chunks.h"

#include <math.h>

static int64_t fixed_bytes(const struct trainer *trainer, const struct parameters_layout *layout)
{
    const struct trainer_setup *setup = &trainer->setup;
    const int64_t buffers = 2 + optimizer_buffers(setup->optimizer) + (setup->ema_decay > 0 ? 1 : 0);
    const struct optimizer_memory memory = optimizer_memory(setup->optimizer, &setup->settings, layout);
    const int64_t elements = buffers * layout->elements + memory.kept + memory.scratch;
    return elements * (int64_t)trainer->backend->ops->element + 4 * setup->token_count;
}

/* Host memory in which the optimizer works. */
static int64_t host_bytes(const struct trainer *trainer, const struct parameters_layout *layout)
{
    return optimizer_memory(trainer->setup.optimizer, &trainer->setup.settings, layout).host * (int64_t)sizeof(double);
}

/* Memory beside parameters, gradients, moments and activations: the ends of the model and the data's order. */
static int64_t other_bytes(const struct trainer *trainer, const struct parameters_layout *layout, int64_t tokens)
{
    const struct model_config *config = &layout->config;
    struct backend *backend = trainer->backend;
    return PLAN_SMALL_BYTES + tokens * (int64_t)sizeof(double) +
           backend->ops->scratch(trainer->setup.sequence_length, config->vocabulary_size) +
           model_rope_bytes(config, backend, trainer->setup.sequence_length) +
           embed_bytes(config, backend, tokens, false) + head_bytes(config, backend, HEAD_GRADIENT, HEAD_LOADS_NONE);
}

/* *needed: the memory of the mode. */
static enum status choose_mode(struct trainer *trainer, const struct parameters_layout *layout, int64_t *needed,
                               struct error *error)
{
    const int64_t tokens = trainer->micro * trainer->setup.sequence_length, limit = trainer->setup.memory_limit;
    const int64_t fixed =
        fixed_bytes(trainer, layout) + host_bytes(trainer, layout) + other_bytes(trainer, layout, tokens);
    const int64_t keep = fixed + gradient_bytes(layout, trainer->backend, GRADIENT_KEEP, tokens);
    const int64_t again = fixed + gradient_bytes(layout, trainer->backend, GRADIENT_RECOMPUTE, tokens);
    trainer->mode = keep <= limit ? GRADIENT_KEEP : GRADIENT_RECOMPUTE;
    *needed = keep <= limit ? keep : again;
    trainer->rounds = *needed <= limit && gradient_round_bytes(layout, trainer->backend) <= limit - *needed;
    if (trainer->rounds) *needed += gradient_round_bytes(layout, trainer->backend);
    if (*needed <= limit) return STATUS_OK;
    return backend_refuse(trainer->backend, "training needs", again, limit,
                          "use a smaller model, less data or shorter sequences", error);
}

static enum status memory_take(struct trainer *trainer, const struct parameters_layout *layout, struct error *error)
{
    const struct trainer_setup *setup = &trainer->setup;
    struct backend *backend = trainer->backend;
    const int64_t tokens = trainer->micro * setup->sequence_length;
    int64_t needed;
    bool waited;
    enum status status;
    if ((status = choose_mode(trainer, layout, &needed, error)) != STATUS_OK) return status;
    if ((status = backend_claim(backend, needed, setup->monitor, &waited, error)) != STATUS_OK) return status;
    if ((status = parameters_init(&trainer->parameters, layout, backend, "parameters", error)) != STATUS_OK)
        return status;
    if ((status = parameters_init(&trainer->gradients, layout, backend, "gradients", error)) != STATUS_OK)
        return status;
    status = optimizer_init(&trainer->optimizer, setup->optimizer, &setup->settings, layout, backend, error);
    if (status != STATUS_OK) return status;
    if ((status = ema_init(&trainer->ema, setup->ema_decay, layout, backend, error)) != STATUS_OK) return status;
    if ((status = memory_new(tokens, sizeof *trainer->losses, "token losses", &trainer->losses, error)) != STATUS_OK)
        return status;
    status =
        gradient_new(&trainer->parameters, trainer->mode, tokens, setup->sequence_length, &trainer->gradient, error);
    return status == STATUS_OK && trainer->rounds ? gradient_round(trainer->gradient, error) : status;
}

/* Sequences that go through the model at once. The sum of a step's gradient is cut here. */
static int64_t micro_sequences(const struct backend *backend, const struct trainer_setup *setup)
{
    const int64_t fitting = backend->ops->sizes->micro / setup->sequence_length;
    return fitting < 1 ? 1 : fitting < setup->batch_sequences ? fitting : setup->batch_sequences;
}

enum gradient_mode trainer_plan(const struct parameters_layout *layout, struct backend *backend,
                                const struct trainer_setup *setup, struct run_plan *out)
{
    struct trainer trainer = {.backend = backend, .setup = *setup, .micro = micro_sequences(backend, setup)};
    const struct model_config *config = &layout->config;
    const enum plan_space space = backend_space(backend);
    const int64_t tokens = trainer.micro * setup->sequence_length;
    struct error unused;
    int64_t needed;
    if (choose_mode(&trainer, layout, &needed, &unused) != STATUS_OK)
        trainer.mode = GRADIENT_RECOMPUTE; /* the mode with the least memory */
    plan_take(out, PLAN_HOST, PLAN_SMALL_BYTES + 4 * setup->token_count + tokens * (int64_t)sizeof(double));
    plan_take(out, PLAN_HOST, backend->ops->scratch(setup->sequence_length, config->vocabulary_size));
    plan_take(out, PLAN_HOST, host_bytes(&trainer, layout));
    plan_take(out, space, fixed_bytes(&trainer, layout) - 4 * setup->token_count);
    plan_take(out, space, gradient_bytes(layout, backend, trainer.mode, tokens));
    if (trainer.rounds) plan_take(out, space, gradient_round_bytes(layout, backend));
    plan_take(out, space,
              model_rope_bytes(config, backend, setup->sequence_length) + embed_bytes(config, backend, tokens, false) +
                  head_bytes(config, backend, HEAD_GRADIENT, HEAD_LOADS_NONE));
    return trainer.mode;
}

enum status trainer_init(struct trainer *trainer, const struct parameters_layout *layout, struct backend *backend,
                         const struct trainer_setup *setup, struct error *error)
{
    enum status status;
    *trainer = (struct trainer){.backend = backend, .setup = *setup, .loss = NAN, .gradient_norm = NAN};
    trainer->micro = micro_sequences(backend, setup);
    if ((status = schedule_check(&setup->schedule, error)) != STATUS_OK) goto failed;
    status = batches_init(&trainer->batches, setup->tokens, setup->token_count, setup->sequence_length, trainer->micro,
                          setup->seed, error);
    if (status != STATUS_OK) goto failed;
    if ((status = memory_take(trainer, layout, error)) != STATUS_OK) goto failed;
    return STATUS_OK;
failed:
    trainer_reset(trainer);
    return status;
}

void trainer_reset(struct trainer *trainer)
{
    gradient_free(trainer->gradient);
    ema_reset(&trainer->ema);
    optimizer_reset(&trainer->optimizer);
    parameters_reset(&trainer->gradients);
    parameters_reset(&trainer->parameters);
    batches_reset(&trainer->batches);
    memory_free(trainer->losses);
    *trainer = (struct trainer){0};
}

static double losses_sum(const double *losses, int64_t count)
{
    double sum = 0;
    for (int64_t t = 0; t < count; t++) sum += losses[t];
    return sum;
}

/* The gradient of the step's mean loss at the present parameters, into trainer->gradients. */
static enum status gradient_of_step(struct trainer *trainer, double *loss, struct error *error)
{
    const struct trainer_setup *setup = &trainer->setup;
    struct backend *backend = trainer->backend;
    const double predictions = (double)(setup->batch_sequences * (setup->sequence_length - 1));
    const int64_t first = trainer->step * setup->batch_sequences;
    double sum = 0;
    enum status status;
    backend->ops->fill(backend, parameters_all(&trainer->gradients), 0);
    for (int64_t s = 0, count; s < setup->batch_sequences; s += count) {
        count = setup->batch_sequences - s < trainer->micro ? setup->batch_sequences - s : trainer->micro;
        if ((status = monitor_check(setup->monitor, error)) != STATUS_OK) return status;
        const struct batch batch = batches_next(&trainer->batches, first + s, count);
        gradient_add(trainer->gradient, &batch, 1 / predictions, trainer->losses, &trainer->gradients);
        sum += losses_sum(trainer->losses, batch.tokens);
    }
    *loss = sum / predictions;
    return backend->ops->sync(backend, error);
}

/* `step` counts from 1, as in the curve and in the names of checkpoints. */
static enum status diverged(const struct trainer *trainer, const char *what, int64_t step, struct error *error)
{
    const struct schedule *schedule = &trainer->setup.schedule;
    return error_set(
        error, STATUS_NOT_FINITE,
        "training diverged: the %s step %lld is not finite (learning rate %g, peak %g); lower the peak or lengthen "
        "the warm-up",
        what, (long long)step, schedule_rate(schedule, step - 1), schedule->peak);
}

static enum status step_diverged(const struct trainer *trainer, double loss, struct error *error)
{
    return diverged(trainer, isfinite(loss) ? "gradient at" : "loss at", trainer->step + 1, error);
}

/* Computes the gradients that the optimizer needs, the last one at the point that it chooses. */
static enum status gradients_of_step(struct trainer *trainer, struct error *error)
{
    struct optimizer *optimizer = &trainer->optimizer;
    const bool two = optimizer->kind->gradients == 2;
    double loss = 0;
    enum status status;
    if (two) {
        if ((status = gradient_of_step(trainer, &trainer->loss, error)) != STATUS_OK) return status;
        if (!isfinite(trainer->loss)) return step_diverged(trainer, trainer->loss, error);
    }
    if (!optimizer_depart(optimizer, &trainer->parameters, &trainer->gradients))
        return step_diverged(trainer, 0, error);
    if ((status = gradient_of_step(trainer, two ? &loss : &trainer->loss, error)) != STATUS_OK) return status;
    if (!two) loss = trainer->loss;
    return isfinite(loss) ? STATUS_OK : step_diverged(trainer, loss, error);
}

enum status trainer_step(struct trainer *trainer, struct error *error)
{
    const double rate = schedule_rate(&trainer->setup.schedule, trainer->step);
    const enum status status = gradients_of_step(trainer, error);
    if (status != STATUS_OK) {
        optimizer_return(&trainer->optimizer, &trainer->parameters);
        return status;
    }
    if (!optimizer_step(&trainer->optimizer, &trainer->parameters, &trainer->gradients, rate, trainer->step,
                        &trainer->gradient_norm))
        return step_diverged(trainer, trainer->loss, error);
    ema_add(&trainer->ema, &trainer->parameters);
    trainer->step++;
    return STATUS_OK;
}

/* The gradients are unused between steps: they lend their buffer. */
void trainer_show_average(struct trainer *trainer)
{
    struct backend *backend = trainer->backend;
    const struct matrix shown = parameters_all(&trainer->parameters);
    backend->ops->add(backend, parameters_all(&trainer->gradients), shown, 1, 0);
    backend->ops->add(backend, shown, parameters_all(&trainer->ema.mean), 1, 0);
    trainer->shows_average = true;
}

void trainer_show_parameters(struct trainer *trainer)
{
    struct backend *backend = trainer->backend;
    if (trainer->shows_average)
        backend->ops->add(backend, parameters_all(&trainer->parameters), parameters_all(&trainer->gradients), 1, 0);
    trainer->shows_average = false;
}

int64_t trainer_chunk_tokens(const struct trainer *trainer)
{
    return trainer->micro * trainer->setup.sequence_length;
}

enum status trainer_validate(struct trainer *trainer, const struct chunks *chunks, double *loss, struct error *error)
{
    struct backend *backend = trainer->backend;
    double sum = 0;
    enum status status;
    for (int64_t i = 0; i < chunks->count; i++) {
        const struct batch *batch = &chunks->chunks[i].batch;
        if ((status = monitor_check(trainer->setup.monitor, error)) != STATUS_OK) return status;
        gradient_losses(trainer->gradient, batch, trainer->losses);
        sum += losses_sum(trainer->losses, batch->tokens);
    }
    *loss = sum / (double)chunks->predictions;
    if ((status = backend->ops->sync(backend, error)) != STATUS_OK || isfinite(*loss)) return status;
    return diverged(trainer, trainer->shows_average ? "average's validation loss after" : "validation loss after",
                    trainer->step, error);
}
