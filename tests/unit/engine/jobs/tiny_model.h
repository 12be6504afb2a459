/* tiny_model.h: random checkpoints on disk, in directories of their own. */
#ifndef TINY_MODEL_H
#define TINY_MODEL_H

#include "base/random.h"
#include "engine/files/scratch.h"
#include "formats/safetensors/safetensors_writer.h"
#include "model/decoder.h"

#include <math.h>

static const char tiny_llama[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 50, \"hidden_size\": 32, \"num_attention_heads\": 4,"
    " \"num_key_value_heads\": 2,"
    " \"num_hidden_layers\": 3, \"intermediate_size\": 72, \"hidden_act\": \"silu\", \"rms_norm_eps\": 1e-6,"
    " \"rope_theta\": 10000.0,"
    " \"max_position_embeddings\": 24, \"tie_word_embeddings\": true}";
static const char tiny_gpt_neox[] =
    "{\"model_type\": \"gpt_neox\", \"vocab_size\": 50, \"hidden_size\": 32, \"num_attention_heads\": 4,"
    " \"num_hidden_layers\": 2,"
    " \"intermediate_size\": 128, \"hidden_act\": \"gelu\", \"layer_norm_eps\": 1e-5, \"rotary_pct\": 0.25,"
    " \"rotary_emb_base\": 10000, \"max_position_embeddings\": 24, \"use_parallel_residual\": true,"
    " \"tie_word_embeddings\": false}";

/* The element (0, 0) of the tensor `name` becomes `value`; other seeds give other numbers everywhere. */
static const char tiny_gpt2[] =
    "{\"model_type\": \"gpt2\", \"vocab_size\": 50, \"n_embd\": 32, \"n_layer\": 2, \"n_head\": 2,"
    " \"n_positions\": 24}";
static const char tiny_apertus[] =
    "{\"model_type\": \"apertus\", \"vocab_size\": 50, \"hidden_size\": 32, \"num_hidden_layers\": 2,"
    " \"num_attention_heads\": 4,"
    " \"num_key_value_heads\": 2, \"intermediate_size\": 48, \"max_position_embeddings\": 24}";
/* norms after the sums, embeddings of their own width */
static const char tiny_opt[] =
    "{\"model_type\": \"opt\", \"vocab_size\": 50, \"hidden_size\": 32, \"num_hidden_layers\": 2,"
    " \"num_attention_heads\": 4,"
    " \"ffn_dim\": 48, \"max_position_embeddings\": 24, \"word_embed_proj_dim\": 16, \"do_layer_norm_before\": false}";
static const char tiny_olmoe[] =
    "{\"model_type\": \"olmoe\", \"vocab_size\": 50, \"hidden_size\": 32, \"num_hidden_layers\": 2,"
    " \"num_attention_heads\": 4,"
    " \"intermediate_size\": 16, \"max_position_embeddings\": 24, \"num_experts\": 5, \"num_experts_per_tok\": 2}";
/* statistics of 12 experts take more than a block: two passes */
static const char tiny_olmoe_wide[] =
    "{\"model_type\": \"olmoe\", \"vocab_size\": 50, \"hidden_size\": 32, \"num_hidden_layers\": 2,"
    " \"num_attention_heads\": 4,"
    " \"intermediate_size\": 4, \"max_position_embeddings\": 24, \"num_experts\": 12, \"num_experts_per_tok\": 3}";
static const char tiny_olmoe_single[] =
    "{\"model_type\": \"olmoe\", \"vocab_size\": 50, \"hidden_size\": 32, \"num_hidden_layers\": 1,"
    " \"num_attention_heads\": 4,"
    " \"intermediate_size\": 16, \"max_position_embeddings\": 24, \"num_experts\": 3, \"num_experts_per_tok\": 1}";

struct tiny_change {
    const char *name;
    float value;
    uint64_t seed;
    bool bare;                    /* names without the architecture's prefix */
    const char *between;          /* the last row of this tensor becomes the mean of the first two */
    enum dtype matrices, vectors; /* as which they are stored */
};

static inline void tiny_write(struct scratch *scratch, const char *config_text, struct tiny_change change)
{
    struct error error;
    struct model_config config;
    static struct parameter parameters[128];
    struct safetensors_entry entries[128];
    int64_t shapes[128][2];
    int count = 0;
    struct safetensors_writer *writer = NULL;
    struct decoder_ends ends;
    scratch_open(scratch);
    scratch_write(scratch, "config.json", config_text, strlen(config_text));
    if (config_parse("config.json", config_text, strlen(config_text), &config, &error) != STATUS_OK)
        fail_msg("%s", error.detail);
    config.bare_names = change.bare;
    decoder_ends(&config, &ends);
    const struct parameter *outer[DECODER_ENDS];
    const int outer_count = decoder_ends_list(&ends, config.tied, outer);
    for (int i = 0; i < outer_count; i++) parameters[count++] = *outer[i];
    for (int64_t layer = 0; layer < config.layers; layer++) {
        struct program program;
        decoder_block(&config, layer, &program);
        for (int i = 0; i < program.parameter_count; i++) parameters[count++] = program.parameters[i];
    }
    for (int i = 0; i < count; i++) {
        const bool vector = parameters[i].rows == 1;
        const bool turned = parameters[i].transposed;
        shapes[i][0] = vector || turned ? parameters[i].columns : parameters[i].rows;
        shapes[i][1] = turned ? parameters[i].rows : parameters[i].columns;
        entries[i] = (struct safetensors_entry){parameters[i].name, vector ? change.vectors : change.matrices,
                                                parameters[i].constant ? 0
                                                : vector               ? 1
                                                                       : 2,
                                                shapes[i]};
    }
    assert_int_equal(
        safetensors_writer_open(scratch_path(scratch, "model.safetensors"), entries, count, &writer, &error),
        STATUS_OK);
    for (int i = 0; i < count; i++) {
        const int64_t elements = parameters[i].rows * parameters[i].columns;
        float *values = calloc((size_t)elements, sizeof *values);
        const size_t length = strlen(parameters[i].name);
        const bool bias = length > 5 && strcmp(parameters[i].name + length - 5, ".bias") == 0;
        for (int64_t e = 0; e < elements; e++) {
            const double x = random_normal(17 + change.seed, (uint64_t)i, (uint64_t)e);
            const double matrix = 1.5 * x / sqrt((double)parameters[i].columns);
            values[e] = (float)(parameters[i].rows > 1 ? matrix : bias ? 0.1 * x : 1 + 0.1 * x);
        }
        if (change.name != NULL && strcmp(change.name, parameters[i].name) == 0) values[0] = change.value;
        for (int64_t c = 0;
             change.between != NULL && strcmp(change.between, parameters[i].name) == 0 && c < parameters[i].columns;
             c++)
            values[(parameters[i].rows - 1) * parameters[i].columns + c] =
                (values[c] + values[parameters[i].columns + c]) / 2;
        assert_int_equal(safetensors_writer_f32(writer, i, values, elements, &error), STATUS_OK);
        free(values);
    }
    assert_int_equal(safetensors_writer_commit(writer, &error), STATUS_OK);
    safetensors_writer_close(writer);
}

#endif
