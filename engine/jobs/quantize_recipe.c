#include "jobs/quantize_recipe.h"

#include "base/checksum.h"
#include "base/memory.h"
#include "eval/bootstrap.h"
#include "jobs/quantize_state.h"
#include "model/hidden.h"
#include "quant/ends.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Before the first block ---- */

struct length {
    int64_t tokens, index;
};

/* Descending; equal lengths keep their order. */
static int length_compare(const void *left, const void *right)
{
    const struct length *a = left, *b = right;
    if (a->tokens != b->tokens) return a->tokens < b->tokens ? 1 : -1;
    return a->index < b->index ? -1 : 1;
}

/* The calibration tokens as they are visited: heads of at most `longest` tokens, long sequences first. */
static enum status calibration_order(const struct sequences *from, int64_t longest, struct sequences *to, struct error *error)
{
    struct length *lengths = NULL;
    int64_t tokens = 0;
    enum status status;
    *to = (struct sequences){0};
    if ((status = memory_new(from->count, sizeof *lengths, "calibration order", &lengths, error)) != STATUS_OK) goto done;
    for (int64_t s = 0; s < from->count; s++) {
        const int64_t length = from->starts[s + 1] - from->starts[s];
        lengths[s] = (struct length){length < longest ? length : longest, s};
        tokens += lengths[s].tokens;
    }
    qsort(lengths, (size_t)from->count, sizeof *lengths, length_compare);
    if ((status = memory_new(from->count + 1, sizeof *to->starts, "calibration tokens", &to->starts, error)) != STATUS_OK)
        goto done;
    if ((status = memory_new(tokens, sizeof *to->tokens, "calibration tokens", &to->tokens, error)) != STATUS_OK) goto done;
    to->count = from->count;
    for (int64_t s = 0; s < from->count; s++) {
        memcpy(to->tokens + to->starts[s], from->tokens + from->starts[lengths[s].index],
               (size_t)lengths[s].tokens * sizeof *to->tokens);
        to->starts[s + 1] = to->starts[s] + lengths[s].tokens;
    }
done:
    memory_free(lengths);
    return status;
}

enum status quantize_recipe_evaluation(struct quantize_shared *shared, const struct sequences *evaluation, struct error *error)
{
    const struct model_config *config = &shared->model->config;
    const enum status status = evaluate_check(config, evaluation, "evaluation", error);
    if (status != STATUS_OK) return status;
    return chunks_init(evaluation, chunks_tokens(config->hidden_size), &shared->evaluation, error);
}

enum status quantize_recipe_calibration(struct quantize_recipe *recipe, struct error *error)
{
    const struct model_config *config = &recipe->shared->model->config;
    const struct sequences *given = recipe->request->calibration;
    struct sequences ordered = {0};
    enum status status = STATUS_OK;
    if (given == NULL || given->count == 0) {
        const struct quantizer *quantizer = quantizer_by_id(recipe->request->method.quantizer);
        if (quantizer->needs != 0)
            return error_set_at(error, STATUS_INVALID, "/calibration", "%s needs calibration data; name a dataset",
                                quantizer->name);
        return STATUS_OK;
    }
    if ((status = calibration_order(given, config->maximum_positions, &ordered, error)) != STATUS_OK) goto done;
    if ((status = evaluate_check(config, &ordered, "calibration", error)) != STATUS_OK) goto done;
    status = chunks_init(&ordered, chunks_tokens(config->hidden_size), &recipe->calibration, error);
done:
    memory_free(ordered.tokens);
    memory_free(ordered.starts);
    return status;
}

static int64_t linears(const struct model *model)
{
    int64_t count = 0;
    for (int64_t layer = 0; layer < model->config.layers; layer++)
        for (int i = 0; i < model->programs[layer].parameter_count; i++) count += model->programs[layer].parameters[i].linear;
    return count;
}

