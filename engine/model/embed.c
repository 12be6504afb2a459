#include "model/embed.h"

#include "model/architecture.h"

static enum status scratch_new(struct embed *embed, int64_t tokens, bool tangents, struct error *error)
{
    struct matrix *const scratch[] = {&embed->rows, &embed->rows_t};
    const int64_t width = embed->config->embedding_size;
    for (int i = 0; i < (tangents ? 2 : 1) && embed->weights.projection.data != NULL; i++) {
        void *data = NULL;
        const enum status status =
            embed->backend->ops->allocate(embed->backend, tokens * width, "embeddings to project", &data, error);
        if (status != STATUS_OK) return status;
        *scratch[i] = matrix_of(data, tokens, width, embed->backend->ops->element);
    }
    return STATUS_OK;
}

int64_t embed_bytes(const struct model_config *config, const struct backend *backend, int64_t tokens, bool loads)
{
    struct decoder_ends ends;
    decoder_ends(config, &ends);
    const struct parameter *const weights[] = {&ends.embedding, &ends.positions, &ends.project_in};
    const int64_t scratch = ends.project_in.name[0] != '\0' ? tokens * config->embedding_size : 0;
    int64_t elements = loads ? scratch : 2 * scratch;
    for (int i = 0; i < 3 && loads; i++)
        if (weights[i]->name[0] != '\0') elements += weights[i]->rows * weights[i]->columns;
    return elements * (int64_t)backend->ops->element;
}

enum status embed_load(struct embed *embed, const struct model *model, struct backend *backend, int64_t tokens,
                       struct error *error)
{
    *embed = (struct embed){.backend = backend, .config = &model->config, .owned = true};
    const struct {
        const struct parameter *parameter;
        struct matrix *to;
    } reads[] = {
        {&model->ends.embedding, &embed->weights.embedding},
        {&model->ends.positions, &embed->weights.positions},
        {&model->ends.project_in, &embed->weights.projection},
    };
    enum status status = STATUS_OK;
    for (int i = 0; i < 3 && status == STATUS_OK; i++)
        if (reads[i].parameter->name[0] != '\0')
            status = model_load(model, backend, reads[i].parameter, reads[i].to, error);
    if (status == STATUS_OK) status = scratch_new(embed, tokens, false, error);
    if (status != STATUS_OK) embed_reset(embed);
    return status;
}

enum status embed_init(struct embed *embed, const struct model_config *config, struct backend *backend,
                       const struct embed_weights *weights, int64_t tokens, struct error *error)
{
    *embed = (struct embed){.backend = backend, .config = config, .weights = *weights};
    const enum status status = scratch_new(embed, tokens, true, error);
    if (status != STATUS_OK) embed_reset(embed);
    return status;
}

void embed_reset(struct embed *embed)
{
    struct matrix *const owned[] = {&embed->weights.embedding, &embed->weights.positions, &embed->weights.projection};
    if (embed->backend == NULL) return;
    for (int i = 0; i < 3 && embed->owned; i++) matrix_release(embed->backend, owned[i]);
    matrix_release(embed->backend, &embed->rows);
    matrix_release(embed->backend, &embed->rows_t);
    *embed = (struct embed){0};
}

/* c = op(a) b (or a bᵀ) + beta c; nothing when b or c is absent. */
static void product(const struct embed *embed, struct matrix a, struct matrix b, struct matrix c, bool transpose_a,
                    bool transpose_b, double beta)
{
    const struct gemm_args args = {
        .a = a, .b = b, .c = c, .transpose_a = transpose_a, .transpose_b = transpose_b, .alpha = 1, .beta = beta};
    if (b.data != NULL && c.data != NULL) embed->backend->ops->gemm(embed->backend, &args);
}

/* The rows of `table` and of `hidden` that belong to sequence s: positions follow one another. */
static struct matrix position_rows(const struct embed *embed, const struct batch *batch, int64_t s, struct matrix table)
{
    const int64_t start = batch->starts[s];
    return matrix_rows(table, embed->config->architecture->position_offset + batch->positions[start],
                       batch->starts[s + 1] - start);
}

static void positions_add(const struct embed *embed, const struct batch *batch, struct matrix table,
                          struct matrix hidden)
{
    for (int64_t s = 0; s < batch->sequences && table.data != NULL; s++) {
        const struct matrix from = position_rows(embed, batch, s, table);
        embed->backend->ops->add(embed->backend, matrix_rows(hidden, batch->starts[s], from.rows), from, 1, 1);
    }
}

