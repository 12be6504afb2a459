#include "curvature/hvp.h"

#include "base/memory.h"
#include "model/gradient.h"
#include "model/walk.h"

#include <assert.h>
#include <math.h>

struct hvp {
    const struct parameters *parameters;
    const struct chunks *chunks;
    const struct monitor *monitor;
    struct backend *backend;
    enum hvp_mode mode;
    struct vector_span *spans;
    struct symmetric_operator op;
    struct matrix cosine, sine;
    struct walk walk;
    struct embed embed;
    struct head head;
    void *own_values, *own_tangents; /* the memory that `walk` was born with */
    void **values;                   /* [chunks kept at once, layers] activations of each block; HVP_RECOMPUTE: none */
    void **tangents;                 /* [layers] */
    /* [layers + 1] of the current chunk: hidden states before each block, and after the last */
    struct matrix *inputs, *inputs_t;
    void **hidden, **hidden_t; /* [layers + 1] memory of these; where activations are kept the first alone */
    void *dhidden, *dhidden_t;
    bool *filled; /* [chunks] the values of this chunk are computed; HVP_KEEP_VALUES */
    double *losses;
};

/* One product of the operator. */
struct direction {
    struct parameters along, product;
};

int64_t hvp_bytes(const struct parameters_layout *layout, struct backend *backend, enum hvp_mode mode,
                  const struct chunks *chunks)
{
    const int64_t layers = layout->config.layers, width = parameters_slots_width(layout, true),
                  hidden = layout->config.hidden_size;
    const int64_t tokens = chunks->largest, once = walk_bytes(&layout->config, backend, WALK_TANGENT, tokens);
    const int64_t states = 2 * (mode == HVP_RECOMPUTE ? layers + 2 : 2) * hidden * tokens;
    const int64_t tangents = mode == HVP_RECOMPUTE ? 0 : (layers - 1) * (width + hidden) * tokens;
    const int64_t values =
        mode == HVP_RECOMPUTE ? 0 : layers * width * (mode == HVP_KEEP_CHUNK ? tokens : chunks->tokens);
    return once + (states + tangents + values) * (int64_t)backend->ops->element +
           chunks->tokens * (int64_t)sizeof(double);
}

static int64_t kept_chunks(const struct hvp *hvp)
{
    return hvp->mode == HVP_RECOMPUTE ? 0 : hvp->mode == HVP_KEEP_CHUNK ? 1 : hvp->chunks->count;
}

static enum status elements_new(struct hvp *hvp, int64_t columns, int64_t tokens, void **out, struct error *error)
{
    return hvp->backend->ops->allocate(hvp->backend, columns * tokens, "activations", out, error);
}

/* The first chunk's last block and the last block's tangents use the walk's own memory. */
static enum status kept_new(struct hvp *hvp, struct error *error)
{
    const struct parameters_layout *layout = hvp->parameters->layout;
    const int64_t layers = layout->config.layers, width = parameters_slots_width(layout, true);
    enum status status;
    if (hvp->mode == HVP_RECOMPUTE) return STATUS_OK;
    for (int64_t i = 0; i < kept_chunks(hvp) * layers; i++) {
        const int64_t chunk = i / layers;
        const int64_t tokens =
            hvp->mode == HVP_KEEP_CHUNK ? hvp->chunks->largest : hvp->chunks->chunks[chunk].batch.tokens;
        if (i == layers - 1) continue;
        if ((status = elements_new(hvp, width, tokens, &hvp->values[i], error)) != STATUS_OK) return status;
    }
    for (int64_t layer = 0; layer + 1 < layers; layer++) {
        status =
            elements_new(hvp, width + layout->config.hidden_size, hvp->chunks->largest, &hvp->tangents[layer], error);
        if (status != STATUS_OK) return status;
    }
    hvp->values[layers - 1] = hvp->own_values;
    hvp->tangents[layers - 1] = hvp->own_tangents;
    return STATUS_OK;
}

static enum status states_new(struct hvp *hvp, struct error *error)
{
    const struct model_config *config = &hvp->parameters->layout->config;
    const int64_t count = hvp->mode == HVP_RECOMPUTE ? config->layers + 1 : 1, tokens = hvp->chunks->largest;
    enum status status;
    for (int64_t i = 0; i < count; i++) {
        if ((status = elements_new(hvp, config->hidden_size, tokens, &hvp->hidden[i], error)) != STATUS_OK)
            return status;
        if ((status = elements_new(hvp, config->hidden_size, tokens, &hvp->hidden_t[i], error)) != STATUS_OK)
            return status;
    }
    if ((status = elements_new(hvp, config->hidden_size, tokens, &hvp->dhidden, error)) != STATUS_OK) return status;
    return elements_new(hvp, config->hidden_size, tokens, &hvp->dhidden_t, error);
}

