#include "model/config.h"

#include "base/memory.h"
#include "files/file.h"
#include "model/architecture.h"
#include "model/config_raw.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define CONFIG_LIMIT (4 << 20) /* bytes of a config.json; real ones have a few kilobytes */

static double first_given(double a, double b, double fallback)
{
    return !isnan(a) ? a : !isnan(b) ? b : fallback;
}

/* Two names of one setting; which of them Transformers reads depends on the architecture and on its version. */
static enum status names_agree(const char *name, const char *one, double a, const char *other, double b,
                               struct error *error)
{
    if (!(a < b || a > b)) return STATUS_OK;
    return error_set(error, STATUS_INVALID,
                     "%s: \"%s\" is %g and \"%s\" is %g, which mean the same: leave one of them out", name, one, a,
                     other, b);
}

static enum status rope_check(const char *name, const struct config_raw *raw, struct error *error)
{
    if (raw->rope_type[0] == '\0' && !isnan(raw->factor))
        return error_set(error, STATUS_INVALID, "%s: rope scaling has a factor (%g) and no \"rope_type\"", name,
                         raw->factor);
    const double theta = first_given(raw->rope_theta, raw->rotary_base, NAN),
                 partial = first_given(raw->partial, raw->rotary_pct, NAN);
    const struct {
        const char *one;
        double a;
        const char *other;
        double b;
    } pairs[] = {
        {"rope_theta", raw->rope_theta, "rotary_emb_base", raw->rotary_base},
        {"partial_rotary_factor", raw->partial, "rotary_pct", raw->rotary_pct},
        {"rope_theta", theta, "rope_parameters/rope_theta", raw->inner_theta},
        {"partial_rotary_factor", partial, "rope_parameters/partial_rotary_factor", raw->inner_partial},
    };
    enum status status = STATUS_OK;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0] && status == STATUS_OK; i++)
        status = names_agree(name, pairs[i].one, pairs[i].a, pairs[i].other, pairs[i].b, error);
    return status;
}

/* The scaling of architectures whose configuration has one unless it says otherwise. */
static void rope_default(struct config_raw *raw, const struct architecture *architecture)
{
    if (raw->rope_given || !(architecture->rope_llama3.factor > 0)) return;
    (void)snprintf(raw->rope_type, sizeof raw->rope_type, "llama3");
    raw->factor = architecture->rope_llama3.factor;
    raw->low = architecture->rope_llama3.low;
    raw->high = architecture->rope_llama3.high;
    raw->original_positions = architecture->rope_llama3.original_positions;
}

static enum status rope_complete(const char *name, const struct config_raw *raw,
                                 const struct architecture *architecture, struct rope_config *rope, struct error *error)
{
    static const char *const kinds[] = {"default", "linear", "llama3"};
    int kind = -1;
    const enum status status = rope_check(name, raw, error);
    if (status != STATUS_OK) return status;
    rope->theta =
        first_given(raw->rope_theta, raw->rotary_base, first_given(raw->inner_theta, NAN, architecture->rope_theta));
    rope->partial =
        first_given(raw->partial, raw->rotary_pct, first_given(raw->inner_partial, NAN, architecture->rope_partial));
    for (int i = 0; i < 3; i++)
        if (raw->rope_type[0] == '\0' || strcmp(raw->rope_type, kinds[i]) == 0) {
            kind = i;
            break;
        }
    if (kind < 0)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: rope scaling \"%s\" is not supported; supported are default, linear, llama3", name,
                         raw->rope_type);
    rope->scaling = (enum rope_scaling)kind;
    rope->factor = raw->factor;
    rope->low_frequency_factor = raw->low;
    rope->high_frequency_factor = raw->high;
    rope->original_positions = raw->original_positions;
    const bool factor_missing = rope->scaling != ROPE_SCALING_NONE && !(rope->factor > 0);
    const bool llama3_missing =
        rope->scaling == ROPE_SCALING_LLAMA3 &&
        !(rope->high_frequency_factor > rope->low_frequency_factor && rope->original_positions > 0);
    if (factor_missing || llama3_missing)
        return error_set(error, STATUS_INVALID, "%s: rope scaling \"%s\" lacks factors that it needs", name,
                         raw->rope_type);
    if (architecture->rope_partial <= 0) { /* no rotation, whatever the file says */
        rope->theta = 1;
        rope->partial = 0;
        return STATUS_OK;
    }
    if (!(rope->theta > 0) || !(rope->partial > 0 && rope->partial <= 1))
        return error_set(error, STATUS_INVALID, "%s: rope theta %g and partial factor %g are out of range", name,
                         rope->theta, rope->partial);
    return STATUS_OK;
}

