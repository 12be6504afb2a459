#include "jobs/quantize/quantize_bits.h"

#include <stdio.h>

struct parts {
    int64_t bits, elements;
};

/* Size of a tensor as stored; 0 if the file lacks it. */
static struct parts stored(const struct model *model, const char *name)
{
    struct weights_tensor tensor = {.bytes = 0};
    const int64_t index = weights_find(model->weights, name);
    if (index >= 0) weights_tensor(model->weights, index, &tensor);
    return (struct parts){tensor.bytes * 8, tensor.elements};
}

static struct parts whole(const struct model *model)
{
    const struct parameter *ends[DECODER_ENDS];
    const int count = decoder_ends_list(&model->ends, model->config.tied, ends);
    struct parts sum = {0};
    for (int i = 0; i < count; i++) {
        const struct parts one = stored(model, ends[i]->name);
        sum = (struct parts){sum.bits + one.bits, sum.elements + one.elements};
    }
    for (int64_t layer = 0; layer < model->config.layers; layer++) {
        const struct program *program = &model->programs[layer];
        for (int i = 0; i < program->parameter_count; i++) {
            if (program->parameters[i].constant) continue;
            const struct parts one = stored(model, program->parameters[i].name);
            sum = (struct parts){sum.bits + one.bits, sum.elements + one.elements};
        }
    }
    return sum;
}

double quantize_bits_of_model(const struct model *model, const struct quantize_options *options,
                              const struct layer_summary *layers, int64_t count, int64_t end_bits)
{
    const bool tied = model->config.tied, embedding = options->embedding_bits != 0, output = options->lm_head_bits != 0;
    struct parts sum = whole(model);
    for (int64_t i = 0; i < count; i++) {
        char name[PARAMETER_NAME + 8];
        if (layers[i].skipped) continue;
        (void)snprintf(name, sizeof name, "%s.weight", layers[i].name);
        struct parts one = stored(model, name);
        if (one.elements == 0) one = stored(model, layers[i].name);
        sum.bits += layers[i].bits - one.bits;
    }
    if (embedding && (output || !tied)) sum.bits -= stored(model, model->ends.embedding.name).bits;
    if (output && !tied) sum.bits -= stored(model, model->ends.output.name).bits;
    return (double)(sum.bits + end_bits) / (double)sum.elements;
}
