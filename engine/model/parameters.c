#include "model/parameters.h"

#include "base/memory.h"
#include "base/random.h"
#include "base/team.h"

#include <math.h>
#include <string.h>

enum {
    TENSOR_ALIGNMENT = 16,  /* elements: 64 bytes of floats */
    TURN_NUMBERS = 1 << 16, /* most numbers of a transposed tensor at a time, if that is a row or more */
    TURN_TILE = 16
};

static int64_t aligned(int64_t elements)
{
    return (elements + TENSOR_ALIGNMENT - 1) / TENSOR_ALIGNMENT * TENSOR_ALIGNMENT;
}

/* -1 for an absent one. */
static int64_t layout_add(struct parameters_layout *layout, const struct parameter *parameter, bool residual)
{
    const int64_t count = parameter->rows * parameter->columns;
    if (parameter->name[0] == '\0') return -1;
    layout->tensors[layout->tensor_count] =
        (struct parameters_tensor){.parameter = *parameter,
                                   .offset = layout->elements,
                                   .decays = parameter->matrix && parameter->fresh != FRESH_DECAY,
                                   .residual = residual};
    layout->elements += aligned(count);
    if (!parameter->constant) layout->numbers += count;
    return layout->tensor_count++;
}

/* Whether the parameter's linear step writes what a residual addition reads. */
static bool ends_residual_branch(const struct program *program, int parameter)
{
    for (int i = 0; i < program->step_count; i++) {
        const struct step *linear = &program->steps[i];
        const int64_t count = linear->op == &op_experts ? linear->attributes.experts.count : linear->op == &op_linear;
        if (parameter < linear->parameter[0] || parameter >= linear->parameter[0] + count) continue;
        int output = linear->output;
        for (int k = i + 1; k < program->step_count; k++) {
            const struct step *step = &program->steps[k];
            if (step->op == &op_combine && step->input[0] == output) output = step->output;
            if (step->op == &op_add && (step->input[0] == output || step->input[1] == output)) return true;
        }
    }
    return false;
}

static void layout_block(struct parameters_layout *layout, int64_t layer)
{
    const struct program *program = &layout->programs[layer];
    layout->blocks[layer] = layout->tensor_count;
    for (int i = 0; i < program->parameter_count; i++)
        layout_add(layout, &program->parameters[i], ends_residual_branch(program, i));
}

static void layout_spans(struct parameters_layout *layout)
{
    for (int64_t i = 0; i < layout->tensor_count; i++) {
        const struct parameters_tensor *tensor = &layout->tensors[i];
        const int64_t end = i + 1 < layout->tensor_count ? layout->tensors[i + 1].offset : layout->elements;
        struct parameters_span *last = layout->span_count > 0 ? &layout->spans[layout->span_count - 1] : NULL;
        if (last != NULL && last->decays == tensor->decays)
            last->count = end - last->first;
        else
            layout->spans[layout->span_count++] =
                (struct parameters_span){tensor->offset, end - tensor->offset, tensor->decays};
    }
}

enum status parameters_layout_new(const struct model_config *config, struct parameters_layout **out,
                                  struct error *error)
{
    struct parameters_layout *layout = NULL;
    struct decoder_ends ends;
    const int64_t most = DECODER_ENDS + config->layers * PROGRAM_PARAMETERS;
    enum status status;
    *out = NULL;
    if ((status = memory_new(1, sizeof *layout, "parameter layout", &layout, error)) != STATUS_OK) return status;
    layout->config = *config;
    if ((status = memory_new(config->layers, sizeof *layout->programs, "block programs", &layout->programs, error)) !=
        STATUS_OK)
        goto done;
    if ((status = memory_new(config->layers, sizeof *layout->blocks, "parameter layout", &layout->blocks, error)) !=
        STATUS_OK)
        goto done;
    if ((status = memory_new(most, sizeof *layout->tensors, "parameter layout", &layout->tensors, error)) != STATUS_OK)
        goto done;
    if ((status = memory_new(most, sizeof *layout->spans, "parameter layout", &layout->spans, error)) != STATUS_OK)
        goto done;
    decoder_ends(config, &ends);
    layout->embedding = layout_add(layout, &ends.embedding, false);
    layout->positions = layout_add(layout, &ends.positions, false);
    layout->project_in = layout_add(layout, &ends.project_in, false);
    for (int64_t layer = 0; layer < config->layers; layer++) {
        decoder_block(config, layer, &layout->programs[layer]);
        layout_block(layout, layer);
    }
    layout->norm_weight = layout_add(layout, &ends.norm_weight, false);
    layout->norm_bias = layout_add(layout, &ends.norm_bias, false);
    layout->project_out = layout_add(layout, &ends.project_out, false);
    layout->output = config->tied ? layout->embedding : layout_add(layout, &ends.output, false);
    layout_spans(layout);
    *out = layout;
    layout = NULL;
done:
    parameters_layout_free(layout);
    return status;
}