static enum status lists_new(struct hvp *hvp, struct error *error)
{
    const int64_t layers = hvp->parameters->layout->config.layers, chunks = hvp->chunks->count;
    const int64_t tensors = hvp->parameters->layout->tensor_count;
    const struct {
        int64_t count;
        size_t size;
        void *out;
    } lists[] = {
        {kept_chunks(hvp) * layers, sizeof(void *), &hvp->values},
        {layers, sizeof(void *), &hvp->tangents},
        {layers + 1, sizeof(void *), &hvp->hidden},
        {layers + 1, sizeof(void *), &hvp->hidden_t},
        {layers + 1, sizeof(struct matrix), &hvp->inputs},
        {layers + 1, sizeof(struct matrix), &hvp->inputs_t},
        {chunks, sizeof(bool), &hvp->filled},
        {hvp->chunks->tokens, sizeof(double), &hvp->losses},
        {tensors, sizeof(struct vector_span), &hvp->spans},
    };
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        const enum status status = memory_new(lists[i].count, lists[i].size, "activations", lists[i].out, error);
        if (status != STATUS_OK) return status;
    }
    return STATUS_OK;
}

static enum status hvp_init(struct hvp *hvp, struct error *error)
{
    const struct model_config *config = &hvp->parameters->layout->config;
    const struct embed_weights first = parameters_embed(hvp->parameters);
    const struct head_weights last = parameters_head(hvp->parameters);
    struct backend *backend = hvp->backend;
    const struct chunks *chunks = hvp->chunks;
    enum status status;
    if ((status = lists_new(hvp, error)) != STATUS_OK) return status;
    if ((status = backend->ops->prepare(backend, chunks->longest, config->vocabulary_size, error)) != STATUS_OK)
        return status;
    if ((status = model_rope_tables(config, backend, chunks->longest, &hvp->cosine, &hvp->sine, error)) != STATUS_OK)
        return status;
    if ((status = embed_init(&hvp->embed, config, backend, &first, chunks->largest, error)) != STATUS_OK) return status;
    if ((status = head_init(&hvp->head, config, backend, &last, HEAD_TANGENT, error)) != STATUS_OK) return status;
    status = walk_init(&hvp->walk, config, backend, WALK_TANGENT, chunks->largest, hvp->cosine, hvp->sine, error);
    if (status != STATUS_OK) return status;
    hvp->own_values = hvp->walk.memory[WALK_VALUES];
    hvp->own_tangents = hvp->walk.memory[WALK_VALUE_TANGENTS];
    if ((status = kept_new(hvp, error)) != STATUS_OK) return status;
    return states_new(hvp, error);
}

static enum status apply(void *owner, struct matrix v, struct matrix out, struct error *error);

static void space_fill(struct hvp *hvp)
{
    const struct parameters_layout *layout = hvp->parameters->layout;
    for (int64_t i = 0; i < layout->tensor_count; i++) {
        const struct parameters_tensor *tensor = &layout->tensors[i];
        /* constants keep their place in the list (groups go by it), but have no direction */
        const int64_t count = tensor->parameter.constant ? 0 : tensor->parameter.rows * tensor->parameter.columns;
        hvp->spans[i] = (struct vector_span){tensor->offset, count};
    }
    hvp->op = (struct symmetric_operator){
        .space = {hvp->backend, layout->elements, layout->numbers, layout->tensor_count, hvp->spans},
        .owner = hvp,
        .apply = apply};
}

enum status hvp_new(const struct parameters *parameters, const struct chunks *chunks, enum hvp_mode mode,
                    const struct monitor *monitor, struct hvp **out, struct error *error)
{
    struct hvp *hvp = NULL;
    enum status status;
    *out = NULL;
    if ((status = memory_new(1, sizeof *hvp, "Hessian-vector products", &hvp, error)) != STATUS_OK) return status;
    *hvp = (struct hvp){
        .parameters = parameters, .chunks = chunks, .monitor = monitor, .backend = parameters->backend, .mode = mode};
    if ((status = hvp_init(hvp, error)) != STATUS_OK) {
        hvp_free(hvp);
        return status;
    }
    space_fill(hvp);
    *out = hvp;
    return STATUS_OK;
}