enum status quantize_recipe_prepare(struct quantize_recipe *recipe, struct error *error)
{
    const int64_t tokens = recipe->shared->evaluation.tokens, layers = linears(recipe->shared->model);
    enum status status;
    if ((status = memory_new(layers, sizeof *recipe->result.layers, "layer results", &recipe->result.layers, error)) != STATUS_OK ||
        (status = memory_new(tokens, sizeof(double), "token losses", &recipe->losses, error)) != STATUS_OK ||
        (status = memory_new(tokens, sizeof(double), "token divergences", &recipe->kl, error)) != STATUS_OK ||
        (status = memory_new(tokens, sizeof(uint8_t), "token agreement", &recipe->agree, error)) != STATUS_OK)
        return status;
    return STATUS_OK;
}

static enum status copy_matrix(struct backend *backend, struct matrix from, struct matrix *to, struct error *error)
{
    void *data = NULL;
    const enum status status = backend->ops->allocate(backend, from.rows * from.columns, "hidden states", &data, error);
    if (status != STATUS_OK) return status;
    *to = matrix_of(data, from.rows, from.columns, backend->ops->element);
    backend->ops->add(backend, *to, from, 1, 0);
    return STATUS_OK;
}

static enum status streams_new(struct quantize_recipe *recipe, struct error *error)
{
    struct quantize_shared *shared = recipe->shared;
    const int64_t width = shared->model->config.hidden_size;
    const enum status status = hidden_init(&recipe->hidden, shared->backend, &shared->evaluation, width, &shared->place, error);
    if (status != STATUS_OK || recipe->calibration.count == 0) return status;
    return hidden_init(&recipe->calibration_hidden, shared->backend, &recipe->calibration, width, &shared->calibration, error);
}

/* Streams and summaries as a file has them. */
static struct quantize_state state_of(struct quantize_recipe *recipe)
{
    return (struct quantize_state){
        .fingerprint = quantize_recipe_fingerprint(recipe, true),
        .layer = recipe->layer,
        .end_bits = recipe->end_bits,
        .end_weights = recipe->end_weights,
        .layer_count = recipe->result.layer_count,
        .layers = recipe->result.layers,
        .streams = {&recipe->hidden, &recipe->calibration_hidden},
        .stream_count = recipe->calibration.count > 0 ? 2 : 1,
    };
}

static void state_path(const struct quantize_recipe *recipe, char out[PATH_MAX])
{
    (void)snprintf(out, PATH_MAX, "%s.state", recipe->request->keep);
}

/* A file that was left holds no more layers than there are. */
static enum status take_up(struct quantize_recipe *recipe, bool *found, struct error *error)
{
    const struct quantize_keeper *keeper = &recipe->request->keeper;
    char path[PATH_MAX];
    struct quantize_state state = state_of(recipe);
    state.layer_count = linears(recipe->shared->model);
    state_path(recipe, path);
    const enum status status = quantize_state_read(path, recipe->shared->backend, &state, found, error);
    if (status != STATUS_OK) return status;
    if (*found && keeper->begin != NULL) *found = keeper->begin(keeper->owner, state.layer);
    if (!*found && keeper->begin != NULL) (void)keeper->begin(keeper->owner, 0);
    if (!*found) return STATUS_OK;
    recipe->layer = state.layer;
    recipe->end_bits = state.end_bits;
    recipe->end_weights = state.end_weights;
    recipe->result.layer_count = state.layer_count;
    monitor_log(recipe->request->monitor, "goes on behind block %lld of %lld, which an earlier attempt had finished",
                (long long)recipe->layer, (long long)recipe->shared->model->config.layers);
    return STATUS_OK;
}

