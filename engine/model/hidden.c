#include "model/hidden.h"

#include "base/memory.h"

#include <assert.h>
#include <string.h>

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

/* The allocations of hidden_init, in elements. */
struct layout {
    int64_t rows, window, staging, spilled;
    bool away; /* two windows */
};

static struct layout layout_of(const struct backend *backend, const struct chunks *chunks, int64_t width,
                               const struct hidden_place *place)
{
    const int64_t rows = resident(chunks, place);
    struct layout layout = {.rows = rows * width};
    if (rows == chunks->tokens) return layout;
    layout.away = place->directory == NULL;
    layout.window = chunks->largest * width;
    layout.staging = backend->ops->host || layout.away ? 0 : layout.window;
    layout.spilled = (chunks->tokens - rows) * width;
    return layout;
}

void hidden_plan(const struct backend *backend, const struct chunks *chunks, int64_t width,
                 const struct hidden_place *place, struct run_plan *plan)
{
    const struct layout layout = layout_of(backend, chunks, width, place);
    const int64_t element = (int64_t)backend->ops->element;
    plan_take(plan, backend_space(backend), (layout.rows + (layout.away ? 2 : 1) * layout.window) * element);
    plan_take(plan, PLAN_HOST, layout.staging * element);
    plan_take(plan, place->directory != NULL ? PLAN_DISK : PLAN_HOST, layout.spilled * element);
    plan->stream_tokens += chunks->tokens;
    plan->spilled_tokens += layout.spilled / width;
}

static enum status states_new(struct backend *backend, int64_t elements, int64_t width, struct matrix *out,
                              struct error *error)
{
    return matrix_new(backend, elements / width, width, "hidden states", out, error);
}

static enum status away_init(struct hidden *hidden, int64_t window, int64_t spilled, struct error *error)
{
    struct backend *backend = hidden->backend;
    struct hidden_away *away = &hidden->away;
    const struct lane_ops *lanes = backend->ops->lanes;
    void *memory = NULL;
    assert(lanes != NULL);
    for (int i = 0; i < 2; i++) {
        const enum status status = states_new(backend, window, hidden->width, &away->windows[i], error);
        if (status != STATUS_OK) return status;
        away->first[i] = -1;
    }
    away->points[0] = away->points[1] = away->last = lanes->point(backend, LANE_HIDDEN);
    const enum status status =
        lanes->allocate(backend, (size_t)spilled * backend->ops->element, "hidden states", &memory, error);
    away->memory = memory;
    return status;
}

/* Waits for all copies before the memory is released. */
static void away_reset(struct hidden *hidden)
{
    struct hidden_away *away = &hidden->away;
    const struct lane_ops *lanes = hidden->backend->ops->lanes;
    if (away->memory != NULL) {
        lane_finish(lanes, hidden->backend, LANE_HIDDEN, lanes->point(hidden->backend, LANE_HIDDEN));
        lanes->release(hidden->backend, away->memory);
    }
    for (int i = 0; i < 2; i++) matrix_release(hidden->backend, &away->windows[i]);
}

