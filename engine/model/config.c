#include "model/config.h"

#include "base/memory.h"
#include "formats/file.h"
#include "formats/json_reader.h"
#include "model/architecture.h"
#include "model/state_space.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define CONFIG_LIMIT (4 << 20) /* bytes of a config.json; real ones have a few kilobytes */

/* The keys as they stand, NAN and -1 where absent: defaults need the architecture, which may come last in the file. */
struct raw_config {
    char model_type[64];
    char activation[32];
    char rope_type[32];
    int64_t vocab_size, hidden_size, intermediate_size, layers, heads, kv_heads, head_dim, positions, bos, eos, pad;
    double rms_norm_eps, layer_norm_eps, initializer_range;
    double rope_theta, rotary_base, partial, rotary_pct, factor, low, high, original_positions;
    int64_t tied, attention_bias, mlp_bias, parallel_residual, use_window, norm_before, norm_removed; /* -1, 0, 1 */
    int64_t embedding_size, experts, experts_per_token, experts_normalised;
    double clip_qkv;
    int64_t window, no_rope_interval;
    struct state_space_raw state_space;
    int64_t rope_layers; /* entries of no_rope_layers; -1: not given */
    uint64_t no_rope[CONFIG_LAYERS_MAX / 64];
    bool quantized;
    uint64_t refused; /* bit i: demands[i] is not met */
};

enum field_type { FIELD_INTEGER, FIELD_NUMBER, FIELD_BOOLEAN, FIELD_TEXT };

struct field {
    const char *key;
    enum field_type type;
    size_t offset, size;
};

#define FIELD(key, type, member)                                                                                                   \
    {                                                                                                                              \
        key, type, offsetof(struct raw_config, member), sizeof(((struct raw_config *)0)->member)                                   \
    }

static const struct field fields[] = {
    FIELD("model_type", FIELD_TEXT, model_type),
    FIELD("hidden_act", FIELD_TEXT, activation),
    FIELD("vocab_size", FIELD_INTEGER, vocab_size),
    FIELD("hidden_size", FIELD_INTEGER, hidden_size),
    FIELD("intermediate_size", FIELD_INTEGER, intermediate_size),
    FIELD("num_hidden_layers", FIELD_INTEGER, layers),
    FIELD("num_attention_heads", FIELD_INTEGER, heads),
    FIELD("num_key_value_heads", FIELD_INTEGER, kv_heads),
    FIELD("head_dim", FIELD_INTEGER, head_dim),
    FIELD("max_position_embeddings", FIELD_INTEGER, positions),
    FIELD("rms_norm_eps", FIELD_NUMBER, rms_norm_eps),
    FIELD("layer_norm_eps", FIELD_NUMBER, layer_norm_eps),
    FIELD("initializer_range", FIELD_NUMBER, initializer_range),
    FIELD("rope_theta", FIELD_NUMBER, rope_theta),
    FIELD("rotary_emb_base", FIELD_NUMBER, rotary_base),
    FIELD("partial_rotary_factor", FIELD_NUMBER, partial),
    FIELD("rotary_pct", FIELD_NUMBER, rotary_pct),
    FIELD("tie_word_embeddings", FIELD_BOOLEAN, tied),
    FIELD("attention_bias", FIELD_BOOLEAN, attention_bias),
    FIELD("mlp_bias", FIELD_BOOLEAN, mlp_bias),
    FIELD("use_parallel_residual", FIELD_BOOLEAN, parallel_residual),
    FIELD("sliding_window", FIELD_INTEGER, window),
    FIELD("use_sliding_window", FIELD_BOOLEAN, use_window),
    FIELD("no_rope_layer_interval", FIELD_INTEGER, no_rope_interval),
    FIELD("layer_norm_epsilon", FIELD_NUMBER, layer_norm_eps),
    FIELD("state_size", FIELD_INTEGER, state_space.state_size),
    FIELD("conv_kernel", FIELD_INTEGER, state_space.conv_kernel),
    FIELD("n_groups", FIELD_INTEGER, state_space.n_groups),
    FIELD("num_heads", FIELD_INTEGER, state_space.num_heads),
    FIELD("expand", FIELD_NUMBER, state_space.expand),
    FIELD("use_bias", FIELD_BOOLEAN, state_space.use_bias),
    FIELD("use_conv_bias", FIELD_BOOLEAN, state_space.use_conv_bias),
    FIELD("num_experts", FIELD_INTEGER, experts),
    FIELD("num_experts_per_tok", FIELD_INTEGER, experts_per_token),
    FIELD("norm_topk_prob", FIELD_BOOLEAN, experts_normalised),
    FIELD("clip_qkv", FIELD_NUMBER, clip_qkv),
    /* GPT-2 and OPT */
    FIELD("n_embd", FIELD_INTEGER, hidden_size),
    FIELD("n_inner", FIELD_INTEGER, intermediate_size),
    FIELD("n_layer", FIELD_INTEGER, layers),
    FIELD("n_head", FIELD_INTEGER, heads),
    FIELD("n_positions", FIELD_INTEGER, positions),
    FIELD("activation_function", FIELD_TEXT, activation),
    FIELD("ffn_dim", FIELD_INTEGER, intermediate_size),
    FIELD("word_embed_proj_dim", FIELD_INTEGER, embedding_size),
    FIELD("do_layer_norm_before", FIELD_BOOLEAN, norm_before),
    FIELD("_remove_final_layer_norm", FIELD_BOOLEAN, norm_removed),
};

