#include "jobs/quantize/quantized_copy.h"

#include "base/checksum.h"
#include "base/memory.h"
#include "base/version.h"
#include "files/file.h"
#include "files/file_writer.h"
#include "formats/safetensors/safetensors.h"
#include "jobs/quantize/quantize.h"
#include "jobs/weights_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct quantized_copy_input {
    char name[PARAMETER_NAME]; /* of the weight */
    struct activation treatment;
    int64_t columns;
    float *arrays; /* [2][columns]: smoothing factors (1 without smoothing); and 1 for spared columns, else 0; owned */
    bool *spared;  /* [columns], or NULL; owned */
};

/* Written last, so that a copy with a seal is complete. */
struct seal {
    char magic[8];
    uint64_t fingerprint;
    double bits_per_weight;
};
static const char seal_magic[8] = "deltaqQ1";

struct maker {
    const struct quantized_copy_request *request;
    struct quantized_copy *out;
    struct weights_writer *writer;
    bool *written; /* by tensor of the model */
};

static enum status path_of(const struct quantized_copy_request *request, const char *name, char out[PATH_MAX],
                           struct error *error)
{
    if (snprintf(out, PATH_MAX, "%s/quantized%s", request->directory, name) < PATH_MAX) return STATUS_OK;
    return error_set(error, STATUS_INVALID, "a work directory's path is too long");
}

static uint64_t seal_fingerprint(const struct quantized_copy_request *request)
{
    struct checksum sum;
    const int64_t revision = ENGINE_REVISION;
    checksum_init(&sum);
    checksum_add(&sum, &revision, sizeof revision);
    checksum_add(&sum, &request->fingerprint, sizeof request->fingerprint);
    return checksum_value(&sum);
}

/* ---- the treatment of inputs ---- */

/* A tensor of the file of inputs: bits, threshold, exact, whether smoothed, whether columns are spared; then
 * `arrays`. */
enum { HEADER = 5 };

static enum status input_add(struct quantized_copy *copy, const char *name, const float header[HEADER], int64_t columns,
                             const float *arrays, struct error *error)
{
    struct quantized_copy_input *grown = NULL;
    enum status status = memory_new(copy->input_count + 1, sizeof *grown, "treated inputs", &grown, error);
    if (status != STATUS_OK) return status;
    if (copy->input_count > 0) memcpy(grown, copy->inputs, (size_t)copy->input_count * sizeof *grown);
    memory_free(copy->inputs);
    copy->inputs = grown;
    struct quantized_copy_input *input = &grown[copy->input_count++];
    (void)snprintf(input->name, sizeof input->name, "%s", name);
    input->treatment =
        (struct activation){.bits = (int)header[0], .threshold = (double)header[1], .exact = header[2] != 0};
    input->columns = columns;
    copy->across_text = copy->across_text || input->treatment.threshold > 0;
    if ((status = memory_new(2 * columns, sizeof *arrays, "treated inputs", &input->arrays, error)) != STATUS_OK)
        return status;
    if ((status = memory_new(columns, sizeof *input->spared, "treated inputs", &input->spared, error)) != STATUS_OK)
        return status;
    memcpy(input->arrays, arrays, 2 * (size_t)columns * sizeof *arrays);
    for (int64_t c = 0; c < columns; c++) input->spared[c] = arrays[columns + c] != 0;
    if (header[3] != 0) input->treatment.smoothing = input->arrays;
    if (header[4] != 0) input->treatment.spared = input->spared;
    return STATUS_OK;
}

static enum status input_write(struct safetensors_writer *writer, int64_t index,
                               const struct quantized_copy_input *input, struct error *error)
{
    const struct activation *treatment = &input->treatment;
    const float header[HEADER] = {(float)treatment->bits, (float)treatment->threshold, treatment->exact,
                                  treatment->smoothing != NULL, treatment->spared != NULL};
    const enum status status = safetensors_writer_f32(writer, index, header, HEADER, error);
    if (status != STATUS_OK) return status;
    return safetensors_writer_f32(writer, index, input->arrays, 2 * input->columns, error);
}

