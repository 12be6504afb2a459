/* gptq.c: GPTQ (Frantar et al., "GPTQ: accurate post-training quantization for generative pre-trained transformers",
 * arXiv 2210.17323), with the choices that its widely used implementation makes:
 *
 *   1. the grid of a whole row (group_size -1) is found on the untouched weight
 *   2. dead inputs (H[c, c] = 0): H[c, c] = 1, column c becomes 0
 *   3. the visiting order (gptq_order.h)
 *   4. damping and the factor U (gptq_factor.h)
 *   5. blocks of 128 columns. The grid of a group is found when its first column's block begins, on the weight as the
 *      blocks before left it; the block is solved (backend/codes.h); then, in one product,
 *          W[:, rest] -= E U[block, rest]
 *
 * The rows of all linears that share the input are stacked: one factor, one set of products. Floats, with grids and
 * sums of errors in double. */
#include "quant/gptq.h"

#include "base/memory.h"
#include "quant/check.h"
#include "quant/coded.h"
#include "quant/export_format.h"
#include "quant/gptq_factor.h"
#include "quant/gptq_order.h"

#include <math.h>

const struct param gptq_params[] = {
    QUANTIZE_GRID_PARAMS(gptq, "true"),
    {.name = "desc_act",
     .type = PARAM_BOOLEAN,
     .offset = QUANTIZE_AT(gptq.desc_act),
     .fallback = "false",
     .help = "Visit columns by descending activation, groups following that order; turns act_group_aware off"},
    {.name = "act_group_aware",
     .type = PARAM_BOOLEAN,
     .offset = QUANTIZE_AT(gptq.act_group_aware),
     .fallback = "true",
     .help = "Visit columns by descending activation inside their groups, and groups by their largest; off"
             " when group_size is -1"},
    QUANTIZE_DAMP_PARAM(gptq),
    QUANTIZE_ACTIVATION_PARAM,
    QUANTIZE_OPTION_PARAMS,
    {0},
};

enum status gptq_check_damping(double damp_percent, struct error *error)
{
    if (damp_percent > 0 && damp_percent < 1) return STATUS_OK;
    return error_set_at(error, STATUS_INVALID, "/damp_percent", "found %g, expected a number above 0 and below 1",
                        damp_percent);
}

static enum status gptq_complete(struct quantize_method *method, struct error *error)
{
    struct gptq_params *params = &method->gptq;
    const enum status status = gptq_check_damping(params->damp_percent, error);
    if (status != STATUS_OK) return status;
    if (params->desc_act || params->group_size == -1) params->act_group_aware = false;
    return check_group_size(params->group_size, error);
}

/* One call's working memory; all owned. */
struct solver {
    struct backend *backend;
    const struct gptq_setup *setup;
    const struct quantize_task *task;
    struct quantized_layer *out;
    struct coded *coded;    /* [count] */
    struct coding *codings; /* [count] of each linear, group_size columns in visiting order; tables on the host … */
    float *table;           /* … and the table in memory of the backend; NULL on a host */
    struct gptq_order order;
    int64_t rows, padded, columns;
    float *diagonal; /* [columns] of H, 1 where dead */
    bool *is_dead;   /* [columns] */
    int64_t dead;
    double *found; /* [2, runs, padded] scales and zero points, once all are computed */
    /* In memory of the backend. */
    struct matrix upper;   /* [columns, columns] */
    struct matrix weights; /* [rows, columns] all linears stacked, in visiting order */
    struct matrix errors;  /* [GPTQ_BLOCK, rows], transposed, rows of `padded` */
    double *grids;         /* [2, runs, padded] */
    uint8_t *codes;        /* [rows, columns] in the original order */
};

/* Allocates bytes in memory of the backend. */
static enum status device_new(struct solver *solver, int64_t bytes, const char *what, void **out, struct error *error)
{
    struct backend *backend = solver->backend;
    return backend->ops->allocate(backend, backend_elements(backend, bytes), what, out, error);
}

