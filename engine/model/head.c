#include "model/head.h"

#include "base/memory.h"
#include "model/architecture.h"

#include <string.h>

/* A row of scratch for each token of a slice. */
struct scratch {
    size_t offset; /* of its matrix in struct head */
    int64_t columns;
    bool wanted;
};
enum { SCRATCH_ROWS = 10 };

static void scratch_list(const struct model_config *config, bool norm, bool project, enum head_use use,
                         struct scratch list[SCRATCH_ROWS])
{
    const int64_t vocabulary = config->vocabulary_size, width = config->hidden_size, narrow = config->embedding_size;
    const bool back = use == HEAD_GRADIENT || use == HEAD_TANGENT, tangent = use == HEAD_TANGENT;
    const struct scratch rows[SCRATCH_ROWS] = {
        {offsetof(struct head, normed), width, norm || use == HEAD_ANSWER},
        {offsetof(struct head, dnormed), width, norm && back},
        {offsetof(struct head, normed_t), width, norm && tangent},
        {offsetof(struct head, dnormed_t), width, norm && tangent},
        {offsetof(struct head, projected), narrow, project},
        {offsetof(struct head, dprojected), narrow, project && back},
        {offsetof(struct head, projected_t), narrow, project && tangent},
        {offsetof(struct head, dprojected_t), narrow, project && tangent},
        {offsetof(struct head, logits), vocabulary, true},
        {offsetof(struct head, other), vocabulary, use == HEAD_COMPARE || use == HEAD_TANGENT},
    };
    memcpy(list, rows, sizeof rows);
}

static int64_t slice_tokens(const struct backend *backend, const struct model_config *config)
{
    const int64_t tokens = backend->ops->sizes->logits / config->vocabulary_size;
    return tokens < 16 ? 16 : tokens > 4096 ? 4096 : tokens;
}

static enum status scratch_new(struct head *head, enum head_use use, const struct model_config *config,
                               struct error *error)
{
    struct backend *backend = head->backend;
    struct scratch list[SCRATCH_ROWS];
    enum status status;
    scratch_list(config, head->weights.norm_weight.data != NULL, head->weights.projection.data != NULL, use, list);
    head->slice = slice_tokens(backend, config);
    for (int i = 0; i < SCRATCH_ROWS; i++) {
        void *data = NULL;
        if (!list[i].wanted) continue;
        if ((status = backend->ops->allocate(backend, head->slice * list[i].columns, "logits", &data, error)) !=
            STATUS_OK)
            return status;
        const struct matrix scratch = matrix_of(data, head->slice, list[i].columns, backend->ops->element);
        memcpy((char *)head + list[i].offset, &scratch, sizeof scratch);
    }
    if ((status = memory_new(head->slice, sizeof(double), "log sums", &head->log_sum, error)) != STATUS_OK)
        return status;
    return memory_new(head->slice, sizeof(double), "log sums", &head->other_log_sum, error);
}

int64_t head_bytes(const struct model_config *config, const struct backend *backend, enum head_use use,
                   enum head_loads loads)
{
    struct decoder_ends ends;
    struct scratch list[SCRATCH_ROWS];
    int64_t elements = 0;
    decoder_ends(config, &ends);
    const struct parameter *const weights[] = {&ends.norm_weight, &ends.norm_bias, &ends.project_out, &ends.output};
    scratch_list(config, ends.norm_weight.name[0] != '\0', ends.project_out.name[0] != '\0', use, list);
    for (int i = 0; i < SCRATCH_ROWS; i++)
        if (list[i].wanted) elements += slice_tokens(backend, config) * list[i].columns;
    for (int i = 0; i < 4; i++)
        if (loads == HEAD_LOADS_ALL || (loads == HEAD_LOADS_BUT_OUTPUT && weights[i] != &ends.output))
            elements += weights[i]->name[0] != '\0' ? weights[i]->rows * weights[i]->columns : 0;
    return elements * (int64_t)backend->ops->element;
}