static const struct field rope_fields[] = {
    FIELD("rope_type", FIELD_TEXT, rope_type),     FIELD("type", FIELD_TEXT, rope_type),
    FIELD("rope_theta", FIELD_NUMBER, rope_theta), FIELD("partial_rotary_factor", FIELD_NUMBER, partial),
    FIELD("factor", FIELD_NUMBER, factor),         FIELD("low_freq_factor", FIELD_NUMBER, low),
    FIELD("high_freq_factor", FIELD_NUMBER, high), FIELD("original_max_position_embeddings", FIELD_NUMBER, original_positions),
};

static void field_read(struct json_reader *reader, const struct field *field, struct raw_config *raw)
{
    char *at = (char *)raw + field->offset;
    bool flag = false;
    if (json_reader_null(reader)) return;
    switch (field->type) {
    case FIELD_INTEGER:
        json_reader_int64(reader, 0, INT32_MAX, (int64_t *)(void *)at);
        break;
    case FIELD_NUMBER:
        json_reader_double(reader, (double *)(void *)at);
        break;
    case FIELD_BOOLEAN:
        if (json_reader_bool(reader, &flag)) *(int64_t *)(void *)at = flag;
        break;
    case FIELD_TEXT:
        json_reader_string_copy(reader, at, field->size);
        break;
    }
}

static bool fields_read(struct json_reader *reader, struct json_reader_text key, const struct field *table, size_t count,
                        struct raw_config *raw)
{
    for (size_t i = 0; i < count; i++) {
        if (!json_reader_is(key, table[i].key)) continue;
        field_read(reader, &table[i], raw);
        return true;
    }
    return false;
}

static void rope_read(struct json_reader *reader, struct raw_config *raw)
{
    struct json_reader_text key;
    if (json_reader_null(reader)) return;
    json_reader_object(reader);
    while (json_reader_next_key(reader, &key))
        fields_read(reader, key, rope_fields, sizeof rope_fields / sizeof rope_fields[0], raw);
}

/* Special token ids are a number, null, or (newer files) a list whose first entry counts. */
static void special_id_read(struct json_reader *reader, int64_t *out)
{
    if (json_reader_null(reader)) return;
    if (json_reader_peek(reader) != JSON_READER_ARRAY) {
        json_reader_int64(reader, -1, INT32_MAX, out);
        return;
    }
    json_reader_array(reader);
    for (bool first = true; json_reader_next_item(reader); first = false)
        if (first) json_reader_int64(reader, 0, INT32_MAX, out);
}

