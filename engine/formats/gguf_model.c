#include "formats/gguf_model.h"

#include "base/memory.h"
#include "formats/gguf_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_SIZE = 128, LAYERS_MAX = 10000 };

struct gguf_model {
    struct gguf *file;                 /* owned */
    struct gguf_model_tensor *tensors; /* owned; sorted by name */
    int64_t count;
    char *config; /* owned */
};

struct naming {
    const char *stored, *name; /* without .weight and .bias; those of a layer without what stands before it */
    bool rotated;              /* queries and keys */
};

static const struct naming ends[] = {
    {"token_embd", "model.embed_tokens", false}, {"output_norm", "model.norm", false}, {"output", "lm_head", false}};

#define COMMON                                                                                                                     \
    {"attn_q", "self_attn.q_proj", true}, {"attn_k", "self_attn.k_proj", true}, {"attn_v", "self_attn.v_proj", false},             \
        {"attn_output", "self_attn.o_proj", false}, {"attn_q_norm", "self_attn.q_norm", false},                                    \
        {"attn_k_norm", "self_attn.k_norm", false}, {"ffn_gate", "mlp.gate_proj", false}, {"ffn_up", "mlp.up_proj", false},        \
    {                                                                                                                              \
        "ffn_down", "mlp.down_proj", false                                                                                         \
    }

static const struct naming norms_before[] = {
    COMMON, {"attn_norm", "input_layernorm", false}, {"ffn_norm", "post_attention_layernorm", false}, {0}};
static const struct naming norms_after[] = {COMMON,
                                            {"post_attention_norm", "post_attention_layernorm", false},
                                            {"post_ffw_norm", "post_feedforward_layernorm", false},
                                            {0}};

static const struct layout {
    const char *architecture; /* general.architecture */
    const struct naming *names;
    bool interleaved; /* the converter reorders rows of queries and keys */
} layouts[] = {
    {"llama", norms_before, true}, {"qwen2", norms_before, false},  {"qwen3", norms_before, false},
    {"olmo2", norms_after, false}, {"smollm3", norms_before, true},
};

static const struct layout *find_layout(const char *architecture)
{
    for (size_t i = 0; architecture && i < sizeof layouts / sizeof layouts[0]; i++)
        if (strcmp(layouts[i].architecture, architecture) == 0) return &layouts[i];
    return NULL;
}

/* "blk.12.rest": the layer, and where the rest begins; NULL when it is no such name. Layers have no leading zeros. */
static const char *layer_of(const char *name, long *layer)
{
    char *end;
    if (strncmp(name, "blk.", 4) != 0 || name[4] < '0' || name[4] > '9' || (name[4] == '0' && name[5] != '.')) return NULL;
    *layer = strtol(name + 4, &end, 10);
    return *end == '.' && *layer < LAYERS_MAX ? end + 1 : NULL;
}

/* The row for `name` up to its ".weight" or ".bias", which *ending is set to. */
static const struct naming *find_naming(const struct naming *rows, size_t count, const char *name, const char **ending)
{
    const char *dot = strchr(name, '.');
    if (!dot || (strcmp(dot, ".weight") != 0 && strcmp(dot, ".bias") != 0)) return NULL;
    *ending = dot;
    for (size_t i = 0; i < count && rows[i].stored; i++)
        if (strlen(rows[i].stored) == (size_t)(dot - name) && strncmp(rows[i].stored, name, (size_t)(dot - name)) == 0)
            return &rows[i];
    return NULL;
}

static enum status add_tensor(struct gguf_model *model, const struct layout *layout, const struct gguf_tensor *stored,
                              struct error *error)
{
    char name[NAME_SIZE];
    const char *ending = NULL, *rest;
    long layer = 0;
    const struct naming *row = find_naming(ends, sizeof ends / sizeof ends[0], stored->name, &ending);
    if (row) {
        (void)snprintf(name, sizeof name, "%s%s", row->name, ending);
    } else if ((rest = layer_of(stored->name, &layer)) && (row = find_naming(layout->names, SIZE_MAX, rest, &ending))) {
        (void)snprintf(name, sizeof name, "model.layers.%ld.%s%s", layer, row->name, ending);
    } else {
        return error_set(error, STATUS_UNSUPPORTED, "%s: tensor \"%.80s\" has no counterpart in the %s architecture",
                         file_name(gguf_file(model->file)), stored->name, layout->architecture);
    }
    struct gguf_model_tensor *tensor = &model->tensors[model->count];
    *tensor = (struct gguf_model_tensor){.name = strdup(name), .stored = stored};
    if (!tensor->name) return error_set(error, STATUS_NO_MEMORY, "cannot allocate the name of a tensor");
    model->count++;
    if (!row->rotated || !layout->interleaved) return STATUS_OK;
    tensor->head_rows = gguf_config_head_rows(model->file);
    if (tensor->head_rows > 0 && tensor->head_rows % 2 == 0 && stored->shape[0] % tensor->head_rows == 0) return STATUS_OK;
    return error_set(error, STATUS_INVALID, "%s: tensor \"%.80s\" has %lld rows, which are no whole number of heads",
                     file_name(gguf_file(model->file)), stored->name, (long long)stored->shape[0]);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct gguf_model_tensor *)a)->name, ((const struct gguf_model_tensor *)b)->name);
}

