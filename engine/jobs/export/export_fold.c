#include "jobs/export/export_fold.h"

#include "base/memory.h"
#include "model/architecture.h"

#include <stdio.h>
#include <string.h>

enum { NONE = -1, MAKERS = 2 };

/* State of a tensor of the original. */
struct part {
    int64_t makers[MAKERS];       /* of a linear: the norm that makes its inputs, and the norm's bias */
    int64_t feeder, feeder_bias;  /* of a linear: the linear whose rows are its inputs */
    bool feeds, divided, noted;   /* its rows are a linear's inputs; norm or bias to divide; divisors are known */
    int64_t block;                /* of a divided tensor */
    float *divisors;              /* owned; NULL: 1 */
    struct quantized_layer *held; /* owned: a layer that waits for its divisors */
};

struct export_fold {
    const struct model *model;
    const bool *skipped; /* lent during export_fold_new */
    bool scaled_outputs; /* see export_fold_new */
    int64_t count;
    struct part *parts; /* [count] */
    int64_t written;    /* a layer that was held and is released by the next call */
};

static int64_t tensor_of(const struct model *model, int64_t layer, enum role role, const char *ending)
{
    const struct architecture *architecture = model->config.architecture;
    const char *template = architecture->names[role], *place = template == NULL ? NULL : strstr(template, "%d");
    const size_t prefix = model->config.bare_names && architecture->prefix != NULL ? strlen(architecture->prefix) : 0;
    char name[PARAMETER_NAME + 16];
    if (place == NULL) return NONE;
    (void)snprintf(name, sizeof name, "%.*s%lld%s%s", (int)(place - template), template, (long long)layer, place + 2,
                   ending);
    return weights_find(model->weights, name + prefix);
}

static enum status refuse(struct error *error, const char *detail)
{
    return error_set_at(error, STATUS_UNSUPPORTED, "/export", "%s", detail);
}

static void divide(struct export_fold *fold, int64_t tensor, int64_t layer)
{
    if (tensor < 0) return;
    fold->parts[tensor].divided = true;
    fold->parts[tensor].block = layer;
}

/* Linears of one input: either all of them are quantized or none. */
static enum status plan_set(struct export_fold *fold, int64_t layer, enum role norm, const enum role *roles, int count,
                            struct error *error)
{
    for (int i = 0; i < count; i++) {
        const int64_t tensor = tensor_of(fold->model, layer, roles[i], ".weight");
        if (tensor < 0)
            return error_set(error, STATUS_INTERNAL, "a linear of block %lld is not there", (long long)layer);
        if (fold->skipped[tensor] != fold->skipped[tensor_of(fold->model, layer, roles[0], ".weight")])
            return refuse(
                error,
                "awq's scales are divided out of the norm before linears of one input: skip all of them, or none");
        if (fold->skipped[tensor]) continue;
        static const char *const endings[MAKERS] = {".weight", ".bias"};
        for (int m = 0; m < MAKERS; m++) {
            const int64_t maker = fold->parts[tensor].makers[m] = tensor_of(fold->model, layer, norm, endings[m]);
            divide(fold, maker, layer);
        }
    }
    return STATUS_OK;
}

static enum status plan_pair(struct export_fold *fold, int64_t layer, enum role from, enum role to, struct error *error)
{
    const int64_t feeder = tensor_of(fold->model, layer, from, ".weight"),
                  fed = tensor_of(fold->model, layer, to, ".weight");
    if (feeder < 0 || fed < 0)
        return error_set(error, STATUS_INTERNAL, "a linear of block %lld is not there", (long long)layer);
    if (fold->skipped[fed]) return STATUS_OK;
    if (to == ROLE_ATTENTION_OUTPUT && fold->model->config.heads != fold->model->config.kv_heads) {
        if (!fold->scaled_outputs) return STATUS_OK;
        return refuse(error,
                      "awq's scales of the attention's output have no place where heads share their values: leave "
                      "scale_o_proj \"when_exportable\", or use \"dequantized\"");
    }
    if (fold->skipped[feeder])
        return refuse(error, "awq's scales are divided out of the linear before: skip both, or neither");
    struct part *part = &fold->parts[fed];
    part->feeder = feeder;
    part->feeder_bias = tensor_of(fold->model, layer, from, ".bias");
    fold->parts[feeder].feeds = true;
    divide(fold, part->feeder_bias, layer);
    return STATUS_OK;
}

