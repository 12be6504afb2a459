#include "model/head.h"

#include "base/memory.h"
#include "model/architecture.h"

/* Elements of one slice of logits: 64 MiB of floats. Large slices repay the packing of the output matrix in every product. */
#define SLICE_ELEMENTS (16 << 20)

static enum status scratch_new(struct head *head, enum head_use use, int64_t width, struct error *error)
{
    struct backend *backend = head->backend;
    const int64_t vocabulary = head->output.rows;
    const struct {
        struct matrix *matrix;
        int64_t columns;
        bool wanted;
    } rows[] = {
        {&head->normed, width, true},
        {&head->dnormed, width, use == HEAD_GRADIENT || use == HEAD_TANGENT},
        {&head->normed_t, width, use == HEAD_TANGENT},
        {&head->dnormed_t, width, use == HEAD_TANGENT},
        {&head->logits, vocabulary, true},
        {&head->other, vocabulary, use == HEAD_COMPARE || use == HEAD_TANGENT},
    };
    enum status status;
    head->slice = SLICE_ELEMENTS / vocabulary;
    if (head->slice < 16) head->slice = 16;
    if (head->slice > 4096) head->slice = 4096;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        void *data = NULL;
        if (!rows[i].wanted) continue;
        if ((status = backend->ops->allocate(backend, head->slice * rows[i].columns, "logits", &data, error)) != STATUS_OK)
            return status;
        *rows[i].matrix = matrix_of(data, head->slice, rows[i].columns, backend->ops->element);
    }
    if ((status = memory_new(head->slice, sizeof(double), "log sums", &head->log_sum, error)) != STATUS_OK) return status;
    return memory_new(head->slice, sizeof(double), "log sums", &head->other_log_sum, error);
}

enum status head_init(struct head *head, const struct model_config *config, struct backend *backend, struct matrix norm_weight,
                      struct matrix norm_bias, struct matrix output, enum head_use use, struct error *error)
{
    *head = (struct head){
        .backend = backend,
        .norm = config->architecture->norm,
        .norm_epsilon = config->norm_epsilon,
        .norm_weight = norm_weight,
        .norm_bias = norm_bias,
        .output = output,
    };
    const enum status status = scratch_new(head, use, config->hidden_size, error);
    if (status != STATUS_OK) head_reset(head);
    return status;
}

enum status head_load(struct head *head, const struct model *model, struct backend *backend, struct matrix embedding,
                      enum head_use use, struct error *error)
{
    const struct decoder_ends *ends = &model->ends;
    const bool tied = model->config.tied && embedding.data != NULL;
    enum status status;
    *head = (struct head){
        .backend = backend,
        .norm = model->config.architecture->norm,
        .norm_epsilon = model->config.norm_epsilon,
        .output = tied ? embedding : (struct matrix){0},
        .owns_norm = true,
        .owns_output = !tied,
    };
    if ((status = model_load(model, backend, &ends->norm_weight, &head->norm_weight, error)) != STATUS_OK) goto failed;
    if (ends->norm_bias.name[0] != '\0' &&
        (status = model_load(model, backend, &ends->norm_bias, &head->norm_bias, error)) != STATUS_OK)
        goto failed;
    if (!tied && (status = model_load(model, backend, &ends->output, &head->output, error)) != STATUS_OK) goto failed;
    if ((status = scratch_new(head, use, model->config.hidden_size, error)) != STATUS_OK) goto failed;
    return STATUS_OK;
failed:
    head_reset(head);
    return status;
}

void head_reset(struct head *head)
{
    struct matrix *scratch[] = {&head->normed, &head->dnormed, &head->normed_t, &head->dnormed_t, &head->logits, &head->other};
    if (head->owns_norm) matrix_release(head->backend, &head->norm_weight);
    if (head->owns_norm) matrix_release(head->backend, &head->norm_bias);
    if (head->owns_output) matrix_release(head->backend, &head->output);
    for (size_t i = 0; i < sizeof scratch / sizeof scratch[0]; i++) matrix_release(head->backend, scratch[i]);
    memory_free(head->log_sum);
    memory_free(head->other_log_sum);
    *head = (struct head){0};
}

static struct norm_args norm_arguments(const struct head *head, struct matrix hidden, struct matrix normed)
{
    return (struct norm_args){
        .kind = head->norm,
        .epsilon = head->norm_epsilon,
        .groups = 1,
        .x = hidden,
        .weight = head->norm_weight,
        .bias = head->norm_bias,
        .y = normed,
    };
}

/* Logits of rows [first, first + count) of `hidden` into the head of `logits`, and their losses. */
static struct matrix slice_losses(struct head *head, struct matrix hidden, struct matrix logits, const uint32_t *targets,
                                  double *losses, double *log_sum)
{
    struct backend *backend = head->backend;
    const struct norm_args norm = norm_arguments(head, hidden, matrix_rows(head->normed, 0, hidden.rows));
    const struct gemm_args product = {
        .a = norm.y, .b = head->output, .c = matrix_rows(logits, 0, hidden.rows), .transpose_b = true, .alpha = 1};
    const struct cross_entropy_args loss = {.logits = product.c, .targets = targets, .losses = losses, .log_sum = log_sum};
    backend->ops->norm_forward(backend, &norm);
    backend->ops->gemm(backend, &product);
    backend->ops->cross_entropy_forward(backend, &loss);
    return product.c;
}

static int64_t slice_rows(const struct head *head, const struct batch *batch, int64_t first)
{
    return batch->tokens - first < head->slice ? batch->tokens - first : head->slice;
}