static void release(struct hvp *hvp, void *block)
{
    if (block != NULL && block != hvp->own_values && block != hvp->own_tangents)
        hvp->backend->ops->release(hvp->backend, block);
}

void hvp_free(struct hvp *hvp)
{
    if (hvp == NULL) return;
    const int64_t layers = hvp->parameters->layout->config.layers;
    for (int64_t i = 0; hvp->values != NULL && i < kept_chunks(hvp) * layers; i++) release(hvp, hvp->values[i]);
    for (int64_t i = 0; hvp->tangents != NULL && i < layers; i++) release(hvp, hvp->tangents[i]);
    for (int64_t i = 0; hvp->hidden != NULL && i <= layers; i++) release(hvp, hvp->hidden[i]);
    for (int64_t i = 0; hvp->hidden_t != NULL && i <= layers; i++) release(hvp, hvp->hidden_t[i]);
    release(hvp, hvp->dhidden);
    release(hvp, hvp->dhidden_t);
    hvp->walk.memory[WALK_VALUES] = hvp->own_values;
    hvp->walk.memory[WALK_VALUE_TANGENTS] = hvp->own_tangents;
    if (hvp->walk.backend != NULL) walk_reset(&hvp->walk);
    embed_reset(&hvp->embed);
    if (hvp->head.backend != NULL) head_reset(&hvp->head);
    matrix_release(hvp->backend, &hvp->cosine); /* the sines lie in the same block */
    void *lists[] = {hvp->values,   hvp->tangents, hvp->hidden, hvp->hidden_t, hvp->inputs,
                     hvp->inputs_t, hvp->filled,   hvp->losses, hvp->spans};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) memory_free(lists[i]);
    memory_free(hvp);
}

const struct symmetric_operator *hvp_operator(const struct hvp *hvp)
{
    return &hvp->op;
}

static struct matrix states(const struct hvp *hvp, void *data, const struct batch *batch)
{
    return matrix_of(data, batch->tokens, hvp->parameters->layout->config.hidden_size, hvp->backend->ops->element);
}

static void embed(struct hvp *hvp, const struct direction *direction, const struct batch *batch)
{
    const struct embed_weights along = parameters_embed(&direction->along);
    hvp->inputs[0] = states(hvp, hvp->hidden[0], batch);
    hvp->inputs_t[0] = states(hvp, hvp->hidden_t[0], batch);
    embed_forward(&hvp->embed, batch, hvp->inputs[0]);
    embed_tangent(&hvp->embed, batch, &along, hvp->inputs_t[0]);
}

/* Lays block `layer` out over the memory that keeps its activations of chunk `number`. block and block_t get its
 * parameters and their directions and are lent to the walk. */
static void block_begin(struct hvp *hvp, const struct direction *direction, int64_t number, int64_t layer,
                        struct matrix *block, struct matrix *block_t)
{
    const struct parameters_layout *layout = hvp->parameters->layout;
    if (hvp->mode != HVP_RECOMPUTE) {
        const int64_t kept = hvp->mode == HVP_KEEP_CHUNK ? 0 : number;
        hvp->walk.memory[WALK_VALUES] = hvp->values[kept * layout->config.layers + layer];
        hvp->walk.memory[WALK_VALUE_TANGENTS] = hvp->tangents[layer];
    }
    parameters_block(hvp->parameters, layer, block);
    parameters_block(&direction->along, layer, block_t);
    walk_tangent_begin(&hvp->walk, &layout->programs[layer], &hvp->chunks->chunks[number].batch, block, block_t,
                       hvp->inputs[layer], hvp->inputs_t[layer]);
}

static enum status forward(struct hvp *hvp, const struct direction *direction, int64_t number, struct error *error)
{
    const struct parameters_layout *layout = hvp->parameters->layout;
    const struct batch *batch = &hvp->chunks->chunks[number].batch;
    struct backend *backend = hvp->backend;
    struct matrix block[PROGRAM_PARAMETERS], block_t[PROGRAM_PARAMETERS];
    embed(hvp, direction, batch);
    for (int64_t layer = 0; layer < layout->config.layers; layer++) {
        const int output = layout->programs[layer].output;
        const enum status status = monitor_check(hvp->monitor, error);
        if (status != STATUS_OK) return status;
        block_begin(hvp, direction, number, layer, block, block_t);
        walk_tangent_steps(&hvp->walk, !hvp->filled[number]);
        struct matrix *next = &hvp->inputs[layer + 1], *next_t = &hvp->inputs_t[layer + 1];
        *next = hvp->walk.values[output];
        *next_t = hvp->walk.value_tangents[output];
        if (hvp->mode != HVP_RECOMPUTE) continue;
        *next = states(hvp, hvp->hidden[layer + 1], batch);
        *next_t = states(hvp, hvp->hidden_t[layer + 1], batch);
        backend->ops->add(backend, *next, hvp->walk.values[output], 1, 0);
        backend->ops->add(backend, *next_t, hvp->walk.value_tangents[output], 1, 0);
    }
    hvp->filled[number] = hvp->mode == HVP_KEEP_VALUES;
    return STATUS_OK;
}

