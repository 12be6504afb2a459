#include "model/architecture.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* The names of Llama's tensors, which most architectures use; rows add their own. */
#define LLAMA_NAMES                                                                                                  \
    [ROLE_EMBEDDING] = "model.embed_tokens", [ROLE_FINAL_NORM] = "model.norm", [ROLE_OUTPUT] = "lm_head",            \
    [ROLE_QUERY] = "model.layers.%d.self_attn.q_proj", [ROLE_KEY] = "model.layers.%d.self_attn.k_proj",              \
    [ROLE_VALUE] = "model.layers.%d.self_attn.v_proj", [ROLE_ATTENTION_OUTPUT] = "model.layers.%d.self_attn.o_proj", \
    [ROLE_GATE] = "model.layers.%d.mlp.gate_proj", [ROLE_UP] = "model.layers.%d.mlp.up_proj",                        \
    [ROLE_DOWN] = "model.layers.%d.mlp.down_proj"
#define NORMS_BEFORE                                                             \
    [ROLE_ATTENTION_NORM] = "model.layers.%d.input_layernorm", [ROLE_MLP_NORM] = \
                                                                   "model.layers.%d.post_attention_layernorm"
#define NORMS_AFTER                                                     \
    [ROLE_ATTENTION_NORM] = "model.layers.%d.post_attention_layernorm", \
    [ROLE_MLP_NORM] = "model.layers.%d.post_feedforward_layernorm"
#define QUERY_KEY_NORMS \
    [ROLE_QUERY_NORM] = "model.layers.%d.self_attn.q_norm", [ROLE_KEY_NORM] = "model.layers.%d.self_attn.k_norm"

static const struct architecture llama = {
    .model_type = "llama",
    .norm = NORM_RMS,
    .activation = ACTIVATION_SILU,
    .norm_epsilon = 1e-6,
    .rope_theta = 10000,
    .rope_partial = 1,
    .padding_row = true,
    .names = {LLAMA_NAMES, NORMS_BEFORE},
    .ignored = {".rotary_emb.inv_freq"},
};

static const struct architecture mistral = {
    .model_type = "mistral",
    .norm = NORM_RMS,
    .activation = ACTIVATION_SILU,
    .norm_epsilon = 1e-6,
    .rope_theta = 10000,
    .rope_partial = 1,
    .padding_row = true,
    .window = WINDOW_ALWAYS,
    .window_default = 4096,
    .names = {LLAMA_NAMES, NORMS_BEFORE},
};

static const struct architecture qwen2 = {
    .model_type = "qwen2",
    .norm = NORM_RMS,
    .activation = ACTIVATION_SILU,
    .norm_epsilon = 1e-6,
    .rope_theta = 10000,
    .rope_partial = 1,
    .padding_row = true,
    .attention_bias = true,
    .attention_output_plain = true,
    .window = WINDOW_FROM_LAYER,
    .names = {LLAMA_NAMES, NORMS_BEFORE},
};

static const struct architecture qwen3 = {
    .model_type = "qwen3",
    .norm = NORM_RMS,
    .activation = ACTIVATION_SILU,
    .norm_epsilon = 1e-6,
    .head_dim = 128,
    .rope_theta = 10000,
    .rope_partial = 1,
    .padding_row = true,
    .query_key_norm = QUERY_KEY_NORM_HEAD,
    .window = WINDOW_FROM_LAYER,
    .names = {LLAMA_NAMES, NORMS_BEFORE, QUERY_KEY_NORMS},
};

static const struct architecture opensci = {
    .model_type = "opensci",
    .norm = NORM_RMS,
    .activation = ACTIVATION_SILU,
    .norm_epsilon = 1e-5,
    .rope_theta = 10000,
    .rope_partial = 1,
    .padding_row = true,
    .query_key_norm = QUERY_KEY_NORM_HEAD,
    .names = {LLAMA_NAMES, NORMS_BEFORE, QUERY_KEY_NORMS},
};