/* no_rope_layers: 1 where a layer rotates, 0 where it does not. */
static void rope_layers_read(struct json_reader *reader, struct raw_config *raw)
{
    if (json_reader_null(reader)) return;
    json_reader_array(reader);
    for (raw->rope_layers = 0; json_reader_next_item(reader); raw->rope_layers++) {
        int64_t rotates = 1;
        if (raw->rope_layers >= CONFIG_LAYERS_MAX)
            json_reader_fail(reader, STATUS_INVALID, "more than %d layers", CONFIG_LAYERS_MAX);
        if (!json_reader_int64(reader, 0, 1, &rotates)) return;
        if (rotates == 0) raw->no_rope[raw->rope_layers / 64] |= (uint64_t)1 << raw->rope_layers % 64;
    }
}

/* Switches whose other position is another model, which deltaq does not have. Keys mean this for one architecture alone. */
static const struct demand {
    const char *model_type, *key;
    bool wanted;
} demands[] = {
    {"gpt2", "scale_attn_weights", true},
    {"gpt2", "scale_attn_by_inverse_layer_idx", false},
    {"gpt2", "add_cross_attention", false},
    {"opt", "enable_bias", true},
    {"opt", "layer_norm_elementwise_affine", true},
    {"apertus", "qk_norm", true},
    {"apertus", "post_norm", false},
};
enum { DEMANDS = sizeof demands / sizeof demands[0] };
_Static_assert(DEMANDS <= 64, "a bit for each in raw_config");

static bool demand_read(struct json_reader *reader, struct json_reader_text key, struct raw_config *raw)
{
    bool value = false;
    for (int i = 0; i < DEMANDS; i++) {
        if (!json_reader_is(key, demands[i].key)) continue;
        if (!json_reader_null(reader) && json_reader_bool(reader, &value) && value != demands[i].wanted) raw->refused |= 1ull << i;
        return true;
    }
    return false;
}

static enum status demands_check(const char *name, const struct raw_config *raw, const struct architecture *architecture,
                                 struct error *error)
{
    for (int i = 0; i < DEMANDS; i++)
        if ((raw->refused >> i & 1) != 0 && strcmp(architecture->model_type, demands[i].model_type) == 0)
            return error_set(error, STATUS_UNSUPPORTED, "%s: \"%s\" must be %s for %s: deltaq has no other form of it", name,
                             demands[i].key, demands[i].wanted ? "true" : "false", architecture->model_type);
    return STATUS_OK;
}

static enum status raw_parse(const char *name, const char *text, size_t size, struct raw_config *raw, struct error *error)
{
    const struct json_reader_options options = {.not_finite = true};
    struct json_reader reader;
    struct json_reader_text key;
    *raw = (struct raw_config){
        .vocab_size = -1,
        .hidden_size = -1,
        .intermediate_size = -1,
        .layers = -1,
        .heads = -1,
        .kv_heads = -1,
        .head_dim = -1,
        .positions = -1,
        .bos = -1,
        .pad = -1,
        .eos = -1,
        .rms_norm_eps = NAN,
        .layer_norm_eps = NAN,
        .initializer_range = NAN,
        .rope_theta = NAN,
        .rotary_base = NAN,
        .partial = NAN,
        .rotary_pct = NAN,
        .factor = NAN,
        .low = NAN,
        .high = NAN,
        .original_positions = NAN,
        .embedding_size = -1,
        .experts = -1,
        .experts_per_token = -1,
        .experts_normalised = -1,
        .clip_qkv = NAN,
        .norm_before = -1,
        .norm_removed = -1,
        .tied = -1,
        .attention_bias = -1,
        .use_window = -1,
        .window = -1,
        .no_rope_interval = -1,
        .rope_layers = -1,
        .mlp_bias = -1,
        .parallel_residual = -1,
        .state_space = STATE_SPACE_ABSENT,
    };
    json_reader_init(&reader, name, text, size, &options, error);
    json_reader_object(&reader);
    while (json_reader_next_key(&reader, &key)) {
        if (json_reader_is(key, "rope_scaling") || json_reader_is(key, "rope_parameters"))
            rope_read(&reader, raw);
        else if (json_reader_is(key, "pad_token_id"))
            special_id_read(&reader, &raw->pad);
        else if (json_reader_is(key, "no_rope_layers"))
            rope_layers_read(&reader, raw);
        else if (json_reader_is(key, "bos_token_id"))
            special_id_read(&reader, &raw->bos);
        else if (json_reader_is(key, "eos_token_id"))
            special_id_read(&reader, &raw->eos);
        else if (json_reader_is(key, "time_step_rank"))
            state_space_rank_read(&reader, &raw->state_space);
        else if (json_reader_is(key, "time_step_limit"))
            state_space_limit_read(&reader, &raw->state_space);
        else if (json_reader_is(key, "quantization_config"))
            raw->quantized = json_reader_peek(&reader) != JSON_READER_NULL;
        else if (!demand_read(&reader, key, raw))
            fields_read(&reader, key, fields, sizeof fields / sizeof fields[0], raw);
    }
    return json_reader_finish(&reader);
}

