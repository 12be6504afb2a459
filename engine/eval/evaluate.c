#include "eval/evaluate.h"

#include "base/memory.h"
#include "eval/leverage.h"
#include "model/head.h"
#include "model/hidden.h"
#include "model/loader.h"
#include "model/walk.h"
#include "model/work.h"

#include <math.h>

void evaluate_result_reset(struct evaluate_result *result)
{
    memory_free(result->sequence_losses);
    memory_free(result->sequence_predictions);
    memory_free(result->token_losses);
    *result = (struct evaluate_result){0};
}

enum status evaluate_check(const struct model_config *config, const struct sequences *sequences, const char *what,
                           struct error *error)
{
    if (sequences->count < 1) return error_set(error, STATUS_INVALID, "%s: no sequences", what);
    for (int64_t s = 0; s < sequences->count; s++) {
        const int64_t length = sequences->starts[s + 1] - sequences->starts[s];
        if (length < 2)
            return error_set(error, STATUS_INVALID, "%s: sequence %lld has %lld token(s); a loss needs at least 2",
                             what, (long long)s, (long long)length);
        if (length > config->maximum_positions)
            return error_set(error, STATUS_INVALID,
                             "%s: sequence %lld has %lld tokens, the model %lld positions; use a smaller "
                             "sequence_length",
                             what, (long long)s, (long long)length, (long long)config->maximum_positions);
        for (int64_t t = sequences->starts[s]; t < sequences->starts[s + 1]; t++)
            if (sequences->tokens[t] >= config->vocabulary_size)
                return error_set(
                    error, STATUS_INVALID,
                    "%s: token %u at position %lld of sequence %lld is outside the model's vocabulary of %lld; the"
                    " tokens "
                    "belong to another tokenizer",
                    what, sequences->tokens[t], (long long)(t - sequences->starts[s]), (long long)s,
                    (long long)config->vocabulary_size);
    }
    return STATUS_OK;
}

/* Mean over predictions, and the standard error of a ratio estimate: sequences are the independent units, each weighted
 * by its predictions. */
static void moments(struct evaluate_result *out)
{
    const struct leverage leverage = leverage_of(out->sequence_predictions, out->sequences);
    double total = 0, spread = 0;
    for (int64_t s = 0; s < out->sequences; s++)
        total += out->sequence_losses[s] * (double)out->sequence_predictions[s];
    out->loss = total / (double)out->predictions;
    for (int64_t s = 0; s < out->sequences; s++) {
        const double whole = (double)out->sequence_predictions[s] * (out->sequence_losses[s] - out->loss);
        const double d = leverage_residual(&leverage, whole, out->sequence_predictions[s]);
        spread += d * d;
    }
    out->loss_stderr =
        out->sequences < 2 ? NAN : sqrt(spread * leverage.over / leverage.under) / (double)out->predictions;
    out->loss_degrees = leverage.degrees;
}

static int64_t predictions_of(const struct chunk *chunk, int64_t s)
{
    return chunk->batch.starts[s + 1] - chunk->batch.starts[s] - 1;
}

void evaluate_sequence_means(const struct chunks *chunks, const double *values, double *means)
{
    for (int64_t i = 0; i < chunks->count; i++) {
        const struct chunk *chunk = &chunks->chunks[i];
        for (int64_t s = 0; s < chunk->batch.sequences; s++) {
            double sum = 0;
            for (int64_t t = chunk->batch.starts[s]; t < chunk->batch.starts[s + 1]; t++)
                sum += values[chunk->first_token + t];
            means[chunk->first_sequence + s] = sum / (double)predictions_of(chunk, s);
        }
    }
}

enum status evaluate_token_values(const struct chunks *chunks, const double *values, float **out, struct error *error)
{
    int64_t count = 0;
    const enum status status = memory_new(chunks->predictions, sizeof **out, "values of tokens", out, error);
    for (int64_t i = 0; i < chunks->count && status == STATUS_OK; i++) {
        const struct chunk *chunk = &chunks->chunks[i];
        for (int64_t s = 0; s < chunk->batch.sequences; s++)
            for (int64_t t = chunk->batch.starts[s]; t + 1 < chunk->batch.starts[s + 1]; t++)
                (*out)[count++] = (float)values[chunk->first_token + t];
    }
    return status;
}

