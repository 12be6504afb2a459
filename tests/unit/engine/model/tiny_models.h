/* tiny_models.h: random tiny models of every architecture (test_gradient.c holds the list to that), and a few sequences
 * for them: what tests of whole models run on. New ones go to the end: some tests take one by its index. */
#ifndef TINY_MODELS_H
#define TINY_MODELS_H

#include "base/random.h"
#include "model/chunks.h"
#include "model/parameters.h"
#include "unit.h"

#include <string.h>

static const char *const tiny_models[] = {
    "{\"model_type\":\"llama\",\"vocab_size\":17,\"hidden_size\":8,\"num_hidden_layers\":2,\"num_attention_heads\":2,"
    "\"intermediate_size\":10,\"max_position_embeddings\":16}",
    "{\"model_type\":\"llama\",\"vocab_size\":17,\"hidden_size\":8,\"num_hidden_layers\":1,\"num_attention_heads\":4,"
    "\"num_key_value_heads\":2,\"head_dim\":4,\"intermediate_size\":6,\"max_position_embeddings\":16,"
    "\"tie_word_embeddings\":true,"
    "\"attention_bias\":true,\"mlp_bias\":true,\"hidden_act\":\"gelu_new\","
    "\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8.0,\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"
    "\"original_max_position_embeddings\":8}}",
    "{\"model_type\":\"llama\",\"vocab_size\":9,\"hidden_size\":6,\"num_hidden_layers\":3,\"num_attention_heads\":3,"
    "\"num_key_value_heads\":1,\"head_dim\":2,\"intermediate_size\":5,\"max_position_embeddings\":16,"
    "\"hidden_act\":\"relu\"}",
    "{\"model_type\":\"gpt_neox\",\"vocab_size\":17,\"hidden_size\":8,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":2,"
    "\"intermediate_size\":12,\"max_position_embeddings\":16,\"rotary_pct\":0.5}",
    "{\"model_type\":\"gpt_neox\",\"vocab_size\":11,\"hidden_size\":8,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":2,"
    "\"intermediate_size\":9,\"max_position_embeddings\":16,\"use_parallel_residual\":false,\"rotary_pct\":0.5,"
    "\"tie_word_embeddings\":true}",
    "{\"model_type\":\"mamba\",\"initializer_range\":0.02,"
    "\"vocab_size\":13,\"hidden_size\":6,\"num_hidden_layers\":2,\"state_size\":3,"
    "\"time_step_rank\":\"auto\",\"conv_kernel\":3,\"use_bias\":true}",
    "{\"model_type\":\"mamba2\",\"initializer_range\":0.02,"
    "\"vocab_size\":13,\"hidden_size\":6,\"num_hidden_layers\":2,\"state_size\":3,"
    "\"n_groups\":2,"
    "\"num_heads\":4,\"head_dim\":3,\"use_conv_bias\":false,\"time_step_limit\":[0.0,Infinity]}",
    "{\"model_type\":\"gpt2\",\"vocab_size\":13,\"n_embd\":6,\"n_layer\":2,\"n_head\":2,\"n_positions\":16}",
    "{\"model_type\":\"opt\",\"pad_token_id\":null,"
    "\"vocab_size\":13,\"hidden_size\":6,\"num_hidden_layers\":2,\"num_attention_heads\":2,"
    "\"ffn_dim\":7,"
    "\"max_position_embeddings\":16,\"activation_function\":\"gelu\"}",
    "{\"model_type\":\"opt\",\"pad_token_id\":null,"
    "\"vocab_size\":13,\"hidden_size\":6,\"num_hidden_layers\":2,\"num_attention_heads\":2,"
    "\"ffn_dim\":7,"
    "\"max_position_embeddings\":16,\"word_embed_proj_dim\":4,\"do_layer_norm_before\":false,"
    "\"activation_function\":\"gelu\"}",
    "{\"model_type\":\"opt\",\"pad_token_id\":null,"
    "\"vocab_size\":13,\"hidden_size\":6,\"num_hidden_layers\":1,\"num_attention_heads\":2,"
    "\"ffn_dim\":7,"
    "\"max_position_embeddings\":16,\"word_embed_proj_dim\":8,\"tie_word_embeddings\":false}",
    "{\"model_type\":\"apertus\",\"pad_token_id\":null,"
    "\"vocab_size\":13,\"hidden_size\":8,\"num_hidden_layers\":2,\"num_attention_heads\":2,"
    "\"num_key_value_heads\":1,\"intermediate_size\":7,\"max_position_embeddings\":16,\"hidden_act\":\"xielu\"}",
    "{\"model_type\":\"olmoe\",\"pad_token_id\":null,"
    "\"vocab_size\":13,\"hidden_size\":6,\"num_hidden_layers\":2,\"num_attention_heads\":3,"
    "\"intermediate_size\":4,\"max_position_embeddings\":16,\"num_experts\":4,\"num_experts_per_tok\":2,"
    "\"clip_qkv\":0.9}",
    "{\"model_type\":\"olmoe\",\"pad_token_id\":null,"
    "\"vocab_size\":13,\"hidden_size\":6,\"num_hidden_layers\":1,\"num_attention_heads\":3,"
    "\"intermediate_size\":4,\"max_position_embeddings\":16,\"num_experts\":5,\"num_experts_per_tok\":3,"
    "\"norm_topk_prob\":true}",
    "{\"model_type\":\"mistral\",\"vocab_size\":13,\"hidden_size\":8,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":2,\"intermediate_size\":7,\"max_position_embeddings\":16,\"num_key_value_heads\":1,"
    "\"sliding_window\":3}",
    "{\"model_type\":\"qwen2\",\"vocab_size\":13,\"hidden_size\":8,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":2,\"intermediate_size\":7,\"max_position_embeddings\":16,\"num_key_value_heads\":1,"
    "\"use_sliding_window\":true,\"sliding_window\":3,\"max_window_layers\":1}",
    "{\"model_type\":\"qwen3\",\"vocab_size\":13,\"hidden_size\":8,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":2,\"intermediate_size\":7,\"max_position_embeddings\":16,\"num_key_value_heads\":1,"
    "\"head_dim\":6}",
    "{\"model_type\":\"opensci\",\"vocab_size\":13,\"hidden_size\":8,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":2,\"intermediate_size\":7,\"max_position_embeddings\":16}",
    "{\"model_type\":\"smollm3\",\"vocab_size\":13,\"hidden_size\":8,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":2,\"intermediate_size\":7,\"max_position_embeddings\":16,\"num_key_value_heads\":1,"
    "\"no_rope_layer_interval\":2}",
    "{\"model_type\":\"olmo2\",\"pad_token_id\":null,"
    "\"vocab_size\":13,\"hidden_size\":8,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":2,\"intermediate_size\":7,\"max_position_embeddings\":16,\"num_key_value_heads\":1}",
};
enum { TINY_MODELS = sizeof tiny_models / sizeof tiny_models[0] };