enum status head_init(struct head *head, const struct model_config *config, struct backend *backend,
                      const struct head_weights *weights, enum head_use use, struct error *error)
{
    *head = (struct head){
        .backend = backend,
        .norm = config->architecture->norm,
        .norm_epsilon = config->norm_epsilon,
        .weights = *weights,
    };
    const enum status status = scratch_new(head, use, config, error);
    if (status != STATUS_OK) head_reset(head);
    return status;
}

enum status head_load(struct head *head, const struct model *model, struct backend *backend, struct matrix embedding,
                      enum head_use use, struct error *error)
{
    const struct decoder_ends *ends = &model->ends;
    const bool tied = model->config.tied && embedding.data != NULL;
    *head = (struct head){
        .backend = backend,
        .norm = model->config.architecture->norm,
        .norm_epsilon = model->config.norm_epsilon,
        .weights.output = tied ? embedding : (struct matrix){0},
        .owns_weights = true,
        .owns_output = !tied,
    };
    const struct {
        const struct parameter *parameter;
        struct matrix *to;
    } reads[] = {
        {&ends->norm_weight, &head->weights.norm_weight},
        {&ends->norm_bias, &head->weights.norm_bias},
        {&ends->project_out, &head->weights.projection},
        {&ends->output, &head->weights.output},
    };
    enum status status = STATUS_OK;
    for (int i = 0; i < 4 && status == STATUS_OK; i++)
        if (reads[i].parameter->name[0] != '\0' && reads[i].to->data == NULL)
            status = model_load(model, backend, reads[i].parameter, reads[i].to, error);
    if (status == STATUS_OK) status = scratch_new(head, use, &model->config, error);
    if (status != STATUS_OK) head_reset(head);
    return status;
}

void head_reset(struct head *head)
{
    struct matrix *scratch[] = {&head->normed,    &head->dnormed,    &head->normed_t,    &head->dnormed_t,
                                &head->projected, &head->dprojected, &head->projected_t, &head->dprojected_t,
                                &head->logits,    &head->other};
    if (head->owns_weights) matrix_release(head->backend, &head->weights.norm_weight);
    if (head->owns_weights) matrix_release(head->backend, &head->weights.norm_bias);
    if (head->owns_weights) matrix_release(head->backend, &head->weights.projection);
    if (head->owns_output) matrix_release(head->backend, &head->weights.output);
    for (size_t i = 0; i < sizeof scratch / sizeof scratch[0]; i++) matrix_release(head->backend, scratch[i]);
    memory_free(head->log_sum);
    memory_free(head->other_log_sum);
    *head = (struct head){0};
}

/* c = op(a) b (or a bᵀ with transpose_b) + beta c; nothing when b or c is absent. */
static void product(struct head *head, struct matrix a, struct matrix b, struct matrix c, bool transpose_a,
                    bool transpose_b, double beta)
{
    const struct gemm_args args = {
        .a = a, .b = b, .c = c, .transpose_a = transpose_a, .transpose_b = transpose_b, .alpha = 1, .beta = beta};
    if (b.data != NULL && c.data != NULL) head->backend->ops->gemm(head->backend, &args);
}

/* The places of a slice's values (or their gradients or tangents) after each part of the head. If a part is absent they
 * are those before it. */
struct stage {
    struct matrix hidden, normed, projected;
};

static struct stage stage_of(const struct head *head, struct matrix hidden, struct matrix normed,
                             struct matrix projected)
{
    struct stage stage = {.hidden = hidden};
    stage.normed = head->weights.norm_weight.data != NULL ? matrix_rows(normed, 0, hidden.rows) : hidden;
    stage.projected = head->weights.projection.data != NULL ? matrix_rows(projected, 0, hidden.rows) : stage.normed;
    return stage;
}

static struct norm_args norm_arguments(const struct head *head, const struct stage *stage)
{
    return (struct norm_args){
        .kind = head->norm,
        .epsilon = head->norm_epsilon,
        .groups = 1,
        .x = stage->hidden,
        .weight = head->weights.norm_weight,
        .bias = head->weights.norm_bias,
        .y = stage->normed,
    };
}

