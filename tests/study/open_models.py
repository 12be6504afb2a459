"""The models of the plan `open` that differ in their architecture from the llama of all other cells: what of its
configuration is another, by the cell's scale, and how many parameters there are. Standard library only.
"""

import collections

# `config`: (scale, that of the llama) to a whole configuration. `parameters`: (scale) to their number.
Model = collections.namedtuple("Model", "config parameters")

# Of a token's 8 experts 3 work. Each is a third as wide as the llama's MLP, so as many weights work for a token.
EXPERTS, CHOSEN = 8, 3
# A block of mamba has a third of a llama's parameters, so there are twice as many blocks and somewhat more.
STATE, EXPAND, KERNEL = 16, 2, 4
COMMON = ("hidden_size", "vocab_size", "initializer_range", "tie_word_embeddings")


def mixture(scale, llama):
    return {
        **{name: value for name, value in llama.items() if name != "mlp_bias"},
        "model_type": "olmoe",
        "architectures": ["OlmoeForCausalLM"],
        "intermediate_size": scale.hidden,
        "num_experts": EXPERTS,
        "num_experts_per_tok": CHOSEN,
        "norm_topk_prob": True,
    }


def of_mixture(scale):
    """Attention with norms of queries and keys, the router, the experts; two norms a block and one at the end."""
    width = scale.hidden
    block = 4 * width**2 + 2 * width + width * EXPERTS + EXPERTS * 3 * width**2 + 2 * width
    return scale.vocabulary * width + scale.layers * block + width


def state_space(scale, llama):
    return {
        **{name: llama[name] for name in COMMON},
        "model_type": "mamba",
        "architectures": ["MambaForCausalLM"],
        "num_hidden_layers": 2 * scale.layers,
        "state_size": STATE,
        "expand": EXPAND,
        "conv_kernel": KERNEL,
        "layer_norm_epsilon": 1e-5,
    }


def of_state_space(scale):
    """The input's projection, the convolution with its bias, what depends on the input (the rank of the steps is a
    sixteenth of the width), the steps' projection with its bias, the state's rates, the skip, the output's projection;
    a norm a block and one at the end."""
    width, inner = scale.hidden, EXPAND * scale.hidden
    rank = -(-width // 16)
    block = 2 * width * inner + inner * (KERNEL + 1) + inner * (rank + 2 * STATE) + inner * (rank + 1)
    block += inner * STATE + inner + inner * width + width
    return scale.vocabulary * width + 2 * scale.layers * block + width


MODELS = {"mixture": Model(mixture, of_mixture), "state space": Model(state_space, of_state_space)}