static enum status plan(struct export_fold *fold, struct error *error)
{
    static const enum role attention[] = {ROLE_QUERY, ROLE_KEY, ROLE_VALUE}, mlp[] = {ROLE_GATE, ROLE_UP};
    const struct model_config *config = &fold->model->config;
    const struct architecture *architecture = config->architecture;
    enum status status;
    if (architecture->norm_placement != NORM_BEFORE || config->norm_after_sum || config->parallel_residual ||
        config->clip > 0 || architecture->names[ROLE_QUERY] == NULL || architecture->names[ROLE_GATE] == NULL ||
        architecture->names[ROLE_ROUTER] != NULL)
        return error_set_at(
            error, STATUS_UNSUPPORTED, "/export",
            "awq's scales cannot be divided out of what stands before the linears of %s: use \"dequantized\"",
            architecture->model_type);
    for (int64_t layer = 0; layer < config->layers; layer++) {
        if ((status = plan_set(fold, layer, ROLE_ATTENTION_NORM, attention, 3, error)) != STATUS_OK ||
            (status = plan_set(fold, layer, ROLE_MLP_NORM, mlp, 2, error)) != STATUS_OK ||
            (status = plan_pair(fold, layer, ROLE_VALUE, ROLE_ATTENTION_OUTPUT, error)) != STATUS_OK ||
            (status = plan_pair(fold, layer, ROLE_UP, ROLE_DOWN, error)) != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

enum status export_fold_new(const struct model *model, const bool *skipped, bool scaled_outputs,
                            struct export_fold **out, struct error *error)
{
    struct export_fold *fold = NULL;
    const int64_t count = weights_count(model->weights);
    enum status status;
    *out = NULL;
    if ((status = memory_new(1, sizeof *fold, "folded scales", &fold, error)) != STATUS_OK) return status;
    *fold = (struct export_fold){.model = model, .skipped = skipped, .scaled_outputs = scaled_outputs, .written = NONE};
    if ((status = memory_new(count, sizeof *fold->parts, "folded scales", &fold->parts, error)) != STATUS_OK) goto done;
    fold->count = count;
    for (int64_t i = 0; i < count; i++)
        fold->parts[i] = (struct part){.makers = {NONE, NONE}, .feeder = NONE, .feeder_bias = NONE};
    if ((status = plan(fold, error)) != STATUS_OK) goto done;
    fold->skipped = NULL;
    *out = fold;
    fold = NULL;
done:
    export_fold_free(fold);
    return status;
}

static void drop(struct part *part)
{
    if (part->held != NULL) quantized_layer_reset(part->held);
    memory_free(part->held);
    part->held = NULL;
}

void export_fold_free(struct export_fold *fold)
{
    if (fold == NULL) return;
    for (int64_t i = 0; i < fold->count; i++) {
        drop(&fold->parts[i]);
        memory_free(fold->parts[i].divisors);
    }
    memory_free(fold->parts);
    memory_free(fold);
}

/* Linears of one input have the same scales. */
static enum status note(struct export_fold *fold, int64_t tensor, const float *scales, int64_t count,
                        struct error *error)
{
    if (tensor < 0) return STATUS_OK;
    struct part *part = &fold->parts[tensor];
    const size_t size = (size_t)count * sizeof *scales;
    if (part->noted) {
        const bool same = scales == NULL || part->divisors == NULL ? scales == part->divisors
                                                                   : memcmp(part->divisors, scales, size) == 0;
        return same ? STATUS_OK : error_set(error, STATUS_INTERNAL, "linears of one input have different scales");
    }
    part->noted = true;
    if (scales == NULL) return STATUS_OK;
    const enum status status = memory_new(count, sizeof *scales, "folded scales", &part->divisors, error);
    if (status == STATUS_OK) memcpy(part->divisors, scales, size);
    return status;
}

static enum status hold(struct part *part, const struct quantized_layer *layer, struct error *error)
{
    enum status status = memory_new(1, sizeof *part->held, "layer that is held", &part->held, error);
    if (status != STATUS_OK) return status;
    *part->held = (struct quantized_layer){0};
    status = quantized_layer_init(part->held, layer->rows, layer->columns, layer->coding, error);
    if (status != STATUS_OK) return status;
    const size_t weights = (size_t)(layer->rows * layer->columns), groups = (size_t)(layer->rows * layer->groups);
    memcpy(part->held->codes, layer->codes, weights);
    memcpy(part->held->scales, layer->scales, groups * sizeof *layer->scales);
    memcpy(part->held->zeros, layer->zeros, groups);
    memcpy(part->held->g_idx, layer->g_idx, (size_t)layer->columns * sizeof *layer->g_idx);
    return STATUS_OK;
}

static enum status release(struct export_fold *fold, const struct part *fed, const struct quantized_layer *layer,
                           struct export_fold_ready *out, struct error *error)
{
    struct quantized_layer *held = fold->parts[fed->feeder].held;
    if (held == NULL || held->rows != layer->columns)
        return error_set(error, STATUS_INTERNAL, "a linear came before the one that makes its inputs");
    for (int64_t i = 0; layer->column_scales != NULL && i < held->rows * held->groups; i++)
        held->scales[i] /= layer->column_scales[i / held->groups];
    out->tensors[out->count] = fold->written = fed->feeder;
    out->layers[out->count++] = held;
    return note(fold, fed->feeder_bias, layer->column_scales, layer->columns, error);
}

enum status export_fold_layer(struct export_fold *fold, int64_t tensor, const struct quantized_layer *layer,
                              struct export_fold_ready *out, struct error *error)
{
    struct part *part = &fold->parts[tensor];
    enum status status;
    *out = (struct export_fold_ready){0};
    if (fold->written >= 0) drop(&fold->parts[fold->written]);
    fold->written = NONE;
    for (int m = 0; m < MAKERS; m++)
        if ((status = note(fold, part->makers[m], layer->column_scales, layer->columns, error)) != STATUS_OK)
            return status;
    if (part->feeder >= 0 && (status = release(fold, part, layer, out, error)) != STATUS_OK) return status;
    if (part->feeds) return hold(part, layer, error);
    out->tensors[out->count] = tensor;
    out->layers[out->count++] = layer;
    return STATUS_OK;
}

bool export_fold_divides(const struct export_fold *fold, int64_t tensor)
{
    return fold->parts[tensor].divided;
}

int64_t export_fold_block(const struct export_fold *fold, int64_t tensor)
{
    return fold->parts[tensor].block;
}

bool export_fold_is_noted(const struct export_fold *fold, int64_t tensor)
{
    return fold->parts[tensor].divided && fold->parts[tensor].noted;
}

const float *export_fold_divisors(const struct export_fold *fold, int64_t tensor)
{
    return fold->parts[tensor].divisors;
}