enum status quantize_recipe_begin(struct quantize_recipe *recipe, bool *embed, struct error *error)
{
    const struct quantize_streams *from = recipe->request->start;
    struct backend *backend = recipe->shared->backend;
    bool found = false;
    enum status status = streams_new(recipe, error);
    *embed = false;
    if (status != STATUS_OK) return status;
    if (from != NULL) {
        recipe->layer = from->layer;
        backend->ops->add(backend, recipe->hidden.rows, from->evaluation, 1, 0);
        if (from->calibration.data != NULL && recipe->calibration.count > 0)
            backend->ops->add(backend, recipe->calibration_hidden.rows, from->calibration, 1, 0);
        return STATUS_OK;
    }
    status = recipe->request->keep == NULL ? STATUS_OK : take_up(recipe, &found, error);
    *embed = !found;
    return status;
}

/* Where the method says so: from here on the embeddings are the quantized model's. */
static enum status round_embedding(struct quantize_recipe *recipe, struct embed *embed, struct error *error)
{
    const struct quantize_shared *shared = recipe->shared;
    const struct matrix embedding = embed->weights.embedding;
    int64_t stored = 0;
    const enum status status = ends_round(shared->backend, shared->model->ends.embedding.name, embedding,
                                          recipe->request->method.options.embedding_bits, &stored, error);
    recipe->end_bits += stored;
    recipe->end_weights += embedding.rows * embedding.columns;
    return status;
}

