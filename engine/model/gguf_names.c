#include "model/gguf_names.h"

#include "model/architecture.h"

#include <stdio.h>
#include <string.h>

static const struct family {
    const char *model_type, *architecture; /* of config.json; general.architecture */
    bool interleaved;                      /* rows of queries and keys */
    const char *attention_norm, *mlp_norm;
} families[] = {
    {"llama", "llama", true, "attn_norm", "ffn_norm"},
    {"mistral", "llama", true, "attn_norm", "ffn_norm"},
    {"qwen2", "qwen2", false, "attn_norm", "ffn_norm"},
    {"qwen3", "qwen3", false, "attn_norm", "ffn_norm"},
    {"olmo2", "olmo2", false, "post_attention_norm", "post_ffw_norm"},
};

static const struct {
    enum role role;
    const char *name; /* NULL: the family's */
} layer_names[] = {
    {ROLE_ATTENTION_NORM, NULL},      {ROLE_MLP_NORM, NULL},
    {ROLE_QUERY, "attn_q"},           {ROLE_KEY, "attn_k"},
    {ROLE_VALUE, "attn_v"},           {ROLE_ATTENTION_OUTPUT, "attn_output"},
    {ROLE_QUERY_NORM, "attn_q_norm"}, {ROLE_KEY_NORM, "attn_k_norm"},
    {ROLE_GATE, "ffn_gate"},          {ROLE_UP, "ffn_up"},
    {ROLE_DOWN, "ffn_down"},
};

static const struct family *family_of(const struct model *model)
{
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
        if (strcmp(families[i].model_type, model->config.architecture->model_type) == 0) return &families[i];
    return NULL;
}

enum status gguf_names_check(const struct model *model, struct error *error)
{
    const struct model_config *config = &model->config;
    const char *type = config->architecture->model_type;
    if (family_of(model) == NULL)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s is not written as GGUF; llama, mistral, qwen2, qwen3 and olmo2 are", type);
    if (config->activation != ACTIVATION_SILU)
        return error_set(error, STATUS_UNSUPPORTED, "GGUF says no activation, and the model's is not silu");
    if (config->window > 0 && strcmp(type, "mistral") != 0)
        return error_set(error, STATUS_UNSUPPORTED, "GGUF has no sliding window for %s", type);
    if (config->rope.scaling == ROPE_SCALING_LLAMA3 && config_rotary(config) / 2 > GGUF_NAMES_DIVISORS)
        return error_set(error, STATUS_UNSUPPORTED, "%lld rotary columns are too many",
                         (long long)config_rotary(config));
    return STATUS_OK;
}

struct visit {
    const struct model *model;
    void (*each)(void *owner, int64_t tensor, const char *name, int64_t head_rows);
    void *owner;
};

/* "base.weight" and "base.bias", as far as they are there. */
static void visit_both(const struct visit *visit, const char *base, const char *stored, int64_t head_rows)
{
    static const char *const endings[] = {"weight", "bias"};
    char name[PARAMETER_NAME + 16], to[GGUF_NAMES_SIZE];
    for (int i = 0; i < 2; i++) {
        (void)snprintf(name, sizeof name, "%s.%s", base, endings[i]);
        (void)snprintf(to, sizeof to, "%s.%s", stored, endings[i]);
        const int64_t tensor = weights_find(visit->model->weights, name);
        if (tensor >= 0) visit->each(visit->owner, tensor, to, head_rows);
    }
}

static void visit_end(const struct visit *visit, const struct parameter *parameter, const char *stored)
{
    const int64_t tensor = parameter->name[0] == '\0' ? -1 : weights_find(visit->model->weights, parameter->name);
    if (tensor >= 0) visit->each(visit->owner, tensor, stored, 0);
}

