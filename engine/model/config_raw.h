/* config_raw.h: config.json as it is, key by key. The meaning of absent keys depends on the architecture, which may be
 * the file's last key, so config.c completes the configuration afterwards. */
#ifndef MODEL_CONFIG_RAW_H
#define MODEL_CONFIG_RAW_H

#include "model/config.h"
#include "model/state_space.h"

/* A key that is not there, where null says something else. */
enum { CONFIG_RAW_ABSENT = -2 };

/* NAN and -1 where absent or null. */
struct config_raw {
    char model_type[64];
    char activation[32], activation_function[32]; /* hidden_act, and its older name */
    char rope_type[32];
    int64_t vocab_size, hidden_size, intermediate_size, layers, heads, kv_heads, head_dim, positions, bos, eos;
    int64_t pad;    /* -1: null */
    int64_t window; /* 0: null */
    double rms_norm_eps, layer_norm_eps, layer_norm_epsilon, initializer_range, init_std;
    double inner_theta, inner_partial; /* inside rope_scaling or rope_parameters */
    double rope_theta, rotary_base, partial, rotary_pct, factor, low, high, original_positions;
    int64_t tied, attention_bias, mlp_bias, parallel_residual, use_window, norm_before, norm_removed; /* -1, 0, 1 */
    int64_t embedding_size, experts, experts_per_token, experts_normalised;
    double clip_qkv;
    int64_t first_window_layer, no_rope_interval;
    struct state_space_raw state_space;
    int64_t rope_layers; /* entries of no_rope_layers; -1: not given */
    uint64_t no_rope[CONFIG_LAYERS_MAX / 64];
    int64_t layer_types;  /* entries; -1: not given */
    bool layer_types_odd; /* one of them is neither "full_attention" nor "sliding_attention" */
    uint64_t sliding[CONFIG_LAYERS_MAX / 64];
    bool quantized, per_layer; /* has a quantization_config; a per_layer_config that is not empty */
    bool rope_given;           /* rope_scaling or rope_parameters stand there, null too */
    uint64_t refused;          /* bit i: row i of config_raw.c's demands is not met */
};

/* Reads a config.json; `name` is for messages. STATUS_MALFORMED: not JSON; STATUS_INVALID: a value of another type or
 * out of range. */
MUST_CHECK enum status config_raw_parse(const char *name, const char *text, size_t size, struct config_raw *out,
                                        struct error *error);

/* The keys that are read, one after the other, and those inside rope_scaling and rope_parameters; NULL behind the
 * last. */
const char *config_raw_key(size_t index);
const char *config_raw_rope_key(size_t index);

/* STATUS_UNSUPPORTED where a switch of the architecture has a value that deltaq does not implement. */
MUST_CHECK enum status config_raw_check(const char *name, const struct config_raw *raw,
                                        const struct architecture *architecture, struct error *error);

#endif
