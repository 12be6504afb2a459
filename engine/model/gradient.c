#include "model/gradient.h"

#include "base/memory.h"
#include "model/walk.h"

#include <assert.h>

struct gradient {
    const struct parameters *parameters;
    struct backend *backend;
    enum gradient_mode mode;
    int64_t tokens;
    struct matrix cosine, sine;
    struct embed embed;
    struct head head;
    struct walk backward; /* GRADIENT_KEEP: its values lie in activations[layer], one layer's at a time */
    struct walk forward;  /* losses alone, and the forward pass of GRADIENT_RECOMPUTE */
    void *own_values;     /* the memory that walk_init gave to `backward` */
    void **activations;   /* [layers]; GRADIENT_KEEP; the last layer's is own_values */
    void **inputs; /* [layers + 1] hidden states before each block, [tokens, d]; GRADIENT_KEEP: the first alone */
    void *dhidden; /* [tokens, d] */
    void *rounded; /* a copy of all weights that products read; NULL: none */
};

int64_t gradient_bytes(const struct parameters_layout *layout, const struct backend *backend, enum gradient_mode mode,
                       int64_t tokens)
{
    const int64_t layers = layout->config.layers, width = layout->config.hidden_size,
                  kept = parameters_slots_width(layout, true);
    const int64_t once = kept + width /* gradients */ + parameters_slots_width(layout, false) + width /* dhidden */;
    const int64_t columns = mode == GRADIENT_KEEP ? once + layers * kept + width : once + kept + (layers + 1) * width;
    return columns * tokens * (int64_t)backend->ops->element;
}

/* The weights of products begin behind the tables that tokens and positions are looked up in, unless one of these is
 * the output matrix too. */
static int64_t first_weight(const struct parameters_layout *layout)
{
    const int64_t last = layout->positions >= 0 ? layout->positions : layout->embedding;
    return layout->config.tied ? 0 : layout->tensors[last + 1].offset;
}

int64_t gradient_round_bytes(const struct parameters_layout *layout, const struct backend *backend)
{
    const struct rounding_ops *rounding = backend->ops->rounding;
    return rounding == NULL ? 0 : rounding->bytes(backend, layout->elements - first_weight(layout));
}

enum status gradient_round(struct gradient *gradient, struct error *error)
{
    struct backend *backend = gradient->backend;
    const int64_t bytes = gradient_round_bytes(gradient->parameters->layout, backend);
    if (bytes == 0) return STATUS_OK;
    return backend->ops->allocate(backend, backend_elements(backend, bytes), "rounded weights", &gradient->rounded,
                                  error);
}

static void rounding_begin(const struct gradient *gradient)
{
    struct backend *backend = gradient->backend;
    const struct parameters_layout *layout = gradient->parameters->layout;
    const int64_t first = first_weight(layout);
    if (gradient->rounded == NULL) return;
    backend->ops->rounding->begin(backend,
                                  (const char *)gradient->parameters->data + (size_t)first * backend->ops->element,
                                  layout->elements - first, gradient->rounded);
}

static void rounding_end(const struct gradient *gradient)
{
    if (gradient->rounded != NULL) gradient->backend->ops->rounding->end(gradient->backend);
}

static enum status hidden_new(struct gradient *gradient, void **out, struct error *error)
{
    const int64_t width = gradient->parameters->layout->config.hidden_size;
    return gradient->backend->ops->allocate(gradient->backend, gradient->tokens * width, "hidden states", out, error);
}

static enum status activations_new(struct gradient *gradient, struct error *error)
{
    const struct parameters_layout *layout = gradient->parameters->layout;
    struct backend *backend = gradient->backend;
    const int64_t layers = layout->config.layers, width = parameters_slots_width(layout, true);
    const int64_t inputs = gradient->mode == GRADIENT_KEEP ? 1 : layers + 1;
    enum status status;
    if ((status = hidden_new(gradient, &gradient->dhidden, error)) != STATUS_OK) return status;
    for (int64_t i = 0; i < inputs; i++)
        if ((status = hidden_new(gradient, &gradient->inputs[i], error)) != STATUS_OK) return status;
    if (gradient->mode == GRADIENT_RECOMPUTE) return STATUS_OK;
    gradient->activations[layers - 1] = gradient->own_values;
    for (int64_t i = 0; i + 1 < layers; i++) {
        status =
            backend->ops->allocate(backend, width * gradient->tokens, "activations", &gradient->activations[i], error);
        if (status != STATUS_OK) return status;
    }
    return STATUS_OK;
}

