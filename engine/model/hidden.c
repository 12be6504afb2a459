#include "model/hidden.h"

#include "base/memory.h"

#include <assert.h>

/* Tokens of the first chunks that stay. */
static int64_t resident(const struct chunks *chunks, const struct hidden_place *place)
{
    int64_t tokens = 0;
    if (place->parts >= HIDDEN_PARTS) return chunks->tokens;
    for (int64_t i = 0; i < chunks->count; i++) {
        const int64_t next = tokens + chunks->chunks[i].batch.tokens;
        if (next * HIDDEN_PARTS > chunks->tokens * place->parts) break;
        tokens = next;
    }
    return tokens;
}

/* What hidden_init allocates, in elements. */
struct layout {
    int64_t rows, window, staging, spilled;
};

static struct layout layout_of(const struct backend *backend, const struct chunks *chunks, int64_t width,
                               const struct hidden_place *place)
{
    const int64_t rows = resident(chunks, place);
    struct layout layout = {.rows = rows * width};
    if (rows == chunks->tokens) return layout;
    layout.window = chunks->largest * width;
    layout.staging = backend->ops->host ? 0 : layout.window;
    layout.spilled = (chunks->tokens - rows) * width;
    return layout;
}

void hidden_plan(const struct backend *backend, const struct chunks *chunks, int64_t width, const struct hidden_place *place,
                 struct run_plan *plan)
{
    const struct layout layout = layout_of(backend, chunks, width, place);
    const int64_t element = (int64_t)backend->ops->element;
    plan_take(plan, backend_room(backend), (layout.rows + layout.window) * element);
    plan_take(plan, PLAN_HOST, layout.staging * element);
    plan_take(plan, place->directory != NULL ? PLAN_DISK : PLAN_HOST, layout.spilled * element);
    plan->stream_tokens += chunks->tokens;
    plan->spilled_tokens += layout.spilled / width;
}

static enum status matrix_new(struct backend *backend, int64_t elements, int64_t width, struct matrix *out, struct error *error)
{
    void *data = NULL;
    const enum status status = backend->ops->allocate(backend, elements, "hidden states", &data, error);
    if (status == STATUS_OK) *out = matrix_of(data, elements / width, width, backend->ops->element);
    return status;
}

enum status hidden_init(struct hidden *hidden, struct backend *backend, const struct chunks *chunks, int64_t width,
                        const struct hidden_place *place, struct error *error)
{
    const struct layout layout = layout_of(backend, chunks, width, place);
    const int64_t element = (int64_t)backend->ops->element;
    enum status status;
    *hidden = (struct hidden){.backend = backend, .tokens = chunks->tokens, .width = width};
    if ((status = matrix_new(backend, layout.rows, width, &hidden->rows, error)) != STATUS_OK || layout.spilled == 0) return status;
    if ((status = matrix_new(backend, layout.window, width, &hidden->window, error)) != STATUS_OK) return status;
    if (layout.staging > 0 &&
        (status = memory_new(layout.staging, (size_t)element, "hidden states", &hidden->staging, error)) != STATUS_OK)
        return status;
    return spill_open(place->directory, layout.spilled * element, &hidden->spill, error);
}

struct hidden hidden_of(struct backend *backend, struct matrix rows)
{
    return (struct hidden){.backend = backend, .rows = rows, .tokens = rows.rows, .width = rows.columns, .lent = true};
}

void hidden_reset(struct hidden *hidden)
{
    if (hidden->backend == NULL) return;
    if (!hidden->lent) matrix_release(hidden->backend, &hidden->rows);
    matrix_release(hidden->backend, &hidden->window);
    memory_free(hidden->staging);
    spill_close(hidden->spill);
    *hidden = (struct hidden){0};
}

enum dtype hidden_dtype(const struct hidden *hidden)
{
    return hidden->backend->ops->element == sizeof(double) ? DTYPE_F64 : DTYPE_F32;
}

static size_t row_bytes(const struct hidden *hidden)
{
    return (size_t)hidden->width * hidden->backend->ops->element;
}