static enum status inputs_write(const struct quantized_copy_request *request, const struct quantized_copy *copy,
                                struct error *error)
{
    struct safetensors_writer *writer = NULL;
    struct safetensors_entry *entries = NULL;
    int64_t *sizes = NULL;
    char path[PATH_MAX];
    enum status status;
    if (copy->input_count == 0) return STATUS_OK;
    if ((status = path_of(request, ".inputs", path, error)) != STATUS_OK) return status;
    if ((status = memory_new(copy->input_count, sizeof *entries, "treated inputs", &entries, error)) != STATUS_OK)
        goto done;
    if ((status = memory_new(copy->input_count, sizeof *sizes, "treated inputs", &sizes, error)) != STATUS_OK)
        goto done;
    for (int64_t i = 0; i < copy->input_count; i++) {
        sizes[i] = HEADER + 2 * copy->inputs[i].columns;
        entries[i] = (struct safetensors_entry){copy->inputs[i].name, DTYPE_F32, 1, &sizes[i]};
    }
    if ((status = safetensors_writer_open(path, entries, copy->input_count, &writer, error)) != STATUS_OK) goto done;
    for (int64_t i = 0; i < copy->input_count && status == STATUS_OK; i++)
        status = input_write(writer, i, &copy->inputs[i], error);
    if (status == STATUS_OK) status = safetensors_writer_commit(writer, error);
done:
    safetensors_writer_close(writer);
    memory_free(entries);
    memory_free(sizes);
    return status;
}

static enum status inputs_read(const struct quantized_copy_request *request, struct quantized_copy *copy,
                               struct error *error)
{
    struct safetensors *file = NULL;
    float *values = NULL;
    char path[PATH_MAX];
    enum status status = path_of(request, ".inputs", path, error);
    if (status != STATUS_OK) return status;
    status = safetensors_open(AT_FDCWD, path, &file, error);
    if (status == STATUS_NOT_FOUND) return STATUS_OK; /* the method leaves inputs as they are */
    for (int64_t i = 0; status == STATUS_OK && i < safetensors_count(file); i++) {
        struct safetensors_tensor tensor;
        safetensors_tensor(file, i, &tensor);
        memory_free(values);
        values = NULL;
        if ((status = memory_new(tensor.elements, sizeof *values, "treated inputs", &values, error)) != STATUS_OK)
            break;
        if ((status = safetensors_read_bytes(file, i, 0, tensor.bytes, values, error)) != STATUS_OK) break;
        status = input_add(copy, tensor.name, values, (tensor.elements - HEADER) / 2, values + HEADER, error);
    }
    memory_free(values);
    safetensors_close(file);
    return status;
}

/* ---- making ---- */

static const struct parameter *parameter_of(const struct model *model, const char *name)
{
    for (int64_t layer = 0; layer < model->config.layers; layer++)
        for (int i = 0; i < model->programs[layer].parameter_count; i++)
            if (strcmp(model->programs[layer].parameters[i].name, name) == 0)
                return &model->programs[layer].parameters[i];
    return NULL;
}

static enum status note_inputs(struct maker *maker, const char *name, const struct quantized_layer *layer,
                               struct error *error)
{
    const int64_t columns = layer->columns + layer->kept;
    float *arrays = NULL;
    bool *spared = NULL;
    enum status status;
    if ((status = memory_new(2 * columns, sizeof *arrays, "treated inputs", &arrays, error)) != STATUS_OK) goto done;
    if ((status = memory_new(columns, sizeof *spared, "treated inputs", &spared, error)) != STATUS_OK) goto done;
    const struct activation treatment = sequential_treatment(layer, arrays, spared);
    const float header[HEADER] = {(float)treatment.bits, (float)treatment.threshold, treatment.exact,
                                  treatment.smoothing != NULL, treatment.spared != NULL};
    for (int64_t c = 0; c < columns; c++) arrays[columns + c] = spared[c];
    if (treatment.bits > 0) status = input_add(maker->out, name, header, columns, arrays, error);
done:
    memory_free(arrays);
    memory_free(spared);
    return status;
}

static enum status note_layer(void *owner, const char *name, const struct quantized_layer *layer, struct matrix weight,
                              struct error *error)
{
    struct maker *maker = owner;
    const struct model *model = maker->request->model;
    char full[PARAMETER_NAME + 8];
    (void)snprintf(full, sizeof full, "%s.weight", name);
    const int64_t index = weights_find(model->weights, full);
    const struct parameter *parameter = parameter_of(model, full);
    if (index < 0 || parameter == NULL)
        return error_set(error, STATUS_INTERNAL, "a quantized layer \"%s\" is not among the tensors", name);
    maker->written[index] = true;
    const enum status status =
        weights_copy_matrix(maker->writer, index, maker->request->backend, weight, parameter->transposed, error);
    return status == STATUS_OK ? note_inputs(maker, full, layer, error) : status;
}

/* Copies tensors that are not quantized. Tensors that are not floats (old files hold masks) become zeros, because no
 * pass reads them. */
