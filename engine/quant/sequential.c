#include "quant/sequential.h"

#include "base/memory.h"
#include "quant/cuts.h"
#include "quant/fold.h"

#include <stdio.h>
#include <string.h>

enum { SLAB = 256 }; /* rows of weights that are expanded at a time */

/* The method for experts that too few tokens visit. */
static enum status fallback_new(struct sequential *sequential, struct error *error)
{
    const struct quantizer *quantizer = quantizer_by_id(sequential->method->quantizer);
    sequential->cold = NULL;
    if (sequential->model->config.experts == 0 || quantizer->fallback == NULL) return STATUS_OK;
    sequential->fallback = *sequential->method;
    quantizer->fallback(&sequential->fallback);
    return overrides_new(&sequential->fallback, &sequential->cold, error);
}

enum status sequential_init(struct sequential *sequential, struct error *error)
{
    const struct model *model = sequential->model;
    struct backend *backend = sequential->backend;
    const struct quantize_options *options = &sequential->method->options;
    enum status status;
    sequential->cold = NULL;
    sequential->activations = (struct activations){0};
    sequential->rotation = (struct rotation){0};
    sequential->overrides = NULL;
    if (quantize_method_treats_inputs(sequential->method) &&
        (status = activations_init(&sequential->activations, backend, sequential->walk->tokens,
                                   sequential_scratch_widest(model), error)) != STATUS_OK)
        return status;
    if ((status = overrides_new(sequential->method, &sequential->overrides, error)) != STATUS_OK) return status;
    status = overrides_check(sequential->overrides, model->programs, model->config.layers, error);
    if (status != STATUS_OK) return status;
    if ((status = fallback_new(sequential, error)) != STATUS_OK) return status;
    if (options->rotation == ROTATION_NONE) return STATUS_OK;
    return rotation_init(&sequential->rotation, model, backend, (uint64_t)options->rotation_seed, error);
}

void sequential_reset(struct sequential *sequential)
{
    activations_reset(&sequential->activations);
    rotation_reset(&sequential->rotation);
    overrides_free(sequential->overrides);
    overrides_free(sequential->cold);
    sequential->cold = NULL;
    sequential->overrides = NULL;
}

/* Copies the live slots of a cut between the walk and the chunk's part of the held memory, where they are
 * consecutive. */
static void held_copy(const struct sequential *sequential, const struct cut *cut, const struct chunk *chunk, bool save)
{
    const struct backend *backend = sequential->backend;
    const size_t element = backend->ops->element;
    char *at =
        (char *)sequential->scratch->held + (size_t)(chunk->first_token * sequential->scratch->held_width) * element;
    for (int i = 0; i < cut->live_count; i++) {
        const struct matrix slot = sequential->walk->values[cut->live[i]];
        const struct matrix held = matrix_of(at, slot.rows, slot.columns, element);
        backend->ops->add(sequential->backend, save ? held : slot, save ? slot : held, 1, 0);
        at += (size_t)(slot.rows * slot.columns) * element;
    }
}

/* Restores a chunk to the state at the held cut (NULL: the block's start). `hidden` is lent; steps may change it
 * (hidden_return). */
static enum status chunk_begin(const struct sequential *sequential, const struct block *block,
                               const struct chunk *chunk, const struct cut *held, struct matrix *hidden,
                               struct error *error)
{
    const enum status status = hidden_lend(sequential->hidden, chunk, hidden, error);
    if (status != STATUS_OK) return status;
    walk_begin(sequential->walk, block->program, &chunk->batch, block->parameters, *hidden);
    if (held != NULL) held_copy(sequential, held, chunk, false);
    return STATUS_OK;
}

/* The linears of a cut that are quantized together: all of one input, or those of experts [first, first + count). */
struct experts {
    int64_t first, count;
};

static const struct step *routed_step(const struct block *block, const struct cut *cut)
{
    const struct step *step = &block->program->steps[cut->step];
    return step->op == &op_experts ? step : NULL;
}

