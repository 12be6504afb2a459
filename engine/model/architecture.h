/* architecture.h: decoder architectures as rows of data. A new one is a row in architecture.c (and, if it brings an operation, an
 * op). */
#ifndef MODEL_ARCHITECTURE_H
#define MODEL_ARCHITECTURE_H

#include "backend/backend.h"

/* What a tensor is for. A row names each one it has; names of a layer's tensors hold one %d, the layer. */
enum role {
    ROLE_EMBEDDING,
    ROLE_FINAL_NORM,
    ROLE_OUTPUT, /* absent in a file with tied embeddings */
    ROLE_ATTENTION_NORM,
    ROLE_QUERY,
    ROLE_KEY,
    ROLE_VALUE,
    ROLE_QUERY_KEY_VALUE, /* the three in one, rows ordered [head][q|k|v][head_dim] */
    ROLE_ATTENTION_OUTPUT,
    ROLE_MLP_NORM,
    ROLE_GATE,
    ROLE_UP,
    ROLE_DOWN,
    ROLE_COUNT
};

struct architecture {
    const char *model_type; /* as in config.json */
    enum norm_kind norm;
    enum activation_kind activation;
    double norm_epsilon; /* default; NAN: the key must be there */
    double rope_theta, rope_partial;
    bool tied, attention_bias, mlp_bias; /* defaults for absent keys */
    bool norm_bias;
    /* The published code gives the embedding of pad_token_id no gradient through the inputs (PyTorch's padding_idx), also where the
     * token is an ordinary one. Ours does the same, so that gradients and curvature are those that others measure. */
    bool padding_row;
    bool parallel_residual;        /* x + attention(x) + mlp(x); false: never */
    const char *names[ROLE_COUNT]; /* without .weight/.bias; NULL: has none */
    const char *output_alias;      /* another name of ROLE_OUTPUT in some files; or NULL */
    const char *ignored[5];        /* endings of tensors that old files hold and nobody needs: masks, tables */
};

/* NULL when there is no such row. */
const struct architecture *architecture_find(const char *model_type);
/* "llama, gpt_neox" into `text` of `size` bytes: for messages and listings. Returns text. */
const char *architecture_list(char *text, size_t size);

#endif
