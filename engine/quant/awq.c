/* awq.c: activation-aware weight quantization (Lin et al., "AWQ", arXiv 2306.00978).
 *     s = max(mean |X|^alpha, 1e-4) / sqrt(max s * min s), alpha in 0, 1/points, …: Q = grid(W diag(s)) diag(s)⁻¹
 * The alpha wins whose Q, of all linears that share the input, have the least squared output error; of equals the first. The error
 * is a quadratic form of the Hessian, |X Dᵀ|² = N/2 tr(D H Dᵀ), so that the search costs products of weights and not of tokens.
 * Then, for each row and group, the largest magnitude is lowered to the best of max |w| (1 - i/20), i = 0 … 9, judged by that
 * group's own output error; queries and keys are not clipped (their products meet, errors there do not add up as the criterion has
 * it). The scales stay beside the weight: dividing the weights of the operation before by them, where there is one, gives the same
 * numbers. */
#include "base/memory.h"
#include "quant/check.h"
#include "quant/grid.h"
#include "quant/quantizer.h"

#include <math.h>
#include <string.h>

enum { CLIP_STEPS = 10, CLIP_PARTS = 20, SLAB = 64 };

const struct param awq_params[] = {
    QUANTIZE_GRID_PARAMS(awq, "false"),
    {.name = "grid_points",
     .type = PARAM_INTEGER,
     .offset = QUANTIZE_AT(awq.grid_points),
     .fallback = "20",
     .minimum = 1,
     .maximum = 1000,
     .help = "Exponents that are tried: 0, 1/n, up to 1 - 1/n"},
    {.name = "clip",
     .type = PARAM_BOOLEAN,
     .offset = QUANTIZE_AT(awq.clip),
     .fallback = "true",
     .help = "Search each group's largest magnitude too; not for queries and keys"},
    QUANTIZE_ACTIVATION_PARAM,
    QUANTIZE_OPTION_PARAMS,
    {0},
};

static enum status awq_settle(struct quantize_method *method, struct error *error)
{
    return check_group_size(method->awq.group_size, error);
}

/* One call's working memory; all owned. */
struct awq {
    struct backend *backend;
    const struct awq_params *params;
    const struct quantize_task *task;
    struct quantized_layer *out;
    struct grid grid;
    int64_t columns, group; /* columns of a group */
    float *scales;          /* [columns] */
    float *scaled;          /* [largest rows, columns] W diag(s) */
    float *clip_scratch;    /* [threads, 2, SLAB, group] */
};

static enum status awq_init(struct awq *awq, struct error *error)
{
    int64_t rows = 0;
    enum status status;
    for (int64_t i = 0; i < awq->task->count; i++)
        rows = awq->task->linears[i].weight.rows > rows ? awq->task->linears[i].weight.rows : rows;
    if ((status = memory_new(awq->columns, sizeof(float), "column scales", &awq->scales, error)) != STATUS_OK) return status;
    if ((status = memory_new(rows * awq->columns, sizeof(float), "scaled weights", &awq->scaled, error)) != STATUS_OK)
        return status;
    for (int64_t i = 0; i < awq->task->count; i++) {
        struct quantized_layer *layer = &awq->out[i];
        status = quantized_layer_init(layer, awq->task->linears[i].weight.rows, awq->columns, awq->params->bits,
                                      awq->params->group_size, false, error);
        if (status != STATUS_OK) return status;
        status = memory_new(awq->columns, sizeof(float), "column scales", &layer->column_scales, error);
        if (status != STATUS_OK) return status;
        layer->sym = awq->params->sym;
        awq->group = layer->group_size < awq->columns ? layer->group_size : awq->columns;
    }
    const int64_t scratch = awq->params->clip ? 2 * SLAB * awq->group * team_size(awq->backend->team) : 0;
    return memory_new(scratch, sizeof(float), "clipping", &awq->clip_scratch, error);
}

static void awq_reset(struct awq *awq)
{
    memory_free(awq->clip_scratch);
    memory_free(awq->scaled);
    memory_free(awq->scales);
}