/* Logits of rows of `hidden` into the head of `logits`. */
static struct matrix slice_logits(struct head *head, struct matrix output, struct matrix hidden, struct matrix logits)
{
    struct backend *backend = head->backend;
    const struct stage stage = stage_of(head, hidden, head->normed, head->projected);
    struct norm_args norm = norm_arguments(head, &stage);
    norm.to_product = true;
    const struct matrix out = matrix_rows(logits, 0, hidden.rows);
    if (norm.weight.data != NULL) backend->ops->norm_forward(backend, &norm);
    product(head, stage.normed, head->weights.projection, stage.projected, false, true, 0);
    product(head, stage.projected, output, out, false, true, 0);
    return out;
}

/* slice_logits, and the losses. */
static struct matrix slice_losses(struct head *head, struct matrix output, struct matrix hidden, struct matrix logits,
                                  const uint32_t *targets, double *losses, double *log_sum)
{
    const struct matrix out = slice_logits(head, output, hidden, logits);
    const struct cross_entropy_args loss = {.logits = out, .targets = targets, .losses = losses, .log_sum = log_sum};
    head->backend->ops->cross_entropy_forward(head->backend, &loss);
    return out;
}

static int64_t slice_rows(const struct head *head, const struct batch *batch, int64_t first)
{
    return batch->tokens - first < head->slice ? batch->tokens - first : head->slice;
}

void head_losses(struct head *head, struct matrix hidden, const struct batch *batch, double *losses)
{
    for (int64_t first = 0, rows; first < batch->tokens; first += rows) {
        rows = slice_rows(head, batch, first);
        slice_losses(head, head->weights.output, matrix_rows(hidden, first, rows), head->logits, batch->targets + first,
                     losses + first, head->log_sum);
    }
}

/* Distinct rows from question `first` on, as many as a slice takes; *end is the first question that is left. */
static int64_t distinct_rows(const struct head *head, const struct head_question *questions, int64_t first,
                             int64_t count, uint32_t *rows, uint32_t *targets, int64_t *end)
{
    int64_t found = 0;
    for (*end = first; *end < count; ++*end) {
        if (*end > first && questions[*end].row == questions[*end - 1].row) continue;
        if (found == head->slice) break;
        rows[found] = (uint32_t)questions[*end].row;
        targets[found++] = questions[*end].token;
    }
    return found;
}

/* Whether question i of a slice asks for another token of the row of the question before it. */
static bool asks_again(const struct head_question *questions, int64_t i)
{
    return i > 0 && questions[i].row == questions[i - 1].row;
}

/* Numbers that are picked out of the logits together: a wait for each would take longer than the whole slice. */
struct picks {
    uint32_t *places; /* in the logits as one row */
    double *values;
    int64_t count;
};

/* Completes the answers of those questions from `first` to `end` that ask again, which hold their rows' log sums. What
 * is picked passes through the place of the hidden states, which have served. */
static void take_picks(struct head *head, struct head_question *questions, int64_t first, int64_t end,
                       struct matrix logits, struct picks *picks)
{
    struct backend *backend = head->backend;
    const size_t element = logits.element;
    int64_t next = 0;
    if (picks->count == 0) return;
    backend->ops->gather(backend, matrix_of(head->normed.data, picks->count, 1, element),
                         matrix_of(logits.data, logits.rows * logits.columns, 1, element), picks->places);
    backend->ops->download(backend, matrix_of(head->normed.data, 1, picks->count, element), picks->values, DTYPE_F64);
    for (int64_t i = first; i < end; i++)
        if (asks_again(questions, i))
            questions[i].log_probability = picks->values[next++] - questions[i].log_probability;
    picks->count = 0;
}

/* Answers the questions of a slice. The first one of a row asks for the token whose loss is there; few rows have
 * another. */