/* The rows of the cut's input that linear (expert) number `i` reads. */
static struct matrix rows_read(const struct sequential *sequential, const struct block *block, const struct cut *cut,
                               int64_t i)
{
    const struct matrix *values = sequential->walk->values;
    const struct step *step = routed_step(block, cut);
    if (step == NULL) return values[block->program->steps[cut->step].input[0]];
    return experts_part(&sequential->walk->pass, step, values[step->input[0]], i);
}

/* Takes all calibration tokens from the held cut to `cut`, holds them there if the cut is to be held, and collects the
 * statistics of its input for the linears in `part`. `held` is `cut` itself if the tokens are there already. */
static enum status collect(struct sequential *sequential, const struct block *block, const struct cut *held,
                           const struct cut *cut, struct experts part, struct error *error)
{
    const struct chunks *chunks = sequential->chunks;
    const int from = held == NULL ? 0 : held->resume;
    const int parameter = block->program->steps[cut->step].parameter[0] + (int)part.first;
    const int64_t columns = block->parameters[parameter].columns;
    for (int64_t i = 0; i < part.count; i++) {
        statistics_aim(&sequential->scratch->collectors[i], quantizer_by_id(sequential->method->quantizer)->needs,
                       chunks->tokens);
        statistics_begin(&sequential->scratch->collectors[i], columns);
    }
    for (int64_t i = 0; i < chunks->count; i++) {
        const struct chunk *chunk = &chunks->chunks[i];
        struct matrix hidden;
        enum status status = chunk_begin(sequential, block, chunk, held, &hidden, error);
        if (status != STATUS_OK) return status;
        if (cut->held && held != cut) {
            walk_steps(sequential->walk, from, cut->resume);
            held_copy(sequential, cut, chunk, true);
        }
        walk_steps(sequential->walk, cut->held ? cut->resume : from, cut->step);
        for (int64_t k = 0; k < part.count; k++) {
            const struct matrix x = rows_read(sequential, block, cut, part.first + k);
            if (x.rows > 0)
                statistics_add(&sequential->scratch->collectors[k],
                               activations_input(&sequential->activations, parameter + (int)k, x));
        }
        if ((status = hidden_return(sequential->hidden, chunk, error)) != STATUS_OK) return status;
        if ((status = monitor_check(sequential->monitor, error)) != STATUS_OK) return status;
    }
    return STATUS_OK;
}

/* ---- Candidates judged by the block's outputs ---- */

struct judging {
    const struct sequential *sequential;
    const struct block *block;
    const struct cut *held;
    struct matrix hidden;  /* [largest chunk, d] a copy of the hidden states, because steps may change them */
    struct matrix outputs; /* [largest chunk, d] outputs with the original weights, to which candidates are compared */
};

/* The block's outputs of a chunk with its present weights. `from`: its hidden states, which are not changed. */
static struct matrix judged_outputs(const struct judging *judging, const struct chunk *chunk, struct matrix from)
{
    const struct sequential *sequential = judging->sequential;
    const struct program *program = judging->block->program;
    const struct matrix hidden = matrix_rows(judging->hidden, 0, from.rows);
    sequential->backend->ops->add(sequential->backend, hidden, from, 1, 0);
    walk_begin(sequential->walk, program, &chunk->batch, judging->block->parameters, hidden);
    if (judging->held != NULL) held_copy(sequential, judging->held, chunk, false);
    walk_steps(sequential->walk, judging->held == NULL ? 0 : judging->held->resume, program->step_count);
    return sequential->walk->values[program->output];
}

