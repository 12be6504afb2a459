#include "jobs/train_plan.h"
#include "jobs/train.h"
#include "model/config.h"

#include <stdio.h>

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
                            "sequences of %lld tokens are longer than the model's %lld positions",
                            (long long)params->sequence_length, (long long)config->maximum_positions);
    const int64_t needed = params->tokenizer.name == TRAIN_TOKENIZER_BYTES     ? 256
                           : params->tokenizer.name == TRAIN_TOKENIZER_LEARNED ? params->tokenizer.vocabulary_size
                                                                               : 0;
    if (needed > config->vocabulary_size)
        return error_set_at(error, STATUS_INVALID, "/params/model", "the tokenizer has %lld tokens, the model a vocab_size of %lld",
                            (long long)needed, (long long)config->vocabulary_size);
    return STATUS_OK;
}