static enum status copy_rest(struct maker *maker, struct error *error)
{
    const struct weights *weights = maker->request->model->weights;
    enum status status = STATUS_OK;
    for (int64_t i = 0; i < weights_count(weights) && status == STATUS_OK; i++)
        if (!maker->written[i]) status = weights_copy_tensor(weights, i, maker->writer, i, error);
    return status;
}

/* The caller frees *out. */
static enum status entries_list(const struct model *model, struct safetensors_entry **out, struct error *error)
{
    const int64_t count = weights_count(model->weights);
    const enum status status = memory_new(count, sizeof **out, "tensor list", out, error);
    for (int64_t i = 0; i < count && status == STATUS_OK; i++) {
        struct weights_tensor tensor;
        weights_tensor(model->weights, i, &tensor);
        (*out)[i] = (struct safetensors_entry){tensor.name, DTYPE_F32, tensor.rank, tensor.shape};
    }
    return status;
}

static enum status writer_open(struct maker *maker, struct error *error)
{
    const struct model *model = maker->request->model;
    const int64_t count = weights_count(model->weights);
    struct safetensors_entry *entries = NULL;
    char path[PATH_MAX];
    enum status status = entries_list(model, &entries, error);
    if (status == STATUS_OK) status = memory_new(count, sizeof *maker->written, "tensor list", &maker->written, error);
    if (status == STATUS_OK) status = path_of(maker->request, "", path, error);
    const struct weights_writer_target target = {.directory = path, .shard_bytes = INT64_MAX};
    if (status == STATUS_OK) status = weights_writer_open(&target, entries, count, &maker->writer, error);
    memory_free(entries);
    return status;
}

/* A quantization always evaluates as well; two tokens are the shortest evaluation. */
struct least {
    int64_t starts[2];
    uint32_t tokens[2];
    struct sequences sequences;
};

static struct quantize_request request_of(const struct quantized_copy_request *request, struct least *least)
{
    *least = (struct least){.starts = {0, 2}};
    least->sequences = (struct sequences){1, least->starts, least->tokens};
    return (struct quantize_request){
        .model = request->model,
        .backend = request->backend,
        .method = request->method,
        .calibration = request->calibration,
        .evaluation = &least->sequences,
        .directory = request->directory,
        .monitor = request->monitor,
    };
}

static enum status quantize(struct maker *maker, struct error *error)
{
    struct quantize_result found = {0};
    struct least least;
    struct quantize_request asked = request_of(maker->request, &least);
    asked.hook = (struct sequential_hook){maker, note_layer};
    const enum status status = quantize_run(&asked, &found, error);
    maker->out->bits_per_weight = found.bits_per_weight;
    quantize_result_reset(&found);
    return status;
}

/* ---- the plan ---- */

bool quantized_copy_across_text(const struct quantize_method *method)
{
    return method->quantizer == QUANTIZER_LLM_INT8 && method->llm_int8.threshold > 0;
}

/* Bytes of the tensors that are not quantized, which are read once more to be copied. */
static int64_t rest_bytes(const struct model *model)
{
    int64_t bytes = weights_bytes(model->weights);
    for (int64_t layer = 0; layer < model->config.layers; layer++)
        for (int i = 0; i < model->programs[layer].parameter_count; i++) {
            const struct parameter *parameter = &model->programs[layer].parameters[i];
            const int64_t index = parameter->linear ? weights_find(model->weights, parameter->name) : -1;
            struct weights_tensor tensor = {.bytes = 0};
            if (index >= 0) weights_tensor(model->weights, index, &tensor);
            bytes -= tensor.bytes;
        }
    return bytes;
}

/* Smoothing factors and spared columns of every linear, which lie in memory and in a file. */
static int64_t input_bytes(const struct model *model)
{
    int64_t columns = 0, linears = 0;
    for (int64_t layer = 0; layer < model->config.layers; layer++)
        for (int i = 0; i < model->programs[layer].parameter_count; i++) {
            const struct parameter *parameter = &model->programs[layer].parameters[i];
            columns += parameter->linear ? parameter->columns : 0;
            linears += parameter->linear;
        }
    return 2 * columns * (int64_t)sizeof(float) + linears * (int64_t)sizeof(struct quantized_copy_input);
}

