#include "jobs/train/train_plan.h"

#include "base/integer.h"
#include "base/memory.h"
#include "files/file.h"
#include "jobs/train/train_curve.h"
#include "model/config.h"
#include "model/config_keys.h"
#include "model/work.h"

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

int64_t train_plan_steps(const struct train_params *params, int64_t tokens)
{
    return ceil_divide(tokens, params->batch_sequences * params->sequence_length);
}

struct schedule train_plan_schedule(const struct train_params *params)
{
    return (struct schedule){
        .kind = (enum schedule_kind)params->schedule.name,
        .peak = params->schedule.peak,
        .final = params->schedule.final,
        .warmup = train_plan_steps(params, params->schedule.warmup),
        .decay = train_plan_steps(params, params->schedule.decay),
        .shape = (enum schedule_shape)params->schedule.shape,
        .start = train_plan_steps(params, params->schedule.start),
        .period = train_plan_steps(params, params->schedule.period),
        .growth = params->schedule.growth,
        .total = train_plan_steps(params, params->tokens),
    };
}

/* Steps after which a run writes. */
static int64_t stops_of(const struct train_params *params)
{
    const int64_t steps = train_plan_steps(params, params->tokens);
    return params->checkpoint_every > 0 ? ceil_divide(steps, train_plan_steps(params, params->checkpoint_every)) : 1;
}

static enum status stops_check(const struct train_params *params, struct error *error)
{
    const int64_t steps = train_plan_steps(params, params->tokens), stops = stops_of(params);
    if (stops <= TRAIN_STOPS_MOST) return STATUS_OK;
    return error_set_at(
        error, STATUS_INVALID, "/params/checkpoint_every",
        "makes %lld checkpoints, at most %d can be made: give %lld tokens or more, or 0", (long long)stops,
        TRAIN_STOPS_MOST,
        (long long)(ceil_divide(steps, TRAIN_STOPS_MOST) * params->batch_sequences * params->sequence_length));
}

enum status train_plan_blame(enum status status, const char *pointer, struct error *error)
{
    if (status != STATUS_OK && error->pointer[0] == '\0')
        (void)snprintf(error->pointer, sizeof error->pointer, "%s", pointer);
    return status;
}

enum status train_plan_fit(const struct train_params *params, const struct model_config *config, struct error *error)
{
    if (params->sequence_length > config->maximum_positions)
        return error_set_at(error, STATUS_INVALID, "/params/sequence_length",
                            "sequences of %lld tokens are longer than the model's %lld positions",
                            (long long)params->sequence_length, (long long)config->maximum_positions);
    const int64_t needed = params->tokenizer.name == TRAIN_TOKENIZER_BYTES     ? 256
                           : params->tokenizer.name == TRAIN_TOKENIZER_LEARNED ? params->tokenizer.vocabulary_size
                                                                               : 0;
    if (needed > config->vocabulary_size)
        return error_set_at(error, STATUS_INVALID, "/params/model",
                            "the tokenizer has %lld tokens, the model a vocab_size of %lld", (long long)needed,
                            (long long)config->vocabulary_size);
    return STATUS_OK;
}

enum status train_check(const struct train_params *params, struct error *error)
{
    const struct schedule schedule = train_plan_schedule(params);
    struct model_config config;
    enum status status;
    if (params->model != NULL && params->from != NULL)
        return error_set_at(error, STATUS_INVALID, "/params/model",
                            "a run that continues from a checkpoint has its model; leave it out");
    if (params->model == NULL && params->from == NULL)
        return error_set_at(error, STATUS_INVALID, "/params/model",
                            "give a model configuration, or a checkpoint in \"from\"");
    if (params->from != NULL && params->tokenizer.name != TRAIN_TOKENIZER_NONE)
        return error_set_at(error, STATUS_INVALID, "/params/tokenizer",
                            "a run that continues from a checkpoint has its tokenizer; leave it out");
    if ((status = stops_check(params, error)) != STATUS_OK) return status;
    if ((status = schedule_check(&schedule, error)) != STATUS_OK)
        return train_plan_blame(status, "/params/schedule", error);
    if (optimizer_kinds[params->optimizer.name]->keeps_rate && schedule_falls(&schedule))
        return error_set_at(
            error, STATUS_INVALID, schedule.kind == SCHEDULE_WSD ? "/params/schedule/decay" : "/params/schedule/name",
            "%s averages instead of lowering the learning rate; give \"constant\", or \"wsd\" with decay 0",
            optimizer_kinds[params->optimizer.name]->name);
    if (params->from != NULL) return STATUS_OK;
    status = config_keys_check("model", "/params/model", params->model, strlen(params->model), error);
    if (status == STATUS_OK) status = config_parse("model", params->model, strlen(params->model), &config, error);
    if (status != STATUS_OK) return train_plan_blame(status, "/params/model", error);
    if (!(config.initializer_range >= 0))
        return error_set_at(error, STATUS_INVALID, "/params/model",
                            "the standard deviation of fresh weights is %g; it must not be negative",
                            config.initializer_range);
    return train_plan_fit(params, &config, error);
}