static enum status judge_chunk(const struct judging *judging, const struct chunk *chunk, struct matrix from,
                               const struct quantize_candidates *candidates, double *errors, struct error *error)
{
    struct backend *backend = judging->sequential->backend;
    const struct matrix outputs = matrix_rows(judging->outputs, 0, from.rows);
    enum status status = candidates->put(candidates->owner, -1, error);
    if (status != STATUS_OK) return status;
    backend->ops->add(backend, outputs, judged_outputs(judging, chunk, from), 1, 0);
    for (int64_t i = 0; i < candidates->count; i++) {
        if ((status = candidates->put(candidates->owner, i, error)) != STATUS_OK) return status;
        const struct matrix found = judged_outputs(judging, chunk, from);
        backend->ops->add(backend, found, outputs, -1, 1);
        errors[i] += backend->ops->dot(backend, found, found);
        if ((status = monitor_check(judging->sequential->monitor, error)) != STATUS_OK) return status;
    }
    return STATUS_OK;
}

static enum status judge_errors(void *owner, const struct quantize_candidates *candidates, double *errors,
                                struct error *error)
{
    struct judging *judging = owner;
    const struct chunks *chunks = judging->sequential->chunks;
    struct backend *backend = judging->sequential->backend;
    const int64_t width = judging->sequential->model->config.hidden_size;
    struct matrix *const matrices[] = {&judging->hidden, &judging->outputs};
    enum status status = STATUS_OK;
    for (int i = 0; i < 2 && status == STATUS_OK; i++) {
        *matrices[i] = matrix_of(NULL, chunks->largest, width, backend->ops->element);
        status =
            backend->ops->allocate(backend, chunks->largest * width, "outputs of a block", &matrices[i]->data, error);
    }
    for (int64_t i = 0; i < candidates->count; i++) errors[i] = 0;
    for (int64_t i = 0; i < chunks->count && status == STATUS_OK; i++) {
        struct matrix from;
        status = hidden_lend(judging->sequential->hidden, &chunks->chunks[i], &from, error);
        if (status == STATUS_OK) status = judge_chunk(judging, &chunks->chunks[i], from, candidates, errors, error);
    }
    for (int i = 0; i < 2; i++) matrix_release(backend, matrices[i]);
    return status;
}

static enum status finish(const struct sequential *sequential, const struct block *block, const struct cut *held,
                          struct error *error)
{
    const struct chunks *chunks = sequential->chunks;
    const struct program *program = block->program;
    for (int64_t i = 0; i < chunks->count; i++) {
        const struct chunk *chunk = &chunks->chunks[i];
        struct matrix hidden;
        enum status status = chunk_begin(sequential, block, chunk, held, &hidden, error);
        if (status != STATUS_OK) return status;
        walk_steps(sequential->walk, held == NULL ? 0 : held->resume, program->step_count);
        const struct matrix output = sequential->walk->values[program->output];
        if (output.data != hidden.data) sequential->backend->ops->add(sequential->backend, hidden, output, 1, 0);
        if ((status = hidden_return(sequential->hidden, chunk, error)) != STATUS_OK) return status;
        if ((status = monitor_check(sequential->monitor, error)) != STATUS_OK) return status;
    }
    return STATUS_OK;
}

static void summarise(const char *name, const struct quantized_layer *layer, int64_t tokens, struct layer_summary *out)
{
    static const char ending[] = ".weight";
    const size_t length = strlen(name), tail = sizeof ending - 1;
    const bool cut = length > tail && strcmp(name + length - tail, ending) == 0;
    *out = (struct layer_summary){
        .rows = layer->rows,
        .columns = layer->columns + layer->kept,
        .dead_columns = layer->dead_columns,
        .tokens = tokens,
        .bits = quantized_layer_bits(layer),
        .kept = layer->kept,
        .skipped = layer->skipped,
        .degraded = layer->degraded,
        .damp_increases = layer->damp_increases,
        .proxy_error = layer->proxy_error,
        .relative_error = layer->relative_error,
        .damp = layer->damp,
        .alpha = layer->alpha,
    };
    (void)snprintf(out->name, sizeof out->name, "%.*s", (int)(cut ? length - tail : length), name);
}

static bool rotates(const struct sequential *sequential)
{
    return sequential->rotation.backend != NULL;
}