enum status hidden_init(struct hidden *hidden, struct backend *backend, const struct chunks *chunks, int64_t width,
                        const struct hidden_place *place, struct error *error)
{
    const struct layout layout = layout_of(backend, chunks, width, place);
    const int64_t element = (int64_t)backend->ops->element;
    enum status status;
    *hidden = (struct hidden){.backend = backend, .tokens = chunks->tokens, .width = width};
    if ((status = states_new(backend, layout.rows, width, &hidden->rows, error)) != STATUS_OK || layout.spilled == 0)
        return status;
    if (layout.away) return away_init(hidden, layout.window, layout.spilled, error);
    if ((status = states_new(backend, layout.window, width, &hidden->window, error)) != STATUS_OK) return status;
    if (layout.staging > 0 &&
        (status = memory_new(layout.staging, (size_t)element, "hidden states", &hidden->staging, error)) != STATUS_OK)
        return status;
    return spill_open(place->directory, layout.spilled * element, "hidden states", &hidden->spill, error);
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
    away_reset(hidden);
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

/* Offset of a spilled token's row. */
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

/* Spilled rows and dense memory of the host's. */
static enum status spilled_read(struct hidden *hidden, int64_t first, int64_t count, char *to, struct error *error)
{
    const struct hidden_away *away = &hidden->away;
    const size_t bytes = (size_t)count * row_bytes(hidden);
    if (away->memory == NULL) return spill_read(hidden->spill, spill_at(hidden, first), to, bytes, error);
    const enum status status = hidden->backend->ops->lanes->arrive(hidden->backend, LANE_HIDDEN, away->last, error);
    if (status == STATUS_OK) memcpy(to, away->memory + spill_at(hidden, first), bytes);
    return status;
}

static enum status spilled_write(struct hidden *hidden, int64_t first, int64_t count, const char *from,
                                 struct error *error)
{
    struct hidden_away *away = &hidden->away;
    const struct lane_ops *lanes = hidden->backend->ops->lanes;
    const size_t bytes = (size_t)count * row_bytes(hidden);
    if (away->memory == NULL) return spill_write(hidden->spill, spill_at(hidden, first), from, bytes, error);
    const enum status status =
        lanes->arrive(hidden->backend, LANE_HIDDEN, lanes->point(hidden->backend, LANE_HIDDEN), error);
    if (status == STATUS_OK) memcpy(away->memory + spill_at(hidden, first), from, bytes);
    away->first[0] = away->first[1] = -1; /* the rows in the windows are no longer these */
    return status;
}

enum status hidden_read(struct hidden *hidden, int64_t first, int64_t count, void *to, enum dtype dtype,
                        struct error *error)
{
    struct backend *backend = hidden->backend;
    const int64_t here = in_memory(hidden, first, count);
    if (here > 0) backend->ops->download(backend, matrix_rows(hidden->rows, first, here), to, dtype);
    if (here == count) return STATUS_OK;
    assert(dtype == hidden_dtype(hidden));
    return spilled_read(hidden, first + here, count - here, (char *)to + (size_t)here * row_bytes(hidden), error);
}

enum status hidden_write(struct hidden *hidden, int64_t first, int64_t count, const void *from, enum dtype dtype,
                         struct error *error)
{
    struct backend *backend = hidden->backend;
    const int64_t here = in_memory(hidden, first, count);
    if (here > 0) backend->ops->upload(backend, matrix_rows(hidden->rows, first, here), from, dtype);
    if (here == count) return STATUS_OK;
    assert(dtype == hidden_dtype(hidden));
    return spilled_write(hidden, first + here, count - here, (const char *)from + (size_t)here * row_bytes(hidden),
                         error);
}

/* The window that begins with a token, or -1. */
static int away_find(const struct hidden_away *away, int64_t first)
{
    return away->first[0] == first ? 0 : away->first[1] == first ? 1 : -1;
}

/* Copies the rows from `first` on into a window, after the work that still uses the window and after the copy out of
 * it. */
static void away_bring(struct hidden *hidden, int window, int64_t first)
{
    struct hidden_away *away = &hidden->away;
    const struct lane_ops *lanes = hidden->backend->ops->lanes;
    const int64_t left = hidden->tokens - first, most = away->windows[window].rows;
    lanes->follow(hidden->backend, LANE_HIDDEN);
    lanes->carry_in(hidden->backend, LANE_HIDDEN, matrix_rows(away->windows[window], 0, left < most ? left : most),
                    away->memory + spill_at(hidden, first));
    away->points[window] = lanes->point(hidden->backend, LANE_HIDDEN);
    away->first[window] = first;
}

/* Chunks are lent in order, pass after pass, so the next one is copied in already. */
static struct matrix away_lend(struct hidden *hidden, const struct chunk *chunk)
{
    struct hidden_away *away = &hidden->away;
    int window = away_find(away, chunk->first_token);
    int64_t next = chunk->first_token + chunk->batch.tokens;
    if (window < 0) away_bring(hidden, window = 0, chunk->first_token);
    hidden->backend->ops->lanes->await(hidden->backend, LANE_HIDDEN, away->points[window]);
    if (next >= hidden->tokens) next = hidden->rows.rows;
    if (next != chunk->first_token && away->first[!window] != next) away_bring(hidden, !window, next);
    return matrix_rows(away->windows[window], 0, chunk->batch.tokens);
}

static void away_return(struct hidden *hidden, const struct chunk *chunk)
{
    struct hidden_away *away = &hidden->away;
    const struct lane_ops *lanes = hidden->backend->ops->lanes;
    const int window = away_find(away, chunk->first_token);
    assert(window >= 0);
    lanes->follow(hidden->backend, LANE_HIDDEN);
    lanes->carry_out(hidden->backend, LANE_HIDDEN, matrix_rows(away->windows[window], 0, chunk->batch.tokens),
                     away->memory + spill_at(hidden, chunk->first_token));
    away->last = lanes->point(hidden->backend, LANE_HIDDEN);
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
    if (hidden->away.memory != NULL) {
        *out = away_lend(hidden, chunk);
        return STATUS_OK;
    }
    void *const host = hidden->staging != NULL ? hidden->staging : out->data;
    const enum status status =
        hidden_read(hidden, chunk->first_token, chunk->batch.tokens, host, hidden_dtype(hidden), error);
    if (status == STATUS_OK && hidden->staging != NULL) backend->ops->upload(backend, *out, host, hidden_dtype(hidden));
    return status;
}

enum status hidden_return(struct hidden *hidden, const struct chunk *chunk, struct error *error)
{
    struct backend *backend = hidden->backend;
    const struct matrix rows = rows_of(hidden, chunk);
    if (chunk->first_token < hidden->rows.rows) return STATUS_OK;
    if (hidden->away.memory != NULL) {
        away_return(hidden, chunk);
        return STATUS_OK;
    }
    if (hidden->staging != NULL) backend->ops->download(backend, rows, hidden->staging, hidden_dtype(hidden));
    return hidden_write(hidden, chunk->first_token, chunk->batch.tokens,
                        hidden->staging != NULL ? hidden->staging : rows.data, hidden_dtype(hidden), error);
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
