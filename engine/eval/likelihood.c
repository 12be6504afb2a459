#include "eval/likelihood.h"

#include "base/memory.h"
#include "model/embed.h"
#include "model/head.h"
#include "model/hidden.h"
#include "model/walk.h"
#include "model/work.h"

#include <stdlib.h>
#include <string.h>

#define STATE_BYTES (64LL << 20) /* of recurrent states that a chunk may leave */
enum { STATES_LEAST = 8 };

/* All but the last token of each text. */
static enum status feed(const struct likelihood_texts *texts, struct sequences *out, struct error *error)
{
    const int64_t tokens = texts->starts[texts->count] - texts->count;
    enum status status;
    *out = (struct sequences){.count = texts->count};
    if ((status = memory_new(texts->count + 1, sizeof *out->starts, "texts", &out->starts, error)) != STATUS_OK)
        return status;
    if ((status = memory_new(tokens, sizeof *out->tokens, "texts", &out->tokens, error)) != STATUS_OK) return status;
    for (int64_t s = 0; s < texts->count; s++) {
        const int64_t length = texts->starts[s + 1] - texts->starts[s] - 1;
        memcpy(out->tokens + out->starts[s], texts->tokens + texts->starts[s], (size_t)length * sizeof *out->tokens);
        out->starts[s + 1] = out->starts[s] + length;
    }
    return STATUS_OK;
}

static int by_row(const void *left, const void *right)
{
    const struct head_question *a = left, *b = right;
    if (a->row != b->row) return a->row < b->row ? -1 : 1;
    return a->number < b->number ? -1 : 1;
}

static enum status ask(struct likelihood *likelihood, struct error *error)
{
    const struct likelihood_texts *texts = likelihood->texts;
    int64_t count = 0;
    enum status status;
    for (int64_t s = 0; s < texts->count; s++) count += texts->targets[s];
    if ((status = memory_new(count, sizeof *likelihood->questions, "scored tokens", &likelihood->questions, error)) !=
        STATUS_OK)
        return status;
    if ((status = memory_new(count, sizeof *likelihood->owners, "scored tokens", &likelihood->owners, error)) !=
        STATUS_OK)
        return status;
    for (int64_t s = 0; s < texts->count; s++) {
        const int64_t length = texts->starts[s + 1] - texts->starts[s];
        for (int64_t t = length - texts->targets[s]; t < length; t++) {
            const int64_t number = likelihood->question_count++;
            likelihood->owners[number] = s;
            likelihood->questions[number] = (struct head_question){forest_row(&likelihood->forest, s, t - 1), number,
                                                                   texts->tokens[texts->starts[s] + t], 0};
        }
    }
    qsort(likelihood->questions, (size_t)count, sizeof *likelihood->questions, by_row);
    return STATUS_OK;
}

/* Most segments of a chunk that may be continued, because the states of recurrent ops are large. */
static int64_t slots_for(const struct model_config *config, struct backend *backend)
{
    const int64_t bytes = cache_state_bytes(config, backend);
    if (bytes == 0) return 0;
    return STATE_BYTES / bytes > STATES_LEAST ? STATE_BYTES / bytes : STATES_LEAST;
}

enum status likelihood_init(struct likelihood *likelihood, const struct likelihood_texts *texts, bool apart,
                            const struct model_config *config, struct backend *backend, struct error *error)
{
    struct sequences fed = {0};
    *likelihood = (struct likelihood){.texts = texts};
    enum status status = feed(texts, &fed, error);
    const int64_t tokens = chunks_tokens(backend, config->hidden_size);
    if (status == STATUS_OK)
        status = apart ? forest_init_apart(&fed, tokens, &likelihood->forest, error)
                       : forest_init(&fed, tokens, slots_for(config, backend), &likelihood->forest, error);
    if (status == STATUS_OK) status = ask(likelihood, error);
    memory_free(fed.starts);
    memory_free(fed.tokens);
    if (status != STATUS_OK) likelihood_reset(likelihood);
    return status;
}