static enum status turn(const struct sequential *sequential, const struct chunks *chunks, struct hidden *hidden,
                        bool back, struct error *error)
{
    enum status status = STATUS_OK;
    for (int64_t i = 0; rotates(sequential) && i < chunks->count && status == STATUS_OK; i++) {
        struct matrix rows;
        if ((status = hidden_lend(hidden, &chunks->chunks[i], &rows, error)) != STATUS_OK) return status;
        rotation_hidden(&sequential->rotation, rows, back);
        status = hidden_return(hidden, &chunks->chunks[i], error);
    }
    return status;
}

enum status sequential_enter(const struct sequential *sequential, const struct chunks *chunks, struct hidden *hidden,
                             struct error *error)
{
    return turn(sequential, chunks, hidden, false, error);
}

enum status sequential_leave(const struct sequential *sequential, const struct chunks *chunks, struct hidden *hidden,
                             struct error *error)
{
    return turn(sequential, chunks, hidden, true, error);
}

static void rotate(struct sequential *sequential, struct block *block)
{
    const struct rotation *rotation = &sequential->rotation;
    rotation_block(&sequential->rotation, block);
    for (int i = 0; i < block->program->parameter_count; i++)
        if (rotation->online_of[i] >= 0)
            activations_turn(&sequential->activations, i, &rotation->online[rotation->online_of[i]]);
}

const struct linear_product *sequential_product(const struct sequential *sequential)
{
    return sequential->activations.backend == NULL ? NULL : &sequential->activations.product;
}

/* The numbers of a layer's columns among all columns, with `elsewhere` for the kept ones. */
static void spread(const struct quantized_layer *layer, const float *from, float elsewhere, float *to)
{
    for (int64_t c = 0, k = 0; c < layer->columns + layer->kept; c++) {
        const bool kept = k < layer->kept && layer->kept_columns[k] == c;
        to[c] = kept ? elsewhere : from[c - k];
        k += kept;
    }
}

/* Expands LLM.int8's original weights to their full width, in memory of the backend, some rows at a time; kept columns
 * are never outliers. */
static enum status spread_original(struct backend *backend, const struct quantized_layer *layer, struct matrix *out,
                                   struct error *error)
{
    const int64_t columns = layer->columns + layer->kept, slab = layer->rows < SLAB ? layer->rows : SLAB;
    float *wide = NULL;
    enum status status;
    *out = matrix_of(NULL, layer->rows, columns, backend->ops->element);
    if (layer->original == NULL) return STATUS_OK;
    if ((status = memory_new(slab * columns, sizeof *wide, "original weights", &wide, error)) != STATUS_OK)
        return status;
    status = backend->ops->allocate(backend, layer->rows * columns, "original weights", &out->data, error);
    for (int64_t first = 0; first < layer->rows && status == STATUS_OK; first += slab) {
        const int64_t count = layer->rows - first < slab ? layer->rows - first : slab;
        for (int64_t r = 0; r < count; r++)
            spread(layer, layer->original + (first + r) * layer->columns, 0, wide + r * columns);
        backend->ops->upload(backend, matrix_rows(*out, first, count), wide, DTYPE_F32);
    }
    memory_free(wide);
    return status;
}

struct activation sequential_treatment(const struct quantized_layer *layer, float *smoothing, bool *spared)
{
    struct activation treatment = {
        .bits = layer->input_bits,
        .threshold = layer->input_threshold,
        .exact = layer->original != NULL,
    };
    for (int64_t c = 0; c < layer->columns + layer->kept; c++) spared[c] = false;
    for (int64_t k = 0; k < layer->kept; k++) spared[layer->kept_columns[k]] = true;
    if (layer->kept > 0) treatment.spared = spared;
    if (layer->column_scales != NULL) {
        spread(layer, layer->column_scales, 1, smoothing);
        treatment.smoothing = smoothing;
    }
    return treatment;
}