static enum status check_kind(const struct gguf_model *model, const struct layout *layout, const char *architecture,
                              struct error *error)
{
    int64_t parts = 0;
    const char *name = file_name(gguf_file(model->file));
    if (gguf_integer(model->file, "split.count", &parts) && parts > 1)
        return error_set(error, STATUS_UNSUPPORTED, "%s is one of %lld parts; join them with llama-gguf-split --merge", name,
                         (long long)parts);
    if (layout) return STATUS_OK;
    return error_set(error, STATUS_UNSUPPORTED,
                     "%s: architecture \"%.60s\" is not read from GGUF; read are llama, qwen2, qwen3, olmo2, "
                     "smollm3; register the checkpoint as safetensors",
                     name, architecture ? architecture : "");
}

enum status gguf_model_new(struct gguf *file, struct gguf_model **out, struct error *error)
{
    const char *architecture = gguf_text(file, "general.architecture");
    const struct layout *layout = find_layout(architecture);
    enum status status;
    *out = NULL;
    struct gguf_model *model = calloc(1, sizeof *model);
    if (!model) {
        gguf_close(file);
        return error_set(error, STATUS_NO_MEMORY, "cannot allocate a model");
    }
    model->file = file;
    if ((status = check_kind(model, layout, architecture, error)) != STATUS_OK) goto done;
    if ((status = memory_new(gguf_count(file), sizeof *model->tensors, "list of tensors", &model->tensors, error)) != STATUS_OK)
        goto done;
    for (int64_t i = 0; i < gguf_count(file); i++) {
        const struct gguf_tensor *stored = gguf_tensor(file, i);
        if (strcmp(stored->name, GGUF_CONFIG_ROPE_TENSOR) == 0) continue; /* read into the configuration */
        if ((status = add_tensor(model, layout, stored, error)) != STATUS_OK) goto done;
    }
    if (model->count > 0) qsort(model->tensors, (size_t)model->count, sizeof *model->tensors, by_name);
    if ((status = gguf_config_text(file, &model->config, error)) != STATUS_OK) goto done;
    *out = model;
    model = NULL;
done:
    gguf_model_free(model);
    return status;
}

void gguf_model_free(struct gguf_model *model)
{
    if (!model) return;
    for (int64_t i = 0; i < model->count; i++) free(model->tensors[i].name);
    memory_free(model->tensors);
    free(model->config);
    gguf_close(model->file);
    free(model);
}

const struct gguf *gguf_model_file(const struct gguf_model *model)
{
    return model->file;
}

int64_t gguf_model_count(const struct gguf_model *model)
{
    return model->count;
}

const struct gguf_model_tensor *gguf_model_tensor(const struct gguf_model *model, int64_t index)
{
    return &model->tensors[index];
}

const char *gguf_model_config(const struct gguf_model *model)
{
    return model->config;
}

/* Within a head of D rows the file has row j of the first half at 2 j, row j of the second half at 2 j + 1. */
static int64_t stored_row(int64_t row, int64_t head_rows)
{
    const int64_t within = row % head_rows, half = head_rows / 2;
    return row - within + 2 * (within % half) + within / half;
}

enum status gguf_model_read_f32(const struct gguf_model *model, int64_t index, int64_t first, int64_t count, float *out,
                                struct error *error)
{
    const struct gguf_model_tensor *tensor = &model->tensors[index];
    const int64_t width = tensor->stored->elements / tensor->stored->shape[0];
    if (tensor->head_rows == 0 || first < 0 || count < 0 || first > tensor->stored->elements ||
        count > tensor->stored->elements - first)
        return gguf_read_f32(model->file, tensor->stored, first, count, out, error);
    while (count > 0) {
        const int64_t column = first % width, left = width - column, now = count < left ? count : left;
        const int64_t from = stored_row(first / width, tensor->head_rows) * width + column;
        const enum status status = gguf_read_f32(model->file, tensor->stored, from, now, out, error);
        if (status != STATUS_OK) return status;
        first += now;
        count -= now;
        out += now;
    }
    return STATUS_OK;
}
