#include "model/cache.h"

#include "base/integer.h"
#include "model/decoder.h"

#include <assert.h>

enum keeps { KEEPS_TOKENS, KEEPS_STATES };

static int64_t step_columns(const struct step *step, enum keeps what)
{
    int64_t (*const columns)(const struct step *) =
        what == KEEPS_TOKENS ? step->op->cached_token_columns : step->op->cached_state_columns;
    return columns == NULL ? 0 : columns(step);
}

/* Columns of all steps before `step` (NULL: of all). */
static int64_t columns_before(const struct program *program, const struct step *step, enum keeps what)
{
    int64_t columns = 0;
    for (int i = 0; i < program->step_count && &program->steps[i] != step; i++)
        columns += step_columns(&program->steps[i], what);
    return columns;
}

/* Columns of the block that keeps most. */
static int64_t widest(const struct model_config *config, enum keeps what)
{
    struct program program;
    int64_t columns = 0;
    for (int64_t layer = 0; layer < config->layers; layer++) {
        decoder_block(config, layer, &program);
        columns = larger(columns, columns_before(&program, NULL, what));
    }
    return columns;
}

int64_t cache_state_bytes(const struct model_config *config, const struct backend *backend)
{
    return widest(config, KEEPS_STATES) * (int64_t)backend->ops->element;
}

static enum status check(const struct model_config *config, struct error *error)
{
    struct program program;
    for (int64_t layer = 0; layer < config->layers; layer++) {
        decoder_block(config, layer, &program);
        for (int i = 0; i < program.step_count; i++) {
            const struct op *op = program.steps[i].op;
            if (op->across_tokens && op->cached_token_columns == NULL && op->cached_state_columns == NULL)
                return error_set(error, STATUS_UNSUPPORTED, "%s cannot continue shared beginnings of texts yet",
                                 op->name);
        }
    }
    return STATUS_OK;
}

int64_t cache_bytes(const struct model_config *config, const struct backend *backend, int64_t positions, int64_t slots,
                    int64_t forks)
{
    const int64_t states = (forks + slots) * widest(config, KEEPS_STATES);
    return (positions * widest(config, KEEPS_TOKENS) + states) * (int64_t)backend->ops->element;
}

enum status cache_init(struct cache *cache, const struct model_config *config, struct backend *backend,
                       int64_t positions, int64_t slots, int64_t forks, struct error *error)
{
    enum status status = check(config, error);
    if (status != STATUS_OK) return status;
    *cache = (struct cache){.backend = backend, .positions = positions, .slots = slots, .forks = forks};
    cache->token_columns = widest(config, KEEPS_TOKENS);
    cache->state_columns = widest(config, KEEPS_STATES);
    status =
        backend->ops->allocate(backend, positions * cache->token_columns, "cache of tokens", &cache->tokens, error);
    if (status == STATUS_OK)
        status = backend->ops->allocate(backend, (forks + slots) * cache->state_columns, "cache of states",
                                        &cache->states, error);
    if (status != STATUS_OK) cache_reset(cache);
    return status;
}

void cache_reset(struct cache *cache)
{
    if (cache->tokens != NULL) cache->backend->ops->release(cache->backend, cache->tokens);
    if (cache->states != NULL) cache->backend->ops->release(cache->backend, cache->states);
    *cache = (struct cache){0};
}

void cache_begin(struct cache *cache, const struct program *program)
{
    cache->program = program;
    cache->batch = NULL;
}

void cache_batch(struct cache *cache, const struct batch *batch)
{
    assert(batch->branches->slot_count <= cache->slots && batch->branches->forks <= cache->forks);
    cache->batch = batch;
}

struct matrix cache_tokens(const struct cache *cache, const struct step *step)
{
    const struct matrix all =
        matrix_of(cache->tokens, cache->positions, columns_before(cache->program, NULL, KEEPS_TOKENS),
                  cache->backend->ops->element);
    return matrix_columns(all, columns_before(cache->program, step, KEEPS_TOKENS), step_columns(step, KEEPS_TOKENS));
}

/* The row of `states`: forks come first. */
static int64_t state_row(const struct cache *cache, int64_t branch)
{
    assert(branch != BRANCH_ROOT);
    return branch >= 0 ? cache->forks + cache->batch->branches->slots[branch] : fork_of_branch(branch);
}

static struct matrix states_of(const struct cache *cache)
{
    return matrix_of(cache->states, cache->forks + cache->slots, columns_before(cache->program, NULL, KEEPS_STATES),
                     cache->backend->ops->element);
}

struct matrix cache_state(const struct cache *cache, const struct step *step, int64_t branch)
{
    const struct matrix row = matrix_rows(states_of(cache), state_row(cache, branch), 1);
    return matrix_columns(row, columns_before(cache->program, step, KEEPS_STATES), step_columns(step, KEEPS_STATES));
}

void cache_end(struct cache *cache)
{
    const struct branches *branches = cache->batch->branches;
    const struct matrix states = states_of(cache);
    if (states.columns == 0) return;
    /* A fork that is kept moves to a lower row or stays, because the forks before it lie above it on the path. */
    for (int64_t j = 0; j < branches->forks; j++) {
        const int64_t from = state_row(cache, branches->ends[j]);
        if (from != j)
            cache->backend->ops->add(cache->backend, matrix_rows(states, j, 1), matrix_rows(states, from, 1), 1, 0);
    }
}