void parameters_layout_free(struct parameters_layout *layout)
{
    if (layout == NULL) return;
    memory_free(layout->programs);
    memory_free(layout->blocks);
    memory_free(layout->tensors);
    memory_free(layout->spans);
    memory_free(layout);
}

int64_t parameters_slots_width(const struct parameters_layout *layout, bool keep_all)
{
    struct program_plan plan;
    int64_t widest = 0;
    for (int64_t layer = 0; layer < layout->config.layers; layer++) {
        program_plan(&layout->programs[layer], keep_all, &plan);
        if (plan.width > widest) widest = plan.width;
    }
    return widest;
}

int64_t parameters_find(const struct parameters_layout *layout, const char *name)
{
    for (int64_t i = 0; i < layout->tensor_count; i++)
        if (strcmp(layout->tensors[i].parameter.name, name) == 0) return i;
    return -1;
}

enum status parameters_init(struct parameters *parameters, const struct parameters_layout *layout,
                            struct backend *backend, const char *what, struct error *error)
{
    *parameters = (struct parameters){.layout = layout, .backend = backend};
    return backend->ops->allocate(backend, layout->elements, what, &parameters->data, error);
}

void parameters_reset(struct parameters *parameters)
{
    if (parameters->data != NULL) parameters->backend->ops->release(parameters->backend, parameters->data);
    *parameters = (struct parameters){0};
}

struct matrix parameters_all(const struct parameters *parameters)
{
    return matrix_of(parameters->data, 1, parameters->layout->elements, parameters->backend->ops->element);
}

struct matrix parameters_view(const struct parameters *parameters, int64_t tensor)
{
    if (tensor < 0) return (struct matrix){0};
    const struct parameters_tensor *row = &parameters->layout->tensors[tensor];
    const size_t element = parameters->backend->ops->element;
    return matrix_of((char *)parameters->data + (size_t)row->offset * element, row->parameter.rows,
                     row->parameter.columns, element);
}

/* Turns rows of `columns` numbers: row r becomes number r of each of the rows at `to`, which are `pitch` numbers apart.
 * In tiles, so that the cache holds what they are written to. */
static void turn_rows(const char *from, int64_t rows, int64_t columns, size_t size, char *to, int64_t pitch)
{
    for (int64_t first = 0; first < rows; first += TURN_TILE)
        for (int64_t c = 0; c < columns; c++)
            for (int64_t r = first; r < rows && r < first + TURN_TILE; r++) {
                char *const at = to + (size_t)(c * pitch + r) * size;
                const char *const number = from + (size_t)(r * columns + c) * size;
                if (size == sizeof(float)) /* lengths that the compiler knows */
                    memcpy(at, number, sizeof(float));
                else
                    memcpy(at, number, sizeof(double));
            }
}

/* A row of the file is a column of a transposed tensor, which a device would copy number by number: a few rows are
 * fetched at a time and turned here. */
enum status parameters_download(const struct parameters *parameters, int64_t tensor, void *to, enum dtype dtype,
                                struct error *error)
{
    struct backend *backend = parameters->backend;
    const struct matrix view = parameters_view(parameters, tensor);
    const size_t size = dtype_info(dtype)->bits / 8;
    void *band = NULL;
    if (!parameters->layout->tensors[tensor].parameter.transposed) {
        backend->ops->download(backend, view, to, dtype);
        return STATUS_OK;
    }
    const int64_t most = view.columns < TURN_NUMBERS ? TURN_NUMBERS / view.columns : 1;
    const int64_t rows = most < view.rows ? most : view.rows;
    const enum status status = memory_new(rows * view.columns, size, "rows to turn", &band, error);
    for (int64_t first = 0; first < view.rows && status == STATUS_OK; first += rows) {
        const int64_t count = view.rows - first < rows ? view.rows - first : rows;
        backend->ops->download(backend, matrix_rows(view, first, count), band, dtype);
        turn_rows(band, count, view.columns, size, (char *)to + (size_t)first * size, view.rows);
    }
    memory_free(band);
    return status;
}