static void find_scales(struct awq *awq, double alpha)
{
    double least = INFINITY, most = 0;
    for (int64_t c = 0; c < awq->columns; c++) {
        const double s = fmax(pow(awq->task->inputs.mean[c], alpha), 1e-4);
        least = fmin(least, s);
        most = fmax(most, s);
    }
    for (int64_t c = 0; c < awq->columns; c++)
        awq->scales[c] = (float)(fmax(pow(awq->task->inputs.mean[c], alpha), 1e-4) / sqrt(most * least));
}

struct scale_job {
    const struct awq *awq;
    struct matrix weight;
};

static void scale_row(void *context, int64_t row, int thread)
{
    (void)thread;
    const struct scale_job *job = context;
    const float *from = (const float *)job->weight.data + row * job->weight.stride, *scales = job->awq->scales;
    float *to = job->awq->scaled + row * job->awq->columns;
#pragma omp simd
    for (int64_t c = 0; c < job->awq->columns; c++) to[c] = from[c] * scales[c];
}

static struct matrix scale(struct awq *awq, int64_t index)
{
    struct scale_job job = {awq, awq->task->linears[index].weight};
    team_run(awq->backend->team, job.weight.rows, scale_row, &job);
    memcpy(awq->out[index].column_scales, awq->scales, (size_t)awq->columns * sizeof(float));
    return matrix_of(awq->scaled, job.weight.rows, awq->columns, sizeof(float));
}

/* The sum over all linears for one alpha. */
static enum status try_alpha(struct awq *awq, double alpha, double *out, struct error *error)
{
    *out = 0;
    find_scales(awq, alpha);
    for (int64_t i = 0; i < awq->task->count; i++) {
        double part;
        quantized_layer_encode(&awq->out[i], awq->backend->team, awq->grid, scale(awq, i));
        const enum status status = quantized_layer_error(&awq->out[i], awq->backend, awq->task->linears[i].weight,
                                                         awq->task->inputs.hessian, &part, error);
        if (status != STATUS_OK) return status;
        *out += part;
    }
    return STATUS_OK;
}

struct clip_job {
    const struct awq *awq;
    struct matrix scaled;
};

/* Differences from `weight` that the grid of `weight` clamped to [-most, most] leaves, over s: as the inputs weigh them. */
static void clipped_difference(const struct awq *awq, const float *weight, const float *scales, int64_t count, float most,
                               float *out)
{
    double step;
    uint8_t zero;
    for (int64_t c = 0; c < count; c++) out[c] = fminf(fmaxf(weight[c], -most), most);
    grid_find(awq->grid, out, count, &step, &zero);
    const double point = zero, top = grid_top(awq->grid);
    const float stored = (float)step;
#pragma omp simd
    for (int64_t c = 0; c < count; c++)
        out[c] = (weight[c] - (float)(grid_code(out[c], step, point, top) - point) * stored) / scales[c];
}

/* Clamps the group [first, first + count) of some rows to each row's best magnitude. */
static void clip_group(const struct clip_job *job, int64_t row, int64_t rows, int64_t first, int64_t count, float *scratch)
{
    const struct awq *awq = job->awq;
    const struct matrix d = matrix_of(scratch, rows, count, sizeof(float));
    const struct matrix product = matrix_of(scratch + SLAB * awq->group, rows, count, sizeof(float));
    const struct matrix hessian = matrix_columns(matrix_rows(awq->task->inputs.hessian, first, count), first, count);
    float most[SLAB], best[SLAB];
    double least[SLAB];
    for (int64_t r = 0; r < rows; r++) {
        const float *weight = awq->scaled + (row + r) * awq->columns + first;
        most[r] = 0;
        least[r] = INFINITY;
        for (int64_t c = 0; c < count; c++) most[r] = fmaxf(most[r], fabsf(weight[c]));
        best[r] = most[r];
    }
    for (int step = 0; step < CLIP_STEPS; step++) {
        for (int64_t r = 0; r < rows; r++)
            clipped_difference(awq, awq->scaled + (row + r) * awq->columns + first, awq->scales + first, count,
                               most[r] * (float)(1 - (double)step / CLIP_PARTS), scratch + r * count);
        awq->backend->ops->gemm(awq->backend, &(struct gemm_args){.a = d, .b = hessian, .c = product, .alpha = 1});
        for (int64_t r = 0; r < rows; r++) {
            const double error = awq->backend->ops->dot(awq->backend, matrix_rows(d, r, 1), matrix_rows(product, r, 1));
            if (!(error < least[r])) continue;
            least[r] = error;
            best[r] = most[r] * (float)(1 - (double)step / CLIP_PARTS);
        }
    }
    for (int64_t r = 0; r < rows; r++) {
        float *weight = awq->scaled + (row + r) * awq->columns + first;
        for (int64_t c = 0; c < count; c++) weight[c] = fminf(fmaxf(weight[c], -best[r]), best[r]);
    }
}

