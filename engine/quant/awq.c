/* awq.c: activation-aware weight quantization (Lin et al., "AWQ", arXiv 2306.00978). docs/quantization.md, "AWQ", says
 * where it follows AutoAWQ. For a set of linears with one input X:
 *
 *     s = max(mean |X|^alpha, 1e-4) / sqrt(max s * min s),  alpha in 0, 1/points, …
 *     Q = grid(W diag(s)) diag(s)⁻¹
 *
 * With duo_scaling s is, before it is normalized,
 *
 *     s = max(mean |X|^alpha / (w^(1 - alpha) + 1e-4), 1e-4)
 *     w = mean over the rows of all linears of |W| / (max |W| of its group + 1e-6)
 *
 * The alpha wins whose Q have the least squared output error; of equals the first. With D = Q - W and N tokens it is
 *
 *     |X Dᵀ|² = N/2 tr(D H Dᵀ)
 *
 * Then, for each row and group, the largest magnitude becomes the best of
 *
 *     max |w| (1 - i/20),  i = 0 … 9
 *
 * by that group's own output error. The scales stay beside the weight. */
#include "base/integer.h"
#include "base/memory.h"
#include "quant/check.h"
#include "quant/coded.h"
#include "quant/export_format.h"
#include "quant/quantizer.h"

#include <math.h>
#include <string.h>

enum { CLIP_STEPS = 10, CLIP_PARTS = 20, SLAB = 64 }; /* SLAB: rows of weights read at a time */

static const char *const judge_names[] = {"linear", "block", NULL};
static const char *const scale_o_proj_names[] = {"when_exportable", "always", NULL};

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
    {.name = "duo_scaling",
     .type = PARAM_BOOLEAN,
     .offset = QUANTIZE_AT(awq.duo_scaling),
     .fallback = "false",
     .help = "Scales from inputs and weights, as AutoAWQ has them by default; false: from inputs, as in the paper"},
    {.name = "scale_o_proj",
     .type = PARAM_CHOICE,
     .offset = QUANTIZE_AT(awq.scale_o_proj),
     .fallback = "\"when_exportable\"",
     .choices = scale_o_proj_names,
     .help =
         "Whether inputs of the attention's output are scaled where heads share their values (grouped queries), which "
         "no packed format can hold; they are quantized in any case"},
    {.name = "judge",
     .type = PARAM_CHOICE,
     .offset = QUANTIZE_AT(awq.judge),
     .fallback = "\"linear\"",
     .choices = judge_names,
     .help =
         "Whose outputs decide between exponents: those of the linears, or those of their block, which takes a pass "
         "of the calibration tokens for each exponent"},
    QUANTIZE_ACTIVATION_PARAM,
    QUANTIZE_OPTION_PARAMS,
    {0},
};

static enum status awq_complete(struct quantize_method *method, struct error *error)
{
    if (method->awq.judge == AWQ_JUDGE_BLOCK && method->options.keep_outliers > 0)
        return error_set_at(error, STATUS_INVALID, "/judge",
                            "\"block\" tries weights in their block, which columns that are kept are taken out of; "
                            "leave out keep_outliers, or judge by \"linear\"");
    if (method->awq.judge == AWQ_JUDGE_BLOCK && method->options.activation_bits > 0)
        return error_set_at(error, STATUS_INVALID, "/judge",
                            "\"block\" tries weights on inputs as they are; leave out activation_bits, or judge by "
                            "\"linear\"");
    return check_group_size(method->awq.group_size, error);
}

/* One call's working memory; all owned. */
struct awq {
    struct backend *backend;
    const struct quantize_method *method;
    const struct awq_params *params; /* its; bits and groups are those of each linear's method */
    const struct quantize_task *task;
    struct quantized_layer *out;
    struct coded *coded; /* [count], one per linear */
    bool unscaled;       /* s = 1 */
    int64_t columns;
    float *scales;      /* [columns] */
    double *magnitudes; /* [columns] w, of duo_scaling; or NULL */
    double *raw;        /* [columns] s before it is normalised */
    /* In memory of the backend. */
    struct matrix column_scales; /* [1, columns] the scales */
    struct matrix scaled;        /* [largest rows, columns] W diag(s) */
    struct matrix clip_scratch;  /* (backend/codes.h); absent on a device */
    struct matrix *originals;    /* [count] the original weights, while a block judges candidates; or NULL */
};