static enum status solver_init(struct solver *solver, struct error *error)
{
    const int64_t rows = solver->rows, columns = solver->columns, grids = solver->order.runs * solver->padded * 2;
    const int64_t element = (int64_t)solver->backend->ops->element;
    void *found = NULL;
    enum status status;
    solver->upper = matrix_of(NULL, columns, columns, (size_t)element);
    solver->weights = matrix_of(NULL, rows, columns, (size_t)element);
    solver->errors = (struct matrix){NULL, GPTQ_BLOCK, rows, solver->padded, (size_t)element};
    if ((status = memory_new(grids, sizeof(double), "grids", &solver->found, error)) != STATUS_OK ||
        (status = memory_new(solver->task->count, sizeof *solver->coded, "codes", &solver->coded, error)) !=
            STATUS_OK ||
        (status = device_new(solver, columns * columns * element, "Hessian factor", &solver->upper.data, error)) !=
            STATUS_OK ||
        (status = device_new(solver, rows * columns * element, "weights in visiting order", &solver->weights.data,
                             error)) != STATUS_OK ||
        (status = device_new(solver, GPTQ_BLOCK * solver->padded * element, "block errors", &solver->errors.data,
                             error)) != STATUS_OK ||
        (status = device_new(solver, grids * (int64_t)sizeof(double), "grids", &found, error)) != STATUS_OK)
        return status;
    solver->grids = found;
    if ((status = device_new(solver, rows * columns, "codes", &found, error)) != STATUS_OK) return status;
    solver->codes = found;
    return STATUS_OK;
}

static void solver_reset(struct solver *solver)
{
    const struct backend_ops *ops = solver->backend->ops;
    for (int64_t i = 0; i < solver->task->count && solver->coded != NULL; i++) coded_reset(&solver->coded[i]);
    if (solver->codes != NULL) ops->release(solver->backend, solver->codes);
    if (solver->grids != NULL) ops->release(solver->backend, solver->grids);
    if (solver->table != NULL) ops->release(solver->backend, solver->table);
    matrix_release(solver->backend, &solver->errors);
    matrix_release(solver->backend, &solver->weights);
    matrix_release(solver->backend, &solver->upper);
    memory_free(solver->coded);
    memory_free(solver->codings);
    memory_free(solver->found);
    memory_free(solver->is_dead);
    memory_free(solver->diagonal);
    gptq_order_reset(&solver->order);
}

static enum status find_dead(struct solver *solver, struct error *error)
{
    struct backend *backend = solver->backend;
    enum status status;
    if ((status = memory_new(solver->columns, sizeof(float), "Hessian diagonal", &solver->diagonal, error)) !=
            STATUS_OK ||
        (status = memory_new(solver->columns, sizeof(bool), "Hessian diagonal", &solver->is_dead, error)) != STATUS_OK)
        return status;
    backend->ops->download(backend, matrix_diagonal(solver->task->inputs.hessian), solver->diagonal, DTYPE_F32);
    if ((status = backend->ops->sync(backend, error)) != STATUS_OK) return status;
    for (int64_t c = 0; c < solver->columns; c++) {
        solver->is_dead[c] = solver->diagonal[c] == 0;
        solver->dead += solver->is_dead[c];
        if (solver->is_dead[c]) solver->diagonal[c] = 1;
    }
    return STATUS_OK;
}

static enum status set_order(struct solver *solver, struct error *error)
{
    const struct gptq_setup *setup = solver->setup;
    const int64_t group_size = setup->coding.group_size == -1 ? solver->columns : setup->coding.group_size;
    enum gptq_order_kind kind = GPTQ_ORDER_NONE;
    if (setup->act_group_aware && setup->coding.group_size != -1) kind = GPTQ_ORDER_GAR;
    if (setup->desc_act) kind = GPTQ_ORDER_ACT;
    return gptq_order_init(&solver->order, kind, solver->diagonal, solver->columns, group_size, error);
}

