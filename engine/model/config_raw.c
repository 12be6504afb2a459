#include "model/config_raw.h"

#include "files/json_reader.h"
#include "model/architecture.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

enum field_type { FIELD_INTEGER, FIELD_NUMBER, FIELD_BOOLEAN, FIELD_TEXT };

struct field {
    const char *key;
    enum field_type type;
    size_t offset, size;
};

#define FIELD(key, type, member)                                                                 \
    {                                                                                            \
        key, type, offsetof(struct config_raw, member), sizeof(((struct config_raw *)0)->member) \
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
    FIELD("init_std", FIELD_NUMBER, init_std), /* OPT's name of it */
    FIELD("rope_theta", FIELD_NUMBER, rope_theta),
    FIELD("rotary_emb_base", FIELD_NUMBER, rotary_base),
    FIELD("partial_rotary_factor", FIELD_NUMBER, partial),
    FIELD("rotary_pct", FIELD_NUMBER, rotary_pct),
    FIELD("tie_word_embeddings", FIELD_BOOLEAN, tied),
    FIELD("attention_bias", FIELD_BOOLEAN, attention_bias),
    FIELD("mlp_bias", FIELD_BOOLEAN, mlp_bias),
    FIELD("use_parallel_residual", FIELD_BOOLEAN, parallel_residual),
    FIELD("use_sliding_window", FIELD_BOOLEAN, use_window),
    FIELD("max_window_layers", FIELD_INTEGER, first_window_layer),
    FIELD("no_rope_layer_interval", FIELD_INTEGER, no_rope_interval),
    FIELD("layer_norm_epsilon", FIELD_NUMBER, layer_norm_epsilon),
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
    FIELD("activation_function", FIELD_TEXT, activation_function),
    FIELD("ffn_dim", FIELD_INTEGER, intermediate_size),
    FIELD("word_embed_proj_dim", FIELD_INTEGER, embedding_size),
    FIELD("do_layer_norm_before", FIELD_BOOLEAN, norm_before),
    FIELD("_remove_final_layer_norm", FIELD_BOOLEAN, norm_removed),
};

static const struct field rope_fields[] = {
    FIELD("rope_type", FIELD_TEXT, rope_type),
    FIELD("type", FIELD_TEXT, rope_type),
    FIELD("rope_theta", FIELD_NUMBER, inner_theta),
    FIELD("partial_rotary_factor", FIELD_NUMBER, inner_partial),
    FIELD("factor", FIELD_NUMBER, factor),
    FIELD("low_freq_factor", FIELD_NUMBER, low),
    FIELD("high_freq_factor", FIELD_NUMBER, high),
    FIELD("original_max_position_embeddings", FIELD_NUMBER, original_positions),
};

/* Sets every field to its value for an absent key. */
static void fields_clear(const struct field *table, size_t count, struct config_raw *raw)
{
    for (size_t i = 0; i < count; i++) {
        char *at = (char *)raw + table[i].offset;
        if (table[i].type == FIELD_NUMBER) *(double *)(void *)at = (double)NAN;
        if (table[i].type == FIELD_INTEGER || table[i].type == FIELD_BOOLEAN) *(int64_t *)(void *)at = -1;
    }
}

static void raw_clear(struct config_raw *raw)
{
    *raw = (struct config_raw){.bos = -1,
                               .pad = CONFIG_RAW_ABSENT,
                               .eos = -1,
                               .window = CONFIG_RAW_ABSENT,
                               .rope_layers = -1,
                               .layer_types = -1,
                               .state_space = STATE_SPACE_ABSENT};
    fields_clear(fields, sizeof fields / sizeof fields[0], raw);
    fields_clear(rope_fields, sizeof rope_fields / sizeof rope_fields[0], raw);
}

static void field_read(struct json_reader *reader, const struct field *field, struct config_raw *raw)
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

static bool fields_read(struct json_reader *reader, struct json_reader_text key, const struct field *table,
                        size_t count, struct config_raw *raw)
{
    for (size_t i = 0; i < count; i++) {
        if (!json_reader_is(key, table[i].key)) continue;
        field_read(reader, &table[i], raw);
        return true;
    }
    return false;
}