static double first_given(double a, double b, double fallback)
{
    return !isnan(a) ? a : !isnan(b) ? b : fallback;
}

static enum status rope_settle(const char *name, const struct raw_config *raw, const struct architecture *architecture,
                               struct rope_config *rope, struct error *error)
{
    static const char *const kinds[] = {"default", "linear", "llama3"};
    int kind = -1;
    rope->theta = first_given(raw->rope_theta, raw->rotary_base, architecture->rope_theta);
    rope->partial = first_given(raw->partial, raw->rotary_pct, architecture->rope_partial);
    for (int i = 0; i < 3; i++)
        if (raw->rope_type[0] == '\0' || strcmp(raw->rope_type, kinds[i]) == 0) {
            kind = i;
            break;
        }
    if (kind < 0)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: rope scaling \"%s\" is not supported; supported are default, linear, llama3", name, raw->rope_type);
    rope->scaling = (enum rope_scaling)kind;
    rope->factor = raw->factor;
    rope->low_frequency_factor = raw->low;
    rope->high_frequency_factor = raw->high;
    rope->original_positions = raw->original_positions;
    const bool factor_missing = rope->scaling != ROPE_SCALING_NONE && !(rope->factor > 0);
    const bool llama3_missing = rope->scaling == ROPE_SCALING_LLAMA3 &&
                                !(rope->high_frequency_factor > rope->low_frequency_factor && rope->original_positions > 0);
    if (factor_missing || llama3_missing)
        return error_set(error, STATUS_INVALID, "%s: rope scaling \"%s\" lacks factors that it needs", name, raw->rope_type);
    if (architecture->rope_partial <= 0) { /* no rotation, whatever the file says */
        rope->theta = 1;
        rope->partial = 0;
        return STATUS_OK;
    }
    if (!(rope->theta > 0) || !(rope->partial > 0 && rope->partial <= 1))
        return error_set(error, STATUS_INVALID, "%s: rope theta %g and partial factor %g are out of range", name, rope->theta,
                         rope->partial);
    return STATUS_OK;
}

static enum status activation_settle(const char *name, const struct raw_config *raw, const struct architecture *architecture,
                                     struct model_config *out, struct error *error)
{
    static const struct {
        const char *name;
        enum activation_kind kind;
    } rows[] = {
        {"silu", ACTIVATION_SILU},          {"swish", ACTIVATION_SILU},          {"gelu", ACTIVATION_GELU},
        {"gelu_new", ACTIVATION_GELU_TANH}, {"gelu_fast", ACTIVATION_GELU_TANH}, {"gelu_pytorch_tanh", ACTIVATION_GELU_TANH},
        {"relu", ACTIVATION_RELU},
    };
    out->activation = architecture->activation;
    out->xielu = architecture->names[ROLE_ACTIVATION] != NULL;
    if (out->xielu && (raw->activation[0] == '\0' || strcmp(raw->activation, "xielu") == 0)) return STATUS_OK;
    if (raw->activation[0] == '\0') return STATUS_OK;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && !out->xielu; i++) {
        if (strcmp(raw->activation, rows[i].name) != 0) continue;
        out->activation = rows[i].kind;
        return STATUS_OK;
    }
    return error_set(error, STATUS_UNSUPPORTED, "%s: activation \"%s\" is not supported for %s", name, raw->activation,
                     architecture->model_type);
}