/* Sets the coding of each linear from its original weight. */
static enum status set_codings(struct solver *solver, struct error *error)
{
    struct backend *backend = solver->backend;
    const struct coding *coding = &solver->setup->coding;
    const int64_t bytes = coding->count * (int64_t)sizeof *coding->values;
    void *table = NULL;
    enum status status = memory_new(solver->task->count, sizeof *solver->codings, "codings", &solver->codings, error);
    for (int64_t i = 0; i < solver->task->count && status == STATUS_OK; i++) {
        solver->codings[i] = *coding;
        if (solver->setup->look != NULL)
            status = solver->setup->look(backend, solver->task->linears[i].weight, &solver->codings[i], error);
        solver->codings[i].group_size = solver->order.group_size;
    }
    if (status != STATUS_OK || coding->values == NULL || backend->ops->host) return status;
    if ((status = device_new(solver, bytes, "table", &table, error)) != STATUS_OK) return status;
    solver->table = table;
    backend->ops->write_bytes(backend, table, coding->values, (size_t)bytes);
    return STATUS_OK;
}

/* The coding of a linear with the backend's table. */
static struct coding coding_of(const struct solver *solver, int64_t index)
{
    struct coding coding = solver->codings[index];
    if (solver->table != NULL) coding.values = solver->table;
    return coding;
}

/* The part of the grids for runs from `run` on and rows from `row` on. */
static struct grids grids_from(const struct solver *solver, int64_t run, int64_t row)
{
    const int64_t stride = solver->padded, at = run * stride + row;
    return (struct grids){solver->grids + at, solver->grids + solver->order.runs * stride + at, stride};
}

/* Computes the grids of `weight`, rows of linear `index`. */
static void find_grids(const struct solver *solver, int64_t index, struct matrix weight, struct grids grids)
{
    const int64_t size = solver->order.group_size;
    solver->backend->ops->encode(solver->backend, weight,
                                 &(struct codes){.coding = coding_of(solver, index),
                                                 .rows = weight.rows,
                                                 .columns = weight.columns,
                                                 .groups = (weight.columns + size - 1) / size,
                                                 .grids = grids});
}

/* Stacks the linears in visiting order. The only grid of a whole row is computed from the original weight. */
static void gather_rows(struct solver *solver)
{
    struct backend *backend = solver->backend;
    for (int64_t i = 0, row = 0; i < solver->task->count; row += solver->task->linears[i++].weight.rows) {
        const struct matrix weight = solver->task->linears[i].weight;
        backend->ops->select(backend, matrix_rows(solver->weights, row, weight.rows), weight, NULL, solver->order.from);
        if (solver->setup->coding.group_size == -1) find_grids(solver, i, weight, grids_from(solver, 0, row));
    }
    for (int64_t i = 0; i < solver->columns && solver->dead > 0; i++)
        if (solver->is_dead[solver->order.from[i]])
            backend->ops->fill(backend, matrix_columns(solver->weights, i, 1), 0);
}

/* Computes the grids of runs [run, last) from the present stacked weights; in one call if all linears have one
 * coding. */
static void find_runs(const struct solver *solver, int64_t run, int64_t last)
{
    const int64_t size = solver->order.group_size;
    const int64_t end = last * size < solver->columns ? last * size : solver->columns;
    const struct matrix weights = matrix_columns(solver->weights, run * size, end - run * size);
    if (solver->setup->look == NULL) {
        find_grids(solver, 0, weights, grids_from(solver, run, 0));
        return;
    }
    for (int64_t i = 0, row = 0; i < solver->task->count; row += solver->task->linears[i++].weight.rows)
        find_grids(solver, i, matrix_rows(weights, row, solver->task->linears[i].weight.rows),
                   grids_from(solver, run, row));
}

static void solve_block(struct solver *solver, int64_t first, int64_t width)
{
    struct backend *backend = solver->backend;
    const int64_t size = solver->order.group_size, columns = solver->columns;
    /* runs that begin in this block: all their grids come from the present weights */
    const int64_t run = (first + size - 1) / size, last = (first + width + size - 1) / size;
    const struct gptq_block_args block = {
        .weights = matrix_columns(solver->weights, first, width),
        .upper = matrix_columns(matrix_rows(solver->upper, first, width), first, width),
        .coding = coding_of(solver, 0), /* the linears' codings differ only in how scales are computed */
        .grids = grids_from(solver, 0, 0),
        .position = first,
        .from = solver->order.from + first,
        .codes = solver->codes,
        .codes_stride = columns,
        .errors = matrix_rows(solver->errors, 0, width),
    };
    if (solver->setup->coding.group_size != -1 && run < last) find_runs(solver, run, last);
    backend->ops->gptq_block(backend, &block);
}

