#include "quant/subset.h"

#include "base/integer.h"
#include "base/memory.h"
#include "quant/check.h"
#include "quant/coded.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SLAB = 256 };

/* A task without the kept columns; all owned. */
struct reduced {
    struct backend *backend;          /* lent */
    const struct quantize_task *task; /* the whole one */
    int64_t columns, kept;            /* remaining columns; kept columns */
    int32_t *left, *out;              /* [columns], [kept] ascending */
    int32_t *place; /* [columns + kept] the index of a column when the remaining ones come first, then the kept ones */
    float *largest;
    double *mean;
    struct matrix hessian, sample; /* in memory of the backend, like the weights of the linears */
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

/* Sums of squares of the weights, by column: used without calibration. */
static enum status weigh_columns(struct backend *backend, const struct quantize_task *task, struct column *sizes,
                                 struct error *error)
{
    const int64_t columns = task->linears[0].weight.columns;
    float *rows = NULL;
    enum status status = memory_new(SLAB * columns, sizeof *rows, "weights", &rows, error);
    for (int64_t i = 0; i < task->count && status == STATUS_OK; i++) {
        const struct matrix weight = task->linears[i].weight;
        for (int64_t first = 0; first < weight.rows && status == STATUS_OK; first += SLAB) {
            const int64_t count = weight.rows - first < SLAB ? weight.rows - first : SLAB;
            backend->ops->download(backend, matrix_rows(weight, first, count), rows, DTYPE_F32);
            status = backend->ops->sync(backend, error);
            for (int64_t k = 0; k < count * columns; k++) sizes[k % columns].size += (double)rows[k] * (double)rows[k];
        }
    }
    memory_free(rows);
    return status;
}

static enum status measure_columns(struct backend *backend, const struct quantize_task *task, struct column *sizes,
                                   struct error *error)
{
    const int64_t columns = task->linears[0].weight.columns;
    float *diagonal = NULL;
    enum status status;
    for (int64_t c = 0; c < columns; c++) sizes[c] = (struct column){0, (int32_t)c};
    if (task->inputs.hessian.data == NULL) return weigh_columns(backend, task, sizes, error);
    if ((status = memory_new(columns, sizeof *diagonal, "columns", &diagonal, error)) != STATUS_OK) return status;
    backend->ops->download(backend, matrix_diagonal(task->inputs.hessian), diagonal, DTYPE_F32);
    status = backend->ops->sync(backend, error);
    for (int64_t c = 0; c < columns; c++) sizes[c].size = (double)diagonal[c];
    memory_free(diagonal);
    return status;
}

static enum status choose(struct reduced *reduced, int64_t all, struct error *error)
{
    struct column *sizes = NULL;
    bool *kept = NULL;
    int64_t in = 0, out = 0;
    enum status status;
    if ((status = memory_new(all, sizeof *sizes, "columns", &sizes, error)) != STATUS_OK) goto done;
    if ((status = memory_new(all, sizeof *kept, "columns", &kept, error)) != STATUS_OK) goto done;
    if ((status = memory_new(reduced->columns, sizeof *reduced->left, "columns", &reduced->left, error)) != STATUS_OK)
        goto done;
    if ((status = memory_new(reduced->kept, sizeof *reduced->out, "columns", &reduced->out, error)) != STATUS_OK)
        goto done;
    if ((status = memory_new(all, sizeof *reduced->place, "columns", &reduced->place, error)) != STATUS_OK) goto done;
    if ((status = measure_columns(reduced->backend, reduced->task, sizes, error)) != STATUS_OK) goto done;
    qsort(sizes, (size_t)all, sizeof *sizes, compare_sizes);
    for (int64_t i = 0; i < reduced->kept; i++) kept[sizes[i].index] = true;
    for (int64_t c = 0; c < all; c++) {
        reduced->place[c] = (int32_t)(kept[c] ? reduced->columns + out : in);
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

/* Copies the remaining columns; with `square` also only the remaining rows. */
static enum status copy_columns(struct reduced *reduced, struct matrix from, bool square, const char *what,
                                struct matrix *to, struct error *error)
{
    struct backend *backend = reduced->backend;
    const int32_t *rows = square ? reduced->left : NULL;
    const enum status status =
        matrix_new(backend, square ? reduced->columns : from.rows, reduced->columns, what, to, error);
    if (status == STATUS_OK) backend->ops->select(backend, *to, from, rows, reduced->left);
    return status;
}

static enum status reduce_inputs(struct reduced *reduced, struct statistics *to, struct error *error)
{
    const struct statistics *from = &reduced->task->inputs;
    const int64_t n = reduced->columns;
    enum status status;
    *to = (struct statistics){.sample = {0}};
    if (from->hessian.data != NULL) {
        status = copy_columns(reduced, from->hessian, true, "Hessian", &reduced->hessian, error);
        if (status != STATUS_OK) return status;
        to->hessian = reduced->hessian;
    }
    if (from->mean != NULL) {
        if ((status = memory_new(n, sizeof(double), "input statistics", &reduced->mean, error)) != STATUS_OK)
            return status;
        if ((status = memory_new(n, sizeof(float), "input statistics", &reduced->largest, error)) != STATUS_OK)
            return status;
        for (int64_t c = 0; c < n; c++) {
            reduced->mean[c] = from->mean[reduced->left[c]];
            reduced->largest[c] = from->largest[reduced->left[c]];
        }
        to->mean = reduced->mean;
        to->largest = reduced->largest;
    }
    if (from->sample.data == NULL) return STATUS_OK;
    status = copy_columns(reduced, from->sample, false, "a sample of inputs", &reduced->sample, error);
    to->sample = reduced->sample;
    return status;
}

static enum status reduce_linears(struct reduced *reduced, struct error *error)
{
    const struct quantize_task *task = reduced->task;
    enum status status = memory_new(task->count, sizeof *reduced->linears, "linears", &reduced->linears, error);
    for (int64_t i = 0; i < task->count && status == STATUS_OK; i++) {
        reduced->linears[i].name = task->linears[i].name;
        status = copy_columns(reduced, task->linears[i].weight, false, "weights", &reduced->linears[i].weight, error);
    }
    return status;
}

static void reduced_reset(struct reduced *reduced)
{
    for (int64_t i = 0; i < reduced->task->count && reduced->linears != NULL; i++)
        matrix_release(reduced->backend, &reduced->linears[i].weight);
    matrix_release(reduced->backend, &reduced->sample);
    matrix_release(reduced->backend, &reduced->hessian);
    void *blocks[] = {reduced->linears, reduced->largest, reduced->mean, reduced->left, reduced->out, reduced->place};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) memory_free(blocks[i]);
}

/* The error's share of the whole layer's output energy, most of which is in the kept columns, which have no error. */
static enum status measure_error(struct backend *backend, struct matrix weight, struct matrix hessian,
                                 struct quantized_layer *layer, struct error *error)
{
    const int64_t slab = smaller(weight.rows, coded_slab_rows(backend));
    void *product = NULL;
    double whole = 0;
    const enum status status =
        backend->ops->allocate(backend, slab * weight.columns, "quantization error", &product, error);
    if (status != STATUS_OK) return status;
    for (int64_t first = 0; first < weight.rows; first += slab) {
        const int64_t count = weight.rows - first < slab ? weight.rows - first : slab;
        whole += coded_energy(backend, matrix_rows(weight, first, count), hessian,
                              matrix_of(product, count, weight.columns, backend->ops->element));
    }
    layer->relative_error = whole > 0 ? layer->proxy_error / whole : 0;
    backend->ops->release(backend, product);
    return STATUS_OK;
}

/* Puts the quantized columns back among the kept ones, some rows at a time. */
static enum status put_back(const struct reduced *reduced, struct matrix to, struct matrix from, struct error *error)
{
    struct backend *backend = reduced->backend;
    const int64_t slab = to.rows < SLAB ? to.rows : SLAB;
    struct matrix both = matrix_of(NULL, slab, to.columns, backend->ops->element);
    const enum status status = backend->ops->allocate(backend, slab * to.columns, "weights", &both.data, error);
    for (int64_t first = 0; first < to.rows && status == STATUS_OK; first += slab) {
        const int64_t count = to.rows - first < slab ? to.rows - first : slab;
        const struct matrix rows = matrix_rows(to, first, count), whole = matrix_rows(both, 0, count);
        const struct matrix left = matrix_columns(whole, 0, reduced->columns);
        backend->ops->add(backend, left, matrix_rows(from, first, count), 1, 0);
        backend->ops->select(backend, matrix_columns(whole, reduced->columns, reduced->kept), rows, NULL, reduced->out);
        backend->ops->select(backend, rows, whole, NULL, reduced->place);
    }
    matrix_release(backend, &both);
    return status;
}

static enum status take_back(const struct reduced *reduced, int64_t index, struct quantized_layer *layer,
                             struct error *error)
{
    const struct matrix to = reduced->task->linears[index].weight;
    enum status status = measure_error(reduced->backend, to, reduced->task->inputs.hessian, layer, error);
    if (status == STATUS_OK)
        status = memory_new(reduced->kept, sizeof *layer->kept_columns, "kept columns", &layer->kept_columns, error);
    if (status != STATUS_OK) return status;
    layer->kept = reduced->kept;
    memcpy(layer->kept_columns, reduced->out, (size_t)reduced->kept * sizeof *reduced->out);
    return put_back(reduced, to, reduced->linears[index].weight, error);
}

static enum status quantize_saveing(struct backend *backend, const struct quantize_method *method,
                                    const struct quantize_task *task, struct quantized_layer *out, struct error *error)
{
    const int64_t all = task->linears[0].weight.columns, kept = method->options.keep_outliers;
    const struct quantizer *quantizer = quantizer_by_id(method->quantizer);
    struct reduced reduced = {.backend = backend, .task = task, .columns = all - kept, .kept = kept};
    struct quantize_task rest = {.count = task->count,
                                 .methods = task->methods,
                                 .shared_values = task->shared_values,
                                 .half_scales = task->half_scales};
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
        if ((status = take_back(&reduced, i, &out[i], error)) != STATUS_OK) goto done;
done:
    reduced_reset(&reduced);
    return status;
}

static struct quantized_layer skipped(const struct quantize_linear *linear)
{
    return (struct quantized_layer){
        .rows = linear->weight.rows, .columns = linear->weight.columns, .skipped = true, .alpha = NAN};
}

static enum status quantize_part(struct backend *backend, const struct quantize_method *method,
                                 const struct quantize_task *task, struct quantized_layer *out, struct error *error)
{
    if (method->options.keep_outliers > 0) return quantize_saveing(backend, method, task, out, error);
    return quantizer_by_id(method->quantizer)->quantize(backend, method, task, out, error);
}

static enum status quantize_alike(struct backend *backend, const struct overrides *overrides, int64_t index,
                                  const struct quantize_task *task, struct quantized_layer *out, struct error *error)
{
    struct quantize_method method;
    if (overrides_apply(overrides, index, &method)) {
        for (int64_t i = 0; i < task->count; i++) out[i] = skipped(&task->linears[i]);
        return STATUS_OK;
    }
    return quantize_part(backend, &method, task, out, error);
}

/* Linears that neighbour each other and have one override, or none, are a task of their own. */
static enum status quantize_apart(struct backend *backend, const struct overrides *overrides,
                                  const struct quantize_task *task, struct quantized_layer *out, struct error *error)
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
        struct quantize_task part = *task;
        part.linears += first;
        part.count = end - first;
        if (status == STATUS_OK) status = quantize_alike(backend, overrides, first_index, &part, out + first, error);
    }
    return status;
}