static int activation_find(const char *name)
{
    static const struct {
        const char *name;
        enum activation_kind kind;
    } rows[] = {
        {"silu", ACTIVATION_SILU},           {"swish", ACTIVATION_SILU},
        {"gelu", ACTIVATION_GELU},           {"gelu_new", ACTIVATION_GELU_TANH},
        {"gelu_fast", ACTIVATION_GELU_TANH}, {"gelu_pytorch_tanh", ACTIVATION_GELU_TANH},
        {"relu", ACTIVATION_RELU},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(name, rows[i].name) == 0) return (int)rows[i].kind;
    return -1;
}

static enum status activation_complete(const char *name, const struct config_raw *raw,
                                       const struct architecture *architecture, struct model_config *out,
                                       struct error *error)
{
    static const char *const keys[] = {"hidden_act", "activation_function"};
    const bool late = architecture->activation_function;
    const char *said = late ? raw->activation_function : raw->activation;
    const char *unread = late ? raw->activation : raw->activation_function;
    const int kind = activation_find(said);
    out->xielu = architecture->names[ROLE_ACTIVATION] != NULL;
    if (said[0] != '\0' && (out->xielu ? strcmp(said, "xielu") != 0 : kind < 0))
        return error_set(error, STATUS_UNSUPPORTED, "%s: activation \"%s\" is not supported for %s", name, said,
                         architecture->model_type);
    out->activation = kind < 0 ? architecture->activation : (enum activation_kind)kind;
    if (unread[0] == '\0' || out->xielu || activation_find(unread) == (int)out->activation) return STATUS_OK;
    return error_set(error, STATUS_INVALID, "%s: \"%s\" is \"%s\", but the activation of %s is its \"%s\"", name,
                     keys[!late], unread, architecture->model_type, keys[late]);
}

/* A key that the architecture does not read may only repeat what is read. */
static enum status epsilon_check(const char *name, const struct config_raw *raw,
                                 const struct architecture *architecture, double epsilon, struct error *error)
{
    const bool rms = architecture->epsilon_key == EPSILON_RMS;
    const double one = rms ? NAN : raw->layer_norm_eps, other = rms ? NAN : raw->layer_norm_epsilon;
    const enum status status = names_agree(name, "layer_norm_eps", one, "the norms' epsilon", epsilon, error);
    return status != STATUS_OK ? status
                               : names_agree(name, "layer_norm_epsilon", other, "the norms' epsilon", epsilon, error);
}

static double epsilon_of(const struct config_raw *raw, const struct architecture *architecture)
{
    const double values[] = {[EPSILON_RMS] = raw->rms_norm_eps,
                             [EPSILON_LAYER] = raw->layer_norm_eps,
                             [EPSILON_LAYER_LONG] = raw->layer_norm_epsilon,
                             [EPSILON_FIXED] = NAN};
    return first_given(values[architecture->epsilon_key], architecture->norm_epsilon, 0);
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
        return error_set(error, STATUS_INVALID, "%s: %lld attention heads do not share %lld key/value heads evenly",
                         name, (long long)c->heads, (long long)c->kv_heads);
    if (config_rotary(c) % 2 != 0)
        return error_set(error, STATUS_INVALID, "%s: an odd number of rotary columns (%lld)", name,
                         (long long)config_rotary(c));
    if (c->architecture->names[ROLE_ROUTER] != NULL && (c->experts < 2 || c->experts > CONFIG_EXPERTS_MAX ||
                                                        c->experts_per_token < 1 || c->experts_per_token > c->experts))
        return error_set(error, STATUS_UNSUPPORTED, "%s: %lld of %lld experts a token; deltaq takes 2 to %d experts",
                         name, (long long)c->experts_per_token, (long long)c->experts, CONFIG_EXPERTS_MAX);
    if (!(c->norm_epsilon >= 0))
        return error_set(error, STATUS_INVALID, "%s: the norm's epsilon is missing or negative", name);
    if (c->layers > CONFIG_LAYERS_MAX || c->hidden_size > 1 << 20 || c->intermediate_size > 1 << 22 ||
        c->head_dim > 1 << 16)
        return error_set(error, STATUS_INVALID, "%s: dimensions are beyond any model", name);
    return STATUS_OK;
}

