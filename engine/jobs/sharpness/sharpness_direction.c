#include "jobs/sharpness/sharpness_direction.h"

#include "base/memory.h"
#include "curvature/sampling.h"
#include "jobs/quantize/quantize.h"

#include <math.h>
#include <stdio.h>

/* Collects d = quantized - original while a model is quantized. */
struct collector {
    const struct parameters *parameters, *error;
    struct sharpness_direction *out;
    int64_t *tensors; /* of each layer collected */
};

int64_t sharpness_direction_tensor(const struct parameters_layout *layout, const char *layer)
{
    char full[PARAMETER_NAME + 8];
    (void)snprintf(full, sizeof full, "%s.weight", layer);
    return parameters_find(layout, full);
}

static enum status note_layer(void *owner, const char *name, const struct quantized_layer *layer, struct matrix weight,
                              struct error *error)
{
    struct collector *collector = owner;
    struct backend *backend = collector->parameters->backend;
    (void)layer;
    const int64_t tensor = sharpness_direction_tensor(collector->parameters->layout, name);
    if (tensor < 0)
        return error_set(error, STATUS_INTERNAL, "a quantized layer \"%s\" is not among the parameters", name);
    const struct matrix difference = parameters_view(collector->error, tensor);
    backend->ops->add(backend, difference, weight, 1, 0);
    backend->ops->add(backend, difference, parameters_view(collector->parameters, tensor), -1, 1);
    struct sharpness_direction *out = collector->out;
    collector->tensors[out->layer_count] = tensor;
    (void)snprintf(out->layers[out->layer_count++].name, sizeof out->layers[0].name, "%s", name);
    return STATUS_OK;
}

static enum status quantize(const struct sharpness_request *request, struct collector *collector, struct error *error)
{
    struct quantize_result found = {0};
    const struct quantize_request asked = {
        .model = request->model,
        .backend = request->backend,
        .method = *request->direction,
        .calibration = request->calibration,
        .evaluation = request->sequences,
        .monitor = &(struct monitor){request->monitor == NULL ? NULL : request->monitor->owner, NULL, NULL,
                                     request->monitor == NULL ? NULL : request->monitor->check},
        .hook = {collector, note_layer},
    };
    const enum status status = quantize_run(&asked, &found, error);
    if (status == STATUS_OK) {
        collector->out->measured_delta = found.delta;
        collector->out->measured_loss = found.q.loss;
        collector->out->kl = found.kl;
    }
    quantize_result_reset(&found);
    return status;
}

static int64_t block_of(const struct parameters_layout *layout, int64_t tensor)
{
    int64_t block = 0;
    while (block + 1 < layout->config.layers && layout->blocks[block + 1] <= tensor) block++;
    return block;
}

static void sum_terms(const struct parameters *d, const struct parameters *gradient, const struct parameters *product,
                      const int64_t *tensors, struct sharpness_direction *out)
{
    struct backend *backend = d->backend;
    double squares = 0;
    for (int64_t i = 0; i < out->layer_count; i++) {
        const struct matrix part = parameters_view(d, tensors[i]);
        struct sharpness_part *layer = &out->layers[i], *block = &out->blocks[block_of(d->layout, tensors[i])];
        layer->gradient_term = backend->ops->dot(backend, parameters_view(gradient, tensors[i]), part);
        layer->curvature_term = backend->ops->dot(backend, parameters_view(product, tensors[i]), part) / 2;
        block->gradient_term += layer->gradient_term;
        block->curvature_term += layer->curvature_term;
        out->gradient_term += layer->gradient_term;
        out->curvature_term += layer->curvature_term;
        squares += backend->ops->dot(backend, part, part);
    }
    out->norm = sqrt(squares);
}

static enum status parts_new(const struct parameters_layout *layout, struct sharpness_direction *out,
                             struct error *error)
{
    const int64_t blocks = layout->config.layers;
    enum status status = memory_new(layout->tensor_count, sizeof *out->layers, "layer results", &out->layers, error);
    if (status == STATUS_OK) status = memory_new(blocks, sizeof *out->blocks, "block results", &out->blocks, error);
    out->block_count = status == STATUS_OK ? blocks : 0;
    for (int64_t i = 0; i < out->block_count; i++)
        (void)snprintf(out->blocks[i].name, sizeof out->blocks[i].name, "%lld", (long long)i);
    return status;
}

enum status sharpness_direction_run(const struct sharpness_request *request, const struct parameters *parameters,
                                    const struct symmetric_operator *op, struct matrix gradient,
                                    struct matrix *direction, struct sharpness_direction *out, struct error *error)
{
    const struct parameters_layout *layout = parameters->layout;
    struct backend *backend = parameters->backend;
    struct matrix product = {0};
    int64_t *tensors = NULL;
    enum status status;
    if ((status = parts_new(layout, out, error)) != STATUS_OK) goto done;
    if ((status = memory_new(layout->tensor_count, sizeof *tensors, "layer results", &tensors, error)) != STATUS_OK)
        goto done;
    if ((status = vector_new(&op->space, "the quantization error", direction, error)) != STATUS_OK) goto done;
    const struct parameters d = {layout, backend, direction->data};
    struct collector collector = {parameters, &d, out, tensors};
    if ((status = quantize(request, &collector, error)) != STATUS_OK) goto done;
    if ((status = vector_new(&op->space, "a product", &product, error)) != STATUS_OK) goto done;
    if ((status = operator_apply(op, *direction, product, error)) != STATUS_OK) goto done;
    const struct parameters g = {layout, backend, gradient.data}, hd = {layout, backend, product.data};
    sum_terms(&d, &g, &hd, tensors, out);
done:
    matrix_release(backend, &product);
    memory_free(tensors);
    return status;
}

enum status sharpness_direction_sample(const struct sharpness_request *request, const struct parameters *parameters,
                                       int64_t chunk_tokens, enum hvp_mode mode, struct matrix direction,
                                       struct matrix scratch, struct sharpness_direction *out, struct error *error)
{
    struct sampling sampling;
    double halves[SAMPLING_UNITS] = {0}, sums[SAMPLING_UNITS] = {0};
    out->units = 1;
    out->degrees = sampling_degrees(request->sequences);
    out->gradient_error = out->curvature_error = out->predicted_error = NAN;
    if (request->sequences->count < 2) return STATUS_OK;
    const enum status status = sampling_along(parameters, request->sequences, SAMPLING_ALL, chunk_tokens, mode,
                                              direction, scratch, request->monitor, &sampling, error);
    if (status != STATUS_OK) return status;
    for (int64_t i = 0; i < sampling.units; i++) {
        halves[i] = sampling.curvatures[i] / 2;
        sums[i] = sampling.slopes[i] + halves[i];
    }
    out->units = sampling.units;
    out->gradient_error = sampling_error(&sampling, sampling.slopes, NULL);
    out->curvature_error = sampling_error(&sampling, halves, NULL);
    out->predicted_error = sampling_error(&sampling, sums, sampling.losses);
    return STATUS_OK;
}