enum status quantized_copy_plan(const struct quantized_copy_request *request, const struct plan_budget *budget,
                                struct quantized_copy_plan *out, struct error *error)
{
    const struct model *model = request->model;
    struct least least;
    const struct quantize_request asked = request_of(request, &least);
    struct safetensors_entry *entries = NULL;
    struct run_plan walk;
    int64_t file = 0;
    *out = (struct quantized_copy_plan){.stored_bytes = 0};
    enum status status = quantize_plan(&asked, 1, budget, &walk, error);
    if (status == STATUS_OK) status = entries_list(model, &entries, error);
    if (status == STATUS_OK) status = safetensors_writer_measure(entries, weights_count(model->weights), &file, error);
    memory_free(entries);
    if (status != STATUS_OK) return status;
    if (quantize_method_treats_inputs(&request->method)) {
        const bool exact =
            quantized_copy_across_text(&request->method) && request->method.llm_int8.variant > 0; /* the paper's */
        out->token_bytes = (exact ? 3 : 2) * sequential_scratch_widest(model) * (int64_t)sizeof(float);
        out->treated_bytes = exact ? loader_elements(model) * (int64_t)sizeof(float) : 0;
        out->stored_bytes = exact ? weights_bytes(model->weights) - rest_bytes(model) : 0;
        file += input_bytes(model);
        plan_take(&out->plan, PLAN_HOST, input_bytes(model));
    }
    plan_take(&out->plan, PLAN_DISK, file);
    plan_add(&out->plan, &walk, 1);
    plan_take(&out->plan, PLAN_HOST, model->config.layers * (int64_t)sizeof(struct program)); /* of the open copy */
    out->plan.read_bytes += rest_bytes(model);
    out->plan.written_bytes += file;
    for (int64_t i = 0; i < weights_count(model->weights); i++) {
        struct weights_tensor tensor;
        weights_tensor(model->weights, i, &tensor);
        out->stored_bytes += tensor.elements * (int64_t)sizeof(float);
    }
    return STATUS_OK;
}

static enum status config_copy(const struct quantized_copy_request *request, struct error *error)
{
    char from[PATH_MAX], to[PATH_MAX], *text = NULL;
    size_t size = 0;
    enum status status = path_of(request, "/config.json", to, error);
    if (status != STATUS_OK) return status;
    if (snprintf(from, sizeof from, "%s/config.json", weights_directory(request->model->weights)) >= PATH_MAX)
        return error_set(error, STATUS_INVALID, "a checkpoint's path is too long");
    status = file_read_all(AT_FDCWD, from, 1 << 24, &text, &size, error);
    if (status == STATUS_OK) status = file_writer_put(to, text, size, error);
    memory_free(text);
    return status;
}

static enum status make(const struct quantized_copy_request *request, struct quantized_copy *out, struct error *error)
{
    struct maker maker = {.request = request, .out = out};
    struct seal seal = {.fingerprint = seal_fingerprint(request)};
    char path[PATH_MAX];
    enum status status = path_of(request, "", path, error);
    if (status != STATUS_OK) return status;
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return error_set_errno(error, "cannot make a directory for quantized weights");
    if ((status = config_copy(request, error)) != STATUS_OK) goto done;
    if ((status = writer_open(&maker, error)) != STATUS_OK) goto done;
    if ((status = quantize(&maker, error)) != STATUS_OK) goto done;
    if ((status = copy_rest(&maker, error)) != STATUS_OK) goto done;
    if ((status = weights_writer_commit(maker.writer, error)) != STATUS_OK) goto done;
    if ((status = inputs_write(request, out, error)) != STATUS_OK) goto done;
    memcpy(seal.magic, seal_magic, sizeof seal_magic);
    seal.bits_per_weight = out->bits_per_weight;
    if ((status = path_of(request, ".seal", path, error)) != STATUS_OK) goto done;
    status = file_writer_put(path, &seal, sizeof seal, error);
done:
    weights_writer_close(maker.writer);
    memory_free(maker.written);
    return status;
}

static bool sealed(const struct quantized_copy_request *request, struct quantized_copy *out)
{
    char path[PATH_MAX], *bytes = NULL;
    struct seal seal = {0};
    struct error ignored;
    size_t size = 0;
    if (path_of(request, ".seal", path, &ignored) != STATUS_OK) return false;
    if (file_read_all(AT_FDCWD, path, sizeof seal, &bytes, &size, &ignored) != STATUS_OK) return false;
    if (size == sizeof seal) memcpy(&seal, bytes, size);
    memory_free(bytes);
    out->bits_per_weight = seal.bits_per_weight;
    return memcmp(seal.magic, seal_magic, sizeof seal_magic) == 0 && seal.fingerprint == seal_fingerprint(request);
}

