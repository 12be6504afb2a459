/* smoothquant.c: SmoothQuant (Xiao et al., arXiv 2211.10438): the sizes of input channels are moved into the weights.
 *
 *     s = max(max |X|^alpha / max |W|^(1 - alpha), 1e-5),  1 where max |X| is 0
 *     W diag(s)        with a step for each row
 *     X diag(s)⁻¹      with a step for each token
 *
 * max |W| being over the rows of all linears that share the input, and not below 1e-5. A step is the maximum over
 * 2^(bits-1) - 1. With `search` alpha is the best of 0, 0.05, … 1 by the squared error of the outputs of a sample of
 * tokens, both sides rounded. */
#include "base/memory.h"
#include "quant/check.h"
#include "quant/coded.h"
#include "quant/quantizer.h"

#include <math.h>
#include <string.h>

enum { SEARCH_PARTS = 20 };
#define FLOOR           1e-5
#define ALPHA           0.5
#define TEXT(number)    #number
#define TEXT_OF(number) TEXT(number)

const struct param smoothquant_params[] = {
    {.name = "bits",
     .type = PARAM_INTEGER,
     .offset = QUANTIZE_AT(smoothquant.bits),
     .fallback = "8",
     .schema = "Bits",
     .allowed = quantize_method_bits,
     .help = "Bits of a weight's code"},
    {.name = "activation_bits",
     .type = PARAM_INTEGER,
     .offset = QUANTIZE_AT(smoothquant.activation_bits),
     .fallback = "8",
     .schema = "ActivationBits",
     .allowed = quantize_method_activation_bits,
     .help = "Bits of an input's code"},
    {.name = "alpha",
     .type = PARAM_NUMBER,
     .offset = QUANTIZE_AT(smoothquant.alpha),
     .fallback = TEXT_OF(ALPHA),
     .minimum = 0,
     .maximum = 1,
     .help = "How much of the inputs' sizes moves into the weights"},
    {.name = "search",
     .type = PARAM_BOOLEAN,
     .offset = QUANTIZE_AT(smoothquant.search),
     .fallback = "false",
     .help = "Find each layer's alpha instead; then none is given"},
    QUANTIZE_OPTION_PARAMS,
    {0},
};

static enum status smoothquant_complete(struct quantize_method *method, struct error *error)
{
    const struct smoothquant_params *params = &method->smoothquant;
    const bool usual = !(params->alpha < ALPHA) && !(params->alpha > ALPHA);
    if (!params->search || usual) return STATUS_OK;
    return error_set_at(error, STATUS_INVALID, "/alpha",
                        "with search each layer's alpha is found, and this one is not read: leave one of them out");
}

/* One call's working memory; all owned. */
struct smoother {
    struct backend *backend;
    const struct quantize_method *method;
    const struct smoothquant_params *params; /* its; bits are those of each linear's method */
    const struct quantize_task *task;
    struct quantized_layer *out;
    struct coded *coded;     /* [count], one per linear */
    int64_t rows, columns;   /* rows of the tallest linear */
    float *largest, *scales; /* [columns] max |W|; s */
    /* In memory of the backend. */
    struct matrix column_scales;    /* [1, columns] s */
    struct matrix peaks;            /* [1, columns] max |W| */
    double *sums;                   /* [columns] scratch */
    struct matrix weights;          /* [rows, columns] scaled, then dequantized */
    struct matrix rounded, outputs; /* [sample, columns], [sample, rows]; for the search */
};

static enum status layers_init(struct smoother *smoother, struct error *error)
{
    enum status status = memory_new(smoother->task->count, sizeof *smoother->coded, "codes", &smoother->coded, error);
    for (int64_t i = 0; i < smoother->task->count && status == STATUS_OK; i++) {
        struct quantized_layer *layer = &smoother->out[i];
        const int64_t rows = smoother->task->linears[i].weight.rows,
                      bits = quantize_task_method(smoother->task, smoother->method, i)->smoothquant.bits;
        const struct coding coding = {.bits = (int)bits, .sym = true, .rule = SCALE_ABSMAX, .group_size = -1};
        status = quantized_layer_init(layer, rows, smoother->columns, coding, error);
        if (status != STATUS_OK) return status;
        status = memory_new(smoother->columns, sizeof(float), "column scales", &layer->column_scales, error);
        if (status != STATUS_OK) return status;
        layer->input_bits = (int)smoother->params->activation_bits;
        status = coded_init(&smoother->coded[i], smoother->backend, layer, NULL, error);
    }
    return status;
}