/* Blames the length that takes the schedule from its peak at the checkpoint. `jump` follows "the rate would jump". */
static enum status check_peak(const struct train_params *params, int64_t step, const char *jump, struct error *error)
{
    const struct schedule schedule = train_plan_schedule(params);
    const int64_t tokens = params->batch_sequences * params->sequence_length, bend = schedule_bend(&schedule);
    const long long at = (long long)step;
    if (schedule.warmup > step)
        return error_set_at(error, STATUS_INVALID, "/params/schedule/warmup",
                            "the warm-up ends at step %lld, after step %lld of the checkpoint, where the rate would "
                            "jump%s; at most %lld tokens fit",
                            (long long)schedule.warmup, at, jump, (long long)(step * tokens));
    if (bend >= step) return STATUS_OK;
    if (schedule.kind == SCHEDULE_WSD)
        return error_set_at(error, STATUS_INVALID, "/params/schedule/decay",
                            "the decay begins at step %lld, before step %lld of the checkpoint, where the rate would "
                            "jump%s; at most %lld tokens fit",
                            (long long)bend, at, jump, (long long)((schedule.total - step) * tokens));
    if (schedule_cycles(&schedule))
        return error_set_at(error, STATUS_INVALID, "/params/schedule/start",
                            "the cycles begin at step %lld, before step %lld of the checkpoint, where the rate would "
                            "jump%s; give %lld tokens or more",
                            (long long)bend, at, jump, (long long)(step * tokens));
    return error_set_at(error, STATUS_INVALID, "/params/schedule/name",
                        "\"%s\" falls from step %lld on, before step %lld of the checkpoint, where the rate would "
                        "jump%s; give \"wsd\", whose decay has at most %lld tokens, or \"constant\"",
                        schedule_names[schedule.kind], (long long)bend, at, jump,
                        (long long)((schedule.total - step) * tokens));
}

/* Learning rates that differ by less are one: a rate is printed, and posted again, with six digits. */
#define RATE_ROUNDING 1e-5

static bool same_rate(double a, double b)
{
    return fabs(a - b) <= RATE_ROUNDING * fmax(a, b);
}

/* `seen`: the tokens of the steps before the checkpoint. */
static enum status check_ahead(const struct train_params *params, int64_t step, int64_t seen, struct error *error)
{
    if (step < train_plan_steps(params, params->tokens)) return STATUS_OK;
    return error_set_at(
        error, STATUS_INVALID, "/params/tokens",
        "the checkpoint to continue from has seen %lld tokens already; \"tokens\" counts from the very start",
        (long long)seen);
}

enum status train_check_state(const struct train_params *params, const struct state_about *state, struct error *error)
{
    const struct optimizer_kind *optimizer = optimizer_kinds[params->optimizer.name];
    if (state->batch_sequences != params->batch_sequences || state->sequence_length != params->sequence_length)
        return error_set_at(
            error, STATUS_INVALID, "/params/batch_sequences",
            "the run to continue took %lld sequences of %lld tokens a step, this one asks for %lld of %lld",
            (long long)state->batch_sequences, (long long)state->sequence_length, (long long)params->batch_sequences,
            (long long)params->sequence_length);
    if (strcmp(state->optimizer, optimizer->state) != 0)
        return error_set_at(error, STATUS_INVALID, "/params/optimizer",
                            "the checkpoint has the state of optimizer \"%s\", which \"%s\" cannot go on with",
                            state->optimizer, optimizer->name);
    if (params->ema.decay > 0 && state->ema_updates > 0 && state->ema_decay != params->ema.decay)
        return error_set_at(error, STATUS_INVALID, "/params/ema/decay",
                            "the average to go on with decays by %g, this run asks for %g; give the same, or none",
                            state->ema_decay, params->ema.decay);
    return check_ahead(params, state->step,
                       saturating_multiply(state->step, params->batch_sequences * params->sequence_length), error);
}

enum status train_check_branch(const struct train_params *params, int64_t step, const struct train_params *trunk,
                               struct error *error)
{
    const struct train_params *made = trunk != NULL ? trunk : params;
    const struct schedule schedule = train_plan_schedule(params);
    char jump[80], own[120] = "";
    const enum status ahead =
        check_ahead(params, step, saturating_multiply(step, made->batch_sequences * made->sequence_length), error);
    if (ahead != STATUS_OK) return ahead;
    if (trunk == NULL) return check_peak(params, step, "", error);
    const struct schedule before = train_plan_schedule(trunk);
    const double next = schedule_rate(&before, step), last = step > 0 ? schedule_rate(&before, step - 1) : next;
    const double rate = schedule_rate(&schedule, step), held = last > 0 ? last : next;
    if (same_rate(rate, last) || same_rate(rate, next)) return STATUS_OK;
    (void)snprintf(jump, sizeof jump, " from %.6g to %.6g", held, rate);
    if (same_rate(schedule.peak, held)) return check_peak(params, step, jump, error);
    if (step < before.total)
        (void)snprintf(own, sizeof own, ", or the schedule of the run that made it, with its %lld tokens",
                       (long long)trunk->tokens);
    return error_set_at(error, STATUS_INVALID, "/params/schedule",
                        "the learning rate would jump%s at step %lld of the checkpoint; give a schedule that has %.6g "
                        "there, such as \"constant\" with that peak%s",
                        jump, (long long)step, held, own);
}

