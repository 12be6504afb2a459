#include "model/hidden.h"

enum status hidden_embed(struct embed *embed, const struct chunks *chunks, struct matrix *out, struct error *error)
{
    struct backend *backend = embed->backend;
    const int64_t width = embed->config->hidden_size;
    void *data = NULL;
    const enum status status = backend->ops->allocate(backend, chunks->tokens * width, "hidden states", &data, error);
    *out = (struct matrix){0};
    if (status != STATUS_OK) return status;
    *out = matrix_of(data, chunks->tokens, width, backend->ops->element);
    for (int64_t i = 0; i < chunks->count; i++)
        embed_forward(embed, &chunks->chunks[i].batch, hidden_rows(*out, &chunks->chunks[i]));
    return STATUS_OK;
}

struct matrix hidden_rows(struct matrix hidden, const struct chunk *chunk)
{
    return matrix_rows(hidden, chunk->first_token, chunk->batch.tokens);
}