/* The grid of a linear. */
static struct coding coding_of(const struct awq_params *params)
{
    return (struct coding){.bits = (int)params->bits,
                           .sym = params->sym,
                           .rule = params->sym ? SCALE_ABSMAX : SCALE_RANGE,
                           .group_size = params->group_size};
}

/* Columns of a linear's groups. */
static int64_t group_of(const struct awq *awq, int64_t index)
{
    return smaller(awq->out[index].coding.group_size, awq->columns);
}

static enum status awq_init(struct awq *awq, struct error *error)
{
    struct backend *backend = awq->backend;
    int64_t rows = 0, widest = 0;
    enum status status;
    for (int64_t i = 0; i < awq->task->count; i++)
        rows = awq->task->linears[i].weight.rows > rows ? awq->task->linears[i].weight.rows : rows;
    if ((status = memory_new(awq->columns, sizeof(float), "column scales", &awq->scales, error)) != STATUS_OK ||
        (status = memory_new(awq->columns, sizeof(double), "column scales", &awq->raw, error)) != STATUS_OK ||
        (status = memory_new(awq->task->count, sizeof *awq->coded, "codes", &awq->coded, error)) != STATUS_OK ||
        (status = matrix_new(backend, 1, awq->columns, "column scales", &awq->column_scales, error)) != STATUS_OK ||
        (status = matrix_new(backend, rows, awq->columns, "scaled weights", &awq->scaled, error)) != STATUS_OK)
        return status;
    for (int64_t i = 0; i < awq->task->count; i++) {
        struct quantized_layer *layer = &awq->out[i];
        const struct coding coding = coding_of(&quantize_task_method(awq->task, awq->method, i)->awq);
        status = quantized_layer_init(layer, awq->task->linears[i].weight.rows, awq->columns, coding, error);
        if (status != STATUS_OK) return status;
        status = memory_new(awq->columns, sizeof(float), "column scales", &layer->column_scales, error);
        if (status != STATUS_OK) return status;
        widest = group_of(awq, i) > widest ? group_of(awq, i) : widest;
        if ((status = coded_init(&awq->coded[i], backend, layer, NULL, error)) != STATUS_OK) return status;
    }
    if (!awq->params->clip || !backend->ops->host) return STATUS_OK;
    return matrix_new(backend, 2 * CLIP_SEARCH_ROWS * (int64_t)team_size(backend->team), widest, "clipping",
                      &awq->clip_scratch, error);
}

static void awq_reset(struct awq *awq)
{
    for (int64_t i = 0; i < awq->task->count && awq->coded != NULL; i++) coded_reset(&awq->coded[i]);
    matrix_release(awq->backend, &awq->clip_scratch);
    matrix_release(awq->backend, &awq->scaled);
    matrix_release(awq->backend, &awq->column_scales);
    for (int64_t i = 0; i < awq->task->count && awq->originals != NULL; i++)
        matrix_release(awq->backend, &awq->originals[i]);
    memory_free(awq->originals);
    memory_free(awq->coded);
    memory_free(awq->scales);
    memory_free(awq->magnitudes);
    memory_free(awq->raw);
}

/* Adds |W| / (max |W| of its group + 1e-6) of a row to the columns' sums. */
static void add_magnitudes(const struct awq *awq, int64_t group, const double *row)
{
    for (int64_t first = 0; first < awq->columns; first += group) {
        const int64_t end = smaller(first + group, awq->columns);
        double most = 0;
        for (int64_t c = first; c < end; c++) most = fmax(most, fabs(row[c]));
        for (int64_t c = first; c < end; c++) awq->magnitudes[c] += fabs(row[c]) / (most + 1e-6);
    }
}

/* The columns' means over the rows of all linears. */
static enum status find_magnitudes(struct awq *awq, struct error *error)
{
    double *rows = NULL;
    int64_t count = 0;
    enum status status = memory_new(awq->columns, sizeof(double), "column scales", &awq->magnitudes, error);
    if (status == STATUS_OK) status = memory_new(SLAB * awq->columns, sizeof *rows, "weights", &rows, error);
    for (int64_t i = 0; i < awq->task->count && status == STATUS_OK; i++) {
        const struct matrix weight = awq->task->linears[i].weight;
        for (int64_t first = 0; first < weight.rows; first += SLAB) {
            const int64_t slab = weight.rows - first < SLAB ? weight.rows - first : SLAB;
            awq->backend->ops->download(awq->backend, matrix_rows(weight, first, slab), rows, DTYPE_F64);
            for (int64_t r = 0; r < slab; r++) add_magnitudes(awq, group_of(awq, i), rows + r * awq->columns);
        }
        count += weight.rows;
    }
    for (int64_t c = 0; c < awq->columns && status == STATUS_OK; c++) awq->magnitudes[c] /= (double)count;
    memory_free(rows);
    return status;
}

