#include "quant/subset.h"

#include "base/memory.h"
#include "quant/check.h"
#include "quant/coded.h"
#include "quant/on_host.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SLAB = 256 };

/* A task without the kept columns; all owned. */
struct reduced {
    const struct quantize_task *task; /* the whole one */
    int64_t columns, kept;            /* columns left; those that are not */
    int32_t *left, *out;              /* [columns], [kept] ascending */
    float *hessian, *largest, *sample;
    double *mean;
    struct quantize_linear *linears;
};

struct column {
    double size;
    int32_t index;
};

/* Descending by size; of equals the first. */
static int compare_sizes(const void *left, const void *right)
{
    const struct column *a = left, *b = right;
    if (a->size != b->size) return a->size < b->size ? 1 : -1;
    return a->index < b->index ? -1 : 1;
}

static double column_size(const struct quantize_task *task, int64_t column)
{
    const struct matrix hessian = task->inputs.hessian;
    double sum = 0;
    if (hessian.data != NULL) return (double)((const float *)hessian.data)[column * hessian.stride + column];
    for (int64_t i = 0; i < task->count; i++)
        for (int64_t r = 0; r < task->linears[i].weight.rows; r++) {
            const double w = (double)((const float *)task->linears[i].weight.data)[r * task->linears[i].weight.stride + column];
            sum += w * w;
        }
    return sum;
}

static enum status choose(struct reduced *reduced, int64_t all, struct error *error)
{
    struct column *sizes = NULL;
    bool *kept = NULL;
    int64_t in = 0, out = 0;
    enum status status;
    if ((status = memory_new(all, sizeof *sizes, "columns", &sizes, error)) != STATUS_OK) goto done;
    if ((status = memory_new(all, sizeof *kept, "columns", &kept, error)) != STATUS_OK) goto done;
    if ((status = memory_new(reduced->columns, sizeof *reduced->left, "columns", &reduced->left, error)) != STATUS_OK) goto done;
    if ((status = memory_new(reduced->kept, sizeof *reduced->out, "columns", &reduced->out, error)) != STATUS_OK) goto done;
    for (int64_t c = 0; c < all; c++) sizes[c] = (struct column){column_size(reduced->task, c), (int32_t)c};
    qsort(sizes, (size_t)all, sizeof *sizes, compare_sizes);
    for (int64_t i = 0; i < reduced->kept; i++) kept[sizes[i].index] = true;
    for (int64_t c = 0; c < all; c++) {
        if (kept[c])
            reduced->out[out++] = (int32_t)c;
        else
            reduced->left[in++] = (int32_t)c;
    }
done:
    memory_free(kept);
    memory_free(sizes);
    return status;
}

/* Copies the columns left of some rows; `from` row r of the result is row rows[r] (NULL: r). */
static void copy_columns(const struct reduced *reduced, struct matrix from, const int32_t *rows, int64_t count, float *to)
{
    for (int64_t r = 0; r < count; r++) {
        const float *row = (const float *)from.data + (rows == NULL ? r : rows[r]) * from.stride;
        for (int64_t c = 0; c < reduced->columns; c++) to[r * reduced->columns + c] = row[reduced->left[c]];
    }
}