static const struct architecture smollm3 = {
    .model_type = "smollm3",
    .norm = NORM_RMS,
    .activation = ACTIVATION_SILU,
    .norm_epsilon = 1e-6,
    .rope_theta = 2e6,
    .rope_partial = 1,
    .padding_row = true,
    .padding_default = 128004,
    .tied = true,
    .window = WINDOW_UNROTATED,
    .no_rope_interval = 4,
    .names = {LLAMA_NAMES, NORMS_BEFORE},
};

static const struct architecture olmo2 = {
    .model_type = "olmo2",
    .norm = NORM_RMS,
    .activation = ACTIVATION_SILU,
    .norm_epsilon = 1e-5,
    .rope_theta = 10000,
    .rope_partial = 1,
    .padding_row = true,
    .padding_default = 1,
    .norm_placement = NORM_AFTER,
    .query_key_norm = QUERY_KEY_NORM_WHOLE,
    .names = {LLAMA_NAMES, NORMS_AFTER, QUERY_KEY_NORMS},
};

static const struct architecture gpt_neox = {
    .model_type = "gpt_neox",
    .norm = NORM_LAYER,
    .activation = ACTIVATION_GELU,
    .norm_epsilon = 1e-5,
    .epsilon_key = EPSILON_LAYER,
    .rope_theta = 10000,
    .rope_partial = 0.25,
    .attention_bias = true,
    .mlp_bias = true,
    .norm_bias = true,
    .parallel_residual = true,
    .names =
        {
            [ROLE_EMBEDDING] = "gpt_neox.embed_in",
            [ROLE_FINAL_NORM] = "gpt_neox.final_layer_norm",
            [ROLE_OUTPUT] = "embed_out",
            [ROLE_ATTENTION_NORM] = "gpt_neox.layers.%d.input_layernorm",
            [ROLE_QUERY_KEY_VALUE] = "gpt_neox.layers.%d.attention.query_key_value",
            [ROLE_ATTENTION_OUTPUT] = "gpt_neox.layers.%d.attention.dense",
            [ROLE_MLP_NORM] = "gpt_neox.layers.%d.post_attention_layernorm",
            [ROLE_UP] = "gpt_neox.layers.%d.mlp.dense_h_to_4h",
            [ROLE_DOWN] = "gpt_neox.layers.%d.mlp.dense_4h_to_h",
        },
    .output_alias = "lm_head",
    .ignored = {".attention.bias", ".attention.masked_bias", ".rotary_emb.inv_freq"},
};

#define STATE_SPACE_NAMES                                                                                       \
    [ROLE_EMBEDDING] = "backbone.embeddings", [ROLE_FINAL_NORM] = "backbone.norm_f", [ROLE_OUTPUT] = "lm_head", \
    [ROLE_ATTENTION_NORM] = "backbone.layers.%d.norm", [ROLE_STATE_INPUT] = "backbone.layers.%d.mixer.in_proj", \
    [ROLE_STATE_CONVOLUTION] = "backbone.layers.%d.mixer.conv1d",                                               \
    [ROLE_STATE_DECAY] = "backbone.layers.%d.mixer.A_log", [ROLE_STATE_SKIP] = "backbone.layers.%d.mixer.D",    \
    [ROLE_STATE_OUTPUT] = "backbone.layers.%d.mixer.out_proj"

static const struct architecture mamba = {
    .model_type = "mamba",
    .block = BLOCK_MAMBA,
    .norm = NORM_RMS,
    .activation = ACTIVATION_SILU,
    .norm_epsilon = 1e-5,
    .epsilon_key = EPSILON_LAYER_LONG,
    .rope_theta = 10000,
    .rope_partial = 1,
    .initializer_range = 0.1,
    .tied = true,
    .names =
        {
            STATE_SPACE_NAMES,
            [ROLE_STATE_SELECTION] = "backbone.layers.%d.mixer.x_proj",
            [ROLE_STATE_STEP] = "backbone.layers.%d.mixer.dt_proj",
        },
    .embedding_alias = "backbone.embedding",
};