/* ---- Linears that share scales of columns ---- */

/* Those of a task that no override skips. */
struct sharing {
    int64_t count;
    struct quantize_linear *linears; /* [count] owned, like all below */
    struct quantize_method *methods; /* [count] */
    struct quantized_layer *layers;  /* [count] */
    int64_t *places;                 /* [count] in the task */
};

static enum status sharing_init(struct sharing *sharing, int64_t most, struct error *error)
{
    enum status status;
    *sharing = (struct sharing){0};
    if ((status = memory_new(most, sizeof *sharing->linears, "linears", &sharing->linears, error)) != STATUS_OK ||
        (status = memory_new(most, sizeof *sharing->methods, "linears", &sharing->methods, error)) != STATUS_OK ||
        (status = memory_new(most, sizeof *sharing->layers, "linears", &sharing->layers, error)) != STATUS_OK)
        return status;
    return memory_new(most, sizeof *sharing->places, "linears", &sharing->places, error);
}

static void sharing_reset(struct sharing *sharing)
{
    memory_free(sharing->places);
    memory_free(sharing->layers);
    memory_free(sharing->methods);
    memory_free(sharing->linears);
}

/* One task of all linears that are quantized, wherever they stand: the input has one set of column scales, whatever
 * their grids. */
static enum status quantize_sharing(struct backend *backend, const struct overrides *overrides,
                                    const struct quantize_task *task, struct quantized_layer *out, struct error *error)
{
    struct sharing sharing;
    struct quantize_task rest = *task;
    enum status status = sharing_init(&sharing, task->count, error);
    for (int64_t i = 0; i < task->count && status == STATUS_OK; i++) {
        int64_t index;
        if ((status = overrides_find(overrides, task->linears[i].name, &index, error)) != STATUS_OK) break;
        if (overrides_apply(overrides, index, &sharing.methods[sharing.count])) {
            out[i] = skipped(&task->linears[i]);
            continue;
        }
        sharing.linears[sharing.count] = task->linears[i];
        sharing.places[sharing.count++] = i;
    }
    rest.linears = sharing.linears;
    rest.methods = sharing.methods;
    rest.count = sharing.count;
    if (status == STATUS_OK && rest.count > 0)
        status = quantize_part(backend, &sharing.methods[0], &rest, sharing.layers, error);
    for (int64_t i = 0; i < sharing.count; i++) out[sharing.places[i]] = sharing.layers[i];
    sharing_reset(&sharing);
    return status;
}