static int64_t given(int64_t value, int64_t fallback)
{
    return value >= 0 ? value : fallback;
}

static enum status shape_check(const char *name, const struct model_config *c, struct error *error)
{
    const bool state_space = c->architecture->block != BLOCK_ATTENTION;
    const struct {
        const char *key;
        int64_t value;
    } needed[] = {
        {"vocab_size", c->vocabulary_size},
        {"hidden_size", c->hidden_size},
        {"num_hidden_layers", c->layers},
        {"intermediate_size", c->intermediate_size},
        {"num_attention_heads", state_space ? 1 : c->heads},
        {"num_key_value_heads", state_space ? 1 : c->kv_heads},
        {"head_dim", state_space ? 1 : c->head_dim},
        {"max_position_embeddings", c->maximum_positions},
        {"word_embed_proj_dim", c->embedding_size},
    };
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        if (needed[i].value < 1)
            return error_set(error, STATUS_INVALID, "%s: \"%s\" is missing or not positive", name, needed[i].key);
    if (!state_space && c->heads % c->kv_heads != 0)
        return error_set(error, STATUS_INVALID, "%s: %lld attention heads do not share %lld key/value heads evenly", name,
                         (long long)c->heads, (long long)c->kv_heads);
    if (config_rotary(c) % 2 != 0)
        return error_set(error, STATUS_INVALID, "%s: an odd number of rotary columns (%lld)", name, (long long)config_rotary(c));
    if (c->architecture->names[ROLE_ROUTER] != NULL &&
        (c->experts < 2 || c->experts > CONFIG_EXPERTS_MAX || c->experts_per_token < 1 || c->experts_per_token > c->experts))
        return error_set(error, STATUS_UNSUPPORTED, "%s: %lld of %lld experts a token; deltaq takes 2 to %d experts", name,
                         (long long)c->experts_per_token, (long long)c->experts, CONFIG_EXPERTS_MAX);
    if (!(c->norm_epsilon >= 0)) return error_set(error, STATUS_INVALID, "%s: the norm's epsilon is missing or negative", name);
    if (c->layers > CONFIG_LAYERS_MAX || c->hidden_size > 1 << 20 || c->intermediate_size > 1 << 22 || c->head_dim > 1 << 16)
        return error_set(error, STATUS_INVALID, "%s: dimensions are beyond any model", name);
    return STATUS_OK;
}

/* What differs from layer to layer, and the window. */
static void layers_settle(const struct raw_config *raw, struct model_config *out)
{
    const struct architecture *row = out->architecture;
    const bool used = row->window == WINDOW_ALWAYS || (row->window == WINDOW_IF_USED && raw->use_window == 1);
    out->window = used && raw->window > 0 ? raw->window : 0;
    if (row->no_rope_interval == 0) return;
    memcpy(out->no_rope, raw->no_rope, sizeof out->no_rope);
    out->no_rope_interval = raw->rope_layers >= 0 ? 0 : given(raw->no_rope_interval, row->no_rope_interval);
}

bool config_rotates(const struct model_config *config, int64_t layer)
{
    if (config->architecture->rope_partial <= 0) return false;
    if (config->no_rope_interval > 0) return (layer + 1) % config->no_rope_interval != 0;
    return (config->no_rope[layer / 64] >> (layer % 64) & 1) == 0;
}

