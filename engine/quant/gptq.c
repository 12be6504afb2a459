/* gptq.c: GPTQ (Frantar et al., "GPTQ: accurate post-training quantization for generative pre-trained transformers", arXiv
 * 2210.17323), with the choices that its widely used implementation makes:
 *   1. the grid of a whole row (group_size -1) is found on the untouched weight
 *   2. dead inputs (H[c, c] = 0): H[c, c] = 1, column c becomes 0
 *   3. visiting order (gptq_order.h), 4. damping and factor U (gptq_factor.h)
 *   5. blocks of 128 columns. The grid of a group is found when its first column's block begins, on the weight as the blocks before
 * left it; the block is solved (gptq_block.h); then W[:, rest] -= E U[block, rest] in one product. The rows of all linears that
 * share the input are stacked: one factor, one set of products. Floats, with grids and sums of errors in double. */
#include "base/memory.h"
#include "quant/check.h"
#include "quant/gptq_block.h"
#include "quant/gptq_factor.h"
#include "quant/gptq_order.h"
#include "quant/grid.h"

#include <math.h>
#include <string.h>

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
     .help = "Visit columns by descending activation inside their groups, and groups by their largest; off when group_size is -1"},
    {.name = "damp_percent",
     .type = PARAM_NUMBER,
     .offset = QUANTIZE_AT(gptq.damp_percent),
     .fallback = "0.05",
     .minimum = 0,
     .maximum = 1,
     .help = "Part of the Hessian's mean diagonal that is added to it, between 0 and 1, both excluded"},
    QUANTIZE_ACTIVATION_PARAM,
    QUANTIZE_OPTION_PARAMS,
    {0},
};

static enum status gptq_settle(struct quantize_method *method, struct error *error)
{
    struct gptq_params *params = &method->gptq;
    if (!(params->damp_percent > 0 && params->damp_percent < 1))
        return error_set_at(error, STATUS_INVALID, "/damp_percent", "found %g, expected a number above 0 and below 1",
                            params->damp_percent);
    if (params->desc_act || params->group_size == -1) params->act_group_aware = false;
    return check_group_size(params->group_size, error);
}

/* One call's working memory; all owned. */
struct solver {
    struct backend *backend;
    const struct gptq_params *params;
    const struct quantize_task *task;
    struct quantized_layer *out;
    struct grid grid;
    struct gptq_order order;
    int64_t rows, padded, columns;
    float *diagonal; /* [columns] of H, 1 where dead */
    int64_t dead;
    float *upper;                /* [columns, columns] */
    float *upper_block;          /* [GPTQ_BLOCK, GPTQ_BLOCK] transposed */
    float *weights;              /* [rows, columns] all linears stacked, in visiting order */
    double *scales, *zeros;      /* [runs, padded] */
    float *errors;               /* [GPTQ_BLOCK, padded] transposed */
    uint8_t *codes;              /* [rows, columns] in the original order */
    int64_t block;               /* first column of the current block */
    int64_t first_run, last_run; /* runs whose grid is found now */
};

static enum status solver_init(struct solver *solver, struct error *error)
{
    const int64_t rows = solver->rows, columns = solver->columns;
    enum status status;
    if ((status = memory_new(columns, sizeof(float), "Hessian diagonal", &solver->diagonal, error)) != STATUS_OK ||
        (status = memory_new(columns * columns, sizeof(float), "Hessian factor", &solver->upper, error)) != STATUS_OK ||
        (status = memory_new(GPTQ_BLOCK * GPTQ_BLOCK, sizeof(float), "factor block", &solver->upper_block, error)) != STATUS_OK ||
        (status = memory_new(rows * columns, sizeof(float), "weights in visiting order", &solver->weights, error)) != STATUS_OK ||
        (status = memory_new(GPTQ_BLOCK * solver->padded, sizeof(float), "block errors", &solver->errors, error)) != STATUS_OK)
        return status;
    return memory_new(rows * columns, sizeof(uint8_t), "codes", &solver->codes, error);
}

static void solver_reset(struct solver *solver)
{
    memory_free(solver->codes);
    memory_free(solver->errors);
    memory_free(solver->zeros);
    memory_free(solver->scales);
    memory_free(solver->weights);
    memory_free(solver->upper_block);
    memory_free(solver->upper);
    memory_free(solver->diagonal);
    gptq_order_reset(&solver->order);
}

static void find_dead(struct solver *solver)
{
    const struct matrix hessian = solver->task->inputs.hessian;
    for (int64_t c = 0; c < solver->columns; c++) {
        const float value = ((const float *)hessian.data)[c * hessian.stride + c];
        solver->dead += value == 0;
        solver->diagonal[c] = value == 0 ? 1 : value;
    }
}

