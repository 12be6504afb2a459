#include "geometry/family.h"

#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare_names(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* Writes the names of `model`'s parameters to names; returns their number. With `names` NULL it only counts. */
static int64_t list_names(const struct model *model, const char **names)
{
    const struct parameter *ends[DECODER_ENDS];
    const int end_count = decoder_ends_list(&model->ends, model->config.tied, ends);
    int64_t count = 0;
    for (int i = 0; i < end_count; i++) {
        if (names != NULL) names[count] = ends[i]->name;
        count++;
    }
    for (int64_t layer = 0; layer < model->config.layers; layer++)
        for (int i = 0; i < model->programs[layer].parameter_count; i++) {
            if (weights_find(model->weights, model->programs[layer].parameters[i].name) < 0)
                continue; /* a constant that the file omits */
            if (names != NULL) names[count] = model->programs[layer].parameters[i].name;
            count++;
        }
    return count;
}

static enum status check_settings(const struct family *family, struct error *error)
{
    for (int64_t k = 1; k < family->count; k++) {
        const char *name = config_difference(&family->models[0]->config, &family->models[k]->config);
        if (name != NULL)
            return error_set(error, STATUS_INVALID,
                             "checkpoints \"%.120s\" and \"%.120s\" differ in %s: they must be of one model",
                             family->labels[0], family->labels[k], name);
    }
    return STATUS_OK;
}

static enum status list_tensors(struct family *family, struct error *error)
{
    const struct model *model = family->models[0];
    enum status status;
    family->tensors = list_names(model, NULL);
    if ((status = memory_new(family->tensors, sizeof *family->names, "tensor list", &family->names, error)) !=
            STATUS_OK ||
        (status = memory_new(family->tensors, sizeof(int64_t), "tensor list", &family->elements, error)) != STATUS_OK ||
        (status = memory_new(family->tensors * family->count, sizeof(int64_t), "tensor list", &family->indexes,
                             error)) != STATUS_OK)
        return status;
    (void)list_names(model, family->names);
    qsort(family->names, (size_t)family->tensors, sizeof *family->names, compare_names);
    for (int64_t t = 0; t < family->tensors; t++) {
        struct weights_tensor tensor;
        for (int64_t k = 0; k < family->count; k++)
            family->indexes[t * family->count + k] = weights_find(family->sources[k], family->names[t]);
        weights_tensor(model->weights, family->indexes[t * family->count], &tensor);
        family->elements[t] = tensor.elements;
        family->parameters += tensor.elements;
    }
    return STATUS_OK;
}

/* Checks that the tensors agree by making a combination. */
static enum status check_tensors(const struct family *family, struct error *error)
{
    struct weights_mix *mix = NULL;
    double *ones = NULL;
    enum status status = memory_new(family->count, sizeof *ones, "coefficients", &ones, error);
    if (status == STATUS_OK) status = family_mix(family, ones, 1, &mix, error);
    weights_mix_close(mix);
    memory_free(ones);
    return status;
}

enum status family_init(const struct model *const *models, const char *const *labels, int64_t count, struct family *out,
                        struct error *error)
{
    enum status status;
    *out = (struct family){.count = count, .models = models, .labels = labels};
    if ((status = memory_new(count, sizeof *out->sources, "checkpoint list", &out->sources, error)) != STATUS_OK)
        goto done;
    for (int64_t k = 0; k < count; k++) out->sources[k] = models[k]->weights;
    if ((status = list_tensors(out, error)) != STATUS_OK) goto done;
    if ((status = check_settings(out, error)) != STATUS_OK) goto done;
    status = check_tensors(out, error);
done:
    if (status != STATUS_OK) family_reset(out);
    return status;
}

void family_reset(struct family *family)
{
    memory_free(family->sources);
    memory_free(family->names);
    memory_free(family->elements);
    memory_free(family->indexes);
    *family = (struct family){0};
}

enum status family_read(const struct family *family, int64_t member, int64_t tensor, int64_t first, int64_t count,
                        float *out, struct error *error)
{
    const int64_t index = family->indexes[tensor * family->count + member];
    const enum status status = weights_read_f32(family->sources[member], index, first, count, out, error);
    for (int64_t i = 0; i < count && status == STATUS_OK; i++)
        if (!isfinite(out[i]))
            return error_set(error, STATUS_NOT_FINITE,
                             "tensor \"%.200s\" of checkpoint \"%.80s\" is not finite: element %lld is %s",
                             family->names[tensor], family->labels[member], (long long)(first + i),
                             isnan(out[i]) ? "NaN" : "infinite");
    return status;
}

enum status family_mix(const struct family *family, const double *coefficients, double divisor,
                       struct weights_mix **out, struct error *error)
{
    const struct weights_mix_request request = {
        .sources = family->sources,
        .coefficients = coefficients,
        .divisor = divisor,
        .count = family->count,
        .names = family->names,
        .tensors = family->tensors,
        .labels = family->labels,
    };
    return weights_mix_new(&request, out, error);
}

enum status family_model(const struct family *family, const double *coefficients, double divisor, struct model **out,
                         struct error *error)
{
    struct weights_mix *mix = NULL;
    struct weights *weights = NULL;
    enum status status = family_mix(family, coefficients, divisor, &mix, error);
    *out = NULL;
    if (status == STATUS_OK) status = weights_mix_open(mix, &weights, error);
    return status == STATUS_OK ? model_of_weights(weights, out, error) : status;
}

int64_t family_model_bytes(const struct family *family)
{
    const int64_t programs = family->models[0]->config.layers * (int64_t)sizeof(struct program);
    return programs + family->tensors * family->count * (int64_t)sizeof(int64_t);
}

int64_t family_stored_bytes(const struct family *family)
{
    int64_t bytes = 0;
    for (int64_t t = 0; t < family->tensors; t++)
        for (int64_t k = 0; k < family->count; k++) {
            struct weights_tensor tensor;
            weights_tensor(family->sources[k], family->indexes[t * family->count + k], &tensor);
            bytes += tensor.bytes;
        }
    return bytes;
}