/* Which layers rotate. */
static void rotation_complete(const struct config_raw *raw, struct model_config *out)
{
    const struct architecture *row = out->architecture;
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

int64_t config_window(const struct model_config *config, int64_t layer)
{
    return (config->windowed[layer / 64] >> (layer % 64) & 1) != 0 ? config->window : 0;
}

/* The `max_window_layers` of Qwen2 and Qwen3 where config.json lacks it. */
enum { FIRST_WINDOW_LAYER = 28 };

static bool is_windowed(const struct config_raw *raw, const struct model_config *config, int64_t layer)
{
    const enum window_rule rule = config->architecture->window;
    if (rule == WINDOW_ALWAYS) return true;
    if (raw->layer_types >= 0) return (raw->sliding[layer / 64] >> (layer % 64) & 1) != 0;
    return rule == WINDOW_UNROTATED ? !config_rotates(config, layer)
                                    : layer >= given(raw->first_window_layer, FIRST_WINDOW_LAYER);
}

static enum status layer_types_check(const char *name, const struct config_raw *raw, bool used, struct error *error)
{
    uint64_t sliding = 0;
    if (raw->layer_types < 0) return STATUS_OK;
    if (raw->layer_types_odd)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: layer_types names other layers than \"full_attention\" and \"sliding_attention\"", name);
    if (raw->layer_types != raw->layers)
        return error_set(error, STATUS_INVALID, "%s: layer_types has %lld entries for %lld layers", name,
                         (long long)raw->layer_types, (long long)raw->layers);
    for (size_t i = 0; i < sizeof raw->sliding / sizeof raw->sliding[0]; i++) sliding |= raw->sliding[i];
    if (sliding != 0 && !used)
        return error_set(error, STATUS_INVALID,
                         "%s: layer_types names sliding attention, but use_sliding_window is not true", name);
    return STATUS_OK;
}

static bool all_sliding(const struct config_raw *raw)
{
    int64_t count = 0;
    for (size_t i = 0; i < sizeof raw->sliding / sizeof raw->sliding[0]; i++)
        count += __builtin_popcountll(raw->sliding[i]);
    return count == raw->layer_types;
}

/* Which layers have a window; runs after rotation_complete. The rules are those of Transformers' configurations. */
static enum status window_complete(const char *name, const struct config_raw *raw, struct model_config *out,
                                   struct error *error)
{
    const enum window_rule rule = out->architecture->window;
    const bool asked = rule != WINDOW_ALWAYS && rule != WINDOW_NEVER, used = !asked || raw->use_window == 1;
    const enum status status = asked ? layer_types_check(name, raw, used, error) : STATUS_OK;
    if (status != STATUS_OK || rule == WINDOW_NEVER || !used) return status;
    if (!asked && raw->window > 0 && raw->layer_types >= 0 && !all_sliding(raw))
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: layer_types gives some layers no window, which versions of Transformers read differently "
                         "for %s: leave it out, or say \"sliding_window\": null",
                         name, out->architecture->model_type);
    if (asked && raw->window <= 0)
        return error_set(error, STATUS_INVALID, "%s: use_sliding_window is true, but sliding_window is missing or 0",
                         name);
    for (int64_t layer = 0; raw->window > 0 && layer < raw->layers && layer < CONFIG_LAYERS_MAX; layer++) {
        if (!is_windowed(raw, out, layer)) continue;
        out->windowed[layer / 64] |= (uint64_t)1 << layer % 64;
        out->window = raw->window;
    }
    return STATUS_OK;
}

static int64_t padding_of(const struct config_raw *raw, const struct architecture *architecture)
{
    const int64_t absent = architecture->padding_default > 0 ? architecture->padding_default : -1,
                  id = raw->pad == CONFIG_RAW_ABSENT ? absent : raw->pad;
    return architecture->padding_row && id < raw->vocab_size ? id : -1;
}