enum status evaluate_summarise(const struct chunks *chunks, const double *token_losses, struct evaluate_result *out,
                               struct error *error)
{
    enum status status;
    *out = (struct evaluate_result){
        .sequences = chunks->sequences, .tokens = chunks->tokens, .predictions = chunks->predictions};
    if ((status = memory_new(chunks->sequences, sizeof(double), "sequence losses", &out->sequence_losses, error)) !=
        STATUS_OK)
        return status;
    if ((status = memory_new(chunks->sequences, sizeof(int64_t), "sequence losses", &out->sequence_predictions,
                             error)) != STATUS_OK) {
        evaluate_result_reset(out);
        return status;
    }
    evaluate_sequence_means(chunks, token_losses, out->sequence_losses);
    for (int64_t i = 0; i < chunks->count; i++) {
        const struct chunk *chunk = &chunks->chunks[i];
        for (int64_t s = 0; s < chunk->batch.sequences; s++)
            out->sequence_predictions[chunk->first_sequence + s] = predictions_of(chunk, s);
    }
    moments(out);
    return STATUS_OK;
}

struct evaluation {
    const struct model *model;
    struct backend *backend;
    const struct monitor *monitor;
    struct chunks chunks;
    struct hidden_place place;
    struct embed embed;
    struct hidden hidden;
    struct matrix cosine, sine;
    struct walk walk;
    struct head head;
    struct loader *loader;
    bool per_token;
    double flops;   /* of the plan */
    double *losses; /* [tokens] */
    int64_t done;   /* chunks through a block or the head */
};

/* ---- The plan ---- */

/* Mirrors the allocations of evaluation_prepare, blocks_walk and head_walk. */
static void plan_fill(const struct evaluation *e, const struct hidden_place *place, struct run_plan *plan)
{
    const struct model_config *config = &e->model->config;
    struct backend *backend = e->backend;
    const enum plan_space space = backend_space(backend);
    const int64_t tokens = e->chunks.tokens, making = model_rope_making_bytes(config, e->chunks.longest);
    const int64_t embed = embed_bytes(config, backend, e->chunks.largest, true);
    const int64_t walk = walk_bytes(config, backend, WALK_FORWARD, e->chunks.largest);
    *plan = (struct run_plan){.read_bytes = weights_bytes(e->model->weights)};
    plan_take(plan, PLAN_HOST, PLAN_SMALL_BYTES + chunks_bytes(&e->chunks) + tokens * (int64_t)sizeof(double));
    if (e->per_token) plan_take(plan, PLAN_HOST, e->chunks.predictions * (int64_t)sizeof(float));
    plan_take(plan, PLAN_HOST, backend->ops->scratch(e->chunks.longest, config->vocabulary_size));
    plan_take(plan, PLAN_HOST, making);
    plan_take(plan, space, model_rope_bytes(config, backend, e->chunks.longest));
    plan_give(plan, PLAN_HOST, making);
    plan_take(plan, space, embed);
    hidden_plan(backend, &e->chunks, config->hidden_size, place, plan);
    if (!config->tied) plan_give(plan, space, embed);
    plan_take(plan, space, walk);
    plan_take(plan, space, loader_bytes(e->model, backend));
    plan_take(plan, PLAN_HOST, loader_staging_bytes(e->model, backend));
    plan_give(plan, PLAN_HOST, loader_staging_bytes(e->model, backend));
    plan_give(plan, space, loader_bytes(e->model, backend));
    plan_give(plan, space, walk);
    plan_take(plan, space,
              head_bytes(config, backend, HEAD_LOSS, config->tied ? HEAD_LOADS_BUT_OUTPUT : HEAD_LOADS_ALL));
    plan->tokens = tokens;
    plan->flops = work_blocks(config, e->model->programs, &e->chunks) + work_head(config, tokens);
    /* spilled states are read and written once per block, and read once more for the head */
    const int64_t spilled = plan->spilled_tokens * config->hidden_size * (int64_t)backend->ops->element;
    plan->read_bytes += place->directory != NULL ? (config->layers + 2) * spilled : 0;
    plan->written_bytes += place->directory != NULL ? (config->layers + 1) * spilled : 0;
}