static void answer_slice(struct head *head, struct head_question *questions, int64_t count, struct matrix logits,
                         const double *losses, struct picks *picks)
{
    int64_t first = 0;
    for (int64_t i = 0, row = -1; i < count; i++) {
        if (!asks_again(questions, i)) {
            questions[i].log_probability = -losses[++row];
            continue;
        }
        if (picks->count == head->slice) {
            take_picks(head, questions, first, i, logits, picks);
            first = i;
        }
        picks->places[picks->count++] = (uint32_t)(row * logits.columns + questions[i].token);
        questions[i].log_probability = head->log_sum[row];
    }
    take_picks(head, questions, first, count, logits, picks);
}

enum status head_answer(struct head *head, struct matrix hidden, struct head_question *questions, int64_t count,
                        const struct monitor *monitor, struct error *error)
{
    struct backend *backend = head->backend;
    uint32_t *rows = NULL;
    double *losses = NULL;
    enum status status = memory_new(2 * head->slice, sizeof *rows, "rows to score", &rows, error);
    if (status == STATUS_OK) status = memory_new(2 * head->slice, sizeof *losses, "rows to score", &losses, error);
    for (int64_t first = 0, end; first < count && status == STATUS_OK; first = end) {
        uint32_t *const targets = rows + head->slice;
        struct picks picks = {.places = rows, .values = losses + head->slice};
        const int64_t found = distinct_rows(head, questions, first, count, rows, targets, &end);
        const struct matrix x = matrix_rows(head->normed, 0, found); /* normalised in place */
        backend->ops->gather(backend, x, hidden, rows);
        const struct matrix logits =
            slice_losses(head, head->weights.output, x, head->logits, targets, losses, head->log_sum);
        answer_slice(head, questions + first, end - first, logits, losses, &picks);
        status = monitor_check(monitor, error);
    }
    memory_free(rows);
    memory_free(losses);
    return status;
}

void head_compare(struct head *head, struct matrix hidden, const struct head_other *others, int64_t count,
                  const struct batch *batch, double *losses)
{
    for (int64_t first = 0, rows; first < batch->tokens; first += rows) {
        rows = slice_rows(head, batch, first);
        const uint32_t *targets = batch->targets + first;
        const struct matrix p = slice_losses(head, head->weights.output, matrix_rows(hidden, first, rows), head->logits,
                                             targets, losses + first, head->log_sum);
        for (int64_t i = 0; i < count; i++) {
            const struct head_other *other = &others[i];
            const struct matrix output = other->output.data != NULL ? other->output : head->weights.output;
            const struct compare_args compare = {
                .p = p,
                .q = slice_logits(head, output, matrix_rows(other->hidden, first, rows), head->other),
                .targets = targets,
                .p_log_sum = head->log_sum,
                .q_log_sum = head->other_log_sum,
                .losses = other->losses + first,
                .kl = other->kl + first,
                .agree = other->agree + first,
            };
            head->backend->ops->compare(head->backend, &compare);
        }
    }
}

void head_backward(struct head *head, struct matrix hidden, const struct batch *batch, double weight, double *losses,
                   struct matrix dhidden, const struct head_weights *gradients)
{
    struct backend *backend = head->backend;
    const struct head_weights *w = &head->weights;
    for (int64_t first = 0, rows; first < batch->tokens; first += rows) {
        rows = slice_rows(head, batch, first);
        const struct matrix x = matrix_rows(hidden, first, rows);
        const struct stage value = stage_of(head, x, head->normed, head->projected);
        const struct stage d = stage_of(head, matrix_rows(dhidden, first, rows), head->dnormed, head->dprojected);
        const struct matrix dlogits = slice_losses(head, head->weights.output, x, head->logits, batch->targets + first,
                                                   losses + first, head->log_sum);
        const struct cross_entropy_args loss = {
            .logits = dlogits, .targets = batch->targets + first, .log_sum = head->log_sum, .weight = weight};
        backend->ops->cross_entropy_backward(backend, &loss);
        product(head, dlogits, value.projected, gradients->output, true, false, 1);
        product(head, dlogits, w->output, d.projected, false, false, 0);
        product(head, d.projected, value.normed, gradients->projection, true, false, 1);
        product(head, d.projected, w->projection, d.normed, false, false, 0);
        if (w->norm_weight.data == NULL) continue;
        struct norm_args norm = norm_arguments(head, &value);
        norm.dy = d.normed;
        norm.dx = d.hidden;
        norm.dweight = gradients->norm_weight;
        norm.dbias = gradients->norm_bias;
        backend->ops->norm_backward(backend, &norm);
    }
}