/* W[:, rest] -= E U[block, rest] */
static void update_rest(struct solver *solver, int64_t first, int64_t width)
{
    const int64_t next = first + width, rest = solver->columns - next;
    if (rest == 0) return;
    solver->backend->ops->gemm(
        solver->backend, &(struct gemm_args){.a = matrix_rows(solver->errors, 0, width),
                                             .transpose_a = true,
                                             .b = matrix_columns(matrix_rows(solver->upper, first, width), next, rest),
                                             .c = matrix_columns(solver->weights, next, rest),
                                             .alpha = -1,
                                             .beta = 1,
                                             .exact = true});
}

/* Solves all blocks, and computes grids on the way. */
static enum status solve(struct solver *solver, struct error *error)
{
    struct backend *backend = solver->backend;
    gather_rows(solver);
    for (int64_t first = 0; first < solver->columns; first += GPTQ_BLOCK) {
        const int64_t left = solver->columns - first, width = left < GPTQ_BLOCK ? left : GPTQ_BLOCK;
        solve_block(solver, first, width);
        update_rest(solver, first, width);
    }
    backend->ops->read_bytes(backend, solver->grids, solver->found,
                             (size_t)(2 * solver->order.runs * solver->padded) * sizeof *solver->found);
    return backend->ops->sync(backend, error);
}

/* Makes a layer from the rows from first_row on; its codes stay in place until its values are written. */
static enum status take_layer(struct solver *solver, int64_t index, int64_t first_row, double damp, struct error *error)
{
    const struct gptq_setup *setup = solver->setup;
    const struct gptq_order *order = &solver->order;
    const struct quantize_linear *linear = &solver->task->linears[index];
    const double *scales = solver->found, *zeros = solver->found + order->runs * solver->padded;
    uint8_t *codes = solver->codes + first_row * solver->columns;
    struct quantized_layer *layer = &solver->out[index];
    struct backend *backend = solver->backend;
    enum status status =
        quantized_layer_init(layer, linear->weight.rows, solver->columns, solver->codings[index], error);
    if (status != STATUS_OK) return status;
    layer->damp = damp;
    layer->damp_increases = lround((damp - setup->damp_percent) / GPTQ_DAMP_INCREMENT);
    layer->dead_columns = solver->dead;
    layer->ordered = setup->desc_act && order->runs > 1; /* g_idx of a single group is 0 */
    layer->extra_bits = setup->extra_bits;
    for (int64_t i = 0; i < solver->columns && layer->ordered; i++)
        layer->g_idx[order->from[i]] = (int32_t)(i / order->group_size);
    backend->ops->read_bytes(backend, codes, layer->codes, (size_t)(layer->rows * solver->columns));
    for (int64_t run = 0; run < order->runs; run++)
        for (int64_t r = 0; r < layer->rows; r++) {
            const int64_t to = r * layer->groups + order->group[run], from = run * solver->padded + first_row + r;
            layer->scales[to] = (float)scales[from];
            if (layer->zeros != NULL) layer->zeros[to] = (uint8_t)zeros[from];
        }
    if ((status = check_scales(layer, linear->name, error)) != STATUS_OK) return status;
    if ((status = coded_init(&solver->coded[index], backend, layer, codes, error)) != STATUS_OK) return status;
    coded_push(&solver->coded[index]);
    if (solver->task->half_scales &&
        (status = coded_round_scales(&solver->coded[index], linear->name, error)) != STATUS_OK)
        return status;
    return coded_measure(&solver->coded[index], linear->name, linear->weight, solver->task->inputs.hessian, error);
}