enum status config_parse(const char *name, const char *text, size_t size, struct model_config *out, struct error *error)
{
    struct raw_config raw;
    enum status status;
    if ((status = raw_parse(name, text, size, &raw, error)) != STATUS_OK) return status;
    if (raw.quantized)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: the checkpoint is already quantized (quantization_config); register the full-precision one", name);
    const struct architecture *architecture = architecture_find(raw.model_type);
    char supported[256];
    if (architecture == NULL)
        return error_set(error, STATUS_UNSUPPORTED, "%s: architecture \"%s\" is not supported; supported are %s", name,
                         raw.model_type, architecture_list(supported, sizeof supported));
    if ((status = demands_check(name, &raw, architecture, error)) != STATUS_OK) return status;
    /* OPT's own: do_layer_norm_before false puts the norms after the sums, and then there is no final one */
    const bool routed = architecture->names[ROLE_ROUTER] != NULL;
    const bool projects = architecture->names[ROLE_PROJECT_IN] != NULL, after_sum = projects && raw.norm_before == 0;
    *out = (struct model_config){
        .architecture = architecture,
        .vocabulary_size = raw.vocab_size,
        .hidden_size = raw.hidden_size,
        .intermediate_size =
            given(raw.intermediate_size, architecture->mlp_ratio > 0 ? architecture->mlp_ratio * raw.hidden_size : -1),
        .layers = raw.layers,
        .heads = raw.heads,
        .kv_heads = given(raw.kv_heads, raw.heads),
        .head_dim = given(raw.head_dim, architecture->head_dim > 0 ? architecture->head_dim
                                        : raw.heads > 0            ? raw.hidden_size / raw.heads
                                                                   : -1),
        .maximum_positions = raw.positions,
        .norm_epsilon = first_given(architecture->norm == NORM_RMS && architecture->block == BLOCK_ATTENTION ? raw.rms_norm_eps
                                                                                                             : raw.layer_norm_eps,
                                    architecture->norm_epsilon, 0),
        .initializer_range = first_given(raw.initializer_range, 0.02, 0.02),
        .tied = given(raw.tied, architecture->tied),
        .attention_bias = given(raw.attention_bias, architecture->attention_bias),
        .mlp_bias = given(raw.mlp_bias, architecture->mlp_bias),
        .embedding_size = projects ? given(raw.embedding_size, raw.hidden_size) : raw.hidden_size,
        .clip = routed ? first_given(raw.clip_qkv, NAN, 0) : 0,
        .experts = routed ? given(raw.experts, architecture->experts) : 0,
        .experts_per_token = routed ? given(raw.experts_per_token, architecture->experts_per_token) : 0,
        .experts_normalised = routed && raw.experts_normalised == 1,
        .norm_after_sum = after_sum,
        .final_norm = !after_sum && !(projects && raw.norm_removed == 1),
        .parallel_residual = given(raw.parallel_residual, architecture->parallel_residual) && architecture->parallel_residual,
        .bos_id = raw.bos,
        .padding_id = architecture->padding_row && raw.pad < raw.vocab_size ? raw.pad : -1,
        .eos_id = raw.eos,
    };
    layers_settle(&raw, out);
    if ((status = rope_settle(name, &raw, architecture, &out->rope, error)) != STATUS_OK) return status;
    if (raw.rope_layers >= 0 && raw.rope_layers != raw.layers && architecture->no_rope_interval > 0)
        return error_set(error, STATUS_INVALID, "%s: no_rope_layers has %lld entries for %lld layers", name,
                         (long long)raw.rope_layers, (long long)raw.layers);
    if ((status = activation_settle(name, &raw, architecture, out, error)) != STATUS_OK) return status;
    raw.state_space.head_dim = raw.head_dim;
    if (architecture->block != BLOCK_ATTENTION && (status = state_space_settle(name, &raw.state_space, out, error)) != STATUS_OK)
        return status;
    if (routed && raw.clip_qkv <= 0)
        return error_set(error, STATUS_INVALID, "%s: clip_qkv is %g; it must be positive or null", name, raw.clip_qkv);
    return shape_check(name, out, error);
}

enum status config_read(const char *directory, struct model_config *out, struct error *error)
{
    char *text = NULL, path[4096];
    size_t size = 0;
    enum status status;
    if (snprintf(path, sizeof path, "%s/config.json", directory) >= (int)sizeof path)
        return error_set(error, STATUS_INVALID, "the checkpoint's path is too long");
    if ((status = file_read_all(AT_FDCWD, path, CONFIG_LIMIT, &text, &size, error)) != STATUS_OK) return status;
    status = config_parse("config.json", text, size, out, error);
    memory_free(text);
    return status;
}

int64_t config_rotary(const struct model_config *config)
{
    return (int64_t)((double)config->head_dim * config->rope.partial);
}

/* RoPE: Su et al., arXiv 2104.09864; "llama3" scaling as Meta released it with Llama 3.1: long wavelengths are slowed by `factor`,
 * short ones kept, those between interpolated. */