static struct norm_args norm_directions(const struct head *head, const struct stage *value, const struct stage *tangent,
                                        const struct head_weights *directions)
{
    struct norm_args norm = norm_arguments(head, value);
    norm.x_t = tangent->hidden;
    norm.weight_t = directions->norm_weight;
    norm.bias_t = directions->norm_bias;
    norm.y_t = tangent->normed;
    return norm;
}

void head_backward_tangent(struct head *head, struct matrix hidden, struct matrix hidden_t, const struct batch *batch,
                           double weight, const struct head_weights *directions, double *losses, struct matrix dhidden,
                           struct matrix dhidden_t, const struct head_weights *gradient_tangents)
{
    struct backend *backend = head->backend;
    const struct head_weights *w = &head->weights;
    for (int64_t first = 0, rows; first < batch->tokens; first += rows) {
        rows = slice_rows(head, batch, first);
        const uint32_t *targets = batch->targets + first;
        const struct matrix x = matrix_rows(hidden, first, rows);
        const struct stage value = stage_of(head, x, head->normed, head->projected);
        const struct stage tangent =
            stage_of(head, matrix_rows(hidden_t, first, rows), head->normed_t, head->projected_t);
        const struct stage d = stage_of(head, matrix_rows(dhidden, first, rows), head->dnormed, head->dprojected);
        const struct stage d_t =
            stage_of(head, matrix_rows(dhidden_t, first, rows), head->dnormed_t, head->dprojected_t);
        const struct matrix dlogits =
            slice_losses(head, head->weights.output, x, head->logits, targets, losses + first, head->log_sum);
        const struct matrix dlogits_t = matrix_rows(head->other, 0, rows);
        struct norm_args norm = norm_directions(head, &value, &tangent, directions);
        if (norm.weight.data != NULL) backend->ops->norm_tangent(backend, &norm);
        product(head, tangent.normed, w->projection, tangent.projected, false, true, 0);
        product(head, value.normed, directions->projection, tangent.projected, false, true, 1);
        product(head, tangent.projected, w->output, dlogits_t, false, true,
                0); /* the logits' tangent, then that of their gradient */
        product(head, value.projected, directions->output, dlogits_t, false, true, 1);
        const struct cross_entropy_args loss = {
            .logits = dlogits, .logits_t = dlogits_t, .targets = targets, .log_sum = head->log_sum, .weight = weight};
        backend->ops->cross_entropy_backward_tangent(backend, &loss);
        product(head, dlogits_t, value.projected, gradient_tangents->output, true, false, 1);
        product(head, dlogits, tangent.projected, gradient_tangents->output, true, false, 1);
        product(head, dlogits, w->output, d.projected, false, false, 0);
        product(head, dlogits_t, w->output, d_t.projected, false, false, 0);
        product(head, dlogits, directions->output, d_t.projected, false, false, 1);
        product(head, d_t.projected, value.normed, gradient_tangents->projection, true, false, 1);
        product(head, d.projected, tangent.normed, gradient_tangents->projection, true, false, 1);
        product(head, d.projected, w->projection, d.normed, false, false, 0);
        product(head, d_t.projected, w->projection, d_t.normed, false, false, 0);
        product(head, d.projected, directions->projection, d_t.normed, false, false, 1);
        if (norm.weight.data == NULL) continue;
        norm.dy = d.normed;
        norm.dy_t = d_t.normed;
        norm.dx = d.hidden;
        norm.dx_t = d_t.hidden;
        norm.dweight_t = gradient_tangents->norm_weight;
        norm.dbias_t = gradient_tangents->norm_bias;
        backend->ops->norm_backward_tangent(backend, &norm);
    }
}