static enum status smoother_init(struct smoother *smoother, struct error *error)
{
    struct backend *backend = smoother->backend;
    const struct quantize_task *task = smoother->task;
    const int64_t sample = smoother->params->search ? task->inputs.sample.rows : 0, columns = smoother->columns;
    void *sums = NULL;
    enum status status;
    for (int64_t i = 0; i < task->count; i++)
        if (task->linears[i].weight.rows > smoother->rows) smoother->rows = task->linears[i].weight.rows;
    if ((status = memory_new(columns, sizeof(float), "column scales", &smoother->largest, error)) != STATUS_OK ||
        (status = memory_new(columns, sizeof(float), "column scales", &smoother->scales, error)) != STATUS_OK ||
        (status = matrix_new(backend, 1, columns, "column scales", &smoother->column_scales, error)) != STATUS_OK ||
        (status = matrix_new(backend, 1, columns, "column scales", &smoother->peaks, error)) != STATUS_OK ||
        (status = matrix_new(backend, smoother->rows, columns, "scaled weights", &smoother->weights, error)) !=
            STATUS_OK ||
        (status = matrix_new(backend, sample, columns, "rounded inputs", &smoother->rounded, error)) != STATUS_OK ||
        (status = matrix_new(backend, sample, smoother->rows, "outputs", &smoother->outputs, error)) != STATUS_OK)
        return status;
    const int64_t elements = backend_elements(backend, columns * (int64_t)sizeof *smoother->sums);
    if ((status = backend->ops->allocate(backend, elements, "column scales", &sums, error)) != STATUS_OK) return status;
    smoother->sums = sums;
    return layers_init(smoother, error);
}

static void smoother_reset(struct smoother *smoother)
{
    struct backend *backend = smoother->backend;
    for (int64_t i = 0; i < smoother->task->count && smoother->coded != NULL; i++) coded_reset(&smoother->coded[i]);
    if (smoother->sums != NULL) backend->ops->release(backend, smoother->sums);
    struct matrix *const matrices[] = {&smoother->outputs, &smoother->rounded, &smoother->weights, &smoother->peaks,
                                       &smoother->column_scales};
    for (size_t i = 0; i < sizeof matrices / sizeof matrices[0]; i++) matrix_release(backend, matrices[i]);
    memory_free(smoother->coded);
    memory_free(smoother->scales);
    memory_free(smoother->largest);
}

static enum status find_largest(struct smoother *smoother, struct error *error)
{
    struct backend *backend = smoother->backend;
    for (int64_t i = 0; i < smoother->task->count; i++)
        backend->ops->add_magnitudes(backend, smoother->sums, smoother->peaks, smoother->task->linears[i].weight);
    backend->ops->download(backend, smoother->peaks, smoother->largest, DTYPE_F32);
    return backend->ops->sync(backend, error);
}

static void find_scales(struct smoother *smoother, double alpha)
{
    for (int64_t c = 0; c < smoother->columns; c++) {
        const double input = (double)smoother->task->inputs.largest[c],
                     weight = fmax((double)smoother->largest[c], FLOOR);
        /* an input that calibration did not see may come later: over the floor it would be the largest of its token */
        smoother->scales[c] = input > 0 ? (float)fmax(pow(input, alpha) / pow(weight, 1 - alpha), FLOOR) : 1;
    }
    smoother->backend->ops->upload(smoother->backend, smoother->column_scales, smoother->scales, DTYPE_F32);
}