static void clip_slab(void *context, int64_t slab, int thread)
{
    const struct clip_job *job = context;
    const int64_t row = slab * SLAB, left = job->scaled.rows - row, rows = left < SLAB ? left : SLAB;
    float *scratch = job->awq->clip_scratch + thread * 2 * SLAB * job->awq->group;
    for (int64_t first = 0; first < job->awq->columns; first += job->awq->group) {
        const int64_t rest = job->awq->columns - first;
        clip_group(job, row, rows, first, rest < job->awq->group ? rest : job->awq->group, scratch);
    }
}

static bool may_clip(const char *name)
{
    static const char *const spared[] = {"q_proj", "k_proj", "query", "key", "c_attn", "Wqkv"};
    for (size_t i = 0; i < sizeof spared / sizeof spared[0]; i++)
        if (strstr(name, spared[i]) != NULL) return false;
    return true;
}

static enum status encode_best(struct awq *awq, double alpha, struct error *error)
{
    enum status status;
    find_scales(awq, alpha);
    for (int64_t i = 0; i < awq->task->count; i++) {
        const struct quantize_linear *linear = &awq->task->linears[i];
        struct quantized_layer *layer = &awq->out[i];
        struct clip_job job = {awq, scale(awq, i)};
        if (awq->params->clip && may_clip(linear->name))
            team_run(awq->backend->team, (job.scaled.rows + SLAB - 1) / SLAB, clip_slab, &job);
        quantized_layer_encode(layer, awq->backend->team, awq->grid, job.scaled);
        layer->alpha = alpha;
        if ((status = check_scales(layer, linear->name, error)) != STATUS_OK) return status;
        status = quantized_layer_measure(layer, awq->backend, linear->weight, awq->task->inputs.hessian, error);
        if (status != STATUS_OK) return status;
    }
    return STATUS_OK;
}

static enum status awq_quantize(struct backend *backend, const struct quantize_method *method, const struct quantize_task *task,
                                struct quantized_layer *out, struct error *error)
{
    const struct awq_params *params = &method->awq;
    struct awq awq = {.backend = backend,
                      .params = params,
                      .task = task,
                      .out = out,
                      .grid = {.bits = (int)params->bits, .rule = params->sym ? GRID_ABSMAX : GRID_RANGE},
                      .columns = task->linears[0].weight.columns};
    double best = 0, least = INFINITY;
    enum status status;
    if ((status = check_task(backend, task, error)) != STATUS_OK) goto done;
    if ((status = awq_init(&awq, error)) != STATUS_OK) goto done;
    for (int64_t i = 0; i < params->grid_points; i++) {
        const double alpha = (double)i / (double)params->grid_points;
        double found;
        if ((status = try_alpha(&awq, alpha, &found, error)) != STATUS_OK) goto done;
        if (!(found < least)) continue;
        least = found;
        best = alpha;
    }
    if ((status = encode_best(&awq, best, error)) != STATUS_OK) goto done;
    for (int64_t i = 0; i < task->count; i++) quantized_layer_dequantize(&out[i], backend->team, task->linears[i].weight);
done:
    awq_reset(&awq);
    return status;
}

static struct rtn_params awq_fallback(const struct quantize_method *method)
{
    return (struct rtn_params){method->awq.bits, method->awq.group_size, method->awq.sym};
}

const struct quantizer quantizer_awq = {.name = "awq",
                                        .params = awq_params,
                                        .needs = NEED_INPUT_HESSIAN | NEED_INPUT_MAGNITUDE,
                                        .fallback = awq_fallback,
                                        .settle = awq_settle,
                                        .quantize = awq_quantize};