static int64_t tiny_starts[] = {0, 7, 9, 20, 26};
static uint32_t tiny_tokens[26];

static inline struct sequences tiny_sequences(const struct model_config *config)
{
    for (size_t t = 0; t < 26; t++) tiny_tokens[t] = (uint32_t)random_below(5, 0, t, (uint64_t)config->vocabulary_size);
    return (struct sequences){4, tiny_starts, tiny_tokens};
}

static inline struct model_config tiny_config(int model)
{
    struct model_config config;
    struct error error;
    if (config_parse("tiny", tiny_models[model], strlen(tiny_models[model]), &config, &error) != STATUS_OK)
        fail_msg("%s", error.detail);
    return config;
}

/* Random everything, norms and biases too, large enough that no term is lost in the others. */
static inline void tiny_randomise(struct parameters *parameters)
{
    double *values = parameters->data;
    for (int64_t i = 0; i < parameters->layout->tensor_count; i++) {
        const struct parameters_tensor *tensor = &parameters->layout->tensors[i];
        const int64_t count = tensor->parameter.rows * tensor->parameter.columns;
        for (int64_t k = 0; k < count; k++)
            values[tensor->offset + k] = tensor->parameter.constant ? tensor->parameter.initial
                                                                    : 0.5 * random_normal(3, (uint64_t)i, (uint64_t)k) +
                                                                          (tensor->decays ? 0 : 0.7);
    }
}

#endif