/* What the architecture and the text say, before it is checked. */
static struct model_config config_of(const struct config_raw *raw, const struct architecture *architecture)
{
    /* OPT alone: do_layer_norm_before false puts the norms after the sums, and then there is no final norm */
    const bool routed = architecture->names[ROLE_ROUTER] != NULL;
    /* a fused projection holds as many keys and values as queries, and its models do not read num_key_value_heads */
    const bool fused = architecture->names[ROLE_QUERY_KEY_VALUE] != NULL;
    const bool projects = architecture->names[ROLE_PROJECT_IN] != NULL, after_sum = projects && raw->norm_before == 0;
    return (struct model_config){
        .architecture = architecture,
        .vocabulary_size = raw->vocab_size,
        .hidden_size = raw->hidden_size,
        .intermediate_size = given(raw->intermediate_size,
                                   architecture->mlp_ratio > 0 ? architecture->mlp_ratio * raw->hidden_size : -1),
        .layers = raw->layers,
        .heads = raw->heads,
        .kv_heads = fused ? raw->heads : given(raw->kv_heads, raw->heads),
        .head_dim = given(raw->head_dim, architecture->head_dim > 0 ? architecture->head_dim
                                         : raw->heads > 0           ? raw->hidden_size / raw->heads
                                                                    : -1),
        .maximum_positions = raw->positions,
        .norm_epsilon = epsilon_of(raw, architecture),
        .initializer_range = first_given(projects ? raw->init_std : NAN, raw->initializer_range,
                                         architecture->initializer_range > 0 ? architecture->initializer_range : 0.02),
        .tied = given(raw->tied, architecture->tied),
        .attention_bias = given(raw->attention_bias, architecture->attention_bias),
        .mlp_bias = given(raw->mlp_bias, architecture->mlp_bias),
        .embedding_size = projects ? given(raw->embedding_size, raw->hidden_size) : raw->hidden_size,
        .clip = routed ? first_given(raw->clip_qkv, NAN, 0) : 0,
        .experts = routed ? given(raw->experts, architecture->experts) : 0,
        .experts_per_token = routed ? given(raw->experts_per_token, architecture->experts_per_token) : 0,
        .experts_normalised = routed && raw->experts_normalised == 1,
        .norm_after_sum = after_sum,
        .final_norm = !after_sum && !(projects && raw->norm_removed == 1),
        .parallel_residual =
            given(raw->parallel_residual, architecture->parallel_residual) && architecture->parallel_residual,
        .bos_id = raw->bos,
        .padding_id = padding_of(raw, architecture),
        .eos_id = raw->eos,
    };
}

/* What takes more than one value of the text, and checks. */
static enum status config_complete(const char *name, struct config_raw *raw, struct model_config *out,
                                   struct error *error)
{
    const struct architecture *architecture = out->architecture;
    enum status status;
    rotation_complete(raw, out);
    rope_default(raw, architecture);
    if (raw->window == CONFIG_RAW_ABSENT) raw->window = architecture->window_default;
    if ((status = window_complete(name, raw, out, error)) != STATUS_OK) return status;
    if ((status = rope_complete(name, raw, architecture, &out->rope, error)) != STATUS_OK) return status;
    if (raw->rope_layers >= 0 && raw->rope_layers != raw->layers && architecture->no_rope_interval > 0)
        return error_set(error, STATUS_INVALID, "%s: no_rope_layers has %lld entries for %lld layers", name,
                         (long long)raw->rope_layers, (long long)raw->layers);
    if ((status = activation_complete(name, raw, architecture, out, error)) != STATUS_OK) return status;
    if ((status = epsilon_check(name, raw, architecture, out->norm_epsilon, error)) != STATUS_OK) return status;
    raw->state_space.head_dim = raw->head_dim;
    if (architecture->block != BLOCK_ATTENTION &&
        (status = state_space_complete(name, &raw->state_space, out, error)) != STATUS_OK)
        return status;
    if (architecture->names[ROLE_ROUTER] != NULL && raw->clip_qkv <= 0)
        return error_set(error, STATUS_INVALID, "%s: clip_qkv is %g; it must be positive or null", name, raw->clip_qkv);
    return shape_check(name, out, error);
}

enum status config_parse(const char *name, const char *text, size_t size, struct model_config *out, struct error *error)
{
    struct config_raw raw;
    enum status status;
    if ((status = config_raw_parse(name, text, size, &raw, error)) != STATUS_OK) return status;
    if (raw.quantized)
        return error_set(
            error, STATUS_UNSUPPORTED,
            "%s: the checkpoint is already quantized (quantization_config); register the full-precision one", name);
    if (raw.per_layer)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: single layers have settings of their own (per_layer_config), which deltaq does not read",
                         name);
    const struct architecture *architecture = architecture_find(raw.model_type);
    char supported[256];
    if (architecture == NULL)
        return error_set(error, STATUS_UNSUPPORTED, "%s: architecture \"%s\" is not supported; supported are %s", name,
                         raw.model_type, architecture_list(supported, sizeof supported));
    if ((status = config_raw_check(name, &raw, architecture, error)) != STATUS_OK) return status;
    *out = config_of(&raw, architecture);
    return config_complete(name, &raw, out, error);
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

/* RoPE: Su et al., arXiv 2104.09864; "llama3" scaling as Meta released it with Llama 3.1: long wavelengths are slowed
 * by `factor`, short ones kept, those between interpolated. */
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
    for (int64_t layer = 0; layer < a->layers; layer++) {
        if (config_rotates(a, layer) != config_rotates(b, layer)) return "no_rope_layers";
        if (config_window(a, layer) != config_window(b, layer)) return "layers with a sliding_window";
    }
    return NULL;
}