void parameters_block(const struct parameters *parameters, int64_t layer, struct matrix *out)
{
    const struct parameters_layout *layout = parameters->layout;
    for (int i = 0; i < layout->programs[layer].parameter_count; i++)
        out[i] = parameters_view(parameters, layout->blocks[layer] + i);
}

struct embed_weights parameters_embed(const struct parameters *parameters)
{
    const struct parameters_layout *layout = parameters->layout;
    return (struct embed_weights){
        .embedding = parameters_view(parameters, layout->embedding),
        .positions = parameters_view(parameters, layout->positions),
        .projection = parameters_view(parameters, layout->project_in),
    };
}

struct head_weights parameters_head(const struct parameters *parameters)
{
    const struct parameters_layout *layout = parameters->layout;
    return (struct head_weights){
        .norm_weight = parameters_view(parameters, layout->norm_weight),
        .norm_bias = parameters_view(parameters, layout->norm_bias),
        .projection = parameters_view(parameters, layout->project_out),
        .output = parameters_view(parameters, layout->output),
    };
}

struct drawing {
    double *values;
    enum fresh fresh;
    double deviation; /* FRESH_USUAL */
    uint64_t seed, tensor;
    int64_t columns;
};

static double drawn(const struct drawing *drawing, int64_t k)
{
    const double uniform = random_uniform(drawing->seed, drawing->tensor, (uint64_t)k);
    switch (drawing->fresh) {
    case FRESH_USUAL:
        break;
    case FRESH_UNIFORM:
        return (2 * uniform - 1) / sqrt((double)drawing->columns);
    case FRESH_DECAY:
        return log((double)(k % drawing->columns + 1));
    case FRESH_STEP:
        return log(expm1(0.001 * exp(uniform * log(0.1 / 0.001)))); /* softplus undone */
    }
    return drawing->deviation * random_normal(drawing->seed, drawing->tensor, (uint64_t)k);
}

static void draw_row(void *context, int64_t i, int thread)
{
    (void)thread;
    const struct drawing *drawing = context;
    for (int64_t k = i * drawing->columns; k < (i + 1) * drawing->columns; k++) drawing->values[k] = drawn(drawing, k);
}

enum status parameters_initialise(struct parameters *parameters, uint64_t seed, struct error *error)
{
    const struct parameters_layout *layout = parameters->layout;
    struct backend *backend = parameters->backend;
    const double branches = (double)(layout->config.state_space.width > 0 ? 1 : 2) * (double)layout->config.layers;
    int64_t largest = 0;
    double *values = NULL;
    for (int64_t i = 0; i < layout->tensor_count; i++) {
        const struct parameter *parameter = &layout->tensors[i].parameter;
        if (parameter->rows * parameter->columns > largest) largest = parameter->rows * parameter->columns;
    }
    const enum status status = memory_new(largest, sizeof *values, "fresh weights", &values, error);
    if (status != STATUS_OK) return status;
    for (int64_t i = 0; i < layout->tensor_count; i++) {
        const struct parameters_tensor *tensor = &layout->tensors[i];
        const struct matrix view = parameters_view(parameters, i);
        if (!tensor->decays && tensor->parameter.fresh == FRESH_USUAL) {
            backend->ops->fill(backend, view, tensor->parameter.initial);
            continue;
        }
        const double range = layout->config.initializer_range;
        struct drawing drawing = {
            .values = values,
            .fresh = tensor->parameter.fresh,
            .deviation = tensor->residual ? range / sqrt(branches) : range,
            .seed = seed,
            .tensor = (uint64_t)i,
            .columns = view.columns,
        };
        team_run(backend->team, view.rows, draw_row, &drawing);
        backend->ops->upload(backend, view, values, DTYPE_F64);
    }
    memory_free(values);
    return STATUS_OK;
}

enum status parameters_read(struct parameters *parameters, const struct model *model, struct error *error)
{
    for (int64_t i = 0; i < parameters->layout->tensor_count; i++) {
        const struct parameter *parameter = i == parameters->layout->embedding ? &model->ends.embedding
                                            : i == parameters->layout->output
                                                ? &model->ends.output
                                                : &parameters->layout->tensors[i].parameter;
        const enum status status =
            model_read(model, parameters->backend, parameter, parameters_view(parameters, i), NULL, error);
        if (status != STATUS_OK) return status;
    }
    return STATUS_OK;
}