static void find_scales(struct awq *awq, double alpha)
{
    double least = INFINITY, most = 0;
    for (int64_t c = 0; c < awq->columns; c++) {
        const double inputs = pow(awq->task->inputs.mean[c], alpha);
        const double weights = awq->magnitudes == NULL ? 1 : pow(awq->magnitudes[c], 1 - alpha) + 1e-4;
        const double s = awq->raw[c] = awq->unscaled ? 1 : fmax(inputs / weights, 1e-4);
        least = fmin(least, s);
        most = fmax(most, s);
    }
    for (int64_t c = 0; c < awq->columns; c++) awq->scales[c] = (float)(awq->raw[c] / sqrt(most * least));
    awq->backend->ops->upload(awq->backend, awq->column_scales, awq->scales, DTYPE_F32);
}

/* W diag(s) of one linear, whose layer gets s. */
static struct matrix scale(struct awq *awq, int64_t index)
{
    const struct matrix weight = awq->task->linears[index].weight, scaled = matrix_rows(awq->scaled, 0, weight.rows);
    awq->backend->ops->scale_columns(awq->backend, scaled, weight, awq->column_scales);
    memcpy(awq->out[index].column_scales, awq->scales, (size_t)awq->columns * sizeof(float));
    coded_push(&awq->coded[index]);
    return scaled;
}

/* The error of one alpha, summed over all linears. */
static enum status try_alpha(struct awq *awq, double alpha, double *out, struct error *error)
{
    *out = 0;
    find_scales(awq, alpha);
    for (int64_t i = 0; i < awq->task->count; i++) {
        double part;
        coded_encode(&awq->coded[i], scale(awq, i));
        const enum status status = coded_error(&awq->coded[i], awq->task->linears[i].name, awq->task->linears[i].weight,
                                               awq->task->inputs.hessian, &part, error);
        if (status != STATUS_OK) return status;
        *out += part;
    }
    return STATUS_OK;
}

/* ---- Judged by the block ---- */

static double alpha_of(const struct awq *awq, int64_t number)
{
    return (double)number / (double)awq->params->grid_points;
}

static void put_originals(struct awq *awq)
{
    for (int64_t i = 0; i < awq->task->count; i++)
        awq->backend->ops->add(awq->backend, awq->task->linears[i].weight, awq->originals[i], 1, 0);
}

/* Candidates are computed from the original weights, so these are installed while one is encoded. */
static enum status put_candidate(void *owner, int64_t number, struct error *error)
{
    struct awq *awq = owner;
    (void)error;
    put_originals(awq);
    if (number < 0) return STATUS_OK;
    find_scales(awq, alpha_of(awq, number));
    for (int64_t i = 0; i < awq->task->count; i++) {
        coded_encode(&awq->coded[i], scale(awq, i));
        coded_decode(&awq->coded[i], awq->task->linears[i].weight);
    }
    return STATUS_OK;
}

static enum status block_errors(struct awq *awq, double *errors, struct error *error)
{
    const struct quantize_task *task = awq->task;
    const struct quantize_candidates candidates = {awq, awq->params->grid_points, put_candidate};
    enum status status = memory_new(task->count, sizeof *awq->originals, "original weights", &awq->originals, error);
    for (int64_t i = 0; i < task->count && status == STATUS_OK; i++) {
        const struct matrix weight = task->linears[i].weight;
        status = matrix_new(awq->backend, weight.rows, weight.columns, "original weights", &awq->originals[i], error);
        if (status == STATUS_OK) awq->backend->ops->add(awq->backend, awq->originals[i], weight, 1, 0);
    }
    if (status != STATUS_OK) return status;
    status = task->judge->errors(task->judge->owner, &candidates, errors, error);
    put_originals(awq);
    return status;
}