static const struct architecture mamba2 = {
    .model_type = "mamba2",
    .block = BLOCK_MAMBA2,
    .norm = NORM_RMS,
    .activation = ACTIVATION_SILU,
    .norm_epsilon = 1e-5,
    .epsilon_key = EPSILON_LAYER_LONG,
    .rope_theta = 10000,
    .rope_partial = 1,
    .initializer_range = 0.1,
    .names =
        {
            STATE_SPACE_NAMES,
            [ROLE_STATE_STEP_BIAS] = "backbone.layers.%d.mixer.dt_bias",
            [ROLE_STATE_GATED_NORM] = "backbone.layers.%d.mixer.norm",
        },
    .embedding_alias = "backbone.embedding",
};

static const struct architecture gpt2 = {
    .model_type = "gpt2",
    .mlp_ratio = 4,
    .norm = NORM_LAYER,
    .activation = ACTIVATION_GELU_TANH,
    .norm_epsilon = 1e-5,
    .epsilon_key = EPSILON_LAYER_LONG,
    .activation_function = true,
    .tied = true,
    .attention_bias = true,
    .mlp_bias = true,
    .norm_bias = true,
    .transposed = true,
    .fused_blocks = true,
    .names =
        {
            [ROLE_EMBEDDING] = "transformer.wte",
            [ROLE_POSITIONS] = "transformer.wpe",
            [ROLE_FINAL_NORM] = "transformer.ln_f",
            [ROLE_OUTPUT] = "lm_head",
            [ROLE_ATTENTION_NORM] = "transformer.h.%d.ln_1",
            [ROLE_QUERY_KEY_VALUE] = "transformer.h.%d.attn.c_attn",
            [ROLE_ATTENTION_OUTPUT] = "transformer.h.%d.attn.c_proj",
            [ROLE_MLP_NORM] = "transformer.h.%d.ln_2",
            [ROLE_UP] = "transformer.h.%d.mlp.c_fc",
            [ROLE_DOWN] = "transformer.h.%d.mlp.c_proj",
        },
    .prefix = "transformer.",
    .ignored = {".attn.bias", ".attn.masked_bias"},
};

static const struct architecture opt = {
    .model_type = "opt",
    .norm = NORM_LAYER,
    .activation = ACTIVATION_RELU,
    .norm_epsilon = 1e-5,
    .epsilon_key = EPSILON_FIXED,
    .activation_function = true,
    .tied = true,
    .attention_bias = true,
    .mlp_bias = true,
    .norm_bias = true,
    .padding_row = true,
    .padding_default = 1,
    .position_offset = 2,
    .names =
        {
            [ROLE_EMBEDDING] = "model.decoder.embed_tokens",
            [ROLE_POSITIONS] = "model.decoder.embed_positions",
            [ROLE_PROJECT_IN] = "model.decoder.project_in",
            [ROLE_PROJECT_OUT] = "model.decoder.project_out",
            [ROLE_FINAL_NORM] = "model.decoder.final_layer_norm",
            [ROLE_OUTPUT] = "lm_head",
            [ROLE_ATTENTION_NORM] = "model.decoder.layers.%d.self_attn_layer_norm",
            [ROLE_QUERY] = "model.decoder.layers.%d.self_attn.q_proj",
            [ROLE_KEY] = "model.decoder.layers.%d.self_attn.k_proj",
            [ROLE_VALUE] = "model.decoder.layers.%d.self_attn.v_proj",
            [ROLE_ATTENTION_OUTPUT] = "model.decoder.layers.%d.self_attn.out_proj",
            [ROLE_MLP_NORM] = "model.decoder.layers.%d.final_layer_norm",
            [ROLE_UP] = "model.decoder.layers.%d.fc1",
            [ROLE_DOWN] = "model.decoder.layers.%d.fc2",
        },
    .prefix = "model.",
};