static enum status set_order(struct solver *solver, struct error *error)
{
    const struct gptq_params *params = solver->params;
    const int64_t group_size = params->group_size == -1 ? solver->columns : params->group_size;
    enum gptq_order_kind kind = GPTQ_ORDER_NONE;
    enum status status;
    if (params->act_group_aware && params->group_size != -1) kind = GPTQ_ORDER_GAR;
    if (params->desc_act) kind = GPTQ_ORDER_ACT;
    status = gptq_order_init(&solver->order, kind, solver->diagonal, solver->columns, group_size, error);
    if (status != STATUS_OK) return status;
    const int64_t count = solver->order.runs * solver->padded;
    if ((status = memory_new(count, sizeof(double), "scales", &solver->scales, error)) != STATUS_OK) return status;
    if ((status = memory_new(count, sizeof(double), "zero points", &solver->zeros, error)) != STATUS_OK) return status;
    for (int64_t i = 0; i < count; i++) solver->scales[i] = 1; /* rows of padding divide by it */
    return STATUS_OK;
}

/* The stacked row `row` as it came in. */
static const float *original_row(const struct solver *solver, int64_t row)
{
    const struct quantize_linear *linear = solver->task->linears;
    for (; row >= linear->weight.rows; linear++) row -= linear->weight.rows;
    return (const float *)linear->weight.data + row * linear->weight.stride;
}

static void set_grid(struct solver *solver, int64_t run, int64_t row, const float *weights, int64_t count)
{
    uint8_t zero;
    grid_find(solver->grid, weights, count, &solver->scales[run * solver->padded + row], &zero);
    solver->zeros[run * solver->padded + row] = zero;
}

static void gather_row(void *context, int64_t row, int thread)
{
    (void)thread;
    struct solver *solver = context;
    const float *from = original_row(solver, row);
    float *to = solver->weights + row * solver->columns;
    const struct matrix hessian = solver->task->inputs.hessian;
    if (solver->params->group_size == -1) set_grid(solver, 0, row, from, solver->columns);
    for (int64_t i = 0; i < solver->columns; i++) {
        const int64_t c = solver->order.from[i];
        to[i] = ((const float *)hessian.data)[c * hessian.stride + c] == 0 ? 0 : from[c];
    }
}

static void find_grids(void *context, int64_t row, int thread)
{
    (void)thread;
    struct solver *solver = context;
    for (int64_t run = solver->first_run; run < solver->last_run; run++) {
        const int64_t first = run * solver->order.group_size, left = solver->columns - first;
        set_grid(solver, run, row, solver->weights + row * solver->columns + first,
                 left < solver->order.group_size ? left : solver->order.group_size);
    }
}

static void solve_tile(void *context, int64_t tile, int thread)
{
    (void)thread;
    gptq_block_solve(context, tile);
}

static void solve_block(struct solver *solver, int64_t width)
{
    const int64_t columns = solver->columns, first = solver->block, size = solver->order.group_size;
    const struct gptq_block block = {
        .rows = solver->rows,
        .width = width,
        .weights = solver->weights + first,
        .weights_stride = columns,
        .upper = solver->upper_block,
        .scales = solver->scales,
        .zeros = solver->zeros,
        .padded = solver->padded,
        .position = first,
        .group_size = size,
        .top = grid_top(solver->grid),
        .from = solver->order.from + first,
        .codes = solver->codes,
        .codes_stride = columns,
        .errors = solver->errors,
    };
    for (int64_t j = 0; j < width; j++)
        for (int64_t i = 0; i <= j; i++) solver->upper_block[j * GPTQ_BLOCK + i] = solver->upper[(first + i) * columns + first + j];
    /* runs that begin in this block: all their grids come from the weight as it is now */
    solver->first_run = (first + size - 1) / size;
    solver->last_run = (first + width + size - 1) / size;
    if (solver->params->group_size != -1) team_run(solver->backend->team, solver->rows, find_grids, solver);
    struct gptq_block lent = block;
    team_run(solver->backend->team, solver->padded / GPTQ_ROW_TILE, solve_tile, &lent);
}

/* W[:, rest] -= E U[block, rest] */
static void update_rest(struct solver *solver, int64_t width)
{
    const int64_t columns = solver->columns, next = solver->block + width;
    if (next == columns) return;
    const struct matrix weights = matrix_of(solver->weights, solver->rows, columns, sizeof(float));
    const struct matrix upper = matrix_of(solver->upper, columns, columns, sizeof(float));
    struct matrix errors = matrix_of(solver->errors, width, solver->padded, sizeof(float));
    errors.columns = solver->rows;
    solver->backend->ops->gemm(
        solver->backend, &(struct gemm_args){.a = errors,
                                             .transpose_a = true,
                                             .b = matrix_columns(matrix_rows(upper, solver->block, width), next, columns - next),
                                             .c = matrix_columns(weights, next, columns - next),
                                             .alpha = -1,
                                             .beta = 1});
}

