/* check_model.c: a tiny model whole: losses of tokens (a forward pass), the gradient (forward and back), a product of
 * its Hessian (both with tangents), and a layer by GPTQ, two blocks wide. A token's loss passes some twenty sums of at
 * most 100 terms; each leaves about 6 sqrt(100) roundings of its size. A gradient passes them twice, and a product of
 * the Hessian three times as many, with twice the terms. Tensors are held by their norm. */
#include "base/memory.h"
#include "curvature/hvp.h"
#include "model/chunks.h"
#include "model/gradient.h"
#include "model/parameters.h"
#include "quant/quantizer.h"
#include "selftest/check.h"

#include <math.h>
#include <string.h>

static const char config_text[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 50, \"hidden_size\": 32, \"num_attention_heads\": 4,"
    " \"num_key_value_heads\": 2, \"num_hidden_layers\": 2, \"intermediate_size\": 72, \"hidden_act\": \"silu\","
    " \"rms_norm_eps\": 1e-6, \"rope_theta\": 10000.0, \"max_position_embeddings\": 24,"
    " \"initializer_range\": 0.2, \"tie_word_embeddings\": false}";

enum { SEQUENCES = 2, LENGTH = 12, TOKENS = SEQUENCES * LENGTH, LOSS_ROUNDINGS = 20 * 60 };

struct subject {
    struct parameters_layout *layout;
    struct parameters parameters;
    int64_t starts[SEQUENCES + 1];
    uint32_t tokens[TOKENS];
    struct chunks chunks;
};

static void subject_reset(struct subject *subject)
{
    chunks_reset(&subject->chunks);
    parameters_reset(&subject->parameters);
    parameters_layout_free(subject->layout);
}

static enum status subject_init(struct subject *subject, struct backend *backend, struct error *error)
{
    struct model_config config;
    enum status status;
    *subject = (struct subject){.layout = NULL};
    for (int i = 0; i < TOKENS; i++) subject->tokens[i] = (uint32_t)(i * 17 % 50);
    for (int i = 0; i <= SEQUENCES; i++) subject->starts[i] = (int64_t)i * LENGTH;
    const struct sequences sequences = {SEQUENCES, subject->starts, subject->tokens};
    if ((status = config_parse("a self-test", config_text, sizeof config_text - 1, &config, error)) != STATUS_OK ||
        (status = parameters_layout_new(&config, &subject->layout, error)) != STATUS_OK ||
        (status = parameters_init(&subject->parameters, subject->layout, backend, "a self-test", error)) != STATUS_OK ||
        (status = parameters_initialise(&subject->parameters, 3, error)) != STATUS_OK)
        return status;
    return chunks_init(&sequences, TOKENS, &subject->chunks, error);
}

/* Each tensor of `all`, a buffer of the layout in the backend's memory, with a bound by its Euclidean norm. */
static enum status record_tensors(struct exam *exam, const struct parameters_layout *layout, struct matrix all,
                                  double roundings, struct error *error)
{
    double *values = NULL;
    const enum status status = memory_new(layout->elements, sizeof *values, "a self-test", &values, error);
    if (status != STATUS_OK) return status;
    exam->backend->ops->download(exam->backend, all, values, DTYPE_F64);
    for (int64_t i = 0; i < layout->tensor_count; i++) {
        const struct parameters_tensor *tensor = &layout->tensors[i];
        const int64_t count = tensor->parameter.rows * tensor->parameter.columns;
        double size = 0;
        for (int64_t k = tensor->offset; k < tensor->offset + count; k++) size += values[k] * values[k];
        exam_record_doubles(exam, tensor->parameter.name, values + tensor->offset, count,
                            roundings * EXAM_ROUNDOFF * (sqrt(size) + 1e-2));
    }
    memory_free(values);
    return STATUS_OK;
}

/* Every way of keeping activations gives bit-for-bit identical results, so one is enough. */
static void run_gradient(struct exam *exam, int64_t shape)
{
    (void)shape;
    struct subject subject;
    struct parameters sums = {0};
    struct gradient *gradient = NULL;
    struct error error;
    double losses[TOKENS];
    enum status status = subject_init(&subject, exam->backend, &error);
    if (status != STATUS_OK) goto done;
    status = parameters_init(&sums, subject.layout, exam->backend, "a self-test", &error);
    if (status != STATUS_OK) goto done;
    status = gradient_new(&subject.parameters, GRADIENT_KEEP, TOKENS, LENGTH, &gradient, &error);
    if (status != STATUS_OK) goto done;
    gradient_add(gradient, &subject.chunks.chunks[0].batch, 1 / (double)subject.chunks.predictions, losses, &sums);
    if ((status = exam->backend->ops->sync(exam->backend, &error)) != STATUS_OK) goto done;
    exam_record_doubles(exam, "losses", losses, TOKENS, LOSS_ROUNDINGS * EXAM_ROUNDOFF * 5);
    status = record_tensors(exam, subject.layout, parameters_all(&sums), 2 * LOSS_ROUNDINGS, &error);
done:
    exam_fail(exam, status, &error);
    gradient_free(gradient);
    parameters_reset(&sums);
    subject_reset(&subject);
}

static void run_hessian(struct exam *exam, int64_t shape)
{
    (void)shape;
    struct subject subject;
    struct hvp *hvp = NULL;
    struct matrix vector = {0}, product = {0};
    struct error error;
    enum status status = subject_init(&subject, exam->backend, &error);
    if (status != STATUS_OK) goto done;
    if ((status = hvp_new(&subject.parameters, &subject.chunks, HVP_KEEP_VALUES, NULL, &hvp, &error)) != STATUS_OK)
        goto done;
    const struct symmetric_operator *hessian = hvp_operator(hvp);
    if ((status = vector_new(&hessian->space, "a self-test", &vector, &error)) != STATUS_OK) goto done;
    if ((status = vector_new(&hessian->space, "a self-test", &product, &error)) != STATUS_OK) goto done;
    vector_rademacher(&hessian->space, 5, 0, vector);
    if ((status = operator_apply(hessian, vector, product, &error)) != STATUS_OK) goto done;
    status = record_tensors(exam, subject.layout, vector_part(product, 0, subject.layout->elements), 6 * LOSS_ROUNDINGS,
                            &error);
done:
    exam_fail(exam, status, &error);
    matrix_release(exam->backend, &vector);
    matrix_release(exam->backend, &product);
    hvp_free(hvp);
    subject_reset(&subject);
}

/* With another rounding of the Hessian, a few of some thousand weights may be rounded the other way, each by one step:
 * a twentieth of the layer's error. */
static void run_gptq(struct exam *exam, int64_t shape)
{
    enum { OUTPUTS = 24, INPUTS = 136, SAMPLES = 60 };
    struct backend *backend = exam->backend;
    struct quantize_method method = {.quantizer = QUANTIZER_GPTQ, .gptq = {4, 16, shape == 0, shape != 0, false, 0.05}};
    struct quantized_layer layer = {0};
    struct error error;
    const struct matrix weight = exam_random(exam, OUTPUTS, INPUTS, 0, 0.3),
                        x = exam_random(exam, SAMPLES, INPUTS, 0, 1), hessian = exam_filled(exam, INPUTS, INPUTS, 0, 0);
    const struct quantize_linear linear = {"a self-test", weight};
    const struct quantize_task task = {.linears = &linear, .count = 1, .inputs = {.hessian = hessian}};
    if (exam->status != STATUS_OK) return;
    backend->ops->syrk(backend, hessian, x, 2.0 / SAMPLES, 0);
    enum status status = quantizer_gptq.complete(&method, &error);
    if (status == STATUS_OK) status = quantizer_gptq.quantize(backend, &method, &task, &layer, &error);
    exam_fail(exam, status, &error);
    exam_record_number(exam, "error of the layer", layer.proxy_error, 0.05 * layer.proxy_error);
    exam_record_number(exam, "part of the layer", layer.relative_error, 0.05 * layer.relative_error);
    exam_record_number(exam, "damping", layer.damp, 0);
    exam_record(exam, "weights", weight, INFINITY, 1); /* for repetitions */
    quantized_layer_reset(&layer);
}

const struct check check_model[] = {
    {"a model: losses and gradient", run_gradient, 1, CHECK_DOUBLES, NULL},
    {"a model: product of the Hessian", run_hessian, 1, CHECK_DOUBLES, NULL},
    {"a layer by gptq", run_gptq, 2, CHECK_FLOATS, NULL},
    {0},
};