static enum status gradient_init(struct gradient *gradient, int64_t longest, struct error *error)
{
    const struct parameters *parameters = gradient->parameters;
    const struct parameters_layout *layout = parameters->layout;
    const struct model_config *config = &layout->config;
    struct backend *backend = gradient->backend;
    const struct head_weights head = parameters_head(parameters);
    const struct embed_weights embed = parameters_embed(parameters);
    enum status status;
    if ((status = memory_new(config->layers, sizeof(void *), "activations", &gradient->activations, error)) !=
        STATUS_OK)
        return status;
    if ((status = memory_new(config->layers + 1, sizeof(void *), "activations", &gradient->inputs, error)) != STATUS_OK)
        return status;
    if ((status = backend->ops->prepare(backend, longest, config->vocabulary_size, error)) != STATUS_OK) return status;
    if ((status = model_rope_tables(config, backend, longest, &gradient->cosine, &gradient->sine, error)) != STATUS_OK)
        return status;
    if ((status = embed_init(&gradient->embed, config, backend, &embed, gradient->tokens, error)) != STATUS_OK)
        return status;
    if ((status = head_init(&gradient->head, config, backend, &head, HEAD_GRADIENT, error)) != STATUS_OK) return status;
    status = walk_init(&gradient->backward, config, backend, WALK_GRADIENT, gradient->tokens, gradient->cosine,
                       gradient->sine, error);
    if (status != STATUS_OK) return status;
    gradient->own_values = gradient->backward.memory[WALK_VALUES];
    status = walk_init(&gradient->forward, config, backend, WALK_FORWARD, gradient->tokens, gradient->cosine,
                       gradient->sine, error);
    if (status != STATUS_OK) return status;
    return activations_new(gradient, error);
}

enum status gradient_new(const struct parameters *parameters, enum gradient_mode mode, int64_t tokens, int64_t longest,
                         struct gradient **out, struct error *error)
{
    struct gradient *gradient = NULL;
    enum status status;
    *out = NULL;
    if ((status = memory_new(1, sizeof *gradient, "gradient", &gradient, error)) != STATUS_OK) return status;
    *gradient =
        (struct gradient){.parameters = parameters, .backend = parameters->backend, .mode = mode, .tokens = tokens};
    if ((status = gradient_init(gradient, longest, error)) != STATUS_OK) {
        gradient_free(gradient);
        return status;
    }
    *out = gradient;
    return STATUS_OK;
}

static void release(struct backend *backend, void *block)
{
    if (block != NULL) backend->ops->release(backend, block);
}

void gradient_free(struct gradient *gradient)
{
    if (gradient == NULL) return;
    struct backend *backend = gradient->backend;
    const int64_t layers = gradient->parameters->layout->config.layers;
    gradient->backward.memory[WALK_VALUES] = gradient->own_values;
    for (int64_t i = 0; gradient->activations != NULL && i + 1 < layers; i++)
        release(backend, gradient->activations[i]);
    for (int64_t i = 0; gradient->inputs != NULL && i <= layers; i++) release(backend, gradient->inputs[i]);
    release(backend, gradient->dhidden);
    release(backend, gradient->rounded);
    embed_reset(&gradient->embed);
    if (gradient->head.backend != NULL) head_reset(&gradient->head);
    walk_reset(&gradient->backward);
    walk_reset(&gradient->forward);
    release(backend, gradient->cosine.data);
    memory_free(gradient->activations);
    memory_free(gradient->inputs);
    memory_free(gradient);
}

static struct matrix hidden_view(const struct gradient *gradient, void *data, const struct batch *batch)
{
    return matrix_of(data, batch->tokens, gradient->parameters->layout->config.hidden_size,
                     gradient->backend->ops->element);
}

/* Writes the tokens' embeddings to inputs[0]. */
static struct matrix embedded(struct gradient *gradient, const struct batch *batch)
{
    const struct matrix hidden = hidden_view(gradient, gradient->inputs[0], batch);
    assert(batch->tokens <= gradient->tokens);
    embed_forward(&gradient->embed, batch, hidden);
    return hidden;
}

void gradient_losses(struct gradient *gradient, const struct batch *batch, double *losses)
{
    const struct parameters_layout *layout = gradient->parameters->layout;
    const struct matrix hidden = embedded(gradient, batch);
    struct matrix block[PROGRAM_PARAMETERS];
    rounding_begin(gradient);
    for (int64_t layer = 0; layer < layout->config.layers; layer++) {
        parameters_block(gradient->parameters, layer, block);
        walk_forward(&gradient->forward, &layout->programs[layer], batch, block, hidden);
    }
    head_losses(&gradient->head, hidden, batch, losses);
    rounding_end(gradient);
}

static void head_pass(struct gradient *gradient, const struct batch *batch, struct matrix hidden, double weight,
                      double *losses, const struct parameters *into)
{
    const struct head_weights gradients = parameters_head(into);
    head_backward(&gradient->head, hidden, batch, weight, losses, hidden_view(gradient, gradient->dhidden, batch),
                  &gradients);
}