/* Sets the treatment of the layer's inputs for later passes, as the quantized model has it. */
static enum status treat_inputs(struct sequential *sequential, int parameter, const struct quantized_layer *layer,
                                struct error *error)
{
    const int64_t columns = layer->columns + layer->kept;
    struct activation treatment;
    struct matrix original = {0};
    float *smoothing = NULL;
    bool *spared = NULL;
    enum status status = STATUS_OK;
    if (sequential_product(sequential) == NULL) return STATUS_OK;
    if ((status = memory_new(columns, sizeof *smoothing, "activations", &smoothing, error)) != STATUS_OK) goto done;
    if ((status = memory_new(columns, sizeof *spared, "activations", &spared, error)) != STATUS_OK) goto done;
    treatment = sequential_treatment(layer, smoothing, spared);
    if (treatment.bits == 0) goto done;
    if ((status = spread_original(sequential->backend, layer, &original, error)) != STATUS_OK) goto done;
    status = activations_set(&sequential->activations, parameter, &treatment, columns, original, error);
done:
    memory_free(smoothing);
    memory_free(spared);
    return status;
}

/* Whether the fallback applies: an expert's linears that too few tokens have reached. */
static bool is_cold(const struct sequential *sequential, int64_t tokens)
{
    return sequential->cold != NULL && sequential->chunks != NULL &&
           tokens * SEQUENTIAL_LEAST_SHARE < sequential->chunks->tokens;
}

/* Whether what stands before the linears of a cut can be divided by their column scales. Nothing can where the inputs
 * are rotated on the way, or where a skipped linear reads them too. */
static bool folds(const struct sequential *sequential, const struct block *block, const struct cut *cut, int64_t expert,
                  const struct quantized_layer *layers)
{
    const enum fold fold = fold_of(block->program, cut);
    if (fold != FOLD_NORM && fold != FOLD_ROWS) return false;
    for (int i = 0; i < cut->count; i++) {
        const int parameter = block->program->steps[cut->step + i].parameter[0] + (int)expert;
        if (layers[i].skipped || (rotates(sequential) && sequential->rotation.online_of[parameter] >= 0)) return false;
    }
    return true;
}

static enum status quantize_subset(struct sequential *sequential, const struct block *block, const struct cut *cut,
                                   const struct cut *held, int64_t expert, const struct statistics *inputs,
                                   int64_t tokens, struct layer_summary *summaries, struct error *error)
{
    struct quantize_linear linears[PROGRAM_STEPS];
    struct quantized_layer layers[PROGRAM_STEPS] = {0};
    struct judging judging = {.sequential = sequential, .block = block, .held = held};
    const struct quantize_judge judge = {&judging, judge_errors};
    const struct quantize_task task = {.linears = linears,
                                       .count = cut->count,
                                       .inputs = *inputs,
                                       .shared_values = fold_of(block->program, cut) == FOLD_SHARED,
                                       .half_scales = sequential->half_scales,
                                       .judge = sequential->chunks != NULL ? &judge : NULL};
    for (int i = 0; i < cut->count; i++) {
        const int number = block->program->steps[cut->step + i].parameter[0] + (int)expert;
        linears[i] = (struct quantize_linear){block->program->parameters[number].name, block->parameters[number]};
    }
    const bool cold = is_cold(sequential, tokens);
    enum status status =
        subset_quantize(sequential->backend, cold ? sequential->cold : sequential->overrides, &task, layers, error);
    const bool folded = status == STATUS_OK && folds(sequential, block, cut, expert, layers);
    for (int i = 0; i < cut->count && status == STATUS_OK; i++) {
        layers[i].folded = folded;
        summarise(linears[i].name, &layers[i], tokens, &summaries[i]);
        if (cold && !layers[i].skipped) summaries[i].degraded = DEGRADED_COLD;
        if (sequential->hook.layer != NULL)
            status =
                sequential->hook.layer(sequential->hook.owner, summaries[i].name, &layers[i], linears[i].weight, error);
        const int parameter = block->program->steps[cut->step + i].parameter[0] + (int)expert;
        if (status == STATUS_OK) status = treat_inputs(sequential, parameter, &layers[i], error);
    }
    for (int i = 0; i < cut->count; i++) quantized_layer_reset(&layers[i]);
    return status;
}

