#include "jobs/quantize.h"

#include "base/memory.h"
#include "eval/baseline.h"
#include "eval/bootstrap.h"
#include "model/head.h"
#include "model/hidden.h"
#include "quant/ends.h"

#include <stdlib.h>
#include <string.h>

#define SLACK_BYTES (220LL << 20) /* beside two blocks, the hidden states and as much as an embedding: see hold_bytes */

/* Tokens and their hidden states on the way through the model. */
struct stream {
    struct chunks chunks;
    struct matrix hidden;
};

struct job {
    const struct quantize_request *request;
    const struct model *model;
    struct backend *backend;
    struct stream calibration, fp;
    bool fp_ready;          /* fp.hidden came from a baseline, or is lent: it has passed all blocks already */
    struct matrix q_hidden; /* the evaluation tokens again, on quantized weights */
    struct embed embed;
    struct matrix cosine, sine;
    struct walk walk;
    struct head head;
    struct loader *loader;
    struct sequential sequential;
    struct matrix output;              /* the quantized model's output matrix, where it has its own */
    int64_t end_bits, end_weights;     /* of embeddings and output, where they are quantized */
    double *losses_fp, *losses_q, *kl; /* [evaluation tokens] */
    uint8_t *agree;
};

void quantize_result_reset(struct quantize_result *result)
{
    evaluate_result_reset(&result->fp);
    evaluate_result_reset(&result->q);
    memory_free(result->layers);
    *result = (struct quantize_result){0};
}

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