/* Where a spilled token's row begins. */
static int64_t spill_at(const struct hidden *hidden, int64_t token)
{
    return (token - hidden->rows.rows) * (int64_t)row_bytes(hidden);
}

/* How many of the `count` tokens from `first` on lie in memory. */
static int64_t in_memory(const struct hidden *hidden, int64_t first, int64_t count)
{
    const int64_t left = hidden->rows.rows - first;
    return left < 0 ? 0 : left < count ? left : count;
}

enum status hidden_read(struct hidden *hidden, int64_t first, int64_t count, void *to, enum dtype dtype, struct error *error)
{
    struct backend *backend = hidden->backend;
    const int64_t here = in_memory(hidden, first, count);
    if (here > 0) backend->ops->download(backend, matrix_rows(hidden->rows, first, here), to, dtype);
    if (here == count) return STATUS_OK;
    assert(dtype == hidden_dtype(hidden));
    return spill_read(hidden->spill, spill_at(hidden, first + here), (char *)to + (size_t)here * row_bytes(hidden),
                      (size_t)(count - here) * row_bytes(hidden), error);
}

enum status hidden_write(struct hidden *hidden, int64_t first, int64_t count, const void *from, enum dtype dtype,
                         struct error *error)
{
    struct backend *backend = hidden->backend;
    const int64_t here = in_memory(hidden, first, count);
    if (here > 0) backend->ops->upload(backend, matrix_rows(hidden->rows, first, here), from, dtype);
    if (here == count) return STATUS_OK;
    assert(dtype == hidden_dtype(hidden));
    return spill_write(hidden->spill, spill_at(hidden, first + here), (const char *)from + (size_t)here * row_bytes(hidden),
                       (size_t)(count - here) * row_bytes(hidden), error);
}

static struct matrix rows_of(const struct hidden *hidden, const struct chunk *chunk)
{
    const bool here = chunk->first_token < hidden->rows.rows;
    return here ? hidden_rows(hidden->rows, chunk) : matrix_rows(hidden->window, 0, chunk->batch.tokens);
}

enum status hidden_lend(struct hidden *hidden, const struct chunk *chunk, struct matrix *out, struct error *error)
{
    struct backend *backend = hidden->backend;
    *out = rows_of(hidden, chunk);
    if (chunk->first_token < hidden->rows.rows) return STATUS_OK;
    void *const host = hidden->staging != NULL ? hidden->staging : out->data;
    const enum status status = hidden_read(hidden, chunk->first_token, chunk->batch.tokens, host, hidden_dtype(hidden), error);
    if (status == STATUS_OK && hidden->staging != NULL) backend->ops->upload(backend, *out, host, hidden_dtype(hidden));
    return status;
}

enum status hidden_return(struct hidden *hidden, const struct chunk *chunk, struct error *error)
{
    struct backend *backend = hidden->backend;
    const struct matrix rows = rows_of(hidden, chunk);
    if (chunk->first_token < hidden->rows.rows) return STATUS_OK;
    if (hidden->staging != NULL) backend->ops->download(backend, rows, hidden->staging, hidden_dtype(hidden));
    return hidden_write(hidden, chunk->first_token, chunk->batch.tokens, hidden->staging != NULL ? hidden->staging : rows.data,
                        hidden_dtype(hidden), error);
}

enum status hidden_embed(struct embed *embed, const struct chunks *chunks, struct hidden *hidden, struct error *error)
{
    enum status status = STATUS_OK;
    for (int64_t i = 0; i < chunks->count && status == STATUS_OK; i++) {
        struct matrix rows;
        if ((status = hidden_lend(hidden, &chunks->chunks[i], &rows, error)) != STATUS_OK) return status;
        embed_forward(embed, &chunks->chunks[i].batch, rows);
        status = hidden_return(hidden, &chunks->chunks[i], error);
    }
    return status;
}

struct matrix hidden_rows(struct matrix hidden, const struct chunk *chunk)
{
    return matrix_rows(hidden, chunk->first_token, chunk->batch.tokens);
}