static void rope_read(struct json_reader *reader, struct config_raw *raw)
{
    struct json_reader_text key;
    raw->rope_given = true;
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
static void rope_layers_read(struct json_reader *reader, struct config_raw *raw)
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

/* layer_types: "full_attention" or "sliding_attention" for each layer; architectures without a window may have other
 * values, which are not read. */
static void layer_types_read(struct json_reader *reader, struct config_raw *raw)
{
    if (json_reader_null(reader)) return;
    json_reader_array(reader);
    for (raw->layer_types = 0; json_reader_next_item(reader); raw->layer_types++) {
        struct json_reader_text type;
        if (raw->layer_types >= CONFIG_LAYERS_MAX)
            json_reader_fail(reader, STATUS_INVALID, "more than %d layers", CONFIG_LAYERS_MAX);
        if (!json_reader_string(reader, &type)) return;
        if (json_reader_is(type, "sliding_attention"))
            raw->sliding[raw->layer_types / 64] |= (uint64_t)1 << raw->layer_types % 64;
        else if (!json_reader_is(type, "full_attention"))
            raw->layer_types_odd = true;
    }
}

/* Switches whose other value makes another model, which deltaq does not implement. A key has this meaning for one
 * architecture alone. A key stands here once and not in `fields`, where it would no longer be read. */
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

static bool demand_read(struct json_reader *reader, struct json_reader_text key, struct config_raw *raw)
{
    bool value = false;
    for (int i = 0; i < DEMANDS; i++) {
        if (!json_reader_is(key, demands[i].key)) continue;
        if (!json_reader_null(reader) && json_reader_bool(reader, &value) && value != demands[i].wanted)
            raw->refused |= 1ull << i;
        return true;
    }
    return false;
}

enum status config_raw_check(const char *name, const struct config_raw *raw, const struct architecture *architecture,
                             struct error *error)
{
    for (int i = 0; i < DEMANDS; i++)
        if ((raw->refused >> i & 1) != 0 && strcmp(architecture->model_type, demands[i].model_type) == 0)
            return error_set(error, STATUS_UNSUPPORTED, "%s: \"%s\" must be %s for %s: deltaq has no other form of it",
                             name, demands[i].key, demands[i].wanted ? "true" : "false", architecture->model_type);
    return STATUS_OK;
}

static void pad_read(struct json_reader *reader, struct config_raw *raw)
{
    raw->pad = -1; /* null is no token, and no key is the architecture's */
    special_id_read(reader, &raw->pad);
}

static void window_read(struct json_reader *reader, struct config_raw *raw)
{
    raw->window = 0; /* null is no window, and no key is the architecture's */
    if (!json_reader_null(reader)) json_reader_int64(reader, 0, INT32_MAX, &raw->window);
}

static void bos_read(struct json_reader *reader, struct config_raw *raw)
{
    special_id_read(reader, &raw->bos);
}

static void eos_read(struct json_reader *reader, struct config_raw *raw)
{
    special_id_read(reader, &raw->eos);
}

static void step_rank_read(struct json_reader *reader, struct config_raw *raw)
{
    state_space_rank_read(reader, &raw->state_space);
}

static void step_limit_read(struct json_reader *reader, struct config_raw *raw)
{
    state_space_limit_read(reader, &raw->state_space);
}

static void quantized_read(struct json_reader *reader, struct config_raw *raw)
{
    raw->quantized = json_reader_peek(reader) != JSON_READER_NULL;
}

/* Transformers 5: {"3": {"sliding_window": 8}}, other settings or a part left out in single layers. */
static void per_layer_read(struct json_reader *reader, struct config_raw *raw)
{
    struct json_reader_text layer;
    if (json_reader_null(reader)) return;
    json_reader_object(reader);
    while (json_reader_next_key(reader, &layer)) raw->per_layer = true;
}

/* Keys whose values have shapes of their own. */
static const struct special {
    const char *key;
    void (*read)(struct json_reader *reader, struct config_raw *raw);
} specials[] = {
    {"rope_scaling", rope_read},          {"rope_parameters", rope_read},
    {"pad_token_id", pad_read},           {"bos_token_id", bos_read},
    {"eos_token_id", eos_read},           {"no_rope_layers", rope_layers_read},
    {"layer_types", layer_types_read},    {"time_step_rank", step_rank_read},
    {"time_step_limit", step_limit_read}, {"quantization_config", quantized_read},
    {"per_layer_config", per_layer_read}, {"sliding_window", window_read},
};
enum { SPECIALS = sizeof specials / sizeof specials[0], FIELDS = sizeof fields / sizeof fields[0] };

static bool special_read(struct json_reader *reader, struct json_reader_text key, struct config_raw *raw)
{
    for (int i = 0; i < SPECIALS; i++) {
        if (!json_reader_is(key, specials[i].key)) continue;
        specials[i].read(reader, raw);
        return true;
    }
    return false;
}

const char *config_raw_key(size_t index)
{
    if (index < FIELDS) return fields[index].key;
    index -= FIELDS;
    if (index < SPECIALS) return specials[index].key;
    index -= SPECIALS;
    return index < DEMANDS ? demands[index].key : NULL;
}

const char *config_raw_rope_key(size_t index)
{
    return index < sizeof rope_fields / sizeof rope_fields[0] ? rope_fields[index].key : NULL;
}

enum status config_raw_parse(const char *name, const char *text, size_t size, struct config_raw *raw,
                             struct error *error)
{
    const struct json_reader_options options = {.not_finite = true};
    struct json_reader reader;
    struct json_reader_text key;
    raw_clear(raw);
    json_reader_init(&reader, name, text, size, &options, error);
    json_reader_object(&reader);
    while (json_reader_next_key(&reader, &key)) {
        if (!special_read(&reader, key, raw) && !demand_read(&reader, key, raw))
            fields_read(&reader, key, fields, FIELDS, raw);
    }
    return json_reader_finish(&reader);
}