void config_rope_frequencies(const struct model_config *config, double *frequencies)
{
    const struct rope_config *rope = &config->rope;
    const int64_t rotary = config_rotary(config);
    for (int64_t j = 0; j < rotary / 2; j++) {
        double f = pow(rope->theta, -2.0 * (double)j / (double)rotary);
        if (rope->scaling == ROPE_SCALING_LINEAR) f /= rope->factor;
        if (rope->scaling == ROPE_SCALING_LLAMA3) {
            const double low = rope->low_frequency_factor, high = rope->high_frequency_factor;
            const double turns = rope->original_positions * f / 6.283185307179586; /* L / wavelength */
            const double s = fmin(1.0, fmax(0.0, (turns - low) / (high - low)));
            f = (1 - s) * f / rope->factor + s * f;
        }
        frequencies[j] = f;
    }
}

const char *config_difference(const struct model_config *a, const struct model_config *b)
{
    const struct {
        const char *name;
        double a, b;
    } rows[] = {
        {"vocab_size", (double)a->vocabulary_size, (double)b->vocabulary_size},
        {"hidden_size", (double)a->hidden_size, (double)b->hidden_size},
        {"intermediate_size", (double)a->intermediate_size, (double)b->intermediate_size},
        {"num_hidden_layers", (double)a->layers, (double)b->layers},
        {"word_embed_proj_dim", (double)a->embedding_size, (double)b->embedding_size},
        {"clip_qkv", a->clip, b->clip},
        {"num_experts", (double)a->experts, (double)b->experts},
        {"num_experts_per_tok", (double)a->experts_per_token, (double)b->experts_per_token},
        {"norm_topk_prob", (double)a->experts_normalised, (double)b->experts_normalised},
        {"do_layer_norm_before", (double)a->norm_after_sum, (double)b->norm_after_sum},
        {"_remove_final_layer_norm", (double)a->final_norm, (double)b->final_norm},
        {"names with and without prefix", (double)a->bare_names, (double)b->bare_names},
        {"num_attention_heads", (double)a->heads, (double)b->heads},
        {"num_key_value_heads", (double)a->kv_heads, (double)b->kv_heads},
        {"head_dim", (double)a->head_dim, (double)b->head_dim},
        {"norm epsilon", a->norm_epsilon, b->norm_epsilon},
        {"hidden_act", (double)a->activation, (double)b->activation},
        {"rope_theta", a->rope.theta, b->rope.theta},
        {"partial_rotary_factor", a->rope.partial, b->rope.partial},
        {"rope_scaling", (double)a->rope.scaling, (double)b->rope.scaling},
        {"rope_scaling factor", a->rope.factor, b->rope.factor},
        {"rope_scaling low_freq_factor", a->rope.low_frequency_factor, b->rope.low_frequency_factor},
        {"rope_scaling high_freq_factor", a->rope.high_frequency_factor, b->rope.high_frequency_factor},
        {"rope_scaling original positions", a->rope.original_positions, b->rope.original_positions},
        {"tie_word_embeddings", (double)a->tied, (double)b->tied},
        {"attention_bias", (double)a->attention_bias, (double)b->attention_bias},
        {"mlp_bias", (double)a->mlp_bias, (double)b->mlp_bias},
        {"use_parallel_residual", (double)a->parallel_residual, (double)b->parallel_residual},
        {"sliding_window", (double)a->window, (double)b->window},
        {"state_size", (double)a->state_space.states, (double)b->state_space.states},
        {"num_heads", (double)a->state_space.heads, (double)b->state_space.heads},
        {"n_groups", (double)a->state_space.groups, (double)b->state_space.groups},
        {"time_step_limit", a->state_space.step_least, b->state_space.step_least},
        {"time_step_limit", a->state_space.step_most, b->state_space.step_most},
    };
    if (a->architecture != b->architecture) return "model_type";
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].a < rows[i].b || rows[i].a > rows[i].b) return rows[i].name;
    for (int64_t layer = 0; layer < a->layers; layer++)
        if (config_rotates(a, layer) != config_rotates(b, layer)) return "no_rope_layers";
    return NULL;
}