static void encode(struct smoother *smoother, int64_t index)
{
    struct quantized_layer *layer = &smoother->out[index];
    const struct matrix scaled = matrix_rows(smoother->weights, 0, layer->rows);
    smoother->backend->ops->scale_columns(smoother->backend, scaled, smoother->task->linears[index].weight,
                                          smoother->column_scales);
    memcpy(layer->column_scales, smoother->scales, (size_t)smoother->columns * sizeof(float));
    coded_push(&smoother->coded[index]);
    coded_encode(&smoother->coded[index], scaled);
}

/* |X Wᵀ - X̂ Ŵᵀ|² over the sample and all linears. */
static double output_error(struct smoother *smoother, double alpha)
{
    struct backend *backend = smoother->backend;
    const struct matrix x = smoother->task->inputs.sample;
    double sum = 0;
    find_scales(smoother, alpha);
    backend->ops->round_rows(backend, &(struct round_rows_args){.bits = (int)smoother->params->activation_bits,
                                                                .smoothing = smoother->column_scales.data,
                                                                .x = x,
                                                                .to = smoother->rounded});
    for (int64_t i = 0; i < smoother->task->count; i++) {
        const struct quantized_layer *layer = &smoother->out[i];
        const struct matrix weight = matrix_rows(smoother->weights, 0, layer->rows);
        const struct matrix y = matrix_of(smoother->outputs.data, x.rows, layer->rows, backend->ops->element);
        encode(smoother, i);
        coded_decode(&smoother->coded[i], weight);
        backend->ops->gemm(backend, &(struct gemm_args){.a = x,
                                                        .b = smoother->task->linears[i].weight,
                                                        .c = y,
                                                        .transpose_b = true,
                                                        .alpha = 1,
                                                        .exact = true});
        backend->ops->gemm(backend, &(struct gemm_args){.a = smoother->rounded,
                                                        .b = weight,
                                                        .c = y,
                                                        .transpose_b = true,
                                                        .alpha = -1,
                                                        .beta = 1,
                                                        .exact = true});
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
                                        const struct quantize_task *task, struct quantized_layer *out,
                                        struct error *error)
{
    struct smoother smoother = {.backend = backend,
                                .method = method,
                                .params = &method->smoothquant,
                                .task = task,
                                .out = out,
                                .columns = task->linears[0].weight.columns};
    enum status status;
    if ((status = check_task(backend, task, error)) != STATUS_OK) goto done;
    if ((status = smoother_init(&smoother, error)) != STATUS_OK) goto done;
    if ((status = find_largest(&smoother, error)) != STATUS_OK) goto done;
    const double alpha = method->smoothquant.search ? search(&smoother) : method->smoothquant.alpha;
    find_scales(&smoother, alpha);
    for (int64_t i = 0; i < task->count; i++) {
        encode(&smoother, i);
        out[i].alpha = alpha;
        if ((status = coded_pull(&smoother.coded[i], error)) != STATUS_OK) goto done;
        if ((status = check_scales(&out[i], task->linears[i].name, error)) != STATUS_OK) goto done;
        status = coded_measure(&smoother.coded[i], task->linears[i].name, task->linears[i].weight, task->inputs.hessian,
                               error);
        if (status != STATUS_OK) goto done;
    }
    for (int64_t i = 0; i < task->count; i++) coded_decode(&smoother.coded[i], task->linears[i].weight);
done:
    smoother_reset(&smoother);
    return status;
}

/* The inputs are rounded as the method's are. */
static void smoothquant_fallback(struct quantize_method *method)
{
    method->options.activation_bits = method->smoothquant.activation_bits;
    method->quantizer = QUANTIZER_RTN;
    method->rtn = (struct rtn_params){method->smoothquant.bits, -1, true};
}

const struct quantizer quantizer_smoothquant = {.name = "smoothquant",
                                                .params = smoothquant_params,
                                                .needs = NEED_INPUT_HESSIAN | NEED_INPUT_MAGNITUDE | NEED_INPUT_SAMPLE,
                                                .fallback = smoothquant_fallback,
                                                .treats_inputs = true,
                                                .scales_columns = true,
                                                .complete = smoothquant_complete,
                                                .quantize = smoothquant_quantize};