void likelihood_reset(struct likelihood *likelihood)
{
    forest_reset(&likelihood->forest);
    memory_free(likelihood->questions);
    memory_free(likelihood->owners);
    *likelihood = (struct likelihood){0};
}

struct visit {
    struct likelihood *likelihood;
    const struct model *model;
    struct backend *backend;
    const struct likelihood_products *products; /* or NULL */
    const struct monitor *monitor;
    struct embed embed;
    struct hidden hidden;
    struct matrix cosine, sine;
    struct walk walk;
    struct cache cache;
    struct head head;
    struct loader *loader;
};

static enum status prepare(struct visit *v, struct error *error)
{
    const struct model_config *config = &v->model->config;
    const struct forest *forest = &v->likelihood->forest;
    const struct chunks *chunks = &forest->chunks;
    struct backend *backend = v->backend;
    enum status status;
    if ((status = backend->ops->prepare(backend, chunks->longest, config->vocabulary_size, error)) != STATUS_OK)
        return status;
    if ((status = model_rope_tables(config, backend, chunks->longest, &v->cosine, &v->sine, error)) != STATUS_OK)
        return status;
    if ((status = embed_load(&v->embed, v->model, backend, chunks->largest, error)) != STATUS_OK) return status;
    const struct hidden_place place = {HIDDEN_PARTS, NULL};
    if ((status = hidden_init(&v->hidden, backend, chunks, config->hidden_size, &place, error)) != STATUS_OK)
        return status;
    if ((status = hidden_embed(&v->embed, chunks, &v->hidden, error)) != STATUS_OK) return status;
    if (!config->tied) embed_reset(&v->embed);
    status = walk_init(&v->walk, config, backend, WALK_FORWARD, chunks->largest, v->cosine, v->sine, error);
    if (status != STATUS_OK) return status;
    v->walk.cache = &v->cache;
    return cache_init(&v->cache, config, backend, chunks->longest, forest->slots, forest->forks, error);
}

static enum status blocks_walk(struct visit *v, struct error *error)
{
    const struct chunks *chunks = &v->likelihood->forest.chunks;
    enum status status;
    if ((status = loader_open(v->model, v->backend, &v->loader, error)) != STATUS_OK) return status;
    for (int64_t layer = 0; layer < v->model->config.layers; layer++) {
        struct block *block = NULL;
        if ((status = loader_next(v->loader, &block, error)) != STATUS_OK) return status;
        cache_begin(&v->cache, block->program);
        if (v->products != NULL && (status = v->products->block(v->products->owner, block, chunks->largest,
                                                                &v->walk.product, error)) != STATUS_OK)
            return status;
        for (int64_t i = 0; i < chunks->count; i++) {
            const struct chunk *chunk = &chunks->chunks[i];
            walk_forward(&v->walk, block->program, &chunk->batch, block->parameters,
                         hidden_rows(v->hidden.rows, chunk));
            if ((status = monitor_check(v->monitor, error)) != STATUS_OK) return status;
        }
    }
    loader_close(v->loader);
    v->loader = NULL;
    return STATUS_OK;
}

/* Sums by text in the order of its tokens, whatever the order of the rows. */
static enum status head_walk(struct visit *v, double *out, struct error *error)
{
    struct likelihood *likelihood = v->likelihood;
    double *answers = NULL;
    enum status status;
    walk_reset(&v->walk);
    if ((status = head_load(&v->head, v->model, v->backend, v->embed.weights.embedding, HEAD_ANSWER, error)) !=
        STATUS_OK)
        return status;
    if ((status = head_answer(&v->head, v->hidden.rows, likelihood->questions, likelihood->question_count, v->monitor,
                              error)) != STATUS_OK)
        return status;
    if ((status = v->backend->ops->sync(v->backend, error)) != STATUS_OK) return status;
    if ((status = memory_new(likelihood->question_count, sizeof *answers, "scored tokens", &answers, error)) !=
        STATUS_OK)
        return status;
    for (int64_t i = 0; i < likelihood->question_count; i++)
        answers[likelihood->questions[i].number] = likelihood->questions[i].log_probability;
    for (int64_t s = 0; s < likelihood->texts->count; s++) out[s] = 0;
    for (int64_t i = 0; i < likelihood->question_count; i++) out[likelihood->owners[i]] += answers[i];
    memory_free(answers);
    return STATUS_OK;
}

