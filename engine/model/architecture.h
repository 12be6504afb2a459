/* architecture.h: decoder architectures as rows of data. A new one is a row in architecture.c, and an op if it has a
 * new operation. */
#ifndef MODEL_ARCHITECTURE_H
#define MODEL_ARCHITECTURE_H

#include "backend/backend.h"

/* The use of a tensor. A row names the tensors of its architecture; the name of a layer's tensor has one %d, the
 * layer. */
enum role {
    ROLE_EMBEDDING,
    ROLE_POSITIONS,   /* learned ones, added to the embedding */
    ROLE_PROJECT_IN,  /* from narrower embeddings to hidden states, if config.json gives embeddings their own width */
    ROLE_PROJECT_OUT, /* from hidden states back to that width, before the output matrix */
    ROLE_FINAL_NORM,
    ROLE_OUTPUT,         /* absent in a file with tied embeddings */
    ROLE_ATTENTION_NORM, /* before attention, or after it (norm_placement) */
    ROLE_QUERY,
    ROLE_KEY,
    ROLE_VALUE,
    ROLE_QUERY_KEY_VALUE, /* all three in one; fused_blocks says how */
    ROLE_QUERY_NORM,
    ROLE_KEY_NORM,
    ROLE_ATTENTION_OUTPUT,
    ROLE_MLP_NORM,
    ROLE_GATE,
    ROLE_UP,
    ROLE_DOWN,
    ROLE_STATE_INPUT, /* state space models: projections, the convolution between, tensors without an ending */
    ROLE_STATE_CONVOLUTION,
    ROLE_STATE_SELECTION, /* to step sizes, B and C (mamba) */
    ROLE_STATE_STEP,
    ROLE_STATE_STEP_BIAS, /* whole names from here … */
    ROLE_STATE_DECAY,
    ROLE_STATE_SKIP, /* … to here */
    ROLE_STATE_GATED_NORM,
    ROLE_STATE_OUTPUT,
    ROLE_ROUTER,     /* of a mixture of experts, whose gate, up and down have a second %d, the expert */
    ROLE_ACTIVATION, /* xIELU's numbers: alpha_p, alpha_n, beta, eps */
    ROLE_COUNT
};

/* Placement of a block's two norms: x + f(norm(x)), or x + norm(f(x)). (norm(x + f(x)) is model_config's
 * norm_after_sum.) */
enum norm_placement { NORM_BEFORE, NORM_AFTER };

/* The norm of queries and keys before their rotation: none, of each head (one weight of head_dim for all heads), or of
 * the whole projection. */
enum query_key_norm { QUERY_KEY_NORM_NONE, QUERY_KEY_NORM_HEAD, QUERY_KEY_NORM_WHOLE };

/* The layers to which `sliding_window` of config.json applies: none; all; or, with `use_sliding_window`, those from
 * `max_window_layers` on (Qwen2, Qwen3) or those without rotation (SmolLM3). `layer_types` has precedence over the last
 * two rules. */
enum window_rule { WINDOW_NEVER, WINDOW_ALWAYS, WINDOW_FROM_LAYER, WINDOW_UNROTATED };

/* The kind of a block: attention and an MLP, or a selective state space with a decay for each channel and state (Mamba,
 * arXiv 2312.00752) or for each head (Mamba-2, arXiv 2405.21060). */
enum block_kind { BLOCK_ATTENTION, BLOCK_MAMBA, BLOCK_MAMBA2 };

/* Which key of config.json has the norms' epsilon: rms_norm_eps, layer_norm_eps, layer_norm_epsilon, or none. */
enum epsilon_key { EPSILON_RMS, EPSILON_LAYER, EPSILON_LAYER_LONG, EPSILON_FIXED };

struct architecture {
    const char *model_type; /* as in config.json */
    enum block_kind block;
    enum norm_kind norm;
    enum activation_kind activation;
    int64_t head_dim;    /* default; 0: hidden_size / heads */
    int64_t mlp_ratio;   /* intermediate_size over hidden_size if the key is absent; 0: the key is required */
    double norm_epsilon; /* default; NAN: the key is required */
    enum epsilon_key epsilon_key;
    bool activation_function;        /* the activation's key, in place of hidden_act */
    double rope_theta, rope_partial; /* partial 0: no rotation at all */
    struct {
        double factor, low, high, original_positions;
    } rope_llama3;                       /* default scaling where neither of its keys is there; factor 0: none */
    double initializer_range;            /* default; 0: 0.02 */
    bool tied, attention_bias, mlp_bias; /* defaults for absent keys */
    bool norm_bias;
    bool transposed;         /* weights of linear steps are stored as [in, out] */
    bool fused_blocks;       /* ROLE_QUERY_KEY_VALUE has rows [q|k|v][head][head_dim]; false: [head][q|k|v][head_dim] */
    int64_t position_offset; /* rows of ROLE_POSITIONS before that of position 0 */
    bool attention_output_plain; /* only queries, keys and values have attention biases */
    enum norm_placement norm_placement;
    enum query_key_norm query_key_norm;
    enum window_rule window;
    int64_t window_default;             /* of an absent sliding_window; null is none */
    int64_t experts, experts_per_token; /* defaults; with ROLE_ROUTER */
    int64_t no_rope_interval;           /* default: every such layer has no rotation; 0: all have */
    /* The published code gives the embedding of pad_token_id no gradient through the inputs (PyTorch's padding_idx),
     * even where the token is an ordinary one. This code does the same, so that gradients and curvature are those that
     * others measure. */
    bool padding_row;
    int64_t padding_default;       /* of an absent pad_token_id, and null is none; 0: none */
    bool parallel_residual;        /* x + attention(x) + mlp(x); false: never */
    const char *names[ROLE_COUNT]; /* without .weight/.bias; NULL: has none */
    const char *prefix;            /* of all names, which some files leave out; or NULL */
    const char *output_alias;      /* another name of ROLE_OUTPUT in some files; or NULL */
    const char *embedding_alias;   /* of ROLE_EMBEDDING */
    const char *ignored[5];        /* endings of unused tensors in old files: masks, tables */
};

/* NULL when there is no such row. */
const struct architecture *architecture_find(const char *model_type);
/* The row at `index`, from 0 on; NULL behind the last. */
const struct architecture *architecture_at(int index);
/* "llama, gpt_neox" into `text` of `size` bytes: for messages and listings. Returns text. */
const char *architecture_list(char *text, size_t size);

#endif
