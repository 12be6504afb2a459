#include "jobs/quantize/quantize_member.h"

#include "base/checksum.h"
#include "base/integer.h"
#include "base/memory.h"
#include "eval/ratio.h"
#include "jobs/quantize/quantize_bits.h"
#include "jobs/quantize/quantize_intervals.h"
#include "jobs/quantize/quantize_saved.h"
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

/* Longest first; equal lengths keep their order. */
static int length_compare(const void *left, const void *right)
{
    const struct length *a = left, *b = right;
    if (a->tokens != b->tokens) return a->tokens < b->tokens ? 1 : -1;
    return a->index < b->index ? -1 : 1;
}

/* The calibration in the order in which it is processed: of each sequence the first `longest` tokens at most, long
 * sequences first. */
static enum status calibration_order(const struct sequences *from, int64_t longest, struct sequences *to,
                                     struct error *error)
{
    struct length *lengths = NULL;
    int64_t tokens = 0;
    enum status status;
    *to = (struct sequences){0};
    if ((status = memory_new(from->count, sizeof *lengths, "calibration order", &lengths, error)) != STATUS_OK)
        goto done;
    for (int64_t s = 0; s < from->count; s++) {
        const int64_t length = from->starts[s + 1] - from->starts[s];
        lengths[s] = (struct length){length < longest ? length : longest, s};
        tokens += lengths[s].tokens;
    }
    qsort(lengths, (size_t)from->count, sizeof *lengths, length_compare);
    if ((status = memory_new(from->count + 1, sizeof *to->starts, "calibration tokens", &to->starts, error)) !=
        STATUS_OK)
        goto done;
    if ((status = memory_new(tokens, sizeof *to->tokens, "calibration tokens", &to->tokens, error)) != STATUS_OK)
        goto done;
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

enum status quantize_member_evaluation(struct quantize_pass *pass, const struct sequences *evaluation,
                                       struct error *error)
{
    const struct model_config *config = &pass->model->config;
    const enum status status = evaluate_check(config, evaluation, "evaluation", error);
    if (status != STATUS_OK) return status;
    return chunks_init(evaluation, chunks_tokens(pass->backend, config->hidden_size), &pass->evaluation, error);
}

enum status quantize_member_calibration(struct quantize_member_state *state, struct error *error)
{
    const struct model_config *config = &state->pass->model->config;
    const struct sequences *given = state->request->calibration;
    struct sequences ordered = {0};
    enum status status = STATUS_OK;
    if (given == NULL || given->count == 0) {
        const struct quantizer *quantizer = quantizer_by_id(state->request->method.quantizer);
        if (quantizer->needs != 0)
            return error_set_at(error, STATUS_INVALID, "/calibration", "%s needs calibration data; name a dataset",
                                quantizer->name);
        return STATUS_OK;
    }
    if ((status = calibration_order(given, config->maximum_positions, &ordered, error)) != STATUS_OK) goto done;
    if ((status = evaluate_check(config, &ordered, "calibration", error)) != STATUS_OK) goto done;
    status =
        chunks_init(&ordered, chunks_tokens(state->pass->backend, config->hidden_size), &state->calibration, error);
done:
    memory_free(ordered.tokens);
    memory_free(ordered.starts);
    return status;
}

static int64_t linears(const struct model *model)
{
    int64_t count = 0;
    for (int64_t layer = 0; layer < model->config.layers; layer++)
        for (int i = 0; i < model->programs[layer].parameter_count; i++)
            count += model->programs[layer].parameters[i].linear;
    return count;
}

enum status quantize_member_prepare(struct quantize_member_state *state, struct error *error)
{
    const int64_t tokens = state->pass->evaluation.tokens, layers = linears(state->pass->model);
    enum status status;
    if ((status = memory_new(layers, sizeof *state->result.layers, "layer results", &state->result.layers, error)) !=
            STATUS_OK ||
        (status = memory_new(tokens, sizeof(double), "token losses", &state->losses, error)) != STATUS_OK ||
        (status = memory_new(tokens, sizeof(double), "token divergences", &state->kl, error)) != STATUS_OK ||
        (status = memory_new(tokens, sizeof(uint8_t), "token agreement", &state->agree, error)) != STATUS_OK)
        return status;
    return STATUS_OK;
}

static enum status copy_matrix(struct backend *backend, struct matrix from, struct matrix *to, struct error *error)
{
    const enum status status = matrix_new(backend, from.rows, from.columns, "hidden states", to, error);
    if (status != STATUS_OK) return status;
    backend->ops->add(backend, *to, from, 1, 0);
    return STATUS_OK;
}

static enum status streams_new(struct quantize_member_state *state, struct error *error)
{
    struct quantize_pass *pass = state->pass;
    const int64_t width = pass->model->config.hidden_size;
    const enum status status =
        hidden_init(&state->hidden, pass->backend, &pass->evaluation, width, &pass->place, error);
    if (status != STATUS_OK || state->calibration.count == 0) return status;
    return hidden_init(&state->calibration_hidden, pass->backend, &state->calibration, width, &pass->calibration,
                       error);
}

/* Streams and summaries as they are saved in a file. */
static struct quantize_saved kept_of(struct quantize_member_state *state)
{
    return (struct quantize_saved){
        .fingerprint = quantize_member_fingerprint(state, true),
        .layer = state->layer,
        .end_bits = state->end_bits,
        .end_weights = state->end_weights,
        .layer_count = state->result.layer_count,
        .layers = state->result.layers,
        .streams = {&state->hidden, &state->calibration_hidden},
        .stream_count = state->calibration.count > 0 ? 2 : 1,
    };
}

static void state_path(const struct quantize_member_state *state, char out[PATH_MAX])
{
    (void)snprintf(out, PATH_MAX, "%s.state", state->request->save_path);
}

/* Reads what an earlier attempt saved, if it fits. */
static enum status take_up(struct quantize_member_state *state, bool *found, struct error *error)
{
    const struct quantize_saver *saver = &state->request->saver;
    char path[PATH_MAX];
    struct quantize_saved kept = kept_of(state);
    kept.layer_count = linears(state->pass->model);
    state_path(state, path);
    const enum status status = quantize_saved_read(path, state->pass->backend, &kept, found, error);
    if (status != STATUS_OK) return status;
    if (*found && saver->begin != NULL) *found = saver->begin(saver->owner, kept.layer);
    if (!*found && saver->begin != NULL) (void)saver->begin(saver->owner, 0);
    if (!*found) return STATUS_OK;
    state->layer = kept.layer;
    state->end_bits = kept.end_bits;
    state->end_weights = kept.end_weights;
    state->result.layer_count = kept.layer_count;
    monitor_log(state->request->monitor, "goes on behind block %lld of %lld, which an earlier attempt had finished",
                (long long)state->layer, (long long)state->pass->model->config.layers);
    return STATUS_OK;
}

enum status quantize_member_begin(struct quantize_member_state *state, struct error *error)
{
    const struct quantize_streams *from = state->request->start;
    struct backend *backend = state->pass->backend;
    bool found = false;
    enum status status = streams_new(state, error);
    if (status != STATUS_OK) return status;
    if (from != NULL) {
        state->layer = from->layer;
        backend->ops->add(backend, state->hidden.rows, from->evaluation, 1, 0);
        if (from->calibration.data != NULL && state->calibration.count > 0)
            backend->ops->add(backend, state->calibration_hidden.rows, from->calibration, 1, 0);
        return STATUS_OK;
    }
    status = state->request->save_path == NULL ? STATUS_OK : take_up(state, &found, error);
    state->embedded = !found;
    return status;
}

/* Rounds the embeddings in `embed`, for a method that quantizes them. */
static enum status round_embedding(struct quantize_member_state *state, struct embed *embed, struct error *error)
{
    const struct quantize_pass *pass = state->pass;
    const struct matrix embedding = embed->weights.embedding;
    int64_t stored = 0;
    const enum status status = ends_round(pass->backend, pass->model->ends.embedding.name, embedding,
                                          state->request->method.options.embedding_bits, &stored, error);
    state->end_bits += stored;
    state->end_weights += embedding.rows * embedding.columns;
    return status;
}

enum status quantize_member_embed(struct quantize_member_state *state, struct embed *embed, bool *changed,
                                  struct error *error)
{
    enum status status;
    *changed = state->request->method.options.embedding_bits != 0;
    if (*changed && (status = round_embedding(state, embed, error)) != STATUS_OK) return status;
    status = hidden_embed(embed, &state->pass->evaluation, &state->hidden, error);
    if (status != STATUS_OK || state->calibration.count == 0) return status;
    return hidden_embed(embed, &state->calibration, &state->calibration_hidden, error);
}

/* Slots held between cuts may take only the memory that a run's other needs leave: a chunk's activations, and the
 * Hessian, its factor and a copy of the largest stack of weights. */
int64_t quantize_member_hold_bytes(const struct quantize_member_state *state, int64_t walk_tokens)
{
    const struct quantize_pass *pass = state->pass;
    const struct model_config *config = &pass->model->config;
    const int64_t element = (int64_t)pass->backend->ops->element, inner = config->intermediate_size;
    const int64_t widest = larger(larger(inner, config->hidden_size), config->heads * config->head_dim);
    const int64_t solver = 2 * widest * widest + 3 * inner * config->hidden_size;
    const int64_t treated = quantize_method_treats_inputs(&state->request->method) ? 2 * walk_tokens * widest : 0;
    const int64_t needed = element * (solver + treated) + walk_bytes(config, pass->backend, WALK_FORWARD, walk_tokens);
    const int64_t left = QUANTIZE_SLACK_BYTES + element * config->vocabulary_size * config->hidden_size - needed;
    return left > 0 ? left : 0;
}

enum status quantize_member_open(struct quantize_member_state *state, struct error *error)
{
    state->sequential = (struct sequential){
        .model = state->pass->model,
        .backend = state->pass->backend,
        .method = &state->request->method,
        .monitor = &state->member.monitor,
        .hook = state->request->hook,
        .half_scales = state->request->half_scales,
        .chunks = state->calibration.count > 0 ? &state->calibration : NULL,
        .hidden = &state->calibration_hidden,
        .walk = &state->pass->walk,
        .scratch = &state->pass->scratch,
    };
    const struct sequential *sequential = &state->sequential;
    enum status status = sequential_init(&state->sequential, error);
    if (status != STATUS_OK || !state->embedded) return status; /* saved and given streams have entered before */
    status = sequential_enter(sequential, &state->pass->evaluation, &state->hidden, error);
    if (status != STATUS_OK || sequential->chunks == NULL) return status;
    return sequential_enter(sequential, &state->calibration, &state->calibration_hidden, error);
}

/* ---- The blocks ---- */

enum status quantize_member_visit(const struct quantize_member_state *state, struct error *error)
{
    const struct quantize_visitor *visitor = &state->request->visitor;
    const struct quantize_streams streams = {state->layer, state->calibration_hidden.rows, state->hidden.rows};
    return visitor->streams == NULL ? STATUS_OK : visitor->streams(visitor->owner, &streams, error);
}

/* Takes the evaluation tokens through the block, which is quantized by now. */
static enum status evaluation_pass(struct quantize_member_state *state, const struct block *block, struct error *error)
{
    struct quantize_pass *pass = state->pass;
    enum status status = STATUS_OK;
    pass->walk.product = sequential_product(&state->sequential);
    for (int64_t i = 0; i < pass->evaluation.count && status == STATUS_OK; i++) {
        const struct chunk *chunk = &pass->evaluation.chunks[i];
        struct matrix rows;
        if ((status = hidden_lend(&state->hidden, chunk, &rows, error)) != STATUS_OK) break;
        walk_forward(&pass->walk, block->program, &chunk->batch, block->parameters, rows);
        if ((status = hidden_return(&state->hidden, chunk, error)) != STATUS_OK) break;
        status = monitor_check(&state->member.monitor, error);
    }
    pass->walk.product = NULL;
    return status;
}

enum status quantize_member_block(struct quantize_member_state *state, struct block *block, struct error *error)
{
    const struct quantize_request *request = state->request;
    const int64_t layer = state->layer, layers = state->pass->model->config.layers;
    const int64_t idle_from = request->idle_from > 0 ? request->idle_from : layers;
    const int64_t origin = request->start == NULL ? 0 : request->start->layer;
    struct layer_summary *summaries = state->result.layers + state->result.layer_count;
    int64_t count = 0;
    enum status status;
    if ((status = quantize_member_visit(state, error)) != STATUS_OK) return status;
    if (layer >= idle_from) state->sequential.chunks = NULL;
    status = sequential_block(&state->sequential, block, layer == idle_from - 1, summaries, &count, error);
    if (status != STATUS_OK) return status;
    state->result.layer_count += count;
    if ((status = evaluation_pass(state, block, error)) != STATUS_OK) return status;
    sequential_forget(&state->sequential);
    state->layer++;
    monitor_progress(request->monitor, state->layer - origin, layers + 1 - origin, "block");
    return STATUS_OK;
}

/* ---- Saving between blocks ---- */

static void add_tokens(struct checksum *sum, const struct chunks *chunks)
{
    for (int64_t i = 0; i < chunks->count; i++) {
        const struct batch *batch = &chunks->chunks[i].batch; /* targets say where sequences end */
        checksum_add(sum, batch->ids, (size_t)batch->tokens * sizeof *batch->ids);
        checksum_add(sum, batch->targets, (size_t)batch->tokens * sizeof *batch->targets);
    }
}

uint64_t quantize_member_fingerprint(const struct quantize_member_state *state, bool calibrated)
{
    char description[256];
    struct checksum sum;
    checksum_init(&sum);
    backend_describe(state->pass->backend, description, sizeof description);
    checksum_add(&sum, description, strlen(description) + 1);
    checksum_add(&sum, &state->request->content, sizeof state->request->content);
    add_tokens(&sum, &state->pass->evaluation);
    if (calibrated) add_tokens(&sum, &state->calibration);
    return checksum_value(&sum);
}

enum status quantize_member_save(struct quantize_member_state *state, struct error *error)
{
    const struct quantize_saver *saver = &state->request->saver;
    char path[PATH_MAX];
    const struct quantize_saved kept = kept_of(state);
    enum status status = saver->save == NULL ? STATUS_OK : saver->save(saver->owner, error);
    if (status != STATUS_OK) return status;
    state_path(state, path);
    return quantize_saved_write(path, state->pass->backend, &kept, error);
}

/* ---- Behind the last block ---- */

enum status quantize_member_leave(struct quantize_member_state *state, struct error *error)
{
    const enum status status = sequential_leave(&state->sequential, &state->pass->evaluation, &state->hidden, error);
    sequential_reset(&state->sequential);
    hidden_reset(&state->calibration_hidden);
    return status;
}

/* A method that quantizes the output matrix gets a rounded copy; the full-precision stream needs the original. A
 * checkpoint stores it once where the embeddings are the same matrix with the same bits. */
enum status quantize_member_head(struct quantize_member_state *state, const struct head *head, struct error *error)
{
    const struct quantize_pass *pass = state->pass;
    const struct matrix output = head->weights.output;
    const struct quantize_options *options = &state->request->method.options;
    const int64_t bits = options->lm_head_bits;
    int64_t stored = 0;
    enum status status;
    if (bits == 0) return STATUS_OK;
    if ((status = copy_matrix(pass->backend, output, &state->output, error)) != STATUS_OK) return status;
    status = ends_round(pass->backend, pass->model->ends.output.name, state->output, bits, &stored, error);
    if (pass->model->config.tied && options->embedding_bits == bits) return status;
    state->end_bits += stored;
    state->end_weights += output.rows * output.columns;
    return status;
}

enum status quantize_member_other(struct quantize_member_state *state, const struct chunk *chunk,
                                  struct head_other *out, struct error *error)
{
    const int64_t first = chunk->first_token;
    *out = (struct head_other){.output = state->output,
                               .losses = state->losses + first,
                               .kl = state->kl + first,
                               .agree = state->agree + first};
    return hidden_lend(&state->hidden, chunk, &out->hidden, error);
}

static enum status tokens_summarise(struct quantize_member_state *state, const double *losses_fp, struct error *error)
{
    const struct chunks *chunks = &state->pass->evaluation;
    struct quantize_result *out = &state->result;
    enum status status = evaluate_token_values(chunks, losses_fp, &out->fp.token_losses, error);
    if (status == STATUS_OK) status = evaluate_token_values(chunks, state->losses, &out->q.token_losses, error);
    if (status == STATUS_OK) status = evaluate_token_values(chunks, state->kl, &out->token_kl, error);
    return status;
}

enum status quantize_member_summarise(struct quantize_member_state *state, const double *losses_fp, struct error *error)
{
    const struct chunks *chunks = &state->pass->evaluation;
    struct quantize_result *out = &state->result;
    double kl = 0;
    int64_t agreed = 0, bits = state->end_bits, weights = state->end_weights;
    enum status status;
    if ((status = evaluate_summarise(chunks, losses_fp, &out->fp, error)) != STATUS_OK) return status;
    if ((status = evaluate_summarise(chunks, state->losses, &out->q, error)) != STATUS_OK) return status;
    if (state->request->per_token && (status = tokens_summarise(state, losses_fp, error)) != STATUS_OK) return status;
    status = memory_new(chunks->sequences, sizeof(double), "sequence divergences", &out->sequence_kl, error);
    if (status != STATUS_OK) return status;
    status = memory_new(chunks->sequences, sizeof(double), "sequence agreement", &out->sequence_top1, error);
    if (status != STATUS_OK) return status;
    evaluate_sequence_means(chunks, state->kl, out->sequence_kl);
    for (int64_t t = 0; t < chunks->tokens; t++) {
        kl += state->kl[t];
        agreed += state->agree[t];
        state->kl[t] = state->agree[t]; /* the divergences were used: no further array of all tokens */
    }
    evaluate_sequence_means(chunks, state->kl, out->sequence_top1);
    for (int64_t i = 0; i < out->layer_count; i++) {
        bits += out->layers[i].bits;
        weights += out->layers[i].rows * out->layers[i].columns;
    }
    out->kl = kl / (double)chunks->predictions;
    out->top1_agreement = (double)agreed / (double)chunks->predictions;
    out->bits_per_weight = (double)bits / (double)weights;
    out->model_bits_per_weight = quantize_bits_of_model(state->pass->model, &state->request->method.options,
                                                        out->layers, out->layer_count, state->end_bits);
    out->calibration_sequences = state->calibration.sequences;
    out->calibration_tokens = state->calibration.tokens;
    out->delta = out->q.loss / out->fp.loss - 1;
    struct ratio_interval interval;
    status = ratio_interval(out->fp.sequence_losses, out->q.sequence_losses, out->fp.sequence_predictions,
                            chunks->sequences, out->delta, state->request->seed, &interval, error);
    if (status != STATUS_OK) return status;
    out->delta_low = interval.low;
    out->delta_high = interval.high;
    out->delta_method = interval.method;
    quantize_intervals(out);
    return STATUS_OK;
}

void quantize_member_reset(struct quantize_member_state *state)
{
    struct backend *backend = state->pass->backend;
    if (state->sequential.backend != NULL) sequential_reset(&state->sequential);
    state->sequential = (struct sequential){0};
    hidden_reset(&state->hidden);
    hidden_reset(&state->calibration_hidden);
    matrix_release(backend, &state->output);
    memory_free(state->losses);
    memory_free(state->kl);
    memory_free(state->agree);
    state->losses = state->kl = NULL;
    state->agree = NULL;
    chunks_reset(&state->calibration);
}