/* Counts the inputs that were zero on every calibration token. A method that reads inputs and has none was rounding to
 * nearest. */
static enum status note_dead(struct backend *backend, const struct quantize_method *method,
                             const struct quantize_task *task, struct quantized_layer *out, struct error *error)
{
    const int64_t columns = task->linears[0].weight.columns;
    int64_t dead = task->inputs.hessian.data == NULL ? -1 : 0;
    float *diagonal = NULL;
    enum status status = STATUS_OK;
    if (dead == 0) {
        status = memory_new(columns, sizeof *diagonal, "columns", &diagonal, error);
        if (status != STATUS_OK) return status;
        backend->ops->download(backend, matrix_diagonal(task->inputs.hessian), diagonal, DTYPE_F32);
        status = backend->ops->sync(backend, error);
        for (int64_t c = 0; c < columns; c++) dead += diagonal[c] == 0;
        memory_free(diagonal);
    }
    for (int64_t i = 0; i < task->count; i++) {
        out[i].dead_columns = dead;
        if (dead == columns && !out[i].skipped && out[i].degraded == DEGRADED_NO &&
            quantizer_by_id(method->quantizer)->needs != 0)
            out[i].degraded = DEGRADED_SILENT;
    }
    return status;
}

enum status subset_quantize(struct backend *backend, const struct overrides *overrides,
                            const struct quantize_task *task, struct quantized_layer *out, struct error *error)
{
    struct quantize_method method;
    (void)overrides_apply(overrides, OVERRIDES_NONE, &method);
    const enum status status = quantizer_by_id(method.quantizer)->scales_columns
                                   ? quantize_sharing(backend, overrides, task, out, error)
                                   : quantize_apart(backend, overrides, task, out, error);
    for (int64_t i = 0; i < task->count && status == STATUS_OK; i++)
        if (!out[i].skipped && out[i].input_bits == 0) out[i].input_bits = (int)method.options.activation_bits;
    return status == STATUS_OK ? note_dead(backend, &method, task, out, error) : status;
}