void gguf_names_each(const struct model *model,
                     void (*each)(void *owner, int64_t tensor, const char *name, int64_t head_rows), void *owner)
{
    const struct visit visit = {model, each, owner};
    const struct family *family = family_of(model);
    const struct architecture *architecture = model->config.architecture;
    const size_t prefix = model->config.bare_names && architecture->prefix != NULL ? strlen(architecture->prefix) : 0;
    visit_end(&visit, &model->ends.embedding, "token_embd.weight");
    visit_end(&visit, &model->ends.norm_weight, "output_norm.weight");
    if (!model->config.tied) visit_end(&visit, &model->ends.output, "output.weight");
    for (int64_t layer = 0; layer < model->config.layers; layer++) {
        for (size_t i = 0; i < sizeof layer_names / sizeof layer_names[0]; i++) {
            const enum role role = layer_names[i].role;
            const char *template = architecture->names[role], *place = template == NULL ? NULL : strstr(template, "%d");
            const char *own = role == ROLE_ATTENTION_NORM ? family->attention_norm : family->mlp_norm;
            char base[PARAMETER_NAME], stored[GGUF_NAMES_SIZE - 8];
            if (place == NULL) continue;
            (void)snprintf(base, sizeof base, "%.*s%lld%s", (int)(place - template), template, (long long)layer,
                           place + 2);
            (void)snprintf(stored, sizeof stored, "blk.%lld.%s", (long long)layer,
                           layer_names[i].name != NULL ? layer_names[i].name : own);
            const bool rotated = role == ROLE_QUERY || role == ROLE_KEY;
            visit_both(&visit, base + prefix, stored, rotated && family->interleaved ? model->config.head_dim : 0);
        }
    }
}

/* In a head of D rows, the file stores row j of the first half at 2 j and row j of the second half at 2 j + 1. */
int64_t gguf_names_row(int64_t stored, int64_t head_rows)
{
    if (head_rows == 0) return stored;
    const int64_t within = stored % head_rows;
    return stored - within + within % 2 * (head_rows / 2) + within / 2;
}

static const char *key_of(const struct family *family, const char *rest, char key[GGUF_NAMES_SIZE])
{
    (void)snprintf(key, GGUF_NAMES_SIZE, "%s.%s", family->architecture, rest);
    return key;
}

void gguf_names_describe(const struct model *model, struct gguf_metadata *metadata)
{
    const struct model_config *config = &model->config;
    const struct family *family = family_of(model);
    const struct {
        const char *key;
        int64_t value;
    } sizes[] = {
        {"vocab_size", config->vocabulary_size},
        {"context_length", config->maximum_positions},
        {"embedding_length", config->hidden_size},
        {"block_count", config->layers},
        {"feed_forward_length", config->intermediate_size},
        {"attention.head_count", config->heads},
        {"attention.head_count_kv", config->kv_heads},
        {"attention.key_length", config->head_dim},
        {"attention.value_length", config->head_dim},
        {"rope.dimension_count", config_rotary(config)},
        {"attention.sliding_window", config->window}, /* 0: none */
    };
    char key[GGUF_NAMES_SIZE];
    gguf_metadata_text(metadata, "general.architecture", family->architecture);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (sizes[i].value > 0)
            gguf_metadata_integer(metadata, key_of(family, sizes[i].key, key), (uint32_t)sizes[i].value);
    gguf_metadata_number(metadata, key_of(family, "attention.layer_norm_rms_epsilon", key),
                         (float)config->norm_epsilon);
    gguf_metadata_number(metadata, key_of(family, "rope.freq_base", key), (float)config->rope.theta);
    if (config->rope.scaling != ROPE_SCALING_LINEAR) return;
    gguf_metadata_text(metadata, key_of(family, "rope.scaling.type", key), "linear");
    gguf_metadata_number(metadata, key_of(family, "rope.scaling.factor", key), (float)config->rope.factor);
}

int64_t gguf_names_divisors(const struct model *model, float divisors[GGUF_NAMES_DIVISORS])
{
    struct model_config plain = model->config;
    double scaled[GGUF_NAMES_DIVISORS], free[GGUF_NAMES_DIVISORS];
    const int64_t count = config_rotary(&plain) / 2;
    if (plain.rope.scaling != ROPE_SCALING_LLAMA3) return 0;
    config_rope_frequencies(&model->config, scaled);
    plain.rope.scaling = ROPE_SCALING_NONE;
    config_rope_frequencies(&plain, free);
    for (int64_t i = 0; i < count; i++) divisors[i] = (float)(free[i] / scaled[i]);
    return count;
}