/* Tries all hidden states in memory first, then ever fewer of them. *out is the last plan tried. */
static void plan_choose(struct evaluation *e, const char *directory, const struct plan_budget *budget,
                        struct run_plan *out)
{
    const char *const places[] = {NULL, directory};
    e->place = (struct hidden_place){HIDDEN_PARTS, NULL};
    plan_fill(e, &e->place, out);
    for (int i = e->backend->ops->host ? 1 : 0; i < (directory != NULL ? 2 : 1); i++)
        for (int64_t parts = HIDDEN_PARTS - 1; parts >= 0 && !plan_fits(out, budget); parts--) {
            e->place = (struct hidden_place){parts, places[i]};
            plan_fill(e, &e->place, out);
        }
}

static enum status chunks_open(struct evaluation *e, const struct sequences *sequences, struct error *error)
{
    const struct model_config *config = &e->model->config;
    const enum status status = evaluate_check(config, sequences, "evaluation", error);
    if (status != STATUS_OK) return status;
    return chunks_init(sequences, chunks_tokens(e->backend, config->hidden_size), &e->chunks, error);
}

enum status evaluate_plan(const struct evaluate_request *request, const struct plan_budget *budget,
                          struct run_plan *out, struct error *error)
{
    struct evaluation e = {.model = request->model, .backend = request->backend, .per_token = request->per_token};
    *out = (struct run_plan){.flops = 0};
    const enum status status = chunks_open(&e, request->sequences, error);
    if (status == STATUS_OK) plan_choose(&e, request->directory, budget, out);
    chunks_reset(&e.chunks);
    return status;
}

/* ---- The run ---- */

static enum status chunk_done(struct evaluation *e, struct error *error)
{
    e->done++;
    monitor_progress(e->monitor, e->done, e->chunks.count * (e->model->config.layers + 1), "chunk");
    return monitor_check(e->monitor, error);
}

static enum status block_walk(struct evaluation *e, const struct block *block, struct error *error)
{
    enum status status = STATUS_OK;
    for (int64_t i = 0; i < e->chunks.count && status == STATUS_OK; i++) {
        const struct chunk *chunk = &e->chunks.chunks[i];
        struct matrix rows;
        if ((status = hidden_lend(&e->hidden, chunk, &rows, error)) != STATUS_OK) return status;
        walk_forward(&e->walk, block->program, &chunk->batch, block->parameters, rows);
        if ((status = hidden_return(&e->hidden, chunk, error)) != STATUS_OK) return status;
        status = chunk_done(e, error);
    }
    return status;
}

static enum status blocks_walk(struct evaluation *e, struct error *error)
{
    enum status status;
    if ((status = loader_open(e->model, e->backend, &e->loader, error)) != STATUS_OK) return status;
    for (int64_t layer = 0; layer < e->model->config.layers; layer++) {
        struct block *block = NULL;
        if ((status = loader_next(e->loader, &block, error)) != STATUS_OK) return status;
        if ((status = block_walk(e, block, error)) != STATUS_OK) return status;
    }
    loader_close(e->loader); /* frees two blocks, to make space for the output matrix */
    e->loader = NULL;
    return STATUS_OK;
}

static enum status head_walk(struct evaluation *e, struct error *error)
{
    enum status status;
    walk_reset(&e->walk);
    if ((status = head_load(&e->head, e->model, e->backend, e->embed.weights.embedding, HEAD_LOSS, error)) != STATUS_OK)
        return status;
    for (int64_t i = 0; i < e->chunks.count; i++) {
        const struct chunk *chunk = &e->chunks.chunks[i];
        struct matrix rows;
        if ((status = hidden_lend(&e->hidden, chunk, &rows, error)) != STATUS_OK) return status;
        head_losses(&e->head, rows, &chunk->batch, e->losses + chunk->first_token);
        if ((status = chunk_done(e, error)) != STATUS_OK) return status;
    }
    return e->backend->ops->sync(e->backend, error);
}

