#include "jobs/train.h"
#include "jobs/train_plan.h"
#include "model/config.h"

#include <stdio.h>
#include <string.h>

int64_t train_plan_steps(const struct train_params *params, int64_t tokens)
{
    const int64_t step = params->batch_sequences * params->sequence_length;
    return tokens / step + (tokens % step != 0);
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
        .total = train_plan_steps(params, params->tokens),
    };
}

enum status train_plan_blame(enum status status, const char *pointer, struct error *error)
{
    if (status != STATUS_OK && error->pointer[0] == '\0') (void)snprintf(error->pointer, sizeof error->pointer, "%s", pointer);
    return status;
}

enum status train_plan_fit(const struct train_params *params, const struct model_config *config, struct error *error)
{
    if (params->sequence_length > config->maximum_positions)
        return error_set_at(error, STATUS_INVALID, "/params/sequence_length",
                            "sequences of %lld tokens are longer than the model's %lld positions", (long long)params->sequence_length,
                            (long long)config->maximum_positions);
    const int64_t needed = params->tokenizer.name == TRAIN_TOKENIZER_BYTES     ? 256
                           : params->tokenizer.name == TRAIN_TOKENIZER_LEARNED ? params->tokenizer.vocabulary_size
                                                                               : 0;
    if (needed > config->vocabulary_size)
        return error_set_at(error, STATUS_INVALID, "/params/model", "the tokenizer has %lld tokens, the model a vocab_size of %lld",
                            (long long)needed, (long long)config->vocabulary_size);
    return STATUS_OK;
}

enum status train_check(const struct train_params *params, struct error *error)
{
    const struct schedule schedule = train_plan_schedule(params);
    struct model_config config;
    enum status status;
    if (params->model != NULL && params->from != NULL)
        return error_set_at(error, STATUS_INVALID, "/params/model", "a run that continues from a checkpoint has its model; leave it out");
    if (params->model == NULL && params->from == NULL)
        return error_set_at(error, STATUS_INVALID, "/params/model", "give a model configuration, or a checkpoint in \"from\"");
    if (params->from != NULL && params->tokenizer.name != TRAIN_TOKENIZER_NONE)
        return error_set_at(error, STATUS_INVALID, "/params/tokenizer",
                            "a run that continues from a checkpoint has its tokenizer; leave it out");
    if ((status = schedule_check(&schedule, error)) != STATUS_OK) return train_plan_blame(status, "/params/schedule", error);
    if (params->from != NULL) return STATUS_OK;
    if ((status = config_parse("model", params->model, strlen(params->model), &config, error)) != STATUS_OK)
        return train_plan_blame(status, "/params/model", error);
    return train_plan_fit(params, &config, error);
}