/* Forward through block `layer`, leaving all its slots in `backward`. */
static struct matrix block_keep(struct gradient *gradient, const struct batch *batch, int64_t layer,
                                struct matrix *block, struct matrix hidden)
{
    const struct program *program = &gradient->parameters->layout->programs[layer];
    parameters_block(gradient->parameters, layer, block);
    walk_forward(&gradient->backward, program, batch, block, hidden);
    return gradient->backward.values[program->output];
}

static void block_back(struct gradient *gradient, const struct batch *batch, int64_t layer,
                       const struct parameters *into)
{
    struct matrix dblock[PROGRAM_PARAMETERS];
    parameters_block(into, layer, dblock);
    walk_backward(&gradient->backward, hidden_view(gradient, gradient->dhidden, batch), dblock);
}

static void add_keeping(struct gradient *gradient, const struct batch *batch, double weight, double *losses,
                        const struct parameters *into)
{
    const struct parameters_layout *layout = gradient->parameters->layout;
    const int64_t layers = layout->config.layers;
    struct matrix block[PROGRAM_PARAMETERS], hidden = embedded(gradient, batch);
    for (int64_t layer = 0; layer < layers; layer++) {
        gradient->backward.memory[WALK_VALUES] = gradient->activations[layer];
        hidden = block_keep(gradient, batch, layer, block, hidden);
    }
    head_pass(gradient, batch, hidden, weight, losses, into);
    for (int64_t layer = layers - 1; layer >= 0; layer--) {
        /* a block's input is the output of the block before, in place */
        struct matrix input = hidden_view(gradient, gradient->inputs[0], batch);
        if (layer > 0) {
            gradient->backward.memory[WALK_VALUES] = gradient->activations[layer - 1];
            walk_begin(&gradient->backward, &layout->programs[layer - 1], batch, block, input);
            input = gradient->backward.values[layout->programs[layer - 1].output];
        }
        gradient->backward.memory[WALK_VALUES] = gradient->activations[layer];
        parameters_block(gradient->parameters, layer, block);
        walk_begin(&gradient->backward, &layout->programs[layer], batch, block, input);
        block_back(gradient, batch, layer, into);
    }
}

static void add_recomputing(struct gradient *gradient, const struct batch *batch, double weight, double *losses,
                            const struct parameters *into)
{
    const struct parameters_layout *layout = gradient->parameters->layout;
    const int64_t layers = layout->config.layers;
    struct backend *backend = gradient->backend;
    struct matrix block[PROGRAM_PARAMETERS], hidden = embedded(gradient, batch);
    for (int64_t layer = 0; layer < layers; layer++) {
        const struct matrix next = hidden_view(gradient, gradient->inputs[layer + 1], batch);
        backend->ops->add(backend, next, hidden, 1, 0);
        parameters_block(gradient->parameters, layer, block);
        walk_forward(&gradient->forward, &layout->programs[layer], batch, block, next);
        hidden = next;
    }
    head_pass(gradient, batch, hidden, weight, losses, into);
    for (int64_t layer = layers - 1; layer >= 0; layer--) {
        block_keep(gradient, batch, layer, block, hidden_view(gradient, gradient->inputs[layer], batch));
        block_back(gradient, batch, layer, into);
    }
}

void gradient_add(struct gradient *gradient, const struct batch *batch, double weight, double *losses,
                  struct parameters *into)
{
    const struct embed_weights gradients = parameters_embed(into);
    rounding_begin(gradient);
    if (gradient->mode == GRADIENT_KEEP)
        add_keeping(gradient, batch, weight, losses, into);
    else
        add_recomputing(gradient, batch, weight, losses, into);
    embed_backward(&gradient->embed, batch, hidden_view(gradient, gradient->dhidden, batch), &gradients);
    rounding_end(gradient);
}

enum status gradient_over(struct gradient *gradient, const struct chunks *chunks, const struct monitor *monitor,
                          struct parameters *into, double *losses, double *mean, struct error *error)
{
    struct backend *backend = gradient->backend;
    double sum = 0;
    enum status status;
    for (int64_t i = 0; i < chunks->count; i++) {
        const struct chunk *chunk = &chunks->chunks[i];
        if ((status = monitor_check(monitor, error)) != STATUS_OK) return status;
        if (into != NULL)
            gradient_add(gradient, &chunk->batch, 1 / (double)chunks->predictions, losses + chunk->first_token, into);
        else
            gradient_losses(gradient, &chunk->batch, losses + chunk->first_token);
    }
    if ((status = backend->ops->sync(backend, error)) != STATUS_OK) return status;
    for (int64_t t = 0; t < chunks->tokens; t++) sum += losses[t];
    *mean = sum / (double)chunks->predictions;
    return STATUS_OK;
}
