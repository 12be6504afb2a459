/* config.h: the configuration of a decoder, as config.json has it, in both spellings that published files use
 * (`rope_theta`, `rope_scaling`, `rotary_pct` … and the newer nested `rope_parameters`). Defaults come from the
 * architecture's row. */
#ifndef MODEL_CONFIG_H
#define MODEL_CONFIG_H

#include "backend/backend.h"
#include "base/error.h"

#include <stdint.h>

struct architecture;

enum { CONFIG_LAYERS_MAX = 1024, CONFIG_EXPERTS_MAX = 74 };

enum rope_scaling { ROPE_SCALING_NONE, ROPE_SCALING_LINEAR, ROPE_SCALING_LLAMA3 };

struct rope_config {
    double theta;
    double partial; /* share of head_dim that rotates */
    enum rope_scaling scaling;
    double factor, low_frequency_factor, high_frequency_factor, original_positions;
};

/* Settings of a state space model; all 0 in other models. */
struct state_space_config {
    int64_t width;  /* channels: expand * hidden_size */
    int64_t heads;  /* width when each channel is its own */
    int64_t groups; /* of heads that share B and C */
    int64_t states; /* of a channel */
    int64_t kernel; /* taps of the convolution */
    int64_t rank;   /* of the step sizes' projection; mamba */
    bool bias;      /* of the projections in and out */
    bool kernel_bias;
    double step_least, step_most;
};

struct model_config {
    const struct architecture *architecture;
    /* columns of the embedding and the output matrix; hidden_size unless there are projections */
    int64_t embedding_size;
    int64_t vocabulary_size, hidden_size, intermediate_size, layers, heads, kv_heads, head_dim, maximum_positions;
    double norm_epsilon;
    double initializer_range;        /* standard deviation of a fresh model's matrices */
    enum activation_kind activation; /* not read when xielu */
    bool xielu;                      /* xIELU with learned numbers instead */
    struct rope_config rope;
    bool tied; /* logits use the embedding matrix */
    bool attention_bias, mlp_bias;
    bool parallel_residual;
    struct state_space_config state_space;
    double clip;                        /* of queries, keys and values; 0: none */
    int64_t experts, experts_per_token; /* 0: no mixture */
    bool experts_normalised;            /* the weights of a token's experts add up to 1 */
    bool norm_after_sum;                /* norm(x + f(x)) in blocks */
    bool final_norm;                    /* the model has a norm after the blocks */
    bool bare_names; /* the file's tensors lack the architecture's prefix (set by model_open, not by config.json) */
    int64_t window;  /* keys a query of a windowed layer sees, itself included; 0: no layer is windowed */
    uint64_t windowed[CONFIG_LAYERS_MAX / 64]; /* bit l: layer l is; see config_window */
    int64_t no_rope_interval; /* layer l has no rotation when (l + 1) is a multiple; 0: as no_rope says */
    uint64_t no_rope[CONFIG_LAYERS_MAX / 64]; /* bit l: layer l has no rotation */
    int64_t bos_id, eos_id;                   /* -1: none */
    int64_t padding_id; /* the token whose embedding gets no gradient as an input (architecture.h); -1: none */
};

/* Whether queries and keys of `layer` are rotated. */
bool config_rotates(const struct model_config *config, int64_t layer);

/* Keys that a query of `layer` sees, itself included; 0: all before it. */
int64_t config_window(const struct model_config *config, int64_t layer);

/* Reads the text of a config.json. `name` names it in messages. STATUS_UNSUPPORTED (an architecture or option that
 * deltaq does not have, an already quantized model), STATUS_INVALID (numbers that do not fit together),
 * STATUS_MALFORMED. */
MUST_CHECK enum status config_parse(const char *name, const char *text, size_t size, struct model_config *out,
                                    struct error *error);

/* Reads `directory`/config.json. STATUS_NOT_FOUND too. */
MUST_CHECK enum status config_read(const char *directory, struct model_config *out, struct error *error);

/* The name of the first setting by which two models with equal tensors would compute different numbers; NULL: there is
 * none. */
const char *config_difference(const struct model_config *a, const struct model_config *b);

/* Columns of a head that rotate: int(partial * head_dim). */
int64_t config_rotary(const struct model_config *config);

/* Inverse frequencies [rotary / 2] after scaling, in radians a position. */
void config_rope_frequencies(const struct model_config *config, double *frequencies);

#endif
