#include "formats/gguf/gguf_model.h"

#include "base/array.h"
#include "formats/gguf/gguf_config.h"
#include "formats/gguf/gguf_split.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_SIZE = 128, LAYERS_MAX = 10000, EXPERTS_MAX = 1024 };

struct gguf_model {
    struct gguf **parts; /* owned */
    int part_count;
    struct gguf_model_tensor *tensors; /* owned; sorted by name */
    int64_t count, capacity;
    char *config; /* owned */
};

enum kind { PLAIN, ROTATED, EXPERTS };

struct naming {
    const char *stored, *name; /* without .weight and .bias; for a layer's tensor without the layer's prefix */
    enum kind kind; /* ROTATED: queries and keys; EXPERTS: a layer's experts in one tensor; `name` is one expert's */
};

static const struct naming ends[] = {
    {"token_embd", "model.embed_tokens", PLAIN}, {"output_norm", "model.norm", PLAIN}, {"output", "lm_head", PLAIN}};

#define COMMON                                                                                  \
    {"attn_q", "self_attn.q_proj", ROTATED}, {"attn_k", "self_attn.k_proj", ROTATED},           \
        {"attn_v", "self_attn.v_proj", PLAIN}, {"attn_output", "self_attn.o_proj", PLAIN},      \
        {"attn_q_norm", "self_attn.q_norm", PLAIN}, {"attn_k_norm", "self_attn.k_norm", PLAIN}, \
        {"ffn_gate", "mlp.gate_proj", PLAIN}, {"ffn_up", "mlp.up_proj", PLAIN},                 \
    {                                                                                           \
        "ffn_down", "mlp.down_proj", PLAIN                                                      \
    }

static const struct naming norms_before[] = {
    COMMON, {"attn_norm", "input_layernorm", PLAIN}, {"ffn_norm", "post_attention_layernorm", PLAIN}, {0}};
static const struct naming norms_after[] = {COMMON,
                                            {"post_attention_norm", "post_attention_layernorm", PLAIN},
                                            {"post_ffw_norm", "post_feedforward_layernorm", PLAIN},
                                            {0}};

static const struct naming experts_before[] = {COMMON,
                                               {"attn_norm", "input_layernorm", PLAIN},
                                               {"ffn_norm", "post_attention_layernorm", PLAIN},
                                               {"ffn_gate_inp", "mlp.gate", PLAIN},
                                               {"ffn_gate_exps", "gate_proj", EXPERTS},
                                               {"ffn_up_exps", "up_proj", EXPERTS},
                                               {"ffn_down_exps", "down_proj", EXPERTS},
                                               {0}};

static const struct layout {
    const char *architecture; /* general.architecture */
    const struct naming *names;
    bool interleaved; /* the converter reorders rows of queries and keys */
} layouts[] = {
    {"llama", norms_before, true}, {"qwen2", norms_before, false},  {"qwen3", norms_before, false},
    {"olmo2", norms_after, false}, {"smollm3", norms_before, true}, {"olmoe", experts_before, false},
};

static const struct layout *find_layout(const char *architecture)
{
    for (size_t i = 0; architecture != NULL && i < sizeof layouts / sizeof layouts[0]; i++)
        if (strcmp(layouts[i].architecture, architecture) == 0) return &layouts[i];
    return NULL;
}

/* "blk.12.rest": sets the layer and returns the rest; NULL for any other name. Layers have no leading zeros. */
static const char *layer_of(const char *name, long *layer)
{
    char *end;
    if (strncmp(name, "blk.", 4) != 0 || name[4] < '0' || name[4] > '9' || (name[4] == '0' && name[5] != '.'))
        return NULL;
    *layer = strtol(name + 4, &end, 10);
    return *end == '.' && *layer < LAYERS_MAX ? end + 1 : NULL;
}

/* The row for `name` without its ".weight" or ".bias"; *ending is set to that. */
static const struct naming *find_naming(const struct naming *rows, size_t count, const char *name, const char **ending)
{
    const char *dot = strchr(name, '.');
    if (dot == NULL || (strcmp(dot, ".weight") != 0 && strcmp(dot, ".bias") != 0)) return NULL;
    *ending = dot;
    for (size_t i = 0; i < count && rows[i].stored != NULL; i++)
        if (strlen(rows[i].stored) == (size_t)(dot - name) && strncmp(rows[i].stored, name, (size_t)(dot - name)) == 0)
            return &rows[i];
    return NULL;
}

/* One tensor of the model: all of `stored`, or the elements of one expert. */
static enum status add_named(struct gguf_model *model, const char *name, struct gguf_model_tensor tensor,
                             struct error *error)
{
    const enum status status =
        array_grow(&model->tensors, model->count + 1, &model->capacity, sizeof *model->tensors, error);
    if (status != STATUS_OK) return status;
    tensor.name = strdup(name);
    if (tensor.name == NULL) return error_set(error, STATUS_NO_MEMORY, "cannot allocate the name of a tensor");
    model->tensors[model->count++] = tensor;
    return STATUS_OK;
}