static enum status calibration_prepare(struct job *job, struct error *error)
{
    const struct model_config *config = &job->model->config;
    const struct sequences *given = job->request->calibration;
    struct sequences ordered = {0};
    enum status status = STATUS_OK;
    if (given == NULL || given->count == 0) {
        const struct quantizer *quantizer = quantizer_by_id(job->request->method.quantizer);
        if (quantizer->needs != 0)
            return error_set_at(error, STATUS_INVALID, "/calibration", "%s needs calibration data; name a dataset",
                                quantizer->name);
        return STATUS_OK;
    }
    if ((status = calibration_order(given, config->maximum_positions, &ordered, error)) != STATUS_OK) goto done;
    if ((status = evaluate_check(config, &ordered, "calibration", error)) != STATUS_OK) goto done;
    status = chunks_init(&ordered, chunks_tokens(config->hidden_size), &job->calibration.chunks, error);
done:
    memory_free(ordered.tokens);
    memory_free(ordered.starts);
    return status;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Where the method says so: from here on the embeddings are the quantized model's. */
static enum status round_embedding(struct job *job, struct error *error)
{
    const struct matrix embedding = job->embed.weights.embedding;
    const int64_t bits = job->request->method.options.embedding_bits;
    int64_t stored = 0;
    if (bits == 0) return STATUS_OK;
    const enum status status = ends_round(job->backend, job->model->ends.embedding.name, embedding, bits, &stored, error);
    job->end_bits += stored;
    job->end_weights += embedding.rows * embedding.columns;
    return status;
}

/* Likewise the output matrix, beside the one of full precision. */
static enum status round_output(struct job *job, struct error *error)
{
    const struct matrix output = job->head.weights.output;
    const int64_t bits = job->request->method.options.lm_head_bits;
    int64_t stored = 0;
    void *data = NULL;
    enum status status;
    if (bits == 0) return STATUS_OK;
    status = job->backend->ops->allocate(job->backend, output.rows * output.columns, "output matrix", &data, error);
    if (status != STATUS_OK) return status;
    job->output = matrix_of(data, output.rows, output.columns, job->backend->ops->element);
    job->backend->ops->add(job->backend, job->output, output, 1, 0);
    if ((status = ends_round(job->backend, job->model->ends.output.name, job->output, bits, &stored, error)) != STATUS_OK)
        return status;
    job->head.other_output = job->output;
    job->end_bits += stored;
    job->end_weights += output.rows * output.columns;
    return STATUS_OK;
}

static enum status copy_stream(struct backend *backend, struct matrix from, struct matrix *to, struct error *error)
{
    void *data = NULL;
    const enum status status = backend->ops->allocate(backend, from.rows * from.columns, "hidden states", &data, error);
    if (status != STATUS_OK) return status;
    *to = matrix_of(data, from.rows, from.columns, backend->ops->element);
    backend->ops->add(backend, *to, from, 1, 0);
    return STATUS_OK;
}

static enum status start(struct job *job, struct error *error)
{
    const struct quantize_streams *from = job->request->start;
    const enum status status = copy_stream(job->backend, from->evaluation, &job->q_hidden, error);
    if (status != STATUS_OK || from->calibration.data == NULL) return status;
    return copy_stream(job->backend, from->calibration, &job->calibration.hidden, error);
}

/* Hidden states of all streams at the first block's input. */
static enum status embed(struct job *job, struct error *error)
{
    struct backend *backend = job->backend;
    const int64_t largest = larger(job->fp.chunks.largest, job->calibration.chunks.largest);
    enum status status;
    if ((status = embed_load(&job->embed, job->model, backend, largest, error)) != STATUS_OK) return status;
    if (!job->fp_ready) status = hidden_embed(&job->embed, &job->fp.chunks, &job->fp.hidden, error);
    if (status == STATUS_OK && !job->fp_ready && job->request->baseline != NULL)
        status = baseline_load(job->request->baseline, backend, job->fp.hidden, &job->fp_ready, error);
    if (status != STATUS_OK) return status;
    if ((status = round_embedding(job, error)) != STATUS_OK) return status;
    status = hidden_embed(&job->embed, &job->fp.chunks, &job->q_hidden, error);
    if (status != STATUS_OK) return status;
    if (job->calibration.chunks.count > 0) {
        status = hidden_embed(&job->embed, &job->calibration.chunks, &job->calibration.hidden, error);
        if (status != STATUS_OK) return status;
    }
    embed_reset(&job->embed); /* a tied one is read again at the end: while blocks pass, its room is theirs */
    return STATUS_OK;
}

/* Room for what is held between cuts: a run takes two blocks, hidden states, an embedding, and SLACK_BYTES at most; before this
 * comes what it cannot do without, a chunk's activations, and the Hessian, its factor and a copy of the largest stack of weights.
 */
static int64_t hold_bytes(const struct job *job)
{
    const struct model_config *config = &job->model->config;
    const int64_t element = (int64_t)job->backend->ops->element, inner = config->intermediate_size;
    const int64_t widest = larger(larger(inner, config->hidden_size), config->heads * config->head_dim);
    const int64_t solver = 2 * widest * widest + 3 * inner * config->hidden_size;
    const int64_t treated = quantize_method_treats_inputs(&job->request->method) ? 2 * job->walk.tokens * widest : 0;
    const int64_t needed = element * (solver + treated) + walk_bytes(config, job->backend, WALK_FORWARD, job->walk.tokens);
    const int64_t left = SLACK_BYTES + element * config->vocabulary_size * config->hidden_size - needed;
    return left > 0 ? left : 0;
}

static enum status sequential_prepare(struct job *job, struct error *error)
{
    const struct quantize_request *request = job->request;
    job->sequential = (struct sequential){
        .model = job->model,
        .backend = job->backend,
        .method = &request->method,
        .monitor = request->monitor,
        .hook = request->hook,
        .chunks = job->calibration.chunks.count > 0 ? &job->calibration.chunks : NULL,
        .hidden = job->calibration.hidden,
        .walk = &job->walk,
    };
    const enum status status =
        sequential_init(&job->sequential, request->hold_bytes > 0 ? request->hold_bytes : hold_bytes(job), error);
    if (status != STATUS_OK || request->start != NULL) return status; /* streams that have started have entered */
    sequential_enter(&job->sequential, job->q_hidden);
    if (job->sequential.chunks != NULL) sequential_enter(&job->sequential, job->calibration.hidden);
    return STATUS_OK;
}

static enum status prepare(struct job *job, struct error *error)
{
    const struct model_config *config = &job->model->config;
    struct backend *backend = job->backend;
    enum status status;
    if ((status = evaluate_check(config, job->request->evaluation, "evaluation", error)) != STATUS_OK) return status;
    if ((status = calibration_prepare(job, error)) != STATUS_OK) return status;
    if ((status = chunks_init(job->request->evaluation, chunks_tokens(config->hidden_size), &job->fp.chunks, error)) != STATUS_OK)
        return status;
    const struct chunks *evaluation = &job->fp.chunks, *calibration = &job->calibration.chunks;
    const int64_t tokens = evaluation->tokens, longest = larger(evaluation->longest, calibration->longest);
    if ((status = memory_new(tokens, sizeof(double), "token losses", &job->losses_fp, error)) != STATUS_OK ||
        (status = memory_new(tokens, sizeof(double), "token losses", &job->losses_q, error)) != STATUS_OK ||
        (status = memory_new(tokens, sizeof(double), "token divergences", &job->kl, error)) != STATUS_OK ||
        (status = memory_new(tokens, sizeof(uint8_t), "token agreement", &job->agree, error)) != STATUS_OK)
        return status;
    if ((status = backend->ops->prepare(backend, longest, config->vocabulary_size, error)) != STATUS_OK) return status;
    if ((status = model_rope_tables(config, backend, longest, &job->cosine, &job->sine, error)) != STATUS_OK) return status;
    job->fp_ready = job->request->fp_hidden.data != NULL;
    if (job->fp_ready) job->fp.hidden = job->request->fp_hidden;
    status = job->request->start != NULL ? start(job, error) : embed(job, error);
    if (status != STATUS_OK) return status;
    status = walk_init(&job->walk, config, backend, WALK_FORWARD, larger(evaluation->largest, calibration->largest), job->cosine,
                       job->sine, error);
    return status == STATUS_OK ? sequential_prepare(job, error) : status;
}

/* Evaluation tokens through a block. */
static enum status pass(struct job *job, const struct block *block, struct matrix hidden, struct error *error)
{
    for (int64_t i = 0; i < job->fp.chunks.count; i++) {
        const struct chunk *chunk = &job->fp.chunks.chunks[i];
        enum status status;
        walk_forward(&job->walk, block->program, &chunk->batch, block->parameters, hidden_rows(hidden, chunk));
        if ((status = monitor_check(job->request->monitor, error)) != STATUS_OK) return status;
    }
    return STATUS_OK;
}

/* Only a help to later runs: a full disk does not fail this one. */
static void baseline_keep(struct job *job)
{
    const struct quantize_request *request = job->request;
    struct error cause;
    if (request->baseline == NULL || job->fp_ready) return;
    if (baseline_save(request->baseline, job->backend, job->fp.hidden, &cause) != STATUS_OK)
        monitor_log(request->monitor, "the baseline is not kept for later runs: %s", cause.detail);
}

static enum status visit(const struct job *job, int64_t layer, struct error *error)
{
    const struct quantize_visitor *visitor = &job->request->visitor;
    const struct quantize_streams streams = {layer, job->calibration.hidden, job->q_hidden};
    return visitor->streams == NULL ? STATUS_OK : visitor->streams(visitor->owner, &streams, error);
}

static enum status blocks_walk(struct job *job, struct quantize_result *out, struct error *error)
{
    const int64_t layers = job->model->config.layers, first = job->request->start == NULL ? 0 : job->request->start->layer;
    const int64_t settled_from = job->request->settled_from > 0 ? job->request->settled_from : layers;
    enum status status;
    if ((status = loader_open_at(job->model, job->backend, first, &job->loader, error)) != STATUS_OK) return status;
    for (int64_t layer = first; layer < layers; layer++) {
        struct block *block = NULL;
        int64_t count = 0;
        if ((status = visit(job, layer, error)) != STATUS_OK) return status;
        if (layer == settled_from) job->sequential.chunks = NULL;
        if ((status = loader_next(job->loader, &block, error)) != STATUS_OK) return status;
        if (!job->fp_ready && (status = pass(job, block, job->fp.hidden, error)) != STATUS_OK) return status;
        status =
            sequential_block(&job->sequential, block, layer == settled_from - 1, out->layers + out->layer_count, &count, error);
        if (status != STATUS_OK) return status;
        out->layer_count += count;
        job->walk.product = sequential_product(&job->sequential);
        status = pass(job, block, job->q_hidden, error);
        job->walk.product = NULL;
        if (status != STATUS_OK) return status;
        monitor_progress(job->request->monitor, layer + 1 - first, layers + 1 - first, "block");
    }
    loader_close(job->loader);
    job->loader = NULL;
    baseline_keep(job);
    return visit(job, layers, error);
}

static enum status head_walk(struct job *job, struct error *error)
{
    const struct chunks *chunks = &job->fp.chunks;
    enum status status;
    sequential_leave(&job->sequential, job->q_hidden);
    /* what the blocks needed makes room for the output matrix and the logits */
    sequential_reset(&job->sequential);
    walk_reset(&job->walk);
    matrix_release(job->backend, &job->calibration.hidden);
    if ((status = head_load(&job->head, job->model, job->backend, (struct matrix){0}, HEAD_COMPARE, error)) != STATUS_OK)
        return status;
    if ((status = round_output(job, error)) != STATUS_OK) return status;
    for (int64_t i = 0; i < chunks->count; i++) {
        const struct chunk *chunk = &chunks->chunks[i];
        const int64_t first = chunk->first_token;
        head_compare(&job->head, hidden_rows(job->fp.hidden, chunk), hidden_rows(job->q_hidden, chunk), &chunk->batch,
                     job->losses_fp + first, job->losses_q + first, job->kl + first, job->agree + first);
        if ((status = monitor_check(job->request->monitor, error)) != STATUS_OK) return status;
    }
    return job->backend->ops->sync(job->backend, error);
}

static enum status summarise(const struct job *job, struct quantize_result *out, struct error *error)
{
    const struct chunks *chunks = &job->fp.chunks;
    double kl = 0;
    int64_t agreed = 0, bits = job->end_bits, weights = job->end_weights;
    enum status status;
    if ((status = evaluate_summarise(chunks, job->losses_fp, &out->fp, error)) != STATUS_OK) return status;
    if ((status = evaluate_summarise(chunks, job->losses_q, &out->q, error)) != STATUS_OK) return status;
    for (int64_t t = 0; t < chunks->tokens; t++) {
        kl += job->kl[t];
        agreed += job->agree[t];
    }
    for (int64_t i = 0; i < out->layer_count; i++) {
        bits += out->layers[i].bits;
        weights += out->layers[i].rows * out->layers[i].columns;
    }
    out->kl = kl / (double)chunks->predictions;
    out->top1_agreement = (double)agreed / (double)chunks->predictions;
    out->bits_per_weight = (double)bits / (double)weights;
    out->calibration_sequences = job->calibration.chunks.sequences;
    out->calibration_tokens = job->calibration.chunks.tokens;
    out->delta = out->q.loss / out->fp.loss - 1;
    return bootstrap_ratio(out->fp.sequence_losses, out->q.sequence_losses, out->fp.sequence_predictions, chunks->sequences,
                           out->delta, job->request->seed, &out->delta_low, &out->delta_high, error);
}

static enum status layers_new(const struct model *model, struct layer_summary **out, struct error *error)
{
    int64_t count = 0;
    for (int64_t layer = 0; layer < model->config.layers; layer++)
        for (int i = 0; i < model->programs[layer].parameter_count; i++) count += model->programs[layer].parameters[i].linear;
    return memory_new(count, sizeof **out, "layer results", out, error);
}

static void job_reset(struct job *job)
{
    loader_close(job->loader);
    if (job->head.backend != NULL) head_reset(&job->head);
    if (job->sequential.backend != NULL) sequential_reset(&job->sequential);
    if (job->walk.backend != NULL) walk_reset(&job->walk);
    embed_reset(&job->embed);
    if (job->request->fp_hidden.data == NULL) matrix_release(job->backend, &job->fp.hidden);
    matrix_release(job->backend, &job->q_hidden);
    matrix_release(job->backend, &job->calibration.hidden);
    matrix_release(job->backend, &job->output);
    matrix_release(job->backend, &job->cosine); /* sine lies in the same block */
    memory_free(job->losses_fp);
    memory_free(job->losses_q);
    memory_free(job->kl);
    memory_free(job->agree);
    chunks_reset(&job->fp.chunks);
    chunks_reset(&job->calibration.chunks);
}

enum status quantize_run(const struct quantize_request *request, struct quantize_result *out, struct error *error)
{
    struct job job = {.request = request, .model = request->model, .backend = request->backend};
    enum status status;
    *out = (struct quantize_result){0};
    if ((status = layers_new(request->model, &out->layers, error)) != STATUS_OK) goto done;
    if ((status = prepare(&job, error)) != STATUS_OK) goto done;
    if ((status = blocks_walk(&job, out, error)) != STATUS_OK) goto done;
    if ((status = head_walk(&job, error)) != STATUS_OK) goto done;
    if ((status = weights_check_unchanged(request->model->weights, error)) != STATUS_OK) goto done;
    if ((status = summarise(&job, out, error)) != STATUS_OK) goto done;
    monitor_progress(request->monitor, request->model->config.layers + 1, request->model->config.layers + 1, "block");
done:
    job_reset(&job);
    if (status != STATUS_OK) quantize_result_reset(out);
    return status;
}