enum status sequential_left_alone(const struct overrides *overrides, const struct program *program,
                                  const struct cut *cut, bool *out, struct error *error)
{
    *out = program->steps[cut->step].op != &op_experts;
    for (int i = 0; i < cut->count && *out; i++) {
        const int parameter = program->steps[cut->step + i].parameter[0];
        struct quantize_method method;
        int64_t index;
        const enum status status = overrides_find(overrides, program->parameters[parameter].name, &index, error);
        if (status != STATUS_OK) return status;
        *out = overrides_apply(overrides, index, &method);
    }
    return STATUS_OK;
}

static enum status cut_run(struct sequential *sequential, const struct block *block, const struct cut *cut,
                           const struct cut **held, struct layer_summary *summaries, int64_t *count,
                           struct error *error)
{
    const struct step *routed = routed_step(block, cut);
    const int64_t linears = routed == NULL ? 1 : routed->attributes.experts.count;
    const int64_t together = sequential->chunks == NULL ? linears : sequential->scratch->collector_count;
    bool idle = false;
    enum status status;
    if ((status = sequential_left_alone(sequential->overrides, block->program, cut, &idle, error)) != STATUS_OK)
        return status;
    for (int64_t first = 0; first < linears; first += together) {
        const struct experts part = {first, linears - first < together ? linears - first : together};
        if (sequential->chunks != NULL && !idle) {
            if ((status = collect(sequential, block, *held, cut, part, error)) != STATUS_OK) return status;
            if (cut->held) *held = cut;
        }
        for (int64_t k = 0; k < part.count; k++) {
            const struct statistics none = {0};
            struct statistics_collector *collector =
                sequential->chunks == NULL || idle ? NULL : &sequential->scratch->collectors[k];
            const struct statistics *inputs = collector == NULL ? &none : statistics_finish(collector);
            const int64_t tokens = collector != NULL            ? collector->seen
                                   : sequential->chunks == NULL ? 0
                                                                : sequential->chunks->tokens;
            status =
                quantize_subset(sequential, block, cut, *held, first + k, inputs, tokens, summaries + *count, error);
            if (status != STATUS_OK) return status;
            *count += cut->count;
            if ((status = monitor_check(sequential->monitor, error)) != STATUS_OK) return status;
        }
    }
    return STATUS_OK;
}

static enum status block_run(struct sequential *sequential, const struct block *block, bool last,
                             struct layer_summary *summaries, int64_t *count, struct error *error)
{
    struct cuts cuts;
    const struct cut *held = NULL;
    enum status status;
    *count = 0;
    cuts_plan(block->program, sequential->chunks == NULL ? 0 : sequential->scratch->budget_width, &cuts);
    for (int i = 0; i < cuts.count; i++) {
        if ((status = cut_run(sequential, block, &cuts.cuts[i], &held, summaries, count, error)) != STATUS_OK)
            return status;
    }
    return last || sequential->chunks == NULL ? STATUS_OK : finish(sequential, block, held, error);
}

enum status sequential_block(struct sequential *sequential, struct block *block, bool last,
                             struct layer_summary *summaries, int64_t *count, struct error *error)
{
    sequential_forget(sequential);
    if (rotates(sequential)) rotate(sequential, block);
    sequential->walk->product = sequential_product(sequential);
    const enum status status = block_run(sequential, block, last, summaries, count, error);
    sequential->walk->product = NULL;
    return status;
}

void sequential_forget(struct sequential *sequential)
{
    if (sequential_product(sequential) != NULL) activations_clear(&sequential->activations);
}