static enum status add_experts(struct gguf_model *model, struct gguf_model_tensor whole, const char *layer,
                               const char *name, const char *ending, struct error *error)
{
    const int64_t count = whole.stored->shape[0];
    int64_t said = 0;
    char full[2 * NAME_SIZE];
    enum status status = STATUS_OK;
    if (whole.rank != 3 || count > EXPERTS_MAX || !gguf_config_integer(model->parts[0], "expert_count", &said) ||
        said != count)
        return error_set(error, STATUS_INVALID, "%s: tensor \"%.80s\" is not one of %lld experts",
                         file_name(gguf_file(model->parts[whole.part])), whole.stored->name, (long long)said);
    whole.elements /= count;
    whole.bytes /= count;
    whole.rank--;
    whole.shape++;
    for (int64_t i = 0; status == STATUS_OK && i < count; i++) {
        (void)snprintf(full, sizeof full, "%smlp.experts.%d.%s%s", layer, (int)i, name, ending);
        whole.first = i * whole.elements;
        status = add_named(model, full, whole, error);
    }
    return status;
}

static enum status add_tensor(struct gguf_model *model, const struct layout *layout, int part,
                              const struct gguf_tensor *stored, struct error *error)
{
    char name[NAME_SIZE], before[NAME_SIZE / 2] = "";
    const char *ending = NULL, *rest, *file = file_name(gguf_file(model->parts[part]));
    long layer = 0;
    struct gguf_model_tensor tensor = {.stored = stored,
                                       .part = part,
                                       .elements = stored->elements,
                                       .bytes = stored->bytes,
                                       .rank = stored->rank,
                                       .shape = stored->shape};
    const struct naming *row = find_naming(ends, sizeof ends / sizeof ends[0], stored->name, &ending);
    if (row == NULL && (rest = layer_of(stored->name, &layer)) != NULL &&
        (row = find_naming(layout->names, SIZE_MAX, rest, &ending)) != NULL)
        (void)snprintf(before, sizeof before, "model.layers.%ld.", layer);
    if (row == NULL)
        return error_set(error, STATUS_UNSUPPORTED, "%s: tensor \"%.80s\" has no counterpart in the %s architecture",
                         file, stored->name, layout->architecture);
    if (row->kind == EXPERTS) return add_experts(model, tensor, before, row->name, ending, error);
    (void)snprintf(name, sizeof name, "%s%s%s", before, row->name, ending);
    if (row->kind == ROTATED && layout->interleaved) {
        tensor.head_rows = gguf_config_head_rows(model->parts[0]);
        if (tensor.head_rows < 1 || tensor.head_rows % 2 != 0 || stored->shape[0] % tensor.head_rows != 0)
            return error_set(error, STATUS_INVALID,
                             "%s: tensor \"%.80s\" has %lld rows, which are no whole number of heads", file,
                             stored->name, (long long)stored->shape[0]);
    }
    return add_named(model, name, tensor, error);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct gguf_model_tensor *)a)->name, ((const struct gguf_model_tensor *)b)->name);
}

/* ---- the files of a model ---- */

static enum status add_part(struct gguf_model *model, int directory, const char *path, struct error *error)
{
    struct gguf **parts = realloc(model->parts, (size_t)(model->part_count + 1) * sizeof(struct gguf *));
    if (parts == NULL) return error_set(error, STATUS_NO_MEMORY, "cannot allocate a model");
    model->parts = parts;
    const enum status status = gguf_open(directory, path, &model->parts[model->part_count], error);
    if (status == STATUS_OK) model->part_count++;
    return status;
}

/* The metadata of a part must agree with the number in its name: `index`, from 0. */
static enum status check_part(const struct gguf *file, int index, int count, struct error *error)
{
    int64_t number = 0, parts = 0;
    if (!gguf_integer(file, "split.no", &number) || !gguf_integer(file, "split.count", &parts) || number != index ||
        parts != count)
        return error_set(error, STATUS_CORRUPT, "%s says that it is part %lld of %lld, expected %d of %d",
                         file_name(gguf_file(file)), (long long)number + 1, (long long)parts, index + 1, count);
    return STATUS_OK;
}

/* Opens the second part and those after it, and checks that all are parts of one model. */
static enum status open_others(struct gguf_model *model, int directory, const char *path, int count,
                               struct error *error)
{
    int64_t tensors = 0, found = 0;
    char name[4096];
    enum status status;
    for (int i = 1; i < count; i++) {
        if (!gguf_split_name(path, i + 1, name, sizeof name))
            return error_set(error, STATUS_INVALID, "a part's path is too long");
        if ((status = add_part(model, directory, name, error)) != STATUS_OK) return status;
    }
    for (int i = 0; i < count; i++) {
        if ((status = check_part(model->parts[i], i, count, error)) != STATUS_OK) return status;
        found += gguf_count(model->parts[i]);
    }
    if (gguf_integer(model->parts[0], "split.tensors.count", &tensors) && tensors != found)
        return error_set(error, STATUS_CORRUPT, "%s: its parts have %lld tensors, it says %lld",
                         file_name(gguf_file(model->parts[0])), (long long)found, (long long)tensors);
    return STATUS_OK;
}