static void positions_backward(const struct embed *embed, const struct batch *batch, struct matrix table,
                               struct matrix dhidden)
{
    for (int64_t s = 0; s < batch->sequences && table.data != NULL; s++) {
        const struct matrix to = position_rows(embed, batch, s, table);
        embed->backend->ops->add(embed->backend, to, matrix_rows(dhidden, batch->starts[s], to.rows), 1, 1);
    }
}

static void padding_clear(const struct embed *embed, const struct batch *batch, struct matrix rows)
{
    const int64_t padding = embed->config->padding_id;
    for (int64_t t = 0; padding >= 0 && t < batch->tokens; t++)
        if (batch->ids[t] == padding) embed->backend->ops->fill(embed->backend, matrix_rows(rows, t, 1), 0);
}

void embed_forward(struct embed *embed, const struct batch *batch, struct matrix hidden)
{
    const struct embed_weights *w = &embed->weights;
    const bool projects = w->projection.data != NULL;
    const struct matrix rows = projects ? matrix_rows(embed->rows, 0, batch->tokens) : hidden;
    embed->backend->ops->gather(embed->backend, rows, w->embedding, batch->ids);
    product(embed, rows, w->projection, hidden, false, true, 0);
    positions_add(embed, batch, w->positions, hidden);
}

void embed_backward(struct embed *embed, const struct batch *batch, struct matrix dhidden,
                    const struct embed_weights *gradients)
{
    const struct embed_weights *w = &embed->weights;
    const struct backend_ops *ops = embed->backend->ops;
    struct matrix drows = dhidden;
    positions_backward(embed, batch, gradients->positions, dhidden);
    if (w->projection.data != NULL) {
        drows = matrix_rows(embed->rows, 0, batch->tokens);
        ops->gather(embed->backend, drows, w->embedding, batch->ids);
        product(embed, dhidden, drows, gradients->projection, true, false, 1);
        product(embed, dhidden, w->projection, drows, false, false, 0);
    }
    padding_clear(embed, batch, drows);
    if (gradients->embedding.data != NULL) ops->scatter_add(embed->backend, gradients->embedding, drows, batch->ids);
}

/* The tangents of the embeddings, in the scratch or in hidden_t itself. */
static struct matrix rows_tangent(const struct embed *embed, const struct batch *batch,
                                  const struct embed_weights *directions, struct matrix hidden_t)
{
    const bool projects = embed->weights.projection.data != NULL;
    const struct matrix rows_t = projects ? matrix_rows(embed->rows_t, 0, batch->tokens) : hidden_t;
    embed->backend->ops->gather(embed->backend, rows_t, directions->embedding, batch->ids);
    padding_clear(embed, batch, rows_t);
    return rows_t;
}

void embed_tangent(struct embed *embed, const struct batch *batch, const struct embed_weights *directions,
                   struct matrix hidden_t)
{
    const struct embed_weights *w = &embed->weights;
    const struct matrix rows_t = rows_tangent(embed, batch, directions, hidden_t);
    if (w->projection.data != NULL) {
        const struct matrix rows = matrix_rows(embed->rows, 0, batch->tokens);
        embed->backend->ops->gather(embed->backend, rows, w->embedding, batch->ids);
        product(embed, rows_t, w->projection, hidden_t, false, true, 0);
        product(embed, rows, directions->projection, hidden_t, false, true, 1);
    }
    positions_add(embed, batch, directions->positions, hidden_t);
}

void embed_backward_tangent(struct embed *embed, const struct batch *batch, const struct embed_weights *directions,
                            struct matrix dhidden, struct matrix dhidden_t,
                            const struct embed_weights *gradient_tangents)
{
    const struct embed_weights *w = &embed->weights;
    const struct backend_ops *ops = embed->backend->ops;
    struct matrix drows_t = dhidden_t;
    positions_backward(embed, batch, gradient_tangents->positions, dhidden_t);
    if (w->projection.data != NULL) {
        const struct matrix rows = matrix_rows(embed->rows, 0, batch->tokens);
        const struct matrix rows_t = rows_tangent(embed, batch, directions, dhidden_t);
        ops->gather(embed->backend, rows, w->embedding, batch->ids);
        product(embed, dhidden_t, rows, gradient_tangents->projection, true, false, 1);
        product(embed, dhidden, rows_t, gradient_tangents->projection, true, false, 1);
        drows_t = rows_t; /* its content has been used */
        product(embed, dhidden_t, w->projection, drows_t, false, false, 0);
        product(embed, dhidden, directions->projection, drows_t, false, false, 1);
    }
    padding_clear(embed, batch, drows_t);
    if (gradient_tangents->embedding.data != NULL)
        ops->scatter_add(embed->backend, gradient_tangents->embedding, drows_t, batch->ids);
}