static const struct architecture apertus = {
    .model_type = "apertus",
    .norm = NORM_RMS,
    .norm_epsilon = 1e-5,
    .rope_theta = 1.2e7,
    .rope_partial = 1,
    .rope_llama3 = {.factor = 8, .low = 1, .high = 4, .original_positions = 8192},
    .padding_row = true,
    .padding_default = 3,
    .query_key_norm = QUERY_KEY_NORM_HEAD,
    .names =
        {
            [ROLE_EMBEDDING] = "model.embed_tokens",
            [ROLE_FINAL_NORM] = "model.norm",
            [ROLE_OUTPUT] = "lm_head",
            [ROLE_ATTENTION_NORM] = "model.layers.%d.attention_layernorm",
            [ROLE_QUERY] = "model.layers.%d.self_attn.q_proj",
            [ROLE_KEY] = "model.layers.%d.self_attn.k_proj",
            [ROLE_VALUE] = "model.layers.%d.self_attn.v_proj",
            QUERY_KEY_NORMS,
            [ROLE_ATTENTION_OUTPUT] = "model.layers.%d.self_attn.o_proj",
            [ROLE_MLP_NORM] = "model.layers.%d.feedforward_layernorm",
            [ROLE_UP] = "model.layers.%d.mlp.up_proj",
            [ROLE_ACTIVATION] = "model.layers.%d.mlp.act_fn",
            [ROLE_DOWN] = "model.layers.%d.mlp.down_proj",
        },
};

static const struct architecture olmoe = {
    .model_type = "olmoe",
    .norm = NORM_RMS,
    .activation = ACTIVATION_SILU,
    .norm_epsilon = 1e-5,
    .rope_theta = 10000,
    .rope_partial = 1,
    .padding_row = true,
    .padding_default = 1,
    .query_key_norm = QUERY_KEY_NORM_WHOLE,
    .experts = 64,
    .experts_per_token = 8,
    .names =
        {
            [ROLE_EMBEDDING] = "model.embed_tokens",
            [ROLE_FINAL_NORM] = "model.norm",
            [ROLE_OUTPUT] = "lm_head",
            NORMS_BEFORE,
            [ROLE_QUERY] = "model.layers.%d.self_attn.q_proj",
            [ROLE_KEY] = "model.layers.%d.self_attn.k_proj",
            [ROLE_VALUE] = "model.layers.%d.self_attn.v_proj",
            QUERY_KEY_NORMS,
            [ROLE_ATTENTION_OUTPUT] = "model.layers.%d.self_attn.o_proj",
            [ROLE_ROUTER] = "model.layers.%d.mlp.gate",
            [ROLE_GATE] = "model.layers.%d.mlp.experts.%d.gate_proj",
            [ROLE_UP] = "model.layers.%d.mlp.experts.%d.up_proj",
            [ROLE_DOWN] = "model.layers.%d.mlp.experts.%d.down_proj",
        },
};

/* An architecture that is built like another one stands after it; recognise.h says why. */
static const struct architecture *const architectures[] = {&llama, &gpt_neox, &olmo2,   &smollm3, &mistral,
                                                           &qwen2, &qwen3,    &opensci, &mamba,   &mamba2,
                                                           &gpt2,  &opt,      &apertus, &olmoe};

const struct architecture *architecture_find(const char *model_type)
{
    for (size_t i = 0; i < sizeof architectures / sizeof architectures[0]; i++)
        if (strcmp(architectures[i]->model_type, model_type) == 0) return architectures[i];
    return NULL;
}

const struct architecture *architecture_at(int index)
{
    return (size_t)index < sizeof architectures / sizeof architectures[0] ? architectures[index] : NULL;
}

const char *architecture_list(char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < sizeof architectures / sizeof architectures[0] && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i == 0 ? "" : ", ", architectures[i]->model_type);
    return text;
}