static int64_t rows_asked(const struct likelihood *likelihood)
{
    int64_t rows = 0;
    for (int64_t i = 0; i < likelihood->question_count; i++)
        rows += i == 0 || likelihood->questions[i].row != likelihood->questions[i - 1].row;
    return rows;
}

/* Mirrors the allocations of prepare, blocks_walk and head_walk. */
void likelihood_plan(const struct likelihood *likelihood, const struct model *model, struct backend *backend,
                     int64_t treated, struct run_plan *plan)
{
    const struct model_config *config = &model->config;
    const struct forest *forest = &likelihood->forest;
    const struct chunks *chunks = &forest->chunks;
    const struct likelihood_texts *texts = likelihood->texts;
    const enum plan_space space = backend_space(backend);
    const struct hidden_place place = {HIDDEN_PARTS, NULL};
    const int64_t embed = embed_bytes(config, backend, chunks->largest, true),
                  rope = model_rope_making_bytes(config, chunks->longest);
    const int64_t walk = walk_bytes(config, backend, WALK_FORWARD, chunks->largest),
                  blocks = loader_bytes(model, backend);
    struct run_plan visit = {.flops = work_blocks(config, model->programs, chunks) +
                                      work_head(config, rows_asked(likelihood)),
                             .tokens = chunks->tokens};
    plan_take(&visit, PLAN_HOST, forest_bytes(forest, texts->count, texts->starts[texts->count] - texts->count));
    plan_take(&visit, PLAN_HOST,
              likelihood->question_count * (int64_t)(sizeof *likelihood->questions + sizeof *likelihood->owners));
    plan_take(&visit, PLAN_HOST, backend->ops->scratch(chunks->longest, config->vocabulary_size));
    plan_take(&visit, PLAN_HOST, rope);
    plan_take(&visit, space, model_rope_bytes(config, backend, chunks->longest));
    plan_give(&visit, PLAN_HOST, rope);
    plan_take(&visit, space, embed);
    hidden_plan(backend, chunks, config->hidden_size, &place, &visit);
    if (!config->tied) plan_give(&visit, space, embed);
    plan_take(&visit, space, cache_bytes(config, backend, chunks->longest, forest->slots, forest->forks));
    plan_take(&visit, space, treated);
    plan_take(&visit, space, walk + blocks);
    plan_take(&visit, PLAN_HOST, loader_staging_bytes(model, backend));
    plan_give(&visit, PLAN_HOST, loader_staging_bytes(model, backend));
    plan_give(&visit, space, walk + blocks);
    plan_take(&visit, space,
              head_bytes(config, backend, HEAD_ANSWER, config->tied ? HEAD_LOADS_BUT_OUTPUT : HEAD_LOADS_ALL));
    plan_take(&visit, PLAN_HOST, likelihood->question_count * (int64_t)sizeof(double));
    plan_add(plan, &visit, 1);
}

enum status likelihood_run(struct likelihood *likelihood, const struct model *model, struct backend *backend,
                           const struct likelihood_products *products, const struct monitor *monitor, double *out,
                           struct error *error)
{
    struct visit v = {
        .likelihood = likelihood, .model = model, .backend = backend, .products = products, .monitor = monitor};
    enum status status;
    if ((status = prepare(&v, error)) != STATUS_OK) goto done;
    if ((status = blocks_walk(&v, error)) != STATUS_OK) goto done;
    if ((status = head_walk(&v, out, error)) != STATUS_OK) goto done;
    status = weights_check_unchanged(model->weights, error);
done:
    loader_close(v.loader);
    if (v.head.backend != NULL) head_reset(&v.head);
    if (v.walk.backend != NULL) walk_reset(&v.walk);
    if (v.cache.backend != NULL) cache_reset(&v.cache);
    embed_reset(&v.embed);
    hidden_reset(&v.hidden);
    matrix_release(backend, &v.cosine);
    return status;
}
