#include "model/hidden.h"

enum status hidden_embed(const struct model_config *config, struct backend *backend, struct matrix embedding,
                         const struct chunks *chunks, struct matrix *out, struct error *error)
{
    void *data = NULL;
    enum status status = backend->ops->allocate(backend, chunks->tokens * config->hidden_size, "hidden states", &data, error);
    *out = (struct matrix){0};
    if (status != STATUS_OK) return status;
    *out = matrix_of(data, chunks->tokens, config->hidden_size, backend->ops->element);
    for (int64_t i = 0; i < chunks->count; i++)
        backend->ops->gather(backend, hidden_rows(*out, &chunks->chunks[i]), embedding, chunks->chunks[i].batch.ids);
    return STATUS_OK;
}

struct matrix hidden_rows(struct matrix hidden, const struct chunk *chunk)
{
    return matrix_rows(hidden, chunk->first_token, chunk->batch.tokens);
}