enum status quantize_recipe_embed(struct quantize_recipe *recipe, struct embed *embed, bool *changed, struct error *error)
{
    enum status status;
    *changed = recipe->request->method.options.embedding_bits != 0;
    if (*changed && (status = round_embedding(recipe, embed, error)) != STATUS_OK) return status;
    status = hidden_embed(embed, &recipe->shared->evaluation, &recipe->hidden, error);
    if (status != STATUS_OK || recipe->calibration.count == 0) return status;
    return hidden_embed(embed, &recipe->calibration, &recipe->calibration_hidden, error);
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Before what is held between cuts comes what a run cannot do without: a chunk's activations, and the Hessian, its factor and a
 * copy of the largest stack of weights. */
int64_t quantize_recipe_hold_bytes(const struct quantize_recipe *recipe, int64_t walk_tokens)
{
    const struct quantize_shared *shared = recipe->shared;
    const struct model_config *config = &shared->model->config;
    const int64_t element = (int64_t)shared->backend->ops->element, inner = config->intermediate_size;
    const int64_t widest = larger(larger(inner, config->hidden_size), config->heads * config->head_dim);
    const int64_t solver = 2 * widest * widest + 3 * inner * config->hidden_size;
    const int64_t treated = quantize_method_treats_inputs(&recipe->request->method) ? 2 * walk_tokens * widest : 0;
    const int64_t needed = element * (solver + treated) + walk_bytes(config, shared->backend, WALK_FORWARD, walk_tokens);
    const int64_t left = QUANTIZE_SLACK_BYTES + element * config->vocabulary_size * config->hidden_size - needed;
    return left > 0 ? left : 0;
}

enum status quantize_recipe_open(struct quantize_recipe *recipe, bool embedded, struct error *error)
{
    recipe->sequential = (struct sequential){
        .model = recipe->shared->model,
        .backend = recipe->shared->backend,
        .method = &recipe->request->method,
        .monitor = recipe->monitor,
        .hook = recipe->request->hook,
        .chunks = recipe->calibration.count > 0 ? &recipe->calibration : NULL,
        .hidden = &recipe->calibration_hidden,
        .walk = &recipe->shared->walk,
        .room = &recipe->shared->room,
    };
    const struct sequential *sequential = &recipe->sequential;
    enum status status = sequential_init(&recipe->sequential, error);
    if (status != STATUS_OK || !embedded) return status; /* streams that have started have entered */
    status = sequential_enter(sequential, &recipe->shared->evaluation, &recipe->hidden, error);
    if (status != STATUS_OK || sequential->chunks == NULL) return status;
    return sequential_enter(sequential, &recipe->calibration, &recipe->calibration_hidden, error);
}

/* ---- The blocks ---- */

enum status quantize_recipe_visit(const struct quantize_recipe *recipe, struct error *error)
{
    const struct quantize_visitor *visitor = &recipe->request->visitor;
    const struct quantize_streams streams = {recipe->layer, recipe->calibration_hidden.rows, recipe->hidden.rows};
    return visitor->streams == NULL ? STATUS_OK : visitor->streams(visitor->owner, &streams, error);
}

/* Evaluation tokens past the block that is quantized now. */
static enum status pass(struct quantize_recipe *recipe, const struct block *block, struct error *error)
{
    struct quantize_shared *shared = recipe->shared;
    enum status status = STATUS_OK;
    shared->walk.product = sequential_product(&recipe->sequential);
    for (int64_t i = 0; i < shared->evaluation.count && status == STATUS_OK; i++) {
        const struct chunk *chunk = &shared->evaluation.chunks[i];
        struct matrix rows;
        if ((status = hidden_lend(&recipe->hidden, chunk, &rows, error)) != STATUS_OK) break;
        walk_forward(&shared->walk, block->program, &chunk->batch, block->parameters, rows);
        if ((status = hidden_return(&recipe->hidden, chunk, error)) != STATUS_OK) break;
        status = monitor_check(recipe->monitor, error);
    }
    shared->walk.product = NULL;
    return status;
}

enum status quantize_recipe_block(struct quantize_recipe *recipe, struct block *block, struct error *error)
{
    const struct quantize_request *request = recipe->request;
    const int64_t layer = recipe->layer, layers = recipe->shared->model->config.layers;
    const int64_t settled_from = request->settled_from > 0 ? request->settled_from : layers;
    const int64_t origin = request->start == NULL ? 0 : request->start->layer;
    struct layer_summary *summaries = recipe->result.layers + recipe->result.layer_count;
    int64_t count = 0;
    enum status status;
    if ((status = quantize_recipe_visit(recipe, error)) != STATUS_OK) return status;
    if (layer >= settled_from) recipe->sequential.chunks = NULL;
    status = sequential_block(&recipe->sequential, block, layer == settled_from - 1, summaries, &count, error);
    if (status != STATUS_OK) return status;
    recipe->result.layer_count += count;
    if ((status = pass(recipe, block, error)) != STATUS_OK) return status;
    sequential_forget(&recipe->sequential);
    recipe->layer++;
    monitor_progress(request->monitor, recipe->layer - origin, layers + 1 - origin, "block");
    return STATUS_OK;
}

/* ---- What is kept between blocks ---- */

static void add_tokens(struct checksum *sum, const struct chunks *chunks)
{
    for (int64_t i = 0; i < chunks->count; i++) {
        const struct batch *batch = &chunks->chunks[i].batch; /* targets tell where sequences end */
        checksum_add(sum, batch->ids, (size_t)batch->tokens * sizeof *batch->ids);
        checksum_add(sum, batch->targets, (size_t)batch->tokens * sizeof *batch->targets);
    }
}

uint64_t quantize_recipe_fingerprint(const struct quantize_recipe *recipe, bool calibrated)
{
    char description[256];
    struct checksum sum;
    checksum_init(&sum);
    backend_describe(recipe->shared->backend, description, sizeof description);
    checksum_add(&sum, description, strlen(description) + 1);
    checksum_add(&sum, &recipe->request->content, sizeof recipe->request->content);
    add_tokens(&sum, &recipe->shared->evaluation);
    if (calibrated) add_tokens(&sum, &recipe->calibration);
    return checksum_value(&sum);
}

enum status quantize_recipe_keep(struct quantize_recipe *recipe, struct error *error)
{
    const struct quantize_keeper *keeper = &recipe->request->keeper;
    char path[PATH_MAX];
    const struct quantize_state state = state_of(recipe);
    enum status status = keeper->keep == NULL ? STATUS_OK : keeper->keep(keeper->owner, error);
    if (status != STATUS_OK) return status;
    state_path(recipe, path);
    return quantize_state_write(path, recipe->shared->backend, &state, error);
}

/* ---- Behind the last block ---- */

enum status quantize_recipe_leave(struct quantize_recipe *recipe, struct error *error)
{
    const enum status status = sequential_leave(&recipe->sequential, &recipe->shared->evaluation, &recipe->hidden, error);
    sequential_reset(&recipe->sequential);
    hidden_reset(&recipe->calibration_hidden);
    return status;
}

/* Where the method says so, an output matrix beside the one of full precision. */
enum status quantize_recipe_head(struct quantize_recipe *recipe, const struct head *head, struct error *error)
{
    const struct quantize_shared *shared = recipe->shared;
    const struct matrix output = head->weights.output;
    const int64_t bits = recipe->request->method.options.lm_head_bits;
    int64_t stored = 0;
    enum status status;
    if (bits == 0) return STATUS_OK;
    if ((status = copy_matrix(shared->backend, output, &recipe->output, error)) != STATUS_OK) return status;
    status = ends_round(shared->backend, shared->model->ends.output.name, recipe->output, bits, &stored, error);
    recipe->end_bits += stored;
    recipe->end_weights += output.rows * output.columns;
    return status;
}

enum status quantize_recipe_other(struct quantize_recipe *recipe, const struct chunk *chunk, struct head_other *out,
                                  struct error *error)
{
    const int64_t first = chunk->first_token;
    *out = (struct head_other){
        .output = recipe->output, .losses = recipe->losses + first, .kl = recipe->kl + first, .agree = recipe->agree + first};
    return hidden_lend(&recipe->hidden, chunk, &out->hidden, error);
}

enum status quantize_recipe_summarise(struct quantize_recipe *recipe, const double *losses_fp, struct error *error)
{
    const struct chunks *chunks = &recipe->shared->evaluation;
    struct quantize_result *out = &recipe->result;
    double kl = 0;
    int64_t agreed = 0, bits = recipe->end_bits, weights = recipe->end_weights;
    enum status status;
    if ((status = evaluate_summarise(chunks, losses_fp, &out->fp, error)) != STATUS_OK) return status;
    if ((status = evaluate_summarise(chunks, recipe->losses, &out->q, error)) != STATUS_OK) return status;
    for (int64_t t = 0; t < chunks->tokens; t++) {
        kl += recipe->kl[t];
        agreed += recipe->agree[t];
    }
    for (int64_t i = 0; i < out->layer_count; i++) {
        bits += out->layers[i].bits;
        weights += out->layers[i].rows * out->layers[i].columns;
    }
    out->kl = kl / (double)chunks->predictions;
    out->top1_agreement = (double)agreed / (double)chunks->predictions;
    out->bits_per_weight = (double)bits / (double)weights;
    out->calibration_sequences = recipe->calibration.sequences;
    out->calibration_tokens = recipe->calibration.tokens;
    out->delta = out->q.loss / out->fp.loss - 1;
    return bootstrap_ratio(out->fp.sequence_losses, out->q.sequence_losses, out->fp.sequence_predictions, chunks->sequences,
                           out->delta, recipe->request->seed, &out->delta_low, &out->delta_high, error);
}

void quantize_recipe_reset(struct quantize_recipe *recipe)
{
    struct backend *backend = recipe->shared->backend;
    if (recipe->sequential.backend != NULL) sequential_reset(&recipe->sequential);
    recipe->sequential = (struct sequential){0};
    hidden_reset(&recipe->hidden);
    hidden_reset(&recipe->calibration_hidden);
    matrix_release(backend, &recipe->output);
    memory_free(recipe->losses);
    memory_free(recipe->kl);
    memory_free(recipe->agree);
    recipe->losses = recipe->kl = NULL;
    recipe->agree = NULL;
    chunks_reset(&recipe->calibration);
}
