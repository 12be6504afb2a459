/* smoothquant.c: SmoothQuant (Xiao et al., arXiv 2211.10438): the sizes of input channels are moved into the weights,
 *     s = max(max |X|^alpha / max |W|^(1 - alpha), 1e-5),  W diag(s) with a step for each row,  X diag(s)⁻¹ with one for each token
 * max |W| being over the rows of all linears that share the input, and not below 1e-5. Steps are max / (2^(bits-1) - 1). With
 * `search` alpha is the best of 0, 0.05, … 1 by the squared error of the outputs of a sample of tokens, both sides rounded. */
#include "base/memory.h"
#include "quant/activation.h"
#include "quant/check.h"
#include "quant/coded.h"
#include "quant/quantizer.h"

#include <math.h>
#include <string.h>

enum { SEARCH_PARTS = 20 };
#define FLOOR 1e-5

const struct param smoothquant_params[] = {
    {.name = "bits",
     .type = PARAM_INTEGER,
     .offset = QUANTIZE_AT(smoothquant.bits),
     .fallback = "8",
     .allowed = quantize_method_bits,
     .help = "Bits of a weight's code"},
    {.name = "activation_bits",
     .type = PARAM_INTEGER,
     .offset = QUANTIZE_AT(smoothquant.activation_bits),
     .fallback = "8",
     .allowed = quantize_method_activation_bits,
     .help = "Bits of an input's code"},
    {.name = "alpha",
     .type = PARAM_NUMBER,
     .offset = QUANTIZE_AT(smoothquant.alpha),
     .fallback = "0.5",
     .minimum = 0,
     .maximum = 1,
     .help = "How much of the inputs' sizes moves into the weights"},
    {.name = "search",
     .type = PARAM_BOOLEAN,
     .offset = QUANTIZE_AT(smoothquant.search),
     .fallback = "false",
     .help = "Find each layer's alpha instead"},
    QUANTIZE_OPTION_PARAMS,
    {0},
};

static enum status smoothquant_settle(struct quantize_method *method, struct error *error)
{
    (void)method, (void)error;
    return STATUS_OK;
}

/* One call's working memory; all owned. */
struct smoother {
    struct backend *backend;
    const struct smoothquant_params *params;
    const struct quantize_task *task;
    struct quantized_layer *out;
    struct coded *coded;      /* [count], one a linear */
    int64_t rows, columns;    /* rows of the tallest linear */
    float *largest, *scales;  /* [columns] max |W|; s */
    float *weights;           /* [rows, columns] scaled, then dequantized */
    float *rounded, *outputs; /* [sample, columns], [sample, rows]; for the search */
};

static enum status smoother_init(struct smoother *smoother, struct error *error)
{
    const struct quantize_task *task = smoother->task;
    const int64_t sample = smoother->params->search ? task->inputs.sample.rows : 0;
    enum status status;
    for (int64_t i = 0; i < task->count; i++)
        if (task->linears[i].weight.rows > smoother->rows) smoother->rows = task->linears[i].weight.rows;
    if ((status = memory_new(smoother->columns, sizeof(float), "column scales", &smoother->largest, error)) != STATUS_OK ||
        (status = memory_new(smoother->columns, sizeof(float), "column scales", &smoother->scales, error)) != STATUS_OK ||
        (status = memory_new(smoother->rows * smoother->columns, sizeof(float), "scaled weights", &smoother->weights, error)) !=
            STATUS_OK ||
        (status = memory_new(sample * smoother->columns, sizeof(float), "rounded inputs", &smoother->rounded, error)) !=
            STATUS_OK ||
        (status = memory_new(sample * smoother->rows, sizeof(float), "outputs", &smoother->outputs, error)) != STATUS_OK)
        return status;
    if ((status = memory_new(task->count, sizeof *smoother->coded, "codes", &smoother->coded, error)) != STATUS_OK) return status;
    for (int64_t i = 0; i < task->count; i++) {
        struct quantized_layer *layer = &smoother->out[i];
        status =
            quantized_layer_init(layer, task->linears[i].weight.rows, smoother->columns, smoother->params->bits, -1, true, error);
        if (status != STATUS_OK) return status;
        status = memory_new(smoother->columns, sizeof(float), "column scales", &layer->column_scales, error);
        if (status != STATUS_OK) return status;
        layer->input_bits = (int)smoother->params->activation_bits;
        if ((status = coded_init(&smoother->coded[i], smoother->backend, layer, NULL, error)) != STATUS_OK) return status;
    }
    return STATUS_OK;
}

static void smoother_reset(struct smoother *smoother)
{
    for (int64_t i = 0; i < smoother->task->count && smoother->coded != NULL; i++) coded_reset(&smoother->coded[i]);
    memory_free(smoother->coded);
    memory_free(smoother->outputs);
    memory_free(smoother->rounded);
    memory_free(smoother->weights);
    memory_free(smoother->scales);
    memory_free(smoother->largest);
}

static void find_largest(struct smoother *smoother)
{
    for (int64_t i = 0; i < smoother->task->count; i++) {
        const struct matrix weight = smoother->task->linears[i].weight;
        for (int64_t r = 0; r < weight.rows; r++) {
            const float *row = (const float *)weight.data + r * weight.stride;
#pragma omp simd
            for (int64_t c = 0; c < smoother->columns; c++)
                smoother->largest[c] = fabsf(row[c]) > smoother->largest[c] ? fabsf(row[c]) : smoother->largest[c];
        }
    }
}