static enum status reduce_inputs(struct reduced *reduced, struct statistics *to, struct error *error)
{
    const struct statistics *from = &reduced->task->inputs;
    const int64_t n = reduced->columns;
    enum status status;
    *to = (struct statistics){.sample = {0}};
    if (from->hessian.data != NULL) {
        if ((status = memory_new(n * n, sizeof(float), "Hessian", &reduced->hessian, error)) != STATUS_OK) return status;
        copy_columns(reduced, from->hessian, reduced->left, n, reduced->hessian);
        to->hessian = matrix_of(reduced->hessian, n, n, sizeof(float));
    }
    if (from->mean != NULL) {
        if ((status = memory_new(n, sizeof(double), "input statistics", &reduced->mean, error)) != STATUS_OK) return status;
        if ((status = memory_new(n, sizeof(float), "input statistics", &reduced->largest, error)) != STATUS_OK) return status;
        for (int64_t c = 0; c < n; c++) {
            reduced->mean[c] = from->mean[reduced->left[c]];
            reduced->largest[c] = from->largest[reduced->left[c]];
        }
        to->mean = reduced->mean;
        to->largest = reduced->largest;
    }
    if (from->sample.data == NULL) return STATUS_OK;
    status = memory_new(from->sample.rows * n, sizeof(float), "a sample of inputs", &reduced->sample, error);
    if (status != STATUS_OK) return status;
    copy_columns(reduced, from->sample, NULL, from->sample.rows, reduced->sample);
    to->sample = matrix_of(reduced->sample, from->sample.rows, n, sizeof(float));
    return STATUS_OK;
}

static enum status reduce_linears(struct reduced *reduced, struct error *error)
{
    const struct quantize_task *task = reduced->task;
    enum status status = memory_new(task->count, sizeof *reduced->linears, "linears", &reduced->linears, error);
    for (int64_t i = 0; i < task->count && status == STATUS_OK; i++) {
        const struct quantize_linear *linear = &task->linears[i];
        float *copy = NULL;
        status = memory_new(linear->weight.rows * reduced->columns, sizeof *copy, "weights", &copy, error);
        reduced->linears[i] =
            (struct quantize_linear){linear->name, matrix_of(copy, linear->weight.rows, reduced->columns, sizeof *copy)};
        if (status == STATUS_OK) copy_columns(reduced, linear->weight, NULL, linear->weight.rows, copy);
    }
    return status;
}

static void reduced_reset(struct reduced *reduced)
{
    for (int64_t i = 0; i < reduced->task->count && reduced->linears != NULL; i++) memory_free(reduced->linears[i].weight.data);
    void *blocks[] = {reduced->linears, reduced->sample, reduced->largest, reduced->mean,
                      reduced->hessian, reduced->left,   reduced->out};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) memory_free(blocks[i]);
}

/* The share of the whole layer's output energy: the kept columns, which have no error, have most of it. */
static enum status settle_error(struct backend *backend, struct matrix weight, struct matrix hessian, struct quantized_layer *layer,
                                struct error *error)
{
    const int64_t slab = weight.rows < SLAB ? weight.rows : SLAB;
    float *product = NULL;
    double whole = 0;
    const enum status status = memory_new(slab * weight.columns, sizeof *product, "quantization error", &product, error);
    for (int64_t first = 0; first < weight.rows && status == STATUS_OK; first += slab) {
        const int64_t count = weight.rows - first < slab ? weight.rows - first : slab;
        whole += coded_energy(backend, matrix_rows(weight, first, count), hessian,
                              matrix_of(product, count, weight.columns, sizeof *product));
    }
    layer->relative_error = whole > 0 ? layer->proxy_error / whole : 0;
    memory_free(product);
    return status;
}

/* Puts the quantized columns back among the kept ones. */
static enum status take_back(struct backend *backend, const struct reduced *reduced, int64_t index, struct quantized_layer *layer,
                             struct error *error)
{
    const struct matrix to = reduced->task->linears[index].weight, from = reduced->linears[index].weight;
    enum status status = settle_error(backend, to, reduced->task->inputs.hessian, layer, error);
    if (status == STATUS_OK)
        status = memory_new(reduced->kept, sizeof *layer->kept_columns, "kept columns", &layer->kept_columns, error);
    if (status != STATUS_OK) return status;
    layer->kept = reduced->kept;
    memcpy(layer->kept_columns, reduced->out, (size_t)reduced->kept * sizeof *reduced->out);
    for (int64_t r = 0; r < to.rows; r++)
        for (int64_t c = 0; c < reduced->columns; c++)
            ((float *)to.data)[r * to.stride + reduced->left[c]] = ((const float *)from.data)[r * from.stride + c];
    return STATUS_OK;
}