/* The inputs carry no information: rounds to nearest and marks the layers. */
static enum status round_instead(const struct solver *solver, enum degraded why, struct error *error)
{
    const struct quantize_method *nearest = &solver->setup->nearest;
    const enum status status =
        quantizer_by_id(nearest->quantizer)->quantize(solver->backend, nearest, solver->task, solver->out, error);
    for (int64_t i = 0; i < solver->task->count && status == STATUS_OK; i++) {
        solver->out[i].degraded = why;
        solver->out[i].dead_columns = solver->dead;
    }
    return status;
}

enum status gptq_solve(struct backend *backend, const struct gptq_setup *setup, const struct quantize_task *task,
                       struct quantized_layer *out, struct error *error)
{
    struct solver solver = {.backend = backend, .setup = setup, .task = task, .out = out};
    enum status status;
    double damp = 0;
    bool factored = true;
    if (task->inputs.hessian.data == NULL)
        return error_set(error, STATUS_INTERNAL, "%s: gptq without a Hessian of its inputs", task->linears[0].name);
    for (int64_t i = 0; i < task->count; i++) solver.rows += task->linears[i].weight.rows;
    solver.columns = task->linears[0].weight.columns;
    solver.padded = (solver.rows + GPTQ_ROW_TILE - 1) / GPTQ_ROW_TILE * GPTQ_ROW_TILE;
    if ((status = check_task(backend, task, error)) != STATUS_OK) goto done;
    if ((status = find_dead(&solver, error)) != STATUS_OK) goto done;
    if (solver.dead == solver.columns) {
        status = round_instead(&solver, DEGRADED_SILENT, error);
        goto done;
    }
    if ((status = set_order(&solver, error)) != STATUS_OK) goto done;
    if ((status = set_codings(&solver, error)) != STATUS_OK) goto done;
    if ((status = solver_init(&solver, error)) != STATUS_OK) goto done;
    status = gptq_factor(backend, &solver.order, task->inputs.hessian, solver.diagonal, setup->damp_percent,
                         task->linears[0].name, solver.upper, &damp, error);
    if (status == STATUS_INVALID) status = round_instead(&solver, DEGRADED_SINGULAR, error), factored = false;
    if (status != STATUS_OK || !factored) goto done;
    if ((status = solve(&solver, error)) != STATUS_OK) goto done;
    for (int64_t i = 0, row = 0; i < task->count; row += task->linears[i++].weight.rows)
        if ((status = take_layer(&solver, i, row, damp, error)) != STATUS_OK) goto done;
    for (int64_t i = 0; i < task->count; i++) coded_decode(&solver.coded[i], task->linears[i].weight);
done:
    solver_reset(&solver);
    return status;
}

static void gptq_fallback(struct quantize_method *method)
{
    method->quantizer = QUANTIZER_RTN;
    method->rtn = (struct rtn_params){method->gptq.bits, method->gptq.group_size, method->gptq.sym};
}

static enum status gptq_quantize(struct backend *backend, const struct quantize_method *method,
                                 const struct quantize_task *task, struct quantized_layer *out, struct error *error)
{
    const struct gptq_params *params = &method->gptq;
    struct gptq_setup setup = {
        .coding = {.bits = (int)params->bits, .sym = params->sym, .group_size = params->group_size},
        .desc_act = params->desc_act,
        .act_group_aware = params->act_group_aware,
        .damp_percent = params->damp_percent,
        .nearest = *method};
    gptq_fallback(&setup.nearest);
    return gptq_solve(backend, &setup, task, out, error);
}

static struct export_grid gptq_grid(const struct quantize_method *method)
{
    const struct gptq_params *gptq = &method->gptq;
    return (struct export_grid){.bits = (int)gptq->bits,
                                .group_size = gptq->group_size,
                                .sym = gptq->sym,
                                .ordered = gptq->desc_act && gptq->group_size != -1};
}

const struct quantizer quantizer_gptq = {.name = "gptq",
                                         .params = gptq_params,
                                         .needs = NEED_INPUT_HESSIAN,
                                         .fallback = gptq_fallback,
                                         .grid = gptq_grid,
                                         .complete = gptq_complete,
                                         .quantize = gptq_quantize};