static enum status find_errors(struct awq *awq, double *errors, struct error *error)
{
    enum status status = STATUS_OK;
    if (awq->params->judge == AWQ_JUDGE_BLOCK && awq->task->judge == NULL)
        return error_set(error, STATUS_INTERNAL, "there is no block to judge \"%s\" by", awq->task->linears[0].name);
    if (awq->params->judge == AWQ_JUDGE_BLOCK) return block_errors(awq, errors, error);
    for (int64_t i = 0; i < awq->params->grid_points && status == STATUS_OK; i++)
        status = try_alpha(awq, alpha_of(awq, i), &errors[i], error);
    return status;
}

/* The first alpha with the least error. */
static enum status find_alpha(struct awq *awq, double *out, struct error *error)
{
    double *errors = NULL, least = INFINITY;
    enum status status = memory_new(awq->params->grid_points, sizeof *errors, "exponents", &errors, error);
    *out = 0;
    if (status == STATUS_OK) status = find_errors(awq, errors, error);
    for (int64_t i = 0; i < awq->params->grid_points && status == STATUS_OK; i++) {
        if (!(errors[i] < least)) continue;
        least = errors[i];
        *out = alpha_of(awq, i);
    }
    memory_free(errors);
    return status;
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
        struct clip_search_args clip = {awq->out[i].coding,        scale(awq, i), awq->column_scales,
                                        awq->task->inputs.hessian, CLIP_STEPS,    CLIP_PARTS,
                                        awq->clip_scratch};
        if (awq->params->clip && may_clip(linear->name)) awq->backend->ops->clip_search(awq->backend, &clip);
        coded_encode(&awq->coded[i], clip.weight);
        awq->out[i].alpha = awq->unscaled ? (double)NAN : alpha;
        if ((status = coded_pull(&awq->coded[i], error)) != STATUS_OK) return status;
        if ((status = check_scales(&awq->out[i], linear->name, error)) != STATUS_OK) return status;
        if (awq->task->half_scales && (status = coded_round_scales(&awq->coded[i], linear->name, error)) != STATUS_OK)
            return status;
        status = coded_measure(&awq->coded[i], linear->name, linear->weight, awq->task->inputs.hessian, error);
        if (status != STATUS_OK) return status;
    }
    return STATUS_OK;
}

static enum status awq_quantize(struct backend *backend, const struct quantize_method *method,
                                const struct quantize_task *task, struct quantized_layer *out, struct error *error)
{
    const struct awq_params *params = &method->awq;
    struct awq awq = {.backend = backend,
                      .method = method,
                      .params = params,
                      .task = task,
                      .out = out,
                      .columns = task->linears[0].weight.columns,
                      .unscaled = task->shared_values && params->scale_o_proj == AWQ_SCALE_O_PROJ_WHEN_EXPORTABLE};
    double best = 0;
    enum status status;
    if ((status = check_task(backend, task, error)) != STATUS_OK) goto done;
    if ((status = awq_init(&awq, error)) != STATUS_OK) goto done;
    if (params->duo_scaling && !awq.unscaled && (status = find_magnitudes(&awq, error)) != STATUS_OK) goto done;
    if (!awq.unscaled && (status = find_alpha(&awq, &best, error)) != STATUS_OK) goto done;
    if ((status = encode_best(&awq, best, error)) != STATUS_OK) goto done;
    for (int64_t i = 0; i < task->count; i++) coded_decode(&awq.coded[i], task->linears[i].weight);
done:
    awq_reset(&awq);
    for (int64_t i = 0; i < task->count && awq.unscaled; i++) {
        memory_free(out[i].column_scales);
        out[i].column_scales = NULL;
    }
    return status;
}

static void awq_fallback(struct quantize_method *method)
{
    method->quantizer = QUANTIZER_RTN;
    method->rtn = (struct rtn_params){method->awq.bits, method->awq.group_size, method->awq.sym};
}

static struct export_grid awq_grid(const struct quantize_method *method)
{
    const struct awq_params *awq = &method->awq;
    return (struct export_grid){
        .bits = (int)awq->bits, .group_size = awq->group_size, .sym = awq->sym, .column_scales = true};
}

const struct quantizer quantizer_awq = {.name = "awq",
                                        .params = awq_params,
                                        .needs = NEED_INPUT_HESSIAN | NEED_INPUT_MAGNITUDE,
                                        .scales_columns = true,
                                        .fallback = awq_fallback,
                                        .grid = awq_grid,
                                        .complete = awq_complete,
                                        .quantize = awq_quantize};