static void find_scales(struct smoother *smoother, double alpha)
{
    for (int64_t c = 0; c < smoother->columns; c++) {
        const double input = (double)smoother->task->inputs.largest[c], weight = fmax((double)smoother->largest[c], FLOOR);
        smoother->scales[c] = (float)fmax(pow(input, alpha) / pow(weight, 1 - alpha), FLOOR);
    }
}

struct scale_job {
    const struct smoother *smoother;
    struct matrix weight;
};

static void scale_row(void *context, int64_t row, int thread)
{
    (void)thread;
    const struct scale_job *job = context;
    const float *from = (const float *)job->weight.data + row * job->weight.stride, *scales = job->smoother->scales;
    float *to = job->smoother->weights + row * job->smoother->columns;
#pragma omp simd
    for (int64_t c = 0; c < job->smoother->columns; c++) to[c] = from[c] * scales[c];
}

static void encode(struct smoother *smoother, int64_t index)
{
    const struct grid grid = {.bits = (int)smoother->params->bits, .rule = GRID_ABSMAX};
    struct scale_job job = {smoother, smoother->task->linears[index].weight};
    struct quantized_layer *layer = &smoother->out[index];
    team_run(smoother->backend->team, layer->rows, scale_row, &job);
    memcpy(layer->column_scales, smoother->scales, (size_t)smoother->columns * sizeof(float));
    coded_encode(&smoother->coded[index], grid, matrix_of(smoother->weights, layer->rows, smoother->columns, sizeof(float)));
}

/* |X Wᵀ - X̂ Ŵᵀ|² over the sample and all linears. */
static double output_error(struct smoother *smoother, double alpha)
{
    struct backend *backend = smoother->backend;
    const struct matrix x = smoother->task->inputs.sample;
    const struct matrix rounded = matrix_of(smoother->rounded, x.rows, x.columns, sizeof(float));
    const struct activation treatment = {.bits = (int)smoother->params->activation_bits, .smoothing = smoother->scales};
    double sum = 0;
    find_scales(smoother, alpha);
    activation_round(&treatment, backend->team, x, rounded, NULL);
    for (int64_t i = 0; i < smoother->task->count; i++) {
        const struct quantized_layer *layer = &smoother->out[i];
        const struct matrix weight = matrix_of(smoother->weights, layer->rows, layer->columns, sizeof(float));
        const struct matrix y = matrix_of(smoother->outputs, x.rows, layer->rows, sizeof(float));
        encode(smoother, i);
        coded_decode(&smoother->coded[i], weight);
        backend->ops->gemm(
            backend, &(struct gemm_args){.a = x, .b = smoother->task->linears[i].weight, .c = y, .transpose_b = true, .alpha = 1});
        backend->ops->gemm(backend,
                           &(struct gemm_args){.a = rounded, .b = weight, .c = y, .transpose_b = true, .alpha = -1, .beta = 1});
        sum += backend->ops->dot(backend, y, y);
    }
    return sum;
}

static double search(struct smoother *smoother)
{
    double best = 0, least = INFINITY;
    for (int i = 0; i <= SEARCH_PARTS; i++) {
        const double alpha = (double)i / SEARCH_PARTS, found = output_error(smoother, alpha);
        if (!(found < least)) continue;
        least = found;
        best = alpha;
    }
    return best;
}

static enum status smoothquant_quantize(struct backend *backend, const struct quantize_method *method,
                                        const struct quantize_task *task, struct quantized_layer *out, struct error *error)
{
    struct smoother smoother = {
        .backend = backend, .params = &method->smoothquant, .task = task, .out = out, .columns = task->linears[0].weight.columns};
    enum status status;
    if ((status = check_task(backend, task, error)) != STATUS_OK) goto done;
    if ((status = smoother_init(&smoother, error)) != STATUS_OK) goto done;
    find_largest(&smoother);
    const double alpha = method->smoothquant.search ? search(&smoother) : method->smoothquant.alpha;
    find_scales(&smoother, alpha);
    for (int64_t i = 0; i < task->count; i++) {
        encode(&smoother, i);
        out[i].alpha = alpha;
        if ((status = check_scales(&out[i], task->linears[i].name, error)) != STATUS_OK) goto done;
        status = coded_measure(&smoother.coded[i], task->linears[i].weight, task->inputs.hessian, error);
        if (status != STATUS_OK) goto done;
    }
    for (int64_t i = 0; i < task->count; i++) coded_decode(&smoother.coded[i], task->linears[i].weight);
done:
    smoother_reset(&smoother);
    return status;
}

static struct rtn_params smoothquant_fallback(const struct quantize_method *method)
{
    return (struct rtn_params){method->smoothquant.bits, -1, true};
}

const struct quantizer quantizer_smoothquant = {.name = "smoothquant",
                                                .params = smoothquant_params,
                                                .needs = NEED_INPUT_HESSIAN | NEED_INPUT_MAGNITUDE | NEED_INPUT_SAMPLE,
                                                .fallback = smoothquant_fallback,
                                                .treats_inputs = true,
                                                .settle = smoothquant_settle,
                                                .quantize = smoothquant_quantize};