struct trainer_setup train_plan_setup(const struct train_params *params, int64_t memory_limit)
{
    return (struct trainer_setup){
        .optimizer = optimizer_kinds[params->optimizer.name],
        .settings = params->optimizer.settings,
        .ema_decay = params->ema.decay,
        .schedule = train_plan_schedule(params),
        .batch_sequences = params->batch_sequences,
        .sequence_length = params->sequence_length,
        .seed = (uint64_t)params->seed,
        .memory_limit = memory_limit,
    };
}

static enum status config_of(const struct train_request *request, struct model_config *config, struct error *error)
{
    char path[PATH_MAX], *text = NULL;
    size_t size = 0;
    enum status status = STATUS_OK;
    if (request->params->model != NULL)
        return config_parse("model", request->params->model, strlen(request->params->model), config, error);
    (void)snprintf(path, sizeof path, "%s/config.json", request->from);
    if ((status = file_read_all(AT_FDCWD, path, TRAIN_PLAN_CONFIG_LIMIT, &text, &size, error)) == STATUS_OK)
        status = config_parse("config.json", text, size, config, error);
    memory_free(text);
    return status;
}

/* Forward over one sequence. */
static double sequence_work(const struct parameters_layout *layout, int64_t length, double *head)
{
    const int64_t starts[] = {0, length};
    struct chunk chunk = {.batch = {.tokens = length, .sequences = 1, .longest = length, .starts = starts}};
    const struct chunks chunks = {
        .count = 1, .chunks = &chunk, .tokens = length, .sequences = 1, .longest = length, .largest = length};
    *head = work_head(&layout->config, length);
    return work_blocks(&layout->config, layout->programs, &chunks);
}

/* A gradient costs three forward passes, or four if blocks are recomputed. */
static void work_fill(const struct train_params *params, const struct parameters_layout *layout,
                      enum gradient_mode mode, struct run_plan *out)
{
    const struct optimizer_kind *optimizer = optimizer_kinds[params->optimizer.name];
    const int64_t steps = train_plan_steps(params, params->tokens), stops = stops_of(params);
    const int64_t averages = params->ema.decay > 0 ? 1 : 0;
    const double sequences = (double)(steps * params->batch_sequences * optimizer->gradients);
    double head = 0;
    const double blocks = sequence_work(layout, params->sequence_length, &head);
    out->tokens = steps * params->batch_sequences * optimizer->gradients * params->sequence_length;
    out->flops = sequences * ((mode == GRADIENT_KEEP ? 3 : 4) * blocks + 3 * head) +
                 optimizer_work(optimizer, &params->optimizer.settings, layout, steps);
    if (params->validation != NULL) {
        const int64_t measured = saturating_multiply(stops * (1 + averages), params->validation_sequences);
        out->tokens = saturating_add(out->tokens, saturating_multiply(measured, params->sequence_length));
        out->flops += (double)measured * (blocks + head);
    }
    const int64_t weights = layout->numbers * (params->dtype == TRAIN_DTYPE_BF16 ? 2 : 4);
    const int64_t kept = optimizer_memory(optimizer, &params->optimizer.settings, layout).kept;
    const int64_t state =
        ((1 + optimizer_buffers(optimizer) + averages) * layout->elements + kept) * (int64_t)sizeof(float);
    const int64_t stop = (1 + averages) * weights + (params->keep_state ? state : 0);
    out->written_bytes =
        saturating_add(saturating_multiply(stops, stop), saturating_add(state, train_curve_disk_bytes(steps)));
    plan_take(out, PLAN_DISK, out->written_bytes);
    out->at_most = true; /* a continued run has done some of the steps, and validation texts may be fewer */
}

enum status train_plan_run(const struct train_request *request, int64_t token_count, struct run_plan *out,
                           struct error *error)
{
    struct backend *backend = request->backend;
    struct parameters_layout *layout = NULL;
    struct model_config config;
    enum status status;
    *out = (struct run_plan){.flops = 0};
    if ((status = config_of(request, &config, error)) != STATUS_OK) return status;
    if ((status = train_plan_fit(request->params, &config, error)) != STATUS_OK) return status;
    if ((status = parameters_layout_new(&config, &layout, error)) != STATUS_OK) return status;
    struct trainer_setup setup = train_plan_setup(
        request->params, request->memory_limit > 0 ? request->memory_limit : backend->ops->memory(backend));
    setup.token_count = token_count;
    const enum gradient_mode mode = trainer_plan(layout, backend, &setup, out);
    plan_take(out, PLAN_HOST, train_curve_bytes(setup.schedule.total));
    work_fill(request->params, layout, mode, out);
    parameters_layout_free(layout);
    return STATUS_OK;
}