static enum status quantize_keeping(struct backend *backend, const struct quantize_method *method, const struct quantize_task *task,
                                    struct quantized_layer *out, struct error *error)
{
    const int64_t all = task->linears[0].weight.columns, kept = method->options.keep_outliers;
    const struct quantizer *quantizer = quantizer_by_id(method->quantizer);
    struct reduced reduced = {.task = task, .columns = all - kept, .kept = kept};
    struct quantize_task rest = {.count = task->count};
    enum status status;
    if (kept >= all)
        return error_set_at(error, STATUS_INVALID, "/method/keep_outliers",
                            "%" PRId64 " columns of the %" PRId64 " of %s; keep fewer, or skip the module", kept, all,
                            task->linears[0].name);
    if ((status = check_task(backend, task, error)) != STATUS_OK) goto done;
    if ((status = choose(&reduced, all, error)) != STATUS_OK) goto done;
    if ((status = reduce_inputs(&reduced, &rest.inputs, error)) != STATUS_OK) goto done;
    if ((status = reduce_linears(&reduced, error)) != STATUS_OK) goto done;
    rest.linears = reduced.linears;
    if ((status = quantizer->quantize(backend, method, &rest, out, error)) != STATUS_OK) goto done;
    for (int64_t i = 0; i < task->count; i++)
        if ((status = take_back(backend, &reduced, i, &out[i], error)) != STATUS_OK) goto done;
done:
    reduced_reset(&reduced);
    return status;
}

static void skip(const struct quantize_task *task, struct quantized_layer *out)
{
    for (int64_t i = 0; i < task->count; i++)
        out[i] = (struct quantized_layer){
            .rows = task->linears[i].weight.rows, .columns = task->linears[i].weight.columns, .skipped = true, .alpha = NAN};
}

/* What works on host memory alone gets copies of what lies on a device. */
static enum status quantize_on_host(struct backend *backend, const struct quantize_method *method, const struct quantize_task *task,
                                    struct quantized_layer *out, struct error *error)
{
    struct on_host copy;
    enum status status = on_host_init(&copy, backend, task, error);
    if (status == STATUS_OK && method->options.keep_outliers > 0)
        status = quantize_keeping(copy.backend, method, &copy.task, out, error);
    else if (status == STATUS_OK)
        status = quantizer_by_id(method->quantizer)->quantize(copy.backend, method, &copy.task, out, error);
    if (status == STATUS_OK) on_host_return(&copy);
    on_host_reset(&copy);
    return status;
}

static enum status quantize_alike(struct backend *backend, const struct overrides *overrides, int64_t index,
                                  const struct quantize_task *task, struct quantized_layer *out, struct error *error)
{
    struct quantize_method method;
    if (overrides_apply(overrides, index, &method)) {
        skip(task, out);
        return STATUS_OK;
    }
    const struct quantizer *quantizer = quantizer_by_id(method.quantizer);
    if (!quantizer->anywhere || method.options.keep_outliers > 0) return quantize_on_host(backend, &method, task, out, error);
    return quantizer->quantize(backend, &method, task, out, error);
}

enum status subset_quantize(struct backend *backend, const struct overrides *overrides, const struct quantize_task *task,
                            struct quantized_layer *out, struct error *error)
{
    int64_t first_index = OVERRIDES_NONE;
    enum status status = STATUS_OK;
    for (int64_t first = 0, end; first < task->count && status == STATUS_OK; first = end) {
        status = overrides_find(overrides, task->linears[first].name, &first_index, error);
        for (end = first + 1; end < task->count && status == STATUS_OK; end++) {
            int64_t index;
            status = overrides_find(overrides, task->linears[end].name, &index, error);
            if (index != first_index) break;
        }
        const struct quantize_task part = {task->linears + first, end - first, task->inputs};
        if (status == STATUS_OK) status = quantize_alike(backend, overrides, first_index, &part, out + first, error);
    }
    return status;
}