enum status quantized_copy_check(const struct quantize_method *method, struct error *error)
{
    if (method->options.rotation != ROTATION_NONE)
        return error_set_at(
            error, STATUS_UNSUPPORTED, "/rotation",
            "a rotated model is no checkpoint of the original's architecture and is not kept as one; use \"none\"");
    if (method->options.embedding_bits == 0 && method->options.lm_head_bits == 0) return STATUS_OK;
    return error_set_at(error, STATUS_UNSUPPORTED,
                        method->options.embedding_bits != 0 ? "/embedding_bits" : "/lm_head_bits",
                        "quantized embeddings and outputs are not kept as a checkpoint; use null");
}

enum status quantized_copy_open(const struct quantized_copy_request *request, struct quantized_copy *out,
                                struct error *error)
{
    char path[PATH_MAX];
    *out = (struct quantized_copy){.original = request->model, .backend = request->backend};
    const enum status kept = quantized_copy_check(&request->method, error);
    if (kept != STATUS_OK) return kept;
    enum status status = sealed(request, out) ? inputs_read(request, out, error) : make(request, out, error);
    if (status == STATUS_OK) status = path_of(request, "", path, error);
    return status == STATUS_OK ? model_open(path, &out->model, error) : status;
}

void quantized_copy_reset(struct quantized_copy *copy)
{
    for (int64_t i = 0; i < copy->input_count; i++) {
        memory_free(copy->inputs[i].arrays);
        memory_free(copy->inputs[i].spared);
    }
    memory_free(copy->inputs);
    if (copy->activations.backend != NULL) activations_reset(&copy->activations);
    model_close(copy->model);
    *copy = (struct quantized_copy){0};
}

/* ---- passes over the copy ---- */

/* The original weights, which outliers multiply. Spared columns are never outliers: the inputs that these weights
 * multiply are zero there. */
static enum status original_read(const struct quantized_copy *copy, const struct parameter *parameter,
                                 struct matrix *out, struct error *error)
{
    struct backend *backend = copy->backend;
    enum status status = matrix_new(backend, parameter->rows, parameter->columns, "original weights", out, error);
    if (status == STATUS_OK) status = model_read(copy->original, backend, parameter, *out, NULL, error);
    if (status != STATUS_OK) matrix_release(backend, out);
    return status;
}

/* Columns of the widest linear of the block, and of the inputs that the copy keeps. */
static int64_t widest_input(const struct quantized_copy *copy, const struct program *program)
{
    int64_t widest = 1;
    for (int64_t i = 0; i < copy->input_count; i++)
        if (copy->inputs[i].columns > widest) widest = copy->inputs[i].columns;
    for (int p = 0; p < program->parameter_count; p++)
        if (program->parameters[p].linear && program->parameters[p].columns > widest)
            widest = program->parameters[p].columns;
    return widest;
}

/* What happens to the inputs of parameter `p` of the block. */
static enum status set_inputs(struct quantized_copy *copy, const struct parameter *parameter, int p,
                              struct error *error)
{
    enum status status = STATUS_OK;
    for (int64_t i = 0; i < copy->input_count && status == STATUS_OK; i++) {
        struct matrix original = {0};
        if (strcmp(copy->inputs[i].name, parameter->name) != 0) continue;
        if (copy->inputs[i].treatment.exact) status = original_read(copy, parameter, &original, error);
        if (status == STATUS_OK)
            status =
                activations_set(&copy->activations, p, &copy->inputs[i].treatment, parameter->columns, original, error);
    }
    return status;
}

static enum status block_begin(void *owner, const struct block *block, int64_t tokens,
                               const struct linear_product **out, struct error *error)
{
    struct quantized_copy *copy = owner;
    const int64_t widest = widest_input(copy, block->program);
    enum status status = STATUS_OK;
    if (copy->activations.backend != NULL && (copy->activations.tokens < tokens || copy->activations.widest < widest))
        activations_reset(&copy->activations);
    if (copy->activations.backend == NULL)
        status = activations_init(&copy->activations, copy->backend, tokens, widest, error);
    activations_clear(&copy->activations);
    for (int p = 0; p < block->program->parameter_count && status == STATUS_OK; p++)
        status = set_inputs(copy, &block->program->parameters[p], p, error);
    *out = &copy->activations.product;
    return status;
}

const struct likelihood_products *quantized_copy_products(struct quantized_copy *copy, struct likelihood_products *out)
{
    *out = (struct likelihood_products){copy, block_begin};
    return copy->input_count > 0 ? out : NULL;
}