/* Chooses a plan that fits the available memory. */
static enum status plan_find(struct evaluation *e, const char *directory, struct error *error)
{
    struct plan_budget budget;
    struct run_plan plan;
    for (bool again = true; again;) {
        budget = backend_budget(e->backend, directory);
        plan_choose(e, directory, &budget, &plan);
        const enum status status = backend_claim(e->backend, plan.peak[PLAN_DEVICE], e->monitor, &again, error);
        if (status != STATUS_OK) return status;
    }
    e->flops = plan.flops;
    if (!plan_fits(&plan, &budget))
        return plan_refuse(&plan, &budget,
                           "give it fewer or shorter sequences, or more memory (--memory, --device-memory)", error);
    if (plan.spilled_tokens > 0)
        monitor_log(e->monitor, "memory is short: hidden states of %lld of %lld tokens are kept %s between blocks",
                    (long long)plan.spilled_tokens, (long long)plan.stream_tokens,
                    e->place.directory != NULL ? "on disk" : "in host memory");
    return STATUS_OK;
}

static enum status evaluation_prepare(struct evaluation *e, const struct evaluate_request *request, struct error *error)
{
    const struct model_config *config = &e->model->config;
    enum status status;
    if ((status = chunks_open(e, request->sequences, error)) != STATUS_OK) return status;
    if ((status = plan_find(e, request->directory, error)) != STATUS_OK) return status;
    if ((status = memory_new(e->chunks.tokens, sizeof(double), "token losses", &e->losses, error)) != STATUS_OK)
        return status;
    if ((status = e->backend->ops->prepare(e->backend, e->chunks.longest, config->vocabulary_size, error)) != STATUS_OK)
        return status;
    if ((status = model_rope_tables(config, e->backend, e->chunks.longest, &e->cosine, &e->sine, error)) != STATUS_OK)
        return status;
    if ((status = embed_load(&e->embed, e->model, e->backend, e->chunks.largest, error)) != STATUS_OK) return status;
    status = hidden_init(&e->hidden, e->backend, &e->chunks, config->hidden_size, &e->place, error);
    if (status != STATUS_OK) return status;
    if ((status = hidden_embed(&e->embed, &e->chunks, &e->hidden, error)) != STATUS_OK) return status;
    if (!config->tied) embed_reset(&e->embed);
    return walk_init(&e->walk, config, e->backend, WALK_FORWARD, e->chunks.largest, e->cosine, e->sine, error);
}

enum status evaluate_asked(const struct evaluate_request *request, struct evaluate_result *out, struct error *error)
{
    struct backend *backend = request->backend;
    struct evaluation e = {
        .model = request->model, .backend = backend, .monitor = request->monitor, .per_token = request->per_token};
    enum status status;
    *out = (struct evaluate_result){0};
    if ((status = evaluation_prepare(&e, request, error)) != STATUS_OK) goto done;
    if ((status = blocks_walk(&e, error)) != STATUS_OK) goto done;
    if ((status = head_walk(&e, error)) != STATUS_OK) goto done;
    if ((status = weights_check_unchanged(e.model->weights, error)) != STATUS_OK) goto done;
    status = evaluate_summarise(&e.chunks, e.losses, out, error);
    if (status == STATUS_OK && e.per_token)
        status = evaluate_token_values(&e.chunks, e.losses, &out->token_losses, error);
    out->flops = e.flops;
done:
    if (status != STATUS_OK) evaluate_result_reset(out);
    loader_close(e.loader);
    if (e.head.backend != NULL) head_reset(&e.head);
    walk_reset(&e.walk);
    embed_reset(&e.embed);
    hidden_reset(&e.hidden);
    matrix_release(backend, &e.cosine);
    memory_free(e.losses);
    chunks_reset(&e.chunks);
    return status;
}

enum status evaluate_run(const struct model *model, struct backend *backend, const struct sequences *sequences,
                         const struct monitor *monitor, struct evaluate_result *out, struct error *error)
{
    const struct evaluate_request request = {
        .model = model, .backend = backend, .sequences = sequences, .monitor = monitor};
    return evaluate_asked(&request, out, error);
}