static enum status take_layer(const struct solver *solver, int64_t index, int64_t first_row, double damp, struct error *error)
{
    const struct gptq_params *params = solver->params;
    const struct gptq_order *order = &solver->order;
    const struct quantize_linear *linear = &solver->task->linears[index];
    struct quantized_layer *layer = &solver->out[index];
    enum status status =
        quantized_layer_init(layer, linear->weight.rows, solver->columns, params->bits, params->group_size, params->sym, error);
    if (status != STATUS_OK) return status;
    layer->damp = damp;
    layer->damp_increases = lround((damp - params->damp_percent) / GPTQ_DAMP_INCREMENT);
    layer->dead_columns = solver->dead;
    layer->ordered = params->desc_act;
    for (int64_t i = 0; i < solver->columns && layer->ordered; i++) layer->g_idx[order->from[i]] = (int32_t)(i / order->group_size);
    memcpy(layer->codes, solver->codes + first_row * solver->columns, (size_t)(layer->rows * solver->columns));
    for (int64_t run = 0; run < order->runs; run++)
        for (int64_t r = 0; r < layer->rows; r++) {
            const int64_t to = r * layer->groups + order->group[run], from = run * solver->padded + first_row + r;
            layer->scales[to] = (float)solver->scales[from];
            layer->zeros[to] = (uint8_t)solver->zeros[from];
        }
    if ((status = check_scales(layer, linear->name, error)) != STATUS_OK) return status;
    return quantized_layer_measure(layer, solver->backend, linear->weight, solver->task->inputs.hessian, error);
}

static struct rtn_params gptq_fallback(const struct quantize_method *method)
{
    return (struct rtn_params){method->gptq.bits, method->gptq.group_size, method->gptq.sym};
}

/* There is nothing to be learnt from the inputs: rounding to nearest, and the layers say so. */
static enum status round_instead(const struct solver *solver, const struct quantize_method *method, enum degraded why,
                                 struct error *error)
{
    const struct quantize_method nearest = {.quantizer = QUANTIZER_RTN, .rtn = gptq_fallback(method)};
    const enum status status = quantizer_rtn.quantize(solver->backend, &nearest, solver->task, solver->out, error);
    for (int64_t i = 0; i < solver->task->count && status == STATUS_OK; i++) {
        solver->out[i].degraded = why;
        solver->out[i].dead_columns = solver->dead;
    }
    return status;
}

static enum status gptq_quantize(struct backend *backend, const struct quantize_method *method, const struct quantize_task *task,
                                 struct quantized_layer *out, struct error *error)
{
    const struct gptq_params *params = &method->gptq;
    struct solver solver = {
        .backend = backend, .params = params, .task = task, .out = out, .grid = {.bits = (int)params->bits, .sym = params->sym}};
    enum status status;
    double damp = 0;
    bool factored = true;
    if (task->inputs.hessian.data == NULL)
        return error_set(error, STATUS_INTERNAL, "%s: gptq without a Hessian of its inputs", task->linears[0].name);
    for (int64_t i = 0; i < task->count; i++) solver.rows += task->linears[i].weight.rows;
    solver.columns = task->linears[0].weight.columns;
    solver.padded = (solver.rows + GPTQ_ROW_TILE - 1) / GPTQ_ROW_TILE * GPTQ_ROW_TILE;
    if ((status = check_task(backend, task, error)) != STATUS_OK) goto done;
    if ((status = solver_init(&solver, error)) != STATUS_OK) goto done;
    find_dead(&solver);
    if (solver.dead == solver.columns) {
        status = round_instead(&solver, method, DEGRADED_SILENT, error);
        goto done;
    }
    if ((status = set_order(&solver, error)) != STATUS_OK) goto done;
    status = gptq_factor(backend, &solver.order, task->inputs.hessian, solver.diagonal, params->damp_percent, task->linears[0].name,
                         matrix_of(solver.upper, solver.columns, solver.columns, sizeof(float)), &damp, error);
    if (status == STATUS_INVALID) status = round_instead(&solver, method, DEGRADED_SINGULAR, error), factored = false;
    if (status != STATUS_OK || !factored) goto done;
    team_run(backend->team, solver.rows, gather_row, &solver);
    for (; solver.block < solver.columns; solver.block += GPTQ_BLOCK) {
        const int64_t left = solver.columns - solver.block, width = left < GPTQ_BLOCK ? left : GPTQ_BLOCK;
        solve_block(&solver, width);
        update_rest(&solver, width);
    }
    for (int64_t i = 0, row = 0; i < task->count; row += task->linears[i++].weight.rows)
        if ((status = take_layer(&solver, i, row, damp, error)) != STATUS_OK) goto done;
    for (int64_t i = 0; i < task->count; i++) quantized_layer_dequantize(&out[i], backend->team, task->linears[i].weight);
done:
    solver_reset(&solver);
    return status;
}

const struct quantizer quantizer_gptq = {.name = "gptq",
                                         .params = gptq_params,
                                         .needs = NEED_INPUT_HESSIAN,
                                         .fallback = gptq_fallback,
                                         .settle = gptq_settle,
                                         .quantize = gptq_quantize};