static enum status open_parts(struct gguf_model *model, int directory, const char *path, struct error *error)
{
    int part = 1, count = 1;
    int64_t parts = 0;
    char name[4096];
    const bool split = gguf_split_read(path, &part, &count);
    enum status status;
    if (split && (part != 1 || count > GGUF_SPLIT_MOST) && gguf_split_name(path, 1, name, sizeof name)) {
        const char *slash = strrchr(name, '/');
        return error_set(error, STATUS_INVALID,
                         "part %d of %d of a split file (at most %d are read); give the first, %s", part, count,
                         GGUF_SPLIT_MOST, slash != NULL ? slash + 1 : name);
    }
    if ((status = add_part(model, directory, path, error)) != STATUS_OK) return status;
    if (!split && gguf_integer(model->parts[0], "split.count", &parts) && parts > 1)
        return error_set(error, STATUS_INVALID,
                         "%s is one of %lld parts and not named as one; name them X-00001-of-%05lld.gguf and on",
                         file_name(gguf_file(model->parts[0])), (long long)parts, (long long)parts);
    return count == 1 ? STATUS_OK : open_others(model, directory, path, count, error);
}

static enum status add_tensors(struct gguf_model *model, struct error *error)
{
    const char *architecture = gguf_text(model->parts[0], "general.architecture"),
               *name = file_name(gguf_file(model->parts[0]));
    const struct layout *layout = find_layout(architecture);
    if (layout == NULL)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: architecture \"%.60s\" is not read from GGUF; read are llama, qwen2, qwen3, olmo2, "
                         "smollm3, olmoe; register the checkpoint as safetensors",
                         name, architecture != NULL ? architecture : "");
    for (int part = 0; part < model->part_count; part++) {
        for (int64_t i = 0; i < gguf_count(model->parts[part]); i++) {
            const struct gguf_tensor *stored = gguf_tensor(model->parts[part], i);
            if (strcmp(stored->name, GGUF_CONFIG_ROPE_TENSOR) == 0) continue; /* read into the configuration */
            const enum status status = add_tensor(model, layout, part, stored, error);
            if (status != STATUS_OK) return status;
        }
    }
    if (model->count > 0) qsort(model->tensors, (size_t)model->count, sizeof *model->tensors, by_name);
    for (int64_t i = 1; i < model->count; i++)
        if (by_name(&model->tensors[i - 1], &model->tensors[i]) == 0)
            return error_set(error, STATUS_CORRUPT, "%s: tensor \"%.80s\" is in two parts", name,
                             model->tensors[i].stored->name);
    return STATUS_OK;
}

enum status gguf_model_open(int directory, const char *path, struct gguf_model **out, struct error *error)
{
    struct gguf_model *model = calloc(1, sizeof *model);
    *out = NULL;
    if (model == NULL) return error_set(error, STATUS_NO_MEMORY, "cannot allocate a model");
    enum status status = open_parts(model, directory, path, error);
    if (status == STATUS_OK) status = add_tensors(model, error);
    if (status == STATUS_OK) status = gguf_config_text(model->parts, model->part_count, &model->config, error);
    if (status == STATUS_OK)
        *out = model;
    else
        gguf_model_close(model);
    return status;
}

void gguf_model_close(struct gguf_model *model)
{
    if (model == NULL) return;
    for (int64_t i = 0; i < model->count; i++) free(model->tensors[i].name);
    free(model->tensors);
    free(model->config);
    for (int i = 0; i < model->part_count; i++) gguf_close(model->parts[i]);
    free(model->parts);
    free(model);
}

int gguf_model_parts(const struct gguf_model *model)
{
    return model->part_count;
}

const struct gguf *gguf_model_part(const struct gguf_model *model, int part)
{
    return model->parts[part];
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

/* In a head of D rows, the file stores row j of the first half at 2 j and row j of the second half at 2 j + 1. */
static int64_t stored_row(int64_t row, int64_t head_rows)
{
    const int64_t within = row % head_rows, half = head_rows / 2;
    return row - within + 2 * (within % half) + within / half;
}

enum status gguf_model_read_f32(const struct gguf_model *model, int64_t index, int64_t first, int64_t count, float *out,
                                struct error *error)
{
    const struct gguf_model_tensor *tensor = &model->tensors[index];
    const struct gguf *file = model->parts[tensor->part];
    const int64_t width = tensor->elements / tensor->shape[0];
    if (first < 0 || count < 0 || first > tensor->elements || count > tensor->elements - first)
        return error_set(error, STATUS_INVALID, "%lld elements from %lld on, of a tensor that has %lld",
                         (long long)count, (long long)first, (long long)tensor->elements);
    if (tensor->head_rows == 0) return gguf_read_f32(file, tensor->stored, tensor->first + first, count, out, error);
    while (count > 0) {
        const int64_t column = first % width, left = width - column, now = count < left ? count : left;
        const int64_t from = stored_row(first / width, tensor->head_rows) * width + column;
        const enum status status = gguf_read_f32(file, tensor->stored, from, now, out, error);
        if (status != STATUS_OK) return status;
        first += now;
        count -= now;
        out += now;
    }
    return STATUS_OK;
}