static enum status chunk_add(struct hvp *hvp, const struct direction *direction, int64_t number, struct error *error)
{
    const struct parameters_layout *layout = hvp->parameters->layout;
    const struct chunk *chunk = &hvp->chunks->chunks[number];
    const int64_t layers = layout->config.layers;
    const struct head_weights along = parameters_head(&direction->along), into = parameters_head(&direction->product);
    const struct embed_weights embed_along = parameters_embed(&direction->along),
                               embed_into = parameters_embed(&direction->product);
    const struct matrix dhidden = states(hvp, hvp->dhidden, &chunk->batch);
    const struct matrix dhidden_t = states(hvp, hvp->dhidden_t, &chunk->batch);
    struct matrix block[PROGRAM_PARAMETERS], block_t[PROGRAM_PARAMETERS], product[PROGRAM_PARAMETERS];
    enum status status;
    if ((status = forward(hvp, direction, number, error)) != STATUS_OK) return status;
    head_backward_tangent(&hvp->head, hvp->inputs[layers], hvp->inputs_t[layers], &chunk->batch,
                          1 / (double)hvp->chunks->predictions, &along, hvp->losses + chunk->first_token, dhidden,
                          dhidden_t, &into);
    for (int64_t layer = layers - 1; layer >= 0; layer--) {
        if ((status = monitor_check(hvp->monitor, error)) != STATUS_OK) return status;
        block_begin(hvp, direction, number, layer, block, block_t);
        if (hvp->mode == HVP_RECOMPUTE) walk_tangent_steps(&hvp->walk, true);
        parameters_block(&direction->product, layer, product);
        walk_backward_tangent(&hvp->walk, dhidden, dhidden_t, product);
    }
    embed_backward_tangent(&hvp->embed, &chunk->batch, &embed_along, dhidden, dhidden_t, &embed_into);
    return STATUS_OK;
}

static enum status apply(void *owner, struct matrix v, struct matrix out, struct error *error)
{
    struct hvp *hvp = owner;
    const struct parameters_layout *layout = hvp->parameters->layout;
    const struct direction direction = {{layout, hvp->backend, v.data}, {layout, hvp->backend, out.data}};
    hvp->backend->ops->fill(hvp->backend, out, 0);
    for (int64_t i = 0; i < hvp->chunks->count; i++) {
        const enum status status = chunk_add(hvp, &direction, i, error);
        if (status != STATUS_OK) return status;
    }
    return hvp->backend->ops->sync(hvp->backend, error);
}

static enum status gradient_sum(struct hvp *hvp, struct gradient *gradient, struct matrix out, double *loss,
                                struct error *error)
{
    struct parameters into = {hvp->parameters->layout, hvp->backend, out.data};
    hvp->backend->ops->fill(hvp->backend, out, 0);
    const enum status status = gradient_over(gradient, hvp->chunks, hvp->monitor, &into, hvp->losses, loss, error);
    if (status != STATUS_OK) return status;
    if (!isfinite(*loss))
        return error_set(error, STATUS_NOT_FINITE,
                         "the loss is %s: a checkpoint whose outputs overflow or are not numbers has no curvature",
                         isnan(*loss) ? "not a number" : "infinite");
    if (!hvp->backend->ops->finite(hvp->backend, out))
        return error_set(error, STATUS_NOT_FINITE,
                         "the gradient is not finite although the loss is %g: float arithmetic overflows", *loss);
    return hvp->backend->ops->sync(hvp->backend, error);
}

enum status hvp_gradient(struct hvp *hvp, struct matrix out, double *loss, struct error *error)
{
    struct gradient *gradient = NULL;
    enum status status =
        gradient_new(hvp->parameters, GRADIENT_RECOMPUTE, hvp->chunks->largest, hvp->chunks->longest, &gradient, error);
    if (status != STATUS_OK) return status;
    status = gradient_sum(hvp, gradient, out, loss, error);
    gradient_free(gradient);
    return status;
}