void head_losses(struct head *head, struct matrix hidden, const struct batch *batch, double *losses)
{
    for (int64_t first = 0, rows; first < batch->tokens; first += rows) {
        rows = slice_rows(head, batch, first);
        slice_losses(head, matrix_rows(hidden, first, rows), head->logits, batch->targets + first, losses + first, head->log_sum);
    }
}

void head_compare(struct head *head, struct matrix hidden_p, struct matrix hidden_q, const struct batch *batch, double *losses_p,
                  double *losses_q, double *kl, uint8_t *agree)
{
    for (int64_t first = 0, rows; first < batch->tokens; first += rows) {
        rows = slice_rows(head, batch, first);
        const uint32_t *targets = batch->targets + first;
        const struct compare_args compare = {
            .p = slice_losses(head, matrix_rows(hidden_p, first, rows), head->logits, targets, losses_p + first, head->log_sum),
            .q =
                slice_losses(head, matrix_rows(hidden_q, first, rows), head->other, targets, losses_q + first, head->other_log_sum),
            .targets = targets,
            .p_log_sum = head->log_sum,
            .q_log_sum = head->other_log_sum,
            .kl = kl + first,
            .agree = agree + first,
        };
        head->backend->ops->compare(head->backend, &compare);
    }
}

void head_backward(struct head *head, struct matrix hidden, const struct batch *batch, double weight, double *losses,
                   struct matrix dhidden, const struct head_gradients *gradients)
{
    struct backend *backend = head->backend;
    for (int64_t first = 0, rows; first < batch->tokens; first += rows) {
        rows = slice_rows(head, batch, first);
        const struct matrix x = matrix_rows(hidden, first, rows);
        const struct matrix dlogits = slice_losses(head, x, head->logits, batch->targets + first, losses + first, head->log_sum);
        const struct cross_entropy_args loss = {
            .logits = dlogits, .targets = batch->targets + first, .log_sum = head->log_sum, .weight = weight};
        backend->ops->cross_entropy_backward(backend, &loss);
        struct norm_args norm = norm_arguments(head, x, matrix_rows(head->normed, 0, rows));
        norm.dy = matrix_rows(head->dnormed, 0, rows);
        norm.dx = matrix_rows(dhidden, first, rows);
        norm.dweight = gradients->norm_weight;
        norm.dbias = gradients->norm_bias;
        if (gradients->output.data != NULL) {
            const struct gemm_args output = {
                .a = dlogits, .b = norm.y, .c = gradients->output, .transpose_a = true, .alpha = 1, .beta = 1};
            backend->ops->gemm(backend, &output);
        }
        const struct gemm_args input = {.a = dlogits, .b = head->output, .c = norm.dy, .alpha = 1};
        backend->ops->gemm(backend, &input);
        backend->ops->norm_backward(backend, &norm);
    }
}

/* c = op(a) b (or a bᵀ with transpose_b) + beta c; nothing when b or c is absent. */
static void product(struct head *head, struct matrix a, struct matrix b, struct matrix c, bool transpose_a, bool transpose_b,
                    double beta)
{
    const struct gemm_args args = {
        .a = a, .b = b, .c = c, .transpose_a = transpose_a, .transpose_b = transpose_b, .alpha = 1, .beta = beta};
    if (b.data != NULL && c.data != NULL) head->backend->ops->gemm(head->backend, &args);
}

void head_backward_tangent(struct head *head, struct matrix hidden, struct matrix hidden_t, const struct batch *batch,
                           double weight, const struct head_gradients *directions, double *losses, struct matrix dhidden,
                           struct matrix dhidden_t, const struct head_gradients *gradient_tangents)
{
    struct backend *backend = head->backend;
    for (int64_t first = 0, rows; first < batch->tokens; first += rows) {
        rows = slice_rows(head, batch, first);
        const uint32_t *targets = batch->targets + first;
        const struct matrix x = matrix_rows(hidden, first, rows);
        const struct matrix dlogits = slice_losses(head, x, head->logits, targets, losses + first, head->log_sum);
        const struct matrix dlogits_t = matrix_rows(head->other, 0, rows);
        struct norm_args norm = norm_arguments(head, x, matrix_rows(head->normed, 0, rows));
        norm.x_t = matrix_rows(hidden_t, first, rows);
        norm.weight_t = directions->norm_weight;
        norm.bias_t = directions->norm_bias;
        norm.y_t = matrix_rows(head->normed_t, 0, rows);
        norm.dy = matrix_rows(head->dnormed, 0, rows);
        norm.dy_t = matrix_rows(head->dnormed_t, 0, rows);
        norm.dx = matrix_rows(dhidden, first, rows);
        norm.dx_t = matrix_rows(dhidden_t, first, rows);
        norm.dweight_t = gradient_tangents->norm_weight;
        norm.dbias_t = gradient_tangents->norm_bias;
        backend->ops->norm_tangent(backend, &norm);
        product(head, norm.y_t, head->output, dlogits_t, false, true, 0); /* the logits' tangent, then that of their gradient */
        product(head, norm.y, directions->output, dlogits_t, false, true, 1);
        const struct cross_entropy_args loss = {
            .logits = dlogits, .logits_t = dlogits_t, .targets = targets, .log_sum = head->log_sum, .weight = weight};
        backend->ops->cross_entropy_backward_tangent(backend, &loss);
        product(head, dlogits_t, norm.y, gradient_tangents->output, true, false, 1);
        product(head, dlogits, norm.y_t, gradient_tangents->output, true, false, 1);
        product(head, dlogits, head->output, norm.dy, false, false, 0);
        product(head, dlogits_t, head->output, norm.dy_t, false, false, 0);
        product(head, dlogits, directions->output, norm.dy_t, false, false, 1);
        backend->ops->norm_backward_tangent(backend, &norm);
    }
}
